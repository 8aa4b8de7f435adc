-- write.sql
--	  Writes through the API: one batch, one lane, one transaction.

-- Before after_restore() raises the versions, the next versions may already have been given by the store that was
-- dumped.
CREATE FUNCTION kube_reports_internal.refuse_restoring() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION 'a dump was loaded, and its restore has not been finished'
		USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Versions that were given after the dump would be given again.',
			HINT = 'The next proxy that connects finishes it, or: SELECT kube_reports.after_restore().';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.refuse_restoring()
	IS 'raises the error for reads and writes of reports between the loading of a dump and after_restore()';

-- Resolves a request.  Returns one row, or none when the type or the version is not served, or the caller may not act
-- for the cluster.
CREATE FUNCTION kube_reports_internal.resolve(cluster uuid, "group" text, version text, resource text,
	caller kube_reports_internal.caller,
		OUT cluster_id integer, OUT type_id integer, OUT namespaced boolean, OUT lane integer,
		OUT floor bigint, OUT lost int8multirange, OUT definition_id bigint, OUT definition kube_reports.report,
		OUT mapping_id bigint, OUT mapping kube_reports.report, OUT fill_summary boolean, OUT aggregated boolean,
		OUT generation bigint)
	RETURNS SETOF record
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT l.cluster_id, t.id, t.namespaced, l.id, l.floor, l.lost, v.id, v.definition,
		CASE WHEN t.results = 'current' THEN t.mapping_id END, CASE WHEN t.results = 'current' THEN t.mapping END,
		EXISTS (SELECT FROM kube_reports_internal.summary_type s WHERE s.resource_type = t.id),
		EXISTS (SELECT FROM kube_reports_internal.aggregation a WHERE a.cluster_id = c.id
			AND (t."group" = 'reports.kyverno.io' AND a.policy_reports = 'resource'
				OR t."group" = 'kyverno.io' AND (a.admission OR a.policy_reports = 'policy'))),
		s.generation
	FROM kube_reports.cluster c
		JOIN kube_reports_internal.lane l ON l.cluster_id = c.id
		JOIN kube_reports.resource_type t ON t.id = l.resource_type
		JOIN kube_reports_internal.resource_version v ON v.resource_type = t.id
		-- Without that row nothing tells which versions were given.
		LEFT JOIN kube_reports_internal.store s ON true
	WHERE c.uid = $1 AND t."group" = $2 AND v.version = $3 AND t.plural = $4
		AND CASE WHEN kube_reports_internal.hides_rows() THEN kube_reports_internal.refuse_hidden()
			WHEN s.restore_pending OR l.store IS DISTINCT FROM s.identity
			OR kube_reports_internal.placed() <> s.tableoid THEN kube_reports_internal.refuse_restoring()
			ELSE kube_reports_internal.is_bound(c.id, $5) END;
END;
COMMENT ON FUNCTION kube_reports_internal.resolve(uuid, text, text, text, kube_reports_internal.caller)
	IS 'resolves a request''s cluster, group, version and resource; mapping null: the type has no current results; '
		'fill_summary: see set_summaries(); aggregated: see queue_aggregation(); generation: of the registry, which '
		'commit_decided() compares';

CREATE TYPE kube_reports_internal.admitted AS (
	action		"char",
	code		integer,
	namespace	text,
	name		text,
	uid			uuid,
	metadata	kube_reports.report,
	body		kube_reports.report,
	versioned	boolean,
	status		bytea,
	transform	text,
	retry_after integer,
	warnings	text[],
	actor		text,
	evaluated_at timestamptz
);
COMMENT ON TYPE kube_reports_internal.admitted IS 'the decision of write_admit() about a request';

-- A larger document is written in a batch of its own, and its results follow after the lane is released: see
-- docs/architecture/writes.md, "Fairness".
CREATE FUNCTION kube_reports_internal.costly_bytes() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 262144;
COMMENT ON FUNCTION kube_reports_internal.costly_bytes()
	IS 'documents above this size are expensive: no other write waits for them';

