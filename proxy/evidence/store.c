/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Chooses the store, and checks that a key is safe in every kind of store.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/store.h"

#include <string.h>

#include "evidence/options.h"

const Store *
store_open(char *why)
{
	if (strncmp(options.store, "file://", 7) == 0)
		return directory_store_open(options.store + 7, why);
	if (strncmp(options.store, "s3://", 5) == 0)
		return s3_store_open(options.store + 5, why);
	return http_store_open(options.store, why);
}

static bool
is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/*
 * The database makes keys by the same rules.  They are checked again, because a key becomes a path of the file system.
 */
bool
store_key_valid(const char *key)
{
	size_t		len = strlen(key);

	if (len == 0 || len >= KEY_SIZE)
		return false;
	for (size_t i = 0; i < len; i++)
	{
		bool		first = i == 0 || key[i - 1] == '/';

		if (is_alphanumeric(key[i]) || (!first && (key[i] == '/' || strchr("._-", key[i]) != NULL)))
			continue;
		return false;
	}
	return key[len - 1] != '/';
}
