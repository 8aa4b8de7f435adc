/*-------------------------------------------------------------------------
 *
 * tls.h
 *	  TLS of the API port: key pair, CA bundles, who the peer is.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TLS_H
#define TLS_H

#include <openssl/ssl.h>

#include "http.h"

/* Reads all files; false, with the reason, when they are of no use.  The parent calls it before it forks. */
extern bool tls_start(char *why, size_t why_size);

/* The context for new connections. */
extern SSL_CTX *tls_context(void);

/*
 * Looks at the files and reads them again when they changed.  tls_context() is another one from then on; the old one stays valid
 * for a minute.  When the new files are of no use the old context stays in force and the reason is logged.
 */
extern void tls_reload(void);

/*
 * Sets the function that tells where the peer of a connection is kept, given what is attached to the connection's BIO.  It is
 * called during the handshake, before the peer is known.
 */
extern void tls_set_peer_lookup(HttpPeer *(*lookup) (void *bio_data));

/* Frees what the handshake put into a peer. */
extern void tls_peer_clear(HttpPeer *peer);

#endif							/* TLS_H */
