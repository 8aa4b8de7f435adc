-- Aggregation: summaries that are filled in, Kyverno's merges, by SQL and as they are stored.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
CREATE FUNCTION pg_temp.document(name text, more jsonb) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT ('{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport"}'::jsonb || more
		|| jsonb_build_object('metadata', jsonb_build_object('name', name, 'namespace', 'ns')))::kube_reports.report
$$;
CREATE FUNCTION pg_temp.results(VARIADIC outcomes text[]) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('results', jsonb_agg(jsonb_build_object('policy', 'p', 'rule', 'r' || n, 'result', o) ORDER BY n))
		FROM unnest(outcomes) WITH ORDINALITY u(o, n)
$$;
CREATE VIEW pg_temp.summaries AS
	SELECT o.name, o.body::jsonb->'summary' AS summary, (o.metadata::jsonb->>'generation')::integer AS generation,
		coalesce(o.metadata::jsonb#>'{managedFields}', '[]')::text LIKE '%f:summary%' AS owned
	FROM kube_reports.object o ORDER BY o.name;
\set polr policyreports.wgpolicyk8s.io

---- summaries ----
SELECT kube_reports.set_summaries('nothing.example.com');
SELECT kube_reports.register_crd('{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
	"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
		"schema": {"openAPIV3Schema": {"type": "object", "properties": {"summary": {"type": "object", "properties": {"pass": {"type": "integer"}}}}}}}]}}') > 0 AS registered;
SELECT kube_reports.set_summaries('things.example.com');
-- Not asked for, not done.
SELECT kube_reports.create_report(:'one', pg_temp.document('before', pg_temp.results('pass', 'fail'))) IS NOT NULL;
SELECT kube_reports.set_summaries(t) FROM unnest('{policyreports.wgpolicyk8s.io, ephemeralreports.reports.kyverno.io}'::text[]) t;
SELECT kube_reports.create_report(:'one', pg_temp.document(d.name, d.body)) IS NOT NULL AS created FROM (VALUES
	('counted', pg_temp.results('pass', 'pass', 'fail', 'warn', 'error', 'skip')), ('empty', pg_temp.results('pass') || '{"summary": {}}'),
	('given', pg_temp.results('pass') || '{"summary": {"pass": 7}}'), ('none', '{}')) d(name, body);
SELECT * FROM pg_temp.summaries;
-- It follows what changes; a producer's does not, and is told.
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', n, pg_temp.results('fail', 'fail')) IS NOT NULL AS patched FROM unnest('{before,counted,empty,given}'::text[]) n;
SELECT * FROM pg_temp.summaries;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted', '{"results": null, "scope": {"name": "x"}}')::jsonb->'summary' AS without_results;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted', '{"summary": {"fail": 1}}')::jsonb->'summary' AS wrong;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted', '{"summary": null, "results": []}')::jsonb->'summary' AS left_out_again;
SELECT what, name, expected, found FROM kube_reports.verify() ORDER BY name;
-- The same again is no change.
SELECT (kube_reports.replace_report(:'one', d.document)::jsonb#>>'{metadata,resourceVersion}') = (d.document::jsonb#>>'{metadata,resourceVersion}') AS same
	FROM (SELECT kube_reports.get_report(:'one', :'polr', 'ns', 'counted')) d(document);
-- Kyverno's intermediate reports have it in spec.
SELECT kube_reports.create_report(:'one', '{"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport", "metadata": {"name": "e", "namespace": "ns"},
	"spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""}, "results": [{"policy": "p", "result": "skip"}]}}')::jsonb#>'{spec,summary}' AS in_spec;
-- DML: what has no managed fields is its writer's.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, 1, 'ns', 'dml', '{}', pg_temp.results('pass', 'pass')::kube_reports.report);
UPDATE kube_reports.object SET body = (body::jsonb || pg_temp.results('pass'))::kube_reports.report WHERE name IN ('dml', 'empty');
SELECT * FROM pg_temp.summaries WHERE name IN ('dml', 'empty');
SELECT kube_reports.set_summaries(:'polr', false);
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'empty', pg_temp.results('fail', 'fail'))::jsonb->'summary' AS off;
SELECT count(*) AS differences FROM kube_reports.verify();
DELETE FROM kube_reports.object;
