/*-------------------------------------------------------------------------
 *
 * yaml_tree.h
 *	  A YAML document as a tree, and limits for reading it.
 *
 * Private to yaml_parse.c, which builds the tree from libyaml's events, and
 * yaml_read.c, which writes it as JSON.  An alias points to its target node.
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

/* A node has 32 bytes: a text may have one node for every two bytes. */
struct YamlNode
{
	uint8_t		kind;
	uint8_t		tag;
	bool		implicit:1;		/* a scalar without quotes and tag */
	bool		open:1;			/* an alias that is being written */
	bool		resolved:1;		/* a resolved scalar: u.text is its string */
	bool		is_value:1;		/* a resolved scalar that is not a string: u.value is its value */
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
	YamlNode   *next;			/* the next node in the same parent */
};

/*
 * Limit for the memory that reading a text takes.  libyaml's own memory is not included: the tokens of 1,024 characters
 * and one scalar.
 */
#define YAML_BYTES_PER_BYTE 50
#define YAML_BYTES_FLOOR ((size_t) 24 * 1024 * 1024)

typedef struct YamlReader
{
	Arena	   *arena;
	size_t		len;			/* length of the text */
	size_t		taken;			/* bytes of memory taken, without the buffer of the JSON */
	size_t		most;			/* limit for taken */
	uint64_t	seed;			/* seed of hashes, so that a client cannot choose names that share a chain */
	const char *error;			/* the first error, which ends the reading */
} YamlReader;

/* Sets the error, prefixed with upstream's "yaml: ", unless an error is set.  Returns false. */
extern bool yaml_fail(YamlReader *reader, const char *words);

/* Take memory from the arena and count it. */
extern void *yaml_take(YamlReader *reader, size_t size);
extern char *yaml_take_text(YamlReader *reader, const char *bytes, size_t len);

/* Returns false and sets the error when more memory was taken than allowed. */
extern bool yaml_within_memory(YamlReader *reader);

extern uint64_t yaml_hash(const YamlReader *reader, const char *bytes, size_t len);

/* Parses the first document; *root is NULL when there is none.  The text after it is ignored. */
extern bool yaml_parse(YamlReader *reader, const char *text, YamlNode **root);

#endif							/* YAML_TREE_H */
