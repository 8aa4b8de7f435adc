/*-------------------------------------------------------------------------
 *
 * registration.h
 *	  APIServices as documents: what one says, and the merge patches that change one.
 *
 * Whoever reads or changes an APIService does so with this file.  Each patch names the version that it was made for,
 * so that a change in between is a conflict (409) and not lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REGISTRATION_H
#define REGISTRATION_H

#include "engine/base/json.h"

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
	bool		is_remote;		/* names a Service; otherwise kube-apiserver serves the group itself, such as from a
								 * CRD */
	ServiceAddress service;		/* of a remote one */
	const char *ca_bundle;		/* base64; "" for none */
	bool		insecure;		/* asks for no verification */
	bool		automanaged;	/* kube-apiserver makes its spec what its CRD wants, at once and without a word */
	int			group_priority;
	int			version_priority;
	bool		available;
	const char *reason;			/* of that condition; "" where kube-apiserver has not said anything yet */
	const char *message;
} Registration;

/* Whether the document is an APIService with all that is needed. */
extern bool registration_read(Arena *arena, const JsonNode *document, Registration *registration);

/* Whether a Service is that one, whatever the port. */
extern bool service_is(const ServiceAddress *service, const ServiceAddress *other);

/* The path of one, and its name. */
extern const char *registration_path(Arena *arena, const char *name);
extern const char *registration_name(Arena *arena, const char *group, const char *version);

/* What an APIService of ours says. */
typedef struct RegistrationWish
{
	ServiceAddress service;
	const char *ca_bundle;		/* base64 */
	int			group_priority; /* 0: as it is; 1000, as that of a CRD, where there is none */
	int			version_priority;	/* 0: as it is; 100 */
} RegistrationWish;

/* A new one. */
extern JsonText registration_create(Arena *arena, const char *group, const char *version, const RegistrationWish *wish);

/* Whether there is nothing to change. */
extern bool registration_is(const Registration *registration, const RegistrationWish *wish);

/* Points one at our Service, and keeps kube-apiserver from undoing that. */
extern JsonText registration_take(Arena *arena, const Registration *registration, const RegistrationWish *wish);

/* The caBundle alone. */
extern JsonText registration_trust(Arena *arena, const Registration *registration, const char *ca_bundle);

/* Makes the spec and the label again what they were in an older document. */
extern JsonText registration_restore(Arena *arena, const Registration *registration, const JsonNode *older);

/* Gives one back to kube-apiserver, which serves the CRD again. */
extern JsonText registration_give_back(Arena *arena, const Registration *registration);

/* The body of a DELETE of exactly this one. */
extern JsonText registration_delete(Arena *arena, const Registration *registration);

#endif							/* REGISTRATION_H */
