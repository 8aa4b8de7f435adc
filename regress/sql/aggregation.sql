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
	SELECT jsonb_build_object('results', jsonb_agg(jsonb_build_object('policy', 'p', 'rule', 'r' || n, 'result', o)
		ORDER BY n))
		FROM unnest(outcomes) WITH ORDINALITY u(o, n)
$$;
CREATE VIEW pg_temp.summaries AS
	SELECT o.name, o.body::jsonb->'summary' AS summary, (o.metadata::jsonb->>'generation')::integer AS generation,
		coalesce(o.metadata::jsonb#>'{managedFields}', '[]')::text LIKE '%f:summary%' AS owned
	FROM kube_reports.object o ORDER BY o.name;
\set polr policyreports.wgpolicyk8s.io

---- summaries ----
SELECT kube_reports.set_summaries('nothing.example.com');
SELECT kube_reports.register_crd('{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "things.example.com"},
	"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
			"properties": {"summary": {"type": "object", "properties": {"pass": {"type": "integer"}}}}}}}]}}') > 0
	AS registered;
SELECT kube_reports.set_summaries('things.example.com');
-- Not asked for, not done.
SELECT kube_reports.create_report(:'one', pg_temp.document(d.name, d.body)) IS NOT NULL AS created FROM (VALUES
	('before', pg_temp.results('pass', 'fail')),
		('hollow', pg_temp.results('pass', 'fail') || '{"summary": {}}')) d(name, body);
SELECT kube_reports.set_summaries(t) FROM
	unnest('{policyreports.wgpolicyk8s.io, ephemeralreports.reports.kyverno.io}'::text[]) t;
SELECT kube_reports.create_report(:'one', pg_temp.document(d.name, d.body)) IS NOT NULL AS created FROM (VALUES
	('counted', pg_temp.results('pass', 'pass', 'fail', 'warn', 'error', 'skip')),
		('empty', pg_temp.results('pass') || '{"summary": {}}'),
	('given', pg_temp.results('pass') || '{"summary": {"pass": 7}}'), ('none', '{}')) d(name, body);
SELECT * FROM pg_temp.summaries;
-- It follows what changes; a producer's does not, and is told.
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', n, pg_temp.results('fail', 'fail')) IS NOT NULL AS patched
	FROM unnest('{before,counted,empty,given}'::text[]) n;
SELECT * FROM pg_temp.summaries;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted',
	'{"results": null, "scope": {"name": "x"}}')::jsonb->'summary' AS without_results;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted',
	'{"summary": {"fail": 1}}')::jsonb->'summary' AS wrong;
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'counted',
	'{"summary": null, "results": []}')::jsonb->'summary' AS left_out_again;
SELECT what, name, expected, found FROM kube_reports.verify() ORDER BY name;
-- The same again is no change.
SELECT (kube_reports.replace_report(:'one', d.document)::jsonb#>>'{metadata,resourceVersion}') =
	(d.document::jsonb#>>'{metadata,resourceVersion}') AS same
	FROM (SELECT kube_reports.get_report(:'one', :'polr', 'ns', 'counted')) d(document);
-- Kyverno's intermediate reports have it in spec.
SELECT kube_reports.create_report(:'one', '{"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
	"metadata": {"name": "e", "namespace": "ns"},
	"spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""},
		"results": [{"policy": "p", "result": "skip"}]}}')::jsonb#>'{spec,summary}' AS in_spec;
-- DML: what has no managed fields is its writer's.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, 1, 'ns', 'dml', '{}', pg_temp.results('pass', 'pass')::kube_reports.report);
UPDATE kube_reports.object SET body = (body::jsonb || pg_temp.results('pass'))::kube_reports.report
	WHERE name IN ('dml', 'empty');
SELECT * FROM pg_temp.summaries WHERE name IN ('dml', 'empty');
SELECT kube_reports.set_summaries(:'polr', false);
SELECT kube_reports.patch_report(:'one', :'polr', 'ns', 'empty',
	pg_temp.results('fail', 'fail'))::jsonb->'summary' AS off;
SELECT what, namespace, name, expected, found FROM kube_reports.verify();
DELETE FROM kube_reports.object;

---- Kyverno's merge of ephemeral reports ----
CREATE FUNCTION pg_temp.ephemeral(name text, uid text, results jsonb, owned boolean DEFAULT true,
	namespace text DEFAULT 'ns') RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('apiVersion', 'reports.kyverno.io/v1',
		'kind', CASE WHEN namespace = '' THEN 'Cluster' ELSE '' END || 'EphemeralReport',
		'metadata', jsonb_strip_nulls(jsonb_build_object('name', name, 'namespace', nullif(namespace, ''),
			'labels', jsonb_build_object('audit.kyverno.io/resource.uid', uid,
				'app.kubernetes.io/managed-by', 'kyverno'),
			'ownerReferences', CASE WHEN owned THEN jsonb_build_array(jsonb_build_object('apiVersion', 'v1', 'kind',
				'Pod', 'name', 'pod-' || uid, 'uid', uid)) END)),
		'spec', jsonb_build_object('owner', '{"apiVersion": "", "kind": "", "name": "", "uid": ""}'::jsonb, 'results',
			results))::kube_reports.report) IS NOT NULL
