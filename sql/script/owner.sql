-- owner.sql
--	  Ownership and privileges of everything above.
--
-- In a trusted extension the script runs as the bootstrap superuser, and its objects belong to that role: the role that
-- ran CREATE EXTENSION could neither write nor dump them.  So this part gives all objects to the role that ran CREATE
-- EXTENSION, and no SECURITY DEFINER function belongs to a superuser.
--
-- Functions in C stay with the superuser.  An owner could declare them CALLED ON NULL INPUT, although they do not check
-- for nulls, or could let parallel workers call them.  The role may call them, and may grant this right.
--
-- The script looks up the owner.  It does not use CREATE EXTENSION's placeholder for the owner: inside quotes, the name
-- would be quoted only once.
--
-- An update script also ends with this part.  Old objects keep their grants.  A new object gets the grants of the
-- routines or the relation with its name, and the grants that grant_proxy(), grant_reader() and grant_admin() would
-- give.

DO $$
DECLARE
	-- The findings of update_preamble.sql; null in an install script, where everything is new.
	before		jsonb := nullif(current_setting('kube_reports_internal.updating', true), '')::jsonb;
	receiver	oid := coalesce((SELECT e.extowner FROM pg_extension e WHERE e.extname = 'kube_reports'),
		(SELECT r.oid FROM pg_roles r WHERE r.rolname = current_user));
	member		record;
	given		record;
	made		jsonb := '[]';
