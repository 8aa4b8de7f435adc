-- derive.sql
--	  Keeps results, history and counts in step with the documents.
--
-- Every writer (the API, DML by the owner, unregister(), sweeps) logs into change and then calls record_results() in
-- the same transaction.  The log has the old documents, object has the new ones, and the C function computes the
-- difference.  The caller holds the lock of the lane or of the store, so that no other transaction changes results of
-- the lane's reports.  Results of large reports that are written through the API follow in later transactions
-- (result_pending).  Such a transaction locks the report's row of result_pending and no lane.
--
-- Rows that lanes share are inserted in one order to avoid deadlocks: actor, detail, subject, criterion, and by id in
-- each table.  PostgreSQL runs data-modifying parts of WITH that the statement does not read from last to first, so
-- new_criterion is the first part in each statement.  If each transaction has one batch, writers that insert the same
-- new row wait for each other, but never in a circle.
--
-- In the SQL variant a proxy computes the ids, and clusters share rows.  So result_difference() computes each id again:
-- no proxy can store a text under the id of another text.  A stored subject is used only if it belongs to the cluster.
--
-- A transaction that writes a second batch may fail with 40P01.  No order of locks prevents this error: the contents of
-- the second batch are unknown while the new rows of the first batch stay locked until commit.  A common lock for all
-- writers of new rows would put the writers of all lanes into one queue, because nearly each report has a new subject.
-- So proxies and merges try again.  A transaction that begins with lock_store(), as DML does, excludes every other
-- writer and never gets 40P01.

CREATE FUNCTION kube_reports_internal.status_name(status "char") RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE status WHEN 'p' THEN 'pass' WHEN 'w' THEN 'warn' WHEN 'f' THEN 'fail' WHEN 'e' THEN 'error'
	WHEN 's' THEN 'skip' END;
COMMENT ON FUNCTION kube_reports_internal.status_name("char")
	IS 'a status by its letter: pass, warn, fail, error, skip; null for none';

CREATE TYPE kube_reports_internal.derivation AS (
	cluster_id	integer,
	resource_type integer,
	mapping_id	bigint,
	mapping		kube_reports.report,
	restoring	boolean,
	usual		boolean
);
COMMENT ON TYPE kube_reports_internal.derivation
	IS 'the facts about a lane that record_results() reads; usual: the results of the lane are not being derived '
		'again, and no past state is being imported';

CREATE FUNCTION kube_reports_internal.derivation_of(lane integer) RETURNS SETOF kube_reports_internal.derivation
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT l.cluster_id, l.resource_type, CASE WHEN t.results = 'current' THEN t.mapping_id END, t.mapping,
		b.restoring IS TRUE,
		b.lane IS NULL AND NOT EXISTS (SELECT FROM kube_reports_internal.import_time i WHERE i.lane = l.id)
	FROM kube_reports_internal.lane l JOIN kube_reports.resource_type t ON t.id = l.resource_type
		LEFT JOIN kube_reports_internal.result_rebuild b ON b.lane = l.id
	WHERE l.id = $1;
END;
COMMENT ON FUNCTION kube_reports_internal.derivation_of(integer)
	IS 'the facts about a lane, one row; mapping_id null: results of the type are not current. No row: no such lane';

