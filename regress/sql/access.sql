-- Who sees what: every view and function that readers have, and attacks on them.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
\set two '00000000-0000-0000-0000-000000000002'
SELECT current_user AS owner \gset
SELECT kube_reports.register_cluster(:'one', 'one') AS one_id,
	kube_reports.register_cluster(:'two', 'hidden-two') AS two_id \gset
CREATE ROLE regress_all LOGIN;
CREATE ROLE regress_team LOGIN;
CREATE ROLE regress_member LOGIN IN ROLE regress_team;
CREATE ROLE regress_switcher LOGIN NOINHERIT IN ROLE regress_team;
CREATE ROLE regress_cluster LOGIN;
CREATE ROLE regress_scope LOGIN;
CREATE ROLE regress_stranger LOGIN;

-- Every word of what the team must not see holds "hidden": another namespace, a report of cluster scope, another
-- cluster.
CREATE FUNCTION pg_temp.write(cluster uuid, kind text, namespace text, word text, result text) RETURNS void
	LANGUAGE sql AS $$
	SELECT kube_reports.create_report(cluster,
		jsonb_strip_nulls(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', kind,
		'metadata', jsonb_build_object('name', word || '-report', 'namespace', namespace), 'scope',
			jsonb_build_object('apiVersion', 'v1', 'kind', 'Pod', 'name', word || '-pod', 'uid', word || '-uid'),
		'results', jsonb_build_array(
			jsonb_build_object('source', word || '-source', 'policy', word || '-policy', 'rule', 'r1', 'category',
				word || '-category', 'severity', 'high', 'result', result, 'message', word || '-message',
				'properties', jsonb_build_object('score', '9.1', 'exceptions', word || '-exception',
					'artifact.repository', word || '-image')),
			jsonb_build_object('source', word || '-source', 'policy', word || '-policy', 'rule', 'r2', 'result',
				'pass'))))::kube_reports.report)
$$;
DO $$
BEGIN
	PERFORM kube_reports.register_crd(jsonb_build_object('apiVersion', 'apiextensions.k8s.io/v1', 'kind',
		'CustomResourceDefinition', 'metadata', jsonb_build_object('name', lower(k) || 's.compliance.openshift.io'),
		'spec', jsonb_build_object('group', 'compliance.openshift.io', 'scope', 'Namespaced', 'names',
			jsonb_build_object('kind', k, 'plural', lower(k) || 's', 'singular', lower(k), 'listKind', k || 'List'),
			'versions', '[{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": '
				'{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]'::jsonb)))
		FROM unnest('{ComplianceRemediation,ComplianceCheckResult}'::text[]) k;
END
$$;
SELECT kube_reports.set_setting('settle_window', '0');
SELECT pg_temp.write(:'one', 'PolicyReport', 'team-a', 'shown', 'fail'),
	pg_temp.write(:'one', 'PolicyReport', 'team-b', 'hidden', 'fail'),
	pg_temp.write(:'one', 'ClusterPolicyReport', NULL, 'hidden', 'fail'),
		pg_temp.write(:'two', 'PolicyReport', 'team-a', 'hidden', 'pass');
SELECT kube_reports.create_report(:'one', format('{"apiVersion": "compliance.openshift.io/v1alpha1", "kind": '
	'"ComplianceRemediation", "metadata": {"name": "%s-remediation", "namespace": "%s"}, "spec": {"apply": true}}', w,
	n)::kube_reports.report) IS NOT NULL AS created
	FROM (VALUES ('shown', 'team-a'), ('hidden', 'team-b')) v(w, n);
