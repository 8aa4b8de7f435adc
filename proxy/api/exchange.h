/*-------------------------------------------------------------------------
 *
 * exchange.h
 *	  One request of the Kubernetes API on its way through this worker.
 *
 * Every request of the API port has an exchange.  It ends when the request
 * ends, for whatever reason.  The exchange goes through the stages of
 * stages.c, from one to the next with exchange_next(), until a stage answers.
 * A stage that has to wait holds the exchange (exchange_hold()).
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
	Route	   *route;			/* these live in the arena */
	const User *user;
	AccessAttributes access;	/* the request as authorization sees it */
	IdentityQuestion question;	/* the authentication or authorization under way */
	bool		create_denied;	/* an apply must not create the object; create_denial says why */
	const char *create_denial;
	const char *namespace_uid;	/* uid of the namespace when the request may create and the uid is trusted; else NULL */
	const char *namespace_state;	/* missing or terminating; else NULL */
	int			namespace_moves;	/* how often the store had another namespace of that name */
	int			registry_moves; /* how often the store had another definition of the type */
	JsonText	request;		/* the JSON object of extension/engine/api/request.h */
	JsonText	body;			/* JSON, or the YAML that body_error is about */
	const char *body_error;		/* NULL unless a body of YAML could not be read */
	JsonNode   *body_duplicates;	/* complaints about a body of YAML, or NULL */
	Registry   *registry;		/* the reading of the registry that type belongs to; a reference */
	const RegistryType *type;	/* NULL for non-resource requests */
	const char *verb;			/* for the metrics; a literal */
	uint64_t	started;
	int			code;			/* of the answer; 0 before the answer */
	bool		exempt;			/* from the queue limits */
	bool		head;			/* HEAD: the answer has no body */
	bool		counted_elsewhere;	/* health.c answers */
	bool		under_way;		/* counted in gauge; set when the verb is known */
	MetricGauge gauge;
	LoopTimer	deadline;		/* --request-timeout or ?timeout=; not for watches */
	const struct ReadForm *form;	/* of a get that the proxy renders, */
	const struct ReadPlan *watch_plan;	/* and a watch that the proxy has planned; in the arena */
	PgCall	   *call;			/* in flight, for this exchange alone */
	OffloadJob *job;			/* under way for this exchange alone */
	int			stage;			/* the present stage of stages.c */
	void	   *work;			/* state of the holder; NULL when nothing holds the exchange */
	void		(*let_go) (Exchange *exchange);
	void		(*expired) (Exchange *exchange);
};

/* Begins the exchange of a request, before the first stage; NULL: its path or query is bad, and that is answered. */
extern Exchange *exchange_open(HttpRequest *request);

/*
 * Records that a queue or a list holds the exchange.  let_go() is called when the request ends: it must remove every
 * pointer to the exchange.  expired() is called when the deadline passes; when it is NULL, let_go() is called and the
 * answer is 504.
 */
extern void exchange_hold(Exchange *exchange, void *work, void (*let_go) (Exchange *exchange),
						  void (*expired) (Exchange *exchange));

/* Ends the hold: let_go() and expired() will not be called. */
extern void exchange_release(Exchange *exchange);

/* Begins the next stage, or the present one again.  Either may free the exchange. */
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

/* Cancels the job under way, if any. */
extern void exchange_cancel_job(Exchange *exchange);

/* Sets the deadline of the answer, from now. */
extern void exchange_set_deadline(Exchange *exchange, uint64_t milliseconds);

/* Milliseconds until the deadline, at least 1. */
extern uint64_t exchange_time_left(const Exchange *exchange);

#endif							/* EXCHANGE_H */
