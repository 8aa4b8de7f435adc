/*-------------------------------------------------------------------------
 *
 * main.c
 *	  kube-reports-grpc: the gRPC port for senders of other clusters.
 *
 * kube-reports-grpc is a program of its own beside kube-reports-proxy, with
 * one process and one loop.  connection.c and call.c receive calls; service.c
 * stores their messages over the pool of connections to the database
 * (db/pg.h).  All state is in the database, so the process may be killed at
 * any time, and any number of them may run.
 *
 * After SIGTERM, readyz fails, clients are told to send calls to another
 * server (GOAWAY), and the messages that are being stored are answered.
 *
 * Exit codes: 0 after a shutdown, 1 when the start failed, 2 for a wrong
 * command line.
 *
 *-------------------------------------------------------------------------
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/config.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/notify.h"
#include "base/sockets.h"
#include "base/termination.h"
#include "codec/kube_json.h"
#include "db/pg.h"
#include "grpc/connection.h"
#include "grpc/service.h"
#include "http/server.h"
#include "http/tls.h"
#include "trust/authentication_config.h"

#define PROGRAM "kube-reports-grpc"

/* Memory of larger allocations is returned to the system by free(). */
#define LARGE_ALLOCATION (4 * 1024 * 1024)

/* Milliseconds: between two checks of a shutdown for open calls; until the log says that batches cannot be stored. */
#define DRAIN_MS 50
#define DATABASE_GRACE 3000

#define OTHER_FILES 64			/* descriptors beside those of connections, each of which has two */

static struct
{
	int			port;
	size_t		connections;
	size_t		calls;
	int			streams;
	size_t		message_bytes;
	size_t		held_bytes;
}			options;

static FlagParser logging_parser = {&config.logging_format, config_set_logging_format};

static const Flag flags[] =
{
	{"bind-address", FLAG_ADDRESS, &config.bind_address, "0.0.0.0", 0, 0,
	"address of the gRPC port; :: serves IPv6 and IPv4"},
	{"port", FLAG_INTEGER, &options.port, "6445", 1, 65535, "port of gRPC, TLS"},
	{"metrics-bind-address", FLAG_ADDRESS, &config.metrics_bind_address, "0.0.0.0", 0, 0,
	"address of the port for health and metrics"},
	{"metrics-port", FLAG_INTEGER, &config.metrics_port, "8080", 0, 65535,
	"port for health and metrics, plain HTTP; 0: no such port"},
	{"tls-cert-file", FLAG_FILE, &config.tls_cert_file, "", 0, 0,
	"PEM file with the certificate chain of the server; read again when it changes"},
	{"tls-private-key-file", FLAG_FILE, &config.tls_private_key_file, "", 0, 0,
	"PEM file with the private key of the server; read again when it changes"},
	{"client-ca-file", FLAG_FILE, &config.forward_client_ca_file, "", 0, 0,
	"PEM file with the CAs of senders' certificates (CN: as given to add_sender()); read again when it changes"},
	{"database", FLAG_STRING, &config.database, "", 0, 0,
	"connection string; environment variables such as PGHOST and PGUSER give missing parameters"},
	{"database-password-file", FLAG_STRING, &config.database_password_file, "", 0, 0,
	"file with the password of the database's role; read for each new connection"},
	{"database-connections", FLAG_INTEGER, &config.connections, "4", 2, 256,
	"maximum number of connections to the database: one for credentials of senders, the others for batches"},
	{"cluster-id", FLAG_UUID, &config.cluster_id, "", 0, 0,
	"uid that the database role is bound to (grant_proxy()); senders write for their own clusters"},
	{"max-message-bytes", FLAG_SIZE, &options.message_bytes, "4194304", 1024, 67108864,
	"maximum size of a message; larger ones are answered with RESOURCE_EXHAUSTED"},
	{"max-buffered-bytes", FLAG_SIZE, &options.held_bytes, "134217728", 1048576, 1099511627776,
		"maximum size of all messages that are received or stored, four times their length each; further ones are "
	"answered with RESOURCE_EXHAUSTED"},
	{"max-connections", FLAG_COUNT, &options.connections, "1024", 16, 65536,
		"maximum number of connections; clients without a proved credential can have half of them, and a new "
	"client replaces the oldest of them"},
	{"max-calls", FLAG_COUNT, &options.calls, "1024", 16, 65536,
	"maximum number of open calls; further ones are answered with RESOURCE_EXHAUSTED"},
	{"max-concurrent-streams", FLAG_INTEGER, &options.streams, "32", 1, 1000,
	"maximum number of open calls of one connection"},
	{"request-timeout", FLAG_SECONDS, &config.request_timeout, "1m0s", 1, 3600,
	"time limit for storing a message, and of a call that has no deadline and is not a stream"},
	{"shutdown-timeout", FLAG_SECONDS, &config.shutdown_timeout, "30s", 0, 60,
	"how long messages may take to be stored after SIGTERM"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"verbosity of the log; 0: errors and the start; 1: also every call"},
	{"logging-format", FLAG_PARSED, &logging_parser, "json", 0, 0, "json or text"},
};

