-- hold.sql
--	  Holding the writes of a cluster, for the time in which it moves to
--	  another database.
--
-- Every writer (the API, DML, imports, merges, sweeps) refuses a held lane after it has taken the lane's lock.  Reads,
-- watches and the derivation of results continue.

CREATE FUNCTION kube_reports_internal.require_unheld(lane integer) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	held		uuid := (SELECT c.uid FROM kube_reports_internal.lane l
		JOIN kube_reports.cluster c ON c.id = l.cluster_id WHERE l.id = require_unheld.lane AND l.held);
BEGIN
	IF held IS NOT NULL THEN
		RAISE EXCEPTION 'writes of cluster % are held', held
			USING ERRCODE = 'lock_not_available', DETAIL = 'The cluster is moving to another database.',
				HINT = format('If it does not move, allow writes again: SELECT kube_reports.release_writes(%L)', held);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_unheld(integer)
	IS 'raises 55P03 if writes of the lane are held; the API answers this error with 503';

CREATE FUNCTION kube_reports.hold_writes(cluster uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		integer := kube_reports_internal.known_cluster(cluster);
BEGIN
	-- Wait for every write in progress.
	PERFORM kube_reports_internal.lock_store();
	UPDATE kube_reports_internal.lane l SET held = true WHERE l.cluster_id = known AND NOT l.held;
END
$$;
COMMENT ON FUNCTION kube_reports.hold_writes(uuid)
	IS 'refuses every write of a cluster until release_writes(): the API answers 503 with Retry-After, SQL gets 55P03. '
		'Reads and watches go on, and so do writes of other clusters. Raises 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.release_writes(cluster uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		integer := kube_reports_internal.known_cluster(cluster);
BEGIN
	UPDATE kube_reports_internal.lane l SET held = false WHERE l.cluster_id = known AND l.held;
END
$$;
COMMENT ON FUNCTION kube_reports.release_writes(uuid)
	IS 'allows writes of a cluster again after hold_writes(). Do not call it after another database has received the '
		'cluster: both would then give the same versions. Raises 42704 for an unknown cluster';