-- The arguments are the keys of the reports, and the first and last versions of their changes.  A null version means
-- that nothing changed: the results are derived again from the documents, and history stays as it is.  One statement
-- sees one snapshot and can use the extracted results for every table.
CREATE FUNCTION kube_reports_internal.apply_results(lane integer, namespaces text[], names text[],
	firsts bigint[], lasts bigint[],
		least_key bigint DEFAULT -9223372036854775808, greatest_key bigint DEFAULT 9223372036854775807,
		prepared kube_reports_internal.prepared_results[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept and may have been made for an empty store: stored rows are looked up one by one by index, whatever
-- the statistics say, and the statement's own rows are hashed, although callers turn that off.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = on
SET jit = off
AS $$
DECLARE
	written_at	timestamptz := coalesce((SELECT i.at FROM kube_reports_internal.import_time i
		WHERE i.lane = apply_results.lane),
		(SELECT c.at FROM kube_reports_internal.change c WHERE c.lane = apply_results.lane
		AND c.version = (SELECT max(l.version) FROM unnest(lasts) l(version)) LIMIT 1),
			kube_reports_internal.lane_time(apply_results.lane));
	today		date := (written_at AT TIME ZONE 'UTC')::date;
	settle_window interval := kube_reports.setting('settle_window')::interval;
	-- After a restore, results without a row may disappear, and results that come back are not new.
	restoring	boolean := (SELECT b.restoring FROM kube_reports_internal.result_rebuild b
		WHERE b.lane = apply_results.lane);
	target		record;
BEGIN
	SELECT d.cluster_id, d.resource_type, d.mapping_id, d.mapping INTO target
		FROM kube_reports_internal.derivation_of(apply_results.lane) d;
	PERFORM kube_reports.make_history(written_at);
	IF restoring THEN
		PERFORM kube_reports_internal.count_restored(apply_results.lane, namespaces, names, firsts);
	END IF;

	WITH entry AS MATERIALIZED (
		SELECT k.namespace, k.name, k.first IS NULL AS again, k.last AS version, k.prepared, w.actor,
			coalesce(kube_reports_internal.actor_id(w.actor), 0) AS actor_id,
			b.old_metadata, b.old_body, CASE WHEN n.found THEN n.old_metadata ELSE o.metadata END AS metadata,
			CASE WHEN n.found THEN n.old_body ELSE o.body END AS body,
			g.id IS NOT NULL AS known, coalesce(g.id, nextval('kube_reports_internal.origin_id_seq')) AS origin,
			coalesce(g.first_seen, written_at) AS origin_first_seen
		FROM unnest(namespaces, names, firsts, lasts, prepared) k(namespace, name, first, last, prepared)
			LEFT JOIN LATERAL (SELECT c.old_metadata, c.old_body FROM kube_reports_internal.change c
				WHERE c.lane = apply_results.lane AND c.version = k.first LIMIT 1) b ON true
			LEFT JOIN LATERAL (SELECT c.actor FROM kube_reports_internal.change c
				WHERE c.lane = apply_results.lane AND c.version = k.last LIMIT 1) w ON true
			-- If the report has changed after the last version, the state at that version is the old document of the
			-- next change.
			LEFT JOIN LATERAL (SELECT true AS found, c.old_metadata, c.old_body FROM kube_reports_internal.change c
				WHERE c.lane = apply_results.lane AND c.namespace = k.namespace
					AND c.name = k.name AND c.version > k.last
				ORDER BY c.version LIMIT 1) n ON true
			LEFT JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o ON true
			LEFT JOIN LATERAL (SELECT g.id, g.first_seen FROM kube_reports_internal.origin g
				WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
					AND g.namespace = k.namespace AND g.name = k.name LIMIT 1) g ON true
	), whole_difference AS MATERIALIZED (
		SELECT e.origin, e.known, e.again, e.origin_first_seen, e.namespace,
			e.name AS origin_name, e.version, e.actor_id,
			e.body IS NULL AS deleted, d.*
		FROM entry e CROSS JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id,
			target.mapping, target.cluster_id,
			e.old_metadata, e.old_body, e.metadata, e.body, e.prepared) d
	), difference AS NOT MATERIALIZED (
		SELECT d.* FROM whole_difference d WHERE d.key BETWEEN least_key AND greatest_key
	), wanted AS MATERIALIZED (
		-- The results in the documents, each with its stored row, if any.
		SELECT d.origin, d.known, d.again, d.origin_first_seen, d.namespace, d.origin_name, d.version, d.actor_id,
			d.deleted, d.key, d.wanted,
			d.old_status, d.criterion, d.subject, d.kind, d.status, d.native_status, d.score, d.detail,
			r.place, r.criterion AS row_criterion, r.subject AS row_subject, r.status AS row_status,
				r.native_status AS row_native_status,
			r.first_seen AS row_first_seen, r.since AS row_since,
			r.place IS NOT NULL AND (r.criterion, r.subject, r.detail, r.status, r.native_status, r.score)
				<> (d.criterion, d.subject, d.detail, d.status, d.native_status, d.score) AS differs
		FROM difference d
			LEFT JOIN LATERAL (SELECT r.ctid AS place, r.* FROM kube_reports_internal.result r
				WHERE d.known AND r.origin = d.origin AND r.key = d.key LIMIT 1) r ON true
		UNION ALL
		-- When results are derived again, stored rows that are not in the documents are surplus.
		SELECT e.origin, true, true, e.origin_first_seen, e.namespace, e.name, NULL, 0, e.body IS NULL, r.key, false,
			NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
			r.ctid, r.criterion, r.subject, r.status, r.native_status, r.first_seen, r.since, true
		FROM entry e JOIN LATERAL (SELECT r.ctid, r.* FROM kube_reports_internal.result r
				WHERE r.origin = e.origin OFFSET 0) r ON true
			LEFT JOIN difference d ON d.origin = r.origin AND d.key = r.key
		WHERE e.again AND e.known AND d.key IS NULL
	), unsettled AS MATERIALIZED (
		-- Read once for a report, not once for each result.
		SELECT true AS there, c.partition, c.place, c.origin, c.settles_at, e.*
		FROM (SELECT DISTINCT w.origin FROM wanted w
				WHERE w.known AND w.wanted AND NOT w.again AND w.place IS NULL AND w.old_status IS NULL) w
			CROSS JOIN LATERAL (SELECT c.tableoid AS partition, c.ctid AS place, c.*
				FROM kube_reports_internal.report_change c
				WHERE c.origin = w.origin AND c.settles_at > written_at
					AND c.at > written_at - interval '1 day' OFFSET 0) c
			CROSS JOIN LATERAL kube_reports_internal.unpacked_changes(c.ids, c.criterion, c.subject, c.old_statuses,
				c.new_statuses, c.gone_with, c.first_seen, c.old_since) e
	), compared AS MATERIALIZED (
		-- The planner joins by a hash table in a full join, here and below, however few rows it expects.
		SELECT g.*, coalesce(w.there, false) AND g.new_status IS NULL AS back
		FROM (SELECT true AS there, w.origin, w.key FROM wanted w
				WHERE w.known AND w.wanted AND NOT w.again AND w.place IS NULL AND w.old_status IS NULL) w
			FULL JOIN unsettled g ON g.origin = w.origin AND g.key = w.key
		WHERE coalesce(g.there, false)
	), taken_back AS MATERIALIZED (
		-- History that was loaded twice has the same event twice.
		SELECT DISTINCT ON (c.origin, c.key) c.origin, c.key, c.first_seen, c.old_since, c.old_status
		FROM compared c WHERE c.back ORDER BY c.origin, c.key, c.old_since DESC
	), remaining AS MATERIALIZED (
		SELECT c.partition, c.place, max(c.settles_at) FILTER (WHERE NOT c.back AND c.new_status IS NULL) AS settles_at,
			array_agg(c.key) FILTER (WHERE NOT c.back) AS keys,
			array_agg(c.criterion) FILTER (WHERE NOT c.back) AS criteria,
			array_agg(c.subject) FILTER (WHERE NOT c.back) AS subjects,
			array_agg(c.old_status) FILTER (WHERE NOT c.back) AS old_statuses,
			array_agg(c.new_status) FILTER (WHERE NOT c.back) AS new_statuses,
			array_agg(c.gone_with) FILTER (WHERE NOT c.back) AS gone_with,
			array_agg(c.first_seen) FILTER (WHERE NOT c.back) AS first_seen,
			array_agg(c.old_since) FILTER (WHERE NOT c.back) AS old_since
		FROM compared c GROUP BY c.partition, c.place HAVING bool_or(c.back)
	), gone_history AS (
		DELETE FROM kube_reports_internal.report_change c USING remaining r
			WHERE r.keys IS NULL AND c.tableoid = r.partition AND c.ctid = r.place
	), cut_history AS (
		UPDATE kube_reports_internal.report_change c
			SET settles_at = r.settles_at, criterion = kube_reports_internal.common(r.criteria),
				subject = kube_reports_internal.common(r.subjects),
				ids = kube_reports_internal.joined_ids(r.keys, r.criteria, r.subjects),
				old_statuses = kube_reports_internal.letters(r.old_statuses),
				new_statuses = kube_reports_internal.letters(r.new_statuses),
				gone_with = kube_reports_internal.letters(r.gone_with),
				first_seen = kube_reports_internal.packed(r.first_seen),
				old_since = kube_reports_internal.packed(r.old_since)
			FROM remaining r
			WHERE r.keys IS NOT NULL AND c.tableoid = r.partition AND c.ctid = r.place
	), added AS MATERIALIZED (
		SELECT w.origin, w.known, w.again, w.origin_first_seen, w.namespace, w.origin_name,
			w.version, w.actor_id, w.key,
			w.criterion, w.subject, w.kind, w.status, w.native_status, w.score, w.detail,
			coalesce(t.old_status, w.old_status) AS was,
			coalesce(t.first_seen, s.first_seen, CASE WHEN w.again
				OR w.old_status IS NOT NULL THEN w.origin_first_seen END, written_at) AS first_seen,
			CASE WHEN t.old_status = w.status THEN t.old_since
				WHEN w.again OR w.old_status = w.status THEN coalesce(s.since, w.origin_first_seen)
				ELSE written_at END AS since,
			coalesce(t.first_seen, s.first_seen, w.origin_first_seen) AS was_first_seen,
			coalesce(t.old_since, s.since, w.origin_first_seen) AS was_since
		FROM (SELECT w.* FROM wanted w WHERE w.wanted AND w.place IS NULL) w
			FULL JOIN taken_back t ON t.origin = w.origin AND t.key = w.key
			LEFT JOIN LATERAL (SELECT s.first_seen, s.since FROM kube_reports_internal.result_since s
				WHERE w.known AND (w.again OR w.old_status IS NOT NULL) AND s.origin = w.origin
					AND s.key = w.key LIMIT 1) s ON true
		WHERE coalesce(w.wanted, false)
	), staying AS MATERIALIZED (
		-- For reports that lose results: the subjects of which a report still has results, either unchanged results or
		-- results in the document.
		SELECT DISTINCT r.origin, r.subject
		FROM (SELECT DISTINCT w.origin FROM wanted w WHERE w.known AND NOT w.wanted AND NOT w.again AND NOT w.deleted) w
			CROSS JOIN LATERAL (SELECT r.origin, r.subject, r.key FROM kube_reports_internal.result r
				WHERE r.origin = w.origin OFFSET 0) r
		WHERE (r.origin, r.key) NOT IN (SELECT d.origin, d.key FROM whole_difference d)
		UNION
		SELECT d.origin, d.subject FROM whole_difference d WHERE d.wanted
	), history AS MATERIALIZED (
		SELECT a.version, a.origin, a.key, a.criterion, a.subject, a.actor_id, a.was AS old_status,
			a.status AS new_status, a.namespace,
				CASE WHEN a.was IS NOT NULL THEN a.was_first_seen END AS first_seen,
				CASE WHEN a.was IS NOT NULL THEN a.was_since END AS old_since, NULL::timestamptz AS settles_at,
					NULL::"char" AS gone_with
			FROM added a WHERE NOT a.again AND a.was IS DISTINCT FROM a.status
		UNION ALL
		SELECT w.version, w.origin, w.key, w.criterion, w.subject, w.actor_id, w.row_status, w.status, w.namespace,
			w.row_first_seen, w.row_since, NULL, NULL
			FROM wanted w WHERE NOT w.again AND w.wanted AND w.place IS NOT NULL AND w.row_status <> w.status
		UNION ALL
		SELECT w.version, w.origin, w.key, coalesce(w.row_criterion, w.criterion),
			coalesce(w.row_subject, w.subject), w.actor_id,
				coalesce(w.row_status, w.old_status), NULL, w.namespace,
				coalesce(w.row_first_seen, s.first_seen, w.origin_first_seen),
					coalesce(w.row_since, s.since, w.origin_first_seen),
				written_at + settle_window,
				CASE WHEN w.deleted THEN 'r'
					WHEN (w.origin, coalesce(w.row_subject, w.subject)) NOT IN (SELECT s.origin,
						s.subject FROM staying s)
						AND w.origin IN (SELECT s.origin FROM staying s) THEN 's' END::"char"
			FROM wanted w
				LEFT JOIN LATERAL (SELECT s.first_seen, s.since FROM kube_reports_internal.result_since s
					WHERE restoring IS NOT NULL AND w.place IS NULL AND s.origin = w.origin
						AND s.key = w.key LIMIT 1) s ON true
			WHERE NOT w.again AND NOT w.wanted AND (w.place IS NOT NULL OR restoring IS NOT NULL)
	), new_origin AS (
		INSERT INTO kube_reports_internal.origin (id, first_seen, cluster_id, resource_type, namespace, name)
			SELECT DISTINCT a.origin, written_at, target.cluster_id, target.resource_type, a.namespace, a.origin_name
			FROM added a WHERE NOT a.known
	), new_criterion AS (
		INSERT INTO kube_reports_internal.criterion (id, source, policy, rule, category, severity)
			SELECT n.id, n.source, n.policy, n.rule, n.category, n.severity
			FROM (SELECT DISTINCT ON (d.criterion) d.criterion AS id, d.source, d.policy, d.rule, d.category, d.severity
				FROM difference d JOIN (SELECT i.id FROM (SELECT DISTINCT d.criterion AS id
					FROM difference d WHERE d.wanted) i
					LEFT JOIN LATERAL (SELECT true AS stored FROM kube_reports_internal.criterion c
						WHERE c.id = i.id LIMIT 1) c ON true
					WHERE c.stored IS NULL) m ON m.id = d.criterion
				WHERE d.wanted AND d.source IS NOT NULL
				ORDER BY d.criterion) n
			ON CONFLICT DO NOTHING
	), new_subject AS (
		INSERT INTO kube_reports_internal.subject AS o (id, cluster_id, api_version, kind, namespace, name, uid)
			SELECT n.id, target.cluster_id, n.api_version, n.kind,
				n.subject_namespace, n.subject_name, n.subject_uid
			FROM (SELECT DISTINCT ON (d.subject) d.subject AS id, d.api_version, d.kind, d.subject_namespace,
					d.subject_name, d.subject_uid
				FROM difference d JOIN (SELECT i.id FROM (SELECT DISTINCT d.subject AS id
					FROM difference d WHERE d.wanted) i
					LEFT JOIN LATERAL (SELECT true AS stored FROM kube_reports_internal.subject s
						WHERE s.id = i.id AND s.cluster_id = target.cluster_id
							AND s.unused_since IS NULL LIMIT 1) s ON true
					WHERE s.stored IS NULL) m ON m.id = d.subject
				WHERE d.wanted
				ORDER BY d.subject) n
			ON CONFLICT ON CONSTRAINT subject_pkey DO UPDATE SET unused_since = NULL
				WHERE o.cluster_id = excluded.cluster_id AND o.unused_since IS NOT NULL
	), new_detail AS (
		INSERT INTO kube_reports_internal.detail (id, message, properties, exceptions)
			SELECT n.id, n.message, n.properties::jsonb, n.exceptions
			FROM (SELECT DISTINCT ON (d.detail) d.detail AS id, d.message, d.properties, d.exceptions
				FROM difference d JOIN (SELECT i.id FROM (SELECT DISTINCT d.detail AS id
					FROM difference d WHERE d.wanted) i
					LEFT JOIN LATERAL (SELECT true AS stored FROM kube_reports_internal.detail t
						WHERE t.id = i.id LIMIT 1) t ON true
					WHERE t.stored IS NULL) m ON m.id = d.detail
				WHERE d.wanted AND d.message IS NOT NULL
				ORDER BY d.detail) n
			ON CONFLICT DO NOTHING
	), new_actor AS (
		INSERT INTO kube_reports_internal.actor AS o (id, name)
			SELECT e.actor_id, e.actor
			FROM (SELECT DISTINCT e.actor_id, e.actor FROM entry e WHERE NOT e.again) e
				LEFT JOIN LATERAL (SELECT true AS stored FROM kube_reports_internal.actor a
					WHERE a.id = e.actor_id AND a.last_used >= date_trunc('month', now()) LIMIT 1) a ON true
			WHERE a.stored IS NULL AND EXISTS (SELECT FROM history h WHERE h.actor_id = e.actor_id)
			ORDER BY e.actor_id
			ON CONFLICT ON CONSTRAINT actor_pkey DO UPDATE SET last_used = now()
				WHERE o.last_used < date_trunc('month', now())
	), new_result AS (
		INSERT INTO kube_reports_internal.result (origin, key, criterion, subject, detail, first_seen, since,
			cluster_id, score, status, namespace, native_status)
			SELECT a.origin, a.key, a.criterion, a.subject, a.detail, a.first_seen, a.since, target.cluster_id,
				a.score, a.status, a.namespace,
				a.native_status
			FROM added a
	), changed_result AS (
		UPDATE kube_reports_internal.result r
			SET criterion = w.criterion, subject = w.subject, detail = w.detail, score = w.score, status = w.status,
				native_status = w.native_status,
				since = CASE WHEN w.again OR w.row_status = w.status THEN r.since ELSE written_at END
			FROM wanted w
			WHERE w.wanted AND w.differs AND r.ctid = w.place
	), gone_result AS (
		DELETE FROM kube_reports_internal.result r USING wanted w
			WHERE NOT w.wanted AND r.ctid = w.place
	), new_since AS (
		INSERT INTO kube_reports_internal.result_since AS s (origin, key, first_seen, since)
			SELECT a.origin, a.key, a.first_seen, a.since FROM added a
				WHERE NOT a.again AND (a.first_seen, a.since) <> (a.origin_first_seen, a.origin_first_seen)
			UNION ALL
			SELECT w.origin, w.key, w.row_first_seen, written_at FROM wanted w
				WHERE NOT w.again AND w.wanted AND w.place IS NOT NULL AND w.row_status <> w.status
			ON CONFLICT ON CONSTRAINT result_since_pkey DO UPDATE
				SET first_seen = excluded.first_seen, since = excluded.since
	), gone_since AS (
		DELETE FROM kube_reports_internal.result_since s
			USING (SELECT w.origin, w.key, l.place FROM wanted w
				JOIN LATERAL (SELECT s.ctid AS place FROM kube_reports_internal.result_since s WHERE s.origin = w.origin
					AND s.key = w.key LIMIT 1) l ON true
				WHERE NOT w.wanted) g
			WHERE s.ctid = g.place
	), counted AS (
		SELECT a.namespace, a.criterion, a.kind, a.status, a.native_status, a.again, 1 AS count FROM added a
		UNION ALL
		SELECT w.namespace, w.criterion, w.kind, w.status, w.native_status, w.again, 1 FROM wanted w
			WHERE w.wanted AND w.differs
		UNION ALL
		SELECT w.namespace, w.row_criterion, coalesce(s.kind, ''), w.row_status, w.row_native_status,
			w.again, -1 FROM wanted w
			LEFT JOIN LATERAL (SELECT s.kind FROM kube_reports_internal.subject s
				WHERE s.id = w.row_subject LIMIT 1) s ON true
			WHERE w.place IS NOT NULL AND (w.differs OR NOT w.wanted)
	), new_delta AS (
		INSERT INTO kube_reports_internal.rollup_delta (cluster_id, day, namespace, kind, criteria, statuses,
			native_statuses, counts)
			SELECT target.cluster_id, CASE WHEN NOT d.again OR NOT restoring THEN today END, d.namespace, d.kind,
				array_agg(d.criterion), array_agg(d.status), array_agg(d.native_status), array_agg(d.count)
			FROM (SELECT c.namespace, c.criterion, c.kind, c.status, c.native_status, c.again, sum(c.count) AS count
				FROM counted c
				GROUP BY c.namespace, c.criterion, c.kind, c.status, c.native_status, c.again
				HAVING sum(c.count) <> 0) d
			GROUP BY d.namespace, d.kind, d.again
	)
	INSERT INTO kube_reports_internal.report_change (at, version, origin, actor, settles_at, criterion, subject,
		cluster_id, namespace, ids, old_statuses, new_statuses, gone_with, first_seen, old_since)
		SELECT written_at, min(h.version), h.origin, min(h.actor_id), max(h.settles_at),
			kube_reports_internal.common(array_agg(h.criterion)), kube_reports_internal.common(array_agg(h.subject)),
			target.cluster_id, min(h.namespace),
			kube_reports_internal.joined_ids(array_agg(h.key), array_agg(h.criterion), array_agg(h.subject)),
			kube_reports_internal.letters(array_agg(h.old_status)),
			kube_reports_internal.letters(array_agg(h.new_status)),
			kube_reports_internal.letters(array_agg(h.gone_with)),
			kube_reports_internal.packed(array_agg(h.first_seen)), kube_reports_internal.packed(array_agg(h.old_since))
		FROM history h GROUP BY h.origin;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.apply_results(integer, text[], text[], bigint[], bigint[], bigint, bigint,
	kube_reports_internal.prepared_results[])
	IS 'updates results, history and counts of some reports of a lane from their documents at their last versions: '
		'the reports whose keys are in a range';

-- A dump contains counts by day, but not the results.  If a write changes or removes a restored result before the
-- result was derived again, the current counts do not include the result, so it must not be subtracted from them.  It
-- is subtracted only from the counts of the day.
CREATE FUNCTION kube_reports_internal.count_restored(lane integer, namespaces text[], names text[], firsts bigint[])
	RETURNS void
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
BEGIN
	SELECT d.cluster_id, d.resource_type, d.mapping_id, d.mapping INTO target
		FROM kube_reports_internal.derivation_of(count_restored.lane) d;
	INSERT INTO kube_reports_internal.rollup_delta (cluster_id, day, namespace, kind, criteria, statuses,
		native_statuses, counts)
		SELECT target.cluster_id, x.day, k.namespace, w.kind, array_agg(w.criterion), array_agg(w.status),
			array_agg(w.native_status), array_agg(x.count)
		FROM unnest(namespaces, names, firsts) k(namespace, name, first)
			CROSS JOIN LATERAL (SELECT c.old_metadata, c.old_body FROM kube_reports_internal.change c
				WHERE c.lane = count_restored.lane AND c.version = k.first LIMIT 1) c
			LEFT JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o ON true
			LEFT JOIN LATERAL (SELECT g.id FROM kube_reports_internal.origin g
				WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
					AND g.namespace = k.namespace AND g.name = k.name LIMIT 1) g ON true
			CROSS JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id,
				target.mapping, target.cluster_id,
				c.old_metadata, c.old_body, o.metadata, o.body) d
			JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id, target.mapping, target.cluster_id,
				NULL, NULL, c.old_metadata, c.old_body) w ON w.key = d.key
			CROSS JOIN (VALUES ((now() AT TIME ZONE 'UTC')::date, -1), (NULL, 1)) x(day, count)
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.origin = g.id AND r.key = d.key OFFSET 0)
		GROUP BY x.day, k.namespace, w.kind;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.count_restored(integer, text[], text[], bigint[])
	IS 'subtracts from the counts of the day the restored results that changed before they were derived again';

