/*-------------------------------------------------------------------------
 *
 * store.h
 *	  The store of files of evidence: a directory, an S3 bucket, or another server.
 *
 * A file is written once under a key of its own and never changed.  finish()
 * returns when the file is whole and durable at the store; before that, no
 * reader of the store sees it.  Functions block; each connection has a thread.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_STORE_H
#define EVIDENCE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEY_SIZE 512			/* a key with its NUL */
#define WHY_SIZE 256

typedef enum StoreOutcome
{
	STORE_OK,
	STORE_FULL,					/* the store has no room */
	STORE_FAILED,				/* the store does not work at present; why has the reason */
	STORE_GONE					/* the file does not exist, or this kind of store cannot read files back */
} StoreOutcome;

/* A file to write. */
typedef struct StoreFile
{
	const char *key;			/* store_key_valid() is true for it */
	const char *name;			/* name of the report */
	const char *encoding;		/* "" or bzip2 */
	int64_t		bytes;			/* announced size; -1: not announced */
} StoreFile;

typedef struct StoreWriter StoreWriter;
typedef struct StoreReader StoreReader;

/* A kind of store.  When the outcome is not STORE_OK, why (WHY_SIZE bytes) has a reason for the log. */
typedef struct Store
{
	const char *provider;
	StoreOutcome (*open) (StoreWriter **writer, const StoreFile *file, char *why);
	StoreOutcome (*write) (StoreWriter *writer, const char *bytes, size_t len, char *why);
	StoreOutcome (*finish) (StoreWriter *writer, char *why);
	/* Frees the writer.  Without finish(), or when finish() has failed, the file is removed. */
	void		(*close) (StoreWriter *writer);
	/* Removes a file, or the parts of an interrupted upload.  A missing file is not a failure. */
	StoreOutcome (*remove) (const char *key, char *why);
	StoreOutcome (*read_open) (StoreReader **reader, const char *key, int64_t bytes, char *why);
	/* Returns the number of bytes; 0 at the end, -1 on failure. */
	ssize_t		(*read) (StoreReader *reader, char *buffer, size_t size);
	void		(*read_close) (StoreReader *reader);
} Store;

/* Opens the store of --store; NULL with the reason in why, WHY_SIZE bytes. */
extern const Store *store_open(char *why);

/* Whether a key is a relative path of names, each of letters, digits and . _ -, that begin with a letter or digit. */
extern bool store_key_valid(const char *key);

extern const Store *directory_store_open(const char *path, char *why);
extern const Store *s3_store_open(const char *bucket_and_prefix, char *why);
extern const Store *http_store_open(const char *url, char *why);

#endif							/* EVIDENCE_STORE_H */
