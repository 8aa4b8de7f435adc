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
			'versions', jsonb_build_array('{"served": true, "storage": true, "schema": {"openAPIV3Schema":
				{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}'::jsonb
				|| jsonb_build_object('name', CASE WHEN "group" ~ 'kubescape' THEN 'v1beta1' ELSE 'v1alpha1' END))))
$$;
SELECT count(kube_reports.register_crd(pg_temp.crd(k."group", lower(k.kind) || 's', k.kind)))
	FROM (VALUES ('compliance.openshift.io', 'ComplianceCheckResult'), ('aquasecurity.github.io', 'ConfigAuditReport'),
		('aquasecurity.github.io', 'RbacAssessmentReport'),
		('aquasecurity.github.io', 'InfraAssessmentReport'), ('aquasecurity.github.io', 'VulnerabilityReport'),
			('aquasecurity.github.io', 'ExposedSecretReport'), ('aquasecurity.github.io', 'ClusterComplianceReport'),
			('compliance.openshift.io', 'ComplianceRemediation'), ('example.com', 'Finding'),
			('spdx.softwarecomposition.kubescape.io', 'WorkloadConfigurationScan'),
			('spdx.softwarecomposition.kubescape.io', 'VulnerabilityManifest')) k("group", kind);

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
			('{"status": "FAIL", "metadata": {"name": "a",
				"labels": {"compliance.openshift.io/check-has-value": ""}}}'),
			('{"status": "ERROR", "metadata": {"name": "a"}}'),
			('{"status": "", "metadata": {"name": "a"}}')) c(document),
		LATERAL kube_reports.results((c.document || '{"apiVersion": "compliance.openshift.io/v1alpha1",
			"kind": "ComplianceCheckResult"}')::kube_reports.report) r;

SELECT s.state, r.source, r.policy, r.rule, r.category, r.status, r.native_status,
		kube_reports_internal.excluded_from_score(r.native_status) AS excluded, r.kind, r.name, r.message, r.properties
	FROM unnest('{Pending,NotApplied,Applied,Outdated,Error,MissingDependencies,NeedsReview,"",NULL,Other}'::text[])
			WITH ORDINALITY s(state, n),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'compliance.openshift.io/v1alpha1',
			'kind', 'ComplianceRemediation', 'metadata', '{"name": "cis-rule-1", "namespace": "openshift-compliance",
				"labels": {"compliance.openshift.io/scan-name": "cis-node", "compliance.openshift.io/suite": "cis"},
				"ownerReferences": [{"apiVersion": "compliance.openshift.io/v1alpha1", "kind": "ComplianceCheckResult",
					"name": "cis-rule", "uid": "1", "controller": true}]}'::jsonb,
			'spec', '{"apply": false, "type": "Configuration", "current": {"object": {"kind": "MachineConfig",
				"metadata": {"name": "75-rule"}}}}'::jsonb,
			'status', jsonb_build_object('applicationState', s.state, 'errorMessage',
				CASE s.state WHEN 'Error' THEN 'boom' END))::kube_reports.report) r
	ORDER BY s.n;

---- secrets ----
SELECT r.source, r.policy, r.category, r.severity, r.status, r.message, r.kind, r.namespace, r.name,
		r.properties->>'target' AS target, r.properties->>'artifact.tag' AS tag,
		count(*) OVER () = count(*) FILTER (WHERE r.properties ? 'match') OVER () AS matches
	FROM kube_reports.results('{"apiVersion": "aquasecurity.github.io/v1alpha1", "kind": "ExposedSecretReport",
		"metadata": {"name": "r", "namespace": "shop", "labels": {"trivy-operator.resource.kind": "ReplicaSet"},
			"annotations": {"trivy-operator.resource.name": "a-name-that-is-too-long-for-a-label"}},
		"report": {"artifact": {"repository": "shop/app", "tag": "v1"}, "updateTimestamp": "2024-01-01T00:00:00Z",
			"secrets": [
			{"category": "Stripe", "match": "publishable_key: *****", "ruleID": "stripe-access-token",
				"severity": "HIGH", "target": "/app/secret.yaml", "title": "Stripe"},
			{"category": "Stripe", "match": "secret_key: *****", "ruleID": "stripe-access-token",
				"severity": "CRITICAL", "target": "/app/secret.yaml", "title": "Stripe"}]}}'::kube_reports.report) r;

