/*-------------------------------------------------------------------------
 *
 * registration.c
 *	  APIServices as documents: their contents, and the merge patches that change them.
 *
 * For a CRD, kube-apiserver creates an APIService without a service.  Its
 * label automanaged decides who controls it.  While the label is "true", the
 * autoregister controller of kube-apiserver restores the spec of the CRD
 * whenever it differs, and deletes the APIService when there is no such CRD.
 * With any other value, or without the label, the controller does not change
 * the APIService (kube-aggregator, autoregister_controller.go; "onstart" is
 * for compiled-in groups).  An applied manifest that does not mention the
 * label keeps it, so the label must be "false".  When a CRD has no APIService,
 * the controller creates one at once.
 *
 *-------------------------------------------------------------------------
 */
#include "cluster/registration.h"

#include <string.h>

#define AUTOMANAGED "kube-aggregator.kubernetes.io/automanaged"

/* The values that kube-apiserver uses for CRDs. */
#define GROUP_PRIORITY 1000
#define VERSION_PRIORITY 100

/* ---------- reading ---------- */

static int
integer_of(const JsonNode *object, const char *key, int otherwise)
{
	const JsonNode *node = json_get(object, key);

	if (node == NULL || node->kind != JSON_KIND_INTEGER || node->u.integer < 0 || node->u.integer > 65535)
		return otherwise;
	return (int) node->u.integer;
}

static const char *
text_of(Arena *arena, const JsonNode *object, const char *key)
{
	const char *text = json_get_cstring(arena, object, key);

	return text == NULL ? "" : text;
}

static void
read_condition(Arena *arena, const JsonNode *document, Registration *registration)
{
	const JsonNode *conditions = json_path(document, "status", "conditions", NULL);

	registration->reason = registration->message = "";
	for (size_t i = 0; conditions != NULL && conditions->kind == JSON_KIND_ARRAY && i < conditions->u.array.count; i++)
	{
		const JsonNode *condition = conditions->u.array.items[i];

		if (!json_string_is(json_get(condition, "type"), "Available"))
			continue;
		registration->available = json_string_is(json_get(condition, "status"), "True");
		registration->reason = text_of(arena, condition, "reason");
		registration->message = text_of(arena, condition, "message");
	}
}

bool
registration_read(Arena *arena, const JsonNode *document, Registration *registration)
{
	const JsonNode *metadata = json_get(document, "metadata");
	const JsonNode *spec = json_get(document, "spec");
	const JsonNode *service = json_get(spec, "service");
	const JsonNode *insecure = json_get(spec, "insecureSkipTLSVerify");
	const JsonNode *label = json_get(json_get(metadata, "labels"), AUTOMANAGED);

	memset(registration, 0, sizeof(*registration));
	registration->name = json_get_cstring(arena, metadata, "name");
	registration->uid = json_get_cstring(arena, metadata, "uid");
	registration->resource_version = json_get_cstring(arena, metadata, "resourceVersion");
	registration->is_remote = service != NULL && service->kind == JSON_KIND_OBJECT;
	registration->service.namespace = text_of(arena, service, "namespace");
	registration->service.name = text_of(arena, service, "name");
	registration->service.port = integer_of(service, "port", 443);
	registration->ca_bundle = text_of(arena, spec, "caBundle");
	registration->insecure = insecure != NULL && insecure->kind == JSON_KIND_BOOL && insecure->u.boolean;
	registration->automanaged = json_string_is(label, "true") || json_string_is(label, "onstart");
	registration->group_priority = integer_of(spec, "groupPriorityMinimum", 0);
	registration->version_priority = integer_of(spec, "versionPriority", 0);
	read_condition(arena, document, registration);
	return registration->name != NULL && registration->resource_version != NULL;
}

bool
service_is(const ServiceAddress *service, const ServiceAddress *other)
{
	return strcmp(service->namespace, other->namespace) == 0 && strcmp(service->name, other->name) == 0;
}

const char *
registration_path(Arena *arena, const char *name)
{
	return arena_printf(arena, REGISTRATION_COLLECTION "/%s", name);
}

const char *
registration_name(Arena *arena, const char *group, const char *version)
{
	return arena_printf(arena, "%s.%s", version, group);
}

/* ---------- writing ---------- */

static JsonText
text_of_node(Arena *arena, const JsonNode *node)
{
	StrBuf		text;

	strbuf_init(&text, arena);
	json_write(&text, node);
	return (JsonText) {text.bytes, text.len};
}

static JsonNode *
set_object(Arena *arena, JsonNode *parent, const char *key)
{
	JsonNode   *object = json_new_object(arena);

	json_set(arena, parent, key, object);
	return object;
}

static void
set_text(Arena *arena, JsonNode *object, const char *key, const char *text)
{
	json_set(arena, object, key, json_new_cstring(arena, text));
}

static void
set_label(Arena *arena, JsonNode *metadata, const char *value)
{
	set_text(arena, set_object(arena, metadata, "labels"), AUTOMANAGED, value);
}

/* Returns the root of a patch that applies only to the version that was read. */
static JsonNode *
begin_patch(Arena *arena, const Registration *registration)
{
	JsonNode   *root = json_new_object(arena);

	set_text(arena, set_object(arena, root, "metadata"), "resourceVersion", registration->resource_version);
	return root;
}

