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

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

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
backend_checkpoint(void)
{
	CHECK_FOR_INTERRUPTS();
	check_stack_depth();
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
						 errdetail("A prepared transaction would keep its lane locked, even over a restart of the server.")));
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
	arena_checkpoint = backend_checkpoint;
	RegisterXactCallback(end_of_transaction, NULL);
}

PG_FUNCTION_INFO_V1(refuse_prepare);

Datum
refuse_prepare(PG_FUNCTION_ARGS)
{
	prepare_refused = true;
	PG_RETURN_VOID();
}
