-- import.sql
--	  Copies of the objects of a cluster, or of a reports-server.
--
-- "kube-reports-proxy import" reads objects in batches and passes them to api_import(), which stores them unchanged:
-- uid, creation time, generation, owners and managed fields are copied from the source.  Schema, versions, log, results
-- and watches are handled as in any write.
--
-- For each copy, table imported has the object in the source and the version that the copy got here.  So an import
-- knows what it can do without losing a change.  A copy that still has that version was not changed here, and an import
-- updates it from the source.  A copy with another version was changed here and stays.  A copy that no longer exists
-- was deleted here, and is stored again only if the source has changed since.  "cleanup" deletes an object in the
-- source only if the object has the resourceVersion that was copied and verified.
--
-- Documents come in two parts, metadata without resourceVersion and the rest,
-- as the canonical JSON that the engine writes.  Stored documents are compared
-- with them byte by byte.

CREATE FUNCTION kube_reports_internal.import_target(cluster uuid, "group" text, version text, resource text,
		caller kube_reports_internal.caller, OUT lane integer, OUT cluster_id integer, OUT type_id integer,
			OUT namespaced boolean,
		OUT definition_id bigint, OUT definition kube_reports.report, OUT mapping_id bigint,
			OUT mapping kube_reports.report,
		OUT fill_summary boolean, OUT aggregated boolean, OUT generation bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT r.lane, r.cluster_id, r.type_id, r.namespaced, r.definition_id, r.definition, r.mapping_id, r.mapping,
		r.fill_summary, r.aggregated, r.generation
		INTO lane, cluster_id, type_id, namespaced, definition_id, definition, mapping_id, mapping, fill_summary,
			aggregated, generation
		FROM kube_reports_internal.resolve(cluster, "group", version, resource, caller) r;
	IF NOT FOUND THEN
		RAISE EXCEPTION '% of %/% are not served for cluster %', resource, "group", version, cluster
			USING ERRCODE = 'undefined_object', HINT = kube_reports_internal.serve_hint(caller, cluster);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_target(uuid, text, text, text, kube_reports_internal.caller)
	IS 'the cluster, type and lane of imported objects. Raises 42704 if the type is not served, or the caller may not '
		'serve the cluster';

CREATE FUNCTION kube_reports_internal.require_generation(generation bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (SELECT s.generation FROM kube_reports_internal.store s) IS DISTINCT FROM require_generation.generation THEN
		RAISE EXCEPTION 'the registry has changed meanwhile'
			USING ERRCODE = 'serialization_failure', HINT = 'Repeat the transaction.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_generation(bigint)
	IS 'for a function that was resolved before it got the lock of the store: raises 40001 unless the registry is '
		'still of that generation; see resolve()';

CREATE TYPE kube_reports_internal.importing AS (
	namespace	text,
	name		text,
	uid			uuid,
	metadata	kube_reports.report,
	body		kube_reports.report,
	evaluated_at timestamptz,
	refused		text
);
COMMENT ON TYPE kube_reports_internal.importing
	IS 'an imported object in the form in which it would be stored; refused: why it cannot be stored';

-- The EXCEPTION clause costs little: its subtransaction writes nothing.
CREATE FUNCTION kube_reports_internal.import_admit(definition_id bigint, definition kube_reports.report,
	mapping_id bigint,
		mapping kube_reports.report, fill_summary boolean, metadata text, body text)
			RETURNS kube_reports_internal.importing
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		kube_reports.report;
	made		kube_reports_internal.importing;
BEGIN
	given := metadata::kube_reports.report;
	made.namespace := coalesce(kube_reports_internal.string_at(given, 'namespace'), '');
	made.name := kube_reports_internal.string_at(given, 'name');
	IF made.name IS NULL OR kube_reports_internal.string_at(given, 'uid') IS NULL
			OR kube_reports_internal.string_at(given, 'creationTimestamp') IS NULL THEN
		made.refused := 'it has no name, no uid or no creationTimestamp';
		RETURN made;
	END IF;
	made.uid := kube_reports_internal.string_at(given, 'uid')::uuid;
	SELECT w.metadata, w.body INTO made.metadata, made.body
		FROM kube_reports_internal.write_document(definition_id, definition, made.namespace, made.name, given,
			body::kube_reports.report, NULL, NULL, fill_summary) w;
	made.evaluated_at := kube_reports_internal.evaluated_at(mapping_id, mapping, made.metadata, made.body);
	RETURN made;
EXCEPTION WHEN OTHERS THEN
	made.refused := SQLERRM;
	RETURN made;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_admit(bigint, kube_reports.report, bigint, kube_reports.report,
	boolean, text, text)
	IS 'a document in the form in which it would be stored: it keeps its uid, time of creation, generation and '
		'managed fields';

CREATE FUNCTION kube_reports_internal.import_actor() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(kube_reports_internal.sealed('actor'), session_user::text);
COMMENT ON FUNCTION kube_reports_internal.import_actor()
	IS 'the actor of an import: the sender of the present batch (api_forward_batch()), or the role';

CREATE FUNCTION kube_reports_internal.import_object(lane integer, cluster_id integer, type_id integer,
	written_at timestamptz,
		item kube_reports_internal.importing, source_version text, overwrite boolean, source text,
		OUT outcome text, OUT reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- A session keeps these plans, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	stored		record;
	known		record;
	untouched	boolean;
	given		bigint;
BEGIN
	IF item.refused IS NOT NULL THEN
		outcome := 'refused';
		reason := item.refused;
		-- The source still has it: its copy, in an older state, is not stale.
		UPDATE kube_reports_internal.imported i SET seen_at = written_at
			WHERE i.lane = import_object.lane AND i.namespace = item.namespace AND i.name = item.name
				AND i.source = import_object.source;
		RETURN;
	END IF;
	SELECT o.uid, o.version, o.metadata, o.body INTO stored FROM kube_reports.object o
		WHERE o.cluster_id = import_object.cluster_id AND o.resource_type = type_id AND o.namespace = item.namespace
			AND o.name = item.name;
	SELECT i.uid, i.version, i.source_version INTO known FROM kube_reports_internal.imported i
		WHERE i.lane = import_object.lane AND i.namespace = item.namespace AND i.name = item.name;
	untouched := stored.version = known.version;
	given := stored.version;

	IF stored.uid = item.uid AND (stored.metadata::text, stored.body::text) = (item.metadata::text,
		item.body::text) THEN
		outcome := 'unchanged';
	ELSIF stored.version IS NULL AND known.uid = item.uid AND known.source_version = import_object.source_version
			AND NOT overwrite THEN
		outcome := 'kept';
		reason := 'it was deleted here after it had been copied';
	ELSIF EXISTS (SELECT FROM kube_reports_internal.namespace s WHERE s.cluster_id = import_object.cluster_id
			AND s.name = item.namespace AND s.state <> 'active') THEN
		outcome := 'refused';
		reason := format('its namespace %s is being deleted', item.namespace);
	ELSIF stored.version IS NOT NULL AND untouched IS NOT TRUE AND NOT overwrite THEN
		outcome := 'kept';
		reason := CASE WHEN stored.uid <> item.uid THEN 'another object of this name is stored here'
			WHEN known.uid IS NULL THEN 'another document of it is stored here'
			ELSE 'it was changed here after it had been copied' END;
	ELSIF stored.uid = item.uid THEN
		outcome := 'updated';
		given := nextval('kube_reports_internal.version_seq');
		UPDATE kube_reports.object o SET version = given, metadata = item.metadata, body = item.body,
				evaluated_at = item.evaluated_at
			WHERE o.cluster_id = import_object.cluster_id AND o.resource_type = type_id AND o.namespace = item.namespace
				AND o.name = item.name;
		INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor,
				old_version, old_metadata, old_body)
			VALUES (lane, given, 'M', item.namespace, item.name, written_at, kube_reports_internal.import_actor(),
				stored.version, stored.metadata, stored.body);
	ELSE
		outcome := CASE WHEN stored.version IS NULL THEN 'imported' ELSE 'updated' END;
		-- An object of the same name with another uid is another object: delete the stored one first.
		IF stored.version IS NOT NULL THEN
			PERFORM kube_reports_internal.import_removal(lane, cluster_id, type_id, written_at, item.namespace,
				item.name);
		END IF;
		given := nextval('kube_reports_internal.version_seq');
		INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version, metadata, body,
			evaluated_at)
			VALUES (import_object.cluster_id, type_id, item.namespace, item.name, item.uid, given, item.metadata,
				item.body,
				item.evaluated_at);
		INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor)
			VALUES (lane, given, 'A', item.namespace, item.name, written_at,
				kube_reports_internal.import_actor());
	END IF;

	IF outcome IN ('imported', 'updated', 'unchanged') THEN
		INSERT INTO kube_reports_internal.imported AS i (lane, namespace, name, uid, source_version, version, seen_at,
				source)
			VALUES (import_object.lane, item.namespace, item.name, item.uid, import_object.source_version, given,
				written_at, import_object.source)
			ON CONFLICT ON CONSTRAINT imported_pkey DO UPDATE SET uid = excluded.uid,
				source_version = excluded.source_version,
				version = excluded.version, verified = false, seen_at = excluded.seen_at, source = excluded.source;
	ELSIF known.uid IS NOT NULL THEN
		UPDATE kube_reports_internal.imported i SET seen_at = written_at
			WHERE i.lane = import_object.lane AND i.namespace = item.namespace AND i.name = item.name
				AND i.source = import_object.source;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_object(integer, integer, integer, timestamptz,
	kube_reports_internal.importing, text, boolean, text)
	IS 'stores one imported object, unless the stored object is the same or newer; the caller holds the lane''s lock. '
		'outcome: imported, updated, unchanged, kept (the stored object is newer), refused';

