-- generate.sql
--	  The sample reports, one to a line: path of the collection, tab, document.
--
-- For psql -AtF; any PostgreSQL will do, nothing is stored.  Names and uids are the same every time; only times move.

\set QUIET on
SET client_min_messages = warning;
\ir pss.sql

-- How strict a workload is about itself decides which rules it fails.
CREATE TEMP TABLE profile (profile text, failing text[], skipped text[]);
INSERT INTO profile VALUES
	('hardened', '{}', '{}'),
	('plain', '{require-drop-all,privilege-escalation,run-as-non-root,check-seccomp-strict}', '{}'),
	('root', '{require-drop-all,privilege-escalation,run-as-non-root,run-as-non-root-user,check-seccomp-strict}', '{}'),
	('agent', '{require-drop-all,privilege-escalation,run-as-non-root,check-seccomp-strict,host-namespaces,host-path,'
		'host-ports-none,restricted-volumes}', '{}'),
	('network', '{adding-capabilities,adding-capabilities-strict,require-drop-all,privilege-escalation,'
		'privileged-containers,host-namespaces,host-path,run-as-non-root,check-seccomp-strict,restricted-volumes}',
		'{}'),
	('excepted', '{require-drop-all,check-seccomp-strict}', '{host-path,restricted-volumes,privileged-containers}');

CREATE TEMP TABLE workload (number serial, namespace text, kind text, name text, profile text);
INSERT INTO workload (namespace, kind, name, profile) VALUES
	('kube-system', 'DaemonSet', 'calico-node', 'network'),
	('kube-system', 'DaemonSet', 'kube-proxy', 'network'),
	('kube-system', 'Deployment', 'coredns', 'plain'),
	('kube-system', 'Deployment', 'metrics-server', 'hardened'),
	('kube-system', 'Pod', 'etcd-control-plane-1', 'agent'),
	('kube-system', 'Pod', 'kube-apiserver-control-plane-1', 'agent'),
	('kube-system', 'Pod', 'kube-scheduler-control-plane-1', 'agent'),
	('shop', 'Deployment', 'storefront', 'hardened'),
	('shop', 'Deployment', 'catalog', 'plain'),
	('shop', 'Deployment', 'cart', 'plain'),
	('shop', 'Deployment', 'search', 'hardened'),
	('shop', 'Deployment', 'recommendations', 'root'),
	('shop', 'StatefulSet', 'catalog-db', 'excepted'),
	('shop', 'StatefulSet', 'session-cache', 'plain'),
	('shop', 'CronJob', 'price-import', 'root'),
	('shop', 'Pod', 'storefront-7d998c79c4-rj7th', 'hardened'),
	('shop', 'Pod', 'catalog-5f6d8b9c7-2xk4m', 'plain'),
	('payments', 'Deployment', 'gateway', 'hardened'),
	('payments', 'Deployment', 'ledger', 'hardened'),
	('payments', 'Deployment', 'fraud-check', 'plain'),
	('payments', 'Deployment', 'invoice-pdf', 'root'),
	('payments', 'StatefulSet', 'ledger-db', 'excepted'),
	('payments', 'CronJob', 'settlement', 'hardened'),
	('payments', 'Pod', 'gateway-6c9f7b5d88-wq9zl', 'hardened'),
	('monitoring', 'DaemonSet', 'node-exporter', 'agent'),
	('monitoring', 'DaemonSet', 'log-shipper', 'agent'),
	('monitoring', 'Deployment', 'grafana', 'plain'),
	('monitoring', 'Deployment', 'kube-state-metrics', 'hardened'),
	('monitoring', 'Deployment', 'alert-router', 'hardened'),
	('monitoring', 'StatefulSet', 'prometheus', 'plain'),
	('monitoring', 'StatefulSet', 'alertmanager', 'plain'),
	('monitoring', 'CronJob', 'backup-dashboards', 'root'),
	('ci', 'Deployment', 'runner-controller', 'plain'),
	('ci', 'Deployment', 'artifact-cache', 'plain'),
	('ci', 'StatefulSet', 'registry', 'excepted'),
	('ci', 'DaemonSet', 'image-puller', 'agent'),
	('ci', 'CronJob', 'cleanup', 'root'),
	('ci', 'Pod', 'build-4711', 'network'),
	('ci', 'Pod', 'build-4712', 'root'),
	('ci', 'Pod', 'build-4713', 'root');

