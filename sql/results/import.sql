-- import.sql
--	  Import of past states of reports.
--
-- A past state is written like any other state, and the same functions derive its results, history and counts.  They
-- use the lane's time in import_time in place of the log's time.  So a report that is imported and a report that was
-- written at that time have the same results, history and counts.  Versions, the log and metadata are from the time of
-- the import.
--
-- The row of import_time exists while one state is written, and only the writing transaction sees it.  That transaction
-- holds the lane's lock.
--
-- If the engine runs in proxies, a state waits in import_waiting until the upkeep of a proxy imports it: import_step().
-- The checks that SQL can make are made at once.

CREATE FUNCTION kube_reports_internal.refuse_import(name text, at timestamptz, newest timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF at < newest THEN
		RAISE EXCEPTION 'report "%" has history up to %', name, newest
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = format('The state to be imported is of %s.', at),
			HINT = 'States of a report are imported in the order of their times.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.refuse_import(text, timestamptz, timestamptz)
	IS 'raises 55000 if a report has a newer state than the state to import';

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
	PERFORM kube_reports_internal.require_unheld(target.lane);
	PERFORM kube_reports_internal.finish_pending(p.lane, p.namespace, p.name)
		FROM kube_reports_internal.result_pending p
		WHERE p.lane = target.lane AND p.namespace = begin_import.namespace AND p.name = begin_import.name
			AND kube_reports_internal.has_engine();
	SELECT greatest(g.first_seen, (SELECT max(h.at) FROM kube_reports_internal.report_change h WHERE h.origin = g.id))
		INTO newest
		FROM kube_reports_internal.origin g
		WHERE g.cluster_id = served AND g.resource_type = target.type_id
			AND g.namespace = begin_import.namespace AND g.name = begin_import.name;
	PERFORM kube_reports_internal.refuse_import(begin_import.name, begin_import.at, newest);
	INSERT INTO kube_reports_internal.import_time (lane, at) VALUES (target.lane, begin_import.at);
	RETURN target.lane;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_import(uuid, text, text, text, timestamptz)
	IS 'locks the lane of a type and stores the time for which states are written; only import_report() and '
		'import_deletion() call it';

-- Makes the checks of begin_import(), and compares the time with the report's newest state that waits.
CREATE FUNCTION kube_reports_internal.import_later(cluster uuid, type text, namespace text, name text, at timestamptz,
	actor text, document kube_reports.report) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target		integer := kube_reports_internal.begin_import(cluster, type, namespace, name, at);
	newest		kube_reports_internal.import_waiting;
BEGIN
	SELECT * INTO newest FROM kube_reports_internal.import_waiting w
		WHERE w.lane = target AND w.namespace = import_later.namespace AND w.name = import_later.name
			AND w.reason IS NULL
		ORDER BY w.id DESC LIMIT 1;
	PERFORM kube_reports_internal.refuse_import(import_later.name, import_later.at, newest.at);
	IF document IS NULL AND (newest.id IS NOT NULL AND newest.document IS NULL
			OR newest.id IS NULL AND NOT EXISTS (SELECT FROM kube_reports_internal.lane l JOIN kube_reports.object o
				ON o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
					AND o.namespace = import_later.namespace AND o.name = import_later.name
				WHERE l.id = target)) THEN
		RAISE EXCEPTION '% "%" not found', type, name USING ERRCODE = 'KR404';
	END IF;
	PERFORM kube_reports_internal.check_document(v.id, v.definition, document)
		FROM kube_reports_internal.lane l
			JOIN kube_reports_internal.resource_version v ON v.resource_type = l.resource_type
		WHERE l.id = target AND v.version = split_part(kube_reports_internal.string_at(document, 'apiVersion'), '/', 2);
	INSERT INTO kube_reports_internal.import_waiting (lane, at, namespace, name, actor, document)
		VALUES (target, import_later.at, import_later.namespace, import_later.name,
			coalesce(import_later.actor, session_user), import_later.document);
	DELETE FROM kube_reports_internal.import_time i WHERE i.lane = target;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_later(uuid, text, text, text, timestamptz, text, kube_reports.report)
	IS 'checks a past state, or a deletion (document null), and stores it for import_step()';

CREATE FUNCTION kube_reports_internal.named_user(name text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN name IS NULL THEN '{}' ELSE jsonb_build_object('user', jsonb_build_object('username', name)) END;
COMMENT ON FUNCTION kube_reports_internal.named_user(text)
	IS 'the member of a request that names the writer; for name null an empty object: the request names the writer '
		'already';

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
	IF NOT kube_reports_internal.has_engine() THEN
		PERFORM kube_reports_internal.import_later(cluster, concat(request->>'resource', '.', request->>'group'),
			place, request->>'name', at, actor, document);
		RETURN;
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
		'for an unknown type, KR422 for an invalid document. In the SQL variant the state waits until the upkeep of a '
		'proxy imports it: see the view pending';

CREATE FUNCTION kube_reports.import_deletion(cluster uuid, type text, namespace text, name text, at timestamptz,
		actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	target		integer;
BEGIN
	IF NOT kube_reports_internal.has_engine() THEN
		PERFORM kube_reports_internal.import_later(cluster, type, namespace, name, at, actor, NULL);
		RETURN;
	END IF;
	target := kube_reports_internal.begin_import(cluster, type, namespace, name, at);
	PERFORM kube_reports_internal.write_one(cluster,
		kube_reports_internal.address(type, NULL, 'delete', namespace, name)
			|| kube_reports_internal.named_user(actor), ''::bytea);
	DELETE FROM kube_reports_internal.import_time i WHERE i.lane = target;
END
$$;
COMMENT ON FUNCTION kube_reports.import_deletion(uuid, text, text, text, timestamptz, text)
	IS 'deletes a report as if actor had done so at a time in the past: see import_report(). Raises KR404 when the '
		'report does not exist';

---- states that wait ----

-- One lane in a transaction, and one state of each report, because the next state is decided on the state before.  The
-- bytes are limited, because each document is sent to the engine several times.
CREATE FUNCTION kube_reports_internal.import_step() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- States come faster than statistics are updated: read them by index.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	max_states CONSTANT integer := 50;
	max_bytes CONSTANT integer := 4000000;
	target		record;
	next		record;
	refused		text;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.import_waiting w WHERE w.reason IS NULL)
			OR NOT kube_reports_internal.has_engine() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.lock_store_shared();
	SELECT w.lane, c.uid AS cluster, t.plural || '.' || t."group" AS type INTO target
		FROM kube_reports_internal.import_waiting w
			JOIN kube_reports_internal.lane l ON l.id = w.lane
			JOIN kube_reports.cluster c ON c.id = l.cluster_id AND NOT c.removing
			JOIN kube_reports.resource_type t ON t.id = l.resource_type
		WHERE w.reason IS NULL AND kube_reports_internal.engine_serves(w.lane) ORDER BY w.id LIMIT 1;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	-- The step of another proxy may have imported the state that this step has found: waiting states are read again
	-- under the lock.
	PERFORM kube_reports_internal.lock_lane(target.lane);
	FOR next IN
		SELECT s.* FROM (
			SELECT w.*, sum(coalesce(kube_reports.document_size(w.document), 0)) OVER (ORDER BY w.id) AS bytes,
				row_number() OVER (ORDER BY w.id) AS number
			FROM (SELECT w.* FROM (SELECT w.*, row_number() OVER (PARTITION BY w.namespace, w.name ORDER BY w.id)
				AS state
						FROM kube_reports_internal.import_waiting w
						WHERE w.lane = target.lane AND w.reason IS NULL) w
					WHERE w.state = 1 ORDER BY w.id LIMIT max_states) w) s
		WHERE s.number = 1 OR s.bytes < max_bytes ORDER BY s.id
	LOOP
		BEGIN
			IF next.document IS NULL THEN
				PERFORM kube_reports.import_deletion(target.cluster, target.type, next.namespace, next.name, next.at,
					next.actor);
			ELSE
				PERFORM kube_reports.import_report(target.cluster, next.document, next.at, next.actor);
			END IF;
			DELETE FROM kube_reports_internal.import_waiting w WHERE w.id = next.id;
		EXCEPTION WHEN OTHERS THEN
			IF NOT kube_reports_internal.is_refusal(SQLSTATE) THEN
				RAISE;
			END IF;
			refused := SQLERRM;
			UPDATE kube_reports_internal.import_waiting w SET reason = refused WHERE w.id = next.id;
		END;
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.import_step()
	IS 'imports the next past states that wait, or stores why one is refused; false: no state waits';
