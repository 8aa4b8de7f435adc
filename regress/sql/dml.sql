-- The owner's DML is checked, versioned and logged like any other write.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
SELECT id AS type_id FROM kube_reports.resource_type WHERE plural = 'policyreports' \gset

INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', 'a', '{"labels":{"app":"x"}}', '{"summary":{"pass":1,"unknown":2}}');
SELECT namespace, name, labels, metadata::jsonb - 'uid' - 'creationTimestamp' AS metadata, body
	FROM kube_reports.object;
SELECT metadata::jsonb->>'uid' = uid::text AS same_uid FROM kube_reports.object;
UPDATE kube_reports.object SET body = '{"summary":{"fail":1}}' WHERE name = 'a';
SELECT metadata::jsonb->'generation' AS generation, body FROM kube_reports.object;
-- Nothing changed: nothing written.
UPDATE kube_reports.object SET body = '{"summary":{"fail":1}}' WHERE name = 'a';
UPDATE kube_reports.object SET body = '{"summary":{"fail":"one"}}' WHERE name = 'a';
UPDATE kube_reports.object SET name = 'b' WHERE name = 'a';
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', 'Bad', '{}', '{}');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', 'c', '{"name":"d"}', '{}');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, 999, 'default', 'c', '{}', '{}');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', NULL, '{}', '{}');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, NULL, 'c', '{}', '{}');
TRUNCATE kube_reports.object;
BEGIN ISOLATION LEVEL SERIALIZABLE;
DELETE FROM kube_reports.object;
ROLLBACK;
DELETE FROM kube_reports.object WHERE name = 'a';
SELECT c.operation, c.name, c.actor = session_user AS mine, c.old_body
	FROM kube_reports_internal.change c ORDER BY c.version;
SELECT array_agg(c.version ORDER BY c.version) = array_agg(c.version ORDER BY c.at) AS in_order
	FROM kube_reports_internal.change c;

-- ON CONFLICT logs what happened, not what was tried.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', 'e', '{}', '{}'),
		(:cluster_id, :type_id, 'default', 'e', '{}', '{"summary":{"fail":1}}') ON CONFLICT DO NOTHING;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, :type_id, 'default', 'e', '{}', '{"summary":{"fail":2}}')
	ON CONFLICT (cluster_id, resource_type, namespace, name) DO UPDATE SET body = excluded.body;
WITH gone AS (DELETE FROM kube_reports.object WHERE name = 'e' RETURNING cluster_id, resource_type)
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body) SELECT cluster_id,
		resource_type, 'default', 'e', '{}', '{"summary":{"fail":3}}' FROM gone;
SELECT c.operation, c.old_body, c.old_version = lag(c.version) OVER (ORDER BY c.version) AS follows
	FROM kube_reports_internal.change c WHERE c.name = 'e' ORDER BY c.version;
SELECT o.body, o.version = kube_reports_internal.lane_version(l.id) AS newest FROM kube_reports.object o
	JOIN kube_reports_internal.lane l USING (cluster_id, resource_type) WHERE o.name = 'e';

-- DML, a function and DML write one object in one transaction: each records its own results, and none is lost.
\set one '00000000-0000-0000-0000-000000000003'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
BEGIN;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'ns', 'turns', '{}', '{"results": [{"policy": "p", "rule": "a", "result": "fail"}, {"policy": '
		'"p", "rule": "b", "result": "pass"}]}'
	FROM kube_reports.cluster c WHERE c.uid = :'one';
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'turns');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'ns', 'turns', '{}', '{"results": [{"policy": "p", "rule": "a", "result": "fail"}, {"policy": '
		'"p", "rule": "b", "result": "fail"}]}'
	FROM kube_reports.cluster c WHERE c.uid = :'one';
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'turns',
	'{"results": [{"policy": "p", "rule": "a", "result": "warn"}]}') IS NOT NULL AS patched;
UPDATE kube_reports.object
	SET body = '{"results": [{"policy": "p", "rule": "a", "result": "pass"}, {"policy": "p", "rule": "b", "result": '
		'"fail"}]}' WHERE name = 'turns';
COMMIT;
SELECT k.rule, kube_reports_internal.status_name(r.status) AS status FROM kube_reports_internal.result r
	JOIN kube_reports_internal.criterion k ON k.id = r.criterion
	JOIN kube_reports_internal.origin g ON g.id = r.origin WHERE g.name = 'turns' ORDER BY k.rule;
SELECT count(*) AS wrong FROM kube_reports.verify();
-- Embedded resources get the shape that the API gives them, in whatever order the members come; what has no such shape
-- is refused.
SELECT kube_reports.register_crd('{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "widgets.example.com"},
	"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
		"versions": [{"name": "v1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {"template": {"type": "object",
				"x-kubernetes-embedded-resource": true,
				"x-kubernetes-preserve-unknown-fields": true}}}}}]}}') AS widgets
\gset
CREATE FUNCTION pg_temp.widget(metadata text) RETURNS kube_reports.report LANGUAGE sql
	RETURN format('{"template":{"apiVersion":"v1","kind":"Pod","metadata":%s,"spec":{"a":1}}}',
		metadata)::kube_reports.report;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, (SELECT id FROM kube_reports.resource_type WHERE plural = 'widgets'), 'default', 'w', '{}',
		pg_temp.widget('{"name":"p","labels":{},"annotations":{"a":null},"unknown":1,"selfLink":"/p"}'));
SELECT body FROM kube_reports.object WHERE name = 'w';
UPDATE kube_reports.object SET body = pg_temp.widget('{"annotations":{"a":""},"name":"p","selfLink":"/p","unknown":2}')
	WHERE name = 'w';
SELECT metadata::jsonb->'generation' AS generation FROM kube_reports.object WHERE name = 'w';
UPDATE kube_reports.object SET body = pg_temp.widget('{"name":"p","labels":"AAAAAAAAAAAAAAAAAAAAAAAA"}')
	WHERE name = 'w';
