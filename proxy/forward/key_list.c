/*-------------------------------------------------------------------------
 *
 * key_list.c
 *	  The keys of listed objects: namespace and name.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/key_list.h"

#include <stdlib.h>
#include <string.h>

void
key_list_init(KeyList *list)
{
	*list = (KeyList) {0};
	arena_init(&list->arena);
}

void
key_list_free(KeyList *list)
{
	arena_free(&list->arena);
	key_list_init(list);
}

void
key_list_add(KeyList *list, const char *namespace, const char *name)
{
	size_t		namespace_len = strlen(namespace) + 1;
	size_t		name_len = strlen(name) + 1;
	char	   *key = arena_alloc(&list->arena, namespace_len + name_len);

	memcpy(key, namespace, namespace_len);
	memcpy(key + namespace_len, name, name_len);
	if (list->count == list->capacity)
		list->keys = arena_grow(&list->arena, list->keys, list->count, sizeof(Key *), &list->capacity);
	list->keys[list->count++] = key;
}

static int
compare_keys(const void *a, const void *b)
{
	const Key  *left = *(const Key *const *) a;
	const Key  *right = *(const Key *const *) b;
	int			order = strcmp(left, right);

	return order != 0 ? order : strcmp(left + strlen(left) + 1, right + strlen(right) + 1);
}

void
key_list_sort(KeyList *list)
{
	size_t		count = 0;

	if (list->count == 0)
		return;
	qsort(list->keys, list->count, sizeof(Key *), compare_keys);
	for (size_t i = 1; i < list->count; i++)
		if (compare_keys(&list->keys[count], &list->keys[i]) != 0)
			list->keys[++count] = list->keys[i];
	list->count = count + 1;
}

const Key **
key_list_union(KeyList *list, const KeyList *other, size_t *count)
{
	const Key **all = arena_alloc(&list->arena, (list->count + other->count + 1) * sizeof(Key *));
	size_t		i = 0;
	size_t		j = 0;

	for (*count = 0; i < list->count || j < other->count; (*count)++)
	{
		int			order = i == list->count ? 1 : j == other->count ? -1
		: compare_keys(&list->keys[i], &other->keys[j]);

		all[*count] = order <= 0 ? list->keys[i] : other->keys[j];
		i += order <= 0;
		j += order >= 0;
	}
	return all;
}
