-- caller.sql
--	  The role that calls a function which runs as the owner.
--
-- Inside a SECURITY DEFINER function current_user is the function's owner.  session_user is not the caller either: it
-- stays the role that logged in, even while the server runs code of another role: index expressions during ANALYZE,
-- REINDEX and autovacuum, materialized views, SECURITY DEFINER functions of other owners.  Such code would act with the
-- rights of the session.
--
-- So the caller's name comes from outside the function.  The view caller is read with the rights of the caller.  In the
-- view, current_user is the role by which the server checks all other rights: after SET ROLE, the new role.  The view
-- adds a seal that only this store can make.  Functions for proxies take the row of the view as their last argument,
-- whose default the caller evaluates.  A seal is valid in one transaction only: after a right was revoked, nobody can
-- use an old seal.

CREATE VIEW kube_reports_internal.caller WITH (security_barrier) AS
	SELECT c.role, sha256(s.secret || sha256(s.secret
			|| convert_to(concat_ws(' ', pg_backend_pid(), extract(epoch FROM now()), c.role), 'UTF8'))) AS seal
	FROM kube_reports_internal.caller_secret s, (SELECT current_user::text) c(role);
COMMENT ON VIEW kube_reports_internal.caller
	IS 'the role that reads this view, and the seal that proves the role to functions of the same transaction. The '
		'seal is hashed twice: from a single hash, the hash of a longer name could be computed';

-- In PL/pgSQL, because a session keeps its plan.
CREATE FUNCTION kube_reports_internal.this_caller() RETURNS kube_reports_internal.caller
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller		kube_reports_internal.caller;
BEGIN
	SELECT c.role, c.seal INTO caller FROM kube_reports_internal.caller c;
	RETURN caller;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.this_caller()
	IS 'the calling role, under seal: the row of the view caller. It is the default of the last argument of functions '
		'for proxies';

CREATE FUNCTION kube_reports_internal.proven_role(caller kube_reports_internal.caller) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.caller_secret s
			WHERE sha256(s.secret || sha256(s.secret
				|| convert_to(concat_ws(' ', pg_backend_pid(), extract(epoch FROM now()), caller.role), 'UTF8'))) =
					caller.seal) THEN
		PERFORM kube_reports_internal.require_visible();
		IF NOT EXISTS (SELECT FROM kube_reports_internal.caller_secret) THEN
			RAISE EXCEPTION 'the secret of the store is gone: table kube_reports_internal.caller_secret is empty'
				USING ERRCODE = 'object_not_in_prerequisite_state',
					HINT = 'The owner calls kube_reports.after_restore().';
		END IF;
		RAISE EXCEPTION 'the seal is not that of role "%" in this transaction', caller.role
			USING ERRCODE = 'insufficient_privilege',
				HINT = 'Leave the argument out: who calls is then read from the view kube_reports_internal.caller.';
	END IF;
	RETURN caller.role;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.proven_role(kube_reports_internal.caller)
	IS 'the role of a caller, if its seal was made for that role in this transaction. Raises 42501 otherwise, 55000 '
		'if the secret of the seals is gone';

-- For callers that have checked hides_rows(): each call of that function asks for some fifty tables.
CREATE FUNCTION kube_reports_internal.is_bound(cluster_id integer, caller kube_reports_internal.caller) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	proven		name := kube_reports_internal.proven_role(caller);
BEGIN
	RETURN EXISTS (SELECT FROM kube_reports_internal.proxy_role p WHERE p.role = proven
		AND p.cluster_id = is_bound.cluster_id)
		OR has_table_privilege(proven, 'kube_reports.object', 'UPDATE')
			AND NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.id = is_bound.cluster_id AND c.removing);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.is_bound(integer, kube_reports_internal.caller)
	IS 'may_serve(), for an owner who sees every row';

CREATE FUNCTION kube_reports_internal.may_serve(cluster_id integer, caller kube_reports_internal.caller) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.hides_rows() THEN
		PERFORM kube_reports_internal.refuse_hidden();
	END IF;
	RETURN kube_reports_internal.is_bound(cluster_id, caller);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.may_serve(integer, kube_reports_internal.caller)
	IS 'whether a caller may act for a cluster: the role of proxies that is bound to the cluster, or a role that may '
		'write the table directly. No role may act for a cluster that is being removed. Raises 42501 for a wrong '
		'seal, and where row-level security hides rows from the owner';

