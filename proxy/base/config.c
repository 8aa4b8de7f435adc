/*-------------------------------------------------------------------------
 *
 * config.c
 *	  Settings of the proxy: one table of flags, defaults, checks and help.
 *
 * A flag is written --name=value or --name value; a boolean flag may stand
 * alone.  Durations are Go's (30s, 1m30s, 500ms), as in kube-apiserver.  The
 * last of several values wins.  A wrong command line ends the process with
 * code 2 and one line that names the flag and the reason.
 *
 *-------------------------------------------------------------------------
 */
#include "base/config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name_list.h"

#define EXIT_USAGE 2
#define MAX_DEFAULT_WORKERS 8

/* Two proxies, and others beside them, within max_connections = 100. */
#define MOST_DEFAULT_CONNECTIONS 40

typedef enum FlagKind
{
	FLAG_STRING,
	FLAG_FILE,					/* readable, when it is given */
	FLAG_NAMES,					/* separated by commas, none empty */
	FLAG_ADDRESS,				/* IPv4 or IPv6 */
	FLAG_UUID,
	FLAG_INTEGER,
	FLAG_SIZE,
	FLAG_SECONDS,				/* a duration, rounded up */
	FLAG_MILLISECONDS,
	FLAG_BOOLEAN,
	FLAG_AUTHORIZATION,
	FLAG_DISABLED_PLUGINS
} FlagKind;

typedef struct Flag
{
	const char *name;
	FlagKind	kind;
	void	   *target;
	const char *initial;		/* shown in the help, parsed like a value */
	double		least;			/* numbers and durations, in the unit of the target */
	double		most;
	const char *help;
} Flag;

