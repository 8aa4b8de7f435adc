-- fleet_page.sql
--	  A fleet as one page of HTML: each cluster, and what fails in which.
--
-- Style and frame are the same as on the dashboard.  The page has a bounded size for any store: it shows the clusters
-- and policies that fail most.

CREATE FUNCTION kube_reports_internal.fleet_numbers(filter jsonb, from_day date, to_day date) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	max_clusters CONSTANT integer := 200;
	max_columns CONSTANT integer := 12;
	max_policies CONSTANT integer := 20;
	silence CONSTANT interval := '1 hour';
	first_day	date;
	last_day	date;
	clusters	text[];
	seen		uuid[];
	listed		jsonb;
	matrix		jsonb;
BEGIN
	filter := kube_reports_internal.checked_filter(filter, ARRAY['cluster', 'cluster_labels'],
		'the filter of a fleet has', 'A fleet is of clusters: members cluster and cluster_labels.');
	SELECT d.first_day, d.last_day INTO first_day, last_day
		FROM kube_reports_internal.days_shown(from_day, to_day) d;
	PERFORM kube_reports_internal.warn_pending();
	clusters := kube_reports_internal.filter_clusters(filter);
	seen := ARRAY(SELECT c.uid FROM kube_reports_internal.seen_cluster c
		WHERE kube_reports_internal.in_clusters(clusters, c.uid, c.name));

	WITH score AS MATERIALIZED (
		SELECT s.cluster, jsonb_agg(round(s.score::numeric, 6) ORDER BY s.day) AS scores,
			(array_agg(s.score ORDER BY s.day DESC))[1] AS score,
			(array_agg(s.warn + s.fail + s.error ORDER BY s.day DESC))[1] AS failing
		FROM kube_reports.compliance_score(first_day, last_day) s WHERE s.cluster = ANY (seen) GROUP BY s.cluster
	), remediation AS (
		SELECT r.cluster, jsonb_object_agg(r.state, r.count) AS states
		FROM (SELECT r.cluster, r.state, count(*) AS count FROM kube_reports.remediations r
			WHERE r.cluster = ANY (seen) GROUP BY r.cluster, r.state) r
		GROUP BY r.cluster
	), line AS (
		SELECT f.cluster, f.cluster_name, f.labels, f.reports, f.evaluated_at, f.last_seen,
			coalesce(f.silent_for > silence, true) AS silent, s.score, s.scores, coalesce(s.failing, 0) AS failing,
			coalesce(r.states, '{}') AS remediations
		FROM kube_reports.fleet_freshness f LEFT JOIN score s ON s.cluster = f.cluster
			LEFT JOIN remediation r ON r.cluster = f.cluster
		WHERE f.cluster = ANY (seen)
	)
	SELECT jsonb_build_object('count', count(*), 'silent', count(*) FILTER (WHERE l.silent), 'clusters',
			coalesce((jsonb_path_query_array(jsonb_agg(to_jsonb(l) ORDER BY l.failing DESC, l.cluster_name, l.cluster),
				'$[0 to $last]', jsonb_build_object('last', max_clusters - 1))), '[]'))
		INTO listed FROM line l;

	-- The cells are found among those of the shown policies and clusters: each of them would read all counts again.
	WITH counted AS MATERIALIZED (
		SELECT m.source, m.policy, m.cluster, m.cluster_name, kube_reports_internal.total(m.pass) AS pass,
			kube_reports_internal.total(m.warn + m.fail + m.error) AS failing
		FROM kube_reports.fleet_matrix m WHERE m.cluster = ANY (seen)
		GROUP BY m.source, m.policy, m.cluster, m.cluster_name
	), place AS MATERIALIZED (
		SELECT c.cluster, c.cluster_name,
			row_number() OVER (ORDER BY sum(c.failing) DESC, c.cluster_name, c.cluster) AS n
		FROM counted c GROUP BY c.cluster, c.cluster_name
		ORDER BY n LIMIT max_columns
	), failing AS MATERIALIZED (
		SELECT c.source, c.policy, count(*) FILTER (WHERE c.failing > 0) AS places,
			kube_reports_internal.total(c.failing) AS failing
		FROM counted c GROUP BY c.source, c.policy HAVING kube_reports_internal.total(c.failing) > 0
	), policy AS MATERIALIZED (
		SELECT f.source, f.policy, row_number() OVER (ORDER BY f.places DESC, f.failing DESC, f.policy, f.source) AS n
		FROM (SELECT f.* FROM failing f ORDER BY f.places DESC, f.failing DESC, f.policy, f.source
			LIMIT max_policies) f
	), cell AS MATERIALIZED (
		SELECT c.* FROM counted c WHERE c.cluster = ANY (ARRAY(SELECT p.cluster FROM place p))
			AND c.policy = ANY (ARRAY(SELECT k.policy FROM policy k))
	)
	SELECT jsonb_build_object(
			'columns', (SELECT coalesce(jsonb_agg(coalesce(nullif(p.cluster_name, ''), p.cluster::text) ORDER BY p.n),
				'[]') FROM place p),
			'policies', (SELECT count(*) FROM failing f),
			'rows', (SELECT coalesce(jsonb_agg(jsonb_build_object('source', k.source, 'policy', k.policy, 'cells',
				(SELECT jsonb_agg(CASE WHEN c.policy IS NOT NULL THEN jsonb_build_array(c.pass, c.failing) END
					ORDER BY p.n)
				FROM place p LEFT JOIN cell c ON c.cluster = p.cluster AND c.source = k.source
					AND c.policy = k.policy)) ORDER BY k.n), '[]') FROM policy k))
		INTO matrix;
	RETURN jsonb_build_object('made_at', now(), 'reader', current_user, 'filter', filter, 'from_day', first_day,
		'to_day', last_day,
		'score', (SELECT to_jsonb(s) FROM kube_reports.fleet_score(last_day, last_day, filter) s)) || listed || matrix;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fleet_numbers(jsonb, date, date)
	IS 'the numbers that fleet_html() shows. Raises 22023 for a wrong filter or period';

