-- installation.sql
--	  Which version the script made, and whether this is still the place that
--	  it made it in.
--
-- Nothing here asks pg_extension: the plain script (docs/managed.md) makes the
-- same objects without an extension.
--
-- A dump of an extension has rows, and CREATE EXTENSION makes a new row of the
-- store itself.  A dump of the plain script's objects has everything, including
-- the row of the store.  So the mark of the place is the OID of a table, which
-- is new after every restore.  It is part of a function: a dump has functions,
-- logical replication does not copy them.  Base backups and pg_upgrade keep
-- the OIDs of tables.

CREATE FUNCTION kube_reports_internal.script_version() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 'SCRIPT_VERSION';
COMMENT ON FUNCTION kube_reports_internal.script_version()
	IS 'the version of the script that made or updated these objects';

-- Not a statement of its own: an update would write the first value again.
DO $$
BEGIN
	CREATE FUNCTION kube_reports_internal.placed() RETURNS oid
	LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN NULL::oid;
END
$$;
COMMENT ON FUNCTION kube_reports_internal.placed()
	IS 'the OID that table kube_reports_internal.store had when this store was made or its last restore was finished; '
		'null in an extension, whose dump does not hold that table';
