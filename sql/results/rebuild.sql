-- rebuild.sql
--	  Derives stored results, history and counts again from the documents, and repairs them.
--
-- A lane with a row in result_rebuild waits for a rebuild.  Each step is small, so that upkeep of proxies takes the
-- steps in turn.

CREATE FUNCTION kube_reports_internal.newest_events(origins bigint[])
	RETURNS TABLE (partition oid, place tid, origin bigint, key bigint, criterion bigint, subject bigint,
		namespace text, at timestamptz, old_status "char", new_status "char", first_seen timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT DISTINCT ON (c.origin, e.key) c.tableoid, c.ctid, c.origin, e.key, e.criterion, e.subject, c.namespace,
		c.at, e.old_status, e.new_status, coalesce(e.first_seen, c.at)
	FROM kube_reports_internal.report_change c
		CROSS JOIN LATERAL kube_reports_internal.unpacked_changes(c.ids, c.criterion, c.subject, c.old_statuses,
			c.new_statuses, c.gone_with, c.first_seen, c.old_since) e
	WHERE c.origin = ANY ($1)
	ORDER BY c.origin, e.key, c.version DESC, c.at DESC;
END;
COMMENT ON FUNCTION kube_reports_internal.newest_events(bigint[])
	IS 'the newest event of each result of some reports, with the place of its row in history';

-- apply_results(), like every write, trusts that stored rows match their ids.  When results are derived again,
-- everything is checked: the shared rows, the report to which a row belongs, its times, the report to which an event
-- belongs.
CREATE FUNCTION kube_reports_internal.mend_rows(lane integer, namespaces text[], names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept and may have been made for an empty store: probe stored rows by index, hash the statement's own
-- rows.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = on
SET jit = off
AS $$
DECLARE
	target		record;
	origins		bigint[];
BEGIN
	SELECT d.cluster_id, d.resource_type, d.mapping_id, d.mapping INTO target
		FROM kube_reports_internal.derivation_of(mend_rows.lane) d;
	origins := kube_reports_internal.origins_of(target.cluster_id, target.resource_type, namespaces, names);

	-- No writer waits for these rows, because writers do not insert existing rows.  Two rebuilds lock the rows in one
	-- order.
	WITH said AS MATERIALIZED (
		SELECT g.id AS origin, d.*
		FROM unnest(namespaces, names) k(namespace, name)
			CROSS JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o
			LEFT JOIN LATERAL (SELECT g.id FROM kube_reports_internal.origin g
				WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
					AND g.namespace = k.namespace AND g.name = k.name LIMIT 1) g ON true
			CROSS JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id,
				target.mapping, target.cluster_id,
				NULL, NULL, o.metadata, o.body) d
	), right_criterion AS (
		UPDATE kube_reports_internal.criterion c
			SET source = w.source, policy = w.policy, rule = w.rule, category = w.category, severity = w.severity
			FROM (SELECT l.place, d.*
				FROM (SELECT DISTINCT ON (d.criterion) d.criterion, d.source, d.policy, d.rule,
					d.category, d.severity FROM said d
						WHERE d.source IS NOT NULL
						ORDER BY d.criterion) d
					CROSS JOIN LATERAL (SELECT c.ctid AS place, c.* FROM kube_reports_internal.criterion c
						WHERE c.id = d.criterion LIMIT 1) l
				WHERE (l.source, l.policy, l.rule, l.category, l.severity) <> (d.source, d.policy, d.rule,
					d.category, d.severity)
				ORDER BY d.criterion) w
			WHERE c.ctid = w.place AND c.id = w.criterion
	), right_subject AS (
		UPDATE kube_reports_internal.subject s
			SET cluster_id = target.cluster_id, api_version = w.api_version, kind = w.kind,
				namespace = w.subject_namespace, name = w.subject_name,
				uid = w.subject_uid
			FROM (SELECT l.place, d.*
				FROM (SELECT DISTINCT ON (d.subject) d.subject, d.api_version, d.kind, d.subject_namespace,
					d.subject_name, d.subject_uid FROM said d
						ORDER BY d.subject) d
					CROSS JOIN LATERAL (SELECT s.ctid AS place, s.* FROM kube_reports_internal.subject s
						WHERE s.id = d.subject LIMIT 1) l
				WHERE (l.cluster_id, l.api_version, l.kind, l.namespace, l.name, l.uid)
					<> (target.cluster_id, d.api_version, d.kind, d.subject_namespace, d.subject_name, d.subject_uid)
				ORDER BY d.subject) w
			WHERE s.ctid = w.place AND s.id = w.subject
	), right_detail AS (
		UPDATE kube_reports_internal.detail t SET message = w.message, properties = w.properties::jsonb,
			exceptions = w.exceptions
			FROM (SELECT l.place, d.*
				FROM (SELECT DISTINCT ON (d.detail) d.detail, d.message, d.properties, d.exceptions FROM said d
						WHERE d.message IS NOT NULL ORDER BY d.detail) d
					CROSS JOIN LATERAL (SELECT t.ctid AS place, t.* FROM kube_reports_internal.detail t
						WHERE t.id = d.detail LIMIT 1) l
				WHERE (l.message, l.properties, l.exceptions) <> (d.message, d.properties::jsonb, d.exceptions)
				ORDER BY d.detail) w
			WHERE t.ctid = w.place AND t.id = w.detail
	), newest AS MATERIALIZED (
		SELECT n.* FROM kube_reports_internal.newest_events(origins) n
	), wrong AS MATERIALIZED (
		-- The status of the document and of the row agree, and so do the times of the row and of the event.  So the
		-- status of the event is wrong.
		SELECT n.partition, n.place, array_agg(n.key) AS keys, array_agg(r.status) AS statuses
		FROM newest n JOIN said d ON d.origin = n.origin AND d.key = n.key
			CROSS JOIN LATERAL (SELECT r.status, r.since FROM kube_reports_internal.result r
				WHERE r.origin = n.origin AND r.key = n.key LIMIT 1) r
		WHERE r.status = d.status AND r.since = n.at AND n.new_status <> r.status
			AND n.old_status IS DISTINCT FROM r.status
		GROUP BY n.partition, n.place
	)
	UPDATE kube_reports_internal.report_change c
		SET new_statuses = kube_reports_internal.letters(ARRAY(SELECT coalesce(x.status, e.new_status)
			FROM kube_reports_internal.unpacked_changes(c.ids, c.criterion, c.subject, c.old_statuses, c.new_statuses,
					c.gone_with, c.first_seen, c.old_since) WITH ORDINALITY
					e(key, criterion, subject, old_status, new_status, gone_with, first_seen, old_since, place)
				LEFT JOIN unnest(w.keys, w.statuses) x(key, status) ON x.key = e.key
			ORDER BY e.place))
		FROM wrong w
		WHERE c.tableoid = w.partition AND c.ctid = w.place;
	PERFORM kube_reports_internal.mend_times(target.cluster_id, origins);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.mend_rows(integer, text[], text[])
	IS 'corrects the rows of some reports of a lane on which apply_results() relies: criteria, subjects and details '
		'that do not match their ids, statuses of events, and what mend_times() corrects. The caller holds the lane''s '
		'lock';

-- A row's times are stored in three places: the row itself, result_since (or the origin), the newest event.  If two
-- places agree, they are right.  If no two agree, the row is wrong.
CREATE FUNCTION kube_reports_internal.mend_times(cluster_id integer, origins bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept and may have been made for an empty store: probe stored rows by index, hash the statement's own
-- rows.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = on
SET jit = off
AS $$
BEGIN
	WITH newest AS MATERIALIZED (
		SELECT n.origin, n.key, n.new_status, n.first_seen, n.at AS since
		FROM kube_reports_internal.newest_events(origins) n
	), stored AS MATERIALIZED (
		SELECT r.ctid AS place, r.origin, r.key, g.namespace, r.first_seen, r.since,
			coalesce(s.first_seen, g.first_seen) AS noted_first_seen, coalesce(s.since, g.first_seen) AS noted_since,
			(n.first_seen, n.since) IS NOT DISTINCT FROM (r.first_seen, r.since)
				AND n.new_status = r.status AS witnessed
		FROM kube_reports_internal.origin g
			JOIN LATERAL (SELECT r.ctid, r.* FROM kube_reports_internal.result r
				WHERE r.origin = g.id OFFSET 0) r ON true
			LEFT JOIN LATERAL (SELECT s.first_seen, s.since FROM kube_reports_internal.result_since s
				WHERE s.origin = r.origin AND s.key = r.key LIMIT 1) s ON true
			LEFT JOIN newest n ON n.origin = r.origin AND n.key = r.key
		WHERE g.id = ANY (origins)
	), right_since AS (
		INSERT INTO kube_reports_internal.result_since (origin, key, first_seen, since)
			SELECT s.origin, s.key, s.first_seen, s.since FROM stored s
				WHERE s.witnessed AND (s.first_seen, s.since) <> (s.noted_first_seen, s.noted_since)
			ON CONFLICT ON CONSTRAINT result_since_pkey DO UPDATE
				SET first_seen = excluded.first_seen, since = excluded.since
	)
	UPDATE kube_reports_internal.result r
		SET cluster_id = mend_times.cluster_id, namespace = s.namespace,
			first_seen = CASE WHEN s.witnessed THEN r.first_seen ELSE s.noted_first_seen END,
			since = CASE WHEN s.witnessed THEN r.since ELSE s.noted_since END
		FROM stored s
		WHERE r.ctid = s.place AND ((r.cluster_id, r.namespace) <> (mend_times.cluster_id, s.namespace)
			OR s.witnessed IS NOT TRUE AND (r.first_seen, r.since) <> (s.noted_first_seen, s.noted_since));

	UPDATE kube_reports_internal.report_change c SET cluster_id = mend_times.cluster_id, namespace = g.namespace
		FROM kube_reports_internal.origin g
		WHERE g.id = ANY (origins) AND c.origin = g.id
			AND (c.cluster_id, c.namespace) <> (mend_times.cluster_id, g.namespace);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.mend_times(integer, bigint[])
	IS 'corrects the times of results of some reports, and rows and events that belong to another cluster or '
		'namespace than their report. The caller holds the lane''s lock';

-- If the newest event of a result does not match the result, history lacks an event.  The added event has a version of
-- its own, so that followers of history get it.  Its time is the time of the result if that is known to be later,
-- otherwise now.  It has no actor.  Events of dropped months are not added.
CREATE FUNCTION kube_reports_internal.mend_history(lane integer, namespaces text[], names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept and may have been made for an empty store: probe stored rows by index, hash the statement's own
-- rows.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = on
SET jit = off
AS $$
DECLARE
	written_at	timestamptz := kube_reports_internal.lane_time(mend_history.lane);
	begins		timestamptz := kube_reports_internal.history_begins();
	target		record;
	origins		bigint[];
	month		timestamp;
BEGIN
	SELECT d.cluster_id, d.resource_type INTO target FROM kube_reports_internal.derivation_of(mend_history.lane) d;
	origins := kube_reports_internal.origins_of(target.cluster_id, target.resource_type, namespaces, names);
	DELETE FROM kube_reports_internal.result_since s
		WHERE s.origin = ANY (origins) AND NOT EXISTS (SELECT FROM kube_reports_internal.result r
			WHERE r.origin = s.origin AND r.key = s.key OFFSET 0);
	FOR month IN SELECT DISTINCT date_trunc('month', r.since AT TIME ZONE 'UTC') FROM kube_reports_internal.result r
		WHERE r.origin = ANY (origins) AND r.since >= begins AND r.since < written_at
	LOOP
		PERFORM kube_reports.make_history(month AT TIME ZONE 'UTC');
	END LOOP;

	WITH newest AS MATERIALIZED (
		SELECT n.* FROM kube_reports_internal.newest_events(origins) n
	), stored AS MATERIALIZED (
		SELECT r.ctid AS place, r.* FROM kube_reports_internal.result r WHERE r.origin = ANY (origins)
	), lacking AS MATERIALIZED (
		SELECT coalesce(r.origin, n.origin) AS origin, coalesce(r.key, n.key) AS key,
			coalesce(r.criterion, n.criterion) AS criterion,
			coalesce(r.subject, n.subject) AS subject, coalesce(r.namespace, n.namespace) AS namespace,
				n.new_status AS old_status,
			r.status AS new_status, coalesce(r.first_seen, n.first_seen) AS first_seen, CASE
				WHEN n.new_status IS NOT NULL THEN n.at END AS old_since,
			CASE WHEN r.since < written_at AND (n.at IS NULL OR n.at < r.since) THEN r.since ELSE written_at END AS at,
				r.place
		FROM stored r FULL JOIN newest n ON n.origin = r.origin AND n.key = r.key
		WHERE r.status IS DISTINCT FROM n.new_status AND (n.at IS NOT NULL OR r.since >= begins)
	), drawn AS MATERIALIZED (
		SELECT o.origin, nextval('kube_reports_internal.version_seq') AS version
			FROM (SELECT DISTINCT l.origin FROM lacking l ORDER BY l.origin) o
	), dated AS (
		UPDATE kube_reports_internal.result r SET since = written_at FROM lacking l
			WHERE r.ctid = l.place AND l.at = written_at
	), last_named AS (
		-- These events come without counts: see collect_criteria().
		UPDATE kube_reports_internal.criterion k SET last_counted = greatest(k.last_counted, written_at)
			FROM (SELECT DISTINCT l.criterion FROM lacking l WHERE l.new_status IS NULL ORDER BY l.criterion) l
			WHERE k.id = l.criterion
	), named AS (
		-- These events come without results: see collect_subjects().
		UPDATE kube_reports_internal.subject s SET unused_since = NULL
			FROM (SELECT DISTINCT l.subject FROM lacking l WHERE l.new_status IS NULL ORDER BY l.subject) l
			WHERE s.id = l.subject AND s.unused_since IS NOT NULL
	), noted AS (
		INSERT INTO kube_reports_internal.result_since (origin, key, first_seen, since)
			SELECT l.origin, l.key, l.first_seen, written_at FROM lacking l
				WHERE l.place IS NOT NULL AND l.at = written_at
			ON CONFLICT ON CONSTRAINT result_since_pkey DO UPDATE
				SET first_seen = excluded.first_seen, since = excluded.since
	)
	INSERT INTO kube_reports_internal.report_change (at, version, origin, actor, settles_at, criterion, subject,
		cluster_id, namespace, ids, old_statuses, new_statuses, gone_with, first_seen, old_since)
		SELECT l.at, min(d.version), l.origin, 0, max(CASE WHEN l.new_status IS NULL THEN written_at END),
			kube_reports_internal.common(array_agg(l.criterion)), kube_reports_internal.common(array_agg(l.subject)),
			target.cluster_id, min(l.namespace),
			kube_reports_internal.joined_ids(array_agg(l.key), array_agg(l.criterion), array_agg(l.subject)),
			kube_reports_internal.letters(array_agg(l.old_status)),
			kube_reports_internal.letters(array_agg(l.new_status)),
			kube_reports_internal.letters(array_agg(CASE WHEN l.new_status IS NULL
				AND l.origin NOT IN (SELECT s.origin FROM stored s) THEN 'r' END::"char")),
			kube_reports_internal.packed(array_agg(CASE WHEN l.old_status IS NOT NULL OR l.first_seen <> l.at
				THEN l.first_seen END)),
			kube_reports_internal.packed(array_agg(l.old_since))
		FROM lacking l JOIN drawn d ON d.origin = l.origin
		GROUP BY l.origin, l.at;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.mend_history(integer, text[], text[])
	IS 'appends events to the history of some reports of a lane, so that the last events match the present results. '
		'The caller holds the lane''s lock';

CREATE FUNCTION kube_reports_internal.origins_of(cluster_id integer, type_id integer, namespaces text[], names text[])
	RETURNS bigint[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
BEGIN
	RETURN ARRAY(SELECT g.id
		FROM unnest(namespaces, names) k(namespace, name)
			CROSS JOIN LATERAL (SELECT g.id FROM kube_reports_internal.origin g
				WHERE g.cluster_id = origins_of.cluster_id AND g.resource_type = type_id AND g.namespace = k.namespace
					AND g.name = k.name LIMIT 1) g);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.origins_of(integer, integer, text[], text[])
	IS 'the origins of reports of a cluster and type; a report without an origin has no row';

-- Removes rows whose origin does not exist: no report refers to them.  History has no key: the same rows may have been
-- loaded twice.
CREATE FUNCTION kube_reports_internal.remove_strays() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	DELETE FROM kube_reports_internal.result r
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.origin g WHERE g.id = r.origin);
	DELETE FROM kube_reports_internal.result_since s
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.origin g WHERE g.id = s.origin);
	DELETE FROM kube_reports_internal.report_change c
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.origin g WHERE g.id = c.origin);
	DELETE FROM kube_reports_internal.report_change c
		USING kube_reports_internal.repeated_history() r
		WHERE r.copy > 1 AND c.tableoid = r.partition AND c.ctid = r.place;
	-- Folding has passed the mark: older deltas were loaded from a dump, and their counts are folded already.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	DELETE FROM kube_reports_internal.rollup_delta d
		USING kube_reports_internal.rollup_mark m WHERE d.xid < m.mark;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remove_strays()
	IS 'removes results, times of results and history without an origin, all but one of equal rows '
		'of history, and deltas below the fold mark';

-- Results that are derived from a document include all of its changes.  If some of these changes still waited, a later
-- step would add events about them to history, behind events with newer versions.  So these changes come first.  They
-- become one batch, whose events have one time: changes that are more than a second older or newer become another
-- batch, in a transaction of its own, because a transaction with several batches of new texts can deadlock.  Parts of a
-- large report that has been begun are transactions of their own, too.
CREATE FUNCTION kube_reports_internal.apply_waiting(lane integer, namespaces text[], names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	begun		record;
	batch		record;
BEGIN
	-- Wait for sessions that apply pending results of these reports.
	PERFORM FROM kube_reports_internal.result_pending p
		WHERE p.lane = apply_waiting.lane AND p.namespace = ANY (namespaces) AND p.name = ANY (names)
		ORDER BY p.namespace, p.name FOR UPDATE;
	IF NOT FOUND THEN
		RETURN true;
	END IF;
	SELECT p.namespace, p.name INTO begun
		FROM unnest(namespaces, names) k(namespace, name)
			JOIN kube_reports_internal.result_pending p
				ON p.lane = apply_waiting.lane AND p.namespace = k.namespace AND p.name = k.name
		WHERE p.last IS NOT NULL ORDER BY p.first LIMIT 1;
	IF FOUND THEN
		PERFORM kube_reports_internal.apply_pending(apply_waiting.lane, begun.namespace, begun.name);
		RETURN false;
	END IF;
	SELECT array_agg(w.namespace ORDER BY w.last) FILTER (WHERE w.next) AS namespaces,
			array_agg(w.name ORDER BY w.last) FILTER (WHERE w.next) AS names,
			array_agg(w.first ORDER BY w.last) FILTER (WHERE w.next) AS firsts,
			array_agg(w.last ORDER BY w.last) FILTER (WHERE w.next) AS lasts,
			bool_and(w.next) AS complete
		INTO batch
		FROM (SELECT c.*, c.at - min(c.at) OVER () <= interval '1 second' AS next
			FROM (SELECT p.namespace, p.name, c.first, c.last,
					(SELECT g.at FROM kube_reports_internal.change g
						WHERE g.lane = apply_waiting.lane AND g.version = c.last LIMIT 1) AS at
				FROM unnest(namespaces, names) k(namespace, name)
					JOIN kube_reports_internal.result_pending p
						ON p.lane = apply_waiting.lane AND p.namespace = k.namespace AND p.name = k.name
					CROSS JOIN LATERAL (SELECT min(c.version) AS first, max(c.version) AS last
						FROM kube_reports_internal.change c
						WHERE c.lane = apply_waiting.lane AND c.namespace = k.namespace AND c.name = k.name
							AND c.version >= p.first) c
				WHERE c.last IS NOT NULL) c) w;
	IF batch.names IS NULL THEN
		RETURN true;
	END IF;
	PERFORM kube_reports_internal.apply_results(apply_waiting.lane, batch.namespaces, batch.names, batch.firsts,
		batch.lasts);
	DELETE FROM kube_reports_internal.result_pending p
		USING unnest(batch.namespaces, batch.names) k(namespace, name)
		WHERE p.lane = apply_waiting.lane AND p.namespace = k.namespace AND p.name = k.name;
	RETURN batch.complete;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.apply_waiting(integer, text[], text[])
	IS 'updates results of some reports of a lane from the changes that wait in result_pending; false: a later '
		'transaction must go on. The caller holds the lane''s lock, and sets the times of evaluation';

CREATE FUNCTION kube_reports_internal.rebuild_step(lane integer, max_objects integer DEFAULT 100) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	target		kube_reports_internal.derivation;
	done		record;
	step		record;
BEGIN
	-- The snapshot must show what another session repaired while this session waited.
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lane(rebuild_step.lane);
	SELECT * INTO target FROM kube_reports_internal.derivation_of(rebuild_step.lane);
	SELECT b.namespace, b.name, b.restoring INTO done FROM kube_reports_internal.result_rebuild b
		WHERE b.lane = rebuild_step.lane;
	IF NOT FOUND OR target.cluster_id IS NULL THEN
		DELETE FROM kube_reports_internal.result_rebuild b WHERE b.lane = rebuild_step.lane;
		RETURN false;
	END IF;
	-- Stored reports, and deleted reports that still have results.
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
				(SELECT g.namespace, g.name FROM kube_reports_internal.origin g
					WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
						AND (g.namespace, g.name) > (done.namespace, done.name)
					ORDER BY g.namespace, g.name LIMIT max_objects)) u
			ORDER BY u.namespace, u.name LIMIT max_objects) k;
	IF step.count = 0 THEN
		DELETE FROM kube_reports_internal.result_rebuild b WHERE b.lane = rebuild_step.lane;
		RETURN false;
	END IF;
	IF NOT kube_reports_internal.apply_waiting(rebuild_step.lane, step.namespaces, step.names) THEN
		RETURN true;
	END IF;
	-- Restored rows are as right as the rows of the dumped store, and history continues where the dump ended.
	IF NOT done.restoring THEN
		PERFORM kube_reports_internal.mend_rows(rebuild_step.lane, step.namespaces, step.names);
	END IF;
	PERFORM kube_reports_internal.apply_results(rebuild_step.lane, step.namespaces, step.names,
		array_fill(NULL::bigint, ARRAY[step.count::integer]), array_fill(NULL::bigint, ARRAY[step.count::integer]));
	IF NOT done.restoring THEN
		PERFORM kube_reports_internal.mend_history(rebuild_step.lane, step.namespaces, step.names);
	END IF;
	PERFORM kube_reports_internal.date_reports(target, step.namespaces, step.names);
	UPDATE kube_reports_internal.result_rebuild b SET namespace = step.last_namespace, name = step.last_name
		WHERE b.lane = rebuild_step.lane;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_step(integer, integer)
	IS 'derives the results of the next reports of a lane again, as one write of the lane; false if the lane is done';

