/*-------------------------------------------------------------------------
 *
 * regex.h
 *	  Patterns of schemas: Go's regular expressions, run by PCRE2.
 *
 * kube-apiserver compiles a pattern with Go's regexp, whose syntax is RE2's.
 * Both engines agree on the syntax that both support.  regex_compile()
 * refuses syntax that only one supports or that the two interpret
 * differently: lookaround, backreferences, possessive quantifiers, \v, and
 * also quantifiers of assertions (^*), which PCRE2 does not accept.  One
 * difference is left: \s matches the vertical tab here.
 *
 * A match may begin anywhere in the text.  A search counts its own work, over
 * all places where a match might begin.  PCRE2's match limit is not enough: it
 * starts again at each place, and does not count the characters that one item
 * passes over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGEX_H
#define REGEX_H

#include "engine/base/json.h"

/* Limits.  If a search exceeds them, the text counts as not matching. */
#define REGEX_MAX_LENGTH 16384	/* bytes of a pattern */
#define REGEX_MAX_REPEAT 1000	/* x{1000}: Go's own limit */
#define REGEX_MAX_WORK 1000000	/* items tried and characters passed over in one search, plus ... */
#define REGEX_WORK_PER_BYTE 16	/* ... this for each byte of the text */
#define REGEX_MAX_HEAP 2048		/* KiB of backtracking in one search */
#define REGEX_MAX_EXHAUSTED 16	/* searches with one scratch that exceed a limit; later searches are skipped */

typedef struct Regex Regex;

/* The work space of searches, for any number of patterns; lives as long as its arena. */
typedef struct RegexScratch RegexScratch;

/* NULL and *error if the pattern is invalid; *error has the words of Go's regexp where possible. */
extern Regex *regex_compile(Arena *arena, JsonText pattern, const char **error);

extern RegexScratch *regex_scratch(Arena *arena);

/* Whether the pattern matches anywhere in the text; false for a search that exceeds a limit. */
extern bool regex_matches(const Regex *regex, RegexScratch *scratch, JsonText text);

#endif							/* REGEX_H */