$$;
CREATE FUNCTION pg_temp.result(policy text, rule text, result text, seconds bigint, source text DEFAULT 'kyverno')
	RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('policy', policy, 'rule', rule, 'result', result, 'source', source, 'timestamp',
		jsonb_build_object('seconds', seconds, 'nanos', 0))
$$;
CREATE VIEW pg_temp.stored AS
	SELECT t.plural, o.namespace, o.name, (SELECT string_agg(concat_ws(' ', r.source, r.policy, r.rule, r.status,
		r.seconds), ', ' ORDER BY r."position")
			FROM kube_reports_internal.list_results(o.body, NULL) r) AS results
	FROM kube_reports.object o JOIN kube_reports.resource_type t ON t.id = o.resource_type
		ORDER BY t.id, o.namespace, o.name;
SELECT kube_reports.set_aggregation('00000000-0000-0000-0000-000000000009');
SELECT kube_reports.set_aggregation(:'one', policy_reports => 'no');
-- Nothing is queued before it is wanted, and everything that is there when it is.
SELECT pg_temp.ephemeral('before', 'u1',
	jsonb_build_array(pg_temp.result('p', 'a', 'pass', 5), pg_temp.result('p', 'b', 'pass', 5)));
SELECT count(*) FROM kube_reports_internal.aggregation_queue;
SELECT admission, policy_reports, "group", delay
	FROM kube_reports.set_aggregation(:'one', policy_reports => 'resource');
SELECT stage, namespace, key FROM kube_reports_internal.aggregation_queue;
SELECT kube_reports.aggregate(:'one');
SELECT stage, namespace, key FROM kube_reports_internal.aggregation_queue;
-- Equal times: who was first; a kind of its own: the rule does not count; without an owner: not ours.
SELECT pg_temp.ephemeral('e1', 'u1', jsonb_build_array(pg_temp.result('p', 'a', 'fail', 5),
	pg_temp.result('p', 'b', 'fail', 6), pg_temp.result('c', 'one', 'pass', 2, 'KyvernoValidatingPolicy'))),
	pg_temp.ephemeral('e2', 'u1', jsonb_build_array(pg_temp.result('c', 'two', 'fail', 3, 'KyvernoValidatingPolicy'),
		pg_temp.result('P', E'\u00e4', 'warn', 1, ''))),
	pg_temp.ephemeral('unowned', 'u1', jsonb_build_array(pg_temp.result('p', 'a', 'error', 9)), false),
	pg_temp.ephemeral('scoped', 'u2', jsonb_build_array(pg_temp.result('p', 'a', 'skip', 1)), namespace => '');
SELECT kube_reports.aggregate(:'one') AS due;
SELECT kube_reports.aggregate(:'one', at_once => true) AS first,
	kube_reports.aggregate(:'one', at_once => true) AS second,
	kube_reports.aggregate(:'one', at_once => true) AS nothing_left;
SELECT * FROM pg_temp.stored;
SELECT o.name, o.metadata::jsonb->'labels' AS labels, o.metadata::jsonb->'ownerReferences' AS owners,
	o.body::jsonb->'scope' AS scope, o.body::jsonb->'summary' AS summary
	FROM kube_reports.object o WHERE o.resource_type IN (1, 2) ORDER BY o.name;
SELECT DISTINCT c.operation, c.actor = session_user AS by_me, c.actor LIKE 'system:kube-reports:%' AS by_itself
	FROM kube_reports_internal.change c WHERE c.name IN ('u1', 'u2', 'e1') ORDER BY 1, 2;
