-- write_sql.sql
--	  Documents that the owner writes by DML, and documents of domains, checked
--	  by SQL: shape, names, size, and the parts of a schema that jsonb can check.
--
-- Some checks of the engine are not made here: patterns and formats of strings, CEL rules, keys of lists, managed
-- fields.

---- the form in which documents are stored ----

CREATE FUNCTION kube_reports_internal.sql_quoted(value text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN replace(replace(to_json(value)::text, convert_from('\xe280a8', 'UTF8'), '\u2028'),
	convert_from('\xe280a9', 'UTF8'), '\u2029');
COMMENT ON FUNCTION kube_reports_internal.sql_quoted(text) IS 'a text as a string of a stored document';

-- As Go prints a number: an integer of 64 bits by its digits, any other number as the nearest double.
CREATE FUNCTION kube_reports_internal.sql_number(value numeric) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET extra_float_digits = 1
SET standard_conforming_strings = on
AS $$
DECLARE
	nearest		double precision;
BEGIN
	IF scale(value) = 0 AND value BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
		RETURN value::text;
	END IF;
	nearest := value::double precision;
	IF nearest = 0 THEN
		RETURN '0';
	ELSIF abs(nearest) >= 1e-6 AND abs(nearest) < 1e21 THEN
		RETURN trim_scale(nearest::text::numeric)::text;
	END IF;
	RETURN regexp_replace(nearest::text, 'e([-+])0*', 'e\1');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_number(numeric) IS 'a number in the form of stored documents';

CREATE FUNCTION kube_reports_internal.sql_canonical(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
BEGIN
	RETURN CASE jsonb_typeof(value)
		WHEN 'object' THEN '{' || coalesce((SELECT string_agg(kube_reports_internal.sql_quoted(m.key) || ':'
				|| kube_reports_internal.sql_canonical(m.value), ',' ORDER BY m.key COLLATE "C")
			FROM jsonb_each(value) m), '') || '}'
		WHEN 'array' THEN '[' || coalesce((SELECT string_agg(kube_reports_internal.sql_canonical(e.value), ','
				ORDER BY e.place)
			FROM jsonb_array_elements(value) WITH ORDINALITY e(value, place)), '') || ']'
		WHEN 'string' THEN kube_reports_internal.sql_quoted(value#>>'{}')
		WHEN 'number' THEN kube_reports_internal.sql_number((value#>>'{}')::numeric)
		ELSE value::text END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_canonical(jsonb)
	IS 'a value in the form of stored documents: members in the order of their keys, without white space';

---- schemas ----

-- Errors are in the words of the API.
CREATE FUNCTION kube_reports_internal.sql_field_error(path text, value jsonb, why text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN format('%s: Invalid value: %s: %s', coalesce(nullif(path, ''), '<nil>'), CASE jsonb_typeof(value)
	WHEN 'object' THEN '"object"' WHEN 'array' THEN '"array"' ELSE coalesce(value::text, 'null') END, why);
COMMENT ON FUNCTION kube_reports_internal.sql_field_error(text, jsonb, text) IS 'an error of a field of a document';

CREATE FUNCTION kube_reports_internal.sql_has_type(value jsonb, schema jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN schema->'x-kubernetes-int-or-string' = 'true' THEN jsonb_typeof(value) = 'string'
		OR jsonb_typeof(value) = 'number' AND scale(trim_scale((value#>>'{}')::numeric)) = 0
	WHEN schema->>'type' = 'integer' THEN jsonb_typeof(value) = 'number'
		AND scale(trim_scale((value#>>'{}')::numeric)) = 0
	ELSE coalesce(schema->>'type', jsonb_typeof(value)) = jsonb_typeof(value) END;
COMMENT ON FUNCTION kube_reports_internal.sql_has_type(jsonb, jsonb) IS 'whether a value has the type of its schema';

-- Fields that are not in the schema are dropped; an absent field with a default gets the default.
CREATE FUNCTION kube_reports_internal.sql_conform(schema jsonb, path text, INOUT value jsonb, INOUT errors text[])
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	properties	jsonb := kube_reports_internal.sql_object(schema->'properties');
	additional	jsonb := schema->'additionalProperties';
	keeps		boolean := coalesce(schema->'x-kubernetes-preserve-unknown-fields' = 'true', false);
	made		jsonb;
	part		record;
	child		record;
BEGIN
	IF jsonb_typeof(value) = 'null' AND schema->'nullable' = 'true' THEN
		RETURN;
	ELSIF NOT kube_reports_internal.sql_has_type(value, schema) THEN
		errors := errors || kube_reports_internal.sql_field_error(path, value,
			format('%s in body must be of type %s: %s', path,
				coalesce(schema->>'type', 'integer or string'), to_json(jsonb_typeof(value))));
		RETURN;
	END IF;
	IF jsonb_typeof(schema->'enum') = 'array' AND NOT schema->'enum' @> jsonb_build_array(value) THEN
		errors := errors || format('%s: Unsupported value: %s: supported values: %s', path, value,
			(SELECT string_agg(e.value::text, ', ' ORDER BY e.value)
				FROM jsonb_array_elements(schema->'enum') e(value)));
	END IF;
	CASE jsonb_typeof(value)
		WHEN 'number' THEN
			IF (value#>>'{}')::numeric < (schema->>'minimum')::numeric THEN
				errors := errors || kube_reports_internal.sql_field_error(path, value,
					format('%s in body should be greater than or equal to %s', path, schema->>'minimum'));
			ELSIF (value#>>'{}')::numeric > (schema->>'maximum')::numeric THEN
				errors := errors || kube_reports_internal.sql_field_error(path, value,
					format('%s in body should be less than or equal to %s', path, schema->>'maximum'));
			END IF;
		WHEN 'string' THEN
			IF length(value#>>'{}') > (schema->>'maxLength')::numeric THEN
				errors := errors || format('%s: Too long: may not be more than %s bytes', path, schema->>'maxLength');
			ELSIF length(value#>>'{}') < (schema->>'minLength')::numeric THEN
				errors := errors || kube_reports_internal.sql_field_error(path, value,
					format('%s in body should be at least %s chars long', path, schema->>'minLength'));
			END IF;
		WHEN 'array' THEN
			IF jsonb_array_length(value) > (schema->>'maxItems')::numeric THEN
				errors := errors || format('%s: Too many: %s: must have at most %s items', path,
					jsonb_array_length(value), schema->>'maxItems');
			ELSIF jsonb_array_length(value) < (schema->>'minItems')::numeric THEN
				errors := errors || kube_reports_internal.sql_field_error(path, value,
					format('%s in body should have at least %s items', path, schema->>'minItems'));
			END IF;
			IF jsonb_typeof(schema->'items') = 'object' THEN
				made := '[]';
				FOR part IN SELECT e.value, e.place - 1 AS place
					FROM jsonb_array_elements(value) WITH ORDINALITY e(value, place) ORDER BY e.place
				LOOP
					SELECT * INTO child FROM kube_reports_internal.sql_conform(schema->'items',
						format('%s[%s]', path, part.place), part.value, errors);
					made := made || jsonb_build_array(child.value);
					errors := child.errors;
				END LOOP;
				value := made;
			END IF;
		WHEN 'object' THEN
			SELECT coalesce(jsonb_object_agg(d.key, d.value->'default'), '{}') || value INTO value
				FROM jsonb_each(properties) d WHERE d.value ? 'default';
			made := '{}';
			FOR part IN SELECT m.key, m.value, CASE WHEN properties ? m.key THEN properties->m.key
					WHEN jsonb_typeof(additional) = 'object' THEN additional
					WHEN keeps OR additional = 'true'
						THEN '{"x-kubernetes-preserve-unknown-fields": true}' END AS schema
				FROM jsonb_each(value) m
			LOOP
				CONTINUE WHEN part.schema IS NULL;
				SELECT * INTO child FROM kube_reports_internal.sql_conform(part.schema,
					CASE WHEN path = '' THEN '' ELSE path || '.' END || part.key, part.value, errors);
				made := made || jsonb_build_object(part.key, child.value);
				errors := child.errors;
			END LOOP;
			value := made;
			errors := errors || ARRAY(SELECT format('%s: Required value',
					CASE WHEN path = '' THEN '' ELSE path || '.' END || r.key)
				FROM jsonb_array_elements_text(kube_reports_internal.sql_array(schema->'required')) r(key)
				WHERE NOT made ? r.key);
		ELSE
			NULL;
	END CASE;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_conform(jsonb, text, jsonb, text[])
	IS 'a value without the members that are not in its schema, and with defaults; adds the errors to errors';

---- metadata ----

CREATE FUNCTION kube_reports_internal.sql_metadata_errors(metadata jsonb, namespaced boolean) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	subdomain CONSTANT text := '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
	name		text := metadata->>'name';
	namespace	text := metadata->>'namespace';
	errors		text[] := '{}';
BEGIN
	IF coalesce(name, '') = '' THEN
		errors := errors || 'metadata.name: Required value: name or generateName is required'::text;
	ELSIF (name COLLATE "C") !~ subdomain OR octet_length(name) > 253 THEN
		errors := errors || kube_reports_internal.sql_field_error('metadata.name', metadata->'name',
			'a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, ''-'' or ''.'', and '
			'must start and end with an alphanumeric character');
	END IF;
	IF namespaced AND coalesce(namespace, '') = '' THEN
		errors := errors || 'metadata.namespace: Required value'::text;
	ELSIF NOT namespaced AND coalesce(namespace, '') <> '' THEN
		errors := errors || 'metadata.namespace: Forbidden: not allowed on this type'::text;
	ELSIF namespaced AND ((namespace COLLATE "C") !~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'
			OR octet_length(namespace) > 63) THEN
		errors := errors || kube_reports_internal.sql_field_error('metadata.namespace', metadata->'namespace',
			'a lowercase RFC 1123 label must consist of lower case alphanumeric characters or ''-'', and must start '
			'and end with an alphanumeric character');
	END IF;
	-- The types of these members are those of every Kubernetes object.
	errors := errors || ARRAY(SELECT kube_reports_internal.sql_field_error('metadata.' || t.member, metadata->t.member,
			'must be of type ' || t.type)
		FROM (VALUES ('labels', 'object'), ('annotations', 'object'), ('ownerReferences', 'array'),
			('finalizers', 'array'), ('managedFields', 'array'), ('generateName', 'string'), ('uid', 'string'),
			('creationTimestamp', 'string'), ('generation', 'number')) t(member, type)
		WHERE coalesce(jsonb_typeof(metadata->t.member), 'null') NOT IN (t.type, 'null'));
	errors := errors || ARRAY(SELECT kube_reports_internal.sql_field_error('metadata.labels', to_jsonb(l.key),
			'it and its value must be those of a label')
		FROM jsonb_each(kube_reports_internal.sql_object(metadata->'labels')) l
		WHERE NOT kube_reports_internal.sql_label_key(l.key)
			OR NOT coalesce(kube_reports_internal.sql_label_value(kube_reports_internal.sql_string(l.value)), false)
		ORDER BY l.key COLLATE "C");
	errors := errors || ARRAY(SELECT kube_reports_internal.sql_field_error('metadata.annotations', to_jsonb(a.key),
			'it must be a qualified name, and its value a string')
		FROM jsonb_each(kube_reports_internal.sql_object(metadata->'annotations')) a
		WHERE NOT kube_reports_internal.sql_label_key(lower(a.key COLLATE "C")) OR jsonb_typeof(a.value) <> 'string'
		ORDER BY a.key COLLATE "C");
	IF (SELECT sum(octet_length(a.key) + octet_length(a.value)) > 262144
			FROM jsonb_each_text(kube_reports_internal.sql_object(metadata->'annotations')) a) THEN
		errors := errors || 'metadata.annotations: Too long: may not be more than 262144 bytes'::text;
	END IF;
	errors := errors || ARRAY(SELECT format('metadata.ownerReferences[%s].%s: Required value', o.place - 1, r.member)
		FROM jsonb_array_elements(kube_reports_internal.sql_array(metadata->'ownerReferences'))
				WITH ORDINALITY o(owner, place),
			(VALUES (1, 'apiVersion'), (2, 'kind'), (3, 'name'), (4, 'uid')) r(n, member)
		WHERE coalesce(kube_reports_internal.sql_string(kube_reports_internal.sql_object(o.owner)->r.member), '') = ''
		ORDER BY o.place, r.n);
	errors := errors || ARRAY(SELECT kube_reports_internal.sql_field_error('metadata.finalizers', f.finalizer,
			'must be a qualified name')
		FROM jsonb_array_elements(kube_reports_internal.sql_array(metadata->'finalizers')) f(finalizer)
		WHERE NOT coalesce(kube_reports_internal.sql_label_key(kube_reports_internal.sql_string(f.finalizer)), false));
	RETURN errors;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_metadata_errors(jsonb, boolean)
	IS 'the errors in the metadata of an object';

CREATE FUNCTION kube_reports_internal.sql_invalid(definition jsonb, name text, errors text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF cardinality(errors) > 0 THEN
		RAISE EXCEPTION '%', concat_ws('.', definition->>'kind', nullif(definition->>'group', ''))
			|| format(' "%s" is invalid: ', name) ||
			CASE cardinality(errors) WHEN 1 THEN errors[1] ELSE '[' || array_to_string(errors, ', ') || ']' END
			USING ERRCODE = 'KR422';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_invalid(jsonb, text, text[])
	IS 'raises KR422 with the message of the API if there are errors';

---- documents ----

CREATE FUNCTION kube_reports_internal.check_document(definition_id bigint, definition kube_reports.report,
	document kube_reports.report) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	defined		jsonb := definition::jsonb;
	given		jsonb := kube_reports_internal.sql_readable(document);
	metadata	jsonb := given->'metadata';
	errors		text[] := '{}';
BEGIN
	IF given->>'kind' IS DISTINCT FROM defined->>'kind' THEN
		errors := errors || kube_reports_internal.sql_field_error('kind', given->'kind', 'must be '
			|| (defined->>'kind'));
	END IF;
	IF given->>'apiVersion' IS DISTINCT FROM (defined->>'group') || '/' || (defined->>'version') THEN
		errors := errors || kube_reports_internal.sql_field_error('apiVersion', coalesce(given->'apiVersion', '""'),
			format('must be %s/%s', defined->>'group', defined->>'version'));
	END IF;
	IF jsonb_typeof(metadata) NOT IN ('object', 'null') THEN
		errors := errors || kube_reports_internal.sql_field_error('metadata', metadata, 'must be of type object');
	ELSIF jsonb_typeof(metadata) = 'object' AND errors = '{}' THEN
		-- A manifest may omit the namespace, and have generateName in place of a name.
		errors := kube_reports_internal.sql_metadata_errors(metadata
				|| CASE WHEN defined->>'scope' = 'Namespaced' AND NOT metadata ? 'namespace'
					THEN '{"namespace": "default"}' ELSE '{}' END::jsonb
				|| CASE WHEN metadata ? 'generateName' AND NOT metadata ? 'name'
					THEN jsonb_build_object('name', (metadata->>'generateName') || 'aaaaa') ELSE '{}' END,
			defined->>'scope' = 'Namespaced');
	END IF;
	IF errors = '{}' AND jsonb_typeof(defined->'schema') = 'object' THEN
		SELECT c.errors INTO errors FROM kube_reports_internal.sql_conform(defined->'schema', '',
			given - '{apiVersion,kind,metadata}'::text[], errors) c;
	END IF;
	PERFORM kube_reports_internal.sql_invalid(defined, coalesce(given#>>'{metadata,name}', ''), errors);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_document(bigint, kube_reports.report, kube_reports.report)
	IS 'true if the document conforms to its schema; otherwise raises KR422 with the message of the API';

-- Like the engine's write_document(): an absent member gets the stored value, or a new value if there is none; managed
-- fields stay as they are.
CREATE FUNCTION kube_reports_internal.write_document(definition_id bigint, definition kube_reports.report,
	namespace text, name text,
		INOUT metadata kube_reports.report, INOUT body kube_reports.report,
		stored_metadata kube_reports.report, stored_body kube_reports.report, fill_summary boolean, OUT uid uuid)
LANGUAGE plpgsql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
	-- The largest limit that a proxy may have.
	max_bytes CONSTANT integer := 67108864;
	defined		jsonb := definition::jsonb;
	settled		jsonb;
	document	jsonb;
	stored		jsonb := stored_metadata::jsonb;
	errors		text[] := '{}';
	place		text[] := '{}';
	column_value record;
BEGIN
	IF octet_length(metadata) + octet_length(body) > max_bytes THEN
		RAISE EXCEPTION 'object "%" is too large', name USING ERRCODE = 'program_limit_exceeded',
			DETAIL = format('It has %s bytes; the limit is %s.', octet_length(metadata) + octet_length(body),
				max_bytes);
	END IF;
	BEGIN
		settled := coalesce(metadata::jsonb, '{}');
		document := coalesce(body::jsonb, '{}');
	EXCEPTION WHEN untranslatable_character OR invalid_text_representation OR numeric_value_out_of_range THEN
		errors := ARRAY[format('<nil>: Invalid value: %s', SQLERRM)];
		PERFORM kube_reports_internal.sql_invalid(defined, name, errors);
	END;

	-- The key columns decide about name and namespace.
	FOR column_value IN SELECT k.key, k.value FROM (VALUES ('namespace', namespace), ('name', name)) k(key, value) LOOP
		IF NOT settled ? column_value.key THEN
			IF column_value.value <> '' THEN
				settled := settled || jsonb_build_object(column_value.key, column_value.value);
			END IF;
		ELSIF settled->column_value.key <> to_jsonb(column_value.value) THEN
			errors := errors || kube_reports_internal.sql_field_error('metadata.' || column_value.key,
				settled->column_value.key, 'does not match the row''s column');
		END IF;
	END LOOP;
	PERFORM kube_reports_internal.sql_invalid(defined, name, errors);

	settled := settled - '{resourceVersion,selfLink}'::text[];
	settled := jsonb_build_object('uid', coalesce(stored->>'uid', gen_random_uuid()::text),
			'creationTimestamp', coalesce(stored->>'creationTimestamp',
				to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
			'generation', coalesce(stored->'generation', '1'))
		|| CASE WHEN stored ? 'managedFields' THEN jsonb_build_object('managedFields', stored->'managedFields')
			ELSE '{}' END
		|| jsonb_strip_nulls(settled);
	errors := kube_reports_internal.sql_metadata_errors(settled, defined->>'scope' = 'Namespaced');
	IF (settled->>'uid') !~* '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' THEN
		errors := errors || kube_reports_internal.sql_field_error('metadata.uid', settled->'uid', 'must be a UUID');
	END IF;
	document := document - '{apiVersion,kind,metadata}'::text[];
	IF jsonb_typeof(defined->'schema') = 'object' THEN
		SELECT c.value, c.errors INTO document, errors
			FROM kube_reports_internal.sql_conform(defined->'schema', '', document, errors) c;
	END IF;
	PERFORM kube_reports_internal.sql_invalid(defined, name, errors);

	-- A summary in the document stays.
	IF fill_summary THEN
		place := CASE WHEN document ?| '{results,summary}' THEN '{}'::text[]
			WHEN kube_reports_internal.sql_object(document->'spec') ?| '{results,summary}' THEN '{spec}'::text[] END;
		IF place IS NOT NULL AND coalesce(document#>(place || 'summary'::text), '{}') = '{}' THEN
			document := jsonb_set(document, place || 'summary'::text,
				(SELECT c.counted::jsonb FROM kube_reports_internal.count_summary(document::text) c));
		END IF;
	END IF;
	-- A changed generation comes from the caller and stays.
	IF stored IS NOT NULL AND document <> stored_body::jsonb AND settled->'generation' = stored->'generation' THEN
		settled := jsonb_set(settled, '{generation}', to_jsonb((settled->>'generation')::bigint + 1));
	END IF;
	uid := settled->>'uid';
	metadata := kube_reports_internal.sql_canonical(settled);
	body := kube_reports_internal.sql_canonical(document);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_document(bigint, kube_reports.report, text, text, kube_reports.report,
	kube_reports.report, kube_reports.report, kube_reports.report, boolean)
	IS 'a document written by DML: checked, pruned and completed like a write through the API; raises KR422';
