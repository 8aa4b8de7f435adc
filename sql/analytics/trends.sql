-- trends.sql
--	  Events, intervals, trends and scores.
--
-- History is the contents of report_change: 25 months by default (setting history_retention).  A result that has
-- disappeared but may still come back (settles_at) still exists for all readers.

-- Without a partition of history the planner knows that a query about events has no row, and leaves out all of it, its
-- conditions too; and of a period whose ends are exchanged, that nothing is in it.  So arguments are checked in a part
-- of their own: a UNION ALL with a row that the planner cannot leave out, and that is never returned.

---- history ----

CREATE VIEW kube_reports.result_event WITH (security_barrier) AS
	SELECT h.at, c.uid AS cluster, c.name AS cluster_name, h.namespace, g.name AS report, k.source, k.policy, k.rule,
		k.category, k.severity,
		s.api_version AS subject_api_version, s.kind AS subject_kind, s.namespace AS subject_namespace,
			s.name AS subject_name, s.uid AS subject_uid,
		kube_reports_internal.status_name(h.old_status) AS old_status,
			kube_reports_internal.status_name(h.new_status) AS new_status,
		h.first_seen, h.old_since, a.name AS actor, h.version AS resource_version, h.key AS result_key,
		CASE h.gone_with WHEN 'r' THEN 'report' WHEN 's' THEN 'resource' END AS gone_with
	FROM kube_reports_internal.result_change h
		JOIN kube_reports.cluster c ON c.id = h.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = h.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = h.subject
		LEFT JOIN kube_reports_internal.origin g ON g.id = h.origin
		LEFT JOIN kube_reports_internal.actor a ON a.id = h.actor
	WHERE (h.settles_at IS NULL OR h.settles_at <= now())
		AND (h.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
			OR (h.cluster_id, h.namespace) IN (SELECT n.cluster_id, n.namespace
				FROM kube_reports_internal.caller_namespace n));
COMMENT ON VIEW kube_reports.result_event
	IS 'every appearance (old_status null), change of status and disappearance (new_status null) of a result, by '
		'names. first_seen: when the result had appeared; old_since: since when it had had its old status. gone_with: '
		'the result disappeared with its report, or with all results of its resource in the report; null: alone';

-- Most rows of history are about results that appeared with a new report.  These rows are not unpacked here.
CREATE VIEW kube_reports_internal.changed_event WITH (security_barrier) AS
	SELECT h.at, c.uid AS cluster, c.name AS cluster_name, h.namespace, g.name AS report, k.source, k.policy, k.rule,
		k.severity, s.kind AS subject_kind, s.name AS subject_name, h.old_status, h.new_status, h.old_since,
		h.key AS result_key, h.gone_with IS NOT NULL AS gone_with_others
	FROM kube_reports_internal.result_change h
		JOIN kube_reports.cluster c ON c.id = h.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = h.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = h.subject
		LEFT JOIN kube_reports_internal.origin g ON g.id = h.origin
	WHERE h.of_known AND h.old_status IS NOT NULL AND (h.settles_at IS NULL OR h.settles_at <= now())
		AND (h.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
			OR (h.cluster_id, h.namespace) IN (SELECT n.cluster_id, n.namespace
				FROM kube_reports_internal.caller_namespace n));
COMMENT ON VIEW kube_reports_internal.changed_event
	IS 'the events of result_event that have an old status, with the letters of the statuses: for fix_time() and '
		'flapping()';

