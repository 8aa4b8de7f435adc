-- 82_result_upkeep.sql
--	  Folding counts, retention, what is not referred to, making results
--	  again, checking them.
--
-- Each is a small step that proxies take in turn (see maintain()); who finds
-- somebody else at it goes away.

---- counts ----

-- Deltas of transactions below the mark are folded.  The mark is never above a transaction that still runs, so that none is passed
-- over; base, deltas and mark change in one transaction, so that a reader counts each delta once.
CREATE FUNCTION kube_reports.fold_rollups(max_counts bigint DEFAULT 100000) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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
	-- A row of each for every count and day.
	rollups		bigint[];
	counts		bigint[];
	days		date[];
	today		date;
BEGIN
	IF NOT pg_try_advisory_xact_lock(kube_reports.lock_class(), -3) THEN
		RETURN false;
	END IF;
	SELECT m.mark, pg_snapshot_xmin(pg_current_snapshot()) INTO old_mark, new_mark FROM kube_reports.rollup_mark m;
	SELECT d.xid INTO bound
		FROM (SELECT d.xid, sum(cardinality(d.criteria)) OVER (ORDER BY d.xid ROWS UNBOUNDED PRECEDING) AS counts
			FROM kube_reports.rollup_delta d WHERE d.xid >= old_mark AND d.xid < new_mark) d
		WHERE d.counts > max_counts ORDER BY d.xid LIMIT 1;
	IF FOUND THEN
		-- A transaction is folded whole.
		new_mark := least(new_mark, (bound::text::bigint + 1)::text::xid8);
	ELSIF NOT EXISTS (SELECT FROM kube_reports.rollup_delta d WHERE d.xid >= old_mark AND d.xid < new_mark) THEN
		RETURN false;
	END IF;

	WITH folded AS (
		DELETE FROM kube_reports.rollup_delta d WHERE d.xid >= old_mark AND d.xid < new_mark
			RETURNING d.cluster_id, d.namespace, d.kind, d.day, d.criteria, d.statuses, d.native_statuses, d.counts
	), daily AS MATERIALIZED (
		SELECT f.cluster_id, f.namespace, c.criterion, f.kind, c.status, c.native_status, f.day, sum(c.count) AS count
		FROM folded f, unnest(f.criteria, f.statuses, f.native_statuses, f.counts) c(criterion, status, native_status, count)
		GROUP BY f.cluster_id, f.namespace, c.criterion, f.kind, c.status, c.native_status, f.day
	), based AS (
		INSERT INTO kube_reports.rollup AS r (cluster_id, namespace, criterion, kind, status, native_status, count)
			SELECT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, sum(d.count)
			FROM daily d
			GROUP BY d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status
			ON CONFLICT (cluster_id, namespace, criterion, kind, status, native_status) DO UPDATE SET count = r.count + excluded.count
			RETURNING r.id, r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status
	)
	SELECT array_agg(b.id), array_agg(d.count), array_agg(d.day) INTO rollups, counts, days
		FROM daily d JOIN based b ON (b.cluster_id, b.namespace, b.criterion, b.kind, b.status, b.native_status)
			= (d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status)
		WHERE d.day IS NOT NULL AND d.count <> 0;
	UPDATE kube_reports.rollup_mark SET mark = new_mark;

	-- One day after the other: around midnight there are two.
	FOR today IN SELECT DISTINCT d.day FROM unnest(days) d(day) ORDER BY d.day LOOP
		PERFORM kube_reports.add_daily(today, ARRAY(SELECT r.id FROM unnest(rollups, days) r(id, day) WHERE r.day = today),
			ARRAY(SELECT c.count FROM unnest(counts, days) c(count, day) WHERE c.day = today));
	END LOOP;
	RETURN bound IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kube_reports.fold_rollups(bigint)
	IS 'adds what writes have appended to the counts, and to those of each day: up to the transaction in which there are more than max_counts of them; true when there is more to do; one caller at a time';

