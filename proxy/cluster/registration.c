/*-------------------------------------------------------------------------
 *
 * registration.c
 *	  APIServices as documents: their contents, and the merge patches that change them.
 *
 * For a CRD, kube-apiserver creates an APIService without a service.  The
 * label automanaged decides which program controls it.  While the label is
 * "true", the autoregister controller of kube-apiserver restores the spec of
 * the CRD whenever it differs, and deletes the APIService when there is no
 * such CRD.  With any other value, or without the label, the controller does
 * not change the APIService (kube-aggregator, autoregister_controller.go;
 * "onstart" is for compiled-in groups).  An applied manifest that does not
 * mention the label keeps it, so the label must be "false".  When a CRD has no
 * APIService, the controller creates one at once.
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
integer_of(const json_t *object, const char *key, int otherwise)
{
	const json_t *value = json_object_get(object, key);
	json_int_t	number = json_integer_value(value);

	return json_is_integer(value) && number >= 0 && number <= 65535 ? (int) number : otherwise;
}

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = kube_json_text(object, key, NULL);

	return text == NULL ? "" : text;
}

static void
read_condition(const json_t *document, Registration *registration)
{
	size_t		i;
	json_t	   *condition;

	registration->reason = registration->message = "";
	json_array_foreach(kube_json_at(document, "status", "conditions", NULL), i, condition)
	{
		if (!kube_json_is(json_object_get(condition, "type"), "Available"))
			continue;
		registration->available = kube_json_is(json_object_get(condition, "status"), "True");
		registration->reason = text_of(condition, "reason");
		registration->message = text_of(condition, "message");
	}
}

bool
registration_read(const json_t *document, Registration *registration)
{
	const json_t *spec = json_object_get(document, "spec");
	const json_t *service = json_object_get(spec, "service");
	const json_t *label = kube_json_at(document, "metadata", "labels", AUTOMANAGED, NULL);

	memset(registration, 0, sizeof(*registration));
	registration->name = kube_json_text(document, "metadata", "name", NULL);
	registration->uid = kube_json_text(document, "metadata", "uid", NULL);
	registration->resource_version = kube_json_text(document, "metadata", "resourceVersion", NULL);
	registration->is_remote = json_is_object(service);
	registration->service.namespace = text_of(service, "namespace");
	registration->service.name = text_of(service, "name");
	registration->service.port = integer_of(service, "port", 443);
	registration->ca_bundle = text_of(spec, "caBundle");
	registration->insecure = json_is_true(json_object_get(spec, "insecureSkipTLSVerify"));
	registration->automanaged = kube_json_is(label, "true") || kube_json_is(label, "onstart");
	registration->group_priority = integer_of(spec, "groupPriorityMinimum", 0);
	registration->version_priority = integer_of(spec, "versionPriority", 0);
	read_condition(document, registration);
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

static json_t *
service_reference(const ServiceAddress *service)
{
	return json_pack("{s:s, s:s, s:i}", "namespace", service->namespace, "name", service->name, "port", service->port);
}

/* Returns a patch that applies only to the version that was read.  Takes the references label (or NULL) and spec. */
static JsonText
write_patch(Arena *arena, const Registration *registration, json_t *label, json_t *spec)
{
	json_t	   *labels = label == NULL ? NULL : json_pack("{s:o}", AUTOMANAGED, label);

	return kube_json_write(arena, json_pack("{s:{s:s, s:o*}, s:o}",
											"metadata", "resourceVersion", registration->resource_version,
											"labels", labels, "spec", spec));
}

JsonText
registration_create(Arena *arena, const char *group, const char *version, const RegistrationWish *wish)
{
	/* The label keeps a CRD that is created later from changing this APIService. */
	return kube_json_write(arena, json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:{s:s, s:s, s:o, s:s, s:i, s:i}}",
											"apiVersion", "apiregistration.k8s.io/v1", "kind", "APIService",
											"metadata", "name", registration_name(arena, group, version),
											"labels", AUTOMANAGED, "false",
											"spec", "group", group, "version", version,
											"service", service_reference(&wish->service),
											"caBundle", wish->ca_bundle,
											"groupPriorityMinimum",
											wish->group_priority > 0 ? wish->group_priority : GROUP_PRIORITY,
											"versionPriority",
											wish->version_priority > 0 ? wish->version_priority : VERSION_PRIORITY));
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
	int			group_priority = wish->group_priority > 0 ? wish->group_priority : registration->group_priority;
	int			version_priority = wish->version_priority > 0 ? wish->version_priority : registration->version_priority;

	return write_patch(arena, registration, json_string("false"),
					   json_pack("{s:o, s:s, s:n, s:i, s:i}", "service", service_reference(&wish->service),
								 "caBundle", wish->ca_bundle, "insecureSkipTLSVerify",
								 "groupPriorityMinimum", group_priority, "versionPriority", version_priority));
}

JsonText
registration_trust(Arena *arena, const Registration *registration, const char *ca_bundle)
{
	return write_patch(arena, registration, NULL, json_pack("{s:s}", "caBundle", ca_bundle));
}

JsonText
registration_restore(Arena *arena, const Registration *registration, const json_t *older)
{
	static const char *const replaced[] = {"service", "caBundle", "insecureSkipTLSVerify"};
	json_t	   *label = kube_json_at(older, "metadata", "labels", AUTOMANAGED, NULL);
	json_t	   *old_spec = json_object_get(older, "spec");
	json_t	   *spec = json_is_object(old_spec) ? json_copy(old_spec) : json_object();

	for (size_t i = 0; i < sizeof(replaced) / sizeof(replaced[0]); i++)
		if (json_object_get(spec, replaced[i]) == NULL)
			json_object_set_new(spec, replaced[i], json_null());
	return write_patch(arena, registration, label == NULL ? json_null() : json_incref(label), spec);
}

JsonText
registration_delete(Arena *arena, const Registration *registration)
{
	return kube_json_write(arena, json_pack("{s:s, s:s, s:{s:s*, s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
											"preconditions", "uid", registration->uid,
											"resourceVersion", registration->resource_version));
}
