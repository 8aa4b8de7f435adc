/*-------------------------------------------------------------------------
 *
 * file.h
 *	  Reads small files whole.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FILE_H
#define FILE_H

#include "engine/base/json.h"

/*
 * Reads a file of at most limit bytes into the arena, and adds a NUL after them.  False, with the reason in *why, when
 * the file cannot be read or is larger.
 */
extern bool file_read(Arena *arena, const char *path, size_t limit, JsonText *text, const char **why);

#endif							/* FILE_H */
