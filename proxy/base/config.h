/*-------------------------------------------------------------------------
 *
 * config.h
 *	  Settings of the server: its table of flags, and the rules between them.
 *
 * Flags have kube-apiserver's names where kube-apiserver has a flag with the
 * same meaning.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum AuthorizationMode
{
	AUTHORIZATION_WEBHOOK,		/* kube-apiserver decides */
	AUTHORIZATION_ALWAYS_ALLOW,
	AUTHORIZATION_ALWAYS_DENY
} AuthorizationMode;

typedef enum LoggingFormat
{
	LOGGING_JSON,
	LOGGING_TEXT				/* in klog's format */
} LoggingFormat;

/*
 * Numbers of database connections: the fewest that a worker can work with, the most that it can use, and the fixed
 * numbers of the upkeep process and of the feed process.
 */
#define WORKER_LEAST_CONNECTIONS 3
#define WORKER_USEFUL_CONNECTIONS 6
#define UPKEEP_CONNECTIONS 2
#define FEED_CONNECTIONS 1

typedef struct Config
{
	const char *bind_address;	/* --bind-address, default 0.0.0.0 */
	int			secure_port;	/* --secure-port, default 6443 */
	int			metrics_port;	/* --metrics-port: plain HTTP, health and metrics; default 8080, 0 for none */
	const char *metrics_bind_address;
	const char *tls_cert_file;
	const char *tls_private_key_file;
	const char *apiservice_ca_file;
	const char *client_ca_file;
	bool		require_client_cert;
	const char *requestheader_client_ca_file;
	const char *requestheader_allowed_names;	/* comma separated, like the next four; "" for any */
	const char *requestheader_username_headers;
	const char *requestheader_uid_headers;
	const char *requestheader_group_headers;
	const char *requestheader_extra_headers_prefix;
	bool		anonymous_auth; /* --anonymous-auth, default true */
	AuthorizationMode authorization_mode;	/* --authorization-mode, default AlwaysDeny: only system:masters */
	const char *authorization_kubeconfig;	/* --authorization-kubeconfig; see config_authorization_kubeconfig() */
	int			authorized_ttl; /* --authorization-webhook-cache-authorized-ttl, milliseconds, default 10000 */
	int			unauthorized_ttl;	/* --authorization-webhook-cache-unauthorized-ttl, likewise */
	const char *authorization_always_allow_paths;	/* comma separated; default /healthz,/livez,/readyz */
	const char *database;		/* --database: connection string; "" for libpq's environment */
	const char *read_database;	/* "": none */
	const char *database_password_file; /* read for each connection; "" for none */
	const char *read_database_password_file;	/* "": database_password_file */
	const char *authentication_kubeconfig;	/* --authentication-kubeconfig; "": the pod's service account */
	bool		authentication_skip_lookup; /* --authentication-skip-lookup */
	bool		authentication_tolerate_lookup_failure; /* --authentication-tolerate-lookup-failure */
	int			token_cache_ttl;	/* --authentication-token-webhook-cache-ttl, milliseconds, default 10000 */
	const char *api_audiences;	/* --api-audiences; comma separated, "" for none */
	bool		namespace_lifecycle;	/* --disable-admission-plugins turns it off; only with a kube-apiserver */
	const char *cluster_id;		/* --cluster-id: uid of the cluster; "" until main.c has asked kube-apiserver */
	const char *cluster_name;	/* --cluster-name */
	int			workers;		/* --workers, default the number of processors, at most 8 */
	int			connections;	/* --database-connections: of the whole proxy, see pg.h; default: as many as are
								 * useful, at most 40 */
	bool		upkeep;			/* --upkeep, default true */
	size_t		max_request_body_bytes; /* --max-request-body-bytes, default 3145728, 1024 to 67108864 */
	size_t		max_connections;	/* --max-connections: of clients, per worker; default 8192 */
	size_t		max_buffered_body_bytes;	/* --max-buffered-body-bytes: per worker; default 134217728 */
	size_t		max_buffered_answer_bytes;	/* --max-buffered-answer-bytes: per worker; default 268435456 */
	bool		http2;			/* --http2, default false */
	int			request_timeout;	/* --request-timeout, seconds, default 60 */
	int			shutdown_delay; /* --shutdown-delay-duration, seconds, default 0 */
	int			shutdown_timeout;	/* --shutdown-timeout, seconds to let requests end, default 30, at most 60 */
	int			poll_interval;	/* --watch-poll-interval, milliseconds, default 30 */
	int			result_series;	/* --result-metrics-series, default 0: none */
	int			result_interval;	/* --result-metrics-interval, milliseconds, default 15000 */
	bool		webhooks;		/* --webhooks, default true */
	const char *webhook_directory;	/* --webhook-directory; "" for none */
	int			forward_port;	/* --forward-port, default 0: senders of other clusters are not served */
	const char *forward_client_ca_file; /* --forward-client-ca-file; "" for none */
	const char *pid_file;		/* --pid-file; "" for none */
	int			verbosity;		/* --v, 0 errors, 1 access log, 2 debug */
	LoggingFormat logging_format;	/* --logging-format, default json */
	int			slow_request_threshold; /* --slow-request-threshold, milliseconds, default 1000; 0: off */
} Config;

extern Config config;			/* set once, before the workers are forked */

/* Prints the reason for refusing a flag, named without dashes, and exits with code 2, as for a wrong value. */
extern _Noreturn void config_refuse(const char *flag, const char *reason);

/*
 * Parses the command line of the server into config.  Exits after printing the version, the help, which help_end()
 * completes, or an error message (code 2).
 */
extern void config_parse(int argc, char **argv, void (*help_end) (void));

/* Sets every member of config to its default: for a command that has an HTTP port but does not serve the API. */
extern void config_use_defaults(void);

/* Parses --logging-format into a LoggingFormat (FlagParser). */
extern const char *config_set_logging_format(void *target, const char *value);

/* Whether a kube-apiserver is configured: a kubeconfig is given ("": none), or this process runs in a pod. */
extern bool config_has_kubeapi(const char *kubeconfig);

/* Returns --authorization-kubeconfig or, when not given, --authentication-kubeconfig; "": the pod's service account. */
extern const char *config_authorization_kubeconfig(void);

#endif							/* CONFIG_H */
