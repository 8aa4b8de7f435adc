/*-------------------------------------------------------------------------
 *
 * cleanup_list.c
 *	  The objects of a type in etcd, and whether the database has each of them.
 *
 * Right before the command deletes an object, it asks the database whether it
 * has a verified copy of this uid and resourceVersion.  The deletion names
 * both, so kube-apiserver refuses the deletion if the object has changed
 * meanwhile.
 *
 * An APIService is for one version of a group.  While proxies serve that
 * version, another version of the same CustomResourceDefinition still reaches
 * the objects in etcd, with the same names, uids and resourceVersions.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/cleanup_list.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/transfer.h"
#include "commands/command.h"
#include "commands/crd_list.h"

/* Number of objects in one query to the database. */
#define CLEANUP_BATCH 200

/* Largest number of lines about refused objects; the table shows how many there are. */
#define REFUSED_TOLD 50

typedef struct CleanupItem
{
	JsonText	namespace_name;
	JsonText	name;
	JsonText	uid;
	JsonText	version;
} CleanupItem;

/* ---------- the way to etcd ---------- */

static bool
has_resource(Asker *kube, Arena *arena, const ReportKind *kind, const char *version)
{
	Ask			question = {.path = arena_printf(arena, "/apis/%s/%s", kind->group, version)};
	Answer		answer;
	json_auto_t *list = ask_document(kube, arena, &question, &answer);
	size_t		i;
	json_t	   *resource;

	json_array_foreach(json_object_get(list, "resources"), i, resource)
		if (kube_json_is(json_object_get(resource, "name"), kind->resource))
		return true;
	return false;
}

/* Whether the cluster has the CustomResourceDefinition; true if kube-apiserver does not tell. */
static bool
has_definition(Asker *kube, Arena *arena, const ReportKind *kind)
{
	Ask			question = {.path = arena_printf(arena, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/%s",
												 kind->name)};

	return ask(kube, arena, &question).status != 404;
}

static void
explain_hidden(const ReportKind *kind, const char *service)
{
	command_error("%s: APIService %s.%s points at service %s, and its CustomResourceDefinition has no other version: "
				  "etcd cannot be reached",
				  kind->name, kind->version, kind->group, service);
	command_tell("add another served version to the CustomResourceDefinition, or hand the group back for some time "
				 "(kube-reports-proxy apiservice disable %s/%s --service=%s): see docs/moving-in.md, \"Clean up etcd\"",
				 kind->group, kind->version, service);
}

const char *
cleanup_version(Asker *kube, Arena *arena, const ReportKind *kind, const char *wanted, bool *absent)
{
	Ask			question = {.path = arena_printf(arena, "/apis/%s", kind->group)};
	Answer		answer;
	const char *why = NULL;
	const char *ignored;
	json_auto_t *group = NULL;
	size_t		i;
	json_t	   *item;
	CrdReach	reach = crd_reach(kube, arena, kind->group, kind->version, &why);

	*absent = reach == CRD_ABSENT && wanted[0] == '\0';
	if (*absent)
		return NULL;
	if (reach == CRD_UNKNOWN)
	{
		command_error("%s: %s", kind->name, why);
		return NULL;
	}
	if (reach == CRD_STORED && (wanted[0] == '\0' || strcmp(wanted, kind->version) == 0))
		return kind->version;
	group = ask_document(kube, arena, &question, &answer);
	json_array_foreach(json_object_get(group, "versions"), i, item)
	{
		const char *version = kube_json_text(item, "version", NULL);

		if (version == NULL || (wanted[0] != '\0' && strcmp(version, wanted) != 0))
			continue;
		if (crd_reach(kube, arena, kind->group, version, &ignored) == CRD_STORED &&
			has_resource(kube, arena, kind, version))
			return arena_strdup(arena, version);
	}
	*absent = reach == CRD_SERVED && wanted[0] == '\0' && !has_definition(kube, arena, kind);
	if (*absent)
		return NULL;
	if (reach == CRD_SERVED)
		explain_hidden(kind, why);
	else
		command_error("%s: version %s does not reach etcd", kind->name, wanted);
	return NULL;
}

