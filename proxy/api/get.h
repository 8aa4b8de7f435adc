/*-------------------------------------------------------------------------
 *
 * get.h
 *	  A get of one object.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GET_H
#define GET_H

#include "api/exchange.h"
#include "decide/read.h"

/* Answers a get. */
extern void get_start(Exchange *exchange);

/* A call that reads an object of the type as a get does, for the probe of readiness. */
extern PgCall *get_probe(const RegistryType *type);

/*
 * Plans a read of a type that the proxy decides about (type->served is set).  False when the request cannot be
 * answered: then the answer has been sent.
 */
extern bool get_plan(Exchange *exchange, ReadPlan *plan);

/* The fault of a read whose rows could not be rendered. */
extern const PgError *read_fault(ReadOutcome outcome);

/* Adds group, version and resource, the first parameters of the calls that read. */
extern void pg_add_type(PgCall *call, const RegistryType *type);

/* Adds a text, or NULL for none and for an empty one. */
extern void pg_add_optional(PgCall *call, const char *text);

#endif							/* GET_H */