CREATE FUNCTION kube_reports_internal.fleet_clusters(shown jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section class="wide"><h2>Clusters</h2><div class="scroll"><table><thead><tr>'
			'<th scope="col">Cluster</th><th scope="col">Score</th><th scope="col">Trend</th>'
			'<th scope="col">Evaluated</th><th scope="col">Seen</th><th scope="col">Remediations</th>'
			'<th scope="col" class="number">Failing</th></tr></thead><tbody>%s</tbody></table></div>%s</section>',
		string_agg(format('<tr><td class="name"><bdi>%s</bdi> <small><bdi>%s</bdi></small></td>'
			'<td class="share">%s</td><td>%s</td><td><small>%s</small></td><td><small%s>%s</small></td>'
			'<td><small>%s</small></td>'
			'<td class="number">%s</td></tr>',
			kube_reports_internal.html_text(coalesce(nullif(c->>'cluster_name', ''), c->>'cluster'), 63),
			kube_reports_internal.html_text((SELECT string_agg(l.key || '=' || l.value, ', ' ORDER BY l.key)
				FROM jsonb_each_text(c->'labels') l), 200),
			kube_reports_internal.html_value((c->>'score')::double precision, true),
			kube_reports_internal.chart_spark('Score by day', ARRAY(SELECT v::double precision
				FROM jsonb_array_elements_text(nullif(c->'scores', 'null')) WITH ORDINALITY s(v, n) ORDER BY n)),
			coalesce(kube_reports_internal.html_age((shown->>'made_at')::timestamptz
				- (c->>'evaluated_at')::timestamptz) || ' ago', 'never'),
			CASE WHEN (c->>'silent')::boolean THEN ' class="bad"' END,
			coalesce(kube_reports_internal.html_age((shown->>'made_at')::timestamptz
				- (c->>'last_seen')::timestamptz) || ' ago', 'never'),
			coalesce((SELECT string_agg(kube_reports_internal.html_text(s.key, 40) || ' '
				|| kube_reports_internal.html_number(s.value::numeric), ', ' ORDER BY s.key)
				FROM jsonb_each_text(c->'remediations') s), chr(8211)),
			kube_reports_internal.html_number((c->>'failing')::numeric)), '' ORDER BY n),
		CASE WHEN (shown->>'count')::bigint > count(*) THEN format('<p class="note more">and %s more</p>',
			kube_reports_internal.html_number((shown->>'count')::bigint - count(*))) END)
	FROM jsonb_array_elements(shown->'clusters') WITH ORDINALITY e(c, n)
	HAVING count(*) > 0;
END;
COMMENT ON FUNCTION kube_reports_internal.fleet_clusters(jsonb) IS 'the clusters of fleet_numbers() as HTML';

