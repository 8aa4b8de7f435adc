-- kyverno_merge.sql
--	  Kyverno's merges: which results of which reports go into which report.
--
-- The rules are the same as in Kyverno's controllers: a merge has the same result whether Kyverno or this code merges,
-- and in any order.  A merge of reports that Kyverno has already merged changes nothing.  Source, policy and rule
-- identify a result.  Of several results with one identity, the result with the largest timestamp.seconds counts. If
-- several have the largest, the first of them counts: the merged report comes before the others, which are in the order
-- of their names.  Results of inactive policies and rules are dropped.  The remaining results are sorted by policy,
-- rule and source, which identify all results of one resource.
--
-- A merge reads while it holds the locks of the lanes that it writes, so that no other writer can change the reports
-- that the merge replaces or deletes.

CREATE FUNCTION kube_reports_internal.result_group(source text, policy text, rule text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN source || '/' || policy || CASE WHEN kube_reports_internal.has_own_kind(source) THEN '' ELSE '/' || rule END;
COMMENT ON FUNCTION kube_reports_internal.result_group(text, text, text)
	IS 'a key: results of one resource with the same key are one result, and the newest of them counts';

CREATE FUNCTION kube_reports_internal.is_active(cluster_id integer, source text, policy text, rule text) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM kube_reports_internal.active_policy p
			WHERE p.cluster_id = is_active.cluster_id
				AND p.source = CASE WHEN kube_reports_internal.has_own_kind(is_active.source) THEN is_active.source
					ELSE '' END
				AND p.policy = is_active.policy AND (p.rules IS NULL OR is_active.rule = ANY (p.rules)))
		OR NOT EXISTS (SELECT FROM kube_reports_internal.active_policy_set s WHERE s.cluster_id = is_active.cluster_id);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.is_active(integer, text, text, text)
	IS 'whether a result counts: its policy and rule are active, or the active policies are not known';

CREATE FUNCTION kube_reports_internal.summary_text(statuses text[]) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT format('{"error":%s,"fail":%s,"pass":%s,"skip":%s,"warn":%s}', count(*) FILTER (WHERE s = 'error'),
	count(*) FILTER (WHERE s = 'fail'),
	count(*) FILTER (WHERE s = 'pass'), count(*) FILTER (WHERE s = 'skip'), count(*) FILTER (WHERE s = 'warn'))
		FROM unnest(statuses) s);
COMMENT ON FUNCTION kube_reports_internal.summary_text(text[]) IS 'the summary of results with these outcomes, as JSON';

-- Requests of merges have a user of their own, so that their writes differ from the writes of the reports' producers.
CREATE FUNCTION kube_reports_internal.merge_request(type_id integer, verb text, namespace text, name text,
	namespace_uid text DEFAULT NULL) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_strip_nulls(jsonb_build_object('verb', verb, 'group', t."group", 'version',
		v.version, 'resource', t.plural,
			'namespace', nullif(namespace, ''), 'name', CASE WHEN verb <> 'create' THEN name END,
				'namespaceUid', namespace_uid,
			'contentType', CASE verb WHEN 'patch' THEN 'application/merge-patch+json' ELSE 'application/json' END,
			'userAgent', 'kube-reports', 'user', '{"username": "system:kube-reports:aggregation"}'::jsonb))
		FROM kube_reports.resource_type t
			JOIN LATERAL (SELECT v.version FROM kube_reports_internal.resource_version v WHERE v.resource_type = t.id
				ORDER BY v.priority LIMIT 1) v ON true
		WHERE t.id = type_id;
END;
COMMENT ON FUNCTION kube_reports_internal.merge_request(integer, text, text, text, text)
	IS 'the API request of a merge; namespace_uid: the uid of the namespace in which the request creates an object, '
		'if the namespace is active';

CREATE FUNCTION kube_reports_internal.merge_type(wanted_group text, wanted_plural text, cluster_scope boolean)
	RETURNS integer
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT t.id FROM kube_reports.resource_type t
		WHERE t."group" = wanted_group AND t.plural = CASE WHEN cluster_scope THEN 'cluster'
			ELSE '' END || wanted_plural;