-- Each change ends an interval.  An interval without an end belongs to a current result, or to a result that has
-- disappeared but may still come back.
CREATE VIEW kube_reports.result_interval WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, i.namespace, g.name AS report, k.source, k.policy, k.rule,
		k.category, k.severity,
		s.api_version AS subject_api_version, s.kind AS subject_kind, s.namespace AS subject_namespace,
			s.name AS subject_name, s.uid AS subject_uid,
		kube_reports_internal.status_name(i.status) AS status, i.valid_from, i.valid_to, i.key AS result_key
	FROM (SELECT h.cluster_id, h.namespace, h.origin, h.key, h.criterion, h.subject, h.old_status AS status,
		h.old_since AS valid_from, h.at AS valid_to
			FROM kube_reports_internal.result_change h WHERE h.of_known AND h.old_status IS NOT NULL
				AND (h.settles_at IS NULL OR h.settles_at <= now())
		UNION ALL
		-- settle_window is at most a day.
		SELECT h.cluster_id, h.namespace, h.origin, h.key, h.criterion, h.subject, h.old_status, h.old_since, 'infinity'
			FROM kube_reports_internal.result_change h WHERE h.of_known AND h.old_status IS NOT NULL
				AND h.settles_at > now() AND h.at > now() - interval '1 day'
		UNION ALL
		SELECT r.cluster_id, r.namespace, r.origin, r.key, r.criterion, r.subject, r.status, r.since, 'infinity'
			FROM kube_reports_internal.result r) i
		JOIN kube_reports.cluster c ON c.id = i.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = i.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = i.subject
		LEFT JOIN kube_reports_internal.origin g ON g.id = i.origin
	WHERE i.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (i.cluster_id, i.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports.result_interval
	IS 'the times during which a result had a status: from valid_from (inclusive) to valid_to (exclusive; infinity: '
		'until now)';

CREATE FUNCTION kube_reports.status_at(at timestamptz) RETURNS SETOF kube_reports.result_interval
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT i.* FROM kube_reports.result_interval i WHERE i.valid_from <= at AND i.valid_to > at;
END;
COMMENT ON FUNCTION kube_reports.status_at(timestamptz)
	IS 'the results that existed at a time, with their status at that time; severity and category are those before '
		'the next change. Conditions of the calling query limit the search';

CREATE FUNCTION kube_reports.new_failures(since timestamptz, cluster uuid DEFAULT NULL)
	RETURNS SETOF kube_reports.result_event
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT n.* FROM (SELECT (NULL::kube_reports.result_event).* OFFSET 0) n
	WHERE NOT (new_failures.cluster IS NULL OR kube_reports_internal.checked_cluster(new_failures.cluster))
	UNION ALL
	SELECT e.* FROM kube_reports.result_event e
	WHERE e.at >= new_failures.since AND (new_failures.cluster IS NULL OR e.cluster = new_failures.cluster)
		AND e.new_status IN ('warn', 'fail', 'error')
			AND (e.old_status IS NULL OR e.old_status NOT IN ('warn', 'fail', 'error'));
END;
COMMENT ON FUNCTION kube_reports.new_failures(timestamptz, uuid)
	IS 'results that changed to warn, fail or error, or appeared with such a status, at or after a time; cluster '
		'null: all clusters. Raises 42704 for a cluster that the caller does not see';

CREATE FUNCTION kube_reports.transitions(from_time timestamptz, to_time timestamptz,
	old text DEFAULT NULL, new text DEFAULT NULL)
	RETURNS SETOF kube_reports.result_event
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT n.* FROM (SELECT (NULL::kube_reports.result_event).* OFFSET 0) n
	WHERE NOT (kube_reports_internal.known_word('status', old, kube_reports_internal.status_words() || ''::text)
		AND kube_reports_internal.known_word('status', new, kube_reports_internal.status_words() || ''::text)
		AND kube_reports_internal.checked_range('from_time', from_time, 'to_time', to_time))
	UNION ALL
	SELECT e.* FROM kube_reports.result_event e
	WHERE e.at >= from_time AND e.at < to_time
		AND (old IS NULL OR coalesce(e.old_status, '') = old) AND (new IS NULL OR coalesce(e.new_status, '') = new);
END;
COMMENT ON FUNCTION kube_reports.transitions(timestamptz, timestamptz, text, text)
	IS 'changes from one status to another within a period (end exclusive). Null stands for any status, the empty '
		'text for none: the result appeared or disappeared. Raises 22023 for another word, and for a period that ends '
		'before it begins';

CREATE FUNCTION kube_reports.fix_time(from_time timestamptz, to_time timestamptz, gone_is_fixed boolean DEFAULT false)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, severity text, fixed bigint,
		mean interval, median interval,
		gone bigint, gone_mean interval, gone_median interval)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT e.cluster, e.cluster_name, e.namespace, e.severity,
		count(*) FILTER (WHERE e.fixed), avg(e.lasted) FILTER (WHERE e.fixed),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY e.lasted) FILTER (WHERE e.fixed),
		count(*) FILTER (WHERE e.gone), avg(e.lasted) FILTER (WHERE e.gone),
		percentile_cont(0.5) WITHIN GROUP (ORDER BY e.lasted) FILTER (WHERE e.gone)
	FROM (SELECT e.cluster, e.cluster_name, e.namespace, e.severity, e.at - e.old_since AS lasted,
		e.gone_with_others AS gone, gone_is_fixed OR NOT e.gone_with_others AS fixed
		FROM (SELECT n.* FROM (SELECT (NULL::kube_reports_internal.changed_event).* OFFSET 0) n
				WHERE NOT kube_reports_internal.checked_range('from_time', from_time, 'to_time', to_time)
			UNION ALL
			SELECT e.* FROM kube_reports_internal.changed_event e
				WHERE e.at >= from_time AND e.at < to_time AND e.old_status IN ('w', 'f', 'e')
					AND (e.new_status = 'p' OR e.new_status IS NULL)) e) e
	GROUP BY e.cluster, e.cluster_name, e.namespace, e.severity;
