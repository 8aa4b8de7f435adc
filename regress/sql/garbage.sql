-- A store that turns over holds what there is, and what is to be kept of the past.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
-- Reports of a namespace of their own, each with a message, a rule and a subject that no other one has.
CREATE FUNCTION pg_temp.fill(namespace text, many integer) RETURNS void LANGUAGE sql AS $$
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
		SELECT c.id, 1, namespace, 'r' || n, '{}', jsonb_build_object('scope', jsonb_build_object('kind', 'Pod',
			'name', namespace || n),
			'results', jsonb_build_array(jsonb_build_object('policy', 'p' || n % 10, 'rule', namespace || n, 'result',
				'fail', 'message', namespace || ' ' || n),
				jsonb_build_object('policy', 'always', 'result', 'pass')))::kube_reports.report
		FROM kube_reports.cluster c, generate_series(1, many) n
$$;
-- At the pace of upkeep: each table is due once, and where a step finds much the next one follows at once.
CREATE PROCEDURE hurried_upkeep() LANGUAGE plpgsql AS $$
DECLARE
	more		boolean := true;
BEGIN
	UPDATE kube_reports_internal.garbage_sweep SET due_at = '-infinity';
	COMMIT;
	FOR step IN 1..5000 LOOP
		more := kube_reports.maintain();
		COMMIT;
		EXIT WHEN NOT more;
	END LOOP;
	IF more THEN
		RAISE EXCEPTION 'upkeep does not end';
	END IF;
END
$$;
-- As a proxy does it, a minute after the last time, and each minute until the tables have been looked through.
CREATE PROCEDURE upkeep() LANGUAGE plpgsql AS $$
DECLARE
	more		boolean;
BEGIN
	UPDATE kube_reports_internal.garbage_sweep SET due_at = '-infinity';
	COMMIT;
	FOR step IN 1..1000 LOOP
		more := kube_reports.maintain();
		UPDATE kube_reports_internal.garbage_sweep SET due_at = '-infinity' WHERE place > 0;
		more := FOUND OR more;
		COMMIT;
		EXIT WHEN NOT more;
	END LOOP;
END
$$;
CREATE VIEW pg_temp.garbage AS
	SELECT (SELECT count(*) FROM kube_reports_internal.detail d
		WHERE NOT EXISTS (SELECT FROM kube_reports_internal.result r
		WHERE r.detail = d.id)) AS details,
		(SELECT count(*) FROM kube_reports_internal.rollup WHERE count = 0) AS rollups,
		(SELECT count(*) FROM kube_reports_internal.rollup_policy
			WHERE pass + warn + fail + error + skip = 0) AS policies,
		(SELECT count(*) FROM kube_reports_internal.rollup_daily) AS days, (SELECT count(*)
			FROM kube_reports_internal.score_daily) AS scores;

SELECT pg_temp.fill('stays', 10);
CALL upkeep();
SELECT * FROM pg_temp.garbage;
-- Ten times over.
DO $$
BEGIN
	FOR turn IN 1..10 LOOP
		PERFORM pg_temp.fill('turn-' || turn, 150);
		COMMIT;
		PERFORM kube_reports_internal.fold_rollups();
		DELETE FROM kube_reports.object WHERE namespace = 'turn-' || turn;
		COMMIT;
		PERFORM kube_reports_internal.fold_rollups();
		COMMIT;
	END LOOP;
END
$$;
SELECT * FROM pg_temp.garbage;
CALL hurried_upkeep();
SELECT * FROM pg_temp.garbage;
SELECT count(*) AS results FROM kube_reports_internal.result;
SELECT count(*) AS wrong FROM kube_reports.verify();
-- History tells of them as long as it is kept, and needs their names.
SELECT count(*) AS events, count(k.id) AS criteria, count(s.id) AS subjects, count(g.id) AS origins
	FROM kube_reports_internal.result_change c LEFT JOIN kube_reports_internal.criterion k ON k.id = c.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = c.subject
		LEFT JOIN kube_reports_internal.origin g ON g.id = c.origin;
DELETE FROM kube_reports_internal.report_change c USING kube_reports_internal.origin g WHERE g.id = c.origin
	AND g.namespace <> 'stays';
CALL upkeep();
SELECT (SELECT count(*) FROM kube_reports_internal.subject) AS subjects,
	(SELECT count(*) FROM kube_reports_internal.origin) AS origins,
	(SELECT count(*) FROM kube_reports_internal.criterion) AS criteria;
