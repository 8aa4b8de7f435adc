/*-------------------------------------------------------------------------
 *
 * field_owner.c
 *	  Owners of the fields of an object: metadata.managedFields.
 *
 * Entries of other versions of the type are compared with the schema of the
 * version that the write uses: a conversion between versions changes only
 * apiVersion.
 *
 * Reference: k8s-conformance section 13.4; apimachinery's managedfields.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/fields/field_owner_private.h"

#include <stdlib.h>
#include <string.h>

#include "engine/api/metadata.h"

/* More entries are refused: objects have far fewer owners, and every change is compared with each entry. */
#define OWNERS_MAX 1000

/* The number of entries of updates above which the oldest ones are merged (MF-07). */
#define UPDATERS_MAX 10
#define ANCIENT_OWNER "ancient-changes"

static JsonText
member_text(const JsonNode *object, const char *key)
{
	const JsonNode *node = json_get(object, key);

	return node != NULL && node->kind == JSON_KIND_STRING ? node->u.string : (JsonText) {"", 0};
}

static JsonText
text_of(const char *string)
{
	return (JsonText) {string, strlen(string)};
}

/*
 * Entries
 */

static void
append_identity(StrBuf *buf, const char *key, JsonText value)
{
	JsonNode	node = {.kind = JSON_KIND_STRING, .u.string = value};

	if (value.len == 0)
		return;
	strbuf_printf(buf, "%s\"%s\":", buf->len > 1 ? "," : "", key);
	json_write_html(buf, &node);
}

/* Makes the identity of an owner.  Owners are reported and merged in the order of these bytes. */
static void
identify(Arena *arena, FieldOwner *owner)
{
	StrBuf		buf;

	strbuf_init(&buf, arena);
	strbuf_putc(&buf, '{');
	append_identity(&buf, "manager", owner->name);
	append_identity(&buf, "operation", text_of(owner->applied ? "Apply" : "Update"));
	if (!owner->applied)
		append_identity(&buf, "apiVersion", owner->api_version);
	append_identity(&buf, "subresource", owner->subresource);
	strbuf_putc(&buf, '}');
	owner->identity = (JsonText) {buf.bytes, buf.len};
}

static bool
read_owner(Arena *arena, const JsonNode *entry, size_t position, FieldOwner *owner, const char **error)
{
	JsonText	operation = member_text(entry, "operation");
	JsonText	fields_type = member_text(entry, "fieldsType");

	owner->name = member_text(entry, "manager");
	owner->api_version = member_text(entry, "apiVersion");
	owner->subresource = member_text(entry, "subresource");
	owner->applied = json_text_is(operation, "Apply");
	owner->time = json_get(entry, "time");
	owner->seconds = 0;
	if (owner->time != NULL && !parse_time(owner->time->u.string, &owner->seconds))
		owner->time = NULL;
	*error = NULL;
	if (!owner->applied && !json_text_is(operation, "Update"))
		*error = "operation must be `Apply` or `Update`";
	else if (owner->api_version.len == 0)
		*error = "apiVersion must not be empty";
	else if (fields_type.len == 0)
		*error = arena_printf(arena, "missing fieldsType in managed fields entry %zu", position);
	else if (!json_text_is(fields_type, "FieldsV1"))
		*error = arena_printf(arena, "invalid fieldsType in managed fields entry %zu", position);
	if (*error != NULL)
		return false;
	owner->fields = field_set_parse(arena, json_get(entry, "fieldsV1"), error);
	if (*error != NULL)
	{
		*error = arena_printf(arena, "error decoding set: %s", *error);
		return false;
	}
	identify(arena, owner);
	return true;
}

/* The position of an owner, or the position to insert it at. */
static size_t
find_owner(const FieldOwners *owners, JsonText identity, bool *found)
{
	return json_text_search(owners->list, owners->count, sizeof(FieldOwner), identity, found);
}

/* Inserts an owner at its position, or replaces the owner with the same identity. */
static FieldOwner *
put_owner(Arena *arena, FieldOwners *owners, const FieldOwner *owner)
{
	bool		found;
	size_t		at = find_owner(owners, owner->identity, &found);

	/* The static analyzer does not know that nothing is found in an empty list. */
	if (owners->count == 0 || !found)
	{
		owners->list = arena_grow(arena, owners->list, owners->count, sizeof(FieldOwner), &owners->capacity);
		memmove(owners->list + at + 1, owners->list + at, (owners->count - at) * sizeof(FieldOwner));
		owners->count++;
	}
	owners->list[at] = *owner;
	return &owners->list[at];
}

