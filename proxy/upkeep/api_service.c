/*-------------------------------------------------------------------------
 *
 * api_service.c
 *	  Maintains the caBundle of the APIServices that lead to this server.
 *
 * kube-apiserver verifies the certificate of this server by the caBundle of an
 * APIService, so the caBundle must be updated after a change of the CA
 * (AUTHN-12).  With --apiservice-ca-file, which names the CAs, the upkeep
 * process does that: at the start, whenever the file or the certificate
 * changes, and every minute.
 *
 * A caBundle that verifies the certificate in use is never changed.  Nor is a
 * caBundle with a newer CA than the file: when two proxies change their
 * certificates one after the other, the slower proxy does not undo the change
 * of the other.
 *
 * An APIService whose Service belongs to another server is not changed either,
 * such as a server that this server will replace soon.  A Service belongs to
 * this server when its name is in the certificate in use.
 * commands/api_service_command.c takes APIServices over.
 *
 * Reference: k8s-conformance AUTHN-12.
 *
 *-------------------------------------------------------------------------
 */
#include "upkeep/api_service.h"

#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/base64.h"
#include "trust/ca_bundle.h"
#include "base/allocate.h"
#include "base/config.h"
#include "cluster/kubeapi.h"
#include "cluster/registration.h"
#include "base/log.h"
#include "base/loop.h"
#include "http/tls.h"
#include "base/watched_file.h"
#include "db/pg.h"

#define TICK_MS 1000
#define ROUND_MS 60000
#define READ_TIMEOUT_MS 10000

/* A version of a group that is or was served; lives as long as the process. */
typedef struct ApiService
{
	struct ApiService *next;
	KubeCall   *call;			/* its GET or PATCH in progress; NULL: none */
	char		name[];			/* version.group */
} ApiService;

/* Columns of api_registry(). */
enum
{
	COLUMN_GROUP = 1,
	COLUMN_VERSION
};

static KubeApi *kube_api;
static ApiService *services;
static LoopTimer timer;
static WatchedFile ca_file;
static SSL_CTX *seen_context;	/* only compared: the context whose certificate was checked last */
static uint64_t next_round;
static bool reading;			/* the registry is being read */

/* The CAs of the last round; store NULL: they are unusable. */
static struct
{
	Arena		arena;
	JsonText	pem;
	X509_STORE *store;
}			cas;

/* ---------- certificates ---------- */

/* Whether the certificate for new connections chains to one of these CAs, by the rules of Go's verification. */
static bool
is_verified_by(X509_STORE * store)
{
	X509_STORE_CTX *verification = X509_STORE_CTX_new();

	STACK_OF(X509) * chain = NULL;
	bool		good;

	SSL_CTX_get0_chain_certs(tls_context(), &chain);
	good = verification != NULL &&
		X509_STORE_CTX_init(verification, store, SSL_CTX_get0_certificate(tls_context()), chain) == 1;
	if (good)
	{
		X509_STORE_CTX_set_purpose(verification, X509_PURPOSE_SSL_SERVER);
		X509_STORE_CTX_set_flags(verification, X509_V_FLAG_PARTIAL_CHAIN);
		good = X509_verify_cert(verification) == 1;
	}
	X509_STORE_CTX_free(verification);
	return good;
}

/* Reads the file of CAs; false, with a line in the log, when it does not verify the certificate in use. */
static bool
read_cas(void)
{
	const char *path = config.apiservice_ca_file;
	char		why[512];

	X509_STORE_free(cas.store);
	cas.store = NULL;
	arena_free(&cas.arena);
	arena_init(&cas.arena);
	if (!ca_bundle_read(&cas.arena, path, &cas.pem, why, sizeof(why)) ||
		!ca_bundle_load(&cas.store, NULL, cas.pem, path, why, sizeof(why)))
		log_line(LOG_ERROR, "the caBundle of APIServices is not updated: %s", why);
	else if (is_verified_by(cas.store))
		return true;
	else
		log_line(LOG_WARNING, "the caBundle of APIServices is not updated: %s does not verify the server's certificate",
				 path);
	X509_STORE_free(cas.store);
	cas.store = NULL;
	return false;
}

/* Whether a caBundle must be replaced by the CAs of the file. */
static bool
is_outdated(Arena *arena, const ApiService *service, const char *bundle)
{
	X509_STORE *store = NULL;
	JsonText	pem;
	char		why[512];
	bool		outdated = true;

	if (bundle[0] != '\0' && base64_decode_value(arena, bundle, &pem) &&
		ca_bundle_load(&store, NULL, pem, service->name, why, sizeof(why)))
	{
		if (is_verified_by(store))
			outdated = false;
		else if (ca_bundle_is_newer(store, cas.store))
		{
			log_line(LOG_WARNING, "the APIService %s has a newer CA than %s and does not change", service->name,
					 config.apiservice_ca_file);
			outdated = false;
		}
	}
	X509_STORE_free(store);
	return outdated;
}