-- The second half of every write.  The engine has decided before: in the backend (then requests and bodies are given)
-- or in the proxy (then they are null).  All decisions are made before the lane is locked, on the state at that time.
-- All other writers of the lane wait for the lock, so this function checks only whether the state is still the same.
-- A request whose object has changed is decided again, here or by the proxy.  So is the whole batch when the registry
-- has changed: its definitions, its mapping or its cluster may be gone.  The callers' settings apply.
CREATE FUNCTION kube_reports_internal.commit_decided(cluster_id integer, type_id integer, lane integer,
	generation bigint, mapping_id bigint, mapping kube_reports.report, fill_summary boolean, aggregated boolean,
	storing boolean, alone boolean, outcomes kube_reports_internal.admitted[], definitions bigint[], bases bigint[],
	namespace_uids text[], requests jsonb[] DEFAULT NULL, bodies bytea[] DEFAULT NULL,
	prepared kube_reports_internal.prepared_results[] DEFAULT NULL, creating boolean DEFAULT false,
		OUT codes integer[], OUT retry_afters integer[], OUT warnings text[], OUT replies bytea[],
		OUT versions bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	costly CONSTANT integer := kube_reports_internal.costly_bytes();
	written_at	timestamptz;
	newest		bigint;
	held		boolean;
	first_version bigint;
	recorded	bigint;
	present		bigint;
BEGIN
	-- A batch that stores nothing takes no lock.
	IF storing THEN
		PERFORM kube_reports_internal.lock_store_shared();
		PERFORM kube_reports_internal.lock_lane(commit_decided.lane);
		-- Separate statements: they see what was written before the lock was granted.
		SELECT greatest(l.floor, (SELECT max(c.version) FROM kube_reports_internal.change c WHERE c.lane = l.id)),
				kube_reports_internal.lane_time(l.id), l.held, (SELECT s.generation FROM kube_reports_internal.store s)
			INTO newest, written_at, held, present
			FROM kube_reports_internal.lane l WHERE l.id = commit_decided.lane;
		IF present IS DISTINCT FROM commit_decided.generation THEN
			RETURN;
		END IF;
		IF held THEN
			PERFORM kube_reports_internal.require_unheld(commit_decided.lane);
		END IF;
		-- Between statements of DML in one transaction: record their changes now, so that nothing is recorded twice.
		-- The setting is read here first: a call costs as much as some rows, and only DML gives it a value.
		IF current_setting('kube_reports_internal.recorded', true) <> '' THEN
			recorded := kube_reports_internal.sealed('recorded')::bigint;
		END IF;
		IF recorded IS NOT NULL THEN
			PERFORM kube_reports_internal.record_dml();
		END IF;
	END IF;
	PERFORM kube_reports_internal.begin_own_write();

	-- Most batches have only creates, of objects that are not there yet.  The general statement below would store the
	-- same, but PostgreSQL sets up all its parts and calls the triggers of each.  Stores nothing if one create needs
	-- that statement.
	IF creating THEN
		WITH item AS MATERIALIZED (
			SELECT i.*, nextval('kube_reports_internal.version_seq') AS version
			FROM (SELECT i.definition_id, v.definition, i.code, i.namespace, i.name, i.uid, i.metadata, i.body,
					i.versioned, i.status, i.transform, i.retry_after, i.warnings, i.actor, i.evaluated_at
				FROM ROWS FROM (unnest(definitions), unnest(namespace_uids), unnest(outcomes))
						WITH ORDINALITY i(definition_id, namespace_uid, action, code, namespace, name, uid, metadata,
							body, versioned, status, transform, retry_after, warnings, actor, evaluated_at, position)
					JOIN kube_reports_internal.resource_version v ON v.id = i.definition_id
				WHERE NOT EXISTS (SELECT FROM kube_reports.object o
						WHERE o.cluster_id = commit_decided.cluster_id AND o.resource_type = type_id
							AND o.namespace = i.namespace AND o.name = i.name OFFSET 0)
					AND (i.namespace_uid IS NULL OR EXISTS (SELECT FROM kube_reports_internal.namespace s
						WHERE s.cluster_id = commit_decided.cluster_id AND s.name = i.namespace
							AND s.uid = i.namespace_uid AND s.state = 'active' OFFSET 0))
				ORDER BY i.position) i
		), every AS MATERIALIZED (
			SELECT count(*) = cardinality(outcomes) AS fits FROM item
		), inserted AS (
			INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version,
				metadata, body, evaluated_at)
				SELECT commit_decided.cluster_id, type_id, i.namespace, i.name, i.uid, i.version,
					i.metadata, i.body, i.evaluated_at
				FROM item i WHERE (SELECT e.fits FROM every e)
		), logged AS (
			INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor)
				SELECT commit_decided.lane, i.version, 'A', i.namespace, i.name, written_at,
					coalesce(i.actor, session_user)
				FROM item i WHERE (SELECT e.fits FROM every e)
		)
		SELECT array_agg(i.code), array_agg(coalesce(i.retry_after, 0)),
				array_agg(array_to_string(i.warnings, E'\n')),
				array_agg(coalesce(i.status, CASE WHEN requests IS NOT NULL THEN
					kube_reports_internal.render_object(i.definition_id, i.definition, i.transform, i.metadata, i.body,
						CASE WHEN i.versioned THEN i.version END) END)),
				array_agg(i.version), min(i.version)
			INTO codes, retry_afters, warnings, replies, versions, first_version
			FROM item i WHERE (SELECT e.fits FROM every e);
	END IF;

	IF codes IS NULL THEN
		-- The ctid of a row stays valid: no other transaction writes to the lane while this one holds its lock.
		WITH item AS MATERIALIZED (
			SELECT i.position, i.request, i.document, i.definition_id, v.definition,
				i.action, i.code, i.namespace, i.name, i.uid, i.metadata, i.body, i.versioned, i.status, i.transform,
				i.retry_after, i.warnings, i.actor, i.evaluated_at, i.namespace_uid,
				o.place, CASE WHEN i.action = 'n' THEN i.base ELSE o.version END AS old_version,
					o.metadata AS old_metadata, o.body AS old_body,
				i.action <> 'n' AND o.version IS DISTINCT FROM i.base AS lost,
				greatest(kube_reports.document_size(o.metadata) + kube_reports.document_size(o.body),
					octet_length(i.document)) > costly AS costs
			FROM ROWS FROM (unnest(requests), unnest(bodies), unnest(definitions), unnest(bases),
				unnest(namespace_uids), unnest(outcomes))
					WITH ORDINALITY i(request, document, definition_id, base, namespace_uid,
						action, code, namespace, name, uid, metadata, body, versioned, status, transform,
						retry_after, warnings, actor, evaluated_at, position)
				JOIN kube_reports_internal.resource_version v ON v.id = i.definition_id
				LEFT JOIN LATERAL (SELECT o.ctid AS place, o.version, o.metadata, o.body FROM kube_reports.object o
					WHERE o.cluster_id = commit_decided.cluster_id AND o.resource_type = type_id
						AND o.namespace = i.namespace AND o.name = i.name AND i.action <> 'n'
					LIMIT 1) o ON true
		), decided AS MATERIALIZED (
			SELECT i.position, i.definition_id, i.definition, i.namespace, i.name, i.actor,
				i.place, i.old_version, i.old_metadata, i.old_body,
				CASE WHEN m.code IS NOT NULL THEN 'n' ELSE coalesce(d.action, i.action) END AS action,
				coalesce(m.code, d.code, i.code) AS code, coalesce(d.uid, i.uid) AS uid,
				CASE WHEN d.action IS NULL THEN i.metadata ELSE d.metadata END AS metadata,
				CASE WHEN d.action IS NULL THEN i.body ELSE d.body END AS body,
				coalesce(d.versioned, i.versioned) AS versioned,
				CASE WHEN m.code IS NOT NULL THEN ''::bytea WHEN d.action IS NULL THEN i.status ELSE d.status END
					AS status,
				coalesce(d.transform, i.transform) AS transform,
				coalesce(d.retry_after, i.retry_after) AS retry_after,
				CASE WHEN d.action IS NULL THEN i.warnings ELSE d.warnings END AS warnings,
				CASE WHEN d.action IS NULL THEN i.evaluated_at ELSE d.evaluated_at END AS evaluated_at
			FROM item i
				LEFT JOIN LATERAL (SELECT * FROM kube_reports_internal.write_decide(i.definition_id,
					i.definition, i.request, i.document,
						i.old_metadata, i.old_body, i.old_version, fill_summary, mapping_id, mapping,
						commit_decided.cluster_id, CASE WHEN alone IS NOT NULL THEN costly END)
					WHERE i.lost AND i.request IS NOT NULL AND (alone IS NULL OR i.costs IS NOT TRUE) OFFSET 0) d
						ON true
				-- An expensive request whose object has changed is not decided here.  The sweep of a dead namespace
				-- takes the lane's lock after the namespace was marked: see store/namespaces.sql.
				LEFT JOIN LATERAL (SELECT CASE WHEN NOT i.lost OR d.action IS NOT NULL THEN 0
						WHEN i.request IS NULL THEN -2 ELSE -1 END AS code
					WHERE i.lost AND d.action IS NULL
						OR coalesce(d.action, i.action) = 'i' AND i.namespace_uid IS NOT NULL
						AND NOT EXISTS (SELECT FROM kube_reports_internal.namespace s
							WHERE s.cluster_id = commit_decided.cluster_id AND s.name = i.namespace
								AND s.uid = i.namespace_uid AND s.state = 'active') OFFSET 0) m ON true
		), numbered AS MATERIALIZED (
			SELECT s.*, CASE WHEN s.action <> 'n' THEN nextval('kube_reports_internal.version_seq') END AS version
			FROM (SELECT * FROM decided ORDER BY position) s
		), inserted AS (
			INSERT INTO kube_reports.object (cluster_id, resource_type, namespace, name, uid, version,
				metadata, body, evaluated_at)
				SELECT commit_decided.cluster_id, type_id, n.namespace, n.name, n.uid, n.version,
					n.metadata, n.body, n.evaluated_at
				FROM numbered n WHERE n.action = 'i'
		), updated AS (
			UPDATE kube_reports.object o SET version = n.version, metadata = n.metadata, body = n.body,
				evaluated_at = n.evaluated_at
				FROM numbered n WHERE n.action = 'u' AND o.ctid = n.place
		), deleted AS (
			DELETE FROM kube_reports.object o USING numbered n
				WHERE n.action = 'd' AND o.ctid = n.place
		), logged AS (
			INSERT INTO kube_reports_internal.change (lane, version, operation, namespace, name, at, actor, old_version,
				old_metadata, old_body)
				SELECT commit_decided.lane, n.version, CASE n.action WHEN 'i' THEN 'A' WHEN 'u' THEN 'M' ELSE 'D' END,
					n.namespace, n.name, written_at, coalesce(n.actor, session_user), n.old_version,
						n.old_metadata, n.old_body
				FROM numbered n WHERE n.action <> 'n'
		)
		-- When an update removes the last finalizer and so deletes the object, the answer shows the object's last
		-- version.  The Status of a deletion has the version of the deletion (DEL-11).
		SELECT array_agg(n.code),
				array_agg(coalesce(n.retry_after, 0)),
				array_agg(array_to_string(n.warnings, E'\n')),
				array_agg(coalesce(n.status, CASE WHEN requests IS NOT NULL THEN
					kube_reports_internal.render_object(n.definition_id, n.definition, n.transform, n.metadata, n.body,
						CASE WHEN n.versioned THEN CASE WHEN n.action = 'd'
							AND NOT starts_with(n.transform, 'deleted') THEN n.old_version
							ELSE coalesce(n.version, n.old_version) END END) END)),
				array_agg(coalesce(n.version, n.old_version, 0)),
				min(n.version)
			INTO codes, retry_afters, warnings, replies, versions, first_version
			-- Sorted once, not by each aggregate.
			FROM (SELECT * FROM numbered ORDER BY position) n;
	END IF;

	PERFORM set_config('kube_reports_internal.api_write', '', true);
	-- Without the store's lock, definitions may be gone since the decision.  Nothing was stored.
	IF cardinality(codes) IS DISTINCT FROM cardinality(outcomes) THEN
		codes := NULL;
		RETURN;
	END IF;
	-- Catches a sequence that was cached, restarted or restored: a version must never go back.
	IF first_version <= newest THEN
		RAISE EXCEPTION 'version % is not above % in lane %', first_version, newest, commit_decided.lane
			USING ERRCODE = 'data_corrupted', HINT = 'Call kube_reports.new_incarnation().';
	END IF;
	IF mapping_id IS NOT NULL AND first_version IS NOT NULL THEN
		PERFORM kube_reports_internal.record_results(commit_decided.lane, first_version - 1, alone IS NOT NULL,
			versions, prepared);
	END IF;
	IF aggregated AND first_version IS NOT NULL THEN
		PERFORM kube_reports_internal.queue_aggregation(commit_decided.lane, first_version - 1);
	END IF;

	IF recorded IS NOT NULL THEN
		PERFORM kube_reports_internal.set_sealed('recorded',
			greatest(kube_reports_internal.sealed('recorded')::bigint,
			(SELECT max(v.version) FROM unnest(versions) v(version)))::text);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.commit_decided(integer, integer, integer, bigint, bigint, kube_reports.report,
	boolean, boolean, boolean, boolean, kube_reports_internal.admitted[], bigint[], bigint[], text[], jsonb[], bytea[],
	kube_reports_internal.prepared_results[], boolean)
	IS 'stores and logs the outcomes, under the lane''s lock. bases: the version on which each was decided (null: '
		'there was no object). storing: at least one outcome stores something; creating: all are creates. Without '
		'requests and bodies no request is decided again: code -2 if the object has another version by now. prepared: '
		'see result_difference(). codes null: nothing was stored, because the registry is no longer of that '
		'generation';

