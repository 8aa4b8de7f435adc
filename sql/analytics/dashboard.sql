-- dashboard.sql
--	  The numbers of the dashboard.
--
-- dashboard() queries, dashboard_html() makes the page (analytics/dashboard_page.sql).  The answer has a bounded size
-- for any store: the first entries of each list, at most 92 days of each line.  dashboard() reads the readers' views
-- and searches, so that it shows only what its caller may see.
--
-- Counts by severity are arrays: critical, high, medium, low, other (info and unknown).  Failing results have status
-- warn, fail or error.

-- The three functions below are parts of dashboard(), which checks the filter and takes its members apart.
CREATE FUNCTION kube_reports_internal.dashboard_failing(clusters text[], namespaces text[], sources text[],
	filter jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_rows CONSTANT integer := 10;
	lists		jsonb;
BEGIN
	-- One pass over the counts.
	WITH counted AS MATERIALIZED (
		SELECT c.cluster, c.cluster_name, c.namespace, c.source, c.policy,
			kube_reports_internal.total(c.pass) AS pass, kube_reports_internal.total(c.failing) AS failing,
			kube_reports_internal.total(c.failing * (c.severity = 'critical')::integer) AS critical,
			kube_reports_internal.total(c.failing * (c.severity = 'high')::integer) AS high,
			kube_reports_internal.total(c.failing * (c.severity = 'medium')::integer) AS medium,
			kube_reports_internal.total(c.failing * (c.severity = 'low')::integer) AS low,
			kube_reports_internal.total(c.failing * (c.severity IN ('info', 'unknown'))::integer) AS other
		FROM (SELECT r.*, CASE r.status WHEN 'pass' THEN r.count ELSE 0 END AS pass,
				CASE WHEN r.status IN ('warn', 'fail', 'error') THEN r.count ELSE 0 END AS failing
			FROM kube_reports.result_count r
			WHERE kube_reports_internal.in_clusters(clusters, r.cluster, r.cluster_name)
				AND (namespaces IS NULL OR r.namespace = ANY (namespaces))
					AND (sources IS NULL OR r.source = ANY (sources))
				AND NOT kube_reports_internal.excluded_from_score(r.native_status)) c
		GROUP BY c.cluster, c.cluster_name, c.namespace, c.source, c.policy
	), policy AS (
		SELECT c.source, c.policy, kube_reports_internal.is_vulnerability(c.policy) AS vulnerability,
			kube_reports_internal.total(c.pass) AS pass, kube_reports_internal.total(c.failing) AS failing,
			count(*) FILTER (WHERE c.failing > 0) AS places,
			kube_reports_internal.total(c.critical) AS critical, kube_reports_internal.total(c.high) AS high,
			kube_reports_internal.total(c.medium) AS medium, kube_reports_internal.total(c.low) AS low,
			kube_reports_internal.total(c.other) AS other
		FROM counted c GROUP BY c.source, c.policy
	), namespace AS (
		SELECT c.cluster, c.cluster_name, c.namespace, kube_reports_internal.total(c.pass) AS pass,
			kube_reports_internal.total(c.failing) AS failing,
			round(kube_reports_internal.total(c.pass)::numeric
				/ nullif(kube_reports_internal.total(c.pass + c.failing), 0), 6) AS score,
			jsonb_build_array(kube_reports_internal.total(c.critical), kube_reports_internal.total(c.high),
				kube_reports_internal.total(c.medium), kube_reports_internal.total(c.low),
				kube_reports_internal.total(c.other)) AS parts
		FROM counted c GROUP BY c.cluster, c.cluster_name, c.namespace
	)
	SELECT jsonb_build_object(
		'sources', (SELECT count(DISTINCT p.source) FROM policy p),
		'policies', (SELECT count(*) FROM policy p WHERE NOT p.vulnerability),
		'failing_policies', (SELECT count(*) FROM policy p WHERE NOT p.vulnerability AND p.failing > 0),
		'vulnerabilities', (SELECT count(DISTINCT p.policy) FROM policy p WHERE p.vulnerability AND p.failing > 0),
		'namespaces', (SELECT count(*) FROM namespace n),
		'failing_namespaces', (SELECT count(*) FROM namespace n WHERE n.failing > 0),
		'top_policies', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.failing DESC, t.policy, t.source), '[]')
			FROM (
			SELECT p.source, p.policy, p.pass, p.failing, p.places,
				jsonb_build_array(p.critical, p.high, p.medium, p.low, p.other) AS parts
			FROM policy p WHERE NOT p.vulnerability AND p.failing > 0
				ORDER BY p.failing DESC, p.policy, p.source LIMIT max_rows) t),
		'top_namespaces', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.failing DESC, t.namespace, t.cluster), '[]')
			FROM (
			SELECT n.* FROM namespace n WHERE n.failing > 0
				ORDER BY n.failing DESC, n.namespace, n.cluster LIMIT max_rows) t),
		'top_vulnerabilities', (SELECT coalesce(
			jsonb_agg(jsonb_build_object('source', v.source, 'policy', v.policy, 'failing', v.failing,
				'places', v.places, 'severity', CASE WHEN v.severity IN ('info', 'unknown') THEN 'other'
					ELSE v.severity END, 'score', v.score,
				'package', v.package, 'installed_version', v.installed_version, 'fixed_version', v.fixed_version)
					ORDER BY v.place), '[]')
			FROM kube_reports.worst_vulnerabilities(max_rows, filter) WITH ORDINALITY v(source, policy, severity, score,
				failing, places, package,
				installed_version, fixed_version, place)))
		INTO lists;
	RETURN lists;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dashboard_failing(text[], text[], text[], jsonb)
	IS 'what fails now: numbers of policies, namespaces and vulnerabilities, and those that fail most';

