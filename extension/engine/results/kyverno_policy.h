/*-------------------------------------------------------------------------
 *
 * kyverno_policy.h
 *	  The names of the rules of Kyverno's policies.
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

#endif							/* KYVERNO_POLICY_H */
