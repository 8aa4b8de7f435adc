/*-------------------------------------------------------------------------
 *
 * registry_answer.c
 *	  Answers that the registry gives: discovery, OpenAPI, and requests that wait for it.
 *
 * Reference: k8s-conformance DISC-01 to DISC-18, OAPI-01 to OAPI-20, NEG-01.
 *
 *-------------------------------------------------------------------------
 */
#include "api/registry_answer.h"

#include <string.h>
#include <time.h>

#include "api/document_set.h"
#include "api/reply.h"
#include "engine/api/accept.h"

#define YEAR_SECONDS (365 * 24 * 3600)
#define YAML_TYPE "application/yaml"

/* ---------- waiting for a newer reading ---------- */

static void
waiting_end(Exchange *exchange)
{
	registry_stop_waiting(exchange->work);
	exchange_release(exchange);
}

static void
go_on(void *state)
{
	Exchange   *exchange = state;

	exchange_release(exchange);
	exchange_next(exchange);
}

void
registry_refresh(Exchange *exchange)
{
	RegistryWaiting *waiting = arena_alloc0(&exchange->arena, sizeof(RegistryWaiting));

	waiting->answered = go_on;
	waiting->state = exchange;
	exchange_hold(exchange, waiting, waiting_end, NULL);
	registry_ask(waiting);
}

/* ---------- negotiation ---------- */

/* A media type with the parameters by which the documents differ; an absent parameter is empty. */
typedef struct MediaClause
{
	JsonText	type;			/* without parameters */
	JsonText	g;
	JsonText	v;
	JsonText	as;
	double		quality;
} MediaClause;

static JsonText
unquoted(JsonText text)
{
	text = accept_trim(text);
	if (text.len >= 2 && text.bytes[0] == '"' && text.bytes[text.len - 1] == '"')
		return (JsonText) {text.bytes + 1, text.len - 2};
	return text;
}

/* Reads the next clause of an Accept header, or a single media type; false at the end. */
static bool
take_media_clause(JsonText *rest, MediaClause *media)
{
	AcceptClause clause;
	JsonText	name;
	JsonText	value;

	if (!accept_clause(rest, &clause))
		return false;
	*media = (MediaClause) {.type = clause.range, .quality = clause.quality};
	while (accept_parameter(&clause.parameters, &name, &value))
	{
		if (json_text_is(name, "g"))
			media->g = unquoted(value);
		else if (json_text_is(name, "v"))
			media->v = unquoted(value);
		else if (json_text_is(name, "as"))
			media->as = unquoted(value);
	}
	return true;
}

/*
 * Media types are compared without regard to case; the two spellings of the OpenAPI protobuf types (@ and .) are the
 * same.
 */
static bool
same_type(JsonText a, JsonText b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
	{
		char		x = a.bytes[i] == '@' ? '.' : a.bytes[i];
		char		y = b.bytes[i] == '@' ? '.' : b.bytes[i];

		if (x >= 'A' && x <= 'Z')
			x = (char) (x + 32);
		if (y >= 'A' && y <= 'Z')
			y = (char) (y + 32);
		if (x != y)
			return false;
	}
	return true;
}

/* Whether a document fits a clause; sets *yaml when the clause asks for YAML. */
static bool
clause_accepts(const MediaClause *clause, const RegistryDocument *document, bool is_default, bool *yaml)
{
	JsonText	content_type = {document->content_type, strlen(document->content_type)};
	MediaClause offered = {.quality = 0};

	*yaml = false;
	if (!take_media_clause(&content_type, &offered))
		return false;
	if (json_text_is(clause->type, "*/*") || json_text_is(clause->type, "application/*"))
		return is_default && clause->as.len == 0;
	if (!same_type(clause->g, offered.g) || !same_type(clause->v, offered.v) || !same_type(clause->as, offered.as))
		return false;
	*yaml = document->discovery && same_type(clause->type, (JsonText) {YAML_TYPE, strlen(YAML_TYPE)});
	return *yaml || same_type(clause->type, offered.type);
}

/* Returns the document of a path that fits an Accept header best; *yaml: to be sent as YAML.  NULL when none fits. */
static RegistryDocument *
fitting_document(RegistryDocument *documents, size_t count, const char *accept, bool *yaml)
{
	JsonText	rest = {accept, accept != NULL ? strlen(accept) : 0};
	MediaClause clause;
	RegistryDocument *best = NULL;
	double		best_quality = 0;
	size_t		clauses = 0;

	*yaml = false;
	if (accept_trim(rest).len == 0)
		return documents;
	for (; clauses < ACCEPT_CLAUSES_MAX && take_media_clause(&rest, &clause); clauses++)
	{
		/* Among equal qualities the first clause wins. */
		for (size_t i = 0; i < count && clause.quality > best_quality; i++)
		{
			bool		as_yaml;

			if (!clause_accepts(&clause, &documents[i], i == 0, &as_yaml))
				continue;
			best = &documents[i];
			*yaml = as_yaml;
			best_quality = clause.quality;
		}
	}
	return best;
}

