/*-------------------------------------------------------------------------
 *
 * kubeapi.c
 *	  The proxy as a client of kube-apiserver: calls.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/kubeapi.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"
#include "cluster/transfer.h"

#define CALL_TIMEOUT_MS 10000L
#define CALL_ANSWER_LIMIT (4 * 1024 * 1024)
#define MAX_CALLS 1024

#define ATTEMPTS 5
#define FIRST_RETRY_MS 500.0
#define RETRY_FACTOR 1.5
#define RETRY_JITTER 0.2

/* A kubeconfig is read again after this time: certificates and CAs are renewed long before they expire. */
#define RELOAD_MS 60000

struct KubeApi
{
	KubeApi    *next;
	Arena		arena;			/* holds the texts of kubeconfig */
	KubeConfig	kubeconfig;
	uint64_t	loaded_at;
	char		path[];
};

struct KubeCall
{
	KubeApi    *api;
	Arena		arena;			/* holds path, request and answer */
	TransferRequest request;
	Transfer   *transfer;		/* NULL between attempts */
	StrBuf		received;
	int			attempts;
	double		delay;			/* milliseconds before the next attempt, without jitter */
	LoopTimer	timer;			/* the next attempt, or the refusal when there are too many calls */
	KubeAnswer	answer;
	void	   *state;
};

static KubeApi *apis;
static size_t call_count;

/* ---------- kubeconfigs ---------- */

static bool
kubeapi_load(KubeApi *api, Arena *arena, const char **why)
{
	KubeConfig	kubeconfig = {0};

	if (!kubeconfig_load(arena, api->path, &kubeconfig, why))
		return false;
	api->kubeconfig = kubeconfig;
	return true;
}

KubeApi *
kubeapi_open(const char *path)
{
	KubeApi    *api;
	const char *why = "";

	if (path == NULL)
		path = "";
	for (api = apis; api != NULL; api = api->next)
	{
		if (strcmp(api->path, path) == 0)
			return api;
	}
	api = allocate(sizeof(*api) + strlen(path) + 1);
	memcpy(api->path, path, strlen(path) + 1);
	arena_init(&api->arena);
	api->loaded_at = loop_now();
	if (!kubeapi_load(api, &api->arena, &why))
	{
		log_line(LOG_ERROR, "cannot reach kube-apiserver: %s", why);
		exit(1);
	}
	api->next = apis;
	apis = api;
	return api;
}

const KubeConfig *
kubeapi_config(KubeApi *api)
{
	uint64_t	now = loop_now();
	Arena		arena;
	const char *why = "";

	if (now - api->loaded_at < RELOAD_MS)
		return &api->kubeconfig;
	api->loaded_at = now;
	arena_init(&arena);
	if (kubeapi_load(api, &arena, &why))
	{
		arena_free(&api->arena);
		api->arena = arena;
	}
	else
	{
		log_line(LOG_ERROR, "the kubeconfig cannot be read again: %s", why);
		arena_free(&arena);
	}
	return &api->kubeconfig;
}

/* ---------- calls ---------- */

static void call_attempt(void *state);

static void
call_free(KubeCall *call)
{
	loop_timer_stop(&call->timer);
	arena_free(&call->arena);
	free(call);
	call_count--;
}

static void
call_finish(KubeCall *call, int status, const char *why)
{
	json_auto_t *answer = status == 0 ? NULL : kube_json_read(call->received.bytes, call->received.len);

	call->answer(call->state, status, answer, why);
	call_free(call);
}

static void
call_done(void *state, int status, const char *why)
{
	KubeCall   *call = state;

	call->transfer = NULL;
	if ((status == 0 || status == 429 || status >= 500) && call->attempts < ATTEMPTS)
	{
		double		jitter = 1 + RETRY_JITTER * arc4random_uniform(1000) / 1000;

		loop_timer_start(&call->timer, (uint64_t) (call->delay * jitter), call_attempt, call);
		call->delay *= RETRY_FACTOR;
		return;
	}
	call_finish(call, status, why);
}

static void
call_attempt(void *state)
{
	KubeCall   *call = state;

	call->attempts++;
	call->received.len = 0;
	call->transfer = transfer_start(kubeapi_config(call->api), &call->request);
}

static void
call_refuse(void *state)
{
	call_finish(state, 0, "too many calls to kube-apiserver are under way");
}

static KubeCall *
call_start(KubeApi *api, const char *path, JsonText body, bool patch, TransferBudget budget, KubeAnswer answer,
		   void *state)
{
	KubeCall   *call = allocate(sizeof(*call));

	call->api = api;
	call->delay = FIRST_RETRY_MS;
	call->answer = answer;
	call->state = state;
	arena_init(&call->arena);
	strbuf_init(&call->received, &call->arena);
	call->request = (TransferRequest) {
		.budget = budget,
		.path = arena_strdup(&call->arena, path),
		.body = body.bytes == NULL ? NULL : arena_strndup(&call->arena, body.bytes, body.len),
		.body_len = body.len,
		.patch = patch,
		.timeout_ms = CALL_TIMEOUT_MS,
		.received = &call->received,
		.limit = CALL_ANSWER_LIMIT,
		.done = call_done,
		.state = call,
	};
	if (call_count++ < MAX_CALLS)
		call_attempt(call);
	else
		loop_timer_start(&call->timer, 0, call_refuse, call);
	return call;
}

KubeCall *
kubeapi_post(KubeApi *api, const char *path, JsonText body, TransferBudget budget, KubeAnswer answer, void *state)
{
	return call_start(api, path, body, false, budget, answer, state);
}

KubeCall *
kubeapi_patch(KubeApi *api, const char *path, JsonText body, KubeAnswer answer, void *state)
{
	return call_start(api, path, body, true, TRANSFER_OTHER, answer, state);
}

KubeCall *
kubeapi_get(KubeApi *api, const char *path, KubeAnswer answer, void *state)
{
	return call_start(api, path, (JsonText) {0}, false, TRANSFER_OTHER, answer, state);
}

void
kubeapi_cancel(KubeCall *call)
{
	if (call->transfer != NULL)
		transfer_cancel(call->transfer);
	call_free(call);
}
