/*-------------------------------------------------------------------------
 *
 * go_float.h
 *	  Floats as Go prints them: the fewest digits that read back as the
 *	  same number.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GO_FLOAT_H
#define GO_FLOAT_H

#include "engine/base/arena.h"

/* As encoding/json prints a finite double: plain from 1e-6 up to below 1e21, else with an exponent. */
extern void go_float_json(StrBuf *buf, double value);

/* As %v prints a double: plain from 1e-4 up to below 1e6, else with an exponent of two digits; NaN, +Inf or -Inf. */
extern void go_float_text(StrBuf *buf, double value);

/* The same for the float32 that is nearest to value. */
extern void go_float32_text(StrBuf *buf, double value);

#endif							/* GO_FLOAT_H */
