/*-------------------------------------------------------------------------
 *
 * api_service_run.c
 *	  Common parts of the commands of kube-reports-proxy apiservice.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/api_service_run.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/loop.h"
#include "base/url.h"
#include "commands/command.h"
#include "commands/crds.h"

#define POLL_MS 500
/* Number of attempts when other clients change the APIService each time. */
#define MOST_CONFLICTS 10

bool
run_is_name(const char *text)
{
	return text[0] != '\0' && text[0] != '.' && text[0] != '-' && strlen(text) <= 253 &&
		strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(text);
}

void
run_read_service(Run *run, const char *flag, const char *text, ServiceAddress *service)
{
	const char *slash = strchrnul(text, '/');
	const char *colon = strchr(slash, ':');
	char	   *end;
	long		port = 443;

	if (*slash == '\0')
		flags_refuse(run->set, flag, text, "must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
	service->namespace = arena_strndup(&run->arena, text, (size_t) (slash - text));
	service->name = colon == NULL ? slash + 1 : arena_strndup(&run->arena, slash + 1, (size_t) (colon - slash) - 1);
	if (colon != NULL)
	{
		port = strtol(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port < 1 || port > 65535)
			flags_refuse(run->set, flag, text, "the port must be between 1 and 65535");
	}
	if (!run_is_name(service->namespace) || !run_is_name(service->name))
		flags_refuse(run->set, flag, text, "must be NAMESPACE/NAME or NAMESPACE/NAME:PORT");
	service->port = (int) port;
}

void
run_check_address(const Run *run, const char *flag, const char *text)
{
	if (text[0] != '\0' && !url_is_address(text))
		flags_refuse(run->set, flag, text, "must be HOST:PORT");
}

void
run_end(Run *run)
{
	X509_STORE_free(run->ca_store);
	for (size_t i = 0; i < run->count; i++)
		json_decref(run->targets[i].before);
	if (run->kube != NULL)
		asker_close(run->kube);
	arena_free(&run->arena);
}

void
tell_refused(const char *name, const Answer *answer)
{
	command_error("%s: %s%s", name, answer->why,
				  answer->status == 403 ? "; docs/security.md says which rights this command needs" : "");
}

void
pause_for_poll(void)
{
	struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

	nanosleep(&pause, NULL);
}

static volatile sig_atomic_t stopped;

static void
on_stop(int signal_number)
{
	stopped = 1;
}

void
stop_waiting_at_signals(void)
{
	struct sigaction action = {.sa_handler = on_stop, .sa_flags = (int) SA_RESETHAND};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

bool
is_late(const Run *run)
{
	return stopped || loop_now() >= run->deadline;
}

Found
read_api_service(Run *run, Arena *arena, const char *name, json_t **document, Registration *registration)
{
	Ask			question = {.path = registration_path(arena, name)};
	Answer		answer;

	*document = ask_document(run->kube, arena, &question, &answer);
	if (answer.status == 404)
		return FOUND_NONE;
	if (*document != NULL && registration_read(*document, registration))
		return FOUND;
	if (*document != NULL)
		command_error("%s: the answer of kube-apiserver is not an APIService", name);
	else
		tell_refused(name, &answer);
	return FOUND_ERROR;
}

Sent
send_change(Run *run, Arena *arena, const char *name, const char *method, const char *content_type, JsonText body)
{
	Ask			question = {.method = method, .content_type = content_type, .body = body};
	Answer		answer;

	question.path = strcmp(method, "POST") == 0 ? REGISTRATION_COLLECTION : registration_path(arena, name);
	answer = ask(run->kube, arena, &question);
	if (answer.why == NULL)
		return SENT;
	if (answer.status == 409 || (answer.status == 404 && strcmp(method, "POST") != 0))
		return SENT_CONFLICT;
	tell_refused(name, &answer);
	return SENT_ERROR;
}

Sent
send_patch(Run *run, Arena *arena, const char *name, JsonText patch)
{
	return send_change(run, arena, name, "PATCH", "application/merge-patch+json", patch);
}

bool
wait_available(Run *run, const char *name, bool local)
{
	char		told[512] = "";

	for (;;)
	{
		Arena		arena;
		Registration registration;
		json_auto_t *document = NULL;
		const char *state;
		bool		good;

		arena_init(&arena);
		switch (read_api_service(run, &arena, name, &document, &registration))
		{
			case FOUND_ERROR:
				arena_free(&arena);
				return false;
			case FOUND_NONE:
				state = "it does not exist";
				good = false;
				break;
			case FOUND:
			default:
				good = registration.available && registration.is_remote != local &&
					(strcmp(registration.reason, "Local") == 0) == local;
				state = registration.available || registration.reason[0] == '\0' ?
					"kube-apiserver has not checked it yet" :
					arena_printf(&arena, "%s: %s", registration.reason, registration.message);
				break;
		}
		if (!good && strncmp(told, state, sizeof(told) - 1) != 0)
		{
			snprintf(told, sizeof(told), "%s", state);
			command_tell("%s: waiting until it is available (%s)", name, told);
		}
		arena_free(&arena);
		if (good)
			return true;
		if (is_late(run))
		{
			if (stopped)
				command_error("%s: waiting was interrupted (%s)", name, told);
			else
				command_error("%s: not available after %d s (%s)", name, run->options.timeout, told);
			return false;
		}
		pause_for_poll();
	}
}

bool
read_crds(Run *run)
{
	const char *why = "";

	if (crds_list(run->kube, &run->arena, &run->crds, &why))
		return true;
	command_error("the CRDs of the cluster cannot be listed: %s", why);
	return false;
}

bool
crds_of_target(Run *run, const Target *target, NameList *plurals)
{
	const char *why = "";

	if (crds_of_version(run->kube, &run->arena, &run->crds, target->group, target->version, plurals, &why))
		return true;
	command_error("%s: its CRDs cannot be read: %s", target->name, why);
	return false;
}

bool
repeat(Run *run, Target *target, Sent (*attempt) (Run *run, Arena *arena, Target *target))
{
	for (int i = 0; i < MOST_CONFLICTS; i++)
	{
		Arena		arena;
		Sent		sent;

		arena_init(&arena);
		sent = attempt(run, &arena, target);
		arena_free(&arena);
		if (sent != SENT_CONFLICT)
			return sent == SENT;
	}
	command_error("%s: another client keeps changing it", target->name);
	return false;
}
