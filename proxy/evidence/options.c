/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The command line of kube-reports-evidence.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/options.h"

#include <string.h>

#include "base/config.h"
#include "base/flags.h"
#include "base/url.h"

Options		options;

static const Flag flags[] =
{
	{"bind-address", FLAG_ADDRESS, &options.bind_address, "0.0.0.0", 0, 0, "address to listen on"},
	{"secure-port", FLAG_INTEGER, &options.port, "8443", 1, 65535, "port to listen on, with TLS"},
	{"metrics-bind-address", FLAG_ADDRESS, &options.metrics_bind_address, "0.0.0.0", 0, 0,
	"address of the port for health and metrics"},
	{"metrics-port", FLAG_INTEGER, &options.metrics_port, "8080", 0, 65535,
	"port for health and metrics, plain HTTP; 0: no such port"},
	{"tls-cert-file", FLAG_FILE, &options.certificate_file, "", 0, 0,
	"PEM file with the certificate chain of the server; read again when it changes"},
	{"tls-private-key-file", FLAG_FILE, &options.key_file, "", 0, 0,
	"PEM file with the private key of the server; read again when it changes"},
	{"client-ca-file", FLAG_FILE, &options.client_ca_file, "", 0, 0,
	"PEM file with the CAs of senders' certificates (CN: as given to add_sender()); by default senders need tokens"},
	{"database", FLAG_STRING, &options.database, "", 0, 0,
	"connection string of a role with grant_proxy() and grant_ingest()"},
	{"database-connections", FLAG_INTEGER, &options.connections, "4", 1, 64, "number of connections to the database"},
	{"store", FLAG_STRING, &options.store, "", 0, 0,
	"place of the files: file:///DIRECTORY, s3://BUCKET[/PREFIX], or https://HOST/PATH, a server that gets them"},
	{"store-ca-file", FLAG_FILE, &options.store_ca_file, "", 0, 0,
	"PEM file with the CAs of the store's certificate; by default the system's CAs"},
	{"store-client-cert-file", FLAG_FILE, &options.store_certificate_file, "", 0, 0,
	"PEM file with the certificate to show to the store"},
	{"store-client-key-file", FLAG_FILE, &options.store_key_file, "", 0, 0,
	"PEM file with the private key of --store-client-cert-file"},
	{"s3-endpoint", FLAG_STRING, &options.s3_endpoint, "", 0, 0,
	"URL of the S3 server; the bucket is part of the path"},
	{"s3-region", FLAG_STRING, &options.s3_region, "us-east-1", 0, 0, "region of the S3 server, a part of signatures"},
	{"s3-credentials-file", FLAG_FILE, &options.s3_credentials_file, "", 0, 0,
	"file with ACCESS_KEY_ID:SECRET in one line; read for each request"},
	{"s3-part-bytes", FLAG_SIZE, &options.s3_part_bytes, "8388608", 5242880, 1073741824,
	"size of the parts of an upload; each upload holds one part in memory"},
	{"max-body-bytes", FLAG_SIZE, &options.max_body_bytes, "1073741824", 1024, 1099511627776,
	"maximum size of a file; larger ones are answered with 413"},
	{"max-connections", FLAG_INTEGER, &options.max_connections, "256", 4, 10000,
	"maximum number of connections; further ones wait"},
	{"max-connections-per-address", FLAG_INTEGER, &options.max_connections_per_address, "64", 1, 10000,
	"maximum number of connections from one address; further ones are closed"},
	{"max-uploads", FLAG_INTEGER, &options.max_uploads, "16", 1, 1000,
	"maximum number of uploads in progress; further ones are answered with 503"},
	{"max-uploads-per-sender", FLAG_INTEGER, &options.max_uploads_per_sender, "4", 1, 1000,
	"maximum number of uploads of one credential; further ones are answered with 429"},
	{"head-timeout", FLAG_SECONDS, &options.head_timeout, "10s", 1, 300,
	"time limit of the TLS handshake, and of the head of a request"},
	{"upload-timeout", FLAG_SECONDS, &options.upload_timeout, "1h", 10, 86400, "time limit of an upload or a download"},
	{"shutdown-timeout", FLAG_SECONDS, &options.shutdown_timeout, "25s", 0, 3600,
	"how long uploads may go on after SIGTERM"},
	{"min-rate", FLAG_SIZE, &options.min_rate, "4096", 1, 1073741824,
	"bytes a second; a slower upload or download is ended after half a minute"},
	{"reader-downloads", FLAG_BOOLEAN, &options.reader_downloads, "false", 0, 0,
	"let roles of the database download the files that they see in kube_reports.evidence, by password (HTTP Basic)"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"verbosity of the log; 0: errors and the start; 1: also warnings and requests"},
};

static const FlagSet flag_set = {
	.program = "kube-reports-evidence",
	.about = "Takes evidence of scans from senders of kube-reports, by PUT /v1/evidence/SCAN/INDEX/REPORT or by the\n"
	"protocol of the Compliance Operator's result server, and stores the files outside of the database.",
	.usage = "kube-reports-evidence --store=URI --database=CONNECTION --tls-cert-file=FILE --tls-private-key-file=FILE",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

static bool
begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

void
options_parse(int argc, char **argv)
{
	config_use_defaults();
	flags_parse(&flag_set, argc, argv, NULL, 0);
	if (options.certificate_file[0] == '\0' || options.key_file[0] == '\0')
		flags_refuse(&flag_set, "tls-cert-file", NULL, "is required, with --tls-private-key-file");
	if (options.metrics_port == options.port)
		flags_refuse(&flag_set, "metrics-port", NULL, "must not be the same as --secure-port");
	if (!begins(options.store, "file:///") && !begins(options.store, "s3://") && !url_is(options.store, "https://"))
		flags_refuse(&flag_set, "store", options.store,
					 "must be file:///DIRECTORY, s3://BUCKET[/PREFIX] or https://HOST/PATH");
	if (options.store[strlen(options.store) - 1] == '/')
		flags_refuse(&flag_set, "store", options.store, "must not end with a slash");
	if (begins(options.store, "s3://") && !url_is(options.s3_endpoint, "https://") &&
		!url_is(options.s3_endpoint, "http://"))
		flags_refuse(&flag_set, "s3-endpoint", options.s3_endpoint,
					 "must be https://HOST[:PORT] or http://HOST[:PORT]");
	if (begins(options.store, "s3://") && options.s3_credentials_file[0] == '\0')
		flags_refuse(&flag_set, "s3-credentials-file", NULL, "is required for a store at s3://");
	if ((options.store_certificate_file[0] == '\0') != (options.store_key_file[0] == '\0'))
		flags_refuse(&flag_set, "store-client-key-file", NULL, "and --store-client-cert-file need each other");
}
