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

/*
 * Reads DeleteOptions and returns them as the object that they form in JSON.  Strings of the object point into bytes.
 * Returns NULL and sets *error if the message cannot be read.
 */
extern JsonNode *delete_options_read_proto(Arena *arena, const char *bytes, size_t len, const char **error);

#endif							/* DELETE_PROTO_H */
