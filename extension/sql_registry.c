/*-------------------------------------------------------------------------
 *
 * sql_registry.c
 *	  SQL functions over definitions: registering, discovery, checking.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "engine/answers/discovery.h"
#include "engine/api/metadata.h"
#include "engine/writes/document_admit.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(sql_crd_definitions);
PG_FUNCTION_INFO_V1(sql_served_documents);
PG_FUNCTION_INFO_V1(sql_check_document);

Datum
sql_crd_definitions(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	Arena		arena;
	FieldErrorList errors;
	JsonNode   *crd;
	JsonNode   *definitions;
	const char *name;
	Datum		result;

	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	field_errors_init(&errors, &arena);
	crd = parse_document(&arena, datum_text(PG_GETARG_DATUM(0)));
	definitions = crd_definitions(&arena, crd, &errors);
	if (definitions == NULL)
	{
		name = json_get_cstring(&arena, json_get(crd, "metadata"), "name");
		raise_invalid(&arena, "CustomResourceDefinition", "apiextensions.k8s.io", name != NULL ? name : "", &errors);
	}
	result = DirectFunctionCall1(jsonb_in, CStringGetDatum(text_to_cstring(text_value_of_json(&arena, definitions))));
	arena_free(&arena);
	PG_RETURN_DATUM(result);
}

static char *
document_hash(Arena *arena, const char *bytes, size_t len)
{
	static const char digits[] = "0123456789ABCDEF";
	uint8		digest[PG_SHA512_DIGEST_LENGTH];
	pg_cryptohash_ctx *context = pg_cryptohash_create(PG_SHA512);
	char	   *text = arena_alloc(arena, 2 * sizeof(digest) + 1);

	if (context == NULL || pg_cryptohash_init(context) < 0 ||
		pg_cryptohash_update(context, (const uint8 *) bytes, len) < 0 ||
		pg_cryptohash_final(context, digest, sizeof(digest)) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute a SHA-512 hash")));
	pg_cryptohash_free(context);
	for (size_t i = 0; i < sizeof(digest); i++)
	{
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[2 * sizeof(digest)] = '\0';
	return text;
}

Datum
sql_served_documents(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Arena		arena;
	Datum	   *elements;
	int			element_count;
	const JsonNode **definitions;
	ServedDocument *documents;
	size_t		document_count;

	InitMaterializedSRF(fcinfo, 0);
	arena_init_for(&arena, argument_bytes(fcinfo, 0, -1));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), ARR_ELEMTYPE(PG_GETARG_ARRAYTYPE_P(0)), -1, false, TYPALIGN_INT,
					  &elements, NULL, &element_count);
	definitions = arena_alloc(&arena, sizeof(JsonNode *) * (element_count + 1));
	for (int i = 0; i < element_count; i++)
		definitions[i] = parse_definition(&arena, elements[i]);
	documents = served_documents(&arena, definitions, element_count, document_hash, &document_count);
	for (size_t i = 0; i < document_count; i++)
	{
		Datum		values[] = {
			CStringGetTextDatum(documents[i].path),
			CStringGetTextDatum(documents[i].content_type),
			CStringGetTextDatum(arena_printf(&arena, "\"%s\"", documents[i].hash)),
			PointerGetDatum(text_value(documents[i].body, documents[i].len))
		};
		bool		nulls[] = {false, false, false, false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	arena_free(&arena);
	return (Datum) 0;
}

/* Runs the checks of a create that need only the document. */
Datum
sql_check_document(PG_FUNCTION_ARGS)
{
	require_all_arguments(fcinfo);

	/* The document may be part of a manifest, without metadata. */
	static const DocumentAdmission admission = {.metadata_optional = true};
	static const uint8_t no_chance[5] = {0};
	const Definition *definition = definition_lookup(PG_GETARG_INT64(0), PG_GETARG_DATUM(1));
	Arena		arena;
	DocumentRefusal refusal;
	FieldErrorList errors;
	JsonNode   *document;
	JsonNode   *metadata;
	const char *name;
	const char *prefix;

	arena_init_for(&arena, argument_bytes(fcinfo, 2, -1));
	field_errors_init(&errors, &arena);
	document = parse_document(&arena, datum_text(PG_GETARG_DATUM(2)));
	name = json_get_cstring(&arena, json_get(document, "metadata"), "name");
	if (document_admit(&arena, definition, document, &admission, &refusal))
	{
		metadata = json_get(document, "metadata");
		/* A manifest may omit the namespace, and have generateName in place of a name. */
		if (metadata != NULL && definition->namespaced && json_get(metadata, "namespace") == NULL)
			json_set(&arena, metadata, "namespace", json_new_cstring(&arena, "default"));
		prefix = json_get_cstring(&arena, metadata, "generateName");
		if (prefix != NULL && json_get(metadata, "name") == NULL)
			json_set(&arena, metadata, "name", json_new_cstring(&arena,
																metadata_generate_name(&arena, prefix, no_chance)));
		document_validate(&arena, definition, document, NULL, &errors);
	}
	else
		errors = refusal.errors;
	if (errors.count > 0)
		raise_invalid(&arena, definition->kind, definition->group, name != NULL ? name : "", &errors);
	arena_free(&arena);
	PG_RETURN_BOOL(true);
}