CREATE FUNCTION kube_reports_internal.import_removal(lane integer, cluster_id integer, type_id integer,
	written_at timestamptz,
		namespace text, name text) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	WITH gone AS (
		DELETE FROM kube_reports.object o
			WHERE o.cluster_id = $2 AND o.resource_type = $3 AND o.namespace = $5 AND o.name = $6
			RETURNING o.version, o.metadata, o.body
	)
	INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor,
			old_version, old_metadata, old_body)
		SELECT $1, nextval('kube_reports_internal.version_seq'), 'D', $5, $6, $4,
			kube_reports_internal.import_actor(), g.version, g.metadata,
			g.body
		FROM gone g;
END;
COMMENT ON FUNCTION kube_reports_internal.import_removal(integer, integer, integer, timestamptz, text, text)
	IS 'deletes a stored copy; the caller holds the lane''s lock';

-- Updates results, history, counts and merges from the changes that were logged above a version.
CREATE FUNCTION kube_reports_internal.import_derive(lane integer, mapped boolean, aggregated boolean, before bigint)
	RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than its statistics are updated: find its end by the index.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	first_version bigint := (SELECT min(c.version) FROM kube_reports_internal.change c
		WHERE c.lane = import_derive.lane AND c.version > before);
BEGIN
	IF first_version IS NULL THEN
		RETURN;
	END IF;
	IF mapped THEN
		PERFORM kube_reports_internal.record_results(lane, first_version - 1, true);
	END IF;
	IF aggregated THEN
		PERFORM kube_reports_internal.queue_aggregation(lane, first_version - 1);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_derive(integer, boolean, boolean, bigint)
	IS 'derives results and queues merges for the objects that were imported into a lane above a version';

