/*-------------------------------------------------------------------------
 *
 * curl_stream.c
 *	  Transfers of libcurl whose bytes the caller gives or takes piece by piece.
 *
 * libcurl and libmicrohttpd both call functions of the program when they have
 * or need bytes.  Here a transfer pauses while the caller has no bytes to
 * send, or has not taken the bytes that arrived.  A transfer holds the
 * caller's piece, or BUFFER_SIZE bytes of an answer.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/curl_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "evidence/options.h"

#define BUFFER_SIZE ((size_t) 4 * CURL_MAX_WRITE_SIZE)
#define POLL_MS 1000
#define CONNECT_SECONDS 10L
#define STALL_SECONDS 30L

struct CurlStream
{
	CURL	   *curl;
	CURLM	   *multi;
	const char *given;			/* bytes of the caller that are not sent yet */
	size_t		given_len;
	bool		given_all;
	bool		paused_sending;
	bool		paused_receiving;
	bool		ended;
	CURLcode	result;
	size_t		start;			/* offset of the first byte in the buffer that was not taken */
	size_t		len;
	char		buffer[BUFFER_SIZE];
};

CURL *
store_curl(const char *url)
{
	CURL	   *curl = curl_easy_init();

	if (curl == NULL)
		abort();
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, STALL_SECONDS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long) options.upload_timeout);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "kube-reports-evidence/" KUBE_REPORTS_VERSION);
	if (options.store_ca_file[0] != '\0')
		curl_easy_setopt(curl, CURLOPT_CAINFO, options.store_ca_file);
	if (options.store_certificate_file[0] != '\0')
	{
		curl_easy_setopt(curl, CURLOPT_SSLCERT, options.store_certificate_file);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, options.store_key_file);
	}
	return curl;
}

static size_t
give(char *bytes, size_t size, size_t count, void *state)
{
	CurlStream *stream = state;
	size_t		room = size * count;

	if (stream->given_len == 0)
	{
		if (stream->given_all)
			return 0;
		stream->paused_sending = true;
		return CURL_READFUNC_PAUSE;
	}
	if (room > stream->given_len)
		room = stream->given_len;
	memcpy(bytes, stream->given, room);
	stream->given += room;
	stream->given_len -= room;
	return room;
}

static size_t
take(char *bytes, size_t size, size_t count, void *state)
{
	CurlStream *stream = state;
	size_t		len = size * count;

	if (stream->len > 0 && stream->start > 0)
		memmove(stream->buffer, stream->buffer + stream->start, stream->len);
	stream->start = 0;
	if (len > BUFFER_SIZE - stream->len)
	{
		stream->paused_receiving = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	memcpy(stream->buffer + stream->len, bytes, len);
	stream->len += len;
	return len;
}

CurlStream *
curl_stream_new(CURL *curl)
{
	CurlStream *stream = allocate(sizeof(CurlStream));

	stream->curl = curl;
	stream->multi = curl_multi_init();
	if (stream->multi == NULL)
		abort();
	curl_easy_setopt(curl, CURLOPT_READFUNCTION, give);
	curl_easy_setopt(curl, CURLOPT_READDATA, stream);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
	curl_multi_add_handle(stream->multi, curl);
	return stream;
}

/* Lets libcurl do all work on the transfer that it can do without waiting. */
static void
go_on(CurlStream *stream)
{
	int			running = 0;
	int			waiting;
	CURLMsg    *message;

	if (curl_multi_perform(stream->multi, &running) != CURLM_OK)
	{
		stream->ended = true;
		stream->result = CURLE_OUT_OF_MEMORY;
		return;
	}
	while ((message = curl_multi_info_read(stream->multi, &waiting)) != NULL)
	{
		if (message->msg == CURLMSG_DONE)
		{
			stream->ended = true;
			stream->result = message->data.result;
		}
	}
}

static void
await(CurlStream *stream)
{
	curl_multi_poll(stream->multi, NULL, 0, POLL_MS, NULL);
}

static void
unpause(CurlStream *stream)
{
	if (!stream->paused_sending && !stream->paused_receiving)
		return;
	stream->paused_sending = false;
	stream->paused_receiving = false;
	curl_easy_pause(stream->curl, CURLPAUSE_CONT);
}

bool
curl_stream_write(CurlStream *stream, const char *bytes, size_t len)
{
	stream->given = bytes;
	stream->given_len = len;
	unpause(stream);
	while (!stream->ended)
	{
		go_on(stream);
		if (stream->given_len == 0)
			break;
		if (!stream->ended)
			await(stream);
	}
	return !stream->ended;
}

long
curl_stream_finish(CurlStream *stream)
{
	long		status = 0;

	stream->given_all = true;
	unpause(stream);
	while (!stream->ended)
	{
		go_on(stream);
		/* The body of the answer is not needed. */
		stream->len = 0;
		unpause(stream);
		if (!stream->ended)
			await(stream);
	}
	if (stream->result == CURLE_OK)
		curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

long
curl_stream_status(CurlStream *stream)
{
	long		status = 0;

	while (!stream->ended && stream->len == 0)
	{
		go_on(stream);
		if (!stream->ended && stream->len == 0)
			await(stream);
	}
	if (!stream->ended || stream->result == CURLE_OK)
		curl_easy_getinfo(stream->curl, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

ssize_t
curl_stream_read(CurlStream *stream, char *buffer, size_t size)
{
	while (stream->len == 0 && !stream->ended)
	{
		unpause(stream);
		go_on(stream);
		if (stream->len == 0 && !stream->ended)
			await(stream);
	}
	if (stream->len == 0)
		return stream->result == CURLE_OK ? 0 : -1;
	if (size > stream->len)
		size = stream->len;
	memcpy(buffer, stream->buffer + stream->start, size);
	stream->start += size;
	stream->len -= size;
	return (ssize_t) size;
}

const char *
curl_stream_error(const CurlStream *stream)
{
	return stream->ended && stream->result != CURLE_OK ? curl_easy_strerror(stream->result) : "it answered";
}

void
curl_stream_free(CurlStream *stream)
{
	curl_multi_remove_handle(stream->multi, stream->curl);
	curl_easy_cleanup(stream->curl);
	curl_multi_cleanup(stream->multi);
	free(stream);
}
