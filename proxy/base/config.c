/*-------------------------------------------------------------------------
 *
 * config.c
 *	  Settings of the server: its table of flags, and the rules between them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/flags.h"

#define MAX_DEFAULT_WORKERS 8

/* So that two proxies and other clients fit into max_connections = 100. */
#define MOST_DEFAULT_CONNECTIONS 40

Config		config;

/* ---------- values of single flags ---------- */

static const char *
set_authorization(void *target, const char *value)
{
	AuthorizationMode *mode = target;

	if (strcmp(value, "Webhook") == 0)
		*mode = AUTHORIZATION_WEBHOOK;
	else if (strcmp(value, "AlwaysAllow") == 0)
		*mode = AUTHORIZATION_ALWAYS_ALLOW;
	else if (strcmp(value, "AlwaysDeny") == 0)
		*mode = AUTHORIZATION_ALWAYS_DENY;
	else
		return "must be Webhook, AlwaysAllow or AlwaysDeny";
	return NULL;
}

static const char *
set_disabled_plugins(void *target, const char *value)
{
	if (value[0] != '\0' && strcmp(value, "NamespaceLifecycle") != 0)
		return "the only plugin there is is NamespaceLifecycle";
	*(bool *) target = value[0] == '\0';
	return NULL;
}

static const char *
set_logging_format(void *target, const char *value)
{
	LoggingFormat *format = target;

	if (strcmp(value, "json") == 0)
		*format = LOGGING_JSON;
	else if (strcmp(value, "text") == 0)
		*format = LOGGING_TEXT;
	else
		return "must be json or text";
	return NULL;
}

static FlagParser authorization_parser = {&config.authorization_mode, set_authorization};
static FlagParser plugins_parser = {&config.namespace_lifecycle, set_disabled_plugins};
static FlagParser logging_parser = {&config.logging_format, set_logging_format};

/* ---------- all flags ---------- */

