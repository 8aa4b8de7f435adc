-- Who may do what.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
CREATE ROLE regress_proxy_one LOGIN;
CREATE ROLE regress_proxy_two LOGIN;
CREATE ROLE regress_reader LOGIN;
CREATE ROLE regress_nobody LOGIN;
CREATE ROLE regress_admin LOGIN;
SELECT current_user AS owner \gset
SELECT kube_reports.grant_proxy('regress_proxy_one', '00000000-0000-0000-0000-000000000001');
SELECT kube_reports.grant_proxy('regress_proxy_two', '00000000-0000-0000-0000-000000000002');
SELECT kube_reports.grant_proxy('regress_proxy_two', '00000000-0000-0000-0000-000000000001');
SELECT kube_reports.grant_proxy('regress_proxy_one', '00000000-0000-0000-0000-000000000001');
SELECT kube_reports.grant_reader('regress_reader');
SELECT kube_reports.grant_admin('regress_admin');
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000001',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"}}') IS NOT NULL AS created;
SELECT min(l.id) FILTER (WHERE c.uid::text LIKE '%1') AS lane_one,
	min(l.id) FILTER (WHERE c.uid::text LIKE '%2') AS lane_two
	FROM kube_reports_internal.lane l JOIN kube_reports.cluster c ON c.id = l.cluster_id \gset

-- A proxy acts for its cluster, by the functions, and for no other.
\c - regress_proxy_one
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello('00000000-0000-0000-0000-000000000001', 'one');
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello('00000000-0000-0000-0000-000000000002', 'two');
SELECT count(*) > 0 AS served FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000001');
SELECT count(*) FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000002');
SELECT code FROM kube_reports_internal.api_get('00000000-0000-0000-0000-000000000001',
	'{"verb":"get","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
	'"namespace":"default","name":"a"}');
SELECT code FROM kube_reports_internal.api_get('00000000-0000-0000-0000-000000000002',
	'{"verb":"get","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
	'"namespace":"default","name":"a"}');
SELECT codes FROM kube_reports_internal.write_batch('00000000-0000-0000-0000-000000000002',
	ARRAY['{"verb":"delete","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
		'"namespace":"default","name":"a"}'::jsonb], ARRAY[''::bytea]);
SELECT api_poll.versions AS of_others FROM kube_reports_internal.api_poll('00000000-0000-0000-0000-000000000002',
	ARRAY[:lane_one, :lane_two]);
SELECT array_position(api_poll.versions, 0) AS of_others_second
	FROM kube_reports_internal.api_poll('00000000-0000-0000-0000-000000000001', ARRAY[:lane_one, :lane_two]);
SELECT operation, version FROM kube_reports_internal.api_changes('00000000-0000-0000-0000-000000000001',
	:lane_two, 0, '{}', 10);
SELECT kube_reports_internal.api_bookmark('00000000-0000-0000-0000-000000000001', :lane_two, 1, 'v1alpha2 object');
SELECT count(*) FROM kube_reports_internal.api_counts('00000000-0000-0000-0000-000000000002');
SELECT * FROM kube_reports_internal.api_namespace('00000000-0000-0000-0000-000000000001', 'default', '', 'u1', false);
SELECT * FROM kube_reports_internal.api_namespace('00000000-0000-0000-0000-000000000002', 'default', '', 'u1', false);
SELECT count(*) FROM kube_reports_internal.api_namespaces('00000000-0000-0000-0000-000000000001', NULL);
SELECT count(*) FROM kube_reports_internal.api_namespaces('00000000-0000-0000-0000-000000000002', NULL);
SELECT kube_reports_internal.sweep_piece('00000000-0000-0000-0000-000000000002', 'default', 'u1', '', NULL);
DELETE FROM kube_reports_internal.namespace;
SELECT count(*) FROM kube_reports.object;
DELETE FROM kube_reports.object;
SELECT kube_reports.register_crd('{}');
SELECT kube_reports.new_incarnation();

