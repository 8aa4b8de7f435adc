/*-------------------------------------------------------------------------
 *
 * file_name_fuzz.c
 *	  Fuzz target: names of files of evidence.
 *
 * The first byte says whether the path may name a cluster.  The parts of an
 * accepted path, joined, are the path.
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include <stdio.h>

/* As in route_fuzz.c. */
#include "evidence/file_name.c"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	bool		with_cluster = size > 0 && (bytes[0] & 1);
	FileName	name = {.encoding = ""};
	Arena		arena;
	const char *path;

	if (size == 0)
		return 0;
	arena_init(&arena);
	path = arena_strndup(&arena, (const char *) bytes + 1, size - 1);
	if (file_name_read(path, with_cluster, &name))
	{
		check(name.index >= 0 && name.index <= 999999999);
		check(strlen(name.cluster) == (name.cluster[0] == '\0' ? 0 : ID_SIZE - 1));
		check(with_cluster || name.cluster[0] == '\0');
		check(name.scan[0] != '\0' && strchr(name.scan, '/') == NULL);
		check(name.report[0] != '\0' && strchr(name.report, '/') == NULL);
		check(strcmp(path, arena_printf(&arena, "%s%s%s/%d/%s", name.cluster, name.cluster[0] == '\0' ? "" : "/",
										name.scan, name.index, name.report)) == 0);
	}
	arena_free(&arena);
	return 0;
}
