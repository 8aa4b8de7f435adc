-- views.sql
--	  Results and counts as readers see them.
--
-- Views are security_barrier views: rows that a reader may not see are removed before a predicate of the reader is
-- evaluated.  cluster is the uid of the namespace kube-system, cluster_name is the cluster's name.  namespace is the
-- namespace of the report, empty for reports of cluster scope; it decides which readers see a row.  subject_* is the
-- resource that a result is about.

---- results ----

CREATE VIEW kube_reports_internal.visible_result AS
	SELECT r.* FROM kube_reports_internal.result r
	WHERE r.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (r.cluster_id, r.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports_internal.visible_result IS 'the results that the role that reads the view may see';

CREATE VIEW kube_reports.typed_result WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, t."group" AS report_group,
		t.plural AS report_resource, g.name AS report,
		k.source, k.policy, k.rule, k.category, k.severity, kube_reports_internal.status_name(r.status) AS status,
		coalesce(nullif(r.native_status, ''), kube_reports_internal.status_name(r.status)) AS native_status,
			nullif(r.score, 0) AS score,
		s.api_version AS subject_api_version, s.kind AS subject_kind, s.namespace AS subject_namespace,
			s.name AS subject_name, s.uid AS subject_uid,
		d.message, d.properties, d.exceptions, r.first_seen, r.since, o.evaluated_at
	FROM kube_reports_internal.visible_result r
		JOIN kube_reports.cluster c ON c.id = r.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
		LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
		LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
		LEFT JOIN kube_reports.resource_type t ON t.id = g.resource_type
		LEFT JOIN kube_reports.object o ON o.cluster_id = g.cluster_id AND o.resource_type = g.resource_type
			AND o.namespace = g.namespace AND o.name = g.name;
COMMENT ON VIEW kube_reports.typed_result
	IS 'one row for each result of a stored report and each resource that the result is about, by names. first_seen: '
		'when the result appeared; since: when it got its status; evaluated_at: the newest evaluation in its report; '
		'score null: the result has none';

CREATE VIEW kube_reports.open_failures WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, g.name AS report, k.source, k.policy, k.rule,
		k.category, k.severity,
		kube_reports_internal.status_name(r.status) AS status,
			coalesce(nullif(r.native_status, ''), kube_reports_internal.status_name(r.status)) AS native_status,
		nullif(r.score, 0) AS score,
		s.api_version AS subject_api_version, s.kind AS subject_kind, s.namespace AS subject_namespace,
			s.name AS subject_name, s.uid AS subject_uid,
		d.message, r.first_seen, r.since, now() - r.since AS age
	FROM kube_reports_internal.visible_result r
		JOIN kube_reports.cluster c ON c.id = r.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
		LEFT JOIN kube_reports_internal.detail d ON d.id = r.detail
		LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin
	WHERE r.status IN ('w', 'f', 'e');
COMMENT ON VIEW kube_reports.open_failures
	IS 'results with status warn, fail or error, and for how long they have had it (age)';

CREATE VIEW kube_reports.exceptions WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, x.exception, g.name AS report, k.source, k.policy,
		k.rule, k.category, k.severity,
		kube_reports_internal.status_name(r.status) AS status,
		s.api_version AS subject_api_version, s.kind AS subject_kind, s.namespace AS subject_namespace,
			s.name AS subject_name, s.uid AS subject_uid,
		d.message, r.first_seen, r.since
	FROM kube_reports_internal.visible_result r
		JOIN kube_reports_internal.detail d ON d.id = r.detail AND d.exceptions <> '{}'
		CROSS JOIN LATERAL unnest(d.exceptions) x(exception)
		JOIN kube_reports.cluster c ON c.id = r.cluster_id
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
		LEFT JOIN kube_reports_internal.subject s ON s.id = r.subject
		LEFT JOIN kube_reports_internal.origin g ON g.id = r.origin;
COMMENT ON VIEW kube_reports.exceptions
	IS 'results that have their status because of exceptions: a row for each result and exception';

-- sum(bigint) returns numeric, which costs more than the rest of the counting.
CREATE AGGREGATE kube_reports_internal.total(bigint) (SFUNC = pg_catalog.int8pl, STYPE = bigint, INITCOND = '0',
	COMBINEFUNC = pg_catalog.int8pl, PARALLEL = SAFE);
COMMENT ON AGGREGATE kube_reports_internal.total(bigint)
	IS 'sum as a bigint; 0 without rows. Raises 22003 if the sum is out of range';

-- Results are counted by subject first: there are fewer subjects than results, and they are compared by number.
CREATE VIEW kube_reports.resource_summary WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, r.api_version AS subject_api_version,
		r.kind AS subject_kind,
		r.subject_namespace, r.name AS subject_name, r.uid AS subject_uid,
		r.pass, r.warn, r.fail, r.error, r.skip, r.since
	FROM (SELECT r.cluster_id, r.namespace, s.api_version, s.kind, s.namespace AS subject_namespace, s.name,
			max(s.uid) AS uid, kube_reports_internal.total(r.pass) AS pass, kube_reports_internal.total(r.warn) AS warn,
			kube_reports_internal.total(r.fail) AS fail, kube_reports_internal.total(r.error) AS error,
			kube_reports_internal.total(r.skip) AS skip, max(r.since) AS since
		FROM (SELECT r.cluster_id, r.namespace, r.subject, count(*) FILTER (WHERE r.status = 'p') AS pass,
				count(*) FILTER (WHERE r.status = 'w') AS warn,
				count(*) FILTER (WHERE r.status = 'f') AS fail, count(*) FILTER (WHERE r.status = 'e') AS error,
				count(*) FILTER (WHERE r.status = 's') AS skip,
				max(r.since) AS since
			FROM kube_reports_internal.visible_result r GROUP BY r.cluster_id, r.namespace, r.subject) r
			JOIN kube_reports_internal.subject s ON s.id = r.subject
		GROUP BY r.cluster_id, r.namespace, s.api_version, s.kind, s.namespace, s.name) r
		JOIN kube_reports.cluster c ON c.id = r.cluster_id;
COMMENT ON VIEW kube_reports.resource_summary
	IS 'counts by status for each resource that has results, and when one of these results last changed. The view '
		'counts all resources; search_resources() stops after the first ones. Cluster, version, kind, namespace and '
		'name identify a resource';

CREATE FUNCTION kube_reports.results_of_resource(cluster uuid, kind text, namespace text, name text)
	RETURNS SETOF kube_reports.typed_result
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.* FROM kube_reports.typed_result r
	WHERE kube_reports_internal.checked_cluster(results_of_resource.cluster)
		AND r.cluster = results_of_resource.cluster AND r.subject_kind = kind
		AND r.subject_namespace = results_of_resource.namespace
		AND r.subject_name = results_of_resource.name;
END;
COMMENT ON FUNCTION kube_reports.results_of_resource(uuid, text, text, text)
	IS 'all results about a resource of a cluster; namespace is empty for a resource of cluster scope. Raises 42704 '
		'for a cluster that the caller does not see';

CREATE FUNCTION kube_reports.cve(cve text)
	RETURNS TABLE (cluster uuid, cluster_name text, namespace text, subject_kind text, subject_name text, source text,
		severity text, score double precision,
		package text, installed_version text, fixed_version text, fixable boolean, status text,
			first_seen timestamptz, properties jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.cluster, r.cluster_name, r.namespace, r.subject_kind, r.subject_name, r.source, r.severity, r.score,
		coalesce(r.properties->>'resource', r.properties->>'pkgName'), r.properties->>'installedVersion',
			r.properties->>'fixedVersion',
		coalesce(r.properties->>'fixedVersion', '') <> '', r.status, r.first_seen, r.properties
	FROM kube_reports.typed_result r
	WHERE r.policy = cve;
END;
COMMENT ON FUNCTION kube_reports.cve(text)
	IS 'what a vulnerability affects, and whether a fixed version is known; the package comes from the properties '
		'that Trivy sets';

---- counts ----

-- Even in a view, a function would read tables with the reader's privileges.  So the view contains the query of
-- unfolded().
CREATE VIEW kube_reports_internal.visible_rollup AS
	SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, r.count
	FROM (SELECT r.cluster_id, r.namespace, r.criterion, r.kind, r.status, r.native_status, r.count
			FROM kube_reports_internal.rollup r
			WHERE r.count <> 0
		UNION ALL
		SELECT d.cluster_id, d.namespace, c.criterion, d.kind, c.status, c.native_status, c.count
			FROM kube_reports_internal.rollup_delta d,
				unnest(d.criteria, d.statuses, d.native_statuses, d.counts) c(criterion, status, native_status, count)
			WHERE d.xid >= (SELECT m.mark FROM kube_reports_internal.rollup_mark m)) r
	WHERE r.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (r.cluster_id, r.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports_internal.visible_rollup
	IS 'the counts that the reader of this view may see. Add them up: recent writes have rows of their own';

CREATE VIEW kube_reports_internal.visible_policy AS
	SELECT r.*
	FROM (SELECT p.cluster_id, p.namespace, p.policy, p.criterion, p.pass, p.warn, p.fail, p.error, p.skip
			FROM kube_reports_internal.rollup_policy p
		UNION ALL
		SELECT d.cluster_id, d.namespace, k.policy_id, c.criterion,
			CASE c.status WHEN 'p' THEN c.count ELSE 0 END, CASE c.status WHEN 'w' THEN c.count ELSE 0 END,
			CASE c.status WHEN 'f' THEN c.count ELSE 0 END, CASE c.status WHEN 'e' THEN c.count
				ELSE 0 END, CASE c.status WHEN 's' THEN c.count ELSE 0 END
			FROM kube_reports_internal.rollup_delta d
				CROSS JOIN LATERAL unnest(d.criteria, d.statuses, d.native_statuses, d.counts) c(criterion,
					status, native_status, count)
				JOIN kube_reports_internal.criterion k ON k.id = c.criterion
			WHERE d.xid >= (SELECT m.mark FROM kube_reports_internal.rollup_mark m)) r
	WHERE r.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (r.cluster_id, r.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports_internal.visible_policy
	IS 'the counts by policy and status that the reader of this view may see. Add them up, as in visible_rollup. '
		'criterion: any criterion of the policy; its rule has no meaning here';

-- Counts are added up cluster by cluster, so that the sum does not handle the cluster's uid and name for each count,
-- and the planner knows the number of clusters.
CREATE VIEW kube_reports.result_count WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, k.source, k.category, k.policy, k.rule, k.severity,
		r.kind AS subject_kind,
		kube_reports_internal.status_name(r.status) AS status,
			coalesce(nullif(r.native_status, ''), kube_reports_internal.status_name(r.status)) AS native_status, r.count
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.namespace, r.criterion, r.kind, r.status, r.native_status,
			kube_reports_internal.total(r.count) AS count
			FROM kube_reports_internal.visible_rollup r
			WHERE r.cluster_id = c.id
			GROUP BY r.namespace, r.criterion, r.kind, r.status, r.native_status
				HAVING kube_reports_internal.total(r.count) <> 0) r
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion;
COMMENT ON VIEW kube_reports.result_count
	IS 'the number of results by cluster, namespace, source, category, policy, rule, severity, kind of resource and '
		'status';

-- A column that a view does not use takes no time.
CREATE VIEW kube_reports_internal.visible_count AS
	SELECT r.*, k.source, k.category, k.policy, k.rule, k.severity,
		CASE r.status WHEN 'p' THEN r.count ELSE 0 END AS pass, CASE r.status WHEN 'w' THEN r.count ELSE 0 END AS warn,
		CASE r.status WHEN 'f' THEN r.count ELSE 0 END AS fail, CASE r.status WHEN 'e' THEN r.count ELSE 0 END AS error,
		CASE r.status WHEN 's' THEN r.count ELSE 0 END AS skip,
		CASE k.severity WHEN 'unknown' THEN r.count ELSE 0 END AS unknown, CASE k.severity
			WHEN 'info' THEN r.count ELSE 0 END AS info,
		CASE k.severity WHEN 'low' THEN r.count ELSE 0 END AS low, CASE k.severity
			WHEN 'medium' THEN r.count ELSE 0 END AS medium,
		CASE k.severity WHEN 'high' THEN r.count ELSE 0 END AS high, CASE k.severity
			WHEN 'critical' THEN r.count ELSE 0 END AS critical
	FROM kube_reports_internal.visible_rollup r
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion;
COMMENT ON VIEW kube_reports_internal.visible_count
	IS 'visible_rollup with its criteria; each count is also in the column of its status and in the column of its '
		'severity';

CREATE VIEW kube_reports.status_counts WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, r.source, r.pass, r.warn, r.fail, r.error, r.skip,
		r.pass + r.warn + r.fail + r.error + r.skip AS total
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.namespace, k.source, kube_reports_internal.total(r.pass) AS pass,
			kube_reports_internal.total(r.warn) AS warn,
				kube_reports_internal.total(r.fail) AS fail, kube_reports_internal.total(r.error) AS error,
					kube_reports_internal.total(r.skip) AS skip
			FROM kube_reports_internal.visible_policy r
				JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			WHERE r.cluster_id = c.id
			GROUP BY r.namespace, k.source) r
	WHERE r.pass + r.warn + r.fail + r.error + r.skip <> 0;
COMMENT ON VIEW kube_reports.status_counts
	IS 'the number of results with each status, by cluster, namespace and source';

CREATE VIEW kube_reports.severity_counts WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, r.source, r.status, r.unknown, r.info, r.low,
		r.medium, r.high, r.critical, r.total
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.namespace, r.source, kube_reports_internal.status_name(r.status) AS status,
				kube_reports_internal.total(r.unknown) AS unknown, kube_reports_internal.total(r.info) AS info,
					kube_reports_internal.total(r.low) AS low,
				kube_reports_internal.total(r.medium) AS medium, kube_reports_internal.total(r.high) AS high,
					kube_reports_internal.total(r.critical) AS critical,
				kube_reports_internal.total(r.count) AS total
			FROM kube_reports_internal.visible_count r
			WHERE r.cluster_id = c.id
			GROUP BY r.namespace, r.source, r.status
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.severity_counts
	IS 'the number of results of each severity, by cluster, namespace, source and status';

CREATE VIEW kube_reports.category_tree WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.source, r.category, r.pass, r.warn, r.fail, r.error, r.skip,
		r.unknown, r.info, r.low, r.medium, r.high, r.critical, r.total
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.source, r.category,
				kube_reports_internal.total(r.pass) AS pass, kube_reports_internal.total(r.warn) AS warn,
					kube_reports_internal.total(r.fail) AS fail, kube_reports_internal.total(r.error) AS error,
					kube_reports_internal.total(r.skip) AS skip,
				kube_reports_internal.total(r.unknown) AS unknown, kube_reports_internal.total(r.info) AS info,
					kube_reports_internal.total(r.low) AS low,
				kube_reports_internal.total(r.medium) AS medium, kube_reports_internal.total(r.high) AS high,
					kube_reports_internal.total(r.critical) AS critical,
				kube_reports_internal.total(r.count) AS total
			FROM kube_reports_internal.visible_count r
			WHERE r.cluster_id = c.id
			GROUP BY r.source, r.category
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.category_tree IS 'sources and their categories, with counts by status and by severity';

CREATE VIEW kube_reports.policy_counts WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.source, r.category, r.policy, r.rule, r.severity, r.pass, r.warn,
		r.fail, r.error, r.skip, r.total
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT k.source, k.category, k.policy, k.rule, k.severity,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'p') AS pass,
					kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'w') AS warn,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'f') AS fail,
					kube_reports_internal.total(r.count) FILTER (WHERE r.status = 'e') AS error,
				kube_reports_internal.total(r.count) FILTER (WHERE r.status = 's') AS skip,
					kube_reports_internal.total(r.count) AS total
			FROM kube_reports_internal.visible_rollup r
				JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			WHERE r.cluster_id = c.id
			GROUP BY k.id
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.policy_counts IS 'policies and their rules, with counts by status';