CREATE TEMP VIEW scanned AS
	SELECT w.*, md5(w.namespace || '/' || w.kind || '/' || w.name)::uuid AS uid,
		CASE w.kind WHEN 'Pod' THEN 'v1' WHEN 'CronJob' THEN 'batch/v1' ELSE 'apps/v1' END AS api_version,
		CASE w.kind WHEN 'Pod' THEN 'pods.v1' WHEN 'CronJob' THEN 'cronjobs.v1.batch'
			ELSE lower(w.kind) || 's.v1.apps' END AS gvr,
		pg_temp.pss_results(p.failing, p.skipped, w.kind <> 'Pod',
			extract(epoch FROM now())::bigint - 3600 - w.number * 37) AS results
	FROM workload w JOIN profile p USING (profile);

CREATE TEMP TABLE document (collection text, body json);

-- What Kyverno writes since 1.11: one report to a resource, named like its uid.
INSERT INTO document
	SELECT format('/apis/wgpolicyk8s.io/v1alpha2/namespaces/%s/policyreports', s.namespace),
		json_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', json_build_object('name', s.uid, 'namespace', s.namespace,
				'labels', json_build_object('app.kubernetes.io/managed-by', 'kyverno'),
				'ownerReferences', json_build_array(json_build_object('apiVersion', s.api_version, 'kind', s.kind,
					'name', s.name, 'uid', s.uid))),
			'scope', json_build_object('apiVersion', s.api_version, 'kind', s.kind, 'name', s.name, 'namespace',
				s.namespace, 'uid', s.uid),
			'summary', pg_temp.summary(s.results),
			'results', s.results)
	FROM scanned s ORDER BY s.number;

-- The same, once as OpenReports would have it.
INSERT INTO document
	SELECT format('/apis/openreports.io/v1alpha1/namespaces/%s/reports', s.namespace),
		json_build_object('apiVersion', 'openreports.io/v1alpha1', 'kind', 'Report',
			'metadata', json_build_object('name', s.uid, 'namespace', s.namespace,
				'labels', json_build_object('app.kubernetes.io/managed-by', 'kyverno')),
			'source', 'kyverno',
			'scope', json_build_object('apiVersion', s.api_version, 'kind', s.kind, 'name', s.name, 'namespace',
				s.namespace, 'uid', s.uid),
			'summary', pg_temp.summary(s.results),
			'results', s.results)
	FROM scanned s WHERE s.namespace = 'shop' AND s.name IN ('storefront', 'recommendations') ORDER BY s.number;

-- Intermediate reports: of an admission, of a background scan, and their older kinds.
INSERT INTO document
	SELECT format('/apis/reports.kyverno.io/v1/namespaces/%s/ephemeralreports', s.namespace),
		json_build_object('apiVersion', 'reports.kyverno.io/v1', 'kind', 'EphemeralReport',
			'metadata', json_build_object('name', s.uid || '-' || left(md5(s.name), 5), 'namespace', s.namespace,
				'labels', pg_temp.pss_labels(jsonb_build_object('app.kubernetes.io/managed-by', 'kyverno',
					'audit.kyverno.io/resource.uid', s.uid, 'audit.kyverno.io/resource.gvr', s.gvr,
					'audit.kyverno.io/resource.hash', md5(s.uid::text), 'audit.kyverno.io/resource.kind', s.kind,
					'audit.kyverno.io/source', CASE WHEN s.number % 2 = 0 THEN 'admission' ELSE 'background-scan' END)),
				'annotations', json_build_object('audit.kyverno.io/resource.name', s.name,
					'audit.kyverno.io/resource.namespace', s.namespace)),
			'spec', json_build_object(
				'owner', json_build_object('apiVersion', s.api_version, 'kind', s.kind, 'name', s.name, 'uid', s.uid),
				'summary', pg_temp.summary(s.results), 'results', s.results))
	FROM scanned s WHERE s.namespace = 'ci' AND s.kind = 'Pod' ORDER BY s.number;
