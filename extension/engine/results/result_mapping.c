/*-------------------------------------------------------------------------
 *
 * result_mapping.c
 *	  Compiles a mapping, which says where documents have their results.
 *
 * A mapping is an object.  Its members name columns.  The value of a column is
 * a path, an object {"path": ..., "map": {...}, "otherwise": ...} or
 * {"value": ...}, or a list of these; the first list element with a text
 * counts.  A path starts from the document ($), from the result (.) or from the
 * resource (@); the rest is a JSONPath as in printer columns.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/results/result_private.h"

#include <string.h>

/* Maximum length of a list in a mapping, because each element is evaluated for every result. */
#define MAX_ALTERNATIVES 64

typedef struct Compiler
{
	Arena	   *arena;
	FieldErrorList *errors;
	bool		resources;		/* paths may start with @ in this part of the mapping */
} Compiler;

static void
complain(Compiler *compiler, const FieldPath *at, const JsonNode *value, const char *why)
{
	field_error(compiler->errors, FIELD_INVALID, at, value, why);
}

/* Reports members of object that are not in names, which ends with NULL. */
static void
check_members(Compiler *compiler, const JsonNode *object, const FieldPath *at, const char *const *names)
{
	for (size_t i = 0; i < object->u.object.count; i++)
	{
		const JsonMember *member = &object->u.object.members[i];
		FieldPath	here = {at, member->key, -1, false};
		size_t		n = 0;

		while (names[n] != NULL && !json_text_is(member->key, names[n]))
			n++;
		if (names[n] == NULL)
			field_error(compiler->errors, FIELD_FORBIDDEN, &here, NULL, "mappings have no such member");
	}
}

static bool
compile_path(Compiler *compiler, const JsonNode *value, const FieldPath *at, ResultSource *source)
{
	const char *error = NULL;
	JsonText	text;

	if (value->kind != JSON_KIND_STRING || value->u.string.len == 0)
	{
		complain(compiler, at, value, "must be a path");
		return false;
	}
	text = value->u.string;
	switch (text.bytes[0])
	{
		case '$':
			source->scope = SCOPE_DOCUMENT;
			break;
		case '.':
			source->scope = SCOPE_RESULT;
			break;
		case '@':
			source->scope = SCOPE_RESOURCE;
			break;
		default:
			complain(compiler, at, value, "a path starts with $ (the document), . (the result) or @ (the resource)");
			return false;
	}
	if (source->scope == SCOPE_RESOURCE && !compiler->resources)
	{
		complain(compiler, at, value, "@ has a meaning beside \"each\" only");
		return false;
	}
	if (source->scope != SCOPE_RESULT)
	{
		text.bytes++;
		text.len--;
		if (text.len == 0)
			return true;
		if (text.bytes[0] != '.' && text.bytes[0] != '[')
		{
			complain(compiler, at, value, "a member begins with a dot");
			return false;
		}
	}
	source->path = jsonpath_compile(compiler->arena, arena_strndup(compiler->arena, text.bytes, text.len), &error);
	if (source->path == NULL)
		complain(compiler, at, value, error);
	return source->path != NULL;
}

static bool
compile_map(Compiler *compiler, const JsonNode *map, const FieldPath *at)
{
	bool		good = true;

	if (map->kind != JSON_KIND_OBJECT)
	{
		complain(compiler, at, map, "must be an object of words and what they stand for");
		return false;
	}
	for (size_t i = 0; i < map->u.object.count; i++)
	{
		FieldPath	here = {at, map->u.object.members[i].key, -1, true};

		if (map->u.object.members[i].value->kind != JSON_KIND_STRING)
		{
			complain(compiler, &here, map->u.object.members[i].value, "must be a string");
			good = false;
		}
	}
	return good;
}

static ResultSource *
compile_alternative(Compiler *compiler, const JsonNode *value, const FieldPath *at)
{
	static const char *const members[] = {"path", "map", "otherwise", "value", NULL};
	ResultSource *source = arena_alloc0(compiler->arena, sizeof(ResultSource));

	if (value->kind == JSON_KIND_OBJECT)
	{
		const JsonNode *path = json_get(value, "path");
		const JsonNode *constant = json_get(value, "value");
		const JsonNode *otherwise = json_get(value, "otherwise");
		FieldPath	otherwise_at = {at, {"otherwise", 9}, -1, false};
		FieldPath	path_at = {at, {"path", 4}, -1, false};
		FieldPath	map_at = {at, {"map", 3}, -1, false};
		FieldPath	value_at = {at, {"value", 5}, -1, false};

		check_members(compiler, value, at, members);
		source->map = json_get(value, "map");
		if ((path == NULL) == (constant == NULL))
			complain(compiler, at, value, "must have either a path or a value");
		else if (otherwise != NULL && source->map == NULL)
			complain(compiler, &otherwise_at, otherwise, "stands beside a map only");
		else if (otherwise != NULL && otherwise->kind != JSON_KIND_STRING)
			complain(compiler, &otherwise_at, otherwise, "must be a string");
		else if (source->map != NULL && !compile_map(compiler, source->map, &map_at))
			return NULL;
		else if (path != NULL)
		{
			source->otherwise = otherwise;
			return compile_path(compiler, path, &path_at, source) ? source : NULL;
		}
		else if (constant->kind != JSON_KIND_STRING)
			complain(compiler, &value_at, constant, "must be a string");
		else if (source->map != NULL)
			complain(compiler, &value_at, constant, "a value needs no map");
		else
		{
			source->constant = constant->u.string;
			return source;
		}
		return NULL;
	}
	return compile_path(compiler, value, at, source) ? source : NULL;
}