-- Policies.
SELECT kube_reports.set_active_policies(:'one', '{}'), 1;
SELECT kube_reports.set_active_policies(:'one', '[{"policy": 1}]');
SELECT kube_reports.set_active_policies(:'one', '[{"policy": "p", "rules": [1]}]');
SELECT kube_reports.set_active_policies(:'one', '[1]');
SELECT kube_reports.set_active_policies(:'one', '[{"policy": "c", "Source": "KyvernoValidatingPolicy"}]');
SELECT kube_reports.set_active_policies(:'one', '[{"policy": "p", "version": "7 bad!"}]');
SELECT kube_reports.set_active_policies(:'one',
	jsonb_build_array(jsonb_build_object('policy', 'p', 'version', repeat('7', 64))));
SELECT kube_reports.set_active_policies(:'one', '[{"policy": "p", "rules": ["a"]}, {"policy": "P", "source": '
	'"kyverno"}, {"policy": "c", "source": "KyvernoValidatingPolicy", "rules": ["x"]}]');
SELECT source, policy, rules FROM kube_reports_internal.active_policy ORDER BY 1, 2;
SELECT stage, namespace, key FROM kube_reports_internal.aggregation_queue;
SELECT kube_reports.aggregate(:'one', at_once => true);
SELECT * FROM pg_temp.stored;
SELECT kube_reports.set_active_policies(:'one', '[]'), kube_reports.aggregate(:'one', at_once => true),
	kube_reports.aggregate(:'one', at_once => true);
SELECT * FROM pg_temp.stored;
SELECT kube_reports.set_active_policies(:'one', NULL);
-- A name that no text can have, and what no merge can write, stand in nobody's way.
SELECT pg_temp.ephemeral('e3', 'u3', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1))),
	pg_temp.ephemeral('e4', 'Not-A-Name', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1)));
SELECT codes FROM kube_reports_internal.write_batch(:'one', '{"{\"verb\": \"create\", \"group\": '
	'\"reports.kyverno.io\", \"version\": \"v1\", \"resource\": \"ephemeralreports\", \"namespace\": \"ns\"}"}',
	ARRAY[convert_to($${"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
		"metadata": {"name": "e5", "namespace": "ns",
	"annotations": {"a": "\u0000"}, "labels": {"audit.kyverno.io/resource.uid": "u3",
		"app.kubernetes.io/managed-by": "kyverno"},
	"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "u3"}]},
	"spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""},
		"results": [{"policy": "p\u0000q", "rule": "a", "result": "pass"}]}}$$, 'UTF8')]);
SELECT kube_reports.aggregate(:'one', at_once => true);
SELECT count(*) FROM kube_reports_internal.aggregation_queue;
SELECT * FROM pg_temp.stored;
-- More than one step's worth for one resource, and nothing in a namespace that is on its way out.
SELECT kube_reports.set_aggregation(:'one', policy_reports => 'off') IS NOT NULL AS off;
SELECT count(pg_temp.ephemeral('many' || n, 'u5', jsonb_build_array(pg_temp.result('p', 'r' || n % 7, 'pass', n))))
	FROM generate_series(1, 230) n;
SELECT kube_reports.set_aggregation(:'one', policy_reports => 'resource') IS NOT NULL AS on;
SELECT kube_reports_internal.queue_piece(:cluster_id, '', 50);
SELECT q.stage, q.key, count(*) FROM kube_reports_internal.aggregation_queue q GROUP BY 1, 2 ORDER BY 1, 2;
SELECT sum(kube_reports.aggregate(:'one', at_once => true)::integer) AS steps FROM generate_series(1, 8);
SELECT results FROM pg_temp.stored WHERE name = 'u5';
SELECT count(*) FROM pg_temp.stored WHERE plural = 'ephemeralreports' AND name LIKE 'many%';
SELECT pg_temp.ephemeral('late', 'u6', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1)));
INSERT INTO kube_reports_internal.namespace (cluster_id, name, uid, state)
	VALUES (:cluster_id, 'ns', 'n1', 'terminating');
