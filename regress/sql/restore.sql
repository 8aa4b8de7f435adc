-- Rows of a dump: with the triggers as pg_restore leaves them, and with triggers disabled.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
SELECT count(kube_reports.create_report(:'one',
	jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
	'metadata', jsonb_build_object('name', 'r' || n))::kube_reports.report)) AS created FROM generate_series(1, 3) n;
CREATE TEMP TABLE dumped_cluster AS SELECT id, uid FROM kube_reports.cluster;
CREATE TEMP TABLE dumped_lane AS SELECT id, cluster_id, resource_type, floor, lost, store
	FROM kube_reports_internal.lane;
CREATE TEMP TABLE dumped_object AS SELECT cluster_id, resource_type, namespace, name, uid, version, metadata::text,
	body::text FROM kube_reports.object;
SELECT last_value AS dumped_version FROM kube_reports_internal.version_seq \gset

CREATE FUNCTION pg_temp.restore(dumped_version bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM setval('kube_reports_internal.version_seq', dumped_version);
	INSERT INTO kube_reports.cluster (id, uid) SELECT id, uid FROM dumped_cluster;
	INSERT INTO kube_reports_internal.lane (id, cluster_id, resource_type, floor, lost, store) SELECT *
		FROM dumped_lane;
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
		SELECT cluster_id, resource_type, namespace, name, uid, version, metadata::kube_reports.report,
			body::kube_reports.report FROM dumped_object;
END
$$;
CREATE FUNCTION pg_temp.list(cluster uuid, OUT code integer, OUT names text[], OUT version bigint) LANGUAGE sql AS $$
	SELECT l.code, l.names, (l.body #>> '{metadata,resourceVersion}')::bigint
	FROM (SELECT min(l.code) AS code, convert_from(string_agg(l.body, ''), 'UTF8')::jsonb AS body,
			array_remove(array_agg(l.metadata::jsonb->>'name'), NULL) AS names
		FROM kube_reports_internal.api_list(cluster,
			'{"verb":"list","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports"}', NULL) l) l
$$;

-- As every dump does at its head.
SET row_security = off;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
RESET row_security;
SELECT restore_pending FROM kube_reports.status;
SELECT pg_temp.restore(:dumped_version);
SELECT restore_pending FROM kube_reports.status;
-- Views do not fail: they show what the dump has, and restore_status says that results are missing.
SELECT s.*, (SELECT count(*) FROM kube_reports.stored_report) AS reports,
	(SELECT count(*) FROM kube_reports.typed_result) AS results FROM kube_reports.restore_status s;
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
SELECT kube_reports_internal.finish_restore(), generation > 0 AS welcome
	FROM kube_reports_internal.api_hello(:'one', '');
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

-- Only a restore begins one.  A version that comes with a row is ignored, as in an UPDATE.
SELECT kube_reports.create_report(:'one',
	'{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r4"}}')
	IS NOT NULL AS created;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT o.cluster_id, o.resource_type, o.namespace, o.name, o.uid, o.version, o.metadata, o.body
		FROM kube_reports.object o ON CONFLICT DO NOTHING;
INSERT INTO kube_reports_internal.lane SELECT * FROM kube_reports_internal.lane ON CONFLICT DO NOTHING;
INSERT INTO kube_reports.cluster SELECT * FROM kube_reports.cluster ON CONFLICT DO NOTHING;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, version, metadata, body)
	SELECT o.cluster_id, o.resource_type, o.namespace, 'r5', v.version, '{}', '{}'
		FROM kube_reports.object o, (VALUES (1), (9223372036854775807)) v(version)
	ON CONFLICT DO NOTHING;
SELECT restore_pending FROM kube_reports.status;
SELECT code, names, version > :dumped_version AS above FROM pg_temp.list(:'one');
SELECT count(*) AS changes, bool_and(o.version IN (SELECT c.version FROM kube_reports_internal.change c)) AS logged
	FROM kube_reports.object o;
-- A cluster that the owner inserts is served.
INSERT INTO kube_reports.cluster (uid) VALUES ('00000000-0000-0000-0000-000000000002');
SELECT restore_pending FROM kube_reports.status;
SELECT code, names FROM pg_temp.list('00000000-0000-0000-0000-000000000002');

-- Into a store that is there, tables in any order; versions that no store gives are refused, and so is a dump that is
-- not whole.
SELECT kube_reports.begin_restore();
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SELECT kube_reports.begin_restore();
SELECT restore_pending FROM kube_reports.status;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT cluster_id, resource_type, namespace, name, uid, 9223372036854775807, metadata::kube_reports.report,
		body::kube_reports.report FROM dumped_object;
ALTER TABLE kube_reports.object DISABLE TRIGGER USER;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT cluster_id, resource_type, namespace, name, uid, 9223372036854775807, metadata::kube_reports.report,
		body::kube_reports.report FROM dumped_object;
-- The last version that there is, past the limit by the way that has no trigger.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT cluster_id, resource_type, namespace, name, uid, 9007199254740991, metadata::kube_reports.report,
		body::kube_reports.report
	FROM dumped_object WHERE name = 'r1';
ALTER TABLE kube_reports.object ENABLE TRIGGER USER;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT cluster_id, resource_type, namespace, name, uid, version, metadata::kube_reports.report,
		body::kube_reports.report
	FROM dumped_object WHERE name <> 'r1';
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body)
	SELECT 77, resource_type, namespace, name, uid, version, metadata::kube_reports.report,
		body::kube_reports.report FROM dumped_object;
INSERT INTO kube_reports_internal.lane (id, cluster_id, resource_type, floor, lost, store) SELECT * FROM dumped_lane;
INSERT INTO kube_reports.cluster (id, uid) SELECT id, uid FROM dumped_cluster;
SELECT setval('kube_reports_internal.version_seq', 9223372036854775807);
SELECT setval('kube_reports_internal.version_seq', 9007199254740991) > 0 AS exhausted;
-- Every state has a way out.
SELECT kube_reports.after_restore();
DELETE FROM kube_reports.object WHERE name = 'r2' AND cluster_id <> 77;
DELETE FROM kube_reports.object WHERE cluster_id = 77;
SELECT kube_reports.new_incarnation();
SELECT kube_reports.after_restore() BETWEEN :dumped_version AND kube_reports_internal.version_limit() AS base_in_range;
SELECT restore_pending FROM kube_reports.status;
SELECT code, names, version > :dumped_version AS above FROM pg_temp.list(:'one');
SELECT count(*) AS missing FROM kube_reports_internal.dumped_references() r
	WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = r.child AND c.conname = r.name);
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000003') > (SELECT max(id)
	FROM dumped_cluster) AS new_id;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r1');
BEGIN;
SELECT setval('kube_reports_internal.version_seq', 9007199254740991) > 0 AS exhausted;
\set VERBOSITY sqlstate
SAVEPOINT s;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r2');
ROLLBACK TO s;
SELECT kube_reports.new_incarnation();
ROLLBACK TO s;
\set VERBOSITY terse
SELECT kube_reports.new_incarnation(log_lost => true) < kube_reports_internal.version_limit() AS in_range;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r2');
COMMIT;

-- A session without row security is that of a dump only while the store is empty.
SET row_security = off;
INSERT INTO kube_reports.cluster (uid, name) VALUES ('00000000-0000-0000-0000-000000000004', 'x');
RESET row_security;
SELECT restore_pending FROM kube_reports.status;
SELECT code, names FROM pg_temp.list('00000000-0000-0000-0000-000000000004');
