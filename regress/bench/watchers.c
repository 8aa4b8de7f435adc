/*-------------------------------------------------------------------------
 *
 * watchers.c
 *	  Many watches at once and a writer, and how old events are when they reach watchers.
 *
 *	  watchers --ports=8443,8444 --ca=... --certificate=... --key=... --watchers=1000 --writes=2000 --rate=100
 *		[--namespaces=50] [--accept=...] [--slow=N] [--version=V] PATH
 *
 * PATH is a namespaced collection with %s for the namespace.  With --namespaces=N watcher i follows namespace
 * "watch-(i mod N)" and write w goes to namespace "watch-(w mod N)"; without it all watchers watch all namespaces (PATH
 * without its namespace part).  Each write has the time at which it was sent, so that a watcher knows the age of its
 * event: latencies include the write itself.  --slow: so many of the watchers read nothing until the end; that must not
 * delay the others.  With --version the watches begin after that version of a list, as every server understands it;
 * without it they ask for no initial events.
 *
 * The watches are opened one after the other over the ports in turn, then all are read by one thread.  With --writes=0
 * they stay idle: the program says "ready" and ends when its standard input does.  The result is one JSON object.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define READ_SIZE (64 * 1024)
#define MAX_PORTS 8
#define MARK "bench/sent\":\""
#define DIGITS 20				/* digits of a time in nanoseconds, padded */

/* Seconds after the last write within which its event must arrive. */
#define PATIENCE 20

/* The options; set before anything starts. */
static int	ports[MAX_PORTS];
static int	port_count;
static const char *ca_file;
static const char *certificate_file;
static const char *key_file;
static const char *path;
static const char *accept_header = "application/json";
static const char *list_version;
static int	watcher_count = 100;
static int	slow_count;
static int	namespaces;			/* 0: every watcher watches all namespaces */
static long write_count;
static double rate = 100;
static SSL_CTX *tls_context;

/* Where a watcher is in its chunked answer. */
typedef enum Part
{
	PART_HEAD,
	PART_SIZE,
	PART_BYTES,
	PART_BYTES_END
} Part;

typedef struct Watcher
{
	SSL		   *tls;
	Part		part;
	size_t		chunk_left;
	char		line[256];		/* of the head or of a chunk's size */
	size_t		line_len;
	char		tail[sizeof(MARK) + DIGITS];	/* the last bytes that were searched: a mark may be cut */
	size_t		tail_len;
	long		events;
	bool		ended;
} Watcher;

static Watcher *watchers;
static double *latencies;
static size_t latency_count;
static size_t latency_capacity;
static unsigned long received;
static atomic_long written;
static atomic_bool write_failed;