CREATE FUNCTION kube_reports_internal.write_batch(cluster uuid, requests jsonb[], bodies bytea[],
	attempts integer DEFAULT 8,
		alone boolean DEFAULT NULL, caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT codes integer[], OUT content_types text[], OUT retry_afters integer[], OUT warnings text[],
		OUT replies bytea[], OUT versions bigint[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A session makes its plans once, perhaps while the tables are empty.  With these settings the plans stay good when
-- the tables are large.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '2s'
AS $$
DECLARE
	costly CONSTANT integer := kube_reports_internal.costly_bytes();
	target		record;
	-- For each request: the decision, and the version that it is based on (null: there was no object).
	outcomes	kube_reports_internal.admitted[];
	definitions	bigint[];
	bases		bigint[];
	inserting	boolean[];
	namespace_uids text[];
	storing		boolean;
	creating	boolean;
	done		record;
	taken		integer[];
	again		record;
BEGIN
	-- A separate statement costs as much as several rows, so one statement makes both calls.  resolve() refuses to work
	-- where row-level security hides rows.
	PERFORM kube_reports_internal.require_new_snapshots(), kube_reports_internal.commit_durably();

	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, requests[1]->>'group', requests[1]->>'version',
		requests[1]->>'resource', caller);
	IF NOT FOUND THEN
		SELECT array_agg(404), array_agg('application/json'::text), array_agg(0), array_agg(NULL::text),
				array_agg(kube_reports_internal.not_served_document(cluster, caller)), array_agg(0::bigint)
			INTO codes, content_types, retry_afters, warnings, replies, versions
			FROM unnest(requests);
		RETURN;
	END IF;

	-- A batch may mix versions of the type.  A create is admitted first, because its name may be in its document.
	-- OFFSET 0 keeps conditions inside their subqueries, so that functions are called only for rows that need them.
	SELECT array_agg(w.outcome), array_agg(w.definition_id), array_agg(w.base), array_agg(w.inserting),
			array_agg(w.namespace_uid), bool_or(w.stores), bool_and((w.outcome).action = 'i')
		INTO outcomes, definitions, bases, inserting, namespace_uids, storing, creating
		-- Sorted once, not by each aggregate.
		FROM (SELECT CASE WHEN c.costs THEN ROW('n', -1, k.namespace, k.name, NULL, NULL, NULL, false, ''::bytea, '',
					0, NULL, NULL, NULL)::kube_reports_internal.admitted
					WHEN d.action IS NULL THEN ROW(a.*)::kube_reports_internal.admitted
						ELSE ROW(d.*)::kube_reports_internal.admitted END AS outcome,
				v.id AS definition_id, o.version AS base,
				coalesce(a.action = 'i', false) AS inserting, i.request->>'namespaceUid' AS namespace_uid,
				NOT c.costs AND coalesce(d.action, a.action) <> 'n' AS stores
			FROM ROWS FROM (unnest(requests), unnest(bodies)) WITH ORDINALITY i(request, document, position)
				JOIN kube_reports_internal.resource_version v ON v.resource_type = target.type_id
					AND v.version = i.request->>'version'
				LEFT JOIN LATERAL (SELECT * FROM kube_reports_internal.write_admit(v.id, v.definition, i.request,
					i.document, target.fill_summary, target.mapping_id, target.mapping, target.cluster_id,
						CASE WHEN alone IS NOT NULL THEN costly END)
					WHERE i.request->>'verb' = 'create' OFFSET 0) a ON true
				CROSS JOIN LATERAL (SELECT CASE WHEN a.action IS NOT NULL THEN a.namespace
						WHEN target.namespaced THEN coalesce(i.request->>'namespace', '') ELSE '' END AS namespace,
					CASE WHEN a.action IS NOT NULL THEN a.name ELSE i.request->>'name' END AS name OFFSET 0) k
				LEFT JOIN LATERAL (SELECT o.version, o.metadata, o.body FROM kube_reports.object o
					WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
						AND o.namespace = k.namespace AND o.name = k.name AND a.action IS DISTINCT FROM 'n'
					LIMIT 1) o ON true
				CROSS JOIN LATERAL (SELECT NOT coalesce(alone, true)
					AND kube_reports.document_size(o.metadata) + kube_reports.document_size(o.body) > costly
						IS TRUE AS costs OFFSET 0) c
				LEFT JOIN LATERAL (SELECT * FROM kube_reports_internal.write_decide(v.id, v.definition, i.request,
					i.document, o.metadata, o.body, o.version,
						target.fill_summary, target.mapping_id, target.mapping, target.cluster_id,
						CASE WHEN alone IS NOT NULL THEN costly END)
					WHERE NOT c.costs AND (a.action IS NULL OR a.action = 'p'
						OR (a.action = 'i' AND o.version IS NOT NULL)) OFFSET 0) d ON true
			ORDER BY i.position) w;
	IF cardinality(outcomes) IS DISTINCT FROM cardinality(requests) THEN
		RAISE EXCEPTION 'a batch must be of one type' USING ERRCODE = 'invalid_parameter_value';
	END IF;

	SELECT * INTO done FROM kube_reports_internal.commit_decided(target.cluster_id, target.type_id, target.lane,
		target.generation, target.mapping_id, target.mapping, target.fill_summary, target.aggregated, storing, alone,
		outcomes, definitions, bases, namespace_uids, requests, bodies, creating => creating);
	-- The registry has changed since the batch was resolved.  The store's lock keeps it unchanged now: decide again.
	IF done.codes IS NULL THEN
		PERFORM kube_reports_internal.lock_store_shared();
		SELECT * INTO again FROM kube_reports_internal.write_batch(cluster, requests, bodies, attempts, alone, caller);
		codes := again.codes;
		content_types := again.content_types;
		retry_afters := again.retry_afters;
		warnings := again.warnings;
		replies := again.replies;
		versions := again.versions;
		RETURN;
	END IF;
	codes := done.codes;
	content_types := array_fill('application/json'::text, ARRAY[cardinality(codes)]);
	retry_afters := done.retry_afters;
	warnings := done.warnings;
	replies := done.replies;
	versions := done.versions;

	-- A generated name that was taken is not the client's fault: try another name.
	IF 409 = ANY (codes) AND attempts > 1 THEN
		SELECT array_agg(a.position ORDER BY a.position) INTO taken
			FROM unnest(inserting) WITH ORDINALITY a(inserting, position)
			WHERE codes[a.position] = 409 AND a.inserting AND retry_afters[a.position] > 0;
		IF taken IS NOT NULL THEN
			SELECT * INTO again FROM kube_reports_internal.write_batch(cluster,
				ARRAY(SELECT requests[t.position] FROM unnest(taken) WITH ORDINALITY t(position, n) ORDER BY t.n),
				ARRAY(SELECT bodies[t.position] FROM unnest(taken) WITH ORDINALITY t(position, n) ORDER BY t.n),
					attempts - 1, alone, caller);
			FOR n IN 1 .. cardinality(taken) LOOP
				codes[taken[n]] := again.codes[n];
				content_types[taken[n]] := again.content_types[n];
				retry_afters[taken[n]] := again.retry_afters[n];
				warnings[taken[n]] := again.warnings[n];
				replies[taken[n]] := again.replies[n];
				versions[taken[n]] := again.versions[n];
			END LOOP;
		END IF;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_batch(uuid, jsonb[], bytea[], integer, boolean,
	kube_reports_internal.caller)
	IS 'performs the writes of one lane, in order, no object twice; one element of each array for each request. Code '
		'0: nothing was stored, because the namespace of the request''s namespaceUid is not the active one; see '
		'api_namespace(). attempts: how many generated names are tried. alone: see api_write(); null: expensive '
		'documents and all results are handled at once';

-- The procedure commits, so that a client that dies between execute and sync does not keep the lane's lock.  It can
-- neither be SECURITY DEFINER nor have a SET clause.  So a function does the work, and every name is qualified.
CREATE PROCEDURE kube_reports_internal.api_write(cluster uuid, requests jsonb[], bodies bytea[], alone boolean,
		INOUT codes integer[], INOUT content_types text[], INOUT retry_afters integer[], INOUT warnings text[],
		INOUT replies bytea[], INOUT versions bigint[])
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT w.codes, w.content_types, w.retry_afters, w.warnings, w.replies, w.versions
		INTO codes, content_types, retry_afters, warnings, replies, versions
		FROM kube_reports_internal.write_batch(cluster, requests, bodies, 8, alone IS TRUE) w;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_write(uuid, jsonb[], bytea[], boolean, integer[], text[], integer[],
	text[], bytea[], bigint[])
	IS 'write_batch() in a transaction of its own: when it returns, the answers are durable. alone: false for a batch '
		'for which other requests may wait: expensive requests are then not done, and have code -1; true for a batch '
		'of one expensive request: code -1 means that another writer has changed its object. Results of expensive '
		'documents follow: see catch_up()';

---- the dialogue of a proxy that decides ----

-- In the SQL variant the proxy runs the engine.  It loads what its batch needs (creates need nothing), decides, and
-- commits.  If an object has another version by now, its state comes back, and the proxy decides again on that state.
CREATE FUNCTION kube_reports_internal.api_load(cluster uuid, "group" text, version text, resource text,
	namespaces text[], names text[], alone boolean,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT "position" integer, OUT stored_version bigint, OUT metadata text, OUT body text)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	target		record;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, api_load."group", api_load.version,
		api_load.resource, caller);
	IF NOT FOUND THEN
		RETURN QUERY SELECT 0, 0::bigint, NULL::text,
			convert_from(kube_reports_internal.not_served_document(cluster, caller), 'UTF8');
		RETURN;
	END IF;
	RETURN QUERY SELECT k.position::integer, o.version,
			CASE WHEN NOT c.costs THEN o.metadata::text END, CASE WHEN NOT c.costs THEN o.body::text END
		FROM ROWS FROM (unnest(namespaces), unnest(names)) WITH ORDINALITY k(namespace, name, position)
			CROSS JOIN LATERAL (SELECT o.version, o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
					AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o
			CROSS JOIN LATERAL (SELECT NOT alone AND kube_reports.document_size(o.metadata)
				+ kube_reports.document_size(o.body) > kube_reports_internal.costly_bytes() AS costs OFFSET 0) c;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_load(uuid, text, text, text, text[], text[], boolean,
	kube_reports_internal.caller)
	IS 'the stored objects among those named, by their positions in the arrays; documents null: the object is '
		'expensive, and other requests may wait for this batch (alone false). Position 0: the type is not served, and '
		'body is the Status';

CREATE FUNCTION kube_reports_internal.commit_batch(cluster uuid, "group" text, version text, resource text,
	alone boolean, mapping_id bigint, fill_summary boolean, definitions bigint[], actions text[], namespaces text[],
	names text[], uids text[], metadatas text[], bodies text[], bases bigint[], times text[], actors text[],
	namespace_uids text[], prepared text[],
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT codes integer[], OUT versions bigint[], OUT stored_versions bigint[], OUT stored_metadatas text[],
		OUT stored_bodies text[], OUT status bytea)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- As in write_batch(): plans that a session makes once must stay good when the tables are large.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET lock_timeout = '2s'
AS $$
DECLARE
	target		record;
	outcomes	kube_reports_internal.admitted[];
	done		record;
BEGIN
	-- In the variant in C only the server's engine admits documents.
	IF kube_reports_internal.variant() = 'c' THEN
		RAISE EXCEPTION 'the engine of this server decides on writes'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			HINT = 'Proxies of the variant in C call api_write().';
	END IF;
	-- The store's lock keeps the registry unchanged until the end of the transaction.
	PERFORM kube_reports_internal.require_new_snapshots(), kube_reports_internal.commit_durably(),
		kube_reports_internal.lock_store_shared();
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, commit_batch."group", commit_batch.version,
		commit_batch.resource, caller);
	IF NOT FOUND THEN
		status := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	IF target.mapping_id IS DISTINCT FROM nullif(commit_batch.mapping_id, 0)
		OR target.fill_summary IS DISTINCT FROM commit_batch.fill_summary
		OR EXISTS (SELECT FROM unnest(definitions) d(id)
			WHERE NOT EXISTS (SELECT FROM kube_reports_internal.resource_version v
				WHERE v.id = d.id AND v.resource_type = target.type_id OFFSET 0)) THEN
		codes := array_fill(-3, ARRAY[cardinality(actions)]);
		RETURN;
	END IF;
	SELECT array_agg(ROW(i.action, 200, i.namespace, i.name, i.uid, i.metadata, i.body, true, NULL, '', 0, NULL,
				i.actor, nullif(i.at, '')::timestamptz)::kube_reports_internal.admitted),
			array_agg(nullif(i.base, 0))
		INTO outcomes, versions
		FROM (SELECT i.* FROM ROWS FROM (unnest(actions), unnest(namespaces), unnest(names), unnest(uids),
			unnest(metadatas), unnest(commit_batch.bodies), unnest(bases), unnest(actors), unnest(times))
				WITH ORDINALITY i(action, namespace, name, uid, metadata, body, base, actor, at, position)
			ORDER BY i.position) i;
	SELECT * INTO done FROM kube_reports_internal.commit_decided(target.cluster_id, target.type_id, target.lane,
		target.generation, target.mapping_id, target.mapping, target.fill_summary, target.aggregated, true, alone,
		outcomes, definitions, versions, namespace_uids,
		prepared => kube_reports_internal.sql_prepared_results(target.cluster_id, commit_batch.prepared),
		creating => 'i' = ALL (actions));
	codes := done.codes;
	versions := done.versions;
	IF -2 = ANY (codes) THEN
		SELECT array_agg(o.version ORDER BY k.position),
				array_agg(CASE WHEN NOT c.costs THEN o.metadata::text END ORDER BY k.position),
				array_agg(CASE WHEN NOT c.costs THEN o.body::text END ORDER BY k.position)
			INTO stored_versions, stored_metadatas, stored_bodies
			FROM ROWS FROM (unnest(codes), unnest(namespaces), unnest(names))
					WITH ORDINALITY k(code, namespace, name, position)
				LEFT JOIN LATERAL (SELECT o.version, o.metadata, o.body FROM kube_reports.object o
					WHERE k.code = -2 AND o.cluster_id = target.cluster_id AND o.resource_type = target.type_id
						AND o.namespace = k.namespace AND o.name = k.name LIMIT 1) o ON true
				CROSS JOIN LATERAL (SELECT NOT alone AND kube_reports.document_size(o.metadata)
					+ kube_reports.document_size(o.body) > kube_reports_internal.costly_bytes() AS costs OFFSET 0) c;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.commit_batch(uuid, text, text, text, boolean, bigint, boolean, bigint[],
	text[], text[], text[], text[], text[], text[], bigint[], text[], text[], text[], text[],
	kube_reports_internal.caller)
	IS 'stores the decisions of a proxy about objects of one lane, no object twice. actions: i, u, d; bases: the '
		'version on which each was decided, 0: there was no object. times: of evaluation, empty: none. codes: 200 '
		'stored, with its version; 0 as in write_batch(); -2 not stored, because the object has another version by '
		'now: its state is in the arrays stored_ (documents null as in api_load()); -3 nothing was stored, because '
		'the registry has changed. status: the answer when the type is not served';