-- Most writes create reports.  Then all results are new and have no rows and no history.  This function makes the same
-- rows as apply_results(), without the lookups of old rows.
CREATE FUNCTION kube_reports_internal.apply_new_results(lane integer, target kube_reports_internal.derivation,
	written_at timestamptz, namespaces text[], names text[], versions bigint[],
	prepared kube_reports_internal.prepared_results[]) RETURNS void
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
	PERFORM kube_reports.make_history(written_at);

	WITH entry AS MATERIALIZED (
		SELECT k.namespace, k.name, k.version, k.prepared, c.actor,
			kube_reports_internal.actor_id(c.actor) AS actor_id, o.metadata, o.body,
			nextval('kube_reports_internal.origin_id_seq') AS origin
		FROM unnest(namespaces, names, versions, prepared) k(namespace, name, version, prepared)
			CROSS JOIN LATERAL (SELECT c.actor FROM kube_reports_internal.change c
				WHERE c.lane = apply_new_results.lane AND c.version = k.version LIMIT 1) c
			CROSS JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o
	), added AS MATERIALIZED (
		SELECT e.origin, e.namespace, e.name AS origin_name, e.version, e.actor, e.actor_id, d.key, d.criterion,
			d.subject, d.detail, d.kind, d.status, d.native_status, d.score,
			d.source, d.policy, d.rule, d.category, d.severity, d.api_version, d.subject_namespace,
				d.subject_name, d.subject_uid,
			d.message, d.properties, d.exceptions
		FROM entry e CROSS JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id,
			target.mapping, target.cluster_id,
			NULL, NULL, e.metadata, e.body, e.prepared) d
	), made AS MATERIALIZED (
		-- Reports with results.
		SELECT a.origin, min(a.namespace) AS namespace, min(a.origin_name) AS name, min(a.version) AS version,
			min(a.actor) AS actor, min(a.actor_id) AS actor_id, array_agg(a.key) AS keys,
			array_agg(a.criterion) AS criteria, array_agg(a.subject) AS subjects, array_agg(a.status) AS statuses
		FROM added a GROUP BY a.origin
	), new_origin AS (
		INSERT INTO kube_reports_internal.origin (id, first_seen, cluster_id, resource_type, namespace, name)
			SELECT m.origin, written_at, target.cluster_id, target.resource_type, m.namespace, m.name FROM made m
	), new_criterion AS (
		INSERT INTO kube_reports_internal.criterion (id, source, policy, rule, category, severity)
			SELECT n.id, n.source, n.policy, n.rule, n.category, n.severity
			FROM (SELECT DISTINCT ON (a.criterion) a.criterion AS id, a.source, a.policy, a.rule, a.category, a.severity
				FROM added a WHERE a.source IS NOT NULL ORDER BY a.criterion OFFSET 0) n
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.criterion c WHERE c.id = n.id OFFSET 0)
			ON CONFLICT DO NOTHING
	), new_subject AS (
		INSERT INTO kube_reports_internal.subject AS o (id, cluster_id, api_version, kind, namespace, name, uid)
			SELECT n.id, target.cluster_id, n.api_version, n.kind,
				n.subject_namespace, n.subject_name, n.subject_uid
			FROM (SELECT DISTINCT ON (a.subject) a.subject AS id, a.api_version, a.kind, a.subject_namespace,
					a.subject_name, a.subject_uid
				FROM added a ORDER BY a.subject OFFSET 0) n
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.subject s
				WHERE s.id = n.id AND s.cluster_id = target.cluster_id AND s.unused_since IS NULL OFFSET 0)
			ON CONFLICT ON CONSTRAINT subject_pkey DO UPDATE SET unused_since = NULL
				WHERE o.cluster_id = excluded.cluster_id AND o.unused_since IS NOT NULL
	), new_detail AS (
		INSERT INTO kube_reports_internal.detail (id, message, properties, exceptions)
			SELECT n.id, n.message, n.properties::jsonb, n.exceptions
			FROM (SELECT DISTINCT ON (a.detail) a.detail AS id, a.message, a.properties, a.exceptions
				FROM added a WHERE a.message IS NOT NULL ORDER BY a.detail OFFSET 0) n
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.detail t WHERE t.id = n.id OFFSET 0)
			ON CONFLICT DO NOTHING
	), new_actor AS (
		INSERT INTO kube_reports_internal.actor AS o (id, name)
			SELECT DISTINCT ON (m.actor_id) m.actor_id, m.actor
			FROM made m WHERE NOT EXISTS (SELECT FROM kube_reports_internal.actor a
				WHERE a.id = m.actor_id AND a.last_used >= date_trunc('month', now()) OFFSET 0)
			ORDER BY m.actor_id
			ON CONFLICT ON CONSTRAINT actor_pkey DO UPDATE SET last_used = now()
				WHERE o.last_used < date_trunc('month', now())
	), new_result AS (
		INSERT INTO kube_reports_internal.result (origin, key, criterion, subject, detail, first_seen, since,
			cluster_id, score, status, namespace, native_status)
			SELECT a.origin, a.key, a.criterion, a.subject, a.detail, written_at, written_at, target.cluster_id,
				a.score, a.status, a.namespace,
				a.native_status
			FROM added a
	), new_delta AS (
		INSERT INTO kube_reports_internal.rollup_delta (cluster_id, day, namespace, kind, criteria, statuses,
			native_statuses, counts)
			SELECT target.cluster_id, (written_at AT TIME ZONE 'UTC')::date, d.namespace, d.kind,
				array_agg(d.criterion), array_agg(d.status), array_agg(d.native_status), array_agg(d.count)
			FROM (SELECT a.namespace, a.kind, a.criterion, a.status, a.native_status, count(*) AS count
				FROM added a
				GROUP BY a.namespace, a.kind, a.criterion, a.status, a.native_status) d
			GROUP BY d.namespace, d.kind
	)
	INSERT INTO kube_reports_internal.report_change (at, version, origin, actor, criterion, subject, cluster_id,
		namespace, ids, new_statuses)
		SELECT written_at, m.version, m.origin, m.actor_id, kube_reports_internal.common(m.criteria),
			kube_reports_internal.common(m.subjects), target.cluster_id, m.namespace,
			kube_reports_internal.joined_ids(m.keys, m.criteria, m.subjects),
			kube_reports_internal.letters(m.statuses)
		FROM made m;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.apply_new_results(integer, kube_reports_internal.derivation, timestamptz,
	text[], text[], bigint[], kube_reports_internal.prepared_results[])
	IS 'the same as apply_results(), for reports that have just been created and have no origin; results of the type '
		'are current';

