-- Arguments that cannot be meant, in every function for users that takes such arguments: an error that names them,
-- never an empty answer.
\set VERBOSITY terse
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') > 0 AS known;

-- A call of a function with some arguments given, and the others that have no default with something that fits; form:
-- that of the call.
CREATE FUNCTION pg_temp.said(function oid, given jsonb, form text DEFAULT 'SELECT count(*) FROM %s(%s) x') RETURNS text
	LANGUAGE plpgsql AS $$
DECLARE
	p		pg_proc := (SELECT p FROM pg_proc p WHERE p.oid = function);
	call	text;
	hint	text;
BEGIN
	SELECT format(form, p.oid::regproc, string_agg(format('%I => %L::%s', a.name,
			coalesce(given->>a.name, CASE
				WHEN a.name = 'dimension' THEN 'policy' WHEN a.name = 'name' THEN 'w'
				WHEN a.name = 'url' THEN 'https://localhost' WHEN a.type = 'uuid'::regtype
					THEN '00000000-0000-0000-0000-000000000001'
				WHEN a.type = 'double precision'::regtype THEN '8.0' WHEN a.name ~ '^(to|last)_' THEN '2026-06-01'
				WHEN a.name ~ '^(from|first)_' THEN '2026-01-01' END), a.type::text), ', ' ORDER BY a.n))
		INTO call
		FROM (SELECT a.n, p.proargnames[a.n] AS name, a.type::regtype AS type,
				a.n > p.pronargs - p.pronargdefaults AS optional
			FROM unnest(p.proargtypes) WITH ORDINALITY a(type, n)) a
		WHERE NOT a.optional OR given ? a.name;
	EXECUTE call;
	RETURN 'an answer';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM, '(' || nullif(hint, '') || ')');
END
$$;
CREATE TEMP VIEW argument AS
	SELECT p.oid AS function, a.n, p.proargnames[a.n] AS name, a.type::regtype AS type,
		p.proname IN ('register_cluster', 'grant_proxy', 'add_sender') AS registers
	FROM pg_proc p CROSS JOIN unnest(p.proargtypes) WITH ORDINALITY a(type, n)
	WHERE p.pronamespace = 'kube_reports'::regnamespace AND p.prokind = 'f';

-- Periods whose ends are exchanged.
SELECT a.function::regproc, pg_temp.said(a.function, jsonb_build_object(a.name, '2026-02-02', b.name, '2026-01-01'))
	FROM argument a JOIN argument b ON b.function = a.function
		AND (a.name ~ '^from_' AND b.name = replace(a.name, 'from_', 'to_')
			OR a.name ~ '^first_' AND b.name = replace(a.name, 'first_', 'last_'))
	ORDER BY a.function::regproc::text COLLATE "C";
-- A period of one day, one without an end, and one that has not begun are periods.
SELECT bool_and(pg_temp.said(a.function, jsonb_build_object('from_day', f.first, 'to_day', f.last)) = f.said
		OR f.said IS NULL AND pg_temp.said(a.function, jsonb_build_object('from_day', f.first, 'to_day', f.last))
			!~ 'reversed') AS well
	FROM argument a, (VALUES ('2026-01-01', '2026-01-01', 'an answer'), ('-infinity', 'infinity', 'an answer'),
		('2999-01-01', '2999-01-02', NULL)) f(first, last, said)
	WHERE a.name = 'from_day';
SELECT bool_and(pg_temp.said(a.function, jsonb_build_object('from_time', f.first, 'to_time', f.last)) = 'an answer')
	AS well
	FROM argument a, (VALUES ('2026-01-01', '2026-01-01'), ('-infinity', 'infinity'), ('2999-01-01', '2999-01-02'))
		f(first, last)
	WHERE a.name = 'from_time';
SELECT replace(pg_temp.said(a.function, jsonb_build_object(a.name, 'infinity')),
		(now() AT TIME ZONE 'UTC')::date::text, 'today') AS said, count(*) AS functions
	FROM argument a WHERE a.name = 'from_day' GROUP BY 1 ORDER BY 1;
SELECT pg_temp.said(a.function, jsonb_build_object('to_day', '-infinity', 'from_day', '-infinity')),
		string_agg(a.function::regproc::text, ' ' ORDER BY a.function::regproc::text COLLATE "C") AS functions
	FROM argument a WHERE a.name = 'from_day' GROUP BY 1 ORDER BY 1;
-- The same in a select list, where the function is planned without its arguments: also without history, of which the
-- planner knows that it is empty.
SELECT count(*) AS partitions FROM pg_inherits WHERE inhparent = 'kube_reports_internal.report_change'::regclass;
SELECT pg_temp.said(a.function, f.given, 'SELECT %s(%s)'),
		string_agg(a.function::regproc::text, ' ' ORDER BY a.function::regproc::text COLLATE "C") AS functions
	FROM argument a, (VALUES ('to_time', '{"from_time": "2026-02-02", "to_time": "2026-01-01"}'::jsonb),
		('to_day', '{"from_day": "2026-02-02", "to_day": "2026-01-01"}'), ('min_changes', '{"min_changes": 0}'),
		('old', '{"old": "hihg"}'), ('new', '{"new": "hihg"}')) f(name, given)
	WHERE a.name = f.name GROUP BY f.name, 1 ORDER BY f.name, 1;
