/*-------------------------------------------------------------------------
 *
 * authentication_config.c
 *	  The CAs whose certificates are trusted, and the headers that name a user.
 *
 * After any change, the whole configuration is rebuilt from the files and the
 * last content of the ConfigMap.  It replaces the old one as a whole or not at
 * all.
 *
 *-------------------------------------------------------------------------
 */
#include "trust/authentication_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trust/ca_bundle.h"
#include "base/allocate.h"
#include "base/config.h"
#include "base/log.h"
#include "base/watched_file.h"

static AuthenticationConfig *in_force;
static json_t *published;		/* the ConfigMap's data; NULL: unknown */
static WatchedFile front_proxy_file;
static WatchedFile clients_file;
static WatchedFile senders_file;
static bool poll_failed;

const AuthenticationConfig *
authentication_config(void)
{
	return in_force;
}

/* --- One configuration --- */

static void
configuration_free(AuthenticationConfig *configuration)
{
	if (configuration == NULL)
		return;
	X509_STORE_free(configuration->front_proxy);
	X509_STORE_free(configuration->clients);
	X509_STORE_free(configuration->senders);
	sk_X509_NAME_pop_free(configuration->ca_names, X509_NAME_free);
	arena_free(&configuration->arena);
	free(configuration);
}

static bool
load_names(Arena *arena, NameList *list, const json_t *data, const char *key, char *why, size_t why_size)
{
	if (request_header_list(arena, kube_json_text(data, key, NULL), list))
		return true;
	snprintf(why, why_size, "%s: not a list of names", key);
	return false;
}

/* Loads a bundle of the ConfigMap; an absent or empty one leaves *store NULL. */
static bool
load_published_bundle(AuthenticationConfig *fresh, X509_STORE * *store, const json_t *data, const char *key, char *why,
					  size_t why_size)
{
	const char *pem = kube_json_text(data, key, NULL);

	if (pem == NULL || pem[0] == '\0')
		return true;
	return ca_bundle_load(store, fresh->ca_names, (JsonText) {pem, strlen(pem)}, key, why, why_size);
}

static bool
load_front_proxy(AuthenticationConfig *fresh, const json_t *data, char *why, size_t why_size)
{
	Arena	   *arena = &fresh->arena;
	const char *path = config.requestheader_client_ca_file;
	RequestHeaderNames *headers = &fresh->headers;
	JsonText	pem;

	if (path[0] == '\0')
		return load_published_bundle(fresh, &fresh->front_proxy, data, "requestheader-client-ca-file", why, why_size) &&
			load_names(arena, &fresh->allowed_names, data, "requestheader-allowed-names", why, why_size) &&
			load_names(arena, &headers->username, data, "requestheader-username-headers", why, why_size) &&
			load_names(arena, &headers->uid, data, "requestheader-uid-headers", why, why_size) &&
			load_names(arena, &headers->group, data, "requestheader-group-headers", why, why_size) &&
			load_names(arena, &headers->extra, data, "requestheader-extra-headers-prefix", why, why_size);
	if (!ca_bundle_read(arena, path, &pem, why, why_size) ||
		!ca_bundle_load(&fresh->front_proxy, fresh->ca_names, pem, path, why, why_size))
		return false;
	/* config.c has checked that these are lists. */
	return name_list_split(arena, config.requestheader_allowed_names, &fresh->allowed_names) &&
		name_list_split(arena, config.requestheader_username_headers, &headers->username) &&
		name_list_split(arena, config.requestheader_uid_headers, &headers->uid) &&
		name_list_split(arena, config.requestheader_group_headers, &headers->group) &&
		name_list_split(arena, config.requestheader_extra_headers_prefix, &headers->extra);
}

static bool
load_clients(AuthenticationConfig *fresh, const json_t *data, char *why, size_t why_size)
{
	const char *path = config.client_ca_file;
	JsonText	pem;

	if (path[0] == '\0')
		return load_published_bundle(fresh, &fresh->clients, data, "client-ca-file", why, why_size);
	return ca_bundle_read(&fresh->arena, path, &pem, why, why_size) &&
		ca_bundle_load(&fresh->clients, fresh->ca_names, pem, path, why, why_size);
}

static bool
load_senders(AuthenticationConfig *fresh, char *why, size_t why_size)
{
	const char *path = config.forward_client_ca_file;
	JsonText	pem;

	return path[0] == '\0' || (ca_bundle_read(&fresh->arena, path, &pem, why, why_size) &&
							   ca_bundle_load(&fresh->senders, fresh->ca_names, pem, path, why, why_size));
}

/* Builds a configuration from the files and the ConfigMap and puts it in force; on failure nothing changes. */
static bool
renew(const json_t *data, char *why, size_t why_size)
{
	AuthenticationConfig *fresh = allocate(sizeof(*fresh));

	arena_init(&fresh->arena);
	fresh->ca_names = sk_X509_NAME_new_null();
	fresh->generation = in_force != NULL ? in_force->generation + 1 : 1;
	if (fresh->ca_names == NULL || !load_front_proxy(fresh, data, why, why_size) ||
		!load_clients(fresh, data, why, why_size) || !load_senders(fresh, why, why_size))
	{
		configuration_free(fresh);
		return false;
	}
	configuration_free(in_force);
	in_force = fresh;
	return true;
}

/* --- Sources of the configuration --- */

static bool
files_changed(void)
{
	bool		front_proxy = watched_file_changed(&front_proxy_file, config.requestheader_client_ca_file);
	bool		clients = watched_file_changed(&clients_file, config.client_ca_file);

	return watched_file_changed(&senders_file, config.forward_client_ca_file) || front_proxy || clients;
}

bool
authentication_config_start(char *why, size_t why_size)
{
	files_changed();
	return renew(NULL, why, why_size);
}

void
authentication_config_poll(void)
{
	char		why[512];
	bool		changed = files_changed();

	if (!changed && !poll_failed)
		return;
	poll_failed = !renew(published, why, sizeof(why));
	if (!poll_failed)
		log_line(LOG_INFO, "the CA bundles were read again");
	else if (changed)
		log_line(LOG_ERROR, "the CA bundles changed but cannot be used, the old ones stay in force: %s", why);
}

bool
authentication_config_incomplete(void)
{
	return config.requestheader_client_ca_file[0] == '\0' || config.client_ca_file[0] == '\0';
}

bool
authentication_config_publish(const json_t *config_map, char *why, size_t why_size)
{
	json_t	   *data = json_object_get(config_map, "data");
	json_auto_t *told = data != NULL ? json_incref(data) : json_object();

	if (published != NULL && json_equal(published, told))
		return true;
	if (!renew(told, why, why_size))
		return false;
	json_decref(published);
	published = json_incref(told);
	return true;
}
