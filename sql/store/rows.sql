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

CREATE FUNCTION kube_reports_internal.api_read_list(cluster uuid, "group" text, served_version text, resource text,
	only_namespace text, needs_body boolean, label_selector text, terms text[], field_selector text, field_name text,
	max_items bigint, at_version bigint, at_least bigint, newest_only boolean, continued boolean,
	after_namespace text, after_name text, piece_bytes bigint, cursor text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[],
			OUT body bytea, OUT next_cursor text,
			OUT continue_token text, OUT version bigint, OUT metadata kube_reports.report,
			OUT document kube_reports_internal.stored_document,
			OUT remaining bigint)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A session keeps these plans for weeks, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET max_parallel_workers_per_gather = 0
SET jit = off
AS $$
DECLARE
	place		jsonb := cursor::jsonb;
	target		record;
	stored		record;
	newest		bigint;
	-- The list contains all stored objects of its scope, each as it is stored now.
	plain		boolean;
	most_rows	bigint;
	rows_before bigint;
	stored_body kube_reports.report;
	size		bigint;
	-- Bytes that the answer adds to the texts of an item.
	envelope_bytes CONSTANT integer := 100;
	items_before bigint := coalesce((place->>'items')::bigint, 0);
	items		bigint := 0;
	most_items	bigint;
	bytes		bigint := 0;
	window_rows	integer := coalesce((place->>'window')::integer, 200);
	fitting_rows bigint := 16000;
	more		boolean;
