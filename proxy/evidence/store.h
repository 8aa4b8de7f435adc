/*-------------------------------------------------------------------------
 *
 * store.h
 *	  Where files of evidence go: a directory, an S3 bucket, another server.
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
	STORE_FULL,					/* there is no room */
	STORE_FAILED,				/* does not work now; why says more */
	STORE_GONE					/* there is no such file, or it cannot be read back from this kind of store */
} StoreOutcome;

/* What is written. */
typedef struct StoreFile
{
	const char *key;			/* valid as store_key_valid() says */
	const char *name;			/* of the report */
	const char *encoding;		/* "" or bzip2 */
	int64_t		bytes;			/* as announced; -1: not announced */
} StoreFile;

typedef struct StoreWriter StoreWriter;
typedef struct StoreReader StoreReader;

/* Each outcome but STORE_OK writes a reason for the log to why, WHY_SIZE bytes. */
typedef struct Store
{
	const char *provider;
	StoreOutcome (*open) (StoreWriter **writer, const StoreFile *file, char *why);
	StoreOutcome (*write) (StoreWriter *writer, const char *bytes, size_t len, char *why);
	StoreOutcome (*finish) (StoreWriter *writer, char *why);
	/* Frees the writer; without finish() or after its failure, nothing of the file stays. */
	void		(*close) (StoreWriter *writer);
	/* Also removes what an interrupted upload has left.  A file that is not there is no failure. */
	StoreOutcome (*remove) (const char *key, char *why);
	StoreOutcome (*read_open) (StoreReader **reader, const char *key, int64_t bytes, char *why);
	/* Returns the number of bytes; 0 at the end, -1 on failure. */
	ssize_t		(*read) (StoreReader *reader, char *buffer, size_t size);
	void		(*read_close) (StoreReader *reader);
} Store;

/* Opens the store of --store; NULL with a reason. */
extern const Store *store_open(char *why);

/* Whether a key is a relative path of names that each begin with a letter or digit and have no strange characters. */
extern bool store_key_valid(const char *key);

extern const Store *directory_store_open(const char *path, char *why);
extern const Store *s3_store_open(const char *bucket_and_prefix, char *why);
extern const Store *http_store_open(const char *url, char *why);

#endif							/* EVIDENCE_STORE_H */
