/*-------------------------------------------------------------------------
 *
 * service.h
 *	  The methods that senders call, and the health of the server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GRPC_SERVICE_H
#define GRPC_SERVICE_H

#include "grpc/call.h"

/* The methods to pass to calls_start(). */
extern const CallMethod service_methods[];

/* Whether batches can be stored; if not, *why has the reason. */
extern bool service_ready(const char **why);

#endif							/* GRPC_SERVICE_H */
