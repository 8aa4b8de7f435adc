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
	/* s3_call() sets the members from here on. */
	long		status;			/* HTTP status; 0: no answer */
	char		etag[S3_ETAG_SIZE];
	char		answer[S3_ANSWER_SIZE]; /* the body of the answer with a NUL, cut at this size */
	size_t		answer_len;
	char		why[WHY_SIZE];	/* reason, when the status is not 2xx */
} S3Call;

/* Sets the place of the files: bucket/prefix, or bucket.  False, with a reason, when its form is wrong. */
extern bool s3_open(const char *bucket_and_prefix, char *why);

/* Sends the request, at most three times when the server or the network fails; returns whether the status is 2xx. */
extern bool s3_call(S3Call *call);

/* Sends a GET, whose answer the caller reads from the stream; NULL, with a reason, when it could not be sent. */
extern CurlStream *s3_get(const char *key, struct curl_slist **headers, char *why);

/* Writes the key with the prefix, which is the key in the bucket, to full (KEY_SIZE bytes). */
extern void s3_full_key(const char *key, char *full);

#endif							/* EVIDENCE_S3_CALL_H */
