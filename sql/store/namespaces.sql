-- namespaces.sql
--	  The namespaces that objects belong to, and their deletion.
--
-- All objects under a namespace's name belong to the namespace with the uid in table namespace.  A create from a proxy
-- that knows namespaces has the uid that the proxy saw, and succeeds only while the namespace with that uid is active.
-- When a namespace is dead, its objects are deleted, then its row.  So the next namespace of that name starts empty.
--
-- Why no object is left behind: a namespace is marked dead in a transaction of its own, and the sweep takes a lane's
-- lock afterwards.  A create checks the mark under the same lock.  If the create held the lock before the mark was set,
-- the sweep finds its object; otherwise the create finds the mark and fails.
--
-- Why no other object is deleted: uids are never used again.  A proxy reads the row, then asks kube-apiserver for that
-- one namespace.  The row is marked only if the answer has another uid or says that the namespace does not exist, and
-- only if the row still has the uid that was read.  Without an answer nothing is marked.
--
-- A namespace is terminating before it is gone.  The namespace controller then deletes its content here.  By these
-- requests a proxy learns that the namespace is terminating, and marks it: from then on nothing is created with its
-- uid.  If no proxy marked the namespace, a proxy whose watch is behind may have created objects with the old uid after
-- the next namespace was created.  Such objects belong to the next namespace.  They are recognized by their time of
-- creation, to the second, as far as the clocks of the two servers agree.

-- The names of the namespaces that contain objects: one probe of the primary key for each type and name.
CREATE FUNCTION kube_reports_internal.used_namespaces(cluster_id integer) RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A session keeps this plan for weeks, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
	RETURN QUERY WITH RECURSIVE used AS (
		SELECT l.resource_type, (SELECT min(o.namespace) FROM kube_reports.object o
				WHERE o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
					AND o.namespace > '') AS namespace
			FROM kube_reports_internal.lane l WHERE l.cluster_id = used_namespaces.cluster_id
		UNION ALL
		SELECT u.resource_type, (SELECT min(o.namespace) FROM kube_reports.object o
				WHERE o.cluster_id = used_namespaces.cluster_id AND o.resource_type = u.resource_type
					AND o.namespace > u.namespace)
			FROM used u WHERE u.namespace IS NOT NULL
	)
	SELECT DISTINCT u.namespace FROM used u WHERE u.namespace IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.used_namespaces(integer)
	IS 'the names of the namespaces in which a cluster has objects';

CREATE FUNCTION kube_reports_internal.namespace_objects(cluster_id integer, name text,
	born_before timestamptz, max_rows integer,
		OUT resource_type integer, OUT object_name text, OUT size integer, OUT version bigint)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A session keeps this plan for weeks, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
	RETURN QUERY SELECT o.resource_type, o.name,
		kube_reports.document_size(o.metadata) + kube_reports.document_size(o.body), o.version
		FROM kube_reports_internal.lane l
			CROSS JOIN LATERAL (SELECT * FROM kube_reports.object o
				WHERE o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
					AND o.namespace = namespace_objects.name
					AND (born_before = 'infinity'
						OR coalesce(kube_reports_internal.string_at(o.metadata, 'creationTimestamp')::timestamptz,
							'-infinity') < born_before)
				ORDER BY o.name
				LIMIT max_rows) o
		WHERE l.cluster_id = namespace_objects.cluster_id
		ORDER BY o.resource_type, o.name
		LIMIT max_rows;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.namespace_objects(integer, text, timestamptz, integer)
	IS 'the first objects under the name of a namespace, of all types, that were created before a time';

CREATE FUNCTION kube_reports_internal.api_namespaces(cluster uuid, only_name text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT name text, OUT uid text, OUT state text)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer;
BEGIN
	SELECT c.id INTO served FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller);
	IF NOT FOUND THEN
		RETURN;
	END IF;
	IF only_name IS NOT NULL THEN
		RETURN QUERY SELECT n.name, n.uid, n.state FROM kube_reports_internal.namespace n WHERE n.cluster_id = served
			AND n.name = only_name;
	ELSE
		RETURN QUERY SELECT coalesce(n.name, u.name), coalesce(n.uid, ''), coalesce(n.state, 'unknown')
			FROM (SELECT * FROM kube_reports_internal.namespace n WHERE n.cluster_id = served) n
				FULL JOIN kube_reports_internal.used_namespaces(served) u(name) ON u.name = n.name;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_namespaces(uuid, text, kube_reports_internal.caller)
	IS 'a namespace as it is stored; all namespaces if only_name is null. State unknown: there are objects under that '
		'name, and no proxy has said to which namespace they belong';

