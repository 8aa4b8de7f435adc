/*-------------------------------------------------------------------------
 *
 * crd_source.c
 *	  CustomResourceDefinitions from files and from kube-apiserver, for register.
 *
 * Operators ship their CRDs as YAML: a file for each CRD, or one file with
 * many documents, among them Deployments and roles.  As for kubectl, a line
 * that
 * begins with "---" separates documents.
 *
 *-------------------------------------------------------------------------
 */
#include "commands/crd_source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "codec/yaml_text.h"
#include "commands/command.h"
#include "commands/crds.h"
#include "cluster/transfer.h"

/* A file may have all CRDs and other objects of an operator; a CRD is smaller than the limit of etcd for an object. */
#define FILE_LIMIT ((size_t) 64 * 1024 * 1024)
#define CRD_LIMIT ((size_t) 16 * 1024 * 1024)
#define COLLECTION "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

static NameList
served_versions(Arena *arena, const JsonNode *crd)
{
	const JsonNode *versions = json_path(crd, "spec", "versions", NULL);
	NameList	served = {NULL, 0};
	size_t		capacity = 0;

	for (size_t i = 0; versions != NULL && versions->kind == JSON_KIND_ARRAY && i < versions->u.array.count; i++)
	{
		const JsonNode *is_served = json_get(versions->u.array.items[i], "served");
		const char *name = json_get_cstring(arena, versions->u.array.items[i], "name");

		if (name == NULL || is_served == NULL || is_served->kind != JSON_KIND_BOOL || !is_served->u.boolean)
			continue;
		served.names = arena_grow(arena, served.names, served.count, sizeof(*served.names), &capacity);
		served.names[served.count++] = name;
	}
	return served;
}

static bool
add_crd(CrdSet *set, Arena *arena, const JsonNode *crd, const char *origin, const char *group)
{
	const char *name = json_get_cstring(arena, json_get(crd, "metadata"), "name");
	const char *own_group = json_get_cstring(arena, json_get(crd, "spec"), "group");
	CrdText		added = {.name = name, .group = own_group, .origin = origin};
	StrBuf		buf;

	if (name == NULL || own_group == NULL)
	{
		command_error("%s: a CustomResourceDefinition has no metadata.name or no spec.group", origin);
		return false;
	}
	if (group != NULL && strcmp(group, own_group) != 0)
		return true;
	strbuf_init(&buf, arena);
	json_write(&buf, crd);
	added.text = (JsonText) {strbuf_finish(&buf), buf.len};
	added.versions = served_versions(arena, crd);
	for (size_t i = 0; i < set->count; i++)
	{
		const CrdText *other = &set->crds[i];

		if (strcmp(other->name, name) != 0)
			continue;
		if (other->text.len == added.text.len && memcmp(other->text.bytes, added.text.bytes, added.text.len) == 0)
			return true;
		command_error("two different CustomResourceDefinitions %s: in %s and in %s", name, other->origin, origin);
		return false;
	}
	set->crds = arena_grow(arena, set->crds, set->count, sizeof(*set->crds), &set->capacity);
	set->crds[set->count++] = added;
	return true;
}

/* Adds a document if it is a CustomResourceDefinition; if it is a list, adds the CustomResourceDefinitions in it. */
static bool
add_document(CrdSet *set, Arena *arena, const JsonNode *document, const char *origin, const char *group)
{
	const JsonNode *items = json_get(document, "items");
	const char *kind = json_get_cstring(arena, document, "kind");
	size_t		len = kind == NULL ? 0 : strlen(kind);

	if (kind != NULL && strcmp(kind, "CustomResourceDefinition") == 0)
		return add_crd(set, arena, document, origin, group);
	if (len < 4 || strcmp(kind + len - 4, "List") != 0 || items == NULL || items->kind != JSON_KIND_ARRAY)
		return true;
	for (size_t i = 0; i < items->u.array.count; i++)
	{
		if (json_string_is(json_get(items->u.array.items[i], "kind"), "CustomResourceDefinition") &&
			!add_crd(set, arena, items->u.array.items[i], origin, group))
			return false;
	}
	return true;
}

/* ---------- files ---------- */

static bool
add_json(CrdSet *set, Arena *arena, JsonText text, const char *origin, const char *group)
{
	JsonError	error;
	const JsonNode *document = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);

	if (document != NULL)
		return add_document(set, arena, document, origin, group);
	command_error("%s: %s", origin, error.message);
	return false;
}

