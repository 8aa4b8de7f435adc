/*-------------------------------------------------------------------------
 *
 * s3_store.c
 *	  Files of evidence in a bucket of an S3 server.
 *
 * A writer collects one part in memory (--s3-part-bytes).  A file of one part
 * is sent with one PUT.  A larger file is a multipart upload: the server makes
 * the file only at its end.  remove() also removes parts of interrupted
 * uploads: it asks the server for the unfinished uploads of a key.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "evidence/options.h"
#include "evidence/s3_call.h"
#include "evidence/store.h"

#define FIRST_BUFFER ((size_t) 64 * 1024)
#define MAX_PARTS 10000			/* limit of S3 */
#define UPLOAD_ID_SIZE 1024
#define PART_LINE 200			/* largest size of a line in the list of parts: ETag, number, tags */

struct StoreWriter
{
	char		key[KEY_SIZE];
	char		upload[UPLOAD_ID_SIZE]; /* id of the multipart upload, encoded for a URL; "": none was begun */
	char	   *part;
	size_t		len;
	size_t		room;
	int			parts;			/* number of parts that were stored */
	char	   *list;			/* list of the parts, for CompleteMultipartUpload */
	size_t		list_len;
	size_t		list_room;
};

struct StoreReader
{
	CurlStream *stream;
	struct curl_slist *headers;
};

/* Returns the outcome of a failed call.  Some servers answer 507 when they have no room. */
static StoreOutcome
failed(const S3Call *call, char *why)
{
	snprintf(why, WHY_SIZE, "%s", call->why);
	return call->status == 507 || strstr(call->answer, "QuotaExceeded") != NULL ? STORE_FULL : STORE_FAILED;
}

/* Copies the text of an element of XML that has no children; false when there is none. */
static bool
element_text(const char *xml, const char *name, char *text, size_t size)
{
	char		tag[64];
	const char *start;
	size_t		len;

	snprintf(tag, sizeof(tag), "<%s>", name);
	start = strstr(xml, tag);
	if (start == NULL)
		return false;
	start += strlen(tag);
	len = strcspn(start, "<");
	if (len == 0 || len >= size)
		return false;
	snprintf(text, size, "%.*s", (int) len, start);
	return true;
}

static bool
encode(const char *text, char *encoded, size_t size)
{
	char	   *escaped = curl_easy_escape(NULL, text, 0);
	bool		fits = escaped != NULL && strlen(escaped) < size;

	if (fits)
		snprintf(encoded, size, "%s", escaped);
	curl_free(escaped);
	return fits;
}

/* ---------- writing ---------- */

static StoreOutcome
open_upload(StoreWriter **writer, const StoreFile *file, char *why)
{
	if (file->bytes > (int64_t) options.s3_part_bytes * MAX_PARTS)
	{
		snprintf(why, WHY_SIZE, "the file has more than 10000 parts of --s3-part-bytes");
		return STORE_FULL;
	}
	*writer = allocate(sizeof(StoreWriter));
	snprintf((*writer)->key, KEY_SIZE, "%s", file->key);
	return STORE_OK;
}

static StoreOutcome
begin_upload(StoreWriter *writer, S3Call *call, char *why)
{
	char		id[UPLOAD_ID_SIZE];

	*call = (S3Call) {.method = "POST", .key = writer->key, .query = "uploads=", .body = ""};
	if (!s3_call(call))
		return failed(call, why);
	if (!element_text(call->answer, "UploadId", id, sizeof(id)) ||
		!encode(id, writer->upload, sizeof(writer->upload)))
	{
		snprintf(why, WHY_SIZE, "S3 began an upload without an id");
		return STORE_FAILED;
	}
	return STORE_OK;
}

static void
list_part(StoreWriter *writer, const char *etag)
{
	if (writer->list_len + PART_LINE + S3_ETAG_SIZE > writer->list_room)
	{
		writer->list_room = writer->list_room * 2 + PART_LINE + S3_ETAG_SIZE + 64;
		writer->list = realloc(writer->list, writer->list_room);
		if (writer->list == NULL)
			abort();
	}
	writer->list_len += (size_t) snprintf(writer->list + writer->list_len, writer->list_room - writer->list_len,
										  "%s<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>",
										  writer->parts == 1 ? "<CompleteMultipartUpload>" : "", writer->parts, etag);
}

static StoreOutcome
send_part(StoreWriter *writer, char *why)
{
	S3Call	   *call = allocate(sizeof(S3Call));
	StoreOutcome outcome = STORE_OK;
	char		query[UPLOAD_ID_SIZE + 64];

	if (writer->upload[0] == '\0')
		outcome = begin_upload(writer, call, why);
	if (outcome == STORE_OK && writer->parts == MAX_PARTS)
	{
		snprintf(why, WHY_SIZE, "the file has more than 10000 parts of --s3-part-bytes");
		outcome = STORE_FULL;
	}
	if (outcome == STORE_OK)
	{
		snprintf(query, sizeof(query), "partNumber=%d&uploadId=%s", writer->parts + 1, writer->upload);
		*call = (S3Call) {.method = "PUT", .key = writer->key, .query = query, .body = writer->part,
		.body_len = writer->len};
		if (s3_call(call))
		{
			writer->parts++;
			writer->len = 0;
			list_part(writer, call->etag);
		}
		else
			outcome = failed(call, why);
	}
	free(call);
	return outcome;
}

