-- access.sql
--	  Which clusters and namespaces a reader sees.
--
-- Readers have no privilege on tables.  They read security_barrier views, which
-- hide rows of others from the reader's predicates, and call functions over
-- these views.  Row-level security would do the same for the views but not for
-- searches: operators of jsonb, arrays and trigrams are not leakproof, so that
-- PostgreSQL would evaluate them row by row after the policy and use no index.
-- A search therefore runs as the owner of the extension, resolves its caller to
-- the clusters and namespaces granted, and applies these beside fixed
-- operators.
--
-- In a view, current_user is the caller.  The callers of searches read their
-- own name from the view caller, under a seal, and the search checks it: see
-- store/caller.sql.

---- labels of clusters ----

-- matches_labels() needs the terms in the order of their keys.
CREATE FUNCTION kube_reports_internal.labels_match(labels jsonb, label_selector text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT kube_reports.matches_labels(ARRAY(SELECT l.key || '=' || l.value FROM jsonb_each_text(labels) l
		WHERE l.value IS NOT NULL ORDER BY l.key COLLATE "C"), label_selector);
END;
COMMENT ON FUNCTION kube_reports_internal.labels_match(jsonb, text)
	IS 'whether labels of a cluster match a Kubernetes label selector. Raises 22023 for a wrong selector';

---- the reader of a view ----

-- A grant stores the name of the role, so that dumps keep it.  grant_reader() also grants the role USAGE directly.  If
-- a role of this name lacks the privilege, it is another role, made after DROP ROLE or RENAME.  The holder is null if
-- no role has the name.
CREATE VIEW kube_reports_internal.owned_grant AS
	SELECT g.role, g.cluster_id, g.namespace, g.selector, to_regrole(quote_ident(g.role))::oid AS holder
	FROM kube_reports_internal.reader_grant g
	WHERE aclcontains((SELECT n.nspacl FROM pg_catalog.pg_namespace n WHERE n.nspname = 'kube_reports'),
		makeaclitem(to_regrole(quote_ident(g.role)),
			(SELECT n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = 'kube_reports'), 'USAGE', false));
COMMENT ON VIEW kube_reports_internal.owned_grant IS 'the grants whose role is still the role that got the grant';

-- Each query matches the current labels, so a grant follows a change of labels at once.  Only administrators write
-- these labels: extra_metadata, which comes from senders, selects nothing here.
CREATE VIEW kube_reports_internal.held_grant AS
	SELECT g.role, coalesce(g.cluster_id, m.id) AS cluster_id, g.namespace, g.holder
	FROM kube_reports_internal.owned_grant g
		LEFT JOIN LATERAL (SELECT c.id FROM kube_reports.cluster c
			WHERE g.selector IS NOT NULL AND kube_reports_internal.labels_match(c.labels, g.selector)) m ON true
	WHERE g.selector IS NULL OR m.id IS NOT NULL;
COMMENT ON VIEW kube_reports_internal.held_grant
	IS 'owned_grant with a row for each cluster that a selector selects';

-- USAGE: the grants that a role has itself, by inheritance, or after SET ROLE.  Superusers have the grants of every
-- role, also of the owner.  The owner is the owner of the tables: pg_upgrade makes the superuser that runs it the owner
-- of the extension itself.
CREATE VIEW kube_reports_internal.caller_grant AS
	SELECT g.cluster_id, g.namespace
	FROM kube_reports_internal.held_grant g
	WHERE pg_has_role(g.holder, 'USAGE')
	UNION ALL
	SELECT NULL, NULL FROM pg_catalog.pg_class o
	WHERE o.oid = 'kube_reports.object'::regclass AND pg_has_role(o.relowner, 'USAGE');
COMMENT ON VIEW kube_reports_internal.caller_grant IS 'the grants of the role that reads the view';

CREATE VIEW kube_reports_internal.caller_cluster AS
	SELECT c.id FROM kube_reports.cluster c
	WHERE EXISTS (SELECT FROM kube_reports_internal.caller_grant g WHERE g.namespace IS NULL
		AND (g.cluster_id IS NULL OR g.cluster_id = c.id));
COMMENT ON VIEW kube_reports_internal.caller_cluster
	IS 'the clusters of which the role that reads the view sees all rows';

CREATE VIEW kube_reports_internal.caller_namespace AS
	SELECT DISTINCT c.id AS cluster_id, g.namespace
	FROM kube_reports_internal.caller_grant g JOIN kube_reports.cluster c ON g.cluster_id IS NULL OR g.cluster_id = c.id
	WHERE g.namespace IS NOT NULL;
COMMENT ON VIEW kube_reports_internal.caller_namespace
	IS 'the namespaces that the role that reads the view sees without their cluster';

CREATE VIEW kube_reports_internal.seen_cluster WITH (security_barrier) AS
	SELECT c.id, c.uid, c.name, (SELECT coalesce(jsonb_object_agg(m.key, m.value), '{}')
			FROM jsonb_each(CASE jsonb_typeof(c.extra_metadata) WHEN 'object' THEN c.extra_metadata ELSE '{}' END) m
			WHERE jsonb_typeof(m.value) = 'string' AND m.key <> '' AND m.key !~ '[=,()! ]') || c.labels AS labels
	FROM kube_reports.cluster c
	WHERE c.id IN (SELECT w.id FROM kube_reports_internal.caller_cluster w)
		OR c.id IN (SELECT n.cluster_id FROM kube_reports_internal.caller_namespace n);
COMMENT ON VIEW kube_reports_internal.seen_cluster
	IS 'the clusters of which the role that reads the view sees any row. labels: the labels that administrators set, '
		'and those that a sender gives for its cluster under other keys';

CREATE FUNCTION kube_reports.clusters(label_selector text DEFAULT '') RETURNS SETOF uuid
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.uid FROM kube_reports_internal.seen_cluster c
	WHERE kube_reports_internal.labels_match(c.labels, label_selector);
END;
COMMENT ON FUNCTION kube_reports.clusters(text)
	IS 'the clusters that the caller sees and whose labels match a Kubernetes label selector, such as env=prod,region '
		'in (eu,us): for conditions on the column cluster of any view. Raises 22023 for a wrong selector';

-- Readers' functions call it in conditions, which parallel workers may evaluate.
CREATE FUNCTION kube_reports_internal.checked_cluster(cluster uuid) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.seen_cluster c WHERE c.uid = cluster) THEN
		RAISE EXCEPTION 'cluster % is not known', cluster
			USING ERRCODE = 'undefined_object',
				HINT = 'The view kube_reports.fleet_freshness has the clusters that you see.';
	END IF;
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.checked_cluster(uuid)
	IS 'true for a cluster that the caller sees. Raises 42704 for any other and for null, as known_cluster() does';

