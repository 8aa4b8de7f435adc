/*-------------------------------------------------------------------------
 *
 * service.c
 *	  The HTTPS port: connections, routes, certificates that change.
 *
 * libmicrohttpd is used because it reads bodies piece by piece; libh2o 2.2
 * does not.  Each connection has a thread, which may block in the store or the
 * database, so a slow store makes senders wait and fills no memory.  A
 * connection serves one request.
 *
 * libmicrohttpd reads certificates at its start only.  When a file changes, a
 * second server takes over the listening socket, and the first one ends with
 * its last connection.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/service.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/allocate.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sockets.h"
#include "base/watched_file.h"
#include "evidence/answer.h"
#include "evidence/counts.h"
#include "evidence/file_name.h"
#include "evidence/options.h"
#include "evidence/request.h"
#include "evidence/sender.h"

#define FILE_LIMIT ((size_t) 1024 * 1024)

/* Memory of a connection for heads and bodies; size of its thread's stack. */
#define CONNECTION_MEMORY ((size_t) 32 * 1024)
#define STACK_SIZE ((size_t) 512 * 1024)

/* Limit of servers with old certificates.  A further change waits until one of them has no connections any more. */
#define MAX_OLD 8

#define PREFIX "/v1/evidence/"

static struct
{
	int			fd;
	struct MHD_Daemon *current;
	struct MHD_Daemon *old[MAX_OLD];
	int			old_count;
	WatchedFile certificate;
	WatchedFile key;
	WatchedFile ca;
	bool		outdated;		/* files have changed, and their contents are not in use yet */
	atomic_bool ended;
}			service;

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

enum MHD_Result
request_refuse(struct MHD_Connection *connection, Request *request, unsigned status, const char *message)
{
	request->status = status;
	return answer_refusal(connection, status, message);
}

/* ---------- routes ---------- */

/* Handles a POST, the protocol of the result server: a header has the name; scan and index may be in the query. */
static enum MHD_Result
post(struct MHD_Connection *connection, Request *request)
{
	const char *scan = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "scan");
	const char *index = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "index");
	bool		repeated;
	const char *report = sender_header(connection, "X-Report-Name", &repeated);

	request->operation = OPERATION_UPLOAD;
	if (report == NULL || repeated || strlen(report) >= sizeof(request->name.report))
		return request_refuse(connection, request, 400,
							  "the header X-Report-Name must have the name of the report, once");
	if (scan != NULL && (scan[0] == '\0' || strlen(scan) >= sizeof(request->name.scan)))
		return request_refuse(connection, request, 400, "the name of the scan is wrong");
	request->name.index = index == NULL ? -1 : file_name_index(index);
	if (index != NULL && request->name.index < 0)
		return request_refuse(connection, request, 400, "the index must be a number of at most nine digits");
	snprintf(request->name.report, sizeof(request->name.report), "%s", report);
	snprintf(request->name.scan, sizeof(request->name.scan), "%s", scan == NULL ? "" : scan);
	return upload_begin(connection, request, true);
}

static enum MHD_Result
route(struct MHD_Connection *connection, Request *request, const char *url, const char *method)
{
	bool		get = strcmp(method, MHD_HTTP_METHOD_GET) == 0;

	if (get && strcmp(url, "/livez") == 0)
		return answer_text(connection, request->status = 200, "ok");
	if (get && strcmp(url, "/readyz") == 0)
	{
		request->status = ledger_ready() ? 200 : 503;
		return answer_text(connection, request->status, request->status == 200 ? "ok" : "the database does not answer");
	}
	if (request->escaped)
		return request_refuse(connection, request, 400, "names of scans and reports need no escapes: the URL has a %");
	if (strcmp(url, "/") == 0)
	{
		if (strcmp(method, MHD_HTTP_METHOD_POST) == 0)
			return post(connection, request);
		request->status = 405;
		return answer_not_allowed(connection, "POST");
	}
	if (strncmp(url, PREFIX, sizeof(PREFIX) - 1) != 0)
		return request_refuse(connection, request, 404, "the server could not find the requested resource");
	if (!get && strcmp(method, MHD_HTTP_METHOD_PUT) != 0)
	{
		request->status = 405;
		return answer_not_allowed(connection, "GET, PUT");
	}
	if (!file_name_read(url + sizeof(PREFIX) - 1, get, &request->name))
		return request_refuse(connection, request, 404, get ? "the path must be " PREFIX "[CLUSTER/]SCAN/INDEX/REPORT" :
							  "the path must be " PREFIX "SCAN/INDEX/REPORT");
	request->operation = get ? OPERATION_DOWNLOAD : OPERATION_UPLOAD;
	return get ? download(connection, request) : upload_begin(connection, request, false);
}

