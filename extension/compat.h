/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the versions of PostgreSQL that the backend
 *	  files are built for: 15 to 18.
 *
 * Included in place of postgres.h, by backend.h alone.  No other file asks for
 * PG_VERSION_NUM: each says what the newest version says, and what an older one
 * lacks is made up here.  What differs in SQL is said in docs/versions.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_H
#define COMPAT_H

/* What PostgreSQL looks up in the module; everything else is hidden.  Before 16 this was nothing. */
#ifndef WIN32
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

#include "postgres.h"

#include "fmgr.h"

#if PG_VERSION_NUM < 150000
#error "kube_reports needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM >= 160000
/* Before, postgres.h had these. */
#include "varatt.h"
#else
/* As later versions say it: the function itself is looked up, too. */
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(funcname) \
extern PGDLLEXPORT Datum funcname(PG_FUNCTION_ARGS); \
extern PGDLLEXPORT const Pg_finfo_record *CppConcat(pg_finfo_, funcname)(void); \
const Pg_finfo_record * \
CppConcat(pg_finfo_, funcname)(void) \
{ \
	static const Pg_finfo_record my_finfo = {1}; \
	return &my_finfo; \
} \
extern int no_such_variable
#endif

#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()

/* pg_get_loaded_modules() came with 18: before, the name and the version of a module are said nowhere. */
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

#endif							/* COMPAT_H */
