-- check.sql
--	  Comparing results, history and counts with the documents.
--
-- verify() reports differences, rebuild() repairs them (results/rebuild.sql).  Both find wrong counts with the same
-- functions.

-- Counts are compared with the results in one snapshot.  Deltas that are not folded yet are part of the current counts
-- and, if they have a day, of the counts of that day.
CREATE FUNCTION kube_reports_internal.wrong_counts()
	RETURNS TABLE (cluster_id integer, namespace text, criterion bigint, kind text, status "char", native_status text,
		expected bigint, found bigint, daily bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status,
		sum(c.expected)::bigint, sum(c.found)::bigint, sum(c.daily)::bigint
	FROM (SELECT r.cluster_id, r.namespace, r.criterion, coalesce(s.kind, '') AS kind, r.status, r.native_status,
				count(*) AS expected, 0::bigint AS found, 0::bigint AS daily
			FROM kube_reports_internal.result r LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
			GROUP BY r.cluster_id, r.namespace, r.criterion, coalesce(s.kind, ''), r.status, r.native_status
		UNION ALL
		SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, 0, r.count, 0
			FROM kube_reports_internal.current_rollup r
		UNION ALL
		SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, 0, 0, d.count
			FROM kube_reports_internal.rollup r
				CROSS JOIN LATERAL (SELECT d.count FROM kube_reports_internal.rollup_daily d WHERE d.rollup = r.id
					ORDER BY d.day DESC LIMIT 1) d
		UNION ALL
		SELECT d.cluster_id, d.namespace, d.criterion, d.kind, d.status, d.native_status, 0, 0, d.count
			FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) d
				WHERE d.day IS NOT NULL) c
	GROUP BY c.cluster_id, c.namespace, c.criterion, c.kind, c.status, c.native_status
	HAVING sum(c.expected) <> sum(c.found) OR sum(c.expected) <> sum(c.daily);
END;
COMMENT ON FUNCTION kube_reports_internal.wrong_counts()
	IS 'counts that differ from the numbers of results: current counts (found) and counts of the last day (daily), '
		'including changes that are not folded yet';

-- The policy is taken from the criterion, not from the row.  verify() reports rows whose policy differs.
CREATE FUNCTION kube_reports_internal.wrong_policies()
	RETURNS TABLE (cluster_id integer, namespace text, policy bigint, criterion bigint, status "char",
		expected bigint, found bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.cluster_id, c.namespace, k.policy_id, min(c.criterion), c.status,
		sum(c.expected)::bigint, sum(c.found)::bigint
	FROM (SELECT r.cluster_id, r.namespace, r.criterion, r.status, count(*) AS expected, 0::bigint AS found
			FROM kube_reports_internal.result r GROUP BY r.cluster_id, r.namespace, r.criterion, r.status
		UNION ALL
		SELECT d.cluster_id, d.namespace, d.criterion, d.status, 0, d.count
			FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) d
		UNION ALL
		SELECT p.cluster_id, p.namespace, p.criterion, v.status, 0, v.count
			FROM kube_reports_internal.rollup_policy p
				CROSS JOIN LATERAL (VALUES ('p'::"char", p.pass), ('w', p.warn), ('f', p.fail), ('e', p.error),
					('s', p.skip)) v(status, count)) c
		JOIN kube_reports_internal.criterion k ON k.id = c.criterion
	GROUP BY c.cluster_id, c.namespace, k.policy_id, c.status
	HAVING sum(c.expected) <> sum(c.found);
END;
COMMENT ON FUNCTION kube_reports_internal.wrong_policies()
	IS 'counts by policy and namespace that differ from the numbers of results, including changes that are not folded '
		'yet; criterion: any criterion of the policy';

