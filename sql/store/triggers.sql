-- triggers.sql
--	  Writes by the owner's DML, and rows of a dump.
--
-- DML excludes API writers for the rest of its transaction: the statement takes the store lock before its first row,
-- and row triggers take no lock.  While a dump is loaded (store.restore_pending), a row of object that has a version
-- comes from the dump.  It is stored unchanged, and after_restore() must follow.  At any other time a version in an
-- INSERT or UPDATE is ignored.

CREATE FUNCTION kube_reports_internal.dml_begins() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	behind		integer;
BEGIN
	PERFORM kube_reports_internal.commit_durably();
	PERFORM kube_reports_internal.lock_store();
	IF NOT kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports_internal.check_incarnation();
	END IF;
	-- Detects a sequence that was set back or restored: a version must never go back.  While a dump is loaded, no
	-- version is given.
	SELECT l.id INTO behind FROM kube_reports_internal.lane l
		WHERE NOT kube_reports_internal.is_restoring()
			AND kube_reports_internal.lane_version(l.id) > (SELECT s.last_value
			FROM kube_reports_internal.version_seq s) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'the next version is not above % in lane %', kube_reports_internal.lane_version(behind), behind
			USING ERRCODE = 'data_corrupted', HINT = 'Call kube_reports.new_incarnation().';
	END IF;
	-- Set once in a transaction: one part of a statement may begin when another part has already written.
	IF kube_reports_internal.sealed('recorded') IS NULL THEN
		PERFORM kube_reports_internal.set_sealed('recorded',
			(SELECT s.last_value FROM kube_reports_internal.version_seq s)::text);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_begins()
	IS 'trigger: DML waits for API writers, and API writers wait until its transaction ends';

-- The changes of this transaction are the changes above the version at its beginning, or at the end of its last
-- statement: no other transaction writes at the same time.
CREATE FUNCTION kube_reports_internal.record_dml() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	recorded	bigint := kube_reports_internal.sealed('recorded')::bigint;
	newest		bigint := recorded;
	lane		integer;
BEGIN
	FOR lane IN SELECT l.id FROM kube_reports_internal.lane l
		JOIN kube_reports.resource_type t ON t.id = l.resource_type
			WHERE t.results = 'current' AND EXISTS (SELECT FROM kube_reports_internal.change c WHERE c.lane = l.id
				AND c.version > recorded)
			ORDER BY l.id
	LOOP
		newest := greatest(newest, kube_reports_internal.record_results(lane, recorded));
	END LOOP;
	FOR lane IN SELECT l.id FROM kube_reports_internal.lane l
		JOIN kube_reports_internal.aggregation a ON a.cluster_id = l.cluster_id
			JOIN kube_reports.resource_type t ON t.id = l.resource_type AND t.results = 'intermediate'
			WHERE EXISTS (SELECT FROM kube_reports_internal.change c WHERE c.lane = l.id AND c.version > recorded)
			ORDER BY l.id
	LOOP
		newest := greatest(newest, kube_reports_internal.queue_aggregation(lane, recorded));
	END LOOP;
	PERFORM kube_reports_internal.set_sealed('recorded', newest::text);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.record_dml()
	IS 'derives results from the changes that DML of this transaction has made, and queues their aggregation';

CREATE FUNCTION kube_reports_internal.dml_ends() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.record_dml();
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_ends() IS 'trigger: record_dml() at the end of a statement';

