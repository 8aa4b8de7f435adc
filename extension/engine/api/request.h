/*-------------------------------------------------------------------------
 *
 * request.h
 *	  A request of the Kubernetes API as the proxy passes it to the extension.
 *
 * The proxy only decodes the URL and the headers into one JSON object; the
 * extension decides what the request means.  SQL passes the object as jsonb
 * (read_request() in the backend):
 *
 *	{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
 *	 "namespace":"default","name":"r1","subresource":"status",
 *	 "query":{"dryRun":["All"],"limit":["500"]},
 *	 "accept":"application/json","contentType":"application/json","userAgent":"kubectl/v1.32.4 (linux/amd64)",
 *	 "user":{"username":"alice","groups":["dev"],"uid":"42"},
 *	 "mayCreate":false,"createDenial":"policyreports.wgpolicyk8s.io \"r1\" is forbidden: ...",
 *	 "namespaceUid":"0b5b3f9e-...","namespaceState":"terminating"}
 *
 * mayCreate is for a patch that creates a missing object (AUTHZ-13).  false
 * means that the user may not create the object; createDenial is then the
 * message of the Status (403).  An absent mayCreate means true.
 *
 * A body is always JSON here: the proxy converts YAML.  If the conversion
 * fails, "decodeError" has the reason in upstream's words, and the body is
 * the client's.  "duplicates" has upstream's messages about keys that a YAML
 * body sets twice, such as: line 5: key "a" already set in map.
 *
 * verb is one of get list watch create update patch delete deletecollection.
 * Absent members are left out.  namespace is absent for a cluster-scoped
 * resource and for a list over all namespaces.
 *
 * For a request that may create an object in a namespace, a proxy that knows
 * the cluster's namespaces adds one of two members.  namespaceUid is the uid
 * of an active namespace; the store compares it with its own
 * (sql/store/namespaces.sql).  namespaceState is missing or terminating
 * (ADM-01).  Only the sweep of a deleted namespace sends the namespaceState
 * dead.
 *
 *-------------------------------------------------------------------------
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "engine/base/json.h"
#include "engine/api/status.h"

typedef struct ApiRequest
{
	const char *verb;			/* strings are never NULL; "" when absent */
	const char *group;
	const char *version;
	const char *resource;
	const char *namespace_name;
	const char *name;
	const char *subresource;
	const char *accept;
	const char *content_type;
	const char *user_agent;
	const char *username;
	const char *decode_error;	/* why the body could not be read, or "" */
	const JsonNode *duplicates; /* array of strings, or NULL */
	const char *namespace_state;	/* missing, terminating or dead; else "" */
	bool		may_create;
	const char *create_denial;
	const JsonNode *query;		/* object of arrays of strings, or NULL */
} ApiRequest;

/*
 * False when root (NULL: none) is not such an object, the verb is unknown, or a string holds a NUL (it would cut C
 * strings short).  The request keeps pointers into root.
 */
extern bool request_read(Arena *arena, const JsonNode *root, ApiRequest *request);

/* The same for a text.  The request keeps pointers into text. */
extern bool request_parse(Arena *arena, const char *text, size_t len, ApiRequest *request);

/* First value of a query parameter; NULL when absent. */
extern const char *request_query(Arena *arena, const ApiRequest *request, const char *key);

/* A boolean parameter, as Kubernetes reads it (REQ-03): absent, "0" and "false" in upper or lower case are false. */
extern bool request_query_bool(Arena *arena, const ApiRequest *request, const char *key);

/* Reads a number as Go's strconv.ParseInt(text, 10, 64); returns false and sets *error to Go's message for others. */
extern bool parse_go_int(Arena *arena, const char *text, int64_t *value, const char **error);

/* Reads a resource version as Go's strconv.ParseUint does.  A version beyond int64 becomes the largest int64. */
extern bool parse_go_version(Arena *arena, const char *text, int64_t *value, const char **error);