/* Whether the value of If-None-Match, a list of entity tags or *, matches the tag. */
static bool
etag_matches(const char *header, const char *etag)
{
	JsonText	rest = {header, header != NULL ? strlen(header) : 0};
	JsonText	wanted = unquoted((JsonText) {etag, strlen(etag)});

	while (rest.bytes != NULL)
	{
		JsonText	tag = unquoted(accept_cut(rest, ',', &rest));

		if (tag.len > 2 && memcmp(tag.bytes, "W/", 2) == 0)
			tag = unquoted((JsonText) {tag.bytes + 2, tag.len - 2});
		if (json_text_is(tag, "*") || json_text_compare(tag, wanted) == 0)
			return true;
	}
	return false;
}

/* ---------- answers ---------- */

void
registry_answer_unknown(Exchange *exchange)
{
	StatusDetails details = {.retry_after_seconds = 5};

	reply_status(exchange, 503, "ServiceUnavailable",
				 "the request has been made before all known HTTP paths have been installed, please try again",
				 &details);
}

/* Whether the query has a hash, from an entry of the index, that the document still has (OAPI-02). */
static bool
hash_matches(const Exchange *exchange, const RegistryDocument *document)
{
	const JsonText *hash = route_parameter(exchange->route, "hash");

	return hash != NULL && hash->len > 0 && strncmp(document->path, "/openapi/v3/", 12) == 0 &&
		json_text_compare(*hash, unquoted((JsonText) {document->etag, strlen(document->etag)})) == 0;
}

/* Returns the body in the requested form, which is made once. */
static JsonText
document_form(Documents *documents, RegistryDocument *document, DocumentForm form, bool gzip)
{
	Arena	   *arena = &documents->arena;
	JsonText   *plain = &document->forms[form];
	JsonText   *compressed = &document->compressed[form];

	if (plain->bytes == NULL && form == FORM_YAML)
		*plain = encode_yaml(arena, document->forms[FORM_COMPACT]);
	else if (plain->bytes == NULL)
		*plain = reply_indented(arena, document->forms[FORM_COMPACT]);
	if (gzip && compressed->bytes == NULL)
		*compressed = encode_gzip(arena, *plain);
	return gzip ? *compressed : *plain;
}

static void
send_document(Exchange *exchange, Documents *documents, RegistryDocument *document, bool yaml)
{
	HttpHeader	headers[7] = {{"content-type", document->content_type}, {"vary", "Accept"}};
	size_t		count = 2;
	DocumentForm form;
	bool		gzip = document->forms[FORM_COMPACT].len >= GZIP_FROM &&
	encoding_accepts_gzip(http_header(exchange->http, "accept-encoding"));
	JsonText	body;

	/* The YAML type with the parameters of the JSON type. */
	if (yaml)
		headers[0].value = arena_printf(&exchange->arena, YAML_TYPE "%s",
										document->content_type + strcspn(document->content_type, ";"));

	if (document->etag[0] != '\0')
		headers[count++] = (HttpHeader) {"etag", document->etag};
	if (hash_matches(exchange, document))
	{
		time_t		then = time(NULL) + YEAR_SECONDS;
		struct tm	tm;
		char	   *expires = arena_alloc(&exchange->arena, 64);

		strftime(expires, 64, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &tm));
		headers[count++] = (HttpHeader) {"cache-control", "public, immutable"};
		headers[count++] = (HttpHeader) {"expires", expires};
	}
	else if (strstr(document->content_type, "as=APIGroupDiscoveryList") != NULL)
		headers[count++] = (HttpHeader) {"cache-control", "public"};

	loop_timer_stop(&exchange->deadline);
	if (document->etag[0] != '\0' && etag_matches(http_header(exchange->http, "if-none-match"), document->etag))
	{
		exchange->code = 304;
		http_reply(exchange->http, 304, headers + 1, count - 1, "", 0);
		return;
	}
	if (gzip)
	{
		headers[1].value = "Accept, Accept-Encoding";
		headers[count++] = (HttpHeader) {"content-encoding", "gzip"};
	}
	exchange->code = 200;
	form = yaml ? FORM_YAML : document->discovery && reply_is_pretty(exchange, 200) ? FORM_INDENTED : FORM_COMPACT;
	body = document_form(documents, document, form, gzip);
	documents->references++;
	http_reply_borrowed(exchange->http, 200, headers, count, body.bytes, body.len, documents_release, documents);
}

void
registry_answer(Exchange *exchange)
{
	Documents  *documents = registry_documents();
	RegistryDocument *found;
	RegistryDocument *document;
	size_t		count;
	bool		yaml;

	if (documents == NULL)
	{
		registry_answer_unknown(exchange);
		return;
	}
	found = documents_find(documents, exchange->route->path, &count);
	if (found == NULL)
	{
		reply_plain(exchange, 404, "404 page not found\n", 0);
		return;
	}
	if (strcmp(exchange->route->method, "GET") != 0 && strcmp(exchange->route->method, "HEAD") != 0)
	{
		reply_method_not_allowed(exchange, NULL);
		return;
	}
	document = fitting_document(found, count, http_header(exchange->http, "accept"), &yaml);
	if (document == NULL)
	{
		StrBuf		message;

		strbuf_init(&message, &exchange->arena);
		strbuf_puts(&message, "only the following media types are accepted: ");
		for (size_t i = 0; i < count; i++)
			strbuf_printf(&message, "%s%s", i > 0 ? ", " : "", found[i].content_type);
		strbuf_puts(&message, found->discovery ? ", " YAML_TYPE : "");
		reply_status(exchange, 406, "NotAcceptable", message.bytes, NULL);
		return;
	}
	send_document(exchange, documents, document, yaml);
}
