/*-------------------------------------------------------------------------
 *
 * file.c
 *	  Reads small files whole.
 *
 *-------------------------------------------------------------------------
 */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool
file_read(Arena *arena, const char *path, size_t limit, JsonText *text, const char **why)
{
	FILE	   *file = fopen(path, "re");
	int			error = file == NULL ? errno : 0;
	char		piece[4096];
	size_t		len;
	StrBuf		bytes;

	strbuf_init(&bytes, arena);
	strbuf_puts(&bytes, "");
	while (file != NULL && bytes.len <= limit && (len = fread(piece, 1, sizeof(piece), file)) > 0)
		strbuf_append(&bytes, piece, len);
	if (file != NULL && ferror(file))
		error = errno;
	if (file != NULL)
		fclose(file);
	*text = (JsonText) {bytes.bytes, bytes.len};
	*why = error != 0 ? arena_strdup(arena, strerror(error)) : "is too large";
	return error == 0 && bytes.len <= limit;
}
