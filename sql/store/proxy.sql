-- proxy.sql
--	  Requests of a proxy besides reports: its introduction, the types that
--	  are served, upkeep.

-- The call is the same in all versions, so that a proxy can learn that it is too old.  New columns of the answer are
-- added at its end.
CREATE FUNCTION kube_reports_internal.api_hello(cluster uuid, name text, protocol integer DEFAULT 1,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT generation bigint, OUT store text, OUT oldest_protocol integer, OUT newest_protocol integer,
		OUT variant text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_service(cluster, caller);
	SELECT p.oldest, p.newest INTO oldest_protocol, newest_protocol FROM kube_reports_internal.protocols() p;
	-- A standby, or a server that was made read-only, can be read.  A proxy uses a connection for writes only when the
	-- connection may write.  A proxy that does not understand this version will disconnect.
	IF NOT current_setting('transaction_read_only')::boolean AND protocol >= oldest_protocol THEN
		PERFORM kube_reports_internal.finish_update();
		IF NOT kube_reports_internal.finish_restore() THEN
			PERFORM kube_reports_internal.check_incarnation();
		END IF;
		-- Before the first write: making a partition takes longer than a write should wait.
		PERFORM kube_reports.make_history(now());
		PERFORM kube_reports_internal.require_cluster_name(api_hello.name, cluster);
		UPDATE kube_reports.cluster c SET last_seen = now(), name = coalesce(nullif(api_hello.name, ''), c.name)
			WHERE c.uid = cluster AND (c.last_seen IS NULL OR c.last_seen < now() - interval '10 seconds'
				OR c.name IS DISTINCT FROM coalesce(nullif(api_hello.name, ''), c.name));
	END IF;
	PERFORM kube_reports_internal.keep_memory();
	SELECT s.generation, s.identity INTO generation, store FROM kube_reports_internal.store s;
	variant := kube_reports_internal.variant();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_hello(uuid, text, integer, kube_reports_internal.caller)
	IS 'the first call of a proxy, with the newest protocol that the proxy speaks. Checks its role, finishes an '
		'update or a restore, and moves to a new incarnation if the server changed. Returns the protocols that this '
		'version understands, and its variant';

CREATE FUNCTION kube_reports_internal.api_registry(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT lane integer, OUT "group" text, OUT version text, OUT resource text, OUT kind text,
			OUT namespaced boolean, OUT status boolean,
		OUT deprecation text, OUT definition_id bigint, OUT definition text, OUT type_id integer,
		OUT mapping_id bigint, OUT mapping text, OUT fill_summary boolean, OUT cluster_id integer)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM kube_reports_internal.require_service(cluster, caller);
	RETURN QUERY SELECT l.id, t."group", v.version, t.plural, t.kind, t.namespaced,
			(v.definition::jsonb->>'status')::boolean, v.definition::jsonb->>'deprecationWarning',
			v.id, v.definition::text, t.id, CASE WHEN t.results = 'current' THEN t.mapping_id END,
			CASE WHEN t.results = 'current' THEN t.mapping::text END,
			EXISTS (SELECT FROM kube_reports_internal.summary_type s WHERE s.resource_type = t.id), c.id
		FROM kube_reports.cluster c
			JOIN kube_reports_internal.lane l ON l.cluster_id = c.id
			JOIN kube_reports.resource_type t ON t.id = l.resource_type
			JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		WHERE c.uid = $1
		ORDER BY t."group", v.priority, v.version, t.plural;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_registry(uuid, kube_reports_internal.caller)
	IS 'the served types of a cluster, see resolve(). Some columns are only for proxies that decide about writes '
		'(variant sql). Raises 42501 if the caller may not serve the cluster';

CREATE FUNCTION kube_reports_internal.api_documents(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT path text, OUT content_type text, OUT etag text, OUT body bytea)
	RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT d.path, d.content_type, d.etag, d.body
	FROM kube_reports_internal.served_documents(ARRAY(
		SELECT v.definition
		FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		ORDER BY t."group", v.priority, v.version, t.plural)) WITH ORDINALITY d(path,
			content_type, etag, body, position)
	WHERE EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = $1 AND kube_reports_internal.may_serve(c.id, caller))
	ORDER BY d.position
$$;
COMMENT ON FUNCTION kube_reports_internal.api_documents(uuid, kube_reports_internal.caller)
	IS 'the documents of discovery and OpenAPI; documents of one path are in the order of preference';

