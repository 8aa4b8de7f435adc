/*-------------------------------------------------------------------------
 *
 * authentication_config.h
 *	  Whose certificates are believed, and which headers name a user.
 *
 * From the flags or, for what they leave out, from the ConfigMap that
 * kube-apiserver publishes for its extension servers.  Both may change while
 * the proxy runs.
 *
 * Reference: k8s-conformance 4.1, AUTHN-01, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AUTHENTICATION_CONFIG_H
#define AUTHENTICATION_CONFIG_H

#include <openssl/x509.h>

#include "trust/request_header.h"

/* Never changed, only replaced: pointers into it are good until control returns to the loop. */
typedef struct AuthenticationConfig
{
	unsigned	generation;		/* greater than that of any earlier one; at least 1 */
	X509_STORE *front_proxy;	/* CAs of the front proxy; NULL: nobody's headers are believed */
	NameList	allowed_names;	/* common names of the front proxy; empty: any */
	RequestHeaderNames headers;
	X509_STORE *clients;		/* CAs of clients; NULL: client certificates say nothing */
				STACK_OF(X509_NAME) * ca_names; /* of both bundles: what a server asks clients for */
	Arena		arena;
} AuthenticationConfig;

/* That in force. */
extern const AuthenticationConfig *authentication_config(void);

/*
 * Reads the files of the flags; false, with the reason, when they are of no use.  The parent calls it before it
 * forks.
 */
extern bool authentication_config_start(char *why, size_t why_size);

/* Reads files again that have changed.  When they are of no use the old ones stay in force, and the log says why. */
extern void authentication_config_poll(void);

/* Whether the flags leave anything to the ConfigMap. */
extern bool authentication_config_incomplete(void);

/*
 * Takes what the ConfigMap extension-apiserver-authentication says.  The same again changes nothing.  False, with the
 * reason, when it makes no sense: then what was in force stays so.
 */
extern bool authentication_config_publish(const JsonNode *config_map, char *why, size_t why_size);

#endif							/* AUTHENTICATION_CONFIG_H */
