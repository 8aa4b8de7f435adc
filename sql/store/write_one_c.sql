-- write_one_c.sql
--	  One write for users of SQL, decided by the engine: see sql_api.sql.

CREATE FUNCTION kube_reports_internal.write_one(cluster uuid, request jsonb, document bytea) RETURNS kube_reports.report
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	written		record;
BEGIN
	PERFORM kube_reports_internal.known_cluster(cluster);
	SELECT * INTO written FROM kube_reports_internal.write_batch(cluster, ARRAY[request], ARRAY[document]);
	IF written.codes[1] >= 400 THEN
		PERFORM kube_reports_internal.raise_status(written.codes[1], written.replies[1]);
	END IF;
	RETURN convert_from(written.replies[1], 'UTF8')::kube_reports.report;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_one(uuid, jsonb, bytea) IS 'one write; errors are raised';
