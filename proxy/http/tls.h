/*-------------------------------------------------------------------------
 *
 * tls.h
 *	  TLS of the API port: key pair and client certificates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TLS_H
#define TLS_H

#include <openssl/ssl.h>

#include "trust/client_certificate.h"

/*
 * Reads the key pair; false, with *why, when it cannot be used.  The parent calls this function before it forks, and
 * after authentication_config_start().
 */
extern bool tls_start(char *why, size_t why_size);

/* Contexts made from now on offer HTTP/2 alone, not HTTP/1.1.  Call it before tls_start(). */
extern void tls_offer_http2(void);

/* Returns the context for new connections. */
extern SSL_CTX *tls_context(void);

/*
 * Checks whether the key pair or the CAs in force have changed.  If so, tls_context() returns a new context from then
 * on, and the old one stays valid for a minute.  When the new files cannot be used, the old context stays in force and
 * the reason is logged.
 */
extern void tls_reload(void);

/*
 * Sets a function that returns the place where a connection keeps its peer's certificate (NULL until there is one);
 * bio_data is the data of the connection's BIO.  The verification calls this function during the handshake.  The
 * connection frees the certificate.
 */
extern void tls_set_peer_lookup(ClientCertificate **(*lookup) (void *bio_data));

#endif							/* TLS_H */
