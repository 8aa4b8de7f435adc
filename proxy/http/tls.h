/*-------------------------------------------------------------------------
 *
 * tls.h
 *	  TLS of the API port: key pair, what is asked of clients, who they are.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TLS_H
#define TLS_H

#include <openssl/ssl.h>

#include "trust/client_certificate.h"

/*
 * Reads the key pair; false, with the reason, when it is of no use.  The parent calls it before it forks, and after
 * authentication_config_start().
 */
extern bool tls_start(char *why, size_t why_size);

/* The context for new connections. */
extern SSL_CTX *tls_context(void);

/*
 * Looks whether the key pair or the CAs in force are others.  Then tls_context() is another one from then on; the old
 * one stays valid for a minute.  When the new files are of no use the old context stays in force and the reason is
 * logged.
 */
extern void tls_reload(void);

/*
 * Sets the function that tells where the certificate of a connection's peer is kept (NULL as long as there is none),
 * given what is attached to the connection's BIO.  It is called during the handshake; the connection frees the
 * certificate.
 */
extern void tls_set_peer_lookup(ClientCertificate **(*lookup) (void *bio_data));

#endif							/* TLS_H */
