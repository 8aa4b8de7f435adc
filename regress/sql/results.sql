-- Results: mappings, rows, history, counts; by every way of writing.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') AS cluster_id \gset
CREATE FUNCTION pg_temp.document(name text, results jsonb) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport', 'metadata',
		jsonb_build_object('name', name, 'namespace', 'ns'),
		'scope', '{"apiVersion": "apps/v1", "kind": "Deployment", "name": "app", "uid": "u1"}'::jsonb, 'results',
			results)::kube_reports.report
$$;
CREATE FUNCTION pg_temp.written(name text, results jsonb) RETURNS boolean LANGUAGE sql AS $$
	SELECT CASE WHEN EXISTS (SELECT FROM kube_reports.object o WHERE o.name = written.name)
		THEN kube_reports.patch_report('00000000-0000-0000-0000-000000000001', 'policyreports.wgpolicyk8s.io', 'ns',
			name, jsonb_build_object('results', results))
		ELSE kube_reports.create_report('00000000-0000-0000-0000-000000000001', pg_temp.document(name, results)) END
			IS NOT NULL
$$;
CREATE VIEW pg_temp.current AS
	SELECT g.name AS report, k.policy, k.rule, k.severity, kube_reports_internal.status_name(r.status) AS status,
		r.native_status AS native, r.score, s.kind, s.name, d.message,
		r.first_seen = g.first_seen AS as_old, r.since = r.first_seen AS as_ever
	FROM kube_reports_internal.result r JOIN kube_reports_internal.origin g ON g.id = r.origin
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		JOIN kube_reports_internal.subject s ON s.id = r.subject JOIN kube_reports_internal.detail d ON d.id = r.detail
	ORDER BY g.name COLLATE "C", k.policy, k.rule, s.name, d.message;
CREATE VIEW pg_temp.history AS
	SELECT g.name AS report, k.rule, kube_reports_internal.status_name(c.old_status) AS was,
		kube_reports_internal.status_name(c.new_status) AS is, a.name = session_user AS by_me,
		c.first_seen IS NOT NULL AS has_first, c.old_since IS NOT NULL AS has_since, c.settles_at - c.at AS settles
	FROM kube_reports_internal.result_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
		JOIN kube_reports_internal.criterion k ON k.id = c.criterion
		JOIN kube_reports_internal.actor a ON a.id = c.actor
	ORDER BY c.version, k.rule;
CREATE VIEW pg_temp.counts AS
	SELECT r.namespace, k.policy, k.severity, r.kind, kube_reports_internal.status_name(r.status) AS status,
		r.native_status AS native, sum(r.count) AS count
	FROM kube_reports_internal.current_rollup r JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 1, 2, 3, 4, 5, 6;

---- a document, stored or not ----
SELECT "position", source, policy, rule, category, severity, status, native_status, score, api_version, kind, namespace,
	name, uid, message, properties, exceptions
	FROM kube_reports.results(pg_temp.document('a', '[
	{"policy": "p", "rule": "several", "result": "pass", "source": "s", "category": "c", "severity": "high",
		"timestamp": {"seconds": 1700000000, "nanos": 500000},
		"resources": [{"apiVersion": "v1", "kind": "Pod", "name": "one"},
			{"apiVersion": "v1", "kind": "Pod", "name": "two", "namespace": "other", "uid": "u2"}]},
	{"policy": "p", "rule": "excepted", "result": "skip", "message": "m",
		"properties": {"exceptions": "x, y,,z", "score": "7.5"}},
	{"policy": "p", "rule": "unscored", "result": "fail", "properties": {"score": "0"}},
	{"policy": "p", "rule": "odd score", "result": "warn", "properties": {"score": "0x1p3"}},
	{"policy": "p", "rule": "nothing"}]'));
SELECT evaluated_at AT TIME ZONE 'UTC' AS evaluated_at
	FROM kube_reports.results(pg_temp.document('a',
	'[{"policy": "p", "timestamp": {"seconds": 1700000000, "nanos": 500000}}, {"policy": "q"}]'));
SELECT * FROM kube_reports.summary(pg_temp.document('a', '[{"policy": "p", "result": "fail", "resources": [{"name": '
	'"a"}, {"name": "b"}]}, {"policy": "p", "result": "pass"}, {"policy": "q"}]'));
-- Kyverno's intermediate reports are about their owner.
SELECT policy, status, kind, namespace, name
	FROM kube_reports.results('{"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
	"metadata": {"name": "e", "namespace": "ns"},
	"spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "u"},
		"results": [{"policy": "p", "result": "pass"}]}}');
