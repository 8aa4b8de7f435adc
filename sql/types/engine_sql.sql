-- engine_sql.sql
--	  Questions to the engine, which runs in the proxy where the server loads
--	  no foreign module.
--
-- A step of upkeep runs in SQL, as in the C variant.  When it needs the engine, it calls sql_ask(), which stores the
-- question and has no answer yet.  At its end the step is rolled back, and its questions go to the proxy, which calls
-- the step again with the answers.  So the step holds no lock while the proxy computes.  A question contains its
-- documents: if they have changed since, the step asks another question.  The step stores nothing until every question
-- has its answer.
--
-- A question shows documents to the proxy, and the answers of the proxy become results.  So a step works only for
-- clusters for which its caller may write.  A row lists these clusters, in a table that only functions of the owner
-- write.  A setting is not safe: every session can change its settings.

CREATE FUNCTION kube_reports_internal.variant() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'sql';
COMMENT ON FUNCTION kube_reports_internal.variant()
	IS 'which variant of the extension this is: c, where the server runs the engine, or sql, where the proxy does';

CREATE FUNCTION kube_reports_internal.has_engine() RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.question = '');
END;
COMMENT ON FUNCTION kube_reports_internal.has_engine()
	IS 'whether this transaction may use the engine: in the SQL variant, whether it is a step of upkeep by a proxy';

-- A lane that has been deleted belongs to no cluster.
CREATE FUNCTION kube_reports_internal.engine_serves(lane_id integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.question = '' AND NOT EXISTS (
			SELECT FROM kube_reports_internal.lane l WHERE l.id = lane_id AND l.cluster_id <> ALL (a.clusters)));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.engine_serves(integer)
	IS 'whether this transaction may ask the engine about documents of a lane: in the SQL variant, whether it is a '
		'step of upkeep by a proxy that writes for the lane''s cluster';

CREATE FUNCTION kube_reports_internal.is_trial() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.question = '' AND a.trial);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.is_trial()
	IS 'whether this step only collects questions to the engine, locks no lane, and is rolled back';

CREATE FUNCTION kube_reports_internal.awaits_engine() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.asked IS NOT NULL);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.awaits_engine()
	IS 'whether this step has a question without an answer, so that it will be rolled back';

-- An answer that begins with an exclamation mark is an error: its SQLSTATE and its message.  A step whose questions are
-- large is rolled back before it asks more.
CREATE FUNCTION kube_reports_internal.sql_ask(question text, needed boolean) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	max_asked CONSTANT bigint := 4000000;
	hash		text := md5(question);
	known		kube_reports_internal.sql_answer;
BEGIN
	IF NOT kube_reports_internal.has_engine() THEN
		RAISE EXCEPTION 'the engine that reads documents runs in the proxy, not in this database'
			USING ERRCODE = 'feature_not_supported',
				DETAIL = 'The extension is installed in its SQL variant.',
				HINT = 'Send the request to a proxy. Results that are not made yet are made by a proxy''s upkeep: see '
					'the view kube_reports.pending.';
	END IF;
	SELECT * INTO known FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.question = hash;
	IF known.answer IS NOT NULL AND NOT starts_with(known.answer, '!') THEN
		RETURN known.answer;
	ELSIF known.answer IS NOT NULL THEN
		RAISE EXCEPTION '%', substr(known.answer, 7) USING ERRCODE = substr(known.answer, 2, 5);
	ELSIF known.question IS NULL AND (SELECT coalesce(sum(octet_length(a.asked)), 0) < max_asked
			FROM kube_reports_internal.sql_answer a WHERE a.backend = pg_backend_pid()) THEN
		INSERT INTO kube_reports_internal.sql_answer (backend, question, asked)
			VALUES (pg_backend_pid(), hash, question);
	END IF;
	IF needed THEN
		PERFORM kube_reports_internal.sql_interrupt();
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_ask(text, boolean)
	IS 'the engine''s answer to a question; null: there is no answer yet, and the step will be repeated. needed: the '
		'step cannot continue without the answer. If the answer is an error, raises this error';