CREATE FUNCTION kube_reports_internal.api_import(cluster uuid, "group" text, version text, resource text,
		source_versions text[], metadatas text[], bodies text[], overwrite boolean,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		source text DEFAULT 'cluster',
		OUT "position" integer, OUT outcome text, OUT reason text)
	RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET lock_timeout = '30s'
AS $$
DECLARE
	target		record;
	items		kube_reports_internal.importing[];
	written_at	timestamptz;
	newest		bigint;
	given		bigint;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.commit_durably();
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource, caller);
	-- The expensive work is done before the lock is taken.
	FOR n IN 1 .. cardinality(metadatas) LOOP
		items[n] := kube_reports_internal.import_admit(target.definition_id, target.definition, target.mapping_id,
			target.mapping,
			target.fill_summary, metadatas[n], bodies[n]);
	END LOOP;

	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lane(target.lane);
	PERFORM kube_reports_internal.require_generation(target.generation);
	PERFORM kube_reports_internal.require_unheld(target.lane);
	newest := kube_reports_internal.lane_version(target.lane);
	written_at := kube_reports_internal.lane_time(target.lane);
	PERFORM kube_reports_internal.begin_own_write();
	FOR n IN 1 .. cardinality(metadatas) LOOP
		"position" := n;
		SELECT i.outcome, i.reason INTO outcome, reason FROM kube_reports_internal.import_object(target.lane,
			target.cluster_id,
			target.type_id, written_at, items[n], source_versions[n], overwrite, source) i;
		RETURN NEXT;
	END LOOP;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	-- Detects a sequence that was restarted or restored: a version must never go back.
	given := (SELECT s.last_value FROM kube_reports_internal.version_seq s);
	IF given < newest THEN
		RAISE EXCEPTION 'version % is not above % in lane %', given, newest, target.lane
			USING ERRCODE = 'data_corrupted', HINT = 'Call kube_reports.new_incarnation().';
	END IF;
	PERFORM kube_reports_internal.import_derive(target.lane, target.mapping_id IS NOT NULL, target.aggregated, newest);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_import(uuid, text, text, text, text[], text[], text[], boolean,
	kube_reports_internal.caller, text)
	IS 'stores a batch of objects of one type as they are at their source. For each object the arrays have its '
		'resourceVersion at the source, its metadata without it, and the rest of its document. Returns one row for '
		'each object, see import_object(); a refused object does not stop the others. overwrite: also stores objects '
		'that were changed or deleted here. source: cluster, reports-server or sender';