/* ---------- callbacks of libmicrohttpd ---------- */

/* Called when the first line has arrived: makes the request, which request_ended() frees. */
static void *
request_line(void *state, const char *uri, struct MHD_Connection *connection)
{
	Request    *request = allocate(sizeof(Request));

	request->started = now_ms();
	request->escaped = strchr(uri, '%') != NULL;
	request->name.encoding = "";
	return request;
}

static enum MHD_Result
handle(void *state, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
	   const char *upload_data, size_t *upload_data_size, void **request_state)
{
	Request    *request = *request_state;
	enum MHD_Result result;

	if (!request->begun)
	{
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

		request->begun = true;
		request->peer = info == NULL ? NULL : info->socket_context;
		if (request->peer == NULL)
			return MHD_NO;
		peer_transfers(request->peer);
		peer_excuse(request->peer, true);
		result = route(connection, request, url, method);
	}
	else if (*upload_data_size > 0)
	{
		peer_progress(request->peer, *upload_data_size);
		peer_excuse(request->peer, true);
		result = upload_piece(connection, request, upload_data, *upload_data_size);
		*upload_data_size = 0;
	}
	else
	{
		peer_excuse(request->peer, true);
		result = upload_end(connection, request);
	}
	peer_excuse(request->peer, false);
	return result;
}

static void
request_ended(void *state, struct MHD_Connection *connection, void **request_state,
			  enum MHD_RequestTerminationCode how)
{
	Request    *request = *request_state;

	if (request == NULL)
		return;
	*request_state = NULL;
	upload_release(request);
	counts_request(request->operation, how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? request->status : 0);
	if (request->begun)
		log_line(request->status < 300 && how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? LOG_INFO : LOG_WARNING,
				 "%s/%d/%s of sender %s: %llu bytes came, code %u, %s, %llu ms",
				 request->name.scan, request->name.index, request->name.report,
				 request->entry.sender[0] == '\0' ? "unknown" : request->entry.sender,
				 (unsigned long long) request->bytes, request->status,
				 how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "answered" : "cut",
				 (unsigned long long) (now_ms() - request->started));
	free(request);
}

static void
connection_changed(void *state, struct MHD_Connection *connection, void **socket_context,
				   enum MHD_ConnectionNotificationCode how)
{
	if (how == MHD_CONNECTION_NOTIFY_STARTED)
	{
		const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

		*socket_context = peer_open(info->connect_fd, true);
	}
	else if (*socket_context != NULL)
	{
		peer_close(*socket_context);
		*socket_context = NULL;
	}
}

static void
log_of_library(void *state, const char *format, va_list arguments)
{
	char		line[512];
	size_t		len;

	if (vsnprintf(line, sizeof(line), format, arguments) < 0)
		return;
	for (len = strlen(line); len > 0 && isspace((unsigned char) line[len - 1]); len--)
		line[len - 1] = '\0';
	log_line(LOG_DEBUG, "libmicrohttpd: %s", line);
}

/* ---------- servers ---------- */

