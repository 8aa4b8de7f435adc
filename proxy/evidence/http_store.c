/*-------------------------------------------------------------------------
 *
 * http_store.c
 *	  Files of evidence that are sent on to another server.
 *
 * The other server gets the request in the protocol of the Compliance
 * Operator's result server.  A file that was sent on can be neither read back
 * nor removed by this program.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "evidence/curl_stream.h"
#include "evidence/options.h"
#include "evidence/store.h"

#define HEADER_SIZE 512

struct StoreWriter
{
	CurlStream *stream;
	struct curl_slist *headers;
};

static void
close_transfer(StoreWriter *writer)
{
	curl_stream_free(writer->stream);
	curl_slist_free_all(writer->headers);
	free(writer);
}

static StoreOutcome
open_transfer(StoreWriter **writer, const StoreFile *file, char *why)
{
	StoreWriter *fresh = allocate(sizeof(StoreWriter));
	CURL	   *curl = store_curl(options.store);
	char		name[HEADER_SIZE];

	snprintf(name, sizeof(name), "X-Report-Name: %s", file->name);
	fresh->headers = curl_slist_append(NULL, name);
	fresh->headers = curl_slist_append(fresh->headers, "Content-Type: application/xml");
	fresh->headers = curl_slist_append(fresh->headers, "Expect:");
	if (file->encoding[0] != '\0')
	{
		char		encoding[HEADER_SIZE];

		snprintf(encoding, sizeof(encoding), "Content-Encoding: %s", file->encoding);
		fresh->headers = curl_slist_append(fresh->headers, encoding);
	}
	if (file->bytes < 0)
		fresh->headers = curl_slist_append(fresh->headers, "Transfer-Encoding: chunked");
	if (fresh->headers == NULL)
		abort();
	curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "POST");
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fresh->headers);
	/* The sender may be slow: watchdog.c checks its rate, so libcurl must not check it. */
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 0L);
	if (file->bytes >= 0)
		curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t) file->bytes);
	fresh->stream = curl_stream_new(curl);
	*writer = fresh;
	return STORE_OK;
}

static StoreOutcome
judge(const StoreWriter *writer, long status, char *why)
{
	if (status >= 200 && status < 300)
		return STORE_OK;
	snprintf(why, WHY_SIZE, "the server at --store: code %ld, %s", status, curl_stream_error(writer->stream));
	return status == 507 || status == 413 ? STORE_FULL : STORE_FAILED;
}

static StoreOutcome
write_transfer(StoreWriter *writer, const char *bytes, size_t len, char *why)
{
	if (curl_stream_write(writer->stream, bytes, len))
		return STORE_OK;
	/* The transfer ended before the end of the body: a failure, whatever the status of the answer is. */
	judge(writer, curl_stream_status(writer->stream), why);
	return STORE_FAILED;
}

static StoreOutcome
finish_transfer(StoreWriter *writer, char *why)
{
	return judge(writer, curl_stream_finish(writer->stream), why);
}

static StoreOutcome
remove_nothing(const char *key, char *why)
{
	return STORE_OK;
}

static StoreOutcome
open_nothing(StoreReader **reader, const char *key, int64_t bytes, char *why)
{
	snprintf(why, WHY_SIZE, "the store is another server, from which files cannot be read");
	return STORE_GONE;
}

static const Store http_store = {
	.provider = "http",
	.open = open_transfer,
	.write = write_transfer,
	.finish = finish_transfer,
	.close = close_transfer,
	.remove = remove_nothing,
	.read_open = open_nothing,
};

const Store *
http_store_open(const char *url, char *why)
{
	return &http_store;
}
