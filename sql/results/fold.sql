-- fold.sql
--	  Folds the counts that writes append into the counts of now and of each day.

-- Visible deltas are folded: one transaction removes them and adds them to the base, so that readers always count each
-- delta once.  Readers look for the remaining deltas from the mark on.  The mark is never above the xid of a running
-- transaction.
CREATE FUNCTION kube_reports_internal.fold_rollups(max_counts bigint DEFAULT 100000) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Deltas are newer than any statistics: read them in one pass by xid, and use hash tables for any number of them.
SET enable_seqscan = off
SET enable_hashjoin = on
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	old_mark	xid8;
	new_mark	xid8;
	bound		xid8;
	-- Each array has an element for every count and day.  If the day is null, the delta has no day.
	rollups		bigint[];
	counts		bigint[];
	days		date[];
	today		date;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock()) THEN
		RETURN false;
	END IF;
	SELECT m.mark, pg_snapshot_xmin(pg_current_snapshot()) INTO old_mark, new_mark
		FROM kube_reports_internal.rollup_mark m;
	SELECT d.xid INTO bound
		FROM (SELECT d.xid, sum(cardinality(d.criteria)) OVER (ORDER BY d.xid ROWS UNBOUNDED PRECEDING) AS counts
			FROM kube_reports_internal.rollup_delta d WHERE d.xid >= old_mark) d
		WHERE d.counts > max_counts ORDER BY d.xid LIMIT 1;
	IF FOUND THEN
		-- Fold all deltas of a transaction together.
		new_mark := least(new_mark, (bound::text::bigint + 1)::text::xid8);
	ELSIF NOT EXISTS (SELECT FROM kube_reports_internal.rollup_delta d WHERE d.xid >= old_mark) THEN
		RETURN false;
	END IF;

	WITH folded AS (
		DELETE FROM kube_reports_internal.rollup_delta d WHERE d.xid >= old_mark
			AND d.xid <= coalesce(bound, '18446744073709551615')
			RETURNING d.cluster_id, d.namespace, d.kind, d.day, d.criteria, d.statuses, d.native_statuses, d.counts
	), daily AS MATERIALIZED (
		SELECT f.cluster_id, f.namespace, c.criterion, f.kind, c.status, c.native_status, f.day, sum(c.count) AS count
		FROM folded f, unnest(f.criteria, f.statuses, f.native_statuses, f.counts) c(criterion,
			status, native_status, count)
		GROUP BY f.cluster_id, f.namespace, c.criterion, f.kind, c.status, c.native_status, f.day
	), based AS (
		INSERT INTO kube_reports_internal.rollup AS r (cluster_id, namespace, criterion, kind,
			status, native_status, count)
			SELECT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, sum(d.count)
			FROM daily d
			GROUP BY d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status
			ON CONFLICT (cluster_id, namespace, criterion, kind, status, native_status) DO UPDATE
				SET count = r.count + excluded.count
			RETURNING r.id, r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status
	)
	SELECT array_agg(b.id), array_agg(d.count), array_agg(d.day) INTO rollups, counts, days
		FROM daily d JOIN based b ON (b.cluster_id, b.namespace, b.criterion, b.kind, b.status, b.native_status)
			= (d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status)
		WHERE d.count <> 0;
	PERFORM kube_reports_internal.add_policies(rollups, counts);
	UPDATE kube_reports_internal.rollup_mark SET mark = new_mark;

	-- Fold one day after the other: around midnight, deltas have two days.
	FOR today IN SELECT DISTINCT d.day FROM unnest(days) d(day) WHERE d.day IS NOT NULL ORDER BY d.day LOOP
		PERFORM kube_reports_internal.add_daily(today,
			ARRAY(SELECT r.id FROM unnest(rollups, days) r(id, day) WHERE r.day = today),
			ARRAY(SELECT c.count FROM unnest(counts, days) c(count, day) WHERE c.day = today));
	END LOOP;
	RETURN bound IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.fold_rollups(bigint)
	IS 'adds the appended changes to the counts, and to the counts of each day: up to the transaction with which '
		'there are more than max_counts changes. True if there are more. One caller at a time';

CREATE FUNCTION kube_reports_internal.add_policies(rollups bigint[], counts bigint[]) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Look the arrays' counts up by index: the table may be large, and the planner does not know the arrays' lengths.
SET enable_seqscan = off
SET jit = off
AS $$
	INSERT INTO kube_reports_internal.rollup_policy AS p (cluster_id, namespace, policy, criterion, pass,
		warn, fail, error, skip)
		SELECT r.cluster_id, r.namespace, k.policy_id, min(r.criterion),
			coalesce(sum(c.count) FILTER (WHERE r.status = 'p'), 0),
				coalesce(sum(c.count) FILTER (WHERE r.status = 'w'), 0),
			coalesce(sum(c.count) FILTER (WHERE r.status = 'f'), 0),
				coalesce(sum(c.count) FILTER (WHERE r.status = 'e'), 0),
			coalesce(sum(c.count) FILTER (WHERE r.status = 's'), 0)
		FROM unnest(rollups, counts) c(rollup, count)
			CROSS JOIN LATERAL (SELECT r.cluster_id, r.namespace, r.criterion, r.status
				FROM kube_reports_internal.rollup r WHERE r.id = c.rollup OFFSET 0) r
			CROSS JOIN LATERAL (SELECT k.policy_id FROM kube_reports_internal.criterion k
				WHERE k.id = r.criterion OFFSET 0) k
		GROUP BY r.cluster_id, r.namespace, k.policy_id
		ON CONFLICT ON CONSTRAINT rollup_policy_pkey DO UPDATE
			SET pass = p.pass + excluded.pass, warn = p.warn + excluded.warn, fail = p.fail + excluded.fail,
				error = p.error + excluded.error,
				skip = p.skip + excluded.skip;
