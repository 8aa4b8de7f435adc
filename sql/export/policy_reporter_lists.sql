-- policy_reporter_lists.sql
--	  Lists of results and resources for Policy Reporter's REST API, and which answer a path has.
--
-- A statement is built from constant fragments: the filter is its parameter
-- ($1), and the columns to sort by come from a list of known ones.
--
-- A page is found by the counts where they can tell: they know how many
-- results each namespace has, so that only the namespaces of the page are read
-- and sorted, and the number of all results costs nothing.

CREATE FUNCTION kube_reports_internal.reporter_results_from(wanted kube_reports_internal.reporter_filter) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT 'kube_reports_internal.result r
			JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			JOIN kube_reports_internal.subject s ON s.id = r.subject'
		|| CASE WHEN (wanted).labels IS NOT NULL THEN '
			JOIN kube_reports_internal.origin g ON g.id = r.origin
			JOIN kube_reports.object o ON o.cluster_id = g.cluster_id AND o.resource_type = g.resource_type
				AND o.namespace = g.namespace AND o.name = g.name' ELSE '' END
		|| ' WHERE ' || concat_ws(' AND ', 'r.cluster_id = ($1).cluster_id',
			CASE WHEN (wanted).only_namespace IS NOT NULL THEN 'r.namespace = ($1).only_namespace' END,
			CASE WHEN (wanted).namespaced THEN 'r.namespace <> ''''' WHEN NOT (wanted).namespaced THEN
				'r.namespace = ''''' END,
			CASE WHEN (wanted).namespaces IS NOT NULL THEN 'r.namespace = ANY (($1).namespaces)' END,
			CASE WHEN (wanted).criteria IS NOT NULL THEN 'r.criterion = ANY (($1).criteria)' END,
			CASE WHEN (wanted).statuses IS NOT NULL THEN 'r.status = ANY (($1).statuses)' END,
			CASE WHEN (wanted).subjects IS NOT NULL THEN 'r.subject = ANY (($1).subjects)' END,
			CASE WHEN (wanted).kinds IS NOT NULL THEN 's.kind = ANY (($1).kinds)' END,
			CASE WHEN (wanted).resources IS NOT NULL THEN 's.name = ANY (($1).resources)' END,
			CASE WHEN (wanted).apis IS NOT NULL THEN
				'kube_reports_internal.reporter_api(s.kind, s.api_version) = ANY (($1).apis)' END,
			CASE WHEN (wanted).labels IS NOT NULL THEN 'o.labels @> ($1).labels' END,
			CASE WHEN (wanted).exclude_sources IS NOT NULL THEN '(k.source, s.kind) NOT IN
				(SELECT * FROM unnest(($1).exclude_sources, ($1).exclude_kinds))' END);
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_results_from(kube_reports_internal.reporter_filter)
	IS 'the tables of results and the conditions of a filter, its search aside, with the filter as $1: constants only';

CREATE FUNCTION kube_reports_internal.reporter_countable(wanted kube_reports_internal.reporter_filter) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN num_nonnulls((wanted).subjects, (wanted).resources, (wanted).apis, (wanted).labels, (wanted).search) = 0;
COMMENT ON FUNCTION kube_reports_internal.reporter_countable(kube_reports_internal.reporter_filter)
	IS 'whether the counts know how many results a filter selects';

CREATE FUNCTION kube_reports_internal.reporter_order(parameters jsonb, known jsonb, otherwise text[]) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		text[] := CASE WHEN parameters ? 'sortBy'
		THEN ARRAY(SELECT jsonb_array_elements_text(parameters->'sortBy')) ELSE otherwise END;
	unknown		text := (SELECT g FROM unnest(given) g WHERE NOT known ? g LIMIT 1);
BEGIN
	IF unknown IS NOT NULL OR cardinality(given) > 8 THEN
		RAISE EXCEPTION 'parameter "sortBy": %', coalesce(format('there is no column "%s"', left(unknown, 100)),
			'there are more than 8 columns') USING ERRCODE = 'invalid_parameter_value',
			HINT = format('Columns are %s.', (SELECT string_agg(n, ', ' ORDER BY n) FROM jsonb_object_keys(known) n));
	END IF;
	RETURN (SELECT string_agg(format('%s %s', known->>g.name, CASE lower(parameters->'direction'->>0)
			WHEN 'desc' THEN 'DESC' ELSE 'ASC' END), ', ' ORDER BY g.place)
		FROM unnest(given) WITH ORDINALITY g(name, place));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_order(jsonb, jsonb, text[])
	IS 'what a list is sorted by: expressions of known, which has one for each name that a client may give. Raises '
		'22023 for another name, and for more than 8';

CREATE FUNCTION kube_reports_internal.reporter_number(parameters jsonb, parameter text) RETURNS bigint
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN parameters->parameter->>0 ~ '^\+?[0-9]{1,18}$' THEN (parameters->parameter->>0)::bigint ELSE 0 END;
COMMENT ON FUNCTION kube_reports_internal.reporter_number(jsonb, text)
	IS 'a number among the parameters; 0 for anything that is none, as Policy Reporter reads it';

---- results ----

CREATE FUNCTION kube_reports_internal.reporter_result(origin bigint, key bigint) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_strip_nulls(jsonb_build_object(
		'id', kube_reports_internal.event_id(r.origin, r.key),
		'namespace', coalesce(nullif(s.namespace, ''), nullif(r.namespace, '')),
		'kind', s.kind, 'apiVersion', s.api_version, 'name', s.name,
		'resourceId', kube_reports_internal.reporter_id((SELECT min(o.id) FROM kube_reports_internal.subject o
			WHERE o.cluster_id = s.cluster_id AND o.namespace = s.namespace AND o.kind = s.kind AND o.name = s.name
				AND o.api_version = s.api_version)),
		'message', coalesce(d.message, ''), 'category', coalesce(nullif(k.category, ''), 'Other'),
		'policy', k.policy, 'rule', k.rule, 'status', kube_reports_internal.status_name(r.status),
		'source', k.source, 'severity', nullif(k.severity, 'unknown'),
		'timestamp', extract(epoch FROM b.evaluated_at)::bigint,
		'properties', nullif(d.properties, '{}')))
	FROM kube_reports_internal.result r
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		JOIN kube_reports_internal.subject s ON s.id = r.subject
		LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
		LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
		LEFT JOIN kube_reports.object b ON b.cluster_id = g.cluster_id AND b.resource_type = g.resource_type
			AND b.namespace = g.namespace AND b.name = g.name
	WHERE r.origin = reporter_result.origin AND r.key = reporter_result.key;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_result(bigint, bigint)
	IS 'a result as Policy Reporter''s API has it. timestamp: the newest evaluation in its report';

-- skip: how many results before the page are in the namespaces that are left.
CREATE FUNCTION kube_reports_internal.reporter_page_namespaces(INOUT wanted kube_reports_internal.reporter_filter,
	descending boolean, INOUT skip bigint, max_rows bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	page		record;
BEGIN
	SELECT coalesce(array_agg(n.namespace), '{}') AS namespaces, coalesce(min(n.sum - n.count), skip) AS before
		INTO page
		FROM (SELECT c.namespace, c.count, sum(c.count) OVER
				(ORDER BY CASE WHEN descending THEN -c.place ELSE c.place END)::bigint AS sum
			FROM (SELECT c.namespace, kube_reports_internal.total(c.count) AS count,
					row_number() OVER (ORDER BY c.namespace COLLATE "C") AS place
				FROM kube_reports_internal.reporter_cells(wanted) c GROUP BY c.namespace) c) n
		WHERE n.sum > skip AND n.sum - n.count < skip + max_rows;
	wanted.namespaces := page.namespaces;
	skip := skip - page.before;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_page_namespaces(kube_reports_internal.reporter_filter, boolean,
	bigint, bigint)
	IS 'a filter that the counts know, limited to the namespaces of a page of results sorted by namespace first, and '
		'the place of the page in these';

-- A text that few resources have in their names is found by the indexes of results.
CREATE FUNCTION kube_reports_internal.reporter_search(wanted kube_reports_internal.reporter_filter,
	OUT condition text, OUT criteria bigint[], OUT subjects bigint[], OUT namespaces text[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- Whether few resources have a text in their names depends on the text: plan for its value.
SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	max_ids CONSTANT integer := 1000;
BEGIN
	condition := '';
	IF wanted.search IS NULL THEN
		RETURN;
	END IF;
	criteria := ARRAY(SELECT k.id FROM kube_reports_internal.criterion k
		WHERE kube_reports_internal.caseless(k.policy) LIKE wanted.search
			OR kube_reports_internal.caseless(k.rule) LIKE wanted.search OR k.severity = wanted.word);
	subjects := ARRAY(SELECT s.id FROM kube_reports_internal.subject s
		WHERE s.cluster_id = wanted.cluster_id AND (kube_reports_internal.caseless(s.name) LIKE wanted.search
			OR kube_reports_internal.caseless(s.kind) = wanted.word) LIMIT max_ids + 1);
	namespaces := ARRAY(SELECT DISTINCT r.namespace FROM kube_reports_internal.reporter_cells(wanted) r
		WHERE kube_reports_internal.caseless(r.namespace) LIKE wanted.search);
	condition := ' AND (' || concat_ws(' OR ',
		CASE WHEN cardinality(criteria) > 0 THEN 'r.criterion = ANY ($4)' END,
		CASE WHEN cardinality(subjects) > max_ids
			THEN 'kube_reports_internal.caseless(s.name) LIKE ($1).search'
				' OR kube_reports_internal.caseless(s.kind) = ($1).word'
			ELSE 'r.subject = ANY ($5)' END,
		CASE WHEN cardinality(namespaces) > 0 THEN 'r.namespace = ANY ($6)' END,
		CASE WHEN wanted.word = ANY (kube_reports_internal.status_words())
			THEN 'kube_reports_internal.status_name(r.status) = ($1).word' END) || ')';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_search(kube_reports_internal.reporter_filter)
	IS 'the condition of a search on results, empty without one: constants only, with the filter as $1, and the '
		'criteria, subjects and namespaces that have the text as $4, $5 and $6';

CREATE FUNCTION kube_reports_internal.reporter_results(wanted kube_reports_internal.reporter_filter, unnamed boolean,
	parameters jsonb, skip bigint, max_rows bigint, OUT lines jsonb[], OUT count bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	known CONSTANT jsonb := E'{"resource_namespace": "r.namespace", "resource_name": "s.name", "resource_uid": "s.uid",
		"resource_kind": "s.kind", "resource_api_version": "s.api_version", "policy": "k.policy", "rule": "k.rule",
		"message": "(SELECT d.message COLLATE \\"C\\" FROM kube_reports_internal.detail d WHERE d.id = r.detail)",
		"result": "kube_reports_internal.status_name(r.status)",
		"status": "kube_reports_internal.status_name(r.status)",
		"severity": "nullif(k.severity, ''unknown'') COLLATE \\"C\\"", "category": "k.category", "source": "k.source"}';
	ordering	text := kube_reports_internal.reporter_order(parameters, known,
		'{resource_namespace,resource_name,resource_uid,policy,rule}');
	search		record := kube_reports_internal.reporter_search(wanted);
	conditions	text := search.condition || CASE WHEN unnamed THEN ' AND s.name = ''''' ELSE '' END;
	narrowed	record;
BEGIN
	IF kube_reports_internal.reporter_countable(wanted) AND NOT unnamed THEN
		count := (SELECT kube_reports_internal.total(c.count) FROM kube_reports_internal.reporter_cells(wanted) c);
		IF ordering LIKE 'r.namespace %' THEN
			SELECT n.wanted, n.skip INTO narrowed FROM kube_reports_internal.reporter_page_namespaces(wanted,
				ordering LIKE 'r.namespace DESC%', skip, max_rows) n;
			wanted := narrowed.wanted;
			skip := narrowed.skip;
		END IF;
		wanted.criteria := ARRAY(SELECT DISTINCT c.criterion FROM kube_reports_internal.reporter_cells(wanted) c);
	ELSE
		EXECUTE 'SELECT count(*) FROM ' || kube_reports_internal.reporter_results_from(wanted) || conditions
			INTO count USING wanted, max_rows, skip, search.criteria, search.subjects, search.namespaces;
	END IF;
	EXECUTE 'SELECT coalesce(array_agg(kube_reports_internal.reporter_result(p.origin, p.key) ORDER BY p.place), ''{}'')
		FROM (SELECT r.origin, r.key, row_number() OVER (ORDER BY ' || ordering || ', r.origin, r.key) AS place
			FROM ' || kube_reports_internal.reporter_results_from(wanted) || conditions || '
			ORDER BY place LIMIT $2 OFFSET $3) p'
		INTO lines USING wanted, max_rows, skip, search.criteria, search.subjects, search.namespaces;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_results(kube_reports_internal.reporter_filter, boolean, jsonb,
	bigint, bigint)
	IS 'a page of the results that a filter selects, and how many there are. unnamed: those without a resource. '
		'Raises 22023 for a column to sort by that is not known';

---- resources ----

CREATE FUNCTION kube_reports_internal.reporter_resource_lines(wanted kube_reports_internal.reporter_filter,
	by_source boolean, parameters jsonb, skip bigint, max_rows bigint, OUT lines jsonb[], OUT count bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	known CONSTANT jsonb := '{"resource_namespace": "n.namespace", "resource_name": "n.name", "resource_uid": "n.uid",
		"resource_kind": "n.kind", "resource_api_version": "n.api_version", "pass": "n.pass", "warn": "n.warn",
		"fail": "n.fail", "error": "n.error", "skip": "n.skip", "info": "n.info", "low": "n.low",
		"medium": "n.medium", "high": "n.high", "critical": "n.critical", "unknown": "n.unknown"}';
	ordering	text := kube_reports_internal.reporter_order(parameters, known,
		'{resource_namespace,resource_name,resource_uid}');
	searching	text := CASE WHEN wanted.search IS NOT NULL THEN ' AND (kube_reports_internal.caseless(s.name)'
		' LIKE ($1).search OR kube_reports_internal.caseless(s.kind) = ($1).word)' ELSE '' END;
	statuses	"char"[] := wanted.statuses;
	severities	text[] := wanted.severities;
BEGIN
	-- A status or a severity selects the resources that have it, with all of their other counts.
	wanted.statuses := NULL;
	IF num_nonnulls(wanted.subjects, wanted.apis, wanted.labels) = 0 THEN
		wanted.criteria := ARRAY(SELECT DISTINCT c.criterion FROM kube_reports_internal.reporter_cells(wanted) c);
	END IF;
	EXECUTE 'WITH n AS MATERIALIZED (
			SELECT s.api_version, s.kind, s.namespace, s.name, n.source, max(s.uid) AS uid, min(s.id) AS id,
				kube_reports_internal.total(n.pass) AS pass, kube_reports_internal.total(n.warn) AS warn,
				kube_reports_internal.total(n.fail) AS fail, kube_reports_internal.total(n.error) AS error,
				kube_reports_internal.total(n.skip) AS skip, kube_reports_internal.total(n.info) AS info,
				kube_reports_internal.total(n.low) AS low, kube_reports_internal.total(n.medium) AS medium,
				kube_reports_internal.total(n.high) AS high, kube_reports_internal.total(n.critical) AS critical,
				kube_reports_internal.total(n.unknown) AS unknown
			FROM (SELECT r.subject, CASE WHEN $2 THEN k.source END AS source,
					count(*) FILTER (WHERE r.status = ''p'') AS pass, count(*) FILTER (WHERE r.status = ''w'') AS warn,
					count(*) FILTER (WHERE r.status = ''f'') AS fail, count(*) FILTER (WHERE r.status = ''e'') AS error,
					count(*) FILTER (WHERE r.status = ''s'') AS skip,
					count(*) FILTER (WHERE k.severity = ''info'') AS info,
					count(*) FILTER (WHERE k.severity = ''low'') AS low,
					count(*) FILTER (WHERE k.severity = ''medium'') AS medium,
					count(*) FILTER (WHERE k.severity = ''high'') AS high,
					count(*) FILTER (WHERE k.severity = ''critical'') AS critical,
					count(*) FILTER (WHERE k.severity = ''unknown'') AS unknown
				FROM ' || kube_reports_internal.reporter_results_from(wanted) || searching || '
					AND (s.name <> '''' OR s.kind <> '''')
				GROUP BY r.subject, k.source, k.category'
				|| CASE WHEN num_nonnulls(statuses, severities) > 0 THEN ' HAVING '
					|| concat_ws(' AND ', CASE WHEN statuses IS NOT NULL THEN 'bool_or(r.status = ANY ($5))' END,
						CASE WHEN severities IS NOT NULL THEN 'bool_or(k.severity = ANY ($6))' END) ELSE '' END || ') n
				JOIN kube_reports_internal.subject s ON s.id = n.subject
			GROUP BY s.api_version, s.kind, s.namespace, s.name, n.source)
		SELECT ARRAY(SELECT jsonb_strip_nulls(jsonb_build_object(
				''id'', kube_reports_internal.reporter_id((SELECT min(o.id) FROM kube_reports_internal.subject o
					WHERE o.cluster_id = ($1).cluster_id AND o.namespace = n.namespace AND o.kind = n.kind
						AND o.name = n.name AND o.api_version = n.api_version)),
				''uid'', n.uid, ''name'', n.name, ''kind'', n.kind, ''apiVersion'', n.api_version,
				''namespace'', nullif(n.namespace, ''''), ''source'', n.source,
				''status'', jsonb_build_object(''pass'', n.pass, ''skip'', n.skip, ''warn'', n.warn, ''fail'', n.fail,
					''error'', n.error),
				''severities'', jsonb_build_object(''info'', n.info, ''low'', n.low, ''medium'', n.medium,
					''high'', n.high, ''critical'', n.critical, ''unknown'', n.unknown)))
			FROM n ORDER BY ' || CASE WHEN by_source THEN 'n.source, ' ELSE '' END || ordering || ',
				n.namespace, n.name, n.kind, n.api_version LIMIT $3 OFFSET $4),
			(SELECT count(*) FROM n)'
		INTO lines, count USING wanted, by_source, max_rows, skip, statuses, severities;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_resource_lines(kube_reports_internal.reporter_filter, boolean, jsonb,
	bigint, bigint)
	IS 'a page of the resources whose results a filter selects, with counts, and how many there are; by_source: a '
		'line for each source of a resource. Raises 22023 for a column to sort by that is not known';

CREATE FUNCTION kube_reports_internal.reporter_resource(wanted kube_reports_internal.reporter_filter) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_strip_nulls(jsonb_build_object('id', kube_reports_internal.reporter_id((wanted).subjects[1]),
		'uid', nullif(max(s.uid), ''), 'name', nullif(s.name, ''), 'namespace', nullif(s.namespace, ''),
		'kind', nullif(s.kind, ''), 'apiVersion', nullif(s.api_version, '')))
	FROM kube_reports_internal.subject s
	WHERE s.id = ANY ((wanted).subjects) AND EXISTS (SELECT FROM kube_reports_internal.result r
		WHERE r.subject = s.id AND r.cluster_id = (wanted).cluster_id
			AND ((wanted).only_namespace IS NULL OR r.namespace = (wanted).only_namespace))
	GROUP BY s.name, s.namespace, s.kind, s.api_version;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_resource(kube_reports_internal.reporter_filter)
	IS 'the resource of a filter; null: no result that may be shown is about it';

-- From the counts: results that are about a resource.
CREATE FUNCTION kube_reports_internal.reporter_totals(wanted kube_reports_internal.reporter_filter, parameters jsonb,
	skip bigint, max_rows bigint, OUT lines jsonb[], OUT count bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
	known CONSTANT jsonb := '{"resource_namespace": "n.namespace", "resource_name": "n.namespace",
		"resource_uid": "n.namespace", "pass": "n.pass", "warn": "n.warn", "fail": "n.fail", "error": "n.error",
		"skip": "n.skip", "info": "n.info", "low": "n.low", "medium": "n.medium", "high": "n.high",
		"critical": "n.critical", "unknown": "n.unknown"}';
	ordering	text := kube_reports_internal.reporter_order(parameters, known, '{resource_namespace}');
BEGIN
	EXECUTE 'WITH n AS MATERIALIZED (
			SELECT c.namespace,
				jsonb_build_object(''pass'', c.pass, ''skip'', c.skip, ''warn'', c.warn, ''fail'', c.fail,
					''error'', c.error) AS status,
				jsonb_build_object(''info'', c.info, ''low'', c.low, ''medium'', c.medium, ''high'', c.high,
					''critical'', c.critical, ''unknown'', c.unknown) AS severities, c.pass, c.skip, c.warn, c.fail,
				c.error, c.info, c.low, c.medium, c.high, c.critical, c.unknown
			FROM (SELECT c.namespace, coalesce(sum(c.count) FILTER (WHERE c.status = ''pass''), 0) AS pass,
					coalesce(sum(c.count) FILTER (WHERE c.status = ''skip''), 0) AS skip,
					coalesce(sum(c.count) FILTER (WHERE c.status = ''warn''), 0) AS warn,
					coalesce(sum(c.count) FILTER (WHERE c.status = ''fail''), 0) AS fail,
					coalesce(sum(c.count) FILTER (WHERE c.status = ''error''), 0) AS error,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''info''), 0) AS info,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''low''), 0) AS low,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''medium''), 0) AS medium,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''high''), 0) AS high,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''critical''), 0) AS critical,
					coalesce(sum(c.count) FILTER (WHERE c.severity = ''unknown''), 0) AS unknown
				FROM kube_reports_internal.reporter_counts($1) c WHERE c.kind <> '''' GROUP BY c.namespace) c)
		SELECT ARRAY(SELECT jsonb_build_object(''id'', '''', ''uid'', '''', ''kind'', ''Namespace'',
				''apiVersion'', ''v1'', ''name'', coalesce(nullif(n.namespace, ''''), ''Cluster Scoped''),
				''status'', n.status, ''severities'', n.severities)
			FROM n ORDER BY ' || ordering || ', n.namespace LIMIT $2 OFFSET $3), (SELECT count(*) FROM n)'
		INTO lines, count USING wanted, max_rows, skip;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_totals(kube_reports_internal.reporter_filter, jsonb, bigint, bigint)
	IS 'a page of the namespaces, and the cluster scope, with counts of the results that are about a resource. Raises '
		'22023 for a column to sort by that is not known';

