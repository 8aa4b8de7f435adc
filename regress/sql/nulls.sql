-- Every function in C, with a null, with something odd and with something fitting in every position: an answer or an
-- error, and the server goes on.
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

-- What stands for an argument: a null, something odd, something fitting; two more nulls if neither is known.
CREATE FUNCTION pg_temp.values_of(type regtype, name text) RETURNS text[] LANGUAGE sql AS $$
	SELECT ARRAY['NULL'] || coalesce(CASE
		WHEN name = 'definition' THEN ARRAY['''{}''',
			'(SELECT v.definition::text FROM kube_reports_internal.resource_version v JOIN kube_reports.resource_type '
				't ON t.id = v.resource_type WHERE t.plural = ''policyreports'')']
		WHEN name = 'definition_id' THEN ARRAY['-1',
			'(SELECT v.id FROM kube_reports_internal.resource_version v JOIN kube_reports.resource_type t ON t.id = '
				'v.resource_type WHERE t.plural = ''policyreports'')']
		WHEN name = 'mapping' THEN ARRAY['''{"list": 1}''',
			'(SELECT t.mapping::text FROM kube_reports.resource_type t WHERE t.plural = ''policyreports'')']
		WHEN type::text LIKE '%report' THEN ARRAY['''{"a": [null, {}], "metadata": []}''',
			'''{"name": "a", "labels": {"a": "b"}, "results": [{"policy": "p", "result": "fail"}]}''']
		WHEN type::text LIKE '%report[]' THEN ARRAY['''{NULL}''', '''{"{}"}''']
		WHEN type = 'jsonb'::regtype AND name = 'request' THEN ARRAY['''[]''',
			'''{"verb": "create", "group": "wgpolicyk8s.io", "version": "v1alpha2", "resource": "policyreports", '
				'"namespace": "a", "name": "a", "user": {"username": "u"}}''']
		WHEN name LIKE '%\_statuses' THEN ARRAY['''é''', '''pf-''']
		WHEN type IN ('text'::regtype, 'cstring'::regtype) THEN ARRAY['''''', '''a=b''']
		WHEN type = 'text[]'::regtype THEN ARRAY['''{{NULL,a},{b,c}}''', '''{a}''']
		WHEN type = 'bytea'::regtype THEN ARRAY['''\xff00''', '''{"metadata": {"name": "a"}}''']
		WHEN type = 'jsonb'::regtype THEN ARRAY['''null''', '''{"a": 1}''']
		WHEN type = 'boolean'::regtype THEN ARRAY['false', 'true']
		WHEN type IN ('bigint'::regtype, 'integer'::regtype) THEN ARRAY['-2147483648', '1']
		WHEN type IN ('bigint[]'::regtype, 'anyarray'::regtype) THEN ARRAY['''{{7,NULL},{7,8}}''', '''{7,NULL,8}''']
		WHEN type::text LIKE '%result_row[]' THEN ARRAY['''{NULL}''', '''{}''']
		WHEN type = '"char"[]'::regtype THEN ARRAY['''{{p}}''', '''{p}''']
		WHEN type = 'timestamptz[]'::regtype THEN ARRAY['''{{infinity}}''',
			'''{NULL,infinity,2026-01-01 00:00:00+00}''']
		WHEN type = '"char"'::regtype THEN ARRAY['''''', '''h''']
		WHEN type = 'uuid'::regtype THEN ARRAY['''00000000-0000-0000-0000-000000000000''', 'gen_random_uuid()']
		END, ARRAY['NULL', 'NULL'])
$$;
CREATE FUNCTION pg_temp.call_all(OUT functions integer, OUT without_values text[], OUT answers bigint,
	OUT errors bigint) LANGUAGE plpgsql AS $$
DECLARE
	f		record;
	choices	text[];
	call	text;
	n		integer;
	base	integer;
BEGIN
	functions := 0; answers := 0; errors := 0;
	FOR f IN SELECT p.oid::regproc AS name,
				array_agg(pg_temp.values_of(a.type, p.proargnames[a.n]) ORDER BY a.n) AS args,
				bool_or((pg_temp.values_of(a.type, p.proargnames[a.n]))[3] = 'NULL') AS unknown,
					array_agg(CASE a.type WHEN 'anyarray'::regtype THEN 'bigint[]' ELSE a.type::regtype::text END
						ORDER BY a.n) AS types,
				p.provariadic <> 0 AS variadic
			FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
				AND l.lanname = 'c', unnest(p.proargtypes) WITH ORDINALITY a(type, n)
			WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) GROUP BY p.oid
	LOOP
		functions := functions + 1;
		IF f.unknown THEN
			without_values := without_values || f.name::text;
		END IF;
		-- Of many arguments each is a null or fits.
		base := CASE WHEN cardinality(f.types) > 5 THEN 2 ELSE 3 END;
		FOR combination IN 0 .. base ^ cardinality(f.types) - 1 LOOP
			n := combination;
			choices := '{}';
			FOR i IN 1 .. cardinality(f.types) LOOP
				choices := choices || (CASE WHEN f.variadic AND i = cardinality(f.types) THEN 'VARIADIC ' ELSE '' END
					|| '(' || f.args[i][n % base * (4 - base) + 1] || ')::' || f.types[i]);
				n := n / base;
			END LOOP;
			call := format('SELECT count(to_json(r)::text) FROM %s(%s) r', f.name, array_to_string(choices, ', '));
			BEGIN
				EXECUTE call;
				answers := answers + 1;
			EXCEPTION WHEN OTHERS THEN
				errors := errors + 1;
			END;
		END LOOP;
	END LOOP;
END
$$;
SELECT functions > 30 AS all_functions, without_values, answers > 100 AS answers, errors > 100 AS errors
	FROM pg_temp.call_all();
