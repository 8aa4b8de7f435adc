/*-------------------------------------------------------------------------
 *
 * namespace_selector.c
 *	  Policy Reporter's selector of namespaces: which namespaces have some labels.
 *
 * The proxy follows the names of namespaces, not their labels, which are many
 * and change often.  Only boards of Policy Reporter UI that have a selector
 * ask for them.
 *
 *-------------------------------------------------------------------------
 */
#include "api/namespace_selector.h"

#include <string.h>

#include "api/reply.h"
#include "base/config.h"
#include "base/log.h"
#include "cluster/kubeapi.h"
#include "engine/api/metadata.h"

#define MOST_LABELS 50

typedef struct Selection
{
	NamespacesSelected selected;
	KubeCall   *call;			/* NULL: answered */
} Selection;

/* Letters, digits and what stands between them in keys and values of labels. */
static bool
is_plain(JsonText text)
{
	for (size_t i = 0; i < text.len; i++)
	{
		if (memchr("-_./", text.bytes[i], 4) == NULL && !(text.bytes[i] >= '0' && text.bytes[i] <= '9') &&
			!((text.bytes[i] | 0x20) >= 'a' && (text.bytes[i] | 0x20) <= 'z'))
			return false;
	}
	return true;
}

/* Appends the values between commas, without the blanks around them; false when one is no value. */
static bool
append_values(StrBuf *buf, JsonText list)
{
	while (true)
	{
		const char *comma = memchr(list.bytes, ',', list.len);
		size_t		taken = comma != NULL ? (size_t) (comma - list.bytes) : list.len;
		JsonText	value = {list.bytes, taken};

		while (value.len > 0 && value.bytes[0] == ' ')
			value.bytes++, value.len--;
		while (value.len > 0 && value.bytes[value.len - 1] == ' ')
			value.len--;
		if (!is_plain(value))
			return false;
		strbuf_append(buf, value.bytes, value.len);
		if (comma == NULL)
			return true;
		strbuf_putc(buf, ',');
		list.bytes += taken + 1;
		list.len -= taken + 1;
	}
}

/* Appends a term of a label selector of Kubernetes. */
static bool
append_term(StrBuf *buf, JsonText label, const JsonNode *value)
{
	JsonText	text;

	if (value->kind != JSON_KIND_STRING || label.len == 0 || !is_plain(label))
		return false;
	text = value->u.string;
	if (buf->len > 0)
		strbuf_putc(buf, ',');
	if (json_text_is(text, "!*"))
		strbuf_putc(buf, '!');
	strbuf_append(buf, label.bytes, label.len);
	if (json_text_is(text, "*") || json_text_is(text, "!*"))
		return true;
	if (memchr(text.bytes, ',', text.len) == NULL)
	{
		strbuf_putc(buf, '=');
		return append_values(buf, text);
	}
	strbuf_puts(buf, " in (");
	if (!append_values(buf, text))
		return false;
	strbuf_putc(buf, ')');
	return true;
}

/* The label selector of a body; NULL when the body has none. */
static const char *
read_selector(Arena *arena, const char *bytes, size_t len)
{
	JsonError	error;
	const JsonNode *body = json_parse(arena, bytes, len, NULL, NULL, &error);
	StrBuf		buf;

	if (body == NULL || body->kind != JSON_KIND_OBJECT || body->u.object.count > MOST_LABELS)
		return NULL;
	strbuf_init(&buf, arena);
	for (size_t i = 0; i < body->u.object.count; i++)
	{
		if (!append_term(&buf, body->u.object.members[i].key, body->u.object.members[i].value))
			return NULL;
	}
	return strbuf_finish(&buf);
}

static void
let_go(Exchange *exchange)
{
	Selection  *selection = exchange->work;

	if (selection->call != NULL)
		kubeapi_cancel(selection->call);
}

static void
answered(void *state, int status, const json_t *answer, const char *why)
{
	Exchange   *exchange = state;
	Selection  *selection = exchange->work;
	Arena	   *arena = &exchange->arena;
	const json_t *items = kube_json_at(answer, "items", NULL);
	JsonNode   *names = json_new_array(arena);

	selection->call = NULL;
	exchange_release(exchange);
	if (status == 400)
	{
		reply_status(exchange, 400, "BadRequest", "the body of the request is no selector of labels", NULL);
		return;
	}
	if (status != 200 || !kube_json_is_list(answer))
	{
		log_line(LOG_WARNING, "the namespaces of a selector are not known: %s",
				 why != NULL ? why : arena_printf(arena, "kube-apiserver answered with %d", status));
		reply_status(exchange, 503, "ServiceUnavailable", "the labels of namespaces are not known at present", NULL);
		return;
	}
	for (size_t i = 0; i < json_array_size(items); i++)
	{
		const char *name = kube_json_text(json_array_get(items, i), "metadata", "name", NULL);

		if (name != NULL && is_dns1123_label((JsonText) {name, strlen(name)}))
			json_append(arena, names, json_new_string(arena, arena_strdup(arena, name), strlen(name)));
	}
	selection->selected(exchange, names);
}

void
namespace_selector_ask(Exchange *exchange, NamespacesSelected selected)
{
	Selection  *selection = arena_alloc0(&exchange->arena, sizeof(Selection));
	size_t		len;
	const char *bytes = http_body(exchange->http, &len);
	const char *selector = read_selector(&exchange->arena, bytes, len);
	const char *path;

	if (selector == NULL)
	{
		reply_status(exchange, 400, "BadRequest", "the body of the request is no selector of labels", NULL);
		return;
	}
	if (!config_has_kubeapi(config.authentication_kubeconfig))
	{
		reply_status(exchange, 501, "NotImplemented", "this proxy does not know the labels of namespaces", NULL);
		return;
	}
	selection->selected = selected;
	exchange_hold(exchange, selection, let_go, NULL);
	path = arena_printf(&exchange->arena, "/api/v1/namespaces?labelSelector=%s",
						transfer_escape(&exchange->arena, selector));
	selection->call = kubeapi_get(kubeapi_open(config.authentication_kubeconfig), path, answered, exchange);
}