static const Flag flags[] =
{
	{"bind-address", FLAG_ADDRESS, &config.bind_address, "0.0.0.0", 0, 0,
	"address of the API port; :: serves IPv6 and IPv4"},
	{"secure-port", FLAG_INTEGER, &config.secure_port, "6443", 1, 65535,
	"port of the API, HTTPS"},
	{"metrics-bind-address", FLAG_ADDRESS, &config.metrics_bind_address, "0.0.0.0", 0, 0,
	"address of the plain port"},
	{"metrics-port", FLAG_INTEGER, &config.metrics_port, "8080", 0, 65535,
	"port for health and metrics, plain HTTP; 0 for none"},
	{"tls-cert-file", FLAG_FILE, &config.tls_cert_file, "", 0, 0,
	"certificate chain of the server, PEM; read again when it changes"},
	{"tls-private-key-file", FLAG_FILE, &config.tls_private_key_file, "", 0, 0,
	"private key of the server, PEM; read again when it changes"},
	{"apiservice-ca-file", FLAG_FILE, &config.apiservice_ca_file, "", 0, 0,
		"CAs of the server's certificate, PEM: become the caBundle of APIServices by whose own it cannot be verified "
		"any "
	"more; read again when it changes"},
	{"client-ca-file", FLAG_FILE, &config.client_ca_file, "", 0, 0,
	"CAs of client certificates (user is the CN, groups are the O values), PEM; read again when it changes"},
	{"require-client-cert", FLAG_BOOLEAN, &config.require_client_cert, "false", 0, 0,
	"refuse clients without a valid certificate in the TLS handshake"},
	{"requestheader-client-ca-file", FLAG_FILE, &config.requestheader_client_ca_file, "", 0, 0,
	"CAs of the front proxy, whose X-Remote-* headers are believed, PEM; read again when it changes"},
	{"requestheader-allowed-names", FLAG_NAMES, &config.requestheader_allowed_names, "", 0, 0,
	"common names allowed for the front proxy, separated by commas; empty for any"},
	{"requestheader-username-headers", FLAG_NAMES, &config.requestheader_username_headers, "X-Remote-User", 0, 0,
	"headers in which the front proxy names the user; the first that has a value counts"},
	{"requestheader-uid-headers", FLAG_NAMES, &config.requestheader_uid_headers, "", 0, 0,
	"headers in which the front proxy names the user's uid; X-Remote-Uid from Kubernetes 1.32 on"},
	{"requestheader-group-headers", FLAG_NAMES, &config.requestheader_group_headers, "X-Remote-Group", 0, 0,
	"headers in which the front proxy names the user's groups"},
	{"requestheader-extra-headers-prefix", FLAG_NAMES, &config.requestheader_extra_headers_prefix,
		"X-Remote-Extra-", 0, 0,
	"prefixes of the headers in which the front proxy tells more of the user"},
	{"authentication-kubeconfig", FLAG_FILE, &config.authentication_kubeconfig, "", 0, 0,
	"kubeconfig to reach kube-apiserver with; without it, the service account of the pod"},
	{"authentication-skip-lookup", FLAG_BOOLEAN, &config.authentication_skip_lookup, "false", 0, 0,
	"do not ask kube-apiserver for the CAs that --client-ca-file and --requestheader-client-ca-file do not give"},
	{"authentication-tolerate-lookup-failure", FLAG_BOOLEAN,
		&config.authentication_tolerate_lookup_failure, "false", 0, 0,
	"start although they cannot be had yet: nobody is believed until they can"},
	{"authentication-token-webhook-cache-ttl", FLAG_MILLISECONDS, &config.token_cache_ttl, "10s", 0, 3600000,
	"how long the answer to a TokenReview is remembered; 0 for not at all"},
	{"api-audiences", FLAG_NAMES, &config.api_audiences, "", 0, 0,
	"audiences one of which a bearer token must be meant for, separated by commas; empty for kube-apiserver's own"},
	{"anonymous-auth", FLAG_BOOLEAN, &config.anonymous_auth, "true", 0, 0,
	"requests without any credentials are those of system:anonymous; otherwise they are refused with code 401"},
	{"authorization-mode", FLAG_PARSED, &authorization_parser, "AlwaysDeny", 0, 0,
	"Webhook (kube-apiserver decides), AlwaysAllow or AlwaysDeny; system:masters is always allowed"},
	{"authorization-kubeconfig", FLAG_FILE, &config.authorization_kubeconfig, "", 0, 0,
	"kubeconfig to ask kube-apiserver for decisions with; without it, as --authentication-kubeconfig"},
	{"authorization-webhook-cache-authorized-ttl", FLAG_MILLISECONDS, &config.authorized_ttl, "10s", 0, 3600000,
	"how long it is remembered that something is allowed; 0 for not at all"},
	{"authorization-webhook-cache-unauthorized-ttl", FLAG_MILLISECONDS, &config.unauthorized_ttl, "10s", 0, 3600000,
	"how long it is remembered that something is not allowed; 0 for not at all"},
	{"authorization-always-allow-paths", FLAG_STRING, &config.authorization_always_allow_paths,
		"/healthz,/livez,/readyz", 0, 0,
	"paths that need no authorization, separated by commas; a trailing * stands for any rest"},
	{"database", FLAG_STRING, &config.database, "", 0, 0,
	"connection string; what it leaves out comes from the environment (PGHOST, PGUSER ...)"},
	{"read-database", FLAG_STRING, &config.read_database, "", 0, 0,
	"connection string of a streaming standby: lists and watches of versions that it has are read there"},
	{"database-connections", FLAG_INTEGER, &config.connections, NULL, 1, 4096,
		"connections of the whole proxy to the database, at most; 3 for each worker, 2 for upkeep and 1 for the feed "
		"are needed; by default 6 for each worker and these 3, but no more than 40, so that two proxies fit into "
	"max_connections = 100"},
	{"disable-admission-plugins", FLAG_PARSED, &plugins_parser, "", 0, 0,
		"NamespaceLifecycle: create in any namespace; otherwise, where there is a kube-apiserver, only in one that "
	"exists and is not being deleted"},
	{"cluster-id", FLAG_UUID, &config.cluster_id, "", 0, 0,
	"uid of the cluster that is served; without it, the uid of the namespace kube-system is asked from kube-apiserver"},
	{"cluster-name", FLAG_STRING, &config.cluster_name, "", 0, 0,
	"name of the cluster, for people"},
	{"upkeep", FLAG_BOOLEAN, &config.upkeep, "true", 0, 0,
		"run the upkeep process: maintenance, merging, namespaces, webhooks, the caBundle of APIServices, counts for "
	"metrics; one proxy of a cluster has to"},
	{"workers", FLAG_INTEGER, &config.workers, NULL, 1, 64,
	"worker processes; by default one for each processor, at most 8"},
	{"max-request-body-bytes", FLAG_SIZE, &config.max_request_body_bytes, "3145728", 1024, 67108864,
	"larger request bodies are refused with code 413"},
	{"max-connections", FLAG_SIZE, &config.max_connections, "8192", 16, 1048576,
		"clients' connections of each worker; a quarter of them may be of clients that nobody knows, of which the "
		"idlest makes "
	"room for another"},
	{"max-buffered-body-bytes", FLAG_SIZE, &config.max_buffered_body_bytes, "134217728", 1048576, 1099511627776,
		"bytes of request bodies that each worker holds, by their announced length, a quarter of them for clients "
		"that nobody "
	"knows; what is beyond is refused with code 429"},
	{"max-buffered-answer-bytes", FLAG_SIZE, &config.max_buffered_answer_bytes, "268435456", 1048576, 1099511627776,
		"bytes of answers that each worker holds for clients; beyond it, the clients are cut that take nothing for a "
	"second"},
	{"http2", FLAG_BOOLEAN, &config.http2, "false", 0, 0,
	"offer HTTP/2; this version of libh2o has known weaknesses there: only for clients that are trusted"},
	{"request-timeout", FLAG_SECONDS, &config.request_timeout, "1m0s", 1, 3600,
	"time for a request that is not a watch"},
	{"shutdown-delay-duration", FLAG_SECONDS, &config.shutdown_delay, "0s", 0, 3600,
	"time between SIGTERM, when readyz begins to fail, and the end of accepting connections"},
	{"shutdown-timeout", FLAG_SECONDS, &config.shutdown_timeout, "30s", 0, 60,
	"time after that for requests to end"},
	{"watch-poll-interval", FLAG_MILLISECONDS, &config.poll_interval, "30ms", 1, 60000,
	"how often the change log is looked at"},
	{"result-metrics-series", FLAG_INTEGER, &config.result_series, "0", 0, 50000,
		"at most so many series of policy_report_result and cluster_policy_report_result at /metrics, failing ones "
	"first; 0 for none"},
	{"result-metrics-interval", FLAG_MILLISECONDS, &config.result_interval, "15s", 1000, 3600000,
	"how often they are read from the database at most"},
	{"webhooks", FLAG_BOOLEAN, &config.webhooks, "true", 0, 0,
	"send new failures to the targets of add_webhook()"},
	{"webhook-directory", FLAG_STRING, &config.webhook_directory, "", 0, 0,
	"directory with the files that add_webhook() names: tokens, keys, CAs; read for each batch"},
	{"pid-file", FLAG_STRING, &config.pid_file, "", 0, 0,
	"file to write the process id to"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"what is logged: 0 errors, slow requests and how the start went, 1 also every request, 2 also details"},
	{"logging-format", FLAG_PARSED, &logging_parser, "json", 0, 0,
	"json or text"},
	{"slow-request-threshold", FLAG_MILLISECONDS, &config.slow_request_threshold, "1s", 0, 3600000,
	"requests that take as long or longer, watches aside, are logged whatever --v is; 0 for none"},
};

