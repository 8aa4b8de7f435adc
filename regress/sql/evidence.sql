-- Evidence: who may announce a file, which names are taken, rotation, what stays of a file that is not announced.
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT kube_reports.register_cluster('00000000-0000-4000-8000-0000000000e0', 'hub') > 0 AS registered;
CREATE ROLE evidence_hub;
CREATE ROLE evidence_reader_east;
CREATE ROLE evidence_reader_scope;
CREATE ROLE evidence_reader_team;
GRANT evidence_hub, evidence_reader_east, evidence_reader_scope, evidence_reader_team TO current_user;
SELECT kube_reports.grant_proxy('evidence_hub', '00000000-0000-4000-8000-0000000000e0');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000e1', 'ev-east', token_sha256 => repeat('e', 64),
	cluster_name => 'ev-east');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000e2', 'ev-west', certificate => 'ev-west');

CREATE FUNCTION pg_temp.open(scan text, name text, kind text DEFAULT 'token', credential text DEFAULT repeat('e', 64),
	index integer DEFAULT 1, encoding text DEFAULT '', bytes bigint DEFAULT 0) RETURNS text
LANGUAGE sql
AS $$
	SELECT concat_ws(' ', b.code, b.message, b.sender, b.chosen_scan, replace(b.key, b.id::text, 'ID'))
	FROM kube_reports_internal.api_evidence_begin(kind, credential, scan, index, name, encoding, 'file:///e', bytes,
		600) b
$$;
CREATE FUNCTION pg_temp.store(scan text, index integer, name text, content text, kind text DEFAULT 'token',
	credential text DEFAULT repeat('e', 64)) RETURNS text
LANGUAGE sql
AS $$
	SELECT concat_ws(' ', c.code, c.message, c.cluster, c.chosen_index)
	FROM kube_reports_internal.api_evidence_begin(kind, credential, scan, index, name, '', 'file:///e', 0, 600) b,
		kube_reports_internal.api_evidence_commit(kind, credential, b.id, b.chosen_scan, index, name, '', 'directory',
			encode(sha256(content::bytea), 'hex'), length(content), kube_reports_internal.this_caller()) c
$$;

-- A role of proxies: without ingest nothing.
SET ROLE evidence_hub;
SELECT pg_temp.open('s', 'a');
SELECT kube_reports_internal.api_evidence_removals('file:///e');
RESET ROLE;
SELECT kube_reports.grant_ingest('evidence_hub');
SET ROLE evidence_hub;
SELECT FROM kube_reports_internal.evidence_file;
SELECT FROM kube_reports_internal.evidence_body;
SELECT FROM kube_reports.evidence;

-- Credentials and names.
SELECT pg_temp.open('s', 'a', credential => repeat('f', 64));
SELECT pg_temp.open('s', 'a', kind => 'certificate');
SELECT pg_temp.open('ocp4-cis', 'node', encoding => 'bzip2');
SELECT pg_temp.open(NULL, 'node', 'certificate', 'ev-west');
SELECT n.name, pg_temp.open('s', n.name)
	FROM (VALUES (NULL), (''), ('..'), ('a/b'), ('.a'), ('a.'), (E'a\nb'), (repeat('a', 201)), ('ä')) n(name);
SELECT n.scan, pg_temp.open(n.scan, 'a') FROM (VALUES (''), ('..'), (repeat('a', 64))) n(scan);
SELECT pg_temp.open('s', 'a', index => -1);
SELECT pg_temp.open('s', 'a', encoding => 'gzip');
SELECT pg_temp.open('s', 'a', bytes => 10737418241);

-- Announced once; the same again is no new file; another takes its place.
SELECT pg_temp.store('s', 1, 'a', 'one');
SELECT pg_temp.store('s', 1, 'a', 'one');
SELECT pg_temp.store('s', 1, 'a', 'two');
SELECT pg_temp.store('s', 1, 'b', 'one');
-- Without an index: a name that comes again begins the next run.
SELECT pg_temp.store(NULL, NULL, 'a', 'one');
SELECT pg_temp.store(NULL, NULL, 'b', 'one');
SELECT pg_temp.store(NULL, NULL, 'a', 'one');
SELECT pg_temp.store(NULL, NULL, 'a', 'two');
SELECT pg_temp.store('s', 1, 'a', 'west', 'certificate', 'ev-west');

-- Who commits what another has begun.
SELECT c.code, c.message FROM kube_reports_internal.api_evidence_begin('token', repeat('e', 64), 's', 9, 'a', '',
		'file:///e', 0, 600) b,
	kube_reports_internal.api_evidence_commit('certificate', 'ev-west', b.id, 's', 9, 'a', '', 'directory',
		repeat('0', 64), 1, kube_reports_internal.this_caller()) c;