SELECT * FROM kube_reports.results('{"apiVersion": "example.com/v1", "kind": "Unknown"}');
-- Equals are numbered by what they say, not by where they stand.
SELECT count(DISTINCT a.key) AS keys, bool_and(a.key = b.key AND a.message = b.message) AS same
	FROM kube_reports.results(pg_temp.document('a',
		'[{"policy": "p", "message": "1"}, {"policy": "p", "message": "2"}, {"policy": "p", "result": "fail"}]')) a
		JOIN kube_reports.results(pg_temp.document('a',
			'[{"policy": "p", "result": "fail"}, {"policy": "p", "message": "2"}, {"policy": "p", "message": "1"}]')) b
			ON a.key = b.key;

---- rows, history, counts ----
SELECT pg_temp.written('a', '[{"policy": "p", "rule": "r1", "result": "pass"}, {"policy": "p", "rule": "r2", '
	'"result": "fail", "severity": "high", "message": "m", "properties": {"score": "8.5"}}]');
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r1", "result": "pass"}]');
SELECT * FROM pg_temp.current;
SELECT * FROM pg_temp.history;
SELECT * FROM pg_temp.counts;
CREATE TEMP TABLE before AS SELECT xmin::text AS writer, origin, key FROM kube_reports_internal.result;
-- New times only: the report is written, nothing else.
SELECT pg_temp.written('a', '[{"policy": "p", "rule": "r1", "result": "pass", "timestamp": {"seconds": 1700000009, '
	'"nanos": 0}}, {"policy": "p", "rule": "r2", "result": "fail", "severity": "high", "message": "m", "properties": '
	'{"score": "8.5"}}]');
SELECT count(*) AS rewritten FROM kube_reports_internal.result r JOIN before b USING (origin, key)
	WHERE r.xmin::text <> b.writer;
SELECT count(*) AS history FROM kube_reports_internal.result_change;
SELECT evaluated_at AT TIME ZONE 'UTC' AS evaluated_at FROM kube_reports.object WHERE name = 'a';
-- One changed, one more, other words.
SELECT pg_temp.written('a', '[{"policy": "p", "rule": "r3", "result": "pass"}, {"policy": "p", "rule": "r1", '
	'"result": "fail"}, {"policy": "p", "rule": "r2", "result": "fail", "severity": "low", "message": "other words"}]');
SELECT count(*) AS rewritten FROM kube_reports_internal.result r JOIN before b USING (origin, key)
	WHERE r.xmin::text <> b.writer;
SELECT * FROM pg_temp.current;
SELECT * FROM pg_temp.history OFFSET 3;
SELECT count(*) AS differences FROM kube_reports.verify();
-- Deleted and made again: as if nothing had happened, but for what changed.
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a');
SELECT * FROM pg_temp.current;
SELECT * FROM pg_temp.history OFFSET 5;
SELECT * FROM pg_temp.counts;
SELECT pg_temp.written('a',
	'[{"policy": "p", "rule": "r3", "result": "pass"}, {"policy": "p", "rule": "r1", "result": "pass"}]');
SELECT * FROM pg_temp.current;
SELECT * FROM pg_temp.history OFFSET 5;
-- Later than that it is a new one.
SELECT kube_reports.set_setting('settle_window', '0');
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a');
SELECT pg_temp.written('a', '[{"policy": "p", "rule": "r3", "result": "pass"}]');
SELECT * FROM pg_temp.current;
SELECT * FROM pg_temp.history OFFSET 7;
SELECT kube_reports.set_setting('settle_window', '10 minutes');
SELECT kube_reports.set_setting('settle_window', '2 days');
SELECT * FROM kube_reports.verify();

---- DML, and statements that do several things at once ----
UPDATE kube_reports.object
	SET body = '{"results": [{"policy": "dml", "result": "error", "timestamp": {"seconds": 1800000000, "nanos": 0}}]}';
