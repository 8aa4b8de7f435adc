-- results.sql
--	  Export of results and history: by COPY, and by the proxy.
--
-- The function for SQL and the function for proxies return the same bytes: columns are texts, numbers and JSON that no
-- setting of a session changes, and times are in UTC.
--
-- An event is a row of history.  Its id, version and key, is its place in
-- history's order: versions of a lane become visible in their order, but lanes
-- do not wait for each other, and a result that has disappeared may come back
-- until it has settled.  So a follower of history reads up to a horizon below
-- which no more events can appear (event_horizon()), and continues after the
-- last id.

---- exported rows ----

CREATE FUNCTION kube_reports_internal.utc_text(at timestamptz) RETURNS text
LANGUAGE sql STABLE
RETURN to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
COMMENT ON FUNCTION kube_reports_internal.utc_text(timestamptz) IS 'a time in RFC 3339, in UTC, with microseconds';

CREATE TYPE kube_reports.exported_result AS (
	cluster		uuid,
	cluster_name text,
	namespace	text,
	report_group text,
	report_resource text,
	report		text,
	source		text,
	policy		text,
	rule		text,
	category	text,
	severity	text,
	status		text,
	native_status text,
	score		numeric,
	subject_api_version text,
	subject_kind text,
	subject_namespace text,
	subject_name text,
	subject_uid text,
	message		text,
	properties	jsonb,
	exceptions	jsonb,
	first_seen	text,
	since		text
);
COMMENT ON TYPE kube_reports.exported_result IS 'a result as exports have it; typed_result explains the columns';

CREATE TYPE kube_reports.exported_event AS (
	id			text,
	at			text,
	cluster		uuid,
	cluster_name text,
	namespace	text,
	report_group text,
	report_resource text,
	report		text,
	source		text,
	policy		text,
	rule		text,
	category	text,
	severity	text,
	subject_api_version text,
	subject_kind text,
	subject_namespace text,
	subject_name text,
	subject_uid text,
	old_status	text,
	new_status	text,
	first_seen	text,
	old_since	text,
	actor		text
);
COMMENT ON TYPE kube_reports.exported_event
	IS 'an event of history as exports have it; result_event explains the columns';

CREATE FUNCTION kube_reports_internal.csv_line(line json) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT string_agg(CASE WHEN e.value = '' OR e.value ~ '[",\n\r]' THEN '"' || replace(e.value, '"', '""') || '"'
		ELSE coalesce(e.value, '') END, ','
		ORDER BY e.ordinality)
	FROM json_each_text(line) WITH ORDINALITY e(key, value, ordinality);
END;
COMMENT ON FUNCTION kube_reports_internal.csv_line(json)
	IS 'the members of an object as a line of CSV, as COPY writes a row: quoted where needed, null as nothing, an '
		'empty text as a pair of quotes';

---- places in history ----

