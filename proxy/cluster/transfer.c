/*-------------------------------------------------------------------------
 *
 * transfer.c
 *	  Sends HTTP requests; hides libcurl's types.
 *
 * libcurl does the work: it is the best-maintained HTTP client in C.  Its
 * multi interface reports which descriptors it waits for and when it must be
 * called; both are passed to the worker's loop.  Connections stay open, and
 * later requests of the same budget reuse them.
 *
 * All transfers use HTTP/1.1: a connection carries one request at a time, so
 * that a stalled request delays no other.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/transfer.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/loop.h"

/*
 * The limit of connections of each budget: further transfers wait.  MAX_IDLE_CONNECTIONS of a budget stay open while
 * idle.
 */
static const long most_connections[TRANSFER_BUDGET_COUNT] = {
	[TRANSFER_OTHER] = 48,[TRANSFER_TOKENS] = 16,[TRANSFER_STRANGE_TOKENS] = 16,[TRANSFER_ACCESS] = 32,
	[TRANSFER_STRANGE_ACCESS] = 8
};

#define MAX_IDLE_CONNECTIONS 8L

#define TOKEN_LIMIT (16 * 1024)

/* A peer that does not respond any more is detected after these times, also by an idle watch. */
#define KEEPALIVE_SECONDS 15
#define UNACKNOWLEDGED_MS 30000

/* The transfers of one budget. */
typedef struct Multi
{
	CURLM	   *curl;			/* NULL before the first transfer */
	LoopTimer	timer;
} Multi;

struct Transfer
{
	Multi	   *multi;
	CURL	   *curl;
	struct curl_slist *headers;
	struct curl_slist *connect_to;
	bool		refused;		/* the answer is beyond the limit, or take() returned false */
	StrBuf	   *received;
	size_t		limit;
	long	   *retry_after;	/* this and untrusted: NULL when not wanted */
	bool	   *untrusted;
	void		(*begun) (void *state, int status);
	bool		(*take) (void *state, int status, const char *bytes, size_t len);
	void		(*done) (void *state, int status, const char *why);
	void	   *state;
	char		reason[CURL_ERROR_SIZE];
};

/* A descriptor of libcurl that the loop watches. */
typedef struct Channel
{
	Multi	   *multi;
	LoopSocket *socket;
	curl_socket_t fd;
	bool		wants_write;
	bool		notified;		/* the loop will call on_writable() */
} Channel;

static Multi multis[TRANSFER_BUDGET_COUNT];

static void *
need(void *pointer)
{
	if (pointer == NULL)
		abort();
	return pointer;
}

/* ---------- one transfer ---------- */

static int
transfer_status(Transfer *transfer)
{
	long		status = 0;

	curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
	return (int) status;
}

static size_t
take_bytes(char *bytes, size_t size, size_t count, void *state)
{
	Transfer   *transfer = state;

	transfer->refused = transfer->received != NULL && size * count > transfer->limit - transfer->received->len;
	if (!transfer->refused && transfer->received != NULL)
		strbuf_append(transfer->received, bytes, size * count);
	if (!transfer->refused && transfer->take != NULL)
		transfer->refused = !transfer->take(transfer->state, transfer_status(transfer), bytes, size * count);
	/* Returning less than the given size ends the transfer. */
	return transfer->refused ? 0 : size * count;
}

/* libcurl passes the head line by line, the empty line last.  The head of an interim answer (1xx) does not count. */
static size_t
take_header(char *bytes, size_t size, size_t count, void *state)
{
	Transfer   *transfer = state;

	if (bytes[0] == '\r' && transfer_status(transfer) >= 200)
		transfer->begun(transfer->state, transfer_status(transfer));
	return size * count;
}

