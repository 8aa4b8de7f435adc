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

/* The values of the flags of all these commands. */
typedef struct ApiServiceOptions
{
	const char *kubeconfig;
	const char *service_text;
	const char *replace_text;
	const char *ca_file;
	const char *connect_to;
	const char *database;		/* connection string; NULL: the database is not asked */
	const char *cluster_id;
	int			group_priority;
	int			version_priority;
	int			timeout;		/* seconds */
	bool		wait;
	bool		all;
} ApiServiceOptions;

/* One group and version that a command works on. */
typedef struct Target
{
	const char *group;
	const char *version;
	const char *name;			/* name of the APIService */
	bool		created;		/* this run created the APIService */
	bool		given_back;		/* this run gave the group back */
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
	ServiceAddress replace;		/* the Service of --replace; without a name: none */
	JsonText	ca;
	X509_STORE *ca_store;
	const char *ca_bundle;		/* base64 */
	NameList	crds;			/* names of the CRDs of the cluster */
	uint64_t	deadline;		/* end of the time limit, as loop_now() counts */
	size_t		count;
	Target		targets[MOST_TARGETS];
} Run;

/* Whether a text is a DNS name, which needs no escaping in a path. */
extern bool run_is_name(const char *text);

/* Reads NAMESPACE/NAME or NAMESPACE/NAME:PORT, the value of a flag.  A wrong value ends the process with code 2. */
extern void run_read_service(Run *run, const char *flag, const char *text, ServiceAddress *service);

/* Checks HOST:PORT, the value of a flag, which may be empty.  A wrong value ends the process with code 2. */
extern void run_check_address(const Run *run, const char *flag, const char *text);

/* Closes the connections of a run and frees its memory. */
extern void run_end(Run *run);

/* Prints that kube-apiserver refused a request; for code 403 also which page lists the missing rights. */
extern void tell_refused(const char *name, const Answer *answer);

/* Waits before the next check of a state, or until a signal. */
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

/* Reads an APIService.  The caller gets the reference *document, into which the texts of registration point. */
extern Found read_api_service(Run *run, Arena *arena, const char *name, json_t **document, Registration *registration);

typedef enum Sent
{
	SENT,
	SENT_CONFLICT,				/* the APIService was changed meanwhile: read it again */
	SENT_ERROR					/* an error was printed */
} Sent;

/* Sends a change of an APIService: POST creates it.  content_type NULL: JSON.  send_patch() sends a merge patch. */
extern Sent send_change(Run *run, Arena *arena, const char *name, const char *method, const char *content_type,
						JsonText body);
extern Sent send_patch(Run *run, Arena *arena, const char *name, JsonText patch);

/* Repeats an attempt while it ends with SENT_CONFLICT.  On failure prints an error and returns false. */
extern bool repeat(Run *run, Target *target, Sent (*attempt) (Run *run, Arena *arena, Target *target));

/*
 * Waits until an APIService is available, with the reason "Local" (local) or another reason (not local).  Prints an
 * error and returns false when the time is over.  kube-apiserver gives the reason "Local" for a group that it serves
 * itself, and keeps it for a while after a change.
 */
extern bool wait_available(Run *run, const char *name, bool local);

/* Read run->crds, and the plural names of a target's CRDs.  On failure they print an error and return false. */
extern bool read_crds(Run *run);
extern bool crds_of_target(Run *run, const Target *target, NameList *plurals);

#endif							/* API_SERVICE_RUN_H */
