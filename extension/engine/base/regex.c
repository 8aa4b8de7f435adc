/*-------------------------------------------------------------------------
 *
 * regex.c
 *	  Patterns of schemas: Go's regular expressions, run by PCRE2.
 *
 * PCRE2 takes all its memory from an arena and gives none back, so a search
 * that is left by a longjmp leaks nothing.  The compiled pattern lives in the
 * arena of the schema and never changes; a search writes only to the scratch,
 * in the arena of the request.
 *
 * PCRE2 backtracks, Go's engine does not.  Automatic callouts of PCRE2, one
 * before each item of a pattern, count the work of a search and limit it.
 * This also limits the work for one document.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/regex.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct Regex
{
	pcre2_code *code;
};

struct RegexScratch
{
	pcre2_match_data *match;
	pcre2_match_context *context;
	int			exhausted;		/* searches that exceeded a limit */
	size_t		place;			/* position of the last item tried */
	uint64_t	left;			/* work left for the current search */
	uint64_t	unpaid;			/* work not yet charged to the input's budget */
};

/* Units of work that take as long as a step of the input's budget; units between two checks for interrupts. */
#define WORK_PER_STEP 4
#define WORK_PAID_AT_ONCE 4096

/* The state of the check of a pattern's syntax. */
typedef struct PatternScan
{
	Arena	   *arena;
	const char *bytes;
	size_t		len;
	size_t		at;
	const char *error;
} PatternScan;

static bool check_escape(PatternScan *scan, bool in_class);
static bool check_class(PatternScan *scan);
static bool check_group(PatternScan *scan);
static bool check_repeat(PatternScan *scan, bool *is_repeat);

static void *
allocate_piece(PCRE2_SIZE size, void *arena)
{
	return arena_alloc(arena, size);
}

static void
keep_piece(void *piece, void *arena)
{
}

/* Stores why the pattern is refused; the wrong part of the pattern is from start to end. */
static bool
refuse(PatternScan *scan, const char *why, size_t start, size_t end)
{
	if (end > scan->len)
		end = scan->len;
	scan->error = arena_printf(scan->arena, "error parsing regexp: %s: `%.*s`", why,
							   (int) (end - start), scan->bytes + start);
	return false;
}

/*
 * Go supports fewer escapes than PCRE2.  \v is refused: it is the vertical
 * tab in Go, but all vertical white space in PCRE2.
 */
static bool
check_escape(PatternScan *scan, bool in_class)
{
	size_t		start = scan->at++;
	char		c;

	if (scan->at >= scan->len)
		return refuse(scan, "trailing backslash at end of expression", start, start);
	c = scan->bytes[scan->at++];

	if (c == 'Q')
	{
		/* Up to \E, or to the end, everything is literal. */
		while (scan->at < scan->len)
		{
			if (scan->bytes[scan->at] == '\\' && scan->at + 1 < scan->len && scan->bytes[scan->at + 1] == 'E')
			{
				scan->at += 2;
				return true;
			}
			scan->at++;
		}
		return true;
	}
	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
	{
		const char *known = in_class ? "aftnrx0pPdDsSwW" : "aftnrx0pPdDsSwWbBAz";

		if (strchr(known, c) == NULL)
			return refuse(scan, "invalid escape sequence", start, scan->at);
		return true;
	}
	if ((unsigned char) c >= 0x80)
		return refuse(scan, "invalid escape sequence", start, scan->at);
	return true;
}

/* Checks a [...] class and skips it. */
static bool
check_class(PatternScan *scan)
{
	size_t		start = scan->at++;

	if (scan->at < scan->len && scan->bytes[scan->at] == '^')
		scan->at++;
	if (scan->at < scan->len && scan->bytes[scan->at] == ']')
		scan->at++;
	while (scan->at < scan->len)
	{
		char		c = scan->bytes[scan->at];

		if (c == ']')
		{
			scan->at++;
			return true;
		}
		if (c == '\\')
		{
			if (!check_escape(scan, true))
				return false;
		}
		else if (c == '[' && scan->at + 1 < scan->len && scan->bytes[scan->at + 1] == ':')
		{
			size_t		name = scan->at;

			/* A class name such as [:alpha:]; without its end, [ is an ordinary character. */
			scan->at += 2;
			while (scan->at + 1 < scan->len && (scan->bytes[scan->at] == '^' ||
												(scan->bytes[scan->at] >= 'a' && scan->bytes[scan->at] <= 'z')))
				scan->at++;
			if (scan->at + 1 < scan->len && scan->bytes[scan->at] == ':' && scan->bytes[scan->at + 1] == ']')
				scan->at += 2;
			else
				scan->at = name + 1;
		}
		else
			scan->at++;
	}
	return refuse(scan, "missing closing ]", start, scan->len);
}