-- What a day changed holds on all later days too, and a day without a row begins with the count of the day before.  Each count is looked
-- up by itself: the planner knows little of tables that may have grown a thousandfold since it was last told.
CREATE FUNCTION kube_reports.add_daily(day date, rollups bigint[], counts bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_nestloop = on
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	INSERT INTO kube_reports.rollup_daily AS d (rollup, day, count)
		SELECT c.rollup, add_daily.day, c.count + CASE WHEN l.day = add_daily.day THEN 0 ELSE coalesce(l.count, 0) END
		FROM unnest(rollups, counts) c(rollup, count)
			LEFT JOIN LATERAL (SELECT d.day, d.count FROM kube_reports.rollup_daily d WHERE d.rollup = c.rollup AND d.day <= add_daily.day
				ORDER BY d.day DESC LIMIT 1) l ON true
		UNION ALL
		SELECT c.rollup, l.day, c.count
		FROM unnest(rollups, counts) c(rollup, count)
			CROSS JOIN LATERAL (SELECT d.day FROM kube_reports.rollup_daily d WHERE d.rollup = c.rollup AND d.day > add_daily.day OFFSET 0) l
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
			CROSS JOIN LATERAL (SELECT r.cluster_id, r.namespace, r.criterion, r.status, r.native_status FROM kube_reports.rollup r
				WHERE r.id = c.rollup OFFSET 0) r
			CROSS JOIN LATERAL (SELECT k.source, k.category, k.severity FROM kube_reports.criterion k WHERE k.id = r.criterion OFFSET 0) k
			CROSS JOIN LATERAL (VALUES (r.namespace), ('*')) n(namespace)
			CROSS JOIN LATERAL (SELECT kube_reports.excluded_from_score(r.native_status)) x(excluded)
		GROUP BY r.cluster_id, n.namespace, k.source, k.category, k.severity
	), later AS (
		UPDATE kube_reports.score_daily s
			SET pass = s.pass + c.pass, warn = s.warn + c.warn, fail = s.fail + c.fail, error = s.error + c.error, skip = s.skip + c.skip,
				excluded = s.excluded + c.excluded
			FROM coarse c
			WHERE (s.cluster_id, s.namespace, s.source, s.category, s.severity) = (c.cluster_id, c.namespace, c.source, c.category, c.severity)
				AND s.day > add_daily.day
	)
	INSERT INTO kube_reports.score_daily AS s (cluster_id, day, namespace, source, category, severity, pass, warn, fail, error, skip, excluded)
		SELECT c.cluster_id, add_daily.day, c.namespace, c.source, c.category, c.severity,
			c.pass + coalesce(l.pass, 0), c.warn + coalesce(l.warn, 0), c.fail + coalesce(l.fail, 0), c.error + coalesce(l.error, 0),
			c.skip + coalesce(l.skip, 0), c.excluded + coalesce(l.excluded, 0)
		FROM coarse c
			LEFT JOIN LATERAL (SELECT l.* FROM (SELECT s.* FROM kube_reports.score_daily s
					WHERE (s.cluster_id, s.namespace, s.source, s.category, s.severity) = (c.cluster_id, c.namespace, c.source, c.category, c.severity)
						AND s.day <= add_daily.day ORDER BY s.day DESC LIMIT 1) l
				WHERE l.day < add_daily.day) l ON true
		ON CONFLICT ON CONSTRAINT score_daily_pkey DO UPDATE
			SET pass = s.pass + excluded.pass, warn = s.warn + excluded.warn, fail = s.fail + excluded.fail, error = s.error + excluded.error,
				skip = s.skip + excluded.skip, excluded = s.excluded + excluded.excluded;
END
$$;
COMMENT ON FUNCTION kube_reports.add_daily(date, bigint[], bigint[]) IS 'adds to the counts of a day and of those after it; used by fold_rollups() only';

---- retention ----

-- Dropping a partition waits for readers of the history and keeps others waiting meanwhile: not for long, another time will do.
CREATE FUNCTION kube_reports.expire_history() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
DECLARE
	oldest		timestamp := date_trunc('month', (now() - kube_reports.setting('history_retention')::interval) AT TIME ZONE 'UTC');
	partition	text;
