/*-------------------------------------------------------------------------
 *
 * render.h
 *	  The bytes of answers: objects, partial objects, tables, lists, events.
 *
 * Full objects are assembled from the stored texts without parsing.
 * Reference: k8s-conformance sections 9.2, 11, 15.1; MODEL-01, MODEL-03.
 *
 *-------------------------------------------------------------------------
 */
#ifndef RENDER_H
#define RENDER_H

#include "engine/schema/definition.h"
#include "engine/api/request.h"

/*
 * Renders one object in the form of the transform, without a newline at the end.  With version 0 the object gets no
 * resourceVersion.  metadata and body are the stored texts; body may be empty (len 0) if render_needs_body() is false.
 * An event is never pretty.  A table is a Table document of one row, with columnDefinitions unless this is an event
 * with transform->columns false.
 */
extern void render_object(StrBuf *buf, const Definition *definition, const Transform *transform, bool event,
						  JsonText metadata, JsonText body, int64_t version, int64_t now);

/* An item of a list: the object, the partial object, or the table row. */
extern void render_item(StrBuf *buf, const Definition *definition, const Transform *transform,
						JsonText metadata, JsonText body, int64_t version, int64_t now);

/*
 * Whether items are rendered from copies of the stored texts, without parsing them.  Of the definition, such an item
 * needs only api_version and kind.  So the proxy, which has no definitions, can render the item.
 */
extern bool render_splices(const Transform *transform);

/* Whether the transform reads the body at all (metadata-only lists must not). */
extern bool render_needs_body(const Definition *definition, const Transform *transform);

/*
 * The text before the first item, between two items, and after the last item.  In every transform the metadata of the
 * list follows the items: the server can send items before it knows whether another page follows.  If remaining is
 * below 0, the number of remaining items is unknown and omitted.  If continue_token is "", no page follows.  The tail
 * ends in a newline.
 */
extern void render_list_head(StrBuf *buf, const Definition *definition, const Transform *transform);
extern const char *render_list_separator(const Transform *transform);
extern void render_list_tail(StrBuf *buf, const Definition *definition, const Transform *transform, int64_t version,
							 const char *continue_token, int64_t remaining);

/* render_object() within {"type":"ADDED","object": ... }\n */
extern void render_event(StrBuf *buf, const char *type, const Definition *definition, const Transform *transform,
						 JsonText metadata, JsonText body, int64_t version, int64_t now);

/* The bookmark frame of a watch, with a newline; initial_end adds k8s.io/initial-events-end. */
extern void render_bookmark(StrBuf *buf, const Definition *definition, const Transform *transform,
							int64_t version, bool initial_end);

#endif							/* RENDER_H */
