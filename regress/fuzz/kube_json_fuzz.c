/*-------------------------------------------------------------------------
 *
 * kube_json_fuzz.c
 *	  Fuzz target: answers of kube-apiserver, and the texts that the proxy sends.
 *
 * The input is an answer.  jansson reads every document in UTF-8 that the engine
 * reads, except for lone surrogates; the value is written, and read again as the
 * same value.  Patches of an APIService have its version.  The input is also
 * taken as a text of any bytes, which becomes a string.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* Every target links the document engine, but none links the proxy's files.  These need jansson alone. */
#include "codec/kube_json.c"
#include "cluster/registration.c"

/* A value in the engine's canonical form, which does not tell 1 from 1.0. */
static JsonNode *
parsed(Arena *arena, const char *bytes, size_t len)
{
	JsonError	error;

	return json_parse(arena, bytes, len, NULL, NULL, &error);
}

static void
check_answer(Arena *arena, const char *bytes, size_t len)
{
	json_auto_t *json = kube_json_read(bytes, len);
	const JsonNode *document = parsed(arena, bytes, len);
	JsonText	written;
	json_auto_t *again = NULL;

	if (json == NULL)
	{
		json_auto_t *string = json_stringn(bytes, len);
		bool		surrogate = memmem(bytes, len, "\\ud", 3) != NULL || memmem(bytes, len, "\\uD", 3) != NULL;

		check(document == NULL || string == NULL || surrogate);
		return;
	}
	written = kube_json_write(arena, json_incref(json));
	again = kube_json_read(written.bytes, written.len);
	check(json_equal(json, again));
	if (document != NULL && memmem(bytes, len, "\\u0000", 6) == NULL)
		check(json_same(document, parsed(arena, written.bytes, written.len)));
}

static void
check_registration(Arena *arena, const char *bytes, size_t len)
{
	static const RegistrationWish wish = {{"ns", "name", 443}, "Q0E=", 0, 0};
	json_auto_t *document = kube_json_read(bytes, len);
	Registration registration;
	JsonText	patches[3];

	if (!registration_read(document, &registration))
		return;
	check(registration.service.port >= 0 && registration.service.port <= 65535);
	patches[0] = registration_take(arena, &registration, &wish);
	patches[1] = registration_trust(arena, &registration, wish.ca_bundle);
	patches[2] = registration_restore(arena, &registration, document);
	for (size_t i = 0; i < 3; i++)
	{
		json_auto_t *patch = kube_json_read(patches[i].bytes, patches[i].len);

		check(kube_json_is(kube_json_at(patch, "metadata", "resourceVersion", NULL), registration.resource_version));
	}
	check(registration_delete(arena, &registration).len > 0);
	check(registration_create(arena, "group", "v1", &wish).len > 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Arena		arena;
	const char *text;
	json_auto_t *string = NULL;

	arena_init(&arena);
	check_answer(&arena, (const char *) bytes, size);
	check_registration(&arena, (const char *) bytes, size);
	text = arena_strndup(&arena, (const char *) bytes, size);
	string = kube_json_string(text);
	check(json_is_string(string) && (json_string_length(string) >= strlen(text) || strstr(text, JSON_NUL) != NULL));
	arena_free(&arena);
	return 0;
}
