/*-------------------------------------------------------------------------
 *
 * user.h
 *	  The user of a request: the user information of Kubernetes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef USER_H
#define USER_H

#include "engine/base/json.h"

#define USER_ANONYMOUS "system:anonymous"
#define GROUP_MASTERS "system:masters"
#define GROUP_AUTHENTICATED "system:authenticated"
#define GROUP_UNAUTHENTICATED "system:unauthenticated"

typedef struct UserExtra
{
	const char *key;
	const char **values;
	size_t		value_count;
} UserExtra;

/* The user and its strings live in the arena of their creator. */
typedef struct User
{
	const char *name;
	const char *uid;			/* NULL or "": none */
	const char **groups;
	size_t		group_count;
	UserExtra  *extra;			/* each key once */
	size_t		extra_count;
} User;

#endif							/* USER_H */
