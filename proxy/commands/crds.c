/*-------------------------------------------------------------------------
 *
 * crds.c
 *	  The names and versions of the CustomResourceDefinitions of a cluster.
 *
 * The list asks for metadata alone: the definitions of a large cluster are tens of megabytes.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/crds.h"

#include <string.h>

#include "cluster/transfer.h"

#define COLLECTION "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#define METADATA_ALONE "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
/* Even the metadata can be half a megabyte, with the annotation of kubectl apply and managedFields. */
#define PAGE_SIZE 20
#define PAGE_LIMIT ((size_t) 64 * 1024 * 1024)
/* More than kube-apiserver can handle: a list that does not end is wrong. */
#define MOST_CRDS 100000

static void
add_name(Arena *arena, NameList *list, size_t *capacity, const char *name)
{
	list->names = arena_grow(arena, list->names, list->count, sizeof(*list->names), capacity);
	list->names[list->count++] = name;
}

/* Adds the names of a page.  Returns the continue token of the next page, NULL after the last page. */
static const char *
take_page(Arena *arena, const json_t *page, NameList *names, size_t *capacity)
{
	const char *next = kube_json_text(page, "metadata", "continue", NULL);
	size_t		i;
	json_t	   *item;

	json_array_foreach(json_object_get(page, "items"), i, item)
	{
		const char *name = kube_json_text(item, "metadata", "name", NULL);

		if (name != NULL)
			add_name(arena, names, capacity, arena_strdup(arena, name));
	}
	return next == NULL || next[0] == '\0' ? NULL : arena_strdup(arena, next);
}

bool
crds_list(Asker *kube, Arena *arena, NameList *names, const char **why)
{
	size_t		capacity = 0;
	const char *next = NULL;
	Arena		page_arena;

	memset(names, 0, sizeof(*names));
	do
	{
		Ask			question = {.accept = METADATA_ALONE, .answer_limit = PAGE_LIMIT};
		Answer		answer;
		json_auto_t *page = NULL;

		arena_init(&page_arena);
		question.path = arena_printf(&page_arena, COLLECTION "?limit=%d%s%s", PAGE_SIZE,
									 next == NULL ? "" : "&continue=",
									 next == NULL ? "" : transfer_escape(&page_arena, next));
		page = ask_document(kube, &page_arena, &question, &answer);
		if (page == NULL || !kube_json_is_list(page))
		{
			*why = page == NULL ? arena_strdup(arena, answer.why) : "the answer of kube-apiserver is no list";
			arena_free(&page_arena);
			return false;
		}
		next = take_page(arena, page, names, &capacity);
		arena_free(&page_arena);
	} while (next != NULL && names->count < MOST_CRDS);
	if (next == NULL)
		return true;
	*why = "the list of CustomResourceDefinitions does not end";
	return false;
}

static bool
serves(const json_t *crd, const char *version)
{
	size_t		i;
	json_t	   *item;

	json_array_foreach(kube_json_at(crd, "spec", "versions", NULL), i, item)
		if (kube_json_is(json_object_get(item, "name"), version))
		return json_is_true(json_object_get(item, "served"));
	return false;
}

bool
crds_of_version(Asker *kube, Arena *arena, const NameList *names, const char *group, const char *version,
				NameList *plurals, const char **why)
{
	size_t		capacity = 0;

	memset(plurals, 0, sizeof(*plurals));
	for (size_t i = 0; i < names->count; i++)
	{
		const char *dot = strchr(names->names[i], '.');
		Ask			question = {0};
		Answer		answer;
		json_auto_t *crd = NULL;

		if (dot == NULL || strcmp(dot + 1, group) != 0)
			continue;
		question.path = arena_printf(arena, COLLECTION "/%s", transfer_escape(arena, names->names[i]));
		crd = ask_document(kube, arena, &question, &answer);
		if (crd == NULL && answer.status == 404)
			continue;
		if (crd == NULL)
		{
			*why = answer.why;
			return false;
		}
		if (serves(crd, version))
			add_name(arena, plurals, &capacity,
					 arena_strndup(arena, names->names[i], (size_t) (dot - names->names[i])));
	}
	return true;
}
