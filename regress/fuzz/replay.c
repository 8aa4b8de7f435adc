/*-------------------------------------------------------------------------
 *
 * replay.c
 *	  Runs a fuzz target over files instead of a fuzzer's input.
 *
 * Linked with one target, in place of libFuzzer's main(): "make check"
 * replays the corpora with any compiler, and a file that caused a crash
 * reproduces it.  Exits with status 1 if a file cannot be read; a target that
 * finds a fault aborts.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "fuzz.h"

/* The files of a corpus are small.  A larger file is a mistake. */
#define MAX_FILE_BYTES ((size_t) 16 * 1024 * 1024)

/*
 * The input has an allocation of its exact size, so that AddressSanitizer detects reads beyond the end.
 */
static int
replay_file(const char *path)
{
	FILE	   *file = fopen(path, "rb");
	uint8_t    *bytes;
	long		size;
	int			status = 1;

	if (file == NULL)
	{
		perror(path);
		return 1;
	}
	if (fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || (size_t) size > MAX_FILE_BYTES)
	{
		fprintf(stderr, "%s: no regular file of at most %zu bytes\n", path, MAX_FILE_BYTES);
		fclose(file);
		return 1;
	}
	rewind(file);

	bytes = malloc(size > 0 ? (size_t) size : 1);
	if (bytes != NULL && fread(bytes, 1, (size_t) size, file) == (size_t) size)
	{
		LLVMFuzzerTestOneInput(bytes, (size_t) size);
		status = 0;
	}
	else
	{
		fprintf(stderr, "%s: cannot be read\n", path);
	}
	free(bytes);
	fclose(file);
	return status;
}

int
main(int argc, char **argv)
{
	int			status = 0;

	for (int i = 1; i < argc; i++)
		status |= replay_file(argv[i]);
	printf("%d inputs replayed\n", argc - 1);
	return status;
}