CREATE FUNCTION kube_reports_internal.dashboard_history(first_day date, last_day date, clusters text[],
	namespaces text[], sources text[], filter jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_days CONSTANT integer := 92;
	max_rows CONSTANT integer := 10;
	step CONSTANT integer := greatest(last_day - first_day, 0) / max_days + 1;
	trends		jsonb;
BEGIN
	-- Counts at the end of each step, of all clusters and of those with the most failing results.
	WITH added AS MATERIALIZED (
		SELECT s.cluster, s.cluster_name, last_day - (last_day - greatest(s.day, first_day)) / step * step AS day,
			sum(s.pass) AS pass, sum(s.failing) AS failing,
				sum(s.failing * (s.severity = 'critical')::integer) AS critical,
			sum(s.failing * (s.severity = 'high')::integer) AS high,
				sum(s.failing * (s.severity = 'medium')::integer) AS medium,
			sum(s.failing * (s.severity = 'low')::integer) AS low,
				sum(s.failing * (s.severity IN ('info', 'unknown'))::integer) AS other
		FROM (SELECT s.*, s.warn + s.fail + s.error AS failing FROM kube_reports.score_change s) s
		WHERE s.day <= last_day AND kube_reports_internal.in_clusters(clusters, s.cluster, s.cluster_name)
			AND (sources IS NULL OR s.source = ANY (sources))
			AND CASE WHEN namespaces IS NULL THEN s.of_cluster ELSE s.namespace <> '*'
				AND s.namespace = ANY (namespaces) END
		GROUP BY 1, 2, 3
	), day AS (
		SELECT last_day - number * step AS day FROM generate_series(0, (last_day - first_day) / step) number
	), cluster AS (
		SELECT a.cluster, a.cluster_name, sum(a.pass) AS pass, sum(a.failing) AS failing,
			round(sum(a.pass) / nullif(sum(a.pass + a.failing), 0), 6) AS score,
			jsonb_build_array(sum(a.critical), sum(a.high), sum(a.medium), sum(a.low), sum(a.other)) AS parts
		FROM added a GROUP BY a.cluster, a.cluster_name
	)
	SELECT jsonb_build_object(
		'trend', (SELECT jsonb_agg(jsonb_build_object('day', t.day, 'pass', t.pass, 'warn', t.warn, 'fail', t.fail,
			'error', t.error, 'skip', t.skip,
				'excluded', t.excluded, 'failing', t.failing, 'score', round(t.score::numeric, 6),
				'weighted_score', round(t.weighted_score::numeric, 6),
				'parts', jsonb_build_array(t.critical, t.high, t.medium, t.low, t.other)) ORDER BY t.day)
			FROM kube_reports.fleet_score(first_day, last_day, filter, step) t),
		'top_clusters', (SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.failing DESC, t.cluster), '[]') FROM (
			SELECT c.*, f.evaluated_at, f.silent_for,
				(SELECT jsonb_agg(x.score ORDER BY x.day) FROM (
					SELECT d.day, round(sum(sum(a.pass)) OVER w / nullif(sum(sum(a.pass + a.failing)) OVER w, 0),
						6) AS score
					FROM day d LEFT JOIN added a ON a.day = d.day AND a.cluster = c.cluster
						GROUP BY d.day WINDOW w AS (ORDER BY d.day)) x) AS scores
			FROM (SELECT c.* FROM cluster c ORDER BY c.failing DESC, c.cluster LIMIT max_rows) c
				LEFT JOIN kube_reports.fleet_freshness f ON f.cluster = c.cluster) t))
		INTO trends;
	RETURN trends;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dashboard_history(date, date, text[], text[], text[], jsonb)
	IS 'scores and counts by day, of the fleet and of the clusters that fail most; at most 92 days, so many days apart';

