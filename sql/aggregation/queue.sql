-- queue.sql
--	  Aggregation: options, the queue, active policies, summaries.
--
-- A writer that logs a change of a report calls queue_aggregation() in the same transaction if reports of its type are
-- merged, as it calls record_results() for results.  After a delay, a proxy takes the entry from the queue, merges and
-- writes, all in one transaction (aggregation/kyverno_merge.sql): a crash leaves the queue as it was.
--
-- Locks: an advisory lock allows one merge of a cluster at a time; a caller only tries to take it.  Then a merge locks
-- the store and the lanes, as every writer does.

---- summaries ----

CREATE FUNCTION kube_reports.set_summaries(type text, filled boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored		integer;
	members		jsonb;
BEGIN
	SELECT t.id, coalesce(p.properties->'summary', p.properties#>'{spec,properties,summary}')->'properties' INTO stored,
		members
		FROM kube_reports.resource_type t
			JOIN LATERAL (SELECT v.definition::jsonb#>'{schema,properties}' AS properties
				FROM kube_reports_internal.resource_version v
				WHERE v.resource_type = t.id ORDER BY v.priority LIMIT 1) p ON true
		WHERE t.plural || '.' || t."group" = type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'type "%" is not registered', type
			USING ERRCODE = 'undefined_object', HINT = kube_reports_internal.type_hint(type);
	END IF;
	PERFORM kube_reports_internal.lock_store();
	-- Proxies of the SQL variant, and writers that wait for the lock, have to know in which types summaries are filled
	-- in: a new generation tells them.
	UPDATE kube_reports_internal.store s SET generation = s.generation + 1
		WHERE filled <> EXISTS (SELECT FROM kube_reports_internal.summary_type k WHERE k.resource_type = stored);
	IF NOT filled THEN
		DELETE FROM kube_reports_internal.summary_type s WHERE s.resource_type = stored;
		RETURN;
	END IF;
	IF members IS NULL OR NOT members ?& '{pass,fail,warn,error,skip}' THEN
		RAISE EXCEPTION 'type "%" has no summary of the policy working group''s format', type
			USING ERRCODE = 'invalid_parameter_value',
				DETAIL = 'Its schema has no summary, at the top or in spec, with pass, fail, warn, error and skip.';
	END IF;
	INSERT INTO kube_reports_internal.summary_type (resource_type)
		VALUES (stored) ON CONFLICT ON CONSTRAINT summary_type_pkey DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports.set_summaries(text, boolean)
	IS 'chooses whether each write to a type, named PLURAL.GROUP, fills in the summary that its producer left out. A '
		'summary that a producer gave stays as it is; verify() reports wrong ones. Raises 42704 for an unknown type, '
		'22023 for a type without such a summary';

CREATE FUNCTION kube_reports_internal.wrong_summaries()
	RETURNS TABLE (cluster_id integer, namespace text, name text, expected jsonb, found jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT o.cluster_id, o.namespace, o.name, c.counted::jsonb, c.found::jsonb
	FROM kube_reports_internal.summary_type s
		JOIN kube_reports.object o ON o.resource_type = s.resource_type
		CROSS JOIN LATERAL kube_reports_internal.count_summary(o.body) c
	WHERE EXISTS (SELECT FROM jsonb_each(c.counted::jsonb) e WHERE e.value <> coalesce(c.found::jsonb->e.key, '0'))
		-- An empty summary was left out by its writer.  The next write fills it in.
		AND c.found::jsonb <> '{}';
END;
COMMENT ON FUNCTION kube_reports_internal.wrong_summaries()
	IS 'reports of the types of set_summaries() whose summary differs from the counts of their results; a missing '
		'member counts as 0';

---- options ----

CREATE VIEW kube_reports.aggregation_options AS
	SELECT c.uid AS cluster, c.name AS cluster_name, a.admission, a.policy_reports, a."group", a.delay, a.chunk_size,
		a.follow_policies
	FROM kube_reports_internal.aggregation a JOIN kube_reports.cluster c ON c.id = a.cluster_id;
COMMENT ON VIEW kube_reports.aggregation_options
	IS 'what is aggregated in each cluster, as set_aggregation() has set it; a cluster without a row aggregates '
		'nothing';

CREATE FUNCTION kube_reports_internal.present_form(options kube_reports_internal.aggregation) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (options)."group" || '/' || (options).policy_reports;
COMMENT ON FUNCTION kube_reports_internal.present_form(kube_reports_internal.aggregation)
	IS 'the form of the policy reports that these options produce; the comment of the column forms lists the forms';

-- Counts the reports that delete_former() and merge_namespace() will find.
CREATE FUNCTION kube_reports_internal.count_former(options kube_reports_internal.aggregation) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT count(*)
	FROM kube_reports.resource_type t JOIN kube_reports.object o ON o.cluster_id = options.cluster_id
		AND o.resource_type = t.id
		CROSS JOIN LATERAL (SELECT o.name ~ '^(chunk-[0-9]+-)?c?pol-' AS by_policy) n
	WHERE options.policy_reports <> 'off' AND t.results = 'current'
		AND t."group" IN (SELECT split_part(f, '/', 1) FROM unnest(options.forms) f)
		AND o.labels @> '{app.kubernetes.io/managed-by=kyverno}'
		AND (t."group" <> options."group"
			OR options.policy_reports = 'resource' AND n.by_policy
				AND options."group" || '/policy' = ANY (options.forms)
			OR options.policy_reports = 'policy' AND NOT n.by_policy)
$$;
COMMENT ON FUNCTION kube_reports_internal.count_former(kube_reports_internal.aggregation)
	IS 'the number of policy reports managed by Kyverno that these options delete, because they are of another form';

CREATE FUNCTION kube_reports.set_aggregation(cluster uuid, admission boolean DEFAULT NULL,
	policy_reports text DEFAULT NULL,
		"group" text DEFAULT NULL, delay interval DEFAULT NULL, chunk_size integer DEFAULT NULL,
			follow_policies boolean DEFAULT NULL,
		dry_run boolean DEFAULT false)
	RETURNS kube_reports.aggregation_options
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := kube_reports_internal.known_cluster(cluster);
	before		kube_reports_internal.aggregation;
	stored		kube_reports_internal.aggregation;
	former		bigint := 0;
	options		kube_reports.aggregation_options;
BEGIN
	IF policy_reports NOT IN ('off', 'resource', 'policy') THEN
		RAISE EXCEPTION 'policy_reports cannot be "%"', policy_reports USING ERRCODE = 'check_violation',
			HINT = 'It is "off", "resource" or "policy".';
	END IF;
	IF "group" NOT IN ('wgpolicyk8s.io', 'openreports.io') THEN
		RAISE EXCEPTION 'policy reports of group "%" cannot be made', "group" USING ERRCODE = 'check_violation',
			HINT = 'The group is "wgpolicyk8s.io" or "openreports.io".';
	END IF;
	IF delay < '0' THEN
		RAISE EXCEPTION 'delay cannot be negative' USING ERRCODE = 'check_violation',
			HINT = 'It is an interval from 0 on.';
	END IF;
	IF chunk_size < 1 THEN
		RAISE EXCEPTION 'chunk_size cannot be %', chunk_size USING ERRCODE = 'check_violation',
			HINT = 'A report has at least 1 result.';
	END IF;
	PERFORM kube_reports_internal.require_read_committed();
	-- Wait for running steps, so that none continues with the old options.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.aggregation_lock(served));
	SELECT * INTO before FROM kube_reports_internal.aggregation a WHERE a.cluster_id = served;
	BEGIN
		INSERT INTO kube_reports_internal.aggregation (cluster_id)
			VALUES (served) ON CONFLICT ON CONSTRAINT aggregation_pkey DO NOTHING;
		UPDATE kube_reports_internal.aggregation a
			SET admission = coalesce(set_aggregation.admission, a.admission),
				policy_reports = coalesce(set_aggregation.policy_reports, a.policy_reports),
				"group" = coalesce(set_aggregation."group", a."group"),
				delay = coalesce(set_aggregation.delay, a.delay),
				chunk_size = coalesce(set_aggregation.chunk_size, a.chunk_size),
				follow_policies = coalesce(set_aggregation.follow_policies, a.follow_policies)
			WHERE a.cluster_id = served
			RETURNING a.* INTO stored;
		IF stored.policy_reports <> 'off' AND NOT kube_reports_internal.present_form(stored) = ANY (stored.forms) THEN
			UPDATE kube_reports_internal.aggregation a SET forms = a.forms || kube_reports_internal.present_form(stored)
				WHERE a.cluster_id = served
				RETURNING a.* INTO stored;
		END IF;
		IF (before.admission, before.policy_reports, before."group", before.chunk_size)
				IS DISTINCT FROM (stored.admission, stored.policy_reports, stored."group", stored.chunk_size) THEN
			PERFORM kube_reports_internal.queue_everything(served);
			former := kube_reports_internal.count_former(stored);
		END IF;
		IF dry_run THEN
			-- Roll the writes back.  Variables keep their values.
			RAISE EXCEPTION 'dry run' USING ERRCODE = 'KR000';
		END IF;
	EXCEPTION WHEN SQLSTATE 'KR000' THEN
		NULL;
	END;
	IF NOT dry_run AND before IS DISTINCT FROM stored THEN
		-- A writer that waits for the lock has decided whether to queue its change by the options before.
		PERFORM kube_reports_internal.lock_store();
		UPDATE kube_reports_internal.store SET generation = generation + 1;
	END IF;
	IF dry_run THEN
		RAISE NOTICE '% policy reports that Kyverno manages would be deleted: they are of another setting', former;
	ELSIF former > 0 THEN
		RAISE NOTICE '% policy reports that Kyverno manages are being deleted: they are of another setting', former
			USING HINT = 'set_aggregation(..., dry_run => true) tells how many it would be, and changes nothing.';
	END IF;
	SELECT c.uid, c.name, stored.admission, stored.policy_reports, stored."group", stored.delay, stored.chunk_size,
			stored.follow_policies
		INTO options FROM kube_reports.cluster c WHERE c.id = served;
	RETURN options;
END
$$;
COMMENT ON FUNCTION kube_reports.set_aggregation(uuid, boolean, text, text, interval, integer, boolean, boolean)
	IS 'sets what is aggregated in a cluster; an option that is null stays as it is. admission: the admission reports '
		'of a resource become one. policy_reports: off, resource (a report for each resource from ephemeral reports, '
		'as Kyverno since 1.11) or policy (one for each namespace and policy from admission and background scan '
		'reports, as earlier Kyverno). group: wgpolicyk8s.io or openreports.io. When policy_reports or group changes, '
		'the reports that were merged before are deleted, and a notice says how many. delay: how long changes are '
		'collected before a merge. chunk_size: results in a report of one policy. follow_policies: proxies find out '
		'which policies are active. dry_run: changes nothing. Returns all options. Raises 42704 for an unknown '
		'cluster, 23514 for wrong values';

---- the queue ----

CREATE FUNCTION kube_reports_internal.label_value(labels text[], key text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (SELECT substr(l, length(key) + 2) FROM unnest(labels) l WHERE starts_with(l, key || '=') LIMIT 1);
COMMENT ON FUNCTION kube_reports_internal.label_value(text[], text)
	IS 'the value of a label of an object; null without this label';

-- The groups that a report belongs to.  A deleted report is only in the group of its namespace.  An aggregated
-- admission report is not in the group of the reports that will be aggregated.  A background scan report is in that
-- group, because it may name the resource's owner.
CREATE FUNCTION kube_reports_internal.aggregation_groups(cluster_id integer, type_id integer, labels text[],
	old_labels text[], metadata kube_reports.report)
	RETURNS TABLE (stage "char", key text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT 'r'::"char", f.uid
		FROM kube_reports_internal.aggregation a, kube_reports.resource_type t,
			LATERAL kube_reports_internal.first_owner(metadata) f
		WHERE a.cluster_id = $1 AND a.policy_reports = 'resource' AND t.id = type_id
			AND t."group" = 'reports.kyverno.io' AND f.owners > 0
	UNION ALL
	SELECT 'a', kube_reports_internal.label_value(labels, 'audit.kyverno.io/resource.uid')
		FROM kube_reports_internal.aggregation a, kube_reports.resource_type t
		WHERE a.cluster_id = $1 AND a.admission AND t.id = type_id AND t."group" = 'kyverno.io'
			AND kube_reports_internal.label_value(labels, 'audit.kyverno.io/resource.uid') <> ''
			AND kube_reports_internal.label_value(labels, 'audit.kyverno.io/report.aggregate') IS NULL
			AND kube_reports_internal.label_value(labels, 'app.kubernetes.io/managed-by') = 'kyverno'
	UNION ALL
	SELECT 'p', ''
		FROM kube_reports_internal.aggregation a, kube_reports.resource_type t
		WHERE a.cluster_id = $1 AND a.policy_reports = 'policy' AND t.id = type_id AND t."group" = 'kyverno.io'
			AND (t.plural LIKE '%backgroundscanreports'
				OR kube_reports_internal.label_value(labels, 'audit.kyverno.io/report.aggregate') IS NOT NULL
				OR kube_reports_internal.label_value(old_labels, 'audit.kyverno.io/report.aggregate') IS NOT NULL);
END;
COMMENT ON FUNCTION kube_reports_internal.aggregation_groups(integer, integer, text[], text[], kube_reports.report)
	IS 'the groups to merge because of a report: its groups by its present labels and metadata (null: the report is '
		'deleted), and its groups by its former ones';

CREATE FUNCTION kube_reports_internal.queue_aggregation(lane integer, after_version bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The log grows faster than its statistics are updated: find its end by the index.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	last_version bigint;
BEGIN
	WITH changed AS MATERIALIZED (
		SELECT c.version, c.namespace, c.name, c.old_metadata FROM kube_reports_internal.change c
			WHERE c.lane = queue_aggregation.lane AND c.version > after_version
	), queued AS (
		INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
			SELECT DISTINCT l.cluster_id, g.stage, c.namespace, g.key
			FROM kube_reports_internal.lane l CROSS JOIN changed c
				LEFT JOIN LATERAL (SELECT o.labels, o.metadata FROM kube_reports.object o
					WHERE o.cluster_id = l.cluster_id AND o.resource_type = l.resource_type
						AND o.namespace = c.namespace AND o.name = c.name
					LIMIT 1) o ON true
				CROSS JOIN LATERAL kube_reports_internal.aggregation_groups(l.cluster_id, l.resource_type, o.labels,
					kube_reports.label_terms(c.old_metadata), o.metadata) g
			WHERE l.id = queue_aggregation.lane
	)
	SELECT max(c.version) INTO last_version FROM changed c;
	RETURN greatest(after_version, last_version);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.queue_aggregation(integer, bigint)
	IS 'queues the groups of the reports that changed in a lane. A function that has logged changes of a lane calls '
		'it in the same transaction if the cluster of the lane is aggregated. Returns the last version that was read';

CREATE FUNCTION kube_reports_internal.queue_everything(cluster_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM kube_reports_internal.aggregation_queue q WHERE q.cluster_id = queue_everything.cluster_id;
	INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, queued_at, stage, namespace, key)
		VALUES (queue_everything.cluster_id, '-infinity', 'e', '', '');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.queue_everything(integer)
	IS 'queues all groups of a cluster that its options say are merged, step by step: after the options changed, or '
		'after a restore';

CREATE FUNCTION kube_reports_internal.queue_piece(cluster_id integer, after text, max_objects integer DEFAULT 2000)
	RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	types		integer[] := ARRAY(SELECT t.id FROM kube_reports.resource_type t
		WHERE t."group" IN ('reports.kyverno.io', 'kyverno.io'));
	last		json := coalesce(nullif(after, ''), '[0, "", ""]');
	step		record;
BEGIN
	-- Wait once for writers that do not see the options yet: their reports are found here.  Later writers queue their
	-- reports.
	IF after = '' THEN
		PERFORM kube_reports_internal.lock_store();
	END IF;
	DELETE FROM kube_reports_internal.aggregation_queue q WHERE q.cluster_id = queue_piece.cluster_id AND q.stage = 'e';
	WITH piece AS MATERIALIZED (
		SELECT o.resource_type, o.namespace, o.name, o.labels, o.metadata
		FROM kube_reports.object o
		WHERE o.cluster_id = queue_piece.cluster_id AND o.resource_type = ANY (types)
			AND (o.resource_type, o.namespace, o.name) > ((last->>0)::integer, last->>1, last->>2)
		ORDER BY o.resource_type, o.namespace, o.name LIMIT max_objects
	), queued AS (
		INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
			SELECT DISTINCT queue_piece.cluster_id, g.stage, p.namespace, g.key
			FROM piece p CROSS JOIN LATERAL kube_reports_internal.aggregation_groups(queue_piece.cluster_id,
				p.resource_type, p.labels, NULL, p.metadata) g
	)
	SELECT count(*) AS count, (array_agg(json_build_array(p.resource_type, p.namespace, p.name)::text
			ORDER BY p.resource_type DESC, p.namespace DESC, p.name DESC))[1] AS last
		INTO step FROM piece p;
	IF step.count = max_objects THEN
		INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, queued_at, stage, namespace, key, after)
			VALUES (queue_piece.cluster_id, '-infinity', 'e', '', '', step.last);
	ELSE
		PERFORM kube_reports_internal.queue_for_policies(queue_piece.cluster_id);
		INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
			SELECT a.cluster_id, 'o', '', '' FROM kube_reports_internal.aggregation a
			WHERE a.cluster_id = queue_piece.cluster_id AND a.policy_reports <> 'off'
				AND a.forms <> ARRAY[kube_reports_internal.present_form(a)];
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.queue_piece(integer, text, integer)
	IS 'one step of queue_everything(). after: the key of the last object of the step before, empty at first';

---- active policies ----

CREATE FUNCTION kube_reports_internal.has_own_kind(source text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN source IN ('KyvernoValidatingPolicy', 'KyvernoImageValidatingPolicy', 'KyvernoGeneratingPolicy',
	'KyvernoMutatingPolicy',
	'ValidatingAdmissionPolicy', 'MutatingAdmissionPolicy');
COMMENT ON FUNCTION kube_reports_internal.has_own_kind(text)
	IS 'whether the policies of this source are of a kind of their own, which has one result for a resource whatever '
		'the name of the rule; the policies of other sources are ClusterPolicy and Policy';

-- A merge deletes the sources of a resource's report, so a change of policies can only remove results from that report:
-- reports with results of inactive policies are queued.  While results are derived again after a restore, they are
-- incomplete, so all reports are queued.  The sources of a namespace's reports still exist, so all of these reports are
-- merged again.
CREATE FUNCTION kube_reports_internal.queue_for_policies(cluster_id integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	pending		boolean := EXISTS (SELECT FROM kube_reports_internal.result_rebuild b
		JOIN kube_reports_internal.lane l ON l.id = b.lane
		WHERE l.cluster_id = queue_for_policies.cluster_id);
BEGIN
	INSERT INTO kube_reports_internal.aggregation_queue (cluster_id, stage, namespace, key)
		SELECT DISTINCT a.cluster_id, 'r'::"char", o.namespace, o.name
		FROM kube_reports_internal.aggregation a
			JOIN kube_reports_internal.active_policy_set s ON s.cluster_id = a.cluster_id
			JOIN kube_reports.resource_type t ON t."group" = a."group" AND t.results = 'current'
			CROSS JOIN LATERAL (SELECT g.namespace, g.name
					FROM kube_reports_internal.criterion c
						JOIN kube_reports_internal.result r ON r.criterion = c.id AND r.cluster_id = a.cluster_id
						JOIN kube_reports_internal.origin g ON g.id = r.origin AND g.resource_type = t.id
					WHERE NOT pending AND NOT kube_reports_internal.is_active(a.cluster_id, c.source, c.policy, c.rule)
				UNION ALL
				-- The results of these reports are not known yet.
				SELECT p.namespace, p.name
					FROM kube_reports_internal.result_pending p JOIN kube_reports_internal.lane l ON l.id = p.lane
					WHERE NOT pending AND l.cluster_id = a.cluster_id AND l.resource_type = t.id
				UNION ALL
				SELECT o.namespace, o.name FROM kube_reports.object o
					WHERE pending AND o.cluster_id = a.cluster_id AND o.resource_type = t.id) k
			JOIN kube_reports.object o ON o.cluster_id = a.cluster_id AND o.resource_type = t.id
				AND o.namespace = k.namespace AND o.name = k.name
				AND o.labels @> '{app.kubernetes.io/managed-by=kyverno}'
		WHERE a.cluster_id = queue_for_policies.cluster_id AND a.policy_reports = 'resource'
		UNION ALL
		-- Include namespaces with only merged reports: the sources of these reports may be gone.
		SELECT DISTINCT a.cluster_id, 'p'::"char", o.namespace, ''
		FROM kube_reports_internal.aggregation a
			JOIN kube_reports.resource_type t ON t."group" = 'kyverno.io' OR t."group" = a."group"
				AND t.results = 'current'
			JOIN kube_reports.object o ON o.cluster_id = a.cluster_id AND o.resource_type = t.id
				AND (t."group" = 'kyverno.io' OR o.labels @> '{app.kubernetes.io/managed-by=kyverno}')
		WHERE a.cluster_id = queue_for_policies.cluster_id AND a.policy_reports = 'policy';
END
$$;
COMMENT ON FUNCTION kube_reports_internal.queue_for_policies(integer)
	IS 'queues the groups whose reports may change because the active policies changed: groups with results of '
		'policies that are not active, or all groups if reports are made from sources that still exist';

CREATE FUNCTION kube_reports.set_active_policies(cluster uuid, policies jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	served		integer := kube_reports_internal.known_cluster(cluster);
	wrong		jsonb;
	changes		bigint;
	step		bigint;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	-- A running merge sees either the old set or the whole new one.
	PERFORM pg_advisory_xact_lock(kube_reports_internal.lock_class(), kube_reports_internal.aggregation_lock(served));
	IF policies IS NULL THEN
		DELETE FROM kube_reports_internal.active_policy_set s WHERE s.cluster_id = served;
		PERFORM kube_reports_internal.queue_for_policies(served);
		RETURN NULL;
	END IF;
	IF jsonb_typeof(policies) <> 'array' THEN
		RAISE EXCEPTION 'active policies are an array' USING ERRCODE = 'invalid_parameter_value';
	END IF;
	SELECT e.policy INTO wrong FROM jsonb_array_elements(policies) e(policy)
		-- Refuse unknown members: a misspelled member would make merges drop results.  A version becomes a label's
		-- value.
		WHERE CASE WHEN jsonb_typeof(e.policy) <> 'object' THEN true
			ELSE e.policy - '{policy,source,rules,version}'::text[] <> '{}' END
			OR jsonb_typeof(e.policy->'policy') IS DISTINCT FROM 'string'
			OR jsonb_typeof(coalesce(e.policy->'source', '""')) <> 'string'
			OR jsonb_typeof(coalesce(e.policy->'version', '""')) <> 'string'
			OR e.policy->>'version' !~ '^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$'
			OR jsonb_typeof(coalesce(e.policy->'rules', '[]')) NOT IN ('array', 'null')
			OR jsonb_path_exists(e.policy, '$.rules[*] ? (@.type() != "string")') LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'an active policy is not described as it must be'
			USING ERRCODE = 'invalid_parameter_value', DETAIL = wrong::text,
				HINT = 'Each has "policy" (name, or namespace/name), may have "source", "rules" (an array of names) '
					'and "version" (as the value of a label), and nothing else.';
	END IF;

	INSERT INTO kube_reports_internal.active_policy_set AS s (cluster_id, changed_at) VALUES (served, clock_timestamp())
		ON CONFLICT ON CONSTRAINT active_policy_set_pkey DO NOTHING;
	GET DIAGNOSTICS changes = ROW_COUNT;
	WITH wanted AS (
		SELECT CASE WHEN kube_reports_internal.has_own_kind(e.policy->>'source') THEN e.policy->>'source'
			ELSE '' END AS source, e.policy->>'policy' AS policy,
			CASE WHEN bool_and(jsonb_typeof(e.policy->'rules') = 'array'
				AND NOT coalesce(kube_reports_internal.has_own_kind(e.policy->>'source'), false))
				THEN coalesce(array_agg(DISTINCT r.rule ORDER BY r.rule) FILTER (WHERE r.rule IS NOT NULL), '{}') END AS
					rules,
			max(e.policy->>'version') AS version
		FROM jsonb_array_elements(policies) e(policy)
			LEFT JOIN LATERAL jsonb_array_elements_text(CASE jsonb_typeof(e.policy->'rules')
				WHEN 'array' THEN e.policy->'rules' ELSE '[]' END) r(rule) ON true
		GROUP BY 1, 2
	), gone AS (
		DELETE FROM kube_reports_internal.active_policy p
			WHERE p.cluster_id = served AND NOT EXISTS (SELECT FROM wanted w
				WHERE (w.source, w.policy) = (p.source, p.policy))
			RETURNING 1
	), there AS (
		INSERT INTO kube_reports_internal.active_policy (cluster_id, source, policy, rules, version)
			SELECT served, w.source, w.policy, w.rules, w.version FROM wanted w
				-- Proxies repeat their sets: unchanged rows are not even locked.
				WHERE NOT EXISTS (SELECT FROM kube_reports_internal.active_policy a
					WHERE (a.cluster_id, a.source, a.policy) = (served, w.source, w.policy)
					AND (a.rules, a.version) IS NOT DISTINCT FROM (w.rules, w.version))
			ON CONFLICT ON CONSTRAINT active_policy_pkey DO UPDATE SET rules = excluded.rules,
				version = excluded.version
			RETURNING 1
	)
	SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM there) INTO step;
	changes := changes + step;
	IF changes > 0 THEN
		UPDATE kube_reports_internal.active_policy_set s SET changed_at = clock_timestamp() WHERE s.cluster_id = served;
		PERFORM kube_reports_internal.queue_for_policies(served);
	END IF;
	RETURN (SELECT count(*) FROM kube_reports_internal.active_policy p WHERE p.cluster_id = served);
END
$$;
COMMENT ON FUNCTION kube_reports.set_active_policies(uuid, jsonb)
	IS 'sets the policies of a cluster whose results count from now on; reports with results of other policies are '
		'merged again. policies: an array of objects with the members policy (name, or namespace/name), source (as '
		'results name it; by default ClusterPolicy and Policy), rules (names, including those for pod controllers; by '
		'default any) and version (resourceVersion of the policy, for labels), and no other member. Null: the '
		'policies are not known, and no result is dropped. Returns how many there are. Raises 42704 for an unknown '
		'cluster, 22023 for anything else';

---- steps ----

-- A group that has failed is retried alone, so that it cannot make others fail.  New entries of the group wait with it.
-- A group takes one step at a time, its oldest entry first.
CREATE FUNCTION kube_reports_internal.due_groups(cluster_id integer, due timestamptz, max_groups integer,
		OUT stage "char", OUT namespaces text[], OUT keys text[], OUT afters text[])
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH waiting AS MATERIALIZED (
		SELECT q.stage, q.namespace, q.key, q.after, q.queued_at, f.failed
		FROM kube_reports_internal.aggregation_queue q
			CROSS JOIN LATERAL (SELECT count(*) > 0 AS failed, coalesce(bool_or(f.queued_at > $2), false) AS deferred
				FROM kube_reports_internal.aggregation_queue f
				WHERE (f.cluster_id, f.stage, f.namespace, f.key) = (q.cluster_id, q.stage, q.namespace, q.key)
					AND f.attempts > 0) f
		WHERE q.cluster_id = $1 AND q.queued_at <= $2 AND NOT f.deferred
		ORDER BY q.queued_at LIMIT max_groups * 20
	), first AS (
		SELECT w.* FROM waiting w ORDER BY w.queued_at LIMIT 1
	), step AS (
		SELECT DISTINCT ON (w.namespace, w.key) w.*
		FROM first f JOIN waiting w ON w.stage = f.stage AND (w.namespace = '') = (f.namespace = '')
		WHERE NOT w.failed AND NOT f.failed OR (w.namespace, w.key) = (f.namespace, f.key)
		ORDER BY w.namespace, w.key, w.queued_at
	)
	SELECT min(s.stage), array_agg(s.namespace), array_agg(s.key), array_agg(s.after)
		FROM (SELECT s.* FROM step s ORDER BY s.queued_at
			LIMIT (SELECT CASE f.stage WHEN 'p' THEN 1 ELSE max_groups END FROM first f)) s;
END;
COMMENT ON FUNCTION kube_reports_internal.due_groups(integer, timestamptz, integer)
	IS 'the groups to merge next in a cluster, of the groups queued until due: groups of one stage and scope, the '
		'oldest first. All columns are null if there is no group';

CREATE FUNCTION kube_reports_internal.defer_groups(cluster_id integer, stage "char", namespaces text[], keys text[])
	RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	UPDATE kube_reports_internal.aggregation_queue q
		SET attempts = k.attempts, queued_at = clock_timestamp() + interval '5 seconds' * 2 ^ least(k.attempts, 7)
		FROM (SELECT k.namespace, k.key, max(f.attempts) + 1 AS attempts
			FROM unnest(namespaces, keys) k(namespace, key)
				JOIN kube_reports_internal.aggregation_queue f ON f.cluster_id = $1 AND f.stage = $2
					AND f.namespace = k.namespace AND f.key = k.key
			GROUP BY k.namespace, k.key) k
		WHERE q.cluster_id = $1 AND q.stage = $2 AND q.namespace = k.namespace AND q.key = k.key;
END;
COMMENT ON FUNCTION kube_reports_internal.defer_groups(integer, "char", text[], text[])
	IS 'puts off groups that could not be merged: by their delay and ten seconds more; each further failure doubles '
		'the ten seconds, up to eleven minutes';

CREATE FUNCTION kube_reports.aggregate(cluster uuid, at_once boolean DEFAULT false, max_groups integer DEFAULT 10)
	RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- These settings also hold for the functions that aggregate() calls: a step reads a few rows of tables that change
-- faster than their statistics are updated.
SET enable_seqscan = off
SET jit = off
SET lock_timeout = '2s'
AS $$
DECLARE
	served		integer := kube_reports_internal.named_cluster(cluster);
	options		kube_reports_internal.aggregation;
	groups		record;
BEGIN
	PERFORM kube_reports_internal.require_read_committed(),
		kube_reports_internal.checked_count('max_groups', max_groups);
	-- Without the engine each merge would fail, and would be put off like a merge that may fail again.
	IF NOT kube_reports_internal.has_engine() THEN
		RAISE EXCEPTION 'reports are merged by the engine, which runs in the proxy'
			USING ERRCODE = 'feature_not_supported',
				DETAIL = 'The extension is installed in its SQL variant.',
				HINT = 'The upkeep of a proxy merges.';
	END IF;
	IF NOT EXISTS (SELECT FROM kube_reports_internal.aggregation a WHERE a.cluster_id = served)
		OR NOT pg_try_advisory_xact_lock(kube_reports_internal.lock_class(),
			kube_reports_internal.aggregation_lock(served)) THEN
		RETURN false;
	END IF;
	SELECT a.* INTO options FROM kube_reports_internal.aggregation a WHERE a.cluster_id = served;
	SELECT * INTO groups FROM kube_reports_internal.due_groups(served,
		CASE WHEN at_once THEN 'infinity' ELSE clock_timestamp() - options.delay END, max_groups);
	RETURN groups.stage IS NOT NULL
		AND kube_reports_internal.merge_or_defer(cluster, options, groups.stage, groups.namespaces,
			groups.keys, groups.afters);
END
$$;
COMMENT ON FUNCTION kube_reports.aggregate(uuid, boolean, integer)
	IS 'one step of aggregation in a cluster: merges at most max_groups waiting groups, or finds groups to merge. '
		'at_once: also groups whose delay is not over, and failed groups that wait to be tried again. True when the '
		'step did something. One caller at a time. Raises 22023 for max_groups below 1, 42704 for an unknown cluster';

CREATE FUNCTION kube_reports_internal.merge_or_defer(cluster uuid, options kube_reports_internal.aggregation,
	stage "char", namespaces text[], keys text[], afters text[])
	RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.merge_groups(cluster, options, stage, namespaces, keys, afters);
	RETURN true;
EXCEPTION
	WHEN lock_not_available OR transaction_rollback THEN
		-- Writers have priority.  Defer all groups of the same lanes, because they would wait for the same lock.
		UPDATE kube_reports_internal.aggregation_queue q SET queued_at = greatest(q.queued_at, clock_timestamp())
			WHERE q.cluster_id = options.cluster_id AND q.stage = merge_or_defer.stage
				AND (q.namespace = '') = (namespaces[1] = '');
		RETURN false;
	WHEN insufficient_resources OR operator_intervention OR system_error THEN
		-- One of the groups may be too large for the server's present resources.
		RAISE WARNING 'reports could not be merged for now: %', SQLERRM USING ERRCODE = SQLSTATE;
		PERFORM kube_reports_internal.defer_groups(options.cluster_id, stage, namespaces, keys);
		RETURN false;
	WHEN SQLSTATE 'KR001' THEN
		RAISE;		-- the engine is asked: see types/engine_sql.sql
	WHEN others THEN
		-- Retry the groups one by one, so that a failing group does not block the others.
		IF cardinality(keys) > 1 THEN
			FOR n IN 1 .. cardinality(keys) LOOP
				PERFORM kube_reports_internal.merge_or_defer(cluster, options, stage, namespaces[n : n],
					keys[n : n], afters[n : n]);
			END LOOP;
			RETURN true;
		END IF;
		RAISE WARNING 'reports of "%" in namespace "%" could not be merged: %', keys[1], namespaces[1],
			SQLERRM USING ERRCODE = SQLSTATE;
		IF stage IN ('e', 'o') THEN
			PERFORM kube_reports_internal.defer_groups(options.cluster_id, stage, namespaces, keys);
			RETURN false;
		END IF;
		DELETE FROM kube_reports_internal.aggregation_queue q
			WHERE (q.cluster_id, q.stage, q.namespace, q.key) = (options.cluster_id, merge_or_defer.stage,
				namespaces[1], keys[1]);
		RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.merge_or_defer(uuid, kube_reports_internal.aggregation, "char",
	text[], text[], text[])
	IS 'merges groups. A group that cannot be merged now is tried again later. A group that can never be merged is '
		'dropped from the queue, with a warning, until one of its reports changes. Returns false only if all groups '
		'have to wait';

CREATE FUNCTION kube_reports_internal.aggregate_piece(cluster uuid, policies_known boolean,
		caller kube_reports_internal.caller DEFAULT kube_reports_internal.this_caller(),
		OUT more boolean, OUT follow_policies boolean, OUT policies_stored boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT a.follow_policies AND a.policy_reports <> 'off', s.cluster_id
		IS NOT NULL INTO follow_policies, policies_stored
		FROM kube_reports_internal.aggregation a
			JOIN kube_reports.cluster c ON c.id = a.cluster_id
			LEFT JOIN kube_reports_internal.active_policy_set s ON s.cluster_id = a.cluster_id
		WHERE c.uid = cluster AND kube_reports_internal.may_serve(c.id, caller) AND NOT pg_is_in_recovery();
	IF NOT FOUND THEN
		SELECT false, false, false INTO more, follow_policies, policies_stored;
		RETURN;
	END IF;
	-- Without known policies do not merge: the stored set may be long out of date, and a merge that drops results by
	-- mistake loses them.
	more := (policies_known OR NOT follow_policies) AND kube_reports.aggregate(cluster);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.aggregate_piece(uuid, boolean, kube_reports_internal.caller)
	IS 'aggregate() for a proxy. policies_known: the proxy has stored the active policies, or cannot read them. '
		'follow_policies: the proxy must read the policies; policies_stored: some proxy has stored them';

CREATE PROCEDURE kube_reports_internal.api_aggregate(cluster uuid, policies_known boolean, INOUT more boolean,
	INOUT follow_policies boolean, INOUT policies_stored boolean)
LANGUAGE plpgsql
AS $$
BEGIN
	SELECT p.more, p.follow_policies, p.policies_stored INTO more, follow_policies, policies_stored
		FROM kube_reports_internal.aggregate_piece(cluster, policies_known) p;
	COMMIT;
END
$$;
COMMENT ON PROCEDURE kube_reports_internal.api_aggregate(uuid, boolean, boolean, boolean, boolean)
	IS 'aggregate_piece() in a transaction of its own';
