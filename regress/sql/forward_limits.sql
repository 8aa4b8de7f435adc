-- What a sender can do to other clusters and to the database by names and numbers that it chooses.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SELECT kube_reports.register_cluster('00000000-0000-4000-8000-0000000000f0', 'prod-eu') > 0 AS registered;
CREATE ROLE forward_limits;
GRANT forward_limits TO current_user;
SELECT kube_reports.grant_proxy('forward_limits', '00000000-0000-4000-8000-0000000000f0');
SELECT kube_reports.grant_ingest('forward_limits');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'east', token_sha256 => repeat('1', 64));
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f2', 'west', token_sha256 => repeat('2', 64));
CREATE FUNCTION pg_temp.forward(digit text, what text, document jsonb) RETURNS text
LANGUAGE sql
AS $$
	SELECT f.code || ' ' || coalesce(convert_from(f.reply, 'UTF8')::jsonb->>'message', '')
	FROM kube_reports_internal.api_forward_batch('00000000-0000-4000-8000-0000000000f0', what, 'token',
		repeat(digit, 64), convert_to(document::text, 'UTF8')) f
$$;
CREATE FUNCTION pg_temp.scan(name text, run text, more jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql
AS $$
	SELECT jsonb_build_object('apiVersion', 'forward/v1', 'assessmentId', run, 'seq', 1, 'last', true,
		'scan', jsonb_build_object('name', name), 'results', '[]'::jsonb) || more
$$;

-- The name of another cluster is not taken.  The answer is the same whether there is such a cluster.
SELECT pg_temp.forward('1', 'results', pg_temp.scan('s', '1', '{"extraMetadata": {"clusterName": "Prod-EU"}}'));
SELECT pg_temp.forward('2', 'results', pg_temp.scan('s', '1', '{"extraMetadata": {"clusterName": "west"}}'));
SELECT pg_temp.forward('1', 'results', pg_temp.scan('s', '2', '{"extraMetadata": {"clusterName": "other"}}'));
SELECT pg_temp.forward('2', 'results', pg_temp.scan('s', '2', '{"extraMetadata": {"clusterName": "other"}}'));
SELECT c.uid, c.name, c.extra_metadata FROM kube_reports.cluster c ORDER BY c.uid;

-- A batch that is too large is refused before its items are looked at.
SELECT pg_temp.forward('1', 'results', pg_temp.scan('s', '3', jsonb_build_object(p.part,
		(SELECT jsonb_agg(n) FROM generate_series(1, 5001) n))))
	FROM (VALUES ('results'), ('remediations')) p(part);
SELECT pg_temp.forward('1', what, jsonb_build_object('items', (SELECT jsonb_agg(n) FROM generate_series(1, 5001) n)))
	FROM (VALUES ('objects'), ('sync')) w(what);
SELECT pg_temp.forward('1', 'results', pg_temp.scan('s', '3', '{"seq": 10000}'));

-- Runs of a scan, scans of a cluster, and streams of objects are bounded.
INSERT INTO kube_reports_internal.forward_assessment
	SELECT c.id, 's', 'run ' || n, 1, '', '{}', true, false, now() - n * interval '1 s'
	FROM kube_reports.cluster c, generate_series(1, 500) n WHERE c.name = 'west';
SELECT pg_temp.forward('2', 'results', pg_temp.scan('s', 'newest'));
SELECT count(*), count(*) FILTER (WHERE a.latest) AS latest, bool_or(a.assessment = 'run 1') AS newer,
	bool_or(a.assessment = 'run 500') AS older
	FROM kube_reports_internal.forward_assessment a JOIN kube_reports.cluster c ON c.id = a.cluster_id
	WHERE c.name = 'west';
INSERT INTO kube_reports_internal.forward_assessment
	SELECT c.id, 'scan-' || n, 'run', 1, '', '{}', n <= 500, true, now()
	FROM kube_reports.cluster c, generate_series(1, 999) n WHERE c.name = 'west';
SELECT pg_temp.forward('2', 'results', pg_temp.scan('one-more', 'run'));
SELECT pg_temp.forward('2', 'results', pg_temp.scan('scan-700', 'next'));
SELECT count(DISTINCT a.scan) AS unfinished_stay
	FROM kube_reports_internal.forward_assessment a JOIN kube_reports.cluster c ON c.id = a.cluster_id
	WHERE c.name = 'west';
UPDATE kube_reports_internal.forward_assessment SET finished = false;
INSERT INTO kube_reports_internal.forward_assessment
	SELECT c.id, 'new-' || n, 'run', 1, '', '{}', false, true, now()
	FROM kube_reports.cluster c, generate_series(1, 600) n WHERE c.name = 'west';
SELECT pg_temp.forward('2', 'results', pg_temp.scan('too-many', 'run'));
SELECT pg_temp.forward('1', 'results', pg_temp.scan('too-many', 'run'));
INSERT INTO kube_reports_internal.forward_stream
	SELECT c.id, gen_random_uuid(), 1, 'west', now() - n * interval '1 s'
	FROM kube_reports.cluster c, generate_series(1, 500) n WHERE c.name = 'west';
SELECT pg_temp.forward('2', 'objects', jsonb_build_object('apiVersion', 'forward/v1', 'items', '[]'::jsonb, 'seq', 1,
	'stream', '00000000-0000-4000-8000-00000000000a'));
SELECT count(*), bool_or(s.stream = '00000000-0000-4000-8000-00000000000a') AS newest
	FROM kube_reports_internal.forward_stream s;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
DROP OWNED BY forward_limits;
DROP ROLE forward_limits;
