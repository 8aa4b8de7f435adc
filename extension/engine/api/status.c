/*-------------------------------------------------------------------------
 *
 * status.c
 *	  Kubernetes Status documents and field errors, in upstream's words.
 *
 * A Status is always typed (kind first, then apiVersion) and ends in one
 * newline; it is valid JSON for every text in a message.  The list of field
 * errors of one document is bounded in number and in bytes, so that a small
 * hostile document cannot make a huge answer.
 *
 * Reference: k8s-conformance section 6 (ERR-01 to ERR-24).
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/status.h"

#include <string.h>

#include "engine/base/go_float.h"
#include "engine/base/hash.h"
#include "engine/base/utf8.h"

/* The names of an error type in a message and in the reason of a cause. */
typedef struct FieldErrorWords
{
	const char *words;
	const char *reason;
	bool		shows_value;
} FieldErrorWords;

static const FieldErrorWords field_error_words[] = {
	[FIELD_INVALID] = {"Invalid value", "FieldValueInvalid", true},
	[FIELD_REQUIRED] = {"Required value", "FieldValueRequired", false},
	[FIELD_NOT_SUPPORTED] = {"Unsupported value", "FieldValueNotSupported", true},
	[FIELD_FORBIDDEN] = {"Forbidden", "FieldValueForbidden", false},
	[FIELD_DUPLICATE] = {"Duplicate value", "FieldValueDuplicate", true},
	[FIELD_NOT_FOUND] = {"Not found", "FieldValueNotFound", true},
	[FIELD_TOO_LONG] = {"Too long", "FieldValueTooLong", false},
	[FIELD_TOO_MANY] = {"Too many", "FieldValueTooMany", false},
	[FIELD_TYPE_INVALID] = {"Invalid value", "FieldValueTypeInvalid", true},
	[FIELD_INTERNAL] = {"Internal error", "InternalError", false},
};

/*
 * Code points that Go's strconv.IsPrint refuses, in order: controls, format
 * characters, separators other than the space, surrogates, private use, and
 * noncharacters.  Code points that Unicode has not assigned yet count as
 * printable; otherwise each version of Unicode would need a new table.
 */
static const struct
{
	uint32_t	first;
	uint32_t	last;
}			unprintable[] = {
	{0x00, 0x1F}, {0x7F, 0xA0}, {0xAD, 0xAD}, {0x600, 0x605}, {0x61C, 0x61C},
	{0x6DD, 0x6DD}, {0x70F, 0x70F}, {0x890, 0x891}, {0x8E2, 0x8E2}, {0x1680, 0x1680},
	{0x180E, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},
	{0xD800, 0xF8FF}, {0xFDD0, 0xFDEF}, {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF},
	{0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
	{0x1D173, 0x1D17A}, {0x1FFFE, 0x1FFFF}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF},
};

bool
rune_is_print(uint32_t rune)
{
	for (size_t i = 0; i < sizeof(unprintable) / sizeof(unprintable[0]); i++)
	{
		if (rune < unprintable[i].first)
			return true;
		if (rune <= unprintable[i].last)
			return false;
	}
	return true;
}

static bool
is_foreign_byte(uint32_t rune)
{
	return rune >= FOREIGN_BYTE + 0x80 && rune <= FOREIGN_BYTE + 0xFF;
}

char *
foreign_bytes_encode(Arena *arena, const char *text)
{
	size_t		len = strlen(text);
	StrBuf		buf;

	strbuf_init(&buf, arena);
	for (size_t at = 0; at < len;)
	{
		uint32_t	rune;
		size_t		width = utf8_decode(text + at, len - at, &rune);
		unsigned char c = (unsigned char) text[at];

		if (width > 0)
			strbuf_append(&buf, text + at, width);
		else
			strbuf_printf(&buf, "\xF4\x8F%c%c", c < 0xC0 ? 0xBE : 0xBF, 0x80 | (c & 0x3F));
		at += width > 0 ? width : 1;
	}
	return strbuf_finish(&buf);
}