CREATE FUNCTION kube_reports_internal.wrong_scores()
	RETURNS TABLE (cluster_id integer, namespace text, source text, category text, severity text, status "char",
		expected bigint, found bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.cluster_id, c.namespace, c.source, c.category, c.severity, c.status,
		sum(c.expected)::bigint, sum(c.found)::bigint
	FROM (SELECT r.cluster_id, n.namespace, k.source, k.category, k.severity,
				CASE WHEN kube_reports_internal.excluded_from_score(r.native_status) THEN 'x'
					ELSE r.status END AS status, r.expected, r.found
			FROM (SELECT r.cluster_id, r.namespace, r.criterion, r.status, r.native_status,
				count(*) AS expected, 0::bigint AS found
					FROM kube_reports_internal.result r GROUP BY r.cluster_id, r.namespace, r.criterion,
						r.status, r.native_status
				UNION ALL
				SELECT d.cluster_id, d.namespace, d.criterion, d.status, d.native_status, 0, d.count
					FROM kube_reports_internal.unfolded((SELECT m.mark FROM kube_reports_internal.rollup_mark m)) d
						WHERE d.day IS NOT NULL) r
				JOIN kube_reports_internal.criterion k ON k.id = r.criterion
				CROSS JOIN LATERAL (VALUES (r.namespace), ('*')) n(namespace)
		UNION ALL
		SELECT s.cluster_id, s.namespace, s.source, s.category, s.severity, v.status, 0, v.count
			FROM (SELECT DISTINCT ON (s.cluster_id, s.namespace, s.source, s.category, s.severity) s.*
				FROM kube_reports_internal.score_daily s
					ORDER BY s.cluster_id, s.namespace, s.source, s.category, s.severity, s.day DESC) s
				CROSS JOIN LATERAL (VALUES ('p'::"char", s.pass), ('w', s.warn), ('f', s.fail), ('e', s.error),
					('s', s.skip), ('x', s.excluded))
					v(status, count)) c
	GROUP BY c.cluster_id, c.namespace, c.source, c.category, c.severity, c.status
	HAVING sum(c.expected) <> sum(c.found);
END;
COMMENT ON FUNCTION kube_reports_internal.wrong_scores()
	IS 'counts of the last days of score_daily that differ from the numbers of results, including changes that are '
		'not folded yet; status x: excluded from scores';

CREATE FUNCTION kube_reports_internal.history_begins() RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(min(m.begins), 'infinity') FROM kube_reports_internal.history_months() m
$$;
COMMENT ON FUNCTION kube_reports_internal.history_begins()
	IS 'the beginning of the oldest month of history; infinity if there is no history';

CREATE FUNCTION kube_reports_internal.repeated_history()
	RETURNS TABLE (partition oid, place tid, cluster_id integer, namespace text, origin bigint, version bigint,
		copy bigint)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT h.tableoid, h.ctid, h.cluster_id, h.namespace, h.origin, h.version,
		row_number() OVER (PARTITION BY h.origin, h.version, h.at, h.ids, h.new_statuses ORDER BY h.tableoid, h.ctid)
	FROM kube_reports_internal.report_change h
	WHERE (h.origin, h.version, h.at) IN (SELECT c.origin, c.version, c.at
		FROM kube_reports_internal.report_change c GROUP BY c.origin, c.version, c.at HAVING count(*) > 1)
$$;
COMMENT ON FUNCTION kube_reports_internal.repeated_history()
	IS 'rows of history of the same change, numbered; those with copy > 1 are there once too often. Reads all history';

-- Finds changes that a role with the owner's rights has made to tables.  SECURITY DEFINER: administrators may not read
-- all of these tables.
CREATE FUNCTION kube_reports_internal.wrong_tables() RETURNS TABLE (name text, expected jsonb, found jsonb)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT r.name, jsonb_build_object('rows', r.expected), jsonb_build_object('rows', r.found)
		FROM (VALUES ('store', 1, (SELECT count(*) FROM kube_reports_internal.store)),
				('caller_secret', 1, (SELECT count(*) FROM kube_reports_internal.caller_secret)),
				('rollup_mark', 1, (SELECT count(*) FROM kube_reports_internal.rollup_mark)),
				('garbage_sweep', cardinality(kube_reports_internal.swept_tables()),
					(SELECT count(*) FROM kube_reports_internal.garbage_sweep))) r(name, expected, found)
		WHERE r.expected > r.found
	UNION ALL
	SELECT 'version_seq', jsonb_build_object('last_value', n.version), jsonb_build_object('last_value', s.last_value)
		FROM kube_reports_internal.version_seq s, (SELECT greatest((SELECT max(o.version) FROM kube_reports.object o),
			(SELECT max(c.version) FROM kube_reports_internal.change c)) AS version) n
		WHERE s.last_value < n.version
	UNION ALL
	SELECT s.name, jsonb_build_object('last_value', s.least_value), jsonb_build_object('last_value', s.last_value)
		FROM kube_reports_internal.sequences_behind() s
		-- Sequences are not replicated: a subscriber corrects them when it takes over.
		WHERE NOT EXISTS (SELECT FROM pg_subscription_rel r WHERE r.srrelid = 'kube_reports.object'::regclass)
	UNION ALL
	SELECT c.relname, '{"logged": true}', '{"logged": false}' FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'S') AND c.relpersistence = 'u'
			-- Rows that are soon removed, and need not outlive a crash: arriving.sql, engine_sql.sql of tables.
			AND c.relname NOT IN ('arriving_row', 'arriving_row_seq', 'arriving_subject', 'sql_answer')
	UNION ALL
	SELECT c.relname, '{"row security forced": false}', '{"row security forced": true}' FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relrowsecurity AND c.relforcerowsecurity
	UNION ALL
	SELECT c.relname, jsonb_build_object('trigger', t.tgname, 'enabled', true),
			jsonb_build_object('trigger', t.tgname, 'enabled', false)
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND NOT t.tgisinternal AND t.tgenabled IN ('D', 'R')
	UNION ALL
	SELECT c.relname, jsonb_build_object('index', i.indexrelid::regclass, 'valid', true),
			jsonb_build_object('index', i.indexrelid::regclass, 'valid', false)
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind = 'r' AND NOT i.indisvalid
	UNION ALL
	SELECT split_part(p.relation, '.', 2), jsonb_build_object(p.kind, p.name, 'made by', p.statement),
			jsonb_build_object(p.kind, NULL)
		FROM kube_reports_internal.made_parts() p
		WHERE NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
				WHERE p.kind = 'index' AND i.indrelid = to_regclass(p.relation) AND c.relname = p.name)
			AND NOT EXISTS (SELECT FROM pg_trigger t
				WHERE p.kind = 'trigger' AND t.tgrelid = to_regclass(p.relation) AND t.tgname = p.name)
	UNION ALL
	SELECT c.relname, '{"primary key": true}', '{"primary key": false}' FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind = 'r' AND c.relpersistence = 'p' AND c.relreplident <> 'f'
			AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_tables()
	IS 'tables that lack rows which every store has, sequences that were set back (not at a subscriber), tables and '
		'sequences that a crash of the server would empty, tables with forced row-level security, tables with '
		'disabled triggers or invalid indexes, and tables without an index, a trigger or a primary key that they had';

