-- The same answer whatever the locale, the time of the day within a statement, the spaces in a document and the length
-- of a number.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

-- Spaces around and within a document are no members.
SELECT convert_from(kube_reports_internal.render_object(v.id, v.definition, 'object', d.metadata::kube_reports.report,
	d.body::kube_reports.report, 7), 'UTF8')::jsonb AS object
	FROM (VALUES (E' \n{ "name": "x" }\t', E'\r{ "summary": {} } '), ('{ }', E'{\n}'),
		(' {} ', ' {} ')) d(metadata, body),
		kube_reports_internal.resource_version v JOIN kube_reports.resource_type t ON t.id = v.resource_type
	WHERE t.plural = 'policyreports';


-- A statement has one time: an age does not grow while it runs.
CREATE TEMP TABLE aging AS SELECT v.id, v.definition, p.transform, format('{"name":"x","creationTimestamp":"%s"}',
			to_char(now() AT TIME ZONE 'UTC' - interval '20 s', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))::kube_reports.report AS
				metadata
	FROM kube_reports_internal.resource_version v JOIN kube_reports.resource_type t ON t.id = v.resource_type,
		kube_reports_internal.get_plan(v.id, v.definition,
			'{"verb":"get","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
			'"namespace":"n","name":"x","accept":"application/json;as=Table;g=meta.k8s.io;v=v1"}') p
	WHERE t.plural = 'policyreports';
SELECT count(DISTINCT s.cells) AS rows
	FROM (SELECT convert_from(kube_reports_internal.render_object(a.id, a.definition, a.transform,
		a.metadata, CASE WHEN w.waited IS NOT NULL THEN kube_reports.report '{}' END, 1),
		'UTF8')::jsonb #> '{rows,0,cells}' AS cells
		FROM aging a, generate_series(1, 3) n, LATERAL (SELECT pg_sleep(n * 0.7)::text AS waited) w) s;

-- Versions: numbers of any length that Go's int has, none with a leading zero; the preferred version is the first of
-- them.
SELECT jsonb_path_query_array(kube_reports_internal.crd_definitions(jsonb_build_object('apiVersion',
	'apiextensions.k8s.io/v1', 'kind', 'CustomResourceDefinition',
		'metadata', '{"name":"things.example.org"}'::jsonb, 'spec',
			jsonb_build_object('group', 'example.org', 'scope', 'Namespaced',
			'names', '{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"}'::jsonb,
			'versions', (SELECT jsonb_agg(jsonb_build_object('name', n, 'served', true, 'storage', n = 'v9', 'schema',
				'{"openAPIV3Schema":{"type":"object"}}'::jsonb))
				FROM unnest('{v9,v10000000000,v02,v99999999999999999999,v9beta10000000000,v9beta2,v1}'::text[])
					n)))::text::kube_reports.report),
		'$.versions[*].version') AS versions;

-- A name that is too long is cut between characters.
SELECT octet_length(r.name), length(r.name), convert_from(convert_to(r.name, 'UTF8'), 'UTF8') = r.name AS valid
	FROM unnest(kube_reports.policy_rules(jsonb_build_object('spec',
		jsonb_build_object('rules', jsonb_build_array(jsonb_build_object('name', repeat('é', 60),
		'match', '{"any":[{"resources":{"kinds":["Pod"]}}]}'::jsonb, 'validate',
			'{"deny":{}}'::jsonb))))::kube_reports.report)) r(name);