const char *
foreign_bytes_replace(Arena *arena, const char *text)
{
	size_t		len = strlen(text);
	StrBuf		buf;

	if (strstr(text, "\xF4\x8F") == NULL)
		return text;
	strbuf_init(&buf, arena);
	for (size_t at = 0; at < len;)
	{
		uint32_t	rune = 0;
		size_t		width = utf8_decode(text + at, len - at, &rune);

		if (width == 0)
			width = 1;
		if (is_foreign_byte(rune))
			strbuf_puts(&buf, "\xEF\xBF\xBD");
		else
			strbuf_append(&buf, text + at, width);
		at += width;
	}
	return strbuf_finish(&buf);
}

/* Prints a C string as a JSON string.  JSON_NUL and foreign bytes become what Go prints for them. */
static void
put_words(StrBuf *buf, const char *words)
{
	JsonText	text = json_cstring_text(buf->arena, foreign_bytes_replace(buf->arena, words));

	json_write_string(buf, text.bytes, text.len);
}

void
quote_text(StrBuf *buf, const char *bytes, size_t len)
{
	size_t		i = 0;

	strbuf_putc(buf, '"');
	while (i < len)
	{
		unsigned char c = (unsigned char) bytes[i];
		uint32_t	rune;
		size_t		width;

		if (c == '"' || c == '\\')
		{
			strbuf_putc(buf, '\\');
			strbuf_putc(buf, (char) c);
			i++;
			continue;
		}
		width = utf8_decode(bytes + i, len - i, &rune);
		if (width == 0 && len - i >= 2 && memcmp(bytes + i, JSON_NUL, 2) == 0)
		{
			strbuf_puts(buf, "\\x00");
			i += 2;
			continue;
		}
		if (width == 0)
		{
			strbuf_printf(buf, "\\x%02x", c);
			i++;
			continue;
		}
		if (is_foreign_byte(rune))
			strbuf_printf(buf, "\\x%02x", rune - FOREIGN_BYTE);
		else if (rune_is_print(rune))
			strbuf_append(buf, bytes + i, width);
		else if (rune >= '\a' && rune <= '\r')
		{
			strbuf_putc(buf, '\\');
			strbuf_putc(buf, "abtnvfr"[rune - '\a']);
		}
		else if (rune < 0x20 || rune == 0x7F)
			strbuf_printf(buf, "\\x%02x", rune);
		else if (rune < 0x10000)
			strbuf_printf(buf, "\\u%04x", rune);
		else
			strbuf_printf(buf, "\\U%08x", rune);
		i += width;
	}
	strbuf_putc(buf, '"');
}

const char *
quoted(Arena *arena, const char *text)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	quote_text(&buf, text, strlen(text));
	return buf.bytes;
}

char *
field_path_string(Arena *arena, const FieldPath *path)
{
	const FieldPath **elements;
	StrBuf		buf;
	size_t		depth = 0;

	for (const FieldPath *p = path; p != NULL; p = p->parent)
		depth++;
	if (depth == 0)
		return arena_strdup(arena, "");
	elements = arena_alloc(arena, depth * sizeof(*elements));
	for (const FieldPath *p = path; p != NULL; p = p->parent)
		elements[--depth] = p;

	strbuf_init(&buf, arena);
	for (size_t i = 0; buf.len <= FIELD_PATH_MAX; i++)
	{
		const FieldPath *p = elements[i];

		if (p->index >= 0)
			strbuf_printf(&buf, "[%lld]", (long long) p->index);
		else
		{
			bool		subscript = p->bracket || p->key.len == 0;

			if (subscript)
				strbuf_putc(&buf, '[');
			else if (i > 0)
				strbuf_putc(&buf, '.');

			/* A path is a C string; a NUL in a key must not cut it short. */
			for (size_t k = 0; k < p->key.len && buf.len <= FIELD_PATH_MAX; k++)
			{
				if (p->key.bytes[k] == '\0')
					strbuf_puts(&buf, JSON_NUL);
				else
					strbuf_putc(&buf, p->key.bytes[k]);
			}
			if (subscript)
				strbuf_putc(&buf, ']');
		}
		if (p == path)
			break;
	}
	if (buf.len > FIELD_PATH_MAX)
	{
		buf.len = utf8_cut(buf.bytes, buf.len, FIELD_PATH_MAX);
		buf.bytes[buf.len] = '\0';
	}
	return strbuf_finish(&buf);
}

void
field_errors_init(FieldErrorList *list, Arena *arena)
{
	memset(list, 0, sizeof(*list));
	list->arena = arena;
}

