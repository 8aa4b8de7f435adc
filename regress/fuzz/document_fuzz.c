/*-------------------------------------------------------------------------
 *
 * document_fuzz.c
 *	  Fuzz target: incoming documents from any writer.
 *
 * The input is JSON.  It is tried as a document of every built-in type, and
 * of a type with embedded resources, in every way that document_admit()
 * knows, unchanged and with the type's own apiVersion and kind.  An admitted
 * document has metadata in the form that its readers require, is admitted
 * again unchanged, and is read back unchanged from storage.  A refused
 * document can be shown.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/writes/document_admit.h"
#include "engine/fields/field_owner.h"
#include "engine/api/metadata.h"
#include "engine/results/summary.h"

/* The built-in types, as the extension installs them; the compiler runs at the top of the tree. */
#define INCLUDE_CRD(symbol, name) \
	__asm__(".section .rodata\n" #symbol ": .incbin \"sql/crds/" name ".json\"\n.byte 0\n.previous\n"); \
	extern const char symbol[]

INCLUDE_CRD(crd_policyreports, "policyreports.wgpolicyk8s.io");
INCLUDE_CRD(crd_clusterpolicyreports, "clusterpolicyreports.wgpolicyk8s.io");
INCLUDE_CRD(crd_reports, "reports.openreports.io");
INCLUDE_CRD(crd_clusterreports, "clusterreports.openreports.io");
INCLUDE_CRD(crd_ephemeralreports, "ephemeralreports.reports.kyverno.io");
INCLUDE_CRD(crd_clusterephemeralreports, "clusterephemeralreports.reports.kyverno.io");
INCLUDE_CRD(crd_admissionreports, "admissionreports.kyverno.io");
INCLUDE_CRD(crd_clusteradmissionreports, "clusteradmissionreports.kyverno.io");
INCLUDE_CRD(crd_backgroundscanreports, "backgroundscanreports.kyverno.io");
INCLUDE_CRD(crd_clusterbackgroundscanreports, "clusterbackgroundscanreports.kyverno.io");

/* A type with features that the built-in types lack: embedded resources, a status, defaults, nullable fields. */
static const char crd_widgets[] =
"{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
"\"metadata\":{\"name\":\"widgets.example.com\"},"
"\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"widgets\",\"kind\":\"Widget\"},"
"\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},"
"\"schema\":{\"openAPIV3Schema\":{"
"\"type\":\"object\",\"properties\":{"
"\"template\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,"
"\"x-kubernetes-preserve-unknown-fields\":true,"
"\"default\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"made\",\"labels\":{\"a\":\"b\"}}}},"
"\"templates\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,"
"\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{\"size\":{\"type\":\"integer\",\"default\":3}}}}}},"
"\"byName\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,"
"\"x-kubernetes-preserve-unknown-fields\":true}},"
"\"spec\":{\"type\":\"object\",\"default\":{},\"properties\":{\"mode\":{\"type\":\"string\",\"default\":\"auto\"},"
"\"note\":{\"type\":\"string\",\"nullable\":true},\"plain\":{\"type\":\"string\"},"
"\"port\":{\"x-kubernetes-int-or-string\":true},"
"\"parts\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"id\"],"
"\"items\":{\"type\":\"object\",\"required\":[\"id\"],\"properties\":{"
"\"id\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\",\"nullable\":true,\"default\":1}}}}}},"
"\"status\":{\"type\":\"object\",\"properties\":{\"phase\":{\"type\":\"string\"}}}}}}}]}}";

static const char *const crds[] = {
	crd_policyreports, crd_clusterpolicyreports, crd_reports, crd_clusterreports, crd_ephemeralreports,
	crd_clusterephemeralreports, crd_admissionreports, crd_clusteradmissionreports, crd_backgroundscanreports,
	crd_clusterbackgroundscanreports, crd_widgets
};

#define TYPES (sizeof(crds) / sizeof(crds[0]))

static Definition *definitions[TYPES];

/* Compiles the definitions once for all inputs. */
static void
compile_definitions(void)
{
	static Arena arena;

	if (definitions[0] != NULL)
		return;
	arena_init(&arena);
	for (size_t i = 0; i < TYPES; i++)
	{
		FieldErrorList errors;
		JsonError	error;
		JsonNode   *made;

		field_errors_init(&errors, &arena);
		made = crd_definitions(&arena, json_parse(&arena, crds[i], strlen(crds[i]), NULL, NULL, &error), &errors);
		check(made != NULL);
		definitions[i] = definition_compile(&arena, json_get(made, "versions")->u.array.items[0]);
		check(definitions[i] != NULL && definitions[i]->schema != NULL);
	}
}

static void
count_dropped(void *state, const char *path)
{
	check(path != NULL);
	(*(size_t *) state)++;
}

static JsonText
print(Arena *arena, const JsonNode *node)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	json_write(&buf, node);
	return (JsonText) {buf.bytes, buf.len};
}

