-- Lists: one state over all pages, whatever happens between them.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
CREATE FUNCTION pg_temp.request(query jsonb DEFAULT '{}', namespace text DEFAULT NULL,
	accept text DEFAULT 'application/json', verb text DEFAULT 'list') RETURNS text LANGUAGE sql AS $$
	SELECT jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', 'wgpolicyk8s.io', 'version', 'v1alpha2',
		'resource', 'policyreports',
		'namespace', namespace, 'query', query, 'accept', accept))::text
$$;
-- A piece as the proxy puts it together, but without the bodies of stored items.
CREATE FUNCTION pg_temp.piece(request text, cursor text, OUT code int, OUT body bytea, OUT next_cursor text)
LANGUAGE sql AS $$
	SELECT min(r.code),
		string_agg(coalesce(r.body, '') || CASE WHEN r.metadata IS NULL THEN ''::bytea ELSE convert_to(concat(
			CASE WHEN r.how = 'next' OR r.how = 'first' AND r.number > 2 THEN ',' END,
			format('{"metadata":%s}', r.metadata), CASE r.how WHEN 'event' THEN E'\n' END), 'UTF8') END, ''
				ORDER BY r.number),
		max(r.next_cursor)
	FROM (SELECT l.*, l.ordinality AS number,
			split_part(first_value(l.envelope) OVER (ORDER BY l.ordinality), ' ', 4) AS how
		FROM kube_reports_internal.api_list('00000000-0000-0000-0000-000000000001', request::jsonb, cursor)
			WITH ORDINALITY l) r
$$;
-- Names of a list, whether it goes on, and how many remain.
CREATE FUNCTION pg_temp.names(query jsonb DEFAULT '{}', namespace text DEFAULT NULL, OUT code int, OUT names text,
	OUT continues boolean, OUT remaining text, OUT token text, OUT version bigint)
LANGUAGE plpgsql AS $$
DECLARE
	answer record;
	document jsonb;
