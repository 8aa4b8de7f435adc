/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Load generator: HTTPS requests over kept-alive connections, with latencies.
 *
 * Each connection has a thread, which sends the next request when it has read
 * the whole answer.  The result is one JSON object on standard output.  Rates
 * and latencies count only the expected answers: 201 to a POST, 200 to other
 * requests, or the code of --also.  SIGTERM ends the measurement early.
 *
 * The number of the request, padded with zeros, replaces a run of '@' in the
 * path or in a body, so that every request names another object.  With
 * --versions, the request's line of that file replaces "$VERSION" in a body.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/ssl.h>

#define READ_SIZE (256 * 1024)
#define MAX_HEAD (64 * 1024)
#define VERSION_MARK "$VERSION"

/* The options; set before the threads start. */
static int	port;
static const char *ca_file;
static const char *certificate_file;
static const char *key_file;
static const char *method = "GET";
static const char *path;
static const char *accept_header = "application/json";
static const char *content_type = "application/json";
static const char *bodies_file;
static const char *versions_file;
static const char *output_file;
static int	connections = 1;
static long max_requests = 0;	/* 0: until the time is over */
static double max_seconds = 10;
static double rate = 0;			/* requests a second over all connections; 0: without a limit */
static unsigned long first_number = 1;

typedef struct Lines
{
	char	  **lines;
	size_t		count;
} Lines;

static Lines bodies;
static Lines versions;
static SSL_CTX *tls_context;
static double start_time;
static atomic_ulong next_request;
static int	wanted_code;
static int	also_code;			/* 0: none */
static volatile sig_atomic_t stopping;

typedef struct Worker
{
	pthread_t	thread;
	SSL		   *tls;
	char	   *buffer;
	size_t		filled;			/* bytes in buffer */
	size_t		used;			/* bytes in buffer that were read */
	double	   *latencies;
	size_t		latency_count;
	size_t		latency_capacity;
	unsigned long bytes;		/* of bodies */
	unsigned long ok;			/* answers with the wanted code */
	unsigned long codes[6];		/* number of other answers by the first digit of their code */
	int			last_code;
	bool		close_after;
	FILE	   *output;
} Worker;

static double
clock_seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double
now(void)
{
	return clock_seconds(CLOCK_MONOTONIC);
}

static void
fail(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Replaces runs of '@' (of eight and more) by number. */
static void
fill_in(char *text, unsigned long number)
{
	for (char *p = strstr(text, "@@@@@@@@"); p != NULL; p = strstr(p, "@@@@@@@@"))
	{
		size_t		len = strspn(p, "@");
		char		digits[64];

		if (len >= sizeof(digits))
			len = sizeof(digits) - 1;
		snprintf(digits, sizeof(digits), "%0*lu", (int) len, number);
		memcpy(p, digits, len);
		p += len;
	}
}

static void
read_lines(Lines *lines, const char *path)
{
	FILE	   *file = fopen(path, "r");
	char	   *line = NULL;
	size_t		capacity = 0;
	ssize_t		len;

	if (file == NULL)
		fail(path);
	while ((len = getline(&line, &capacity, file)) > 0)
	{
		if (line[len - 1] == '\n')
			line[--len] = '\0';
		lines->lines = realloc(lines->lines, (lines->count + 1) * sizeof(char *));
		lines->lines[lines->count++] = strdup(line);
	}
	free(line);
	fclose(file);
	if (lines->count == 0)
	{
		fprintf(stderr, "load: %s is empty\n", path);
		exit(1);
	}
}

static const char *
line_of(const Lines *lines, unsigned long index)
{
	return lines->count > 0 ? lines->lines[index % lines->count] : "";
}

static void
disconnect(Worker *worker)
{
	if (worker->tls != NULL)
	{
		close(SSL_get_fd(worker->tls));
		SSL_free(worker->tls);
		worker->tls = NULL;
	}
	worker->filled = worker->used = 0;
}

static bool
connect_to_server(Worker *worker)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
	.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int			on = 1;
	int			fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		fail("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		close(fd);
		return false;
	}
	worker->tls = SSL_new(tls_context);
	SSL_set_fd(worker->tls, fd);
	if (SSL_connect(worker->tls) == 1)
		return true;
	disconnect(worker);
	return false;
}

static bool
send_all(Worker *worker, const char *bytes, size_t len)
{
	while (len > 0)
	{
		int			sent = SSL_write(worker->tls, bytes, len);

		if (sent <= 0)
			return false;
		bytes += sent;
		len -= sent;
	}
	return true;
}

/* Makes sure that there are unread bytes; false at the end of the stream. */
static bool
fill(Worker *worker)
{
	int			got;

	if (worker->used < worker->filled)
		return true;
	worker->used = worker->filled = 0;
	got = SSL_read(worker->tls, worker->buffer, READ_SIZE);
	if (got <= 0)
		return false;
	worker->filled = got;
	return true;
}

