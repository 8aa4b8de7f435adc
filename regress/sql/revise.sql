-- An update that lets no result appear or go takes a short way: the same rows come of it as of the long way.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') > 0 AS known;
CREATE FUNCTION pg_temp.body(results jsonb) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT jsonb_build_object('results', (SELECT jsonb_agg(jsonb_build_object('policy', 'p', 'source', 's',
			'resources', '[{"kind": "Pod", "name": "a"}, {"kind": "Pod", "name": "b"}]'::jsonb) || r.result)
		FROM jsonb_array_elements(results) r(result)))::kube_reports.report
$$;
CREATE FUNCTION pg_temp.store(report_name text, results jsonb) RETURNS void LANGUAGE sql AS $$
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
		SELECT c.id, t.id, 'ns', report_name, '{}', pg_temp.body($2)
		FROM kube_reports.cluster c, kube_reports.resource_type t WHERE t.plural = 'policyreports'
		ON CONFLICT (cluster_id, resource_type, namespace, name) DO UPDATE SET body = excluded.body
$$;
SELECT '[{"rule": "1", "result": "pass", "message": "one"}, '
	'{"rule": "2", "result": "pass", "message": "two"}, '
	'{"rule": "3", "result": "fail", "message": "one", "severity": "low"}]' AS first \gset
SELECT '[{"rule": "1", "result": "warn", "message": "one", "severity": "low"}, '
	'{"rule": "2", "result": "pass", "message": "one"}, '
	'{"rule": "3", "result": "pass", "message": "two", "severity": "low"}]' AS second \gset
SELECT pg_temp.store('alone', :'first'), pg_temp.store('along', :'first');
-- It knows the texts that the others will come to.
SELECT pg_temp.store('texts', :'second');

-- Whether an update takes the short way: the document and the log as a write leaves them, and what is said of them.
CREATE FUNCTION pg_temp.revises(results jsonb, removed boolean DEFAULT false) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	revised		boolean;
	given		bigint := nextval('kube_reports_internal.version_seq');
BEGIN
	PERFORM kube_reports_internal.begin_own_write();
	INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, actor, old_version,
		old_metadata, old_body)
		SELECT l.id, given, 'M', o.namespace, o.name, session_user, o.version, o.metadata, o.body
		FROM kube_reports_internal.lane l JOIN kube_reports.object o USING (cluster_id, resource_type)
		WHERE o.name = 'alone';
	UPDATE kube_reports.object o SET version = given, body = pg_temp.body(results) WHERE o.name = 'alone';
	DELETE FROM kube_reports.object o WHERE removed AND o.name = 'alone';
	SELECT kube_reports_internal.revise_results(l.id, ROW(l.cluster_id, t.id, t.mapping_id, t.mapping, false, true),
			now(), '{ns}', '{alone}', ARRAY[given], ARRAY[given]) INTO revised
		FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		WHERE t.plural = 'policyreports';
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	RAISE division_by_zero USING MESSAGE = revised;
EXCEPTION WHEN division_by_zero THEN
	RETURN SQLERRM;
END
$$;
SELECT what, pg_temp.revises(results::jsonb, what = 'the report is deleted') FROM (VALUES
	('nothing', :'first'),
	('a time', replace(:'first', '"pass"', '"pass", "timestamp": {"seconds": 1800000000, "nanos": 0}')),
	('a status', replace(:'first', '"pass"', '"fail"')),
	('a status, and a text that is known', replace(replace(:'first', '"pass"', '"fail"'), '"two"', '"one"')),
	('a text that is new', replace(:'first', '"two"', '"three"')),
	('a severity that is known', replace(:'first', '"one"}', '"one", "severity": "low"}')),
	('a severity that is new', replace(:'first', '"low"', '"high"')),
	('a result appears', replace(:'first', '"rule": "1"', '"rule": "4"}, {"rule": "1"')),
	('a result goes', replace(:'first', '"rule": "1"', '"rule": "2"')),
	('the report is deleted', :'first')) v(what, results);
UPDATE kube_reports_internal.actor SET last_used = last_used - interval '2 months';
SELECT pg_temp.revises(replace(:'first', '"pass"', '"fail"')::jsonb) AS of_an_actor_that_is_new_this_month;
UPDATE kube_reports_internal.actor SET last_used = now();

