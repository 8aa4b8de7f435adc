-- preamble.sql
--	  Guards of the install script: against objects that are already in the
--	  schema, and against a database of another encoding.
--
-- In a trusted extension this script runs as the bootstrap superuser, but a role that is no superuser calls it.  So no
-- name may resolve to an object of that role:
--
-- The search_path contains only the server's own schema.  If the script uses an object of its own, it names the schema.
--
-- The server chooses a function also by its arguments, among all functions of that name in the schema.  So the schema
-- must be empty, no other role may create objects in it, and no session can create a function until the script ends
-- (alone.sql): the schema may be older than the extension, and its owner may have other sessions.
--
-- Update scripts have their own guards: update_preamble.sql.

DO $$
DECLARE
	extension	record;
	found		text;
BEGIN
	-- Everything is new, see owner.sql.
	PERFORM set_config('kube_reports_internal.updating', '', true);
	SELECT e.oid, e.extowner, e.extnamespace, n.nspowner INTO extension
		FROM (SELECT e.oid, e.extowner, e.extnamespace FROM pg_extension e WHERE e.extname = 'kube_reports'
			-- The plain script makes no extension.
			UNION ALL
			SELECT 0, r.oid, to_regnamespace('kube_reports') FROM pg_roles r WHERE r.rolname = current_user
				AND NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports')) e
			JOIN pg_namespace n ON n.oid = e.extnamespace;
	-- pg_tle has no control file that fixes the schema, and does not check it.
	IF extension.extnamespace IS DISTINCT FROM to_regnamespace('kube_reports') THEN
		RAISE EXCEPTION 'the extension is made in schema kube_reports, not in %', extension.extnamespace::regnamespace
			USING ERRCODE = 'invalid_schema_name',
				HINT = 'CREATE SCHEMA IF NOT EXISTS kube_reports, then: '
					'CREATE EXTENSION kube_reports SCHEMA kube_reports.';
	END IF;
	IF extension.nspowner <> extension.extowner THEN
		RAISE EXCEPTION 'schema kube_reports belongs to role "%"', extension.nspowner::regrole
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = format('Role "%s" installs the extension. Another owner of the schema could put functions '
					'beside those of the extension.', extension.extowner::regrole),
				HINT = format('Install as the owner of the schema (pg_restore --role), or first: '
					'ALTER SCHEMA kube_reports OWNER TO %s.', extension.extowner::regrole);
	END IF;
	-- Every object in a schema depends on the schema; so do default privileges.
	SELECT string_agg(o.name, ', ' ORDER BY o.name) INTO found
		FROM (SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS name FROM pg_depend d
			WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = extension.extnamespace
				AND (d.classid, d.objid) <> ('pg_extension'::regclass, extension.oid)
			ORDER BY 1 LIMIT 10) o;
	IF found IS NOT NULL THEN
		RAISE EXCEPTION 'schema kube_reports is not empty'
			USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It holds %s.', found),
				HINT = 'Move what is needed to another schema, then: DROP SCHEMA kube_reports CASCADE.';
	END IF;
	SELECT string_agg(CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, ', ') INTO found
		FROM pg_namespace n, aclexplode(n.nspacl) a
		WHERE n.oid = extension.extnamespace AND a.privilege_type = 'CREATE' AND a.grantee <> extension.extowner;
	IF found IS NOT NULL THEN
		RAISE EXCEPTION 'others may create objects in schema kube_reports'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = format('It was granted, perhaps by default, to %s.', found),
				HINT = 'CREATE SCHEMA IF NOT EXISTS kube_reports, then: '
					'REVOKE CREATE ON SCHEMA kube_reports FROM each of them.';
	END IF;
	-- The script creates this schema itself, so it holds no object of another role.
	IF to_regnamespace('kube_reports_internal') IS NOT NULL THEN
		RAISE EXCEPTION 'schema kube_reports_internal exists already'
			USING ERRCODE = 'duplicate_schema',
				HINT = 'Move what is needed to another schema, then: DROP SCHEMA kube_reports_internal CASCADE.';
	END IF;
	-- Documents are UTF-8, whatever the client's encoding is; their bytes and their text must be the same.
	IF getdatabaseencoding() <> 'UTF8' THEN
		RAISE EXCEPTION 'kube_reports needs a database of encoding UTF8, not %', getdatabaseencoding()
			USING ERRCODE = 'feature_not_supported',
				HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0.';
	END IF;
	-- The server has already read the whole script, with the backslashes of its patterns.
	IF current_setting('standard_conforming_strings') = 'off' THEN
		RAISE EXCEPTION 'kube_reports is made with standard_conforming_strings on'
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'SET standard_conforming_strings = on.';
	END IF;
	-- The plain script checks later whether its guards have passed, see plain_guarded.sql.
	PERFORM set_config('kube_reports_internal.guarded', 'all', true);
END
$$;

COMMENT ON SCHEMA kube_reports IS 'Kubernetes policy reports: reading and writing them, analytics, administration';

-- Objects that users need not know are in a schema of their own, so that lists of schema kube_reports show what users
-- can use.  These objects may change with each version.
CREATE SCHEMA kube_reports_internal;
COMMENT ON SCHEMA kube_reports_internal IS
	'the inside of kube_reports: its tables, and what its functions and its proxies call';

