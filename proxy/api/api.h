/*-------------------------------------------------------------------------
 *
 * api.h
 *	  One request of the Kubernetes API on its way through this worker.
 *
 * Made by api.c for every request of the API port, ended by it when the
 * request ends, however that comes about.  Whoever works on it (list.c,
 * write.c, watch.c) keeps its own state in work and is told through closed:
 * afterwards nothing may point at the exchange any more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef API_H
#define API_H

#include "http/http.h"
#include "identity/identity.h"
#include "base/loop.h"
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
	LoopTimer	deadline;		/* --request-timeout or ?timeout=; not for watches */
	PgCall	   *call;			/* in flight for this exchange alone */
	OffloadJob *job;			/* under way for this exchange alone */
	void	   *work;
	void		(*closed) (Exchange *exchange);
	void		(*expired) (Exchange *exchange);	/* instead of 504 when the deadline passes */
};

/* Begins what the request asks for, with what is known of its namespace by now. */
extern void exchange_perform(Exchange *exchange);

/* An apply makes the object when there is none, which needs the verb create as well; the extension knows whether there is. */
extern bool exchange_applies(const Exchange *exchange);

/* Takes back the job under way, if there is one. */
extern void exchange_cancel_job(Exchange *exchange);

/* Milliseconds until the deadline, at least 1. */
extern uint64_t exchange_time_left(const Exchange *exchange);

#endif							/* API_H */