/* ---------- one APIService ---------- */

static void
complain(const ApiService *service, const char *what, int status, const char *why)
{
	if (why != NULL)
		log_line(LOG_WARNING, "the APIService %s cannot be %s: %s", service->name, what, why);
	else
		log_line(LOG_WARNING, "the APIService %s cannot be %s: kube-apiserver answered with status %d%s",
				 service->name, what, status,
				 status == 403 ? "; a ClusterRole has to allow get and patch of apiservices.apiregistration.k8s.io" :
				 "");
}

static void
patch_done(void *state, int status, const json_t *answer, const char *why)
{
	ApiService *service = state;

	service->call = NULL;
	if (status == 200)
		log_line(LOG_INFO, "the APIService %s has the CAs of %s now", service->name, config.apiservice_ca_file);
	else if (status == 409)
		next_round = 0;			/* it was changed in the meantime: read it again */
	else
		complain(service, "patched", status, why);
}

/* Whether the certificate in use has the name of the Service, which kube-apiserver requires. */
static bool
is_ours(Arena *arena, const Registration *registration)
{
	const char *name = arena_printf(arena, "%s.%s.svc", registration->service.name, registration->service.namespace);

	return X509_check_host(SSL_CTX_get0_certificate(tls_context()), name, strlen(name), 0, NULL) == 1;
}

static void
read_done(void *state, int status, const json_t *document, const char *why)
{
	ApiService *service = state;
	Registration registration;
	Arena		arena;

	service->call = NULL;
	/* Not registered: no client will ask for it. */
	if (status == 404)
		return;
	if (status != 200)
	{
		complain(service, "read", status, why);
		return;
	}
	arena_init(&arena);

	/*
	 * Without a Service, kube-apiserver serves the group itself.  Another server's Service has its own certificate and
	 * CAs.
	 */
	if (registration_read(document, &registration) && registration.is_remote && !registration.insecure &&
		cas.store != NULL && is_ours(&arena, &registration) && is_outdated(&arena, service, registration.ca_bundle))
	{
		JsonText	patch = registration_trust(&arena, &registration, base64_encode(&arena, cas.pem));

		service->call = kubeapi_patch(kube_api, registration_path(&arena, service->name), patch, patch_done, service);
	}
	arena_free(&arena);
}

/* ---------- all APIServices ---------- */

/* Checks one APIService, unless a call for it is in progress. */
static void
look_after(const char *name)
{
	ApiService *service;
	Arena		arena;

	for (service = services; service != NULL && strcmp(service->name, name) != 0;)
		service = service->next;
	if (service == NULL)
	{
		service = allocate(sizeof(*service) + strlen(name) + 1);
		memcpy(service->name, name, strlen(name) + 1);
		service->next = services;
		services = service;
	}
	if (service->call != NULL)
		return;
	arena_init(&arena);
	service->call = kubeapi_get(kube_api, registration_path(&arena, service->name), read_done, service);
	arena_free(&arena);
}

static void
types_read(void *state, PgOutcome outcome, PgResult *result, const PgError *error)
{
	Arena		arena;

	reading = false;
	if (outcome != PG_OK)
		next_round = 0;
	else if (read_cas())
	{
		arena_init(&arena);
		for (size_t row = 0; row < pg_rows(result); row++)
			look_after(arena_printf(&arena, "%s.%s", pg_text(result, row, COLUMN_VERSION).bytes,
									pg_text(result, row, COLUMN_GROUP).bytes));
		arena_free(&arena);
	}
	pg_result_free(result);
}

static void
tick(void *state)
{
	if (watched_file_changed(&ca_file, config.apiservice_ca_file) || tls_context() != seen_context)
		next_round = 0;
	seen_context = tls_context();
	if (!reading && loop_now() >= next_round)
	{
		next_round = loop_now() + ROUND_MS;
		reading = true;
		pg_send(pg_call_new(PG_REGISTRY), false, READ_TIMEOUT_MS, types_read, NULL);
	}
	loop_timer_start(&timer, TICK_MS, tick, NULL);
}

void
api_services_start(void)
{
	if (config.apiservice_ca_file[0] == '\0')
		return;
	kube_api = kubeapi_open(config.authentication_kubeconfig);
	arena_init(&cas.arena);
	loop_timer_start(&timer, 0, tick, NULL);
}
