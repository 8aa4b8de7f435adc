/*-------------------------------------------------------------------------
 *
 * upload.c
 *	  Receives a file from a sender, stores it, and announces it in the database.
 *
 * The order makes every interruption harmless: the database notes the file as
 * not announced, the store gets it whole, then the database announces it.  A
 * file that is not announced is removed, at once or by the next process.
 *
 * libmicrohttpd can answer a request only after its head or after its body.
 * So after a failure the rest of the body is read and ignored, up to the limit
 * of bodies and SLACK bytes; a longer body cuts the connection.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "codec/digest.h"
#include "evidence/answer.h"
#include "evidence/options.h"
#include "evidence/request.h"
#include "evidence/sender.h"

#define SLACK ((uint64_t) 8 * 1024 * 1024)

/* ---------- slots ---------- */

/* The uploads in progress, at most --max-uploads. */
static struct
{
	pthread_mutex_t lock;
	Request    *first;
	int			count;
}			slots =

{
	.lock = PTHREAD_MUTEX_INITIALIZER
};

/* Takes a slot for an upload; returns 0, or the status of the refusal when there is no slot. */
static unsigned
take_slot(Request *request)
{
	int			own = 0;
	unsigned	status = 0;

	pthread_mutex_lock(&slots.lock);
	for (const Request *other = slots.first; other != NULL; other = other->next_upload)
	{
		if (strcmp(other->credential.kind, request->credential.kind) == 0 &&
			strcmp(other->credential.text, request->credential.text) == 0)
			own++;
	}
	if (own >= options.max_uploads_per_sender)
		status = 429;
	else if (slots.count >= options.max_uploads)
		status = 503;
	else
	{
		request->next_upload = slots.first;
		slots.first = request;
		slots.count++;
		request->holds_slot = true;
	}
	pthread_mutex_unlock(&slots.lock);
	return status;
}

static void
leave_slot(Request *request)
{
	pthread_mutex_lock(&slots.lock);
	for (Request **link = &slots.first; *link != NULL; link = &(*link)->next_upload)
	{
		if (*link == request)
		{
			*link = request->next_upload;
			slots.count--;
			break;
		}
	}
	pthread_mutex_unlock(&slots.lock);
	request->holds_slot = false;
}

unsigned
upload_count(void)
{
	unsigned	count;

	pthread_mutex_lock(&slots.lock);
	count = (unsigned) slots.count;
	pthread_mutex_unlock(&slots.lock);
	return count;
}

/* ---------- the head ---------- */

static bool
is_xml(const char *type)
{
	size_t		len = type == NULL ? 0 : strcspn(type, "; \t");

	return type == NULL || (len == 15 && strncasecmp(type, "application/xml", len) == 0) ||
		(len == 8 && strncasecmp(type, "text/xml", len) == 0);
}

/* Reads the announced length, -1 when there is none; false when the header is wrong. */
static bool
read_length(struct MHD_Connection *connection, int64_t *bytes)
{
	bool		repeated;
	const char *text = sender_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH, &repeated);
	char	   *end;

	*bytes = -1;
	if (text == NULL)
		return !repeated;
	errno = 0;
	*bytes = strtoll(text, &end, 10);
	return !repeated && errno == 0 && text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

/* Reads the head; returns NULL, or the reason of a refusal, with its status. */
static const char *
read_head(struct MHD_Connection *connection, Request *request, int64_t *bytes, unsigned *status)
{
	bool		twice[4];
	const char *type = sender_header(connection, MHD_HTTP_HEADER_CONTENT_TYPE, &twice[0]);
	const char *encoding = sender_header(connection, MHD_HTTP_HEADER_CONTENT_ENCODING, &twice[1]);
	const char *transfer = sender_header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING, &twice[2]);

	*status = 400;
	if (twice[0] || twice[1] || twice[2] || !read_length(connection, bytes))
		return "a header occurs twice, or the length of the body is wrong";
	if (transfer != NULL && *bytes >= 0)
		return "the body has a length and is chunked";
	*status = 415;
	if (!is_xml(type))
		return "the body of the request must be application/xml";
	request->name.encoding = encoding == NULL || strcasecmp(encoding, "identity") == 0 ? "" : "bzip2";
	if (request->name.encoding[0] != '\0' && strcasecmp(encoding, "bzip2") != 0)
		return "the body of the request may be compressed with bzip2 only";
	*status = 413;
	if (*bytes > 0 && (uint64_t) *bytes > options.max_body_bytes)
		return "the file is larger than --max-body-bytes";
	*status = 400;
	if (*bytes == 0 || (*bytes < 0 && transfer == NULL))
		return "the request has no body";
	return NULL;
}

static unsigned
status_of(StoreOutcome outcome)
{
	return outcome == STORE_FULL ? 507 : 503;
}

static void
fail(Request *request, unsigned status, const char *message)
{
	request->refusal = status;
	snprintf(request->message, sizeof(request->message), "%s", message);
}

/* Refuses an upload because the store failed.  Only the log has the reason: a sender must not learn about the store. */
static void
store_failed(Request *request, StoreOutcome outcome, const char *why)
{
	counts_store_failure(outcome);
	log_line(LOG_ERROR, "%s: %s", request->entry.key, why);
	fail(request, status_of(outcome), outcome == STORE_FULL ? "the store has no room for the file" :
		 "the file cannot be stored now");
}

