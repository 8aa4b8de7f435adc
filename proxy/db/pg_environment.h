/*-------------------------------------------------------------------------
 *
 * pg_environment.h
 *	  The variables of the environment that libpq reads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_ENVIRONMENT_H
#define PG_ENVIRONMENT_H

/*
 * Removes line ends from the ends of the variables that the chart takes from Secrets (PGPASSWORD, PGUSER, ...).  Call
 * once, before libpq is used and before threads are started.
 */
extern void pg_environment_start(void);

#endif							/* PG_ENVIRONMENT_H */