$$;
COMMENT ON FUNCTION kube_reports_internal.add_policies(bigint[], bigint[])
	IS 'adds to the counts by policy; used by fold_rollups() only';

-- A change on one day also counts for all later days.  A day without a row begins with the count of the day before.
CREATE FUNCTION kube_reports_internal.add_daily(day date, rollups bigint[], counts bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Each count is looked up on its own: the tables may have grown a thousandfold since the last ANALYZE.
-- fold_rollups() sets the opposite for its own joins.
SET enable_seqscan = off
SET enable_nestloop = on
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	INSERT INTO kube_reports_internal.rollup_daily AS d (rollup, day, count)
		SELECT c.rollup, add_daily.day, c.count + CASE WHEN l.day = add_daily.day THEN 0 ELSE coalesce(l.count, 0) END
		FROM unnest(rollups, counts) c(rollup, count)
			LEFT JOIN LATERAL (SELECT d.day, d.count FROM kube_reports_internal.rollup_daily d WHERE d.rollup = c.rollup
				AND d.day <= add_daily.day
				ORDER BY d.day DESC LIMIT 1) l ON true
		UNION ALL
		SELECT c.rollup, l.day, c.count
		FROM unnest(rollups, counts) c(rollup, count)
			CROSS JOIN LATERAL (SELECT d.day FROM kube_reports_internal.rollup_daily d WHERE d.rollup = c.rollup
				AND d.day > add_daily.day OFFSET 0) l
		ON CONFLICT ON CONSTRAINT rollup_daily_pkey DO UPDATE SET count = d.count + excluded.count;

	WITH coarse AS MATERIALIZED (
		SELECT r.cluster_id, n.namespace, k.source, k.category, k.severity,
			coalesce(sum(c.count) FILTER (WHERE r.status = 'p' AND NOT x.excluded), 0) AS pass,
			coalesce(sum(c.count) FILTER (WHERE r.status = 'w' AND NOT x.excluded), 0) AS warn,
			coalesce(sum(c.count) FILTER (WHERE r.status = 'f' AND NOT x.excluded), 0) AS fail,
			coalesce(sum(c.count) FILTER (WHERE r.status = 'e' AND NOT x.excluded), 0) AS error,
			coalesce(sum(c.count) FILTER (WHERE r.status = 's' AND NOT x.excluded), 0) AS skip,
			coalesce(sum(c.count) FILTER (WHERE x.excluded), 0) AS excluded
		FROM unnest(rollups, counts) c(rollup, count)
			CROSS JOIN LATERAL (SELECT r.cluster_id, r.namespace, r.criterion, r.status, r.native_status
				FROM kube_reports_internal.rollup r
				WHERE r.id = c.rollup OFFSET 0) r
			CROSS JOIN LATERAL (SELECT k.source, k.category, k.severity FROM kube_reports_internal.criterion k
				WHERE k.id = r.criterion OFFSET 0) k
			CROSS JOIN LATERAL (VALUES (r.namespace), ('*')) n(namespace)
			CROSS JOIN LATERAL (SELECT kube_reports_internal.excluded_from_score(r.native_status)) x(excluded)
		GROUP BY r.cluster_id, n.namespace, k.source, k.category, k.severity
	), later AS (
		UPDATE kube_reports_internal.score_daily s
			SET pass = s.pass + c.pass, warn = s.warn + c.warn, fail = s.fail + c.fail, error = s.error + c.error,
				skip = s.skip + c.skip,
				excluded = s.excluded + c.excluded
			FROM coarse c
			WHERE (s.cluster_id, s.namespace, s.source, s.category, s.severity) = (c.cluster_id, c.namespace, c.source,
				c.category, c.severity)
				AND s.day > add_daily.day
	)
	INSERT INTO kube_reports_internal.score_daily AS s (cluster_id, day, namespace, source, category, severity, pass,
		warn, fail, error, skip, excluded)
		SELECT c.cluster_id, add_daily.day, c.namespace, c.source, c.category, c.severity,
			c.pass + coalesce(l.pass, 0), c.warn + coalesce(l.warn, 0), c.fail + coalesce(l.fail, 0),
				c.error + coalesce(l.error, 0),
			c.skip + coalesce(l.skip, 0), c.excluded + coalesce(l.excluded, 0)
		FROM coarse c
			LEFT JOIN LATERAL (SELECT l.* FROM (SELECT s.* FROM kube_reports_internal.score_daily s
					WHERE (s.cluster_id, s.namespace, s.source, s.category, s.severity) = (c.cluster_id, c.namespace,
						c.source, c.category, c.severity)
						AND s.day <= add_daily.day ORDER BY s.day DESC LIMIT 1) l
				WHERE l.day < add_daily.day) l ON true
		ON CONFLICT ON CONSTRAINT score_daily_pkey DO UPDATE
			SET pass = s.pass + excluded.pass, warn = s.warn + excluded.warn, fail = s.fail + excluded.fail,
				error = s.error + excluded.error,
				skip = s.skip + excluded.skip, excluded = s.excluded + excluded.excluded;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.add_daily(date, bigint[], bigint[])
	IS 'adds to the counts of a day and of all days after it; used by fold_rollups() only';
