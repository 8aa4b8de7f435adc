-- ingest.sql
--	  What senders forward: results of scans, and objects as they are.
--
-- A batch is stored whole or not at all, in one transaction with its number.
-- So a sender that got no answer sends the batch again, and the batch has no
-- second effect.  Batches of a run (results) or of a stream (objects) come in
-- the order of their numbers.
--
-- Results of a scan become ClusterReports of openreports.io: one for each
-- subject and each of 32 groups of rules.  A batch rewrites only the reports
-- of its rules, and one report has few results whatever the size of the scan.
--
-- Locks: the store, the rows of the cluster's senders, so that one batch of a
-- cluster is stored at a time, then the lanes in the order of their ids.  The
-- row of the cluster comes last, as in api_maintain().

---- refusals ----

CREATE TYPE kube_reports_internal.refusal AS (
	place		text,
	message		text
);
COMMENT ON TYPE kube_reports_internal.refusal
	IS 'what is wrong in a forwarded document; place: a JSON pointer';

CREATE FUNCTION kube_reports_internal.forward_refusal(code integer, reason text, message text,
	refusals kube_reports_internal.refusal[] DEFAULT '{}') RETURNS bytea
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT kube_reports_internal.status_document(code, reason, message,
		CASE WHEN refusals <> '{}' THEN jsonb_build_object('causes', (SELECT jsonb_agg(jsonb_build_object(
			'reason', 'FieldValueInvalid', 'message', r.message, 'field', r.place) ORDER BY r.position)
			FROM unnest(refusals) WITH ORDINALITY r(place, message, position) WHERE r.position <= 1000)) END)
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_refusal(integer, text, text, kube_reports_internal.refusal[])
	IS 'a Status with a cause for each refusal, at most 1000';

---- credentials ----

CREATE FUNCTION kube_reports_internal.known_sender(kind text, credential text, OUT cluster_id integer,
	OUT cluster uuid, OUT cluster_name text, OUT name text)
	RETURNS SETOF record
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.id, c.uid, coalesce(nullif(c.name, ''), c.extra_metadata->>'clusterName', ''), s.name
	FROM kube_reports_internal.sender_credential s JOIN kube_reports.cluster c ON c.id = s.cluster_id
	WHERE s.kind = $1 AND s.credential = $2 AND s.expires_at > now() AND NOT c.removing;
END;
COMMENT ON FUNCTION kube_reports_internal.known_sender(text, text)
	IS 'the sender of a credential and its cluster; none: it is not known, has expired, or the cluster is being '
		'removed';

CREATE FUNCTION kube_reports_internal.require_ingest(cluster uuid, caller kube_reports_internal.caller) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	proven		text := kube_reports_internal.proven_role(caller);
BEGIN
	PERFORM kube_reports_internal.require_service(cluster, caller);
	IF NOT EXISTS (SELECT FROM kube_reports_internal.ingest_role i WHERE i.role = proven)
		AND NOT has_table_privilege(proven, 'kube_reports.object', 'UPDATE') THEN
		RAISE EXCEPTION 'role "%" may not take what senders forward', proven
			USING ERRCODE = 'insufficient_privilege',
				HINT = format('The owner grants it: SELECT kube_reports.grant_ingest(%L)', proven);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_ingest(uuid, kube_reports_internal.caller)
	IS 'nothing, if a caller may write for the clusters of senders. Raises 42501 otherwise';

