-- The clock jumps: history stays in the order of versions, and is kept.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
CREATE FUNCTION pg_temp.report(name text, status text) RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport', 'metadata',
		jsonb_build_object('name', name, 'namespace', 'ns'),
		'results', jsonb_build_array(jsonb_build_object('policy', 'p', 'rule', name, 'result',
			status)))::kube_reports.report
$$;
-- All that there is was written by a clock that was ahead.
CREATE FUNCTION pg_temp.ahead(by interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM kube_reports.make_history(now() + by + days * interval '1 day') FROM generate_series(0, 4) days;
	UPDATE kube_reports_internal.change SET at = at + by;
	UPDATE kube_reports_internal.report_change c SET at = c.at + by, settles_at = c.settles_at + by,
		first_seen = CASE WHEN c.first_seen IS NOT NULL THEN ARRAY(SELECT t + by FROM unnest(c.first_seen) t) END,
		old_since = CASE WHEN c.old_since IS NOT NULL THEN ARRAY(SELECT t + by FROM unnest(c.old_since) t) END;
	UPDATE kube_reports_internal.result SET first_seen = first_seen + by, since = since + by;
	UPDATE kube_reports_internal.result_since SET first_seen = first_seen + by, since = since + by;
	UPDATE kube_reports_internal.origin SET first_seen = first_seen + by;
END
$$;
CREATE VIEW pg_temp.order_kept AS
	SELECT (SELECT bool_and(c.in_order) FROM
		(SELECT c.at >= lag(c.at, 1, '-infinity') OVER (ORDER BY c.version) AS in_order
		FROM kube_reports_internal.change c) c) AS log,
		(SELECT bool_and(c.in_order) FROM (SELECT c.at >= lag(c.at, 1,
			'-infinity') OVER (ORDER BY c.version) AS in_order
			FROM kube_reports_internal.result_change c) c) AS history,
		(SELECT count(*) FROM kube_reports_internal.result_change) AS events;

-- Set back by an hour: through the API, by DML, and when the log has nothing left to tell what time it was.
SELECT kube_reports.create_report(:'one', pg_temp.report('a', 'pass')) IS NOT NULL AS created;
SELECT pg_temp.ahead('1 hour');
SELECT kube_reports.create_report(:'one', pg_temp.report('b', 'pass')) IS NOT NULL AS created;
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a',
	'{"results": [{"policy": "p", "rule": "a", "result": "fail"}]}') IS NOT NULL AS patched;
SELECT * FROM pg_temp.order_kept;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'ns', 'c', '{}', '{"results": [{"policy": "p", "rule": "c", "result": "fail"}]}'
		FROM kube_reports.cluster c;
DELETE FROM kube_reports.object WHERE name = 'b';
SELECT * FROM pg_temp.order_kept;
SELECT kube_reports.set_setting('log_bytes', '0');
SELECT kube_reports_internal.compact() AS more;
SELECT count(*) AS log FROM kube_reports_internal.change;
SELECT kube_reports.create_report(:'one', pg_temp.report('d', 'pass')) IS NOT NULL AS created;
SELECT * FROM pg_temp.order_kept;
SELECT kube_reports.set_setting('log_bytes', '1073741824');

-- Times of results are those of their events.
SELECT count(*) AS wrong FROM kube_reports.verify();

-- What was counted on days to come counts today, as it does without days.
UPDATE kube_reports_internal.rollup_delta SET day = day + 3;
UPDATE kube_reports_internal.score_daily SET day = day + 3;
SELECT (s.pass, s.fail) = (SELECT sum(c.pass), sum(c.fail) FROM kube_reports.status_counts c) AS today_in_full
	FROM kube_reports.compliance_score('-infinity', 'infinity') s;
SELECT (f.pass, f.fail) = (SELECT sum(c.pass), sum(c.fail) FROM kube_reports.status_counts c) AS of_the_fleet,
	kube_reports.dashboard()#>>'{trend,-1,fail}' = f.fail::text AS of_the_page
	FROM kube_reports.fleet_score('-infinity', 'infinity') f;
UPDATE kube_reports_internal.rollup_delta SET day = day - 3;
UPDATE kube_reports_internal.score_daily SET day = day - 3;

-- By more than a day: it was wrong before, and is believed now.
SELECT pg_temp.ahead('2 days');
SELECT kube_reports.create_report(:'one', pg_temp.report('e', 'pass')) IS NOT NULL AS created;
SELECT log, history FROM pg_temp.order_kept;
SELECT now() - max(c.at) < '1 hour' AS now_again FROM kube_reports_internal.change c WHERE c.name = 'e';

-- Ahead by years: what was written before is as old as it was.
SELECT pg_temp.ahead('-30 months');
DO $$ BEGIN FOR month IN 0..30 LOOP PERFORM kube_reports.make_history(now() - month * interval '1 month'); END LOOP; END
	$$;
