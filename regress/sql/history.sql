-- A change of a report is one row of history, and an event for each result that changed.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') IS NOT NULL AS known;
-- rules: one status for each rule; every third result is about another pod when several is true.
CREATE FUNCTION pg_temp.said(name text, statuses text[], several boolean DEFAULT false) RETURNS boolean
LANGUAGE sql AS $$
	WITH document AS (
		SELECT jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport', 'metadata',
			jsonb_build_object('name', name, 'namespace', 'ns'), 'scope', '{"kind": "Pod", "name": "app"}'::jsonb,
			'results', coalesce(jsonb_agg(jsonb_build_object('policy', 'p', 'rule', 'r' || s.n, 'result', s.status)
				|| CASE WHEN several AND s.n % 3 = 0 THEN '{"resources": [{"kind": "Pod", "name": "other"}]}'::jsonb
					ELSE '{}' END) FILTER (WHERE s.status <> ''), '[]')) AS document
		FROM unnest(statuses) WITH ORDINALITY s(status, n)
	)
	SELECT CASE WHEN EXISTS (SELECT FROM kube_reports.object o WHERE o.name = said.name)
		THEN kube_reports.patch_report('00000000-0000-0000-0000-000000000001', 'policyreports.wgpolicyk8s.io', 'ns',
			said.name, jsonb_build_object('results', d.document->'results'))
		ELSE kube_reports.create_report('00000000-0000-0000-0000-000000000001', d.document::kube_reports.report) END
			IS NOT NULL
	FROM document d
$$;
CREATE VIEW pg_temp.stored AS
	SELECT g.name, cardinality(c.ids) AS ids, c.criterion IS NULL AS criteria, c.subject IS NULL AS subjects,
		length(c.old_statuses) AS old_statuses, length(c.new_statuses) AS new_statuses,
		length(c.gone_with) AS gone_with, cardinality(c.first_seen) AS first_seen,
		cardinality(c.old_since) AS old_since, c.settles_at - c.at AS settles
	FROM kube_reports_internal.report_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
	ORDER BY c.version;
CREATE VIEW pg_temp.events AS
	SELECT g.name, k.rule, s.name AS subject, c.old_status AS was, c.new_status AS is, c.gone_with,
		c.first_seen IS NOT NULL AS first, c.old_since IS NOT NULL AS since, c.settles_at IS NOT NULL AS settles
	FROM kube_reports_internal.result_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
		JOIN kube_reports_internal.criterion k ON k.id = c.criterion
		JOIN kube_reports_internal.subject s ON s.id = c.subject
	ORDER BY c.version, k.rule COLLATE "C";

CREATE FUNCTION pg_temp.collect_subjects() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	removed		bigint := 0;
BEGIN
	FOR step IN 1..3 LOOP
		UPDATE kube_reports_internal.garbage_sweep
			SET due_at = CASE what WHEN 'subject' THEN '-infinity' ELSE 'infinity' END::timestamptz;
		removed := removed + kube_reports_internal.collect_garbage();
	END LOOP;
	RETURN removed;
END
$$;

-- What all results of a row have in common is stored once.
SELECT pg_temp.said('a', '{pass,pass,fail,pass}');
SELECT pg_temp.said('b', '{pass,pass,pass,pass}', true);
SELECT * FROM pg_temp.stored;
SELECT * FROM pg_temp.events;
-- Changed, gone and new at once.
SELECT pg_temp.said('a', '{fail,"",fail,pass,warn}');
SELECT * FROM pg_temp.stored OFFSET 2;
SELECT * FROM pg_temp.events OFFSET 8;
-- What is gone comes back: it is taken out of its row, and what else the row tells stays.
SELECT pg_temp.said('a', '{fail,pass,fail,pass,warn}');
SELECT * FROM pg_temp.stored OFFSET 2;
SELECT * FROM pg_temp.events OFFSET 8;
-- All of a report, then some of it: a row that tells of nothing else goes.
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a');
SELECT * FROM pg_temp.stored OFFSET 3;
SELECT pg_temp.said('a', '{fail,pass,"",pass}');
SELECT * FROM pg_temp.stored OFFSET 3;
SELECT * FROM pg_temp.events OFFSET 10;
SELECT pg_temp.said('a', '{fail,pass,fail,pass,warn}');
SELECT * FROM pg_temp.stored OFFSET 3;
SELECT * FROM kube_reports.verify();
-- Each index of a month answers a question: namespaces, followers, reports, times.
SELECT regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', '') AS index
	FROM pg_inherits p JOIN pg_index i ON i.indrelid = p.inhrelid
	WHERE p.inhparent = 'kube_reports_internal.report_change'::regclass GROUP BY 1 ORDER BY 1;

