/*-------------------------------------------------------------------------
 *
 * message_fuzz.c
 *	  Fuzz target: messages of gRPC senders.
 *
 * The first byte chooses the message; for a single result, a second one says
 * how many of the following bytes are a pair of the call's metadata.  A
 * message becomes a JSON document, the same one each time, or a status that
 * names the cause.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* As in route_fuzz.c, but this file needs libprotobuf-c and the messages. */
#include "grpc/document.c"

static bool
document_of(Arena *arena, unsigned kind, const char *bytes, size_t size, JsonText *document, CallStatus *status)
{
	DocumentBatch named;
	DocumentPair pair = {{"key", 3}, {bytes, 0}, 0};

	if (kind == 1)
		return document_of_batch(arena, (JsonText) {bytes, size}, document, &named, status);
	if (kind == 2)
		return document_of_evidence(arena, (JsonText) {bytes, size}, document, status);
	if (size > 0)
	{
		pair.value.len = (unsigned char) bytes[0] < size ? (unsigned char) bytes[0] : size - 1;
		pair.value.bytes = bytes + 1;
		bytes += 1 + pair.value.len;
		size -= 1 + pair.value.len;
	}
	return document_of_result(arena, (JsonText) {bytes, size}, &pair, 1, document, status);
}

/* The names of fields that the database finds wrong: any text. */
static void
check_fields(Arena *arena, const char *pointer)
{
	size_t		len = strlen(pointer);

	check(strlen(document_batch_field(arena, pointer)) <= 3 * len + sizeof("application_state"));
	check(strlen(document_evidence_field(arena, pointer)) <= 3 * len + sizeof("application_state"));
	check(strlen(document_result_field(arena, pointer)) <= len + sizeof("extra[\"scan\"]"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	unsigned	kind = size > 0 ? bytes[0] & 3 : 0;
	const char *rest = (const char *) bytes + 1;
	CallStatus	status = {0};
	CallStatus	again_status = {0};
	JsonText	document;
	JsonText	again;
	JsonError	error;
	Arena		arena;
	bool		accepted;

	if (size == 0)
		return 0;
	arena_init(&arena);
	accepted = document_of(&arena, kind, rest, size - 1, &document, &status);
	check(document_of(&arena, kind, rest, size - 1, &again, &again_status) == accepted);
	if (accepted)
	{
		check(document.len == again.len && memcmp(document.bytes, again.bytes, again.len) == 0);
		check(json_parse(&arena, document.bytes, document.len, NULL, NULL, &error) != NULL);
		check(status.code == STATUS_OK);
	}
	else
		check(status.code != STATUS_OK && status.message != NULL && status.code == again_status.code);
	check_fields(&arena, arena_strndup(&arena, rest, size - 1));
	arena_free(&arena);
	return 0;
}
