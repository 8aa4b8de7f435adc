/*-------------------------------------------------------------------------
 *
 * feed_channel.c
 *	  Between the feed process and the workers: memory that they share.
 *
 * A wish is a lane that a worker follows.  Its sequence number is odd while
 * the worker changes the wish; the feed process reads such a wish later.
 *
 *-------------------------------------------------------------------------
 */
#include "api/feed_channel.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/loop.h"

#define PATIENCE_MS 200

/* A lane that a worker follows. */
typedef struct Wish
{
	_Atomic uint32_t sequence;
	_Atomic int32_t lane;		/* 0: this wish is free */
	_Atomic uint32_t count;
	char		tokens[FEED_REPRESENTATIONS][FEED_TOKEN_BYTES]; /* NUL-terminated */
} Wish;

typedef struct Board
{
	_Atomic uint32_t changes;	/* how often the board was changed */
	_Atomic uint32_t following; /* number of wishes in use */
	_Atomic uint32_t used;		/* number of wishes that were ever in use */
	_Atomic uint64_t place;		/* place in the ring up to which the worker has read */
	Wish		wishes[FEED_LANES];
} Board;

typedef struct LanePlace
{
	_Atomic int32_t lane;		/* 0: free */
	_Atomic int64_t position;	/* the ring has had the records up to this version; -1: unknown */
	_Atomic int64_t written;
} LanePlace;

typedef struct Lanes
{
	_Atomic uint32_t used;		/* number of places that were ever in use */
	LanePlace	places[FEED_LANES];
} Lanes;

/* What the feed process remembers of a worker. */
typedef struct Pace
{
	uint32_t	changes;		/* Board.changes at the last reading */
	uint64_t	place;			/* Board.place at the last check */
	uint64_t	since;			/* time since which the worker has been at that place */
} Pace;

static SharedRing *ring;
static Board *boards;
static Lanes *lanes;
static int	board_count;
static int *told_fds;			/* eventfds that wake the workers, one for each */
static int	woken_fd;			/* eventfd that wakes the feed process */
static int	mine;				/* number of this worker */
static LoopSocket *bell;		/* the eventfd of this process: one of told_fds, or woken_fd */
static Pace *paces;
static void (*run_told) (void *state);
static void (*run_woken) (void *state);

