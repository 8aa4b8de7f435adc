-- Right answers: what is worst, what is fixed, one score for all; and how they are found, whatever the statistics
-- say.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
-- Plans are compared below: what the planner knows of results does not depend on when autovacuum came by.
ALTER TABLE kube_reports_internal.result SET (autovacuum_enabled = off);
\set one '00000000-0000-0000-0000-000000000001'
\set two '00000000-0000-0000-0000-000000000002'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
SELECT kube_reports.register_cluster(:'two', 'two') AS other_id \gset
SELECT kube_reports.set_setting('settle_window', '0');
CREATE FUNCTION pg_temp.written(cluster uuid, namespace text, name text, results jsonb) RETURNS boolean LANGUAGE sql
	AS $$
	SELECT CASE WHEN EXISTS (SELECT FROM kube_reports.object o WHERE o.name = written.name)
		THEN kube_reports.patch_report(cluster, 'policyreports.wgpolicyk8s.io', namespace, name,
			jsonb_build_object('results', results))
		ELSE kube_reports.create_report(cluster, jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
			'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', name, 'namespace', namespace),
			'results', results)::kube_reports.report) END IS NOT NULL
$$;

---- what is fixed ----
-- Each result is about a resource: app, or the one that it names.
CREATE FUNCTION pg_temp.results(said text[]) RETURNS jsonb LANGUAGE sql AS $$
	SELECT coalesce(jsonb_agg(jsonb_build_object('source', 's', 'policy', split_part(w, ' ', 1), 'result',
		split_part(w, ' ', 2), 'severity', 'high',
		'resources', jsonb_build_array(jsonb_build_object('apiVersion', 'v1', 'kind', 'Pod', 'name',
			coalesce(nullif(split_part(w, ' ', 3), ''), 'app'))))), '[]')
	FROM unnest(said) w
$$;
SELECT bool_and(pg_temp.written(:'one', 'ns', name, pg_temp.results(said))) AS written FROM (VALUES
	('passes', '{a fail,b fail}'::text[]), ('goes', '{a fail,b pass}'), ('last', '{a fail,b fail}'),
	('deleted', '{a fail,b fail,c warn,d pass}'),
	('several', '{a fail one,b fail one,c pass one,a fail two,b fail two}')) r(name, said);
SELECT bool_and(pg_temp.written(:'one', 'ns', name, pg_temp.results(said))) AS written FROM (VALUES
	-- Came to pass; is no longer reported; nothing is any more; a resource is gone, and of the other one a result.
	('passes', '{a pass,b fail}'::text[]), ('goes', '{b pass}'), ('last', '{}'), ('several', '{b fail two}'))
	r(name, said);
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'deleted');
SELECT e.report, e.policy, e.subject_name, e.old_status, e.new_status, e.gone_with FROM kube_reports.result_event e
	WHERE e.old_status IS NOT NULL
	ORDER BY e.report, e.subject_name, e.policy;
SELECT cluster_name, namespace, severity, fixed, gone, mean IS NOT NULL AS mean, gone_mean IS NOT NULL AS gone_mean
	FROM kube_reports.fix_time('-infinity', 'infinity');
SELECT fixed, gone FROM kube_reports.fix_time('-infinity', 'infinity', true);
-- Nothing but what is turned off at the beginning.
SELECT * FROM kube_reports.verify();
DELETE FROM kube_reports.object;

---- what is worst ----
-- Many of 9.0 that are critical, in many places; one of 10.0 and one of 9.9 that nobody calls critical; one that is
-- critical, and 4.3.
SELECT bool_and(pg_temp.written(:'one', 'ns-' || n % 3, 'v' || n, (SELECT jsonb_agg(jsonb_build_object('source', 's',
	'policy', 'CVE-2020-' || 1000 + v, 'result', 'fail',
		'severity', 'critical', 'properties', jsonb_build_object('score', CASE v WHEN 12 THEN '4.3' ELSE '9.0' END,
			'resource', 'package-' || v))) FROM generate_series(1, 12) v)))
	AS written FROM generate_series(1, 9) n;
SELECT pg_temp.written(:'two', 'ns', 'log4shell', '[{"source": "s", "policy": "CVE-2021-44228", "result": "warn",
	"severity": "high", "properties": {"score": "10.0", "resource": "log4j", "fixedVersion": "2.15.0"}},
	{"source": "s", "policy": "CVE-2021-44228", "result": "fail", "properties": {"score": "3.0",
		"resource": "other"}}]');
SELECT pg_temp.written(:'one', 'ns-1', 'worse', '[{"source": "s", "policy": "GHSA-x", "result": "fail",
	"severity": "medium", "properties": {"score": "9.9"}},
	{"source": "s", "policy": "CVE-passes", "result": "pass", "severity": "critical",
		"properties": {"score": "10.0"}}, {"source": "s", "policy": "CVE-unscored", "result": "fail",
		"severity": "critical"},
	{"source": "s", "policy": "no-vulnerability", "result": "fail", "severity": "critical",
		"properties": {"score": "10.0"}}]');