-- The second report gets one result more in the same update, and loses it in the next one: that takes the long way.
\set more ', {"rule": "4", "result": "warn", "message": "four"}]'
SELECT '[{"rule": "1", "result": "pass", "message": "one"}, '
	'{"rule": "2", "result": "error", "message": "two"}, '
	'{"rule": "3", "result": "pass", "message": "one", "severity": "low"}]' AS third \gset
CREATE VIEW pg_temp.derived AS
	SELECT g.name, 1 AS part, r.key, concat_ws(' ', r.criterion, r.subject, r.detail, r.status, r.score,
			dense_rank() OVER w_first, dense_rank() OVER w_since, s.key) AS row
		FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
			LEFT JOIN kube_reports_internal.result_since s ON s.origin = r.origin AND s.key = r.key
				AND (s.first_seen, s.since) = (r.first_seen, r.since)
		WINDOW w_first AS (PARTITION BY g.name ORDER BY r.first_seen), w_since AS (PARTITION BY g.name ORDER BY r.since)
	UNION ALL
	SELECT e.report, 2, 0, concat_ws(' ', row_number() OVER w_event, e.rule, e.subject_name, e.severity,
			e.old_status, e.new_status, e.actor, e.first_seen = min(e.at) OVER (PARTITION BY e.report))
		FROM kube_reports.result_event e WHERE e.rule <> '4'
		WINDOW w_event AS (PARTITION BY e.report ORDER BY e.resource_version, e.rule, e.subject_name);
SELECT pg_temp.store('alone', :'second'), pg_temp.store('along', replace(:'second', '}]', '}' || :'more')::jsonb);
SELECT d.name, count(*) AS rows, md5(string_agg(d.part || d.row, ',' ORDER BY d.part, d.row)) =
		lead(md5(string_agg(d.part || d.row, ',' ORDER BY d.part, d.row))) OVER (ORDER BY d.name) AS equal
	FROM pg_temp.derived d WHERE d.name <> 'texts' AND d.key NOT IN (SELECT r.key FROM kube_reports_internal.result r
		JOIN kube_reports_internal.criterion c ON c.id = r.criterion WHERE c.rule = '4')
	GROUP BY d.name ORDER BY d.name;
SELECT pg_temp.store('alone', :'third'), pg_temp.store('along', :'third');
SELECT d.name, count(*) AS rows, md5(string_agg(d.part || d.row, ',' ORDER BY d.part, d.row)) =
		lead(md5(string_agg(d.part || d.row, ',' ORDER BY d.part, d.row))) OVER (ORDER BY d.name) AS equal
	FROM pg_temp.derived d WHERE d.name <> 'texts' GROUP BY d.name ORDER BY d.name;
SELECT r.status, r.kind, r.count FROM kube_reports_internal.current_rollup r ORDER BY 1, 3;
SELECT * FROM kube_reports.verify();

-- A decision remembers how results change, until the transaction ends: the rows that are computed of the stored texts.
-- result_difference() says when it computes.
CREATE TEMP TABLE decided (number integer, action "char", old_metadata kube_reports.report,
	old_body kube_reports.report, metadata kube_reports.report, body kube_reports.report, timed boolean);
CREATE VIEW pg_temp.said AS
	SELECT d.number, count(*) AS rows, md5(string_agg(r::text, ',' ORDER BY r.key)) AS difference
	FROM decided d, kube_reports.resource_type t, kube_reports_internal.result_difference(t.mapping_id, t.mapping, 1,
		d.old_metadata, d.old_body, d.metadata, d.body) r
	WHERE t.plural = 'policyreports' GROUP BY d.number;
CREATE FUNCTION pg_temp.document(report_name text, results text, version bigint DEFAULT NULL) RETURNS bytea
LANGUAGE sql AS $$
	SELECT convert_to(jsonb_strip_nulls(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
		'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', report_name, 'namespace', 'ns',
		'resourceVersion', version::text)) || pg_temp.body(results::jsonb)::jsonb)::text, 'UTF8')
