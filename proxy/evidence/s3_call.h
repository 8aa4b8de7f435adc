/*-------------------------------------------------------------------------
 *
 * s3_call.h
 *	  One request to an S3 server, signed by version 4 of AWS's signatures.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_S3_CALL_H
#define EVIDENCE_S3_CALL_H

#include "evidence/curl_stream.h"
#include "evidence/store.h"

#define S3_ANSWER_SIZE ((size_t) 64 * 1024)
#define S3_ETAG_SIZE 128

typedef struct S3Call
{
	const char *method;
	const char *key;			/* NULL: the bucket */
	const char *query;			/* in canonical form: sorted, encoded, with a = for each name; "" for none */
	const char *body;
	size_t		body_len;
	long		status;			/* set: 0 without an answer */
	char		etag[S3_ETAG_SIZE]; /* set */
	char		answer[S3_ANSWER_SIZE]; /* set: the body of the answer with a NUL, cut at the size */
	size_t		answer_len;
	char		why[WHY_SIZE];	/* set when the status is not 2xx */
} S3Call;

/* bucket/prefix, or bucket; false with a reason when the place cannot be used. */
extern bool s3_open(const char *bucket_and_prefix, char *why);

/* Sends the request, again when the server or the network fails, at most three times; whether the status is 2xx. */
extern bool s3_call(S3Call *call);

/* The same for the body of a GET, which the caller takes; NULL with a reason when it could not be sent. */
extern CurlStream *s3_get(const char *key, struct curl_slist **headers, char *why);

/* The key with the prefix, as the bucket knows it. */
extern void s3_full_key(const char *key, char *full);

#endif							/* EVIDENCE_S3_CALL_H */
