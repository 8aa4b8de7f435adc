-- mappings.sql
--	  The mappings of known types: where results stand in their documents.
--
-- docs/architecture/results.md, "Mappings", describes the language.  The mappings here apply to the built-in types, and
-- to the other types once their CustomResourceDefinitions are registered.

-- Words in capitals stand for what several mappings have in common.
CREATE VIEW kube_reports_internal.known_mapping AS
	SELECT k."group", k.plural, k.results, replace(replace(replace(k.mapping, 'OWNERS', c.owners),
		'TRIVY_LABELS', c.trivy_labels), 'KUBESCAPE_LABELS', c.kubescape_labels)::kube_reports.report AS mapping
	FROM (
	-- Kyverno, Trivy's adapter, Falco, kube-bench and others: the report formats of the policy working group.
	-- Falco's exporter names no resource, or a pod only; it gives its own namespace as the owner of its reports.  The
	-- fields of the event, which are the properties, say what it is about; <nil> and <NA> stand for no value.
	SELECT t."group", t.plural, 'current' AS results, m.mapping
	FROM (VALUES
		('wgpolicyk8s.io', 'policyreports'),
		('wgpolicyk8s.io', 'clusterpolicyreports'),
		('openreports.io', 'reports'),
		('openreports.io', 'clusterreports')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.results",
	"source": [".source", "$.source"],
	"policy": ".policy",
	"rule": ".rule",
	"category": ".category",
	"severity": ".severity",
	"status": ".result",
	"score": [".properties.score", ".properties.cvssScore"],
	"message": ".message",
	"properties": ".properties",
	"exceptions": [".properties.exceptions", ".properties.exception"],
	"time": ".timestamp",
	"key": ".properties.resource",
	"subjects": [
		{"each": ".resources", "apiVersion": "@.apiVersion", "kind": "@.kind",
			"namespace": ["@.namespace", "$.metadata.namespace"], "name": "@.name", "uid": "@.uid"},
		{"apiVersion": "$.scope.apiVersion", "kind": "$.scope.kind",
			"namespace": ["$.scope.namespace", "$.metadata.namespace"], "name": "$.scope.name", "uid": "$.scope.uid"},
		{"apiVersion": {"value": "v1"}, "kind": {"value": "Pod"},
			"namespace": [{"path": ".properties.k8s\\.ns\\.name", "map": {"<nil>": "", "<NA>": ""}},
				"$.metadata.namespace"],
			"name": {"path": ".properties.k8s\\.pod\\.name", "map": {"<nil>": "", "<NA>": ""}}},
		{"apiVersion": {"path": ".properties.ka\\.target\\.resource", "map": {"pods": "v1", "services": "v1",
				"secrets": "v1", "configmaps": "v1", "namespaces": "v1", "serviceaccounts": "v1",
				"daemonsets": "apps/v1", "deployments": "apps/v1", "statefulsets": "apps/v1", "jobs": "batch/v1",
				"cronjobs": "batch/v1", "roles": "rbac.authorization.k8s.io/v1",
				"rolebindings": "rbac.authorization.k8s.io/v1", "clusterroles": "rbac.authorization.k8s.io/v1",
				"clusterrolebindings": "rbac.authorization.k8s.io/v1"}, "otherwise": ""},
			"kind": {"path": ".properties.ka\\.target\\.resource", "map": {"pods": "Pod", "services": "Service",
				"secrets": "Secret", "configmaps": "ConfigMap", "namespaces": "Namespace",
				"serviceaccounts": "ServiceAccount", "daemonsets": "DaemonSet", "deployments": "Deployment",
				"statefulsets": "StatefulSet", "jobs": "Job", "cronjobs": "CronJob", "roles": "Role",
				"rolebindings": "RoleBinding", "clusterroles": "ClusterRole",
				"clusterrolebindings": "ClusterRoleBinding"}},
			"namespace": {"path": ".properties.ka\\.target\\.namespace", "map": {"<nil>": "", "<NA>": ""}},
			"name": [{"path": ".properties.ka\\.target\\.name", "map": {"<nil>": "", "<NA>": ""}},
				{"path": ".properties.ka\\.resp\\.name", "map": {"<nil>": "", "<NA>": ""}}]},
		{"apiVersion": {"value": "v1"}, "kind": {"value": "Namespace"},
			"name": [{"path": ".properties.k8s\\.ns\\.name", "map": {"<nil>": "", "<NA>": ""}},
				{"path": ".properties.ka\\.target\\.namespace", "map": {"<nil>": "", "<NA>": ""}}]},
		OWNERS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Kyverno's intermediate reports.
	SELECT t."group", t.plural, 'intermediate', m.mapping
	FROM (VALUES
		('reports.kyverno.io', 'ephemeralreports'),
		('reports.kyverno.io', 'clusterephemeralreports'),
		('kyverno.io', 'admissionreports'),
		('kyverno.io', 'clusteradmissionreports'),
		('kyverno.io', 'backgroundscanreports'),
		('kyverno.io', 'clusterbackgroundscanreports')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.spec.results",
	"source": ".source",
	"policy": ".policy",
	"rule": ".rule",
	"category": ".category",
	"severity": ".severity",
	"status": ".result",
	"score": ".properties.score",
	"message": ".message",
	"properties": ".properties",
	"exceptions": [".properties.exceptions", ".properties.exception"],
	"time": ".timestamp",
	"key": ".properties.resource",
	"subjects": [
		{"each": ".resources", "apiVersion": "@.apiVersion", "kind": "@.kind",
			"namespace": ["@.namespace", "$.metadata.namespace"], "name": "@.name", "uid": "@.uid"},
		{"apiVersion": "$.spec.owner.apiVersion", "kind": "$.spec.owner.kind", "namespace": "$.metadata.namespace",
			"name": "$.spec.owner.name", "uid": "$.spec.owner.uid"},
		OWNERS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Trivy: vulnerabilities of an image.  Each is a failure of a policy that has the name of the CVE.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('aquasecurity.github.io', 'vulnerabilityreports'),
		('aquasecurity.github.io', 'clustervulnerabilityreports')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.report.vulnerabilities",
	"source": {"value": "Trivy Vulnerability"},
	"policy": ".vulnerabilityID",
	"category": {"value": "Vulnerability Scan"},
	"severity": ".severity",
	"status": {"value": "fail"},
	"score": [".score", ".cvss.nvd.V3Score", ".cvss.ghsa.V3Score", ".cvss.redhat.V3Score", ".cvss.*.V3Score",
		".cvss.nvd.V40Score", ".cvss.*.V40Score"],
	"message": ".title",
	"properties": {
		"resource": ".resource",
		"installedVersion": ".installedVersion",
		"fixedVersion": ".fixedVersion",
		"primaryLink": ".primaryLink",
		"target": ".target",
		"class": ".class",
		"packageType": ".packageType",
		"packagePURL": ".packagePURL",
		"artifact.repository": "$.report.artifact.repository",
		"artifact.tag": "$.report.artifact.tag",
		"artifact.digest": "$.report.artifact.digest",
		"registry.server": "$.report.registry.server"
	},
	"time": "$.report.updateTimestamp",
	"key": [".resource", ".target", ".packagePath"],
	"subjects": [
		OWNERS,
		TRIVY_LABELS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Trivy: checks of a resource.  Sources have the names that Trivy's adapter gives them.
	SELECT t."group", t.plural, 'current', replace(m.mapping, 'TRIVY_SOURCE', t.source)
	FROM (VALUES
		('aquasecurity.github.io', 'configauditreports', 'Trivy ConfigAudit'),
		('aquasecurity.github.io', 'clusterconfigauditreports', 'Trivy ConfigAudit'),
		('aquasecurity.github.io', 'rbacassessmentreports', 'Trivy RbacAssessment'),
		('aquasecurity.github.io', 'clusterrbacassessmentreports', 'Trivy RbacAssessment'),
		('aquasecurity.github.io', 'infraassessmentreports', 'Trivy InfraAssessment'),
		('aquasecurity.github.io', 'clusterinfraassessmentreports', 'Trivy InfraAssessment'))
			t("group", plural, source),
		(VALUES ($mapping${
	"list": "$.report.checks",
	"source": {"value": "TRIVY_SOURCE"},
	"policy": ".checkID",
	"category": ".category",
	"severity": ".severity",
	"status": {"path": ".success", "map": {"true": "pass", "false": "fail"}},
	"message": [".messages[0]", ".title"],
	"properties": {"title": ".title", "remediation": ".remediation"},
	"time": "$.report.updateTimestamp",
	"subjects": [
		OWNERS,
		TRIVY_LABELS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Trivy: secrets in an image.  A scanner's rule may find several secrets in one file.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('aquasecurity.github.io', 'exposedsecretreports')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.report.secrets",
	"source": {"value": "Trivy ExposedSecrets"},
	"policy": ".ruleID",
	"category": [".category", {"value": "Exposed Secrets"}],
	"severity": ".severity",
	"status": {"value": "fail"},
	"message": ".title",
	"properties": {
		"target": ".target",
		"match": ".match",
		"artifact.repository": "$.report.artifact.repository",
		"artifact.tag": "$.report.artifact.tag",
		"artifact.digest": "$.report.artifact.digest",
		"registry.server": "$.report.registry.server"
	},
	"time": "$.report.updateTimestamp",
	"key": [".target", ".match"],
	"subjects": [
		OWNERS,
		TRIVY_LABELS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Trivy: controls of a framework.  The details, with the checks of each control, are present if the report is of
	-- the kind "all"; a control without checks has the status that the framework gives it.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('aquasecurity.github.io', 'clustercompliancereports')) t("group", plural),
		(VALUES ($mapping${
	"list": ["$.status.detailReport.results", "$.status.summaryReport.controlCheck"],
	"source": {"value": "Trivy Compliance"},
	"policy": "$.metadata.name",
	"rule": ".id",
	"category": ["$.spec.compliance.title", "$.status.detailReport.title", "$.status.summaryReport.title"],
	"severity": ".severity",
	"status": [
		{"path": ".checks[?(@.success==false)].success", "map": {"false": "fail"}},
		{"path": ".checks[0].success", "map": {"true": "pass"}},
		".status",
		{"path": ".totalFail", "map": {"0": "pass"}, "otherwise": "fail"}
	],
	"message": [".checks[?(@.success==false)].messages[0]", ".name", ".description"],
	"properties": {
		"title": ".name",
		"description": ".description",
		"totalFail": ".totalFail",
		"checkID": ".checks[?(@.success==false)].checkID",
		"remediation": ".checks[?(@.success==false)].remediation",
		"target": ".checks[?(@.success==false)].target"
	},
	"time": "$.status.updateTimestamp",
	"subjects": [
		{"apiVersion": {"value": "aquasecurity.github.io/v1alpha1"}, "kind": {"value": "ClusterComplianceReport"},
			"name": "$.metadata.name", "uid": "$.metadata.uid"}
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Compliance Operator: the document itself is the result.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('compliance.openshift.io', 'compliancecheckresults')) t("group", plural),
		(VALUES ($mapping${
	"list": "$",
	"source": {"value": "Compliance Operator"},
	"policy": ["$.metadata.labels.compliance\\.openshift\\.io/scan-name", "$.metadata.name"],
	"rule": ["$.metadata.annotations.compliance\\.openshift\\.io/rule", "$.id"],
	"category": "$.metadata.labels.compliance\\.openshift\\.io/suite",
	"severity": "$.severity",
	"status": {"path": "$.status", "map": {"MANUAL": "skip", "NOT-APPLICABLE": "skip", "INFO": "skip",
		"INCONSISTENT": "error"}},
	"message": "$.description",
	"properties": {
		"id": "$.id",
		"instructions": "$.instructions",
		"inconsistent-source": "$.metadata.annotations.compliance\\.openshift\\.io/inconsistent-source",
		"most-common-status": "$.metadata.annotations.compliance\\.openshift\\.io/most-common-status",
		"error-msg": "$.metadata.annotations.compliance\\.openshift\\.io/error-msg",
		"automated-remediation": {"path": "$.metadata.labels.compliance\\.openshift\\.io/automated-remediation",
			"map": {"": "true"}}
	},
	"time": ["$.metadata.annotations.compliance\\.openshift\\.io/last-scanned-timestamp",
		"$.metadata.creationTimestamp"],
	"subjects": [
		OWNERS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Compliance Operator: the state of a remediation.  A remediation that is not applied is no failure: the result of
	-- its check is one.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('compliance.openshift.io', 'complianceremediations')) t("group", plural),
		(VALUES ($mapping${
	"list": "$",
	"source": {"value": "Compliance Operator Remediation"},
	"policy": ["$.metadata.labels.compliance\\.openshift\\.io/scan-name", "$.metadata.name"],
	"rule": "$.metadata.name",
	"category": "$.metadata.labels.compliance\\.openshift\\.io/suite",
	"status": [
		{"path": "$.status.applicationState", "map": {"": "skip", "NotApplied": "skip", "Pending": "skip",
			"Applied": "pass", "Outdated": "warn", "NeedsReview": "warn", "MissingDependencies": "error",
			"Error": "error"}},
		{"value": "skip"}
	],
	"message": "$.status.errorMessage",
	"properties": {
		"apply": "$.spec.apply",
		"type": "$.spec.type",
		"object.kind": "$.spec.current.object.kind",
		"object.name": "$.spec.current.object.metadata.name"
	},
	"subjects": [
		OWNERS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Kubescape: controls of a workload, by their ids.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('spdx.softwarecomposition.kubescape.io', 'workloadconfigurationscans')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.spec.controls.*",
	"source": {"value": "Kubescape"},
	"policy": ".controlID",
	"severity": ".severity.severity",
	"status": {"path": ".status.status", "map": {"passed": "pass", "failed": "fail", "skipped": "skip",
		"irrelevant": "skip", "": "skip"}},
	"message": [".status.info", ".name"],
	"properties": {
		"title": ".name",
		"subStatus": ".status.subStatus",
		"scoreFactor": ".severity.scoreFactor",
		"failedPath": ".rules[*].paths[*].failedPath",
		"fixPath": ".rules[*].paths[*].fixPath"
	},
	"time": "$.metadata.creationTimestamp",
	"subjects": [
		KUBESCAPE_LABELS
	]
}$mapping$)) m(mapping)
	UNION ALL
	-- Kubescape: vulnerabilities of an image, as Grype finds them.  Vulnerabilities in the parts that a workload has
	-- loaded are a subset of them, and have a source of their own.
	SELECT t."group", t.plural, 'current', m.mapping
	FROM (VALUES
		('spdx.softwarecomposition.kubescape.io', 'vulnerabilitymanifests')) t("group", plural),
		(VALUES ($mapping${
	"list": "$.spec.payload.matches",
	"source": [{"path": "$.metadata.labels.kubescape\\.io/context",
		"map": {"filtered": "Kubescape Relevant Vulnerability"}, "otherwise": "Kubescape Vulnerability"},
		{"value": "Kubescape Vulnerability"}],
	"policy": ".vulnerability.id",
	"category": {"value": "Vulnerability Scan"},
	"severity": {"path": ".vulnerability.severity", "map": {"Negligible": "info"}},
	"status": {"value": "fail"},
	"score": [".vulnerability.cvss[?(@.version==\"3.1\")].metrics.baseScore",
		".vulnerability.cvss[?(@.version==\"3.0\")].metrics.baseScore",
		".vulnerability.cvss[?(@.version==\"4.0\")].metrics.baseScore",
		".relatedVulnerabilities[*].cvss[?(@.version==\"3.1\")].metrics.baseScore"],
	"message": ".vulnerability.description",
	"properties": {
		"resource": ".artifact.name",
		"installedVersion": ".artifact.version",
		"fixedVersion": ".vulnerability.fix.versions[0]",
		"fixState": ".vulnerability.fix.state",
		"primaryLink": ".vulnerability.dataSource",
		"packageType": ".artifact.type",
		"packagePURL": ".artifact.purl",
		"image": "$.metadata.annotations.kubescape\\.io/image-tag",
		"imageID": "$.metadata.annotations.kubescape\\.io/image-id"
	},
	"time": "$.metadata.creationTimestamp",
	"key": [".artifact.name", ".artifact.version", ".artifact.locations[0].path"],
	"subjects": [
		KUBESCAPE_LABELS,
		{"kind": {"value": "Image"}, "name": ["$.metadata.annotations.kubescape\\.io/image-tag", "$.metadata.name"]}
	]
}$mapping$)) m(mapping)
	) k,
		-- The owner that is the controller, or else the first.
		(VALUES ($subjects$
		{"apiVersion": "$.metadata.ownerReferences[?(@.controller==true)].apiVersion",
			"kind": "$.metadata.ownerReferences[?(@.controller==true)].kind", "namespace": "$.metadata.namespace",
			"name": "$.metadata.ownerReferences[?(@.controller==true)].name",
			"uid": "$.metadata.ownerReferences[?(@.controller==true)].uid"},
		{"apiVersion": "$.metadata.ownerReferences[0].apiVersion", "kind": "$.metadata.ownerReferences[0].kind",
			"namespace": "$.metadata.namespace", "name": "$.metadata.ownerReferences[0].name",
			"uid": "$.metadata.ownerReferences[0].uid"}
		$subjects$, $subjects$
		{"kind": "$.metadata.labels.trivy-operator\\.resource\\.kind",
			"namespace": ["$.metadata.labels.trivy-operator\\.resource\\.namespace", "$.metadata.namespace"],
			"name": ["$.metadata.labels.trivy-operator\\.resource\\.name",
				"$.metadata.annotations.trivy-operator\\.resource\\.name"]}
		$subjects$, $subjects$
		{"kind": "$.metadata.labels.kubescape\\.io/workload-kind",
			"namespace": ["$.metadata.labels.kubescape\\.io/workload-namespace", "$.metadata.namespace"],
			"name": "$.metadata.labels.kubescape\\.io/workload-name"}
		$subjects$)) c(owners, trivy_labels, kubescape_labels);
COMMENT ON VIEW kube_reports_internal.known_mapping IS 'results and mappings of types that need not be told where '
		'their results stand; changes with the version of the extension';
