-- locks.sql
--	  Who may write when.
--
-- Order of locks: the store (shared by API writes, exclusive for DML, registry
-- and upkeep), then lanes in id order.  A lane's lock is taken before its next
-- version is drawn and held until the change is visible, so that versions of a
-- lane become visible in their order.  Locks are advisory locks of a class of
-- our own; key 0 is the store.  Key -3 is folding: who has it waits for nothing
-- but, in a writer's transaction, for that writer's further lanes.

CREATE FUNCTION kube_reports_internal.lock_class() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1802661986;
COMMENT ON FUNCTION kube_reports_internal.lock_class() IS 'first key of all advisory locks of kube_reports';

CREATE FUNCTION kube_reports_internal.lock_store_shared() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- First, because a new incarnation takes the lock alone.
	PERFORM kube_reports_internal.require_incarnation();
	PERFORM pg_advisory_xact_lock_shared(kube_reports_internal.lock_class(), 0);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_store_shared()
	IS 'taken by API writes: excludes DML and upkeep; notices a promoted server, see require_incarnation()';

CREATE FUNCTION kube_reports_internal.lock_store() RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT pg_advisory_xact_lock(kube_reports_internal.lock_class(), 0);
END;
COMMENT ON FUNCTION kube_reports_internal.lock_store() IS 'taken by DML and by upkeep: excludes every other writer until the transaction ends';

CREATE FUNCTION kube_reports_internal.lock_lane(lane integer) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT pg_advisory_xact_lock(kube_reports_internal.lock_class(), lane);
END;
COMMENT ON FUNCTION kube_reports_internal.lock_lane(integer) IS 'taken before the lane''s next version is drawn';

CREATE FUNCTION kube_reports_internal.lock_lanes(cluster_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.lock_lane(l.id)
		FROM (SELECT l.id FROM kube_reports_internal.lane l WHERE l.cluster_id = lock_lanes.cluster_id ORDER BY l.id) l;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_lanes(integer) IS 'takes the locks of all lanes of a cluster, in their order: every write that is under way is waited for';

-- A lock taken by a statement is worth nothing to a snapshot that is older than the lock.
CREATE FUNCTION kube_reports_internal.require_read_committed() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'reports can only be written in READ COMMITTED transactions'
			USING ERRCODE = 'feature_not_supported',
				DETAIL = 'This transaction is ' || upper(current_setting('transaction_isolation')) || ': its snapshot may be older than the lock that orders versions.',
				HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
	END IF;
	PERFORM kube_reports_internal.refuse_prepare();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_read_committed()
	IS 'refuses to write in a transaction whose snapshot may be too old, and refuses two-phase commit of it';

-- What is visible before it is durable may be gone after a crash, and the sequence with it: its versions would be given again.
CREATE FUNCTION kube_reports_internal.commit_durably() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.commit_durably() IS 'makes this transaction durable before anybody sees it, also where synchronous_commit is off';

-- The newest version of a lane: that of the log's last change, or the floor when the log is empty.  Exact in one snapshot, because
-- versions become visible in order.
CREATE FUNCTION kube_reports_internal.lane_version(lane integer) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
	RETURN coalesce((SELECT c.version FROM kube_reports_internal.change c WHERE c.lane = lane_version.lane ORDER BY c.version DESC LIMIT 1),
		(SELECT l.floor FROM kube_reports_internal.lane l WHERE l.id = lane_version.lane));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lane_version(integer) IS 'newest version of a lane in this snapshot; null when there is no such lane';


-- A clock that was set back must not leave history out of order.  By more than a day it is believed: what was written before was wrong.
CREATE FUNCTION kube_reports_internal.lane_time(lane integer) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	clock		timestamptz := clock_timestamp();
	newest		timestamptz := (SELECT c.at FROM kube_reports_internal.change c WHERE c.lane = lane_time.lane ORDER BY c.version DESC LIMIT 1);
BEGIN
	IF newest IS NULL THEN
		newest := (SELECT h.at FROM kube_reports_internal.lane l
			CROSS JOIN LATERAL (SELECT h.at FROM kube_reports_internal.result_change h WHERE h.cluster_id = l.cluster_id ORDER BY h.version DESC LIMIT 1) h
			WHERE l.id = lane_time.lane);
	END IF;
	RETURN CASE WHEN newest - clock BETWEEN interval '0' AND interval '1 day' THEN newest ELSE clock END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lane_time(integer)
	IS 'the time of the next change of a lane: now, or that of its newest change where the clock was set back by less than a day. The caller holds the lane''s lock';