-- The functions below compare counts, with the deltas that are not folded yet, with the results in one snapshot, also
-- while others write.  rebuild_counts() calls them.

-- Differences of the current counts are appended as deltas without a day.  Differences of the counts by day are
-- corrected in the rows of their last day.
CREATE FUNCTION kube_reports_internal.rebuild_rollups() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today		date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
	WITH wrong AS MATERIALIZED (
		SELECT w.* FROM kube_reports_internal.wrong_counts() w
	), new_delta AS (
		INSERT INTO kube_reports_internal.rollup_delta (cluster_id, namespace, kind, criteria, statuses,
			native_statuses, counts)
			SELECT w.cluster_id, w.namespace, w.kind, array_agg(w.criterion), array_agg(w.status),
				array_agg(w.native_status),
				array_agg(w.expected - w.found)
			FROM wrong w WHERE w.expected <> w.found
			GROUP BY w.cluster_id, w.namespace, w.kind
	), base AS (
		-- Each count needs an id, also if it has never been folded.
		INSERT INTO kube_reports_internal.rollup AS r (cluster_id, namespace, criterion, kind,
			status, native_status, count)
			SELECT w.cluster_id, w.namespace, w.criterion, w.kind, w.status, w.native_status, 0 FROM wrong w
				WHERE w.expected <> w.daily
			ON CONFLICT (cluster_id, namespace, criterion, kind, status, native_status) DO UPDATE SET count = r.count
			RETURNING r.id, r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status
	)
	INSERT INTO kube_reports_internal.rollup_daily (rollup, day, count)
		SELECT b.id, greatest(today, l.day), coalesce(l.count, 0) + w.expected - w.daily
		FROM wrong w JOIN base b ON (b.cluster_id, b.namespace, b.criterion, b.kind, b.status, b.native_status)
				= (w.cluster_id, w.namespace, w.criterion, w.kind, w.status, w.native_status)
			LEFT JOIN LATERAL (SELECT d.day, d.count FROM kube_reports_internal.rollup_daily d WHERE d.rollup = b.id
				ORDER BY d.day DESC LIMIT 1) l ON true
		ON CONFLICT ON CONSTRAINT rollup_daily_pkey DO UPDATE SET count = excluded.count;
	-- Without a row in rollup, it is unknown what these rows counted.
	DELETE FROM kube_reports_internal.rollup_daily d
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.rollup r WHERE r.id = d.rollup);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_rollups()
	IS 'corrects current counts and the counts of today';