/* Sets the members of a spec that leads to our Service. */
static JsonNode *
set_spec(Arena *arena, JsonNode *root, const RegistrationWish *wish)
{
	JsonNode   *spec = set_object(arena, root, "spec");
	JsonNode   *service = set_object(arena, spec, "service");

	set_text(arena, service, "namespace", wish->service.namespace);
	set_text(arena, service, "name", wish->service.name);
	json_set(arena, service, "port", json_new_integer(arena, wish->service.port));
	set_text(arena, spec, "caBundle", wish->ca_bundle);
	return spec;
}

static void
set_priorities(Arena *arena, JsonNode *spec, int group_priority, int version_priority)
{
	json_set(arena, spec, "groupPriorityMinimum", json_new_integer(arena, group_priority));
	json_set(arena, spec, "versionPriority", json_new_integer(arena, version_priority));
}

JsonText
registration_create(Arena *arena, const char *group, const char *version, const RegistrationWish *wish)
{
	JsonNode   *root = json_new_object(arena);
	JsonNode   *metadata = set_object(arena, root, "metadata");
	JsonNode   *spec;

	set_text(arena, root, "apiVersion", "apiregistration.k8s.io/v1");
	set_text(arena, root, "kind", "APIService");
	set_text(arena, metadata, "name", registration_name(arena, group, version));
	/* So that a CRD that is created later does not change this APIService. */
	set_label(arena, metadata, "false");
	spec = set_spec(arena, root, wish);
	set_text(arena, spec, "group", group);
	set_text(arena, spec, "version", version);
	set_priorities(arena, spec, wish->group_priority > 0 ? wish->group_priority : GROUP_PRIORITY,
				   wish->version_priority > 0 ? wish->version_priority : VERSION_PRIORITY);
	return text_of_node(arena, root);
}

bool
registration_is(const Registration *registration, const RegistrationWish *wish)
{
	return registration->is_remote && service_is(&registration->service, &wish->service) &&
		registration->service.port == wish->service.port && strcmp(registration->ca_bundle, wish->ca_bundle) == 0 &&
		!registration->insecure && !registration->automanaged &&
		(wish->group_priority == 0 || wish->group_priority == registration->group_priority) &&
		(wish->version_priority == 0 || wish->version_priority == registration->version_priority);
}

JsonText
registration_take(Arena *arena, const Registration *registration, const RegistrationWish *wish)
{
	JsonNode   *root = begin_patch(arena, registration);
	JsonNode   *spec = set_spec(arena, root, wish);

	set_label(arena, json_get(root, "metadata"), "false");
	json_set(arena, spec, "insecureSkipTLSVerify", json_new_null(arena));
	set_priorities(arena, spec, wish->group_priority > 0 ? wish->group_priority : registration->group_priority,
				   wish->version_priority > 0 ? wish->version_priority : registration->version_priority);
	return text_of_node(arena, root);
}

JsonText
registration_trust(Arena *arena, const Registration *registration, const char *ca_bundle)
{
	JsonNode   *root = begin_patch(arena, registration);

	set_text(arena, set_object(arena, root, "spec"), "caBundle", ca_bundle);
	return text_of_node(arena, root);
}

JsonText
registration_restore(Arena *arena, const Registration *registration, const JsonNode *older)
{
	static const char *const replaced[] = {"service", "caBundle", "insecureSkipTLSVerify"};
	JsonNode   *root = begin_patch(arena, registration);
	JsonNode   *labels = set_object(arena, json_get(root, "metadata"), "labels");
	const JsonNode *label = json_path(older, "metadata", "labels", AUTOMANAGED, NULL);
	const JsonNode *old_spec = json_get(older, "spec");
	bool		is_object = old_spec != NULL && old_spec->kind == JSON_KIND_OBJECT;
	JsonNode   *spec = is_object ? json_clone(arena, old_spec) : json_new_object(arena);

	json_set(arena, labels, AUTOMANAGED, label == NULL ? json_new_null(arena) : json_clone(arena, label));
	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
		if (json_get(spec, replaced[i]) == NULL)
			json_set(arena, spec, replaced[i], json_new_null(arena));
	json_set(arena, root, "spec", spec);
	return text_of_node(arena, root);
}

JsonText
registration_give_back(Arena *arena, const Registration *registration)
{
	JsonNode   *root = begin_patch(arena, registration);
	JsonNode   *spec = set_object(arena, root, "spec");

	set_label(arena, json_get(root, "metadata"), "true");
	json_set(arena, spec, "service", json_new_null(arena));
	json_set(arena, spec, "caBundle", json_new_null(arena));
	json_set(arena, spec, "insecureSkipTLSVerify", json_new_null(arena));
	set_priorities(arena, spec, GROUP_PRIORITY, VERSION_PRIORITY);
	return text_of_node(arena, root);
}

JsonText
registration_delete(Arena *arena, const Registration *registration)
{
	JsonNode   *root = json_new_object(arena);
	JsonNode   *preconditions = set_object(arena, root, "preconditions");

	set_text(arena, root, "apiVersion", "v1");
	set_text(arena, root, "kind", "DeleteOptions");
	if (registration->uid != NULL)
		set_text(arena, preconditions, "uid", registration->uid);
	set_text(arena, preconditions, "resourceVersion", registration->resource_version);
	return text_of_node(arena, root);
}