SELECT * FROM pg_temp.current;
SELECT name, evaluated_at AT TIME ZONE 'UTC' AS evaluated_at FROM kube_reports.object ORDER BY name;
INSERT INTO kube_reports.object AS o (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT :cluster_id, 1, 'ns', n, '{}', '{"results": [{"policy": "upsert", "result": "pass"}]}'
		FROM unnest('{a,c}'::text[]) n
	ON CONFLICT (cluster_id, resource_type, namespace, name) DO UPDATE SET body = excluded.body;
SELECT report, policy, status FROM pg_temp.current;
WITH gone AS (DELETE FROM kube_reports.object WHERE name = 'c') UPDATE kube_reports.object
	SET body = '{"results": [{"policy": "last", "result": "pass"}]}' WHERE name = 'a';
SELECT report, policy, status FROM pg_temp.current;
BEGIN;
DELETE FROM kube_reports.object;
SELECT * FROM pg_temp.counts;
ROLLBACK;
SELECT * FROM pg_temp.counts;
SELECT * FROM kube_reports.verify();
-- Results that come again elsewhere are not counted.
SELECT kube_reports.create_report(:'one', '{"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport",
	"metadata": {"name": "e", "namespace": "ns"},
	"spec": {"owner": {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "u"},
		"results": [{"policy": "p", "result": "pass"}]}}') IS NOT NULL;
SELECT count(*) FROM pg_temp.current WHERE report = 'e';

---- counts by day ----
-- Somebody else's transaction, of any database, may keep the newest ones from being folded for a moment.
CREATE PROCEDURE pg_temp.fold() LANGUAGE plpgsql AS $$
BEGIN
	WHILE EXISTS (SELECT FROM kube_reports_internal.rollup_delta) LOOP
		PERFORM kube_reports_internal.fold_rollups();
		COMMIT;
	END LOOP;
END
$$;
CALL pg_temp.fold();
SELECT * FROM pg_temp.counts;
SELECT namespace, severity, pass, warn, fail, error, skip, excluded
	FROM kube_reports_internal.score_daily ORDER BY 1, 2;
-- What a day changes holds for the days after it; a day begins with the day before.
UPDATE kube_reports_internal.rollup_daily SET day = day - 2;
UPDATE kube_reports_internal.score_daily SET day = day - 2;
INSERT INTO kube_reports_internal.rollup_delta (cluster_id, namespace, kind, criteria, statuses,
	native_statuses, counts, day)
	SELECT r.cluster_id, r.namespace, r.kind, ARRAY[r.criterion], ARRAY[r.status], ARRAY[r.native_status],
		ARRAY[d.count], (now() AT TIME ZONE 'UTC')::date - d.days
	FROM kube_reports_internal.current_rollup r, (VALUES (10, 0), (100, 1)) d(count, days) WHERE r.status = 'p';
CALL pg_temp.fold();
SELECT (now() AT TIME ZONE 'UTC')::date - d.day AS days_ago, sum(d.count) AS count
	FROM kube_reports_internal.rollup_daily d JOIN kube_reports_internal.rollup r ON r.id = d.rollup
	WHERE r.status = 'p' AND r.count > 0 GROUP BY 1 ORDER BY 1 DESC;
INSERT INTO kube_reports_internal.rollup_delta (cluster_id, namespace, kind, criteria, statuses,
	native_statuses, counts, day)
	SELECT r.cluster_id, r.namespace, r.kind, ARRAY[r.criterion], ARRAY[r.status], ARRAY[r.native_status], ARRAY[1000],
		(now() AT TIME ZONE 'UTC')::date - 1
	FROM kube_reports_internal.current_rollup r WHERE r.status = 'p';
CALL pg_temp.fold();
SELECT (now() AT TIME ZONE 'UTC')::date - d.day AS days_ago, sum(d.count) AS count
	FROM kube_reports_internal.rollup_daily d JOIN kube_reports_internal.rollup r ON r.id = d.rollup
	WHERE r.status = 'p' AND r.count > 0 GROUP BY 1 ORDER BY 1 DESC;
SELECT (now() AT TIME ZONE 'UTC')::date - s.day AS days_ago, s.namespace, s.pass
	FROM kube_reports_internal.score_daily s WHERE s.pass > 0 ORDER BY 1 DESC, 2;

---- checked and mended ----
SELECT what, count(*) FROM kube_reports.verify() GROUP BY 1 ORDER BY 1;
UPDATE kube_reports_internal.result SET status = 'w'
	WHERE origin = (SELECT g.id FROM kube_reports_internal.origin g WHERE g.name = 'a');
DELETE FROM kube_reports_internal.result r USING kube_reports_internal.origin g WHERE g.id = r.origin AND g.name = 'b';
INSERT INTO kube_reports_internal.result SELECT r.origin, 1, r.criterion, r.subject, r.detail, r.first_seen, r.since,
	r.cluster_id, 9, 'f', r.namespace, '' FROM kube_reports_internal.result r LIMIT 1;
BEGIN;
SELECT kube_reports_internal.begin_own_write();
UPDATE kube_reports.object SET evaluated_at = now() WHERE name = 'a';
COMMIT;
SELECT what, namespace, name, expected->>'status' AS expected, found->>'status' AS found FROM kube_reports.verify()
	WHERE what IN ('result', 'evaluated_at') ORDER BY 1, 3, 4;
SELECT count(*) AS history FROM kube_reports_internal.result_change \gset
CALL kube_reports.rebuild();
SELECT * FROM kube_reports.verify();
SELECT report, policy, status FROM pg_temp.current;
SELECT count(*) = :history AS no_history FROM kube_reports_internal.result_change;

-- Whatever is corrupted: verify() names the table, rebuild() mends it, and what was right stays as it was.
CREATE FUNCTION pg_temp.everything() RETURNS TABLE (what text, content text) LANGUAGE sql AS $$
	SELECT 'result', string_agg(r::text, E'\n' ORDER BY r.origin, r.key) FROM kube_reports_internal.result r
	UNION ALL SELECT 'result_since', string_agg(s::text, E'\n' ORDER BY s.origin, s.key)
		FROM kube_reports_internal.result_since s
	UNION ALL SELECT 'criterion', string_agg(k::text, E'\n' ORDER BY k.id) FROM kube_reports_internal.criterion k
		WHERE EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.criterion = k.id)
	UNION ALL SELECT 'subject', string_agg(s::text, E'\n' ORDER BY s.id) FROM kube_reports_internal.subject s
		WHERE EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.subject = s.id)
	UNION ALL SELECT 'detail', string_agg(d::text, E'\n' ORDER BY d.id) FROM kube_reports_internal.detail d
		WHERE EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.detail = d.id)
	UNION ALL SELECT 'report_change', string_agg(c::text, E'\n' ORDER BY c.version, c.ids)
		FROM kube_reports_internal.report_change c
	UNION ALL SELECT 'rollup', string_agg(r::text, E'\n' ORDER BY r::text) FROM kube_reports_internal.current_rollup r
	UNION ALL SELECT 'rollup_daily', string_agg(d::text, E'\n' ORDER BY d::text)
		FROM (SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, d.day, d.count
		FROM kube_reports_internal.rollup r JOIN kube_reports_internal.rollup_daily d ON d.rollup = r.id
			WHERE d.count <> 0) d
	UNION ALL SELECT 'rollup_policy', string_agg(p::text, E'\n' ORDER BY p::text)
		FROM (SELECT p.cluster_id, p.namespace, p.policy, p.pass, p.warn, p.fail, p.error, p.skip
		FROM kube_reports_internal.rollup_policy p WHERE (p.pass, p.warn, p.fail, p.error, p.skip) <> (0, 0, 0, 0, 0)) p
	UNION ALL SELECT 'score_daily', string_agg(s::text, E'\n' ORDER BY s::text) FROM kube_reports_internal.score_daily s
