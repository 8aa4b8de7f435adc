/*-------------------------------------------------------------------------
 *
 * registration.h
 *	  APIServices as documents: their contents, and the merge patches that change them.
 *
 * All code that reads or changes an APIService uses this file.  Each patch
 * names the version that it is based on, so that a change in between is a
 * conflict (409) and is not lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRATION_H
#define REGISTRATION_H

#include "codec/kube_json.h"

#define REGISTRATION_COLLECTION "/apis/apiregistration.k8s.io/v1/apiservices"

typedef struct ServiceAddress
{
	const char *namespace;
	const char *name;
	int			port;
} ServiceAddress;

typedef struct Registration
{
	const char *name;			/* version.group */
	const char *uid;
	const char *resource_version;
	bool		is_remote;		/* has a Service; else kube-apiserver serves the group itself */
	ServiceAddress service;		/* the Service, when is_remote */
	const char *ca_bundle;		/* base64; "" for none */
	bool		insecure;		/* insecureSkipTLSVerify */
	bool		automanaged;	/* kube-apiserver restores the spec of its CRD at once, silently */
	int			group_priority;
	int			version_priority;
	bool		available;
	const char *reason;			/* reason of the condition Available; "" when not set yet */
	const char *message;
} Registration;

/* Reads an APIService; the texts point into the document.  False when it has no name or no resourceVersion. */
extern bool registration_read(const json_t *document, Registration *registration);

/* Whether two addresses name the same Service; the ports may differ. */
extern bool service_is(const ServiceAddress *service, const ServiceAddress *other);

/* Return the path of the APIService with a name; the name of the APIService of a group and version. */
extern const char *registration_path(Arena *arena, const char *name);
extern const char *registration_name(Arena *arena, const char *group, const char *version);

/* The contents that an APIService is to have. */
typedef struct RegistrationWish
{
	ServiceAddress service;
	const char *ca_bundle;		/* base64 */
	int			group_priority; /* 0: unchanged, or 1000 for a new APIService, as for a CRD */
	int			version_priority;	/* 0: unchanged, or 100 for a new APIService */
} RegistrationWish;

/* Returns the document of a new APIService. */
extern JsonText registration_create(Arena *arena, const char *group, const char *version, const RegistrationWish *wish);

/* Whether the APIService already has these contents. */
extern bool registration_is(const Registration *registration, const RegistrationWish *wish);

/* Returns a patch that gives an APIService these contents, and a label so that kube-apiserver does not undo that. */
extern JsonText registration_take(Arena *arena, const Registration *registration, const RegistrationWish *wish);

/* Returns a patch that changes only the caBundle. */
extern JsonText registration_trust(Arena *arena, const Registration *registration, const char *ca_bundle);

/* Returns a patch that restores the spec and the label of an older document. */
extern JsonText registration_restore(Arena *arena, const Registration *registration, const json_t *older);

/* Returns the body of a DELETE that deletes only this version of the APIService. */
extern JsonText registration_delete(Arena *arena, const Registration *registration);

#endif							/* REGISTRATION_H */
