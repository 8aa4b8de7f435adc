/*-------------------------------------------------------------------------
 *
 * flags.c
 *	  Command lines: tables of flags, their values, defaults, checks and help.
 *
 * A flag is written --name=value or --name value; a boolean flag may stand
 * alone.  Durations are Go's (30s, 1m30s, 500ms), as in kube-apiserver.  The
 * last of several values wins.  A wrong command line ends the process with
 * code 2 and one line that names the flag and the reason.
 *
 *-------------------------------------------------------------------------
 */
#include "base/flags.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/name_list.h"
#include "engine/base/ascii.h"
#include "engine/base/go_duration.h"

#define EXIT_USAGE 2

static _Noreturn void
usage_error(const FlagSet *set, const char *flag, const char *value, const char *reason)
{
	if (value != NULL)
		fprintf(stderr, "%s: invalid argument \"%s\" for --%s: %s\n", set->program, value, flag, reason);
	else
		fprintf(stderr, "%s: --%s: %s\n", set->program, flag, reason);
	exit(EXIT_USAGE);
}

void
flags_refuse(const FlagSet *set, const char *flag, const char *value, const char *reason)
{
	usage_error(set, flag, value, reason);
}

/* ---------- values ---------- */

/* Parses a duration without a sign into milliseconds; false when the text is not one. */
static bool
parse_duration(const char *text, double *milliseconds)
{
	int64_t		nanoseconds;

	if (*text == '-' || *text == '+' || !go_duration_parse((JsonText) {text, strlen(text)}, &nanoseconds))
		return false;
	*milliseconds = (double) nanoseconds / 1e6;
	return true;
}

static void
check_range(const FlagSet *set, const Flag *flag, const char *value, double number, const char *unit)
{
	char		reason[120];

	if (number >= flag->least && number <= flag->most)
		return;
	snprintf(reason, sizeof(reason), "must be between %.0f%s and %.0f%s", flag->least, unit, flag->most, unit);
	usage_error(set, flag->name, value, reason);
}

static double
parse_number(const FlagSet *set, const Flag *flag, const char *value)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (*value == '\0' || isspace((unsigned char) *value) || *end != '\0' || errno != 0)
		usage_error(set, flag->name, value, "must be a whole number");
	check_range(set, flag, value, (double) number, "");
	return (double) number;
}

static void
check_names(const FlagSet *set, const Flag *flag, const char *value)
{
	NameList	names;
	Arena		arena;
	bool		good;

	arena_init(&arena);
	good = name_list_split(&arena, value, &names);
	arena_free(&arena);
	if (!good)
		usage_error(set, flag->name, value, "must be names separated by commas, none of them empty");
}

static void
set_flag(const FlagSet *set, const Flag *flag, const char *value)
{
	struct in6_addr address;
	const FlagParser *parser;
	const char *reason;
	double		number;

	switch (flag->kind)
	{
		case FLAG_ADDRESS:
			if (inet_pton(AF_INET, value, &address) != 1 && inet_pton(AF_INET6, value, &address) != 1)
				usage_error(set, flag->name, value, "must be an IP address");
			*(const char **) flag->target = value;
			break;
		case FLAG_UUID:
			if (value[0] != '\0' && !ascii_is_uuid(value, strlen(value)))
				usage_error(set, flag->name, value, "must be a UUID");
			*(const char **) flag->target = value;
			break;
		case FLAG_NAMES:
			check_names(set, flag, value);
			*(const char **) flag->target = value;
			break;
		case FLAG_STRING:
		case FLAG_FILE:
			*(const char **) flag->target = value;
			break;
		case FLAG_INTEGER:
			*(int *) flag->target = (int) parse_number(set, flag, value);
			break;
		case FLAG_SIZE:
		case FLAG_COUNT:
			*(size_t *) flag->target = (size_t) parse_number(set, flag, value);
			break;
		case FLAG_SECONDS:
			if (!parse_duration(value, &number))
				usage_error(set, flag->name, value, "must be a duration such as 30s or 1m30s");
			number = ceil(number / 1000);
			check_range(set, flag, value, number, "s");
			*(int *) flag->target = (int) number;
			break;
		case FLAG_MILLISECONDS:
			if (!parse_duration(value, &number))
				usage_error(set, flag->name, value, "must be a duration such as 30ms or 1s");
			number = ceil(number - 1e-6);
			check_range(set, flag, value, number, "ms");
			*(int *) flag->target = (int) number;
			break;
		case FLAG_BOOLEAN:
			if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
				*(bool *) flag->target = true;
			else if (strcmp(value, "false") == 0 || strcmp(value, "0") == 0)
				*(bool *) flag->target = false;
			else
				usage_error(set, flag->name, value, "must be true or false");
			break;
		case FLAG_PARSED:
			parser = flag->target;
			reason = parser->parse(parser->target, value);
			if (reason != NULL)
				usage_error(set, flag->name, value, reason);
			break;
	}
}