BEGIN
	FOR member IN
		SELECT d.classid, d.objid, m.kind, m.kind || ' ' || m.name AS object, m.owner, m.in_c,
			before IS NULL OR NOT before->'members' ? (d.classid::oid || '.' || d.objid) AS new
		FROM (SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
				WHERE d.refclassid = 'pg_extension'::regclass AND e.extname = 'kube_reports' AND d.deptype = 'e'
			-- The plain script has no extension: all objects in the schemas are its objects.
			UNION ALL
			SELECT d.classid, d.objid FROM pg_depend d JOIN pg_namespace n ON n.oid = d.refobjid
				WHERE d.refclassid = 'pg_namespace'::regclass AND n.nspname IN ('kube_reports', 'kube_reports_internal')
					AND NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports')
			UNION ALL
			SELECT 'pg_namespace'::regclass, to_regnamespace('kube_reports_internal')
				WHERE NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports')) d,
			LATERAL (SELECT 'SCHEMA' AS kind, n.oid::regnamespace::text AS name, n.nspowner AS owner, false AS in_c
					FROM pg_namespace n WHERE d.classid = 'pg_namespace'::regclass AND n.oid = d.objid
				UNION ALL
				SELECT 'ROUTINE', p.oid::regprocedure::text, p.proowner, p.prokind <> 'a'
					AND l.lanname IN ('c', 'internal')
					FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
						WHERE d.classid = 'pg_proc'::regclass AND p.oid = d.objid
				UNION ALL
				-- Arrays and row types of tables are left out.
				SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, t.oid::regtype::text, t.typowner, false
					FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
					WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid AND t.typcategory <> 'A'
						AND coalesce(c.relkind = 'c', true)
				UNION ALL
				SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'v' THEN 'VIEW' WHEN 'c' THEN 'TYPE'
					ELSE 'TABLE' END, c.oid::regclass::text, c.relowner, false
					FROM pg_class c WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind <> 'i'
				UNION ALL
				SELECT 'STATISTICS', format('%s.%I', s.stxnamespace::regnamespace, s.stxname), s.stxowner, false
					FROM pg_statistic_ext s WHERE d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid) m
	LOOP
		IF member.in_c THEN
			-- The function was not in C before.  Grants by the owner would become grants by the superuser, and the
			-- owner could not revoke them.
			IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = member.owner) THEN
				FOR given IN SELECT a.grantee::regrole AS grantee FROM pg_proc p, aclexplode(p.proacl) a
						WHERE p.oid = member.objid AND a.grantee NOT IN (0, p.proowner)
				LOOP
					EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', member.object, given.grantee);
				END LOOP;
				EXECUTE format('ALTER %s OWNER TO %I', member.object, current_user);
			END IF;
			IF member.new OR member.owner = receiver THEN
				EXECUTE format('GRANT EXECUTE ON %s TO %s WITH GRANT OPTION', member.object, receiver::regrole);
			END IF;
		ELSIF member.owner <> receiver THEN
			EXECUTE format('ALTER %s OWNER TO %s', member.object, receiver::regrole);
		END IF;
		IF member.new THEN
			made := made || to_jsonb(member.classid::oid || '.' || member.objid);
		END IF;
	END LOOP;

	-- The schema was made by CREATE EXTENSION, or by its owner; in both cases no other role could use an object in it.
	IF before IS NULL THEN
		made := made || to_jsonb('pg_namespace'::regclass::oid || '.' || 'kube_reports'::regnamespace::oid);
	END IF;
	-- Revoke the grants to other roles by default privileges of the role that runs the script.
	FOR given IN
		SELECT DISTINCT o.object, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
		FROM (SELECT 'pg_class'::regclass AS classid,
			c.oid AS objid, CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE 'TABLE ' END || c.oid::regclass AS object,
					coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)) AS
						acl, c.relowner AS owner
					FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'S')
				UNION ALL
				SELECT 'pg_proc'::regclass, p.oid, 'ROUTINE ' || p.oid::regprocedure,
					coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner FROM pg_proc p
				UNION ALL
				SELECT 'pg_namespace'::regclass, n.oid, 'SCHEMA ' || n.oid::regnamespace,
					coalesce(n.nspacl, acldefault('n', n.nspowner)), n.nspowner
					FROM pg_namespace n) o,
			aclexplode(o.acl) a
		WHERE made ? (o.classid::oid || '.' || o.objid) AND a.grantee NOT IN (o.owner, receiver)
	LOOP
		EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', given.object, given.grantee);
	END LOOP;

	-- PUBLIC may use only the types and the functions that work on a document alone.
	FOR given IN SELECT to_regprocedure(f.signature) AS function FROM unnest(ARRAY[
			'kube_reports_internal.is_report(text)',
			'kube_reports_internal.report_from_text(text)',
			'kube_reports_internal.report_to_jsonb(kube_reports.report)',
			'kube_reports_internal.report_from_jsonb(jsonb)',
			'kube_reports.label_terms(kube_reports.report)',
			'kube_reports.matches_labels(text[], text)',
			'kube_reports.matches_fields(text, text, text)',
			'kube_reports.selector_terms(text)',
			'kube_reports.document_size(kube_reports.report)',
			'kube_reports.conforms(kube_reports.report, text, text)']) f(signature)
	LOOP
		IF made ? ('pg_proc'::regclass::oid || '.' || given.function::oid) THEN
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', given.function);
		END IF;
	END LOOP;

	IF before IS NULL THEN
		RETURN;
	END IF;
	-- after_update() grants functions in C: the owner must be the grantor, to be able to revoke the grants.
	FOR given IN
		WITH role_grant AS (
			SELECT g.value->>0 AS kind, g.value->>1 AS name, g.value->>2 AS grantee,
				g.value->>3 AS privilege, g.value->>4 AS option
			FROM jsonb_array_elements(before->'grants') g),
		object AS (
			SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
				n.nspname || '.' || c.relname AS name, c.oid::regclass::text AS object
				FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE c.relkind IN ('r', 'p', 'v', 'S') AND made ? ('pg_class'::regclass::oid || '.' || c.oid)
			UNION ALL
			SELECT 'ROUTINE', n.nspname || '.' || p.proname, p.oid::regprocedure::text
				FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_language l ON l.oid = p.prolang
				WHERE l.lanname <> 'c' AND made ? ('pg_proc'::regclass::oid || '.' || p.oid))
		SELECT o.kind, o.object, g.privilege, g.grantee, g.option FROM object o
			JOIN role_grant g ON g.kind = o.kind AND g.name = o.name
		UNION
		SELECT o.kind, o.object, x.privileges, g.grantee, '' FROM object o
			JOIN (SELECT p.*, 'kube_reports_internal.api_hello' AS given_before, 'EXECUTE' AS privilege
				FROM kube_reports_internal.proxy_objects() p
				UNION ALL
				SELECT r.*, 'kube_reports_internal.find_results', 'EXECUTE'
					FROM kube_reports_internal.reader_objects() r
				UNION ALL
				SELECT a.*, 'kube_reports.object', 'TRUNCATE' FROM kube_reports_internal.admin_objects() a) x
					ON (x.kind, x.object) = (o.kind, o.object)
			JOIN role_grant g ON (g.name, g.privilege) = (x.given_before, x.privilege)
	LOOP
		EXECUTE format('GRANT %s ON %s %s TO %s%s', given.privilege, given.kind, given.object,
			given.grantee, given.option);
	END LOOP;
END
$$;
