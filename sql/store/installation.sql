-- installation.sql
--	  Which version the script made, and whether this is still the place that
--	  it made it in.
--
-- Nothing here asks pg_extension: the plain script (docs/managed.md) makes the
-- same objects without an extension.
--
-- A dump of an extension holds rows, and CREATE EXTENSION makes the store's
-- own row anew.  A dump of what the plain script made holds everything, the
-- store's own row too.  So the mark of the place is the OID of a table, which
-- every restore makes anew, and it is written into a function: a dump carries
-- functions, logical replication does not.  Base backups and pg_upgrade keep
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
