-- grants.sql
--	  Roles.  The script creates no role, because roles are global to a
--	  server.  A DBA creates them and calls these functions.

-- The objects that each kind of role may use.  Update scripts also call these functions, for new objects; the functions
-- read only the server's catalogs.

CREATE FUNCTION kube_reports_internal.proxy_objects() RETURNS TABLE (kind text, object text, privileges text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT 'ROUTINE', p.oid::regprocedure::text, 'EXECUTE' FROM pg_proc p
		WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND (starts_with(p.proname, 'api_')
			OR p.proname IN ('this_caller', 'write_batch', 'commit_batch', 'delete_piece', 'sweep_piece',
				'aggregate_piece', 'script_version'))
	UNION ALL
	SELECT 'TABLE', 'kube_reports_internal.caller', 'SELECT'
$$;
COMMENT ON FUNCTION kube_reports_internal.proxy_objects() IS 'the objects that proxies may use, as GRANT names them';

CREATE FUNCTION kube_reports_internal.require_role(role name) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = require_role.role) THEN
		RAISE EXCEPTION 'role "%" does not exist', role
			USING ERRCODE = 'undefined_object', HINT = 'CREATE ROLE makes it, or CREATE ROLE ... LOGIN.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_role(name) IS 'raises 42704 unless a role exists';

