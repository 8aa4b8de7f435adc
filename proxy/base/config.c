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

/* Limit of the default: with it, two proxies and other clients fit into max_connections = 100. */
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
		return "the only plugin is NamespaceLifecycle";
	*(bool *) target = value[0] == '\0';
	return NULL;
}

const char *
config_set_logging_format(void *target, const char *value)
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
static FlagParser logging_parser = {&config.logging_format, config_set_logging_format};

/* ---------- all flags ---------- */

static const Flag flags[] =
{
	{"bind-address", FLAG_ADDRESS, &config.bind_address, "0.0.0.0", 0, 0,
	"address of the API port; :: serves IPv6 and IPv4"},
	{"secure-port", FLAG_INTEGER, &config.secure_port, "6443", 1, 65535,
	"port of the API, HTTPS"},
	{"metrics-bind-address", FLAG_ADDRESS, &config.metrics_bind_address, "0.0.0.0", 0, 0,
	"address of the port for health and metrics"},
	{"metrics-port", FLAG_INTEGER, &config.metrics_port, "8080", 0, 65535,
	"port for health and metrics, plain HTTP; 0: no such port"},
	{"tls-cert-file", FLAG_FILE, &config.tls_cert_file, "", 0, 0,
	"PEM file with the certificate chain of the server; read again when it changes"},
	{"tls-private-key-file", FLAG_FILE, &config.tls_private_key_file, "", 0, 0,
	"PEM file with the private key of the server; read again when it changes"},
	{"apiservice-ca-file", FLAG_FILE, &config.apiservice_ca_file, "", 0, 0,
		"PEM file with the CA bundle to write into APIServices whose own bundle no longer verifies the serving "
	"certificate; read again when it changes"},
	{"client-ca-file", FLAG_FILE, &config.client_ca_file, "", 0, 0,
	"PEM file with the CAs of client certificates (user: CN, groups: O values); read again when it changes"},
	{"require-client-cert", FLAG_BOOLEAN, &config.require_client_cert, "false", 0, 0,
	"refuse clients without a valid certificate in the TLS handshake"},
	{"requestheader-client-ca-file", FLAG_FILE, &config.requestheader_client_ca_file, "", 0, 0,
	"PEM file with the CAs of the front proxy, whose X-Remote-* headers are trusted; read again when it changes"},
	{"requestheader-allowed-names", FLAG_NAMES, &config.requestheader_allowed_names, "", 0, 0,
	"common names (CN) that the front proxy's certificate may have, separated by commas; empty: any"},
	{"requestheader-username-headers", FLAG_NAMES, &config.requestheader_username_headers, "X-Remote-User", 0, 0,
	"headers with the user's name from the front proxy; the first header with a value counts"},
	{"requestheader-uid-headers", FLAG_NAMES, &config.requestheader_uid_headers, "", 0, 0,
	"headers with the user's uid from the front proxy; X-Remote-Uid since Kubernetes 1.32"},
	{"requestheader-group-headers", FLAG_NAMES, &config.requestheader_group_headers, "X-Remote-Group", 0, 0,
	"headers with the user's groups from the front proxy"},
	{"requestheader-extra-headers-prefix", FLAG_NAMES, &config.requestheader_extra_headers_prefix,
		"X-Remote-Extra-", 0, 0,
	"prefixes of headers with other attributes of the user from the front proxy"},
	{"authentication-kubeconfig", FLAG_FILE, &config.authentication_kubeconfig, "", 0, 0,
	"kubeconfig for kube-apiserver; by default the service account of the pod"},
	{"authentication-skip-lookup", FLAG_BOOLEAN, &config.authentication_skip_lookup, "false", 0, 0,
	"do not read CAs from kube-apiserver if --client-ca-file or --requestheader-client-ca-file is missing"},
	{"authentication-tolerate-lookup-failure", FLAG_BOOLEAN,
		&config.authentication_tolerate_lookup_failure, "false", 0, 0,
	"start even if these CAs cannot be read yet; no client is authenticated until they can"},
	{"authentication-token-webhook-cache-ttl", FLAG_MILLISECONDS, &config.token_cache_ttl, "10s", 0, 3600000,
	"how long an answer to a TokenReview is cached; 0: no cache"},
	{"api-audiences", FLAG_NAMES, &config.api_audiences, "", 0, 0,
	"audiences, separated by commas; a bearer token must name one of them; empty: kube-apiserver's own audiences"},
	{"anonymous-auth", FLAG_BOOLEAN, &config.anonymous_auth, "true", 0, 0,
	"treat requests without credentials as requests of system:anonymous; if false, answer them with 401"},
	{"authorization-mode", FLAG_PARSED, &authorization_parser, "AlwaysDeny", 0, 0,
	"Webhook (kube-apiserver decides), AlwaysAllow or AlwaysDeny; system:masters is always allowed"},
	{"authorization-kubeconfig", FLAG_FILE, &config.authorization_kubeconfig, "", 0, 0,
	"kubeconfig for SubjectAccessReviews at kube-apiserver; by default the one of --authentication-kubeconfig"},
	{"authorization-webhook-cache-authorized-ttl", FLAG_MILLISECONDS, &config.authorized_ttl, "10s", 0, 3600000,
	"how long a decision to allow is cached; 0: no cache"},
	{"authorization-webhook-cache-unauthorized-ttl", FLAG_MILLISECONDS, &config.unauthorized_ttl, "10s", 0, 3600000,
	"how long a decision to deny is cached; 0: no cache"},
	{"authorization-always-allow-paths", FLAG_STRING, &config.authorization_always_allow_paths,
		"/healthz,/livez,/readyz", 0, 0,
	"paths that need no authorization, separated by commas; a path with * at its end is a prefix"},
	{"database", FLAG_STRING, &config.database, "", 0, 0,
	"connection string; environment variables such as PGHOST and PGUSER give missing parameters"},
	{"read-database", FLAG_STRING, &config.read_database, "", 0, 0,
	"connection string of a streaming standby, for lists and watches of versions that the standby has"},
	{"database-password-file", FLAG_STRING, &config.database_password_file, "", 0, 0,
		"file with the password of the database's role, such as a service's access token; read for each new "
	"connection, and preferred to a password in the connection string"},
	{"read-database-password-file", FLAG_STRING, &config.read_database_password_file, "", 0, 0,
	"file with the password for --read-database; by default the file of --database-password-file"},
	{"database-connections", FLAG_INTEGER, &config.connections, NULL, 1, 4096,
		"maximum number of the proxy's connections to the database; at least 3 for each worker, 2 for upkeep and 1 for "
		"the feed; by default 6 for each worker and these 3, but at most 40, so that two proxies fit into "
	"max_connections = 100"},
	{"disable-admission-plugins", FLAG_PARSED, &plugins_parser, "", 0, 0,
		"NamespaceLifecycle: allow creates in any namespace; by default, with a kube-apiserver, only in namespaces "
	"that exist and are not being deleted"},
	{"cluster-id", FLAG_UUID, &config.cluster_id, "", 0, 0,
	"uid of the served cluster; by default the uid of the namespace kube-system, read from kube-apiserver"},
	{"cluster-name", FLAG_STRING, &config.cluster_name, "", 0, 0,
	"name of the cluster in views and pages"},
	{"upkeep", FLAG_BOOLEAN, &config.upkeep, "true", 0, 0,
		"run the upkeep process: maintenance, merging, namespaces, webhooks, the caBundle of APIServices, counts for "
	"metrics; at least one proxy of a cluster must run it"},
	{"workers", FLAG_INTEGER, &config.workers, NULL, 1, 64,
	"number of worker processes; by default one for each processor, at most 8"},
	{"max-request-body-bytes", FLAG_SIZE, &config.max_request_body_bytes, "3145728", 1024, 67108864,
	"maximum size of a request body; larger bodies are answered with 413"},
	{"max-connections", FLAG_COUNT, &config.max_connections, "8192", 16, 1048576,
		"maximum number of clients' connections of each worker; unauthenticated clients can have a quarter of them, "
	"and a new one replaces the one that is idle for the longest time"},
	{"max-buffered-body-bytes", FLAG_SIZE, &config.max_buffered_body_bytes, "134217728", 1048576, 1099511627776,
		"maximum size of all request bodies that a worker holds, by their announced length, a quarter of it for "
	"unauthenticated clients; further bodies are answered with 429"},
	{"max-buffered-answer-bytes", FLAG_SIZE, &config.max_buffered_answer_bytes, "268435456", 1048576, 1099511627776,
		"maximum size of all answers that a worker holds for clients; beyond that, connections of clients that read "
	"nothing for a second are closed"},
	{"http2", FLAG_BOOLEAN, &config.http2, "false", 0, 0,
	"offer HTTP/2; only for trusted clients, because this version of libh2o has known weaknesses in HTTP/2"},
	{"request-timeout", FLAG_SECONDS, &config.request_timeout, "1m0s", 1, 3600,
	"time limit of a request that is not a watch"},
	{"shutdown-delay-duration", FLAG_SECONDS, &config.shutdown_delay, "0s", 0, 3600,
	"how long the proxy accepts connections after SIGTERM; readyz fails from SIGTERM on"},
	{"shutdown-timeout", FLAG_SECONDS, &config.shutdown_timeout, "30s", 0, 60,
	"how long requests may take to end after that"},
	{"watch-poll-interval", FLAG_MILLISECONDS, &config.poll_interval, "30ms", 1, 60000,
	"interval between two polls of the change log"},
	{"result-metrics-series", FLAG_INTEGER, &config.result_series, "0", 0, 50000,
		"maximum number of series of policy_report_result and cluster_policy_report_result at /metrics, failing ones "
	"first; 0: none"},
	{"result-metrics-interval", FLAG_MILLISECONDS, &config.result_interval, "15s", 1000, 3600000,
	"shortest interval between two reads of these series from the database"},
	{"webhooks", FLAG_BOOLEAN, &config.webhooks, "true", 0, 0,
	"send new failures to the targets of add_webhook()"},
	{"webhook-directory", FLAG_STRING, &config.webhook_directory, "", 0, 0,
	"directory with the files that add_webhook() names (tokens, keys, CAs); they are read for each batch"},
	{"forward-port", FLAG_INTEGER, &config.forward_port, "0", 0, 65535,
	"port for results and objects that senders of other clusters forward, HTTPS; 0: no such port"},
	{"forward-client-ca-file", FLAG_FILE, &config.forward_client_ca_file, "", 0, 0,
	"PEM file with the CAs of senders' certificates (CN: as given to add_sender()); read again when it changes"},
	{"pid-file", FLAG_STRING, &config.pid_file, "", 0, 0,
	"file for the process id"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"verbosity of the log; 0: errors, slow requests and the start; 1: also every request; 2: also details"},
	{"logging-format", FLAG_PARSED, &logging_parser, "json", 0, 0,
	"json or text"},
	{"slow-request-threshold", FLAG_MILLISECONDS, &config.slow_request_threshold, "1s", 0, 3600000,
	"requests other than watches that take at least this long are logged with any --v; 0: none"},
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
			 "%d are too few for %d workers%s and the feed: give at least %d, or fewer --workers",
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
	if (config.forward_port != 0 &&
		(config.forward_port == config.secure_port || config.forward_port == config.metrics_port))
		usage_error("forward-port", NULL, "must not be the same as --secure-port or --metrics-port");
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
config_use_defaults(void)
{
	char	   *arguments[] = {"kube-reports-proxy", NULL};

	flags_parse(&flag_set, 1, arguments, NULL, 0);
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
