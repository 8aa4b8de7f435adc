/*-------------------------------------------------------------------------
 *
 * evidence.c
 *	  kube-reports-evidence: its start, its end, and the thread that removes files.
 *
 *-------------------------------------------------------------------------
 */
#include <curl/curl.h>
#include <errno.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/notify.h"
#include "evidence/ledger.h"
#include "evidence/options.h"
#include "evidence/plain_port.h"
#include "evidence/request.h"
#include "evidence/service.h"
#include "evidence/store.h"

/* Seconds between two rounds of removal, unless removal_wake() starts a round. */
#define REMOVAL_SECONDS 60

const Store *store;

/* ---------- removal ---------- */

static struct
{
	pthread_mutex_t lock;
	pthread_cond_t woken;
	bool		due;
	unsigned	removed;		/* number of files removed in this round; only the thread uses it */
	unsigned	left;
}			removal =

{
	.lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER
};

void
removal_wake(void)
{
	pthread_mutex_lock(&removal.lock);
	removal.due = true;
	pthread_cond_signal(&removal.woken);
	pthread_mutex_unlock(&removal.lock);
}

static bool
remove_file(const char *key)
{
	char		why[WHY_SIZE] = "";

	if (store->remove(key, why) == STORE_OK)
	{
		removal.removed++;
		return true;
	}
	removal.left++;
	log_line(LOG_ERROR, "cannot remove %s yet: %s", key, why);
	return false;
}

static void *
remove_files(void *state)
{
	for (;;)
	{
		struct timespec until;
		int			waited = 0;

		removal.removed = 0;
		removal.left = 0;
		ledger_remove(remove_file);
		counts_removal(removal.removed, removal.left);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += REMOVAL_SECONDS;
		pthread_mutex_lock(&removal.lock);
		while (!removal.due && waited == 0)
			waited = pthread_cond_timedwait(&removal.woken, &removal.lock, &until);
		removal.due = false;
		pthread_mutex_unlock(&removal.lock);
	}
	return NULL;
}

/* ---------- the process ---------- */

static int
fail(const char *why)
{
	log_line(LOG_ERROR, "%s", why);
	return 1;
}

/* Waits until all uploads have ended, at most --shutdown-timeout. */
static void
drain(void)
{
	struct timespec pause = {.tv_nsec = 100L * 1000 * 1000};
	time_t		until = time(NULL) + options.shutdown_timeout;

	service_end();
	while (service_connections() > 0 && time(NULL) < until)
	{
		service_look();
		nanosleep(&pause, NULL);
	}
}

int
main(int argc, char **argv)
{
	static const struct timespec second = {.tv_sec = 1};
	char		why[WHY_SIZE] = "";
	sigset_t	ends;
	pthread_t	thread;

	options_parse(argc, argv);
	signal(SIGPIPE, SIG_IGN);

	/*
	 * When a file reaches the limit of file sizes, write() must fail as on a full disk; the signal would end the
	 * process.
	 */
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	/* All threads inherit the mask, and the main thread waits for the signals. */
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	store = store_open(why);
	if (store == NULL)
		return fail(why);
	ledger_open();
	if (!service_start(why))
		return fail(why);
	if (!plain_port_start(why))
		return fail(why);
	if (pthread_create(&thread, NULL, remove_files, NULL) != 0)
		return fail("cannot start a thread");
	notify_ready();
	log_line(LOG_NOTICE, "kube-reports-evidence listens on port %d, and stores files at %s",
			 options.port, options.store);
	while (sigtimedwait(&ends, NULL, &second) < 0)
		service_look();
	notify_stopping();
	log_line(LOG_NOTICE, "shutdown begins; %u connections are open", service_connections());
	drain();
	log_flush();
	/* Files of unfinished uploads were not announced; the next process removes them. */
	_exit(0);
}
