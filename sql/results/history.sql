-- history.sql
--	  The partitions of history.

-- Null for a table that is no partition.
CREATE FUNCTION kube_reports_internal.has_history(at timestamptz) RETURNS boolean
LANGUAGE sql STABLE
RETURN pg_partition_root(to_regclass('kube_reports_internal.report_change_'
	|| to_char(at AT TIME ZONE 'UTC', 'YYYY_MM'))) IS NOT NULL;
COMMENT ON FUNCTION kube_reports_internal.has_history(timestamptz)
	IS 'whether there is a partition of history for the month of a time';

-- A DBA may attach other partitions, such as a default one: they are the DBA's, and nothing here drops them.
CREATE FUNCTION kube_reports_internal.history_months() RETURNS TABLE (partition text, begins timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT c.relname::text COLLATE "C",
		to_date(substr(c.relname, length('report_change_') + 1), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC'
	FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = 'kube_reports_internal.report_change'::regclass
		AND c.relnamespace = 'kube_reports_internal'::regnamespace
		AND c.relname ~ '^report_change_[0-9]{4}_(0[1-9]|1[0-2])$'
$$;
COMMENT ON FUNCTION kube_reports_internal.history_months()
	IS 'the partitions of history that make_history() has made, with the beginning of their months';

-- A partition is made as a table and then attached, so the tablespace that ALTER TABLE report_change SET TABLESPACE has
-- chosen for later partitions is read here.  Neither writers nor a restore can go on without what they make: it is
-- made in the tablespace of the database where the role may not use another one.
CREATE FUNCTION kube_reports_internal.tablespace_beside(relation regclass) RETURNS name
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted		name := coalesce((SELECT s.spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = c.reltablespace
			WHERE c.oid = relation), nullif(current_setting('default_tablespace'), ''));
	usual		name := (SELECT s.spcname FROM pg_database d JOIN pg_tablespace s ON s.oid = d.dattablespace
		WHERE d.datname = current_database());
BEGIN
	IF wanted IS NULL OR wanted = usual THEN
		RETURN usual;
	ELSIF NOT EXISTS (SELECT FROM pg_tablespace s WHERE s.spcname = wanted) THEN
		RAISE WARNING 'tablespace "%" does not exist: "%" is used', wanted, usual
			USING ERRCODE = 'undefined_object', HINT = 'default_tablespace names it.';
		RETURN usual;
	ELSIF NOT has_tablespace_privilege(wanted, 'CREATE') THEN
		RAISE WARNING 'role "%" may not use tablespace "%": "%" is used', current_user, wanted, usual
			USING ERRCODE = 'insufficient_privilege',
				HINT = format('GRANT CREATE ON TABLESPACE %I TO %I; then ALTER TABLE ... SET TABLESPACE moves tables.',
					wanted, current_user);
		RETURN usual;
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.tablespace_beside(regclass)
	IS 'the tablespace of a new partition or index of a table: that of the table, or default_tablespace. Where the '
		'role may not use it, that of the database, with a warning';

CREATE FUNCTION kube_reports_internal.history_indexes() RETURNS TABLE (definition text)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	VALUES
		-- For readers who see single namespaces only.
		('(cluster_id, namespace, at)'),
		-- For followers of history, which read in the order of versions.  Rows are also inserted in that order.
		('(cluster_id, version)'),
		-- For results that come back, for imports and repairs, and for collect_origins().
		('(origin)'),
		-- For queries about a time.
		('USING brin (at) WITH (pages_per_range = 32)');
END;
COMMENT ON FUNCTION kube_reports_internal.history_indexes()
	IS 'the indexes of each month of history, as CREATE INDEX takes them';

CREATE FUNCTION kube_reports.make_history(at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
	month		timestamp := date_trunc('month', make_history.at AT TIME ZONE 'UTC');
	partition	text := 'report_change_' || to_char(month, 'YYYY_MM');
	space		name;
	present		pg_class;
	definition	text;
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
	space := kube_reports_internal.tablespace_beside('kube_reports_internal.report_change');
	EXECUTE format('CREATE TABLE kube_reports_internal.%I (LIKE kube_reports_internal.report_change) TABLESPACE %I',
		partition, space);
	EXECUTE format('ALTER TABLE kube_reports_internal.%I REPLICA IDENTITY FULL', partition);
	EXECUTE format('COMMENT ON TABLE kube_reports_internal.%I IS %L', partition, 'history of one month (UTC)');
	FOR definition IN SELECT h.definition FROM kube_reports_internal.history_indexes() h LOOP
		EXECUTE format('CREATE INDEX ON kube_reports_internal.%I %s TABLESPACE %I', partition, definition, space);
	END LOOP;
	EXECUTE format('ALTER TABLE kube_reports_internal.report_change ATTACH PARTITION kube_reports_internal.%I FOR '
		'VALUES FROM (%L) TO (%L)', partition,
		month AT TIME ZONE 'UTC', (month + interval '1 month') AT TIME ZONE 'UTC');
END
$$;
COMMENT ON FUNCTION kube_reports.make_history(timestamptz)
	IS 'makes the partition of history for the month of a time, for rows that are loaded or replicated; writers and '
		'upkeep make partitions themselves. A detached partition of that month is renamed, and stays as it is. Raises '
		'22008 for a time outside the years 1 to 9999';