/* The form of the answer.  The proxy passes it as a token: "object", "partial/v1", "table/v1/Metadata" ... */
typedef enum TransformKind
{
	TRANSFORM_OBJECT,
	TRANSFORM_PARTIAL,			/* PartialObjectMetadata(List) */
	TRANSFORM_TABLE,
	TRANSFORM_DELETED			/* the Status of a deletion; clients cannot request it */
} TransformKind;

typedef enum IncludeObject
{
	INCLUDE_METADATA,
	INCLUDE_OBJECT,
	INCLUDE_NONE
} IncludeObject;

typedef struct Transform
{
	TransformKind kind;
	bool		beta;			/* meta.k8s.io/v1beta1 instead of v1 */
	IncludeObject include;		/* tables only */
	bool		columns;		/* tables of a watch: with columnDefinitions (its first event) */
	bool		pretty;
} Transform;

/*
 * Evaluates the Accept header, includeObject and pretty (NEG-01..05, TAB-01, PART-01..02, REQ-10) for an answer that is
 * one object (list false) or a list.  False with a Status in reply and *code when no form is possible (406, 400).
 */
extern bool request_negotiate(Arena *arena, const ApiRequest *request, bool list, bool watch,
							  Transform *transform, int *code, StrBuf *reply);

/*
 * The media type that an Accept header chooses by the same rules, for one object (list false), a list, or a failure,
 * which has no transforms.  JSON if no clause fits.  The extension answers in JSON; the proxy converts to YAML.
 */
typedef enum MediaType
{
	MEDIA_JSON,
	MEDIA_YAML
} MediaType;

extern MediaType request_media_type(const char *accept, bool list, bool failure);

/*
 * REQ-10: whether to indent an answer in JSON, by the same rules.  The extension indents objects and lists; the proxy
 * indents failures and documents that it caches, such as discovery.  accept, parameter (pretty) and user_agent may be
 * NULL.
 */
extern bool request_is_pretty(const char *accept, bool list, bool failure, const char *parameter,
							  const char *user_agent);

/* Convert a transform to a token and back; the proxy keeps tokens without interpreting them. */
extern char *transform_token(Arena *arena, const Transform *transform);
extern bool transform_parse(const char *token, Transform *transform);

/* list and watch options, checked as metainternalversion validation does (LIST-10..13, PAGE-01..06, WL-01..05). */
typedef enum VersionMatch
{
	VERSION_MOST_RECENT,		/* the current state */
	VERSION_ANY,				/* resourceVersion=0 */
	VERSION_NOT_OLDER,
	VERSION_EXACT
} VersionMatch;

typedef struct ListOptions
{
	const char *label_selector; /* "" for none; syntax already checked */
	const char *field_name;		/* metadata.name=, or NULL */
	const char *field_selector; /* "" for none */
	int64_t		limit;			/* 0: none */
	bool		has_continue;
	int64_t		continue_version;	/* -1: inconsistent continue, at the current version */
	const char *continue_namespace; /* last key returned */
	const char *continue_name;
	VersionMatch match;
	int64_t		version;
	/* watches */
	bool		initial_events; /* send synthetic ADDED events first */
	bool		initial_bookmark;	/* then send the bookmark that ends them */
	bool		from_now;		/* no version and no initial events: start at the current version */
	bool		bookmarks;
	int64_t		timeout_seconds;	/* 0: none given */
} ListOptions;

/* Reads the resourceVersion of a get; 0 if absent.  Returns false with a Status in reply and *code if it is invalid. */
extern bool request_get_version(Arena *arena, const ApiRequest *request, int64_t *version, int *code, StrBuf *reply);

/* Reads the options of a list or a watch.  Returns false with a Status in reply and *code if they are invalid. */
extern bool request_list_options(Arena *arena, const ApiRequest *request, bool namespaced, bool watch,
								 ListOptions *options, int *code, StrBuf *reply);

/*
 * The token of the next page (PAGE-01): base64url of {"v":"meta.k8s.io/v1","rv":N,"start":"ns/name\u0000"}.
 * root_namespace is the namespace of the list, or "" for a list over all namespaces.
 */
extern char *continue_token(Arena *arena, int64_t version, bool namespaced, const char *root_namespace,
							const char *last_namespace, const char *last_name);

#endif							/* REQUEST_H */
