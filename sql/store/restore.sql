-- restore.sql
--	  Loading a dump: how a restore begins, and foreign keys during it.
--
-- pg_restore with several jobs loads tables in any order, and ignores foreign keys between tables of an extension.  So
-- foreign keys between dumped tables do not exist while a dump is loaded: after_restore() makes them and refuses an
-- incomplete dump.  Foreign keys of tables that are never dumped are in the definitions of the tables.
--
-- A restore begins with CREATE EXTENSION in the session of a dump's script or of pg_restore, or with begin_restore().
-- Rows of clusters and lanes that only a dump can contain also begin a restore (store/triggers.sql); no other row does.

-- The script of every dump sets row_security off.  A DBA sets it for a database or a role, which is no sign of a dump;
-- neither is check_function_bodies, because CREATE EXTENSION sets it off.
CREATE FUNCTION kube_reports_internal.loads_dump() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN current_setting('row_security') = 'off'
	AND (SELECT s.source FROM pg_settings s WHERE s.name = 'row_security') = 'session';
COMMENT ON FUNCTION kube_reports_internal.loads_dump()
	IS 'whether this session runs the script of a dump: pg_dump sets row_security off at the beginning of the session';

CREATE FUNCTION kube_reports_internal.dumped_references() RETURNS TABLE (child regclass, name name, definition text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	VALUES ('kube_reports_internal.proxy_role'::regclass, 'proxy_role_cluster_id_fkey'::name,
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.namespace', 'namespace_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.resource_version', 'resource_version_resource_type_fkey',
			'(resource_type) REFERENCES kube_reports.resource_type ON DELETE CASCADE'),
		('kube_reports_internal.lane', 'lane_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster'),
		('kube_reports_internal.lane', 'lane_resource_type_fkey',
			'(resource_type) REFERENCES kube_reports.resource_type'),
		('kube_reports.object', 'object_lane_fkey',
			'(cluster_id, resource_type) REFERENCES kube_reports_internal.lane (cluster_id, resource_type)'),
		('kube_reports_internal.summary_type', 'summary_type_resource_type_fkey',
			'(resource_type) REFERENCES kube_reports.resource_type ON DELETE CASCADE'),
		('kube_reports_internal.aggregation', 'aggregation_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.webhook', 'webhook_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.webhook_progress', 'webhook_progress_webhook_fkey',
			'(cluster_id, name) REFERENCES kube_reports_internal.webhook ON DELETE CASCADE'),
		('kube_reports_internal.reader_grant', 'reader_grant_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.sender_credential', 'sender_credential_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.forward_assessment', 'forward_assessment_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.forward_seen', 'forward_seen_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.evidence_file', 'evidence_file_cluster_id_fkey',
			'(cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.import_waiting', 'import_waiting_lane_fkey',
			'(lane) REFERENCES kube_reports_internal.lane ON DELETE CASCADE');
END;
COMMENT ON FUNCTION kube_reports_internal.dumped_references()
	IS 'the foreign keys between dumped tables; they do not exist while a dump is loaded';

-- SECURITY DEFINER: other roles that finish a restore may not alter tables.
CREATE FUNCTION kube_reports_internal.make_references() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing		record;
	found		text;
BEGIN
	FOR missing IN SELECT r.child, r.name, r.definition FROM kube_reports_internal.dumped_references() r
		WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = r.child AND c.conname = r.name)
	LOOP
		EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I FOREIGN KEY %s', missing.child, missing.name,
			missing.definition);
	END LOOP;
EXCEPTION WHEN foreign_key_violation THEN
	GET STACKED DIAGNOSTICS found = PG_EXCEPTION_DETAIL;
	RAISE EXCEPTION 'table % has rows that refer to rows which the dump did not bring', missing.child
		USING ERRCODE = 'foreign_key_violation', DETAIL = found,
			HINT = 'Load what is missing, or delete these rows; then call kube_reports.after_restore() again.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.make_references()
	IS 'makes the foreign keys that do not exist while a dump is loaded; called by after_restore(). Raises 23503 if '
		'rows of the dump refer to missing rows';