SELECT kube_reports.create_report(:'one', format('{"apiVersion": "compliance.openshift.io/v1alpha1",
	"kind": "ComplianceCheckResult", "metadata": {"name": "%s-remediation", "namespace": "%s",
		"labels": {"compliance.openshift.io/automated-remediation": "",
			"compliance.openshift.io/scan-name": "%1$s-scan"}},
	"description": "%1$s-message", "status": "FAIL"}', w, n)::kube_reports.report) IS NOT NULL AS created
	FROM (VALUES ('shown', 'team-a'), ('hidden', 'team-b')) v(w, n);
SELECT kube_reports_internal.fold_rollups();
-- History, and counts that are not folded.
DO $$
BEGIN
	FOR step IN 1..4 LOOP
		PERFORM kube_reports.patch_report('00000000-0000-0000-0000-000000000001', 'policyreports.wgpolicyk8s.io', v.n,
			v.w || '-report', jsonb_build_object('results', jsonb_build_array(
				jsonb_build_object('source', v.w || '-source', 'policy', v.w || '-policy', 'rule', 'r1', 'category',
					v.w || '-category', 'severity', 'high', 'result', CASE WHEN step % 2 = 0 THEN 'fail'
					ELSE 'pass' END, 'message', v.w || '-message',
					'properties', jsonb_build_object('score', '9.1', 'exceptions', v.w || '-exception',
						'artifact.repository', v.w || '-image')))))
			FROM (VALUES ('shown', 'team-a'), ('hidden', 'team-b')) v(w, n);
	END LOOP;
END
$$;
INSERT INTO kube_reports.framework_control (framework, control, policy)
	VALUES ('f', 'c1', 'shown-policy'), ('f', 'c2', 'hidden-policy');
-- As upkeep does a minute later; without it the queries of readers below are compiled for minutes.
DO $$ BEGIN WHILE kube_reports_internal.analyze_step() LOOP COMMIT; END LOOP; END $$;

SELECT kube_reports.grant_reader('regress_all'), kube_reports.grant_namespace('regress_team', :'one', 'team-a'),
	kube_reports.grant_cluster('regress_cluster', :'two'),
	kube_reports.grant_namespace('regress_scope', :'one', '');
-- Wrong grants.
SELECT kube_reports.grant_namespace('regress_missing', :'one', 'team-a');
SELECT kube_reports.grant_namespace('regress_team', '00000000-0000-0000-0000-00000000000f', 'team-a');
SELECT kube_reports.grant_namespace('regress_team', :'one', NULL);
SELECT kube_reports.grant_cluster('regress_team', NULL);

-- What the current role may use at all: no table, and no function that writes.
CREATE VIEW public.regress_usable AS
	SELECT c.oid, 'view' AS what, c.relname::text AS name, c.relkind::text AS kind, NULL AS volatile FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
			AND (has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
				OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE'))
	UNION ALL
	SELECT p.oid, 'function', p.proname::text, p.prokind::text, p.provolatile::text FROM pg_proc p
		WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND has_function_privilege(p.oid, 'EXECUTE')
			AND NOT coalesce(p.proacl::text LIKE '%{=X%' OR p.proacl::text LIKE '%,=X%', true);
GRANT SELECT ON public.regress_usable TO PUBLIC;
-- How each function is called.  A function that readers get and that is not here makes the test fail.
CREATE TABLE public.regress_call (name text PRIMARY KEY, call text NOT NULL);
GRANT SELECT ON public.regress_call TO PUBLIC;
INSERT INTO public.regress_call VALUES
	('script_version', $$kube_reports_internal.script_version()$$),
	('placed', $$kube_reports_internal.placed()$$),
	('status_name', $$kube_reports_internal.status_name('p')$$),
	('unpacked_changes',
		$$kube_reports_internal.unpacked_changes('{1}', 2, 3, NULL, 'p', NULL, NULL, NULL)$$),
	('excluded_from_score', $$kube_reports_internal.excluded_from_score('MANUAL')$$),
	('severity_weight', $$kube_reports.severity_weight('high')$$),
	('setting', $$kube_reports.setting('history_retention')$$),
	('clusters', $$kube_reports.clusters('!label')$$),
	('labels_match', $$kube_reports_internal.labels_match('{"a": "b"}', 'a=b')$$),
	('filter_clusters', $$kube_reports_internal.filter_clusters('{"cluster_labels": "!label"}')$$),
	('in_clusters', $$kube_reports_internal.in_clusters('{a}', NULL, 'a')$$),
	('is_vulnerability', $$kube_reports_internal.is_vulnerability('CVE-1')$$),
	('total', $$(SELECT kube_reports_internal.total(1)) t$$),
	('string_at', $$kube_reports_internal.string_at('{"a": "b"}', 'a')$$),
	('value_at', $$kube_reports_internal.value_at('{"a": "b"}', 'a')$$),
	('filter_words', $$kube_reports_internal.filter_words('{"a": "b"}', 'a', '{b}')$$),
	('known_word', $$kube_reports_internal.known_word('a', 'b', '{b}')$$),
	('checked_range', $$kube_reports_internal.checked_range('a', 1, 'b', 2)$$),
	('checked_count', $$kube_reports_internal.checked_count('a', 1)$$),
	('checked_cluster', $$kube_reports.clusters() c, kube_reports_internal.checked_cluster(c) k$$),
	('days_shown', $$kube_reports_internal.days_shown(NULL, NULL)$$),
	('checked_filter', $$kube_reports_internal.checked_filter('{"a": "b"}', '{a}', 'the filter has', 'It has a.')$$),
	('status_words', $$kube_reports_internal.status_words()$$),
	('severity_words', $$kube_reports_internal.severity_words()$$),
	('check_rows', $$kube_reports_internal.check_rows(1)$$),
	('warn_pending', $$kube_reports_internal.warn_pending()$$),
	('results', $$kube_reports.stored_report s, kube_reports.results(s.document)$$),
	('summary', $$kube_reports.stored_report s, kube_reports.summary(s.document)$$),
	('filter_strings', $$kube_reports_internal.filter_strings('{"a": "b"}', 'a')$$),
	('find_results', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_results(c.role, c.seal, '{}', 100, NULL)$$),
	('find_resources', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_resources(c.role, c.seal, '{}', 100, NULL)$$),
	('find_reports', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_reports(c.role, c.seal, '{}', 100, NULL)$$),
	('find_exported', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_exported(c.role, c.seal, '{}', NULL)$$),
	('find_events', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_events(c.role, c.seal, '{}', NULL, NULL)$$),
	('export_results', $$kube_reports.export_results()$$),
	('export_events', $$kube_reports.export_events()$$),
	('search_results', $$kube_reports.search_results()$$),
	('search_resources', $$kube_reports.search_resources()$$),
	('reports_with_score', $$kube_reports.reports_with_score(8.0)$$),
	('top', $$unnest(ARRAY['cluster', 'namespace', 'source', 'category', 'policy', 'rule', 'severity', 'subject_kind',
		'image']) d, LATERAL kube_reports.top(d)$$),
	('results_of_resource', $$kube_reports.results_of_resource('00000000-0000-0000-0000-000000000001', 'Pod',
		'team-b', 'hidden-pod')$$),
	('cve', $$kube_reports.cve('hidden-policy')$$),
	('fleet_drift', $$(SELECT d.* FROM kube_reports.clusters() a, kube_reports.clusters() b,
		LATERAL kube_reports.fleet_drift(a, b) d) d$$),
	('new_failures', $$kube_reports.new_failures('-infinity')$$),
	('transitions', $$kube_reports.transitions('-infinity', 'infinity')$$),
	('fix_time', $$kube_reports.fix_time('-infinity', 'infinity')$$),
	('flapping', $$kube_reports.flapping('-infinity', 'infinity')$$),
	('status_at', $$kube_reports.status_at(clock_timestamp())$$),
	('compliance_score', $$kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date,
		(now() AT TIME ZONE 'UTC')::date, true)$$),
	('framework_score', $$kube_reports.framework_score((now() AT TIME ZONE 'UTC')::date,
		(now() AT TIME ZONE 'UTC')::date)$$),
	('fleet_score', $$kube_reports.fleet_score((now() AT TIME ZONE 'UTC')::date, (now() AT TIME ZONE 'UTC')::date)$$),
	('find_vulnerabilities', $$kube_reports_internal.caller c,
		LATERAL kube_reports_internal.find_vulnerabilities(c.role, c.seal, '{}', 10)$$),
	('worst_vulnerabilities', $$kube_reports.worst_vulnerabilities()$$),
	('dashboard', $$kube_reports.dashboard()$$),
	('dashboard_failing', $$kube_reports_internal.dashboard_failing(NULL, NULL, NULL, '{}')$$),
	('dashboard_history', $$kube_reports_internal.dashboard_history((now() AT TIME ZONE 'UTC')::date,
		(now() AT TIME ZONE 'UTC')::date, NULL, NULL, NULL, '{}')$$),
	('dashboard_ages', $$kube_reports_internal.dashboard_ages((now() AT TIME ZONE 'UTC')::date, NULL, NULL, NULL)$$),
	('dashboard_html', $$kube_reports.dashboard_html()$$),
	('html_text', $$kube_reports_internal.html_text('<')$$),
	('html_number', $$kube_reports_internal.html_number(1)$$),
	('html_counted', $$kube_reports_internal.html_counted(1, 'a', 'b')$$),
	('html_value', $$kube_reports_internal.html_value(1, true)$$),
	('html_age', $$kube_reports_internal.html_age('1 day')$$),
	('html_namespace', $$kube_reports_internal.html_namespace('a', 'b', 'c', 2)$$),
	('html_rows', $$kube_reports_internal.html_rows(NULL, 'none', 0)$$),
	('chart_top', $$kube_reports_internal.chart_top(1)$$),
	('chart_path', $$kube_reports_internal.chart_path('{0,1}', NULL, 0, 1)$$),
	('chart_trend', $$kube_reports_internal.chart_trend('a', 'b', 'c', '{2026-01-01}',
		'[{"name": "a", "class": "b", "values": [1]}]', 0, 1, true, true)$$),
	('chart_spark', $$kube_reports_internal.chart_spark('a', '{0,1}')$$),
	('chart_bar', $$kube_reports_internal.chart_bar('a', '[0, 1, 0, 0, 0]', 1)$$),
	('chart_ring', $$kube_reports_internal.chart_ring('a', 0.5)$$),
	('dashboard_style', $$kube_reports_internal.dashboard_style()$$),
	('dashboard_tiles', $$kube_reports_internal.dashboard_tiles('{}')$$),
	('dashboard_trends', $$kube_reports.dashboard() d, kube_reports_internal.dashboard_trends(d)$$),
	('dashboard_clusters', $$kube_reports_internal.dashboard_clusters('{}')$$),
	('dashboard_lists', $$kube_reports_internal.dashboard_lists('{}')$$),
	('dashboard_page', $$kube_reports_internal.dashboard_page('{}')$$),
	('html_page', $$kube_reports_internal.html_page('h', 's', 'h', 'm', 'f')$$),
	('fleet_numbers', $$kube_reports_internal.fleet_numbers('{}', NULL, NULL)$$),
	('fleet_clusters', $$kube_reports_internal.fleet_clusters('{}')$$),
	('fleet_table', $$kube_reports_internal.fleet_table('{}')$$),
	('fleet_html', $$kube_reports.fleet_html()$$);
CREATE FUNCTION public.regress_look(OUT object text, OUT hidden boolean, OUT shown boolean) RETURNS SETOF record
	LANGUAGE plpgsql AS $$
DECLARE
	target record;
	rows text;
BEGIN
	FOR target IN SELECT u.what, u.name, CASE u.what WHEN 'view' THEN u.oid::regclass::text ELSE c.call END AS source
		FROM public.regress_usable u LEFT JOIN public.regress_call c ON u.what = 'function' AND c.name = u.name
			ORDER BY u.what DESC, u.name COLLATE "C" LOOP
		IF target.source IS NULL THEN
			RAISE EXCEPTION 'no call of % in this test', target.name;
		END IF;
		EXECUTE format('SELECT string_agg(t::text, '' '') FROM (SELECT * FROM %s) t', target.source) INTO rows;
		object := target.name;
		-- Or by number: cluster two, or the team's neighbours.
		hidden := coalesce(rows ~ 'hidden-|team-b|00000000002', false);
		shown := coalesce(rows ~ 'shown|team-a', false);
		RETURN NEXT;
	END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION public.regress_look() TO PUBLIC;

\c - regress_all
SELECT current_user AS is, u.what, u.kind, u.volatile, count(*) > 0 AS some FROM regress_usable u
	GROUP BY 2, 3, 4 ORDER BY 2, 3, 4;
-- Every view and function shows what is hidden from the others, or it would prove nothing.
SELECT * FROM regress_look();

\c - regress_team
SELECT u.what, u.kind, u.volatile FROM regress_usable u GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT l.object, l.hidden FROM regress_look() l WHERE l.hidden;
SELECT count(*) AS sees_own FROM regress_look() l WHERE l.shown;
SELECT status, count FROM kube_reports.result_count ORDER BY 1;
SELECT day = (now() AT TIME ZONE 'UTC')::date AS today, namespace, pass, fail, score
	FROM kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date);
