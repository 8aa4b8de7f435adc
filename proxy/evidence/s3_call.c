/*-------------------------------------------------------------------------
 *
 * s3_call.c
 *	  One request to an S3 server, signed by version 4 of AWS's signatures.
 *
 * libcurl signs (CURLOPT_AWS_SIGV4).  libcurl 7.88 signs the path and the
 * query as they are, so both must be in canonical form: keys have only
 * characters that are never encoded.  The SHA-256 of the body is signed too,
 * so the server refuses a body that was changed on the way.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/s3_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/file.h"
#include "codec/digest.h"
#include "evidence/options.h"

#define URL_SIZE 2048
#define FILE_LIMIT 4096
#define ATTEMPTS 3
#define HEX_SIZE 65

static char bucket[64];
static char prefix[KEY_SIZE / 2];	/* "" or with a slash at its end */

bool
s3_open(const char *bucket_and_prefix, char *why)
{
	size_t		len = strcspn(bucket_and_prefix, "/");

	if (!store_key_valid(bucket_and_prefix) || len < 3 || len >= sizeof(bucket) ||
		strlen(bucket_and_prefix) - len + 1 >= sizeof(prefix))
	{
		snprintf(why, WHY_SIZE, "--store must be s3://BUCKET or s3://BUCKET/PREFIX, of letters, digits and . _ -");
		return false;
	}
	memcpy(bucket, bucket_and_prefix, len);
	if (bucket_and_prefix[len] == '/')
		snprintf(prefix, sizeof(prefix), "%s/", bucket_and_prefix + len + 1);
	return true;
}

void
s3_full_key(const char *key, char *full)
{
	snprintf(full, 2 * KEY_SIZE, "%s%s", prefix, key);
}

/* Returns a handle that signs the request; NULL, with a reason, when the credentials cannot be read. */
static CURL *
signing_curl(const char *method, const char *key, const char *query, const char *body, size_t body_len,
			 struct curl_slist **headers, char *why)
{
	size_t		endpoint_len = strlen(options.s3_endpoint);
	char		url[URL_SIZE];
	char		header[HEX_SIZE + 32] = "x-amz-content-sha256: ";
	char		provider[128];
	CURL	   *curl;
	Arena		arena;
	JsonText	credentials;
	const char *reason;

	if (endpoint_len > 0 && options.s3_endpoint[endpoint_len - 1] == '/')
		endpoint_len--;
	if ((size_t) snprintf(url, sizeof(url), "%.*s/%s%s%s%s%s%s", (int) endpoint_len, options.s3_endpoint, bucket,
						  key == NULL ? "" : "/", key == NULL ? "" : prefix, key == NULL ? "" : key,
						  query[0] == '\0' ? "" : "?", query) >= sizeof(url))
	{
		snprintf(why, WHY_SIZE, "the URL is too long");
		return NULL;
	}
	arena_init(&arena);
	if (!file_read(&arena, options.s3_credentials_file, FILE_LIMIT, &credentials, &reason))
	{
		snprintf(why, WHY_SIZE, "--s3-credentials-file: %s", reason);
		arena_free(&arena);
		return NULL;
	}
	curl = store_curl(url);
	((char *) credentials.bytes)[strcspn(credentials.bytes, "\r\n")] = '\0';
	curl_easy_setopt(curl, CURLOPT_USERPWD, credentials.bytes);
	arena_free(&arena);
	snprintf(provider, sizeof(provider), "aws:amz:%s:s3", options.s3_region);
	curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, provider);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	sha256_hex(body, body_len, header + strlen(header));
	*headers = curl_slist_append(NULL, header);
	if (body != NULL)
		*headers = curl_slist_append(*headers, "Content-Type: application/xml");
	if (*headers == NULL)
		abort();
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, *headers);
	return curl;
}

static size_t
take_answer(char *bytes, size_t size, size_t count, void *state)
{
	S3Call	   *call = state;
	size_t		len = size * count;
	size_t		room = S3_ANSWER_SIZE - 1 - call->answer_len;

	if (room > len)
		room = len;
	memcpy(call->answer + call->answer_len, bytes, room);
	call->answer_len += room;
	return len;
}

static size_t
take_header(char *bytes, size_t size, size_t count, void *state)
{
	S3Call	   *call = state;
	size_t		len = size * count;
	size_t		end = len;

	if (len > 5 && strncasecmp(bytes, "etag:", 5) == 0)
	{
		size_t		start = 5;

		while (start < end && bytes[start] == ' ')
			start++;
		while (end > start && (bytes[end - 1] == '\r' || bytes[end - 1] == '\n'))
			end--;
		snprintf(call->etag, sizeof(call->etag), "%.*s", (int) (end - start), bytes + start);
	}
	return len;
}

/* Sends the request once; returns whether another attempt may help. */
static bool
attempt(S3Call *call)
{
	struct curl_slist *headers = NULL;
	CURL	   *curl = signing_curl(call->method, call->key, call->query, call->body, call->body_len, &headers,
									call->why);
	CURLcode	result;

	call->status = 0;
	call->answer_len = 0;
	call->etag[0] = '\0';
	if (curl == NULL)
		return false;
	if (call->body != NULL)
	{
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) call->body_len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body);
	}
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, call);
	result = curl_easy_perform(curl);
	if (result == CURLE_OK)
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &call->status);
	call->answer[call->answer_len] = '\0';
	if (call->status < 200 || call->status >= 300)
		snprintf(call->why, WHY_SIZE, "S3 %s: code %ld, %.180s", call->method, call->status,
				 result == CURLE_OK ? call->answer : curl_easy_strerror(result));
	curl_easy_cleanup(curl);
	curl_slist_free_all(headers);
	return call->status == 0 || call->status == 429 || call->status >= 500;
}

static void
pause_ms(long ms)
{
	struct timespec pause = {.tv_nsec = ms * 1000 * 1000};

	nanosleep(&pause, NULL);
}

bool
s3_call(S3Call *call)
{
	for (int i = 0; i < ATTEMPTS; i++)
	{
		bool		again = attempt(call);

		if (call->status >= 200 && call->status < 300)
			return true;
		if (!again)
			break;
		pause_ms(100L * (i + 1));
	}
	return false;
}

CurlStream *
s3_get(const char *key, struct curl_slist **headers, char *why)
{
	CURL	   *curl = signing_curl("GET", key, "", NULL, 0, headers, why);

	return curl == NULL ? NULL : curl_stream_new(curl);
}
