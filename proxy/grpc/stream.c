/*-------------------------------------------------------------------------
 *
 * stream.c
 *	  Streams of HTTP/2: their heads, bytes in both directions, and the callbacks of libnghttp2.
 *
 *-------------------------------------------------------------------------
 */
#include "grpc/connection_private.h"

#include <string.h>

#include "base/allocate.h"

#define TRUSTED_WINDOW (1024 * 1024)	/* window of the connection of a client with a proved credential */
#define HEAD_FLOOD ((size_t) 256 * 1024)	/* a head above this size closes the connection */
#define RESETS_AT_ONCE 200		/* number of streams that a client may reset at once */
#define RESETS_PER_SECOND 50	/* and in each further second */
#define WRONG_CREDENTIALS 8		/* number of wrong credentials that close a stranger's connection */

static const StreamHandlers *handlers;
static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;

/* ---------- streams ---------- */

static Stream *
stream_new(Connection *connection, int32_t id)
{
	/* freed by stream_free() */
	Stream	   *stream = allocate(sizeof(Stream));

	arena_init(&stream->arena);
	stream->connection = connection;
	stream->id = id;
	stream->next = connection->streams;
	if (stream->next != NULL)
		stream->next->previous = stream;
	connection->streams = stream;
	connection->stream_count++;
	return stream;
}

static void
stream_free(Stream *stream)
{
	Connection *connection = stream->connection;
	void	   *user = stream->user;

	stream->user = NULL;
	if (user != NULL)
		handlers->gone(user);
	if (stream->previous != NULL)
		stream->previous->next = stream->next;
	else
		connection->streams = stream->next;
	if (stream->next != NULL)
		stream->next->previous = stream->previous;
	connection->stream_count--;
	connection->active_at = loop_now();
	free(stream->out);
	arena_free(&stream->arena);
	free(stream);
}

const char *
stream_header(const Stream *stream, const char *name)
{
	for (size_t i = 0; i < stream->header_count; i++)
		if (strcmp(stream->headers[i].name, name) == 0)
			return stream->headers[i].value;
	return NULL;
}

bool
stream_next_header(const Stream *stream, size_t *at, const char **name, const char **value)
{
	if (*at == stream->header_count)
		return false;
	*name = stream->headers[*at].name;
	*value = stream->headers[(*at)++].value;
	return true;
}

bool
stream_head_is_large(const Stream *stream)
{
	return stream->large;
}

ClientCertificate *
stream_peer(const Stream *stream)
{
	return stream->connection->peer;
}

Arena *
stream_arena(Stream *stream)
{
	return &stream->arena;
}

void
stream_trust(Stream *stream)
{
	Connection *connection = stream->connection;

	if (connection->trusted)
		return;
	connection->trusted = true;
	connection_counts.strangers--;
	nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0, TRUSTED_WINDOW);
	for (Stream *each = connection->streams; each != NULL; each = each->next)
	{
		nghttp2_session_consume_connection(connection->session, each->owed);
		each->owed = 0;
	}
	connection_run_soon(connection);
}

void
stream_distrust(Stream *stream)
{
	Connection *connection = stream->connection;

	if (connection->trusted || ++connection->wrong_credentials < WRONG_CREDENTIALS)
		return;
	nghttp2_session_terminate_session(connection->session, NGHTTP2_ENHANCE_YOUR_CALM);
	connection->going_away = true;
	connection_run_soon(connection);
}

void
stream_take(Stream *stream, size_t len)
{
	size_t		owed = len < stream->owed ? len : stream->owed;
	size_t		taken = len < stream->untaken ? len : stream->untaken;

	if (owed > 0)
		nghttp2_session_consume_connection(stream->connection->session, owed);
	nghttp2_session_consume_stream(stream->connection->session, stream->id, taken);
	stream->owed -= owed;
	stream->untaken -= taken;
	connection_run_soon(stream->connection);
}

/* ---------- answers ---------- */

static nghttp2_nv
make_header(Stream *stream, const StreamHeader *header)
{
	char	   *name = arena_strdup(&stream->arena, header->name);
	char	   *value = arena_strndup(&stream->arena, header->value.bytes, header->value.len);
	nghttp2_nv	made = {.namelen = strlen(name), .valuelen = header->value.len};

	made.name = (uint8_t *) name;
	made.value = (uint8_t *) value;
	return made;
}

static void
reset_stream(Stream *stream, uint32_t code)
{
	if (stream->reset)
		return;
	stream->reset = true;
	nghttp2_submit_rst_stream(stream->connection->session, NGHTTP2_FLAG_NONE, stream->id, code);
}

/* libnghttp2 asks for bytes of the answer. */
static ssize_t
give_bytes(nghttp2_session *session, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
		   nghttp2_data_source *source, void *state)
{
	Stream	   *stream = source->ptr;
	size_t		len = stream->out_len - stream->out_sent;

	if (len > room)
		len = room;
	if (len > 0)
		memcpy(to, stream->out + stream->out_sent, len);
	stream->out_sent += len;
	if (stream->out_sent < stream->out_len)
		return (ssize_t) len;
	stream->out_sent = stream->out_len = 0;
	if (stream->finished)
	{
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		nghttp2_submit_trailer(session, id, stream->trailers, stream->trailer_count);
		return (ssize_t) len;
	}
	if (len == 0)
		return NGHTTP2_ERR_DEFERRED;
	if (stream->user != NULL)
		handlers->sent(stream->user);
	return (ssize_t) len;
}

