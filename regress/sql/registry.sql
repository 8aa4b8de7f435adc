-- Registering and unregistering types.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

CREATE FUNCTION pg_temp.crd(change text[] DEFAULT NULL, value jsonb DEFAULT NULL) RETURNS jsonb LANGUAGE sql AS $$
	SELECT CASE WHEN change IS NULL THEN c ELSE jsonb_set(c, change, value) END FROM (SELECT '{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "widgets.example.com"},
	"spec": {"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
		"versions": [
			{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
				"properties": {"size": {"type": "integer", "minimum": 1},
					"colour": {"type": "string", "default": "red"}}}}},
			{"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object",
				"properties": {"size": {"type": "integer"}}}}},
			{"name": "v1alpha1", "served": false, "storage": false,
				"schema": {"openAPIV3Schema": {"type": "object"}}}]}}'::jsonb c) d
$$;

SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000001', 'one') IS NOT NULL AS known;
SELECT generation FROM kube_reports_internal.store;
SELECT kube_reports.register_crd(pg_temp.crd()) >= 1000 AS users_type;
SELECT generation FROM kube_reports_internal.store;
SELECT "group", version, resource, kind, namespaced, status
	FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000001') WHERE "group" = 'example.com';
SELECT t.plural, v.version, v.priority FROM kube_reports.resource_type t
	JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id WHERE NOT t.builtin ORDER BY 3;

-- Both versions of one object.
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
	'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"size":3}')::jsonb - 'metadata' AS created;
SELECT convert_from(body, 'UTF8')::jsonb - 'metadata' AS v1beta1
	FROM kube_reports_internal.api_get('00000000-0000-0000-0000-000000000001',
	'{"verb":"get","group":"example.com","version":"v1beta1","resource":"widgets","namespace":"default","name":"w"}');
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
	'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"small"},"size":0}');

-- Again, with another schema.
SELECT kube_reports.register_crd(pg_temp.crd('{spec,versions,0,schema,openAPIV3Schema,properties,size,minimum}', '0'))
	>= 1000 AS replaced;
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
	'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"small"},"size":0}')::jsonb -> 'size' AS size;
SELECT kube_reports.register_crd(pg_temp.crd('{spec,scope}', '"Cluster"'));

-- Objects are in the way of unregistering, unless told otherwise.
SELECT kube_reports.unregister('widgets.example.com');
SELECT kube_reports.unregister('widgets.example.com', delete_objects => true);
SELECT kube_reports.unregister('widgets.example.com');
SELECT kube_reports.unregister('policyreports.wgpolicyk8s.io');
SELECT count(*) FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000001')
	WHERE "group" = 'example.com';

-- What is not supported is refused by its JSON path.
SELECT kube_reports.register_crd(pg_temp.crd('{spec,versions,0,schema,openAPIV3Schema,x-kubernetes-validations}',
	'[{"rule":""}]'));
SELECT kube_reports.register_crd(pg_temp.crd('{spec,conversion}', '{"strategy":"Webhook"}'));
SELECT kube_reports.register_crd(pg_temp.crd('{spec,versions,0,subresources}',
	'{"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}'));
SELECT kube_reports.register_crd(pg_temp.crd('{metadata,name}', '"widgets.example.org"'));
SELECT kube_reports.register_crd(pg_temp.crd('{spec,versions,0,schema,openAPIV3Schema,properties,size,type}',
	'"number of things"'));
SELECT kube_reports.register_crd(pg_temp.crd('{spec,versions,0,schema,openAPIV3Schema,properties,size,pattern}',
	'"("'));
SELECT kube_reports.register_crd('{}');
SELECT kube_reports.register_crd(NULL);
SELECT kube_reports.register_crd(pg_temp.crd()) > 0 AS registered;
SELECT kube_reports.set_results_mapping('widgets.example.com', '[]');
