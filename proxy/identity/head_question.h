/*-------------------------------------------------------------------------
 *
 * head_question.h
 *	  Authenticates the client of a request with a body at the end of the head: members of HttpListener.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HEAD_QUESTION_H
#define HEAD_QUESTION_H

#include "http/server.h"

extern HeadQuestion *head_question_ask(struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
									   void (*told) (void *state, HeadVerdict verdict), void *state);
extern void head_question_cancel(HeadQuestion *question);

#endif							/* HEAD_QUESTION_H */
