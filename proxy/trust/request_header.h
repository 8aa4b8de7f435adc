/*-------------------------------------------------------------------------
 *
 * request_header.h
 *	  The user whom a front proxy names in the headers of a request.
 *
 * Plain C, because it reads a client's bytes (fuzz target
 * regress/fuzz/request_header_fuzz.c).  Whether the peer may name a user is not
 * known here: that is identity.c.
 *
 * Reference: k8s-conformance 4.2, AGG-11; upstream's authentication/request/headerrequest.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REQUEST_HEADER_H
#define REQUEST_HEADER_H

#include "base/header.h"
#include "base/name_list.h"
#include "trust/user.h"

/* The names of headers, in any case; those of extra are prefixes. */
typedef struct RequestHeaderNames
{
	NameList	username;		/* the first that has a value counts */
	NameList	uid;			/* likewise */
	NameList	group;			/* all values of all */
	NameList	extra;			/* all values of all that begin so; the rest of the name is the key */
} RequestHeaderNames;

/* False, and nothing said, when no header names a user.  The user points into the headers. */
extern bool request_header_user(Arena *arena, const RequestHeaderNames *names, const HttpHeader *headers,
								size_t count, User *user);

/*
 * The token of an Authorization header; NULL when it holds none.  *spaced: there may be one, but behind more than one
 * space, and kube-apiserver does not take it then.
 */
extern const char *bearer_token(Arena *arena, const char *authorization, bool *spaced);

#endif							/* REQUEST_HEADER_H */
