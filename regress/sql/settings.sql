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
		"namespace":"default"}'],
	ARRAY['{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"first"}}'::bytea]);
BEGIN;
SET LOCAL kube_reports_internal.recorded = '0';
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
		"namespace":"default"}'],
	ARRAY['{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"second"}}'::bytea]);
SELECT current_setting('kube_reports_internal.recorded') AS left_alone;
SET LOCAL kube_reports_internal.recorded = 'what is no number, and longer than a seal, which has 64 hexadecimal digits';
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000001',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",
		"namespace":"default"}'],
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

\c - :owner
SELECT * FROM kube_reports.verify();
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
GRANT regress_settings, regress_settings_admin TO current_user;
DROP OWNED BY regress_settings, regress_settings_admin;
DROP ROLE regress_settings, regress_settings_admin;
