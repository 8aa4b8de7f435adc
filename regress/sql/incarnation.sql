-- Who writes first after a promotion may be anybody: every way of writing notices that the server is another one.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
SELECT kube_reports.create_report(:'one',
	'{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "r"}}')
	IS NOT NULL AS created;

-- What a promoted server finds: the timeline of the one that it was a standby of, and a sequence that is behind.
CREATE FUNCTION promoted(at bigint) RETURNS void LANGUAGE sql AS $$
	UPDATE kube_reports_internal.store SET timeline = timeline - 1;
	SELECT setval('kube_reports_internal.version_seq', at);
$$;
-- Of each way of writing: whether its version is one that the failed server cannot have given, and where the gap is.
CREATE FUNCTION above_gap(known bigint) RETURNS TABLE (above boolean, gap boolean) LANGUAGE sql AS $$
	SELECT s.last_value > known + 1000, bool_or(l.lost @> known + 1000)
	FROM kube_reports_internal.lane l, kube_reports_internal.version_seq s GROUP BY s.last_value
$$;

SELECT max(version) AS known FROM kube_reports_internal.change \gset
SELECT promoted(:known);
\c -
\set VERBOSITY terse
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'r');
SELECT * FROM above_gap(:known);
-- One look in a session: a transaction that is rolled back has seen nothing.
SELECT kube_reports_internal.check_incarnation() AS moved;
UPDATE kube_reports_internal.lane SET lost = '{}';

SELECT max(version) AS known FROM kube_reports_internal.change \gset
SELECT promoted(:known);
\c -
\set VERBOSITY terse
BEGIN;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, 1, 'default', 'dml', '{}', '{}');
ROLLBACK;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	VALUES (:cluster_id, 1, 'default', 'dml', '{}', '{}');
SELECT * FROM above_gap(:known);
UPDATE kube_reports_internal.lane SET lost = '{}';

SELECT max(version) AS known FROM kube_reports_internal.change \gset
SELECT promoted(:known);
\c -
\set VERBOSITY terse
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000002') > 0 AS known;
SELECT * FROM above_gap(:known);
SELECT min(l.floor) > :known + 1000 AS above FROM kube_reports_internal.lane l
	JOIN kube_reports.cluster c ON c.id = l.cluster_id WHERE c.uid::text LIKE '%2';

-- What a copy by CREATE DATABASE ... TEMPLATE finds: everything but the database is the same.
UPDATE kube_reports_internal.lane SET lost = '{}';
SELECT max(version) AS known FROM kube_reports_internal.change \gset
SELECT database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AS noted
	FROM kube_reports_internal.store;
UPDATE kube_reports_internal.store SET database = 1;
SELECT setval('kube_reports_internal.version_seq', :known) = :known AS behind;
\c -
\set VERBOSITY terse
SELECT kube_reports.create_report(:'one',
	'{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {"name": "copied"}}')
	IS NOT NULL AS created;
SELECT * FROM above_gap(:known);
SELECT kube_reports_internal.check_incarnation() AS moved;

DROP FUNCTION promoted(bigint);
DROP FUNCTION above_gap(bigint);
