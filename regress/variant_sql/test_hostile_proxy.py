"""The role of one cluster's proxies cannot read or change other clusters, where proxies run the engine."""

import json

import pytest

from ways import CLUSTER, Server, begun

OTHER = "6c1e3f60-0c5d-4b0e-9d43-0f5c7a2f9b11"
PROXIES = {"kube_reports_proxy": CLUSTER, "other_proxy": OTHER}
SECRET = "password is hunter2"
BODY = {"results": [{"source": "scanner", "policy": "careful", "rule": "rule", "result": "fail", "message": SECRET}]}
# Texts of a criterion, a subject and a detail, in the columns of result_difference().
TEXTS = {"source": "scanner", "policy": "careful", "rule": "rule", "category": "", "severity": "unknown",
         "api_version": "v1", "kind": "Pod", "subject_namespace": "shop", "subject_name": "pod", "subject_uid": "",
         "message": SECRET, "properties": "{}", "exceptions": []}


@pytest.fixture(scope="module")
def server():
    for made in begun(Server()):
        made.plain("plain")
        made.psql("CREATE ROLE other_proxy LOGIN", user="postgres", database="plain")
        made.psql(f"SELECT kube_reports.grant_proxy('other_proxy', '{OTHER}')", database="plain")
        for role, cluster in PROXIES.items():
            made.psql(f"SELECT * FROM kube_reports_internal.api_hello('{cluster}', '{role}')", user=role,
                      database="plain")
        yield made


def ids(server, role, **texts):
    """Returns a row of result_difference() with the ids of these texts in a cluster."""
    row = {**TEXTS, **texts}
    number = server.psql(f"SELECT id FROM kube_reports.cluster WHERE uid = '{PROXIES[role]}'", database="plain")
    hashed = {"criterion": ["criterion", *(row[key] for key in ("source", "policy", "rule", "category", "severity"))],
              "subject": ["subject", number, *(row[key] for key in (
                  "api_version", "kind", "subject_namespace", "subject_name", "subject_uid"))],
              "detail": ["detail", row["message"], row["properties"]]}
    for column, fields in hashed.items():
        values = ", ".join("'" + field.replace("'", "''") + "'" for field in fields)
        row[column] = int(server.psql(f"SELECT kube_reports_internal.field_hash({values})", database="plain"))
    return {"key": 1, "wanted": True, "position": 0, "status": "f", "native_status": "fail", "score": 0, **row}


