"""Compares the rows of the system catalogs about the extension in two databases, as lines without oids."""

SCHEMAS = "('kube_reports'::regnamespace, 'kube_reports_internal'::regnamespace)"
# Without the partitions of history and their indexes: make_history() makes one for each month.
RELATIONS = f"(SELECT c.* FROM pg_class c WHERE c.relnamespace IN {SCHEMAS} AND c.relname !~ '^report_change_2')"
EXTENSION = "(SELECT e.oid FROM pg_extension e WHERE e.extname = 'kube_reports')"

QUERIES = {
    "columns": f"""
        SELECT c.oid::regclass, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname,
            format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated, a.attidentity, a.attstorage,
            a.attcompression, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid), a.attacl
        FROM {RELATIONS} c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
        WHERE c.relkind NOT IN ('i', 'S')""",
    "relations": f"""
        SELECT c.oid::regclass, c.relkind, c.relowner::regrole, c.reloptions, c.relrowsecurity, pg_get_viewdef(c.oid)
        FROM {RELATIONS} c""",
    "indexes": f"SELECT pg_get_indexdef(c.oid) FROM {RELATIONS} c WHERE c.relkind IN ('i', 'I')",
    "constraints": f"""
        SELECT coalesce(r.oid::regclass::text, c.contypid::regtype::text), c.conname,
            pg_get_constraintdef(c.oid), c.convalidated
        FROM pg_constraint c LEFT JOIN {RELATIONS} r ON r.oid = c.conrelid
        WHERE c.connamespace IN {SCHEMAS} AND (c.conrelid = 0 OR r.oid IS NOT NULL)""",
    "triggers": f"""
        SELECT pg_get_triggerdef(t.oid), t.tgenabled FROM pg_trigger t JOIN {RELATIONS} c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal""",
    "routines": f"""
        SELECT p.oid::regprocedure, p.proowner::regrole, p.prosrc, p.probin,
            CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END, a
        FROM pg_proc p LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid WHERE p.pronamespace IN {SCHEMAS}""",
    "types": f"""
        SELECT t.oid::regtype, t.typtype, t.typowner::regrole, t.typinput, t.typnotnull, t.typdefault,
            format_type(t.typbasetype, t.typtypmod), t.typacl
        FROM pg_type t WHERE t.typnamespace IN {SCHEMAS} AND t.typname !~ '^_?report_change_2'""",
    "casts": """
        SELECT c.castsource::regtype, c.casttarget::regtype, c.castfunc::regproc, c.castcontext, c.castmethod
        FROM pg_cast c WHERE 'kube_reports.report'::regtype IN (c.castsource, c.casttarget)""",
    "sequences": f"""
        SELECT s.seqrelid::regclass, s.seqtypid::regtype, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle
        FROM pg_sequence s JOIN {RELATIONS} c ON c.oid = s.seqrelid""",
    "comments": f"""
        SELECT pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description
        FROM pg_description d JOIN pg_depend m ON (m.classid, m.objid, m.deptype) = (d.classoid, d.objoid, 'e')
        WHERE m.refobjid = {EXTENSION}""",
    "members": f"""
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d
        WHERE d.deptype = 'e' AND d.refobjid = {EXTENSION}""",
    "dependencies": f"""
        SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid),
            pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid), d.deptype
        FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
        WHERE p.pronamespace IN {SCHEMAS}""",
    "extension": """
        SELECT e.extversion, e.extowner::regrole,
            (SELECT array_agg((c.config::regclass, c.condition)::text ORDER BY c.config::regclass::text)
                FROM unnest(e.extconfig, e.extcondition) c(config, condition))
        FROM pg_extension e WHERE e.extname = 'kube_reports'""",
    "grants": f"""
        SELECT o.name, a.grantor::regrole, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
            a.privilege_type, a.is_grantable
        FROM (SELECT c.oid::regclass::text AS name, c.relacl AS acl FROM {RELATIONS} c
            UNION ALL
            SELECT p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner)) FROM pg_proc p
                WHERE p.pronamespace IN {SCHEMAS}
            UNION ALL
            SELECT n.nspname, n.nspacl FROM pg_namespace n WHERE n.oid IN {SCHEMAS}) o, aclexplode(o.acl) a""",
}


def catalogs(database, name):
    """Returns the lines of each query, by the name of the query."""
    return {kind: sorted(database.psql(f"SELECT r FROM ({query}) r", user="postgres", database=name).splitlines())
            for kind, query in QUERIES.items()}


def assert_equal(updated, fresh):
    for kind, lines in fresh.items():
        missing, extra = sorted(set(lines) - set(updated[kind]))[:10], sorted(set(updated[kind]) - set(lines))[:10]
        assert (missing, extra) == ([], []), f"{kind}: missing {missing}, not in a fresh install {extra}"
        assert len(lines) == len(updated[kind]), kind
