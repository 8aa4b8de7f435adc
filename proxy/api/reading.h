/*-------------------------------------------------------------------------
 *
 * reading.h
 *	  What gets, lists and watches have in common: plans, parameters of calls and errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef READING_H
#define READING_H

#include "api/exchange.h"
#include "decide/read.h"

/*
 * Plans a read in the variant sql (type->served is set).  False when the request is invalid; then the request has been
 * answered.
 */
extern bool get_plan(Exchange *exchange, ReadPlan *plan);

/* Returns the error of a read whose rows could not be rendered. */
extern const PgError *read_fault(ReadOutcome outcome);

/* The error of a piece whose form this proxy does not know. */
extern const PgError piece_unknown;

/* Adds group, version and resource, the first parameters of the calls that read. */
extern void pg_add_type(PgCall *call, const RegistryType *type);

/* Adds a text as the next parameter; NULL and "" become a SQL null. */
extern void pg_add_optional(PgCall *call, const char *text);

#endif							/* READING_H */
