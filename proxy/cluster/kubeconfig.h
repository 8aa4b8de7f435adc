/*-------------------------------------------------------------------------
 *
 * kubeconfig.h
 *	  How to reach kube-apiserver: a kubeconfig file, or the service account of a pod.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KUBECONFIG_H
#define KUBECONFIG_H

#include "engine/base/json.h"

typedef struct KubeConfig
{
	const char *server;			/* https://host:port, without a slash at the end */
	JsonText	ca;				/* PEM; empty: the system's CAs */
	JsonText	certificate;	/* PEM, of the client; empty for none */
	JsonText	key;
	const char *token;			/* bearer token; NULL for none */
	const char *token_file;		/* read for each request, because it is rotated; NULL for none */
} KubeConfig;

/*
 * Reads the current context of a kubeconfig file (YAML or JSON) into the arena; path NULL or "": the service account of
 * this pod.  False with *why on failure.
 */
extern bool kubeconfig_load(Arena *arena, const char *path, KubeConfig *kubeconfig, const char **why);

#endif							/* KUBECONFIG_H */