SELECT reports FROM kube_reports.fleet_freshness;

-- A cluster of others is as unknown as one that is not there.
SELECT kube_reports.fleet_drift('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002');
SELECT kube_reports.fleet_drift('00000000-0000-0000-0000-00000000000f', '00000000-0000-0000-0000-000000000001');
SELECT kube_reports.new_failures('-infinity', '00000000-0000-0000-0000-000000000002');
SELECT count(*) FROM kube_reports.results_of_resource('00000000-0000-0000-0000-000000000002', 'Pod', 'a', 'b');
SELECT count(*) > 0 AS own FROM kube_reports.new_failures('-infinity', '00000000-0000-0000-0000-000000000001');

-- Predicates that tell what they see, errors, plans.
CREATE FUNCTION pg_temp.leak(t text) RETURNS boolean
	LANGUAGE plpgsql COST 0.0000001 AS $$BEGIN IF t ~ 'hidden|team-b' THEN RAISE WARNING 'leaked %',
	t; END IF; RETURN true; END$$;
SELECT count(*) > 0 AS some FROM kube_reports.typed_result r WHERE pg_temp.leak(r.policy) AND pg_temp.leak(r.message)
	AND pg_temp.leak(r.namespace) AND pg_temp.leak(r.report);
SELECT count(*) > 0 AS some FROM kube_reports.result_count r WHERE pg_temp.leak(r.policy);
SELECT count(*) > 0 AS some FROM kube_reports.result_event r WHERE pg_temp.leak(r.policy);
SELECT count(*) > 0 AS some FROM kube_reports.result_interval r WHERE pg_temp.leak(r.policy);
SELECT count(*) > 0 AS some FROM kube_reports.stored_report r WHERE pg_temp.leak(r.name);
SELECT count(*) > 0 AS some FROM kube_reports.remediations r WHERE pg_temp.leak(r.remediation);
SELECT count(*) > 0 AS some FROM kube_reports.remediable_failures r WHERE pg_temp.leak(r.check_result)
	AND pg_temp.leak(r.remediations[1]);
