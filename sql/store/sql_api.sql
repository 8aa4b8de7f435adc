-- sql_api.sql
--	  Writing and reading reports from SQL.
--
-- These functions write as the API does, but they raise errors instead of answering.  The SQLSTATE is KR and the HTTP
-- code, e.g. KR409 for a conflict.

CREATE FUNCTION kube_reports_internal.raise_status(code integer, reply bytea) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	status		kube_reports.report := convert_from(reply, 'UTF8')::kube_reports.report;
BEGIN
	RAISE EXCEPTION '%', kube_reports_internal.string_at(status, 'message')
		USING ERRCODE = 'KR' || code, DETAIL = 'Reason: '
			|| coalesce(kube_reports_internal.string_at(status, 'reason'), 'Unknown') || '.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.raise_status(integer, bytea) IS 'raises a Kubernetes Status as an error';

-- Finds the type of a document by its apiVersion and kind.
CREATE FUNCTION kube_reports_internal.request_for(cluster uuid, verb text, document kube_reports.report) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	api_version text := kube_reports_internal.string_at(document, 'apiVersion');
	document_kind text := kube_reports_internal.string_at(document, 'kind');
	request		jsonb;
BEGIN
	SELECT jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', t."group", 'version',
		v.version, 'resource', t.plural,
			'namespace', CASE WHEN t.namespaced THEN
				coalesce(kube_reports_internal.string_at(document, 'metadata', 'namespace'), 'default') END,
			'name', CASE WHEN verb <> 'create' THEN kube_reports_internal.string_at(document, 'metadata', 'name') END,
			'contentType', 'application/json', 'userAgent', 'sql', 'user',
				jsonb_build_object('username', session_user)))
		INTO request
		FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		WHERE t."group" || '/' || v.version = api_version AND t.kind = document_kind;
	IF NOT FOUND AND (document_kind IS NULL OR api_version IS NULL) THEN
		RAISE EXCEPTION 'the report has no %', CASE WHEN api_version IS NULL THEN 'apiVersion' ELSE 'kind' END
			USING ERRCODE = 'KR404', HINT = 'A report is a whole object, with apiVersion and kind.';
	ELSIF NOT FOUND THEN
		RAISE EXCEPTION 'no type is registered for kind "%" of "%"', document_kind, api_version
			USING ERRCODE = 'KR404', HINT = 'register_crd() serves further types.';
	END IF;
	RETURN request;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.request_for(uuid, text, kube_reports.report)
	IS 'the API request that writes a document';

CREATE FUNCTION kube_reports.create_report(cluster uuid, document kube_reports.report) RETURNS kube_reports.report
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT kube_reports_internal.write_one(cluster, kube_reports_internal.request_for(cluster, 'create', document),
		convert_to(document::text, 'UTF8'));
END;
COMMENT ON FUNCTION kube_reports.create_report(uuid, kube_reports.report)
	IS 'stores a new object, as kubectl create does; returns the stored object. Raises KR409 when it exists, KR422 '
		'when it is invalid, KR404 for an unknown type, 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.replace_report(cluster uuid, document kube_reports.report) RETURNS kube_reports.report
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT kube_reports_internal.write_one(cluster, kube_reports_internal.request_for(cluster, 'update', document),
		convert_to(document::text, 'UTF8'));
END;
COMMENT ON FUNCTION kube_reports.replace_report(uuid, kube_reports.report)
	IS 'replaces an object, as kubectl replace does; metadata.resourceVersion must be that of the stored object. '
		'Raises KR409 when the object has changed meanwhile, KR404 when it does not exist, KR422 when it is invalid';

CREATE FUNCTION kube_reports_internal.address(type text, version text, verb text, namespace text, name text)
	RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports.resource_type t WHERE t.plural || '.' || t."group" = type) THEN
		RAISE EXCEPTION 'type "%" is not registered', type USING ERRCODE = 'KR404',
			HINT = kube_reports_internal.type_hint(type);
	END IF;
	RETURN jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', substr(type, strpos(type, '.') + 1),
		'resource', split_part(type, '.', 1), 'namespace', nullif(namespace, ''), 'name', name,
		'version', coalesce(address.version, (SELECT v.version
			FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
			WHERE t.plural || '.' || t."group" = type ORDER BY v.priority LIMIT 1)),
		'contentType', CASE verb WHEN 'patch' THEN 'application/merge-patch+json' ELSE 'application/json' END,
		'userAgent', 'sql', 'user', jsonb_build_object('username', session_user)));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.address(text, text, text, text, text)
	IS 'the API request for an object named by type (<plural>.<group>), namespace and name. Raises KR404 for an '
		'unknown type';