CREATE FUNCTION kube_reports_internal.api_namespace(cluster uuid, name text, old_uid text,
	new_uid text, terminating boolean,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT uid text, OUT state text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
	served		integer;
BEGIN
	SELECT c.id INTO served FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller);
	IF NOT FOUND THEN
		RAISE EXCEPTION 'role "%" may not serve cluster %', caller.role, cluster
			USING ERRCODE = 'insufficient_privilege', HINT = kube_reports_internal.serve_hint(caller, cluster);
	END IF;
	IF old_uid = new_uid AND terminating THEN
		-- Wait for creates in progress: the deletion of the content, which comes next, then sees their objects.
		IF EXISTS (SELECT FROM kube_reports_internal.namespace n
				WHERE n.cluster_id = served AND n.name = api_namespace.name AND n.uid = old_uid
					AND n.state = 'active') THEN
			PERFORM kube_reports_internal.lock_store_shared();
			PERFORM kube_reports_internal.lock_lanes(served);
		END IF;
		UPDATE kube_reports_internal.namespace n SET state = 'terminating', orderly = true, noted_at = now()
			WHERE n.cluster_id = served AND n.name = api_namespace.name AND n.uid = old_uid AND n.state = 'active';
	ELSIF old_uid <> new_uid AND old_uid <> '' THEN
		UPDATE kube_reports_internal.namespace n SET state = 'dead', noted_at = now()
			WHERE n.cluster_id = served AND n.name = api_namespace.name AND n.uid = old_uid AND n.state <> 'dead';
	ELSIF new_uid <> '' THEN
		INSERT INTO kube_reports_internal.namespace AS n (cluster_id, name, uid, state, orderly)
			VALUES (served, api_namespace.name, new_uid, CASE WHEN terminating THEN 'terminating' ELSE 'active' END,
				terminating)
			ON CONFLICT ON CONSTRAINT namespace_pkey DO NOTHING;
	ELSE
		INSERT INTO kube_reports_internal.namespace AS n (cluster_id, name, uid, state)
			SELECT served, api_namespace.name, '', 'dead'
			WHERE EXISTS (SELECT FROM kube_reports_internal.namespace_objects(served,
				api_namespace.name, 'infinity', 1))
			ON CONFLICT ON CONSTRAINT namespace_pkey DO NOTHING;
	END IF;
	SELECT n.uid, n.state INTO uid, state FROM kube_reports_internal.namespace n
		WHERE n.cluster_id = served AND n.name = api_namespace.name;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_namespace(uuid, text, text, text, boolean, kube_reports_internal.caller)
	IS 'stores the answer of kube-apiserver about one namespace. new_uid: the uid in the answer; empty: the namespace '
		'does not exist. old_uid: the uid in the row that was read before kube-apiserver was asked; empty: there was '
		'no row. Does nothing if the row has another uid now. Returns the row as it is now; nulls: there is none';

