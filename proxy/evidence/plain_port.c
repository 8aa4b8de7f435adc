/*-------------------------------------------------------------------------
 *
 * plain_port.c
 *	  The port for health and metrics, plain HTTP.
 *
 * One thread answers one request after another: a slow client cannot hold the
 * thread, because libmicrohttpd polls, and answers are complete in memory.  One
 * address has a share of the connections, and each connection has --head-timeout
 * from its first byte to its last, so that probes come through.  The port serves
 * until the process ends, so that probes see a shutdown.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/plain_port.h"

#include <microhttpd.h>
#include <stdio.h>
#include <string.h>

#include "base/metrics.h"
#include "base/sockets.h"
#include "evidence/answer.h"
#include "evidence/counts.h"
#include "evidence/ledger.h"
#include "evidence/options.h"
#include "evidence/request.h"
#include "evidence/service.h"
#include "evidence/watchdog.h"

#define PLAIN_CONNECTIONS 64u
#define PLAIN_PER_ADDRESS 16u
#define PLAIN_TIMEOUT 10u

static enum MHD_Result
answer_metrics(struct MHD_Connection *connection)
{
	struct MHD_Response *response;
	StrBuf		text;
	Arena		arena;

	arena_init(&arena);
	strbuf_init(&text, &arena);
	counts_write(&text, peer_count(), upload_count(), ledger_ready());
	response = MHD_create_response_from_buffer(text.len, text.bytes, MHD_RESPMEM_MUST_COPY);
	arena_free(&arena);
	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, METRICS_CONTENT_TYPE);
	return answer_queue(connection, 200, response);
}

static enum MHD_Result
answer_plain(void *state, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
			 const char *upload_data, size_t *upload_data_size, void **request_state)
{
	bool		ready;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return answer_not_allowed(connection, "GET");
	if (strcmp(url, "/metrics") == 0)
		return answer_metrics(connection);
	if (strcmp(url, "/livez") == 0)
		return answer_text(connection, 200, "ok");
	if (strcmp(url, "/readyz") != 0)
		return answer_refusal(connection, 404, "the server could not find the requested resource");
	ready = service_takes() && ledger_ready();
	return answer_text(connection, ready ? 200 : 503, ready ? "ok" : service_takes() ? "the database does not answer" :
					   "the server ends");
}

static void
plain_changed(void *state, struct MHD_Connection *connection, void **socket_context,
			  enum MHD_ConnectionNotificationCode how)
{
	if (how == MHD_CONNECTION_NOTIFY_STARTED)
		*socket_context = peer_open(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
									false);
	else if (*socket_context != NULL)
	{
		peer_close(*socket_context);
		*socket_context = NULL;
	}
}

bool
plain_port_start(char *why)
{
	int			fd;

	if (options.metrics_port == 0)
		return true;
	if (!sockets_listen(options.metrics_bind_address, options.metrics_port, &fd, 1, why, WHY_SIZE))
		return false;
	if (MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, answer_plain, NULL,
						 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, PLAIN_CONNECTIONS,
						 MHD_OPTION_PER_IP_CONNECTION_LIMIT, PLAIN_PER_ADDRESS,
						 MHD_OPTION_NOTIFY_CONNECTION, plain_changed, NULL,
						 MHD_OPTION_CONNECTION_TIMEOUT, PLAIN_TIMEOUT, MHD_OPTION_STRICT_FOR_CLIENT, 1,
						 MHD_OPTION_END) != NULL)
		return true;
	snprintf(why, WHY_SIZE, "the port for metrics did not start");
	return false;
}