BEGIN
	SELECT c.relname INTO partition
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'kube_reports.result_change'::regclass AND c.relname < 'result_change_' || to_char(oldest, 'YYYY_MM')
		ORDER BY c.relname LIMIT 1;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	EXECUTE format('DROP TABLE kube_reports.%I', partition);
	RETURN true;
EXCEPTION WHEN lock_not_available THEN
	RETURN false;
END
$$;
COMMENT ON FUNCTION kube_reports.expire_history() IS 'drops the oldest month of history when all of it is older than history_retention; true when it did';

-- Candidates are looked for without a lock; what is left of them is removed while no writer is at work that might just have found them.
-- A step begins anywhere: over time every row is looked at.  Criteria stay: there are no more of them than policies and rules.
CREATE FUNCTION kube_reports.collect_garbage(max_rows integer DEFAULT 500) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
SET lock_timeout = '100ms'
AS $$
DECLARE
	somewhere	bigint := (random() * 18446744073709551615 - 9223372036854775808)::numeric::bigint;
	origins		bigint[];
	subjects	bigint[];
	details		bigint[];
	removed		bigint := 0;
	step		bigint;
BEGIN
	SELECT array_agg(g.id) INTO origins
		FROM (SELECT g.* FROM kube_reports.origin g
			WHERE g.id >= (SELECT (random() * coalesce(max(o.id), 0))::bigint FROM kube_reports.origin o) - max_rows ORDER BY g.id LIMIT max_rows) g
		WHERE NOT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = g.cluster_id AND o.resource_type = g.resource_type
				AND o.namespace = g.namespace AND o.name = g.name)
			AND NOT EXISTS (SELECT FROM kube_reports.result r WHERE r.origin = g.id)
			AND NOT EXISTS (SELECT FROM kube_reports.result_change c WHERE c.origin = g.id);
	SELECT array_agg(s.id) INTO subjects
		FROM (SELECT s.* FROM kube_reports.subject s WHERE s.id >= somewhere ORDER BY s.id LIMIT max_rows) s
		WHERE NOT EXISTS (SELECT FROM kube_reports.result r WHERE r.subject = s.id)
			AND NOT EXISTS (SELECT FROM kube_reports.result_change c WHERE c.subject = s.id);
	SELECT array_agg(d.id) INTO details
		FROM (SELECT d.id FROM kube_reports.detail d WHERE d.id >= somewhere ORDER BY d.id LIMIT max_rows) d
		WHERE NOT EXISTS (SELECT FROM kube_reports.result r WHERE r.detail = d.id);
	IF origins IS NULL AND subjects IS NULL AND details IS NULL THEN
		RETURN 0;
	END IF;

	PERFORM kube_reports.lock_store();
	DELETE FROM kube_reports.origin g WHERE g.id = ANY (origins)
		AND NOT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = g.cluster_id AND o.resource_type = g.resource_type
			AND o.namespace = g.namespace AND o.name = g.name)
		AND NOT EXISTS (SELECT FROM kube_reports.result_change c WHERE c.origin = g.id);
	GET DIAGNOSTICS step = ROW_COUNT;
	removed := removed + step;
	DELETE FROM kube_reports.subject s WHERE s.id = ANY (subjects)
		AND NOT EXISTS (SELECT FROM kube_reports.result r WHERE r.subject = s.id)
		AND NOT EXISTS (SELECT FROM kube_reports.result_change c WHERE c.subject = s.id);
	GET DIAGNOSTICS step = ROW_COUNT;
	removed := removed + step;
	DELETE FROM kube_reports.detail d WHERE d.id = ANY (details)
		AND NOT EXISTS (SELECT FROM kube_reports.result r WHERE r.detail = d.id);
	GET DIAGNOSTICS step = ROW_COUNT;
	RETURN removed + step;
EXCEPTION WHEN lock_not_available THEN
	-- Writers come first; another time.
	RETURN 0;
END
$$;
COMMENT ON FUNCTION kube_reports.collect_garbage(integer)
	IS 'one step of removing origins, subjects and details that neither results nor history refer to; returns how many it removed';

---- making results again ----

CREATE FUNCTION kube_reports.rebuild_step(lane integer, max_objects integer DEFAULT 100) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	target		record;
	done		record;
	step		record;
