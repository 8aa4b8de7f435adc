/*-------------------------------------------------------------------------
 *
 * forward_command.c
 *	  kube-reports-proxy forward: sends the objects of a cluster to a receiver.
 *
 * One process with one loop: a source for each kind fills the queue, and the
 * oldest batch of the queue is sent.  All state is in the queue, so that the
 * process may be killed at any time.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/forward_command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/name_list.h"
#include "base/sockets.h"
#include "base/termination.h"
#include "base/url.h"
#include "cluster/ask.h"
#include "cluster/pod_event.h"
#include "forward/builder.h"
#include "forward/queue.h"
#include "forward/receiver.h"
#include "forward/source.h"
#include "http/server.h"

#define LOOK_MS 200
#define EVENT_MS (5 * 60 * 1000)

/* Number of attempts, one a second: a kube-apiserver that has just started refuses all requests for some seconds. */
#define REFUSED_ATTEMPTS 20

static struct
{
	const char *to;
	const char *kinds;
	const char *kubeconfig;
	const char *queue;
	size_t		queue_bytes;
	int			batch_items;
	size_t		batch_bytes;
	int			list_interval;
	const char *ca_file;
	const char *token_file;
	const char *certificate_file;
	const char *key_file;
	const char *metadata;
}			options;

static const Flag flags[] =
{
	{"to", FLAG_STRING, &options.to, "", 0, 0, "URL of the receiver: https://HOST:PORT, with its --forward-port"},
	{"kinds", FLAG_NAMES, &options.kinds, "", 0, 0,
	"types to send, separated by commas, such as policyreports.wgpolicyk8s.io/v1alpha2"},
	{"kubeconfig", FLAG_FILE, &options.kubeconfig, "", 0, 0,
	"kubeconfig for kube-apiserver; by default the service account of the pod"},
	{"queue", FLAG_STRING, &options.queue, "", 0, 0, "directory of the queue; created if it is missing"},
	{"queue-bytes", FLAG_SIZE, &options.queue_bytes, "1073741824", 1048576, 1099511627776,
	"maximum size of the queue; while it is full, the sender reads nothing from kube-apiserver"},
	{"batch-items", FLAG_INTEGER, &options.batch_items, "500", 1, 4000, "maximum number of objects in a batch"},
	{"batch-bytes", FLAG_SIZE, &options.batch_bytes, "1048576", 1024, 16777216,
	"size after which a batch ends; the receiver's --max-request-body-bytes must have room for one more object"},
	{"list-interval", FLAG_SECONDS, &options.list_interval, "5m0s", 1, 86400,
	"how often kinds are listed that Kubescape's own API server gives, which cannot be watched"},
	{"ca-file", FLAG_FILE, &options.ca_file, "", 0, 0,
	"PEM file with the CAs of the receiver's certificate; by default the system's CAs"},
	{"token-file", FLAG_FILE, &options.token_file, "", 0, 0,
	"file with the token of add_sender(); read for each batch"},
	{"client-certificate-file", FLAG_FILE, &options.certificate_file, "", 0, 0,
	"PEM file with the certificate of the sender; read for each batch"},
	{"client-key-file", FLAG_FILE, &options.key_file, "", 0, 0,
	"PEM file with the private key of the sender"},
	{"extra-metadata", FLAG_NAMES, &options.metadata, "", 0, 0,
	"labels of the cluster at the receiver: KEY=VALUE, separated by commas"},
	{"metrics-bind-address", FLAG_ADDRESS, &config.metrics_bind_address, "0.0.0.0", 0, 0,
	"address of the port for health and metrics"},
	{"metrics-port", FLAG_INTEGER, &config.metrics_port, "8080", 0, 65535,
	"port for health and metrics, plain HTTP; 0: no such port"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"verbosity of the log; 0: errors and the start; 1: also warnings"},
};

