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

/* Answers a get. */
extern void get_start(Exchange *exchange);

/* Returns a call that reads an object of the type as a get does, for the probe of readiness. */
extern PgCall *get_probe(const RegistryType *type);

#endif							/* GET_H */
