/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Authenticates and authorizes requests.
 *
 * Three sources can name the user of a request: the headers of a front proxy,
 * the certificate of a client, a bearer token.  For some paths, the token may
 * be the password of HTTP Basic.  The first source that names a user counts.
 * If no source names a user but one was refused, the request is refused; if
 * there was no source at all, the request is anonymous.
 *
 * Only this is allowed: everything for system:masters, the always-allow paths
 * for everyone, and the rest by --authorization-mode.  The fixed modes also
 * let authenticated users read the discovery documents, as the RBAC of every
 * cluster does.
 *
 *-------------------------------------------------------------------------
 */
#include "identity/identity.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/api/status.h"
#include "engine/base/base64.h"
#include "trust/authentication_config.h"
#include "identity/authentication_lookup.h"
#include "trust/client_certificate.h"
#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "identity/token_review.h"

/* Shortest time between two log lines about refused credentials, in milliseconds. */
#define REFUSAL_LOG_INTERVAL 5000

void
identity_start(void)
{
	if (config_has_kubeapi(config.authentication_kubeconfig))
	{
		KubeApi    *api = kubeapi_open(config.authentication_kubeconfig);

		token_reviews_start(api);
		if (authentication_lookup_wanted())
			authentication_lookup_follow(api);
	}
	if (config.authorization_mode == AUTHORIZATION_WEBHOOK)
		access_reviews_start(kubeapi_open(config_authorization_kubeconfig()));
}

void
identity_cancel(IdentityQuestion *question)
{
	review_cancel(&question->waiter);
}

/* --- Authentication --- */

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

bool
identity_is_anonymous(const User *user)
{
	return strcmp(user->name, USER_ANONYMOUS) == 0 || user_has_group(user, GROUP_UNAUTHENTICATED);
}

bool
identity_is_master(const User *user)
{
	return user_has_group(user, GROUP_MASTERS);
}

static void
authenticated(IdentityQuestion *question, User *user)
{
	const char **groups;

	if (!identity_is_anonymous(user) && !user_has_group(user, GROUP_AUTHENTICATED))
	{
		groups = arena_alloc(question->arena, (user->group_count + 1) * sizeof(char *));
		if (user->group_count > 0)
			memcpy(groups, user->groups, user->group_count * sizeof(char *));
		groups[user->group_count++] = GROUP_AUTHENTICATED;
		user->groups = groups;
	}
	question->authenticated(question->state, AUTHENTICATED, user);
}

/* Notes that a credential is refused; another one may be accepted. */
static void
refuse(IdentityQuestion *question, const char *why)
{
	question->refusal = question->refusal == NULL ? why :
		arena_printf(question->arena, "%s, %s", question->refusal, why);
}

static void
log_refusal(const char *why)
{
	static uint64_t logged_at;
	uint64_t	now = loop_now();

	if (logged_at != 0 && now - logged_at < REFUSAL_LOG_INTERVAL)
		return;
	logged_at = now;
	log_line(LOG_WARNING, "unable to authenticate a request: %s", why);
}

/* No credential names a user. */
static void
unknown(IdentityQuestion *question)
{
	User	   *user;

	if (question->refusal != NULL || !config.anonymous_auth)
	{
		log_refusal(question->refusal != NULL ? question->refusal : "no credentials");
		question->authenticated(question->state, UNAUTHENTICATED, NULL);
		return;
	}
	user = arena_alloc0(question->arena, sizeof(User));
	user->name = USER_ANONYMOUS;
	user->groups = arena_alloc(question->arena, sizeof(char *));
	user->groups[0] = GROUP_UNAUTHENTICATED;
	user->group_count = 1;
	question->authenticated(question->state, AUTHENTICATED, user);
}

static void
token_reviewed(void *state, ReviewOutcome outcome, const ReviewAnswer *answer)
{
	IdentityQuestion *question = state;
	User	   *user;

	if (outcome == REVIEW_REFUSED)
	{
		question->authenticated(question->state, AUTHENTICATION_BUSY, NULL);
		return;
	}
	if (outcome == REVIEW_FAILED || !answer->positive)
	{
		refuse(question, outcome == REVIEW_FAILED ? "its token could not be reviewed" : "invalid bearer token");
		unknown(question);
		return;
	}
	user = arena_alloc(question->arena, sizeof(User));
	token_review_user(question->arena, answer, user);
	authenticated(question, user);
}

