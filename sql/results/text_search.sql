-- text_search.sql
--	  Trigram indexes for searches in texts of results.

-- Locales disagree about ASCII letters: in Turkish, I is not the capital of i.  So ASCII letters are converted first.
-- ILIKE cannot be used, because pg_trgm may fold letters differently.  The planner inlines the function, also in
-- indexes, because it has no SET clause.
CREATE FUNCTION kube_reports_internal.caseless(searched text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lower(lower(searched COLLATE "C") COLLATE "default");
COMMENT ON FUNCTION kube_reports_internal.caseless(text)
	IS 'a text in the form in which searches compare it: ASCII letters in lower case in every locale, then all other '
		'letters by the locale of the database';

CREATE FUNCTION kube_reports.enable_text_search() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning
AS $$
DECLARE
	operators	text;
BEGIN
	BEGIN
		CREATE EXTENSION IF NOT EXISTS pg_trgm SCHEMA public;
	EXCEPTION WHEN insufficient_privilege OR undefined_file OR invalid_schema_name OR feature_not_supported THEN
		RAISE WARNING 'pg_trgm cannot be created: %', SQLERRM
			USING HINT = 'Text search works without it, by reading every text.';
		RETURN false;
	END;
	SELECT n.nspname INTO operators FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
		WHERE e.extname = 'pg_trgm';
	EXECUTE format('CREATE INDEX IF NOT EXISTS criterion_text ON kube_reports_internal.criterion USING gin '
		'((kube_reports_internal.caseless(policy)) %1$I.gin_trgm_ops, (kube_reports_internal.caseless(rule)) '
		'%1$I.gin_trgm_ops) TABLESPACE %2$I', operators,
		kube_reports_internal.tablespace_beside('kube_reports_internal.criterion'));
	EXECUTE format('CREATE INDEX IF NOT EXISTS subject_text ON kube_reports_internal.subject USING gin '
		'((kube_reports_internal.caseless(name)) %I.gin_trgm_ops) TABLESPACE %I', operators,
		kube_reports_internal.tablespace_beside('kube_reports_internal.subject'));
	EXECUTE format('CREATE INDEX IF NOT EXISTS detail_text ON kube_reports_internal.detail USING gin '
		'((kube_reports_internal.caseless(message)) %I.gin_trgm_ops) TABLESPACE %I', operators,
		kube_reports_internal.tablespace_beside('kube_reports_internal.detail'));
	PERFORM kube_reports.set_setting('text_search', 'on');
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports.enable_text_search()
	IS 'makes trigram indexes for text in policies, rules, messages and subjects, and the extension pg_trgm if '
		'necessary; false where pg_trgm cannot be created. after_restore() makes the indexes again';
