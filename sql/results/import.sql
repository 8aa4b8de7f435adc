-- import.sql
--	  Import of past states of reports.
--
-- A past state is written like any other state, and the same functions derive
-- its results, history and counts.  They use the lane's time in import_time in
-- place of the log's time.  So verify() finds no other differences than for a
-- report that was written at that time.  Versions, the log and metadata are
-- those of the import.
--
-- The row of import_time exists while one state is written, and only the
-- writing transaction sees it.  That transaction holds the lane's lock.

-- Locks the lane of a type and stores the past time for the next write.
CREATE FUNCTION kube_reports_internal.begin_import(cluster uuid, type text, namespace text, name text, at timestamptz)
	RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := kube_reports_internal.known_cluster(cluster);
	target		record;
	newest		timestamptz;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	SELECT l.id AS lane, t.id AS type_id, t.results INTO target
		FROM kube_reports.resource_type t JOIN kube_reports_internal.lane l ON l.resource_type = t.id
			AND l.cluster_id = served
		WHERE t.plural || '.' || t."group" = type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'type "%" is not registered', type
			USING ERRCODE = 'undefined_object', HINT = kube_reports_internal.type_hint(type);
	END IF;
	IF target.results <> 'current' THEN
		RAISE EXCEPTION 'type "%" has no history', type USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'Its results are not current: register_crd() and set_results_mapping() say whose are.';
	END IF;
	IF at IS NULL OR at > clock_timestamp() OR at < now() - kube_reports.setting('history_retention')::interval
	THEN
		RAISE EXCEPTION 'history cannot be imported at %', coalesce(at::text, 'null')
			USING ERRCODE = 'invalid_parameter_value',
			HINT = 'The time is between now and as long ago as the setting history_retention says.';
	END IF;
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lane(target.lane);
	PERFORM kube_reports_internal.finish_pending(p.lane, p.namespace, p.name)
		FROM kube_reports_internal.result_pending p
		WHERE p.lane = target.lane AND p.namespace = begin_import.namespace AND p.name = begin_import.name;
	SELECT greatest(g.first_seen, (SELECT max(h.at) FROM kube_reports_internal.report_change h WHERE h.origin = g.id))
		INTO newest
		FROM kube_reports_internal.origin g
		WHERE g.cluster_id = served AND g.resource_type = target.type_id
			AND g.namespace = begin_import.namespace AND g.name = begin_import.name;
	IF at < newest THEN
		RAISE EXCEPTION 'report "%" has history up to %', name, newest
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('The state to be imported is of %s.', at),
			HINT = 'States of a report are imported in the order of their times.';
	END IF;
	INSERT INTO kube_reports_internal.import_time (lane, at) VALUES (target.lane, begin_import.at);
	RETURN target.lane;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_import(uuid, text, text, text, timestamptz)
	IS 'locks the lane of a type and notes the time that what is written to it is of; used by import_report() and '
		'import_deletion() only';

CREATE FUNCTION kube_reports_internal.named_user(name text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN name IS NULL THEN '{}' ELSE jsonb_build_object('user', jsonb_build_object('username', name)) END;
COMMENT ON FUNCTION kube_reports_internal.named_user(text)
	IS 'the part of a request that says who writes; null: nothing, the request has it';

CREATE FUNCTION kube_reports.import_report(cluster uuid, document kube_reports.report, at timestamptz,
		actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	request		jsonb := kube_reports_internal.request_for(cluster, 'update', document)
		|| kube_reports_internal.named_user(actor);
	place		text := coalesce(request->>'namespace', '');
	stored		bigint;
	target		integer;
BEGIN
	IF request->>'name' IS NULL THEN
		RAISE EXCEPTION 'the document has no name' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	target := kube_reports_internal.begin_import(cluster, concat(request->>'resource', '.', request->>'group'),
		place, request->>'name', at);
	SELECT o.version INTO stored FROM kube_reports_internal.lane l JOIN kube_reports.object o
		ON o.cluster_id = l.cluster_id
			AND o.resource_type = l.resource_type AND o.namespace = place AND o.name = request->>'name'
		WHERE l.id = target;
	IF NOT FOUND THEN
		request := (request - 'name') || '{"verb": "create"}';
	ELSE
		document := jsonb_set(document::jsonb, '{metadata,resourceVersion}',
			to_jsonb(stored::text))::kube_reports.report;
	END IF;
	PERFORM kube_reports_internal.write_one(cluster, request, convert_to(document::text, 'UTF8'));
	DELETE FROM kube_reports_internal.import_time i WHERE i.lane = target;
END
$$;
COMMENT ON FUNCTION kube_reports.import_report(uuid, kube_reports.report, timestamptz, text)
	IS 'stores a state of a report, new or known, as if actor (null: the role) had written it at a time in the past: '
		'results, history and counts by day become those of that time. Call it for the states of a report in the '
		'order of their times; the last state remains stored. Raises 22023 for a time in the future or before '
		'history_retention, 55000 for a time before the report''s newest history, 42704 for an unknown cluster, KR404 '
		'for an unknown type, KR422 for an invalid document';

CREATE FUNCTION kube_reports.import_deletion(cluster uuid, type text, namespace text, name text, at timestamptz,
		actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target		integer := kube_reports_internal.begin_import(cluster, type, namespace, name, at);
BEGIN
	PERFORM kube_reports_internal.write_one(cluster,
		kube_reports_internal.address(type, NULL, 'delete', namespace, name)
			|| kube_reports_internal.named_user(actor), ''::bytea);
	DELETE FROM kube_reports_internal.import_time i WHERE i.lane = target;
END
$$;
COMMENT ON FUNCTION kube_reports.import_deletion(uuid, text, text, text, timestamptz, text)
	IS 'deletes a report as if actor had done so at a time in the past: see import_report(). Raises KR404 when the '
		'report does not exist';
