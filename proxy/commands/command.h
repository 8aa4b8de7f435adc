/*-------------------------------------------------------------------------
 *
 * command.h
 *	  What kube-reports-proxy does besides serving, and how.
 *
 * A command is one run in the foreground: it asks, decides, changes, tells
 * and ends.  What it does goes to standard error line by line; what was asked
 * for (a table, a document) goes to standard output.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMMAND_H
#define COMMAND_H

#include "base/flags.h"
#include "engine/base/json.h"

/* Exit codes. */
#define COMMAND_DONE 0
#define COMMAND_FAILED 1
#define COMMAND_USAGE 2

typedef struct Command
{
	const char *name;
	const char *summary;		/* for the help, in a few words */
	/* argv[0] is the name, argv[argc] NULL; gives the exit code. */
	int			(*run) (int argc, char **argv);
} Command;

/* The commands, up to one without a name. */
extern const Command commands[];

/*
 * Runs one of a table that ends with one without a name; program is what stands before the names, and argv[1] is
 * the name. Without a name the help and code 2, with --help the help, with a name that is not in the table code 2.
 */
extern int	command_run(const char *program, const Command *table, int argc, char **argv);

/* For the help of the server. */
extern void commands_print(void);

/* ---------- what a command says ---------- */

/* A line on standard error. */
extern void command_tell(const char *format,...) __attribute__((format(printf, 1, 2)));

/* The same, as an error. */
extern void command_error(const char *format,...) __attribute__((format(printf, 1, 2)));

/* ---------- what several need ---------- */

/* A flag that names the kubeconfig, and the server that it leads to; an error is told, and NULL given. */
#define COMMAND_KUBECONFIG_FLAG(target) \
	{"kubeconfig", FLAG_FILE, target, "", 0, 0, \
	"kubeconfig to reach kube-apiserver with; without it, the service account of the pod"}

struct Asker;
extern struct Asker *command_kube(Arena *arena, const char *kubeconfig);

#endif							/* COMMAND_H */
