-- charts.sql
--	  Text and charts of a page: HTML and SVG of numbers.
--
-- The functions depend on their arguments alone.  A chart is an SVG without
-- text: words stand beside it in HTML, so that they keep their size when the
-- chart is stretched to the width of a screen.  The chart's title, and a
-- description where needed, say what the chart shows.  Colours are classes;
-- dashboard_style() has them.
--
-- All stored text passes through html_text(); everything else is a number or a
-- constant.

---- text ----

-- Invisible characters could hide or reorder the text beside them.  No name of a policy needs such characters.
CREATE FUNCTION kube_reports_internal.html_text(value text, max_length integer DEFAULT 100) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN replace(replace(replace(replace(replace(
	regexp_replace(
		translate(CASE WHEN length(value) > max_length THEN left(value, max_length - 1) || chr(8230) ELSE value END,
			E'\t\n\r', '   '),
		'[\u0001-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e'
			'\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]',
		chr(65533), 'g'),
	'&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;');
COMMENT ON FUNCTION kube_reports_internal.html_text(text, integer)
	IS 'any text as HTML, in elements and in quoted attributes: escaped, cut to a length, with U+FFFD for controls, '
		'bidirectional controls and other characters that cannot be seen';

CREATE FUNCTION kube_reports_internal.html_number(value numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN to_char(value, 'FM999,999,999,999,999,990');
COMMENT ON FUNCTION kube_reports_internal.html_number(numeric) IS 'a whole number with commas';

CREATE FUNCTION kube_reports_internal.html_counted(value numeric, one text, many text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN kube_reports_internal.html_number(value) || ' ' || CASE value WHEN 1 THEN one ELSE many END;
COMMENT ON FUNCTION kube_reports_internal.html_counted(numeric, text, text)
	IS 'a number and the name of the things counted: singular for 1, otherwise plural';

CREATE FUNCTION kube_reports_internal.html_value(value double precision, percent boolean) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- Only exactly 1 is shown as 100 %, and only exactly 0 as 0 %.
RETURN CASE WHEN value IS NULL THEN chr(8211) WHEN NOT percent THEN kube_reports_internal.html_number(value::numeric)
	WHEN value IN (0, 1) THEN (100 * value)::integer || '%'
	ELSE to_char(least(greatest(100 * value, 0.1), 99.9)::numeric, 'FM990.0') || '%' END;
COMMENT ON FUNCTION kube_reports_internal.html_value(double precision, boolean)
	IS 'a number, or a part of 1 in percent; null: a dash';

CREATE FUNCTION kube_reports_internal.html_age(age interval) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT CASE
		WHEN s.seconds < 90 THEN 'a minute'
		WHEN s.seconds < 5400 THEN round(s.seconds / 60) || ' minutes'
		WHEN s.seconds < 129600 THEN round(s.seconds / 3600) || ' hours'
		ELSE round(s.seconds / 86400) || ' days' END
	FROM (SELECT extract(epoch FROM age)) s(seconds));
COMMENT ON FUNCTION kube_reports_internal.html_age(interval)
	IS 'a period in minutes, hours or days, such as 3 hours';

---- charts ----

CREATE FUNCTION kube_reports_internal.chart_top(largest double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT min(m.mark)
	FROM (SELECT f.factor * power(10::double precision, floor(log(greatest(largest, 2)))) AS mark
		FROM unnest('{1,2,4,6,8,10}'::integer[]) f(factor)) m
	WHERE m.mark >= greatest(largest, 2));
COMMENT ON FUNCTION kube_reports_internal.chart_top(double precision)
	IS 'the upper end of an axis of counts: an even number, not below the largest count';

-- The path is 1000 wide and 300 high.  A null value leaves a gap.
CREATE FUNCTION kube_reports_internal.chart_path(tops double precision[], bases double precision[],
	low double precision, high double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT string_agg(i.path, '' ORDER BY i.island)
	FROM (SELECT p.island,
			'M' || string_agg(p.x || ' ' || p.top, 'L' ORDER BY p.n)
				-- A single point is visible by its round ends.
				|| CASE WHEN bases IS NULL THEN 'h0' ELSE 'L'
					|| string_agg(p.x || ' ' || p.base, 'L' ORDER BY p.n DESC) || 'Z' END AS path
		FROM (SELECT v.n, v.top IS NULL AS missing, count(*) FILTER (WHERE v.top IS NULL) OVER (ORDER BY v.n) AS island,
				trim_scale(round((1000.0 * (v.n - 1) / greatest(cardinality(tops) - 1, 1))::numeric, 1)) AS x,
				trim_scale(round((300 * (high - v.top) / coalesce(nullif(high - low, 0), 1))::numeric, 1)) AS top,
				trim_scale(round((300 * (high - v.base) / coalesce(nullif(high - low, 0), 1))::numeric, 1)) AS base
			FROM unnest(tops, bases) WITH ORDINALITY v(top, base, n)) p
		WHERE NOT p.missing
		GROUP BY p.island) i;
END;
COMMENT ON FUNCTION kube_reports_internal.chart_path(double precision[], double precision[],
	double precision, double precision)
	IS 'an SVG path through values between low and high, on 1000 by 300; with bases the area between the two';

CREATE FUNCTION kube_reports_internal.chart_trend(name text, title text, description text, days date[], series jsonb,
	low double precision, high double precision,
	stacked boolean, percent boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	points		integer := cardinality(days);
	-- A single day is drawn as a line of two equal points.
	copies		integer := CASE WHEN points = 1 THEN 2 ELSE 1 END;
	step		numeric := 1000.0 / greatest(points - 1, 1);
	bases		double precision[] := CASE WHEN stacked
		THEN array_fill(0::double precision, ARRAY[points * copies]) END;
	given		double precision[];
	line		jsonb;
	shapes		text := '';
	legend		text := '';
	hits		text;
BEGIN
	FOR line IN SELECT s FROM jsonb_array_elements(series) s LOOP
		SELECT array_agg(e.value::double precision ORDER BY e.n, copy) INTO given
			FROM jsonb_array_elements_text(line->'values') WITH ORDINALITY e(value, n), generate_series(1, copies) copy;
		IF stacked THEN
			SELECT array_agg(g.value + coalesce(g.base, 0) ORDER BY g.n) INTO given
				FROM unnest(given, bases) WITH ORDINALITY g(value, base, n);
		END IF;
		shapes := shapes || format('<path class="%s %s" d="%s"/>', CASE WHEN stacked THEN 'area' ELSE 'line' END,
			kube_reports_internal.html_text(line->>'class'), kube_reports_internal.chart_path(given, bases, low, high));
		legend := legend || format('<li><i class="%s"></i>%s <b>%s</b></li>',
			kube_reports_internal.html_text(line->>'class'), kube_reports_internal.html_text(line->>'name'),
			kube_reports_internal.html_value((line->'values'->>-1)::double precision, percent));
		bases := CASE WHEN stacked THEN given END;
	END LOOP;
	-- Tooltips: a stripe for each day.
	SELECT string_agg(format('<rect class="hit" x="%s" width="%s" height="300"><title>%s%s</title></rect>',
			trim_scale(round((d.n - 1.5) * step, 1)), trim_scale(round(step, 1)), to_char(d.day, 'FMDD Mon YYYY'),
				v.words), '' ORDER BY d.n)
		INTO hits
		FROM unnest(days) WITH ORDINALITY d(day, n),
			LATERAL (SELECT string_agg(E'\n' || kube_reports_internal.html_text(s.line->>'name') || ' '
					|| kube_reports_internal.html_value((s.line->'values'->>(d.n::integer - 1))::double precision,
						percent), '' ORDER BY s.n) AS words
				FROM jsonb_array_elements(series) WITH ORDINALITY s(line, n)) v;
	RETURN format('<ul class="legend">%1$s</ul><div class="plot"><div class="y" aria-hidden="true">%2$s</div>'
		'<svg class="trend" viewBox="0 0 1000 300" preserveAspectRatio="none" role="img" aria-labelledby="%3$s-title" '
			'aria-describedby="%3$s-desc">'
		'<title id="%3$s-title">%4$s</title><desc id="%3$s-desc">%5$s</desc>'
		'<path class="grid" d="M0 0H1000M0 150H1000M0 300H1000"/>%6$s%7$s</svg><div class="x" '
			'aria-hidden="true">%8$s</div></div>',
		legend,
		(SELECT string_agg(CASE WHEN percent THEN format('<span>%s%%</span>', round((100 * mark)::numeric))
				ELSE format('<span>%s</span>', kube_reports_internal.html_number(mark::numeric)) END, ''
					ORDER BY mark DESC)
			FROM unnest(ARRAY[low, (low + high) / 2, high]) mark),
		kube_reports_internal.html_text(name), kube_reports_internal.html_text(title),
			kube_reports_internal.html_text(description, 500), shapes, hits,
		(SELECT string_agg(format('<span>%s</span>', to_char(days[place], 'FMDD Mon')), '' ORDER BY place)
			FROM (SELECT DISTINCT unnest(ARRAY[1, (points + 1) / 2, points])) p(place)));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.chart_trend(text, text, text, date[], jsonb, double precision,
	double precision, boolean, boolean)
	IS 'series over days as lines, or stacked as areas, with legend and axes: series is an array of {name, class, '
		'values}, name a prefix of ids; stacked counts start at 0, percent are parts of 1';

CREATE FUNCTION kube_reports_internal.chart_spark(title text, given double precision[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<svg class="spark" viewBox="0 0 1000 300" preserveAspectRatio="none" '
		'role="img"><title>%s</title><path class="line score" d="%s"/></svg>',
		kube_reports_internal.html_text(title, 200),
		kube_reports_internal.chart_path(CASE WHEN cardinality(given) = 1 THEN given || given ELSE given END, NULL,
			r.low - 0.01, r.high + 0.01))
	FROM (SELECT min(v) AS low, max(v) AS high FROM unnest(given) v) r;
END;
COMMENT ON FUNCTION kube_reports_internal.chart_spark(text, double precision[])
	IS 'a small line between the least and the greatest of its values; no axes';

-- parts: the numbers of critical, high, medium, low and other severities.
CREATE FUNCTION kube_reports_internal.chart_bar(title text, parts jsonb, whole numeric) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<svg class="bar" width="100%%" height="8" role="img"><title>%s</title>%s</svg>',
		kube_reports_internal.html_text(title || ': '
			|| coalesce(string_agg(p.severity || ' ' || kube_reports_internal.html_number(p.part), ', '
			ORDER BY p.n) FILTER (WHERE p.part > 0), 'none'), 300),
		string_agg(format('<rect class="%s" x="%s%%" width="%s%%" height="8"/>', p.severity,
			round(100 * p.before / greatest(whole, 1), 2),
			round(100 * p.part / greatest(whole, 1), 2)), '' ORDER BY p.n) FILTER (WHERE p.part > 0))
	FROM (SELECT e.n, (ARRAY['critical', 'high', 'medium', 'low', 'other'])[e.n] AS severity, e.part::numeric AS part,
			coalesce(sum(e.part::numeric) OVER (ORDER BY e.n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
				0) AS before
		FROM jsonb_array_elements_text(parts) WITH ORDINALITY e(part, n)) p;
END;
COMMENT ON FUNCTION kube_reports_internal.chart_bar(text, jsonb, numeric)
	IS 'a bar with a part for each severity (an array: critical, high, medium, low, other); the length of the bar is '
		'the sum of the parts in proportion to whole';

CREATE FUNCTION kube_reports_internal.chart_ring(title text, score double precision) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('<svg class="ring" viewBox="0 0 120 120" width="156" height="156" '
		'role="img"><title>%s</title><circle class="track" cx="60" cy="60" r="52"/>%s'
		'<text x="60" y="61" aria-hidden="true">%s</text></svg>',
		kube_reports_internal.html_text(title, 200),
		-- An arc of length 0 would still show its round ends.
		CASE WHEN score > 0 THEN format('<circle class="arc" cx="60" cy="60" r="52" pathLength="100" '
			'stroke-dasharray="%s 100" transform="rotate(-90 60 60)"/>',
			round((100 * score)::numeric, 2)) END,
		kube_reports_internal.html_value(score, true));
END;
COMMENT ON FUNCTION kube_reports_internal.chart_ring(text, double precision)
	IS 'a score, as a part of 1, as a ring around its number';
