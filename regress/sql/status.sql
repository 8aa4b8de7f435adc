-- What administrators are told of the store: status, lane_status, pending; and what readers are not.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
SELECT current_user AS owner \gset

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'first') IS NOT NULL AS known;
SELECT s.version = s.schema_version AS updated, s.update_pending, s.restore_pending, s.library ~ s.version
	AS library, s.standby,
	s.server_version = current_setting('server_version') AS server, s.timeline, s.log_retention,
		s.log_limit, s.history_retention, s.daily_retention,
	s.object_bytes > 0 AND s.log_bytes > 0 AND s.result_bytes > 0 AND s.history_bytes >= 0
		AND s.count_bytes > 0 AS sizes,
	s.database_bytes > s.object_bytes + s.log_bytes + s.result_bytes + s.history_bytes + s.count_bytes AS whole
FROM kube_reports.status s;
SELECT kube_reports.set_setting('log_retention', '2 hours');
SELECT s.log_retention FROM kube_reports.status s;
SELECT * FROM kube_reports.pending;

-- A lane: its floor moves with what is compacted, its newest version with what is written.
SELECT kube_reports.create_report(:'one',
	('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"r' || n
	|| '","namespace":"ns"},"results":[{"policy":"p","rule":"r","result":"fail"}]}')::kube_reports.report)
	IS NOT NULL AS made FROM generate_series(1, 2) n;
SELECT l.cluster_name, l.type, l.floor < l.newest AS log, l.oldest_change < l.newest_change AS two,
	l.log_bytes, l.after_failover
FROM kube_reports.lane_status l WHERE l.type = 'policyreports.wgpolicyk8s.io';
SELECT kube_reports_internal.measure_log() > 0 AS measured;
SELECT l.log_bytes > 0 AS measured FROM kube_reports.lane_status l WHERE l.type = 'policyreports.wgpolicyk8s.io';
SELECT kube_reports.set_setting('log_retention', '0');
SELECT kube_reports_internal.compact();
SELECT l.floor = l.newest AS compacted, l.oldest_change, l.newest_change, l.log_bytes
	FROM kube_reports.lane_status l WHERE l.type = 'policyreports.wgpolicyk8s.io';
SELECT kube_reports.new_incarnation() > 0 AS moved;
SELECT DISTINCT l.after_failover FROM kube_reports.lane_status l;

-- What waits: counts until they are folded, merges until they are made or for ever, a rebuild, a restore.
SELECT p.what, p.cluster_name, p.waiting, p.oldest, p.failed FROM kube_reports.pending p ORDER BY p.what;
SELECT kube_reports_internal.fold_rollups();
INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, queued_at, stage, namespace, key, attempts)
	SELECT c.id, clock_timestamp() + age, 'r', 'ns', 'k', tries FROM kube_reports.cluster c,
		(VALUES (interval '-1 hour', 0), ('1 hour', 3)) v(age, tries);
INSERT INTO kube_reports_internal.result_rebuild (lane) SELECT l.lane FROM kube_reports.lane_status l
	WHERE l.type = 'policyreports.wgpolicyk8s.io';
UPDATE kube_reports_internal.store SET version = '0.0';
SELECT p.what, p.cluster_name, p.waiting, now() - p.oldest > interval '59 minutes' AS old, p.failed
	FROM kube_reports.pending p ORDER BY p.what;
SELECT s.results_pending, s.update_pending FROM kube_reports.status s;

-- A proxy learns it for its cluster alone, readers not at all.
CREATE ROLE regress_status_proxy LOGIN;
CREATE ROLE regress_status_other LOGIN;
CREATE ROLE regress_status_reader LOGIN;
CREATE ROLE regress_status_namespace LOGIN;
SELECT kube_reports.grant_proxy('regress_status_proxy', :'one');
SELECT kube_reports.grant_proxy('regress_status_other', '00000000-0000-0000-0000-000000000002');
SELECT kube_reports.grant_reader('regress_status_reader');
SELECT kube_reports.grant_namespace('regress_status_namespace', :'one', 'ns');
\c - regress_status_proxy
SELECT what, waiting, oldest_ms > 3500000 AS old FROM kube_reports_internal.api_pending(:'one');
SELECT count(*) FROM kube_reports.pending;
\c - regress_status_other
SELECT count(*) FROM kube_reports_internal.api_pending(:'one');
\c - regress_status_reader
SELECT s.objects FROM kube_reports.status s;
SELECT count(*) FROM kube_reports.pending;
SELECT count(*) FROM kube_reports.lane_status;
\c - regress_status_namespace
SELECT s.objects FROM kube_reports.status s;
\c - :owner
GRANT regress_status_proxy, regress_status_other, regress_status_reader, regress_status_namespace TO current_user;
DROP OWNED BY regress_status_proxy, regress_status_other, regress_status_reader, regress_status_namespace;
DROP ROLE regress_status_proxy, regress_status_other, regress_status_reader, regress_status_namespace;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