/* Reads a line without its end, cut at size. */
static bool
read_line(Worker *worker, char *line, size_t size)
{
	size_t		len = 0;

	while (fill(worker))
	{
		char		c = worker->buffer[worker->used++];

		if (c == '\n')
		{
			if (len > 0 && line[len - 1] == '\r')
				len--;
			line[len] = '\0';
			return true;
		}
		if (len + 1 < size)
			line[len++] = c;
	}
	return false;
}

static bool
skip_body(Worker *worker, unsigned long len)
{
	worker->bytes += len;
	while (len > 0)
	{
		size_t		piece;

		if (!fill(worker))
			return false;
		piece = worker->filled - worker->used;
		if (piece > len)
			piece = len;
		if (worker->output != NULL)
			fwrite(worker->buffer + worker->used, 1, piece, worker->output);
		worker->used += piece;
		len -= piece;
	}
	return true;
}

/* Reads a whole answer; false when the connection broke before its end. */
static bool
read_answer(Worker *worker)
{
	char		line[1024];
	unsigned long length = 0;
	bool		chunked = false;

	if (!read_line(worker, line, sizeof(line)) || sscanf(line, "HTTP/1.%*d %d", &worker->last_code) != 1)
		return false;
	worker->close_after = false;
	for (;;)
	{
		if (!read_line(worker, line, sizeof(line)))
			return false;
		if (line[0] == '\0')
			break;
		if (strncasecmp(line, "content-length:", 15) == 0)
			length = strtoul(line + 15, NULL, 10);
		else if (strncasecmp(line, "transfer-encoding: chunked", 26) == 0)
			chunked = true;
		else if (strncasecmp(line, "connection: close", 17) == 0)
			worker->close_after = true;
	}
	if (!chunked)
		return skip_body(worker, length);
	for (;;)
	{
		if (!read_line(worker, line, sizeof(line)))
			return false;
		length = strtoul(line, NULL, 16);
		if (length == 0)
			return read_line(worker, line, sizeof(line));
		if (!skip_body(worker, length) || !read_line(worker, line, sizeof(line)))
			return false;
	}
}

static void
note_latency(Worker *worker, double seconds)
{
	if (worker->latency_count == worker->latency_capacity)
	{
		worker->latency_capacity = worker->latency_capacity * 2 + 1024;
		worker->latencies = realloc(worker->latencies, worker->latency_capacity * sizeof(double));
	}
	worker->latencies[worker->latency_count++] = seconds;
}

/* When there is a rate, waits until the time of the request. */
static void
keep_to_rate(unsigned long index)
{
	double		wait;

	if (rate <= 0)
		return;
	wait = start_time + index / rate - now();
	if (wait > 0)
	{
		struct timespec t = {(time_t) wait, (long) ((wait - (time_t) wait) * 1e9)};

		nanosleep(&t, NULL);
	}
}

static bool
one_request(Worker *worker, unsigned long index, char *text, size_t size)
{
	const char *body = line_of(&bodies, index);
	const char *version = line_of(&versions, index);
	const char *mark = versions.count > 0 ? strstr(body, VERSION_MARK) : NULL;
	const char *rest = mark != NULL ? mark + strlen(VERSION_MARK) : "";
	size_t		before = mark != NULL ? (size_t) (mark - body) : strlen(body);
	int			len;

	len = snprintf(text, size, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: load/1.0\r\nAccept: %s\r\n", method,
				   path, accept_header);
	if (mark == NULL)
		version = "";
	if (bodies.count > 0)
		len += snprintf(text + len, size - len, "Content-Type: %s\r\nContent-Length: %zu\r\n",
						content_type, before + strlen(version) + strlen(rest));
	len += snprintf(text + len, size - len, "\r\n%.*s%s%s", (int) before, body, version, rest);
	fill_in(text, first_number + index);
	if (worker->tls == NULL && !connect_to_server(worker))
		return false;
	return send_all(worker, text, len) && read_answer(worker);
}

static void *
work(void *argument)
{
	Worker	   *worker = argument;
	size_t		size = MAX_HEAD;
	char	   *text;

	for (size_t i = 0; i < bodies.count; i++)
		if (strlen(bodies.lines[i]) + MAX_HEAD > size)
			size = strlen(bodies.lines[i]) + MAX_HEAD;
	text = malloc(size);
	worker->buffer = malloc(READ_SIZE);
	for (;;)
	{
		unsigned long index = atomic_fetch_add(&next_request, 1);
		double		begun;

		if (stopping || (max_requests > 0 ? index >= (unsigned long) max_requests : now() - start_time >= max_seconds))
			break;
		keep_to_rate(index);
		begun = now();
		if (one_request(worker, index, text, size))
		{
			if (worker->last_code == wanted_code || worker->last_code == also_code)
			{
				note_latency(worker, now() - begun);
				worker->ok++;
			}
			else
				worker->codes[worker->last_code / 100 % 6]++;
			if (worker->close_after)
				disconnect(worker);
		}
		else
		{
			worker->codes[0]++;
			disconnect(worker);
		}
	}
	disconnect(worker);
	free(text);
	return NULL;
}

static int
compare_doubles(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return (x > y) - (x < y);
}

