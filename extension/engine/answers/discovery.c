/*-------------------------------------------------------------------------
 *
 * discovery.c
 *	  Discovery, version and index documents; the set of all documents.
 *
 * Groups are sorted by name, versions by Kubernetes' order of priority, and
 * resources by name.  Equal definitions in any order give equal bytes, so
 * that an ETag changes only when a definition has changed.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/kube_version.h"
#include "engine/answers/discovery.h"
#include "engine/base/ascii.h"
#include "engine/base/base64.h"
#include "engine/answers/openapi.h"

#include <stdlib.h>
#include <string.h>

#define JSON_TYPE "application/json"
#define AGGREGATED_TYPE "application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList"
#define SWAGGER_PROTOBUF_TYPE "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

#define OBJECT_VERBS "[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]"
#define STATUS_VERBS "[\"get\",\"patch\",\"update\"]"

/* Paths that the proxy answers without the engine; the index contains them, too. */
static const char *const proxy_paths[] = {"/healthz", "/livez", "/metrics", "/readyz"};

#if defined(__x86_64__)
#define PLATFORM "linux/amd64"
#elif defined(__aarch64__)
#define PLATFORM "linux/arm64"
#else
#define PLATFORM "linux/unknown"
#endif

typedef struct Resource
{
	const char *group;
	const char *version;
	const char *plural;
	const char *singular;
	const char *kind;
	bool		namespaced;
	bool		status;
	bool		storage;
	const JsonNode *definition;
} Resource;

/* Resources first to last-1 of one group, or of one group and version. */
typedef struct Range
{
	const Resource *first;
	const Resource *last;
} Range;

typedef struct Builder
{
	Arena	   *arena;
	DocumentHash hash;
	Resource   *resources;		/* sorted */
	size_t		count;
	ServedDocument *documents;
	size_t		document_count;
	size_t		capacity;
} Builder;

/*
 * Sorting
 */

static int
compare_resources(const void *a, const void *b)
{
	const Resource *left = a;
	const Resource *right = b;
	int			order = strcmp(left->group, right->group);

	if (order == 0)
		order = version_priority_compare(left->version, right->version);
	return order != 0 ? order : strcmp(left->plural, right->plural);
}

/* The next run of resources of one group, with by_version of one group and version; false after the last. */
static bool
next_range(const Builder *builder, const Resource *end, bool by_version, Range *range)
{
	const Resource *first = range->last == NULL ? builder->resources : range->last;
	const Resource *last = first;

	if (end == NULL)
		end = builder->resources + builder->count;
	if (first >= end)
		return false;
	while (last < end && strcmp(last->group, first->group) == 0 &&
		   (!by_version || strcmp(last->version, first->version) == 0))
		last++;
	range->first = first;
	range->last = last;
	return true;
}

static bool
next_group(const Builder *builder, Range *group)
{
	return next_range(builder, NULL, false, group);
}

/* Set version->last = group->first before the first call. */
static bool
next_version(const Builder *builder, const Range *group, Range *version)
{
	return next_range(builder, group->last, true, version);
}

/*
 * Pieces of documents
 */

static void
put_string(StrBuf *buf, const char *string)
{
	json_write_string(buf, string, strlen(string));
}

/* Puts the text before (the key and what precedes it) and the value. */
static void
put_member(StrBuf *buf, const char *before, const char *value)
{
	strbuf_puts(buf, before);
	put_string(buf, value);
}

/* Puts an array of the definition unless it is empty. */
static void
put_names(StrBuf *buf, const Resource *resource, const char *key)
{
	const JsonNode *names = json_get(resource->definition, key);

	if (names == NULL || names->kind != JSON_KIND_ARRAY || names->u.array.count == 0)
		return;
	strbuf_printf(buf, ",\"%s\":", key);
	json_write(buf, names);
}

static void
add_document(Builder *builder, const char *path, const char *content_type, const StrBuf *body)
{
	ServedDocument *document;

	builder->documents = arena_grow(builder->arena, builder->documents, builder->document_count, sizeof(ServedDocument),
									&builder->capacity);
	document = &builder->documents[builder->document_count++];
	document->path = path;
	document->content_type = content_type;
	document->body = body->bytes;
	document->len = body->len;
	document->hash = builder->hash(builder->arena, body->bytes, body->len);
}

/*
 * Aggregated discovery
 */

static void
put_response_kind(StrBuf *buf, const Resource *resource)
{
	put_member(buf, ",\"responseKind\":{\"group\":", resource->group);
	put_member(buf, ",\"version\":", resource->version);
	put_member(buf, ",\"kind\":", resource->kind);
	strbuf_putc(buf, '}');
}