static int
set_socket_options(void *state, curl_socket_t fd, curlsocktype purpose)
{
	int			on = 1;
	int			seconds = KEEPALIVE_SECONDS;
	int			most = UNACKNOWLEDGED_MS;

	/* Failures of these calls are not important. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof(most));
	return CURL_SOCKOPT_OK;
}

static void
set_blob(CURL *curl, CURLoption option, JsonText pem)
{
	struct curl_blob blob = {.data = (void *) pem.bytes, .len = pem.len, .flags = CURL_BLOB_COPY};

	if (pem.len > 0)
		curl_easy_setopt(curl, option, &blob);
}

static void
add_header(Transfer *transfer, const char *header)
{
	transfer->headers = need(curl_slist_append(transfer->headers, header));
}

/* Adds the Authorization header, unless the kubeconfig has no token. */
static void
add_bearer(Transfer *transfer, Arena *arena, const KubeConfig *kubeconfig)
{
	const char *token = kubeconfig->token;
	JsonText	text;
	const char *why;

	if (kubeconfig->token_file != NULL)
		token = file_read(arena, kubeconfig->token_file, TOKEN_LIMIT, &text, &why) ?
			arena_strndup(arena, text.bytes, strcspn(text.bytes, "\r\n")) : NULL;
	if (token != NULL)
		add_header(transfer, arena_printf(arena, "Authorization: Bearer %s", token));
}

static Transfer *
transfer_new(const KubeConfig *kubeconfig, const TransferRequest *request)
{
	Transfer   *transfer = need(calloc(1, sizeof(*transfer)));
	CURL	   *curl = need(curl_easy_init());
	Arena		arena;

	transfer->curl = curl;
	transfer->begun = request->begun;
	transfer->received = request->received;
	transfer->limit = request->limit;
	transfer->take = request->take;
	transfer->done = request->done;
	transfer->state = request->state;
	transfer->retry_after = request->retry_after;
	transfer->untrusted = request->untrusted;
	arena_init(&arena);
	add_header(transfer, request->accept == NULL ? "Accept: application/json" :
			   arena_printf(&arena, "Accept: %s", request->accept));
	add_bearer(transfer, &arena, kubeconfig);
	if (request->body != NULL)
	{
		add_header(transfer, request->content_type != NULL ?
				   arena_printf(&arena, "Content-Type: %s", request->content_type) :
				   request->patch ? "Content-Type: application/merge-patch+json" : "Content-Type: application/json");
		/* Do not ask the server for permission to send a long body. */
		add_header(transfer, "Expect:");
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) request->body_len);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
		if (request->patch)
			curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PATCH");
	}
	if (request->method != NULL)
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
	for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++)
		add_header(transfer, request->headers[i]);
	curl_easy_setopt(curl, CURLOPT_URL, arena_printf(&arena, "%s%s", kubeconfig->server, request->path));
	if (request->connect_to != NULL)
	{
		transfer->connect_to = need(curl_slist_append(NULL, arena_printf(&arena, "::%s", request->connect_to)));
		curl_easy_setopt(curl, CURLOPT_CONNECT_TO, transfer->connect_to);
	}
	if (request->connections != NULL)
		curl_easy_setopt(curl, CURLOPT_SHARE, request->connections);
	arena_free(&arena);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "kube-reports-proxy/" KUBE_REPORTS_VERSION);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, transfer->headers);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, request->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, 10000L);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	/* The end of a transfer does not wait for libcurl's resolver thread. */
	curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION, set_socket_options);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, transfer->reason);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
	if (request->begun != NULL)
	{
		curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
		curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
	}
	curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer);
	set_blob(curl, CURLOPT_CAINFO_BLOB, kubeconfig->ca);
	set_blob(curl, CURLOPT_SSLCERT_BLOB, kubeconfig->certificate);
	set_blob(curl, CURLOPT_SSLKEY_BLOB, kubeconfig->key);
	return transfer;
}

static void
transfer_free(Transfer *transfer)
{
	curl_easy_cleanup(transfer->curl);
	curl_slist_free_all(transfer->headers);
	curl_slist_free_all(transfer->connect_to);
	free(transfer);
}

static void
transfer_end(Transfer *transfer, CURLcode code)
{
	if (transfer->retry_after != NULL)
	{
		curl_off_t	seconds = 0;

		curl_easy_getinfo(transfer->curl, CURLINFO_RETRY_AFTER, &seconds);
		*transfer->retry_after = (long) seconds;
	}
	if (transfer->untrusted != NULL)
		*transfer->untrusted = code == CURLE_PEER_FAILED_VERIFICATION;
	if (code == CURLE_OK)
		transfer->done(transfer->state, transfer_status(transfer), NULL);
	else
		transfer->done(transfer->state, 0, transfer->refused ? "the answer is too large" :
					   transfer->reason[0] != '\0' ? transfer->reason : curl_easy_strerror(code));
	transfer_free(transfer);
}

