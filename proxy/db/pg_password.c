/*-------------------------------------------------------------------------
 *
 * pg_password.c
 *	  Passwords of database connections that are in files.
 *
 *-------------------------------------------------------------------------
 */
#include "db/pg_password.h"

#include <string.h>

#include "base/config.h"
#include "base/file.h"

#define PASSWORD_LIMIT (64 * 1024)	/* tokens have a few thousand bytes */

bool
pg_password_read(Arena *arena, const char *database, const char **password, const char **why)
{
	bool		reads = config.read_database_password_file[0] != '\0' && strcmp(database, config.database) != 0;
	const char *path = reads ? config.read_database_password_file : config.database_password_file;
	const char *reason;
	JsonText	text;

	*password = NULL;
	if (path[0] == '\0')
		return true;
	if (file_read(arena, path, PASSWORD_LIMIT, &text, &reason))
	{
		/* Editors and echo add a line end. */
		while (text.len > 0 && (text.bytes[text.len - 1] == '\n' || text.bytes[text.len - 1] == '\r'))
			text.len--;
		if (text.len == 0)
			reason = "is empty";
		else if (memchr(text.bytes, '\0', text.len) != NULL || memchr(text.bytes, '\n', text.len) != NULL)
			reason = "has more than one line";
		else
		{
			*password = arena_strndup(arena, text.bytes, text.len);
			return true;
		}
	}
	*why = arena_printf(arena, "the password's file %s: %s", path, reason);
	return false;
}