CREATE FUNCTION kube_reports_internal.api_counts(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT "group" text, OUT resource text, OUT objects bigint)
	RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t."group", t.plural, (SELECT count(*) FROM kube_reports.object o WHERE o.cluster_id = c.id
		AND o.resource_type = t.id)
	FROM kube_reports.cluster c
		JOIN kube_reports_internal.lane l ON l.cluster_id = c.id
		JOIN kube_reports.resource_type t ON t.id = l.resource_type
	WHERE c.uid = $1 AND kube_reports_internal.may_serve(c.id, caller)
	ORDER BY t."group", t.plural
$$;
COMMENT ON FUNCTION kube_reports_internal.api_counts(uuid, kube_reports_internal.caller)
	IS 'the number of stored objects of each type, for metrics';

-- If there are too many series, series of passed and skipped results are left out first.
CREATE FUNCTION kube_reports_internal.api_result_counts(cluster uuid, max_rows integer,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT namespace text, OUT policy text, OUT status text, OUT severity text, OUT category text, OUT source text,
			OUT count bigint, OUT series bigint)
	RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT s.namespace, s.policy, CASE s.status WHEN 'p' THEN 'pass' WHEN 'w' THEN 'warn' WHEN 'f' THEN 'fail'
		WHEN 'e' THEN 'error' ELSE 'skip' END,
		s.severity, s.category, s.source, s.count, count(*) OVER ()
	FROM (SELECT r.namespace, k.policy, r.status, nullif(k.severity, 'unknown') AS severity,
		coalesce(nullif(k.category, ''), 'Other') AS category, k.source,
			sum(r.count)::bigint AS count
		FROM kube_reports_internal.current_rollup r JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		WHERE r.cluster_id = (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = $1
			AND kube_reports_internal.may_serve(c.id, caller))
		GROUP BY 1, 2, 3, 4, 5, 6) s
	ORDER BY s.status IN ('w', 'f', 'e') DESC, s.namespace, s.policy, s.source, s.category, s.severity, s.status
	LIMIT max_rows
$$;
COMMENT ON FUNCTION kube_reports_internal.api_result_counts(uuid, integer, kube_reports_internal.caller)
	IS 'the number of results for each set of labels of Policy Reporter''s metrics in simple mode: namespace is empty '
		'for reports of cluster scope, severity is null if there is none, category is Other if there is none. At most '
		'max_rows rows, those of failing results (warn, fail, error) first; series: the number of all rows';

-- A connection of a proxy may last for weeks, so upkeep updates the time, too.  The upkeep of every replica calls this
-- function, and so does every request of a sender; the row is written about once a minute, and a locked row is skipped.
CREATE FUNCTION kube_reports_internal.note_served(cluster uuid) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE kube_reports.cluster c SET last_seen = now()
		WHERE c.id = (SELECT k.id FROM kube_reports.cluster k WHERE k.uid = note_served.cluster
			-- A time far ahead was stored while the clock was ahead.
			AND (k.last_seen BETWEEN now() - interval '50 seconds' AND now() + interval '1 minute') IS NOT TRUE
			FOR NO KEY UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION kube_reports_internal.note_served(uuid)
	IS 'stores that a proxy or a sender of a cluster is there now, unless that was stored less than a minute ago';

CREATE FUNCTION kube_reports_internal.api_maintain(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	more		boolean;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller)) THEN
		RETURN false;
	END IF;
	more := kube_reports.maintain();
	-- The last lock of the transaction: a removal of the cluster locks the store before the row.
	PERFORM kube_reports_internal.note_served(cluster);
	RETURN more;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_maintain(uuid, kube_reports_internal.caller)
	IS 'one small step of upkeep; true when there is more to do. Notes that a proxy serves the cluster';

CREATE FUNCTION kube_reports_internal.api_catch_up(cluster uuid,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF pg_is_in_recovery()
			OR NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = cluster
				AND kube_reports_internal.may_serve(c.id, caller)) THEN
		RETURN false;
	END IF;
	-- A connection of a proxy may be older than the update, or than the loss of the row of table store; and no other
	-- function is called as often.
	IF kube_reports_internal.finish_update() OR kube_reports_internal.finish_restore() THEN
		RETURN true;
	END IF;
	RETURN kube_reports.catch_up();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_catch_up(uuid, kube_reports_internal.caller)
	IS 'one small step that brings counts, and after a restore also results, up to date; true if there is more to do';

