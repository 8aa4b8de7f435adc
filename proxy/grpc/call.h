/*-------------------------------------------------------------------------
 *
 * call.h
 *	  gRPC calls: messages, deadlines, how a call ends, and what all calls together may hold.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_CALL_H
#define GRPC_CALL_H

#include "grpc/status.h"

typedef struct Call Call;

typedef struct CallMethod
{
	const char *path;			/* of the request, as in /package.Service/Method */
	bool		streams;		/* the client may send several messages, each with an answer */
	bool		for_strangers;	/* needs no credential: few such calls may be open, and only for seconds */
	size_t		message_bytes;	/* of a message, at most; 0: CallLimits */

	/* Looks at the head of a call, once.  Calls call_admit() or call_end(), now or later. */
	void		(*begin) (Call *call);

	/*
	 * Handles a message, in an arena that lives until the answer.  Calls call_answer() or call_end(), now or later; no
	 * other message comes before.
	 */
	void		(*handle) (Call *call, Arena *arena, JsonText message);

	/* The call has ended while begin() or handle() were under way: their callbacks must not run. */
	void		(*cancel) (Call *call);
} CallMethod;

typedef struct CallLimits
{
	size_t		message_bytes;	/* of one message */
	size_t		calls;			/* open at once, of all connections */
	size_t		held_bytes;		/* of all messages that are being received or stored */
	int			timeout;		/* milliseconds: of one message, and of calls without a deadline */
} CallLimits;

typedef struct CallCounts
{
	size_t		open;
	size_t		open_for_strangers;
	size_t		held_bytes;
	uint64_t	messages;		/* answered */
	uint64_t	ended[STATUS_CODES];	/* calls, by their status; CANCELLED: by the client */
} CallCounts;

/* The methods end with an entry whose path is NULL; they stay valid. */
extern void calls_start(const CallLimits *given, const CallMethod *given_methods);

/* Ends streams after the message that is being handled, and refuses new calls. */
extern void calls_stop(void);

extern CallCounts calls_counts(void);

/* For connections_listen(). */
extern const StreamHandlers call_handlers;

extern Stream *call_stream(const Call *call);

/* Milliseconds that handling the present message may take. */
extern uint64_t call_time_left(const Call *call);

/* What the method keeps with the call. */
extern void call_set_work(Call *call, void *work);
extern void *call_work(const Call *call);

/* The name that log lines show; copied. */
extern void call_name_user(Call *call, const char *name);

/* Messages may come. */
extern void call_admit(Call *call);

/* Answers the message that is being handled. */
extern void call_answer(Call *call, JsonText message);

/* Ends the call.  It must not be used afterwards. */
extern void call_end(Call *call, const CallStatus *status);
extern void call_fail(Call *call, StatusCode code, const char *message);

#endif							/* GRPC_CALL_H */
