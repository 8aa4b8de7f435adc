-- garbage.sql
--	  Retention of history and of counts by day, and removal of rows that
--	  nothing refers to.
--
-- The clock may have jumped ahead, so time alone never removes much at once.  Age is measured both from now and from
-- the newest month that has events.  Expired rows are removed in steps that are small compared with the rows kept, with
-- about a day or more between two steps.
--
-- Garbage collection walks through each table, some blocks at a time.  If a pass finds much garbage, or many results
-- have changed since the pass began, the next steps follow at once, so that garbage is removed as fast as it appears.
-- Otherwise a pass takes hours.

---- retention ----

-- SECURITY DEFINER: administrators, who may call maintain(), have no rights on months that were made later.
CREATE FUNCTION kube_reports_internal.history_ends() RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	month		record;
	filled		boolean;
BEGIN
	FOR month IN SELECT m.partition, m.begins FROM kube_reports_internal.history_months() m ORDER BY m.begins DESC LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM kube_reports_internal.%I)', month.partition) INTO filled;
		IF filled THEN
			RETURN (month.begins AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
		END IF;
	END LOOP;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.history_ends()
	IS 'the end of the newest month that has events; null if no month has events';

-- Dropping a partition waits for readers of history and blocks new readers while it waits.  So it waits only briefly
-- and is tried again later.  The clock may have jumped ahead, so the age of a month is also measured from the newest
-- month that has events.
CREATE FUNCTION kube_reports_internal.expired_history() RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT min(m.partition)
	FROM kube_reports_internal.history_months() m
	WHERE m.begins < date_trunc('month', least(now(), kube_reports_internal.history_ends()) AT TIME ZONE 'UTC'
		- kube_reports.setting('history_retention')::interval) AT TIME ZONE 'UTC'
$$;
COMMENT ON FUNCTION kube_reports_internal.expired_history()
	IS 'the partition of the oldest month of history, if it is older than history_retention; otherwise null';

CREATE FUNCTION kube_reports_internal.expire_history() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
DECLARE
	partition CONSTANT text := kube_reports_internal.expired_history();
BEGIN
	IF partition IS NULL THEN
		RETURN false;
	END IF;
	EXECUTE format('DROP TABLE kube_reports_internal.%I', partition);
	RETURN true;
EXCEPTION WHEN lock_not_available THEN
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.expire_history()
	IS 'drops the oldest month of history if all of it is older than history_retention, measured both from now and '
		'from the newest month that has events; true if it dropped one';

-- Marks days as expired; collect_garbage() removes the rows later.  Each series has few days, and their counts carry
-- forward.
CREATE FUNCTION kube_reports_internal.expire_days(max_days integer DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted		date := (least(now(), kube_reports_internal.history_ends()) AT TIME ZONE 'UTC'
		- kube_reports.setting('daily_retention')::interval)::date;
	present		date := (SELECT coalesce(s.daily_cut, (SELECT min(d.day) FROM kube_reports_internal.score_daily d),
		wanted)
		FROM kube_reports_internal.store s);
BEGIN
	UPDATE kube_reports_internal.store s SET daily_cut = least(wanted, present + max_days)
		WHERE s.daily_cut IS DISTINCT FROM least(wanted, present + max_days);
	RETURN wanted > present;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.expire_days(integer)
	IS 'marks counts of days as expired that are older than daily_retention, measured both from now and from the '
		'newest month that has events; max_days: at most so many days at once. True if there were such days';

CREATE PROCEDURE kube_reports.expire()
LANGUAGE plpgsql
AS $$
DECLARE
	kept		text;
BEGIN
	CALL kube_reports_internal.require_own_transactions('expire');
	WHILE kube_reports_internal.expire_history() LOOP
		COMMIT;
	END LOOP;
	PERFORM kube_reports_internal.expire_days();
	COMMIT;
	kept := kube_reports_internal.expired_history();
	IF kept IS NOT NULL THEN
		RAISE EXCEPTION 'history that is older than history_retention is being read'
			USING ERRCODE = 'lock_not_available', DETAIL = pg_catalog.format('Its oldest month is in table %s.', kept),
				HINT = 'CALL kube_reports.expire() again when its readers have ended.';
	END IF;
END
$$;
COMMENT ON PROCEDURE kube_reports.expire()
	IS 'drops history that is older than history_retention, and removes counts of days that are older than '
		'daily_retention, all at once; upkeep does the same in small steps. Call it when the disk is short of space. '
		'Raises 55P03 when a session reads history that is to be dropped, 25001 in a transaction block';

-- After a jump of the clock, the first new event would expire all older rows at once.  So at most a twenty-fifth of
-- them is removed a day (of two years, one month).  That leaves time to notice the wrong clock.
CREATE FUNCTION kube_reports_internal.expire_step() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	past		kube_reports_internal.store;
	months		bigint := (SELECT count(*) FROM kube_reports_internal.history_months());
	expired		boolean := false;
BEGIN
	SELECT s.* INTO past FROM kube_reports_internal.store s;
	-- A time in the future was stored while the clock was ahead.
	IF (past.history_expired_at BETWEEN now() - interval '25 days' / greatest(months, 1)
		AND now() + interval '1 day') IS NOT TRUE
			AND kube_reports_internal.expire_history() THEN
		UPDATE kube_reports_internal.store SET history_expired_at = now();
		expired := true;
	END IF;
	IF (past.daily_cut_at BETWEEN now() - interval '1 day' AND now() + interval '1 day') IS NOT TRUE
			AND kube_reports_internal.expire_days(greatest(1,
				((now() AT TIME ZONE 'UTC')::date - past.daily_cut) / 25)) THEN
		UPDATE kube_reports_internal.store SET daily_cut_at = now();
		expired := true;
	END IF;
	RETURN expired;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.expire_step()
	IS 'expire_history() and expire_days(), each for at most a twenty-fifth of the stored rows in a day, but at least '
		'for a month or a day; true when any row was dropped';

---- unreferenced rows ----

-- For rows that writers refer to: candidates are found without a lock.  They are checked again and removed under the
-- store's lock, so that no writer can start to use them in between.  For counts: only the session that holds the
-- folding lock writes them.  Each function returns the number of rows that it read and the number that it removed.

CREATE FUNCTION kube_reports_internal.collect_details(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	candidates	bigint[];
BEGIN
	SELECT count(*), array_agg(d.id) FILTER (WHERE u.used IS NULL) INTO looked_at, candidates
		FROM kube_reports_internal.detail d
			LEFT JOIN LATERAL (SELECT true AS used FROM kube_reports_internal.result r
				WHERE r.detail = d.id LIMIT 1) u ON true
		WHERE d.ctid >= first AND d.ctid < behind;
	removed := 0;
	IF candidates IS NOT NULL THEN
		PERFORM kube_reports_internal.lock_store();
		DELETE FROM kube_reports_internal.detail d WHERE d.id = ANY (candidates)
			AND NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.detail = d.id);
		GET DIAGNOSTICS removed = ROW_COUNT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_details(tid, tid)
	IS 'removes details in a range of places to which no result refers';

CREATE FUNCTION kube_reports_internal.collect_origins(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	candidates	bigint[];
BEGIN
	SELECT count(*), array_agg(g.id) FILTER (WHERE u.used IS NULL) INTO looked_at, candidates
		FROM kube_reports_internal.origin g
			LEFT JOIN LATERAL (SELECT true AS used WHERE EXISTS (SELECT FROM kube_reports.object o
				WHERE o.cluster_id = g.cluster_id
						AND o.resource_type = g.resource_type AND o.namespace = g.namespace AND o.name = g.name)
					OR EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.origin = g.id)
					OR EXISTS (SELECT FROM kube_reports_internal.report_change c WHERE c.origin = g.id) OFFSET 0) u
						ON true
		WHERE g.ctid >= first AND g.ctid < behind;
	removed := 0;
	IF candidates IS NOT NULL THEN
		PERFORM kube_reports_internal.lock_store();
		DELETE FROM kube_reports_internal.origin g WHERE g.id = ANY (candidates)
			AND NOT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = g.cluster_id
				AND o.resource_type = g.resource_type
				AND o.namespace = g.namespace AND o.name = g.name)
			AND NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.origin = g.id)
			AND NOT EXISTS (SELECT FROM kube_reports_internal.report_change c WHERE c.origin = g.id);
		GET DIAGNOSTICS removed = ROW_COUNT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_origins(tid, tid)
	IS 'removes origins in a range of places to which neither reports, results nor history refer';