Config		config;

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
	"CAs of the server's certificate, PEM: become the caBundle of APIServices by whose own it cannot be verified any more; read again when it changes"},
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
	{"requestheader-extra-headers-prefix", FLAG_NAMES, &config.requestheader_extra_headers_prefix, "X-Remote-Extra-", 0, 0,
	"prefixes of the headers in which the front proxy tells more of the user"},
	{"authentication-kubeconfig", FLAG_FILE, &config.authentication_kubeconfig, "", 0, 0,
	"kubeconfig to reach kube-apiserver with; without it, the service account of the pod"},
	{"authentication-skip-lookup", FLAG_BOOLEAN, &config.authentication_skip_lookup, "false", 0, 0,
	"do not ask kube-apiserver for the CAs that --client-ca-file and --requestheader-client-ca-file do not give"},
	{"authentication-tolerate-lookup-failure", FLAG_BOOLEAN, &config.authentication_tolerate_lookup_failure, "false", 0, 0,
	"start although they cannot be had yet: nobody is believed until they can"},
	{"authentication-token-webhook-cache-ttl", FLAG_MILLISECONDS, &config.token_cache_ttl, "10s", 0, 3600000,
	"how long the answer to a TokenReview is remembered; 0 for not at all"},
	{"api-audiences", FLAG_NAMES, &config.api_audiences, "", 0, 0,
	"audiences one of which a bearer token must be meant for, separated by commas; empty for kube-apiserver's own"},
	{"anonymous-auth", FLAG_BOOLEAN, &config.anonymous_auth, "true", 0, 0,
	"requests without any credentials are those of system:anonymous; otherwise they are refused with code 401"},
	{"authorization-mode", FLAG_AUTHORIZATION, &config.authorization_mode, "AlwaysDeny", 0, 0,
	"Webhook (kube-apiserver decides), AlwaysAllow or AlwaysDeny; system:masters is always allowed"},
	{"authorization-kubeconfig", FLAG_FILE, &config.authorization_kubeconfig, "", 0, 0,
	"kubeconfig to ask kube-apiserver for decisions with; without it, as --authentication-kubeconfig"},
	{"authorization-webhook-cache-authorized-ttl", FLAG_MILLISECONDS, &config.authorized_ttl, "10s", 0, 3600000,
	"how long it is remembered that something is allowed; 0 for not at all"},
	{"authorization-webhook-cache-unauthorized-ttl", FLAG_MILLISECONDS, &config.unauthorized_ttl, "10s", 0, 3600000,
	"how long it is remembered that something is not allowed; 0 for not at all"},
	{"authorization-always-allow-paths", FLAG_STRING, &config.authorization_always_allow_paths, "/healthz,/livez,/readyz", 0, 0,
	"paths that need no authorization, separated by commas; a trailing * stands for any rest"},
	{"database", FLAG_STRING, &config.database, "", 0, 0,
	"connection string; what it leaves out comes from the environment (PGHOST, PGUSER ...)"},
	{"read-database", FLAG_STRING, &config.read_database, "", 0, 0,
	"connection string of a streaming standby: lists and watches of versions that it has are read there"},
	{"database-connections", FLAG_INTEGER, &config.connections, NULL, 1, 4096,
	"connections of the whole proxy to the database, at most; 3 for each worker and 2 for upkeep are needed; by default 6 for each worker and 2 for upkeep, but no more than 40, so that two proxies fit into max_connections = 100"},
	{"disable-admission-plugins", FLAG_DISABLED_PLUGINS, &config.namespace_lifecycle, "", 0, 0,
	"NamespaceLifecycle: create in any namespace; otherwise, where there is a kube-apiserver, only in one that exists and is not being deleted"},
	{"cluster-id", FLAG_UUID, &config.cluster_id, "", 0, 0,
	"uid of the cluster that is served; without it, the uid of the namespace kube-system is asked from kube-apiserver"},
	{"cluster-name", FLAG_STRING, &config.cluster_name, "", 0, 0,
	"name of the cluster, for people"},
	{"upkeep", FLAG_BOOLEAN, &config.upkeep, "true", 0, 0,
	"run the upkeep process: maintenance, merging, namespaces, webhooks, the caBundle of APIServices, counts for metrics; one proxy of a cluster has to"},
	{"workers", FLAG_INTEGER, &config.workers, NULL, 1, 64,
	"worker processes; by default one for each processor, at most 8"},
	{"max-request-body-bytes", FLAG_SIZE, &config.max_request_body_bytes, "3145728", 1024, 67108864,
	"larger request bodies are refused with code 413"},
	{"max-connections", FLAG_SIZE, &config.max_connections, "8192", 16, 1048576,
		"clients' connections of each worker; a quarter of them may be of clients that nobody knows, of which the idlest makes "
	"room for another"},
	{"max-buffered-body-bytes", FLAG_SIZE, &config.max_buffered_body_bytes, "134217728", 1048576, 1099511627776,
		"bytes of request bodies that each worker holds, by their announced length, a quarter of them for clients that nobody "
	"knows; what is beyond is refused with code 429"},
	{"max-buffered-answer-bytes", FLAG_SIZE, &config.max_buffered_answer_bytes, "268435456", 1048576, 1099511627776,
	"bytes of answers that each worker holds for clients; beyond it, the clients are cut that take nothing for a second"},
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
	"at most so many series of policy_report_result and cluster_policy_report_result at /metrics, failing ones first; 0 for none"},
	{"result-metrics-interval", FLAG_MILLISECONDS, &config.result_interval, "15s", 1000, 3600000,
	"how often they are read from the database at most"},
	{"webhooks", FLAG_BOOLEAN, &config.webhooks, "true", 0, 0,
	"send new failures to the targets of add_webhook()"},
	{"webhook-directory", FLAG_STRING, &config.webhook_directory, "", 0, 0,
	"directory with the files that add_webhook() names: tokens, keys, CAs; read for each batch"},
	{"pid-file", FLAG_STRING, &config.pid_file, "", 0, 0,
	"file to write the process id to"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"what is logged: 0 errors and how the start went, 1 also every request, 2 also details"},
};

#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static _Noreturn void
usage_error(const char *flag, const char *value, const char *reason)
{
	if (value != NULL)
		fprintf(stderr, "kube-reports-proxy: invalid argument \"%s\" for --%s: %s\n", value, flag, reason);
	else
		fprintf(stderr, "kube-reports-proxy: --%s: %s\n", flag, reason);
	exit(EXIT_USAGE);
}

void
config_refuse(const char *flag, const char *reason)
{
	usage_error(flag, NULL, reason);
}

static void
print_help(void)
{
	printf("kube-reports-proxy serves policy reports kept in PostgreSQL as a Kubernetes API.\n\n"
		   "Usage:\n  kube-reports-proxy --tls-cert-file=FILE --tls-private-key-file=FILE [flags]\n\nFlags:\n");
	for (size_t i = 0; i < FLAG_COUNT; i++)
	{
		static const char *const kinds[] = {"string", "file", "names", "ip", "uuid", "int", "bytes", "duration", "duration", "", "string", "string"};
		const Flag *flag = &flags[i];

		printf("  --%s %s\n        %s", flag->name, kinds[flag->kind], flag->help);
		if (flag->initial != NULL && flag->initial[0] != '\0')
			printf(" (default %s)", flag->initial);
		printf("\n");
	}
	printf("  --help\n        show this help\n  --version\n        show the version\n");
}

