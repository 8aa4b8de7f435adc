/*-------------------------------------------------------------------------
 *
 * client_certificate.h
 *	  The certificate that the peer of a connection proved to have.
 *
 * The handshake proves the private key; whose certificate is good for what is
 * decided when a request asks, by the CAs in force then.
 *
 * Reference: k8s-conformance 4.2, AUTHN-03, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CLIENT_CERTIFICATE_H
#define CLIENT_CERTIFICATE_H

#include <openssl/ssl.h>

#include "trust/user.h"

/* Belongs to the connection. */
typedef struct ClientCertificate ClientCertificate;

/* Notes what the peer of a handshake sent; shared with OpenSSL, not copied.  NULL when there is no memory. */
extern ClientCertificate *client_certificate_new(const SSL *ssl, X509 *certificate, STACK_OF(X509) * chain);

/* NULL is fine. */
extern void client_certificate_free(ClientCertificate *certificate);

typedef enum CertificateTrust
{
	CERTIFICATE_NO_OPINION,		/* no certificate, or no CAs to measure it by */
	CERTIFICATE_REFUSED,
	CERTIFICATE_TRUSTED
} CertificateTrust;

/*
 * Is it the front proxy's?  It chains to the front proxy's CAs and its name is allowed.  certificate may be NULL;
 * *why when refused.
 */
extern CertificateTrust client_certificate_front_proxy(ClientCertificate *certificate, Arena *arena, const char **why);

/*
 * Is it that of a client?  Then *user is who: CN (the last one, as Go does), groups are the O values, the uid is that
 * of the OID of Kubernetes, and extra tells which certificate it was.  A certificate without CN is nobody's: no
 * opinion.
 */
extern CertificateTrust client_certificate_user(ClientCertificate *certificate, Arena *arena, User *user,
												const char **why);

#endif							/* CLIENT_CERTIFICATE_H */
