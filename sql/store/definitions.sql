-- definitions.sql
--	  What verify() says about the definitions of tables: what a DBA has
--	  changed that makes backups incomplete, queries slow or rows wrong.
--
-- The catalogs are compared with lists: made_parts() and dumped_relations() are made from the parts of the script,
-- history_indexes() and dumped_references() are what functions make, kept_keys() is below.  Texts of definitions
-- differ between versions of PostgreSQL, so of an index only the order of its columns is compared.

CREATE FUNCTION kube_reports_internal.kept_keys() RETURNS TABLE (child regclass, name name, definition text)
LANGUAGE sql STABLE
BEGIN ATOMIC
	VALUES ('kube_reports.cluster'::regclass, 'cluster_uid_key'::name, 'UNIQUE (uid)'),
		('kube_reports.resource_type', 'resource_type_group_plural_key', 'UNIQUE ("group", plural)'),
		('kube_reports.resource_type', 'resource_type_group_kind_key', 'UNIQUE ("group", kind)'),
		('kube_reports_internal.resource_version', 'resource_version_resource_type_version_key',
			'UNIQUE (resource_type, version)'),
		('kube_reports_internal.lane', 'lane_cluster_id_resource_type_key', 'UNIQUE (cluster_id, resource_type)'),
		('kube_reports_internal.origin', 'origin_cluster_id_resource_type_namespace_name_key',
			'UNIQUE (cluster_id, resource_type, namespace, name)'),
		('kube_reports_internal.rollup', 'rollup_cluster_id_namespace_criterion_kind_status_native_st_key',
			'UNIQUE (cluster_id, namespace, criterion, kind, status, native_status)'),
		('kube_reports_internal.reader_grant', 'reader_grant_role_cluster_id_namespace_selector_key',
			'UNIQUE NULLS NOT DISTINCT (role, cluster_id, namespace, selector)'),
		('kube_reports_internal.log_size', 'log_size_lane_fkey',
			'FOREIGN KEY (lane) REFERENCES kube_reports_internal.lane ON DELETE CASCADE'),
		('kube_reports_internal.result_pending', 'result_pending_lane_fkey',
			'FOREIGN KEY (lane) REFERENCES kube_reports_internal.lane ON DELETE CASCADE'),
		('kube_reports_internal.imported', 'imported_lane_fkey',
			'FOREIGN KEY (lane) REFERENCES kube_reports_internal.lane ON DELETE CASCADE'),
		('kube_reports_internal.forward_stream', 'forward_stream_cluster_id_fkey',
			'FOREIGN KEY (cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.active_policy_set', 'active_policy_set_cluster_id_fkey',
			'FOREIGN KEY (cluster_id) REFERENCES kube_reports.cluster ON DELETE CASCADE'),
		('kube_reports_internal.active_policy', 'active_policy_cluster_id_fkey',
			'FOREIGN KEY (cluster_id) REFERENCES kube_reports_internal.active_policy_set ON DELETE CASCADE');
END;
COMMENT ON FUNCTION kube_reports_internal.kept_keys()
	IS 'the unique keys of tables, and the foreign keys of tables that are not dumped; dumped_references() has the '
		'other foreign keys';

CREATE FUNCTION kube_reports_internal.index_columns(statement text, relation regclass) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT coalesce(array_agg(m.word[1] ORDER BY m.place), '{}')
	FROM regexp_matches(regexp_replace(statement, '^[^(]* ON [^ (]+', ''), '[a-z_]+', 'g') WITH ORDINALITY
		m(word, place)
	WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = m.word[1] AND a.attnum > 0)
$$;
COMMENT ON FUNCTION kube_reports_internal.index_columns(text, regclass)
	IS 'the columns of a table that a CREATE INDEX statement names, in its order';

