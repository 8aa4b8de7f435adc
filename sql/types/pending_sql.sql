-- pending_sql.sql
--	  Results of small reports that no proxy has prepared: steps of upkeep make
--	  those of several reports together.
--
-- In the SQL variant every report that SQL writes waits for its results, whatever its size.  A step that derives them
-- locks the lane, so that writes of clients wait.  So it handles much less than one write may contain, at most some
-- hundred results.  Larger reports, and reports that were refused before, are handled one by one, without the lane: see
-- results/pending.sql.

-- All reports of a batch have one time in history, like all changes of a statement of DML in the C variant.  Times of a
-- lane never go back, so that no later change of such a report has an earlier time.
CREATE FUNCTION kube_reports_internal.sql_next_pending(lane integer, max_reports integer,
	OUT namespace text, OUT name text, OUT first bigint, OUT last bigint) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- The queue and the log grow faster than their statistics are updated.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	max_bytes CONSTANT integer := kube_reports_internal.costly_bytes() / 4;
BEGIN
	RETURN QUERY WITH oldest AS MATERIALIZED (
		-- Reports that were put aside delay no other report until their time comes.
		SELECT p.namespace, p.name, p.first, p.last IS NULL AND p.attempts = 0 AS fresh
			FROM kube_reports_internal.result_pending p
			WHERE p.lane = sql_next_pending.lane AND p.retry_at <= clock_timestamp()
			ORDER BY p.first LIMIT max_reports
	), measured AS (
		SELECT p.namespace, p.name, c.first, c.last, p.first AS place, p.fresh AND c.last IS NOT NULL AS fresh,
			coalesce((SELECT kube_reports.document_size(g.old_body) FROM kube_reports_internal.change g
				WHERE g.lane = sql_next_pending.lane AND g.version = c.first LIMIT 1), 0)
				+ coalesce((SELECT kube_reports.document_size(o.body) FROM kube_reports.object o
					WHERE o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
						AND o.namespace = p.namespace AND o.name = p.name LIMIT 1), 0) AS size,
			(SELECT g.at FROM kube_reports_internal.change g
				WHERE g.lane = sql_next_pending.lane AND g.version = c.last LIMIT 1) AS at
		FROM oldest p JOIN kube_reports_internal.lane l ON l.id = sql_next_pending.lane
			CROSS JOIN LATERAL (SELECT min(c.version) AS first, max(c.version) AS last
				FROM kube_reports_internal.change c
				WHERE c.lane = sql_next_pending.lane AND c.namespace = p.namespace AND c.name = p.name
					AND c.version >= p.first) c
	), taken AS (
		SELECT m.*, bool_and(m.fresh) OVER earlier AND sum(m.size) OVER earlier <= max_bytes
			AND max(m.at) OVER earlier - min(m.at) OVER earlier <= interval '1 second' AS small
		FROM measured m WINDOW earlier AS (ORDER BY m.place ROWS UNBOUNDED PRECEDING)
	)
	SELECT t.namespace, t.name, t.first, t.last FROM taken t WHERE t.small ORDER BY t.place;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_next_pending(integer, integer)
	IS 'the reports of a lane that have waited longest, as many as fit into a batch, with the first and the last '
		'version that their results do not include; none if the oldest report is large, was refused, or was begun';

CREATE FUNCTION kube_reports_internal.sql_apply_batch(lane integer, max_reports integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	target		record;
	batch		record;
BEGIN
	SELECT l.cluster_id, l.resource_type, CASE WHEN t.results = 'current' THEN t.mapping_id END AS mapping_id,
			t.mapping
		INTO target
		FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		WHERE l.id = sql_apply_batch.lane;
	-- Ask before the lane is locked.  About documents that changed until the lane is locked, the step asks again.
	PERFORM kube_reports_internal.sql_ask_results(target.mapping_id, target.mapping, target.cluster_id, c.old_metadata,
			c.old_body, o.metadata, o.body),
			kube_reports_internal.sql_ask_time(target.mapping_id, target.mapping, o.metadata, o.body)
		FROM kube_reports_internal.sql_next_pending(sql_apply_batch.lane, max_reports) p
			LEFT JOIN LATERAL (SELECT c.old_metadata, c.old_body FROM kube_reports_internal.change c
				WHERE c.lane = sql_apply_batch.lane AND c.version = p.first LIMIT 1) c ON true
			LEFT JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = p.namespace AND o.name = p.name LIMIT 1) o ON true;
	-- A step that continues with a large report must not hold the lock of the lane.
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.sql_interrupt();

	PERFORM kube_reports_internal.lock_lane(sql_apply_batch.lane);
	-- Another step may have removed rows before the lane was locked.
	SELECT array_agg(p.namespace ORDER BY p.last) AS namespaces, array_agg(p.name ORDER BY p.last) AS names,
			array_agg(p.first ORDER BY p.last) AS firsts, array_agg(p.last ORDER BY p.last) AS lasts
		INTO batch
		FROM kube_reports_internal.sql_next_pending(sql_apply_batch.lane, max_reports) p
			JOIN LATERAL (SELECT FROM kube_reports_internal.result_pending q
				WHERE q.lane = sql_apply_batch.lane AND q.namespace = p.namespace AND q.name = p.name
				FOR UPDATE SKIP LOCKED) q ON true;
	IF batch.names IS NULL THEN
		RETURN true;
	END IF;
	PERFORM kube_reports_internal.apply_results(sql_apply_batch.lane, batch.namespaces, batch.names, batch.firsts,
		batch.lasts);
	PERFORM kube_reports_internal.begin_own_write();
	UPDATE kube_reports.object o SET evaluated_at = e.evaluated_at
		FROM unnest(batch.namespaces, batch.names) k(namespace, name)
			JOIN LATERAL (SELECT o.ctid AS place, o.evaluated_at AS stored,
					kube_reports_internal.evaluated_at(target.mapping_id, target.mapping, o.metadata, o.body)
						AS evaluated_at
				FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) e ON true
		WHERE o.ctid = e.place AND e.stored IS DISTINCT FROM e.evaluated_at;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	DELETE FROM kube_reports_internal.result_pending p
		USING unnest(batch.namespaces, batch.names) k(namespace, name)
		WHERE p.lane = sql_apply_batch.lane AND p.namespace = k.namespace AND p.name = k.name;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_apply_batch(integer, integer)
	IS 'derives the results of the next small reports of a lane, sets their times of evaluation, and removes them '
		'from the queue; false if there are none. Raises the error that refuses one of the reports';

-- If a batch is refused, one of its reports is refused: smaller batches find it.  A refused report that is alone is
-- left to pending_step(), which puts it aside.
CREATE FUNCTION kube_reports_internal.pending_batch() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_reports	integer := 64;
	next_lane	integer := (SELECT p.lane FROM kube_reports_internal.result_pending p
		WHERE kube_reports_internal.engine_serves(p.lane) AND p.retry_at <= clock_timestamp()
		ORDER BY p.first LIMIT 1);
BEGIN
	WHILE next_lane IS NOT NULL AND max_reports > 0 LOOP
		BEGIN
			RETURN kube_reports_internal.sql_apply_batch(next_lane, max_reports);
		EXCEPTION WHEN OTHERS THEN
			IF NOT kube_reports_internal.is_refusal(SQLSTATE) THEN
				RAISE;
			END IF;
		END;
		max_reports := max_reports / 2;
	END LOOP;
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.pending_batch()
	IS 'derives the results of small reports that wait, several at once; false if there are none. Only the SQL '
		'variant has such reports';