-- Subjects that only history names stay, also those of a row that names several.
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', n) FROM unnest('{a,b}'::text[]) n;
CREATE VIEW pg_temp.subjects AS
	SELECT s.name, s.uid, s.unused_since IS NOT NULL AS unused,
		s.unused_since > (SELECT max(c.at) FROM kube_reports_internal.report_change c) AS later
	FROM kube_reports_internal.subject s ORDER BY 1, 2;
SELECT pg_temp.collect_subjects() AS removed;
SELECT * FROM pg_temp.subjects;
-- They go when history has dropped all months that may name them.  A subject that has results again stays.
UPDATE kube_reports_internal.subject SET unused_since = unused_since - interval '4 months';
SELECT pg_temp.said('again', '{pass}');
SELECT * FROM pg_temp.subjects;
SELECT pg_temp.collect_subjects() AS removed;
SELECT * FROM pg_temp.subjects;
-- Also if the results are those of a report that was about another subject.
CREATE FUNCTION pg_temp.about(uid text) RETURNS boolean LANGUAGE sql AS $$
	SELECT kube_reports.patch_report('00000000-0000-0000-0000-000000000001', 'policyreports.wgpolicyk8s.io', 'ns',
		'again', jsonb_build_object('scope', jsonb_build_object('uid', uid))) IS NOT NULL
$$;
SELECT pg_temp.about('7');
SELECT pg_temp.collect_subjects() AS removed;
SELECT * FROM pg_temp.subjects;
SELECT pg_temp.about(NULL);
SELECT * FROM pg_temp.subjects;
-- An event that rebuild() adds is later than the time that was noted.
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'again');
SELECT pg_temp.collect_subjects() AS removed;
SELECT * FROM pg_temp.subjects;
DELETE FROM kube_reports_internal.report_change c USING kube_reports_internal.origin g
	WHERE g.id = c.origin AND g.name = 'again' AND c.new_statuses IS NULL;
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.subjects;
SELECT * FROM kube_reports.verify();

-- A large report: its arrays are stored out of line.
SELECT pg_temp.said('large', array_fill('fail'::text, '{3000}'), true);
SELECT pg_temp.said('large', array_fill('fail'::text, '{2990}') || array_fill('pass'::text, '{20}'), true);
SELECT * FROM pg_temp.stored WHERE name = 'large';
SELECT count(*), count(DISTINCT e.result_key) AS keys, count(*) FILTER (WHERE e.subject_name = 'other') AS others
	FROM kube_reports.result_event e WHERE e.report = 'large' AND e.old_status IS NULL;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'large');
SELECT * FROM pg_temp.stored WHERE name = 'large' OFFSET 2;
SELECT pg_temp.said('large', array_fill('fail'::text, '{2000}'), true);
SELECT * FROM pg_temp.stored WHERE name = 'large' OFFSET 2;
SELECT * FROM kube_reports.verify();
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.stored WHERE name = 'large' OFFSET 2;
-- Arrays that history does not have.
SELECT kube_reports_internal.common('{{1,2},{3,4}}');
SELECT kube_reports_internal.joined_ids('{1,2}', '{3}', '{4,5}');
SELECT kube_reports_internal.joined_ids('{1,NULL}', '{3,3}', '{4,5}');
SELECT kube_reports_internal.letters('{p,""}');
SELECT kube_reports_internal.letters(E'{p,"\\\\377"}');
SELECT kube_reports_internal.packed(ARRAY[ARRAY[now()]]);
SELECT u.* FROM kube_reports_internal.unpacked_changes('{{1,2}}', 4, 7, NULL, 'p', NULL, NULL, NULL) u;
SELECT u.* FROM kube_reports_internal.unpacked_changes('{1,NULL}', 4, 7, NULL, 'p', NULL, NULL, NULL) u;
