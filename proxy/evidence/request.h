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
	/* Of the first line. */
	bool		escaped;		/* the target of the request has a %: no name needs one */
	bool		begun;			/* the head was read */
	uint64_t	started;		/* milliseconds */
	Operation	operation;
	unsigned	status;			/* of the answer; 0: none yet */
	Peer	   *peer;			/* NULL before the head was read */
	FileName	name;
	Credential	credential;
	Entry		entry;

	/* Of an upload. */
	bool		holds_slot;
	Request    *next_upload;	/* of those that hold a slot */
	bool		has_entry;		/* the database knows of the file, and nothing announces it */
	StoreWriter *writer;		/* NULL: refused, or finished */
	unsigned	refusal;		/* status of the answer when the body has ended; 0: none */
	char		message[MESSAGE_SIZE];
	EVP_MD_CTX *digest;
	uint64_t	bytes;			/* of the body */
};

extern const Store *store;		/* set at the start */

/* Tells the thread that removes files that there are some. */
extern void removal_wake(void);

/* ---- upload.c; each returns what the handler of libmicrohttpd returns ---- */

extern enum MHD_Result upload_begin(struct MHD_Connection *connection, Request *request, bool certificate_only);
extern enum MHD_Result upload_piece(struct MHD_Connection *connection, Request *request, const char *bytes,
									size_t len);
extern enum MHD_Result upload_end(struct MHD_Connection *connection, Request *request);

/* How many uploads are under way. */
extern unsigned upload_count(void);

/* Gives up what was not announced, and frees what the request holds. */
extern void upload_release(Request *request);

/* ---- download.c ---- */

extern enum MHD_Result download(struct MHD_Connection *connection, Request *request);

/* Notes the status for the log and queues a refusal. */
extern enum MHD_Result request_refuse(struct MHD_Connection *connection, Request *request, unsigned status,
									  const char *message);

#endif							/* EVIDENCE_REQUEST_H */