bool
field_owners_read(Arena *arena, const JsonNode *entries, FieldOwners *owners, const char **error)
{
	*owners = (FieldOwners) {0};
	if (entries == NULL)
		return true;
	if (entries->u.array.count > OWNERS_MAX)
	{
		*error = arena_printf(arena, "more than %d entries", OWNERS_MAX);
		return false;
	}
	for (size_t i = 0; i < entries->u.array.count; i++)
	{
		FieldOwner	owner;

		if (!read_owner(arena, entries->u.array.items[i], i, &owner, error))
			return false;
		put_owner(arena, owners, &owner);
	}
	return true;
}

/* Orders entries as they are stored (MF-06). */
static int
compare_stored(const void *a, const void *b)
{
	const FieldOwner *left = a;
	const FieldOwner *right = b;
	int			order;

	if (left->applied != right->applied)
		return left->applied ? -1 : 1;
	if (left->seconds != right->seconds)
		return left->seconds < right->seconds ? -1 : 1;
	order = json_text_compare(left->name, right->name);
	if (order == 0)
		order = json_text_compare(left->api_version, right->api_version);
	return order != 0 ? order : json_text_compare(left->subresource, right->subresource);
}

static void
set_text(Arena *arena, JsonNode *entry, const char *key, JsonText value)
{
	if (value.len > 0)
		json_set(arena, entry, key, json_new_string(arena, value.bytes, value.len));
}

void
field_owners_store(Arena *arena, FieldOwners *owners, JsonNode *document)
{
	JsonNode   *metadata = json_get(document, "metadata");
	JsonNode   *entries = json_new_array(arena);

	if (owners->count == 0)
	{
		json_remove(metadata, "managedFields");
		return;
	}
	qsort(owners->list, owners->count, sizeof(FieldOwner), compare_stored);
	for (size_t i = 0; i < owners->count; i++)
	{
		const FieldOwner *owner = &owners->list[i];
		JsonNode   *entry = json_new_object(arena);

		set_text(arena, entry, "apiVersion", owner->api_version);
		set_text(arena, entry, "fieldsType", text_of("FieldsV1"));
		json_set(arena, entry, "fieldsV1", field_set_print(arena, owner->fields));
		set_text(arena, entry, "manager", owner->name);
		set_text(arena, entry, "operation", text_of(owner->applied ? "Apply" : "Update"));
		set_text(arena, entry, "subresource", owner->subresource);
		if (owner->time != NULL)
			json_set(arena, entry, "time", owner->time);
		json_append(arena, entries, entry);
	}
	json_set(arena, metadata, "managedFields", entries);
}

FieldOwner *
field_owners_claim(const FieldWrite *write, FieldOwners *owners, const char *name, bool applied)
{
	FieldOwner	owner = {
		.name = text_of(name[0] != '\0' ? name : "unknown"), .api_version = text_of(write->api_version),
		.subresource = text_of(write->subresource), .applied = applied
	};
	bool		found;
	size_t		at;

	identify(write->arena, &owner);
	at = find_owner(owners, owner.identity, &found);
	return found ? &owners->list[at] : put_owner(write->arena, owners, &owner);
}

void
field_owners_drop_empty(FieldOwners *owners)
{
	size_t		kept = 0;

	for (size_t i = 0; i < owners->count; i++)
		if (owners->list[i].fields != NULL)
			owners->list[kept++] = owners->list[i];
	owners->count = kept;
}

void
field_owner_touch(const FieldWrite *write, FieldOwner *owner)
{
	owner->time = json_new_cstring(write->arena, format_time(write->arena, write->now));
	owner->seconds = write->now;
}

/*
 * Fields that a write cannot change or own
 */

const FieldSet *
field_without_reset(const FieldWrite *write, const FieldSet *set)
{
	static const char *const main_reset[] = {"f:status", NULL};
	static const char *const status_reset[] = {"f:metadata", "f:spec", NULL};
	const char *const *reset = write->subresource[0] != '\0' ? status_reset : main_reset;
	FieldSet   *result = NULL;

	if (!write->status_subresource || set == NULL)
		return set;
	for (size_t i = 0; i < set->count; i++)
	{
		const FieldEntry *entry = &set->entries[i];
		bool		kept = true;

		for (size_t r = 0; reset[r] != NULL; r++)
			kept &= !json_text_is(entry->element, reset[r]);
		if (kept)
			field_set_add(write->arena, &result, entry->element, entry->member, entry->below);
	}
	return result;
}