-- Only clusters have history.
CREATE FUNCTION kube_reports_internal.history_names_from() RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN EXISTS (SELECT FROM kube_reports.cluster) OR kube_reports_internal.is_restoring()
		THEN kube_reports_internal.history_begins() - interval '1 month' ELSE 'infinity' END
$$;
COMMENT ON FUNCTION kube_reports_internal.history_names_from()
	IS 'a time: history cannot refer to a subject, criterion or actor that was last used before it. The time is a '
		'month before the oldest month of history; infinity if there are no clusters, because only clusters have '
		'history';

-- History has no index by subject, because the index would make every write slower.  A subject without results is noted
-- under the store's lock, so that no writer is about to refer to it, with a time behind all events that there are.  A
-- writer that stores new results of the subject removes the note.  So when history has dropped all months up to that
-- time, no event refers to the subject.
CREATE FUNCTION kube_reports_internal.collect_subjects(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	begins		timestamptz := kube_reports_internal.history_names_from();
	unnoted		bigint[];
	candidates	bigint[];
BEGIN
	-- CASE: a subject that history may name is not looked for.
	SELECT count(*), array_agg(s.id) FILTER (WHERE u.used IS NULL AND s.unused_since IS NULL),
			array_agg(s.id) FILTER (WHERE u.used IS NULL AND (s.unused_since < begins OR begins = 'infinity'))
		INTO looked_at, unnoted, candidates
		FROM kube_reports_internal.subject s
			LEFT JOIN LATERAL (SELECT true AS used WHERE CASE WHEN s.unused_since >= begins THEN true
				ELSE EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.subject = s.id) END OFFSET 0) u ON true
		WHERE s.ctid >= first AND s.ctid < behind;
	removed := 0;
	IF num_nonnulls(unnoted, candidates) > 0 THEN
		PERFORM kube_reports_internal.lock_store();
		UPDATE kube_reports_internal.subject s
			SET unused_since = greatest(now(), kube_reports_internal.history_ends())
			WHERE s.id = ANY (unnoted) AND s.unused_since IS NULL
				AND NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.subject = s.id);
		-- Read the time again: a cluster may have been registered since.
		begins := kube_reports_internal.history_names_from();
		DELETE FROM kube_reports_internal.subject s WHERE s.id = ANY (candidates) AND s.unused_since < begins
			AND NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.subject = s.id);
		GET DIAGNOSTICS removed = ROW_COUNT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_subjects(tid, tid)
	IS 'removes subjects in a range of places to which no results refer, and to which history cannot refer; notes '
		'those that have lost their results';

