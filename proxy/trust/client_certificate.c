/*-------------------------------------------------------------------------
 *
 * client_certificate.c
 *	  The client certificate that the peer of a connection has proved to own.
 *
 * The front proxy, ordinary clients and senders have CAs in a store each.  A
 * certificate of one kind is never accepted as one of another kind, even when
 * two bundles share names or keys.  The result of a verification is kept while
 * the CAs stay the same, at most one second, so that an expired certificate is
 * refused on an open connection too.
 *
 *-------------------------------------------------------------------------
 */
#include "trust/client_certificate.h"

#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "trust/authentication_config.h"
#include "base/loop.h"

/* A verification result is valid for this long, in milliseconds: certificates expire. */
#define VERDICT_AGE 1000

#define CREDENTIAL_ID "authentication.kubernetes.io/credential-id"

/* The element of a subject that holds the uid of a user. */
#define UID_OID "1.3.6.1.4.1.57683.2"

struct ClientCertificate
{
	X509	   *certificate;	/* certificate and chain: references */
				STACK_OF(X509) * chain;
	int			security_level;
	unsigned	generation;		/* generation of the configuration that verified; 0: not verified yet */
	uint64_t	measured_at;
	int			front_proxy;	/* results of the verifications: X509_V_OK or the error */
	int			client;
	int			sender;
};

ClientCertificate *
client_certificate_new(const SSL *ssl, X509 *certificate, STACK_OF(X509) * chain)
{
	ClientCertificate *fresh = calloc(1, sizeof(*fresh));

	if (fresh == NULL)
		return NULL;
	fresh->chain = chain != NULL ? X509_chain_up_ref(chain) : sk_X509_new_null();
	if (fresh->chain == NULL)
	{
		free(fresh);
		return NULL;
	}
	X509_up_ref(certificate);
	fresh->certificate = certificate;
	fresh->security_level = SSL_get_security_level(ssl);
	return fresh;
}

void
client_certificate_free(ClientCertificate *certificate)
{
	if (certificate == NULL)
		return;
	X509_free(certificate->certificate);
	sk_X509_pop_free(certificate->chain, X509_free);
	free(certificate);
}

/* --- The subject --- */

/* Returns the text of a name's entry; NULL when it is not valid text. */
static const char *
entry_text(Arena *arena, X509_NAME_ENTRY * entry)
{
	unsigned char *utf8 = NULL;
	int			len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
	const char *text = NULL;

	if (len >= 0 && memchr(utf8, '\0', (size_t) len) == NULL)
		text = arena_strndup(arena, (char *) utf8, (size_t) len);
	OPENSSL_free(utf8);
	return text;
}

static bool
is_uid(X509_NAME_ENTRY * entry)
{
	char		oid[80];

	return OBJ_obj2txt(oid, sizeof(oid), X509_NAME_ENTRY_get_object(entry), 1) == (int) strlen(UID_OID) &&
		strcmp(oid, UID_OID) == 0;
}

/* Reads the user from the subject; false with *why when the subject is invalid. */
static bool
read_subject(X509 *certificate, Arena *arena, User *user, const char **why)
{
	X509_NAME  *subject = X509_get_subject_name(certificate);
	int			entries = X509_NAME_entry_count(subject);

	memset(user, 0, sizeof(*user));
	user->name = "";
	user->groups = arena_alloc(arena, ((size_t) entries + 1) * sizeof(char *));
	for (int i = 0; i < entries; i++)
	{
		X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, i);
		int			kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
		bool		uid = is_uid(entry);
		const char *text;

		if (kind != NID_commonName && kind != NID_organizationName && !uid)
			continue;
		text = entry_text(arena, entry);
		if (text == NULL)
		{
			*why = "the subject of the client certificate cannot be read";
			return false;
		}
		if (kind == NID_commonName)
			user->name = text;
		else if (kind == NID_organizationName)
			user->groups[user->group_count++] = text;
		else if (user->uid != NULL || text[0] == '\0')
		{
			*why = "the subject of the client certificate must have one uid at most, and none that is empty";
			return false;
		}
		else
			user->uid = text;
	}
	return true;
}

/* Adds the credential id: X509SHA256= and the digest of the certificate. */
static bool
read_credential_id(X509 *certificate, Arena *arena, User *user)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len;
	StrBuf		text;

	if (X509_digest(certificate, EVP_sha256(), digest, &len) != 1)
		return false;
	strbuf_init(&text, arena);
	strbuf_puts(&text, "X509SHA256=");
	for (unsigned int i = 0; i < len; i++)
		strbuf_printf(&text, "%02x", digest[i]);
	user->extra = arena_alloc(arena, sizeof(UserExtra));
	user->extra_count = 1;
	user->extra->key = CREDENTIAL_ID;
	user->extra->values = arena_alloc(arena, sizeof(char *));
	user->extra->values[0] = text.bytes;
	user->extra->value_count = 1;
	return true;
}

/* --- Verification --- */