SELECT sum(kube_reports.aggregate(:'one', at_once => true)::integer) AS steps FROM generate_series(1, 2);
SELECT plural, name FROM pg_temp.stored WHERE name IN ('late', 'u6');
DELETE FROM kube_reports_internal.namespace;
SELECT what, namespace, name, expected, found FROM kube_reports.verify();
-- What stays where it is, held by a finalizer or not managed by Kyverno, is merged once, and keeps nobody from a turn.
CREATE FUNCTION pg_temp.stay(name text, uid text, seconds bigint, more jsonb, kind text DEFAULT 'EphemeralReport')
	RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001', jsonb_build_object('kind', kind,
		'apiVersion', CASE kind WHEN 'EphemeralReport' THEN 'reports.kyverno.io/v1' ELSE 'kyverno.io/v1alpha2' END,
		'metadata', jsonb_build_object('name', name, 'namespace', 'ns', 'labels',
			jsonb_build_object('audit.kyverno.io/resource.uid', uid, 'app.kubernetes.io/managed-by', 'kyverno'),
			'ownerReferences', jsonb_build_array(jsonb_build_object('apiVersion', 'v1', 'kind', 'Pod', 'name',
				'pod', 'uid', uid))) || more,
		'spec', jsonb_build_object('owner', '{"apiVersion": "", "kind": "", "name": "", "uid": ""}'::jsonb,
			'results', jsonb_build_array(pg_temp.result('p', 'r' || seconds % 3, 'pass',
				seconds))))::kube_reports.report) IS NOT NULL
$$;
SELECT count(pg_temp.stay('held' || n, 'u7', n, '{"finalizers": ["example.com/hold"]}')) FROM generate_series(1, 110) n;
SELECT count(pg_temp.stay('left' || n, 'u8', n, '{"labels": {"audit.kyverno.io/resource.uid": "u8"}}'))
	FROM generate_series(1, 110) n;
SELECT pg_temp.ephemeral('z7', 'u7', jsonb_build_array(pg_temp.result('p', 'z', 'pass', 1))),
	pg_temp.ephemeral('z8', 'u8', jsonb_build_array(pg_temp.result('p', 'z', 'pass', 1)));
SELECT pg_temp.ephemeral('z9', 'u9', jsonb_build_array(pg_temp.result('p', 'z', 'pass', 1)), namespace => '');
SELECT kube_reports.aggregate(:'one', at_once => true) AS merged FROM generate_series(1, 10) OFFSET 9;
SELECT count(*) FROM kube_reports_internal.aggregation_queue;
SELECT plural, name, results FROM pg_temp.stored WHERE name ~ '^[uz][789]$';
SELECT count(*) FILTER (WHERE o.metadata::jsonb ? 'deletionTimestamp') AS ending, count(*) FROM kube_reports.object o
	WHERE o.name ~ '^(held|left)';
DELETE FROM kube_reports.object WHERE name ~ '^(held|left)';
SELECT kube_reports.aggregate(:'one', at_once => true), kube_reports.aggregate(:'one', at_once => true);
-- What the server is too small for comes later and later, and alone; what comes for it meanwhile waits with it.
CREATE FUNCTION pg_temp.refuse() RETURNS trigger
	LANGUAGE plpgsql AS $$ BEGIN RAISE 'too large' USING ERRCODE = 'out_of_memory'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON kube_reports.object FOR EACH ROW
	WHEN (NEW.name = 'large' AND NEW.resource_type = 1) EXECUTE FUNCTION pg_temp.refuse();
SELECT set_config('client_min_messages', 'error', false), delay FROM kube_reports.set_aggregation(:'one', delay => '0');
CREATE VIEW pg_temp.queued AS
	SELECT q.stage, q.key, count(*), max(q.attempts) AS attempts, max(q.queued_at) > clock_timestamp() AS later
		FROM kube_reports_internal.aggregation_queue q GROUP BY 1, 2 ORDER BY 1, 2;
SELECT pg_temp.ephemeral('f1', 'large', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1))),
	pg_temp.ephemeral('f2', 'small', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1)));
SELECT kube_reports.aggregate(:'one');
SELECT * FROM pg_temp.queued;
SELECT pg_temp.ephemeral('f3', 'large', jsonb_build_array(pg_temp.result('p', 'b', 'pass', 1))),
	pg_temp.ephemeral('f4', 'other', jsonb_build_array(pg_temp.result('p', 'a', 'pass', 1)));
SELECT kube_reports.aggregate(:'one'), kube_reports.aggregate(:'one');
SELECT * FROM pg_temp.queued;
SELECT kube_reports.aggregate(:'one', at_once => true), kube_reports.aggregate(:'one', at_once => true),
	kube_reports.aggregate(:'one', at_once => true);
SELECT * FROM pg_temp.queued;
DROP TRIGGER refuse ON kube_reports.object;
SELECT kube_reports.aggregate(:'one', at_once => true), kube_reports.aggregate(:'one', at_once => true);
SELECT set_config('client_min_messages', 'warning', false), delay
	FROM kube_reports.set_aggregation(:'one', delay => '10 seconds');
