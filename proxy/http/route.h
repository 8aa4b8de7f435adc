/*-------------------------------------------------------------------------
 *
 * route.h
 *	  Parses method, path and query of a request into a struct.
 *
 * Plain C without libpq and libh2o, because it reads the client's bytes first
 * (fuzz target regress/fuzz/route_fuzz.c).  registry.c knows whether the
 * resource is served.
 *
 * The parts are decoded once.  They have limits of length, and are valid UTF-8
 * afterwards (bad bytes become U+FFFD).  Errors (400) are bad escapes, NUL,
 * encoded slashes in the path, "." and ".." segments, a path over 4 KiB, and a
 * query over 256 KiB or with more than 200 parameters.
 *
 * Reference: k8s-conformance 5.1, REQ-03, REQ-04, REQ-07, TR-10, W-60.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ROUTE_H
#define ROUTE_H

#include "engine/base/json.h"

typedef struct RouteParameter
{
	JsonText	key;
	JsonText	value;
} RouteParameter;

typedef struct Route
{
	bool		resource;		/* a path of a resource; else (discovery, health) only path and method are set */
	const char *method;
	const char *path;			/* decoded, without slashes at its end; "/" for the root */
	/* get list watch create update patch delete deletecollection; "": the path does not allow the method */
	const char *verb;

	/*
	 * In the members below, but not in the path, a byte that is not UTF-8 becomes a character of its own: see
	 * FOREIGN_BYTE in engine/api/status.h.
	 */
	const char *group;			/* strings are never NULL; "" when absent */
	const char *version;
	const char *resource_name;
	const char *namespace_name;
	const char *name;			/* also for a watch of one object */
	const char *subresource;
	bool		watch_path;		/* the legacy form: the path contains /watch/ */
	bool		overlong;		/* has segments after the subresource, where nothing is served */
	RouteParameter *parameters; /* in the order of the query */
	size_t		parameter_count;
} Route;

/* Parses a request into the arena.  False with *error, which is kube-apiserver's message for the answer 400. */
extern bool route_parse(Arena *arena, const char *method, const char *path, const char *query,
						Route *route, const char **error);

/* Returns the first value of a parameter; NULL when the query does not have it. */
extern const JsonText *route_parameter(const Route *route, const char *key);

/*
 * Reads the parameter timeout (a Go duration such as 32s or 1m30s) in milliseconds, at most a day; 0 when it is absent,
 * 0 or negative.  False with *error when it is not a duration.
 */
extern bool route_timeout(Arena *arena, const Route *route, uint64_t *milliseconds, const char **error);

/*
 * Finds metadata.name of a JSON body without building a tree.  It is used to keep two writes of one object out of the
 * same batch.  BODY_NAME_UNKNOWN: the body is not JSON, or the name has escapes.
 */
typedef enum BodyName
{
	BODY_NAME_GIVEN,
	BODY_NAME_ABSENT,
	BODY_NAME_UNKNOWN
} BodyName;

extern BodyName route_body_name(const char *body, size_t len, JsonText *name);

#endif							/* ROUTE_H */
