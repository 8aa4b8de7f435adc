/*-------------------------------------------------------------------------
 *
 * duration.h
 *	  Durations as Go writes them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DURATION_H
#define DURATION_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Parses a text of len bytes as Go's time.ParseDuration() does (30s, 1m30s, -500ms, 0) into milliseconds.  False when
 * the text is not a duration.
 */
extern bool duration_parse(const char *text, size_t len, double *milliseconds);

#endif							/* DURATION_H */
