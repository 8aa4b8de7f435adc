/*-------------------------------------------------------------------------
 *
 * status.h
 *	  The status with which a call ends: gRPC codes, and which error of the database becomes which code.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_STATUS_H
#define GRPC_STATUS_H

#include "db/pg.h"
#include "grpc/connection.h"

/* Status codes of gRPC, with their numbers. */
typedef enum StatusCode
{
	STATUS_OK = 0,
	STATUS_CANCELLED = 1,
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_DEADLINE_EXCEEDED = 4,
	STATUS_NOT_FOUND = 5,
	STATUS_ALREADY_EXISTS = 6,
	STATUS_PERMISSION_DENIED = 7,
	STATUS_RESOURCE_EXHAUSTED = 8,
	STATUS_FAILED_PRECONDITION = 9,
	STATUS_ABORTED = 10,
	STATUS_UNIMPLEMENTED = 12,
	STATUS_INTERNAL = 13,
	STATUS_UNAVAILABLE = 14,
	STATUS_UNAUTHENTICATED = 16,
	STATUS_CODES				/* one more than the largest code */
} StatusCode;

/* A field that is wrong. */
typedef struct StatusField
{
	const char *path;			/* path, such as results[3].rule */
	const char *description;
} StatusField;

typedef struct CallStatus
{
	StatusCode	code;
	const char *message;
	const StatusField *fields;
	size_t		field_count;
	int			retry_ms;		/* milliseconds after which the client may try again; 0: not told */
} CallStatus;

/* The usual retry_ms. */
#define STATUS_RETRY_MS 1000

#define STATUS_TRAILERS 4		/* largest number of trailers */

/* Returns the name of a code, such as UNAVAILABLE. */
extern const char *status_name(StatusCode code);

/* Returns the status for a statement that did not succeed, and logs the error, which only the operator may see. */
extern CallStatus status_of_outcome(Arena *arena, PgOutcome outcome, const PgError *error);

/*
 * Returns the status for an answer of api_forward() (code, and a document Status) that is not 200.  name_field converts
 * a JSON pointer into the document to the path of a field of the message.
 */
extern CallStatus status_of_reply(Arena *arena, int code, JsonText reply,
								  const char *(*name_field) (Arena *arena, const char *pointer));

/* Writes the trailers of a status, at most STATUS_TRAILERS; returns how many there are. */
extern size_t status_trailers(Arena *arena, const CallStatus *status, StreamHeader *trailers);

#endif							/* GRPC_STATUS_H */
