-- plain_uninstall.sql
--	  Removes what the plain script made, and every report with it.
--
-- The owner runs this script.  Like DROP EXTENSION, it leaves roles, and it refuses while objects of others depend on
-- the schemas.

BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL client_min_messages = warning;
-- While this session waits for a lock, all sessions that use the same table wait behind it.
SET LOCAL lock_timeout = '10s';

DO $$
DECLARE
	owner		text;
	found		text;
BEGIN
	IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports') THEN
		RAISE EXCEPTION 'kube_reports is an extension in this database'
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'DROP EXTENSION kube_reports';
	END IF;
	IF to_regprocedure('kube_reports_internal.script_version()') IS NULL THEN
		RAISE EXCEPTION 'kube_reports is not in this database' USING ERRCODE = 'undefined_object';
	END IF;
	-- Functions of another role, called here, would run with the rights of this role.
	SELECT n.nspowner::regrole INTO owner FROM pg_namespace n
		WHERE n.nspname IN ('kube_reports', 'kube_reports_internal') AND pg_get_userbyid(n.nspowner) <> current_user;
	IF owner IS NOT NULL THEN
		RAISE EXCEPTION 'role % owns kube_reports', owner
			USING ERRCODE = 'insufficient_privilege', HINT = format('SET ROLE %s', owner);
	END IF;
	-- A rule, a trigger, a default or a constraint is named with its relation.
	WITH ours AS (
		SELECT d.classid, d.objid FROM pg_depend d JOIN pg_namespace n ON n.oid = d.refobjid
			WHERE d.refclassid = 'pg_namespace'::regclass AND n.nspname IN ('kube_reports', 'kube_reports_internal')
		UNION
		SELECT 'pg_type'::regclass, t.oid FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
			WHERE n.nspname IN ('kube_reports', 'kube_reports_internal')
		UNION
		SELECT 'pg_class'::regclass, c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname IN ('kube_reports', 'kube_reports_internal')),
	dependent AS (
		SELECT d.classid, d.objid, d.objsubid,
			coalesce(w.ev_class, t.tgrelid, f.adrelid, nullif(c.conrelid, 0)) AS relation
		FROM ours o JOIN pg_depend d ON (d.refclassid, d.refobjid) = (o.classid, o.objid) AND d.deptype IN ('n', 'a')
			LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
			LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
			LEFT JOIN pg_attrdef f ON d.classid = 'pg_attrdef'::regclass AND f.oid = d.objid
			LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid)
	SELECT string_agg(u.name, ', ') INTO found FROM (
		SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) AS name FROM dependent d
		WHERE d.classid NOT IN ('pg_cast'::regclass, 'pg_default_acl'::regclass, 'pg_policy'::regclass)
			AND CASE WHEN d.relation IS NOT NULL
				THEN (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
					WHERE c.oid = d.relation)
				ELSE (pg_identify_object(d.classid, d.objid, d.objsubid)).schema END
				NOT IN ('kube_reports', 'kube_reports_internal', 'pg_toast')
		ORDER BY 1 LIMIT 10) u;
	IF found IS NOT NULL THEN
		RAISE EXCEPTION 'other objects depend on kube_reports'
			USING ERRCODE = 'dependent_objects_still_exist', DETAIL = format('They are %s.', found),
				HINT = 'Drop them first.';
	END IF;
	-- The removal is in the same statement as the guards: a client may set a savepoint before each statement, and so
	-- continue after a refusal.
	BEGIN
		-- Readers lose the settings that came with their grants.  All arguments are given with their types: a role that
		-- could once create functions here may have left one that fewer arguments fit better.
		PERFORM kube_reports.revoke_reader(g.role, NULL::uuid, NULL::text)
			FROM (SELECT DISTINCT r.role FROM kube_reports_internal.reader_grant r) g;
		DROP SCHEMA kube_reports, kube_reports_internal CASCADE;
	EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
		SELECT string_agg(format('process %s of role %I', u.pid, u.usename), ', ') INTO found FROM (
			SELECT DISTINCT a.pid, a.usename FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
				JOIN pg_stat_activity a ON a.pid = l.pid
			WHERE l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
				AND l.granted AND l.pid <> pg_backend_pid()
				AND c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			ORDER BY a.pid LIMIT 10) u;
		RAISE EXCEPTION 'kube_reports is in use'
			USING ERRCODE = 'object_in_use',
				DETAIL = format('Its tables are used by %s.', coalesce(found, 'nobody now')),
				HINT = 'Stop the proxies and end these sessions, then try again.';
	END;
END
$$;

COMMIT;