BEGIN
	content_type := 'application/json';
	retry_after := 0;
	SELECT r.cluster_id, r.type_id, r.namespaced, r.lane, r.floor, r.lost INTO target
		FROM kube_reports_internal.resolve(cluster, "group", served_version, resource, caller) r;
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_served_document(cluster, caller);
		RETURN NEXT;
		RETURN;
	END IF;

	newest := kube_reports_internal.lane_version(target.lane);
	IF place IS NOT NULL THEN
		at_version := (place->>'version')::bigint;
		after_namespace := place->>'namespace';
		after_name := place->>'name';
	ELSIF newest_only AND pg_is_in_recovery() THEN
		-- A standby may lack writes that were already answered: ask for the largest version, so that the answer is 504.
		at_version := 9223372036854775807;
	ELSE
		at_version := coalesce(at_version, newest);
	END IF;
	-- Also checked for a list that has begun: a standby may get the version later, and a promoted standby may never get
	-- it.
	IF greatest(at_version, at_least) > newest THEN
		code := 504;
		retry_after := 1;
		body := kube_reports_internal.version_too_large(greatest(at_version, at_least), newest);
		RETURN NEXT;
		RETURN;
	END IF;
	IF at_version < target.floor OR target.lost @> at_version THEN
		IF place IS NOT NULL THEN
			-- The answer has begun, so it can only be aborted.
			RAISE EXCEPTION 'version % of the list is gone', at_version USING ERRCODE = 'KR410';
		END IF;
		code := 410;
		IF continued THEN
			body := kube_reports_internal.continue_expired(kube_reports_internal.continue_token(-1, target.namespaced,
				coalesce(only_namespace, ''), after_namespace, after_name));
		ELSE
			body := kube_reports_internal.status_document(410, 'Expired',
				'The resourceVersion for the provided list is too old.', NULL);
		END IF;
		RETURN NEXT;
		RETURN;
	END IF;

	code := 200;
	RETURN NEXT;
	code := NULL;
	content_type := NULL;
	retry_after := NULL;
	-- One below the largest bigint: the query asks for one item more than the page shows.
	most_items := CASE WHEN max_items > 0 THEN least(max_items, 9223372036854775806) - items_before
		ELSE 9223372036854775806 END;
	plain := newest = at_version AND terms = '{}' AND field_name IS NULL AND label_selector = ''
		AND field_selector = '';
	LOOP
		more := false;
		IF plain THEN
			most_rows := least(window_rows, fitting_rows, most_items - items);
			rows_before := items;
			-- Without rows the key becomes null; then nothing follows.
			FOR after_namespace, after_name, version, metadata, stored_body, size IN
				SELECT o.namespace, o.name, o.version, o.metadata,
					CASE WHEN needs_body THEN o.body ELSE NULL::kube_reports.report END,
					envelope_bytes + kube_reports.document_size(o.metadata)
						+ CASE WHEN needs_body THEN kube_reports.document_size(o.body) ELSE 0 END
				FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND (o.namespace, o.name) > (after_namespace, after_name)
					AND o.namespace <= coalesce(only_namespace, '~')
					AND (only_namespace IS NULL OR o.namespace = only_namespace)
				ORDER BY o.namespace, o.name
				LIMIT most_rows
			LOOP
				document := kube_reports_internal.stored_bytes(stored_body);
				RETURN NEXT;
				items := items + 1;
				bytes := bytes + size;
				EXIT WHEN bytes >= piece_bytes;
			END LOOP;
			more := bytes >= piece_bytes OR items - rows_before = most_rows;
		ELSE
			FOR stored IN SELECT w.* FROM kube_reports_internal.list_window(target.cluster_id, target.type_id,
				target.lane, needs_body,
					at_version, newest > at_version, only_namespace, field_name, after_namespace, after_name,
					terms, label_selector, field_selector,
						least(window_rows, fitting_rows, most_items - items + 1)::integer) w
			LOOP
				-- A full page ends at its last item, even within a window.
				IF items = most_items OR bytes >= piece_bytes THEN
					more := true;
					EXIT;
				ELSIF stored.metadata IS NULL THEN
					more := true;
					after_namespace := coalesce(stored.namespace, after_namespace);
					after_name := coalesce(stored.name, after_name);
				ELSE
					version := stored.version;
					metadata := stored.metadata;
					document := kube_reports_internal.stored_bytes(stored.body);
					bytes := bytes + envelope_bytes + kube_reports.document_size(metadata)
						+ coalesce(kube_reports.document_size(stored.body), 0);
					RETURN NEXT;
					items := items + 1;
					after_namespace := stored.namespace;
					after_name := stored.name;
				END IF;
			END LOOP;
		END IF;
		EXIT WHEN NOT more OR items = most_items OR bytes >= piece_bytes;
		-- If objects are small or matches are few, make the window larger.
		IF bytes < piece_bytes / 2 THEN
			window_rows := least(window_rows * 2, 16000);
		END IF;
		IF items > 0 AND label_selector = '' AND field_selector = '' THEN
			fitting_rows := (piece_bytes - bytes) * items / bytes + 1;
		END IF;
	END LOOP;

	version := at_version;
	metadata := NULL;
	document := NULL;
	IF more AND items < most_items THEN
		next_cursor := jsonb_build_object('version', at_version, 'namespace', after_namespace, 'name', after_name,
			'items', items_before + items, 'window', window_rows)::text;
		RETURN NEXT;
		RETURN;
	END IF;
	continue_token := '';
	-- A full page has a continue token if any object follows, matching or not.  A list of one name has one page.
	IF items = most_items AND (field_name IS NULL OR (target.namespaced AND only_namespace IS NULL)) THEN
		remaining := kube_reports_internal.count_after(target.cluster_id, target.type_id, target.lane, at_version,
			only_namespace, after_namespace, after_name);
		IF remaining IS DISTINCT FROM 0 THEN
			continue_token := kube_reports_internal.continue_token(at_version, target.namespaced,
				coalesce(only_namespace, ''), after_namespace, after_name);
		END IF;
		IF remaining = 0 OR label_selector <> '' OR field_selector <> '' THEN
			remaining := NULL;
		END IF;
	END IF;
	RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_read_list(uuid, text, text, text, text, boolean, text, text[], text, text,
	bigint, bigint, bigint, boolean, boolean, text, text, bigint, text, kube_reports_internal.caller)
	IS 'a list, piece by piece. The first row is a reply; rows with metadata are objects. The last row has the '
		'version of the list and either next_cursor, for the next call, or the continue token (empty: no page '
		'follows) and the number of remaining objects. at_version null: the newest state; with newest_only a standby '
		'refuses to answer';

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
	IS 'where a watch starts (at_version null: now), and with initial_events a cursor for api_read_list(). lane null: '
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
