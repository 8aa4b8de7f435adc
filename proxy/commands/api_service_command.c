/*-------------------------------------------------------------------------
 *
 * api_service_command.c
 *	  kube-reports-proxy apiservice: takes API groups over from CRDs, and gives them back.
 *
 * Each command may be run again: it does not change an APIService that is
 * already as it should be.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/api_service_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "commands/api_service_enable.h"
#include "commands/command.h"

#define COLLECTION_LIMIT ((size_t) 64 * 1024 * 1024)

/* ---------- flags ---------- */

static ApiServiceOptions options;

static const Flag enable_flags[] =
{
	{"service", FLAG_STRING, &options.service_text, "", 0, 0,
	"NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service of this server; the default port is 443"},
	{"ca-file", FLAG_FILE, &options.ca_file, "", 0, 0,
	"PEM file with the CAs of the server's certificate; becomes the caBundle"},
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
	{"connect-to", FLAG_STRING, &options.connect_to, "", 0, 0,
		"HOST:PORT of the server, such as the one of kubectl port-forward, to ask which types it serves; by default "
	"HOST:PORT of a ready endpoint"},
	{"database", FLAG_STRING, &options.database, NULL, 0, 0,
		"connection string of the database (may be empty, as for the server), to ask it instead of the server: a "
	"server with --require-client-cert accepts no token"},
	{"cluster-id", FLAG_UUID, &options.cluster_id, "", 0, 0,
	"uid of the cluster, for --database; the same as for the server"},
	{"replace", FLAG_STRING, &options.replace_text, "", 0, 0,
	"NAMESPACE/NAME of another Service: APIServices that lead to it are taken over"},
	{"group-priority-minimum", FLAG_INTEGER, &options.group_priority, NULL, 1, 20000,
	"priority of the group; the default keeps it, and is 1000 for a new APIService"},
	{"version-priority", FLAG_INTEGER, &options.version_priority, NULL, 1, 1000,
	"priority of the version in its group; the default keeps it, and is 100 for a new APIService"},
	{"wait", FLAG_BOOLEAN, &options.wait, "true", 0, 0,
	"wait for a ready endpoint, and until the APIService is available"},
	{"timeout", FLAG_SECONDS, &options.timeout, "2m0s", 1, 86400,
	"time limit of the whole command"},
};

static const FlagSet enable_set = {
	.program = "kube-reports-proxy apiservice enable",
	.about = "Lets kube-apiserver pass requests of an API group to this server, instead of serving its CRDs from etcd.",
	.usage = "kube-reports-proxy apiservice enable GROUP/VERSION... --service=NAMESPACE/NAME --ca-file=FILE [flags]",
	.flags = enable_flags,
	.count = sizeof(enable_flags) / sizeof(enable_flags[0]),
};

static const Flag disable_flags[] =
{
	{"service", FLAG_STRING, &options.service_text, "", 0, 0,
	"NAMESPACE/NAME of the Service of this server; APIServices that lead to other Services do not change"},
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
	{"all", FLAG_BOOLEAN, &options.all, "false", 0, 0,
	"every APIService that leads to the Service"},
	{"wait", FLAG_BOOLEAN, &options.wait, "true", 0, 0,
	"wait until kube-apiserver serves the CRDs again"},
	{"timeout", FLAG_SECONDS, &options.timeout, "2m0s", 1, 86400,
	"time limit of the whole command"},
};

static const FlagSet disable_set = {
	.program = "kube-reports-proxy apiservice disable",
	.about = "Gives API groups back to their CRDs. Deletes the APIService of a group without CRDs.",
	.usage = "kube-reports-proxy apiservice disable GROUP/VERSION...|--all --service=NAMESPACE/NAME [flags]",
	.flags = disable_flags,
	.count = sizeof(disable_flags) / sizeof(disable_flags[0]),
};

static const Flag status_flags[] =
{
	{"service", FLAG_STRING, &options.service_text, "", 0, 0,
	"NAMESPACE/NAME: only APIServices that lead to this Service"},
	COMMAND_KUBECONFIG_FLAG(&options.kubeconfig),
};

static const FlagSet status_set = {
	.program = "kube-reports-proxy apiservice status",
	.about = "Shows the Services of the named APIServices, or of all APIServices that have one.",
	.usage = "kube-reports-proxy apiservice status [GROUP/VERSION...] [flags]",
	.flags = status_flags,
	.count = sizeof(status_flags) / sizeof(status_flags[0]),
};

