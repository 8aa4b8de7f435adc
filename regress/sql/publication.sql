-- Whatever a publication of all tables publishes can be updated and deleted: each table, and each month of history, has
-- a key or is its own.
\set VERBOSITY terse
SET client_min_messages = error;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
SELECT kube_reports.make_history(now());
SELECT c.oid::regclass AS without FROM pg_class c
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind IN ('r', 'p')
		AND NOT (c.relreplident = 'f'
			OR c.relreplident = 'd' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
	ORDER BY 1;
SELECT count(*) > 30 AS published, string_agg(format('%s', c.oid::regclass), ', ') AS tables FROM pg_class c
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition \gset
SELECT :'published' AS published;
CREATE PUBLICATION regress_all FOR TABLE :tables;

-- What deletes and updates rows: the API, results that change and come back, folding, merging, upkeep, a mend, grants.
SELECT kube_reports.set_aggregation(:'one', admission => true, policy_reports => 'resource', delay => '0',
	follow_policies => false);
CREATE FUNCTION pg_temp.report(kind text, name text, status text) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT (jsonb_build_object('apiVersion', CASE kind WHEN 'PolicyReport' THEN 'wgpolicyk8s.io/v1alpha2'
		ELSE 'reports.kyverno.io/v1' END, 'kind', kind,
		'metadata', jsonb_build_object('name', name, 'namespace', 'ns', 'labels',
			jsonb_build_object('audit.kyverno.io/resource.uid', 'u'))) ||
		CASE kind WHEN 'PolicyReport' THEN jsonb_build_object('results',
			jsonb_build_array(jsonb_build_object('policy', 'p', 'result', status)))
			ELSE jsonb_build_object('spec', jsonb_build_object('owner',
				jsonb_build_object('apiVersion', 'v1', 'kind', 'Pod', 'name', 'pod', 'uid', 'u')))
				END)::kube_reports.report
$$;
SELECT count(kube_reports.create_report(:'one', pg_temp.report('PolicyReport', 'a', 'pass'))) AS created;
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a',
	'{"results": [{"policy": "p", "result": "fail"}]}') IS NOT NULL AS changed;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a');
SELECT count(kube_reports.create_report(:'one', pg_temp.report('PolicyReport', 'a', 'fail'))) AS created_again;
SELECT count(*) AS events FROM kube_reports_internal.result_change;
SELECT count(kube_reports.create_report(:'one', pg_temp.report('EphemeralReport', 'e', NULL))) AS created;
SELECT count(*) > 0 AS queued FROM kube_reports_internal.aggregation_queue;
SELECT kube_reports.aggregate(:'one', at_once => true) IS NOT NULL AS merged FROM generate_series(1, 3);
SELECT kube_reports_internal.fold_rollups() AS more;
SELECT count(*) AS deltas FROM kube_reports_internal.rollup_delta;
SELECT kube_reports.maintain() IS NOT NULL AS maintained;
CALL kube_reports.rebuild();
INSERT INTO kube_reports_internal.reader_grant (role) VALUES ('regress_nobody_at_all');
DELETE FROM kube_reports_internal.reader_grant;
SELECT kube_reports.new_incarnation(log_lost => true) > 0 AS moved;
SELECT kube_reports.after_restore() > 0 AS restored;
SELECT kube_reports.prepare_subscriber();
DELETE FROM kube_reports.object;
DROP PUBLICATION regress_all;
