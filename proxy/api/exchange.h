/*-------------------------------------------------------------------------
 *
 * exchange.h
 *	  One request of the Kubernetes API on its way through this worker.
 *
 * Made for every request of the API port, ended when the request ends,
 * however that comes about.  It goes through the stages of stages.c, from
 * one to the next with exchange_next(), until a stage answers.  A stage that
 * has to wait holds the exchange (exchange_hold()).
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
	Arena		arena;			/* freed with the exchange; by a watch when its stream begins */
	Route	   *route;			/* these live in the arena */
	const User *user;
	AccessAttributes access;	/* what is asked for, as authorization sees it */
	IdentityQuestion question;	/* who asks, and whether that is allowed */
	bool		create_denied;	/* an apply may not make the object; then create_denial says why */
	const char *create_denial;
	const char *namespace_uid;	/* of its namespace, when it may create and namespaces are known; else NULL */
	const char *namespace_state;	/* missing or terminating; else NULL */
	int			namespace_moves;	/* how often the store knew another one */
	JsonText	request;		/* the JSON object of extension/engine/api/request.h */
	JsonText	body;			/* JSON, or what body_error is about */
	const char *body_error;		/* NULL unless a body of YAML could not be read */
	JsonNode   *body_duplicates;	/* complaints about a body of YAML, or NULL */
	Registry   *registry;		/* the reading that type belongs to; a reference */
	const RegistryType *type;	/* NULL for non-resource requests */
	const char *verb;			/* for the metrics; a literal */
	uint64_t	started;
	int			code;			/* of the answer, 0 while there is none */
	bool		exempt;			/* from the limits of queues */
	bool		head;			/* HEAD: the answer has no body */
	bool		counted_elsewhere;	/* health.c answers */
	bool		under_way;		/* in this gauge, from when it is known what is asked for */
	MetricGauge gauge;
	LoopTimer	deadline;		/* --request-timeout or ?timeout=; not for watches */
	PgCall	   *call;			/* in flight for this exchange alone */
	OffloadJob *job;			/* under way for this exchange alone */
	int			stage;			/* the one it is in, of stages.c */
	void	   *work;			/* of what holds it; NULL: nothing does */
	void		(*let_go) (Exchange *exchange);
	void		(*expired) (Exchange *exchange);
};

/*
 * Something else holds the exchange now, in a queue or a list of its own.  let_go() is called when the request ends:
 * afterwards nothing may point at the exchange any more.  expired() is called when the deadline passes; NULL:
 * let_go(), and 504.
 */
extern void exchange_hold(Exchange *exchange, void *work, void (*let_go) (Exchange *exchange),
						  void (*expired) (Exchange *exchange));

/* Nothing holds it any more: let_go() and expired() will not be called. */
extern void exchange_release(Exchange *exchange);

/* Begins the next stage, or the present one again.  The exchange may be gone afterwards. */
extern void exchange_next(Exchange *exchange);
extern void exchange_again(Exchange *exchange);

/*
 * An apply makes the object when there is none, which needs the verb create as well; the extension knows whether there
 * is.
 */
extern bool exchange_applies(const Exchange *exchange);

/* Within what pg_send() runs at its end: the call was for this exchange, so that its log has how long it took. */
extern void exchange_note_database(Exchange *exchange);

/* Takes back the job under way, if there is one. */
extern void exchange_cancel_job(Exchange *exchange);

/* When the answer is to be there at last, from now. */
extern void exchange_set_deadline(Exchange *exchange, uint64_t milliseconds);

/* Milliseconds until the deadline, at least 1. */
extern uint64_t exchange_time_left(const Exchange *exchange);

#endif							/* EXCHANGE_H */
