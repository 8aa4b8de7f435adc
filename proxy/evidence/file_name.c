/*-------------------------------------------------------------------------
 *
 * file_name.c
 *	  Names of files, as paths of requests have them.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/file_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/ascii.h"

bool
file_name_read(const char *path, bool with_cluster, FileName *name)
{
	const char *parts[4];
	size_t		lens[4];
	size_t		count = 0;
	char		index[16];

	for (const char *part = path; count < 4; part += lens[count - 1] + 1)
	{
		parts[count] = part;
		lens[count] = strcspn(part, "/");
		if (lens[count] == 0 || lens[count] >= NAME_SIZE)
			return false;
		count++;
		if (part[lens[count - 1]] == '\0')
			break;
		if (count == 4)
			return false;
	}
	if (count == 4 && (!with_cluster || lens[0] != ID_SIZE - 1))
		return false;
	if (count < 3 || lens[count - 2] >= sizeof(index))
		return false;
	if (count == 4)
		snprintf(name->cluster, sizeof(name->cluster), "%.*s", (int) lens[0], parts[0]);
	snprintf(name->scan, sizeof(name->scan), "%.*s", (int) lens[count - 3], parts[count - 3]);
	snprintf(index, sizeof(index), "%.*s", (int) lens[count - 2], parts[count - 2]);
	snprintf(name->report, sizeof(name->report), "%s", parts[count - 1]);
	name->index = file_name_index(index);
	if (name->index < 0)
		return false;
	return count == 3 ||
		(ascii_is_uuid(name->cluster, strlen(name->cluster)) && strpbrk(name->cluster, "ABCDEF") == NULL);
}

int
file_name_index(const char *text)
{
	size_t		len = strlen(text);

	if (len == 0 || len > 9 || strspn(text, "0123456789") != len || (len > 1 && text[0] == '0'))
		return -1;
	return (int) strtol(text, NULL, 10);
}