-- SECURITY DEFINER: administrators may not read all of these tables.
CREATE FUNCTION kube_reports_internal.wrong_definitions() RETURNS TABLE (name text, expected jsonb, found jsonb)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	WITH present AS (
		SELECT i.indrelid, i.indisunique, i.indpred IS NOT NULL AS partial, c.oid, c.relname, a.amname,
			pg_get_indexdef(c.oid) AS statement,
			kube_reports_internal.index_columns(pg_get_indexdef(c.oid), i.indrelid) AS columns
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
	), stored AS (
		SELECT c.* FROM pg_class c
		WHERE c.relnamespace IN ('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)
			AND c.relkind IN ('r', 'p')
	)
	SELECT split_part(p.relation, '.', 2), jsonb_build_object('index', p.name, 'made by',
			format('DROP INDEX %s; %s', x.oid::regclass, p.statement)), jsonb_build_object('index', x.statement)
		FROM kube_reports_internal.made_parts() p
			JOIN present x ON x.indrelid = to_regclass(p.relation) AND x.relname = p.name
		WHERE p.kind = 'index' AND (kube_reports_internal.index_columns(p.statement, x.indrelid) <> x.columns
			OR p.statement LIKE 'CREATE UNIQUE %' <> x.indisunique OR p.statement LIKE '% WHERE %' <> x.partial
			OR coalesce(substring(p.statement FROM ' USING ([a-z]+)'), 'btree') <> x.amname)
	UNION ALL
	SELECT m.partition, jsonb_build_object('index', h.definition, 'made by',
			format('CREATE INDEX ON kube_reports_internal.%I %s', m.partition, h.definition)), '{"index": null}'
		FROM kube_reports_internal.history_months() m
			CROSS JOIN kube_reports_internal.history_indexes() h
			JOIN stored s ON s.relname = m.partition
		WHERE NOT EXISTS (SELECT FROM present x WHERE x.indrelid = s.oid AND NOT x.partial
			AND x.columns = kube_reports_internal.index_columns('ON ' || m.partition || ' ' || h.definition, s.oid)
			AND x.amname = coalesce(substring(h.definition FROM 'USING ([a-z]+)'), 'btree'))
	UNION ALL
	SELECT s.relname, jsonb_build_object('constraint', k.name, 'made by',
			format('ALTER TABLE %s ADD CONSTRAINT %I %s', k.child, k.name, k.definition)), '{"constraint": null}'
		FROM (SELECT k.child, k.name, k.definition FROM kube_reports_internal.kept_keys() k
			UNION ALL
			SELECT r.child, r.name, 'FOREIGN KEY ' || r.definition FROM kube_reports_internal.dumped_references() r
				WHERE NOT kube_reports_internal.is_restoring()) k
			JOIN stored s ON s.oid = k.child
		WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = k.child AND c.conname = k.name)
	UNION ALL
	SELECT s.relname, jsonb_build_object('constraint', c.conname, 'valid', true, 'made by',
			format('ALTER TABLE %s VALIDATE CONSTRAINT %I', s.oid::regclass, c.conname)),
			jsonb_build_object('constraint', c.conname, 'valid', false)
		FROM pg_constraint c JOIN stored s ON s.oid = c.conrelid
		-- An update makes constraints that after_update() validates.
		WHERE NOT c.convalidated AND NOT EXISTS (SELECT FROM kube_reports.status u WHERE u.update_pending)
	UNION ALL
	-- ALTER EXTENSION ... DROP forgets that a dump has the rows of a table, and ADD does not bring it back.
	SELECT s.relname, jsonb_build_object('dumped', true, CASE WHEN m.member THEN 'as superuser' ELSE 'made by' END,
			CASE WHEN m.member THEN format('UPDATE pg_catalog.pg_extension SET extconfig = array_append(extconfig, '
				'%L::regclass::oid), extcondition = array_append(extcondition, %L::text) WHERE oid = %s',
				d.relation, d.condition, e.oid)
			ELSE format('ALTER EXTENSION kube_reports ADD %s %s',
				CASE s.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, d.relation) END),
			jsonb_build_object('dumped', false, 'in the extension', m.member)
		FROM pg_extension e CROSS JOIN kube_reports_internal.dumped_relations() d JOIN pg_class s ON s.oid = d.relation
			CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM pg_depend p WHERE p.classid = 'pg_class'::regclass
				AND p.objid = s.oid AND p.refclassid = 'pg_extension'::regclass AND p.refobjid = e.oid)) m(member)
		WHERE e.extname = 'kube_reports' AND NOT s.relispartition AND NOT (s.oid = ANY (coalesce(e.extconfig, '{}')))
	UNION ALL
	-- A month of history is dumped like a table of a user.
	SELECT s.relname, jsonb_build_object('dumped', true, 'made by',
			format('ALTER EXTENSION kube_reports DROP TABLE %s', s.oid::regclass)),
			'{"dumped": false, "in the extension": true}'
		FROM pg_depend p JOIN pg_extension e ON e.oid = p.refobjid JOIN stored s ON s.oid = p.objid
		WHERE p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_extension'::regclass
			AND e.extname = 'kube_reports' AND s.relispartition
	UNION ALL
	SELECT s.relname, jsonb_build_object('autovacuum', true, 'made by',
			format('ALTER TABLE %s RESET (autovacuum_enabled)', s.oid::regclass)), '{"autovacuum": false}'
		FROM stored s CROSS JOIN LATERAL pg_options_to_table(s.reloptions) o
		WHERE o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean
	UNION ALL
	-- With a publication, the server refuses updates of such a table.
	SELECT s.relname, jsonb_build_object('replica identity', true, 'made by',
			format('ALTER TABLE %s REPLICA IDENTITY %s', s.oid::regclass,
				CASE WHEN EXISTS (SELECT FROM pg_index i WHERE i.indrelid = s.oid AND i.indisprimary) THEN 'DEFAULT'
					ELSE 'FULL' END)), '{"replica identity": false}'
		FROM stored s WHERE s.relreplident = 'n' AND s.relpersistence = 'p'
	UNION ALL
	-- New rows would have no labels, and lists by label would lack them.
	SELECT s.relname, jsonb_build_object('column', a.attname, 'generated', true, 'made by',
			'ALTER TABLE kube_reports.object DROP COLUMN labels; ALTER TABLE kube_reports.object ADD COLUMN labels '
			'text[] COLLATE "C" GENERATED ALWAYS AS (kube_reports.label_terms(metadata)) STORED; '
			'CREATE INDEX object_labels ON kube_reports.object USING gin (labels) WITH (fastupdate = off)'),
			jsonb_build_object('column', a.attname, 'generated', false)
		FROM pg_attribute a JOIN stored s ON s.oid = a.attrelid
		WHERE a.attrelid = 'kube_reports.object'::regclass AND a.attname = 'labels' AND a.attgenerated = ''
	UNION ALL
	-- A larger value does not fit into a page.
	SELECT s.relname, jsonb_build_object('column', a.attname, 'storage', 'extended', 'made by',
			format('ALTER TABLE %s ALTER COLUMN %I SET STORAGE EXTENDED', s.oid::regclass, a.attname)),
			jsonb_build_object('column', a.attname, 'storage', 'plain')
		FROM pg_attribute a JOIN stored s ON s.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
		WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attstorage = 'p' AND t.typstorage <> 'p'
$$;
COMMENT ON FUNCTION kube_reports_internal.wrong_definitions()
	IS 'tables whose rows a dump lacks; indexes with other columns than they had, months of history without an index; '
		'keys that are gone, constraints that are not valid; tables without autovacuum or replica identity; columns '
		'that cannot hold large values, labels that are not made from documents. expected has the statement that '
		'corrects each';
