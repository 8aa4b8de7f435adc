/*-------------------------------------------------------------------------
 *
 * import_command.c
 *	  kube-reports-proxy import: copies reports into the database.
 *
 * The command only reads the source.  Every run reads every object.  Objects
 * that are already stored are compared, not written again.  So an interrupted
 * run leaves no state that must be resumed or cleaned up: the command is run
 * again.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/import_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/cluster_uid.h"
#include "commands/command.h"
#include "commands/import_source.h"

/* Number of copies that are deleted in one transaction. */
#define PRUNE_STEP "200"

static struct
{
	bool		from_cluster;
	const char *reports_server;
	const char *kubeconfig;
	const char *database;
	const char *cluster;
	const char *kinds;
	const char *version;
	int			page_size;
	bool		overwrite;
	bool		prune;
}			options;

static const Flag flags[] =
{
	{"from-cluster", FLAG_BOOLEAN, &options.from_cluster, "false", 0, 0,
	"read the objects of the cluster's CustomResourceDefinitions, through kube-apiserver"},
	{"from-reports-server", FLAG_STRING, &options.reports_server, "", 0, 0,
	"connection string of the PostgreSQL of a reports-server, to read its reports"},
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
	{"database", FLAG_STRING, &options.database, "", 0, 0,
		"connection string of the database to write to, with the role of the cluster's proxies; environment variables "
	"such as PGHOST give missing parameters"},
	COMMAND_CLUSTER_ID_FLAG(&options.cluster),
	{"kinds", FLAG_NAMES, &options.kinds, "", 0, 0,
	"types to copy, such as policyreports.wgpolicyk8s.io; by default all types that the database serves"},
	{"version", FLAG_STRING, &options.version, "", 0, 0,
	"version of the CustomResourceDefinitions to read, with the same schema; by default the version in the database"},
	{"page-size", FLAG_INTEGER, &options.page_size, "500", 1, 10000, "number of objects in a page"},
	{"overwrite", FLAG_BOOLEAN, &options.overwrite, "false", 0, 0,
	"also copy over objects that were changed or deleted in the database after they had been copied"},
	{"prune", FLAG_BOOLEAN, &options.prune, "false", 0, 0,
	"delete copies whose objects the source no longer has, unless they were changed in the database"},
};

