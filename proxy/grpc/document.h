/*-------------------------------------------------------------------------
 *
 * document.h
 *	  Messages of senders as the documents that api_forward() stores, and its answers as messages.
 *
 * The same message always becomes the same document, whatever the order of its
 * maps: the database knows a repeated batch by its bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_DOCUMENT_H
#define GRPC_DOCUMENT_H

#include "grpc/status.h"

/* Which batch a document is. */
typedef struct DocumentBatch
{
	JsonText	assessment;
	uint32_t	sequence;
} DocumentBatch;

/* A pair of a map; of several with one key, the last counts. */
typedef struct DocumentPair
{
	JsonText	key;
	JsonText	value;
	size_t		place;			/* in the map */
} DocumentPair;

/*
 * A Batch of forward.proto as a document of POST /v1/forward/results.  False, with the status, when the bytes are no
 * Batch.  All texts are in the arena.
 */
extern bool document_of_batch(Arena *arena, JsonText message, JsonText *document, DocumentBatch *named,
							  CallStatus *status);

/* The same for an EvidenceBatch, as a document of POST /v1/forward/evidence. */
extern bool document_of_evidence(Arena *arena, JsonText message, JsonText *document, CallStatus *status);

/* The same for a ResultRequest of compliance.proto; extraMetadata are the pairs of the call's metadata. */

extern bool document_of_result(Arena *arena, JsonText message, DocumentPair *metadata, size_t metadata_count,
							   JsonText *document, CallStatus *status);

/* The names of fields for status_of_reply(). */
extern const char *document_batch_field(Arena *arena, const char *pointer);
extern const char *document_result_field(Arena *arena, const char *pointer);
extern const char *document_evidence_field(Arena *arena, const char *pointer);

/* The answers to batches, from the reply of api_forward(). */
extern JsonText document_stored(Arena *arena, const DocumentBatch *batch, JsonText reply);

extern JsonText document_evidence_stored(Arena *arena, JsonText reply);

#endif							/* GRPC_DOCUMENT_H */
