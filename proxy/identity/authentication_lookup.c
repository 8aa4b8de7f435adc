/*-------------------------------------------------------------------------
 *
 * authentication_lookup.c
 *	  Reads the settings of authentication that kube-apiserver publishes for extension servers.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/authentication_lookup.h"

#include <string.h>

#include "trust/authentication_config.h"
#include "base/config.h"
#include "base/log.h"
#include "cluster/ask.h"

#define COLLECTION "/api/v1/namespaces/kube-system/configmaps"
#define NAME "extension-apiserver-authentication"

bool
authentication_lookup_wanted(void)
{
	return !config.authentication_skip_lookup && authentication_config_incomplete() &&
		config_has_kubeapi(config.authentication_kubeconfig);
}

LookupResult
authentication_lookup(Arena *arena, const char **why)
{
	Asker	   *asker = asker_open(arena, config.authentication_kubeconfig, why);
	Ask			question = {.path = COLLECTION "/" NAME, .attempts = 1};
	Answer		answer;
	json_auto_t *config_map = NULL;
	char		reason[512];

	if (asker == NULL)
		return LOOKUP_FAILED;
	config_map = ask_document(asker, arena, &question, &answer);
	asker_close(asker);
	*why = answer.why;
	if (config_map != NULL && authentication_config_publish(config_map, reason, sizeof(reason)))
		return LOOKUP_DONE;
	if (config_map != NULL)
		*why = arena_printf(arena, "the ConfigMap %s cannot be used: %s", NAME, reason);
	if (answer.status == 404)
	{
		log_line(LOG_WARNING, "there is no ConfigMap %s in kube-system yet: no front proxy is trusted", NAME);
		return LOOKUP_DONE;
	}
	if (answer.status != 403)
		return LOOKUP_FAILED;
	*why = arena_printf(arena, "%s; usually fixed by: kubectl create rolebinding -n kube-system NAME "
						"--role=extension-apiserver-authentication-reader --serviceaccount=NAMESPACE:NAME", *why);
	return LOOKUP_FORBIDDEN;
}

/* --- Following the ConfigMap --- */

static void
take(const json_t *config_map)
{
	unsigned	before = authentication_config()->generation;
	char		why[512];

	if (!authentication_config_publish(config_map, why, sizeof(why)))
		log_line(LOG_ERROR, "the ConfigMap %s changed but cannot be used, its old contents stay in force: %s",
				 NAME, why);
	else if (authentication_config()->generation != before)
		log_line(LOG_INFO, "the ConfigMap %s has changed and is in force", NAME);
}

static void
on_item(void *state, const json_t *object)
{
	take(object);
}

static void
on_event(void *state, const char *type, const json_t *object)
{
	if (strcmp(type, "DELETED") == 0)
		log_line(LOG_WARNING, "the ConfigMap %s was deleted; its last contents stay in force", NAME);
	else
		take(object);
}

static void
on_nothing(void *state)
{
}

static void
on_failure(void *state, int status, const char *why)
{
	log_line(LOG_WARNING, "the ConfigMap %s cannot be watched at present: %s", NAME, why);
}

void
authentication_lookup_follow(KubeApi *api)
{
	static const KubeWatchHandler handler = {
		.begin = on_nothing,
		.item = on_item,
		.end = on_nothing,
		.event = on_event,
		.failed = on_failure,
	};

	kubeapi_watch(api, COLLECTION, "fieldSelector=metadata.name%3D" NAME, &handler, NULL);
}
