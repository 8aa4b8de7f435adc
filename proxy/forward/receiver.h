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
	const char *ca_file;		/* this and the next three: files, read for each request; "": none */
	const char *token_file;
	const char *certificate_file;
	const char *key_file;
	const char *metadata;		/* extraMetadata, as JSON */
	void		(*stored) (uint64_t number);	/* called when the receiver has stored the batch with the number */
	void		(*stream_lost) (void);	/* called when the receiver does not know the stream: everything is compared */
} Receiver;

/* Sets the receiver.  The strings must stay valid. */
extern void receiver_start(const Receiver *given);

/*
 * Sends the oldest batch, unless a batch is being sent.  While there is nothing to send, asks an empty question each
 * minute: by that the receiver knows that the sender is there.
 */
extern void receiver_look(void);

/*
 * receiver_ask() sends a question until the receiver has answered with 200; then answered() gets the body of the
 * answer, which is valid until answered() returns.  The body of the question is copied.
 */
typedef struct ReceiverQuestion ReceiverQuestion;
extern ReceiverQuestion *receiver_ask(const char *path, JsonText body, void (*answered) (void *state, JsonText body),
									  void *state);

typedef struct ReceiverCounts
{
	uint64_t	batches;		/* batches that the receiver has stored */
	uint64_t	failures;		/* requests without the answer 200 */
	uint64_t	rejected;		/* objects that the receiver refused */
	uint64_t	streams;		/* streams begun because the receiver did not know the previous one */
	bool		up;				/* the last attempt was answered with 200 */
} ReceiverCounts;

extern ReceiverCounts receiver_counts(void);

#endif							/* FORWARD_RECEIVER_H */
