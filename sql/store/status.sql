-- status.sql
--	  The state of the store, for administrators and for metrics.
--
-- All values are computed when they are queried.  Nothing is counted while reports are written.  A count of view
-- status that is not selected takes no time, because it is a subquery of its own.  Sizes are volatile, and take time
-- whenever the view is read: nothing that is asked often reads it.

CREATE VIEW kube_reports.status AS
	SELECT kube_reports_internal.script_version() AS version,
		r.restoring AS restore_pending,
		coalesce(s.restore_pending, true) OR EXISTS (SELECT FROM kube_reports_internal.result_rebuild)
			OR EXISTS (SELECT FROM kube_reports_internal.result_pending) AS results_pending,
		s.generation AS registry_generation,
		s.version IS DISTINCT FROM kube_reports_internal.script_version() AS update_pending,
		(SELECT count(*) FROM kube_reports.cluster) AS clusters,
		(SELECT count(*) FROM kube_reports.object) AS objects,
		(SELECT count(*) FROM kube_reports_internal.change) AS log_entries,
		pg_catalog.pg_total_relation_size('kube_reports.object') AS object_bytes,
		pg_catalog.pg_total_relation_size('kube_reports_internal.change') AS log_bytes,
		pg_catalog.pg_total_relation_size('kube_reports_internal.result') AS result_bytes,
		(SELECT pg_catalog.sum(pg_catalog.pg_total_relation_size(t.relid))::bigint
			FROM pg_catalog.pg_partition_tree('kube_reports_internal.report_change') t) AS history_bytes,
		(SELECT pg_catalog.sum(pg_catalog.pg_total_relation_size(t.relid))::bigint
			FROM pg_catalog.unnest(ARRAY['kube_reports_internal.rollup', 'kube_reports_internal.rollup_policy',
				'kube_reports_internal.rollup_delta', 'kube_reports_internal.rollup_daily',
				'kube_reports_internal.score_daily']::regclass[]) t(relid)) AS count_bytes,
		pg_catalog.pg_database_size(pg_catalog.current_database()) AS database_bytes,
		s.version AS schema_version,
		(SELECT p.probin FROM pg_catalog.pg_proc p
		WHERE p.oid = pg_catalog.to_regproc('kube_reports_internal.report_in'))
			AS library,
		pg_catalog.current_setting('server_version') AS server_version,
		pg_catalog.pg_is_in_recovery() AS standby,
		s.timeline,
		kube_reports.setting('log_retention')::interval AS log_retention,
		kube_reports.setting('log_bytes')::bigint AS log_limit,
		kube_reports.setting('history_retention')::interval AS history_retention,
		kube_reports.setting('daily_retention')::interval AS daily_retention
	FROM kube_reports_internal.restoring r LEFT JOIN kube_reports_internal.store s ON true;
COMMENT ON VIEW kube_reports.status IS 'the state of this store: one row';

-- Versions and times come from the log; compaction may have removed the newest change.
CREATE VIEW kube_reports.lane_status AS
	SELECT c.uid AS cluster, c.name AS cluster_name, t.plural || '.' || t."group" AS type,
		l.floor, kube_reports_internal.lane_version(l.id) AS newest,
		(SELECT g.at FROM kube_reports_internal.change g WHERE g.lane = l.id AND g.version > l.floor
			ORDER BY g.version LIMIT 1) AS oldest_change,
		(SELECT g.at FROM kube_reports_internal.change g WHERE g.lane = l.id
			ORDER BY g.version DESC LIMIT 1) AS newest_change,
		coalesce(z.bytes, 0) AS log_bytes, l.lost <> '{}' AS after_failover, l.id AS lane
	FROM kube_reports_internal.lane l
		JOIN kube_reports.cluster c ON c.id = l.cluster_id
		JOIN kube_reports.resource_type t ON t.id = l.resource_type
		LEFT JOIN kube_reports_internal.log_size z ON z.lane = l.id;
COMMENT ON VIEW kube_reports.lane_status
	IS 'the log of each type of each cluster. Watches and pages can continue from any version that is not below the '
		'floor. newest: the last version in the log; oldest_change, newest_change: the times of the first and the '
		'last change in it; log_bytes: its size when upkeep last measured it; after_failover: versions that a failed '
		'server may have given get 410; lane: the number of the lane in lock_status and in the locks of the server';

