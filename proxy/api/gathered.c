/*-------------------------------------------------------------------------
 *
 * gathered.c
 *	  Frames of events that a watch sends together.
 *
 *-------------------------------------------------------------------------
 */
#include "api/gathered.h"

/* Events are gathered up to this size; a larger event is sent alone. */
#define GATHERED_BYTES ((size_t) 64 * 1024)

bool
gathered_add(Gathered *gathered, Frame *frame)
{
	gathered->frames[gathered->count++] = frame_hold(frame);
	gathered->size += frame->len;
	return gathered->count < GATHERED_FRAMES && gathered->size < GATHERED_BYTES;
}

Frame *
gathered_join(Gathered *gathered)
{
	Frame	   *frame;
	StrBuf		buf;
	Arena		arena;

	if (gathered->count == 1)
		return gathered->frames[0];
	arena_init(&arena);
	strbuf_init(&buf, &arena);
	strbuf_reserve(&buf, gathered->size);
	for (size_t i = 0; i < gathered->count; i++)
	{
		strbuf_append(&buf, gathered->frames[i]->bytes, gathered->frames[i]->len);
		frame_release(gathered->frames[i]);
	}
	frame = frame_new(buf.bytes, buf.len);
	arena_free(&arena);
	return frame;
}
