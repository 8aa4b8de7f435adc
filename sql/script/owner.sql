-- owner.sql
--	  Ownership and privileges of everything above.
--
-- In a trusted extension the script runs as the bootstrap superuser and what it
-- makes belongs to that role: the role that ran CREATE EXTENSION could neither
-- write nor dump it.  Everything goes to that role, and no SECURITY DEFINER
-- function belongs to a superuser.
--
-- The owner is looked up: inside quotes, what CREATE EXTENSION puts for its owner
-- placeholder would be quoted once only.

DO $$
DECLARE
	member		record;
BEGIN
	FOR member IN
		SELECT e.extowner::regrole AS owner,
			CASE d.classid
				WHEN 'pg_proc'::regclass THEN 'ROUTINE ' || d.objid::regprocedure
				WHEN 'pg_type'::regclass THEN (SELECT CASE t.typtype WHEN 'd' THEN 'DOMAIN ' ELSE 'TYPE ' END FROM pg_type t WHERE t.oid = d.objid) || d.objid::regtype
				WHEN 'pg_class'::regclass THEN (SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' WHEN 'v' THEN 'VIEW ' WHEN 'c' THEN 'TYPE ' ELSE 'TABLE ' END
					FROM pg_class c WHERE c.oid = d.objid) || d.objid::regclass
			END AS object
		FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
		WHERE d.refclassid = 'pg_extension'::regclass AND e.extname = 'kube_reports' AND d.deptype = 'e'
			AND d.classid IN ('pg_proc'::regclass, 'pg_type'::regclass, 'pg_class'::regclass)
			AND NOT (d.classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
				WHERE t.oid = d.objid AND (t.typcategory = 'A' OR c.relkind <> 'c')))
			AND NOT (d.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_class c WHERE c.oid = d.objid AND c.relkind = 'i'))
	LOOP
		EXECUTE format('ALTER %s OWNER TO %s', member.object, member.owner);
	END LOOP;
END
$$;

-- Nothing is for everybody but the types and what works on a document alone.
REVOKE ALL ON ALL ROUTINES IN SCHEMA kube_reports FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
	kube_reports.report_from_text(text),
	kube_reports.report_to_jsonb(kube_reports.report),
	kube_reports.report_from_jsonb(jsonb),
	kube_reports.label_terms(kube_reports.report),
	kube_reports.matches_labels(text[], text),
	kube_reports.document_size(kube_reports.report),
	kube_reports.conforms(kube_reports.report, text, text)
	TO PUBLIC;
