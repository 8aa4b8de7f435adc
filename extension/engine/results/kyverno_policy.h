/*-------------------------------------------------------------------------
 *
 * kyverno_policy.h
 *	  Policies of Kyverno and of kube-apiserver: which count in reports, and
 *	  what their rules are called.
 *
 * Reference: reports-server 5.3, rule 4; Kyverno's pkg/autogen (v1) and
 * pkg/controllers/report/utils.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KYVERNO_POLICY_H
#define KYVERNO_POLICY_H

#include "engine/base/json.h"

/*
 * The names of the rules of a ClusterPolicy or Policy, in an array: its own, and those that Kyverno makes of them for
 * pod controllers.
 */
extern JsonNode *kyverno_policy_rules(Arena *arena, const JsonNode *policy);

/*
 * What the database is told of a policy: {"policy":name or
 * namespace/name,"source":...,"rules":[...],"version":resourceVersion}.  source is that of its kind's results, "" for
 * ClusterPolicy and Policy, which alone have rules.  NULL when its results do not count: it is labelled so, or
 * (admission policies of kube-apiserver) not labelled as one that does.
 */
extern JsonNode *kyverno_policy_active(Arena *arena, const JsonNode *policy, const char *source);

#endif							/* KYVERNO_POLICY_H */
