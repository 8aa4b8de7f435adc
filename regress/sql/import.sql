-- States of the past: results, history and counts are as if they had been written then; verify() agrees.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SET TimeZone = 'UTC';
\set one '00000000-0000-0000-0000-000000000001'
\set polr 'policyreports.wgpolicyk8s.io'
SELECT kube_reports.register_cluster(:'one', 'one') > 0 AS known;
CREATE FUNCTION pg_temp.polr(name text, VARIADIC outcomes text[]) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', name, 'namespace', 'shop'),
		'results', jsonb_agg(jsonb_build_object('policy', 'p', 'rule', 'r' || n, 'result', o) ORDER BY n))
		::kube_reports.report
	FROM unnest(outcomes) WITH ORDINALITY u(o, n) WHERE o <> ''
$$;
-- Days ago, at noon of a day (UTC).
CREATE FUNCTION pg_temp.ago(days integer) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT ((now() AT TIME ZONE 'UTC')::date - days + time '12:00') AT TIME ZONE 'UTC'
$$;
CREATE FUNCTION pg_temp.days_ago(at timestamptz) RETURNS integer LANGUAGE sql AS $$
	SELECT (now() AT TIME ZONE 'UTC')::date - (at AT TIME ZONE 'UTC')::date
$$;
CREATE VIEW pg_temp.scores AS
	SELECT pg_temp.days_ago(s.day) AS days_ago, s.pass, s.fail, s.score
	FROM kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date - 45, (now() AT TIME ZONE 'UTC')::date) s
	ORDER BY s.day;

-- One report over 40 days, another that was deleted, and one that is written now.
SELECT kube_reports.import_report(:'one', pg_temp.polr('a', 'fail', 'pass'), pg_temp.ago(40), 'scanner');
SELECT kube_reports.import_report(:'one', pg_temp.polr('b', 'fail'), pg_temp.ago(39), 'scanner');
SELECT kube_reports.import_report(:'one', pg_temp.polr('a', 'pass', 'pass', 'warn'), pg_temp.ago(30), 'scanner');
SELECT kube_reports.import_deletion(:'one', :'polr', 'shop', 'b', pg_temp.ago(20), 'gardener');
SELECT kube_reports.import_report(:'one', pg_temp.polr('a', 'pass', 'fail', ''), pg_temp.ago(10), 'scanner');
SELECT kube_reports.create_report(:'one', pg_temp.polr('c', 'pass')) IS NOT NULL AS created;

SELECT e.report, e.rule, e.old_status, e.new_status, pg_temp.days_ago(e.at) AS days_ago,
		pg_temp.days_ago(e.first_seen) AS first_seen, pg_temp.days_ago(e.old_since) AS old_since,
		CASE WHEN e.report <> 'c' THEN e.actor END AS actor
	FROM kube_reports.result_event e ORDER BY e.at, e.report, e.rule;
SELECT o.report, o.rule, o.status, pg_temp.days_ago(o.since) AS since FROM kube_reports.open_failures o;
SELECT i.report, i.rule, i.status, pg_temp.days_ago(i.valid_from) AS since
	FROM kube_reports.result_interval i WHERE i.valid_to = 'infinity' ORDER BY i.report, i.rule;
SELECT days_ago, pass, fail, score FROM pg_temp.scores WHERE days_ago IN (41, 40, 39, 31, 30, 21, 20, 11, 10, 1, 0);
SELECT * FROM kube_reports.verify();
-- Folded, it is the same.
SELECT kube_reports_internal.fold_rollups();
SELECT days_ago, pass, fail, score FROM pg_temp.scores WHERE days_ago IN (41, 40, 39, 31, 30, 21, 20, 11, 10, 1, 0);
SELECT * FROM kube_reports.verify();
SELECT status, count(*) FROM kube_reports.status_at(pg_temp.ago(25)) GROUP BY status ORDER BY status;
SELECT severity, fixed, mean FROM kube_reports.fix_time(pg_temp.ago(45), now());
-- What is of now stays of now, and nothing of an import is left.
SELECT count(*) AS changes, min(c.at) > now() - interval '10 minutes' AS of_now FROM kube_reports_internal.change c;
SELECT count(*) FROM kube_reports_internal.import_time;

-- What cannot be.
\set VERBOSITY sqlstate
SELECT kube_reports.import_report(:'one', pg_temp.polr('a', 'pass'), pg_temp.ago(11));
SELECT kube_reports.import_report(:'one', pg_temp.polr('c', 'pass'), pg_temp.ago(1));
SELECT kube_reports.import_report(:'one', pg_temp.polr('d', 'pass'), now() + interval '1 minute');
SELECT kube_reports.import_report(:'one', pg_temp.polr('d', 'pass'), NULL);
SELECT kube_reports.import_report(:'one', pg_temp.polr('d', 'pass'), now() - interval '3 years');
SELECT kube_reports.import_report(:'one', '{"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
	"metadata": {"name": "e", "namespace": "shop"}, "spec": {"owner": {}}}', now());
SELECT kube_reports.import_report('00000000-0000-0000-0000-000000000002', pg_temp.polr('d', 'pass'), now());
SELECT kube_reports.import_report(:'one', pg_temp.polr(NULL, 'pass'), now());
SELECT kube_reports.import_deletion(:'one', :'polr', 'shop', 'd', now());
SELECT kube_reports.import_deletion(:'one', 'policyreport', 'shop', 'a', now());
SELECT count(*) FROM kube_reports_internal.import_time;
\set VERBOSITY terse
-- What is written next is of now again.
SELECT kube_reports.patch_report(:'one', :'polr', 'shop', 'a', '{"results": []}') IS NOT NULL AS patched;
SELECT max(at) > now() - interval '10 minutes' AS of_now FROM kube_reports_internal.result_change;
SELECT * FROM kube_reports.verify();