BEGIN
	PERFORM kube_reports.lock_store_shared();
	PERFORM kube_reports.lock_lane(rebuild_step.lane);
	SELECT l.cluster_id, l.resource_type, t.results = 'current' AS current, t.mapping_id, t.mapping INTO target
		FROM kube_reports.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type WHERE l.id = rebuild_step.lane;
	SELECT b.namespace, b.name INTO done FROM kube_reports.result_rebuild b WHERE b.lane = rebuild_step.lane;
	IF NOT FOUND OR target.cluster_id IS NULL THEN
		DELETE FROM kube_reports.result_rebuild b WHERE b.lane = rebuild_step.lane;
		RETURN false;
	END IF;
	-- Reports that are stored, and those that are not but have left results behind.
	SELECT array_agg(k.namespace) AS namespaces, array_agg(k.name) AS names, count(*) AS count,
			(array_agg(k.namespace ORDER BY k.namespace DESC, k.name DESC))[1] AS last_namespace,
			(array_agg(k.name ORDER BY k.namespace DESC, k.name DESC))[1] AS last_name
		INTO step
		FROM (SELECT u.namespace, u.name
			FROM ((SELECT o.namespace, o.name FROM kube_reports.object o
					WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
						AND (o.namespace, o.name) > (done.namespace, done.name)
					ORDER BY o.namespace, o.name LIMIT max_objects)
				UNION
				(SELECT g.namespace, g.name FROM kube_reports.origin g
					WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
						AND (g.namespace, g.name) > (done.namespace, done.name)
					ORDER BY g.namespace, g.name LIMIT max_objects)) u
			ORDER BY u.namespace, u.name LIMIT max_objects) k;
	IF step.count = 0 THEN
		DELETE FROM kube_reports.result_rebuild b WHERE b.lane = rebuild_step.lane;
		RETURN false;
	END IF;
	PERFORM kube_reports.apply_results(rebuild_step.lane, step.namespaces, step.names,
		array_fill(NULL::bigint, ARRAY[step.count::integer]), array_fill(NULL::bigint, ARRAY[step.count::integer]));
	PERFORM set_config('kube_reports.api_write', 'on', true);
	UPDATE kube_reports.object o SET evaluated_at = e.evaluated_at
		FROM unnest(step.namespaces, step.names) k(namespace, name)
			JOIN LATERAL (SELECT o.ctid AS place, o.evaluated_at AS stored, CASE WHEN target.current THEN
					kube_reports.evaluated_at(target.mapping_id, target.mapping, o.metadata, o.body) END AS evaluated_at
				FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) e ON true
		WHERE o.ctid = e.place AND e.stored IS DISTINCT FROM e.evaluated_at;
	PERFORM set_config('kube_reports.api_write', '', true);
	UPDATE kube_reports.result_rebuild b SET namespace = step.last_namespace, name = step.last_name WHERE b.lane = rebuild_step.lane;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports.rebuild_step(integer, integer)
	IS 'makes the results of the next reports of a lane again, as one write of the lane; false when the lane is done';

-- Counts are compared in one state of everything, whatever is being written: what is missing is appended like any other delta.
CREATE FUNCTION kube_reports.rebuild_counts() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO kube_reports.rollup_delta (cluster_id, namespace, kind, day, criteria, statuses, native_statuses, counts)
		SELECT d.cluster_id, d.namespace, d.kind, (now() AT TIME ZONE 'UTC')::date, array_agg(d.criterion), array_agg(d.status),
			array_agg(d.native_status), array_agg(d.count)
		FROM (SELECT c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status, sum(c.count) AS count
		FROM (SELECT r.cluster_id, r.namespace, r.criterion, coalesce(s.kind, '') AS kind, r.status, r.native_status, count(*) AS count
				FROM kube_reports.result r LEFT JOIN kube_reports.subject s ON s.id = r.subject
				GROUP BY r.cluster_id, r.namespace, r.criterion, coalesce(s.kind, ''), r.status, r.native_status
			UNION ALL
			SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, -r.count FROM kube_reports.current_rollup r) c
		GROUP BY c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status
		HAVING sum(c.count) <> 0) d
		GROUP BY d.cluster_id, d.namespace, d.kind;
