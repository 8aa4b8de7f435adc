/*-------------------------------------------------------------------------
 *
 * policies.h
 *	  Tells the database which policies the cluster has; it needs them to merge reports.
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
 * Call after each step of upkeep, with the state of the policies in the database.  by_proxies: proxies must report the
 * active policies; from the first such call on, this proxy follows them if there is a kube-apiserver.  stored: a proxy
 * has already reported them; if false, this proxy sends them again.
 */
extern void policies_follow(bool by_proxies, bool stored);

/*
 * Whether reports may be merged: this proxy knows the present policies and has sent them, or has no kube-apiserver.
 * *version is the version that the database gave to the sent set (0: any set).
 */
extern bool policies_known(int64_t *version);

#endif							/* POLICIES_H */
