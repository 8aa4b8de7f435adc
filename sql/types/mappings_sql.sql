-- mappings_sql.sql
--	  Checks of mappings in SQL: what engine/results/result_mapping.c and
--	  engine/schema/jsonpath.c check in C.
--
-- Functions whose names begin with sql_ exist only in the SQL variant.

CREATE FUNCTION kube_reports_internal.sql_unquoted(quoted text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT string_agg(CASE left(p.found[1], 1) WHEN '\' THEN coalesce((ARRAY[E'\x07', E'\b', E'\f', E'\n', E'\r',
		E'\t', E'\x0b'])[nullif(strpos('abfnrtv', substr(p.found[1], 2)), 0)], substr(p.found[1], 2))
		ELSE p.found[1] END, '' ORDER BY p.n)
	FROM regexp_matches(substr(quoted, 2, length(quoted) - 2), '\\.|[^\\]+', 'g') WITH ORDINALITY p(found, n));
COMMENT ON FUNCTION kube_reports_internal.sql_unquoted(text) IS 'a quoted constant of a path, without its quotes';

-- A parenthesis ends the filter unless it is inside the (only) quoted constant.
CREATE FUNCTION kube_reports_internal.sql_filter_end(path text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	place		integer := 4;
	part		text;
	quote		text := '';
	closed		boolean := false;
BEGIN
	LOOP
		part := substr(path, place, 1);
		IF part IN ('', E'\n') THEN
			RETURN NULL;
		ELSIF part IN ('"', '''') THEN
			IF quote = '' THEN
				quote := part;
			ELSIF part = quote AND substr(path, place - 1, 1) <> '\' THEN
				closed := true;
			END IF;
		END IF;
		EXIT WHEN part = ')' AND (quote <> '') = closed;
		place := place + 1;
	END LOOP;
	RETURN place;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_filter_end(text)
	IS 'where the parenthesis stands that ends the filter at the start of a path; null: nowhere';

CREATE FUNCTION kube_reports_internal.sql_path_slice(part text, OUT made jsonb, OUT error text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	parts		text[] := regexp_match(part, '^(-?[0-9]{1,9})?(:(-?[0-9]{1,9})?(:(0*[1-9][0-9]*)?)?)?$');
BEGIN
	IF part LIKE '%,%' THEN
		error := 'unions are not supported';
	ELSIF part <> '*' AND parts IS NULL THEN
		error := 'invalid array index';
	ELSE
		-- One element is the slice that ends behind it.
		made := jsonb_build_object('first', parts[1]::integer,
			'behind', CASE WHEN part <> '*' AND parts[2] IS NULL THEN coalesce(parts[1]::integer, 0) + 1
				ELSE parts[3]::integer END,
			'one', part <> '*' AND parts[2] IS NULL, 'by', coalesce(nullif(parts[5], ''), '1')::integer);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_path_slice(text)
	IS 'the step of an index or a slice, without its brackets, or the error in it';

CREATE FUNCTION kube_reports_internal.sql_path_constant(rest text, OUT part text, OUT made jsonb, OUT error text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
BEGIN
	IF left(rest, 1) IN ('"', '''') THEN
		part := substring(rest FROM CASE left(rest, 1)
			WHEN '"' THEN '^"(?:[^"\\\n]|\\[abfnrtv\\"])*"' ELSE '^''(?:[^''\\\n]|\\[abfnrtv\\''])*''' END);
		error := CASE WHEN part IS NULL THEN 'invalid quoted string' END;
		made := jsonb_build_object('constant', kube_reports_internal.sql_unquoted(part));
		RETURN;
	END IF;
	part := substring(rest FROM '^(?:[-+0-9][^ \t\r\n.,\[\]$@{}]*\.[0-9]*|[^ \t\r\n.,\[\]$@{}]*)');
	IF part IN ('true', 'false') THEN
		made := jsonb_build_object('constant', part = 'true');
	ELSIF part !~ '^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)$' OR length(part) > 32 THEN
		error := 'unrecognized word in path';
	ELSE
		-- A number with a dot, or with many digits, is not an integer.
		made := jsonb_build_object('constant', (part || CASE WHEN part LIKE '%.%' THEN '0'
			WHEN length(part) > 18 THEN '.0' ELSE '' END)::numeric);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_path_constant(text)
	IS 'the constant at the start of an operand, its text and its step, or the error in it';

-- A step of a path is a field, an index or a slice, or a filter; an operand of a filter may be a constant.
CREATE FUNCTION kube_reports_internal.sql_path(path text, operand boolean, INOUT steps integer, OUT error text,
	OUT made jsonb)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	before CONSTANT integer := steps;
	rest		text := path;
	part		text;
	parts		text[];
	place		integer;
	side		record;
	other		record;
BEGIN
	made := '[]';
	WHILE rest <> '' AND error IS NULL LOOP
		IF left(rest, 1) IN (' ', '@', '$') THEN
			rest := substr(rest, 2);
		ELSIF starts_with(rest, '[?(') THEN
			place := kube_reports_internal.sql_filter_end(rest);
			IF place IS NULL THEN
				error := 'unterminated filter';
				RETURN;
			END IF;
			IF substr(rest, place + 1, 1) <> ']' THEN
				error := 'unclosed array expect ]';
				RETURN;
			END IF;
			parts := regexp_match(substr(rest, 4, place - 4), '^([^!<>=]*)([!<>=]*)(.*)$');
			rest := substr(rest, place + 2);
			steps := steps + 1;
			IF parts[2] <> '' AND (parts[1] = '' OR parts[3] = ''
					OR parts[2] NOT IN ('==', '!=', '<', '<=', '>', '>=')) THEN
				error := 'unrecognized filter operator';
				RETURN;
			END IF;
			SELECT * INTO side FROM kube_reports_internal.sql_path(parts[1], true, steps);
			SELECT * INTO other FROM kube_reports_internal.sql_path(parts[3], true, side.steps);
			steps := other.steps;
			error := coalesce(side.error, other.error);
			made := made || jsonb_build_object('filter', side.made, 'operator', parts[2], 'other', other.made);
		ELSIF starts_with(rest, '..') THEN
			error := 'recursive descent is not supported';
		ELSIF starts_with(rest, '.') THEN
			part := substring(rest FROM '^\.(?:\\.|[^\s.,\[\]$@{}\\]|[\v\f]|\\$)*');
			rest := substr(rest, 1 + length(part));
			steps := steps + 1;
			made := made || CASE part WHEN '.*' THEN '{}'
				ELSE jsonb_build_object('field', replace(substr(part, 2), '\', '')) END;
		ELSIF starts_with(rest, '[') THEN
			place := strpos(rest, ']');
			IF place = 0 THEN
				error := 'unterminated array';
				RETURN;
			END IF;
			part := substr(rest, 2, place - 2);
			rest := substr(rest, place + 1);
			IF part ~ '^''[^'']*''$' THEN
				SELECT * INTO side FROM kube_reports_internal.sql_path('.' || substr(part, 2, length(part) - 2), false,
					steps);
				steps := side.steps;
				error := side.error;
				made := made || side.made;
			ELSE
				steps := steps + 1;
				SELECT * INTO side FROM kube_reports_internal.sql_path_slice(part);
				error := side.error;
				made := made || coalesce(side.made, '[]');
			END IF;
		ELSIF operand AND steps = before AND left(rest, 1) !~ '[ \t\r\n.,\[\]$@{}]' THEN
			SELECT * INTO side FROM kube_reports_internal.sql_path_constant(rest);
			rest := substr(rest, 1 + length(side.part));
			steps := steps + 1;
			error := side.error;
			made := made || coalesce(side.made, '[]');
		ELSE
			error := 'unrecognized character in path';
		END IF;
		IF steps > 128 THEN
			error := coalesce(error, 'path has too many steps');
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_path(text, boolean, integer)
	IS 'the error in a path of a mapping (null: none), and the number of its steps, added to the steps given. made: '
		'an object for each step: field (a member''s name); first, behind, by, one (a slice, or one element); filter, '
		'operator, other (elements of a list); constant; without a member: all elements or members';

CREATE FUNCTION kube_reports_internal.sql_path_error(path text, resources boolean) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rest		text := CASE left(path, 1) WHEN '.' THEN path ELSE substr(path, 2) END;
	parsed		record;
BEGIN
	IF left(path, 1) NOT IN ('$', '.', '@') THEN
		RETURN 'a path starts with $ (the document), . (the result) or @ (the resource)';
	ELSIF left(path, 1) = '@' AND NOT resources THEN
		RETURN '@ has a meaning beside "each" only';
	ELSIF rest = '' THEN
		RETURN NULL;
	ELSIF left(rest, 1) NOT IN ('.', '[') THEN
		RETURN 'a member begins with a dot';
	ELSIF octet_length(rest) > 4096 THEN
		RETURN 'path is too long';
	END IF;
	SELECT * INTO parsed FROM kube_reports_internal.sql_path(rest, false, 0);
	RETURN coalesce(parsed.error, CASE parsed.steps WHEN 0 THEN 'path selects nothing' END);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_path_error(text, boolean)
	IS 'the error in a path; resources: it may start with @';

-- A status that a mapping itself sets must be one of the five statuses.
CREATE FUNCTION kube_reports_internal.sql_source_errors(value jsonb, place text, resources boolean, statuses boolean)
	RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	errors		text[];
	why			text;
BEGIN
	IF jsonb_typeof(value) = 'array' THEN
		IF jsonb_array_length(value) NOT BETWEEN 1 AND 64 THEN
			RETURN ARRAY[place || ': Invalid value: must have 1 to 64 elements'];
		END IF;
		RETURN ARRAY(SELECT e.error FROM jsonb_array_elements(value) WITH ORDINALITY a(value, n),
			LATERAL unnest(CASE jsonb_typeof(a.value)
				WHEN 'array' THEN ARRAY[kube_reports_internal.sql_field_error(format('%s[%s]', place, a.n - 1), a.value,
					'must be a path')]
				ELSE kube_reports_internal.sql_source_errors(a.value, format('%s[%s]', place, a.n - 1), resources,
					statuses) END) e(error));
	ELSIF jsonb_typeof(value) = 'object' THEN
		errors := ARRAY(SELECT format('%s.%s: Forbidden: mappings have no such member', place, m.key)
			FROM jsonb_object_keys(value) m(key) WHERE m.key NOT IN ('path', 'map', 'value', 'otherwise'));
		IF (value ? 'path') = (value ? 'value') THEN
			why := 'must have either a path or a value';
		ELSIF value ? 'otherwise' AND NOT value ? 'map' THEN
			why := 'otherwise stands beside a map only';
		ELSIF value ? 'otherwise' AND jsonb_typeof(value->'otherwise') <> 'string' THEN
			why := 'otherwise must be a string';
		ELSIF statuses AND NOT kube_reports_internal.sql_is_status(value->>'otherwise') THEN
			why := 'supported values: "pass", "warn", "fail", "error", "skip"';
		ELSIF value ? 'map' AND (jsonb_typeof(value->'map') <> 'object'
				OR jsonb_path_exists(value->'map', 'strict $.* ? (@.type() != "string")')) THEN
			why := 'a map must be an object of words and what they stand for';
		ELSIF value ? 'path' THEN
			RETURN errors || kube_reports_internal.sql_source_errors(CASE jsonb_typeof(value->'path')
					WHEN 'string' THEN value->'path' ELSE 'null' END, place || '.path', resources, statuses)
				|| CASE WHEN statuses THEN ARRAY(SELECT format('%s.map[%s]: Unsupported value: %s: supported values: '
						'"pass", "warn", "fail", "error", "skip"', place, m.key, to_json(m.value))
					FROM jsonb_each_text(kube_reports_internal.sql_object(value->'map')) m
					WHERE NOT kube_reports_internal.sql_is_status(m.value)) END;
		ELSIF jsonb_typeof(value->'value') <> 'string' THEN
			why := 'must be a string';
		ELSIF value ? 'map' THEN
			why := 'a value needs no map';
		ELSIF statuses AND NOT kube_reports_internal.sql_is_status(value->>'value') THEN
			why := 'supported values: "pass", "warn", "fail", "error", "skip"';
		END IF;
		RETURN errors || CASE WHEN why IS NOT NULL
			THEN ARRAY[kube_reports_internal.sql_field_error(place, value, why)] END;
	END IF;
	why := CASE WHEN jsonb_typeof(value) <> 'string' OR value = '""' THEN 'must be a path'
		ELSE kube_reports_internal.sql_path_error(value#>>'{}', resources) END;
	RETURN CASE WHEN why IS NULL THEN '{}'
		ELSE ARRAY[kube_reports_internal.sql_field_error(place, value, why)] END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_source_errors(jsonb, text, boolean, boolean)
	IS 'the errors in the value of a column of a mapping';

CREATE FUNCTION kube_reports_internal.sql_is_status(word text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN lower(word COLLATE "C") IN ('pass', 'warn', 'fail', 'error', 'skip');
COMMENT ON FUNCTION kube_reports_internal.sql_is_status(text) IS 'whether a word is one of the five statuses';

CREATE FUNCTION kube_reports_internal.sql_mapping_errors(mapping jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	columns CONSTANT text[] := '{list,source,policy,rule,category,severity,status,score,message,exceptions,time,key}';
	parts CONSTANT text[] := '{each,apiVersion,kind,namespace,name,uid}';
	errors		text[];
	part		record;
BEGIN
	errors := ARRAY(SELECT format('%s: Forbidden: mappings have no such member', m.key)
			FROM jsonb_object_keys(mapping) m(key) WHERE m.key <> ALL (columns || '{properties,subjects}'::text[]))
		|| ARRAY(SELECT format('%s: Required value: a mapping says where the results, their policies and their '
				'statuses stand', r.key) FROM unnest('{list,policy,status}'::text[]) r(key) WHERE NOT mapping ? r.key)
		|| ARRAY(SELECT e.error FROM unnest(columns) c(key), LATERAL unnest(kube_reports_internal.sql_source_errors(
			mapping->c.key, c.key, false, c.key = 'status')) e(error) WHERE mapping ? c.key);
	-- The list is in the document: none of its paths starts with a dot.
	IF jsonb_path_exists(mapping, '$.list ? (@ starts with ".")')
			OR jsonb_path_exists(mapping, '$.list[*] ? (@ starts with ".")')
			OR jsonb_path_exists(mapping, '$.list.path ? (@ starts with ".")')
			OR jsonb_path_exists(mapping, '$.list[*].path ? (@ starts with ".")') THEN
		errors := errors || 'list: Invalid value: results stand in the document: the path starts with $'::text;
	END IF;
	IF jsonb_typeof(mapping->'properties') = 'object' THEN
		errors := errors || ARRAY(SELECT e.error FROM jsonb_each(mapping->'properties') p,
			LATERAL unnest(kube_reports_internal.sql_source_errors(p.value, format('properties[%s]', p.key), false,
				false)) e(error));
	ELSIF mapping ? 'properties' THEN
		errors := errors || kube_reports_internal.sql_source_errors(mapping->'properties', 'properties', false, false);
	END IF;
	IF NOT mapping ? 'subjects' THEN
		RETURN errors;
	ELSIF jsonb_typeof(mapping->'subjects') <> 'array' OR jsonb_array_length(
			kube_reports_internal.sql_array(mapping->'subjects')) > 64 THEN
		RETURN errors || 'subjects: Invalid value: must be a list of at most 64 ways to the subjects'::text;
	END IF;
	FOR part IN SELECT s.value, format('subjects[%s]', s.n - 1) AS place
		FROM jsonb_array_elements(mapping->'subjects') WITH ORDINALITY s(value, n) ORDER BY s.n
	LOOP
		IF jsonb_typeof(part.value) <> 'object' THEN
			errors := errors || kube_reports_internal.sql_field_error(part.place, part.value, 'must be an object');
			CONTINUE;
		END IF;
		errors := errors || ARRAY(SELECT format('%s.%s: Forbidden: mappings have no such member', part.place, m.key)
				FROM jsonb_object_keys(part.value) m(key) WHERE m.key <> ALL (parts))
			|| ARRAY(SELECT e.error FROM unnest(parts) c(key), LATERAL unnest(kube_reports_internal.sql_source_errors(
				part.value->c.key, format('%s.%s', part.place, c.key), c.key <> 'each'
					AND part.value ? 'each', false)) e(error) WHERE part.value ? c.key)
			|| CASE WHEN NOT part.value ? 'name'
				THEN ARRAY[part.place || '.name: Required value: a subject has a name'] END;
	END LOOP;
	RETURN errors;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_mapping_errors(jsonb) IS 'the errors in a mapping';

CREATE FUNCTION kube_reports_internal.check_results_mapping(mapping kube_reports.report, type text)
	RETURNS kube_reports.report
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		jsonb := kube_reports_internal.sql_readable(mapping);
BEGIN
	PERFORM kube_reports_internal.sql_invalid('{"kind": "ResultsMapping", "group": ""}', type,
		kube_reports_internal.sql_mapping_errors(given));
	RETURN kube_reports_internal.sql_canonical(given);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.check_results_mapping(kube_reports.report, text)
	IS 'the mapping of a type in canonical form; raises KR422 with the path of an error';
