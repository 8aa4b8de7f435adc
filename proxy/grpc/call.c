/*-------------------------------------------------------------------------
 *
 * call.c
 *	  gRPC calls: messages, deadlines, the end of a call, and the limits of all calls together.
 *
 * A message is 5 bytes of head (compressed or not, length) and its bytes.  The
 * room for a message is held before its bytes are taken.  Bytes that cannot be
 * taken yet stay within the window of the stream (connection.c).  A message
 * waits there while the previous one is handled, and until the client has read
 * the answer to the previous one.
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/call.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"

#define HEAD_BYTES 5
#define STREAM_IDLE_MS (5 * 60 * 1000)	/* a stream without a message for this time is ended */
#define STRANGERS_MS (5 * 1000) /* time limit of calls that need no credential */
#define STRANGERS_CALLS 64		/* limit of such calls that are open at once */
#define LONGEST_TIMEOUT ((uint64_t) 24 * 3600 * 1000)	/* a longer timeout of the client counts as none */

/* Bytes held for each byte of a message: for the message, the parsed message, the document and the statement. */
#define HELD_PER_BYTE 4

struct Call
{
	Stream	   *stream;
	const CallMethod *method;
	void	   *work;
	char	   *user;			/* owned; NULL: none */
	uint64_t	deadline;		/* as loop_now() counts; 0: none */
	LoopTimer	timer;
	char	   *waiting;		/* bytes that were received and not taken, owned */
	size_t		waiting_len;
	size_t		waiting_at;
	size_t		waiting_size;
	char	   *message;		/* owned; NULL: no head of a message has arrived */
	size_t		message_len;
	size_t		message_size;
	size_t		held;
	Arena		arena;			/* memory of the message that is being handled */
	uint64_t	handled_since;
	uint64_t	messages;
	bool		admitted;
	bool		handling;		/* begin() or handle() is in progress */
	bool		half_closed;	/* the client sends no more */
	bool		ended;			/* call_end() was called */
	bool		advancing;
	bool		unsent;			/* the answer to a message waits for the client to read */
	Call	   *previous;
	Call	   *next;
};

static CallLimits limits;
static const CallMethod *methods;
static CallCounts counts;
static Call *first;
static bool stopping;

/* ---------- the state of a call ---------- */

Stream *
call_stream(const Call *call)
{
	return call->stream;
}

void
call_set_work(Call *call, void *work)
{
	call->work = work;
}

void *
call_work(const Call *call)
{
	return call->work;
}

void
call_name_user(Call *call, const char *name)
{
	free(call->user);
	call->user = strdup(name);
	if (call->user == NULL)
		abort();
}

uint64_t
call_time_left(const Call *call)
{
	uint64_t	now = loop_now();
	uint64_t	end = call->handled_since + (uint64_t) limits.timeout;

	if (call->deadline != 0 && call->deadline < end)
		end = call->deadline;
	return end > now ? end - now : 1;
}

CallCounts
calls_counts(void)
{
	return counts;
}

/* ---------- the end of a call ---------- */

static void
log_end(const Call *call, const CallStatus *status)
{
	log_line(status->code == STATUS_INTERNAL ? LOG_ERROR : LOG_INFO, "%s by %s ended with %s, messages: %llu%s%s",
			 call->method->path, call->user != NULL ? call->user : "a stranger", status_name(status->code),
			 (unsigned long long) call->messages, status->code != STATUS_OK ? "; " : "",
			 status->code != STATUS_OK ? status->message : "");
}

static void
release_message(Call *call)
{
	free(call->message);
	call->message = NULL;
	call->message_len = call->message_size = 0;
	counts.held_bytes -= call->held;
	call->held = 0;
}

/* Ends all work of the call, and counts and logs its end. */
static void
settle(Call *call, const CallStatus *status)
{
	call->ended = true;
	loop_timer_stop(&call->timer);
	if (call->handling)
	{
		call->handling = false;
		call->method->cancel(call);
	}
	counts.ended[status->code]++;
	log_end(call, status);
	release_message(call);
	free(call->waiting);
	call->waiting = NULL;
	call->waiting_len = call->waiting_at = call->waiting_size = 0;
}

