/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  What is served, and the discovery and OpenAPI documents.
 *
 * Read from the extension at the start and whenever api_poll reports another
 * generation; kept while the database is away.  A reading is immutable and
 * counted: answers that are being sent keep the one they began with.
 *
 * What a reading does not have may have been registered a moment ago: before
 * that is said to be unknown the database is asked for the generation, by one
 * question at a time for all who wait.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRY_H
#define REGISTRY_H

#include "engine/base/json.h"

typedef struct Registry Registry;

typedef struct RegistryType
{
	int			lane;
	const char *group;
	const char *version;
	const char *resource;
	const char *kind;
	bool		namespaced;
	bool		status;			/* has the subresource */
	const char *deprecation;	/* what users of the version are warned of; NULL when it is not deprecated */
} RegistryType;

struct Exchange;
struct Route;

/* The generation that api_poll saw; reads again when it is another one than that of the last reading. */
extern void registry_generation(int64_t generation);

/* NULL before the first successful reading; registry_release() ends the reference. */
extern Registry *registry_acquire(void);
extern void registry_release(Registry *registry);
extern bool registry_known(void);

/*
 * Whether the last reading has the resource or the document; true before the first one, which has an answer of its
 * own.
 */
extern bool registry_serves(const struct Route *route);

/*
 * The exchange goes on (exchange_next()) once there is a reading at least as new as this call, or none can be had:
 * never from inside.  Until then the registry holds it.
 */
extern void registry_refresh(struct Exchange *exchange);

/* All types of a reading. */
extern const RegistryType *registry_types(const Registry *registry, size_t *count);

/* NULL when not served; *version_known tells whether group and version are. */
extern const RegistryType *registry_find(const Registry *registry, const char *group, const char *version,
										 const char *resource, bool *version_known);

/* Answers a GET or HEAD of a document: 200, 304, 404 or 406, or 503 before the first reading. */
extern void registry_answer(struct Exchange *exchange);

/* What every answer is before the first reading (DISC-15). */
extern void registry_answer_unknown(struct Exchange *exchange);

#endif							/* REGISTRY_H */