-- Subjects and criteria go with the months that can have told of them.
UPDATE kube_reports_internal.subject SET unused_since = unused_since - interval '4 months';
UPDATE kube_reports_internal.criterion SET last_counted = last_counted - interval '3 months';
CALL hurried_upkeep();
SELECT (SELECT count(*) FROM kube_reports_internal.subject) AS subjects,
	(SELECT count(*) FROM kube_reports_internal.criterion) AS criteria;
SELECT count(*) AS wrong FROM kube_reports.verify();

-- So do users, whoever writes again among them.
SELECT count(*) AS stored, bool_or(a.name = current_user) AS mine, bool_and(a.last_used <= now()) AS past
	FROM kube_reports_internal.actor a;
INSERT INTO kube_reports_internal.actor (id, name) SELECT kube_reports_internal.field_hash('actor', u.name), u.name
	FROM unnest('{gone,there}'::text[]) u(name);
UPDATE kube_reports_internal.actor SET last_used = last_used - interval '4 months' WHERE name <> 'there';
SELECT pg_temp.fill('again', 1);
SELECT bool_and(a.last_used >= date_trunc('month', now())) AS noted FROM kube_reports_internal.actor a
	WHERE a.name = current_user;
DELETE FROM kube_reports.object WHERE namespace = 'again';
SELECT kube_reports_internal.fold_rollups() AS more;
CALL upkeep();
SELECT CASE a.name WHEN current_user THEN 'mine' ELSE a.name END AS name FROM kube_reports_internal.actor a ORDER BY 1;

-- What has happened on other days stays as long as days are kept; of what holds still, the last one stays.
SELECT kube_reports.set_setting('daily_retention', '10 days');
UPDATE kube_reports_internal.rollup_daily SET day = day - 30;
UPDATE kube_reports_internal.score_daily SET day = day - 30;
SELECT pg_temp.fill('old', 3);
SELECT kube_reports_internal.fold_rollups() AS more;
UPDATE kube_reports_internal.rollup_daily SET day = day - 20 WHERE day > (now() AT TIME ZONE 'UTC')::date - 2;
UPDATE kube_reports_internal.score_daily SET day = day - 20 WHERE day > (now() AT TIME ZONE 'UTC')::date - 2;
DELETE FROM kube_reports.object WHERE namespace = 'old';
SELECT kube_reports_internal.fold_rollups() AS more;
UPDATE kube_reports_internal.rollup_daily SET day = day - 5 WHERE day > (now() AT TIME ZONE 'UTC')::date - 2;
UPDATE kube_reports_internal.score_daily SET day = day - 5 WHERE day > (now() AT TIME ZONE 'UTC')::date - 2;
CALL upkeep();
CREATE VIEW pg_temp.days AS
	SELECT (now() AT TIME ZONE 'UTC')::date - d.day AS age, r.namespace, d.count AS value, count(*) AS rows
		FROM kube_reports_internal.rollup_daily d JOIN kube_reports_internal.rollup r ON r.id = d.rollup
	GROUP BY 1, 2, 3 ORDER BY 1 DESC, 2, 3;
SELECT * FROM pg_temp.days;
-- Older than ten days: the time before is gone, day by day, but what holds still holds.
SELECT kube_reports_internal.expire_days() AS expired, kube_reports_internal.expire_days() AS again;
CALL upkeep();
SELECT * FROM pg_temp.days;
SELECT (now() AT TIME ZONE 'UTC')::date - s.day AS age, s.namespace, s.pass, s.fail
	FROM kube_reports_internal.score_daily s
	ORDER BY 1 DESC, 2;
-- And when the change itself is out of time nothing is left of it.
UPDATE kube_reports_internal.rollup_daily SET day = day - 20;
UPDATE kube_reports_internal.score_daily SET day = day - 20;
CALL upkeep();
SELECT * FROM pg_temp.days;
SELECT * FROM pg_temp.garbage;
SELECT count(*) AS wrong FROM kube_reports.verify();
-- A day that changes nothing is no row.
SELECT pg_temp.fill('fro', 1);
DELETE FROM kube_reports.object WHERE namespace = 'fro';
SELECT kube_reports_internal.fold_rollups() AS more;
UPDATE kube_reports.object SET body = jsonb_set(body::jsonb, '{results,0,result}', '"pass"')::kube_reports.report
	WHERE name = 'r1';
SELECT kube_reports_internal.fold_rollups() AS more;
UPDATE kube_reports.object SET body = jsonb_set(body::jsonb, '{results,0,result}', '"fail"')::kube_reports.report
	WHERE name = 'r1';
SELECT kube_reports_internal.fold_rollups() AS more;
CALL upkeep();
SELECT * FROM pg_temp.garbage;
SELECT count(*) AS wrong FROM kube_reports.verify();
DROP PROCEDURE upkeep(), hurried_upkeep();