CREATE FUNCTION kube_reports_internal.reporter_properties(wanted kube_reports_internal.reporter_filter, property text)
	RETURNS TABLE (place text[], line jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	most CONSTANT integer := 10000;
BEGIN
	RETURN QUERY EXECUTE 'SELECT ARRAY[p.namespace, p.value], jsonb_build_object(''namespace'', p.namespace,
			''property'', p.value)
		FROM (SELECT DISTINCT r.namespace, d.properties->>$2 AS value
			FROM kube_reports_internal.detail d CROSS JOIN LATERAL (SELECT r.namespace
				FROM ' || kube_reports_internal.reporter_results_from(wanted) || ' AND r.detail = d.id) r
			WHERE d.properties <> ''{}'' AND d.properties ? $2 LIMIT $3) p'
		USING wanted, property, most;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_properties(kube_reports_internal.reporter_filter, text)
	IS 'the values of a property by namespace, 10,000 at most';

---- answers ----

CREATE FUNCTION kube_reports_internal.reporter_document(answer text, wanted kube_reports_internal.reporter_filter)
	RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN CASE answer
		WHEN 'targets' THEN CASE WHEN wanted.only_namespace IS NULL
			THEN kube_reports_internal.reporter_targets(wanted.cluster_id) ELSE '{}' END
		WHEN 'findings' THEN kube_reports_internal.reporter_findings(wanted, false)
		WHEN 'severity-findings' THEN kube_reports_internal.reporter_findings(wanted, true)
		WHEN 'use-resources' THEN jsonb_build_object('resources', EXISTS (
			SELECT FROM kube_reports_internal.reporter_cells(wanted) c WHERE c.kind <> ''))
		WHEN 'status-counts' THEN kube_reports_internal.reporter_total_counts(wanted, false)
		WHEN 'severity-counts' THEN kube_reports_internal.reporter_total_counts(wanted, true)
		WHEN 'cluster-status-counts' THEN kube_reports_internal.reporter_total_counts(wanted, false)
		WHEN 'cluster-severity-counts' THEN kube_reports_internal.reporter_total_counts(wanted, true)
		WHEN 'namespace-status-counts' THEN kube_reports_internal.reporter_namespace_counts(wanted, false)
		WHEN 'namespace-severity-counts' THEN kube_reports_internal.reporter_namespace_counts(wanted, true)
		WHEN 'resource' THEN kube_reports_internal.reporter_resource(wanted) END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_document(text, kube_reports_internal.reporter_filter)
	IS 'an answer of Policy Reporter''s API that is one object; null: the answer is no such one, or the resource does '
		'not exist';

