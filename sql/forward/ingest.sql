-- ingest.sql
--	  What senders forward: results of scans, in batches or one by one, and objects as they are.
--
-- A batch is stored whole or not at all, in one transaction with its number.
-- So a sender that got no answer sends the batch again, and the batch has no
-- second effect.  Batches of a run (results) or of a stream (objects) come in
-- the order of their numbers.
--
-- Locks: the store, the rows of the cluster's senders, so that one batch of a
-- cluster is stored at a time, then the lanes in the order of their ids.  The
-- row of the cluster comes last, as in api_maintain().

---- labels of clusters ----

-- Senders may use either spelling, because the first proposals of the format used both.
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
	IS 'the errors in extraMetadata; foreign_name: the name in extraMetadata, if it is the name of another cluster';

CREATE FUNCTION kube_reports_internal.merge_metadata(cluster_id integer, metadata jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	added		jsonb := (SELECT coalesce(jsonb_object_agg(kube_reports_internal.forward_label(m.key), m.value), '{}')
		FROM jsonb_each(CASE jsonb_typeof(metadata) WHEN 'object' THEN metadata ELSE '{}' END) m);
	-- The name must not be the name of another cluster: pages would show this cluster under that name.
	free_name	text := (SELECT added->>'clusterName' WHERE NOT EXISTS (SELECT FROM kube_reports.cluster c
			WHERE kube_reports_internal.caseless(c.name) = kube_reports_internal.caseless(added->>'clusterName'))
		AND kube_reports_internal.is_cluster_name(added->>'clusterName', (SELECT c.uid FROM kube_reports.cluster c
			WHERE c.id = merge_metadata.cluster_id)));
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
	IS 'adds the members of extraMetadata to the members of a cluster, at most 256 in all; if there would be more, '
		'the new members replace the stored ones. A cluster without a name gets clusterName, unless another cluster '
		'has this name or is_cluster_name() refuses it. Locks the row only if something changes';

---- objects ----

-- Values of type json keep every number and the order of keys as the sender wrote them.
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
	IS 'the errors in a batch of objects, except the errors that the schemas of the types find';

CREATE FUNCTION kube_reports_internal.forward_objects(sender text, cluster_id integer, cluster uuid, document json,
	OUT code integer, OUT reply bytea, OUT refusals kube_reports_internal.refusal[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Plans are kept for weeks and may have been made while the tables were empty: use indexes.
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
						part.versions, part.metadatas, part.bodies, true, source => 'sender') i;
			END IF;
			changed := changed + found;
		END LOOP;
		-- If the stream of a sender was deleted here, the sender begins another stream and compares all its objects.
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
	IS 'stores a batch of objects, after check_objects() found no error. refusals: objects that their schemas refuse; '
		'then the caller rolls back the whole batch';

---- comparing ----

CREATE FUNCTION kube_reports_internal.check_sync(document jsonb) RETURNS kube_reports_internal.refusal[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(ROW(s.place, s.message)::kube_reports_internal.refusal), '{}')
	FROM (VALUES ('/apiVersion', 'must be "forward/v1"', document->>'apiVersion' IS NOT DISTINCT FROM 'forward/v1'),
		('/type', 'must be a type that is served here, as <plural>.<group>/<version>',
			-- A sender that has nothing to compare only says that it is there.
			coalesce(document->'type' IS NULL AND document->'items' = '[]' AND document->'range' IS NULL, false)
			OR EXISTS (SELECT FROM kube_reports.resource_type t
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
COMMENT ON FUNCTION kube_reports_internal.check_sync(jsonb) IS 'the errors in a list to compare with';

CREATE FUNCTION kube_reports_internal.forward_sync(cluster_id integer, document jsonb) RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A range has both ends, one or none: plan for its values.  Its objects are read in the order of their keys, and
-- copies are looked up by theirs; without statistics the planner would read all of them.
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
					AND NOT o.labels && ARRAY(SELECT DISTINCT 'forward.kube-reports.io/scan=' || a.scan
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
	IS 'compares a list of a sender with the stored objects. wanted: the places in the list of objects that are not '
		'stored in that version; surplus: stored objects in the range of keys that are not in the list. Reports of '
		'scans are left out. Without a type and items, nothing is compared';

---- the request ----

CREATE FUNCTION kube_reports_internal.refused_batch(what text, exact json, parsed jsonb, cluster_name text,
	OUT code integer, OUT reply bytea)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refusals	kube_reports_internal.refusal[];
	metadata	record;
BEGIN
	-- This check comes first, because the checks below read each item.
	IF EXISTS (SELECT FROM unnest(ARRAY[parsed->'results', parsed->'remediations', parsed->'items',
				parsed->'evidence']) p(part)
			WHERE CASE jsonb_typeof(p.part) WHEN 'array' THEN jsonb_array_length(p.part) > 5000 END) THEN
		code := 413;
		reply := kube_reports_internal.forward_refusal(413, 'RequestEntityTooLarge', 'a batch has at most 5000 items');
		RETURN;
	END IF;
	IF jsonb_typeof(parsed) <> 'object' THEN
		refusals := ARRAY[ROW('', 'must be an object')::kube_reports_internal.refusal];
	ELSE
		refusals := CASE what WHEN 'results' THEN kube_reports_internal.check_results(parsed)
			-- Results that come alone have no number.
			WHEN 'result' THEN kube_reports_internal.check_results(parsed || '{"seq": 1}')
			WHEN 'objects' THEN kube_reports_internal.check_objects(exact)
			WHEN 'evidence' THEN kube_reports_internal.check_evidence(parsed)
			ELSE kube_reports_internal.check_sync(parsed) END;
		SELECT * INTO metadata FROM kube_reports_internal.check_metadata(parsed->'extraMetadata', cluster_name);
		refusals := refusals || metadata.refusals;
	END IF;
	IF refusals <> '{}' THEN
		code := 400;
		reply := kube_reports_internal.forward_refusal(400, 'BadRequest', 'the batch is refused: '
			|| cardinality(refusals) || ' items are wrong', refusals);
	ELSIF metadata.foreign_name IS NOT NULL THEN
		code := 403;
		reply := kube_reports_internal.forward_refusal(403, 'Forbidden',
			format('the credential is of cluster "%s", not of "%s"', cluster_name, metadata.foreign_name));
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.refused_batch(text, json, jsonb, text)
	IS 'the answer to a batch that is not stored: it is too large, an item is wrong, or it names another cluster than '
		'that of its credential; nulls: it is right. exact, parsed: the batch';

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
	refusals	kube_reports_internal.refusal[] := '{}';
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
	SELECT r.code, r.reply INTO code, reply
		FROM kube_reports_internal.refused_batch(what, exact, parsed, sender.cluster_name) r;
	IF code IS NOT NULL THEN
		RETURN;
	END IF;
	IF what = 'sync' THEN
		code := 200;
		reply := kube_reports_internal.forward_sync(sender.cluster_id, parsed);
		PERFORM kube_reports_internal.note_served(sender.cluster);
		RETURN;
	END IF;
	PERFORM FROM kube_reports_internal.sender_credential s WHERE s.cluster_id = sender.cluster_id
		ORDER BY s.kind, s.credential FOR NO KEY UPDATE;
	PERFORM kube_reports_internal.set_sealed('actor', 'sender:' || sender.name);
	-- An error rolls back only the rows that the batch has stored.
	BEGIN
		IF what = 'result' THEN
			code := 200;
			reply := kube_reports_internal.forward_result(sender.cluster_id, sender.cluster, parsed);
		ELSIF what = 'results' THEN
			SELECT r.code, r.reply INTO code, reply FROM kube_reports_internal.forward_results(sender.name,
				sender.cluster_id, sender.cluster, parsed, sha256(document)) r;
		ELSIF what = 'evidence' THEN
			SELECT e.code, e.reply, e.refusals INTO code, reply, refusals
				FROM kube_reports_internal.forward_evidence(sender.cluster_id, sender.cluster, parsed) e;
			IF refusals <> '{}' THEN
				RAISE EXCEPTION 'files are refused' USING ERRCODE = 'KR400';
			END IF;
			PERFORM kube_reports_internal.merge_metadata(sender.cluster_id, parsed->'extraMetadata');
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
	IS 'handles a request of a sender with a proved credential, for the cluster of the credential. what: results, '
		'result, objects, evidence or sync; kind, the kind of the credential: token or certificate. Stores the whole '
		'batch or nothing; see docs/forwarding.md';

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
