/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  The served types, and the discovery and OpenAPI documents.
 *
 * The proxy reads the registry from the database at the start and whenever
 * api_poll reports another generation, and keeps it while the database is
 * away.  A reading is immutable and reference-counted: a request keeps the
 * reading with which it began.
 *
 * A type that is missing in a reading may have been registered a moment ago.
 * Before the proxy answers 404 it asks the database for the generation.  One
 * question at a time serves all requests that wait.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRY_H
#define REGISTRY_H

#include "decide/definitions.h"

typedef struct Registry Registry;

typedef struct RegistryType
{
	int			lane;
	const char *group;
	const char *version;
	const char *resource;
	const char *kind;
	bool		namespaced;
	bool		status;			/* has the subresource status */
	const char *deprecation;	/* warning to users of the version; NULL when the version is not deprecated */
	const Served *served;		/* NULL in the variant in C, and for a type whose definition is damaged */
} RegistryType;

/* One who waits for the answer to registry_ask(). */
typedef struct RegistryWaiting
{
	void		(*answered) (void *state);	/* may free this entry */
	void	   *state;
	struct RegistryWaiting **link;	/* the registry's: the pointer to this entry */
	struct RegistryWaiting *next;	/* the registry's */
} RegistryWaiting;

struct Documents;
struct Route;

/* Call with the generation that api_poll returned: starts a reading when the last reading has another generation. */
extern void registry_generation(int64_t generation);

/*
 * Return a reference to the last reading (NULL before the first successful one), and another reference to a reading.
 * registry_release() ends a reference.
 */
extern Registry *registry_acquire(void);
extern Registry *registry_hold(Registry *registry);
extern void registry_release(Registry *registry);

/* Whether a reading has succeeded. */
extern bool registry_known(void);

/* Sets a function that is called once, when the first reading has succeeded. */
extern void registry_on_first_reading(void (*read) (void));

/* Whether the last reading has the resource or the document.  True before the first reading: then the answer is 503. */
extern bool registry_serves(const struct Route *route);

/*
 * Call when the last reading has proved wrong: some settings of a type change without a new generation.  The next
 * answer of the database about the generation starts a reading, whatever the generation is.
 */
extern void registry_distrust(void);

/*
 * Calls answered() when there is a reading at least as new as this call, or when the database gives none; never before
 * this function returns.  The entry must stay where it is until then, or until registry_stop_waiting().
 */
extern void registry_ask(RegistryWaiting *newcomer);
extern void registry_stop_waiting(RegistryWaiting *ended);

/* Returns all types of a reading, an array of *count elements. */
extern const RegistryType *registry_types(const Registry *registry, size_t *count);

/* Returns a type; NULL when it is not served.  *version_known: whether the group serves anything in the version. */
extern const RegistryType *registry_find(const Registry *registry, const char *group, const char *version,
										 const char *resource, bool *version_known);

/* Returns RegistryType.served of a version of a lane's type; NULL also when the type or registry is missing. */
extern const Served *registry_served(const Registry *registry, int lane, JsonText version);

/* Call before the first reading in a process that needs no documents: they are not read. */
extern void registry_without_documents(void);

/* Returns the documents of the last reading; NULL before the first. */
extern struct Documents *registry_documents(void);

#endif							/* REGISTRY_H */