SELECT * FROM pg_temp.queued;
SELECT plural, name, results FROM pg_temp.stored WHERE name IN ('large', 'small', 'other');
-- What no client could write is not written; what it was to be made of stays.
CREATE FUNCTION pg_temp.large(policy text, bytes integer) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_array(pg_temp.result(policy, 'r', 'pass', 1)
		|| jsonb_build_object('message', repeat('x', bytes)))
$$;
SELECT pg_temp.ephemeral('l1', 'u10', pg_temp.large('p', 1600000)),
	pg_temp.ephemeral('l2', 'u10', pg_temp.large('q', 1600000)),
	pg_temp.ephemeral('l3', 'u11', pg_temp.large('p', 1600000));
SELECT kube_reports.aggregate(:'one', at_once => true);
SELECT plural, name, results FROM pg_temp.stored WHERE name ~ '^(l[123]|u1[01])$';
SELECT count(*) FROM kube_reports_internal.aggregation_queue;
DELETE FROM kube_reports.object WHERE name = 'l2';
SELECT kube_reports.aggregate(:'one', at_once => true) AS nothing;
SELECT pg_temp.ephemeral('l4', 'u10', pg_temp.large('q', 1));
SELECT kube_reports.aggregate(:'one', at_once => true);
SELECT plural, name, results FROM pg_temp.stored WHERE name ~ '^(l[1-4]|u1[01])$';
-- What a restore brings is merged again, to the same.
SELECT kube_reports.after_restore() > 0 AS restored;
SELECT kube_reports.aggregate(:'one');
SELECT stage, namespace, key FROM kube_reports_internal.aggregation_queue;
SELECT kube_reports.aggregate(:'one', at_once => true);
SELECT count(*) FROM kube_reports_internal.change;

---- the merges of Kyverno 1.8 to 1.10 ----
DELETE FROM kube_reports.object;
CREATE FUNCTION pg_temp.old_report(kind text, name text, uid text, results jsonb, owned boolean DEFAULT false,
	namespace text DEFAULT 'ns') RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('apiVersion', 'kyverno.io/v1alpha2', 'kind', kind,
		'metadata', jsonb_strip_nulls(jsonb_build_object('name', name, 'namespace', nullif(namespace, ''),
			'labels', jsonb_build_object('audit.kyverno.io/resource.uid', uid, 'audit.kyverno.io/resource.gvr',
				'pods.v1', 'app.kubernetes.io/managed-by', 'kyverno'),
			'ownerReferences', CASE WHEN owned THEN jsonb_build_array(jsonb_build_object('apiVersion', 'v1', 'kind',
				'Pod', 'name', 'pod-' || uid, 'uid', uid)) END)),
		'spec', jsonb_build_object('owner', '{"apiVersion": "", "kind": "", "name": "", "uid": ""}'::jsonb, 'results',
			results))::kube_reports.report) IS NOT NULL
$$;
SELECT admission, policy_reports, chunk_size
	FROM kube_reports.set_aggregation(:'one', admission => true, policy_reports => 'policy', chunk_size => 2);
SELECT pg_temp.old_report('AdmissionReport', 'a1', 'u1',
	jsonb_build_array(pg_temp.result('p', 'a', 'pass', 5), pg_temp.result('p', 'b', 'pass', 5))),
	pg_temp.old_report('AdmissionReport', 'a2', 'u1',
		jsonb_build_array(pg_temp.result('p', 'a', 'fail', 6), pg_temp.result('ns/q', 'z', 'warn', 1),
		pg_temp.result('x/y/z', 'z', 'warn', 1)));