CREATE FUNCTION kube_reports_internal.wrong_results()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- Reports with pending results are not wrong.
	RETURN QUERY
	WITH pending AS MATERIALIZED (
		SELECT l.cluster_id, l.resource_type, p.namespace, p.name
		FROM kube_reports_internal.result_pending p JOIN kube_reports_internal.lane l ON l.id = p.lane
	), wanted AS MATERIALIZED (
		SELECT o.cluster_id, o.namespace, o.name, g.id AS origin, d.key,
			jsonb_build_object('criterion', d.criterion, 'subject', d.subject,
				'detail', d.detail, 'status', d.status, 'native_status', d.native_status, 'score', d.score,
				'cluster_id', o.cluster_id, 'namespace', o.namespace) AS content,
			x.expected AS expected_detail, x.found AS found_detail
		FROM kube_reports.resource_type y
			JOIN kube_reports.object o ON o.resource_type = y.id
			LEFT JOIN kube_reports_internal.origin g
				ON (g.cluster_id, g.resource_type, g.namespace, g.name) = (o.cluster_id,
				o.resource_type, o.namespace, o.name)
			CROSS JOIN LATERAL kube_reports_internal.result_difference(y.mapping_id, y.mapping, o.cluster_id, NULL,
				NULL, o.metadata, o.body) d
			LEFT JOIN kube_reports_internal.detail t ON t.id = d.detail
			LEFT JOIN LATERAL (SELECT jsonb_build_object('id', t.id, 'message', d.message, 'properties',
				d.properties::jsonb, 'exceptions', d.exceptions) AS expected,
					jsonb_build_object('id', t.id, 'message', t.message, 'properties', t.properties,
						'exceptions', t.exceptions) AS found
				WHERE d.message IS NOT NULL AND (t.message, t.properties, t.exceptions) <> (d.message,
					d.properties::jsonb, d.exceptions)) x ON true
		WHERE y.results = 'current'
			AND (o.cluster_id, o.resource_type, o.namespace, o.name) NOT IN (SELECT p.cluster_id, p.resource_type,
				p.namespace, p.name FROM pending p)
	), stored AS (
		SELECT coalesce(g.cluster_id, r.cluster_id) AS cluster_id, coalesce(g.namespace, r.namespace) AS namespace,
			g.name, r.origin, r.key,
			jsonb_build_object('criterion', r.criterion, 'subject', r.subject, 'detail', r.detail, 'status', r.status,
				'native_status', r.native_status, 'score', r.score, 'cluster_id', r.cluster_id, 'namespace',
					r.namespace) AS content
		FROM kube_reports_internal.result r LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
		WHERE NOT EXISTS (SELECT FROM pending p
			WHERE (p.cluster_id, p.resource_type, p.namespace, p.name) = (g.cluster_id,
				g.resource_type, g.namespace, g.name))
	)
	SELECT 'result', coalesce(w.cluster_id, s.cluster_id), coalesce(w.namespace, s.namespace),
		coalesce(w.name, s.name), w.content, s.content
		FROM wanted w FULL JOIN stored s ON s.origin = w.origin AND s.key = w.key
		WHERE w.content IS DISTINCT FROM s.content
	UNION ALL
	SELECT 'detail', w.cluster_id, w.namespace, w.name, w.expected_detail, w.found_detail FROM wanted w
		WHERE w.expected_detail IS NOT NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_results()
	IS 'results that differ from the documents, and their details: rows of verify()';

