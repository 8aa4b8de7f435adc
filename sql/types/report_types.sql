-- report_types.sql
--	  The report types for SQL: a domain for each built-in kind.

-- SECURITY DEFINER: users of the domains need not be able to read the registry.
CREATE FUNCTION kube_reports.conforms(document kube_reports.report, api_version text, kind text) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	definition_id bigint;
	definition	kube_reports.report;
BEGIN
	SELECT v.id, v.definition INTO definition_id, definition
		FROM kube_reports.resource_type t JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		WHERE t."group" || '/' || v.version = api_version AND t.kind = conforms.kind;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'kind "%" of "%" is not registered', kind, api_version USING ERRCODE = 'undefined_object';
	END IF;
	RETURN kube_reports_internal.check_document(definition_id, definition, document);
END
$$;
COMMENT ON FUNCTION kube_reports.conforms(kube_reports.report, text, text)
	IS 'true when the document is a valid object of this kind; otherwise raises KR422 with the message of the API';

CREATE DOMAIN kube_reports.policy_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'wgpolicyk8s.io/v1alpha2', 'PolicyReport'));
COMMENT ON DOMAIN kube_reports.policy_report IS 'a valid PolicyReport of wgpolicyk8s.io/v1alpha2';
CREATE DOMAIN kube_reports.cluster_policy_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'wgpolicyk8s.io/v1alpha2', 'ClusterPolicyReport'));
COMMENT ON DOMAIN kube_reports.cluster_policy_report IS 'a valid ClusterPolicyReport of wgpolicyk8s.io/v1alpha2';
CREATE DOMAIN kube_reports.openreport AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'openreports.io/v1alpha1', 'Report'));
COMMENT ON DOMAIN kube_reports.openreport IS 'a valid Report of openreports.io/v1alpha1';
CREATE DOMAIN kube_reports.cluster_openreport AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'openreports.io/v1alpha1', 'ClusterReport'));
COMMENT ON DOMAIN kube_reports.cluster_openreport IS 'a valid ClusterReport of openreports.io/v1alpha1';
CREATE DOMAIN kube_reports.ephemeral_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'reports.kyverno.io/v1', 'EphemeralReport'));
COMMENT ON DOMAIN kube_reports.ephemeral_report IS 'a valid EphemeralReport of reports.kyverno.io/v1';
CREATE DOMAIN kube_reports.cluster_ephemeral_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'reports.kyverno.io/v1', 'ClusterEphemeralReport'));
COMMENT ON DOMAIN kube_reports.cluster_ephemeral_report IS 'a valid ClusterEphemeralReport of reports.kyverno.io/v1';
CREATE DOMAIN kube_reports.admission_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'kyverno.io/v1alpha2', 'AdmissionReport'));
COMMENT ON DOMAIN kube_reports.admission_report IS 'a valid AdmissionReport of kyverno.io/v1alpha2';
CREATE DOMAIN kube_reports.cluster_admission_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'kyverno.io/v1alpha2', 'ClusterAdmissionReport'));
COMMENT ON DOMAIN kube_reports.cluster_admission_report IS 'a valid ClusterAdmissionReport of kyverno.io/v1alpha2';
CREATE DOMAIN kube_reports.background_scan_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'kyverno.io/v1alpha2', 'BackgroundScanReport'));
COMMENT ON DOMAIN kube_reports.background_scan_report IS 'a valid BackgroundScanReport of kyverno.io/v1alpha2';
CREATE DOMAIN kube_reports.cluster_background_scan_report AS kube_reports.report CHECK
	(kube_reports.conforms(VALUE, 'kyverno.io/v1alpha2', 'ClusterBackgroundScanReport'));
COMMENT ON DOMAIN kube_reports.cluster_background_scan_report
	IS 'a valid ClusterBackgroundScanReport of kyverno.io/v1alpha2';

