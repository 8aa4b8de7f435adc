/*-------------------------------------------------------------------------
 *
 * main.c
 *	  The parent process: starts, restarts and stops the workers, the upkeep process and the feed process.
 *
 * The parent reads the settings, opens the listening sockets (listeners.c) and
 * forks the workers.  The parent restarts a worker that died; until then the
 * other workers accept the connections to its sockets.  The upkeep process and
 * the feed process are children, too; they do not listen on any socket.
 *
 * Shutdown works as in kube-apiserver.  On SIGTERM readyz fails at once, and
 * the proxy serves all requests for --shutdown-delay-duration; each answer
 * asks the client to close the connection.  Then the proxy accepts no more
 * connections, answers late requests with 429, and ends watches in steps.
 * Requests in progress may take --shutdown-timeout.  A second SIGTERM or
 * SIGINT to the parent ends everything at once.  Workers never outlive the
 * parent.
 *
 * "kube-reports-proxy COMMAND" runs a command of commands/ instead.
 *
 * Exit codes: 0 after a shutdown, 1 when the shutdown was forced or the start
 * failed, 2 for a wrong command line.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trust/authentication_config.h"
#include "identity/authentication_lookup.h"
#include "identity/head_question.h"
#include "base/config.h"
#include "cluster/ask.h"
#include "codec/kube_json.h"
#include "http/listeners.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/notify.h"
#include "api/result_metrics.h"
#include "api/api.h"
#include "api/feed_channel.h"
#include "api/feed_reader.h"
#include "api/forward.h"
#include "api/health.h"
#include "http/server.h"
#include "base/termination.h"
#include "http/tls.h"
#include "commands/commands.h"
#include "db/pg.h"
#include "db/pg_environment.h"
#include "upkeep/upkeep.h"

/* Memory of larger allocations is returned to the system by free(). */
#define LARGE_ALLOCATION (4 * 1024 * 1024)

/*
 * Milliseconds.  A worker that lived for LONG_LIFE is restarted at once; otherwise the delay before its restart is
 * doubled.
 */
#define LONG_LIFE (60 * 1000)
#define FIRST_RESTART_DELAY 100
#define LAST_RESTART_DELAY 5000

/* After one worker has stopped accepting connections, all workers have stopped within this time, in milliseconds. */
#define ACCEPTING_ENDS_MS 250

/* The parent kills workers this long after their own deadline, in milliseconds. */
#define KILL_GRACE 5000

#define MAX_OPEN_FILES 1048576

/* At its start the proxy asks kube-apiserver this many times, one second apart, before it gives up. */
#define ASK_ATTEMPTS 60

/* A child.  The upkeep process, if there is one, and the feed process are the last entries, after the workers. */
typedef struct Worker
{
	pid_t		pid;			/* 0 when it does not run */
	uint64_t	started_at;
	uint64_t	start_at;		/* when the parent starts it again */
	uint64_t	delay;			/* milliseconds before the next restart */
} Worker;

static Worker *workers;
static int	child_count;

static bool
is_feed(int index)
{
	return index == child_count - 1;
}

static bool
is_upkeep(int index)
{
	return index == config.workers && !is_feed(index);
}

/* --- A child --- */

static void
on_term(int signal_number)
{
	termination_begin();
}

/* Another worker died.  The signal only ends the loop's wait, so that worker_tick() runs at once. */
static void
on_wake(int signal_number)
{
}

/* --shutdown-timeout has passed. */
static void
give_up(void *state)
{
	log_line(LOG_WARNING, "%zu requests are cut by the shutdown", http_server_open_requests());
	http_server_exit();
}

/* The functions of a child that are called when --shutdown-delay-duration has passed. */
typedef struct Shutdown
{
	void		(*refuse) (void);	/* NULL: the child answers no requests */
	void		(*end) (void);
} Shutdown;

static const Shutdown worker_shutdown = {api_refuse_requests, api_end_watches};
static const Shutdown upkeep_shutdown = {NULL, upkeep_end};

static void
end_requests(void *state)
{
	static LoopTimer timer;
	const Shutdown *shutdown = state;

	shutdown->end();
	loop_timer_start(&timer, (uint64_t) config.shutdown_timeout * 1000, give_up, NULL);
}

/*
 * A client connects again as soon as its watch ends.  So watches end only when all workers have stopped accepting
 * connections: otherwise a client may begin a watch at another worker that ends at once, which makes client-go list
 * again.  For the same reason a worker that has stopped begins no watch on open connections.
 */
static void
stop(void *state)
{
	static LoopTimer timer;
	const Shutdown *shutdown = state;

	http_server_stop_accepting();
	if (shutdown->refuse != NULL)
		shutdown->refuse();
	loop_timer_start(&timer, ACCEPTING_ENDS_MS, end_requests, state);
}