-- Any criterion of a policy provides the columns that describe the policy.
CREATE VIEW kube_reports.failing_by_policy_namespace WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, k.source, k.category, k.policy, k.severity,
		r.warn, r.fail, r.error
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.namespace, min(r.criterion) AS criterion,
				kube_reports_internal.total(r.warn) AS warn, kube_reports_internal.total(r.fail) AS fail,
					kube_reports_internal.total(r.error) AS error
			FROM kube_reports_internal.visible_policy r
			WHERE r.cluster_id = c.id
			GROUP BY r.namespace, r.policy) r
		JOIN kube_reports_internal.criterion k ON k.id = r.criterion
	WHERE r.warn + r.fail + r.error <> 0;
COMMENT ON VIEW kube_reports.failing_by_policy_namespace
	IS 'counts of results with status warn, fail or error, by policy and namespace';

CREATE VIEW kube_reports.fleet_matrix WITH (security_barrier) AS
	SELECT r.source, r.policy, r.rule, c.uid AS cluster, c.name AS cluster_name, r.pass, r.warn, r.fail, r.error, r.skip
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT r.source, r.policy, r.rule,
				kube_reports_internal.total(r.pass) AS pass, kube_reports_internal.total(r.warn) AS warn,
					kube_reports_internal.total(r.fail) AS fail, kube_reports_internal.total(r.error) AS error,
					kube_reports_internal.total(r.skip) AS skip
			FROM kube_reports_internal.visible_count r
			WHERE r.cluster_id = c.id
			GROUP BY r.source, r.policy, r.rule
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.fleet_matrix IS 'every policy and rule by cluster: which clusters fail it';