static void
put_resource_discovery(StrBuf *buf, const Resource *resource)
{
	put_member(buf, "{\"resource\":", resource->plural);
	put_response_kind(buf, resource);
	strbuf_printf(buf, ",\"scope\":\"%s\"", resource->namespaced ? "Namespaced" : "Cluster");
	put_member(buf, ",\"singularResource\":", resource->singular);
	strbuf_puts(buf, ",\"verbs\":" OBJECT_VERBS);
	put_names(buf, resource, "shortNames");
	put_names(buf, resource, "categories");
	if (resource->status)
	{
		strbuf_puts(buf, ",\"subresources\":[{\"subresource\":\"status\"");
		put_response_kind(buf, resource);
		strbuf_puts(buf, ",\"verbs\":" STATUS_VERBS "}]");
	}
	strbuf_putc(buf, '}');
}

static void
put_group_discovery(StrBuf *buf, const Builder *builder, const Range *group)
{
	Range		version = {.last = group->first};

	put_member(buf, "{\"metadata\":{\"name\":", group->first->group);
	strbuf_puts(buf, "},\"versions\":[");
	while (next_version(builder, group, &version))
	{
		put_member(buf, version.first == group->first ? "{\"version\":" : ",{\"version\":", version.first->version);
		strbuf_puts(buf, ",\"freshness\":\"Current\",\"resources\":[");
		for (const Resource *resource = version.first; resource < version.last; resource++)
		{
			if (resource > version.first)
				strbuf_putc(buf, ',');
			put_resource_discovery(buf, resource);
		}
		strbuf_puts(buf, "]}");
	}
	strbuf_puts(buf, "]}");
}

/* Adds the document of /apis (with_groups), or of /api, which has no groups on this server. */
static void
add_aggregated(Builder *builder, const char *path, bool with_groups)
{
	static const char *const versions[] = {"v2", "v2beta1"};

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
	{
		StrBuf		buf;
		Range		group = {NULL, NULL};

		strbuf_init(&buf, builder->arena);
		strbuf_printf(&buf, "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/%s\","
					  "\"metadata\":{},\"items\":[", versions[i]);
		if (!with_groups)
			strbuf_puts(&buf,
						"{\"metadata\":{\"name\":\"\"},\"versions\":[{\"version\":\"v1\",\"freshness\":\"Current\","
						"\"resources\":[]}]}");
		while (with_groups && next_group(builder, &group))
		{
			if (group.first > builder->resources)
				strbuf_putc(&buf, ',');
			put_group_discovery(&buf, builder, &group);
		}
		strbuf_puts(&buf, "]}\n");
		add_document(builder, path, arena_printf(builder->arena, AGGREGATED_TYPE, versions[i]), &buf);
	}
}

/*
 * Legacy discovery
 */

static void
put_group_version(StrBuf *buf, const Resource *resource)
{
	put_member(buf, "{\"groupVersion\":", arena_printf(buf->arena, "%s/%s", resource->group, resource->version));
	put_member(buf, ",\"version\":", resource->version);
	strbuf_putc(buf, '}');
}

/* Puts the members of a group and the closing brace, without the opening brace. */
static void
put_group(StrBuf *buf, const Builder *builder, const Range *group)
{
	Range		version = {.last = group->first};

	put_member(buf, "\"name\":", group->first->group);
	strbuf_puts(buf, ",\"versions\":[");
	while (next_version(builder, group, &version))
	{
		if (version.first > group->first)
			strbuf_putc(buf, ',');
		put_group_version(buf, version.first);
	}
	strbuf_puts(buf, "],\"preferredVersion\":");
	put_group_version(buf, group->first);
	strbuf_putc(buf, '}');
}

/* A hash of eight bytes, in base64, that identifies the version in which objects are stored. */
static char *
storage_version_hash(const Builder *builder, const Resource *resource)
{
	const Resource *stored = resource;
	const char *hash;
	char	   *name;
	char		bytes[8] = {0};

	for (size_t i = 0; i < builder->count; i++)
	{
		const Resource *other = &builder->resources[i];

		if (other->storage && strcmp(other->group, resource->group) == 0 &&
			strcmp(other->plural, resource->plural) == 0)
			stored = other;
	}
	name = arena_printf(builder->arena, "%s/%s/%s", stored->group, stored->version, stored->kind);
	hash = builder->hash(builder->arena, name, strlen(name));
	for (int i = 0; i < 8 && hash[2 * i] != '\0' && hash[2 * i + 1] != '\0'; i++)
		bytes[i] = (char) (hex_digit(hash[2 * i]) << 4 | hex_digit(hash[2 * i + 1]));
	return base64_encode(builder->arena, (JsonText) {bytes, sizeof(bytes)});
}

