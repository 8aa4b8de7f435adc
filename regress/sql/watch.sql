-- Where watches start and what the log tells them.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
CREATE FUNCTION pg_temp.put(name text, labels jsonb DEFAULT '{}') RETURNS void LANGUAGE sql AS $$
	SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('namespace', 'default', 'name', name, 'labels', labels))::kube_reports.report)
$$;
CREATE FUNCTION pg_temp.patch(name text, patch jsonb) RETURNS void LANGUAGE sql AS $$
	SELECT kube_reports.patch_report('00000000-0000-0000-0000-000000000001', 'policyreports.wgpolicyk8s.io',
		'default', name, patch)
$$;
CREATE FUNCTION pg_temp.watch(query jsonb, OUT code int, OUT message text, OUT initial boolean, OUT from_now boolean,
	OUT bookmarks boolean, OUT end_bookmark boolean, OUT representation text)
LANGUAGE sql AS $$
	SELECT w.code, CASE WHEN w.code <> 200 THEN convert_from(w.reply, 'UTF8')::jsonb->>'message' END, w.cursor
		IS NOT NULL,
		w.version = kube_reports_internal.lane_version(w.lane), w.bookmarks, w.end_bookmark
			IS NOT NULL, w.representation
	FROM kube_reports_internal.api_watch('00000000-0000-0000-0000-000000000001',
		jsonb_build_object('verb', 'watch', 'group', 'wgpolicyk8s.io',
		'version', 'v1alpha2', 'resource', 'policyreports', 'namespace', 'default', 'query', query)) w
$$;
SELECT lane FROM kube_reports_internal.api_registry(:'one') WHERE resource = 'policyreports' \gset
SELECT kube_reports_internal.lane_version(:lane) AS start \gset

SELECT pg_temp.put('a', '{"app":"x"}');
SELECT pg_temp.patch('a', '{"summary":{"pass":1}}');
SELECT pg_temp.patch('a', '{"metadata":{"labels":{"app":"y"}}}');
SELECT pg_temp.put('b');
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a');
SELECT pg_temp.put('a');

-- Every change with the state it led to; old states only where labels differ; a deleted object as it was last.
CREATE VIEW pg_temp.log AS
	SELECT row_number() OVER (ORDER BY c.version) AS n, c.operation, c.name, c.labels, c.old_labels,
		convert_from(c.objects[1], 'UTF8')::jsonb #- '{metadata,uid}' #- '{metadata,creationTimestamp}' AS object,
		convert_from(c.old_objects[1], 'UTF8')::jsonb -> 'metadata' -> 'labels' AS old_object_labels, c.version
	FROM kube_reports_internal.api_changes('00000000-0000-0000-0000-000000000001',
		(SELECT lane FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000001')
		WHERE resource = 'policyreports'),
		current_setting('test.start')::bigint, '{v1alpha2 object}', 100) c;
