/*-------------------------------------------------------------------------
 *
 * policies.c
 *	  Tells the database which policies the cluster has; it needs them to merge reports.
 *
 * A merge drops results whose policy is missing, and they are lost for good.
 * So a proxy merges only while its view is complete: it knows, for every kind
 * of policy that can have results, which policies exist now, and has told the
 * database.  Otherwise merging pauses, and the set in the database stays as it
 * is.
 *
 * A kind that is served is listed and watched.  Its part of the view is valid
 * while kube-apiserver keeps that watch open.  When the watch ends, for any
 * reason, a list precedes the next watch.
 *
 * Discovery shows which kinds are served.  No event announces a new kind, so
 * the proxy looks at discovery every two seconds.  The view is valid only
 * while the last look is recent; so a kube-apiserver that has become
 * unreachable is noticed too.  Kyverno takes longer than two seconds from the
 * definition of a kind to the first result, so kube-reports usually knows the
 * kind first.
 *
 * A kind may be missing for a moment, while a kube-apiserver starts or a
 * definition is replaced.  It counts as absent, and its policies as gone, when
 * no look during ABSENT_MS has found it.  Until then the kind is unknown, and
 * merging pauses.
 *
 * Each proxy has its own view.  Views of different moments differ, and a view
 * may reach the database late.  So the database gives the stored set a
 * version.  Each merge names the version of the set that this proxy has sent,
 * and is refused when another set is stored (sql/aggregation/policy_view.sql).
 * Each proxy sends its set again every few seconds: equal sets have the same
 * version.
 *
 * Nothing is sent unless the uid of kube-system shows that the kube-apiserver
 * belongs to this cluster.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/results/kyverno_policy.h"
#include "base/allocate.h"
#include "base/config.h"
#include "cluster/kubeapi.h"
#include "base/log.h"
#include "base/loop.h"
#include "db/pg.h"

#define SYSTEM_NAMESPACE "/api/v1/namespaces/kube-system"

#define DISABLED "reports.kyverno.io/disabled"
#define ENABLED "reports.kyverno.io/enabled"

/* Changes within COLLECT_MS are sent together, such as the lists at the start. */
#define COLLECT_MS 200
#define AGAIN_MS 5000
#define TELL_TIMEOUT_MS 30000
#define TELL_AGAIN_MS 5000

/*
 * The interval between two looks at discovery; how long a look is valid, from its beginning; how long a kind must be
 * missing before it counts as absent.
 */
#define LOOK_MS 2000
#define LOOK_HOLDS_MS 6000
#define ABSENT_MS 15000

#define VERSIONS 3

typedef struct PolicyGroup
{
	const char *name;
	const char *versions[VERSIONS]; /* in order of preference; unused ones NULL */
} PolicyGroup;