CREATE FUNCTION kube_reports_internal.wrong_times()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	begins		timestamptz := kube_reports_internal.history_begins();
BEGIN
	RETURN QUERY
	SELECT 'evaluated_at', o.cluster_id, o.namespace, o.name, to_jsonb(e.evaluated_at), to_jsonb(o.evaluated_at)
		FROM kube_reports.object o JOIN kube_reports.resource_type t ON t.id = o.resource_type
			CROSS JOIN LATERAL (SELECT CASE WHEN t.results = 'current'
				THEN kube_reports_internal.document_time(t.mapping_id, t.mapping, o.metadata, o.body) END)
				e(evaluated_at)
		WHERE o.evaluated_at IS DISTINCT FROM e.evaluated_at
			-- In the SQL variant the time comes with the results.
			AND (kube_reports_internal.variant() = 'c' OR NOT EXISTS (
				SELECT FROM kube_reports_internal.result_pending p JOIN kube_reports_internal.lane l ON l.id = p.lane
				WHERE (l.cluster_id, l.resource_type, p.namespace, p.name)
					= (o.cluster_id, o.resource_type, o.namespace, o.name)));

	-- The times of a result are stored in three places: the row, result_since (or the origin), and history.  If two of
	-- them agree, they are right: see mend_rows().
	RETURN QUERY
	WITH newest AS MATERIALIZED (
		SELECT DISTINCT ON (c.origin, c.key) c.origin, c.key, c.at, c.new_status,
			coalesce(c.first_seen, c.at) AS first_seen
		FROM kube_reports_internal.result_change c ORDER BY c.origin, c.key, c.version DESC, c.at DESC
	), timed AS MATERIALIZED (
		SELECT coalesce(r.origin, n.origin) AS origin, r.key IS NOT NULL AS stored, r.status, n.new_status,
			n.at, r.first_seen, r.since,
			coalesce(s.first_seen, g.first_seen) AS noted_first_seen, coalesce(s.since, g.first_seen) AS noted_since,
			(n.first_seen, n.at) IS NOT DISTINCT FROM (r.first_seen, r.since) AND n.new_status = r.status AS witnessed
		FROM kube_reports_internal.result r LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
			LEFT JOIN kube_reports_internal.result_since s ON s.origin = r.origin AND s.key = r.key
			FULL JOIN newest n ON n.origin = r.origin AND n.key = r.key
	)
	SELECT f.what, g.cluster_id, g.namespace, g.name, f.expected, f.found
		FROM timed t LEFT JOIN kube_reports_internal.origin g ON g.id = t.origin
			CROSS JOIN LATERAL (VALUES
				('result', NOT coalesce(t.witnessed, false)
					AND (t.first_seen, t.since) <> (t.noted_first_seen, t.noted_since),
					jsonb_build_object('first_seen', t.noted_first_seen, 'since', t.noted_since),
					jsonb_build_object('first_seen', t.first_seen, 'since', t.since)),
				('result_since', t.witnessed AND (t.first_seen, t.since) <> (t.noted_first_seen, t.noted_since),
					jsonb_build_object('first_seen', t.first_seen, 'since', t.since),
					jsonb_build_object('first_seen', t.noted_first_seen, 'since', t.noted_since)),
				-- Events of dropped months are not missing.
				('report_change', t.status IS DISTINCT FROM t.new_status AND (t.at IS NOT NULL OR t.since >= begins),
					CASE WHEN t.stored THEN jsonb_build_object('status', t.status, 'since', t.since) END,
					CASE WHEN t.at IS NOT NULL THEN jsonb_build_object('status', t.new_status, 'since', t.at) END))
						f(what, differs, expected, found)
		WHERE f.differs;

	RETURN QUERY
	SELECT 'result_since', g.cluster_id, g.namespace, g.name, NULL::jsonb,
			jsonb_build_object('origin', s.origin, 'key', s.key, 'first_seen', s.first_seen, 'since', s.since)
		FROM kube_reports_internal.result_since s LEFT JOIN kube_reports_internal.origin g ON g.id = s.origin
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.origin = s.origin AND r.key = s.key);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_times()
	IS 'times of results and times of evaluation that differ from the documents or from history: rows of verify()';

