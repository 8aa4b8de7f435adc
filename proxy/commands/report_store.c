/*-------------------------------------------------------------------------
 *
 * report_store.c
 *	  The database of the commands import and cleanup.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/report_store.h"

#include <string.h>

#include "base/name_list.h"
#include "commands/command.h"

/* The protocol version between proxy and extension: see docs/contributing.md. */
#define PROTOCOL "1"

static const char *
explain(const PgFailure *failure)
{
	if (strcmp(failure->sqlstate, "3F000") == 0 || strcmp(failure->sqlstate, "42883") == 0)
		return "the database has no extension kube_reports, or an older version: its owner runs "
			"CREATE EXTENSION kube_reports or ALTER EXTENSION kube_reports UPDATE";
	if (strcmp(failure->sqlstate, "42501") == 0)
		return "the role of --database must be that of this cluster's proxies: SELECT "
			"kube_reports.grant_proxy(role, cluster)";
	return NULL;
}

static bool
refuse(ReportStore *store, const char *what, const PgFailure *failure)
{
	const char *hint = explain(failure);

	command_error("%s: %s", what, failure->message);
	if (hint != NULL)
		command_tell("%s", hint);
	if (store->session != NULL)
		pg_session_close(store->session);
	store->session = NULL;
	return false;
}

/* Whether one of the names is this type's; counts the matches of each name. */
static bool
is_wanted(const NameList *names, size_t *found, const ReportKind *kind)
{
	bool		wanted = names->count == 0;

	for (size_t i = 0; i < names->count; i++)
	{
		if (strcmp(names->names[i], kind->name) != 0 && strcmp(names->names[i], kind->resource) != 0)
			continue;
		found[i]++;
		wanted = true;
	}
	return wanted;
}

/* Takes the wanted types.  A type has a row for each version; the version in which it is stored comes first. */
static bool
choose_kinds(ReportStore *store, Arena *arena, const PgRows *rows, const char *kinds)
{
	NameList	names = {NULL, 0};
	size_t	   *found;

	name_list_split(arena, kinds, &names);
	found = arena_alloc0(arena, (names.count + 1) * sizeof(*found));
	store->kinds = arena_alloc(arena, ((size_t) pg_rows_count(rows) + 1) * sizeof(*store->kinds));
	for (int row = 0; row < pg_rows_count(rows); row++)
	{
		ReportKind	kind = {
			.group = arena_strdup(arena, pg_rows_value(rows, row, 0)),
			.version = arena_strdup(arena, pg_rows_value(rows, row, 1)),
			.resource = arena_strdup(arena, pg_rows_value(rows, row, 2)),
		};

		kind.name = arena_printf(arena, "%s.%s", kind.resource, kind.group);
		for (size_t i = 0; i < store->kind_count; i++)
		{
			if (strcmp(store->kinds[i].name, kind.name) == 0)
				kind.name = NULL;
			if (kind.name == NULL)
				break;
		}
		if (kind.name != NULL && is_wanted(&names, found, &kind))
			store->kinds[store->kind_count++] = kind;
	}
	for (size_t i = 0; i < names.count; i++)
	{
		if (found[i] > 0)
			continue;
		command_error("--kinds: the database does not serve %s; register_crd() registers it", names.names[i]);
		return false;
	}
	return true;
}

bool
report_store_open(ReportStore *store, Arena *arena, const char *database, const char *cluster, const char *kinds)
{
	PgParameter uid = {.text = cluster};
	PgFailure	failure;
	PgRows	   *rows;
	bool		chosen;

	*store = (ReportStore) {.cluster = cluster};
	store->session = pg_session_open(arena, database, false, &failure);
	if (store->session == NULL)
		return refuse(store, "the database cannot be reached", &failure);
	rows = pg_session_query(store->session, arena,
							"SELECT h.generation FROM kube_reports_internal.api_hello($1::uuid, ''::text, "
							"" PROTOCOL ") h",
							&uid, 1, &failure);
	if (rows == NULL)
		return refuse(store, arena_printf(arena, "database %s", pg_session_database(store->session)), &failure);
	pg_rows_free(rows);
	rows = pg_session_query(store->session, arena,
							"SELECT r.\"group\", r.version, r.resource FROM "
							"kube_reports_internal.api_registry($1::uuid) r",
							&uid, 1, &failure);
	if (rows == NULL)
		return refuse(store, arena_printf(arena, "database %s", pg_session_database(store->session)), &failure);
	chosen = choose_kinds(store, arena, rows, kinds);
	pg_rows_free(rows);
	if (!chosen)
		pg_session_close(store->session);
	return chosen;
}

void
report_store_name(const ReportStore *store, const ReportKind *kind, PgParameter *parameters)
{
	parameters[0] = (PgParameter) {.text = store->cluster};
	parameters[1] = (PgParameter) {.text = kind->group};
	parameters[2] = (PgParameter) {.text = kind->version};
	parameters[3] = (PgParameter) {.text = kind->resource};
}
