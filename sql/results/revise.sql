-- revise.sql
--	  Results of reports in which results only change.
--
-- Most updates come from a scan that finds the same results again, a few of them with another status.  Then no result
-- appears or disappears, no event is removed from history, and all texts are known.  apply_results() handles every
-- case, so PostgreSQL sets up a large statement for each call, which takes longer than the work for the few rows of
-- such an update.
--
-- In a measurement with 19 results, 3 of them with another status, apply_results() alone took 34 % more time of the
-- processor for an update of one report (3.8 instead of 2.8 ms), and 7 % more for an update of 64 reports together.  So
-- both derivations stay.  They must store the same rows: regress/sql/revise.sql compares them.

CREATE TYPE kube_reports_internal.revised_result AS (
	place		tid,
	origin		bigint,
	key			bigint,
	namespace	text,
	version		bigint,
	actor		bigint,
	criterion	bigint,
	subject		bigint,
	detail		bigint,
	kind		text,
	score		double precision,
	status		"char",
	native_status text,
	old_criterion bigint,
	old_kind	text,
	old_status	"char",
	old_native_status text,
	first_seen	timestamptz,
	since		timestamptz
);
COMMENT ON TYPE kube_reports_internal.revised_result IS 'a stored result and its next state: see revise_results()';

-- The caller holds the lane's lock, so that the rows do not move.
CREATE FUNCTION kube_reports_internal.revise_results(lane integer, target kube_reports_internal.derivation,
	written_at timestamptz, namespaces text[], names text[], firsts bigint[], lasts bigint[],
	prepared kube_reports_internal.prepared_results[] DEFAULT NULL)
	RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept and may have been made for an empty store: probe stored rows by index.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
DECLARE
	found		record;