CREATE FUNCTION kube_reports_internal.record_results(lane integer, after_version bigint,
	postpone boolean DEFAULT false, versions bigint[] DEFAULT NULL,
	prepared kube_reports_internal.prepared_results[] DEFAULT NULL) RETURNS bigint
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
	-- Several thousand results at a time.
	max_changes CONSTANT integer := 256;
	costly CONSTANT integer := kube_reports_internal.costly_bytes();
	first_version CONSTANT bigint := after_version;
	-- Without the engine, results are prepared by the proxy.  A step that imports a past state can ask the engine, and
	-- its results do not wait, because they belong to that time.
	engine CONSTANT boolean := kube_reports_internal.variant() = 'c' OR EXISTS (
		SELECT FROM kube_reports_internal.import_time i WHERE i.lane = record_results.lane);
	target		kube_reports_internal.derivation;
	step		record;
	given		bigint[];
	step_prepared kube_reports_internal.prepared_results[];
BEGIN
	SELECT * INTO target FROM kube_reports_internal.derivation_of(record_results.lane);
	IF target.mapping_id IS NULL THEN
		RETURN after_version;
	END IF;
	postpone := postpone AND NOT target.restoring;
	IF NOT engine THEN
		SELECT array_agg(p.version) INTO given FROM unnest(versions, prepared) p(version, rows)
			WHERE p.rows IS NOT NULL AND NOT target.restoring;
	END IF;
	LOOP
		-- Several changes of one report count as one change: from the state before the first to the current state.
		WITH changed AS (
			SELECT c.namespace, c.name, min(c.version) AS first, max(c.version) AS last,
				count(*) AS changes, max(c.at) AS at, bool_and(c.operation = 'A') AS created,
				max(coalesce(kube_reports.document_size(c.old_body), 0)) AS old_size
			FROM (SELECT c.namespace, c.name, c.version, c.operation, c.old_body, c.at
				FROM kube_reports_internal.change c
				WHERE c.lane = record_results.lane AND c.version > after_version ORDER BY c.version LIMIT max_changes) c
			GROUP BY c.namespace, c.name
		), sized AS (
			SELECT c.*, p.waits IS TRUE AS waits, CASE
				WHEN postpone THEN c.old_size + coalesce(o.size, 0) ELSE 0 END AS size
			FROM changed c
				LEFT JOIN LATERAL (SELECT true AS waits FROM kube_reports_internal.result_pending p
					WHERE p.lane = record_results.lane AND p.namespace = c.namespace
						AND p.name = c.name LIMIT 1) p ON true
				LEFT JOIN LATERAL (SELECT kube_reports.document_size(o.body) AS size FROM kube_reports.object o
					WHERE postpone AND o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
						AND o.namespace = c.namespace AND o.name = c.name LIMIT 1) o ON true
		), sorted AS (
			-- Many small reports in one batch cost as much as a large report.
			SELECT s.*, s.waits OR s.size > costly OR sum(s.size) OVER (ORDER BY s.last) > 4 * costly
					OR NOT engine AND (s.first <> s.last OR NOT s.last = ANY (coalesce(given, '{}')))
						AND (target.restoring OR EXISTS (SELECT FROM kube_reports.object o
							WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
								AND o.namespace = s.namespace AND o.name = s.name OFFSET 0)) AS later
				FROM sized s
		)
		SELECT array_agg(k.namespace) FILTER (WHERE NOT k.later) AS namespaces,
				array_agg(k.name) FILTER (WHERE NOT k.later) AS names,
				array_agg(k.first) FILTER (WHERE NOT k.later) AS firsts,
				array_agg(k.last) FILTER (WHERE NOT k.later) AS lasts,
				array_agg(k.namespace) FILTER (WHERE k.later) AS later_namespaces,
				array_agg(k.name) FILTER (WHERE k.later) AS later_names,
				array_agg(k.first) FILTER (WHERE k.later) AS later_firsts,
				max(k.last) AS last, sum(k.changes) AS changes, (array_agg(k.at))[count(*)] AS at,
				bool_and(k.created) AND NOT bool_or(EXISTS (SELECT FROM kube_reports_internal.origin g
					WHERE g.cluster_id = target.cluster_id
					AND g.resource_type = target.resource_type AND g.namespace = k.namespace
						AND g.name = k.name)) AS all_new
			-- Sorted once, not by each aggregate.
			INTO step FROM (SELECT * FROM sorted ORDER BY last) k;
		EXIT WHEN step.last IS NULL;
		IF step.later_names IS NOT NULL THEN
			INSERT INTO kube_reports_internal.result_pending (lane, namespace, name, first)
				SELECT record_results.lane, k.namespace, k.name, k.first
				FROM unnest(step.later_namespaces, step.later_names, step.later_firsts) k(namespace, name, first)
				WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result_pending p
					WHERE p.lane = record_results.lane AND p.namespace = k.namespace AND p.name = k.name);
			UPDATE kube_reports_internal.result_pending p SET attempts = 0, retry_at = '-infinity', reason = NULL
				FROM unnest(step.later_namespaces, step.later_names) k(namespace, name)
				WHERE p.lane = record_results.lane AND p.namespace = k.namespace AND p.name = k.name
					AND p.attempts > 0;
			IF engine AND NOT postpone THEN
				PERFORM kube_reports_internal.finish_pending(record_results.lane, k.namespace, k.name)
					FROM unnest(step.later_namespaces, step.later_names) k(namespace, name);
			END IF;
		END IF;
		IF NOT engine THEN
			-- A deleted report has no results any more.
			step_prepared := ARRAY(SELECT ROW(coalesce(p.rows, r.rows, '{}'))::kube_reports_internal.prepared_results
				FROM unnest(step.lasts, step.namespaces, step.names) WITH ORDINALITY k(version, namespace, name, n)
					LEFT JOIN unnest(versions, prepared) p(version, rows) ON p.version = k.version
					LEFT JOIN LATERAL (SELECT array_agg(ROW(r.key, false, r.status, NULL, NULL, NULL, NULL, NULL, NULL,
							NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
							NULL)::kube_reports_internal.result_row) AS rows
						FROM kube_reports_internal.origin g
							JOIN kube_reports_internal.result r ON r.origin = g.id
						WHERE p.rows IS NULL AND g.cluster_id = target.cluster_id
							AND g.resource_type = target.resource_type AND g.namespace = k.namespace
							AND g.name = k.name) r ON true
				ORDER BY k.n);
		END IF;
		IF step.names IS NULL THEN
			NULL;
		ELSIF step.all_new THEN
			PERFORM kube_reports_internal.apply_new_results(record_results.lane, target,
				coalesce((SELECT i.at FROM kube_reports_internal.import_time i
					WHERE NOT target.usual AND i.lane = record_results.lane), step.at),
				step.namespaces, step.names, step.lasts, step_prepared);
		ELSIF NOT target.usual OR NOT kube_reports_internal.revise_results(record_results.lane, target, step.at,
			step.namespaces, step.names, step.firsts, step.lasts, step_prepared) THEN
			PERFORM kube_reports_internal.apply_results(record_results.lane, step.namespaces, step.names,
				step.firsts, step.lasts, prepared => step_prepared);
		END IF;
		after_version := step.last;
		EXIT WHEN step.changes < max_changes;
	END LOOP;
	-- Proxies fold once a second.  Without a proxy, fold here: readers add up unfolded counts, and their number must
	-- stay bounded.
	IF after_version / 8192 <> first_version / 8192 THEN
		PERFORM kube_reports_internal.fold_rollups();
	END IF;
	RETURN after_version;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.record_results(integer, bigint, boolean, bigint[],
	kube_reports_internal.prepared_results[])
	IS 'updates results from the changes that a writer has logged; the writer calls it in the same transaction and '
		'holds the lane''s lock. Does nothing unless results of the type are current; returns the last version '
		'handled. postpone: results of large reports follow later, by result_pending. versions, prepared: the results '
		'that the proxy has computed for each change, see result_difference(); without the engine, changes without '
		'prepared results follow later, too';