void
call_end(Call *call, const CallStatus *status)
{
	StreamHeader trailers[STATUS_TRAILERS];
	size_t		count;

	if (call->ended)
		return;
	count = status_trailers(stream_arena(call->stream), status, trailers);
	/* The message of the status may be in the arena of the message that was handled. */
	call->handling = false;
	settle(call, status);
	stream_finish(call->stream, trailers, count);
}

void
call_fail(Call *call, StatusCode code, const char *message)
{
	CallStatus	status = {.code = code, .message = message};

	call_end(call, &status);
}

static void
fail_later(Call *call, StatusCode code, const char *message)
{
	CallStatus	status = {.code = code, .message = message, .retry_ms = STATUS_RETRY_MS};

	call_end(call, &status);
}

/* ---------- time ---------- */

static void start_timer(Call *call);

static void
time_is_up(void *state)
{
	Call	   *call = state;

	if (call->handling)
	{
		/* A statement in progress stores the whole message or nothing. */
		call->handling = false;
		call->method->cancel(call);
	}
	if (call->deadline != 0 && loop_now() >= call->deadline)
		call_fail(call, STATUS_DEADLINE_EXCEEDED, "the deadline of the call has passed");
	else
		call_fail(call, STATUS_DEADLINE_EXCEEDED, "the call waited too long for the client or the database");
}

static void
start_timer(Call *call)
{
	bool		waits = call->method->streams && call->admitted && !call->handling && call->message == NULL;
	uint64_t	now = loop_now();
	uint64_t	delay = waits ? STREAM_IDLE_MS : call->method->for_strangers ? STRANGERS_MS :
	(uint64_t) limits.timeout + 1000;

	if (call->deadline != 0 && call->deadline < now + delay)
		delay = call->deadline > now ? call->deadline - now : 0;
	loop_timer_start(&call->timer, delay, time_is_up, call);
}

/* Reads the milliseconds of a grpc-timeout; false when the value is invalid. */
static bool
read_timeout(const char *value, uint64_t *ms)
{
	uint64_t	number = 0;
	int			digits = 0;

	while (*value >= '0' && *value <= '9' && digits++ < 8)
		number = number * 10 + (uint64_t) (*value++ - '0');
	if (digits == 0 || digits > 8 || value[0] == '\0' || value[1] != '\0')
		return false;
	switch (*value)
	{
		case 'H':
			*ms = number * 3600 * 1000;
			return true;
		case 'M':
			*ms = number * 60 * 1000;
			return true;
		case 'S':
			*ms = number * 1000;
			return true;
		case 'm':
			*ms = number;
			return true;
		case 'u':
			*ms = (number + 999) / 1000;
			return true;
		case 'n':
			*ms = (number + 999999) / 1000000;
			return true;
		default:
			return false;
	}
}

/* ---------- messages ---------- */

static void
keep_waiting(Call *call, const char *bytes, size_t len)
{
	if (call->waiting_at > 0)
	{
		call->waiting_len -= call->waiting_at;
		memmove(call->waiting, call->waiting + call->waiting_at, call->waiting_len);
		call->waiting_at = 0;
	}
	if (call->waiting_len + len > call->waiting_size)
	{
		call->waiting_size = (call->waiting_len + len) * 2;
		call->waiting = realloc(call->waiting, call->waiting_size);
		if (call->waiting == NULL)
			abort();
	}
	memcpy(call->waiting + call->waiting_len, bytes, len);
	call->waiting_len += len;
}

/* Takes up to len of the waiting bytes. */
static void
take(Call *call, char *to, size_t len)
{
	if (len == 0)
		return;
	memcpy(to, call->waiting + call->waiting_at, len);
	call->waiting_at += len;
	stream_take(call->stream, len);
	if (call->waiting_at == call->waiting_len)
	{
		free(call->waiting);
		call->waiting = NULL;
		call->waiting_len = call->waiting_at = call->waiting_size = 0;
	}
}

