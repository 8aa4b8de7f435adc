-- Rows of a dump: with the triggers as pg_restore leaves them, and with triggers disabled.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
SELECT count(kube_reports.create_report(:'one', jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
	'metadata', jsonb_build_object('name', 'r' || n))::kube_reports.report)) AS created FROM generate_series(1, 3) n;
CREATE TEMP TABLE dumped_cluster AS SELECT id, uid FROM kube_reports.cluster;
CREATE TEMP TABLE dumped_lane AS SELECT id, cluster_id, resource_type, floor, lost, store FROM kube_reports_internal.lane;
CREATE TEMP TABLE dumped_object AS SELECT cluster_id, resource_type, namespace, name, uid, version, metadata::text, body::text FROM kube_reports.object;
SELECT last_value AS dumped_version FROM kube_reports_internal.version_seq \gset

CREATE FUNCTION pg_temp.restore(dumped_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setval('kube_reports_internal.version_seq', dumped_version);
	INSERT INTO kube_reports.cluster (id, uid) SELECT id, uid FROM dumped_cluster;
	INSERT INTO kube_reports_internal.lane (id, cluster_id, resource_type, floor, lost, store) SELECT * FROM dumped_lane;
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
		SELECT cluster_id, resource_type, namespace, name, uid, version, metadata::kube_reports.report, body::kube_reports.report FROM dumped_object;
END
$$;
CREATE FUNCTION pg_temp.list(cluster uuid, OUT code integer, OUT names text[], OUT version bigint) LANGUAGE sql AS $$
	SELECT l.code, ARRAY(SELECT jsonb_path_query(l.body, '$.items[*].metadata.name') #>> '{}'), (l.body #>> '{metadata,resourceVersion}')::bigint
	FROM (SELECT min(l.code) AS code, convert_from(string_agg(l.body, ''), 'UTF8')::jsonb AS body
		FROM kube_reports_internal.api_list(cluster, '{"verb":"list","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports"}', NULL) l) l
$$;

DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SELECT pg_temp.restore(:dumped_version);
SELECT restore_pending FROM kube_reports.status;
-- Nobody gives a version before it has moved on: not the API, not DML.
SELECT * FROM pg_temp.list(:'one');
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r1');
UPDATE kube_reports.object SET metadata = jsonb_set(metadata::jsonb, '{labels}', '{"a": "b"}')::kube_reports.report;
DELETE FROM kube_reports.object;
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello(:'one', '');
SELECT restore_pending FROM kube_reports.status;
SELECT code, names, version > :dumped_version AS above FROM pg_temp.list(:'one');
-- One incarnation for all who notice; upkeep notices what connections have not.
SELECT min(floor) AS floor FROM kube_reports_internal.lane \gset
SELECT kube_reports_internal.finish_restore(), generation > 0 AS welcome FROM kube_reports_internal.api_hello(:'one', '');
SELECT min(floor) = :floor AS same FROM kube_reports_internal.lane;
UPDATE kube_reports_internal.store SET restore_pending = true;
-- Whoever asks for results is told.
SELECT * FROM kube_reports.restore_status;
SELECT count(*) >= 0 AS searched FROM kube_reports.search_results();
SELECT kube_reports.dashboard() IS NOT NULL AS drawn;
SELECT kube_reports.catch_up();
SELECT restore_pending FROM kube_reports.status;
SELECT min(floor) > :floor AS higher FROM kube_reports_internal.lane;

DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
ALTER TABLE kube_reports.cluster DISABLE TRIGGER USER;
ALTER TABLE kube_reports_internal.lane DISABLE TRIGGER USER;
ALTER TABLE kube_reports.object DISABLE TRIGGER USER;
SELECT pg_temp.restore(:dumped_version);
ALTER TABLE kube_reports.cluster ENABLE TRIGGER USER;
ALTER TABLE kube_reports_internal.lane ENABLE TRIGGER USER;
ALTER TABLE kube_reports.object ENABLE TRIGGER USER;
SELECT restore_pending FROM kube_reports.status;
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello(:'one', '');
SELECT restore_pending FROM kube_reports.status;
SELECT code, names, version > :dumped_version AS above FROM pg_temp.list(:'one');
SELECT bool_and(floor > :dumped_version) AS floors_above FROM kube_reports_internal.lane;

-- A sequence that was set back is noticed, also when the log is empty.
BEGIN;
SELECT setval('kube_reports_internal.version_seq', 1);
\set VERBOSITY sqlstate
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r1');
ROLLBACK;
BEGIN;
SELECT setval('kube_reports_internal.version_seq', 1);
DELETE FROM kube_reports.object;
ROLLBACK;
\set VERBOSITY terse
BEGIN;
SELECT setval('kube_reports_internal.version_seq', 1);
SELECT kube_reports.new_incarnation() > :dumped_version AS moved;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r1');
DELETE FROM kube_reports.object;
COMMIT;
SELECT code, names, version > :dumped_version AS above FROM pg_temp.list(:'one');
