-- upkeep.sql
--	  Compaction of the log, incarnations, restored dumps, status.

CREATE FUNCTION kube_reports_internal.known_settings() RETURNS TABLE (name text, value text, form text)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	VALUES ('log_retention', '60 minutes', 'an interval such as ''90 minutes'''),
		('log_bytes', '1073741824', 'a number of bytes'),
		('settle_window', '10 minutes', 'an interval such as ''5 minutes'', at most a day'),
		('history_retention', '25 months', 'an interval such as ''13 months'''),
		('daily_retention', '25 months', 'an interval such as ''13 months'''),
		('text_search', 'off', 'on or off; enable_text_search() turns it on'),
		('strict_dml', 'off', 'on or off'),
		('evidence_rotation', '3', 'a number of runs from 0 to 10000'),
		('evidence_retention', '25 months', 'an interval such as ''13 months'''),
		('evidence_bytes', '10737418240', 'a number of bytes');
END;
COMMENT ON FUNCTION kube_reports_internal.known_settings()
	IS 'the settings with their defaults and the kinds of their values';

CREATE FUNCTION kube_reports_internal.default_setting(name text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		text := (SELECT k.value FROM kube_reports_internal.known_settings() k
		WHERE k.name = default_setting.name);
BEGIN
	IF known IS NULL THEN
		RAISE EXCEPTION 'there is no setting "%"', name
			USING ERRCODE = 'undefined_object', HINT = (SELECT format('Settings are %s.', string_agg(k.name, ', '))
				FROM kube_reports_internal.known_settings() k);
	END IF;
	RETURN known;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.default_setting(text)
	IS 'the default of a setting. Raises 42704 if there is no setting with this name';

-- SECURITY DEFINER: readers may read how long history is kept.
CREATE FUNCTION kube_reports.setting(name text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN coalesce((SELECT s.value FROM kube_reports_internal.setting s WHERE s.name = setting.name),
		kube_reports_internal.default_setting(setting.name));
END
$$;
COMMENT ON FUNCTION kube_reports.setting(text)
	IS 'the value of a setting, or its default. Raises 42704 for an unknown setting';

CREATE FUNCTION kube_reports.set_setting(name text, value text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	usual CONSTANT text := kube_reports_internal.default_setting(set_setting.name);
	form CONSTANT text := (SELECT k.form FROM kube_reports_internal.known_settings() k
		WHERE k.name = set_setting.name);
	possible	boolean;
BEGIN
	IF value IS NULL THEN
		DELETE FROM kube_reports_internal.setting s WHERE s.name = set_setting.name;
		RETURN;
	END IF;
	BEGIN
		possible := CASE
			WHEN set_setting.name IN ('text_search', 'strict_dml') THEN value IN ('on', 'off')
			WHEN set_setting.name IN ('log_bytes', 'evidence_bytes') THEN value::bigint >= 0
			WHEN set_setting.name = 'evidence_rotation' THEN value::integer BETWEEN 0 AND 10000
			-- PostgreSQL reads a bare number as seconds: '25' for 25 months would expire nearly everything.
			WHEN value ~ '^ *[+-]?[0-9.]+ *$' AND value::interval <> '0' THEN false
			WHEN set_setting.name = 'settle_window' THEN value::interval BETWEEN '0' AND '1 day'
			-- now() minus the value must be a valid time.
			ELSE value::interval BETWEEN '0' AND '1000 years' END;
	EXCEPTION WHEN data_exception THEN
		possible := false;
	END;
	IF NOT possible THEN
		RAISE EXCEPTION 'setting "%" cannot be "%"', name, value
			USING ERRCODE = 'invalid_parameter_value', HINT = format('It is %s. Its default is %s.', form, usual);
	END IF;
	INSERT INTO kube_reports_internal.setting AS s (name, value) VALUES (set_setting.name, set_setting.value)
		ON CONFLICT ON CONSTRAINT setting_pkey DO UPDATE SET value = excluded.value;
END
$$;
COMMENT ON FUNCTION kube_reports.set_setting(text, text)
	IS 'log_retention: how long changes stay watchable (interval). log_bytes: the largest size of the log on disk, in '
		'bytes; types and clusters with many changes share it evenly. settle_window: how long a result may disappear '
		'and come back without a trace in history (interval, at most a day). history_retention: how long history is '
		'kept (interval; whole months are dropped). daily_retention: how long counts and scores of days are kept '
		'(interval; the last ones before that stay, because they still hold). text_search: whether after_restore() '
		'makes the indexes of enable_text_search(). strict_dml: whether the SQL variant refuses objects that DML '
		'writes, because it cannot check them as the engine does. evidence_rotation: how many runs of a scan keep '
		'their evidence (0: all). evidence_retention: how long evidence is kept (interval). evidence_bytes: how many '
		'bytes of evidence a cluster may have. Null sets the default. Raises 42704 for an unknown '
		'setting, 22023 for a value that the setting cannot have';

-- The size of an entry of the log: its documents as they are stored, and the row around them.
CREATE FUNCTION kube_reports_internal.change_size(metadata kube_reports.report, body kube_reports.report) RETURNS bigint
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(pg_column_size(metadata), 0) + coalesce(pg_column_size(body), 0) + 120::bigint;
END;
COMMENT ON FUNCTION kube_reports_internal.change_size(kube_reports.report, kube_reports.report)
	IS 'the number of bytes that an entry of the log counts for';

-- Reads each entry once: in a lane, an entry that becomes visible later has a larger version.
CREATE FUNCTION kube_reports_internal.measure_log() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	INSERT INTO kube_reports_internal.log_size AS s (lane, measured, bytes)
		SELECT l.id, n.newest, n.bytes
		FROM kube_reports_internal.lane l
			LEFT JOIN kube_reports_internal.log_size s ON s.lane = l.id
			CROSS JOIN LATERAL (SELECT max(c.version) AS newest,
				sum(kube_reports_internal.change_size(c.old_metadata, c.old_body)) AS bytes
				FROM kube_reports_internal.change c WHERE c.lane = l.id AND c.version > greatest(s.measured, l.floor)) n
		WHERE n.newest IS NOT NULL
		ON CONFLICT (lane) DO UPDATE SET measured = excluded.measured, bytes = s.bytes + excluded.bytes;
	SELECT coalesce(sum(s.bytes), 0)::bigint FROM kube_reports_internal.log_size s;
$$;
COMMENT ON FUNCTION kube_reports_internal.measure_log()
	IS 'brings log_size up to date; returns the bytes of the whole log';

-- If the log is too large, only the lanes with the largest logs lose entries.  The result is the largest number of
-- bytes that a lane may keep, so that all lanes together have log_bytes.  A lane can always keep its fair share:
-- log_bytes divided by the number of lanes that have entries.
CREATE FUNCTION kube_reports_internal.log_share() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(max(s.share) FILTER (WHERE s.bytes > s.share), 9223372036854775807)
	FROM (SELECT s.bytes, greatest((kube_reports.setting('log_bytes')::bigint - (sum(s.bytes) OVER smaller - s.bytes))
				/ count(*) OVER (ORDER BY s.bytes DESC, s.lane DESC), 0)::bigint AS share
		FROM kube_reports_internal.log_size s WHERE s.bytes > 0
		WINDOW smaller AS (ORDER BY s.bytes, s.lane)) s;
$$;
COMMENT ON FUNCTION kube_reports_internal.log_share()
	IS 'the number of bytes of the log that a lane may have; if all lanes together have at most log_bytes, a number '
		'above the size of each lane''s log';

-- A step deletes at most max_rows changes of each lane and raises the floor in the same transaction: a reader sees both
-- or neither.  Rows are deleted, not truncated, because a reader's snapshot may need them.  If the log is too large, a
-- step deletes the oldest changes of lanes that have more than their share: a lane with many writes does not shorten
-- another lane's log.  Changes that are needed for pending results are kept.
--
-- The age of a change comes from the clock, which may have jumped.  So in one minute only a small part of a lane's log
-- is deleted because of its age: four times as much as a minute adds to a log of full length.  Watchers that are behind
-- have about a quarter of an hour to catch up.
CREATE FUNCTION kube_reports_internal.compact(max_rows integer DEFAULT 5000) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than its statistics are updated.  The settings also hold for measure_log(): for a range of
-- versions the planner would read the whole of a large log.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	oldest_kept	timestamptz := clock_timestamp() - kube_reports.setting('log_retention')::interval;
	aging_share CONSTANT double precision := 240 /
		greatest(extract(epoch FROM kube_reports.setting('log_retention')::interval), 1);
	share		bigint;
	this		record;
	more		boolean := false;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.compaction_lock()) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.measure_log();
	share := kube_reports_internal.log_share();
	UPDATE kube_reports_internal.log_size s SET aging = ceil(s.bytes * aging_share), aging_at = clock_timestamp()
		WHERE aging_share < 1 AND s.bytes > 0
			AND (s.aging_at > clock_timestamp() - interval '1 minute' AND s.aging_at <= clock_timestamp()) IS NOT TRUE;
	FOR this IN
		SELECT d.lane, d.floor, max(d.version) AS new_floor, count(*) AS removed, sum(d.size) AS bytes
		FROM (SELECT l.id AS lane, l.floor, c.version, c.at, z.excess, z.aging,
				sum(c.size) OVER of_lane AS bytes_with, c.size
			FROM kube_reports_internal.lane l
				LEFT JOIN kube_reports_internal.log_size s ON s.lane = l.id
				CROSS JOIN LATERAL (SELECT coalesce(s.bytes, 0) - share AS excess,
					CASE WHEN aging_share < 1 THEN coalesce(s.aging, 0) ELSE 9223372036854775807 END AS aging,
					coalesce((SELECT min(p.first) FROM kube_reports_internal.result_pending p WHERE p.lane = l.id),
						9223372036854775807) AS needed) z
				JOIN LATERAL (SELECT c.at FROM kube_reports_internal.change c WHERE c.lane = l.id
					AND c.version > l.floor
					ORDER BY c.version LIMIT 1) oldest ON z.excess > 0 OR oldest.at < oldest_kept
				CROSS JOIN LATERAL (SELECT c.version, c.at,
					kube_reports_internal.change_size(c.old_metadata, c.old_body) AS size
					FROM kube_reports_internal.change c WHERE c.lane = l.id AND c.version > l.floor
						AND c.version < z.needed
					ORDER BY c.version LIMIT max_rows) c
			WINDOW of_lane AS (PARTITION BY l.id ORDER BY c.version)) d
		WHERE d.at < oldest_kept AND d.bytes_with - d.size < d.aging OR d.bytes_with - d.size < d.excess
		GROUP BY d.lane, d.floor
		ORDER BY d.lane
	LOOP
		-- A new incarnation may have raised the floor further meanwhile.
		UPDATE kube_reports_internal.lane l SET floor = greatest(l.floor, this.new_floor) WHERE l.id = this.lane;
		DELETE FROM kube_reports_internal.change c WHERE c.lane = this.lane AND c.version > this.floor
			AND c.version <= this.new_floor;
		UPDATE kube_reports_internal.log_size s SET bytes = s.bytes - this.bytes,
			aging = greatest(s.aging - this.bytes, 0) WHERE s.lane = this.lane;
		more := more OR this.removed = max_rows;
	END LOOP;
	RETURN more;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.compact(integer)
	IS 'one step of removing changes that are older than log_retention, a part of them each minute, or the oldest of '
		'lanes that have more than log_share(); true when there is more to do; one caller at a time';

-- Versions are microseconds of a clock: this is the year 2112.  The sequence has as many versions again above the
-- limit, so that no accepted version is the last one.
CREATE FUNCTION kube_reports_internal.version_limit() RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 4503599627370496;
COMMENT ON FUNCTION kube_reports_internal.version_limit() IS 'the highest version that a row of a dump may have';

-- Where a role may not read the control file (some managed services), system identifier and timeline are null and
-- new_incarnation() must be called by hand after a failover.  Base backups and pg_upgrade keep the database's OID.
CREATE FUNCTION kube_reports.server_identity(OUT system_identifier bigint, OUT timeline bigint, OUT database oid)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT d.oid INTO database FROM pg_database d WHERE d.datname = current_database();
	SELECT c.system_identifier INTO system_identifier FROM pg_control_system() c;
	-- Not pg_control_checkpoint(): it still shows the old timeline right after a promotion.
	timeline := ('x' || lpad(left(pg_walfile_name(pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function THEN
	system_identifier := NULL;
	timeline := NULL;
END
$$;
COMMENT ON FUNCTION kube_reports.server_identity()
	IS 'system identifier and timeline of this server, by which a failover is noticed, and the OID of this database, '
		'by which a copy in the same server is noticed. Where the first two cannot be read they are null: then call '
		'new_incarnation() after a failover';

---- sequences of ids ----

CREATE FUNCTION kube_reports_internal.sequences_behind()
	RETURNS TABLE (name text, last_value bigint, least_value bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.name, s.last_value, s.least_value
	FROM (SELECT 'origin_id_seq', s.last_value, s.is_called, (SELECT max(g.id) FROM kube_reports_internal.origin g)
			FROM kube_reports_internal.origin_id_seq s
		UNION ALL
		SELECT 'cluster_id_seq', s.last_value, s.is_called, (SELECT max(c.id) FROM kube_reports.cluster c)
			FROM kube_reports_internal.cluster_id_seq s
		UNION ALL
		SELECT 'lane_id_seq', s.last_value, s.is_called, (SELECT max(l.id) FROM kube_reports_internal.lane l)
			FROM kube_reports_internal.lane_id_seq s
		UNION ALL
		SELECT 'resource_type_id_seq', s.last_value, s.is_called,
				(SELECT max(t.id) FROM kube_reports.resource_type t)
			FROM kube_reports_internal.resource_type_id_seq s
		UNION ALL
		SELECT 'definition_id_seq', s.last_value, s.is_called,
				greatest((SELECT max(v.id) FROM kube_reports_internal.resource_version v),
					(SELECT max(t.mapping_id) FROM kube_reports.resource_type t))
			FROM kube_reports_internal.definition_id_seq s
		UNION ALL
		SELECT 'rollup_id_seq', s.last_value, s.is_called, (SELECT max(r.id) FROM kube_reports_internal.rollup r)
			FROM kube_reports_internal.rollup_id_seq s
		UNION ALL
		SELECT 'import_waiting_id_seq', s.last_value, s.is_called,
				(SELECT max(w.id) FROM kube_reports_internal.import_waiting w)
			FROM kube_reports_internal.import_waiting_id_seq s) s(name, last_value, is_called, least_value)
	WHERE s.last_value - (NOT s.is_called)::integer < s.least_value
$$;
COMMENT ON FUNCTION kube_reports_internal.sequences_behind()
	IS 'the sequences of ids that would give an id that is in use, because they were set back or made UNLOGGED before '
		'a crash of the server';

CREATE FUNCTION kube_reports_internal.correct_sequences() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT setval(format('kube_reports_internal.%I', s.name)::regclass, s.least_value)
		FROM kube_reports_internal.sequences_behind() s;
$$;
COMMENT ON FUNCTION kube_reports_internal.correct_sequences()
	IS 'moves the sequences of sequences_behind() above the ids that are in use. after_restore(), new_incarnation() '
		'and rebuild() call it';

CREATE FUNCTION kube_reports.new_incarnation(log_lost boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	highest CONSTANT bigint := kube_reports_internal.version_limit();
	given		bigint;
	base		bigint;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	-- If the log is given up anyway, ignore versions above the limit: no store can have given them.
	SELECT max(v.version), max(v.version) FILTER (WHERE v.version <= highest) INTO given, base
		FROM (SELECT s.last_value FROM kube_reports_internal.version_seq s
			UNION ALL SELECT unnest(ARRAY[max(o.version), max(o.version) FILTER (WHERE o.version <= highest)])
				FROM kube_reports.object o
			UNION ALL SELECT unnest(ARRAY[max(c.version), max(c.version) FILTER (WHERE c.version <= highest)])
				FROM kube_reports_internal.change c
			UNION ALL SELECT l.floor FROM kube_reports_internal.lane l
			UNION ALL SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) v(version);
	IF given > highest AND NOT log_lost THEN
		RAISE EXCEPTION 'version % was given, or the sequence was set to it', given
			USING ERRCODE = 'numeric_value_out_of_range', DETAIL = format('The last one that counts is %s.', highest),
				HINT = 'Call kube_reports.new_incarnation(log_lost => true): '
					'objects above the limit get a new version.';
	END IF;
	base := base + 1;
	PERFORM setval('kube_reports_internal.version_seq', base), kube_reports_internal.correct_sequences();
	IF log_lost THEN
		UPDATE kube_reports_internal.lane l SET floor = base, lost = '{}';
		PERFORM kube_reports_internal.begin_own_write();
		UPDATE kube_reports.object o SET version = base WHERE o.version > highest;
		PERFORM set_config('kube_reports_internal.api_write', '', true);
		-- Pending results can only be made again from the documents.
		INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT DISTINCT p.lane
			FROM kube_reports_internal.result_pending p
			ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '';
		DELETE FROM kube_reports_internal.result_pending;
		DELETE FROM kube_reports_internal.change;
		DELETE FROM kube_reports_internal.log_size;
	ELSE
		-- Clients and this log agree up to its newest version.  Another server gave the versions between that and the
		-- base.
		UPDATE kube_reports_internal.lane l
			SET lost = l.lost + int8multirange(int8range(kube_reports_internal.lane_version(l.id), base, '()'));
	END IF;
	UPDATE kube_reports_internal.store s SET (system_identifier, timeline, database)
		= (SELECT i.system_identifier, i.timeline, i.database FROM kube_reports.server_identity() i);
	RETURN base;
END
$$;
COMMENT ON FUNCTION kube_reports.new_incarnation(boolean)
	IS 'moves all future versions above any that was ever given. Call it after a failover, or after the restore of a '
		'disk snapshot, where the server cannot be told from its predecessor. log_lost: the log cannot be trusted, '
		'and every older version gets 410. Returns the base of new versions';

CREATE FUNCTION kube_reports_internal.is_elsewhere() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT s.database IS DISTINCT FROM i.database OR i.system_identifier IS NOT NULL
			AND (s.system_identifier, s.timeline) IS DISTINCT FROM (i.system_identifier, i.timeline)
		FROM kube_reports_internal.store s, kube_reports.server_identity() i);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.is_elsewhere()
	IS 'whether the versions of this store were given by another server, timeline or database; of a server only where '
		'that can be read';

CREATE FUNCTION kube_reports_internal.check_incarnation() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM set_config('kube_reports_internal.server_checked', pg_backend_pid()::text, false);
	IF NOT coalesce(kube_reports_internal.is_elsewhere(), false) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.lock_store();
	IF NOT coalesce(kube_reports_internal.is_elsewhere(), false) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports.new_incarnation(false);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_incarnation()
	IS 'calls new_incarnation() when system identifier, timeline or database changed; true when it did';

-- After a promotion any session may be the first writer.  One check in a session is enough: server, timeline and
-- database never change under a backend that may write.  If the transaction of the check is rolled back, the check is
-- made again.  The setting has no seal, which would cost each batch of a proxy: a proxy that sets it harms its own
-- cluster only.  DML writes for all clusters, in sessions that run other code, too, and checks each time.
CREATE FUNCTION kube_reports_internal.require_incarnation() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('kube_reports_internal.server_checked', true) IS DISTINCT FROM pg_backend_pid()::text THEN
		PERFORM kube_reports_internal.check_incarnation();
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_incarnation()
	IS 'to be called before a version is drawn: check_incarnation(), once in a session';

-- SECURITY DEFINER: other roles that finish a restore may not replace functions.
CREATE FUNCTION kube_reports_internal.settle_here() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.placed() = 'kube_reports_internal.store'::regclass::oid
		OR EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports') THEN
		RETURN;
	END IF;
	EXECUTE format('CREATE OR REPLACE FUNCTION kube_reports_internal.placed() RETURNS oid '
		'LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN %s::oid', 'kube_reports_internal.store'::regclass::oid);
	UPDATE kube_reports_internal.store SET identity = gen_random_uuid();
	-- The secret is in the dump, which others may read.
	DELETE FROM kube_reports_internal.caller_secret;
	INSERT INTO kube_reports_internal.caller_secret DEFAULT VALUES;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.settle_here()
	IS 'for a store that the plain script made: notes where it is; a store that a dump brought gets an identity and a '
		'secret of its own. Called by that script and by after_restore(), which holds the store lock';

-- The script inserts these rows, and nobody else.  They can get lost: by DELETE, or when the table was made UNLOGGED.
-- SECURITY DEFINER: administrators have no right to write these tables.
CREATE FUNCTION kube_reports_internal.make_own_rows() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	-- The identity of the lanes: they are of no dump.  Without a server the next session that writes takes this one for
	-- another, and moves versions on.
	INSERT INTO kube_reports_internal.store (version, identity)
		SELECT kube_reports_internal.script_version(),
			coalesce((SELECT l.store FROM kube_reports_internal.lane l ORDER BY l.id LIMIT 1), gen_random_uuid())
		ON CONFLICT (only_row) DO NOTHING;
	INSERT INTO kube_reports_internal.caller_secret DEFAULT VALUES ON CONFLICT (only_row) DO NOTHING;
	INSERT INTO kube_reports_internal.rollup_mark DEFAULT VALUES ON CONFLICT (only_row) DO NOTHING;
	INSERT INTO kube_reports_internal.garbage_sweep (what) SELECT unnest(kube_reports_internal.swept_tables())
		ON CONFLICT (what) DO NOTHING;
	SELECT kube_reports_internal.correct_sequences();
$$;
COMMENT ON FUNCTION kube_reports_internal.make_own_rows()
	IS 'inserts missing rows that every store has, into the tables store, caller_secret, rollup_mark and '
		'garbage_sweep, and corrects sequences of ids. after_restore() and rebuild() call it';

-- A dump contains no results, but it contains their counts, including those that were not folded yet.
CREATE FUNCTION kube_reports.after_restore(recompute boolean DEFAULT true) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.lock_store();
	PERFORM kube_reports_internal.make_own_rows();
	PERFORM kube_reports_internal.raise_sequences();
	PERFORM kube_reports_internal.renew_types();
	PERFORM kube_reports_internal.make_references();
	PERFORM kube_reports_internal.settle_here();
	UPDATE kube_reports_internal.lane l SET store = s.identity FROM kube_reports_internal.store s;
	UPDATE kube_reports_internal.store s SET restore_pending = false, generation = s.generation + 1;
	PERFORM kube_reports_internal.restore_results();
	PERFORM kube_reports_internal.queue_everything(a.cluster_id) FROM kube_reports_internal.aggregation a;
	IF recompute THEN
		PERFORM kube_reports_internal.rebuild_queued();
		-- A proxy's upkeep would do it, but there may be none yet.
		PERFORM kube_reports_internal.analyze_step();
	END IF;
	RETURN kube_reports.new_incarnation(true);
END
$$;
COMMENT ON FUNCTION kube_reports.after_restore(boolean)
	IS 'finishes the load of a dump: call it once afterwards. Otherwise the first proxy that connects calls it and '
		'leaves results to upkeep (recompute => false). Makes the foreign keys that were left out for the restore, and '
		'rows of the store itself that are missing. '
		'Older versions get 410. Returns the base of new versions. Raises 23503 when the dump lacks rows';

-- A restore with triggers disabled does not set restore_pending, but it brings lanes of another store.  The dump of a
-- store that the plain script made brings the store's own row with them: see installation.sql.
CREATE VIEW kube_reports_internal.restoring AS
	SELECT coalesce(s.restore_pending, true) OR coalesce(kube_reports_internal.placed() <> s.tableoid, false)
		OR EXISTS (SELECT FROM kube_reports_internal.lane l WHERE l.store IS DISTINCT FROM s.identity) AS restoring
	FROM (SELECT) here LEFT JOIN kube_reports_internal.store s ON true;
COMMENT ON VIEW kube_reports_internal.restoring
	IS 'one row: what is_restoring() returns, for views of readers, who may not call it';

CREATE FUNCTION kube_reports_internal.is_restoring() RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.restoring FROM kube_reports_internal.restoring r;
END;
COMMENT ON FUNCTION kube_reports_internal.is_restoring()
	IS 'whether a dump was loaded and after_restore() has not run yet; true, too, when the row of table store is gone';

-- Many connections notice a restore at once: a second incarnation would take the log of the first from its clients.
CREATE FUNCTION kube_reports_internal.finish_restore() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT kube_reports_internal.is_restoring() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.lock_store();
	IF NOT kube_reports_internal.is_restoring() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports.after_restore(recompute => false);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.finish_restore()
	IS 'calls after_restore() when a dump was loaded and no other session has called it; true when it did';

SELECT kube_reports_internal.check_incarnation();

