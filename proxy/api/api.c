/*-------------------------------------------------------------------------
 *
 * api.c
 *	  The API of a worker: start, readiness, shutdown.
 *
 *-------------------------------------------------------------------------
 */
#include "api/api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "api/feed.h"
#include "api/get.h"
#include "api/namespaces.h"
#include "api/registry.h"
#include "api/watch.h"
#include "base/config.h"
#include "base/loop.h"
#include "base/offload.h"
#include "db/pg.h"
#include "identity/identity.h"

/*
 * readyz fails when all reads of a worker have failed for READ_FAULT_MS, because of a lock or a damaged table.
 * Meanwhile every worker probes the database every PROBE_MS, so that all workers say the same.
 */
#define PROBE_MS 2000
#define PROBE_TIMEOUT_MS 5000
#define READ_FAULT_MS 7000

static bool shutting_down;
static LoopTimer probe_timer;

/* Shared by all workers, an element for each. */
static struct
{
	atomic_bool has_registry;	/* the worker has read the registry since its start */
	atomic_bool reads_fail;		/* as pg_read_fault() of the worker says */
}		   *workers;
static int	own;				/* this worker's index in workers */

static void probe(void *state);

/* ---------- the worker ---------- */

void
api_init(void)
{
	workers = mmap(NULL, sizeof(*workers) * (size_t) config.workers, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (workers == MAP_FAILED)
	{
		perror("kube-reports-proxy: shared memory for the readiness of workers");
		exit(1);
	}
}

static void
note_registry(void)
{
	atomic_store(&workers[own].has_registry, true);
}

void
api_start(int worker)
{
	own = worker;
	atomic_store(&workers[own].has_registry, false);
	atomic_store(&workers[own].reads_fail, false);
	registry_on_first_reading(note_registry);
	offload_start();
	identity_start();
	pg_start_worker(worker);
	watches_start(worker);
	namespaces_start(false);
	loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
}

bool
api_ready(const char **why)
{
	const char *reason = NULL;
	uint64_t	since;

	if (!pg_connected(&reason))
	{
		*why = reason;
		return false;
	}
	if (!registry_known())
	{
		*why = "the registry has not been read yet";
		return false;
	}
	if (!feed_database_answers(why))
		return false;
	reason = pg_read_fault(&since);
	if (reason != NULL && loop_now() - since > READ_FAULT_MS)
	{
		*why = reason;
		return false;
	}
	for (int i = 0; i < config.workers; i++)
		if (!atomic_load(&workers[i].has_registry))
		{
			*why = "another worker has not read the registry yet";
			return false;
		}
	return true;
}

static void
probed(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	pg_result_free(result);
	loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
}

static bool
reads_fail_anywhere(void)
{
	uint64_t	since;
	bool		fail = false;

	atomic_store(&workers[own].reads_fail, pg_read_fault(&since) != NULL);
	for (int i = 0; i < config.workers; i++)
		fail |= atomic_load(&workers[i].reads_fail);
	return fail;
}

/*
 * Sends a read.  pg_pipeline.c passes its outcome to pg_fault.c, as that of every read.  Without this probe, a proxy
 * that is not ready would stay so: it may get no requests, whose reads would show that the fault is mended.
 */
static void
probe(void *state)
{
	Registry   *registry = reads_fail_anywhere() ? registry_acquire() : NULL;
	size_t		count = 0;
	const RegistryType *types = registry != NULL ? registry_types(registry, &count) : NULL;

	if (count > 0)
	{
		PgCall	   *call = get_probe(&types[0]);

		pg_send(call, false, PROBE_TIMEOUT_MS, probed, NULL);
	}
	else
		loop_timer_start(&probe_timer, PROBE_MS, probe, NULL);
	registry_release(registry);
}

void
api_refuse_requests(void)
{
	shutting_down = true;
}

void
api_end_watches(void)
{
	/* The remaining quarter of the time is for slow clients to read what was sent to them. */
	watches_end((uint64_t) config.shutdown_timeout * 750);
}

bool
api_shutting_down(void)
{
	return shutting_down;
}
