/*-------------------------------------------------------------------------
 *
 * import_reports_server.c
 *	  import --from-reports-server: the tables of kyverno/reports-server.
 *
 * The table of each type has the type's plural name, and the columns name,
 * namespace (of namespaced types), report (jsonb) and cluster_id.  Pages follow
 * its primary key.  The tables are only read.
 *
 * Somebody may have altered the tables.  So columns are found by their names,
 * their values are read as text, the type of cluster_id is left to the server,
 * and columns may have nulls.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/import_source.h"

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"

/* An annotation that reports-server adds to every object.  It is not true for copies, so it is removed. */
#define SERVED_BY "kyverno.reports-server.io/served-by"

/* The cluster_id of rows that are older than this column: the next reports-server that starts takes these rows. */
#define UNCLAIMED "00000000-0000-0000-0000-000000000000"

typedef struct ServerTable
{
	const char *name;			/* of the type */
	const char *count;			/* of the rows of a cluster: of all, and of those without a name */
	const char *page;			/* rows of a cluster after a name and a namespace */
} ServerTable;

/* The first page has NULL as the last name.  The first condition on names is one that an index can answer. */
#define PAGE(table, namespace_name) \
	"SELECT count(*), count(*) - count(r.name) FROM " table " r WHERE r.cluster_id = $1", \
	"SELECT r.name::text, " namespace_name ", r.report::text FROM " table " r WHERE r.cluster_id = $1" \
	" AND r.name IS NOT NULL AND ($2::text IS NULL OR r.name::text >= $2 AND" \
	" (r.name::text, " namespace_name ") > ($2, $3::text))" \
	" ORDER BY r.name::text, " namespace_name " LIMIT $4::int4"
#define PAGE_OF(table) PAGE(table, "coalesce(r.namespace::text, '')")
#define PAGE_OF_CLUSTER_SCOPE(table) PAGE(table, "''::text")

static const ServerTable tables[] = {
	{"policyreports.wgpolicyk8s.io", PAGE_OF("policyreports")},
	{"clusterpolicyreports.wgpolicyk8s.io", PAGE_OF_CLUSTER_SCOPE("clusterpolicyreports")},
	{"ephemeralreports.reports.kyverno.io", PAGE_OF("ephemeralreports")},
	{"clusterephemeralreports.reports.kyverno.io", PAGE_OF_CLUSTER_SCOPE("clusterephemeralreports")},
	{"reports.openreports.io", PAGE_OF("reports")},
	{"clusterreports.openreports.io", PAGE_OF_CLUSTER_SCOPE("clusterreports")},
};

bool
import_reports_server_check(PgSession *source, Arena *arena, const char *cluster)
{
	PgParameter uid = {.text = cluster};
	PgFailure	failure;
	PgRows	   *rows = pg_session_query(source, arena,
										"SELECT count(a.attname)"
										" FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_attribute a ON "
										"a.attrelid = c.oid AND a.attname = 'cluster_id'"
										" WHERE c.oid = to_regclass('policyreports')", NULL, 0, &failure);
	bool		known;

	if (rows == NULL || strcmp(pg_rows_value(rows, 0, 0), "1") != 0)
	{
		command_error("database %s has no tables of a reports-server%s%s", pg_session_database(source),
					  rows == NULL ? ": " : "",
					  rows == NULL ? failure.message : "");
		command_tell("these are policyreports, reports and others in its search_path, with a column cluster_id; "
					 "if the column is missing, start a newer reports-server once: it adds the column");
		if (rows != NULL)
			pg_rows_free(rows);
		return false;
	}
	pg_rows_free(rows);
	rows = pg_session_query(source, arena,
							"SELECT bool_or(c.id = $1), string_agg(concat(c.id, ' (', c.name, ')'), ', ' ORDER "
							"BY c.name) FROM clusters c",
							&uid, 1, &failure);
	if (rows == NULL)
	{
		command_error("database %s: %s", pg_session_database(source), failure.message);
		return false;
	}
	known = pg_rows_value(rows, 0, 0) == NULL || strcmp(pg_rows_value(rows, 0, 0), "t") == 0;
	if (!known)
	{
		command_error("the reports-server has no reports of cluster %s, only of %s", cluster,
					  pg_rows_value(rows, 0, 1));
		command_tell("--cluster-id is the uid of the cluster's namespace kube-system");
	}
	pg_rows_free(rows);
	return known;
}

/*
 * Corrects a document of reports-server: sets name and namespace from the key columns, unless the namespace is empty;
 * removes SERVED_BY.
 */