-- What is checked never becomes a row.
SELECT count(*) AS rows FROM kube_reports.transitions('2026-01-01', 'infinity');
SELECT count(*) AS rows FROM kube_reports.new_failures('2026-01-01', :'one');
-- Members of filters.
SELECT f.filter, pg_temp.said('kube_reports.search_results'::regproc, jsonb_build_object('filter', f.filter))
	FROM (VALUES ('{"score_from": 9, "score_to": 8.5}'::jsonb),
		('{"since_from": "2026-02-02", "since_to": "2026-01-01"}'),
		('{"first_seen_from": "2026-02-02", "first_seen_to": "2026-01-01"}'),
		('{"score_from": 8, "score_to": 8, "since_from": "-infinity", "since_to": "infinity"}')) f(filter);
SELECT pg_temp.said('kube_reports.export_events'::regproc, '{"filter": {"from": "2026-02-02", "to": "2026-01-01"}}');

-- Clusters that are not known: each argument that names a cluster.
SELECT a.function::regproc, a.name, pg_temp.said(a.function,
		'{"type": "policyreports.wgpolicyk8s.io", "namespace": "ns", "labels": {}, "policies": [], "at": "2026-01-01",
			"document": {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
				"metadata": {"name": "w", "namespace": "ns"}}, "since": "2026-01-01", "kind": "Pod",
			"token_sha256": null, "certificate": "none"}'::jsonb
		|| jsonb_build_object('role', 'pg_monitor', a.name, '00000000-0000-0000-0000-00000000000f'),
		'SELECT * FROM %s(%s) x')
	FROM argument a WHERE a.type = 'uuid'::regtype AND NOT a.registers
	ORDER BY a.function::regproc::text COLLATE "C", a.n;
-- These register the cluster.
SELECT string_agg(a.function::regproc::text, ' ' ORDER BY a.function::regproc::text COLLATE "C") AS functions
	FROM argument a WHERE a.registers AND a.n = 1;
-- The procedure says it, and goes on: a second call has nothing to do.
SELECT p.oid::regproc AS procedure FROM pg_proc p WHERE p.pronamespace = 'kube_reports'::regnamespace
	AND p.prokind = 'p' AND 'uuid'::regtype = ANY (p.proargtypes);
SET client_min_messages = notice;
CALL kube_reports.unregister_cluster('00000000-0000-0000-0000-00000000000f');
SET client_min_messages = warning;
-- A cluster that is being removed is known: a grant of it can still be taken back.
\set two '00000000-0000-0000-0000-000000000002'
SELECT kube_reports.register_cluster(:'two', 'two') > 0 AS known;
SELECT kube_reports_internal.mark_cluster(:'two', true) > 0 AS marked;
SELECT kube_reports.revoke_reader('nobody', :'two');
SELECT pg_temp.said('kube_reports.aggregate'::regproc, jsonb_build_object('cluster', :'two')) !~ '^(42704|55006)'
	AS well;
CALL kube_reports.unregister_cluster(:'two');

-- Names that no namespace can have: no role sees something by a grant of one.
SELECT n.namespace, pg_temp.said('kube_reports.grant_namespace'::regproc, jsonb_build_object('namespace', n.namespace,
		'role', 'nobody'))
	FROM unnest(ARRAY['Prod', 'a.b', 'a_b', '-a', 'a-', 'a b', E'a\n', '*', repeat('a', 64)]) n(namespace);
-- The role comes after it.
SELECT n.namespace, pg_temp.said('kube_reports.grant_namespace'::regproc, jsonb_build_object('namespace', n.namespace,
		'role', 'nobody'))
	FROM unnest(ARRAY['', 'a', '0', 'a--b', repeat('a', 63)]) n(namespace);
-- Other functions take the names of reports that exist, or write none.
SELECT a.function::regproc, substring(pg_temp.said(a.function, '{"type": "policyreports.wgpolicyk8s.io",
		"namespace": "Prod", "document": {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
			"metadata": {"name": "w", "namespace": "Prod"}}, "patch": {}, "kind": "Pod", "field_selector": ""}'::jsonb
		|| jsonb_build_object('at', now(), 'role', 'nobody')) from '^[[:upper:]0-9]{5}|^an answer$') AS said
	FROM argument a WHERE a.name = 'namespace' AND a.function <> 'kube_reports.grant_namespace'::regproc
		OR a.name = 'document' AND a.function::regproc::text ~ '(create|replace|import)_report$'
	ORDER BY a.function::regproc::text COLLATE "C";

