-- write_one_sql.sql
--	  One write for users of SQL where the engine runs in the proxy: the same
--	  as the owner's DML, which SQL checks and whose results a proxy's upkeep
--	  makes.  A step of upkeep may ask the engine, so it writes as the API does.
--
-- The caller needs the privileges of DML on kube_reports.object.  A write that
-- finalizers are part of needs the engine.

CREATE FUNCTION kube_reports_internal.sql_merged(target jsonb, patch jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	merged		jsonb := CASE jsonb_typeof(target) WHEN 'object' THEN target ELSE '{}' END;
	member		record;
BEGIN
	IF jsonb_typeof(patch) <> 'object' THEN
		RETURN patch;
	END IF;
	FOR member IN SELECT m.key, m.value FROM jsonb_each(patch) m LOOP
		IF member.value = 'null' THEN
			merged := merged - member.key;
		ELSE
			merged := merged || jsonb_build_object(member.key,
				kube_reports_internal.sql_merged(merged->member.key, member.value));
		END IF;
	END LOOP;
	RETURN merged;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_merged(jsonb, jsonb) IS 'a document with a JSON merge patch applied';

CREATE FUNCTION kube_reports_internal.sql_refuse(asked jsonb, code integer, why text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	object		text := format('%s.%s "%s"', asked->>'resource', asked->>'group', asked->>'name');
BEGIN
	RAISE EXCEPTION '%', CASE why WHEN 'NotFound' THEN object || ' not found'
			WHEN 'AlreadyExists' THEN object || ' already exists'
			ELSE format('Operation cannot be fulfilled on %s: the object has been modified; please apply your changes '
				'to the latest version and try again', object) END
		USING ERRCODE = 'KR' || code, DETAIL = 'Reason: ' || why || '.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_refuse(jsonb, integer, text)
	IS 'raises in the API''s words why a request cannot be fulfilled';

-- asked: as request_for() and address() make it.  A lost race is tried again with the newer object.
CREATE FUNCTION kube_reports_internal.sql_write(asked jsonb, cluster_id integer, resource_type integer, given jsonb)
	RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	verb		text := asked->>'verb';
	place		text := coalesce(asked->>'namespace', '');
	name		text := asked->>'name';
	metadata	jsonb := coalesce(nullif(given->'metadata', 'null'), '{}');
	-- Where status is a subresource, such a write does not touch it.
	has_status	boolean := (SELECT (v.definition::jsonb->>'status')::boolean
		FROM kube_reports_internal.resource_version v WHERE v.resource_type = resource_type
			AND v.version = asked->>'version');
	stored		record;
	changed		jsonb;
	rows		integer;
BEGIN
	IF verb = 'create' THEN
		INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
			VALUES (cluster_id, resource_type, place, name,
				(metadata - '{uid,creationTimestamp,generation}'::text[])::text,
				(CASE WHEN has_status THEN given - 'status' ELSE given END)::text);
		RETURN;
	END IF;
	FOR attempt IN 1 .. 10 LOOP
		SELECT o.version, o.metadata::jsonb AS metadata, o.body::jsonb AS body INTO stored FROM kube_reports.object o
			WHERE o.cluster_id = cluster_id AND o.resource_type = resource_type AND o.namespace = place
				AND o.name = name;
		IF NOT FOUND THEN
			PERFORM kube_reports_internal.sql_refuse(asked, 404, 'NotFound');
		ELSIF stored.metadata ? 'deletionTimestamp'
				OR verb = 'delete' AND stored.metadata->'finalizers' <> '[]' THEN
			RAISE EXCEPTION 'object "%" waits for finalizers', name
				USING ERRCODE = 'feature_not_supported', HINT = 'Send the request to a proxy.';
		ELSIF metadata ? 'resourceVersion' AND metadata->>'resourceVersion' <> stored.version::text THEN
			PERFORM kube_reports_internal.sql_refuse(asked, 409, 'Conflict');
		ELSIF verb = 'delete' THEN
			DELETE FROM kube_reports.object o WHERE o.cluster_id = cluster_id AND o.resource_type = resource_type
				AND o.namespace = place AND o.name = name AND o.version = stored.version;
		ELSE
			changed := CASE verb WHEN 'patch' THEN kube_reports_internal.sql_merged(
				stored.body || jsonb_build_object('metadata', stored.metadata), given) ELSE given END;
			IF has_status THEN
				changed := changed - 'status' || CASE WHEN stored.body ? 'status'
					THEN jsonb_build_object('status', stored.body->'status') ELSE '{}' END;
			END IF;
			UPDATE kube_reports.object o SET metadata = (changed->'metadata')::text, body = changed::text
				WHERE o.cluster_id = cluster_id AND o.resource_type = resource_type AND o.namespace = place
					AND o.name = name AND o.version = stored.version;
		END IF;
		GET DIAGNOSTICS rows = ROW_COUNT;
		-- No row is written either where nothing changes.
		IF rows = 1 OR EXISTS (SELECT FROM kube_reports.object o WHERE o.cluster_id = cluster_id
				AND o.resource_type = resource_type AND o.namespace = place AND o.name = name
				AND o.version = stored.version) THEN
			RETURN;
		END IF;
	END LOOP;
	PERFORM kube_reports_internal.sql_refuse(asked, 409, 'Conflict');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_write(jsonb, integer, integer, jsonb)
	IS 'one write as the owner''s DML; errors as the API says them';

CREATE FUNCTION kube_reports_internal.write_one(cluster uuid, request jsonb, document bytea) RETURNS kube_reports.report
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	cluster_key integer := kube_reports_internal.known_cluster(cluster);
	given		jsonb := nullif(convert_from(document, 'UTF8'), '')::jsonb;
	asked		jsonb := request;
	target		kube_reports.resource_type;
	written		record;
BEGIN
	IF kube_reports_internal.has_engine() THEN
		SELECT * INTO written FROM kube_reports_internal.write_batch(cluster, ARRAY[request], ARRAY[document]);
		IF written.codes[1] >= 400 THEN
			PERFORM kube_reports_internal.raise_status(written.codes[1], written.replies[1]);
		END IF;
		-- No reply is rendered while the engine has not answered all questions of the step.
		RETURN nullif(convert_from(written.replies[1], 'UTF8'), '')::kube_reports.report;
	END IF;
	SELECT * INTO target FROM kube_reports.resource_type t
		WHERE t."group" = asked->>'group' AND t.plural = asked->>'resource';
	IF asked->>'verb' = 'create' THEN
		asked := asked || jsonb_build_object('name', coalesce(nullif(given#>>'{metadata,name}', ''),
			left(nullif(given#>>'{metadata,generateName}', ''), 58) || substr(md5(gen_random_uuid()::text), 1, 5), ''));
	END IF;
	BEGIN
		PERFORM kube_reports_internal.sql_write(asked, cluster_key, target.id, given);
	EXCEPTION WHEN unique_violation THEN
		PERFORM kube_reports_internal.sql_refuse(asked, 409, 'AlreadyExists');
	END;
	IF asked->>'verb' = 'delete' THEN
		RETURN jsonb_build_object('kind', 'Status', 'apiVersion', 'v1', 'metadata', '{}'::jsonb, 'status', 'Success');
	END IF;
	-- get_report() is not for every role that may write.
	RETURN (SELECT concat('{"apiVersion":', to_json(concat(asked->>'group', '/', asked->>'version')),
			',"kind":', to_json(target.kind),
			',"metadata":', left(o.metadata::text, -1), ',"resourceVersion":"', o.version, '"}',
			CASE WHEN o.body::text ~ '^{\s*}' THEN '' ELSE ',' END, ltrim(o.body::text, '{'))
		FROM kube_reports.object o WHERE o.cluster_id = cluster_key AND o.resource_type = target.id
			AND o.namespace = coalesce(asked->>'namespace', '') AND o.name = asked->>'name');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_one(uuid, jsonb, bytea)
	IS 'one write; errors are raised. null: stored by a step of upkeep, or waiting for an answer of the engine';
