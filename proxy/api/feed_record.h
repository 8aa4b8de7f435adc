/*-------------------------------------------------------------------------
 *
 * feed_record.h
 *	  The records that the feed process sends to the workers: their bytes.
 *
 * The records of a lane are a chain: each record continues after one version
 * (after) and completes the changes up to another (version).  A reader whose
 * version is lower than after has missed a record.  A reader whose version is
 * higher gets some versions again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FEED_RECORD_H
#define FEED_RECORD_H

#include "api/event.h"
#include "base/shared_ring.h"

typedef enum FeedRecordKind
{
	FEED_EVENT,
	FEED_STATE,					/* has texts: the representations that all later events have */
	FEED_LOST,					/* the log does not have the position; version is where the log begins */
	FEED_GENERATION				/* version is the generation of the registry; lane is 0 */
} FeedRecordKind;

typedef struct FeedRecordHead
{
	int32_t		kind;
	int32_t		lane;
	int64_t		after;
	int64_t		version;
} FeedRecordHead;

/* Writes a record to bytes; when bytes is NULL, only adds up the size. */
typedef struct FeedRecordWriter
{
	char	   *bytes;
	size_t		size;
} FeedRecordWriter;

/* Writes a FEED_EVENT: an event with its views.  head->version is the version of the event. */
extern void feed_record_event(FeedRecordWriter *writer, const FeedRecordHead *head, const Event *event);

/* Writes a record of another kind.  Only a FEED_STATE has representations. */
extern void feed_record_state(FeedRecordWriter *writer, const FeedRecordHead *head, const int *representations,
							  size_t count);

/* Reads a record.  The texts that the functions return point into the record. */
typedef struct FeedRecordReader
{
	const char *next;
	const char *end;
} FeedRecordReader;

extern FeedRecordHead feed_record_begin(FeedRecordReader *reader, const RingRecord *record);

/* Reads the next representation of a FEED_STATE; false after the last one. */
extern bool feed_record_token(FeedRecordReader *reader, JsonText *token);

/* Returns the event of a FEED_EVENT, in the arena; its member changes is NULL. */
extern Event *feed_record_read_event(FeedRecordReader *reader, const FeedRecordHead *head, Arena *arena);

#endif							/* FEED_RECORD_H */
