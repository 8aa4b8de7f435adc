-- pending.sql
--	  Results of large reports, which follow the write in later transactions.
--
-- record_results() puts a large report into the queue result_pending.  Upkeep
-- applies the report's changes part by part.  In the SQL variant, reports whose
-- results no proxy has prepared are in this queue, too; small ones leave it
-- several at once (types/pending_sql.sql).

-- New criteria, subjects and details of a report are inserted in a short transaction, because other writers of the same
-- rows wait for its end, perhaps with a lane locked.
CREATE FUNCTION kube_reports_internal.announce_pending(lane integer, namespace text, name text, first bigint,
	last bigint) RETURNS bigint
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
#variable_conflict use_variable
DECLARE
	max_rows CONSTANT integer := 10000;
	target		record;
	old			record;
	new			record;
	written		record;
	announced	bigint;
BEGIN
	SELECT c.actor, c.at INTO written FROM kube_reports_internal.change c
		WHERE c.lane = announce_pending.lane AND c.version = last;
	-- The partition of a new month is also made in a short transaction.
	IF pg_partition_root(to_regclass('kube_reports_internal.report_change_'
			|| to_char(written.at AT TIME ZONE 'UTC', 'YYYY_MM')))
		IS NULL THEN
		PERFORM kube_reports.make_history(written.at);
		RETURN 1;
	END IF;
	SELECT d.cluster_id, d.resource_type, d.mapping_id, d.mapping INTO target
		FROM kube_reports_internal.derivation_of(announce_pending.lane) d;
	SELECT c.old_metadata AS metadata, c.old_body AS body INTO old FROM kube_reports_internal.change c
		WHERE c.lane = announce_pending.lane AND c.version = first;
	SELECT d.metadata, d.body INTO new
		FROM (SELECT c.version, c.old_metadata AS metadata, c.old_body AS body FROM kube_reports_internal.change c
				WHERE c.lane = announce_pending.lane AND c.namespace = announce_pending.namespace
					AND c.name = announce_pending.name AND c.version > last
			UNION ALL
			SELECT 9223372036854775807, o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = announce_pending.namespace AND o.name = announce_pending.name) d
		ORDER BY d.version LIMIT 1;

	WITH said AS MATERIALIZED (
		SELECT d.* FROM kube_reports_internal.result_difference(target.mapping_id, target.mapping, target.cluster_id,
			old.metadata, old.body, new.metadata, new.body) d
		WHERE d.wanted
	), new_criterion AS (
		INSERT INTO kube_reports_internal.criterion (id, source, policy, rule, category, severity)
			SELECT n.id, n.source, n.policy, n.rule, n.category, n.severity
			FROM (SELECT DISTINCT ON (d.criterion) d.criterion AS id, d.source, d.policy, d.rule, d.category, d.severity
				FROM said d WHERE d.criterion IN (SELECT i.id FROM (SELECT DISTINCT d.criterion AS id FROM said d) i
					WHERE NOT EXISTS (SELECT FROM kube_reports_internal.criterion c WHERE c.id = i.id OFFSET 0)
						ORDER BY i.id LIMIT max_rows)
					AND d.source IS NOT NULL
				ORDER BY d.criterion) n
			ON CONFLICT DO NOTHING RETURNING 1
	), new_subject AS (
		INSERT INTO kube_reports_internal.subject (id, cluster_id, api_version, kind, namespace, name, uid)
			SELECT n.id, target.cluster_id, n.api_version, n.kind,
				n.subject_namespace, n.subject_name, n.subject_uid
			FROM (SELECT DISTINCT ON (d.subject) d.subject AS id, d.api_version, d.kind, d.subject_namespace,
					d.subject_name, d.subject_uid
				FROM said d WHERE d.subject IN (SELECT i.id FROM (SELECT DISTINCT d.subject AS id FROM said d) i
					WHERE NOT EXISTS (SELECT FROM kube_reports_internal.subject s
						WHERE s.id = i.id AND s.cluster_id = target.cluster_id OFFSET 0)
						ORDER BY i.id LIMIT max_rows)
				ORDER BY d.subject) n
			ON CONFLICT DO NOTHING RETURNING 1
	), new_detail AS (
		INSERT INTO kube_reports_internal.detail (id, message, properties, exceptions)
			SELECT n.id, n.message, n.properties::jsonb, n.exceptions
			FROM (SELECT DISTINCT ON (d.detail) d.detail AS id, d.message, d.properties, d.exceptions
				FROM said d WHERE d.detail IN (SELECT i.id FROM (SELECT DISTINCT d.detail AS id FROM said d) i
					WHERE NOT EXISTS (SELECT FROM kube_reports_internal.detail t WHERE t.id = i.id OFFSET 0)
						ORDER BY i.id LIMIT max_rows)
					AND d.message IS NOT NULL
				ORDER BY d.detail) n
			ON CONFLICT DO NOTHING RETURNING 1
	), new_actor AS (
		INSERT INTO kube_reports_internal.actor AS o (id, name)
			SELECT a.id, written.actor FROM (SELECT kube_reports_internal.field_hash('actor', written.actor) AS id) a
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.actor s
				WHERE s.id = a.id AND s.last_used >= date_trunc('month', now()) OFFSET 0)
			ON CONFLICT ON CONSTRAINT actor_pkey DO UPDATE SET last_used = now()
				WHERE o.last_used < date_trunc('month', now()) RETURNING 1
	)
	-- PostgreSQL runs these parts in the order in which this query reads them: the lock order of every writer.
	SELECT (SELECT count(*) FROM new_actor) + (SELECT count(*) FROM new_detail) + (SELECT count(*) FROM new_subject)
			+ (SELECT count(*) FROM new_criterion)
		INTO announced;
	RETURN announced;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.announce_pending(integer, text, text, bigint, bigint)
	IS 'stores the new criteria, subjects and details of a report, some thousand of each, and makes the partition of '
		'their history; returns the number of rows that it stored';

