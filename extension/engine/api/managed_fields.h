/*-------------------------------------------------------------------------
 *
 * managed_fields.h
 *	  Checks of metadata.managedFields and of the names of field managers,
 *	  independent of the ownership of fields.
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

/* CRE-07: reports the errors in the name of a field manager. */
extern void managed_fields_check_owner(const char *path, JsonText name, FieldErrorList *errors);

/* MF-08: reports the errors in the entries of coerced metadata; entries may be NULL. */
extern void managed_fields_validate(const JsonNode *entries, FieldErrorList *errors);

#endif							/* MANAGED_FIELDS_H */
