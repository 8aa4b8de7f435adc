/*-------------------------------------------------------------------------
 *
 * report_store.h
 *	  The database that reports are moved into, for import and cleanup.
 *
 * The functions called are those of sql/store/import.sql.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REPORT_STORE_H
#define REPORT_STORE_H

#include "db/pg_session.h"

/* A type that is served, in the version that it is stored by. */
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
 * Connects, introduces itself as a proxy does, and reads which types are served; kinds names those that are wanted, by
 * resource or resource.group, separated by commas, "" all.  False when that cannot be done, which has been told.
 */
extern bool report_store_open(ReportStore *store, Arena *arena, const char *database, const char *cluster,
							  const char *kinds);

/*
 * One call; rows NULL: it failed, with the failure.  The first four parameters are those of every function: see
 * report_store_name().
 */
#define REPORT_STORE_TYPE "$1::uuid, $2::text, $3::text, $4::text"
extern void report_store_name(const ReportStore *store, const ReportKind *kind, PgParameter *parameters);

#endif							/* REPORT_STORE_H */
