/*-------------------------------------------------------------------------
 *
 * accept.c
 *	  The clauses of an Accept header.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/api/accept.h"

#include <stdlib.h>
#include <string.h>

JsonText
accept_trim(JsonText text)
{
	while (text.len > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t'))
	{
		text.bytes++;
		text.len--;
	}
	while (text.len > 0 && (text.bytes[text.len - 1] == ' ' || text.bytes[text.len - 1] == '\t'))
		text.len--;
	return text;
}

JsonText
accept_cut(JsonText text, char separator, JsonText *rest)
{
	const char *found = text.len > 0 ? memchr(text.bytes, separator, text.len) : NULL;
	JsonText	head = text;

	rest->bytes = NULL;
	rest->len = 0;
	if (found != NULL)
	{
		head.len = (size_t) (found - text.bytes);
		rest->bytes = found + 1;
		rest->len = text.len - head.len - 1;
	}
	return head;
}

bool
accept_parameter(JsonText *parameters, JsonText *name, JsonText *value)
{
	while (parameters->bytes != NULL)
	{
		JsonText	rest;
		JsonText	parameter = accept_cut(*parameters, ';', &rest);

		*parameters = rest;
		*name = accept_trim(accept_cut(parameter, '=', value));
		if (value->bytes == NULL)
			continue;
		*value = accept_trim(*value);
		return true;
	}
	return false;
}

bool
accept_quality(JsonText text, double *quality)
{
	char		copy[32];
	char	   *end;
	double		value;

	if (text.len == 0 || text.len >= sizeof(copy))
		return false;
	memcpy(copy, text.bytes, text.len);
	copy[text.len] = '\0';
	value = strtod(copy, &end);
	if (*end != '\0' || value != value)
		return false;
	*quality = value;
	return true;
}

bool
accept_clause(JsonText *rest, AcceptClause *clause)
{
	JsonText	whole;
	JsonText	parameters;
	JsonText	name;
	JsonText	value;

	if (rest->bytes == NULL)
		return false;
	whole = accept_cut(*rest, ',', rest);
	clause->range = accept_trim(accept_cut(whole, ';', &clause->parameters));
	clause->quality = 1.0;
	parameters = clause->parameters;
	while (accept_parameter(&parameters, &name, &value))
		if (json_text_is(name, "q") && !accept_quality(value, &clause->quality))
			clause->quality = 1.0;
	return true;
}
