-- clusters.sql
--	  Removing a cluster with everything that belongs to it.
--
-- The cluster is marked first: from then on nobody may act for the cluster, so it gets no new rows.  Then its rows are
-- deleted in steps.  Each step is a transaction, so that writers of other clusters never wait long.  The mark stays
-- until the end: another call continues the removal, and so does upkeep.

CREATE FUNCTION kube_reports_internal.mark_cluster(cluster uuid, force boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	leaving		kube_reports.cluster;
	serving		record;
	held		record;
BEGIN
	-- Wait for every write in progress.
	PERFORM kube_reports_internal.lock_store();
	SELECT c.* INTO leaving FROM kube_reports.cluster c WHERE c.uid = mark_cluster.cluster;
	IF leaving.id IS NULL THEN
		RAISE NOTICE 'cluster % is not known: there is nothing to remove', mark_cluster.cluster;
		RETURN NULL;
	ELSIF leaving.removing THEN
		RETURN leaving.id;
	END IF;
	IF kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports_internal.refuse_restoring();
	END IF;
	SELECT count(*) AS connections, string_agg(DISTINCT quote_ident(p.role), ', ') AS roles INTO serving
		FROM kube_reports_internal.proxy_role p JOIN pg_stat_activity a ON a.usename = p.role
		WHERE p.cluster_id = leaving.id AND a.datname = current_database();
	IF serving.connections > 0 AND NOT force THEN
		RAISE EXCEPTION 'a proxy serves cluster %', mark_cluster.cluster
			USING ERRCODE = 'object_in_use', DETAIL = format('%s connections of role %s are open.',
				serving.connections, serving.roles),
				HINT = 'Stop its proxies, or: CALL kube_reports.unregister_cluster(cluster, force => true).';
	END IF;
	FOR held IN SELECT g.role, g.namespace FROM kube_reports_internal.reader_grant g WHERE g.cluster_id = leaving.id
		ORDER BY g.role, g.namespace LOOP
		PERFORM kube_reports.revoke_reader(held.role, leaving.uid, held.namespace);
	END LOOP;
	DELETE FROM kube_reports_internal.proxy_role p WHERE p.cluster_id = leaving.id;
	DELETE FROM kube_reports_internal.sender_credential s WHERE s.cluster_id = leaving.id;
	DELETE FROM kube_reports_internal.webhook w WHERE w.cluster_id = leaving.id;
	DELETE FROM kube_reports_internal.aggregation a WHERE a.cluster_id = leaving.id;
	DELETE FROM kube_reports_internal.active_policy_set s WHERE s.cluster_id = leaving.id;
	DELETE FROM kube_reports_internal.result_pending p USING kube_reports_internal.lane l
		WHERE l.cluster_id = leaving.id
		AND p.lane = l.id;
	DELETE FROM kube_reports_internal.result_rebuild b USING kube_reports_internal.lane l
		WHERE l.cluster_id = leaving.id
		AND b.lane = l.id;
	PERFORM kube_reports_internal.begin_own_write();
	UPDATE kube_reports.cluster c SET removing = true WHERE c.id = leaving.id;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	-- Writers that wait for the lock see by it that the cluster is no longer theirs.
	UPDATE kube_reports_internal.store SET generation = generation + 1;
	RETURN leaving.id;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.mark_cluster(uuid, boolean)
	IS 'takes the right to act for a cluster from all roles, and marks the cluster for removal; returns its id, or '
		'null if the cluster is unknown. Raises 55006 while a proxy with the cluster''s role is connected, unless '
		'forced';

CREATE FUNCTION kube_reports_internal.remove_cluster_step(cluster_id integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	removed		bigint;
	ids			bigint[];
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	-- One session at a time: the next session then finds the next piece, or finds that the cluster is removed.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.removal_lock());
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.id = remove_cluster_step.cluster_id AND c.removing) THEN
		RETURN false;
	END IF;
	IF NOT kube_reports_internal.has_rows(cluster_id) THEN
		PERFORM kube_reports_internal.lock_store();
		IF kube_reports_internal.remove_shared_rows(cluster_id) THEN
			RETURN true;
		END IF;
		-- Rows that were added since are deleted together with their lane and cluster.
		DELETE FROM kube_reports_internal.lane l WHERE l.cluster_id = remove_cluster_step.cluster_id;
		DELETE FROM kube_reports.cluster c WHERE c.id = remove_cluster_step.cluster_id;
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.lock_store_shared();

	PERFORM kube_reports_internal.begin_own_write();
	DELETE FROM kube_reports.object o
		USING (SELECT p.place
			FROM (SELECT o.ctid AS place,
					sum(kube_reports.document_size(o.body)) OVER (ORDER BY o.resource_type, o.namespace, o.name)
						- kube_reports.document_size(o.body) AS before
					FROM (SELECT o.ctid, o.* FROM kube_reports.object o
						WHERE o.cluster_id = remove_cluster_step.cluster_id
						ORDER BY o.resource_type, o.namespace, o.name LIMIT 500) o) p
			WHERE p.before < 4000000) g
		WHERE o.ctid = g.place;
	GET DIAGNOSTICS removed = ROW_COUNT;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	IF removed > 0 THEN
		RETURN true;
	END IF;

	IF kube_reports_internal.leave_evidence(cluster_id) > 0 THEN
		RETURN true;
	END IF;

	DELETE FROM kube_reports_internal.change c
		USING (SELECT c.place
			FROM kube_reports_internal.lane l
				CROSS JOIN LATERAL (SELECT c.ctid AS place FROM kube_reports_internal.change c WHERE c.lane = l.id
					ORDER BY c.version LIMIT 1000) c
			WHERE l.cluster_id = remove_cluster_step.cluster_id LIMIT 1000) g
		WHERE c.ctid = g.place;
	GET DIAGNOSTICS removed = ROW_COUNT;
	IF removed > 0 THEN
		RETURN true;
	END IF;

	SELECT array_agg(g.id) INTO ids
		FROM (SELECT g.id FROM kube_reports_internal.origin g WHERE g.cluster_id = remove_cluster_step.cluster_id
			ORDER BY g.resource_type, g.namespace, g.name LIMIT 100) g;
	IF ids IS NOT NULL THEN
		DELETE FROM kube_reports_internal.result_since s WHERE s.origin = ANY (ids);
		DELETE FROM kube_reports_internal.result r WHERE r.origin = ANY (ids);
		DELETE FROM kube_reports_internal.report_change c WHERE c.origin = ANY (ids);
		DELETE FROM kube_reports_internal.origin g WHERE g.id = ANY (ids);
		RETURN true;
	END IF;

	DELETE FROM kube_reports_internal.subject s
		USING (SELECT s.ctid AS place FROM kube_reports_internal.subject s
			WHERE s.cluster_id = remove_cluster_step.cluster_id
			LIMIT 2000) g
		WHERE s.ctid = g.place;
	GET DIAGNOSTICS removed = ROW_COUNT;
	IF removed > 0 THEN
		RETURN true;
	END IF;

	-- Wait for a fold in progress: its counts must not appear afterwards.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	DELETE FROM kube_reports_internal.rollup_delta d WHERE d.cluster_id = remove_cluster_step.cluster_id;
	SELECT array_agg(r.id) INTO ids
		FROM (SELECT r.id FROM kube_reports_internal.rollup r
			WHERE r.cluster_id = remove_cluster_step.cluster_id LIMIT 1000) r;
	IF ids IS NOT NULL THEN
		DELETE FROM kube_reports_internal.rollup_daily d WHERE d.rollup = ANY (ids);
		PERFORM kube_reports_internal.remove_counts(ids);
		RETURN true;
	END IF;
	DELETE FROM kube_reports_internal.rollup_policy p
		USING (SELECT p.ctid AS place FROM kube_reports_internal.rollup_policy p
			WHERE p.cluster_id = remove_cluster_step.cluster_id LIMIT 2000) g
		WHERE p.ctid = g.place;
	DELETE FROM kube_reports_internal.score_daily d
		USING (SELECT d.ctid AS place FROM kube_reports_internal.score_daily d
			WHERE d.cluster_id = remove_cluster_step.cluster_id LIMIT 2000) g
		WHERE d.ctid = g.place;
	DELETE FROM kube_reports_internal.aggregation_queue q WHERE q.cluster_id = remove_cluster_step.cluster_id;
	DELETE FROM kube_reports_internal.namespace n WHERE n.cluster_id = remove_cluster_step.cluster_id;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_cluster_step(integer)
	IS 'removes the next rows of a cluster that is marked for removal, and at the end the cluster; false: the cluster '
		'is removed';