CREATE FUNCTION kube_reports_internal.fleet_table(shown jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section class="wide"><h2>What fails where</h2><div class="scroll"><table><thead><tr>'
			'<th scope="col">Policy</th>%s</tr></thead><tbody>%s</tbody></table></div>%s</section>',
		(SELECT string_agg(format('<th scope="col" class="number"><bdi>%s</bdi></th>',
			kube_reports_internal.html_text(c, 30)), '' ORDER BY n)
			FROM jsonb_array_elements_text(shown->'columns') WITH ORDINALITY e(c, n)),
		string_agg(format('<tr><td class="name"><bdi>%s</bdi> <small><bdi>%s</bdi></small></td>%s</tr>',
			kube_reports_internal.html_text(p->>'policy', 80), kube_reports_internal.html_text(p->>'source', 40),
			(SELECT string_agg(CASE WHEN c = 'null' THEN '<td class="number"><small>' || chr(8211) || '</small></td>'
				WHEN (c->>1)::numeric > 0 THEN format('<td class="number bad">%s</td>',
					kube_reports_internal.html_number((c->>1)::numeric))
				ELSE '<td class="number"><span class="good">0</span></td>' END, '' ORDER BY m)
				FROM jsonb_array_elements(p->'cells') WITH ORDINALITY e(c, m))), '' ORDER BY n),
		CASE WHEN (shown->>'policies')::bigint > count(*) THEN format('<p class="note more">and %s more policies</p>',
			kube_reports_internal.html_number((shown->>'policies')::bigint - count(*))) END)
	FROM jsonb_array_elements(shown->'rows') WITH ORDINALITY e(p, n)
	HAVING count(*) > 0;
END;
COMMENT ON FUNCTION kube_reports_internal.fleet_table(jsonb)
	IS 'the policies of fleet_numbers() that fail in most clusters, by cluster, as HTML';

CREATE FUNCTION kube_reports.fleet_html(filter jsonb DEFAULT '{}', from_day date DEFAULT NULL,
	to_day date DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT kube_reports_internal.html_page('Fleet',
		kube_reports_internal.html_counted((f.shown->>'count')::numeric, 'cluster', 'clusters'),
		concat_ws(' ' || chr(183) || ' ',
			kube_reports_internal.html_counted((f.shown->>'count')::numeric, 'cluster', 'clusters'),
			'<bdi>' || kube_reports_internal.html_text('labels ' || (f.shown#>>'{filter,cluster_labels}'), 300)
				|| '</bdi>',
			to_char((f.shown->>'from_day')::date, 'FMDD Mon YYYY') || ' to '
				|| to_char((f.shown->>'to_day')::date, 'FMDD Mon YYYY')),
		CASE WHEN (f.shown->>'count')::bigint = 0
			THEN '<section class="wide"><p class="empty">No cluster is known of what this page was asked for, or none '
				'that its reader may see.</p></section>'
			ELSE format('<section class="wide hero" aria-label="Overview">%s<div><p class="lead">%s</p></div></section>'
				'%s%s',
				kube_reports_internal.chart_ring('Score: ' || kube_reports_internal.html_value(
					(f.shown#>>'{score,score}')::double precision, true),
					(f.shown#>>'{score,score}')::double precision),
				concat_ws(' ', coalesce(kube_reports_internal.html_value(
						(f.shown#>>'{score,score}')::double precision, true), chr(8211))
						|| ' of what is checked in all of them passes.',
					CASE WHEN (f.shown->>'silent')::bigint > 0 THEN format('<span class="bad">%s</span> not been seen '
						'for an hour.', kube_reports_internal.html_counted((f.shown->>'silent')::numeric,
							'cluster has', 'clusters have')) ELSE 'All were seen within the last hour.' END),
				kube_reports_internal.fleet_clusters(f.shown), kube_reports_internal.fleet_table(f.shown)) END,
		format('<p>The score is pass / (pass + warn + fail + error). Days are UTC. What fails where is of now; a dash '
			'means that a cluster has no result of a policy.</p><p>Made by kube_reports.fleet_html() at %s UTC, with '
			'what <bdi>%s</bdi> may see.</p>',
			to_char((f.shown->>'made_at')::timestamptz AT TIME ZONE 'UTC', 'FMDD Mon YYYY HH24:MI'),
			kube_reports_internal.html_text(f.shown->>'reader', 63)))
	-- OFFSET keeps the planner from asking for the numbers wherever the page shows one.
	FROM (SELECT kube_reports_internal.fleet_numbers(filter, from_day, to_day) AS shown OFFSET 0) f;
END;
COMMENT ON FUNCTION kube_reports.fleet_html(jsonb, date, date)
	IS 'one self-contained page like dashboard_html(), of a fleet: each cluster with labels, score, trend, when it '
		'was seen, its remediations; the policies that fail in most clusters, by cluster; as far as the caller may '
		'see. filter: members cluster, cluster_labels; days (UTC) are inclusive, the last 30 unless given; -infinity: '
		'from the first known day on. Raises 22023 for a wrong filter or period';
