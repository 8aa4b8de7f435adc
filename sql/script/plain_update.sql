-- plain_update.sql
--	  The beginning of an update of what the plain script made.
--
-- The owner runs this script like the plain script; see plain_begin.sql.

BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL check_function_bodies = off;
SET LOCAL client_min_messages = warning;
SET LOCAL kube_reports_internal.guarded = '';

DO $$
DECLARE
	owner		text;
	present		text;
BEGIN
	IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports') THEN
		RAISE EXCEPTION 'kube_reports is an extension in this database'
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'ALTER EXTENSION kube_reports UPDATE';
	END IF;
	IF to_regprocedure('kube_reports_internal.script_version()') IS NULL THEN
		RAISE EXCEPTION 'kube_reports is not in this database'
			USING ERRCODE = 'undefined_object', HINT = 'Run kube_reports--install.sql.';
	END IF;
	-- Functions of another role, called here, would run with the rights of this role.
	SELECT n.nspowner::regrole INTO owner FROM pg_namespace n
		WHERE n.nspname IN ('kube_reports', 'kube_reports_internal') AND pg_get_userbyid(n.nspowner) <> current_user;
	IF owner IS NOT NULL THEN
		RAISE EXCEPTION 'role % owns kube_reports', owner
			USING ERRCODE = 'insufficient_privilege', HINT = format('SET ROLE %s', owner);
	END IF;
	present := kube_reports_internal.script_version();
	IF present <> 'OLD_VERSION' THEN
		RAISE EXCEPTION 'version % of kube_reports is in this database, and not OLD_VERSION', present
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = format('Run the script that leads from version %s.', present);
	END IF;
	IF (SELECT s.restore_pending FROM kube_reports.status s) THEN
		RAISE EXCEPTION 'the restore of a dump is not finished'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Let a proxy connect, or: SELECT kube_reports.after_restore().';
	END IF;
	PERFORM set_config('kube_reports_internal.guarded', 'begin', true);
END
$$;

