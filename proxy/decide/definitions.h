/*-------------------------------------------------------------------------
 *
 * definitions.h
 *	  A served type as the engine uses it: definition and mapping, compiled.
 *
 * In a backend, extension/definition_cache.c has the same.  A compiled type
 * does not change, so threads may share it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef DEFINITIONS_H
#define DEFINITIONS_H

#include "engine/results/result.h"
#include "engine/schema/definition.h"

/* A served version of a type, in one lane. */
typedef struct Served
{
	int64_t		definition_id;	/* no other document ever gets this id */
	const Definition *definition;
	int			cluster_id;
	int			type_id;
	bool		namespaced;
	int64_t		mapping_id;		/* 0: the type has no mapping, and its results do not count as current */
	const ResultMapping *mapping;	/* NULL: the same */
	bool		fill_summary;	/* count results if the producer gave no summary */
} Served;

/*
 * Compiles a stored definition into the arena.  NULL with *why when the document is damaged or costs more than its size
 * allows.  The document need not outlive the call.
 */
extern const Definition *definition_read(Arena *arena, JsonText document, const char **why);

/* The same for the mapping of a type. */
extern const ResultMapping *mapping_read(Arena *arena, JsonText document, const char **why);

#endif							/* DEFINITIONS_H */
