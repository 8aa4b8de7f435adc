-- The report types: a domain for each built-in kind, with the API's words.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":{"name":"a"},"summary":{"pass":1}}'
	::kube_reports.report::kube_reports.policy_report;
SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","results":[{"policy":"p","result":"bogus"}]}'
	::kube_reports.report::kube_reports.policy_report;
SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","results":[{"result":"pass"}]}'
	::kube_reports.report::kube_reports.policy_report;
SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","summary":{"pass":"one"}}'
	::kube_reports.report::kube_reports.policy_report;
SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport"}'
	::kube_reports.report::kube_reports.policy_report;
SELECT '{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"ClusterPolicyReport"}'
	::kube_reports.report::kube_reports.cluster_policy_report;
SELECT '{"apiVersion":"reports.kyverno.io/v1","kind":"EphemeralReport","metadata":{"name":"a"}}'
	::kube_reports.report::kube_reports.ephemeral_report;
SELECT '{"apiVersion":"reports.kyverno.io/v1","kind":"EphemeralReport",'
	'"spec":{"owner":{"apiVersion":"","kind":"","name":"","uid":""}}}'
	::kube_reports.report::kube_reports.ephemeral_report;
SELECT '{"apiVersion":"openreports.io/v1alpha1","kind":"Report","metadata":{"name":"Bad_Name"}}'
	::kube_reports.report::kube_reports.openreport;

-- In a table of one's own.
CREATE TEMP TABLE mine (report kube_reports.policy_report);
INSERT INTO mine VALUES ('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","summary":{"pass":1}}');
INSERT INTO mine VALUES ('{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","summary":{"pass":[]}}');
SELECT report::kube_reports.report::jsonb #> '{summary,pass}' AS pass FROM mine;

-- Metadata of every wrong shape, and what a create would not take: refused as by the API.
CREATE FUNCTION pg_temp.refused(metadata text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	report		kube_reports.report := format(
		'{"apiVersion":"wgpolicyk8s.io/v1alpha2","kind":"PolicyReport","metadata":%s}', metadata);
BEGIN
	RETURN 'accepted: ' || (report::kube_reports.policy_report IS NOT NULL);
EXCEPTION WHEN SQLSTATE 'KR422' THEN
	RETURN replace(SQLERRM, 'PolicyReport.wgpolicyk8s.io ', '');
END
$$;
SELECT pg_temp.refused(format('{"name":"x","%s":%s}', member, value))
FROM unnest(ARRAY['labels', 'annotations', 'managedFields', 'ownerReferences', 'finalizers', 'generation',
	'deletionTimestamp', 'selfLink']) WITH ORDINALITY m(member, a),
	unnest(ARRAY['"AAAAAAAAAAAAAAAAAAAAAAAA"', '{"a":[]}', '[7]', '1e300']) WITH ORDINALITY v(value, b)
ORDER BY a, b;
SELECT pg_temp.refused(metadata) FROM unnest(ARRAY['"x"', '7', '[]', 'null', '{}', '{"name":7}', '{"name":null}',
	'{"namespace":"default","generateName":"x-"}']) m(metadata);