-- The rollback of the step also removes the stored questions, so the error contains them.
CREATE FUNCTION kube_reports_internal.sql_interrupt() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	questions	json := (SELECT json_agg(a.question || a.asked) FROM kube_reports_internal.sql_answer a
		WHERE a.backend = pg_backend_pid() AND a.asked IS NOT NULL);
BEGIN
	IF questions IS NOT NULL THEN
		RAISE EXCEPTION 'the engine is asked' USING ERRCODE = 'KR001', DETAIL = questions::text;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_interrupt()
	IS 'ends a step that has questions, with an error that only api_engine_piece() sees';

---- questions ----

CREATE FUNCTION kube_reports_internal.sql_ask_results(mapping_id bigint, mapping text, cluster_id integer,
	old_metadata text, old_body text, metadata text, body text) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF mapping_id IS NULL OR mapping IS NULL OR old_body IS NULL AND body IS NULL THEN
		RETURN '[]';
	ELSIF old_body IS NULL AND NOT kube_reports_internal.has_engine() THEN
		-- results() and verify() do not wait for a proxy.
		RETURN kube_reports_internal.sql_document_results(mapping::jsonb, cluster_id,
			kube_reports_internal.sql_whole(metadata, body));
	END IF;
	RETURN coalesce(kube_reports_internal.sql_ask(json_build_object('ask', 'results', 'mapping', mapping,
		'cluster', cluster_id, 'oldMetadata', old_metadata, 'oldBody', old_body, 'metadata', metadata,
		'body', body)::text, false), '[]');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_ask_results(bigint, text, integer, text, text, text, text)
	IS 'the rows of result_difference() as JSON, by the engine; no rows while there is no answer. Outside steps of '
		'upkeep, SQL computes the rows of a new document';

CREATE FUNCTION kube_reports_internal.sql_ask_time(mapping_id bigint, mapping text, metadata text, body text)
	RETURNS timestamptz
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF mapping_id IS NULL OR mapping IS NULL OR body IS NULL OR NOT kube_reports_internal.has_engine() THEN
		RETURN NULL;
	END IF;
	RETURN nullif(kube_reports_internal.sql_ask(json_build_object('ask', 'time', 'mapping', mapping,
		'metadata', metadata, 'body', body)::text, false), '')::timestamptz;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_ask_time(bigint, text, text, text)
	IS 'evaluated_at() by the engine; null while there is no answer, and if no proxy can be asked: then upkeep sets '
		'the time later';

-- A write without an answer has code -1, and stores nothing.  In JSON, the status is text.
CREATE FUNCTION kube_reports_internal.sql_ask_write(question json,
		OUT action "char", OUT code integer, OUT namespace text, OUT name text, OUT uid uuid,
		OUT metadata text, OUT body text, OUT versioned boolean, OUT status bytea, OUT transform text,
		OUT retry_after integer, OUT warnings text[], OUT actor text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer		text := kube_reports_internal.sql_ask(question::text, false);
BEGIN
	IF answer IS NULL THEN
		SELECT 'n', -1, false, '', '', 0 INTO action, code, versioned, status, transform, retry_after;
		RETURN;
	END IF;
	SELECT a.action, a.code, a.namespace, a.name, a.uid, a.metadata, a.body, a.versioned,
			convert_to(a.status, 'UTF8'), a.transform, a.retry_after, a.warnings, a.actor
		INTO action, code, namespace, name, uid, metadata, body, versioned, status, transform, retry_after, warnings,
			actor
		FROM json_to_record(answer::json) a(action "char", code integer, namespace text, name text, uid uuid,
			metadata text, body text, versioned boolean, status text, transform text, retry_after integer,
			warnings text[], actor text);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_ask_write(json)
	IS 'the engine''s decision on a write, in the form of write_admit() and write_decide(); code -1 while there is no '
		'answer';