static const FlagSet flag_set = {
	.program = PROGRAM,
	.about = PROGRAM " takes results of scans that senders of other clusters forward by gRPC, and stores them in\n"
	"PostgreSQL. The services are docs/proto/forward.proto and docs/proto/compliance.proto.",
	.usage = PROGRAM " --tls-cert-file=FILE --tls-private-key-file=FILE --cluster-id=UUID [flags]",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

static LoopTimer drain_timer;
static uint64_t drain_until;

static _Noreturn void
start_error(const char *what, const char *why)
{
	fprintf(stderr, PROGRAM ": %s: %s\n", what, why);
	exit(1);
}

/* ---------- health and metrics ---------- */

static void
put_metric(StrBuf *buf, const char *name, const char *type, const char *help, double value)
{
	metrics_write_head(buf, name, type, help);
	strbuf_printf(buf, "%s %.15g\n", name, value);
}

static void
write_metrics(StrBuf *buf)
{
	ConnectionCounts connections = connections_counts();
	CallCounts	calls = calls_counts();
	const char *why;

	put_metric(buf, "kube_reports_grpc_connections", "gauge", "Connections of clients.", (double) connections.open);
	put_metric(buf, "kube_reports_grpc_strangers", "gauge", "Connections of clients without a proved credential.",
			   (double) connections.strangers);
	put_metric(buf, "kube_reports_grpc_connections_total", "counter", "Connections that were accepted.",
			   (double) connections.accepted);
	put_metric(buf, "kube_reports_grpc_connections_refused_total", "counter",
			   "Connections closed because there were too many.", (double) connections.refused);
	put_metric(buf, "kube_reports_grpc_connections_broken_total", "counter",
			   "Connections closed because the client broke a rule or read nothing.", (double) connections.broken);
	put_metric(buf, "kube_reports_grpc_calls", "gauge", "Calls that are open.", (double) calls.open);
	put_metric(buf, "kube_reports_grpc_held_bytes", "gauge", "Memory held for messages (--max-buffered-bytes).",
			   (double) calls.held_bytes);
	put_metric(buf, "kube_reports_grpc_messages_total", "counter", "Messages that were answered.",
			   (double) calls.messages);
	put_metric(buf, "kube_reports_grpc_database_up", "gauge", "Whether batches can be stored.", service_ready(&why));
	metrics_write_head(buf, "kube_reports_grpc_calls_total", "counter", "Calls that have ended, by their status.");
	/* Also before the first call with a code: a sum with a series that does not exist is empty. */
	for (int code = 0; code < STATUS_CODES; code++)
		strbuf_printf(buf, "kube_reports_grpc_calls_total{code=\"%s\"} %llu\n", status_name(code),
					  (unsigned long long) calls.ended[code]);
}

static void
answer(HttpRequest *request)
{
	HttpHeader	headers[] = {{"content-type", METRICS_CONTENT_TYPE}, {"x-content-type-options", "nosniff"}};
	const char *path = http_path(request);
	const char *why = "";
	int			status = 200;
	StrBuf		buf;

	strbuf_init(&buf, http_arena(request));
	if (strcmp(path, "/metrics") == 0)
		write_metrics(&buf);
	else if (strcmp(path, "/livez") == 0 || strcmp(path, "/healthz") == 0)
		strbuf_puts(&buf, "ok");
	else if (strcmp(path, "/readyz") == 0)
	{
		if (!service_ready(&why))
			status = 500;
		strbuf_puts(&buf, status == 200 ? "ok" : "readyz check failed; the log says why\n");
	}
	else
	{
		status = 404;
		strbuf_puts(&buf, "404 page not found\n");
	}
	http_reply(request, status, headers, 2, buf.bytes, buf.len);
}

/* Logs once that batches cannot be stored, and once that they can be stored again. */
static void
look_at_database(void)
{
	static uint64_t good_at;
	static bool failing;
	static bool announced;
	const char *why = "unknown";
	uint64_t	now = loop_now();

	if (pg_connected(&why) || good_at == 0)
	{
		good_at = now;
		if (failing)
			log_line(LOG_NOTICE, "batches can be stored again");
		failing = false;
	}
	else if (!failing && now - good_at >= DATABASE_GRACE)
	{
		failing = true;
		log_line(LOG_ERROR, "batches cannot be stored: %s", why);
	}
	if (!announced && pg_connected(NULL) && pg_announcement() != NULL)
	{
		announced = true;
		log_line(LOG_NOTICE, "%s", pg_announcement());
	}
}

/* ---------- the end ---------- */

static void
drain(void *state)
{
	if (calls_counts().open > 0 && loop_now() < drain_until)
	{
		loop_timer_start(&drain_timer, DRAIN_MS, drain, NULL);
		return;
	}
	if (calls_counts().open > 0)
		log_line(LOG_WARNING, "the shutdown ends %zu open calls", calls_counts().open);
	connections_close();
	log_line(LOG_NOTICE, "shutdown is complete");
	http_server_exit();
}

static void
tick(void)
{
	static bool begun;

	metrics_tick();
	look_at_database();
	if (!termination_begun() || begun)
		return;
	begun = true;
	notify_stopping();
	log_line(LOG_NOTICE, "shutdown begins");
	drain_until = loop_now() + (uint64_t) config.shutdown_timeout * 1000;
	calls_stop();
	connections_stop();
	drain(NULL);
}

static bool
drained(void)
{
	return true;
}

static void
on_term(int signal_number)
{
	termination_begin();
}

/* ---------- the start ---------- */

static void
read_flags(int argc, char **argv)
{
	config_use_defaults();
	/* Limits of the plain port. */
	config.max_connections = 64;
	config.max_request_body_bytes = 1024;
	config.max_buffered_body_bytes = 1024 * 1024;
	config.max_buffered_answer_bytes = 16 * 1024 * 1024;
	config.workers = 1;
	flags_parse(&flag_set, argc, argv, NULL, 0);
	if (config.tls_cert_file[0] == '\0')
		flags_refuse(&flag_set, "tls-cert-file", NULL, "is required");
	if (config.tls_private_key_file[0] == '\0')
		flags_refuse(&flag_set, "tls-private-key-file", NULL, "is required");
	if (config.cluster_id[0] == '\0')
		flags_refuse(&flag_set, "cluster-id", NULL, "is required");
	if (config.metrics_port == options.port)
		flags_refuse(&flag_set, "metrics-port", NULL, "must not be the same as --port");
}

/* Raises the limit of open files.  Each connection has two; if the limit is too low, fewer connections are accepted. */
static void
raise_file_limit(void)
{
	rlim_t		wanted = (rlim_t) options.connections * 2 + OTHER_FILES;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur == wanted || limit.rlim_cur <= OTHER_FILES)
		return;
	options.connections = (size_t) (limit.rlim_cur - OTHER_FILES) / 2;
	log_line(LOG_WARNING, "the limit of open files allows %zu connections (--max-connections)", options.connections);
}