CREATE PROCEDURE kube_reports_internal.api_commit(cluster uuid, "group" text, version text, resource text,
	alone boolean, mapping_id bigint, fill_summary boolean, definitions bigint[], actions text[], namespaces text[],
	names text[], uids text[], metadatas text[], bodies text[], bases bigint[], times text[], actors text[],
	namespace_uids text[], prepared text[],
		INOUT codes integer[], INOUT versions bigint[], INOUT stored_versions bigint[], INOUT stored_metadatas text[],
		INOUT stored_bodies text[], INOUT status bytea)
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT c.codes, c.versions, c.stored_versions, c.stored_metadatas, c.stored_bodies, c.status
		INTO codes, versions, stored_versions, stored_metadatas, stored_bodies, status
		FROM kube_reports_internal.commit_batch(cluster, "group", version, resource, alone, mapping_id, fill_summary,
			definitions, actions, namespaces, names, uids, metadatas, bodies, bases, times, actors, namespace_uids,
			prepared) c;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_commit(uuid, text, text, text, boolean, bigint, boolean, bigint[],
	text[], text[], text[], text[], text[], text[], bigint[], text[], text[], text[], text[], integer[],
	bigint[], bigint[], text[], text[], bytea)
	IS 'commit_batch() in a transaction of its own: when it returns, its writes are durable';

