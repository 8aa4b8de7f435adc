/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  Answers without a file: JSON, and Status for refusals.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_SIZE 1024
#define MESSAGE_LIMIT 512

enum MHD_Result
answer_queue(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
	enum MHD_Result queued;

	/* A connection has one request, so that bytes after a refused body are never taken for a request. */
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	if (status == 429 || status == 503)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "5");
	if (status == 507)
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "300");
	queued = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return queued;
}

static enum MHD_Result
answer(struct MHD_Connection *connection, unsigned status, const char *text, const char *type, const char *allow)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *) text, MHD_RESPMEM_MUST_COPY);

	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (allow != NULL)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	return answer_queue(connection, status, response);
}

static const char *
reason_of(unsigned status)
{
	switch (status)
	{
		case 400:
			return "BadRequest";
		case 401:
			return "Unauthorized";
		case 403:
			return "Forbidden";
		case 404:
			return "NotFound";
		case 405:
			return "MethodNotAllowed";
		case 409:
			return "Conflict";
		case 413:
			return "RequestEntityTooLarge";
		case 415:
			return "UnsupportedMediaType";
		case 429:
			return "TooManyRequests";
		case 503:
			return "ServiceUnavailable";
		case 507:
			return "InsufficientStorage";
		default:
			return "InternalError";
	}
}

static void
write_status(unsigned status, const char *message, char *json)
{
	char		safe[MESSAGE_LIMIT];

	snprintf(safe, sizeof(safe), "%s", message);
	for (char *c = safe; *c != '\0'; c++)
	{
		if (*c == '"' || *c == '\\' || (unsigned char) *c < ' ')
			*c = '\'';
	}
	snprintf(json, JSON_SIZE, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
			 "\"message\":\"%s\",\"reason\":\"%s\",\"code\":%u}\n", safe, reason_of(status), status);
}

enum MHD_Result
answer_refusal(struct MHD_Connection *connection, unsigned status, const char *message)
{
	char		json[JSON_SIZE];

	write_status(status, message, json);
	return answer_json(connection, status, json);
}

enum MHD_Result
answer_not_allowed(struct MHD_Connection *connection, const char *allow)
{
	char		json[JSON_SIZE];

	write_status(405, "the method is not allowed here", json);
	return answer(connection, 405, json, "application/json", allow);
}

enum MHD_Result
answer_json(struct MHD_Connection *connection, unsigned status, const char *json)
{
	return answer(connection, status, json, "application/json", NULL);
}

enum MHD_Result
answer_text(struct MHD_Connection *connection, unsigned status, const char *text)
{
	return answer(connection, status, text, "text/plain", NULL);
}