$$;
-- Takes the events with a new status (null: the disappearances) out of history.
CREATE FUNCTION pg_temp.lose(status "char") RETURNS void LANGUAGE sql AS $$
	UPDATE kube_reports_internal.report_change c SET criterion = NULL, subject = NULL,
			ids = e.keys || e.criteria || e.subjects,
			old_statuses = array_to_string(e.old_statuses, '', '-'),
			new_statuses = array_to_string(e.new_statuses, '', '-'),
			gone_with = array_to_string(e.gone_with, '', '-'), first_seen = e.first_seen, old_since = e.old_since
		FROM (SELECT c.version, c.at, array_agg(c.key) AS keys, array_agg(c.criterion) AS criteria,
				array_agg(c.subject) AS subjects, array_agg(c.old_status) AS old_statuses,
				array_agg(c.new_status) AS new_statuses, array_agg(c.gone_with) AS gone_with,
				array_agg(c.first_seen) AS first_seen, array_agg(c.old_since) AS old_since
			FROM kube_reports_internal.result_change c WHERE c.new_status IS DISTINCT FROM status GROUP BY 1, 2) e
		WHERE e.version = c.version AND e.at = c.at;
	DELETE FROM kube_reports_internal.report_change c
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result_change e
			WHERE e.version = c.version AND e.new_status IS DISTINCT FROM status);
$$;
CREATE TEMP TABLE corruption (number serial, statement text, told text, told_again text, altered text);
CREATE PROCEDURE pg_temp.corrupt(VARIADIC statements text[]) LANGUAGE plpgsql AS $$
DECLARE
	statement text;
	told text;