static ResultSource *
compile_source(Compiler *compiler, const JsonNode *value, const FieldPath *at)
{
	ResultSource *first = NULL;
	ResultSource **tail = &first;

	if (value->kind != JSON_KIND_ARRAY)
		return compile_alternative(compiler, value, at);
	if (value->u.array.count == 0 || value->u.array.count > MAX_ALTERNATIVES)
	{
		complain(compiler, at, NULL, "must have 1 to 64 elements");
		return NULL;
	}
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		FieldPath	here = {at, {NULL, 0}, (int64_t) i, false};

		*tail = compile_alternative(compiler, value->u.array.items[i], &here);
		if (*tail != NULL)
			tail = &(*tail)->next;
	}
	return first;
}

/* Compiles the source in a member; NULL without this member. */
static ResultSource *
compile_member(Compiler *compiler, const JsonNode *object, const FieldPath *at, const char *name)
{
	const JsonNode *value = json_get(object, name);
	FieldPath	here = {at, {name, strlen(name)}, -1, false};

	return value != NULL ? compile_source(compiler, value, &here) : NULL;
}

static bool
depends_on_result(const ResultSource *source)
{
	for (; source != NULL; source = source->next)
		if (source->scope == SCOPE_RESULT)
			return true;
	return false;
}

static SubjectSource *
compile_subject(Compiler *compiler, const JsonNode *value, const FieldPath *at)
{
	static const char *const members[] = {"each", "apiVersion", "kind", "namespace", "name", "uid", NULL};
	SubjectSource *subject = arena_alloc0(compiler->arena, sizeof(SubjectSource));

	if (value->kind != JSON_KIND_OBJECT)
	{
		complain(compiler, at, value, "must be an object");
		return NULL;
	}
	check_members(compiler, value, at, members);
	subject->each = compile_member(compiler, value, at, "each");
	compiler->resources = subject->each != NULL;
	subject->api_version = compile_member(compiler, value, at, "apiVersion");
	subject->kind = compile_member(compiler, value, at, "kind");
	subject->namespace_name = compile_member(compiler, value, at, "namespace");
	subject->name = compile_member(compiler, value, at, "name");
	subject->uid = compile_member(compiler, value, at, "uid");
	compiler->resources = false;
	if (json_get(value, "name") == NULL)
	{
		FieldPath	name_at = {at, {"name", 4}, -1, false};

		field_error(compiler->errors, FIELD_REQUIRED, &name_at, NULL, "a subject has a name");
	}
	subject->of_document = !depends_on_result(subject->each) && !depends_on_result(subject->api_version) &&
		!depends_on_result(subject->kind) && !depends_on_result(subject->namespace_name) &&
		!depends_on_result(subject->name) && !depends_on_result(subject->uid);
	return subject;
}

static SubjectSource *
compile_subjects(Compiler *compiler, const JsonNode *value)
{
	FieldPath	at = {NULL, {"subjects", 8}, -1, false};
	SubjectSource *first = NULL;
	SubjectSource **tail = &first;

	if (value == NULL)
		return NULL;
	if (value->kind != JSON_KIND_ARRAY || value->u.array.count > MAX_ALTERNATIVES)
	{
		complain(compiler, &at, value->kind == JSON_KIND_ARRAY ? NULL : value,
				 "must be a list of at most 64 ways to the subjects");
		return NULL;
	}
	for (size_t i = 0; i < value->u.array.count; i++)
	{
		FieldPath	here = {&at, {NULL, 0}, (int64_t) i, false};

		*tail = compile_subject(compiler, value->u.array.items[i], &here);
		if (*tail != NULL)
			tail = &(*tail)->next;
	}
	return first;
}

/*
 * A status that the mapping itself sets must be one of the five statuses: any other text would give all results the
 * status error.
 */
