-- kyverno_namespace_merge.sql
--	  The merges of Kyverno 1.8 to 1.10: admission reports of a resource, and policy reports of a namespace.
--
-- Short-lived admission reports of one resource become one aggregated report, named after the resource's uid.  Only an
-- owner reference names the resource.  If no report of the resource has an owner reference, Kyverno has to merge the
-- reports, because it reads the resource.  (Kyverno deletes short-lived reports as soon as an aggregated report exists,
-- and merges them only into a report with an owner.)  Admission reports that Kyverno does not manage are ignored.
--
-- Aggregated admission reports and background scan reports of a namespace become policy reports, one for each policy,
-- in chunks.  In a policy report, policy, rule and resource identify a result.

CREATE FUNCTION kube_reports_internal.merge_admission(cluster uuid, cluster_id integer, written_type integer,
	background_type integer, namespaces text[], keys text[],
		afters text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	plan		record;
BEGIN
	PERFORM kube_reports_internal.lock_types(cluster_id, ARRAY[written_type]);
	PERFORM kube_reports_internal.take_groups(cluster_id, 'a', namespaces, keys, afters);

	WITH wanted AS MATERIALIZED (
		SELECT k.n, k.namespace, k.key, k.after, o.name IS NOT NULL AS stored,
			coalesce(o.managed, true) AS managed, o.metadata
		FROM unnest(namespaces, keys, afters) WITH ORDINALITY k(namespace, key, after, n)
			LEFT JOIN LATERAL (SELECT o.name, o.metadata,
					o.labels @> ARRAY['audit.kyverno.io/resource.uid=' || k.key,
						'app.kubernetes.io/managed-by=kyverno'] AS managed
				FROM kube_reports.object o
				WHERE o.cluster_id = merge_admission.cluster_id AND o.resource_type = written_type
					AND o.namespace = k.namespace AND o.name = k.key
				LIMIT 1) o ON true
	), report AS MATERIALIZED (
		-- The aggregated report comes first.
		SELECT w.n, w.namespace, o.name, o.body, o.labels, o.name = w.key AS aggregated,
			row_number() OVER (PARTITION BY w.n ORDER BY o.name <> w.key, o.name) AS place
		FROM wanted w
			CROSS JOIN LATERAL (SELECT o.name, o.body, o.labels FROM kube_reports.object o
				WHERE o.cluster_id = merge_admission.cluster_id AND o.resource_type = written_type
					AND o.namespace = w.namespace
					AND o.labels @> ARRAY['audit.kyverno.io/resource.uid=' || w.key,
						'app.kubernetes.io/managed-by=kyverno'] AND (o.name > w.after OR o.name = w.key)
				ORDER BY o.name <> w.key, o.name LIMIT kube_reports_internal.merge_limit()) o
		WHERE w.managed
	), owned AS MATERIALIZED (
		-- The owner of the aggregated report, or else the owner of any report of the resource.
		SELECT w.n, w.namespace, w.key, w.stored, f.owner IS NOT NULL AS knows_owner,
			coalesce(f.owner, (SELECT f.owner
				FROM (SELECT o.resource_type, o.name, o.metadata FROM kube_reports.object o
					WHERE o.cluster_id = merge_admission.cluster_id
						AND o.resource_type IN (written_type, background_type) AND o.namespace = w.namespace
						AND o.labels @> ARRAY['audit.kyverno.io/resource.uid=' || w.key,
							'app.kubernetes.io/managed-by=kyverno'] OFFSET 0) o
					CROSS JOIN LATERAL kube_reports_internal.first_owner(o.metadata) f
				WHERE f.owner IS NOT NULL
				ORDER BY o.resource_type <> written_type, o.name LIMIT 1)) AS owner
		FROM wanted w LEFT JOIN LATERAL kube_reports_internal.first_owner(w.metadata) f ON true
		WHERE w.managed
	), newest AS (
		SELECT DISTINCT ON (r.n, l.policy || '/' || l.rule) r.n, l.*
		FROM owned o JOIN report r ON r.n = o.n
			CROSS JOIN LATERAL kube_reports_internal.list_results(r.body,
				kube_reports_internal.subject_of(o.owner, o.namespace)) l
		WHERE o.owner IS NOT NULL
		ORDER BY r.n, l.policy || '/' || l.rule, l.seconds DESC, r.place, l."position"
	), merged AS (
		SELECT n.n, '"results":[' || string_agg(n.content, ','
			ORDER BY n.policy COLLATE "C", n.rule COLLATE "C") || '],"summary":'
				|| kube_reports_internal.summary_text(array_agg(n.status)) AS content
		FROM newest n GROUP BY n.n
	), decided AS (
		SELECT o.n, o.namespace, o.key, o.owner, o.knows_owner, m.content, s.uid AS namespace_uid,
			-- The labels that describe the resource, besides its uid.
			(SELECT string_agg(',' || to_json(split_part(l.label, '=', 1)) || ':'
				|| to_json(substr(l.label, strpos(l.label, '=') + 1)), '' ORDER BY l.label)
				FROM (SELECT r.labels FROM report r WHERE r.n = o.n ORDER BY r.place LIMIT 1) f,
					unnest(f.labels) l(label)
				WHERE starts_with(l.label, 'audit.kyverno.io/resource.')) AS labels,
			CASE WHEN o.owner IS NULL THEN 'refuse'
				WHEN m.content IS NOT NULL THEN CASE WHEN o.stored THEN 'patch' ELSE 'create' END
				WHEN o.stored THEN 'delete' ELSE 'nothing' END AS verb
		FROM owned o
			LEFT JOIN merged m ON m.n = o.n
			LEFT JOIN kube_reports_internal.namespace s ON s.cluster_id = merge_admission.cluster_id
				AND s.name = o.namespace AND o.namespace <> ''
	), writing AS (
		SELECT d.n,
			kube_reports_internal.merge_request(written_type, d.verb, d.namespace,
				d.key, CASE d.verb WHEN 'create' THEN d.namespace_uid END) AS request,
			convert_to(CASE d.verb
				WHEN 'create' THEN kube_reports_internal.new_report(written_type, d.namespace, d.key,
					format('"app.kubernetes.io/managed-by":"kyverno","audit.kyverno.io/report.aggregate":%s%s',
						to_json(d.key), d.labels), d.owner, NULL,
					format('"spec":{"owner":%s,%s}', d.owner, d.content))
				-- Other clients find an aggregated report by its label, and its resource by its owner.
				WHEN 'patch' THEN
					format('{"metadata":{"labels":{"audit.kyverno.io/report.aggregate":%s}%s},"spec":{%s}}',
					to_json(d.key),
					CASE WHEN NOT d.knows_owner THEN ',"ownerReferences":[' || d.owner::text || ']' END, d.content)
				ELSE '' END, 'UTF8') AS document
		FROM decided d WHERE d.verb IN ('create', 'patch', 'delete')
	)
	SELECT (SELECT array_agg(w.request ORDER BY w.n) FROM writing w) AS requests,
			(SELECT array_agg(w.document ORDER BY w.n) FROM writing w) AS documents,
			(SELECT array_agg(w.n ORDER BY w.n) FROM writing w) AS writing,
			ARRAY(SELECT d.n FROM decided d WHERE d.verb = 'nothing') AS nothing,
			(SELECT array_agg(r.n ORDER BY r.n, r.place) FROM report r WHERE NOT r.aggregated) AS consumed,
			(SELECT array_agg(kube_reports_internal.merge_request(written_type, 'delete', r.namespace, r.name)
				ORDER BY r.n, r.place) FROM report r WHERE NOT r.aggregated)
				AS deletions,
			(SELECT array_agg(r.n) FROM report r WHERE r.place = kube_reports_internal.merge_limit()) AS unfinished,
			(SELECT array_agg(r.name) FROM report r WHERE r.place = kube_reports_internal.merge_limit()) AS last_names
		INTO plan;
	PERFORM kube_reports_internal.queue_rest(cluster_id, 'a', namespaces, keys, plan.unfinished, plan.last_names,
		kube_reports_internal.write_merge(cluster, plan.requests, plan.documents, plan.writing, plan.nothing,
			plan.deletions, plan.consumed));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_admission(uuid, integer, integer, integer, text[], text[], text[])
	IS 'merges the admission reports of some resources (named by namespace and uid) that Kyverno manages into one '
		'report for each resource, and deletes the others. afters: a name for each resource; only reports with larger '
		'names are read';

-- A name with one slash (namespace/name) belongs to a Policy, a name without slashes to a ClusterPolicy.  No policy has
-- a name with more slashes.
CREATE FUNCTION kube_reports_internal.policy_report_name(policy text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE length(policy) - length(replace(policy, '/', '')) WHEN 0 THEN 'cpol-' || policy
	WHEN 1 THEN 'pol-' || split_part(policy, '/', 2) END;
COMMENT ON FUNCTION kube_reports_internal.policy_report_name(text)
	IS 'the name of the policy reports with the results of a policy; null for a name that no policy has';

CREATE FUNCTION kube_reports_internal.merge_namespace(cluster uuid, options kube_reports_internal.aggregation,
	written_type integer, admission_type integer,
		background_type integer, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	plan		record;
BEGIN
	PERFORM kube_reports_internal.lock_types(options.cluster_id, ARRAY[written_type]);
	PERFORM kube_reports_internal.take_groups(options.cluster_id, 'p', ARRAY[namespace], '{""}', '{""}');

	WITH report AS (
		SELECT f.uid, f.owner, o.body, row_number() OVER (ORDER BY o.resource_type, o.name) AS place
		FROM kube_reports.object o CROSS JOIN LATERAL kube_reports_internal.first_owner(o.metadata) f
		WHERE o.cluster_id = options.cluster_id AND o.namespace = merge_namespace.namespace AND f.owners = 1
			AND (o.resource_type = background_type
				OR o.resource_type = admission_type AND kube_reports_internal.label_value(o.labels,
					'audit.kyverno.io/report.aggregate') IS NOT NULL)
	), found AS MATERIALIZED (
		SELECT r.uid, r.place, l.* FROM report r
			CROSS JOIN LATERAL kube_reports_internal.list_results(r.body,
				kube_reports_internal.subject_of(r.owner, merge_namespace.namespace)) l
	), active AS MATERIALIZED (
		SELECT d.source, d.policy, d.rule, kube_reports_internal.policy_report_name(d.policy) AS name
		FROM (SELECT DISTINCT f.source, f.policy, f.rule FROM found f OFFSET 0) d
		WHERE kube_reports_internal.policy_report_name(d.policy) IS NOT NULL
			AND kube_reports_internal.is_active(options.cluster_id, d.source, d.policy, d.rule)
	), newest AS (
		SELECT DISTINCT ON (f.policy || '/' || f.rule || '/' || f.uid) f.uid, a.name, f.policy, f.rule,
			f.status, f.seconds, f.content
		FROM found f JOIN active a ON a.source = f.source AND a.policy = f.policy AND a.rule = f.rule
		ORDER BY f.policy || '/' || f.rule || '/' || f.uid, f.seconds DESC, f.place, f."position"
	), placed AS (
		SELECT n.*, row_number() OVER policy - 1 AS place,
			sum(octet_length(n.content)) OVER policy AS bytes FROM newest n
		WINDOW policy AS (PARTITION BY n.name ORDER BY n.policy COLLATE "C", n.rule COLLATE "C",
			n.uid COLLATE "C", n.seconds)
	), numbered AS (
		-- A chunk is limited both in its number of results and in bytes.
		SELECT p.*, dense_rank() OVER (PARTITION BY p.name
			ORDER BY p.place / options.chunk_size, div(p.bytes, kube_reports_internal.merge_max_bytes() / 2)) - 1 AS
			number
		FROM placed p
	), chunk AS (
		SELECT CASE WHEN c.number = 0 THEN c.name
				-- The usual name may be the name of another policy's first report.  No policy's first report begins
				-- with "chunk-".
				WHEN EXISTS (SELECT FROM active a WHERE a.name = c.name || '-' || c.number) THEN 'chunk-'
					|| c.number || '-' || c.name
				ELSE c.name || '-' || c.number END AS name, c.content, c.policies
		FROM (SELECT n.name, n.number,
				'"results":[' || string_agg(n.content, ',' ORDER BY n.place) || '],"summary":'
					|| kube_reports_internal.summary_text(array_agg(n.status)) AS content,
				array_agg(DISTINCT n.policy) AS policies
			FROM numbered n GROUP BY n.name, n.number) c
	), stored AS (
		SELECT o.name, o.labels FROM kube_reports.object o
		WHERE o.cluster_id = options.cluster_id AND o.resource_type = written_type
			AND o.namespace = merge_namespace.namespace
			AND o.labels @> '{app.kubernetes.io/managed-by=kyverno}'
	), decided AS (
		SELECT coalesce(c.name, s.name) AS name, c.content, w.uid AS namespace_uid,
			CASE WHEN c.name IS NULL THEN 'delete' WHEN s.name IS NOT NULL THEN 'patch' ELSE 'create' END AS verb,
			-- The labels with the policies' versions.  Other labels are removed.
			(SELECT string_agg(to_json(coalesce(n.key, o.key)) || ':' || coalesce(to_json(n.value)::text, 'null'), ',')
				FROM (SELECT 'app.kubernetes.io/managed-by' AS key, 'kyverno' AS value
						UNION ALL
						SELECT CASE WHEN strpos(p.policy, '/') > 0 THEN 'pol.kyverno.io/' ELSE 'cpol.kyverno.io/' END
							|| split_part(p.policy, '/', -1), max(p.version)
						FROM kube_reports_internal.active_policy p
						WHERE p.cluster_id = options.cluster_id AND p.source = ''
							AND p.policy = ANY (c.policies) AND p.version <> ''
							AND length(split_part(p.policy, '/', -1)) <= 63
						GROUP BY 1) n
					FULL JOIN (SELECT split_part(l, '=', 1) AS key FROM unnest(s.labels) l) o
						ON o.key = n.key) AS labels
		FROM chunk c FULL JOIN stored s ON s.name = c.name
			LEFT JOIN kube_reports_internal.namespace w ON w.cluster_id = options.cluster_id
				AND w.name = merge_namespace.namespace AND w.name <> ''
	)
	SELECT array_agg(kube_reports_internal.merge_request(written_type, d.verb, merge_namespace.namespace,
		d.name, CASE d.verb WHEN 'create' THEN d.namespace_uid END)
				ORDER BY d.name) AS requests,
			array_agg(convert_to(CASE d.verb
				WHEN 'create' THEN kube_reports_internal.new_report(written_type, merge_namespace.namespace, d.name,
					d.labels, NULL, NULL, d.content)
				WHEN 'patch' THEN format('{"metadata":{"labels":{%s}},%s}', d.labels, d.content)
				ELSE '' END, 'UTF8') ORDER BY d.name) AS documents,
			array_agg(1::bigint) AS writing
		INTO plan
		FROM decided d;
	PERFORM kube_reports_internal.write_merge(cluster, plan.requests, plan.documents, plan.writing, '{}', NULL, NULL);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_namespace(uuid, kube_reports_internal.aggregation, integer,
	integer, integer, text)
	IS 'makes the policy reports of a namespace (empty: of cluster scope) from its aggregated admission reports and '
		'background scan reports, and deletes all other policy reports that Kyverno manages there';
