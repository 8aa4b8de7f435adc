"""Create, get, update: metadata that the server sets, dry runs, no-ops, warnings (conformance 8, 9.1, 12)."""

import concurrent.futures
import copy
import re
import uuid

import pytest

from client import CPOLR, EPHR, POLR, REPS, failure, path_of, report, result

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def test_create_sets_metadata(api, ns):
    """CRE-02, CRE-14, RV-01: TestCreate, TestCreateInNamespace, TestGet"""
    answer = api.post(path_of(POLR, ns), report("r1", labels={"a": "b"}))
    assert answer.code == 201 and answer.headers["Location"] is None
    stored = answer.json
    metadata = stored["metadata"]
    assert str(uuid.UUID(metadata["uid"])) == metadata["uid"] and uuid.UUID(metadata["uid"]).version == 4
    assert TIME.fullmatch(metadata["creationTimestamp"])
    assert metadata["generation"] == 1 and metadata["namespace"] == ns
    assert re.fullmatch("[1-9][0-9]*", metadata["resourceVersion"]) and int(metadata["resourceVersion"]) < 2 ** 63
    assert stored["kind"] == "PolicyReport" and stored["apiVersion"] == "wgpolicyk8s.io/v1alpha2"
    got = api.get(path_of(POLR, ns, "r1"))
    assert got.code == 200 and got.json == stored


