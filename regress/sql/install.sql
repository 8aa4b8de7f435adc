-- What CREATE EXTENSION makes, whose it is, and that it goes away again.
SELECT extversion FROM pg_extension WHERE extname = 'kube_reports';

-- Nothing belongs to anybody but the role that installed the extension, save functions in C: those are the superuser's.
SELECT count(*) FROM pg_class c WHERE c.relnamespace IN ('kube_reports'::regnamespace,
	'kube_reports_internal'::regnamespace) AND c.relowner <> (SELECT extowner FROM pg_extension
	WHERE extname = 'kube_reports');
SELECT l.lanname = 'c' AS in_c, p.proowner = (SELECT extowner FROM pg_extension
	WHERE extname = 'kube_reports') AS of_installer, r.rolsuper AS of_superuser,
		bool_and(has_function_privilege(p.oid, 'EXECUTE WITH GRANT OPTION')) AS may_let_call, count(*) > 0 AS some
	FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_roles r ON r.oid = p.proowner
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
-- Their owner could have them called with nulls that they do not look for.
ALTER FUNCTION kube_reports.label_terms(kube_reports.report) CALLED ON NULL INPUT;
ALTER FUNCTION kube_reports_internal.report_out(kube_reports.report) CALLED ON NULL INPUT;
ALTER FUNCTION kube_reports.document_size(kube_reports.report) OWNER TO CURRENT_USER;
ALTER EXTENSION kube_reports DROP FUNCTION kube_reports.document_size(kube_reports.report);
CREATE OR REPLACE FUNCTION kube_reports.document_size(document kube_reports.report) RETURNS integer
	LANGUAGE sql AS $$SELECT 1$$;

-- Every object that a user sees has a comment.
SELECT p.oid::regprocedure FROM pg_proc p
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND obj_description(p.oid, 'pg_proc') IS NULL
	ORDER BY 1;
SELECT c.oid::regclass FROM pg_class c
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND c.relkind IN ('r', 'v', 'S') AND obj_description(c.oid, 'pg_class') IS NULL
	ORDER BY 1;
SELECT c.castsource::regtype AS source, c.casttarget::regtype AS target FROM pg_cast c
	WHERE 'kube_reports.report'::regtype IN (c.castsource, c.casttarget) AND obj_description(c.oid, 'pg_cast') IS NULL
	ORDER BY 1, 2;

-- What users call and read is of types that users may name.
SELECT p.oid::regprocedure AS public, t.oid::regtype AS inner_type
	FROM pg_proc p CROSS JOIN LATERAL unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]) || p.prorettype) a(type)
		JOIN pg_type t ON t.oid = a.type
	WHERE p.pronamespace = 'kube_reports'::regnamespace
		AND t.typnamespace NOT IN ('pg_catalog'::regnamespace, 'kube_reports'::regnamespace)
UNION
SELECT c.oid, t.oid
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
	WHERE c.relnamespace = 'kube_reports'::regnamespace
		AND t.typnamespace NOT IN ('pg_catalog'::regnamespace, 'kube_reports'::regnamespace)
ORDER BY 1, 2;

-- Nothing but the work on documents is for everybody.
SELECT p.proname FROM pg_proc p, LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND a.grantee = 0
		AND a.privilege_type = 'EXECUTE'
	ORDER BY 1;

-- The built-in types.
SELECT id, "group", plural, kind, namespaced, results, builtin FROM kube_reports.resource_type ORDER BY id;

-- Gone and back again.
DROP EXTENSION kube_reports;
SELECT count(*), to_regnamespace('kube_reports_internal') AS inside FROM pg_class
	WHERE relnamespace = 'kube_reports'::regnamespace;
CREATE EXTENSION kube_reports;
SELECT objects, clusters, restore_pending FROM kube_reports.status;

-- Documents are UTF-8, and so must be the database.
\set VERBOSITY terse
SELECT current_database() AS here \gset
CREATE DATABASE regress_latin1 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0;
\c regress_latin1
CREATE EXTENSION kube_reports;
\c :here
DROP DATABASE regress_latin1;
