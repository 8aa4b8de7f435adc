-- history.sql
--	  Five weeks of history for the sample reports, by kube_reports.import_report(), and what else questions need: a
--	  second cluster, controls of frameworks, checks of the Compliance Operator.
--
-- For psql as the owner, with the variable cluster (uid of the cluster that make up serves).  Everything here is told
-- from what is real: its actor is "sample", and the second cluster has the label "sample".  Does nothing where the
-- cluster has results.  Names, uids and what changes when are the same every time; only times move.

\set QUIET on
\o /dev/null
\ir generate.sql
\o
SET TimeZone = 'UTC';
BEGIN;
SELECT kube_reports.register_cluster('5a3d1e5a-0000-4000-8000-000000000002', 'sample-staging',
	'{"sample": "true"}') AS staging \gset
SELECT NOT EXISTS (SELECT FROM kube_reports_internal.origin g JOIN kube_reports.cluster c ON c.id = g.cluster_id
		WHERE c.uid = :'cluster')
	AND NOT EXISTS (SELECT FROM kube_reports_internal.import_waiting) AS fresh \gset
\if :fresh

-- A number for a text, the same on every server.
CREATE FUNCTION pg_temp.lot(VARIADIC words text[]) RETURNS integer LANGUAGE sql IMMUTABLE
RETURN ('x' || substr(md5(array_to_string(words, '/')), 1, 7))::bit(28)::integer;

