-- Writes from SQL: the same as through the API.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one', 'one') IS NOT NULL AS known;

CREATE FUNCTION pg_temp.polr(name text, fields jsonb DEFAULT '{}', metadata jsonb DEFAULT '{}')
	RETURNS kube_reports.report LANGUAGE sql AS $$
	SELECT (jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', name, 'namespace', 'default') || metadata)
			|| fields)::kube_reports.report
$$;
-- Times, uids and versions differ from run to run.
CREATE FUNCTION pg_temp.shown(report kube_reports.report) RETURNS jsonb LANGUAGE sql AS $$
	SELECT report::jsonb #- '{metadata,uid}' #- '{metadata,creationTimestamp}' #- '{metadata,resourceVersion}' #-
		'{metadata,managedFields}'
$$;
CREATE FUNCTION pg_temp.version(report kube_reports.report) RETURNS text
	LANGUAGE sql AS $$ SELECT report::jsonb #>> '{metadata,resourceVersion}' $$;

-- Create: metadata is completed, unknown fields are dropped.
SELECT pg_temp.shown(kube_reports.create_report(:'one',
	pg_temp.polr('a', '{"summary":{"pass":1,"bogus":2},"foo":1}', '{"labels":{"app":"x"}}')));
SELECT r->'metadata' ?& '{uid,creationTimestamp,resourceVersion}' AS completed
	FROM (SELECT kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a')::jsonb) g(r);
SELECT kube_reports.create_report(:'one', pg_temp.polr('a'));
SELECT kube_reports.create_report(:'one', pg_temp.polr('Bad_Name'));
SELECT kube_reports.create_report(:'one',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"Bad\u0000Name"}}');
SELECT kube_reports.create_report(:'one', pg_temp.polr('b', '{"results":[{"result":"pass"}]}'));
SELECT kube_reports.create_report(:'one', pg_temp.polr('b', '{"results":[{"policy":"p","result":"maybe"}]}'));
SELECT kube_reports.create_report(:'one', pg_temp.polr('b', '{}', '{"labels":{"a":"not ok"}}'));
SELECT kube_reports.create_report(:'one', '{"apiVersion":"v1","kind":"Pod"}');
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000002', pg_temp.polr('a'));
SELECT kube_reports.create_report(:'one',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"generateName":"gen-"}}')::jsonb #>>
	'{metadata,name}' ~ '^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$' AS generated;

-- Replace: optimistic, no-op writes make no version.
SELECT kube_reports.replace_report(:'one', pg_temp.polr('a', '{"summary":{"pass":2}}'));
SELECT kube_reports.replace_report(:'one', pg_temp.polr('a', '{"summary":{"pass":2}}', '{"resourceVersion":"1"}'));
SELECT kube_reports.replace_report(:'one', pg_temp.polr('missing', '{}', '{"resourceVersion":"1"}'));
SELECT pg_temp.version(kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a')) AS before \gset
SELECT pg_temp.shown(kube_reports.replace_report(:'one',
	pg_temp.polr('a', '{"summary":{"pass":2}}', jsonb_build_object('resourceVersion', :'before'))));
SELECT pg_temp.version(kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a')) AS after \gset
SELECT :'after'::bigint > :'before'::bigint AS grown;
SELECT pg_temp.version(kube_reports.replace_report(:'one',
	pg_temp.polr('a', '{"summary":{"pass":2}}', jsonb_build_object('resourceVersion', :'after')))) =
	:'after' AS nothing_written;

-- Patch.
SELECT pg_temp.shown(kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a',
	'{"summary":{"fail":1,"pass":null},"metadata":{"labels":{"app":"y"}}}'));
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a', '{"metadata":{"name":"b"}}');
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a', '[]');

-- A finalizer keeps an object until it is taken away.
SELECT pg_temp.shown(kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a',
	'{"metadata":{"finalizers":["example.com/f"]}}'))->'metadata';
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a');
SELECT kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default',
	'a')::jsonb #> '{metadata}' ? 'deletionTimestamp' AS terminating;
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a',
	'{"metadata":{"finalizers":["example.com/f","example.com/g"]}}');
SELECT kube_reports.patch_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a',
	'{"metadata":{"finalizers":[]}}') IS NOT NULL AS finalized;
SELECT kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a');
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'a');

-- The log has it all, with who did it.
SELECT c.operation, c.name, c.actor = session_user AS mine, c.old_version IS NOT NULL AS has_old
	FROM kube_reports_internal.change c WHERE c.name = 'a' ORDER BY c.version;

-- Only READ COMMITTED, no two-phase commit.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT kube_reports.create_report(:'one', pg_temp.polr('x'));
ROLLBACK;
BEGIN;
SELECT kube_reports.create_report(:'one', pg_temp.polr('x')) IS NOT NULL AS created;
PREPARE TRANSACTION 'x';
SELECT kube_reports.get_report(:'one', 'policyreports.wgpolicyk8s.io', 'default', 'x');

-- Whoever writes waits for the disk, whatever the session is set to: nothing may be seen that a crash could take back.
SET synchronous_commit = off;
BEGIN;
SELECT kube_reports.create_report(:'one', pg_temp.polr('x')) IS NOT NULL AS created;
SHOW synchronous_commit;
ROLLBACK;
BEGIN;
DELETE FROM kube_reports.object WHERE name = 'nobody';
SHOW synchronous_commit;
ROLLBACK;
SHOW synchronous_commit;
SET synchronous_commit = remote_apply;
BEGIN;
DELETE FROM kube_reports.object WHERE name = 'nobody';
SHOW synchronous_commit;
ROLLBACK;
RESET synchronous_commit;

-- An error of the API's leaves the session as it was; so does a write, but for the lock.
SHOW lock_timeout;
BEGIN;
SAVEPOINT before;
SELECT kube_reports.create_report(:'one', pg_temp.polr('y')) IS NOT NULL AS created;
SELECT kube_reports.create_report(:'one', pg_temp.polr('y'));
ROLLBACK TO before;
SELECT kube_reports.create_report(:'one', pg_temp.polr('y')) IS NOT NULL AS created;
SHOW lock_timeout;
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT o.cluster_id, o.resource_type, o.namespace, 'z', '{}', '{}' FROM kube_reports.object o WHERE o.name = 'y';
COMMIT;
SELECT c.operation, c.name FROM kube_reports_internal.change c WHERE c.name IN ('y', 'z') ORDER BY c.version;

-- What jsonb cannot hold is no obstacle to a conflict.
SELECT w.codes FROM generate_series(1, 2) n,
	LATERAL kube_reports_internal.write_batch(:'one',
	ARRAY['{"verb":"create","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
		'"namespace":"default"}'::jsonb],
	ARRAY[convert_to(format('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport",'
		'"metadata":{"name":"nul"},"results":[{"policy":"\u0000%s"}]}', n), 'UTF8')]) w;