static void
print_result(Worker *workers, double seconds, double processor_seconds)
{
	Worker		sum = {0};
	double	   *all;
	size_t		count = 0;

	for (int i = 0; i < connections; i++)
		count += workers[i].latency_count;
	all = malloc((count + 1) * sizeof(double));
	count = 0;
	for (int i = 0; i < connections; i++)
	{
		memcpy(all + count, workers[i].latencies, workers[i].latency_count * sizeof(double));
		count += workers[i].latency_count;
		sum.bytes += workers[i].bytes;
		sum.ok += workers[i].ok;
		for (int digit = 0; digit < 6; digit++)
			sum.codes[digit] += workers[i].codes[digit];
	}
	qsort(all, count, sizeof(double), compare_doubles);
	printf("{\"ok\": %lu, \"seconds\": %.6f, \"processor_seconds\": %.6f, \"per_second\": %.2f, \"bytes\": %lu",
		   sum.ok, seconds, processor_seconds, sum.ok / seconds, sum.bytes);
	printf(", \"other\": %lu, \"refused\": %lu, \"failed\": %lu, \"broken\": %lu",
		   sum.codes[1] + sum.codes[2] + sum.codes[3], sum.codes[4], sum.codes[5], sum.codes[0]);
	if (count > 0)
		printf(", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f",
			   all[count / 2] * 1000, all[count * 99 / 100] * 1000, all[count - 1] * 1000);
	printf("}\n");
	free(all);
}

static const struct option options[] = {
	{"port", required_argument, NULL, 'p'},
	{"ca", required_argument, NULL, 'a'},
	{"certificate", required_argument, NULL, 'c'},
	{"key", required_argument, NULL, 'k'},
	{"method", required_argument, NULL, 'm'},
	{"accept", required_argument, NULL, 'A'},
	{"content-type", required_argument, NULL, 'T'},
	{"bodies", required_argument, NULL, 'b'},
	{"versions", required_argument, NULL, 'v'},
	{"output", required_argument, NULL, 'o'},
	{"connections", required_argument, NULL, 'n'},
	{"requests", required_argument, NULL, 'r'},
	{"seconds", required_argument, NULL, 's'},
	{"rate", required_argument, NULL, 'R'},
	{"first-number", required_argument, NULL, 'f'},
	{"also", required_argument, NULL, 'w'},
	{NULL, 0, NULL, 0}
};

static void
read_options(int argc, char **argv)
{
	int			option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
	{
		switch (option)
		{
			case 'p':
				port = atoi(optarg);
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
			case 'm':
				method = optarg;
				break;
			case 'A':
				accept_header = optarg;
				break;
			case 'T':
				content_type = optarg;
				break;
			case 'b':
				bodies_file = optarg;
				break;
			case 'v':
				versions_file = optarg;
				break;
			case 'o':
				output_file = optarg;
				break;
			case 'n':
				connections = atoi(optarg);
				break;
			case 'r':
				max_requests = atol(optarg);
				break;
			case 's':
				max_seconds = atof(optarg);
				break;
			case 'R':
				rate = atof(optarg);
				break;
			case 'f':
				first_number = strtoul(optarg, NULL, 10);
				break;
			case 'w':
				also_code = atoi(optarg);
				break;
			default:
				exit(2);
		}
	}
	if (optind + 1 != argc || port == 0 || ca_file == NULL || connections < 1)
	{
		fprintf(stderr, "usage: load --port=N --ca=FILE [--certificate=FILE --key=FILE] [--method=POST "
				"--bodies=FILE] [option ...] PATH\n");
		exit(2);
	}
	path = argv[optind];
}

static void
stop(int number)
{
	stopping = 1;
}

int
main(int argc, char **argv)
{
	Worker	   *workers;
	double		seconds,
				processor_seconds;

	read_options(argc, argv);
	wanted_code = strcmp(method, "POST") == 0 ? 201 : 200;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, stop);
	if (bodies_file != NULL)
		read_lines(&bodies, bodies_file);
	if (versions_file != NULL)
		read_lines(&versions, versions_file);
	tls_context = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
	if (SSL_CTX_load_verify_locations(tls_context, ca_file, NULL) != 1 ||
		(certificate_file != NULL && (SSL_CTX_use_certificate_chain_file(tls_context, certificate_file) != 1 ||
									  SSL_CTX_use_PrivateKey_file(tls_context, key_file, SSL_FILETYPE_PEM) != 1)))
	{
		fprintf(stderr, "load: certificates cannot be read\n");
		return 1;
	}
	workers = calloc(connections, sizeof(Worker));
	/* Handshakes are not part of the measurement. */
	for (int i = 0; i < connections; i++)
		if (!connect_to_server(&workers[i]))
			fail("connection");
	if (output_file != NULL && (workers[0].output = fopen(output_file, "w")) == NULL)
		fail(output_file);
	processor_seconds = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
	start_time = now();
	for (int i = 0; i < connections; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			fail("thread");
	for (int i = 0; i < connections; i++)
		pthread_join(workers[i].thread, NULL);
	seconds = now() - start_time;
	processor_seconds = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - processor_seconds;
	if (workers[0].output != NULL && fclose(workers[0].output) != 0)
		fail(output_file);
	print_result(workers, seconds, processor_seconds);
	return 0;
}