END
$$;
COMMENT ON FUNCTION kube_reports.rebuild_counts() IS 'makes the counts those of the results, without waiting for writers';

-- Daily counts follow the counts by what writes add to them; where those were wrong, today is put right.
CREATE FUNCTION kube_reports.rebuild_daily() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today		date := (now() AT TIME ZONE 'UTC')::date;
	wrong		record;
BEGIN
	PERFORM pg_advisory_xact_lock(kube_reports.lock_class(), -3);
	SELECT array_agg(r.id) AS rollups, array_agg(r.count - coalesce(d.count, 0)) AS counts INTO wrong
		FROM kube_reports.rollup r
			LEFT JOIN LATERAL (SELECT d.count FROM kube_reports.rollup_daily d WHERE d.rollup = r.id ORDER BY d.day DESC LIMIT 1) d ON true
		WHERE r.count <> coalesce(d.count, 0);
	IF wrong.rollups IS NOT NULL THEN
		PERFORM kube_reports.add_daily(today, wrong.rollups, wrong.counts);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports.rebuild_daily() IS 'makes today''s counts those of now where they are not';

-- All of it in this transaction; for callers that hold the store's lock.
CREATE FUNCTION kube_reports.rebuild_queued() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	lane		integer;
BEGIN
	FOR lane IN SELECT b.lane FROM kube_reports.result_rebuild b ORDER BY b.lane LOOP
		WHILE kube_reports.rebuild_step(lane, 500) LOOP
			NULL;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports.rebuild_queued() IS 'makes the results of all lanes that wait for it again';

