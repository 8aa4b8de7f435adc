/*-------------------------------------------------------------------------
 *
 * download.c
 *	  Sends a file to senders of its cluster, and to readers.
 *
 * With --reader-downloads, a role of the database may download the files that
 * it sees in kube_reports.evidence.  The database checks the password and the
 * grants, on a connection that is opened for that role.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "codec/digest.h"
#include "evidence/answer.h"
#include "evidence/options.h"
#include "evidence/request.h"
#include "evidence/sender.h"

#define BLOCK_SIZE ((size_t) 64 * 1024)

typedef struct FileTransfer
{
	StoreReader *reader;
	Peer	   *peer;
	int64_t		left;
	EVP_MD_CTX *digest;			/* of the bytes so far */
	FoundFile	found;
} FileTransfer;

/* Whether the bytes are those that were announced. */
static bool
is_whole(FileTransfer *transfer)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char		text[2 * EVP_MAX_MD_SIZE + 1];
	unsigned int len = 0;

	if (EVP_DigestFinal_ex(transfer->digest, digest, &len) != 1)
		abort();
	hex_write(digest, len, text);
	if (strcmp(text, transfer->found.digest) == 0)
		return true;
	log_line(LOG_ERROR, "%s: the file has another SHA-256 than when it was stored", transfer->found.uri);
	return false;
}

static ssize_t
give(void *state, uint64_t place, char *buffer, size_t size)
{
	FileTransfer *transfer = state;
	ssize_t		got;

	peer_excuse(transfer->peer, true);
	got = store->read(transfer->reader, buffer, size);
	peer_excuse(transfer->peer, false);
	if (got <= 0 || got > transfer->left)
	{
		counts_store_failure(STORE_FAILED);
		/* The store has fewer or more bytes than were announced: the client must see that the file is not whole. */
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	if (EVP_DigestUpdate(transfer->digest, buffer, (size_t) got) != 1)
		abort();
	transfer->left -= got;
	/* The last bytes are given only if all were right: else the client sees that the file is not whole. */
	if (transfer->left == 0 && !is_whole(transfer))
	{
		counts_store_failure(STORE_FAILED);
		return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	peer_progress(transfer->peer, (size_t) got);
	counts_sent((uint64_t) got);
	return got;
}

static void
end(void *state)
{
	FileTransfer *transfer = state;

	store->read_close(transfer->reader);
	EVP_MD_CTX_free(transfer->digest);
	free(transfer);
}

static int
find(struct MHD_Connection *connection, Request *request, FoundFile *found)
{
	const char *why = "";
	Reader	   *reader;
	int			code = 401;

	if (sender_credential(connection, false, &request->credential, &why))
		return ledger_find(&request->credential, &request->name, found);
	if (!options.reader_downloads || request->name.cluster[0] == '\0')
		return 401;
	reader = allocate(sizeof(Reader));
	if (sender_reader(connection, reader))
		code = ledger_find_as_reader(reader->user, reader->password, &request->name, found);
	explicit_bzero(reader, sizeof(*reader));
	free(reader);
	return code;
}

enum MHD_Result
download(struct MHD_Connection *connection, Request *request)
{
	FoundFile	found;
	size_t		place_len = strlen(options.store);
	char		why[WHY_SIZE] = "";
	char		etag[DIGEST_SIZE + 2];
	StoreReader *reader = NULL;
	StoreOutcome outcome = STORE_GONE;
	struct MHD_Response *response;
	FileTransfer *transfer;
	int			code = find(connection, request, &found);

	if (code != 200)
		return request_refuse(connection, request, (unsigned) code, code == 401 ? "Unauthorized" :
							  code == 404 ? "there is no such file" : "the file cannot be looked up now");
	if (strncmp(found.uri, options.store, place_len) == 0 && found.uri[place_len] == '/' &&
		store_key_valid(found.uri + place_len + 1))
		outcome = store->read_open(&reader, found.uri + place_len + 1, found.bytes, why);
	else
		snprintf(why, sizeof(why), "the file is not in --store");
	if (outcome != STORE_OK)
	{
		counts_store_failure(outcome);
		log_line(LOG_ERROR, "%s: %s", found.uri, why);
		return request_refuse(connection, request, outcome == STORE_GONE ? 404 : 503, outcome == STORE_GONE ?
							  "the file is not in the store of this server" : "the file cannot be read now");
	}
	transfer = allocate(sizeof(FileTransfer));
	*transfer = (FileTransfer) {.reader = reader, .peer = request->peer, .left = found.bytes,
	.digest = EVP_MD_CTX_new(), .found = found};
	if (transfer->digest == NULL || EVP_DigestInit_ex(transfer->digest, EVP_sha256(), NULL) != 1)
		abort();
	response = MHD_create_response_from_callback((uint64_t) found.bytes, BLOCK_SIZE, give, transfer, end);
	if (response == NULL)
		abort();
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/xml");
	if (found.encoding[0] != '\0')
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, found.encoding);
	MHD_add_response_header(response, "X-Report-Name", request->name.report);
	snprintf(etag, sizeof(etag), "\"%s\"", found.digest);
	MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, etag);
	request->status = 200;
	return answer_queue(connection, 200, response);
}