CREATE FUNCTION kube_reports.fleet_drift(a uuid, b uuid)
	RETURNS TABLE (source text, policy text, rule text, pass_a bigint, failing_a bigint,
		pass_b bigint, failing_b bigint)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT m.source, m.policy, m.rule, m.pass_a, m.failing_a, m.pass_b, m.failing_b
	FROM (SELECT f.source, f.policy, f.rule,
			coalesce(sum(f.pass) FILTER (WHERE f.cluster = a), 0)::bigint AS pass_a,
			coalesce(sum(f.warn + f.fail + f.error) FILTER (WHERE f.cluster = a), 0)::bigint AS failing_a,
			coalesce(sum(f.pass) FILTER (WHERE f.cluster = b), 0)::bigint AS pass_b,
			coalesce(sum(f.warn + f.fail + f.error) FILTER (WHERE f.cluster = b), 0)::bigint AS failing_b
		FROM kube_reports.fleet_matrix f
		WHERE f.cluster IN (a, b) AND kube_reports_internal.checked_cluster(a)
			AND kube_reports_internal.checked_cluster(b)
		GROUP BY f.source, f.policy, f.rule) m
	WHERE m.pass_a > 0 AND m.failing_a = 0 AND m.failing_b > 0 OR m.pass_b > 0 AND m.failing_b = 0 AND m.failing_a > 0;
