-- receive.sql
--	  A cluster that another database has sent.
--
-- The cluster, its lanes, origins and rollups get ids of this store, and its types have other ids here.  The id of a
-- subject changes, too, because it is a hash that includes the id of the cluster.  All other values are stored as they
-- arrive.  Versions are kept, and so is the log: a client of the cluster continues from its last version.
--
-- Texts that clusters share are stored first, in small transactions, because another writer of the same text waits
-- until such a transaction ends.  All other rows are stored in one transaction, and writers of this store wait only for
-- its last step.

CREATE FUNCTION kube_reports_internal.shared_relations() RETURNS regclass[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN ARRAY['kube_reports_internal.actor', 'kube_reports_internal.detail',
	'kube_reports_internal.criterion']::regclass[];
COMMENT ON FUNCTION kube_reports_internal.shared_relations()
	IS 'the moved tables whose rows belong to no cluster but are shared: texts';

CREATE FUNCTION kube_reports_internal.moved_relations() RETURNS TABLE ("position" bigint, relation regclass)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT m."position", m.relation FROM unnest(kube_reports_internal.shared_relations() || ARRAY[
		'kube_reports.cluster', 'kube_reports_internal.namespace', 'kube_reports_internal.lane',
		'kube_reports.object', 'kube_reports_internal.change',
		'kube_reports_internal.subject', 'kube_reports_internal.origin', 'kube_reports_internal.result',
		'kube_reports_internal.result_since', 'kube_reports_internal.report_change', 'kube_reports_internal.rollup',
		'kube_reports_internal.rollup_policy', 'kube_reports_internal.rollup_daily',
		'kube_reports_internal.score_daily', 'kube_reports_internal.aggregation', 'kube_reports_internal.webhook',
		'kube_reports_internal.webhook_progress', 'kube_reports_internal.sender_credential',
		'kube_reports_internal.forward_assessment', 'kube_reports_internal.forward_seen',
		'kube_reports_internal.forward_stream', 'kube_reports_internal.evidence_file']::regclass[])
		WITH ORDINALITY m(relation, "position");
END;
COMMENT ON FUNCTION kube_reports_internal.moved_relations()
	IS 'the tables whose rows move with a cluster, in the order in which they are filled';

CREATE FUNCTION kube_reports_internal.arriving_value(relation regclass, name name) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
RETURN CASE
	WHEN name = 'cluster_id' OR relation = 'kube_reports.cluster'::regclass AND name = 'id'
		THEN '($1->>''cluster_id'')::integer'
	WHEN name = 'resource_type' THEN '($1#>>ARRAY[''types'', (r).resource_type::text])::integer'
	WHEN name = 'lane' THEN '($1#>>ARRAY[''lanes'', (r).lane::text])::integer'
	WHEN relation = 'kube_reports_internal.lane'::regclass AND name = 'id'
		THEN '($1#>>ARRAY[''lanes'', (r).id::text])::integer'
	WHEN relation = 'kube_reports_internal.lane'::regclass AND name = 'store' THEN '($1->>''store'')::uuid'
	WHEN relation = 'kube_reports_internal.lane'::regclass AND name = 'held' THEN 'false'
	WHEN name = 'origin' THEN '(r).origin + ($1->>''origins'')::bigint'
	WHEN relation = 'kube_reports_internal.origin'::regclass AND name = 'id'
		THEN '(r).id + ($1->>''origins'')::bigint'
	WHEN name = 'rollup' THEN '(r).rollup + ($1->>''rollups'')::bigint'
	WHEN relation = 'kube_reports_internal.rollup'::regclass AND name = 'id'
		THEN '(r).id + ($1->>''rollups'')::bigint'
	WHEN relation = 'kube_reports_internal.subject'::regclass AND name = 'id'
		THEN '(SELECT m.new_id FROM kube_reports_internal.arriving_subject m WHERE m.id = (r).id)'
	WHEN name = 'subject'
		THEN '(SELECT m.new_id FROM kube_reports_internal.arriving_subject m WHERE m.id = (r).subject)'
	-- Behind the keys, and behind the criteria where the row has several, are the subjects.
	WHEN relation = 'kube_reports_internal.report_change'::regclass AND name = 'ids'
		THEN 'CASE WHEN (r).subject IS NULL THEN (SELECT (r).ids[:n.others] || ARRAY(SELECT m.new_id '
			'FROM unnest((r).ids[n.others + 1:]) WITH ORDINALITY s(id, place) '
			'JOIN kube_reports_internal.arriving_subject m ON m.id = s.id ORDER BY s.place) '
			'FROM (SELECT cardinality((r).ids) / CASE WHEN (r).criterion IS NULL THEN 3 ELSE 2 END '
			'* CASE WHEN (r).criterion IS NULL THEN 2 ELSE 1 END AS others) n) ELSE (r).ids END'
	ELSE format('(r).%I', name) END;
COMMENT ON FUNCTION kube_reports_internal.arriving_value(regclass, name)
	IS 'the expression for a column of an arriving row r; $1 is the answer of begin_arrival()';

CREATE FUNCTION kube_reports_internal.store_arriving(relation regclass, plan jsonb, after bigint, upto bigint)
	RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, MDY'
SET intervalstyle = 'postgres'
SET jit = off
AS $$
DECLARE
	shared		boolean := relation = ANY (kube_reports_internal.shared_relations());
	names		text;
	columns		text;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.moved_relations() m
			WHERE m.relation = store_arriving.relation) THEN
		RAISE EXCEPTION 'rows of "%" do not move with a cluster', relation USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
			string_agg(kube_reports_internal.arriving_value(relation, a.attname), ', ' ORDER BY a.attnum)
		INTO names, columns
		FROM pg_attribute a
		WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';
	-- Texts are stored in the order of their ids: writers of the same rows never wait in a circle.
	EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %3$s FROM (SELECT a.content::%1$s AS r '
			'FROM kube_reports.arriving_row a '
			'WHERE a.relation = $2 AND a."position" > $3 AND a."position" <= $4 OFFSET 0) a %4$s',
			relation, names, columns, CASE WHEN shared THEN 'ORDER BY (r).id ON CONFLICT (id) DO NOTHING' ELSE '' END)
		USING plan, relation::text, after, upto;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.store_arriving(regclass, jsonb, bigint, bigint)
	IS 'stores the arriving rows of a table after one position up to another; texts that are already stored stay. '
		'Raises 22023 for a table whose rows do not move';