CREATE FUNCTION kube_reports_internal.rebuild_policies() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM kube_reports_internal.rollup_policy p
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.criterion k WHERE k.id = p.criterion
		AND k.policy_id = p.policy);
	INSERT INTO kube_reports_internal.rollup_policy AS p (cluster_id, namespace, policy, criterion, pass,
		warn, fail, error, skip)
		SELECT w.cluster_id, w.namespace, w.policy, min(w.criterion),
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'p'), 0),
				coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'w'), 0),
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'f'), 0),
				coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'e'), 0),
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 's'), 0)
		FROM kube_reports_internal.wrong_policies() w
		GROUP BY w.cluster_id, w.namespace, w.policy
		ON CONFLICT ON CONSTRAINT rollup_policy_pkey DO UPDATE
			SET pass = p.pass + excluded.pass, warn = p.warn + excluded.warn, fail = p.fail + excluded.fail,
				error = p.error + excluded.error,
				skip = p.skip + excluded.skip;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_policies()
	IS 'corrects the counts by policy and namespace';

CREATE FUNCTION kube_reports_internal.rebuild_scores() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today		date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
	WITH wrong AS MATERIALIZED (
		SELECT w.cluster_id, w.namespace, w.source, w.category, w.severity,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'p'), 0) AS pass,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'w'), 0) AS warn,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'f'), 0) AS fail,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'e'), 0) AS error,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 's'), 0) AS skip,
			coalesce(sum(w.expected - w.found) FILTER (WHERE w.status = 'x'), 0) AS excluded
		FROM kube_reports_internal.wrong_scores() w
		GROUP BY w.cluster_id, w.namespace, w.source, w.category, w.severity
	)
	INSERT INTO kube_reports_internal.score_daily (cluster_id, day, namespace, source, category, severity, pass, warn,
		fail, error, skip, excluded)
		SELECT w.cluster_id, greatest(today, l.day), w.namespace, w.source, w.category, w.severity,
			w.pass + coalesce(l.pass, 0), w.warn + coalesce(l.warn, 0), w.fail + coalesce(l.fail, 0),
				w.error + coalesce(l.error, 0),
			w.skip + coalesce(l.skip, 0), w.excluded + coalesce(l.excluded, 0)
		FROM wrong w
			LEFT JOIN LATERAL (SELECT s.* FROM kube_reports_internal.score_daily s
				WHERE (s.cluster_id, s.namespace, s.source, s.category, s.severity) = (w.cluster_id, w.namespace,
					w.source, w.category, w.severity)
				ORDER BY s.day DESC LIMIT 1) l ON true
		ON CONFLICT ON CONSTRAINT score_daily_pkey DO UPDATE
			SET pass = excluded.pass, warn = excluded.warn, fail = excluded.fail,
				error = excluded.error, skip = excluded.skip,
				excluded = excluded.excluded;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_scores()
	IS 'corrects the scores of today';

