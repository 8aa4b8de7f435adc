/*-------------------------------------------------------------------------
 *
 * exchange.h
 *	  One request of the Kubernetes API on its way through this worker.
 *
 * Every request of the API port has an exchange, which ends with the request.
 * The exchange goes through the stages of stages.c, from one to the next with
 * exchange_next(), until a stage answers.  A stage that has to wait holds the
 * exchange (exchange_hold()).
 *
 *-------------------------------------------------------------------------
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "http/http.h"
#include "identity/identity.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/offload.h"
#include "db/pg.h"
#include "api/registry.h"
#include "http/route.h"

typedef struct Exchange Exchange;

struct Exchange
{
	HttpRequest *http;
	Arena		arena;			/* freed with the exchange; a watch frees it when its stream begins */
	Route	   *route;			/* route and user live in the arena */
	const User *user;
	AccessAttributes access;	/* the request as authorization sees it */
	IdentityQuestion question;	/* the authentication or authorization in progress */
	bool		create_denied;	/* an apply must not create the object; create_denial says why */
	const char *create_denial;
	const char *namespace_uid;	/* uid of the namespace when the request may create and the uid is trusted; else NULL */
	const char *namespace_state;	/* missing or terminating; else NULL */
	int			namespace_moves;	/* how often the store had another uid for the namespace */
	int			registry_moves; /* how often the store had another definition of the type */
	JsonText	request;		/* the JSON object of extension/engine/api/request.h */
	const struct ApiRequest *asked; /* the same, decoded by get_plan(), in the arena */
	JsonText	body;			/* JSON; with a body_error, the YAML */
	const char *body_error;		/* NULL unless a body of YAML could not be read */
	JsonNode   *body_duplicates;	/* messages about duplicate keys in a body of YAML, or NULL */
	Registry   *registry;		/* a reference to the reading of the registry that has type */
	const RegistryType *type;	/* NULL for non-resource requests */
	const char *verb;			/* for the metrics; a literal */
	uint64_t	started;
	int			code;			/* of the answer; 0 before the answer */
	bool		exempt;			/* system:masters: the limits of queues are higher */
	bool		head;			/* HEAD: the answer has no body */
	bool		counted_elsewhere;	/* a probe of health.c: not counted as a request of the API */
	bool		under_way;		/* counted in gauge; set when the verb is known */
	MetricGauge gauge;
	LoopTimer	deadline;		/* --request-timeout or ?timeout=; not for watches */
	const struct ReadForm *form;	/* variant sql, in the arena: the form of a get */
	const struct ReadPlan *watch_plan;	/* variant sql, in the arena: the plan of a watch */
	PgCall	   *call;			/* call in flight for this exchange alone */
	OffloadJob *job;			/* job in progress for this exchange alone */
	int			stage;			/* the present stage of stages.c */
	void	   *work;			/* state of the holder; NULL when nothing holds the exchange */
	void		(*let_go) (Exchange *exchange);
	void		(*expired) (Exchange *exchange);
	void		(*late) (Exchange *exchange);
};

/*
 * Begins the exchange of a request, before the first stage.  NULL when the path or the query is bad; then refuse() has
 * answered the request.
 */
extern Exchange *exchange_open(HttpRequest *request, void (*refuse) (Exchange *exchange, const char *why));

/*
 * Records that a queue or a list holds the exchange.  let_go() is called when the request ends: it must remove every
 * pointer to the exchange.  expired() is called when the deadline passes; when it is NULL, let_go() is called and then
 * late(), which exchange_set_deadline() was given.
 */
extern void exchange_hold(Exchange *exchange, void *work, void (*let_go) (Exchange *exchange),
						  void (*expired) (Exchange *exchange));

/* Ends the hold: let_go() and expired() will not be called. */
extern void exchange_release(Exchange *exchange);

/* Begins the next stage; begins the present stage again.  Both may free the exchange. */
extern void exchange_next(Exchange *exchange);
extern void exchange_again(Exchange *exchange);

/* Goes back to the stage that finds the type, with a new reading of the registry. */
extern void exchange_find_type_again(Exchange *exchange);

/*
 * Whether the request is an apply.  An apply creates a missing object and then also needs the verb create; only the
 * extension knows whether the object exists.
 */
extern bool exchange_applies(const Exchange *exchange);

/*
 * Adds the time of the finished call to the request's log line.  Call only in the callback of pg_send(), for a call
 * that served this exchange alone.
 */
extern void exchange_note_database(Exchange *exchange);

/* Cancels the job in progress, if there is one. */
extern void exchange_cancel_job(Exchange *exchange);

/* Sets the deadline of the answer to so many milliseconds from now.  late() answers when it has passed. */
extern void exchange_set_deadline(Exchange *exchange, uint64_t milliseconds, void (*late) (Exchange *exchange));

/* Returns the milliseconds until the deadline, at least 1. */
extern uint64_t exchange_time_left(const Exchange *exchange);

#endif							/* EXCHANGE_H */