CREATE FUNCTION kube_reports_internal.reporter_list(answer text, argument text,
	wanted kube_reports_internal.reporter_filter) RETURNS jsonb[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	lines		jsonb[];
BEGIN
	CASE answer
		WHEN 'policies' THEN
			lines := ARRAY(SELECT p.line FROM kube_reports_internal.reporter_policies(wanted) p
				ORDER BY p.place COLLATE "C");
		WHEN 'categories', 'resource-categories' THEN
			lines := ARRAY(SELECT t.line FROM kube_reports_internal.reporter_tree(wanted) t
				ORDER BY t.place COLLATE "C");
		WHEN 'properties' THEN
			lines := ARRAY(SELECT p.line FROM kube_reports_internal.reporter_properties(wanted, argument) p
				ORDER BY p.place COLLATE "C");
		WHEN 'namespaces', 'sources', 'namespace-kinds', 'namespace-categories', 'cluster-kinds',
			'cluster-categories' THEN
			lines := ARRAY(SELECT v.line FROM kube_reports_internal.reporter_values(answer, wanted) v
				ORDER BY v.place COLLATE "C");
		WHEN 'resource-resources', 'resource-status-counts', 'resource-severity-counts' THEN
			lines := ARRAY(SELECT CASE answer WHEN 'resource-resources' THEN l.line ELSE
					jsonb_build_object('source', l.line->'source')
					|| (l.line->CASE answer WHEN 'resource-status-counts' THEN 'status' ELSE 'severities' END) END
				FROM kube_reports_internal.reporter_resource_lines(wanted, true, '{}', 0, 10000) r,
					unnest(r.lines) WITH ORDINALITY l(line, place)
				ORDER BY l.place);
		ELSE
			NULL;
	END CASE;
	RETURN lines;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_list(text, text, kube_reports_internal.reporter_filter)
	IS 'an answer of Policy Reporter''s API that is an array; null: the answer is no such one';

CREATE FUNCTION kube_reports_internal.reporter_page(answer text, wanted kube_reports_internal.reporter_filter,
	parameters jsonb, skip bigint, max_rows bigint, OUT lines jsonb[], OUT count bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	CASE answer
		WHEN 'total-results' THEN
			SELECT t.lines, t.count INTO lines, count
				FROM kube_reports_internal.reporter_totals(wanted, parameters, skip, max_rows) t;
		WHEN 'namespace-resources', 'cluster-resources' THEN
			SELECT r.lines, r.count INTO lines, count
				FROM kube_reports_internal.reporter_resource_lines(wanted, false, parameters, skip, max_rows) r;
		WHEN 'namespace-results', 'cluster-results', 'results-without-resources', 'resource-results' THEN
			SELECT r.lines, r.count INTO lines, count
				FROM kube_reports_internal.reporter_results(wanted, answer = 'results-without-resources', parameters,
					skip, max_rows) r;
		ELSE
			RAISE EXCEPTION 'Policy Reporter has no answer "%"', answer USING ERRCODE = 'invalid_parameter_value';
	END CASE;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_page(text, kube_reports_internal.reporter_filter, jsonb, bigint,
	bigint)
	IS 'an answer of Policy Reporter''s API that is a page of a list: rows after the first skip ones, at most '
		'max_rows, and the number of all. Raises 22023 for another answer';

-- A long answer comes in pieces: the cursor is the number of lines before.  Each piece computes the answer again.
CREATE FUNCTION kube_reports_internal.reporter_piece(asked jsonb, served integer, INOUT "cursor" text,
	OUT code integer, OUT body bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	-- piece_lines: about a megabyte.  page_lines: of a list for which no page, or a larger one, was asked.
	piece_lines CONSTANT bigint := 2000;
	page_lines CONSTANT bigint := 10000;
	answer		text := asked->>'answer';
	parameters	jsonb := asked->'filter';
	wanted		kube_reports_internal.reporter_filter := kube_reports_internal.read_reporter_filter(answer,
		asked->>'argument', parameters, served, asked->>'namespace', asked->'resolved');
	document	jsonb := kube_reports_internal.reporter_document(answer, wanted);
	lines		jsonb[] := CASE WHEN document IS NULL AND answer <> 'resource'
		THEN kube_reports_internal.reporter_list(answer, asked->>'argument', wanted) END;
	before		bigint := coalesce("cursor"::bigint, 0);
	page		bigint := kube_reports_internal.reporter_number(parameters, 'page');
	size		bigint := kube_reports_internal.reporter_number(parameters, 'offset');
	paged		boolean := lines IS NULL;
	total		bigint;
BEGIN
	code := 200;
	IF document IS NOT NULL OR answer = 'resource' THEN
		"cursor" := NULL;
		code := CASE WHEN document IS NULL THEN 404 ELSE 200 END;
		body := coalesce(convert_to(document::text, 'UTF8'), kube_reports_internal.status_document(404, 'NotFound',
			'no result that is shown here is about this resource', NULL));
		RETURN;
	END IF;
	IF paged THEN
		IF page < 1 OR size < 1 THEN
			page := 1;
			size := page_lines;
		ELSIF size > page_lines THEN
			RAISE EXCEPTION 'parameter "offset": a page has at most % rows', page_lines
				USING ERRCODE = 'invalid_parameter_value', HINT = 'Ask for several pages.';
		END IF;
		SELECT p.lines, p.count INTO lines, total FROM kube_reports_internal.reporter_page(answer, wanted, parameters,
			least(page - 1, 100000000000000) * size + before, least(piece_lines, size - before)) p;
	ELSE
		size := cardinality(lines);
		lines := lines[before + 1:before + piece_lines];
	END IF;
	"cursor" := CASE WHEN cardinality(lines) = piece_lines AND before + piece_lines < size
		THEN before + piece_lines END;
	body := convert_to(concat(CASE WHEN before > 0 THEN '' WHEN paged THEN '{"items":[' ELSE '[' END,
		CASE WHEN before > 0 AND cardinality(lines) > 0 THEN ',' END,
		(SELECT string_agg(l.line::text, E',\n' ORDER BY l.place) FROM unnest(lines) WITH ORDINALITY l(line, place)),
		CASE WHEN "cursor" IS NULL THEN ']' || CASE WHEN paged THEN format(',"count":%s}', total) ELSE '' END END,
		CASE WHEN "cursor" IS NULL THEN E'\n' END), 'UTF8');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_piece(jsonb, integer, text)
	IS 'an answer of Policy Reporter''s API about a cluster, piece by piece: call again with the cursor until it is '
		'null. asked: {"answer", "argument": the source, resource or property of the path, "namespace": the only one '
		'shown, "resolved": the namespaces of a selector, "filter": {parameter: [texts]}}. Raises 22023 for wrong '
		'parameters';

CREATE FUNCTION kube_reports_internal.reporter_cluster(asked text, served integer,
	caller kube_reports_internal.caller) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found		integer[];
BEGIN
	IF asked IS NULL THEN
		PERFORM kube_reports_internal.warn_pending();
		RETURN served;
	END IF;
	found := ARRAY(SELECT c.id FROM kube_reports.cluster c WHERE asked IN (c.uid::text, c.name)
		AND c.id = ANY (kube_reports_internal.fleet_scope(served, caller)));
	RETURN CASE WHEN cardinality(found) = 1 THEN found[1] END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_cluster(text, integer, kube_reports_internal.caller)
	IS 'the cluster of fleet_scope() that has a uid or name, or for null the one that the proxy serves; null: there is '
		'none, or there are several';
