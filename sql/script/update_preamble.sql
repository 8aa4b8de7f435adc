-- update_preamble.sql
--	  Guards of every update script, and what it must know about the state
--	  before the update.
--
-- In a trusted extension this script runs as the bootstrap superuser, but a role that is no superuser calls it.  The
-- objects in the schemas belong to that role, which may have changed, dropped or replaced them.  So the script reads
-- only the server's catalogs until it knows that the schemas contain nothing that would run as the superuser:
--
-- The script reads no row, writes no row, rewrites no table and validates no constraint.  after_update(), which belongs
-- to the owner, does these.  The script calls only three functions of the schema: proxy_objects(), reader_objects() and
-- admin_objects().  It has just made them itself, and they read only catalogs.
--
-- The server parses the script's statements.  It chooses a function by its arguments.  It reads a literal by the type
-- of the column or the argument to which the literal belongs; for a row type that contains a domain, it runs the checks
-- of the domain.  So every column and every argument in the schemas must have a type whose input function belongs to
-- the server, or a row type of such types.
--
-- A server also evaluates constants in the key of a partitioned table whenever a session opens the table.  So keys must
-- not contain expressions.

DO $$
DECLARE
	extension	record;
	schemas		oid[];
	found		text;
	members		jsonb;
	grants		jsonb;
	in_c		boolean := 'VARIANT' = 'c';		-- which update_script fills in