BEGIN
	FOREACH statement IN ARRAY statements LOOP
		CREATE TEMP TABLE right_content AS SELECT e.* FROM pg_temp.everything() e;
		EXECUTE statement;
		SELECT string_agg(DISTINCT v.what, ' ' ORDER BY v.what) INTO told FROM kube_reports.verify() v;
		COMMIT;
		CALL kube_reports.rebuild();
		-- What is folded later must be right, too.
		INSERT INTO corruption (statement, told, told_again)
			SELECT statement, told, (SELECT string_agg(DISTINCT v.what, ' ' ORDER BY v.what)
				FROM kube_reports.verify() v);
		CALL pg_temp.fold();
		UPDATE corruption c SET told_again = concat_ws(', folded ', c.told_again,
			(SELECT string_agg(DISTINCT v.what, ' ' ORDER BY v.what) FROM kube_reports.verify() v)),
			altered = (SELECT string_agg(e.what, ' ' ORDER BY e.what) FROM pg_temp.everything() e
				JOIN right_content r USING (what) WHERE e.content IS DISTINCT FROM r.content)
			WHERE c.number = (SELECT max(m.number) FROM corruption m);
		DROP TABLE right_content;
	END LOOP;
END
$$;
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r1", "result": "fail", "message": "why", "properties": {"n": '
	'"1"}, "category": "c"}, {"policy": "p", "rule": "r2", "result": "pass"}]');
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r1", "result": "fail", "message": "why", "properties": {"n": '
	'"1"}, "category": "c"}, {"policy": "p", "rule": "r2", "result": "warn"}]');
CALL pg_temp.fold();
CALL pg_temp.corrupt(
	$$UPDATE kube_reports_internal.result SET status = 'e' WHERE status = 'f'$$,
	$$UPDATE kube_reports_internal.result SET cluster_id = 2$$,
	$$UPDATE kube_reports_internal.result SET namespace = 'zz'$$,
	$$UPDATE kube_reports_internal.result SET key = key + 1$$,
	$$UPDATE kube_reports_internal.result SET origin = -origin$$,
	$$UPDATE kube_reports_internal.result SET first_seen = first_seen - interval '1 hour'$$,
	$$UPDATE kube_reports_internal.result SET since = since - interval '1 hour'$$,
	$$DELETE FROM kube_reports_internal.result$$,
	$$UPDATE kube_reports_internal.result_since SET since = since + interval '1 hour'$$,
	$$DELETE FROM kube_reports_internal.result_since$$,
	$$INSERT INTO kube_reports_internal.result_since SELECT r.origin, r.key + 1, now(), now()
		FROM kube_reports_internal.result r$$,
	$$UPDATE kube_reports_internal.detail SET message = 'WRONG', exceptions = '{x}'$$,
	$$UPDATE kube_reports_internal.detail SET properties = '{"n": "2"}'$$,
	$$DELETE FROM kube_reports_internal.detail$$,
	$$UPDATE kube_reports_internal.criterion SET policy = 'WRONG', severity = 'high'
		WHERE id IN (SELECT r.criterion FROM kube_reports_internal.result r)$$,
	$$DELETE FROM kube_reports_internal.criterion
		WHERE id IN (SELECT r.criterion FROM kube_reports_internal.result r)$$,
	$$UPDATE kube_reports_internal.subject SET name = 'WRONG', kind = 'Pod'
		WHERE id IN (SELECT r.subject FROM kube_reports_internal.result r)$$,
	$$DELETE FROM kube_reports_internal.subject$$,
	$$UPDATE kube_reports_internal.rollup SET count = count + 5$$,
	$$UPDATE kube_reports_internal.rollup_policy SET fail = fail + 5, skip = -1$$,
	$$UPDATE kube_reports_internal.rollup_policy SET criterion = criterion + 1$$,
	$$UPDATE kube_reports_internal.rollup_policy SET policy = policy + 1$$,
	$$UPDATE kube_reports_internal.rollup_policy SET namespace = 'zz', cluster_id = 2$$,
	$$DELETE FROM kube_reports_internal.rollup_policy$$,
	$$UPDATE kube_reports_internal.rollup_daily SET count = count + 5 WHERE day = (now() AT TIME ZONE 'UTC')::date$$,
	$$UPDATE kube_reports_internal.score_daily SET pass = pass + 5, fail = fail - 1
		WHERE day = (now() AT TIME ZONE 'UTC')::date$$,
	$$UPDATE kube_reports_internal.report_change SET new_statuses = replace(new_statuses, 'w', 's')$$,
	$$UPDATE kube_reports_internal.report_change SET cluster_id = 2, namespace = 'zz'$$,
	-- What is lost of days and events that are over stays lost.
	$$DELETE FROM kube_reports_internal.rollup$$,
	$$DELETE FROM kube_reports_internal.rollup_daily$$,
	$$DELETE FROM kube_reports_internal.score_daily$$,
	$$SELECT pg_temp.lose('w')$$,
	$$DELETE FROM kube_reports_internal.report_change$$);