\c - regress_proxy_two
SELECT code FROM kube_reports_internal.api_get('00000000-0000-0000-0000-000000000001',
	'{"verb":"get","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
	'"namespace":"default","name":"a"}');
SELECT code FROM kube_reports_internal.api_get('00000000-0000-0000-0000-000000000002',
	'{"verb":"get","group":"wgpolicyk8s.io","version":"v1alpha2","resource":"policyreports",'
	'"namespace":"default","name":"a"}');

-- A reader reads the views and nothing else.
\c - regress_reader
SELECT resource, namespace, name FROM kube_reports.stored_report;
SELECT objects FROM kube_reports.status;
SELECT count(*) FROM kube_reports.object;
SELECT kube_reports.delete_report('00000000-0000-0000-0000-000000000001',
	'policyreports.wgpolicyk8s.io', 'default', 'a');
UPDATE kube_reports.stored_report SET name = 'b';

-- A proxy's role stores what the engine of the server has admitted, and nothing that it has decided itself.
\c - regress_proxy_one
SELECT c.codes FROM kube_reports_internal.api_registry('00000000-0000-0000-0000-000000000001') r,
	LATERAL kube_reports_internal.commit_batch('00000000-0000-0000-0000-000000000001', r."group", r.version, r.resource,
		false, r.mapping_id, r.fill_summary, ARRAY[r.definition_id], '{i}', '{default}', '{Not_a_name}',
		'{5f0b5a0e-1111-4222-8333-444444444444}', '{"{}"}', '{"{\"results\": 1}"}', '{0}', '{""}', '{x}', '{NULL}',
		'{NULL}') c
	WHERE (r."group", r.resource) = ('wgpolicyk8s.io', 'policyreports');

-- A proxy's role that reads no more goes on to serve.
\c - :owner
SELECT kube_reports.grant_reader('regress_proxy_one');
SELECT kube_reports.revoke_reader('regress_proxy_one');
\c - regress_proxy_one
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello('00000000-0000-0000-0000-000000000001', 'one');
SELECT count(*) FROM kube_reports.stored_report;

-- An administrator writes, for every cluster, through the functions and the table.
\c - regress_admin
SELECT kube_reports.create_report('00000000-0000-0000-0000-000000000002',
	'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"b"}}') IS NOT NULL AS created;
UPDATE kube_reports.object SET body = '{"summary":{"pass":1}}' WHERE name = 'b';
SELECT body FROM kube_reports.object WHERE name = 'b';

\c - regress_nobody
SELECT count(*) FROM kube_reports.stored_report;

\c - :owner
-- An administrator's role, which also has a grant of a role whose name needs quotes; and one that is also bound to a
-- cluster.
CREATE ROLE "regress Grantor";
GRANT "regress Grantor" TO current_user;
GRANT USAGE ON SCHEMA kube_reports TO "regress Grantor";
GRANT SELECT ON kube_reports.cluster TO "regress Grantor" WITH GRANT OPTION;
SET ROLE "regress Grantor";
GRANT SELECT ON kube_reports.cluster TO regress_admin;
RESET ROLE;
SELECT kube_reports.grant_admin('regress_proxy_one');
SELECT kube_reports.revoke_admin('regress_admin'), kube_reports.revoke_admin('regress_proxy_one');
DROP ROLE regress_admin;
DROP OWNED BY "regress Grantor";
DROP ROLE "regress Grantor";
SELECT kube_reports.revoke_admin('regress_admin');
\c - regress_proxy_one
SELECT generation > 0 AS welcome FROM kube_reports_internal.api_hello('00000000-0000-0000-0000-000000000001', 'one');
SELECT kube_reports.register_crd('{}');
SELECT count(*) FROM kube_reports.object;

\c - :owner
GRANT regress_proxy_one, regress_proxy_two, regress_reader TO current_user;
DROP OWNED BY regress_proxy_one, regress_proxy_two, regress_reader;
DROP ROLE regress_proxy_one, regress_proxy_two, regress_reader, regress_nobody;
