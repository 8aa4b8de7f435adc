/*-------------------------------------------------------------------------
 *
 * delete_proto.h
 *	  DeleteOptions in protobuf, as typed clients send them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DELETE_PROTO_H
#define DELETE_PROTO_H

#include "engine/base/json.h"

#define PROTOBUF_TYPE "application/vnd.kubernetes.protobuf"

/* The options as the object that they are in JSON, pointing into bytes; NULL with *error. */
extern JsonNode *delete_options_read_proto(Arena *arena, const char *bytes, size_t len, const char **error);

#endif							/* DELETE_PROTO_H */