CREATE FUNCTION kube_reports_internal.event_id(version bigint, key bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN version || '-' || lpad(to_hex(key), 16, '0');
COMMENT ON FUNCTION kube_reports_internal.event_id(bigint, bigint)
	IS 'the id of an event: the version of its report''s change, and its result''s key in hexadecimal digits';

CREATE FUNCTION kube_reports_internal.event_place(id text, OUT version bigint, OUT key bigint)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF id !~ '^[0-9]{1,18}-[0-9a-f]{16}$' THEN
		RAISE EXCEPTION 'this is no id of an event: %', left(id, 100) USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Give the id of the last event that came.';
	END IF;
	version := split_part(id, '-', 1)::bigint;
	key := ('x' || split_part(id, '-', 2))::bit(64)::bigint;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.event_place(text)
	IS 'the version and the key in the id of an event. Raises 22023';

-- A writer draws a version while it holds the lock of the lane or of the store, and holds that lock until the version
-- is visible.  So the function first reads the newest version drawn, then the locks held, then the visible versions.  A
-- version drawn before the first step is visible in the third step, unless the second step saw the lock of its writer.
-- In a locked lane, everything is visible up to the newest visible version of the lane.  In a lane with few writes,
-- that version may be old.  So the function looks at such lanes again: most writers end in a moment.
CREATE FUNCTION kube_reports_internal.event_horizon(cluster_ids integer[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	looks CONSTANT integer := 20;
	newest		bigint;
	locked		oid[];
	-- Lanes in which a version up to the newest may still become visible.
	pending		integer[];
BEGIN
	IF pg_is_in_recovery() OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
		THEN
		RAISE EXCEPTION 'history can only be followed in READ COMMITTED transactions on a primary server'
			USING ERRCODE = 'feature_not_supported',
			HINT = 'The view result_event shows what there is everywhere.';
	END IF;
	-- Versions and locks of a subscriber say nothing about the writers of its publisher.
	IF EXISTS (SELECT FROM pg_subscription_rel r WHERE r.srrelid = 'kube_reports.object'::regclass) THEN
		RAISE EXCEPTION 'history cannot be followed on a subscriber of logical replication'
			USING ERRCODE = 'feature_not_supported',
			HINT = 'Follow it at the publisher. The view result_event shows what there is everywhere.';
	END IF;
	SELECT s.last_value INTO newest FROM kube_reports_internal.version_seq s;
	FOR look IN 1..looks LOOP
		IF look > 1 THEN
			PERFORM pg_sleep(0.005);
		END IF;
		locked := ARRAY(SELECT l.objid FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' AND l.objsubid = 2
				AND l.classid = kube_reports_internal.lock_class()::oid
				AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
		pending := ARRAY(SELECT l.id FROM kube_reports_internal.lane l
			WHERE l.cluster_id = ANY (cluster_ids) AND (pending IS NULL OR l.id = ANY (pending))
				AND (l.id::oid = ANY (locked) OR kube_reports_internal.store_lock()::oid = ANY (locked))
				AND kube_reports_internal.lane_version(l.id) < newest);
		EXIT WHEN pending = '{}';
	END LOOP;
	-- The history of large reports is written after their changes.
	RETURN least(newest, (SELECT min(kube_reports_internal.lane_version(l.id)) FROM kube_reports_internal.lane l
		WHERE l.id = ANY (pending)),
		(SELECT min(p.first) - 1 FROM kube_reports_internal.result_pending p
			JOIN kube_reports_internal.lane l ON l.id = p.lane
			WHERE l.cluster_id = ANY (cluster_ids)));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.event_horizon(integer[])
	IS 'a version up to which no further event can appear in the history of some clusters, except for results that '
		'have disappeared and settle. Raises 0A000 on a standby, on a subscriber and in transactions that are not READ '
		'COMMITTED';

-- An event of a result that disappeared waits until settles_at, and later events wait with it: no id may appear before
-- an id that was already returned.
CREATE FUNCTION kube_reports_internal.settled_horizon(cluster_ids integer[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	horizon		bigint := kube_reports_internal.event_horizon(cluster_ids);
BEGIN
	-- settle_window is at most a day.
	RETURN least(horizon, (SELECT min(h.version) - 1 FROM kube_reports_internal.report_change h
		WHERE h.settles_at > now() AND h.at > now() - interval '1 day' AND h.cluster_id = ANY (cluster_ids)));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.settled_horizon(integer[])
	IS 'a version up to which the history of some clusters is final';

---- filters of events ----

CREATE TYPE kube_reports_internal.event_filter AS (
	clusters	integer[],
	namespaces	text[],
	reports		text[],
	sources		text[],
	policies	text[],
	rules		text[],
	categories	text[],
	severities	text[],
	statuses	text[],
	old_statuses text[],
	subject_kinds text[],
	subject_namespaces text[],
	subject_names text[],
	from_time	timestamptz,
	to_time		timestamptz,
	new_only	boolean,
	scope_clusters integer[],
	scope_namespace_clusters integer[],
	scope_namespaces text[]
);
COMMENT ON TYPE kube_reports_internal.event_filter
	IS 'a filter of events, checked. Null: no condition; only clusters is never null. new_only: the old status is '
		'none of statuses, which is not null then';

-- Times are read independently of the session's settings.
CREATE FUNCTION kube_reports_internal.read_event_filter(filter jsonb) RETURNS kube_reports_internal.event_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, MDY'
AS $$
DECLARE
	-- Empty: no status, because the result appeared or disappeared.
	statuses CONSTANT text[] := kube_reports_internal.status_words() || ''::text;
	wanted		kube_reports_internal.event_filter;
	given		text[];
BEGIN
	filter := kube_reports_internal.checked_filter(filter,
		ARRAY['cluster', 'cluster_labels', 'namespace', 'report', 'source', 'policy', 'rule', 'category', 'severity',
		'status', 'old_status', 'subject_kind', 'subject_namespace', 'subject_name', 'from', 'to'],
		'the filter has', 'docs/export.md lists the members of a filter of events.');
	given := kube_reports_internal.filter_clusters(filter);
	wanted.clusters := ARRAY(SELECT c.id FROM kube_reports.cluster c WHERE given IS NULL OR c.uid::text = ANY (given)
		OR c.name = ANY (given) ORDER BY c.id);
	wanted.namespaces := kube_reports_internal.filter_strings(filter, 'namespace');
	wanted.reports := kube_reports_internal.filter_strings(filter, 'report');
	wanted.sources := kube_reports_internal.filter_strings(filter, 'source');
	wanted.policies := kube_reports_internal.filter_strings(filter, 'policy');
	wanted.rules := kube_reports_internal.filter_strings(filter, 'rule');
	wanted.categories := kube_reports_internal.filter_strings(filter, 'category');
	wanted.severities := kube_reports_internal.filter_words(filter, 'severity', kube_reports_internal.severity_words());
	wanted.statuses := kube_reports_internal.filter_words(filter, 'status', statuses);
	wanted.old_statuses := kube_reports_internal.filter_words(filter, 'old_status', statuses);
	wanted.subject_kinds := kube_reports_internal.filter_strings(filter, 'subject_kind');
	wanted.subject_namespaces := kube_reports_internal.filter_strings(filter, 'subject_namespace');
	wanted.subject_names := kube_reports_internal.filter_strings(filter, 'subject_name');
	BEGIN
		wanted.from_time := (filter->>'from')::timestamptz;
		wanted.to_time := (filter->>'to')::timestamptz;
	EXCEPTION WHEN data_exception THEN
		RAISE EXCEPTION 'a member of the filter has the wrong form: %', SQLERRM
			USING ERRCODE = 'invalid_parameter_value', HINT = 'Times are such as "2026-01-31T12:00:00Z".';
	END;
	PERFORM kube_reports_internal.checked_range('from', wanted.from_time, 'to', wanted.to_time);
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.read_event_filter(jsonb)
	IS 'a filter of events, checked. Raises 22023 for members that are unknown or of another form';

---- the next events ----

-- A step reads at most max_rows rows of history, however few of them match.
CREATE FUNCTION kube_reports_internal.next_events(wanted kube_reports_internal.event_filter, after_version bigint,
	after_key bigint, horizon bigint, max_rows integer,
		OUT events kube_reports.exported_event[], OUT origins bigint[], OUT last_version bigint,
			OUT last_key bigint, OUT more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- A filter leaves out most of its members: a plan for its values leaves out their conditions, too.  A place in
-- history is near the end or far from it.
SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	WITH scanned AS MATERIALIZED (
		SELECT h.*
		FROM unnest(wanted.clusters) i(id) CROSS JOIN LATERAL (
			SELECT h.* FROM kube_reports_internal.result_change h
			WHERE h.cluster_id = i.id AND h.version >= after_version AND (h.version, h.key) > (after_version, after_key)
				AND h.version <= horizon
				AND h.at >= coalesce(wanted.from_time, '-infinity') AND h.at < coalesce(wanted.to_time, 'infinity')
			ORDER BY h.version, h.key LIMIT max_rows) h
		ORDER BY h.version, h.key LIMIT max_rows
	), matching AS (
		SELECT h.version, h.key, h.origin,
			ROW(kube_reports_internal.event_id(h.version, h.key), kube_reports_internal.utc_text(h.at), c.uid, c.name,
				h.namespace, t."group", t.plural, g.name,
				k.source, k.policy, k.rule, k.category, k.severity, s.api_version, s.kind, s.namespace, s.name, s.uid,
				kube_reports_internal.status_name(h.old_status), kube_reports_internal.status_name(h.new_status),
				kube_reports_internal.utc_text(h.first_seen), kube_reports_internal.utc_text(h.old_since),
					a.name)::kube_reports.exported_event AS event
		FROM scanned h
			JOIN kube_reports.cluster c ON c.id = h.cluster_id
			JOIN kube_reports_internal.criterion k ON k.id = h.criterion
			LEFT JOIN kube_reports_internal.subject s ON s.id = h.subject
			LEFT JOIN kube_reports_internal.origin g ON g.id = h.origin
			LEFT JOIN kube_reports.resource_type t ON t.id = g.resource_type
			LEFT JOIN kube_reports_internal.actor a ON a.id = h.actor
		WHERE (h.settles_at IS NULL OR h.settles_at <= now())
			AND (wanted.scope_clusters IS NULL OR h.cluster_id = ANY (wanted.scope_clusters)
				OR (h.cluster_id, h.namespace) IN
				(SELECT * FROM unnest(wanted.scope_namespace_clusters, wanted.scope_namespaces)))
			AND (wanted.new_only IS NULL OR h.old_status IS NULL
				OR kube_reports_internal.status_name(h.old_status) <> ALL (wanted.statuses))
			AND (wanted.namespaces IS NULL OR h.namespace = ANY (wanted.namespaces))
			AND (wanted.reports IS NULL OR g.name = ANY (wanted.reports))
			AND (wanted.sources IS NULL OR k.source = ANY (wanted.sources))
			AND (wanted.policies IS NULL OR k.policy = ANY (wanted.policies))
			AND (wanted.rules IS NULL OR k.rule = ANY (wanted.rules))
			AND (wanted.categories IS NULL OR k.category = ANY (wanted.categories))
			AND (wanted.severities IS NULL OR k.severity = ANY (wanted.severities))
			AND (wanted.statuses IS NULL OR coalesce(kube_reports_internal.status_name(h.new_status),
				'') = ANY (wanted.statuses))
			AND (wanted.old_statuses IS NULL OR coalesce(kube_reports_internal.status_name(h.old_status),
				'') = ANY (wanted.old_statuses))
			AND (wanted.subject_kinds IS NULL OR s.kind = ANY (wanted.subject_kinds))
			AND (wanted.subject_namespaces IS NULL OR s.namespace = ANY (wanted.subject_namespaces))
			AND (wanted.subject_names IS NULL OR s.name = ANY (wanted.subject_names))
	), seen AS (
		SELECT count(*) AS count, (array_agg(h.version ORDER BY h.version DESC, h.key DESC))[1] AS version,
			(array_agg(h.key ORDER BY h.version DESC, h.key DESC))[1] AS key
		FROM scanned h
	)
	SELECT coalesce(m.events, '{}'), coalesce(m.origins, '{}'), n.version, n.key, n.count = max_rows
		INTO events, origins, last_version, last_key, more
		FROM seen n, (SELECT array_agg(m.event ORDER BY m.version, m.key) AS events,
			array_agg(m.origin ORDER BY m.version, m.key) AS origins
			FROM matching m) m;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.next_events(kube_reports_internal.event_filter, bigint,
	bigint, bigint, integer)
	IS 'events behind a place, up to a horizon, in order, with the origins of their results: the events that match '
		'among the next max_rows rows of history. last_version and last_key: the last row that was read (null: no '
		'row); more: whether there may be further events';

-- The cursor is the horizon and the place of the last row that was read.
CREATE FUNCTION kube_reports_internal.event_step(wanted kube_reports_internal.event_filter, after text,
	max_rows integer, INOUT "cursor" text,
		OUT events kube_reports.exported_event[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	horizon		bigint;
	place		record;
	step		record;
BEGIN
	IF "cursor" IS NULL THEN
		SELECT e.version, e.key INTO place FROM kube_reports_internal.event_place(coalesce(after, '0-0000000000000000'))
			e;
		horizon := kube_reports_internal.settled_horizon(wanted.clusters);
	ELSE
		SELECT (c.place->>0)::bigint AS horizon, (c.place->>1)::bigint AS version,
			(c.place->>2)::bigint AS key INTO place
			FROM (SELECT "cursor"::jsonb AS place) c;
		horizon := place.horizon;
	END IF;
	step := kube_reports_internal.next_events(wanted, place.version, place.key, horizon, max_rows);
	events := step.events;
	"cursor" := CASE WHEN step.more THEN jsonb_build_array(horizon, step.last_version, step.last_key)::text END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.event_step(kube_reports_internal.event_filter, text, integer, text)
	IS 'the next events behind an id (null: from the beginning), step by step: call again with the cursor until it is '
		'null. All steps share the horizon of the first one. Raises 22023 for a wrong id';

---- the next results ----

-- A step ends early if messages and properties are large: after the first result with which their stored bytes exceed
-- max_bytes.
CREATE FUNCTION kube_reports_internal.result_step(wanted kube_reports_internal.result_filter,
	max_rows integer, INOUT "cursor" text,
		OUT results kube_reports.exported_result[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_bytes CONSTANT integer := 1048576;
BEGIN
	SELECT coalesce(array_agg(ROW(f.cluster, f.cluster_name, f.namespace, f.report_group, f.report_resource, f.report,
		f.source, f.policy, f.rule,
				f.category, f.severity, f.status, f.native_status, f.score::numeric, f.subject_api_version,
					f.subject_kind, f.subject_namespace,
				f.subject_name, f.subject_uid, f.message, f.properties, to_jsonb(f.exceptions),
					kube_reports_internal.utc_text(f.first_seen),
				kube_reports_internal.utc_text(f.since))::kube_reports.exported_result ORDER BY f.ordinality), '{}'),
			CASE WHEN count(*) = max_rows OR count(*) < max(f.found)
				THEN (array_agg(f.place ORDER BY f.ordinality DESC))[1] END
		INTO results, "cursor"
		FROM (SELECT f.*, count(*) OVER () AS found, sum(pg_column_size(f.message) + pg_column_size(f.properties))
				OVER (ORDER BY f.ordinality ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
			FROM kube_reports_internal.matching_results(wanted, max_rows, "cursor") WITH ORDINALITY f) f
		WHERE f.bytes_before IS NULL OR f.bytes_before < max_bytes;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.result_step(kube_reports_internal.result_filter, integer, text)
	IS 'the next results that match a filter of read_filter(), step by step: call again with the cursor until it is '
		'null';

---- for readers ----

CREATE FUNCTION kube_reports_internal.find_exported(role text, seal bytea, filter jsonb, INOUT "cursor" text,
	OUT results kube_reports.exported_result[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT s."cursor", s.results INTO "cursor", results
		FROM kube_reports_internal.result_step(kube_reports_internal.read_filter(filter, role, seal), 10000,
		"cursor") s;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.find_exported(text, bytea, jsonb, text)
	IS 'the half of export_results() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.export_results(filter jsonb DEFAULT '{}') RETURNS SETOF kube_reports.exported_result
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	step		record;
	place		text;
BEGIN
	LOOP
		SELECT f."cursor", f.results INTO step FROM kube_reports_internal.caller c,
			LATERAL kube_reports_internal.find_exported(c.role, c.seal, filter, place) f;
		RETURN QUERY SELECT * FROM unnest(step.results);
		place := step."cursor";
		EXIT WHEN place IS NULL;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports.export_results(jsonb)
	IS 'all results that match a filter of search_results(), in the form of exports and in the order of '
		'search_results(); for COPY. Raises 22023 for a wrong filter';

CREATE FUNCTION kube_reports_internal.find_events(role text, seal bytea, filter jsonb, after text, INOUT "cursor" text,
	OUT events kube_reports.exported_event[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted		kube_reports_internal.event_filter := kube_reports_internal.read_event_filter(filter);
	scope		record := kube_reports_internal.caller_scope(role, seal);
BEGIN
	wanted.scope_clusters := scope.clusters;
	wanted.scope_namespace_clusters := scope.namespace_clusters;
	wanted.scope_namespaces := scope.namespaces;
	IF scope.clusters IS NOT NULL THEN
		wanted.clusters := ARRAY(SELECT c FROM unnest(wanted.clusters) c WHERE c = ANY (scope.clusters)
			OR c = ANY (scope.namespace_clusters));
	END IF;
	SELECT s."cursor", s.events INTO "cursor", events
		FROM kube_reports_internal.event_step(wanted, after, 10000, "cursor") s;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.find_events(text, bytea, jsonb, text, text)
	IS 'the half of export_events() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.export_events(filter jsonb DEFAULT '{}', after text DEFAULT NULL)
	RETURNS SETOF kube_reports.exported_event
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	step		record;
	place		text;
BEGIN
	LOOP
		SELECT f."cursor", f.events INTO step FROM kube_reports_internal.caller c,
			LATERAL kube_reports_internal.find_events(c.role, c.seal, filter, after, place) f;
		RETURN QUERY SELECT * FROM unnest(step.events);
		place := step."cursor";
		EXIT WHEN place IS NULL;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports.export_events(jsonb, text)
	IS 'all events of history that are final and match a filter, after the event with an id (null: from the '
		'beginning), in the order of their ids; for COPY. Raises 22023 for a wrong filter or id, 0A000 on a standby, '
		'on a subscriber and in transactions that are not READ COMMITTED';

---- for the proxy ----

CREATE FUNCTION kube_reports_internal.export_body(format text, first boolean, lines json[], header json) RETURNS bytea
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT convert_to(concat(
		CASE WHEN format = 'csv' AND first THEN (SELECT string_agg(k, ',' ORDER BY ordinality)
			FROM json_object_keys(header) WITH ORDINALITY h(k, ordinality)) || E'\n' END,
		(SELECT string_agg(CASE format WHEN 'csv' THEN kube_reports_internal.csv_line(l.line) ELSE l.line::text END
			|| E'\n', '' ORDER BY l.ordinality)
			FROM unnest(lines) WITH ORDINALITY l(line, ordinality))), 'UTF8');
END;
COMMENT ON FUNCTION kube_reports_internal.export_body(text, boolean, json[], json)
	IS 'lines in a format (csv or jsonl); header: an object with the members of a line, for the first line of CSV';

CREATE FUNCTION kube_reports_internal.export_request(request text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	asked		jsonb;
	filter		jsonb;
BEGIN
	BEGIN
		asked := request::jsonb;
	EXCEPTION WHEN data_exception THEN
		-- Valid JSON, but with a text or number that this database cannot store.
		RAISE EXCEPTION 'the parameters cannot be looked for: %', SQLERRM USING ERRCODE = 'invalid_parameter_value',
			HINT = 'PostgreSQL stores no NUL in a text, and no number above its range.';
	END;
	filter := coalesce(asked->'filter', '{}');
	IF asked->>'what' IN ('results', 'events') AND filter ?| '{cluster,cluster_labels}' THEN
		RAISE EXCEPTION 'the filter has no member "%"', CASE WHEN filter ? 'cluster' THEN 'cluster'
			ELSE 'cluster_labels' END USING ERRCODE = 'invalid_parameter_value',
			HINT = 'An export is of the cluster of its proxy; /v1/fleet/... answers for several.';
	END IF;
	RETURN asked || jsonb_build_object('filter', filter);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.export_request(text)
	IS 'the request of an export as api_export() gets it, with a filter. Raises 22023 for what no database can store '
		'and for filters that name clusters';

CREATE FUNCTION kube_reports_internal.export_lines(served integer, caller kube_reports_internal.caller, asked jsonb,
	"cursor" text, OUT next_cursor text, OUT lines json[], OUT header json)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- page_rows: about a megabyte of results.  step_rows: rows of history that one step reads.
	page_rows CONSTANT integer := 1500;
	step_rows CONSTANT integer := 5000;
	only_namespace CONSTANT text := asked->>'namespace';
	owner		record;
	results		kube_reports_internal.result_filter;
	events		kube_reports_internal.event_filter;
BEGIN
	IF asked->>'what' = 'results' THEN
		SELECT c.role, c.seal INTO owner FROM kube_reports_internal.caller c;
		results := kube_reports_internal.read_filter(asked->'filter', owner.role, owner.seal);
		results.clusters := ARRAY[served];
		IF only_namespace IS NOT NULL THEN
			results.scope_clusters := '{}';
			results.scope_namespace_clusters := ARRAY[served];
			results.scope_namespaces := ARRAY[only_namespace];
		END IF;
		SELECT s."cursor", ARRAY(SELECT to_json(r) FROM unnest(s.results) r) INTO next_cursor, lines
			FROM kube_reports_internal.result_step(results, page_rows, "cursor") s;
		header := to_json(json_populate_record(NULL::kube_reports.exported_result, '{}'));
	ELSE
		events := kube_reports_internal.read_event_filter(asked->'filter');
		events.clusters := CASE asked->>'what' WHEN 'events' THEN ARRAY[served]
			ELSE ARRAY(SELECT c FROM unnest(events.clusters) c
				WHERE c = ANY (kube_reports_internal.fleet_scope(served, caller))) END;
		IF only_namespace IS NOT NULL THEN
			events.scope_clusters := '{}';
			events.scope_namespace_clusters := ARRAY[served];
			events.scope_namespaces := ARRAY[only_namespace];
		END IF;
		SELECT s."cursor", ARRAY(SELECT to_json(e) FROM unnest(s.events) e) INTO next_cursor, lines
			FROM kube_reports_internal.event_step(events, asked->>'after', step_rows, "cursor") s;
		header := to_json(json_populate_record(NULL::kube_reports.exported_event, '{}'));
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.export_lines(integer, kube_reports_internal.caller, jsonb, text)
	IS 'a page of results or events for api_export(), and a row without values, whose members are the columns';

-- The request contains one cluster: the cluster of the proxy.  It also contains the namespace for which the client was
-- authorized, if it was authorized for a single namespace only.
CREATE FUNCTION kube_reports_internal.api_export(cluster uuid, request text, "cursor" text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[],
			OUT body bytea, OUT next_cursor text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	asked		jsonb;
	filter		jsonb;
	format		text;
	served		integer := (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = api_export.cluster
		AND kube_reports_internal.may_serve(c.id, caller));
	reporting	integer;
	lines		json[];
	header		json;
	hint		text;
BEGIN
	IF served IS NULL THEN
		RAISE EXCEPTION 'role "%" may not serve cluster %', caller.role, cluster
			USING ERRCODE = 'insufficient_privilege', HINT = kube_reports_internal.serve_hint(caller, cluster);
	END IF;
	BEGIN
		asked := kube_reports_internal.export_request(request);
		filter := asked->'filter';
		format := asked->>'format';
		IF asked->>'what' = 'policy-reporter' THEN
			reporting := kube_reports_internal.reporter_cluster(asked->>'cluster', served, caller);
			IF reporting IS NULL THEN
				code := 404;
				content_type := 'application/json';
				body := kube_reports_internal.status_document(404, 'NotFound', format(
					'no cluster that is seen here is called "%s", or several are', left(asked->>'cluster', 100)), NULL);
				RETURN;
			END IF;
			SELECT p."cursor", p.code, p.body INTO next_cursor, code, body
				FROM kube_reports_internal.reporter_piece(asked, reporting, "cursor") p;
			content_type := 'application/json';
			RETURN;
		END IF;
		IF asked->>'what' LIKE 'fleet/%' AND asked->>'what' <> 'fleet/events' THEN
			SELECT p."cursor", p.body INTO next_cursor, body FROM kube_reports_internal.fleet_piece(served, caller,
				asked->>'what', filter, format, "cursor") p;
		ELSE
			SELECT l.next_cursor, l.lines, l.header INTO next_cursor, lines, header
				FROM kube_reports_internal.export_lines(served, caller, asked, "cursor") l;
			body := kube_reports_internal.export_body(format, "cursor" IS NULL, lines, header);
		END IF;
		code := 200;
		content_type := CASE format WHEN 'csv' THEN 'text/csv; charset=utf-8; header=present'
			WHEN 'json' THEN 'application/json' ELSE 'application/x-ndjson' END;
	EXCEPTION WHEN invalid_parameter_value THEN
		GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
		code := 400;
		content_type := 'application/json';
		body := kube_reports_internal.status_document(400, 'BadRequest',
			concat_ws('. ', SQLERRM, nullif(hint, '')), NULL);
		next_cursor := NULL;
	END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_export(uuid, text, text, kube_reports_internal.caller)
	IS 'results or events of a cluster as JSON lines or CSV, piece by piece: call again with next_cursor until it is '
		'null. request: {"what": "results", "events" or "fleet/...", "format": "jsonl", "csv", or of a fleet "json", '
		'"namespace": the only one, "filter": {}, "after": id of an event}. fleet/... is about the clusters of '
		'fleet_scope(). "what": "policy-reporter": see reporter_piece(), and "cluster": the uid or name of another one '
		'of these clusters';