-- Counting stops at 100000.
CREATE VIEW kube_reports.pending AS
	SELECT 'merges' AS what, c.uid AS cluster, c.name AS cluster_name, q.waiting, least(q.oldest, now()) AS oldest,
		q.failed, NULL AS reason
	FROM kube_reports.cluster c
		JOIN LATERAL (SELECT count(*) AS waiting, min(q.queued_at) AS oldest,
				count(*) FILTER (WHERE q.attempts > 0) AS failed
			FROM (SELECT q.queued_at, q.attempts FROM kube_reports_internal.aggregation_queue q
				WHERE q.cluster_id = c.id ORDER BY q.queued_at LIMIT 100000) q) q ON q.waiting > 0
	UNION ALL
	SELECT 'results', c.uid, c.name, count(*), min(g.at), count(p.reason), min(p.reason)
	FROM kube_reports_internal.result_pending p
		JOIN kube_reports_internal.lane l ON l.id = p.lane
		JOIN kube_reports.cluster c ON c.id = l.cluster_id
		LEFT JOIN kube_reports_internal.change g ON g.lane = p.lane AND g.version = p.first
	GROUP BY c.uid, c.name
	UNION ALL
	SELECT 'rebuilds', c.uid, c.name, count(*), NULL, count(b.reason), min(b.reason)
	FROM kube_reports_internal.result_rebuild b
		JOIN kube_reports_internal.lane l ON l.id = b.lane
		JOIN kube_reports.cluster c ON c.id = l.cluster_id
	GROUP BY c.uid, c.name
	UNION ALL
	SELECT 'imports', c.uid, c.name, count(*), min(w.queued_at), count(w.reason), min(w.reason)
	FROM kube_reports_internal.import_waiting w
		JOIN kube_reports_internal.lane l ON l.id = w.lane
		JOIN kube_reports.cluster c ON c.id = l.cluster_id
	GROUP BY c.uid, c.name
	UNION ALL
	SELECT 'counts', c.uid, c.name, count(*), NULL, 0, NULL
	FROM (SELECT d.cluster_id FROM kube_reports_internal.rollup_delta d
			WHERE d.xid >= (SELECT m.mark FROM kube_reports_internal.rollup_mark m) LIMIT 100000) d
		JOIN kube_reports.cluster c ON c.id = d.cluster_id
	GROUP BY c.uid, c.name
	UNION ALL
	SELECT 'removal', c.uid, c.name, 1, NULL, 0, NULL FROM kube_reports.cluster c WHERE c.removing
	UNION ALL
	SELECT 'hold', c.uid, c.name, count(*), NULL, 0, NULL
	FROM kube_reports_internal.lane l JOIN kube_reports.cluster c ON c.id = l.cluster_id WHERE l.held
	GROUP BY c.uid, c.name
	UNION ALL
	SELECT 'garbage', NULL, NULL, count(*), NULL, 0, NULL FROM kube_reports_internal.garbage_sweep w WHERE w.hurry
	HAVING count(*) > 0
	UNION ALL
	SELECT 'restore', NULL, NULL, 1, NULL, 0, NULL FROM kube_reports_internal.restoring r WHERE r.restoring
	UNION ALL
	SELECT 'update', NULL, NULL, 1, NULL, 0, NULL FROM kube_reports.status s WHERE s.update_pending;
COMMENT ON VIEW kube_reports.pending
	IS 'work that is still to be done: a row for each kind and cluster that has any. merges: groups of reports that '
		'wait to be merged; failed: groups that are tried again. results: reports whose results follow later; '
		'failed: their results were refused, and are tried again when the report is written, or within an hour. '
		'rebuilds: types whose results are derived again; failed: as for results. imports: states of the past that '
		'wait for a proxy''s upkeep; failed: they were refused, and are not tried again. reason: why one of the '
		'failed was refused. counts: changes that are not folded yet; readers add them up. removal: the cluster is '
		'being removed. hold: types that hold_writes() keeps from being written. garbage: tables that upkeep '
		'searches without a rest. restore, update: after_restore() or after_update() has not run. oldest: since when '
		'the oldest of them waits; null: not known. Counting stops at 100000';

CREATE FUNCTION kube_reports_internal.api_pending(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT what text, OUT waiting bigint, OUT oldest_ms bigint) RETURNS SETOF record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT k.what, coalesce(p.waiting, 0),
		coalesce(greatest(0, extract(epoch FROM clock_timestamp() - p.oldest) * 1000), 0)::bigint
	FROM kube_reports.cluster c
		CROSS JOIN (VALUES ('merges'), ('results'), ('rebuilds'), ('counts')) k(what)
		LEFT JOIN kube_reports.pending p ON p.what = k.what AND p.cluster = c.uid
	WHERE c.uid = $1 AND kube_reports_internal.may_serve(c.id, caller)
	ORDER BY k.what
$$;
COMMENT ON FUNCTION kube_reports_internal.api_pending(uuid, kube_reports_internal.caller)
	IS 'the work that waits for upkeep in a cluster, for metrics';