-- Nobody knows whose they are.
SELECT kube_reports.aggregate(:'one', at_once => true), kube_reports.aggregate(:'one', at_once => true);
SELECT plural, name FROM pg_temp.stored;
SELECT pg_temp.old_report('BackgroundScanReport', 'u1', 'u1',
	jsonb_build_array(pg_temp.result('p', 'a', 'error', 8)), true),
	pg_temp.old_report('BackgroundScanReport', 'u2', 'u2',
		jsonb_build_array(pg_temp.result('p', 'a', 'skip', 8)), true);
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT plural, name, results FROM pg_temp.stored;
SELECT o.name, o.metadata::jsonb->'labels' AS labels, r.value->'resources' AS resources
	FROM kube_reports.object o, jsonb_array_elements(o.body::jsonb#>'{spec,results}') r WHERE o.resource_type = 7
		AND r.value->>'rule' = 'b';
-- The second chunk of one policy and the first of another would be called the same.
SELECT count(pg_temp.old_report('BackgroundScanReport', 'c' || n, 'c' || n,
	jsonb_build_array(pg_temp.result('foo', 'r', 'pass', n), pg_temp.result('foo-1', 'r', 'fail', n)), true))
	FROM generate_series(1, 3) n;
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT name, results FROM pg_temp.stored WHERE name ~ 'foo';
SELECT count(kube_reports.patch_report(:'one', 'backgroundscanreports.kyverno.io', 'ns', 'c' || n,
	jsonb_build_object('spec', jsonb_build_object('results',
	jsonb_build_array(pg_temp.result('foo', 'r', 'pass', n)))))) FROM generate_series(1, 3) n;
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT name, results FROM pg_temp.stored WHERE name ~ 'foo';
DELETE FROM kube_reports.object WHERE name ~ '^c[1-3]$';
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
-- Large results are in smaller chunks.
SELECT count(pg_temp.old_report('BackgroundScanReport', 'l' || n, 'l' || n, pg_temp.large('large', 900000), true))
	FROM generate_series(1, 4) n;
SELECT chunk_size FROM kube_reports.set_aggregation(:'one', chunk_size => 3);
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT name, results FROM pg_temp.stored WHERE name ~ 'large';
SELECT chunk_size FROM kube_reports.set_aggregation(:'one', chunk_size => 2);
DELETE FROM kube_reports.object WHERE name ~ '^l[1-4]$';
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
-- What was being deleted when options changed, or when the dump was made, leaves nothing behind.
SELECT pg_temp.old_report('BackgroundScanReport', 'c1', 'c1',
	jsonb_build_array(pg_temp.result('foo', 'r', 'pass', 1)), true, 'alone');
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
DELETE FROM kube_reports.object WHERE name = 'c1';
SELECT stage, namespace FROM kube_reports_internal.aggregation_queue;
SELECT chunk_size FROM kube_reports.set_aggregation(:'one', chunk_size => 3);
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT name, results FROM pg_temp.stored WHERE name ~ 'foo';
-- What is called as the aggregated report becomes one, with label and owner; what Kyverno does not manage stays as it
-- is, and tells nothing.
SELECT pg_temp.old_report('AdmissionReport', 'n1', 'n1',
	jsonb_build_array(pg_temp.result('own', 'r', 'pass', 1)), true),
	pg_temp.old_report('AdmissionReport', 'n2', 'n2', jsonb_build_array(pg_temp.result('own', 'r', 'fail', 1))),
	pg_temp.old_report('AdmissionReport', 'n2-short', 'n2',
		jsonb_build_array(pg_temp.result('short', 'r', 'fail', 1)), true),
	pg_temp.stay('n3-foreign', 'n3', 1, '{"labels": {"audit.kyverno.io/resource.uid": "n3"}}', 'AdmissionReport'),
	pg_temp.old_report('AdmissionReport', 'n3-short', 'n3', jsonb_build_array(pg_temp.result('short', 'r', 'pass', 1))),
	pg_temp.stay('n4', 'n4', 1, '{"labels": {"audit.kyverno.io/resource.uid": "n4"}}', 'AdmissionReport'),
	pg_temp.old_report('AdmissionReport', 'n4-short', 'n4',
		jsonb_build_array(pg_temp.result('short', 'r', 'pass', 1)), true);
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 6);
SELECT s.name, s.results, o.labels, o.metadata::jsonb#>>'{ownerReferences,0,name}' AS owner
	FROM pg_temp.stored s JOIN kube_reports.object o ON o.name = s.name
		WHERE s.plural = 'admissionreports' AND s.name ~ '^n[1-4]'
	ORDER BY s.name;
SELECT s.name, s.results FROM pg_temp.stored s WHERE s.plural = 'policyreports' AND s.name ~ 'own|short';
DELETE FROM kube_reports.object WHERE name ~ '^n[1-4]';
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
-- More than one step's worth, held by finalizers.
SELECT count(pg_temp.stay('held' || n, 'u7', n, '{"finalizers": ["example.com/hold"], "ownerReferences": []}',
	'AdmissionReport')) FROM generate_series(1, 110) n;
SELECT pg_temp.stay('z7', 'u7', 200, '{}', 'AdmissionReport');
SELECT kube_reports.aggregate(:'one', at_once => true) AS merged FROM generate_series(1, 10) OFFSET 9;
SELECT count(*) FROM kube_reports_internal.aggregation_queue;
SELECT plural, name, results FROM pg_temp.stored WHERE name ~ '^(u7|z7)';
DELETE FROM kube_reports.object WHERE name ~ '^(held|u7)';
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT kube_reports.set_active_policies(:'one',
	'[{"policy": "p", "rules": ["a"], "version": "77"}, {"policy": "ns/q", "version": "78"}]');
