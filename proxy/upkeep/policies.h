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
#include <stdint.h>

/*
 * What the database says of them, to be called again and again.  by_proxies: proxies are to tell which are active:
 * they are followed from the first time on, if there is a kube-apiserver.  stored: it has been told already, by
 * whomever; if not, it is told again.
 */
extern void policies_follow(bool by_proxies, bool stored);

/*
 * Whether this proxy knows which policies the cluster has now, and has told, or there is nobody to ask: reports may
 * be merged by the set of *version, as the database gave it (0: by any).
 */
extern bool policies_known(int64_t *version);

#endif							/* POLICIES_H */
