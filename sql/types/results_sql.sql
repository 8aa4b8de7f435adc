-- results_sql.sql
--	  Results of one document in SQL, for callers that no proxy serves: what
--	  engine/results/result_extract.c and result.c do in C.
--
-- Functions whose names begin with sql_ exist only in the SQL variant.  Writes do not call these functions: a proxy
-- prepares their results, in a tenth of the time.  jsonb does not store whether a number has an exponent: 1e3 is an
-- integer here.

---- paths ----

CREATE FUNCTION kube_reports_internal.sql_kind(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(value) <> 'number' THEN jsonb_typeof(value)
	WHEN scale((value#>>'{}')::numeric) = 0
		AND (value#>>'{}')::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 THEN 'integer'
	ELSE 'number' END;
COMMENT ON FUNCTION kube_reports_internal.sql_kind(jsonb)
	IS 'the type of a value; integers of 64 bits are distinguished from other numbers';

-- Null: the values cannot be compared, because their types differ or the type has no such operator.
CREATE FUNCTION kube_reports_internal.sql_compare(value jsonb, operator text, other jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kind		text := kube_reports_internal.sql_kind(value);
	place		integer;
BEGIN
	IF kind IS DISTINCT FROM kube_reports_internal.sql_kind(other)
			OR kind NOT IN ('boolean', 'integer', 'number', 'string')
			OR kind = 'boolean' AND operator NOT IN ('==', '!=') THEN
		RETURN NULL;
	ELSIF kind = 'number' THEN
		place := sign((value#>>'{}')::double precision - (other#>>'{}')::double precision);
	ELSIF kind = 'string' THEN
		place := CASE WHEN (value#>>'{}') COLLATE "C" < (other#>>'{}') COLLATE "C" THEN -1
			WHEN value = other THEN 0 ELSE 1 END;
	ELSE
		place := CASE WHEN value < other THEN -1 WHEN value = other THEN 0 ELSE 1 END;
	END IF;
	RETURN CASE operator WHEN '==' THEN place = 0 WHEN '!=' THEN place <> 0 WHEN '<' THEN place < 0
		WHEN '<=' THEN place <= 0 WHEN '>' THEN place > 0 WHEN '>=' THEN place >= 0 END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_compare(jsonb, text, jsonb)
	IS 'a comparison in a filter of a path; null: the values cannot be compared';

-- If a slice is out of bounds, or the value is not an array, the whole path selects nothing.
CREATE FUNCTION kube_reports_internal.sql_slice(value jsonb, step jsonb) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	size		integer;
	first		integer := coalesce((step->>'first')::integer, 0);
	behind		integer;
BEGIN
	IF jsonb_typeof(value) = 'null' THEN
		RETURN '{}';
	ELSIF jsonb_typeof(value) <> 'array' THEN
		RETURN NULL;
	END IF;
	size := jsonb_array_length(value);
	behind := coalesce((step->>'behind')::integer, size);
	first := first + CASE WHEN first < 0 THEN size ELSE 0 END;
	behind := behind + CASE WHEN behind < 0 OR behind = 0 AND step->'one' = 'true' THEN size ELSE 0 END;
	IF first = behind THEN
		RETURN '{}';
	ELSIF first < 0 OR first >= size OR behind < 0 OR behind > size OR first > behind THEN
		RETURN NULL;
	END IF;
	RETURN ARRAY(SELECT value->n.n FROM generate_series(first, behind - 1, (step->>'by')::integer) n(n) ORDER BY n.n);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_slice(jsonb, jsonb)
	IS 'elements of a list that a step of a path selects; null: the path selects nothing';

CREATE FUNCTION kube_reports_internal.sql_filtered(value jsonb, step jsonb) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	item		jsonb;
	found		jsonb[];
	others		jsonb[];
	passes		boolean;
	selected	jsonb[] := '{}';
BEGIN
	IF jsonb_typeof(value) <> 'array' THEN
		RETURN NULL;
	END IF;
	FOR item IN SELECT e.value FROM jsonb_array_elements(value) WITH ORDINALITY e(value, n) ORDER BY e.n LOOP
		found := kube_reports_internal.sql_selected(item, step->'filter');
		IF step->>'operator' = '' THEN
			IF cardinality(found) > 0 THEN
				selected := array_append(selected, item);
			END IF;
			CONTINUE;
		ELSIF found IS NULL OR cardinality(found) > 1 THEN
			RETURN NULL;
		END IF;
		CONTINUE WHEN cardinality(found) = 0;
		others := kube_reports_internal.sql_selected(item, step->'other');
		IF others IS NULL OR cardinality(others) > 1 THEN
			RETURN NULL;
		END IF;
		CONTINUE WHEN cardinality(others) = 0;
		passes := kube_reports_internal.sql_compare(found[1], step->>'operator', others[1]);
		IF passes IS NULL THEN
			RETURN NULL;
		ELSIF passes THEN
			selected := array_append(selected, item);
		END IF;
	END LOOP;
	RETURN selected;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_filtered(jsonb, jsonb)
	IS 'elements of a list that pass the filter of a path; null: the path selects nothing';

CREATE FUNCTION kube_reports_internal.sql_selected(start jsonb, steps jsonb) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	nodes		jsonb[] := ARRAY[start];
	next		jsonb[];
	chosen		jsonb[];
	node		jsonb;
	step		jsonb;
BEGIN
	FOR step IN SELECT s.step FROM jsonb_array_elements(steps) WITH ORDINALITY s(step, n) ORDER BY s.n LOOP
		next := '{}';
		FOREACH node IN ARRAY nodes LOOP
			chosen := CASE
				WHEN step ? 'field' THEN CASE WHEN jsonb_typeof(node) = 'object' AND node ? (step->>'field')
					THEN ARRAY[node->(step->>'field')] ELSE '{}' END
				WHEN step ? 'by' THEN kube_reports_internal.sql_slice(node, step)
				WHEN step ? 'filter' THEN kube_reports_internal.sql_filtered(node, step)
				WHEN step ? 'constant' THEN ARRAY[step->'constant']
				WHEN jsonb_typeof(node) = 'object' THEN ARRAY(SELECT m.value FROM jsonb_each(node) m
					ORDER BY m.key COLLATE "C")
				WHEN jsonb_typeof(node) = 'array' THEN ARRAY(SELECT e.value
					FROM jsonb_array_elements(node) WITH ORDINALITY e(value, n) ORDER BY e.n)
				ELSE '{}' END;
			IF chosen IS NULL THEN
				RETURN NULL;
			END IF;
			next := next || chosen;
		END LOOP;
		nodes := next;
	END LOOP;
	RETURN nodes;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_selected(jsonb, jsonb)
	IS 'the values that the steps of a path (from sql_path()) select; null: an error, so that the path selects '
		'nothing';

CREATE FUNCTION kube_reports_internal.sql_node(start jsonb, fields text[], steps jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN steps IS NOT NULL THEN (kube_reports_internal.sql_selected(start, steps))[1] ELSE start#>fields END;
COMMENT ON FUNCTION kube_reports_internal.sql_node(jsonb, text[], jsonb)
	IS 'the first value that a path selects; fields: the path, if it consists of names of members; steps: any other '
		'path';

---- values ----

CREATE FUNCTION kube_reports_internal.sql_scalar(value jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE jsonb_typeof(value) WHEN 'string' THEN value#>>'{}' WHEN 'boolean' THEN value::text
	WHEN 'number' THEN kube_reports_internal.sql_number((value#>>'{}')::numeric) ELSE '' END;
COMMENT ON FUNCTION kube_reports_internal.sql_scalar(jsonb)
	IS 'a value as text; empty for null, lists, objects and an absent value';

CREATE FUNCTION kube_reports_internal.sql_cut(value text, most integer) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN octet_length(value) <= most THEN value
	ELSE convert_from(substring(convert_to(value, 'UTF8') FROM 1 FOR (SELECT max(p.p)
		FROM generate_series(most - 3, most) p(p)
		WHERE get_byte(convert_to(value, 'UTF8'), p.p) & 192 <> 128)), 'UTF8') END;
COMMENT ON FUNCTION kube_reports_internal.sql_cut(text, integer)
	IS 'a text, cut between characters to a number of bytes';

-- Like strtod(): a number out of the range of doubles counts as no number.
CREATE FUNCTION kube_reports_internal.sql_score(value text) RETURNS double precision
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT CASE WHEN n.n >= 2.5e-324 AND n.n < 1e9 THEN n.n::double precision ELSE 0 END
	FROM (SELECT CASE WHEN octet_length(t.t) <= 32
			AND t.t ~ '^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?0*[0-9]{1,3})?$' THEN t.t::numeric ELSE 0 END
		FROM (SELECT btrim(value, E' \t')) t(t)) n(n));
COMMENT ON FUNCTION kube_reports_internal.sql_score(text)
	IS 'a text as a score; 0 if it is not a number';

-- Fractions of the seconds of a text are ignored.  Times of 1970 mean that no time is set.
CREATE FUNCTION kube_reports_internal.sql_time(value jsonb) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	seconds		jsonb := CASE jsonb_typeof(value) WHEN 'object' THEN value->'seconds' ELSE value END;
	nanos		jsonb := CASE jsonb_typeof(value) WHEN 'object' THEN value->'nanos' END;
	parts		text[];
	day			date;
	number		numeric;
BEGIN
	IF kube_reports_internal.sql_kind(seconds) = 'integer' THEN
		number := (seconds#>>'{}')::numeric;
	ELSIF jsonb_typeof(seconds) = 'string' THEN
		parts := regexp_match((seconds#>>'{}') COLLATE "C", '^([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
			'T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:[.,][0-9]+)?(?:Z|([-+])([0-9]{2}):([0-9]{2}))$');
		IF parts IS NULL OR parts[1] < '1969' OR parts[8]::integer > 24 OR parts[9]::integer > 60 THEN
			RETURN NULL;
		END IF;
		day := make_date(parts[1]::integer, parts[2]::integer, 1) + parts[3]::integer - 1;
		IF extract(month FROM day) <> parts[2]::integer THEN
			RETURN NULL;
		END IF;
		number := (day - date '1970-01-01')::numeric * 86400 + parts[4]::integer * 3600 + parts[5]::integer * 60
			+ parts[6]::integer - coalesce((parts[7] || '1')::integer
				* (parts[8]::integer * 3600 + parts[9]::integer * 60), 0);
	END IF;
	IF number IS NULL OR number < 31536000 OR number > 253402300799 THEN
		RETURN NULL;
	END IF;
	RETURN (timestamp '1970-01-01 00:00:00' + make_interval(days => div(number, 86400)::integer)
			+ mod(number, 86400)::integer * interval '1 second'
			+ CASE WHEN kube_reports_internal.sql_kind(nanos) = 'integer'
				AND (nanos#>>'{}')::numeric BETWEEN 1 AND 999999999
				THEN div((nanos#>>'{}')::numeric, 1000)::integer ELSE 0 END * interval '1 microsecond')
		AT TIME ZONE 'UTC';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_time(jsonb)
	IS 'a time of evaluation: seconds since 1970, {seconds, nanos}, or RFC 3339; null for any other value';

CREATE FUNCTION kube_reports_internal.sql_exceptions(value jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT kube_reports_internal.sql_cut(btrim(n.name, E' \t'), 253)
	FROM (SELECT kube_reports_internal.sql_scalar(e.item) AS name, e.n
			FROM jsonb_array_elements(kube_reports_internal.sql_array(value)) WITH ORDINALITY e(item, n)
		UNION ALL
		SELECT p.name, p.n FROM unnest(string_to_array(kube_reports_internal.sql_scalar(value), ','))
			WITH ORDINALITY p(name, n)) n
	WHERE btrim(n.name, E' \t') <> '' ORDER BY n.n);
COMMENT ON FUNCTION kube_reports_internal.sql_exceptions(jsonb) IS 'the names in a list, or in a text with commas';

CREATE FUNCTION kube_reports_internal.sql_id(fields bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ('x' || encode(substring(sha256(fields) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;
COMMENT ON FUNCTION kube_reports_internal.sql_id(bytea) IS 'field_hash() of fields in the form of sql_field()';

---- mappings ----

CREATE FUNCTION kube_reports_internal.sql_sources(mapping jsonb,
		OUT way bigint, OUT part text, OUT property text, OUT alternative bigint, OUT scope text, OUT fields text[],
		OUT steps jsonb, OUT given text, OUT words jsonb, OUT otherwise text) RETURNS SETOF record
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 50
BEGIN ATOMIC
	SELECT c.way, c.part, c.property, a.n, left(coalesce(p.path, ''), 1),
		CASE WHEN p.plain
			THEN string_to_array(substr(p.path, CASE left(p.path, 1) WHEN '.' THEN 2 ELSE 3 END), '.') END,
		CASE WHEN NOT p.plain THEN (kube_reports_internal.sql_path(CASE left(p.path, 1) WHEN '.' THEN p.path
			ELSE substr(p.path, 2) END, false, 0)).made END,
		CASE WHEN p.path IS NULL THEN coalesce(a.value->>'value', '') END, a.value->'map', a.value->>'otherwise'
	FROM (SELECT NULL::bigint AS way, m.key AS part, NULL AS property, m.value
			FROM jsonb_each(mapping) m
			WHERE m.key <> 'subjects' AND NOT (m.key = 'properties' AND jsonb_typeof(m.value) = 'object')
		UNION ALL
		SELECT NULL, 'property', m.key, m.value
			FROM jsonb_each(kube_reports_internal.sql_object(mapping->'properties')) m
		UNION ALL
		SELECT s.n, m.key, NULL, m.value
			FROM jsonb_array_elements(kube_reports_internal.sql_array(mapping->'subjects')) WITH ORDINALITY s(value, n),
				jsonb_each(s.value) m) c,
		jsonb_array_elements(CASE jsonb_typeof(c.value) WHEN 'array' THEN c.value ELSE jsonb_build_array(c.value) END)
			WITH ORDINALITY a(value, n),
		LATERAL (SELECT r.path, (r.path COLLATE "C") ~ '^([$@]|[$@]?(\.[A-Za-z_][A-Za-z0-9_-]*)+)$' AS plain
			FROM (SELECT CASE jsonb_typeof(a.value) WHEN 'string' THEN a.value#>>'{}'
				ELSE a.value->>'path' END AS path) r OFFSET 0) p;
END;
COMMENT ON FUNCTION kube_reports_internal.sql_sources(jsonb)
	IS 'the sources of a mapping in canonical form, a row for each alternative. way: the place in the mapping''s list '
		'subjects; null for other columns. scope: $ the document, . the result, @ the resource, empty: the given text';

CREATE FUNCTION kube_reports_internal.sql_value(node jsonb, given text, words jsonb, otherwise text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT CASE WHEN words IS NOT NULL AND (s.text <> '' OR jsonb_typeof(node) = 'string')
		THEN coalesce(words->>s.text, otherwise, s.text) ELSE s.text END
	FROM (SELECT coalesce(given, kube_reports_internal.sql_scalar(node)) AS text OFFSET 0) s);
COMMENT ON FUNCTION kube_reports_internal.sql_value(jsonb, text, jsonb, text)
	IS 'the text that a source of a mapping returns: the text of a value, or the text that its map has for the value';

---- results ----

-- The results of a document are in its first list, or in its first object that has a policy, or they are the values
-- that a path with a wildcard selects.
CREATE FUNCTION kube_reports_internal.sql_items(mapping jsonb, document jsonb,
	OUT "position" bigint, OUT item jsonb) RETURNS SETOF record
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 20
BEGIN ATOMIC
	SELECT e.n - 1, e.item
	FROM (SELECT l.node FROM kube_reports_internal.sql_sources(jsonb_build_object('list', mapping->'list')) s,
			LATERAL (SELECT CASE WHEN cardinality(n.nodes) > 1 THEN to_jsonb(n.nodes) ELSE n.nodes[1] END AS node
				FROM (SELECT CASE WHEN s.steps IS NULL THEN ARRAY[document#>s.fields]
					ELSE kube_reports_internal.sql_selected(document, s.steps) END AS nodes) n OFFSET 0) l
			WHERE s.scope = '$' AND (jsonb_typeof(l.node) = 'array' OR jsonb_typeof(l.node) = 'object' AND EXISTS (
				SELECT FROM kube_reports_internal.sql_sources(jsonb_build_object('policy', mapping->'policy')) p
				WHERE kube_reports_internal.sql_value(kube_reports_internal.sql_node(
					CASE p.scope WHEN '$' THEN document WHEN '.' THEN l.node END, p.fields, p.steps),
					p.given, p.words, p.otherwise) <> ''))
			ORDER BY s.alternative LIMIT 1) l,
		jsonb_array_elements(CASE jsonb_typeof(l.node) WHEN 'array' THEN l.node ELSE jsonb_build_array(l.node) END)
			WITH ORDINALITY e(item, n)
	WHERE jsonb_typeof(e.item) = 'object';
END;
COMMENT ON FUNCTION kube_reports_internal.sql_items(jsonb, jsonb)
	IS 'the elements of the list of results of a document, with their places from 0';

CREATE FUNCTION kube_reports_internal.sql_document_time(mapping jsonb, document jsonb) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	RETURN (WITH source AS MATERIALIZED (
		SELECT s.* FROM kube_reports_internal.sql_sources(jsonb_build_object('time', mapping->'time')) s
			WHERE mapping ? 'time' AND s.given IS NULL
	), timed AS MATERIALIZED (
		SELECT DISTINCT ON (i."position") t.time
		FROM kube_reports_internal.sql_items(mapping, document) i CROSS JOIN source s
			CROSS JOIN LATERAL (SELECT kube_reports_internal.sql_time(kube_reports_internal.sql_node(
				CASE s.scope WHEN '$' THEN document WHEN '.' THEN i.item END, s.fields, s.steps)) AS time OFFSET 0) t
		WHERE t.time IS NOT NULL ORDER BY i."position", s.alternative
	)
	SELECT max(t.time) FROM timed t);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_document_time(jsonb, jsonb)
	IS 'the newest time at which a result of a document was evaluated; null if there is none';

-- engine/results/result.h describes keys and ids.  Texts are in one row of each element of the list.
CREATE FUNCTION kube_reports_internal.sql_document_results(mapping jsonb, cluster_id integer, document jsonb)
	RETURNS json
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
-- Its tables are its own parts, which have no statistics.
SET enable_nestloop = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	RETURN (WITH source AS MATERIALIZED (
		-- Values of the document are read once.
		SELECT s.*, CASE s.scope WHEN '$' THEN kube_reports_internal.sql_node(document, s.fields, s.steps) END AS fixed
		FROM kube_reports_internal.sql_sources(mapping) s
	), item AS MATERIALIZED (
		SELECT i.* FROM kube_reports_internal.sql_items(mapping, document) i
	), said AS MATERIALIZED (
		SELECT i."position", s.part, s.property, s.alternative, s.given, n.node,
			kube_reports_internal.sql_value(n.node, s.given, s.words, s.otherwise) AS value,
			CASE jsonb_typeof(n.node) WHEN 'string' THEN n.node#>>'{}' ELSE '' END AS word
		FROM item i CROSS JOIN source s CROSS JOIN LATERAL (SELECT CASE s.scope WHEN '$' THEN s.fixed
			WHEN '.' THEN kube_reports_internal.sql_node(i.item, s.fields, s.steps) END AS node OFFSET 0) n
		WHERE s.way IS NULL AND s.part <> 'list'
	), first_text AS MATERIALIZED (
		SELECT DISTINCT ON (t."position", t.part, t.property) t."position", t.part, t.property, t.value, t.word
		FROM said t WHERE t.value <> '' AND t.part NOT IN ('properties', 'exceptions', 'time', 'key', 'score')
		ORDER BY t."position", t.part, t.property, t.alternative
	), texts AS MATERIALIZED (
		SELECT t."position", max(t.value) FILTER (WHERE t.part = 'source') AS source,
			max(t.value) FILTER (WHERE t.part = 'policy') AS policy,
			max(t.value) FILTER (WHERE t.part = 'rule') AS rule,
			max(t.value) FILTER (WHERE t.part = 'category') AS category,
			max(t.value) FILTER (WHERE t.part = 'severity') AS severity,
			max(t.value) FILTER (WHERE t.part = 'status') AS status,
			max(t.word) FILTER (WHERE t.part = 'status') AS word,
			max(t.value) FILTER (WHERE t.part = 'message') AS message,
			string_agg(kube_reports_internal.sql_quoted(t.property) || ':' || kube_reports_internal.sql_quoted(t.value),
				',' ORDER BY t.property COLLATE "C") FILTER (WHERE t.part = 'property') AS properties
		FROM first_text t GROUP BY t."position"
	), others AS MATERIALIZED (
		SELECT s."position",
			coalesce(array_agg(s.value ORDER BY s.alternative) FILTER (WHERE s.part = 'key'), '{}') AS keys,
			coalesce((array_agg(c.score ORDER BY s.alternative) FILTER (WHERE c.score > 0))[1], 0) AS score,
			(array_agg(m.time ORDER BY s.alternative) FILTER (WHERE m.time IS NOT NULL))[1] AS time,
			(array_agg(x.names ORDER BY s.alternative) FILTER (WHERE x.names <> '[]'))[1] AS exceptions,
			(array_agg(s.node ORDER BY s.alternative) FILTER (WHERE s.part = 'properties'
				AND jsonb_typeof(s.node) = 'object'))[1] AS properties,
			-- The word for which a map has the empty text.
			(array_agg(s.word ORDER BY s.alternative DESC) FILTER (WHERE s.part = 'status'))[1] AS word
		FROM said s CROSS JOIN LATERAL (SELECT CASE s.part WHEN 'score'
				THEN kube_reports_internal.sql_score(s.value) END AS score) c
			CROSS JOIN LATERAL (SELECT CASE WHEN s.part = 'time' AND s.given IS NULL
				THEN kube_reports_internal.sql_time(s.node) END AS time) m
			CROSS JOIN LATERAL (SELECT CASE s.part WHEN 'exceptions'
				THEN to_jsonb(kube_reports_internal.sql_exceptions(s.node)) END AS names) x
		GROUP BY s."position"
	), entry AS MATERIALIZED (
		SELECT o."position", kube_reports_internal.sql_cut(coalesce(t.source, ''), 512) AS source,
			kube_reports_internal.sql_cut(coalesce(t.policy, ''), 512) AS policy,
			kube_reports_internal.sql_cut(coalesce(t.rule, ''), 512) AS rule,
			kube_reports_internal.sql_cut(coalesce(t.category, ''), 512) AS category,
			CASE WHEN lower(t.severity COLLATE "C") IN ('info', 'low', 'medium', 'high', 'critical')
				THEN lower(t.severity COLLATE "C") ELSE 'unknown' END AS severity,
			CASE WHEN t.status IS NULL THEN 's' WHEN kube_reports_internal.sql_is_status(t.status)
				THEN left(lower(t.status COLLATE "C"), 1) ELSE 'e' END AS status,
			CASE WHEN kube_reports_internal.sql_is_status(w.word) THEN ''
				ELSE kube_reports_internal.sql_cut(w.word, 512) END AS native_status,
			o.score, coalesce(t.message, '') AS message,
			'{' || CASE WHEN mapping->'properties' IS NULL OR jsonb_typeof(mapping->'properties') = 'object'
				THEN coalesce(t.properties, '')
				ELSE coalesce((SELECT string_agg(kube_reports_internal.sql_quoted(p.key) || ':'
						|| kube_reports_internal.sql_quoted(kube_reports_internal.sql_scalar(p.value)), ','
						ORDER BY p.key COLLATE "C")
					FROM jsonb_each(o.properties) p
					WHERE kube_reports_internal.sql_scalar(p.value) <> ''), '') END || '}' AS properties,
			ARRAY(SELECT x.name FROM jsonb_array_elements_text(coalesce(o.exceptions, '[]'))
				WITH ORDINALITY x(name, n) ORDER BY x.n) AS exceptions, o.keys, o.time
		FROM others o LEFT JOIN texts t ON t."position" = o."position"
			CROSS JOIN LATERAL (SELECT coalesce(CASE WHEN t.status IS NULL THEN o.word ELSE t.word END, '') AS word) w
	), place AS MATERIALIZED (
		SELECT i."position", i.item, w.way, e.resource, e.n
		FROM item i CROSS JOIN (SELECT s.way, bool_or(s.part = 'each') AS many FROM source s
				WHERE s.way IS NOT NULL GROUP BY s.way) w
			CROSS JOIN LATERAL (SELECT CASE WHEN w.many THEN (SELECT CASE s.scope WHEN '$' THEN s.fixed
					WHEN '.' THEN kube_reports_internal.sql_node(i.item, s.fields, s.steps) END
				FROM source s WHERE s.way = w.way AND s.part = 'each' AND s.alternative = 1) END AS list OFFSET 0) l
			CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN NOT w.many THEN '[null]'
				ELSE kube_reports_internal.sql_array(l.list) END) WITH ORDINALITY e(resource, n)
	), subject_text AS MATERIALIZED (
		SELECT DISTINCT ON (p."position", p.way, p.n, s.part) p."position", p.way, p.n, s.part, t.value
		FROM place p JOIN source s ON s.way = p.way AND s.part <> 'each'
			CROSS JOIN LATERAL (SELECT kube_reports_internal.sql_cut(kube_reports_internal.sql_value(CASE s.scope
					WHEN '$' THEN s.fixed WHEN '.' THEN kube_reports_internal.sql_node(p.item, s.fields, s.steps)
					WHEN '@' THEN kube_reports_internal.sql_node(p.resource, s.fields, s.steps) END,
				s.given, s.words, s.otherwise), 253) AS value OFFSET 0) t
		WHERE t.value <> '' ORDER BY p."position", p.way, p.n, s.part, s.alternative
	), named AS MATERIALIZED (
		SELECT s."position", s.way, s.n, coalesce(max(s.value) FILTER (WHERE s.part = 'apiVersion'), '') AS api_version,
			coalesce(max(s.value) FILTER (WHERE s.part = 'kind'), '') AS kind,
			coalesce(max(s.value) FILTER (WHERE s.part = 'namespace'), '') AS namespace,
			coalesce(max(s.value) FILTER (WHERE s.part = 'name'), '') AS name,
			coalesce(max(s.value) FILTER (WHERE s.part = 'uid'), '') AS uid,
			min(s.way) OVER (PARTITION BY s."position") AS first_way
		FROM subject_text s GROUP BY s."position", s.way, s.n HAVING bool_or(s.part IN ('name', 'uid'))
	), result AS MATERIALIZED (
		SELECT e.*, coalesce(n.api_version, '') AS api_version, coalesce(n.kind, '') AS kind,
			coalesce(n.namespace, '') AS namespace, coalesce(n.name, '') AS name, coalesce(n.uid, '') AS uid,
			kube_reports_internal.sql_id(kube_reports_internal.sql_field('detail')
				|| kube_reports_internal.sql_field(e.message) || kube_reports_internal.sql_field(e.properties)
				|| coalesce((SELECT string_agg(kube_reports_internal.sql_field(x.name), '' ORDER BY x.n)
					FROM unnest(e.exceptions) WITH ORDINALITY x(name, n)), '')) AS detail,
			kube_reports_internal.sql_field('key') || kube_reports_internal.sql_field(e.source)
				|| kube_reports_internal.sql_field(e.policy) || kube_reports_internal.sql_field(e.rule)
				|| kube_reports_internal.sql_field(CASE WHEN strpos(n.api_version, '/') > 0
					THEN split_part(n.api_version, '/', 1) END)
				|| kube_reports_internal.sql_field(n.kind) || kube_reports_internal.sql_field(n.namespace)
				|| kube_reports_internal.sql_field(coalesce(nullif(n.name, ''), n.uid))
				|| coalesce((SELECT string_agg(kube_reports_internal.sql_field(k.text), '' ORDER BY k.n)
					FROM unnest(e.keys) WITH ORDINALITY k(text, n)), '') AS identity
		FROM entry e LEFT JOIN named n ON n."position" = e."position" AND n.way = n.first_way
	), ordered AS MATERIALIZED (
		SELECT r.*, r.status IN ('w', 'f', 'e') AS failing, row_number() OVER (PARTITION BY r.identity
			ORDER BY r.message COLLATE "C", r.properties COLLATE "C", cardinality(r.exceptions),
				r.exceptions COLLATE "C", (r.status IN ('w', 'f', 'e')) DESC, r.status COLLATE "C",
				r.native_status COLLATE "C", r.category COLLATE "C", r.severity COLLATE "C", r.score,
				r.api_version COLLATE "C", r.name COLLATE "C", r.uid COLLATE "C", r."position") AS place
		FROM result r
	), keyed AS MATERIALIZED (
		SELECT o.*, kube_reports_internal.sql_id(o.identity || CASE
			WHEN o.place = coalesce(min(o.place) FILTER (WHERE o.failing) OVER (PARTITION BY o.identity), 1)
				THEN kube_reports_internal.sql_field('0')
			ELSE kube_reports_internal.sql_field(o.detail::text) || kube_reports_internal.sql_field((o.place
				- min(o.place) OVER (PARTITION BY o.identity, o.detail))::text) END) AS hash
		FROM ordered o
	)
	SELECT coalesce(json_agg(json_build_object('key', k.key, 'wanted', true, 'position', k."position",
			'criterion', kube_reports_internal.sql_id(kube_reports_internal.sql_field('criterion')
				|| kube_reports_internal.sql_field(k.source) || kube_reports_internal.sql_field(k.policy)
				|| kube_reports_internal.sql_field(k.rule) || kube_reports_internal.sql_field(k.category)
				|| kube_reports_internal.sql_field(k.severity)),
			'subject', kube_reports_internal.sql_id(kube_reports_internal.sql_field('subject')
				|| kube_reports_internal.sql_field(cluster_id::text) || kube_reports_internal.sql_field(k.api_version)
				|| kube_reports_internal.sql_field(k.kind) || kube_reports_internal.sql_field(k.namespace)
				|| kube_reports_internal.sql_field(k.name) || kube_reports_internal.sql_field(k.uid)),
			'detail', k.detail, 'status', k.status, 'score', k.score, 'api_version', k.api_version, 'kind', k.kind,
			'subject_namespace', k.namespace, 'subject_name', k.name, 'subject_uid', k.uid,
			'native_status', k.native_status, 'evaluated_at', k.time,
			'source', CASE WHEN k.first THEN k.source END, 'policy', CASE WHEN k.first THEN k.policy END,
			'rule', CASE WHEN k.first THEN k.rule END, 'category', CASE WHEN k.first THEN k.category END,
			'severity', CASE WHEN k.first THEN k.severity END, 'message', CASE WHEN k.first THEN k.message END,
			'properties', CASE WHEN k.first THEN k.properties END,
			'exceptions', CASE WHEN k.first THEN k.exceptions END) ORDER BY k.key), '[]')
	-- Equal keys in one report are changed to differ.
	FROM (SELECT k.*, row_number() OVER (PARTITION BY k."position" ORDER BY k.key) = 1 AS first
		FROM (SELECT k.*, least(max(k.hash::numeric - k.n) OVER (ORDER BY k.n) + k.n, 9223372036854775807)::bigint
				AS key
			FROM (SELECT k.*, row_number() OVER (ORDER BY k.hash) AS n FROM keyed k) k) k) k);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_document_results(jsonb, integer, jsonb)
	IS 'the rows of result_difference() for a new document, as JSON';

---- stored documents ----

CREATE FUNCTION kube_reports_internal.sql_whole(metadata text, body text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN kube_reports_internal.sql_readable(body)::jsonb || CASE WHEN metadata IS NULL THEN '{}'
	ELSE jsonb_build_object('metadata', kube_reports_internal.sql_readable(metadata)::jsonb) END;
COMMENT ON FUNCTION kube_reports_internal.sql_whole(text, text)
	IS 'a document from its metadata (null: the body contains it) and its body; null if there is no body';

CREATE FUNCTION kube_reports_internal.document_time(mapping_id bigint, mapping kube_reports.report,
	metadata kube_reports.report, body kube_reports.report) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN mapping_id IS NOT NULL
	THEN kube_reports_internal.sql_document_time(mapping::jsonb, kube_reports_internal.sql_whole(metadata, body)) END;
COMMENT ON FUNCTION kube_reports_internal.document_time(bigint, kube_reports.report, kube_reports.report,
	kube_reports.report)
	IS 'evaluated_at() of a document, for every caller';