-- Applies one part of a report's pending results.  The row lock allows one part of a report at a time.  A part is about
-- a megabyte of documents, so that no part takes long.
CREATE FUNCTION kube_reports_internal.apply_pending(lane integer, namespace text, name text) RETURNS boolean
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
	pending		record;
	width		numeric;
	least_key	bigint;
	greatest_key bigint;
BEGIN
	SELECT p.first, p.last, p.part, p.parts, p.ctid AS place INTO pending FROM kube_reports_internal.result_pending p
		WHERE p.lane = apply_pending.lane AND p.namespace = apply_pending.namespace
			AND p.name = apply_pending.name FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF pending.last IS NULL THEN
		-- The first change that is not in the results, and the report's newest change.
		SELECT min(c.version), max(c.version) INTO pending.first, pending.last FROM kube_reports_internal.change c
			WHERE c.lane = apply_pending.lane AND c.namespace = apply_pending.namespace AND c.name = apply_pending.name
				AND c.version >= pending.first;
		IF pending.last IS NULL THEN
			RETURN false;
		END IF;
		pending.part := 0;
		pending.parts := 1 + (coalesce((SELECT kube_reports.document_size(c.old_body)
			FROM kube_reports_internal.change c
				WHERE c.lane = apply_pending.lane AND c.version = pending.first), 0)
			+ coalesce((SELECT max(kube_reports.document_size(o.body)) FROM kube_reports_internal.lane l
				JOIN kube_reports.object o
				ON (o.cluster_id, o.resource_type, o.namespace, o.name)
					= (l.cluster_id, l.resource_type, apply_pending.namespace, apply_pending.name)
				WHERE l.id = apply_pending.lane), 0)) / (4 * kube_reports_internal.costly_bytes());
	END IF;
	width := 18446744073709551616 / pending.parts::numeric;
	least_key := (floor(pending.part * width) - 9223372036854775808)::bigint;
	greatest_key := CASE WHEN pending.part + 1 = pending.parts THEN 9223372036854775807
		ELSE (floor((pending.part + 1) * width) - 9223372036854775809)::bigint END;
	IF pending.part = 0 AND kube_reports_internal.announce_pending(apply_pending.lane,
		apply_pending.namespace, apply_pending.name,
			pending.first, pending.last) > 0 THEN
		UPDATE kube_reports_internal.result_pending p SET first = pending.first, last = pending.last,
			part = pending.part, parts = pending.parts
			WHERE p.ctid = pending.place;
		RETURN true;
	END IF;
	PERFORM kube_reports_internal.apply_results(apply_pending.lane, ARRAY[apply_pending.namespace],
		ARRAY[apply_pending.name],
		ARRAY[pending.first], ARRAY[pending.last], least_key, greatest_key);
	IF pending.part + 1 < pending.parts THEN
		UPDATE kube_reports_internal.result_pending p SET first = pending.first, last = pending.last,
			part = pending.part + 1, parts = pending.parts
			WHERE p.ctid = pending.place;
	ELSE
		UPDATE kube_reports_internal.result_pending p SET first = pending.last + 1, last = NULL, part = 0, parts = 1
			WHERE p.ctid = pending.place;
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.apply_pending(integer, text, text)
	IS 'updates a part of a report''s results from its document; false if all are up to date';

-- Whether the results include all changes for which a row of result_pending exists.
CREATE FUNCTION kube_reports_internal.is_applied(pending kube_reports_internal.result_pending) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT NOT EXISTS (SELECT FROM kube_reports_internal.change c
		WHERE c.lane = pending.lane AND c.namespace = pending.namespace AND c.name = pending.name
			AND c.version >= pending.first);
END;
COMMENT ON FUNCTION kube_reports_internal.is_applied(kube_reports_internal.result_pending)
	IS 'whether a report''s results include all changes in the log';