/* ---------- deletion ---------- */

static const char *
item_name(Arena *arena, const CleanupItem *item)
{
	return arena_printf(arena, "%.*s%s%.*s", (int) item->namespace_name.len, item->namespace_name.bytes,
						item->namespace_name.len > 0 ? "/" : "", (int) item->name.len, item->name.bytes);
}

/* Deletes an object; returns true if the object is gone afterwards. */
static bool
delete_item(Cleanup *cleanup, Arena *arena, const CleanupItem *item)
{
	const ReportKind *kind = cleanup->kind;
	const char *place = item->namespace_name.len == 0 ? "" :
	arena_printf(arena, "namespaces/%s/", transfer_escape(arena, json_text_cstring(arena, item->namespace_name)));
	Ask			question = {
		.method = "DELETE",
		.path = arena_printf(arena, "/apis/%s/%s/%s%s/%s", kind->group, cleanup->version, place, kind->resource,
							 transfer_escape(arena, json_text_cstring(arena, item->name))),
	};
	Answer		answer;

	question.body = kube_json_write(arena, json_pack("{s:s, s:s, s:s, s:{s:s%, s:s%}}", "kind", "DeleteOptions",
													 "apiVersion", "v1", "propagationPolicy", "Background",
													 "preconditions", "uid", item->uid.bytes, item->uid.len,
													 "resourceVersion", item->version.bytes, item->version.len));
	answer = ask(cleanup->kube, arena, &question);
	if (answer.status == 404)
		return true;
	if (answer.why == NULL)
	{
		cleanup->counts.deleted++;
		return true;
	}
	cleanup->counts.failed++;
	progress_tell(&cleanup->progress, "%s is not deleted: %s", item_name(arena, item),
				  answer.status == 409 ? "the object has changed meanwhile" : answer.why);
	return false;
}

static void
forget_items(Cleanup *cleanup, Arena *arena, const CleanupItem *items, size_t count)
{
	JsonText	namespaces[CLEANUP_BATCH];
	JsonText	names[CLEANUP_BATCH];
	JsonText	uids[CLEANUP_BATCH];
	PgParameter parameters[7];
	PgFailure	failure;
	PgRows	   *rows;

	if (count == 0)
		return;
	for (size_t i = 0; i < count; i++)
	{
		namespaces[i] = items[i].namespace_name;
		names[i] = items[i].name;
		uids[i] = items[i].uid;
	}
	report_store_name(cleanup->store, cleanup->kind, parameters);
	parameters[4] = (PgParameter) {.items = namespaces, .count = count};
	parameters[5] = (PgParameter) {.items = names, .count = count};
	parameters[6] = (PgParameter) {.items = uids, .count = count};
	rows = pg_session_query(cleanup->store->session, arena,
							"SELECT kube_reports_internal.api_cleanup_done(" REPORT_STORE_TYPE ", $5, $6, $7)",
							parameters, 7, &failure);
	/* A failure does no harm: the next run deletes these rows. */
	if (rows != NULL)
		pg_rows_free(rows);
}

/* ---------- objects ---------- */

static bool
is_deletable(Cleanup *cleanup, Arena *arena, const CleanupItem *item, const char *verdict, const char *reason)
{
	CleanupCounts *counts = &cleanup->counts;

	if (strcmp(verdict, "verified") == 0)
	{
		counts->verified++;
		return true;
	}
	if (strcmp(verdict, "gone") == 0)
	{
		counts->gone++;
		return cleanup->also_gone;
	}
	counts->refused++;
	if (cleanup->tells && counts->refused <= REFUSED_TOLD)
		progress_tell(&cleanup->progress, "%s stays: %s", item_name(arena, item), reason);
	else if (cleanup->tells && counts->refused == REFUSED_TOLD + 1)
		progress_tell(&cleanup->progress, "further objects that stay are only counted");
	return false;
}

