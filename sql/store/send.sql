-- send.sql
--	  A cluster as rows, for another database.
--
-- One query reads everything in one snapshot, while writes of the cluster are held.  COPY streams the rows: the planner
-- inlines send_cluster(), so that no copy of the result is made.  A row is the text form of its table's type.  Rows
-- whose ids are numbers of this store get new ids in receive_cluster().

CREATE FUNCTION kube_reports_internal.begin_sending(cluster uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	leaving		integer := kube_reports_internal.known_cluster(cluster);
	waiting		text;
BEGIN
	IF current_setting('datestyle') NOT LIKE 'ISO%' OR current_setting('intervalstyle') <> 'postgres'
			OR current_setting('extra_float_digits')::integer < 1 THEN
		RAISE EXCEPTION 'this session prints values in a form that another database may read differently'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'RESET datestyle; RESET intervalstyle; RESET extra_float_digits, or set PGOPTIONS: '
					'-c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1.';
	END IF;
	IF kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports_internal.refuse_restoring();
	END IF;
	IF EXISTS (SELECT FROM kube_reports_internal.lane l WHERE l.cluster_id = leaving AND NOT l.held) THEN
		RAISE EXCEPTION 'cluster % may still be written', cluster
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = format('First: SELECT kube_reports.hold_writes(%L)', cluster);
	END IF;
	SELECT string_agg(DISTINCT p.what, ', ' ORDER BY p.what) INTO waiting FROM kube_reports.pending p
		WHERE p.cluster = begin_sending.cluster AND p.what IN ('results', 'rebuilds', 'imports', 'counts');
	IF waiting IS NOT NULL THEN
		RAISE EXCEPTION 'work of cluster % waits: %', cluster, waiting
			USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = 'The view kube_reports.pending shows it.',
				HINT = 'The upkeep of a proxy finishes the work in seconds; or repeat SELECT kube_reports.maintain() '
					'while it returns true.';
	END IF;
	RETURN jsonb_build_object('version', kube_reports_internal.script_version(), 'cluster', cluster,
		'newest', (SELECT s.last_value FROM kube_reports_internal.version_seq s),
		'origins', (SELECT jsonb_build_object('first', min(g.id), 'last', max(g.id))
			FROM kube_reports_internal.origin g WHERE g.cluster_id = leaving),
		'rollups', (SELECT jsonb_build_object('first', min(r.id), 'last', max(r.id))
			FROM kube_reports_internal.rollup r WHERE r.cluster_id = leaving),
		'types', (SELECT jsonb_object_agg(t.id, jsonb_build_object('type', t.plural || '.' || t."group",
				'mapping', t.mapping::jsonb))
			FROM kube_reports.resource_type t
				JOIN kube_reports_internal.lane l ON l.resource_type = t.id AND l.cluster_id = leaving));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_sending(uuid)
	IS 'the first row of a sent cluster: its version, numbers and types. Raises 42704 for an unknown cluster, 55000 '
		'unless its writes are held and no work of the cluster waits';

CREATE FUNCTION kube_reports.send_cluster(cluster uuid) RETURNS TABLE (relation text, content text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT 'begin', kube_reports_internal.begin_sending($1)::text
	UNION ALL
	SELECT 'kube_reports.cluster', c::text FROM kube_reports.cluster c WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.namespace', n::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.namespace n ON n.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.lane', l::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.lane l ON l.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports.object', o::text
		FROM kube_reports.cluster c JOIN kube_reports.object o ON o.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.change', g::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.lane l ON l.cluster_id = c.id
			JOIN kube_reports_internal.change g ON g.lane = l.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.actor', a::text FROM kube_reports_internal.actor a
		WHERE a.id IN (SELECT h.actor FROM kube_reports.cluster c
			JOIN kube_reports_internal.report_change h ON h.cluster_id = c.id WHERE c.uid = $1)
	UNION ALL
	SELECT 'kube_reports_internal.detail', d::text FROM kube_reports_internal.detail d
		WHERE d.id IN (SELECT r.detail FROM kube_reports.cluster c
			JOIN kube_reports_internal.result r ON r.cluster_id = c.id WHERE c.uid = $1)
	UNION ALL
	SELECT 'kube_reports_internal.criterion', k::text FROM kube_reports_internal.criterion k
		WHERE k.id IN (SELECT r.criterion FROM kube_reports.cluster c
				JOIN kube_reports_internal.result r ON r.cluster_id = c.id WHERE c.uid = $1
			UNION ALL
			SELECT h.criterion FROM kube_reports.cluster c
				JOIN kube_reports_internal.result_change h ON h.cluster_id = c.id WHERE c.uid = $1
			UNION ALL
			SELECT r.criterion FROM kube_reports.cluster c
				JOIN kube_reports_internal.rollup r ON r.cluster_id = c.id WHERE c.uid = $1
			UNION ALL
			SELECT p.criterion FROM kube_reports.cluster c
				JOIN kube_reports_internal.rollup_policy p ON p.cluster_id = c.id WHERE c.uid = $1)
	UNION ALL
	SELECT 'kube_reports_internal.subject', s::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.subject s ON s.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.origin', g::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.origin g ON g.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.result', r::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.result r ON r.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.result_since', s::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.origin g ON g.cluster_id = c.id
			JOIN kube_reports_internal.result_since s ON s.origin = g.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.report_change', h::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.report_change h ON h.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.rollup', r::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.rollup r ON r.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.rollup_policy', p::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.rollup_policy p ON p.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.rollup_daily', d::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.rollup r ON r.cluster_id = c.id
			JOIN kube_reports_internal.rollup_daily d ON d.rollup = r.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.score_daily', s::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.score_daily s ON s.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.aggregation', a::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.aggregation a ON a.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.webhook', w::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.webhook w ON w.cluster_id = c.id WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.webhook_progress', w::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.webhook_progress w ON w.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.sender_credential', s::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.sender_credential s ON s.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.forward_assessment', f::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.forward_assessment f ON f.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.forward_seen', f::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.forward_seen f ON f.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.forward_stream', f::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.forward_stream f ON f.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'kube_reports_internal.evidence_file', f::text
		FROM kube_reports.cluster c JOIN kube_reports_internal.evidence_file f ON f.cluster_id = c.id
		WHERE c.uid = $1
	UNION ALL
	SELECT 'end', '';
END;
COMMENT ON FUNCTION kube_reports.send_cluster(uuid)
	IS 'everything of a cluster as rows of arriving_row, for COPY to another database: reports, the log, results, '
		'history, counts, options, webhooks, senders, metadata of evidence. Rights of readers and of roles of proxies '
		'do not move, because roles belong to a server. Raises 42704 for an unknown cluster, 55000 before '
		'hold_writes() and while work of the cluster waits';
