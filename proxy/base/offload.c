/*-------------------------------------------------------------------------
 *
 * offload.c
 *	  Threads for work that would block the event loop.
 *
 * One queue leads to the threads and one back, both under one lock.  An
 * eventfd tells the loop that a job has finished.
 *
 *-------------------------------------------------------------------------
 */
#include "base/offload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/loop.h"

/* Two threads, so that one slow job does not delay all others. */
#define THREADS 2
#define WAITING_MOST 32

/* Documents are nested up to 1,000 deep, and recursive functions walk them. */
#define STACK_BYTES ((size_t) 4 * 1024 * 1024)

typedef struct JobList
{
	OffloadJob *first;
	OffloadJob *last;
	size_t		count;
} JobList;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static JobList waiting;			/* the lock protects waiting and finished */
static JobList finished;
static int	finished_fd = -1;
static LoopSocket *finished_socket; /* stays open until the process ends */

static void
jobs_append(JobList *list, OffloadJob *job)
{
	job->previous = list->last;
	job->next = NULL;
	if (list->last != NULL)
		list->last->next = job;
	else
		list->first = job;
	list->last = job;
	list->count++;
}

static void
jobs_remove(JobList *list, OffloadJob *job)
{
	if (job->previous != NULL)
		job->previous->next = job->next;
	else
		list->first = job->next;
	if (job->next != NULL)
		job->next->previous = job->previous;
	else
		list->last = job->previous;
	list->count--;
}

/* --- The threads --- */

static void *
run_jobs(void *unused)
{
	pthread_mutex_lock(&lock);
	for (;;)
	{
		OffloadJob *job = waiting.first;
		uint64_t	one = 1;

		if (job == NULL)
		{
			pthread_cond_wait(&arrived, &lock);
			continue;
		}
		jobs_remove(&waiting, job);
		job->waiting = false;
		pthread_mutex_unlock(&lock);
		job->run(job);
		pthread_mutex_lock(&lock);
		jobs_append(&finished, job);
		/* write() fails only when the counter of the eventfd is full; then the loop will wake anyway. */
		if (write(finished_fd, &one, sizeof(one)) < 0)
			continue;
	}
	return unused;
}

/* --- The loop --- */

static void
jobs_finished(void *state)
{
	uint64_t	count;
	JobList		list;

	if (read(finished_fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&lock);
	list = finished;
	finished = (JobList) {0};
	pthread_mutex_unlock(&lock);
	while (list.first != NULL)
	{
		OffloadJob *job = list.first;

		/* done() may cancel a later job of this list; that job's done() then gets cancelled = true. */
		jobs_remove(&list, job);
		job->done(job, job->cancelled);
	}
}

static _Noreturn void
start_failed(const char *what, int error)
{
	log_line(LOG_ERROR, "cannot start %s: %s", what, strerror(error));
	abort();
}

void
offload_start(void)
{
	pthread_attr_t attributes;
	sigset_t	all;
	sigset_t	before;
	int			error;

	finished_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (finished_fd >= 0)
		finished_socket = loop_socket_open(finished_fd, jobs_finished, NULL);
	if (finished_socket == NULL)
		start_failed("threads: eventfd", errno);
	/* The threads block all signals: signals must interrupt the loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (int i = 0; i < THREADS; i++)
	{
		pthread_t	thread;

		error = pthread_create(&thread, &attributes, run_jobs, NULL);
		if (error != 0)
			start_failed("threads", error);
		pthread_detach(thread);
	}
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool
offload_has_room(void)
{
	bool		room;

	pthread_mutex_lock(&lock);
	room = waiting.count < WAITING_MOST;
	pthread_mutex_unlock(&lock);
	return room;
}

void
offload_submit(OffloadJob *job)
{
	job->cancelled = false;
	pthread_mutex_lock(&lock);
	job->waiting = true;
	jobs_append(&waiting, job);
	pthread_cond_signal(&arrived);
	pthread_mutex_unlock(&lock);
}

void
offload_cancel(OffloadJob *job)
{
	bool		taken_back;

	pthread_mutex_lock(&lock);
	taken_back = job->waiting;
	if (taken_back)
	{
		jobs_remove(&waiting, job);
		job->waiting = false;
	}
	pthread_mutex_unlock(&lock);
	job->cancelled = true;
	if (taken_back)
		job->done(job, true);
}
