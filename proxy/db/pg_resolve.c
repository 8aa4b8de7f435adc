/*-------------------------------------------------------------------------
 *
 * pg_resolve.c
 *	  Resolves the host names of a connection string.
 *
 * Each target has a thread, which runs getaddrinfo() or waits for a request.
 * It stores its results host by host: a name that hangs does not keep the
 * other hosts from being used.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_resolve.h"

#include <errno.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "base/allocate.h"
#include "base/log.h"
#include "base/loop.h"

#define MAX_HOSTS 16			/* limit of the hosts of a connection string */
#define MAX_ADDRESSES 8			/* limit of the addresses of a host */
#define ADDRESS_SIZE 64
#define HOST_SIZE 256
#define PORT_SIZE 16

typedef struct HostAddresses
{
	int			count;
	char		addresses[MAX_ADDRESSES][ADDRESS_SIZE];
} HostAddresses;

typedef struct Host
{
	char		name[HOST_SIZE];
	char		port[PORT_SIZE];
	bool		resolve;		/* the host is a name */
	char		given[ADDRESS_SIZE];	/* hostaddr, or the name if it is an address; "" for a socket */
	HostAddresses known;
} Host;

/* Shared memory of all processes: the last good addresses of one target, indexed by host. */
typedef struct Board
{
	pthread_mutex_t lock;
	HostAddresses known[MAX_HOSTS];
} Board;

struct PgTarget
{
	Board	   *board;
	pthread_mutex_t lock;		/* for the members from here to done_fd */
	pthread_cond_t asked;
	bool		wanted;			/* the thread is asked to resolve, or is resolving */
	Host		hosts[MAX_HOSTS];
	int			host_count;
	char		error[512];		/* error of the last attempt; "": every host was resolved */
	int			done_fd;

	/* Only the loop uses the following members. */
	uint64_t	begun;			/* start of the present or last attempt */
	void		(*resolved) (void *state);
	void	   *state;
	bool		failing;		/* the log has reported the failure */
	char		host[MAX_HOSTS * MAX_ADDRESSES * (HOST_SIZE + 1)];
	char		hostaddr[MAX_HOSTS * MAX_ADDRESSES * (ADDRESS_SIZE + 1)];
	char		port[MAX_HOSTS * MAX_ADDRESSES * (PORT_SIZE + 1)];
	char		why[512];
};

static Board *boards;			/* for the database and for the standby */

void
pg_targets_init(void)
{
	pthread_mutexattr_t robust;

	boards = mmap(NULL, 2 * sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (boards == MAP_FAILED)
	{
		perror("kube-reports-proxy: shared memory for addresses");
		exit(1);
	}
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&boards[0].lock, &robust);
	pthread_mutex_init(&boards[1].lock, &robust);
	pthread_mutexattr_destroy(&robust);
}

/* ---------- the connection string ---------- */

/*
 * Returns the value of a keyword of a connection string, or libpq's default from the service file and the environment.
 */
static const char *
option_value(const PQconninfoOption * given, const PQconninfoOption * defaults, const char *keyword)
{
	for (int pass = 0; pass < 2; pass++)
		for (const PQconninfoOption * option = pass == 0 ? given : defaults; option != NULL &&
			 option->keyword != NULL; option++)
			if (strcmp(option->keyword, keyword) == 0 && option->val != NULL && option->val[0] != '\0')
				return option->val;
	return "";
}

static int
count_entries(const char *list)
{
	int			count = 1;

	for (; *list != '\0'; list++)
		count += *list == ',';
	return count;
}

/* Copies an entry of a list, by its number; single: the list has one entry for all.  False when it does not fit. */
static bool
take_entry(char *target, size_t size, const char *list, int number, bool single)
{
	size_t		len;

	while (!single && number-- > 0)
		list += strcspn(list, ",") + 1;
	len = strcspn(list, ",");
	if (len >= size)
		return false;
	memcpy(target, list, len);
	target[len] = '\0';
	return true;
}

static bool
is_address(const char *name)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	bool		numeric = getaddrinfo(name, NULL, &hints, &found) == 0;

	if (found != NULL)
		freeaddrinfo(found);
	return numeric;
}

