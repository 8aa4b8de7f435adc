-- 80_upkeep.sql
--	  Compaction of the log, incarnations, restored dumps, status.

CREATE FUNCTION kube_reports.setting(name text) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce((SELECT s.value FROM kube_reports.setting s WHERE s.name = $1),
		CASE $1 WHEN 'log_retention' THEN '60 minutes' WHEN 'log_bytes' THEN '1073741824' END);
END;
COMMENT ON FUNCTION kube_reports.setting(text) IS 'the value of a setting, or its default';

CREATE FUNCTION kube_reports.set_setting(name text, value text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports.setting(name) IS NULL THEN
		RAISE EXCEPTION 'there is no setting "%"', name
			USING ERRCODE = 'undefined_object', HINT = 'Settings are log_retention and log_bytes.';
	END IF;
	IF name = 'log_retention' AND value::interval < interval '0' OR name = 'log_bytes' AND value::bigint < 0 THEN
		RAISE EXCEPTION 'setting "%" cannot be negative', name USING ERRCODE = 'invalid_parameter_value';
	END IF;
	INSERT INTO kube_reports.setting AS s (name, value) VALUES (set_setting.name, set_setting.value)
		ON CONFLICT ON CONSTRAINT setting_pkey DO UPDATE SET value = excluded.value;
END
$$;
COMMENT ON FUNCTION kube_reports.set_setting(text, text)
	IS 'log_retention: how long changes stay watchable (interval); log_bytes: how much of them is kept at most (bytes on disk)';

-- A step deletes at most max_rows changes of each lane and raises the floor with them, in one transaction: a reader sees both or
-- neither.  Rows are deleted, never truncated away under a reader's snapshot.
CREATE FUNCTION kube_reports.compact(max_rows integer DEFAULT 5000) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	oldest_kept	timestamptz := clock_timestamp() - kube_reports.setting('log_retention')::interval;
	excess		bigint;
	this		record;
	new_floor	bigint;
	removed		integer;
	more		boolean := false;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports.lock_class(), -1) THEN
		RETURN false;
	END IF;
	SELECT coalesce(sum(pg_column_size(c.old_metadata) + pg_column_size(c.old_body) + 120), 0)
			- kube_reports.setting('log_bytes')::bigint
		INTO excess FROM kube_reports.change c WHERE c.operation <> 'A';
	FOR this IN SELECT l.id, l.floor FROM kube_reports.lane l ORDER BY l.id LOOP
		SELECT max(s.version), count(*) INTO new_floor, removed
			FROM (SELECT c.version, c.at,
					sum(coalesce(pg_column_size(c.old_metadata) + pg_column_size(c.old_body), 0) + 120)
						OVER (ORDER BY c.version) AS bytes
				FROM (SELECT * FROM kube_reports.change c WHERE c.lane = this.id AND c.version > this.floor
					ORDER BY c.version LIMIT max_rows) c) s
			WHERE s.at < oldest_kept OR s.bytes <= excess;
		CONTINUE WHEN removed = 0;
		-- A new incarnation may have raised the floor further meanwhile.
		UPDATE kube_reports.lane l SET floor = greatest(l.floor, new_floor) WHERE l.id = this.id;
		DELETE FROM kube_reports.change c WHERE c.lane = this.id AND c.version > this.floor AND c.version <= new_floor;
		more := more OR removed = max_rows;
	END LOOP;
	RETURN more;
END
$$;
COMMENT ON FUNCTION kube_reports.compact(integer)
	IS 'one step of removing changes that are older than log_retention or beyond log_bytes; true when there is more to do; one caller at a time';