/* Begins the shutdown after a SIGTERM, which takes effect after --shutdown-delay-duration. */
static void
look_for_term(const Shutdown *shutdown)
{
	static LoopTimer timer;
	static bool begun;

	if (!termination_begun() || begun)
		return;
	begun = true;
	log_line(LOG_INFO, "shutdown begins");
	loop_timer_start(&timer, (uint64_t) config.shutdown_delay * 1000, stop, (void *) shutdown);
}

static void
worker_tick(void)
{
	metrics_tick();
	health_tick();
	listeners_tick();
	look_for_term(&worker_shutdown);
}

static bool
worker_drained(void)
{
	return true;
}

static void
upkeep_tick(void)
{
	metrics_tick();
	look_for_term(&upkeep_shutdown);
}

/* Set by the parent's signal to the feed process, which serves the workers until they have ended. */
static volatile sig_atomic_t feed_ends;

static void
on_feed_end(int signal_number)
{
	feed_ends = 1;
}

static void
feed_tick(void)
{
	metrics_tick();
	if (feed_ends)
		http_server_exit();
}

/* A restarted worker reads the authentication settings again: the parent read them at its start, maybe long ago. */
static void
learn_again(void)
{
	const char *why = "";
	Arena		arena;

	if (!authentication_lookup_wanted())
		return;
	arena_init(&arena);
	if (authentication_lookup(&arena, &why) != LOOKUP_DONE)
		log_line(LOG_ERROR, "the trusted CAs stay as they were at the proxy's start: %s", why);
	arena_free(&arena);
}

/* The listeners of a worker. */
static const HttpListener api_listener = {
	.tls = true,
	.on_request = api_request,
	.ask_head = head_question_ask,
	.cancel_head = head_question_cancel,
};
static const HttpListener plain_listener = {.on_request = health_request};
static const HttpListener forward_listener = {
	.tls = true,
	.on_request = forward_request,
	.ask_head = forward_ask_head,
	.cancel_head = forward_cancel_head,
};

static void
begin_child(int index, pid_t parent)
{
	struct sigaction action = {.sa_handler = on_term};
	struct sigaction wake = {.sa_handler = on_wake};
	sigset_t	none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	log_set_worker(index);
	/* The terminal sends SIGINT to every process; the parent passes it on as SIGTERM. */
	signal(SIGINT, SIG_IGN);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGUSR1, &wake, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	metrics_attach(index);
}

static _Noreturn void
run_worker(int index, pid_t parent)
{
	const Worker *worker = &workers[index];

	begin_child(index, parent);
	if (worker->started_at != 0)
		learn_again();

	http_server_start();
	api_start(index);
	listeners_attach(index, &api_listener, &plain_listener, &forward_listener);
	http_server_run(worker_tick, worker_drained);
	log_line(LOG_INFO, "shutdown is complete");
	exit(0);
}

static _Noreturn void
run_upkeep(int index, pid_t parent)
{
	begin_child(index, parent);
	/* The name that ps and top show. */
	prctl(PR_SET_NAME, "kube-reports-up");
	/* Otherwise connections could wait at these sockets after the workers are gone. */
	listeners_close();
	/* Starts only the loop. */
	http_server_start();
	upkeep_start();
	http_server_run(upkeep_tick, upkeep_drained);
	log_line(LOG_INFO, "shutdown is complete");
	exit(0);
}

static _Noreturn void
run_feed(int index, pid_t parent)
{
	struct sigaction end = {.sa_handler = on_feed_end};

	begin_child(index, parent);
	/* A service manager may send SIGTERM to all processes. */
	signal(SIGTERM, SIG_IGN);
	sigaction(SIGUSR2, &end, NULL);
	/* The name that ps and top show. */
	prctl(PR_SET_NAME, "kube-reports-fd");
	listeners_close();
	/* Starts only the loop. */
	http_server_start();
	feed_reader_start();
	http_server_run(feed_tick, worker_drained);
	exit(0);
}

/* --- The parent --- */

static _Noreturn void
start_error(const char *what, const char *why)
{
	fprintf(stderr, "kube-reports-proxy: %s: %s\n", what, why);
	exit(1);
}

/* Returns the name of a child for the log; valid until the next call. */
static const char *
child_name(int index)
{
	static char name[32];

	if (is_upkeep(index))
		return "the upkeep process";
	if (is_feed(index))
		return "the feed process";
	snprintf(name, sizeof(name), "worker %d", index);
	return name;
}

