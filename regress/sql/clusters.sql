-- A cluster goes with everything that is of it, and with nothing that is not.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
\set two '00000000-0000-0000-0000-000000000002'
CREATE ROLE regress_leaving;
CREATE ROLE regress_looking;
GRANT regress_leaving, regress_looking TO current_user;
SELECT kube_reports.grant_proxy('regress_leaving', :'one');
SELECT kube_reports.register_cluster(:'two') IS NOT NULL AS known;
SET client_min_messages = warning;
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
-- How many rows of a cluster each table has, by its column or its lanes.
CREATE FUNCTION pg_temp.rows_of(cluster uuid) RETURNS TABLE (name text, rows bigint) LANGUAGE plpgsql AS $$
DECLARE
	owned		record;
	id			integer := (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = cluster);
BEGIN
	FOR owned IN SELECT c.oid::regclass AS source, c.relname, a.attname FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND (a.attname = 'cluster_id' OR a.attname = 'lane' AND a.atttypid = 'integer'::regtype)
				AND NOT a.attisdropped ORDER BY c.relname
	LOOP
		name := owned.relname;
		EXECUTE format('SELECT count(*) FROM %s WHERE %I ' || CASE owned.attname WHEN 'lane'
			THEN 'IN (SELECT l.id FROM lanes_of l WHERE l.cluster_id = $1)'
			ELSE '= $1' END, owned.source, owned.attname) INTO rows USING coalesce(id, (SELECT i.id FROM ids i
				WHERE i.uid = cluster));
		RETURN NEXT;
	END LOOP;
END
$$;
CREATE TEMP TABLE ids AS SELECT c.id, c.uid FROM kube_reports.cluster c;
CREATE TEMP TABLE lanes_of AS SELECT l.id, l.cluster_id FROM kube_reports_internal.lane l;
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
INSERT INTO kube_reports_internal.namespace (cluster_id, name, uid, state) SELECT i.id, 'ns', 'u', 'active' FROM ids i;
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.rows_of(:'two');
SELECT name, rows > 0 AS some FROM pg_temp.rows_of(:'one');


-- Not while a proxy is connected: here one with this session's role.
SELECT kube_reports.grant_proxy(current_user::name, :'one');
CALL kube_reports.unregister_cluster(:'one');
SELECT c.removing FROM kube_reports.cluster c WHERE c.uid = :'one';
DELETE FROM kube_reports_internal.proxy_role WHERE role = current_user;

-- A removal that is begun and not finished: nothing of the cluster comes any more.
SELECT kube_reports_internal.mark_cluster(:'one', false) IS NOT NULL AS marked;
SELECT kube_reports_internal.remove_cluster_step(i.id) AS more FROM ids i WHERE i.uid = :'one';
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
-- Upkeep goes on with it, and so does whoever calls again.
SELECT count(*) AS before FROM kube_reports.object \gset
SELECT kube_reports_internal.remove_marked_clusters() AS more;
SELECT :before > count(*) AS went_on FROM kube_reports.object;
CALL kube_reports.unregister_cluster(:'one');
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
DROP OWNED BY regress_leaving, regress_looking;
DROP ROLE regress_leaving, regress_looking;
