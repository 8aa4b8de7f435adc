-- Nothing depends on which capitals the database's locale has: here Turkish, where I is not the capital of i.
\set home :DBNAME
SELECT NOT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i') AS no_icu \gset
\if :no_icu
\quit
\endif
CREATE DATABASE regress_turkish TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'
	LOCALE_PROVIDER icu ICU_LOCALE 'tr';
\c regress_turkish
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE EXTENSION kube_reports;
SELECT lower('VALIDATION') = 'validation' AS as_in_ascii;
\set one '00000000-0000-0000-0000-000000000001'
SELECT kube_reports.register_cluster(:'one') IS NOT NULL AS known;
SELECT kube_reports.create_report(:'one', '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
	"metadata": {"name": "a", "namespace": "ns"}, "scope": {"apiVersion": "v1", "kind": "Pod", "name": "web-IN-i"},
	"results": [{"policy": "CIS-Limit", "rule": "DISK-limits", "result": "fail",
			"message": "VALIDATION failed: DISK FIILLED, 100 % Überfüllt"},
		{"policy": "other", "rule": "other", "result": "fail", "message": "validation of İSTANBUL failed"}]}'
	) IS NOT NULL AS created;
CREATE TABLE texts AS SELECT * FROM unnest(ARRAY['validation', 'VALIDATION', 'VaLiDaTiOn', 'fiilled', 'DISK FIILLED',
	'cis-limit', 'CIS-LIMIT', 'disk-LIMITS', 'WEB-in-I', 'überfüllt', 'ÜBERFÜLLT', 'istanbul', '0 % ü', '0 _ ü',
	'nowhere'])
	WITH ORDINALITY t(text, place);
CREATE VIEW found AS
	SELECT t.text, (SELECT count(*) FROM kube_reports.search_results(jsonb_build_object('text', t.text))) AS results,
		(SELECT sum(s.failing) FROM kube_reports.search_resources(jsonb_build_object('text', t.text)) s) AS of_resources
	FROM texts t ORDER BY t.place;
SELECT * FROM found;
-- With indexes it is the same, and they are used.
SELECT kube_reports.enable_text_search();
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT * FROM found;
DO $$
DECLARE
	plan		text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON)
		SELECT FROM kube_reports_internal.detail d WHERE kube_reports_internal.caseless(d.message) LIKE ''%validation%''
		UNION ALL
		SELECT FROM kube_reports_internal.subject s WHERE kube_reports_internal.caseless(s.name) LIKE ''%web-in-i%''
		UNION ALL
		SELECT FROM kube_reports_internal.criterion k WHERE kube_reports_internal.caseless(k.policy) LIKE ''%limit%'''
		INTO plan;
	RAISE WARNING 'used: % % %', plan ~ 'detail_text', plan ~ 'subject_text', plan ~ 'criterion_text';
END
$$;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;
-- Policy Reporter's searches and names of APIs do not depend on the locale either.
SELECT kube_reports.create_report(:'one', '{"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport",
	"metadata": {"name": "b", "namespace": "ns"}, "scope": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
		"name": "web", "namespace": "ns"}, "results": [{"policy": "tls", "result": "skip", "severity": "critical"}]}'
	) IS NOT NULL AS created;
SELECT f.filter, a.answer, coalesce(d.document->'count', to_jsonb(jsonb_array_length(d.document))) AS found
	FROM kube_reports.cluster c CROSS JOIN unnest(ARRAY['{"search": ["Ingress"]}', '{"search": ["ingress"]}',
		'{"search": ["CRITICAL"]}', '{"search": ["SKIP"]}', '{"apis": ["ingresses.networking.k8s.io/v1"]}'
		]::jsonb[]) WITH ORDINALITY f(filter, place)
	CROSS JOIN unnest(ARRAY['namespace-results', 'namespace-resources', 'policies']) a(answer)
	CROSS JOIN kube_reports_internal.reporter_piece(jsonb_build_object('answer', a.answer, 'filter', f.filter),
		c.id, NULL) p
	CROSS JOIN LATERAL (SELECT convert_from(p.body, 'UTF8')::jsonb AS document) d
	WHERE c.uid = :'one' ORDER BY f.place, a.answer COLLATE "C";
-- A sender cannot take the name of another cluster in other letters.
BEGIN;
SELECT kube_reports.register_cluster('00000000-0000-0000-0000-000000000002') IS NOT NULL AS known;
UPDATE kube_reports.cluster SET name = 'INFRA' WHERE uid = :'one';
SELECT kube_reports_internal.merge_metadata(c.id, '{"clusterName": "infra"}') IS NOT NULL AS merged
	FROM kube_reports.cluster c WHERE c.uid <> :'one';
SELECT name, extra_metadata FROM kube_reports.cluster ORDER BY uid;
ROLLBACK;
-- Names of types are ASCII, too.
\set VERBOSITY default
\set SHOW_CONTEXT never
SELECT kube_reports.get_report(:'one', 'CLUSTERPOLICYREPORTS.WGPOLICYK8S.IO', '', 'a');
SELECT kube_reports.get_report(:'one', 'CLUSTERPOLICYREPORT', '', 'a');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT kube_reports.delete_report(:'one', 'policyreports.wgpolicyk8s.io', 'ns', 'a');
ROLLBACK;
SELECT kube_reports.register_crd('{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "imagescans.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
	"names": {"plural": "imagescans", "kind": "ImageScan"}, "versions": [{"name": "v1", "served": true, "storage": true,
	"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}', 'none')
	IS NOT NULL AS registered;
SELECT v.definition::jsonb->>'singular' AS singular FROM kube_reports_internal.resource_version v
	JOIN kube_reports.resource_type t ON t.id = v.resource_type WHERE t.plural = 'imagescans';
\c :home
DROP DATABASE regress_turkish;