INSERT INTO document
	SELECT format('/apis/kyverno.io/v1alpha2/namespaces/%s/admissionreports', s.namespace),
		json_build_object('apiVersion', 'kyverno.io/v1alpha2', 'kind', 'AdmissionReport',
			'metadata', json_build_object('name', s.uid, 'namespace', s.namespace,
				'labels', pg_temp.pss_labels(jsonb_build_object('app.kubernetes.io/managed-by', 'kyverno',
					'audit.kyverno.io/report.aggregate', '',
					'audit.kyverno.io/resource.uid', s.uid, 'audit.kyverno.io/resource.gvr', s.gvr,
						'audit.kyverno.io/resource.name', s.name))),
			'spec', json_build_object(
				'owner', json_build_object('apiVersion', s.api_version, 'kind', s.kind, 'name', s.name, 'uid', s.uid),
				'summary', pg_temp.summary(s.results), 'results', s.results))
	FROM scanned s WHERE s.name = 'storefront-7d998c79c4-rj7th';
INSERT INTO document
	SELECT format('/apis/kyverno.io/v1alpha2/namespaces/%s/backgroundscanreports', s.namespace),
		json_build_object('apiVersion', 'kyverno.io/v1alpha2', 'kind', 'BackgroundScanReport',
			'metadata', json_build_object('name', s.uid, 'namespace', s.namespace,
				'labels', pg_temp.pss_labels(jsonb_build_object('app.kubernetes.io/managed-by', 'kyverno',
					'audit.kyverno.io/resource.uid', s.uid, 'audit.kyverno.io/resource.hash', md5(s.uid::text))),
				'annotations', json_build_object('audit.kyverno.io/last-scan-time',
					to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
				'ownerReferences', json_build_array(json_build_object('apiVersion', s.api_version, 'kind', s.kind,
					'name', s.name, 'uid', s.uid))),
			'spec', json_build_object('summary', pg_temp.summary(s.results), 'results', s.results))
	FROM scanned s WHERE s.name IN ('storefront-7d998c79c4-rj7th', 'catalog-5f6d8b9c7-2xk4m') ORDER BY s.number;

-- Cluster-wide kinds: a rule about namespaces.
CREATE TEMP VIEW scanned_namespace AS
	SELECT n.name, md5('namespace/' || n.name)::uuid AS uid,
		json_build_array(json_build_object('source', 'kyverno', 'policy', 'require-labels', 'rule', 'owner-label',
			'category', 'Best Practices', 'severity', 'low', 'result', n.status, 'scored', true,
			'message', CASE n.status WHEN 'pass' THEN 'validation rule ''owner-label'' passed.'
				ELSE 'validation error: A namespace must name its owner. rule owner-label failed at path '
					'/metadata/labels/owner/' END,
			'timestamp', json_build_object('seconds', extract(epoch FROM now())::bigint - 4000, 'nanos', 0))) AS results
	FROM (VALUES ('kube-system', 'fail'), ('shop', 'pass'), ('payments', 'pass'), ('monitoring', 'fail'),
		('ci', 'warn')) n(name, status);

INSERT INTO document
	SELECT '/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports',
		json_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'ClusterPolicyReport',
			'metadata', json_build_object('name', n.uid, 'labels',
				json_build_object('app.kubernetes.io/managed-by', 'kyverno')),
			'scope', json_build_object('apiVersion', 'v1', 'kind', 'Namespace', 'name', n.name, 'uid', n.uid),
			'summary', pg_temp.summary(n.results), 'results', n.results)
	FROM scanned_namespace n;
INSERT INTO document
	SELECT '/apis/openreports.io/v1alpha1/clusterreports',
		json_build_object('apiVersion', 'openreports.io/v1alpha1', 'kind', 'ClusterReport',
			'metadata', json_build_object('name', n.uid, 'labels',
				json_build_object('app.kubernetes.io/managed-by', 'kyverno')),
			'source', 'kyverno', 'scope', json_build_object('apiVersion', 'v1', 'kind', 'Namespace',
				'name', n.name, 'uid', n.uid),
			'summary', pg_temp.summary(n.results), 'results', n.results)
	FROM scanned_namespace n WHERE n.name = 'shop';