-- In the last days of a month the next one is there already.
CREATE FUNCTION pg_temp.months() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
	WHERE i.inhparent = 'kube_reports_internal.report_change'::regclass
		AND c.relname <= 'report_change_' || to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM') $$;
SELECT pg_temp.months() AS months, count(*) AS events FROM kube_reports_internal.result_change \gset
SELECT kube_reports_internal.expire_history() AS dropped;
SELECT pg_temp.months() = :months AS kept;
-- The first event of the new time makes the rest old, but a month goes on a day, and no more.
SELECT kube_reports.create_report(:'one', pg_temp.report('f', 'pass')) IS NOT NULL AS created;
SELECT pg_temp.months() AS months \gset
SELECT kube_reports_internal.expire_step() AS first, kube_reports_internal.expire_step() AS second;
SELECT bool_or(kube_reports.maintain()) IS NOT NULL AS maintained FROM generate_series(1, 20);
SELECT :months - pg_temp.months() AS dropped;
UPDATE kube_reports_internal.store SET history_expired_at = history_expired_at - interval '1 day';
SELECT kube_reports_internal.expire_step() AS next_day, kube_reports_internal.expire_step() AS again;
SELECT :months - pg_temp.months() AS dropped;
-- Whoever calls it knows what time it is.
SELECT kube_reports_internal.expire_history() AS dropped;

-- Counts of days: a twenty-fifth of what there is in a day.
UPDATE kube_reports_internal.store SET daily_cut = (now() AT TIME ZONE 'UTC')::date - 1500, daily_cut_at = NULL;
SELECT kube_reports_internal.expire_step() AS first, kube_reports_internal.expire_step() AS second;
SELECT (now() AT TIME ZONE 'UTC')::date - s.daily_cut AS kept FROM kube_reports_internal.store s;
UPDATE kube_reports_internal.store SET daily_cut_at = daily_cut_at - interval '25 hours';
SELECT kube_reports_internal.expire_step() AS next_day;
SELECT (now() AT TIME ZONE 'UTC')::date - s.daily_cut AS kept FROM kube_reports_internal.store s;
-- The newest event says what time it is where the clock is ahead.
UPDATE kube_reports_internal.report_change SET at = at - interval '20 months';
SELECT kube_reports_internal.history_ends() < now() - interval '18 months' AS ended;
SELECT kube_reports_internal.expire_days() AS expired;
SELECT (now() AT TIME ZONE 'UTC')::date - s.daily_cut > 1300 AS kept FROM kube_reports_internal.store s;

UPDATE kube_reports_internal.report_change SET at = at + interval '20 months';

-- The owner has all of it at once.
CALL kube_reports.expire();
SELECT s.daily_cut = (now() AT TIME ZONE 'UTC' - kube_reports.setting('daily_retention')::interval)::date AS now
	FROM kube_reports_internal.store s;

-- Of few months one is much: it has more time.
SELECT kube_reports.set_setting('history_retention', '2 months');
DO $$ BEGIN FOR month IN 1..40 LOOP EXIT WHEN pg_temp.months() <= 5
	OR NOT kube_reports_internal.expire_history(); END LOOP; END $$;
SELECT pg_temp.months() AS months;
UPDATE kube_reports_internal.store SET history_expired_at = now() - interval '4 days';
SELECT kube_reports_internal.expire_step() AS fourth_day;
UPDATE kube_reports_internal.store SET history_expired_at = now() - interval '6 days';
SELECT kube_reports_internal.expire_step() AS sixth_day;
-- A time that has not come yet was another clock's.
UPDATE kube_reports_internal.store SET history_expired_at = now() + interval '10 years';
SELECT kube_reports_internal.expire_step() AS not_yet;

-- The log: a jump ahead makes all of it old, and a part of it goes in a minute.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, 1, 'log', 'l' || n, '{}', '{}' FROM kube_reports.cluster c, generate_series(1, 1000) n;
UPDATE kube_reports_internal.change SET at = at - interval '5 hours';
CREATE FUNCTION pg_temp.compacted() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	FOR step IN 1..10 LOOP PERFORM kube_reports_internal.compact(); END LOOP;
	RETURN (SELECT count(*) FROM kube_reports_internal.change);
END
$$;
UPDATE kube_reports_internal.log_size SET aging_at = NULL;
SELECT count(*) AS before FROM kube_reports_internal.change \gset
SELECT pg_temp.compacted() BETWEEN :before * 0.9 AND :before * 0.95 AS first_minute;
SELECT pg_temp.compacted() BETWEEN :before * 0.9 AND :before * 0.95 AS no_more;
UPDATE kube_reports_internal.log_size SET aging_at = aging_at - interval '1 minute';
SELECT pg_temp.compacted() BETWEEN :before * 0.84 AND :before * 0.89 AS second_minute;
-- All of it in the end.
DO $$ BEGIN FOR minute IN 1..200 LOOP UPDATE kube_reports_internal.log_size
	SET aging_at = NULL; PERFORM kube_reports_internal.compact(); END LOOP; END $$;
SELECT count(*) AS log FROM kube_reports_internal.change;