-- The session holds the folding lock, so that of two concurrent rebuilds the second one finds no differences.
CREATE FUNCTION kube_reports_internal.rebuild_counts() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	PERFORM kube_reports_internal.rebuild_rollups();
	PERFORM kube_reports_internal.rebuild_policies();
	PERFORM kube_reports_internal.rebuild_scores();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_counts()
	IS 'corrects the current counts and the counts of today from the results, in each table in which they are wrong. '
		'It waits for the folding lock and for no other writer, and holds the lock until its transaction ends';

CREATE FUNCTION kube_reports_internal.set_rebuilding(rebuilding boolean) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	UPDATE kube_reports_internal.rollup_mark m
		SET rebuilding = set_rebuilding.rebuilding, attempts = 0, retry_at = '-infinity'
		WHERE m.rebuilding <> set_rebuilding.rebuilding OR m.attempts > 0;
END;
COMMENT ON FUNCTION kube_reports_internal.set_rebuilding(boolean)
	IS 'notes that a rebuild() has begun, or that it has corrected the counts';

-- Lanes come first, also those that another proxy derives: the results of a lane that is put aside may stay wrong for
-- long, so the counts do not wait for it.  The folding lock comes before the row's lock, as in a fold; a rebuild() that
-- is about to end holds it.
-- This reads all results.  In a store for which that takes longer than a step of upkeep may take, the step is canceled:
-- the next attempt is put off, because counts are not folded during an attempt.
CREATE FUNCTION kube_reports_internal.end_rebuild() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.rollup_mark m
			WHERE m.rebuilding AND m.retry_at <= clock_timestamp())
		OR EXISTS (SELECT FROM kube_reports_internal.result_rebuild b WHERE b.attempts = 0)
		OR NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock()) THEN
		RETURN false;
	END IF;
	-- Another session may have finished it before this one had the lock.
	PERFORM FROM kube_reports_internal.rollup_mark m WHERE m.rebuilding FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	BEGIN
		PERFORM kube_reports_internal.remove_strays();
		PERFORM kube_reports_internal.rebuild_counts();
		PERFORM kube_reports_internal.set_rebuilding(false);
	EXCEPTION WHEN query_canceled THEN
		UPDATE kube_reports_internal.rollup_mark m
			SET attempts = m.attempts + 1, retry_at = kube_reports_internal.next_attempt(m.attempts);
	END;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.end_rebuild()
	IS 'finishes a rebuild() that was interrupted, when no lane waits any more: does what rebuild() does besides the '
		'lanes. When it is canceled, it is tried again after minutes. False: there is none, it is not time, or another '
		'session folds or finishes it';

