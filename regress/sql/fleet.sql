-- A fleet: labels of clusters, as filters and in grants, and what is served of a fleet.
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
-- Queries over tables that were never analyzed are compiled for seconds.
SET jit = off;
\set VERBOSITY terse
\set eu '00000000-0000-0000-0000-0000000000e1'
\set us '00000000-0000-0000-0000-0000000000e2'
\set lab '00000000-0000-0000-0000-0000000000e3'
SELECT kube_reports.register_cluster(:'eu', 'prod-eu', '{"env": "prod", "region": "eu"}') IS NOT NULL AS eu,
	kube_reports.register_cluster(:'us', 'prod-us') IS NOT NULL AS us,
	kube_reports.register_cluster(:'lab', 'lab', '{"env": "test"}') IS NOT NULL AS lab;
CREATE ROLE regress_prod LOGIN;
CREATE ROLE regress_eu_team LOGIN;
GRANT regress_prod, regress_eu_team TO CURRENT_USER;

SELECT kube_reports.create_report(c.cluster::uuid, jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
		'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', 'r', 'namespace', n),
		'results', jsonb_build_array(jsonb_build_object('source', 's', 'policy', 'p', 'rule', 'r', 'severity', 'high',
			'result', c.result, 'message', 'of ' || c.result)))::kube_reports.report) IS NOT NULL AS created
	FROM (VALUES (:'eu', 'pass'), (:'us', 'fail'), (:'lab', 'warn')) c(cluster, result),
		unnest('{shop,payments}'::text[]) n;

---- labels ----
SELECT kube_reports.set_cluster_labels(:'us', '{"region": "us", "env": "prod"}');
SELECT kube_reports.set_cluster_labels(:'us', '{"region": 1}');
SELECT kube_reports.set_cluster_labels(:'us', '["a"]');
SELECT kube_reports.set_cluster_labels(:'us', NULL);
SELECT kube_reports.set_cluster_labels(:'us', '{"a=b": "c"}');
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.set_cluster_labels('00000000-0000-0000-0000-00000000000f', '{}');
\echo :LAST_ERROR_SQLSTATE
SELECT s.selector, array_agg(c.name ORDER BY c.name) FILTER (WHERE c.uid IN (SELECT kube_reports.clusters(s.selector)))
	FROM unnest(ARRAY['', 'env=prod', 'env!=prod', 'env=prod,region in (eu,asia)', 'region', '!region', 'env=none'])
		WITH ORDINALITY s(selector, n), kube_reports.cluster c
	GROUP BY s.n, s.selector ORDER BY s.n;
SELECT * FROM kube_reports.clusters('env in prod');
\echo :LAST_ERROR_SQLSTATE

---- filters ----
SELECT cluster_name, namespace FROM kube_reports.search_results('{"cluster_labels": "env=prod", "status": "fail"}');
SELECT cluster_name, name, failing FROM kube_reports.search_resources('{"cluster_labels": "env=test"}');
SELECT count(*) FROM kube_reports.search_results('{"cluster_labels": "env=prod", "cluster": "prod-eu"}');
SELECT count(*) FROM kube_reports.search_results('{"cluster_labels": "env=none"}');
SELECT value, failing FROM kube_reports.top('cluster', 5, '{"cluster_labels": "region"}');
SELECT count(*) FROM kube_reports.worst_vulnerabilities(5, '{"cluster_labels": "env=prod"}');
SELECT f.labels, s.pass, s.failing, s.score FROM unnest(ARRAY['env=prod', 'env', 'env=none']) f(labels),
	(SELECT (now() AT TIME ZONE 'UTC')::date) d(today),
	kube_reports.fleet_score(d.today, d.today, jsonb_build_object('cluster_labels', f.labels)) s;
SELECT d->'clusters' AS clusters, d->'top_clusters'->0->>'cluster_name' AS worst
	FROM kube_reports.dashboard('{"cluster_labels": "env=prod"}') d;
SELECT cluster_name, status FROM kube_reports.export_results('{"cluster_labels": "region=eu"}');
SELECT cluster_name, new_status FROM kube_reports.export_events('{"cluster_labels": "region=us", "namespace": "shop"}');
SELECT cluster_name, pass, fail FROM kube_reports.fleet_matrix
	WHERE cluster IN (SELECT kube_reports.clusters('env=prod')) ORDER BY 1;
SELECT count(*) FROM kube_reports.search_results('{"cluster_labels": ["env=prod"]}');
SELECT count(*) FROM kube_reports.search_results('{"cluster_labels": "=="}');
\echo :LAST_ERROR_SQLSTATE
SELECT count(*) FROM kube_reports.search_results('{"cluster_labels": null}');

