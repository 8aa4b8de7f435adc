-- A cluster goes with everything that is of it, and with nothing that is not.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
\set two '00000000-0000-0000-0000-000000000002'
CREATE ROLE regress_leaving;
CREATE ROLE regress_looking;
CREATE ROLE regress_chief;
GRANT regress_leaving, regress_looking, regress_chief TO current_user;
SELECT kube_reports.grant_proxy('regress_leaving', :'one');
SELECT kube_reports.register_cluster(:'two') IS NOT NULL AS known;
SET client_min_messages = warning;
SELECT kube_reports.grant_admin('regress_chief');
SELECT kube_reports.grant_cluster('regress_looking', :'one');
SELECT kube_reports.grant_namespace('regress_looking', :'one', 'ns');
RESET client_min_messages;

-- Upkeep notes about once a minute that a proxy serves its cluster, and no other cluster: a connection may last for
-- weeks.
UPDATE kube_reports.cluster SET last_seen = now() - interval '2 hours';
SELECT kube_reports_internal.api_maintain(:'one') IS NOT NULL AS maintained;
SELECT f.cluster, f.silent_for < interval '1 minute' AS seen FROM kube_reports.fleet_freshness f ORDER BY f.cluster;
UPDATE kube_reports.cluster SET last_seen = now() - interval '30 seconds' WHERE uid = :'one' RETURNING last_seen \gset
SELECT kube_reports_internal.api_maintain(:'one') IS NOT NULL AS maintained;
SELECT c.last_seen = :'last_seen' AS as_before FROM kube_reports.cluster c WHERE c.uid = :'one';
-- A time far ahead was stored while the clock was ahead.
UPDATE kube_reports.cluster SET last_seen = now() + interval '1 day' WHERE uid = :'one';
SELECT f.silent_for IS NULL AS unknown FROM kube_reports.fleet_freshness f WHERE f.cluster = :'one';
SELECT kube_reports_internal.api_maintain(:'one') IS NOT NULL AS maintained;
SELECT c.last_seen <= now() AS of_now FROM kube_reports.cluster c WHERE c.uid = :'one';

CREATE FUNCTION pg_temp.fill(cluster uuid, many integer) RETURNS void LANGUAGE sql AS $$
	INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
		SELECT c.id, t, 'ns', 'r' || n, '{}', jsonb_build_object('scope', jsonb_build_object('kind', 'Pod', 'name',
			'p' || n),
			'results', jsonb_build_array(jsonb_build_object('policy', 'p', 'rule', 'r' || n % 7, 'result', 'fail',
				'message', 'of ' || cluster)))::kube_reports.report
		FROM kube_reports.cluster c, generate_series(1, many) n, (VALUES (1), (3)) types(t) WHERE c.uid = cluster
