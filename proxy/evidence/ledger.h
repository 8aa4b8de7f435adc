/*-------------------------------------------------------------------------
 *
 * ledger.h
 *	  What the database knows of evidence: the functions api_evidence_*.
 *
 * Functions block, also while all connections are in use, for a few seconds at
 * most.
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
	char		cluster[ID_SIZE];	/* from ledger_commit() on, like the index */
	int			index;
} Entry;

/* A file that was found. */
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
 * Each returns an HTTP status: 503 without the database.  Other statuses but 2xx have a message, of MESSAGE_SIZE bytes.
 * ledger_begin() replaces an empty scan of the name.  bytes: -1 when they are not known.
 */
extern int	ledger_begin(const Credential *credential, FileName *name, int64_t bytes, Entry *entry, char *message);
extern int	ledger_commit(const Credential *credential, const FileName *name, const char *provider, const char *digest,
						  int64_t bytes, Entry *entry, char *message);
extern int	ledger_find(const Credential *credential, const FileName *name, FoundFile *found);

/* The same as a role of the database sees it, on a connection of its own. */
extern int	ledger_find_as_reader(const char *user, const char *password, const FileName *name, FoundFile *found);

/* Calls remove for each file that is to be removed, and forgets those for which it returns true.  How many were due. */
extern int	ledger_remove(bool (*remove) (const char *key));

/* Forgets the file of an upload that was given up, after it is removed. */
extern void ledger_forget(const char *id);

#endif							/* EVIDENCE_LEDGER_H */