/* Parses a Go duration into seconds; false when it is none. */
static bool
parse_duration(const char *text, double *seconds)
{
	static const struct
	{
		const char *name;
		double		seconds;
	}			units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};

	*seconds = 0;
	if (strcmp(text, "0") == 0)
		return true;
	if (*text == '\0')
		return false;
	while (*text != '\0')
	{
		char	   *end;
		double		number;
		size_t		unit;
		size_t		unit_len;

		/* strtod takes more than Go does: signs, exponents, names. */
		if (!isdigit((unsigned char) *text) && *text != '.')
			return false;
		if (strspn(text, "0123456789.") > 30)
			return false;
		number = strtod(text, &end);
		if (end != text + strspn(text, "0123456789."))
			return false;
		text = end;
		unit_len = strspn(text, "numsh");
		for (unit = 0; unit < sizeof(units) / sizeof(units[0]); unit++)
			if (strlen(units[unit].name) == unit_len && strncmp(text, units[unit].name, unit_len) == 0)
				break;
		if (unit == sizeof(units) / sizeof(units[0]))
			return false;
		*seconds += number * units[unit].seconds;
		text += unit_len;
	}
	return true;
}

static bool
is_uuid(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	if (strlen(text) != strlen(form))
		return false;
	for (size_t i = 0; form[i] != '\0'; i++)
		if (form[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char) text[i]))
			return false;
	return true;
}

static void
check_range(const Flag *flag, const char *value, double number, const char *unit)
{
	char		reason[120];

	if (number >= flag->least && number <= flag->most)
		return;
	snprintf(reason, sizeof(reason), "must be between %.0f%s and %.0f%s", flag->least, unit, flag->most, unit);
	usage_error(flag->name, value, reason);
}

static double
parse_number(const Flag *flag, const char *value)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (*value == '\0' || isspace((unsigned char) *value) || *end != '\0' || errno != 0)
		usage_error(flag->name, value, "must be a whole number");
	check_range(flag, value, (double) number, "");
	return (double) number;
}

static void
check_names(const Flag *flag, const char *value)
{
	NameList	names;
	Arena		arena;
	bool		good;

	arena_init(&arena);
	good = name_list_split(&arena, value, &names);
	arena_free(&arena);
	if (!good)
		usage_error(flag->name, value, "must be names separated by commas, none of them empty");
}

static void
set_flag(const Flag *flag, const char *value)
{
	struct in6_addr address;
	double		number;

	switch (flag->kind)
	{
		case FLAG_ADDRESS:
			if (inet_pton(AF_INET, value, &address) != 1 && inet_pton(AF_INET6, value, &address) != 1)
				usage_error(flag->name, value, "must be an IP address");
			*(const char **) flag->target = value;
			break;
		case FLAG_UUID:
			if (value[0] != '\0' && !is_uuid(value))
				usage_error(flag->name, value, "must be a UUID");
			*(const char **) flag->target = value;
			break;
		case FLAG_NAMES:
			check_names(flag, value);
			*(const char **) flag->target = value;
			break;
		case FLAG_STRING:
		case FLAG_FILE:
			*(const char **) flag->target = value;
			break;
		case FLAG_INTEGER:
			*(int *) flag->target = (int) parse_number(flag, value);
			break;
		case FLAG_SIZE:
			*(size_t *) flag->target = (size_t) parse_number(flag, value);
			break;
		case FLAG_SECONDS:
			if (!parse_duration(value, &number))
				usage_error(flag->name, value, "must be a duration such as 30s or 1m30s");
			number = ceil(number);
			check_range(flag, value, number, "s");
			*(int *) flag->target = (int) number;
			break;
		case FLAG_MILLISECONDS:
			if (!parse_duration(value, &number))
				usage_error(flag->name, value, "must be a duration such as 30ms or 1s");
			number = ceil(number * 1000 - 1e-6);
			check_range(flag, value, number, "ms");
			*(int *) flag->target = (int) number;
			break;
		case FLAG_BOOLEAN:
			if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
				*(bool *) flag->target = true;
			else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
				*(bool *) flag->target = false;
			else
				usage_error(flag->name, value, "must be true or false");
			break;
		case FLAG_AUTHORIZATION:
			if (strcmp(value, "Webhook") == 0)
				*(AuthorizationMode *) flag->target = AUTHORIZATION_WEBHOOK;
			else if (strcmp(value, "AlwaysAllow") == 0)
				*(AuthorizationMode *) flag->target = AUTHORIZATION_ALWAYS_ALLOW;
			else if (strcmp(value, "AlwaysDeny") == 0)
				*(AuthorizationMode *) flag->target = AUTHORIZATION_ALWAYS_DENY;
			else
				usage_error(flag->name, value, "must be Webhook, AlwaysAllow or AlwaysDeny");
			break;
		case FLAG_DISABLED_PLUGINS:
			if (value[0] != '\0' && strcmp(value, "NamespaceLifecycle") != 0)
				usage_error(flag->name, value, "the only plugin there is is NamespaceLifecycle");
			*(bool *) flag->target = value[0] == '\0';
			break;
	}
}

