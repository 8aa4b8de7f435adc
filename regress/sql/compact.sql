-- The log is bounded by age and by bytes; what goes is the oldest of lanes that have more than the others, in steps.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
CREATE FUNCTION pg_temp.fill(type_id integer, prefix text, many integer) RETURNS void LANGUAGE sql AS $$
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
		SELECT c.id, type_id, 'ns', prefix || n, '{}', '{}' FROM kube_reports.cluster c, generate_series(1, many) n;
$$;
CREATE FUNCTION pg_temp.left(OUT resource text, OUT kept bigint, OUT counted_right boolean, OUT floor_right boolean)
	RETURNS SETOF record
LANGUAGE sql AS $$
	SELECT t.plural, count(c.version),
		coalesce(s.bytes, 0) = coalesce(sum(kube_reports_internal.change_size(c.old_metadata, c.old_body)) FILTER
			(WHERE c.version IS NOT NULL), 0),
		l.floor < coalesce(min(c.version), l.floor + 1)
	FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		LEFT JOIN kube_reports_internal.log_size s ON s.lane = l.id
		LEFT JOIN kube_reports_internal.change c ON c.lane = l.id
	WHERE t.id IN (1, 3)
	GROUP BY t.plural, s.bytes, l.floor ORDER BY t.plural;
$$;

-- Two lanes in turn: additions count 120 bytes each.
SELECT pg_temp.fill(1, 'a', 10);
SELECT pg_temp.fill(3, 'b', 10);
SELECT pg_temp.fill(1, 'c', 10);
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();

-- Room for 15 is room for seven of each.
SELECT kube_reports.set_setting('log_bytes', (15 * 120)::text);
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();

-- Steps of four in each lane.
SELECT pg_temp.fill(3, 'd', 9);
SELECT kube_reports.set_setting('log_bytes', '0');
SELECT kube_reports_internal.compact(4) AS more;
SELECT * FROM pg_temp.left();
SELECT kube_reports_internal.compact(100) AS more;
SELECT * FROM pg_temp.left();

-- However small the steps are: a lane that fills up pushes nothing out of another one that has less.
SELECT kube_reports.set_setting('log_bytes', (8 * 120)::text);
SELECT pg_temp.fill(3, 'h', 16);
SELECT pg_temp.fill(1, 'i', 2);
SELECT kube_reports_internal.compact(4) AS more;
SELECT * FROM pg_temp.left();
SELECT kube_reports_internal.compact(4) AS more;
SELECT kube_reports_internal.compact(4) AS more;
SELECT * FROM pg_temp.left();
-- Nor if that is older.  A third lane takes its part, too, of what the smallest one leaves.
SELECT kube_reports.set_setting('log_bytes', (20 * 120)::text);
SELECT pg_temp.fill(3, 'k', 100);
INSERT INTO kube_reports.object (cluster_id, resource_type, name, metadata, body)
	SELECT c.id, 2, 'm' || n, '{}', '{}' FROM kube_reports.cluster c, generate_series(1, 50) n;
SELECT kube_reports_internal.log_share() AS share_before;
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();
SELECT count(*) AS third FROM kube_reports_internal.change c JOIN kube_reports_internal.lane l ON l.id = c.lane
	WHERE l.resource_type = 2;
SELECT kube_reports_internal.log_share() > 20 * 120 AS all_fit;
SELECT kube_reports.set_setting('log_bytes', '0');
SELECT kube_reports_internal.compact() AS more;
SELECT kube_reports.set_setting('log_bytes', '1073741824');

-- By age, lane by lane; so short a log goes at once.
SELECT kube_reports.set_setting('log_retention', '4 minutes');
SELECT pg_temp.fill(1, 'e', 3);
UPDATE kube_reports_internal.change SET at = at - interval '2 hours';
SELECT pg_temp.fill(1, 'f', 2);
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();

SELECT kube_reports.set_setting('log_retention', '60 minutes');

-- A new incarnation that lost the log has nothing to count.
SELECT kube_reports.new_incarnation(true) > 0 AS moved;
SELECT * FROM pg_temp.left();
SELECT pg_temp.fill(3, 'g', 2);
SELECT kube_reports_internal.compact() AS more;
SELECT * FROM pg_temp.left();

-- However large it is: nobody who looks for the oldest or the newest of the log reads all of it, whatever the planner
-- thinks of indexes.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'large', 'r' || n, '{}',
		jsonb_build_object('results', jsonb_build_array(jsonb_build_object('policy', 'p', 'message',
		(SELECT string_agg(md5((n * m)::text), '') FROM generate_series(1, 50) m))))::text::kube_reports.report
	FROM kube_reports.cluster c, generate_series(1, 1000) n;
UPDATE kube_reports.object SET metadata = '{"labels": {"a": "b"}}' WHERE namespace = 'large';
ANALYZE kube_reports_internal.change;
BEGIN;
SET LOCAL random_page_cost = 10000;
SELECT coalesce(max(seq_scan), 0) AS seq, coalesce(max(idx_scan), 0) AS idx FROM pg_stat_xact_user_tables
	WHERE relid = 'kube_reports_internal.change'::regclass \gset
SELECT bool_or(kube_reports_internal.compact()) AS more FROM generate_series(1, 10);
UPDATE kube_reports.object SET metadata = '{}' WHERE namespace = 'large' AND name = 'r1';
SELECT seq_scan - :seq AS read, idx_scan - :idx > 10 AS looked_up FROM pg_stat_xact_user_tables
	WHERE relid = 'kube_reports_internal.change'::regclass;
COMMIT;

-- Folding looks each count up among those of the days, also in a session that began when there were none.
CREATE FUNCTION pg_temp.report(name text, rules integer) RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', name, 'namespace', 'ns'), 'results',
		(SELECT jsonb_agg(jsonb_build_object('policy', name, 'rule', n::text, 'result', 'fail'))
			FROM generate_series(1, rules) n))::kube_reports.report) IS NOT NULL
$$;
SELECT pg_temp.report('first', 2000), pg_temp.report('second', 2000);
SELECT kube_reports_internal.fold_rollups() AS more;
SELECT count(*) AS days FROM kube_reports_internal.rollup_daily;
SELECT pg_temp.report('third', 1);
BEGIN;
SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) AS read FROM pg_stat_xact_user_tables
	WHERE relid = 'kube_reports_internal.rollup_daily'::regclass \gset
SELECT kube_reports_internal.fold_rollups() AS more;
SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) - :read < 10 AS looked_up FROM pg_stat_xact_user_tables
	WHERE relid = 'kube_reports_internal.rollup_daily'::regclass;
COMMIT;
SELECT count(*) AS days FROM kube_reports_internal.rollup_daily;