-- URLs that cannot be.
SELECT u.url, kube_reports_internal.is_https_url('https://' || u.url || p.path) AS can_be
	FROM unnest(ARRAY['a:99999', 'a:0', 'a:', 'a:1x', 'a:-1', '', ':443', '[::1', '::1', '[::1]443', '[::g]', '[]',
		'[1.2.3.4]', 'a..b', '-a', 'a-', '.', repeat('x', 64), '1.2.3', '1.2.3.256', 'a b', 'u@a', '[::1/64]',
		'a', 'a:1', 'a:65535', 'a.example.', 'a_b.example', 'xn--a.example', '1.2.3.4', '1.2.3.255:443', '[::1]',
		'[2001:db8::1.2.3.4]:443', '1a', repeat('x', 63)]) WITH ORDINALITY u(url, n),
		(VALUES (''), ('/path?query=1'), ('?query')) p(path)
	GROUP BY u.url, u.n, 2 ORDER BY u.n, 2;
SELECT pg_temp.said('kube_reports.add_webhook'::regproc, jsonb_build_object('url', u.url))
	FROM unnest(ARRAY['https://a:99999', 'https://[::1', 'http://a', 'https://a:443']) u(url);
SELECT kube_reports.remove_webhook('w', :'one');

-- Numbers of things.
SELECT a.function::regproc, a.name, pg_temp.said(a.function, jsonb_build_object(a.name, n.value))
	FROM argument a CROSS JOIN unnest(ARRAY[-3, 0]) n(value)
	WHERE a.type = 'integer'::regtype
	ORDER BY a.function::regproc::text COLLATE "C", a.name, n.value;
SELECT kube_reports.add_sender(:'one', 'w', repeat('a', 64)) IS NULL AS known;
SELECT a.function::regproc, a.name, pg_temp.said(a.function, jsonb_build_object(a.name, '-1 hour'))
	FROM argument a
	WHERE a.type = 'interval'::regtype
	ORDER BY a.function::regproc::text COLLATE "C", a.name;

-- What is no JSON object.
SELECT v.value, pg_temp.said('kube_reports.register_crd'::regproc, jsonb_build_object('crd', v.value))
	FROM unnest(ARRAY['[]', '1', 'null', 'true']::jsonb[]) v(value);
SELECT kube_reports.register_crd(NULL);
SELECT * FROM kube_reports.register_crds('{"[]"}');
SELECT count(*) FROM kube_reports.register_crds(NULL);

-- Labels that no reader's view could read, and names that no page could show.
SELECT v.labels, pg_temp.said('kube_reports.register_cluster'::regproc, jsonb_build_object('labels', v.labels, 'uid',
	'00000000-0000-0000-0000-0000000000ff'))
	FROM unnest(ARRAY['[]', '1', '{"a": 1}', '{"": "b"}', '{"a=b": "c"}']::jsonb[]) v(labels);
SELECT pg_temp.said('kube_reports.register_cluster'::regproc, jsonb_build_object('uid',
	'00000000-0000-0000-0000-0000000000ff', v.name, v.value))
	FROM (VALUES ('extra_metadata', '[]'), ('name', repeat('x', 254))) v(name, value);
UPDATE kube_reports.cluster SET labels = '[]';
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-0000000000fe', NULL, NULL, NULL) > 0 AS as_by_default;
SELECT kube_reports.clusters('!a');

-- A number without a unit is one of seconds: for a retention it is never meant.
SELECT s.name, s.value, pg_temp.said('kube_reports.set_setting'::regproc, jsonb_build_object('name', s.name, 'value',
	s.value))
	FROM (VALUES ('history_retention', '25'), ('daily_retention', ' 25 '), ('log_retention', '60'),
		('settle_window', '0'), ('log_retention', '60 minutes'), ('log_bytes', '60')) s(name, value);

-- The owner's rights are not those of a grant.
SELECT kube_reports.revoke_reader(current_user);
SELECT kube_reports.revoke_clusters(current_user, 'a=b');
SELECT kube_reports.revoke_admin(current_user);
SELECT kube_reports.grant_reader(current_user);
SELECT kube_reports.setting('settle_window');

-- Addresses that no server can have, and addresses of servers.
SELECT u.url, left(pg_temp.said('kube_reports.add_webhook'::regproc, jsonb_build_object('url', u.url)), 5) AS said
	FROM unnest(ARRAY['https://a:99999', 'https://a:0/', 'https://a:123456', 'https://a:', 'https://[::1',
		'https://::1', 'https://[a.example]', 'https://a[', 'https:///x', 'http://a', 'https://u:p@a', 'https://a/#x',
		'https://a b']) u(url);
SELECT u.url, pg_temp.said('kube_reports.add_webhook'::regproc, jsonb_build_object('name', 'w' || u.n, 'url', u.url))
	FROM unnest(ARRAY['https://a', 'https://a:443', 'https://[::1]', 'https://[2001:db8::1]:65535/x?y=:99999',
		'https://1.2.3.4:1/']) WITH ORDINALITY u(url, n);
