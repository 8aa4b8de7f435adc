/*-------------------------------------------------------------------------
 *
 * result_metrics.c
 *	  policy_report_result and cluster_policy_report_result: numbers of results
 *	  for Prometheus.
 *
 * The finished text is in memory that all workers share.  The kernel gives
 * each scrape to any worker, and series must not jump between the readings of
 * different workers.  The upkeep process reads when a worker asks.  The shared
 * memory has room for two texts.  A new reading overwrites the older of the
 * two.  A worker that copies a text checks afterwards whether the text was
 * overwritten, and then copies again.  When the writer dies while it writes,
 * the reading that is shown is still whole.
 *
 *-------------------------------------------------------------------------
 */
#include "api/result_metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "db/pg.h"

#define READ_TIMEOUT_MS 3000

/* How often a waiting scrape checks for the reading. */
#define LOOK_MS 5

/* How long a reading is shown at most; or four intervals, if these are longer. */
#define MOST_AGE_MS 60000

/* Room for a text: this many bytes for each series on average. */
#define SERIES_BYTES 512
#define TEXT_BYTES ((size_t) config.result_series * SERIES_BYTES)

/* Columns of api_result_counts(). */
enum
{
	COLUMN_NAMESPACE,
	COLUMN_POLICY,
	COLUMN_STATUS,
	COLUMN_SEVERITY,
	COLUMN_CATEGORY,
	COLUMN_SOURCE,
	COLUMN_COUNT,
	COLUMN_SERIES
};

typedef struct Reading
{
	uint64_t	read_at;		/* time of the reading, milliseconds of the monotonic clock */
	double		read_time;		/* the same time, seconds since 1970 */
	long long	series;			/* number of all series */
	long long	cut;			/* number of series left out of the text */
	size_t		len;			/* length of the text */
} Reading;

typedef struct Board
{
	_Atomic uint64_t asked_at;	/* when a worker last asked for a reading; 0: never */
	_Atomic uint64_t asked;		/* number of the last question */
	_Atomic uint64_t answered;	/* number of the last question that was answered, even if the reading failed */
	_Atomic uint64_t begun;		/* number of the reading whose writing began last */
	_Atomic uint64_t shown;		/* number of the reading to show; 0: none.  Reading n is in slot n % 2 */
	Reading		readings[2];
	char		texts[];
} Board;

static Board *board;			/* NULL: turned off */
static int	asked_fd;			/* wakes the upkeep process */

/* State of a worker. */
static ResultScrape *waiting;
static uint64_t awaited;		/* number of the question for which the scrapes wait */
static uint64_t patient_until;
static LoopTimer look_timer;

/* State of the upkeep process. */
static bool reading;
static uint64_t read_for;		/* number of the last question before the reading under way */

