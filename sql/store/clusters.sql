-- clusters.sql
--	  Removing a cluster with everything that belongs to it.
--
-- The cluster is marked first: from then on nobody may act for the cluster, so it gets no new rows.  Then its rows are
-- deleted in steps.  Each step is a transaction, so that writers of other clusters never wait long.  The mark stays
-- until the end: another call continues the removal, and so does upkeep.

-- Every table with rows of clusters is here, in the order in which the rows are removed.
CREATE FUNCTION kube_reports_internal.cluster_tables()
	RETURNS TABLE (place integer, relation regclass, goes text, reached_by text, document text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	VALUES (1, 'kube_reports_internal.proxy_role'::regclass, 'first', 'cluster_id', NULL),
		(2, 'kube_reports_internal.reader_grant', 'first', 'cluster_id', NULL),
		(3, 'kube_reports_internal.sender_credential', 'first', 'cluster_id', NULL),
		(4, 'kube_reports_internal.webhook', 'first', 'cluster_id', NULL),
		(5, 'kube_reports_internal.webhook_progress', 'first', 'cluster_id', NULL),
		(6, 'kube_reports_internal.aggregation', 'first', 'cluster_id', NULL),
		(7, 'kube_reports_internal.active_policy_set', 'first', 'cluster_id', NULL),
		(8, 'kube_reports_internal.active_policy', 'first', 'cluster_id', NULL),
		(9, 'kube_reports_internal.result_pending', 'first', 'lane', NULL),
		(10, 'kube_reports_internal.result_rebuild', 'first', 'lane', NULL),
		(11, 'kube_reports.object', 'step', 'cluster_id', 'body'),
		(12, 'kube_reports_internal.imported', 'step', 'lane', NULL),
		(13, 'kube_reports_internal.import_waiting', 'step', 'lane', 'document'),
		(14, 'kube_reports_internal.evidence_file', 'step', 'cluster_id', NULL),
		(15, 'kube_reports_internal.change', 'step', 'lane', 'old_body'),
		(16, 'kube_reports_internal.report_change', 'step', 'cluster_id', NULL),
		(17, 'kube_reports_internal.result_since', 'with origin', 'origin', NULL),
		(18, 'kube_reports_internal.result', 'with origin', 'origin', NULL),
		(19, 'kube_reports_internal.origin', 'step', 'cluster_id', NULL),
		(20, 'kube_reports_internal.subject', 'step', 'cluster_id', NULL),
		(21, 'kube_reports_internal.rollup_delta', 'step', 'cluster_id', NULL),
		(22, 'kube_reports_internal.rollup_daily', 'with rollup', 'rollup', NULL),
		(23, 'kube_reports_internal.rollup', 'step', 'cluster_id', NULL),
		(24, 'kube_reports_internal.rollup_policy', 'step', 'cluster_id', NULL),
		(25, 'kube_reports_internal.score_daily', 'step', 'cluster_id', NULL),
		(26, 'kube_reports_internal.aggregation_queue', 'step', 'cluster_id', NULL),
		(27, 'kube_reports_internal.namespace', 'step', 'cluster_id', NULL),
		(28, 'kube_reports_internal.forward_seen', 'step', 'cluster_id', NULL),
		(29, 'kube_reports_internal.forward_assessment', 'step', 'cluster_id', NULL),
		(30, 'kube_reports_internal.forward_stream', 'step', 'cluster_id', NULL),
		(31, 'kube_reports_internal.log_size', 'last', 'lane', NULL),
		(32, 'kube_reports_internal.lane', 'last', 'cluster_id', NULL),
		(33, 'kube_reports_internal.import_time', 'never', 'lane', NULL),
		(34, 'kube_reports_internal.evidence_body', 'never', 'cluster_id', NULL);
END;
COMMENT ON FUNCTION kube_reports_internal.cluster_tables()
	IS 'the tables that have rows of a cluster, and how these rows go when the cluster is removed. first: by '
		'mark_cluster(); step: by remove_cluster_step(), some rows at a time; with ...: the same, just before the rows '
		'of the other table that they belong to; last: with the lanes, of which there is one for each type; never: no '
		'row is left after a transaction, or the row is of a file that is to be removed. document: the column whose '
		'size also bounds a step';

CREATE FUNCTION kube_reports_internal.removed_in_steps(relation regclass, OUT reached_by text, OUT document text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT t.reached_by, t.document INTO STRICT reached_by, document FROM kube_reports_internal.cluster_tables() t
		WHERE t.relation = coalesce(pg_partition_root(removed_in_steps.relation), removed_in_steps.relation)
			AND t.goes = 'step';
EXCEPTION WHEN no_data_found THEN
	RAISE EXCEPTION 'no rows of "%" are removed in steps', removed_in_steps.relation
		USING ERRCODE = 'invalid_parameter_value';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.removed_in_steps(regclass)
	IS 'the columns of cluster_tables() for a table or partition whose rows go in steps. Raises 22023 for another one';

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
	FOR held IN SELECT t.relation, t.reached_by FROM kube_reports_internal.cluster_tables() t
		WHERE t.goes = 'first' ORDER BY t.place
	LOOP
		EXECUTE format(CASE held.reached_by
			WHEN 'lane' THEN 'DELETE FROM %s x USING kube_reports_internal.lane l '
				'WHERE l.cluster_id = $1 AND x.lane = l.id'
			ELSE 'DELETE FROM %s x WHERE x.cluster_id = $1' END, held.relation) USING leaving.id;
	END LOOP;
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

-- A table or partition, because the place of a row is unique in these only.
CREATE FUNCTION kube_reports_internal.table_with_rows(cluster_id integer, relation regclass) RETURNS regclass
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Without statistics, or with those of a table that has lost most of its rows since, the planner would read all of the
-- table, or all entries of a cluster in an index, for the first row.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
	found		regclass;
BEGIN
	EXECUTE format(CASE (kube_reports_internal.removed_in_steps(relation)).reached_by
		WHEN 'lane' THEN 'SELECT x.tableoid FROM kube_reports_internal.lane l CROSS JOIN LATERAL (SELECT x.tableoid '
			'FROM %s x WHERE x.lane = l.id LIMIT 1) x WHERE l.cluster_id = $1 LIMIT 1'
		ELSE 'SELECT x.tableoid FROM %s x WHERE x.cluster_id = $1 LIMIT 1' END, relation)
		INTO found USING cluster_id;
	RETURN found;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.table_with_rows(integer, regclass)
	IS 'the table, or one of its partitions, if it has a row of the cluster; otherwise null. Raises as '
		'removed_in_steps()';

CREATE FUNCTION kube_reports_internal.remove_rows(cluster_id integer, relation regclass, max_rows integer)
	RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- As in table_with_rows(): for the first rows the planner would read all of a table.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
	max_bytes CONSTANT bigint := 4000000;
	columns		record := kube_reports_internal.removed_in_steps(relation);
	removed		integer;
BEGIN
	EXECUTE format('DELETE FROM %1$s x WHERE x.ctid = ANY (ARRAY(SELECT p.place FROM '
		'(SELECT f.place, sum(f.size) OVER (ORDER BY f.place) - f.size AS before FROM (' || CASE columns.reached_by
			WHEN 'lane' THEN 'SELECT x.* FROM kube_reports_internal.lane l CROSS JOIN LATERAL (SELECT x.ctid AS place, '
				'%2$s AS size FROM %1$s x WHERE x.lane = l.id LIMIT $2) x WHERE l.cluster_id = $1 LIMIT $2'
			ELSE 'SELECT x.ctid AS place, %2$s AS size FROM %1$s x WHERE x.cluster_id = $1 LIMIT $2' END
		|| ') f) p WHERE p.before < $3))', relation,
		CASE WHEN columns.document IS NULL THEN '0'
			ELSE format('coalesce(kube_reports.document_size(x.%I), 0)', columns.document) END)
		USING cluster_id, max_rows, max_bytes;
	GET DIAGNOSTICS removed = ROW_COUNT;
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_rows(integer, regclass, integer)
	IS 'removes rows of a cluster from a table or partition, at most max_rows, and with documents of not much more '
		'than 4 MB; returns their number. Raises as removed_in_steps()';

CREATE FUNCTION kube_reports_internal.remove_rows_with(parent text, ids bigint[], max_rows integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- As in table_with_rows(); the length of the array, too, is unknown to the planner.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
	child		regclass;
	room		integer := max_rows;
	removed		integer;
BEGIN
	FOR child IN SELECT t.relation FROM kube_reports_internal.cluster_tables() t
		WHERE t.goes = 'with ' || parent ORDER BY t.place
	LOOP
		EXECUTE format('DELETE FROM %1$s x WHERE x.ctid = ANY (ARRAY(SELECT y.ctid FROM unnest($1) i(id) '
			'CROSS JOIN LATERAL (SELECT y.ctid FROM %1$s y WHERE y.%2$I = i.id LIMIT $2) y LIMIT $2))', child, parent)
			USING ids, room;
		GET DIAGNOSTICS removed = ROW_COUNT;
		room := room - removed;
	END LOOP;
	RETURN room;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_rows_with(text, bigint[], integer)
	IS 'removes at most max_rows rows of the tables that go with a table, for rows of it with these ids. Returns how '
		'many more it would have removed; 0: there may be more';

-- SECURITY DEFINER: administrators, who may call maintain(), have no rights on months of history that were made later.
CREATE FUNCTION kube_reports_internal.remove_cluster_step(cluster_id integer, max_rows integer DEFAULT 2000)
	RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- As in table_with_rows(): the first ids of origin and rollup are read here.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
	next		record;
	place		regclass;
	ids			bigint[];
	room		integer;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	-- One session at a time: the next session then finds the next piece, or finds that the cluster is removed.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.removal_lock());
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.id = remove_cluster_step.cluster_id AND c.removing) THEN
		RETURN false;
	END IF;
	FOR next IN SELECT t.relation, t.relation::text AS name
		FROM kube_reports_internal.cluster_tables() t WHERE t.goes = 'step' ORDER BY t.place
	LOOP
		place := kube_reports_internal.table_with_rows(cluster_id, next.relation);
		EXIT WHEN place IS NOT NULL;
	END LOOP;
	IF place IS NULL THEN
		PERFORM kube_reports_internal.lock_store();
		IF kube_reports_internal.remove_shared_rows(cluster_id, max_rows) THEN
			RETURN true;
		END IF;
		-- Rows that were added since are deleted together with their lane and cluster.
		DELETE FROM kube_reports_internal.lane l WHERE l.cluster_id = remove_cluster_step.cluster_id;
		DELETE FROM kube_reports.cluster c WHERE c.id = remove_cluster_step.cluster_id;
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.lock_store_shared();
	-- Wait for a fold in progress: its counts must not appear afterwards.
	IF next.name IN ('kube_reports_internal.rollup_delta', 'kube_reports_internal.rollup',
		'kube_reports_internal.rollup_policy', 'kube_reports_internal.score_daily') THEN
		PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	END IF;

	CASE next.name
		WHEN 'kube_reports.object' THEN
			PERFORM kube_reports_internal.begin_own_write();
			PERFORM kube_reports_internal.remove_rows(cluster_id, place, max_rows);
			PERFORM set_config('kube_reports_internal.api_write', '', true);
		WHEN 'kube_reports_internal.evidence_file' THEN
			PERFORM kube_reports_internal.leave_evidence(cluster_id, max_rows);
		WHEN 'kube_reports_internal.origin' THEN
			ids := ARRAY(SELECT g.id FROM kube_reports_internal.origin g
				WHERE g.cluster_id = remove_cluster_step.cluster_id LIMIT max_rows);
			room := kube_reports_internal.remove_rows_with('origin', ids, max_rows);
			DELETE FROM kube_reports_internal.origin g WHERE g.id = ANY (ids[1:room]);
		WHEN 'kube_reports_internal.rollup' THEN
			ids := ARRAY(SELECT r.id FROM kube_reports_internal.rollup r
				WHERE r.cluster_id = remove_cluster_step.cluster_id LIMIT max_rows);
			room := kube_reports_internal.remove_rows_with('rollup', ids, max_rows);
			PERFORM kube_reports_internal.remove_counts(ids[1:room]);
		ELSE
			PERFORM kube_reports_internal.remove_rows(cluster_id, place, max_rows);
	END CASE;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_cluster_step(integer, integer)
	IS 'removes the next rows of a cluster that is marked for removal, at most max_rows, and at the end the cluster; '
		'false: the cluster is removed';

-- Without another cluster nobody can use these rows again, and there is no proxy whose upkeep would remove them.
CREATE FUNCTION kube_reports_internal.remove_shared_rows(cluster_id integer, max_rows integer) RETURNS boolean
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
			'SELECT x.ctid FROM kube_reports_internal.%1$I x LIMIT $1))', what) USING max_rows;
		GET DIAGNOSTICS removed = ROW_COUNT;
		IF removed > 0 THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_shared_rows(integer, integer)
	IS 'removes the next rows that clusters share (texts, criteria, actors), at most max_rows, if the cluster is the '
		'only one and has no other rows; the caller holds the lock of the store. False: no such rows are left, or '
		'there is another cluster';

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
