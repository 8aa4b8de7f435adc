/*-------------------------------------------------------------------------
 *
 * command.h
 *	  What the commands of kube-reports-proxy have in common.
 *
 * A command is one run in the foreground.  It prints its steps on standard
 * error, line by line, and its result (a table, a document) on standard
 * output.
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
	/* argv[0] is the name, argv[argc] is NULL; returns the exit code. */
	int			(*run) (int argc, char **argv);
} Command;

/*
 * Runs the command argv[1] of a table, whose last entry has no name.  program is the text before the command's name.
 * Without a name it prints the help and returns code 2; with --help it prints the help; for an unknown name it returns
 * code 2.
 */
extern int	command_run(const char *program, const Command *table, int argc, char **argv);

/* Prints the names and summaries of a table. */
extern void command_print_table(const Command *table);

/* ---------- output ---------- */

/* Prints a line on standard error. */
extern void command_tell(const char *format,...) __attribute__((format(printf, 1, 2)));

/* Prints an error on standard error. */
extern void command_error(const char *format,...) __attribute__((format(printf, 1, 2)));

/* ---------- common parts ---------- */

/*
 * The flag for the kubeconfig.  command_kube() returns its kube-apiserver; on failure it prints an error and returns
 * NULL.
 */
#define COMMAND_KUBECONFIG_FLAG(target) \
	{"kubeconfig", FLAG_FILE, target, "", 0, 0, \
	"kubeconfig for kube-apiserver; by default the service account of the pod"}

/* The flag for the cluster in the database. */
#define COMMAND_CLUSTER_ID_FLAG(target) \
	{"cluster-id", FLAG_UUID, target, "", 0, 0, \
	"uid of the cluster's namespace kube-system; by default read from kube-apiserver"}

struct Asker;
extern struct Asker *command_kube(Arena *arena, const char *kubeconfig);

#endif							/* COMMAND_H */