---- collections ----

-- PL/pgSQL, because nobody could make the column of labels again if PostgreSQL had parsed the body: verify() shows the
-- statements for that.
CREATE FUNCTION kube_reports_internal.next_of_collection(cluster_id integer, type_id integer, only_namespace text,
	terms text[], label_selector text, field_selector text, after_namespace text, after_name text, max_items bigint)
	RETURNS TABLE (namespace text, name text, version bigint, metadata kube_reports.report, body kube_reports.report)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
-- A plan for each call: one namespace or all, with or without labels.  Walk in the order of keys, also with labels:
-- otherwise each piece would read all objects again.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT s.namespace, s.name, s.version, s.metadata, s.body
		FROM (SELECT o.namespace, o.name, o.version, o.metadata, o.body,
				sum(kube_reports.document_size(o.metadata) + kube_reports.document_size(o.body))
					OVER (ORDER BY o.namespace, o.name) - kube_reports.document_size(o.body) AS before
			FROM (SELECT o.namespace, o.name, o.version, o.metadata, o.body FROM kube_reports.object o
				WHERE o.cluster_id = next_of_collection.cluster_id AND o.resource_type = type_id
					AND (only_namespace IS NULL OR o.namespace = only_namespace)
					AND (o.namespace, o.name) > (after_namespace, after_name)
					AND (terms = '{}' OR o.labels @> terms)
					AND kube_reports.matches_labels(o.labels, label_selector)
					AND kube_reports.matches_fields(o.namespace, o.name, field_selector)
				ORDER BY o.namespace, o.name
				LIMIT least(500, max_items)) o) s
		WHERE s.before < 4000000;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.next_of_collection(integer, integer, text, text[], text, text, text, text,
	bigint)
	IS 'the next objects of a deletecollection after a key: at most 500, 4 MB, or max_items';