SELECT count(*) > 0 AS some FROM kube_reports.exceptions r WHERE pg_temp.leak(r.exception);
SELECT count(*) > 0 AS some FROM kube_reports_internal.caller c, LATERAL kube_reports.search_results() r
	WHERE pg_temp.leak(r.policy);
SELECT count(*) FROM kube_reports.typed_result r WHERE 1 / (r.policy <> 'hidden-policy')::integer > 0;
SELECT count(*) FROM kube_reports.typed_result r WHERE r.message::integer = 1;
CREATE FUNCTION pg_temp.plan(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE line text; found boolean := false;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, VERBOSE, COSTS off, TIMING off) ' || query LOOP found := found
		OR line ~ 'hidden|team-b'; END LOOP;
	RETURN found;
END$$;
SELECT pg_temp.plan('SELECT * FROM kube_reports.typed_result') AS in_plan,
	pg_temp.plan('SELECT * FROM kube_reports.search_results()') AS in_plan_of_search;

-- A document that nothing can be made of, where the team does not see it, and where all do.
\c - :owner
SELECT kube_reports.create_report(:'one', '{"apiVersion": "compliance.openshift.io/v1alpha1",
	"kind": "ComplianceRemediation", "metadata": {"name": "hidden-odd", "namespace": "team-b"},
	"spec": {"apply": "notabool", "current": {"object": {"kind": "hidden-kind\u0000",
		"password": "hidden-value\u0000"}}}}') IS NOT NULL AS created;