def test_server_fields_of_the_client_are_replaced(api, ns):
    """CRE-01: item 4"""
    document = report("r1")
    document["metadata"].update(uid="11111111-1111-4111-8111-111111111111",
                                creationTimestamp="2001-01-01T00:00:00Z", generation=7,
                                selfLink="/x", deletionTimestamp="2001-01-01T00:00:00Z", deletionGracePeriodSeconds=3)
    metadata = api.create(POLR, document, ns)["metadata"]
    assert metadata["uid"] != "11111111-1111-4111-8111-111111111111"
    assert metadata["creationTimestamp"] > "2020" and metadata["generation"] == 1
    assert not {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"} & set(metadata)


def test_unknown_fields_are_pruned(api, ns):
    """FV-01: an unknown field gives a warning by default and with Warn, and none with Ignore"""
    document = report("r1", colour="red")
    document["results"][0]["size"] = 3
    document["metadata"]["shade"] = "dark"
    for name, mode, warned in (("w1", None, True), ("w2", "Warn", True), ("w3", "Ignore", False)):
        document["metadata"]["name"] = name
        answer = api.post(path_of(POLR, ns), document, **({"fieldValidation": mode} if mode else {}))
        assert answer.code == 201
        assert "colour" not in answer.json and "size" not in answer.json["results"][
            0] and "shade" not in answer.json["metadata"]
        if warned:
            assert '299 - "unknown field \\"colour\\""' in answer.warnings
            assert '299 - "unknown field \\"results[0].size\\""' in answer.warnings
        else:
            assert not [warning for warning in answer.warnings if "unknown field" in warning]


def test_generate_name(api, ns):
    """CRE-03: TestValidateObjectMetaTrimsTrailingDash, testCreateGeneratesName"""
    document = report("x")
    document["metadata"] = {"generateName": "scan-"}
    names = set()
    for _ in range(20):
        metadata = api.create(POLR, document, ns)["metadata"]
        assert re.fullmatch("scan-[bcdfghjklmnpqrstvwxz2456789]{5}",
                            metadata["name"]) and metadata["generateName"] == "scan-"
        names.add(metadata["name"])
    assert len(names) == 20
    document["metadata"] = {"generateName": "g" * 70}
    assert re.fullmatch("g{58}[bcdfghjklmnpqrstvwxz2456789]{5}", api.create(POLR, document, ns)["metadata"]["name"])


def test_owner_references(api, ns):
    """CRE-08, CRE-10"""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": str(uuid.uuid4())}
    document = report("r1")
    document["metadata"]["ownerReferences"] = [owner, owner]
    answer = api.post(path_of(POLR, ns), document)
    assert answer.json["metadata"]["ownerReferences"] == [owner]
    assert any("contains duplicate entries" in warning and owner["uid"] in warning for warning in answer.warnings)
    document["metadata"].update(name="r2",
                                ownerReferences=[dict(owner, controller=True),
                                                 dict(owner, controller=True, uid="2", name="q")])
    status = failure(api.post(path_of(POLR, ns), document), 422, "Invalid")
    assert "Only one reference can have Controller set to true" in status["message"]
    document["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]
    failure(api.post(path_of(POLR, ns), document), 422, "Invalid")


FIRST, SECOND = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "name",
                 "uid": "1"}, {"apiVersion": "example.com/v1", "kind": "Owner", "name": "name", "uid": "2"}
REFUSING = {**FIRST, "controller": False, "blockOwnerDeletion": False}


@pytest.mark.parametrize("given, expected", [
    ([FIRST, SECOND, FIRST, FIRST, SECOND], [FIRST, SECOND]), ([FIRST, {**FIRST, "name": "other"}], None),
                                             ([FIRST, {**FIRST, "apiVersion": "example.com/v2"}], None),
    ([REFUSING, dict(reversed(REFUSING.items()))], [REFUSING]), ([REFUSING, FIRST], None)])
def test_owners_said_twice(api, ns, given, expected):
    """
    CRE-10, WARN-01: TestDedupOwnerReferences: owner references that are equal in every member are kept once, with a
    warning, on create, update and patch
    """
    document = report("r1")
    document["metadata"]["ownerReferences"] = given
    created = api.post(path_of(POLR, ns), document)
    stored = created.json
    stored["metadata"].update(ownerReferences=given, labels={"a": "1"})
    updated = api.put(path_of(POLR, ns, "r1"), stored)
    patched = api.patch(path_of(POLR, ns, "r1"), {"metadata": {"ownerReferences": given, "labels": {"a": "2"}}})
    for answer, code in ((created, 201), (updated, 200), (patched, 200)):
        assert answer.code == code and answer.json["metadata"]["ownerReferences"] == (expected or given), answer
        # Only equal references are merged, with a warning; different references of one uid stay.
        assert any("contains duplicate entries" in warning
                   for warning in answer.warnings) is (expected is not None), answer.warnings


def test_dry_run(api, ns):
    """
    CRE-06, DEL-08, UPD-06, PAT-08: TestDryRunCreateDoesntCreate, TestDryRunCreateReturnsObject,
    TestDryRunCreateExistingObjectFails,
    TestDryRunUpdateMissingObjectFails, TestDryRunUpdatePreconditions, TestDryRunUpdateDoesntUpdate,
    TestDryRunUpdateReturnsObject,
    TestDryRunDeleteDoesntDelete, TestDryRunDeleteMissingObjectFails, TestDryRunDeleteReturnsObject, testCreateDryRun,
    testCreateDryRunEquals
    """
    path = path_of(POLR, ns)
    missing = report("r1")
    missing["metadata"]["resourceVersion"] = "1"
    failure(api.put(path + "/r1", missing, dryRun="All"), 404, "NotFound")
    failure(api.delete(path + "/r1", dryRun="All"), 404, "NotFound")
    before = api.get(path).json["metadata"]["resourceVersion"]
    answer = api.post(path, report("r1"), dryRun="All")
    assert answer.code == 201
    assert answer.json["metadata"]["uid"] and "resourceVersion" not in answer.json["metadata"]
    shown = answer.json
    assert api.get(path + "/r1").code == 404
    assert api.get(path).json["metadata"]["resourceVersion"] == before
    stored = api.create(POLR, report("r1"), ns)
    assert {**shown, "metadata": None} == {**stored, "metadata": None}
    failure(api.post(path, report("r1"), dryRun="All"), 409, "AlreadyExists")
    for other in ({"uid": "other"}, {"resourceVersion": "1"}):
        failure(api.put(path + "/r1", {**stored, "metadata": {**stored["metadata"], **other}}, dryRun="All"), 409,
                "Conflict")
    changed = copy.deepcopy(stored)
    changed["summary"]["pass"] = 9
    answer = api.put(path + "/r1", changed, dryRun="All")
    assert answer.code == 200 and answer.json["summary"]["pass"] == 9
    assert answer.json["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert api.patch(path + "/r1", {"summary": {"pass": 9}}, dryRun="All").code == 200
    answer = api.delete(path + "/r1", dryRun="All")
    assert answer.code == 200 and answer.json["details"]["uid"] == stored["metadata"]["uid"]
    answer = api.delete(path + "/r1", {"propagationPolicy": "Foreground", "dryRun": ["All"]})
    assert answer.code == 200 and answer.json["kind"] == "PolicyReport" and answer.json["metadata"]["deletionTimestamp"]
    assert api.get(path + "/r1").json == stored


def test_update(api, ns):
    """UPD-01 to UPD-04: TestUpdate"""
    path = path_of(POLR, ns, "r1")
    stored = api.create(POLR, report("r1", labels={"a": "1"}), ns)
    # Nothing changes: no version, no generation.
    same = api.put(path, stored)
    assert same.code == 200 and same.json["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    # Metadata alone: a version, no generation.
    stored["metadata"]["labels"]["a"] = "2"
    labelled = api.put(path, stored).json
    assert int(labelled["metadata"]["resourceVersion"]) > int(stored["metadata"]["resourceVersion"])
    assert labelled["metadata"]["generation"] == 1
    # Content: both.
    labelled["summary"]["pass"] = 5
    changed = api.put(path, labelled).json
    assert changed["metadata"]["generation"] == 2
    assert changed["metadata"]["uid"] == stored["metadata"]["uid"]
    # What the server set may be left out, but not changed.
    bare = copy.deepcopy(changed)
    for key in ("uid", "creationTimestamp", "generation"):
        del bare["metadata"][key]
    bare["summary"]["pass"] = 6
    answer = api.put(path, bare)
    assert answer.code == 200 and answer.json["metadata"]["uid"] == changed["metadata"]["uid"]
    assert answer.json["metadata"]["creationTimestamp"] == changed["metadata"]["creationTimestamp"]
    moved = answer.json
    moved["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
    moved["metadata"]["generation"] = 99
    moved["summary"]["pass"] = 7
    answer = api.put(path, moved)
    assert answer.code == 200 and answer.json["metadata"]["creationTimestamp"] == changed["metadata"][
        "creationTimestamp"]
    assert answer.json["metadata"]["generation"] == 4
    other = api.get(path).json
    other["metadata"]["uid"] = str(uuid.uuid4())
    other["summary"]["pass"] = 8
    failure(api.put(path, other), 409, "Conflict")


def test_update_of_a_missing_object(api, ns):
    """UPD-01, UPD-07"""
    document = report("gone", ns)
    document["metadata"]["resourceVersion"] = "1"
    failure(api.put(path_of(POLR, ns, "gone"), document), 404, "NotFound")
    document["metadata"]["uid"] = str(uuid.uuid4())
    failure(api.put(path_of(POLR, ns, "gone"), document), 404, "NotFound")


def test_stale_version_wins_over_invalid_body(api, ns):
    """UPD-07"""
    path = path_of(POLR, ns, "r1")
    stored = api.create(POLR, report("r1"), ns)
    api.patch(path, {"summary": {"pass": 4}})
    stored["results"] = [result(outcome="maybe")]
    failure(api.put(path, stored), 409, "Conflict")


def test_one_of_many_updates_wins(stack, ns):
    """UPD-09, through both proxies"""
    apis = [stack.first.api(), stack.second.api()]
    path = path_of(POLR, ns, "r1")
    stored = apis[0].create(POLR, report("r1"), ns)

    def write(number):
        document = copy.deepcopy(stored)
        document["summary"]["pass"] = 100 + number
        return apis[number % 2].put(path, document).code

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        codes = sorted(pool.map(write, range(12)))
    assert codes == [200] + [409] * 11


def test_concurrent_patches_all_arrive(stack, ns):
    """PAT-04: a patch without a version never conflicts"""
    apis = [stack.first.api(), stack.second.api()]
    path = path_of(POLR, ns, "r1")
    apis[0].create(POLR, report("r1", labels={"start": "x"}), ns)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda n: apis[n % 2].patch(path, {"metadata": {"labels": {f"l{n}": "x"}}}).code,
                                range(24)))
    assert answers == [200] * 24
    assert set(apis[1].get(path).json["metadata"]["labels"]) == {"start"} | {f"l{n}" for n in range(24)}


def test_read_your_writes_through_another_proxy(stack, ns):
    """GET-03, LC-02"""
    first, second = stack.first.api(keep=True), stack.second.api(keep=True)
    for number in range(30):
        written = first.create(POLR, report(f"r{number}"), ns)
        assert second.get(path_of(POLR, ns, f"r{number}")).json == written
        second.patch(path_of(POLR, ns, f"r{number}"), {"summary": {"pass": number + 100}})
        assert first.get(path_of(POLR, ns, f"r{number}")).json["summary"]["pass"] == number + 100


def test_versions_grow(stack, ns):
    """RV-02, RV-05: versions grow over all proxies and namespaces"""
    apis = [stack.first.api(keep=True), stack.second.api(keep=True)]
    versions = [int(apis[n % 2].create(POLR, report(f"r{n}"), f"{ns}-{n % 3}")["metadata"]["resourceVersion"])
                for n in range(30)]
    assert versions == sorted(set(versions))


def test_get_with_version(api, ns):
    """GET-02"""
    stored = api.create(POLR, report("r1"), ns)
    path = path_of(POLR, ns, "r1")
    assert api.get(path, resourceVersion="0").json == stored
    assert api.get(path, resourceVersion=stored["metadata"]["resourceVersion"]).json == stored
    refused = failure(api.get(path, resourceVersion="x"), 400, "BadRequest")
    assert refused["message"] == 'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'
    status = failure(api.get(path, resourceVersion=str(int(stored["metadata"]["resourceVersion"]) + 10 ** 12)), 504,
                     "Timeout")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@pytest.mark.parametrize("agent, pretty, expected", [("curl/7.88", None, True), ("curl/7.88", "false", False),
                                                     ("tests", "true", True), ("tests", None, False)])
def test_pretty(api, ns, agent, pretty, expected):
    """REQ-10"""
    api.create(POLR, report("r1"), ns)
    answer = api.request("GET", path_of(POLR, ns, "r1"), headers={"User-Agent": agent},
                         **({"pretty": pretty} if pretty else {}))
    assert (b"\n  " in answer.body) is expected


def test_every_built_in_kind(stack, api):
    """An object of each kind, from the samples of the repository, is created, read, listed and deleted."""
    import pathlib
    import urllib.parse
    from client import run

    generator = pathlib.Path(__file__).resolve().parents[1] / "samples" / "generate.sql"
    lines = run(["psql", "-X", "-A", "-t", "-q", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-f", str(generator),
                 "-d", stack.database.connection()]).out.splitlines()
    seen = {}
    for line in lines:
        collection, document = line.split("\t", 1)
        seen.setdefault(urllib.parse.urlsplit(collection).path.rsplit("/", 1)[1], (collection, document))
    assert len(seen) == 10
    other = stack.other.api()
    for plural, (collection, document) in seen.items():
        created = other.request("POST", collection, document, fieldValidation="Strict")
        assert created.code == 201, (plural, created)
        path = f"{collection}/{created.json['metadata']['name']}"
        assert other.get(path).json == created.json
        assert created.json["metadata"]["name"] in [item["metadata"]["name"]
                                                    for item in other.get(collection).json["items"]]
        assert other.delete(path).code == 200
        assert other.get(path).code == 404


def test_unusual_text_survives(api, ns):
    """Every character of JSON comes back unchanged"""
    message = 'quote " backslash \\ slash / newline \n tab \t bell \u0007 euro € clef \U0001d11e del \u007f'
    stored = api.create(POLR, report("r1", results=[result(message=message, properties={"k€y": "v\\"})]), ns)
    assert stored["results"][0]["message"] == message
    got = api.get(path_of(POLR, ns, "r1")).json
    assert got["results"][0]["message"] == message and got["results"][0]["properties"] == {"k€y": "v\\"}


def test_same_name_elsewhere(api, ns):
    """GET-01: A name belongs to its namespace and its type"""
    api.create(POLR, report("r"), ns)
    api.create(POLR, report("r"), ns + "-b")
    api.create(REPS, report("r", resource=REPS), ns)
    assert api.get(path_of(EPHR, ns, "r")).code == 404
    assert api.delete(path_of(POLR, ns, "r")).code == 200
    assert api.get(path_of(POLR, ns + "-b", "r")).code == 200 and api.get(path_of(REPS, ns, "r")).code == 200


def test_names_with_dots_and_length(api, ns):
    """CRE-05: the longest name, dots, digits; percent-encoding in the path is decoded once"""
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    for name in (longest, "0", "a.b-c.d"):
        api.create(POLR, report(name), ns)
        assert api.get(path_of(POLR, ns, name)).code == 200
    assert api.get(path_of(POLR, ns, "a%2Eb-c.d")).code == 200
    assert api.get(path_of(POLR, ns, "a%252Eb-c.d")).code in (400, 404)


def test_cluster_scope(api, ns):
    name = "cluster-" + ns
    stored = api.create(CPOLR, report(name, resource=CPOLR))
    assert "namespace" not in stored["metadata"]
    assert name in api.names(CPOLR)
    assert api.delete(path_of(CPOLR, name=name)).code == 200