static void
listen_at(const char *what, const char *address, int port, int *fd)
{
	char		why[512];

	if (!sockets_listen(address, port, fd, 1, why, sizeof(why)))
		start_error(what, why);
}

static void
serve(int grpc_fd, int plain_fd)
{
	HttpListener plain = {.fd = plain_fd, .on_request = answer};
	ConnectionLimits connection_limits = {options.connections, options.streams};
	CallLimits	call_limits = {options.message_bytes, options.calls, options.held_bytes, config.request_timeout * 1000};

	http_server_start();
	pg_start_receiver();
	calls_start(&call_limits, service_methods);
	connections_listen(grpc_fd, &connection_limits, &call_handlers);
	if (plain_fd >= 0)
		http_server_listen(&plain);
	log_line(LOG_NOTICE, PROGRAM " %s listens at %s port %d (gRPC, TLS), for health and metrics at %s port %d (HTTP, "
			 "0: not), with at most %d database connections", KUBE_REPORTS_VERSION, config.bind_address, options.port,
			 config.metrics_bind_address, config.metrics_port, config.connections);
	notify_ready();
	http_server_run(tick, drained);
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_term};
	char		why[512];
	int			grpc_fd;
	int			plain_fd = -1;

	kube_json_start();
	read_flags(argc, argv);
	if (!authentication_config_start(why, sizeof(why)))
		start_error("cannot use the CAs", why);
	tls_offer_http2();
	if (!tls_start(why, sizeof(why)))
		start_error("cannot use the TLS files", why);
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION);
	mallopt(M_TRIM_THRESHOLD, LARGE_ALLOCATION);
	mallopt(M_ARENA_MAX, 1);
	metrics_init(1, false);
	metrics_attach(0);
	pg_init();
	listen_at("the gRPC port", config.bind_address, options.port, &grpc_fd);
	if (config.metrics_port != 0)
		listen_at("the port for metrics", config.metrics_bind_address, config.metrics_port, &plain_fd);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	serve(grpc_fd, plain_fd);
	return 0;
}