/* Reads the head of a message and holds room for the message; false: the head is incomplete, or the call has ended. */
static bool
begin_message(Call *call)
{
	unsigned char head[HEAD_BYTES];
	size_t		size;

	if (call->waiting_len - call->waiting_at < HEAD_BYTES)
		return false;
	take(call, (char *) head, HEAD_BYTES);
	size = (size_t) head[1] << 24 | (size_t) head[2] << 16 | (size_t) head[3] << 8 | head[4];
	if (head[0] != 0)
		call_fail(call, STATUS_UNIMPLEMENTED, "compressed messages are not supported");
	else if (!call->method->streams && call->messages > 0)
		call_fail(call, STATUS_UNIMPLEMENTED, "the method takes one message");
	else if (size > (call->method->message_bytes > 0 ? call->method->message_bytes : limits.message_bytes))
		call_fail(call, STATUS_RESOURCE_EXHAUSTED, "the message is too large: see --max-message-bytes");
	else if (counts.held_bytes + size * HELD_PER_BYTE > limits.held_bytes)
		fail_later(call, STATUS_RESOURCE_EXHAUSTED, "too many messages are held already, please try again");
	if (call->ended)
		return false;
	call->held = size * HELD_PER_BYTE;
	counts.held_bytes += call->held;
	call->message_size = size;
	call->message = malloc(size + 1);
	if (call->message == NULL)
		abort();
	start_timer(call);
	return true;
}

static void
handle_message(Call *call)
{
	JsonText	message = {call->message, call->message_len};

	call->handling = true;
	call->messages++;
	call->handled_since = loop_now();
	arena_free(&call->arena);
	arena_init(&call->arena);
	start_timer(call);
	call->method->handle(call, &call->arena, message);
	/* The room stays held until the answer. */
	free(call->message);
	call->message = NULL;
}

/* The client sends no more: ends the call, unless a message is still being handled. */
static void
finish(Call *call)
{
	CallStatus	ok = {.code = STATUS_OK, .message = ""};

	if (call->message != NULL || call->waiting_len > 0)
		call_fail(call, STATUS_INVALID_ARGUMENT, "the last message is cut");
	else if (!call->method->streams && call->messages == 0)
		call_fail(call, STATUS_INVALID_ARGUMENT, "there is no message");
	else
		call_end(call, &ok);
}

/* Reads messages as far as the waiting bytes allow. */
static void
advance(Call *call)
{
	if (call->advancing)
		return;
	call->advancing = true;
	while (!call->ended && call->admitted && !call->handling && !call->unsent)
	{
		size_t		len = call->waiting_len - call->waiting_at;

		if (stopping && call->method->streams && call->message == NULL && !(call->half_closed && len == 0))
		{
			fail_later(call, STATUS_UNAVAILABLE, "the receiver is shutting down, please send the rest again");
			break;
		}
		if (call->message == NULL && !begin_message(call))
			break;
		len = call->waiting_len - call->waiting_at;
		if (len > call->message_size - call->message_len)
			len = call->message_size - call->message_len;
		take(call, call->message + call->message_len, len);
		call->message_len += len;
		if (call->message_len < call->message_size)
			break;
		handle_message(call);
	}
	call->advancing = false;
	if (!call->ended && call->admitted && !call->handling && !call->unsent && call->half_closed)
		finish(call);
}

void
call_admit(Call *call)
{
	call->handling = false;
	call->admitted = true;
	start_timer(call);
	advance(call);
}

void
call_answer(Call *call, JsonText message)
{
	uint32_t	size = htonl((uint32_t) message.len);
	char		head[HEAD_BYTES] = {0};

	memcpy(head + 1, &size, sizeof(size));
	call->handling = false;
	counts.messages++;
	stream_send(call->stream, head, HEAD_BYTES);
	stream_send(call->stream, message.bytes, message.len);
	release_message(call);
	if (!call->method->streams)
	{
		CallStatus	ok = {.code = STATUS_OK, .message = ""};

		call_end(call, &ok);
		return;
	}
	call->unsent = true;
	start_timer(call);
}

/* ---------- handlers of connection.c ---------- */

static const CallMethod *
find_method(const char *path)
{
	const CallMethod *method = methods;

	while (method->path != NULL && (path == NULL || strcmp(method->path, path) != 0))
		method++;
	return method->path != NULL ? method : NULL;
}

