/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  TLS of the API port: key pair and client certificates.
 *
 * The server asks for a client certificate and stores it.  When a request
 * arrives, client_certificate.c decides whether to trust the certificate,
 * because the CAs may have changed by then.  The verify function attaches the
 * certificate to the connection, because libh2o gives no access to it later.
 * The certificate is trusted only after the handshake is complete, because the
 * client proves the private key after it has sent the certificate.
 *
 * With --require-client-cert the handshake refuses an untrusted certificate.
 *
 * Sessions are never resumed, so that every connection shows its certificate.
 *
 * A context never changes.  When the key pair or the CAs change, a new context
 * is built; old connections keep the old one.
 *
 *-------------------------------------------------------------------------
 */
#include "http/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trust/authentication_config.h"
#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "base/watched_file.h"

/* Shortest time between log lines about refused handshakes, in milliseconds. */
#define REFUSAL_LOG_INTERVAL 5000

/* libh2o keeps a bare pointer to the context of a new connection until its first byte arrives; milliseconds. */
#define RETIREMENT (60 * 1000)

/* Limit on the bytes of a client's certificates, which are held before the client is authenticated. */
#define CERTIFICATES_LIMIT (32 * 1024)

/* A context that was replaced. */
typedef struct Retired
{
	SSL_CTX    *context;
	LoopTimer	timer;
} Retired;

static SSL_CTX *current;
static unsigned current_generation; /* generation of the CAs in current */
static WatchedFile certificate_file;
static WatchedFile key_file;
static bool reload_failed;
static ClientCertificate **(*peer_lookup) (void *bio_data);

/* Why the verify function refused the certificate of the handshake in progress. */
static char refusal[256];

void
tls_set_peer_lookup(ClientCertificate **(*lookup) (void *bio_data))
{
	peer_lookup = lookup;
}

/* Whether a certificate is trusted for any use; otherwise sets refusal. */
static bool
is_good(ClientCertificate *certificate)
{
	const char *why_proxy = "no CAs of a front proxy are known";
	const char *why_client = "no CAs of clients are known";
	const char *why_sender = "no CAs of senders are known";
	const char *name;
	User		user;
	Arena		arena;
	bool		good;

	arena_init(&arena);
	good = client_certificate_front_proxy(certificate, &arena, &why_proxy) == CERTIFICATE_TRUSTED ||
		client_certificate_user(certificate, &arena, &user, &why_client) == CERTIFICATE_TRUSTED ||
		client_certificate_sender(certificate, &arena, &name, &why_sender) == CERTIFICATE_TRUSTED;
	if (!good)
		snprintf(refusal, sizeof(refusal), "%s; %s; %s", why_proxy, why_client, why_sender);
	arena_free(&arena);
	return good;
}

/* OpenSSL's hook for the whole verification of a peer's certificate; 1 continues the handshake. */
static int
note_peer(X509_STORE_CTX * ctx, void *arg)
{
	SSL		   *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	ClientCertificate **peer = peer_lookup(BIO_get_data(SSL_get_rbio(ssl)));

	client_certificate_free(*peer);
	*peer = client_certificate_new(ssl, X509_STORE_CTX_get0_cert(ctx), X509_STORE_CTX_get0_untrusted(ctx));
	if (*peer == NULL || (config.require_client_cert && !is_good(*peer)))
	{
		X509_STORE_CTX_set_error(ctx, *peer == NULL ? X509_V_ERR_OUT_OF_MEM : X509_V_ERR_APPLICATION_VERIFICATION);
		return 0;
	}
	X509_STORE_CTX_set_error(ctx, X509_V_OK);
	return 1;
}

/* libh2o closes a connection after a failed handshake without sending the alert, so only the log shows the reason. */
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

/* The one protocol that is offered, in the form of ALPN: a length and a name. */
static const unsigned char *protocol = (const unsigned char *) "\x08http/1.1";

void
tls_offer_http2(void)
{
	protocol = (const unsigned char *) "\x02h2";
}

static int
select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *offered,
				unsigned int offered_len,
				void *arg)
{
	if (SSL_select_next_proto((unsigned char **) out, out_len, protocol, protocol[0] + 1u, offered, offered_len) !=
		OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	return SSL_TLSEXT_ERR_OK;
}

/* --- Contexts --- */

/* Key files must not have a pass phrase: the proxy has no terminal to ask for it. */
static int
no_pass_phrase(char *buffer, int size, int writing, void *arg)
{
	return 0;
}

static bool
explain(char *why, size_t why_size, const char *file)
{
	/* The first error is the cause; callers of the failed function add the later ones. */
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
	if (SSL_CTX_use_PrivateKey_file(ctx, config.tls_private_key_file, SSL_FILETYPE_PEM) != 1 ||
		SSL_CTX_check_private_key(ctx) != 1)
		return explain(why, why_size, config.tls_private_key_file);
	return true;
}

/* Asks clients for certificates of the CAs in force. */
static bool
ask_for_certificates(SSL_CTX *ctx, const AuthenticationConfig *in_force)
{
	STACK_OF(X509_NAME) * names = sk_X509_NAME_deep_copy(in_force->ca_names, X509_NAME_dup, X509_NAME_free);

	if (names == NULL)
		return false;
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_max_cert_list(ctx, CERTIFICATES_LIMIT);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (config.require_client_cert ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
	SSL_CTX_set_cert_verify_callback(ctx, note_peer, NULL);
	return true;
}

/* Expiry of the certificate of the newest context. */
static time_t expires_at;

static void
note_expiration(SSL_CTX *ctx)
{
	struct tm	parts;

	if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(ctx)), &parts) == 1)
		expires_at = timegm(&parts);
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
	if (!load_key_pair(ctx, why, why_size) ||
		(!ask_for_certificates(ctx, authentication_config()) && !explain(why, why_size, "CA bundles")))
	{
		SSL_CTX_free(ctx);
		return NULL;
	}
	note_expiration(ctx);
	return ctx;
}

/* Whether the key pair or the CAs changed since the last call. */
static bool
something_changed(void)
{
	bool		certificate = watched_file_changed(&certificate_file, config.tls_cert_file);
	bool		key = watched_file_changed(&key_file, config.tls_private_key_file);
	bool		trust = authentication_config()->generation != current_generation;

	current_generation = authentication_config()->generation;
	return certificate || key || trust;
}

bool
tls_start(char *why, size_t why_size)
{
	something_changed();
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
	bool		changed = something_changed();
	SSL_CTX    *fresh;
	Retired    *retired;

	/* Set the gauge here, because the parent loaded the first context. */
	metrics_certificate_expires(expires_at);
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
	log_line(LOG_INFO, "new connections use new TLS files or CAs");
	/* Without memory for the entry the old context is never freed. */
	retired = calloc(1, sizeof(*retired));
	if (retired != NULL)
	{
		retired->context = current;
		loop_timer_start(&retired->timer, RETIREMENT, free_retired, retired);
	}
	current = fresh;
}
