/*-------------------------------------------------------------------------
 *
 * client_certificate.h
 *	  The client certificate that the peer of a connection has proved to own.
 *
 * The handshake proves that the peer has the private key.  Whether the
 * certificate is trusted is decided for each request, by the CAs then in
 * force.
 *
 * Reference: k8s-conformance 4.2, AUTHN-03, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLIENT_CERTIFICATE_H
#define CLIENT_CERTIFICATE_H

#include <openssl/ssl.h>

#include "trust/user.h"

/* The certificate of a connection, which owns the struct. */
typedef struct ClientCertificate ClientCertificate;

/* Keeps what the peer sent in the handshake; shared with OpenSSL, not copied.  NULL when memory is short. */
extern ClientCertificate *client_certificate_new(const SSL *ssl, X509 *certificate, STACK_OF(X509) * chain);

/* certificate may be NULL. */
extern void client_certificate_free(ClientCertificate *certificate);

typedef enum CertificateTrust
{
	CERTIFICATE_NO_OPINION,		/* no certificate, or no CAs to verify it */
	CERTIFICATE_REFUSED,
	CERTIFICATE_TRUSTED
} CertificateTrust;

/*
 * Whether the certificate belongs to the front proxy: one of the front proxy's CAs issued it, and its CN is allowed.
 * certificate may be NULL; *why is set when refused.
 */
extern CertificateTrust client_certificate_front_proxy(ClientCertificate *certificate, Arena *arena, const char **why);

/*
 * Whether the certificate belongs to a client; then *user is set: the name is the CN (the last one, as in Go), groups
 * are the O values, the uid is the value of Kubernetes' OID, and extra identifies the certificate.  For a certificate
 * without CN the result is CERTIFICATE_NO_OPINION.
 */
extern CertificateTrust client_certificate_user(ClientCertificate *certificate, Arena *arena, User *user,
												const char **why);

/* Whether the certificate belongs to a sender (--forward-client-ca-file); then *name is its CN. */
extern CertificateTrust client_certificate_sender(ClientCertificate *certificate, Arena *arena, const char **name,
												  const char **why);

#endif							/* CLIENT_CERTIFICATE_H */