$$;
-- How many rows of a cluster each table has, by its column, its lanes, its reports or its counts.
CREATE FUNCTION pg_temp.rows_of(cluster uuid) RETURNS TABLE (name text, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	owned		record;
BEGIN
	FOR owned IN SELECT c.oid::regclass AS source, c.relname, a.attname FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped
			AND (a.attname = 'cluster_id' OR a.attname = 'lane' AND a.atttypid = 'integer'::regtype
				OR a.attname IN ('origin', 'rollup') AND NOT EXISTS (SELECT FROM pg_attribute o
					WHERE o.attrelid = c.oid AND o.attname = 'cluster_id'))
		ORDER BY c.relname
	LOOP
		name := owned.relname;
		EXECUTE format('SELECT count(*) FROM %s WHERE %I IN (SELECT o.id FROM %I o WHERE o.uid = $1)', owned.source,
			owned.attname, CASE owned.attname WHEN 'cluster_id' THEN 'ids' ELSE owned.attname || 's_of' END)
			INTO rows USING cluster;
		RETURN NEXT;
	END LOOP;
END
$$;
CREATE TEMP TABLE ids AS SELECT c.id, c.uid FROM kube_reports.cluster c;
CREATE TEMP TABLE lanes_of AS SELECT l.id, i.uid FROM kube_reports_internal.lane l JOIN ids i ON i.id = l.cluster_id;
CREATE TEMP TABLE origins_of (id bigint, uid uuid);
CREATE TEMP TABLE rollups_of (id bigint, uid uuid);
SELECT pg_temp.fill(:'one', 700), pg_temp.fill(:'two', 50);
SELECT kube_reports_internal.fold_rollups() AS more;
UPDATE kube_reports.object SET body = jsonb_set(body::jsonb, '{results,0,result}', '"warn"')::kube_reports.report
	WHERE name < 'r2';
DELETE FROM kube_reports.object WHERE name LIKE 'r3%';
-- A statement whose versions reach a multiple of 8192 folds all counts: the next one does not.
DO $$
BEGIN
	WHILE NOT EXISTS (SELECT FROM kube_reports_internal.rollup_delta d JOIN ids i ON i.id = d.cluster_id
			WHERE i.uid = '00000000-0000-0000-0000-000000000001') LOOP
		UPDATE kube_reports.object SET body = jsonb_set(body::jsonb, '{results,0,result}', to_jsonb(
				CASE body::jsonb#>>'{results,0,result}' WHEN 'fail' THEN 'warn' ELSE 'fail' END))::kube_reports.report
			WHERE name = 'r2';
	END LOOP;
END
$$;
SELECT kube_reports_internal.compact() AS more;
SELECT kube_reports.set_aggregation(:'one', admission => true);
SELECT kube_reports.add_webhook('hook', :'one', 'https://example.com/');
-- What else a cluster may have: 300 rows of each kind that grows.
INSERT INTO kube_reports_internal.namespace (cluster_id, name, uid, state)
	SELECT i.id, 'ns-' || n, 'u', 'active' FROM ids i, generate_series(1, 300) n;
SELECT kube_reports.add_sender(i.uid, 'sender-' || i.id, certificate => 'sender-' || i.id) IS NULL AS added FROM ids i;
INSERT INTO kube_reports_internal.forward_assessment (cluster_id, scan, assessment, seq, digest, reply, finished,
		latest, received_at)
	SELECT i.id, 's' || n, 'a', 0, '', '{}', false, true, now() FROM ids i, generate_series(1, 300) n;
INSERT INTO kube_reports_internal.forward_seen (cluster_id, scan, seq, keys)
	SELECT i.id, 's', n, ARRAY[n] FROM ids i, generate_series(1, 300) n;
INSERT INTO kube_reports_internal.forward_stream (cluster_id, stream, seq, sender, received_at)
	SELECT i.id, gen_random_uuid(), n, 's', now() FROM ids i, generate_series(1, 300) n;
INSERT INTO kube_reports_internal.evidence_file (cluster_id, scan, index, name, body, sha256, bytes, encoding, provider,
		place, key)
	SELECT i.id, 's', n, 'f', gen_random_uuid(), '', 1, '', 'directory', 'file:///e', 'k' || n
		FROM ids i, generate_series(1, 300) n;
INSERT INTO kube_reports_internal.imported (lane, namespace, name, uid, source_version, version, seen_at, source)
	SELECT l.id, 'ns', 'r' || n, gen_random_uuid(), '1', 1, now(), 'cluster' FROM lanes_of l, generate_series(1, 300) n;
INSERT INTO kube_reports_internal.active_policy_set (cluster_id, changed_at) SELECT i.id, now() FROM ids i;
INSERT INTO kube_reports_internal.active_policy (cluster_id, source, policy) SELECT i.id, '', 'p' FROM ids i;
-- The same of the cluster that leaves alone: upkeep of the other one would process it.  9 documents have a megabyte.
SELECT i.id AS leaving, min(l.id) AS lane FROM ids i JOIN lanes_of l ON l.uid = i.uid WHERE i.uid = :'one'
	GROUP BY i.id \gset
INSERT INTO kube_reports_internal.import_waiting (lane, at, namespace, name, actor, document)
	SELECT :lane, now(), 'ns', to_char(n, 'FM000'), 'a',
			jsonb_build_object('is', repeat('x', CASE WHEN n > 300 THEN 1000000 ELSE 1 END))::kube_reports.report
		FROM generate_series(1, 309) n;
INSERT INTO kube_reports_internal.result_pending (lane, namespace, name, first)
	VALUES (:lane, 'ns', 'r2', 9007199254740991);
INSERT INTO kube_reports_internal.result_rebuild (lane) VALUES (:lane);
INSERT INTO kube_reports_internal.evidence_body (id, cluster_id, place, key, bytes, remove_after)
	VALUES (gen_random_uuid(), :leaving, 'file:///e', 'k', 1, now());
INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
	SELECT :leaving, 'a', 'ns', n::text FROM generate_series(1, 300) n;
INSERT INTO kube_reports_internal.rollup_delta (cluster_id, namespace, kind, criteria, statuses, native_statuses,
		counts)
	SELECT :leaving, 'ns', 'Pod', '{}', '{}', '{}', '{}' FROM generate_series(1, 300) n;
INSERT INTO kube_reports_internal.rollup (criterion, count, cluster_id, status, namespace, kind, native_status)
	SELECT min(k.id), 0, :leaving, 'p', 'ns-' || n, 'Pod', '' FROM generate_series(1, 300) n,
		kube_reports_internal.criterion k GROUP BY n;
INSERT INTO kube_reports_internal.rollup_daily (rollup, count, day)
	SELECT r.id, n, date '2020-01-01' + n FROM kube_reports_internal.rollup r, generate_series(1, 30) n
		WHERE r.cluster_id = :leaving AND r.count <> 0;
INSERT INTO kube_reports_internal.rollup_policy (policy, criterion, pass, warn, fail, error, skip, cluster_id,
		namespace)
	SELECT min(k.policy_id), min(k.id), 0, 0, 0, 0, 0, :leaving, 'ns-' || n FROM generate_series(1, 300) n,
		kube_reports_internal.criterion k GROUP BY n;
INSERT INTO kube_reports_internal.score_daily (cluster_id, day, namespace, source, category, severity, pass, warn, fail,
		error, skip, excluded)
	SELECT :leaving, date '2020-01-01' + n, 'ns', '', '', '', 0, 0, 0, 0, 0, 0 FROM generate_series(1, 300) n;
INSERT INTO origins_of SELECT g.id, i.uid FROM kube_reports_internal.origin g JOIN ids i ON i.id = g.cluster_id;
INSERT INTO rollups_of SELECT r.id, i.uid FROM kube_reports_internal.rollup r JOIN ids i ON i.id = r.cluster_id;
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.rows_of(:'two');
-- Rows of the others live as long as a transaction that imports.
SELECT count(*) AS tables, string_agg(name, ', ') FILTER (WHERE rows = 0) AS empty FROM pg_temp.rows_of(:'one');
-- No table is forgotten: those with a column that names a cluster or what a cluster has, and those of foreign keys.
WITH RECURSIVE referring(relation) AS (
	SELECT 'kube_reports.cluster'::regclass
	UNION
	SELECT c.conrelid::regclass FROM referring r JOIN pg_constraint c ON c.confrelid = r.relation AND c.contype = 'f'
), owned AS (
	SELECT r.relation FROM referring r WHERE r.relation <> 'kube_reports.cluster'::regclass
	UNION
	SELECT c.oid::regclass FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND NOT a.attisdropped
			AND (a.attname = 'cluster_id' OR a.attname = 'lane' AND a.atttypid = 'integer'::regtype
				OR a.attname IN ('origin', 'rollup'))
)
SELECT coalesce(o.relation, t.relation) AS relation, o.relation IS NULL AS of_no_cluster,
		t.relation IS NULL AS forgotten
	FROM owned o FULL JOIN kube_reports_internal.cluster_tables() t ON t.relation = o.relation
	WHERE o.relation IS NULL OR t.relation IS NULL;


-- Not while a proxy is connected: here one with this session's role.
SELECT kube_reports.grant_proxy(current_user::name, :'one');
CALL kube_reports.unregister_cluster(:'one');
SELECT c.removing FROM kube_reports.cluster c WHERE c.uid = :'one';
DELETE FROM kube_reports_internal.proxy_role WHERE role = current_user;

-- A removal that is begun and not finished: nothing of the cluster comes any more.
SELECT kube_reports_internal.mark_cluster(:'one', false) IS NOT NULL AS marked;
SELECT kube_reports_internal.remove_cluster_step(:leaving, 200) AS more;
SELECT c.removing, (SELECT count(*) FROM kube_reports.object o WHERE o.cluster_id = c.id) > 0 AS some_left
	FROM kube_reports.cluster c WHERE c.uid = :'one';
SELECT kube_reports.create_report(:'one',
	'{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
		"metadata": {"name": "late", "namespace": "ns"}}');
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body) SELECT i.id, 1, 'ns',
	'late', '{}', '{}' FROM ids i WHERE i.uid = :'one';
SELECT kube_reports.grant_proxy('regress_leaving', :'one');
SELECT kube_reports.grant_cluster('regress_looking', :'one');
SELECT count(*) AS grants FROM kube_reports_internal.reader_grant WHERE role = 'regress_looking';
SELECT has_schema_privilege('regress_looking', 'kube_reports', 'USAGE') AS reads;
-- Nobody takes it back: the binding of its proxies' role is gone.
UPDATE kube_reports.cluster SET removing = false WHERE uid = :'one';
-- No step takes many rows, or documents of many megabytes; the last one takes lanes, and nothing that grows.
CREATE TEMP TABLE taken (step serial, rows jsonb, more boolean);
CREATE PROCEDURE remove_by_steps(steps integer) LANGUAGE plpgsql AS $$
DECLARE
	leaving CONSTANT uuid := '00000000-0000-0000-0000-000000000001';
	more		boolean := true;
	old			jsonb := (SELECT jsonb_object_agg(r.name, r.rows) FROM pg_temp.rows_of(leaving) r);
	new			jsonb;
BEGIN
	FOR step IN 1..steps LOOP
		more := kube_reports_internal.remove_cluster_step((SELECT i.id FROM ids i WHERE i.uid = leaving), 200);
		COMMIT;
		new := (SELECT jsonb_object_agg(r.name, r.rows) FROM pg_temp.rows_of(leaving) r);
		INSERT INTO taken (rows, more) SELECT jsonb_object_agg(o.key, o.value::bigint - (new->>o.key)::bigint)
				FILTER (WHERE o.value::bigint > (new->>o.key)::bigint), more
			FROM jsonb_each_text(old) o;
		old := new;
		EXIT WHEN NOT more;
	END LOOP;
END
$$;
CALL remove_by_steps(3);
-- Upkeep goes on with it, and so does whoever calls again.
SELECT count(*) AS before FROM kube_reports.object \gset
SELECT kube_reports_internal.remove_marked_clusters() AS more;
SELECT :before > count(*) AS went_on FROM kube_reports.object;
CALL remove_by_steps(1000);
SELECT count(*) > 50 AS many, max((SELECT sum(r.value::bigint) FROM jsonb_each_text(t.rows) r)) AS most
	FROM taken t WHERE t.more;
SELECT t.rows->'import_waiting' AS documents FROM taken t WHERE t.rows ? 'import_waiting' ORDER BY t.step;
SELECT r.name FROM taken t, jsonb_object_keys(t.rows) r(name) WHERE NOT t.more ORDER BY r.name;
DROP PROCEDURE remove_by_steps(integer);
-- Files of evidence are to be removed.
SELECT name, rows FROM pg_temp.rows_of(:'one') WHERE rows <> 0;
SELECT count(*) AS known FROM kube_reports.cluster c WHERE c.uid = :'one';
SELECT name, rows FROM pg_temp.rows_of(:'two') EXCEPT SELECT name, rows FROM before;
SELECT count(*) AS roles FROM kube_reports_internal.proxy_role;
SELECT count(*) AS wrong FROM kube_reports.verify();
-- Again there is nothing to do; and it may come back, as another one.
CALL kube_reports.unregister_cluster(:'one');
SELECT kube_reports.register_cluster(:'one') <> i.id AS another FROM ids i WHERE i.uid = :'one';
SELECT count(*) AS reports FROM kube_reports.object o JOIN kube_reports.cluster c ON c.id = o.cluster_id
	WHERE c.uid = :'one';
-- While it is served, when that is meant.
SELECT kube_reports.grant_proxy(current_user::name, :'one');
CALL kube_reports.unregister_cluster(:'one', force => true);
SELECT count(*) AS known FROM kube_reports.cluster c WHERE c.uid = :'one';
-- Upkeep that an administrator calls continues what a call has begun, also in months that were made after the grant;
-- and so does a second call.
SELECT kube_reports.register_cluster(:'one') AS leaving \gset
SELECT pg_temp.fill(:'one', 3);
SELECT kube_reports_internal.mark_cluster(:'one', false) = :leaving AS marked;
SET ROLE regress_chief;
SELECT count(*) AS steps FROM generate_series(1, 20) n WHERE kube_reports_internal.remove_cluster_step(:leaving, 1);
SELECT kube_reports_internal.expire_step() IS NOT NULL AS expires;
RESET ROLE;
SELECT count(*) AS history,
		(SELECT count(*) FROM kube_reports_internal.origin g WHERE g.cluster_id = :leaving) AS origins
	FROM kube_reports_internal.report_change c WHERE c.cluster_id = :leaving;
CALL kube_reports.unregister_cluster(:'one');
SELECT count(*) AS known FROM kube_reports.cluster c WHERE c.uid = :'one';
-- By DML: the log goes as well.
DELETE FROM kube_reports.object;
SELECT count(*) > 0 AS log FROM kube_reports_internal.change;
DELETE FROM kube_reports_internal.lane;
SELECT count(*) AS log FROM kube_reports_internal.change;
DELETE FROM kube_reports.cluster;
SELECT name, rows FROM pg_temp.rows_of(:'two') WHERE rows <> 0;
-- The last cluster leaves nothing: without clusters there is no history that could name users or policies.
CREATE VIEW pg_temp.left_over AS
	SELECT (SELECT count(*) FROM kube_reports_internal.detail) AS details,
		(SELECT count(*) FROM kube_reports_internal.criterion) AS criteria,
		(SELECT count(*) FROM kube_reports_internal.actor) AS actors;
-- After DML, once upkeep has looked through the tables again.
SELECT details > 0 AS details, criteria > 0 AS criteria, actors > 0 AS actors FROM pg_temp.left_over;
SELECT what FROM kube_reports.pending;
DO $$
BEGIN
	FOR step IN 1..300 LOOP
		EXIT WHEN NOT kube_reports.maintain();
		COMMIT;
	END LOOP;
END
$$;
SELECT * FROM pg_temp.left_over;
SELECT what FROM kube_reports.pending;
-- By unregister_cluster(), before it returns; the last but one leaves what it shares with the other.
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AND kube_reports.register_cluster(:'two') IS NOT NULL AS known;
SELECT pg_temp.fill(:'one', 5), pg_temp.fill(:'two', 5);
CALL kube_reports.unregister_cluster(:'one');
SELECT details > 0 AS details, criteria > 0 AS criteria, actors > 0 AS actors FROM pg_temp.left_over;
SELECT count(*) AS results FROM kube_reports.typed_result r WHERE r.message = 'of ' || :'two' AND r.policy = 'p';
CALL kube_reports.unregister_cluster(:'two');
SELECT * FROM pg_temp.left_over;
SELECT kube_reports.revoke_admin('regress_chief');
DROP OWNED BY regress_leaving, regress_looking, regress_chief;
DROP ROLE regress_leaving, regress_looking, regress_chief;