static const FlagSet flag_set = {
	.program = "kube-reports-proxy import",
	.about = "Copies reports into the database, compares each copy with the original, and shows the results.\n"
	"Changes and deletes nothing at the source. Can be run again at any time.",
	.usage = "kube-reports-proxy import --from-cluster|--from-reports-server=... --database=...",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

typedef struct Import
{
	Arena		arena;
	ReportStore store;
	Asker	   *kube;			/* kube-apiserver; NULL: not needed */
	PgSession  *source;			/* database of a reports-server; NULL: kube is the source */
	bool		complete;		/* every type was read to its end */
	ImportCounts sum;
} Import;

/* ---------- objects that the source no longer has ---------- */

static const char *
database_time(Import *import)
{
	PgFailure	failure;
	PgRows	   *rows = pg_session_query(import->store.session, &import->arena, "SELECT clock_timestamp()", NULL, 0,
										&failure);
	const char *time = rows == NULL ? NULL : arena_strdup(&import->arena, pg_rows_value(rows, 0, 0));

	if (rows != NULL)
		pg_rows_free(rows);
	return time;
}

static bool
look_for_gone(Import *import, ImportBatch *batch, const char *since)
{
	PgParameter parameters[7];
	PgFailure	failure;
	size_t		found;

	if (batch->unnoted > 0)
	{
		progress_tell(&batch->progress, "copies whose objects the source no longer has are not looked for, because of "
					  "the refused objects");
		return true;
	}
	report_store_name(&import->store, batch->kind, parameters);
	parameters[4] = (PgParameter) {.text = since};
	parameters[5] = (PgParameter) {.text = options.prune ? "true" : "false"};
	parameters[6] = (PgParameter) {.text = batch->source};
	do
	{
		PgRows	   *rows = pg_session_query(import->store.session, &import->arena,
											"SELECT kube_reports_internal.api_import_stale(" REPORT_STORE_TYPE
											", $5::timestamptz, $6::boolean, " PRUNE_STEP ", source => $7)",
											parameters, 7, &failure);

		if (rows == NULL)
		{
			progress_tell(&batch->progress, "copies whose objects the source no longer has cannot be found: %s",
						  failure.message);
			return false;
		}
		found = strtoull(pg_rows_value(rows, 0, 0), NULL, 10);
		batch->counts.gone += found;
		pg_rows_free(rows);
	} while (options.prune && found > 0);
	if (batch->counts.gone > 0 && !options.prune)
		progress_tell(&batch->progress, "the source no longer has the objects of %zu copies; --prune deletes these "
					  "copies from the database",
					  batch->counts.gone);
	return true;
}

/* ---------- types ---------- */

static void
print_line(const char *name, const ImportCounts *counts)
{
	printf("%-46s %8zu %8zu %8zu %9zu %8zu %8zu %8zu %8zu %8zu\n", name, counts->read, counts->imported,
		   counts->updated,
		   counts->unchanged, counts->kept, counts->refused, counts->altered, counts->verified, counts->gone);
}

static void
add_counts(ImportCounts *sum, const ImportCounts *counts)
{
	sum->read += counts->read;
	sum->imported += counts->imported;
	sum->updated += counts->updated;
	sum->unchanged += counts->unchanged;
	sum->kept += counts->kept;
	sum->refused += counts->refused;
	sum->altered += counts->altered;
	sum->verified += counts->verified;
	sum->gone += counts->gone;
}

/* Returns false if nothing more can be stored. */
static bool
import_kind(Import *import, const ReportKind *kind, ImportCounts *counts, ImportEnd *end)
{
	ImportBatch *batch = malloc(sizeof(*batch));
	const char *since = database_time(import);

	if (batch == NULL)
		abort();
	import_batch_begin(batch, &import->store, kind, import->source != NULL ? "reports-server" : "cluster",
					   options.overwrite);
	*end = import->source != NULL ? import_from_reports_server(batch, import->source, options.page_size) :
		import_from_cluster(batch, import->kube, options.version, options.page_size);
	if (*end == IMPORT_WHOLE && since != NULL && !look_for_gone(import, batch, since))
		*end = IMPORT_FAILED;
	if (*end != IMPORT_ABSENT && batch->counts.read > 0)
		progress_end(&batch->progress, batch->counts.read);
	*counts = batch->counts;
	import_batch_end(batch);
	free(batch);
	return *end != IMPORT_STOPPED;
}

static void
import_all(Import *import)
{
	size_t		count = import->store.kind_count;
	ImportCounts *counts = arena_alloc0(&import->arena, (count + 1) * sizeof(*counts));
	ImportEnd  *ends = arena_alloc0(&import->arena, (count + 1) * sizeof(*ends));
	bool		go_on = true;

	import->complete = true;
	for (size_t i = 0; i < count; i++)
	{
		ends[i] = IMPORT_FAILED;
		if (go_on)
			go_on = import_kind(import, &import->store.kinds[i], &counts[i], &ends[i]);
		import->complete = import->complete && (ends[i] == IMPORT_WHOLE || ends[i] == IMPORT_ABSENT);
		add_counts(&import->sum, &counts[i]);
	}
	printf("%-46s %8s %8s %8s %9s %8s %8s %8s %8s %8s\n", "TYPE", "READ", "IMPORTED", "UPDATED", "UNCHANGED", "KEPT",
		   "REFUSED",
		   "ALTERED", "VERIFIED", "GONE");
	for (size_t i = 0; i < count; i++)
	{
		if (ends[i] == IMPORT_ABSENT)
			printf("%-46s not at the source\n", import->store.kinds[i].name);
		else if (ends[i] != IMPORT_WHOLE && counts[i].read == 0)
			printf("%-46s not read\n", import->store.kinds[i].name);
		else
			print_line(arena_printf(&import->arena, "%s%s", import->store.kinds[i].name,
									ends[i] == IMPORT_WHOLE ? "" : " (in part)"),
					   &counts[i]);
	}
	if (count > 1)
		print_line("all", &import->sum);
	fflush(stdout);
}

/* ---------- the command ---------- */

static bool
open_source(Import *import)
{
	PgFailure	failure;

	if (options.reports_server[0] == '\0')
		return true;
	import->source = pg_session_open(&import->arena, options.reports_server, true, &failure);
	if (import->source != NULL)
		return import_reports_server_check(import->source, &import->arena, import->store.cluster);
	command_error("the database of the reports-server cannot be reached: %s", failure.message);
	return false;
}

static int
conclude(const Import *import)
{
	const ImportCounts *sum = &import->sum;

	if (!import->complete)
	{
		command_error("not everything was read: see above; correct the cause and run import again");
		return COMMAND_FAILED;
	}
	if (sum->refused + sum->altered > 0)
	{
		command_error("%zu objects were refused, and %zu copies differ from their originals: see above", sum->refused,
					  sum->altered);
		return COMMAND_FAILED;
	}
	if (sum->imported + sum->updated > 0)
		command_tell("all objects are stored; %zu of them are new: run import again until none is new",
					 sum->imported + sum->updated);
	else
		command_tell("all objects were stored before");
	return COMMAND_DONE;
}

int
import_command(int argc, char **argv)
{
	Import		import = {.complete = false};
	int			code = COMMAND_FAILED;

	flags_parse(&flag_set, argc, argv, NULL, 0);
	if (options.from_cluster == (options.reports_server[0] != '\0'))
		flags_refuse(&flag_set, "from-cluster", NULL, "one of --from-cluster and --from-reports-server is required");
	arena_init(&import.arena);
	if ((options.from_cluster || options.cluster[0] == '\0') &&
		(import.kube = command_kube(&import.arena, options.kubeconfig)) == NULL)
		return COMMAND_FAILED;
	import.store.cluster = cluster_uid(import.kube, &import.arena, options.cluster);
	if (import.store.cluster == NULL ||
		!report_store_open(&import.store, &import.arena, options.database, import.store.cluster, options.kinds))
		return COMMAND_FAILED;
	if (open_source(&import))
	{
		import_all(&import);
		code = conclude(&import);
	}
	if (import.source != NULL)
		pg_session_close(import.source);
	pg_session_close(import.store.session);
	if (import.kube != NULL)
		asker_close(import.kube);
	arena_free(&import.arena);
	return code;
}