INSERT INTO document
	SELECT format('/apis/%s/%s', g.api_version, g.resource),
		json_build_object('apiVersion', g.api_version, 'kind', g.kind,
			'metadata', json_build_object('name', n.uid,
				'labels', json_build_object('app.kubernetes.io/managed-by', 'kyverno',
					'audit.kyverno.io/resource.uid', n.uid),
				'annotations', json_build_object('audit.kyverno.io/resource.name', n.name)),
			'spec', json_strip_nulls(json_build_object(
				'owner', CASE WHEN g.owner THEN json_build_object('apiVersion', 'v1', 'kind', 'Namespace', 'name',
					n.name, 'uid', n.uid) END,
				'summary', pg_temp.summary(n.results), 'results', n.results)))
	FROM scanned_namespace n,
		(VALUES ('reports.kyverno.io/v1', 'clusterephemeralreports', 'ClusterEphemeralReport', true),
			('kyverno.io/v1alpha2', 'clusteradmissionreports', 'ClusterAdmissionReport', true),
			('kyverno.io/v1alpha2', 'clusterbackgroundscanreports', 'ClusterBackgroundScanReport', false))
				g(api_version, resource, kind, owner)
	WHERE n.name = 'monitoring';

-- Vulnerabilities as the adapter of the Trivy operator reports them: scores are strings, "0" when unknown.
CREATE TEMP TABLE vulnerability (name text, image text, cve text, package text, installed text, fixed text,
	severity text, score text, vector text);
INSERT INTO vulnerability VALUES
	('catalog', 'shop/catalog', 'CVE-2021-44228', 'org.apache.logging.log4j:log4j-core', '2.14.1', '2.15.0', 'critical',
		'10.0', 'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H'),
	('catalog', 'shop/catalog', 'CVE-2022-42889', 'org.apache.commons:commons-text', '1.9', '1.10.0', 'critical', '9.8',
		'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H'),
	('catalog', 'shop/catalog', 'CVE-2022-0778', 'libssl1.1', '1.1.1k-1', '1.1.1k-1+deb11u2', 'high', '7.5',
		'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H'),
	('catalog', 'shop/catalog', 'CVE-2023-4911', 'libc6', '2.36-9', '2.36-9+deb12u3', 'high', '7.8',
		'CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H'),
	('catalog', 'shop/catalog', 'CVE-2005-2541', 'tar', '1.34', '', 'info', '0', NULL),
	('search', 'shop/search', 'CVE-2023-44487', 'golang.org/x/net', 'v0.14.0', '0.17.0', 'high', '7.5',
		'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H'),
	('search', 'shop/search', 'CVE-2023-39325', 'stdlib', '1.20.6', '1.20.10', 'high', '7.5',
		'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:H'),
	('search', 'shop/search', 'CVE-2023-29383', 'passwd', '1:4.13', '', 'low', '3.3',
		'CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:N/I:L/A:N'),
	('search', 'shop/search', 'CVE-2023-5363', 'libssl3', '3.0.9-1', '3.0.11-1', 'high', '7.5',
		'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N');
INSERT INTO document
	SELECT '/apis/wgpolicyk8s.io/v1alpha2/namespaces/shop/policyreports',
		json_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', json_build_object('name', 'trivy-vuln-polr-' || v.name, 'namespace', 'shop',
				'labels', json_build_object('managed-by', 'trivy-operator-polr-adapter', 'trivy-operator.source',
					'VulnerabilityReport')),
			'scope', json_build_object('apiVersion', 'apps/v1', 'kind', 'Deployment', 'name',
				v.name, 'namespace', 'shop'),
			'summary', pg_temp.summary(v.results), 'results', v.results)
	FROM (SELECT v.name, json_agg(json_build_object('source', 'Trivy Vulnerability', 'policy', v.cve,
		'category', 'Vulnerability Scan',
				'severity', v.severity, 'result', CASE WHEN v.severity IN ('low', 'info') THEN 'warn' ELSE 'fail' END,
				'message', format('%s in %s %s', v.cve, v.package, v.installed),
				'timestamp', json_build_object('seconds', extract(epoch FROM now())::bigint - 7200, 'nanos', 0),
				'properties', json_strip_nulls(json_build_object('score', v.score, 'resource', v.package,
					'installedVersion', v.installed, 'fixedVersion', nullif(v.fixed, ''),
					'primaryLink', 'https://avd.aquasec.com/nvd/' || lower(v.cve),
					'artifact.repository', v.image, 'artifact.tag', '1.8.2', 'registry.server', 'registry.example',
					'nvd.v3_score', CASE WHEN v.score <> '0' THEN v.score END, 'nvd.v3_vector', v.vector,
					'resultID', md5(v.name || v.cve) || left(md5(v.cve), 8)))) ORDER BY v.cve) AS results
		FROM vulnerability v GROUP BY v.name) v
	ORDER BY v.name;

SELECT collection, body FROM document;
