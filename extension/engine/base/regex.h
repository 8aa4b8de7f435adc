/*-------------------------------------------------------------------------
 *
 * regex.h
 *	  Patterns of schemas: Go's regular expressions, run by PCRE2.
 *
 * kube-apiserver compiles a pattern with Go's regexp, whose syntax is RE2's.
 * For the syntax that both engines know they agree; what only one of them
 * knows, or what the two read differently, is refused when the pattern is
 * compiled: lookaround, backreferences, possessive quantifiers, \v, and also
 * quantifiers of assertions (^*), which PCRE2 does not take.  One difference
 * is left: the vertical tab is white space (\s) here.
 *
 * A match is a search anywhere in the text.  Its work is counted over all
 * places where a match might begin: PCRE2's own match limit begins anew at
 * each of them, and does not count the characters that one item runs over.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGEX_H
#define REGEX_H

#include "engine/base/json.h"

/* Limits.  A text on which a search takes more than this counts as not matching. */
#define REGEX_MAX_LENGTH 16384	/* bytes of a pattern */
#define REGEX_MAX_REPEAT 1000	/* x{1000}: Go's own limit */
#define REGEX_MAX_WORK 1000000	/* items tried and characters run over in one search, and beyond it */
#define REGEX_WORK_PER_BYTE 16	/* for each byte of the text */
#define REGEX_MAX_HEAP 2048		/* KiB of backtracking in one search */
#define REGEX_MAX_EXHAUSTED 16	/* searches with one scratch that end so; after them, none is made */

typedef struct Regex Regex;

/* The work space of searches, for any number of patterns; lives as long as its arena. */
typedef struct RegexScratch RegexScratch;

/* NULL and *error, in the words of Go's regexp where they are known, when it is no pattern. */
extern Regex *regex_compile(Arena *arena, JsonText pattern, const char **error);

extern RegexScratch *regex_scratch(Arena *arena);

extern bool regex_matches(const Regex *regex, RegexScratch *scratch, JsonText text);

#endif							/* REGEX_H */