BEGIN
	SELECT p.code, p.body INTO answer FROM pg_temp.piece(pg_temp.request(query, namespace), NULL) p;
	code := answer.code;
	document := convert_from(answer.body, 'UTF8')::jsonb;
	IF code <> 200 THEN
		names := document->>'message';
		token := document#>>'{metadata,continue}';
		RETURN;
	END IF;
	SELECT string_agg(concat_ws('/', i#>>'{metadata,namespace}', i#>>'{metadata,name}'), ' ') INTO names
		FROM jsonb_array_elements(document->'items') i;
	token := document#>>'{metadata,continue}';
	continues := token <> '';
	remaining := document#>>'{metadata,remainingItemCount}';
	version := document#>>'{metadata,resourceVersion}';
END
$$;
CREATE FUNCTION pg_temp.put(namespace text, name text, labels jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('namespace', namespace, 'name', name, 'labels', labels))::kube_reports.report)
$$;
CREATE FUNCTION pg_temp.drop(namespace text, name text) RETURNS void LANGUAGE sql AS $$
	SELECT kube_reports.delete_report('00000000-0000-0000-0000-000000000001',
		'policyreports.wgpolicyk8s.io', namespace, name)
$$;

-- Empty: a version above 0 all the same (RV-03, LIST-01).
SELECT names, continues, version > 0 AS versioned FROM pg_temp.names();
-- The order is byte order of namespace, then name: ns-10 behind ns-1, whatever follows (LIST-02).
SELECT pg_temp.put(ns, n) FROM (VALUES ('ns-1', 'b'), ('ns-10', 'a'), ('ns-1', 'a'), ('ns', 'z'), ('ns-1', 'a-b'),
	('ns-1', 'a.b')) v(ns, n);
SELECT names FROM pg_temp.names();
SELECT names FROM pg_temp.names(namespace => 'ns-1');
SELECT names FROM pg_temp.names(namespace => 'nowhere');

-- Pages show the state of the first one (PAGE-02, PAGE-03, PAGE-04).
SELECT names, continues, remaining, token AS token1, version AS version1 FROM pg_temp.names('{"limit":["2"]}') \gset
\echo :names :continues :remaining
SELECT pg_temp.put('ns-1', 'aa'), pg_temp.drop('ns-1', 'a-b'), pg_temp.put('a', 'first'), pg_temp.drop('ns-10', 'a');
SELECT names, continues, remaining, token AS token2, version = :version1 AS same
	FROM pg_temp.names(jsonb_build_object('limit', '["3"]'::jsonb, 'continue', jsonb_build_array(:'token1'))) \gset
\echo :names :continues :remaining :same
SELECT names, continues, remaining FROM pg_temp.names(jsonb_build_object('continue', jsonb_build_array(:'token2')));
SELECT names FROM pg_temp.names();
-- The same state by its version (LIST-10).
SELECT names FROM pg_temp.names(jsonb_build_object('resourceVersion', jsonb_build_array(:'version1'),
	'resourceVersionMatch', '["Exact"]'::jsonb));
SELECT names FROM pg_temp.names(jsonb_build_object('resourceVersion', jsonb_build_array(:'version1'),
	'resourceVersionMatch', '["NotOlderThan"]'::jsonb));
SELECT code, names ~ '^Timeout: Too large resource version: 9007199254740991, current: \d+$' AS too_large
	FROM pg_temp.names('{"resourceVersion":["9007199254740991"]}');
SELECT code, names FROM pg_temp.names('{"resourceVersion":["x"]}');
SELECT code, names FROM pg_temp.names('{"resourceVersionMatch":["Exact"]}');
SELECT code, names FROM pg_temp.names('{"continue":["nonsense"]}');

-- Selectors, also across pages (PAGE-05).
SELECT pg_temp.put('sel', 'l' || i, jsonb_build_object('odd', (i % 2)::text, 'n', i::text))
	FROM generate_series(1, 9) i;
SELECT names, continues, remaining, token AS token3
	FROM pg_temp.names('{"labelSelector":["odd=1"],"limit":["3"]}') \gset
\echo :names :continues :remaining
SELECT names, continues FROM pg_temp.names(jsonb_build_object('labelSelector', '["odd=1"]'::jsonb, 'limit',
	'["3"]'::jsonb, 'continue', jsonb_build_array(:'token3')));
SELECT names FROM pg_temp.names('{"labelSelector":["n in (2,3),odd!=1"]}');
SELECT names FROM pg_temp.names('{"fieldSelector":["metadata.name=l3"]}');
SELECT names FROM pg_temp.names('{"fieldSelector":["metadata.name!=l3"]}', 'sel');
SELECT code, names FROM pg_temp.names('{"labelSelector":["a in"]}');
SELECT code, names FROM pg_temp.names('{"fieldSelector":["spec.x=1"]}');

-- Compaction: pages and versions below the floor are gone, a token then leads to an inconsistent rest (EXP-01).
SELECT kube_reports.set_setting('log_retention', '0');
SELECT kube_reports_internal.compact();
SELECT code, names, token IS NOT NULL AS has_token, token AS token4
	FROM pg_temp.names(jsonb_build_object('continue', jsonb_build_array(:'token1'))) \gset
\echo :code :names :has_token
SELECT code, names FROM pg_temp.names(jsonb_build_object('limit', '["2"]'::jsonb, 'continue',
	jsonb_build_array(:'token4')));
SELECT code, names FROM pg_temp.names(jsonb_build_object('resourceVersion', jsonb_build_array(:'version1'),
	'resourceVersionMatch', '["Exact"]'::jsonb));
SELECT count(*) FROM kube_reports_internal.change;

-- The answer in pieces is the answer: 3,000 objects of 2 KB.
SELECT kube_reports.set_setting('log_retention', '60 minutes');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'bulk', 'b' || lpad(i::text, 5, '0'), '{}',
		jsonb_build_object('results', jsonb_build_array(jsonb_build_object('policy', 'p', 'message',
		repeat('x', 2000))))::kube_reports.report
	FROM kube_reports.cluster c, generate_series(1, 3000) i;
CREATE FUNCTION pg_temp.pieces(request text, OUT pieces int, OUT bytes bytea) LANGUAGE plpgsql AS $$
DECLARE
	answer record;
	cursor text;
BEGIN
	pieces := 0;
	bytes := '';
	LOOP
		SELECT p.body, p.next_cursor INTO answer FROM pg_temp.piece(request, cursor) p;
		pieces := pieces + 1;
		bytes := bytes || answer.body;
		cursor := answer.next_cursor;
		EXIT WHEN cursor IS NULL;
	END LOOP;
END
$$;
SELECT pieces > 2 AS several, jsonb_array_length(d->'items') AS items, d->'items'->0#>>'{metadata,name}' AS first,
	d->'items'->2999#>>'{metadata,name}' AS last
	FROM (SELECT pieces, convert_from(bytes, 'UTF8')::jsonb AS d FROM pg_temp.pieces(pg_temp.request('{}', 'bulk'))) p;
SELECT jsonb_array_length(convert_from(bytes, 'UTF8')::jsonb->'rows') AS rows
	FROM pg_temp.pieces(pg_temp.request('{}', 'bulk', 'application/json;as=Table;v=v1;g=meta.k8s.io'));
SELECT jsonb_array_length(convert_from(bytes, 'UTF8')::jsonb->'items') AS partial
	FROM pg_temp.pieces(pg_temp.request('{}', 'bulk',
	'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'));
SELECT array_length(regexp_split_to_array(convert_from(bytes, 'UTF8'), '\n'), 1) - 1 AS frames
	FROM pg_temp.pieces(pg_temp.request('{}', 'bulk', verb => 'watch'));
