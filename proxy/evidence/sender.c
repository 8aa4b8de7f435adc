/*-------------------------------------------------------------------------
 *
 * sender.c
 *	  The credential of a request.
 *
 * The rules are the same as at the proxy's port for senders (api/forward.c): a
 * token is preferred to a certificate.  libmicrohttpd uses GnuTLS, which
 * verifies the certificate here; in the proxy, OpenSSL verifies it.
 *
 *-------------------------------------------------------------------------
 */
#include "evidence/sender.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "codec/digest.h"
#include "evidence/options.h"
#include "trust/request_header.h"

/* ---------- headers ---------- */

typedef struct Search
{
	const char *name;
	const char *value;
	int			count;
	bool		broken;
} Search;

static enum MHD_Result
look(void *state, enum MHD_ValueKind kind, const char *name, size_t name_size, const char *value, size_t value_size)
{
	Search	   *search = state;

	if (strcasecmp(name, search->name) == 0)
	{
		search->count++;
		search->value = value == NULL ? "" : value;
		if (strlen(search->value) != value_size)
			search->broken = true;
	}
	return MHD_YES;
}

const char *
sender_header(struct MHD_Connection *connection, const char *name, bool *repeated)
{
	Search		search = {.name = name};

	MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look, &search);
	*repeated = search.count > 1 || search.broken;
	return search.value;
}

/* ---------- the certificate ---------- */

static bool
common_name(const gnutls_datum_t * der, char *name, size_t size)
{
	gnutls_x509_crt_t certificate;
	char		text[NAME_SIZE];
	char		other[4];
	size_t		len = sizeof(text);
	size_t		other_len = sizeof(other);
	bool		good;

	if (gnutls_x509_crt_init(&certificate) != 0)
		abort();
	good = gnutls_x509_crt_import(certificate, der, GNUTLS_X509_FMT_DER) == 0 &&
		gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, text, &len) == 0 &&
		len > 0 && len < sizeof(text) && memchr(text, '\0', len) == NULL &&
	/* A certificate with two common names is refused: another program might take the other name. */
		gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 1, 0, other, &other_len) ==
		GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
	if (good)
		snprintf(name, size, "%.*s", (int) len, text);
	gnutls_x509_crt_deinit(certificate);
	return good;
}

static bool
certificate_credential(struct MHD_Connection *connection, Credential *credential, const char **why)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
	gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
	.data = (unsigned char *) GNUTLS_KP_TLS_WWW_CLIENT};
	unsigned	count = 0;
	unsigned	status = 0;
	const		gnutls_datum_t *chain;
	gnutls_session_t session = info == NULL ? NULL : info->tls_session;

	*why = "its request has no credentials";
	if (session == NULL || options.client_ca_file[0] == '\0' ||
		gnutls_certificate_type_get2(session, GNUTLS_CTYPE_CLIENT) != GNUTLS_CRT_X509)
		return false;
	chain = gnutls_certificate_get_peers(session, &count);
	if (chain == NULL || count == 0)
		return false;
	*why = "its client certificate is not trusted";
	if (gnutls_certificate_verify_peers(session, &purpose, 1, &status) != 0 || status != 0)
		return false;
	*why = "its client certificate has no common name, or several";
	credential->kind = "certificate";
	return common_name(&chain[0], credential->text, sizeof(credential->text));
}

/* ---------- tokens and passwords ---------- */

bool
sender_credential(struct MHD_Connection *connection, bool certificate_only, Credential *credential, const char **why)
{
	bool		repeated;
	bool		spaced;
	const char *authorization = sender_header(connection, MHD_HTTP_HEADER_AUTHORIZATION, &repeated);
	const char *token;
	Arena		arena;

	if (repeated)
	{
		*why = "its request has several headers Authorization";
		return false;
	}
	if (authorization == NULL || certificate_only)
		return certificate_credential(connection, credential, why);
	*why = "its header Authorization has no bearer token";
	arena_init(&arena);
	token = bearer_token(&arena, authorization, &spaced);
	if (token != NULL)
	{
		credential->kind = "token";
		sha256_hex(token, strlen(token), credential->text);
	}
	arena_free(&arena);
	return token != NULL;
}

bool
sender_reader(struct MHD_Connection *connection, Reader *reader)
{
	char	   *password = NULL;
	bool		repeated;
	char	   *user;
	bool		good;

	if (sender_header(connection, MHD_HTTP_HEADER_AUTHORIZATION, &repeated) == NULL || repeated)
		return false;
	user = MHD_basic_auth_get_username_password(connection, &password);
	/* Instead of an empty name or password, libpq would use the one of --database. */
	good = user != NULL && password != NULL && user[0] != '\0' && password[0] != '\0' &&
		strlen(user) < sizeof(reader->user) && strlen(password) < sizeof(reader->password);
	if (good)
	{
		snprintf(reader->user, sizeof(reader->user), "%s", user);
		snprintf(reader->password, sizeof(reader->password), "%s", password);
	}
	if (password != NULL)
		explicit_bzero(password, strlen(password));
	MHD_free(user);
	MHD_free(password);
	return good;
}
