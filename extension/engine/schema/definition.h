/*-------------------------------------------------------------------------
 *
 * definition.h
 *	  One served version of a resource type, as the engine uses it.
 *
 * For every served version of a type, the registry stores a definition
 * document made from the CustomResourceDefinition:
 *
 *	{"group":"wgpolicyk8s.io","version":"v1alpha2","kind":"PolicyReport",
 *	 "listKind":"PolicyReportList","plural":"policyreports","singular":"policyreport",
 *	 "shortNames":["polr"],"categories":[],"scope":"Namespaced","status":false,"storage":true,
 *	 "columns":[{"name":"Kind","type":"string","jsonPath":".scope.kind",...}],
 *	 "deprecationWarning":"...",
 *	 "schema":{...openAPIV3Schema...}}
 *
 * Only a deprecated version has "deprecationWarning".  Only a version with CEL rules has "unevaluatedRules", an
 * array of strings.
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
	const char *rules_warning;	/* warning on writes about CEL rules that are not evaluated; NULL without rules */
} Definition;

/* Compiles a document made by crd_definitions().  Returns NULL if the document was changed since and is wrong. */
extern Definition *definition_compile(Arena *arena, const JsonNode *document);

/*
 * Checks a stored definition document again and returns the document that the checks make; NULL when it is damaged.
 * The engine trusts definitions, but the owner of the registry's tables is not a superuser and can write anything into
 * them.  Therefore each definition passes the checks of a CustomResourceDefinition before it is compiled.
 */
extern JsonNode *definition_restore(Arena *arena, const JsonNode *stored);

/*
 * Checks a CustomResourceDefinition (apiextensions.k8s.io/v1) and makes its definition documents, one for each served
 * version, in the order of Kubernetes version priority (v1 before v1beta1 ...).  Result:
 * {"group","plural","singular","kind","listKind","scope","shortNames","categories","versions":[definition...]}
 * Defaults of the CRD API are filled in (singular, listKind, the Age column).  NULL when the CRD is refused; the
 * errors have paths within the CRD ("spec.versions[0].schema.openAPIV3Schema.properties[spec].uniqueItems").
 */
extern JsonNode *crd_definitions(Arena *arena, const JsonNode *crd, FieldErrorList *errors);

#endif							/* DEFINITION_H */
