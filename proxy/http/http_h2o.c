/*-------------------------------------------------------------------------
 *
 * http_h2o.c
 *	  Functions that replace functions of libh2o 2.2.5.
 *
 * The library calls its own global functions through its procedure linkage
 * table, so that functions of the program take precedence.  This file replaces:
 *
 * - phr_parse_request(): the library allows 100 header fields, but each group of
 *	 a user needs one.  It accepts heads that can be understood in two ways,
 *	 refuses requests with answers that Kubernetes clients do not understand, and
 *	 reads a body before the client is known.  The replacement reads heads with
 *	 http_head.c.  It passes on the few lines that the library needs, and one
 *	 more header with all lines.  connection_judge() may refuse the request, which
 *	 then continues without a body, and on_request() in http_server.c answers it.
 * - the time-outs: those of the library follow the wall clock, and a jump of two
 *	 minutes would close every idle connection.  The replacements follow
 *	 loop_now().
 *
 *-------------------------------------------------------------------------
 */
#include "http/http_h2o.h"

/* As in libh2o's picohttpparser.h, which is not installed. */
struct phr_header
{
	const char *name;
	size_t		name_len;
	const char *value;
	size_t		value_len;
};

#define PHR_PARTIAL (-2)

extern int	phr_parse_request(const char *bytes, size_t len, const char **method, size_t *method_len, const char **path,
							  size_t *path_len, int *minor_version, struct phr_header *headers, size_t *header_count,
							  size_t seen);

/* --- Heads --- */

/* Not const: the library converts names to lower case in place. */
static char connection_name[] = "connection";
static char lines_name[] = HEAD_LINES_NAME;

static void
add_header(struct phr_header *headers, size_t *count, HttpText name, HttpText value)
{
	headers[*count].name = name.bytes;
	headers[*count].name_len = name.len;
	headers[*count].value = value.bytes;
	headers[(*count)++].value_len = value.len;
}

static void
add_field(struct phr_header *headers, size_t *count, const HttpField *field)
{
	if (field->name.bytes != NULL)
		add_header(headers, count, field->name, field->value);
}

/*
 * method is a member of the connection's request, so the connection is found from it.  For a refused head, all bytes
 * received so far count as the head, unless its size is known.
 */
int
phr_parse_request(const char *bytes, size_t len, const char **method, size_t *method_len, const char **path,
				  size_t *path_len, int *minor_version, struct phr_header *headers, size_t *header_count, size_t seen)
{
	h2o_req_t  *req = H2O_STRUCT_FROM_MEMBER(h2o_req_t, input.method.base, method);
	Connection *connection = connection_socket(req)->on_close.data;
	HttpHead	head;

	/* After a question the head is already whole, so parse it from the start; otherwise skip the bytes seen before. */
	HttpHeadOutcome outcome = http_head_read(bytes, len, connection->verdict != HEAD_NOT_ASKED ? 0 : seen, &head);
	bool		readable = head.method.bytes != NULL;

	connection->refusal = connection_judge(connection, outcome, &head, len);
	*header_count = 0;
	if (connection->refusal == REFUSAL_NONE && outcome == HTTP_HEAD_PARTIAL)
		return PHR_PARTIAL;
	if (connection->question != NULL)
	{
		connection_suspend(connection, connection_socket(req));
		return PHR_PARTIAL;
	}
	*method = readable ? head.method.bytes : "GET";
	*method_len = readable ? head.method.len : 3;
	*path = readable ? head.target.bytes : "/";
	*path_len = readable ? head.target.len : 1;
	*minor_version = readable ? head.minor_version : 1;
	if (connection->refusal != REFUSAL_NONE)
	{
		add_header(headers, header_count, (HttpText) {connection_name, sizeof(connection_name) - 1},
				   (HttpText) {"close", 5});
		return (int) (head.size > 0 ? head.size : len);
	}
	add_field(headers, header_count, &head.host);
	add_field(headers, header_count, &head.connection);
	add_field(headers, header_count, &head.expect);
	add_field(headers, header_count, &head.upgrade);
	add_field(headers, header_count, &head.content_length);
	add_field(headers, header_count, &head.transfer_encoding);
	add_header(headers, header_count, (HttpText) {lines_name, sizeof(lines_name) - 1}, head.lines);
	return (int) head.size;
}

/* --- Time-outs --- */

void
h2o_timeout_link(h2o_loop_t * loop, h2o_timeout_t * timeout, h2o_timeout_entry_t * entry)
{
	h2o_linklist_insert(&timeout->_entries, &entry->_link);
	entry->registered_at = loop_now();
}

void
h2o_timeout_run(h2o_loop_t * loop, h2o_timeout_t * timeout, uint64_t now)
{
	/* The argument is a time of the wall clock. */
	now = loop_now();
	while (!h2o_linklist_is_empty(&timeout->_entries))
	{
		h2o_timeout_entry_t *entry = H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, timeout->_entries.next);

		if (entry->registered_at + timeout->timeout > now)
			break;
		h2o_linklist_unlink(&entry->_link);
		entry->registered_at = 0;
		entry->cb(entry);
		h2o_timeout__do_post_callback(loop);
	}
}

/*
 * The library would compare the result with the wall clock.  http_server_run() limits the wait by h2o_next_due()
 * instead.
 */
uint64_t
h2o_timeout_get_wake_at(h2o_linklist_t * timeouts)
{
	return UINT64_MAX;
}

uint64_t
h2o_next_due(uint64_t max_wait)
{
	h2o_linklist_t *timeouts = &http_context.loop->_timeouts;
	uint64_t	now = loop_now();

	for (h2o_linklist_t * link = timeouts->next; link != timeouts; link = link->next)
	{
		const		h2o_timeout_t *timeout = H2O_STRUCT_FROM_MEMBER(h2o_timeout_t, _link, link);
		const		h2o_timeout_entry_t *first;
		uint64_t	due;

		if (h2o_linklist_is_empty((h2o_linklist_t *) & timeout->_entries))
			continue;
		first = H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, timeout->_entries.next);
		due = first->registered_at + timeout->timeout;
		if (due <= now)
			return 0;
		if (due - now < max_wait)
			max_wait = due - now;
	}
	return max_wait;
}
