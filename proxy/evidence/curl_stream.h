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

/*
 * Returns a handle with the settings of every transfer to the store (TLS, time limits); NULL when there is no memory.
 */
extern CURL *store_curl(const char *url);

/* Begins a transfer and becomes the owner of the handle.  For an upload, the caller must set CURLOPT_UPLOAD before. */
extern CurlStream *curl_stream_new(CURL *curl);

/* Sends bytes.  False when the transfer has ended: curl_stream_status() and curl_stream_error() tell the reason. */
extern bool curl_stream_write(CurlStream *stream, const char *bytes, size_t len);

/* Ends the body, waits for the answer and returns its HTTP status; 0: no answer. */
extern long curl_stream_finish(CurlStream *stream);

/* Waits for the head of the answer and returns its HTTP status; 0: no answer. */
extern long curl_stream_status(CurlStream *stream);

/* Reads bytes of the answer and returns their number; 0 at its end, -1 when the answer was cut. */
extern ssize_t curl_stream_read(CurlStream *stream, char *buffer, size_t size);

extern const char *curl_stream_error(const CurlStream *stream);

/* Frees a transfer, and cuts it if it is in progress. */
extern void curl_stream_free(CurlStream *stream);

#endif							/* EVIDENCE_CURL_STREAM_H */