CREATE FUNCTION kube_reports_internal.allow_dml(name text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.variant() <> 'c' AND kube_reports.setting('strict_dml') = 'on' THEN
		RAISE EXCEPTION 'cannot write object "%" by DML', name
			USING ERRCODE = 'feature_not_supported',
				DETAIL = 'In the SQL variant a document is checked in full by a proxy, and strict_dml is on.',
				HINT = 'Write through a proxy, or set_setting(''strict_dml'', ''off'').';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.allow_dml(text)
	IS 'raises 0A000 for an object that DML writes in the SQL variant, if strict_dml is on';

CREATE FUNCTION kube_reports_internal.dml_object() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		record;
	checked		record;
	change_lane	integer;
	restoring	boolean;
	leaving		uuid;
	held		boolean;
BEGIN
	-- A dump may load the row before its lane.
	SELECT l.id, s.restore_pending OR l.id IS NOT NULL
		AND l.store IS DISTINCT FROM s.identity, CASE WHEN c.removing THEN c.uid END, l.held
		INTO change_lane, restoring, leaving, held
		FROM (SELECT) here
			LEFT JOIN kube_reports_internal.store s ON true
			LEFT JOIN kube_reports_internal.lane l
				ON (l.cluster_id, l.resource_type) = (coalesce(NEW.cluster_id, OLD.cluster_id),
					coalesce(NEW.resource_type, OLD.resource_type))
			LEFT JOIN kube_reports.cluster c ON c.id = l.cluster_id;
	IF restoring AND TG_OP = 'INSERT' AND NEW.version IS NOT NULL THEN
		IF NEW.version > kube_reports_internal.version_limit() THEN
			RAISE EXCEPTION 'version % of object "%" is too large', NEW.version, NEW.name
				USING ERRCODE = 'numeric_value_out_of_range',
					DETAIL = format('The highest version of a dump''s row is %s.',
					kube_reports_internal.version_limit()),
					HINT = 'No store gives such a version: the dump was changed, or the clock of its server was wrong.';
		END IF;
		RETURN NEW;
	END IF;
	-- Rows of an incomplete dump that refer to missing rows can be deleted.
	IF TG_OP = 'DELETE' AND restoring AND change_lane IS NULL THEN
		RETURN OLD;
	END IF;
	IF TG_OP <> 'DELETE' AND (NEW.namespace IS NULL OR NEW.name IS NULL) THEN
		RETURN NEW;			-- and the table refuses it
	END IF;
	IF TG_OP = 'UPDATE' AND (NEW.cluster_id, NEW.resource_type, NEW.namespace, NEW.name)
			IS DISTINCT FROM (OLD.cluster_id, OLD.resource_type, OLD.namespace, OLD.name) THEN
		RAISE EXCEPTION 'cannot change the identity of object "%"', OLD.name
			USING ERRCODE = 'KR422', DETAIL = 'cluster_id, resource_type, namespace and name are fixed.',
				HINT = 'Delete the row and insert another.';
	END IF;
	IF restoring THEN
		PERFORM kube_reports_internal.refuse_restoring();
	END IF;
	IF held THEN
		PERFORM kube_reports_internal.require_unheld(change_lane);
	END IF;
	IF TG_OP = 'DELETE' THEN
		INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor, old_version,
			old_metadata, old_body)
			VALUES (change_lane, nextval('kube_reports_internal.version_seq'), 'D', OLD.namespace, OLD.name,
				kube_reports_internal.lane_time(change_lane), session_user,
				OLD.version, OLD.metadata, OLD.body);
		RETURN OLD;
	END IF;
	IF leaving IS NOT NULL THEN
		PERFORM kube_reports_internal.known_cluster(leaving);
	END IF;
	PERFORM kube_reports_internal.allow_dml(NEW.name);

	SELECT v.id, v.definition, t.mapping_id, t.mapping,
			EXISTS (SELECT FROM kube_reports_internal.summary_type s
				WHERE s.resource_type = v.resource_type) AS fill_summary
		INTO served
		FROM kube_reports_internal.resource_version v LEFT JOIN kube_reports.resource_type t ON t.id = v.resource_type
			AND t.results = 'current'
		WHERE v.resource_type = NEW.resource_type ORDER BY v.priority LIMIT 1;
	IF NOT FOUND OR change_lane IS NULL THEN
		RAISE EXCEPTION 'there is no cluster % with resource type %', NEW.cluster_id, NEW.resource_type
			USING ERRCODE = 'foreign_key_violation';
	END IF;
	SELECT * INTO checked FROM kube_reports_internal.write_document(served.id, served.definition,
		NEW.namespace, NEW.name,
		NEW.metadata, NEW.body, CASE WHEN TG_OP = 'UPDATE' THEN OLD.metadata END, CASE
			WHEN TG_OP = 'UPDATE' THEN OLD.body END, served.fill_summary);
	IF TG_OP = 'UPDATE' AND (checked.metadata::text, checked.body::text) = (OLD.metadata::text, OLD.body::text) THEN
		RETURN NULL;
	END IF;
	NEW.metadata := checked.metadata;
	NEW.body := checked.body;
	NEW.uid := checked.uid;
	NEW.version := nextval('kube_reports_internal.version_seq');
	NEW.evaluated_at := kube_reports_internal.evaluated_at(served.mapping_id, served.mapping, NEW.metadata, NEW.body);
	IF TG_OP = 'INSERT' THEN
		-- With ON CONFLICT, an existing row stays (nothing happens) or is updated (this trigger is called again).
		INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor)
			SELECT change_lane, NEW.version, 'A', NEW.namespace, NEW.name,
				kube_reports_internal.lane_time(change_lane), session_user
			WHERE NOT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = NEW.cluster_id
				AND o.resource_type = NEW.resource_type AND o.namespace = NEW.namespace AND o.name = NEW.name);
	ELSE
		INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor, old_version,
			old_metadata, old_body)
			VALUES (change_lane, NEW.version, 'M', NEW.namespace, NEW.name,
				kube_reports_internal.lane_time(change_lane), session_user, OLD.version, OLD.metadata, OLD.body);
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_object()
	IS 'trigger: a row that DML writes is checked, completed, versioned and logged like a write through the API';

