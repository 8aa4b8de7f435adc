/*-------------------------------------------------------------------------
 *
 * api_service_enable.c
 *	  Taking API groups over from their CRDs.
 *
 * The command first checks everything, and changes nothing if a check fails:
 * the Service has a ready endpoint; its certificate is from the CA and has the
 * name that kube-apiserver verifies; the server serves the group and version,
 * and every type that a CRD of the cluster serves there.  Then the command
 * changes each APIService, provided that the APIService still has the version
 * that was checked, and waits until the APIService is available.  If one does
 * not become available, the command restores all of them: an APIService whose
 * server does not answer blocks the deletion of every namespace.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/api_service_enable.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/base64.h"
#include "commands/backend.h"
#include "commands/command.h"
#include "trust/ca_bundle.h"

/* ---------- checks ---------- */

static bool
read_ca_file(Run *run)
{
	char		why[512];

	if (run->options.ca_file[0] == '\0')
		flags_refuse(run->set, "ca-file", NULL, "is required");
	if (!ca_bundle_read(&run->arena, run->options.ca_file, &run->ca, why, sizeof(why)) ||
		!ca_bundle_load(&run->ca_store, NULL, run->ca, run->options.ca_file, why, sizeof(why)))
	{
		command_error("--ca-file: %s", why);
		return false;
	}
	run->ca_bundle = base64_encode(&run->arena, run->ca);
	return true;
}

/* Waits for a ready endpoint and returns its HOST:PORT.  If none is ready in time, prints an error, returns NULL. */
static const char *
wait_for_endpoint(Run *run)
{
	char		told[512] = "";

	for (;;)
	{
		Arena		arena;
		const char *address = NULL;
		const char *why = "";
		BackendState state;

		arena_init(&arena);
		state = backend_look(run->kube, &arena, &run->service, &address, &why);
		if (state == BACKEND_READY)
			address = arena_strdup(&run->arena, address);
		else if (state == BACKEND_WRONG || !run->options.wait || is_late(run))
			command_error("%s", why);
		else if (strncmp(told, why, sizeof(told) - 1) != 0)
		{
			snprintf(told, sizeof(told), "%s", why);
			command_tell("waiting for the server: %s", told);
		}
		arena_free(&arena);
		if (state == BACKEND_READY)
			return address;
		if (state == BACKEND_WRONG || !run->options.wait || is_late(run))
			return NULL;
		pause_for_poll();
	}
}

/*
 * Asks the server which types of a group and version it serves.  If the server does not tell, the database of
 * --database is asked.  On failure, or when the server's certificate is invalid, prints an error and returns false.
 */
static bool
ask_server(Run *run, Asker *server, const Target *target, NameList *plurals)
{
	Answer		answer;

	if (backend_served(server, &run->arena, target->group, target->version, plurals, &answer))
		return true;
	if (answer.untrusted)
		command_error("the certificate of the server cannot be verified by %s: %s", run->options.ca_file, answer.why);
	else if (run->options.database != NULL)
		return true;
	else
		command_error("%s: the server does not tell which types it serves: %s; if it accepts no token or cannot be "
					  "reached from here, give --database", target->name, answer.why);
	return false;
}

static bool
ask_database(Run *run, const Target *target, NameList *plurals)
{
	const char *why = "";
	Answer		answer;

	if (run->options.cluster_id[0] == '\0')
	{
		const char *uid = ask_cluster_uid(run->kube, &run->arena, 1, &answer);

		if (uid == NULL)
		{
			command_error("the cluster's id is not known: %s; give --cluster-id", answer.why);
			return false;
		}
		run->options.cluster_id = uid;
	}
	if (backend_registered(&run->arena, run->options.database, run->options.cluster_id, target->group,
						   target->version, plurals, &why))
		return true;
	command_error("the database does not tell which types are served: %s", why);
	return false;
}

/* Whether a group and version can be taken over without losing a type; prints the reason if not. */
static bool
look_at_served(Run *run, Asker *server, const Target *target)
{
	NameList	served;
	NameList	crds;
	bool		good = true;

	if (!ask_server(run, server, target, &served) ||
		(run->options.database != NULL && !ask_database(run, target, &served)) || !crds_of_target(run, target, &crds))
		return false;
	if (served.count == 0)
	{
		command_error("%s/%s is not served by %s/%s: register its CRDs with kube_reports.register_crd()", target->group,
					  target->version, run->service.namespace, run->service.name);
		return false;
	}
	for (size_t i = 0; i < crds.count; i++)
	{
		if (name_list_has(&served, crds.names[i]))
			continue;
		command_error("the cluster has the CRD %s.%s, which is not registered, so nothing would serve it in %s any "
					  "more; register it with kube_reports.register_crd()", crds.names[i], target->group,
					  target->version);
		good = false;
	}
	return good;
}

/* Whether an APIService may be taken over; prints the reason if not. */
static bool
is_free(const Run *run, const Registration *registration)
{
	if (!registration->is_remote || service_is(&registration->service, &run->service) ||
		(run->replace.name != NULL && service_is(&registration->service, &run->replace)))
		return true;
	command_error("%s leads to the Service %s/%s; --replace=%s/%s takes it over", registration->name,
				  registration->service.namespace, registration->service.name, registration->service.namespace,
				  registration->service.name);
	return false;
}

static bool
look_at_target(Run *run, Asker *server, const Target *target)
{
	Registration registration;
	json_auto_t *document = NULL;
	Found		found = read_api_service(run, &run->arena, target->name, &document, &registration);

	return found != FOUND_ERROR && (found == FOUND_NONE || is_free(run, &registration)) &&
		look_at_served(run, server, target);
}

