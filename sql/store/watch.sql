-- watch.sql
--	  Watches: where they start, and the changes since then.

CREATE FUNCTION kube_reports_internal.api_watch(cluster uuid, request jsonb,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[], OUT reply bytea,
		OUT lane integer, OUT version bigint, OUT cursor text, OUT namespace_name text,
		OUT label_selector text, OUT field_selector text, OUT first_representation text, OUT representation text,
		OUT bookmarks boolean, OUT end_bookmark bytea, OUT timeout_seconds integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target		record;
	plan		record;
	newest		bigint;
BEGIN
	content_type := 'application/json';
	retry_after := 0;
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, request->>'group', request->>'version',
		request->>'resource', caller);
	IF NOT FOUND THEN
		code := 404;
		reply := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	SELECT * INTO plan FROM kube_reports_internal.list_plan(target.definition_id, target.definition, request);
	code := plan.code;
	IF code <> 200 THEN
		reply := plan.status;
		RETURN;
	END IF;

	newest := kube_reports_internal.lane_version(target.lane);
	IF plan.initial_events AND plan.version > newest THEN
		code := 504;
		retry_after := 1;
		reply := kube_reports_internal.version_too_large(plan.version, newest);
		RETURN;
	END IF;
	version := CASE WHEN plan.initial_events OR plan.from_now THEN newest ELSE plan.version END;
	IF version < target.floor OR target.lost @> version THEN
		-- An event with code 200, as kube-apiserver does: after an HTTP 410 kube-rs never lists again, and client-go's
		-- RetryWatcher retries for ever.
		reply := '{"type":"ERROR","object":'::bytea || rtrim(kube_reports_internal.status_document(410, 'Expired',
			format('too old resource version: %s (%s)', version, target.floor), NULL),
				E'\\x0a'::bytea) || E'}\\012'::bytea;
		RETURN;
	END IF;

	lane := target.lane;
	namespace_name := request->>'namespace';
	label_selector := plan.label_selector;
	field_selector := plan.field_selector;
	bookmarks := plan.bookmarks;
	timeout_seconds := least(plan.timeout_seconds, 2147483647);
	-- A representation names the served version and the transform.  Only the first event of a table has its columns.
	first_representation := concat_ws(' ', request->>'version', plan.transform);
	representation := concat_ws(' ', request->>'version', replace(plan.transform, '+columns', ''));
	IF plan.initial_events THEN
		cursor := jsonb_build_object('version', version, 'namespace', coalesce(namespace_name, ''),
			'name', '', 'items', 0)::text;
	END IF;
	IF plan.initial_bookmark THEN
		end_bookmark := kube_reports_internal.render_bookmark(target.definition_id, target.definition,
			plan.transform, version, true);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_watch(uuid, jsonb, kube_reports_internal.caller)
	IS 'where a watch starts: its lane and version, and a cursor for api_list() when initial events come first; lane '
		'null: the reply is all, a Status, or with code 200 an ERROR event for a version that is too old';

-- Settings are those of the callers, which run this query in their own plans.
CREATE FUNCTION kube_reports_internal.changes_between(target_lane integer, target_cluster integer, target_type integer,
	after_version bigint, max_rows integer)
	RETURNS TABLE (version bigint, operation "char", namespace text, name text, at timestamptz, terms text[],
		old_terms text[], metadata kube_reports.report, body kube_reports.report, old_metadata kube_reports.report,
		old_body kube_reports.report, shows_old boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH happened AS MATERIALIZED (
		SELECT c.version, c.operation, c.namespace, c.name, c.at, c.old_metadata, c.old_body
		FROM kube_reports_internal.change c
		WHERE c.lane = $1 AND c.version > $4 ORDER BY c.version LIMIT $5
	), complete AS (
		SELECT h.version, h.operation, h.namespace, h.name, h.at, h.old_metadata, h.old_body,
			CASE WHEN n.found THEN n.old_metadata ELSE o.metadata END AS metadata,
			CASE WHEN n.found THEN n.old_body ELSE o.body END AS body
		FROM happened h
			-- The state after a change is the old state in the key's next change, or the stored object.
			LEFT JOIN LATERAL (SELECT true AS found, n.old_metadata, n.old_body FROM kube_reports_internal.change n
				WHERE n.lane = $1 AND n.namespace = h.namespace AND n.name = h.name AND n.version > h.version
				ORDER BY n.version LIMIT 1) n ON h.operation <> 'D'
			LEFT JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE n.found IS NULL AND h.operation <> 'D' AND o.cluster_id = $2
					AND o.resource_type = $3 AND o.namespace = h.namespace AND o.name = h.name
				LIMIT 1) o ON true
	), measured AS (
		SELECT s.*, sum(s.size) OVER (ORDER BY s.version) - s.size AS bytes_before
		FROM (SELECT c.*, kube_reports.document_size(coalesce(c.metadata, c.old_metadata))
				+ kube_reports.document_size(coalesce(c.body, c.old_body)) AS size
			FROM complete c) s
	), labelled AS (
		SELECT m.*, kube_reports.label_terms(coalesce(m.metadata, m.old_metadata)) AS terms,
			kube_reports.label_terms(m.old_metadata) AS old_terms
		FROM measured m
		WHERE m.bytes_before < 4194304
	)
	SELECT l.version, l.operation, l.namespace, l.name, l.at, l.terms, l.old_terms,
		CASE l.operation WHEN 'D' THEN l.old_metadata ELSE l.metadata END,
		CASE l.operation WHEN 'D' THEN l.old_body ELSE l.body END,
		l.old_metadata, l.old_body, l.operation = 'M' AND l.terms IS DISTINCT FROM l.old_terms
	FROM labelled l;