END;
COMMENT ON FUNCTION kube_reports.fix_time(timestamptz, timestamptz, boolean)
	IS 'for results that were fixed within a period: how long they had had their failing status (warn, fail, error), '
		'by cluster, namespace and severity. Fixed means that the result changed to pass, or disappeared from a '
		'report that still has results of its resource, as a corrected vulnerability does. gone: the result '
		'disappeared with its report or its resource; with gone_is_fixed these count in fixed, too. Raises 22023 for '
		'a period that ends before it begins';

CREATE FUNCTION kube_reports.flapping(from_time timestamptz, to_time timestamptz, min_changes integer DEFAULT 4)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, report text, source text, policy text,
		rule text, subject_kind text,
		subject_name text, changes bigint, last_change timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT e.cluster, e.cluster_name, e.namespace, e.report, e.source, e.policy, e.rule, e.subject_kind,
		e.subject_name, count(*), max(e.at)
	FROM (SELECT n.* FROM (SELECT (NULL::kube_reports_internal.changed_event).* OFFSET 0) n
			WHERE NOT (kube_reports_internal.checked_range('from_time', from_time, 'to_time', to_time)
				AND kube_reports_internal.checked_count('min_changes', min_changes))
		UNION ALL
		SELECT e.* FROM kube_reports_internal.changed_event e
			WHERE e.at >= from_time AND e.at < to_time AND e.new_status IS NOT NULL) e
	GROUP BY e.cluster, e.cluster_name, e.namespace, e.report, e.source, e.policy, e.rule, e.subject_kind,
		e.subject_name, e.result_key
	HAVING count(*) >= min_changes;
END;
COMMENT ON FUNCTION kube_reports.flapping(timestamptz, timestamptz, integer)
	IS 'results that changed from one status to another at least min_changes times within a period. Raises 22023 for '
		'a period that ends before it begins, and for min_changes below 1';

---- scores ----

CREATE FUNCTION kube_reports.severity_weight(severity text) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE severity WHEN 'critical' THEN 10 WHEN 'high' THEN 6 WHEN 'medium' THEN 3 WHEN 'low' THEN 1
	WHEN 'unknown' THEN 1 WHEN 'info' THEN 0
	ELSE kube_reports_internal.known_word('severity', severity, kube_reports_internal.severity_words())::integer END;
COMMENT ON FUNCTION kube_reports.severity_weight(text)
	IS 'the weight of a result in weighted scores, by severity: critical 10, high 6, medium 3, low, unknown and null '
		'1, info 0. Raises 22023 for another word';

