-- Results of large reports that are written through the API follow their documents, without the lane's lock.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
-- As a proxy writes; alone: whether in a turn of its own.
CREATE FUNCTION pg_temp.write(verb text, report_name text, document jsonb, alone boolean DEFAULT true,
	writer text DEFAULT 'u') RETURNS integer LANGUAGE sql AS $$
	SELECT w.codes[1] FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
		ARRAY[jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', 'wgpolicyk8s.io',
		'version', 'v1alpha2', 'resource', 'policyreports', 'namespace', 'ns',
			'name', CASE WHEN verb <> 'create' THEN report_name END, 'contentType',
		CASE verb WHEN 'patch' THEN 'application/merge-patch+json' ELSE 'application/json' END, 'user',
			jsonb_build_object('username', writer)))],
		ARRAY[CASE WHEN verb = 'delete' THEN '' ELSE
			convert_to((CASE WHEN verb = 'create' THEN jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
			'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', report_name)) ELSE '{}' END || document)::text, 'UTF8') END], 8, alone) w
$$;
CREATE FUNCTION pg_temp.results(status text, first integer, last integer, size integer DEFAULT 100000) RETURNS jsonb
	LANGUAGE sql AS $$
	SELECT jsonb_build_object('results', jsonb_agg(jsonb_build_object('policy', 'p', 'rule', n::text, 'result', status,
		'message', repeat('m', size))))
	FROM generate_series(first, last) n
$$;
CREATE VIEW pg_temp.stored AS
	SELECT g.name, count(*) AS results, string_agg(DISTINCT kube_reports_internal.status_name(r.status),
		' ') AS statuses
	FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
		GROUP BY g.name ORDER BY g.name;
CREATE VIEW pg_temp.pending AS SELECT p.name, p.last IS NOT NULL AS begun, p.part, p.parts
	FROM kube_reports_internal.result_pending p ORDER BY p.name;
CREATE VIEW pg_temp.state AS
	SELECT s.results_pending, (SELECT count(*) FROM kube_reports.verify()) AS wrong,
		kube_reports_internal.event_horizon(ARRAY(SELECT c.id FROM kube_reports.cluster c)) = (SELECT v.last_value
			FROM kube_reports_internal.version_seq v) AS all_is_final
	FROM kube_reports.status s;
-- Events of a result whose old status is not the new status of the event before, and events that change nothing.
CREATE VIEW pg_temp.broken AS
	SELECT c.origin, c.key, c.version, c.old_status, c.new_status
	FROM (SELECT c.*, lag(c.new_status) OVER (PARTITION BY c.origin, c.key ORDER BY c.version, c.at) AS status_before
		FROM kube_reports_internal.result_change c) c
	WHERE c.old_status IS DISTINCT FROM c.status_before OR c.new_status IS NOT DISTINCT FROM c.old_status;
CREATE FUNCTION pg_temp.catch_up() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	steps		bigint := 0;
BEGIN
	WHILE kube_reports.catch_up() LOOP
		steps := steps + 1;
	END LOOP;
	RETURN steps;
END
$$;

-- Small ones have theirs at once.
SELECT pg_temp.write('create', 'small', pg_temp.results('pass', 1, 3, 10), false);
SELECT * FROM pg_temp.stored;
SELECT * FROM pg_temp.state;

-- A large one is stored, its results follow, in parts of a transaction each.
SELECT pg_temp.write('create', 'large', pg_temp.results('pass', 1, 20));
SELECT * FROM pg_temp.stored;
SELECT * FROM pg_temp.pending;
SELECT * FROM pg_temp.state;
-- First, what nobody has said before.
SELECT kube_reports.catch_up() AS more;
SELECT * FROM pg_temp.pending;
SELECT count(*) FROM pg_temp.stored WHERE name = 'large';
SELECT kube_reports.catch_up() AS more;
SELECT * FROM pg_temp.pending;
SELECT results BETWEEN 1 AND 19 AS a_part FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
-- More is written meanwhile: parts that are done do not hide it.
SELECT pg_temp.write('patch', 'large', pg_temp.results('fail', 1, 15), true, 'second');
SELECT pg_temp.write('patch', 'large', pg_temp.results('fail', 6, 25), true, 'third');
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT * FROM pg_temp.stored;
SELECT * FROM pg_temp.pending;
SELECT * FROM pg_temp.state;
SELECT a.name AS actor, kube_reports_internal.status_name(c.old_status) AS was,
	kube_reports_internal.status_name(c.new_status) AS is, count(*), bool_and(c.at = l.at) AS at_that_time
	FROM kube_reports_internal.result_change c JOIN kube_reports_internal.actor a ON a.id = c.actor
		JOIN kube_reports_internal.origin g ON g.id = c.origin
		JOIN kube_reports_internal.change l ON l.version = c.version
	WHERE g.name = 'large' GROUP BY c.version, 1, 2, 3 ORDER BY c.version, 2, 3;

-- Among others a large one is not decided on, and nothing is done.
SELECT pg_temp.write('patch', 'large', '{"metadata": {"labels": {"a": "b"}}}', false);
SELECT pg_temp.write('delete', 'large', NULL, false);
SELECT kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns',
	'large')::jsonb #> '{metadata,labels}' AS labels;
SELECT pg_temp.write('patch', 'small', '{"metadata": {"labels": {"a": "b"}}}', false);

