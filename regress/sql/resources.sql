-- Resources are one by cluster, version, kind, namespace and name, whether a report tells their uid or not; namespaces
-- of the same name in two clusters are two.
\set VERBOSITY terse
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
\set one '00000000-0000-0000-0000-0000000000e1'
\set two '00000000-0000-0000-0000-0000000000e2'
SELECT count(kube_reports.register_cluster(u.uid, u.name)) AS registered
	FROM (VALUES (:'one'::uuid, 'one'), (:'two', 'two')) u(uid, name);
CREATE FUNCTION public.told(cluster uuid, report text, scope jsonb, passed integer, failed integer) RETURNS boolean
LANGUAGE sql AS $$
	SELECT kube_reports.create_report(cluster, jsonb_build_object('apiVersion', 'wgpolicyk8s.io/v1alpha2',
		'kind', 'PolicyReport', 'metadata', jsonb_build_object('name', report, 'namespace', scope->>'namespace'),
		'scope', scope, 'results', (SELECT jsonb_agg(jsonb_build_object('source', report, 'policy', 'p' || n,
				'result', CASE WHEN n <= passed THEN 'pass' ELSE 'fail' END))
			FROM generate_series(1, passed + failed) n))::text::kube_reports.report) IS NOT NULL
$$;
-- Two of the reports of the catalog tell its uid, and a third one does not.
SELECT bool_and(public.told(t.cluster, t.report, t.scope, t.passed, t.failed)) AS told FROM (VALUES
	(:'one'::uuid, 'kyverno', '{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "catalog",
		"uid": "b1"}'::jsonb, 3, 1),
	(:'one', 'kubescape', '{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "catalog",
		"uid": "b1"}', 0, 1),
	(:'one', 'trivy', '{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "catalog"}', 0, 4),
	(:'one', 'other', '{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "search"}', 1, 5),
	(:'one', 'old', '{"apiVersion": "extensions/v1beta1", "kind": "Deployment", "namespace": "shop",
		"name": "catalog"}', 0, 2),
	-- A pod that was made again, and reports of both.
	(:'one', 'before', '{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "db-0", "uid": "a1"}', 0, 1),
	(:'one', 'after', '{"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "db-0", "uid": "a2"}', 1, 0),
	(:'two', 'kyverno', '{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "catalog",
		"uid": "c1"}', 0, 3)) t(cluster, report, scope, passed, failed);
CREATE FUNCTION public.pages(filter jsonb, max_rows integer)
	RETURNS TABLE (page integer, cluster text, api_version text, kind text, name text, uid text, pass bigint,
		failing bigint)
LANGUAGE plpgsql AS $$
DECLARE
	last		text;
BEGIN
	FOR page IN 1..20 LOOP
		RETURN QUERY SELECT page, s.cluster_name, s.api_version, s.kind, s.name, s.uid, s.pass, s.failing
			FROM kube_reports.search_resources(filter, max_rows, last) s;
		EXIT WHEN NOT FOUND;
		SELECT (array_agg(s.place))[count(*)] INTO last FROM kube_reports.search_resources(filter, max_rows, last) s;
	END LOOP;
END
$$;
SELECT p.cluster, p.api_version, p.kind, p.name, p.uid, p.pass, p.failing
	FROM public.pages('{"cluster": ["one", "two"]}', 100) p ORDER BY p.failing DESC, p.cluster, p.name;
-- Page by page it is the same, each resource once.
SELECT max(p.page) AS pages, count(*) AS resources,
	count(DISTINCT (p.cluster, p.api_version, p.kind, p.name)) AS different, sum(p.failing) AS failing
	FROM public.pages('{"cluster": ["one", "two"]}', 1) p;
SELECT p.name, p.uid, p.failing FROM public.pages('{"cluster": "one", "source": "trivy"}', 100) p;
SELECT r.cluster_name, r.subject_api_version, r.subject_kind, r.subject_name, r.subject_uid, r.pass, r.fail
	FROM kube_reports.resource_summary r WHERE r.cluster_name IN ('one', 'two')
	ORDER BY r.fail DESC, r.cluster_name, r.subject_name;
-- Namespaces, counted everywhere as clusters have them.
SELECT d.d->'namespaces' AS namespaces, d.d->'failing_namespaces' AS failing_namespaces, p.p->'places' AS places
	FROM kube_reports.dashboard('{"cluster": ["one", "two"], "source": "kyverno"}') d(d),
		jsonb_array_elements(d.d->'top_policies') p(p) WHERE p.p->>'policy' = 'p1';
SELECT count(DISTINCT (f.cluster, f.namespace)) AS namespaces FROM kube_reports.failing_by_policy_namespace f
	WHERE f.cluster_name IN ('one', 'two') AND f.policy = 'p2';
DROP FUNCTION public.told(uuid, text, jsonb, integer, integer), public.pages(jsonb, integer);
DROP EXTENSION kube_reports;
CREATE EXTENSION kube_reports;