/* Checks the start of a group: Go supports (?flags), (?flags:, (?: and named groups. */
static bool
check_group(PatternScan *scan)
{
	size_t		start = scan->at++;
	size_t		at = scan->at;

	if (at < scan->len && scan->bytes[at] == '*')
		return refuse(scan, "missing argument to repetition operator", at, at + 1);
	if (at >= scan->len || scan->bytes[at] != '?')
		return true;
	at++;
	if (at < scan->len && scan->bytes[at] == 'P')
		at++;
	if (at + 1 < scan->len && scan->bytes[at] == '<' && scan->bytes[at + 1] != '=' && scan->bytes[at + 1] != '!')
	{
		while (at < scan->len && scan->bytes[at] != '>')
			at++;
		scan->at = at;
		return true;
	}
	while (at < scan->len && memchr("imsU-", scan->bytes[at], 5) != NULL)
		at++;
	if (at < scan->len && scan->bytes[at - 1] != '-' && (scan->bytes[at] == ':' || scan->bytes[at] == ')'))
	{
		/* The caller reads the ) of (?i) as the end of a group. */
		scan->at = scan->bytes[at] == ':' ? at + 1 : at;
		return true;
	}
	return refuse(scan, "invalid or unsupported Perl syntax", start, at + 1);
}

/* Checks a quantifier and the ? that makes it lazy.  {...} is a quantifier only if it has the form of one. */
static bool
check_repeat(PatternScan *scan, bool *is_repeat)
{
	size_t		at = scan->at;

	*is_repeat = true;
	if (scan->bytes[at] == '{')
	{
		size_t		digits = 0;
		int			value = 0;

		for (at++; at < scan->len; at++)
		{
			char		c = scan->bytes[at];

			if (c >= '0' && c <= '9')
			{
				digits++;
				if (value <= REGEX_MAX_REPEAT)
					value = value * 10 + (c - '0');
			}
			else if (c == ',' && digits > 0 && memchr(scan->bytes + scan->at, ',', at - scan->at) == NULL)
			{
				if (value > REGEX_MAX_REPEAT)
					break;
				value = 0;
			}
			else
				break;
		}
		if (at >= scan->len || digits == 0 || (scan->bytes[at] != '}' && value <= REGEX_MAX_REPEAT))
		{
			*is_repeat = false;
			scan->at++;
			return true;
		}
		if (value > REGEX_MAX_REPEAT)
			return refuse(scan, "invalid repeat count", scan->at, at + 1);
	}
	scan->at = at + 1;
	if (scan->at < scan->len && scan->bytes[scan->at] == '?')
		scan->at++;
	return true;
}

/* Refuses syntax that Go's regexp refuses but PCRE2 accepts, or that PCRE2 interprets differently. */
static bool
check_syntax(PatternScan *scan)
{
	bool		after_repeat = false;
	size_t		start = 0;

	while (scan->at < scan->len)
	{
		size_t		previous = start;
		bool		is_repeat = false;

		start = scan->at;

		switch (scan->bytes[start])
		{
			case '\\':
				if (!check_escape(scan, false))
					return false;
				break;
			case '[':
				if (!check_class(scan))
					return false;
				break;
			case '(':
				if (!check_group(scan))
					return false;
				break;
			case '*':
			case '+':
			case '?':
			case '{':
				if (!check_repeat(scan, &is_repeat))
					return false;
				if (is_repeat && after_repeat)
					return refuse(scan, "invalid nested repetition operator", previous, scan->at);
				break;
			default:
				scan->at++;
				break;
		}
		after_repeat = is_repeat;
	}
	return true;
}

