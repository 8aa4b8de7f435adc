-- policy_reporter.sql
--	  Answers of Policy Reporter's REST API for the proxy: /v1/policy-reporter/...
--
-- Policy Reporter UI asks its backend, Policy Reporter, for counts, lists and
-- single resources.  Here the same questions are asked of the store.  Which
-- parameters an answer regards, what the members of its JSON are called, and
-- what is counted follow Policy Reporter 3.9.0; docs/policy-reporter.md lists
-- the differences.
--
-- A result belongs to the namespace of its report, in counts and in lists.
-- Counts are read from the counts tables, unless a filter needs the resources
-- or the reports themselves.  Lists are in policy_reporter_lists.sql.

CREATE TYPE kube_reports_internal.reporter_filter AS (
	cluster_id	integer,
	only_namespace text,
	namespaced	boolean,
	namespaces	text[],
	kinds		text[],
	resources	text[],
	apis		text[],
	labels		text[],
	statuses	"char"[],
	severities	text[],
	criteria	bigint[],
	subjects	bigint[],
	exclude_sources text[],
	exclude_kinds text[],
	search		text,
	word		text
);
COMMENT ON TYPE kube_reports_internal.reporter_filter
	IS 'what a request to Policy Reporter''s API selects; nulls: no matter. only_namespace: nothing else may be shown; '
		'namespaced: true: reports in namespaces, false: of cluster scope; subjects: of one resource; search: a '
		'pattern of LIKE for caseless texts; word: the same text as it was given, in lower case';