-- Reads all rows that have arrived, so it is called before a lock is taken.
CREATE FUNCTION kube_reports_internal.arrived_header() RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found		record;
	header		jsonb;
BEGIN
	SELECT count(*) FILTER (WHERE a.relation = 'begin') AS begins, count(*) FILTER (WHERE a.relation = 'end') AS ends,
			min(a.content) FILTER (WHERE a.relation = 'begin') AS header,
			min(a.relation) FILTER (WHERE a.relation NOT IN ('begin', 'end')
				AND NOT EXISTS (SELECT FROM kube_reports_internal.moved_relations() m
					WHERE m.relation::text = a.relation)) AS unknown
		INTO found FROM (SELECT a.relation, min(a.content) FILTER (WHERE a.relation = 'begin') AS content
			FROM kube_reports.arriving_row a GROUP BY a.relation, CASE WHEN a.relation IN ('begin', 'end')
				THEN a."position" END) a;
	IF (found.begins, found.ends) <> (1, 1) OR found.unknown IS NOT NULL THEN
		RAISE EXCEPTION 'kube_reports.arriving_row does not hold one complete cluster'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = CASE WHEN found.unknown IS NULL
					THEN format('It has %s rows "begin" and %s rows "end".', found.begins, found.ends)
					ELSE format('It has rows of "%s".', found.unknown) END,
				HINT = 'TRUNCATE kube_reports.arriving_row, then send the cluster once more.';
	END IF;
	header := found.header::jsonb;
	IF header->>'version' <> kube_reports_internal.script_version() THEN
		RAISE EXCEPTION 'the cluster comes from version % of the extension, and this is version %',
			header->>'version', kube_reports_internal.script_version()
			USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Update both to the same version.';
	END IF;
	RETURN header;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.arrived_header()
	IS 'the content of the arriving row "begin". Raises 55000 unless the rows are one complete cluster of the same '
		'version of the extension';