-- Whole clusters have rows of their own.  Of other clusters, the reader sees the rows of single namespaces.  Deltas
-- that are not folded yet are added.  What was counted while the clock was ahead, was counted by now.
CREATE VIEW kube_reports.score_change WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, n.namespace, n.of_cluster, n.source, n.category, n.severity,
		least(n.day, (now() AT TIME ZONE 'UTC')::date) AS day, n.pass, n.warn, n.fail, n.error, n.skip, n.excluded
	FROM (SELECT s.cluster_id, s.namespace, s.of_cluster, s.source, s.category, s.severity, s.day,
				s.pass - lag(s.pass, 1, 0::bigint) OVER series AS pass,
					s.warn - lag(s.warn, 1, 0::bigint) OVER series AS warn,
				s.fail - lag(s.fail, 1, 0::bigint) OVER series AS fail,
					s.error - lag(s.error, 1, 0::bigint) OVER series AS error,
				s.skip - lag(s.skip, 1, 0::bigint) OVER series AS skip,
					s.excluded - lag(s.excluded, 1, 0::bigint) OVER series AS excluded
			-- of_cluster is constant on each side of the union, so that a query for clusters alone reads no rows of
			-- namespaces.
			FROM (SELECT true AS of_cluster, s.* FROM kube_reports_internal.score_daily s
					WHERE s.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
						AND s.namespace = '*'
				UNION ALL
				SELECT false, s.* FROM kube_reports_internal.score_daily s
					WHERE s.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
						AND s.namespace <> '*'
				UNION ALL
				SELECT true, s.* FROM kube_reports_internal.score_daily s
					WHERE s.cluster_id <> ALL (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
						AND s.namespace <> '*'
						AND (s.cluster_id, s.namespace) IN (SELECT n.cluster_id, n.namespace
							FROM kube_reports_internal.caller_namespace n)) s
			WINDOW series AS (PARTITION BY s.of_cluster, s.cluster_id, s.namespace, s.source, s.category,
				s.severity ORDER BY s.day)
		UNION ALL
		SELECT d.cluster_id, n.namespace, n.namespace = '*' OR NOT w.whole, k.source, k.category, k.severity, d.day,
				CASE WHEN x.status = 'p' THEN x.count ELSE 0 END, CASE WHEN x.status = 'w' THEN x.count ELSE 0 END,
				CASE WHEN x.status = 'f' THEN x.count ELSE 0 END, CASE WHEN x.status = 'e' THEN x.count ELSE 0 END,
				CASE WHEN x.status = 's' THEN x.count ELSE 0 END, CASE WHEN x.status = 'x' THEN x.count ELSE 0 END
			FROM kube_reports_internal.rollup_delta d
				CROSS JOIN LATERAL unnest(d.criteria, d.statuses, d.native_statuses, d.counts) c(criterion,
					status, native_status, count)
				CROSS JOIN LATERAL (SELECT CASE WHEN kube_reports_internal.excluded_from_score(c.native_status) THEN 'x'
					ELSE c.status END, c.count) x(status, count)
				CROSS JOIN LATERAL (SELECT d.cluster_id = ANY
					(ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))) w(whole)
				JOIN LATERAL (VALUES (d.namespace), ('*')) n(namespace) ON n.namespace <> '*' OR w.whole
				JOIN kube_reports_internal.criterion k ON k.id = c.criterion
			WHERE d.day IS NOT NULL AND d.xid >= (SELECT m.mark FROM kube_reports_internal.rollup_mark m)
				AND (w.whole OR (d.cluster_id, d.namespace) IN (SELECT n.cluster_id, n.namespace
					FROM kube_reports_internal.caller_namespace n))) n
		JOIN kube_reports.cluster c ON c.id = n.cluster_id;
COMMENT ON VIEW kube_reports.score_change
	IS 'what each day (UTC) added to the counts by status; the sum up to a day gives the counts of that day. '
		'namespace *: the whole cluster. of_cluster: rows to add up for the cluster as the reader sees it';