CREATE FUNCTION kube_reports_internal.dashboard_ages(first_day date, clusters text[], namespaces text[],
	sources text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_oldest CONSTANT integer := 6;
	ages		jsonb;
	oldest		jsonb;
BEGIN
	SELECT jsonb_build_object(
		'ages', jsonb_agg(jsonb_build_array(coalesce(a.critical, 0), coalesce(a.high, 0), coalesce(a.medium, 0),
			coalesce(a.low, 0), coalesce(a.other, 0)) ORDER BY age),
		'new', coalesce(sum(a.new), 0), 'overdue', coalesce(sum(a.critical) FILTER (WHERE age >= 2), 0))
		INTO ages
		FROM generate_series(0, 4) age
			LEFT JOIN (SELECT width_bucket(o.age, ARRAY['1 day', '7 days', '30 days', '90 days']::interval[]) AS age,
				count(*) FILTER (WHERE o.severity = 'critical') AS critical,
					count(*) FILTER (WHERE o.severity = 'high') AS high,
				count(*) FILTER (WHERE o.severity = 'medium') AS medium,
					count(*) FILTER (WHERE o.severity = 'low') AS low,
				count(*) FILTER (WHERE o.severity IN ('info', 'unknown')) AS other,
				count(*) FILTER (WHERE o.since >= first_day::timestamp AT TIME ZONE 'UTC') AS new
			FROM kube_reports.open_failures o
			WHERE kube_reports_internal.in_clusters(clusters, o.cluster, o.cluster_name)
				AND (namespaces IS NULL OR o.namespace = ANY (namespaces))
					AND (sources IS NULL OR o.source = ANY (sources))
				AND NOT kube_reports_internal.excluded_from_score(o.native_status)
			GROUP BY 1) a USING (age);
	SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY t.since, kube_reports.severity_weight(t.severity) DESC, t.policy,
		t.subject_name), '[]') INTO oldest
		FROM (SELECT o.cluster, o.cluster_name, o.namespace, o.policy, o.rule, o.severity, o.subject_kind,
			o.subject_name, o.since
			FROM kube_reports.open_failures o
			WHERE kube_reports_internal.in_clusters(clusters, o.cluster, o.cluster_name)
				AND (namespaces IS NULL OR o.namespace = ANY (namespaces))
					AND (sources IS NULL OR o.source = ANY (sources))
				AND NOT kube_reports_internal.excluded_from_score(o.native_status)
			ORDER BY o.since, kube_reports.severity_weight(o.severity) DESC, o.policy,
				o.subject_name LIMIT max_oldest) t;
	RETURN ages || jsonb_build_object('oldest', oldest);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.dashboard_ages(date, text[], text[], text[])
	IS 'failing results by age and severity, those since a day, and the oldest ones';

CREATE FUNCTION kube_reports.dashboard(filter jsonb DEFAULT '{}', from_day date DEFAULT NULL, to_day date DEFAULT NULL)
	RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	today CONSTANT date := (now() AT TIME ZONE 'UTC')::date;
	first_day	date;
	last_day	date;
	clusters	text[];
	namespaces	text[];
	sources		text[];
	fresh		jsonb;
BEGIN
	SELECT d.first_day, d.last_day INTO first_day, last_day
		FROM kube_reports_internal.days_shown(from_day, to_day) d;
	filter := kube_reports_internal.checked_filter(filter, ARRAY['cluster', 'cluster_labels', 'namespace', 'source'],
		'the filter of a dashboard has',
		'A dashboard is of clusters, namespaces and sources: members cluster, cluster_labels, namespace and '
			'source.');
	-- No warning about missing results here: worst_vulnerabilities() warns.
	clusters := kube_reports_internal.filter_clusters(filter);
	namespaces := kube_reports_internal.filter_strings(filter, 'namespace');
	sources := kube_reports_internal.filter_strings(filter, 'source');
	SELECT jsonb_build_object('clusters', count(*), 'evaluated_at', max(f.evaluated_at),
			'cluster_names', to_jsonb((array_agg(coalesce(nullif(f.cluster_name, ''), f.cluster::text)
				ORDER BY f.cluster_name, f.cluster))[:3]))
		INTO fresh
		FROM kube_reports.fleet_freshness f
		WHERE kube_reports_internal.in_clusters(clusters, f.cluster, f.cluster_name);
	RETURN jsonb_build_object('made_at', now(), 'reader', current_user, 'filter', filter, 'from_day', first_day,
			'to_day', last_day, 'today', today)
		|| kube_reports_internal.dashboard_failing(clusters, namespaces, sources, filter)
		|| kube_reports_internal.dashboard_history(first_day, last_day, clusters, namespaces, sources, filter)
		|| kube_reports_internal.dashboard_ages(first_day, clusters, namespaces, sources)
		|| fresh;
END
$$;
COMMENT ON FUNCTION kube_reports.dashboard(jsonb, date, date)
	IS 'the numbers of dashboard_html(): score and counts of each day, what fails most now by policy, namespace, '
		'cluster and age, the worst vulnerabilities. filter: members cluster, cluster_labels, namespace, source. Days '
		'(UTC) are inclusive; by default the last 30; -infinity: from the first known day on. Raises 22023 for a '
		'wrong filter or period';
