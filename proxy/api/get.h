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

/* Returns a call that reads an object of the type as a get does, for the probe of readiness. */
extern PgCall *get_probe(const RegistryType *type);

/*
 * Plans a read in the variant sql (type->served is set).  False when the request is invalid; then the request has been
 * answered.
 */
extern bool get_plan(Exchange *exchange, ReadPlan *plan);

/* Returns the error of a read whose rows could not be rendered. */
extern const PgError *read_fault(ReadOutcome outcome);

/* Adds group, version and resource, the first parameters of the calls that read. */
extern void pg_add_type(PgCall *call, const RegistryType *type);

/* Adds a text as the next parameter; NULL and "" become a SQL null. */
extern void pg_add_optional(PgCall *call, const char *text);

#endif							/* GET_H */
