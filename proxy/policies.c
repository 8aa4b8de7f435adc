/*-------------------------------------------------------------------------
 *
 * policies.c
 *	  Which policies the cluster has, for the database that merges reports.
 *
 * A worker that merges follows every kind of policy that can have results, and tells
 * the database all that are active whenever that changes.  Until it has seen all
 * kinds, and while it has something to tell, it does not merge: a result that is
 * dropped for want of its policy is gone.  A kind that the cluster does not serve has no policies.
 *
 * Nothing is told unless the kube-apiserver is this cluster's, by the uid of kube-system.
 *
 *-------------------------------------------------------------------------
 */
#include "policies.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../extension/kyverno_policy.h"
#include "config.h"
#include "kubeapi.h"
#include "log.h"
#include "loop.h"
#include "pg.h"

#define SYSTEM_NAMESPACE "/api/v1/namespaces/kube-system"

/* Changes come together, such as the lists at the start. */
#define COLLECT_MS 200
#define AGAIN_MS 5000
#define TELL_TIMEOUT_MS 30000

#define VERSIONS 3

typedef struct PolicyKind
{
	const char *group;
	const char *plural;
	const char *source;			/* as results name it; "" for those with rules */
	const char *versions[VERSIONS]; /* whichever is served; the others NULL */
} PolicyKind;

#define CEL_VERSIONS {"v1", "v1beta1", "v1alpha1"}