/* Appends a bad value as upstream shows it in a message. */
static void
append_bad_value(StrBuf *buf, const JsonNode *value)
{
	switch (value->kind)
	{
		case JSON_KIND_STRING:
			quote_text(buf, value->u.string.bytes, value->u.string.len);
			return;
		case JSON_KIND_NUMBER:
			go_float_text(buf, value->u.number);
			return;
		case JSON_KIND_NULL:
		case JSON_KIND_BOOL:
		case JSON_KIND_INTEGER:
			json_write(buf, value);
			return;
		case JSON_KIND_ARRAY:
		case JSON_KIND_OBJECT:
			break;
	}

	/* Go marshals these with HTML escapes, which are part of the message. */
	json_write_html(buf, value);
}

void
field_error_at(FieldErrorList *list, FieldErrorType type, const char *path,
			   const JsonNode *value, const char *detail)
{
	const FieldErrorWords *words = &field_error_words[type];
	FieldError *error;
	StrBuf		message;

	if (list->count >= FIELD_ERRORS_MAX || list->bytes >= FIELD_ERRORS_MAX_BYTES)
		return;
	list->errors = arena_grow(list->arena, list->errors, list->count, sizeof(FieldError), &list->capacity);

	strbuf_init(&message, list->arena);
	strbuf_puts(&message, words->words);
	if (words->shows_value && value != NULL)
	{
		strbuf_puts(&message, ": ");
		append_bad_value(&message, value);
	}
	if (detail != NULL && detail[0] != '\0')
	{
		strbuf_puts(&message, ": ");
		strbuf_puts(&message, detail);
	}

	error = &list->errors[list->count++];
	error->type = type;
	error->field = arena_strdup(list->arena, path);
	error->message = message.bytes;
	list->bytes += message.len + strlen(path);
}

void
field_error(FieldErrorList *list, FieldErrorType type, const FieldPath *path,
			const JsonNode *value, const char *detail)
{
	if (list->count >= FIELD_ERRORS_MAX || list->bytes >= FIELD_ERRORS_MAX_BYTES)
		return;
	field_error_at(list, type, field_path_string(list->arena, path), value, detail);
}

/* Appends "key":"value" unless the value is NULL or empty; a comma precedes it unless it is the first member. */
static void
append_member(StrBuf *buf, bool *first, const char *key, const char *value)
{
	if (value == NULL || value[0] == '\0')
		return;
	if (!*first)
		strbuf_putc(buf, ',');
	*first = false;
	json_write_string(buf, key, strlen(key));
	strbuf_putc(buf, ':');
	put_words(buf, value);
}

static void
append_details(StrBuf *buf, const StatusDetails *details)
{
	bool		first = true;

	strbuf_putc(buf, '{');
	append_member(buf, &first, "name", details->name);
	append_member(buf, &first, "group", details->group);
	append_member(buf, &first, "kind", details->kind);
	append_member(buf, &first, "uid", details->uid);
	if (details->cause_count > 0)
	{
		strbuf_puts(buf, first ? "\"causes\":[" : ",\"causes\":[");
		first = false;
		for (size_t i = 0; i < details->cause_count; i++)
		{
			const StatusCause *cause = &details->causes[i];
			bool		first_member = true;

			strbuf_puts(buf, i == 0 ? "{" : ",{");
			append_member(buf, &first_member, "reason", cause->reason);
			append_member(buf, &first_member, "message", cause->message);
			append_member(buf, &first_member, "field", cause->field);
			strbuf_putc(buf, '}');
		}
		strbuf_putc(buf, ']');
	}
	if (details->retry_after_seconds > 0)
		strbuf_printf(buf, "%s\"retryAfterSeconds\":%d", first ? "" : ",", details->retry_after_seconds);
	strbuf_putc(buf, '}');
}

void
status_failure(StrBuf *buf, int code, const char *reason, const char *message,
			   const StatusDetails *details)
{
	bool		first = false;

	strbuf_puts(buf, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"");
	append_member(buf, &first, "message", message);
	append_member(buf, &first, "reason", reason);
	if (details != NULL)
	{
		strbuf_puts(buf, ",\"details\":");
		append_details(buf, details);
	}
	strbuf_printf(buf, ",\"code\":%d}\n", code);
}