\c - regress_team
SELECT remediation FROM kube_reports.remediations WHERE wanted;
SELECT remediation FROM kube_reports.remediations WHERE outdated OR state = 'x' OR object_kind = 'x';
\c - regress_all
SELECT remediation, wanted, length(object_kind) FROM kube_reports.remediations ORDER BY 1;
\c - regress_team

-- Without end, or without anything.
SELECT count(*) FROM kube_reports.compliance_score('-infinity', 'infinity');
SELECT count(*) FROM kube_reports.framework_score('-infinity', 'infinity');
SELECT count(*) FROM kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date,
	(now() AT TIME ZONE 'UTC')::date + 10);
SELECT count(*) FROM kube_reports.search_results('{}', NULL);
SELECT count(*) FROM kube_reports.search_resources(NULL, NULL);
SELECT count(*) FROM kube_reports.reports_with_score(9.9, NULL);
SELECT count(*) FROM kube_reports.reports_with_score(9.0, NULL);
SELECT count(*) FROM kube_reports.reports_with_score(NULL);
SELECT count(*) FROM kube_reports.top(NULL);
SELECT count(*) FROM kube_reports.top('policy', -1);
SELECT count(*) FROM kube_reports.top('policy', 10, '[]');
SELECT count(*) FROM kube_reports.top('policy', 10, '{"status": "bogus"}');
SELECT * FROM kube_reports.results('{}');
SELECT s.name, r.rule, r.status FROM kube_reports.stored_report s, kube_reports.results(s.document) r
	WHERE s.resource = 'policyreports' ORDER BY 1, 2;