static StoreOutcome
write_upload(StoreWriter *writer, const char *bytes, size_t len, char *why)
{
	while (len > 0)
	{
		size_t		piece = options.s3_part_bytes - writer->len;

		if (piece == 0)
		{
			StoreOutcome outcome = send_part(writer, why);

			if (outcome != STORE_OK)
				return outcome;
			continue;
		}
		if (piece > len)
			piece = len;
		if (writer->len + piece > writer->room)
		{
			writer->room = writer->room == 0 ? FIRST_BUFFER : writer->room * 2;
			if (writer->room < writer->len + piece)
				writer->room = writer->len + piece;
			if (writer->room > options.s3_part_bytes)
				writer->room = options.s3_part_bytes;
			writer->part = realloc(writer->part, writer->room);
			if (writer->part == NULL)
				abort();
		}
		memcpy(writer->part + writer->len, bytes, piece);
		writer->len += piece;
		bytes += piece;
		len -= piece;
	}
	return STORE_OK;
}

static StoreOutcome
complete(StoreWriter *writer, S3Call *call, char *why)
{
	static const char end[] = "</CompleteMultipartUpload>";
	char		query[UPLOAD_ID_SIZE + 16];

	/* list_part() has left room for the end of the list. */
	memcpy(writer->list + writer->list_len, end, sizeof(end));
	snprintf(query, sizeof(query), "uploadId=%s", writer->upload);
	*call = (S3Call) {.method = "POST", .key = writer->key, .query = query, .body = writer->list,
	.body_len = writer->list_len + sizeof(end) - 1};
	if (!s3_call(call))
		return failed(call, why);
	/* The server sends the status 200 before it has finished, so the body may report an error. */
	if (strstr(call->answer, "CompleteMultipartUploadResult") == NULL)
	{
		snprintf(why, WHY_SIZE, "S3 did not complete an upload: %.180s", call->answer);
		return STORE_FAILED;
	}
	writer->upload[0] = '\0';
	return STORE_OK;
}

static StoreOutcome
finish_upload(StoreWriter *writer, char *why)
{
	StoreOutcome outcome = STORE_OK;
	S3Call	   *call;

	if (writer->upload[0] != '\0' && writer->len > 0)
		outcome = send_part(writer, why);
	if (outcome != STORE_OK)
		return outcome;
	call = allocate(sizeof(S3Call));
	if (writer->upload[0] != '\0')
		outcome = complete(writer, call, why);
	else
	{
		*call = (S3Call) {.method = "PUT", .key = writer->key, .query = "",
		.body = writer->part == NULL ? "" : writer->part, .body_len = writer->len};
		if (!s3_call(call))
			outcome = failed(call, why);
	}
	free(call);
	return outcome;
}

static bool
abort_upload(const char *key, const char *encoded_id, S3Call *call)
{
	char		query[UPLOAD_ID_SIZE + 16];

	snprintf(query, sizeof(query), "uploadId=%s", encoded_id);
	*call = (S3Call) {.method = "DELETE", .key = key, .query = query};
	return s3_call(call) || call->status == 404;
}

static void
close_upload(StoreWriter *writer)
{
	if (writer->upload[0] != '\0')
	{
		S3Call	   *call = allocate(sizeof(S3Call));

		abort_upload(writer->key, writer->upload, call);
		free(call);
	}
	free(writer->part);
	free(writer->list);
	free(writer);
}

/* ---------- removing ---------- */

static StoreOutcome
remove_object(const char *key, char *why)
{
	S3Call	   *call = allocate(sizeof(S3Call));
	StoreOutcome outcome = STORE_OK;
	char		full[2 * KEY_SIZE];
	char		encoded[4 * KEY_SIZE];
	char		query[4 * KEY_SIZE + 32];
	char		id[UPLOAD_ID_SIZE];
	char		encoded_id[UPLOAD_ID_SIZE];

	*call = (S3Call) {.method = "DELETE", .key = key, .query = ""};
	if (!s3_call(call) && call->status != 404)
		outcome = failed(call, why);
	s3_full_key(key, full);
	if (outcome == STORE_OK && encode(full, encoded, sizeof(encoded)))
	{
		snprintf(query, sizeof(query), "prefix=%s&uploads=", encoded);
		*call = (S3Call) {.method = "GET", .query = query};
		if (!s3_call(call))
			outcome = failed(call, why);
		else if (element_text(call->answer, "UploadId", id, sizeof(id)) && encode(id, encoded_id, sizeof(encoded_id)) &&
				 !abort_upload(key, encoded_id, call))
			outcome = failed(call, why);
	}
	free(call);
	return outcome;
}

/* ---------- reading ---------- */

static void
close_object(StoreReader *reader)
{
	curl_stream_free(reader->stream);
	curl_slist_free_all(reader->headers);
	free(reader);
}

static StoreOutcome
open_object(StoreReader **reader, const char *key, int64_t bytes, char *why)
{
	StoreReader *fresh = allocate(sizeof(StoreReader));
	long		status;

	fresh->stream = s3_get(key, &fresh->headers, why);
	if (fresh->stream == NULL)
	{
		free(fresh);
		return STORE_FAILED;
	}
	status = curl_stream_status(fresh->stream);
	if (status == 200)
	{
		*reader = fresh;
		return STORE_OK;
	}
	snprintf(why, WHY_SIZE, "S3 GET: code %ld, %s", status, curl_stream_error(fresh->stream));
	close_object(fresh);
	return status == 404 ? STORE_GONE : STORE_FAILED;
}

static ssize_t
read_object(StoreReader *reader, char *buffer, size_t size)
{
	return curl_stream_read(reader->stream, buffer, size);
}

static const Store s3_store = {
	.provider = "s3",
	.open = open_upload,
	.write = write_upload,
	.finish = finish_upload,
	.close = close_upload,
	.remove = remove_object,
	.read_open = open_object,
	.read = read_object,
	.read_close = close_object,
};

const Store *
s3_store_open(const char *bucket_and_prefix, char *why)
{
	return s3_open(bucket_and_prefix, why) ? &s3_store : NULL;
}
