/*-------------------------------------------------------------------------
 *
 * managed_fields.h
 *	  What is checked of metadata.managedFields and of field managers' names,
 *	  whoever owns the fields.
 *
 * Reference: k8s-conformance CRE-07, MF-08; upstream's
 * ValidateManagedFields and ValidateFieldManager.
 *
 *-------------------------------------------------------------------------
 */
#ifndef MANAGED_FIELDS_H
#define MANAGED_FIELDS_H

#include "engine/api/status.h"

/* Bytes of the name of a field manager (CRE-07). */
#define FIELD_OWNER_NAME_MAX 128

/* CRE-07: what is wrong with the name of a field manager. */
extern void managed_fields_check_owner(const char *path, JsonText name, FieldErrorList *errors);

/* MF-08: what is wrong with the entries of shaped metadata; NULL: there are none. */
extern void managed_fields_validate(const JsonNode *entries, FieldErrorList *errors);

#endif							/* MANAGED_FIELDS_H */