-- Called in a transaction of its own, after the transaction of api_import(), to compare the committed objects.
CREATE FUNCTION kube_reports_internal.api_import_verify(cluster uuid, "group" text, version text, resource text,
		namespaces text[], names text[], hashes text[],
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT "position" integer, OUT stored boolean, OUT metadata text, OUT body text)
	RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource, caller);
	RETURN QUERY
		WITH compared AS MATERIALIZED (
			SELECT w.position, w.namespace, w.name, o.version, o.metadata, o.body,
				encode(sha256(convert_to(concat(o.metadata, o.body), 'UTF8')), 'hex') IS NOT DISTINCT
					FROM w.hash AS same
			FROM unnest(namespaces, names, hashes) WITH ORDINALITY w(namespace, name, hash, position)
				LEFT JOIN LATERAL (SELECT o.version, o.metadata, o.body FROM kube_reports.object o
					WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
						AND o.namespace = w.namespace AND o.name = w.name LIMIT 1) o ON true
		), noted AS (
			UPDATE kube_reports_internal.imported i SET verified = true FROM compared c
				WHERE i.lane = target.lane AND i.namespace = c.namespace AND i.name = c.name AND i.version = c.version
					AND c.same
		)
		SELECT c.position::integer, c.version IS NOT NULL, c.metadata::text, c.body::text FROM compared c
			WHERE NOT c.same
			ORDER BY c.position;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_import_verify(uuid, text, text, text, text[], text[], text[],
	kube_reports_internal.caller)
	IS 'compares stored objects with the SHA-256 (in hexadecimal) of the metadata and document that api_import() '
		'stored, and marks equal objects as verified; returns the objects that differ';

CREATE FUNCTION kube_reports_internal.api_import_stale(cluster uuid, "group" text, version text, resource text,
		seen_before timestamptz, remove boolean, max_rows integer,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		source text DEFAULT 'cluster') RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET lock_timeout = '30s'