CREATE FUNCTION kube_reports_internal.serve_hint(caller kube_reports_internal.caller, cluster uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known		boolean;
	removing	boolean;
	bound_to	uuid;
BEGIN
	SELECT true, c.removing INTO known, removing FROM kube_reports.cluster c WHERE c.uid = cluster;
	IF removing THEN
		RETURN 'The cluster is being removed: stop its proxies, and let kube_reports.unregister_cluster() finish.';
	END IF;
	SELECT c.uid INTO bound_to
		FROM kube_reports_internal.proxy_role p JOIN kube_reports.cluster c ON c.id = p.cluster_id
		WHERE p.role = caller.role;
	RETURN CASE WHEN known IS NULL THEN 'No such cluster is registered: it is new, or it was removed. ' ELSE '' END
		|| CASE WHEN bound_to IS NULL
			THEN format('The owner grants it: SELECT kube_reports.grant_proxy(%L, %L)', caller.role, cluster)
			ELSE format('The role is bound to cluster %s, and each cluster''s proxies use a role of their own. '
				'The owner grants it: SELECT kube_reports.grant_proxy(role, %L)', bound_to, cluster) END;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.serve_hint(kube_reports_internal.caller, uuid)
	IS 'the hint for a role that may not serve a cluster';

-- Rows would silently be missing: controllers would make their objects again, and upkeep would remove texts and rules
-- that hidden rows refer to.  One expression of constants, which the planner puts into the functions that ask: the
-- answer costs less than reading one row.
CREATE FUNCTION kube_reports_internal.hides_rows() RETURNS boolean
LANGUAGE sql STABLE
RETURN row_security_active('kube_reports.arriving_row'::regclass)
	OR row_security_active('kube_reports.cluster'::regclass)
	OR row_security_active('kube_reports.framework_control'::regclass)
	OR row_security_active('kube_reports.object'::regclass)
	OR row_security_active('kube_reports.resource_type'::regclass)
	OR row_security_active('kube_reports_internal.active_policy'::regclass)
	OR row_security_active('kube_reports_internal.active_policy_set'::regclass)
	OR row_security_active('kube_reports_internal.actor'::regclass)
	OR row_security_active('kube_reports_internal.aggregation'::regclass)
	OR row_security_active('kube_reports_internal.aggregation_queue'::regclass)
	OR row_security_active('kube_reports_internal.arriving_subject'::regclass)
	OR row_security_active('kube_reports_internal.caller_secret'::regclass)
	OR row_security_active('kube_reports_internal.change'::regclass)
	OR row_security_active('kube_reports_internal.criterion'::regclass)
	OR row_security_active('kube_reports_internal.detail'::regclass)
	OR row_security_active('kube_reports_internal.evidence_body'::regclass)
	OR row_security_active('kube_reports_internal.evidence_file'::regclass)
	OR row_security_active('kube_reports_internal.forward_assessment'::regclass)
	OR row_security_active('kube_reports_internal.forward_seen'::regclass)
	OR row_security_active('kube_reports_internal.forward_stream'::regclass)
	OR row_security_active('kube_reports_internal.garbage_sweep'::regclass)
	OR row_security_active('kube_reports_internal.import_time'::regclass)
	OR row_security_active('kube_reports_internal.import_waiting'::regclass)
	OR row_security_active('kube_reports_internal.imported'::regclass)
	OR row_security_active('kube_reports_internal.ingest_role'::regclass)
	OR row_security_active('kube_reports_internal.lane'::regclass)
	OR row_security_active('kube_reports_internal.log_size'::regclass)
	OR row_security_active('kube_reports_internal.namespace'::regclass)
	OR row_security_active('kube_reports_internal.origin'::regclass)
	OR row_security_active('kube_reports_internal.proxy_role'::regclass)
	OR row_security_active('kube_reports_internal.reader_grant'::regclass)
	OR row_security_active('kube_reports_internal.report_change'::regclass)
	OR row_security_active('kube_reports_internal.resource_version'::regclass)
	OR row_security_active('kube_reports_internal.result'::regclass)
	OR row_security_active('kube_reports_internal.result_pending'::regclass)
	OR row_security_active('kube_reports_internal.result_rebuild'::regclass)
	OR row_security_active('kube_reports_internal.result_since'::regclass)
	OR row_security_active('kube_reports_internal.rollup'::regclass)
	OR row_security_active('kube_reports_internal.rollup_daily'::regclass)
	OR row_security_active('kube_reports_internal.rollup_delta'::regclass)
	OR row_security_active('kube_reports_internal.rollup_mark'::regclass)
	OR row_security_active('kube_reports_internal.rollup_policy'::regclass)
	OR row_security_active('kube_reports_internal.score_daily'::regclass)
	OR row_security_active('kube_reports_internal.sender_credential'::regclass)
	OR row_security_active('kube_reports_internal.setting'::regclass)
	OR row_security_active('kube_reports_internal.store'::regclass)
	OR row_security_active('kube_reports_internal.subject'::regclass)
	OR row_security_active('kube_reports_internal.summary_type'::regclass)
	OR row_security_active('kube_reports_internal.webhook'::regclass)
	OR row_security_active('kube_reports_internal.webhook_progress'::regclass);
COMMENT ON FUNCTION kube_reports_internal.hides_rows()
	IS 'whether row-level security hides rows of any table of the store from the role that runs this function';

CREATE FUNCTION kube_reports_internal.refuse_hidden() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	hidden		regclass := (SELECT c.oid FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p') AND row_security_active(c.oid)
		ORDER BY c.relname LIMIT 1);
BEGIN
	RAISE EXCEPTION 'row-level security of table % hides rows from role "%"', hidden, current_user
		USING ERRCODE = 'insufficient_privilege',
			HINT = format('ALTER TABLE %1$s NO FORCE ROW LEVEL SECURITY, or DISABLE ROW LEVEL SECURITY. Readers see '
				'only the rows of their grants without it.', hidden);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.refuse_hidden()
	IS 'raises 42501, for a store whose owner does not see every row: see hides_rows()';

CREATE FUNCTION kube_reports_internal.require_visible() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF kube_reports_internal.hides_rows() THEN
		PERFORM kube_reports_internal.refuse_hidden();
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_visible()
	IS 'raises 42501 if row-level security hides rows from the role that runs this function';

CREATE FUNCTION kube_reports_internal.require_service(cluster uuid, caller kube_reports_internal.caller) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	-- First: the rows that tell who may serve may be hidden.
	PERFORM kube_reports_internal.require_visible();
	IF NOT EXISTS (SELECT FROM kube_reports.cluster c WHERE c.uid = cluster
		AND kube_reports_internal.may_serve(c.id, caller)) THEN
		RAISE EXCEPTION 'role "%" may not serve cluster %', caller.role, cluster
			USING ERRCODE = 'insufficient_privilege',
				HINT = kube_reports_internal.serve_hint(caller, cluster);
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_service(uuid, kube_reports_internal.caller)
	IS 'raises 42501 unless the caller may act for a cluster, and also for an unknown cluster: a proxy that has lost '
		'its cluster must not answer that types and objects are not found; nor may one whose owner does not see '
		'every row';

CREATE FUNCTION kube_reports_internal.not_served_document(cluster uuid, caller kube_reports_internal.caller)
	RETURNS bytea
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.require_service(cluster, caller);
	RETURN kube_reports_internal.status_document(404, 'NotFound', 'the server could not find the requested resource',
		'{}');
END
$$;
COMMENT ON FUNCTION kube_reports_internal.not_served_document(uuid, kube_reports_internal.caller)
	IS 'the Status for a type or version that is not served. Raises 42501 as require_service() does';

---- settings ----

-- Every session can set a setting, and so can code of another role that runs in the session.  So a setting that says
-- what this transaction has done has a seal.  SECURITY DEFINER: triggers of an administrator's DML call it; no other
-- role may call it.
CREATE FUNCTION kube_reports_internal.setting_seal(name text, value text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT encode(sha256(s.secret || sha256(s.secret
			|| convert_to(concat_ws(' ', 'setting', pg_current_xact_id(), name, value), 'UTF8'))), 'hex')
		FROM kube_reports_internal.caller_secret s);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.setting_seal(text, text)
	IS 'proves, in this transaction, that a function of the owner has set the setting to this value';

CREATE FUNCTION kube_reports_internal.set_sealed(name text, value text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF name IS NULL OR name NOT IN ('recorded', 'actor') THEN
		RAISE EXCEPTION 'setting "%" is under no seal', name USING ERRCODE = 'invalid_parameter_value';
	END IF;
	PERFORM set_config('kube_reports_internal.' || name,
		coalesce(kube_reports_internal.setting_seal(name, value) || ' ' || value, ''), true);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.set_sealed(text, text)
	IS 'sets a setting of kube_reports_internal (recorded or actor) until the transaction ends; null: removes the '
		'value. Raises 22023 for another setting';

CREATE FUNCTION kube_reports_internal.sealed(name text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		text := coalesce(current_setting('kube_reports_internal.' || name, true), '');
	value		text := substr(given, 66);
BEGIN
	IF given = '' OR kube_reports_internal.setting_seal(name, value) IS DISTINCT FROM left(given, 64) THEN
		RETURN NULL;
	END IF;
	RETURN value;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.sealed(text)
	IS 'the value that set_sealed() has set in this transaction; null if there is none, or if the session set the '
		'value without set_sealed()';

-- Each write of the extension itself calls this function, and the trigger compares before each statement.  So both
-- functions compute the hash themselves, once.
CREATE FUNCTION kube_reports_internal.begin_own_write() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM set_config('kube_reports_internal.api_write', (SELECT encode(sha256(s.secret || sha256(s.secret
			|| convert_to('own write ' || pg_current_xact_id(), 'UTF8'))), 'hex')
		FROM kube_reports_internal.caller_secret s), true);
END
$$;
COMMENT ON FUNCTION kube_reports_internal.begin_own_write()
	IS 'begins a write by the extension itself, during which triggers of DML do nothing: sets the setting api_write '
		'to the seal of this transaction. The write ends with set_config(''kube_reports_internal.api_write'', '''', '
		'true)';

CREATE FUNCTION kube_reports_internal.own_write_proven() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF current_setting('kube_reports_internal.api_write') IS DISTINCT FROM (
			SELECT encode(sha256(s.secret || sha256(s.secret
				|| convert_to('own write ' || pg_current_xact_id(), 'UTF8'))), 'hex')
			FROM kube_reports_internal.caller_secret s) THEN
		PERFORM set_config('kube_reports_internal.api_write', '', true);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.own_write_proven()
	IS 'trigger, runs before all others of a statement: empties the setting api_write, unless begin_own_write() set '
		'the value in this transaction';