static void
start_worker(int index)
{
	Worker	   *worker = &workers[index];
	pid_t		parent = getpid();
	pid_t		pid = fork();

	if (pid == 0)
	{
		if (is_upkeep(index))
			run_upkeep(index, parent);
		if (is_feed(index))
			run_feed(index, parent);
		run_worker(index, parent);
	}
	worker->started_at = loop_now();
	if (pid < 0)
	{
		log_line(LOG_ERROR, "cannot start %s: %s", child_name(index), strerror(errno));
		worker->start_at = worker->started_at + LAST_RESTART_DELAY;
		return;
	}
	worker->pid = pid;
}

/* Sends a signal to all children except the feed process.  Returns how many there are. */
static int
signal_workers(int signal_number)
{
	int			alive = 0;

	for (int i = 0; i < child_count; i++)
		if (workers[i].pid > 0 && !is_feed(i))
		{
			alive++;
			if (signal_number != 0)
				kill(workers[i].pid, signal_number);
		}
	return alive;
}

static void
on_worker_gone(int index, int status, bool stopping)
{
	Worker	   *worker = &workers[index];
	uint64_t	now = loop_now();

	worker->pid = 0;
	metrics_worker_gone(index, !stopping);
	if (index < config.workers)
		feed_channel_worker_gone(index);
	if (stopping && (!is_feed(index) || signal_workers(0) == 0))
		return;
	if (index < config.workers)
	{
		listeners_worker_gone(index);
		signal_workers(SIGUSR1);
	}
	if (now - worker->started_at >= LONG_LIFE)
		worker->delay = 0;
	if (WIFSIGNALED(status))
		log_line(LOG_ERROR, "%s was killed by signal %d and is started again in %d ms", child_name(index),
				 WTERMSIG(status),
				 (int) worker->delay);
	else
		log_line(LOG_ERROR, "%s ended with code %d and is started again in %d ms", child_name(index),
				 WEXITSTATUS(status),
				 (int) worker->delay);
	worker->start_at = now + worker->delay;
	worker->delay = worker->delay == 0 ? FIRST_RESTART_DELAY : worker->delay * 2;
	if (worker->delay > LAST_RESTART_DELAY)
		worker->delay = LAST_RESTART_DELAY;
}

static void
reap_workers(bool stopping)
{
	int			status;
	pid_t		pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < child_count; i++)
			if (workers[i].pid == pid)
				on_worker_gone(i, status, stopping);
}

/*
 * Starts the children that are due.  Returns the milliseconds until the next one is due, at most a minute.  When the
 * proxy stops, only the feed process is started again: the open watches need it.
 */
static uint64_t
start_due_workers(bool stopping)
{
	uint64_t	wait = 60 * 1000;

	for (int i = 0; i < child_count; i++)
	{
		uint64_t	now = loop_now();

		if (workers[i].pid > 0 || (stopping && !is_feed(i)))
			continue;
		if (workers[i].start_at <= now)
			start_worker(i);
		else if (workers[i].start_at - now < wait)
			wait = workers[i].start_at - now;
	}
	return wait;
}

/* Sends a signal to the feed process; false when it does not run. */
static bool
signal_feed(int signal_number)
{
	pid_t		feed = workers[child_count - 1].pid;

	return feed > 0 && kill(feed, signal_number) == 0;
}

/* Keeps the workers running until a signal, then stops them.  Returns the exit code. */
static int
supervise(const sigset_t * signals)
{
	bool		stopping = false;
	uint64_t	kill_at = 0;
	int			code = 0;

	for (;;)
	{
		uint64_t	wait;
		struct timespec timeout;
		int			received;

		reap_workers(stopping);
		if (stopping && signal_workers(0) == 0 && !signal_feed(SIGUSR2))
			return code;
		wait = start_due_workers(stopping);
		if (stopping && wait > 1000)
			wait = 1000;
		if (stopping && loop_now() >= kill_at)
		{
			log_line(LOG_ERROR, "workers that did not end are killed");
			signal_workers(SIGKILL);
			signal_feed(SIGKILL);
			code = 1;
		}
		timeout.tv_sec = (time_t) (wait / 1000);
		timeout.tv_nsec = (long) (wait % 1000) * 1000000;
		received = sigtimedwait(signals, NULL, &timeout);
		if (received != SIGTERM && received != SIGINT)
			continue;
		if (stopping)
		{
			log_line(LOG_WARNING, "a second signal: everything ends at once");
			signal_workers(SIGKILL);
			signal_feed(SIGKILL);
			code = 1;
			continue;
		}
		stopping = true;
		notify_stopping();
		kill_at = loop_now() + (uint64_t) (config.shutdown_delay + config.shutdown_timeout) * 1000 + KILL_GRACE;
		signal_workers(SIGTERM);
	}
}