AS $$
DECLARE
	target		record;
	newest		bigint;
	written_at	timestamptz;
	found_count	bigint;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.commit_durably();
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource, caller);
	-- The source does not have them either: there is nothing that could be stored again or deleted at the source.
	DELETE FROM kube_reports_internal.imported i
		WHERE i.lane = target.lane AND i.source = api_import_stale.source AND i.seen_at < seen_before
			AND NOT EXISTS (SELECT FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND o.namespace = i.namespace AND o.name = i.name AND o.version = i.version);
	IF NOT remove THEN
		RETURN (SELECT count(*) FROM kube_reports_internal.imported i
			JOIN kube_reports.object o ON o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
				AND o.namespace = i.namespace AND o.name = i.name AND o.version = i.version
			WHERE i.lane = target.lane AND i.source = api_import_stale.source AND i.seen_at < seen_before);
	END IF;
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lane(target.lane);
	PERFORM kube_reports_internal.require_generation(target.generation);
	newest := kube_reports_internal.lane_version(target.lane);
	written_at := kube_reports_internal.lane_time(target.lane);
	PERFORM kube_reports_internal.begin_own_write();
	WITH stale AS MATERIALIZED (
		SELECT i.namespace, i.name FROM kube_reports_internal.imported i
			JOIN kube_reports.object o ON o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
				AND o.namespace = i.namespace AND o.name = i.name AND o.version = i.version
			WHERE i.lane = target.lane AND i.source = api_import_stale.source AND i.seen_at < seen_before
			ORDER BY i.namespace, i.name LIMIT max_rows
	), removed AS MATERIALIZED (
		SELECT kube_reports_internal.import_removal(target.lane, target.cluster_id, target.type_id, written_at,
			s.namespace, s.name)
			FROM stale s
	), forgotten AS (
		DELETE FROM kube_reports_internal.imported i USING stale s
			WHERE i.lane = target.lane AND i.namespace = s.namespace AND i.name = s.name
	)
	SELECT count(*) INTO found_count FROM removed;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	PERFORM kube_reports_internal.import_derive(target.lane, target.mapping_id IS NOT NULL, target.aggregated, newest);
	RETURN found_count;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_import_stale(uuid, text, text, text, timestamptz, boolean, integer,
	kube_reports_internal.caller, text)
	IS 'the number of unchanged copies of a source whose objects were not seen at the source since a time. remove: '
		'deletes the next of these copies, at most max_rows. Removes the rows about copies that are not unchanged any '
		'more: changed or deleted here, and gone at the source';

CREATE FUNCTION kube_reports_internal.api_cleanup(cluster uuid, "group" text, version text, resource text,
		namespaces text[], names text[], uids text[], source_versions text[],
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT "position" integer, OUT verdict text, OUT reason text)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource, caller);
	RETURN QUERY
		SELECT w.position::integer, v.verdict, v.reason
		FROM unnest(namespaces, names, uids, source_versions) WITH ORDINALITY w(namespace, name, uid, source_version,
			position)
			LEFT JOIN LATERAL (SELECT * FROM kube_reports_internal.imported i
				WHERE i.lane = target.lane AND i.namespace = w.namespace AND i.name = w.name LIMIT 1) i ON true
			LEFT JOIN LATERAL (SELECT o.uid, o.version FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND o.namespace = w.namespace AND o.name = w.name LIMIT 1) o ON true
			CROSS JOIN LATERAL (SELECT CASE
				WHEN i.uid IS NULL OR i.uid::text <> w.uid OR i.source <> 'cluster' THEN 'it was not imported'
				WHEN i.source_version <> w.source_version THEN 'it has changed since it was imported'
				WHEN NOT i.verified THEN 'its copy is not the same document'
				WHEN o.version < i.version THEN 'its copy is older than the imported one'
				END AS reason) r
			CROSS JOIN LATERAL (SELECT CASE WHEN r.reason IS NOT NULL THEN 'refused'
				WHEN o.uid IS DISTINCT FROM i.uid THEN 'gone' ELSE 'verified' END AS verdict, r.reason) v
		ORDER BY w.position;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_cleanup(uuid, text, text, text, text[], text[], text[], text[],
	kube_reports_internal.caller)
	IS 'the state here of objects that are named with their uid and resourceVersion at the source: verified (equal, '
		'or changed here since), gone (deleted here since) or refused, with the reason';

CREATE FUNCTION kube_reports_internal.api_cleanup_done(cluster uuid, "group" text, version text, resource text,
		namespaces text[], names text[], uids text[],
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource, caller);
	DELETE FROM kube_reports_internal.imported i
		USING unnest(namespaces, names, uids) w(namespace, name, uid)
		WHERE i.lane = target.lane AND i.namespace = w.namespace AND i.name = w.name AND i.uid::text = w.uid;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_cleanup_done(uuid, text, text, text, text[], text[], text[],
	kube_reports_internal.caller)
	IS 'deletes the rows about imports of objects that the source no longer has';
