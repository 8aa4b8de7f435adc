/*-------------------------------------------------------------------------
 *
 * kubescape.c
 *	  Objects of Kubescape, whose own API server gives their contents only in some lists.
 *
 * Kubescape has an API server of its own behind kube-apiserver.  Its lists and
 * events have metadata with an empty spec, except lists that ask for the
 * resourceVersion fullSpec.  A list has no version from which a watch could
 * begin, and an event tells nothing about the events before it.  So these
 * objects are listed again and again.  Where CustomResourceDefinitions serve
 * the group, it is followed as any other.
 *
 *-------------------------------------------------------------------------
 */
#include "forward/kubescape.h"

#include <string.h>

#define GROUP ".spdx.softwarecomposition.kubescape.io/"

bool
kubescape_type(const char *type)
{
	return strstr(type, GROUP) != NULL;
}

bool
kubescape_list(Arena *arena, const JsonNode *metadata)
{
	const char *version = metadata == NULL ? NULL : json_get_cstring(arena, metadata, "resourceVersion");

	return version == NULL || version[0] == '\0' || strcmp(version, "0") == 0;
}

static const JsonNode *
member(const JsonNode *object, const char *name)
{
	return object != NULL && object->kind == JSON_KIND_OBJECT ? json_get(object, name) : NULL;
}

/*
 * A scan has controls.  An image without vulnerabilities has no matches, but names the tool that looked for them.  The
 * other kinds have no results: something must be in their spec.
 */
bool
kubescape_whole(const char *type, const JsonNode *object)
{
	const JsonNode *spec = member(object, "spec");

	if (strncmp(type, "workloadconfigurationscans.", strlen("workloadconfigurationscans.")) == 0)
	{
		const JsonNode *controls = member(spec, "controls");

		return controls != NULL && controls->kind == JSON_KIND_OBJECT;
	}
	if (strncmp(type, "vulnerabilitymanifests.", strlen("vulnerabilitymanifests.")) == 0)
	{
		const JsonNode *matches = member(member(spec, "payload"), "matches");
		const JsonNode *tool = member(member(member(spec, "metadata"), "tool"), "name");

		return (matches != NULL && matches->kind == JSON_KIND_ARRAY) ||
			(tool != NULL && tool->kind == JSON_KIND_STRING && tool->u.string.len > 0);
	}
	return spec != NULL && spec->kind == JSON_KIND_OBJECT && spec->u.object.count > 0;
}
