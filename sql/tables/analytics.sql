-- analytics.sql
--	  Which clusters and namespaces readers may see, and which policies check
--	  the controls of frameworks.

CREATE TABLE kube_reports_internal.reader_grant (
	role		text NOT NULL,
	cluster_id	integer,
	namespace	text COLLATE "C",
	selector	text COLLATE "C",
	UNIQUE NULLS NOT DISTINCT (role, cluster_id, namespace, selector)
);
ALTER TABLE kube_reports_internal.reader_grant REPLICA IDENTITY FULL;
COMMENT ON TABLE kube_reports_internal.reader_grant
	IS 'the grants of readers: see grant_reader(), grant_cluster(), grant_clusters(), grant_namespace()';
COMMENT ON COLUMN kube_reports_internal.reader_grant.cluster_id IS 'null: every cluster, also those to come';
COMMENT ON COLUMN kube_reports_internal.reader_grant.namespace
	IS 'null: every namespace and the reports of cluster scope; empty: the reports of cluster scope';
COMMENT ON COLUMN kube_reports_internal.reader_grant.selector
	IS 'a label selector: the grant is for the clusters whose labels match at the time of a query, and cluster_id is '
		'null; null: no selector';
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.reader_grant', '');

CREATE TABLE kube_reports.framework_control (
	framework	text NOT NULL,
	control		text NOT NULL,
	source		text COLLATE "C" NOT NULL DEFAULT '',
	policy		text COLLATE "C" NOT NULL,
	rule		text COLLATE "C" NOT NULL DEFAULT '',
	PRIMARY KEY (framework, control, source, policy, rule)
);
COMMENT ON TABLE kube_reports.framework_control
	IS 'which policies and rules check a control of a framework, such as AC-2 of NIST SP 800-53. Administrators fill '
		'the table; an empty source or rule stands for any';
SELECT pg_catalog.pg_extension_config_dump('kube_reports.framework_control', '');
