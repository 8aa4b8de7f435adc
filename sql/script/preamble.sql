-- preamble.sql
--	  Guards against a plain psql run and a database of another encoding.

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION kube_reports" to load this file. \quit

-- Documents are UTF-8, whatever the client's encoding is; their bytes and their text must be the same.
DO $$
BEGIN
	IF getdatabaseencoding() <> 'UTF8' THEN
		RAISE EXCEPTION 'kube_reports needs a database of encoding UTF8, not %', getdatabaseencoding()
			USING ERRCODE = 'feature_not_supported', HINT = 'CREATE DATABASE ... ENCODING ''UTF8'' TEMPLATE template0.';
	END IF;
END
$$;

COMMENT ON SCHEMA kube_reports IS 'Kubernetes policy reports: storage, Kubernetes API semantics and analytics';