static bool
look_at_all(Run *run)
{
	const char *address = wait_for_endpoint(run);
	Asker	   *server;
	bool		good = true;

	if (address == NULL || !read_crds(run))
		return false;
	/* kube-apiserver verifies this name. */
	server = asker_for(run->kube, arena_printf(&run->arena, "https://%s.%s.svc:%d", run->service.name,
											   run->service.namespace, run->service.port), run->ca,
					   run->options.connect_to[0] != '\0' ? run->options.connect_to : address);
	for (size_t i = 0; i < run->count; i++)
		good = look_at_target(run, server, &run->targets[i]) && good;
	asker_close(server);
	return good;
}

/* ---------- changes ---------- */

/* Returns the caBundle to write.  The present caBundle stays if it leads here and is newer (upkeep/api_service.c). */
static const char *
bundle_for(Run *run, Arena *arena, const Registration *registration)
{
	X509_STORE *store = NULL;
	JsonText	pem;
	char		why[512];
	bool		newer;

	if (!registration->is_remote || !service_is(&registration->service, &run->service))
		return run->ca_bundle;
	newer = registration->ca_bundle[0] != '\0' && base64_decode_value(arena, registration->ca_bundle, &pem) &&
		ca_bundle_load(&store, NULL, pem, registration->name, why, sizeof(why)) &&
		ca_bundle_is_newer(store, run->ca_store);
	X509_STORE_free(store);
	if (newer)
		command_tell("%s: its caBundle is newer than %s and stays", registration->name, run->options.ca_file);
	return newer ? registration->ca_bundle : run->ca_bundle;
}

/* One attempt: reads the APIService, and changes the version that was read. */
static Sent
try_take(Run *run, Arena *arena, Target *target)
{
	RegistrationWish wish = {
		.service = run->service,
		.ca_bundle = run->ca_bundle,
		.group_priority = run->options.group_priority,
		.version_priority = run->options.version_priority,
	};
	Registration registration;
	json_auto_t *document = NULL;
	Sent		sent;

	switch (read_api_service(run, arena, target->name, &document, &registration))
	{
		case FOUND_ERROR:
			return SENT_ERROR;
		case FOUND_NONE:
			sent = send_change(run, arena, target->name, "POST", NULL,
							   registration_create(arena, target->group, target->version, &wish));
			if (sent != SENT)
				return sent;
			target->created = true;
			command_tell("%s: created; it leads to %s/%s", target->name, run->service.namespace, run->service.name);
			return SENT;
		case FOUND:
			break;
	}
	if (!is_free(run, &registration))
		return SENT_ERROR;
	wish.ca_bundle = bundle_for(run, arena, &registration);
	if (registration_is(&registration, &wish))
	{
		command_tell("%s: leads to %s/%s already", target->name, run->service.namespace, run->service.name);
		return SENT;
	}
	sent = send_patch(run, arena, target->name, registration_take(arena, &registration, &wish));
	if (sent != SENT)
		return sent;
	/* An APIService that led to this Service before is not restored: this run does not make it worse. */
	if (registration.is_remote && service_is(&registration.service, &run->service))
	{
		command_tell("%s: leads to %s/%s as before, and has the new settings", target->name, run->service.namespace,
					 run->service.name);
		return SENT;
	}
	target->before = json_incref(document);
	command_tell("%s: leads to %s/%s now; before, %s served it", target->name, run->service.namespace,
				 run->service.name, registration.is_remote ? "another Service" : "kube-apiserver");
	return SENT;
}

/*
 * One attempt to restore a target.  An APIService that kube-apiserver had made for CRDs is deleted, and kube-apiserver
 * makes it anew: see try_give_back().
 */
static Sent
try_restore(Run *run, Arena *arena, Target *target)
{
	Registration registration;
	Registration before;
	json_auto_t *document = NULL;
	Found		found = read_api_service(run, arena, target->name, &document, &registration);

	if (found == FOUND_ERROR)
		return SENT_ERROR;
	if (found == FOUND_NONE || !registration.is_remote || !service_is(&registration.service, &run->service))
		return SENT;
	if (target->created || (registration_read(target->before, &before) && before.automanaged && !before.is_remote))
		return send_change(run, arena, target->name, "DELETE", NULL, registration_delete(arena, &registration));
	return send_patch(run, arena, target->name, registration_restore(arena, &registration, target->before));
}

/* Restores one target; if that fails, prints an error. */
static void
take_back(Run *run, Target *target)
{
	if (!target->created && target->before == NULL)
		return;
	if (repeat(run, target, try_restore))
		command_tell("%s: restored", target->name);
	else
		command_error("%s: not restored; kube-reports-proxy apiservice disable gives the group back", target->name);
}

/* Restores all APIServices that this run changed. */
static void
take_all_back(Run *run)
{
	for (size_t i = 0; i < run->count; i++)
		take_back(run, &run->targets[i]);
}

bool
api_service_enable(Run *run)
{
	bool		good = true;

	if (!read_ca_file(run) || !look_at_all(run))
	{
		command_error("nothing was changed");
		return false;
	}
	/* A Job that exceeds its deadline is ended by a signal. */
	stop_waiting_at_signals();
	for (size_t i = 0; good && i < run->count; i++)
		good = repeat(run, &run->targets[i], try_take);
	for (size_t i = 0; good && run->options.wait && i < run->count; i++)
	{
		good = wait_available(run, run->targets[i].name, false);
		if (good)
			command_tell("%s: available", run->targets[i].name);
	}
	if (!good)
		take_all_back(run);
	return good;
}