static const FlagSet flag_set = {
	.program = "kube-reports-proxy forward",
	.about = "Sends the objects of a cluster to a receiver (--forward-port of another kube-reports-proxy),\n"
	"each change once and in order. A queue on disk holds the changes that the receiver has not stored.",
	.usage = "kube-reports-proxy forward --to=https://HOST:PORT --kinds=... --queue=DIRECTORY --token-file=FILE",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

static KubeApi *kube;
static LoopTimer look_timer;
static uint64_t full_told_at;
static bool full_told;
static uint64_t times_full;

/* ---------- Events and metrics ---------- */

static void
event_answered(void *state, int status, const json_t *answer, const char *why)
{
	if (status != 201)
		log_line(LOG_WARNING, "no Event about the full queue could be created (code %d)", status);
}

static void
look(void *state)
{
	if (queue_is_full() && !full_told)
	{
		times_full++;
		log_line(LOG_ERROR, "the queue is full: %llu bytes in %llu batches", (unsigned long long) queue_bytes(),
				 (unsigned long long) queue_batches());
		if (full_told_at == 0 || loop_now() - full_told_at >= EVENT_MS)
		{
			full_told_at = loop_now();
			pod_event_send(kube, "kube-reports-forward", "ForwardQueueFull",
						   "The queue of forwarded objects is full: nothing more is read until the receiver has "
						   "stored batches. No object is lost; states in between may be.", event_answered, NULL);
		}
	}
	full_told = queue_is_full();
	receiver_look();
	sources_go_on(queue_last() - queue_batches());
	loop_timer_start(&look_timer, LOOK_MS, look, NULL);
}

static void
put_metric(StrBuf *buf, const char *name, const char *type, const char *help, double value)
{
	metrics_write_head(buf, name, type, help);
	strbuf_printf(buf, "%s %.15g\n", name, value);
}

static void
answer(HttpRequest *request)
{
	static const char ok[] = "ok\n";
	static const char not_found[] = "404 not found\n";
	HttpHeader	headers[] = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}};
	const char *path = http_path(request);
	ReceiverCounts sent = receiver_counts();
	SourceCounts read = source_counts();
	int64_t		now = (int64_t) time(NULL);
	int64_t		oldest = queue_oldest();
	StrBuf		buf;

	if (strcmp(path, "/livez") == 0 || strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0)
	{
		http_reply(request, 200, headers, 1, ok, sizeof(ok) - 1);
		return;
	}
	if (strcmp(path, "/metrics") != 0)
	{
		http_reply(request, 404, headers, 1, not_found, sizeof(not_found) - 1);
		return;
	}
	strbuf_init(&buf, http_arena(request));
	put_metric(&buf, "kube_reports_forward_queue_batches", "gauge", "Batches that the receiver has not stored.",
			   (double) queue_batches());
	put_metric(&buf, "kube_reports_forward_queue_bytes", "gauge", "Size of these batches on disk, in bytes.",
			   (double) queue_bytes());
	put_metric(&buf, "kube_reports_forward_queue_limit_bytes", "gauge", "--queue-bytes.",
			   (double) options.queue_bytes);
	put_metric(&buf, "kube_reports_forward_queue_full", "gauge", "Whether the queue is full.",
			   queue_is_full());
	put_metric(&buf, "kube_reports_forward_queue_full_total", "counter", "How often the queue became full.",
			   (double) times_full);
	put_metric(&buf, "kube_reports_forward_oldest_seconds", "gauge", "Age of the oldest batch in the queue.",
			   oldest == 0 || oldest > now ? 0 : (double) (now - oldest));
	put_metric(&buf, "kube_reports_forward_receiver_up", "gauge", "Whether the last request was answered with 200.",
			   sent.up);
	put_metric(&buf, "kube_reports_forward_batches_total", "counter", "Batches that the receiver has stored.",
			   (double) sent.batches);
	put_metric(&buf, "kube_reports_forward_failures_total", "counter", "Requests without the answer 200.",
			   (double) sent.failures);
	put_metric(&buf, "kube_reports_forward_rejected_objects_total", "counter",
			   "Objects that the receiver's schemas refuse: they were left out.", (double) sent.rejected);
	put_metric(&buf, "kube_reports_forward_streams_total", "counter",
			   "Streams begun because the receiver did not know the previous one.", (double) sent.streams);
	put_metric(&buf, "kube_reports_forward_events_total", "counter", "Events read from kube-apiserver.",
			   (double) read.events);
	put_metric(&buf, "kube_reports_forward_lists_total", "counter", "Lists that were compared with the receiver.",
			   (double) read.lists);
	put_metric(&buf, "kube_reports_forward_kinds", "gauge", "Kinds of --kinds.", (double) read.kinds);
	put_metric(&buf, "kube_reports_forward_watching", "gauge",
			   "Kinds whose watch is open, or that are listed at an interval.", (double) read.watching);
	http_reply(request, 200, headers, 1, buf.bytes, buf.len);
}

/* ---------- the start ---------- */

/* Asks kube-apiserver for the kind of a type (PolicyReport); NULL with *why on failure. */
static const char *
kind_name(Asker *asker, Arena *arena, const char *type, const char **why)
{
	const char *dot = strchr(type, '.');
	const char *slash = strchr(type, '/');
	json_auto_t *document = NULL;
	json_t	   *resource;
	size_t		i;
	Answer		got;
	Ask			question = {0};

	if (dot == NULL || slash == NULL || slash < dot || dot == type || slash[1] == '\0')
	{
		*why = "must be PLURAL.GROUP/VERSION";
		return NULL;
	}
	question.path = arena_printf(arena, "/apis/%s", dot + 1);
	for (int attempts = REFUSED_ATTEMPTS;; attempts--)
	{
		document = ask_document(asker, arena, &question, &got);
		if (document != NULL || attempts <= 1 || (got.status != 401 && got.status != 403))
			break;
		if (attempts == REFUSED_ATTEMPTS)
			log_line(LOG_WARNING, "%s; this is asked again for %d seconds", got.why, REFUSED_ATTEMPTS);
		sleep(1);
	}
	if (document == NULL)
	{
		*why = got.why;
		return NULL;
	}
	json_array_foreach(json_object_get(document, "resources"), i, resource)
	{
		const char *name = kube_json_text(resource, "name", NULL);

		if (name != NULL && strlen(name) == (size_t) (dot - type) && strncmp(name, type, (size_t) (dot - type)) == 0)
			return arena_strdup(arena, kube_json_text(resource, "kind", NULL));
	}
	*why = "kube-apiserver does not serve it";
	return NULL;
}