/* Checks for a non-empty string: readers of metadata treat an empty one as absent. */
static void
check_string(const JsonNode *node)
{
	check(node->kind == JSON_KIND_STRING && node->u.string.len > 0);
}

/* Checks the form that readers of metadata require (metadata.h). */
static void
check_shape(const JsonNode *metadata)
{
	static const char *const strings[] = {"generateName", "name", "namespace", "resourceVersion", "uid"};
	static const char *const times[] = {"creationTimestamp", "deletionTimestamp"};
	static const char *const integers[] = {"deletionGracePeriodSeconds", "generation"};
	static const char *const maps[] = {"annotations", "labels"};
	static const char *const lists[] = {"finalizers", "managedFields", "ownerReferences"};
	static const char *const owner_strings[] = {"apiVersion", "kind", "name", "uid"};
	const JsonNode *node;
	size_t		known = 0;
	int64_t		seconds;

	check(metadata->kind == JSON_KIND_OBJECT);
	for (size_t i = 0; i < 5; i++)
		if ((node = json_get(metadata, strings[i])) != NULL && ++known)
			check_string(node);
	for (size_t i = 0; i < 2; i++)
		if ((node = json_get(metadata, times[i])) != NULL && ++known)
			check(node->kind == JSON_KIND_STRING && parse_time(node->u.string, &seconds));
	for (size_t i = 0; i < 2; i++)
		if ((node = json_get(metadata, integers[i])) != NULL && ++known)
			check(node->kind == JSON_KIND_INTEGER);
	for (size_t i = 0; i < 2; i++)
	{
		if ((node = json_get(metadata, maps[i])) == NULL)
			continue;
		known++;
		check(node->kind == JSON_KIND_OBJECT && node->u.object.count > 0);
		for (size_t m = 0; m < node->u.object.count; m++)
			check(node->u.object.members[m].value->kind == JSON_KIND_STRING);
	}
	for (size_t i = 0; i < 3; i++)
	{
		if ((node = json_get(metadata, lists[i])) == NULL)
			continue;
		known++;
		check(node->kind == JSON_KIND_ARRAY && (node->u.array.count > 0 || i == 1));
		for (size_t n = 0; n < node->u.array.count; n++)
		{
			const JsonNode *item = node->u.array.items[n];

			check(item->kind == (i == 0 ? JSON_KIND_STRING : JSON_KIND_OBJECT));
			for (size_t k = 0; k < 4 && i == 2; k++)
				check(json_get(item, owner_strings[k])->kind == JSON_KIND_STRING);
			for (size_t m = 0; i > 0 && m < item->u.object.count; m++)
				check(item->u.object.members[m].value->kind != JSON_KIND_NULL ||
					  json_text_is(item->u.object.members[m].key, "fieldsV1"));
		}
	}
	check(known == metadata->u.object.count);
}

static void
check_same_errors(const FieldErrorList *errors, const FieldErrorList *again)
{
	check(errors->count == again->count);
	for (size_t i = 0; i < errors->count; i++)
		check(strcmp(errors->errors[i].message, again->errors[i].message) == 0);
}