-- Rebuilds everything in this transaction, for callers that hold the store's lock.
CREATE FUNCTION kube_reports_internal.rebuild_queued() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	lane		integer;
BEGIN
	-- In the SQL variant, the upkeep of a proxy does this work.
	IF kube_reports_internal.variant() <> 'c' THEN
		RETURN;
	END IF;
	FOR lane IN SELECT b.lane FROM kube_reports_internal.result_rebuild b ORDER BY b.lane LOOP
		WHILE kube_reports_internal.rebuild_step(lane, 500) LOOP
			NULL;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.rebuild_queued() IS 'derives the results of all lanes again that wait for it';

CREATE FUNCTION kube_reports_internal.remake_results(type_id integer, at_once boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT l.id FROM kube_reports_internal.lane l
		WHERE l.resource_type = type_id
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '';
	IF at_once THEN
		PERFORM kube_reports_internal.rebuild_queued();
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.remake_results(integer, boolean)
	IS 'derives the results of a type again after its mapping changed, at once or step by step by upkeep; the caller '
		'holds the store lock';

-- Prepares restored rows: deltas that are not folded yet are added to the counts of their day.  The current counts
-- restart at 0, because the results are derived again.
CREATE FUNCTION kube_reports_internal.restore_results() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	today		date;
	unfolded	record;
BEGIN
	-- Wait for a fold in progress: its deltas must not be added to the counts by day a second time.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.folding_lock());
	-- Delete also results and deltas of this server: triggers may have made them from a part of the restored rows.
	DELETE FROM kube_reports_internal.result;
	DELETE FROM kube_reports_internal.result_pending;
	UPDATE kube_reports_internal.rollup_mark SET mark = '0';
	INSERT INTO kube_reports_internal.rollup (cluster_id, namespace, criterion, kind, status, native_status, count)
		SELECT DISTINCT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, 0
			FROM kube_reports_internal.unfolded('0') d
		ON CONFLICT (cluster_id, namespace, criterion, kind, status, native_status) DO NOTHING;
	FOR today IN SELECT DISTINCT d.day FROM kube_reports_internal.unfolded('0') d
		WHERE d.day IS NOT NULL ORDER BY d.day LOOP
		SELECT array_agg(s.id) AS rollups, array_agg(s.count) AS counts INTO unfolded
			FROM (SELECT r.id, sum(d.count)::bigint AS count
				FROM kube_reports_internal.unfolded('0') d
					JOIN kube_reports_internal.rollup r ON (r.cluster_id, r.namespace, r.criterion, r.kind,
						r.status, r.native_status)
						= (d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status)
				WHERE d.day = today
				GROUP BY r.id) s;
		PERFORM kube_reports_internal.add_daily(today, unfolded.rollups, unfolded.counts);
	END LOOP;
	DELETE FROM kube_reports_internal.rollup_delta;
	UPDATE kube_reports_internal.rollup r SET count = 0 WHERE r.count <> 0;
	DELETE FROM kube_reports_internal.rollup_policy;
	INSERT INTO kube_reports_internal.result_rebuild (lane, restoring)
		SELECT l.id, true FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
			WHERE t.results = 'current'
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '', restoring = true;
	IF kube_reports.setting('text_search') = 'on' THEN
		PERFORM kube_reports.enable_text_search();
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.restore_results()
	IS 'completes the daily counts after a restore, and queues all results to be derived again; called by '
		'after_restore(), which holds the store lock';