/* The password of an Authorization header of HTTP Basic; NULL when there is none. */
static const char *
basic_password(Arena *arena, const char *authorization)
{
	JsonText	credentials;
	const char *colon;

	authorization += strspn(authorization, " \t");
	if (strncasecmp(authorization, "basic ", 6) != 0 || !base64_decode_value(arena, authorization + 6, &credentials) ||
		credentials.len == 0)
		return NULL;
	colon = memchr(credentials.bytes, ':', credentials.len);
	if (colon == NULL || colon + 1 == credentials.bytes + credentials.len ||
		memchr(credentials.bytes, '\0', credentials.len) != NULL)
		return NULL;
	return arena_strndup(arena, colon + 1, (size_t) (credentials.bytes + credentials.len - colon - 1));
}

void
identity_authenticate(HttpRequest *request, Arena *arena, IdentityQuestion *question, IdentityDone done, void *state)
{
	ClientCertificate *certificate = http_peer(request);
	const char *authorization = http_header(request, "authorization");
	const char *token = NULL;
	const char *why = "";
	User	   *user = arena_alloc0(arena, sizeof(User));
	size_t		header_count;
	const HttpHeader *headers = http_headers(request, &header_count);
	bool		spaced = false;

	question->arena = arena;
	question->refusal = NULL;
	question->authenticated = done;
	question->state = state;
	switch (client_certificate_front_proxy(certificate, arena, &why))
	{
		case CERTIFICATE_TRUSTED:
			if (request_header_user(arena, &authentication_config()->headers, headers, header_count, user))
			{
				authenticated(question, user);
				return;
			}
			break;
		case CERTIFICATE_REFUSED:
			refuse(question, why);
			break;
		case CERTIFICATE_NO_OPINION:
			break;
	}
	switch (client_certificate_user(certificate, arena, user, &why))
	{
		case CERTIFICATE_TRUSTED:
			authenticated(question, user);
			return;
		case CERTIFICATE_REFUSED:
			refuse(question, why);
			break;
		case CERTIFICATE_NO_OPINION:
			break;
	}
	if (authorization != NULL && token_reviews_possible())
	{
		token = bearer_token(arena, authorization, &spaced);
		if (token == NULL && question->basic)
			token = basic_password(arena, authorization);
	}
	if (authorization != NULL && spaced)
		http_set_warning(request, "the provided Authorization header contains extra space before the bearer token, "
						 "and is ignored");
	if (token != NULL)
		token_review_ask(arena, token, &question->waiter, token_reviewed, question);
	else
		unknown(question);
}

bool
identity_impersonates(HttpRequest *request, AccessAttributes *attributes)
{
	static const char prefix[] = "impersonate-";
	const char *name = http_header(request, "impersonate-user");
	size_t		count;
	const HttpHeader *headers = http_headers(request, &count);
	size_t		found = 0;

	while (found < count && strncmp(headers[found].name, prefix, sizeof(prefix) - 1) != 0)
		found++;
	*attributes = (AccessAttributes) {
		.resource = true,
		.verb = "impersonate",
		.path = "",
		.group = "",
		.version = "v1",
		.resource_name = "users",
		.subresource = "",
		.namespace_name = "",
		.name = name != NULL ? name : "",
		.label_selector = "",
		.field_selector = "",
	};
	return found < count;
}

/* --- Authorization --- */

/*
 * Whether a path is in a comma-separated list.  The slash at the beginning of an entry is optional; an entry that ends
 * in * is a prefix.
 */