CREATE FUNCTION kube_reports_internal.reporter_parameters(answer text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT string_to_array(CASE answer
		WHEN 'namespaces' THEN 'status sources categories policies kinds apis namespaces labels'
		WHEN 'sources' THEN 'kinds apis labels'
		WHEN 'categories' THEN 'sources categories kinds apis namespaces exclude labels'
		WHEN 'policies' THEN 'sources categories kinds apis search exclude labels'
		WHEN 'findings' THEN 'namespaced namespaces sources categories kinds apis policies status exclude labels'
		WHEN 'severity-findings' THEN
			'namespaced namespaces sources categories kinds apis policies severities exclude labels'
		WHEN 'use-resources' THEN 'categories policies rules exclude labels'
		WHEN 'status-counts' THEN 'categories policies kinds apis exclude labels'
		WHEN 'severity-counts' THEN 'categories policies kinds apis exclude labels'
		WHEN 'cluster-status-counts' THEN 'categories policies kinds apis exclude labels'
		WHEN 'cluster-severity-counts' THEN 'categories policies kinds apis exclude labels'
		WHEN 'namespace-status-counts' THEN 'categories kinds apis namespaces policies status exclude labels'
		WHEN 'namespace-severity-counts' THEN 'categories kinds apis namespaces policies severities exclude labels'
		WHEN 'namespace-kinds' THEN 'status sources categories policies kinds apis namespaces exclude labels'
		WHEN 'namespace-categories' THEN 'status sources categories policies kinds apis namespaces labels'
		WHEN 'cluster-kinds' THEN 'sources categories policies kinds apis exclude labels'
		WHEN 'cluster-categories' THEN 'sources categories policies kinds apis labels'
		WHEN 'total-results' THEN 'sources categories kinds apis status severities exclude page'
		WHEN 'namespace-results' THEN 'sources categories policies rules namespaces kinds apis resources status '
			'severities resource_id search exclude labels page'
		WHEN 'cluster-results' THEN 'sources categories policies rules namespaces kinds apis resources status '
			'severities resource_id search exclude labels page'
		WHEN 'results-without-resources' THEN
			'sources categories policies rules status severities search exclude labels page'
		WHEN 'namespace-resources' THEN
			'sources categories namespaces kinds apis status severities resource_id search exclude labels page'
		WHEN 'cluster-resources' THEN
			'sources categories kinds apis status severities resource_id search exclude labels page'
		WHEN 'resource-status-counts' THEN 'sources categories policies status labels'
		WHEN 'resource-severity-counts' THEN 'sources categories policies severities labels'
		WHEN 'resource-resources' THEN 'sources categories kinds apis status severities search labels'
		WHEN 'resource-results' THEN 'sources categories policies rules status severities search labels page'
		WHEN 'resource-categories' THEN 'sources categories exclude labels'
		WHEN 'properties' THEN 'sources categories policies rules status namespaces'
		ELSE '' END, ' ');
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_parameters(text)
	IS 'the parameters that an answer of Policy Reporter''s API regards: it ignores others, as Policy Reporter does; '
		'page stands for page, offset, sortBy and direction';

-- The plural as go-openapi/inflect makes it, which Policy Reporter uses.
CREATE FUNCTION kube_reports_internal.reporter_api(kind text, api_version text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN k.word = '' THEN '' WHEN k.word ~ '(x|ch|sh|ss|alias|status|bus)$' THEN k.word || 'es'
		WHEN k.word ~ '[^aeiou]y$' THEN left(k.word, -1) || 'ies'
		WHEN k.word ~ 's$' THEN k.word ELSE k.word || 's' END || '.' || api_version
	FROM (SELECT kube_reports_internal.caseless(kind) AS word) k;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_api(text, text)
	IS 'what Policy Reporter calls the API of a resource, such as pods.v1 or ingresses.networking.k8s.io/v1';

---- resources and their ids ----

CREATE FUNCTION kube_reports_internal.reporter_id(subject bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN subject < 0 THEN (subject + 18446744073709551616)::text ELSE subject::text END;
COMMENT ON FUNCTION kube_reports_internal.reporter_id(bigint)
	IS 'the id of a subject as a number without a sign, as the ids of Policy Reporter are';

-- Some reports of a resource have its uid and others do not, so a resource may have several subjects.
CREATE FUNCTION kube_reports_internal.reporter_subjects(served integer, id text) RETURNS bigint[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(array_agg(other.id ORDER BY other.id), '{}')
	FROM (SELECT CASE WHEN n.number >= 9223372036854775808 THEN n.number - 18446744073709551616
			ELSE n.number END::bigint AS id
		FROM (SELECT CASE WHEN reporter_subjects.id ~ '^[0-9]{1,20}$'
			THEN reporter_subjects.id::numeric END AS number) n
		WHERE n.number < 18446744073709551616) i
		JOIN kube_reports_internal.subject s ON s.id = i.id AND s.cluster_id = served
			AND (s.name <> '' OR s.kind <> '')
		JOIN kube_reports_internal.subject other ON other.cluster_id = s.cluster_id AND other.namespace = s.namespace
			AND other.kind = s.kind AND other.name = s.name AND other.api_version = s.api_version;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_subjects(integer, text)
	IS 'the subjects of the resource of a cluster that has one of them as its id, for any text; empty: there is none';

---- the filter ----

CREATE FUNCTION kube_reports_internal.reporter_strings(answer text, parameters jsonb, parameter text) RETURNS text[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN parameter = ANY (kube_reports_internal.reporter_parameters(answer)) AND parameters ? parameter
		THEN ARRAY(SELECT jsonb_array_elements_text(parameters->parameter)) END;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_strings(text, jsonb, text)
	IS 'the values of a parameter; null: it is not given, or the answer does not regard it';

CREATE FUNCTION kube_reports_internal.read_reporter_filter(answer text, argument text, parameters jsonb,
	served integer, only_namespace text, resolved jsonb) RETURNS kube_reports_internal.reporter_filter
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
-- A filter leaves out most of its members: a plan for its values leaves out their conditions, too.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
	wanted		kube_reports_internal.reporter_filter;
	sources		text[] := kube_reports_internal.reporter_strings(answer, parameters, 'sources');
	categories	text[] := kube_reports_internal.reporter_strings(answer, parameters, 'categories');
	policies	text[] := kube_reports_internal.reporter_strings(answer, parameters, 'policies');
	rules		text[] := kube_reports_internal.reporter_strings(answer, parameters, 'rules');
	statuses	text[] := kube_reports_internal.reporter_strings(answer, parameters, 'status');
	ids			text[] := kube_reports_internal.reporter_strings(answer, parameters, 'resource_id');
	search		text := (kube_reports_internal.reporter_strings(answer, parameters, 'search'))[1];
	asked		text[];
BEGIN
	wanted.cluster_id := served;
	wanted.only_namespace := only_namespace;
	wanted.namespaces := kube_reports_internal.reporter_strings(answer, parameters, 'namespaces');
	IF resolved IS NOT NULL THEN
		wanted.namespaces := ARRAY(SELECT n FROM jsonb_array_elements_text(resolved) n
			WHERE wanted.namespaces IS NULL OR n = ANY (wanted.namespaces));
	END IF;
	CASE
		WHEN answer LIKE 'namespace%' THEN
			wanted.namespaced := true;
		WHEN answer LIKE 'cluster-%' THEN
			wanted.namespaced := false;
		WHEN answer IN ('findings', 'severity-findings') THEN
			IF kube_reports_internal.reporter_strings(answer, parameters, 'namespaced') = '{true}' THEN
				wanted.namespaced := true;
			ELSIF answer = 'findings' THEN
				wanted.namespaced := false;
				wanted.namespaces := NULL;
			ELSIF wanted.namespaces IS NOT NULL THEN
				wanted.namespaces := wanted.namespaces || ''::text;
			END IF;
		ELSE
			NULL;
	END CASE;
	wanted.kinds := kube_reports_internal.reporter_strings(answer, parameters, 'kinds');
	wanted.resources := kube_reports_internal.reporter_strings(answer, parameters, 'resources');
	wanted.apis := kube_reports_internal.reporter_strings(answer, parameters, 'apis');
	wanted.severities := kube_reports_internal.reporter_strings(answer, parameters, 'severities');
	IF statuses IS NOT NULL THEN
		wanted.statuses := ARRAY(SELECT left(w, 1)::"char" FROM unnest(kube_reports_internal.status_words()) w
			WHERE w = ANY (statuses));
	END IF;
	-- A label with more than one colon, or none, is ignored, and so is such an exclusion with none.
	SELECT array_agg(btrim(split_part(l, ':', 1)) || '=' || btrim(split_part(l, ':', 2))) INTO wanted.labels
		FROM unnest(kube_reports_internal.reporter_strings(answer, parameters, 'labels')) l WHERE l ~ '^[^:]*:[^:]*$';
	IF wanted.kinds IS NULL AND ids IS NULL THEN
		SELECT array_agg(btrim(split_part(e, ':', 1))), array_agg(btrim(split_part(e, ':', 2)))
			INTO wanted.exclude_sources, wanted.exclude_kinds
			FROM unnest(kube_reports_internal.reporter_strings(answer, parameters, 'exclude')) e WHERE e LIKE '%:%';
	END IF;
	IF search <> '' THEN
		wanted.word := kube_reports_internal.caseless(search);
		wanted.search := '%' || regexp_replace(kube_reports_internal.caseless(search), '([\\%_])', '\\\1', 'g') || '%';
	END IF;
	IF answer LIKE 'resource%' THEN
		wanted.subjects := kube_reports_internal.reporter_subjects(served, argument);
	ELSIF ids[1] <> '' THEN
		wanted.subjects := kube_reports_internal.reporter_subjects(served, ids[1]);
	ELSIF argument IS NOT NULL AND answer <> 'properties' THEN
		sources := ARRAY[argument];
	END IF;
	-- Among resources, a severity selects those that have it: see reporter_resource_lines().
	asked := CASE WHEN answer NOT IN ('namespace-resources', 'cluster-resources', 'resource-resources',
		'resource-status-counts', 'resource-severity-counts') THEN wanted.severities END;
	IF num_nonnulls(sources, categories, policies, rules, asked) > 0 THEN
		wanted.criteria := ARRAY(SELECT k.id FROM kube_reports_internal.criterion k
			WHERE (sources IS NULL OR k.source = ANY (sources))
				AND (categories IS NULL OR coalesce(nullif(k.category, ''), 'Other') = ANY (categories))
				AND (policies IS NULL OR k.policy = ANY (policies)) AND (rules IS NULL OR k.rule = ANY (rules))
				AND (asked IS NULL OR k.severity = ANY (asked)));
	END IF;
	RETURN wanted;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.read_reporter_filter(text, text, jsonb, integer, text, jsonb)
	IS 'the filter of a request to Policy Reporter''s API. argument: the source, resource or property in its path; '
		'parameters: an array of texts for each; resolved: an array of the only namespaces, or null. Values that '
		'nothing has select nothing';

---- counts ----

-- results: the counts tables know neither the version of a resource nor its report.
CREATE FUNCTION kube_reports_internal.reporter_cells(wanted kube_reports_internal.reporter_filter)
	RETURNS TABLE (namespace text, criterion bigint, kind text, status "char", count bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A filter leaves out most of its members: a plan for its values leaves out their conditions, too.
SET plan_cache_mode = force_custom_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	IF num_nonnulls(wanted.apis, wanted.labels, wanted.subjects) > 0 THEN
		RETURN QUERY EXECUTE 'SELECT r.namespace, r.criterion, s.kind, r.status, count(*)
			FROM ' || kube_reports_internal.reporter_results_from(wanted) || '
			GROUP BY r.namespace, r.criterion, s.kind, r.status'
			USING wanted;
		RETURN;
	END IF;
	RETURN QUERY
	SELECT r.namespace, r.criterion, r.kind, r.status, kube_reports_internal.total(r.count)
	FROM (SELECT r.namespace, r.criterion, r.kind, r.status, r.count FROM kube_reports_internal.rollup r
			WHERE r.cluster_id = wanted.cluster_id AND r.count <> 0
		UNION ALL
		SELECT r.namespace, r.criterion, r.kind, r.status, r.count
			FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) r
			WHERE r.cluster_id = wanted.cluster_id) r
	WHERE (wanted.only_namespace IS NULL OR r.namespace = wanted.only_namespace)
		AND (wanted.namespaced IS NULL OR (r.namespace <> '') = wanted.namespaced)
		AND (wanted.namespaces IS NULL OR r.namespace = ANY (wanted.namespaces))
		AND (wanted.kinds IS NULL OR r.kind = ANY (wanted.kinds))
		AND (wanted.statuses IS NULL OR r.status = ANY (wanted.statuses))
		AND (wanted.criteria IS NULL OR r.criterion = ANY (wanted.criteria))
		AND (wanted.exclude_sources IS NULL OR NOT EXISTS (
			SELECT FROM unnest(wanted.exclude_sources, wanted.exclude_kinds) e(source, kind)
				JOIN kube_reports_internal.criterion k ON k.source = e.source
			WHERE k.id = r.criterion AND e.kind = r.kind))
	GROUP BY r.namespace, r.criterion, r.kind, r.status
	HAVING kube_reports_internal.total(r.count) <> 0;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.reporter_cells(kube_reports_internal.reporter_filter)
	IS 'how many results a filter selects, by namespace, criterion, kind of resource and status, its search and its '
		'names of resources aside: from the counts, or from the results when the filter names APIs, labels or a '
		'resource';

CREATE FUNCTION kube_reports_internal.reporter_counts(wanted kube_reports_internal.reporter_filter)
	RETURNS TABLE (namespace text, source text, category text, policy text, severity text, kind text, status text,
		count bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.namespace, k.source, coalesce(nullif(k.category, ''), 'Other'), k.policy, k.severity, c.kind,
		kube_reports_internal.status_name(c.status), c.count
	FROM kube_reports_internal.reporter_cells(wanted) c
		JOIN kube_reports_internal.criterion k ON k.id = c.criterion;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_counts(kube_reports_internal.reporter_filter)
	IS 'reporter_cells() with names; a result without a category is in Other';

-- Policy Reporter has a map of words to counts in many answers.  With zeros: a client may rely on all words.
CREATE FUNCTION kube_reports_internal.reporter_words(counted jsonb, words text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_object_agg(w, 0) || coalesce(counted, '{}') FROM unnest(words) w;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_words(jsonb, text[])
	IS 'counts by word, with 0 for the words that have none';

CREATE FUNCTION kube_reports_internal.reporter_sums(wanted kube_reports_internal.reporter_filter, by_severity boolean)
	RETURNS TABLE (namespace text, source text, word text, count bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.namespace, c.source, CASE WHEN by_severity THEN c.severity ELSE c.status END,
		kube_reports_internal.total(c.count)
	FROM kube_reports_internal.reporter_counts(wanted) c GROUP BY 1, 2, 3;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_sums(kube_reports_internal.reporter_filter, boolean)
	IS 'counts by namespace, source and status, or severity';

CREATE FUNCTION kube_reports_internal.reporter_findings(wanted kube_reports_internal.reporter_filter,
	by_severity boolean) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH counted AS MATERIALIZED (
		SELECT s.source, s.word, kube_reports_internal.total(s.count) AS count
		FROM kube_reports_internal.reporter_sums(wanted, by_severity) s GROUP BY s.source, s.word
	)
	SELECT jsonb_build_object(
		'total', (SELECT kube_reports_internal.total(c.count) FROM counted c),
		'perResult', (SELECT coalesce(jsonb_object_agg(w.word, w.count), '{}')
			FROM (SELECT c.word, kube_reports_internal.total(c.count) AS count FROM counted c GROUP BY c.word) w),
		'counts', (SELECT coalesce(jsonb_agg(jsonb_build_object('source', s.source, 'total', s.total,
				'counts', s.counts) ORDER BY s.source), '[]')
			FROM (SELECT c.source, kube_reports_internal.total(c.count) AS total,
				jsonb_object_agg(c.word, c.count) AS counts FROM counted c GROUP BY c.source) s));
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_findings(kube_reports_internal.reporter_filter, boolean)
	IS 'counts by source and status, or severity, with their sums';

CREATE FUNCTION kube_reports_internal.reporter_namespace_counts(wanted kube_reports_internal.reporter_filter,
	by_severity boolean) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_object_agg(n.namespace, kube_reports_internal.reporter_words(n.counts,
		CASE WHEN by_severity THEN kube_reports_internal.severity_words()
			ELSE kube_reports_internal.status_words() END)), '{}')
	FROM (SELECT s.namespace, jsonb_object_agg(s.word, s.count) AS counts
		FROM kube_reports_internal.reporter_sums(wanted, by_severity) s GROUP BY s.namespace) n;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_namespace_counts(kube_reports_internal.reporter_filter, boolean)
	IS 'counts of one source by namespace and status, or severity';

CREATE FUNCTION kube_reports_internal.reporter_total_counts(wanted kube_reports_internal.reporter_filter,
	by_severity boolean) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT kube_reports_internal.reporter_words((SELECT jsonb_object_agg(w.word, w.count)
			FROM (SELECT s.word, kube_reports_internal.total(s.count) AS count
				FROM kube_reports_internal.reporter_sums(wanted, by_severity) s GROUP BY s.word) w),
		CASE WHEN by_severity THEN kube_reports_internal.severity_words()
			ELSE kube_reports_internal.status_words() END);
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_total_counts(kube_reports_internal.reporter_filter, boolean)
	IS 'counts of one source by status, or severity';

CREATE FUNCTION kube_reports_internal.reporter_tree(wanted kube_reports_internal.reporter_filter)
	RETURNS TABLE (place text[], line jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH counted AS MATERIALIZED (
		SELECT c.source, c.category, c.status, c.severity, c.count FROM kube_reports_internal.reporter_counts(wanted) c
	), by_status AS (
		SELECT w.source, w.category, jsonb_object_agg(w.status, w.count) AS counts
		FROM (SELECT c.source, c.category, c.status, kube_reports_internal.total(c.count) AS count
			FROM counted c GROUP BY c.source, c.category, c.status) w
		GROUP BY w.source, w.category
	), by_severity AS (
		SELECT w.source, w.category, jsonb_object_agg(w.severity, w.count) AS counts
		FROM (SELECT c.source, c.category, c.severity, kube_reports_internal.total(c.count) AS count
			FROM counted c GROUP BY c.source, c.category, c.severity) w
		GROUP BY w.source, w.category
	)
	SELECT ARRAY[a.source], jsonb_build_object('name', a.source, 'categories', jsonb_agg(jsonb_build_object(
			'name', a.category,
			'status', kube_reports_internal.reporter_words(a.counts, kube_reports_internal.status_words()),
			'severities', kube_reports_internal.reporter_words(b.counts, kube_reports_internal.severity_words()))
		ORDER BY a.category))
	FROM by_status a JOIN by_severity b ON b.source = a.source AND b.category = a.category
	GROUP BY a.source;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_tree(kube_reports_internal.reporter_filter)
	IS 'a line for each source, with its categories and the counts of each by status and by severity';

-- Policy Reporter gives one line for all policies of a name.
CREATE FUNCTION kube_reports_internal.reporter_policies(wanted kube_reports_internal.reporter_filter)
	RETURNS TABLE (place text[], line jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT ARRAY[p.source, p.category, p.policy], jsonb_strip_nulls(jsonb_build_object(
		'source', nullif(p.source, ''), 'category', p.category, 'policy', p.policy, 'severity', nullif(
			(kube_reports_internal.severity_words())[max(p.severity)], 'unknown'),
		'results', jsonb_object_agg(p.status, p.count)))
	FROM (SELECT c.source, c.category, c.policy, c.status, kube_reports_internal.total(c.count) AS count,
			max(array_position(kube_reports_internal.severity_words(), c.severity)) AS severity
		FROM kube_reports_internal.reporter_counts(wanted) c
		WHERE (wanted).search IS NULL OR kube_reports_internal.caseless(c.policy) LIKE (wanted).search
			OR c.severity LIKE (wanted).search OR kube_reports_internal.caseless(c.kind) = (wanted).word
		GROUP BY c.source, c.category, c.policy, c.status) p
	GROUP BY p.source, p.category, p.policy;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_policies(kube_reports_internal.reporter_filter)
	IS 'a line for each policy of a source and a category, with counts by status and the highest of its severities';

CREATE FUNCTION kube_reports_internal.reporter_values(answer text, wanted kube_reports_internal.reporter_filter)
	RETURNS TABLE (place text[], line jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT ARRAY[v.value], to_jsonb(v.value)
	FROM (SELECT DISTINCT CASE answer WHEN 'namespaces' THEN c.namespace WHEN 'sources' THEN c.source
			WHEN 'namespace-kinds' THEN c.kind WHEN 'cluster-kinds' THEN c.kind ELSE c.category END AS value
		FROM kube_reports_internal.reporter_counts(wanted) c) v
	WHERE v.value <> '';
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_values(text, kube_reports_internal.reporter_filter)
	IS 'the namespaces, sources, kinds or categories that have results';

CREATE FUNCTION kube_reports_internal.reporter_targets(served integer) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN count(*) = 0 THEN '{}' ELSE jsonb_build_object('webhook', jsonb_agg(jsonb_build_object(
		'name', w.name, 'type', 'Webhook', 'minimumSeverity', '', 'filter', jsonb '{}', 'customFields', jsonb '{}',
		'properties', jsonb '{}', 'host', substring(w.url from '^https?://[^/?#]*'), 'useTLS', w.ca_file IS NOT NULL,
		'auth', w.token_file IS NOT NULL OR w.hmac_file IS NOT NULL) ORDER BY w.name)) END
	FROM kube_reports_internal.webhook w WHERE w.cluster_id = served;
END;
COMMENT ON FUNCTION kube_reports_internal.reporter_targets(integer)
	IS 'the webhooks of a cluster, by name and host, as targets of Policy Reporter';