SELECT s.name, r.* FROM kube_reports.stored_report s, kube_reports.summary(s.document) r
	WHERE s.resource = 'policyreports';
SHOW statement_timeout;

-- A seal that was kept.
SELECT role, seal FROM kube_reports_internal.caller \gset
SELECT count(*) > 0 AS found FROM kube_reports_internal.find_results(:'role', :'seal', '{}', 100, NULL);
BEGIN;
SELECT role, seal FROM kube_reports_internal.caller \gset
SELECT count(*) > 0 AS found FROM kube_reports_internal.find_results(:'role', :'seal', '{}', 100, NULL);
COMMIT;

-- Another's seal, no seal, another's grants.
SELECT count(*) FROM kube_reports_internal.caller c,
	LATERAL kube_reports_internal.find_results('regress_all', c.seal, '{}', 100, NULL);
SELECT count(*) FROM kube_reports_internal.find_results('regress_all', NULL, '{}', 100, NULL);
SELECT count(*) FROM kube_reports_internal.find_resources(NULL, NULL, '{}', 100, NULL);
SELECT count(*) FROM kube_reports_internal.find_reports('regress_all', '\x00', '{}', 100, NULL);
SELECT secret FROM kube_reports_internal.caller_secret;
SELECT count(*) FROM kube_reports_internal.reader_grant;
SELECT count(*) FROM kube_reports_internal.visible_result;
SELECT kube_reports.grant_reader('regress_team');
SELECT kube_reports_internal.add_reader('regress_team', NULL, NULL);
SELECT kube_reports_internal.caller_scope('regress_all', NULL);

-- Text that wants to be SQL: in every member of a filter, and every text argument.
SELECT m, (SELECT count(*) FROM kube_reports.search_results(jsonb_build_object(m, a))) AS results,
	(SELECT count(*) FROM kube_reports.search_resources(jsonb_build_object(m, a))) AS resources
	FROM unnest('{cluster,namespace,report,source,policy,rule,category,native_status,subject_kind,subject_namespace,
			subject_name,subject_uid,exception,text}'::text[]) m,
		(VALUES ('x'' OR true) --')) v(a);
