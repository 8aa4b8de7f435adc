/*-------------------------------------------------------------------------
 *
 * options.h
 *	  Flags of kube-reports-evidence.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_OPTIONS_H
#define EVIDENCE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Options
{
	const char *bind_address;
	int			port;
	const char *metrics_bind_address;
	int			metrics_port;	/* 0: none */
	const char *certificate_file;
	const char *key_file;
	const char *client_ca_file; /* "": senders have tokens only */
	const char *database;
	int			connections;	/* number of connections to the database */
	const char *store;			/* file://, s3:// or https:// */
	const char *store_ca_file;	/* "": the system's CAs */
	const char *store_certificate_file; /* certificate of this program, for a store at https:// */
	const char *store_key_file;
	const char *s3_endpoint;
	const char *s3_region;
	const char *s3_credentials_file;
	size_t		s3_part_bytes;
	size_t		max_body_bytes;
	int			max_connections;
	int			max_connections_per_address;
	int			max_uploads;
	int			max_uploads_per_sender;
	int			head_timeout;	/* seconds, as the next two */
	int			upload_timeout;
	int			shutdown_timeout;
	size_t		min_rate;		/* bytes a second */
	bool		reader_downloads;
}			Options;

extern Options options;

/* Reads the command line into options.  A wrong command line ends the process with code 2. */
extern void options_parse(int argc, char **argv);

#endif							/* EVIDENCE_OPTIONS_H */
