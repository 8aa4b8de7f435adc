/*-------------------------------------------------------------------------
 *
 * file_name.h
 *	  Names of files, as paths of requests have them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EVIDENCE_FILE_NAME_H
#define EVIDENCE_FILE_NAME_H

#include <stdbool.h>

#define ID_SIZE 37
#define NAME_SIZE 256

/* The name of a file in a request. */
typedef struct FileName
{
	char		cluster[ID_SIZE];	/* "": the cluster of the credential */
	char		scan[NAME_SIZE];	/* "": the database chooses it */
	int			index;			/* -1: the database chooses it */
	char		report[NAME_SIZE];
	const char *encoding;		/* "" or bzip2, a literal */
} FileName;

/*
 * Splits a path SCAN/INDEX/REPORT; with_cluster: CLUSTER/ may precede it.  False when the path has another form; then
 * the contents of name are undefined.  The database checks the names.
 */
extern bool file_name_read(const char *path, bool with_cluster, FileName *name);

/* Returns a number of at most nine digits; -1 when the text is not such a number. */
extern int	file_name_index(const char *text);

#endif							/* EVIDENCE_FILE_NAME_H */
