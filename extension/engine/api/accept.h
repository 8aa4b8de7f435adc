/*-------------------------------------------------------------------------
 *
 * accept.h
 *	  The clauses of an Accept header, as goautoneg reads them, the library of
 *	  kube-apiserver.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ACCEPT_H
#define ACCEPT_H

#include "engine/base/json.h"

/* Later clauses of a header are ignored. */
#define ACCEPT_CLAUSES_MAX 64

typedef struct AcceptClause
{
	JsonText	range;			/* without blanks around it: type/subtype, type/... or any */
	JsonText	parameters;		/* after the first semicolon; for accept_parameter() */
	double		quality;		/* 1 without a valid q */
} AcceptClause;

/*
 * Reads the next clause of a header; false if no clause is left.  rest is the part of the header that is not read yet;
 * at the end of the header its bytes are NULL.
 */
extern bool accept_clause(JsonText *rest, AcceptClause *clause);

/* Reads the next parameter of a clause and skips parameters without a value; false if no parameter is left. */
extern bool accept_parameter(JsonText *parameters, JsonText *name, JsonText *value);

/* Reads the value of a parameter q; false, and *quality as before, when it is no number. */
extern bool accept_quality(JsonText text, double *quality);

/* The text without blanks around it. */
extern JsonText accept_trim(JsonText text);

/* Returns the text before the separator; *rest is the text behind it, with bytes NULL if there is no separator. */
extern JsonText accept_cut(JsonText text, char separator, JsonText *rest);

#endif							/* ACCEPT_H */