#define UNOWNED(name) {{"f:" name, sizeof("f:" name) - 1}, true, NULL}

const FieldSet *
field_without_unowned(Arena *arena, const FieldSet *set)
{
	static FieldEntry metadata_entries[] = {
		UNOWNED("clusterName"), UNOWNED("creationTimestamp"), UNOWNED("generation"), UNOWNED("managedFields"),
		UNOWNED("name"), UNOWNED("namespace"), UNOWNED("resourceVersion"), UNOWNED("selfLink"), UNOWNED("uid")
	};
	static const FieldSet metadata = {metadata_entries, sizeof(metadata_entries) / sizeof(metadata_entries[0]), 0};
	static FieldEntry entries[] = {
		UNOWNED("apiVersion"), UNOWNED("kind"), {{"f:metadata", 10}, true, &metadata}
	};
	static const FieldSet unowned = {entries, sizeof(entries) / sizeof(entries[0]), 0};

	return field_set_difference(arena, set, &unowned);
}

/*
 * Updates
 */

void
field_owners_reconcile(const FieldWrite *write, FieldOwners *owners)
{
	for (size_t i = 0; i < owners->count; i++)
		owners->list[i].fields = field_reconcile(write->arena, write->type, owners->list[i].fields);
}

bool
field_owners_update(const FieldWrite *write, FieldOwners *owners, const char *name, const JsonNode *live,
					const JsonNode *document, const char **error)
{
	Arena	   *arena = write->arena;
	FieldComparison comparison;
	const FieldSet *changed;
	const FieldSet *removed;
	FieldOwner *owner;

	field_owners_reconcile(write, owners);
	if (!field_compare(arena, write->type, live, document, &comparison, error))
		return false;
	changed = field_without_reset(write, field_set_union(arena, comparison.modified, comparison.added));
	removed = field_without_reset(write, comparison.removed);
	for (size_t i = 0; i < owners->count; i++)
	{
		const FieldSet *kept = owners->list[i].fields;

		kept = field_set_difference(arena, kept, field_set_intersection(arena, kept, changed));
		owners->list[i].fields = field_set_difference(arena, kept, removed);
	}
	field_owners_drop_empty(owners);
	changed = field_without_unowned(arena, changed);
	if (changed == NULL)
		return true;
	owner = field_owners_claim(write, owners, name, false);
	owner->fields = field_set_union(arena, changed, owner->fields);
	field_owner_touch(write, owner);
	return true;
}

/* Orders owners by their times, the oldest first. */
static int
compare_age(const void *a, const void *b)
{
	const FieldOwner *left = *(const FieldOwner *const *) a;
	const FieldOwner *right = *(const FieldOwner *const *) b;

	if (left->seconds != right->seconds)
		return left->seconds < right->seconds ? -1 : 1;
	return json_text_compare(left->identity, right->identity);
}

/* Owners of one version that are merged into one. */
typedef struct Bucket
{
	JsonText	api_version;
	FieldOwner *first;			/* becomes the merged owner, unless ANCIENT_OWNER already exists */
	FieldOwner *last;
	const FieldSet **sets;
	size_t		count;
} Bucket;

/*
 * MF-07: if there are more updaters than the limit, merges the oldest updaters of each version into one owner.  An
 * updater stays as it is if no other updater of its version is merged.  Afterwards the list is no longer sorted.
 */