static unsigned
open_writer(Request *request, int64_t bytes)
{
	StoreFile	file = {.key = request->entry.key, .name = request->name.report,
	.encoding = request->name.encoding, .bytes = bytes};
	char		why[WHY_SIZE] = "";
	StoreOutcome outcome;
	int			code = ledger_begin(&request->credential, &request->name, bytes, &request->entry, request->message);

	if (code != 200)
	{
		if (code == 503 && request->message[0] == '\0')
			fail(request, 503, "the database does not answer");
		return (unsigned) code;
	}
	request->has_entry = true;
	if (!store_key_valid(request->entry.key))
	{
		fail(request, 500, "the database gave the file an invalid key");
		return 500;
	}
	outcome = store->open(&request->writer, &file, why);
	if (outcome != STORE_OK)
	{
		request->writer = NULL;
		store_failed(request, outcome, why);
		return request->refusal;
	}
	return 0;
}

enum MHD_Result
upload_begin(struct MHD_Connection *connection, Request *request, bool certificate_only)
{
	const char *why = "";
	unsigned	status;
	int64_t		bytes;

	if (!sender_credential(connection, certificate_only, &request->credential, &why))
	{
		log_line(LOG_WARNING, "a sender was refused: %s", why);
		return request_refuse(connection, request, 401, "Unauthorized");
	}
	why = read_head(connection, request, &bytes, &status);
	if (why != NULL)
		return request_refuse(connection, request, status, why);
	status = take_slot(request);
	if (status != 0)
		return request_refuse(connection, request, status, "too many uploads are under way");
	status = open_writer(request, bytes);
	if (status == 401)
		log_line(LOG_WARNING, "a sender was refused: its credential is unknown or has expired");
	if (status != 0)
		return request_refuse(connection, request, status, request->message);
	request->digest = EVP_MD_CTX_new();
	if (request->digest == NULL || EVP_DigestInit_ex(request->digest, EVP_sha256(), NULL) != 1)
		abort();
	return MHD_YES;
}

/* ---------- the body ---------- */

static void
drop_writer(Request *request)
{
	if (request->writer != NULL)
		store->close(request->writer);
	request->writer = NULL;
}

enum MHD_Result
upload_piece(struct MHD_Connection *connection, Request *request, const char *bytes, size_t len)
{
	char		why[WHY_SIZE] = "";
	StoreOutcome outcome;

	request->bytes += len;
	if (request->bytes > options.max_body_bytes && request->refusal == 0)
	{
		fail(request, 413, "the file is larger than --max-body-bytes");
		drop_writer(request);
	}
	if (request->refusal != 0)
	{
		/* The answer is sent after the body; when the body is far too long, the connection is cut without an answer. */
		return request->bytes > options.max_body_bytes + SLACK ? MHD_NO : MHD_YES;
	}
	if (EVP_DigestUpdate(request->digest, bytes, len) != 1)
		abort();
	outcome = store->write(request->writer, bytes, len, why);
	if (outcome != STORE_OK)
	{
		store_failed(request, outcome, why);
		drop_writer(request);
	}
	return MHD_YES;
}

static void
hex_digest(Request *request, char *text)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len = 0;

	if (EVP_DigestFinal_ex(request->digest, digest, &len) != 1)
		abort();
	hex_write(digest, len, text);
}

/* Stores and announces the file; returns the status of the answer. */
static unsigned
finish(Request *request, char *digest)
{
	char		why[WHY_SIZE] = "";
	StoreOutcome outcome;
	int			code;

	if (request->bytes == 0)
	{
		fail(request, 400, "the request has no body");
		return 400;
	}
	outcome = store->finish(request->writer, why);
	if (outcome != STORE_OK)
	{
		store_failed(request, outcome, why);
		return request->refusal;
	}
	hex_digest(request, digest);
	request->message[0] = '\0';
	code = ledger_commit(&request->credential, &request->name, store->provider, digest, (int64_t) request->bytes,
						 &request->entry, request->message);
	if (code == 503 && request->message[0] == '\0')
		snprintf(request->message, sizeof(request->message), "the database does not answer");
	/* After 503 it is not known whether the file was announced: it stays, and the database decides later. */
	if (code < 300 || code == 503)
		request->has_entry = false;
	return (unsigned) code;
}

enum MHD_Result
upload_end(struct MHD_Connection *connection, Request *request)
{
	char		digest[DIGEST_SIZE] = "";
	char		json[2048];

	if (request->refusal == 0)
	{
		unsigned	status = finish(request, digest);

		if (status >= 300)
			request->refusal = status;
		else
			request->status = status;
		drop_writer(request);
	}
	if (request->refusal != 0)
		return request_refuse(connection, request, request->refusal, request->message);
	counts_stored(request->bytes);
	removal_wake();
	/* No character of these texts needs an escape in JSON. */
	snprintf(json, sizeof(json), "{\"cluster\":\"%s\",\"scan\":\"%s\",\"index\":%d,\"name\":\"%s\",\"sha256\":\"%s\","
			 "\"bytes\":%llu,\"encoding\":\"%s\"}\n", request->entry.cluster, request->name.scan, request->entry.index,
			 request->name.report, digest, (unsigned long long) request->bytes, request->name.encoding);
	return answer_json(connection, request->status, json);
}

void
upload_release(Request *request)
{
	char		why[WHY_SIZE] = "";

	drop_writer(request);
	/* If this fails, the thread of removal removes the file when its time is over. */
	if (request->has_entry && store_key_valid(request->entry.key) && store->remove(request->entry.key, why) == STORE_OK)
		ledger_forget(request->entry.id);
	if (request->holds_slot)
		leave_slot(request);
	EVP_MD_CTX_free(request->digest);
}