/* Calls every function that reads metadata, and writes the metadata again. */
static void
read_metadata(Arena *arena, const Definition *definition, JsonNode *document)
{
	FieldWrite	write = {
		.arena = arena, .type = field_type_of_object(definition->schema), .api_version = definition->api_version,
		.owner = "fuzz", .subresource = "", .status_subresource = definition->status_subresource, .now = 1
	};
	JsonNode   *metadata = json_get(document, "metadata");
	JsonText   *added;

	(void) metadata_new_finalizers(arena, metadata, NULL, &added);
	check(metadata_new_finalizers(arena, metadata, metadata, &added) == 0);
	metadata_dedup_owners(arena, metadata, json_new_array(arena));
	(void) field_owners_are_sound(arena, json_get(metadata, "managedFields"));
	field_owner_update(&write, document, NULL);
	check_shape(metadata);
	summary_fill(arena, document);
}

/* Checks that the stored document equals the admitted one. */
static void
check_stored(Arena *arena, const Definition *definition, const JsonNode *document)
{
	JsonText	body = print(arena, document_body(arena, document));
	JsonNode   *stored = document_read_stored(arena, definition, print(arena, json_get(document, "metadata")), &body);

	check(stored != NULL && json_same(stored, document));
	check(document_read_stored(arena, definition, print(arena, json_get(document, "metadata")), NULL) != NULL);
}

static void
check_unchanged(Arena *arena, const Definition *definition, const JsonNode *document, DocumentAdmission admission)
{
	JsonNode   *again = json_clone(arena, document);
	DocumentRefusal refusal;
	size_t		dropped = 0;

	admission.unknown = count_dropped;
	admission.state = &dropped;
	check(document_admit(arena, definition, again, &admission, &refusal));
	check(dropped == 0 && json_same(again, document));
}

static void
try_document(Arena *arena, const Definition *definition, JsonNode *document, const DocumentAdmission *admission)
{
	DocumentAdmission plain = *admission;
	DocumentRefusal refusal;
	FieldErrorList errors;
	FieldErrorList again;
	JsonNode   *metadata;

	if (!document_admit(arena, definition, document, admission, &refusal))
	{
		JsonText	text = print(arena, document);
		JsonError	error;

		check(refusal.message != NULL && refusal.errors.count == 1);
		check(json_parse(arena, text.bytes, text.len, NULL, NULL, &error) != NULL);
		return;
	}
	check_unchanged(arena, definition, document, *admission);
	metadata = json_get(document, "metadata");
	check(metadata != NULL || admission->metadata_optional);
	if (metadata != NULL)
		check_shape(metadata);

	field_errors_init(&errors, arena);
	document_validate(arena, definition, document, NULL, &errors);
	field_errors_init(&again, arena);
	document_validate(arena, definition, json_clone(arena, document), NULL, &again);
	check_same_errors(&errors, &again);
	check(errors.count > 0 || document_is_of(definition, document));
	if (errors.count == 0 && admission->applied)
	{
		document_settle_applied(arena, definition, document);
		plain.applied = false;
		check_unchanged(arena, definition, document, plain);
	}
	if (metadata == NULL)
		return;

	/* If a create is valid, so is an update to itself.  Only a create checks the name. */
	field_errors_init(&again, arena);
	document_validate(arena, definition, document, metadata, &again);
	check(errors.count > 0 || again.count == 0);
	if (errors.count == 0)
		check_stored(arena, definition, document);
	read_metadata(arena, definition, document);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	compile_definitions();
	for (size_t i = 0; i < TYPES; i++)
	{
		for (unsigned int way = 0; way < 16; way++)
		{
			size_t		dropped = 0;
			DocumentAdmission admission = {
				.unknown = way & 1 ? count_dropped : NULL, .state = &dropped,
				.metadata_optional = (way & 2) != 0, .applied = (way & 4) != 0
			};
			Arena		arena;
			JsonError	error;
			JsonNode   *document;

			arena_init(&arena);
			document = json_parse(&arena, (const char *) bytes, size, NULL, NULL, &error);
			if (document != NULL && document->kind == JSON_KIND_OBJECT)
			{
				if (way & 8)
				{
					json_set(&arena, document, "apiVersion", json_new_cstring(&arena, definitions[i]->api_version));
					json_set(&arena, document, "kind", json_new_cstring(&arena, definitions[i]->kind));
				}
				try_document(&arena, definitions[i], document, &admission);
			}
			arena_free(&arena);
		}
	}
	return 0;
}
