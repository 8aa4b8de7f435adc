-- upkeep.sql
--	  The upkeep steps that proxies call: catch_up() and maintain().
--
-- Each step is small, and proxies take steps in turn.  A proxy skips a step that another proxy is taking.

-- All other errors come from the step itself, not from a document: the step is rolled back, and tried again.
CREATE FUNCTION kube_reports_internal.is_refusal(sqlstate text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN sqlstate ~ '^(22|23|54|KR4|42704|42883|55000)';
COMMENT ON FUNCTION kube_reports_internal.is_refusal(text)
	IS 'whether a document causes an error, so that the next attempt with the same document fails, too';

-- The first pause is a minute, the longest an hour.  A document may be refused because of a limit that an administrator
-- raises later.
CREATE FUNCTION kube_reports_internal.next_attempt(attempts integer) RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN clock_timestamp() + interval '1 minute' * least(2 ^ least(attempts, 6), 60);
COMMENT ON FUNCTION kube_reports_internal.next_attempt(integer)
	IS 'the time until which work is put aside that was refused so many times before';

CREATE FUNCTION kube_reports_internal.remake_step() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	waiting		integer;
	refused		text;
BEGIN
	-- A dump may have been loaded while proxies were connected.
	IF kube_reports_internal.finish_restore() THEN
		RETURN true;
	END IF;
	IF NOT kube_reports_internal.has_engine() THEN
		RETURN false;
	END IF;
	-- Pending changes of a lane that is being restored come first: if results were derived from the documents before,
	-- history would lack these changes.
	IF EXISTS (SELECT FROM kube_reports_internal.result_rebuild b JOIN kube_reports_internal.result_pending p
			ON p.lane = b.lane WHERE b.restoring AND kube_reports_internal.engine_serves(b.lane))
		AND kube_reports_internal.pending_step() THEN
		RETURN true;
	END IF;
	-- A step that waits for locks is the only step of its transaction.  Documents of a step may have to be sent to the
	-- engine.
	SELECT min(b.lane) INTO waiting FROM kube_reports_internal.result_rebuild b
		WHERE kube_reports_internal.engine_serves(b.lane) AND b.retry_at <= clock_timestamp();
	IF waiting IS NOT NULL THEN
		BEGIN
			PERFORM kube_reports_internal.rebuild_step(waiting,
				CASE kube_reports_internal.variant() WHEN 'c' THEN 100 ELSE 20 END);
			UPDATE kube_reports_internal.result_rebuild b SET attempts = 0, reason = NULL
				WHERE b.lane = waiting AND b.attempts > 0;
		EXCEPTION WHEN OTHERS THEN
			IF NOT kube_reports_internal.is_refusal(SQLSTATE) THEN
				RAISE;
			END IF;
			refused := SQLERRM;
			UPDATE kube_reports_internal.result_rebuild b SET attempts = b.attempts + 1, reason = refused,
				retry_at = kube_reports_internal.next_attempt(b.attempts) WHERE b.lane = waiting;
		END;
		RETURN true;
	END IF;
	RETURN kube_reports_internal.end_rebuild();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remake_step()
	IS 'finishes a restore, or derives the next results that wait to be derived again, or finishes a rebuild() that '
		'was interrupted; false if there was nothing to do';

CREATE FUNCTION kube_reports.catch_up() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	more		boolean;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	IF kube_reports_internal.remake_step() OR kube_reports_internal.import_step() THEN
		RETURN true;
	END IF;
	more := kube_reports_internal.pending_step();
	-- Fold last: cluster deletion waits for the folding lock.
	RETURN kube_reports_internal.fold_rollups() OR more;
END
$$;
COMMENT ON FUNCTION kube_reports.catch_up()
	IS 'finishes a restore, or derives the next results that wait to be derived again, or imports the next states of '
		'the past that wait; when there are none, brings results of a large report up to date and folds counts. True '
		'when there is more to do. Raises 0A000 unless the transaction is READ COMMITTED';

CREATE FUNCTION kube_reports.maintain() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	more		boolean;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	-- Alone in its transaction: with the lock of history, upkeep must not wait for what other transactions hold, such
	-- as a row or the table that they analyze, because these may need a month, too.
	IF NOT kube_reports_internal.has_history(now() + interval '5 days')
		AND NOT kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports.make_history(now() + interval '5 days');
		RETURN true;
	END IF;
	IF kube_reports_internal.remake_step() THEN
		RETURN true;
	END IF;
	-- Work that may be large runs in every other call on average, in transactions of its own.
	IF random() < 0.5 THEN
		IF kube_reports_internal.remove_marked_clusters() THEN
			RETURN true;
		ELSIF kube_reports_internal.garbage_due() THEN
			PERFORM kube_reports_internal.collect_garbage();
			RETURN true;
		END IF;
	END IF;
	more := kube_reports_internal.analyze_step();
	more := kube_reports_internal.compact(5000) OR more;
	more := kube_reports_internal.expire_step() OR more;
	more := more OR kube_reports_internal.garbage_due() OR EXISTS (SELECT FROM kube_reports.cluster c WHERE c.removing);
	-- Fold last: the folding lock is held until the end of this transaction, and cluster deletion waits for it.
	RETURN kube_reports_internal.fold_rollups() OR more;
END
$$;
COMMENT ON FUNCTION kube_reports.maintain()
	IS 'one small step of all upkeep: log, counts, history, garbage, statistics, clusters that are being removed, '
		'results that wait to be derived again; true when there is more to do. Raises 0A000 unless the transaction is '
		'READ COMMITTED';
