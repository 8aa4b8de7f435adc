"""import from a reports-server's tables that somebody has altered (docs/moving-in.md)."""

import re

import pytest

from conftest import TOP
from crd_fixture import crd_certificates, crd_cluster  # noqa: F401 (fixtures)
from crd_cluster import WG, report, table
from runbook import blocks_of
from test_import import TABLES, from_server, put, reports_server_database, stored  # noqa: F401 (fixture)


def server_documents(cluster, server_database, plural, count, namespaced=True):
    """Puts documents into a table; returns what import has to store."""
    kind = {"policyreports": "PolicyReport", "clusterpolicyreports": "ClusterPolicyReport"}[plural]
    wanted, statements = {}, []
    for number in range(count):
        document = {**(report(number) if namespaced else report(number, namespace=None)),
                    "apiVersion": f"{WG}/v1alpha2", "kind": kind}
        statements.append(put(cluster, plural, document))
        del document["metadata"]["resourceVersion"]
        del document["metadata"]["annotations"]["kyverno.reports-server.io/served-by"]
        if not document["metadata"]["annotations"]:
            del document["metadata"]["annotations"]
        wanted[WG, plural, "shop" if namespaced else "", document["metadata"]["name"]] = document
    cluster.database.psql("".join(statements), user="postgres", database=server_database)
    return wanted


ALTERED = {
    "json": "ALTER TABLE {t} ALTER report TYPE json",
    "text": "ALTER TABLE {t} ALTER report TYPE text, ALTER name TYPE text",
    "varchar": "ALTER TABLE {t} ALTER report TYPE varchar, ALTER name TYPE char(300)",
    "clusters as text": "ALTER TABLE {t} ALTER cluster_id DROP DEFAULT, ALTER cluster_id TYPE text; "
                        "ALTER TABLE clusters ALTER id TYPE varchar",
    "other columns": "ALTER TABLE {t} ADD first_seen timestamptz DEFAULT now(), ADD labels jsonb "
                     "GENERATED ALWAYS AS (report #> '{{metadata,labels}}') STORED, ADD n serial NOT NULL",
    "other order": "ALTER TABLE {t} RENAME TO old; CREATE TABLE {t} AS SELECT report, 1 AS version, cluster_id, "
                   "{columns} FROM old; DROP TABLE old",
    "view": "ALTER TABLE {t} RENAME TO old; CREATE VIEW {t} AS SELECT * FROM old WHERE report IS NOT NULL",
    "partitions": "ALTER TABLE {t} RENAME TO old; CREATE TABLE {t} (LIKE old) PARTITION BY HASH (name); "
                  "CREATE TABLE a PARTITION OF {t} FOR VALUES WITH (MODULUS 2, REMAINDER 0); "
                  "CREATE TABLE b PARTITION OF {t} FOR VALUES WITH (MODULUS 2, REMAINDER 1); "
                  "INSERT INTO {t} SELECT * FROM old; DROP TABLE old",
    "another schema": "CREATE SCHEMA reports; ALTER TABLE {t} SET SCHEMA reports; ALTER DATABASE {database} "
                      "SET search_path = reports, public",
}


@pytest.mark.parametrize("plural", ["policyreports", "clusterpolicyreports"])
@pytest.mark.parametrize("how", ALTERED)
def test_altered_tables(cluster, server_database, how, plural):
    """Columns of another type or order, further columns, other kinds of tables: the same copies, page by page"""
    namespaced = TABLES[plural]
    wanted = server_documents(cluster, server_database, plural, 45, namespaced)
    cluster.database.psql(ALTERED[how].format(t=plural, database=server_database,
                                              columns="namespace, name" if namespaced else "name"),
                          user="postgres", database=server_database)
    for expected_in in ("imported", "unchanged"):
        done = from_server(cluster, server_database, "--page-size=10", f"--kinds={plural}")
        assert table(done, f"{plural}.{WG}") == {"read": 45, expected_in: 45, "verified": 45}
    assert stored(cluster) == wanted


def test_values_that_no_reports_server_writes(cluster, server_database):
    """
    In a table without its constraints: a row without a document or a name is refused, its copy stays; a row without a
    namespace has that of its document
    """
    wanted = server_documents(cluster, server_database, "policyreports", 12)
    from_server(cluster, server_database, "--kinds=policyreports")
    cluster.database.psql(
        "ALTER TABLE policyreports DROP CONSTRAINT policyreports_pkey, ALTER name DROP NOT NULL, "
        "ALTER namespace DROP NOT NULL, ALTER report DROP NOT NULL, ALTER report TYPE text; "
        "UPDATE policyreports SET report = NULL WHERE name = 'r-000003'; "
        "UPDATE policyreports SET report = '[]' WHERE name = 'r-000004'; "
        "UPDATE policyreports SET report = encode(convert_to(report, 'UTF8'), 'hex') WHERE name = 'r-000005'; "
        "UPDATE policyreports SET namespace = NULL WHERE name = 'r-000006'; "
        "UPDATE policyreports SET name = NULL WHERE name = 'r-000007'; "
        "DELETE FROM policyreports WHERE name = 'r-000008'", user="postgres", database=server_database)
    done = from_server(cluster, server_database, "--prune", "--page-size=5", "--kinds=policyreports", code=1)
    assert table(done, f"policyreports.{WG}") == {"read": 11, "unchanged": 7, "refused": 4, "verified": 7}
    assert "a row is refused: its column name is null" in done.stderr
    for number in (3, 4, 5):
        assert f"shop/r-00000{number} is refused: its column report has no JSON object" in done.stderr
    assert "are not looked for, because of the refused objects" in done.stderr
    assert stored(cluster) == wanted


@pytest.mark.parametrize("statement, told", [
    ("ALTER TABLE policyreports RENAME name TO report_name", "column r.name does not exist"),
    ("ALTER TABLE policyreports RENAME report TO document", "column r.report does not exist"),
    ("ALTER TABLE policyreports ALTER cluster_id DROP DEFAULT, ALTER cluster_id TYPE int USING 1",
     "invalid input syntax for type integer"),
])
def test_tables_that_cannot_be_read(cluster, server_database, statement, told):
    """The server's own words name the column; no copy is pruned"""
    server_documents(cluster, server_database, "policyreports", 3)
    from_server(cluster, server_database)
    cluster.database.psql(statement, user="postgres", database=server_database)
    done = from_server(cluster, server_database, "--prune", code=1)
    assert "the reports-server's table cannot be read" in done.stderr and told in done.stderr
    assert "policyreports.wgpolicyk8s.io" in done.stdout and "not read" in done.stdout
    assert len(stored(cluster)) == 3


def test_a_view_of_the_page(cluster, server_database):
    """A column has another name: by the view of the page, and the option of the connection string, the table is read"""
    wanted = server_documents(cluster, server_database, "policyreports", 5)
    (statements,) = (text for language, text in blocks_of("docs/moving-in.md") if "for_import" in text)
    page = (TOP / "docs" / "moving-in.md").read_text(encoding="utf-8")
    option = re.search(r"`(options='-c search_path=for_import,public')`", page)[1]
    cluster.database.psql("ALTER TABLE policyreports RENAME report TO document;" + statements, user="postgres",
                          database=server_database)
    assert from_server(cluster, server_database, code=1).stdout.count("not read") == 1
    done = from_server(cluster, f"{server_database} {option}", "--kinds=policyreports")
    assert table(done, f"policyreports.{WG}") == {"read": 5, "imported": 5, "verified": 5}
    assert stored(cluster) == wanted