BEGIN
	SELECT e.oid, e.extowner, e.extnamespace, r.rolsuper INTO extension
		FROM (SELECT e.oid, e.extowner, e.extnamespace FROM pg_extension e WHERE e.extname = 'kube_reports'
			-- The plain script makes no extension.
			UNION ALL
			SELECT 0, n.nspowner, n.oid FROM pg_namespace n WHERE n.nspname = 'kube_reports'
				AND NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'kube_reports')) e
			JOIN pg_roles r ON r.oid = e.extowner;
	IF (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = current_user) THEN
		-- This variant needs no superuser, and its type report is a domain.
		IF NOT in_c AND NOT extension.rolsuper THEN
			RAISE EXCEPTION 'the variant without C is updated by its owner'
				USING ERRCODE = 'object_not_in_prerequisite_state',
					HINT = format('SET ROLE %s', extension.extowner::regrole);
		END IF;
	END IF;
	-- The script finds schemas by their names, even if the extension's schema was renamed.
	IF extension.extnamespace IS DISTINCT FROM to_regnamespace('kube_reports') THEN
		RAISE EXCEPTION 'schema kube_reports is not the one that the extension made'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = format('The extension''s schema is %s.', extension.extnamespace::regnamespace),
				HINT = format('Drop or rename another schema kube_reports, then: '
					'ALTER SCHEMA %s RENAME TO kube_reports',
					extension.extnamespace::regnamespace);
	END IF;
	SELECT array_agg(n.oid) INTO schemas FROM pg_namespace n
		WHERE n.oid = extension.extnamespace OR n.nspname = 'kube_reports_internal';
	SELECT string_agg(format('schema %I of role %I', n.nspname, n.nspowner::regrole), ', ') INTO found
		FROM pg_namespace n WHERE n.oid = ANY (schemas) AND n.nspowner <> extension.extowner;
	IF found IS NOT NULL OR cardinality(schemas) <> 2 THEN
		RAISE EXCEPTION 'the schemas of kube_reports do not belong to its owner'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = coalesce(format('There is %s.', found), 'One of them is gone.'),
				HINT = format('ALTER SCHEMA ... OWNER TO %s', extension.extowner::regrole);
	END IF;
	SELECT string_agg(DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, ', ') INTO found
		FROM pg_namespace n, aclexplode(n.nspacl) a
		WHERE n.oid = ANY (schemas) AND a.privilege_type = 'CREATE' AND a.grantee <> extension.extowner;
	IF found IS NOT NULL THEN
		RAISE EXCEPTION 'others may create objects in the schemas of kube_reports'
			USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It was granted to %s.', found),
				HINT = 'REVOKE CREATE ON SCHEMA kube_reports, kube_reports_internal FROM each of them.';
	END IF;

	-- The type of documents: only a superuser can have made a base type and the functions that read it.
	IF in_c AND NOT EXISTS (SELECT FROM pg_type t JOIN pg_proc p ON p.oid = t.typinput
				JOIN pg_roles r ON r.oid = p.proowner JOIN pg_language l ON l.oid = p.prolang
			WHERE t.typnamespace = extension.extnamespace AND t.typname = 'report' AND t.typtype = 'b'
				AND t.typcategory = 'U' AND p.proname = 'report_in' AND l.lanname = 'c' AND r.rolsuper) THEN
		RAISE EXCEPTION 'type kube_reports.report is not the one that the extension made'
			USING ERRCODE = 'object_not_in_prerequisite_state',
				HINT = 'Dump the reports, drop the extension and restore the dump.';
	END IF;
	-- Types of the extension and of the server.  The array of a type counts as the type.
	WITH allowed AS (
		SELECT t.oid, t.typtype FROM pg_type t
			WHERE t.typnamespace = 'pg_catalog'::regnamespace
				OR t.typnamespace = ANY (schemas)
					AND (t.typtype IN ('c', 'd') OR t.typtype = 'b' AND t.typname = 'report')),
	used AS (
		SELECT format('column %I of %s', a.attname, c.oid::regclass) AS place, a.atttypid AS type, true AS in_row
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
			WHERE c.relnamespace = ANY (schemas) AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I')
		UNION ALL
		SELECT format('routine %s', p.oid::regprocedure), u.type, false
			FROM pg_proc p, unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype) u(type)
			WHERE p.pronamespace = ANY (schemas)
		UNION ALL
		SELECT format('domain %s', t.oid::regtype), t.typbasetype, false
			FROM pg_type t WHERE t.typnamespace = ANY (schemas) AND t.typtype = 'd')
	SELECT string_agg(w.place, ', ') INTO found
		FROM (SELECT DISTINCT u.place
			FROM used u JOIN pg_type t ON t.oid = u.type
				LEFT JOIN allowed a
					ON a.oid = CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN t.typelem ELSE t.oid END
			WHERE a.oid IS NULL OR a.typtype = 'd' AND u.in_row AND t.typnamespace <> 'pg_catalog'::regnamespace
			ORDER BY 1 LIMIT 10) w;
	IF in_c AND found IS NOT NULL THEN
		RAISE EXCEPTION 'the schemas of kube_reports hold what is of a foreign type'
			USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It is %s.', found),
				HINT = 'Move what is yours to another schema, drop a column that you have added.';
	END IF;
	SELECT string_agg(t.partrelid::regclass::text, ', ') INTO found
		FROM pg_partitioned_table t JOIN pg_class c ON c.oid = t.partrelid
		WHERE c.relnamespace = ANY (schemas) AND t.partexprs IS NOT NULL;
	IF found IS NOT NULL THEN
		RAISE EXCEPTION 'the schemas of kube_reports hold tables that are partitioned by an expression'
			USING ERRCODE = 'object_not_in_prerequisite_state', DETAIL = format('It is %s.', found),
				HINT = 'Move them to another schema.';
	END IF;

	-- Lock the secret first: a proxy that waits for the secret holds no other lock yet.  So proxies finish their
	-- present request, and wait with the next one.  There is no LOCK TABLE for the view through which proxies read the
	-- secret: that would lock the server's catalogs, too.
	ALTER VIEW kube_reports_internal.caller SET (security_barrier = true);
	SELECT string_agg('ONLY ' || c.oid::regclass, ', ' ORDER BY c.relname <> 'caller_secret', c.oid) INTO found
		FROM pg_class c
		WHERE c.relkind IN ('r', 'p') AND (EXISTS (SELECT FROM pg_depend d
			WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_extension'::regclass
				AND d.refobjid = extension.oid AND d.deptype = 'e')
			OR extension.oid = 0 AND c.relnamespace = ANY (schemas));
	EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', found);

	-- For owner.sql: the existing objects and their grants.
	SELECT jsonb_agg(m.classid::oid || '.' || m.objid) INTO members
		FROM (SELECT d.classid, d.objid FROM pg_depend d
				WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = extension.oid AND d.deptype = 'e'
			UNION ALL
			SELECT d.classid, d.objid FROM pg_depend d
				WHERE extension.oid = 0 AND d.refclassid = 'pg_namespace'::regclass AND d.refobjid = ANY (schemas)
			UNION ALL
			SELECT 'pg_namespace'::regclass, s.oid FROM unnest(schemas) s(oid) WHERE extension.oid = 0) m;
	SELECT coalesce(jsonb_agg(jsonb_build_array(o.kind, o.name,
			CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.privilege_type,
			CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)), '[]') INTO grants
		FROM (SELECT 'ROUTINE' AS kind, n.nspname || '.' || p.proname AS name, p.proacl AS acl, p.proowner AS owner
				FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.oid = ANY (schemas)
			UNION ALL
			SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, n.nspname || '.' || c.relname, c.relacl,
					c.relowner
				FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.oid = ANY (schemas) AND c.relkind IN ('r', 'p', 'v', 'S')) o,
			aclexplode(o.acl) a
		WHERE a.grantee NOT IN (o.owner, extension.extowner);
	PERFORM set_config('kube_reports_internal.updating',
		jsonb_build_object('members', members, 'grants', grants)::text, true);
	PERFORM set_config('kube_reports_internal.guarded', 'all', true);
END
$$;
