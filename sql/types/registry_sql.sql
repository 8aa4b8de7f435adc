-- registry_sql.sql
--	  Checks of CustomResourceDefinitions in SQL: names, versions and the frame
--	  of schemas.
--
-- Proxies check the schemas when they read the registry, and use the definition that engine/schema/crd.c makes: see
-- definition_restore().

CREATE FUNCTION kube_reports_internal.sql_crd_errors(crd jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	label CONSTANT text := '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$';
	spec		jsonb := kube_reports_internal.sql_object(crd->'spec');
	names		jsonb := kube_reports_internal.sql_object(spec->'names');
	errors		text[] := '{}';
	version		record;
BEGIN
	IF crd->>'kind' IS DISTINCT FROM 'CustomResourceDefinition'
			OR crd->>'apiVersion' IS DISTINCT FROM 'apiextensions.k8s.io/v1' THEN
		errors := errors || 'kind: Invalid value: must be a CustomResourceDefinition of apiextensions.k8s.io/v1'::text;
	END IF;
	IF coalesce((kube_reports_internal.sql_string(spec->'group') COLLATE "C")
			!~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$', true) THEN
		errors := errors || kube_reports_internal.sql_field_error('spec.group', spec->'group',
			'must be a lowercase RFC 1123 subdomain with a dot');
	END IF;
	IF coalesce((kube_reports_internal.sql_string(names->'plural') COLLATE "C") !~ '^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$',
			true) THEN
		errors := errors || kube_reports_internal.sql_field_error('spec.names.plural', names->'plural',
			'must be a lowercase RFC 1035 label');
	END IF;
	IF coalesce((lower(kube_reports_internal.sql_string(names->'kind') COLLATE "C"))
			!~ '^[a-z]([-a-z0-9]{0,57}[a-z0-9])?$', true) THEN
		errors := errors || kube_reports_internal.sql_field_error('spec.names.kind', names->'kind',
			'must be an RFC 1035 label, but for its case');
	END IF;
	IF crd#>>'{metadata,name}' IS DISTINCT FROM concat_ws('.', names->>'plural', spec->>'group') THEN
		errors := errors || kube_reports_internal.sql_field_error('metadata.name', crd#>'{metadata,name}',
			'must be spec.names.plural, a dot and spec.group');
	END IF;
	IF coalesce(kube_reports_internal.sql_string(spec->'scope') NOT IN ('Namespaced', 'Cluster'), true) THEN
		errors := errors || format('spec.scope: Unsupported value: %s: supported values: "Cluster", "Namespaced"',
			coalesce(spec->'scope', '""'));
	END IF;
	IF kube_reports_internal.sql_array(spec->'versions') = '[]' THEN
		RETURN errors || 'spec.versions: Required value: must have at least one version'::text;
	END IF;
	FOR version IN SELECT kube_reports_internal.sql_object(v.value) AS value,
			format('spec.versions[%s]', v.n - 1) AS place
		FROM jsonb_array_elements(spec->'versions') WITH ORDINALITY v(value, n) ORDER BY v.n
	LOOP
		IF coalesce((kube_reports_internal.sql_string(version.value->'name') COLLATE "C") !~ label, true) THEN
			errors := errors || kube_reports_internal.sql_field_error(version.place || '.name', version.value->'name',
				'must be a lowercase RFC 1035 label');
		END IF;
		IF version.value#>>'{schema,openAPIV3Schema,type}' IS DISTINCT FROM 'object' THEN
			errors := errors || (version.place || '.schema.openAPIV3Schema.type: Required value: must be object');
		END IF;
		errors := errors || ARRAY(SELECT kube_reports_internal.sql_field_error(version.place || '.' || b.member,
				version.value->b.member, 'must be a boolean')
			FROM (VALUES ('served'), ('storage')) b(member)
			WHERE coalesce(jsonb_typeof(version.value->b.member), 'boolean') <> 'boolean');
	END LOOP;
	IF (SELECT count(*) FROM jsonb_array_elements(spec->'versions') v(value)
			WHERE kube_reports_internal.sql_object(v.value)->'storage' = 'true') <> 1 THEN
		errors := errors
			|| 'spec.versions: Invalid value: must have exactly one version marked as storage version'::text;
	END IF;
	RETURN errors;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_crd_errors(jsonb)
	IS 'the errors in the names and versions of a CustomResourceDefinition';

-- General availability comes before beta and alpha, and a higher number before a lower one; other names come last.
CREATE FUNCTION kube_reports_internal.sql_version_rank(name text) RETURNS numeric[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT CASE WHEN v.parts IS NULL THEN '{9,0,0}'
	ELSE ARRAY[CASE v.parts[2] WHEN 'alpha' THEN 2 WHEN 'beta' THEN 1 ELSE 0 END, -v.parts[1]::numeric,
		-coalesce(v.parts[3], '0')::numeric] END
	FROM (SELECT regexp_match(name, '^v([1-9][0-9]{0,17})(?:(alpha|beta)([1-9][0-9]{0,17}))?$') AS parts) v);
COMMENT ON FUNCTION kube_reports_internal.sql_version_rank(text)
	IS 'the order of versions of a type: the version that clients prefer comes first';

CREATE FUNCTION kube_reports_internal.sql_checked_crd(crd jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.sql_invalid('{"kind": "CustomResourceDefinition", "group": "apiextensions.k8s.io"}',
		coalesce(crd#>>'{metadata,name}', ''), kube_reports_internal.sql_crd_errors(crd));
	RETURN crd;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_checked_crd(jsonb)
	IS 'a CustomResourceDefinition without errors in its names and versions; raises KR422';

-- Like the engine's schema_rules(): the rules of a schema come before the rules of the schemas below it.
CREATE FUNCTION kube_reports_internal.sql_schema_rules(schema jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	WITH RECURSIVE place AS (
		SELECT schema, ''::text AS path, '{}'::integer[] AS position
		UNION ALL
		SELECT n.schema, n.path, p.position || n.position
		FROM place p CROSS JOIN LATERAL (
			SELECT m.value AS schema, concat_ws('.', nullif(p.path, ''), m.key) AS path,
				(1 + row_number() OVER (ORDER BY length(m.key), m.key COLLATE "C"))::integer AS position
			FROM jsonb_each(kube_reports_internal.sql_object(p.schema->'properties')) m
			UNION ALL
			SELECT p.schema->n.member, p.path || n.path, 1000000 + n.position
			FROM (VALUES ('items', '[*]', 1), ('additionalProperties', CASE p.path WHEN '' THEN '*' ELSE '.*' END, 2))
				n(member, path, position)) n
		WHERE jsonb_typeof(n.schema) = 'object'
	)
	SELECT coalesce(jsonb_agg(concat_ws(': ', nullif(p.path, ''),
		rtrim(regexp_replace(r.rule->>'rule', '[\x01-\x20\x7f]+', ' ', 'g'))) ORDER BY p.position, r.n), '[]')
	FROM place p, jsonb_array_elements(kube_reports_internal.sql_array(p.schema->'x-kubernetes-validations'))
			WITH ORDINALITY r(rule, n)
	WHERE jsonb_typeof(r.rule->'rule') = 'string';
END;
COMMENT ON FUNCTION kube_reports_internal.sql_schema_rules(jsonb)
	IS 'the CEL rules of a schema, each as a line with its place';

CREATE FUNCTION kube_reports_internal.crd_definitions(crd kube_reports.report) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_build_object('group', s.spec->'group', 'plural', s.spec#>'{names,plural}', 'singular', s.singular,
		'kind', s.spec#>'{names,kind}', 'listKind', s.list_kind, 'scope', s.spec->'scope',
		'shortNames', coalesce(s.spec#>'{names,shortNames}', '[]'), 'categories',
			coalesce(s.spec#>'{names,categories}', '[]'),
		'versions', (SELECT jsonb_agg(jsonb_build_object('group', s.spec->'group', 'version', v.version->'name',
				'kind', s.spec#>'{names,kind}', 'listKind', s.list_kind, 'plural', s.spec#>'{names,plural}',
					'singular', s.singular,
				'shortNames', coalesce(s.spec#>'{names,shortNames}', '[]'), 'categories',
					coalesce(s.spec#>'{names,categories}', '[]'),
				'scope', s.spec->'scope', 'status', v.version#>'{subresources,status}' IS NOT NULL,
					'storage', v.version->'storage',
				'columns', coalesce(v.version->'additionalPrinterColumns', '[]'), 'schema',
					v.version#>'{schema,openAPIV3Schema}')
				-- The text of the CRD, or else upstream's text, which names the best version that is not deprecated.
				|| CASE WHEN (v.version->>'deprecated')::boolean THEN jsonb_build_object('deprecationWarning',
					coalesce(v.version->>'deprecationWarning', format('%s/%s %s is deprecated', s.spec->>'group',
						v.version->>'name', s.spec#>>'{names,kind}')
						|| coalesce((SELECT format('; use %s/%s %s', s.spec->>'group', b.version->>'name',
								s.spec#>>'{names,kind}')
							FROM jsonb_array_elements(s.spec->'versions') b(version)
							WHERE (b.version->>'served')::boolean
								AND (b.version->>'deprecated')::boolean IS NOT TRUE
								AND (kube_reports_internal.sql_version_rank(b.version->>'name'),
									b.version->>'name' COLLATE "C")
									< (kube_reports_internal.sql_version_rank(v.version->>'name'),
										v.version->>'name' COLLATE "C")
							ORDER BY kube_reports_internal.sql_version_rank(b.version->>'name'),
								b.version->>'name' COLLATE "C"
							LIMIT 1), ''))) ELSE '{}' END
				|| CASE WHEN k.rules = '[]' THEN '{}' ELSE jsonb_build_object('unevaluatedRules', k.rules) END
				ORDER BY kube_reports_internal.sql_version_rank(v.version->>'name'), v.version->>'name' COLLATE "C")
			FROM jsonb_array_elements(s.spec->'versions') WITH ORDINALITY v(version, position)
				CROSS JOIN LATERAL (SELECT kube_reports_internal.sql_schema_rules(
					v.version#>'{schema,openAPIV3Schema}') AS rules OFFSET 0) k
			WHERE (v.version->>'served')::boolean))
	FROM (SELECT g.spec, coalesce(g.spec#>'{names,singular}',
				to_jsonb(lower(g.spec#>>'{names,kind}' COLLATE "C"))) AS singular,
			coalesce(g.spec#>'{names,listKind}', to_jsonb(g.spec#>>'{names,kind}' || 'List')) AS list_kind
		-- OFFSET: the CustomResourceDefinition is checked once, not for each member that is read.
		FROM (SELECT kube_reports_internal.sql_checked_crd(crd::jsonb)->'spec' AS spec OFFSET 0) g) s;
END;
COMMENT ON FUNCTION kube_reports_internal.crd_definitions(kube_reports.report)
	IS 'the types that a CustomResourceDefinition defines; raises KR422 with the JSON path of an error or of an '
		'unsupported member';
