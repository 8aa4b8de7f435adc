-- alone.sql
--	  The beginning of install and update scripts.  From here on no other
--	  session can create an object that a name in the script might resolve
--	  to.
--
-- In a trusted extension the scripts run as the bootstrap superuser.  The caller is a role that is no superuser and may
-- have other sessions.  The guards after this part check the objects in the schemas.  They must see all objects, and no
-- object may be added until the script ends:
--
-- Catalogs are locked, so that no other session creates or renames a function, a type or a schema.  But the server
-- releases its lock on a catalog before a transaction ends.  No query sees an object of another transaction before its
-- commit, but names could resolve to the object after its commit.  So the script waits for these transactions.  Each
-- query of the script has a snapshot of its own.

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
	-- A role that is no superuser has no more than its own rights in the rest of the script.
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
			-- Autovacuum has no role.
			FROM (SELECT format('process %s of %s', a.pid, coalesce('role ' || quote_ident(a.usename), a.backend_type))
					AS name FROM pg_stat_activity a
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

