-- search.sql
--	  Searches for results, resources and reports by filters.
--
-- A search is a function of two halves.  The public half reads its caller's
-- name from the view caller and runs with the caller's privileges.  The other
-- half (find_...) runs as the owner, checks the caller's seal and builds a
-- statement from the fragments in filter.sql.  The caller's values are its
-- parameter ($1) and never part of its text.  The statement is planned for
-- these values, so that each filter uses its index.

---- results ----

CREATE FUNCTION kube_reports_internal.check_rows(max_rows integer) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF max_rows IS NULL OR max_rows NOT BETWEEN 1 AND 10000 THEN
		RAISE EXCEPTION 'a page has 1 to 10000 rows, not %',
			coalesce(max_rows::text, 'null') USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Searches with a parameter "after" give the rows behind a page on the next one.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_rows(integer)
	IS 'raises 22023 unless the argument can be the number of rows of a page';

CREATE FUNCTION kube_reports_internal.criteria_from(criteria bigint[], first bigint) RETURNS bigint[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN criteria IS NOT NULL THEN ARRAY(SELECT c FROM unnest(criteria) c WHERE c >= first) END;
END;
COMMENT ON FUNCTION kube_reports_internal.criteria_from(bigint[], bigint)
	IS 'the criteria that are not before a place in the order of results; null if there is no list of criteria';

CREATE FUNCTION kube_reports_internal.matching_results(wanted kube_reports_internal.result_filter,
	max_rows integer, after text)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, report_group text, report_resource text,
		report text, source text, policy text,
		rule text, category text, severity text, status text, native_status text, score double precision,
			subject_api_version text, subject_kind text,
		subject_namespace text, subject_name text, subject_uid text, message text, properties jsonb, exceptions text[],
			first_seen timestamptz,
		since timestamptz, place text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- Cells are read in order until the page is full.  A hash table would read all of them first.
SET enable_hashagg = off
SET jit = off
AS $$
DECLARE
	here		kube_reports_internal.result_filter;
	start		kube_reports_internal.result;
	step		integer := 1;
	found		integer;
BEGIN
	PERFORM kube_reports_internal.check_rows(max_rows);
	IF after IS NOT NULL THEN
		BEGIN
			SELECT (a.place->>0)::bigint, (a.place->>1)::"char", (a.place->>2)::integer, a.place->>3,
				(a.place->>4)::bigint, (a.place->>5)::bigint,
					(a.place->>6)::integer
				INTO STRICT start.criterion, start.status, start.cluster_id, start.namespace,
					start.origin, start.key, step
				FROM (SELECT after::jsonb AS place) a;
		EXCEPTION WHEN data_exception THEN
			start.key := NULL;
		END;
		IF start.criterion IS NULL OR start.status IS NULL OR start.cluster_id IS NULL OR start.namespace IS NULL
			OR start.origin IS NULL
			OR start.key IS NULL OR step IS NULL OR step NOT BETWEEN 1 AND 3 THEN
			RAISE EXCEPTION 'this is no place in results: %',
				left(after, 100) USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Give the column "place" of the last row of the page before.';
		END IF;
	END IF;
	wanted := kube_reports_internal.look_up_text(wanted, 2, step);
	LOOP
		here := wanted;
		IF start.key IS NOT NULL THEN
			-- An index is read once for each criterion, also for one before the place.
			here.criteria := kube_reports_internal.criteria_from(wanted.criteria, start.criterion);
			here.text_detail_criteria := kube_reports_internal.criteria_from(wanted.text_detail_criteria,
				start.criterion);
			here.text_criteria := kube_reports_internal.criteria_from(wanted.text_criteria, start.criterion);
		END IF;
		RETURN QUERY EXECUTE
			'SELECT c.uid, c.name, r.namespace, t."group", t.plural, g.name,
				k.source, k.policy, k.rule, k.category, k.severity, kube_reports_internal.status_name(r.status),
				coalesce(nullif(r.native_status, ''''), kube_reports_internal.status_name(r.status)),
				nullif(r.score, 0), s.api_version, s.kind, s.namespace, s.name, s.uid,
				d.message, d.properties, d.exceptions, r.first_seen, r.since,
				pg_catalog.jsonb_build_array(
					r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key, $4)::text
			FROM (' || kube_reports_internal.filter_rows(here, step, start.key IS NOT NULL) || ') p
				-- Row by row: with statistics from a time of few results, the planner would compare all results with
				-- all rows.
				CROSS JOIN LATERAL (SELECT r.* FROM kube_reports_internal.result r
					WHERE r.origin = p.origin AND r.key = p.key OFFSET 0) r
				JOIN kube_reports.cluster c ON c.id = r.cluster_id
				JOIN kube_reports_internal.criterion k ON k.id = r.criterion
				LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
				LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
				LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
				LEFT JOIN kube_reports.resource_type t ON t.id = g.resource_type
			ORDER BY r.criterion, r.status, r.cluster_id, r.namespace, r.origin, r.key'
			USING here, max_rows, start, step;
		GET DIAGNOSTICS found = ROW_COUNT;
		max_rows := max_rows - found;
		EXIT WHEN max_rows = 0 OR wanted.pattern IS NULL OR step >= 3;
		step := step + 1;
		start := NULL;
		wanted := kube_reports_internal.look_up_text(wanted, step, step);
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.matching_results(kube_reports_internal.result_filter, integer, text)
	IS 'the next results that match a filter of read_filter(), in a fixed order. Raises 22023 for a wrong place or '
		'number';

CREATE FUNCTION kube_reports_internal.find_results(role text, seal bytea, filter jsonb, max_rows integer, after text)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, report_group text, report_resource text,
		report text, source text, policy text,
		rule text, category text, severity text, status text, native_status text, score double precision,
			subject_api_version text, subject_kind text,
		subject_namespace text, subject_name text, subject_uid text, message text, properties jsonb, exceptions text[],
			first_seen timestamptz,
		since timestamptz, place text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT m.* FROM kube_reports_internal.matching_results(kube_reports_internal.read_filter(filter, role, seal),
		max_rows, after) m;
$$;
COMMENT ON FUNCTION kube_reports_internal.find_results(text, bytea, jsonb, integer, text)
	IS 'the half of search_results() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.search_results(filter jsonb DEFAULT '{}', max_rows integer DEFAULT 100,
	after text DEFAULT NULL)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, report_group text, report_resource text,
		report text, source text, policy text,
		rule text, category text, severity text, status text, native_status text, score double precision,
			subject_api_version text, subject_kind text,
		subject_namespace text, subject_name text, subject_uid text, message text, properties jsonb, exceptions text[],
			first_seen timestamptz,
		since timestamptz, place text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT f.* FROM kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_results(c.role, c.seal, filter, max_rows, after) f;
END;
COMMENT ON FUNCTION kube_reports.search_results(jsonb, integer, text)
	IS 'the next results that match a filter, in a fixed order. after: the place of the last row of the previous '
		'page. Raises 22023 for a wrong filter or place';

---- resources ----

CREATE FUNCTION kube_reports_internal.find_resources(role text, seal bytea, filter jsonb, max_rows integer, after text)
	RETURNS TABLE (cluster uuid, cluster_name text, api_version text, kind text, namespace text, name text, uid text,
		pass bigint, warn bigint, fail bigint, error bigint, skip bigint, failing bigint, since timestamptz, place text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	wanted		kube_reports_internal.result_filter :=
		kube_reports_internal.look_up_text(kube_reports_internal.read_filter(filter, role, seal), 2, 3);
	start_failing bigint;
	start_subject bigint;
BEGIN
	PERFORM kube_reports_internal.check_rows(max_rows);
	IF after IS NOT NULL THEN
		BEGIN
			start_failing := after::jsonb->>0;
			start_subject := after::jsonb->>1;
		EXCEPTION WHEN data_exception THEN
			start_subject := NULL;
		END;
		IF start_failing IS NULL OR start_subject IS NULL THEN
			RAISE EXCEPTION 'this is no place in resources: %',
				left(after, 100) USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Give the column "place" of the last row of the page before.';
		END IF;
	END IF;
	-- Some reports of a resource have its uid and others do not, so a resource may have several subjects: add up their
	-- counts.
	RETURN QUERY EXECUTE
		'SELECT c.uid, c.name, n.api_version, n.kind, n.namespace, n.name, n.uid,
			n.pass, n.warn, n.fail, n.error, n.skip, n.failing, n.since,
			pg_catalog.jsonb_build_array(n.failing, n.subject)::text
		FROM (SELECT s.cluster_id, s.api_version, s.kind, s.namespace, s.name,
				max(s.uid) AS uid, min(n.subject) AS subject,
				kube_reports_internal.total(n.pass) AS pass, kube_reports_internal.total(n.warn) AS warn,
				kube_reports_internal.total(n.fail) AS fail, kube_reports_internal.total(n.error) AS error,
				kube_reports_internal.total(n.skip) AS skip, kube_reports_internal.total(n.failing) AS failing,
				max(n.since) AS since
			FROM (SELECT r.subject,
					count(*) FILTER (WHERE r.status = ''p'') AS pass, count(*) FILTER (WHERE r.status = ''w'') AS warn,
					count(*) FILTER (WHERE r.status = ''f'') AS fail, count(*) FILTER (WHERE r.status = ''e'') AS error,
					count(*) FILTER (WHERE r.status = ''s'') AS skip,
					count(*) FILTER (WHERE r.status IN (''w'', ''f'', ''e'')) AS failing, max(r.since) AS since
				FROM kube_reports_internal.result r
					JOIN kube_reports_internal.criterion k ON k.id = r.criterion
					JOIN kube_reports_internal.subject s ON s.id = r.subject
					JOIN kube_reports_internal.detail d ON d.id = r.detail
					JOIN kube_reports_internal.origin g ON g.id = r.origin
				WHERE ' || kube_reports_internal.result_conditions(wanted) || '
				GROUP BY r.subject) n
				JOIN kube_reports_internal.subject s ON s.id = n.subject
			GROUP BY s.cluster_id, s.api_version, s.kind, s.namespace, s.name) n
			JOIN kube_reports.cluster c ON c.id = n.cluster_id'
			|| CASE WHEN after IS NOT NULL
				THEN ' WHERE n.failing < $3 OR n.failing = $3 AND n.subject > $4' ELSE '' END || '
		ORDER BY n.failing DESC, n.subject LIMIT $2'
		USING wanted, max_rows, start_failing, start_subject;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.find_resources(text, bytea, jsonb, integer, text)
	IS 'the half of search_resources() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.search_resources(filter jsonb DEFAULT '{}', max_rows integer DEFAULT 100,
	after text DEFAULT NULL)
	RETURNS TABLE (cluster uuid, cluster_name text, api_version text, kind text, namespace text, name text, uid text,
		pass bigint, warn bigint, fail bigint, error bigint, skip bigint, failing bigint, since timestamptz, place text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT f.* FROM kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_resources(c.role, c.seal, filter, max_rows, after) f;
END;
COMMENT ON FUNCTION kube_reports.search_resources(jsonb, integer, text)
	IS 'resources with counts of those of their results that match a filter; the resources with the most failing '
		'results (warn, fail, error) come first. Cluster, version, kind, namespace and name identify a resource; uid '
		'is empty if no report names it, and the greatest if reports name several. after: the place of the last row '
		'of the previous page';

---- reports ----

CREATE FUNCTION kube_reports_internal.find_reports(role text, seal bytea, filter jsonb, max_rows integer, after bigint)
	RETURNS TABLE (cluster uuid, cluster_name text, report_group text, report_resource text, namespace text,
		report text, results bigint,
		highest_score double precision, place bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A scan of all results, a bitmap scan or a sort of all scored results is never the best way to the first rows, but
-- seems cheap if statistics are older than the results.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off
AS $$
DECLARE
	wanted		kube_reports_internal.result_filter :=
		kube_reports_internal.look_up_text(kube_reports_internal.read_filter(filter, role, seal), 2, 3);
	-- Conditions on single namespaces have an index of their own.
	scored		text := kube_reports_internal.count_conditions(wanted) || ' AND '
		|| CASE WHEN wanted.scope_clusters = '{}' OR wanted.namespaces IS NOT NULL
		THEN kube_reports_internal.score_conditions(wanted) ELSE kube_reports_internal.score_range(wanted) END;
	few			boolean := true;
BEGIN
	PERFORM kube_reports_internal.check_rows(max_rows);
	-- Count instead of estimating: few results are found by their score and sorted; if there are many, a walk in the
	-- order of the index result_report_score soon meets the first reports.  Each of the two statements fits one index
	-- only: OFFSET keeps the order of reports out of the first one, way keeps the other index out of the second one. If
	-- the first scored results fill the page, a walk is better for any number of results, because a sort takes longer
	-- with each of them.  For single namespaces, the first results of the whole store say nothing.
	IF wanted.scope_clusters IS DISTINCT FROM '{}' AND wanted.namespaces IS NULL THEN
		EXECUTE 'SELECT count(*) < $2 FROM (SELECT r.origin FROM (SELECT r.* FROM kube_reports_internal.result r
				WHERE r.score > 0 AND r.origin > $3 ORDER BY r.origin LIMIT least(40 * $2, 20000)) r
			WHERE ' || scored || ' GROUP BY r.origin LIMIT $2) r' INTO few USING wanted, max_rows, coalesce(after, 0);
	END IF;
	IF few THEN
		EXECUTE 'SELECT count(*) <= 20000 FROM (SELECT FROM kube_reports_internal.result r WHERE ' || scored
			|| ' LIMIT 20001) r' INTO few USING wanted;
	END IF;
	wanted.way := 'counts';
	RETURN QUERY EXECUTE
		'SELECT c.uid, c.name, t."group", t.plural, g.namespace, g.name, n.results, nullif(n.score, 0), n.origin
		FROM (SELECT r.origin, count(*) AS results, max(r.score) AS score
			FROM ' || CASE WHEN few
				THEN '(SELECT r.* FROM (SELECT r.* FROM kube_reports_internal.result r
						WHERE ' || scored || ' OFFSET 0) r
					WHERE r.origin > $3 ORDER BY r.origin OFFSET 0)'
				ELSE 'kube_reports_internal.result' END || ' r
				LEFT JOIN kube_reports_internal.criterion k ON k.id = r.criterion
				LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
				LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
				LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
			WHERE r.origin > $3 AND ' || kube_reports_internal.result_conditions(wanted) || '
			GROUP BY r.origin ORDER BY r.origin LIMIT $2) n
			JOIN kube_reports_internal.origin g ON g.id = n.origin
			JOIN kube_reports.cluster c ON c.id = g.cluster_id
			JOIN kube_reports.resource_type t ON t.id = g.resource_type
		ORDER BY n.origin'
		USING wanted, max_rows, coalesce(after, 0);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.find_reports(text, bytea, jsonb, integer, bigint)
	IS 'the half of reports_with_score() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.reports_with_score(minimum double precision, filter jsonb DEFAULT '{}',
	max_rows integer DEFAULT 100, after bigint DEFAULT NULL)
	RETURNS TABLE (cluster uuid, cluster_name text, report_group text, report_resource text, namespace text,
		report text, results bigint,
		highest_score double precision, place bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT f.* FROM kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_reports(c.role, c.seal,
			coalesce(filter, '{}') || jsonb_build_object('score_from', minimum), max_rows, after) f
	WHERE minimum IS NOT NULL;
END;
COMMENT ON FUNCTION kube_reports.reports_with_score(double precision, jsonb, integer, bigint)
	IS 'reports that contain a result with at least this score (such as CVSS 8.0), with the number of such results '
		'and the highest score; oldest reports first. after: the place of the last row of the previous page';

---- vulnerabilities ----

CREATE FUNCTION kube_reports_internal.failing_counts(wanted kube_reports_internal.result_filter) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN 'SELECT r.criterion, r.cluster_id, r.namespace, sum(r.count) AS count
		FROM (SELECT r.criterion, r.status, r.cluster_id, r.namespace, r.native_status, r.count FROM unnest($2) i(id)
				CROSS JOIN LATERAL (SELECT r.* FROM kube_reports_internal.rollup r
					WHERE r.criterion = i.id AND r.count <> 0 OFFSET 0) r
			UNION ALL
			SELECT r.criterion, r.status, r.cluster_id, r.namespace, r.native_status, r.count
				FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) r
				WHERE r.criterion = ANY ($2)) r
		WHERE ' || kube_reports_internal.count_conditions(wanted) || '
			AND NOT kube_reports_internal.excluded_from_score(r.native_status)
		GROUP BY r.criterion, r.cluster_id, r.namespace HAVING sum(r.count) > 0';
COMMENT ON FUNCTION kube_reports_internal.failing_counts(kube_reports_internal.result_filter)
	IS 'a query of the counts of the criteria $2 that count in scores. The text consists of constants; the filter is '
		'$1';

-- Scores say which vulnerabilities are worst, and only results have scores; counts have none.  The function walks the
-- distinct pairs of score and criterion from the highest score down, with one lookup in the index result_score for
-- each pair, until it has enough pairs with results that the caller may see.
CREATE FUNCTION kube_reports_internal.highest_scores(wanted kube_reports_internal.result_filter, sources text[],
	max_rows integer, OUT worst_sources text[], OUT worst_policies text[], OUT worst_scores double precision[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	max_unseen CONSTANT integer := 2000;
	max_equals CONSTANT integer := 500;
	conditions CONSTANT text := kube_reports_internal.count_conditions(wanted)
		|| ' AND NOT kube_reports_internal.excluded_from_score(r.native_status)';
	place		record;
	unseen		integer := 0;
	equals		integer := 0;
	rest		double precision;
	found		bigint;
BEGIN
	worst_sources := '{}';
	worst_policies := '{}';
	worst_scores := '{}';
	-- From the highest score down, one index lookup for each score and criterion, until the loop has enough pairs.
	-- Equals of the last one are included, because the numbers of their results decide; but not without a limit: where
	-- a scanner gives one score to all, the function would count them all.
	FOR place IN EXECUTE
		'WITH RECURSIVE scored AS (
			(SELECT nullif(r.score, 0) AS score, r.criterion FROM kube_reports_internal.result r
				WHERE nullif(r.score, 0) IS NOT NULL ORDER BY nullif(r.score, 0) DESC, r.criterion DESC LIMIT 1)
			UNION ALL
			SELECT n.score, n.criterion
			FROM scored s CROSS JOIN LATERAL (SELECT nullif(r.score, 0) AS score, r.criterion
				FROM kube_reports_internal.result r
				WHERE nullif(r.score, 0) IS NOT NULL AND (nullif(r.score, 0), r.criterion) < (s.score, s.criterion)
				ORDER BY nullif(r.score, 0) DESC, r.criterion DESC LIMIT 1) n)
		SELECT s.score, k.source, k.policy, r.seen
		FROM scored s
			LEFT JOIN LATERAL (SELECT k.id, k.source, k.policy FROM kube_reports_internal.criterion k
				WHERE k.id = s.criterion AND kube_reports_internal.is_vulnerability(k.policy)
					AND ($2 IS NULL OR k.source = ANY ($2))
				OFFSET 0) k ON true
			LEFT JOIN LATERAL (SELECT true AS seen FROM kube_reports_internal.result r
				WHERE r.criterion = k.id AND nullif(r.score, 0) = s.score AND ' || conditions || ' LIMIT 1) r ON true'
		USING wanted, sources
	LOOP
		IF place.score < worst_scores[cardinality(worst_scores)] AND cardinality(worst_scores) >= max_rows THEN
			SELECT count(*) INTO found FROM (SELECT DISTINCT w.source, w.policy
				FROM unnest(worst_sources, worst_policies) w(source, policy)) w;
			EXIT WHEN found >= max_rows;
		END IF;
		IF place.seen THEN
			equals := CASE WHEN place.score = worst_scores[cardinality(worst_scores)] THEN equals + 1 ELSE 1 END;
			worst_sources := worst_sources || place.source;
			worst_policies := worst_policies || place.policy;
			worst_scores := worst_scores || place.score;
			IF equals % max_equals = 0 THEN
				SELECT count(*) INTO found FROM (SELECT DISTINCT w.source, w.policy
					FROM unnest(worst_sources, worst_policies) w(source, policy)) w;
				EXIT WHEN found >= max_rows;
			END IF;
		ELSE
			unseen := unseen + 1;
			IF unseen > max_unseen THEN
				rest := place.score;
				EXIT;
			END IF;
		END IF;
	END LOOP;
	-- The caller may see only few of the results: read the results that the caller may see.
	IF rest IS NOT NULL THEN
		EXECUTE 'SELECT $3 || array_agg(v.source), $4 || array_agg(v.policy), $5 || array_agg(v.score)
			FROM (SELECT k.source, k.policy, max(r.score) AS score
				FROM (SELECT r.criterion, max(r.score) AS score, count(*) AS results
						FROM kube_reports_internal.result r
						WHERE r.score > 0 AND r.score <= $6 AND ' || conditions || ' GROUP BY r.criterion) r
					JOIN kube_reports_internal.criterion k ON k.id = r.criterion
				WHERE kube_reports_internal.is_vulnerability(k.policy) AND ($7 IS NULL OR k.source = ANY ($7))
				GROUP BY k.source, k.policy
				ORDER BY score DESC, sum(r.results) DESC, k.policy, k.source LIMIT $2) v'
			INTO worst_sources, worst_policies, worst_scores USING wanted, max_rows + max_equals, worst_sources,
				worst_policies, worst_scores, rest, sources;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.highest_scores(kube_reports_internal.result_filter, text[], integer)
	IS 'pairs of source and policy of the vulnerabilities with the highest scores, for find_vulnerabilities(), with '
		'these scores; a pair may be there more than once';

CREATE FUNCTION kube_reports_internal.find_vulnerabilities(role text, seal bytea, filter jsonb, max_rows integer)
	RETURNS TABLE (source text, policy text, severity text, score double precision, failing bigint, places bigint,
		package text, installed_version text, fixed_version text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Results and counts are looked up one by one, even if statistics say that the tables are small.
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	asked		jsonb := kube_reports_internal.checked_filter(filter,
		ARRAY['cluster', 'cluster_labels', 'namespace', 'source'],
		'the filter of vulnerabilities has',
		'Members are cluster, cluster_labels, namespace and source.') || '{"status": ["warn", "fail", "error"]}';
	-- Compared by name, not by criteria: a vulnerability scanner has tens of thousands of criteria.
	sources CONSTANT text[] := kube_reports_internal.filter_strings(asked, 'source');
	wanted		kube_reports_internal.result_filter := kube_reports_internal.read_filter(asked - 'source', role, seal);
	-- Counts of the criteria $2.
	cells CONSTANT text := kube_reports_internal.failing_counts(wanted);
	worst_sources text[];
	worst_policies text[];
	worst_scores double precision[];
	found		bigint;
	criteria	bigint[];
	level		text;
	more		bigint;
BEGIN
	PERFORM kube_reports_internal.check_rows(max_rows);
	SELECT s.* INTO worst_sources, worst_policies, worst_scores
		FROM kube_reports_internal.highest_scores(wanted, sources, max_rows) s;
	SELECT count(*) INTO found FROM (SELECT DISTINCT w.source, w.policy
		FROM unnest(worst_sources, worst_policies) w(source, policy)) w;
	-- Vulnerabilities without a score come last, by severity.
	FOREACH level IN ARRAY ARRAY(SELECT s.word
		FROM unnest(kube_reports_internal.severity_words()) WITH ORDINALITY s(word, place) ORDER BY s.place DESC)
	LOOP
		EXIT WHEN found >= max_rows;
		SELECT array_agg(k.id) INTO criteria FROM kube_reports_internal.criterion k
			WHERE k.severity = level AND kube_reports_internal.is_vulnerability(k.policy)
				AND (sources IS NULL OR k.source = ANY (sources));
		CONTINUE WHEN criteria IS NULL;
		EXECUTE 'SELECT $3 || array_agg(v.source), $4 || array_agg(v.policy), count(*)
			FROM (SELECT DISTINCT k.source, k.policy
					FROM (' || cells || ') c JOIN kube_reports_internal.criterion k ON k.id = c.criterion
				EXCEPT SELECT * FROM unnest($3, $4)) v'
			INTO worst_sources, worst_policies, more USING wanted, criteria, worst_sources, worst_policies;
		found := found + more;
	END LOOP;

	SELECT array_agg(k.id) INTO criteria FROM kube_reports_internal.criterion k
		WHERE (k.source, k.policy) IN (SELECT * FROM unnest(worst_sources, worst_policies));
	-- The other columns are in the results: read at most a hundred results of each vulnerability.
	RETURN QUERY EXECUTE
		'SELECT v.source, v.policy, v.severity, v.score, v.failing, v.places,
			f.package, f.installed_version, f.fixed_version
		FROM (SELECT k.source, k.policy, w.score, sum(c.count)::bigint AS failing,
				count(DISTINCT (c.cluster_id, c.namespace)) AS places, array_agg(DISTINCT c.criterion) AS criteria,
				(kube_reports_internal.severity_words())[
					max(array_position(kube_reports_internal.severity_words(), k.severity))] AS severity
			FROM (' || cells || ') c
				JOIN kube_reports_internal.criterion k ON k.id = c.criterion
				JOIN (SELECT w.source, w.policy, max(w.score) AS score
						FROM unnest($3, $4, $5) w(source, policy, score) GROUP BY w.source, w.policy) w
					ON w.source = k.source AND w.policy = k.policy
			GROUP BY k.source, k.policy, w.score
			ORDER BY w.score DESC NULLS LAST,
				max(array_position(kube_reports_internal.severity_words(), k.severity)) DESC,
				failing DESC, k.policy, k.source
			LIMIT $6) v
			CROSS JOIN LATERAL (SELECT
					min(coalesce(d.properties->>''resource'', d.properties->>''pkgName'')) AS package,
					min(nullif(d.properties->>''installedVersion'', '''')) AS installed_version,
					max(nullif(d.properties->>''fixedVersion'', '''')) AS fixed_version
				FROM (SELECT r.detail FROM kube_reports_internal.result r
					WHERE r.criterion = ANY (v.criteria) AND (v.score IS NULL OR r.score = v.score)
						AND ' || kube_reports_internal.count_conditions(wanted) || ' LIMIT 100) r
					JOIN kube_reports_internal.detail d ON d.id = r.detail) f
		ORDER BY v.score DESC NULLS LAST, array_position(kube_reports_internal.severity_words(), v.severity) DESC,
			v.failing DESC, v.policy, v.source'
		USING wanted, criteria, worst_sources, worst_policies, worst_scores, max_rows;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.find_vulnerabilities(text, bytea, jsonb, integer)
	IS 'the half of worst_vulnerabilities() that runs as the owner: role and seal are those of the view caller';

CREATE FUNCTION kube_reports.worst_vulnerabilities(n integer DEFAULT 10, filter jsonb DEFAULT '{}')
	RETURNS TABLE (source text, policy text, severity text, score double precision, failing bigint, places bigint,
		package text, installed_version text, fixed_version text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT f.* FROM kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_vulnerabilities(c.role, c.seal, filter, n) f;
END;
COMMENT ON FUNCTION kube_reports.worst_vulnerabilities(integer, jsonb)
	IS 'the vulnerabilities (policies named CVE-... or GHSA-...) with the highest scores among failing results; those '
		'without a score are ordered by severity. Of those with the same score the ones with the most failing results '
		'come first; of more than 500 with it, 500 are compared. failing: the number of failing results; places: the '
		'number of namespaces; filter: members cluster, cluster_labels, namespace, source. Raises 22023 for a wrong '
		'filter';

---- top values of a dimension ----

CREATE FUNCTION kube_reports.top(dimension text, n integer DEFAULT 10, filter jsonb DEFAULT '{}')
	RETURNS TABLE (value text, failing bigint, total bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- Most members of a filter are not given, and one may name hundreds of namespaces: these are looked up in a hash table
-- only if the planner sees them.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
	clusters	text[];
	namespaces	text[];
	sources		text[];
	categories	text[];
	policies	text[];
	rules		text[];
	severities	text[];
	kinds		text[];
	statuses	text[];
	native_statuses text[];
BEGIN
	PERFORM kube_reports_internal.check_rows(n);
	IF dimension IS NULL OR dimension NOT IN ('cluster', 'namespace', 'source', 'category', 'policy', 'rule',
		'severity', 'subject_kind', 'image') THEN
		RAISE EXCEPTION 'there is no dimension "%"',
			coalesce(dimension, 'null') USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Dimensions are cluster, namespace, source, category, policy, rule, severity, subject_kind '
				'and image.';
	END IF;
	filter := kube_reports_internal.checked_filter(filter,
		ARRAY['cluster', 'cluster_labels', 'namespace', 'source', 'category', 'policy', 'rule', 'severity',
			'subject_kind', 'status', 'native_status'],
		'counts have', 'Counts are by cluster, namespace, source, category, policy, rule, severity, subject_kind, '
			'status and native_status.');
	severities := kube_reports_internal.filter_words(filter, 'severity', kube_reports_internal.severity_words());
	statuses := kube_reports_internal.filter_words(filter, 'status', kube_reports_internal.status_words());
	clusters := kube_reports_internal.filter_clusters(filter);
	namespaces := kube_reports_internal.filter_strings(filter, 'namespace');
	sources := kube_reports_internal.filter_strings(filter, 'source');
	categories := kube_reports_internal.filter_strings(filter, 'category');
	policies := kube_reports_internal.filter_strings(filter, 'policy');
	rules := kube_reports_internal.filter_strings(filter, 'rule');
	kinds := kube_reports_internal.filter_strings(filter, 'subject_kind');
	native_statuses := kube_reports_internal.filter_strings(filter, 'native_status');
	RETURN QUERY
	WITH counted AS (
		SELECT CASE dimension WHEN 'cluster' THEN coalesce(nullif(r.cluster_name, ''), r.cluster::text)
			WHEN 'namespace' THEN r.namespace
				WHEN 'source' THEN r.source WHEN 'category' THEN r.category WHEN 'policy' THEN r.policy
					WHEN 'rule' THEN r.rule
				WHEN 'severity' THEN r.severity ELSE r.subject_kind END AS value,
			r.status, r.count, r.cluster, r.cluster_name, r.namespace, r.source, r.category, r.policy, r.rule,
				r.severity, r.subject_kind, r.native_status
		FROM kube_reports.result_count r WHERE dimension <> 'image'
		UNION ALL
		SELECT r.properties->>'artifact.repository' || coalesce(':' || (r.properties->>'artifact.tag'), ''),
			r.status, 1, r.cluster, r.cluster_name, r.namespace, r.source, r.category, r.policy, r.rule, r.severity,
				r.subject_kind, r.native_status
		FROM kube_reports.typed_result r WHERE dimension = 'image' AND r.properties ? 'artifact.repository'
	)
	SELECT c.value, coalesce(sum(c.count) FILTER (WHERE c.status IN ('warn', 'fail', 'error')), 0)::bigint,
		sum(c.count)::bigint
	FROM counted c
	WHERE kube_reports_internal.in_clusters(clusters, c.cluster, c.cluster_name)
		AND (namespaces IS NULL OR c.namespace = ANY (namespaces)) AND (sources IS NULL OR c.source = ANY (sources))
		AND (categories IS NULL OR c.category = ANY (categories)) AND (policies IS NULL OR c.policy = ANY (policies))
		AND (rules IS NULL OR c.rule = ANY (rules)) AND (severities IS NULL OR c.severity = ANY (severities))
		AND (kinds IS NULL OR c.subject_kind = ANY (kinds)) AND (statuses IS NULL OR c.status = ANY (statuses))
		AND (native_statuses IS NULL OR c.native_status = ANY (native_statuses))
	GROUP BY c.value
	ORDER BY 2 DESC, 3 DESC, 1
	LIMIT n;
END
$$;
COMMENT ON FUNCTION kube_reports.top(text, integer, jsonb)
	IS 'the values of a dimension (cluster, namespace, source, category, policy, rule, severity, subject_kind, image) '
		'with the most failing results (warn, fail, error). filter: members cluster, namespace, source, category, '
		'policy, rule, severity, subject_kind, status, native_status. All dimensions except image are read from the '
		'counts. Raises 22023 for a wrong dimension or filter';