SELECT statement, told, told_again, altered FROM corruption ORDER BY number;
-- Counts that are not folded are as right or wrong as those that are.
CREATE PROCEDURE pg_temp.corrupt_unfolded(VARIADIC statements text[]) LANGUAGE plpgsql AS $$
BEGIN
	FOR number IN 1 .. cardinality(statements) LOOP
		PERFORM pg_temp.written('b', format('[{"policy": "p", "rule": "r2", "result": "fail"}, {"policy": "p", '
			'"rule": "%s", "result": "warn", "category": "c%s"}]', number, number)::jsonb);
		CALL pg_temp.corrupt(statements[number]);
	END LOOP;
END
$$;
TRUNCATE corruption;
CALL pg_temp.corrupt_unfolded(
	$$UPDATE kube_reports_internal.result SET namespace = 'zz'$$,
	$$DELETE FROM kube_reports_internal.result$$,
	$$UPDATE kube_reports_internal.rollup SET count = count + 5$$,
	$$DELETE FROM kube_reports_internal.rollup$$,
	$$UPDATE kube_reports_internal.rollup_policy SET fail = fail + 5$$,
	$$DELETE FROM kube_reports_internal.rollup_policy$$,
	$$DELETE FROM kube_reports_internal.rollup_delta$$,
	$$UPDATE kube_reports_internal.rollup_delta SET counts = counts || counts, statuses = statuses || statuses,
		criteria = criteria || criteria, native_statuses = native_statuses || native_statuses$$,
	$$UPDATE kube_reports_internal.rollup_daily SET count = count + 5$$,
	$$UPDATE kube_reports_internal.score_daily SET pass = pass + 5$$);
SELECT statement, told, told_again FROM corruption ORDER BY number;
-- History that was lost ends where the results are, as far as it is known; who wrote is not.
CREATE VIEW pg_temp.end_of_history AS
	SELECT g.name AS report, k.rule, kube_reports_internal.status_name(c.old_status) AS was,
		kube_reports_internal.status_name(c.new_status) AS is, c.at = r.since AS since_then,
		c.first_seen = r.first_seen AS as_old,
		c.actor <> 0 AS by_anybody, c.settles_at <= now() AS settled
	FROM kube_reports_internal.result_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
		JOIN kube_reports_internal.criterion k ON k.id = c.criterion
		LEFT JOIN kube_reports_internal.result r ON r.origin = c.origin AND r.key = c.key
	ORDER BY c.version, k.rule;
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r2", "result": "pass"}]');
DELETE FROM kube_reports_internal.report_change;
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.end_of_history;
SELECT count(DISTINCT c.version) = count(DISTINCT c.origin) AS versions_of_their_own
	FROM kube_reports_internal.result_change c;
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r2", "result": "warn"}]');
SELECT pg_temp.written('b', '[{"policy": "p", "rule": "r2", "result": "fail"}]');
SELECT pg_temp.lose('f');
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.end_of_history WHERE report = 'b';
SELECT pg_temp.written('b', '[]');
SELECT pg_temp.lose(NULL);
SELECT what, name, expected, found - 'since' AS found FROM kube_reports.verify();
CALL kube_reports.rebuild();
SELECT * FROM pg_temp.end_of_history WHERE report = 'b';
-- What went with a month that is over is not missed.
UPDATE kube_reports_internal.origin SET first_seen = first_seen - interval '26 months';
UPDATE kube_reports_internal.result SET first_seen = first_seen - interval '26 months',
	since = since - interval '26 months';
UPDATE kube_reports_internal.result_since SET first_seen = first_seen - interval '26 months',
	since = since - interval '26 months';
DELETE FROM kube_reports_internal.report_change;
SELECT * FROM kube_reports.verify();
CALL kube_reports.rebuild();
SELECT count(*) AS history FROM kube_reports_internal.result_change;
SELECT * FROM kube_reports.verify();
-- What no document holds is told, and cannot be mended.
UPDATE kube_reports_internal.actor SET name = 'WRONG';
CALL kube_reports.rebuild();
SELECT what, count(*), min(found->>'name') AS name FROM kube_reports.verify() GROUP BY 1;
UPDATE kube_reports_internal.actor SET name = session_user;
SELECT * FROM kube_reports.verify();

