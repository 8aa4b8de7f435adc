/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The sender's queue: batches in files, until the receiver has stored them.
 *
 * state:		{"stream":"...","base":N,"last":N,"positions":{kind:version}}
 * a batch:		{"positions":{kind:version},"items":[...]}
 *
 * base is the number of the batch before the first batch of the stream.  last
 * is the number of the newest batch when state was written: later batches have
 * newer positions.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/queue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define MAX_KINDS 64
#define BATCH_LIMIT ((size_t) 64 * 1024 * 1024)
#define STATE_LIMIT ((size_t) 1024 * 1024)

typedef struct Position
{
	char	   *kind;
	char	   *version;
	char	   *staged;			/* position in the next batch; NULL: the same as version */
	bool		stale;			/* the kind is to be compared: after a restart it is listed, whatever version says */
} Position;

static struct
{
	int			directory;
	uint64_t	limit;
	char		stream[37];
	uint64_t	base;
	uint64_t	first;			/* number of the oldest batch; above last when the queue is empty */
	uint64_t	last;
	uint64_t	bytes;
	bool		full;			/* the last queue_append() failed */
	Position	positions[MAX_KINDS];
	size_t		count;
}			queue;

static const char *
batch_name(uint64_t number)
{
	static char name[40];

	snprintf(name, sizeof(name), "%020llu.batch", (unsigned long long) number);
	return name;
}

/* ---------- files ---------- */

/* Writes a file atomically and durably. */
static bool
write_file(const char *name, JsonText text)
{
	int			fd = openat(queue.directory, "new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	size_t		done = 0;
	bool		good = fd >= 0;
	int			error = errno;

	while (good && done < text.len)
	{
		ssize_t		wrote = write(fd, text.bytes + done, text.len - done);

		if (wrote < 0 && errno != EINTR)
			good = false;
		else if (wrote > 0)
			done += (size_t) wrote;
	}
	good = good && fsync(fd) == 0;
	if (!good)
		error = errno;
	if (fd >= 0)
		close(fd);
	if (good && (renameat(queue.directory, "new", queue.directory, name) != 0 || fsync(queue.directory) != 0))
	{
		good = false;
		error = errno;
	}
	if (!good)
	{
		unlinkat(queue.directory, "new", 0);
		log_line(LOG_ERROR, "the queue: %s cannot be written: %s", name, strerror(error));
	}
	return good;
}

static bool
read_file(Arena *arena, const char *name, size_t limit, JsonText *text)
{
	struct stat file;
	int			fd = openat(queue.directory, name, O_RDONLY | O_CLOEXEC);
	char	   *bytes = NULL;
	size_t		done = 0;
	bool		good = fd >= 0 && fstat(fd, &file) == 0 && (size_t) file.st_size <= limit;

	if (good)
		bytes = arena_alloc(arena, (size_t) file.st_size + 1);
	while (good && done < (size_t) file.st_size)
	{
		ssize_t		got = read(fd, bytes + done, (size_t) file.st_size - done);

		if (got == 0 || (got < 0 && errno != EINTR))
			good = false;
		else if (got > 0)
			done += (size_t) got;
	}
	if (fd >= 0)
		close(fd);
	if (good)
	{
		bytes[done] = '\0';
		*text = (JsonText) {bytes, done};
	}
	return good;
}

/* ---------- positions ---------- */

static Position *
position_of(const char *kind)
{
	for (size_t i = 0; i < queue.count; i++)
		if (strcmp(queue.positions[i].kind, kind) == 0)
			return &queue.positions[i];
	if (queue.count == MAX_KINDS)
		abort();
	queue.positions[queue.count].kind = strdup(kind);
	queue.positions[queue.count].version = strdup("");
	return &queue.positions[queue.count++];
}

static const char *
position_version(const Position *position, bool staged)
{
	if (position->stale)
		return "";
	return staged && position->staged != NULL ? position->staged : position->version;
}

const char *
queue_position(const char *kind)
{
	return position_version(position_of(kind), false);
}

void
queue_set_position(const char *kind, const char *version)
{
	Position   *position = position_of(kind);

	free(position->version);
	free(position->staged);
	position->version = strdup(version);
	position->staged = NULL;
	position->stale = false;
	if (position->version == NULL)
		abort();
}

void
queue_stage_position(const char *kind, const char *version)
{
	Position   *position = position_of(kind);

	free(position->staged);
	position->staged = strdup(version);
	if (position->staged == NULL)
		abort();
}

static void
keep_staged(void)
{
	for (size_t i = 0; i < queue.count; i++)
	{
		Position   *position = &queue.positions[i];

		if (position->staged == NULL)
			continue;
		free(position->version);
		position->version = position->staged;
		position->staged = NULL;
	}
}

static void
read_positions(Arena *arena, const JsonNode *positions)
{
	if (positions == NULL || positions->kind != JSON_KIND_OBJECT)
		return;
	for (size_t i = 0; i < positions->u.object.count; i++)
	{
		const JsonMember *member = &positions->u.object.members[i];

		if (member->value->kind == JSON_KIND_STRING)
			queue_set_position(json_text_cstring(arena, member->key),
							   json_text_cstring(arena, member->value->u.string));
	}
}

static void
put_positions(StrBuf *buf, bool staged)
{
	strbuf_puts(buf, "\"positions\":{");
	for (size_t i = 0; i < queue.count; i++)
	{
		const Position *position = &queue.positions[i];
		const char *version = position_version(position, staged);

		if (i > 0)
			strbuf_putc(buf, ',');
		json_write_string(buf, position->kind, strlen(position->kind));
		strbuf_putc(buf, ':');
		json_write_string(buf, version, strlen(version));
	}
	strbuf_putc(buf, '}');
}

/* ---------- state ---------- */

bool
queue_save(void)
{
	Arena		arena;
	StrBuf		buf;
	bool		good;

	arena_init(&arena);
	strbuf_init(&buf, &arena);
	strbuf_printf(&buf, "{\"stream\":\"%s\",\"base\":%llu,\"last\":%llu,", queue.stream,
				  (unsigned long long) queue.base, (unsigned long long) queue.last);
	put_positions(&buf, false);
	strbuf_puts(&buf, "}\n");
	good = write_file("state", (JsonText) {buf.bytes, buf.len});
	arena_free(&arena);
	return good;
}

static void
make_stream(void)
{
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != (ssize_t) sizeof(random))
		abort();
	random[6] = (unsigned char) ((random[6] & 0x0F) | 0x40);
	random[8] = (unsigned char) ((random[8] & 0x3F) | 0x80);
	for (size_t i = 0, at = 0; i < sizeof(random); i++)
	{
		if (i == 4 || i == 6 || i == 8 || i == 10)
			queue.stream[at++] = '-';
		snprintf(queue.stream + at, 3, "%02x", random[i]);
		at += 2;
	}
}

