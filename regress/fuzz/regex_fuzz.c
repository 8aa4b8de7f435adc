/*-------------------------------------------------------------------------
 *
 * regex_fuzz.c
 *	  Fuzz target: patterns of schemas, and texts searched with them.
 *
 * The input is an array of a pattern and a text, in JSON.  An invalid pattern
 * is refused with a reason.  A pattern gives the same answer for a text
 * twice, and an additional alternative never turns a match into a mismatch.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/base/regex.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	const char *error = NULL;
	const JsonNode *input;
	JsonText	pattern;
	JsonText	text;
	JsonError	json_error;
	Regex	   *regex;
	Arena		arena;

	arena_init(&arena);
	input = json_parse(&arena, (const char *) bytes, size, NULL, NULL, &json_error);
	if (input == NULL || input->kind != JSON_KIND_ARRAY || input->u.array.count != 2 ||
		input->u.array.items[0]->kind != JSON_KIND_STRING || input->u.array.items[1]->kind != JSON_KIND_STRING)
	{
		arena_free(&arena);
		return 0;
	}
	pattern = input->u.array.items[0]->u.string;
	text = input->u.array.items[1]->u.string;
	regex = regex_compile(&arena, pattern, &error);
	check((regex == NULL) == (error != NULL));
	if (regex != NULL)
	{
		bool		matches = regex_matches(regex, regex_scratch(&arena), text);
		const char *longer = arena_printf(&arena, "%.*s|x", (int) pattern.len, pattern.bytes);
		Regex	   *either;

		check(regex_matches(regex, regex_scratch(&arena), text) == matches);
		either = regex_compile(&arena, (JsonText) {longer, strlen(longer)}, &error);
		if (matches && either != NULL && strlen(longer) == pattern.len + 2)
			check(regex_matches(either, regex_scratch(&arena), text));
	}
	arena_free(&arena);
	return 0;
}