SELECT policy, severity, score, failing, places, package, fixed_version FROM kube_reports.worst_vulnerabilities(4);
SELECT policy, score, failing FROM kube_reports.worst_vulnerabilities(100) OFFSET 12;
SELECT v->>'policy' AS policy, v->'score' AS score FROM
	jsonb_array_elements(kube_reports.dashboard()->'top_vulnerabilities') v LIMIT 3;
SELECT policy, score FROM kube_reports.worst_vulnerabilities(2, '{"cluster": "one", "namespace": ["ns-1", "ns-2"],
	"source": "s"}');
SELECT count(*) FROM kube_reports.worst_vulnerabilities(2, '{"namespace": "nowhere"}');
SELECT kube_reports.worst_vulnerabilities(2, '{"policy": "p"}');
SELECT kube_reports.worst_vulnerabilities(0);
-- Who sees one namespace is told of that one alone.
CREATE ROLE regress_answers LOGIN;
SELECT kube_reports.grant_namespace('regress_answers', :'one', 'ns-2');
GRANT regress_answers TO CURRENT_USER;
SET ROLE regress_answers;
SELECT policy, score, failing, places FROM kube_reports.worst_vulnerabilities(2);
RESET ROLE;

---- one score ----
-- A cluster of ten results does not weigh as much as one of a hundred.
SELECT s.pass, s.failing, c.pass = s.pass AND c.failing = s.failing AS as_clusters, round(s.score::numeric, 6) AS
	score, round(s.weighted_score::numeric, 6) AS weighted,
		s.critical + s.high + s.medium + s.low + s.other = s.failing AS parts
	FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) d, kube_reports.fleet_score(d.today, d.today) s,
		(SELECT sum(c.pass) AS pass, sum(c.warn + c.fail + c.error) AS failing FROM
			kube_reports.compliance_score(current_date - 1, current_date + 1) c WHERE c.day = (now() AT TIME ZONE
			'UTC')::date) c;
SELECT c.cluster_name, s.score = c.score AND s.weighted_score = c.weighted_score AS same
	FROM kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date) c,
		kube_reports.fleet_score(c.day, c.day, jsonb_build_object('cluster', c.cluster_name)) s ORDER BY 1;
SELECT d->'score' = to_jsonb(round(s.score::numeric, 6)) AND d->'weighted_score' =
	to_jsonb(round(s.weighted_score::numeric, 6)) AS same
	FROM (SELECT kube_reports.dashboard()->'trend'->-1 AS d) d,
		kube_reports.fleet_score((now() AT TIME ZONE 'UTC')::date,
		(now() AT TIME ZONE 'UTC')::date) s;
SELECT count(*), max(day) - min(day) AS days FROM kube_reports.fleet_score('2020-01-01', '2020-01-31', '{}', 7);
SELECT kube_reports.fleet_score('2020-01-02', '2020-01-01');
SELECT kube_reports.fleet_score('2020-01-01', '2020-01-02', '{"policy": "p"}');

---- which index is walked ----
DELETE FROM kube_reports.object;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT :cluster_id, t.id, 'ns-' || n % 10, 'r' || n, '{}', jsonb_build_object('results', (SELECT
		jsonb_agg(jsonb_build_object('source', 's', 'policy', 'CVE-' || p, 'result', 'fail',
			'properties', jsonb_build_object('score', CASE WHEN n <= 3 AND p = 1 THEN '9.9' WHEN p < 17 THEN '5.0'
				ELSE '0' END))) FROM generate_series(1, 20) p))::text::kube_reports.report
	FROM kube_reports.resource_type t, generate_series(1, 1500) n WHERE t.plural = 'policyreports' AND t."group" =
		'wgpolicyk8s.io';
-- How results are read: whole, or by an index.
CREATE VIEW pg_temp.read AS
	SELECT 'whole' AS way, t.seq_scan AS scans, t.seq_tup_read AS rows FROM pg_stat_user_tables t WHERE t.relid =
		'kube_reports_internal.result'::regclass
	UNION ALL
	SELECT i.indexrelname, i.idx_scan, i.idx_tup_read FROM pg_stat_user_indexes i WHERE i.relid =
		'kube_reports_internal.result'::regclass;
CREATE TEMP TABLE before (way text, scans bigint, rows bigint);
CREATE VIEW pg_temp.since AS
	SELECT r.way, r.rows - b.rows < 4200 AS few FROM pg_temp.read r JOIN before b USING (way) WHERE r.rows > b.rows
		+ 4;
