-- 83_aggregation.sql
--	  Aggregation: options, and summaries that are filled in.

---- summaries ----

CREATE FUNCTION kube_reports.set_summaries(type text, filled boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored		integer;
	members		jsonb;
BEGIN
	SELECT t.id, coalesce(p.properties->'summary', p.properties#>'{spec,properties,summary}')->'properties' INTO stored, members
		FROM kube_reports.resource_type t
			JOIN LATERAL (SELECT v.definition::jsonb#>'{schema,properties}' AS properties FROM kube_reports.resource_version v
				WHERE v.resource_type = t.id ORDER BY v.priority LIMIT 1) p ON true
		WHERE t.plural || '.' || t."group" = type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'type "%" is not registered', type
			USING ERRCODE = 'undefined_object', HINT = 'Name it as <plural>.<group>.';
	END IF;
	IF NOT filled THEN
		DELETE FROM kube_reports.summary_type s WHERE s.resource_type = stored;
		RETURN;
	END IF;
	IF members IS NULL OR NOT members ?& '{pass,fail,warn,error,skip}' THEN
		RAISE EXCEPTION 'type "%" has no summary of the policy working group''s format', type
			USING ERRCODE = 'invalid_parameter_value',
				DETAIL = 'Its schema has no summary, at the top or in spec, with pass, fail, warn, error and skip.';
	END IF;
	INSERT INTO kube_reports.summary_type (resource_type) VALUES (stored) ON CONFLICT ON CONSTRAINT summary_type_pkey DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports.set_summaries(text, boolean)
	IS 'from now on each write to a type, named <plural>.<group>, fills in the summary where its producer left it out; a summary that a producer gave stays as it is, and verify() tells of those that are wrong. Raises 42704 for an unknown type, 22023 for one without such a summary';

CREATE FUNCTION kube_reports.wrong_summaries() RETURNS TABLE (cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT o.cluster_id, o.namespace, o.name, c.expected, f.found
	FROM kube_reports.summary_type s
		JOIN kube_reports.object o ON o.resource_type = s.resource_type
		CROSS JOIN LATERAL (SELECT kube_reports.count_summary(o.body)::jsonb) c(expected)
		CROSS JOIN LATERAL (SELECT coalesce(o.body::json->'summary', o.body::json#>'{spec,summary}')::jsonb) f(found)
	WHERE f.found IS NOT NULL
		AND EXISTS (SELECT FROM jsonb_each(c.expected) e WHERE e.value <> coalesce(f.found->e.key, '0'));
END;
COMMENT ON FUNCTION kube_reports.wrong_summaries()
	IS 'reports whose summary is not what their results make, among the types of set_summaries(); a member that is left out counts as 0';
