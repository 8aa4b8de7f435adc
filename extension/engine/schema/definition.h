/*-------------------------------------------------------------------------
 *
 * definition.h
 *	  One served version of a resource type, as the engine needs it.
 *
 * The registry keeps, for every served version of a type, a definition
 * document made from its CustomResourceDefinition:
 *
 *	{"group":"wgpolicyk8s.io","version":"v1alpha2","kind":"PolicyReport",
 *	 "listKind":"PolicyReportList","plural":"policyreports","singular":"policyreport",
 *	 "shortNames":["polr"],"categories":[],"scope":"Namespaced","status":false,"storage":true,
 *	 "columns":[{"name":"Kind","type":"string","jsonPath":".scope.kind",...}],
 *	 "deprecationWarning":"...",
 *	 "schema":{...openAPIV3Schema...}}
 *
 * Only a deprecated version has a warning, and only one with CEL rules has "unevaluatedRules", an array of texts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DEFINITION_H
#define DEFINITION_H

#include "engine/schema/schema.h"

typedef struct TableColumn TableColumn; /* table.h */

typedef struct Definition
{
	const char *group;
	const char *version;
	const char *api_version;	/* group/version */
	const char *kind;
	const char *list_kind;
	const char *plural;
	const char *singular;
	bool		namespaced;
	bool		status_subresource;
	const JsonNode *document;	/* the whole definition */
	Schema	   *schema;			/* NULL in a definition without one */
	TableColumn *columns;
	size_t		column_count;
	const char *rules_warning;	/* what a writer is told of rules that are not evaluated; NULL for none */
} Definition;

/* The document is one that crd_definitions() made; errors cannot happen unless it was tampered with: then NULL. */
extern Definition *definition_compile(Arena *arena, const JsonNode *document);

/*
 * Checks a CustomResourceDefinition (apiextensions.k8s.io/v1) and makes its definition documents, one
 * for each served version, in the CRD's order of versions by Kubernetes version priority (v1 before v1beta1 ...).
 * Result:
 * {"group","plural","singular","kind","listKind","scope","shortNames","categories","versions":[definition...]}
 * Defaults of the CRD API are filled in (singular, listKind, the Age column).  NULL when refused, with errors whose
 * paths are those of the CRD ("spec.versions[0].schema.openAPIV3Schema.properties[spec].uniqueItems").
 */
extern JsonNode *crd_definitions(Arena *arena, const JsonNode *crd, FieldErrorList *errors);

#endif							/* DEFINITION_H */
