/*-------------------------------------------------------------------------
 *
 * kube_version.c
 *	  Kubernetes' order of the versions of a group.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/base/kube_version.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/ascii.h"

typedef struct KubeVersion
{
	int			stability;		/* 2 stable, 1 beta, 0 alpha, -1 not a version of this form */
	int64_t		major;
	int64_t		minor;
} KubeVersion;

/* Reads a number without leading zeros that fits an int of Go; false if the name is not a version. */
static bool
read_number(const char **text, int64_t *number)
{
	const char *p = *text;

	if (*p < '1' || *p > '9')
		return false;
	for (*number = 0; ascii_is_digit(*p); p++)
	{
		int			digit = *p - '0';

		if (*number > (INT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	*text = p;
	return true;
}

static KubeVersion
read_version(const char *text)
{
	static const KubeVersion other = {-1, 0, 0};
	KubeVersion version = {2, 0, 0};

	if (*text++ != 'v' || !read_number(&text, &version.major))
		return other;
	if (*text == '\0')
		return version;
	if (strncmp(text, "beta", 4) == 0)
	{
		version.stability = 1;
		text += 4;
	}
	else if (strncmp(text, "alpha", 5) == 0)
	{
		version.stability = 0;
		text += 5;
	}
	else
		return other;
	if (!read_number(&text, &version.minor) || *text != '\0')
		return other;
	return version;
}

int
version_priority_compare(const char *a, const char *b)
{
	KubeVersion left = read_version(a);
	KubeVersion right = read_version(b);

	if (left.stability != right.stability)
		return right.stability - left.stability;
	if (left.stability < 0)
		return strcmp(a, b);
	if (left.major != right.major)
		return left.major < right.major ? 1 : -1;
	if (left.minor != right.minor)
		return left.minor < right.minor ? 1 : -1;
	return strcmp(a, b);
}
