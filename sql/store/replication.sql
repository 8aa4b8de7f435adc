-- replication.sql
--	  Subscribers of logical replication.
--
-- A subscriber is a store that CREATE EXTENSION has made and that only the
-- subscription writes to: see docs/operations.md.  The script inserts some
-- rows into every store.  They would collide with the publisher's rows.

CREATE FUNCTION kube_reports.prepare_subscriber(first_month timestamptz DEFAULT now() - interval '25 months',
		last_month timestamptz DEFAULT now() + interval '12 months') RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF first_month IS NULL OR last_month IS NULL THEN
		RAISE EXCEPTION 'a month is null' USING ERRCODE = 'null_value_not_allowed';
	END IF;
	PERFORM kube_reports_internal.checked_range('first_month', first_month, 'last_month', last_month);
	IF NOT isfinite(first_month) OR NOT isfinite(last_month) THEN
		RAISE EXCEPTION 'a month is infinite' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Every month of the period gets a table.';
	END IF;
	PERFORM kube_reports_internal.lock_store();
	IF EXISTS (SELECT FROM kube_reports.cluster) OR EXISTS (SELECT FROM kube_reports.resource_type t
		WHERE NOT t.builtin) THEN
		RAISE EXCEPTION 'the store is not empty'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = 'Its rows and those of the publisher would have the same keys.',
				HINT = 'Subscribe with a new database.';
	END IF;
	DELETE FROM kube_reports.resource_type;
	DELETE FROM kube_reports_internal.garbage_sweep;
	DELETE FROM kube_reports_internal.store;
	DELETE FROM kube_reports_internal.caller_secret;
	DELETE FROM kube_reports_internal.rollup_mark;
	-- Logical replication does not create partitions.
	PERFORM kube_reports.make_history(m.month) FROM generate_series(first_month,
		last_month + interval '1 month', interval '1 month') m(month);
END
$$;
COMMENT ON FUNCTION kube_reports.prepare_subscriber(timestamptz, timestamptz)
	IS 'prepares a new store for CREATE SUBSCRIPTION: removes the rows that CREATE EXTENSION made, and makes the '
		'partitions of history from the first to the last month. Raises 22004 for null, 22023 for a period that ends '
		'before it begins or has no end, 55000 when the store is not empty';