static void
submit_head(Stream *stream, bool alone)
{
	nghttp2_nv *head = arena_alloc(&stream->arena, sizeof(nghttp2_nv) * (stream->trailer_count + 2));
	StreamHeader status = {":status", {"200", 3}};
	StreamHeader type = {"content-type", {"application/grpc", strlen("application/grpc")}};
	nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = give_bytes};

	stream->answered = true;
	head[0] = make_header(stream, &status);
	head[1] = make_header(stream, &type);
	if (alone)
		memcpy(head + 2, stream->trailers, sizeof(nghttp2_nv) * stream->trailer_count);
	nghttp2_submit_response(stream->connection->session, stream->id, head, alone ? stream->trailer_count + 2 : 2,
							alone ? NULL : &provider);
}

void
stream_send(Stream *stream, const char *bytes, size_t len)
{
	if (stream->out_len + len > stream->out_size)
	{
		stream->out_size = (stream->out_len + len) * 2;
		stream->out = realloc(stream->out, stream->out_size);
		if (stream->out == NULL)
			abort();
	}
	memcpy(stream->out + stream->out_len, bytes, len);
	stream->out_len += len;
	if (!stream->answered)
		submit_head(stream, false);
	else
		nghttp2_session_resume_data(stream->connection->session, stream->id);
	connection_run_soon(stream->connection);
}

void
stream_finish(Stream *stream, const StreamHeader *trailers, size_t count)
{
	if (stream->finished)
		return;
	stream->finished = true;
	stream->trailers = arena_alloc(&stream->arena, sizeof(nghttp2_nv) * (count + 1));
	stream->trailer_count = count;
	for (size_t i = 0; i < count; i++)
		stream->trailers[i] = make_header(stream, &trailers[i]);
	if (!stream->answered)
		submit_head(stream, true);
	else
		nghttp2_session_resume_data(stream->connection->session, stream->id);
	connection_run_soon(stream->connection);
}

/* ---------- callbacks of libnghttp2 ---------- */

static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *state)
{
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream_new(state, frame->hd.stream_id));
	return 0;
}

static int
on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		  const uint8_t *value, size_t value_len, uint8_t flags, void *state)
{
	Stream	   *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	Header	   *header;

	if (stream == NULL)
		return 0;
	stream->head_bytes += name_len + value_len + 32;
	if (stream->head_bytes > HEAD_FLOOD)
	{
		connection_break(state, "its head is far too large");
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (stream->head_bytes > HEAD_BYTES || stream->header_count == HEAD_FIELDS)
	{
		stream->large = true;
		return 0;
	}
	/* Trailers of a request are ignored. */
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	header = &stream->headers[stream->header_count++];
	header->name = arena_strndup(&stream->arena, (const char *) name, name_len);
	header->value = arena_strndup(&stream->arena, (const char *) value, value_len);
	return 0;
}

static int
on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *state)
{
	Stream	   *stream;

	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (stream == NULL)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		stream->user = handlers->begun(stream);
	if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && stream->user != NULL)
		handlers->ended(stream->user);
	return 0;
}

static int
on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len, void *state)
{
	Connection *connection = state;
	Stream	   *stream = nghttp2_session_get_stream_user_data(session, id);

	if (stream == NULL || stream->user == NULL || stream->finished)
	{
		nghttp2_session_consume_connection(session, len);
		return 0;
	}
	if (connection->trusted)
		nghttp2_session_consume_connection(session, len);
	else
		stream->owed += len;
	stream->untaken += len;
	handlers->received(stream->user, (const char *) bytes, len);
	return 0;
}

static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *state)
{
	Stream	   *stream = nghttp2_session_get_stream_user_data(session, id);

	if (stream == NULL)
		return 0;
	if (stream->owed > 0)
		nghttp2_session_consume_connection(session, stream->owed);
	nghttp2_session_set_stream_user_data(session, id, NULL);
	stream_free(stream);
	return 0;
}

/* After the last frame of an answer, a stream on which the client could still send is closed. */
static int
on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *state)
{
	Stream	   *stream;

	if (frame->hd.type != NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
		return 0;
	stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	if (stream != NULL && nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) == 0)
		reset_stream(stream, NGHTTP2_NO_ERROR);
	return 0;
}

void
streams_start(const StreamHandlers *given)
{
	handlers = given;
	nghttp2_session_callbacks_new(&callbacks);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
	nghttp2_option_new(&options);
	nghttp2_option_set_no_auto_window_update(options, 1);
	nghttp2_option_set_no_closed_streams(options, 1);
	/* A header with white space around its value must be answered, not reset. */
	nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(options, 1);
	nghttp2_option_set_stream_reset_rate_limit(options, RESETS_AT_ONCE, RESETS_PER_SECOND);
	nghttp2_option_set_max_outbound_ack(options, QUEUED_FRAMES);
	nghttp2_option_set_max_send_header_block_length(options, HEAD_BYTES * 4);
	if (callbacks == NULL || options == NULL)
		abort();
}

void
streams_open(Connection *connection, int most_streams)
{
	nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t) most_streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t) HEAD_BYTES},
	};

	if (nghttp2_session_server_new2(&connection->session, callbacks, connection, options) != 0)
		abort();
	nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0]));
}

void
streams_close(Connection *connection)
{
	Stream	   *next;

	for (Stream *stream = connection->streams; stream != NULL; stream = next)
	{
		next = stream->next;
		stream_free(stream);
	}
}