/* Reads the hosts; false when no name has to be resolved. */
static bool
read_hosts(PgTarget *target, const char *names, const char *addresses, const char *ports)
{
	int			count = count_entries(names);
	int			ports_count = count_entries(ports);
	bool		resolve = false;

	/* libpq reports inconsistent lists. */
	if (names[0] == '\0' || count > MAX_HOSTS || (addresses[0] != '\0' && count_entries(addresses) != count) ||
		(ports_count != 1 && ports_count != count))
		return false;
	for (int i = 0; i < count; i++)
	{
		Host	   *host = &target->hosts[i];

		if (!take_entry(host->name, sizeof(host->name), names, i, false) ||
			!take_entry(host->port, sizeof(host->port), ports, i, ports_count == 1) ||
			(addresses[0] != '\0' && !take_entry(host->given, sizeof(host->given), addresses, i, false)))
			return false;
		if (host->given[0] != '\0' || host->name[0] == '\0' || host->name[0] == '/' || host->name[0] == '@')
			continue;
		if (strlen(host->name) < sizeof(host->given) && is_address(host->name))
			snprintf(host->given, sizeof(host->given), "%s", host->name);
		else
			host->resolve = resolve = true;
	}
	target->host_count = count;
	return resolve;
}

static bool
read_database(PgTarget *target, const char *database)
{
	/* As in libpq, any other text is the name of a database. */
	bool		is_string = strchr(database, '=') != NULL || strncmp(database, "postgres", 8) == 0;
	PQconninfoOption *given = is_string ? PQconninfoParse(database, NULL) : NULL;
	const char *service = option_value(given, NULL, "service");
	const char *outer = getenv("PGSERVICE");
	char	   *outer_service = outer != NULL ? strdup(outer) : NULL;
	PQconninfoOption *defaults;
	bool		resolve;

	/* PQconndefaults() reads only the service that PGSERVICE names. */
	if (service[0] != '\0')
		setenv("PGSERVICE", service, 1);
	defaults = PQconndefaults();
	if (outer_service != NULL)
		setenv("PGSERVICE", outer_service, 1);
	else
		unsetenv("PGSERVICE");
	resolve = (given != NULL || !is_string) &&
		read_hosts(target, option_value(given, defaults, "host"), option_value(given, defaults, "hostaddr"),
				   option_value(given, defaults, "port"));
	PQconninfoFree(given);
	PQconninfoFree(defaults);
	free(outer_service);
	return resolve;
}

/* ---------- the thread ---------- */

/* Returns 0 or an error of getaddrinfo(). */
static int
resolve_name(const char *name, HostAddresses *result)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int			error = getaddrinfo(name, NULL, &hints, &found);

	result->count = 0;
	for (struct addrinfo *each = error == 0 ? found : NULL; each != NULL && result->count < MAX_ADDRESSES;
		 each = each->ai_next)
		if (getnameinfo(each->ai_addr, each->ai_addrlen, result->addresses[result->count], ADDRESS_SIZE, NULL, 0,
						NI_NUMERICHOST) == 0)
			result->count++;
	if (error == 0)
		freeaddrinfo(found);
	return error != 0 ? error : result->count == 0 ? EAI_NONAME : 0;
}

