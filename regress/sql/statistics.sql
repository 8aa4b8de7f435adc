-- Upkeep analyzes what autovacuum does not: small tables and partitioned ones.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
CREATE ROLE regress_upkeep;
CREATE ROLE regress_dashboards;
GRANT regress_upkeep, regress_dashboards TO current_user;
SELECT kube_reports.grant_proxy('regress_upkeep', :'one');
SET client_min_messages = warning;
SELECT kube_reports.grant_reader('regress_dashboards');
RESET client_min_messages;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'ns', 'r' || n, '{}', jsonb_build_object('scope', jsonb_build_object('kind', 'Pod', 'name',
		'p' || n),
		'results', jsonb_build_array(jsonb_build_object('policy', 'p', 'rule', 'r', 'result',
			'fail')))::kube_reports.report
	FROM kube_reports.cluster c, generate_series(1, 300) n;
SELECT kube_reports_internal.fold_rollups() AS more;
-- What the planner knows nothing of, though it has rows.
CREATE VIEW unknown AS
	SELECT c.oid::regclass AS name FROM pg_class c
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND c.reltuples < 0
		AND (c.relkind = 'r' AND pg_relation_size(c.oid) > 0
			OR c.relkind = 'p' AND (SELECT sum(pg_relation_size(i.inhrelid)) FROM pg_inherits i
				WHERE i.inhparent = c.oid) > 0);
SELECT count(*) > 10 AS many FROM unknown;
SELECT count(*) AS important FROM unknown u
	WHERE u.name IN ('kube_reports.cluster'::regclass, 'kube_reports_internal.reader_grant'::regclass,
		'kube_reports.resource_type'::regclass, 'kube_reports_internal.report_change'::regclass);
-- A proxy's role has no right to analyze, but upkeep that it asks for does.
SET ROLE regress_upkeep;
SELECT bool_or(kube_reports_internal.api_maintain(:'one')) AS more FROM generate_series(1, 60);
RESET ROLE;
SELECT name FROM unknown;
SELECT c.relname, c.reltuples FROM pg_class c WHERE c.oid IN ('kube_reports.cluster'::regclass,
	'kube_reports_internal.reader_grant'::regclass, 'kube_reports_internal.report_change'::regclass)
	ORDER BY c.relname;
SELECT count(*) > 0 AS known_of_all_months FROM pg_stats s WHERE s.schemaname = 'kube_reports_internal'
	AND s.tablename = 'report_change' AND s.inherited;
-- So that no query of readers costs so much that it is compiled.
CREATE FUNCTION pg_temp.cost(query text) RETURNS double precision LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN (plan->0->'Plan'->>'Total Cost')::double precision;
END
$$;
SET ROLE regress_dashboards;
SELECT count(*) > 20 AS many, string_agg(v.query, ', ' ORDER BY v.query) FILTER (WHERE v.cost >= 100000) AS compiled
	FROM (SELECT q.query, pg_temp.cost('SELECT * FROM kube_reports.' || q.query) AS cost
		FROM (SELECT quote_ident(c.relname) FROM pg_class c
				WHERE c.relnamespace = 'kube_reports'::regnamespace AND c.relkind = 'v'
					AND has_table_privilege(c.oid, 'SELECT')
			UNION ALL
			SELECT 'compliance_score(current_date - 29, current_date)') q(query)) v;
RESET ROLE;
-- Nothing is left to be analyzed, until much has changed.
SELECT count(*) AS due FROM kube_reports_internal.unanalyzed();
SELECT kube_reports_internal.analyze_step() AS more;
SELECT kube_reports.revoke_reader('regress_dashboards');
DROP VIEW unknown;
DELETE FROM kube_reports.object;
DROP OWNED BY regress_upkeep, regress_dashboards;
DROP ROLE regress_upkeep, regress_dashboards;
