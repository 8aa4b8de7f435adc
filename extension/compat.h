/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the versions of PostgreSQL that the backend
 *	  files are built for: 15 to 18.
 *
 * Only backend.h includes this file, in place of postgres.h.  No other file
 * tests PG_VERSION_NUM: all files use the names of the newest version, and
 * this file defines those that older versions lack.  docs/versions.md
 * describes the differences in SQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_H
#define COMPAT_H

/* Exports the symbols that PostgreSQL looks up in the module; all others are hidden.  Empty before version 16. */
#ifndef WIN32
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

#include "postgres.h"

#include "fmgr.h"

#if PG_VERSION_NUM < 150000
#error "kube_reports needs PostgreSQL 15 or newer"
#endif

#if PG_VERSION_NUM >= 160000
/* Part of postgres.h before version 16. */
#include "varatt.h"
#else
/* As in later versions, this macro exports the function itself, too. */
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

/* Before version 18, without pg_get_loaded_modules(), a module cannot state its name and version. */
#define PG_MODULE_MAGIC_EXT(...) PG_MODULE_MAGIC
#endif

#endif							/* COMPAT_H */