const char *
queue_stream(void)
{
	return queue.stream;
}

bool
queue_new_stream(void)
{
	uint64_t	former_base = queue.base;
	char		former[sizeof(queue.stream)];

	memcpy(former, queue.stream, sizeof(former));
	make_stream();
	queue.base = queue.first - 1;
	/* Written with the stream, so that a process that ends now leaves the comparison to the next one. */
	for (size_t i = 0; i < queue.count; i++)
		queue.positions[i].stale = true;
	if (queue_save())
		return true;
	/* The receiver refuses the former stream again: then this is tried again, and the comparison begins. */
	memcpy(queue.stream, former, sizeof(former));
	queue.base = former_base;
	return false;
}

static uint64_t
number_at(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind == JSON_KIND_INTEGER ? (uint64_t) node->u.integer : 0;
}

/* ---------- opening ---------- */

/* Checks that no number is missing between the batches. */
static bool
find_batches(const char *directory, char *why, size_t why_size)
{
	DIR		   *entries = opendir(directory);
	struct dirent *entry;
	uint64_t	count = 0;
	uint64_t	lowest = UINT64_MAX;
	uint64_t	highest = 0;

	if (entries == NULL)
	{
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	while ((entry = readdir(entries)) != NULL)
	{
		struct stat file;
		char	   *end;
		uint64_t	number = strtoull(entry->d_name, &end, 10);

		if (end == entry->d_name || strcmp(end, ".batch") != 0)
			continue;
		count++;
		lowest = number < lowest ? number : lowest;
		highest = number > highest ? number : highest;
		if (fstatat(queue.directory, entry->d_name, &file, 0) == 0)
			queue.bytes += (uint64_t) file.st_size;
	}
	closedir(entries);
	if (count == 0)
		return true;
	if (highest - lowest + 1 != count)
	{
		snprintf(why, why_size, "batches between %020llu and %020llu are missing", (unsigned long long) lowest,
				 (unsigned long long) highest);
		return false;
	}
	queue.first = lowest;
	queue.last = highest > queue.last ? highest : queue.last;
	return true;
}

/* *fresh: there is no state, and the stream is a new one. */
static bool
read_state(Arena *arena, bool *fresh, char *why, size_t why_size)
{
	JsonText	text;
	JsonError	error;
	JsonNode   *state;
	const char *stream;

	*fresh = !read_file(arena, "state", STATE_LIMIT, &text);
	if (*fresh)
	{
		make_stream();
		return true;
	}
	state = json_parse(arena, text.bytes, text.len, NULL, NULL, &error);
	stream = state == NULL ? NULL : json_get_cstring(arena, state, "stream");
	if (stream == NULL || strlen(stream) != sizeof(queue.stream) - 1)
	{
		snprintf(why, why_size, "file state is damaged");
		return false;
	}
	memcpy(queue.stream, stream, sizeof(queue.stream));
	queue.base = number_at(state, "base");
	queue.last = number_at(state, "last");
	read_positions(arena, json_get(state, "positions"));
	return true;
}

bool
queue_open(const char *directory, uint64_t limit, char *why, size_t why_size)
{
	Arena		arena;
	uint64_t	saved;
	int			lock;
	bool		fresh;
	bool		good;

	queue.limit = limit;
	if (mkdir(directory, 0700) != 0 && errno != EEXIST)
	{
		snprintf(why, why_size, "%s", strerror(errno));
		return false;
	}
	queue.directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lock = queue.directory < 0 ? -1 : openat(queue.directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
	{
		snprintf(why, why_size, "%s", errno == EWOULDBLOCK ? "another sender uses it" : strerror(errno));
		return false;
	}
	arena_init(&arena);
	good = read_state(&arena, &fresh, why, why_size);
	saved = queue.last;
	queue.first = queue.last + 1;
	good = good && find_batches(directory, why, why_size);
	if (good && queue.last > saved)
	{
		JsonText	text;
		JsonError	error;
		JsonNode   *batch = NULL;

		if (read_file(&arena, batch_name(queue.last), BATCH_LIMIT, &text))
			batch = json_parse(&arena, text.bytes, text.len, NULL, NULL, &error);
		if (batch == NULL)
		{
			snprintf(why, why_size, "file %s is damaged", batch_name(queue.last));
			good = false;
		}
		else
			read_positions(&arena, json_get(batch, "positions"));
	}
	arena_free(&arena);
	/* The files say all of this again.  A disk that is full is no reason not to send what has filled it. */
	if (!good || !fresh || queue_save())
		return good;
	snprintf(why, why_size, "file state cannot be written");
	return false;
}

/* ---------- batches ---------- */

uint64_t
queue_append(JsonText items)
{
	Arena		arena;
	StrBuf		buf;
	bool		good = false;

	arena_init(&arena);
	strbuf_init(&buf, &arena);
	strbuf_putc(&buf, '{');
	put_positions(&buf, true);
	strbuf_puts(&buf, ",\"items\":[");
	strbuf_append(&buf, items.bytes, items.len);
	strbuf_puts(&buf, "]}\n");
	/* An empty queue takes a batch of any size. */
	if (queue.bytes == 0 || queue.bytes + buf.len <= queue.limit)
		good = write_file(batch_name(queue.last + 1), (JsonText) {buf.bytes, buf.len});
	if (good)
	{
		queue.last++;
		queue.bytes += buf.len;
		keep_staged();
	}
	arena_free(&arena);
	queue.full = !good;
	return good ? queue.last : 0;
}

uint64_t
queue_last(void)
{
	return queue.last;
}

bool
queue_front(Arena *arena, uint64_t *number, uint64_t *seq, JsonText *items)
{
	static const char key[] = ",\"items\":[";
	JsonText	text;
	const char *begin;

	if (queue.first > queue.last)
		return false;
	if (!read_file(arena, batch_name(queue.first), BATCH_LIMIT, &text))
	{
		log_line(LOG_ERROR, "the queue: %s cannot be read: %s", batch_name(queue.first), strerror(errno));
		return false;
	}
	begin = memmem(text.bytes, text.len, key, sizeof(key) - 1);
	if (begin == NULL || text.len < 3)
		return false;
	begin += sizeof(key) - 1;
	items->bytes = begin;
	items->len = (size_t) (text.bytes + text.len - begin) - strlen("]}\n");
	*number = queue.first;
	*seq = queue.first - queue.base;
	return true;
}

bool
queue_done(uint64_t number)
{
	struct stat file;

	if (number != queue.first || queue.first > queue.last)
		return true;
	/* When no batch is left, only state has the last number and the positions. */
	if (queue.first == queue.last && !queue_save())
		return false;
	if (fstatat(queue.directory, batch_name(number), &file, 0) == 0)
		queue.bytes -= (uint64_t) file.st_size < queue.bytes ? (uint64_t) file.st_size : queue.bytes;
	unlinkat(queue.directory, batch_name(number), 0);
	queue.first++;
	if (queue.first > queue.last)
		queue.bytes = 0;
	return true;
}

bool
queue_is_full(void)
{
	return queue.full;
}

uint64_t
queue_batches(void)
{
	return queue.last + 1 - queue.first;
}

uint64_t
queue_bytes(void)
{
	return queue.bytes;
}

int64_t
queue_oldest(void)
{
	struct stat file;

	if (queue.first > queue.last || fstatat(queue.directory, batch_name(queue.first), &file, 0) != 0)
		return 0;
	return (int64_t) file.st_mtime;
}
