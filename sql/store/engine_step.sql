-- engine_step.sql
--	  Steps of upkeep that ask the engine, which runs in the proxy: see
--	  types/engine_sql.sql.

CREATE FUNCTION kube_reports_internal.api_engine_piece(cluster uuid, work text, told bigint, answered text[],
	answers text[], caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT more boolean, OUT follow_policies boolean, OUT policies_stored boolean, OUT questions text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	detail		text;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = cluster
			AND kube_reports_internal.may_serve(c.id, caller)) OR pg_is_in_recovery() THEN
		SELECT false, false, false INTO more, follow_policies, policies_stored;
		RETURN;
	END IF;
	-- A receiver stores documents of senders' clusters, and takes over the work of clusters without proxies.
	INSERT INTO kube_reports_internal.sql_answer (backend, question, trial, clusters)
		SELECT pg_backend_pid(), '', work = 'aggregate' AND cardinality(answered) = 0, ARRAY(
			SELECT c.id FROM kube_reports.cluster c
			WHERE c.uid = api_engine_piece.cluster
				OR may.everything
				OR may.ingest AND (EXISTS (SELECT FROM kube_reports_internal.sender_credential s
						WHERE s.cluster_id = c.id)
					OR NOT EXISTS (SELECT FROM kube_reports_internal.proxy_role p WHERE p.cluster_id = c.id)))
		FROM (SELECT has_table_privilege(caller.role, 'kube_reports.object', 'UPDATE') AS everything,
			EXISTS (SELECT FROM kube_reports_internal.ingest_role i WHERE i.role = caller.role) AS ingest) may;
	INSERT INTO kube_reports_internal.sql_answer (backend, question, answer)
		SELECT pg_backend_pid(), a.question, a.answer FROM unnest(answered, answers) a(question, answer);
	BEGIN
		IF work = 'aggregate' THEN
			-- Writing clients do not wait for a step that only asks questions: the step is rolled back.
			BEGIN
				SELECT p.more, p.follow_policies, p.policies_stored INTO more, follow_policies, policies_stored
					FROM kube_reports_internal.aggregate_piece(cluster,
						kube_reports_internal.api_may_merge(cluster, told, caller), caller) p;
				PERFORM kube_reports_internal.sql_interrupt();
				IF kube_reports_internal.is_trial() THEN
					RAISE EXCEPTION 'the engine is not asked' USING ERRCODE = 'KR002';
				END IF;
			EXCEPTION WHEN SQLSTATE 'KR002' THEN
				UPDATE kube_reports_internal.sql_answer a SET trial = false
					WHERE a.backend = pg_backend_pid() AND a.question = '';
				SELECT p.more, p.follow_policies, p.policies_stored INTO more, follow_policies, policies_stored
					FROM kube_reports_internal.aggregate_piece(cluster,
						kube_reports_internal.api_may_merge(cluster, told, caller), caller) p;
			END;
		ELSIF work = 'maintain' THEN
			more := kube_reports_internal.api_maintain(cluster, caller);
		ELSE
			more := kube_reports_internal.api_catch_up(cluster, caller);
		END IF;
		PERFORM kube_reports_internal.sql_interrupt();
	EXCEPTION WHEN SQLSTATE 'KR001' THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		questions := ARRAY(SELECT json_array_elements_text(detail::json));
		more := true;
	END;
	DELETE FROM kube_reports_internal.sql_answer a WHERE a.backend = pg_backend_pid();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_engine_piece(uuid, text, bigint, text[], text[],
	kube_reports_internal.caller)
	IS 'one step of work (catch_up, maintain, aggregate) that may ask the engine questions. If questions is not null, '
		'the step did nothing; each question begins with its hash of 32 characters, and the next call gives the '
		'answers by these hashes. told: see api_may_merge()';

CREATE PROCEDURE kube_reports_internal.api_engine_step(cluster uuid, work text, told bigint, answered text[],
	answers text[], INOUT more boolean, INOUT follow_policies boolean, INOUT policies_stored boolean,
	INOUT questions text[])
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT p.more, p.follow_policies, p.policies_stored, p.questions
		INTO more, follow_policies, policies_stored, questions
		FROM kube_reports_internal.api_engine_piece(cluster, work, told, answered, answers) p;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_engine_step(uuid, text, bigint, text[], text[], boolean, boolean,
	boolean, text[])
	IS 'api_engine_piece() in a transaction of its own';