END;
COMMENT ON FUNCTION kube_reports_internal.merge_type(text, text, boolean)
	IS 'the type of the reports of a group; cluster_scope: the type for reports of cluster scope';

CREATE FUNCTION kube_reports_internal.merge_groups(cluster uuid, options kube_reports_internal.aggregation,
	stage "char", namespaces text[], keys text[], afters text[])
	RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cluster_scope boolean := namespaces[1] = '';
	written_type integer := kube_reports_internal.merge_type(options."group", CASE options."group"
		WHEN 'openreports.io' THEN 'reports' ELSE 'policyreports' END,
		cluster_scope);
BEGIN
	IF stage = 'e' THEN
		PERFORM kube_reports_internal.queue_piece(options.cluster_id, afters[1]);
		RETURN;
	END IF;
	PERFORM kube_reports_internal.lock_store_shared();
	CASE
		WHEN stage = 'r' AND options.policy_reports = 'resource' THEN
			PERFORM kube_reports_internal.merge_resources(cluster, options.cluster_id, written_type,
				kube_reports_internal.merge_type('reports.kyverno.io', 'ephemeralreports', cluster_scope),
					namespaces, keys, afters);
		WHEN stage = 'a' AND options.admission THEN
			PERFORM kube_reports_internal.merge_admission(cluster, options.cluster_id,
				kube_reports_internal.merge_type('kyverno.io', 'admissionreports', cluster_scope),
				kube_reports_internal.merge_type('kyverno.io', 'backgroundscanreports', cluster_scope),
					namespaces, keys, afters);
		WHEN stage = 'p' AND options.policy_reports = 'policy' THEN
			PERFORM kube_reports_internal.merge_namespace(cluster, options, written_type,
				kube_reports_internal.merge_type('kyverno.io', 'admissionreports', cluster_scope),
				kube_reports_internal.merge_type('kyverno.io', 'backgroundscanreports', cluster_scope), namespaces[1]);
		WHEN stage = 'o' AND options.policy_reports <> 'off' THEN
			PERFORM kube_reports_internal.delete_former(cluster, options, afters[1]);
		ELSE
			-- Aggregation was turned off since the groups were chosen.
			PERFORM kube_reports_internal.take_groups(options.cluster_id, stage, namespaces, keys, afters);
	END CASE;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_groups(uuid, kube_reports_internal.aggregation, "char",
	text[], text[], text[])
	IS 'takes groups of one stage and scope from the queue and merges them, or finds the next groups to merge; the '
		'caller holds the aggregation lock';

CREATE FUNCTION kube_reports_internal.subject_of(owner kube_reports.report, namespace text) RETURNS kube_reports.report
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN namespace = '' THEN owner
	ELSE (left(owner::text, -1) || ',"namespace":' || to_json(namespace) || '}')::kube_reports.report END;
COMMENT ON FUNCTION kube_reports_internal.subject_of(kube_reports.report, text)
	IS 'the resource of a report: its first owner, as first_owner() returns it, in the report''s namespace';

CREATE FUNCTION kube_reports_internal.new_report(type_id integer, namespace text, name text, labels text,
	owner kube_reports.report, scope kube_reports.report, content text)
	RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format('{"apiVersion":%s,"kind":%s,"metadata":{"labels":{%s},"name":%s%s%s}%s%s,%s}',
		to_json(t."group" || '/' || v.version), to_json(t.kind),
			labels, to_json(new_report.name), CASE WHEN namespace <> '' THEN ',"namespace":' || to_json(namespace) END,
			',"ownerReferences":[' || owner::text || ']',
				',"scope":' || scope::text, CASE t."group" WHEN 'openreports.io' THEN ',"source":""' END, content)
		FROM kube_reports.resource_type t
			JOIN LATERAL (SELECT v.version FROM kube_reports_internal.resource_version v WHERE v.resource_type = t.id
				ORDER BY v.priority LIMIT 1) v ON true
		WHERE t.id = type_id;
