-- plain_begin.sql
--	  The beginning of the plain script, which makes the objects of the SQL
--	  variant without an extension, for servers that have no file of ours.
--
-- Run this script as the role that will own the objects.  The role needs CREATE on the database and no other right. The
-- script is one transaction of SQL alone, so that any client can run it:
--
--     psql -v ON_ERROR_STOP=1 -f kube_reports--install.sql
--
-- The script runs with the rights of the owner, who could do the same by hand; so it need not guard against the owner.
-- It refuses a superuser, because functions with SECURITY DEFINER would run as that superuser.

BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL check_function_bodies = off;
SET LOCAL client_min_messages = warning;
SET LOCAL kube_reports_internal.guarded = '';

DO $$
BEGIN
	IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
		RAISE EXCEPTION 'a superuser is not to own kube_reports'
			USING ERRCODE = 'insufficient_privilege',
				DETAIL = 'Its functions run with the rights of their owner.',
				HINT = 'SET ROLE to the role that owns the database.';
	END IF;
	IF EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports') THEN
		RAISE EXCEPTION 'extension kube_reports is in this database'
			USING ERRCODE = 'duplicate_object', HINT = 'Use the extension, or another database.';
	END IF;
	IF to_regprocedure('kube_reports_internal.script_version()') IS NOT NULL THEN
		RAISE EXCEPTION 'kube_reports is in this database already'
			USING ERRCODE = 'duplicate_object',
				HINT = 'SELECT version FROM kube_reports.status; then run the script of the update, if there is one.';
	END IF;
	-- CREATE SCHEMA waits for another session that makes the schema, and then raises unique_violation.
	BEGIN
		CREATE SCHEMA IF NOT EXISTS kube_reports;
	EXCEPTION WHEN unique_violation THEN
		RAISE EXCEPTION 'another session has just made schema kube_reports'
			USING ERRCODE = 'duplicate_object', HINT = 'SELECT version FROM kube_reports.status.';
	END;
	PERFORM set_config('kube_reports_internal.guarded', 'begin', true);
END
$$;

