/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  Calls of the database about evidence: the functions api_evidence_*.
 *
 * The functions block, at most for a few seconds, also while all connections
 * are in use.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_LEDGER_H
#define EVIDENCE_LEDGER_H

#include "evidence/file_name.h"
#include "evidence/store.h"

#define URI_SIZE 1024
#define DIGEST_SIZE 65			/* SHA-256 in hexadecimal */
#define MESSAGE_SIZE 256

typedef struct Credential
{
	const char *kind;			/* token or certificate, a literal */
	char		text[NAME_SIZE];	/* SHA-256 of the token, or the common name */
} Credential;

/* An upload that has begun. */
typedef struct Entry
{
	char		id[ID_SIZE];
	char		key[KEY_SIZE];
	char		sender[NAME_SIZE];
	char		cluster[ID_SIZE];	/* ledger_commit() sets cluster and index */
	int			index;
} Entry;

/* A file that ledger_find() has found. */
typedef struct FoundFile
{
	char		digest[DIGEST_SIZE];
	int64_t		bytes;
	char		encoding[16];
	char		uri[URI_SIZE];
} FoundFile;

extern void ledger_open(void);

/* Whether the database answers and the role may store evidence. */
extern bool ledger_ready(void);

/*
 * Note the begin of an upload; announce its file; find a file.  Each returns an HTTP status: 503 when the database does
 * not answer.  For other statuses except 2xx, message (MESSAGE_SIZE bytes) has the reason.  ledger_begin() sets the
 * scan of the name if it is empty.  bytes: size of the file; -1 when it is not known.
 */
extern int	ledger_begin(const Credential *credential, FileName *name, int64_t bytes, Entry *entry, char *message);
extern int	ledger_commit(const Credential *credential, const FileName *name, const char *provider, const char *digest,
						  int64_t bytes, Entry *entry, char *message);
extern int	ledger_find(const Credential *credential, const FileName *name, FoundFile *found);

/* Finds a file with the rights of a role of the database, on a connection that is opened for that role. */
extern int	ledger_find_as_reader(const char *user, const char *password, const FileName *name, FoundFile *found);

/*
 * Calls remove() for each file that is to be removed; when it returns true, the database forgets the file.  Returns how
 * many files were to be removed.
 */
extern int	ledger_remove(bool (*remove) (const char *key));

/* Makes the database forget the file of an upload that was given up.  Call after the file is removed. */
extern void ledger_forget(const char *id);

#endif							/* EVIDENCE_LEDGER_H */