-- Reports of both clusters; the second one has fewer.
CREATE TEMP TABLE sample (number serial PRIMARY KEY, cluster uuid, staging boolean, document jsonb);
INSERT INTO sample (cluster, staging, document)
	SELECT c.uid, c.staging, d.body::jsonb
	FROM (VALUES (:'cluster'::uuid, false), ('5a3d1e5a-0000-4000-8000-000000000002', true)) c(uid, staging),
		document d
	WHERE d.body->>'kind' IN ('PolicyReport', 'ClusterPolicyReport', 'Report', 'ClusterReport')
		AND (NOT c.staging
			OR d.body->>'kind' = 'PolicyReport' AND d.body#>>'{metadata,namespace}' IN ('shop', 'payments'))
	ORDER BY c.staging, d.collection, d.body#>>'{metadata,name}';

CREATE TEMP TABLE item AS
	SELECT s.number, r.position, r.result, s.staging, r.result->>'result' AS now,
		pg_temp.lot(s.document#>>'{metadata,name}', r.result->>'policy', r.result->>'rule', s.staging::text) AS lot
	FROM sample s, jsonb_array_elements(s.document->'results') WITH ORDINALITY r(result, position);

-- What a result was before, and how long ago it changed; a null: it was not there.
CREATE TEMP TABLE past (number integer, position bigint, age interval, status text);
WITH aged AS (
	SELECT i.*, (ARRAY['31 days', '28 days', '25 days', '22 days', '19 days', '16 days', '13 days', '10 days', '8 days',
		'6 days', '5 days', '3 days', '2 days', '20 hours', '10 hours']::interval[])[1 + i.lot / 100 % 15] AS age
	FROM item i
), told AS (
	SELECT a.*, CASE
			WHEN a.result->>'source' <> 'kyverno' OR a.now IN ('skip', 'warn') THEN true
			WHEN a.now = 'pass' THEN a.lot % 100 < 16
			ELSE a.lot % 100 < 30 END AS changed,
		CASE WHEN a.result->>'source' <> 'kyverno' THEN NULL
			WHEN a.now IN ('pass', 'skip') THEN 'fail' ELSE 'pass' END AS before
	FROM aged a
)
INSERT INTO past
	SELECT t.number, t.position, interval '35 days', CASE WHEN t.changed THEN t.before ELSE t.now END
	FROM told t
	UNION ALL
	SELECT t.number, t.position,
		CASE t.result->>'severity' WHEN 'critical' THEN interval '29 days' ELSE t.age END, t.now
	FROM told t WHERE t.changed
	UNION ALL
	-- The second cluster is ahead of the first one here and there, and behind elsewhere.
	SELECT t.number, t.position, interval '7 hours', CASE t.now WHEN 'fail' THEN 'pass' ELSE 'fail' END
	FROM told t
	WHERE t.staging AND t.result->>'source' = 'kyverno' AND t.now IN ('pass', 'fail') AND t.lot % 100 BETWEEN 60 AND 75;

-- A check that flaps: its image is built in two ways in turn.
DELETE FROM past p USING item i JOIN sample s USING (number)
	WHERE (p.number, p.position) = (i.number, i.position)
		AND s.document#>>'{scope,name}' = 'artifact-cache' AND i.result->>'rule' = 'autogen-privilege-escalation';
INSERT INTO past
	SELECT i.number, i.position, f.age, f.status
	FROM item i JOIN sample s USING (number), (VALUES (interval '35 days', 'fail'), ('21 hours', 'pass'),
		('16 hours', 'fail'), ('12 hours', 'pass'), ('6 hours', 'fail')) f(age, status)
	WHERE s.document#>>'{scope,name}' = 'artifact-cache' AND i.result->>'rule' = 'autogen-privilege-escalation';

-- Vulnerabilities that were there and are fixed.
INSERT INTO item
	SELECT s.number, 1000 + v.number, jsonb_build_object('source', 'Trivy Vulnerability', 'policy', v.cve,
			'category', 'Vulnerability Scan', 'severity', v.severity, 'result', 'fail',
			'message', format('%s in %s %s', v.cve, v.package, v.installed),
			'properties', jsonb_build_object('score', v.score, 'resource', v.package, 'installedVersion', v.installed,
				'fixedVersion', v.fixed)), s.staging, 'fail', 0
	FROM sample s, (VALUES (1, 'CVE-2023-38545', 'curl', '7.88.1-10', '7.88.1-10+deb12u4', 'critical', '9.8'),
		(2, 'CVE-2023-4863', 'libwebp7', '1.2.4-0.2', '1.2.4-0.2+deb12u1', 'high', '8.8'),
		(3, 'CVE-2022-3602', 'libssl3', '3.0.5-1', '3.0.7-1', 'high', '7.5'))
		v(number, cve, package, installed, fixed, severity, score)
	WHERE s.document#>>'{metadata,name}' = 'trivy-vuln-polr-search';
INSERT INTO past
	SELECT i.number, i.position, p.age, p.status FROM item i CROSS JOIN LATERAL
		(VALUES (interval '35 days', 'fail'), (interval '1 day' * (8 + i.position % 1000 * 3), NULL)) p(age, status)
	WHERE i.position > 1000;

-- The states: each report as it was whenever one of its results changed, and an hour ago as it is now.
CREATE TEMP TABLE state AS
	SELECT a.number, a.age, now() - a.age - a.number * interval '7 seconds' AS at
	FROM (SELECT DISTINCT p.number, p.age FROM past p UNION SELECT s.number, interval '1 hour' FROM sample s) a;
CREATE TEMP TABLE written AS
	SELECT s.cluster, t.at, d.document
		|| jsonb_build_object('results', d.results, 'summary', pg_temp.summary(d.results::json)) AS document
	FROM state t JOIN sample s USING (number)
		CROSS JOIN LATERAL (SELECT s.document, coalesce(jsonb_agg(i.result
				|| jsonb_build_object('result', p.status, 'timestamp',
					jsonb_build_object('seconds', extract(epoch FROM t.at)::bigint, 'nanos', 0))
				ORDER BY i.position), '[]') AS results
			FROM item i CROSS JOIN LATERAL (SELECT p.status FROM past p
				WHERE (p.number, p.position) = (i.number, i.position) AND p.age >= t.age ORDER BY p.age LIMIT 1) p
			WHERE i.number = t.number AND p.status IS NOT NULL) d;

-- Builds of the past: each was there for a day.
CREATE TEMP TABLE build AS
	SELECT s.cluster, n.name, md5('ci/Pod/' || n.name)::uuid AS uid, now() - n.age AS at, s.document
	FROM sample s,
		(SELECT 'build-' || (4710 - i) AS name, interval '1 day' * (i * 3 + 1) AS age FROM generate_series(0, 10) i) n
	WHERE s.document#>>'{scope,name}' = 'build-4712' AND NOT s.staging;
INSERT INTO written
	SELECT b.cluster, b.at, b.document || jsonb_build_object('metadata', (b.document->'metadata') - 'ownerReferences'
			|| jsonb_build_object('name', b.uid),
			'scope', (b.document->'scope') || jsonb_build_object('name', b.name, 'uid', b.uid))
	FROM build b;

---- frameworks, and the Compliance Operator ----

INSERT INTO kube_reports.framework_control (framework, control, policy, rule) VALUES
	('NIST SP 800-53', 'AC-2', 'require-run-as-nonroot', ''),
	('NIST SP 800-53', 'AC-6', 'disallow-privilege-escalation', ''),
	('NIST SP 800-53', 'AC-6', 'disallow-capabilities-strict', ''),
	('NIST SP 800-53', 'SC-39', 'disallow-host-namespaces', ''),
	('CIS Kubernetes Benchmark', '5.2.6', 'disallow-privilege-escalation', ''),
	('CIS Kubernetes Benchmark', '5.2.7', 'require-run-as-nonroot', ''),
	('CIS Kubernetes Benchmark', '1.2.22', 'ocp4-cis', 'xccdf_api-server-audit-log-path')
	ON CONFLICT DO NOTHING;
SELECT count(kube_reports.register_crd(jsonb_build_object('apiVersion', 'apiextensions.k8s.io/v1',
		'kind', 'CustomResourceDefinition',
		'metadata', jsonb_build_object('name', k.plural || '.compliance.openshift.io'),
		'spec', jsonb_build_object('group', 'compliance.openshift.io', 'scope', 'Namespaced',
			'names', jsonb_build_object('kind', k.kind, 'plural', k.plural, 'singular', lower(k.kind),
				'listKind', k.kind || 'List'),
			'versions', '[{"name": "v1alpha1", "served": true, "storage": true,
				"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]'
				::jsonb)), k.results)) AS types
	FROM (VALUES ('ComplianceCheckResult', 'compliancecheckresults', 'current'),
		('ComplianceRemediation', 'complianceremediations', 'none')) k(kind, plural, results)
	WHERE NOT EXISTS (SELECT FROM kube_reports.resource_type t
		WHERE t."group" = 'compliance.openshift.io' AND t.plural = k.plural) \gset
CREATE TEMP TABLE compliance_check (name text, severity text, before text, now text, state text);
INSERT INTO compliance_check VALUES
	('api-server-audit-log-path', 'high', 'FAIL', 'PASS', 'Applied'),
	('etcd-unique-ca', 'medium', 'PASS', 'PASS', NULL),
	('kubelet-enable-protect-kernel-defaults', 'medium', 'FAIL', 'FAIL', 'Pending'),
	('scheduler-no-bind-address', 'low', 'PASS', 'FAIL', 'Outdated'),
	('accounts-restrict-service-account-tokens', 'medium', 'MANUAL', 'MANUAL', NULL);
INSERT INTO written
	SELECT :'cluster', now() - a.age, jsonb_build_object('apiVersion', 'compliance.openshift.io/v1alpha1',
		'kind', 'ComplianceCheckResult',
		'metadata', jsonb_build_object('name', 'ocp4-cis-' || k.name, 'namespace', 'openshift-compliance',
			'labels', jsonb_build_object('compliance.openshift.io/scan-name', 'ocp4-cis',
				'compliance.openshift.io/suite', 'cis')
				|| CASE WHEN k.state IS NULL THEN '{}'
					ELSE '{"compliance.openshift.io/automated-remediation": ""}'::jsonb END),
		'id', 'xccdf_' || k.name, 'severity', k.severity,
		'status', CASE WHEN a.age > '10 days' THEN k.before ELSE k.now END,
		'description', replace(k.name, '-', ' '))
	FROM compliance_check k, (VALUES (interval '21 days'), (interval '4 days')) a(age);

---- all of it, in the order of its times ----

DO $$
DECLARE
	step		record;
BEGIN
	FOR step IN
		SELECT w.cluster, w.at, w.document, NULL::text AS gone FROM written w
		UNION ALL
		SELECT b.cluster, b.at + interval '1 day', NULL, b.uid::text FROM build b
		ORDER BY at
	LOOP
		IF step.gone IS NULL THEN
			PERFORM kube_reports.import_report(step.cluster, step.document::kube_reports.report, step.at, 'sample');
		ELSE
			PERFORM kube_reports.import_deletion(step.cluster, 'policyreports.wgpolicyk8s.io', 'ci', step.gone,
				step.at, 'sample');
		END IF;
	END LOOP;
END
$$;
-- Remediations have no results, and so no history.  DML writes them in both variants.
INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, metadata, body)
	SELECT c.id, t.id, 'openshift-compliance', 'ocp4-cis-' || k.name, '{}', jsonb_build_object(
		'spec', CASE k.state WHEN 'Outdated' THEN '{"apply": true, "outdated": {"object": {"kind": "MachineConfig"}}}'
			ELSE '{"apply": true}' END::jsonb, 'status', jsonb_build_object('applicationState', k.state))
		::kube_reports.report
	FROM compliance_check k, kube_reports.cluster c, kube_reports.resource_type t
	WHERE k.state IS NOT NULL AND c.uid = :'cluster' AND t."group" = 'compliance.openshift.io'
		AND t.plural = 'complianceremediations';
SELECT count(*) || ' states of the past imported' FROM written;
\endif
COMMIT;
