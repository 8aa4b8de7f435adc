/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Who asks, and whether that is allowed.
 *
 * Nothing is allowed that is not listed here: system:masters everything,
 * everyone the always-allow paths, whoever is authenticated the discovery
 * documents, and the rest by --authorization-mode.
 *
 *-------------------------------------------------------------------------
 */
#include "identity.h"

#include <ctype.h>
#include <string.h>

#include "../extension/selector.h"
#include "../extension/status.h"
#include "config.h"

#define GROUP_MASTERS "system:masters"
#define GROUP_AUTHENTICATED "system:authenticated"
#define GROUP_UNAUTHENTICATED "system:unauthenticated"

void
identity_authenticate(HttpRequest *request, Arena *arena, IdentityDone done, void *state)
{
	const HttpPeer *peer = http_peer(request);
	User	   *user = arena_alloc0(arena, sizeof(User));

	/* The front proxy's certificate speaks for others, never for itself. */
	if (peer != NULL && peer->verified && !peer->front_proxy && peer->common_name != NULL && peer->common_name[0] != '\0')
	{
		user->name = peer->common_name;
		user->groups = arena_alloc(arena, (peer->organization_count + 1) * sizeof(char *));
		for (size_t i = 0; i < peer->organization_count; i++)
			user->groups[user->group_count++] = peer->organizations[i];
		user->groups[user->group_count++] = GROUP_AUTHENTICATED;
	}
	else
	{
		user->name = "system:anonymous";
		user->groups = arena_alloc(arena, sizeof(char *));
		user->groups[user->group_count++] = GROUP_UNAUTHENTICATED;
	}
	done(state, user);
}

static bool
user_has_group(const User *user, const char *group)
{
	for (size_t i = 0; i < user->group_count; i++)
	{
		if (strcmp(user->groups[i], group) == 0)
			return true;
	}
	return false;
}

/* A comma-separated list of paths; one that ends in * is a prefix. */
static bool
path_is_listed(const char *list, const char *path)
{
	while (list != NULL && *list != '\0')
	{
		size_t		len = strcspn(list, ",");

		if (len > 0 && list[len - 1] == '*' ? strncmp(list, path, len - 1) == 0 :
			len > 0 && strlen(path) == len && memcmp(list, path, len) == 0)
			return true;
		list += len + (list[len] == ',');
	}
	return false;
}

static bool
path_is_discovery(const char *path)
{
	return strcmp(path, "/api") == 0 || strcmp(path, "/apis") == 0 || strncmp(path, "/api/", 5) == 0 ||
		strncmp(path, "/apis/", 6) == 0 || strcmp(path, "/openapi") == 0 || strncmp(path, "/openapi/", 9) == 0 ||
		strcmp(path, "/version") == 0;
}

void
identity_authorize(Arena *arena, const User *user, const Route *route, AuthorizeDone done, void *state)
{
	bool		reading = strcmp(route->method, "GET") == 0 || strcmp(route->method, "HEAD") == 0;
	bool		allowed = config.authorization_mode == AUTHORIZATION_ALWAYS_ALLOW;

	if (user_has_group(user, GROUP_MASTERS))
		allowed = true;
	else if (!route->resource && path_is_listed(config.authorization_always_allow_paths, route->path))
		allowed = true;
	else if (!route->resource && reading && path_is_discovery(route->path) && user_has_group(user, GROUP_AUTHENTICATED))
		allowed = true;
	done(state, allowed ? DECISION_ALLOW : DECISION_DENY, NULL);
}

const char *
identity_object_name(Arena *arena, const Route *route)
{
	const JsonText *selector = route_parameter(route, "fieldSelector");
	FieldSelector *fields;
	const char *error;

	if (route->name[0] != '\0' || selector == NULL ||
		(strcmp(route->verb, "list") != 0 && strcmp(route->verb, "watch") != 0 && strcmp(route->verb, "deletecollection") != 0))
		return route->name;
	fields = field_selector_parse(arena, selector->bytes, selector->len, &error);
	for (size_t i = 0; fields != NULL && i < fields->count; i++)
	{
		const FieldTerm *term = &fields->terms[i];

		if (!term->is_namespace && !term->negated)
			return arena_strndup(arena, term->value.bytes, term->value.len);
	}
	return "";
}

static void
append_quoted(StrBuf *buf, const char *text)
{
	quote_text(buf, text, strlen(text));
}

char *
identity_denial(Arena *arena, const User *user, const Route *route, const char *reason)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	if (route->resource)
	{
		const char *name = identity_object_name(arena, route);

		strbuf_puts(&buf, route->resource_name);
		if (route->group[0] != '\0')
			strbuf_printf(&buf, ".%s", route->group);
		if (name[0] != '\0')
		{
			strbuf_putc(&buf, ' ');
			append_quoted(&buf, name);
		}
		strbuf_puts(&buf, " is ");
	}
	strbuf_puts(&buf, "forbidden: User ");
	append_quoted(&buf, user->name);
	strbuf_puts(&buf, " cannot ");
	if (route->resource)
	{
		char	   *resource = route->subresource[0] == '\0' ? arena_strdup(arena, route->resource_name) :
			arena_printf(arena, "%s/%s", route->resource_name, route->subresource);

		strbuf_puts(&buf, route->verb);
		strbuf_puts(&buf, " resource ");
		append_quoted(&buf, resource);
		strbuf_puts(&buf, " in API group ");
		append_quoted(&buf, route->group);
		if (route->namespace_name[0] != '\0')
		{
			strbuf_puts(&buf, " in the namespace ");
			append_quoted(&buf, route->namespace_name);
		}
		else
			strbuf_puts(&buf, " at the cluster scope");
	}
	else
	{
		for (const char *c = route->method; *c != '\0'; c++)
			strbuf_putc(&buf, (char) tolower((unsigned char) *c));
		strbuf_puts(&buf, " path ");
		append_quoted(&buf, route->path);
	}
	if (reason != NULL && reason[0] != '\0')
		strbuf_printf(&buf, ": %s", reason);
	return buf.bytes;
}