-- History has no index by criterion, because the index would make every write slower.  Each event comes with counts, so
-- a criterion's last count is removed after its last event.  When history has dropped the month of that removal, no
-- event refers to the criterion.  The additional month allows for clocks that were set back.
CREATE FUNCTION kube_reports_internal.collect_criteria(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	begins		timestamptz := kube_reports_internal.history_names_from();
	candidates	bigint[];
	unnoted		bigint[];
BEGIN
	SELECT count(*), array_agg(k.id) FILTER (WHERE u.used IS NULL
				AND (k.last_counted < begins OR begins = 'infinity')),
			array_agg(k.id ORDER BY k.id) FILTER (WHERE u.used IS NULL AND k.last_counted IS NULL)
		INTO looked_at, candidates, unnoted
		FROM kube_reports_internal.criterion k
			LEFT JOIN LATERAL (SELECT true AS used WHERE EXISTS (SELECT FROM kube_reports_internal.rollup r
				WHERE r.criterion = k.id)
					OR EXISTS (SELECT FROM kube_reports_internal.rollup_policy p WHERE p.criterion = k.id)
					OR EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.criterion = k.id) OFFSET 0) u ON true
		WHERE k.ctid >= first AND k.ctid < behind;
	UPDATE kube_reports_internal.criterion k SET last_counted = now() WHERE k.id = ANY (unnoted)
		AND k.last_counted IS NULL;
	removed := 0;
	IF candidates IS NOT NULL THEN
		PERFORM kube_reports_internal.lock_store();
		-- Read the time again: a cluster may have been registered since.
		begins := kube_reports_internal.history_names_from();
		DELETE FROM kube_reports_internal.criterion k WHERE k.id = ANY (candidates) AND k.last_counted < begins
			AND NOT EXISTS (SELECT FROM kube_reports_internal.rollup r WHERE r.criterion = k.id)
			AND NOT EXISTS (SELECT FROM kube_reports_internal.rollup_policy p WHERE p.criterion = k.id)
			AND NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.criterion = k.id)
			AND k.id <> ALL (ARRAY(SELECT c.id FROM kube_reports_internal.rollup_delta d
				CROSS JOIN LATERAL unnest(d.criteria) c(id)));
		GET DIAGNOSTICS removed = ROW_COUNT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_criteria(tid, tid)
	IS 'removes criteria in a range of places to which neither results nor counts refer, and to which history cannot '
		'refer';

