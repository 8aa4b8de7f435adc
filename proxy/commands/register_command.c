/*-------------------------------------------------------------------------
 *
 * register_command.c
 *	  kube-reports-proxy register: serves the types of CustomResourceDefinitions.
 *
 * The names compliance and trivy stand for the API groups of two operators,
 * whose result mappings the extension has.  Their CRDs are not built in,
 * because they change with the version of the operator.  They are read from
 * kube-apiserver, where the operator has stored them, or from its YAML.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/register_command.h"

#include <stdio.h>
#include <string.h>

#include "base/loop.h"
#include "commands/api_service_enable.h"
#include "commands/command.h"
#include "commands/crd_source.h"
#include "db/pg_session.h"

#define MOST_OPERANDS 64

/* A name for all types of an operator. */
typedef struct KnownGroup
{
	const char *name;
	const char *group;
	const char *results;		/* a type without which the group would have no results */
} KnownGroup;

static const KnownGroup known_groups[] =
{
	{"compliance", "compliance.openshift.io", "compliancecheckresults.compliance.openshift.io"},
	{"trivy", "aquasecurity.github.io", "vulnerabilityreports.aquasecurity.github.io"},
};

static struct
{
	const char *from;
	const char *database;
	bool		dry_run;
}			options;

static ApiServiceOptions service_options;

static const Flag register_flags[] =
{
	{"from", FLAG_STRING, &options.from, "", 0, 0,
		"file or directory with the operator's YAML, for the names compliance and trivy; by default the CRDs are read "
	"from kube-apiserver"},
	{"database", FLAG_STRING, &options.database, "", 0, 0,
		"connection string, with the role of the extension's owner or of an administrator (grant_admin()); environment "
	"variables such as PGHOST give missing parameters"},
	COMMAND_KUBECONFIG_FLAG(&service_options.kubeconfig),
	{"dry-run", FLAG_BOOLEAN, &options.dry_run, "false", 0, 0,
	"print which types would be registered, and register none"},
	{"service", FLAG_STRING, &service_options.service_text, "", 0, 0,
		"NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service of this server, to let kube-apiserver pass requests of "
	"the groups to it, as apiservice enable does; by default no APIService changes"},
	{"ca-file", FLAG_FILE, &service_options.ca_file, "", 0, 0,
	"for --service: PEM file with the CAs of the server's certificate"},
	{"connect-to", FLAG_STRING, &service_options.connect_to, "", 0, 0,
	"for --service: HOST:PORT of the server, to ask which types it serves"},
	COMMAND_CLUSTER_ID_FLAG(&service_options.cluster_id),
	{"replace", FLAG_STRING, &service_options.replace_text, "", 0, 0,
	"for --service: NAMESPACE/NAME of another Service: APIServices that lead to it are taken over"},
	{"wait", FLAG_BOOLEAN, &service_options.wait, "true", 0, 0,
	"for --service: wait for a ready endpoint, and until the APIServices are available"},
	{"timeout", FLAG_SECONDS, &service_options.timeout, "2m0s", 1, 86400,
	"for --service: time limit of the whole command"},
};

static void
print_groups(void)
{
	printf("\nNames:\n");
	for (size_t i = 0; i < sizeof(known_groups) / sizeof(known_groups[0]); i++)
		printf("  %-12s every type of %s\n", known_groups[i].name, known_groups[i].group);
	printf("  %-12s every CustomResourceDefinition in it: YAML, JSON or a directory of both; - is standard input\n",
		   "FILE");
}

static const FlagSet register_set = {
	.program = "kube-reports-proxy register",
	.about = "Serves the types of CustomResourceDefinitions from PostgreSQL, and counts their results.",
	.usage = "kube-reports-proxy register compliance|trivy|FILE... [flags]",
	.flags = register_flags,
	.count = sizeof(register_flags) / sizeof(register_flags[0]),
	.help_end = print_groups,
};

/* ---------- the definitions ---------- */

static const KnownGroup *
known_group(const char *name)
{
	for (size_t i = 0; i < sizeof(known_groups) / sizeof(known_groups[0]); i++)
		if (strcmp(known_groups[i].name, name) == 0)
			return &known_groups[i];
	return NULL;
}

/* Adds the CRDs of a known group, from --from or from kube-apiserver.  If they are missing, prints an error. */
static bool
add_known(CrdSet *set, Run *run, const KnownGroup *known)
{
	if (options.from[0] != '\0')
	{
		if (!crd_set_add_path(set, &run->arena, options.from, known->group))
			return false;
	}
	else if (!crd_set_add_group(set, &run->arena, run->kube, known->group))
		return false;
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->crds[i].name, known->results) == 0)
			return true;
	command_error("%s: there is no CRD %s in %s; --from=PATH reads the YAML that the operator ships", known->name,
				  known->results, options.from[0] != '\0' ? options.from : asker_server(run->kube));
	return false;
}

static bool
read_definitions(CrdSet *set, Run *run, const char **operands, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		const KnownGroup *known = known_group(operands[i]);

		if (!(known != NULL ? add_known(set, run, known) : crd_set_add_path(set, &run->arena, operands[i], NULL)))
			return false;
	}
	if (set->count > 0)
		return true;
	command_error("no CustomResourceDefinition was given");
	return false;
}

/* ---------- the database ---------- */

static const char *
explain(const PgFailure *failure)
{
	if (strcmp(failure->sqlstate, "3F000") == 0 || strcmp(failure->sqlstate, "42883") == 0)
		return "this database has no kube_reports, or an older one: its owner runs CREATE EXTENSION kube_reports or "
			"ALTER EXTENSION kube_reports UPDATE";
	if (strcmp(failure->sqlstate, "42501") == 0)
		return "types are registered by the owner of the extension, or by an administrator: SELECT "
			"kube_reports.grant_admin(role)";
	return NULL;
}

