-- A client may set a savepoint before each statement, and so continue after an error (ON_ERROR_ROLLBACK of psql,
-- autosave of JDBC).  If a guard has refused, this row makes the COMMIT fail.
DO $$
BEGIN
	IF current_setting('kube_reports_internal.guarded', true) IS DISTINCT FROM 'GUARD'
		AND to_regclass('pg_temp.refused') IS NULL THEN
		CREATE TEMPORARY TABLE refused (id integer PRIMARY KEY, passed integer
			CONSTRAINT kube_reports_has_refused REFERENCES pg_temp.refused DEFERRABLE INITIALLY DEFERRED);
		INSERT INTO pg_temp.refused (id, passed) VALUES (1, 0);
	END IF;
END
$$;

