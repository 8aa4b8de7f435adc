/*-------------------------------------------------------------------------
 *
 * kube_reports.c
 *	  The module: hooks of the document engine, refusal of two-phase commit.
 *
 * The module needs no preload: it keeps nothing in shared memory and starts
 * no worker.
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include <malloc.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC_EXT(.name = "kube_reports", .version = CppAsString2(KUBE_REPORTS_VERSION));

/* Bytes of freed memory that the backend of a proxy's session keeps for later allocations. */
#define KEPT_MEMORY (32 * 1024 * 1024)

PGDLLEXPORT void _PG_init(void);

/* Set by refuse_prepare(), cleared at the end of every transaction. */
static bool prepare_refused = false;

static void *
backend_allocate(size_t size)
{
	return MemoryContextAllocHuge(CurrentMemoryContext, size);
}

static void
backend_release(void *pointer)
{
	pfree(pointer);
}

static void
backend_interrupt(void)
{
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
}

static void
backend_exceeded(ArenaLimit limit, uint64_t allowed)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 limit == ARENA_MEMORY ? errmsg("document takes too much memory") : errmsg("document takes too much work"),
			 limit == ARENA_MEMORY ? errdetail("For its size it may take %llu bytes of memory.",
											   (unsigned long long) allowed)
			 : errdetail("For its size it may take %llu steps.", (unsigned long long) allowed),
			 errhint("Split the report into smaller ones, or repeat less in it.")));
}

static void
end_of_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (prepare_refused)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that has written reports"),
						 errdetail("A prepared transaction would keep its lane locked, even over a restart of the "
								   "server.")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			prepare_refused = false;
			break;
		default:
			break;
	}
}

void
_PG_init(void)
{
	arena_allocate = backend_allocate;
	arena_release = backend_release;
	arena_interrupt = backend_interrupt;
	arena_exceeded = backend_exceeded;
	RegisterXactCallback(end_of_transaction, NULL);
}

PG_FUNCTION_INFO_V1(keep_memory);

/*
 * A piece of a list has a few megabytes; each level of the executor copies it to the next.  By default glibc returns
 * the memory of each copy to the system at once and gets it again page by page.  In a measurement, this took more time
 * than all other work for a list.
 */
Datum
keep_memory(PG_FUNCTION_ARGS)
{
#ifdef M_TRIM_THRESHOLD
	(void) mallopt(M_MMAP_THRESHOLD, KEPT_MEMORY);
	(void) mallopt(M_TRIM_THRESHOLD, KEPT_MEMORY);
#endif
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(refuse_prepare);

Datum
refuse_prepare(PG_FUNCTION_ARGS)
{
	prepare_refused = true;
	PG_RETURN_VOID();
}
