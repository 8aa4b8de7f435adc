/*-------------------------------------------------------------------------
 *
 * yaml_tree.h
 *	  A YAML document as a tree, and what its reading may cost.
 *
 * Private to yaml_parse.c, which makes the tree of libyaml's events, and
 * yaml_read.c, which writes it as JSON.  An alias points to the node that it
 * names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef YAML_TREE_H
#define YAML_TREE_H

#include "codec/yaml_text.h"

typedef enum NodeKind
{
	NODE_SCALAR,
	NODE_SEQUENCE,
	NODE_MAPPING,				/* its children are keys and values in turn */
	NODE_ALIAS
} NodeKind;

typedef enum NodeTag
{
	TAG_NONE,
	TAG_NULL,
	TAG_BOOL,
	TAG_INT,
	TAG_FLOAT,
	TAG_BINARY,
	TAG_MERGE,
	TAG_OTHER					/* a string */
} NodeTag;

typedef struct YamlNode YamlNode;

/* 32 bytes: a text may have one for every other byte. */
struct YamlNode
{
	uint8_t		kind;
	uint8_t		tag;
	bool		implicit:1;		/* a scalar without quotes and tag */
	bool		open:1;			/* an alias that is being written */
	bool		resolved:1;		/* a scalar that has been looked at: text is what it stands for */
	bool		is_value:1;		/* then, of one that is no string, value is */
	uint32_t	line;			/* from 1 */
	union
	{
		JsonText	text;
		Scalar		value;
		struct
		{
			YamlNode   *first;
			size_t		count;
		}			children;
		struct
		{
			const char *name;
			YamlNode   *target;
		}			alias;
	}			u;
	YamlNode   *next;			/* in its parent */
};

/*
 * What a text may cost in memory.  libyaml's own comes on top: it keeps the tokens of 1,024 characters, and one scalar.
 */
#define YAML_BYTES_PER_BYTE 50
#define YAML_BYTES_FLOOR ((size_t) 24 * 1024 * 1024)

typedef struct YamlReader
{
	Arena	   *arena;
	size_t		len;			/* of the text */
	size_t		taken;			/* bytes of memory, without those of the JSON's buffer */
	size_t		most;			/* that may be */
	uint64_t	seed;			/* of hashes: nobody can choose what shares a chain */
	const char *error;			/* ends the reading */
} YamlReader;

/* Sets the error unless there is one, with upstream's first word; false. */
extern bool yaml_fail(YamlReader *reader, const char *words);

/* From the arena, counted. */
extern void *yaml_take(YamlReader *reader, size_t size);
extern char *yaml_take_text(YamlReader *reader, const char *bytes, size_t len);

/* False, with the error set, when more has been taken than may be. */
extern bool yaml_within_memory(YamlReader *reader);

extern uint64_t yaml_hash(const YamlReader *reader, const char *bytes, size_t len);

/* The root of the first document; *root is NULL when there is none.  What follows it is not looked at. */
extern bool yaml_parse(YamlReader *reader, const char *text, YamlNode **root);

#endif							/* YAML_TREE_H */