static void
write_pid_file(void)
{
	FILE	   *file;

	if (config.pid_file[0] == '\0')
		return;
	file = fopen(config.pid_file, "we");
	if (file == NULL || fprintf(file, "%d\n", (int) getpid()) < 0 || fclose(file) != 0)
		start_error(config.pid_file, strerror(errno));
}

static void
raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max < MAX_OPEN_FILES ? limit.rlim_max : MAX_OPEN_FILES;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Asks kube-apiserver again and again, because a cluster that starts may not answer yet.  Never guesses the id. */
static void
learn_cluster_id(void)
{
	static Arena arena;			/* holds the uid until the process ends */
	static const char what[] = "cannot learn the cluster's id; give --cluster-id or --authentication-kubeconfig";
	const char *why = "";
	Answer		answer;
	Asker	   *asker;

	arena_init(&arena);
	asker = asker_open(&arena, config.authentication_kubeconfig, &why);
	if (asker == NULL)
		start_error(what, why);
	for (int attempt = 0; attempt < ASK_ATTEMPTS; attempt++)
	{
		config.cluster_id = ask_cluster_uid(asker, &arena, 1, &answer);
		if (config.cluster_id != NULL)
		{
			log_line(LOG_INFO, "serving the cluster with the id %s", config.cluster_id);
			asker_close(asker);
			return;
		}
		log_line(LOG_ERROR, "the cluster's id is not known yet: %s", answer.why);
		sleep(1);
	}
	start_error(what, answer.why);
}

/* Reads from kube-apiserver the CAs that the flags do not name. */
static void
learn_authentication(void)
{
	static const char what[] = "cannot read the trusted CAs from kube-apiserver; see "
	"--authentication-skip-lookup and "
	"--authentication-tolerate-lookup-failure";
	const char *why = "";
	Arena		arena;

	if (!authentication_lookup_wanted())
		return;
	arena_init(&arena);
	for (int attempt = 0;; attempt++)
	{
		LookupResult result = authentication_lookup(&arena, &why);

		if (result == LOOKUP_DONE)
			break;
		log_line(LOG_ERROR, "the trusted CAs are not known yet: %s", why);
		if (config.authentication_tolerate_lookup_failure)
			break;
		if (result == LOOKUP_FORBIDDEN || attempt == ASK_ATTEMPTS)
			start_error(what, why);
		sleep(1);
	}
	arena_free(&arena);
}

int
main(int argc, char **argv)
{
	char		why[512];
	sigset_t	signals;
	int			code;

	kube_json_start();
	pg_environment_start();
	/* An argument that is not a flag is a command. */
	if (argc > 1 && argv[1][0] != '-')
		return command_run("kube-reports-proxy", commands, argc, argv);
	config_parse(argc, argv, commands_print);
	if (!authentication_config_start(why, sizeof(why)))
		start_error("cannot use the CA bundles", why);
	if (!tls_start(why, sizeof(why)))
		start_error("cannot use the TLS files", why);
	if (config.cluster_id[0] == '\0')
		learn_cluster_id();
	learn_authentication();
	child_count = config.workers + config.upkeep + 1;
	workers = calloc((size_t) child_count, sizeof(*workers));
	if (workers == NULL)
		start_error("start", strerror(errno));
	signal(SIGPIPE, SIG_IGN);
	raise_file_limit();
	mallopt(M_MMAP_THRESHOLD, LARGE_ALLOCATION);
	mallopt(M_TRIM_THRESHOLD, LARGE_ALLOCATION);

	/* All threads share one heap: a heap for each thread would reserve 64 MB of address space, which may be limited. */
	mallopt(M_ARENA_MAX, 1);
	metrics_init(config.workers, config.upkeep);
	result_metrics_init();
	api_init();
	pg_init();
	feed_channel_init(config.workers);
	if (!listeners_open(why, sizeof(why)))
		start_error("the ports", why);
	write_pid_file();

	/* Block the signals before the first fork, so that none is lost; workers unblock them. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	log_line(LOG_NOTICE, "kube-reports-proxy %s listens at %s port %d (HTTPS), for health and metrics at %s port %d "
			 "(HTTP, 0: not), with %d workers, the feed process, %s and at most %d database connections",
			 KUBE_REPORTS_VERSION, config.bind_address, config.secure_port, config.metrics_bind_address,
			 config.metrics_port, config.workers, config.upkeep ? "the upkeep process" : "no upkeep process",
			 config.connections);
	notify_ready();
	code = supervise(&signals);
	if (config.pid_file[0] != '\0')
		unlink(config.pid_file);
	return code;
}