SELECT f.code, f.bytes, f.encoding, regexp_replace(f.uri, '[0-9a-f-]{36}\.xml', 'ID.xml')
	FROM (VALUES ('token', repeat('e', 64), NULL::uuid, 'a'), ('token', repeat('e', 64), NULL, 'c'),
		('token', repeat('e', 64), '00000000-0000-4000-8000-0000000000e2', 'a'), ('token', repeat('f', 64), NULL, 'a'))
		q(kind, credential, cluster, name),
	kube_reports_internal.api_evidence_find(q.kind, q.credential, q.cluster, 's', 1, q.name) f;
RESET ROLE;

-- Readers: as reports of cluster scope.
SELECT kube_reports.grant_cluster('evidence_reader_east', '00000000-0000-4000-8000-0000000000e1');
SELECT kube_reports.grant_namespace('evidence_reader_scope', '00000000-0000-4000-8000-0000000000e2', '');
SELECT kube_reports.grant_namespace('evidence_reader_team', '00000000-0000-4000-8000-0000000000e1', 'team');
SET ROLE evidence_reader_east;
SELECT cluster_name, scan, index, name, left(sha256, 8) AS sha256, bytes, encoding, provider,
	regexp_replace(uri, '[0-9a-f-]{36}\.xml', 'ID.xml') AS uri
	FROM kube_reports.evidence ORDER BY scan, index, name;
SET ROLE evidence_reader_scope;
SELECT cluster, scan, index, name FROM kube_reports.evidence;
SET ROLE evidence_reader_team;
SELECT count(*) FROM kube_reports.evidence;
RESET ROLE;

-- Rotation keeps the indexes whose files came last; what nothing announces is to be removed.
SELECT kube_reports.set_setting('evidence_rotation', '-1');
SELECT kube_reports.set_setting('evidence_bytes', 'x');
SELECT kube_reports.set_setting('evidence_rotation', '2');
SELECT pg_temp.store('s', i, 'a', i::text) FROM generate_series(5, 7) i;
SELECT pg_temp.store('s', 0, 'a', 'again');
SELECT scan, index, name FROM kube_reports.evidence WHERE cluster_name = 'ev-east' AND scan = 's' ORDER BY index, name;
SELECT kube_reports.set_setting('evidence_bytes', '10');
SELECT pg_temp.store('s', 0, 'b', 'too many bytes'), pg_temp.open('s', 'b', bytes => 100);
SELECT kube_reports.set_setting('evidence_bytes', NULL);
CREATE TEMPORARY TABLE due AS SELECT * FROM kube_reports_internal.api_evidence_removals('file:///e');
SELECT count(*) AS due, (SELECT count(*) FROM due d
	JOIN kube_reports_internal.evidence_file f ON f.body = d.id) AS announced FROM due;
SELECT kube_reports_internal.api_evidence_removed('file:///other', array_agg(id)) FROM due;
SELECT count(*) FROM kube_reports_internal.evidence_body WHERE remove_after <= now();
SELECT kube_reports_internal.api_evidence_removed('file:///e', array_agg(id)) FROM due;
SELECT count(*) FROM kube_reports_internal.evidence_body WHERE remove_after <= now();
-- Old files, and those of a cluster that leaves.
SELECT kube_reports.set_setting('evidence_retention', '1 day');
UPDATE kube_reports_internal.evidence_file SET created_at = now() - interval '2 days' WHERE scan = 's' AND index = 7;
SELECT count(*) FROM kube_reports_internal.api_evidence_removals('file:///e');
SELECT scan, index, name FROM kube_reports.evidence WHERE cluster_name = 'ev-east' AND scan = 's' ORDER BY index, name;