-- Many that are not large come to as much.
SELECT count(*) AS written FROM unnest((SELECT w.codes FROM kube_reports_internal.write_batch(:'one',
	ARRAY(SELECT '{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
		'"namespace":"ns","contentType":"application/json"}'::jsonb FROM generate_series(1, 12)),
	ARRAY(SELECT convert_to((jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', 'many-' || n))
		|| pg_temp.results('pass', 1, 2))::text, 'UTF8') FROM generate_series(1, 12) n), 8, false) w)) code
			WHERE code = 201;
SELECT count(*) AS at_once FROM pg_temp.stored WHERE name LIKE 'many-%';
SELECT count(*) AS later FROM pg_temp.pending WHERE name LIKE 'many-%';
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT count(*) AS stored FROM pg_temp.stored WHERE name LIKE 'many-%' AND results = 2;

-- What results have to be made from stays in the log.
SELECT pg_temp.write('patch', 'large', pg_temp.results('pass', 1, 20));
SELECT kube_reports.set_setting('log_retention', '0');
SELECT kube_reports_internal.compact() AS more;
SELECT c.operation, c.name FROM kube_reports_internal.change c ORDER BY c.version;
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
SELECT kube_reports_internal.compact() AS more;
SELECT count(*) AS log FROM kube_reports_internal.change;
SELECT kube_reports.set_setting('log_retention', '60 minutes');

-- The owner's DML and functions do not leave anything for later, and finish what was.
SELECT pg_temp.write('patch', 'large', pg_temp.results('fail', 1, 20));
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'large',
	'{"metadata": {"labels": {"c": "d"}}}') IS NOT NULL AS patched;
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
SELECT pg_temp.write('patch', 'large', pg_temp.results('warn', 1, 20));
SELECT kube_reports.catch_up() AS more;
UPDATE kube_reports.object SET body = pg_temp.results('fail', 11, 30)::kube_reports.report WHERE name = 'large';
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
SELECT pg_temp.write('patch', 'large', pg_temp.results('warn', 1, 20));
SELECT pg_temp.write('delete', 'large', NULL);
SELECT count(*) FROM pg_temp.stored WHERE name = 'large';
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT count(*) FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
-- Within the settling window results come back without a trace, however many they are.
SELECT pg_temp.write('create', 'large', pg_temp.results('fail', 11, 30));
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;

-- A rebuild makes what waits first: history has each change once, in the order of versions, with its actor and time.
CREATE VIEW pg_temp.told AS
	SELECT a.name AS actor, kube_reports_internal.status_name(c.old_status) AS was,
		kube_reports_internal.status_name(c.new_status) AS is, count(*), bool_and(c.at = l.at) AS at_that_time
	FROM kube_reports_internal.result_change c LEFT JOIN kube_reports_internal.actor a ON a.id = c.actor
		JOIN kube_reports_internal.origin g ON g.id = c.origin
		LEFT JOIN kube_reports_internal.change l ON l.version = c.version
	WHERE g.name = 'rebuilt' GROUP BY c.version, 1, 2, 3 ORDER BY c.version, 2, 3;
SELECT pg_temp.write('create', 'rebuilt', pg_temp.results('pass', 1, 20));
SELECT pg_temp.catch_up() > 1 AS steps;
SELECT pg_temp.write('patch', 'rebuilt', pg_temp.results('fail', 6, 25), true, 'second');
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.stored WHERE name = 'rebuilt';
SELECT * FROM pg_temp.pending;
SELECT pg_temp.catch_up() > 0 AS steps;
SELECT * FROM pg_temp.told;
SELECT count(*) AS broken FROM pg_temp.broken;
-- The same while a part of the results is made, and the report has been written again since.
SELECT pg_temp.write('patch', 'rebuilt', pg_temp.results('warn', 1, 20), true, 'third');
SELECT kube_reports.catch_up() AS more;
SELECT kube_reports.catch_up() AS more;
SELECT * FROM pg_temp.pending;
SELECT pg_temp.write('patch', 'rebuilt', pg_temp.results('error', 11, 30), true, 'fourth');
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.stored WHERE name = 'rebuilt';
SELECT * FROM pg_temp.pending;
SELECT pg_temp.catch_up() > 0 AS steps;
SELECT * FROM pg_temp.told;
SELECT count(*) AS broken FROM pg_temp.broken;
SELECT * FROM pg_temp.state;
SELECT pg_temp.write('delete', 'rebuilt', NULL);
CALL kube_reports.rebuild();
SELECT count(*) AS deleted FROM pg_temp.told WHERE actor = 'u' AND "is" IS NULL;
SELECT count(*) AS broken FROM pg_temp.broken;

-- Without the log results are made again; so they are after a restore, and a type that goes takes its own along.
SELECT pg_temp.write('patch', 'large', pg_temp.results('pass', 1, 20));
SELECT kube_reports.new_incarnation(true) > 0 AS moved;
SELECT * FROM pg_temp.pending;
SELECT pg_temp.catch_up() > 0 AS steps;
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT * FROM pg_temp.state;
SELECT pg_temp.write('patch', 'large', pg_temp.results('fail', 1, 20));
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT pg_temp.catch_up() > 0 AS steps;
SELECT * FROM pg_temp.state;
SELECT pg_temp.write('patch', 'large', pg_temp.results('pass', 1, 20));
SELECT kube_reports.after_restore() > 0 AS base;
SELECT * FROM pg_temp.pending;
-- What had not reached history and the counts by day when the dump was made is not in it.
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT pg_temp.write('patch', 'large', pg_temp.results('fail', 1, 20));
DELETE FROM kube_reports.object;
SELECT * FROM pg_temp.state;
