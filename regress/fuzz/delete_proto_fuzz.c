/*-------------------------------------------------------------------------
 *
 * delete_proto_fuzz.c
 *	  Fuzz target: DeleteOptions in protobuf.
 *
 * The result of reading is an object that can be printed and parsed again.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "engine/api/delete_proto.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	Arena		arena;
	JsonNode   *options;
	const char *error;
	JsonError	json_error;
	StrBuf		text;

	arena_init(&arena);
	options = delete_options_read_proto(&arena, (const char *) bytes, size, &error);
	check(options != NULL || error != NULL);
	if (options != NULL)
	{
		strbuf_init(&text, &arena);
		json_write(&text, options);
		check(json_parse(&arena, text.bytes, text.len, NULL, NULL, &json_error) != NULL);
	}
	arena_free(&arena);
	return 0;
}
