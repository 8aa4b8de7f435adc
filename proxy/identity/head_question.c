/*-------------------------------------------------------------------------
 *
 * head_question.c
 *	  Authenticates the client of a request with a body at the end of the head, before the body is read.
 *
 * This refuses only requests that would be refused later too.  The complete
 * request is authenticated again, from the cached review of its token.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/head_question.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/config.h"
#include "identity/token_review.h"
#include "trust/client_certificate.h"
#include "trust/request_header.h"

struct HeadQuestion
{
	ReviewWaiter waiter;
	Arena		arena;
	HeadVerdict verdict;		/* HEAD_NOT_ASKED while the review is in progress */
	bool		waits;			/* told() must be called */
	void		(*told) (void *state, HeadVerdict verdict);
	void	   *state;
};

static void
free_question(HeadQuestion *question)
{
	arena_free(&question->arena);
	free(question);
}

static void
reviewed(void *state, ReviewOutcome outcome, const ReviewAnswer *answer)
{
	HeadQuestion *question = state;

	if (outcome == REVIEW_REFUSED)
		question->verdict = HEAD_BUSY;
	else
		question->verdict = outcome == REVIEW_ANSWERED && answer->positive ? HEAD_KNOWN : HEAD_UNAUTHORIZED;
	if (!question->waits)
		return;
	question->told(question->state, question->verdict);
	free_question(question);
}

/* Whether the peer has a certificate that is refused: a request without a token is then refused. */
static bool
certificate_is_refused(struct ClientCertificate *peer, Arena *arena)
{
	const char *why = "";
	User		user = {0};

	return client_certificate_front_proxy(peer, arena, &why) == CERTIFICATE_REFUSED ||
		client_certificate_user(peer, arena, &user, &why) == CERTIFICATE_REFUSED;
}

HeadQuestion *
head_question_ask(struct ClientCertificate *peer, const char *authorization, HeadVerdict *verdict,
				  void (*told) (void *state, HeadVerdict verdict), void *state)
{
	HeadQuestion *question = allocate(sizeof(HeadQuestion));
	const char *token = NULL;
	bool		spaced;

	arena_init(&question->arena);
	question->told = told;
	question->state = state;
	if (authorization != NULL && token_reviews_possible())
		token = bearer_token(&question->arena, authorization, &spaced);
	if (token != NULL)
		token_review_ask(&question->arena, token, &question->waiter, reviewed, question);
	else if (!config.anonymous_auth || certificate_is_refused(peer, &question->arena))
		question->verdict = HEAD_UNAUTHORIZED;
	else
		question->verdict = HEAD_STRANGER;
	*verdict = question->verdict;
	if (question->verdict == HEAD_NOT_ASKED)
	{
		question->waits = true;
		return question;
	}
	free_question(question);
	return NULL;
}

void
head_question_cancel(HeadQuestion *question)
{
	review_cancel(&question->waiter);
	free_question(question);
}
