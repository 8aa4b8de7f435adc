/*-------------------------------------------------------------------------
 *
 * export_request.h
 *	  What a request for an export asks of the database.
 *
 * Plain C without libpq and libh2o, because it reads the client's bytes (fuzz
 * target regress/fuzz/export_fuzz.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXPORT_REQUEST_H
#define EXPORT_REQUEST_H

#include "http/route.h"

/* Whether a path, as it was authorized, is one of an export. */
extern bool export_path(const char *path);

/*
 * The request of api_export() for such a path, its query and the Accept header (NULL: none).  bytes NULL, with *code
 * (400, 406) and *why, when it cannot be one; which members a filter may have, the database knows.
 */
extern JsonText export_request(Arena *arena, const Route *route, const char *accept, int *code, const char **why);

#endif							/* EXPORT_REQUEST_H */
