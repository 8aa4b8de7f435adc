-- history.sql
--	  The partitions of history.

-- Null for a table that is no partition.
CREATE FUNCTION kube_reports_internal.has_history(at timestamptz) RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_partition_root(to_regclass('kube_reports_internal.report_change_'
	|| to_char(at AT TIME ZONE 'UTC', 'YYYY_MM'))) IS NOT NULL;
COMMENT ON FUNCTION kube_reports_internal.has_history(timestamptz)
	IS 'whether there is a partition of history for the month of a time';

CREATE FUNCTION kube_reports.make_history(at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
	month		timestamp := date_trunc('month', make_history.at AT TIME ZONE 'UTC');
	partition	text := 'report_change_' || to_char(month, 'YYYY_MM');
	present		pg_class;
BEGIN
	-- The name of a partition has four digits for the year.
	IF at IS NULL OR at < '0001-01-01 00:00:00+00' OR at >= '9999-12-01 00:00:00+00' THEN
		RAISE EXCEPTION 'history has no month of time %', coalesce(quote_literal(at), 'NULL')
			USING ERRCODE = 'datetime_field_overflow',
				HINT = 'Give a time between the years 1 and 9999.';
	END IF;
	IF kube_reports_internal.has_history(at) THEN
		RETURN;
	END IF;
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.history_lock());
	-- Read pg_class instead of to_regclass(): an advisory lock does not invalidate the catalog cache, which may still
	-- say that the partition does not exist.
	SELECT c.* INTO present FROM pg_class c WHERE c.relnamespace = 'kube_reports_internal'::regnamespace
		AND c.relname = partition;
	-- A dump makes the table first and attaches it later.
	IF present.relispartition OR present.oid IS NOT NULL AND kube_reports_internal.is_restoring() THEN
		RETURN;
	END IF;
	-- The month was detached by hand, and its name is needed for the partition that writers use.
	IF present.oid IS NOT NULL THEN
		EXECUTE format('ALTER TABLE kube_reports_internal.%I RENAME TO %I', partition,
			format('%s_detached_%s', partition, present.oid));
	END IF;
	EXECUTE format('CREATE TABLE kube_reports_internal.%I (LIKE kube_reports_internal.report_change)', partition);
	EXECUTE format('ALTER TABLE kube_reports_internal.%I REPLICA IDENTITY FULL', partition);
	EXECUTE format('COMMENT ON TABLE kube_reports_internal.%I IS %L', partition, 'history of one month (UTC)');
	-- For readers who see single namespaces only.
	EXECUTE format('CREATE INDEX ON kube_reports_internal.%I (cluster_id, namespace, at)', partition);
	-- For followers of history, which read in the order of versions.  Rows are also inserted in that order.
	EXECUTE format('CREATE INDEX ON kube_reports_internal.%I (cluster_id, version)', partition);
	-- For results that come back, for imports and repairs, and for collect_origins().
	EXECUTE format('CREATE INDEX ON kube_reports_internal.%I (origin)', partition);
	-- For collect_subjects().  Most rows have one subject.  With fastupdate, each lookup would read the list of pending
	-- entries.
	EXECUTE format('CREATE INDEX ON kube_reports_internal.%I USING gin (subjects) WITH (fastupdate = off)', partition);
	-- For queries about a time.
	EXECUTE format('CREATE INDEX ON kube_reports_internal.%I USING brin (at) WITH (pages_per_range = 32)', partition);
	EXECUTE format('ALTER TABLE kube_reports_internal.report_change ATTACH PARTITION kube_reports_internal.%I FOR '
		'VALUES FROM (%L) TO (%L)', partition,
		month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
END
$$;
COMMENT ON FUNCTION kube_reports.make_history(timestamptz)
	IS 'makes the partition of history for the month of a time, for rows that are loaded or replicated; writers and '
		'upkeep make partitions themselves. A detached partition of that month is renamed, and stays as it is. Raises '
		'22008 for a time outside the years 1 to 9999';