CREATE FUNCTION kube_reports.patch_report(cluster uuid, type text, namespace text, name text, patch jsonb)
	RETURNS kube_reports.report
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT kube_reports_internal.write_one(cluster, kube_reports_internal.address(type, NULL, 'patch', namespace, name),
		convert_to(patch::text, 'UTF8'));
END;
COMMENT ON FUNCTION kube_reports.patch_report(uuid, text, text, text, jsonb)
	IS 'applies a JSON merge patch to an object and returns the stored object. type is PLURAL.GROUP; namespace is '
		'empty for cluster scope. Raises KR404 when the object does not exist and for an unknown type, 42704 for an '
		'unknown cluster';

CREATE FUNCTION kube_reports.delete_report(cluster uuid, type text, namespace text, name text) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT kube_reports_internal.write_one(cluster,
		kube_reports_internal.address(type, NULL, 'delete', namespace, name), ''::bytea);
END;
COMMENT ON FUNCTION kube_reports.delete_report(uuid, text, text, text)
	IS 'deletes an object, as kubectl delete does; type is PLURAL.GROUP. Raises KR404 when the object does not exist '
		'and for an unknown type, 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.get_report(cluster uuid, type text, namespace text, name text) RETURNS kube_reports.report
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	asked		jsonb := kube_reports_internal.address(type, NULL, 'get', namespace, name);
	document	text;
BEGIN
	PERFORM kube_reports_internal.require_visible();
	PERFORM kube_reports_internal.known_cluster(cluster);
	SELECT concat('{"apiVersion":', to_json(concat(asked->>'group', '/', asked->>'version')),
			',"kind":', to_json(t.kind),
			',"metadata":', left(o.metadata::text, -1), ',"resourceVersion":"', o.version, '"}',
			CASE WHEN o.body::text ~ '^{\s*}' THEN '' ELSE ',' END, ltrim(o.body::text, '{'))
		INTO document
		FROM kube_reports_internal.resolve(cluster, asked->>'group', asked->>'version', asked->>'resource',
				kube_reports_internal.this_caller()) r
			JOIN kube_reports.resource_type t ON t.id = r.type_id
			JOIN kube_reports.object o ON o.cluster_id = r.cluster_id AND o.resource_type = r.type_id
				AND o.namespace = coalesce(asked->>'namespace', '') AND o.name = asked->>'name';
	RETURN document::kube_reports.report;
END
$$;
COMMENT ON FUNCTION kube_reports.get_report(uuid, text, text, text)
	IS 'an object as the API serves it; null when it does not exist. Raises KR404 for an unknown type, 42704 for an '
		'unknown cluster';

CREATE VIEW kube_reports.stored_report WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, t."group", t.plural AS resource, t.kind,
		o.namespace, o.name, o.uid,
		o.version AS resource_version, o.metadata, o.body,
		concat('{"apiVersion":',
			to_json(t."group" || '/' || (SELECT v.version FROM kube_reports_internal.resource_version v
				WHERE v.resource_type = t.id AND v.priority = 1)),
			',"kind":', to_json(t.kind), ',"metadata":',
				o.metadata, CASE WHEN o.body::text ~ '^{\s*}' THEN '' ELSE ',' END,
			ltrim(o.body::text, '{'))::kube_reports.report AS document
	FROM kube_reports.object o
		JOIN kube_reports.cluster c ON c.id = o.cluster_id
		JOIN kube_reports.resource_type t ON t.id = o.resource_type
	WHERE o.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (o.cluster_id, o.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports.stored_report
	IS 'every stored object that the reader may see, with the names of its cluster and type. document: the whole '
		'object, as results() and summary() read it';

