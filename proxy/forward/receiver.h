/*-------------------------------------------------------------------------
 *
 * receiver.h
 *	  Requests of the sender to the receiver: batches of the queue, and questions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FORWARD_RECEIVER_H
#define FORWARD_RECEIVER_H

#include "cluster/kubeconfig.h"

typedef struct Receiver
{
	const char *server;			/* https://host:port */
	const char *ca_file;		/* these four: "" for none; read for each request */
	const char *token_file;
	const char *certificate_file;
	const char *key_file;
	const char *metadata;		/* JSON: extraMetadata */
} Receiver;

/* The strings must stay valid. */
extern void receiver_start(const Receiver *given);

/* Sends the oldest batch, unless one is under way. */
extern void receiver_look(void);

/*
 * Asks until the receiver has answered with 200; then answered() gets the body, which is valid until it returns.
 * The body of the question is copied.
 */
typedef struct ReceiverQuestion ReceiverQuestion;
extern ReceiverQuestion *receiver_ask(const char *path, JsonText body, void (*answered) (void *state, JsonText body),
									  void *state);

typedef struct ReceiverCounts
{
	uint64_t	batches;		/* that the receiver has stored */
	uint64_t	failures;		/* attempts */
	uint64_t	rejected;		/* objects that the receiver refused */
	uint64_t	streams;		/* begun because the receiver did not know the one before */
	bool		up;				/* the last attempt was answered with 200 */
} ReceiverCounts;

extern ReceiverCounts receiver_counts(void);

#endif							/* FORWARD_RECEIVER_H */
