/*-------------------------------------------------------------------------
 *
 * kubeconfig.c
 *	  How to reach kube-apiserver: a kubeconfig file, or the service account of a pod.
 *
 * Reads only what a server needs: certificates and tokens, in the file or in
 * other files.  exec and auth-provider plugins are refused.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/kubeconfig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "codec/base64.h"

#define FILE_LIMIT (1024 * 1024)
#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

static bool load_in_cluster(Arena *arena, KubeConfig *kubeconfig, const char **why);
static bool load_file(Arena *arena, const char *path, KubeConfig *kubeconfig, const char **why);

bool
kubeconfig_load(Arena *arena, const char *path, KubeConfig *kubeconfig, const char **why)
{
	memset(kubeconfig, 0, sizeof(*kubeconfig));
	if (path == NULL || path[0] == '\0')
		return load_in_cluster(arena, kubeconfig, why);
	return load_file(arena, path, kubeconfig, why);
}

static bool
read_file(Arena *arena, const char *path, JsonText *text, const char **why)
{
	FILE	   *file = fopen(path, "r");
	char	   *bytes;

	if (file == NULL)
	{
		*why = arena_printf(arena, "%s: %s", path, strerror(errno));
		return false;
	}
	bytes = arena_alloc(arena, FILE_LIMIT);
	text->bytes = bytes;
	text->len = fread(bytes, 1, FILE_LIMIT, file);
	fclose(file);
	if (text->len == FILE_LIMIT)
	{
		*why = arena_printf(arena, "%s: larger than %d bytes", path, FILE_LIMIT);
		return false;
	}
	return true;
}

/* Every pod with a service account has these variables and files (Kubernetes: Accessing the API from within a Pod). */
static bool
load_in_cluster(Arena *arena, KubeConfig *kubeconfig, const char **why)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (host == NULL || port == NULL)
	{
		*why = "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
		return false;
	}
	kubeconfig->server = arena_printf(arena,
									  strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host, port);
	kubeconfig->token_file = ACCOUNT "token";
	return read_file(arena, ACCOUNT "ca.crt", &kubeconfig->ca, why);
}

/* ---------- the file ---------- */

/* Scalars become strings: all values that are read from a kubeconfig are strings. */
static JsonNode *
convert(Arena *arena, yaml_document_t * document, int index, int depth)
{
	yaml_node_t *node = yaml_document_get_node(document, index);
	JsonNode   *result;

	if (node == NULL || depth > 32)
		return json_new_null(arena);
	switch (node->type)
	{
		case YAML_SCALAR_NODE:
			return json_new_string(arena, arena_strndup(arena, (const char *) node->data.scalar.value,
														node->data.scalar.length),
								   node->data.scalar.length);
		case YAML_SEQUENCE_NODE:
			result = json_new_array(arena);
			for (yaml_node_item_t * item = node->data.sequence.items.start;
				 item < node->data.sequence.items.top; item++)
				json_append(arena, result, convert(arena, document, *item, depth + 1));
			return result;
		case YAML_MAPPING_NODE:
			result = json_new_object(arena);
			for (yaml_node_pair_t * pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
			{
				JsonNode   *key = convert(arena, document, pair->key, depth + 1);

				if (key->kind == JSON_KIND_STRING)
					json_set_text(arena, result, key->u.string, convert(arena, document, pair->value, depth + 1));
			}
			return result;
		default:
			return json_new_null(arena);
	}
}

static JsonNode *
parse_yaml(Arena *arena, JsonText text)
{
	yaml_parser_t parser;
	yaml_document_t document;
	JsonNode   *root = NULL;

	if (yaml_parser_initialize(&parser) == 0)
		return NULL;
	yaml_parser_set_input_string(&parser, (const unsigned char *) text.bytes, text.len);
	if (yaml_parser_load(&parser, &document) != 0)
	{
		if (yaml_document_get_root_node(&document) != NULL)
			root = convert(arena, &document, 1, 0);
		yaml_document_delete(&document);
	}
	yaml_parser_delete(&parser);
	return root;
}

/* Returns the value under key of the list element with this name: the way in which kubeconfigs name things. */
static JsonNode *
named(const JsonNode *root, const char *list_key, const char *name, const char *key)
{
	const JsonNode *list = json_get(root, list_key);

	for (size_t i = 0; list != NULL && list->kind == JSON_KIND_ARRAY && i < list->u.array.count; i++)
	{
		if (json_string_is(json_get(list->u.array.items[i], "name"), name))
			return json_get(list->u.array.items[i], key);
	}
	return NULL;
}

/* Reads PEM: base64 in the file under key-data, or another file named under key. */
static bool
read_pem(Arena *arena, const JsonNode *object, const char *key, const char *directory, JsonText *pem, const char **why)
{
	const char *data = json_get_cstring(arena, object, arena_printf(arena, "%s-data", key));
	const char *path = json_get_cstring(arena, object, key);

	if (data != NULL && data[0] != '\0')
	{
		if (base64_decode(arena, data, pem))
			return true;
		*why = arena_printf(arena, "%s-data is not base64", key);
		return false;
	}
	if (path == NULL || path[0] == '\0')
		return true;
	return read_file(arena, path[0] == '/' ? path : arena_printf(arena, "%s%s", directory, path), pem, why);
}

static bool
load_file(Arena *arena, const char *path, KubeConfig *kubeconfig, const char **why)
{
	const char *slash = strrchr(path, '/');
	const char *directory = slash == NULL ? "" : arena_strndup(arena, path, (size_t) (slash - path) + 1);
	const char *context_name;
	const JsonNode *root;
	const JsonNode *context;
	const JsonNode *cluster;
	const JsonNode *user;
	const char *server;
	JsonText	text;
	size_t		len;

	if (!read_file(arena, path, &text, why))
		return false;
	root = parse_yaml(arena, text);
	context_name = json_get_cstring(arena, root, "current-context");
	context = context_name == NULL ? NULL : named(root, "contexts", context_name, "context");
	if (context == NULL)
	{
		*why = arena_printf(arena, "%s: no current context", path);
		return false;
	}
	cluster = named(root, "clusters", json_get_cstring(arena, context, "cluster"), "cluster");
	user = named(root, "users", json_get_cstring(arena, context, "user"), "user");
	server = json_get_cstring(arena, cluster, "server");
	if (server == NULL)
	{
		*why = arena_printf(arena, "%s: the cluster of the current context has no server", path);
		return false;
	}
	if (json_get(user, "exec") != NULL || json_get(user, "auth-provider") != NULL)
	{
		*why = arena_printf(arena, "%s: credentials of a plugin are not supported, only certificates and tokens", path);
		return false;
	}
	len = strlen(server);
	while (len > 0 && server[len - 1] == '/')
		len--;
	kubeconfig->server = arena_strndup(arena, server, len);
	kubeconfig->token = json_get_cstring(arena, user, "token");
	kubeconfig->token_file = json_get_cstring(arena, user, "tokenFile");
	return read_pem(arena, cluster, "certificate-authority", directory, &kubeconfig->ca, why) &&
		read_pem(arena, user, "client-certificate", directory, &kubeconfig->certificate, why) &&
		read_pem(arena, user, "client-key", directory, &kubeconfig->key, why);
}
