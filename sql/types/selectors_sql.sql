-- selectors_sql.sql
--	  Label selectors and field selectors in SQL: what engine/api/selector.c
--	  is in C.
--
-- Functions whose names begin with sql_ exist only in the SQL variant.  Only the owner may call them, so functions for
-- other roles are SECURITY DEFINER.  Their strings contain no NUL, because no text of PostgreSQL does.

-- Names are compared by their bytes, and ranges in brackets are ranges of ASCII: hence COLLATE "C".
CREATE FUNCTION kube_reports_internal.sql_label_key(key text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (key COLLATE "C") ~ ('^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?'
		'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$')
	AND octet_length(split_part(key, '/', -1)) <= 63
	AND (strpos(key, '/') = 0 OR octet_length(split_part(key, '/', 1)) <= 253);
COMMENT ON FUNCTION kube_reports_internal.sql_label_key(text) IS 'whether a text can be the key of a label';

CREATE FUNCTION kube_reports_internal.sql_label_value(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (value COLLATE "C") ~ '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$' AND octet_length(value) <= 63;
COMMENT ON FUNCTION kube_reports_internal.sql_label_value(text) IS 'whether a text can be the value of a label';

-- Like Go's strconv.ParseInt: a number beyond bigint counts as no integer.
CREATE FUNCTION kube_reports_internal.sql_integer(value text) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN (value COLLATE "C") ~ '^[-+]?0*[0-9]{1,19}$'
		AND regexp_replace(value, '^([-+]?)0*(?=[0-9])', '\1')::numeric
			BETWEEN -9223372036854775808 AND 9223372036854775807
	THEN regexp_replace(value, '^([-+]?)0*(?=[0-9])', '\1')::bigint END;
COMMENT ON FUNCTION kube_reports_internal.sql_integer(text) IS 'a text as an integer of 64 bits; null if it is not one';

CREATE FUNCTION kube_reports_internal.sql_invalid_selector(kind text, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'invalid % selector', kind
		USING ERRCODE = 'invalid_parameter_value', DETAIL = reason || '.',
			HINT = 'Selectors are written as kubectl''s options --selector and --field-selector take them.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_invalid_selector(text, text) IS 'raises the error of a selector';

CREATE FUNCTION kube_reports_internal.sql_label_values(tokens text[], INOUT n integer, OUT operator text,
	OUT held text[], OUT reason text)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	word CONSTANT text := '^[^=!(),<>]';
BEGIN
	held := '{}';
	IF tokens[n] IN ('in', 'notin') THEN
		operator := tokens[n];
		n := n + 1;
		IF tokens[n] IS DISTINCT FROM '(' THEN
			reason := format('found ''%s'' expected: ''(''', tokens[n]);
			RETURN;
		END IF;
		-- A missing value is the empty value; two commas in a row are one empty value between them.
		n := n + 1;
		IF tokens[n] = ')' THEN
			held := '{""}';
		END IF;
		WHILE tokens[n] IS DISTINCT FROM ')' LOOP
			IF tokens[n] ~ word THEN
				held := held || tokens[n];
				n := n + 1;
				IF tokens[n] IS DISTINCT FROM ')' AND tokens[n] IS DISTINCT FROM ',' THEN
					reason := format('found ''%s'', expected: '','' or '')''', tokens[n]);
					RETURN;
				END IF;
			ELSIF tokens[n] = ',' THEN
				IF cardinality(held) = 0 THEN
					held := held || ''::text;
				END IF;
				n := n + 1;
				IF tokens[n] IN (')', ',') THEN
					held := held || ''::text;
				END IF;
			ELSE
				reason := format('found ''%s'', expected: '','', or identifier', tokens[n]);
				RETURN;
			END IF;
		END LOOP;
		n := n + 1;
	ELSIF tokens[n] IN ('=', '==', '!=', '>', '<') THEN
		operator := CASE tokens[n] WHEN '!=' THEN 'notin' WHEN '>' THEN '>' WHEN '<' THEN '<' ELSE 'in' END;
		n := n + 1;
		IF tokens[n] IS NULL OR tokens[n] = ',' THEN
			held := '{""}';
		ELSIF tokens[n] ~ word THEN
			held := tokens[n : n];
			n := n + 1;
		ELSE
			reason := format('found ''%s'', expected: identifier', tokens[n]);
			RETURN;
		END IF;
	ELSE
		reason := format('found ''%s'', expected: in, notin, =, ==, !=, gt, lt', tokens[n]);
		RETURN;
	END IF;
	IF operator IN ('<', '>') AND kube_reports_internal.sql_integer(held[1]) IS NULL THEN
		reason := format('"%s" is no integer, which ''Gt'' and ''Lt'' take', held[1]);
		RETURN;
	END IF;
	SELECT format('"%s" is no valid value of a label', h.value) INTO reason FROM unnest(held) h(value)
		WHERE NOT kube_reports_internal.sql_label_value(h.value) LIMIT 1;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_label_values(text[], integer)
	IS 'the operator at the place n of the tokens of a label selector, and its values; n is then the place behind '
		'them. reason: the error; null: none';

-- A selector is split into tokens first, each with the white space before it.  "in" and "notin" are words, too.
CREATE FUNCTION kube_reports_internal.sql_label_selector(label_selector text,
		OUT keys text[], OUT operators text[], OUT value_lists jsonb)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	word CONSTANT text := '^[^=!(),<>]';
	tokens		text[] := ARRAY(SELECT t.found[1]
		FROM regexp_matches(label_selector, '[^ \t\r\n=!(),<>]+|==|!=|[=!(),<>]', 'g')
			WITH ORDINALITY t(found, place) ORDER BY t.place);
	n			integer := 1;
	reason		text;
	key			text;
	operator	text;
	negated		boolean;
	held		text[];
BEGIN
	keys := '{}';
	operators := '{}';
	value_lists := '[]';
	WHILE n <= cardinality(tokens) LOOP
		negated := tokens[n] = '!';
		IF negated THEN
			n := n + 1;
		END IF;
		key := tokens[n];
		IF key IS NULL OR key !~ word THEN
			reason := format('found ''%s'', expected: identifier', key);
		ELSIF NOT kube_reports_internal.sql_label_key(key) THEN
			reason := format('"%s" is no valid key of a label', key);
		END IF;
		EXIT WHEN reason IS NOT NULL;
		n := n + 1;
		IF negated OR tokens[n] IS NULL OR tokens[n] = ',' THEN
			operator := CASE WHEN negated THEN 'absent' ELSE 'present' END;
			held := '{}';
		ELSE
			SELECT v.n, v.operator, v.held, v.reason INTO n, operator, held, reason
				FROM kube_reports_internal.sql_label_values(tokens, n) v;
			EXIT WHEN reason IS NOT NULL;
		END IF;
		keys := keys || key;
		operators := operators || operator;
		value_lists := value_lists || jsonb_build_array(to_jsonb(held));
		EXIT WHEN tokens[n] IS NULL;
		IF tokens[n] <> ',' THEN
			reason := format('found ''%s'', expected: '','' or ''end of string''', tokens[n]);
			EXIT;
		END IF;
		n := n + 1;
		IF tokens[n] IS NULL OR tokens[n] <> '!' AND tokens[n] !~ word THEN
			reason := format('found ''%s'', expected: identifier after '',''', tokens[n]);
			EXIT;
		END IF;
	END LOOP;
	IF reason IS NOT NULL THEN
		PERFORM kube_reports_internal.sql_invalid_selector('label', reason);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_label_selector(text)
	IS 'the requirements of a label selector, in its order, each with key, operator (in, notin, present, absent, <, '
		'>) and values; raises 22023 if it is malformed';

-- Most selectors in use only ask for equal labels: those need no compilation.
CREATE FUNCTION kube_reports.matches_labels(terms text[], label_selector text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	selector	record;
	value		text;
	wanted		text[];
	matches		boolean;
BEGIN
	IF label_selector = '' THEN
		RETURN true;
	END IF;
	SELECT * INTO selector FROM kube_reports_internal.sql_label_selector(label_selector);
	FOR n IN 1 .. cardinality(selector.keys) LOOP
		-- label_terms() returns no null: if there is a null among the terms, the object counts as one without labels.
		SELECT substr(t.term, length(selector.keys[n]) + 2) INTO value
			FROM unnest(terms) WITH ORDINALITY t(term, place)
			WHERE starts_with(t.term, selector.keys[n] || '=') AND array_position(terms, NULL) IS NULL
			ORDER BY t.place LIMIT 1;
		IF selector.operators[n] IN ('<', '>') THEN
			matches := CASE selector.operators[n]
				WHEN '<' THEN kube_reports_internal.sql_integer(value)
					< kube_reports_internal.sql_integer(selector.value_lists->(n - 1)->>0)
				ELSE kube_reports_internal.sql_integer(value)
					> kube_reports_internal.sql_integer(selector.value_lists->(n - 1)->>0) END;
		ELSE
			matches := CASE selector.operators[n]
				WHEN 'present' THEN value IS NOT NULL
				WHEN 'absent' THEN value IS NULL
				WHEN 'in' THEN selector.value_lists->(n - 1) ? value
				ELSE value IS NULL OR NOT selector.value_lists->(n - 1) ? value END;
		END IF;
		IF matches IS NOT TRUE THEN
			RETURN false;
		END IF;
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports.matches_labels(text[], text)
	IS 'whether labels, as label_terms() gives them, match a Kubernetes label selector';

CREATE FUNCTION kube_reports.selector_terms(label_selector text) RETURNS text[]
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT ARRAY(SELECT k.key || '=' || (s.value_lists->(k.n::integer - 1)->>0)
		FROM kube_reports_internal.sql_label_selector(label_selector) s,
			ROWS FROM (unnest(s.keys), unnest(s.operators)) WITH ORDINALITY k(key, operator, n)
		WHERE k.operator = 'in'
			AND (SELECT count(DISTINCT v.value)
				FROM jsonb_array_elements_text(s.value_lists->(k.n::integer - 1)) v(value)) = 1
		ORDER BY k.n)
$$;
COMMENT ON FUNCTION kube_reports.selector_terms(text)
	IS 'the label terms that every object matching a label selector has; a GIN index can search for these';

-- A term ends at a comma without a backslash before it; a backslash at the very end belongs to its term.
CREATE FUNCTION kube_reports.matches_fields(namespace text, name text, field_selector text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	matches		boolean := true;
	unsupported	text;
	term		text;
	operator	text;
	field		text;
	value		text;
BEGIN
	FOR term IN SELECT t.found[1] FROM regexp_matches(field_selector, '((?:\\.|[^,\\]|\\$)+)', 'g') t(found) LOOP
		operator := substring(term FROM '!=|==|=');
		IF operator IS NULL THEN
			PERFORM kube_reports_internal.sql_invalid_selector('field', format('can''t understand ''%s''', term));
		END IF;
		field := left(term, strpos(term, operator) - 1);
		value := substr(term, strpos(term, operator) + length(operator));
		IF value !~ '^(?:[^\\,=]|\\[\\,=])*$' THEN
			PERFORM kube_reports_internal.sql_invalid_selector('field',
				format('''%s'' has an unescaped character or an invalid escape sequence', value));
		END IF;
		-- A term with an empty field and an empty value selects everything.
		CONTINUE WHEN field = '' AND value = '';
		value := regexp_replace(value, '\\(.)', '\1', 'g');
		IF field NOT IN ('metadata.name', 'metadata.namespace') THEN
			unsupported := field;
		ELSIF ((CASE field WHEN 'metadata.name' THEN name ELSE namespace END) = value) = (operator = '!=') THEN
			matches := false;
		END IF;
	END LOOP;
	IF unsupported IS NOT NULL THEN
		PERFORM kube_reports_internal.sql_invalid_selector('field', 'field label not supported: ' || unsupported);
	END IF;
	RETURN matches;
END
$$;
COMMENT ON FUNCTION kube_reports.matches_fields(text, text, text)
	IS 'whether an object matches a Kubernetes field selector over metadata.name and metadata.namespace';
