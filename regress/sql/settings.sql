-- Settings of a session, which every role may set, that functions of the owner read.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
CREATE ROLE regress_settings LOGIN;
CREATE ROLE regress_settings_admin LOGIN;
SELECT current_user AS owner \gset
SELECT kube_reports.grant_proxy('regress_settings', '00000000-0000-0000-0000-000000000001');
SELECT kube_reports.grant_admin('regress_settings_admin');
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000002', 'two') IS NOT NULL AS known;

-- What DML of this transaction has written is recorded by the next write.  A session cannot say itself what that is:
-- its write would record what others have written, of every cluster, without their locks.
\c - regress_settings
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
		"namespace":"default"}'::jsonb],
	ARRAY['{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"first"}}'::bytea]);
BEGIN;
SET LOCAL kube_reports_internal.recorded = '0';
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
		"namespace":"default"}'::jsonb],
	ARRAY['{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"second"}}'::bytea]);
SELECT current_setting('kube_reports_internal.recorded') AS left_alone;
SET LOCAL kube_reports_internal.recorded = 'what is no number, and longer than a seal, which has 64 hexadecimal digits';
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
		"namespace":"default"}'::jsonb],
	ARRAY['{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"third"}}'::bytea]);
COMMIT;
-- It cannot seal a value either.
SELECT kube_reports_internal.set_sealed('recorded', '0');
SELECT kube_reports_internal.setting_seal('recorded', '0');

-- A value that somebody has left in the session of an administrator does not keep results from following.
\c - regress_settings_admin
SELECT set_config('kube_reports_internal.recorded', '9223372036854775807', false);
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, body)
	SELECT c.id, t.id, 'default', 'two', '{"results": [{"source": "s", "policy": "p", "rule": "r", "result": "fail"}]}'
	FROM kube_reports.cluster c, kube_reports.resource_type t
	WHERE c.name = 'two' AND (t."group", t.plural) = ('wgpolicyk8s.io', 'policyreports');
SELECT cluster_name, namespace, policy, status FROM kube_reports.typed_result;
-- A sealed value is one of its transaction.
BEGIN;
SELECT kube_reports_internal.set_sealed('recorded', '7');
SELECT kube_reports_internal.sealed('recorded'), current_setting('kube_reports_internal.recorded') AS kept \gset
SELECT kube_reports_internal.sealed('recorded'), kube_reports_internal.sealed('actor');
COMMIT;
BEGIN;
SELECT set_config('kube_reports_internal.recorded', :'kept', true) = :'kept' AS said_again;
SELECT kube_reports_internal.sealed('recorded');
COMMIT;

-- A value that somebody has left in the session does not keep DML from being logged: for a new row, a change, a
-- deletion, a cluster; nor does the value of an earlier transaction.
\c - regress_settings_admin
BEGIN;
SELECT kube_reports_internal.begin_own_write();
SELECT current_setting('kube_reports_internal.api_write') AS kept \gset
COMMIT;
SELECT s.value, set_config('kube_reports_internal.api_write', s.value, false) = s.value AS said
	FROM (VALUES ('on')) s(value);
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, body)
	SELECT o.cluster_id, o.resource_type, 'default', 'quiet', '{}' FROM kube_reports.object o WHERE o.name = 'two';
SELECT set_config('kube_reports_internal.api_write', :'kept', false) = :'kept' AS said;
UPDATE kube_reports.object SET body = '{"results": [{"source": "s", "policy": "q", "rule": "r", "result": "fail"}]}'
	WHERE name = 'quiet';
SELECT cluster_name, namespace, policy, status FROM kube_reports.typed_result ORDER BY policy;
BEGIN;
SET LOCAL kube_reports_internal.api_write = 'on';
DELETE FROM kube_reports.object WHERE name = 'quiet';
COMMIT;
SELECT c.operation, c.actor FROM kube_reports_internal.change c WHERE c.name = 'quiet' ORDER BY c.version;
INSERT INTO kube_reports.cluster (uid, name) VALUES ('00000000-0000-0000-0000-000000000003', 'three');
SELECT count(*) > 0 AS has_lanes FROM kube_reports_internal.lane l JOIN kube_reports.cluster c ON c.id = l.cluster_id
	WHERE c.name = 'three';
UPDATE kube_reports.cluster SET removing = true WHERE name = 'three';
RESET kube_reports_internal.api_write;

-- Nor does it keep DML from noticing that the server is another one.
\c - :owner
UPDATE kube_reports_internal.store SET timeline = coalesce(timeline, 0) + 1, system_identifier = 1;
-- Versions go on at the microseconds of the clock, far above the few that this test has drawn.
SELECT max(c.version) AS known FROM kube_reports_internal.change c \gset
\c - regress_settings_admin
SELECT set_config('kube_reports_internal.server_checked', pg_backend_pid()::text, false) <> '' AS said;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, body)
	SELECT o.cluster_id, o.resource_type, 'default', 'elsewhere', '{}' FROM kube_reports.object o WHERE o.name = 'two';
SELECT o.version > :known + 10000 AS beyond_the_gap FROM kube_reports.object o WHERE o.name = 'elsewhere';

-- Whoever imports is noted as the role that it is, whatever its session says.
\c - regress_settings
SET kube_reports_internal.actor = 'system:serviceaccount:kyverno:reports-controller';
SELECT set_config('kube_reports_internal.actor', repeat('0', 64) || ' sender:other', false) <> '' AS said;
SELECT i.outcome FROM kube_reports_internal.api_import('00000000-0000-0000-0000-000000000001', 'wgpolicyk8s.io',
	'v1alpha2', 'policyreports', '{7}', ARRAY['{"creationTimestamp":"2024-05-06T07:08:09Z","generation":1,'
		'"name":"imported","namespace":"default","uid":"00000000-0000-0000-0000-0000000000aa"}'], '{"{}"}', true) i;
\c - :owner
SELECT c.name, c.actor FROM kube_reports_internal.change c WHERE c.name = 'imported';
SELECT * FROM kube_reports.verify();
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
GRANT regress_settings, regress_settings_admin TO current_user;
DROP OWNED BY regress_settings, regress_settings_admin;
DROP ROLE regress_settings, regress_settings_admin;