END;
COMMENT ON FUNCTION kube_reports.fleet_drift(uuid, uuid)
	IS 'policies and rules that only pass in one of two clusters and warn, fail or are in error in the other. Raises '
		'42704 for a cluster that the caller does not see';

CREATE VIEW kube_reports.fleet_freshness WITH (security_barrier) AS
	SELECT c.uid AS cluster, c.name AS cluster_name,
		(SELECT s.labels FROM kube_reports_internal.seen_cluster s WHERE s.id = c.id) AS labels,
		-- A time far ahead was stored while the clock was ahead.
		c.last_seen, CASE WHEN c.last_seen < now() + interval '1 minute' THEN now() - c.last_seen END AS silent_for,
		coalesce(o.reports, 0) AS reports,
		o.evaluated_at, now() - o.evaluated_at AS evaluation_age, o.oldest_evaluation
	FROM kube_reports.cluster c
		LEFT JOIN (SELECT o.cluster_id, count(*) AS reports, max(o.evaluated_at) AS evaluated_at,
			min(o.evaluated_at) AS oldest_evaluation
			FROM kube_reports.object o
			WHERE o.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
				OR (o.cluster_id, o.namespace) IN (SELECT n.cluster_id, n.namespace
					FROM kube_reports_internal.caller_namespace n)
			GROUP BY o.cluster_id) o ON o.cluster_id = c.id
	WHERE c.id IN (SELECT w.id FROM kube_reports_internal.caller_cluster w)
		OR c.id IN (SELECT n.cluster_id FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports.fleet_freshness
	IS 'clusters, each with the time at which one of its proxies last opened a connection or ran upkeep (each '
		'minute), or its sender was last answered (an idle one asks each minute), and the newest and the oldest '
		'evaluation among the reports that the reader may see';

---- frameworks ----

-- Several rows may match the same criterion.  It counts once for a control, and once for its framework (control null).
CREATE VIEW kube_reports_internal.control_criterion AS
	SELECT DISTINCT f.framework, c.control, k.id AS criterion, k.source, k.policy, k.rule, k.severity
	FROM kube_reports.framework_control f
		JOIN kube_reports_internal.criterion k ON k.policy = f.policy AND f.source IN ('', k.source)
			AND f.rule IN ('', k.rule)
		CROSS JOIN LATERAL (VALUES (f.control), (NULL)) c(control);
COMMENT ON VIEW kube_reports_internal.control_criterion
	IS 'the criteria that check the controls of frameworks; control null: all criteria of a framework';

CREATE VIEW kube_reports.control_counts WITH (security_barrier) AS
	SELECT r.framework, r.control, c.uid AS cluster, c.name AS cluster_name, r.namespace, r.source, r.policy, r.rule,
		r.subject_kind, r.pass, r.warn, r.fail, r.error, r.skip
	FROM kube_reports.cluster c
		CROSS JOIN LATERAL (SELECT x.framework, x.control, r.namespace, r.source, r.policy, r.rule,
			r.kind AS subject_kind,
				kube_reports_internal.total(r.pass) AS pass, kube_reports_internal.total(r.warn) AS warn,
					kube_reports_internal.total(r.fail) AS fail, kube_reports_internal.total(r.error) AS error,
					kube_reports_internal.total(r.skip) AS skip
			FROM kube_reports_internal.visible_count r
				JOIN kube_reports_internal.control_criterion x ON x.criterion = r.criterion
			WHERE r.cluster_id = c.id AND x.control IS NOT NULL
			GROUP BY x.framework, x.control, r.namespace, r.source, r.policy, r.rule, r.kind
			HAVING kube_reports_internal.total(r.count) <> 0) r;
COMMENT ON VIEW kube_reports.control_counts
	IS 'counts by status for the controls of frameworks: which clusters and resources have checks for a control';

-- store_results() adds the marker to results that have remediations; a batch of objects may contain anything.
CREATE VIEW kube_reports_internal.forwarded_remediable AS
	SELECT r.cluster_id, r.namespace, r.status, r.since, r.criterion, d.properties
	FROM kube_reports_internal.visible_result r
		JOIN kube_reports_internal.detail d ON d.id = r.detail AND d.properties <> '{}'
			AND d.properties @> '{"automated-remediation": "true"}'
		JOIN kube_reports_internal.origin g ON g.id = r.origin
		JOIN kube_reports.resource_type t ON t.id = g.resource_type AND t."group" = 'openreports.io'
			AND t.plural = 'clusterreports';
COMMENT ON VIEW kube_reports_internal.forwarded_remediable
	IS 'the forwarded results with remediations that the role that reads the view may see';

-- PostgreSQL may move a predicate on a column below a view's barrier, and then evaluates the column's expression there.
-- So no expression over these documents may fail for any document, and OFFSET limits the rows to those that the reader
-- may see before any expression is evaluated.
CREATE VIEW kube_reports_internal.visible_remediation AS
	SELECT o.cluster_id, o.namespace, o.name, o.metadata, o.body
	FROM kube_reports.object o
		JOIN kube_reports.resource_type t ON t.id = o.resource_type
			AND t."group" = 'compliance.openshift.io' AND t.plural = 'complianceremediations'
	WHERE o.cluster_id = ANY (ARRAY(SELECT w.id FROM kube_reports_internal.caller_cluster w))
		OR (o.cluster_id, o.namespace) IN (SELECT n.cluster_id, n.namespace
			FROM kube_reports_internal.caller_namespace n)
	OFFSET 0;
COMMENT ON VIEW kube_reports_internal.visible_remediation
	IS 'the stored objects of type ComplianceRemediation that the role that reads the view may see';

-- The result of a check is the owner of its remediations.  If a check has several remediations, each has the name of
-- the check and a number.
CREATE VIEW kube_reports.remediable_failures WITH (security_barrier) AS
	-- A UNION has no barrier of its own: PostgreSQL would move a reader's function into its parts.
	SELECT u.* FROM (
		SELECT c.uid AS cluster, c.name AS cluster_name, r.namespace, g.name AS check_result, k.policy AS scan,
			k.category AS suite, k.rule, k.severity,
			kube_reports_internal.status_name(r.status) AS status, r.since,
				coalesce(m.remediations, '{}') AS remediations, coalesce(m.states, '{}') AS states
		FROM kube_reports_internal.visible_result r
			JOIN kube_reports_internal.detail d ON d.id = r.detail AND d.properties <> '{}'
				AND d.properties @> '{"automated-remediation": "true"}'
			JOIN kube_reports.cluster c ON c.id = r.cluster_id
			JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			JOIN kube_reports_internal.origin g ON g.id = r.origin
			JOIN kube_reports.resource_type t ON t.id = g.resource_type AND t."group" = 'compliance.openshift.io'
				AND t.plural = 'compliancecheckresults'
			LEFT JOIN (SELECT o.cluster_id, o.namespace, o.check_result,
				array_agg(o.name ORDER BY o.name) AS remediations, array_agg(o.state ORDER BY o.name) AS states
				FROM (SELECT o.cluster_id, o.namespace, o.name,
						coalesce(nullif(kube_reports_internal.string_at(o.body, 'status', 'applicationState'), ''),
							'NotApplied') AS state,
						-- Members are stored in the order of their names.
						coalesce(substring(kube_reports_internal.value_at(o.metadata, 'ownerReferences')
							FROM '"kind": *"ComplianceCheckResult", *"name": *"([^"\\]*)"'), o.name) AS check_result
					FROM kube_reports_internal.visible_remediation o) o
				GROUP BY o.cluster_id, o.namespace, o.check_result) m
				ON m.cluster_id = g.cluster_id AND m.namespace = g.namespace AND m.check_result = g.name
		WHERE r.status IN ('w', 'f', 'e')
		UNION ALL
		SELECT c.uid, c.name, r.namespace, k.rule, k.policy, k.category, k.rule, k.severity,
			kube_reports_internal.status_name(r.status), r.since, m.remediations, m.states
		FROM kube_reports_internal.forwarded_remediable r
			JOIN kube_reports.cluster c ON c.id = r.cluster_id
			JOIN kube_reports_internal.criterion k ON k.id = r.criterion
			CROSS JOIN LATERAL (SELECT
					array_agg(substr(p.key, 13) COLLATE "C" ORDER BY p.key COLLATE "C") AS remediations,
					array_agg(p.value ORDER BY p.key COLLATE "C") AS states
				FROM jsonb_each_text(r.properties) p WHERE starts_with(p.key, 'remediation/')) m
		WHERE r.status IN ('w', 'f', 'e') AND m.remediations IS NOT NULL
	) u;
COMMENT ON VIEW kube_reports.remediable_failures
	IS 'checks of the Compliance Operator that do not pass and can be corrected automatically, with the names of '
		'their remediations and the state of each (NotApplied, Pending, Applied, Outdated, Error and others); the '
		'lists are empty while a check has no remediation. Of forwarded results, check_result is the rule';

---- remediations ----

CREATE VIEW kube_reports.remediations WITH (security_barrier) AS
	-- A UNION has no barrier of its own: PostgreSQL would move a reader's function into its parts.
	SELECT u.* FROM (
		SELECT c.uid AS cluster, c.name AS cluster_name, o.namespace, o.name AS remediation,
			coalesce(nullif(kube_reports_internal.string_at(o.body, 'status', 'applicationState'), ''),
				'NotApplied') AS state,
			coalesce(kube_reports_internal.value_at(o.body, 'spec', 'apply') = 'true', false) AS wanted,
			coalesce(kube_reports_internal.string_at(o.body, 'spec', 'type'), 'Configuration') AS type,
			kube_reports_internal.value_at(o.body, 'spec', 'outdated', 'object') IS NOT NULL AS outdated,
				kube_reports_internal.string_at(o.body, 'status', 'errorMessage') AS error,
			kube_reports_internal.string_at(o.body, 'spec', 'current', 'object', 'kind') AS object_kind,
			kube_reports_internal.string_at(o.body, 'spec', 'current', 'object', 'metadata', 'name') AS object_name,
			kube_reports_internal.string_at(o.metadata, 'labels', 'compliance.openshift.io/suite') AS suite,
			kube_reports_internal.string_at(o.metadata, 'labels', 'compliance.openshift.io/scan-name') AS scan
		FROM kube_reports_internal.visible_remediation o
			JOIN kube_reports.cluster c ON c.id = o.cluster_id
		UNION ALL
		-- All results of a rule have its remediations.
		SELECT c.uid, c.name, f.namespace, f.remediation, f.state,
			coalesce(f.properties->>('remediation-apply/' || f.remediation) = 'true', false),
			coalesce(f.properties->>('remediation-type/' || f.remediation), 'Configuration'),
			coalesce(f.properties->>('remediation-outdated/' || f.remediation) = 'true', false),
			f.properties->>('remediation-error/' || f.remediation),
			f.properties->>('remediation-kind/' || f.remediation),
			f.properties->>('remediation-object/' || f.remediation),
			f.suite COLLATE "default", f.scan COLLATE "default"
		FROM (SELECT DISTINCT ON (r.cluster_id, k.policy, p.key) r.cluster_id, r.namespace,
					substr(p.key, 13) COLLATE "C" AS remediation, p.value AS state, r.properties,
					nullif(k.category, '') AS suite, k.policy AS scan
				FROM kube_reports_internal.forwarded_remediable r
					JOIN kube_reports_internal.criterion k ON k.id = r.criterion
					CROSS JOIN LATERAL jsonb_each_text(r.properties) p
				WHERE starts_with(p.key, 'remediation/')
				ORDER BY r.cluster_id, k.policy, p.key, r.since DESC, r.criterion) f
			JOIN kube_reports.cluster c ON c.id = f.cluster_id
	) u;
COMMENT ON VIEW kube_reports.remediations
	IS 'the Compliance Operator''s remediations, where ComplianceRemediation is registered, and those that senders '
		'forward with results (their namespace is empty). state: the operator''s own word (NotApplied, Pending, '
		'Applied, Outdated, Error and others). remediable_failures has the checks that they correct';
