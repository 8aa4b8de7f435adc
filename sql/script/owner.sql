-- owner.sql
--	  Ownership and privileges of everything above.
--
-- In a trusted extension the script runs as the bootstrap superuser and what it
-- makes belongs to that role: the role that ran CREATE EXTENSION could neither
-- write nor dump it.  Everything goes to that role, and no SECURITY DEFINER
-- function belongs to a superuser.
--
-- All but functions in C.  Their owner could have them called with nulls that
-- they do not look for (CALLED ON NULL INPUT), or from parallel workers.  The
-- role may call them and let others do so.
--
-- The owner is looked up: inside quotes, what CREATE EXTENSION puts for its owner
-- placeholder would be quoted once only.

DO $$
DECLARE
	member		record;
	given		record;
BEGIN
	FOR member IN
		SELECT e.extowner::regrole AS owner,
			EXISTS (SELECT FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
				WHERE d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.prokind <> 'a' AND l.lanname IN ('c', 'internal')) AS of_superuser,
			CASE d.classid
				WHEN 'pg_namespace'::regclass THEN 'SCHEMA ' || d.objid::regnamespace
				WHEN 'pg_proc'::regclass THEN 'ROUTINE ' || d.objid::regprocedure
				WHEN 'pg_type'::regclass THEN (SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN ' ELSE 'TYPE ' END FROM pg_type t WHERE t.oid = d.objid) || d.objid::regtype
				WHEN 'pg_class'::regclass THEN (SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' WHEN 'c' THEN 'TYPE ' ELSE 'TABLE ' END
					FROM pg_class c WHERE c.oid = d.objid) || d.objid::regclass
				ELSE (SELECT format('STATISTICS %s.%I', s.stxnamespace::regnamespace, s.stxname) FROM pg_statistic_ext s WHERE s.oid = d.objid)
			END AS object
		FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
		WHERE d.refclassid = 'pg_extension'::regclass AND e.extname = 'kube_reports' AND d.deptype = 'e'
			AND d.classid IN ('pg_namespace'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass, 'pg_class'::regclass,
				'pg_statistic_ext'::regclass)
			AND NOT (d.classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
				WHERE t.oid = d.objid AND (t.typcategory = 'A' OR c.relkind <> 'c')))
			AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_class c WHERE c.oid = d.objid AND c.relkind = 'i'))
	LOOP
		IF member.of_superuser THEN
			EXECUTE format('GRANT EXECUTE ON %s TO %s WITH GRANT OPTION', member.object, member.owner);
		ELSE
			EXECUTE format('ALTER %s OWNER TO %s', member.object, member.owner);
		END IF;
	END LOOP;

	-- What the default privileges of whoever runs the script gave to others.
	FOR given IN
		SELECT DISTINCT o.schema, o.kind, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS grantee
		FROM pg_namespace n,
			LATERAL (SELECT n.nspname AS schema, CASE c.relkind WHEN 'S' THEN 'SEQUENCES' ELSE 'TABLES' END AS kind, c.relacl AS acl, c.relowner AS owner
					FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'S')
				UNION ALL
				SELECT n.nspname, 'ROUTINES', p.proacl, p.proowner FROM pg_proc p WHERE p.pronamespace = n.oid
				UNION ALL
				-- The other one may have been there, with grants that its owner gave.
				SELECT n.nspname, 'SCHEMA', n.nspacl, n.nspowner WHERE n.nspname = 'kube_reports_internal') o,
			aclexplode(coalesce(o.acl,
				acldefault(CASE o.kind WHEN 'SEQUENCES' THEN 's' WHEN 'TABLES' THEN 'r' WHEN 'SCHEMA' THEN 'n' ELSE 'f' END::"char", o.owner))) a
		WHERE n.nspname IN ('kube_reports', 'kube_reports_internal')
			AND a.grantee NOT IN (o.owner, (SELECT e.extowner FROM pg_extension e WHERE e.extname = 'kube_reports'))
	LOOP
		EXECUTE format('REVOKE ALL ON %s %I FROM %s CASCADE',
			CASE given.kind WHEN 'SCHEMA' THEN 'SCHEMA' ELSE format('ALL %s IN SCHEMA', given.kind) END, given.schema, given.grantee);
	END LOOP;
END
$$;

-- Nothing is for everybody but the types and what works on a document alone.
GRANT EXECUTE ON FUNCTION
	kube_reports_internal.report_from_text(text),
	kube_reports_internal.report_to_jsonb(kube_reports.report),
	kube_reports_internal.report_from_jsonb(jsonb),
	kube_reports.label_terms(kube_reports.report),
	kube_reports.matches_labels(text[], text),
	kube_reports.document_size(kube_reports.report),
	kube_reports.conforms(kube_reports.report, text, text)
	TO PUBLIC;
