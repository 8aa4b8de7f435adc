-- fleet.sql
--	  Answers about many clusters for the proxy: /v1/fleet/...
--
-- A proxy serves one cluster, and its role is bound to that cluster.  About other clusters, the proxy answers with the
-- data that its role may read as a reader of whole clusters.  An administrator who grants the role this right
-- (grant_clusters(), grant_reader()) makes the proxy a place from which a fleet can be queried.
--
-- Each line has a place, and lines are sorted by place.  A piece begins behind the place of the last line of the piece
-- before.

CREATE FUNCTION kube_reports_internal.fleet_scope(served integer, caller kube_reports_internal.caller)
	RETURNS integer[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	scope		record := kube_reports_internal.caller_scope(caller.role, caller.seal);
BEGIN
	RETURN ARRAY(SELECT c.id FROM kube_reports.cluster c
		WHERE NOT c.removing AND (c.id = served OR scope.clusters IS NULL OR c.id = ANY (scope.clusters))
		ORDER BY c.id);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_scope(integer, kube_reports_internal.caller)
	IS 'the clusters about which a proxy answers: the cluster that it serves, and the clusters that its role reads '
		'whole';

CREATE FUNCTION kube_reports_internal.fleet_columns(what text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT string_to_array(CASE what
		WHEN 'fleet/clusters' THEN
			'cluster cluster_name labels last_seen silent_seconds reports evaluated_at oldest_evaluation'
		WHEN 'fleet/matrix' THEN 'source policy rule cluster cluster_name pass warn fail error skip'
		WHEN 'fleet/scores' THEN
			'day cluster cluster_name pass warn fail error skip excluded score weighted_score'
		WHEN 'fleet/score' THEN 'day pass warn fail error skip excluded failing critical high medium low other score '
			'weighted_score'
		WHEN 'fleet/drift' THEN 'source policy rule pass_a failing_a pass_b failing_b'
		WHEN 'fleet/remediations' THEN 'cluster cluster_name namespace remediation state wanted type outdated error '
			'object_kind object_name suite scan' END, ' ');
END;
COMMENT ON FUNCTION kube_reports_internal.fleet_columns(text) IS 'the members of a line of an answer about a fleet';

-- PostgreSQL reads more forms of days, and 01.10.2026 as the first of October or the tenth of January, by a setting.
CREATE FUNCTION kube_reports_internal.fleet_day(filter jsonb, member text, otherwise date) RETURNS date
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given CONSTANT text := filter->>member;
BEGIN
	IF given !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN
		RAISE invalid_datetime_format;
	END IF;
	RETURN coalesce(given::date, otherwise);
EXCEPTION WHEN data_exception THEN
	RAISE EXCEPTION 'member "%" of the filter is no day: "%"', member, given
		USING ERRCODE = 'invalid_parameter_value', HINT = 'Days are such as 2026-01-31.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_day(jsonb, text, date)
	IS 'the day in a member of a filter, or the default day. Raises 22023';

CREATE FUNCTION kube_reports_internal.fleet_cluster(filter jsonb, member text, clusters uuid[]) RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found		uuid[] := ARRAY(SELECT c.uid FROM kube_reports.cluster c
		WHERE c.uid = ANY (clusters) AND filter->>member IN (c.uid::text, c.name));
BEGIN
	IF cardinality(found) <> 1 THEN
		RAISE EXCEPTION 'member "%" of the filter names no cluster, or several', member
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Give the uid or the name of a cluster that is seen here.';
	END IF;
	RETURN found[1];
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_cluster(jsonb, text, uuid[])
	IS 'the one cluster that a member of a filter names, by uid or name. Raises 22023';

CREATE FUNCTION kube_reports_internal.checked_fleet_filter(what text, filter jsonb) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT kube_reports_internal.checked_filter(filter, ARRAY['cluster', 'cluster_labels'] || CASE what
			WHEN 'fleet/matrix' THEN ARRAY['source', 'policy', 'rule', 'status']
			WHEN 'fleet/scores' THEN ARRAY['from', 'to']
			WHEN 'fleet/score' THEN ARRAY['from', 'to', 'source']
			WHEN 'fleet/drift' THEN ARRAY['a', 'b', 'source', 'policy', 'rule']
			WHEN 'fleet/remediations' THEN ARRAY['namespace', 'state', 'suite', 'scan']
			ELSE '{}' END, 'the filter has', 'docs/fleet.md lists the parameters.');
END;
COMMENT ON FUNCTION kube_reports_internal.checked_fleet_filter(text, jsonb)
	IS 'the filter of an answer about a fleet, checked. Raises 22023 for unknown members';

-- These functions run as the owner, so the views show every cluster; the argument clusters limits the rows.
CREATE FUNCTION kube_reports_internal.fleet_rule_lines(what text, clusters uuid[], filter jsonb)
	RETURNS TABLE (place text[], line json)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A filter leaves out most of its members: a plan for its values leaves out their conditions, too.  Until upkeep has
-- analyzed new criteria, the planner expects one criterion where there are thousands.  With a filter on the criterion
-- it would then read all counts again for each criterion; so it must use a hash table.
SET plan_cache_mode = force_custom_plan
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
	sources		text[] := kube_reports_internal.filter_strings(filter, 'source');
	policies	text[] := kube_reports_internal.filter_strings(filter, 'policy');
	rules		text[] := kube_reports_internal.filter_strings(filter, 'rule');
	statuses	text[] := kube_reports_internal.filter_words(filter, 'status', kube_reports_internal.status_words());
BEGIN
	CASE what
		WHEN 'fleet/matrix' THEN
			RETURN QUERY SELECT ARRAY[l.source, l.policy, l.rule, l.cluster::text], to_json(l)
				FROM (SELECT m.source, m.policy, m.rule, m.cluster, m.cluster_name, m.pass, m.warn, m.fail, m.error,
						m.skip
					FROM kube_reports.fleet_matrix m
					WHERE m.cluster = ANY (clusters) AND (sources IS NULL OR m.source = ANY (sources))
						AND (policies IS NULL OR m.policy = ANY (policies)) AND (rules IS NULL OR m.rule = ANY (rules))
						AND (statuses IS NULL OR 'pass' = ANY (statuses) AND m.pass > 0
							OR 'warn' = ANY (statuses) AND m.warn > 0 OR 'fail' = ANY (statuses) AND m.fail > 0
							OR 'error' = ANY (statuses) AND m.error > 0
							OR 'skip' = ANY (statuses) AND m.skip > 0)) l;
		WHEN 'fleet/drift' THEN
			RETURN QUERY SELECT ARRAY[l.source, l.policy, l.rule], to_json(l)
				FROM kube_reports.fleet_drift(kube_reports_internal.fleet_cluster(filter, 'a', clusters),
					kube_reports_internal.fleet_cluster(filter, 'b', clusters)) l
				WHERE (sources IS NULL OR l.source = ANY (sources)) AND (policies IS NULL OR l.policy = ANY (policies))
					AND (rules IS NULL OR l.rule = ANY (rules));
		ELSE
			RAISE EXCEPTION 'no lines about rules are called "%"', what USING ERRCODE = 'invalid_parameter_value';
	END CASE;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_rule_lines(text, uuid[], jsonb)
	IS 'the lines of an answer about the policies and rules of some clusters, in no order, with the place of each '
		'line. Raises 22023 for a wrong filter, and for an answer other than fleet/matrix and fleet/drift';

CREATE FUNCTION kube_reports_internal.fleet_lines(what text, clusters uuid[], filter jsonb)
	RETURNS TABLE (place text[], line json)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A filter leaves out most of its members: a plan for its values leaves out their conditions, too.
SET plan_cache_mode = force_custom_plan
SET timezone = 'UTC'
SET jit = off
AS $$
DECLARE
	today CONSTANT date := (now() AT TIME ZONE 'UTC')::date;
	last_day	date := kube_reports_internal.fleet_day(filter, 'to', today);
	first_day	date := kube_reports_internal.fleet_day(filter, 'from', last_day - 29);
	sources		text[] := kube_reports_internal.filter_strings(filter, 'source');
	namespaces	text[] := kube_reports_internal.filter_strings(filter, 'namespace');
	states		text[] := kube_reports_internal.filter_strings(filter, 'state');
	suites		text[] := kube_reports_internal.filter_strings(filter, 'suite');
	scans		text[] := kube_reports_internal.filter_strings(filter, 'scan');
BEGIN
	CASE what
		WHEN 'fleet/clusters' THEN
			RETURN QUERY SELECT ARRAY[l.cluster_name, l.cluster::text], to_json(l)
				FROM (SELECT f.cluster, f.cluster_name, f.labels,
						kube_reports_internal.utc_text(f.last_seen) AS last_seen,
						extract(epoch FROM f.silent_for)::bigint AS silent_seconds, f.reports,
						kube_reports_internal.utc_text(f.evaluated_at) AS evaluated_at,
						kube_reports_internal.utc_text(f.oldest_evaluation) AS oldest_evaluation
					FROM kube_reports.fleet_freshness f WHERE f.cluster = ANY (clusters)) l;
		WHEN 'fleet/matrix', 'fleet/drift' THEN
			RETURN QUERY SELECT l.place, l.line FROM kube_reports_internal.fleet_rule_lines(what, clusters, filter) l;
		WHEN 'fleet/scores' THEN
			RETURN QUERY SELECT ARRAY[l.day::text, l.cluster_name, l.cluster::text], to_json(l)
				FROM (SELECT s.day, s.cluster, s.cluster_name, s.pass, s.warn, s.fail, s.error, s.skip, s.excluded,
						s.score, s.weighted_score
					FROM kube_reports.compliance_score(first_day, last_day) s WHERE s.cluster = ANY (clusters)) l;
		WHEN 'fleet/score' THEN
			-- There is a line for each day, also for days before the store; each piece computes all of them again.
			IF last_day - first_day >= 3660 THEN
				RAISE EXCEPTION 'a period of % days is too long', last_day - first_day + 1
					USING ERRCODE = 'invalid_parameter_value', HINT = 'Ask for at most 3660 days.';
			END IF;
			RETURN QUERY SELECT ARRAY[l.day::text], to_json(l)
				FROM kube_reports.fleet_score(first_day, last_day, jsonb_strip_nulls(jsonb_build_object(
					'cluster', to_jsonb(clusters), 'source', to_jsonb(sources)))) l;
		WHEN 'fleet/remediations' THEN
			RETURN QUERY SELECT
					ARRAY[l.cluster_name, l.cluster::text, l.namespace, l.remediation, coalesce(l.scan, '')], to_json(l)
				FROM kube_reports.remediations l
				WHERE l.cluster = ANY (clusters) AND (namespaces IS NULL OR l.namespace = ANY (namespaces))
					AND (states IS NULL OR l.state = ANY (states)) AND (suites IS NULL OR l.suite = ANY (suites))
					AND (scans IS NULL OR l.scan = ANY (scans));
		ELSE
			RAISE EXCEPTION 'there is no answer "%"', what USING ERRCODE = 'invalid_parameter_value';
	END CASE;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_lines(text, uuid[], jsonb)
	IS 'the lines of an answer about some clusters, in no order, with the place of each line. Raises 22023 for a '
		'wrong filter';

CREATE FUNCTION kube_reports_internal.fleet_body(format text, first boolean, last boolean, lines json[], columns text[])
	RETURNS bytea
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE format WHEN 'json' THEN convert_to(concat(
			CASE WHEN first THEN '{"items":[' WHEN cardinality(lines) > 0 THEN E',\n' END,
			(SELECT string_agg(l.line::text, E',\n' ORDER BY l.ordinality)
				FROM unnest(lines) WITH ORDINALITY l(line, ordinality)),
			CASE WHEN last THEN E']}\n' END), 'UTF8')
		ELSE kube_reports_internal.export_body(format, first, lines, json_object(columns, columns)) END;
END;
COMMENT ON FUNCTION kube_reports_internal.fleet_body(text, boolean, boolean, json[], text[])
	IS 'lines in a format: csv, jsonl, or json, which is one document with the array items. first and last: whether '
		'the lines are the first or the last piece; if there are several pieces, only the last one may be empty';

CREATE FUNCTION kube_reports_internal.fleet_piece(served integer, caller kube_reports_internal.caller, what text,
	filter jsonb, format text, INOUT "cursor" text, OUT body bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- About a megabyte.
	page_rows CONSTANT integer := 4000;
	scope		integer[] := kube_reports_internal.fleet_scope(served, caller);
	given		text[];
	clusters	uuid[];
	after		text[];
	first		boolean := "cursor" IS NULL;
	lines		json[];
	places		jsonb[];
BEGIN
	filter := kube_reports_internal.checked_fleet_filter(what, filter);
	given := kube_reports_internal.filter_clusters(filter);
	clusters := ARRAY(SELECT c.uid FROM kube_reports.cluster c
		WHERE c.id = ANY (scope) AND (given IS NULL OR c.uid::text = ANY (given) OR c.name = ANY (given)));
	IF NOT first THEN
		after := ARRAY(SELECT jsonb_array_elements_text("cursor"::jsonb));
	END IF;
	SELECT coalesce(array_agg(l.line ORDER BY l.n), '{}'), array_agg(to_jsonb(l.place) ORDER BY l.n)
		INTO lines, places
		FROM (SELECT l.line, l.place, row_number() OVER (ORDER BY l.place COLLATE "C") AS n
			FROM kube_reports_internal.fleet_lines(what, clusters, filter) l
			WHERE first OR l.place COLLATE "C" > after
			ORDER BY l.place COLLATE "C" LIMIT page_rows) l;
	"cursor" := CASE WHEN cardinality(lines) = page_rows THEN places[page_rows]::text END;
	body := kube_reports_internal.fleet_body(format, first, "cursor" IS NULL, lines,
		kube_reports_internal.fleet_columns(what));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_piece(integer, kube_reports_internal.caller, text, jsonb, text, text)
	IS 'the next lines of an answer about the clusters of fleet_scope(), piece by piece: call again with the cursor '
		'until it is null. Raises 22023 for a wrong filter';