---- frameworks ----
SELECT d.what, r.source, r.policy, r.rule, r.category, r.severity, r.status, r.native_status, r.message, r.kind, r.name,
		r.properties
	FROM (VALUES
		('summary', '{"summaryReport": {"id": "nsa", "title": "NSA", "controlCheck": [
			{"id": "1.0", "name": "Non-root containers", "severity": "MEDIUM", "totalFail": 0},
			{"id": "1.1", "name": "Immutable file systems", "severity": "LOW", "totalFail": 7},
			{"id": "1.2", "name": "By hand", "severity": "CRITICAL"}]}}'::jsonb),
		('all', '{"detailReport": {"id": "nsa", "title": "NSA", "results": [
			{"id": "1.0", "name": "Passes", "severity": "MEDIUM", "checks": [{"checkID": "KSV012", "success": true}]},
			{"id": "1.1", "name": "Fails", "severity": "LOW", "checks": [
				{"checkID": "KSV014", "success": true, "target": "shop/Pod/a"},
				{"checkID": "KSV014", "success": false, "target": "shop/Pod/b", "messages": ["is writable"],
					"remediation": "mend it"}]},
			{"id": "1.2", "name": "By hand", "severity": "CRITICAL", "status": "FAIL", "checks": []},
			{"id": "1.3", "name": "Nothing found", "severity": "HIGH", "checks": null}]}}'),
		('nothing yet', '{}')) d(what, status),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'aquasecurity.github.io/v1alpha1', 'kind',
			'ClusterComplianceReport', 'metadata', '{"name": "k8s-nsa", "uid": "1"}'::jsonb,
			'spec', '{"compliance": {"title": "NSA, CISA Hardening"}}'::jsonb,
			'status', d.status || '{"updateTimestamp": "2024-01-01T00:00:00Z"}')::kube_reports.report) r
	ORDER BY d.what DESC, r."position";

---- results by their names, and those of Kubescape ----
SELECT r."position", r.source, r.policy, r.severity, r.status, r.native_status, r.message, r.kind, r.namespace, r.name,
		r.properties
	FROM (VALUES
		(1, '{"C-0016": {"controlID": "C-0016", "name": "Allow privilege escalation",
			"severity": {"severity": "Medium", "scoreFactor": 6},
			"status": {"status": "failed", "subStatus": "", "info": ""},
			"rules": [{"name": "rule", "paths": [{"failedPath": "spec.template", "fixPath": "", "fixPathValue": ""}]}]},
		"C-0017": {"controlID": "C-0017", "name": "Immutable file system",
			"severity": {"severity": "Low", "scoreFactor": 3}, "status": {"status": "passed"}, "rules": []},
		"C-0001": {"controlID": "C-0001", "name": "Registries", "severity": {"severity": "High", "scoreFactor": 7},
			"status": {"status": "skipped", "subStatus": "configuration", "info": "lists are empty"}}}'::jsonb),
		(2, '{"C-0088": {"controlID": "C-0088", "name": "RBAC", "status": {"status": "failed"}}}'),
		(3, '{}'), (4, 'null')) d(number, controls),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'spdx.softwarecomposition.kubescape.io/v1beta1',
			'kind', 'WorkloadConfigurationScan', 'metadata',
			'{"name": "deployment-web", "namespace": "shop", "labels": {
				"kubescape.io/workload-kind": "Deployment", "kubescape.io/workload-name": "web",
				"kubescape.io/workload-namespace": "shop"}}'::jsonb,
			'spec', jsonb_build_object('controls', d.controls))::kube_reports.report) r
	ORDER BY d.number, r.policy;
SELECT d.number, r.source, r.policy, r.severity, r.status, r.score, r.kind, r.namespace, r.name, r.properties
	FROM (VALUES
		(1, '{"annotations": {"kubescape.io/image-tag": "shop/web:1"}}'::jsonb),
		(2, '{"labels": {"kubescape.io/context": "filtered", "kubescape.io/workload-kind": "Deployment",
			"kubescape.io/workload-name": "web", "kubescape.io/workload-namespace": "shop"}}')) d(number, metadata),
		LATERAL kube_reports.results(jsonb_build_object('apiVersion', 'spdx.softwarecomposition.kubescape.io/v1beta1',
			'kind', 'VulnerabilityManifest', 'metadata', d.metadata || '{"name": "m", "namespace": "kubescape"}',
			'spec', '{"payload": {"matches": [
				{"vulnerability": {"id": "CVE-2026-0001", "severity": "Critical", "dataSource": "https://nvd.example",
					"cvss": [{"version": "2.0", "metrics": {"baseScore": 10}},
						{"version": "3.1", "metrics": {"baseScore": 9.8}}],
					"fix": {"versions": ["3.0.2"], "state": "fixed"}},
					"artifact": {"name": "openssl", "version": "3.0.1", "type": "deb",
						"purl": "pkg:deb/openssl@3.0.1"}},
				{"vulnerability": {"id": "CVE-2026-0002", "severity": "Negligible", "cvss": [],
					"fix": {"versions": [], "state": "not-fixed"}},
					"relatedVulnerabilities": [{"id": "CVE-2026-0002", "cvss": [{"version": "3.1",
						"metrics": {"baseScore": 3.1}}]}],
					"artifact": {"name": "bash", "version": "5.2", "type": "deb"}}]}}'::jsonb)::kube_reports.report) r
	ORDER BY d.number, r.policy;