CREATE FUNCTION kube_reports_internal.wrong_history()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT 'report_change', g.cluster_id, g.namespace, g.name,
		jsonb_build_object('cluster_id', g.cluster_id, 'namespace', g.namespace),
			jsonb_build_object('cluster_id', c.cluster_id, 'namespace', c.namespace, 'version', c.version)
		FROM kube_reports_internal.report_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
		WHERE (c.cluster_id, c.namespace) <> (g.cluster_id, g.namespace);

	RETURN QUERY
	SELECT 'report_change', h.cluster_id, h.namespace, g.name, NULL::jsonb,
			jsonb_build_object('origin', h.origin, 'version', h.version, 'copy', h.copy)
		FROM kube_reports_internal.repeated_history() h LEFT JOIN kube_reports_internal.origin g ON g.id = h.origin
		WHERE h.copy > 1;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_history()
	IS 'rows of history of another place than their report, and repeated ones: rows of verify()';

CREATE FUNCTION kube_reports_internal.wrong_texts()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT m.missing, r.cluster_id, r.namespace, NULL::text,
		jsonb_build_object('origin', r.origin, 'key', r.key), NULL::jsonb
		FROM kube_reports_internal.result r
			LEFT JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
			LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
			CROSS JOIN LATERAL (VALUES ('criterion', k.id), ('subject', s.id), ('detail', d.id)) m(missing, id)
		WHERE m.id IS NULL;

	RETURN QUERY
	SELECT i.what, i.cluster_id, NULL::text, NULL::text, jsonb_build_object('hash', i.hash), i.content
		FROM (SELECT 'criterion' AS what, NULL::integer AS cluster_id, k.id,
				kube_reports_internal.field_hash('criterion', k.source, k.policy, k.rule, k.category,
					k.severity) AS hash, to_jsonb(k) AS content
				FROM kube_reports_internal.criterion k
			UNION ALL
			SELECT 'subject', s.cluster_id, s.id,
				kube_reports_internal.field_hash('subject', s.cluster_id::text, s.api_version, s.kind, s.namespace,
					s.name, s.uid), to_jsonb(s)
				FROM kube_reports_internal.subject s
			UNION ALL
			SELECT 'actor', NULL, a.id, kube_reports_internal.field_hash('actor', a.name), to_jsonb(a)
				FROM kube_reports_internal.actor a) i
		WHERE i.hash <> i.id;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_texts()
	IS 'criteria, subjects, details and actors that are missing or do not match their ids: rows of verify()';

