-- locks.sql
--	  Locks: the order of writers.
--
-- Order of locks: the store (shared by API writes, exclusive for DML, registry
-- and upkeep), then lanes in id order.  A writer locks the lane before it
-- draws the lane's next version and holds the lock until the change is
-- visible, so that versions of a lane become visible in their order.  The
-- locks are advisory locks of one class.  Keys above 0 are lanes.  The other
-- keys are named below, with the locks that each holder may wait for.
-- docs/architecture/store.md, "Locks", describes all of them.

CREATE FUNCTION kube_reports_internal.lock_class() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1802661986;
COMMENT ON FUNCTION kube_reports_internal.lock_class() IS 'the first key of all advisory locks of kube_reports';

---- second keys; the second key of a lane is its id ----

CREATE FUNCTION kube_reports_internal.store_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 0;
COMMENT ON FUNCTION kube_reports_internal.store_lock()
	IS 'the second key of the store lock. API writes share the lock; DML, the registry and upkeep hold it alone. It '
		'is taken before all other locks';

-- Sessions only try this lock: a session that does not get it returns at once.
CREATE FUNCTION kube_reports_internal.compaction_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -1;
COMMENT ON FUNCTION kube_reports_internal.compaction_lock()
	IS 'the second key of the lock that a session holds while it compacts the log';

-- Taken before the locks of the store and the lanes.
CREATE FUNCTION kube_reports_internal.sweep_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -2;
COMMENT ON FUNCTION kube_reports_internal.sweep_lock()
	IS 'the second key of the lock that a session holds while it deletes the objects of a deleted namespace';

-- A session that folds only tries this lock.  It waits for no other lock, except in the transaction of a writer, for
-- further lanes of this writer.  Deleting a cluster and correcting counts wait for this lock.
CREATE FUNCTION kube_reports_internal.folding_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -3;
COMMENT ON FUNCTION kube_reports_internal.folding_lock()
	IS 'the second key of the lock that a session holds while it folds counts';

-- The first event of a month takes it after the locks of lanes.  A session that has waited for it finds the partition.
CREATE FUNCTION kube_reports_internal.history_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -4;
COMMENT ON FUNCTION kube_reports_internal.history_lock()
	IS 'the second key of the lock that a session holds while it makes a month of history';

-- Sessions only try it, before the folding lock, which they only try, too.
CREATE FUNCTION kube_reports_internal.garbage_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -5;
COMMENT ON FUNCTION kube_reports_internal.garbage_lock()
	IS 'the second key of the lock that a session holds while it collects garbage';

-- Sessions only try it.  A session that holds it waits for no table.
CREATE FUNCTION kube_reports_internal.analyze_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -6;
COMMENT ON FUNCTION kube_reports_internal.analyze_lock()
	IS 'the second key of the lock that a session holds while it analyzes tables';

-- A step of removing a cluster takes it before the store lock and the folding lock.  Upkeep only tries it.
CREATE FUNCTION kube_reports_internal.removal_lock() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -7;
COMMENT ON FUNCTION kube_reports_internal.removal_lock()
	IS 'the second key of the lock that a session holds while it removes a cluster';

-- A merge tries it before the locks of the store and the lanes.  Changes of options or active policies wait for it.
CREATE FUNCTION kube_reports_internal.aggregation_lock(cluster_id integer) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN -16 - cluster_id;
COMMENT ON FUNCTION kube_reports_internal.aggregation_lock(integer)
	IS 'the second key of the lock that a merge of a cluster holds, so that only one runs at a time';

CREATE VIEW kube_reports.lock_status AS
	SELECT CASE WHEN k.key > 0 THEN 'lane' WHEN k.key = kube_reports_internal.store_lock() THEN 'store'
			WHEN k.key = kube_reports_internal.compaction_lock() THEN 'compaction'
				WHEN k.key = kube_reports_internal.sweep_lock() THEN 'sweep'
			WHEN k.key = kube_reports_internal.folding_lock() THEN 'folding'
				WHEN k.key = kube_reports_internal.history_lock() THEN 'history'
			WHEN k.key = kube_reports_internal.garbage_lock() THEN 'garbage'
				WHEN k.key = kube_reports_internal.analyze_lock() THEN 'analyze'
			WHEN k.key = kube_reports_internal.removal_lock() THEN 'removal' ELSE 'aggregation' END AS lock,
		c.uid AS cluster, t.plural || '.' || t."group" AS type, l.mode = 'ShareLock' AS shared, l.granted,
		l.waitstart AS waits_since, l.pid, pg_blocking_pids(l.pid) AS waits_for,
		a.usename AS role, a.application_name, a.state, a.xact_start AS began, a.query
	FROM pg_locks l
		CROSS JOIN LATERAL (SELECT l.objid::integer AS key) k
		LEFT JOIN kube_reports_internal.lane n ON n.id = k.key
		LEFT JOIN kube_reports.resource_type t ON t.id = n.resource_type
		LEFT JOIN kube_reports.cluster c ON c.id = n.cluster_id OR kube_reports_internal.aggregation_lock(c.id) = k.key
		LEFT JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid = kube_reports_internal.lock_class()::oid
		AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
COMMENT ON VIEW kube_reports.lock_status
	IS 'the sessions that hold the locks of this store or wait for them: one row for each lock and session. Null: the '
		'server hides it for sessions of other roles';

---- taking them ----

CREATE FUNCTION kube_reports_internal.lock_store_shared() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- This check comes first, because a new incarnation takes the lock exclusively.
	PERFORM kube_reports_internal.require_incarnation();
	PERFORM pg_advisory_xact_lock_shared(kube_reports_internal.lock_class(), kube_reports_internal.store_lock());
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_store_shared()
	IS 'the store lock as API writes take it: shared, so that DML and upkeep wait. Also notices a promoted server, '
		'see require_incarnation()';