/* Asks the database about some objects, and deletes those whose copies it has. */
static bool
look_at(Cleanup *cleanup, Arena *arena, const CleanupItem *items, size_t count)
{
	JsonText	texts[4][CLEANUP_BATCH];
	CleanupItem deleted[CLEANUP_BATCH];
	size_t		deleted_count = 0;
	PgParameter parameters[8];
	PgFailure	failure;
	PgRows	   *rows;

	if (count == 0)
		return true;
	for (size_t i = 0; i < count; i++)
	{
		texts[0][i] = items[i].namespace_name;
		texts[1][i] = items[i].name;
		texts[2][i] = items[i].uid;
		texts[3][i] = items[i].version;
	}
	report_store_name(cleanup->store, cleanup->kind, parameters);
	for (size_t i = 0; i < 4; i++)
		parameters[4 + i] = (PgParameter) {.items = texts[i], .count = count};
	rows = pg_session_query(cleanup->store->session, arena,
							"SELECT c.position, c.verdict, c.reason FROM kube_reports_internal.api_cleanup("
							REPORT_STORE_TYPE ", $5, $6, $7, $8) c", parameters, 8, &failure);
	if (rows == NULL)
	{
		progress_tell(&cleanup->progress, "the database cannot be queried: %s", failure.message);
		return false;
	}
	for (int row = 0; row < pg_rows_count(rows); row++)
	{
		const CleanupItem *item = &items[pg_rows_place(rows, row, 0, count)];

		cleanup->counts.found++;
		if (is_deletable(cleanup, arena, item, pg_rows_value(rows, row, 1), pg_rows_value(rows, row, 2)) &&
			cleanup->deletes &&
			delete_item(cleanup, arena, item))
			deleted[deleted_count++] = *item;
		progress_step(&cleanup->progress, cleanup->counts.found);
	}
	pg_rows_free(rows);
	forget_items(cleanup, arena, deleted, deleted_count);
	return true;
}

static JsonText
text_of(const JsonNode *object, const char *key)
{
	const JsonNode *value = json_get(object, key);

	return value != NULL && value->kind == JSON_KIND_STRING ? value->u.string : (JsonText) {"", 0};
}

static bool
look_at_page(Cleanup *cleanup, Arena *arena, const JsonNode *list)
{
	CleanupItem items[CLEANUP_BATCH];
	size_t		count = 0;

	for (size_t i = 0; list != NULL && i < list->u.array.count; i++)
	{
		const JsonNode *metadata = json_get(list->u.array.items[i], "metadata");

		items[count++] = (CleanupItem)
		{
			text_of(metadata, "namespace"), text_of(metadata, "name"), text_of(metadata, "uid"),
				text_of(metadata, "resourceVersion")
		};
		if (count == CLEANUP_BATCH)
		{
			if (!look_at(cleanup, arena, items, count))
				return false;
			count = 0;
		}
	}
	return look_at(cleanup, arena, items, count);
}

bool
cleanup_list(Cleanup *cleanup)
{
	CrdList		list = {
		.kube = cleanup->kube, .group = cleanup->kind->group, .version = cleanup->version,
		.resource = cleanup->kind->resource,
		.metadata_only = true, .page_size = cleanup->page_size
	};
	CrdStep		step = CRD_PAGE;
	bool		done = true;

	cleanup->counts = (CleanupCounts) {0};
	progress_begin(&cleanup->progress, cleanup->kind->name);
	while (done && step != CRD_LAST)
	{
		Arena		arena;
		const JsonNode *items;
		const char *why;
		int			status;

		arena_init(&arena);
		step = crd_list_next(&list, &arena, &items, &status, &why);
		cleanup->progress.total = list.total;
		if (step == CRD_FAILED)
			progress_tell(&cleanup->progress, "%s", why);
		if (step == CRD_RESTART)
		{
			size_t		deleted = cleanup->counts.deleted;

			cleanup->counts = (CleanupCounts) {.deleted = deleted};
		}
		done = step != CRD_FAILED && look_at_page(cleanup, &arena, items);
		arena_free(&arena);
	}
	crd_list_end(&list);
	return done;
}