---- incomplete data ----

CREATE VIEW kube_reports.restore_status WITH (security_barrier) AS
	SELECT r.restoring AS restore_pending, r.restoring
		OR EXISTS (SELECT FROM kube_reports_internal.result_rebuild b WHERE b.restoring) AS results_pending
	FROM kube_reports_internal.restoring r;
COMMENT ON VIEW kube_reports.restore_status
	IS 'one row: whether a restore has to be finished, and whether results are still being derived from the '
		'documents. Until then views lack results or show none, without an error, and searches warn';

CREATE FUNCTION kube_reports_internal.warn_pending() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (SELECT s.results_pending FROM kube_reports.restore_status s) THEN
		RAISE WARNING 'results are still made again from the documents: some are missing'
			USING HINT = 'The view kube_reports.restore_status tells when it is over. After a restore, '
				'after_restore() does it at once.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.warn_pending() IS 'warns the caller that some results are missing';

---- the caller of a search ----

CREATE FUNCTION kube_reports_internal.caller_scope(role text, seal bytea,
	OUT clusters integer[], OUT namespace_clusters integer[], OUT namespaces text[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller		oid := to_regrole(quote_ident(
		kube_reports_internal.proven_role(ROW(caller_scope.role, caller_scope.seal)::kube_reports_internal.caller)));
BEGIN
	PERFORM kube_reports_internal.require_visible();
	PERFORM kube_reports_internal.warn_pending();
	IF EXISTS (SELECT FROM pg_class o
			WHERE o.oid = 'kube_reports.object'::regclass AND pg_has_role(caller, o.relowner, 'USAGE'))
		OR EXISTS (SELECT FROM kube_reports_internal.held_grant g
			WHERE g.cluster_id IS NULL AND g.namespace IS NULL AND pg_has_role(caller, g.holder, 'USAGE')) THEN
		RETURN;
	END IF;
	SELECT coalesce(array_agg(DISTINCT c.id) FILTER (WHERE g.namespace IS NULL), '{}') INTO clusters
		FROM kube_reports_internal.held_grant g JOIN kube_reports.cluster c ON g.cluster_id
			IS NULL OR g.cluster_id = c.id
		WHERE pg_has_role(caller, g.holder, 'USAGE');
	SELECT coalesce(array_agg(n.cluster_id), '{}'),
		coalesce(array_agg(n.namespace), '{}') INTO namespace_clusters, namespaces
		FROM (SELECT DISTINCT c.id AS cluster_id, g.namespace
			FROM kube_reports_internal.held_grant g JOIN kube_reports.cluster c ON g.cluster_id
				IS NULL OR g.cluster_id = c.id
			WHERE pg_has_role(caller, g.holder, 'USAGE') AND g.namespace IS NOT NULL
				AND NOT c.id = ANY (caller_scope.clusters)) n;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.caller_scope(text, bytea)
	IS 'the rows that a role may see; the role is given with its seal. Clusters of which it sees all rows, and pairs '
		'of cluster and namespace; nulls: all rows. Raises 42501 for a wrong seal, and where row-level security hides '
		'rows from the owner';