CREATE FUNCTION kube_reports_internal.wrong_totals()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT f.what, w.cluster_id, w.namespace, NULL::text,
			jsonb_build_object('criterion', w.criterion, 'kind', w.kind, 'status', w.status, 'native_status',
				w.native_status, 'count', w.expected),
			jsonb_build_object('count', f.count)
		FROM kube_reports_internal.wrong_counts() w
			CROSS JOIN LATERAL (VALUES ('rollup', w.found), ('rollup_daily', w.daily)) f(what, count)
		WHERE w.expected <> f.count;

	RETURN QUERY
	SELECT 'rollup_delta', d.cluster_id, d.namespace, NULL::text, NULL::jsonb,
			jsonb_build_object('xid', d.xid, 'id', d.id)
		FROM kube_reports_internal.rollup_delta d
		WHERE d.xid < (SELECT m.mark FROM kube_reports_internal.rollup_mark m);

	RETURN QUERY
	SELECT 'rollup_daily', NULL::integer, NULL::text, NULL::text, NULL::jsonb, to_jsonb(d)
		FROM kube_reports_internal.rollup_daily d
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.rollup r WHERE r.id = d.rollup);

	RETURN QUERY
	SELECT 'rollup_policy', w.cluster_id, w.namespace, NULL::text,
			jsonb_build_object('policy', w.policy, 'status', w.status, 'count', w.expected),
				jsonb_build_object('count', w.found)
		FROM kube_reports_internal.wrong_policies() w
	UNION ALL
	SELECT 'rollup_policy', p.cluster_id, p.namespace, NULL, NULL, to_jsonb(p)
		FROM kube_reports_internal.rollup_policy p
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.criterion k WHERE k.id = p.criterion
			AND k.policy_id = p.policy);

	RETURN QUERY
	SELECT 'score_daily', w.cluster_id, w.namespace, NULL::text,
			jsonb_build_object('source', w.source, 'category', w.category, 'severity', w.severity, 'status',
				w.status, 'count', w.expected),
			jsonb_build_object('count', w.found)
		FROM kube_reports_internal.wrong_scores() w;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_totals()
	IS 'counts that differ from the results, and rows that count nothing: rows of verify()';

CREATE FUNCTION kube_reports.verify()
	RETURNS TABLE (what text, cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	RETURN QUERY SELECT w.* FROM kube_reports_internal.wrong_results() w;
	RETURN QUERY SELECT w.* FROM kube_reports_internal.wrong_times() w;
	RETURN QUERY SELECT w.* FROM kube_reports_internal.wrong_history() w;
	RETURN QUERY SELECT w.* FROM kube_reports_internal.wrong_texts() w;
	RETURN QUERY SELECT w.* FROM kube_reports_internal.wrong_totals() w;
	RETURN QUERY SELECT w.name, NULL::integer, NULL::text, NULL::text, w.expected, w.found
		FROM (SELECT t.* FROM kube_reports_internal.wrong_tables() t
			UNION ALL SELECT d.* FROM kube_reports_internal.wrong_definitions() d) w;
	RETURN QUERY SELECT 'summary', w.cluster_id, w.namespace, w.name, w.expected, w.found
		FROM kube_reports_internal.wrong_summaries() w;
END
$$;
COMMENT ON FUNCTION kube_reports.verify()
	IS 'compares results, times, history and counts with the documents and with each other, and the summaries of '
		'set_summaries() with results: a row for each difference, none when all is well. what: the table that is '
		'wrong. It takes as long as reading everything; rebuild() corrects the differences. It also names tables '
		'without the rows that every store has, which rebuild() makes, and those that are UNLOGGED or have disabled '
		'triggers or invalid indexes, which ALTER TABLE or REINDEX correct; where an index, a trigger or a key was '
		'dropped, or a dump would lack a table, expected has the statement that corrects it';
