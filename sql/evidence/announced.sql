-- announced.sql
--	  Metadata of evidence whose files the senders keep.
--
-- api_forward_batch() calls these functions for what = evidence.  Such a row has the provider sender and no place: no
-- server of evidence reads or removes a file at a URI that a sender has given.

CREATE FUNCTION kube_reports_internal.check_evidence(document jsonb) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
	WITH item AS (
		SELECT e.value, e.position - 1 AS n
		FROM jsonb_array_elements(CASE jsonb_typeof(document->'evidence') WHEN 'array' THEN document->'evidence'
			ELSE '[]' END) WITH ORDINALITY e(value, position)
	), wrong(n, place, message) AS (
		SELECT -1, s.place, s.message
		FROM (VALUES
			('/apiVersion', 'must be "forward/v1"', document->>'apiVersion' IS NOT DISTINCT FROM 'forward/v1'),
			('/evidence', 'must be an array', coalesce(jsonb_typeof(document->'evidence') = 'array', false)))
			s(place, message, good)
		WHERE NOT s.good
		UNION ALL
		SELECT i.n, '/evidence/' || i.n || c.field, c.message
		FROM item i CROSS JOIN LATERAL (VALUES
			('', 'must be an object', jsonb_typeof(i.value) = 'object'),
			('/scan', 'must be a name of 1 to 63 letters, digits, dots, hyphens and underscores, which begins and '
				'ends with a letter or digit', i.value->>'scan' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'),
			('/index', 'must be an integer from 0 to 999999999', coalesce(jsonb_typeof(i.value->'index') = 'number'
				AND i.value->>'index' ~ '^(0|[1-9][0-9]{0,8})$', false)),
			('/name', 'must be a name of 1 to 200 letters, digits, dots, hyphens and underscores, which begins and '
				'ends with a letter or digit', i.value->>'name' ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,198}[A-Za-z0-9])?$'),
			('/sha256', 'must have 64 hexadecimal digits in lower case', i.value->>'sha256' ~ '^[0-9a-f]{64}$'),
			('/bytes', 'must be an integer from 1 to 999999999999999',
				coalesce(jsonb_typeof(i.value->'bytes') = 'number' AND i.value->>'bytes' ~ '^[1-9][0-9]{0,14}$',
					false)),
			('/encoding', 'must be bzip2 or empty', coalesce(i.value->>'encoding' IN ('', 'bzip2'), true)),
			('/uri', 'must be a URI of at most 1000 characters: a scheme, a colon, and printable ASCII without blanks',
				length(i.value->>'uri') <= 1000 AND i.value->>'uri' ~ '^[a-z][a-z0-9+.-]*:[!-~]+$'))
			c(field, message, good)
		WHERE c.good IS NOT TRUE AND (c.field = '' OR jsonb_typeof(i.value) = 'object')
		UNION ALL
		SELECT max(i.n), '/evidence/' || max(i.n), 'is a file that comes before in the batch'
		FROM item i
		WHERE jsonb_typeof(i.value) = 'object'
		GROUP BY i.value->>'scan', i.value->>'index', i.value->>'name' HAVING count(*) > 1
	)
	SELECT coalesce(array_agg(ROW(w.place, w.message)::kube_reports_internal.refusal ORDER BY w.n, w.place), '{}')
	FROM wrong w
$$;
COMMENT ON FUNCTION kube_reports_internal.check_evidence(jsonb)
	IS 'all errors in a batch of metadata of evidence';

CREATE FUNCTION kube_reports_internal.forward_evidence(cluster_id integer, cluster uuid, document jsonb,
	OUT code integer, OUT reply bytea, OUT refusals kube_reports_internal.refusal[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_files CONSTANT integer := 100000;
	changed		bigint;
	removed		bigint;
BEGIN
	IF kube_reports_internal.evidence_held(cluster_id) THEN
		RAISE EXCEPTION 'writes of cluster % are held', cluster
			USING ERRCODE = 'lock_not_available', DETAIL = 'The cluster is moving to another database.',
				HINT = format('If it is not, let them go on: SELECT kube_reports.release_writes(%L)', cluster);
	END IF;
	SELECT coalesce(array_agg(ROW('/evidence/' || e.position - 1, 'is a file that is stored here')
			::kube_reports_internal.refusal ORDER BY e.position), '{}') INTO refusals
		FROM jsonb_array_elements(document->'evidence') WITH ORDINALITY e(value, position)
		JOIN kube_reports_internal.evidence_file f ON f.cluster_id = forward_evidence.cluster_id
			AND f.scan = e.value->>'scan' AND f.index = (e.value->>'index')::integer AND f.name = e.value->>'name'
			AND f.place <> '';
	IF refusals <> '{}' THEN
		RETURN;
	END IF;
	WITH stored AS (
		INSERT INTO kube_reports_internal.evidence_file AS f (cluster_id, scan, index, name, body, sha256, bytes,
				encoding, provider, place, key, created_at)
			SELECT forward_evidence.cluster_id, e.scan, e.index, e.name, gen_random_uuid(), decode(e.sha256, 'hex'),
				e.bytes, coalesce(e.encoding, ''), 'sender', '', e.uri, clock_timestamp()
			FROM jsonb_to_recordset(document->'evidence') e(scan text, index integer, name text, sha256 text,
				bytes bigint, encoding text, uri text)
		ON CONFLICT ON CONSTRAINT evidence_file_pkey DO UPDATE
			SET sha256 = EXCLUDED.sha256, bytes = EXCLUDED.bytes, encoding = EXCLUDED.encoding, key = EXCLUDED.key,
				created_at = EXCLUDED.created_at
			WHERE (f.sha256, f.bytes, f.encoding, f.key)
				IS DISTINCT FROM (EXCLUDED.sha256, EXCLUDED.bytes, EXCLUDED.encoding, EXCLUDED.key)
		RETURNING f.name
	)
	SELECT count(*) INTO changed FROM stored;
	SELECT coalesce(sum(kube_reports_internal.rotate_evidence(forward_evidence.cluster_id, s.scan)), 0) INTO removed
		FROM (SELECT DISTINCT e.value->>'scan' FROM jsonb_array_elements(document->'evidence') e(value)) s(scan);
	DELETE FROM kube_reports_internal.evidence_file f
		WHERE f.cluster_id = forward_evidence.cluster_id AND f.place = ''
			AND f.created_at < now() - kube_reports.setting('evidence_retention')::interval;
	IF (SELECT count(*) FROM kube_reports_internal.evidence_file f
			WHERE f.cluster_id = forward_evidence.cluster_id) > max_files THEN
		RAISE EXCEPTION 'the cluster would have more than % files', max_files USING ERRCODE = 'KR400';
	END IF;
	code := 200;
	reply := convert_to(jsonb_build_object('accepted', jsonb_array_length(document->'evidence'), 'changed', changed,
		'removed', removed)::text, 'UTF8');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.forward_evidence(integer, uuid, jsonb)
	IS 'stores metadata of files that a sender keeps, after check_evidence() found no error, and rotates the scans of '
		'these files. accepted: files of the batch; changed: files that are new or differ; removed: files of old '
		'runs, whose metadata were deleted. refusals: files that are stored in this database. Raises KR400 and 55P03';