-- Writers update last_used once a month.  The additional month allows for clocks that were set back.
CREATE FUNCTION kube_reports_internal.collect_actors(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	begins		timestamptz := kube_reports_internal.history_names_from();
	candidates	bigint[];
BEGIN
	SELECT count(*), array_agg(a.id) FILTER (WHERE a.last_used < begins) INTO looked_at, candidates
		FROM kube_reports_internal.actor a WHERE a.ctid >= first AND a.ctid < behind;
	removed := 0;
	IF candidates IS NOT NULL THEN
		PERFORM kube_reports_internal.lock_store();
		begins := kube_reports_internal.history_names_from();
		DELETE FROM kube_reports_internal.actor a WHERE a.id = ANY (candidates) AND a.last_used < begins;
		GET DIAGNOSTICS removed = ROW_COUNT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_actors(tid, tid)
	IS 'removes actors in a range of places to which history cannot refer any more';

-- Such a row keeps an import from storing the object again, and lets cleanup delete it at its source.  An import that
-- no longer finds the object at the source removes the row.  Where none has run for as long as history is kept, nobody
-- is moving in any more.
CREATE FUNCTION kube_reports_internal.collect_imported(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	begins		timestamptz := kube_reports_internal.history_names_from();
BEGIN
	SELECT count(*) INTO looked_at FROM kube_reports_internal.imported i WHERE i.ctid >= first AND i.ctid < behind;
	DELETE FROM kube_reports_internal.imported i
		WHERE i.ctid >= first AND i.ctid < behind AND i.seen_at < begins
			AND NOT EXISTS (SELECT FROM kube_reports_internal.lane l JOIN kube_reports.object o
				ON o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
				WHERE l.id = i.lane AND o.namespace = i.namespace AND o.name = i.name);
	GET DIAGNOSTICS removed = ROW_COUNT;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_imported(tid, tid)
	IS 'removes rows about copies in a range of places whose object was deleted here, and that no import has seen at '
		'its source since before the history that is kept';

-- A row says that a count changed on a day.  A first row with 0, and a row that repeats the row before, have no effect.
-- There are two statements, so that the second one does not compare with rows that the first one has removed.
CREATE FUNCTION kube_reports_internal.collect_days(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cut CONSTANT date := (SELECT s.daily_cut FROM kube_reports_internal.store s);
	idle		bigint;
BEGIN
	SELECT count(*) INTO looked_at FROM kube_reports_internal.rollup_daily d WHERE d.ctid >= first AND d.ctid < behind;
	DELETE FROM kube_reports_internal.rollup_daily d
		WHERE d.ctid >= first AND d.ctid < behind
			AND (NOT EXISTS (SELECT FROM kube_reports_internal.rollup r WHERE r.id = d.rollup)
				OR d.day < cut AND EXISTS (SELECT FROM kube_reports_internal.rollup_daily l WHERE l.rollup = d.rollup
					AND l.day > d.day AND l.day <= cut));
	GET DIAGNOSTICS removed = ROW_COUNT;
	DELETE FROM kube_reports_internal.rollup_daily d
		USING (SELECT d.ctid AS place
			FROM kube_reports_internal.rollup_daily d
				LEFT JOIN LATERAL (SELECT b.count FROM kube_reports_internal.rollup_daily b WHERE b.rollup = d.rollup
					AND b.day < d.day
					ORDER BY b.day DESC LIMIT 1) b ON true
			WHERE d.ctid >= first AND d.ctid < behind AND d.count = coalesce(b.count, 0)) g
		WHERE d.ctid = g.place;
	GET DIAGNOSTICS idle = ROW_COUNT;
	removed := removed + idle;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_days(tid, tid)
	IS 'removes counts by day in a range of places that are older than daily_retention, repeat the count before them, '
		'or belong to no count; the caller holds the folding lock';

CREATE FUNCTION kube_reports_internal.collect_scores(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cut CONSTANT date := (SELECT s.daily_cut FROM kube_reports_internal.store s);
	idle		bigint;
BEGIN
	SELECT count(*) INTO looked_at FROM kube_reports_internal.score_daily d WHERE d.ctid >= first AND d.ctid < behind;
	DELETE FROM kube_reports_internal.score_daily d
		WHERE d.ctid >= first AND d.ctid < behind AND d.day < cut
			AND EXISTS (SELECT FROM kube_reports_internal.score_daily l WHERE l.cluster_id = d.cluster_id
				AND l.namespace = d.namespace
				AND l.source = d.source AND l.category = d.category AND l.severity = d.severity AND l.day > d.day
					AND l.day <= cut);
	GET DIAGNOSTICS removed = ROW_COUNT;
	DELETE FROM kube_reports_internal.score_daily d
		USING (SELECT d.ctid AS place
			FROM kube_reports_internal.score_daily d
				LEFT JOIN LATERAL (SELECT b.* FROM kube_reports_internal.score_daily b WHERE b.cluster_id = d.cluster_id
					AND b.namespace = d.namespace
						AND b.source = d.source AND b.category = d.category AND b.severity = d.severity
							AND b.day < d.day
					ORDER BY b.day DESC LIMIT 1) b ON true
			WHERE d.ctid >= first AND d.ctid < behind
				AND (d.pass, d.warn, d.fail, d.error, d.skip, d.excluded)
					= (coalesce(b.pass, 0), coalesce(b.warn, 0), coalesce(b.fail, 0), coalesce(b.error, 0),
						coalesce(b.skip, 0), coalesce(b.excluded, 0))) g
		WHERE d.ctid = g.place;
	GET DIAGNOSTICS idle = ROW_COUNT;
	removed := removed + idle;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_scores(tid, tid)
	IS 'removes scores by day in a range of places that are older than daily_retention or repeat the score before '
		'them; the caller holds the folding lock';

CREATE FUNCTION kube_reports_internal.collect_policies(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT count(*) INTO looked_at FROM kube_reports_internal.rollup_policy p WHERE p.ctid >= first AND p.ctid < behind;
	DELETE FROM kube_reports_internal.rollup_policy p
		WHERE p.ctid >= first AND p.ctid < behind AND (p.pass, p.warn, p.fail, p.error, p.skip) = (0, 0, 0, 0, 0);
	GET DIAGNOSTICS removed = ROW_COUNT;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_policies(tid, tid)
	IS 'removes counts by policy in a range of places that are 0; the caller holds the folding lock';

CREATE FUNCTION kube_reports_internal.collect_counts(first tid, behind tid, OUT looked_at bigint, OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	idle		bigint[];
BEGIN
	SELECT count(*), coalesce(array_agg(r.id) FILTER (WHERE r.count = 0 AND u.used IS NULL), '{}') INTO looked_at, idle
		FROM kube_reports_internal.rollup r
			LEFT JOIN LATERAL (SELECT true AS used FROM kube_reports_internal.rollup_daily d
				WHERE d.rollup = r.id LIMIT 1) u ON true
		WHERE r.ctid >= first AND r.ctid < behind;
	PERFORM kube_reports_internal.remove_counts(idle);
	removed := cardinality(idle);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_counts(tid, tid)
	IS 'removes counts in a range of places that are 0 and have no days; the caller holds the folding lock';

CREATE FUNCTION kube_reports_internal.remove_counts(rollups bigint[]) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE kube_reports_internal.criterion k SET last_counted = now()
		WHERE k.id IN (SELECT r.criterion FROM kube_reports_internal.rollup r WHERE r.id = ANY (rollups));
	DELETE FROM kube_reports_internal.rollup r WHERE r.id = ANY (rollups);
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_counts(bigint[])
	IS 'removes counts, and stores the time in their criteria; the caller holds the folding lock';

CREATE FUNCTION kube_reports_internal.collect_rows(what text, first tid, behind tid, OUT looked_at bigint,
	OUT removed bigint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	step		record;
BEGIN
	CASE what
		WHEN 'detail' THEN step := kube_reports_internal.collect_details(first, behind);
		WHEN 'origin' THEN step := kube_reports_internal.collect_origins(first, behind);
		WHEN 'subject' THEN step := kube_reports_internal.collect_subjects(first, behind);
		WHEN 'rollup_daily' THEN step := kube_reports_internal.collect_days(first, behind);
		WHEN 'score_daily' THEN step := kube_reports_internal.collect_scores(first, behind);
		WHEN 'rollup_policy' THEN step := kube_reports_internal.collect_policies(first, behind);
		WHEN 'rollup' THEN step := kube_reports_internal.collect_counts(first, behind);
		WHEN 'criterion' THEN step := kube_reports_internal.collect_criteria(first, behind);
		WHEN 'actor' THEN step := kube_reports_internal.collect_actors(first, behind);
		WHEN 'imported' THEN step := kube_reports_internal.collect_imported(first, behind);
		ELSE RAISE EXCEPTION 'nothing is collected in "%"', what USING ERRCODE = 'invalid_parameter_value';
	END CASE;
	looked_at := step.looked_at;
	removed := step.removed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_rows(text, tid, tid)
	IS 'one step of collect_garbage() over a table, from a place to behind another';

CREATE FUNCTION kube_reports_internal.collect_garbage(max_rows integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- These settings are for the functions above.  A step looks up a few rows in large tables, from places that the
-- planner knows nothing of; and the session may have made the plans while the tables were empty.  A join of whole
-- tables would read all results, all history or all counts.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET lock_timeout = '100ms'
AS $$
DECLARE
	busy CONSTANT double precision := 0.05;
	pass CONSTANT interval := interval '4 hours';
	next		kube_reports_internal.garbage_sweep;
	pages		bigint;
	blocks		bigint;
	live		double precision;
	changed		bigint;
	much		boolean;
	first		tid;
	behind		tid;
	step		record;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.garbage_lock()) THEN
		RETURN 0;
	END IF;
	SELECT s.* INTO next FROM kube_reports_internal.garbage_sweep s ORDER BY s.due_at, s.what LIMIT 1;
	-- These lookups search every month of history.
	IF next.what = 'origin' THEN
		max_rows := greatest(1, max_rows / 4);
	END IF;
	SELECT pg_relation_size(c.oid) / current_setting('block_size')::bigint,
			CASE WHEN c.reltuples > 0 AND c.relpages > 0
				THEN greatest(1, least(64, max_rows / greatest(1, c.reltuples / c.relpages)))
				ELSE greatest(1, max_rows / 100) END,
			greatest(c.reltuples, 1000),
			pg_stat_get_tuples_updated('kube_reports_internal.result'::regclass)
				+ pg_stat_get_tuples_deleted('kube_reports_internal.result'::regclass)
		INTO pages, blocks, live, changed FROM pg_class c WHERE c.oid = ('kube_reports_internal.'
			|| next.what)::regclass;
	IF next.place >= pages THEN
		next.place := 0;
	END IF;
	first := ('(' || next.place || ',0)')::tid;
	behind := ('(' || next.place + blocks || ',0)')::tid;

	BEGIN
		IF next.what IN ('rollup_daily', 'score_daily', 'rollup_policy', 'rollup')
				AND NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(),
					kube_reports_internal.folding_lock()) THEN
			RAISE lock_not_available;
		END IF;
		step := kube_reports_internal.collect_rows(next.what, first, behind);
	EXCEPTION WHEN lock_not_available THEN
		-- Writers have priority: try again later.
		UPDATE kube_reports_internal.garbage_sweep s SET due_at = clock_timestamp() + interval '10 seconds'
			WHERE s.what = next.what;
		RETURN 0;
	END;

	next.looked_at := next.looked_at + step.looked_at;
	next.removed := next.removed + step.removed;
	next.place := next.place + blocks;
	-- Rows of the other tables are in use as long as history refers to them, or is kept.  The server's statistics
	-- restart at 0 after a crash.
	much := next.what NOT IN ('origin', 'subject', 'criterion', 'actor', 'imported')
		AND (changed < next.changes OR changed - next.changes > 2 * busy * live);
	IF next.place >= pages THEN
		next.hurry := much OR next.removed > busy * next.looked_at;
		next.changes := changed;
		next.place := 0;
		next.looked_at := 0;
		next.removed := 0;
	END IF;
	-- Steps that are late catch up, but by at most ten minutes.
	next.due_at := CASE WHEN step.removed > busy * step.looked_at OR next.hurry OR much THEN clock_timestamp()
		ELSE CASE WHEN next.due_at > '-infinity' THEN greatest(next.due_at, clock_timestamp() - interval '10 minutes')
			ELSE clock_timestamp() END
			+ least(interval '1 minute', pass * (blocks / greatest(pages, 1)::double precision)) END;
	UPDATE kube_reports_internal.garbage_sweep s
		SET place = next.place, looked_at = next.looked_at, removed = next.removed, changes = next.changes,
			hurry = next.hurry,
			due_at = next.due_at
		WHERE s.what = next.what;
	-- Counts of 0 stay as long as they have rows in rollup_daily.
	IF next.what = 'rollup_daily' AND step.removed > 0 THEN
		UPDATE kube_reports_internal.garbage_sweep s
			SET hurry = s.hurry OR step.removed > busy * step.looked_at, due_at = least(s.due_at, clock_timestamp())
			WHERE s.what = 'rollup';
	END IF;
	RETURN step.removed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.collect_garbage(integer)
	IS 'one step of removing unreferenced rows, in the table whose turn it is: it reads about max_rows rows. Returns '
		'the number of removed rows; 0 also if another session collects garbage or writers would have to wait';

CREATE FUNCTION kube_reports_internal.garbage_due() RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	-- A due time far in the future was stored while the clock was ahead.
	SELECT EXISTS (SELECT FROM kube_reports_internal.garbage_sweep s
		WHERE s.due_at <= clock_timestamp() OR s.due_at > clock_timestamp() + interval '1 hour')
$$;
COMMENT ON FUNCTION kube_reports_internal.garbage_due() IS 'whether it is time to call collect_garbage()';