-- One piece of a deletecollection: at most 500 objects or 4 MB, then a cursor.  The plan is made for each request: one
-- namespace or all, with or without labels.
CREATE FUNCTION kube_reports_internal.delete_piece(cluster uuid, request jsonb, document bytea, cursor text,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT content_type text, OUT retry_after integer, OUT warnings text[],
			OUT reply bytea, OUT next_cursor text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Walk in the order of keys, also with labels: otherwise each piece would read all objects again.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	target		record;
	plan		record;
	after_namespace text := coalesce(cursor::jsonb->>'namespace', request->>'namespace', '');
	after_name	text := coalesce(cursor::jsonb->>'name', '');
	deleted		bigint := coalesce((cursor::jsonb->>'deleted')::bigint, 0);
	last_namespace text;
	last_name	text;
	found_count integer;
	requests	jsonb[];
	written		record;
	failed		integer;
	refused		record;
	newest		bigint;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, request->>'group', request->>'version',
		request->>'resource', caller);
	retry_after := 0;
	content_type := 'application/json';
	IF NOT FOUND THEN
		code := 404;
		reply := kube_reports_internal.not_served_document(cluster, caller);
		RETURN;
	END IF;
	SELECT * INTO plan FROM kube_reports_internal.list_plan(target.definition_id, target.definition, request);
	code := plan.code;
	IF code <> 200 THEN
		reply := plan.status;
		RETURN;
	END IF;

	-- A continue token skips the objects before it.
	IF cursor IS NULL AND plan.has_continue THEN
		after_namespace := coalesce(request->>'namespace', plan.continue_namespace);
		after_name := plan.continue_name;
		newest := kube_reports_internal.lane_version(target.lane);
		IF plan.continue_version > newest OR plan.continue_version > 0 AND (plan.continue_version < target.floor
				OR target.lost @> plan.continue_version) THEN
			SELECT r.code, r.retry_after, r.status INTO code, retry_after, reply
				FROM kube_reports_internal.refuse_version(plan.continue_version, newest, target.namespaced,
					request->>'namespace', after_namespace, after_name) r;
			RETURN;
		END IF;
	END IF;

	-- Check the options of the deletion once, before anything is deleted.
	SELECT a.code, a.status, a.retry_after INTO refused
		FROM kube_reports_internal.write_admit(target.definition_id, target.definition, request, document, false,
			NULL, NULL, NULL, NULL) a
			WHERE a.action = 'n';
	IF FOUND THEN
		code := refused.code;
		reply := refused.status;
		RETURN;
	END IF;

	SELECT array_agg(request || jsonb_build_object('name', s.name)
				|| CASE WHEN s.namespace = '' THEN '{}' ELSE jsonb_build_object('namespace', s.namespace) END
				ORDER BY s.namespace, s.name),
			count(*), (array_agg(s.namespace ORDER BY s.namespace, s.name))[count(*)],
			(array_agg(s.name ORDER BY s.namespace, s.name))[count(*)]
		INTO requests, found_count, last_namespace, last_name
		FROM kube_reports_internal.next_of_collection(target.cluster_id, target.type_id, request->>'namespace',
			plan.terms, plan.label_selector, plan.field_selector, after_namespace, after_name,
			CASE WHEN plan.max_items > 0 THEN plan.max_items - deleted END) s;

	IF found_count > 0 THEN
		SELECT * INTO written
			FROM kube_reports_internal.write_batch(cluster, requests, array_fill(document, ARRAY[found_count]));
		-- Ignore an object that another client has deleted meanwhile.  Any other error ends the request.
		SELECT min(position) INTO failed FROM unnest(written.codes) WITH ORDINALITY w(code, position)
			WHERE w.code >= 400 AND w.code <> 404;
		IF failed IS NOT NULL THEN
			code := written.codes[failed];
			reply := written.replies[failed];
			retry_after := written.retry_afters[failed];
			RETURN;
		END IF;
	END IF;
	deleted := deleted + found_count;
	IF found_count > 0 AND (plan.max_items = 0 OR deleted < plan.max_items) THEN
		next_cursor := jsonb_build_object('namespace', last_namespace, 'name', last_name, 'deleted', deleted)::text;
		reply := ''::bytea;
	ELSE
		-- The fields are in the order that every Status has.
		reply := convert_to(
			format(E'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",'
				'"details":{"group":%s,"kind":%s}}\n',
			request->'group', request->'resource'), 'UTF8');
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.delete_piece(uuid, jsonb, bytea, text, kube_reports_internal.caller)
	IS 'deletes the next objects of a deletecollection; next_cursor null: it was the last piece, reply is the answer';

