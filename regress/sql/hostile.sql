-- Arguments and documents that nobody should hand over.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;

-- The owner is no superuser: no argument may crash the server.
SELECT kube_reports_internal.render_object(NULL, NULL, 'object', '{}', '{}', 1);
SELECT kube_reports_internal.render_item(v.id, v.definition, 'object', NULL, false, '{}', '{}', 1)
	FROM kube_reports_internal.resource_version v LIMIT 1;
SELECT kube_reports_internal.render_change(v.id, v.definition, 'object', '{}', '{}', NULL)
	FROM kube_reports_internal.resource_version v LIMIT 1;
SELECT kube_reports_internal.render_list(v.id, v.definition, 'object', NULL, 1, '', NULL)
	FROM kube_reports_internal.resource_version v LIMIT 1;
SELECT kube_reports_internal.write_admit(NULL, '{}', '{}', '', false, NULL, NULL, NULL, NULL);
SELECT kube_reports_internal.write_decide(v.id, v.definition,
	'{"verb":"delete","group":"g","version":"v","resource":"r","namespace":"n","name":"n"}', NULL, NULL, NULL, 1, false,
		NULL, NULL, NULL, NULL)
	FROM kube_reports_internal.resource_version v LIMIT 1;
-- A mapping needs the cluster whose subjects it reads.
SELECT kube_reports_internal.write_admit(v.id, v.definition, '{}', '', false, t.mapping_id, t.mapping, NULL, NULL)
	FROM kube_reports_internal.resource_version v JOIN kube_reports.resource_type t ON t.id = v.resource_type
	WHERE t.mapping_id IS NOT NULL LIMIT 1;
SELECT kube_reports_internal.write_document(v.id, v.definition, NULL, NULL, '{}', '{}', NULL, NULL, false)
	FROM kube_reports_internal.resource_version v LIMIT 1;
SELECT kube_reports_internal.status_document(NULL, '', '', NULL);
-- Nor may a definition that somebody wrote by hand.
SELECT kube_reports_internal.check_document(-1, (v.definition::jsonb #- '{columns,0,name}')::kube_reports.report, '{}')
	FROM kube_reports_internal.resource_version v ORDER BY v.id LIMIT 1;
SELECT count(*) FROM kube_reports_internal.served_documents(
	ARRAY(SELECT jsonb_set(v.definition::jsonb, '{schema,properties,summary}', '"x"')::kube_reports.report
	FROM kube_reports_internal.resource_version v));
SELECT count(*) > 0 AS served FROM kube_reports_internal.served_documents(ARRAY(SELECT v.definition
	FROM kube_reports_internal.resource_version v));
SELECT kube_reports.label_terms('{"labels":{"a":"b\u0000c","d":"e"}}');
SELECT kube_reports_internal.string_at(d, 'a', 'b') = 'x' || chr(65533) || 'y' AS nul,
	kube_reports_internal.string_at(d, 'c'), kube_reports_internal.string_at(d, 'a') AS object,
	kube_reports_internal.string_at(d, 'n') AS number, kube_reports_internal.string_at(d, 'a', NULL, 'b') AS nothing,
		kube_reports_internal.string_at(d, 'c', 'd') AS beyond
	FROM (SELECT kube_reports.report '{"a":{"b":"x\u0000y"},"c":"\\u0000","n":1}' AS d) d;
-- Nor a null where a CustomResourceDefinition may have one.
SELECT count(*) > 0 AS served FROM kube_reports_internal.served_documents(
	ARRAY(SELECT jsonb_set(v.definition::jsonb, '{schema,properties}', 'null')::kube_reports.report
	FROM kube_reports_internal.resource_version v));