static struct MHD_Daemon *
start_server(char *why)
{
	struct MHD_Daemon *server = NULL;
	const char *reason = "the certificate and the key do not belong together, or are not PEM";
	JsonText	certificate = {0};
	JsonText	key = {0};
	JsonText	ca = {0};
	Arena		arena;

	arena_init(&arena);
	if (file_read(&arena, options.certificate_file, FILE_LIMIT, &certificate, &reason) &&
		file_read(&arena, options.key_file, FILE_LIMIT, &key, &reason) &&
		(options.client_ca_file[0] == '\0' || file_read(&arena, options.client_ca_file, FILE_LIMIT, &ca, &reason)))
	{
		struct MHD_OptionItem more[] = {
			{ca.bytes == NULL ? MHD_OPTION_END : MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *) ca.bytes},
			{MHD_OPTION_END, 0, NULL},
		};

		server = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
								  MHD_USE_TLS | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle, NULL,
								  MHD_OPTION_EXTERNAL_LOGGER, log_of_library, NULL,
								  MHD_OPTION_LISTEN_SOCKET, service.fd,
								  MHD_OPTION_HTTPS_MEM_CERT, certificate.bytes,
								  MHD_OPTION_HTTPS_MEM_KEY, key.bytes,
								  MHD_OPTION_HTTPS_PRIORITIES, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
								  MHD_OPTION_CONNECTION_LIMIT, (unsigned) options.max_connections,
								  MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned) options.max_connections_per_address,
								  MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
								  MHD_OPTION_THREAD_STACK_SIZE, STACK_SIZE,
								  MHD_OPTION_CONNECTION_TIMEOUT, 30u,
								  MHD_OPTION_STRICT_FOR_CLIENT, 1,
								  MHD_OPTION_URI_LOG_CALLBACK, request_line, NULL,
								  MHD_OPTION_NOTIFY_COMPLETED, request_ended, NULL,
								  MHD_OPTION_NOTIFY_CONNECTION, connection_changed, NULL,
								  MHD_OPTION_ARRAY, more,
								  MHD_OPTION_END);
	}
	if (key.bytes != NULL)
		explicit_bzero((char *) key.bytes, key.len);
	arena_free(&arena);
	if (server == NULL)
		snprintf(why, WHY_SIZE, "cannot start the HTTPS server: %s", reason);
	return server;
}

static bool
files_changed(void)
{
	bool		certificate = watched_file_changed(&service.certificate, options.certificate_file);
	bool		key = watched_file_changed(&service.key, options.key_file);
	bool		ca = watched_file_changed(&service.ca, options.client_ca_file);

	return certificate || key || ca;
}

bool
service_start(char *why)
{
	files_changed();
	if (!sockets_listen(options.bind_address, options.port, &service.fd, 1, why, WHY_SIZE))
		return false;
	service.current = start_server(why);
	return service.current != NULL;
}

static unsigned
connections_of(struct MHD_Daemon *server)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(server, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	return info == NULL ? 0 : info->num_connections;
}

static void
end_old_servers(void)
{
	for (int i = 0; i < service.old_count;)
	{
		if (connections_of(service.old[i]) == 0)
		{
			MHD_stop_daemon(service.old[i]);
			service.old[i] = service.old[--service.old_count];
		}
		else
			i++;
	}
}

static void
replace_server(void)
{
	char		why[WHY_SIZE];
	struct MHD_Daemon *fresh = start_server(why);

	/* For a moment both servers listen, so that no connection is refused. */
	if (fresh == NULL)
	{
		log_line(LOG_ERROR, "cannot use the changed certificates: %s", why);
		return;
	}
	MHD_quiesce_daemon(service.current);
	service.old[service.old_count++] = service.current;
	service.current = fresh;
	service.outdated = false;
	log_line(LOG_NOTICE, "the changed certificates are in use");
}

void
service_look(void)
{
	watchdog_look();
	end_old_servers();
	if (files_changed())
		service.outdated = true;
	if (service.outdated && service.old_count < MAX_OLD)
		replace_server();
}

bool
service_takes(void)
{
	return !service.ended;
}

void
service_end(void)
{
	service.ended = true;
	MHD_quiesce_daemon(service.current);
	close(service.fd);
}

unsigned
service_connections(void)
{
	unsigned	count = connections_of(service.current);

	for (int i = 0; i < service.old_count; i++)
		count += connections_of(service.old[i]);
	return count;
}
