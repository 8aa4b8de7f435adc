-- Results that come one by one, without a number: repeats, and late ones of an earlier assessment.
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT kube_reports.register_cluster('00000000-0000-4000-8000-0000000000e0', 'single-hub') > 0 AS registered;
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000e1', 'single', token_sha256 => repeat('a', 64),
	cluster_name => 'single');

CREATE FUNCTION pg_temp.forward(run text, rule text, outcome text, scan text DEFAULT 's') RETURNS text
LANGUAGE sql
AS $$
	SELECT f.code || ' ' || (convert_from(f.reply, 'UTF8')::jsonb - 'metadata')::text
	FROM kube_reports_internal.api_forward_batch('00000000-0000-4000-8000-0000000000e0', 'result', 'token',
		repeat('a', 64), convert_to(jsonb_build_object('apiVersion', 'forward/v1', 'assessmentId', run,
			'scan', jsonb_build_object('name', scan), 'results', jsonb_build_array(jsonb_build_object(
				'subject', 'c', 'rule', rule, 'outcome', outcome)))::text, 'UTF8')) f
$$;
CREATE FUNCTION pg_temp.results() RETURNS text
LANGUAGE sql
AS $$
	SELECT string_agg(r.policy || ' ' || r.rule || ' ' || r.status, ', ' ORDER BY r.policy, r.rule)
	FROM kube_reports.typed_result r WHERE r.cluster = '00000000-0000-4000-8000-0000000000e1'
$$;

SELECT pg_temp.forward('one', 'a', 'FAIL');
SELECT pg_temp.forward('one', 'b', 'PASS');
-- A repeat writes nothing.
SELECT count(*) AS changes FROM kube_reports_internal.change \gset
SELECT pg_temp.forward('one', 'a', 'FAIL');
SELECT count(*) = :changes AS unchanged FROM kube_reports_internal.change;
SELECT pg_temp.results();

-- A later assessment replaces what it has; an earlier one comes late for this, and not for what the later one lacks.
UPDATE kube_reports_internal.forward_assessment SET received_at = received_at - interval '1 hour'
	WHERE assessment = 'one' AND scan = 's';
SELECT pg_temp.forward('two', 'a', 'PASS');
SELECT pg_temp.forward('one', 'a', 'FAIL');
SELECT pg_temp.forward('one', 'b', 'FAIL');
SELECT pg_temp.forward('one', 'c', 'FAIL');
SELECT pg_temp.forward('one', 'a', 'FAIL', 'other');
SELECT pg_temp.results();
SELECT a.scan, a.assessment, a.seq, a.finished, a.latest FROM kube_reports_internal.forward_assessment a
	JOIN kube_reports.cluster c ON c.id = a.cluster_id WHERE c.uid = '00000000-0000-4000-8000-0000000000e1'
	ORDER BY 1, 2;

-- A result that was stored while the clock was ahead makes no later one late.
SELECT f.code FROM (SELECT s.document::jsonb AS document FROM kube_reports.stored_report s
		WHERE s.cluster = '00000000-0000-4000-8000-0000000000e1' AND s.document::jsonb->'results' @> '[{"rule": "a"}]'
			AND s.document::jsonb#>>'{metadata,labels,forward.kube-reports.io/scan}' = 's') s,
	kube_reports_internal.api_forward_batch('00000000-0000-4000-8000-0000000000e0', 'objects', 'token', repeat('a', 64),
		convert_to(jsonb_build_object('apiVersion', 'forward/v1', 'stream', gen_random_uuid(), 'seq', 1, 'items',
			jsonb_build_array(jsonb_build_object('op', 'apply', 'object', jsonb_set(jsonb_set(s.document,
				'{results,0,timestamp,seconds}', to_jsonb(extract(epoch FROM now() + interval '1 year')::bigint)),
				'{metadata,resourceVersion}', '"ahead"'))))::text, 'UTF8')) f;
SELECT pg_temp.forward('three', 'a', 'FAIL');
SELECT pg_temp.results();

-- What is refused.
SELECT left(pg_temp.forward('', 'a', 'GOOD', '../x'), 60);

CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000e1');
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000e0');
