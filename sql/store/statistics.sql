-- statistics.sql
--	  Planner statistics of tables that autovacuum does not analyze.
--
-- Autovacuum analyzes a table when 50 rows and a tenth of its rows have changed.  Small tables, which are part of every
-- join, never have so many changes, and partitioned tables have no rows of their own to count.  The planner expects
-- many rows in a table that was never analyzed.  For a query over several such tables it expects millions of rows, and
-- spends seconds on compiling the query.

CREATE FUNCTION kube_reports_internal.unanalyzed() RETURNS TABLE (name regclass, pages bigint, partitioned boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	-- A table is analyzed again after ten minutes at the earliest: rows of queues come and go, and newer statistics of
	-- a queue are no better than older ones.
	SELECT c.oid::regclass, pg_relation_size(c.oid) / current_setting('block_size')::bigint, false
	FROM pg_class c
		CROSS JOIN LATERAL (SELECT greatest(pg_stat_get_last_analyze_time(c.oid),
			pg_stat_get_last_autoanalyze_time(c.oid)) AS analyzed_at,
			pg_stat_get_mod_since_analyze(c.oid) AS changed, pg_stat_get_live_tuples(c.oid) AS live) s
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
		AND (c.reltuples < 0 OR s.analyzed_at IS NULL
			OR s.analyzed_at < now() - interval '10 minutes' AND s.changed > 0
				AND (s.changed > 100 + 0.2 * c.reltuples OR s.live > 2 * c.reltuples OR s.live < c.reltuples / 2))
	UNION ALL
	SELECT c.oid::regclass, p.pages, true
	FROM pg_class c
		CROSS JOIN LATERAL (SELECT pg_stat_get_last_analyze_time(c.oid) AS analyzed_at) s
		CROSS JOIN LATERAL (SELECT sum(pg_relation_size(i.inhrelid)) / current_setting('block_size')::bigint AS pages,
				sum(pg_stat_get_live_tuples(i.inhrelid)) AS live
			FROM pg_inherits i WHERE i.inhparent = c.oid) p
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind = 'p' AND p.pages > 0
		AND (c.reltuples < 0 OR s.analyzed_at IS NULL OR s.analyzed_at < now() - interval '1 day'
			AND p.live <> c.reltuples
			OR s.analyzed_at < now() - interval '10 minutes' AND (p.live > 2 * c.reltuples OR p.live < c.reltuples / 2))
$$;
COMMENT ON FUNCTION kube_reports_internal.unanalyzed()
	IS 'tables of kube_reports that have rows and were never analyzed, or that have changed much since, with their '
		'sizes';

-- SECURITY DEFINER: only the owner may analyze.  Small tables come first, as many as half a second allows.  ANALYZE of
-- a partitioned table also analyzes its partitions again: the target is lowered, so that all of them together read
-- about as many rows as one large table.  A locked table is skipped.
CREATE FUNCTION kube_reports_internal.analyze_step() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = error
AS $$
DECLARE
	until CONSTANT timestamptz := clock_timestamp() + interval '0.5 seconds';
	usual CONSTANT text := current_setting('default_statistics_target');
	target		record;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.analyze_lock()) THEN
		RETURN false;
	END IF;
	FOR target IN SELECT u.* FROM kube_reports_internal.unanalyzed() u ORDER BY u.pages, u.name::text LOOP
		IF clock_timestamp() > until THEN
			RETURN true;
		END IF;
		IF target.partitioned THEN
			PERFORM set_config('default_statistics_target', greatest(10, least(100,
				200 / (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = target.name)))::text, true);
		END IF;
		EXECUTE format('ANALYZE (SKIP_LOCKED) %s', target.name);
		IF target.partitioned THEN
			PERFORM set_config('default_statistics_target', usual, true);
		END IF;
	END LOOP;
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.analyze_step()
	IS 'analyzes tables that autovacuum leaves out, for about half a second; true if there are more';