---- other types, other mappings ----
CREATE FUNCTION pg_temp.crd("group" text, plural text, kind text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('apiVersion', 'apiextensions.k8s.io/v1', 'kind', 'CustomResourceDefinition', 'metadata',
		jsonb_build_object('name', plural || '.' || "group"),
		'spec', jsonb_build_object('group', "group", 'scope', 'Namespaced', 'names',
			jsonb_build_object('plural', plural, 'singular', lower(kind), 'kind', kind, 'listKind', kind || 'List'),
			'versions', '[{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": '
				'{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]'::jsonb))
$$;
SELECT kube_reports.register_crd(pg_temp.crd('compliance.openshift.io', 'compliancecheckresults',
	'ComplianceCheckResult')) > 0 AS registered;
SELECT kube_reports.register_crd(pg_temp.crd('aquasecurity.github.io', 'configauditreports', 'ConfigAuditReport')) > 0
	AS registered;
SELECT kube_reports.register_crd(pg_temp.crd('example.com', 'findings', 'Finding'), 'current');
SELECT kube_reports.register_crd(pg_temp.crd('example.com', 'findings', 'Finding')) > 0 AS registered;
SELECT t.plural, t.results, t.mapping IS NOT NULL AS mapped FROM kube_reports.resource_type t
	WHERE NOT t.builtin ORDER BY 1;
SELECT count(kube_reports.create_report(:'one',
	(d || '{"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult"}')::kube_reports.report))
	FROM (VALUES
	('{"metadata": {"name": "scan-one", "namespace": "co", "labels": {"compliance.openshift.io/scan-name": "scan", '
		'"compliance.openshift.io/suite": "cis"}, "annotations": {"compliance.openshift.io/rule": "one"}}, "id": '
		'"xccdf_one", "status": "PASS", "severity": "medium"}'::jsonb),
	('{"metadata": {"name": "scan-two", "namespace": "co", "labels": {"compliance.openshift.io/scan-name": "scan"}, '
		'"annotations": {"compliance.openshift.io/rule": "two"}}, "id": "xccdf_two", "status": "MANUAL", "severity": '
		'"high"}'),
	('{"metadata": {"name": "scan-three", "namespace": "co", "labels": {"compliance.openshift.io/scan-name": '
		'"scan"}}, "id": "xccdf_three", "status": "INCONSISTENT", "severity": "what"}')) v(d);
SELECT kube_reports.create_report(:'one', '{"apiVersion": "aquasecurity.github.io/v1alpha1",
	"kind": "ConfigAuditReport", "metadata": {"name": "audit", "namespace": "ns",
	"labels": {"trivy-operator.resource.kind": "ReplicaSet", "trivy-operator.resource.name": "app"}},
	"report": {"updateTimestamp": "2024-01-01T00:00:00Z", "checks": [
		{"checkID": "KSV001", "title": "t", "severity": "MEDIUM", "category": "c", "success": false,
			"messages": ["first", "second"]},
		{"checkID": "KSV002", "title": "t2", "severity": "CRITICAL", "success": true}]}}') IS NOT NULL;
SELECT report, policy, rule, severity, status, native, kind, name, message FROM pg_temp.current
	WHERE report NOT IN ('a', 'b');
CALL pg_temp.fold();
SELECT category, pass, fail, error, skip, excluded FROM kube_reports_internal.score_daily
	WHERE namespace = 'co' ORDER BY 1, 2;
SELECT kube_reports.create_report(:'one', '{"apiVersion": "example.com/v1alpha1", "kind": "Finding", "metadata": '
	'{"name": "f", "namespace": "ns"}, "spec": {"list": [{"id": "x", "level": "bad", "points": 9.1, "why": "because", '
	'"on": [{"n": "a"}, {"n": "b"}]}, 7]}}') IS NOT NULL;
SELECT kube_reports.set_results_mapping('findings.example.com', '{"list": ".spec", "policy": "id", "rule": "@.x", '
	'"subjects": [{"each": ".on", "nme": "@.n"}], "score": {"path": ".p", "value": "1"}, "other": 1}');
SELECT kube_reports.set_results_mapping('policyreports.wgpolicyk8s.io', '{}');
SELECT kube_reports.set_results_mapping('nothing.example.com', '{}');
SELECT kube_reports.set_results_mapping('findings.example.com', '{"list": "$.spec.list",
	"source": {"value": "finder"}, "policy": ".id", "status": {"path": ".level", "map": {"bad": "fail"}},
	"score": ".points", "properties": {"why": ".why"},
	"subjects": [{"each": ".on", "kind": {"value": "Thing"}, "name": "@.n"}]}');
SELECT report, policy, status, native, score, kind, name FROM pg_temp.current WHERE report = 'f';
SELECT count(*) AS history FROM kube_reports_internal.result_change c
	JOIN kube_reports_internal.origin g ON g.id = c.origin WHERE g.name = 'f';
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.spec.list", "policy": ".id", "status": {"path": ".level", "map": {"bad": "warn"}}}');
SELECT report, policy, status, native, score, kind, name FROM pg_temp.current WHERE report = 'f';
SELECT * FROM kube_reports.verify();
-- Another subject was another result; another meaning of a word is a change, and a type without results has none.
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.spec.list", "policy": ".id", "status": {"path": ".level", "map": {"bad": "error"}}}');
SELECT kube_reports.register_crd(pg_temp.crd('example.com', 'findings', 'Finding'), 'none') > 0 AS registered;
SELECT count(*) AS rows FROM pg_temp.current WHERE report = 'f';
SELECT kube_reports_internal.status_name(c.old_status) AS was, kube_reports_internal.status_name(c.new_status) AS is,
	count(*) FROM kube_reports_internal.result_change c JOIN kube_reports_internal.origin g ON g.id = c.origin
	WHERE g.name = 'f' GROUP BY c.version, 1, 2 ORDER BY c.version, 1;
SELECT * FROM kube_reports.verify();
SELECT kube_reports.unregister('findings.example.com', true);
SELECT * FROM kube_reports.verify();

---- upkeep ----
-- Nothing is left that nothing refers to.
SELECT count(*) AS details FROM kube_reports_internal.detail d
	WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.detail = d.id) \gset
