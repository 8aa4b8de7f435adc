-- Makes a database ready for the proxies of one cluster, or brings it to the version of the installed files.
-- Safe to repeat.
--
--   psql -d reports -v cluster=<uid of the namespace kube-system> -f database.sql
--
-- Run it as a superuser, or as the owner of the database.  A superuser makes what is missing: roles, the owner's right
-- to make the extension.  Another role becomes the extension's owner itself, and makes missing roles where it may.
-- Further variables, with their defaults:
--   owner=kube_reports_owner     owner of the extension if a superuser runs this; otherwise the role that runs this
--   proxy=kube_reports_proxy     the role of this cluster's proxies; each cluster has one of its own
--   reader=kube_reports_reader   sees the reports of all clusters; empty for none
--   admin=kube_reports_admin     reads and writes everything; empty for none
--   update=true                  whether an older extension is updated
--   ingest=false                 whether the proxies may store what senders forward; nothing is revoked
-- PROXY_PASSWORD in the environment becomes the password of the proxies' role; without it, the password stays as it is.

\set ON_ERROR_STOP on
SET client_min_messages = warning;
\if :{?owner} \else \set owner kube_reports_owner \endif
\if :{?proxy} \else \set proxy kube_reports_proxy \endif
\if :{?reader} \else \set reader kube_reports_reader \endif
\if :{?admin} \else \set admin kube_reports_admin \endif
\if :{?update} \else \set update true \endif
\if :{?ingest} \else \set ingest false \endif
\set proxy_password ''
\getenv proxy_password PROXY_PASSWORD

SELECT rolsuper AS superuser, rolsuper OR rolcreaterole AS makes_roles
	FROM pg_catalog.pg_roles WHERE rolname = current_user \gset

-- ---- roles ----

-- The proxies' role is given a password, so it must not be somebody else's.
SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = :'proxy'::name AND (rolsuper OR rolname = current_user))
	AS wrong_role \gset
\if :wrong_role
\warn 'the role of the proxies is a superuser, or the role that sets up the database:' :proxy
DO $$ BEGIN RAISE EXCEPTION 'proxies need a role of their own' USING ERRCODE = 'invalid_role_specification'; END $$;
\endif

SELECT pg_catalog.format('CREATE ROLE %I %s', role, option)
	FROM (VALUES (:'proxy', 'LOGIN'), (:'reader', 'LOGIN'), (:'admin', 'LOGIN'),
		(CASE WHEN :'superuser' THEN :'owner' ELSE '' END, 'NOLOGIN')) wanted(role, option)
	WHERE role <> '' AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = role::name) \gexec

\if :superuser
-- Neither the server's log nor pg_stat_statements shows the password.
SET log_statement = none;
SET log_min_duration_statement = -1;
SET log_min_duration_sample = -1;
SET log_min_error_statement = panic;
SET pg_stat_statements.track_utility = off;
\endif
SELECT :'makes_roles' AND :'proxy_password' <> '' AS sets_password \gset
\if :sets_password
ALTER ROLE :"proxy" PASSWORD :'proxy_password';
\endif
\if :superuser
RESET log_statement;
RESET log_min_duration_statement;
RESET log_min_duration_sample;
RESET log_min_error_statement;
RESET pg_stat_statements.track_utility;
\endif

\if :superuser
SELECT pg_catalog.format('GRANT CONNECT, CREATE ON DATABASE %I TO %I', current_database(), :'owner') \gexec
SELECT pg_catalog.format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), role)
	FROM (VALUES (:'proxy'), (:'reader'), (:'admin')) wanted(role) WHERE role <> '' \gexec
SELECT pg_catalog.format('ALTER ROLE %I SET statement_timeout = %L; ALTER ROLE %1$I SET jit = off', :'reader', '60s')
	WHERE :'reader' <> '' \gexec
-- A reader that holds the store's advisory locks would stop writes to the store.
SELECT pg_catalog.format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC; GRANT EXECUTE ON FUNCTION %s TO %I', f, f, role)
	FROM (SELECT p.oid::regprocedure FROM pg_catalog.pg_proc p WHERE p.proname ~ '^pg_(try_)?advisory_') l(f),
		(VALUES (:'owner'), (:'admin')) wanted(role) WHERE role <> '' \gexec
SET ROLE :"owner";
\endif

-- ---- the extension ----

CREATE EXTENSION IF NOT EXISTS kube_reports;

\if :update
SELECT extversion AS installed FROM pg_catalog.pg_extension WHERE extname = 'kube_reports' \gset
-- It needs all tables for itself: it gives up when a long query holds one of them, and nothing has changed then.
BEGIN;
SET LOCAL lock_timeout = '5s';
ALTER EXTENSION kube_reports UPDATE;
SELECT extversion <> :'installed' AS updated FROM pg_catalog.pg_extension WHERE extname = 'kube_reports' \gset
\if :updated
SELECT kube_reports.after_update();
\endif
COMMIT;
\endif

-- ---- grants ----

SELECT kube_reports.grant_proxy(:'proxy', :'cluster'::uuid);
SELECT kube_reports.grant_reader(:'reader') WHERE :'reader' <> '';
SELECT kube_reports.grant_admin(:'admin') WHERE :'admin' <> '';
\if :ingest
SELECT kube_reports.grant_ingest(:'proxy');
\endif
