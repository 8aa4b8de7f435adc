-- functions_sql.sql
--	  The counterpart of types/functions_c.sql for servers that load no
--	  foreign module: the same names and signatures in SQL and PL/pgSQL.
--
-- Type report is a domain over text here, so that each variant restores dumps of the other.  A function that does not
-- exist in SQL raises feature_not_supported.

CREATE FUNCTION kube_reports_internal.is_report(document text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN json_typeof(document::json) = 'object';
COMMENT ON FUNCTION kube_reports_internal.is_report(text)
	IS 'whether a text is one JSON object; a text that is not JSON raises an error with its position';

CREATE DOMAIN kube_reports.report AS text CHECK (kube_reports_internal.is_report(VALUE));
COMMENT ON DOMAIN kube_reports.report IS 'a report document: one JSON object, stored as the text that was given';

CREATE FUNCTION kube_reports_internal.only_in_c(name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'function kube_reports.% is not available in the SQL variant', name
		USING ERRCODE = 'feature_not_supported',
			HINT = 'Install the C variant of kube_reports where its files can be installed.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.only_in_c(text) IS 'raises feature_not_supported';

CREATE FUNCTION kube_reports_internal.report_from_text(text) RETURNS kube_reports.report
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN $1;
COMMENT ON FUNCTION kube_reports_internal.report_from_text(text) IS 'cast: checks that the text is one JSON object';

CREATE FUNCTION kube_reports_internal.report_to_jsonb(kube_reports.report) RETURNS jsonb
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN $1::jsonb;
COMMENT ON FUNCTION kube_reports_internal.report_to_jsonb(kube_reports.report) IS 'cast: the document as a value';

CREATE FUNCTION kube_reports_internal.report_from_jsonb(jsonb) RETURNS kube_reports.report
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN $1::text;
COMMENT ON FUNCTION kube_reports_internal.report_from_jsonb(jsonb) IS 'cast: checks that the value is an object';

CREATE FUNCTION kube_reports.document_size(document kube_reports.report) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN octet_length(document);
COMMENT ON FUNCTION kube_reports.document_size(kube_reports.report)
	IS 'the size of a document in bytes, without reading or decompressing it';

-- A text stays compressed until it is sent.  Its conversion to bytes would take twice the time of a list.
CREATE DOMAIN kube_reports_internal.stored_document AS text;
COMMENT ON DOMAIN kube_reports_internal.stored_document
	IS 'a document in the form of stored_bytes(), for proxies: text here, bytes in the C variant; both have the same '
		'form in the binary answers that a proxy reads';

CREATE FUNCTION kube_reports_internal.stored_bytes(document kube_reports.report)
	RETURNS kube_reports_internal.stored_document
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN document::text;
COMMENT ON FUNCTION kube_reports_internal.stored_bytes(kube_reports.report)
	IS 'a document as it is stored: the byte 1, four bytes of its length and a block of lz4; or its text, when it is '
		'not stored with lz4';

CREATE FUNCTION kube_reports_internal.served_documents(definitions kube_reports.report[],
		OUT path text, OUT content_type text, OUT etag text, OUT body bytea) RETURNS SETOF record
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('served_documents');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.served_documents(kube_reports.report[])
	IS 'discovery, OpenAPI and version documents for these definitions; the first row of a path is its default media '
		'type';

CREATE FUNCTION kube_reports_internal.write_admit(definition_id bigint, definition kube_reports.report,
	request jsonb, document bytea,
		fill_summary boolean, mapping_id bigint, mapping kube_reports.report, cluster_id integer, costly integer,
		OUT action "char", OUT code integer, OUT namespace text, OUT name text, OUT uid uuid,
		OUT metadata kube_reports.report, OUT body kube_reports.report, OUT versioned boolean,
		OUT status bytea, OUT transform text, OUT retry_after integer, OUT warnings text[], OUT actor text,
		OUT evaluated_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT a.* INTO action, code, namespace, name, uid, metadata, body, versioned, status, transform, retry_after,
			warnings, actor
		FROM kube_reports_internal.sql_ask_write(json_build_object('ask', 'admission', 'definition', definition,
			'request', request::text, 'document', convert_from(document, 'UTF8'), 'fillSummary', fill_summary)) a;
	IF action = 'i' THEN
		evaluated_at := kube_reports_internal.sql_ask_time(mapping_id, mapping, metadata, body);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_admit(bigint, kube_reports.report, jsonb, bytea, boolean, bigint,
	kube_reports.report, integer, integer)
	IS 'decides on a write without the stored object. action: n answered (code, status), i insert unless it exists, p '
		'decide with write_decide(). fill_summary: count results if the producer left the summary out. With a mapping, '
		'evaluated_at is that of the new document, and until the transaction ends, the server process remembers how '
		'the results change: result_difference() of these documents parses nothing while a lane is locked. costly: '
		'results of larger documents follow later, see record_results(); null: all are derived at once';

CREATE FUNCTION kube_reports_internal.write_decide(definition_id bigint, definition kube_reports.report,
	request jsonb, document bytea,
		stored_metadata kube_reports.report, stored_body kube_reports.report,
			stored_version bigint, fill_summary boolean, mapping_id bigint, mapping kube_reports.report,
			cluster_id integer, costly integer,
		OUT action "char", OUT code integer, OUT namespace text, OUT name text, OUT uid uuid,
		OUT metadata kube_reports.report, OUT body kube_reports.report, OUT versioned boolean,
		OUT status bytea, OUT transform text, OUT retry_after integer, OUT warnings text[], OUT actor text,
		OUT evaluated_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT a.* INTO action, code, namespace, name, uid, metadata, body, versioned, status, transform, retry_after,
			warnings, actor
		FROM kube_reports_internal.sql_ask_write(json_build_object('ask', 'decision', 'definition', definition,
			'request', request::text, 'document', convert_from(document, 'UTF8'), 'fillSummary', fill_summary,
			'storedMetadata', CASE WHEN stored_version IS NOT NULL THEN stored_metadata::text END,
			'storedBody', stored_body, 'storedVersion', stored_version)) a;
	IF action IN ('i', 'u') THEN
		evaluated_at := kube_reports_internal.sql_ask_time(mapping_id, mapping, metadata, body);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_decide(bigint, kube_reports.report, jsonb, bytea, kube_reports.report,
	kube_reports.report, bigint, boolean, bigint, kube_reports.report, integer, integer)
	IS 'write_admit(), and decides on the write with the stored object (nulls: there is none). action: n answered, i '
		'insert, u update, d delete';

CREATE FUNCTION kube_reports_internal.refuse_prepare() RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
END;
COMMENT ON FUNCTION kube_reports_internal.refuse_prepare()
	IS 'makes PREPARE TRANSACTION fail in the current transaction: '
		'a prepared writer would hold its lane over a restart';

CREATE FUNCTION kube_reports_internal.keep_memory() RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
END;
COMMENT ON FUNCTION kube_reports_internal.keep_memory()
	IS 'lets this session keep up to 32 MB of freed memory: lists come in pieces of some megabytes. api_hello() calls '
		'it';

CREATE FUNCTION kube_reports_internal.evaluated_at(mapping_id bigint, mapping kube_reports.report,
	metadata kube_reports.report, body kube_reports.report)
		RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN kube_reports_internal.sql_ask_time(mapping_id, mapping, metadata, body);
COMMENT ON FUNCTION kube_reports_internal.evaluated_at(bigint, kube_reports.report,
	kube_reports.report, kube_reports.report)
	IS 'the newest time at which a result of the document was evaluated; null if there is none, or no mapping';

CREATE FUNCTION kube_reports_internal.remember_removal(mapping_id bigint, mapping kube_reports.report,
	cluster_id integer, metadata kube_reports.report, body kube_reports.report) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
END;
COMMENT ON FUNCTION kube_reports_internal.remember_removal(bigint, kube_reports.report, integer, kube_reports.report,
	kube_reports.report)
	IS 'before an object is deleted without write_decide(): the server process remembers how its results change, '
		'as write_decide() does';

-- Clusters share texts, and the rows come from a proxy of one cluster.  A row with the id of a text but without the
-- text would show the proxy whether another cluster has the text, and the text itself.  A row without an id refers to
-- no text.  This function reads only the rows: no answer depends on stored rows.
CREATE FUNCTION kube_reports_internal.sql_field(field text) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
RETURN int4send(octet_length(coalesce(field, ''))) || convert_to(coalesce(field, ''), 'UTF8');
COMMENT ON FUNCTION kube_reports_internal.sql_field(text)
	IS 'a field in the form in which field_hash() hashes it, in a third of the time: each write computes the ids of '
		'all its results';

CREATE FUNCTION kube_reports_internal.sql_refuse_id(what text, id bigint) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'the id % of a % is not the hash of its fields', id, what
		USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'Each id of a result comes with its fields, in one row of the report''s results at least.',
			HINT = 'Check that proxy and extension are of versions that fit together.';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_refuse_id(text, bigint)
	IS 'raises 22023: a proxy gave a result the id of a text without the text';

-- An absent member is null.  Each id is compared with the field_hash() of the fields in one of the rows, also in rows
-- of results that disappeared, to which history refers.  Reports of one batch have many texts in common, and one hash
-- is computed for each text.  Nothing here reads a table, so a writer calls this function before it locks its lane.
CREATE FUNCTION kube_reports_internal.sql_prepared_results(cluster_id integer, said text[])
	RETURNS kube_reports_internal.prepared_results[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	results		kube_reports_internal.prepared_results[];
BEGIN
	IF array_remove(said, NULL) = '{}' THEN
		RETURN NULL;
	END IF;
	results := ARRAY(SELECT CASE WHEN s.rows IS NOT NULL THEN ROW(ARRAY(SELECT r
			FROM json_populate_recordset(NULL::kube_reports_internal.result_row, s.rows::json) r)
				)::kube_reports_internal.prepared_results END
		FROM unnest(said) WITH ORDINALITY s(rows, n) ORDER BY s.n);
	PERFORM kube_reports_internal.sql_refuse_id(w.what, w.id) FROM (
		WITH r AS MATERIALIZED (
			SELECT r.* FROM unnest(results) s, unnest(s.rows) r
		)
		SELECT 'criterion' AS what, c.criterion AS id
			FROM (SELECT DISTINCT r.criterion, r.source, r.policy, r.rule, r.category, r.severity FROM r
				WHERE r.criterion IS NOT NULL) c
			GROUP BY c.criterion
			HAVING bool_and(int8send(c.criterion) = substring(sha256(kube_reports_internal.sql_field('criterion')
				|| kube_reports_internal.sql_field(c.source) || kube_reports_internal.sql_field(c.policy)
				|| kube_reports_internal.sql_field(c.rule) || kube_reports_internal.sql_field(c.category)
				|| kube_reports_internal.sql_field(c.severity)) FROM 1 FOR 8))
				FILTER (WHERE c.source IS NOT NULL) IS NOT true
		UNION ALL
		SELECT 'detail', d.detail
			FROM (SELECT DISTINCT r.detail, r.message, r.properties, r.exceptions FROM r WHERE r.detail IS NOT NULL) d
			GROUP BY d.detail
			HAVING bool_and(CASE WHEN cardinality(d.exceptions) > 0 THEN d.detail =
					kube_reports_internal.field_hash(VARIADIC ARRAY['detail', d.message, d.properties] || d.exceptions)
				ELSE int8send(d.detail) = substring(sha256(kube_reports_internal.sql_field('detail')
					|| kube_reports_internal.sql_field(d.message)
					|| kube_reports_internal.sql_field(d.properties)) FROM 1 FOR 8) END)
				FILTER (WHERE d.message IS NOT NULL) IS NOT true
		UNION ALL
		SELECT 'subject', s.id FROM (SELECT DISTINCT r.subject AS id, r.api_version, r.kind, r.subject_namespace,
				r.subject_name, r.subject_uid FROM r WHERE r.subject IS NOT NULL) s
			WHERE (int8send(s.id) = substring(sha256(kube_reports_internal.sql_field('subject')
				|| kube_reports_internal.sql_field(sql_prepared_results.cluster_id::text)
				|| kube_reports_internal.sql_field(s.api_version)
				|| kube_reports_internal.sql_field(s.kind) || kube_reports_internal.sql_field(s.subject_namespace)
				|| kube_reports_internal.sql_field(s.subject_name)
				|| kube_reports_internal.sql_field(s.subject_uid)) FROM 1 FOR 8)) IS NOT true
	) w;
	RETURN results;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_prepared_results(integer, text[])
	IS 'the rows of result_difference() from JSON: an element for each report of a cluster, null where the rows are '
		'null. Raises 22023 if an id is not that of the fields in one of the rows';

-- The planner expects as many rows as from the function in C.  If it expected few, callers would compare each row of a
-- large report with each other row.
CREATE FUNCTION kube_reports_internal.result_difference(mapping_id bigint,
	mapping kube_reports.report, cluster_id integer,
		old_metadata kube_reports.report, old_body kube_reports.report, metadata kube_reports.report,
			body kube_reports.report, prepared kube_reports_internal.result_row[] DEFAULT NULL,
		OUT key bigint, OUT wanted boolean, OUT old_status "char", OUT "position" integer,
		OUT criterion bigint, OUT source text, OUT policy text, OUT rule text, OUT category text, OUT severity text,
		OUT subject bigint, OUT api_version text, OUT kind text, OUT subject_namespace text,
			OUT subject_name text, OUT subject_uid text,
		OUT status "char", OUT native_status text, OUT score double precision,
		OUT detail bigint, OUT message text, OUT properties text, OUT exceptions text[], OUT evaluated_at timestamptz)
			RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF result_difference.mapping_id IS NULL THEN
		RETURN;
	END IF;
	IF prepared IS NULL THEN
		prepared := (kube_reports_internal.sql_prepared_results(result_difference.cluster_id,
			ARRAY[kube_reports_internal.sql_ask_results(result_difference.mapping_id, result_difference.mapping,
				result_difference.cluster_id, result_difference.old_metadata, result_difference.old_body,
				result_difference.metadata, result_difference.body)]))[1].rows;
	END IF;
	RETURN QUERY SELECT r.* FROM unnest(prepared) r;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.result_difference(bigint, kube_reports.report, integer, kube_reports.report,
	kube_reports.report, kube_reports.report, kube_reports.report, kube_reports_internal.result_row[])
	IS 'the results that changed from one state of a document to another (body null: there is no document). wanted '
		'false: the result disappeared. A new time of evaluation is no change. A body may be the whole document; then '
		'its metadata is null. The texts of an element of the document''s list (source to severity, message to '
		'exceptions) are in one of its rows, and null in the others. prepared: the rows that the proxy has computed, '
		'if the engine is not in the server';

CREATE FUNCTION kube_reports_internal.field_hash(VARIADIC fields text[]) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT ('x' || encode(substring(sha256(coalesce(string_agg(int4send(octet_length(t.bytes)) || t.bytes, ''::bytea
		ORDER BY f.position), ''::bytea))
			FROM 1 FOR 8), 'hex'))::bit(64)::bigint
		FROM unnest(fields) WITH ORDINALITY f(field, position),
			LATERAL (SELECT convert_to(coalesce(f.field, ''), 'UTF8')) t(bytes);
END;
COMMENT ON FUNCTION kube_reports_internal.field_hash(text[])
	IS 'the first eight bytes of the SHA-256 hash of the fields, each preceded by its length in bytes as four bytes; '
		'a null is empty';

-- PostgreSQL puts this expression into the callers' statements; it would plan field_hash() again for each statement.
CREATE FUNCTION kube_reports_internal.actor_id(name text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN ('x' || encode(substring(sha256(kube_reports_internal.sql_field('actor')
	|| kube_reports_internal.sql_field(name)) FROM 1 FOR 8), 'hex'))::bit(64)::bigint;
COMMENT ON FUNCTION kube_reports_internal.actor_id(text) IS 'the id of an actor: field_hash() of its name';

CREATE FUNCTION kube_reports_internal.common(elements bigint[]) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN CASE WHEN cardinality(array_remove(elements, elements[1])) = 0 THEN elements[1] END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.common(bigint[])
	IS 'the number to which all elements are equal; null if there is none';

CREATE FUNCTION kube_reports_internal.joined_ids(keys bigint[], criteria bigint[], subjects bigint[]) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN keys || CASE WHEN kube_reports_internal.common(criteria) IS NULL THEN criteria END
		|| CASE WHEN kube_reports_internal.common(subjects) IS NULL THEN subjects END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.joined_ids(bigint[], bigint[], bigint[])
	IS 'the ids of a row of report_change: keys, then the criteria if they differ, then the subjects if they differ';

CREATE FUNCTION kube_reports_internal.letters(elements "char"[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	letters		text := array_to_string(elements, '', '-');
BEGIN
	RETURN CASE WHEN ltrim(letters, '-') = '' THEN NULL
		WHEN ltrim(letters, left(letters, 1)) = '' THEN left(letters, 1) ELSE letters END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.letters("char"[])
	IS 'a letter for each element, - for a null; one letter if all are equal, null if all are null';

CREATE FUNCTION kube_reports_internal.packed(elements timestamptz[]) RETURNS timestamptz[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN CASE WHEN cardinality(elements) = 0 OR cardinality(array_remove(elements, elements[1])) > 0 THEN elements
		WHEN elements[1] IS NOT NULL THEN elements[1:1] END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.packed(timestamptz[])
	IS 'times in the form of report_change: one element if all elements are equal, null if all are null';

CREATE FUNCTION kube_reports_internal.unpacked_changes(ids bigint[], only_criterion bigint, only_subject bigint,
		old_statuses text, new_statuses text, gone_withs text, first_seens timestamptz[], old_sinces timestamptz[],
		OUT key bigint, OUT criterion bigint, OUT subject bigint, OUT old_status "char", OUT new_status "char",
			OUT gone_with "char", OUT first_seen timestamptz, OUT old_since timestamptz)
			RETURNS SETOF record
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
	SELECT ids[n.n], coalesce(only_criterion, ids[c.count + n.n]),
		coalesce(only_subject, ids[c.count + n.n + CASE WHEN only_criterion IS NULL THEN c.count ELSE 0 END]),
		nullif(rtrim(CASE length(old_statuses) WHEN 1 THEN old_statuses ELSE substr(old_statuses, n.n, 1) END, '-'),
			'')::"char",
		nullif(rtrim(CASE length(new_statuses) WHEN 1 THEN new_statuses ELSE substr(new_statuses, n.n, 1) END, '-'),
			'')::"char",
		nullif(rtrim(CASE length(gone_withs) WHEN 1 THEN gone_withs ELSE substr(gone_withs, n.n, 1) END, '-'),
			'')::"char",
		CASE cardinality(first_seens) WHEN 1 THEN first_seens[1] ELSE first_seens[n.n] END,
		CASE cardinality(old_sinces) WHEN 1 THEN old_sinces[1] ELSE old_sinces[n.n] END
	FROM (SELECT cardinality(ids) / (1 + (only_criterion IS NULL)::integer + (only_subject IS NULL)::integer) AS count)
		c, generate_series(1, c.count) n(n) ORDER BY n.n;
END;
COMMENT ON FUNCTION kube_reports_internal.unpacked_changes(bigint[], bigint, bigint, text, text, text, timestamptz[],
	timestamptz[])
	IS 'the events in a row of report_change, in the order of its ids: a row for each key. An array of one element or '
		'a text of one letter stands for all events';

CREATE FUNCTION kube_reports_internal.get_plan(definition_id bigint, definition kube_reports.report, request jsonb,
		OUT code integer, OUT status bytea, OUT transform text, OUT version bigint)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('get_plan');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.get_plan(bigint, kube_reports.report, jsonb)
	IS 'the plan of a get; code 200, or another code and the Status to answer';

CREATE FUNCTION kube_reports_internal.list_plan(definition_id bigint, definition kube_reports.report, request jsonb,
		OUT code integer, OUT status bytea, OUT transform text, OUT needs_body boolean,
		OUT label_selector text, OUT terms text[], OUT field_selector text, OUT field_name text,
		OUT max_items bigint, OUT has_continue boolean, OUT continue_version bigint,
		OUT continue_namespace text, OUT continue_name text, OUT match "char", OUT version bigint,
		OUT initial_events boolean, OUT initial_bookmark boolean, OUT from_now boolean, OUT bookmarks boolean,
		OUT timeout_seconds bigint, OUT envelope text)
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('list_plan');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.list_plan(bigint, kube_reports.report, jsonb)
	IS 'the plan of a list or watch; code 200, or another code and the Status to answer. match: r most recent, a any, '
		'n not older, e exact; envelope: transform, apiVersion and kind if items are rendered from the stored texts, '
		'otherwise null';

CREATE FUNCTION kube_reports_internal.render_object(definition_id bigint,
	definition kube_reports.report, transform text,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- A step of upkeep writes objects, and nobody reads the answers.
	IF kube_reports_internal.has_engine() THEN
		RETURN '';
	END IF;
	PERFORM kube_reports_internal.only_in_c('render_object');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.render_object(bigint, kube_reports.report, text, kube_reports.report,
	kube_reports.report, bigint)
	IS 'an object as the answer to a request, with a newline; version null: without resourceVersion';

CREATE FUNCTION kube_reports_internal.render_item(definition_id bigint, definition kube_reports.report, transform text,
	events boolean, separated boolean,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('render_item');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.render_item(bigint, kube_reports.report, text, boolean, boolean,
	kube_reports.report, kube_reports.report, bigint)
	IS 'an object as an item of a list, or (events) as the frame of an ADDED event; separated: with the separator '
		'between it and the item before';

CREATE FUNCTION kube_reports_internal.render_change(definition_id bigint,
	definition kube_reports.report, transform text,
		metadata kube_reports.report, body kube_reports.report, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('render_change');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.render_change(bigint, kube_reports.report, text, kube_reports.report,
	kube_reports.report, bigint)
	IS 'an object as the object of a watch event, without a newline';

CREATE FUNCTION kube_reports_internal.render_list(definition_id bigint, definition kube_reports.report, transform text,
		part "char", version bigint, continue_token text, remaining bigint) RETURNS bytea
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('render_list');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.render_list(bigint, kube_reports.report, text, "char", bigint, text, bigint)
	IS 'the parts of a list around its items: h head, s separator, t tail; remaining null: the number is omitted';

CREATE FUNCTION kube_reports_internal.render_bookmark(definition_id bigint,
	definition kube_reports.report, transform text,
		version bigint, initial_end boolean) RETURNS bytea
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.only_in_c('render_bookmark');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.render_bookmark(bigint, kube_reports.report, text, bigint, boolean)
	IS 'the frame of a bookmark; initial_end: the bookmark that ends the initial events';

CREATE FUNCTION kube_reports_internal.continue_token(version bigint, namespaced boolean, root_namespace text,
		last_namespace text, last_name text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT translate(encode(convert_to(format('{"v":"meta.k8s.io/v1","rv":%s,"start":%s}', version,
		left(to_json(CASE WHEN namespaced AND root_namespace = '' THEN last_namespace || '/' ELSE '' END
			|| last_name)::text, -1) || '\u0000"'),
		'UTF8'), 'base64'), '+/=' || chr(10), '-_');
END;
COMMENT ON FUNCTION kube_reports_internal.continue_token(bigint, boolean, text, text, text)
	IS 'the continue token of a page that ended with this key';

CREATE FUNCTION kube_reports_internal.status_document(code integer, reason text, message text, details jsonb)
	RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT convert_to(json_strip_nulls(json_build_object('kind', 'Status', 'apiVersion', 'v1', 'metadata', '{}'::json,
		'status', 'Failure', 'message', message, 'reason', reason, 'details', details, 'code', code))::text || chr(10),
			'UTF8');
END;
COMMENT ON FUNCTION kube_reports_internal.status_document(integer, text, text, jsonb)
	IS 'a Kubernetes Status of a failure; details null: none';

CREATE FUNCTION kube_reports_internal.not_found_document(resource text, "group" text, name text) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT kube_reports_internal.status_document(404, 'NotFound',
		format('%s.%s "%s" not found', resource, "group", name),
		jsonb_build_object('name', name, 'group', "group", 'kind', resource));
END;
COMMENT ON FUNCTION kube_reports_internal.not_found_document(text, text, text)
	IS 'the Kubernetes Status of an object that does not exist';

