/*-------------------------------------------------------------------------
 *
 * crd_list.c
 *	  The objects of a CustomResourceDefinition in a cluster, page by page.
 *
 * All pages of a list show the state at its beginning, which etcd keeps for a
 * limited time (usually five minutes).  A list of many pages can take longer.
 * Then kube-apiserver answers 410 and offers a token with which the list
 * continues after the last object, with the current state.  Such a list has
 * every object that existed all the time; for objects that changed meanwhile,
 * another run is needed.  Without such a token the list begins anew.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/crd_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "cluster/registration.h"
#include "cluster/transfer.h"

#define PAGE_TIMEOUT_MS 60000L
#define PAGE_LIMIT ((size_t) 512 * 1024 * 1024)
#define MOST_RESTARTS 5
#define MOST_EXPIRIES 5

CrdReach
crd_reach(Asker *kube, Arena *arena, const char *group, const char *version, const char **why)
{
	Ask			question = {.path = registration_path(arena, registration_name(arena, group, version))};
	Answer		answer;
	json_auto_t *document = ask_document(kube, arena, &question, &answer);
	Registration registration;

	*why = answer.why;
	if (answer.status == 404)
		return CRD_ABSENT;
	if (document == NULL)
		return CRD_UNKNOWN;
	registration_read(document, &registration);
	if (!registration.is_remote)
		return CRD_STORED;
	*why = arena_printf(arena, "%s/%s", registration.service.namespace, registration.service.name);
	return CRD_SERVED;
}

static void
keep_token(CrdList *list, const char *token)
{
	replace_text(&list->token, token == NULL || token[0] == '\0' ? NULL : token);
}

/* After a 410: continues with the token that it offers, or begins anew. */
static CrdStep
go_on(CrdList *list, JsonText body)
{
	json_auto_t *status = kube_json_read(body.bytes, body.len);

	list->moved = true;
	keep_token(list, kube_json_text(status, "metadata", "continue", NULL));
	if (++list->expiries > MOST_EXPIRIES)
		return CRD_FAILED;
	if (list->token != NULL)
		return CRD_PAGE;
	list->restarts++;
	return list->restarts > MOST_RESTARTS ? CRD_FAILED : CRD_RESTART;
}

/*
 * Whether an answer is a page of a list: see kube_json_is_list().  import must not conclude from another answer that
 * all objects are gone.
 */
static bool
is_page(Arena *arena, const JsonNode *document)
{
	const JsonNode *items = json_get(document, "items");

	return items != NULL && (items->kind == JSON_KIND_ARRAY || items->kind == JSON_KIND_NULL) &&
		json_get_cstring(arena, json_get(document, "metadata"), "resourceVersion") != NULL;
}

CrdStep
crd_list_next(CrdList *list, Arena *arena, const JsonNode **items, int *status, const char **why)
{
	Ask			question = {
		.accept = list->metadata_only ?
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json" : NULL,
		.timeout_ms = PAGE_TIMEOUT_MS,
		.answer_limit = PAGE_LIMIT,
	};
	Answer		answer;
	const JsonNode *document;
	const JsonNode *metadata;
	JsonError	error;
	bool		first = list->token == NULL;

	question.path = arena_printf(arena, "/apis/%s/%s/%s?limit=%d%s%s", list->group, list->version, list->resource,
								 list->page_size,
								 first ? "" : "&continue=", first ? "" : transfer_escape(arena, list->token));
	answer = ask(list->kube, arena, &question);
	*status = answer.status;
	*why = answer.why;
	*items = NULL;
	if (answer.status == 410)
		return go_on(list, answer.body);
	if (answer.why != NULL)
		return CRD_FAILED;
	/* The objects are documents: import copies them. */
	document = json_parse(arena, answer.body.bytes, answer.body.len, NULL, NULL, &error);
	if (document == NULL)
	{
		*why = arena_printf(arena, "%s%s: %s", asker_server(list->kube), question.path, error.message);
		return CRD_FAILED;
	}
	if (!is_page(arena, document))
	{
		*why = arena_printf(arena, "%s%s: the answer is no list", asker_server(list->kube), question.path);
		return CRD_FAILED;
	}
	list->begun = true;
	list->expiries = 0;
	*items = json_get(document, "items");
	if ((*items)->kind != JSON_KIND_ARRAY)
		*items = NULL;
	metadata = json_get(document, "metadata");
	if (first)
	{
		const JsonNode *remaining = json_get(metadata, "remainingItemCount");

		list->total = *items == NULL ? 0 : (*items)->u.array.count;
		if (remaining != NULL && remaining->kind == JSON_KIND_INTEGER && remaining->u.integer > 0)
			list->total += (size_t) remaining->u.integer;
	}
	keep_token(list, json_get_cstring(arena, metadata, "continue"));
	return list->token != NULL ? CRD_PAGE : CRD_LAST;
}

void
crd_list_end(CrdList *list)
{
	keep_token(list, NULL);
}
