/*-------------------------------------------------------------------------
 *
 * go_duration.h
 *	  Durations as Go writes them: 1h30m, 1.5s.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GO_DURATION_H
#define GO_DURATION_H

#include "engine/base/json.h"

/*
 * Reads a duration as Go's time.ParseDuration does: decimals with units ("1h2.5m"), or 0, with or without a sign.
 * False when the text is not a duration, or when its nanoseconds do not fit into 64 bits.
 */
extern bool go_duration_parse(JsonText text, int64_t *nanoseconds);

#endif							/* GO_DURATION_H */