static bool
path_is_listed(const char *list, const char *path)
{
	path += *path == '/';
	while (*list != '\0')
	{
		size_t		len = strcspn(list, ",");
		size_t		slash = *list == '/';
		const char *entry = list + slash;
		size_t		entry_len = len - slash;

		if (entry_len > 0 && entry[entry_len - 1] == '*' ? strncmp(entry, path, entry_len - 1) == 0 :
			len > 0 && strlen(path) == entry_len && memcmp(entry, path, entry_len) == 0)
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

static void
access_reviewed(void *state, ReviewOutcome outcome, const ReviewAnswer *answer)
{
	IdentityQuestion *question = state;

	switch (outcome)
	{
		case REVIEW_ANSWERED:
			question->authorized(question->state, answer->positive ? DECISION_ALLOW : DECISION_DENY,
								 kube_json_text(answer->told, NULL));
			break;
		case REVIEW_FAILED:
			question->authorized(question->state, DECISION_ERROR, NULL);
			break;
		case REVIEW_REFUSED:
			question->authorized(question->state, DECISION_BUSY, NULL);
			break;
	}
}

void
identity_authorize(Arena *arena, const User *user, const AccessAttributes *attributes, IdentityQuestion *question,
				   AuthorizeDone done,
				   void *state)
{
	bool		reading = strcmp(attributes->verb, "get") == 0 || strcmp(attributes->verb, "head") == 0;
	bool		allowed = config.authorization_mode == AUTHORIZATION_ALWAYS_ALLOW;

	question->authorized = done;
	question->state = state;
	if (identity_is_master(user))
		allowed = true;
	else if (!attributes->resource && path_is_listed(config.authorization_always_allow_paths, attributes->path))
		allowed = true;
	else if (config.authorization_mode == AUTHORIZATION_WEBHOOK)
	{
		access_review_ask(arena, user, identity_is_anonymous(user), attributes, &question->waiter,
						  access_reviewed, question);
		return;
	}
	else if (!attributes->resource && reading && path_is_discovery(attributes->path) &&
			 user_has_group(user, GROUP_AUTHENTICATED))
		allowed = true;
	done(state, allowed ? DECISION_ALLOW : DECISION_DENY, NULL);
}

static void
append_quoted(StrBuf *buf, const char *text)
{
	quote_text(buf, text, strlen(text));
}

/* Appends a part of the request, escaped so that a client that shows the message does not take it for HTML. */
static void
append_harmless(StrBuf *buf, const char *text)
{
	for (; *text != '\0'; text++)
	{
		switch (*text)
		{
			case '&':
				strbuf_puts(buf, "&amp;");
				break;
			case '<':
				strbuf_puts(buf, "&lt;");
				break;
			case '>':
				strbuf_puts(buf, "&gt;");
				break;
			default:
				strbuf_putc(buf, *text);
		}
	}
}

char *
identity_denial(Arena *arena, const User *user, const AccessAttributes *attributes, const char *reason)
{
	StrBuf		buf;
	StrBuf		cannot;

	strbuf_init(&cannot, arena);
	strbuf_puts(&cannot, "User ");
	append_quoted(&cannot, user->name);
	strbuf_printf(&cannot, " cannot %s ", attributes->verb);
	if (attributes->resource)
	{
		const char *resource = attributes->subresource[0] == '\0' ? attributes->resource_name :
		arena_printf(arena, "%s/%s", attributes->resource_name, attributes->subresource);

		strbuf_puts(&cannot, "resource ");
		append_quoted(&cannot, resource);
		strbuf_puts(&cannot, " in API group ");
		append_quoted(&cannot, attributes->group);
		if (attributes->namespace_name[0] != '\0')
		{
			strbuf_puts(&cannot, " in the namespace ");
			append_quoted(&cannot, attributes->namespace_name);
		}
		else
			strbuf_puts(&cannot, " at the cluster scope");
	}
	else
	{
		strbuf_puts(&cannot, "path ");
		append_quoted(&cannot, attributes->path);
	}

	strbuf_init(&buf, arena);
	if (attributes->resource)
	{
		strbuf_puts(&buf, attributes->resource_name);
		if (attributes->group[0] != '\0')
			strbuf_printf(&buf, ".%s", attributes->group);
		if (attributes->name[0] != '\0')
		{
			strbuf_putc(&buf, ' ');
			append_quoted(&buf, attributes->name);
		}
		strbuf_puts(&buf, " is ");
	}
	strbuf_puts(&buf, "forbidden: ");
	append_harmless(&buf, cannot.bytes);
	if (reason != NULL && reason[0] != '\0')
		strbuf_printf(&buf, ": %s", reason);
	return buf.bytes;
}