END;
COMMENT ON FUNCTION kube_reports_internal.changes_between(integer, integer, integer, bigint, integer)
	IS 'the changes of a lane after a version, 4 MB or max_rows of them: with the state after each (of D: the last '
		'one) and the state before, which watchers may need where shows_old';

CREATE FUNCTION kube_reports_internal.api_changes(cluster uuid, lane integer, after_version bigint,
	representations text[], max_rows integer,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT version bigint, OUT operation "char", OUT namespace_name text, OUT name text, OUT at timestamptz,
		OUT labels text[], OUT old_labels text[], OUT objects bytea[], OUT old_objects bytea[])
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	target		record;
BEGIN
	SELECT l.id, l.cluster_id, l.resource_type, l.floor, l.lost INTO target
		FROM kube_reports_internal.lane l JOIN kube_reports.cluster c ON c.id = l.cluster_id
		WHERE l.id = api_changes.lane AND c.uid = api_changes.cluster AND kube_reports_internal.may_serve(c.id, caller);
	-- A lane that was deleted (its type was unregistered) has lost every position.
	IF NOT FOUND OR after_version < target.floor OR target.lost @> after_version THEN
		RETURN QUERY SELECT coalesce(target.floor, 0), 'X'::"char", ''::text, ''::text, now(),
			NULL::text[], NULL::text[], NULL::bytea[], NULL::bytea[];
		RETURN;
	END IF;

	RETURN QUERY
	SELECT k.version, k.operation, k.namespace, k.name, k.at, k.terms, k.old_terms,
		kube_reports_internal.represent(target.resource_type, representations, k.metadata, k.body, k.version),
		CASE WHEN k.shows_old THEN kube_reports_internal.represent(target.resource_type, representations,
			k.old_metadata, k.old_body, k.version) END
	FROM kube_reports_internal.changes_between(target.id, target.cluster_id, target.resource_type, after_version,
		max_rows) k
	ORDER BY k.version;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_changes(uuid, integer, bigint, text[], integer,
	kube_reports_internal.caller)
	IS 'the changes of a lane after a version, in order, with the objects in every given representation; one row X '
		'when the log does not reach back that far';

CREATE FUNCTION kube_reports_internal.represent(type_id integer, representations text[], metadata kube_reports.report,
	body kube_reports.report, version bigint)
	RETURNS bytea[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT array_agg(kube_reports_internal.render_change(v.id, v.definition, split_part(r.token, ' ', 2), metadata,
		body, $5) ORDER BY r.position)
	FROM unnest(representations) WITH ORDINALITY r(token, position)
		LEFT JOIN kube_reports_internal.resource_version v ON v.resource_type = type_id
			AND v.version = split_part(r.token, ' ', 1);
END;
COMMENT ON FUNCTION kube_reports_internal.represent(integer, text[], kube_reports.report, kube_reports.report, bigint)
	IS 'an object of an event in each representation (served version, space, transform)';

CREATE FUNCTION kube_reports_internal.api_bookmark(cluster uuid, lane integer, version bigint, representation text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS bytea
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT kube_reports_internal.render_bookmark(v.id, v.definition, split_part($4, ' ', 2), $3, false)
	FROM kube_reports_internal.lane l JOIN kube_reports_internal.resource_version v ON v.resource_type = l.resource_type
	WHERE l.id = $2 AND v.version = split_part($4, ' ', 1) AND kube_reports_internal.may_serve(l.cluster_id, caller)
$$;
COMMENT ON FUNCTION kube_reports_internal.api_bookmark(uuid, integer, bigint, text, kube_reports_internal.caller)
	IS 'the frame of a bookmark';

CREATE FUNCTION kube_reports_internal.api_poll(cluster uuid, lanes integer[],
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT generation bigint, OUT versions bigint[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	served		integer;
BEGIN
	SELECT s.generation INTO generation FROM kube_reports_internal.store s;
	IF NOT FOUND THEN
		PERFORM kube_reports_internal.require_visible();
		RAISE EXCEPTION 'the row of table kube_reports_internal.store is gone'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'The upkeep of a proxy makes it again; otherwise the owner calls kube_reports.after_restore().';
	END IF;
	SELECT c.id INTO served FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller);
	IF NOT FOUND THEN
		PERFORM kube_reports_internal.require_service(cluster, caller);
	END IF;
	SELECT array_agg(coalesce(c.version, a.floor, 0) ORDER BY l.position) INTO versions
		FROM unnest(lanes) WITH ORDINALITY l(id, position)
			LEFT JOIN kube_reports_internal.lane a ON a.id = l.id AND a.cluster_id = served
			LEFT JOIN LATERAL (SELECT c.version FROM kube_reports_internal.change c WHERE c.lane = a.id
				ORDER BY c.version DESC LIMIT 1) c ON true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_poll(uuid, integer[], kube_reports_internal.caller)
	IS 'newest version of each lane and the generation of the registry: cheap enough to ask many times a second. '
		'Raises 42501 if the caller may not serve the cluster, 55000 if the row of table store is gone: readiness of '
		'proxies depends on it';