def create(server, role, name, rows, check=True):
    """Commits a report as a proxy of a role does.  rows: its results; None: they follow later."""
    uid = "5f0b5a0e-1111-4222-8333-" + name.encode().hex().rjust(12, "0")[-12:]
    metadata = json.dumps({"name": name, "namespace": "shop", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"})
    prepared = "NULL" if rows is None else "'" + json.dumps(rows).replace("'", "''") + "'"
    return server.psql(f"""
        SELECT (SELECT c.codes FROM kube_reports_internal.commit_batch('{PROXIES[role]}', 'wgpolicyk8s.io', 'v1alpha2',
                'policyreports', false, r.mapping_id, r.fill_summary, ARRAY[r.definition_id], '{{i}}', '{{shop}}',
                '{{{name}}}', '{{{uid}}}', ARRAY['{metadata}'], ARRAY['{json.dumps(BODY)}'], '{{0}}', ARRAY[''],
                '{{somebody}}', ARRAY[NULL], ARRAY[{prepared}]) c)
            FROM kube_reports_internal.api_registry('{PROXIES[role]}') r
            WHERE (r."group", r.resource) = ('wgpolicyk8s.io', 'policyreports')""", user=role, database="plain",
                       check=check)


def questions(server, role):
    """Returns the questions that a step of upkeep asks a proxy of a role."""
    return server.psql("SELECT coalesce(questions::text, '') FROM kube_reports_internal.api_engine_piece("
                       f"'{PROXIES[role]}', 'catch_up', NULL, '{{}}', '{{}}')", user=role, database="plain")


@pytest.mark.parametrize("text", ["policy", "message", "subject_name"])
def test_planted_texts(server, text):
    """A text is not stored under the id of another text: results of other clusters would show it"""
    right = ids(server, "kube_reports_proxy", policy=f"of {text}", message=f"of {text}",
                subject_name=f"of {text}")
    done = create(server, "kube_reports_proxy", f"planted-{text.replace('_', '-')}", [{**right, text: "wrong"}],
                  check=False)
    assert done.code != 0 and "is not the hash of its fields" in done.err, done.err
    assert create(server, "kube_reports_proxy", f"right-{text.replace('_', '-')}", [right]) == "{200}"


def test_subject_of_another_cluster(server):
    """A proxy cannot find out whether the store knows a resource of another cluster"""
    row = ids(server, "other_proxy", subject_name="known")
    assert create(server, "other_proxy", "known", [row]) == "{200}"
    for name in ("known", "unknown"):
        guessed = ids(server, "other_proxy", subject_name=name)
        done = create(server, "kube_reports_proxy", f"guess-{name}", [guessed], check=False)
        assert done.code != 0 and "is not the hash of its fields" in done.err, done.err


def untold(row, what):
    """Returns the row without the fields of its criterion or detail"""
    fields = {"criterion": ("source", "policy", "rule", "category", "severity"),
              "detail": ("message", "properties", "exceptions")}[what]
    return {key: value for key, value in row.items() if key not in fields}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("what", ["criterion", "detail"])
def test_text_of_another_cluster(server, what, wanted):
    """
    By the id of a text, a proxy can neither find out whether another cluster has the text, nor read it: not with a
    present result, and not with a removed one
    """
    secret, name = f"secret {what} {wanted}", f"{what}-{wanted}".lower()
    row = ids(server, "other_proxy", policy=secret, message=secret)
    assert create(server, "other_proxy", f"secret-{name}", [row]) == "{200}"
    errors = set()
    for text in (secret, "nobody has this"):
        guessed = {**ids(server, "kube_reports_proxy", policy=text, message=text), "wanted": wanted}
        done = create(server, "kube_reports_proxy", f"guess-{name}", [untold(guessed, what)], check=False)
        assert done.code != 0 and "is not the hash of its fields" in done.err, (text, done.err)
        errors.add(done.err.replace(str(guessed[what]), "ID"))
        # A second row with the text of another criterion or detail does not help.
        other = {**ids(server, "kube_reports_proxy", policy="other", message="other"), "key": 2}
        done = create(server, "kube_reports_proxy", f"guess-{name}", [untold(guessed, what), other], check=False)
        assert done.code != 0 and "is not the hash of its fields" in done.err, (text, done.err)
    assert len(errors) == 1, errors
    # Rows of several resources share the texts of one row.
    told = ids(server, "kube_reports_proxy", policy="shared", message="shared")
    second = untold({**ids(server, "kube_reports_proxy", policy="shared", message="shared", subject_name="second"),
                     "key": 2}, what)
    assert create(server, "kube_reports_proxy", f"shared-{name}", [told, second]) == "{200}"


def test_text_of_another_cluster_in_an_answer(server):
    """The same for answers to questions of upkeep"""
    row = ids(server, "other_proxy", policy="secret answer", message="secret answer")
    assert create(server, "other_proxy", "secret-answer", [row]) == "{200}"
    assert create(server, "kube_reports_proxy", "answered", None) == "{200}"
    hashes = server.psql("SELECT left(q, 32) FROM kube_reports_internal.api_engine_piece("
                         f"'{CLUSTER}', 'catch_up', NULL, '{{}}', '{{}}') p, unnest(p.questions) q",
                         user="kube_reports_proxy", database="plain").split()
    assert hashes
    guessed = untold(ids(server, "kube_reports_proxy", policy="secret answer", message="secret answer"), "detail")
    answers = ", ".join(f"'{json.dumps([guessed])}'" for _ in hashes)
    server.psql(f"SELECT * FROM kube_reports_internal.api_engine_piece('{CLUSTER}', 'catch_up', NULL, "
                f"'{{{','.join(hashes)}}}', ARRAY[{answers}])", user="kube_reports_proxy", database="plain",
                check=False)
    assert server.psql("SELECT count(*) FROM kube_reports.typed_result r WHERE r.cluster = "
                       f"'{CLUSTER}' AND r.message = 'secret answer'", database="plain") == "0"
    server.psql("DELETE FROM kube_reports_internal.result_pending", database="plain")


def test_questions_about_another_cluster(server):
    """Upkeep asks a proxy only about documents of its own cluster, and accepts no other answers"""
    def pending():
        return server.psql("SELECT count(*) FROM kube_reports_internal.result_pending", database="plain")

    assert create(server, "other_proxy", "pending", None) == "{200}"
    assert pending() == "1"
    assert questions(server, "kube_reports_proxy") == ""
    assert SECRET in questions(server, "other_proxy")
    # A session cannot pretend to be such a step: results would be computed although answers are missing.
    server.psql(f"SET kube_reports_internal.asking = 'on';"
                f"SELECT kube_reports_internal.api_catch_up('{CLUSTER}');"
                f"SELECT kube_reports_internal.api_maintain('{CLUSTER}')", user="kube_reports_proxy", database="plain")
    assert pending() == "1"


def test_questions_to_a_receiver(server):
    """A receiver's proxies do the work of senders' clusters, and of clusters without proxies"""
    server.psql("SELECT kube_reports.grant_ingest('kube_reports_proxy')", database="plain")
    try:
        assert SECRET not in questions(server, "kube_reports_proxy")
        server.psql(f"SELECT kube_reports.add_sender('{OTHER}', 'other')", database="plain")
        assert SECRET in questions(server, "kube_reports_proxy")
    finally:
        server.psql("SELECT kube_reports.remove_sender('other'), kube_reports.revoke_ingest('kube_reports_proxy')",
                    database="plain")
