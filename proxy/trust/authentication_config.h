/*-------------------------------------------------------------------------
 *
 * authentication_config.h
 *	  The CAs whose certificates are trusted, and the headers that name a user.
 *
 * The configuration comes from the flags.  Where flags are missing, it comes
 * from the ConfigMap that kube-apiserver publishes for its extension servers.
 * The files of the flags and the ConfigMap may change while the proxy runs.
 *
 * Reference: k8s-conformance 4.1, AUTHN-01, AUTHN-11.
 *
 *-------------------------------------------------------------------------
 */
#ifndef AUTHENTICATION_CONFIG_H
#define AUTHENTICATION_CONFIG_H

#include <openssl/x509.h>

#include "codec/kube_json.h"
#include "trust/request_header.h"

/* A configuration is never changed, only replaced: pointers into it are valid until control returns to the loop. */
typedef struct AuthenticationConfig
{
	unsigned	generation;		/* number of the configuration; grows, at least 1 */
	X509_STORE *front_proxy;	/* CAs of the front proxy; NULL: headers that name a user are ignored */
	NameList	allowed_names;	/* common names of the front proxy; empty: any */
	RequestHeaderNames headers;
	X509_STORE *clients;		/* CAs of clients; NULL: client certificates are ignored */
	X509_STORE *senders;		/* CAs of senders; NULL: their certificates are ignored */
				STACK_OF(X509_NAME) * ca_names; /* subjects of all CAs, sent to clients in the handshake */
	Arena		arena;
} AuthenticationConfig;

/* Returns the configuration in force. */
extern const AuthenticationConfig *authentication_config(void);

/*
 * Reads the files of the flags; false, with the reason, when they are unusable.  The parent calls this before it forks.
 */
extern bool authentication_config_start(char *why, size_t why_size);

/*
 * Reads changed files again.  When they are unusable, the old configuration stays in force and the log has the reason.
 */
extern void authentication_config_poll(void);

/* Whether the flags lack a setting, which must then come from the ConfigMap. */
extern bool authentication_config_incomplete(void);

/*
 * Applies the content of the ConfigMap extension-apiserver-authentication.  The same content again changes nothing.
 * False, with the reason, when the content is invalid: the old configuration stays in force.
 */
extern bool authentication_config_publish(const json_t *config_map, char *why, size_t why_size);

#endif							/* AUTHENTICATION_CONFIG_H */