CREATE FUNCTION kube_reports.compliance_score(from_day date, to_day date, by_namespace boolean DEFAULT false)
	RETURNS TABLE (day date, cluster uuid, cluster_name text, namespace text, pass bigint, warn bigint, fail bigint,
		error bigint, skip bigint,
		excluded bigint, score double precision, weighted_score double precision)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT t.day, t.cluster, t.cluster_name, t.namespace, t.pass, t.warn, t.fail, t.error, t.skip, t.excluded,
		t.pass::double precision / nullif(t.pass + t.warn + t.fail + t.error, 0),
			t.weighted_pass::double precision / nullif(t.weighted, 0)
	FROM (SELECT d.day::date AS day, x.cluster, x.cluster_name, x.namespace, sum(x.pass)::bigint AS pass,
		sum(x.warn)::bigint AS warn,
			sum(x.fail)::bigint AS fail, sum(x.error)::bigint AS error, sum(x.skip)::bigint AS skip,
				sum(x.excluded)::bigint AS excluded,
			sum(x.pass * x.weight) AS weighted_pass, sum((x.pass + x.warn + x.fail + x.error) * x.weight) AS weighted
		FROM (SELECT s.cluster, s.cluster_name, CASE WHEN by_namespace THEN s.namespace ELSE '*' END AS namespace,
			greatest(s.day, from_day) AS day,
				kube_reports.severity_weight(s.severity) AS weight, sum(s.pass) AS pass,
					sum(s.warn) AS warn, sum(s.fail) AS fail,
				sum(s.error) AS error, sum(s.skip) AS skip, sum(s.excluded) AS excluded
			FROM kube_reports.score_change s
			-- Days to come have no rows; a timestamp of such a day may be out of range.
			WHERE s.day <= to_day AND from_day <= (now() AT TIME ZONE 'UTC')::date
				AND kube_reports_internal.checked_range('from_day', from_day, 'to_day', to_day)
				AND (by_namespace AND s.namespace <> '*' OR NOT by_namespace AND s.of_cluster)
			GROUP BY 1, 2, 3, 4, 5) x
			CROSS JOIN LATERAL generate_series(greatest(from_day, x.day)::timestamp,
				least(to_day, (now() AT TIME ZONE 'UTC')::date)::timestamp, interval '1 day') d(day)
		GROUP BY d.day, x.cluster, x.cluster_name, x.namespace) t;
END;
COMMENT ON FUNCTION kube_reports.compliance_score(date, date, boolean)
	IS 'the score at the end of each day (UTC) from the first known day on; that of today is the current one. The '
		'score is pass / (pass + warn + fail + error), null when the sum is 0. Skipped results do not count, nor do '
		'results whose source reached no verdict (MANUAL, NOT-APPLICABLE, INCONSISTENT, INFO: excluded). '
		'weighted_score: each result counts as often as severity_weight() says. Raises 22023 for a period that ends '
		'before it begins';

---- days of a page ----

CREATE FUNCTION kube_reports_internal.days_shown(from_day date, to_day date, OUT first_day date, OUT last_day date)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.checked_range('from_day', from_day, 'to_day', to_day);
	last_day := least(to_day, (now() AT TIME ZONE 'UTC')::date);
	-- From the beginning: the first day that has a row.
	first_day := CASE from_day WHEN '-infinity'
		THEN coalesce((SELECT min(s.day) FROM kube_reports.score_change s WHERE s.day <= days_shown.last_day), last_day)
		ELSE coalesce(from_day, last_day - 29) END;
	IF NOT isfinite(last_day) OR first_day > last_day THEN
		RAISE EXCEPTION 'there are no days from % to %', first_day, last_day USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Give a first day that is not to come, and a later last day.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.days_shown(date, date)
	IS 'the days of a period that has no more than the past: null is 30 days before the last, or today; -infinity is '
		'the first day of which the caller sees counts; days to come are left out. Raises 22023 for a period without '
		'such days';

