/*-------------------------------------------------------------------------
 *
 * curl_stream.h
 *	  Transfers of libcurl whose bytes the caller gives or takes piece by piece.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_CURL_STREAM_H
#define EVIDENCE_CURL_STREAM_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct CurlStream CurlStream;

/* A handle with the settings of every transfer to the store: TLS, time limits; NULL without memory. */
extern CURL *store_curl(const char *url);

/* Takes over the handle.  For an upload: CURLOPT_UPLOAD is set by the caller. */
extern CurlStream *curl_stream_new(CURL *curl);

/* Sends bytes; false: the transfer has ended, and its status and curl_stream_error() say why. */
extern bool curl_stream_write(CurlStream *stream, const char *bytes, size_t len);

/* Ends the body and waits for the answer; its HTTP status, 0 without an answer. */
extern long curl_stream_finish(CurlStream *stream);

/* Waits for the head of the answer; its HTTP status, 0 without an answer. */
extern long curl_stream_status(CurlStream *stream);

/* Takes bytes of the answer; 0 at its end, -1 when it was cut. */
extern ssize_t curl_stream_read(CurlStream *stream, char *buffer, size_t size);

extern const char *curl_stream_error(const CurlStream *stream);

/* Also cuts a transfer that is under way. */
extern void curl_stream_free(CurlStream *stream);

#endif							/* EVIDENCE_CURL_STREAM_H */
