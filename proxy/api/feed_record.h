/*-------------------------------------------------------------------------
 *
 * feed_record.h
 *	  What the feed process tells the workers: the bytes of a record.
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
	FEED_STATE,					/* its texts: the representations that all later events carry */
	FEED_LOST,					/* the log does not have the position; version is where the log begins */
	FEED_GENERATION				/* of the registry, in version; lane is 0 */
} FeedRecordKind;

typedef struct FeedRecordHead
{
	int32_t		kind;
	int32_t		lane;
	int64_t		after;
	int64_t		version;
} FeedRecordHead;

/* Writes a record; with bytes NULL, only adds up its size. */
typedef struct FeedRecordWriter
{
	char	   *bytes;
	size_t		size;
} FeedRecordWriter;

/* An event with its views; the version of the head is the event's. */
extern void feed_record_event(FeedRecordWriter *writer, const FeedRecordHead *head, const Event *event);

/* Any other record: representations follow only in a FEED_STATE. */
extern void feed_record_state(FeedRecordWriter *writer, const FeedRecordHead *head, const int *representations,
							  size_t count);

/* Reads a record; the texts point into it. */
typedef struct FeedRecordReader
{
	const char *next;
	const char *end;
} FeedRecordReader;

extern FeedRecordHead feed_record_begin(FeedRecordReader *reader, const RingRecord *record);

/* The next representation of a FEED_STATE; false at the end. */
extern bool feed_record_token(FeedRecordReader *reader, JsonText *token);

/* The event of a FEED_EVENT, in the arena; it has no changes. */
extern Event *feed_record_read_event(FeedRecordReader *reader, const FeedRecordHead *head, Arena *arena);

#endif							/* FEED_RECORD_H */
