/*-------------------------------------------------------------------------
 *
 * encoding.c
 *	  Encodes the JSON of an answer for the client: YAML, gzip.
 *
 * gzip uses level 1, as upstream does: most of the gain for a fraction of the
 * time.
 *
 *-------------------------------------------------------------------------
 */
#include "codec/encoding.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/allocate.h"
#include "codec/yaml_text.h"
#include "engine/api/accept.h"
#include "engine/base/ascii.h"

#define GZIP_LEVEL 1
#define GZIP_WINDOW (15 + 16)	/* 16: with the header and trailer of gzip */
#define GZIP_MEMORY 8

struct Encoding
{
	bool		yaml;
	bool		gzip;
	Arena		held;			/* text that the YAML stream keeps between pieces */
	YamlStream	stream;
	z_stream	deflater;
	Arena		output;			/* holds the result of the last call */
};

/* --- Accept-Encoding --- */

/* Returns the value of q among the parameters of a coding; 1 when there is no q, 0 when its value is invalid. */
static double
quality_of(JsonText parameters)
{
	JsonText	name;
	JsonText	value;
	double		quality;

	while (accept_parameter(&parameters, &name, &value))
		if (name.len == 1 && ascii_lower(name.bytes[0]) == 'q')
			return accept_quality(value, &quality) && quality >= 0 && quality <= 1 ? quality : 0;
	return 1;
}

static bool
is_coding(JsonText text, const char *coding)
{
	return text.len == strlen(coding) && ascii_same(text.bytes, coding, text.len);
}

bool
encoding_accepts_gzip(const char *header)
{
	JsonText	rest = {header, header != NULL ? strlen(header) : 0};
	double		gzip = -1;
	double		any = -1;
	double		identity = 0;

	while (rest.bytes != NULL)
	{
		JsonText	parameters;
		JsonText	coding = accept_trim(accept_cut(accept_cut(rest, ',', &rest), ';', &parameters));

		if (is_coding(coding, "gzip"))
			gzip = quality_of(parameters);
		else if (is_coding(coding, "identity"))
			identity = quality_of(parameters);
		else if (is_coding(coding, "*"))
			any = quality_of(parameters);
	}
	if (gzip < 0)
		gzip = any;
	return gzip > 0 && gzip >= identity;
}

/* --- gzip --- */

static void
gzip_begin(z_stream * deflater)
{
	memset(deflater, 0, sizeof(*deflater));
	if (deflateInit2(deflater, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
}

static void
gzip_append(z_stream * deflater, JsonText text, bool last, StrBuf *out)
{
	deflater->next_in = (unsigned char *) text.bytes;
	deflater->avail_in = (unsigned) text.len;
	do
	{
		size_t		room = deflateBound(deflater, deflater->avail_in) / 4 + 1024;

		strbuf_reserve(out, room);
		deflater->next_out = (unsigned char *) out->bytes + out->len;
		deflater->avail_out = (unsigned) room;
		deflate(deflater, last ? Z_FINISH : Z_NO_FLUSH);
		out->len += room - deflater->avail_out;
	} while (deflater->avail_out == 0);
}

JsonText
encode_gzip(Arena *arena, JsonText text)
{
	z_stream	deflater;
	StrBuf		out;

	strbuf_init(&out, arena);
	gzip_begin(&deflater);
	gzip_append(&deflater, text, true, &out);
	deflateEnd(&deflater);
	return (JsonText) {out.bytes, out.len};
}

/* --- YAML --- */

JsonText
encode_yaml(Arena *arena, JsonText json)
{
	Arena		scratch;
	JsonError	error;
	JsonNode   *document;
	StrBuf		out;

	arena_init(&scratch);
	strbuf_init(&out, &scratch);
	document = json_parse(&scratch, json.bytes, json.len, NULL, NULL, &error);
	if (document != NULL)
	{
		yaml_write(&out, document);
		json = (JsonText) {arena_strndup(arena, out.bytes, out.len), out.len};
	}
	arena_free(&scratch);
	return json;
}

/* --- Pieces --- */

Encoding *
encoding_new(bool yaml, bool gzip)
{
	Encoding   *encoding = allocate(sizeof(Encoding));

	encoding->yaml = yaml;
	encoding->gzip = gzip;
	arena_init(&encoding->held);
	arena_init(&encoding->output);
	if (yaml)
		yaml_stream_begin(&encoding->stream, &encoding->held);
	if (gzip)
		gzip_begin(&encoding->deflater);
	return encoding;
}

bool
encoding_next(Encoding *encoding, JsonText json, bool last, JsonText *bytes)
{
	StrBuf		out;

	arena_free(&encoding->output);
	arena_init(&encoding->output);
	*bytes = json;
	if (encoding->yaml)
	{
		strbuf_init(&out, &encoding->output);
		if (!yaml_stream_next(&encoding->stream, json.bytes, json.len, &out))
			return false;
		*bytes = (JsonText) {out.bytes, out.len};
	}
	if (encoding->gzip)
	{
		strbuf_init(&out, &encoding->output);
		gzip_append(&encoding->deflater, *bytes, last, &out);
		*bytes = (JsonText) {out.bytes, out.len};
	}
	return true;
}

void
encoding_free(Encoding *encoding)
{
	if (encoding == NULL)
		return;
	if (encoding->gzip)
		deflateEnd(&encoding->deflater);
	arena_free(&encoding->held);
	arena_free(&encoding->output);
	free(encoding);
}

bool
decode_gzip(Arena *arena, JsonText given, size_t limit, JsonText *text, bool *large)
{
	z_stream	stream = {.next_in = (Bytef *) given.bytes, .avail_in = (uInt) given.len};
	char		piece[16 * 1024];
	StrBuf		buf;
	int			result = Z_OK;

	*large = false;
	/* 16 means that only gzip is accepted. */
	if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
		abort();
	strbuf_init(&buf, arena);
	while (result == Z_OK && !*large)
	{
		stream.next_out = (Bytef *) piece;
		stream.avail_out = sizeof(piece);
		result = inflate(&stream, Z_NO_FLUSH);
		strbuf_append(&buf, piece, sizeof(piece) - stream.avail_out);
		*large = buf.len > limit;
	}
	inflateEnd(&stream);
	*text = (JsonText) {buf.bytes, buf.len};
	return result == Z_STREAM_END && stream.avail_in == 0 && !*large;
}
