-- documents_sql.sql
--	  What SQL reads in documents: what the C functions over the engine's
--	  parsed documents are in C.
--
-- Functions whose names begin with sql_ exist only in the SQL variant.  Only the owner may call them, so functions for
-- other roles are SECURITY DEFINER.

-- jsonb cannot read NUL and lone surrogates, and json cannot return them as text.  Hardly any document has an escape of
-- either.  If several members have the same key, the last one counts, for json, jsonb and the engine.
CREATE FUNCTION kube_reports_internal.sql_readable(document text, instead text DEFAULT '\ufffd') RETURNS json
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN strpos(document, '\u') = 0 OR document !~ '\\u(0000|[dD][89a-fA-F])' THEN document::json
	ELSE (SELECT string_agg(coalesce(p.found[1], instead), '' ORDER BY p.n)
		FROM regexp_matches(document,
			'((?:[^\\]|\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?!0000|[dD][89a-fA-F])....)+)|\\u....', 'g')
			WITH ORDINALITY p(found, n))::json END;
COMMENT ON FUNCTION kube_reports_internal.sql_readable(text, text)
	IS 'a document in a form that json and jsonb can read: an escaped NUL and halves of surrogate pairs become '
		'U+FFFD, or the text instead';

CREATE FUNCTION kube_reports_internal.sql_has_nul(document text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN strpos(document, '\u0000') > 0;
COMMENT ON FUNCTION kube_reports_internal.sql_has_nul(text)
	IS 'whether the text of a document contains \u0000: the escape of NUL, or an escaped backslash and u0000';

CREATE FUNCTION kube_reports_internal.sql_object(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE '{}' END;
COMMENT ON FUNCTION kube_reports_internal.sql_object(jsonb)
	IS 'the value if it is an object, otherwise an empty object';

CREATE FUNCTION kube_reports_internal.sql_array(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END;
COMMENT ON FUNCTION kube_reports_internal.sql_array(jsonb) IS 'the value if it is an array, otherwise an empty array';

CREATE FUNCTION kube_reports_internal.sql_string(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'string' THEN value#>>'{}' END;
COMMENT ON FUNCTION kube_reports_internal.sql_string(jsonb) IS 'the value if it is a string, otherwise null';

---- members ----

CREATE FUNCTION kube_reports_internal.sql_member(document text, path text[]) RETURNS json
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	value		json := kube_reports_internal.sql_readable(document);
	key			text;
BEGIN
	FOREACH key IN ARRAY path LOOP
		value := CASE json_typeof(value) WHEN 'object' THEN value->key END;
	END LOOP;
	RETURN value;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_member(text, text[])
	IS 'the value at a path of members; null if there is none';

CREATE FUNCTION kube_reports_internal.string_at(document kube_reports.report, VARIADIC path text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	value		json := kube_reports_internal.sql_member(document, path);
BEGIN
	RETURN CASE json_typeof(value) WHEN 'string' THEN value#>>'{}' END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.string_at(kube_reports.report, text[])
	IS 'the string at a path of members; null if there is none. NUL, which jsonb cannot read and no text can contain, '
		'becomes U+FFFD';

CREATE FUNCTION kube_reports_internal.value_at(document kube_reports.report, VARIADIC path text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN kube_reports_internal.sql_member(document, path)::jsonb::text;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.value_at(kube_reports.report, text[])
	IS 'the value at a path of members, as JSON; null if there is none';

---- labels ----

-- In PL/pgSQL, which keeps its plans: each write calls these functions.
CREATE FUNCTION kube_reports_internal.sql_labels(metadata jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN ARRAY(SELECT l.key || '=' || (l.value#>>'{}')
		FROM jsonb_each(kube_reports_internal.sql_object(metadata->'labels')) l
		WHERE jsonb_typeof(l.value) = 'string' ORDER BY l.key COLLATE "C");
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_labels(jsonb) IS 'label_terms() of metadata that jsonb can read';

-- A label with a NUL is not valid.  A text contained a NUL if it differs when another character replaces NUL.
CREATE FUNCTION kube_reports.label_terms(metadata kube_reports.report) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	terms		text[];
	others		text[];
BEGIN
	-- Hardly any metadata has an escape.
	IF strpos(metadata, '\u') = 0 THEN
		RETURN kube_reports_internal.sql_labels(metadata::jsonb);
	END IF;
	terms := kube_reports_internal.sql_labels(kube_reports_internal.sql_readable(metadata)::jsonb);
	IF kube_reports_internal.sql_has_nul(metadata) THEN
		-- Lone surrogates stay U+FFFD: only the replacement of NUL may differ.
		others := kube_reports_internal.sql_labels(kube_reports_internal.sql_readable(regexp_replace(metadata,
			'(?<!\\)((?:\\\\)*)\\u0000', '\1\ufffe', 'g'))::jsonb);
		terms := ARRAY(SELECT t.term FROM unnest(terms) WITH ORDINALITY t(term, n)
			WHERE t.term = ANY (others) ORDER BY t.n);
	END IF;
	RETURN terms;
END
$$;
COMMENT ON FUNCTION kube_reports.label_terms(kube_reports.report)
	IS 'the search terms of an object''s labels: key=value for each label, sorted by key; an empty array without '
		'labels';

---- owners ----

CREATE FUNCTION kube_reports_internal.first_owner(metadata kube_reports.report, OUT owners integer, OUT uid text,
	OUT owner kube_reports.report)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	listed		json := kube_reports_internal.sql_readable(metadata)->'ownerReferences';
	first		json;
BEGIN
	IF json_typeof(listed) IS DISTINCT FROM 'array' OR json_array_length(listed) = 0 THEN
		RETURN;
	END IF;
	first := CASE json_typeof(listed->0) WHEN 'object' THEN listed->0 ELSE '{}' END;
	owners := json_array_length(listed);
	uid := CASE json_typeof(first->'uid') WHEN 'string' THEN first->>'uid' ELSE '' END;
	owner := json_build_object('apiVersion', coalesce(first->'apiVersion', '""'), 'kind', coalesce(first->'kind', '""'),
		'name', coalesce(first->'name', '""'), 'uid', coalesce(first->'uid', '""'))::text;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.first_owner(kube_reports.report)
	IS 'owners: the number of owners in the metadata of an object; uid: the uid of the first owner; owner: its '
		'apiVersion, kind, name and uid. Nulls: the object has no owner';

---- results of the policy working group's format ----

CREATE FUNCTION kube_reports_internal.sql_summary_place(document json) RETURNS json
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN document->'results' IS NOT NULL OR document->'summary' IS NOT NULL THEN document
	WHEN json_typeof(document->'spec') = 'object' AND (document#>'{spec,results}' IS NOT NULL
		OR document#>'{spec,summary}' IS NOT NULL) THEN document->'spec' END;
COMMENT ON FUNCTION kube_reports_internal.sql_summary_place(json)
	IS 'the object that contains results and summary of a document: the document, or its spec; null if neither does';

CREATE FUNCTION kube_reports_internal.count_summary(body kube_reports.report, OUT counted kube_reports.report,
	OUT found kube_reports.report)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT json_build_object('error', count(*) FILTER (WHERE r.result = 'error'),
			'fail', count(*) FILTER (WHERE r.result = 'fail'), 'pass', count(*) FILTER (WHERE r.result = 'pass'),
			'skip', count(*) FILTER (WHERE r.result = 'skip'), 'warn', count(*) FILTER (WHERE r.result = 'warn'))::text,
		min(CASE json_typeof(p.summary) WHEN 'object' THEN p.summary::text END)
	-- OFFSET keeps the planner from reading the document again for each result.
	FROM (SELECT p.place->'results' AS list, p.place->'summary' AS summary
			FROM (SELECT kube_reports_internal.sql_summary_place(
				kube_reports_internal.sql_readable(body)) AS place OFFSET 0) p OFFSET 0) p
		LEFT JOIN LATERAL (SELECT CASE json_typeof(e.item) WHEN 'object' THEN CASE json_typeof(e.item->'result')
				WHEN 'string' THEN e.item->>'result' END END AS result
			FROM json_array_elements(CASE json_typeof(p.list) WHEN 'array' THEN p.list ELSE '[]' END) e(item)) r
			ON true;
END;
COMMENT ON FUNCTION kube_reports_internal.count_summary(kube_reports.report)
	IS 'the summary counted from the results of a report in the policy working group''s format, and the summary in '
		'the report (null: it has none): both are at the top of the report, or in spec';

-- Whether a number of JSON is an integer is decided by its text: 1.0 and 1e3 are no integers.
CREATE FUNCTION kube_reports_internal.list_results(body kube_reports.report, resource kube_reports.report,
		OUT "position" integer, OUT source text, OUT policy text, OUT rule text, OUT status text,
			OUT seconds bigint, OUT content text)
		RETURNS SETOF record
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT (e.n - 1)::integer, coalesce(kube_reports_internal.sql_string((e.item->'source')::jsonb), ''),
		coalesce(kube_reports_internal.sql_string((e.item->'policy')::jsonb), ''),
		coalesce(kube_reports_internal.sql_string((e.item->'rule')::jsonb), ''),
		coalesce(kube_reports_internal.sql_string((e.item->'result')::jsonb), ''),
		CASE WHEN json_typeof(e.item#>'{timestamp,seconds}') = 'number' AND json_typeof(e.item->'timestamp') = 'object'
			THEN coalesce(kube_reports_internal.sql_integer(e.item#>>'{timestamp,seconds}'), 0) ELSE 0 END,
		CASE WHEN resource IS NULL THEN e.item::text ELSE (e.item::jsonb || jsonb_build_object('resources',
			jsonb_build_array(kube_reports_internal.sql_readable(resource))))::text END
	-- OFFSET, as above: the list is looked for once.
	FROM (SELECT kube_reports_internal.sql_summary_place(
			kube_reports_internal.sql_readable(body))->'results' AS list OFFSET 0) l,
		json_array_elements(CASE json_typeof(l.list) WHEN 'array' THEN l.list ELSE '[]' END)
			WITH ORDINALITY e(item, n)
	WHERE json_typeof(e.item) = 'object'
	ORDER BY e.n;
END;
COMMENT ON FUNCTION kube_reports_internal.list_results(kube_reports.report, kube_reports.report)
	IS 'the results of a report in the policy working group''s format, each as JSON with the members that aggregation '
		'needs. resource: replaces the resource of each result (null: it stays)';