static const PolicyGroup groups[] = {
	{"kyverno.io", {"v1"}},
	{"policies.kyverno.io", {"v1", "v1beta1", "v1alpha1"}},
	{"admissionregistration.k8s.io", {"v1", "v1beta1", "v1alpha1"}},
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

typedef struct PolicyKind
{
	const PolicyGroup *group;
	const char *plural;
	const char *source;			/* the source in results; "" for policies with rules */
} PolicyKind;

static const PolicyKind kinds[] = {
	{&groups[0], "clusterpolicies", ""},
	{&groups[0], "policies", ""},
	{&groups[1], "validatingpolicies", "KyvernoValidatingPolicy"},
	{&groups[1], "namespacedvalidatingpolicies", "KyvernoValidatingPolicy"},
	{&groups[1], "imagevalidatingpolicies", "KyvernoImageValidatingPolicy"},
	{&groups[1], "namespacedimagevalidatingpolicies", "KyvernoImageValidatingPolicy"},
	{&groups[1], "generatingpolicies", "KyvernoGeneratingPolicy"},
	{&groups[1], "namespacedgeneratingpolicies", "KyvernoGeneratingPolicy"},
	{&groups[1], "mutatingpolicies", "KyvernoMutatingPolicy"},
	{&groups[1], "namespacedmutatingpolicies", "KyvernoMutatingPolicy"},
	{&groups[2], "validatingadmissionpolicies", "ValidatingAdmissionPolicy"},
	{&groups[2], "mutatingadmissionpolicies", "MutatingAdmissionPolicy"},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

typedef struct Policy
{
	struct Policy *next;
	unsigned	list;			/* number of the last list with this policy */
	json_t	   *active;			/* the description that is sent to the database; NULL: not sent */
	char		uid[];
} Policy;

typedef struct PolicyWatch
{
	const PolicyKind *kind;
	bool		watched;		/* the kind is served, and its policies are watched */
	bool		live;			/* its policies are up to date */
	bool		absent;			/* no look during ABSENT_MS has found the kind */
	bool		asked;			/* the look in progress asks for the kind */
	uint64_t	missed_since;	/* start of the first look that did not find the kind; 0: found */
	unsigned	served;			/* versions found by the look in progress, as bits */
	unsigned	list;
	Policy	   *policies;
} PolicyWatch;

/* A discovery document: the resources of one version of a group. */
typedef struct Document
{
	const PolicyGroup *group;
	size_t		version;
} Document;

static PolicyWatch watches[KINDS];
static KubeApi *api;
static bool following;
static bool wanted;				/* the database needs the policies to merge */
static bool telling;			/* a call is in progress */
static bool telling_change;		/* the call in progress sends a changed set */
static bool changed = true;		/* the set has changed since it was last sent */
static int64_t stored_version;	/* version of the set that was sent last */
static LoopTimer tell_timer;
static LoopTimer tell_again_timer;
static LoopTimer begin_timer;

static Document documents[GROUPS][VERSIONS];
static LoopTimer look_timer;
static size_t look_asked;		/* documents that the look in progress waits for */
static bool look_failed;
static uint64_t look_begun;
static uint64_t looked_at;		/* start of the last complete look; 0: none, or it failed */

static const char not_told[] = "kube-apiserver does not tell of the policies";

/* The reason for the pause of merging that the log has reported.  When it is solved, the log reports the next one. */
static bool resting;
static const void *blamed;
static int	blamed_status;

static void tell(void *state);

/* ---------- the view ---------- */

static bool
kind_known(const PolicyWatch *watch)
{
	return watch->watched ? watch->live : watch->absent;
}

static bool
look_holds(void)
{
	return looked_at != 0 && loop_now() - looked_at <= LOOK_HOLDS_MS;
}

static bool
view_whole(void)
{
	for (size_t i = 0; i < KINDS; i++)
		if (!kind_known(&watches[i]))
			return false;
	return look_holds();
}

/* Called when the view has become complete or has changed. */
static void
tell_soon(void)
{
	if (changed && !telling && !tell_timer.running && view_whole())
		loop_timer_start(&tell_timer, COLLECT_MS, tell, NULL);
}

static void
note_change(void)
{
	changed = true;
	tell_soon();
}

/* ---------- the log ---------- */

/*
 * Notes why merging pauses.  because: any pointer that identifies the cause.  The log reports a cause once, and again
 * when its status changes.
 */
static void
note_rest(const void *because, int status, const char *what, const char *why)
{
	bool		news = wanted && (blamed == NULL || (blamed == because && blamed_status != status));

	log_line(news ? LOG_ERROR : LOG_DEBUG, "%s, and reports are not merged until it does: %s%s", what, why,
			 status == 401 ? "; the kubeconfig's credentials, or those of the service account, have to be renewed" :
			 status == 403 ? "; what the service account must be allowed is in docs/security.md" :
			 "; it is tried again");
	if (!news)
		return;
	resting = true;
	blamed = because;
	blamed_status = status;
}

/* The same for an answer with a status; 0: no answer, because of why. */
static void
note_answer(const void *because, int status, const char *what, const char *asked, const char *why)
{
	char		told[256];

	snprintf(told, sizeof(told), "%s was answered with status %d", asked, status);
	note_rest(because, status, what, why != NULL ? why : told);
}

static void
note_mended(const void *cause)
{
	if (blamed == cause)
		blamed = NULL;
}

/* ---------- the policies ---------- */

/*
 * Returns the names of a policy's rules, with the rules that Kyverno generates.  The engine finds them, as in the
 * database.  NULL if the policy has more levels than the engine reads: then results of every rule count.
 */
static json_t *
policy_rules(const json_t *policy)
{
	Arena		arena;
	JsonText	text;
	JsonError	error;
	const JsonNode *document;
	StrBuf		names;
	json_t	   *rules = NULL;

	arena_init(&arena);
	text = kube_json_write(&arena, json_incref((json_t *) policy));
	strbuf_init(&names, &arena);
	document = json_parse(&arena, text.bytes, text.len, NULL, NULL, &error);
	if (document != NULL)
	{
		json_write(&names, kyverno_policy_rules(&arena, document));
		rules = kube_json_read(names.bytes, names.len);
	}
	arena_free(&arena);
	return rules;
}

/*
 * Returns the description of a policy for the database; NULL when results of the policy do not count: a label disables
 * them, or no label enables them (admission policies of kube-apiserver).
 */
static json_t *
policy_active(const json_t *policy, const PolicyKind *kind)
{
	const char *name = kube_json_text(policy, "metadata", "name", NULL);
	const char *namespace = kube_json_text(policy, "metadata", "namespace", NULL);
	const char *version = kube_json_text(policy, "metadata", "resourceVersion", NULL);
	const json_t *labels = kube_json_at(policy, "metadata", "labels", NULL);
	bool		of_apiserver = kind->group == &groups[2];
	bool		named = namespace != NULL && namespace[0] != '\0';

	if (name == NULL || (of_apiserver ? !kube_json_is(json_object_get(labels, ENABLED), "true") :
						 json_object_get(labels, DISABLED) != NULL))
		return NULL;
	return json_pack("{s:o, s:s, s:o*, s:s}",
					 "policy", named ? json_sprintf("%s/%s", namespace, name) : json_string(name),
					 "source", kind->source, "rules", kind->source[0] == '\0' ? policy_rules(policy) : NULL,
					 "version", version == NULL ? "" : version);
}

/* Removes a policy from its list; *where is the pointer to it. */
static void
policy_remove(Policy **where)
{
	Policy	   *gone = *where;

	*where = gone->next;
	if (gone->active != NULL)
		note_change();
	json_decref(gone->active);
	free(gone);
}

/* Finds a policy by its uid: a new policy may have an old name. */
static Policy **
policy_find(PolicyWatch *watch, const char *uid)
{
	Policy	  **where = &watch->policies;

	while (*where != NULL && strcmp((*where)->uid, uid) != 0)
		where = &(*where)->next;
	return where;
}

static void
policy_note(PolicyWatch *watch, const json_t *object, bool gone)
{
	const char *uid = kube_json_text(object, "metadata", "uid", NULL);
	Policy	  **where = uid != NULL ? policy_find(watch, uid) : NULL;
	json_t	   *active;

	if (where == NULL)
		return;
	if (gone)
	{
		if (*where != NULL)
			policy_remove(where);
		return;
	}
	if (*where == NULL)
	{
		*where = allocate(sizeof(Policy) + strlen(uid) + 1);
		memcpy((*where)->uid, uid, strlen(uid) + 1);
	}
	(*where)->list = watch->list;
	active = policy_active(object, watch->kind);
	if (active != NULL || (*where)->active != NULL)
	{
		if (!json_equal((*where)->active, active))
			note_change();
		json_decref((*where)->active);
		(*where)->active = active;
	}
}

/* ---------- sending ---------- */

static void
told(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	telling = false;
	if (outcome == PG_OK)
		stored_version = pg_int8(result, 0, 0);
	pg_result_free(result);
	if (outcome != PG_OK && telling_change)
	{
		note_rest(&telling, 0, "the database does not take which policies are active",
				  error != NULL ? error->message : "it does not answer");
		changed = true;
		loop_timer_start(&tell_timer, AGAIN_MS, tell, NULL);
		return;
	}
	/* An unchanged set is sent again anyway. */
	if (outcome == PG_OK)
		note_mended(&telling);
	tell_soon();
}

static void
tell(void *state)
{
	PgCall	   *call;
	Arena		arena;
	json_t	   *set;

	/* Another proxy may know better.  This proxy sends its set when its view is complete again. */
	if (!view_whole())
		return;
	call = pg_call_new(PG_ACTIVE_POLICIES);
	set = json_array();
	for (size_t i = 0; i < KINDS; i++)
		for (const Policy *policy = watches[i].policies; policy != NULL; policy = policy->next)
			if (policy->active != NULL)
				json_array_append(set, policy->active);
	arena_init(&arena);
	pg_add_text(call, kube_json_write(&arena, set).bytes);
	arena_free(&arena);
	telling_change = changed;
	changed = false;
	telling = true;
	pg_send(call, false, TELL_TIMEOUT_MS, told, NULL);
}

/* Another proxy may have sent an older set. */
static void
tell_again(void *state)
{
	loop_timer_start(&tell_again_timer, TELL_AGAIN_MS, tell_again, NULL);
	if (wanted && !telling && !tell_timer.running)
		tell(NULL);
}

/* ---------- the watches ---------- */

static void
list_begin(void *state)
{
	PolicyWatch *watch = state;

	watch->list++;
}

static void
list_item(void *state, const json_t *object)
{
	policy_note(state, object, false);
}

/* Removes the policies that were not in the last list. */
static void
list_end(void *state)
{
	PolicyWatch *watch = state;
	Policy	  **where = &watch->policies;

	while (*where != NULL)
	{
		if ((*where)->list == watch->list)
			where = &(*where)->next;
		else
			policy_remove(where);
	}
}

static void
on_event(void *state, const char *type, const json_t *object)
{
	policy_note(state, object, strcmp(type, "DELETED") == 0);
}

static void
on_failure(void *state, int status, const char *why)
{
	note_rest(state, status, not_told, why);
}

static void
on_live(void *state, bool live)
{
	PolicyWatch *watch = state;

	watch->live = live;
	if (live)
	{
		note_mended(watch);
		tell_soon();
	}
}

/*
 * The collection does not exist (404).  The kind existed a moment ago, so the next looks decide whether it is absent.
 */
static void
on_absence(void *state)
{
	PolicyWatch *watch = state;
	char		list[128];

	watch->watched = false;
	snprintf(list, sizeof(list), "the list of %s", watch->kind->plural);
	note_answer(watch, 404, not_told, list, NULL);
}

static const KubeWatchHandler handler = {
	.begin = list_begin,
	.item = list_item,
	.end = list_end,
	.event = on_event,
	.failed = on_failure,
	.live = on_live,
	.absent = on_absence,
};

/* ---------- the kinds that are served ---------- */

static void look(void *state);

static void
kind_served(PolicyWatch *watch)
{
	const PolicyGroup *group = watch->kind->group;
	size_t		version = 0;
	Arena		arena;

	while ((watch->served & 1u << version) == 0)
		version++;
	watch->watched = true;
	watch->absent = false;
	watch->missed_since = 0;
	arena_init(&arena);
	kubeapi_watch(api, arena_printf(&arena, "/apis/%s/%s/%s", group->name, group->versions[version],
									watch->kind->plural), NULL, &handler, watch);
	arena_free(&arena);
}

static void
kind_missed(PolicyWatch *watch)
{
	if (watch->missed_since == 0)
		watch->missed_since = look_begun;
	if (watch->absent || look_begun - watch->missed_since < ABSENT_MS)
		return;
	watch->absent = true;
	note_mended(watch);
	while (watch->policies != NULL)
		policy_remove(&watch->policies);
}

static void
look_end(void)
{
	uint64_t	took = loop_now() - look_begun;

	loop_timer_start(&look_timer, took < LOOK_MS ? LOOK_MS - took : 0, look, NULL);
	/* A look that took too long is not valid any more. */
	if (took > LOOK_HOLDS_MS)
		look_failed = true;
	looked_at = look_failed ? 0 : look_begun;
	if (!look_failed)
		note_mended(&look_timer);
	for (size_t i = 0; i < KINDS; i++)
	{
		if (watches[i].watched || !watches[i].asked)
			continue;
		if (look_failed)
			watches[i].missed_since = 0;
		else if (watches[i].served != 0)
			kind_served(&watches[i]);
		else
			kind_missed(&watches[i]);
	}
	tell_soon();
}

static void
note_served(const Document *document, const char *plural)
{
	for (size_t i = 0; i < KINDS; i++)
		if (watches[i].kind->group == document->group && strcmp(watches[i].kind->plural, plural) == 0)
			watches[i].served |= 1u << document->version;
}

static void
look_answered(void *state, int status, const json_t *answer, const char *why)
{
	const Document *document = state;
	const json_t *resources = status == 200 ? json_object_get(answer, "resources") : NULL;
	size_t		i;
	json_t	   *resource;
	const char *plural;
	char		path[128];

	json_array_foreach(resources, i, resource)
		if ((plural = kube_json_text(resource, "name", NULL)) != NULL)
		note_served(document, plural);
	if (json_is_array(resources) || status == 404)
		note_mended(document);
	else
	{
		look_failed = true;
		snprintf(path, sizeof(path), "/apis/%s/%s", document->group->name,
				 document->group->versions[document->version]);
		note_answer(document, status, not_told, path, why);
	}
	if (--look_asked == 0)
		look_end();
}

static bool
look_wanted(const PolicyGroup *group)
{
	for (size_t i = 0; i < KINDS; i++)
		if (watches[i].kind->group == group && watches[i].asked)
			return true;
	return false;
}

/* Reads the groups with missing kinds, and always the first group, to see that kube-apiserver answers. */
static void
look(void *state)
{
	Arena		arena;

	if (!wanted)
	{
		looked_at = 0;
		loop_timer_start(&look_timer, LOOK_MS, look, NULL);
		return;
	}
	look_begun = loop_now();
	look_failed = false;
	for (size_t i = 0; i < KINDS; i++)
	{
		watches[i].served = 0;
		watches[i].asked = !watches[i].watched;
	}
	arena_init(&arena);
	for (size_t i = 0; i < GROUPS; i++)
		for (size_t version = 0; version < VERSIONS && groups[i].versions[version] != NULL; version++)
			if (i == 0 || look_wanted(&groups[i]))
			{
				documents[i][version] = (Document) {&groups[i], version};
				look_asked++;
				kubeapi_get(api, arena_printf(&arena, "/apis/%s/%s", groups[i].name, groups[i].versions[version]),
							look_answered,
							&documents[i][version]);
			}
	arena_free(&arena);
}

static void begin(void *state);

static void
begin_answered(void *state, int status, const json_t *answer, const char *why)
{
	const char *uid = status == 200 ? kube_json_text(answer, "metadata", "uid", NULL) : NULL;

	if (uid == NULL)
	{
		note_answer(&begin_timer, status, "kube-apiserver does not say which cluster it is", SYSTEM_NAMESPACE, why);
		loop_timer_start(&begin_timer, AGAIN_MS, begin, NULL);
	}
	else if (strcasecmp(uid, config.cluster_id) != 0)
		log_line(LOG_ERROR, "reports are not merged: the kube-apiserver is not that of cluster %s, by the uid of its "
				 "namespace kube-system;"
				 " the proxy has to be started again with another --authentication-kubeconfig", config.cluster_id);
	else
	{
		note_mended(&begin_timer);
		for (size_t i = 0; i < KINDS; i++)
			watches[i].kind = &kinds[i];
		look(NULL);
		tell_again(NULL);
	}
}

static void
begin(void *state)
{
	kubeapi_get(api, SYSTEM_NAMESPACE, begin_answered, NULL);
}

/* ---------- for other files ---------- */

static bool
can_ask(void)
{
	static int	answer = -1;

	if (answer < 0)
		answer = config_has_kubeapi(config.authentication_kubeconfig);
	return answer == 1;
}

void
policies_follow(bool by_proxies, bool stored)
{
	if (!can_ask())
		return;
	wanted = by_proxies;
	if (!wanted)
	{
		resting = false;
		blamed = NULL;
	}
	else if (!following)
	{
		following = true;
		api = kubeapi_open(config.authentication_kubeconfig);
		begin(NULL);
	}
	else if (!stored && !changed && !telling)
		note_change();
}

bool
policies_known(int64_t *version)
{
	bool		known = !can_ask() || (following && view_whole() && !changed && !(telling && telling_change));

	if (looked_at != 0 && !look_holds())
		note_rest(&look_timer, 0, not_told, "it does not answer in time");
	if (known && resting)
	{
		log_line(LOG_ERROR, "reports are merged again: the active policies are known");
		resting = false;
		blamed = NULL;
	}
	*version = can_ask() ? stored_version : 0;
	return known;
}