static void *
refuse(Stream *stream, StatusCode code, const char *message, int retry_ms)
{
	CallStatus	status = {.code = code, .message = message, .retry_ms = retry_ms};
	StreamHeader trailers[STATUS_TRAILERS];

	counts.ended[code]++;
	stream_finish(stream, trailers, status_trailers(stream_arena(stream), &status, trailers));
	return NULL;
}

static bool
is_grpc(const char *type)
{
	static const char grpc[] = "application/grpc";

	return type != NULL && strncasecmp(type, grpc, sizeof(grpc) - 1) == 0 &&
		(type[sizeof(grpc) - 1] == '\0' || type[sizeof(grpc) - 1] == ';' ||
		 strcasecmp(type + sizeof(grpc) - 1, "+proto") == 0);
}

static void *
begun(Stream *stream)
{
	const CallMethod *method = find_method(stream_header(stream, ":path"));
	const char *verb = stream_header(stream, ":method");
	const char *timeout = stream_header(stream, "grpc-timeout");
	uint64_t	ms = 0;
	Call	   *call;

	if (stream_head_is_large(stream))
		return refuse(stream, STATUS_RESOURCE_EXHAUSTED, "the metadata are too large", 0);
	if (verb == NULL || strcmp(verb, "POST") != 0 || !is_grpc(stream_header(stream, "content-type")))
		return refuse(stream, STATUS_INVALID_ARGUMENT, "this is a gRPC server: the request must be "
					  "POST with content-type application/grpc", 0);
	if (method == NULL)
		return refuse(stream, STATUS_UNIMPLEMENTED, "the method is unknown", 0);
	if (timeout != NULL && !read_timeout(timeout, &ms))
		return refuse(stream, STATUS_INVALID_ARGUMENT, "grpc-timeout must be up to 8 digits and a unit", 0);
	if (stopping)
		return refuse(stream, STATUS_UNAVAILABLE, "the receiver is shutting down, please try again", STATUS_RETRY_MS);
	if (counts.open - counts.open_for_strangers >= limits.calls ||
		(method->for_strangers && counts.open_for_strangers >= STRANGERS_CALLS))
		return refuse(stream, STATUS_RESOURCE_EXHAUSTED, "too many calls are open, please try again", STATUS_RETRY_MS);
	/* freed by gone() */
	call = allocate(sizeof(Call));
	call->stream = stream;
	call->method = method;
	call->handled_since = loop_now();
	if (timeout != NULL && ms < LONGEST_TIMEOUT)
		call->deadline = loop_now() + ms;
	arena_init(&call->arena);
	call->next = first;
	if (first != NULL)
		first->previous = call;
	first = call;
	counts.open++;
	counts.open_for_strangers += method->for_strangers;
	call->handling = true;
	start_timer(call);
	method->begin(call);
	return call;
}

static void
received(void *user, const char *bytes, size_t len)
{
	Call	   *call = user;

	if (call->ended)
		return;
	keep_waiting(call, bytes, len);
	advance(call);
}

static void
ended(void *user)
{
	Call	   *call = user;

	call->half_closed = true;
	advance(call);
}

static void
sent(void *user)
{
	Call	   *call = user;

	call->unsent = false;
	advance(call);
}

static void
gone(void *user)
{
	Call	   *call = user;
	CallStatus	cancelled = {.code = STATUS_CANCELLED, .message = "the client left"};

	if (!call->ended)
		settle(call, &cancelled);
	if (call->previous != NULL)
		call->previous->next = call->next;
	else
		first = call->next;
	if (call->next != NULL)
		call->next->previous = call->previous;
	counts.open--;
	counts.open_for_strangers -= call->method->for_strangers;
	arena_free(&call->arena);
	free(call->user);
	free(call);
}

const StreamHandlers call_handlers = {begun, received, ended, sent, gone};

void
calls_start(const CallLimits *given, const CallMethod *given_methods)
{
	limits = *given;
	methods = given_methods;
}

void
calls_stop(void)
{
	Call	   *next;

	stopping = true;
	for (Call *call = first; call != NULL; call = next)
	{
		next = call->next;
		advance(call);
	}
}
