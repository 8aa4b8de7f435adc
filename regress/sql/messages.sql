-- What users get to read when they give something wrong: it is named, and so is what would be right.
\set SHOW_CONTEXT never
\set one '00000000-0000-0000-0000-000000000001'
\set none '00000000-0000-0000-0000-000000000002'

-- A cluster where none is known.
BEGIN;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SELECT kube_reports.create_report(:'none',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"}}');
ROLLBACK;

SELECT kube_reports.register_cluster(:'one', 'here') > 0 AS known;

-- A word that is no status or severity, also where nothing is stored that could be compared with it.
SELECT count(*) FROM kube_reports.transitions(now(), now(), 'fial', 'pass');
SELECT count(*) FROM kube_reports.transitions(now(), now(), new => 'passed');
SELECT kube_reports.make_history(now());
PREPARE transitions(text, text) AS SELECT count(*) FROM kube_reports.transitions('-infinity', 'infinity', $1, $2);
SET plan_cache_mode = force_generic_plan;
EXECUTE transitions('fial', NULL);
EXECUTE transitions('fail', '');
EXECUTE transitions(NULL, 'skip');
RESET plan_cache_mode;
DEALLOCATE transitions;
SELECT kube_reports.severity_weight('hihg');
SELECT s AS severity, kube_reports.severity_weight(s) AS weight
	FROM unnest(kube_reports_internal.severity_words() || NULL::text) WITH ORDINALITY w(s, place) ORDER BY w.place;

-- An unknown cluster.
SELECT kube_reports.patch_report(:'none', 'policyreports.wgpolicyk8s.io', 'shop', 'a', '{}');
SELECT kube_reports.get_report(:'none', 'policyreports.wgpolicyk8s.io', 'shop', 'a');
SELECT kube_reports.delete_report(:'none', 'policyreports.wgpolicyk8s.io', 'shop', 'a');
SELECT kube_reports.create_report(:'none',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"}}');
SELECT kube_reports.register_cluster(NULL);

-- A type by another name than <plural>.<group>.
SELECT kube_reports.patch_report(:'one', 'policyreport', 'shop', 'a', '{}');
SELECT kube_reports.get_report(:'one', 'PolicyReport.wgpolicyk8s.io', 'shop', 'a');
SELECT kube_reports.delete_report(:'one', 'polr', 'shop', 'a');
SELECT kube_reports.get_report(:'one', 'policyreports', 'shop', 'a');
SELECT kube_reports.get_report(:'one', 'policyreports.example.com', 'shop', 'a');
SELECT kube_reports.get_report(:'one', 'widgets.example.com', 'shop', 'a');
SELECT kube_reports.unregister('cpolr');
SELECT kube_reports.set_summaries('report');
SELECT kube_reports.set_results_mapping('admr', '{}');

-- Options that are none.
SELECT kube_reports.set_aggregation(:'one', policy_reports => 'foo');
SELECT kube_reports.set_aggregation(:'one', "group" => 'example.com');
SELECT kube_reports.set_aggregation(:'one', delay => '-1 second');
SELECT kube_reports.set_aggregation(:'one', chunk_size => 0);

-- What a change of the aggregation deletes is told, before and when it is done; a dry run changes nothing.
SELECT kube_reports.create_report(:'one', jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
		'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', name, 'namespace', 'shop', 'labels', l.labels))
		::kube_reports.report) IS NOT NULL AS created
	FROM unnest('{a,b,pol-c}'::text[]) name, (SELECT '{"app.kubernetes.io/managed-by": "kyverno"}'::jsonb) l(labels);
SELECT policy_reports, "group" FROM kube_reports.set_aggregation(:'one', policy_reports => 'policy', dry_run => true);
SELECT count(*) FROM kube_reports_internal.aggregation;
SELECT policy_reports, "group" FROM kube_reports.set_aggregation(:'one', policy_reports => 'resource');
SELECT policy_reports, "group" FROM kube_reports.set_aggregation(:'one', "group" => 'openreports.io', dry_run => true);
SELECT policy_reports, "group" FROM kube_reports.set_aggregation(:'one', delay => '20 seconds', dry_run => true);
SELECT policy_reports, "group", delay FROM kube_reports_internal.aggregation;
SELECT policy_reports, "group" FROM kube_reports.set_aggregation(:'one', "group" => 'openreports.io');
-- They go, as it was told.
CREATE PROCEDURE pg_temp.aggregate_all(cluster uuid) LANGUAGE plpgsql AS $$
BEGIN
	WHILE kube_reports.aggregate(cluster, true) LOOP
		COMMIT;
	END LOOP;
END
$$;
CALL pg_temp.aggregate_all(:'one');
SELECT count(*) FROM kube_reports.object;

