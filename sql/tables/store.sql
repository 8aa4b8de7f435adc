-- store.sql
--	  Tables of the store.
--
-- Table definitions need no C beyond type report, so that a dump of one
-- variant restores into the other.  Tables with original data are registered
-- with pg_extension_config_dump(); tables that can be recomputed are not.
-- Foreign keys between dumped tables are in references.sql.

---- sequences ----

-- Versions begin at the microseconds of the clock.  So they are larger than all versions that an earlier store in this
-- database gave: with less than one million writes a second on average, versions do not overtake the clock.  They stay
-- below 2^53 (the limit of JavaScript's integers) until the year 2255.
DO $$
BEGIN
	EXECUTE format(
		'CREATE SEQUENCE kube_reports_internal.version_seq AS bigint START WITH %s MAXVALUE 9007199254740991 CACHE 1',
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
	EXECUTE format('CREATE SEQUENCE kube_reports_internal.definition_id_seq AS bigint START WITH %s CACHE 1',
		(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
END
$$;
COMMENT ON SEQUENCE kube_reports_internal.version_seq IS 'resourceVersions of all lanes';
COMMENT ON SEQUENCE kube_reports_internal.definition_id_seq IS 'ids of definitions, never used twice';

CREATE SEQUENCE kube_reports_internal.cluster_id_seq AS integer;
COMMENT ON SEQUENCE kube_reports_internal.cluster_id_seq IS 'ids of clusters';
CREATE SEQUENCE kube_reports_internal.lane_id_seq AS integer;
COMMENT ON SEQUENCE kube_reports_internal.lane_id_seq IS 'ids of lanes';
-- Built-in types have smaller ids.
CREATE SEQUENCE kube_reports_internal.resource_type_id_seq AS integer START WITH 1000;
COMMENT ON SEQUENCE kube_reports_internal.resource_type_id_seq IS 'ids of resource types that users register';

---- clusters ----

-- Two names that look the same are a trap for whoever reads a page or sets rights.  These characters show nothing, turn
-- the direction of what follows, or look like a space.
CREATE FUNCTION kube_reports_internal.hidden_character(name text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT substring(name COLLATE "C" FROM '[\u0001-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5'
		'\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb'
		'\U0001d173-\U0001d17a\U000e0000-\U000e0fff]');
END;
COMMENT ON FUNCTION kube_reports_internal.hidden_character(text)
	IS 'the first character of a name that does not show: a control or format character, a mark of direction, a filler '
		'or a space other than U+0020; null if there is none';

-- Questions take a cluster's uid or name.  So no name may be the uid of another cluster, also of one to come.
CREATE FUNCTION kube_reports_internal.is_cluster_name(name text, uid uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT name = uid::text OR name !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
		AND name !~ '^ | $' AND kube_reports_internal.hidden_character(name) IS NULL;
END;
COMMENT ON FUNCTION kube_reports_internal.is_cluster_name(text, uuid)
	IS 'whether a cluster may have a name: not the uid of another cluster, no space at an end, no hidden_character()';

CREATE FUNCTION kube_reports_internal.are_cluster_labels(labels jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT jsonb_typeof(labels) = 'object';
END;
COMMENT ON FUNCTION kube_reports_internal.are_cluster_labels(jsonb)
	IS 'whether the labels of a cluster can be read, as views and grants of every reader do';

CREATE TABLE kube_reports.cluster (
	id			integer PRIMARY KEY DEFAULT nextval('kube_reports_internal.cluster_id_seq'),
	uid			uuid NOT NULL UNIQUE,
	name		text NOT NULL DEFAULT '',
	labels		jsonb NOT NULL DEFAULT '{}',
	extra_metadata jsonb NOT NULL DEFAULT '{}',
	created_at	timestamptz NOT NULL DEFAULT now(),
	last_seen	timestamptz,
	removing	boolean NOT NULL DEFAULT false,
	CONSTRAINT cluster_name_clear CHECK (kube_reports_internal.is_cluster_name(name, uid)),
	CONSTRAINT cluster_labels_object CHECK (kube_reports_internal.are_cluster_labels(labels))
);
COMMENT ON TABLE kube_reports.cluster IS 'the Kubernetes clusters whose reports are stored here';
COMMENT ON COLUMN kube_reports.cluster.uid IS 'uid of the namespace kube-system';
COMMENT ON COLUMN kube_reports.cluster.labels IS 'set by administrators; grant_clusters() selects by these';
COMMENT ON COLUMN kube_reports.cluster.extra_metadata
	IS 'what senders say of their cluster; shown beside the labels, but no right depends on it';
COMMENT ON COLUMN kube_reports.cluster.last_seen
	IS 'when a proxy of the cluster last opened a connection or ran upkeep, to a minute or two';
COMMENT ON COLUMN kube_reports.cluster.removing
	IS 'unregister_cluster() has begun: nobody may act for it any more, and what is left of it goes';

CREATE TABLE kube_reports_internal.proxy_role (
	role		text PRIMARY KEY,
	cluster_id	integer NOT NULL
);
COMMENT ON TABLE kube_reports_internal.proxy_role
	IS 'the one cluster that a proxy''s role may serve; see grant_proxy()';

CREATE TABLE kube_reports_internal.namespace (
	cluster_id	integer NOT NULL,
	name		text COLLATE "C" NOT NULL,
	uid			text COLLATE "C" NOT NULL,
	state		text NOT NULL CHECK (state IN ('active', 'terminating', 'dead')),
	orderly		boolean NOT NULL DEFAULT false,
	noted_at	timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (cluster_id, name)
);
COMMENT ON TABLE kube_reports_internal.namespace
	IS 'the namespaces of the objects of a cluster, as its proxies learned from kube-apiserver';
COMMENT ON COLUMN kube_reports_internal.namespace.uid
	IS 'uid of the namespace to which all objects under this name belong; empty: the namespace was never known';
COMMENT ON COLUMN kube_reports_internal.namespace.state
	IS 'active; terminating: nothing is created in it any more; dead: the namespace is gone, and its objects are '
		'being deleted';
COMMENT ON COLUMN kube_reports_internal.namespace.orderly
	IS 'whether a proxy saw the namespace terminating: then no object under the name was created later';
COMMENT ON COLUMN kube_reports_internal.namespace.noted_at IS 'when the namespace got this state';

---- the registry ----

CREATE TABLE kube_reports.resource_type (
	id			integer PRIMARY KEY DEFAULT nextval('kube_reports_internal.resource_type_id_seq'),
	"group"		text COLLATE "C" NOT NULL,
	plural		text COLLATE "C" NOT NULL,
	kind		text COLLATE "C" NOT NULL,
	namespaced	boolean NOT NULL,
	results		text NOT NULL DEFAULT 'none' CHECK (results IN ('current', 'intermediate', 'none')),
	builtin		boolean NOT NULL DEFAULT false,
	crd			kube_reports.report NOT NULL,
	mapping_id	bigint,
	mapping		kube_reports.report,
	UNIQUE ("group", plural),
	UNIQUE ("group", kind),
	CHECK (results = 'none' OR mapping IS NOT NULL),
	CHECK ((mapping_id IS NULL) = (mapping IS NULL))
);
COMMENT ON TABLE kube_reports.resource_type
	IS 'the types that are served: the built-in ones and those of register_crd()';
COMMENT ON COLUMN kube_reports.resource_type.results
	IS 'whether the type''s results count as current, come again in another type (intermediate), or are none';
COMMENT ON COLUMN kube_reports.resource_type.crd IS 'the CustomResourceDefinition as it was registered';
COMMENT ON COLUMN kube_reports.resource_type.mapping_id
	IS 'another one with every other mapping: what is compiled is kept by it';
COMMENT ON COLUMN kube_reports.resource_type.mapping
	IS 'where results stand in a document of the type; see set_results_mapping()';

CREATE TABLE kube_reports_internal.resource_version (
	id			bigint PRIMARY KEY DEFAULT nextval('kube_reports_internal.definition_id_seq'),
	resource_type integer NOT NULL,
	version		text COLLATE "C" NOT NULL,
	priority	integer NOT NULL,
	builtin		boolean NOT NULL DEFAULT false,
	definition	kube_reports.report NOT NULL,
	UNIQUE (resource_type, version)
);
COMMENT ON TABLE kube_reports_internal.resource_version
	IS 'served versions of the types, in the form that the C functions compile';
COMMENT ON COLUMN kube_reports_internal.resource_version.priority
	IS 'place of the version among the versions of the type; 1 is preferred';

---- objects ----

CREATE TABLE kube_reports_internal.lane (
	id			integer PRIMARY KEY DEFAULT nextval('kube_reports_internal.lane_id_seq'),
	cluster_id	integer NOT NULL,
	resource_type integer NOT NULL,
	floor		bigint NOT NULL CHECK (floor BETWEEN 1 AND 9007199254740991),
	lost		int8multirange NOT NULL DEFAULT '{}',
	store		uuid,
	held		boolean NOT NULL DEFAULT false,
	UNIQUE (cluster_id, resource_type)
);
COMMENT ON TABLE kube_reports_internal.lane IS 'one order of versions: the objects of one type in one cluster';
COMMENT ON COLUMN kube_reports_internal.lane.floor IS 'the log holds every change above this version';
COMMENT ON COLUMN kube_reports_internal.lane.lost
	IS 'versions that a failed server may have given and this log does not know';
COMMENT ON COLUMN kube_reports_internal.lane.store
	IS 'identity of the store that made the lane; another one''s: the row comes from a dump';
COMMENT ON COLUMN kube_reports_internal.lane.held IS 'writes of the lane are held: see hold_writes()';

CREATE TABLE kube_reports.object (
	cluster_id	integer NOT NULL,
	resource_type integer NOT NULL,
	namespace	text COLLATE "C" NOT NULL DEFAULT '',
	name		text COLLATE "C" NOT NULL,
	uid			uuid NOT NULL,
	version		bigint NOT NULL CHECK (version BETWEEN 1 AND 9007199254740991),
	metadata	kube_reports.report NOT NULL,
	body		kube_reports.report NOT NULL,
	labels		text[] COLLATE "C" GENERATED ALWAYS AS (kube_reports.label_terms(metadata)) STORED,
	evaluated_at timestamptz,
	PRIMARY KEY (cluster_id, resource_type, namespace, name)
) WITH (
	autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE kube_reports.object IS 'the stored objects, one row each, in their current state';
COMMENT ON COLUMN kube_reports.object.namespace IS 'empty for cluster-scoped objects';
COMMENT ON COLUMN kube_reports.object.version IS 'resourceVersion; not in metadata, put in when an object is served';
COMMENT ON COLUMN kube_reports.object.metadata IS 'metadata without resourceVersion, canonical JSON';
COMMENT ON COLUMN kube_reports.object.body IS 'everything but apiVersion, kind and metadata, canonical JSON';
COMMENT ON COLUMN kube_reports.object.labels IS 'search terms of the labels';
COMMENT ON COLUMN kube_reports.object.evaluated_at IS 'the newest time at which a result of the report was evaluated; '
		'null where results do not count as current or say no time';

-- With fastupdate, every search reads a list of up to 4 MB of entries that wait to be sorted in, and sorting them in
-- costs as much as doing so at once.
CREATE INDEX object_labels ON kube_reports.object USING gin (labels) WITH (fastupdate = off);

CREATE TABLE kube_reports_internal.change (
	lane		integer NOT NULL,
	version		bigint NOT NULL,
	operation	"char" NOT NULL CHECK (operation IN ('A', 'M', 'D')),
	namespace	text COLLATE "C" NOT NULL,
	name		text COLLATE "C" NOT NULL,
	at			timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor		text NOT NULL,
	old_version bigint,
	old_metadata kube_reports.report,
	old_body	kube_reports.report,
	PRIMARY KEY (lane, version)
) WITH (
	autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
	toast.autovacuum_vacuum_scale_factor = 0.05, toast.autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE kube_reports_internal.change
	IS 'undo log of the objects, for watches, pages and lists at a version; kept for a while';
COMMENT ON COLUMN kube_reports_internal.change.operation IS 'A added, M modified, D deleted';
COMMENT ON COLUMN kube_reports_internal.change.actor IS 'the writer: the API user, or the database role for SQL';
COMMENT ON COLUMN kube_reports_internal.change.old_version IS 'version of the state before; null for A';

CREATE INDEX change_key ON kube_reports_internal.change (lane, namespace, name, version);

CREATE TABLE kube_reports_internal.log_size (
	lane		integer PRIMARY KEY REFERENCES kube_reports_internal.lane ON DELETE CASCADE,
	measured	bigint NOT NULL,
	bytes		bigint NOT NULL,
	aging		bigint NOT NULL DEFAULT 0,
	aging_at	timestamptz
);
COMMENT ON TABLE kube_reports_internal.log_size
	IS 'how large each lane''s part of change is: kept by compact(), so that it need not look at all of it; never '
		'dumped';
COMMENT ON COLUMN kube_reports_internal.log_size.measured IS 'changes up to this version are counted';
COMMENT ON COLUMN kube_reports_internal.log_size.aging
	IS 'how many bytes may still go for their age in the minute that began at aging_at';
COMMENT ON COLUMN kube_reports_internal.log_size.aging_at IS 'when that minute began';

-- Documents are read three times as fast with lz4 as with pglz.  A server built without lz4 uses pglz.
DO $$
BEGIN
	ALTER TABLE kube_reports.object ALTER COLUMN metadata SET COMPRESSION lz4, ALTER COLUMN body SET COMPRESSION lz4;
	ALTER TABLE kube_reports_internal.change ALTER COLUMN old_metadata SET COMPRESSION lz4,
		ALTER COLUMN old_body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
	RAISE NOTICE 'this server has no lz4: documents are compressed with pglz, reading them is slower';
END
$$;

---- settings and the state of this store ----

CREATE TABLE kube_reports_internal.setting (
	name		text PRIMARY KEY CHECK (name IN ('log_retention', 'log_bytes', 'settle_window',
		'history_retention', 'daily_retention',
		'text_search', 'strict_dml', 'evidence_rotation', 'evidence_retention', 'evidence_bytes')),
	value		text NOT NULL
);
COMMENT ON TABLE kube_reports_internal.setting
	IS 'settings that differ from their defaults; see set_setting()';

CREATE TABLE kube_reports_internal.store (
	only_row	boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	version		text NOT NULL,
	generation	bigint NOT NULL DEFAULT 1,
	identity	uuid NOT NULL DEFAULT gen_random_uuid(),
	restore_pending boolean NOT NULL DEFAULT false,
	system_identifier bigint,
	timeline	bigint,
	history_expired_at timestamptz,
	daily_cut	date,
	daily_cut_at timestamptz,
	database	oid
);
COMMENT ON TABLE kube_reports_internal.store
	IS 'one row: the state of this copy of the store; no part of a dump of the extension';
COMMENT ON COLUMN kube_reports_internal.store.version
	IS 'the version of the extension that the rows are those of; see after_update()';
COMMENT ON COLUMN kube_reports_internal.store.generation
	IS 'counts changes of the registry, of options and of clusters that decisions about writes depend on; see '
		'resolve()';
COMMENT ON COLUMN kube_reports_internal.store.identity
	IS 'distinguishes lanes that this store made from lanes of a dump';
COMMENT ON COLUMN kube_reports_internal.store.restore_pending
	IS 'a dump is being loaded, or was, and after_restore() has not run yet';
COMMENT ON COLUMN kube_reports_internal.store.system_identifier
	IS 'the server that gave the versions; null where it cannot be read';
COMMENT ON COLUMN kube_reports_internal.store.timeline IS 'its timeline';
COMMENT ON COLUMN kube_reports_internal.store.history_expired_at IS 'when upkeep last dropped a month of history';
COMMENT ON COLUMN kube_reports_internal.store.daily_cut
	IS 'counts of days before this one are not kept, but for the last one of each; null: expire_days() has not run';
COMMENT ON COLUMN kube_reports_internal.store.daily_cut_at IS 'when upkeep last moved daily_cut on';
COMMENT ON COLUMN kube_reports_internal.store.database
	IS 'OID of the database that gave the versions: CREATE DATABASE ... TEMPLATE copies all other columns';
INSERT INTO kube_reports_internal.store (version) VALUES (kube_reports_internal.script_version());

CREATE TABLE kube_reports_internal.caller_secret (
	only_row	boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	secret		bytea NOT NULL DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
		'hex')
);
COMMENT ON TABLE kube_reports_internal.caller_secret
	IS 'one row: the secret of the callers'' seals; not in a dump of the extension';
INSERT INTO kube_reports_internal.caller_secret DEFAULT VALUES;

---- what pg_dump takes along ----

SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.version_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.definition_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.cluster_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.lane_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.resource_type_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports.cluster', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.proxy_role', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.namespace', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports.resource_type', 'WHERE NOT builtin');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.resource_version', 'WHERE NOT builtin');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.lane', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports.object', '');
SELECT pg_catalog.pg_extension_config_dump('kube_reports_internal.setting', '');