SELECT count(*) FILTER (WHERE kube_reports.aggregate(:'one', at_once => true)) > 0 AS merged FROM generate_series(1, 4);
SELECT s.plural, s.name, s.results, o.metadata::jsonb->'labels' AS labels FROM pg_temp.stored s
	JOIN kube_reports.object o ON o.name = s.name AND o.resource_type = 1 ORDER BY s.plural, s.name;
-- Another group, another kind of report: what there was before goes, step by step, unless somebody else manages it; so
-- it does after a way round.
DELETE FROM kube_reports.object;
SELECT kube_reports.set_active_policies(:'one', NULL);
SELECT kube_reports.create_report(:'one', pg_temp.document('cpol-mine', '{}')) IS NOT NULL AS mine;
SELECT pg_temp.old_report('BackgroundScanReport', 'g1', 'g1',
	jsonb_build_array(pg_temp.result('foo', 'r', 'pass', 1), pg_temp.result('bar', 'r', 'pass', 1)), true),
	pg_temp.old_report('ClusterBackgroundScanReport', 'g2', 'g2',
		jsonb_build_array(pg_temp.result('foo', 'r', 'pass', 1)), true, '');
CREATE FUNCTION pg_temp.settle("group" text, policy_reports text) RETURNS SETOF pg_temp.stored LANGUAGE plpgsql AS $$
BEGIN
	PERFORM kube_reports.set_aggregation('00000000-0000-0000-0000-000000000001', "group" => settle."group",
		policy_reports => settle.policy_reports);
	FOR n IN 1 .. 20 LOOP
		PERFORM kube_reports.aggregate('00000000-0000-0000-0000-000000000001', at_once => true);
	END LOOP;
	IF EXISTS (SELECT FROM kube_reports_internal.aggregation_queue) THEN
		RAISE 'something waits still';
	END IF;
	RETURN QUERY SELECT s.* FROM pg_temp.stored s WHERE s.plural ~ '^(cluster)?(policy)?reports$';
END
$$;
SELECT plural, name, results FROM pg_temp.settle('wgpolicyk8s.io', 'policy');
SELECT plural, name, results FROM pg_temp.settle('openreports.io', 'policy');
SELECT pg_temp.ephemeral('g' || n, 'g' || n, jsonb_build_array(pg_temp.result('foo', 'r', 'pass', 2)),
	namespace => CASE n WHEN 4 THEN '' ELSE 'ns' END) FROM generate_series(3, 4) n;
SELECT plural, name, results FROM pg_temp.settle('openreports.io', 'resource');
SELECT plural, name, results FROM pg_temp.settle('openreports.io', 'off');
SELECT plural, name, results FROM pg_temp.settle('wgpolicyk8s.io', 'off');
SELECT plural, name, results FROM pg_temp.settle('wgpolicyk8s.io', 'policy');
SELECT pg_temp.ephemeral('g3', 'g3', jsonb_build_array(pg_temp.result('foo', 'r', 'pass', 2)));
-- What waits is found again after a restore.
SELECT policy_reports FROM kube_reports.set_aggregation(:'one', policy_reports => 'resource');
SELECT kube_reports.aggregate(:'one');
SELECT kube_reports_internal.queue_everything(:cluster_id);
SELECT plural, name, results FROM pg_temp.settle('wgpolicyk8s.io', 'resource');
SELECT forms FROM kube_reports_internal.aggregation;
-- A step ends where it must, and the next one begins there.
SELECT count(kube_reports.create_report(:'one',
	jsonb_build_object('apiVersion', 'openreports.io/v1alpha1', 'kind', 'Report', 'source', '', 'metadata',
	jsonb_build_object('name', 'o' || n,
	'namespace', 'ns', 'labels', '{"app.kubernetes.io/managed-by": "kyverno"}'::jsonb))::kube_reports.report))
		FROM generate_series(1, 5) n;
SELECT kube_reports_internal.delete_former(:'one', a, '', 2),
	kube_reports_internal.delete_former(:'one', a, '[3, "ns", "o2"]', 2) FROM kube_reports_internal.aggregation a;
SELECT plural, name FROM pg_temp.stored WHERE plural = 'reports';
SELECT stage, namespace, key, after FROM kube_reports_internal.aggregation_queue ORDER BY after;
SELECT plural, name FROM pg_temp.settle('wgpolicyk8s.io', 'resource') WHERE plural = 'reports';
SELECT policy_reports FROM kube_reports.set_aggregation(:'one', admission => false, policy_reports => 'off');
SELECT count(*) FROM kube_reports_internal.aggregation_queue;

