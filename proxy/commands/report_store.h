/*-------------------------------------------------------------------------
 *
 * report_store.h
 *	  The database of the commands import and cleanup.
 *
 * The commands call functions of sql/store/import.sql.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPORT_STORE_H
#define REPORT_STORE_H

#include "db/pg_session.h"

/* A served type, in the version in which it is stored. */
typedef struct ReportKind
{
	const char *group;
	const char *version;
	const char *resource;
	const char *name;			/* resource.group */
} ReportKind;

typedef struct ReportStore
{
	PgSession  *session;
	const char *cluster;		/* uid */
	ReportKind *kinds;
	size_t		kind_count;
} ReportStore;

/*
 * Connects, calls api_hello() as a proxy does, and reads which types are served.  kinds names the wanted types by
 * resource or resource.group, separated by commas; "": all.  On failure prints an error and returns false.
 */
extern bool report_store_open(ReportStore *store, Arena *arena, const char *database, const char *cluster,
							  const char *kinds);

/* The first four parameters of every function of import.sql; report_store_name() sets them. */
#define REPORT_STORE_TYPE "$1::uuid, $2::text, $3::text, $4::text"
extern void report_store_name(const ReportStore *store, const ReportKind *kind, PgParameter *parameters);

#endif							/* REPORT_STORE_H */