-- The score of several clusters is computed from all their results.  It is not the mean of their scores: otherwise a
-- cluster of ten results would weigh as much as one of a million.
CREATE FUNCTION kube_reports.fleet_score(from_day date, to_day date, filter jsonb DEFAULT '{}', step integer DEFAULT 1)
	RETURNS TABLE (day date, pass bigint, warn bigint, fail bigint, error bigint, skip bigint,
		excluded bigint, failing bigint,
		critical bigint, high bigint, medium bigint, low bigint, other bigint, score double precision,
			weighted_score double precision)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	last_day	date;
	clusters	text[];
	namespaces	text[];
	sources		text[];
BEGIN
	PERFORM kube_reports_internal.checked_count('step', step);
	SELECT d.first_day, d.last_day INTO from_day, last_day
		FROM kube_reports_internal.days_shown(from_day, to_day) d;
	filter := kube_reports_internal.checked_filter(filter, ARRAY['cluster', 'cluster_labels', 'namespace', 'source'],
		'the filter of a score has',
		'Scores are of clusters, namespaces and sources: members cluster, cluster_labels, namespace and source.');
	clusters := kube_reports_internal.filter_clusters(filter);
	namespaces := kube_reports_internal.filter_strings(filter, 'namespace');
	sources := kube_reports_internal.filter_strings(filter, 'source');
	RETURN QUERY
	WITH added AS MATERIALIZED (
		SELECT last_day - (last_day - greatest(s.day, from_day)) / step * step AS day,
			sum(s.pass) AS pass, sum(s.warn) AS warn, sum(s.fail) AS fail, sum(s.error) AS error, sum(s.skip) AS skip,
				sum(s.excluded) AS excluded,
			sum(s.failing) AS failing, sum(s.failing * (s.severity = 'critical')::integer) AS critical,
			sum(s.failing * (s.severity = 'high')::integer) AS high,
				sum(s.failing * (s.severity = 'medium')::integer) AS medium,
			sum(s.failing * (s.severity = 'low')::integer) AS low,
				sum(s.failing * (s.severity IN ('info', 'unknown'))::integer) AS other,
			sum(s.pass * s.weight) AS weighted_pass, sum((s.pass + s.failing) * s.weight) AS weighted
		FROM (SELECT s.*, s.warn + s.fail + s.error AS failing, kube_reports.severity_weight(s.severity) AS weight
			FROM kube_reports.score_change s) s
		WHERE s.day <= last_day AND kube_reports_internal.in_clusters(clusters, s.cluster, s.cluster_name)
			AND (sources IS NULL OR s.source = ANY (sources))
			AND CASE WHEN namespaces IS NULL THEN s.of_cluster ELSE s.namespace <> '*'
				AND s.namespace = ANY (namespaces) END
		GROUP BY 1
	)
	SELECT t.day, t.pass::bigint, t.warn::bigint, t.fail::bigint, t.error::bigint, t.skip::bigint,
		t.excluded::bigint, t.failing::bigint,
		t.critical::bigint, t.high::bigint, t.medium::bigint, t.low::bigint, t.other::bigint,
		t.pass::double precision / nullif(t.pass + t.failing, 0)::double precision,
		t.weighted_pass::double precision / nullif(t.weighted, 0)::double precision
	FROM (SELECT d.day, sum(a.pass) OVER w AS pass, sum(a.warn) OVER w AS warn, sum(a.fail) OVER w AS fail,
		sum(a.error) OVER w AS error,
			sum(a.skip) OVER w AS skip, sum(a.excluded) OVER w AS excluded, sum(a.failing) OVER w AS failing,
				sum(a.critical) OVER w AS critical,
			sum(a.high) OVER w AS high, sum(a.medium) OVER w AS medium, sum(a.low) OVER w AS low,
				sum(a.other) OVER w AS other,
			sum(a.weighted_pass) OVER w AS weighted_pass, sum(a.weighted) OVER w AS weighted
		FROM (SELECT last_day - number * step AS day FROM generate_series(0, (last_day - from_day) / step) number) d
			LEFT JOIN added a ON a.day = d.day
		WINDOW w AS (ORDER BY d.day)) t
	ORDER BY t.day;
