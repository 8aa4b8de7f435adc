-- Locks have names, and lock_status tells who holds them and who waits for whom.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') AS cluster_id \gset
-- No two have one key, and none is a lane's.
SELECT count(DISTINCT key) AS keys, count(*) AS names, max(key) < 1 AS no_lane
	FROM (VALUES (kube_reports_internal.store_lock()), (kube_reports_internal.compaction_lock()),
	(kube_reports_internal.sweep_lock()), (kube_reports_internal.folding_lock()),
		(kube_reports_internal.history_lock()), (kube_reports_internal.aggregation_lock(1)),
	(kube_reports_internal.garbage_lock()), (kube_reports_internal.analyze_lock()),
		(kube_reports_internal.removal_lock())) k(key);
CREATE FUNCTION pg_temp.held() RETURNS TABLE (lock text, cluster uuid, type text, shared boolean, mine boolean)
	LANGUAGE sql AS $$
	SELECT l.lock, l.cluster, l.type, l.shared, l.pid = pg_backend_pid() AND l.granted AND l.waits_for = '{}'
		AND l.role = session_user
	FROM kube_reports.lock_status l ORDER BY l.lock, l.type
$$;
BEGIN;
SELECT kube_reports.create_report(:'one', '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
	"metadata": {"name": "r"}, "results": [{"policy": "p", "result": "fail"}]}') IS NOT NULL AS created;
SELECT * FROM pg_temp.held();
COMMIT;
BEGIN;
SELECT kube_reports.set_aggregation(:'one', admission => true) IS NOT NULL AS set;
DELETE FROM kube_reports.object;
SELECT kube_reports_internal.collect_garbage() IS NOT NULL AS collected, kube_reports_internal.analyze_step()
	IS NOT NULL AS analyzed,
	kube_reports_internal.remove_marked_clusters() AS removed;
SELECT kube_reports_internal.compact() AS more, kube_reports_internal.fold_rollups() AS folded;
SELECT * FROM pg_temp.held() WHERE lock <> 'history';
ROLLBACK;
SELECT * FROM pg_temp.held();

-- Upkeep makes the month of history that is needed next in a transaction of its own, whatever other work there is:
-- while it has the lock of history, it waits for nothing.  A new store has no month yet, on any day.
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
CREATE TEMP TABLE made (more boolean, there boolean, locks text[]);
DO $$
DECLARE
	more		boolean;
BEGIN
	FOR n IN 1..10 LOOP
		EXECUTE format('DROP TABLE IF EXISTS kube_reports_internal.%I',
			'report_change_' || to_char((now() + interval '5 days') AT TIME ZONE 'UTC', 'YYYY_MM'));
		COMMIT;
		more := kube_reports.maintain();
		INSERT INTO made SELECT more, kube_reports_internal.has_history(now() + interval '5 days'),
			ARRAY(SELECT h.lock FROM pg_temp.held() h);
		COMMIT;
	END LOOP;
END
$$;
SELECT count(*), m.more, m.there, m.locks FROM made m GROUP BY 2, 3, 4;
-- The other work was left to the next steps.
SELECT bool_and(s.due_at = '-infinity') AS garbage, (SELECT count(*) > 0 FROM kube_reports_internal.unanalyzed())
	AS statistics FROM kube_reports_internal.garbage_sweep s;
SELECT count(*) > 0 AS done FROM generate_series(1, 40) n WHERE kube_reports.maintain();
SELECT bool_or(s.due_at > '-infinity') AS garbage FROM kube_reports_internal.garbage_sweep s;