CREATE FUNCTION kube_reports_internal.begin_arrival() RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	header		jsonb := kube_reports_internal.arrived_header();
	missing		text;
	newest		bigint;
	span		record;
	offsets		jsonb := '{}';
	last		bigint;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	IF kube_reports_internal.is_restoring() THEN
		PERFORM kube_reports_internal.refuse_restoring();
	END IF;
	PERFORM kube_reports_internal.require_incarnation();
	IF EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = (header->>'cluster')::uuid) THEN
		RAISE EXCEPTION 'cluster % is known here already', header->>'cluster'
			USING ERRCODE = 'duplicate_object',
				HINT = format('If nothing here is needed: CALL kube_reports.unregister_cluster(%L)',
					header->>'cluster');
	END IF;
	SELECT string_agg(s.value->>'type', ', ' ORDER BY s.value->>'type') INTO missing FROM jsonb_each(header->'types') s
		WHERE NOT EXISTS (SELECT FROM kube_reports.resource_type t
			WHERE t.plural || '.' || t."group" = s.value->>'type');
	IF missing IS NOT NULL THEN
		RAISE EXCEPTION 'these types are not registered here: %', missing
			USING ERRCODE = 'undefined_object',
				HINT = 'Register them with kube_reports.register_crd(), as in the database that sent the cluster.';
	END IF;

	-- No writer draws a version before this transaction ends.
	newest := (header->>'newest')::bigint;
	IF newest > kube_reports_internal.version_limit() THEN
		RAISE EXCEPTION 'version % is too large', newest
			USING ERRCODE = 'numeric_value_out_of_range', DETAIL = format('The highest version is %s.',
				kube_reports_internal.version_limit()),
				HINT = 'Call kube_reports.new_incarnation(log_lost => true) where the cluster comes from.';
	END IF;
	PERFORM setval('kube_reports_internal.version_seq', newest) FROM kube_reports_internal.version_seq s
		WHERE s.last_value < newest;
	FOR span IN SELECT s.name, s.sequence, (header#>>ARRAY[s.name, 'first'])::bigint AS first,
			(header#>>ARRAY[s.name, 'last'])::bigint AS last
		FROM (VALUES ('origins', 'kube_reports_internal.origin_id_seq'::regclass),
			('rollups', 'kube_reports_internal.rollup_id_seq')) s(name, sequence)
	LOOP
		last := nextval(span.sequence);
		PERFORM setval(span.sequence, last + span.last - span.first);
		offsets := offsets || jsonb_build_object(span.name, last - span.first);
	END LOOP;
	RETURN offsets || jsonb_build_object('cluster', header->>'cluster',
		'cluster_id', nextval('kube_reports_internal.cluster_id_seq'),
		'store', (SELECT s.identity FROM kube_reports_internal.store s),
		'generation', (SELECT s.generation FROM kube_reports_internal.store s),
		'types', (SELECT jsonb_object_agg(s.key, t.id) FROM jsonb_each(header->'types') s
			JOIN kube_reports.resource_type t ON t.plural || '.' || t."group" = s.value->>'type'),
		'remapped', (SELECT coalesce(jsonb_agg(t.id), '[]') FROM jsonb_each(header->'types') s
			JOIN kube_reports.resource_type t ON t.plural || '.' || t."group" = s.value->>'type'
			WHERE t.results = 'current' AND t.mapping::jsonb IS DISTINCT FROM s.value->'mapping'),
		'lanes', (SELECT jsonb_object_agg((a.r).id, nextval('kube_reports_internal.lane_id_seq'))
			FROM (SELECT a.content::kube_reports_internal.lane AS r FROM kube_reports.arriving_row a
				WHERE a.relation = 'kube_reports_internal.lane' ORDER BY a."position") a));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_arrival()
	IS 'checks that a complete cluster has arrived that may be stored here. Returns the ids of the cluster, types and '
		'lanes in this store, and the numbers to add to the ids of origins and rollups. Raises 55000, 42710 for a '
		'cluster that is known here, 42704 for types that are not registered, 22003 for a version that is too large';

CREATE FUNCTION kube_reports_internal.receive_texts(plan jsonb, relation regclass, after bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	upto		bigint := (SELECT max(a."position") FROM (SELECT a."position" FROM kube_reports.arriving_row a
		WHERE a.relation = receive_texts.relation::text AND a."position" > after ORDER BY a."position" LIMIT 2000) a);
BEGIN
	IF upto IS NULL THEN
		RETURN NULL;
	END IF;
	PERFORM kube_reports_internal.store_arriving(relation, plan, after, upto);
	-- Arriving history may refer to rows for longer than the garbage collection of this store expects.
	IF relation = 'kube_reports_internal.actor'::regclass THEN
		UPDATE kube_reports_internal.actor k SET last_used = (a.r).last_used
			FROM (SELECT a.content::kube_reports_internal.actor AS r FROM kube_reports.arriving_row a
				WHERE a.relation = receive_texts.relation::text AND a."position" > after AND a."position" <= upto
				OFFSET 0) a
			WHERE k.id = (a.r).id AND k.last_used < (a.r).last_used;
	ELSIF relation = 'kube_reports_internal.criterion'::regclass THEN
		UPDATE kube_reports_internal.criterion k SET last_counted = NULL
			FROM (SELECT a.content::kube_reports_internal.criterion AS r FROM kube_reports.arriving_row a
				WHERE a.relation = receive_texts.relation::text AND a."position" > after AND a."position" <= upto
				OFFSET 0) a
			WHERE k.id = (a.r).id AND k.last_counted IS NOT NULL;
	END IF;
	RETURN upto;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.receive_texts(jsonb, regclass, bigint)
	IS 'stores the next arriving texts of a table, at most 2000; returns the position of the last one, or null if '
		'there was none';

CREATE FUNCTION kube_reports_internal.receive_rows(plan jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, MDY'
SET jit = off
AS $$
DECLARE
	stored		record;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	PERFORM kube_reports_internal.commit_durably();
	-- From here on, garbage collection removes no text that was stored before.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.garbage_lock());
	TRUNCATE kube_reports_internal.arriving_subject;
	INSERT INTO kube_reports_internal.arriving_subject (id, new_id)
		SELECT (a.r).id, kube_reports_internal.field_hash('subject', plan->>'cluster_id', (a.r).api_version, (a.r).kind,
				(a.r).namespace, (a.r).name, (a.r).uid)
			FROM (SELECT a.content::kube_reports_internal.subject AS r FROM kube_reports.arriving_row a
				WHERE a.relation = 'kube_reports_internal.subject' OFFSET 0) a;
	PERFORM kube_reports_internal.begin_own_write();
	FOR stored IN SELECT m.relation FROM kube_reports_internal.moved_relations() m ORDER BY m."position" LOOP
		PERFORM kube_reports_internal.store_arriving(stored.relation, plan, 0, 9223372036854775807);
	END LOOP;
	PERFORM set_config('kube_reports_internal.api_write', '', true);

	PERFORM kube_reports_internal.lock_store();
	IF (plan->>'generation')::bigint <> (SELECT s.generation FROM kube_reports_internal.store s) THEN
		RAISE EXCEPTION 'types were registered or changed meanwhile'
			USING ERRCODE = 'serialization_failure', HINT = 'CALL kube_reports.receive_cluster() again.';
	END IF;
	PERFORM kube_reports_internal.make_lanes();
	INSERT INTO kube_reports_internal.result_rebuild (lane)
		SELECT l.id FROM jsonb_array_elements(plan->'remapped') t(id)
			JOIN kube_reports_internal.lane l ON l.resource_type = t.id::integer
				AND l.cluster_id = (plan->>'cluster_id')::integer;
	PERFORM kube_reports_internal.queue_everything(a.cluster_id) FROM kube_reports_internal.aggregation a
		WHERE a.cluster_id = (plan->>'cluster_id')::integer;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.receive_rows(jsonb)
	IS 'stores a cluster that has arrived, in one transaction. Raises 40001 if types have changed since '
		'begin_arrival()';

CREATE FUNCTION kube_reports_internal.arriving_months() RETURNS timestamptz[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET datestyle = 'ISO, MDY'
RETURN ARRAY(SELECT DISTINCT date_trunc('month', (a.r).at, 'UTC')
	FROM (SELECT a.content::kube_reports_internal.report_change AS r FROM kube_reports.arriving_row a
		WHERE a.relation = 'kube_reports_internal.report_change' OFFSET 0) a);
COMMENT ON FUNCTION kube_reports_internal.arriving_months() IS 'the months of the arriving history';

-- The procedure commits: it can neither be SECURITY DEFINER nor have a SET clause.  So functions do the work.
CREATE PROCEDURE kube_reports.receive_cluster()
LANGUAGE plpgsql
AS $$
DECLARE
	plan		jsonb;
	texts		regclass;
	place		bigint;
	month		timestamptz;
BEGIN
	CALL kube_reports_internal.require_own_transactions('receive_cluster');
	plan := kube_reports_internal.begin_arrival();
	COMMIT;
	FOREACH month IN ARRAY kube_reports_internal.arriving_months() LOOP
		PERFORM kube_reports.make_history(month);
		COMMIT;
	END LOOP;
	FOREACH texts IN ARRAY kube_reports_internal.shared_relations() LOOP
		place := 0;
		WHILE place IS NOT NULL LOOP
			place := kube_reports_internal.receive_texts(plan, texts, place);
			COMMIT;
		END LOOP;
	END LOOP;
	PERFORM kube_reports_internal.receive_rows(plan);
	COMMIT;
	TRUNCATE kube_reports.arriving_row, kube_reports_internal.arriving_subject;
	COMMIT;
	RAISE NOTICE 'cluster % has been received', plan OPERATOR(pg_catalog.->>) 'cluster'
		USING HINT = 'Next, kube_reports.grant_proxy binds the role of its proxies to it.';
END
$$;
COMMENT ON PROCEDURE kube_reports.receive_cluster()
	IS 'stores the cluster whose rows COPY has loaded into arriving_row, with its versions and its log, so that '
		'clients go on; then empties that table. All of the cluster is stored or nothing; other clusters are read and '
		'written meanwhile. Raises 55000 unless there is one complete cluster of the same version of the extension, '
		'42710 for a cluster that is known here, 42704 for a type that is not registered, 25001 in a transaction block';
