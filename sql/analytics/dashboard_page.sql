-- dashboard_page.sql
--	  The dashboard as one page of HTML.
--
-- The page is self-contained, without scripts and without fonts or pictures
-- from elsewhere.  Its Content-Security-Policy allows only the style sheet, by
-- its hash.  Hence elements have no style attributes; lengths of bars are
-- attributes of SVG.  The page follows the reader's light or dark scheme, and
-- works on phones, with screen readers and on paper.
-- regress/http/test_dashboard.py tests the page in a browser.  The pictures
-- in docs/ show the samples: with SCREENSHOTS=yes, test_make_up.py makes
-- them again.

CREATE FUNCTION kube_reports_internal.dashboard_style() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN $css$
:root { color-scheme: light dark; --page: #f4f6f9; --card: #fff; --ink: #17202e; --soft: #5a6778; --rule: #e3e8ef;
	--track: #edf0f5; --hover: #17202e14;
	--score: #2f6feb; --weighted: #8b5cf6; --good: #14774a; --bad: #c9342f;
	--critical: #a3123f; --high: #e5533d; --medium: #e8a020; --low: #5b93d3; --other: #94a1b2; }
@media (prefers-color-scheme: dark) {
	:root { --page: #0d1219; --card: #161d27; --ink: #e7ecf3; --soft: #98a5b7; --rule: #27313f; --track: #222c39;
		--hover: #ffffff14;
		--score: #6ea0ff; --weighted: #b79bff; --good: #3ecb8b; --bad: #ff7b72;
		--critical: #f0447a; --high: #ff8562; --medium: #f5c04e; --low: #70abed; --other: #77859a; }
}
@media print {
	:root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --rule: #ccc; --track: #eee;
		--score: #2f6feb; --weighted: #8b5cf6; --good: #14774a; --bad: #c9342f;
		--critical: #a3123f; --high: #e5533d; --medium: #e8a020; --low: #5b93d3; --other: #94a1b2; }
}
* { box-sizing: border-box; margin: 0; padding: 0; }
body { background: var(--page); color: var(--ink); font: 15px/1.45 Inter, system-ui, -apple-system, "Segoe UI", Roboto,
	"Liberation Sans", sans-serif;
	font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%;
	print-color-adjust: exact; -webkit-print-color-adjust: exact; }
header, main, footer { max-width: 1200px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; padding-bottom: 20px; }
h1 { font-size: 25px; line-height: 1.2; letter-spacing: -.02em; font-weight: 700; }
header p { color: var(--soft); margin-top: 5px; overflow-wrap: anywhere; }
h2 { font-size: 15.5px; font-weight: 650; letter-spacing: -.005em; }
h3 { font-size: 14px; font-weight: 600; margin-top: 22px; }
small, .note { color: var(--soft); font-size: .87em; } small small { font-size: 1em; }
main { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 14px; padding: 18px 20px 20px;
	min-width: 0; break-inside: avoid; }
.wide { grid-column: 1 / -1; }
.hero { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 14px 34px; align-items: center;
	padding: 24px 28px; }
.hero p { max-width: 46em; }
.lead { font-size: 19px; line-height: 1.4; font-weight: 550; letter-spacing: -.01em; }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 14px 28px; margin-top: 20px;
	list-style: none; }
.tiles li { border-left: 3px solid var(--rule); padding-left: 13px; }
.tiles b { display: block; font-size: 25px; line-height: 1.15; font-weight: 680; letter-spacing: -.02em; }
.tiles span { display: block; font-size: 13.5px; }
.tiles small { display: block; line-height: 1.35; margin-top: 2px; }
.tiles .alarm { border-color: var(--critical); }
.good { color: var(--good); } .bad { color: var(--bad); }
.ring text { font-size: 25px; font-weight: 700; fill: var(--ink); text-anchor: middle; dominant-baseline: central;
	letter-spacing: -.03em; }
.ring circle { fill: none; stroke-width: 11; } .ring .track { stroke: var(--track); }
.ring .arc { stroke: var(--score); stroke-linecap: round; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 3px 16px; margin: 8px 0 14px; font-size: 13px;
	color: var(--soft); }
.legend b { color: var(--ink); font-weight: 600; }
i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.plot { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 10px; }
.y, .x { display: flex; justify-content: space-between; color: var(--soft); font-size: 12px; line-height: 1; }
.y { flex-direction: column; text-align: right; margin: -6px 0; } .x { grid-column: 2; padding-top: 9px; }
.trend { width: 100%; height: 190px; overflow: visible; }
.spark { width: 110px; height: 26px; overflow: visible; }
.grid { stroke: var(--rule); fill: none; vector-effect: non-scaling-stroke; }
.line { fill: none; stroke-width: 2.5; stroke-linecap: round; stroke-linejoin: round;
	vector-effect: non-scaling-stroke; }
.line.weighted { stroke-width: 2; stroke-dasharray: 1 5; } .spark .line { stroke-width: 2; }
.line.score { stroke: var(--score); } .line.weighted { stroke: var(--weighted); } i.score { background: var(--score); }
i.weighted { background: var(--weighted); }

.hit { fill: transparent; } .hit:hover { fill: var(--hover); }
.critical { fill: var(--critical); } .high { fill: var(--high); } .medium { fill: var(--medium); }
.low { fill: var(--low); } .other { fill: var(--other); }
i.critical { background: var(--critical); } i.high { background: var(--high); } i.medium { background: var(--medium); }
i.low { background: var(--low); }
i.other { background: var(--other); }
.rows { list-style: none; margin-top: 6px; }
.rows li { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 1px 14px; align-items: baseline;
	padding: 8px 0; border-top: 1px solid var(--rule);
	break-inside: avoid; }
.rows li:first-child { border-top: 0; }
.name { font-weight: 550; overflow-wrap: anywhere; overflow: hidden; }
.rows .name small { font-weight: 400; }
.value { font-weight: 650; text-align: right; white-space: nowrap; }
.value small { font-weight: 400; }
.bar { display: block; grid-column: 1 / -1; background: var(--track); border-radius: 4px; overflow: hidden;
	margin-top: 3px; }
table { width: 100%; border-collapse: collapse; margin-top: 8px; }
th { color: var(--soft); font-size: 12.5px; font-weight: 500; text-align: left; padding: 4px 16px 6px 0;
	white-space: nowrap; }
td { border-top: 1px solid var(--rule); padding: 9px 16px 9px 0; vertical-align: middle; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; } td.number { font-weight: 650; } .share { white-space: nowrap; }
.badge { display: inline-block; min-width: 3.1em; padding: 1px 8px; border-radius: 7px; border: 1.5px solid var(--rule);
	text-align: center; font-size: 13px; font-weight: 650; }
.badge.critical { border-color: var(--critical); } .badge.high { border-color: var(--high); }
.badge.medium { border-color: var(--medium); }
.badge.low { border-color: var(--low); } .badge.other { border-color: var(--other); } .more { margin-top: 8px; }
.scroll { overflow-x: auto; }
.empty { color: var(--soft); padding: 22px 0 8px; text-align: center; }
footer { color: var(--soft); font-size: 13px; padding-top: 18px; padding-bottom: 34px; overflow-wrap: anywhere; }
footer p + p { margin-top: 6px; }
@media screen and (max-width: 860px) {
	main { grid-template-columns: minmax(0, 1fr); }
	.tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
@media screen and (max-width: 560px) {
	header, main, footer { padding-left: 12px; padding-right: 12px; }
	section { padding: 16px; }
	.hero { grid-template-columns: minmax(0, 1fr); justify-items: center; padding: 20px 16px; }
	.lead { font-size: 17px; }
	.tiles { gap: 16px 14px; } .trend { height: 160px; }
	th:nth-child(4), td:nth-child(4) { display: none; } .spark { width: 70px; } th, td { padding-right: 10px; }
}
@media print {
	body { font-size: 14px; } header, main, footer { max-width: none; padding-left: 0; padding-right: 0; }
	main { gap: 10px; } .trend { height: 140px; }
	section { border-radius: 6px; padding: 12px 14px; } .hero { gap: 10px 22px; }
	.tiles { gap: 10px 14px; margin-top: 14px; } .tiles li { padding-left: 9px; }
	.lead { font-size: 17px; } .ring { width: 120px; height: 120px; }
}
$css$;
COMMENT ON FUNCTION kube_reports_internal.dashboard_style() IS 'the style sheet of dashboard_html()';

---- pieces ----

CREATE FUNCTION kube_reports_internal.html_namespace(namespace text, cluster_name text, cluster text, clusters bigint)
	RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN namespace = '' THEN 'cluster scope'
	ELSE '<bdi>' || kube_reports_internal.html_text(namespace, 63) || '</bdi>' END
	|| CASE WHEN clusters > 1 THEN ' <small><bdi>'
		|| kube_reports_internal.html_text(coalesce(nullif(cluster_name, ''), cluster), 63) || '</bdi></small>'
		ELSE '' END;
COMMENT ON FUNCTION kube_reports_internal.html_namespace(text, text, text, bigint)
	IS 'a namespace, with its cluster if there are several clusters';

-- rest: the number of rows that are not shown.
CREATE FUNCTION kube_reports_internal.html_rows(rows text, empty text, rest bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN rows IS NULL THEN '<p class="empty">' || empty || '</p>'
	ELSE '<ol class="rows">' || rows || '</ol>'
		|| CASE WHEN rest > 0 THEN '<p class="note more">and ' || kube_reports_internal.html_number(rest) || ' more</p>'
		ELSE '' END END;
COMMENT ON FUNCTION kube_reports_internal.html_rows(text, text, bigint)
	IS 'rows as a list, or the text that says why there are none';

CREATE FUNCTION kube_reports_internal.dashboard_tiles(shown jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '<ul class="tiles">' || string_agg(format('<li%s><b>%s</b><span>%s</span><small>%s</small></li>',
			CASE WHEN t.alarm THEN ' class="alarm"' END, kube_reports_internal.html_number(t.count), t.what, t.more), ''
				ORDER BY t.n) || '</ul>'
	FROM (VALUES
		(1, (shown#>>'{trend,-1,failing}')::numeric, 'failing results', false,
			format('%s fail, %s warn, %s in error', kube_reports_internal.html_number((
				shown#>>'{trend,-1,fail}')::numeric),
				kube_reports_internal.html_number((shown#>>'{trend,-1,warn}')::numeric),
					kube_reports_internal.html_number((shown#>>'{trend,-1,error}')::numeric))),
		(2, (shown#>>'{trend,-1,parts,0}')::numeric + (shown#>>'{trend,-1,parts,1}')::numeric, 'critical or high',
			(shown#>>'{trend,-1,parts,0}')::numeric > 0,
			format('%s critical, %s of them open for a week',
				kube_reports_internal.html_number((shown#>>'{trend,-1,parts,0}')::numeric),
				kube_reports_internal.html_number((shown->>'overdue')::numeric))),
		(3, (shown->>'new')::numeric, 'new and still open', false,
			'since ' || to_char((shown->>'from_day')::date, 'FMDD Mon YYYY')),
		(4, (shown->>'failing_policies')::numeric, 'policies fail', false,
			format('of %s, in %s of %s namespaces', kube_reports_internal.html_number((shown->>'policies')::numeric),
				kube_reports_internal.html_number((shown->>'failing_namespaces')::numeric),
					kube_reports_internal.html_number((shown->>'namespaces')::numeric))))
		t(n, count, what, alarm, more);
END;
COMMENT ON FUNCTION kube_reports_internal.dashboard_tiles(jsonb) IS 'the most important counts of dashboard() as HTML';

CREATE FUNCTION kube_reports_internal.dashboard_trends(shown jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section><h2>Score</h2>%s</section><section><h2>Failing results</h2>%s</section>',
		kube_reports_internal.chart_trend('score', 'Score by day',
			format('From %s on %s to %s on %s; lowest %s, highest %s.',
				kube_reports_internal.html_value(t.scores[1], true), to_char(t.days[1], 'FMDD Mon YYYY'),
				kube_reports_internal.html_value(t.scores[cardinality(t.scores)], true),
					to_char(t.days[cardinality(t.days)], 'FMDD Mon YYYY'),
				kube_reports_internal.html_value(r.lowest, true), kube_reports_internal.html_value(r.highest, true)),
			t.days, jsonb_build_array(jsonb_build_object('name', 'all results', 'class', 'score', 'values', t.scores),
				jsonb_build_object('name', 'weighted by severity', 'class', 'weighted', 'values', t.weighted)),
			-- The range of the values, widened to tens of percent.
			coalesce(greatest(floor(least(r.lowest, r.lowest_weighted) * 10 - 0.2) / 10, 0), 0),
			coalesce(least(ceil(greatest(r.highest, r.highest_weighted) * 10 + 0.2) / 10, 1), 1), false, true),
		kube_reports_internal.chart_trend('failing', 'Failing results by day and severity',
			format('From %s on %s to %s on %s.', kube_reports_internal.html_value(t.failing[1], false),
				to_char(t.days[1], 'FMDD Mon YYYY'),
				kube_reports_internal.html_value(t.failing[cardinality(t.failing)], false),
					to_char(t.days[cardinality(t.days)], 'FMDD Mon YYYY')),
			t.days, (SELECT jsonb_agg(jsonb_build_object('name', s.name, 'class', s.name, 'values', (
					SELECT jsonb_agg(d->'parts'->(s.place::integer - 1) ORDER BY n)
						FROM jsonb_array_elements(shown->'trend') WITH ORDINALITY e(d, n))) ORDER BY s.place)
				FROM unnest('{critical,high,medium,low,other}'::text[]) WITH ORDINALITY s(name, place)),
			0, kube_reports_internal.chart_top(coalesce(r.most, 0)), true, false))
	FROM (SELECT array_agg((d->>'day')::date ORDER BY n) AS days,
		array_agg((d->>'score')::double precision ORDER BY n) AS scores,
			array_agg((d->>'weighted_score')::double precision ORDER BY n) AS weighted,
				array_agg((d->>'failing')::double precision ORDER BY n) AS failing
		FROM jsonb_array_elements(shown->'trend') WITH ORDINALITY e(d, n)) t,
		LATERAL (SELECT min(s) AS lowest, max(s) AS highest, min(w) AS lowest_weighted,
			max(w) AS highest_weighted, max(f) AS most
			FROM unnest(t.scores, t.weighted, t.failing) v(s, w, f)) r;
END;
COMMENT ON FUNCTION kube_reports_internal.dashboard_trends(jsonb) IS 'the trends of dashboard() as HTML';

CREATE FUNCTION kube_reports_internal.dashboard_lists(shown jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section><h2>Failing policies</h2>%s</section><section><h2>Namespaces</h2>%s</section>'
			'<section><h2>Age of open failures</h2>%s%s</section><section><h2>Vulnerabilities</h2>%s</section>',
		kube_reports_internal.html_rows((SELECT string_agg(format(
				'<li><span class="name"><bdi>%s</bdi> <small><bdi>%s</bdi></small></span><span class="value">%s '
					'<small>in %s</small></span>%s</li>',
				kube_reports_internal.html_text(p->>'policy', 80), kube_reports_internal.html_text(p->>'source', 40),
					kube_reports_internal.html_number((p->>'failing')::numeric),
				kube_reports_internal.html_counted((p->>'places')::numeric, 'namespace', 'namespaces'),
				kube_reports_internal.chart_bar('failing', p->'parts', (shown#>>'{top_policies,0,failing}')::numeric)),
					'' ORDER BY n)
			FROM jsonb_array_elements(shown->'top_policies') WITH ORDINALITY e(p, n)),
			'Every policy passes. There is nothing to do.',
				(shown->>'failing_policies')::bigint - jsonb_array_length(shown->'top_policies')),
		kube_reports_internal.html_rows((SELECT string_agg(
			format('<li><span class="name">%s</span><span class="value">%s <small>%s pass</small></span>%s</li>',
				kube_reports_internal.html_namespace(p->>'namespace', p->>'cluster_name', p->>'cluster',
					(shown->>'clusters')::bigint),
				kube_reports_internal.html_number((p->>'failing')::numeric),
					kube_reports_internal.html_value((p->>'score')::double precision, true),
				kube_reports_internal.chart_bar('failing', p->'parts',
					(shown#>>'{top_namespaces,0,failing}')::numeric)), '' ORDER BY n)
			FROM jsonb_array_elements(shown->'top_namespaces') WITH ORDINALITY e(p, n)),
			'Nothing fails in any namespace. There is nothing to do.',
				(shown->>'failing_namespaces')::bigint - jsonb_array_length(shown->'top_namespaces')),
		kube_reports_internal.html_rows((SELECT string_agg(
			format('<li><span class="name">%s</span><span class="value">%s</span>%s</li>', a.name,
				kube_reports_internal.html_number(a.count),
					kube_reports_internal.chart_bar('failing', a.parts, a.most)), '' ORDER BY a.n)
			FROM (SELECT e.n, e.parts, (ARRAY['less than a day', '1 to 7 days', '7 to 30 days', '30 to 90 days',
				'more than 90 days'])[e.n] AS name, c.count,
					max(c.count) OVER () AS most
				FROM jsonb_array_elements(shown->'ages') WITH ORDINALITY e(parts, n),
					LATERAL (SELECT sum(v::numeric) AS count FROM jsonb_array_elements_text(e.parts) v) c) a
			WHERE a.most > 0),
			'Nothing fails. There is nothing to do.', 0),
		CASE WHEN shown->'oldest' <> '[]' THEN '<h3>Open for longest</h3><ol class="rows">'
			|| (SELECT string_agg(format(
				'<li><span class="name"><bdi>%s</bdi> <small>%s</small></span><span class="value">%s</span><small '
					'class="name">%s <bdi>%s</bdi> in %s</small></li>',
				kube_reports_internal.html_text(o->>'policy', 60), kube_reports_internal.html_text(o->>'severity'),
				kube_reports_internal.html_age((shown->>'made_at')::timestamptz - (o->>'since')::timestamptz),
				kube_reports_internal.html_text(o->>'subject_kind', 40),
					kube_reports_internal.html_text(o->>'subject_name', 80),
				kube_reports_internal.html_namespace(o->>'namespace', o->>'cluster_name', o->>'cluster',
					(shown->>'clusters')::bigint)), '' ORDER BY n)
			FROM jsonb_array_elements(shown->'oldest') WITH ORDINALITY e(o, n)) || '</ol>' END,
		kube_reports_internal.html_rows((SELECT string_agg(
			format('<li><span class="name"><bdi>%s</bdi> <small>%s</small></span>'
				'<span class="badge %s">%s</span><small class="name">%s</small><span '
					'class="value"><small>%s</small></span></li>',
				kube_reports_internal.html_text(v->>'policy', 40), CASE v->>'severity' WHEN 'other' THEN ''
					ELSE kube_reports_internal.html_text(v->>'severity') END,
				kube_reports_internal.html_text(v->>'severity'),
				coalesce(round((v->>'score')::numeric, 1)::text, chr(8211)),
				concat_ws(' ', '<bdi>' || kube_reports_internal.html_text(v->>'package', 60) || '</bdi>',
					'<bdi>' || kube_reports_internal.html_text(v->>'installed_version', 30) || '</bdi>',
					coalesce(chr(8594) || ' <bdi>' || kube_reports_internal.html_text(v->>'fixed_version', 30)
						|| '</bdi>', chr(183) || ' no fix known')),
				kube_reports_internal.html_counted((v->>'failing')::numeric, 'result', 'results')), '' ORDER BY n)
			FROM jsonb_array_elements(shown->'top_vulnerabilities') WITH ORDINALITY e(v, n)),
			'No vulnerability is reported. A scanner for images that writes reports, such as Trivy, brings them here.',
				(shown->>'vulnerabilities')::bigint - jsonb_array_length(shown->'top_vulnerabilities')));
END;
COMMENT ON FUNCTION kube_reports_internal.dashboard_lists(jsonb)
	IS 'the lists of dashboard() (failing policies, namespaces, ages, vulnerabilities), as HTML';

CREATE FUNCTION kube_reports_internal.dashboard_clusters(shown jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<section class="wide"><h2>Clusters</h2><table><thead><tr><th scope="col">Cluster</th><th '
		'scope="col">Score</th><th scope="col">Trend</th>'
			'<th scope="col">Evaluated</th><th scope="col" '
				'class="number">Failing</th></tr></thead><tbody>%s</tbody></table>%s</section>',
		string_agg(format('<tr><td class="name"><bdi>%s</bdi></td><td '
			'class="share">%s</td><td>%s</td><td><small>%s</small></td><td class="number">%s</td></tr>',
			kube_reports_internal.html_text(coalesce(nullif(c->>'cluster_name', ''), c->>'cluster'), 63),
				kube_reports_internal.html_value((c->>'score')::double precision, true),
			kube_reports_internal.chart_spark('Score by day',
				ARRAY(SELECT v::double precision FROM jsonb_array_elements_text(c->'scores') WITH ORDINALITY s(v, n)
				ORDER BY n)),
			coalesce(kube_reports_internal.html_age((shown->>'made_at')::timestamptz -
				(c->>'evaluated_at')::timestamptz) || ' ago', 'never'),
			kube_reports_internal.html_number((c->>'failing')::numeric)), '' ORDER BY n),
		CASE WHEN (shown->>'clusters')::bigint > count(*)
			THEN format('<p class="note more">and %s more</p>',
			kube_reports_internal.html_number((shown->>'clusters')::bigint - count(*))) END)
	FROM jsonb_array_elements(shown->'top_clusters') WITH ORDINALITY e(c, n)
	HAVING (shown->>'clusters')::bigint > 1;
END;
COMMENT ON FUNCTION kube_reports_internal.dashboard_clusters(jsonb)
	IS 'the clusters of dashboard() as HTML, if there are several';

---- the page ----

CREATE FUNCTION kube_reports_internal.html_page(heading text, scope text, header text, main text, footer text)
	RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format($page$<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
	content="default-src 'none'; style-src 'sha256-%1$s'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>%7$s: %2$s</title>
<style>%3$s</style>
</head>
<body>
<header><h1>%7$s</h1><p>%4$s</p></header>
<main>%5$s</main>
<footer>%6$s</footer>
</body>
</html>
$page$,
		encode(sha256(convert_to(s.style, 'UTF8')), 'base64'), scope, s.style, header, main, footer, heading)
	FROM (SELECT kube_reports_internal.dashboard_style() AS style) s;
END;
COMMENT ON FUNCTION kube_reports_internal.html_page(text, text, text, text, text)
	IS 'a page of HTML with the style of the dashboard; all arguments are HTML';

CREATE FUNCTION kube_reports_internal.dashboard_page(shown jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT kube_reports_internal.html_page('Policy reports', kube_reports_internal.html_text(h.scope, 200),
		concat_ws(' ' || chr(183) || ' ', '<bdi>' || kube_reports_internal.html_text(h.scope, 300) || '</bdi>',
			'<bdi>' || kube_reports_internal.html_text(nullif(h.narrowed, ''), 300) || '</bdi>',
			to_char((shown->>'from_day')::date, 'FMDD Mon YYYY') || ' to '
				|| to_char((shown->>'to_day')::date, 'FMDD Mon YYYY'),
			'evaluated ' || kube_reports_internal.html_age((shown->>'made_at')::timestamptz -
				(shown->>'evaluated_at')::timestamptz) || ' ago'),
		CASE WHEN h.some
			THEN format('<section class="wide hero" aria-label="Overview">%s<div><p '
				'class="lead">%s</p>%s</div></section>%s%s%s',
				kube_reports_internal.chart_ring('Score: ' || kube_reports_internal.html_value(h.score, true), h.score),
				CASE WHEN h.score IS NULL
						THEN 'Nothing counts towards a score. Results that are skipped never do: let a policy check '
							'something, or ask for another period.' ELSE kube_reports_internal.html_value(h.score, true)
							|| ' of what is checked passes'
					|| CASE WHEN h.gain > 0 THEN format(', <span class="good">%s points more</span> than on %s.',
						h.gain, to_char(h.since, 'FMDD Mon'))
						WHEN h.gain < 0 THEN format(', <span class="bad">%s points less</span> than on %s.', -h.gain,
							to_char(h.since, 'FMDD Mon'))
						ELSE '.' END END,
				kube_reports_internal.dashboard_tiles(shown),
				kube_reports_internal.dashboard_trends(shown), kube_reports_internal.dashboard_clusters(shown),
					kube_reports_internal.dashboard_lists(shown))
			ELSE '<section class="wide"><p class="empty">No results are stored of what this page was asked for, or '
				'none that its reader may see.</p>'
				|| CASE WHEN h.narrowed <> '' OR shown->'filter' ? 'cluster'
					THEN '<p class="note">Ask for more: dashboard_html() without a filter shows everything that its '
						'reader may see.</p>'
					ELSE '<p class="note">Reports come from scanners such as Kyverno and Trivy as soon as '
						'kube-apiserver sends their types to kube-reports-proxy, '
						|| 'and from kubectl apply.</p>' END
				|| format('<p class="note">If there are some: the owner of the extension lets a role see them, with '
					'SELECT kube_reports.grant_reader(''<bdi>%s</bdi>'').</p></section>',
					kube_reports_internal.html_text(shown->>'reader', 63)) END,
		format('<p>The score is pass / (pass + warn + fail + error); skipped results do not count, nor do those whose '
			'source found nothing out. '
			'Weighted: critical 10, high 6, medium 3, low and unknown 1, info 0. Days are UTC. Score and failing '
				'results are those of %s, lists and ages of now.</p>'
			'<p>Made by kube_reports.dashboard_html() at %s UTC, with what <bdi>%s</bdi> may see.</p>',
			to_char((shown->>'to_day')::date, 'FMDD Mon YYYY'),
				to_char((shown->>'made_at')::timestamptz AT TIME ZONE 'UTC', 'FMDD Mon YYYY HH24:MI'),
			kube_reports_internal.html_text(shown->>'reader', 63)))
	FROM (SELECT (shown#>>'{trend,-1,score}')::double precision AS score,
			(SELECT jsonb_build_object('day', d->'day', 'score', d->'score')
				FROM jsonb_array_elements(shown->'trend') WITH ORDINALITY e(d, n)
				WHERE d->'score' <> 'null' ORDER BY n LIMIT 1) AS first,
			(SELECT string_agg(CASE n WHEN '' THEN 'cluster scope' ELSE n END, ', ')
				FROM unnest(kube_reports_internal.filter_strings(shown->'filter', 'namespace')) n) AS namespaces,
			array_to_string(kube_reports_internal.filter_strings(shown->'filter', 'source'), ', ') AS sources) g,
		LATERAL (SELECT g.score,
			shown#>>'{trend,-1,pass}' IS NOT NULL OR shown->'oldest' <> '[]' AS some,
			CASE WHEN (shown->>'clusters')::bigint BETWEEN 1 AND 3
				THEN array_to_string(ARRAY(SELECT jsonb_array_elements_text(shown->'cluster_names')), ', ')
				ELSE kube_reports_internal.html_counted((shown->>'clusters')::numeric, 'cluster', 'clusters') END AS
					scope,
			concat_ws(', ', 'labels ' || (shown#>>'{filter,cluster_labels}'), 'namespace ' || g.namespaces,
				'source ' || g.sources) AS narrowed,
			round((100 * (g.score - (g.first->>'score')::double precision))::numeric, 1) AS gain,
				(g.first->>'day')::date AS since) h;
END;
COMMENT ON FUNCTION kube_reports_internal.dashboard_page(jsonb) IS 'dashboard() as a page of HTML';

CREATE FUNCTION kube_reports.dashboard_html(filter jsonb DEFAULT '{}', from_day date DEFAULT NULL,
	to_day date DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT kube_reports_internal.dashboard_page(kube_reports.dashboard(filter, from_day, to_day));
END;
COMMENT ON FUNCTION kube_reports.dashboard_html(jsonb, date, date)
	IS 'one self-contained page: score, trends, failing policies, namespaces, ages and vulnerabilities that the '
		'caller may see. filter: members cluster, cluster_labels, namespace, source. Days (UTC) are inclusive; by '
		'default the last 30; -infinity: from the first known day on. Raises 22023 for a wrong filter or period';
