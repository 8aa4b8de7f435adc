/*-------------------------------------------------------------------------
 *
 * api_service_run.h
 *	  Common parts of the commands of kube-reports-proxy apiservice.
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

/* The flags of all these commands. */
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
	const char *name;			/* of the APIService */
	bool		created;		/* by this run */
	bool		given_back;		/* by this run */
	json_t	   *before;			/* APIService before this run; NULL: not taken over, or created */
} Target;

/* The state of a run. */
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

/* Whether a text is a DNS name, which needs no escaping in a path. */
extern bool run_is_name(const char *text);

/* Reads NAMESPACE/NAME or NAMESPACE/NAME:PORT, the value of a flag; a wrong one ends the process. */
extern void run_read_service(Run *run, const char *flag, const char *text, ServiceAddress *service);

/* Closes and frees what a run has. */
extern void run_end(Run *run);

/* Prints a refusal; for code 403 also where to find the rights that are missing. */
extern void tell_refused(const char *name, const Answer *answer);

extern void pause_for_poll(void);

/* Whether the deadline has passed, or a signal has ended waiting. */
extern bool is_late(const Run *run);

/*
 * From here on the first SIGTERM or SIGINT ends waiting, so that changes can be undone.  The second signal ends the
 * process.
 */
extern void stop_waiting_at_signals(void);

typedef enum Found
{
	FOUND,
	FOUND_NONE,
	FOUND_ERROR					/* an error was printed */
} Found;

/* The caller has the reference to *document, into which the registration points. */
extern Found read_api_service(Run *run, Arena *arena, const char *name, json_t **document, Registration *registration);

typedef enum Sent
{
	SENT,
	SENT_CONFLICT,				/* it was changed meanwhile: read it again */
	SENT_ERROR					/* an error was printed */
} Sent;

/* method POST: creates the APIService; content_type NULL: JSON. */
extern Sent send_change(Run *run, Arena *arena, const char *name, const char *method, const char *content_type,
						JsonText body);
extern Sent send_patch(Run *run, Arena *arena, const char *name, JsonText patch);

/* Repeats an attempt while it ends with SENT_CONFLICT.  On failure prints an error and returns false. */
extern bool repeat(Run *run, Target *target, Sent (*attempt) (Run *run, Arena *arena, Target *target));

/*
 * Waits for the condition Available with the reason "Local" (local), or with another reason (not local).
 * kube-apiserver gives the reason "Local" for a group that it serves itself, also for a while after that has changed.
 */
extern bool wait_available(Run *run, const char *name, bool local);

/* Read run->crds, and the plural names of a target's CRDs.  On failure they print an error and return false. */
extern bool read_crds(Run *run);
extern bool crds_of_target(Run *run, const Target *target, NameList *plurals);

#endif							/* API_SERVICE_RUN_H */