static FlagSet flag_set = {
	.program = "kube-reports-proxy",
	.about = "kube-reports-proxy serves policy reports kept in PostgreSQL as a Kubernetes API.",
	.usage = "kube-reports-proxy --tls-cert-file=FILE --tls-private-key-file=FILE [flags]",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

static _Noreturn void
usage_error(const char *flag, const char *value, const char *reason)
{
	flags_refuse(&flag_set, flag, value, reason);
}

void
config_refuse(const char *flag, const char *reason)
{
	usage_error(flag, NULL, reason);
}

static void
check_connections(void)
{
	int			others = FEED_CONNECTIONS + (config.upkeep ? UPKEEP_CONNECTIONS : 0);
	int			least = config.workers * WORKER_LEAST_CONNECTIONS + others;
	char		reason[160];

	if (config.connections == 0)
	{
		config.connections = config.workers * WORKER_USEFUL_CONNECTIONS + others;
		if (config.connections > MOST_DEFAULT_CONNECTIONS)
			config.connections = MOST_DEFAULT_CONNECTIONS;
	}
	if (config.connections >= least)
		return;
	snprintf(reason, sizeof(reason),
			 "%d are too few for %d workers%s and the feed: at least %d are needed, or fewer --workers",
			 config.connections, config.workers, config.upkeep ? ", the upkeep process" : "", least);
	usage_error("database-connections", NULL, reason);
}

/* Checks that need the values of several flags. */
static void
check_all(void)
{
	if (config.tls_cert_file[0] == '\0')
		usage_error("tls-cert-file", NULL, "is required");
	if (config.tls_private_key_file[0] == '\0')
		usage_error("tls-private-key-file", NULL, "is required");
	if (config.require_client_cert && config.client_ca_file[0] == '\0' &&
		config.requestheader_client_ca_file[0] == '\0' &&
		(config.authentication_skip_lookup || !config_has_kubeapi(config.authentication_kubeconfig)))
		usage_error("require-client-cert", NULL,
					"needs --client-ca-file, --requestheader-client-ca-file or a kube-apiserver");
	if (config.authorization_mode == AUTHORIZATION_WEBHOOK && !config_has_kubeapi(config_authorization_kubeconfig()))
		usage_error("authorization-mode", "Webhook",
					"needs --authorization-kubeconfig, --authentication-kubeconfig or a pod");
	if (config.apiservice_ca_file[0] != '\0' && !config_has_kubeapi(config.authentication_kubeconfig))
		usage_error("apiservice-ca-file", config.apiservice_ca_file, "needs --authentication-kubeconfig or a pod");
	check_connections();
	if (config.result_series > 0 && !config.upkeep)
		usage_error("result-metrics-series", NULL, "needs --upkeep: the upkeep process reads them");
	if (config.metrics_port == config.secure_port)
		usage_error("metrics-port", NULL, "must not be the same as --secure-port");
}

bool
config_has_kubeapi(const char *kubeconfig)
{
	return kubeconfig[0] != '\0' || getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

const char *
config_authorization_kubeconfig(void)
{
	return config.authorization_kubeconfig[0] != '\0' ? config.authorization_kubeconfig :
		config.authentication_kubeconfig;
}

void
config_parse(int argc, char **argv, void (*help_end) (void))
{
	long		processors = sysconf(_SC_NPROCESSORS_ONLN);

	flag_set.help_end = help_end;
	config.workers = processors < 1 ? 1 : processors > MAX_DEFAULT_WORKERS ? MAX_DEFAULT_WORKERS : (int) processors;
	flags_parse(&flag_set, argc, argv, NULL, 0);
	check_all();
	/* Without a kube-apiserver, every valid namespace counts as existing. */
	if (!config_has_kubeapi(config.authentication_kubeconfig))
		config.namespace_lifecycle = false;
}