-- Without another cluster nobody can use these rows again, and there is no proxy whose upkeep would remove them.
CREATE FUNCTION kube_reports_internal.remove_shared_rows(cluster_id integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	what		text;
	removed		bigint;
BEGIN
	IF EXISTS (SELECT FROM kube_reports.cluster c WHERE c.id <> remove_shared_rows.cluster_id) THEN
		RETURN false;
	END IF;
	FOREACH what IN ARRAY ARRAY['detail', 'criterion', 'actor'] LOOP
		EXECUTE format('DELETE FROM kube_reports_internal.%1$I WHERE ctid = ANY (ARRAY('
			'SELECT x.ctid FROM kube_reports_internal.%1$I x LIMIT 5000))', what);
		GET DIAGNOSTICS removed = ROW_COUNT;
		IF removed > 0 THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_shared_rows(integer)
	IS 'removes the next rows that clusters share (texts, criteria, actors), if the cluster is the only one and has '
		'no other rows; the caller holds the lock of the store. False: no such rows are left, or there is another '
		'cluster';

CREATE FUNCTION kube_reports_internal.has_rows(cluster_id integer) RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
	SELECT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.lane l JOIN kube_reports_internal.change c ON c.lane = l.id
			WHERE l.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.origin g WHERE g.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.subject s WHERE s.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.rollup_delta d WHERE d.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.rollup r WHERE r.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.rollup_policy p WHERE p.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.score_daily d WHERE d.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.aggregation_queue q WHERE q.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.namespace n WHERE n.cluster_id = has_rows.cluster_id)
		OR EXISTS (SELECT FROM kube_reports_internal.evidence_file f WHERE f.cluster_id = has_rows.cluster_id)
