-- policies_sql.sql
--	  The names of the rules of Kyverno's policies in SQL: what
--	  engine/results/kyverno_policy.c is in C.
--
-- Functions whose names begin with sql_ exist only in the SQL variant.

CREATE FUNCTION kube_reports_internal.sql_is_present(value jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN value IS NOT NULL AND jsonb_typeof(value) <> 'null';
COMMENT ON FUNCTION kube_reports_internal.sql_is_present(jsonb) IS 'whether a member exists and is not null';

-- kind, kind.subresource, kind/subresource, version/kind, group/version/kind ...
CREATE FUNCTION kube_reports_internal.sql_kind_of(selector text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE cardinality(p.parts)
		WHEN 1 THEN split_part(p.parts[1], '.', 1)
		WHEN 2 THEN CASE WHEN v.first THEN split_part(p.parts[2], '.', 1) ELSE p.parts[1] END
		WHEN 3 THEN CASE WHEN v.first THEN p.parts[2] ELSE split_part(p.parts[3], '.', 1) END
		WHEN 4 THEN p.parts[3] ELSE '' END
	FROM (SELECT string_to_array(selector, '/') AS parts) p,
		LATERAL (SELECT (p.parts[1] COLLATE "C") ~ '^(\*|v[0-9]+((alpha|beta)[0-9]+)?)$' AS first) v;
END;
COMMENT ON FUNCTION kube_reports_internal.sql_kind_of(text)
	IS 'the kind in a text by which a rule of a policy selects kinds';

CREATE FUNCTION kube_reports_internal.sql_has_pod(description jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (SELECT FROM jsonb_array_elements(kube_reports_internal.sql_array(description->'kinds')) k(kind)
	WHERE kube_reports_internal.sql_kind_of(kube_reports_internal.sql_string(k.kind)) = 'Pod');
COMMENT ON FUNCTION kube_reports_internal.sql_has_pod(jsonb)
	IS 'whether Pod is among the kinds of a description of resources';

CREATE FUNCTION kube_reports_internal.sql_descriptions(block jsonb) RETURNS SETOF jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT kube_reports_internal.sql_object(kube_reports_internal.sql_object(block)->'resources')
	UNION ALL
	SELECT kube_reports_internal.sql_object(kube_reports_internal.sql_object(e.item)->'resources')
	FROM (VALUES ('any'), ('all')) l(list),
		LATERAL jsonb_array_elements(
			kube_reports_internal.sql_array(kube_reports_internal.sql_object(block)->l.list)) e(item);
END;
COMMENT ON FUNCTION kube_reports_internal.sql_descriptions(jsonb)
	IS 'the descriptions of resources that a rule matches or excludes';

-- All rules of a policy must allow generated rules, and one of them must be about pods or their controllers.
CREATE FUNCTION kube_reports_internal.sql_makes_rules(rules jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	WITH rule AS MATERIALIZED (
		SELECT kube_reports_internal.sql_object(e.item) AS rule,
			kube_reports_internal.sql_object(e.item->'mutate') AS mutate
		FROM jsonb_array_elements(rules) e(item)
	), description AS MATERIALIZED (
		SELECT d.d FROM rule r, LATERAL (
			SELECT kube_reports_internal.sql_descriptions(r.rule->'match') AS d
			UNION ALL
			SELECT kube_reports_internal.sql_descriptions(r.rule->'exclude')) d
	)
	SELECT NOT EXISTS (SELECT FROM rule r WHERE kube_reports_internal.sql_object(r.rule->'generate') <> '{}'
				OR coalesce(kube_reports_internal.sql_string(r.mutate->'patchesJson6902'), '') <> ''
				OR EXISTS (SELECT
					FROM jsonb_array_elements(kube_reports_internal.sql_array(r.mutate->'foreach')) f(item)
					WHERE coalesce(kube_reports_internal.sql_string(
						kube_reports_internal.sql_object(f.item)->'patchesJson6902'), '') <> ''))
		AND NOT EXISTS (SELECT FROM description d
			WHERE coalesce(kube_reports_internal.sql_string(d.d->'name'), '') <> ''
				OR kube_reports_internal.sql_array(d.d->'names') <> '[]'
				OR kube_reports_internal.sql_is_present(d.d->'selector')
				OR kube_reports_internal.sql_is_present(d.d->'annotations')
				OR jsonb_array_length(kube_reports_internal.sql_array(d.d->'kinds')) > 1
					AND kube_reports_internal.sql_has_pod(d.d))
		AND EXISTS (SELECT FROM description d WHERE kube_reports_internal.sql_array(d.d->'kinds')
			?| '{Pod,DaemonSet,Deployment,Job,StatefulSet,ReplicaSet,ReplicationController,CronJob}');
END;
COMMENT ON FUNCTION kube_reports_internal.sql_makes_rules(jsonb)
	IS 'whether Kyverno makes rules for pod controllers from the rules of a policy';

CREATE FUNCTION kube_reports_internal.sql_is_convertible(rule jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN EXISTS (SELECT FROM kube_reports_internal.sql_descriptions(rule->'match') d(d)
		WHERE kube_reports_internal.sql_has_pod(d.d))
	AND (NOT EXISTS (SELECT FROM kube_reports_internal.sql_descriptions(rule->'exclude') d(d)
			WHERE kube_reports_internal.sql_array(d.d->'kinds') <> '[]')
		OR EXISTS (SELECT FROM kube_reports_internal.sql_descriptions(rule->'exclude') d(d)
			WHERE kube_reports_internal.sql_has_pod(d.d)))
	AND (kube_reports_internal.sql_is_present(kube_reports_internal.sql_object(rule->'mutate')->'patchStrategicMerge')
		OR kube_reports_internal.sql_array(kube_reports_internal.sql_object(rule->'mutate')->'foreach') <> '[]'
		OR kube_reports_internal.sql_array(kube_reports_internal.sql_object(rule->'validate')->'foreach') <> '[]'
		OR kube_reports_internal.sql_is_present(rule->'verifyImages')
		OR EXISTS (SELECT FROM (VALUES ('pattern'), ('deny'), ('podSecurity'), ('anyPattern'), ('cel')) v(member)
			WHERE kube_reports_internal.sql_is_present(
				kube_reports_internal.sql_object(rule->'validate')->v.member)));
COMMENT ON FUNCTION kube_reports_internal.sql_is_convertible(jsonb)
	IS 'whether a part of a rule can be applied to pod controllers';

-- Names of generated rules have at most 63 bytes and end with a whole character.
CREATE FUNCTION kube_reports_internal.sql_made_name(name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	made		text := left(name, 63);
BEGIN
	WHILE octet_length(made) > 63 LOOP
		made := left(made, -1);
	END LOOP;
	RETURN made;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_made_name(text)
	IS 'the name of a generated rule, cut if it is too long';

CREATE FUNCTION kube_reports_internal.sql_policy_rules(policy jsonb, marked jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rules		jsonb := kube_reports_internal.sql_array(
		kube_reports_internal.sql_object(policy->'spec')->'rules');
	others		jsonb := kube_reports_internal.sql_array(
		kube_reports_internal.sql_object(marked->'spec')->'rules');
	controllers	text := 'none';
	own			text[] := '{}';
	made		text[] := '{}';
	rule		jsonb;
	name		text;
BEGIN
	IF kube_reports_internal.sql_makes_rules(rules) THEN
		controllers := coalesce(kube_reports_internal.sql_string(kube_reports_internal.sql_object(
				kube_reports_internal.sql_object(policy->'metadata')->'annotations')
				->'pod-policies.kyverno.io/autogen-controllers'),
			'CronJob,DaemonSet,Deployment,Job,ReplicaSet,ReplicationController,StatefulSet');
	END IF;
	FOR n IN 0 .. jsonb_array_length(rules) - 1 LOOP
		rule := kube_reports_internal.sql_object(rules->n);
		name := kube_reports_internal.sql_string(rule->'name');
		-- The database cannot store a name with a NUL.
		CONTINUE WHEN name IS NULL OR others->n->>'name' <> name;
		own := own || name;
		CONTINUE WHEN controllers = 'none' OR starts_with(name, 'autogen-')
			OR NOT kube_reports_internal.sql_is_convertible(rule);
		IF EXISTS (SELECT FROM string_to_table(controllers, ',') c(controller)
				WHERE c.controller NOT IN ('', 'CronJob')) THEN
			made := made || kube_reports_internal.sql_made_name('autogen-' || name);
		END IF;
		IF strpos(controllers, 'CronJob') > 0 OR strpos(controllers, 'all') > 0 THEN
			made := made || kube_reports_internal.sql_made_name('autogen-cronjob-' || name);
		END IF;
	END LOOP;
	IF made = '{}' THEN
		RETURN own;
	END IF;
	-- Generated rules replace the policy's own rules with such names.
	RETURN made || ARRAY(SELECT o.name FROM unnest(own) WITH ORDINALITY o(name, n)
		WHERE NOT starts_with(o.name, 'autogen-') ORDER BY o.n);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sql_policy_rules(jsonb, jsonb)
	IS 'policy_rules() of a policy that jsonb can read; marked: the same policy with another character in place of '
		'NUL';

CREATE FUNCTION kube_reports.policy_rules(policy kube_reports.report) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
	readable	jsonb := kube_reports_internal.sql_readable(policy);
BEGIN
	RETURN kube_reports_internal.sql_policy_rules(readable,
		CASE WHEN kube_reports_internal.sql_has_nul(policy)
			THEN kube_reports_internal.sql_readable(regexp_replace(policy, '(?<!\\)((?:\\\\)*)\\u0000', '\1\ufffe',
				'g'))::jsonb
			ELSE readable END);
END
$$;
COMMENT ON FUNCTION kube_reports.policy_rules(kube_reports.report)
	IS 'the names of the rules of a ClusterPolicy or Policy of Kyverno: its own rules, and those that Kyverno '
		'generates from them for pod controllers';
