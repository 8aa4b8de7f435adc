/*-------------------------------------------------------------------------
 *
 * namespaces.c
 *	  The namespaces of the cluster: NamespaceLifecycle, and the sweep.
 *
 * Every worker and the upkeep process watch the namespaces.  Before a create,
 * the worker must know two things: the watch says that the namespace is
 * active, and the store assigns objects in a namespace of that name to the
 * same uid (sql/store/namespaces.sql).  When the two differ, the proxy settles
 * the namespace: it reads the store's row, asks kube-apiserver for that one
 * namespace, and notes the answer in the store.  When the namespace of the row
 * is dead, the proxy sweeps (deletes) its objects and begins again.  A
 * namespace has at most one settling at a time.  When the watch reports an
 * event of the namespace meanwhile, the settling starts over.
 *
 * The upkeep process settles namespaces without a waiting request: those that
 * are new, changed or deleted, and once a minute every difference between the
 * store and the cluster.
 *
 * The proxy concludes nothing from an empty list or from an error answer.  It
 * notes nothing in the store unless the uid of kube-system says that the
 * kube-apiserver belongs to this cluster.
 *
 *-------------------------------------------------------------------------
 */
#include "api/namespaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/api/metadata.h"
#include "engine/base/hash.h"
#include "base/allocate.h"
#include "base/config.h"
#include "cluster/kubeapi.h"
#include "base/log.h"
#include "api/reply.h"

#define COLLECTION "/api/v1/namespaces"
#define SYSTEM_NAMESPACE "kube-system"

/* How long a create waits for the watch to report its namespace before the proxy asks kube-apiserver. */
#define GRACE_MS 50

/* How long a request waits for kube-apiserver's answer. */
#define PATIENCE_MS 10000

#define STORE_TIMEOUT_MS 30000
#define RECONCILE_MS 60000
#define RECONCILE_AGAIN_MS 5000

/* Concurrent settlings without a waiting request. */
#define BACKGROUND 4

/*
 * Concurrent settlings with a waiting request.  Bounded, so that lookups of nonexistent names cannot exhaust the
 * connections to kube-apiserver.
 */
#define FOREGROUND 16

/* How often one settling may start over before it fails. */
#define ROUNDS 10

#define BUCKETS 1024

/* Whether the kube-apiserver belongs to the cluster whose reports are served. */
typedef enum Trust
{
	TRUST_UNKNOWN,
	TRUSTED,
	UNTRUSTED					/* creates need a namespace there, but the store is not changed */
} Trust;

typedef struct Namespace Namespace;
typedef struct Waiter Waiter;

/* An exchange that waits for its namespace; in the arena of the exchange. */
struct Waiter
{
	Exchange   *exchange;
	Namespace  *namespace;
	void		(*then) (Exchange *exchange);
	bool		anyway;			/* continues even if the lookup fails */
	bool		fresh;			/* needs an answer of kube-apiserver to a question that was sent after the wait began */
	unsigned	round;
	LoopTimer	patience;
	Waiter	   *previous;
	Waiter	   *next;
};

struct Namespace
{
	Namespace  *next;			/* next namespace in the same bucket */
	char	   *uid;			/* last reported by kube-apiserver; NULL: the namespace does not exist */
	bool		terminating;
	char	   *stored;			/* uid that the store has as active; NULL when unknown */
	unsigned	list;			/* number of the last list that had the namespace */
	Waiter	   *waiters;
	LoopTimer	grace;

	/* State of the settling. */
	bool		settling;
	bool		background;		/* no request waited when the settling began */
	bool		wanted;			/* in the queue for settlings */
	bool		stale;			/* the watch reported a change during the settling */
	unsigned	round;			/* counts all rounds */
	int			rounds;			/* rounds of this settling */
	char	   *old_uid;		/* uid in the store's row; "" when there is no row */
	bool		old_dead;		/* the row's namespace is dead */
	int64_t		created;		/* creation time of the namespace that kube-apiserver returned */
	Namespace  *next_wanted;
	char		name[];
};

static KubeApi *api;
static bool settles_all;		/* the upkeep process */
static Namespace *buckets[BUCKETS];
static Namespace *first_wanted;
static Namespace **last_wanted = &first_wanted;
static int	background_count;
static int	foreground_count;
static unsigned list_number;
static Trust trust;
static bool list_trusted;		/* the list under way has kube-system with the expected uid */
static bool failing;
static LoopTimer reconcile_timer;

