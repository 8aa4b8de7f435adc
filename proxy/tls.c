/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  TLS of the API port: key pair, CA bundles, who the peer is.
 *
 * A client certificate is verified against the front proxy's CAs first, and
 * against the CAs of ordinary clients then, each with a store of its own: a
 * certificate of one kind can never pass for the other, even when the two
 * bundles share names or keys.  The identity is written into the connection
 * by the verify function, because libh2o gives no access to the certificate
 * afterwards.  It is believed only once the handshake is complete, that is
 * once a request arrives: the proof of the private key comes after the
 * certificate.
 *
 * Sessions are never resumed, so that every connection is verified.
 *
 * A context is never changed.  When a file changes a new one is built; old
 * connections keep the old one.
 *
 *-------------------------------------------------------------------------
 */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"
#include "log.h"
#include "loop.h"

/* Refused handshakes are logged at most this often, in milliseconds. */
#define REFUSAL_LOG_INTERVAL 5000

/* libh2o keeps a bare pointer to the context of a new connection until its first byte arrives; milliseconds. */
#define RETIREMENT (60 * 1000)

#define FILE_COUNT 4

/* What tells one state of a file from another; all zero for a file that is not there. */
typedef struct FileState
{
	dev_t		device;
	ino_t		inode;
	off_t		size;
	struct timespec changed;
} FileState;

/* The CAs of a context; freed with it. */
typedef struct Trust
{
	X509_STORE *front_proxy;	/* either may be NULL */
	X509_STORE *clients;
} Trust;

/* A context that was replaced. */
typedef struct Retired
{
	SSL_CTX    *context;
	LoopTimer	timer;
} Retired;

static SSL_CTX *current;
static FileState file_states[FILE_COUNT];
static bool reload_failed;
static HttpPeer *(*peer_lookup) (void *bio_data);

/* Why the verify function refused the certificate of the handshake that is under way. */
static char refusal[256];

/* --- Identity --- */

/* The text of a name's entry in malloc'ed memory, NULL when it is not proper text. */
static char *
entry_text(X509_NAME_ENTRY *entry)
{
	unsigned char *utf8 = NULL;
	int			len = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
	char	   *text = NULL;

	if (len >= 0 && memchr(utf8, '\0', (size_t) len) == NULL)
		text = strndup((char *) utf8, (size_t) len);
	OPENSSL_free(utf8);
	return text;
}

/* Takes CN (the last one, as Go does) and all O from a subject; false when there is something wrong with them. */
static bool
read_subject(HttpPeer *peer, X509 *certificate)
{
	X509_NAME  *subject = X509_get_subject_name(certificate);
	int			entries = X509_NAME_entry_count(subject);
	const char **organizations = calloc((size_t) entries + 1, sizeof(char *));

	if (organizations == NULL)
		return false;
	peer->organizations = organizations;
	for (int i = 0; i < entries; i++)
	{
		X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, i);
		int			kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
		char	   *text;

		if (kind != NID_commonName && kind != NID_organizationName)
			continue;
		text = entry_text(entry);
		if (text == NULL)
			return false;
		if (kind == NID_organizationName)
		{
			organizations[peer->organization_count++] = text;
			continue;
		}
		free((char *) peer->common_name);
		peer->common_name = text;
	}
	return true;
}

static bool
read_credential_id(HttpPeer *peer, X509 *certificate)
{
	static const char prefix[] = "X509SHA256=";
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int len;
	char	   *text;

	if (X509_digest(certificate, EVP_sha256(), digest, &len) != 1)
		return false;
	text = malloc(sizeof(prefix) + len * 2);
	if (text == NULL)
		return false;
	memcpy(text, prefix, sizeof(prefix));
	for (unsigned int i = 0; i < len; i++)
		snprintf(text + sizeof(prefix) - 1 + i * 2, 3, "%02x", digest[i]);
	peer->credential_id = text;
	return true;
}

void
tls_peer_clear(HttpPeer *peer)
{
	free((char *) peer->common_name);
	for (size_t i = 0; i < peer->organization_count; i++)
		free((char *) peer->organizations[i]);
	free((void *) peer->organizations);
	free((char *) peer->credential_id);
	memset(peer, 0, sizeof(*peer));
}

void
tls_set_peer_lookup(HttpPeer *(*lookup) (void *bio_data))
{
	peer_lookup = lookup;
}

/* --- Verification --- */

/* Is name in a list separated by commas?  An empty list allows every name. */
static bool
name_allowed(const char *list, const char *name)
{
	size_t		name_len = strlen(name);

	if (list[strspn(list, ", ")] == '\0')
		return true;
	while (*list != '\0')
	{
		size_t		len;
		size_t		trimmed;

		list += strspn(list, ", ");
		len = strcspn(list, ",");
		for (trimmed = len; trimmed > 0 && list[trimmed - 1] == ' '; trimmed--)
			;
		if (trimmed > 0 && trimmed == name_len && strncmp(list, name, name_len) == 0)
			return true;
		list += len;
	}
	return false;
}

