-- registry.sql
--	  Types: registering, unregistering, lanes.

-- Every cluster has a lane for every type.  A new lane begins at a version of its own, so that an empty list has a
-- version.
CREATE FUNCTION kube_reports_internal.make_lanes() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_incarnation();
	PERFORM kube_reports_internal.begin_own_write();
	INSERT INTO kube_reports_internal.lane (cluster_id, resource_type, floor, store)
		SELECT c.id, t.id, nextval('kube_reports_internal.version_seq'), s.identity
		FROM kube_reports.cluster c CROSS JOIN kube_reports.resource_type t CROSS JOIN kube_reports_internal.store s
		WHERE NOT c.removing AND NOT EXISTS (SELECT FROM kube_reports_internal.lane l WHERE l.cluster_id = c.id
			AND l.resource_type = t.id)
		ORDER BY c.id, t.id;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.make_lanes()
	IS 'makes the missing lanes; the caller holds the store lock';

CREATE FUNCTION kube_reports_internal.store_type(type_id integer, crd kube_reports.report, results text,
	builtin boolean) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	defined		jsonb := kube_reports_internal.crd_definitions(crd);
	stored		kube_reports.resource_type;
	known		kube_reports_internal.known_mapping;
	new_mapping	kube_reports.report;
	mapped_anew	boolean;
BEGIN
	SELECT * INTO stored FROM kube_reports.resource_type t
		WHERE t."group" = defined->>'group' AND t.plural = defined->>'plural';
	SELECT * INTO known FROM kube_reports_internal.known_mapping k
		WHERE k."group" = defined->>'group' AND k.plural = defined->>'plural';
	results := coalesce(results, stored.results, known.results, 'none');
	-- The mapping of a built-in type cannot be set.
	new_mapping := CASE WHEN builtin THEN known.mapping ELSE coalesce(stored.mapping, known.mapping) END;
	IF results <> 'none' AND new_mapping IS NULL THEN
		RAISE EXCEPTION 'it is not known where the results of type "%.%" stand', defined->>'plural', defined->>'group'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Register it without results, then call set_results_mapping().';
	END IF;
	IF stored.id IS NULL THEN
		INSERT INTO kube_reports.resource_type AS t (id, "group", plural, kind, namespaced, results, builtin,
			crd, mapping_id, mapping)
			VALUES (coalesce(type_id, nextval('kube_reports_internal.resource_type_id_seq')),
				defined->>'group', defined->>'plural',
				defined->>'kind', defined->>'scope' = 'Namespaced', store_type.results,
					store_type.builtin, store_type.crd,
				CASE WHEN new_mapping IS NOT NULL THEN nextval('kube_reports_internal.definition_id_seq') END,
					new_mapping)
			RETURNING * INTO stored;
	ELSE
		IF stored.builtin <> builtin THEN
			RAISE EXCEPTION 'type "%.%" is %', stored.plural,
				stored."group", CASE WHEN builtin THEN 'registered already' ELSE 'built in' END
				USING ERRCODE = 'duplicate_object', HINT =
					'Built-in types come and change with the version of the extension.';
		END IF;
		IF stored.namespaced <> (defined->>'scope' = 'Namespaced') OR stored.kind <> defined->>'kind' THEN
			RAISE EXCEPTION 'cannot change scope or kind of type "%.%"', stored.plural, stored."group"
				USING ERRCODE = 'object_not_in_prerequisite_state',
					HINT = 'Unregister the type first.';
		END IF;
		mapped_anew := stored.mapping::jsonb IS DISTINCT FROM new_mapping::jsonb;
		UPDATE kube_reports.resource_type t SET crd = store_type.crd, results = store_type.results,
				mapping_id = CASE WHEN new_mapping IS NULL THEN NULL
					WHEN mapped_anew THEN nextval('kube_reports_internal.definition_id_seq') ELSE t.mapping_id END,
				mapping = new_mapping
			WHERE t.id = stored.id;
		IF results <> stored.results OR mapped_anew AND results <> 'none' THEN
			-- For a built-in type later: the first proxy after an update must not wait for it.
			PERFORM kube_reports_internal.remake_results(stored.id, at_once => NOT builtin);
		END IF;
		DELETE FROM kube_reports_internal.resource_version v WHERE v.resource_type = stored.id;
	END IF;
	INSERT INTO kube_reports_internal.resource_version (resource_type, version, priority, builtin, definition)
		SELECT stored.id, d.definition->>'version', d.position, store_type.builtin, d.definition::kube_reports.report
		FROM jsonb_array_elements(defined->'versions') WITH ORDINALITY d(definition, position)
		ORDER BY d.position;
	RETURN stored.id;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.store_type(integer, kube_reports.report, text, boolean)
	IS 'adds or replaces a type. results null: the type keeps its value, or gets the value that is known for it; the '
		'caller holds the store lock';