static void settle_begin(Namespace *namespace);
static void settle_read(Namespace *namespace);
static void settle_pump(void);
static void reconcile(void *state);

/* ---------- the table ---------- */

static Namespace **
bucket_of(const char *name)
{
	return &buckets[hash_bytes(HASH_SEED, name, strlen(name)) % BUCKETS];
}

static Namespace *
namespace_find(const char *name)
{
	Namespace  *namespace = *bucket_of(name);

	while (namespace != NULL && strcmp(namespace->name, name) != 0)
		namespace = namespace->next;
	return namespace;
}

static Namespace *
namespace_get(const char *name)
{
	Namespace  *namespace = namespace_find(name);
	Namespace **bucket = bucket_of(name);

	if (namespace != NULL)
		return namespace;
	namespace = allocate(sizeof(*namespace) + strlen(name) + 1);
	memcpy(namespace->name, name, strlen(name) + 1);
	namespace->next = *bucket;
	*bucket = namespace;
	return namespace;
}


static bool
same_text(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Frees a namespace that does not exist, unless something refers to it. */
static void
namespace_release(Namespace *namespace)
{
	Namespace **link = bucket_of(namespace->name);

	if (namespace->uid != NULL || namespace->waiters != NULL || namespace->settling || namespace->wanted ||
		namespace->grace.running)
		return;
	while (*link != namespace)
		link = &(*link)->next;
	*link = namespace->next;
	free(namespace->stored);
	free(namespace->old_uid);
	free(namespace);
}

/* ---------- waiting requests ---------- */

static void
waiter_detach(Exchange *exchange)
{
	Waiter	   *waiter = exchange->work;

	loop_timer_stop(&waiter->patience);
	if (waiter->previous != NULL)
		waiter->previous->next = waiter->next;
	else
		waiter->namespace->waiters = waiter->next;
	if (waiter->next != NULL)
		waiter->next->previous = waiter->previous;
	exchange_release(exchange);
}

/* Ends a wait without an answer. */
static void
waiter_fail(Waiter *waiter, const char *why)
{
	Exchange   *exchange = waiter->exchange;
	const char *name = waiter->namespace->name;

	waiter_detach(exchange);
	if (waiter->anyway)
		waiter->then(exchange);
	else
		reply_status(exchange, 503, "ServiceUnavailable",
					 arena_printf(&exchange->arena, "namespace %s could not be looked up: %s",
								  quoted(&exchange->arena, name), why),
					 &(StatusDetails) {.retry_after_seconds = 1});
}

static void
waiter_impatient(void *state)
{
	Waiter	   *waiter = state;
	Namespace  *namespace = waiter->namespace;

	waiter_fail(waiter, "kube-apiserver does not answer");
	namespace_release(namespace);
}

static void
waiter_add(Namespace *namespace, Exchange *exchange, void (*then) (Exchange *exchange), bool fresh, bool anyway)
{
	Waiter	   *waiter = arena_alloc0(&exchange->arena, sizeof(*waiter));

	waiter->exchange = exchange;
	waiter->namespace = namespace;
	waiter->then = then;
	waiter->fresh = fresh;
	waiter->round = namespace->round;
	waiter->anyway = anyway;
	waiter->next = namespace->waiters;
	if (waiter->next != NULL)
		waiter->next->previous = waiter;
	namespace->waiters = waiter;
	exchange_hold(exchange, waiter, waiter_detach, NULL);
	loop_timer_start(&waiter->patience, PATIENCE_MS, waiter_impatient, waiter);
}

/* Sets the exchange's namespace_uid and namespace_state. */
static void
tell(Exchange *exchange, const Namespace *namespace)
{
	exchange->namespace_uid = NULL;
	exchange->namespace_state = NULL;
	if (namespace == NULL || namespace->uid == NULL)
		exchange->namespace_state = "missing";
	else if (namespace->terminating)
		exchange->namespace_state = "terminating";
	else if (trust == TRUSTED)
		exchange->namespace_uid = arena_strdup(&exchange->arena, namespace->uid);
}

/*
 * Whether an exchange can continue without a lookup.  It may continue even during a settling, because the store checks
 * the uid again under the lane's lock.
 */
static bool
is_known(const Namespace *namespace)
{
	return namespace != NULL && namespace->uid != NULL &&
		(namespace->terminating || trust == UNTRUSTED || same_text(namespace->uid, namespace->stored));
}

/*
 * Continues the waiters for which the state is fresh enough.  looked: a round with kube-apiserver has ended; otherwise
 * only the store has confirmed the state.
 */
static void
waiters_tell(Namespace *namespace, bool looked)
{
	Waiter	   *waiter = namespace->waiters;

	while (waiter != NULL)
	{
		Exchange   *exchange = waiter->exchange;

		if (waiter->fresh && (!looked || waiter->round == namespace->round))
		{
			waiter = waiter->next;
			continue;
		}
		waiter_detach(exchange);
		tell(exchange, namespace);
		waiter->then(exchange);
		/* then() may have added or removed waiters. */
		waiter = namespace->waiters;
	}
}

static void
waiters_fail(Namespace *namespace, const char *why)
{
	while (namespace->waiters != NULL)
		waiter_fail(namespace->waiters, why);
}

/* ---------- settling ---------- */

static void
settle_over(Namespace *namespace)
{
	namespace->settling = false;
	if (namespace->background)
		background_count--;
	else
		foreground_count--;
	namespace->background = false;
}

/* Ends a settling that succeeded. */
static void
settle_done(Namespace *namespace)
{
	settle_over(namespace);
	waiters_tell(namespace, true);
	if (namespace->waiters != NULL)
		settle_begin(namespace);
	namespace_release(namespace);
	settle_pump();
}

/* Ends a settling that failed.  Waiting requests are answered and may try again; else the next reconciliation tries. */
static void
settle_failed(Namespace *namespace, const char *why)
{
	log_line(LOG_WARNING, "namespace \"%s\" could not be settled: %s", namespace->name, why);
	settle_over(namespace);
	waiters_fail(namespace, why);
	namespace_release(namespace);
	settle_pump();
}

static void
settle_again(Namespace *namespace)
{
	if (++namespace->rounds < ROUNDS)
		settle_read(namespace);
	else
		settle_failed(namespace, "it keeps changing");
}

static void
settle_store_failed(Namespace *namespace, const PgError *error)
{
	settle_failed(namespace, error != NULL ? error->message : "the database does not answer");
}

static void settle_sweep(Namespace *namespace);

static void
settle_swept(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Namespace  *namespace = state;
	bool		more;

	if (outcome != PG_OK)
	{
		settle_store_failed(namespace, error);
		return;
	}
	more = pg_bool(result, 0, 0);
	pg_result_free(result);
	if (more && !namespace->stale)
		settle_sweep(namespace);
	else
		settle_again(namespace);
}

static void
settle_sweep(Namespace *namespace)
{
	PgCall	   *call = pg_call_new(PG_SWEEP);

	pg_add_text(call, namespace->name);
	pg_add_text(call, namespace->old_uid);
	pg_add_text(call, namespace->uid == NULL ? "" : namespace->uid);
	pg_add_int8(call, namespace->created);
	pg_send(call, false, STORE_TIMEOUT_MS, settle_swept, namespace);
}

/* Checks the store's row after the note. */
static void
settle_noted(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Namespace  *namespace = state;
	const char *uid;
	bool		same;
	bool		active;

	if (outcome != PG_OK)
	{
		settle_store_failed(namespace, error);
		return;
	}
	uid = pg_text(result, 0, 0).bytes;
	active = json_text_is(pg_text(result, 0, 1), "active");
	same = namespace->uid == NULL ? pg_is_null(result, 0, 0) : !pg_is_null(result, 0, 0) &&
		same_text(uid, namespace->uid);
	pg_result_free(result);

	/*
	 * Before the sweep of a namespace that was marked dead, ask kube-apiserver once more: no later event can
	 * contradict that answer.
	 */
	if (!same || namespace->stale)
		settle_again(namespace);
	else
	{
		replace_text(&namespace->stored, active ? namespace->uid : NULL);
		/* Another proxy may have seen a newer state. */
		if (namespace->uid != NULL && !active)
			namespace->terminating = true;
		settle_done(namespace);
	}
}

/* True when a 404 comes from kube-apiserver itself and names this namespace. */
static bool
says_not_found(const Namespace *namespace, const json_t *status)
{
	const json_t *details = json_object_get(status, "details");

	return kube_json_is(json_object_get(status, "reason"), "NotFound") &&
		kube_json_is(json_object_get(details, "name"), namespace->name) &&
		kube_json_is(json_object_get(details, "kind"), "namespaces");
}

static bool
is_terminating(const json_t *document)
{
	return kube_json_at(document, "metadata", "deletionTimestamp", NULL) != NULL ||
		kube_json_is(kube_json_at(document, "status", "phase", NULL), "Terminating");
}

static bool
read_created(const json_t *document, int64_t *created)
{
	const char *text = kube_json_text(document, "metadata", "creationTimestamp", NULL);

	return text != NULL && parse_time((JsonText) {text, strlen(text)}, created);
}

/* kube-apiserver's answer says nothing about the namespace. */
static void
settle_unanswered(Namespace *namespace, int status, const char *why)
{
	char		told[64];

	snprintf(told, sizeof(told), "kube-apiserver answered with status %d", status);
	settle_failed(namespace, status == 0 ? why : told);
}

static void
settle_found(void *state, int status, const json_t *document, const char *why)
{
	Namespace  *namespace = state;
	const char *uid = kube_json_text(document, "metadata", "uid", NULL);

	if (status == 200 && uid != NULL && uid[0] != '\0' && read_created(document, &namespace->created))
	{
		replace_text(&namespace->uid, uid);
		namespace->terminating = is_terminating(document);
	}
	else if (status == 404 && says_not_found(namespace, document))
		replace_text(&namespace->uid, NULL);
	else
	{
		settle_unanswered(namespace, status, why);
		return;
	}
	if (namespace->stale)
	{
		settle_again(namespace);
		return;
	}
	if (trust == UNTRUSTED)
		settle_done(namespace);
	else if (namespace->old_dead)
		settle_sweep(namespace);
	else
	{
		PgCall	   *call = pg_call_new(PG_NAMESPACE);

		pg_add_text(call, namespace->name);
		pg_add_text(call, namespace->old_uid);
		pg_add_text(call, namespace->uid == NULL ? "" : namespace->uid);
		pg_add_int4(call, namespace->uid != NULL && namespace->terminating);
		pg_send(call, false, STORE_TIMEOUT_MS, settle_noted, namespace);
	}
}

/* Asks kube-apiserver for the namespace.  The name is a DNS label, so the path needs no escaping. */
static void
settle_look(Namespace *namespace)
{
	Arena		arena;

	arena_init(&arena);
	kubeapi_get(api, arena_printf(&arena, COLLECTION "/%s", namespace->name), settle_found, namespace);
	arena_free(&arena);
}

static void
settle_was_read(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Namespace  *namespace = state;
	bool		there;
	bool		same;
	bool		active;

	if (outcome != PG_OK)
	{
		settle_store_failed(namespace, error);
		return;
	}
	there = pg_rows(result) > 0;
	replace_text(&namespace->old_uid, there ? pg_text(result, 0, 1).bytes : "");
	active = there && json_text_is(pg_text(result, 0, 2), "active");
	namespace->old_dead = there && json_text_is(pg_text(result, 0, 2), "dead");
	same = there && same_text(namespace->old_uid, namespace->uid);
	pg_result_free(result);
	if (same && active && !namespace->terminating && !namespace->stale)
	{
		replace_text(&namespace->stored, namespace->uid);
		waiters_tell(namespace, false);
		if (namespace->waiters == NULL)
		{
			settle_done(namespace);
			return;
		}
	}
	settle_look(namespace);
}

/* Settles trust before the first list: compares the uid of kube-system. */
static void
settle_trusted(void *state, int status, const json_t *document, const char *why)
{
	Namespace  *namespace = state;
	const char *uid = kube_json_text(document, "metadata", "uid", NULL);

	if (trust == TRUST_UNKNOWN && status == 200 && uid != NULL)
		trust = strcasecmp(uid, config.cluster_id) == 0 ? TRUSTED : UNTRUSTED;
	if (trust == TRUST_UNKNOWN)
		settle_unanswered(namespace, status, why);
	else
		settle_read(namespace);
}

static void
settle_read(Namespace *namespace)
{
	PgCall	   *call;

	namespace->stale = false;
	namespace->round++;
	if (trust != TRUSTED)
	{
		if (trust == UNTRUSTED)
			settle_look(namespace);
		else
			kubeapi_get(api, COLLECTION "/" SYSTEM_NAMESPACE, settle_trusted, namespace);
		return;
	}
	call = pg_call_new(PG_NAMESPACES);
	pg_add_text(call, namespace->name);
	pg_send(call, false, STORE_TIMEOUT_MS, settle_was_read, namespace);
}

static void
settle_begin(Namespace *namespace)
{
	loop_timer_stop(&namespace->grace);
	if (namespace->settling)
		return;
	namespace->settling = true;
	if (!namespace->background)
		foreground_count++;
	namespace->rounds = 0;
	settle_read(namespace);
}

/*
 * Settles a namespace for a waiting request.  FOREGROUND limits only names that the watch does not know: for known
 * namespaces the store is asked first and their number is bounded.
 */
static void
settle_asked(Namespace *namespace)
{
	if (namespace->settling || namespace->uid != NULL || foreground_count < FOREGROUND)
		settle_begin(namespace);
	else
	{
		waiters_fail(namespace, "too many namespaces are being looked up");
		namespace_release(namespace);
	}
}

static void
settle_pump(void)
{
	while (first_wanted != NULL && background_count < BACKGROUND)
	{
		Namespace  *namespace = first_wanted;

		first_wanted = namespace->next_wanted;
		if (first_wanted == NULL)
			last_wanted = &first_wanted;
		namespace->wanted = false;
		if (namespace->settling)
			continue;
		namespace->background = true;
		background_count++;
		settle_begin(namespace);
	}
}

/* Queues a namespace to be settled in the background. */
static void
settle_want(Namespace *namespace)
{
	if (trust != TRUSTED || namespace->wanted || namespace->settling)
		return;
	namespace->wanted = true;
	namespace->next_wanted = NULL;
	*last_wanted = namespace;
	last_wanted = &namespace->next_wanted;
	settle_pump();
}

/* ---------- the watch ---------- */

/* Notes that kube-apiserver has the namespace (uid) or no longer has it (NULL). */
static void
namespace_changed(Namespace *namespace, const char *uid, bool terminating)
{
	bool		was_stored = namespace->stored != NULL;

	if ((uid == NULL && namespace->uid == NULL) ||
		(same_text(uid, namespace->uid) && terminating == namespace->terminating))
		return;
	replace_text(&namespace->uid, uid);
	namespace->terminating = terminating;
	namespace->stale = true;
	if (!same_text(uid, namespace->stored) || terminating)
		replace_text(&namespace->stored, NULL);
	if (namespace->grace.running)
		settle_begin(namespace);
	else if (settles_all || was_stored)
		settle_want(namespace);
}

static Namespace *
namespace_told(const json_t *document, bool gone)
{
	const char *name = kube_json_text(document, "metadata", "name", NULL);
	const char *uid = kube_json_text(document, "metadata", "uid", NULL);
	Namespace  *namespace = NULL;

	if (name != NULL && uid != NULL && name[0] != '\0' && uid[0] != '\0')
	{
		namespace = namespace_get(name);
		if (!gone)
			namespace_changed(namespace, uid, is_terminating(document));
		else if (same_text(namespace->uid, uid))
			namespace_changed(namespace, NULL, false);
		if (!gone && strcmp(name, SYSTEM_NAMESPACE) == 0)
			list_trusted = strcasecmp(uid, config.cluster_id) == 0;
	}
	return namespace;
}

static void
list_begin(void *state)
{
	list_number++;
	list_trusted = false;
}

static void
list_item(void *state, const json_t *object)
{
	Namespace  *namespace = namespace_told(object, false);

	if (namespace != NULL)
		namespace->list = list_number;
}

static void
list_end(void *state)
{
	if (failing)
		log_line(LOG_INFO, "the namespaces can be read from kube-apiserver again");
	failing = false;
	if (!list_trusted)
		log_line(LOG_ERROR,
				 "the kube-apiserver is not that of cluster %s, by the uid of its namespace " SYSTEM_NAMESPACE
				 ": objects of deleted namespaces are not removed", config.cluster_id);
	trust = list_trusted ? TRUSTED : UNTRUSTED;
	for (size_t i = 0; i < BUCKETS; i++)
	{
		Namespace  *next;

		for (Namespace *namespace = buckets[i]; namespace != NULL; namespace = next)
		{
			next = namespace->next;
			if (namespace->list == list_number)
				continue;
			namespace_changed(namespace, NULL, false);
			namespace_release(namespace);
		}
	}
	reconcile(NULL);
}

static void
on_event(void *state, const char *type, const json_t *object)
{
	bool		gone = strcmp(type, "DELETED") == 0;
	Namespace  *namespace = namespace_told(object, gone);

	if (namespace == NULL)
		return;
	namespace->list = list_number;
	namespace_release(namespace);
}

static void
on_failure(void *state, int status, const char *why)
{
	log_line(failing ? LOG_DEBUG : LOG_ERROR, "the namespaces cannot be read from kube-apiserver: %s", why);
	failing = true;
}

static const KubeWatchHandler handler = {list_begin, list_item, list_end, on_event, on_failure, NULL, NULL};

/* ---------- the store and the cluster ---------- */

/* Compares the store's namespaces with those of the watch. */
static void
reconcile_read(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	for (size_t row = 0; outcome == PG_OK && row < pg_rows(result); row++)
	{
		const char *name = pg_text(result, row, 0).bytes;
		const char *uid = pg_text(result, row, 1).bytes;
		Namespace  *namespace = namespace_find(name);

		if (namespace != NULL && same_text(namespace->uid, uid) && !namespace->terminating &&
			json_text_is(pg_text(result, row, 2), "active"))
		{
			if (!namespace->settling)
				replace_text(&namespace->stored, uid);
		}
		else if (settles_all && is_dns1123_label(pg_text(result, row, 0)) &&
				 !(namespace != NULL && same_text(namespace->uid, uid) && namespace->terminating &&
				   json_text_is(pg_text(result, row, 2), "terminating")))
			settle_want(namespace_get(name));
	}
	pg_result_free(result);
	for (size_t i = 0; outcome == PG_OK && settles_all && i < BUCKETS; i++)
	{
		Namespace  *next;

		for (Namespace *namespace = buckets[i]; namespace != NULL; namespace = next)
		{
			next = namespace->next;
			if (namespace->uid != NULL && !namespace->terminating && namespace->stored == NULL)
				settle_want(namespace);
		}
	}
	/* Workers reconcile only once; later they look up a namespace when a request needs it. */
	if (outcome != PG_OK || settles_all)
		loop_timer_start(&reconcile_timer, outcome == PG_OK ? RECONCILE_MS : RECONCILE_AGAIN_MS, reconcile, NULL);
}

static void
reconcile(void *state)
{
	PgCall	   *call;

	loop_timer_stop(&reconcile_timer);
	if (trust != TRUSTED)
		return;
	call = pg_call_new(PG_NAMESPACES);
	pg_add_null(call);
	pg_send(call, false, STORE_TIMEOUT_MS, reconcile_read, NULL);
}

/* ---------- interface ---------- */

void
namespaces_start(bool all)
{
	if (!config.namespace_lifecycle)
		return;
	settles_all = all;
	api = kubeapi_open(config.authentication_kubeconfig);
	kubeapi_watch(api, COLLECTION, NULL, &handler, NULL);
}

bool
namespaces_followed(void)
{
	return config.namespace_lifecycle;
}

bool
namespaces_needed(const Exchange *exchange)
{
	return config.namespace_lifecycle && exchange->type->namespaced &&
		(strcmp(exchange->route->verb, "create") == 0 || exchange_applies(exchange));
}

static void
grace_over(void *state)
{
	settle_asked(state);
}

void
namespaces_ask(Exchange *exchange, const char *name, void (*then) (Exchange *exchange))
{
	Namespace  *namespace = namespace_find(name);

	/* A name that is not a DNS label cannot be a namespace. */
	if (is_known(namespace) || !is_dns1123_label((JsonText) {name, strlen(name)}))
	{
		tell(exchange, namespace);
		then(exchange);
		return;
	}
	namespace = namespace_get(name);
	waiter_add(namespace, exchange, then, false, false);
	if (namespace->uid != NULL)
		settle_asked(namespace);
	else if (!namespace->settling && !namespace->grace.running)
		loop_timer_start(&namespace->grace, GRACE_MS, grace_over, namespace);
}

static void
ask_in_any_case(Exchange *exchange, const char *name, void (*then) (Exchange *exchange), bool anyway)
{
	Namespace  *namespace = namespace_get(name);

	waiter_add(namespace, exchange, then, true, anyway);
	settle_asked(namespace);
}

void
namespaces_ask_again(Exchange *exchange, const char *name, void (*then) (Exchange *exchange))
{
	replace_text(&namespace_get(name)->stored, NULL);
	ask_in_any_case(exchange, name, then, false);
}

void
namespaces_refresh(Exchange *exchange, const char *name, void (*then) (Exchange *exchange))
{
	if (is_dns1123_label((JsonText) {name, strlen(name)}))
		ask_in_any_case(exchange, name, then, true);
	else
		then(exchange);
}