-- Asked before the body of a request goes to the database.
CREATE FUNCTION kube_reports_internal.api_forward_sender(cluster uuid, kind text, credential text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(), OUT name text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_ingest(cluster, caller);
	name := (SELECT s.name FROM kube_reports_internal.known_sender(kind, credential) s);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_forward_sender(uuid, text, text, kube_reports_internal.caller)
	IS 'the name of the sender that has a credential; null: nobody has it';

---- labels of clusters ----

-- Both spellings of the first proposals are accepted.
CREATE FUNCTION kube_reports_internal.forward_label(key text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE key WHEN 'cluster_name' THEN 'clusterName' WHEN 'cluster_type' THEN 'clusterType' ELSE key END;
END;
COMMENT ON FUNCTION kube_reports_internal.forward_label(text)
	IS 'the key that is stored for a key of extraMetadata';

CREATE FUNCTION kube_reports_internal.check_metadata(metadata jsonb, cluster_name text,
	OUT refusals kube_reports_internal.refusal[], OUT foreign_name text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	refusals := '{}';
	IF metadata IS NULL OR metadata = 'null' THEN
		RETURN;
	ELSIF jsonb_typeof(metadata) <> 'object' THEN
		refusals := ARRAY[ROW('/extraMetadata', 'must be an object')::kube_reports_internal.refusal];
		RETURN;
	END IF;
	SELECT coalesce(array_agg(ROW('/extraMetadata/' || replace(replace(m.key, '~', '~0'), '/', '~1'),
			'must be a text of at most 253 characters, with a key of 1 to 253')::kube_reports_internal.refusal), '{}')
		INTO refusals
		FROM jsonb_each(metadata) m
		WHERE jsonb_typeof(m.value) <> 'string' OR length(m.value#>>'{}') > 253 OR length(m.key) NOT BETWEEN 1 AND 253;
	IF (SELECT count(*) FROM jsonb_object_keys(metadata)) > 64 THEN
		refusals := refusals || ROW('/extraMetadata', 'must have at most 64 members')::kube_reports_internal.refusal;
	END IF;
	foreign_name := (SELECT min(m.value#>>'{}') FROM jsonb_each(metadata) m
		WHERE kube_reports_internal.forward_label(m.key) = 'clusterName' AND cluster_name <> ''
			AND m.value#>>'{}' IS DISTINCT FROM cluster_name);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_metadata(jsonb, text)
	IS 'what is wrong in extraMetadata; foreign_name: the name of another cluster than the credential''s';

CREATE FUNCTION kube_reports_internal.merge_metadata(cluster_id integer, metadata jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	added		jsonb := (SELECT coalesce(jsonb_object_agg(kube_reports_internal.forward_label(m.key), m.value), '{}')
		FROM jsonb_each(CASE jsonb_typeof(metadata) WHEN 'object' THEN metadata ELSE '{}' END) m);
	-- Not the name of another cluster, for which pages would then show this one.
	free_name	text := (SELECT added->>'clusterName' WHERE NOT EXISTS (SELECT FROM kube_reports.cluster c
		WHERE lower(c.name) = lower(added->>'clusterName')));
BEGIN
	-- Grants select by the column labels, which senders never write.
	UPDATE kube_reports.cluster c SET extra_metadata = CASE WHEN (
				SELECT count(*) > 256 FROM jsonb_object_keys(c.extra_metadata || added)) THEN added
				ELSE c.extra_metadata || added END,
			name = CASE WHEN c.name = '' THEN coalesce(free_name, '') ELSE c.name END
		WHERE c.id = merge_metadata.cluster_id
			AND (NOT c.extra_metadata @> added OR c.name = '' AND free_name <> '');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_metadata(integer, jsonb)
	IS 'adds the members of extraMetadata to those of a cluster, of which there are at most 256 (beyond that, the new '
		'ones replace the others); a cluster without a name gets that of clusterName, unless another cluster has it. '
		'Locks the row only when something changes';

---- results of scans ----

CREATE FUNCTION kube_reports_internal.result_key(subject text, kind text, rule text) RETURNS bigint
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT ('x' || encode(substr(sha256(convert_to(concat_ws(E'\n', subject, kind, rule), 'UTF8')), 1, 8), 'hex'))
		::bit(64)::bigint;
END;
COMMENT ON FUNCTION kube_reports_internal.result_key(text, text, text)
	IS 'tells the results of a scan apart, the same in every run';

CREATE FUNCTION kube_reports_internal.rule_group(rule text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT lpad(to_hex(get_byte(sha256(convert_to(rule, 'UTF8')), 0) % 32), 2, '0');
END;
COMMENT ON FUNCTION kube_reports_internal.rule_group(text) IS 'which of the 32 reports of a subject has a rule';

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
	IS 'the search term of the label that all reports of a scan have';

CREATE FUNCTION kube_reports_internal.check_results(document jsonb) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql IMMUTABLE
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
		GROUP BY r.value->>'rule', r.value->>'subject', r.value#>>'{extra,resourceType}' HAVING count(*) > 1
		UNION ALL
		SELECT 2, r.n, '/remediations/' || r.n || c.field, c.message
		FROM remediation r CROSS JOIN LATERAL (VALUES
			('', 'must be an object', jsonb_typeof(r.value) = 'object'),
			('/name', 'must be a text of 1 to 253 characters', length(r.value->>'name') BETWEEN 1 AND 253),
			('/rule', 'must be a text of 1 to 1000 characters', length(r.value->>'rule') BETWEEN 1 AND 1000),
			('/applicationState', 'must be a text of at most 63 characters',
				coalesce(length(r.value->>'applicationState') <= 63, true))) c(field, message, good)
		WHERE c.good IS NOT TRUE AND (c.field = '' OR jsonb_typeof(r.value) = 'object')
	)
	SELECT coalesce(array_agg(ROW(w.place, w.message)::kube_reports_internal.refusal
		ORDER BY w.part, w.n, w.place), '{}')
	FROM wrong w
$$;
COMMENT ON FUNCTION kube_reports_internal.check_results(jsonb) IS 'everything that is wrong in a batch of results';

CREATE FUNCTION kube_reports_internal.scan_time(document jsonb) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN least(coalesce(document#>>'{scan,endTimestamp}', document#>>'{scan,startTimestamp}')::timestamptz, now());
EXCEPTION WHEN data_exception THEN
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.scan_time(jsonb)
	IS 'when a scan ended, or began, not in the future; null when its times are none';

-- A document becomes the words of ComplianceCheckResults, so that results of a cluster whose API is served and those of
-- a cluster that forwards are the same in views: see results/mappings.sql.
CREATE FUNCTION kube_reports_internal.scan_result(document jsonb, value jsonb, seconds bigint) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_strip_nulls(jsonb_build_object('source', 'Compliance Operator', 'policy', document#>>'{scan,name}',
		'rule', value->>'rule', 'category', document#>>'{scan,suite}', 'message', value->>'description',
		'severity', nullif(nullif(value->>'severity', ''), 'unknown'),
		'result', CASE value->>'outcome' WHEN 'PASS' THEN 'pass' WHEN 'FAIL' THEN 'fail' WHEN 'ERROR' THEN 'error'
			WHEN 'INCONSISTENT' THEN 'error' ELSE 'skip' END,
		'timestamp', jsonb_build_object('nanos', 0, 'seconds', seconds),
		'properties', (CASE jsonb_typeof(value->'extra') WHEN 'object' THEN value->'extra' ELSE '{}'::jsonb END)
			|| jsonb_strip_nulls(jsonb_build_object('outcome', value->>'outcome', 'id', value->>'id',
				'control', value->>'control', 'instructions', value->>'instructions', 'rationale', value->>'rationale',
				'profile', document#>>'{scan,profile}',
				'warnings', nullif(nullif(value->>'warnings', '[]'), 'null'),
				'valuesUsed', nullif(nullif(value->>'valuesUsed', '[]'), 'null')))));
END;

COMMENT ON FUNCTION kube_reports_internal.scan_result(jsonb, jsonb, bigint)
	IS 'a forwarded result as one of a report; seconds: when it was found';

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
			true) i;
	IF refused IS NOT NULL THEN
		RAISE EXCEPTION 'a report of forwarded results is refused: %', refused USING ERRCODE = 'KR400';
	END IF;
	RETURN stored;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_store(uuid, text, text, text, text[], text[], text[])
	IS 'stores objects of one type as they are, and makes results follow; how many have changed. Raises KR400 when '
		'one is refused';

CREATE FUNCTION kube_reports_internal.forward_delete(cluster uuid, "group" text, version text, resource text,
	namespaces text[], names text[], uids text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
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
	newest := kube_reports_internal.lane_version(target.lane);
	written_at := kube_reports_internal.lane_time(target.lane);
	PERFORM set_config('kube_reports_internal.api_write', 'on', true);
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
	IS 'deletes objects of one type, each if it has that uid (null: any), and makes results follow; how many';

CREATE FUNCTION kube_reports_internal.prune_scan(cluster uuid, cluster_id integer, type_id integer, scan text,
	source_version text, seen bigint[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	empty		text[];
	metadatas	text[];
	bodies		text[];
	removed		bigint;
BEGIN
	WITH report AS MATERIALIZED (
		SELECT o.name, o.metadata, o.body, r.kept, r.gone
		FROM (
			-- Each document is parsed once.
			SELECT o.name, o.metadata, o.body::jsonb AS body FROM kube_reports.object o
			WHERE o.cluster_id = prune_scan.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.labels @> ARRAY[kube_reports_internal.scan_label(scan)]
			OFFSET 0) o CROSS JOIN LATERAL (
			SELECT jsonb_agg(x.value ORDER BY x.position) FILTER (WHERE x.here) AS kept,
				count(*) FILTER (WHERE NOT x.here) AS gone
			FROM (SELECT r.value, r.position, kube_reports_internal.result_key(o.body#>>'{scope,name}',
					o.body#>>'{scope,kind}', r.value->>'rule') = ANY (seen) AS here
				FROM jsonb_array_elements(o.body->'results') WITH ORDINALITY r(value, position)) x) r
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
		FROM report r WHERE r.gone > 0;
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
COMMENT ON FUNCTION kube_reports_internal.prune_scan(uuid, integer, integer, text, text, bigint[])
	IS 'removes the results of a scan that are not among those seen; how many';

-- A sender invents names of scans.  A scan that has reports keeps its row, by which forward_sync() knows them.
CREATE FUNCTION kube_reports_internal.allow_scan(cluster_id integer, type_id integer, scan text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
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
	IS 'makes room for one more scan of a cluster: forgets finished ones that have no reports any more. Raises KR400 '
		'when there are too many';

CREATE FUNCTION kube_reports_internal.forward_results(sender text, cluster_id integer, cluster uuid, document jsonb,
	digest bytea, OUT code integer, OUT reply bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	run			kube_reports_internal.forward_assessment;
	max_runs CONSTANT integer := 100;
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
	seconds		bigint := extract(epoch FROM kube_reports_internal.scan_time(document));
	accepted	bigint := jsonb_array_length(results) + jsonb_array_length(remediations);
	changed		bigint;
	pruned		bigint := 0;
	names		text[];
	metadatas	text[];
	bodies		text[];
	seen		bigint[];
BEGIN
	SELECT a.* INTO run FROM kube_reports_internal.forward_assessment a
		WHERE a.cluster_id = forward_results.cluster_id AND a.scan = scan_name AND a.assessment = run_id;
	IF run.seq IS NOT NULL AND given_seq <= run.seq THEN
		IF given_seq = run.seq AND run.digest <> forward_results.digest THEN
			code := 409;
			reply := kube_reports_internal.forward_refusal(409, 'Conflict',
				format('batch %s of assessment "%s" was another one', given_seq, run_id));
			RETURN;
		END IF;
		code := 200;
		reply := convert_to(CASE WHEN given_seq = run.seq THEN run.reply ELSE jsonb_build_object('accepted', accepted,
			'changed', 0, 'pruned', 0, 'cursor', run_id || ':' || run.seq) END::text, 'UTF8');
		RETURN;
	ELSIF given_seq <> coalesce(run.seq, 0) + 1 OR run.finished OR NOT run.latest THEN
		code := 409;
		reply := kube_reports_internal.forward_refusal(409, 'Conflict', CASE
			WHEN run.finished THEN format('assessment "%s" is finished', run_id)
			WHEN NOT run.latest THEN format('a later assessment of scan "%s" has begun', scan_name)
			ELSE format('batch %s is expected, not %s', coalesce(run.seq, 0) + 1, given_seq) END,
			ARRAY[ROW('/seq', 'must be ' || coalesce(run.seq, 0) + 1)::kube_reports_internal.refusal]);
		RETURN;
	END IF;
	IF run.seq IS NULL THEN
		DELETE FROM kube_reports_internal.forward_seen s
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name;
		UPDATE kube_reports_internal.forward_assessment a SET latest = false
			WHERE a.cluster_id = forward_results.cluster_id AND a.scan = scan_name AND a.latest;
		DELETE FROM kube_reports_internal.forward_assessment a
			WHERE a.cluster_id = forward_results.cluster_id AND a.scan = scan_name
				AND (a.received_at < now() - interval '30 days' OR a.assessment IN (
					SELECT o.assessment FROM kube_reports_internal.forward_assessment o
					WHERE o.cluster_id = a.cluster_id AND o.scan = a.scan
					ORDER BY o.received_at DESC, o.assessment OFFSET max_runs - 1));
		PERFORM kube_reports_internal.allow_scan(cluster_id, type_id, scan_name);
	END IF;

	WITH given AS MATERIALIZED (
		SELECT r.position, s.subject, s.kind, r.value->>'rule' AS rule,
			kube_reports_internal.result_key(s.subject, s.kind, r.value->>'rule') AS key,
			kube_reports_internal.scan_report_name(scan_name, s.subject, s.kind, r.value->>'rule') AS name,
			kube_reports_internal.scan_result(document, r.value, seconds) AS result
		FROM jsonb_array_elements(results) WITH ORDINALITY r(value, position)
			CROSS JOIN LATERAL (SELECT coalesce(r.value->>'subject', '') AS subject,
				CASE r.value#>>'{extra,resourceType}' WHEN 'node' THEN 'Node' ELSE 'Cluster' END AS kind) s
	), fix AS MATERIALIZED (
		SELECT m.value->>'rule' AS rule, kube_reports_internal.rule_group(m.value->>'rule') AS rules,
			jsonb_object_agg('remediation/' || (m.value->>'name'), coalesce(m.value->>'applicationState', '')) AS states
		FROM jsonb_array_elements(remediations) m(value)
		GROUP BY 1
	), touched AS MATERIALIZED (
		SELECT g.name FROM given g
		UNION
		SELECT o.name FROM kube_reports.object o WHERE remediations <> '[]'
			AND o.cluster_id = forward_results.cluster_id AND o.resource_type = type_id AND o.namespace = ''
			AND o.labels @> ARRAY[kube_reports_internal.scan_label(scan_name)]
			AND right(o.name, 2) IN (SELECT f.rules FROM fix f)
	), stored AS MATERIALIZED (
		SELECT o.name, o.metadata, o.body::jsonb AS body
		FROM touched t CROSS JOIN LATERAL (SELECT * FROM kube_reports.object o
			WHERE o.cluster_id = forward_results.cluster_id AND o.resource_type = type_id AND o.namespace = ''
				AND o.name = t.name LIMIT 1) o
	), old AS MATERIALIZED (
		SELECT s.name, r.value AS result, kube_reports_internal.result_key(s.body#>>'{scope,name}',
			s.body#>>'{scope,kind}', r.value->>'rule') AS key
		FROM stored s, jsonb_array_elements(s.body->'results') r(value)
	), merged AS MATERIALIZED (
		SELECT coalesce(g.name, o.name) AS name, g.subject, g.kind, coalesce(g.rule, o.result->>'rule') AS rule,
			o.result AS before,
			-- A new result keeps what is known of remediations until they come as well.
			CASE WHEN f.states IS NULL AND k.kept IS NULL THEN coalesce(g.result, o.result)
				ELSE jsonb_set(coalesce(g.result, o.result), '{properties}',
					coalesce(coalesce(g.result, o.result)->'properties', '{}') || coalesce(k.kept, '{}')
						|| coalesce(f.states, '{}')) END AS after
		FROM given g FULL JOIN old o ON o.name = g.name AND o.key = g.key
			LEFT JOIN fix f ON f.rule = coalesce(g.rule, o.result->>'rule')
			LEFT JOIN LATERAL (SELECT jsonb_object_agg(p.key, p.value) AS kept
				FROM jsonb_each(CASE WHEN g.result IS NOT NULL THEN o.result->'properties' END) p
				WHERE starts_with(p.key, 'remediation/')) k ON true
	), report AS MATERIALIZED (
		SELECT m.name, max(m.subject) AS subject, max(m.kind) AS kind,
			jsonb_agg(m.after ORDER BY m.rule) AS results,
			count(*) FILTER (WHERE m.before - 'timestamp' IS DISTINCT FROM m.after - 'timestamp') AS changed,
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
			coalesce(sum(r.changed), 0)
		INTO names, metadatas, bodies, changed
		FROM report r LEFT JOIN stored s ON s.name = r.name;
	IF names IS NOT NULL THEN
		PERFORM kube_reports_internal.forward_store(cluster, 'openreports.io', 'v1alpha1', 'clusterreports',
			array_fill(run_id || ':' || given_seq, ARRAY[cardinality(names)]), metadatas, bodies);
	END IF;
	seen := ARRAY(SELECT kube_reports_internal.result_key(coalesce(r.value->>'subject', ''),
		CASE r.value#>>'{extra,resourceType}' WHEN 'node' THEN 'Node' ELSE 'Cluster' END, r.value->>'rule')
		FROM jsonb_array_elements(results) r(value));
	IF last AND prunes THEN
		seen := seen || ARRAY(SELECT k FROM kube_reports_internal.forward_seen s, unnest(s.keys) k
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name);
		pruned := kube_reports_internal.prune_scan(cluster, cluster_id, type_id, scan_name,
			run_id || ':' || given_seq, seen);
	END IF;
	IF last THEN
		DELETE FROM kube_reports_internal.forward_seen s
			WHERE s.cluster_id = forward_results.cluster_id AND s.scan = scan_name;
	ELSE
		INSERT INTO kube_reports_internal.forward_seen (cluster_id, scan, seq, keys)
			VALUES (forward_results.cluster_id, scan_name, given_seq, seen);
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
	IS 'stores a batch of results of a scan, which check_results() has passed';

---- objects ----

-- Values of type json keep every number and the order of keys as they were sent.
CREATE FUNCTION kube_reports_internal.check_objects(document json) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH scalar(place, message, good) AS (
		VALUES ('/apiVersion', 'must be "forward/v1"', document->>'apiVersion' IS NOT DISTINCT FROM 'forward/v1'),
			('/stream', 'must be a uuid', coalesce(document->>'stream'
				~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$', false)),
			('/seq', 'must be an integer from 1 on', coalesce(json_typeof(document->'seq') = 'number'
				AND document->>'seq' ~ '^[1-9][0-9]{0,15}$', false)),
			('/items', 'must be an array', coalesce(json_typeof(document->'items') = 'array', false))
	), item AS MATERIALIZED (
		SELECT i.value, i.position - 1 AS n, json_typeof(i.value) = 'object'
			AND json_typeof(i.value->'object') = 'object'
			AND json_typeof(i.value#>'{object,metadata}') = 'object' AS whole
		FROM json_array_elements(CASE json_typeof(document->'items') WHEN 'array' THEN document->'items'
			ELSE '[]' END) WITH ORDINALITY i(value, position)
	), wrong(n, place, message) AS (
		SELECT -1, s.place, s.message FROM scalar s WHERE NOT s.good
		UNION ALL
		SELECT i.n, '/items/' || i.n, 'must be an object with an object that has metadata' FROM item i
			WHERE i.whole IS NOT TRUE
		UNION ALL
		SELECT i.n, '/items/' || i.n || c.field, c.message
		FROM item i CROSS JOIN LATERAL (VALUES
			('/op', 'must be "apply" or "delete"', i.value->>'op' IN ('apply', 'delete')),
			('/object/metadata/name', 'must be a name', length(i.value#>>'{object,metadata,name}') BETWEEN 1 AND 253),
			('/object/metadata/uid', 'must be a uuid', lower(i.value#>>'{object,metadata,uid}')
				~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
			('/object', 'is of a type that is not served here: register_crd() serves it',
				EXISTS (SELECT FROM kube_reports.resource_type t
					JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
					WHERE t."group" || '/' || v.version = i.value#>>'{object,apiVersion}'
						AND t.kind = i.value#>>'{object,kind}'))) c(field, message, good)
		WHERE i.whole AND c.good IS NOT TRUE
		UNION ALL
		SELECT max(i.n), '/items/' || max(i.n), 'is an object that comes before in the batch'
		FROM item i WHERE i.whole
		GROUP BY i.value#>>'{object,apiVersion}', i.value#>>'{object,kind}', i.value#>>'{object,metadata,namespace}',
			i.value#>>'{object,metadata,name}' HAVING count(*) > 1
	)
	SELECT coalesce(array_agg(ROW(w.place, w.message)::kube_reports_internal.refusal ORDER BY w.n, w.place), '{}')
	FROM wrong w
$$;
COMMENT ON FUNCTION kube_reports_internal.check_objects(json)
	IS 'what is wrong in a batch of objects, but for what their schemas say';

CREATE FUNCTION kube_reports_internal.forward_objects(sender text, cluster_id integer, cluster uuid, document json,
	OUT code integer, OUT reply bytea, OUT refusals kube_reports_internal.refusal[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	max_streams CONSTANT integer := 100;
	stream_id	uuid := (document->>'stream')::uuid;
	given_seq	bigint := (document->>'seq')::bigint;
	known_seq	bigint;
	accepted	bigint := json_array_length(document->'items');
	changed		bigint := 0;
	found		bigint;
	part		record;
BEGIN
	refusals := '{}';
	known_seq := coalesce((SELECT s.seq FROM kube_reports_internal.forward_stream s
		WHERE s.cluster_id = forward_objects.cluster_id AND s.stream = stream_id), 0);
	IF given_seq > known_seq + 1 THEN
		code := 409;
		reply := kube_reports_internal.forward_refusal(409, 'Conflict',
			format('batch %s of stream %s is expected, not %s', known_seq + 1, stream_id, given_seq),
			ARRAY[ROW('/seq', 'must be ' || known_seq + 1)::kube_reports_internal.refusal]);
		RETURN;
	END IF;
	IF given_seq = known_seq + 1 THEN
		FOR part IN
			SELECT l.id AS lane, t."group", v.version, t.plural, i.op,
				array_agg(i.n ORDER BY i.n) AS places,
				array_agg(coalesce(i.object#>>'{metadata,resourceVersion}', '') ORDER BY i.n) AS versions,
				array_agg((SELECT json_object_agg(m.key, m.value) FROM json_each(i.object->'metadata') m
					WHERE m.key <> 'resourceVersion')::text ORDER BY i.n) AS metadatas,
				array_agg(coalesce((SELECT json_object_agg(b.key, b.value) FROM json_each(i.object) b
					WHERE b.key NOT IN ('apiVersion', 'kind', 'metadata')), '{}')::text ORDER BY i.n) AS bodies,
				array_agg(coalesce(i.object#>>'{metadata,namespace}', '') ORDER BY i.n) AS namespaces,
				array_agg(i.object#>>'{metadata,name}' ORDER BY i.n) AS names,
				array_agg(lower(i.object#>>'{metadata,uid}') ORDER BY i.n) AS uids
			FROM (SELECT e.value->>'op' AS op, e.value->'object' AS object, e.position - 1 AS n
					FROM json_array_elements(document->'items') WITH ORDINALITY e(value, position) OFFSET 0) i
				JOIN (kube_reports.resource_type t
					JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
					JOIN kube_reports_internal.lane l ON l.resource_type = t.id)
					ON t."group" || '/' || v.version = i.object->>'apiVersion' AND t.kind = i.object->>'kind'
			WHERE l.cluster_id = forward_objects.cluster_id
			GROUP BY l.id, t."group", v.version, t.plural, i.op
			ORDER BY l.id, v.version, i.op
		LOOP
			IF part.op = 'delete' THEN
				found := kube_reports_internal.forward_delete(cluster, part."group", part.version, part.plural,
					part.namespaces, part.names, part.uids);
			ELSE
				SELECT count(*) FILTER (WHERE i.outcome IN ('imported', 'updated')), refusals
						|| coalesce(array_agg(ROW('/items/' || part.places[i.position] || '/object', i.reason)
							::kube_reports_internal.refusal ORDER BY i.position)
							FILTER (WHERE i.outcome NOT IN ('imported', 'updated', 'unchanged')), '{}')
					INTO found, refusals
					FROM kube_reports_internal.api_import(cluster, part."group", part.version, part.plural,
						part.versions, part.metadatas, part.bodies, true) i;
			END IF;
			changed := changed + found;
		END LOOP;
		-- A sender whose stream is forgotten begins another one, and compares everything.
		IF known_seq = 0 THEN
			DELETE FROM kube_reports_internal.forward_stream s
				WHERE s.cluster_id = forward_objects.cluster_id AND s.stream IN (
					SELECT o.stream FROM kube_reports_internal.forward_stream o
					WHERE o.cluster_id = forward_objects.cluster_id
					ORDER BY o.received_at DESC, o.stream OFFSET max_streams - 1);
		END IF;
		INSERT INTO kube_reports_internal.forward_stream AS s (cluster_id, stream, seq, sender, received_at)
			VALUES (forward_objects.cluster_id, stream_id, given_seq, forward_objects.sender, now())
			ON CONFLICT ON CONSTRAINT forward_stream_pkey DO UPDATE SET seq = excluded.seq, sender = excluded.sender,
				received_at = excluded.received_at;
		PERFORM kube_reports_internal.merge_metadata(cluster_id, document::jsonb->'extraMetadata');
	END IF;
	code := 200;
	reply := convert_to(jsonb_build_object('accepted', accepted, 'changed', changed, 'pruned', 0,
		'cursor', stream_id || ':' || greatest(known_seq, given_seq))::text, 'UTF8');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_objects(text, integer, uuid, json)
	IS 'stores a batch of objects, which check_objects() has passed; refusals: those that their schemas refuse, which '
		'the caller undoes together with the rest';

---- comparing ----

CREATE FUNCTION kube_reports_internal.check_sync(document jsonb) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(ROW(s.place, s.message)::kube_reports_internal.refusal), '{}')
	FROM (VALUES ('/apiVersion', 'must be "forward/v1"', document->>'apiVersion' IS NOT DISTINCT FROM 'forward/v1'),
		('/type', 'must be a type that is served here, as <plural>.<group>/<version>',
			EXISTS (SELECT FROM kube_reports.resource_type t
				JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
				WHERE t.plural || '.' || t."group" || '/' || v.version = document->>'type')),
		('/items', 'must be an array of arrays of four texts: namespace, name, uid, resourceVersion',
			coalesce(jsonb_typeof(document->'items') = 'array' AND NOT EXISTS (
				SELECT FROM jsonb_array_elements(CASE jsonb_typeof(document->'items') WHEN 'array'
					THEN document->'items' ELSE '[]' END) i(value)
				WHERE jsonb_typeof(i.value) <> 'array' OR jsonb_array_length(CASE jsonb_typeof(i.value) WHEN 'array'
					THEN i.value ELSE '[]' END) <> 4), false)),
		('/range', 'must be an object with the arrays of two texts "after" and "to", or null',
			coalesce(jsonb_typeof(document->'range') IN ('object', 'null'), true))) s(place, message, good)
	WHERE NOT s.good
$$;
COMMENT ON FUNCTION kube_reports_internal.check_sync(jsonb) IS 'what is wrong in a list to compare with';

CREATE FUNCTION kube_reports_internal.forward_sync(cluster_id integer, document jsonb) RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	type_id		integer := (SELECT t.id FROM kube_reports.resource_type t
		JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		WHERE t.plural || '.' || t."group" || '/' || v.version = document->>'type');
	lane_id		integer := (SELECT l.id FROM kube_reports_internal.lane l
		WHERE l.cluster_id = forward_sync.cluster_id AND l.resource_type = type_id);
	span		jsonb := CASE jsonb_typeof(document->'range') WHEN 'object' THEN document->'range' END;
	wanted		jsonb;
	surplus		jsonb := '[]';
BEGIN
	SELECT coalesce(jsonb_agg(w.position - 1 ORDER BY w.position), '[]') INTO wanted
		FROM jsonb_array_elements(document->'items') WITH ORDINALITY w(value, position)
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.imported i
			JOIN kube_reports.object o ON o.cluster_id = forward_sync.cluster_id AND o.resource_type = type_id
				AND o.namespace = i.namespace AND o.name = i.name AND o.version = i.version
			WHERE i.lane = lane_id AND i.namespace = w.value->>0 AND i.name = w.value->>1
				AND i.uid::text = lower(w.value->>2) AND i.source_version = w.value->>3);
	IF span IS NOT NULL THEN
		-- At most 1000: the sender deletes these and asks again.
		SELECT coalesce(jsonb_agg(jsonb_build_array(x.namespace, x.name, x.uid)), '[]') INTO surplus
			FROM (SELECT o.namespace, o.name, o.uid FROM kube_reports.object o
				WHERE o.cluster_id = forward_sync.cluster_id AND o.resource_type = type_id
					AND (span->'after' IS NULL OR span->'after' = 'null'
						OR (o.namespace, o.name) > (span#>>'{after,0}', span#>>'{after,1}'))
					AND (span->'to' IS NULL OR span->'to' = 'null'
						OR (o.namespace, o.name) <= (span#>>'{to,0}', span#>>'{to,1}'))
					AND NOT o.labels && ARRAY(SELECT 'forward.kube-reports.io/scan=' || a.scan
						FROM kube_reports_internal.forward_assessment a WHERE a.cluster_id = forward_sync.cluster_id)
					AND NOT EXISTS (SELECT FROM jsonb_array_elements(document->'items') w(value)
						WHERE w.value->>0 = o.namespace AND w.value->>1 = o.name OFFSET 0)
				ORDER BY o.namespace, o.name LIMIT 1000) x;
	END IF;
	RETURN convert_to(jsonb_build_object('wanted', wanted, 'surplus', surplus,
		'more', jsonb_array_length(surplus) = 1000)::text, 'UTF8');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_sync(integer, jsonb)
	IS 'compares a list of a sender with what is stored: wanted, the places of what is not here in that version; '
		'surplus, what is here in the range of keys and not in the list, but for reports of scans';

---- the request ----

CREATE FUNCTION kube_reports_internal.api_forward_batch(cluster uuid, what text, kind text, credential text,
		document bytea, caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[], OUT reply bytea)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10s'
AS $$
DECLARE
	sender		record;
	exact		json;
	parsed		jsonb;
	refusals	kube_reports_internal.refusal[];
	metadata	record;
BEGIN
	PERFORM kube_reports_internal.require_read_committed(), kube_reports_internal.commit_durably();
	PERFORM kube_reports_internal.require_ingest(cluster, caller);
	content_type := 'application/json';
	retry_after := 0;
	IF what <> 'sync' THEN
		PERFORM kube_reports_internal.lock_store_shared();
	END IF;
	SELECT * INTO sender FROM kube_reports_internal.known_sender(kind, credential);
	IF sender.cluster_id IS NULL THEN
		code := 401;
		reply := kube_reports_internal.forward_refusal(401, 'Unauthorized', 'Unauthorized');
		RETURN;
	END IF;
	BEGIN
		exact := convert_from(document, 'UTF8')::json;
		parsed := exact::jsonb;
	EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
		code := 400;
		reply := kube_reports_internal.forward_refusal(400, 'BadRequest', 'the body is not JSON: ' || SQLERRM,
			ARRAY[ROW('', SQLERRM)::kube_reports_internal.refusal]);
		RETURN;
	END;
	-- First, because the checks below look at each item.
	IF EXISTS (SELECT FROM unnest(ARRAY[parsed->'results', parsed->'remediations', parsed->'items']) p(part)
			WHERE CASE jsonb_typeof(p.part) WHEN 'array' THEN jsonb_array_length(p.part) > 5000 END) THEN
		code := 413;
		reply := kube_reports_internal.forward_refusal(413, 'RequestEntityTooLarge', 'a batch has at most 5000 items');
		RETURN;
	END IF;
	IF jsonb_typeof(parsed) <> 'object' THEN
		refusals := ARRAY[ROW('', 'must be an object')::kube_reports_internal.refusal];
	ELSE
		refusals := CASE what WHEN 'results' THEN kube_reports_internal.check_results(parsed)
			WHEN 'objects' THEN kube_reports_internal.check_objects(exact)
			ELSE kube_reports_internal.check_sync(parsed) END;
		SELECT * INTO metadata FROM kube_reports_internal.check_metadata(parsed->'extraMetadata', sender.cluster_name);
		refusals := refusals || metadata.refusals;
	END IF;
	IF refusals <> '{}' THEN
		code := 400;
		reply := kube_reports_internal.forward_refusal(400, 'BadRequest', 'the batch is refused: '
			|| cardinality(refusals) || ' items are wrong', refusals);
		RETURN;
	ELSIF metadata.foreign_name IS NOT NULL THEN
		code := 403;
		reply := kube_reports_internal.forward_refusal(403, 'Forbidden',
			format('the credential is of cluster "%s", not of "%s"', sender.cluster_name, metadata.foreign_name));
		RETURN;
	END IF;
	IF what = 'sync' THEN
		code := 200;
		reply := kube_reports_internal.forward_sync(sender.cluster_id, parsed);
		RETURN;
	END IF;
	PERFORM FROM kube_reports_internal.sender_credential s WHERE s.cluster_id = sender.cluster_id
		ORDER BY s.kind, s.credential FOR NO KEY UPDATE;
	PERFORM kube_reports_internal.set_sealed('actor', 'sender:' || sender.name);
	-- An error rolls back only the rows that the batch has stored.
	BEGIN
		IF what = 'results' THEN
			SELECT r.code, r.reply INTO code, reply FROM kube_reports_internal.forward_results(sender.name,
				sender.cluster_id, sender.cluster, parsed, sha256(document)) r;
		ELSE
			SELECT o.code, o.reply, o.refusals INTO code, reply, refusals
				FROM kube_reports_internal.forward_objects(sender.name, sender.cluster_id, sender.cluster, exact) o;
			IF refusals <> '{}' THEN
				RAISE EXCEPTION 'objects are refused' USING ERRCODE = 'KR400';
			END IF;
		END IF;
	EXCEPTION WHEN SQLSTATE 'KR400' THEN
		code := 400;
		reply := kube_reports_internal.forward_refusal(400, 'BadRequest', CASE WHEN refusals = '{}' THEN SQLERRM
			ELSE 'the batch is refused: ' || cardinality(refusals) || ' items are wrong' END, refusals);
	END;
	PERFORM kube_reports_internal.set_sealed('actor', NULL);
	IF code = 200 THEN
		PERFORM kube_reports_internal.note_served(sender.cluster);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_forward_batch(uuid, text, text, text, bytea,
	kube_reports_internal.caller)
	IS 'a request of a sender, which proved a credential: what is results, objects or sync; kind of the credential: '
		'token or certificate. Stores the batch whole, for the cluster of the credential, or nothing; see '
		'docs/forwarding.md';

CREATE PROCEDURE kube_reports_internal.api_forward(cluster uuid, what text, kind text, credential text, document bytea,
		INOUT code integer, INOUT content_type text, INOUT retry_after integer, INOUT warnings text[],
		INOUT reply bytea)
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT f.code, f.content_type, f.retry_after, f.warnings, f.reply
		INTO code, content_type, retry_after, warnings, reply
		FROM kube_reports_internal.api_forward_batch(cluster, what, kind, credential, document) f;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_forward(uuid, text, text, text, bytea, integer, text, integer, text[],
	bytea)
	IS 'api_forward_batch() in a transaction of its own: when it returns, the batch is durable';
