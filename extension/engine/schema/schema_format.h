/*-------------------------------------------------------------------------
 *
 * schema_format.h
 *	  Declarations shared by the files schema_format*.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SCHEMA_FORMAT_H
#define SCHEMA_FORMAT_H

#include <strings.h>

#include "engine/schema/schema_private.h"

/* Whether a text has the format; sloppy allows leading zeros in addresses, as Go did before 1.17. */
extern bool format_is_ip(JsonText text, bool sloppy);
extern bool format_is_uri(JsonText text);
extern bool format_is_email(JsonText text);

#endif							/* SCHEMA_FORMAT_H */