/* ---------- all transfers, on the loop ---------- */

static void
multi_act(Multi *multi, curl_socket_t fd, int events)
{
	int			count;
	CURLMsg    *message;

	curl_multi_socket_action(multi->curl, fd, events, &count);
	while ((message = curl_multi_info_read(multi->curl, &count)) != NULL)
	{
		CURLcode	code = message->data.result;
		char	   *transfer;

		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
		/* This call invalidates the message. */
		curl_multi_remove_handle(multi->curl, message->easy_handle);
		transfer_end((Transfer *) transfer, code);
	}
}

static void
on_multi_timer(void *state)
{
	multi_act(state, CURL_SOCKET_TIMEOUT, 0);
}

static int
set_multi_timer(CURLM *curl, long timeout_ms, void *state)
{
	Multi	   *multi = state;

	if (timeout_ms < 0)
		loop_timer_stop(&multi->timer);
	else
		loop_timer_start(&multi->timer, (uint64_t) timeout_ms, on_multi_timer, multi);
	return 0;
}

static void
on_readable(void *state)
{
	Channel    *channel = state;

	multi_act(channel->multi, channel->fd, CURL_CSELECT_IN);
}

static void
on_writable(void *state)
{
	Channel    *channel = state;

	/* Request the next call before libcurl acts: libcurl may close the channel. */
	channel->notified = channel->wants_write;
	if (!channel->wants_write)
		return;
	loop_socket_notify_write(channel->socket, on_writable);
	multi_act(channel->multi, channel->fd, CURL_CSELECT_OUT);
}

static int
set_channel(CURL *curl, curl_socket_t fd, int what, void *state, void *socket_state)
{
	Multi	   *multi = state;
	Channel    *channel = socket_state;

	if (what == CURL_POLL_REMOVE)
	{
		if (channel != NULL)
		{
			loop_socket_close(channel->socket);
			free(channel);
		}
		return 0;
	}
	if (channel == NULL)
	{
		channel = need(calloc(1, sizeof(*channel)));
		channel->multi = multi;
		channel->fd = fd;
		channel->socket = loop_socket_open(fd, on_readable, channel);
		if (channel->socket == NULL)
		{
			/* No descriptor is left: the transfer will time out. */
			free(channel);
			return 0;
		}
		curl_multi_assign(multi->curl, fd, channel);
	}
	channel->wants_write = what == CURL_POLL_OUT || what == CURL_POLL_INOUT;
	if (channel->wants_write && !channel->notified)
	{
		channel->notified = true;
		loop_socket_notify_write(channel->socket, on_writable);
	}
	return 0;
}

Transfer *
transfer_start(const KubeConfig *kubeconfig, const TransferRequest *request)
{
	Transfer   *transfer = transfer_new(kubeconfig, request);
	Multi	   *multi = &multis[request->budget];

	if (multi->curl == NULL)
	{
		multi->curl = need(curl_multi_init());
		curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, set_channel);
		curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
		curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, set_multi_timer);
		curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
		curl_multi_setopt(multi->curl, CURLMOPT_MAX_TOTAL_CONNECTIONS, most_connections[request->budget]);
		curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, MAX_IDLE_CONNECTIONS);
	}
	transfer->multi = multi;
	/* Fails only without memory, or when called by libcurl itself. */
	if (curl_multi_add_handle(multi->curl, transfer->curl) != CURLM_OK)
		abort();
	return transfer;
}

void
transfer_cancel(Transfer *transfer)
{
	curl_multi_remove_handle(transfer->multi->curl, transfer->curl);
	transfer_free(transfer);
}

void
transfer_run(const KubeConfig *kubeconfig, const TransferRequest *request)
{
	Transfer   *transfer = transfer_new(kubeconfig, request);

	transfer_end(transfer, curl_easy_perform(transfer->curl));
}

TransferConnections *
transfer_connections_open(void)
{
	CURLSH	   *share = need(curl_share_init());

	curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
	return (TransferConnections *) share;
}

void
transfer_connections_close(TransferConnections *connections)
{
	curl_share_cleanup((CURLSH *) connections);
}

const char *
transfer_escape(Arena *arena, const char *text)
{
	char	   *escaped = need(curl_easy_escape(NULL, text, 0));
	char	   *copy = arena_strdup(arena, escaped);

	curl_free(escaped);
	return copy;
}
