/*-------------------------------------------------------------------------
 *
 * export_request.h
 *	  Turns a request for an export into the request of api_export().
 *
 * Plain C without libpq and libh2o, because it reads the client's bytes (fuzz
 * target regress/fuzz/export_fuzz.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXPORT_REQUEST_H
#define EXPORT_REQUEST_H

#include "http/route.h"

/* Whether the authorized path is an export. */
extern bool export_path(const char *path);

/*
 * Returns the request of api_export(), made from an export path, its query and the Accept header (NULL: none).
 * resolved: the names that a selector of namespaces stands for; NULL: there is no selector.  On failure the bytes are
 * NULL, and *code (400 or 406) and *why are set.  The database checks the names of the filter's members.
 */
extern JsonText export_request(Arena *arena, const Route *route, const char *accept, JsonNode *resolved, int *code,
							   const char **why);

#endif							/* EXPORT_REQUEST_H */