static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void
fail(const char *what)
{
	fprintf(stderr, "watchers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static SSL *
connect_to(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
	.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int			on = 1;
	int			fd = socket(AF_INET, SOCK_STREAM, 0);
	SSL		   *tls;

	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0)
		fail("connect");
	tls = SSL_new(tls_context);
	SSL_set_fd(tls, fd);
	if (SSL_connect(tls) != 1)
		fail("TLS handshake");
	return tls;
}

static void
send_all(SSL *tls, const char *bytes, size_t len)
{
	while (len > 0)
	{
		int			sent = SSL_write(tls, bytes, (int) len);

		if (sent <= 0)
			fail("write");
		bytes += sent;
		len -= (size_t) sent;
	}
}

/* Writes the path of the collection: of one namespace, or of all. */
static void
collection(char *text, size_t size, int namespace_number)
{
	const char *part = strstr(path, "namespaces/%s/");

	if (namespace_number >= 0)
		snprintf(text, size, "%.*snamespaces/watch-%d/%s", (int) (part - path), path, namespace_number,
				 part + strlen("namespaces/%s/"));
	else
		snprintf(text, size, "%.*s%s", (int) (part - path), path, part + strlen("namespaces/%s/"));
}

/*
 * The writer
 */

/* Reads a whole answer and returns its status; the connection stays usable. */
static int
read_answer(SSL *tls)
{
	static char buffer[READ_SIZE];
	size_t		filled = 0;
	char	   *body = NULL;
	size_t		length = 0;
	int			status = 0;

	for (;;)
	{
		int			got = SSL_read(tls, buffer + filled, (int) (sizeof(buffer) - 1 - filled));

		if (got <= 0)
			return 0;
		filled += (size_t) got;
		buffer[filled] = '\0';
		if (body == NULL && (body = strstr(buffer, "\r\n\r\n")) != NULL)
		{
			const char *header = strcasestr(buffer, "\ncontent-length:");

			body += 4;
			if (header == NULL || header > body || sscanf(buffer, "HTTP/1.%*d %d", &status) != 1)
				return 0;
			length = strtoul(header + strlen("\ncontent-length:"), NULL, 10);
		}
		if (body != NULL && filled >= (size_t) (body - buffer) + length)
			return status;
	}
}

static void *
write_all(void *unused)
{
	SSL		   *tls = connect_to(ports[0]);
	int64_t		started = now();

	for (long n = 0; n < write_count; n++)
	{
		char		target[512];
		char		body[1024];
		char		head[2048];
		int64_t		turn = started + (int64_t) (n / rate * 1e9);
		int64_t		wait = turn - now();

		if (wait > 0)
			nanosleep(&(struct timespec) {wait / 1000000000, wait % 1000000000}, NULL);
		collection(target, sizeof(target), namespaces > 0 ? (int) (n % namespaces) : 0);
		snprintf(body, sizeof(body),
				 "{\"apiVersion\":\"wgpolicyk8s.io/v1alpha2\",\"kind\":\"PolicyReport\","
				 "\"metadata\":{\"generateName\":\"w-\",\"annotations\":{\"" MARK "%0*lld\"}},"
				 "\"summary\":{\"pass\":1},\"results\":[{\"policy\":\"p\",\"rule\":\"r\",\"result\":\"pass\"}]}",
				 DIGITS, (long long) now());
		snprintf(head, sizeof(head), "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: "
				 "watchers/1.0\r\nContent-Type: application/json\r\n"
				 "Content-Length: %zu\r\n\r\n%s", target, strlen(body), body);
		send_all(tls, head, strlen(head));
		if (read_answer(tls) != 201)
		{
			atomic_store(&write_failed, true);
			break;
		}
		atomic_fetch_add(&written, 1);
	}
	return NULL;
}

/*
 * The watchers
 */

static void
note_latency(int64_t sent)
{
	if (latency_count == latency_capacity)
	{
		latency_capacity = latency_capacity * 2 + 65536;
		latencies = realloc(latencies, latency_capacity * sizeof(double));
	}
	latencies[latency_count++] = (now() - sent) / 1e6;
}

/* Searches marks in the bytes of a chunk, together with the last bytes of the previous chunk. */
static void
look(Watcher *watcher, const char *bytes, size_t len)
{
	static char text[READ_SIZE + sizeof(MARK) + DIGITS];
	size_t		total = watcher->tail_len + len;
	const char *from = text;

	memcpy(text, watcher->tail, watcher->tail_len);
	memcpy(text + watcher->tail_len, bytes, len);
	for (;;)
	{
		size_t		left = total - (size_t) (from - text);
		const char *mark = memmem(from, left, MARK, sizeof(MARK) - 1);

		if (mark == NULL || (size_t) (text + total - mark) < sizeof(MARK) - 1 + DIGITS)
		{
			/* Keep an incomplete mark; without one, as many bytes as may be the beginning of a mark. */
			size_t		keep = mark != NULL ? (size_t) (text + total - mark) : sizeof(MARK) - 2;

			if (keep > left)
				keep = left;
			memcpy(watcher->tail, text + total - keep, keep);
			watcher->tail_len = keep;
			return;
		}
		watcher->events++;
		note_latency(strtoll(mark + sizeof(MARK) - 1, NULL, 10));
		from = mark + sizeof(MARK) - 1 + DIGITS;
	}
}

/* One line of the head or of a chunk's frame is complete. */
static void
take_line(Watcher *watcher)
{
	watcher->line[watcher->line_len] = '\0';
	if (watcher->part == PART_HEAD)
	{
		if (watcher->line_len == 0)
			watcher->part = PART_SIZE;
		else if (strncmp(watcher->line, "HTTP/1.1 ", 9) == 0 && atoi(watcher->line + 9) != 200)
		{
			fprintf(stderr, "watchers: a watch was answered with %s\n", watcher->line + 9);
			exit(1);
		}
	}
	else if (watcher->part == PART_BYTES_END)
		watcher->part = PART_SIZE;
	else
	{
		watcher->chunk_left = strtoul(watcher->line, NULL, 16);
		watcher->ended = watcher->chunk_left == 0;
		watcher->part = PART_BYTES;
	}
	watcher->line_len = 0;
}

static void
take(Watcher *watcher, const char *bytes, size_t len)
{
	received += len;
	while (len > 0 && !watcher->ended)
	{
		if (watcher->part == PART_BYTES)
		{
			size_t		piece = len < watcher->chunk_left ? len : watcher->chunk_left;

			look(watcher, bytes, piece);
			bytes += piece;
			len -= piece;
			watcher->chunk_left -= piece;
			if (watcher->chunk_left == 0)
				watcher->part = PART_BYTES_END;
			continue;
		}
		if (*bytes == '\n')
			take_line(watcher);
		else if (*bytes != '\r' && watcher->line_len + 1 < sizeof(watcher->line))
			watcher->line[watcher->line_len++] = *bytes;
		bytes++;
		len--;
	}
}

static void
read_some(Watcher *watcher)
{
	static char buffer[READ_SIZE];
	int			got;

	while ((got = SSL_read(watcher->tls, buffer, sizeof(buffer))) > 0)
		take(watcher, buffer, (size_t) got);
	if (SSL_get_error(watcher->tls, got) != SSL_ERROR_WANT_READ)
		watcher->ended = true;
}

static void
open_watches(int poll)
{
	for (int i = 0; i < watcher_count; i++)
	{
		char		target[512];
		char		head[1024];
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &watchers[i]};
		int			fd;

		collection(target, sizeof(target), namespaces > 0 ? i % namespaces : -1);
		snprintf(head, sizeof(head), "GET %s?watch=true&allowWatchBookmarks=true&%s%s "
				 "HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: watchers/1.0\r\nAccept: %s\r\n\r\n", target,
				 list_version == NULL ? "sendInitialEvents=false&resourceVersionMatch=NotOlderThan" :
				 "resourceVersion=", list_version == NULL ? "" : list_version, accept_header);
		watchers[i].tls = connect_to(ports[i % port_count]);
		send_all(watchers[i].tls, head, strlen(head));
		/* The head says that the watch has begun. */
		while (watchers[i].part == PART_HEAD)
		{
			char		buffer[4096];
			int			got = SSL_read(watchers[i].tls, buffer, sizeof(buffer));

			if (got <= 0)
				fail("the head of a watch");
			take(&watchers[i], buffer, (size_t) got);
		}
		fd = SSL_get_fd(watchers[i].tls);
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		if (i >= slow_count && epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0)
			fail("epoll_ctl");
	}
}