---- the names of rules ----
CREATE FUNCTION pg_temp.names(rules jsonb, controllers text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT array_to_string(kube_reports.policy_rules(
		jsonb_build_object('metadata', CASE WHEN controllers IS NULL THEN '{}' ELSE
		jsonb_build_object('annotations', jsonb_build_object('pod-policies.kyverno.io/autogen-controllers',
			controllers)) END,
		'spec', jsonb_build_object('rules', rules))::kube_reports.report), ' ')
$$;
CREATE FUNCTION pg_temp.rule(kinds jsonb, more jsonb DEFAULT '{}', name text DEFAULT 'r',
	body jsonb DEFAULT '{"validate": {"deny": {}}}') RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('name', name, 'match',
		jsonb_build_object('any', jsonb_build_array(jsonb_build_object('resources',
		jsonb_build_object('kinds', kinds) || more)))) || body
$$;
SELECT c.what, pg_temp.names(jsonb_build_array(VARIADIC c.rules), c.controllers) AS names FROM (VALUES
	('pods', NULL, ARRAY[pg_temp.rule('["Pod"]')]),
	('pods by version', NULL, ARRAY[pg_temp.rule('["v1/Pod"]')]),
	('pods by group', NULL, ARRAY[pg_temp.rule('["*/v1/Pod.status"]'), pg_temp.rule('["Pod"]', name => 's')]),
	('a version is none', NULL, ARRAY[pg_temp.rule('["v1x/Pod"]'), pg_temp.rule('["Job"]', name => 's')]),
	('no pods', NULL, ARRAY[pg_temp.rule('["Service"]')]),
	('controllers alone', NULL, ARRAY[pg_temp.rule('["Deployment"]')]),
	('pods and others', NULL, ARRAY[pg_temp.rule('["Pod", "Deployment"]')]),
	('by name', NULL, ARRAY[pg_temp.rule('["Pod"]', '{"name": "x"}')]),
	('by selector', NULL, ARRAY[pg_temp.rule('["Pod"]', '{"selector": {}}')]),
	('one rule spoils all', NULL, ARRAY[pg_temp.rule('["Pod"]'), pg_temp.rule('["Pod"]', '{"annotations": {}}', 's')]),
	('excluded by names', NULL, ARRAY[pg_temp.rule('["Pod"]') || '{"exclude": {"resources": {"names": ["x"]}}}']),
	('excluded others', NULL, ARRAY[pg_temp.rule('["Pod"]')
		|| '{"exclude": {"all": [{"resources": {"kinds": ["Service"]}}]}}']),
	('generate', NULL, ARRAY[pg_temp.rule('["Pod"]', body => '{"generate": {"kind": "x"}}')]),
	('patches', NULL, ARRAY[pg_temp.rule('["Pod"]', body => '{"mutate": {"patchesJson6902": "x"}}')]),
	('merge', NULL, ARRAY[pg_temp.rule('["Pod"]', body => '{"mutate": {"patchStrategicMerge": {}}}')]),
	('images', NULL, ARRAY[pg_temp.rule('["Pod"]', body => '{"verifyImages": [{}]}')]),
	('nothing to convert', NULL, ARRAY[pg_temp.rule('["Pod"]', body => '{"validate": {"message": "x"}}')]),
	('made by somebody else', NULL, ARRAY[pg_temp.rule('["Pod"]'), pg_temp.rule('["Pod"]', name => 'autogen-old')]),
	('long', NULL, ARRAY[pg_temp.rule('["Pod"]', name => repeat('n', 60))]),
	('none', 'none', ARRAY[pg_temp.rule('["Pod"]')]), ('empty', '', ARRAY[pg_temp.rule('["Pod"]')]),
		('all', 'all', ARRAY[pg_temp.rule('["Pod"]')]),
	('cron jobs', 'CronJob', ARRAY[pg_temp.rule('["Pod"]')]),
		('some', 'Deployment,Job', ARRAY[pg_temp.rule('["Pod"]')]),
	('not asked', 'Deployment', ARRAY[pg_temp.rule('["Pod", "Job"]')])) c(what, controllers, rules);
SELECT kube_reports.policy_rules('{}'), kube_reports.policy_rules(
	'{"spec": {"rules": [{}, 1, {"name": 2}, {"name": "a\u0000b"}, {"name": "c", "match": [], "exclude": 1}]}}');