static void
check_status(Compiler *compiler, const JsonNode *value, const FieldPath *at)
{
	ResultStatus status;

	if (value != NULL && value->kind == JSON_KIND_STRING && !result_status_word(value->u.string, &status))
		field_error(compiler->errors, FIELD_NOT_SUPPORTED, at, value,
					"supported values: \"pass\", \"warn\", \"fail\", \"error\", \"skip\"");
}

static void
check_statuses(Compiler *compiler, const JsonNode *value, const FieldPath *at)
{
	const JsonNode *map = json_get(value, "map");
	FieldPath	value_at = {at, {"value", 5}, -1, false};
	FieldPath	map_at = {at, {"map", 3}, -1, false};
	FieldPath	otherwise_at = {at, {"otherwise", 9}, -1, false};

	check_status(compiler, json_get(value, "value"), &value_at);
	check_status(compiler, json_get(value, "otherwise"), &otherwise_at);
	for (size_t i = 0; map != NULL && map->kind == JSON_KIND_OBJECT && i < map->u.object.count; i++)
	{
		FieldPath	here = {&map_at, map->u.object.members[i].key, -1, true};

		check_status(compiler, map->u.object.members[i].value, &here);
	}
	for (size_t i = 0; value != NULL && value->kind == JSON_KIND_ARRAY && i < value->u.array.count; i++)
	{
		FieldPath	here = {at, {NULL, 0}, (int64_t) i, false};

		if (value->u.array.items[i]->kind == JSON_KIND_OBJECT)
			check_statuses(compiler, value->u.array.items[i], &here);
	}
}

static void
compile_properties(Compiler *compiler, const JsonNode *value, ResultMapping *mapping)
{
	FieldPath	at = {NULL, {"properties", 10}, -1, false};
	NamedSource **tail = &mapping->property;

	if (value == NULL)
		return;
	if (value->kind != JSON_KIND_OBJECT)
	{
		mapping->properties = compile_source(compiler, value, &at);
		return;
	}
	for (size_t i = 0; i < value->u.object.count; i++)
	{
		const JsonMember *member = &value->u.object.members[i];
		FieldPath	here = {&at, member->key, -1, true};
		NamedSource *named = arena_alloc0(compiler->arena, sizeof(NamedSource));

		named->name = member->key;
		named->source = compile_source(compiler, member->value, &here);
		*tail = named;
		tail = &named->next;
	}
}

ResultMapping *
result_mapping_compile(Arena *arena, const JsonNode *mapping, FieldErrorList *errors)
{
	static const char *const members[] = {"list", "source", "policy", "rule", "category", "severity", "status", "score",
	"message", "exceptions", "time", "key", "properties", "subjects", NULL};
	static const char *const required[] = {"list", "policy", "status"};
	Compiler	compiler = {.arena = arena, .errors = errors};
	FieldPath	status_at = {NULL, {"status", 6}, -1, false};
	ResultMapping *made = arena_alloc0(arena, sizeof(ResultMapping));
	size_t		before = errors->count;

	if (mapping->kind != JSON_KIND_OBJECT)
	{
		complain(&compiler, NULL, mapping, "must be an object");
		return NULL;
	}
	check_members(&compiler, mapping, NULL, members);
	for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++)
		if (json_get(mapping, required[i]) == NULL)
			field_error_at(errors, FIELD_REQUIRED, required[i], NULL,
						   "a mapping says where the results, their policies and their statuses stand");
	made->list = compile_member(&compiler, mapping, NULL, "list");
	if (depends_on_result(made->list))
		field_error_at(errors, FIELD_INVALID, "list", json_get(mapping, "list"),
					   "results stand in the document: the path starts with $");
	made->source = compile_member(&compiler, mapping, NULL, "source");
	made->policy = compile_member(&compiler, mapping, NULL, "policy");
	made->rule = compile_member(&compiler, mapping, NULL, "rule");
	made->category = compile_member(&compiler, mapping, NULL, "category");
	made->severity = compile_member(&compiler, mapping, NULL, "severity");
	made->status = compile_member(&compiler, mapping, NULL, "status");
	check_statuses(&compiler, json_get(mapping, "status"), &status_at);
	made->score = compile_member(&compiler, mapping, NULL, "score");
	made->message = compile_member(&compiler, mapping, NULL, "message");
	made->exceptions = compile_member(&compiler, mapping, NULL, "exceptions");
	made->time = compile_member(&compiler, mapping, NULL, "time");
	made->key = compile_member(&compiler, mapping, NULL, "key");
	compile_properties(&compiler, json_get(mapping, "properties"), made);
	made->subjects = compile_subjects(&compiler, json_get(mapping, "subjects"));
	return errors->count == before ? made : NULL;
}
