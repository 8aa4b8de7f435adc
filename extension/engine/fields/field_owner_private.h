/*-------------------------------------------------------------------------
 *
 * field_owner_private.h
 *	  Declarations shared by field_owner.c and field_apply.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FIELD_OWNER_PRIVATE_H
#define FIELD_OWNER_PRIVATE_H

#include "engine/fields/field_owner.h"

/* One entry of managedFields. */
typedef struct FieldOwner
{
	JsonText	identity;		/* MF-01: JSON of name, operation, version (of an update) and subresource */
	JsonText	name;
	JsonText	api_version;
	JsonText	subresource;
	bool		applied;
	JsonNode   *time;			/* NULL: none */
	int64_t		seconds;		/* of the time; 0 without */
	const FieldSet *fields;
} FieldOwner;

/* Owners sorted by identity, unique. */
typedef struct FieldOwners
{
	FieldOwner *list;
	size_t		count;
	size_t		capacity;
} FieldOwners;

/* False with *error when upstream could not read the entries.  entries may be NULL for none. */
extern bool field_owners_read(Arena *arena, const JsonNode *entries, FieldOwners *owners, const char **error);

/* Sets metadata.managedFields of a document. */
extern void field_owners_store(Arena *arena, FieldOwners *owners, JsonNode *document);

/* The owner with this identity; a new owner without fields and time is added when there is none. */
extern FieldOwner *field_owners_claim(const FieldWrite *write, FieldOwners *owners, const char *name, bool applied);

/* Adapt the sets to the present schema; remove owners without fields; set the time of an owner to now. */
extern void field_owners_reconcile(const FieldWrite *write, FieldOwners *owners);
extern void field_owners_drop_empty(FieldOwners *owners);
extern void field_owner_touch(const FieldWrite *write, FieldOwner *owner);

/* MF-05: an update by the owner called name; false with *error when the documents cannot be compared. */
extern bool field_owners_update(const FieldWrite *write, FieldOwners *owners, const char *name, const JsonNode *live,
								const JsonNode *document, const char **error);

/*
 * The set without the fields that the write cannot change: status in the main resource; metadata, spec in the status.
 */
extern const FieldSet *field_without_reset(const FieldWrite *write, const FieldSet *set);

/* MF-02: the set without the fields that never have owners. */
extern const FieldSet *field_without_unowned(Arena *arena, const FieldSet *set);

#endif							/* FIELD_OWNER_PRIVATE_H */