SELECT :details > 0 AS garbage;
SELECT count(kube_reports_internal.collect_garbage()) AS steps FROM generate_series(1, 200);
SELECT count(*) AS details FROM kube_reports_internal.detail d
	WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result r WHERE r.detail = d.id);
SELECT count(*) FROM kube_reports.verify();
-- History of months that are over goes as a whole.
SELECT kube_reports.make_history('2020-02-29 23:59:59+00');
SELECT kube_reports.make_history('2020-02-01 00:00:00+00');
SELECT count(*) FROM pg_inherits WHERE inhparent = 'kube_reports_internal.report_change'::regclass
	AND inhrelid::regclass::text LIKE '%2020%';
SELECT kube_reports_internal.expire_history(), kube_reports_internal.expire_history();
SELECT count(*) FROM pg_inherits WHERE inhparent = 'kube_reports_internal.report_change'::regclass
	AND inhrelid::regclass::text LIKE '%2020%';
SELECT kube_reports.enable_text_search(), kube_reports.enable_text_search();
SELECT kube_reports.setting('text_search');
-- A literal finds each score that it names.
SELECT pg_temp.written('scores', (SELECT jsonb_agg(jsonb_build_object('policy', 'p', 'rule', 'r' || n, 'result', 'fail',
	'properties', jsonb_build_object('score', round(n / 10.0, 1)::text))) FROM generate_series(1, 100) n));
SELECT count(*) FILTER (WHERE score >= 9.9) AS from_9_9, count(*) FILTER (WHERE score = 7.2) AS "7.2",
	count(*) FILTER (WHERE score <> score::text::numeric) AS unequal
	FROM kube_reports.typed_result WHERE report = 'scores';
-- A cluster that goes takes everything along.
DELETE FROM kube_reports.object;
DELETE FROM kube_reports_internal.lane;
DELETE FROM kube_reports.cluster;
SELECT (SELECT count(*) FROM kube_reports_internal.result) AS results,
	(SELECT count(*) FROM kube_reports_internal.result_change) AS history,
	(SELECT count(*) FROM kube_reports_internal.origin) AS origins,
	(SELECT count(*) FROM kube_reports_internal.subject) AS subjects,
		(SELECT count(*) FROM kube_reports_internal.rollup) AS rollups,
		(SELECT count(*) FROM kube_reports_internal.rollup_daily) AS daily,
	(SELECT count(*) FROM kube_reports_internal.rollup_policy) AS policies,
	(SELECT count(*) FROM kube_reports_internal.result_since) AS times;
DROP EXTENSION pg_trgm CASCADE;
