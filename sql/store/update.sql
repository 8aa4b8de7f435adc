-- update.sql
--	  After ALTER EXTENSION UPDATE: bringing rows to the new version.
--
-- The script of an update writes no row, because it may run as a superuser on objects of the owner.  These functions
-- belong to the owner.  They examine the rows, not the version from which the rows come, so that they also work for
-- rows of a dump.

CREATE FUNCTION kube_reports_internal.protocols(OUT oldest integer, OUT newest integer)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 1, 1;
END;
COMMENT ON FUNCTION kube_reports_internal.protocols()
	IS 'the protocols of proxies that this version understands; see api_hello()';

CREATE FUNCTION kube_reports_internal.is_updating() RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT s.version IS DISTINCT FROM kube_reports_internal.script_version() FROM kube_reports_internal.store s;
END;
COMMENT ON FUNCTION kube_reports_internal.is_updating()
	IS 'whether the extension was updated and its rows still have the form of another version';

-- Grants privileges that update scripts cannot grant: see owner.sql.
CREATE FUNCTION kube_reports_internal.grant_functions_in_c() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing		record;
BEGIN
	FOR missing IN
		SELECT o.object, r.rolname
		FROM (SELECT x.object, (SELECT array_agg(h.role::text) FROM kube_reports_internal.held_grant h) AS roles
				FROM kube_reports_internal.reader_objects() x
				WHERE x.kind = 'ROUTINE'
			UNION ALL
			SELECT x.object, (SELECT array_agg(p.role) FROM kube_reports_internal.proxy_role p)
				FROM kube_reports_internal.proxy_objects() x
				WHERE x.kind = 'ROUTINE'
			UNION ALL
			SELECT x.object, (SELECT array_agg(a.grantee::regrole::text) FROM pg_class c, aclexplode(c.relacl) a
					WHERE c.oid = 'kube_reports.object'::regclass AND a.privilege_type = 'TRUNCATE'
						AND a.grantee NOT IN (0, c.relowner))
				FROM kube_reports_internal.admin_objects() x
				WHERE x.kind = 'ROUTINE') o
			JOIN pg_proc p ON p.oid = to_regprocedure(o.object)
			JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'c'
			JOIN pg_roles r ON r.rolname = ANY (o.roles)
		WHERE NOT has_function_privilege(r.oid, p.oid, 'EXECUTE')
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', missing.object, missing.rolname);
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.grant_functions_in_c()
	IS 'lets proxies, readers and administrators use the functions in C that an update added';

-- Many connections notice an update at once, so the second check is made under the lock.
CREATE FUNCTION kube_reports_internal.finish_update() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT kube_reports_internal.is_updating() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.lock_store();
	IF NOT kube_reports_internal.is_updating() THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.renew_types();
	PERFORM kube_reports_internal.grant_functions_in_c();
	UPDATE kube_reports_internal.store SET generation = generation + 1,
		version = kube_reports_internal.script_version();
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.finish_update()
	IS 'brings the rows to the form of the version to which the extension was updated, unless they have it; true if '
		'it did';

CREATE FUNCTION kube_reports.after_update() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	finished	boolean := kube_reports_internal.finish_update();
	added		record;
BEGIN
	-- The script adds constraints without checking rows.
	FOR added IN SELECT c.conrelid::regclass AS relation, c.conname FROM pg_constraint c
		WHERE c.connamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND NOT c.convalidated
	LOOP
		EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', added.relation, added.conname);
	END LOOP;
	RETURN finished;
END
$$;
COMMENT ON FUNCTION kube_reports.after_update()
	IS 'finishes an update: the owner calls it once after ALTER EXTENSION UPDATE. Brings the rows to the form of the '
		'new version and checks new constraints. A proxy otherwise does the same, except the checks. True when the '
		'update was not finished yet';