static void *
shared_memory(size_t bytes)
{
	/* Pages that are never written use no memory. */
	void	   *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void
feed_channel_init(int workers)
{
	bool		good;

	board_count = workers;
	ring = shared_ring_new(FEED_RING_BYTES);
	boards = shared_memory(sizeof(Board) * (size_t) workers);
	lanes = shared_memory(sizeof(Lanes));
	told_fds = calloc((size_t) workers, sizeof(int));
	woken_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	good = ring != NULL && boards != NULL && lanes != NULL && told_fds != NULL && woken_fd >= 0;
	for (int i = 0; good && i < workers; i++)
	{
		told_fds[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		good = told_fds[i] >= 0;
	}
	if (good)
		return;
	fprintf(stderr, "kube-reports-proxy: memory that the feed process and the workers share: %s\n", strerror(errno));
	exit(1);
}

/* Wakes a process.  The write cannot fail: the counter of the eventfd never reaches its limit. */
static void
ring_bell(int fd)
{
	uint64_t	one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void
drain_bell(int fd)
{
	uint64_t	count;

	while (read(fd, &count, sizeof(count)) > 0)
		;
}

/* ---------- a board ---------- */

static void
board_changed(Board *board)
{
	atomic_fetch_add_explicit(&board->changes, 1, memory_order_release);
	ring_bell(woken_fd);
}

static void
wish_begin_change(Wish *wish)
{
	uint32_t	sequence = atomic_load_explicit(&wish->sequence, memory_order_relaxed);

	atomic_store_explicit(&wish->sequence, sequence | 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
}

static void
wish_end_change(Wish *wish)
{
	uint32_t	sequence = atomic_load_explicit(&wish->sequence, memory_order_relaxed);

	atomic_store_explicit(&wish->sequence, sequence + 1, memory_order_release);
}

void
feed_channel_worker_gone(int worker)
{
	Board	   *board = &boards[worker];
	uint32_t	used = atomic_load_explicit(&board->used, memory_order_relaxed);

	for (uint32_t i = 0; i < used; i++)
	{
		wish_begin_change(&board->wishes[i]);
		atomic_store_explicit(&board->wishes[i].lane, 0, memory_order_relaxed);
		wish_end_change(&board->wishes[i]);
	}
	atomic_store_explicit(&board->following, 0, memory_order_relaxed);
	board_changed(board);
}

/*
 * Watches the eventfd of this process.  If that fails, the process ends: it would never be woken.  The parent forks
 * another.
 */
static void
listen_to(int fd, void (*readable) (void *state))
{
	if (bell == NULL)
		bell = loop_socket_open(fd, readable, NULL);
	if (bell == NULL)
		exit(EXIT_FAILURE);
}

/* ---------- for workers ---------- */

static void
told_readable(void *state)
{
	drain_bell(told_fds[mine]);
	run_told(NULL);
}

void
feed_channel_attach(int worker, void (*told) (void *state))
{
	mine = worker;
	run_told = told;
	shared_ring_only_read(ring);
	listen_to(told_fds[worker], told_readable);
}

static Wish *
wish_of(Board *board, int lane)
{
	uint32_t	used = atomic_load_explicit(&board->used, memory_order_relaxed);

	for (uint32_t i = 0; i < used; i++)
	{
		if (atomic_load_explicit(&board->wishes[i].lane, memory_order_relaxed) == lane)
			return &board->wishes[i];
	}
	return NULL;
}

bool
feed_channel_follow(int lane, const int *representations, size_t count)
{
	Board	   *board = &boards[mine];
	Wish	   *wish = wish_of(board, lane);
	uint32_t	wanted = 0;

	if (wish == NULL)
	{
		uint32_t	used = atomic_load_explicit(&board->used, memory_order_relaxed);

		wish = wish_of(board, 0);
		if (wish == NULL && used < FEED_LANES)
		{
			wish = &board->wishes[used];
			atomic_store_explicit(&board->used, used + 1, memory_order_release);
		}
		if (wish == NULL)
			return false;
		/* The worker does not need earlier records. */
		if (atomic_load_explicit(&board->following, memory_order_relaxed) == 0)
			atomic_store_explicit(&board->place, shared_ring_end(ring), memory_order_relaxed);
		atomic_fetch_add_explicit(&board->following, 1, memory_order_release);
	}
	wish_begin_change(wish);
	atomic_store_explicit(&wish->lane, lane, memory_order_relaxed);
	for (size_t i = 0; i < count; i++)
	{
		JsonText	token = representation_token(representations[i]);

		if (token.len >= FEED_TOKEN_BYTES)
			continue;
		memcpy(wish->tokens[wanted], token.bytes, token.len);
		wish->tokens[wanted++][token.len] = '\0';
	}
	atomic_store_explicit(&wish->count, wanted, memory_order_relaxed);
	wish_end_change(wish);
	board_changed(board);
	return true;
}

void
feed_channel_unfollow(int lane)
{
	Board	   *board = &boards[mine];
	Wish	   *wish = wish_of(board, lane);

	if (wish == NULL)
		return;
	wish_begin_change(wish);
	atomic_store_explicit(&wish->lane, 0, memory_order_relaxed);
	wish_end_change(wish);
	atomic_fetch_sub_explicit(&board->following, 1, memory_order_release);
	board_changed(board);
}

void
feed_channel_ask(void)
{
	board_changed(&boards[mine]);
}

void
feed_channel_written(int lane, int64_t version)
{
	uint32_t	used = atomic_load_explicit(&lanes->used, memory_order_acquire);

	for (uint32_t i = 0; i < used; i++)
	{
		LanePlace  *place = &lanes->places[i];
		int64_t		written;

		if (atomic_load_explicit(&place->lane, memory_order_relaxed) != lane)
			continue;
		written = atomic_load_explicit(&place->written, memory_order_relaxed);
		while (written < version &&
			   !atomic_compare_exchange_weak_explicit(&place->written, &written, version, memory_order_release,
													  memory_order_relaxed))
			;
		ring_bell(woken_fd);
		return;
	}
}

RingReading
feed_channel_read(RingRecord *record)
{
	Board	   *board = &boards[mine];
	uint64_t	place = atomic_load_explicit(&board->place, memory_order_relaxed);
	RingReading reading = shared_ring_read(ring, &place, record);

	atomic_store_explicit(&board->place, place, memory_order_release);
	return reading;
}

/* ---------- for the feed process ---------- */

static void
woken_readable(void *state)
{
	drain_bell(woken_fd);
	run_woken(NULL);
}

void
feed_channel_serve(void (*woken) (void *state))
{
	run_woken = woken;
	paces = calloc((size_t) board_count, sizeof(Pace));
	if (paces == NULL)
		abort();
	for (int i = 0; i < board_count; i++)
	{
		/* Differs from the board's count, so that the first call reads all boards. */
		paces[i].changes = atomic_load_explicit(&boards[i].changes, memory_order_relaxed) - 1;
		paces[i].since = loop_now();
	}
	listen_to(woken_fd, woken_readable);
}

/* Copies a wish; false when it is being changed. */
static bool
read_wish(const Wish *wish, Wish *copy)
{
	uint32_t	sequence = atomic_load_explicit(&wish->sequence, memory_order_acquire);

	memcpy(copy, wish, sizeof(Wish));
	atomic_thread_fence(memory_order_acquire);
	return sequence % 2 == 0 && atomic_load_explicit(&wish->sequence, memory_order_relaxed) == sequence;
}

static bool
board_wishes(const Board *board, void (*wish) (int lane, const JsonText *tokens, size_t count))
{
	uint32_t	used = atomic_load_explicit(&board->used, memory_order_acquire);
	bool		complete = true;

	for (uint32_t i = 0; i < used; i++)
	{
		JsonText	tokens[FEED_REPRESENTATIONS];
		Wish		copy;

		if (!read_wish(&board->wishes[i], &copy))
			complete = false;
		else if (copy.lane != 0)
		{
			for (uint32_t t = 0; t < copy.count; t++)
				tokens[t] = (JsonText) {copy.tokens[t], strlen(copy.tokens[t])};
			wish(copy.lane, tokens, copy.count);
		}
	}
	return complete;
}

bool
feed_channel_wishes(void (*wish) (int lane, const JsonText *tokens, size_t count), bool *complete)
{
	bool		changed = false;

	for (int i = 0; i < board_count; i++)
		changed = changed ||
			atomic_load_explicit(&boards[i].changes, memory_order_relaxed) != paces[i].changes;
	*complete = true;
	for (int i = 0; changed && i < board_count; i++)
	{
		uint32_t	changes = atomic_load_explicit(&boards[i].changes, memory_order_acquire);

		if (board_wishes(&boards[i], wish))
			paces[i].changes = changes;
		else
		{
			paces[i].changes = changes - 1;
			*complete = false;
		}
	}
	return changed;
}

int
feed_channel_lane_open(int lane)
{
	uint32_t	used = atomic_load_explicit(&lanes->used, memory_order_relaxed);
	uint32_t	place = 0;

	while (place < used && atomic_load_explicit(&lanes->places[place].lane, memory_order_relaxed) != 0)
		place++;
	if (place == FEED_LANES)
		return -1;
	atomic_store_explicit(&lanes->places[place].position, -1, memory_order_relaxed);
	atomic_store_explicit(&lanes->places[place].written, 0, memory_order_relaxed);
	atomic_store_explicit(&lanes->places[place].lane, lane, memory_order_relaxed);
	if (place == used)
		atomic_store_explicit(&lanes->used, used + 1, memory_order_release);
	return (int) place;
}

void
feed_channel_lane_close(int place)
{
	atomic_store_explicit(&lanes->places[place].lane, 0, memory_order_relaxed);
}

int
feed_channel_lane_at(int place, int64_t *position)
{
	*position = atomic_load_explicit(&lanes->places[place].position, memory_order_relaxed);
	return atomic_load_explicit(&lanes->places[place].lane, memory_order_relaxed);
}

void
feed_channel_lane_told(int place, int64_t position)
{
	atomic_store_explicit(&lanes->places[place].position, position, memory_order_release);
}

int64_t
feed_channel_lane_written(int place)
{
	return atomic_exchange_explicit(&lanes->places[place].written, 0, memory_order_acquire);
}

/*
 * Whether a record of this size may be written: it overwrites no record that a worker has not read, except for workers
 * that have not read for PATIENCE_MS.
 */
static bool
has_room(size_t size)
{
	uint64_t	end = shared_ring_end(ring);
	uint64_t	now = loop_now();
	bool		room = true;

	for (int i = 0; i < board_count; i++)
	{
		uint64_t	place = atomic_load_explicit(&boards[i].place, memory_order_acquire);

		if (place != paces[i].place || place == end)
		{
			paces[i].place = place;
			paces[i].since = now;
		}
		if (atomic_load_explicit(&boards[i].following, memory_order_acquire) > 0 &&
			shared_ring_overwrites(ring, size, place) && now - paces[i].since < PATIENCE_MS)
			room = false;
	}
	return room;
}

static void
write_record(FeedRecordWriter *writer, const FeedRecordHead *head, const Event *event, const int *representations,
			 size_t count)
{
	if (event != NULL)
		feed_record_event(writer, head, event);
	else
		feed_record_state(writer, head, representations, count);
}

FeedTelling
feed_channel_tell(const FeedRecordHead *head, const Event *event, const int *representations, size_t count)
{
	FeedRecordWriter measure = {NULL, 0};
	FeedRecordWriter writer = {NULL, 0};

	write_record(&measure, head, event, representations, count);
	if (measure.size > shared_ring_largest(ring))
		return FEED_TOO_LARGE;
	if (!has_room(measure.size))
		return FEED_NO_ROOM;
	writer.bytes = shared_ring_begin(ring, measure.size);
	write_record(&writer, head, event, representations, count);
	shared_ring_publish(ring);
	return FEED_TOLD;
}

void
feed_channel_wake(void)
{
	for (int i = 0; i < board_count; i++)
	{
		if (atomic_load_explicit(&boards[i].following, memory_order_acquire) > 0)
			ring_bell(told_fds[i]);
	}
}