CREATE PROCEDURE kube_reports.rebuild()
LANGUAGE plpgsql
AS $$
DECLARE
	next_lane	integer := 0;
BEGIN
	CALL kube_reports_internal.require_own_transactions('rebuild');
	-- Include lanes of types without results: none of their rows may be left.  Lock the store first: a session that
	-- derives results again with the store locked holds rows of result_rebuild.
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.make_own_rows();
	INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT l.id FROM kube_reports_internal.lane l ORDER BY l.id
		ON CONFLICT ON CONSTRAINT result_rebuild_pkey DO UPDATE SET namespace = '', name = '';
	-- If this call is interrupted, upkeep finishes all of it.
	PERFORM kube_reports_internal.set_rebuilding(true);
	COMMIT;
	PERFORM kube_reports_internal.remove_strays();
	COMMIT;
	IF NOT kube_reports_internal.has_engine() THEN
		RAISE NOTICE 'results are made again by upkeep of the next proxy'
			USING HINT = 'The view kube_reports.pending tells how many types wait for it.';
		next_lane := NULL;
	END IF;
	WHILE next_lane IS NOT NULL LOOP
		SELECT pg_catalog.min(b.lane) INTO next_lane FROM kube_reports_internal.result_rebuild b
			WHERE b.lane OPERATOR(pg_catalog.>=) next_lane;
		EXIT WHEN next_lane IS NULL;
		IF NOT kube_reports_internal.rebuild_step(next_lane) THEN
			next_lane := next_lane OPERATOR(pg_catalog.+) 1;
		END IF;
		COMMIT;
	END LOOP;
	PERFORM kube_reports_internal.rebuild_counts();
	IF kube_reports_internal.has_engine() THEN
		PERFORM kube_reports_internal.set_rebuilding(false);
	END IF;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports.rebuild()
	IS 'derives everything that verify() compares from the documents, while others write. It commits after each step '
		'of few reports, after removing what belongs to no report, and after the counts. Counts of past days stay as '
		'they are; to history it adds what is missing between the newest event of a result and the result. When it is '
		'interrupted, upkeep of proxies finishes it; another call begins anew. Raises 25001 in a transaction block';