---- Falco ----
-- Up to 2.28 falcosidekick gives its own namespace as the owner, and names no resource; later it names pods.  The time
-- of a PolicyReport's result is the second of a minute, that of a Report of openreports.io is whole.
SELECT d.number, r."position", r.source, r.policy, r.rule, r.severity, r.status, r.api_version, r.kind, r.namespace,
		r.name, r.evaluated_at AT TIME ZONE 'UTC' AS evaluated
	FROM (VALUES
		(1, '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {
			"name": "falco-policy-report-1a2b3c4d", "namespace": "shop",
			"labels": {"app.kubernetes.io/created-by": "falcosidekick"}, "ownerReferences": [{"apiVersion": "v1",
				"kind": "Namespace", "name": "falco", "uid": "1", "controller": false}]},
		"summary": {"fail": 0, "warn": 3}, "results": [
			{"source": "Falco", "policy": "Terminal shell in container",
				"category": "SI - System and Information Integrity", "severity": "medium", "result": "warn",
				"scored": false, "timestamp": {"seconds": 42, "nanos": 123456789},
				"message": "10:15:42.1: Notice A shell was spawned in a container", "properties": {
					"container.id": "0a1b", "k8s.ns.name": "shop", "k8s.pod.name": "web-1", "proc.name": "sh"}},
			{"source": "Falco", "policy": "Create privileged pod", "severity": "medium", "result": "warn",
				"timestamp": {"seconds": 0, "nanos": 5}, "properties": {"ka.target.namespace": "shop",
					"ka.target.resource": "deployments", "ka.target.name": "<nil>", "ka.resp.name": "web",
					"ka.user.name": "admin"}},
			{"source": "Falco", "policy": "Read sensitive file", "severity": "medium", "result": "warn",
				"timestamp": {"seconds": 59}, "properties": {"k8s.ns.name": "shop",
					"k8s.pod.name": "<nil>"}}]}'::jsonb),
		(2, '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", "metadata": {
			"name": "falco-policy-report", "namespace": "shop",
			"labels": {"app.kubernetes.io/managed-by": "falcosidekick"}}, "results": [
			{"source": "Falco", "policy": "syscall", "rule": "Terminal shell in container",
				"category": "SI - System and Information Integrity", "severity": "low", "result": "skip",
				"timestamp": {"seconds": 42}, "resources": [{"apiVersion": "v1", "kind": "Pod", "namespace": "shop",
					"name": "web-1"}], "properties": {"k8s.ns.name": "shop", "k8s.pod.name": "web-1"}}]}'),
		(3, '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "ClusterPolicyReport", "metadata": {
			"name": "falco-cluster-policy-report"}, "results": [
			{"source": "Falco", "policy": "syscall", "rule": "On the host", "severity": "high", "result": "fail",
				"timestamp": {"seconds": 7}, "properties": {"k8s.ns.name": "<NA>", "k8s.pod.name": "<NA>"}}]}'),
		(4, '{"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "metadata": {"name": "falco-report",
			"namespace": "shop", "labels": {"app.kubernetes.io/managed-by": "falcosidekick"}}, "results": [
			{"source": "Falco", "policy": "k8s_audit", "rule": "Attach/Exec Pod",
				"category": "SI - System and Information Integrity", "severity": "critical", "result": "fail",
				"timestamp": {"seconds": 1767225600, "nanos": 500000000}, "resources": [{"apiVersion": "v1",
					"kind": "Pod", "namespace": "shop", "name": "web-1"}],
				"properties": {"ka.target.namespace": "shop", "ka.target.resource": "pods",
					"ka.target.name": "web-1"}}]}')) d(number, document),
		LATERAL kube_reports.results(d.document::kube_reports.report) r
	ORDER BY d.number, r."position";

---- what a mapping may not say ----
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": {"path": ".s", "map": {"bad": "FAIL", "good": "bogus"}}}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": [".s", {"value": "wrong"}, {"path": ".t", "map": {"": ""}}]}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": ".p", "status": {"path": ".s", "map": {"bad": 1}}}');
SELECT kube_reports.set_results_mapping('findings.example.com',
	'{"list": "$.l", "policy": [{"path": ".p", "otherwise": "x"}], "rule": {"path": ".r", "map": {}, "otherwise": 1},
	"status": {"path": ".s", "map": {"bad": "fail"}, "otherwise": "bogus"}}');
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
SELECT r.policy, r.status, r.native_status
	FROM kube_reports.results('{"apiVersion": "example.com/v1alpha1", "kind": "Finding",
	"l": [{"p": "a", "s": "bad"}, {"p": "b", "s": ""}, {"p": "c"}, {"p": "d", "s": "other"}]}') r;
DROP EXTENSION kube_reports CASCADE;
CREATE EXTENSION kube_reports;
