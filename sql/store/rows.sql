-- rows.sql
--	  Reads as rows of stored objects, which the proxy renders.
--
-- The caller has planned the read (extension/engine/answers/read_plan.h) and passes the plan as arguments.  The first
-- columns of each answer are the columns of a reply; the body is null, or a Status if the request cannot be answered.
-- Bodies have the form of stored_bytes().
--
-- ELSE NULL::kube_reports.report: without it, CASE has the base type where
-- report is a domain, and PostgreSQL would check each document again.

CREATE FUNCTION kube_reports_internal.api_read_object(cluster uuid, "group" text, served_version text, resource text,
	namespace text, name text, at_least bigint,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[], OUT body bytea,
		OUT version bigint, OUT metadata kube_reports.report, OUT document kube_reports_internal.stored_document)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A session keeps this plan for weeks, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	target		record;
BEGIN
	content_type := 'application/json';
	retry_after := 0;
	SELECT r.lane, r.cluster_id, r.type_id INTO target
		FROM kube_reports_internal.resolve(cluster, "group", served_version, resource, caller) r;
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	IF at_least > kube_reports_internal.lane_version(target.lane) THEN
		code := 504;
		retry_after := 1;
		body := kube_reports_internal.version_too_large(at_least, kube_reports_internal.lane_version(target.lane));
		RETURN;
	END IF;
	SELECT o.version, o.metadata, kube_reports_internal.stored_bytes(o.body) INTO version, metadata, document
		FROM kube_reports.object o
		WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
			AND o.namespace = api_read_object.namespace AND o.name = api_read_object.name;
	code := CASE WHEN FOUND THEN 200 ELSE 404 END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_read_object(uuid, text, text, text, text, text, bigint,
	kube_reports_internal.caller)
	IS 'a stored object at a version or a later one. Code 404 without a body: the object does not exist';

CREATE FUNCTION kube_reports_internal.api_read_watch(cluster uuid, "group" text, served_version text, resource text,
	only_namespace text, at_version bigint, initial_events boolean,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[], OUT body bytea,
		OUT lane integer, OUT version bigint, OUT cursor text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target		record;
	newest		bigint;
BEGIN
	content_type := 'application/json';
	retry_after := 0;
	SELECT r.lane, r.floor, r.lost INTO target
		FROM kube_reports_internal.resolve(cluster, "group", served_version, resource, caller) r;
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	newest := kube_reports_internal.lane_version(target.lane);
	IF initial_events AND at_version > newest THEN
		code := 504;
		retry_after := 1;
		body := kube_reports_internal.version_too_large(at_version, newest);
		RETURN;
	END IF;
	code := 200;
	version := CASE WHEN initial_events THEN newest ELSE coalesce(at_version, newest) END;
	IF version < target.floor OR target.lost @> version THEN
		-- An event with code 200, as kube-apiserver does: after an HTTP 410 kube-rs never lists again, and client-go's
		-- RetryWatcher retries for ever.
		body := '{"type":"ERROR","object":'::bytea || rtrim(kube_reports_internal.status_document(410, 'Expired',
			format('too old resource version: %s (%s)', version, target.floor), NULL),
				E'\\x0a'::bytea) || E'}\\012'::bytea;
		RETURN;
	END IF;
	lane := target.lane;
	IF initial_events THEN
		cursor := jsonb_build_object('version', version, 'namespace', coalesce(only_namespace, ''),
			'name', '', 'items', 0)::text;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_read_watch(uuid, text, text, text, text, bigint, boolean,
	kube_reports_internal.caller)
	IS 'where a watch starts (at_version null: now), and with initial_events a cursor for api_list(). lane null: '
		'body is the whole answer: a Status, or with code 200 an ERROR event for a version that is too old';

CREATE FUNCTION kube_reports_internal.api_read_changes(cluster uuid, lane integer, after_version bigint,
	needs_body boolean,
	max_rows integer,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT version bigint, OUT operation "char", OUT namespace_name text, OUT name text, OUT at timestamptz,
		OUT labels text[], OUT old_labels text[], OUT metadata kube_reports.report,
		OUT document kube_reports_internal.stored_document,
		OUT old_metadata kube_reports.report, OUT old_document kube_reports_internal.stored_document)
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
		WHERE l.id = api_read_changes.lane AND c.uid = api_read_changes.cluster
			AND kube_reports_internal.may_serve(c.id, caller);
	-- A lane that was deleted, because its type was unregistered, has no versions any more.
	IF NOT FOUND OR after_version < target.floor OR target.lost @> after_version THEN
		RETURN QUERY SELECT coalesce(target.floor, 0), 'X'::"char", ''::text, ''::text, now(),
			NULL::text[], NULL::text[],
			NULL::kube_reports.report, NULL::kube_reports_internal.stored_document,
			NULL::kube_reports.report, NULL::kube_reports_internal.stored_document;
		RETURN;
	END IF;

	RETURN QUERY
	SELECT k.version, k.operation, k.namespace, k.name, k.at, k.terms, k.old_terms,
		k.metadata,
		kube_reports_internal.stored_bytes(CASE WHEN needs_body THEN k.body ELSE NULL::kube_reports.report END),
		CASE WHEN k.shows_old THEN k.old_metadata ELSE NULL::kube_reports.report END,
		kube_reports_internal.stored_bytes(CASE WHEN needs_body AND k.shows_old THEN k.old_body
			ELSE NULL::kube_reports.report END)
	FROM kube_reports_internal.changes_between(target.id, target.cluster_id, target.resource_type, after_version,
		max_rows) k
	ORDER BY k.version;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_read_changes(uuid, integer, bigint, boolean, integer,
	kube_reports_internal.caller)
	IS 'the changes of a lane after a version, in order, in the form of api_changes(), with the stored objects: for D '
		'the last state; if labels differ, also the state before. One row X: the log does not reach back so far';
