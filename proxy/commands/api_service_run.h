/*-------------------------------------------------------------------------
 *
 * api_service_run.h
 *	  What the commands of kube-reports-proxy apiservice have in common.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_SERVICE_RUN_H
#define API_SERVICE_RUN_H

#include <openssl/x509_vfy.h>

#include "base/flags.h"
#include "base/name_list.h"
#include "cluster/ask.h"
#include "cluster/registration.h"

#define MOST_TARGETS 100

/* The flags of all of them. */
typedef struct ApiServiceOptions
{
	const char *kubeconfig;
	const char *service_text;
	const char *replace_text;
	const char *ca_file;
	const char *connect_to;
	const char *database;		/* NULL: not asked */
	const char *cluster_id;
	int			group_priority;
	int			version_priority;
	int			timeout;		/* seconds */
	bool		wait;
	bool		all;
} ApiServiceOptions;

/* One version of a group. */
typedef struct Target
{
	const char *group;
	const char *version;
	const char *name;			/* of its APIService */
	bool		created;		/* by this run */
	bool		given_back;		/* likewise */
	const JsonNode *before;		/* what this run took over; NULL: nothing, or created */
} Target;

/* What a run knows. */
typedef struct Run
{
	const FlagSet *set;
	ApiServiceOptions options;
	Arena		arena;
	Asker	   *kube;
	ServiceAddress service;
	ServiceAddress replace;		/* without a name: none */
	JsonText	ca;
	X509_STORE *ca_store;
	const char *ca_bundle;		/* base64 */
	NameList	crds;			/* of the cluster */
	uint64_t	deadline;		/* of loop_now() */
	size_t		count;
	Target		targets[MOST_TARGETS];
} Run;

/* An answer that says no; of 403 also what is missing. */
extern void tell_refused(const char *name, const Answer *answer);

extern void pause_for_poll(void);

/* Whether the time is over, or a signal has ended it. */
extern bool is_late(const Run *run);

/*
 * From here on the first SIGTERM or SIGINT ends waiting, so that what was changed can be taken back; the second one
 * ends the process.
 */
extern void stop_waiting_at_signals(void);

typedef enum Found
{
	FOUND,
	FOUND_NONE,
	FOUND_ERROR					/* told */
} Found;

extern Found read_api_service(Run *run, Arena *arena, const char *name, const JsonNode **document,
							  Registration *registration);

typedef enum Sent
{
	SENT,
	SENT_CONFLICT,				/* somebody else was faster: look again */
	SENT_ERROR					/* told */
} Sent;

/* method POST: a new one; content_type NULL: JSON. */
extern Sent send_change(Run *run, Arena *arena, const char *name, const char *method, const char *content_type,
						JsonText body);
extern Sent send_patch(Run *run, Arena *arena, const char *name, JsonText patch);

/* Repeats an attempt until nobody else was faster; false, told, when it failed. */
extern bool repeat(Run *run, Target *target, Sent (*attempt) (Run *run, Arena *arena, Target *target));

/*
 * Waits for the condition Available with a reason that is, or is not, kube-apiserver's own: "Local" is what it says
 * of a group that it serves itself, also for a while after that has changed.
 */
extern bool wait_available(Run *run, const char *name, bool local);

/* Reads run->crds, and the plural names of those of a target; false, told. */
extern bool read_crds(Run *run);
extern bool crds_of_target(Run *run, const Target *target, NameList *plurals);

#endif							/* API_SERVICE_RUN_H */
