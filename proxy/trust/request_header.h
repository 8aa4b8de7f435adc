/*-------------------------------------------------------------------------
 *
 * request_header.h
 *	  The user that a front proxy names in the headers of a request.
 *
 * Plain C, because it reads bytes from clients (fuzz target
 * regress/fuzz/request_header_fuzz.c).  identity.c decides whether the peer
 * may name a user.
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

/* The names of headers, case-insensitive; the names in extra are prefixes. */
typedef struct RequestHeaderNames
{
	NameList	username;		/* the first header with a value counts */
	NameList	uid;			/* likewise */
	NameList	group;			/* all values of all these headers */
	NameList	extra;			/* all values of all headers with these prefixes; the rest of the name is the key */
} RequestHeaderNames;

/*
 * Reads a list of names as the ConfigMap extension-apiserver-authentication has it: a JSON array of non-empty strings;
 * NULL and "" are an empty list.
 */
extern bool request_header_list(Arena *arena, const char *text, NameList *list);

/* Reads the user that the headers name; its texts point into the headers.  False when no header names a user. */
extern bool request_header_user(Arena *arena, const RequestHeaderNames *names, const HttpHeader *headers,
								size_t count, User *user);

/*
 * Returns the token of an Authorization header; NULL when there is none.  *spaced: more than one space precedes a
 * possible token; kube-apiserver then ignores it.
 */
extern const char *bearer_token(Arena *arena, const char *authorization, bool *spaced);

#endif							/* REQUEST_HEADER_H */
