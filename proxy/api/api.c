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
 * readyz fails when reads have waited for locks longer than BLOCKED_MS.  While reads wait, the worker probes the
 * database every PROBE_MS.
 */
#define PROBE_MS 2000
#define PROBE_TIMEOUT_MS 5000
#define BLOCKED_MS 7000

static bool shutting_down;
static LoopTimer probe_timer;

/* Shared by all workers, an element for each: whether the worker has read the registry since its start. */
static atomic_bool *registry_read;
static int	own;				/* this worker's index in registry_read */

static void probe(void *state);

/* ---------- the worker ---------- */

void
api_init(void)
{
	registry_read = mmap(NULL, sizeof(*registry_read) * (size_t) config.workers, PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (registry_read == MAP_FAILED)
	{
		perror("kube-reports-proxy: shared memory for the readiness of workers");
		exit(1);
	}
}

static void
note_registry(void)
{
	atomic_store(&registry_read[own], true);
}

void
api_start(int worker)
{
	own = worker;
	atomic_store(&registry_read[own], false);
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
	if (!feed_database_answers())
	{
		*why = "the database does not answer";
		return false;
	}
	if (pg_blocked_ms() > BLOCKED_MS)
	{
		*why = "reads have waited too long for a lock in the database";
		return false;
	}
	for (int i = 0; i < config.workers; i++)
		if (!atomic_load(&registry_read[i]))
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

/*
 * Sends a read.  pg_pipeline.c records its outcome, as it does for every read.  Without this probe, a proxy that is not
 * ready would stay so: it may get no requests, whose reads would show that the locks are free again.
 */
static void
probe(void *state)
{
	Registry   *registry = pg_blocked_ms() > 0 ? registry_acquire() : NULL;
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