/* ---------- command lines ---------- */

static void
read_targets(Run *run, const char **operands, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		Target	   *target = &run->targets[run->count++];
		const char *slash = strchr(operands[i], '/');

		target->group = slash == NULL ? "" : arena_strndup(&run->arena, operands[i], (size_t) (slash - operands[i]));
		target->version = slash == NULL ? "" : slash + 1;
		if (!run_is_name(target->group) || !run_is_name(target->version) || strchr(target->version, '.') != NULL)
		{
			fprintf(stderr, "%s: invalid argument \"%s\": must be GROUP/VERSION, such as wgpolicyk8s.io/v1alpha2\n",
					run->set->program, operands[i]);
			exit(COMMAND_USAGE);
		}
		target->name = registration_name(&run->arena, target->group, target->version);
	}
}

/* Reads the command line. */
static void
run_begin(Run *run, const FlagSet *set, int argc, char **argv)
{
	const char *operands[MOST_TARGETS];
	size_t		count;

	memset(run, 0, sizeof(*run));
	run->set = set;
	arena_init(&run->arena);
	count = flags_parse(set, argc, argv, operands, MOST_TARGETS);
	read_targets(run, operands, count);
	if (options.service_text[0] != '\0')
		run_read_service(run, "service", options.service_text, &run->service);
	else if (set != &status_set)
		flags_refuse(set, "service", NULL, "is required");
	run->options = options;
	run->deadline = loop_now() + (uint64_t) options.timeout * 1000;
	if (set == &status_set || options.all || count > 0)
	{
		if (options.all && count > 0)
			flags_refuse(set, "all", NULL, "excludes GROUP/VERSION");
		return;
	}
	fprintf(stderr, "%s: name at least one GROUP/VERSION, such as wgpolicyk8s.io/v1alpha2\n", set->program);
	exit(COMMAND_USAGE);
}

static bool
run_reach(Run *run)
{
	run->kube = command_kube(&run->arena, options.kubeconfig);
	return run->kube != NULL;
}

static int
enable(int argc, char **argv)
{
	static Run	run;
	bool		good;

	run_begin(&run, &enable_set, argc, argv);
	if (options.ca_file[0] == '\0')
		flags_refuse(&enable_set, "ca-file", NULL, "is required");
	if (options.replace_text[0] != '\0')
		run_read_service(&run, "replace", options.replace_text, &run.replace);
	run_check_address(&run, "connect-to", options.connect_to);
	good = run_reach(&run) && api_service_enable(&run);
	run_end(&run);
	return good ? COMMAND_DONE : COMMAND_FAILED;
}

/* ---------- disable and status ---------- */

/* Makes targets of all APIServices that lead to the Service.  On failure prints an error and returns false. */
static bool
find_all(Run *run)
{
	Ask			question = {.path = REGISTRATION_COLLECTION, .answer_limit = COLLECTION_LIMIT};
	Answer		answer;
	json_auto_t *list = ask_document(run->kube, &run->arena, &question, &answer);
	size_t		i;
	json_t	   *item;

	if (answer.why != NULL)
	{
		tell_refused("APIServices", &answer);
		return false;
	}
	if (!kube_json_is_list(list))
	{
		command_error("APIServices: the answer of kube-apiserver is no list");
		return false;
	}
	json_array_foreach(json_object_get(list, "items"), i, item)
	{
		const char *group = kube_json_text(item, "spec", "group", NULL);
		const char *version = kube_json_text(item, "spec", "version", NULL);
		Registration registration;
		Target	   *target = &run->targets[run->count];

		if (!registration_read(item, &registration) || !registration.is_remote || group == NULL || version == NULL ||
			(run->service.name != NULL && !service_is(&registration.service, &run->service)))
			continue;
		target->group = arena_strdup(&run->arena, group);
		target->version = arena_strdup(&run->arena, version);
		target->name = arena_strdup(&run->arena, registration.name);
		if (++run->count == MOST_TARGETS)
		{
			command_error("more than %d APIServices lead to Services: name them", MOST_TARGETS - 1);
			return false;
		}
	}
	return true;
}

