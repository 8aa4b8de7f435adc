/*-------------------------------------------------------------------------
 *
 * sender.h
 *	  The credential of a request.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_SENDER_H
#define EVIDENCE_SENDER_H

#include <microhttpd.h>

#include "evidence/ledger.h"

#define PASSWORD_SIZE 1024

/* A role of the database and its password, from HTTP Basic. */
typedef struct Reader
{
	char		user[NAME_SIZE];
	char		password[PASSWORD_SIZE];
} Reader;

/*
 * Reads the credential of a sender: a bearer token; or, without the header Authorization, the client certificate of the
 * connection, if a CA of --client-ca-file issued it.  certificate_only: a token is ignored.  False when there is no
 * credential, with the reason for the log in *why.
 */
extern bool sender_credential(struct MHD_Connection *connection, bool certificate_only, Credential *credential,
							  const char **why);

/* Reads Authorization: Basic; false when the request does not have it.  The caller clears the password after use. */
extern bool sender_reader(struct MHD_Connection *connection, Reader *reader);

/*
 * Returns the value of a header that a request may have once; NULL: no such header.  *repeated: the request has several
 * such headers, or the value has a NUL.
 */
extern const char *sender_header(struct MHD_Connection *connection, const char *name, bool *repeated);

#endif							/* EVIDENCE_SENDER_H */