$$;
CREATE FUNCTION pg_temp.request(verb text, report_name text DEFAULT NULL) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', 'wgpolicyk8s.io', 'version', 'v1alpha2',
		'resource', 'policyreports', 'namespace', 'ns', 'name', report_name, 'contentType', 'application/json',
		'username', 'u', 'query', '{}'::jsonb))
$$;
-- Numbers are compared in the form in which they are stored: 1.8e9 is an integer there.
SELECT replace(:'second', '"pass"', '"pass", "timestamp": {"seconds": 1800000000.0, "nanos": 0.0}') AS timed \gset
BEGIN;
INSERT INTO decided SELECT 1, a.action, NULL, NULL, a.metadata, a.body, a.evaluated_at IS NOT NULL
	FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id,
		kube_reports_internal.write_admit(v.id, v.definition, pg_temp.request('create'),
			pg_temp.document('x', :'first'), false, t.mapping_id, t.mapping, 1, 262144) a
	WHERE t.plural = 'policyreports';
INSERT INTO decided SELECT 2, a.action, d.metadata, d.body, a.metadata, a.body,
		a.evaluated_at = to_timestamp(1800000000)
	FROM decided d, kube_reports.resource_type t
		JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id,
		kube_reports_internal.write_decide(v.id, v.definition, pg_temp.request('update', 'x'),
			pg_temp.document('x', :'timed', 5), d.metadata, d.body, 5, false, t.mapping_id, t.mapping, 1, 262144) a
	WHERE t.plural = 'policyreports';
INSERT INTO decided SELECT 3, a.action, d.metadata, d.body, NULL, NULL, a.evaluated_at IS NOT NULL
	FROM decided d, kube_reports.resource_type t
		JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id,
		kube_reports_internal.write_decide(v.id, v.definition, pg_temp.request('delete', 'x'), NULL,
			d.metadata, d.body, 6, false, t.mapping_id, t.mapping, 1, 262144) a
	WHERE t.plural = 'policyreports' AND d.number = 2;
SELECT d.number, d.action, d.timed FROM decided d ORDER BY d.number;
CREATE TEMP TABLE remembered (number integer, rows bigint, difference text);
SET jit = off;
SET client_min_messages = debug1;
INSERT INTO remembered SELECT * FROM pg_temp.said;
COMMIT;
SELECT s.number, s.rows, s.difference = r.difference AS equal FROM pg_temp.said s JOIN remembered r USING (number)
	ORDER BY s.number;

-- So no write through the API computes results while it holds the lane's lock: neither of large documents nor of many.
CREATE FUNCTION pg_temp.write(verb text, names text[], results text, alone boolean) RETURNS integer[]
LANGUAGE sql AS $$
	SELECT w.codes FROM (SELECT array_agg(pg_temp.request(verb, CASE WHEN verb <> 'create' THEN n.name END)
				ORDER BY n.name) AS requests,
			array_agg(CASE WHEN verb <> 'delete' THEN pg_temp.document(n.name, results,
				(SELECT o.version FROM kube_reports.object o WHERE o.name = n.name)) END ORDER BY n.name) AS bodies
			FROM unnest(names) n(name)) b,
		kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001', b.requests, b.bodies,
			alone => alone) w
$$;
SELECT replace(:'second', '"message": "two"', '"message": "' || repeat('x', 110000) || '"') AS large \gset
SELECT pg_temp.write('create', '{a, b}', :'first', false);
SELECT pg_temp.write('create', '{c, d}', :'large', true);
SELECT pg_temp.write('update', '{a, b}', :'second', false);
SELECT pg_temp.write('update', '{a, c}', :'large', true);
SELECT pg_temp.write('update', '{a, b, c, d}', :'timed', NULL);
SELECT pg_temp.write('delete', '{a, b}', '', false);
SELECT d.code FROM kube_reports_internal.delete_piece('00000000-0000-0000-0000-000000000001',
	pg_temp.request('deletecollection') || '{"query": {"fieldSelector": ["metadata.name=c"]}}', NULL, NULL) d;
SELECT n.state FROM kube_reports_internal.api_namespace(:'one', 'ns', '', '', false) n;
SELECT kube_reports_internal.sweep_piece(:'one', 'ns', '', '', NULL) AS more;
-- DML does.
SELECT pg_temp.store('along', :'first');
SET client_min_messages = warning;
SELECT * FROM kube_reports.verify();
