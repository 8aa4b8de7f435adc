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

/* A file as a request names it. */
typedef struct FileName
{
	char		cluster[ID_SIZE];	/* "": that of the credential */
	char		scan[NAME_SIZE];	/* "": as the database chooses */
	int			index;			/* -1: as the database chooses */
	char		report[NAME_SIZE];
	const char *encoding;		/* "" or bzip2, a literal */
} FileName;

/*
 * Splits a path SCAN/INDEX/REPORT; with_cluster: CLUSTER/ may precede it.  False when the path has another form; name
 * is then of no use.  The database checks the names.
 */
extern bool file_name_read(const char *path, bool with_cluster, FileName *name);

/* Reads a number of at most nine digits; -1 when the text is none. */
extern int	file_name_index(const char *text);

#endif							/* EVIDENCE_FILE_NAME_H */