-- The query of docs/analytics.md.
SELECT 'SELECT cluster_name, namespace, report, policy, subject_name, score FROM kube_reports.typed_result
	WHERE score >= 8 ORDER BY score DESC' AS question \gset
CREATE FUNCTION pg_temp.walked(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line		text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan.* (using|on) result_s|Seq Scan on result' THEN
			RETURN NEXT regexp_replace(line, '^[ >-]*', '');
		END IF;
	END LOOP;
END
$$;
-- A reader sees the index in the plan, before anything has been analyzed.
SELECT kube_reports.grant_reader('regress_answers');
SET ROLE regress_answers;
SELECT pg_temp.walked(:'question') ~ 'result_score\M' AS by_score;
RESET ROLE;
\set flush 'SELECT pg_stat_force_next_flush(); SELECT pg_stat_clear_snapshot();'
\set mark 'TRUNCATE before; INSERT INTO before SELECT * FROM pg_temp.read;'
-- Few are high, and no statistics say so.
:flush
:mark
SELECT report, results, highest_score FROM kube_reports.reports_with_score(8.0);
:flush
SELECT * FROM pg_temp.since ORDER BY 1;
-- Few are high, and all were when statistics were made.
UPDATE kube_reports_internal.result SET score = 9.5 WHERE score = 5;
ANALYZE kube_reports_internal.result;
UPDATE kube_reports_internal.result SET score = 5 WHERE score = 9.5;
VACUUM kube_reports_internal.result;
:flush
:mark
SELECT report, results, highest_score FROM kube_reports.reports_with_score(8.0);
:flush
SELECT * FROM pg_temp.since ORDER BY 1;
-- Many are high, and few were: the first reports, and no look at results without a score.
ANALYZE kube_reports_internal.result;
UPDATE kube_reports_internal.result SET score = 9.5 WHERE score = 5;
VACUUM kube_reports_internal.result;
:flush
:mark
SELECT count(*), sum(results) FROM kube_reports.reports_with_score(8.0);
:flush
SELECT * FROM pg_temp.since ORDER BY 1;
SELECT count(*), sum(results) FROM kube_reports.reports_with_score(8.0, '{}', 10000);
SELECT report FROM kube_reports.reports_with_score(8.0, '{}', 2, (SELECT max(place) FROM
	kube_reports.reports_with_score(8.0, '{}', 3)));
UPDATE kube_reports_internal.result SET score = 5 WHERE score = 9.5;
-- Not so many are high, but the first reports fill the page: what is read does not grow with those that follow.
UPDATE kube_reports_internal.result SET score = 9.5 WHERE score = 5 AND criterion IN (SELECT k.id
	FROM kube_reports_internal.criterion k WHERE k.policy IN ('CVE-5', 'CVE-6', 'CVE-7', 'CVE-8'));
VACUUM kube_reports_internal.result;
:flush
:mark
SELECT count(*), sum(results) FROM kube_reports.reports_with_score(8.0);
:flush
SELECT r.way, r.rows - b.rows < (SELECT count(*) FROM kube_reports_internal.result s WHERE s.score >= 8) AS not_all
	FROM pg_temp.read r JOIN before b USING (way) WHERE r.rows > b.rows + 4 ORDER BY 1;
UPDATE kube_reports_internal.result SET score = 5 WHERE score = 9.5;
-- The same once it is analyzed, also for other queries over the view.
ANALYZE kube_reports_internal.result;
SET ROLE regress_answers;
SELECT pg_temp.walked(:'question') ~ 'result_score\M' AS by_score;
RESET ROLE;
SELECT pg_temp.walked('SELECT * FROM kube_reports.typed_result WHERE score >= 8');
SELECT pg_temp.walked('SELECT * FROM kube_reports.typed_result WHERE score = 9.9 AND namespace = ''ns-1''');
-- Each cell of the counts has results on 150 pages, and no result is so new: the pages are read once, not once for each
-- of the 20 cells.
CREATE VIEW pg_temp.pages AS
	SELECT s.heap_blks_read + s.heap_blks_hit AS pages FROM pg_statio_user_tables s WHERE s.relid =
		'kube_reports_internal.result'::regclass;
:flush
SELECT pages FROM pg_temp.pages \gset
SELECT count(*) FROM kube_reports.search_results('{"namespace": "ns-1", "since_from": "infinity"}');
:flush
SELECT p.pages - :pages < 2000 AS once FROM pg_temp.pages p;
SELECT count(*), count(DISTINCT report) FROM kube_reports.search_results('{"namespace": "ns-1", "since_from":
	"-infinity"}', 10000);
-- Without a cluster, the index would be read from its beginning to its end.
SELECT f.way, f.clusters = ARRAY[:cluster_id] AS of_cluster, cardinality(f.criteria) >= 20 AS criteria, f.statuses
	FROM kube_reports_internal.caller c, kube_reports_internal.read_filter('{"namespace": "ns-1", "since_from":
		"infinity"}', c.role, c.seal) f;
-- Few results of the namespace match: two pages have them all.
UPDATE kube_reports_internal.result r SET since = '2100-01-01' FROM kube_reports_internal.origin g
	WHERE g.id = r.origin AND g.name IN ('r1', 'r11', 'r2');
WITH one AS (SELECT * FROM kube_reports.search_results('{"namespace": "ns-1", "since_from": "2099-01-01"}', 30)),
	two AS (SELECT s.* FROM kube_reports.search_results('{"namespace": "ns-1", "since_from": "2099-01-01"}', 30,
		(SELECT o.place FROM one o OFFSET 29)) s)
SELECT count(*), count(DISTINCT (report, policy)), min(report), max(report)
	FROM (SELECT * FROM one UNION ALL SELECT * FROM two) p;
UPDATE kube_reports_internal.result r SET since = r.first_seen WHERE r.since = '2100-01-01';

---- readers ----
-- Views of a store that was never analyzed cost too much in the eyes of the planner, which then compiles what runs
-- for milliseconds.
SELECT unnest(s.setconfig) AS setting FROM pg_db_role_setting s WHERE s.setrole = 'regress_answers'::regrole ORDER BY
	1;
SELECT kube_reports.revoke_reader('regress_answers');
SELECT count(*) FROM pg_db_role_setting s WHERE s.setrole = 'regress_answers'::regrole;
ALTER ROLE regress_answers SET jit = on;
SELECT kube_reports.grant_reader('regress_answers');
SELECT s.setdatabase <> 0 AS here, unnest(s.setconfig) AS setting FROM pg_db_role_setting s WHERE s.setrole =
	'regress_answers'::regrole ORDER BY 2;
SELECT kube_reports.revoke_reader('regress_answers');
DROP ROLE regress_answers;

---- what is worst, among many ----
-- Two thousand vulnerabilities of two hundred scores: the first ten, and equals of the last one, are looked at.
DELETE FROM kube_reports.object;
SELECT bool_and(pg_temp.written(:'one', 'ns-' || n % 5, 'many-' || n,
	(SELECT jsonb_agg(jsonb_build_object('source', 's',
	'policy', 'CVE-2030-' || 1000 + 100 * n + v, 'result', 'fail', 'severity', 'high', 'properties',
		jsonb_build_object('score', ((n * 100 + v) / 10 / 20.0)::text))) FROM generate_series(1, 100) v))) AS written
	FROM generate_series(1, 20) n;
SELECT kube_reports_internal.fold_rollups(1000000) AS more;
CREATE TEMP VIEW looked_at AS
	SELECT sum(pg_stat_get_xact_tuples_returned(r) + pg_stat_get_xact_tuples_fetched(r)) AS rows
	FROM unnest('{kube_reports_internal.result,kube_reports_internal.rollup}'::regclass[]) r;
BEGIN;
SELECT rows AS before FROM looked_at \gset
SELECT policy, score FROM kube_reports.worst_vulnerabilities(10);
SELECT rows - :before < 300 AS few FROM looked_at;
ROLLBACK;
-- The page of a fleet asks for its numbers once, wherever it shows them.
BEGIN;
SELECT rows AS before FROM looked_at \gset
SELECT kube_reports_internal.fleet_numbers('{}', NULL, NULL)->'policies' AS policies;
SELECT rows - :before AS once FROM looked_at \gset
SELECT length(kube_reports.fleet_html()) > 0 AS made;
SELECT :once > 0 AS looked, rows - :before - :once <= :once AS once FROM looked_at;
ROLLBACK;
-- Who sees none of them, and asks for other sources, is answered all the same.
SELECT count(*) FROM kube_reports.worst_vulnerabilities(3000);
SELECT count(*), count(DISTINCT policy), min(score)
	FROM kube_reports.worst_vulnerabilities(100, '{"namespace": "ns-1"}');
SELECT count(*) FROM kube_reports.worst_vulnerabilities(10, '{"source": "other"}');
SELECT policy, score FROM kube_reports.worst_vulnerabilities(2, '{"source": "s", "namespace": "ns-1"}');
-- Where all have one score, a part of them is compared, however many they are.
UPDATE kube_reports_internal.result SET score = 7.5;
VACUUM kube_reports_internal.result;
BEGIN;
SELECT rows AS before FROM looked_at \gset
SELECT count(*), min(score), max(score), count(DISTINCT policy) AS policies FROM kube_reports.worst_vulnerabilities(10);
SELECT rows - :before < 1000 AS few FROM looked_at;
ROLLBACK;
SELECT count(*), count(DISTINCT policy) AS policies FROM kube_reports.worst_vulnerabilities(1900);
SELECT count(*), min(score) FROM kube_reports.worst_vulnerabilities(100, '{"namespace": "ns-1"}');
