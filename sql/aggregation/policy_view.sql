-- policy_view.sql
--	  Which proxy may merge by the active policies that are stored.
--
-- All proxies of a cluster share one stored set of active policies.  Each proxy stores the set that it has read.  The
-- sets of two proxies may differ for a moment, and an older set may be stored after a newer one.  So a proxy gets the
-- version of the set that it has stored, and merges only while this is the version of the stored set.  If the version
-- is another one, the proxy merges again after it has stored its own set again, which it does every few seconds.

CREATE FUNCTION kube_reports_internal.policy_set_version(cluster uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT (extract(epoch FROM s.changed_at) * 1000000)::bigint
	FROM kube_reports_internal.active_policy_set s
		JOIN kube_reports.cluster c ON c.id = s.cluster_id
		JOIN kube_reports_internal.aggregation a ON a.cluster_id = c.id
	WHERE c.uid = $1 AND a.follow_policies
$$;
COMMENT ON FUNCTION kube_reports_internal.policy_set_version(uuid)
	IS 'a value that changes whenever the active policies of a cluster change; null if proxies may not store '
		'policies, or no proxy has stored any';

CREATE FUNCTION kube_reports_internal.api_tell_policies(cluster uuid, policies text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c JOIN kube_reports_internal.aggregation a ON a.cluster_id = c.id
			WHERE c.uid = cluster AND kube_reports_internal.may_serve(c.id, caller) AND a.follow_policies) THEN
		RETURN -1;
	END IF;
	PERFORM kube_reports.set_active_policies(cluster, policies::jsonb);
	RETURN coalesce(kube_reports_internal.policy_set_version(cluster), -1);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_tell_policies(uuid, text, kube_reports_internal.caller)
	IS 'set_active_policies() for a proxy; returns the version of the stored policies, for api_may_merge(), or -1 if '
		'proxies may not store policies';

CREATE FUNCTION kube_reports_internal.api_may_merge(cluster uuid, told bigint,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller()) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller));
BEGIN
	IF told = 0 THEN
		RETURN true;
	END IF;
	-- The lock keeps the set unchanged until the transaction ends.
	IF told IS NULL OR served IS NULL OR NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(),
		kube_reports_internal.aggregation_lock(served)) THEN
		RETURN false;
	END IF;
	RETURN coalesce(kube_reports_internal.policy_set_version(cluster) = told, false);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_may_merge(uuid, bigint, kube_reports_internal.caller)
	IS 'whether a proxy may merge by the stored active policies, until its transaction ends. told: the version that '
		'api_tell_policies() returned for the policies that the proxy knows now; 0 if the proxy has no '
		'kube-apiserver, then every version is right; null if the proxy does not know the policies';
