-- read.sql
--	  Get and list.
--
-- A list is read in pieces.  Each piece is a short query of its own at the
-- same version, so that neither a slow client nor a page that is continued an
-- hour later holds a snapshot.  The state at version R consists of the objects
-- that are stored now with a version of at most R and, for every key that
-- changed after R, of its state before the first such change.

CREATE FUNCTION kube_reports_internal.version_too_large(asked bigint, current bigint) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT kube_reports_internal.status_document(504, 'Timeout',
		format('Timeout: Too large resource version: %s, current: %s', asked, current),
		'{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],'
		'"retryAfterSeconds":1}');
END;
COMMENT ON FUNCTION kube_reports_internal.version_too_large(bigint, bigint)
	IS 'the Status for a version that was not given yet';

CREATE FUNCTION kube_reports_internal.api_get(cluster uuid, request jsonb,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[], OUT body bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A session keeps this plan for weeks, perhaps from when the tables were empty: force index scans.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
	plan		record;
	stored		record;
BEGIN
	content_type := 'application/json';
	retry_after := 0;
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, request->>'group', request->>'version',
		request->>'resource', caller);
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	SELECT * INTO plan FROM kube_reports_internal.get_plan(target.definition_id, target.definition, request);
	code := plan.code;
	IF code <> 200 THEN
		body := plan.status;
		RETURN;
	END IF;
	IF plan.version > kube_reports_internal.lane_version(target.lane) THEN
		code := 504;
		retry_after := 1;
		body := kube_reports_internal.version_too_large(plan.version, kube_reports_internal.lane_version(target.lane));
		RETURN;
	END IF;
	SELECT o.metadata, o.body, o.version INTO stored FROM kube_reports.object o
		WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
			AND o.namespace = coalesce(request->>'namespace', '') AND o.name = request->>'name';
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_found_document(request->>'resource', request->>'group', request->>'name');
		RETURN;
	END IF;
	body := kube_reports_internal.render_object(target.definition_id, target.definition, plan.transform,
		stored.metadata, stored.body, stored.version);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_get(uuid, jsonb, kube_reports_internal.caller) IS 'answers a get';

-- Returns the objects of the state among the next max_rows keys.  Documents stay in stored form until they are
-- rendered.  A generic plan is used for every walk along the key.  A search by labels or by name gets a custom plan,
-- because only its values tell whether the index of labels helps.
CREATE FUNCTION kube_reports_internal.list_window(target_cluster integer, target_type integer,
	target_lane integer, needs_body boolean,
		at_version bigint, changed boolean, only_namespace text, only_name text, after_namespace text, after_name text,
		terms text[], label_selector text, field_selector text, max_rows integer)
	RETURNS TABLE (namespace text, name text, version bigint, metadata kube_reports.report, body kube_reports.report)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- The body chooses plan_cache_mode for the kind of list, until the function returns.  The table may have been empty
-- when the session made its plan: walk along the key or the index of labels.
SET plan_cache_mode = auto
SET jit = off
SET enable_seqscan = off
SET max_parallel_workers_per_gather = 0
SET work_mem = '32MB'
AS $$
#variable_conflict use_column
DECLARE
	-- This text sorts after every name of a namespace in byte order.
	last_namespace CONSTANT text := coalesce(only_namespace, '~');
	found_rows	integer;
	edge_namespace text;
	edge_name	text;
