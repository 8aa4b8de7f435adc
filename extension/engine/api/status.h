/*-------------------------------------------------------------------------
 *
 * status.h
 *	  Kubernetes Status documents and field errors, in upstream's words.
 *
 * Reference: k8s-conformance section 6 (ERR-01 to ERR-24).
 *
 *-------------------------------------------------------------------------
 */
#ifndef STATUS_H
#define STATUS_H

#include "engine/base/json.h"

/*
 * A place in a document, linked from the leaf to the root.  It lives on the stack of the function that visits the
 * document.
 */
typedef struct FieldPath
{
	const struct FieldPath *parent; /* NULL at the root */
	JsonText	key;			/* a member, when index < 0 */
	int64_t		index;			/* an element [index], when >= 0 */
	bool		bracket;		/* print the key as [key], as field.Path.Key does */
} FieldPath;

/* Longer paths are cut between characters: clients choose the keys, and one key may be in many paths. */
#define FIELD_PATH_MAX (16 * 1024)

/* "spec.results[0].foo"; "" for NULL.  Children of the root have no leading dot. */
extern char *field_path_string(Arena *arena, const FieldPath *path);

typedef enum FieldErrorType
{
	FIELD_INVALID,
	FIELD_REQUIRED,
	FIELD_NOT_SUPPORTED,
	FIELD_FORBIDDEN,
	FIELD_DUPLICATE,
	FIELD_NOT_FOUND,
	FIELD_TOO_LONG,
	FIELD_TOO_MANY,
	FIELD_TYPE_INVALID,
	FIELD_INTERNAL
} FieldErrorType;

typedef struct FieldError
{
	FieldErrorType type;
	const char *field;			/* path */
	const char *message;		/* without the field: Invalid value: "v": why */
} FieldError;

/* Errors beyond either limit are dropped, so that the answer to a request is bounded for every document. */
#define FIELD_ERRORS_MAX 1000
#define FIELD_ERRORS_MAX_BYTES (4 * 1024 * 1024)

typedef struct FieldErrorList
{
	Arena	   *arena;
	FieldError *errors;
	size_t		count;
	size_t		capacity;
	size_t		bytes;			/* of all texts */
} FieldErrorList;

/*
 * Called for each field that was dropped because it is not in the schema, in the order of paths: "spec.results[0].foo".
 */
typedef void (*UnknownField) (void *state, const char *path);

/* Unknown fields beyond these limits are not reported. */
#define UNKNOWN_FIELDS_MAX 1000
#define UNKNOWN_FIELDS_MAX_BYTES ((size_t) 1024 * 1024)

/* Makes an empty list; its texts are in the arena. */
extern void field_errors_init(FieldErrorList *list, Arena *arena);

/*
 * Adds an error.  value is printed as Kubernetes 1.34 and later print a bad value (strings quoted as Go's %q, all
 * others as JSON); it is NULL for the types without a value (REQUIRED, FORBIDDEN, TOO_LONG).  detail is the part after
 * the value; NULL or "" for none (DUPLICATE, NOT_FOUND).  For TOO_MANY and TOO_LONG, detail is the whole text after the
 * words of the type ("5: must have at most 3 items", "may not be more than 253 bytes").
 */
extern void field_error(FieldErrorList *list, FieldErrorType type, const FieldPath *path,
						const JsonNode *value, const char *detail);

/* The same with a path that is already text. */
extern void field_error_at(FieldErrorList *list, FieldErrorType type, const char *path,
						   const JsonNode *value, const char *detail);

typedef struct StatusCause
{
	const char *reason;			/* a member that is NULL is left out */
	const char *message;
	const char *field;
} StatusCause;

typedef struct StatusDetails
{
	const char *name;			/* a member that is NULL or "" is left out */
	const char *group;
	const char *kind;
	const char *uid;
	const StatusCause *causes;
	size_t		cause_count;
	int			retry_after_seconds;
} StatusDetails;

/* Appends the Status document and a newline.  details NULL: none.  reason "" is left out. */
extern void status_failure(StrBuf *buf, int code, const char *reason, const char *message,
						   const StatusDetails *details);

/*
 * The Status of a successful delete (DEL-06, DEL-11), without newline.  resource is the plural, version is the version
 * of the deletion or 0.
 */
extern void status_deleted(StrBuf *buf, const char *name, const char *group, const char *resource, const char *uid,
						   int64_t version);

/*
 * 422: "Kind.group \"name\" is invalid: ..." with causes.  kind is the Kind ("Report") or the options' name
 * ("ListOptions" with group "meta.k8s.io").  Every error is a cause; the message lists equal errors once, as upstream
 * does.
 */
extern void status_invalid(StrBuf *buf, const char *kind, const char *group, const char *name,
						   const FieldErrorList *errors);

/* Other common failures; resource is the plural. */
extern void status_not_found(StrBuf *buf, const char *group, const char *resource, const char *name);
extern void status_conflict(StrBuf *buf, const char *group, const char *resource, const char *name, const char *why);
extern void status_bad_request(StrBuf *buf, const char *message);


/*
 * A name in a URL may contain bytes that are not UTF-8, but the request is JSON and cannot contain them.  Therefore the
 * character FOREIGN_BYTE + byte, which Unicode reserves for private use, replaces such a byte.  quote_text() prints the
 * byte, and a Status prints U+FFFD, as Go does.
 */
#define FOREIGN_BYTE 0x10FF00

/* A copy of the text, in which a character replaces each byte that is not UTF-8. */
extern char *foreign_bytes_encode(Arena *arena, const char *text);
extern const char *foreign_bytes_replace(Arena *arena, const char *text);	/* replaces each by U+FFFD */

/* Appends a text quoted as Go's %q quotes it: non-printable characters and bad bytes are escaped. */
extern void quote_text(StrBuf *buf, const char *bytes, size_t len);
extern const char *quoted(Arena *arena, const char *text);	/* the same for a C string */

/* Whether Go considers the code point printable. */
extern bool rune_is_print(uint32_t rune);

#endif							/* STATUS_H */