END;
COMMENT ON FUNCTION kube_reports_internal.new_report(integer, text, text, text, kube_reports.report,
	kube_reports.report, text)
	IS 'a report that a merge creates, as JSON. labels and content are members of objects, without braces; an empty '
		'namespace, a null owner and a null scope are left out';

CREATE FUNCTION kube_reports_internal.take_groups(cluster_id integer, stage "char", namespaces text[], keys text[],
	afters text[]) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	-- Look the rows up one by one: without statistics of a newly filled queue, the planner would choose a slower plan.
	DELETE FROM kube_reports_internal.aggregation_queue q
		WHERE q.ctid = ANY (ARRAY(SELECT w.place FROM unnest(namespaces, keys, afters) k(namespace, key, after)
			CROSS JOIN LATERAL (SELECT w.ctid AS place FROM kube_reports_internal.aggregation_queue w
				WHERE w.cluster_id = $1 AND w.stage = $2 AND w.namespace = k.namespace AND w.key = k.key
					AND w.after = k.after OFFSET 0) w));
END;
COMMENT ON FUNCTION kube_reports_internal.take_groups(integer, "char", text[], text[], text[])
	IS 'removes steps of groups from the queue, with all rows of these groups; rows that are queued later cause '
		'another merge';

CREATE FUNCTION kube_reports_internal.lock_types(cluster_id integer, types integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.is_trial() THEN
		RETURN;
	END IF;
	PERFORM kube_reports_internal.lock_lane(l.id)
		FROM (SELECT l.id FROM kube_reports_internal.lane l
			WHERE l.cluster_id = lock_types.cluster_id AND l.resource_type = ANY (types) ORDER BY l.id) l;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.lock_types(integer, integer[])
	IS 'takes the locks of the lanes of some types, in the order of the lanes; takes no lock in a step that will be '
		'rolled back';

CREATE FUNCTION kube_reports_internal.merge_resources(cluster uuid, cluster_id integer, written_type integer,
	read_type integer, namespaces text[], keys text[],
		afters text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan is kept for weeks and may have been made while the tables were empty: use indexes.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
	plan		record;
BEGIN
	PERFORM kube_reports_internal.lock_types(cluster_id, ARRAY[written_type, read_type]);
	PERFORM kube_reports_internal.take_groups(cluster_id, 'r', namespaces, keys, afters);

	WITH wanted AS MATERIALIZED (
		SELECT k.n, k.namespace, k.key, k.after, p.body, p.name IS NOT NULL AS stored,
			coalesce(p.managed, true) AS managed
		FROM unnest(namespaces, keys, afters) WITH ORDINALITY k(namespace, key, after, n)
			LEFT JOIN LATERAL (SELECT o.name, o.body, o.labels @> '{app.kubernetes.io/managed-by=kyverno}' AS managed
				FROM kube_reports.object o
				WHERE o.cluster_id = merge_resources.cluster_id AND o.resource_type = written_type
					AND o.namespace = k.namespace AND o.name = k.key
				LIMIT 1) p ON true
	), ephemeral AS MATERIALIZED (
		SELECT w.n, w.namespace, o.name, o.body, o.managed, o.owner,
			row_number() OVER (PARTITION BY w.n ORDER BY o.name) AS place
		FROM wanted w
			CROSS JOIN LATERAL (SELECT o.name, o.body,
				o.labels @> '{app.kubernetes.io/managed-by=kyverno}' AS managed, f.owner
				FROM kube_reports.object o CROSS JOIN LATERAL kube_reports_internal.first_owner(o.metadata) f
				WHERE o.cluster_id = merge_resources.cluster_id AND o.resource_type = read_type
					AND o.namespace = w.namespace
					AND o.labels @> ARRAY['audit.kyverno.io/resource.uid=' || w.key]
						AND f.owners > 0 AND o.name > w.after
				ORDER BY o.name LIMIT kube_reports_internal.merge_limit()) o
		WHERE w.managed
	), found AS MATERIALIZED (
		SELECT w.n, 0 AS place, r.* FROM wanted w CROSS JOIN LATERAL kube_reports_internal.list_results(w.body, NULL) r
			WHERE w.managed AND w.stored
		UNION ALL
		SELECT e.n, e.place, r.* FROM ephemeral e CROSS JOIN LATERAL kube_reports_internal.list_results(e.body, NULL) r
	), active AS MATERIALIZED (
		SELECT d.source, d.policy, d.rule FROM (SELECT DISTINCT f.source, f.policy, f.rule FROM found f OFFSET 0) d
		WHERE kube_reports_internal.is_active(merge_resources.cluster_id, d.source, d.policy, d.rule)
	), newest AS (
		SELECT DISTINCT ON (f.n, kube_reports_internal.result_group(f.source, f.policy, f.rule)) f.*
		FROM found f JOIN active a ON a.source = f.source AND a.policy = f.policy AND a.rule = f.rule
		ORDER BY f.n, kube_reports_internal.result_group(f.source, f.policy, f.rule),
			f.seconds DESC, f.place, f."position"
	), merged AS (
		SELECT n.n, '"results":[' || string_agg(n.content, ','
			ORDER BY n.policy COLLATE "C", n.rule COLLATE "C", n.source COLLATE "C")
				|| '],"summary":' || kube_reports_internal.summary_text(array_agg(n.status)) AS content
		FROM newest n GROUP BY n.n
	), decided AS (
		SELECT w.n, w.namespace, w.key, f.owner, m.content, s.uid AS namespace_uid,
			CASE WHEN NOT w.managed THEN 'refuse'
				WHEN m.content IS NOT NULL THEN CASE WHEN w.stored THEN 'patch' ELSE 'create' END
				WHEN w.stored THEN 'delete' ELSE 'nothing' END AS verb
		FROM wanted w
			LEFT JOIN merged m ON m.n = w.n
			LEFT JOIN ephemeral f ON f.n = w.n AND f.place = 1
			LEFT JOIN kube_reports_internal.namespace s ON s.cluster_id = merge_resources.cluster_id
				AND s.name = w.namespace AND w.namespace <> ''
	), writing AS (
		SELECT d.n,
			kube_reports_internal.merge_request(written_type, d.verb, d.namespace,
				d.key, CASE d.verb WHEN 'create' THEN d.namespace_uid END) AS request,
			convert_to(CASE d.verb
				WHEN 'create' THEN kube_reports_internal.new_report(written_type, d.namespace, d.key,
					'"app.kubernetes.io/managed-by":"kyverno"', d.owner,
					kube_reports_internal.subject_of(d.owner, d.namespace), d.content)
				WHEN 'patch' THEN '{' || d.content || '}'
				ELSE '' END, 'UTF8') AS document
		FROM decided d WHERE d.verb IN ('create', 'patch', 'delete')
	)
	SELECT (SELECT array_agg(w.request ORDER BY w.n) FROM writing w) AS requests,
			(SELECT array_agg(w.document ORDER BY w.n) FROM writing w) AS documents,
			(SELECT array_agg(w.n ORDER BY w.n) FROM writing w) AS writing,
			ARRAY(SELECT d.n FROM decided d WHERE d.verb = 'nothing') AS nothing,
			(SELECT array_agg(e.n ORDER BY e.n, e.name) FROM ephemeral e WHERE e.managed) AS consumed,
			(SELECT array_agg(kube_reports_internal.merge_request(read_type, 'delete', e.namespace, e.name)
				ORDER BY e.n, e.name) FROM ephemeral e WHERE e.managed)
				AS deletions,
			(SELECT array_agg(e.n) FROM ephemeral e WHERE e.place = kube_reports_internal.merge_limit()) AS unfinished,
			(SELECT array_agg(e.name) FROM ephemeral e
				WHERE e.place = kube_reports_internal.merge_limit()) AS last_names
		INTO plan;

	PERFORM kube_reports_internal.queue_rest(cluster_id, 'r', namespaces, keys, plan.unfinished, plan.last_names,
		kube_reports_internal.write_merge(cluster, plan.requests, plan.documents, plan.writing, plan.nothing,
			plan.deletions, plan.consumed));
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_resources(uuid, integer, integer, integer, text[], text[], text[])
	IS 'merges the ephemeral reports of some resources (named by namespace and uid) into their policy reports, and '
		'deletes the merged reports that Kyverno manages. afters: a name for each resource; only reports with larger '
		'names are read';

-- Deletes former reports, as Kyverno does when it starts with another group.  Within one group, reports of resources
-- have uids as names, which distinguishes them from reports of policies.  merge_namespace() deletes reports of
-- resources, like all other reports that it does not make.
CREATE FUNCTION kube_reports_internal.delete_former(cluster uuid, options kube_reports_internal.aggregation, after text,
	max_reports integer DEFAULT 500) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	types		integer[] := ARRAY(SELECT t.id FROM kube_reports.resource_type t
		WHERE t.results = 'current' AND t."group" IN (SELECT split_part(f, '/', 1) FROM unnest(options.forms) f));
	by_policy	boolean := options.policy_reports = 'resource' AND options."group" || '/policy' = ANY (options.forms);
	last		json := coalesce(nullif(after, ''), '[0, "", ""]');
	step		record;
BEGIN
	PERFORM kube_reports_internal.lock_types(options.cluster_id, types);
	PERFORM kube_reports_internal.take_groups(options.cluster_id, 'o', '{""}', '{""}', ARRAY[after]);
	-- A step has one type, like every batch of writes.
	WITH piece AS MATERIALIZED (
		SELECT o.resource_type, o.namespace, o.name
		FROM kube_reports.object o JOIN kube_reports.resource_type t ON t.id = o.resource_type
		WHERE o.cluster_id = options.cluster_id AND o.resource_type = ANY (types)
			AND (o.resource_type, o.namespace, o.name) > ((last->>0)::integer, last->>1, last->>2)
			AND o.labels @> '{app.kubernetes.io/managed-by=kyverno}'
			AND (t."group" <> options."group" OR by_policy AND o.name ~ '^(chunk-[0-9]+-)?c?pol-')
		ORDER BY o.resource_type, o.namespace, o.name LIMIT max_reports
	), former AS (
		SELECT p.* FROM piece p WHERE p.resource_type = (SELECT min(p.resource_type) FROM piece p)
	)
	SELECT array_agg(kube_reports_internal.merge_request(f.resource_type, 'delete', f.namespace, f.name)
		ORDER BY f.namespace, f.name) AS deletions,
			array_agg(1::bigint) AS groups,
			(array_agg(json_build_array(f.resource_type, f.namespace, f.name)::text
				ORDER BY f.namespace DESC, f.name DESC))[1] AS last
		INTO step FROM former f;
	IF step.last IS NOT NULL THEN
		PERFORM kube_reports_internal.write_merge(cluster, NULL, NULL, NULL, '{1}', step.deletions, step.groups);
		PERFORM kube_reports_internal.queue_rest(options.cluster_id, 'o', '{""}', '{""}', '{1}',
			ARRAY[step.last], '{1}');
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.delete_former(uuid, kube_reports_internal.aggregation, text, integer)
	IS 'one step of deleting former policy reports that Kyverno manages: reports of another group, or reports of '
		'policies if there are reports of resources now. after: the key of the last report that was deleted, empty at '
		'first';

CREATE FUNCTION kube_reports_internal.write_merge(cluster uuid, requests jsonb[], documents bytea[],
	groups bigint[], unchanged bigint[],
		deletions jsonb[], deletion_groups bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	written		record;
	done		bigint[] := unchanged;
	largest		bigint;
	asking		boolean;
BEGIN
	SELECT max(octet_length(d)) INTO largest FROM unnest(documents) d;
	IF largest > kube_reports_internal.merge_max_bytes() THEN
		RAISE WARNING 'a merge could not be written: % bytes are more than clients may write', largest
			USING ERRCODE = 'program_limit_exceeded', DETAIL = 'What was to be merged stays.';
		SELECT array_agg(u.request), array_agg(u.document), array_agg(u.n) INTO requests, documents, groups
			FROM unnest(requests, documents, groups) u(request, document, n)
				WHERE octet_length(u.document) <= kube_reports_internal.merge_max_bytes();
	END IF;
	IF requests IS NOT NULL THEN
		SELECT * INTO written FROM kube_reports_internal.write_batch(cluster, requests, documents);
		-- A write that needs an answer of the engine has code -1, and the step is rolled back.  The questions about the
		-- reports to delete are asked in the same round.
		asking := kube_reports_internal.awaits_engine();
		-- Code 0: the namespace does not exist any more.
		done := done || ARRAY(SELECT u.n FROM unnest(groups, written.codes) u(n, code)
			WHERE u.code BETWEEN 200 AND 299 OR u.code = -1 AND asking);
		PERFORM kube_reports_internal.warn_of_refusals(written.codes, written.replies);
	END IF;
	SELECT array_agg(u.request) INTO requests FROM unnest(deletions, deletion_groups) u(request, n)
		WHERE u.n = ANY (done);
	IF requests IS NOT NULL THEN
		SELECT * INTO written FROM kube_reports_internal.write_batch(cluster, requests,
			array_fill(''::bytea, ARRAY[cardinality(requests)]));
		PERFORM kube_reports_internal.warn_of_refusals(written.codes, written.replies);
	END IF;
	RETURN done;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.write_merge(uuid, jsonb[], bytea[], bigint[], bigint[], jsonb[], bigint[])
	IS 'writes the merged reports, one for each group. Then it deletes the merged sources of those groups that were '
		'written or did not change; a group that could not be written keeps its sources. Returns the groups that are '
		'finished';

-- The proxy refuses requests of more than 3 MiB (--max-request-body-bytes): a controller could not write a larger
-- report back.
CREATE FUNCTION kube_reports_internal.merge_max_bytes() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 3000000;
COMMENT ON FUNCTION kube_reports_internal.merge_max_bytes()
	IS 'the bytes of the largest document that a merge writes: the limit of the API, less some room for metadata';

CREATE FUNCTION kube_reports_internal.merge_limit() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 100;
COMMENT ON FUNCTION kube_reports_internal.merge_limit() IS 'how many reports of one resource are merged in a step';

-- Merged reports may still exist, if Kyverno does not manage them or a finalizer holds them.  So the next step
-- continues after the last name; therefore a merge also ends.
CREATE FUNCTION kube_reports_internal.queue_rest(cluster_id integer, stage "char", namespaces text[], keys text[],
	unfinished bigint[], last_names text[],
		done bigint[]) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, queued_at, stage, namespace, key, after)
		SELECT $1, clock_timestamp() - a.delay, $2, namespaces[u.n], keys[u.n], u.name
		FROM kube_reports_internal.aggregation a, unnest(unfinished, last_names) u(n, name)
		WHERE a.cluster_id = $1 AND u.n = ANY (done);
END;
COMMENT ON FUNCTION kube_reports_internal.queue_rest(integer, "char", text[], text[], bigint[], text[], bigint[])
	IS 'queues the next step of the groups that may have more reports. unfinished: the numbers of these groups; '
		'last_names: the last merged report of each group; done: the groups that were written. The step is due at '
		'once, after the steps of groups that have waited longer';

CREATE FUNCTION kube_reports_internal.warn_of_refusals(codes integer[], replies bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	refused		record;
BEGIN
	SELECT u.code, kube_reports_internal.string_at(convert_from(u.reply, 'UTF8')::kube_reports.report,
		'message') AS message INTO refused
		FROM unnest(codes, replies) u(code, reply) WHERE u.code >= 400 LIMIT 1;
	IF FOUND THEN
		RAISE WARNING 'a merge could not be written: %', refused.message;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.warn_of_refusals(integer[], bytea[])
	IS 'warns about the first write of a merge that was refused';