BEGIN
	PERFORM set_config('plan_cache_mode',
		CASE WHEN terms = '{}' AND only_name IS NULL THEN 'force_generic_plan' ELSE 'force_custom_plan' END, true);
	-- The most frequent list: all objects, as stored now.
	IF NOT changed AND terms = '{}' AND label_selector = '' AND field_selector = '' THEN
		RETURN QUERY
		SELECT o.namespace, o.name, o.version, o.metadata,
			CASE WHEN needs_body THEN o.body ELSE NULL::kube_reports.report END
			FROM kube_reports.object o
			WHERE o.cluster_id = target_cluster AND o.resource_type = target_type
				AND (o.namespace, o.name) > (after_namespace, after_name) AND o.namespace <= last_namespace
				AND (only_namespace IS NULL OR o.namespace = only_namespace)
			ORDER BY o.namespace, o.name
			LIMIT max_rows;
		GET DIAGNOSTICS found_rows = ROW_COUNT;
		IF found_rows = max_rows THEN
			RETURN NEXT;
		END IF;
		RETURN;
	END IF;

	-- Find the end of this window first, so that it bounds the scan of the log.  Without a search the index alone is
	-- enough.
	IF terms = '{}' AND only_name IS NULL THEN
		SELECT o.namespace, o.name INTO edge_namespace, edge_name
			FROM kube_reports.object o
			WHERE o.cluster_id = target_cluster AND o.resource_type = target_type
				AND (o.namespace, o.name) > (after_namespace, after_name) AND o.namespace <= last_namespace
				AND (only_namespace IS NULL OR o.namespace = only_namespace)
			ORDER BY o.namespace, o.name
			OFFSET max_rows - 1 LIMIT 1;
	ELSE
		SELECT o.namespace, o.name INTO edge_namespace, edge_name
			FROM kube_reports.object o
			WHERE o.cluster_id = target_cluster AND o.resource_type = target_type
				AND (o.namespace, o.name) > (after_namespace, after_name) AND o.namespace <= last_namespace
				AND (only_namespace IS NULL OR o.namespace = only_namespace)
				AND (only_name IS NULL OR o.name = only_name)
				AND (terms = '{}' OR o.labels @> terms)
			ORDER BY o.namespace, o.name
			OFFSET max_rows - 1 LIMIT 1;
	END IF;

	RETURN QUERY
	SELECT c.namespace, c.name, c.version, c.metadata, c.body
		FROM (SELECT o.namespace, o.name, o.version, o.metadata,
			CASE WHEN needs_body THEN o.body ELSE NULL::kube_reports.report END AS body, o.labels
			FROM kube_reports.object o
			WHERE o.cluster_id = target_cluster AND o.resource_type = target_type
				AND (o.namespace, o.name) > (after_namespace, after_name) AND o.namespace <= last_namespace
				AND (only_namespace IS NULL OR o.namespace = only_namespace)
				AND (o.namespace, o.name) <= (coalesce(edge_namespace, last_namespace), coalesce(edge_name, '~'))
				AND (only_name IS NULL OR o.name = only_name)
				AND (terms = '{}' OR o.labels @> terms)
				AND o.version <= at_version
			UNION ALL
			SELECT u.namespace, u.name, u.old_version, u.old_metadata, u.old_body,
				kube_reports.label_terms(u.old_metadata)
			FROM (SELECT DISTINCT ON (c.namespace, c.name) c.namespace, c.name, c.old_version, c.old_metadata,
					CASE WHEN needs_body THEN c.old_body ELSE NULL::kube_reports.report END AS old_body
				FROM kube_reports_internal.change c
				WHERE changed AND c.lane = target_lane AND c.version > at_version
					AND (c.namespace, c.name) > (after_namespace, after_name) AND c.namespace <= last_namespace
					AND (only_namespace IS NULL OR c.namespace = only_namespace)
					AND (c.namespace, c.name) <= (coalesce(edge_namespace, last_namespace), coalesce(edge_name, '~'))
					AND (only_name IS NULL OR c.name = only_name)
				ORDER BY c.namespace, c.name, c.version) u
			WHERE u.old_version IS NOT NULL) c
		WHERE (label_selector = '' OR kube_reports.matches_labels(c.labels, label_selector))
			AND (field_selector = '' OR kube_reports.matches_fields(c.namespace, c.name, field_selector))
		ORDER BY c.namespace, c.name;
	IF edge_name IS NOT NULL THEN
		namespace := edge_namespace;
		name := edge_name;
		RETURN NEXT;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.list_window(integer, integer, integer, boolean, bigint, boolean, text, text,
	text, text, text[], text, text, integer)
	IS 'the objects of the state at a version among the next max_rows keys behind a key, in their order. A last row '
		'without metadata says that there may be more objects, behind its key (null: behind the key of the row '
		'before)';

