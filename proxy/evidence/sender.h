/*-------------------------------------------------------------------------
 *
 * sender.h
 *	  The credential that a request shows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_SENDER_H
#define EVIDENCE_SENDER_H

#include <microhttpd.h>

#include "evidence/ledger.h"

#define PASSWORD_SIZE 1024

/* A role of the database, as HTTP Basic names it. */
typedef struct Reader
{
	char		user[NAME_SIZE];
	char		password[PASSWORD_SIZE];
} Reader;

/*
 * The credential of a sender: a bearer token, or without Authorization the client certificate of the connection, if the
 * CAs of --client-ca-file trust it.  False: there is none, *why says so for the log.
 */
extern bool sender_credential(struct MHD_Connection *connection, bool certificate_only, Credential *credential,
							  const char **why);

/* Reads Authorization: Basic; false when there is none.  The caller clears the password after use. */
extern bool sender_reader(struct MHD_Connection *connection, Reader *reader);

/*
 * The value of a header that a request may have once; NULL: it has none.  *repeated: it has more, or one with a NUL.
 */
extern const char *sender_header(struct MHD_Connection *connection, const char *name, bool *repeated);

#endif							/* EVIDENCE_SENDER_H */