-- The sweep ignores the finalizers of a dead namespace's objects.  A namespace is gone only when it is empty, so
-- controllers had time to remove their finalizers; afterwards kube-apiserver refuses changes in a namespace that does
-- not exist. So the deletions of a sweep need no decision and no engine.
CREATE FUNCTION kube_reports_internal.sweep_piece(cluster uuid, name text, dead_uid text, new_uid text,
	new_created timestamptz,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT more boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A session keeps these plans for weeks, perhaps from when the tables were empty: force index scans, also in the
-- functions that it calls.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '2s'
AS $$
DECLARE
	served		integer;
	born_before timestamptz;
	target		integer;
	served_type record;
	outcomes	kube_reports_internal.admitted[];
	bases		bigint[];
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	SELECT c.id INTO served FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller);
	-- One session at a time: the next session then finds the next piece, or finds that everything is deleted.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.sweep_lock());
	SELECT CASE WHEN n.orderly OR new_uid = '' THEN 'infinity' ELSE new_created END INTO born_before
		FROM kube_reports_internal.namespace n
		WHERE n.cluster_id = served AND n.name = sweep_piece.name AND n.uid = dead_uid AND n.state = 'dead';
	more := FOUND;
	IF NOT more THEN
		RETURN;
	END IF;

	SELECT s.resource_type INTO target FROM kube_reports_internal.namespace_objects(served, name, born_before, 1) s;
	IF FOUND THEN
		SELECT r.* INTO served_type
			FROM (SELECT t."group", t.plural, v.version
				FROM kube_reports.resource_type t
					JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
				WHERE t.id = target ORDER BY v.priority LIMIT 1) t
				CROSS JOIN LATERAL kube_reports_internal.resolve(cluster, t."group", t.version, t.plural, caller) r;
		SELECT array_agg(ROW('d', 200, sweep_piece.name, s.object_name, NULL, NULL, NULL, true, ''::bytea, '', 0, NULL,
					'system:kube-reports:namespaces', NULL)::kube_reports_internal.admitted ORDER BY s.object_name),
				array_agg(s.version ORDER BY s.object_name)
			INTO outcomes, bases
			FROM (SELECT o.object_name, o.version, sum(o.size) OVER (ORDER BY o.object_name) - o.size AS before
					FROM kube_reports_internal.namespace_objects(served, sweep_piece.name, born_before, 500) o
					WHERE o.resource_type = target) s
			WHERE s.before < 4000000;
		PERFORM kube_reports_internal.remember_removal(served_type.mapping_id, served_type.mapping,
				served_type.cluster_id, o.metadata, o.body)
			FROM unnest(outcomes) d
				CROSS JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
					WHERE o.cluster_id = served AND o.resource_type = target AND o.namespace = d.namespace
						AND o.name = d.name LIMIT 1) o;
		-- An object that another writer has changed since is in the next piece, and everything if the registry changes.
		PERFORM kube_reports_internal.commit_durably(),
			kube_reports_internal.commit_decided(served_type.cluster_id, served_type.type_id, served_type.lane,
				served_type.generation, served_type.mapping_id, served_type.mapping, served_type.fill_summary,
				served_type.aggregated, true, NULL, outcomes,
				array_fill(served_type.definition_id, ARRAY[cardinality(outcomes)]), bases, NULL);
		RETURN;
	END IF;

	-- No object is visible.  Creates in progress that began before the mark hold locks of lanes: wait for them.
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lanes(served);
	IF EXISTS (SELECT FROM kube_reports_internal.namespace_objects(served, name, born_before, 1)) THEN
		RETURN;
	END IF;
	IF new_uid = '' THEN
		DELETE FROM kube_reports_internal.namespace n WHERE n.cluster_id = served AND n.name = sweep_piece.name;
	ELSE
		UPDATE kube_reports_internal.namespace n SET uid = new_uid, state = 'active', orderly = false, noted_at = now()
			WHERE n.cluster_id = served AND n.name = sweep_piece.name;
	END IF;
	more := false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sweep_piece(uuid, text, text, text, timestamptz, kube_reports_internal.caller)
	IS 'deletes the next objects of a dead namespace, at most 500 or 4 MB, and ignores their finalizers. At the end '
		'it stores the namespace that kube-apiserver now has under that name (new_uid empty: none); kube-apiserver '
		'was asked after the namespace was marked dead. False: all objects are deleted, or the namespace is not the '
		'dead one';

CREATE PROCEDURE kube_reports_internal.api_sweep(cluster uuid, name text, dead_uid text, new_uid text,
	new_created timestamptz, INOUT more boolean)
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT s.more INTO more FROM kube_reports_internal.sweep_piece(cluster, name, dead_uid, new_uid, new_created) s;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_sweep(uuid, text, text, text, timestamptz, boolean)
	IS 'sweep_piece() in a transaction of its own';
