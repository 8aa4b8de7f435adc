-- installation.sql
--	  The version of the install script, and a mark that tells a restored copy
--	  from the original.
--
-- These functions do not read pg_extension: the plain script
-- (docs/managed.md) makes the same objects without an extension.
--
-- A dump of an extension has only rows, and CREATE EXTENSION makes a new row of table store.  A dump of the plain
-- script's objects has everything, including the row of table store.  So the OID of a table marks the installation: a
-- restore gives the table a new OID.  The mark is in the body of a function: a dump contains functions, and logical
-- replication does not copy them.  Base backups and pg_upgrade keep the OIDs of tables.

CREATE FUNCTION kube_reports_internal.script_version() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'SCRIPT_VERSION';
COMMENT ON FUNCTION kube_reports_internal.script_version()
	IS 'the version of the script that made or updated these objects';

-- Not a plain CREATE FUNCTION: an update would write the first value again.
DO $$
BEGIN
	CREATE FUNCTION kube_reports_internal.placed() RETURNS oid
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN NULL::oid;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.placed()
	IS 'the OID that table kube_reports_internal.store had when this store was made or its last restore was finished; '
		'null in an extension, whose dump does not contain that table';
