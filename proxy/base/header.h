/*-------------------------------------------------------------------------
 *
 * header.h
 *	  One header line of a request or of an answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef HEADER_H
#define HEADER_H

typedef struct HttpHeader
{
	const char *name;			/* lower case */
	const char *value;
} HttpHeader;

#endif							/* HEADER_H */