static bool
add_yaml(CrdSet *set, Arena *arena, JsonText text, const char *origin, const char *group)
{
	const char *why = "";
	StrBuf		json;

	strbuf_init(&json, arena);
	if (yaml_to_json(arena, text.bytes, text.len, CRD_LIMIT, &json, NULL, &why))
		return add_json(set, arena, (JsonText) {json.bytes, json.len}, origin, group);
	command_error("%s: %s", origin, why);
	return false;
}

/* Returns the length of the first document of a text; *skip: the length of the separator after it. */
static size_t
document_length(const char *bytes, size_t len, size_t *skip)
{
	for (size_t at = 0; at < len;)
	{
		const char *end = memchr(bytes + at, '\n', len - at);
		size_t		line = end == NULL ? len - at : (size_t) (end - bytes) - at + 1;

		if (line >= 3 && memcmp(bytes + at, "---", 3) == 0)
		{
			*skip = line;
			return at;
		}
		at += line;
	}
	*skip = 0;
	return len;
}

static bool
add_file(CrdSet *set, Arena *arena, const char *path, const char *group)
{
	const char *origin = strcmp(path, "-") == 0 ? "standard input" : path;
	const char *why = "";
	JsonText	text;

	if (!file_read(arena, strcmp(path, "-") == 0 ? "/dev/stdin" : path, FILE_LIMIT, &text, &why))
	{
		command_error("%s: %s", origin, why);
		return false;
	}
	if (text.bytes[strspn(text.bytes, " \t\r\n")] == '{')
		return add_json(set, arena, text, origin, group);
	while (text.len > 0)
	{
		size_t		skip;
		size_t		len = document_length(text.bytes, text.len, &skip);

		/* Only documents that may be CRDs are read: templates in the same file may not be YAML. */
		if (len > 0 && memmem(text.bytes, len, "CustomResourceDefinition", 24) != NULL &&
			!add_yaml(set, arena, (JsonText) {text.bytes, len}, origin, group))
			return false;
		text.bytes += len + skip;
		text.len -= len + skip;
	}
	return true;
}

static int
is_manifest(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && dot != NULL &&
		(strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0);
}

static bool
add_directory(CrdSet *set, Arena *arena, const char *path, const char *group)
{
	struct dirent **entries;
	int			count = scandir(path, &entries, is_manifest, alphasort);
	bool		good = true;

	if (count < 0)
	{
		command_error("%s: %s", path, strerror(errno));
		return false;
	}
	for (int i = 0; i < count; i++)
	{
		good = good && add_file(set, arena, arena_printf(arena, "%s/%s", path, entries[i]->d_name), group);
		free(entries[i]);
	}
	free(entries);
	return good;
}

bool
crd_set_add_path(CrdSet *set, Arena *arena, const char *path, const char *group)
{
	struct stat status;

	if (strcmp(path, "-") == 0)
		return add_file(set, arena, path, group);
	if (stat(path, &status) != 0)
	{
		command_error("%s: %s", path, strerror(errno));
		return false;
	}
	return S_ISDIR(status.st_mode) ? add_directory(set, arena, path, group) : add_file(set, arena, path, group);
}

/* ---------- kube-apiserver ---------- */

bool
crd_set_add_group(CrdSet *set, Arena *arena, Asker *kube, const char *group)
{
	const char *why = "";
	NameList	names;

	if (!crds_list(kube, arena, &names, &why))
	{
		command_error("the CustomResourceDefinitions of the cluster cannot be listed: %s", why);
		return false;
	}
	for (size_t i = 0; i < names.count; i++)
	{
		const char *dot = strchr(names.names[i], '.');
		Ask			question = {.answer_limit = CRD_LIMIT};
		Answer		answer;

		if (dot == NULL || strcmp(dot + 1, group) != 0)
			continue;
		question.path = arena_printf(arena, COLLECTION "/%s", transfer_escape(arena, names.names[i]));
		answer = ask(kube, arena, &question);
		if (answer.why != NULL)
		{
			command_error("CustomResourceDefinition %s: %s", names.names[i], answer.why);
			return false;
		}
		if (!add_json(set, arena, answer.body, asker_server(kube), group))
			return false;
	}
	return true;
}