END
$$;
COMMENT ON FUNCTION kube_reports.fleet_score(date, date, jsonb, integer)
	IS 'the score of all clusters together at the end of each day (UTC), or of every step-th day, counted as in '
		'compliance_score(). filter: members cluster, cluster_labels, namespace, source. failing: warn, fail and '
		'error, also by severity (other: info and unknown). from_day -infinity: from the first known day on. The '
		'dashboards show these numbers. Raises 22023 for a wrong filter or period';

CREATE FUNCTION kube_reports.framework_score(from_day date, to_day date)
	RETURNS TABLE (day date, cluster uuid, cluster_name text, source text, category text, pass bigint, warn bigint,
		fail bigint, error bigint,
		skip bigint, excluded bigint, score double precision, weighted_score double precision)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT t.day, t.cluster, t.cluster_name, t.source, t.category, t.pass, t.warn, t.fail, t.error, t.skip, t.excluded,
		t.pass::double precision / nullif(t.pass + t.warn + t.fail + t.error, 0),
			t.weighted_pass::double precision / nullif(t.weighted, 0)
	FROM (SELECT d.day::date AS day, x.cluster, x.cluster_name, x.source, x.category, sum(x.pass)::bigint AS pass,
		sum(x.warn)::bigint AS warn,
			sum(x.fail)::bigint AS fail, sum(x.error)::bigint AS error, sum(x.skip)::bigint AS skip,
				sum(x.excluded)::bigint AS excluded,
			sum(x.pass * x.weight) AS weighted_pass, sum((x.pass + x.warn + x.fail + x.error) * x.weight) AS weighted
		FROM (SELECT s.*, kube_reports.severity_weight(s.severity) AS weight FROM kube_reports.score_change s
			WHERE s.day <= to_day AND from_day <= (now() AT TIME ZONE 'UTC')::date AND s.of_cluster
				AND kube_reports_internal.checked_range('from_day', from_day, 'to_day', to_day)) x
			CROSS JOIN LATERAL generate_series(greatest(from_day, x.day)::timestamp,
				least(to_day, (now() AT TIME ZONE 'UTC')::date)::timestamp, interval '1 day') d(day)
		GROUP BY d.day, x.cluster, x.cluster_name, x.source, x.category) t
	WHERE t.pass + t.warn + t.fail + t.error + t.skip + t.excluded <> 0;
END;
COMMENT ON FUNCTION kube_reports.framework_score(date, date)
	IS 'compliance_score() by source and category, where sources name the framework (CIS, NSA, Pod Security Standards)';

CREATE VIEW kube_reports.control_score WITH (security_barrier) AS
	SELECT r.framework, r.control, c.uid AS cluster, c.name AS cluster_name, r.pass, r.warn, r.fail,
		r.error, r.skip, r.excluded,
		r.pass::double precision / nullif(r.pass + r.warn + r.fail + r.error, 0) AS score,
		r.weighted_pass::double precision / nullif(r.weighted, 0) AS weighted_score
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.framework, r.control,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'p') AS pass,
					kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'w') AS warn,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'f') AS fail,
					kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'e') AS error,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 's') AS skip,
					kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'x') AS excluded,
				kube_reports_internal.total(r.count * r.weight) FILTER (WHERE r.status = 'p') AS weighted_pass,
				kube_reports_internal.total(r.count * r.weight) FILTER
					(WHERE r.status IN ('p', 'w', 'f', 'e')) AS weighted
			FROM (SELECT x.framework, x.control, r.count, kube_reports.severity_weight(x.severity) AS weight,
					CASE WHEN kube_reports_internal.excluded_from_score(r.native_status) THEN 'x'
						ELSE r.status END AS status
				FROM kube_reports_internal.visible_rollup r
					JOIN kube_reports_internal.control_criterion x ON x.criterion = r.criterion
				WHERE r.cluster_id = c.id) r
			GROUP BY r.framework, r.control
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.control_score
	IS 'the current score of each control of a framework, by cluster, counted as in compliance_score(). The row with '
		'control null is the score of the framework; it counts each result once';