-- For a proxy that decides itself: the objects that delete_piece() would delete next.
CREATE FUNCTION kube_reports_internal.api_load_collection(cluster uuid, "group" text, version text, resource text,
	only_namespace text, terms text[], label_selector text, field_selector text, after_namespace text, after_name text,
	max_items bigint, continue_version bigint,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT code integer, OUT status bytea, OUT namespace text, OUT name text, OUT stored_version bigint,
		OUT metadata text, OUT body text)
	RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Walk in the order of keys, also with labels: otherwise each piece would read all objects again.
SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	target		record;
	newest		bigint;
BEGIN
	SELECT * INTO target FROM kube_reports_internal.resolve(cluster, api_load_collection."group",
		api_load_collection.version, api_load_collection.resource, caller);
	IF NOT FOUND THEN
		RETURN QUERY SELECT 404, kube_reports_internal.not_served_document(cluster, caller), NULL::text, NULL::text,
			NULL::bigint, NULL::text, NULL::text;
		RETURN;
	END IF;
	newest := kube_reports_internal.lane_version(target.lane);
	IF continue_version > newest
			OR continue_version > 0 AND (continue_version < target.floor OR target.lost @> continue_version) THEN
		RETURN QUERY SELECT r.code, r.status, NULL::text, NULL::text, NULL::bigint, NULL::text, NULL::text
			FROM kube_reports_internal.refuse_version(continue_version, newest, target.namespaced, only_namespace,
				after_namespace, after_name) r;
		RETURN;
	END IF;
	RETURN QUERY SELECT 200, NULL::bytea, s.namespace, s.name, s.version, s.metadata::text, s.body::text
		FROM kube_reports_internal.next_of_collection(target.cluster_id, target.type_id, only_namespace, terms,
			label_selector, field_selector, after_namespace, after_name, nullif(max_items, 0)) s
		ORDER BY s.namespace, s.name;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.api_load_collection(uuid, text, text, text, text, text[], text, text, text,
	text, bigint, bigint, kube_reports_internal.caller)
	IS 'the next objects of a deletecollection after a key, at most 500 or 4 MB; max_items 0: no limit; '
		'continue_version: of the continue token, 0 without one. A code other than 200 comes with a Status';

CREATE PROCEDURE kube_reports_internal.api_delete_collection(cluster uuid, request jsonb, document bytea, cursor text,
		INOUT code integer, INOUT content_type text, INOUT retry_after integer, INOUT warnings text[],
		INOUT reply bytea, INOUT next_cursor text)
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT d.code, d.content_type, d.retry_after, d.warnings, d.reply, d.next_cursor
		INTO code, content_type, retry_after, warnings, reply, next_cursor
		FROM kube_reports_internal.delete_piece(cluster, request, document, cursor) d;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_delete_collection(uuid, jsonb, bytea, text, integer, text,
	integer, text[], bytea, text)
	IS 'delete_piece() in a transaction of its own';

