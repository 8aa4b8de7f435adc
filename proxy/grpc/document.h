/*-------------------------------------------------------------------------
 *
 * document.h
 *	  Converts messages of senders to the documents that api_forward() stores, and its replies to messages.
 *
 * The same message always becomes the same document, whatever the order of its
 * maps: the database recognizes a repeated batch by its bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_DOCUMENT_H
#define GRPC_DOCUMENT_H

#include "grpc/status.h"

/* Identifies a batch. */
typedef struct DocumentBatch
{
	JsonText	assessment;
	uint32_t	sequence;
} DocumentBatch;

/* A pair of a map; of several pairs with one key, the last one counts. */
typedef struct DocumentPair
{
	JsonText	key;
	JsonText	value;
	size_t		place;			/* position in the map */
} DocumentPair;

/*
 * Converts a Batch of forward.proto to a document of POST /v1/forward/results.  False, with the status, when the bytes
 * are not a Batch.  All texts are in the arena.
 */
extern bool document_of_batch(Arena *arena, JsonText message, JsonText *document, DocumentBatch *named,
							  CallStatus *status);

/* The same for an EvidenceBatch, as a document of POST /v1/forward/evidence. */
extern bool document_of_evidence(Arena *arena, JsonText message, JsonText *document, CallStatus *status);

/* The same for a ResultRequest of compliance.proto; metadata (pairs of the call's metadata) becomes extraMetadata. */

extern bool document_of_result(Arena *arena, JsonText message, DocumentPair *metadata, size_t metadata_count,
							   JsonText *document, CallStatus *status);

/* Return the path of a field of the message for a JSON pointer into its document, for status_of_reply(). */
extern const char *document_batch_field(Arena *arena, const char *pointer);
extern const char *document_result_field(Arena *arena, const char *pointer);
extern const char *document_evidence_field(Arena *arena, const char *pointer);

/* Return the messages that answer batches, made from the reply of api_forward(). */
extern JsonText document_stored(Arena *arena, const DocumentBatch *batch, JsonText reply);

extern JsonText document_evidence_stored(Arena *arena, JsonText reply);

#endif							/* GRPC_DOCUMENT_H */