/* Describes the most common errors in Go's words, the others in PCRE2's. */
static const char *
describe_error(PatternScan *scan, int code, size_t offset)
{
	char		message[256];

	switch (code)
	{
		case PCRE2_ERROR_MISSING_CLOSING_PARENTHESIS:
			refuse(scan, "missing closing )", 0, scan->len);
			return scan->error;
		case PCRE2_ERROR_UNMATCHED_CLOSING_PARENTHESIS:
			refuse(scan, "unexpected )", 0, scan->len);
			return scan->error;
		case PCRE2_ERROR_QUANTIFIER_INVALID:
			refuse(scan, "missing argument to repetition operator", offset > 0 ? offset - 1 : 0, offset);
			return scan->error;
		default:
			if (pcre2_get_error_message(code, (PCRE2_UCHAR *) message, sizeof(message)) < 0)
				strcpy(message, "not a pattern");
			return arena_printf(scan->arena, "error parsing regexp: %s at offset %zu", message, offset);
	}
}

Regex *
regex_compile(Arena *arena, JsonText pattern, const char **error)
{
	PatternScan scan = {arena, pattern.bytes, pattern.len, 0, NULL};
	pcre2_general_context *memory;
	pcre2_compile_context *context;
	Regex	   *regex;
	int			code;
	PCRE2_SIZE	offset;

	if (pattern.len > REGEX_MAX_LENGTH)
	{
		*error = arena_printf(arena, "error parsing regexp: longer than %d bytes", REGEX_MAX_LENGTH);
		return NULL;
	}
	if (!check_syntax(&scan))
	{
		*error = scan.error;
		return NULL;
	}

	memory = pcre2_general_context_create(allocate_piece, keep_piece, arena);
	context = pcre2_compile_context_create(memory);
	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	regex = arena_alloc(arena, sizeof(Regex));
	regex->code = pcre2_compile((PCRE2_SPTR) pattern.bytes, pattern.len,
								PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE |
								PCRE2_DUPNAMES | PCRE2_AUTO_CALLOUT,
								&code, &offset, context);
	if (regex->code == NULL)
	{
		*error = describe_error(&scan, code, offset);
		return NULL;
	}
	return regex;
}

/*
 * PCRE2 calls this function before each item of the pattern.  The distance between the places of two calls is the
 * number of characters that the search passed over.  The search ends when it exceeds its budget.  An interrupt, or the
 * budget of the input, may leave the search from here by longjmp.
 */
static int
count_work(pcre2_callout_block * block, void *data)
{
	RegexScratch *scratch = data;
	size_t		place = block->current_position;
	uint64_t	work = 1 + (place > scratch->place ? place - scratch->place : scratch->place - place);

	scratch->place = place;
	scratch->unpaid += work;
	if (scratch->unpaid >= WORK_PAID_AT_ONCE)
	{
		arena_spend(scratch->unpaid / WORK_PER_STEP);
		scratch->unpaid = 0;
	}
	if (work > scratch->left)
		return PCRE2_ERROR_CALLOUT;
	scratch->left -= work;
	return 0;
}

RegexScratch *
regex_scratch(Arena *arena)
{
	pcre2_general_context *memory = pcre2_general_context_create(allocate_piece, keep_piece, arena);
	RegexScratch *scratch = arena_alloc(arena, sizeof(RegexScratch));

	scratch->exhausted = 0;
	scratch->unpaid = 0;
	scratch->match = pcre2_match_data_create(1, memory);
	scratch->context = pcre2_match_context_create(memory);
	pcre2_set_callout(scratch->context, count_work, scratch);
	pcre2_set_heap_limit(scratch->context, REGEX_MAX_HEAP);
	return scratch;
}

bool
regex_matches(const Regex *regex, RegexScratch *scratch, JsonText text)
{
	/* PCRE2 refuses a null pointer, even for an empty text. */
	const char *bytes = text.len > 0 ? text.bytes : "";
	int			result;

	arena_checkpoint();
	if (scratch->exhausted >= REGEX_MAX_EXHAUSTED)
		return false;
	scratch->place = 0;
	scratch->left = REGEX_MAX_WORK + (uint64_t) text.len * REGEX_WORK_PER_BYTE;
	result = pcre2_match(regex->code, (PCRE2_SPTR) bytes, text.len, 0, 0, scratch->match, scratch->context);
	if (result < 0 && result != PCRE2_ERROR_NOMATCH)
		scratch->exhausted++;
	return result >= 0;
}
