-- Which namespaces the objects belong to: what proxies note, and what is swept (ADM-01, NS-04).
\set cluster '''5b0c7d1e-0000-4000-8000-000000000001'''
\pset null '-'
SELECT kube_reports.register_cluster(:cluster) IS NOT NULL AS known;

CREATE FUNCTION create_in(namespace text, name text, more jsonb DEFAULT '{}', metadata jsonb DEFAULT '{}')
	RETURNS TABLE (code integer, reply text) LANGUAGE sql AS $$
	SELECT codes[1], CASE WHEN codes[1] = 201 THEN '' ELSE convert_from(replies[1], 'UTF8') END
	FROM kube_reports_internal.write_batch('5b0c7d1e-0000-4000-8000-000000000001',
		ARRAY[jsonb_build_object('verb', 'create', 'group', 'wgpolicyk8s.io', 'version', 'v1alpha2',
			'resource', 'policyreports',
			'namespace', namespace) || more],
		-- A NUL, which jsonb cannot read, is in the way of nothing.
		ARRAY[convert_to(replace(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
			'metadata', jsonb_build_object('name', name, 'annotations', jsonb_build_object('nul', '@'))
				|| metadata)::text, '@', '\u0000'), 'UTF8')])
$$;
CREATE VIEW noted AS SELECT n.name, n.uid, n.state, n.orderly FROM kube_reports_internal.namespace n ORDER BY n.name;

-- Noted: only what is asked after the row was read, and has the uid that was read.
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', '', '', false);
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', '', 'a1', false);
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', '', 'a0', false);
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', 'a0', 'a0', true);
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', 'a0', '', false);
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'b', '', 'b1', true);
SELECT * FROM noted;

-- A create with a uid goes only into that namespace, while it is active; one without is not asked.
SELECT * FROM create_in('a', 'r1', '{"namespaceUid": "a1"}');
SELECT * FROM create_in('a', 'r2', '{"namespaceUid": "a0"}');
SELECT * FROM create_in('b', 'r1', '{"namespaceUid": "b1"}');
SELECT * FROM create_in('c', 'r1', '{"namespaceUid": "c1"}');
SELECT * FROM create_in('c', 'r1');
SELECT * FROM create_in('a', 'r1', '{"namespaceUid": "a1"}');
SELECT * FROM create_in('a', 'r3', '{"namespaceState": "missing"}');
SELECT * FROM create_in('a', 'r3', '{"namespaceState": "terminating"}');
SELECT * FROM create_in('a', 'r3', '{"namespaceState": "terminating", "query": {"dryRun": ["All"]}}',
	'{"name": null, "generateName": "g-"}');
SELECT * FROM create_in('a', 'r3', '{"namespaceState": "missing"}', '{"namespace": "other"}');
-- Of a batch, the others are stored.
SELECT codes FROM kube_reports_internal.write_batch(:cluster,
	ARRAY(SELECT jsonb_build_object('verb', 'create', 'group', 'wgpolicyk8s.io', 'version', 'v1alpha2',
		'resource', 'policyreports',
		'namespace', 'a', 'namespaceUid', uid) FROM unnest('{a1,a0,a1}'::text[]) uid),
	ARRAY(SELECT convert_to(jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2', 'kind', 'PolicyReport',
		'metadata', jsonb_build_object('name', name))::text, 'UTF8') FROM unnest('{s1,s2,s3}'::text[]) name));
SELECT o.namespace, o.name FROM kube_reports.stored_report o WHERE o.cluster = :cluster ORDER BY 1, 2;
SELECT * FROM kube_reports_internal.api_namespaces(:cluster, NULL) ORDER BY name;
SELECT * FROM kube_reports_internal.api_namespaces(:cluster, 'a');
SELECT * FROM kube_reports_internal.api_namespaces(:cluster, 'c');

-- Dead: swept whatever the finalizers, with a change for each; what was created since the next one began stays.
SELECT * FROM create_in('a', 'held', '{"namespaceUid": "a1"}', '{"finalizers": ["example.com/hold"]}');
UPDATE kube_reports.object o SET metadata = regexp_replace(o.metadata::text, '("creationTimestamp":)"[^"]*"',
	'\1"2020-01-01T00:00:00Z"')::kube_reports.report
	WHERE o.cluster_id = (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = :cluster)
		AND o.namespace = 'a' AND o.name <> 's3';
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a1', 'a2', '2021-01-01') AS not_marked;
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', 'a1', 'a2', false);
SELECT * FROM create_in('a', 'r4', '{"namespaceUid": "a1"}');
SELECT * FROM create_in('a', 'r4', '{"namespaceUid": "a2"}');
SELECT max(c.version) AS before FROM kube_reports_internal.change c \gset
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a0', 'a2', '2021-01-01') AS another;
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a1', 'a2', '2021-01-01') AS more;
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a1', 'a2', '2021-01-01') AS more;
SELECT o.namespace, o.name FROM kube_reports.stored_report o WHERE o.cluster = :cluster ORDER BY 1, 2;
SELECT c.operation, c.name, c.actor FROM kube_reports_internal.change c WHERE c.version > :before ORDER BY c.version;
SELECT * FROM noted;
SELECT * FROM create_in('a', 'r4', '{"namespaceUid": "a2"}');

-- Seen terminating: then everything under the name is from before.
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', 'a2', 'a2', true);
SELECT * FROM create_in('a', 'r5', '{"namespaceUid": "a2"}');
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'a', 'a2', 'a3', false);
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a2', 'a3', '2021-01-01') AS more;
SELECT kube_reports_internal.sweep_piece(:cluster, 'a', 'a2', 'a3', '2021-01-01') AS more;
SELECT * FROM noted;

-- Of nobody: known only by its objects.
SELECT * FROM kube_reports_internal.api_namespace(:cluster, 'c', '', '', false);
SELECT kube_reports_internal.sweep_piece(:cluster, 'c', '', '', NULL) AS more;
SELECT kube_reports_internal.sweep_piece(:cluster, 'c', '', '', NULL) AS more;
SELECT count(*) AS objects FROM kube_reports.stored_report o WHERE o.cluster = :cluster;
SELECT * FROM noted;

DELETE FROM kube_reports.object o USING kube_reports.cluster c WHERE c.id = o.cluster_id AND c.uid = :cluster;
DELETE FROM kube_reports_internal.namespace;
DROP VIEW noted;
DROP FUNCTION create_in;