CREATE FUNCTION kube_reports_internal.object_given(given jsonb, what text) RETURNS kube_reports.report
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF given IS NULL OR jsonb_typeof(given) <> 'object' THEN
		RAISE EXCEPTION '% is a JSON object, not %', what, coalesce(CASE jsonb_typeof(given) WHEN 'null' THEN 'null'
				WHEN 'array' THEN 'an array' ELSE 'a ' || jsonb_typeof(given) END, 'null')
			USING ERRCODE = 'KR422';
	END IF;
	RETURN given::kube_reports.report;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.object_given(jsonb, text)
	IS 'a JSON object as the engine reads it. Raises KR422 for any other value; what: the name of what is expected';

CREATE FUNCTION kube_reports.register_crd(crd jsonb, results text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	type_id		integer;
	unevaluated	record;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	type_id := kube_reports_internal.store_type(NULL,
		kube_reports_internal.object_given(crd, 'a CustomResourceDefinition'), results, false);
	FOR unevaluated IN SELECT v.version, string_agg(r.rule, E'\n' ORDER BY r.position) AS rules
			FROM kube_reports_internal.resource_version v,
				jsonb_array_elements_text(v.definition::jsonb->'unevaluatedRules') WITH ORDINALITY r(rule, position)
			WHERE v.resource_type = type_id
			GROUP BY v.version ORDER BY v.version
	LOOP
		RAISE WARNING 'x-kubernetes-validations of %.%, version %, are not evaluated',
				crd#>>'{spec,names,plural}', crd#>>'{spec,group}', unevaluated.version
			USING DETAIL = unevaluated.rules, ERRCODE = 'feature_not_supported',
				HINT = 'Documents that these rules refuse are stored. Every write of the type through the API is '
					'answered with a warning.';
	END LOOP;
	PERFORM kube_reports_internal.make_lanes();
	UPDATE kube_reports_internal.store SET generation = generation + 1;
	RETURN type_id;
END
$$;
COMMENT ON FUNCTION kube_reports.register_crd(jsonb, text)
	IS 'lets every proxy serve the types of a CustomResourceDefinition from now on; for a known type replaces the '
		'schema. results: current, intermediate or none; without it the type keeps its mapping, or gets the one that '
		'is known for it (Trivy, Compliance Operator), else none. Raises KR422 with the JSON path of what is wrong or '
		'not supported. A WARNING names the CEL rules, which are not evaluated';

-- Only the spec is kept: metadata and status of a CustomResourceDefinition change all the time.  A definition is
-- unchanged if it defines the same type, because kube-apiserver adds defaults to the text of a file.
CREATE FUNCTION kube_reports.register_crds(crds jsonb[],
	OUT type text, OUT versions text[], OUT results text, OUT change text, OUT unevaluated text[]) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	given		jsonb;
	stored		kube_reports.resource_type;
	made		integer;
	changed		boolean := false;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	FOREACH given IN ARRAY coalesce(crds, '{}') LOOP
		PERFORM kube_reports_internal.object_given(given, 'a CustomResourceDefinition');
		given := jsonb_build_object('apiVersion', given->'apiVersion', 'kind', given->'kind',
			'metadata', jsonb_build_object('name', given#>'{metadata,name}'), 'spec', given->'spec');
		SELECT t.* INTO stored FROM kube_reports.resource_type t
			WHERE t."group" = given#>>'{spec,group}' AND t.plural = given#>>'{spec,names,plural}';
		made := stored.id;
		change := CASE WHEN stored.id IS NULL THEN 'new' WHEN stored.builtin THEN 'built in' ELSE 'unchanged' END;
		IF stored.id IS NULL THEN
			made := kube_reports_internal.store_type(NULL, given::kube_reports.report, NULL, false);
		ELSIF NOT stored.builtin AND kube_reports_internal.crd_definitions(given::kube_reports.report)->'versions'
			IS DISTINCT FROM (SELECT jsonb_agg(v.definition::jsonb ORDER BY v.priority)
				FROM kube_reports_internal.resource_version v WHERE v.resource_type = stored.id) THEN
			PERFORM kube_reports_internal.store_type(NULL, given::kube_reports.report, NULL, false);
			change := 'changed';
		END IF;
		changed := changed OR change IN ('new', 'changed');
		SELECT t.plural || '.' || t."group", t.results INTO type, results FROM kube_reports.resource_type t
			WHERE t.id = made;
		SELECT array_agg(v.version ORDER BY v.priority),
				coalesce((SELECT array_agg(DISTINCT r.rule) FROM kube_reports_internal.resource_version w,
					jsonb_array_elements_text(w.definition::jsonb->'unevaluatedRules') r(rule)
					WHERE w.resource_type = made), '{}')
			INTO versions, unevaluated
			FROM kube_reports_internal.resource_version v WHERE v.resource_type = made;
		RETURN NEXT;
	END LOOP;
	IF changed THEN
		PERFORM kube_reports_internal.make_lanes();
		UPDATE kube_reports_internal.store SET generation = generation + 1;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports.register_crds(jsonb[])
	IS 'register_crd() for several CustomResourceDefinitions, all or none, with the results that each type has or is '
		'known to have. A row for each type: new, changed, unchanged, or built in, which does not change; '
		'unevaluated: its CEL rules. kube-reports-proxy register calls this function. Raises KR422 as register_crd() '
		'does';

-- Derives the results of stored objects at once: the lock keeps writers out until the end.
CREATE FUNCTION kube_reports.set_results_mapping(type text, mapping jsonb, results text DEFAULT 'current') RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored		kube_reports.resource_type;
	checked		kube_reports.report;
BEGIN
	PERFORM kube_reports_internal.require_read_committed();
	IF mapping IS NULL OR results IS NULL OR results NOT IN ('current', 'intermediate', 'none') THEN
		RAISE EXCEPTION 'a mapping says where results stand, and results are "current", "intermediate" or "none"'
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'register_crd(crd, ''none'') forgets the results of a type.';
	END IF;
	PERFORM kube_reports_internal.lock_store();
	SELECT * INTO stored FROM kube_reports.resource_type t WHERE t.plural || '.' || t."group" = type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'type "%" is not registered', type
			USING ERRCODE = 'undefined_object', HINT = kube_reports_internal.type_hint(type);
	END IF;
	IF stored.builtin THEN
		RAISE EXCEPTION 'type "%" is built in', type
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Built-in types change with the version of the extension.';
	END IF;
	checked := kube_reports_internal.check_results_mapping(
		kube_reports_internal.object_given(mapping, 'a mapping of results'), type);
	UPDATE kube_reports.resource_type t
		SET mapping_id = nextval('kube_reports_internal.definition_id_seq'), mapping = checked,
			results = set_results_mapping.results
		WHERE t.id = stored.id;
	UPDATE kube_reports_internal.store SET generation = generation + 1;
	PERFORM kube_reports_internal.remake_results(stored.id);
END
$$;
COMMENT ON FUNCTION kube_reports.set_results_mapping(text, jsonb, text)
	IS 'sets where the results of a type, named PLURAL.GROUP, are in its documents, and derives the results of stored '
		'objects. results: current, intermediate or none; raises 22023 for another word. Raises KR422 with the path '
		'of what is wrong in the mapping';

CREATE FUNCTION kube_reports.unregister(type text, delete_objects boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored		kube_reports.resource_type;
	objects		bigint;
BEGIN
	PERFORM kube_reports_internal.lock_store();
	SELECT * INTO stored FROM kube_reports.resource_type t WHERE t.plural || '.' || t."group" = type;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'type "%" is not registered', type
			USING ERRCODE = 'undefined_object', HINT = kube_reports_internal.type_hint(type);
	END IF;
	IF stored.builtin THEN
		RAISE EXCEPTION 'type "%" is built in', type USING ERRCODE = 'object_not_in_prerequisite_state';
	END IF;
	SELECT count(*) INTO objects FROM kube_reports.object o WHERE o.resource_type = stored.id;
	IF objects > 0 AND NOT delete_objects THEN
		RAISE EXCEPTION 'cannot unregister type "%": % objects are stored', type, objects
			USING ERRCODE = 'dependent_objects_still_exist',
				HINT = 'Delete them, or call unregister(type, delete_objects => true).';
	END IF;
	DELETE FROM kube_reports.object o WHERE o.resource_type = stored.id;
	DELETE FROM kube_reports_internal.change c USING kube_reports_internal.lane l
		WHERE l.resource_type = stored.id AND c.lane = l.id;
	DELETE FROM kube_reports_internal.lane l WHERE l.resource_type = stored.id;
	DELETE FROM kube_reports.resource_type t WHERE t.id = stored.id;
	UPDATE kube_reports_internal.store SET generation = generation + 1;
	RETURN objects;
END
$$;
COMMENT ON FUNCTION kube_reports.unregister(text, boolean)
	IS 'stops serving a type, named PLURAL.GROUP; returns how many objects were deleted. Raises 2BP01 while objects '
		'of the type are stored, unless delete_objects is true';

-- If nothing changed, the stored rows stay, because sessions cache compiled definitions by the ids of the rows.
CREATE FUNCTION kube_reports_internal.renew_type(type_id integer, results text, crd kube_reports.report,
	builtin boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored		kube_reports.resource_type;
BEGIN
	SELECT * INTO stored FROM kube_reports.resource_type t WHERE t.id = type_id;
	IF FOUND AND stored.crd::jsonb = crd::jsonb
		AND stored.results IS NOT DISTINCT FROM coalesce(renew_type.results, stored.results)
		AND (NOT builtin OR stored.mapping::jsonb
			IS NOT DISTINCT FROM (SELECT k.mapping::jsonb FROM kube_reports_internal.known_mapping k
			WHERE k."group" = stored."group" AND k.plural = stored.plural))
		AND kube_reports_internal.crd_definitions(crd)->'versions' =
			(SELECT jsonb_agg(v.definition::jsonb ORDER BY v.priority)
			FROM kube_reports_internal.resource_version v WHERE v.resource_type = type_id)
	THEN
		RETURN false;
	END IF;
	PERFORM kube_reports_internal.store_type(type_id, crd, results, builtin);
	RETURN true;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.renew_type(integer, text, kube_reports.report, boolean)
	IS 'store_type(), if this version derives another type from the definition than the stored type. True if it '
		'stored the type; the caller holds the store lock';

-- A type that this version cannot serve is left unchanged, and does not prevent the others from being served.
CREATE FUNCTION kube_reports_internal.renew_types() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		record;
	problem		text;
BEGIN
	FOR known IN
		SELECT b.id, b.results, b.crd::kube_reports.report AS crd, true AS builtin,
			b.crd::jsonb->'metadata'->>'name' AS name
			FROM kube_reports_internal.builtin_types() b
		UNION ALL
		SELECT t.id, NULL, t.crd, false, t.plural || '.' || t."group"
			FROM kube_reports.resource_type t WHERE NOT t.builtin
		ORDER BY id
	LOOP
		BEGIN
			PERFORM kube_reports_internal.renew_type(known.id, known.results, known.crd, known.builtin);
		EXCEPTION WHEN SQLSTATE 'KR422' OR duplicate_object OR unique_violation OR object_not_in_prerequisite_state THEN
			GET STACKED DIAGNOSTICS problem = MESSAGE_TEXT;
			RAISE WARNING 'type "%" stays as it was: %', known.name, problem;
		END;
	END LOOP;
	PERFORM kube_reports_internal.make_lanes();
END
$$;
COMMENT ON FUNCTION kube_reports_internal.renew_types()
	IS 'derives every type, built in or registered, again with this version; warns about a type that this version '
		'cannot derive; the caller holds the store lock';

CREATE FUNCTION kube_reports_internal.require_cluster_name(name text, uid uuid) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	hidden		text := upper(to_hex(ascii(kube_reports_internal.hidden_character(name))));
BEGIN
	IF hidden IS NOT NULL THEN
		RAISE EXCEPTION 'cluster % cannot have a name with the character U+%', uid,
			lpad(hidden, greatest(length(hidden), 4), '0')
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'A name has no control characters, no marks of direction and nothing else that does not show.';
	ELSIF name ~ '^ | $' THEN
		RAISE EXCEPTION 'cluster % cannot have the name "%", which begins or ends with a space', uid, name
			USING ERRCODE = 'invalid_parameter_value';
	ELSIF length(name) > 253 THEN
		RAISE EXCEPTION 'cluster % cannot have a name of % characters', uid, length(name)
			USING ERRCODE = 'invalid_parameter_value', HINT = 'A name has at most 253.';
	ELSIF NOT kube_reports_internal.is_cluster_name(name, uid) THEN
		RAISE EXCEPTION 'cluster % cannot have the name "%", which is the uid of a cluster', uid, name
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'Filters take names and uids: a name that is a uid would select two clusters.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_cluster_name(text, uuid)
	IS 'raises 22023 when a cluster may not have that name';

-- Views and grants read the labels of every cluster: labels of another form would fail for all readers.
CREATE FUNCTION kube_reports_internal.require_cluster_labels(labels jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT coalesce(kube_reports_internal.are_cluster_labels(labels), false)
		OR EXISTS (SELECT FROM jsonb_each(labels) l WHERE jsonb_typeof(l.value) <> 'string'
			OR l.key = '' OR l.key ~ '[=,()! ]') THEN
		RAISE EXCEPTION 'labels are an object of strings' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Such as {"env": "prod", "region": "eu"}; keys and values are those of Kubernetes labels.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_cluster_labels(jsonb)
	IS 'raises 22023 when a cluster may not have these labels';

CREATE FUNCTION kube_reports.register_cluster(uid uuid, name text DEFAULT '', labels jsonb DEFAULT '{}',
	extra_metadata jsonb DEFAULT '{}')
	RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	stored_id	integer;
BEGIN
	IF uid IS NULL THEN
		RAISE EXCEPTION 'no cluster is given' USING ERRCODE = 'null_value_not_allowed',
			HINT = 'A cluster is named by the uid of its namespace kube-system; where there is none, by any uuid.';
	END IF;
	name := coalesce(name, '');
	labels := coalesce(labels, '{}');
	extra_metadata := coalesce(extra_metadata, '{}');
	PERFORM kube_reports_internal.require_cluster_name(name, uid),
		kube_reports_internal.require_cluster_labels(labels);
	IF jsonb_typeof(extra_metadata) <> 'object' THEN
		RAISE EXCEPTION 'extra_metadata is an object' USING ERRCODE = 'invalid_parameter_value',
			HINT = 'Such as {"clusterType": "openshift"}.';
	END IF;
	PERFORM kube_reports_internal.lock_store();
	SELECT c.id INTO stored_id FROM kube_reports.cluster c WHERE c.uid = register_cluster.uid;
	IF NOT FOUND THEN
		PERFORM kube_reports_internal.begin_own_write();
		INSERT INTO kube_reports.cluster AS c (uid, name, labels, extra_metadata)
			VALUES (register_cluster.uid, register_cluster.name, register_cluster.labels,
				register_cluster.extra_metadata)
			RETURNING c.id INTO stored_id;
		PERFORM set_config('kube_reports_internal.api_write', '', true);
		PERFORM kube_reports_internal.make_lanes();
	ELSE
		PERFORM kube_reports_internal.known_cluster(register_cluster.uid);
	END IF;
	RETURN stored_id;
END
$$;
COMMENT ON FUNCTION kube_reports.register_cluster(uuid, text, jsonb, jsonb)
	IS 'registers a cluster by the uid of its namespace kube-system; returns its id in this store. A known cluster '
		'stays as it is. Raises 22023 when the name is the uid of another cluster, has characters that do not show or '
		'more than 253, or when labels is not an object of strings, 55006 when the cluster is being removed';

CREATE FUNCTION kube_reports.set_cluster_labels(cluster uuid, labels jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_cluster_labels(labels);
	PERFORM kube_reports_internal.known_cluster(cluster);
	PERFORM kube_reports_internal.begin_own_write();
	UPDATE kube_reports.cluster c SET labels = set_cluster_labels.labels WHERE c.uid = set_cluster_labels.cluster;
	PERFORM set_config('kube_reports_internal.api_write', '', true);
END
$$;
COMMENT ON FUNCTION kube_reports.set_cluster_labels(uuid, jsonb)
	IS 'replaces the labels of a cluster, by which filters (cluster_labels), clusters() and grant_clusters() select '
		'it. Raises 22023 when labels is not an object of strings, 42704 for an unknown cluster';

-- Names the types that a user may have meant: by kind, singular, short name, or plural in any group.
CREATE FUNCTION kube_reports_internal.type_hint(type text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN count(*) > 0 THEN 'Did you mean '
		|| string_agg(to_json(m.type)::text, ' or ' ORDER BY m.type) || '? ' ELSE '' END
		|| 'Types are named <plural>.<group>; the table resource_type has them.'
	FROM (SELECT t.plural || '.' || t."group" AS type
		FROM kube_reports.resource_type t CROSS JOIN LATERAL (SELECT t.crd::jsonb#>'{spec,names}') n(names)
		WHERE lower(split_part($1, '.', 1) COLLATE "C") IN (t.plural, lower(t.kind), n.names->>'singular')
				AND (strpos($1, '.') = 0 OR t."group" = substr($1, strpos($1, '.') + 1))
			OR n.names->'shortNames' ? lower($1 COLLATE "C") OR t.plural = lower(split_part($1, '.', 1) COLLATE "C")
		ORDER BY 1 LIMIT 4) m
$$;
COMMENT ON FUNCTION kube_reports_internal.type_hint(text)
	IS 'the hint for an unknown name of a type: similar names';

CREATE FUNCTION kube_reports_internal.named_cluster(cluster uuid) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found_id	integer := (SELECT c.id FROM kube_reports.cluster c WHERE c.uid = cluster);
BEGIN
	IF found_id IS NULL THEN
		RAISE EXCEPTION 'cluster % is not known', cluster
			USING ERRCODE = 'undefined_object',
				DETAIL = (SELECT coalesce('Known are: ' || string_agg(k.name_and_uid, ', ') || '.', 'None is known.')
					FROM (SELECT concat_ws(' ', c.uid, '(' || nullif(c.name, '') || ')') AS name_and_uid
						FROM kube_reports.cluster c ORDER BY c.id LIMIT 10) k),
				HINT = 'register_cluster() makes a cluster known, and so does grant_proxy().';
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.named_cluster(uuid)
	IS 'the id of a cluster in this store, also of one that is being removed. Raises 42704 if the cluster is not known';

CREATE FUNCTION kube_reports_internal.known_cluster(cluster uuid) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found_id	integer := kube_reports_internal.named_cluster(cluster);
BEGIN
	IF (SELECT c.removing FROM kube_reports.cluster c WHERE c.id = found_id) THEN
		RAISE EXCEPTION 'cluster % is being removed', cluster
			USING ERRCODE = 'object_in_use',
				HINT = 'CALL kube_reports.unregister_cluster(cluster) finishes that; then it can be registered anew.';
	END IF;
	RETURN found_id;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.known_cluster(uuid)
	IS 'the id of a cluster in this store. Raises 42704 if the cluster is not known, 55006 if it is being removed';