-- A webhook's name that is taken.
SELECT kube_reports.add_webhook('chat', :'one', 'https://chat.example/hook');
SELECT kube_reports.add_webhook('chat', :'one', 'https://chat.example/other');
SELECT name, url FROM kube_reports.webhook_state;

-- A role that may not serve a cluster, bound to none and to another one.
CREATE ROLE regress_messages;
GRANT regress_messages TO CURRENT_USER;
GRANT USAGE ON SCHEMA kube_reports, kube_reports_internal TO regress_messages;
GRANT SELECT ON kube_reports_internal.caller TO regress_messages;
GRANT EXECUTE ON FUNCTION kube_reports_internal.this_caller, kube_reports_internal.api_hello,
	kube_reports_internal.api_export,
	kube_reports_internal.api_namespace TO regress_messages;
SET ROLE regress_messages;
SELECT kube_reports_internal.api_hello(:'one', '');
SELECT kube_reports_internal.api_export(:'one', '{}', NULL);
SELECT * FROM kube_reports_internal.api_namespace(:'one', 'shop', 'a', 'b', false);
RESET ROLE;
SELECT kube_reports.grant_proxy('regress_messages', :'none');
SET ROLE regress_messages;
SELECT kube_reports_internal.api_hello(:'one', '');
-- An export that is refused says what there is.
SELECT code, convert_from(body, 'UTF8')::jsonb->>'message' AS message
	FROM kube_reports_internal.api_export(:'none', '{"what": "results", "filter": {"policiy": "a"}}', NULL);
SELECT code, convert_from(body, 'UTF8')::jsonb->>'message' AS message
	FROM kube_reports_internal.api_export(:'none', '{"what": "results", "filter": {"status": "failed"}}', NULL);
RESET ROLE;
DROP OWNED BY regress_messages;
DROP ROLE regress_messages;

-- A setting that there is not, and values that a setting cannot have.
SELECT kube_reports.setting('bogus');
SELECT kube_reports.set_setting('bogus', '1');
SELECT kube_reports.setting(NULL);
SELECT kube_reports.set_setting('log_retention', 'an hour');
SELECT kube_reports.set_setting('log_retention', '-1 minute');
SELECT kube_reports.set_setting('history_retention', '100000000 years');
SELECT kube_reports.set_setting('settle_window', '2 days');
SELECT kube_reports.set_setting('log_bytes', '1GB');
SELECT kube_reports.set_setting('log_bytes', '99999999999999999999');
SELECT kube_reports.set_setting('text_search', 'maybe');
SELECT k.name, kube_reports.setting(k.name) IS NOT NULL AS known
	FROM kube_reports_internal.known_settings() k ORDER BY 1;
SELECT kube_reports.set_setting('log_retention', '90 minutes');
SELECT kube_reports.setting('log_retention');
SELECT kube_reports.set_setting('log_retention', NULL);
SELECT kube_reports.setting('log_retention');

-- What commits by itself, where it cannot.
CREATE FUNCTION pg_temp.unregister() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	CALL kube_reports.unregister_cluster('00000000-0000-0000-0000-000000000001');
END
$$;
SELECT pg_temp.unregister();
BEGIN;
CALL kube_reports.unregister_cluster(:'one');
ROLLBACK;
BEGIN;
CALL kube_reports.rebuild();
ROLLBACK;
BEGIN;
CALL kube_reports.expire();
ROLLBACK;
CALL kube_reports.rebuild();
CALL kube_reports.expire();
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT kube_reports.lock_writes();
ROLLBACK;

-- The mark of a cluster that goes is no switch.
UPDATE kube_reports.cluster SET removing = true WHERE uid = :'one';
UPDATE kube_reports.cluster SET name = 'there' WHERE uid = :'one' RETURNING name, removing;

-- Times that no month of history has.
SELECT kube_reports.make_history('infinity');
SELECT kube_reports.make_history('-infinity');
SELECT kube_reports.make_history(NULL);
SELECT kube_reports.make_history('0044-03-15 BC');
SELECT kube_reports.make_history('10000-01-01');

-- Roles that are not there, and days that no score has.
SELECT kube_reports.grant_proxy('', :'one');
SELECT kube_reports.grant_proxy(NULL, :'one');
SELECT kube_reports.grant_admin('regress_nobody');
SELECT count(*) FROM kube_reports.compliance_score('5874897-01-01', '5874897-12-31');
SELECT count(*) FROM kube_reports.framework_score('5874897-01-01', '5874897-12-31');

-- Documents that are no reports, and an answer without rows.
SELECT kube_reports.create_report(:'one', '{}');
SELECT kube_reports.create_report(:'one', '{"apiVersion": "wgpolicyk8s.io/v1alpha2"}');
SELECT kube_reports.create_report(:'one', NULL);
SELECT * FROM kube_reports.top('policy', -1);
