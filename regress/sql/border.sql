-- What both variants have in common: the same functions, the same tables, the same basic behaviour.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

SELECT p.oid::regprocedure AS function, pg_get_function_result(p.oid) AS result
	FROM pg_proc p
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND p.proname NOT IN ('report_in', 'report_out', 'report_recv', 'report_send', 'is_report', 'only_in_c')
		AND p.proname NOT LIKE 'sql\_%' AND p.proname NOT LIKE 'api\_engine\_%'
	ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND c.relname NOT LIKE 'sql\_%'
	ORDER BY c.relnamespace::regnamespace::text COLLATE "C", c.relname COLLATE "C", a.attnum;

-- Reports are JSON objects in both.
SELECT '{"a": 1}'::kube_reports.report, ('{"a": 1}'::kube_reports.report)::jsonb,
	('{"a": 1}'::kube_reports.report)::text,
	'{"a": 1}'::jsonb::kube_reports.report, '{"a": 1}'::json::kube_reports.report,
		kube_reports.document_size('{"a": 1}');
SELECT kube_reports.label_terms('{"labels":{"b":"2","a":"1","B":"3"}}'), kube_reports.label_terms('{"labels":{}}'),
	kube_reports.label_terms('{}');

-- Both know the same types.
SELECT "group", plural, kind, namespaced, results FROM kube_reports.resource_type ORDER BY id;
SELECT kube_reports_internal.crd_definitions(t.crd)->'versions'->0->>'kind' AS kind
	FROM kube_reports.resource_type t WHERE t.id = 1;
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000001', 'one') IS NOT NULL AS known;
SELECT count(*) AS lanes, bool_and(floor > 0) AS numbered FROM kube_reports_internal.lane;
SELECT convert_from(kube_reports_internal.status_document(404, 'NotFound', 'not here', '{"name":"x"}'), 'UTF8')::jsonb;
SELECT kube_reports_internal.continue_token(42, true, '', 'ns', 'a') AS all_namespaces,
	kube_reports_internal.continue_token(42, true, 'ns', 'ns', 'a') AS one_namespace,
	kube_reports_internal.continue_token(-1, false, '', '', 'a') AS cluster_scope;
SELECT kube_reports.new_incarnation() > 0 AS moved, kube_reports_internal.compact() AS more;
-- Ids of what results share, the same in both.
SELECT kube_reports_internal.field_hash('criterion', 'kyverno', 'p', 'r', '', 'high'),
	kube_reports_internal.field_hash('a', 'bc'), kube_reports_internal.field_hash('ab', 'c'),
	kube_reports_internal.field_hash('\u00e4', NULL), kube_reports_internal.field_hash(VARIADIC '{}');
-- Rows of history, packed and unpacked.
SELECT kube_reports_internal.common('{7,7,7}') AS same, kube_reports_internal.common('{7,7,8}') AS others,
	kube_reports_internal.common('{7,NULL,7}') AS nulls_too, kube_reports_internal.common('{NULL,7}') AS null_first,
	kube_reports_internal.common('{NULL}') AS null, kube_reports_internal.common('{}') AS none,
	kube_reports_internal.common('{5}') AS one, kube_reports_internal.common(NULL) AS missing;
SELECT kube_reports_internal.joined_ids('{1,2}', '{3,3}', '{4,4}') AS alike,
	kube_reports_internal.joined_ids('{1,2}', '{3,4}', '{5,5}') AS criteria,
	kube_reports_internal.joined_ids('{1,2}', '{3,3}', '{5,6}') AS subjects,
	kube_reports_internal.joined_ids('{1,2}', '{3,4}', '{5,6}') AS both,
	kube_reports_internal.joined_ids('{1}', '{3}', '{4}') AS one,
	kube_reports_internal.joined_ids('{}', '{}', '{}') AS none,
	kube_reports_internal.joined_ids('{1}', NULL, '{4}') AS missing;
SELECT kube_reports_internal.letters('{p,p}') AS same, kube_reports_internal.letters('{p,f,w}') AS others,
	kube_reports_internal.letters('{p,NULL,p}') AS nulls_too, kube_reports_internal.letters('{NULL,p}') AS null_first,
	kube_reports_internal.letters('{NULL,NULL}') AS nulls, kube_reports_internal.letters('{}') AS none,
	kube_reports_internal.letters('{s}') AS one, kube_reports_internal.letters(NULL) AS missing;
SELECT kube_reports_internal.packed('{infinity,infinity}') AS same,
	cardinality(kube_reports_internal.packed('{infinity,-infinity}')) AS others,
	cardinality(kube_reports_internal.packed('{infinity,NULL}')) AS nulls_too,
	kube_reports_internal.packed('{NULL,NULL}') AS nulls, kube_reports_internal.packed('{}') AS none,
	kube_reports_internal.packed('{infinity}') AS one, kube_reports_internal.packed(NULL) AS missing;
SELECT u.key, u.criterion, u.subject, u.old_status, u.new_status, u.gone_with,
	u.first_seen AT TIME ZONE 'UTC' AS first_seen, u.old_since AT TIME ZONE 'UTC' AS old_since
	FROM kube_reports_internal.unpacked_changes('{-9223372036854775808,2,3,4,5,6}', NULL, 7, '-fp', 'p-w', '-s-',
		ARRAY[NULL, '2026-01-01 00:00:00.000001+00', 'infinity']::timestamptz[],
		ARRAY['2026-02-01 00:00:00+00']::timestamptz[]) u;
SELECT u.* FROM kube_reports_internal.unpacked_changes('{1,2}', 4, 7, NULL, 'p', NULL, NULL, NULL) u;
SELECT u.* FROM kube_reports_internal.unpacked_changes('{1,2,7,8}', 4, NULL, 'f', '--', NULL, NULL, NULL) u;
SELECT u.* FROM kube_reports_internal.unpacked_changes('{1,2,4,5,7,8}', NULL, NULL, '-', 'p', '', NULL, NULL) u;
-- Too few letters and times, and too many ids.
SELECT u.* FROM kube_reports_internal.unpacked_changes('{1,2,3,4,5,6,7}', NULL, 9, 'ff', 'pw', NULL, NULL,
	'{infinity,infinity}') u;
SELECT count(*) AS none FROM kube_reports_internal.unpacked_changes(NULL, 4, 7, NULL, 'p', NULL, NULL, NULL) u;
SELECT count(*) AS many, count(DISTINCT u.key) AS keys, sum(u.criterion) AS criteria, min(u.new_status::text) AS status
	FROM kube_reports_internal.unpacked_changes(ARRAY(SELECT generate_series(1, 2000)), NULL, 7, NULL, 'p', NULL, NULL,
		NULL) u;
SELECT "group", plural, (mapping::jsonb)->>'list' AS list FROM kube_reports_internal.known_mapping ORDER BY 1, 2;
SELECT kube_reports.maintain() IS NOT NULL AS maintained, (SELECT count(*) FROM kube_reports.verify()) AS differences;
-- The page for readers, of a store without results.
SELECT kube_reports.dashboard_html() ~ '^<!DOCTYPE html>.*No results are stored' AS page,
	kube_reports.dashboard()->'failing_policies' AS failing;
