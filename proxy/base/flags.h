/*-------------------------------------------------------------------------
 *
 * flags.h
 *	  Command lines: tables of flags, their values, defaults, checks and help.
 *
 * The flags of the server are in config.c, the flags of a command in the file
 * of that command.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FLAGS_H
#define FLAGS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum FlagKind
{
	FLAG_STRING,
	FLAG_FILE,					/* if given, must be readable */
	FLAG_NAMES,					/* separated by commas, no empty names */
	FLAG_ADDRESS,				/* IPv4 or IPv6 */
	FLAG_UUID,
	FLAG_INTEGER,				/* int */
	FLAG_SIZE,					/* size_t: bytes */
	FLAG_COUNT,					/* size_t: a number of things */
	FLAG_SECONDS,				/* int: a duration, rounded up */
	FLAG_MILLISECONDS,
	FLAG_BOOLEAN,
	FLAG_PARSED					/* FlagParser: parsed by a function of the flag */
} FlagKind;

typedef struct Flag
{
	const char *name;
	FlagKind	kind;
	void	   *target;			/* const char * unless the kind says otherwise */
	const char *initial;		/* default; shown in the help, parsed like a value; NULL: the target is not changed */
	double		least;			/* numbers and durations, in the unit of the target */
	double		most;
	const char *help;
} Flag;

/* The target of FLAG_PARSED. */
typedef struct FlagParser
{
	void	   *target;
	/* Sets the target and returns NULL, or returns what the value must be. */
	const char *(*parse) (void *target, const char *value);
} FlagParser;

typedef struct FlagSet
{
	const char *program;		/* prefix of messages */
	const char *about;			/* one sentence or more, for the help */
	const char *usage;			/* the command line in short */
	const Flag *flags;
	size_t		count;
	void		(*help_end) (void); /* prints what follows the flags; NULL: nothing */
} FlagSet;

/*
 * Sets the defaults, then the values from argv[1] on.  Stores arguments that are not flags in operands and returns
 * their number; more than most are an error.  Answers --help and --version and exits.  A wrong command line ends the
 * process with code 2.
 */
extern size_t flags_parse(const FlagSet *set, int argc, char **argv, const char **operands, size_t most);

/* Prints the reason and exits with code 2, as for a wrong value; value NULL: the flag itself is wrong. */
extern _Noreturn void flags_refuse(const FlagSet *set, const char *flag, const char *value, const char *reason);

#endif							/* FLAGS_H */
