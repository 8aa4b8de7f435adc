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

Options		options;

static const Flag flags[] =
{
	{"bind-address", FLAG_ADDRESS, &options.bind_address, "0.0.0.0", 0, 0, "address to listen on"},
	{"secure-port", FLAG_INTEGER, &options.port, "8443", 1, 65535, "port to listen on, with TLS"},
	{"tls-cert-file", FLAG_FILE, &options.certificate_file, "", 0, 0,
	"certificate of this server with its chain, PEM; read again when it changes"},
	{"tls-private-key-file", FLAG_FILE, &options.key_file, "", 0, 0, "its private key, PEM"},
	{"client-ca-file", FLAG_FILE, &options.client_ca_file, "", 0, 0,
	"CAs of senders' certificates, PEM; without it, senders have tokens only"},
	{"database", FLAG_STRING, &options.database, "", 0, 0,
	"connection string; the role needs grant_proxy() and grant_ingest()"},
	{"database-connections", FLAG_INTEGER, &options.connections, "4", 1, 64, "connections of the database"},
	{"store", FLAG_STRING, &options.store, "", 0, 0,
	"where files go: file:///DIRECTORY, s3://BUCKET[/PREFIX], or https://HOST/PATH to send them on"},
	{"store-ca-file", FLAG_FILE, &options.store_ca_file, "", 0, 0,
	"CAs of the store's certificate, PEM; without it, the system's"},
	{"store-client-cert-file", FLAG_FILE, &options.store_certificate_file, "", 0, 0,
	"certificate to show to the store, PEM"},
	{"store-client-key-file", FLAG_FILE, &options.store_key_file, "", 0, 0, "its private key, PEM"},
	{"s3-endpoint", FLAG_STRING, &options.s3_endpoint, "", 0, 0,
	"URL of the S3 server; the bucket is part of the path"},
	{"s3-region", FLAG_STRING, &options.s3_region, "us-east-1", 0, 0, "region, which is part of signatures"},
	{"s3-credentials-file", FLAG_FILE, &options.s3_credentials_file, "", 0, 0,
	"file with ACCESS_KEY_ID:SECRET in one line; read for each request"},
	{"s3-part-bytes", FLAG_SIZE, &options.s3_part_bytes, "8388608", 5242880, 1073741824,
	"size of the parts of an upload; each upload holds one part in memory"},
	{"max-body-bytes", FLAG_SIZE, &options.max_body_bytes, "1073741824", 1024, 1099511627776,
	"largest file; larger ones are refused with 413"},
	{"max-connections", FLAG_INTEGER, &options.max_connections, "256", 4, 10000,
	"connections at a time; further ones wait"},
	{"max-connections-per-address", FLAG_INTEGER, &options.max_connections_per_address, "64", 1, 10000,
	"connections of one address at a time; further ones are closed"},
	{"max-uploads", FLAG_INTEGER, &options.max_uploads, "16", 1, 1000,
	"uploads at a time; further ones are answered with 503"},
	{"max-uploads-per-sender", FLAG_INTEGER, &options.max_uploads_per_sender, "4", 1, 1000,
	"uploads of one credential at a time; further ones are answered with 429"},
	{"head-timeout", FLAG_SECONDS, &options.head_timeout, "10s", 1, 300,
	"time for the TLS handshake and the head of a request"},
	{"upload-timeout", FLAG_SECONDS, &options.upload_timeout, "1h", 10, 86400, "time for a whole upload or download"},
	{"shutdown-timeout", FLAG_SECONDS, &options.shutdown_timeout, "25s", 0, 3600,
	"how long uploads may go on after SIGTERM"},
	{"min-rate", FLAG_SIZE, &options.min_rate, "4096", 1, 1073741824,
	"bytes a second: a slower upload or download is cut off after half a minute"},
	{"reader-downloads", FLAG_BOOLEAN, &options.reader_downloads, "false", 0, 0,
	"let roles of the database download, with their password (HTTP Basic), what they see in kube_reports.evidence"},
	{"v", FLAG_INTEGER, &config.verbosity, "0", 0, 10,
	"what is logged: 0 errors and how the start went, 1 also warnings and requests"},
};

static const FlagSet flag_set = {
	.program = "kube-reports-evidence",
	.about = "Takes evidence of scans from senders of kube-reports, over the protocol of the Compliance Operator's\n"
	"result server and PUT /v1/evidence/SCAN/INDEX/REPORT, and keeps it outside of the database.",
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
	if (!begins(options.store, "file:///") && !begins(options.store, "s3://") && !begins(options.store, "https://"))
		flags_refuse(&flag_set, "store", options.store,
					 "must be file:///DIRECTORY, s3://BUCKET[/PREFIX] or https://HOST/PATH");
	if (options.store[strlen(options.store) - 1] == '/')
		flags_refuse(&flag_set, "store", options.store, "must not end with a slash");
	if (begins(options.store, "s3://") && !begins(options.s3_endpoint, "https://") &&
		!begins(options.s3_endpoint, "http://"))
		flags_refuse(&flag_set, "s3-endpoint", options.s3_endpoint, "must be a URL");
	if (begins(options.store, "s3://") && options.s3_credentials_file[0] == '\0')
		flags_refuse(&flag_set, "s3-credentials-file", NULL, "is required for a store at s3://");
	if ((options.store_certificate_file[0] == '\0') != (options.store_key_file[0] == '\0'))
		flags_refuse(&flag_set, "store-client-key-file", NULL, "and --store-client-cert-file need each other");
}