static void
put_resource(StrBuf *buf, const Builder *builder, const Resource *resource)
{
	put_member(buf, "{\"name\":", resource->plural);
	put_member(buf, ",\"singularName\":", resource->singular);
	strbuf_printf(buf, ",\"namespaced\":%s", resource->namespaced ? "true" : "false");
	put_member(buf, ",\"kind\":", resource->kind);
	strbuf_puts(buf, ",\"verbs\":" OBJECT_VERBS);
	put_names(buf, resource, "shortNames");
	put_names(buf, resource, "categories");
	put_member(buf, ",\"storageVersionHash\":", storage_version_hash(builder, resource));
	strbuf_putc(buf, '}');
	if (!resource->status)
		return;
	put_member(buf, ",{\"name\":", arena_printf(buf->arena, "%s/status", resource->plural));
	strbuf_printf(buf, ",\"singularName\":\"\",\"namespaced\":%s", resource->namespaced ? "true" : "false");
	put_member(buf, ",\"kind\":", resource->kind);
	strbuf_puts(buf, ",\"verbs\":" STATUS_VERBS "}");
}

static void
add_resource_list(Builder *builder, const Range *version)
{
	StrBuf		buf;
	const char *name = arena_printf(builder->arena, "%s/%s", version->first->group, version->first->version);

	strbuf_init(&buf, builder->arena);
	put_member(&buf, "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":", name);
	strbuf_puts(&buf, ",\"resources\":[");
	for (const Resource *resource = version->first; resource < version->last; resource++)
	{
		if (resource > version->first)
			strbuf_putc(&buf, ',');
		put_resource(&buf, builder, resource);
	}
	strbuf_puts(&buf, "]}\n");
	add_document(builder, arena_printf(builder->arena, "/apis/%s", name), JSON_TYPE, &buf);
}

static void
add_legacy_groups(Builder *builder)
{
	Range		group = {NULL, NULL};
	StrBuf		list;

	strbuf_init(&list, builder->arena);
	strbuf_puts(&list, "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[");
	while (next_group(builder, &group))
	{
		strbuf_puts(&list, group.first > builder->resources ? ",{" : "{");
		put_group(&list, builder, &group);
	}
	strbuf_puts(&list, "]}\n");
	add_document(builder, "/apis", JSON_TYPE, &list);
}

static void
add_each_group(Builder *builder)
{
	Range		group = {NULL, NULL};

	while (next_group(builder, &group))
	{
		Range		version = {.last = group.first};
		StrBuf		buf;

		arena_checkpoint();
		strbuf_init(&buf, builder->arena);
		strbuf_puts(&buf, "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",");
		put_group(&buf, builder, &group);
		strbuf_putc(&buf, '\n');
		add_document(builder, arena_printf(builder->arena, "/apis/%s", group.first->group), JSON_TYPE, &buf);
		while (next_version(builder, &group, &version))
			add_resource_list(builder, &version);
	}
}

/*
 * Other documents
 */

static void
add_version(Builder *builder)
{
	StrBuf		buf;

	/* No value depends on the build: two builds of the same source give the same document. */
	strbuf_init(&buf, builder->arena);
	strbuf_puts(&buf,
				"{\n"
				"  \"major\": \"" API_SERVER_MAJOR "\",\n"
				"  \"minor\": \"" API_SERVER_MINOR "\",\n"
				"  \"gitVersion\": \"" API_SERVER_VERSION "\",\n"
				"  \"gitCommit\": \"\",\n"
				"  \"gitTreeState\": \"clean\",\n"
				"  \"buildDate\": \"1970-01-01T00:00:00Z\",\n"
				"  \"goVersion\": \"\",\n"
				"  \"compiler\": \"gcc\",\n"
				"  \"platform\": \"" PLATFORM "\"\n"
				"}");
	add_document(builder, "/version", JSON_TYPE, &buf);
}

static void
add_core(Builder *builder)
{
	StrBuf		buf;

	/* The core group has no resources here, but kubectl needs its v1 for the kind List. */
	strbuf_init(&buf, builder->arena);
	strbuf_puts(&buf, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],\"serverAddressByClientCIDRs\":[]}\n");
	add_document(builder, "/api", JSON_TYPE, &buf);
	add_aggregated(builder, "/api", false);
	strbuf_init(&buf, builder->arena);
	strbuf_puts(&buf, "{\"kind\":\"APIResourceList\",\"groupVersion\":\"v1\",\"resources\":[]}\n");
	add_document(builder, "/api/v1", JSON_TYPE, &buf);
}

static void
add_openapi(Builder *builder)
{
	Arena	   *arena = builder->arena;
	const JsonNode **definitions = arena_alloc(arena, (builder->count + 1) * sizeof(JsonNode *));
	size_t		all = 0;
	Range		version = {NULL, NULL};
	JsonNode   *swagger;
	StrBuf		index;
	StrBuf		json;
	StrBuf		protobuf;

	strbuf_init(&index, arena);
	strbuf_puts(&index, "{\"paths\":{");
	while (next_range(builder, NULL, true, &version))
	{
		const Resource *first = version.first;
		const char *path = arena_printf(arena, "/openapi/v3/apis/%s/%s", first->group, first->version);
		size_t		start = all;
		StrBuf		buf;

		for (const Resource *resource = first; resource < version.last; resource++)
			definitions[all++] = resource->definition;
		strbuf_init(&buf, arena);
		openapi_v3_document(&buf, arena, definitions + start, all - start);
		add_document(builder, path, JSON_TYPE, &buf);

		put_member(&index, start > 0 ? "," : "", path + strlen("/openapi/v3/"));
		put_member(&index, ":{\"serverRelativeURL\":",
				   arena_printf(arena, "%s?hash=%s", path, builder->documents[builder->document_count - 1].hash));
		strbuf_putc(&index, '}');
	}
	strbuf_puts(&index, "}}");
	add_document(builder, "/openapi/v3", JSON_TYPE, &index);

	swagger = openapi_v2_build(arena, definitions, all);
	strbuf_init(&json, arena);
	json_write(&json, swagger);
	add_document(builder, "/openapi/v2", JSON_TYPE, &json);
	strbuf_init(&protobuf, arena);
	openapi_v2_protobuf(&protobuf, arena, swagger);
	add_document(builder, "/openapi/v2", SWAGGER_PROTOBUF_TYPE, &protobuf);
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* The paths of all other documents, each once. */
static void
add_index(Builder *builder)
{
	size_t		proxy_count = sizeof(proxy_paths) / sizeof(proxy_paths[0]);
	const char **paths = arena_alloc(builder->arena, (builder->document_count + proxy_count) * sizeof(char *));
	size_t		count = 0;
	StrBuf		buf;

	for (size_t i = 0; i < proxy_count; i++)
		paths[count++] = proxy_paths[i];
	for (size_t i = 0; i < builder->document_count; i++)
		paths[count++] = builder->documents[i].path;
	qsort(paths, count, sizeof(char *), compare_paths);

	strbuf_init(&buf, builder->arena);
	strbuf_puts(&buf, "{\n  \"paths\": [");
	for (size_t i = 0; i < count; i++)
	{
		if (i > 0 && strcmp(paths[i], paths[i - 1]) == 0)
			continue;
		put_member(&buf, i > 0 ? ",\n    " : "\n    ", paths[i]);
	}
	strbuf_puts(&buf, "\n  ]\n}");
	add_document(builder, "/", JSON_TYPE, &buf);
}

static const char *
definition_text(Arena *arena, const JsonNode *definition, const char *key)
{
	const char *text = json_get_cstring(arena, definition, key);

	return text != NULL ? text : "";
}

static bool
definition_flag(const JsonNode *definition, const char *key)
{
	const JsonNode *node = json_get(definition, key);

	return node != NULL && node->kind == JSON_KIND_BOOL && node->u.boolean;
}

ServedDocument *
served_documents(Arena *arena, const JsonNode *const *definitions, size_t count,
				 DocumentHash hash, size_t *document_count)
{
	Builder		builder = {.arena = arena, .hash = hash, .count = count};

	builder.resources = arena_alloc0(arena, (count + 1) * sizeof(Resource));
	for (size_t i = 0; i < count; i++)
	{
		Resource   *resource = &builder.resources[i];
		const JsonNode *definition = definitions[i];

		resource->group = definition_text(arena, definition, "group");
		resource->version = definition_text(arena, definition, "version");
		resource->plural = definition_text(arena, definition, "plural");
		resource->singular = definition_text(arena, definition, "singular");
		resource->kind = definition_text(arena, definition, "kind");
		resource->namespaced = json_string_is(json_get(definition, "scope"), "Namespaced");
		resource->status = definition_flag(definition, "status");
		resource->storage = definition_flag(definition, "storage");
		resource->definition = definition;
	}
	qsort(builder.resources, count, sizeof(Resource), compare_resources);

	add_legacy_groups(&builder);
	add_aggregated(&builder, "/apis", true);
	add_core(&builder);
	add_each_group(&builder);
	add_openapi(&builder);
	add_version(&builder);
	add_index(&builder);

	*document_count = builder.document_count;
	return builder.documents;
}
