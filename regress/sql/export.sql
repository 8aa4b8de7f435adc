-- Results and history by COPY: the bytes, who sees what, and how history is followed.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
\set two '00000000-0000-0000-0000-000000000002'
SELECT current_user AS owner \gset
SELECT kube_reports.register_cluster(:'one', 'one') IS NOT NULL
	AND kube_reports.register_cluster(:'two', 'two') IS NOT NULL AS registered;
CREATE ROLE regress_all LOGIN;
CREATE ROLE regress_team LOGIN;
SELECT kube_reports.grant_reader('regress_all'), kube_reports.grant_namespace('regress_team', :'one', 'team-a');
SELECT kube_reports.set_setting('settle_window', '0');
CREATE FUNCTION public.regress_write(cluster uuid, namespace text, policy text, result text, more jsonb DEFAULT '{}')
	RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.create_report(cluster,
		jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', policy, 'namespace', namespace),
		'results', jsonb_build_array(jsonb_build_object('source', 's', 'policy', policy, 'result', result)
			|| more))::kube_reports.report) IS NOT NULL
$$;
SELECT public.regress_write(:'one', 'team-a', 'plain', 'fail',
	'{"severity": "high", "category": "c", "properties": {"score": "9.8", "n": "1"}}'),
	public.regress_write(:'one', 'team-a', 'odd', 'pass',
		jsonb_build_object('message', E'comma , quote " line \n return \r backslash \\.')),
	public.regress_write(:'one', 'team-b', 'hidden', 'fail'), public.regress_write(:'two', 'team-a', 'hidden', 'warn');

---- the lines ----

SELECT kube_reports_internal.csv_line(l)
	FROM (VALUES ('{}'::json), ('{"a": null}'), ('{"a": ""}'),
	('{"a": "x", "b": null, "c": "", "d": 1.50, "e": [1, "x"], "f": "a,b", "g": "say \"x\"", "h": "\r"}')) v(l);
SELECT kube_reports_internal.utc_text('2026-02-03 04:05:06.789+02'),
	kube_reports_internal.utc_text(NULL) IS NULL AS none;
SELECT kube_reports_internal.event_id(12, 255), kube_reports_internal.event_id(1, -1), p.*
	FROM kube_reports_internal.event_place(kube_reports_internal.event_id(7, -9223372036854775808)) p;
SELECT * FROM kube_reports_internal.event_place('12-ff');
SELECT * FROM kube_reports_internal.event_place('');
SELECT * FROM kube_reports.export_events('{"colour": "red"}');
SELECT * FROM kube_reports.export_events('[]');
SELECT * FROM kube_reports.export_events('{"from": "never"}');
SELECT * FROM kube_reports.export_events('{"status": "bad"}');

---- by COPY: first_seen and since are left out, which nobody can foretell ----

COPY (SELECT cluster, cluster_name, namespace, report, source, policy, rule, category, severity, status, score,
	subject_kind, message, properties, exceptions
	FROM kube_reports.export_results('{"namespace": "team-a"}') ORDER BY cluster, policy)
		TO STDOUT (FORMAT csv, HEADER);
COPY (SELECT to_json(r) FROM (SELECT cluster_name, policy, severity, score, message, properties, exceptions
	FROM kube_reports.export_results('{"policy": ["odd", "plain"]}') ORDER BY policy) r)
		TO STDOUT (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02');
COPY (SELECT cluster_name, namespace, policy, old_status, new_status, report_resource, actor = current_user AS mine
	FROM kube_reports.export_events() ORDER BY id) TO STDOUT (FORMAT csv, HEADER);

---- who sees what ----

\c - regress_all
SELECT cluster_name, namespace, policy FROM kube_reports.export_results() ORDER BY 1, 2, 3;
SELECT cluster_name, namespace, policy FROM kube_reports.export_events() ORDER BY id;
\c - regress_team
SELECT cluster_name, namespace, policy FROM kube_reports.export_results() ORDER BY 1, 2, 3;
SELECT cluster_name, namespace, policy FROM kube_reports.export_events() ORDER BY id;
SELECT cluster_name, namespace, policy FROM kube_reports.export_results('{"namespace": "team-b"}');
SELECT cluster_name, namespace, policy FROM kube_reports.export_events('{"cluster": "two"}');
SELECT kube_reports_internal.next_events(NULL, 0, 0, 0, 1);
SELECT kube_reports_internal.event_horizon('{}');
SELECT (kube_reports_internal.find_events('regress_all', '\x00', '{}', NULL, NULL)).events;
SELECT (kube_reports_internal.find_exported('regress_all', '\x00', '{}', NULL)).results;
SELECT kube_reports_internal.api_export(:'one', '{"what": "events"}', NULL);
\c - :owner
SET client_min_messages = warning;

---- following ----

SELECT max(id) AS last FROM kube_reports.export_events() \gset
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'team-a', 'plain',
	'{"results": [{"source": "s", "policy": "plain", "result": "pass"}]}') IS NOT NULL AS changed;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'team-a', 'odd') IS NOT NULL AS deleted;
SELECT policy, old_status, new_status FROM kube_reports.export_events('{}', :'last');
SELECT policy, old_status, new_status FROM kube_reports.export_events('{"status": ""}', :'last');
SELECT count(*) FROM kube_reports.export_events('{}', (SELECT max(id) FROM kube_reports.export_events()));
-- Not final: it may come back.
SELECT kube_reports.set_setting('settle_window', '1 hour');
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'team-b', 'hidden') IS NOT NULL AS deleted;
SELECT public.regress_write(:'one', 'team-b', 'after', 'fail'), public.regress_write(:'two', 'team-b', 'after', 'fail');
SELECT count(*) FROM kube_reports.export_events('{}', (SELECT max(id) FROM kube_reports.export_events()));
SELECT policy FROM kube_reports.export_events('{"cluster": "two"}', :'last');
-- Where the order in which versions become visible cannot be known.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM kube_reports.export_events();
ROLLBACK;
DROP FUNCTION public.regress_write(uuid, text, text, text, jsonb);
SELECT kube_reports.revoke_reader('regress_all'), kube_reports.revoke_reader('regress_team');
DROP ROLE regress_all, regress_team;