CREATE FUNCTION kube_reports.grant_proxy(role name, cluster uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	bound		record;
	given		record;
BEGIN
	PERFORM kube_reports_internal.require_role(role);
	SELECT c.uid, c.id INTO bound FROM kube_reports_internal.proxy_role p
		JOIN kube_reports.cluster c ON c.id = p.cluster_id
		WHERE p.role = grant_proxy.role;
	IF FOUND AND bound.uid <> cluster THEN
		RAISE EXCEPTION 'role "%" is bound to cluster % already', role, bound.uid
			USING ERRCODE = 'object_in_use', HINT = 'Each cluster''s proxies use a role of their own.';
	END IF;
	EXECUTE format('GRANT USAGE ON SCHEMA kube_reports, kube_reports_internal TO %I', role);
	FOR given IN SELECT o.privileges, o.kind, o.object FROM kube_reports_internal.proxy_objects() o LOOP
		EXECUTE format('GRANT %s ON %s %s TO %I', given.privileges, given.kind, given.object, role);
	END LOOP;
	INSERT INTO kube_reports_internal.proxy_role (role, cluster_id)
		VALUES (grant_proxy.role, kube_reports.register_cluster(cluster))
		ON CONFLICT ON CONSTRAINT proxy_role_pkey DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports.grant_proxy(name, uuid)
	IS 'lets a role serve one cluster, given by the uid of its namespace kube-system; registers the cluster if it is '
		'new. Raises 42704 for an unknown role, 55006 for one that is bound to another cluster';

CREATE FUNCTION kube_reports_internal.reader_objects() RETURNS TABLE (kind text, object text, privileges text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	-- Readers may select from every view with a security barrier, and from no other view.
	SELECT 'TABLE', c.oid::regclass::text, 'SELECT' FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind = 'v' AND 'security_barrier=true' = ANY (c.reloptions)
	UNION ALL
	SELECT 'ROUTINE', p.oid::regprocedure::text, 'EXECUTE' FROM pg_proc p
		WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND p.prokind IN ('f', 'a') AND p.proname IN (
			-- Used by views and searches.
			'script_version', 'placed',
			'total', 'status_name', 'unpacked_changes', 'excluded_from_score', 'string_at', 'value_at', 'is_report',
				'checked_filter', 'filter_strings', 'filter_words', 'known_word', 'checked_range', 'checked_count',
				'checked_cluster',
			'status_words', 'severity_words', 'check_rows', 'warn_pending', 'find_results', 'find_resources',
				'find_reports', 'find_exported', 'find_events',
			'search_results', 'search_resources', 'export_results', 'export_events', 'reports_with_score', 'top',
				'results_of_resource', 'cve', 'fleet_drift',
			'results', 'summary', 'new_failures', 'transitions', 'fix_time', 'flapping', 'status_at',
				'compliance_score', 'framework_score', 'severity_weight',
			'fleet_score', 'days_shown', 'clusters', 'labels_match', 'filter_clusters', 'in_clusters',
				'is_vulnerability', 'find_vulnerabilities',
				'worst_vulnerabilities', 'dashboard', 'dashboard_failing', 'dashboard_history', 'dashboard_ages',
				'dashboard_html', 'setting',
			-- Used by the page.
			'html_text', 'html_number', 'html_counted', 'html_value', 'html_age', 'html_namespace', 'html_rows',
				'chart_top', 'chart_path', 'chart_trend',
			'chart_spark', 'chart_bar', 'chart_ring', 'dashboard_style', 'dashboard_tiles', 'dashboard_trends',
				'dashboard_clusters', 'dashboard_lists',
			'dashboard_page', 'html_page', 'fleet_numbers', 'fleet_clusters', 'fleet_table', 'fleet_html')
$$;
COMMENT ON FUNCTION kube_reports_internal.reader_objects()
	IS 'the objects that readers may select from and execute, as GRANT names them';

CREATE FUNCTION kube_reports_internal.reader_timeout() RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '60s';
END;
COMMENT ON FUNCTION kube_reports_internal.reader_timeout() IS 'the statement_timeout of reader_settings()';

CREATE FUNCTION kube_reports_internal.add_reader(role name, cluster uuid, namespace text,
	selector text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		record;
	granted_cluster integer;
BEGIN
	PERFORM kube_reports_internal.require_role(role);
	IF cluster IS NOT NULL THEN
		granted_cluster := kube_reports_internal.known_cluster(cluster);
	END IF;
	-- Grants of an earlier role of that name do not belong to this role.
	DELETE FROM kube_reports_internal.reader_grant g
		WHERE g.role = add_reader.role AND NOT EXISTS (SELECT FROM kube_reports_internal.owned_grant h
			WHERE h.role = g.role);
	EXECUTE format('GRANT USAGE ON SCHEMA kube_reports, kube_reports_internal TO %I', role);
	FOR given IN SELECT o.kind, o.object, o.privileges FROM kube_reports_internal.reader_objects() o LOOP
		EXECUTE format('GRANT %s ON %s %s TO %I', given.privileges, given.kind, given.object, role);
	END LOOP;
	INSERT INTO kube_reports_internal.reader_grant (role, cluster_id, namespace, selector)
		VALUES (add_reader.role, granted_cluster, add_reader.namespace, add_reader.selector)
		ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.add_reader(name, uuid, text, text)
	IS 'gives a role the rights of readers, and one grant. cluster null: all clusters, or the clusters that the '
		'selector selects; namespace null: all namespaces. If the role has no privileges of a reader yet, the grants '
		'stored for its name are removed first: they belonged to another role, or come from a dump without '
		'privileges. Raises 42704 for an unknown role or cluster';

-- jit: the planner overestimates views of a store whose tables were never analyzed.  Compilation then takes seconds,
-- and execution milliseconds.  Compiled code saves little time even if a view reads millions of rows.
CREATE FUNCTION kube_reports_internal.reader_settings() RETURNS TABLE (name text, value text)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	VALUES ('statement_timeout', kube_reports_internal.reader_timeout()), ('jit', 'off');
END;
COMMENT ON FUNCTION kube_reports_internal.reader_settings()
	IS 'the settings for readers that have no value of their own, from their next login on; a role that inherits from '
		'the reader does not get them';

CREATE FUNCTION kube_reports_internal.limit_reader(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	setting		record;
BEGIN
	FOR setting IN SELECT r.name, r.value FROM kube_reports_internal.reader_settings() r
		-- A value that was chosen for a role is not changed.
		WHERE NOT EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) c(setting)
			WHERE s.setrole IN (0, to_regrole(quote_ident(role)))
				AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
					AND c.setting LIKE r.name || '=%')
	LOOP
		BEGIN
			EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %I = %L', role, current_database(),
				setting.name, setting.value);
		EXCEPTION WHEN insufficient_privilege OR reserved_name THEN
			RAISE NOTICE 'role "%" has no % = %: its queries may run for ever, or slowly', role,
				setting.name, setting.value
				USING HINT = format('Whoever may change the role: ALTER ROLE %I SET %I = %L', role,
					setting.name, setting.value);
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.limit_reader(name)
	IS 'gives a role the settings of reader_settings() in this database, except those for which the role has a value '
		'of its own; if the caller may not set one, a notice says so';

CREATE FUNCTION kube_reports.grant_reader(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM kube_reports_internal.add_reader(role, NULL, NULL);
	PERFORM kube_reports_internal.limit_reader(role);
	EXECUTE format('GRANT SELECT ON kube_reports.status TO %I', role);
END
$$;
COMMENT ON FUNCTION kube_reports.grant_reader(name)
	IS 'lets a role read everything, of all clusters, through views and functions; sets statement_timeout = 60s and '
		'jit = off for the role, unless the role has its own values';

CREATE FUNCTION kube_reports.grant_cluster(role name, cluster uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF cluster IS NULL THEN
		RAISE EXCEPTION 'no cluster is given' USING ERRCODE = 'null_value_not_allowed',
			HINT = 'grant_reader() lets a role see all clusters.';
	END IF;
	PERFORM kube_reports_internal.add_reader(role, cluster, NULL);
	PERFORM kube_reports_internal.limit_reader(role);
END
$$;
COMMENT ON FUNCTION kube_reports.grant_cluster(name, uuid)
	IS 'lets a role read what belongs to one cluster, including reports of cluster scope, through views and '
		'functions; sets parameters of the role as grant_reader() does';

CREATE FUNCTION kube_reports.grant_clusters(role name, selector text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF btrim(coalesce(selector, '')) = '' THEN
		RAISE EXCEPTION 'no selector is given' USING ERRCODE = 'null_value_not_allowed',
			HINT = 'grant_reader() lets a role see all clusters.';
	END IF;
	-- Raises 22023 for a wrong selector.
	PERFORM kube_reports_internal.labels_match('{}', selector);
	PERFORM kube_reports_internal.add_reader(role, NULL, NULL, selector);
	PERFORM kube_reports_internal.limit_reader(role);
END
$$;
COMMENT ON FUNCTION kube_reports.grant_clusters(name, text)
	IS 'lets a role read what belongs to the clusters whose labels match a Kubernetes label selector, as '
		'grant_cluster() does; each query uses the current labels, so a role that sets labels of clusters also '
		'decides who reads these clusters. Raises 22023 for a wrong selector';

CREATE FUNCTION kube_reports.grant_namespace(role name, cluster uuid, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF namespace IS NULL THEN
		RAISE EXCEPTION 'no namespace is given' USING ERRCODE = 'null_value_not_allowed',
			HINT = 'grant_cluster() lets a role see all namespaces.';
	ELSIF namespace !~ '^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$' THEN
		RAISE EXCEPTION 'no namespace can have the name "%"', left(namespace, 100)
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'A name has 1 to 63 lower case letters, digits and hyphens, with no hyphen at its ends.';
	END IF;
	PERFORM kube_reports_internal.add_reader(role, cluster, namespace);
	PERFORM kube_reports_internal.limit_reader(role);
END
$$;
COMMENT ON FUNCTION kube_reports.grant_namespace(name, uuid, text)
	IS 'lets a role read what belongs to one namespace of a cluster (cluster null: of every cluster) through views '
		'and functions; namespace empty: the reports of cluster scope. Sets parameters of the role as grant_reader() '
		'does. Raises 22023 for a name that no namespace can have, 42704 for an unknown role or cluster';

CREATE FUNCTION kube_reports_internal.require_granted(role name) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM pg_class o WHERE o.oid = 'kube_reports.object'::regclass
			AND pg_get_userbyid(o.relowner) = require_granted.role) THEN
		RAISE EXCEPTION 'role "%" owns the store: its rights are not those of a grant', role
			USING ERRCODE = 'invalid_parameter_value',
				HINT = 'REASSIGN OWNED gives the store to another owner: see docs/operations.md.';
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.require_granted(name)
	IS 'raises 22023 for the owner of the store, whose own rights would be revoked';

CREATE FUNCTION kube_reports_internal.end_reader(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		record;
	served		uuid;
BEGIN
	IF NOT EXISTS (SELECT FROM kube_reports_internal.reader_grant g WHERE g.role = end_reader.role)
		AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname = end_reader.role) THEN
		FOR given IN SELECT o.kind, o.object FROM kube_reports_internal.reader_objects() o LOOP
			EXECUTE format('REVOKE ALL ON %s %s FROM %I', given.kind, given.object, role);
		END LOOP;
		EXECUTE format('REVOKE ALL ON kube_reports.status FROM %I', role);
		EXECUTE format('REVOKE USAGE ON SCHEMA kube_reports, kube_reports_internal FROM %I', role);
		-- The role of a proxy keeps the privileges that readers and proxies share.
		SELECT c.uid INTO served FROM kube_reports_internal.proxy_role p
			JOIN kube_reports.cluster c ON c.id = p.cluster_id
			WHERE p.role = end_reader.role;
		IF FOUND THEN
			PERFORM kube_reports.grant_proxy(role, served);
		END IF;
		FOR given IN SELECT r.name FROM kube_reports_internal.reader_settings() r
			WHERE EXISTS (SELECT FROM pg_db_role_setting s
				WHERE s.setrole = to_regrole(quote_ident(role))
					AND s.setdatabase = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
					AND r.name || '=' || r.value = ANY (s.setconfig))
		LOOP
			BEGIN
				EXECUTE format('ALTER ROLE %I IN DATABASE %I RESET %I', role, current_database(), given.name);
			EXCEPTION WHEN insufficient_privilege THEN
				RAISE NOTICE 'role "%" keeps its %', role, given.name;
			END;
		END LOOP;
	END IF;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.end_reader(name)
	IS 'takes the privileges and settings of readers from a role that has no grant any more';

CREATE FUNCTION kube_reports.revoke_reader(role name, cluster uuid DEFAULT NULL, namespace text DEFAULT NULL)
	RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	removed		bigint;
BEGIN
	PERFORM kube_reports_internal.require_granted(role);
	PERFORM kube_reports_internal.named_cluster(revoke_reader.cluster) WHERE revoke_reader.cluster IS NOT NULL;
	DELETE FROM kube_reports_internal.reader_grant g
		WHERE g.role = revoke_reader.role
			AND (revoke_reader.cluster IS NULL AND revoke_reader.namespace IS NULL
				OR g.cluster_id IS NOT DISTINCT FROM (SELECT c.id FROM kube_reports.cluster c
					WHERE c.uid = revoke_reader.cluster)
					AND g.namespace IS NOT DISTINCT FROM revoke_reader.namespace
					AND (revoke_reader.cluster IS NULL OR g.cluster_id IS NOT NULL));
	GET DIAGNOSTICS removed = ROW_COUNT;
	PERFORM kube_reports_internal.end_reader(role);
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports.revoke_reader(name, uuid, text)
	IS 'takes back one grant of a reader, with the arguments of that grant, or all grants of a role; with the last '
		'grant also the privileges and parameters that came with it. Returns how many grants it took back. Raises '
		'22023 for the owner, 42704 for an unknown cluster';

CREATE FUNCTION kube_reports.revoke_clusters(role name, selector text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	removed		bigint;
BEGIN
	PERFORM kube_reports_internal.require_granted(role);
	DELETE FROM kube_reports_internal.reader_grant g
		WHERE g.role = revoke_clusters.role AND g.selector = revoke_clusters.selector;
	GET DIAGNOSTICS removed = ROW_COUNT;
	PERFORM kube_reports_internal.end_reader(role);
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports.revoke_clusters(name, text)
	IS 'takes back a grant of grant_clusters() with the same selector, as revoke_reader() does. Returns how many '
		'grants it took back. Raises 22023 for the owner';

CREATE FUNCTION kube_reports_internal.admin_objects() RETURNS TABLE (kind text, object text, privileges text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	-- No TRIGGER: the function of a trigger would run as the owner.  No REFERENCES: referenced rows cannot be deleted.
	-- Only the owner decides what a role may read and serve.  No role may read the secret, which makes the seals of
	-- other roles.
	SELECT 'TABLE', c.oid::regclass::text,
			CASE WHEN c.relname IN ('reader_grant', 'proxy_role', 'sender_credential', 'ingest_role') THEN 'SELECT'
				ELSE 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE' END
		FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p', 'v')
			AND c.relname NOT IN ('caller_secret', 'arriving_row', 'arriving_subject')
	UNION ALL
	SELECT 'SEQUENCE', c.oid::regclass::text, 'ALL' FROM pg_class c
		WHERE c.relnamespace = 'kube_reports_internal'::regnamespace AND c.relkind = 'S'
	UNION ALL
	-- Functions of the type itself are left out: no user calls them, and a dump with grants on them could not be
	-- restored into the SQL variant.
	SELECT 'ROUTINE', p.oid::regprocedure::text, 'EXECUTE' FROM pg_proc p
		WHERE p.pronamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND p.proname NOT IN ('report_in', 'report_out', 'report_recv', 'report_send',
				-- Functions that need the owner's rights are left out: they would fail in the middle, without a useful
				-- message.
				'grant_proxy', 'grant_reader', 'grant_cluster', 'grant_clusters', 'grant_namespace', 'grant_admin',
					'revoke_reader', 'revoke_clusters', 'revoke_admin', 'add_reader', 'end_reader', 'limit_reader',
				'add_sender', 'rotate_sender', 'remove_sender', 'store_credential', 'grant_ingest', 'revoke_ingest',
				'unregister_cluster', 'mark_cluster', 'after_update', 'enable_text_search', 'prepare_subscriber',
				'send_cluster', 'receive_cluster', 'arrived_header', 'begin_arrival', 'receive_texts',
				'receive_rows', 'begin_sending', 'store_arriving', 'arriving_value', 'arriving_months')
$$;
COMMENT ON FUNCTION kube_reports_internal.admin_objects()
	IS 'the objects that administrators may use, as GRANT names them';

CREATE FUNCTION kube_reports.grant_admin(role name) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given		record;
BEGIN
	PERFORM kube_reports_internal.add_reader(role, NULL, NULL);
	FOR given IN SELECT o.kind, o.object, o.privileges FROM kube_reports_internal.admin_objects() o LOOP
		EXECUTE format('GRANT %s ON %s %s TO %I', given.privileges, given.kind, given.object, role);
	END LOOP;
END
$$;
COMMENT ON FUNCTION kube_reports.grant_admin(name)
	IS 'lets a role read and write every table, and call every function except those of the owner, for every cluster. '
		'Only the owner grants, removes clusters and upgrades';

-- A grant on a function in C has a grantor besides the function's owner, who is a superuser: REVOKE and DROP OWNED by a
-- superuser take back only the superuser's grants.  So the grants of each grantor are revoked as the grantor.
CREATE FUNCTION kube_reports.revoke_admin(role name) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller CONSTANT text := current_setting('role');
	served		uuid;
	removed		bigint;
	given		record;
BEGIN
	PERFORM kube_reports_internal.require_role(role);
	removed := kube_reports.revoke_reader(role);
	FOR given IN
		SELECT DISTINCT a.grantor::regrole AS grantor, o.kind, o.object
		FROM (SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind, c.oid::regclass::text AS object,
				c.relnamespace AS namespace, c.relacl AS acl FROM pg_class c
			UNION ALL
			SELECT 'ROUTINE', p.oid::regprocedure::text, p.pronamespace, p.proacl FROM pg_proc p
			UNION ALL
			SELECT 'SCHEMA', n.oid::regnamespace::text, n.oid, n.nspacl FROM pg_namespace n) o, aclexplode(o.acl) a
		WHERE o.namespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND a.grantee = to_regrole(quote_ident(revoke_admin.role)) AND a.grantor <> a.grantee
		ORDER BY 1, 2, 3
	LOOP
		IF NOT pg_has_role(given.grantor, 'MEMBER') THEN
			RAISE EXCEPTION 'role % granted privileges on % % to role "%"', given.grantor, lower(given.kind),
				given.object, role USING ERRCODE = 'insufficient_privilege',
					HINT = format('SELECT kube_reports.revoke_admin(%L), called by that role or a superuser.', role);
		END IF;
		PERFORM set_config('role', pg_get_userbyid(given.grantor)::text, true);
		EXECUTE format('REVOKE ALL ON %s %s FROM %I', given.kind, given.object, role);
		PERFORM set_config('role', caller, true);
	END LOOP;
	-- The role of a proxy keeps the privileges that administrators and proxies share.
	SELECT c.uid INTO served FROM kube_reports_internal.proxy_role p
		JOIN kube_reports.cluster c ON c.id = p.cluster_id WHERE p.role = revoke_admin.role;
	IF FOUND THEN
		PERFORM kube_reports.grant_proxy(role, served);
	END IF;
	RETURN removed;
END
$$;
COMMENT ON FUNCTION kube_reports.revoke_admin(name)
	IS 'takes back every privilege and grant of a role in this store, whoever granted it, except what a role of '
		'proxies needs; then the role can be dropped. Returns how many grants of a reader the role had. Raises 42704 '
		'for an unknown role, 22023 for the owner, 42501 when another role granted privileges';