$$;
COMMENT ON FUNCTION kube_reports_internal.has_rows(integer)
	IS 'whether the cluster has any row besides its lanes';

CREATE FUNCTION kube_reports_internal.remove_marked_clusters() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	leaving		integer := (SELECT min(c.id) FROM kube_reports.cluster c WHERE c.removing);
BEGIN
	IF leaving IS NULL OR NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(),
		kube_reports_internal.removal_lock()) THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.remove_cluster_step(leaving);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_marked_clusters()
	IS 'continues the removal of a cluster that no other session is removing; false: there is no such cluster';

-- The procedure commits: it can neither be SECURITY DEFINER nor have a SET clause.  So functions do the work.
CREATE PROCEDURE kube_reports.unregister_cluster(cluster uuid, force boolean DEFAULT false)
LANGUAGE plpgsql
AS $$
DECLARE
	leaving		integer;
BEGIN
	CALL kube_reports_internal.require_own_transactions('unregister_cluster');
	leaving := kube_reports_internal.mark_cluster(cluster, force);
	COMMIT;
	WHILE kube_reports_internal.remove_cluster_step(leaving) LOOP
		COMMIT;
	END LOOP;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports.unregister_cluster(uuid, boolean)
	IS 'removes a cluster with everything that belongs to it: reports, the log, results, history, counts, grants of '
		'readers, the binding of proxies'' roles, webhooks. It commits after each step; others may write meanwhile. A '
		'second call continues the removal; for an unknown cluster nothing happens. Raises 55006 while a proxy of the '
		'cluster is connected, unless force is true, 25001 in a transaction block';
