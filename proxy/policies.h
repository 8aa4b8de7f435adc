/*-------------------------------------------------------------------------
 *
 * policies.h
 *	  Which policies the cluster has, for the database that merges reports.
 *
 * Reference: reports-server 5.3, rules 4 and 9.
 *
 *-------------------------------------------------------------------------
 */
#ifndef POLICIES_H
#define POLICIES_H

#include <stdbool.h>

/*
 * The database wants to know them: they are followed from now on, if there is a kube-apiserver.  stored: it has been told already, by
 * whomever; if not, it is told again.
 */
extern void policies_follow(bool stored);

/* Whether the database knows what this proxy knows, or there is nobody to ask: reports may be merged. */
extern bool policies_known(void);

#endif							/* POLICIES_H */