/*
 * One attempt to give a group back: deletes the APIService.  If there are CRDs, kube-apiserver makes an APIService of
 * its own at once, and serves the CRDs meanwhile.  A patch that removes the Service is not enough: kube-apiserver
 * (kube-aggregator pkg/apiserver/handler_discovery.go, AddAPIService) would ask the Service for discovery until
 * kube-apiserver is restarted.  When the proxies are gone, discovery would show the group as stale, so that kubectl
 * would not know its types and no namespace could be deleted.
 */
static Sent
try_give_back(Run *run, Arena *arena, Target *target)
{
	Registration registration;
	json_auto_t *document = NULL;
	NameList	crds;
	Sent		sent;

	switch (read_api_service(run, arena, target->name, &document, &registration))
	{
		case FOUND_ERROR:
			return SENT_ERROR;
		case FOUND_NONE:
			command_tell("%s: there is no such APIService", target->name);
			return SENT;
		case FOUND:
			break;
	}
	if (!registration.is_remote)
	{
		command_tell("%s: kube-apiserver serves it already", target->name);
		return SENT;
	}
	if (!service_is(&registration.service, &run->service))
	{
		command_tell("%s: leads to the Service %s/%s and does not change", target->name, registration.service.namespace,
					 registration.service.name);
		return SENT;
	}
	if (!crds_of_target(run, target, &crds))
		return SENT_ERROR;
	sent = send_change(run, arena, target->name, "DELETE", NULL, registration_delete(arena, &registration));
	if (sent == SENT && crds.count == 0)
		command_tell("%s: deleted, because the group has no CRD", target->name);
	else if (sent == SENT)
	{
		command_tell("%s: given back to kube-apiserver, which has %zu CRDs of the group", target->name, crds.count);
		target->given_back = true;
	}
	return sent;
}

static int
disable(int argc, char **argv)
{
	static Run	run;
	bool		looked;
	bool		good;

	run_begin(&run, &disable_set, argc, argv);
	looked = good = run_reach(&run) && (!options.all || find_all(&run)) && read_crds(&run);
	if (good && options.all && run.count == 0)
		command_tell("no APIService leads to %s/%s", run.service.namespace, run.service.name);
	for (size_t i = 0; looked && i < run.count; i++)
		good = repeat(&run, &run.targets[i], try_give_back) && good;
	for (size_t i = 0; options.wait && i < run.count; i++)
		if (run.targets[i].given_back)
			good = wait_available(&run, run.targets[i].name, true) && good;
	run_end(&run);
	return good ? COMMAND_DONE : COMMAND_FAILED;
}

static bool
print_row(Run *run, const Target *target)
{
	Registration registration;
	json_auto_t *document = NULL;
	Found		found = read_api_service(run, &run->arena, target->name, &document, &registration);
	NameList	crds;
	const char *service = "<none>";

	if (found == FOUND_ERROR || !crds_of_target(run, target, &crds))
		return false;
	if (found == FOUND && registration.is_remote)
		service = arena_printf(&run->arena, "%s/%s:%d", registration.service.namespace, registration.service.name,
							   registration.service.port);
	else if (found == FOUND)
		service = "kube-apiserver";
	printf("%-36s %-36s %-10s %-24s %zu\n", target->name, service,
		   found == FOUND_NONE ? "<none>" : registration.available ? "True" : "False",
		   found == FOUND_NONE || registration.reason[0] == '\0' ? "<none>" : registration.reason, crds.count);
	return true;
}

static int
status(int argc, char **argv)
{
	static Run	run;
	bool		good;

	run_begin(&run, &status_set, argc, argv);
	good = run_reach(&run) && (run.count > 0 || find_all(&run)) &&
		read_crds(&run);
	if (good)
		printf("%-36s %-36s %-10s %-24s %s\n", "APISERVICE", "SERVED BY", "AVAILABLE", "REASON", "CRDS");
	for (size_t i = 0; good && i < run.count; i++)
		good = print_row(&run, &run.targets[i]);
	run_end(&run);
	return good ? COMMAND_DONE : COMMAND_FAILED;
}

static const Command actions[] =
{
	{"enable", "let kube-apiserver pass requests of a group to this server, instead of serving its CRDs", enable},
	{"disable", "give groups back to their CRDs, or delete their APIServices", disable},
	{"status", "show where APIServices lead, and whether they are available", status},
	{NULL, NULL, NULL}
};

int
api_service_command(int argc, char **argv)
{
	return command_run("kube-reports-proxy apiservice", actions, argc, argv);
}