CREATE FUNCTION kube_reports_internal.lock_store() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.store_lock());
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_store()
	IS 'the store lock as DML and upkeep take it: every other writer waits until the transaction ends. Raises 0A000 '
		'unless the transaction is READ COMMITTED';

CREATE FUNCTION kube_reports_internal.lock_lane(lane integer) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT pg_advisory_xact_lock(kube_reports_internal.lock_class(), lane);
END;
COMMENT ON FUNCTION kube_reports_internal.lock_lane(integer)
	IS 'takes the lock of a lane; called before the lane''s next version is drawn';

CREATE FUNCTION kube_reports_internal.lock_lanes(cluster_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.lock_lane(l.id)
		FROM (SELECT l.id FROM kube_reports_internal.lane l WHERE l.cluster_id = lock_lanes.cluster_id ORDER BY l.id) l;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_lanes(integer)
	IS 'takes the locks of all lanes of a cluster, in their order, and so waits for every write in progress';

-- A lock does not protect a transaction whose snapshot is older than the lock.
CREATE FUNCTION kube_reports_internal.require_new_snapshots() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'reports can only be written in READ COMMITTED transactions'
			USING ERRCODE = 'feature_not_supported',
				DETAIL = 'This transaction is ' || upper(current_setting('transaction_isolation') COLLATE "C")
					|| ': its snapshot may be older than the lock that orders versions.',
				HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED; for CALL, SET default_transaction_isolation = ''read '
					'committed''.';
	END IF;
	PERFORM kube_reports_internal.refuse_prepare();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_new_snapshots()
	IS 'raises 0A000 in a transaction whose snapshot may be too old for a write, and prevents two-phase commit of the '
		'transaction';

CREATE FUNCTION kube_reports_internal.require_read_committed() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- A write that does not see every row gives ids twice, and removes what is in use.
	PERFORM kube_reports_internal.require_new_snapshots(), kube_reports_internal.require_visible();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_read_committed()
	IS 'raises 0A000 in a transaction whose snapshot may be too old for a write, 42501 where row-level security hides '
		'rows from the writer, and prevents two-phase commit of the transaction';

CREATE FUNCTION kube_reports.lock_writes() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.lock_store();
END
$$;
COMMENT ON FUNCTION kube_reports.lock_writes()
	IS 'keeps all others from writing until the transaction ends: a transaction of many writes that begins with this '
		'call never fails with 40P01. Raises 0A000 unless the transaction is READ COMMITTED';

-- In a block with an EXCEPTION clause COMMIT always fails, and its message differs from the message of ROLLBACK.  In a
-- transaction block, or in a procedure that a function calls, both fail for that reason and have the same message.
CREATE PROCEDURE kube_reports_internal.require_own_transactions(procedure text)
LANGUAGE plpgsql
AS $$
DECLARE
	on_commit	text;
	on_rollback	text;
BEGIN
	BEGIN
		COMMIT;
	EXCEPTION WHEN invalid_transaction_termination THEN
		on_commit := SQLERRM;
	END;
	BEGIN
		ROLLBACK;
	EXCEPTION WHEN invalid_transaction_termination THEN
		on_rollback := SQLERRM;
	END;
	IF on_commit OPERATOR(pg_catalog.=) on_rollback THEN
		RAISE EXCEPTION '%() cannot be called within a transaction', procedure
			USING ERRCODE = 'active_sql_transaction', DETAIL = 'It commits after each of its steps.',
				HINT = 'CALL it by itself: outside of BEGIN and COMMIT, not in a function, without psql''s '
					'--single-transaction.';
	END IF;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.require_own_transactions(text)
	IS 'raises 25001 if a procedure cannot commit. Procedures that commit call it first, with their name';

-- If a change is visible before it is durable, a crash may lose the change and the state of the sequence.  Then the
-- same versions would be given again.
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
COMMENT ON FUNCTION kube_reports_internal.commit_durably()
	IS 'makes this transaction durable before its changes become visible, even if synchronous_commit is off';

-- The newest version of a lane: the version of the last change in the log, or the floor if the log is empty.  It is
-- exact in one snapshot, because versions become visible in order.
CREATE FUNCTION kube_reports_internal.lane_version(lane integer) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
	RETURN coalesce((SELECT c.version FROM kube_reports_internal.change c WHERE c.lane = lane_version.lane
		ORDER BY c.version DESC LIMIT 1),
		(SELECT l.floor FROM kube_reports_internal.lane l WHERE l.id = lane_version.lane));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lane_version(integer)
	IS 'the newest version of a lane in this snapshot; null if there is no such lane';


-- History must stay in the order of time when the clock is set back.  If the clock was set back by more than a day, the
-- new time counts: then the earlier times were wrong.
CREATE FUNCTION kube_reports_internal.lane_time(lane integer) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	clock		timestamptz := clock_timestamp();
	newest		timestamptz := (SELECT c.at FROM kube_reports_internal.change c WHERE c.lane = lane_time.lane
		ORDER BY c.version DESC LIMIT 1);
BEGIN
	IF newest IS NULL THEN
		newest := (SELECT h.at FROM kube_reports_internal.lane l
			CROSS JOIN LATERAL (SELECT h.at FROM kube_reports_internal.report_change h WHERE h.cluster_id = l.cluster_id
				ORDER BY h.version DESC LIMIT 1) h
			WHERE l.id = lane_time.lane);
	END IF;
	RETURN CASE WHEN newest - clock BETWEEN interval '0' AND interval '1 day' THEN newest ELSE clock END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lane_time(integer)
	IS 'the time of the next change of a lane: now, or the time of its newest change if the clock was set back by '
		'less than a day. The caller holds the lane''s lock';