/* Verifies a chain for use by a TLS client; X509_V_OK or the reason why not. */
static int
verify_chain(X509_STORE *store, SSL *ssl, X509 *certificate, STACK_OF(X509) *untrusted)
{
	X509_STORE_CTX *attempt = X509_STORE_CTX_new();
	int			result = X509_V_ERR_OUT_OF_MEM;

	if (attempt != NULL && X509_STORE_CTX_init(attempt, store, certificate, untrusted) == 1)
	{
		X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(attempt);

		X509_STORE_CTX_set_default(attempt, "ssl_client");
		X509_VERIFY_PARAM_set_auth_level(param, SSL_get_security_level(ssl));
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

/* OpenSSL's hook for the whole verification of a peer's certificate; 1 when it is good. */
static int
verify_peer(X509_STORE_CTX *ctx, void *arg)
{
	const Trust *trust = arg;
	SSL		   *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509	   *certificate = X509_STORE_CTX_get0_cert(ctx);
	STACK_OF(X509) *untrusted = X509_STORE_CTX_get0_untrusted(ctx);
	HttpPeer   *peer = peer_lookup(BIO_get_data(SSL_get_rbio(ssl)));
	int			result = X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY;

	tls_peer_clear(peer);
	if (!read_subject(peer, certificate) || !read_credential_id(peer, certificate))
	{
		tls_peer_clear(peer);
		X509_STORE_CTX_set_error(ctx, X509_V_ERR_UNSPECIFIED);
		snprintf(refusal, sizeof(refusal), "the subject of the client certificate cannot be read");
		return 0;
	}
	if (trust->front_proxy != NULL)
	{
		result = verify_chain(trust->front_proxy, ssl, certificate, untrusted);
		if (result == X509_V_OK)
		{
			const char *name = peer->common_name != NULL ? peer->common_name : "";

			if (name_allowed(config.requestheader_allowed_names, name))
			{
				peer->verified = true;
				peer->front_proxy = true;
				X509_STORE_CTX_set_error(ctx, X509_V_OK);
				return 1;
			}
			snprintf(refusal, sizeof(refusal), "x509: subject with cn=%s is not in the allowed list", name);
			result = X509_V_ERR_APPLICATION_VERIFICATION;
		}
	}
	if (trust->clients != NULL)
	{
		int			client_result = verify_chain(trust->clients, ssl, certificate, untrusted);

		if (client_result == X509_V_OK)
		{
			refusal[0] = '\0';
			peer->verified = true;
			X509_STORE_CTX_set_error(ctx, X509_V_OK);
			return 1;
		}
		if (result != X509_V_ERR_APPLICATION_VERIFICATION)
			result = client_result;
	}
	if (result != X509_V_ERR_APPLICATION_VERIFICATION)
		snprintf(refusal, sizeof(refusal), "client certificate of cn=%s: %s",
				 peer->common_name != NULL ? peer->common_name : "", X509_verify_cert_error_string(result));
	tls_peer_clear(peer);
	X509_STORE_CTX_set_error(ctx, result);
	return 0;
}

/*
 * libh2o closes a connection whose handshake failed without sending the alert,
 * so the log is the only place where the reason can be seen.
 */
static void
on_ssl_event(const SSL *ssl, int where, int value)
{
	static uint64_t logged_at;
	const char *reason = refusal;
	uint64_t	now;

	if ((where & SSL_CB_ALERT) == 0 || (where & SSL_CB_WRITE) == 0 || value >> 8 != SSL3_AL_FATAL)
		return;
	now = loop_now();
	if (logged_at == 0 || now - logged_at >= REFUSAL_LOG_INTERVAL)
	{
		if (refusal[0] == '\0')
			reason = ERR_reason_error_string(ERR_peek_last_error());
		log_line(LOG_ERROR, "TLS handshake refused: %s", reason != NULL ? reason : SSL_alert_desc_string_long(value));
		logged_at = now;
	}
	refusal[0] = '\0';
}

/* HTTP/1.1 alone is offered. */
static int
select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *offered, unsigned int offered_len,
				void *arg)
{
	static const unsigned char ours[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

	if (SSL_select_next_proto((unsigned char **) out, out_len, ours, sizeof(ours), offered, offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

/* --- Contexts --- */

static void
free_trust(void *parent, void *pointer, CRYPTO_EX_DATA *ad, int index, long argl, void *argp)
{
	Trust	   *trust = pointer;

	if (trust == NULL)
		return;
	X509_STORE_free(trust->front_proxy);
	X509_STORE_free(trust->clients);
	free(trust);
}

/* No file is protected by a pass phrase, and nobody sits at a terminal. */
static int
no_pass_phrase(char *buffer, int size, int writing, void *arg)
{
	return 0;
}

static bool
explain(char *why, size_t why_size, const char *file)
{
	/* The first error is the cause, later ones say where it came through. */
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

	snprintf(why, why_size, "%s: %s", file, reason != NULL ? reason : "cannot be used");
	ERR_clear_error();
	return false;
}

static bool
load_key_pair(SSL_CTX *ctx, char *why, size_t why_size)
{
	SSL_CTX_set_default_passwd_cb(ctx, no_pass_phrase);
	if (SSL_CTX_use_certificate_chain_file(ctx, config.tls_cert_file) != 1)
		return explain(why, why_size, config.tls_cert_file);
	if (SSL_CTX_use_PrivateKey_file(ctx, config.tls_private_key_file, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(ctx) != 1)
		return explain(why, why_size, config.tls_private_key_file);
	return true;
}

/* Reads a CA bundle into a new store and its names into the list that clients are shown. */
static bool
load_bundle(X509_STORE **store, STACK_OF(X509_NAME) *names, const char *file, char *why, size_t why_size)
{
	if (file[0] == '\0')
		return true;
	*store = X509_STORE_new();
	if (*store == NULL || X509_STORE_load_file(*store, file) != 1 || SSL_add_file_cert_subjects_to_stack(names, file) != 1)
		return explain(why, why_size, file);
	return true;
}

static bool
load_trust(SSL_CTX *ctx, char *why, size_t why_size)
{
	static int	trust_index = -1;
	Trust	   *trust = calloc(1, sizeof(*trust));
	STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
	int			mode = SSL_VERIFY_NONE;

	if (trust_index < 0)
		trust_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, free_trust);
	if (trust == NULL || names == NULL || SSL_CTX_set_ex_data(ctx, trust_index, trust) != 1)
	{
		sk_X509_NAME_free(names);
		free(trust);
		return explain(why, why_size, "CA bundles");
	}
	/* From here on both belong to the context. */
	SSL_CTX_set_client_CA_list(ctx, names);
	if (!load_bundle(&trust->front_proxy, names, config.requestheader_client_ca_file, why, why_size) ||
		!load_bundle(&trust->clients, names, config.client_ca_file, why, why_size))
		return false;
	if (trust->front_proxy != NULL || trust->clients != NULL)
		mode = SSL_VERIFY_PEER | (config.require_client_cert ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
	SSL_CTX_set_verify(ctx, mode, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify_peer, trust);
	return true;
}

static SSL_CTX *
load_context(char *why, size_t why_size)
{
	SSL_CTX    *ctx = SSL_CTX_new(TLS_server_method());

	ERR_clear_error();
	if (ctx == NULL)
	{
		snprintf(why, why_size, "TLS context: out of memory");
		return NULL;
	}
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20");
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(ctx, select_protocol, NULL);
	SSL_CTX_set_info_callback(ctx, on_ssl_event);
	if (!load_key_pair(ctx, why, why_size) || !load_trust(ctx, why, why_size))
	{
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

/* Compares the files with what they were at the last call. */
static bool
files_changed(void)
{
	const char *const files[FILE_COUNT] = {config.tls_cert_file, config.tls_private_key_file, config.client_ca_file,
	config.requestheader_client_ca_file};
	bool		changed = false;

	for (int i = 0; i < FILE_COUNT; i++)
	{
		struct stat status;
		FileState	state;

		/* Padding takes part in the comparison. */
		memset(&state, 0, sizeof(state));
		if (files[i][0] != '\0' && stat(files[i], &status) == 0)
		{
			state.device = status.st_dev;
			state.inode = status.st_ino;
			state.size = status.st_size;
			state.changed = status.st_mtim;
		}
		if (memcmp(&state, &file_states[i], sizeof(state)) != 0)
		{
			file_states[i] = state;
			changed = true;
		}
	}
	return changed;
}

bool
tls_start(char *why, size_t why_size)
{
	files_changed();
	current = load_context(why, why_size);
	return current != NULL;
}

SSL_CTX *
tls_context(void)
{
	return current;
}

static void
free_retired(void *state)
{
	Retired    *retired = state;

	SSL_CTX_free(retired->context);
	free(retired);
}

void
tls_reload(void)
{
	char		why[512];
	bool		changed = files_changed();
	SSL_CTX    *fresh;
	Retired    *retired;

	if (!changed && !reload_failed)
		return;
	fresh = load_context(why, sizeof(why));
	reload_failed = fresh == NULL;
	if (fresh == NULL)
	{
		if (changed)
			log_line(LOG_ERROR, "the TLS files changed but cannot be used, the old ones stay in force: %s", why);
		return;
	}
	log_line(LOG_INFO, "the TLS files were read again");
	/* Without memory for the note the old context is kept for ever. */
	retired = calloc(1, sizeof(*retired));
	if (retired != NULL)
	{
		retired->context = current;
		loop_timer_start(&retired->timer, RETIREMENT, free_retired, retired);
	}
	current = fresh;
}
