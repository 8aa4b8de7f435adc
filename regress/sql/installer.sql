-- What the install script makes refers to nothing but the server and itself, and the script takes no schema that others
-- had a hand in.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
DROP EXTENSION kube_reports;
DROP SCHEMA kube_reports CASCADE;
CREATE EXTENSION kube_reports;

-- What views, bodies of functions, defaults, generated columns, constraints, domains, casts, indexes and triggers refer
-- to.
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS object,
	pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid) AS elsewhere
	FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) o,
		pg_identify_object(d.refclassid, d.refobjid, d.refobjsubid) r
	WHERE o.identity ~ '\mkube_reports(_internal)?\M' AND r.identity !~ '\mkube_reports(_internal)?\M'
		AND r.schema IS DISTINCT FROM 'pg_catalog'
		AND (r.type, r.identity) <> ('language', 'plpgsql');

-- A body that is looked at when it runs has a path of its own.  A procedure that commits can have none.
SELECT p.oid::regprocedure AS no_path FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND p.prokind <> 'a'
		AND l.lanname NOT IN ('c', 'internal') AND p.prosqlbody IS NULL
		AND NOT (p.prokind = 'p' AND p.prosrc ~ '\mCOMMIT;')
		AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}'));

-- SECURITY DEFINER functions have one, whatever their bodies are.
SELECT p.oid::regprocedure AS no_path FROM pg_proc p
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace) AND p.prosecdef
		AND 'search_path=pg_catalog, pg_temp' <> ALL (coalesce(p.proconfig, '{}'));

-- There every function, relation, type and operator is qualified: what is left of such a body when these and words are
-- taken out.
CREATE FUNCTION pg_temp.unqualified(body text) RETURNS text[] LANGUAGE sql AS $$
	SELECT array_agg(DISTINCT m[1]) FROM regexp_matches(
		regexp_replace(regexp_replace(body, '--[^\n]*', '', 'g'),
			'\m(kube_reports|kube_reports_internal|pg_catalog)\.\w+\s*\(|OPERATOR\(pg_catalog\.[^)]+\)|:=|\.\.'
			'|(\mSET|,)\s+\w+ = ', ' kube_reports.f ', 'g'),
		'(\m\w+\s*\(|[-+*/<>=~!@#%^&|`?]+|::\s*(?!pg_catalog\.)\w+'
		'|\m(?:FROM|JOIN|UPDATE)\s+(?!kube_reports\.|pg_catalog\.|\d)\w+)', 'g') m
$$;
SELECT p.oid::regprocedure AS procedure, pg_temp.unqualified(p.prosrc) FROM pg_proc p
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND p.prokind = 'p'
		-- Only the SQL variant has these.
		AND (p.proname NOT LIKE 'api\_engine\_%' OR pg_temp.unqualified(p.prosrc) IS NOT NULL)
	ORDER BY p.proname;
SELECT pg_temp.unqualified(
	'BEGIN PERFORM f(1); x := a || b; SELECT c::t INTO y FROM v; FOR i IN 1 .. 2 LOOP kube_reports.g(); END LOOP; END')
	AS told;

-- Nobody but the owner has anything, with default privileges that would give it.
CREATE ROLE regress_default;
DROP EXTENSION kube_reports;
DROP SCHEMA kube_reports;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO regress_default;
ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO PUBLIC;
ALTER DEFAULT PRIVILEGES GRANT ALL ON ROUTINES TO regress_default WITH GRANT OPTION;
CREATE EXTENSION kube_reports;
SELECT c.oid::regclass, a.grantee, a.privilege_type FROM pg_class c, aclexplode(c.relacl) a
	WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND a.grantee <> current_user::regrole;
SELECT p.oid::regprocedure, a.privilege_type FROM pg_proc p, aclexplode(p.proacl) a
	WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
		AND a.grantee NOT IN (0, p.proowner, current_user::regrole);
ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM regress_default;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON SEQUENCES FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON ROUTINES FROM regress_default;
DROP EXTENSION kube_reports;
DROP SCHEMA kube_reports;

-- A schema that others may create in, by default.
ALTER DEFAULT PRIVILEGES GRANT CREATE ON SCHEMAS TO regress_default;
CREATE EXTENSION kube_reports;
ALTER DEFAULT PRIVILEGES REVOKE CREATE ON SCHEMAS FROM regress_default;

-- A schema that holds something, of each kind.
CREATE SCHEMA kube_reports;
CREATE FUNCTION kube_reports.format(text, bigint) RETURNS text LANGUAGE sql AS $$SELECT ''$$;
CREATE EXTENSION kube_reports;
DROP FUNCTION kube_reports.format(text, bigint);
CREATE DOMAIN kube_reports.text AS pg_catalog.text;
CREATE EXTENSION kube_reports;
DROP DOMAIN kube_reports.text;
CREATE OPERATOR kube_reports.= (LEFTARG = text, RIGHTARG = name, FUNCTION = pg_catalog.texteqname);
CREATE EXTENSION kube_reports;
DROP OPERATOR kube_reports.= (text, name);
CREATE SEQUENCE kube_reports.s;
CREATE EXTENSION kube_reports;
DROP SEQUENCE kube_reports.s;
CREATE COLLATION kube_reports.c FROM "C";
CREATE EXTENSION kube_reports;
DROP COLLATION kube_reports.c;
CREATE VIEW kube_reports.pg_proc AS SELECT 1 AS one;
CREATE EXTENSION kube_reports;
DROP VIEW kube_reports.pg_proc;
CREATE TEXT SEARCH CONFIGURATION kube_reports.c (PARSER = pg_catalog.default);
CREATE EXTENSION kube_reports;
DROP TEXT SEARCH CONFIGURATION kube_reports.c;
ALTER DEFAULT PRIVILEGES IN SCHEMA kube_reports GRANT SELECT ON TABLES TO regress_default;
CREATE EXTENSION kube_reports;
ALTER DEFAULT PRIVILEGES IN SCHEMA kube_reports REVOKE SELECT ON TABLES FROM regress_default;

-- A schema that others may create in.
GRANT CREATE ON SCHEMA kube_reports TO PUBLIC;
CREATE EXTENSION kube_reports;
REVOKE CREATE ON SCHEMA kube_reports FROM PUBLIC;
DROP SCHEMA kube_reports;

-- The inner schema, which the script makes itself.
CREATE SCHEMA kube_reports_internal;
CREATE EXTENSION kube_reports;
DROP SCHEMA kube_reports_internal;

-- A schema of another role.
SELECT current_database() AS here, current_user AS owner \gset
GRANT CREATE ON DATABASE :"here" TO regress_default;
GRANT regress_default TO CURRENT_USER;
SET ROLE regress_default;
CREATE SCHEMA kube_reports;
RESET ROLE;
CREATE EXTENSION kube_reports;
ALTER SCHEMA kube_reports OWNER TO :"owner";
CREATE EXTENSION kube_reports;
SELECT objects FROM kube_reports.status;
REVOKE CREATE ON DATABASE :"here" FROM regress_default;
DROP ROLE regress_default;