BEGIN
	-- The texts to which a stored result refers are known.  CASE looks up only texts that are new to their result.
	SELECT bool_and(o.body IS NOT NULL AND k.first = k.last AND (d.key IS NULL OR d.wanted AND r.place IS NOT NULL
				AND CASE WHEN d.detail <> r.detail THEN EXISTS (SELECT FROM kube_reports_internal.detail t
					WHERE t.id = d.detail) ELSE true END
				AND CASE WHEN d.criterion <> r.criterion THEN EXISTS (SELECT FROM kube_reports_internal.criterion t
					WHERE t.id = d.criterion) ELSE true END
				AND CASE WHEN d.subject <> r.subject THEN EXISTS (SELECT FROM kube_reports_internal.subject t
					WHERE t.id = d.subject AND t.cluster_id = target.cluster_id
						AND t.unused_since IS NULL) ELSE true END
				AND CASE WHEN d.status <> r.status THEN EXISTS (SELECT FROM kube_reports_internal.actor a
					WHERE a.id = c.actor_id AND a.last_used >= date_trunc('month', now())) ELSE true END)) AS fits,
			array_agg(ROW(r.place, g.id, d.key, k.namespace, k.last, c.actor_id, d.criterion, d.subject, d.detail,
					d.kind, d.score, d.status, d.native_status, r.criterion,
					CASE WHEN r.subject = d.subject THEN d.kind ELSE coalesce((SELECT s.kind
						FROM kube_reports_internal.subject s WHERE s.id = r.subject), '') END,
					r.status, r.native_status, r.first_seen, r.since)::kube_reports_internal.revised_result)
				FILTER (WHERE (r.criterion, r.subject, r.detail, r.status, r.native_status, r.score)
					<> (d.criterion, d.subject, d.detail, d.status, d.native_status, d.score)) AS results,
			bool_or(d.status <> r.status) AS statuses,
			bool_or((r.criterion, r.subject, r.status, r.native_status)
				<> (d.criterion, d.subject, d.status, d.native_status)) AS counts
		INTO found
		FROM unnest(namespaces, names, firsts, lasts, prepared) k(namespace, name, first, last, prepared)
			LEFT JOIN LATERAL (SELECT kube_reports_internal.actor_id(c.actor) AS actor_id,
					c.old_metadata, c.old_body FROM kube_reports_internal.change c
				WHERE c.lane = revise_results.lane AND c.version = k.last LIMIT 1) c ON true
			LEFT JOIN LATERAL (SELECT o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.resource_type
					AND o.namespace = k.namespace AND o.name = k.name AND o.version = k.last LIMIT 1) o ON true
			LEFT JOIN LATERAL (SELECT g.id FROM kube_reports_internal.origin g
				WHERE g.cluster_id = target.cluster_id AND g.resource_type = target.resource_type
					AND g.namespace = k.namespace AND g.name = k.name LIMIT 1) g ON true
			LEFT JOIN LATERAL kube_reports_internal.result_difference(target.mapping_id, target.mapping,
				target.cluster_id, c.old_metadata, c.old_body, o.metadata, o.body, k.prepared) d ON true
			LEFT JOIN LATERAL (SELECT r.ctid AS place, r.* FROM kube_reports_internal.result r
				WHERE r.origin = g.id AND r.key = d.key LIMIT 1) r ON true;
	IF NOT found.fits THEN
		RETURN false;
	END IF;
	IF found.results IS NULL THEN
		RETURN true;
	END IF;

	UPDATE kube_reports_internal.result r
		SET criterion = n.criterion, subject = n.subject, detail = n.detail, score = n.score, status = n.status,
			native_status = n.native_status, since = CASE WHEN n.old_status = n.status THEN r.since ELSE written_at END
		FROM unnest(found.results) n
		WHERE r.ctid = n.place;
	IF found.counts THEN
		INSERT INTO kube_reports_internal.rollup_delta (cluster_id, day, namespace, kind, criteria, statuses,
			native_statuses, counts)
			SELECT target.cluster_id, (written_at AT TIME ZONE 'UTC')::date, d.namespace, d.kind,
				array_agg(d.criterion), array_agg(d.status), array_agg(d.native_status), array_agg(d.count)
			FROM (SELECT n.namespace, c.criterion, c.kind, c.status, c.native_status, sum(c.count) AS count
				FROM unnest(found.results) n
					CROSS JOIN LATERAL (VALUES (n.criterion, n.kind, n.status, n.native_status, 1),
						(n.old_criterion, n.old_kind, n.old_status, n.old_native_status, -1))
							c(criterion, kind, status, native_status, count)
				GROUP BY n.namespace, c.criterion, c.kind, c.status, c.native_status
				HAVING sum(c.count) <> 0) d
			GROUP BY d.namespace, d.kind;
	END IF;
	IF found.statuses THEN
		PERFORM kube_reports.make_history(written_at);
		INSERT INTO kube_reports_internal.result_since AS s (origin, key, first_seen, since)
			SELECT n.origin, n.key, n.first_seen, written_at FROM unnest(found.results) n WHERE n.old_status <> n.status
			ON CONFLICT ON CONSTRAINT result_since_pkey DO UPDATE
				SET first_seen = excluded.first_seen, since = excluded.since;
		INSERT INTO kube_reports_internal.report_change (at, version, origin, actor, criterion, subject, cluster_id,
			namespace, ids, old_statuses, new_statuses, first_seen, old_since)
			SELECT written_at, min(n.version), n.origin, min(n.actor),
				kube_reports_internal.common(array_agg(n.criterion)),
				kube_reports_internal.common(array_agg(n.subject)), target.cluster_id, min(n.namespace),
				kube_reports_internal.joined_ids(array_agg(n.key), array_agg(n.criterion), array_agg(n.subject)),
				kube_reports_internal.letters(array_agg(n.old_status)),
				kube_reports_internal.letters(array_agg(n.status)),
				kube_reports_internal.packed(array_agg(n.first_seen)), kube_reports_internal.packed(array_agg(n.since))
			FROM unnest(found.results) n WHERE n.old_status <> n.status GROUP BY n.origin;
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.revise_results(integer, kube_reports_internal.derivation, timestamptz, text[],
	text[], bigint[], bigint[], kube_reports_internal.prepared_results[])
	IS 'the same as apply_results(), for updates in which no result appears or disappears and all texts are known. '
		'Returns false, and changes nothing, for an update of another kind';