static void
tidy(Arena *arena, JsonNode *document, const char *name, const char *namespace_name)
{
	JsonNode   *metadata = json_get(document, "metadata");
	JsonNode   *annotations;

	if (metadata == NULL || metadata->kind != JSON_KIND_OBJECT)
	{
		metadata = json_new_object(arena);
		json_set(arena, document, "metadata", metadata);
	}
	json_set(arena, metadata, "name", json_new_cstring(arena, arena_strdup(arena, name)));
	if (namespace_name[0] != '\0')
		json_set(arena, metadata, "namespace", json_new_cstring(arena, arena_strdup(arena, namespace_name)));
	annotations = json_get(metadata, "annotations");
	if (annotations != NULL && annotations->kind == JSON_KIND_OBJECT && json_remove(annotations, SERVED_BY) &&
		annotations->u.object.count == 0)
		json_remove(metadata, "annotations");
}

static bool
take_row(ImportBatch *batch, Arena *arena, const PgRows *rows, int row)
{
	const char *name = pg_rows_value(rows, row, 0);
	const char *namespace_name = pg_rows_value(rows, row, 1);
	const char *text = pg_rows_value(rows, row, 2);
	JsonError	error;
	JsonNode   *document = text == NULL ? NULL : json_parse(arena, text, strlen(text), NULL, NULL, &error);

	if (document == NULL || document->kind != JSON_KIND_OBJECT)
	{
		import_batch_refuse(batch, namespace_name, name, "its column report has no JSON object");
		return true;
	}
	tidy(arena, document, name, namespace_name);
	return import_batch_add(batch, arena, document);
}

/* Reads all rows of a cluster. */
static ImportEnd
read_table(ImportBatch *batch, PgSession *source, const ServerTable *table, const char *cluster, int page_size)
{
	Arena		last;			/* the key after which the next page begins */
	PgParameter parameters[4] = {{.text = cluster}};
	ImportEnd	end = IMPORT_WHOLE;
	int			count;

	arena_init(&last);
	parameters[3].text = arena_printf(&last, "%d", page_size);
	do
	{
		Arena		arena;
		PgFailure	failure;
		PgRows	   *rows;

		arena_init(&arena);
		rows = pg_session_query(source, &arena, table->page, parameters, 4, &failure);
		count = rows == NULL ? 0 : pg_rows_count(rows);
		if (rows == NULL)
		{
			progress_tell(&batch->progress, "the reports-server's table cannot be read: %s", failure.message);
			end = IMPORT_FAILED;
		}
		for (int row = 0; row < count && end == IMPORT_WHOLE; row++)
		{
			if (!take_row(batch, &arena, rows, row))
				end = IMPORT_STOPPED;
		}
		if (count > 0)
		{
			Arena		next;

			arena_init(&next);
			parameters[1].text = arena_strdup(&next, pg_rows_value(rows, count - 1, 0));
			parameters[2].text = arena_strdup(&next, pg_rows_value(rows, count - 1, 1));
			parameters[3].text = arena_strdup(&next, parameters[3].text);
			arena_free(&last);
			last = next;
		}
		if (rows != NULL)
			pg_rows_free(rows);
		arena_free(&arena);
	} while (count == page_size && end == IMPORT_WHOLE);
	arena_free(&last);
	return end;
}

/* Counts the rows of a cluster; refuses those without a name.  Returns false if the table does not exist. */
static bool
count_table(ImportBatch *batch, PgSession *source, const ServerTable *table, const char *cluster)
{
	Arena		arena;
	PgParameter uid = {.text = cluster};
	PgFailure	failure;
	PgRows	   *rows;
	bool		present = true;

	arena_init(&arena);
	rows = pg_session_query(source, &arena, table->count, &uid, 1, &failure);
	if (rows != NULL)
	{
		batch->progress.total += (size_t) strtoull(pg_rows_value(rows, 0, 0), NULL, 10);
		for (size_t nameless = (size_t) strtoull(pg_rows_value(rows, 0, 1), NULL, 10); nameless > 0; nameless--)
			import_batch_refuse(batch, "", "a row", "its column name is null");
		pg_rows_free(rows);
	}
	else
		present = strcmp(failure.sqlstate, "42P01") != 0;
	arena_free(&arena);
	return present;
}

ImportEnd
import_from_reports_server(ImportBatch *batch, PgSession *source, int page_size)
{
	const char *clusters[] = {UNCLAIMED, batch->store->cluster};
	const ServerTable *table = NULL;
	ImportEnd	end = IMPORT_WHOLE;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
	{
		if (strcmp(tables[i].name, batch->kind->name) == 0)
			table = &tables[i];
	}
	if (table == NULL)
		return IMPORT_ABSENT;
	for (size_t i = 0; i < 2; i++)
	{
		if (!count_table(batch, source, table, clusters[i]))
			return IMPORT_ABSENT;
	}
	for (size_t i = 0; i < 2 && end == IMPORT_WHOLE; i++)
		end = read_table(batch, source, table, clusters[i], page_size);
	return end == IMPORT_WHOLE && !import_batch_flush(batch) ? IMPORT_STOPPED : end;
}
