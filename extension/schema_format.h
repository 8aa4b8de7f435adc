/*-------------------------------------------------------------------------
 *
 * schema_format.h
 *	  What the files schema_format*.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_FORMAT_H
#define SCHEMA_FORMAT_H

#include <strings.h>

#include "schema_private.h"

extern int	format_hex_digit(char c);	/* -1 when it is none */
extern bool format_is_ip(JsonText text, bool sloppy);
extern bool format_is_uri(JsonText text);
extern bool format_is_email(JsonText text);

#endif							/* SCHEMA_FORMAT_H */