/*
 * Verifies for use by a TLS client; returns X509_V_OK or the error.  store may be NULL: then no certificate is trusted.
 */
static int
verify(const ClientCertificate *certificate, X509_STORE * store)
{
	X509_STORE_CTX *attempt;
	int			result = X509_V_ERR_OUT_OF_MEM;

	if (store == NULL)
		return X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT;
	attempt = X509_STORE_CTX_new();
	if (attempt != NULL && X509_STORE_CTX_init(attempt, store, certificate->certificate, certificate->chain) == 1)
	{
		X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(attempt);

		X509_STORE_CTX_set_default(attempt, "ssl_client");
		X509_VERIFY_PARAM_set_auth_level(param, certificate->security_level);
		/* As in Go, every certificate of the bundle is an anchor, not just self-signed ones. */
		X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
		if (X509_verify_cert(attempt) == 1)
			result = X509_V_OK;
		else
		{
			result = X509_STORE_CTX_get_error(attempt);
			if (result == X509_V_OK)
				result = X509_V_ERR_UNSPECIFIED;
		}
	}
	X509_STORE_CTX_free(attempt);
	return result;
}

static void
measure(ClientCertificate *certificate, const AuthenticationConfig *in_force)
{
	uint64_t	now = loop_now();

	if (certificate->generation == in_force->generation && now - certificate->measured_at < VERDICT_AGE)
		return;
	certificate->generation = in_force->generation;
	certificate->measured_at = now;
	certificate->front_proxy = verify(certificate, in_force->front_proxy);
	certificate->client = verify(certificate, in_force->clients);
	certificate->sender = verify(certificate, in_force->senders);
}

static const char *
refusal(const User *subject, Arena *arena, int result)
{
	return arena_printf(arena, "client certificate of cn=%s: %s", subject->name, X509_verify_cert_error_string(result));
}

CertificateTrust
client_certificate_front_proxy(ClientCertificate *certificate, Arena *arena, const char **why)
{
	const AuthenticationConfig *in_force = authentication_config();
	User		subject;

	if (certificate == NULL || in_force->front_proxy == NULL)
		return CERTIFICATE_NO_OPINION;
	measure(certificate, in_force);
	if (!read_subject(certificate->certificate, arena, &subject, why))
		return CERTIFICATE_REFUSED;
	if (certificate->front_proxy != X509_V_OK)
	{
		*why = refusal(&subject, arena, certificate->front_proxy);
		return CERTIFICATE_REFUSED;
	}
	if (in_force->allowed_names.count > 0 && !name_list_has(&in_force->allowed_names, subject.name))
	{
		*why = arena_printf(arena, "x509: subject with cn=%s is not in the allowed list", subject.name);
		return CERTIFICATE_REFUSED;
	}
	return CERTIFICATE_TRUSTED;
}

CertificateTrust
client_certificate_user(ClientCertificate *certificate, Arena *arena, User *user, const char **why)
{
	const AuthenticationConfig *in_force = authentication_config();

	if (certificate == NULL || in_force->clients == NULL)
		return CERTIFICATE_NO_OPINION;
	measure(certificate, in_force);
	if (!read_subject(certificate->certificate, arena, user, why))
		return CERTIFICATE_REFUSED;
	if (certificate->client != X509_V_OK)
	{
		*why = refusal(user, arena, certificate->client);
		return CERTIFICATE_REFUSED;
	}
	if (!read_credential_id(certificate->certificate, arena, user))
	{
		*why = "the client certificate has no digest";
		return CERTIFICATE_REFUSED;
	}
	return user->name[0] != '\0' ? CERTIFICATE_TRUSTED : CERTIFICATE_NO_OPINION;
}

/* kube-apiserver takes the last common name for a user.  Whoever signed the certificate may have looked at another. */
static bool
has_common_names(X509 *certificate)
{
	X509_NAME  *subject = X509_get_subject_name(certificate);
	int			first = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	return first >= 0 && X509_NAME_get_index_by_NID(subject, NID_commonName, first) >= 0;
}

CertificateTrust
client_certificate_sender(ClientCertificate *certificate, Arena *arena, const char **name, const char **why)
{
	const AuthenticationConfig *in_force = authentication_config();
	User		subject;

	if (certificate == NULL || in_force->senders == NULL)
		return CERTIFICATE_NO_OPINION;
	measure(certificate, in_force);
	if (!read_subject(certificate->certificate, arena, &subject, why))
		return CERTIFICATE_REFUSED;
	if (certificate->sender != X509_V_OK)
	{
		*why = refusal(&subject, arena, certificate->sender);
		return CERTIFICATE_REFUSED;
	}
	if (has_common_names(certificate->certificate))
	{
		*why = "the subject of the client certificate has several common names";
		return CERTIFICATE_REFUSED;
	}
	*name = subject.name;
	return subject.name[0] != '\0' ? CERTIFICATE_TRUSTED : CERTIFICATE_NO_OPINION;
}