/* ---------- command lines ---------- */

static void
print_help(const FlagSet *set)
{
	printf("%s\n\nUsage:\n  %s\n\nFlags:\n", set->about, set->usage);
	for (size_t i = 0; i < set->count; i++)
	{
		static const char *const kinds[] =
		{"string", "file", "names", "ip", "uuid", "int", "bytes", "int", "duration", "duration", "", "string"};
		const Flag *flag = &set->flags[i];

		printf("  --%s%s%s\n        %s", flag->name, kinds[flag->kind][0] != '\0' ? " " : "", kinds[flag->kind],
			   flag->help);
		if (flag->initial != NULL && flag->initial[0] != '\0')
			printf(" (default %s)", flag->initial);
		printf("\n");
	}
	printf("  --help\n        show this help\n  --version\n        show the version\n");
	if (set->help_end != NULL)
		set->help_end();
}

static const Flag *
find_flag(const FlagSet *set, const char *name, size_t len)
{
	for (size_t i = 0; i < set->count; i++)
		if (strlen(set->flags[i].name) == len && strncmp(set->flags[i].name, name, len) == 0)
			return &set->flags[i];
	return NULL;
}

/* Returns the flag name within an argument; NULL when the argument is not a flag. */
static const char *
name_of_flag(const FlagSet *set, const char *argument)
{
	if (strncmp(argument, "--", 2) == 0)
		return argument + 2;
	if (strncmp(argument, "-v", 2) == 0 && (argument[2] == '=' || argument[2] == '\0') &&
		find_flag(set, "v", 1) != NULL)
		return argument + 1;
	return NULL;
}

static void
check_files(const FlagSet *set)
{
	for (size_t i = 0; i < set->count; i++)
	{
		const char *path;
		int			fd;

		if (set->flags[i].kind != FLAG_FILE)
			continue;
		path = *(const char **) set->flags[i].target;
		if (path[0] == '\0')
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			usage_error(set, set->flags[i].name, path, strerror(errno));
		close(fd);
	}
}

static void
end_for_question(const FlagSet *set, const char *argument)
{
	if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
	{
		print_help(set);
		exit(0);
	}
	if (strcmp(argument, "--version") == 0)
	{
		/* A command of the proxy has the proxy's version. */
		printf("%.*s %s\n", (int) strcspn(set->program, " "), set->program, KUBE_REPORTS_VERSION);
		exit(0);
	}
	if (strncmp(argument, "--help=", strlen("--help=")) == 0)
		usage_error(set, "help", argument + strlen("--help="), "takes no value");
	/* Some commands have a flag of this name. */
	if (strncmp(argument, "--version=", strlen("--version=")) == 0 &&
		find_flag(set, "version", strlen("version")) == NULL)
		usage_error(set, "version", argument + strlen("--version="), "takes no value");
}

size_t
flags_parse(const FlagSet *set, int argc, char **argv, const char **operands, size_t most)
{
	size_t		count = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->flags[i].initial != NULL)
			set_flag(set, &set->flags[i], set->flags[i].initial);
	for (int i = 1; i < argc; i++)
	{
		const char *argument = argv[i];
		const char *name = name_of_flag(set, argument);
		const char *equals;
		const char *value;
		const Flag *flag;

		end_for_question(set, argument);
		/* A dash alone is an operand: standard input. */
		if (name == NULL && (argument[0] != '-' || argument[1] == '\0') && count < most)
		{
			operands[count++] = argument;
			continue;
		}
		if (name == NULL)
		{
			fprintf(stderr, "%s: unexpected argument \"%s\"; see --help\n", set->program, argument);
			exit(EXIT_USAGE);
		}
		equals = strchr(name, '=');
		flag = find_flag(set, name, equals != NULL ? (size_t) (equals - name) : strlen(name));
		if (flag == NULL)
		{
			fprintf(stderr, "%s: unknown flag: %.*s; see --help\n", set->program,
					equals != NULL ? (int) (equals - argument) : (int) strlen(argument), argument);
			exit(EXIT_USAGE);
		}
		if (equals != NULL)
			value = equals + 1;
		else if (flag->kind == FLAG_BOOLEAN)
			value = "true";
		else if (i + 1 < argc)
			value = argv[++i];
		else
			usage_error(set, flag->name, NULL, "needs a value");
		set_flag(set, flag, value);
	}
	check_files(set);
	return count;
}