void
status_deleted(StrBuf *buf, const char *name, const char *group, const char *resource, const char *uid,
			   int64_t version)
{
	StatusDetails details = {.name = name, .group = group, .kind = resource, .uid = uid};

	strbuf_puts(buf, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{");
	if (version > 0)
		strbuf_printf(buf, "\"resourceVersion\":\"%lld\"", (long long) version);
	strbuf_puts(buf, "},\"status\":\"Success\",\"details\":");
	append_details(buf, &details);
	strbuf_putc(buf, '}');
}

/* Appends resource.group "name", as GroupResource and GroupKind print it. */
static void
append_subject(StrBuf *buf, const char *kind, const char *group, const char *name)
{
	strbuf_puts(buf, kind);
	if (group[0] != '\0')
	{
		strbuf_putc(buf, '.');
		strbuf_puts(buf, group);
	}
	strbuf_putc(buf, ' ');
	quote_text(buf, name, strlen(name));
}

/* A hash of the path and the message of an error.  The NUL of the path separates them. */
static uint64_t
error_hash(const FieldError *error)
{
	return hash_bytes(hash_bytes(HASH_SEED, error->field, strlen(error->field) + 1), error->message,
					  strlen(error->message));
}

void
status_invalid(StrBuf *buf, const char *kind, const char *group, const char *name,
			   const FieldErrorList *errors)
{
	Arena	   *arena = buf->arena;
	StatusDetails details = {.name = name, .group = group, .kind = kind};
	StatusCause *causes = arena_alloc(arena, (errors->count + 1) * sizeof(StatusCause));
	uint64_t   *hashes = arena_alloc(arena, (errors->count + 1) * sizeof(uint64_t));
	StrBuf		message;
	StrBuf		list;
	size_t		listed = 0;

	/* Every error is a cause; the message lists equal errors once. */
	strbuf_init(&list, arena);
	for (size_t i = 0; i < errors->count; i++)
	{
		const FieldError *error = &errors->errors[i];
		bool		seen = false;

		hashes[i] = error_hash(error);
		for (size_t k = 0; k < i && !seen; k++)
			seen = hashes[k] == hashes[i] && strcmp(causes[k].field, error->field) == 0 &&
				strcmp(causes[k].message, error->message) == 0;
		causes[i].reason = field_error_words[error->type].reason;
		causes[i].message = error->message;
		causes[i].field = error->field;
		if (seen)
			continue;
		if (listed++ > 0)
			strbuf_puts(&list, ", ");
		strbuf_puts(&list, error->field);
		strbuf_puts(&list, ": ");
		strbuf_puts(&list, error->message);
	}

	strbuf_init(&message, arena);
	append_subject(&message, kind, group, name);
	strbuf_puts(&message, " is invalid");
	if (listed > 0)
	{
		strbuf_puts(&message, listed > 1 ? ": [" : ": ");
		strbuf_append(&message, list.bytes, list.len);
		if (listed > 1)
			strbuf_putc(&message, ']');
	}

	details.causes = causes;
	details.cause_count = errors->count;
	status_failure(buf, 422, "Invalid", message.bytes, &details);
}

void
status_not_found(StrBuf *buf, const char *group, const char *resource, const char *name)
{
	StatusDetails details = {.name = name, .group = group, .kind = resource};
	StrBuf		message;

	strbuf_init(&message, buf->arena);
	append_subject(&message, resource, group, name);
	strbuf_puts(&message, " not found");
	status_failure(buf, 404, "NotFound", message.bytes, &details);
}

void
status_conflict(StrBuf *buf, const char *group, const char *resource, const char *name, const char *why)
{
	StatusDetails details = {.name = name, .group = group, .kind = resource};
	StrBuf		message;

	strbuf_init(&message, buf->arena);
	strbuf_puts(&message, "Operation cannot be fulfilled on ");
	append_subject(&message, resource, group, name);
	strbuf_puts(&message, ": ");
	strbuf_puts(&message, why);
	status_failure(buf, 409, "Conflict", message.bytes, &details);
}

void
status_bad_request(StrBuf *buf, const char *message)
{
	status_failure(buf, 400, "BadRequest", message, NULL);
}
