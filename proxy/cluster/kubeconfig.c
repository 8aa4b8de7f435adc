/*-------------------------------------------------------------------------
 *
 * kubeconfig.c
 *	  How to reach kube-apiserver: a kubeconfig file, or the service account of a pod.
 *
 * Reads only credentials that suit a server: certificates and tokens, in the
 * file or in other files.  exec and auth-provider plugins are refused.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/kubeconfig.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "engine/base/base64.h"
#include "codec/kube_json.h"

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
	const char *reason;

	if (file_read(arena, path, FILE_LIMIT, text, &reason))
		return true;
	*why = arena_printf(arena, "%s: %s", path, reason);
	return false;
}

/* Every pod with a service account has these variables and files (Kubernetes: Accessing the API from within a Pod). */
static bool
load_in_cluster(Arena *arena, KubeConfig *kubeconfig, const char **why)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");

	if (host == NULL || port == NULL)
	{
		*why = "this process does not run in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
		return false;
	}
	kubeconfig->server = arena_printf(arena,
									  strchr(host, ':') != NULL ? "https://[%s]:%s" : "https://%s:%s", host, port);
	kubeconfig->token_file = ACCOUNT "token";
	return read_file(arena, ACCOUNT "ca.crt", &kubeconfig->ca, why);
}

/* ---------- the file ---------- */

/* Scalars become strings: all values that are read from a kubeconfig are strings. */
static json_t *
convert(yaml_document_t * document, int index, int depth)
{
	yaml_node_t *node = yaml_document_get_node(document, index);
	json_t	   *result;

	if (node == NULL || depth > 32)
		return json_null();
	switch (node->type)
	{
		case YAML_SCALAR_NODE:
			return json_stringn((const char *) node->data.scalar.value, node->data.scalar.length);
		case YAML_SEQUENCE_NODE:
			result = json_array();
			for (yaml_node_item_t * item = node->data.sequence.items.start;
				 item < node->data.sequence.items.top; item++)
				json_array_append_new(result, convert(document, *item, depth + 1));
			return result;
		case YAML_MAPPING_NODE:
			result = json_object();
			for (yaml_node_pair_t * pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
			{
				json_auto_t *key = convert(document, pair->key, depth + 1);

				json_object_set_new(result, json_string_value(key), convert(document, pair->value, depth + 1));
			}
			return result;
		default:
			return json_null();
	}
}

static json_t *
parse_yaml(JsonText text)
{
	yaml_parser_t parser;
	yaml_document_t document;
	json_t	   *root = NULL;

	if (yaml_parser_initialize(&parser) == 0)
		return NULL;
	yaml_parser_set_input_string(&parser, (const unsigned char *) text.bytes, text.len);
	if (yaml_parser_load(&parser, &document) != 0)
	{
		if (yaml_document_get_root_node(&document) != NULL)
			root = convert(&document, 1, 0);
		yaml_document_delete(&document);
	}
	yaml_parser_delete(&parser);
	return root;
}

/* Returns the member key of the element with this name in a list: so a kubeconfig stores clusters, users, contexts. */
static json_t *
named(const json_t *root, const char *list_key, const char *name, const char *key)
{
	size_t		i;
	json_t	   *item;

	json_array_foreach(json_object_get(root, list_key), i, item)
		if (name != NULL && kube_json_is(json_object_get(item, "name"), name))
		return json_object_get(item, key);
	return NULL;
}

static const char *
copied(Arena *arena, const char *text)
{
	return text == NULL ? NULL : arena_strdup(arena, text);
}

/* Reads PEM: base64 in the file under key-data, or another file named under key. */
static bool
read_pem(Arena *arena, const json_t *object, const char *key, const char *directory, JsonText *pem, const char **why)
{
	const char *data = kube_json_text(object, arena_printf(arena, "%s-data", key), NULL);
	const char *path = kube_json_text(object, key, NULL);

	if (data != NULL && data[0] != '\0')
	{
		if (base64_decode_value(arena, data, pem))
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
	json_auto_t *root = NULL;
	const json_t *context;
	const json_t *cluster;
	const json_t *user;
	const char *server;
	JsonText	text;
	size_t		len;

	if (!read_file(arena, path, &text, why))
		return false;
	root = parse_yaml(text);
	context = named(root, "contexts", kube_json_text(root, "current-context", NULL), "context");
	if (context == NULL)
	{
		*why = arena_printf(arena, "%s: no current context", path);
		return false;
	}
	cluster = named(root, "clusters", kube_json_text(context, "cluster", NULL), "cluster");
	user = named(root, "users", kube_json_text(context, "user", NULL), "user");
	server = kube_json_text(cluster, "server", NULL);
	if (server == NULL)
	{
		*why = arena_printf(arena, "%s: the cluster of the current context has no server", path);
		return false;
	}
	if (json_object_get(user, "exec") != NULL || json_object_get(user, "auth-provider") != NULL)
	{
		*why = arena_printf(arena, "%s: credentials of a plugin are not supported, only certificates and tokens", path);
		return false;
	}
	len = strlen(server);
	while (len > 0 && server[len - 1] == '/')
		len--;
	kubeconfig->server = arena_strndup(arena, server, len);
	kubeconfig->token = copied(arena, kube_json_text(user, "token", NULL));
	kubeconfig->token_file = copied(arena, kube_json_text(user, "tokenFile", NULL));
	return read_pem(arena, cluster, "certificate-authority", directory, &kubeconfig->ca, why) &&
		read_pem(arena, user, "client-certificate", directory, &kubeconfig->certificate, why) &&
		read_pem(arena, user, "client-key", directory, &kubeconfig->key, why);
}
