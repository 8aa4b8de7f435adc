/*-------------------------------------------------------------------------
 *
 * request.h
 *	  A request, from its first line to the end of its answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_REQUEST_H
#define EVIDENCE_REQUEST_H

#include <microhttpd.h>
#include <openssl/evp.h>
#include <stdint.h>

#include "evidence/counts.h"
#include "evidence/ledger.h"
#include "evidence/store.h"
#include "evidence/watchdog.h"

typedef struct Request Request;

struct Request
{
	/* Known after the first line. */
	bool		escaped;		/* the target of the request has a %, which is refused: no name needs one */
	bool		begun;			/* the head was read */
	uint64_t	started;		/* start of the request, milliseconds of the monotonic clock */
	Operation	operation;
	unsigned	status;			/* status of the answer; 0: no answer yet */
	Peer	   *peer;			/* NULL before the head was read */
	FileName	name;
	Credential	credential;
	Entry		entry;

	/* For an upload. */
	bool		holds_slot;
	Request    *next_upload;	/* next request that holds a slot */
	bool		has_entry;		/* the database has noted the file, which is not announced yet */
	StoreWriter *writer;		/* NULL: refused, or finished */
	unsigned	refusal;		/* status of the answer when the body has ended; 0: none */
	char		message[MESSAGE_SIZE];
	EVP_MD_CTX *digest;
	uint64_t	bytes;			/* bytes of the body that have arrived */
};

extern const Store *store;		/* set at the start */

/* Wakes the thread that removes files, because there are files to remove. */
extern void removal_wake(void);

/* ---- upload.c; each function returns the result for libmicrohttpd ---- */

extern enum MHD_Result upload_begin(struct MHD_Connection *connection, Request *request, bool certificate_only);
extern enum MHD_Result upload_piece(struct MHD_Connection *connection, Request *request, const char *bytes,
									size_t len);
extern enum MHD_Result upload_end(struct MHD_Connection *connection, Request *request);

/* Returns the number of uploads in progress. */
extern unsigned upload_count(void);

/* Removes the file of a request if it was not announced, and frees the slot, the writer and the digest. */
extern void upload_release(Request *request);

/* ---- download.c ---- */

extern enum MHD_Result download(struct MHD_Connection *connection, Request *request);

/* Notes the status for the log and queues a refusal. */
extern enum MHD_Result request_refuse(struct MHD_Connection *connection, Request *request, unsigned status,
									  const char *message);

#endif							/* EVIDENCE_REQUEST_H */