CREATE FUNCTION kube_reports.remake_results(type_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO kube_reports.result_rebuild (lane) SELECT l.id FROM kube_reports.lane l WHERE l.resource_type = type_id
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '';
	PERFORM kube_reports.rebuild_queued();
END
$$;
COMMENT ON FUNCTION kube_reports.remake_results(integer) IS 'makes the results of a type again after its mapping changed; the caller holds the store lock';

-- The rows that a dump has brought: what had not been folded still counts for its day, and the counts begin anew with the results.
CREATE FUNCTION kube_reports.restore_results() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today		date;
	unfolded	record;
BEGIN
	-- Whether any result or delta of this server is there already: triggers may have been at work on a part of the rows.
	DELETE FROM kube_reports.result;
	UPDATE kube_reports.rollup_mark SET mark = '0';
	INSERT INTO kube_reports.rollup (cluster_id, namespace, criterion, kind, status, native_status, count)
		SELECT DISTINCT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, 0 FROM kube_reports.unfolded('0') d
		ON CONFLICT (cluster_id, namespace, criterion, kind, status, native_status) DO NOTHING;
	FOR today IN SELECT DISTINCT d.day FROM kube_reports.unfolded('0') d WHERE d.day IS NOT NULL ORDER BY d.day LOOP
		SELECT array_agg(s.id) AS rollups, array_agg(s.count) AS counts INTO unfolded
			FROM (SELECT r.id, sum(d.count)::bigint AS count
				FROM kube_reports.unfolded('0') d
					JOIN kube_reports.rollup r ON (r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status)
						= (d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status)
				WHERE d.day = today
				GROUP BY r.id) s;
		PERFORM kube_reports.add_daily(today, unfolded.rollups, unfolded.counts);
	END LOOP;
	DELETE FROM kube_reports.rollup_delta;
	UPDATE kube_reports.rollup r SET count = 0 WHERE r.count <> 0;
	INSERT INTO kube_reports.result_rebuild (lane, restoring)
		SELECT l.id, true FROM kube_reports.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type WHERE t.results = 'current'
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '', restoring = true;
	IF kube_reports.setting('text_search') = 'on' THEN
		PERFORM kube_reports.enable_text_search();
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports.restore_results()
	IS 'makes daily counts complete after a restore, and has all results made again; called by after_restore(), which holds the store lock';

CREATE PROCEDURE kube_reports.rebuild()
LANGUAGE plpgsql
AS $$
DECLARE
	next_lane	integer := 0;
BEGIN
	INSERT INTO kube_reports.result_rebuild (lane)
		SELECT l.id FROM kube_reports.lane l JOIN kube_reports.resource_type t ON t.id OPERATOR(pg_catalog.=) l.resource_type
		WHERE t.results OPERATOR(pg_catalog.=) 'current'
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '';
	COMMIT;
	LOOP
		SELECT pg_catalog.min(b.lane) INTO next_lane FROM kube_reports.result_rebuild b WHERE b.lane OPERATOR(pg_catalog.>=) next_lane;
		EXIT WHEN next_lane IS NULL;
		IF NOT kube_reports.rebuild_step(next_lane) THEN
			next_lane := next_lane OPERATOR(pg_catalog.+) 1;
		END IF;
		COMMIT;
	END LOOP;
	PERFORM kube_reports.rebuild_counts();
	COMMIT;
	PERFORM kube_reports.fold_rollups(1000000);
	COMMIT;
	PERFORM kube_reports.rebuild_daily();
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports.rebuild()
	IS 'makes results and counts again from the documents, in small steps with a commit after each, while others write; history stays as it is';

---- checking ----

CREATE FUNCTION kube_reports.verify()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	RETURN QUERY
	WITH wanted AS (
		SELECT o.cluster_id, o.resource_type, o.namespace, o.name, g.id AS origin, d.key, jsonb_build_object('criterion', d.criterion, 'subject', d.subject,
			'detail', d.detail, 'status', d.status, 'native_status', d.native_status, 'score', d.score) AS content
		FROM kube_reports.resource_type t
			JOIN kube_reports.object o ON o.resource_type = t.id
			LEFT JOIN kube_reports.origin g ON (g.cluster_id, g.resource_type, g.namespace, g.name) = (o.cluster_id, o.resource_type, o.namespace, o.name)
			CROSS JOIN LATERAL kube_reports.result_difference(t.mapping_id, t.mapping, o.cluster_id, NULL, NULL, o.metadata, o.body) d
		WHERE t.results = 'current'
	), stored AS (
		SELECT r.cluster_id, r.namespace, g.name, r.origin, r.key, jsonb_build_object('criterion', r.criterion, 'subject', r.subject,
			'detail', r.detail, 'status', r.status, 'native_status', r.native_status, 'score', r.score) AS content
		FROM kube_reports.result r LEFT JOIN kube_reports.origin g ON g.id = r.origin AND g.cluster_id = r.cluster_id AND g.namespace = r.namespace
	)
	SELECT 'result', coalesce(w.cluster_id, s.cluster_id), coalesce(w.namespace, s.namespace), coalesce(w.name, s.name), w.content, s.content
		FROM wanted w FULL JOIN stored s ON s.origin = w.origin AND s.key = w.key
		WHERE w.content IS DISTINCT FROM s.content;

	RETURN QUERY
	SELECT 'evaluated_at', o.cluster_id, o.namespace, o.name, to_jsonb(e.evaluated_at), to_jsonb(o.evaluated_at)
		FROM kube_reports.object o JOIN kube_reports.resource_type t ON t.id = o.resource_type
			CROSS JOIN LATERAL (SELECT CASE WHEN t.results = 'current' THEN kube_reports.evaluated_at(t.mapping_id, t.mapping, o.metadata, o.body) END) e(evaluated_at)
		WHERE o.evaluated_at IS DISTINCT FROM e.evaluated_at;

	RETURN QUERY
	SELECT 'result_since', r.cluster_id, r.namespace, g.name,
			jsonb_build_object('first_seen', r.first_seen, 'since', r.since),
			jsonb_build_object('first_seen', coalesce(s.first_seen, g.first_seen), 'since', coalesce(s.since, g.first_seen))
		FROM kube_reports.result r JOIN kube_reports.origin g ON g.id = r.origin
			LEFT JOIN kube_reports.result_since s ON s.origin = r.origin AND s.key = r.key
		WHERE (r.first_seen, r.since) <> (coalesce(s.first_seen, g.first_seen), coalesce(s.since, g.first_seen));

	RETURN QUERY
	SELECT m.missing, r.cluster_id, r.namespace, NULL::text, jsonb_build_object('origin', r.origin, 'key', r.key), NULL::jsonb
		FROM kube_reports.result r
			LEFT JOIN kube_reports.criterion k ON k.id = r.criterion
			LEFT JOIN kube_reports.subject s ON s.id = r.subject AND s.cluster_id = r.cluster_id
			LEFT JOIN kube_reports.detail d ON d.id = r.detail
			CROSS JOIN LATERAL (VALUES ('criterion', k.id), ('subject', s.id), ('detail', d.id)) m(missing, id)
		WHERE m.id IS NULL;

	RETURN QUERY
	SELECT i.what, i.cluster_id, NULL::text, NULL::text, to_jsonb(i.hash), to_jsonb(i.id)
		FROM (SELECT 'criterion' AS what, NULL::integer AS cluster_id, k.id,
				kube_reports.field_hash('criterion', k.source, k.policy, k.rule, k.category, k.severity) AS hash FROM kube_reports.criterion k
			UNION ALL
			SELECT 'subject', s.cluster_id, s.id,
				kube_reports.field_hash('subject', s.cluster_id::text, s.api_version, s.kind, s.namespace, s.name, s.uid) FROM kube_reports.subject s
			UNION ALL
			SELECT 'actor', NULL, a.id, kube_reports.field_hash('actor', a.name) FROM kube_reports.actor a) i
		WHERE i.hash <> i.id;

	RETURN QUERY
	SELECT 'rollup', c.cluster_id, c.namespace, NULL::text,
			jsonb_build_object('criterion', c.criterion, 'kind', c.kind, 'status', c.status, 'native_status', c.native_status, 'count', sum(c.expected)),
			jsonb_build_object('count', sum(c.found))
		FROM (SELECT r.cluster_id, r.namespace, r.criterion, coalesce(s.kind, '') AS kind, r.status, r.native_status, 1 AS expected, 0 AS found
				FROM kube_reports.result r LEFT JOIN kube_reports.subject s ON s.id = r.subject
			UNION ALL
			SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, 0, r.count FROM kube_reports.current_rollup r) c
		GROUP BY c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status
		HAVING sum(c.expected) <> sum(c.found);

	RETURN QUERY
	SELECT 'rollup_daily', r.cluster_id, r.namespace, NULL::text, jsonb_build_object('rollup', r.id, 'count', r.count), jsonb_build_object('count', d.count)
		FROM kube_reports.rollup r
			LEFT JOIN LATERAL (SELECT d.count FROM kube_reports.rollup_daily d WHERE d.rollup = r.id ORDER BY d.day DESC LIMIT 1) d ON true
		WHERE r.count <> coalesce(d.count, 0);

	RETURN QUERY
	SELECT 'score_daily', coalesce(e.cluster_id, f.cluster_id), coalesce(e.namespace, f.namespace), NULL::text, e.content, f.content
		FROM (SELECT r.cluster_id, n.namespace, k.source, k.category, k.severity, jsonb_build_object(
					'pass', coalesce(sum(r.count) FILTER (WHERE r.status = 'p' AND NOT kube_reports.excluded_from_score(r.native_status)), 0),
					'warn', coalesce(sum(r.count) FILTER (WHERE r.status = 'w' AND NOT kube_reports.excluded_from_score(r.native_status)), 0),
					'fail', coalesce(sum(r.count) FILTER (WHERE r.status = 'f' AND NOT kube_reports.excluded_from_score(r.native_status)), 0),
					'error', coalesce(sum(r.count) FILTER (WHERE r.status = 'e' AND NOT kube_reports.excluded_from_score(r.native_status)), 0),
					'skip', coalesce(sum(r.count) FILTER (WHERE r.status = 's' AND NOT kube_reports.excluded_from_score(r.native_status)), 0),
					'excluded', coalesce(sum(r.count) FILTER (WHERE kube_reports.excluded_from_score(r.native_status)), 0)) AS content
				FROM kube_reports.rollup r JOIN kube_reports.criterion k ON k.id = r.criterion
					CROSS JOIN LATERAL (VALUES (r.namespace), ('*')) n(namespace)
				GROUP BY r.cluster_id, n.namespace, k.source, k.category, k.severity) e
			FULL JOIN (SELECT DISTINCT ON (s.cluster_id, s.namespace, s.source, s.category, s.severity) s.cluster_id, s.namespace, s.source, s.category,
					s.severity, jsonb_build_object('pass', s.pass, 'warn', s.warn, 'fail', s.fail, 'error', s.error, 'skip', s.skip,
						'excluded', s.excluded) AS content
				FROM kube_reports.score_daily s ORDER BY s.cluster_id, s.namespace, s.source, s.category, s.severity, s.day DESC) f
			ON (f.cluster_id, f.namespace, f.source, f.category, f.severity) = (e.cluster_id, e.namespace, e.source, e.category, e.severity)
		WHERE e.content IS DISTINCT FROM coalesce(f.content,
			'{"pass": 0, "warn": 0, "fail": 0, "error": 0, "skip": 0, "excluded": 0}');

	RETURN QUERY SELECT 'summary', w.cluster_id, w.namespace, w.name, w.expected, w.found FROM kube_reports.wrong_summaries() w;
END
$$;
COMMENT ON FUNCTION kube_reports.verify()
	IS 'compares results, times and counts with the documents and with each other, and summaries of set_summaries() with results: a row for each difference, none when all is well. Takes as long as reading everything does; call rebuild() to mend';

---- text search ----

CREATE FUNCTION kube_reports.enable_text_search() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
	operators	text;
BEGIN
	BEGIN
		CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public;
	EXCEPTION WHEN insufficient_privilege OR undefined_file OR invalid_schema_name OR feature_not_supported THEN
		RAISE WARNING 'pg_trgm cannot be created: %', SQLERRM
			USING HINT = 'Text search works without it, by reading every text.';
		RETURN false;
	END;
	SELECT n.nspname INTO operators FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_trgm';
	EXECUTE format('CREATE INDEX IF NOT EXISTS criterion_text ON kube_reports.criterion USING gin (policy %1$I.gin_trgm_ops, rule %1$I.gin_trgm_ops)', operators);
	EXECUTE format('CREATE INDEX IF NOT EXISTS subject_text ON kube_reports.subject USING gin (name %I.gin_trgm_ops)', operators);
	EXECUTE format('CREATE INDEX IF NOT EXISTS detail_text ON kube_reports.detail USING gin (message %I.gin_trgm_ops)', operators);
	PERFORM kube_reports.set_setting('text_search', 'on');
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports.enable_text_search()
	IS 'makes trigram indexes for text in policies, rules, messages and subjects, with pg_trgm where it can be created; false where it cannot. after_restore() makes them again';

---- all of it ----

CREATE FUNCTION kube_reports.catch_up() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	waiting		integer;
BEGIN
	-- A dump may have been loaded under the connections of proxies.
	IF kube_reports.finish_restore() THEN
		RETURN true;
	END IF;
	-- One thing at a time where locks are waited for.
	SELECT min(b.lane) INTO waiting FROM kube_reports.result_rebuild b;
	IF waiting IS NOT NULL THEN
		PERFORM kube_reports.rebuild_step(waiting);
		RETURN true;
	END IF;
	RETURN kube_reports.fold_rollups();
END
$$;
COMMENT ON FUNCTION kube_reports.catch_up()
	IS 'makes the next results that wait to be made again, else folds counts; true when there is more to do';

CREATE FUNCTION kube_reports.maintain() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	more		boolean;
BEGIN
	IF kube_reports.catch_up() THEN
		RETURN true;
	END IF;
	IF random() < 0.02 THEN
		PERFORM kube_reports.collect_garbage();
		RETURN true;
	END IF;
	more := kube_reports.compact(5000);
	PERFORM kube_reports.make_history(now() + interval '5 days');
	RETURN kube_reports.expire_history() OR more;
END
$$;
COMMENT ON FUNCTION kube_reports.maintain()
	IS 'one small step of all upkeep: log, counts, history, what nothing refers to, results that wait to be made again; true when there is more to do';
