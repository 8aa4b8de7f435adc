/*-------------------------------------------------------------------------
 *
 * cleanup_command.c
 *	  kube-reports-proxy cleanup: deletes from etcd the reports that were moved into the database.
 *
 * The command first checks all objects and prints a table, then asks for confirmation, then deletes.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/cleanup_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/cleanup_list.h"
#include "commands/cluster_uid.h"
#include "commands/command.h"
#include "commands/etcd_metrics.h"

static struct
{
	const char *kubeconfig;
	const char *database;
	const char *cluster;
	const char *kinds;
	const char *version;
	int			page_size;
	bool		yes;
	bool		dry_run;
	bool		also_gone;
}			options;

static const Flag flags[] =
{
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
	{"database", FLAG_STRING, &options.database, "", 0, 0,
	"connection string of the database that import has written to, with the role of the cluster's proxies"},
	COMMAND_CLUSTER_ID_FLAG(&options.cluster),
	{"kinds", FLAG_NAMES, &options.kinds, "", 0, 0,
	"types to clean up, such as policyreports.wgpolicyk8s.io; by default all types that the database serves"},
	{"version", FLAG_STRING, &options.version, "", 0, 0,
		"version of the CustomResourceDefinitions that leads to etcd; by default a version whose APIService has no "
	"Service"},
	{"page-size", FLAG_INTEGER, &options.page_size, "500", 1, 10000, "number of objects in a page"},
	{"dry-run", FLAG_BOOLEAN, &options.dry_run, "false", 0, 0, "show what would be deleted, and delete nothing"},
	{"yes", FLAG_BOOLEAN, &options.yes, "false", 0, 0,
	"do not ask for confirmation; without this flag, you type the name of each group"},
	{"also-gone", FLAG_BOOLEAN, &options.also_gone, "false", 0, 0,
	"also delete objects whose verified copies were deleted from the database later"},
};

static const FlagSet flag_set = {
	.program = "kube-reports-proxy cleanup",
	.about = "Deletes reports from etcd, through kube-apiserver: only those that import has copied and verified,\n"
	"and that have not changed since then. Deletes nothing from the database.",
	.usage = "kube-reports-proxy cleanup --database=... [--dry-run] [--yes]",
	.flags = flags,
	.count = sizeof(flags) / sizeof(flags[0]),
};

/* A type, and the counts of its objects in etcd. */
typedef struct CleanupKind
{
	const ReportKind *kind;
	const char *version;
	CleanupCounts seen;
	CleanupCounts done;
	bool		confirmed;
} CleanupKind;

typedef struct Session
{
	Arena		arena;
	ReportStore store;
	Asker	   *kube;
	CleanupKind *kinds;
	size_t		count;
	bool		complete;
} Session;

static bool
run_list(Session *session, const CleanupKind *kind, bool deletes, bool tells, CleanupCounts *counts)
{
	Cleanup		cleanup = {
		.store = &session->store, .kube = session->kube, .kind = kind->kind, .version = kind->version,
		.page_size = options.page_size,
		.deletes = deletes, .also_gone = options.also_gone, .tells = tells
	};
	bool		done = cleanup_list(&cleanup);

	if (deletes && done)
		progress_end(&cleanup.progress, cleanup.counts.found);
	*counts = cleanup.counts;
	return done;
}

/* Counts the objects of each type. */
static void
survey(Session *session)
{
	session->kinds = arena_alloc0(&session->arena, (session->store.kind_count + 1) * sizeof(*session->kinds));
	session->complete = true;
	for (size_t i = 0; i < session->store.kind_count; i++)
	{
		CleanupKind *kind = &session->kinds[session->count];
		bool		absent;

		kind->kind = &session->store.kinds[i];
		kind->version = cleanup_version(session->kube, &session->arena, kind->kind, options.version, &absent);
		if (kind->version != NULL && run_list(session, kind, false, true, &kind->seen))
			session->count++;
		else if (!absent)
			session->complete = false;
	}
}

static size_t
deletable(const CleanupKind *kind)
{
	return kind->seen.verified + (options.also_gone ? kind->seen.gone : 0);
}

static void
show_survey(const Session *session)
{
	printf("%-46s %-10s %8s %9s %8s %8s\n", "TYPE", "THROUGH", "IN ETCD", "VERIFIED", "GONE", "STAY");
	for (size_t i = 0; i < session->count; i++)
	{
		const CleanupKind *kind = &session->kinds[i];

		printf("%-46s %-10s %8zu %9zu %8zu %8zu\n", kind->kind->name, kind->version, kind->seen.found,
			   kind->seen.verified,
			   kind->seen.gone, kind->seen.found - deletable(kind));
	}
	fflush(stdout);
}

/* ---------- confirmation ---------- */

static bool
ask_for(const char *group)
{
	char		line[300];

	fprintf(stderr, "These are deleted from etcd. To go on, type the name of the group (%s): ", group);
	fflush(stderr);
	if (fgets(line, sizeof(line), stdin) == NULL)
		return false;
	line[strcspn(line, "\n")] = '\0';
	return strcmp(line, group) == 0;
}