CREATE FUNCTION kube_reports.begin_restore() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	present		record;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	IF EXISTS (SELECT FROM kube_reports.cluster) OR EXISTS (SELECT FROM kube_reports.object) THEN
		RAISE EXCEPTION 'the store is not empty'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = 'Its clusters and those of a dump would have the same ids.',
				HINT = 'Restore into a new database.';
	END IF;
	FOR present IN SELECT r.child, r.name FROM kube_reports_internal.dumped_references() r
		WHERE EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = r.child AND c.conname = r.name)
	LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', present.child, present.name);
	END LOOP;
	UPDATE kube_reports_internal.store SET restore_pending = true, generation = generation + 1;
END
$$;
COMMENT ON FUNCTION kube_reports.begin_restore()
	IS 'prepares an empty store for the data of a dump, when the dump has not created the store itself (pg_restore '
		'--data-only): then rows may come in any order, until after_restore(). Raises 55000 when the store has '
		'clusters';

-- If a dump of the plain script's objects is loaded into an existing store, it contains the rows of built-in types,
-- too.
CREATE FUNCTION kube_reports_internal.dml_builtin_type() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT kube_reports_internal.is_restoring() THEN
		RETURN NEW;
	END IF;
	IF TG_TABLE_NAME = 'resource_type' THEN
		IF EXISTS (SELECT FROM kube_reports.resource_type t WHERE t.builtin AND t.id = NEW.id) THEN
			RETURN NULL;
		END IF;
	ELSIF EXISTS (SELECT FROM kube_reports_internal.resource_version v
		WHERE v.builtin AND v.resource_type = NEW.resource_type AND v.version = NEW.version) THEN
		RETURN NULL;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_builtin_type()
	IS 'trigger: while a dump is loaded, the built-in types of this version stay as they are';

CREATE TRIGGER dml_builtin_type BEFORE INSERT ON kube_reports.resource_type
	FOR EACH ROW WHEN (NEW.builtin) EXECUTE FUNCTION kube_reports_internal.dml_builtin_type();
CREATE TRIGGER dml_builtin_type BEFORE INSERT ON kube_reports_internal.resource_version
	FOR EACH ROW WHEN (NEW.builtin) EXECUTE FUNCTION kube_reports_internal.dml_builtin_type();

-- Logical replication does not copy sequences, and a dump may omit them.
CREATE FUNCTION kube_reports_internal.raise_sequences() RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT setval(s.name, s.used)
	FROM (VALUES ('kube_reports_internal.cluster_id_seq'::regclass, (SELECT max(c.id)
		FROM kube_reports.cluster c)::bigint),
			('kube_reports_internal.lane_id_seq', (SELECT max(l.id) FROM kube_reports_internal.lane l)),
			('kube_reports_internal.resource_type_id_seq', (SELECT max(t.id) FROM kube_reports.resource_type t
				WHERE NOT t.builtin)),
			('kube_reports_internal.definition_id_seq', (SELECT greatest((SELECT max(v.id)
				FROM kube_reports_internal.resource_version v),
				(SELECT max(t.mapping_id) FROM kube_reports.resource_type t)))),
			('kube_reports_internal.origin_id_seq', (SELECT max(g.id) FROM kube_reports_internal.origin g)),
			('kube_reports_internal.rollup_id_seq', (SELECT max(r.id) FROM kube_reports_internal.rollup r)),
			('kube_reports_internal.import_waiting_id_seq', (SELECT max(w.id)
				FROM kube_reports_internal.import_waiting w)),
			('kube_reports_internal.aggregation_queue_id_seq', (SELECT max(q.id)
				FROM kube_reports_internal.aggregation_queue q))) s(name, used)
	WHERE s.used > coalesce(pg_sequence_last_value(s.name), 0);
	-- A value beyond the limit was set by hand: continue from the clock, as new_incarnation() does.
	SELECT setval('kube_reports_internal.version_seq', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
		FROM kube_reports_internal.version_seq s WHERE s.last_value > kube_reports_internal.version_limit();
$$;
COMMENT ON FUNCTION kube_reports_internal.raise_sequences()
	IS 'sets the sequences of ids above every id in use; called by after_restore(), also when a subscriber takes over';

-- In the session of a dump, the rows follow.  In any other session there is nothing to restore.
UPDATE kube_reports_internal.store SET restore_pending = kube_reports_internal.loads_dump();
SELECT kube_reports_internal.make_references() WHERE NOT kube_reports_internal.loads_dump();

