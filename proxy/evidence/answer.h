/*-------------------------------------------------------------------------
 *
 * answer.h
 *	  Answers without a file: JSON, and Status for refusals.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_ANSWER_H
#define EVIDENCE_ANSWER_H

#include <microhttpd.h>

/*
 * Queue an answer, after which the connection is closed: a Status, 405 with the allowed methods, JSON, plain text.  The
 * answers 429, 503 and 507 have Retry-After.  They return the result for libmicrohttpd.
 */
extern enum MHD_Result answer_refusal(struct MHD_Connection *connection, unsigned status, const char *message);
extern enum MHD_Result answer_not_allowed(struct MHD_Connection *connection, const char *allow);
extern enum MHD_Result answer_json(struct MHD_Connection *connection, unsigned status, const char *json);
extern enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned status, const char *text);

/* Queues a response with the headers that all answers have, and releases the response. */
extern enum MHD_Result answer_queue(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);

#endif							/* EVIDENCE_ANSWER_H */