CREATE FUNCTION kube_reports_internal.dml_refused() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'cannot truncate table "%"', TG_TABLE_NAME
		USING ERRCODE = 'feature_not_supported',
			DETAIL = 'Watchers would never learn of it.',
			HINT = 'Use DELETE.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_refused() IS 'trigger: refuses TRUNCATE';

CREATE FUNCTION kube_reports_internal.dml_restored() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE kube_reports_internal.store SET restore_pending = true, generation = generation + 1
		WHERE NOT restore_pending;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_restored()
	IS 'trigger: a lane that no function of kube_reports made comes from a dump, and begins a restore';

-- A cluster of a dump gets its lanes from the dump.  If the cluster has lanes, the store is in use: a role may have
-- row_security off for another reason.  Lanes of a dump have begun the restore before.
CREATE FUNCTION kube_reports_internal.dml_registered() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.loads_dump() AND NOT EXISTS (SELECT FROM kube_reports_internal.lane) THEN
		UPDATE kube_reports_internal.store SET restore_pending = true, generation = generation + 1
			WHERE NOT restore_pending;
	ELSIF NOT kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports_internal.lock_store();
		PERFORM kube_reports_internal.make_lanes();
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_registered()
	IS 'trigger: a cluster that DML inserts gets its lanes, as in register_cluster(); while a dump is loaded, the '
		'dump brings them';

-- A cluster that is being removed has already lost its readers, the role of its proxies, its webhooks and other rows.
CREATE FUNCTION kube_reports_internal.dml_removing() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF OLD.removing THEN
		RAISE EXCEPTION 'cluster % is being removed', OLD.uid
			USING ERRCODE = 'object_in_use', DETAIL = 'A part of what belongs to it is gone already.',
				HINT = format(
					'CALL kube_reports.unregister_cluster(%L) ends it; then make the cluster known again with '
					'kube_reports.grant_proxy().', OLD.uid);
	END IF;
	RAISE EXCEPTION 'column "removing" of cluster % is not to be written', OLD.uid
		USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = format('CALL kube_reports.unregister_cluster(%L) removes the cluster.', OLD.uid);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_removing()
	IS 'trigger: only unregister_cluster() may begin the removal of a cluster, and nobody may end it';

-- The objects and lanes of the cluster are already deleted, because they refer to the cluster.
CREATE FUNCTION kube_reports_internal.dml_removed() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	DELETE FROM kube_reports_internal.result_since s USING kube_reports_internal.origin g
		WHERE g.cluster_id = OLD.id AND s.origin = g.id;
	DELETE FROM kube_reports_internal.result r USING kube_reports_internal.origin g
		WHERE g.cluster_id = OLD.id AND r.origin = g.id;
	DELETE FROM kube_reports_internal.report_change c WHERE c.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.origin g WHERE g.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.subject s WHERE s.cluster_id = OLD.id;
	-- Wait for a fold in progress: its counts must not appear afterwards.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	DELETE FROM kube_reports_internal.rollup_delta d WHERE d.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.rollup_daily d USING kube_reports_internal.rollup r
		WHERE r.cluster_id = OLD.id AND d.rollup = r.id;
	DELETE FROM kube_reports_internal.rollup r WHERE r.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.rollup_policy p WHERE p.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.score_daily s WHERE s.cluster_id = OLD.id;
	DELETE FROM kube_reports_internal.aggregation_queue q WHERE q.cluster_id = OLD.id;
	-- The cluster shared these rows with others.  A table that upkeep is searching needs no reminder.
	UPDATE kube_reports_internal.garbage_sweep s SET hurry = true, due_at = '-infinity'
		WHERE s.what IN (SELECT g.what FROM kube_reports_internal.garbage_sweep g
			WHERE g.what IN ('detail', 'criterion', 'actor') FOR UPDATE SKIP LOCKED);
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_removed()
	IS 'trigger: deletes history and counts of deleted clusters, and makes upkeep search at once for unused rows '
		'among those that clusters share';

