-- document.sql
--	  Results and summary of any document, stored or not.

CREATE FUNCTION kube_reports_internal.mapping_for(document kube_reports.report, OUT mapping_id bigint,
	OUT mapping kube_reports.report)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	api_version text := kube_reports_internal.string_at(document, 'apiVersion');
	document_kind text := kube_reports_internal.string_at(document, 'kind');
BEGIN
	IF api_version IS NULL OR document_kind IS NULL THEN
		RAISE EXCEPTION 'the document has no apiVersion or no kind' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'A stored one with both is in column document of the view stored_report.';
	END IF;
	SELECT t.mapping_id, t.mapping INTO mapping_id, mapping
		FROM kube_reports.resource_type t
		WHERE t."group" = split_part(api_version, '/', 1) AND t.kind = document_kind;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'kind "%" of "%" is not registered', document_kind, api_version
			USING ERRCODE = 'undefined_object', HINT = 'register_crd() serves further types.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.mapping_for(kube_reports.report)
	IS 'the mapping of the type of a document, by apiVersion and kind; nulls if the type has no results';

CREATE FUNCTION kube_reports.results(document kube_reports.report)
	RETURNS TABLE ("position" integer, source text, policy text, rule text, category text, severity text,
		status text, native_status text,
		score double precision, api_version text, kind text, namespace text, name text, uid text, message text,
			properties jsonb, exceptions text[],
		evaluated_at timestamptz, key bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	WITH found AS MATERIALIZED (
		SELECT d.* FROM kube_reports_internal.mapping_for(document) m,
			LATERAL kube_reports_internal.result_difference(m.mapping_id, m.mapping, 0, NULL, NULL, NULL, document) d
	)
	SELECT d."position", s.source, s.policy, s.rule, s.category, s.severity,
		kube_reports_internal.status_name(d.status),
		coalesce(nullif(d.native_status, ''), kube_reports_internal.status_name(d.status)), nullif(d.score, 0),
		d.api_version, d.kind, d.subject_namespace, d.subject_name, d.subject_uid, s.message, s.properties::jsonb,
			s.exceptions, d.evaluated_at, d.key
	FROM found d JOIN found s ON s."position" = d."position" AND s.message IS NOT NULL
	ORDER BY d."position", d.subject_namespace, d.subject_name, d.key;
END;
COMMENT ON FUNCTION kube_reports.results(kube_reports.report)
	IS 'the results of a document of any registered type, stored or not: one row for each result and each resource '
		'that the result is about';

CREATE FUNCTION kube_reports.summary(document kube_reports.report, OUT pass integer, OUT fail integer, OUT warn integer,
	OUT error integer, OUT skip integer)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT count(*) FILTER (WHERE r.status = 'pass'), count(*) FILTER (WHERE r.status = 'fail'),
		count(*) FILTER (WHERE r.status = 'warn'),
		count(*) FILTER (WHERE r.status = 'error'), count(*) FILTER (WHERE r.status = 'skip')
	FROM (SELECT DISTINCT r."position", r.status FROM kube_reports.results(document) r) r;
END;
COMMENT ON FUNCTION kube_reports.summary(kube_reports.report)
	IS 'the number of results of a document with each status, counted as in the summary of a report';