/* Converts KEY=VALUE,... to a JSON object; NULL: the text has another form. */
static const char *
metadata_json(Arena *arena, const char *pairs)
{
	NameList	list;
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_putc(&buf, '{');
	if (pairs[0] != '\0' && !name_list_split(arena, pairs, &list))
		return NULL;
	for (size_t i = 0; pairs[0] != '\0' && i < list.count; i++)
	{
		const char *equals = strchr(list.names[i], '=');

		if (equals == NULL || equals == list.names[i])
			return NULL;
		if (i > 0)
			strbuf_putc(&buf, ',');
		json_write_string(&buf, list.names[i], (size_t) (equals - list.names[i]));
		strbuf_putc(&buf, ':');
		json_write_string(&buf, equals + 1, strlen(equals + 1));
	}
	strbuf_putc(&buf, '}');
	return buf.bytes;
}

static void
on_term(int signal_number)
{
	termination_begin();
}

static void
tick(void)
{
	if (termination_begun())
	{
		builder_flush();
		queue_save();
		http_server_exit();
	}
}

static bool
drained(void)
{
	return true;
}

static int
fail(const char *what, const char *why)
{
	fprintf(stderr, "kube-reports-proxy forward: %s: %s\n", what, why);
	return 1;
}

static bool
listen_for_metrics(char *why, size_t why_size)
{
	HttpListener listener = {.on_request = answer};

	if (config.metrics_port == 0)
		return true;
	if (!sockets_listen(config.metrics_bind_address, config.metrics_port, &listener.fd, 1, why, why_size))
		return false;
	http_server_listen(&listener);
	return true;
}

/* Opens the queue, and starts the sources that fill it and the receiver that empties it.  Returns an exit code. */
static int
begin(Arena *arena, Asker *asker, const NameList *kinds, const Receiver *receiver)
{
	struct sigaction action = {.sa_handler = on_term};
	char		why[512] = "";
	const char *reason = "";

	if (!queue_open(options.queue, options.queue_bytes, why, sizeof(why)))
		return fail(options.queue, why);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	metrics_init(1, false);
	metrics_attach(0);
	http_server_start();
	if (!listen_for_metrics(why, sizeof(why)))
		return fail("the port for metrics", why);
	kube = kubeapi_open(options.kubeconfig);
	sources_list_every(options.list_interval);
	builder_start((size_t) options.batch_items, options.batch_bytes);
	receiver_start(receiver);
	for (size_t i = 0; i < kinds->count; i++)
	{
		const char *kind = kind_name(asker, arena, kinds->names[i], &reason);

		if (kind == NULL)
			return fail(kinds->names[i], reason);
		source_start(kube, kinds->names[i], kind);
	}
	return 0;
}

int
forward_command(int argc, char **argv)
{
	static Arena arena;			/* to the end of the process */
	const char *reason = "";
	Asker	   *asker;
	NameList	kinds;
	Receiver	receiver;
	int			code;

	arena_init(&arena);
	config_use_defaults();
	/* Limits of the plain port. */
	config.max_connections = 64;
	config.max_request_body_bytes = 1024;
	config.max_buffered_body_bytes = 1024 * 1024;
	config.max_buffered_answer_bytes = 16 * 1024 * 1024;
	flags_parse(&flag_set, argc, argv, NULL, 0);
	if (!url_is(options.to, "https://"))
		flags_refuse(&flag_set, "to", options.to, "must be https://HOST:PORT");
	if (options.queue[0] == '\0')
		flags_refuse(&flag_set, "queue", NULL, "is required");
	if (options.kinds[0] == '\0' || !name_list_split(&arena, options.kinds, &kinds))
		flags_refuse(&flag_set, "kinds", NULL, "is required");
	if ((options.token_file[0] == '\0') == (options.certificate_file[0] == '\0'))
		flags_refuse(&flag_set, "token-file", NULL, "one of --token-file and --client-certificate-file is needed");
	receiver = (Receiver) {.server = options.to, .ca_file = options.ca_file, .token_file = options.token_file,
		.certificate_file = options.certificate_file, .key_file = options.key_file,
		.metadata = metadata_json(&arena, options.metadata),
	.stored = sources_go_on, .stream_lost = sources_resync};
	if (receiver.metadata == NULL)
		flags_refuse(&flag_set, "extra-metadata", options.metadata, "must be KEY=VALUE, separated by commas");

	asker = asker_open(&arena, options.kubeconfig, &reason);
	if (asker == NULL)
		return fail("kube-apiserver cannot be reached", reason);
	code = begin(&arena, asker, &kinds, &receiver);
	asker_close(asker);
	if (code != 0)
		return code;
	log_line(LOG_NOTICE, "sends %zu kinds to %s; %llu batches wait in the queue", kinds.count, options.to,
			 (unsigned long long) queue_batches());
	loop_timer_start(&look_timer, 0, look, NULL);
	http_server_run(tick, drained);
	return 0;
}