/* Asks once for each group.  Objects of a group whose name the user does not type are not deleted. */
static void
confirm(Session *session)
{
	for (size_t i = 0; i < session->count; i++)
	{
		CleanupKind *kind = &session->kinds[i];
		bool		asked = false;

		for (size_t j = 0; j < i && !asked; j++)
		{
			asked = strcmp(session->kinds[j].kind->group, kind->kind->group) == 0 && deletable(&session->kinds[j]) > 0;
			if (asked)
				kind->confirmed = session->kinds[j].confirmed;
		}
		if (!asked && deletable(kind) > 0)
		{
			kind->confirmed = options.yes || ask_for(kind->kind->group);
			if (!kind->confirmed)
				command_tell("no object of %s is deleted", kind->kind->group);
		}
	}
}

/* ---------- deletion ---------- */

static const char *
shown(Arena *arena, double value, const char *unit)
{
	return value < 0 ? "unknown" : arena_printf(arena, "%.0f%s", value, unit);
}

static void
show_metrics(Session *session, const EtcdMetrics *before)
{
	Arena	   *arena = &session->arena;
	EtcdMetrics after = etcd_metrics_read(session->kube, arena);

	if (before->why != NULL || after.why != NULL)
	{
		command_tell("kube-apiserver's metrics cannot be read, so etcd's size is not shown: %s",
					 before->why != NULL ? before->why : after.why);
		return;
	}
	printf("\n%-46s %15s %15s\n", "KUBE-APISERVER'S METRICS", "BEFORE", "AFTER");
	for (size_t i = 0; i < session->count; i++)
	{
		const ReportKind *kind = session->kinds[i].kind;

		if (session->kinds[i].confirmed)
			printf("%-46s %15s %15s\n", kind->name, shown(arena, etcd_metrics_objects(before, kind->group,
																					  kind->resource), ""),
				   shown(arena, etcd_metrics_objects(&after, kind->group, kind->resource), ""));
	}
	printf("%-46s %15s %15s\n", "size of etcd", shown(arena, etcd_metrics_size(before), " B"),
		   shown(arena, etcd_metrics_size(&after), " B"));
	fflush(stdout);
	command_tell("kube-apiserver counts objects every minute; the file of etcd shrinks after a compaction and a "
				 "defragmentation");
}

/* Deletes the objects; returns true if all objects that were to be deleted are gone. */
static bool
delete_all(Session *session)
{
	bool		whole = true;

	for (size_t i = 0; i < session->count; i++)
	{
		CleanupKind *kind = &session->kinds[i];

		if (kind->confirmed)
			whole = run_list(session, kind, true, false, &kind->done) && kind->done.failed == 0 && whole;
	}
	printf("\n%-46s %8s %8s %8s %8s\n", "TYPE", "BEFORE", "DELETED", "FAILED", "LEFT");
	for (size_t i = 0; i < session->count; i++)
	{
		CleanupKind *kind = &session->kinds[i];
		CleanupCounts left;

		if (!kind->confirmed)
			continue;
		whole = run_list(session, &(CleanupKind) {.kind = kind->kind, .version = kind->version}, false, false,
						 &left) && whole;
		printf("%-46s %8zu %8zu %8zu %8zu\n", kind->kind->name, kind->done.found, kind->done.deleted,
			   kind->done.failed, left.found);
	}
	fflush(stdout);
	return whole;
}

static int
clean_up(Session *session)
{
	EtcdMetrics before;
	bool		any = false;
	bool		whole;

	survey(session);
	show_survey(session);
	for (size_t i = 0; i < session->count; i++)
		any = any || deletable(&session->kinds[i]) > 0;
	if (!any || options.dry_run)
	{
		command_tell(any ? "a dry run: nothing is deleted" : "there is nothing to delete");
		return session->complete ? COMMAND_DONE : COMMAND_FAILED;
	}
	if (!options.yes && !isatty(STDIN_FILENO))
	{
		command_error("standard input is no terminal, so nobody can confirm: give --yes");
		return COMMAND_USAGE;
	}
	before = etcd_metrics_read(session->kube, &session->arena);
	confirm(session);
	any = false;
	for (size_t i = 0; i < session->count; i++)
		any = any || session->kinds[i].confirmed;
	if (!any)
		return COMMAND_FAILED;
	whole = delete_all(session);
	show_metrics(session, &before);
	return whole && session->complete ? COMMAND_DONE : COMMAND_FAILED;
}

int
cleanup_command(int argc, char **argv)
{
	Session		session = {.complete = false};
	int			code = COMMAND_FAILED;

	flags_parse(&flag_set, argc, argv, NULL, 0);
	arena_init(&session.arena);
	session.kube = command_kube(&session.arena, options.kubeconfig);
	if (session.kube == NULL)
		return COMMAND_FAILED;
	session.store.cluster = cluster_uid(session.kube, &session.arena, options.cluster);
	if (session.store.cluster != NULL &&
		report_store_open(&session.store, &session.arena, options.database, session.store.cluster, options.kinds))
	{
		code = clean_up(&session);
		pg_session_close(session.store.session);
	}
	asker_close(session.kube);
	arena_free(&session.arena);
	return code;
}