SELECT set_config('test.start', :'start', false) = :'start' AS set;
SELECT operation, name, labels, old_labels, object->'summary' AS summary, old_object_labels,
	(object#>>'{metadata,resourceVersion}')::bigint = version AS own_version FROM pg_temp.log ORDER BY n;

-- Resuming from each version gives the rest, in order, nothing twice.
SELECT l.n, (SELECT count(*) FROM kube_reports_internal.api_changes(:'one', :lane, l.version, '{}', 100)) AS rest
	FROM pg_temp.log l ORDER BY l.n;
-- In steps.
SELECT array_agg(c.operation) FROM kube_reports_internal.api_changes(:'one', :lane, :start, '{}', 2) c;

-- Where a watch starts (15.2, 15.7).
SELECT q.n, w.* FROM (VALUES
	(1, '{}'::jsonb), (2, '{"resourceVersion":["0"]}'), (3, '{"resourceVersion":["0"],"allowWatchBookmarks":["true"]}'),
	(4, '{"sendInitialEvents":["true"],"resourceVersionMatch":["NotOlderThan"],"allowWatchBookmarks":["true"]}'),
	(5, '{"sendInitialEvents":["false"],"resourceVersionMatch":["NotOlderThan"]}'),
	(6, '{"sendInitialEvents":["true"]}'), (7, '{"resourceVersionMatch":["NotOlderThan"]}'),
		(8, '{"resourceVersion":["x"]}'),
	(9, '{"resourceVersion":["1"]}')) q(n, query), LATERAL pg_temp.watch(q.query) w
	WHERE q.n < 9 ORDER BY q.n;
-- A version that is too old: one ERROR event (W-50).
SELECT w.code, w.lane IS NULL AS ended, regexp_replace(convert_from(w.reply, 'UTF8'), '\(\d+\)', '(floor)') AS event
	FROM kube_reports_internal.api_watch(:'one',
		jsonb_build_object('verb', 'watch', 'group', 'wgpolicyk8s.io', 'version', 'v1alpha2',
		'resource', 'policyreports', 'namespace', 'default', 'query', '{"resourceVersion":["1"]}'::jsonb)) w;

-- The same change in several representations.
SELECT jsonb_object_keys(convert_from(o.object, 'UTF8')::jsonb) AS member, r.representation
	FROM kube_reports_internal.api_changes(:'one', :lane, :start, '{v1alpha2 object,v1alpha2 partial/v1}', 1) c,
		LATERAL unnest(c.objects) WITH ORDINALITY o(object, n),
			LATERAL (SELECT ('{object,partial}'::text[])[o.n]) r(representation) ORDER BY 2, 1;

-- Below the floor there is one row X.
SELECT kube_reports.set_setting('log_retention', '0');
SELECT kube_reports_internal.compact();
SELECT c.operation, c.version = (SELECT floor FROM kube_reports_internal.lane WHERE id = :lane) AS floor
	FROM kube_reports_internal.api_changes(:'one', :lane, :start, '{}', 10) c;
SELECT count(*) FROM kube_reports_internal.api_changes(:'one', :lane,
	(SELECT floor FROM kube_reports_internal.lane WHERE id = :lane), '{}', 10);

-- Another server gave versions in between: those are lost, the log's own are not.
SELECT kube_reports_internal.lane_version(:lane) AS known \gset
-- Before that is noticed: a list that began there is not gone on with.
SELECT n, l.code FROM generate_series(0, 1) n, LATERAL kube_reports_internal.api_list(:'one',
	'{"verb":"list","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports"}',
	jsonb_build_object('version', :known + n, 'namespace', '', 'name', '', 'items', 1)::text) l
		WHERE l.code IS NOT NULL ORDER BY n;
SELECT kube_reports.new_incarnation() > :known AS above;
SELECT (SELECT count(*) FROM kube_reports_internal.api_changes(:'one', :lane, :known, '{}', 10)) AS from_known,
	(SELECT c.operation FROM kube_reports_internal.api_changes(:'one', :lane, :known + 1, '{}', 10) c) AS from_lost;
SELECT pg_temp.put('after');
SELECT c.name FROM kube_reports_internal.api_changes(:'one', :lane, :known, '{}', 10) c;

-- Polling.
SELECT p.versions[1] = kube_reports_internal.lane_version(:lane) AS newest, p.versions[2] AS unknown_lane
	FROM kube_reports_internal.api_poll(:'one', ARRAY[:lane, -5]) p;

-- However many changes are asked for, an answer ends with the first object beyond 4 MB.
SELECT kube_reports_internal.lane_version(:lane) AS start \gset
SELECT pg_temp.put('big' || n) FROM generate_series(1, 3) n;
SELECT pg_temp.patch('big' || n, jsonb_build_object('results',
	jsonb_build_array(jsonb_build_object('policy', repeat('x', 3000000))))) FROM generate_series(1, 3) n;
SELECT c.operation, c.name FROM kube_reports_internal.api_changes(:'one', :lane, :start, '{}', 100) c;