-- Metadata of files that a sender keeps: they share names, rotation and readers with those that are stored here, and
-- nothing here reads or removes what their URIs name.
CREATE FUNCTION pg_temp.announce(files jsonb, credential text DEFAULT repeat('e', 64)) RETURNS text
LANGUAGE sql
AS $$
	SELECT concat_ws(' ', f.code, coalesce((SELECT string_agg(c.value->>'field' || ' ' || (c.value->>'message'), '; ')
		FROM jsonb_array_elements(r.reply#>'{details,causes}') c(value)), r.reply->>'message', r.reply::text))
	FROM kube_reports_internal.api_forward_batch('00000000-0000-4000-8000-0000000000e0', 'evidence', 'token',
			credential, convert_to(jsonb_build_object('apiVersion', 'forward/v1', 'evidence', files)::text, 'UTF8')) f,
		LATERAL (SELECT convert_from(f.reply, 'UTF8')::jsonb) r(reply)
$$;
CREATE FUNCTION pg_temp.file(index integer, name text DEFAULT 'k', scan text DEFAULT 'kept',
	uri text DEFAULT 's3://theirs/k.xml', bytes bigint DEFAULT 5, sha256 text DEFAULT repeat('0', 64)) RETURNS jsonb
LANGUAGE sql
AS $$
	SELECT jsonb_build_object('scan', scan, 'index', index, 'name', name, 'sha256', sha256, 'bytes', bytes, 'uri', uri)
$$;
SELECT kube_reports.set_setting('evidence_retention', NULL);
SET ROLE evidence_hub;
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(1), pg_temp.file(1, 'l'), pg_temp.file(2)));
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(1), pg_temp.file(2, bytes => 6)));
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(1)), repeat('f', 64));
SELECT pg_temp.announce('{}'), pg_temp.announce('[1]');
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(1), pg_temp.file(1)));
SELECT f.field, pg_temp.announce(jsonb_build_array(pg_temp.file(1) || jsonb_build_object(f.field, f.value)))
	FROM (VALUES ('scan', '"../x"'::jsonb), ('scan', 'null'), ('name', '".x"'), ('name', '"a/b"'), ('index', '-1'),
		('index', '1.5'), ('index', '"1"'), ('index', '1000000000'), ('sha256', '"ABC"'), ('bytes', '0'),
		('bytes', '1e15'), ('encoding', '"gzip"'), ('uri', '"no uri"'), ('uri', 'null'), ('uri', '"s3://a b"'),
		('uri', to_jsonb('s3://' || repeat('a', 1000)))) f(field, value);
-- A file that is stored here is announced by its server alone; one that its sender kept is replaced when it comes.
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(0, 'a', 's')));
SELECT pg_temp.store('kept', 1, 'l', 'stored');
SELECT f.code, f.uri FROM (VALUES ('k'), ('l')) n(name), kube_reports_internal.api_evidence_find('token',
	repeat('e', 64), NULL, 'kept', 1, n.name) f ORDER BY n.name, f.code LIMIT 1;
RESET ROLE;
SELECT index, name, bytes, provider, CASE provider WHEN 'sender' THEN uri END AS uri
	FROM kube_reports.evidence WHERE scan = 'kept' ORDER BY index, name;
-- Rotation, retention: nothing of what the sender keeps is to be removed here, whatever its URI names.
SET ROLE evidence_hub;
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(3, uri => 'file:///e/other'),
	pg_temp.file(4, uri => 'file:///e/another')));
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(5)));
RESET ROLE;
SELECT index, name, regexp_replace(uri, '[0-9a-f-]{36}\.xml', 'ID.xml') AS uri
	FROM kube_reports.evidence WHERE scan = 'kept' ORDER BY index, name;
SELECT count(*) AS removed, bool_or(key LIKE '%other') AS foreign
	FROM kube_reports_internal.api_evidence_removals('file:///e');
SELECT kube_reports.set_setting('evidence_retention', '1 day');
UPDATE kube_reports_internal.evidence_file SET created_at = now() - interval '2 days' WHERE scan = 'kept';
SELECT count(*) FROM kube_reports_internal.api_evidence_removals('file:///e') WHERE key LIKE '%other';
SELECT count(*) FROM kube_reports.evidence WHERE scan = 'kept';
-- A cluster that moves: nothing is stored, and its files stay for the other database.
SELECT kube_reports.hold_writes('00000000-0000-4000-8000-0000000000e2');
SELECT pg_temp.open('s', 'b', 'certificate', 'ev-west');
SELECT kube_reports.hold_writes('00000000-0000-4000-8000-0000000000e1');
SELECT pg_temp.announce(jsonb_build_array(pg_temp.file(1)));
SELECT kube_reports.release_writes('00000000-0000-4000-8000-0000000000e1');
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000e2');
SELECT count(*) FROM kube_reports_internal.evidence_body b WHERE b.key LIKE '00000000-0000-4000-8000-0000000000e2/s/%';
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000e1');
SELECT count(*) FROM kube_reports.evidence;
SELECT count(*) > 0 AS to_be_removed FROM kube_reports_internal.api_evidence_removals('file:///e');
SELECT kube_reports.set_setting(name, NULL) FROM (VALUES ('evidence_rotation'), ('evidence_retention')) s(name);
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000e0');
DELETE FROM kube_reports_internal.evidence_body;
SELECT kube_reports.revoke_reader(role) FROM (VALUES ('evidence_reader_east'), ('evidence_reader_scope'),
	('evidence_reader_team')) r(role);
DROP OWNED BY evidence_hub, evidence_reader_east, evidence_reader_scope, evidence_reader_team;
DROP ROLE evidence_hub, evidence_reader_east, evidence_reader_scope, evidence_reader_team;
