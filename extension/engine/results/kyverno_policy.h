/*-------------------------------------------------------------------------
 *
 * kyverno_policy.h
 *	  Policies of Kyverno and of kube-apiserver: which count in reports, and
 *	  the names of their rules.
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
 * The names of the rules of a ClusterPolicy or Policy, in an array: its own rules, and the rules that Kyverno generates
 * from them for pod controllers.
 */
extern JsonNode *kyverno_policy_rules(Arena *arena, const JsonNode *policy);

/*
 * The description of a policy for the database:
 * {"policy":name or namespace/name,"source":...,"rules":[...],"version":resourceVersion}.  source is the source of the
 * results of this kind of policy; "" for ClusterPolicy and Policy, the only kinds with rules.  NULL when the results
 * of the policy do not count: a label disables them, or no label enables them (admission policies of kube-apiserver).
 */
extern JsonNode *kyverno_policy_active(Arena *arena, const JsonNode *policy, const char *source);

#endif							/* KYVERNO_POLICY_H */
