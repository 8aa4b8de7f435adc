/*-------------------------------------------------------------------------
 *
 * kubeapi.c
 *	  What the proxy asks of kube-apiserver.
 *
 * libcurl does the talking: it is the best-kept HTTP client there is in C.
 *
 *-------------------------------------------------------------------------
 */
#include "kubeapi.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_SECONDS 10L
#define ANSWER_LIMIT (1024 * 1024)

static size_t
take_answer(char *bytes, size_t size, size_t count, void *state)
{
	StrBuf	   *answer = state;

	/* Taking less than was given ends the transfer. */
	if (answer->len + size * count > ANSWER_LIMIT)
		return 0;
	strbuf_append(answer, bytes, size * count);
	return size * count;
}

static void
set_blob(CURL *curl, CURLoption option, JsonText pem)
{
	struct curl_blob blob = {.data = (void *) pem.bytes,.len = pem.len,.flags = CURL_BLOB_NOCOPY};

	if (pem.len > 0)
		curl_easy_setopt(curl, option, &blob);
}

/* The Authorization header, or NULL when the kubeconfig has no token. */
static const char *
bearer(Arena *arena, const KubeConfig *kubeconfig)
{
	char		token[16 * 1024];
	FILE	   *file;
	size_t		len;

	if (kubeconfig->token_file == NULL)
		return kubeconfig->token == NULL ? NULL : arena_printf(arena, "Authorization: Bearer %s", kubeconfig->token);
	file = fopen(kubeconfig->token_file, "r");
	if (file == NULL)
		return NULL;
	len = fread(token, 1, sizeof(token) - 1, file);
	fclose(file);
	token[len] = '\0';
	token[strcspn(token, "\r\n")] = '\0';
	return arena_printf(arena, "Authorization: Bearer %s", token);
}

/* GET of a path; the answer's body when its status is 200, else NULL with *why. */
static const StrBuf *
get(Arena *arena, const KubeConfig *kubeconfig, const char *path, const char **why)
{
	CURL	   *curl = curl_easy_init();
	struct curl_slist *headers = NULL;
	const char *authorization = bearer(arena, kubeconfig);
	StrBuf	   *answer = arena_alloc(arena, sizeof(StrBuf));
	char		reason[CURL_ERROR_SIZE] = "";
	long		status = 0;
	CURLcode	code = CURLE_FAILED_INIT;

	strbuf_init(answer, arena);
	if (curl != NULL)
	{
		headers = curl_slist_append(headers, "Accept: application/json");
		if (authorization != NULL)
			headers = curl_slist_append(headers, authorization);
		curl_easy_setopt(curl, CURLOPT_URL, arena_printf(arena, "%s%s", kubeconfig->server, path));
		curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_SECONDS);
		curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
		curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_answer);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
		set_blob(curl, CURLOPT_CAINFO_BLOB, kubeconfig->ca);
		set_blob(curl, CURLOPT_SSLCERT_BLOB, kubeconfig->certificate);
		set_blob(curl, CURLOPT_SSLKEY_BLOB, kubeconfig->key);
		code = curl_easy_perform(curl);
		curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
		curl_slist_free_all(headers);
		curl_easy_cleanup(curl);
	}
	if (code != CURLE_OK)
	{
		*why = arena_printf(arena, "%s: %s", kubeconfig->server, reason[0] != '\0' ? reason : curl_easy_strerror(code));
		return NULL;
	}
	if (status != 200)
	{
		*why = arena_printf(arena, "%s%s answered with status %ld", kubeconfig->server, path, status);
		return NULL;
	}
	return answer;
}

const char *
kubeapi_cluster_uid(Arena *arena, const KubeConfig *kubeconfig, const char **why)
{
	const StrBuf *answer;
	const char *uid;
	JsonError	error;

	answer = get(arena, kubeconfig, "/api/v1/namespaces/kube-system", why);
	if (answer == NULL)
		return NULL;
	uid = json_get_cstring(arena, json_get(json_parse(arena, answer->bytes, answer->len, NULL, NULL, &error), "metadata"), "uid");
	if (uid == NULL)
		*why = arena_printf(arena, "%s: the namespace kube-system has no uid", kubeconfig->server);
	return uid;
}