CREATE FUNCTION kube_reports_internal.continue_expired(token text) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT convert_to(json_build_object('kind', 'Status', 'apiVersion', 'v1', 'metadata',
		json_build_object('continue', token),
		'status', 'Failure',
		'message', 'The provided continue parameter is too old to display a consistent list result. You can start a '
			'new list without '
			|| 'the continue parameter, or use the continue token in this response to retrieve the remainder of the '
				'results. '
			|| 'Continuing with the provided token results in an inconsistent list - objects that were created, '
				'modified, or deleted '
			|| 'between the time the first chunk was returned and now may show up in the list.',
		'reason', 'Expired', 'code', 410)::text || chr(10), 'UTF8');
END;
COMMENT ON FUNCTION kube_reports_internal.continue_expired(text)
	IS 'the Status for a continue token that is too old, with a token to continue with';

CREATE FUNCTION kube_reports_internal.refuse_version(asked bigint, newest bigint, namespaced boolean,
	only_namespace text, after_namespace text, after_name text,
		OUT code integer, OUT retry_after integer, OUT status bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	code := CASE WHEN asked > newest THEN 504 ELSE 410 END;
	retry_after := (asked > newest)::integer;
	status := CASE WHEN asked > newest THEN kube_reports_internal.version_too_large(asked, newest)
		WHEN after_namespace IS NULL THEN kube_reports_internal.status_document(410, 'Expired',
			'The resourceVersion for the provided list is too old.', NULL)
		ELSE kube_reports_internal.continue_expired(kube_reports_internal.continue_token(-1, namespaced,
			coalesce(only_namespace, ''), after_namespace, after_name)) END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.refuse_version(bigint, bigint, boolean, text, text, text)
	IS 'the answer to a list at a version that was not given yet, or that the log does not reach any more. '
		'after_namespace, after_name: the key of the continue token; null: the request has none';

-- In the variant sql, the proxy plans a list.  It passes the plan instead of the request, and renders the stored items.
CREATE FUNCTION kube_reports_internal.api_list(cluster uuid, request jsonb, cursor text,
	"group" text DEFAULT NULL, served_version text DEFAULT NULL, resource text DEFAULT NULL,
	only_namespace text DEFAULT NULL, needs_body boolean DEFAULT NULL, label_selector text DEFAULT NULL,
	terms text[] DEFAULT NULL, field_selector text DEFAULT NULL, field_name text DEFAULT NULL,
	max_items bigint DEFAULT NULL, at_version bigint DEFAULT NULL, at_least bigint DEFAULT NULL,
	newest_only boolean DEFAULT NULL, continued boolean DEFAULT NULL, after_namespace text DEFAULT NULL,
	after_name text DEFAULT NULL, piece_bytes bigint DEFAULT 1048576,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[],
			OUT body bytea, OUT next_cursor text,
			OUT envelope text, OUT version bigint, OUT metadata kube_reports.report,
			OUT document kube_reports_internal.stored_document, OUT continue_token text, OUT remaining bigint)
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
	renders CONSTANT boolean := request IS NOT NULL;
	target		record;
	transform	text;
	initial_events boolean;
	stored		record;
	newest		bigint;
	-- Items come as they are stored.
	as_stored	boolean;
	-- The list contains all stored objects of its scope, each as it is stored now.
	plain		boolean;
	most_rows	bigint;
	rows_found	bigint;
	edge_namespace text;
	edge_name	text;
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
	IF renders THEN
		"group" := request->>'group';
		served_version := request->>'version';
		resource := request->>'resource';
		only_namespace := request->>'namespace';
	END IF;
	SELECT r.cluster_id, r.type_id, r.namespaced, r.lane, r.floor, r.lost, r.definition_id, r.definition INTO target
		FROM kube_reports_internal.resolve(cluster, "group", served_version, resource, caller) r;
	IF NOT FOUND THEN
		code := 404;
		body := kube_reports_internal.not_served_document(cluster, caller);
		RETURN NEXT;
		RETURN;
	END IF;
	code := 200;
	IF renders THEN
		-- A continue token is used only within the namespace of its request.
		SELECT p.code, p.status, p.transform, p.envelope, p.initial_events, p.needs_body, p.label_selector, p.terms,
				p.field_selector, p.field_name, p.max_items,
				CASE WHEN p.has_continue AND p.continue_version > 0 THEN p.continue_version
					WHEN p.match = 'e' THEN p.version END,
				p.version, CASE WHEN p.has_continue THEN p.continue_version < 0 ELSE p.match = 'r' END, p.has_continue,
				coalesce(only_namespace, p.continue_namespace, ''),
				CASE WHEN p.has_continue THEN p.continue_name ELSE '' END
			INTO code, body, transform, envelope, initial_events, needs_body, label_selector, terms,
				field_selector, field_name, max_items, at_version,
				at_least, newest_only, continued, after_namespace, after_name
			FROM kube_reports_internal.list_plan(target.definition_id, target.definition, request) p;
		IF code <> 200 THEN
			envelope := NULL;
			RETURN NEXT;
			RETURN;
		END IF;
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
	as_stored := NOT renders OR envelope IS NOT NULL;
	envelope := envelope || CASE WHEN initial_events THEN ' event' WHEN items_before > 0 THEN ' next' ELSE ' first' END;
	-- Also checked for a list that has begun: a standby may get the version later, and a promoted standby may never get
	-- it.
	IF greatest(at_version, at_least) > newest OR at_version < target.floor OR target.lost @> at_version THEN
		IF place IS NOT NULL AND greatest(at_version, at_least) <= newest THEN
			-- The answer has begun, so it can only be aborted.
			RAISE EXCEPTION 'version % of the list is gone', at_version USING ERRCODE = 'KR410';
		END IF;
		SELECT r.code, r.retry_after, r.status INTO code, retry_after, body
			FROM kube_reports_internal.refuse_version(greatest(at_version, at_least), newest, target.namespaced,
				only_namespace, CASE WHEN continued THEN after_namespace END, after_name) r;
	ELSIF renders THEN
		body := CASE WHEN place IS NULL AND NOT initial_events
			THEN kube_reports_internal.render_list(target.definition_id, target.definition, transform, 'h', at_version,
				'', NULL) ELSE '' END;
	END IF;
	RETURN NEXT;
	IF code <> 200 THEN
		RETURN;
	END IF;
	code := NULL;
	content_type := NULL;
	retry_after := NULL;
	body := NULL;
	envelope := NULL;
	IF items_before > 0 THEN
		transform := replace(transform, '+columns', '');
	END IF;
	-- One below the largest bigint: the query asks for one item more than the page shows.
	most_items := CASE WHEN max_items > 0 THEN least(max_items, 9223372036854775806) - items_before
		ELSE 9223372036854775806 END;
	plain := as_stored AND newest = at_version AND terms = '{}' AND field_name IS NULL
		AND label_selector = '' AND field_selector = '';
	LOOP
		more := false;
		IF plain THEN
			most_rows := least(window_rows, fitting_rows, most_items - items);
			-- The row that makes the piece full, or the last one of the window.  None: all that follow fit.
			SELECT k.namespace, k.name, k.number, k.filled INTO edge_namespace, edge_name, rows_found, size
				FROM (SELECT o.namespace, o.name, row_number() OVER forward AS number,
						sum(o.size) OVER forward AS filled
					FROM (SELECT o.namespace, o.name, envelope_bytes + kube_reports.document_size(o.metadata)
							+ CASE WHEN needs_body THEN kube_reports.document_size(o.body) ELSE 0 END AS size
						FROM kube_reports.object o
						WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
							AND (o.namespace, o.name) > (after_namespace, after_name)
							AND o.namespace <= coalesce(only_namespace, '~')
							AND (only_namespace IS NULL OR o.namespace = only_namespace)
						ORDER BY o.namespace, o.name
						LIMIT most_rows) o
					WINDOW forward AS (ORDER BY o.namespace, o.name ROWS UNBOUNDED PRECEDING)) k
				WHERE k.filled >= piece_bytes - bytes OR k.number = most_rows
				ORDER BY k.namespace, k.name
				LIMIT 1;
			more := FOUND;
			-- Through variables of this function, the rows would take a third longer.
			RETURN QUERY
			SELECT NULL::integer, NULL::text, NULL::integer, NULL::text[], NULL::bytea, NULL::text, NULL::text,
				o.version, o.metadata, kube_reports_internal.stored_bytes(
					CASE WHEN needs_body THEN o.body ELSE NULL::kube_reports.report END), NULL::text, NULL::bigint
				FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND (o.namespace, o.name) > (after_namespace, after_name)
					AND o.namespace <= coalesce(only_namespace, '~')
					AND (only_namespace IS NULL OR o.namespace = only_namespace)
				ORDER BY o.namespace, o.name
				LIMIT coalesce(rows_found, most_rows);
			GET DIAGNOSTICS rows_found = ROW_COUNT;
			items := items + rows_found;
			bytes := bytes + coalesce(size, 0);
			IF more THEN
				after_namespace := edge_namespace;
				after_name := edge_name;
			END IF;
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
					IF as_stored THEN
						version := stored.version;
						metadata := stored.metadata;
						document := kube_reports_internal.stored_bytes(stored.body);
						bytes := bytes + envelope_bytes + kube_reports.document_size(metadata)
							+ coalesce(kube_reports.document_size(stored.body), 0);
					ELSE
						body := kube_reports_internal.render_item(target.definition_id, target.definition, transform,
							initial_events, items_before + items > 0 AND NOT initial_events,
							stored.metadata, stored.body, stored.version);
						bytes := bytes + octet_length(body);
						-- Only the first event of a table has its columns.
						transform := replace(transform, '+columns', '');
					END IF;
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

	body := NULL;
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
	IF renders AND NOT initial_events THEN
		body := kube_reports_internal.render_list(target.definition_id, target.definition, transform, 't', at_version,
			continue_token, remaining);
	END IF;
	RETURN NEXT;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_list(uuid, jsonb, text, text, text, text, text, boolean, text, text[],
	text, text, bigint, bigint, bigint, boolean, boolean, text, text, bigint, kube_reports_internal.caller)
	IS 'answers a list, piece by piece. The first row is a reply, and its body continues in the following rows; call '
		'again with the next_cursor of the last row until it is null. For a watch request: its initial events as '
		'frames. If envelope is not null (transform, apiVersion, kind, and first, next or event), items come as they '
		'are stored, and the caller renders them. request null: the caller has planned the list, passes the plan in '
		'the further arguments, and renders everything; the last row has the version of the list, continue_token '
		'(empty: no page follows) and the number of remaining objects. at_version null: the newest state; with '
		'newest_only a standby refuses to answer';

-- Counts the objects of the state at a version behind a key: the objects stored now, minus the objects created later,
-- plus the objects deleted later.  The API allows the server to omit the number.  It is omitted above 2,000, where
-- counting would take longer than reading the page.
CREATE FUNCTION kube_reports_internal.count_after(target_cluster integer, target_type integer,
	target_lane integer, at_version bigint,
		only_namespace text, after_namespace text, after_name text) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than the planner's statistics: force an index lookup of its end.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET max_parallel_workers_per_gather = 0
SET jit = off
AS $$
DECLARE
	most		CONSTANT integer := 2000;
	stored		bigint;
	changes		bigint;
	difference	bigint;
BEGIN
	SELECT count(*) INTO stored FROM (SELECT FROM kube_reports.object o
		WHERE o.cluster_id = target_cluster AND o.resource_type = target_type
			AND (only_namespace IS NULL OR o.namespace = only_namespace)
			AND (o.namespace, o.name) > (after_namespace, after_name)
		ORDER BY o.namespace, o.name LIMIT most + 1) o;
	SELECT count(*), coalesce(sum(CASE c.operation WHEN 'A' THEN -1 WHEN 'D' THEN 1 ELSE 0 END), 0)
		INTO changes, difference
		FROM (SELECT c.operation FROM kube_reports_internal.change c
			WHERE c.lane = target_lane AND c.version > at_version
				AND (only_namespace IS NULL OR c.namespace = only_namespace)
				AND (c.namespace, c.name) > (after_namespace, after_name)
			ORDER BY c.version LIMIT most + 1) c;
	RETURN CASE WHEN stored <= most AND changes <= most THEN stored + difference END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.count_after(integer, integer, integer, bigint, text, text, text)
	IS 'the number of objects behind a key in the state at a version (remainingItemCount); null if there are more '
		'than 2,000';