/* Stores the addresses for other and later processes. */
static void
share(PgTarget *target, int number, const HostAddresses *known)
{
	if (pthread_mutex_lock(&target->board->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&target->board->lock);
	target->board->known[number] = *known;
	pthread_mutex_unlock(&target->board->lock);
}

static void
resolve_all(PgTarget *target)
{
	char		error[sizeof(target->error)] = "";

	for (int i = 0; i < target->host_count; i++)
	{
		Host	   *host = &target->hosts[i];
		HostAddresses found;
		int			code;

		if (!host->resolve)
			continue;
		code = resolve_name(host->name, &found);
		if (code != 0)
		{
			snprintf(error, sizeof(error), "could not translate host name \"%s\" to address: %s", host->name,
					 gai_strerror(code));
			continue;
		}
		pthread_mutex_lock(&target->lock);
		host->known = found;
		pthread_mutex_unlock(&target->lock);
		share(target, i, &found);
	}
	pthread_mutex_lock(&target->lock);
	memcpy(target->error, error, sizeof(error));
	target->wanted = false;
	pthread_mutex_unlock(&target->lock);
}

static void *
run_resolver(void *state)
{
	PgTarget   *target = state;

	for (;;)
	{
		pthread_mutex_lock(&target->lock);
		while (!target->wanted)
			pthread_cond_wait(&target->asked, &target->lock);
		pthread_mutex_unlock(&target->lock);
		resolve_all(target);
		eventfd_write(target->done_fd, 1);
	}
	return NULL;
}

/* ---------- for the loop ---------- */

/* Logs once that names cannot be resolved, and once that they can be resolved again. */
static void
note_outcome(PgTarget *target)
{
	char		error[sizeof(target->error)];

	pthread_mutex_lock(&target->lock);
	memcpy(error, target->error, sizeof(error));
	pthread_mutex_unlock(&target->lock);
	if (error[0] != '\0' && !target->failing)
		log_line(LOG_ERROR, "database: %s; the last good address is used where there is one", error);
	else if (error[0] == '\0' && target->failing)
		log_line(LOG_ERROR, "database: host names can be resolved again");
	target->failing = error[0] != '\0';
}

static void
on_done(void *state)
{
	PgTarget   *target = state;
	eventfd_t	count;

	if (eventfd_read(target->done_fd, &count) != 0)
		return;
	note_outcome(target);
	target->resolved(target->state);
}

/* Takes the addresses that another process found, unless the lock is held, maybe by a stopped process. */
static void
take_shared(PgTarget *target)
{
	int			locked = pthread_mutex_trylock(&target->board->lock);

	if (locked == EOWNERDEAD)
		locked = pthread_mutex_consistent(&target->board->lock);
	if (locked != 0)
		return;
	for (int i = 0; i < target->host_count; i++)
		target->hosts[i].known = target->board->known[i];
	pthread_mutex_unlock(&target->board->lock);
}

PgTarget *
pg_target_new(const char *database, bool standby, void (*resolved) (void *state), void *state)
{
	PgTarget   *target = allocate(sizeof(*target));
	sigset_t	all;
	sigset_t	before;
	pthread_t	thread;

	if (!read_database(target, database))
	{
		free(target);
		return NULL;
	}
	target->board = &boards[standby];
	target->resolved = resolved;
	target->state = state;
	take_shared(target);
	pthread_mutex_init(&target->lock, NULL);
	pthread_cond_init(&target->asked, NULL);
	target->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	/* The new thread blocks all signals: the thread of the loop handles them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (target->done_fd < 0 || loop_socket_open(target->done_fd, on_done, target) == NULL ||
		pthread_create(&thread, NULL, run_resolver, target) != 0)
	{
		log_line(LOG_ERROR, "cannot begin to resolve host names: no descriptor or no thread is left");
		exit(1);
	}
	pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return target;
}

uint64_t
pg_target_resolve(PgTarget *target)
{
	pthread_mutex_lock(&target->lock);
	if (!target->wanted)
		target->begun = loop_now();
	target->wanted = true;
	pthread_cond_signal(&target->asked);
	pthread_mutex_unlock(&target->lock);
	return target->begun;
}

static void
append_entry(char *list, size_t size, const char *text, bool first)
{
	size_t		len = strlen(list);

	snprintf(list + len, size - len, "%s%s", first ? "" : ",", text);
}

bool
pg_target_addresses(PgTarget *target, PgAddresses *addresses, const char **why)
{
	int			count = 0;

	target->host[0] = target->hostaddr[0] = target->port[0] = '\0';
	pthread_mutex_lock(&target->lock);
	for (int i = 0; i < target->host_count; i++)
	{
		const Host *host = &target->hosts[i];
		int			of_host = host->resolve ? host->known.count : 1;

		for (int k = 0; k < of_host; k++, count++)
		{
			append_entry(target->host, sizeof(target->host), host->name, count == 0);
			append_entry(target->hostaddr, sizeof(target->hostaddr),
						 host->resolve ? host->known.addresses[k] : host->given, count == 0);
			append_entry(target->port, sizeof(target->port), host->port, count == 0);
		}
	}
	snprintf(target->why, sizeof(target->why), "%s", target->error);
	pthread_mutex_unlock(&target->lock);
	*addresses = (PgAddresses) {target->host, target->hostaddr, target->port};
	*why = target->why[0] != '\0' ? target->why : "the host's name is not resolved yet";
	return count > 0;
}
