-- 90_grants.sql
--	  Roles.  The script makes none: they are global to a server.  A DBA makes
--	  them and calls these functions.

CREATE FUNCTION kube_reports.grant_proxy(role name, cluster uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	bound		record;
	function	regprocedure;
BEGIN
	SELECT c.uid, c.id INTO bound FROM kube_reports.proxy_role p JOIN kube_reports.cluster c ON c.id = p.cluster_id
		WHERE p.role = grant_proxy.role;
	IF FOUND AND bound.uid <> cluster THEN
		RAISE EXCEPTION 'role "%" is bound to cluster % already', role, bound.uid
			USING ERRCODE = 'object_in_use', HINT = 'Each cluster''s proxies use a role of their own.';
	END IF;
	EXECUTE format('GRANT USAGE ON SCHEMA kube_reports TO %I', role);
	FOR function IN SELECT p.oid::regprocedure FROM pg_proc p
		WHERE p.pronamespace = 'kube_reports'::regnamespace AND p.proname LIKE 'api\_%'
			OR p.oid = 'kube_reports.write_batch(uuid, text[], bytea[], integer)'::regprocedure
			OR p.oid = 'kube_reports.delete_piece(uuid, text, bytea, text)'::regprocedure
			OR p.oid = 'kube_reports.sweep_piece(uuid, text, text, text, timestamptz)'::regprocedure
	LOOP
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', function, role);
	END LOOP;
	INSERT INTO kube_reports.proxy_role (role, cluster_id)
		VALUES (grant_proxy.role, kube_reports.register_cluster(cluster))
		ON CONFLICT ON CONSTRAINT proxy_role_pkey DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports.grant_proxy(name, uuid)
	IS 'lets a role serve one cluster, named by the uid of its namespace kube-system; makes the cluster known';

CREATE FUNCTION kube_reports.grant_reader(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('GRANT USAGE ON SCHEMA kube_reports TO %I', role);
	EXECUTE format('GRANT SELECT ON kube_reports.status, kube_reports.stored_report TO %I', role);
END
$$;
COMMENT ON FUNCTION kube_reports.grant_reader(name) IS 'lets a role read all reports through the views';

CREATE FUNCTION kube_reports.grant_admin(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	function	regprocedure;
BEGIN
	PERFORM kube_reports.grant_reader(role);
	EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA kube_reports TO %I', role);
	EXECUTE format('GRANT ALL ON ALL SEQUENCES IN SCHEMA kube_reports TO %I', role);
	-- Not those of the type itself: nobody calls them, and a dump with grants on them would not restore into the SQL variant.
	FOR function IN SELECT p.oid::regprocedure FROM pg_proc p
		WHERE p.pronamespace = 'kube_reports'::regnamespace AND p.proname NOT IN ('report_in', 'report_out', 'report_recv', 'report_send')
	LOOP
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', function, role);
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports.grant_admin(name) IS 'lets a role use every table and function, for every cluster; only the owner grants and upgrades';