static void
refuse(const char *what, const PgFailure *failure)
{
	const char *hint = explain(failure);

	command_error("%s: %s", what, failure->message);
	if (hint != NULL)
		command_tell("%s", hint);
}

static void
print_types(const PgRows *rows)
{
	printf("%-58s %-20s %-13s %s\n", "TYPE", "VERSIONS", "RESULTS", "CHANGE");
	for (int row = 0; row < pg_rows_count(rows); row++)
	{
		printf("%-58s %-20s %-13s %s\n", pg_rows_value(rows, row, 0), pg_rows_value(rows, row, 1),
			   pg_rows_value(rows, row, 2), pg_rows_value(rows, row, 3));
		if (pg_rows_value(rows, row, 4)[0] != '\0')
			command_tell("%s: these rules are not evaluated: %s", pg_rows_value(rows, row, 0),
						 pg_rows_value(rows, row, 4));
	}
	fflush(stdout);
}

/* Registers all types in one transaction.  On failure prints an error and returns false. */
static bool
store_definitions(const CrdSet *set, Arena *arena)
{
	static const char statement[] =
	"SELECT r.type, array_to_string(r.versions, ','), r.results, r.change, array_to_string(r.unevaluated, '; ') "
	"FROM kube_reports.register_crds($1::text[]::jsonb[]) r";
	PgParameter texts = {.count = set->count};
	JsonText   *items = arena_alloc(arena, (set->count + 1) * sizeof(*items));
	PgFailure	failure;
	PgSession  *session = pg_session_open(arena, options.database, false, &failure);
	PgRows	   *rows;

	if (session == NULL)
	{
		refuse("the database cannot be reached", &failure);
		return false;
	}
	for (size_t i = 0; i < set->count; i++)
		items[i] = set->crds[i].text;
	texts.items = items;
	rows = pg_session_query(session, arena, statement, &texts, 1, &failure);
	if (rows == NULL)
		refuse("nothing was registered", &failure);
	else
	{
		print_types(rows);
		pg_rows_free(rows);
	}
	pg_session_close(session);
	return rows != NULL;
}

/* ---------- the APIServices ---------- */

/* Makes targets of all groups and versions that the definitions serve. */
static bool
set_targets(const CrdSet *set, Run *run)
{
	for (size_t i = 0; i < set->count; i++)
	{
		for (size_t v = 0; v < set->crds[i].versions.count; v++)
		{
			Target		target = {.group = set->crds[i].group, .version = set->crds[i].versions.names[v]};
			size_t		known = 0;

			target.name = registration_name(&run->arena, target.group, target.version);
			while (known < run->count && strcmp(run->targets[known].name, target.name) != 0)
				known++;
			if (known < run->count)
				continue;
			if (run->count == MOST_TARGETS || !run_is_name(target.group) || !run_is_name(target.version))
			{
				command_error("%s/%s: not an API version, or there are too many", target.group, target.version);
				return false;
			}
			run->targets[run->count++] = target;
		}
	}
	return true;
}

static bool
take_groups_over(const CrdSet *set, Run *run)
{
	if (!set_targets(set, run))
		return false;
	if (run->service.name != NULL)
	{
		run->options.database = options.database;
		return api_service_enable(run);
	}
	for (size_t i = 0; i < run->count; i++)
		command_tell("%s/%s is served; --service and --ca-file let kube-apiserver pass its requests to this server",
					 run->targets[i].group, run->targets[i].version);
	return true;
}

/* ---------- the command ---------- */

static void
print_definitions(const CrdSet *set)
{
	for (size_t i = 0; i < set->count; i++)
		printf("%-58s %s\n", set->crds[i].name, set->crds[i].origin);
	fflush(stdout);
}

static void
read_service_flags(Run *run)
{
	if (service_options.service_text[0] == '\0')
		return;
	if (service_options.ca_file[0] == '\0')
		flags_refuse(&register_set, "ca-file", NULL, "is required with --service");
	run_read_service(run, "service", service_options.service_text, &run->service);
	if (service_options.replace_text[0] != '\0')
		run_read_service(run, "replace", service_options.replace_text, &run->replace);
	run_check_address(run, "connect-to", service_options.connect_to);
}

static bool
needs_kube(const Run *run, const char **operands, size_t count)
{
	bool		needed = run->service.name != NULL;

	for (size_t i = 0; i < count; i++)
		needed = needed || (options.from[0] == '\0' && known_group(operands[i]) != NULL);
	return needed;
}

int
register_command(int argc, char **argv)
{
	static Run	run;
	const char *operands[MOST_OPERANDS];
	CrdSet		set = {0};
	size_t		count;
	bool		good;

	run.set = &register_set;
	arena_init(&run.arena);
	count = flags_parse(&register_set, argc, argv, operands, MOST_OPERANDS);
	if (count == 0)
	{
		fprintf(stderr, "%s: name what to register: compliance, trivy, or files; see --help\n", register_set.program);
		return COMMAND_USAGE;
	}
	read_service_flags(&run);
	run.options = service_options;
	run.deadline = loop_now() + (uint64_t) service_options.timeout * 1000;
	good = !needs_kube(&run, operands, count) ||
		(run.kube = command_kube(&run.arena, service_options.kubeconfig)) != NULL;
	good = good && read_definitions(&set, &run, operands, count);
	if (good && options.dry_run)
		print_definitions(&set);
	else
		good = good && store_definitions(&set, &run.arena) && take_groups_over(&set, &run);
	run_end(&run);
	return good ? COMMAND_DONE : COMMAND_FAILED;
}
