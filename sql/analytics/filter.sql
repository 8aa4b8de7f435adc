-- filter.sql
--	  The filter of searches: checks the caller's filter and turns it into conditions of statements.
--
-- A filter is a JSON object.  Members are a string or an array of strings (one of them has to match), unless said
-- otherwise:
--	  cluster (uid or name), cluster_labels (a label selector, one string), namespace,
--	  report, source, policy, rule, category, severity, status, native_status,
--	  subject_kind, subject_namespace, subject_name, subject_uid, exception; exempted (boolean: has exceptions);
--	  score_from, score_to (numbers, inclusive); properties (object, contained in the result's); since_from, since_to,
--	  first_seen_from, first_seen_to (times, the first inclusive, in UTC unless they name a zone); text (string: found
--	  in policy, rule, subject or message, whatever the case).

CREATE TYPE kube_reports_internal.result_filter AS (
	clusters	integer[],
	namespaces	text[],
	reports		text[],
	criteria	bigint[],
	statuses	"char"[],
	native_statuses text[],
	subject_kinds text[],
	subject_namespaces text[],
	subject_names text[],
	subject_uids text[],
	exceptions	text[],
	exempted	boolean,
	score_from	double precision,
	score_to	double precision,
	properties	jsonb,
	since_from	timestamptz,
	since_to	timestamptz,
	first_seen_from timestamptz,
	first_seen_to timestamptz,
	pattern		text,
	text_criteria bigint[],
	text_subjects bigint[],
	text_details bigint[],
	text_detail_criteria bigint[],
	origins		bigint[],
	subjects	bigint[],
	details		bigint[],
	way			text,
	scope_clusters integer[],
	scope_namespace_clusters integer[],
	scope_namespaces text[]
);
COMMENT ON TYPE kube_reports_internal.result_filter
	IS 'a filter of results, checked, with the ids of the rows that its texts match; null: no condition';

CREATE FUNCTION kube_reports_internal.filter_strings(filter jsonb, member text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		jsonb := filter->member;
BEGIN
	CASE jsonb_typeof(given)
		WHEN 'string' THEN
			RETURN ARRAY[filter->>member];
		WHEN 'array' THEN
			IF NOT EXISTS (SELECT FROM jsonb_array_elements(given) e WHERE jsonb_typeof(e) <> 'string') THEN
				RETURN ARRAY(SELECT jsonb_array_elements_text(given));
			END IF;
		WHEN 'null' THEN
			RETURN NULL;
		ELSE
			IF given IS NULL THEN
				RETURN NULL;
			END IF;
	END CASE;
	RAISE EXCEPTION 'member "%" of the filter is neither a string nor an array of strings', member
		USING ERRCODE = 'invalid_parameter_value', HINT = 'Write "value", or ["one value", "another value"].';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.filter_strings(jsonb, text)
	IS 'a member of a filter as an array; null if it is absent or null. Raises 22023 if it is neither a string nor an '
		'array of strings';

-- Inlined into the conditions of searches: the planner sees whether clusters is null.
CREATE FUNCTION kube_reports_internal.in_clusters(clusters text[], cluster uuid, cluster_name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN clusters IS NULL OR cluster::text = ANY (clusters) OR cluster_name = ANY (clusters);
COMMENT ON FUNCTION kube_reports_internal.in_clusters(text[], uuid, text)
	IS 'whether a cluster is among those of a filter, which are uids and names; null: all clusters';

-- Inlined, too.
CREATE FUNCTION kube_reports_internal.is_vulnerability(policy text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN policy ~ '^(CVE|GHSA)-';
COMMENT ON FUNCTION kube_reports_internal.is_vulnerability(text) IS 'whether a policy has the name of a vulnerability';

CREATE FUNCTION kube_reports_internal.filter_clusters(filter jsonb) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		text[] := kube_reports_internal.filter_strings(filter, 'cluster');
BEGIN
	IF coalesce(jsonb_typeof(filter->'cluster_labels'), 'null') = 'null' THEN
		RETURN given;
	ELSIF jsonb_typeof(filter->'cluster_labels') <> 'string' THEN
		RAISE EXCEPTION 'member "cluster_labels" of the filter is no string' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'It is a label selector, such as env=prod,region in (eu,us).';
	END IF;
	RETURN ARRAY(SELECT c.uid::text FROM kube_reports_internal.seen_cluster c
		WHERE kube_reports_internal.labels_match(c.labels, filter->>'cluster_labels')
			AND kube_reports_internal.in_clusters(given, c.uid, c.name));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.filter_clusters(jsonb)
	IS 'the clusters of a filter. With the member cluster_labels: the uids of the clusters that match it, and the '
		'member cluster, if given; otherwise the uids and names in the member cluster; null: all clusters. Raises '
		'22023 for a wrong member or selector';

CREATE FUNCTION kube_reports_internal.checked_filter(filter jsonb, members text[], holder text, hint text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	unknown		text;
BEGIN
	filter := coalesce(filter, '{}');
	IF jsonb_typeof(filter) <> 'object' THEN
		RAISE EXCEPTION 'a filter is a JSON object' USING ERRCODE = 'invalid_parameter_value',
			HINT = checked_filter.hint;
	END IF;
	SELECT m INTO unknown FROM jsonb_object_keys(filter) m WHERE m <> ALL (members) LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION '% no member "%"', holder, unknown USING ERRCODE = 'invalid_parameter_value',
			HINT = checked_filter.hint;
	END IF;
	RETURN filter;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.checked_filter(jsonb, text[], text, text)
	IS 'a filter, {} for null. Raises 22023 for a value that is not an object and for unknown members. holder: the '
		'beginning of the message, such as "the filter has"; hint: the known members';

CREATE FUNCTION kube_reports_internal.status_words() RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN ARRAY['pass', 'warn', 'fail', 'error', 'skip'];
COMMENT ON FUNCTION kube_reports_internal.status_words() IS 'the statuses of results';

CREATE FUNCTION kube_reports_internal.severity_words() RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN ARRAY['unknown', 'info', 'low', 'medium', 'high', 'critical'];
COMMENT ON FUNCTION kube_reports_internal.severity_words() IS 'the severities of results; unknown: none is given';

-- PARALLEL SAFE and cheap to the planner: views and functions for readers use this function in conditions.
CREATE FUNCTION kube_reports_internal.known_word(what text, word text, words text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF word <> ALL (words) THEN
		RAISE EXCEPTION 'there is no % "%"', what, word
			USING ERRCODE = 'invalid_parameter_value',
				HINT = format('It can be %s.', (SELECT string_agg(to_json(w)::text, ', ') FROM unnest(words) w));
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.known_word(text, text, text[])
	IS 'true for a word of a list and for null. Raises 22023 for any other word, with the list in the hint; what: the '
		'name of the member, such as "status"';

-- A range whose ends are swapped contains nothing: an empty answer would look like a true one.
CREATE FUNCTION kube_reports_internal.checked_range(from_name text, from_value anyelement, to_name text,
	to_value anyelement) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF from_value > to_value THEN
		RAISE EXCEPTION 'the range is reversed: % is %, % is %', from_name, from_value, to_name, to_value
			USING ERRCODE = 'invalid_parameter_value', HINT = 'Exchange the two.';
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.checked_range(text, anyelement, text, anyelement)
	IS 'true for a range, also for one without a beginning or an end (null). Raises 22023 if the beginning is after '
		'the end; the names are those of the two parameters or members';

CREATE FUNCTION kube_reports_internal.checked_count(name text, given bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF given IS NULL OR given < 1 THEN
		RAISE EXCEPTION '% is at least 1, not %', name, coalesce(given::text, 'null')
			USING ERRCODE = 'invalid_parameter_value', HINT = format('Leave %s out for its default.', name);
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.checked_count(text, bigint)
	IS 'true for a number of things from 1 on. Raises 22023 for any other number and for null; name: that of the '
		'parameter';

CREATE FUNCTION kube_reports_internal.filter_words(filter jsonb, member text, words text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		text[] := kube_reports_internal.filter_strings(filter, member);
BEGIN
	PERFORM kube_reports_internal.known_word(member, g, words) FROM unnest(given) g;
	RETURN given;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.filter_words(jsonb, text, text[])
	IS 'a member of a filter, as filter_strings() returns it. Raises 22023 for a word that is not in the list';

-- One lookup in the index result_detail for each pair of detail and criterion.
CREATE FUNCTION kube_reports_internal.criteria_of_details(details bigint[]) RETURNS bigint[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT array_agg(DISTINCT n.criterion)
	FROM unnest(details) d(id), LATERAL (
		WITH RECURSIVE found AS (
			SELECT (SELECT r.criterion FROM kube_reports_internal.result r WHERE r.detail = d.id
				ORDER BY r.criterion LIMIT 1) AS criterion
			UNION ALL
			SELECT (SELECT r.criterion FROM kube_reports_internal.result r WHERE r.detail = d.id
				AND r.criterion > f.criterion ORDER BY r.criterion LIMIT 1)
				FROM found f WHERE f.criterion IS NOT NULL
		) SELECT f.criterion FROM found f WHERE f.criterion IS NOT NULL) n;
END;
COMMENT ON FUNCTION kube_reports_internal.criteria_of_details(bigint[])
	IS 'the criteria of the results that have these details; null if there are no details';

CREATE FUNCTION kube_reports_internal.few_results(origins bigint[] DEFAULT NULL, subjects bigint[] DEFAULT NULL,
	details bigint[] DEFAULT NULL) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
-- Each lookup must use its index, although the planner does not know the arrays' lengths.  No bitmap scan: it would
-- collect all results of a frequent message before the first row, so that LIMIT could not end it early.
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
	SELECT CASE WHEN num_nonnulls(origins, subjects, details) > 0 THEN
		(SELECT count(*) <= 20000 FROM (SELECT 1 FROM kube_reports_internal.result r WHERE r.origin = ANY (origins)
			UNION ALL SELECT 1 FROM kube_reports_internal.result r WHERE r.subject = ANY (subjects)
			UNION ALL SELECT 1 FROM kube_reports_internal.result r WHERE r.detail = ANY (details)
			LIMIT 20001) r) END;
$$;
COMMENT ON FUNCTION kube_reports_internal.few_results(bigint[], bigint[], bigint[])
	IS 'whether these reports, subjects and details have at most 20,000 results: sorting more takes longer than a '
		'walk to the first matches; null if no reports, subjects or details are given';

CREATE FUNCTION kube_reports_internal.filter_members(filter jsonb) RETURNS kube_reports_internal.result_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted		kube_reports_internal.result_filter;
	given		text[];
	statuses	text[];
BEGIN
	filter := kube_reports_internal.checked_filter(filter,
		ARRAY['cluster', 'cluster_labels', 'namespace', 'report', 'source', 'policy', 'rule', 'category', 'severity',
		'status', 'native_status', 'subject_kind', 'subject_namespace', 'subject_name', 'subject_uid', 'exception',
		'exempted',
			'score_from', 'score_to', 'properties',
		'since_from', 'since_to', 'first_seen_from', 'first_seen_to', 'text'],
		'the filter has', 'docs/analytics.md lists the members of a filter.');
	given := kube_reports_internal.filter_clusters(filter);
	IF given IS NOT NULL THEN
		wanted.clusters := ARRAY(SELECT c.id FROM kube_reports.cluster c
			WHERE kube_reports_internal.in_clusters(given, c.uid, c.name));
	END IF;
	wanted.namespaces := kube_reports_internal.filter_strings(filter, 'namespace');
	wanted.reports := kube_reports_internal.filter_strings(filter, 'report');
	wanted.native_statuses := kube_reports_internal.filter_strings(filter, 'native_status');
	wanted.subject_kinds := kube_reports_internal.filter_strings(filter, 'subject_kind');
	wanted.subject_namespaces := kube_reports_internal.filter_strings(filter, 'subject_namespace');
	wanted.subject_names := kube_reports_internal.filter_strings(filter, 'subject_name');
	wanted.subject_uids := kube_reports_internal.filter_strings(filter, 'subject_uid');
	wanted.exceptions := kube_reports_internal.filter_strings(filter, 'exception');
	statuses := kube_reports_internal.filter_words(filter, 'status', kube_reports_internal.status_words());
	IF statuses IS NOT NULL THEN
		wanted.statuses := ARRAY(SELECT left(g, 1)::"char" FROM unnest(statuses) g);
	END IF;
	PERFORM kube_reports_internal.filter_words(filter, 'severity', kube_reports_internal.severity_words());
	BEGIN
		wanted.exempted := (filter->>'exempted')::boolean;
		wanted.score_from := (filter->>'score_from')::double precision;
		wanted.score_to := (filter->>'score_to')::double precision;
		wanted.since_from := (filter->>'since_from')::timestamptz;
		wanted.since_to := (filter->>'since_to')::timestamptz;
		wanted.first_seen_from := (filter->>'first_seen_from')::timestamptz;
		wanted.first_seen_to := (filter->>'first_seen_to')::timestamptz;
	EXCEPTION WHEN data_exception THEN
		RAISE EXCEPTION 'a member of the filter has the wrong form: %', SQLERRM
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Times are such as "2026-01-31T12:00:00Z", scores are numbers, exempted is true or false.';
	END;
	PERFORM kube_reports_internal.checked_range('score_from', wanted.score_from, 'score_to', wanted.score_to),
		kube_reports_internal.checked_range('since_from', wanted.since_from, 'since_to', wanted.since_to),
		kube_reports_internal.checked_range('first_seen_from', wanted.first_seen_from,
			'first_seen_to', wanted.first_seen_to);
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.filter_members(jsonb)
	IS 'the members of a filter that need no lookup but of clusters, for read_filter(). Raises 22023 for members that '
		'are unknown or of another form';

CREATE FUNCTION kube_reports_internal.look_up_ids(wanted kube_reports_internal.result_filter)
	RETURNS kube_reports_internal.result_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- If more ids match, they are not used: then many results match, and a walk over the results soon finds the first
	-- ones.
	max_ids CONSTANT integer := 1000;
BEGIN
	-- One statement for each member, so that each has a plan of its own.
	CASE
		WHEN wanted.exceptions IS NOT NULL THEN
			wanted.details := ARRAY(SELECT d.id FROM kube_reports_internal.detail d
				WHERE d.exceptions <> '{}' AND d.exceptions && wanted.exceptions LIMIT max_ids + 1);
		WHEN wanted.properties IS NOT NULL THEN
			wanted.details := ARRAY(SELECT d.id FROM kube_reports_internal.detail d
				WHERE d.properties <> '{}' AND d.properties @> wanted.properties LIMIT max_ids + 1);
		WHEN wanted.exempted THEN
			wanted.details := ARRAY(SELECT d.id FROM kube_reports_internal.detail d
				WHERE d.exceptions <> '{}' LIMIT max_ids + 1);
		ELSE
			NULL;
	END CASE;
	IF cardinality(wanted.details) > max_ids THEN
		wanted.details := NULL;
	ELSIF kube_reports_internal.few_results(details => wanted.details) THEN
		wanted.way := 'ids';
	ELSIF wanted.details IS NOT NULL THEN
		-- If there are many results, a walk over the counts of their criteria soon finds the first matches.
		wanted.criteria := ARRAY(SELECT c FROM unnest(kube_reports_internal.criteria_of_details(wanted.details)) c
			WHERE wanted.criteria IS NULL OR c = ANY (wanted.criteria));
	END IF;
	IF wanted.reports IS NOT NULL THEN
		wanted.origins := ARRAY(SELECT g.id FROM kube_reports_internal.origin g
			WHERE g.name = ANY (wanted.reports) AND (wanted.namespaces IS NULL OR g.namespace = ANY (wanted.namespaces))
				LIMIT max_ids + 1);
		IF cardinality(wanted.origins) > max_ids THEN
			wanted.origins := NULL;
		ELSIF kube_reports_internal.few_results(origins => wanted.origins) THEN
			wanted.way := 'ids';
		END IF;
	END IF;
	IF wanted.subject_uids IS NOT NULL THEN
		wanted.subjects := ARRAY(SELECT s.id FROM kube_reports_internal.subject s
			WHERE s.uid <> '' AND s.uid = ANY (wanted.subject_uids) LIMIT max_ids + 1);
	ELSIF wanted.subject_names IS NOT NULL OR wanted.subject_namespaces IS NOT NULL THEN
		wanted.subjects := ARRAY(SELECT s.id FROM kube_reports_internal.subject s
			WHERE s.cluster_id = ANY (coalesce(wanted.clusters, ARRAY(SELECT c.id FROM kube_reports.cluster c)))
				AND (wanted.subject_namespaces IS NULL OR s.namespace = ANY (wanted.subject_namespaces))
				AND (wanted.subject_kinds IS NULL OR s.kind = ANY (wanted.subject_kinds))
				AND (wanted.subject_names IS NULL OR s.name = ANY (wanted.subject_names)) LIMIT max_ids + 1);
	END IF;
	IF cardinality(wanted.subjects) > max_ids THEN
		wanted.subjects := NULL;
	ELSIF kube_reports_internal.few_results(subjects => wanted.subjects) THEN
		wanted.way := 'ids';
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.look_up_ids(kube_reports_internal.result_filter)
	IS 'a filter with the ids of its details, reports and subjects, for read_filter(); its way is "ids" if they have '
		'few results';

-- Times are read independently of the session's settings.
CREATE FUNCTION kube_reports_internal.read_filter(filter jsonb, role text, seal bytea)
	RETURNS kube_reports_internal.result_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
-- Lookups are planned for the values of each filter: a generic plan would read every subject.
SET plan_cache_mode = force_custom_plan
SET timezone = 'UTC'
SET datestyle = 'ISO, MDY'
AS $$
#variable_conflict use_column
DECLARE
	scope		record := kube_reports_internal.caller_scope(role, seal);
	wanted		kube_reports_internal.result_filter := kube_reports_internal.filter_members(filter);
	timed		boolean;
BEGIN
	wanted.scope_clusters := scope.clusters;
	wanted.scope_namespace_clusters := scope.namespace_clusters;
	wanted.scope_namespaces := scope.namespaces;
	IF filter ?| ARRAY['source', 'policy', 'rule', 'category', 'severity'] THEN
		wanted.criteria := ARRAY(SELECT k.id
			FROM (SELECT kube_reports_internal.filter_strings(filter, 'source') AS sources,
				kube_reports_internal.filter_strings(filter, 'policy') AS policies,
				kube_reports_internal.filter_strings(filter, 'rule') AS rules,
				kube_reports_internal.filter_strings(filter, 'category') AS categories,
				kube_reports_internal.filter_strings(filter, 'severity') AS severities) f,
				kube_reports_internal.criterion k
			WHERE (f.sources IS NULL OR k.source = ANY (f.sources))
				AND (f.policies IS NULL OR k.policy = ANY (f.policies))
				AND (f.rules IS NULL OR k.rule = ANY (f.rules))
				AND (f.categories IS NULL OR k.category = ANY (f.categories))
				AND (f.severities IS NULL OR k.severity = ANY (f.severities)));
	END IF;

	IF filter ? 'properties' THEN
		IF jsonb_typeof(filter->'properties') <> 'object' THEN
			RAISE EXCEPTION 'member "properties" of the filter is no object' USING ERRCODE = 'invalid_parameter_value',
				HINT = 'It has the properties that a result must have: {"name": "value"}.';
		END IF;
		wanted.properties := nullif(filter->'properties', '{}');
	END IF;
	wanted := kube_reports_internal.look_up_ids(wanted);

	IF coalesce(filter->>'text', '') <> '' THEN
		wanted.pattern := '%' || regexp_replace(kube_reports_internal.caseless(filter->>'text'),
			'([\\%_])', '\\\1', 'g') || '%';
		wanted.text_criteria := ARRAY(SELECT k.id FROM kube_reports_internal.criterion k
			WHERE kube_reports_internal.caseless(k.policy) LIKE wanted.pattern
				OR kube_reports_internal.caseless(k.rule) LIKE wanted.pattern);
	END IF;
	timed := num_nonnulls(wanted.since_from, wanted.since_to, wanted.first_seen_from, wanted.first_seen_to) > 0;
	wanted.way := CASE WHEN wanted.way = 'ids' THEN wanted.way
		WHEN wanted.score_from IS NOT NULL OR wanted.score_to IS NOT NULL THEN 'index'
		WHEN timed AND wanted.namespaces IS NULL AND wanted.scope_clusters IS DISTINCT FROM '{}' THEN 'index'
		ELSE 'counts' END;
	-- No index has the times of the results of single namespaces.
	IF timed AND wanted.way = 'counts' THEN
		wanted := kube_reports_internal.timed_filter(wanted);
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.read_filter(jsonb, text, bytea)
	IS 'a checked filter, with the ids of the rows that its texts match and the scope of its caller. Raises 22023 for '
		'members that are unknown or of another form, 42501 for a wrong seal';

-- There are few criteria, so they are always looked up.  Looking subjects and details up pays only if few of them
-- match.
CREATE FUNCTION kube_reports_internal.look_up_text(wanted kube_reports_internal.result_filter, first_step integer,
	last_step integer) RETURNS kube_reports_internal.result_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_ids CONSTANT integer := 1000;
BEGIN
	IF wanted.pattern IS NULL THEN
		RETURN wanted;
	END IF;
	IF 2 BETWEEN first_step AND last_step THEN
		wanted.text_subjects := ARRAY(SELECT s.id FROM kube_reports_internal.subject s
			WHERE kube_reports_internal.caseless(s.name) LIKE wanted.pattern LIMIT max_ids + 1);
		IF cardinality(wanted.text_subjects) > max_ids
			OR NOT kube_reports_internal.few_results(subjects => wanted.text_subjects) THEN
			wanted.text_subjects := NULL;
		END IF;
	END IF;
	IF 3 BETWEEN first_step AND last_step THEN
		wanted.text_details := ARRAY(SELECT d.id FROM kube_reports_internal.detail d
			WHERE kube_reports_internal.caseless(d.message) LIKE wanted.pattern LIMIT max_ids + 1);
		IF cardinality(wanted.text_details) > max_ids THEN
			wanted.text_details := NULL;
		ELSIF NOT kube_reports_internal.few_results(details => wanted.text_details) THEN
			wanted.text_detail_criteria := kube_reports_internal.criteria_of_details(wanted.text_details);
		END IF;
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.look_up_text(kube_reports_internal.result_filter, integer, integer)
	IS 'a filter of read_filter(), with the ids that the steps of a search for its text need: ids of subjects (step '
		'2) or details (step 3) while these are few, otherwise the ids of the criteria of their results. The first '
		'pages of a search often need neither';

-- The fragments are constants: $1 is the filter.
CREATE FUNCTION kube_reports_internal.count_conditions(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(' AND ', 'true',
		CASE WHEN (wanted).scope_clusters IS NOT NULL THEN
			'(r.cluster_id = ANY (($1).scope_clusters) OR (r.cluster_id, r.namespace) IN'
			' (SELECT * FROM unnest(($1).scope_namespace_clusters, ($1).scope_namespaces)))' END,
		-- The same condition again, in a form that an index supports.
		CASE WHEN (wanted).scope_clusters = '{}' THEN
			'r.cluster_id = ANY (($1).scope_namespace_clusters) AND r.namespace = ANY (($1).scope_namespaces)' END,
		CASE WHEN (wanted).clusters IS NOT NULL THEN 'r.cluster_id = ANY (($1).clusters)' END,
		CASE WHEN (wanted).namespaces IS NOT NULL THEN 'r.namespace = ANY (($1).namespaces)' END,
		CASE WHEN (wanted).criteria IS NOT NULL THEN 'r.criterion = ANY (($1).criteria)' END,
		CASE WHEN (wanted).statuses IS NOT NULL THEN 'r.status = ANY (($1).statuses)' END);
END;
COMMENT ON FUNCTION kube_reports_internal.count_conditions(kube_reports_internal.result_filter)
	IS 'the conditions of a filter on criterion, status, cluster and namespace of r (result or count). The text '
		'consists of constants; the filter is $1';

-- A cell has its results on many pages, and a page has results of many cells: one bitmap reads each page once.  A walk
-- over the cells is better only if it soon meets enough matches, which its first results show.
CREATE FUNCTION kube_reports_internal.timed_filter(wanted kube_reports_internal.result_filter)
	RETURNS kube_reports_internal.result_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_cells CONSTANT integer := 2000;
	max_results CONSTANT integer := 50000;
	all_statuses CONSTANT "char"[] := '{p,w,f,e,s}';
	here		kube_reports_internal.result_filter := wanted;
	cells		bigint;
	results		numeric;
	matches		bigint;
BEGIN
	EXECUTE 'SELECT count(*), sum(c.count), array_agg(DISTINCT c.criterion), array_agg(DISTINCT c.cluster_id)
		FROM (SELECT r.criterion, r.cluster_id, r.count FROM kube_reports_internal.rollup_part r
			WHERE r.count <> 0 AND ' || kube_reports_internal.count_conditions(wanted) || ' LIMIT $2) c'
		INTO cells, results, here.criteria, here.clusters USING wanted, max_cells + 1;
	IF cells = 0 OR cells > max_cells OR results > max_results THEN
		RETURN wanted;
	END IF;
	-- All columns of the index result_criterion are compared.
	here.statuses := coalesce(wanted.statuses, all_statuses);
	EXECUTE 'SELECT count(*) FROM (SELECT r.since, r.first_seen FROM kube_reports_internal.result r
			WHERE ' || kube_reports_internal.count_conditions(here) || ' LIMIT 1000) r
		WHERE ' || kube_reports_internal.time_conditions(here) INTO matches USING here;
	IF matches >= 50 THEN
		RETURN wanted;
	END IF;
	here.way := 'ids';
	RETURN here;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.timed_filter(kube_reports_internal.result_filter)
	IS 'a filter with conditions on times, which finds results by their criteria and sorts the matches, if its '
		'conditions on counts leave at most 50,000 results, of which few match; otherwise the filter as it is';

CREATE FUNCTION kube_reports_internal.time_conditions(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(' AND ', 'true',
		CASE WHEN (wanted).since_from IS NOT NULL THEN 'r.since >= ($1).since_from' END,
		CASE WHEN (wanted).since_to IS NOT NULL THEN 'r.since < ($1).since_to' END,
		CASE WHEN (wanted).first_seen_from IS NOT NULL THEN 'r.first_seen >= ($1).first_seen_from' END,
		CASE WHEN (wanted).first_seen_to IS NOT NULL THEN 'r.first_seen < ($1).first_seen_to' END);
END;
COMMENT ON FUNCTION kube_reports_internal.time_conditions(kube_reports_internal.result_filter)
	IS 'the conditions of a filter on the times of r (result). The text consists of constants; the filter is $1';

CREATE FUNCTION kube_reports_internal.native_condition(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (wanted).native_statuses IS NOT NULL THEN
	'coalesce(nullif(r.native_status, ''''), kube_reports_internal.status_name(r.status)) = ANY (($1).native_statuses)'
		END;
COMMENT ON FUNCTION kube_reports_internal.native_condition(kube_reports_internal.result_filter)
	IS 'the condition of a filter on the native status of r (result or count); the filter is $1. Null if the filter '
		'has no such condition';

CREATE FUNCTION kube_reports_internal.score_conditions(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(' AND ', 'true',
		CASE WHEN (wanted).score_from IS NOT NULL OR (wanted).score_to IS NOT NULL THEN 'r.score > 0' END,
		CASE WHEN (wanted).score_from IS NOT NULL THEN 'r.score >= ($1).score_from' END,
		CASE WHEN (wanted).score_to IS NOT NULL THEN 'r.score <= ($1).score_to' END);
END;
COMMENT ON FUNCTION kube_reports_internal.score_conditions(kube_reports_internal.result_filter)
	IS 'the conditions of a filter on the score of r (result). The text consists of constants; the filter is $1';

-- The expression of the index result_score, whose predicate has no other condition.
CREATE FUNCTION kube_reports_internal.score_range(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(' AND ', 'true',
		CASE WHEN (wanted).score_from IS NOT NULL THEN 'nullif(r.score, 0) >= ($1).score_from' END,
		CASE WHEN (wanted).score_to IS NOT NULL THEN 'nullif(r.score, 0) <= ($1).score_to' END);
END;
COMMENT ON FUNCTION kube_reports_internal.score_range(kube_reports_internal.result_filter)
	IS 'score_conditions() in the terms of the index result_score, so that the planner finds a rare score by this '
		'index even if statistics are wrong';

CREATE FUNCTION kube_reports_internal.filter_conditions(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT concat_ws(' AND ', kube_reports_internal.score_conditions(wanted),
		kube_reports_internal.native_condition(wanted),
		CASE WHEN (wanted).way = 'index' THEN kube_reports_internal.score_range(wanted) END,
		CASE WHEN (wanted).origins IS NOT NULL THEN 'r.origin = ANY (($1).origins)'
			WHEN (wanted).reports IS NOT NULL THEN 'g.name = ANY (($1).reports)' END,
		CASE WHEN (wanted).statuses <@ '{w,f,e}'::"char"[] THEN 'r.status IN (''w'', ''f'', ''e'')' END,
		CASE WHEN (wanted).subjects IS NOT NULL THEN 'r.subject = ANY (($1).subjects)' END,
		-- If subjects were looked up by name or namespace, the lookup has checked all these conditions.
		CASE WHEN (wanted).subjects IS NULL OR (wanted).subject_uids IS NOT NULL THEN concat_ws(' AND ', 'true',
			CASE WHEN (wanted).subject_kinds IS NOT NULL THEN 's.kind = ANY (($1).subject_kinds)' END,
			CASE WHEN (wanted).subject_namespaces IS NOT NULL THEN 's.namespace = ANY (($1).subject_namespaces)' END,
			CASE WHEN (wanted).subject_names IS NOT NULL THEN 's.name = ANY (($1).subject_names)' END,
			CASE WHEN (wanted).subject_uids IS NOT NULL THEN 's.uid <> '''' AND s.uid = ANY (($1).subject_uids)' END)
				END,
		CASE WHEN (wanted).details IS NOT NULL THEN 'r.detail = ANY (($1).details)' END,
		CASE WHEN (wanted).properties IS NOT NULL THEN 'd.properties @> ($1).properties' END,
		CASE WHEN (wanted).exceptions IS NOT NULL THEN 'd.exceptions && ($1).exceptions' END,
		CASE WHEN (wanted).exempted IS NOT NULL THEN '(d.exceptions <> ''{}'') = ($1).exempted' END,
		CASE WHEN (wanted).exempted THEN 'd.exceptions <> ''{}''' END,
		kube_reports_internal.time_conditions(wanted));
END;
COMMENT ON FUNCTION kube_reports_internal.filter_conditions(kube_reports_internal.result_filter)
	IS 'the other conditions of a filter on r (result), k (criterion), s (subject), d (detail) and g (origin), '
		'without its text. The text consists of constants; the filter is $1';

-- A text is searched in one place after another, and each place has lookups of its own: the first pages often need only
-- the first place.
CREATE FUNCTION kube_reports_internal.text_condition(wanted kube_reports_internal.result_filter, step integer)
	RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN (wanted).pattern IS NOT NULL THEN
	CASE step WHEN 1 THEN 'r.criterion = ANY (($1).text_criteria)'
		WHEN 2 THEN CASE WHEN (wanted).text_subjects IS NULL
			THEN 'kube_reports_internal.caseless(s.name) LIKE ($1).pattern'
			ELSE 'r.subject = ANY (($1).text_subjects)' END
		ELSE CASE WHEN (wanted).text_details IS NULL
			THEN 'kube_reports_internal.caseless(d.message) LIKE ($1).pattern'
			ELSE 'r.detail = ANY (($1).text_details)' END END END;
COMMENT ON FUNCTION kube_reports_internal.text_condition(kube_reports_internal.result_filter, integer)
	IS 'the condition that a result has the text of a filter: in policy or rule (step 1), subject (2), message (3); '
		'null if the filter has no text';

CREATE FUNCTION kube_reports_internal.result_conditions(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN kube_reports_internal.count_conditions(wanted) || ' AND ' || kube_reports_internal.filter_conditions(wanted)
	|| coalesce(' AND (' || kube_reports_internal.text_condition(wanted, 1) || ' OR '
	|| kube_reports_internal.text_condition(wanted, 2) || ' OR '
		|| kube_reports_internal.text_condition(wanted, 3) || ')', '');
COMMENT ON FUNCTION kube_reports_internal.result_conditions(kube_reports_internal.result_filter)
	IS 'all conditions of a filter: count_conditions(), filter_conditions(), and its text in any place';

-- The order is that of the index result_criterion, whose columns are frequent in filters: matching rows stand together,
-- and the first rows need no sort of all.  There are three ways:
--	  counts: each cell of the counts is one lookup in that index; cells without matches are skipped;
--	  ids: so few rows match that the indexes of reports, subjects or details find all of them, and they are sorted;
--	  index: an index of scores or times, or result_criterion, as the planner chooses.
-- OFFSET keeps the planner from choosing another way.
CREATE FUNCTION kube_reports_internal.filter_rows(wanted kube_reports_internal.result_filter, step integer,
	after boolean) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE t.way WHEN 'counts' THEN
		'SELECT p.criterion, p.status, p.cluster_id, p.namespace, p.origin, p.key
		FROM (SELECT DISTINCT r.criterion, r.status, r.cluster_id, r.namespace
			-- Folded and other counts are merged in the order of the index rollup_cell, and the page ends the merge:
			-- therefore neither has a condition of its own, and the planner learns by LIMIT that the first cells
			-- count.
			FROM kube_reports_internal.rollup_part r
			WHERE r.count <> 0 AND ' || concat_ws(' AND ', kube_reports_internal.count_conditions(wanted),
				kube_reports_internal.native_condition(wanted), t.criterion,
				CASE WHEN step = 3 AND (wanted).text_detail_criteria
					IS NOT NULL THEN 'r.criterion = ANY (($1).text_detail_criteria)' END,
				CASE WHEN (wanted).subject_kinds IS NOT NULL THEN 'r.kind = ANY (($1).subject_kinds)' END,
				CASE WHEN after THEN '(r.criterion, r.status, r.cluster_id, r.namespace)'
					' >= (($3).criterion, ($3).status, ($3).cluster_id, ($3).namespace)' END) || '
			ORDER BY r.criterion, r.status, r.cluster_id, r.namespace LIMIT 1000000000) c
			CROSS JOIN LATERAL ('
		WHEN 'ids' THEN 'SELECT r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key FROM (' ELSE '' END
		|| 'SELECT r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key
			FROM ' || CASE t.way WHEN 'counts' THEN '(SELECT * FROM kube_reports_internal.result r
					WHERE r.criterion = c.criterion AND r.status = c.status
						AND r.cluster_id = c.cluster_id AND r.namespace = c.namespace OFFSET 0) r'
				ELSE 'kube_reports_internal.result r' END || '
				LEFT JOIN kube_reports_internal.criterion k ON k.id = r.criterion
				LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
				LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
				LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
			WHERE ' || concat_ws(' AND ',
				CASE WHEN t.way <> 'counts'
					THEN concat_ws(' AND ', kube_reports_internal.count_conditions(wanted), t.criterion) END,
				kube_reports_internal.filter_conditions(wanted), CASE
					WHEN step > 1 THEN kube_reports_internal.text_condition(wanted, step) END,
				CASE WHEN step > 2 THEN 'NOT ' || kube_reports_internal.text_condition(wanted, 2) END,
				CASE WHEN t.way <> 'ids' THEN t.place END)
		|| CASE t.way WHEN 'counts' THEN '
			ORDER BY r.origin, r.key LIMIT $2) p
		ORDER BY c.criterion, c.status, c.cluster_id, c.namespace, p.origin, p.key LIMIT $2'
			-- The place is compared outside the subquery, so that the planner does not walk an index to the place.  The
			-- comparison of the criterion alone is cheaper and is enough for most rows.
			ELSE CASE t.way WHEN 'ids'
				THEN concat(' OFFSET 0) r', ' WHERE r.criterion >= ($3).criterion AND ' || t.place) ELSE '' END || '
			ORDER BY r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key LIMIT $2' END
	FROM (SELECT CASE WHEN step = 1 THEN '' ELSE 'NOT ' END
		|| kube_reports_internal.text_condition(wanted, 1) AS criterion,
		CASE WHEN after THEN '(r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key)'
			' > (($3).criterion, ($3).status, ($3).cluster_id, ($3).namespace, ($3).origin, ($3).key)' END AS place,
		CASE WHEN step = 2 AND (wanted).text_subjects IS NOT NULL
			OR step = 3 AND (wanted).text_details IS NOT NULL AND (wanted).text_detail_criteria IS NULL THEN 'ids'
				ELSE (wanted).way END AS way) t;
END;
COMMENT ON FUNCTION kube_reports_internal.filter_rows(kube_reports_internal.result_filter, integer, boolean)
	IS 'a query for the first $2 results, by their place, that match the filter $1 and come after the place $3 of the '
		'same step. The filter''s text matches at this step and at no step before. The query consists of constants';