SELECT count(*) FROM kube_reports.search_results('{"severity": "high'' OR true --"}');
SELECT count(*) FROM kube_reports.search_results('{"status": "fail'' OR true --"}');
SELECT count(*) FROM kube_reports.search_results('{"since_from": "now()) OR (true"}');
SELECT count(*) FROM kube_reports.search_results('{"score_from": "0) OR (true"}');
SELECT count(*) FROM kube_reports.search_results('{"properties": {"a'') OR true --": "b"}}');
SELECT count(*) FROM kube_reports.search_results('{"x'' OR true --": "b"}');
SELECT count(*) FROM kube_reports.search_results('{}', 100, '[0, "p", 0, ""); DROP TABLE x; --", 0, 0]');
SELECT count(*) FROM kube_reports.search_results('{}', 100, 'x'' OR true --');
SELECT count(*) FROM kube_reports.search_results('{}', 100, '[1, 2]');
SELECT count(*) FROM kube_reports.search_resources('{}', 100, '["1; DROP TABLE x", 2]');
SELECT count(*) FROM kube_reports.search_results('{}', 0);
SELECT count(*) FROM kube_reports.search_results('[]');
SELECT count(*) FROM kube_reports.search_results('{"policy": {"a": 1}}');
SELECT count(*) FROM kube_reports.top('policy"; --');
SELECT count(*) FROM kube_reports.top('policy', 10, '{"text": "x"}');
SELECT kube_reports.dashboard('{"policy": "x"}');
SELECT kube_reports.dashboard('[]');
SELECT kube_reports.dashboard('{}', '2026-02-01', '2026-01-01');
SELECT kube_reports.dashboard('{}', '-infinity', '2026-01-01')->'from_day' AS first_day,
	(kube_reports.dashboard('{}', '-infinity')->>'from_day')::date = (now() AT TIME ZONE 'UTC')::date AS from_the_first,
	kube_reports.dashboard('{}', '-infinity', 'infinity')->>'to_day' = kube_reports.dashboard()->>'to_day' AS to_today,
	kube_reports.dashboard_html('{}', '-infinity') IS NOT NULL
		AND kube_reports.fleet_html('{}', '-infinity') IS NOT NULL AS pages;
SELECT kube_reports.dashboard(
	'{"cluster": "x'' OR true --", "namespace": "x'' OR true --", "source": "x'' OR true --"}')->'top_policies' AS
	policies;