static const PolicyKind kinds[] = {
	{"kyverno.io", "clusterpolicies", "", {"v1"}},
	{"kyverno.io", "policies", "", {"v1"}},
	{"policies.kyverno.io", "validatingpolicies", "KyvernoValidatingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "namespacedvalidatingpolicies", "KyvernoValidatingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "imagevalidatingpolicies", "KyvernoImageValidatingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "namespacedimagevalidatingpolicies", "KyvernoImageValidatingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "generatingpolicies", "KyvernoGeneratingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "namespacedgeneratingpolicies", "KyvernoGeneratingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "mutatingpolicies", "KyvernoMutatingPolicy", CEL_VERSIONS},
	{"policies.kyverno.io", "namespacedmutatingpolicies", "KyvernoMutatingPolicy", CEL_VERSIONS},
	{"admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", CEL_VERSIONS},
	{"admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", CEL_VERSIONS},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

typedef struct Policy
{
	struct Policy *next;
	unsigned	list;			/* the last list that had it */
	char	   *active;			/* what is told of it; NULL: nothing */
	char		uid[];
} Policy;

typedef struct PolicyWatch
{
	const PolicyKind *kind;
	int			version;		/* of those that the kind may have */
	bool		known;			/* listed, or found not to be served in any version */
	bool		failing;
	unsigned	list;
	Policy	   *policies;
} PolicyWatch;

static PolicyWatch watches[KINDS];
static KubeApi *api;
static bool following;
static bool telling;			/* a call is under way */
static bool changed = true;		/* there is something to tell */
static LoopTimer tell_timer;
static LoopTimer begin_timer;

static void tell(void *state);

/* ---------- what is known ---------- */

static bool
all_known(void)
{
	for (size_t i = 0; i < KINDS; i++)
		if (!watches[i].known)
			return false;
	return true;
}

static void
note_change(void)
{
	changed = true;
	if (!telling && !tell_timer.running && all_known())
		loop_timer_start(&tell_timer, COLLECT_MS, tell, NULL);
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Removes a policy; where points to it. */
static void
policy_remove(Policy **where)
{
	Policy	   *gone = *where;

	*where = gone->next;
	if (gone->active != NULL)
		note_change();
	free(gone->active);
	free(gone);
}

/* Told by uid: a name that comes again is another policy. */
static Policy **
policy_find(PolicyWatch *watch, const char *uid)
{
	Policy	  **where = &watch->policies;

	while (*where != NULL && strcmp((*where)->uid, uid) != 0)
		where = &(*where)->next;
	return where;
}

static void
policy_note(PolicyWatch *watch, const JsonNode *object, bool gone)
{
	Arena		arena;
	Policy	  **where;
	JsonNode   *active;
	StrBuf		text;
	const char *uid;

	arena_init(&arena);
	uid = json_get_cstring(&arena, json_get(object, "metadata"), "uid");
	where = uid != NULL ? policy_find(watch, uid) : NULL;
	if (where != NULL && gone && *where != NULL)
		policy_remove(where);
	else if (where != NULL && !gone)
	{
		if (*where == NULL)
		{
			*where = calloc(1, sizeof(Policy) + strlen(uid) + 1);
			if (*where == NULL)
				abort();
			strcpy((*where)->uid, uid);
		}
		(*where)->list = watch->list;
		active = kyverno_policy_active(&arena, object, watch->kind->source);
		strbuf_init(&text, &arena);
		if (active != NULL)
			json_write(&text, active);
		if (!same_text((*where)->active, text.bytes))
		{
			free((*where)->active);
			(*where)->active = text.bytes != NULL ? strdup(text.bytes) : NULL;
			note_change();
		}
	}
	arena_free(&arena);
}

/* ---------- telling ---------- */

static void
told(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	telling = false;
	pg_result_free(result);
	if (outcome != PG_OK)
	{
		log_line(LOG_WARNING, "the database could not be told which policies are active: %s",
				 error != NULL ? error->message : "it does not answer");
		changed = true;
		loop_timer_start(&tell_timer, AGAIN_MS, tell, NULL);
	}
	else if (changed)
		note_change();
}

static void
tell(void *state)
{
	PgCall	   *call = pg_call_new(PG_ACTIVE_POLICIES);
	Arena		arena;
	StrBuf		text;

	arena_init(&arena);
	strbuf_init(&text, &arena);
	strbuf_putc(&text, '[');
	for (size_t i = 0; i < KINDS; i++)
		for (const Policy *policy = watches[i].policies; policy != NULL; policy = policy->next)
			if (policy->active != NULL)
			{
				strbuf_puts(&text, text.len > 1 ? "," : "");
				strbuf_puts(&text, policy->active);
			}
	strbuf_putc(&text, ']');
	pg_add_text(call, text.bytes);
	arena_free(&arena);
	changed = false;
	telling = true;
	pg_send(call, false, TELL_TIMEOUT_MS, told, NULL);
}

/* ---------- the watches ---------- */

static void
list_begin(void *state)
{
	PolicyWatch *watch = state;

	watch->list++;
}

static void
list_item(void *state, const JsonNode *object)
{
	policy_note(state, object, false);
}

/* What the last list did not have is gone. */
static void
list_settled(PolicyWatch *watch)
{
	Policy	  **where = &watch->policies;
	bool		first = !watch->known;

	while (*where != NULL)
	{
		if ((*where)->list == watch->list)
			where = &(*where)->next;
		else
			policy_remove(where);
	}
	watch->known = true;
	watch->failing = false;
	if (first)
		note_change();
}

static void
list_end(void *state)
{
	list_settled(state);
}

static void
on_event(void *state, const char *type, const JsonNode *object)
{
	policy_note(state, object, strcmp(type, "DELETED") == 0);
}

static void
on_failure(void *state, const char *why)
{
	PolicyWatch *watch = state;

	log_line(watch->failing ? LOG_DEBUG : LOG_ERROR, "kube-apiserver does not tell of the policies, %s: %s",
			 all_known() ? "those that were known go on" : "and reports are not merged until it does", why);
	watch->failing = true;
}

static void
collection_path(const PolicyWatch *watch, StrBuf *path)
{
	strbuf_printf(path, "/apis/%s/%s/%s", watch->kind->group, watch->kind->versions[watch->version], watch->kind->plural);
}

/* Another version may be served; when none is, there are no such policies for now. */
static bool
on_absence(void *state, StrBuf *next)
{
	PolicyWatch *watch = state;
	bool		last = watch->version + 1 == VERSIONS || watch->kind->versions[watch->version + 1] == NULL;

	watch->version = last ? 0 : watch->version + 1;
	collection_path(watch, next);
	if (last)
	{
		watch->list++;
		list_settled(watch);
	}
	return last;
}

static const KubeWatchHandler handler = {list_begin, list_item, list_end, on_event, on_failure, on_absence};

static void begin(void *state);

static void
begin_answered(void *state, int status, const char *body, size_t len, const char *why)
{
	Arena		arena;
	JsonError	error;
	const char *uid;

	arena_init(&arena);
	uid = status == 200 ? json_get_cstring(&arena, json_get(json_parse(&arena, body, len, NULL, NULL, &error), "metadata"), "uid") : NULL;
	if (uid == NULL)
	{
		log_line(LOG_WARNING, "reports are not merged: kube-apiserver does not say which cluster it is: %s", why != NULL ? why : "no answer to go by");
		loop_timer_start(&begin_timer, AGAIN_MS, begin, NULL);
	}
	else if (strcasecmp(uid, config.cluster_id) != 0)
		log_line(LOG_ERROR, "reports are not merged: the kube-apiserver is not that of cluster %s, by the uid of its namespace kube-system",
				 config.cluster_id);
	else
		for (size_t i = 0; i < KINDS; i++)
		{
			StrBuf		path;

			watches[i].kind = &kinds[i];
			strbuf_init(&path, &arena);
			collection_path(&watches[i], &path);
			kubeapi_watch(api, path.bytes, NULL, &handler, &watches[i]);
		}
	arena_free(&arena);
}

static void
begin(void *state)
{
	kubeapi_get(api, SYSTEM_NAMESPACE, begin_answered, NULL);
}

/* ---------- for the others ---------- */

static bool
can_ask(void)
{
	static int	answer = -1;

	if (answer < 0)
		answer = kubeconfig_available(config.authentication_kubeconfig);
	return answer == 1;
}

void
policies_follow(bool stored)
{
	if (!can_ask())
		return;
	if (!following)
	{
		following = true;
		api = kubeapi_open(config.authentication_kubeconfig);
		begin(NULL);
	}
	else if (!stored && !changed && !telling)
		note_change();
}

bool
policies_known(void)
{
	return !can_ask() || (following && all_known() && !changed && !telling);
}