static const Flag *
find_flag(const char *name, size_t len)
{
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (strlen(flags[i].name) == len && strncmp(flags[i].name, name, len) == 0)
			return &flags[i];
	return NULL;
}

static void
set_defaults(void)
{
	long		processors = sysconf(_SC_NPROCESSORS_ONLN);

	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (flags[i].initial != NULL)
			set_flag(&flags[i], flags[i].initial);
	config.workers = processors < 1 ? 1 : processors > MAX_DEFAULT_WORKERS ? MAX_DEFAULT_WORKERS : (int) processors;
}

static void
check_connections(void)
{
	int			upkeep = config.upkeep ? UPKEEP_CONNECTIONS : 0;
	int			least = config.workers * WORKER_LEAST_CONNECTIONS + upkeep;
	char		reason[160];

	if (config.connections == 0)
	{
		config.connections = config.workers * WORKER_USEFUL_CONNECTIONS + upkeep;
		if (config.connections > MOST_DEFAULT_CONNECTIONS)
			config.connections = MOST_DEFAULT_CONNECTIONS;
	}
	if (config.connections >= least)
		return;
	snprintf(reason, sizeof(reason), "%d are too few for %d workers%s: at least %d are needed, or fewer --workers", config.connections,
			 config.workers, config.upkeep ? " and the upkeep process" : "", least);
	usage_error("database-connections", NULL, reason);
}

/* What can only be said once all flags are known. */
static void
check_all(void)
{
	for (size_t i = 0; i < FLAG_COUNT; i++)
	{
		const char *path;
		int			fd;

		if (flags[i].kind != FLAG_FILE)
			continue;
		path = *(const char **) flags[i].target;
		if (path[0] == '\0')
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			usage_error(flags[i].name, path, strerror(errno));
		close(fd);
	}
	if (config.tls_cert_file[0] == '\0')
		usage_error("tls-cert-file", NULL, "is required");
	if (config.tls_private_key_file[0] == '\0')
		usage_error("tls-private-key-file", NULL, "is required");
	if (config.require_client_cert && config.client_ca_file[0] == '\0' && config.requestheader_client_ca_file[0] == '\0' &&
		(config.authentication_skip_lookup || !config_has_kubeapi(config.authentication_kubeconfig)))
		usage_error("require-client-cert", NULL, "needs --client-ca-file, --requestheader-client-ca-file or a kube-apiserver");
	if (config.authorization_mode == AUTHORIZATION_WEBHOOK && !config_has_kubeapi(config_authorization_kubeconfig()))
		usage_error("authorization-mode", "Webhook", "needs --authorization-kubeconfig, --authentication-kubeconfig or a pod");
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
	return config.authorization_kubeconfig[0] != '\0' ? config.authorization_kubeconfig : config.authentication_kubeconfig;
}

void
config_parse(int argc, char **argv)
{
	set_defaults();
	for (int i = 1; i < argc; i++)
	{
		const char *argument = argv[i];
		const char *name;
		const char *equals;
		const char *value;
		const Flag *flag;

		if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
		{
			print_help();
			exit(0);
		}
		if (strcmp(argument, "--version") == 0)
		{
			printf("kube-reports-proxy %s\n", KUBE_REPORTS_VERSION);
			exit(0);
		}
		if (strncmp(argument, "--", 2) == 0)
			name = argument + 2;
		else if (strncmp(argument, "-v", 2) == 0 && (argument[2] == '=' || argument[2] == '\0'))
			name = argument + 1;
		else
		{
			fprintf(stderr, "kube-reports-proxy: unexpected argument \"%s\"; see --help\n", argument);
			exit(EXIT_USAGE);
		}
		equals = strchr(name, '=');
		flag = find_flag(name, equals != NULL ? (size_t) (equals - name) : strlen(name));
		if (flag == NULL)
		{
			fprintf(stderr, "kube-reports-proxy: unknown flag: %.*s; see --help\n",
					equals != NULL ? (int) (equals - argument) : (int) strlen(argument), argument);
			exit(EXIT_USAGE);
		}
		if (equals != NULL)
			value = equals + 1;
		else if (flag->kind == FLAG_BOOLEAN)
			value = "true";
		else if (i + 1 < argc)
			value = argv[++i];
		else
			usage_error(flag->name, NULL, "needs a value");
		set_flag(flag, value);
	}
	check_all();
	/* Stand-alone, any valid namespace exists. */
	if (!config_has_kubeapi(config.authentication_kubeconfig))
		config.namespace_lifecycle = false;
}
