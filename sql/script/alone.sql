-- alone.sql
--	  The beginning of install and update scripts: from here on nobody else
--	  makes anything that a name in the script could be resolved to.
--
-- In a trusted extension the scripts run as the bootstrap superuser, called by a
-- role that is none and that has other sessions.  The guards behind this part
-- look at what stands in the schemas.  They must see all of it, and it must stay
-- so until the script ends:
--
-- Catalogs are locked, so that nobody makes or renames a function, a type or a
-- schema.  But the server lets go of a catalog before a transaction ends: what
-- others have made and not committed is seen by no query, and could be resolved
-- to as soon as it is.  So their transactions are waited for.  Each query of the
-- script has a snapshot of its own.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION kube_reports" or "ALTER EXTENSION kube_reports UPDATE" to load this file. \quit

SET LOCAL search_path = pg_catalog, pg_temp;

DO $$
DECLARE
	patience CONSTANT interval := interval '10 seconds';
	begun CONSTANT timestamptz := clock_timestamp();
	others		xid[];
	unfinished	text;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'the extension is made and updated in READ COMMITTED transactions only'
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Use BEGIN ISOLATION LEVEL READ COMMITTED.';
	END IF;
	-- Whoever is no superuser goes on with no more than his own rights.
	IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
		RETURN;
	END IF;
	LOCK TABLE pg_namespace, pg_type, pg_proc IN SHARE ROW EXCLUSIVE MODE;
	PERFORM pg_stat_clear_snapshot();
	SELECT array_agg(a.backend_xid) INTO others FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_xid IS NOT NULL;
	SELECT others || array_agg(p.transaction) INTO others FROM pg_prepared_xacts p
		WHERE p.database = current_database();
	LOOP
		PERFORM pg_stat_clear_snapshot();
		SELECT string_agg(u.name, ', ') INTO unfinished
			FROM (SELECT format('process %s of role %I', a.pid, a.usename) AS name FROM pg_stat_activity a
					WHERE a.backend_xid = ANY (others)
				UNION ALL
				SELECT format('prepared transaction %L', p.gid) FROM pg_prepared_xacts p
					WHERE p.transaction = ANY (others)) u;
		EXIT WHEN unfinished IS NULL;
		IF clock_timestamp() > begun + patience THEN
			RAISE EXCEPTION 'transactions that have written in this database do not end'
				USING ERRCODE = 'lock_not_available', DETAIL = format('Waited %s for %s.', patience, unfinished),
					HINT = 'End them, or try again later.';
		END IF;
		PERFORM pg_sleep(0.02);
	END LOOP;
END
$$;

