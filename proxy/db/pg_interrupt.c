/*-------------------------------------------------------------------------
 *
 * pg_interrupt.c
 *	  Cancels queries at the server whose calls have expired or were abandoned.
 *
 * One thread sends the cancel requests one after the other.  The list is
 * bounded.  When a request takes too long, pg_pipeline.c closes the
 * connection.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"

#define MOST_UNDER_WAY 64

struct PgInterrupt
{
	PGcancel   *cancel;
	void		(*done) (void *state);	/* only the loop uses it; NULL: forgotten */
	void	   *state;
	PgInterrupt *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER;
static PgInterrupt *first_asked;	/* oldest first */
static PgInterrupt **last_asked = &first_asked;
static PgInterrupt *finished;
static int	done_fd = -1;
static int	under_way;			/* only the loop uses it */

static void *
send_interrupts(void *state)
{
	for (;;)
	{
		PgInterrupt *interrupt;
		char		error[256];

		pthread_mutex_lock(&lock);
		while (first_asked == NULL)
			pthread_cond_wait(&asked, &lock);
		interrupt = first_asked;
		first_asked = interrupt->next;
		if (first_asked == NULL)
			last_asked = &first_asked;
		pthread_mutex_unlock(&lock);

		/* The connection shows whether the request had an effect. */
		PQcancel(interrupt->cancel, error, sizeof(error));
		pthread_mutex_lock(&lock);
		interrupt->next = finished;
		finished = interrupt;
		pthread_mutex_unlock(&lock);
		eventfd_write(done_fd, 1);
	}
	return NULL;
}

static void
on_finished(void *state)
{
	PgInterrupt *list;
	eventfd_t	count;

	if (eventfd_read(done_fd, &count) != 0)
		return;
	pthread_mutex_lock(&lock);
	list = finished;
	finished = NULL;
	pthread_mutex_unlock(&lock);
	while (list != NULL)
	{
		PgInterrupt *interrupt = list;

		list = interrupt->next;
		under_way--;
		PQfreeCancel(interrupt->cancel);
		if (interrupt->done != NULL)
			interrupt->done(interrupt->state);
		free(interrupt);
	}
}

static bool
start_thread(void)
{
	sigset_t	all;
	sigset_t	before;
	pthread_t	thread;
	bool		started;

	if (done_fd < 0)
		done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (done_fd < 0)
		return false;
	/* The new thread blocks all signals: the thread of the loop handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, NULL, send_interrupts, NULL) == 0;
	if (started)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started && loop_socket_open(done_fd, on_finished, NULL) != NULL;
}

PgInterrupt *
pg_interrupt(PGconn *conn, void (*done) (void *state), void *state)
{
	static bool started;
	PgInterrupt *interrupt;
	PGcancel   *cancel;

	if (under_way == MOST_UNDER_WAY || (!started && !(started = start_thread())))
		return NULL;
	cancel = PQgetCancel(conn);
	if (cancel == NULL)
		return NULL;
	interrupt = allocate(sizeof(*interrupt));
	interrupt->cancel = cancel;
	interrupt->done = done;
	interrupt->state = state;
	under_way++;
	pthread_mutex_lock(&lock);
	*last_asked = interrupt;
	last_asked = &interrupt->next;
	pthread_cond_signal(&asked);
	pthread_mutex_unlock(&lock);
	return interrupt;
}

void
pg_interrupt_forget(PgInterrupt *interrupt)
{
	interrupt->done = NULL;
}