/* Returns how many events a watcher must see after so many writes. */
static long
expected_events(int watcher, long writes)
{
	if (namespaces == 0)
		return writes;
	return writes / namespaces + (watcher % namespaces < writes % namespaces);
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static double
percentile(double part)
{
	return latency_count == 0 ? 0 : latencies[(size_t) ((double) (latency_count - 1) * part)];
}

static void
measure(int poll)
{
	pthread_t	writer;
	int64_t		started = now();
	int64_t		idle_since = started;
	long		missing = 0;
	long		doubled = 0;
	long		ended = 0;

	pthread_create(&writer, NULL, write_all, NULL);
	for (;;)
	{
		struct epoll_event events[256];
		int			count = epoll_wait(poll, events, 256, 100);
		size_t		wanted = 0;

		for (int i = 0; i < count; i++)
			read_some(events[i].data.ptr);
		if (count > 0)
			idle_since = now();
		if (atomic_load(&write_failed))
			break;
		if (atomic_load(&written) < write_count)
			continue;
		for (int i = slow_count; i < watcher_count; i++)
			wanted += (size_t) expected_events(i, write_count);
		if (latency_count >= wanted || now() - idle_since > PATIENCE * INT64_C(1000000000))
			break;
	}
	pthread_join(writer, NULL);
	for (int i = slow_count; i < watcher_count; i++)
	{
		long		wanted = expected_events(i, atomic_load(&written));

		missing += watchers[i].events < wanted ? wanted - watchers[i].events : 0;
		doubled += watchers[i].events > wanted ? watchers[i].events - wanted : 0;
		ended += watchers[i].ended;
	}
	qsort(latencies, latency_count, sizeof(double), compare_doubles);
	printf("{\"writes\": %ld, \"failed\": %s, \"events\": %zu, \"missing\": %ld, \"doubled\": %ld, \"ended\": %ld, "
		   "\"bytes\": %lu, "
		   "\"seconds\": %.3f, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f}\n", atomic_load(&written),
		   atomic_load(&write_failed) ? "true" : "false", latency_count, missing, doubled, ended, received,
		   (now() - started) / 1e9,
		   percentile(0.5), percentile(0.99), percentile(1));
}

static void
parse_ports(const char *text)
{
	char	   *end;

	for (port_count = 0; port_count < MAX_PORTS && *text != '\0'; text = *end == ',' ? end + 1 : end)
		ports[port_count++] = (int) strtol(text, &end, 10);
}

static void
parse_options(int argc, char **argv)
{
	static const struct option options[] = {
		{"ports", required_argument, NULL, 'p'}, {"ca", required_argument, NULL, 'a'},
		{"certificate", required_argument, NULL, 'c'},
		{"key", required_argument, NULL, 'k'}, {"watchers", required_argument, NULL, 'w'},
		{"writes", required_argument, NULL, 'n'},
		{"rate", required_argument, NULL, 'r'}, {"namespaces", required_argument, NULL, 's'},
		{"accept", required_argument, NULL, 'h'},
		{"slow", required_argument, NULL, 'l'}, {"version", required_argument, NULL, 'v'}, {NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option)
		{
			case 'p':
				parse_ports(optarg);
				break;
			case 'a':
				ca_file = optarg;
				break;
			case 'c':
				certificate_file = optarg;
				break;
			case 'k':
				key_file = optarg;
				break;
			case 'w':
				watcher_count = atoi(optarg);
				break;
			case 'n':
				write_count = atol(optarg);
				break;
			case 'r':
				rate = atof(optarg);
				break;
			case 's':
				namespaces = atoi(optarg);
				break;
			case 'h':
				accept_header = optarg;
				break;
			case 'l':
				slow_count = atoi(optarg);
				break;
			case 'v':
				list_version = optarg;
				break;
			default:
				exit(2);
		}
	if (optind + 1 != argc || port_count == 0 || strstr(argv[optind], "namespaces/%s/") == NULL)
	{
		fprintf(stderr, "usage: see the head of watchers.c\n");
		exit(2);
	}
	path = argv[optind];
}

int
main(int argc, char **argv)
{
	struct rlimit files;
	int			poll = epoll_create1(0);

	parse_options(argc, argv);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	tls_context = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_mode(tls_context, SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_load_verify_locations(tls_context, ca_file, NULL) != 1 ||
		SSL_CTX_use_certificate_file(tls_context, certificate_file, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_use_PrivateKey_file(tls_context, key_file, SSL_FILETYPE_PEM) != 1)
		fail("the TLS files");
	SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
	watchers = calloc((size_t) watcher_count, sizeof(Watcher));
	open_watches(poll);
	if (write_count > 0)
		measure(poll);
	else
	{
		printf("ready\n");
		fflush(stdout);
		while (getchar() != EOF)
			continue;
	}
	return 0;
}
