-- Senders: credentials, who may use them, what a role of proxies can do with ingest and without.
\set VERBOSITY terse
SET client_min_messages = warning;
SELECT kube_reports.register_cluster('00000000-0000-4000-8000-0000000000f0', 'hub') > 0 AS registered;
CREATE ROLE forward_hub;
CREATE ROLE forward_admin;
GRANT forward_hub, forward_admin TO current_user;
SELECT kube_reports.grant_ingest('forward_hub');
SELECT kube_reports.grant_proxy('forward_hub', '00000000-0000-4000-8000-0000000000f0');
SELECT kube_reports.grant_admin('forward_admin');

-- What is no sender.
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'a b');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'a', token_sha256 => 'secret');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'a', certificate => '');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'a', token_sha256 => repeat('0', 64),
	certificate => 'x');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'a', valid_until => now() - interval '1 s');
SELECT kube_reports.add_sender(NULL, 'a');
SELECT kube_reports.rotate_sender('a');
SELECT kube_reports.remove_sender('a');
SELECT count(*) FROM kube_reports.cluster WHERE uid = '00000000-0000-4000-8000-0000000000f1';

-- Two clusters with a sender each.
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'east', token_sha256 => repeat('1', 64),
	cluster_name => 'east');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f2', 'west', certificate => 'west');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f2', 'east');
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f2', 'other', token_sha256 => repeat('1', 64));
SELECT length(kube_reports.add_sender('00000000-0000-4000-8000-0000000000f2', 'made'));
SELECT cluster_name, name, kind, length(credential), expires_at FROM kube_reports.sender ORDER BY name;

CREATE FUNCTION pg_temp.forward(kind text, credential text, document text,
		cluster uuid DEFAULT '00000000-0000-4000-8000-0000000000f0') RETURNS text
LANGUAGE sql
AS $$
	SELECT f.code || ' ' || convert_from(f.reply, 'UTF8')
	FROM kube_reports_internal.api_forward_batch(cluster, 'results', kind, credential, convert_to(document, 'UTF8')) f
$$;
\set head '{"apiVersion":"forward/v1","assessmentId":"x","seq":1,"last":true,"scan":{"name":"s"},'
\set batch :head '"results":[{"rule":"a","outcome":"FAIL"}]}'

-- A role of proxies: without ingest nothing, with it what the credential allows.
SET ROLE forward_hub;
SELECT pg_temp.forward('token', repeat('1', 64), :'batch');
SELECT kube_reports_internal.api_forward_sender('00000000-0000-4000-8000-0000000000f0', 'token', repeat('1', 64));
RESET ROLE;
SELECT kube_reports.grant_ingest('forward_hub');
SET ROLE forward_hub;
SELECT pg_temp.forward('token', repeat('1', 64), :'batch');
SELECT pg_temp.forward('token', repeat('2', 64), :'batch');
SELECT pg_temp.forward('certificate', repeat('1', 64), :'batch');
SELECT pg_temp.forward('token', 'west', :'batch');
SELECT pg_temp.forward('certificate', 'west', :'batch');
SELECT pg_temp.forward('token', repeat('1', 64), :'batch', '00000000-0000-4000-8000-0000000000f1');
SELECT kube_reports_internal.api_forward_sender('00000000-0000-4000-8000-0000000000f0', 'certificate', 'west');
SELECT FROM kube_reports_internal.sender_credential;
SELECT FROM kube_reports.sender;
SELECT FROM kube_reports_internal.forward_assessment;
SELECT kube_reports_internal.forward_delete('00000000-0000-4000-8000-0000000000f1', '', '', '', '{}', '{}', '{}');
SELECT kube_reports_internal.known_sender('token', repeat('1', 64));
SELECT kube_reports.add_sender('00000000-0000-4000-8000-0000000000f1', 'mine');
RESET ROLE;
SELECT c.name, r.status FROM kube_reports.typed_result r JOIN kube_reports.cluster c ON c.uid = r.cluster
	WHERE r.source = 'Compliance Operator' ORDER BY c.name;

-- Administrators see credentials and change none.
SET ROLE forward_admin;
SELECT count(*) FROM kube_reports.sender;
INSERT INTO kube_reports_internal.sender_credential (kind, credential, cluster_id, name)
	VALUES ('certificate', 'x', 1, 'x');
INSERT INTO kube_reports_internal.ingest_role VALUES ('forward_admin');
SELECT kube_reports.rotate_sender('east');
SELECT kube_reports.grant_ingest('forward_hub');
RESET ROLE;

-- Rotation, expiry, revocation.
SELECT kube_reports.rotate_sender('east', token_sha256 => repeat('3', 64), overlap => '1 day');
SELECT kube_reports.rotate_sender('east', token_sha256 => repeat('4', 64), overlap => '-1 day');
SELECT name, expires_at IS NOT NULL AS expires FROM kube_reports.sender WHERE name = 'east' ORDER BY credential;
UPDATE kube_reports_internal.sender_credential SET expires_at = now() WHERE credential = repeat('1', 64);
SELECT pg_temp.forward('token', repeat('1', 64), :'batch');
SELECT kube_reports.rotate_sender('east', token_sha256 => repeat('5', 64), overlap => '0');
SELECT count(*) FROM kube_reports.sender WHERE name = 'east';
SELECT kube_reports.remove_sender('east'), kube_reports.remove_sender('west'), kube_reports.remove_sender('made');
SELECT pg_temp.forward('token', repeat('5', 64), :'batch');
SELECT kube_reports.revoke_ingest('forward_hub'), kube_reports.revoke_ingest('forward_hub');
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000f1');
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000f2');
CALL kube_reports.unregister_cluster('00000000-0000-4000-8000-0000000000f0');
SELECT kube_reports.revoke_admin('forward_admin');
DROP OWNED BY forward_hub;
DROP ROLE forward_hub, forward_admin;