void
result_metrics_init(void)
{
	if (config.result_series == 0)
		return;
	/* Pages that are never written use no memory. */
	board = mmap(NULL, sizeof(Board) + 2 * TEXT_BYTES, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	asked_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (board == MAP_FAILED || asked_fd < 0)
	{
		perror("kube-reports-proxy: shared memory for --result-metrics-series");
		exit(1);
	}
}

/* ---------- writing ---------- */

static void
write_line(StrBuf *line, const PgResult *result, size_t row, bool namespaced)
{
	static const char *const labels[] = {
		[COLUMN_NAMESPACE] = "namespace",[COLUMN_POLICY] = "policy",[COLUMN_STATUS] = "status",
		[COLUMN_SEVERITY] = "severity",[COLUMN_CATEGORY] = "category",[COLUMN_SOURCE] = "source"
	};
	int			first = namespaced ? COLUMN_NAMESPACE : COLUMN_POLICY;

	strbuf_puts(line, namespaced ? "policy_report_result" : "cluster_policy_report_result");
	for (int column = first; column <= COLUMN_SOURCE; column++)
	{
		strbuf_putc(line, column == first ? '{' : ',');
		metrics_write_label(line, labels[column], pg_text(result, row, column).bytes);
	}
	strbuf_printf(line, "} %lld\n", (long long) pg_int8(result, row, COLUMN_COUNT));
}

/* Writes one of the two metrics; leaves out lines that do not fit.  Returns how many series were written. */
static long long
write_metric(char *text, size_t *len, Arena *arena, const PgResult *result, bool namespaced)
{
	long long	written = 0;
	StrBuf		line;

	strbuf_init(&line, arena);
	if (namespaced)
		metrics_write_head(&line, "policy_report_result", "gauge", "Results of reports in namespaces, by policy.");
	else
		metrics_write_head(&line, "cluster_policy_report_result", "gauge",
						   "Results of reports of cluster scope, by policy.");
	for (size_t row = 0; row <= pg_rows(result); row++)
	{
		/* Writes the head first, then the line of the previous row. */
		if (*len + line.len <= TEXT_BYTES)
		{
			memcpy(text + *len, line.bytes, line.len);
			*len += line.len;
			written += row > 0 && line.len > 0;
		}
		line.len = 0;
		if (row < pg_rows(result) && (pg_text(result, row, COLUMN_NAMESPACE).len > 0) == namespaced)
			write_line(&line, result, row, namespaced);
	}
	return written;
}

static void
write_reading(const PgResult *result)
{
	uint64_t	number = atomic_load(&board->shown) + 1;
	Reading    *next = &board->readings[number % 2];
	char	   *text = board->texts + (number % 2) * TEXT_BYTES;
	long long	written;
	struct timespec now;
	Arena		arena;

	atomic_store(&board->begun, number);
	atomic_thread_fence(memory_order_seq_cst);
	clock_gettime(CLOCK_REALTIME, &now);
	next->read_time = (double) now.tv_sec + (double) now.tv_nsec / 1e9;
	next->read_at = loop_now();
	next->series = pg_rows(result) > 0 ? (long long) pg_int8(result, 0, COLUMN_SERIES) : 0;
	next->len = 0;
	arena_init(&arena);
	written = write_metric(text, &next->len, &arena, result, false);
	written += write_metric(text, &next->len, &arena, result, true);
	arena_free(&arena);
	next->cut = next->series - written;
	atomic_store(&board->shown, number);
}

/* ---------- reading, in the upkeep process ---------- */

static void read_counts(void);

static void
counts_read(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	reading = false;
	if (outcome == PG_OK)
		write_reading(result);
	pg_result_free(result);
	atomic_store(&board->answered, read_for);
	if (atomic_load(&board->asked) > read_for)
		read_counts();
}

static void
read_counts(void)
{
	PgCall	   *call = pg_call_new(PG_RESULT_COUNTS);

	reading = true;
	read_for = atomic_load(&board->asked);
	pg_add_int4(call, config.result_series);
	pg_send(call, false, READ_TIMEOUT_MS, counts_read, NULL);
}

static void
was_asked(void *state)
{
	eventfd_t	count;

	if (eventfd_read(asked_fd, &count) == 0 && !reading)
		read_counts();
}

void
result_metrics_serve(void)
{
	if (board != NULL)
		loop_socket_open(asked_fd, was_asked, NULL);
}

/* ---------- asking, in a worker ---------- */

static void
look(void *state)
{
	if (atomic_load(&board->answered) < awaited && loop_now() < patient_until)
	{
		loop_timer_start(&look_timer, LOOK_MS, look, NULL);
		return;
	}
	awaited = 0;
	while (waiting != NULL)
	{
		ResultScrape *scrape = waiting;
		void		(*ready) (void *state) = scrape->ready;

		result_metrics_cancel(scrape);
		ready(scrape->state);
	}
}

/* Whether this worker may ask for a reading now.  If so, no other worker asks before the interval is over. */
static bool
take_turn(void)
{
	uint64_t	asked_at = atomic_load(&board->asked_at);
	uint64_t	now = loop_now();

	return (asked_at == 0 || now >= asked_at + (uint64_t) config.result_interval) &&
		atomic_compare_exchange_strong(&board->asked_at, &asked_at, now);
}

void
result_metrics_refresh(ResultScrape *scrape, void (*ready) (void *state), void *state)
{
	if (board == NULL || (awaited == 0 && !take_turn()))
	{
		ready(state);
		return;
	}
	scrape->ready = ready;
	scrape->state = state;
	scrape->previous = NULL;
	scrape->next = waiting;
	if (waiting != NULL)
		waiting->previous = scrape;
	waiting = scrape;
	if (awaited == 0)
	{
		awaited = atomic_fetch_add(&board->asked, 1) + 1;
		patient_until = loop_now() + READ_TIMEOUT_MS;
		eventfd_write(asked_fd, 1);
		loop_timer_start(&look_timer, LOOK_MS, look, NULL);
	}
}

void
result_metrics_cancel(ResultScrape *scrape)
{
	if (scrape->ready == NULL)
		return;
	if (scrape->previous != NULL)
		scrape->previous->next = scrape->next;
	else
		waiting = scrape->next;
	if (scrape->next != NULL)
		scrape->next->previous = scrape->previous;
	scrape->ready = NULL;
}

/* ---------- the text ---------- */

void
result_metrics_write(StrBuf *buf)
{
	size_t		start = buf->len;
	uint64_t	most_age = 4 * (uint64_t) config.result_interval;
	uint64_t	number;
	Reading		copy;

	if (board == NULL)
		return;
	if (most_age < MOST_AGE_MS)
		most_age = MOST_AGE_MS;
	do
	{
		number = atomic_load(&board->shown);
		if (number == 0)
			return;
		copy = board->readings[number % 2];
		if (copy.len > TEXT_BYTES)
			copy.len = 0;
		buf->len = start;
		strbuf_append(buf, board->texts + (number % 2) * TEXT_BYTES, copy.len);
		atomic_thread_fence(memory_order_seq_cst);
		/* Reading number + 2 overwrites this one. */
	} while (atomic_load(&board->begun) > number + 1);
	if (loop_now() > copy.read_at + most_age)
	{
		buf->len = start;
		return;
	}
	metrics_write_head(buf, "kube_reports_result_series", "gauge",
					   "Number of series of policy_report_result and cluster_policy_report_result.");
	strbuf_printf(buf, "kube_reports_result_series %lld\n", copy.series);
	metrics_write_head(buf, "kube_reports_result_series_cut", "gauge",
					   "Number of these series that are left out, see --result-metrics-series.");
	strbuf_printf(buf, "kube_reports_result_series_cut %lld\n", copy.cut);
	metrics_write_head(buf, "kube_reports_result_read_timestamp_seconds", "gauge",
					   "Time when these series were read from the database.");
	strbuf_printf(buf, "kube_reports_result_read_timestamp_seconds %.3f\n", copy.read_time);
}
