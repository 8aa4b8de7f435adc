/*-------------------------------------------------------------------------
 *
 * write_private.h
 *	  Declarations shared by the files write*.c.
 *
 * A function that can refuse a write returns false (or NULL) after it has put
 * the Status into the outcome; its callers only return.
 *
 *-------------------------------------------------------------------------
 */
#ifndef WRITE_PRIVATE_H
#define WRITE_PRIVATE_H

#include <string.h>

#include "engine/api/delete_proto.h"
#include "engine/fields/field_owner.h"
#include "engine/api/metadata.h"
#include "engine/writes/document_admit.h"
#include "engine/writes/patch.h"
#include "engine/results/summary.h"
#include "engine/writes/write.h"

/* Maximum complaints (unknown and duplicate fields) about one document, as in upstream's decoder. */
#define COMPLAINTS_MAX 100

/* The Go type for the kind and apiVersion of a body, which upstream reads first; messages print the whole type. */
#define GO_TYPE_META \
	"struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"

typedef enum FieldValidation
{
	FIELD_VALIDATION_WARN,
	FIELD_VALIDATION_STRICT,
	FIELD_VALIDATION_IGNORE
} FieldValidation;

typedef enum Propagation
{
	PROPAGATION_UNSET,
	PROPAGATION_ORPHAN,
	PROPAGATION_FOREGROUND,
	PROPAGATION_BACKGROUND
} Propagation;

typedef struct WriteOptions
{
	bool		dry_run;
	FieldValidation validation;
	const char *owner;			/* the field manager */

	/* Deletes only. */
	Propagation propagation;	/* also set for orphanDependents */
	bool		accepts;		/* orphanDependents=false: 202 for a delete that must wait */
	const JsonNode *uid;		/* preconditions; NULL for none */
	const JsonNode *version;
} WriteOptions;

/* A type of patch: one row of the table in write_patch.c.  Without functions: server-side apply (write_apply.c). */
typedef struct PatchType
{
	const char *content_type;
	PatchResult (*apply) (Arena *arena, JsonNode **document, const JsonNode *patch, bool checked, const char **error);
	void		(*complain) (Arena *arena, const JsonNode *patch, JsonNode *complaints);
	const char *complaint_prefix;
} PatchType;

/* Results of write_admit() for write_decide(). */
typedef struct AdmittedWrite
{
	WriteOptions options;
	JsonNode   *document;		/* of an update: the decoded body */
	const PatchType *patch_type;
	const JsonNode *patch;
	const JsonNode *complaints; /* about the text of the patch itself */
} AdmittedWrite;

/* The state of one step of a write. */
typedef struct Writing
{
	Arena	   *arena;
	const Definition *definition;
	const ApiRequest *request;
	const WriteContext *context;
	const char *body;
	size_t		body_len;
	AdmittedWrite *admitted;
	const StoredObject *stored;
	WriteOutcome *outcome;
	bool		reworded;		/* admission changed the merged metadata of an apply */
	StrBuf		reply;			/* a Status under construction */
} Writing;

/*
 * The stored object, parsed: with defaults that the schema got later, without resourceVersion, and without the body
 * when it is not needed.
 */
typedef struct OldObject
{
	JsonNode   *document;
	JsonNode   *metadata;		/* of the document */
} OldObject;

/* write.c: answers */
extern void write_answer_status(Writing *writing, WriteAction action, int code);	/* the Status is in reply */
extern bool write_refuse(Writing *writing, int code);
extern bool write_bad_request(Writing *writing, const char *message);
extern bool write_not_found(Writing *writing);
extern void write_warn(Writing *writing, const char *text);
extern void write_answer_object(Writing *writing, WriteAction action, int code, const JsonNode *document,
								bool versioned);

/* write.c: the parts of a request */
extern bool write_has_content_type(const Writing *writing, const char *wanted); /* ignoring parameters */
extern bool write_check_content_type(Writing *writing, bool options);	/* of an object, or of DeleteOptions */
extern bool write_check_size(Writing *writing);
extern bool write_take_options(Writing *writing, const char *kind);
extern void write_check_dry_run(const JsonNode *values, WriteOptions *options, FieldErrorList *errors);
extern bool write_set_key(Writing *writing);
extern bool write_check_namespace(Writing *writing, const char *name);

/* write_document.c: documents */
extern JsonNode *write_decode_body(Writing *writing);
extern bool write_shape_document(Writing *writing, JsonNode *document, JsonNode *complaints,
								 bool *kind_known, const char **error);
extern bool write_check_version(Writing *writing, const JsonNode *document);
extern bool write_agree_namespace(Writing *writing, JsonNode *document);
extern bool write_agree_name(Writing *writing, const JsonNode *document);
extern void write_dedup_owners(Writing *writing, JsonNode *document, bool patched);
extern bool write_validate(Writing *writing, JsonNode *document, const OldObject *old);
extern void write_warn_finalizers(Writing *writing, const JsonNode *document, const OldObject *old);
extern bool write_parse_stored(Writing *writing, bool with_body, OldObject *old);
extern int64_t metadata_generation(const JsonNode *metadata);
extern JsonNode *next_generation(Arena *arena, int64_t generation);
extern const char *metadata_text(Arena *arena, const JsonNode *document, const char *key);

/* Parts of one verb that other verbs use, too. */
extern FieldWrite write_fields(const Writing *writing);
extern void write_set_system_fields(Writing *writing, JsonNode *document);
extern bool write_check_create(Writing *writing, JsonNode *document);
extern void write_update_object(Writing *writing, JsonNode *document, const OldObject *old);
extern void write_update_owned(Writing *writing, JsonNode *document, const OldObject *old);
extern void write_take_member(Arena *arena, JsonNode *object, const JsonNode *from, const char *key);
extern JsonNode *write_versioned_copy(Writing *writing, const OldObject *old);
extern bool write_conflict(Writing *writing, const char *why);
extern bool write_admit_apply(Writing *writing);
extern void write_decide_apply(Writing *writing);

/* The verbs. */
extern void write_admit_create(Writing *writing);
extern void write_decide_create(Writing *writing);
extern void write_admit_update(Writing *writing);
extern void write_decide_update(Writing *writing);
extern void write_admit_patch(Writing *writing);
extern void write_decide_patch(Writing *writing);
extern void write_admit_delete(Writing *writing);
extern void write_decide_delete(Writing *writing);

#endif							/* WRITE_PRIVATE_H */
