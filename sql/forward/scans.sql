-- scans.sql
--	  Forwarded results of scans, as reports.
--
-- Results of a scan become ClusterReports of openreports.io: one for each
-- subject and each of 32 groups of rules.  A batch rewrites only the reports
-- of its rules, and one report has few results whatever the size of the scan.

CREATE FUNCTION kube_reports_internal.result_key(subject text, kind text, rule text) RETURNS bigint
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT ('x' || encode(substr(sha256(convert_to(concat_ws(E'\n', subject, kind, rule), 'UTF8')), 1, 8), 'hex'))
		::bit(64)::bigint;
END;
COMMENT ON FUNCTION kube_reports_internal.result_key(text, text, text)
	IS 'the key that identifies a result of a scan; it is the same in every run';

CREATE FUNCTION kube_reports_internal.rule_group(rule text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT lpad(to_hex(get_byte(sha256(convert_to(rule, 'UTF8')), 0) % 32), 2, '0');
END;
COMMENT ON FUNCTION kube_reports_internal.rule_group(text)
	IS 'the number of the report, of the 32 reports of a subject, that has the results of a rule';

CREATE FUNCTION kube_reports_internal.scan_report_name(scan text, subject text, kind text, rule text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT replace(scan, '_', '-') || '.'
		|| encode(substr(sha256(convert_to(concat_ws(E'\n', scan, subject, kind), 'UTF8')), 1, 8), 'hex') || '.'
		|| kube_reports_internal.rule_group(rule);
END;
COMMENT ON FUNCTION kube_reports_internal.scan_report_name(text, text, text, text)
	IS 'the name of the ClusterReport that has the result of a rule for a subject';

CREATE FUNCTION kube_reports_internal.scan_label(scan text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT 'forward.kube-reports.io/scan=' || scan;
END;
COMMENT ON FUNCTION kube_reports_internal.scan_label(text)
	IS 'the search term of the label of all reports of a scan';

CREATE FUNCTION kube_reports_internal.scan_time(document jsonb) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found		timestamptz;
BEGIN
	found := least(coalesce(document#>>'{scan,endTimestamp}', document#>>'{scan,startTimestamp}')::timestamptz, now());
	RETURN CASE WHEN isfinite(found) THEN found END;
EXCEPTION WHEN data_exception THEN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.scan_time(jsonb)
	IS 'the time at which a scan ended, or else began, but not a time in the future; null if the scan has no valid '
		'time';

-- Whatever tells results apart does it by this kind: a word that is unknown here makes no other subject.
CREATE FUNCTION kube_reports_internal.subject_kind(result jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE result#>>'{extra,resourceType}' WHEN 'node' THEN 'Node' ELSE 'Cluster' END;
END;
COMMENT ON FUNCTION kube_reports_internal.subject_kind(jsonb) IS 'the kind of the subject of a forwarded result';

CREATE FUNCTION kube_reports_internal.is_payload(payload jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_typeof(payload) = 'null' OR jsonb_typeof(payload) = 'object'
		AND coalesce(jsonb_typeof(payload->'object') IN ('object', 'null'), true)
		AND coalesce(length(payload#>>'{object,kind}') <= 253, true)
		AND coalesce(length(payload#>>'{object,metadata,name}') <= 253, true), true);
END;
COMMENT ON FUNCTION kube_reports_internal.is_payload(jsonb)
	IS 'whether a value can be the member current or outdated of a forwarded remediation; both may be absent';

-- The results of a rule keep its remediations in their properties, so that a reader sees both or neither.  The views of
-- remediations read them there.
CREATE FUNCTION kube_reports_internal.remediation_properties(remediation jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_object_agg(p.key || (remediation->>'name'), p.value)
	FROM (VALUES ('remediation/', coalesce(nullif(remediation->>'applicationState', ''), 'NotApplied')),
		('remediation-type/', nullif(remediation->>'type', '')),
		('remediation-apply/', CASE remediation->>'apply' WHEN 'true' THEN 'true' END),
		('remediation-outdated/', CASE jsonb_typeof(remediation#>'{outdated,object}') WHEN 'object' THEN 'true' END),
		('remediation-error/', nullif(remediation->>'errorMessage', '')),
		('remediation-kind/', remediation#>>'{current,object,kind}'),
		('remediation-object/', remediation#>>'{current,object,metadata,name}')) p(key, value);
END;
COMMENT ON FUNCTION kube_reports_internal.remediation_properties(jsonb)
	IS 'the properties of results that a forwarded remediation becomes; null: the result loses the property';

CREATE FUNCTION kube_reports_internal.check_results(document jsonb) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH scalar(place, message, good) AS (
		VALUES ('/assessmentId', 'must be a text of 1 to 253 characters',
				coalesce(length(document->>'assessmentId') BETWEEN 1 AND 253, false)),
			('/apiVersion', 'must be "forward/v1"', document->>'apiVersion' IS NOT DISTINCT FROM 'forward/v1'),
			('/seq', 'must be an integer from 1 to 9999',
				coalesce(jsonb_typeof(document->'seq') = 'number' AND document->>'seq' ~ '^[1-9][0-9]{0,3}$', false)),
			('/last', 'must be true or false', coalesce(jsonb_typeof(document->'last') = 'boolean', true)),
			('/prune', 'must be "scan" or absent', coalesce(document->>'prune' = 'scan', true)),
			('/scan/name', 'must be a name of 1 to 63 lower-case letters, digits, dots, hyphens and underscores',
				coalesce(document#>>'{scan,name}' ~ '^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$', false)),
			('/scan/' || CASE WHEN document#>>'{scan,endTimestamp}' IS NULL THEN 'startTimestamp'
				ELSE 'endTimestamp' END,
				'must be a time such as 2026-01-05T01:06:10Z', kube_reports_internal.scan_time(document) IS NOT NULL),
			('/results', 'must be an array', coalesce(jsonb_typeof(document->'results') = 'array', true)),
			('/remediations', 'must be an array', coalesce(jsonb_typeof(document->'remediations') = 'array', true))
	), result AS (
		SELECT r.value, r.position - 1 AS n
		FROM jsonb_array_elements(CASE jsonb_typeof(document->'results') WHEN 'array' THEN document->'results'
			ELSE '[]' END) WITH ORDINALITY r(value, position)
	), remediation AS (
		SELECT r.value, r.position - 1 AS n
		FROM jsonb_array_elements(CASE jsonb_typeof(document->'remediations') WHEN 'array' THEN document->'remediations'
			ELSE '[]' END) WITH ORDINALITY r(value, position)
	), wrong(part, n, place, message) AS (
		SELECT 0, 0, s.place, s.message FROM scalar s WHERE NOT s.good
		UNION ALL
		SELECT 2, m.n, '/remediations/' || m.n, 'is one of more than 100 remediations of its rule'
		FROM (SELECT r.n, row_number() OVER (PARTITION BY r.value->>'rule' ORDER BY r.n) AS place
			FROM remediation r WHERE jsonb_typeof(r.value) = 'object') m
		WHERE m.place > 100
		UNION ALL
		SELECT 1, r.n, '/results/' || r.n || c.field, c.message
		FROM result r CROSS JOIN LATERAL (VALUES
			('', 'must be an object', jsonb_typeof(r.value) = 'object'),
			('/rule', 'must be a text of 1 to 1000 characters',
				jsonb_typeof(r.value->'rule') = 'string' AND length(r.value->>'rule') BETWEEN 1 AND 1000),
			('/subject', 'must be a text of at most 253 characters',
				coalesce(jsonb_typeof(r.value->'subject') = 'string' AND length(r.value->>'subject') <= 253, true)),
			('/outcome', 'must be PASS, FAIL, INFO, MANUAL, ERROR, NOT-APPLICABLE or INCONSISTENT',
				r.value->>'outcome' IN ('PASS', 'FAIL', 'INFO', 'MANUAL', 'ERROR', 'NOT-APPLICABLE', 'INCONSISTENT')),
			('/severity', 'must be unknown, info, low, medium, high or critical',
				coalesce(r.value->>'severity' IN ('', 'unknown', 'info', 'low', 'medium', 'high', 'critical'), true)),
			('/extra', 'must be an object of texts', coalesce(jsonb_typeof(r.value->'extra') = 'object'
				AND NOT EXISTS (SELECT FROM jsonb_each(CASE jsonb_typeof(r.value->'extra') WHEN 'object'
					THEN r.value->'extra' ELSE '{}' END) x WHERE jsonb_typeof(x.value) <> 'string'), true)))
				c(field, message, good)
		WHERE c.good IS NOT TRUE AND (c.field = '' OR jsonb_typeof(r.value) = 'object')
		UNION ALL
		SELECT 1, max(r.n), '/results/' || max(r.n),
			'is the result of a rule and subject that comes before in the batch'
		FROM result r
		WHERE jsonb_typeof(r.value) = 'object'
		GROUP BY r.value->>'rule', coalesce(r.value->>'subject', ''),
			kube_reports_internal.subject_kind(r.value) HAVING count(*) > 1
		UNION ALL
		SELECT 2, r.n, '/remediations/' || r.n || c.field, c.message
		FROM remediation r CROSS JOIN LATERAL (VALUES
			('', 'must be an object', jsonb_typeof(r.value) = 'object'),
			('/name', 'must be a text of 1 to 253 characters', length(r.value->>'name') BETWEEN 1 AND 253),
			('/rule', 'must be a text of 1 to 1000 characters', length(r.value->>'rule') BETWEEN 1 AND 1000),
			('/applicationState', 'must be a text of at most 63 characters',
				coalesce(length(r.value->>'applicationState') <= 63, true)),
			('/type', 'must be a text of at most 63 characters', coalesce(length(r.value->>'type') <= 63, true)),
			('/apply', 'must be true or false', coalesce(jsonb_typeof(r.value->'apply') IN ('boolean', 'null'), true)),
			('/errorMessage', 'must be a text of at most 2000 characters',
				coalesce(length(r.value->>'errorMessage') <= 2000, true)),
			('/current', 'must be an object with an object that has a kind and a name, each of at most 253 characters',
				kube_reports_internal.is_payload(r.value->'current')),
			('/outdated', 'must be an object with an object that has a kind and a name, each of at most 253 characters',
				kube_reports_internal.is_payload(r.value->'outdated'))) c(field, message, good)
		WHERE c.good IS NOT TRUE AND (c.field = '' OR jsonb_typeof(r.value) = 'object')
	)
	SELECT coalesce(array_agg(ROW(w.place, w.message)::kube_reports_internal.refusal
		ORDER BY w.part, w.n, w.place), '{}')
	FROM wrong w
$$;
COMMENT ON FUNCTION kube_reports_internal.check_results(jsonb) IS 'all errors in a batch of results';

-- A document gets the words of ComplianceCheckResults.  So views show forwarded results like the results of a cluster
-- whose reports are served through the API: see results/mappings.sql.
CREATE FUNCTION kube_reports_internal.scan_result(document jsonb, value jsonb, seconds bigint) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_strip_nulls(jsonb_build_object('source', 'Compliance Operator', 'policy', document#>>'{scan,name}',
		'rule', value->>'rule', 'category', document#>>'{scan,suite}', 'message', value->>'description',
		'severity', nullif(nullif(value->>'severity', ''), 'unknown'),
		'result', CASE value->>'outcome' WHEN 'PASS' THEN 'pass' WHEN 'FAIL' THEN 'fail' WHEN 'ERROR' THEN 'error'
			WHEN 'INCONSISTENT' THEN 'error' ELSE 'skip' END,
		'timestamp', jsonb_build_object('nanos', 0, 'seconds', seconds),
		-- Only remediations have the properties of remediations.
		'properties', (CASE jsonb_typeof(value->'extra') WHEN 'object' THEN (value->'extra') - ARRAY(SELECT k.key
				FROM jsonb_object_keys(value->'extra') k(key) WHERE k.key ~ '^remediation(-[a-z]+)?/')
			ELSE '{}'::jsonb END)
			|| jsonb_strip_nulls(jsonb_build_object('outcome', value->>'outcome', 'id', value->>'id',
				'control', value->>'control', 'instructions', value->>'instructions', 'rationale', value->>'rationale',
				'profile', document#>>'{scan,profile}',
				'warnings', nullif(nullif(value->>'warnings', '[]'), 'null'),
				'valuesUsed', nullif(nullif(value->>'valuesUsed', '[]'), 'null')))));
END;

COMMENT ON FUNCTION kube_reports_internal.scan_result(jsonb, jsonb, bigint)
	IS 'a forwarded result in the form of a result of a report; seconds: the time at which it was found';

CREATE FUNCTION kube_reports_internal.forward_store(cluster uuid, "group" text, version text, resource text,
	source_versions text[], metadatas text[], bodies text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refused		text;
	stored		bigint;
BEGIN
	SELECT min(i.reason) FILTER (WHERE i.outcome NOT IN ('imported', 'updated', 'unchanged')),
			count(*) FILTER (WHERE i.outcome <> 'unchanged') INTO refused, stored
		FROM kube_reports_internal.api_import(cluster, "group", version, resource, source_versions, metadatas, bodies,
			true, source => 'sender') i;
	IF refused IS NOT NULL THEN
		RAISE EXCEPTION 'a report of forwarded results is refused: %', refused USING ERRCODE = 'KR400';
	END IF;
	RETURN stored;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_store(uuid, text, text, text, text[], text[], text[])
	IS 'stores objects of one type without changes, and derives their results. Returns the number of objects that '
		'changed. Raises KR400 if one is refused';

CREATE FUNCTION kube_reports_internal.forward_delete(cluster uuid, "group" text, version text, resource text,
	namespaces text[], names text[], uids text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
	newest		bigint;
	written_at	timestamptz;
	removed		bigint;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.import_target(cluster, "group", version, resource,
		kube_reports_internal.this_caller());
	PERFORM kube_reports_internal.lock_store_shared();
	PERFORM kube_reports_internal.lock_lane(target.lane);
	PERFORM kube_reports_internal.require_generation(target.generation);
	newest := kube_reports_internal.lane_version(target.lane);
	written_at := kube_reports_internal.lane_time(target.lane);
	PERFORM kube_reports_internal.begin_own_write();
	WITH going AS MATERIALIZED (
		SELECT w.namespace, w.name FROM unnest(namespaces, names, uids) WITH ORDINALITY
				w(namespace, name, uid, position)
			CROSS JOIN LATERAL (SELECT o.uid FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND o.namespace = w.namespace AND o.name = w.name LIMIT 1) o
			WHERE w.uid IS NULL OR o.uid::text = w.uid
			ORDER BY w.position
	), gone AS MATERIALIZED (
		SELECT kube_reports_internal.import_removal(target.lane, target.cluster_id, target.type_id, written_at,
			g.namespace, g.name)
			FROM going g
	)
	SELECT count(*) INTO removed FROM gone;
	DELETE FROM kube_reports_internal.imported i USING unnest(namespaces, names) w(namespace, name)
		WHERE i.lane = target.lane AND i.namespace = w.namespace AND i.name = w.name;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
	PERFORM kube_reports_internal.import_derive(target.lane, target.mapping_id IS NOT NULL, target.aggregated, newest);
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_delete(uuid, text, text, text, text[], text[], text[])
	IS 'deletes objects of one type, each only if it has the given uid (null: any uid), and updates results. Returns '
		'their number';

CREATE FUNCTION kube_reports_internal.prune_scan(cluster uuid, cluster_id integer, type_id integer, scan text,
	source_version text, seen bigint[], remediations bigint[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	empty		text[];
	metadatas	text[];
	bodies		text[];
	removed		bigint;
BEGIN
	WITH report AS MATERIALIZED (
		SELECT o.name, o.metadata, o.body, r.kept, r.gone, r.fixes
		FROM (
			-- Each document is parsed once.
			SELECT o.name, o.metadata, o.body::jsonb AS body FROM kube_reports.object o
			WHERE o.cluster_id = prune_scan.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.labels @> ARRAY[kube_reports_internal.scan_label(scan)]
			OFFSET 0) o CROSS JOIN LATERAL (
			SELECT jsonb_agg(CASE WHEN f.keys IS NULL THEN x.value
					-- The marker goes with the last remediation.
					ELSE jsonb_set(x.value, '{properties}', (x.value->'properties')
						- CASE WHEN f.others THEN f.keys ELSE f.keys || 'automated-remediation'::text END) END
					ORDER BY x.position) FILTER (WHERE x.here) AS kept,
				count(*) FILTER (WHERE NOT x.here) AS gone,
				count(f.keys) FILTER (WHERE x.here) AS fixes
			FROM (SELECT r.value, r.position, kube_reports_internal.result_key(o.body#>>'{scope,name}',
					o.body#>>'{scope,kind}', r.value->>'rule') = ANY (seen) AS here
				FROM jsonb_array_elements(o.body->'results') WITH ORDINALITY r(value, position)) x
				CROSS JOIN LATERAL (
					SELECT array_agg(p.key) FILTER (WHERE NOT p.here) AS keys, bool_or(p.here) IS TRUE AS others
					FROM (SELECT k.key, kube_reports_internal.result_key(substr(k.key, strpos(k.key, '/') + 1),
							'Remediation', x.value->>'rule') = ANY (remediations) AS here
						FROM jsonb_object_keys(CASE jsonb_typeof(x.value->'properties') WHEN 'object'
							THEN x.value->'properties' ELSE '{}' END) k(key)
						WHERE remediations IS NOT NULL AND k.key ~ '^remediation(-[a-z]+)?/') p) f) r
	)
	SELECT array_agg(r.name ORDER BY r.name) FILTER (WHERE r.kept IS NULL),
			array_agg(r.metadata::text ORDER BY r.name) FILTER (WHERE r.kept IS NOT NULL),
			array_agg((r.body || jsonb_build_object('results', r.kept, 'summary', (SELECT jsonb_build_object(
				'error', count(*) FILTER (WHERE k.value->>'result' = 'error'),
				'fail', count(*) FILTER (WHERE k.value->>'result' = 'fail'),
				'pass', count(*) FILTER (WHERE k.value->>'result' = 'pass'),
				'skip', count(*) FILTER (WHERE k.value->>'result' = 'skip'), 'warn', 0)
				FROM jsonb_array_elements(r.kept) k(value))))::text ORDER BY r.name) FILTER (WHERE r.kept IS NOT NULL),
			coalesce(sum(r.gone), 0)
		INTO empty, metadatas, bodies, removed
		FROM report r WHERE r.gone > 0 OR r.fixes > 0;
	IF metadatas IS NOT NULL THEN
		PERFORM kube_reports_internal.forward_store(cluster, 'openreports.io', 'v1alpha1', 'clusterreports',
			array_fill(source_version, ARRAY[cardinality(metadatas)]), metadatas, bodies);
	END IF;
	IF empty IS NOT NULL THEN
		PERFORM kube_reports_internal.forward_delete(cluster, 'openreports.io', 'v1alpha1', 'clusterreports',
			array_fill(''::text, ARRAY[cardinality(empty)]), empty, array_fill(NULL::text, ARRAY[cardinality(empty)]));
	END IF;
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.prune_scan(uuid, integer, integer, text, text, bigint[], bigint[])
	IS 'removes the results of a scan whose keys are not in seen, and returns their number; removes from the others '
		'the remediations whose keys are not in remediations (null: keeps all)';

-- A sender chooses the names of scans.  A scan that has reports keeps its row, by which forward_sync() recognizes these
-- reports.
CREATE FUNCTION kube_reports_internal.allow_scan(cluster_id integer, type_id integer, scan text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	max_scans CONSTANT integer := 1000;
BEGIN
	IF EXISTS (SELECT FROM kube_reports_internal.forward_assessment a
			WHERE a.cluster_id = allow_scan.cluster_id AND a.scan = allow_scan.scan)
		OR (SELECT count(DISTINCT a.scan) FROM kube_reports_internal.forward_assessment a
			WHERE a.cluster_id = allow_scan.cluster_id) < max_scans THEN
		RETURN;
	END IF;
	DELETE FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = allow_scan.cluster_id AND (a.finished OR NOT a.latest)
			AND NOT EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = allow_scan.cluster_id
				AND o.resource_type = type_id AND o.namespace = ''
				AND o.labels @> ARRAY[kube_reports_internal.scan_label(a.scan)]);
	IF (SELECT count(DISTINCT a.scan) FROM kube_reports_internal.forward_assessment a
			WHERE a.cluster_id = allow_scan.cluster_id) >= max_scans THEN
		RAISE EXCEPTION 'a cluster has at most % scans', max_scans USING ERRCODE = 'KR400';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.allow_scan(integer, integer, text)
	IS 'makes room for one more scan of a cluster: deletes the rows of finished scans that have no reports. Raises '
		'KR400 if there are too many scans';

CREATE FUNCTION kube_reports_internal.store_results(cluster_id integer, cluster uuid, type_id integer, document jsonb,
	source_version text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- A batch has results or remediations: a plan for its values leaves out what the other kind needs.  The number of
-- reports with the label of a scan depends on the scan.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
	scan_name	text := document#>>'{scan,name}';
	results		jsonb := CASE jsonb_typeof(document->'results') WHEN 'array' THEN document->'results' ELSE '[]' END;
	remediations jsonb := CASE jsonb_typeof(document->'remediations') WHEN 'array' THEN document->'remediations'
		ELSE '[]' END;
	seconds		bigint := extract(epoch FROM kube_reports_internal.scan_time(document));
	changed		bigint;
	names		text[];
	metadatas	text[];
	bodies		text[];
	most_fixes	bigint;
	max_fixes CONSTANT integer := 100;
BEGIN
	WITH given AS MATERIALIZED (
		SELECT r.position, s.subject, s.kind, r.value->>'rule' AS rule,
			kube_reports_internal.result_key(s.subject, s.kind, r.value->>'rule') AS key,
			kube_reports_internal.scan_report_name(scan_name, s.subject, s.kind, r.value->>'rule') AS name,
			kube_reports_internal.scan_result(document, r.value, seconds) AS result
		FROM jsonb_array_elements(results) WITH ORDINALITY r(value, position)
			CROSS JOIN LATERAL (SELECT coalesce(r.value->>'subject', '') AS subject,
				kube_reports_internal.subject_kind(r.value) AS kind) s
	), fix AS MATERIALIZED (
		SELECT m.value->>'rule' AS rule, kube_reports_internal.rule_group(m.value->>'rule') AS rules,
			jsonb_object_agg(p.key, p.value) AS states
		FROM jsonb_array_elements(remediations) m(value)
			CROSS JOIN LATERAL jsonb_each(kube_reports_internal.remediation_properties(m.value)) p
		GROUP BY 1
	), touched AS MATERIALIZED (
		SELECT g.name FROM given g
		UNION
		SELECT o.name FROM kube_reports.object o WHERE remediations <> '[]'
			AND o.cluster_id = store_results.cluster_id AND o.resource_type = type_id AND o.namespace = ''
			AND o.labels @> ARRAY[kube_reports_internal.scan_label(scan_name)]
			AND right(o.name, 2) IN (SELECT f.rules FROM fix f)
	), stored AS MATERIALIZED (
		SELECT o.name, o.metadata, o.body::jsonb AS body
		FROM touched t CROSS JOIN LATERAL (SELECT * FROM kube_reports.object o
			WHERE o.cluster_id = store_results.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.name = t.name LIMIT 1) o
	), old AS MATERIALIZED (
		-- A sender can store such a report as an object, with several results of a rule: one result of each stays.
		SELECT DISTINCT ON (s.name, k.key) s.name, r.value AS result, k.key
		FROM stored s CROSS JOIN LATERAL jsonb_array_elements(s.body->'results') WITH ORDINALITY r(value, position)
			CROSS JOIN LATERAL (SELECT kube_reports_internal.result_key(s.body#>>'{scope,name}',
				s.body#>>'{scope,kind}', r.value->>'rule')) k(key)
		ORDER BY s.name, k.key, r.position
	), merged AS MATERIALIZED (
		SELECT coalesce(g.name, o.name) AS name, g.subject, g.kind, coalesce(g.rule, o.result->>'rule') AS rule,
			o.result AS before, f.states IS NOT NULL AS fixed,
			-- A new result keeps the known states of remediations until the batch of remediations comes.
			CASE WHEN f.states IS NULL AND k.kept IS NULL THEN coalesce(g.result, o.result)
				ELSE jsonb_set(coalesce(g.result, o.result), '{properties}', jsonb_strip_nulls(
					coalesce(coalesce(g.result, o.result)->'properties', '{}') || coalesce(k.kept, '{}')
						|| coalesce(f.states, '{}') || '{"automated-remediation": "true"}')) END AS after
		FROM given g FULL JOIN old o ON o.name = g.name AND o.key = g.key
			LEFT JOIN fix f ON f.rule = coalesce(g.rule, o.result->>'rule')
			LEFT JOIN LATERAL (SELECT jsonb_object_agg(p.key, p.value) AS kept
				FROM jsonb_each(CASE WHEN g.result IS NOT NULL THEN o.result->'properties' END) p
				WHERE p.key ~ '^remediation(-[a-z]+)?/') k ON true
	), report AS MATERIALIZED (
		SELECT m.name, max(m.subject) AS subject, max(m.kind) AS kind,
			jsonb_agg(m.after ORDER BY m.rule) AS results,
			count(*) FILTER (WHERE m.before - 'timestamp' IS DISTINCT FROM m.after - 'timestamp') AS changed,
			max((SELECT count(*) FROM jsonb_object_keys(m.after->'properties') k(key)
				WHERE starts_with(k.key, 'remediation/'))) FILTER (WHERE m.fixed) AS fixes,
			jsonb_build_object('error', count(*) FILTER (WHERE m.after->>'result' = 'error'),
				'fail', count(*) FILTER (WHERE m.after->>'result' = 'fail'),
				'pass', count(*) FILTER (WHERE m.after->>'result' = 'pass'),
				'skip', count(*) FILTER (WHERE m.after->>'result' = 'skip'), 'warn', 0) AS summary
		FROM merged m
		GROUP BY m.name
	)
	SELECT array_agg(r.name ORDER BY r.name),
			array_agg(coalesce(s.metadata::text, jsonb_build_object('name', r.name, 'uid', gen_random_uuid(),
				'creationTimestamp', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
				'labels', jsonb_build_object('forward.kube-reports.io/scan', scan_name))::text) ORDER BY r.name),
			array_agg((jsonb_build_object('source', 'Compliance Operator', 'results', r.results, 'summary', r.summary,
				'scope', coalesce(s.body->'scope', jsonb_build_object('apiVersion', 'v1', 'kind', r.kind,
					'name', r.subject))))::text ORDER BY r.name),
			coalesce(sum(r.changed), 0), max(r.fixes)
		INTO names, metadatas, bodies, changed, most_fixes
		FROM report r LEFT JOIN stored s ON s.name = r.name;
	-- Each run keeps the remediations that it does not have: without a limit, a result would grow for ever.
	IF most_fixes > max_fixes THEN
		RAISE EXCEPTION 'a rule has at most % remediations: a run with prune removes those that are gone', max_fixes
			USING ERRCODE = 'KR400';
	END IF;
	IF names IS NOT NULL THEN
		PERFORM kube_reports_internal.forward_store(cluster, 'openreports.io', 'v1alpha1', 'clusterreports',
			array_fill(source_version, ARRAY[cardinality(names)]), metadatas, bodies);
	END IF;
	RETURN changed;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.store_results(integer, uuid, integer, jsonb, text)
	IS 'stores the results and remediations of a batch in the reports of its scan; returns the number of results that '
		'changed. Raises KR400 if a rule would have more than 100 remediations';

-- A remediation is stored with every result of its rule, and a rule has a result for each subject: at most as many as
-- there are reports of the rule's group.
CREATE FUNCTION kube_reports_internal.remediation_bytes(cluster_id integer, type_id integer, document jsonb)
	RETURNS numeric
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(sum(f.bytes * (coalesce(s.reports, 0) + coalesce(g.results, 0))), 0)
	FROM (SELECT kube_reports_internal.rule_group(m.value->>'rule') AS rules,
				sum(octet_length(kube_reports_internal.remediation_properties(m.value)::text)) AS bytes
			FROM jsonb_array_elements(document->'remediations') m(value) GROUP BY 1) f
		LEFT JOIN (SELECT right(o.name, 2) AS rules, count(*) AS reports FROM kube_reports.object o
			WHERE o.cluster_id = remediation_bytes.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.labels @> ARRAY[kube_reports_internal.scan_label(document#>>'{scan,name}')]
			GROUP BY 1) s ON s.rules = f.rules
		LEFT JOIN (SELECT kube_reports_internal.rule_group(r.value->>'rule') AS rules, count(*) AS results
			FROM jsonb_array_elements(CASE jsonb_typeof(document->'results') WHEN 'array' THEN document->'results'
				ELSE '[]' END) r(value) GROUP BY 1) g ON g.rules = f.rules
$$;
COMMENT ON FUNCTION kube_reports_internal.remediation_bytes(integer, integer, jsonb)
	IS 'how many bytes the remediations of a batch add to the results of a scan, at most';

CREATE FUNCTION kube_reports_internal.batch_out_of_turn(run kube_reports_internal.forward_assessment, document jsonb,
	digest bytea, accepted bigint, OUT code integer, OUT reply bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given_seq CONSTANT integer := (document->>'seq')::integer;
	scan_name CONSTANT text := document#>>'{scan,name}';
	run_id CONSTANT text := document->>'assessmentId';
BEGIN
	IF run.seq IS NOT NULL AND given_seq <= run.seq THEN
		IF given_seq = run.seq AND run.digest <> batch_out_of_turn.digest THEN
			code := 409;
			reply := kube_reports_internal.forward_refusal(409, 'Conflict',
				format('batch %s of assessment "%s" was another one', given_seq, run_id));
			RETURN;
		END IF;
		code := 200;
		reply := convert_to(CASE WHEN given_seq = run.seq THEN run.reply ELSE jsonb_build_object('accepted', accepted,
			'changed', 0, 'pruned', 0, 'cursor', run_id || ':' || run.seq) END::text, 'UTF8');
	ELSIF given_seq <> coalesce(run.seq, 0) + 1 OR run.finished OR NOT run.latest THEN
		code := 409;
		reply := kube_reports_internal.forward_refusal(409, 'Conflict', CASE
			WHEN run.finished THEN format('assessment "%s" is finished', run_id)
			WHEN NOT run.latest THEN format('a later assessment of scan "%s" has begun', scan_name)
			ELSE format('batch %s is expected, not %s', coalesce(run.seq, 0) + 1, given_seq) END,
			ARRAY[ROW('/seq', 'must be ' || coalesce(run.seq, 0) + 1)::kube_reports_internal.refusal]);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.batch_out_of_turn(kube_reports_internal.forward_assessment, jsonb, bytea,
	bigint)
	IS 'the answer to a batch that was stored before, or that is not the next one of its assessment; nulls: it is the '
		'next one. accepted: the number of its items';

CREATE FUNCTION kube_reports_internal.forget_assessments(cluster_id integer, scan_name text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_runs CONSTANT integer := 100;
BEGIN
	DELETE FROM kube_reports_internal.forward_seen s
		WHERE s.cluster_id = forget_assessments.cluster_id AND s.scan = scan_name;
	UPDATE kube_reports_internal.forward_assessment a SET latest = false
		WHERE a.cluster_id = forget_assessments.cluster_id AND a.scan = scan_name AND a.latest;
	DELETE FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = forget_assessments.cluster_id AND a.scan = scan_name
			AND (a.received_at < now() - interval '30 days' OR a.assessment IN (
				SELECT o.assessment FROM kube_reports_internal.forward_assessment o
				WHERE o.cluster_id = a.cluster_id AND o.scan = a.scan
				ORDER BY o.received_at DESC, o.assessment OFFSET max_runs - 1));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forget_assessments(integer, text)
	IS 'forgets what was seen of the scan before, and its oldest assessments';

CREATE FUNCTION kube_reports_internal.forward_results(sender text, cluster_id integer, cluster uuid, document jsonb,
	digest bytea, OUT code integer, OUT reply bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The number of reports with the label of a scan depends on the scan: plan for its value.  Most of the reports may be
-- newer than all statistics: find them by name or label.  The settings also hold for store_results(), prune_scan(),
-- forget_assessments() and allow_scan().
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	run			kube_reports_internal.forward_assessment;
	max_bytes CONSTANT integer := 32000000;
	given_seq	integer := (document->>'seq')::integer;
	scan_name	text := document#>>'{scan,name}';
	run_id		text := document->>'assessmentId';
	last		boolean := coalesce((document->>'last')::boolean, false);
	prunes		boolean := coalesce(document->>'prune' = 'scan', false);
	type_id		integer := (SELECT t.id FROM kube_reports.resource_type t
		WHERE t."group" = 'openreports.io' AND t.plural = 'clusterreports');
	results		jsonb := CASE jsonb_typeof(document->'results') WHEN 'array' THEN document->'results' ELSE '[]' END;
	remediations jsonb := CASE jsonb_typeof(document->'remediations') WHEN 'array' THEN document->'remediations'
		ELSE '[]' END;
	accepted	bigint := jsonb_array_length(results) + jsonb_array_length(remediations);
	changed		bigint;
	pruned		bigint := 0;
	seen		bigint[];
	-- A run that has an array of remediations, even an empty one, tells all remediations of the scan.
	fixes		bigint[] := CASE jsonb_typeof(document->'remediations') WHEN 'array' THEN
		ARRAY(SELECT kube_reports_internal.result_key(m.value->>'name', 'Remediation', m.value->>'rule')
			FROM jsonb_array_elements(remediations) m(value)) END;
BEGIN
	SELECT a.* INTO run FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = forward_results.cluster_id AND a.scan = scan_name AND a.assessment = run_id;
	SELECT r.code, r.reply INTO code, reply
		FROM kube_reports_internal.batch_out_of_turn(run, document, forward_results.digest, accepted) r;
	IF code IS NOT NULL THEN
		RETURN;
	END IF;
	IF remediations <> '[]'
		AND kube_reports_internal.remediation_bytes(cluster_id, type_id, document) > max_bytes THEN
		code := 413;
		reply := kube_reports_internal.forward_refusal(413, 'RequestEntityTooLarge', format('the remediations of the '
			'batch would add more than %s MB to the results of their rules: send them in several batches',
			max_bytes / 1000000));
		RETURN;
	END IF;
	IF run.seq IS NULL THEN
		PERFORM kube_reports_internal.forget_assessments(cluster_id, scan_name);
		PERFORM kube_reports_internal.allow_scan(cluster_id, type_id, scan_name);
	END IF;

	changed := kube_reports_internal.store_results(cluster_id, cluster, type_id, document, run_id || ':' || given_seq);
	seen := ARRAY(SELECT kube_reports_internal.result_key(coalesce(r.value->>'subject', ''),
		kube_reports_internal.subject_kind(r.value), r.value->>'rule')
		FROM jsonb_array_elements(results) r(value));
	IF last AND prunes THEN
		seen := seen || ARRAY(SELECT k FROM kube_reports_internal.forward_seen s, unnest(s.keys) k
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name);
		SELECT CASE WHEN count(*) = 0 THEN fixes ELSE coalesce(fixes, '{}') || array_remove(array_agg(k), NULL) END
			INTO fixes
			FROM kube_reports_internal.forward_seen s LEFT JOIN LATERAL unnest(s.remediations) k ON true
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name AND s.remediations IS NOT NULL;
		pruned := kube_reports_internal.prune_scan(cluster, cluster_id, type_id, scan_name,
			run_id || ':' || given_seq, seen, fixes);
	END IF;
	IF last THEN
		DELETE FROM kube_reports_internal.forward_seen s
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name;
	ELSE
		INSERT INTO kube_reports_internal.forward_seen (cluster_id, scan, seq, keys, remediations)
			VALUES (forward_results.cluster_id, scan_name, given_seq, seen, fixes);
	END IF;
	code := 200;
	reply := convert_to(jsonb_build_object('accepted', accepted, 'changed', changed, 'pruned', pruned,
		'cursor', run_id || ':' || given_seq)::text, 'UTF8');
	INSERT INTO kube_reports_internal.forward_assessment AS a (cluster_id, scan, assessment, seq, digest, reply,
			finished, latest, received_at)
		VALUES (forward_results.cluster_id, scan_name, run_id, given_seq, forward_results.digest,
			convert_from(forward_results.reply, 'UTF8')::jsonb, last, true, now())
		ON CONFLICT ON CONSTRAINT forward_assessment_pkey DO UPDATE SET seq = excluded.seq, digest = excluded.digest,
			reply = excluded.reply, finished = excluded.finished, received_at = excluded.received_at;
	PERFORM kube_reports_internal.merge_metadata(cluster_id, document->'extraMetadata');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_results(text, integer, uuid, jsonb, bytea)
	IS 'stores a batch of results of a scan, after check_results() found no error';

---- single results ----

-- The time at which the first result of an assessment came.  A later assessment of the scan begins after this time.
CREATE FUNCTION kube_reports_internal.begin_assessment(cluster_id integer, type_id integer, scan text, run_id text)
	RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	max_runs CONSTANT integer := 100;
	known		timestamptz := (SELECT a.received_at FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = begin_assessment.cluster_id AND a.scan = begin_assessment.scan AND a.assessment = run_id);
BEGIN
	IF known IS NOT NULL THEN
		RETURN known;
	END IF;
	PERFORM kube_reports_internal.allow_scan(cluster_id, type_id, scan);
	UPDATE kube_reports_internal.forward_assessment a SET latest = false
		WHERE a.cluster_id = begin_assessment.cluster_id AND a.scan = begin_assessment.scan AND a.latest;
	DELETE FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = begin_assessment.cluster_id AND a.scan = begin_assessment.scan
			AND a.assessment IN (SELECT o.assessment FROM kube_reports_internal.forward_assessment o
				WHERE o.cluster_id = a.cluster_id AND o.scan = a.scan
				ORDER BY o.received_at DESC, o.assessment OFFSET max_runs - 1);
	INSERT INTO kube_reports_internal.forward_assessment (cluster_id, scan, assessment, seq, digest, reply, finished,
			latest, received_at)
		VALUES (begin_assessment.cluster_id, begin_assessment.scan, run_id, 0, '', '{}', true, true, now());
	RETURN now();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_assessment(integer, integer, text, text)
	IS 'the time at which the first result of an assessment came, for assessments whose results come alone; the '
		'present time if this is the first result';

CREATE FUNCTION kube_reports_internal.forward_result(cluster_id integer, cluster uuid, document jsonb)
	RETURNS bytea
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- A session keeps these plans for weeks, perhaps from when the tables were empty: use indexes.  The settings also hold
-- for begin_assessment(), allow_scan() and store_results().
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	scan_name	text := document#>>'{scan,name}';
	run_id		text := document->>'assessmentId';
	type_id		integer := (SELECT t.id FROM kube_reports.resource_type t
		WHERE t."group" = 'openreports.io' AND t.plural = 'clusterreports');
	begun		timestamptz := kube_reports_internal.begin_assessment(cluster_id, type_id, scan_name, run_id);
	accepted	bigint := jsonb_array_length(document->'results');
	fresh		jsonb;
	changed		bigint := 0;
BEGIN
	-- The time of a stored result is the time of its assessment.  A result of an earlier assessment comes late and is
	-- ignored.
	SELECT coalesce(jsonb_agg(r.value ORDER BY r.position), '[]') INTO fresh
		FROM jsonb_array_elements(document->'results') WITH ORDINALITY r(value, position)
		WHERE NOT EXISTS (SELECT FROM kube_reports.object o, jsonb_array_elements(o.body::jsonb->'results') s(value)
			WHERE o.cluster_id = forward_result.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.name = kube_reports_internal.scan_report_name(scan_name, coalesce(r.value->>'subject', ''),
					kube_reports_internal.subject_kind(r.value), r.value->>'rule')
				AND s.value->>'rule' = r.value->>'rule'
				-- A time in the future was stored while the clock was ahead: it makes no result late.
				AND (s.value#>>'{timestamp,seconds}')::bigint > floor(extract(epoch FROM begun))::bigint
				AND (s.value#>>'{timestamp,seconds}')::bigint <= extract(epoch FROM now()));
	IF fresh <> '[]' THEN
		changed := kube_reports_internal.store_results(cluster_id, cluster, type_id,
			document || jsonb_build_object('results', fresh, 'scan', document->'scan'
				|| jsonb_build_object('endTimestamp', to_char(begun AT TIME ZONE 'UTC',
					'YYYY-MM-DD"T"HH24:MI:SS"Z"'))), run_id);
	END IF;
	PERFORM kube_reports_internal.merge_metadata(cluster_id, document->'extraMetadata');
	RETURN convert_to(jsonb_build_object('accepted', accepted, 'changed', changed, 'pruned', 0,
		'cursor', run_id)::text, 'UTF8');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_result(integer, uuid, jsonb)
	IS 'stores results that come alone, without a number, after check_results() found no error. A repeated result has '
		'no second effect, and a result of an earlier assessment does not replace a result of a later one';
