/*-------------------------------------------------------------------------
 *
 * call.h
 *	  gRPC calls: messages, deadlines, the end of a call, and the limits of all calls together.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_CALL_H
#define GRPC_CALL_H

#include "grpc/status.h"

typedef struct Call Call;

typedef struct CallMethod
{
	const char *path;			/* path of the request: /package.Service/Method */
	bool		streams;		/* the client may send several messages, each with an answer */
	bool		for_strangers;	/* needs no credential: few such calls may be open, and only for seconds */
	size_t		message_bytes;	/* largest size of a message; 0: the one of CallLimits */

	/* Called once when the head of a call has arrived.  Calls call_admit() or call_end(), now or later. */
	void		(*begin) (Call *call);

	/*
	 * Handles a message, in an arena that lives until the answer.  Calls call_answer() or call_end(), now or later. Is
	 * not called with the next message before that.
	 */
	void		(*handle) (Call *call, Arena *arena, JsonText message);

	/* Called when the call ends while begin() or handle() is in progress: their callbacks must not run afterwards. */
	void		(*cancel) (Call *call);
} CallMethod;

typedef struct CallLimits
{
	size_t		message_bytes;	/* size of one message */
	size_t		calls;			/* calls that are open at once, on all connections */
	size_t		held_bytes;		/* memory for all messages that are being received or stored */
	int			timeout;		/* milliseconds for storing a message, and for calls without a deadline */
} CallLimits;

typedef struct CallCounts
{
	size_t		open;
	size_t		open_for_strangers;
	size_t		held_bytes;
	uint64_t	messages;		/* number of answered messages */
	uint64_t	ended[STATUS_CODES];	/* number of ended calls by status; STATUS_CANCELLED: by the client */
} CallCounts;

/* Sets the limits and the methods.  The methods end with an entry whose path is NULL, and must stay valid. */
extern void calls_start(const CallLimits *given, const CallMethod *given_methods);

/* Ends streams after the message that is being handled, and refuses new calls. */
extern void calls_stop(void);

extern CallCounts calls_counts(void);

/* The handlers to pass to connections_listen(). */
extern const StreamHandlers call_handlers;

extern Stream *call_stream(const Call *call);

/* Returns the milliseconds that are left for handling the present message. */
extern uint64_t call_time_left(const Call *call);

/* Set and return a pointer that the method keeps with the call. */
extern void call_set_work(Call *call, void *work);
extern void *call_work(const Call *call);

/* Sets the name of the user for log lines; copied. */
extern void call_name_user(Call *call, const char *name);

/* Ends begin(): from now on handle() is called with messages. */
extern void call_admit(Call *call);

/* Answers the message that is being handled. */
extern void call_answer(Call *call, JsonText message);

/* End the call, which must not be used afterwards. */
extern void call_end(Call *call, const CallStatus *status);
extern void call_fail(Call *call, StatusCode code, const char *message);

#endif							/* GRPC_CALL_H */