---- the page ----
SELECT f->'count' AS clusters, f->'silent' AS silent, f->'policies' AS policies, f->'columns' AS columns,
		f->'rows' AS rows,
		f->'score'->>'score' AS score, jsonb_path_query_array(f, '$.clusters[*].failing') AS failing
	FROM kube_reports_internal.fleet_numbers('{}', NULL, NULL) f;
SELECT f->'count' AS clusters, f->'columns' AS columns, f->'rows'->0->'cells' AS cells
	FROM kube_reports_internal.fleet_numbers('{"cluster_labels": "region=eu"}', NULL, NULL) f;
SELECT length(kube_reports.fleet_html('{"cluster_labels": "env=none"}')) > 0 AS made;
SELECT kube_reports.fleet_html('{"namespace": "shop"}');
SELECT kube_reports.fleet_html('{}', '2026-02-01', '2026-01-01');

---- grants ----
SELECT kube_reports.grant_clusters('regress_prod', 'env=prod'),
	kube_reports.grant_clusters('regress_eu_team', 'region=eu'),
	kube_reports.grant_namespace('regress_eu_team', :'lab', 'shop');
SELECT kube_reports.grant_clusters('regress_prod', ' ');
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.grant_clusters('regress_prod', 'env in prod');
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.grant_clusters('regress_nobody', 'env=prod');
CREATE FUNCTION public.regress_seen() RETURNS TABLE (what text, clusters text) LANGUAGE sql AS $$
	SELECT w.what, (SELECT string_agg(DISTINCT n, ' ' ORDER BY n) FROM unnest(w.names) n) FROM (
		SELECT 'typed_result', array_agg(cluster_name) FROM kube_reports.typed_result
		UNION ALL SELECT 'search_results', array_agg(cluster_name) FROM kube_reports.search_results()
		UNION ALL SELECT 'fleet_matrix', array_agg(cluster_name) FROM kube_reports.fleet_matrix
		UNION ALL SELECT 'fleet_freshness', array_agg(cluster_name) FROM kube_reports.fleet_freshness
		UNION ALL SELECT 'score_change', array_agg(cluster_name) FROM kube_reports.score_change WHERE of_cluster
		UNION ALL SELECT 'result_event', array_agg(cluster_name) FROM kube_reports.result_event
		UNION ALL SELECT 'export_events', array_agg(cluster_name) FROM kube_reports.export_events()
		UNION ALL SELECT 'clusters', array_agg(uid::text) FROM kube_reports.clusters() uid) w(what, names)
$$;
SET ROLE regress_prod;
SELECT * FROM public.regress_seen();
SELECT * FROM kube_reports.clusters('env=test');
RESET ROLE;
SET ROLE regress_eu_team;
SELECT * FROM public.regress_seen();
SELECT cluster_name, namespace FROM kube_reports.search_results('{"cluster_labels": "env=test"}');
RESET ROLE;
-- A label that changes changes what is seen, at once; also a cluster that comes later is seen.
SELECT kube_reports.set_cluster_labels(:'us', '{"env": "test"}');
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-0000000000e4', 'asia', '{"env": "prod"}') > 0 AS known;
SET ROLE regress_prod;
SELECT * FROM public.regress_seen();
RESET ROLE;
-- Other grants of the role leave a selector alone that selects nothing now.
SELECT kube_reports.revoke_clusters('regress_prod', 'env=prod');
SELECT kube_reports.grant_clusters('regress_prod', 'env=later');
SELECT kube_reports.grant_cluster('regress_prod', :'lab');
SELECT selector, cluster_id IS NULL AS of_selector FROM kube_reports_internal.reader_grant WHERE role = 'regress_prod'
	ORDER BY 1;
SELECT kube_reports.revoke_clusters('regress_prod', 'env=no'),
	kube_reports.revoke_clusters('regress_prod', 'env=later');
SET ROLE regress_prod;
SELECT cluster_name FROM kube_reports.fleet_freshness ORDER BY 1;
RESET ROLE;
SELECT kube_reports.revoke_reader('regress_prod', :'lab'), kube_reports.revoke_reader('regress_eu_team');
SELECT has_schema_privilege('regress_prod', 'kube_reports', 'USAGE'),
	has_schema_privilege('regress_eu_team', 'kube_reports', 'USAGE');
-- The last one by its selector takes the privileges along, too.
SELECT kube_reports.grant_clusters('regress_prod', 'env=prod');
SELECT kube_reports.revoke_clusters('regress_prod', 'env=prod');
SELECT has_schema_privilege('regress_prod', 'kube_reports', 'USAGE'),
	has_table_privilege('regress_prod', 'kube_reports.typed_result', 'SELECT');
DROP FUNCTION public.regress_seen();
DROP ROLE regress_prod, regress_eu_team;
DROP EXTENSION kube_reports CASCADE;
CREATE EXTENSION kube_reports;