-- Where a role may not read the control file (some managed services), both are null and new_incarnation() is called by hand.
CREATE FUNCTION kube_reports.server_identity(OUT system_identifier bigint, OUT timeline bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT c.system_identifier INTO system_identifier FROM pg_control_system() c;
	-- Not pg_control_checkpoint(): it still shows the old timeline right after a promotion.
	timeline := ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
	system_identifier := NULL;
	timeline := NULL;
END
$$;
COMMENT ON FUNCTION kube_reports.server_identity() IS 'system identifier and timeline of this server; nulls where they cannot be read';

CREATE FUNCTION kube_reports.new_incarnation(log_lost boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	base		bigint;
BEGIN
	PERFORM kube_reports.require_read_committed();
	PERFORM kube_reports.lock_store();
	base := greatest(nextval('kube_reports.version_seq'),
		(SELECT max(o.version) FROM kube_reports.object o),
		(SELECT max(c.version) FROM kube_reports.change c),
		(SELECT max(l.floor) FROM kube_reports.lane l),
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + 1;
	PERFORM setval('kube_reports.version_seq', base);
	IF log_lost THEN
		UPDATE kube_reports.lane l SET floor = base, lost = '{}';
		DELETE FROM kube_reports.change;
	ELSE
		-- Clients and this log agree up to its newest version; what lies between that and the base was given by another server.
		UPDATE kube_reports.lane l
			SET lost = l.lost + int8multirange(int8range(kube_reports.lane_version(l.id), base, '()'));
	END IF;
	UPDATE kube_reports.store s SET (system_identifier, timeline)
		= (SELECT i.system_identifier, i.timeline FROM kube_reports.server_identity() i);
	RETURN base;
END
$$;
COMMENT ON FUNCTION kube_reports.new_incarnation(boolean)
	IS 'moves all future versions above any that was ever given; needed after a failover or a restored disk snapshot where the server cannot be told from its predecessor. log_lost: the log cannot be trusted, every older version gets 410. Returns the new base';

CREATE FUNCTION kube_reports.check_incarnation() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	here		record;
	noted		record;
BEGIN
	SELECT * INTO here FROM kube_reports.server_identity();
	SELECT s.system_identifier, s.timeline INTO noted FROM kube_reports.store s;
	IF here.system_identifier IS NULL OR (here.system_identifier, here.timeline) IS NOT DISTINCT FROM (noted.system_identifier, noted.timeline) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports.lock_store();
	SELECT s.system_identifier, s.timeline INTO noted FROM kube_reports.store s;
	IF (here.system_identifier, here.timeline) IS NOT DISTINCT FROM (noted.system_identifier, noted.timeline) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports.new_incarnation(false);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports.check_incarnation()
	IS 'calls new_incarnation() when system identifier or timeline of the server changed; true when it did';

CREATE FUNCTION kube_reports.after_restore() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports.require_read_committed();
	PERFORM kube_reports.lock_store();
	PERFORM kube_reports.make_lanes();
	UPDATE kube_reports.lane l SET store = s.identity FROM kube_reports.store s;
	UPDATE kube_reports.store s SET restore_pending = false, generation = s.generation + 1;
	RETURN kube_reports.new_incarnation(true);
END
$$;
COMMENT ON FUNCTION kube_reports.after_restore()
	IS 'to be called once when a dump has been loaded; the first proxy that connects does it otherwise. Older versions get 410. Returns the base of new versions';

CREATE VIEW kube_reports.status AS
	SELECT (SELECT e.extversion FROM pg_catalog.pg_extension e WHERE e.extname = 'kube_reports') AS version,
		s.restore_pending OR EXISTS (SELECT FROM kube_reports.lane l WHERE l.store IS DISTINCT FROM s.identity) AS restore_pending,
		s.generation AS registry_generation,
		(SELECT count(*) FROM kube_reports.cluster) AS clusters,
		(SELECT count(*) FROM kube_reports.object) AS objects,
		(SELECT count(*) FROM kube_reports.change) AS log_entries,
		pg_catalog.pg_total_relation_size('kube_reports.object') AS object_bytes,
		pg_catalog.pg_total_relation_size('kube_reports.change') AS log_bytes
	FROM kube_reports.store s;
COMMENT ON VIEW kube_reports.status IS 'how this store is: one row';

SELECT kube_reports.check_incarnation();