static void
cap_updaters(const FieldWrite *write, FieldOwners *owners)
{
	Arena	   *arena = write->arena;
	FieldOwner **updaters = arena_alloc(arena, (owners->count + 1) * sizeof(FieldOwner *));
	Bucket	   *buckets;
	size_t		count = 0;
	size_t		bucket_count = 0;
	size_t		left;

	for (size_t i = 0; i < owners->count; i++)
		if (!owners->list[i].applied)
			updaters[count++] = &owners->list[i];
	if (count <= UPDATERS_MAX)
		return;
	qsort(updaters, count, sizeof(FieldOwner *), compare_age);
	buckets = arena_alloc0(arena, count * sizeof(Bucket));
	left = count;
	for (size_t i = 0; i < count && left > UPDATERS_MAX; i++)
	{
		Bucket	   *bucket = buckets;

		while (bucket < buckets + bucket_count &&
			   json_text_compare(bucket->api_version, updaters[i]->api_version) != 0)
			bucket++;
		if (bucket == buckets + bucket_count)
		{
			bucket->api_version = updaters[i]->api_version;
			bucket->first = updaters[i];
			bucket->sets = arena_alloc(arena, (count + 1) * sizeof(FieldSet *));
			bucket_count++;
			continue;
		}
		bucket->last = updaters[i];
		bucket->sets[bucket->count++] = updaters[i]->fields;
		updaters[i]->fields = NULL;
		left--;
	}
	for (Bucket *bucket = buckets; bucket < buckets + bucket_count; bucket++)
	{
		FieldOwner	merged = {.name = text_of(ANCIENT_OWNER), .api_version = bucket->api_version};
		FieldOwner *old = NULL;

		if (bucket->last == NULL)
			continue;
		merged.time = bucket->last->time;
		merged.seconds = bucket->last->seconds;
		identify(arena, &merged);
		for (size_t i = 0; i < count && old == NULL; i++)
			if (json_text_compare(updaters[i]->identity, merged.identity) == 0)
				old = updaters[i];
		if (old == NULL)
			old = bucket->first;
		bucket->sets[bucket->count++] = old->fields;
		merged.fields = field_set_union_all(arena, bucket->sets, bucket->count);
		*old = merged;
	}
	field_owners_drop_empty(owners);
}

static bool
is_empty_entry(const JsonNode *entry)
{
	return entry->kind == JSON_KIND_OBJECT && entry->u.object.count == 0;
}

static bool
is_reset(const JsonNode *entries)
{
	return entries != NULL && (entries->u.array.count == 0 ||
							   (entries->u.array.count == 1 && is_empty_entry(entries->u.array.items[0])));
}

/* MF-08: the owners that the client sent if they can be read, else the owners of the stored object. */
static void
choose_owners(const FieldWrite *write, const JsonNode *document, const JsonNode *live, FieldOwners *owners)
{
	const JsonNode *given = json_path(document, "metadata", "managedFields", NULL);
	const char *error;

	if (write->subresource[0] == '\0')
	{
		if (is_reset(given))
		{
			*owners = (FieldOwners) {0};
			return;
		}
		if (field_owners_read(write->arena, given, owners, &error) && owners->count > 0)
			return;
	}
	if (!field_owners_read(write->arena, json_path(live, "metadata", "managedFields", NULL), owners, &error))
		*owners = (FieldOwners) {0};
}

void
field_owner_update(const FieldWrite *write, JsonNode *document, const JsonNode *live)
{
	JsonNode   *stored = json_path(live, "metadata", "managedFields", NULL);
	FieldOwners owners;
	const char *error;

	choose_owners(write, document, live, &owners);

	/* An object without owners stays without owners until the first apply. */
	if (owners.count > 0 || live == NULL)
	{
		if (!field_owners_update(write, &owners, write->owner, live, document, &error))
		{
			if (stored != NULL)
				json_set(write->arena, json_get(document, "metadata"), "managedFields", stored);
			else
				json_remove(json_get(document, "metadata"), "managedFields");
			return;
		}
		cap_updaters(write, &owners);
	}
	field_owners_store(write->arena, &owners, document);
}

/*
 * Managed fields as they are written
 */

bool
field_owners_are_sound(Arena *arena, const JsonNode *entries)
{
	FieldOwners owners;
	const char *error;

	return field_owners_read(arena, entries, &owners, &error) && owners.count > 0;
}

static bool
equal_but_time(const JsonNode *a, const JsonNode *b)
{
	size_t		left = 0;
	size_t		right = 0;

	for (;; left++, right++)
	{
		const JsonMember *old;
		const JsonMember *new;

		while (left < a->u.object.count && json_text_is(a->u.object.members[left].key, "time"))
			left++;
		while (right < b->u.object.count && json_text_is(b->u.object.members[right].key, "time"))
			right++;
		if (left == a->u.object.count || right == b->u.object.count)
			return left == a->u.object.count && right == b->u.object.count;
		old = &a->u.object.members[left];
		new = &b->u.object.members[right];
		if (json_text_compare(old->key, new->key) != 0 || !json_same(old->value, new->value))
			return false;
	}
}

bool
field_owners_equal_but_times(const JsonNode *a, const JsonNode *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	if (a->u.array.count != b->u.array.count)
		return false;
	for (size_t i = 0; i < a->u.array.count; i++)
		if (!equal_but_time(a->u.array.items[i], b->u.array.items[i]))
			return false;
	return true;
}
