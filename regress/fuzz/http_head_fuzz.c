/*-------------------------------------------------------------------------
 *
 * http_head_fuzz.c
 *	  Fuzz target: request heads of HTTP/1.
 *
 * The outcome does not depend on how the bytes are split into pieces.  A
 * complete head is checked against a plain reading of its lines.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

/* Every target links the document engine, but none links the proxy's files.  This one needs no library. */
#include "http/http_head.c"

/* Longer inputs are not tried at every byte. */
#define EVERY_BYTE 600
#define PIECE 251

static bool
is_inside(HttpText text, const char *bytes, size_t len)
{
	return text.bytes == NULL || (text.bytes >= bytes && text.bytes + text.len <= bytes + len);
}

static bool
same_text(HttpText left, HttpText right)
{
	return left.bytes == right.bytes && left.len == right.len;
}

static void
check_text(HttpText text)
{
	for (size_t i = 0; i < text.len; i++)
		check((unsigned char) text.bytes[i] >= 0x20 || text.bytes[i] == '\t');
}

/* Checks that an accepted head has nothing that another reader could take differently. */
static void
check_lines(const HttpHead *head)
{
	HttpText	lines = head->lines;
	HttpField	field;
	size_t		count = 0;
	size_t		lengths = 0;
	size_t		codings = 0;

	while (http_head_next(&lines, &field))
	{
		count++;
		check(field.name.len > 0);
		for (size_t i = 0; i < field.name.len; i++)
			check(field.name.bytes[i] > ' ' && field.name.bytes[i] < 0x7f && field.name.bytes[i] != ':');
		check_text(field.value);
		check(field.value.len == 0 || (!is_blank(field.value.bytes[0]) &&
									   !is_blank(field.value.bytes[field.value.len - 1])));
		if (is_named(field.name, "content-length"))
		{
			uint64_t	length;

			lengths++;
			check(read_length(field.value, &length) && length == head->body_len);
		}
		codings += is_named(field.name, "transfer-encoding");
	}
	check(lines.len == 0 && count == head->line_count && count <= HTTP_HEAD_LINES);
	check(codings <= 1 && (codings == 0 || lengths == 0));
	check((codings > 0) == (head->transfer_encoding.name.bytes != NULL));
	check((lengths > 0) == (head->content_length.name.bytes != NULL));
}

static void
check_whole(const HttpHead *head, const char *bytes, size_t len)
{
	check(head->size > 0 && head->size <= len && head->size <= HTTP_HEAD_BYTES);
	check(bytes[head->size - 1] == '\n');
	check(head->method.len > 0 && head->target.len > 0);
	check(is_inside(head->method, bytes, head->size) && is_inside(head->target, bytes, head->size));
	check(is_inside(head->lines, bytes, head->size) && is_inside(head->host.value, bytes, head->size));
	check_text(head->target);
	for (size_t i = 0; i < head->size; i++)
		check(bytes[i] != '\0' && (bytes[i] != '\r' || bytes[i + 1] == '\n'));
	check_lines(head);
}

/* Reads the same bytes in pieces, until there is an outcome. */
static void
check_pieces(const char *bytes, size_t len, size_t piece, HttpHeadOutcome outcome, const HttpHead *whole)
{
	HttpHeadOutcome now = HTTP_HEAD_PARTIAL;
	HttpHead	head;
	size_t		seen = 0;

	while (now == HTTP_HEAD_PARTIAL && seen < len)
	{
		size_t		come = len - seen < piece ? len : seen + piece;

		now = http_head_read(bytes, come, seen, &head);
		seen = come;
	}
	check(now == outcome);
	if (now == HTTP_HEAD_WHOLE)
		check(head.size == whole->size && same_text(head.method, whole->method) &&
			  same_text(head.target, whole->target) &&
			  same_text(head.lines, whole->lines) && head.line_count == whole->line_count &&
			  head.body_len == whole->body_len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *) data;
	HttpHead	head;
	HttpHeadOutcome outcome = http_head_read(bytes, size, 0, &head);

	if (outcome == HTTP_HEAD_WHOLE)
		check_whole(&head, bytes, size);
	if (outcome == HTTP_HEAD_PARTIAL)
		check(size < HTTP_HEAD_BYTES);
	if (size <= EVERY_BYTE)
		check_pieces(bytes, size, 1, outcome, &head);
	check_pieces(bytes, size, PIECE, outcome, &head);
	return 0;
}