SELECT count(*) FROM kube_reports.cve('x'' OR true --');
SELECT count(*) FROM kube_reports.transitions('-infinity', 'infinity', ''' OR true --', '');
-- Asked for by name, text, properties and score, it is not there either.
SELECT f, (SELECT count(*) FROM kube_reports.search_results(f)) AS results,
	(SELECT count(*) FROM kube_reports.search_resources(f)) AS resources,
	(SELECT count(*) FROM kube_reports.reports_with_score(0, f)) AS reports
	FROM unnest(ARRAY['{"text": "hidden"}', '{"policy": "hidden-policy"}', '{"namespace": ["team-b", ""]}',
		'{"cluster": "hidden-two"}', '{"exception": "hidden-exception"}', '{"subject_uid": "hidden-uid"}',
		'{"properties": {"artifact.repository": "hidden-image"}}', '{"report": "hidden-report"}']::jsonb[]) f;

-- A temporary schema in front of what is looked up.
CREATE TEMP TABLE result AS SELECT 'hidden' AS namespace;
CREATE TEMP TABLE reader_grant AS SELECT 'regress_team' AS role, NULL::integer AS cluster_id, NULL::text AS namespace;
CREATE FUNCTION pg_temp.pg_has_role(oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS $$SELECT '\x00'::bytea$$;
CREATE FUNCTION pg_temp.eq(integer, integer[]) RETURNS boolean LANGUAGE sql AS 'SELECT true';
SET search_path = pg_temp, pg_catalog, public;
SELECT l.object FROM public.regress_look() l WHERE l.hidden;
RESET search_path;

-- No way to a write.
INSERT INTO kube_reports.typed_result (policy) VALUES ('x');
UPDATE kube_reports.stored_report SET name = 'x';
DELETE FROM kube_reports_internal.caller;
DELETE FROM kube_reports.fleet_freshness;
INSERT INTO kube_reports.framework_control VALUES ('f', 'c', '', 'p', '');
UPDATE kube_reports_internal.reader_grant SET namespace = NULL;
SELECT kube_reports_internal.fold_rollups();
CREATE TABLE kube_reports.mine (a integer);
BEGIN READ ONLY;
SELECT count(*) > 0 AS read_only FROM regress_look();
COMMIT;

-- Members see what they inherit; those who do not, after SET ROLE.
\c - regress_member
SELECT count(*) FILTER (WHERE l.hidden) AS hidden, count(*) FILTER (WHERE l.shown) AS shown FROM regress_look() l;
\c - regress_switcher
SELECT count(*) FROM kube_reports.typed_result;
SET ROLE regress_team;
SELECT count(*) FILTER (WHERE l.hidden) AS hidden, count(*) FILTER (WHERE l.shown) AS shown FROM regress_look() l;
SET ROLE regress_all;
RESET ROLE;
-- Whoever is powerful sees no more through the eyes of the weak, and who calls a function of the powerful no less than
-- its owner.
\c - :owner
GRANT regress_team, regress_all TO CURRENT_USER;
SELECT count(*) > 0 AS shown, bool_or(r.policy ~ 'hidden') AS hidden FROM kube_reports.search_results() r;
SET ROLE regress_team;
SELECT count(*) > 0 AS shown, bool_or(r.policy ~ 'hidden') AS hidden FROM kube_reports.search_results() r;
SELECT count(*) > 0 AS shown, bool_or(r.policy ~ 'hidden') AS hidden FROM kube_reports.typed_result r;
CREATE FUNCTION pg_temp.trap() RETURNS TABLE (shown boolean, hidden boolean) LANGUAGE sql SECURITY DEFINER AS
	$$SELECT count(*) > 0, bool_or(r.policy ~ 'hidden') FROM kube_reports.search_results() r$$;
RESET ROLE;
SELECT * FROM pg_temp.trap();

\c - regress_cluster
SELECT DISTINCT cluster_name, policy FROM kube_reports.typed_result;
SELECT DISTINCT cluster_name, policy FROM kube_reports.search_results();
SELECT namespace, pass, fail FROM kube_reports.compliance_score((now() AT TIME ZONE 'UTC')::date,
	(now() AT TIME ZONE 'UTC')::date);
\c - regress_scope
SELECT DISTINCT report_resource, namespace FROM kube_reports.typed_result;
SELECT DISTINCT report_resource, namespace FROM kube_reports.search_results();
\c - regress_stranger
SELECT count(*) FROM kube_reports.typed_result;
SELECT count(*) FROM kube_reports.search_results();

-- What was granted is taken back.
\c - :owner
SELECT kube_reports.grant_namespace('regress_team', :'one', 'team-b');
SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'regress_team'::regrole;
SELECT kube_reports.revoke_reader('regress_team', :'one', 'team-c');
SELECT kube_reports.revoke_reader('regress_team', :'one', 'team-a');
SET ROLE regress_team;
SELECT DISTINCT policy FROM kube_reports.search_results();
RESET ROLE;
SELECT kube_reports.revoke_reader('regress_team');
SELECT setconfig FROM pg_db_role_setting WHERE setrole = 'regress_team'::regrole;
SET ROLE regress_team;
SELECT count(*) FROM kube_reports.search_results();
RESET ROLE;
-- Another role under the name of one that was dropped.
SELECT kube_reports.grant_namespace('regress_scope', :'one', 'team-b');
GRANT regress_scope TO CURRENT_USER;
DROP OWNED BY regress_scope;
DROP ROLE regress_scope;
CREATE ROLE regress_scope LOGIN;
GRANT regress_scope TO CURRENT_USER;
GRANT regress_cluster TO regress_scope;
SET ROLE regress_scope;
SELECT DISTINCT cluster_name, namespace FROM kube_reports.search_results();
SELECT DISTINCT cluster_name, namespace FROM kube_reports.result_count;
RESET ROLE;
SELECT kube_reports.grant_namespace('regress_scope', :'one', 'team-a');
SET ROLE regress_scope;
SELECT DISTINCT cluster_name, namespace FROM kube_reports.search_results();
RESET ROLE;
SELECT kube_reports.revoke_reader('regress_all'), kube_reports.revoke_reader('regress_cluster'),
	kube_reports.revoke_reader('regress_scope');
DROP VIEW public.regress_usable;
DROP FUNCTION public.regress_look();
DROP TABLE public.regress_call;
DROP ROLE regress_all, regress_member, regress_switcher, regress_team, regress_cluster, regress_scope, regress_stranger;
