-- Deletecollection, generated names that are taken, preconditions.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') AS cluster_id \gset
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT :cluster_id, 1, 'ns-' || i % 2, 'r' || lpad(i::text, 4, '0'),
		format('{"labels":{"odd":"%s"}%s}', i % 2, CASE WHEN i = 4 THEN ',"finalizers":["example.com/f"]'
			ELSE '' END)::kube_reports.report, '{}'
	FROM generate_series(1, 1203) i;

-- Pieces, as the proxy asks for them.
CREATE FUNCTION pg_temp.collect(namespace text, query jsonb DEFAULT '{}', options text DEFAULT '', OUT pieces int,
	OUT code int, OUT answer jsonb) LANGUAGE plpgsql AS $$
DECLARE
	piece record;
	cursor text;
BEGIN
	pieces := 0;
	LOOP
		SELECT * INTO piece FROM kube_reports_internal.delete_piece('00000000-0000-0000-0000-000000000001',
			jsonb_build_object('verb', 'deletecollection',
			'group', 'wgpolicyk8s.io', 'version', 'v1alpha2', 'resource', 'policyreports', 'namespace', namespace,
				'query', query), convert_to(options, 'UTF8'), cursor);
		pieces := pieces + 1;
		cursor := piece.next_cursor;
		EXIT WHEN cursor IS NULL;
	END LOOP;
	code := piece.code;
	answer := convert_from(piece.reply, 'UTF8');
END
$$;
-- Wrong options delete nothing (DC-07).
SELECT * FROM pg_temp.collect('ns-0', '{"labelSelector":["a in"]}');
SELECT * FROM pg_temp.collect('ns-0', '{}', '{"propagationPolicy":"Sideways"}');
SELECT * FROM pg_temp.collect('ns-0', '{"dryRun":["All"]}');
SELECT count(*) FROM kube_reports.object;
-- Only the namespace, only what matches (DC-02, DC-08).
SELECT * FROM pg_temp.collect('ns-0', '{"labelSelector":["odd=1"]}');
SELECT * FROM pg_temp.collect('ns-1');
SELECT namespace, count(*) FROM kube_reports.object GROUP BY 1;
-- An object with a finalizer stays, terminating.
SELECT * FROM pg_temp.collect('ns-0');
SELECT name, metadata::jsonb ? 'deletionTimestamp' AS terminating FROM kube_reports.object;
-- Each deletion has a version of its own (DC-05).
SELECT count(*), count(DISTINCT version) FROM kube_reports_internal.change WHERE operation = 'D';

-- Preconditions (DEL-03).
CREATE FUNCTION pg_temp.write(verb text, name text, document text) RETURNS TABLE (code int, answer jsonb)
	LANGUAGE sql AS $$
	SELECT w.codes[1], convert_from(w.replies[1],
		'UTF8')::jsonb #- '{metadata,uid}' #- '{metadata,creationTimestamp}' #-
		'{metadata,resourceVersion}' #- '{details,uid}'
	FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
		ARRAY[jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', 'wgpolicyk8s.io',
		'version', 'v1alpha2', 'resource', 'policyreports', 'namespace', 'default', 'name', name))],
			ARRAY[convert_to(document, 'UTF8')]) w
$$;
SELECT code FROM pg_temp.write('create', NULL,
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"p"}}');
SELECT code, answer->>'message' ~ '^Operation cannot be fulfilled on PolicyReport.wgpolicyk8s.io "p": the UID in the '
	'precondition \(x\) does not match the UID in record' AS message
	FROM pg_temp.write('delete', 'p', '{"preconditions":{"uid":"x"}}');
SELECT code, answer->>'reason' AS reason FROM pg_temp.write('delete', 'p', '{"preconditions":{"resourceVersion":"1"}}');
SELECT * FROM pg_temp.write('delete', 'p', '{"propagationPolicy":"Background"}');
SELECT * FROM pg_temp.write('delete', 'p', '');

-- One request in a batch that fails costs the others nothing.
SELECT w.codes, w.versions[2] = 0 AS unversioned, w.versions[3] > w.versions[1] AS in_order
	FROM kube_reports_internal.write_batch(:'one',
		ARRAY(SELECT '{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
			'"namespace":"batch"}'::jsonb FROM generate_series(1, 4)),
		ARRAY(SELECT convert_to(
			format('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":%s}}', n), 'UTF8')
			FROM unnest('{"\"a\"","\"Not OK\"","\"b\"","{"}'::text[]) n)) w;
SELECT name FROM kube_reports.object WHERE namespace = 'batch' ORDER BY name;
