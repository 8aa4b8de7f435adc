-- Mappings: what those of known types find in documents as their tools write them, and what a mapping may not say.

SET client_min_messages = warning;
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set VERBOSITY terse

CREATE FUNCTION pg_temp.crd("group" text, plural text, kind text) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('apiVersion', 'apiextensions.k8s.io/v1', 'kind', 'CustomResourceDefinition', 'metadata',
		jsonb_build_object('name', plural || '.' || "group"),
		'spec', jsonb_build_object('group', "group", 'scope', 'Namespaced', 'names',
			jsonb_build_object('plural', plural, 'singular', lower(kind), 'kind', kind, 'listKind', kind || 'List'),
			'versions', '[{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": '
				'{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]'::jsonb))
$$;
SELECT count(kube_reports.register_crd(pg_temp.crd(k."group", lower(k.kind) || 's', k.kind)))
	FROM (VALUES ('compliance.openshift.io', 'ComplianceCheckResult'), ('aquasecurity.github.io', 'ConfigAuditReport'),
		('aquasecurity.github.io', 'RbacAssessmentReport'),
		('aquasecurity.github.io', 'InfraAssessmentReport'), ('aquasecurity.github.io', 'VulnerabilityReport'),
			('example.com', 'Finding')) k("group", kind);

---- sources ----
SELECT d.kind, r.source, r.policy, r.status
	FROM unnest('{ConfigAuditReport,RbacAssessmentReport,InfraAssessmentReport}'::text[]) d(kind),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'aquasecurity.github.io/v1alpha1', 'kind', d.kind,
			'report', '{"checks": [{"checkID": "KSV001", "success": false}]}'::jsonb)::kube_reports.report) r;

---- scores ----
SELECT s.properties, r.score
	FROM (VALUES ('{"score": " 8.8 "}'::jsonb), ('{"score": "9.8\t"}'), ('{"score": 7.5}'), ('{"score": "0"}'),
		('{"score": "9 8"}'), ('{"score": " "}')) s(properties),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'results', jsonb_build_array(jsonb_build_object('policy', 'p', 'result', 'fail', 'properties',
				s.properties)))::kube_reports.report) r;
SELECT v.vulnerability, r.score
	FROM (VALUES ('{"score": 5.1, "cvss": {"nvd": {"V3Score": 9.9}}}'::jsonb),
		('{"cvss": {"nvd": {"V3Score": 7.1}, "ghsa": {"V3Score": 8.1}}}'),
			('{"cvss": {"nvd": {"V2Score": 7.1}, "bitnami": {"V3Score": 6.1}}}'),
				('{"cvss": {"bitnami": {"V3Score": 5.2, "V40Score": 9.2}}}'),
			('{"cvss": {"ghsa": {"V40Score": 8.3}, "nvd": {"V40Score": 9.3}}}'),
				('{"cvss": {"ghsa": {"V40Score": 8.4}}}'), ('{"cvss": {"nvd": {"V2Score": 7.5}}}'),
				('{"cvss": {}}')) v(vulnerability),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'aquasecurity.github.io/v1alpha1',
			'kind', 'VulnerabilityReport',
			'report', jsonb_build_object('vulnerabilities',
				jsonb_build_array(v.vulnerability || '{"vulnerabilityID": "CVE-1"}')))::kube_reports.report) r;

---- what is no list ----
SELECT l.vulnerabilities, count(r.policy) AS results, count(r."position") AS all
	FROM (VALUES ('{}'::jsonb), ('[]'), ('null'), ('[{}]'), ('{"severity": "HIGH"}')) l(vulnerabilities)
		LEFT JOIN LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'aquasecurity.github.io/v1alpha1',
			'kind', 'VulnerabilityReport',
			'report', jsonb_build_object('vulnerabilities', l.vulnerabilities, 'updateTimestamp',
				'2024-01-01T00:00:00Z'))::kube_reports.report) r ON true
	GROUP BY 1 ORDER BY 1;

---- owners ----
SELECT o.owners, r.kind, r.name, r.uid
	FROM (VALUES ('[{"kind": "Node", "name": "first", "uid": "1"}, {"kind": "ReplicaSet", "name": "second", "uid": '
		'"2", "controller": true}]'::jsonb),
			('[{"kind": "Node", "name": "first", "uid": "1", "controller": false}, {"kind": "ReplicaSet", "name": '
				'"second", "uid": "2"}]'),
			('[{"kind": "Node", "name": "first", "uid": "1", "controller": "true"}]'), ('[]')) o(owners),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', jsonb_build_object('ownerReferences', o.owners),
			'results', '[{"policy": "p", "result": "fail"}]'::jsonb)::kube_reports.report) r;

---- the Compliance Operator ----
SELECT c.document->>'status' AS said, r.status, r.native_status, r.properties
	FROM (VALUES ('{"status": "INFO", "metadata": {"name": "a", "labels": '
		'{"compliance.openshift.io/automated-remediation": ""}}}'::jsonb),
			('{"status": "FAIL", "metadata": {"name": "a", "labels": {"compliance.openshift.io/check-has-value": ""}}}'), ('{"status": "ERROR", "metadata": {"name": "a"}}'),
			('{"status": "", "metadata": {"name": "a"}}')) c(document),
		LATERAL kube_reports.results((c.document
			|| '{"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult"}')::kube_reports.report) r;

---- what a mapping may not say ----
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": {"path": ".s", "map": {"bad": "FAIL", "good": "bogus"}}}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": [".s", {"value": "wrong"}, {"path": ".t", "map": {"": ""}}]}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": {"path": ".s", "map": {"bad": 1}}}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": ".s"}', 'bogus');
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.set_results_mapping('findings.example.com', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": ".s"}', NULL);
\echo :LAST_ERROR_SQLSTATE
SELECT kube_reports.set_results_mapping('findings.example.com', '{"list": "$.l", "policy": ".p", "status": [{"path": '
	'".s", "map": {"": "skip", "bad": "Fail"}}, {"value": "warn"}]}');
SELECT r.policy, r.status, r.native_status FROM kube_reports.results('{"apiVersion": "example.com/v1alpha1", "kind": "Finding",
	"l": [{"p": "a", "s": "bad"}, {"p": "b", "s": ""}, {"p": "c"}, {"p": "d", "s": "other"}]}') r;
DROP EXTENSION kube_reports CASCADE;
CREATE EXTENSION kube_reports;