-- Nobody can watch a removed lane, and no other code deletes its log.
CREATE FUNCTION kube_reports_internal.dml_lane_removed() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM kube_reports_internal.change c WHERE c.lane = OLD.id;
	DELETE FROM kube_reports_internal.result_rebuild b WHERE b.lane = OLD.id;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dml_lane_removed() IS 'trigger: deletes the log of a deleted lane';

-- While the extension itself writes, kube_reports_internal.api_write holds the seal of this transaction, and triggers
-- of DML do nothing.  Triggers run in the order of their names: api_write, the first, empties the setting if the seal
-- is wrong.
CREATE TRIGGER api_write BEFORE INSERT OR UPDATE OR DELETE ON kube_reports.object
	FOR EACH STATEMENT WHEN (current_setting('kube_reports_internal.api_write', true) <> '')
	EXECUTE FUNCTION kube_reports_internal.own_write_proven();
CREATE TRIGGER api_write BEFORE INSERT OR UPDATE ON kube_reports.cluster
	FOR EACH STATEMENT WHEN (current_setting('kube_reports_internal.api_write', true) <> '')
	EXECUTE FUNCTION kube_reports_internal.own_write_proven();
CREATE TRIGGER api_write BEFORE INSERT ON kube_reports_internal.lane
	FOR EACH STATEMENT WHEN (current_setting('kube_reports_internal.api_write', true) <> '')
	EXECUTE FUNCTION kube_reports_internal.own_write_proven();
CREATE TRIGGER dml_begins BEFORE INSERT OR UPDATE OR DELETE ON kube_reports.object
	FOR EACH STATEMENT WHEN (coalesce(current_setting('kube_reports_internal.api_write', true),
		'') = '') EXECUTE FUNCTION kube_reports_internal.dml_begins();
CREATE TRIGGER dml_object BEFORE INSERT OR UPDATE OR DELETE ON kube_reports.object
	FOR EACH ROW WHEN (coalesce(current_setting('kube_reports_internal.api_write', true),
		'') = '') EXECUTE FUNCTION kube_reports_internal.dml_object();
CREATE TRIGGER dml_ends AFTER INSERT OR UPDATE OR DELETE ON kube_reports.object
	FOR EACH STATEMENT WHEN (coalesce(current_setting('kube_reports_internal.api_write', true),
		'') = '') EXECUTE FUNCTION kube_reports_internal.dml_ends();
CREATE TRIGGER dml_refused BEFORE TRUNCATE ON kube_reports.object
	FOR EACH STATEMENT EXECUTE FUNCTION kube_reports_internal.dml_refused();
CREATE TRIGGER dml_refused BEFORE TRUNCATE ON kube_reports_internal.change
	FOR EACH STATEMENT EXECUTE FUNCTION kube_reports_internal.dml_refused();
CREATE TRIGGER dml_removed AFTER DELETE ON kube_reports.cluster
	FOR EACH ROW EXECUTE FUNCTION kube_reports_internal.dml_removed();
CREATE TRIGGER dml_removing BEFORE UPDATE ON kube_reports.cluster
	FOR EACH ROW WHEN (OLD.removing IS DISTINCT FROM NEW.removing
		AND coalesce(current_setting('kube_reports_internal.api_write', true), '') = '')
	EXECUTE FUNCTION kube_reports_internal.dml_removing();
CREATE TRIGGER dml_lane_removed AFTER DELETE ON kube_reports_internal.lane
	FOR EACH ROW EXECUTE FUNCTION kube_reports_internal.dml_lane_removed();
-- For each row: a statement that inserts no row begins no restore.
CREATE TRIGGER dml_restored AFTER INSERT ON kube_reports_internal.lane
	FOR EACH ROW WHEN (coalesce(current_setting('kube_reports_internal.api_write', true),
		'') = '') EXECUTE FUNCTION kube_reports_internal.dml_restored();
CREATE TRIGGER dml_registered AFTER INSERT ON kube_reports.cluster
	FOR EACH ROW WHEN (coalesce(current_setting('kube_reports_internal.api_write', true),
		'') = '') EXECUTE FUNCTION kube_reports_internal.dml_registered();