CREATE FUNCTION kube_reports_internal.finish_pending(lane integer, namespace text, name text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	WHILE kube_reports_internal.apply_pending(finish_pending.lane, finish_pending.namespace, finish_pending.name) LOOP
		NULL;
	END LOOP;
	DELETE FROM kube_reports_internal.result_pending p
		WHERE p.lane = finish_pending.lane AND p.namespace = finish_pending.namespace AND p.name = finish_pending.name;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.finish_pending(integer, text, text)
	IS 'updates all of a report''s results from its document at once. The caller holds the lane''s lock';

-- The caller holds the lane's lock, because writers find objects by their places.
CREATE FUNCTION kube_reports_internal.date_reports(target kube_reports_internal.derivation, namespaces text[],
	names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	PERFORM kube_reports_internal.begin_own_write();
	UPDATE kube_reports.object o SET evaluated_at = e.evaluated_at
		FROM unnest(namespaces, names) k(namespace, name)
			JOIN LATERAL (SELECT o.ctid AS place, o.evaluated_at AS stored, CASE WHEN target.mapping_id IS NOT NULL THEN
					kube_reports_internal.evaluated_at(target.mapping_id, target.mapping, o.metadata, o.body) END AS
						evaluated_at
				FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name OFFSET 0) e ON true
		WHERE o.ctid = e.place AND e.stored IS DISTINCT FROM e.evaluated_at;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.date_reports(kube_reports_internal.derivation, text[], text[])
	IS 'sets the time of evaluation of reports from their documents; null if results of the type are not current';

-- A writer without the engine does not know the time of evaluation.
CREATE FUNCTION kube_reports_internal.date_applied(lane integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
BEGIN
	IF kube_reports_internal.variant() = 'c' THEN
		RETURN;
	END IF;
	-- apply_pending() holds no lane: without these locks, a report that it finishes after this statement would be
	-- removed from the queue without its time.
	PERFORM FROM kube_reports_internal.result_pending p WHERE p.lane = date_applied.lane
		ORDER BY p.namespace, p.name FOR UPDATE;
	PERFORM kube_reports_internal.date_reports(d, a.namespaces, a.names)
		FROM (SELECT array_agg(p.namespace) AS namespaces, array_agg(p.name) AS names
				FROM kube_reports_internal.result_pending p
				WHERE p.lane = date_applied.lane AND p.last IS NULL AND kube_reports_internal.is_applied(p)) a,
			kube_reports_internal.derivation_of(date_applied.lane) d
		WHERE a.names IS NOT NULL AND d.mapping_id IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.date_applied(integer)
	IS 'sets the time of evaluation of reports whose pending results have been applied, in the SQL variant';

CREATE FUNCTION kube_reports_internal.put_aside(lane integer, namespace text, name text, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE kube_reports_internal.result_pending p SET attempts = p.attempts + 1, reason = put_aside.reason,
			retry_at = kube_reports_internal.next_attempt(p.attempts)
		WHERE p.lane = put_aside.lane AND p.namespace = put_aside.namespace AND p.name = put_aside.name;
	RAISE WARNING 'results of report "%" are not made: %', put_aside.name, put_aside.reason
		USING HINT = 'It is tried again later, and when the report is written: see the view kube_reports.pending.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.put_aside(integer, text, text, text)
	IS 'puts aside a pending report whose results were refused, so that the reports behind it continue';

-- The report that has waited longest is next.  If it was written again while it waited, it moves to the end of the
-- queue.  A report whose results are refused is put aside.  A lane is locked only to remove finished rows, so that no
-- writer adds changes to them at the same time.
CREATE FUNCTION kube_reports_internal.pending_step() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The queue and the log grow faster than their statistics are updated.  A join of the two would read the log from its
-- beginning.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	done_lane	integer;
	next		record;
	refused		text;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.result_pending) OR NOT kube_reports_internal.has_engine() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.lock_store_shared();
	IF kube_reports_internal.pending_batch() THEN
		RETURN true;
	END IF;
	SELECT p.lane INTO done_lane FROM kube_reports_internal.result_pending p WHERE p.last IS NULL
		AND kube_reports_internal.is_applied(p) AND kube_reports_internal.engine_serves(p.lane) LIMIT 1;
	IF FOUND THEN
		PERFORM kube_reports_internal.lock_lane(done_lane);
		PERFORM kube_reports_internal.date_applied(done_lane);
		DELETE FROM kube_reports_internal.result_pending p WHERE p.lane = done_lane AND p.last IS NULL
			AND kube_reports_internal.is_applied(p);
		RETURN true;
	END IF;
	SELECT p.lane, p.namespace, p.name INTO next FROM kube_reports_internal.result_pending p
		WHERE kube_reports_internal.engine_serves(p.lane) AND p.retry_at <= clock_timestamp()
		ORDER BY p.first LIMIT 1 FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	BEGIN
		RETURN kube_reports_internal.apply_pending(next.lane, next.namespace, next.name);
	EXCEPTION WHEN OTHERS THEN
		IF NOT kube_reports_internal.is_refusal(SQLSTATE) THEN
			RAISE;
		END IF;
		refused := SQLERRM;
	END;
	PERFORM kube_reports_internal.put_aside(next.lane, next.namespace, next.name, refused);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.pending_step()
	IS 'derives a part of the results of the large report that has waited longest; false: no report waits, or other '
		'sessions work on all of them';
