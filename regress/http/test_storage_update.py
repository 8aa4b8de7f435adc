"""Upstream's storage and registry suites for writes, as requests (conformance 8, 12, 14, 24.2, 24.3)."""

import concurrent.futures
import copy
import datetime
import threading
import uuid

import pytest

from client import JSON_PATCH, MERGE, failure
from pods import opened, token


@pytest.fixture(scope="module")
def pods(types):
    return types.pods()


@pytest.fixture(scope="module")
def nodes(types):
    return types.pods("Cluster")


def version(document):
    return int(document["metadata"]["resourceVersion"])


# ---- create ----

def test_create(pods, nodes, ns):
    """
    CRE-02, CRE-04, RV-01, GET-01: RunTestCreate: the answer is what a get returns, in either scope; a create that names
    a version is refused
    """
    for kind in (pods, nodes):
        failure(kind.api.get(kind.path(ns, ns)), 404, "NotFound")
        failure(kind.api.post(kind.path(ns), kind.pod(ns, resourceVersion="1")), 500, None)
        failure(kind.api.get(kind.path(ns, ns)), 404, "NotFound")
        stored = kind.create(ns, ns)
        assert kind.api.get(kind.path(ns, ns)).json == stored and version(stored) > 0
        assert stored["metadata"]["name"] == ns and stored["metadata"].get("namespace") == (ns
            if kind is pods else None)


def test_create_with_key_exist(pods, ns):
    """
    ERR-10, CRE-06: RunTestCreateWithKeyExist, TestStoreCreate, TestDryRunCreateExistingObjectFails,
    testCreateAlreadyExisting: refused, also in a dry run, and while the object is being deleted
    """
    stored = pods.create("foo", ns)
    for query in ({}, {"dryRun": "All"}):
        status = failure(pods.api.post(pods.path(ns), pods.pod("foo"), **query), 409, "AlreadyExists")
        assert status["message"].endswith('"foo" already exists') and status["details"]["name"] == "foo"
    assert pods.api.get(pods.path(ns, "foo")).json == stored
    pods.create("bar", ns, finalizers=[OTHER])
    held = pods.api.delete(pods.path(ns, "bar"), {"gracePeriodSeconds": 30}).json
    status = failure(pods.api.post(pods.path(ns), pods.pod("bar")), 409, "AlreadyExists")
    assert status["message"].startswith("object is being deleted: ") and pods.api.get(pods.path(ns, "bar")).json == held


def test_create_races(stack, pods, ns):
    """ERR-10: one of many creates wins, through both proxies"""
    apis = [stack.first.api(), stack.second.api()]
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        codes = sorted(pool.map(lambda number: apis[number % 2].post(pods.path(ns), pods.pod("foo")).code, range(10)))
    assert codes == [201] + [409] * 9


def test_create_system_fields(pods, ns):
    """CRE-01, CRE-11: testCreateHasMetadata, testCreateResetsUserData: only the server sets its fields"""
    document = pods.pod("foo")
    document["metadata"].update(uid="own", creationTimestamp=None, generation=9, selfLink="/x", clusterName="c",
                                deletionGracePeriodSeconds=5,
                                deletionTimestamp="2020-01-01T00:00:00Z")
    metadata = pods.api.create(pods.resource, document, ns)["metadata"]
    assert uuid.UUID(metadata["uid"]).version == 4 and metadata["creationTimestamp"].endswith(
        "Z") and metadata["generation"] == 1
    assert not {"selfLink", "clusterName", "deletionTimestamp", "deletionGracePeriodSeconds"} & set(metadata)


def test_generate_name_collides(pods, ns):
    """
    CRE-03: TestStoreCreateWithRetryNameGenerate, testCreateGeneratesName: a generated name is short enough; a given
    name wins; a bad prefix is refused
    """
    document = pods.pod("x")
    document["metadata"] = {"generateName": "a" * 253}
    first = pods.api.create(pods.resource, document, ns)["metadata"]
    assert len(first["name"]) == 63 and first["generateName"] == "a" * 253
    document["metadata"]["name"] = "given"
    assert pods.api.create(pods.resource, document, ns)["metadata"]["name"] == "given"
    for bad in ("Bad_", "a" * 254):
        document["metadata"] = {"generateName": bad}
        status = failure(pods.api.post(pods.path(ns), document), 422, "Invalid")
        assert "metadata.generateName" in {cause["field"] for cause in status["details"]["causes"]}


# ---- update ----

def test_guaranteed_update(pods, ns):
    """
    UPD-01 to UPD-04, UPD-07: RunTestGuaranteedUpdate, TestStoreUpdate, testUpdateOnNotFound, testUpdateEquals,
    testUpdateWithWrongUID: non-existing key,
     existing key, same data, same data with selfLink, uid match and mismatch"""
    path = pods.path(ns, "foo")
    missing = pods.pod("non-existing")
    missing["metadata"]["resourceVersion"] = "1"
    for uid in ({}, {"uid": "A"}):
        missing["metadata"].update(uid)
        failure(pods.api.put(pods.path(ns, "non-existing"), missing), 404, "NotFound")
    stored = pods.create("foo", ns, node="a")
    with pods.api.watch(pods.path(ns), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        for same in ({}, {"selfLink": "testlink"}, {"uid": None}, {"generation": 7},
                     {"managedFields": stored["metadata"].get("managedFields")}):
            document = copy.deepcopy(stored)
            for key, value in same.items():
                if value is None:
                    document["metadata"].pop(key, None)
                else:
                    document["metadata"][key] = value
            answer = pods.api.put(path, document)
            assert answer.code == 200 and answer.json == stored
        document = copy.deepcopy(stored)
        document["metadata"]["uid"] = "B"
        status = failure(pods.api.put(path, document), 409, "Conflict")
        assert "Precondition failed: UID in precondition: B, UID in object meta: " + stored["metadata"][
            "uid"] in status["message"]
        changed = copy.deepcopy(stored)
        changed["metadata"]["annotations"] = {"version": "1"}
        updated = pods.api.put(path, changed).json
        assert version(updated) > version(stored) and updated["metadata"]["annotations"] == {
            "version": "1"} and updated["metadata"]["generation"] == 1
        assert pods.api.get(path).json == updated
        # The first event is that of the change: updates without a change made no event.
        assert watch.event() == ("MODIFIED", updated)


@pytest.mark.parametrize("kind, patch", [
    (MERGE, {}), (MERGE, {"spec": {"nodeName": "a"}}), (MERGE, {"spec": {"nothing": None}}),
    (JSON_PATCH, []), (JSON_PATCH, [{"op": "test", "path": "/spec/nodeName", "value": "a"}]),
    (JSON_PATCH, [{"op": "replace", "path": "/spec/nodeName", "value": "b"},
                  {"op": "replace", "path": "/spec/nodeName", "value": "a"}]),
    (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/x", "value": "y"},
                  {"op": "remove", "path": "/metadata/labels/x"}]),
])
def test_no_op_patches(pods, ns, kind, patch):
    """UPD-04, PAT-06: TestNoOpUpdates: a patch that changes nothing takes no version"""
    stored = pods.create("foo", ns, node="a")
    before = pods.version()
    answer = pods.api.patch(pods.path(ns, "foo"), patch, kind=kind)
    assert answer.code == 200 and answer.json == stored
    assert pods.version() == before


def test_update_with_conflict(stack, pods, ns):
    """UPD-09, PAT-04: RunTestGuaranteedUpdateWithConflict: of PUTs with one version one succeeds, all patches do"""
    apis = [stack.first.api(), stack.second.api()]
    path = pods.path(ns, "foo")
    stored = pods.create("foo", ns)

    def put(number):
        document = copy.deepcopy(stored)
        document["spec"]["nodeName"] = f"n{number}"
        return apis[number % 2].put(path, document).code

    def count(number):
        return apis[number % 2].patch(path, {"metadata": {"annotations": {f"a{number}": "1"}}}).code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(put, range(8))) == [200] + [409] * 7
        assert list(pool.map(count, range(16))) == [200] * 16
    assert len(apis[0].get(path).json["metadata"]["annotations"]) == 16


def test_update_of_what_another_proxy_changed(stack, pods, ns):
    """
    PAT-04, UPD-09, JP-01: RunTestGuaranteedUpdateWithSuggestionAndConflict: a change is made to the object as it is,
    not as it was once read
    """
    first, second, path = stack.first.api(keep=True), stack.second.api(keep=True), pods.path(ns, "foo")
    stored = pods.create("foo", ns, node="n1")
    assert first.get(path).json == stored
    assert second.patch(path, {"spec": {"nodeName": "n2"}}).json["metadata"]["generation"] == 2
    only_if = [{"op": "test", "path": "/spec/nodeName", "value": "n2"},
               {"op": "replace", "path": "/spec/nodeName", "value": "n3"}]
    updated = first.patch(path, only_if, kind=JSON_PATCH)
    assert updated.code == 200 and updated.json["metadata"]["generation"] == 3 and updated.json[
        "spec"] == {"nodeName": "n3"}
    # A refused patch changes nothing.
    failure(second.patch(path, only_if, kind=JSON_PATCH), 422, "Invalid")
    assert first.get(path).json == second.get(path).json == updated.json


@pytest.mark.parametrize("field, value, code", [
    ("name", "other", 400), ("namespace", "other", 400), ("creationTimestamp", "2001-01-01T00:00:00Z", 200),
                                                ("deletionTimestamp", "2001-01-01T00:00:00Z", 422),
    ("deletionGracePeriodSeconds", 30, 422), ("resourceVersion", "1", 409), ("resourceVersion", "x", 500),
                                                ("resourceVersion", "", 422), ("uid", "other", 409)])
def test_immutable_fields(pods, ns, field, value, code):
    """
    UPD-02, REQ-06, UPD-01: testUpdateFailsOnVersionTooOld, testUpdateWithWrongUID,
    testUpdateRejectsMismatchedNamespace,
    TestValidateObjectMetaUpdateIgnoresCreationTimestamp, TestValidateObjectMetaUpdatePreventsDeletionFieldMutation: and
    name and other metadata
    """
    stored = pods.create("foo", ns)
    document = copy.deepcopy(stored)
    document["metadata"][field] = value
    document["spec"]["nodeName"] = "changed"
    answer = pods.api.put(pods.path(ns, "foo"), document)
    if code == 200:
        # The server restores the field, and does not refuse the update.
        assert answer.code == 200 and answer.json["metadata"][field] == stored["metadata"][field]
        return
    failure(answer, code, {400: "BadRequest", 409: "Conflict", 422: "Invalid", 500: None}[code])
    assert pods.api.get(pods.path(ns, "foo")).json == stored


def test_generation(pods, ns):
    """UPD-03: TestGeneration of the CRD server, testUpdateIgnoreGenerationUpdates"""
    path = pods.path(ns, "foo")
    assert pods.create("foo", ns)["metadata"]["generation"] == 1
    for patch, expected in (({"metadata": {"labels": {"a": "b"}}}, 1), ({"metadata": {"annotations": {"a": "b"}}}, 1),
                            ({"spec": {"nodeName": "a"}}, 2),
                            ({"spec": {"nodeName": "a"}}, 2), ({"status": {"phase": "x"}}, 3),
                            ({"metadata": {"generation": 90}}, 3),
                            ({"metadata": {"finalizers": ["example.com/x"]}}, 3), ({"spec": None}, 4)):
        assert pods.api.patch(path, patch).json["metadata"]["generation"] == expected, patch
    assert pods.api.delete(path).json["metadata"]["generation"] == 5


# ---- delete ----

def test_unconditional_delete(pods, nodes, ns):
    """
    DEL-06, DEL-09, DEL-11: RunTestUnconditionalDelete, TestFinalizeDelete, TestStoreDelete, testDeleteNoGraceful,
    testDeleteNonExist
    """
    for kind in (pods, nodes):
        failure(kind.api.delete(kind.path(ns, ns)), 404, "NotFound")
        stored = kind.create(ns, ns)
        status = kind.api.delete(kind.path(ns, ns))
        assert version(status.json) > version(stored)
        group, _, plural = kind.resource.split("/")
        assert status.code == 200 and status.json["status"] == "Success" and "code" not in status.json
        assert status.json["details"] == {"name": ns, "group": group, "kind": plural, "uid": stored["metadata"]["uid"]}
        failure(kind.api.get(kind.path(ns, ns)), 404, "NotFound")
        failure(kind.api.delete(kind.path(ns, ns)), 404, "NotFound")


@pytest.mark.parametrize("preconditions, code", [({}, 200), ({"uid": "own"}, 200), ({"uid": "other"}, 409),
                                                 ({"resourceVersion": "own"}, 200),
                                                 ({"resourceVersion": "1"}, 409),
                                                 ({"uid": "own", "resourceVersion": "1"}, 409),
                                                 ({"uid": "other", "resourceVersion": "own"}, 409),
                                                 ({"uid": "own", "resourceVersion": "own"}, 200)])
@pytest.mark.parametrize("query", [{}, {"dryRun": "All"}], ids=["real", "dry"])
def test_conditional_delete(pods, ns, preconditions, code, query):
    """
    DEL-03, DEL-08: RunTestConditionalDelete, testDeleteWithUID, testDeleteWithResourceVersion,
    TestDryRunDeletePreconditions
    """
    stored = pods.create("foo", ns)
    own = {"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]}
    options = {"preconditions": {key: own[key] if value == "own" else value for key, value in preconditions.items()},
               **({"dryRun": ["All"]} if query else {})}
    answer = pods.api.delete(pods.path(ns, "foo"), options)
    assert answer.code == code, answer
    if code == 409:
        status = failure(answer, 409, "Conflict")
        assert status["details"]["kind"] == pods.head["kind"] and "in the precondition" in status["message"]
    assert (pods.api.get(pods.path(ns, "foo")).code == 404) is (code == 200 and not query)


def test_delete_and_recreate(pods, ns):
    """DEL-03, GC-08, UPD-02: an object that is created again is another object"""
    first = pods.create("foo", ns)
    pods.delete("foo", ns)
    second = pods.create("foo", ns)
    assert first["metadata"]["uid"] != second["metadata"]["uid"] and version(second) > version(first) + 1
    failure(pods.api.delete(pods.path(ns, "foo"), {"preconditions": {"uid": first["metadata"]["uid"]}}), 409,
            "Conflict")
    failure(pods.api.put(pods.path(ns, "foo"), first), 409, "Conflict")
    failure(pods.api.patch(pods.path(ns, "foo"), {"metadata": {"uid": first["metadata"]["uid"], "labels": {"a": "b"}}}),
            422, "Invalid")
    assert pods.api.get(pods.path(ns, "foo")).json == second


def test_nothing_is_stale(stack, pods, ns):
    """
    GET-03, DEL-03, DEL-05, LC-02: TestPreconditionalUpdateWithCachedObject, TestDeleteWithCachedObject: what a proxy
    has read before decides nothing; nor does a deletionTimestamp that a client sends
    """
    first, second = stack.first.api(), stack.second.api()
    path = pods.path(ns, "foo")
    pods.create("foo", ns)
    for api in (first, second):
        assert api.get(path).code == 200
    assert first.delete(path).code == 200
    made_again = first.create(pods.resource, pods.pod("foo", node="machine"), ns)
    made_again["spec"]["nodeName"] = "machine2"
    answer = second.put(path, made_again)
    assert answer.code == 200 and answer.json["spec"] == {"nodeName": "machine2"}
    assert first.patch(path, {"metadata": {"finalizers": [OTHER]}}).code == 200
    assert second.delete(path).json["metadata"]["finalizers"] == [OTHER]
    deleted = first.get(path).json["metadata"]["deletionTimestamp"]
    answer = first.patch(path, {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})
    assert answer.code == 200 and answer.json["metadata"]["deletionTimestamp"] == deleted


# What the second proxy does after the first one gave the object; the precondition of the delete through the first one
# -> its answer.  Upstream's functions that validate a deletion are preconditions here: nothing else in a request
# depends on the object.
CHANGED_MEANWHILE = {
    "RunTestDeleteWithSuggestion": ("nothing", None, 200),
    "RunTestDeleteWithSuggestionAndConflict": ("label", None, 200),
    "RunTestDeleteWithSuggestionOfDeletedObject": ("delete", None, 404),
    "RunTestPreconditionalDeleteWithSuggestion": ("replace", "uid now", 200),
    "RunTestPreconditionalDeleteWithOnlySuggestionPass": ("replace", "uid then", 409),
    "RunTestValidateDeletionWithSuggestion": ("label", "resourceVersion now", 200),
    "RunTestValidateDeletionWithOnlySuggestionValid": ("label", "resourceVersion then", 409),
}


@pytest.mark.parametrize("change, condition, code", CHANGED_MEANWHILE.values(), ids=CHANGED_MEANWHILE)
def test_delete_of_what_another_proxy_changed(stack, pods, ns, change, condition, code):
    """
    DEL-03, DEL-09, RV-04: RunTestDeleteWithSuggestion and what else the table names: a delete concerns the object as it
    is, not as it was once read
    """
    first, second, path = stack.first.api(keep=True), stack.second.api(keep=True), pods.path(ns, "foo")
    then = now = pods.create("foo", ns)
    assert first.get(path).json == then
    if change == "label":
        now = second.patch(path, {"metadata": {"labels": {"foo": "bar"}}}).json
    if change in ("delete", "replace"):
        assert second.delete(path).code == 200
    if change == "replace":
        now = second.create(pods.resource, pods.pod("foo"), ns)
    options = None
    if condition:
        field, whose = condition.split()
        options = {"preconditions": {field: {"now": now, "then": then}[whose]["metadata"][field]}}
    with pods.api.watch(pods.path(ns), resourceVersion=pods.version()) as watch:
        answer = first.delete(path, options)
        assert answer.code == code
        if code == 409:
            assert "in the precondition" in failure(answer, code, "Conflict")["message"] and first.get(path).json == now
            return
        failure(first.get(path), 404, "NotFound")
        if code == 200:
            now["metadata"]["resourceVersion"] = answer.json["metadata"]["resourceVersion"]
            assert watch.event() == ("DELETED", now)


def test_delete_with_conflict(stack, pods, ns):
    """
    DEL-09, PAT-04, RV-04: RunTestDeleteWithConflict: changes during a delete do not make it fail; the deleted object
    has the last of them
    """
    apis, path = [stack.first.api(), stack.second.api()], pods.path(ns, "foo")
    stored = pods.create("foo", ns)
    begin = threading.Barrier(9)

    def change(number):
        begin.wait()
        return apis[number % 2].patch(path, {"metadata": {"labels": {f"l{number}": "x"}}})

    def remove(_):
        begin.wait()
        return apis[0].delete(path)

    with pods.api.watch(pods.path(ns), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            removed, changed = pool.submit(remove, None), [pool.submit(change, number) for number in range(8)]
        assert removed.result().code == 200
        answers = sorted((each.result() for each in changed if each.result().code == 200),
                         key=lambda answer: version(answer.json))
        assert {each.result().code for each in changed} <= {200, 404}
        last = stored
        for answer in answers:
            last = answer.json
            assert watch.event() == ("MODIFIED", last)
        last["metadata"]["resourceVersion"] = removed.result().json["metadata"]["resourceVersion"]
        assert watch.event() == ("DELETED", last)
    failure(apis[1].get(path), 404, "NotFound")


def test_delete_races(stack, pods, ns):
    """DEL-09, RV-04: of many deletes one wins"""
    apis = [stack.first.api(), stack.second.api()]
    pods.create("foo", ns)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        codes = sorted(pool.map(lambda number: apis[number % 2].delete(pods.path(ns, "foo")).code, range(10)))
    assert codes == [200] + [404] * 9


# TestStoreDeletionPropagation: existing finalizers, policy -> finalizers that stay; None: the object is gone.
ORPHAN, FOREGROUND, OTHER = "orphan", "foregroundDeletion", "foo.com/x"
PROPAGATION = [
    ([], "Foreground", [FOREGROUND]), ([], "Background", None), ([], "Orphan", [ORPHAN]), ([], None, None),
    ([ORPHAN], "Foreground", [FOREGROUND]), ([ORPHAN], "Background", None), ([ORPHAN], "Orphan", [ORPHAN]),
               ([ORPHAN], None, [ORPHAN]),
    ([FOREGROUND], "Foreground", [FOREGROUND]), ([FOREGROUND], "Background", None), ([FOREGROUND], "Orphan", [ORPHAN]),
               ([FOREGROUND], None, [FOREGROUND]),
    ([OTHER], "Foreground", [OTHER, FOREGROUND]), ([OTHER], "Background", [OTHER]),
               ([OTHER], "Orphan", [OTHER, ORPHAN]), ([OTHER], None, [OTHER]),
    ([OTHER, ORPHAN], "Background", [OTHER]), ([OTHER, ORPHAN], None, [OTHER, ORPHAN]),
               ([OTHER, ORPHAN], "Foreground", [OTHER, FOREGROUND]),
]


@pytest.mark.parametrize("existing, policy, expected", PROPAGATION)
def test_propagation(pods, ns, existing, policy, expected):
    """
    DEL-04 to DEL-06: TestStoreDeletionPropagation, TestNonGracefulStoreHandleFinalizers; without a policy, the
    finalizers that TestDeletionFinalizersForGarbageCollection expects for a group without a default
    """
    stored = pods.create("foo", ns, finalizers=existing)
    answer = pods.api.delete(pods.path(ns, "foo"), {"propagationPolicy": policy} if policy else None)
    assert answer.code == 200
    got = pods.api.get(pods.path(ns, "foo"))
    if expected is None:
        assert answer.json["kind"] == "Status" and got.code == 404
        return
    assert answer.json == got.json
    metadata = got.json["metadata"]
    assert sorted(metadata["finalizers"]) == sorted(expected) and metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["generation"] == stored["metadata"]["generation"] + 1 and version(got.json) > version(stored)


@pytest.mark.parametrize("existing, orphan, expected", [
    ([OTHER, ORPHAN, "bar.com/y"], False, [OTHER, "bar.com/y"]),
                                                        ([OTHER, "bar.com/y"], True, [OTHER, "bar.com/y", ORPHAN]),
                                                        ([], True, [ORPHAN]), ([ORPHAN], False, None),
    ([], False, None), ([OTHER, ORPHAN], None, [OTHER, ORPHAN])])
@pytest.mark.parametrize("where", ["body", "query"])
def test_orphan_dependents(pods, ns, existing, orphan, expected, where):
    """
    DEL-01, DEL-04, DEL-05, DC-01: TestStoreDeleteWithOrphanDependents, TestDeleteWithOptions,
    TestDeleteWithOptionsQuery: in the body or in the query
    """
    pods.create("foo", ns, finalizers=existing)
    options = {} if orphan is None else {"orphanDependents": orphan if where == "body" else str(orphan).lower()}
    answer = pods.api.delete(pods.path(ns, "foo"),
                             options) if where == "body" else pods.api.delete(pods.path(ns, "foo"), **options)
    if expected is None:
        assert answer.code == 200 and answer.json["kind"] == "Status"
        return
    # An explicit false gets 202: accepted, but not done.
    assert answer.code == (202 if orphan is False else 200)
    assert sorted(answer.json["metadata"]["finalizers"]) == sorted(expected)


@pytest.mark.parametrize("value, expected", [("", True), ("1", True), ("true", True), ("x", True), ("0", False),
                                             ("false", False), ("False", False), ("FALSE", False)])
def test_boolean_parameters(pods, ns, value, expected):
    """REQ-03: 0 and false, in any case of letters, are false; every other value is true, also an empty one"""
    pods.create("foo", ns)
    answer = pods.api.delete(pods.path(ns, "foo") + "?orphanDependents=" + value)
    assert (answer.json.get("kind") == pods.head["kind"]) is expected, answer


def test_finalizers_hold_an_object(pods, ns):
    """
    DEL-05, UPD-05: TestNonGracefulStoreHandleFinalizers, TestGracefulStoreHandleFinalizers, TestFinalization,
    TestMarkAsDeleting,
    TestValidateFinalizersUpdate, TestValidateObjectMetaUpdatePreventsDeletionFieldMutation: PUT as well as patch;
    a second delete changes nothing, not even the time of the first one"""
    path = pods.path(ns, "foo")
    stored = pods.create("foo", ns, finalizers=[OTHER])
    with pods.api.watch(pods.path(ns), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": stored["metadata"]["uid"]}}
        before = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        held = pods.api.delete(path, options).json
        assert before <= datetime.datetime.fromisoformat(
                                                         held["metadata"][
            "deletionTimestamp"]) <= datetime.datetime.now(datetime.timezone.utc)
        assert watch.event() == ("MODIFIED", held)
        assert pods.api.delete(path, options).json == pods.api.get(path).json == held
        # Content may still change, finalizers may only go.
        held["spec"]["nodeName"] = "machine"
        held = pods.api.put(path, held).json
        assert watch.event() == ("MODIFIED", held)
        more = copy.deepcopy(held)
        more["metadata"]["finalizers"] = [OTHER, "foo.com/y"]
        status = failure(pods.api.put(path, more), 422, "Invalid")
        assert status["details"]["causes"] == [{"reason": "FieldValueForbidden",
                                                "field": "metadata.finalizers", "message":
            'Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers '
                                                '[]string{"foo.com/y"}'}]
        # No client can take the deletion back.
        for change in ({"deletionTimestamp": None}, {"deletionGracePeriodSeconds": None}):
            answer = pods.api.patch(path, {"metadata": change})
            assert answer.code == 200 and answer.json["metadata"]["deletionTimestamp"] == held["metadata"][
                "deletionTimestamp"]
        for field, value in (("deletionGracePeriodSeconds", 40), ("finalizers", ["foo.com/y"])):
            status = failure(pods.api.patch(path, {"metadata": {field: value}}), 422, "Invalid")
            assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata." + field]
        last = copy.deepcopy(held)
        del last["metadata"]["finalizers"]
        last["spec"]["nodeName"] = "anothermachine"
        answer = pods.api.put(path, last)
        assert answer.code == 200 and answer.json["kind"] == pods.head["kind"]
        kind, seen = watch.event()
        assert kind == "DELETED" and version(seen) > version(held)
    failure(pods.api.get(path), 404, "NotFound")
    assert pods.create("foo", ns)["metadata"]["uid"] != stored["metadata"]["uid"]


# delete_with_result_test.go, the rows of an object without graceful deletion: finalizers, terminating before, policy ->
# kind, whether the version moves
RESULTS = [
    ([], False, None, "Status", True), ([], False, "Background", "Status", True), ([], False, "Orphan", "object", True),
           ([], False, "Foreground", "object", True),
    ([OTHER], False, None, "object", True), ([OTHER], True, None, "object", False),
           ([OTHER], True, "Background", "object", False),
    ([OTHER], True, "Orphan", "object", True), ([OTHER], True, "Foreground", "object", True),
]


@pytest.mark.parametrize("finalizers, terminating, policy, kind, moves", RESULTS)
def test_delete_with_result(pods, ns, finalizers, terminating, policy, kind, moves):
    """DEL-11, DEL-05: the answer to a delete has the version that the object has now, or that of its deletion"""
    before = version(pods.create("foo", ns, finalizers=finalizers))
    if terminating:
        before = version(pods.api.delete(pods.path(ns, "foo")).json)
    with pods.api.watch(pods.path(ns), resourceVersion=str(before)) as watch:
        answer = pods.api.delete(pods.path(ns, "foo"), {"propagationPolicy": policy} if policy else None)
        assert answer.code == 200 and (answer.json["kind"] == "Status") is (kind == "Status")
        assert (version(answer.json) > before) is moves
        if moves:
            assert version(watch.event()[1]) == version(answer.json)
        assert watch.quiet()
    got = pods.api.get(pods.path(ns, "foo"))
    assert got.code == 404 if kind == "Status" else got.json == answer.json


@pytest.mark.parametrize("seconds", [0, 1, 300, -1])
def test_grace_period(pods, ns, seconds):
    """
    DEL-07: TestRequestsWithInvalidQuery, for a delete: a number is accepted and has no effect, in body or query;
    another value is refused
    """
    for query, body in (({}, {"gracePeriodSeconds": seconds}), ({"gracePeriodSeconds": seconds}, None)):
        pods.create("foo", ns)
        assert pods.api.delete(pods.path(ns, "foo"), body, **query).json["kind"] == "Status"
    pods.create("foo", ns)
    failure(pods.api.delete(pods.path(ns, "foo"), gracePeriodSeconds="<invalid>"), 400, "BadRequest")
    failure(pods.api.delete(pods.path(ns, "foo"), {"gracePeriodSeconds": "x"}), 400, "BadRequest")
    assert pods.api.get(pods.path(ns, "foo")).code == 200


DELETE_OPTIONS = [
    (b"{}", 200), (b"", 200), (b'{"kind":"DeleteOptions","apiVersion":"v1"}', 200),
                  (b'{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}', 200),
    (b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":123}', 200),
                  (b'{"kind":"DeleteOptions","apiVersion":"foo/v1","gracePeriodSeconds":123}', 200),
    (b'{"propagationPolicy":"Background"}\n', 200), (b'{"unknown":1}', 200),
                  (b'{"orphanDependents": "randomString"}', 400),
    (b'{"apiVersion": "v1", "kind": "APIResourceList"}', 400), (b'{"apiVersion": false, "kind": "DeleteOptions"}', 400),
                  (b"[]", 400), (b"{", 400), (b'"x"', 400),
    (b'{"preconditions": 5}', 400), (b'{"dryRun": "All"}', 400), (b'{"dryRun": ["x"]}', 422),
                  (b'{"propagationPolicy": "x"}', 422),
    (b'{"propagationPolicy": "Orphan", "orphanDependents": true}', 422), (b'{"propagationPolicy": ""}', 422),
                  (b'{"propagationPolicy": 5}', 400),
]


@pytest.mark.parametrize("body, code", DELETE_OPTIONS)
def test_delete_options(pods, ns, body, code):
    """
    DEL-01, DEL-02, DC-01, DC-07: TestDeleteResourceDeleteOptions, TestDeleteCollection,
    TestDeleteCollectionDeleteOptions, and validation: one object
    and collections; what is refused deletes nothing
    """
    pods.create("foo", ns)
    for path in (pods.path(ns, "foo"), pods.path(ns)):
        answer = pods.api.delete(path, body)
        if code == 200:
            assert answer.code == 200, answer
            pods.api.post(pods.path(ns), pods.pod("foo"))
        else:
            status = failure(answer, code, {400: "BadRequest", 422: "Invalid"}[code])
            if code == 422:
                assert status["message"].startswith('DeleteOptions.meta.k8s.io "" is invalid: ')
        assert pods.api.get(pods.path(ns, "foo")).code == 200


def test_delete_body_wins_over_query(pods, ns):
    """DEL-01: TestDeleteWithOptionsQueryAndBody"""
    pods.create("foo", ns)
    answer = pods.api.delete(pods.path(ns, "foo"), {"propagationPolicy": "Background"},
                             propagationPolicy="Orphan", dryRun="All")
    assert answer.code == 200 and answer.json["kind"] == "Status"
    assert pods.api.get(pods.path(ns, "foo")).code == 404


def test_delete_collection(pods, ns):
    """
    DC-02, DC-03, DC-05, NS-01: TestStoreDeleteCollection, TestStoreDeleteCollectionNotFound,
    TestStoreDeleteCollectionWithWatch
    """
    stored = [pods.create(f"foo-{number}", ns, finalizers=[OTHER] if number == 3 else []) for number in range(6)]
    with pods.api.watch(pods.path(ns), resourceVersion=stored[-1]["metadata"]["resourceVersion"]) as watch:
        assert pods.api.delete(pods.path(ns)).code == 200
        assert [item["metadata"]["name"] for item in pods.list(ns)["items"]] == ["foo-3"]
        events = [watch.event() for _ in range(6)]
    for kind, document in events:
        if kind == "DELETED":
            # The object as it was, with another version.
            (last,) = [each for each in stored if each["metadata"]["uid"] == document["metadata"]["uid"]]
            assert document == {**last, "metadata": {**last["metadata"],
                                                     "resourceVersion": document["metadata"]["resourceVersion"]}}
    assert sorted((kind, document["metadata"]["name"]) for kind, document in events) == sorted(
        ("MODIFIED" if number == 3 else "DELETED", f"foo-{number}") for number in range(6))
    versions = [version(document) for _, document in events]
    assert versions == sorted(set(versions))
    assert pods.api.delete(pods.path("nothing-here")).code == 200


def test_delete_collection_options(pods, ns):
    """
    DC-01, DC-06, DC-07: selectors with a body; preconditions hold for each object, so that at most one meets a version;
    dry runs
    """
    for name in ("a", "b", "c"):
        pods.create(name, ns, labels={"name": name})
    before = pods.list(ns)
    assert pods.api.delete(pods.path(ns), {"dryRun": ["All"]}).code == 200
    assert pods.api.delete(pods.path(ns), dryRun="All", labelSelector="name=a").code == 200
    assert pods.list(ns) == before
    assert pods.api.delete(pods.path(ns), {"propagationPolicy": "Background"}, labelSelector="name in (a,b)",
                           fieldSelector="metadata.name!=b").code == 200
    assert [item["metadata"]["name"] for item in pods.list(ns)["items"]] == ["b", "c"]
    assert pods.api.delete(pods.path(ns), {"propagationPolicy": "Orphan"}, labelSelector="name=b").code == 200
    assert pods.api.get(pods.path(ns, "b")).json["metadata"]["finalizers"] == [ORPHAN]
    failure(pods.api.delete(pods.path(ns), {"preconditions": {"resourceVersion": "1"}}, labelSelector="name=c"), 409,
            "Conflict")
    stored = pods.api.get(pods.path(ns, "c")).json
    met = {"preconditions": {"resourceVersion": stored["metadata"]["resourceVersion"]}}
    assert pods.api.delete(pods.path(ns), met, labelSelector="name=c").code == 200
    assert pods.api.get(pods.path(ns, "c")).code == 404


def test_delete_collection_from_a_token_on(types):
    """
    DC-01, DC-02, DC-07: objects before the start of a continue token stay; a token that a list refuses deletes nothing
    """
    for kind in (types.pods(), types.pods("Cluster")):
        path = kind.path("ns")

        def left():
            return "".join(item["metadata"]["name"] for item in kind.list("ns")["items"])
        for name in "abcde":
            kind.create(name, "ns")
        page = kind.list("ns", limit=2)["metadata"]["continue"]
        assert kind.api.delete(path, limit=1, **{"continue": page}).code == 200 and left() == "abde"
        status = failure(kind.api.delete(path, **{"continue": token(1, "a\0")}), 410, "Expired")
        assert opened(status["metadata"]["continue"]) == {"v": "meta.k8s.io/v1", "rv": -1, "start": "a\0"}
        failure(kind.api.delete(path, **{"continue": token(10 ** 18, "a\0")}), 504, "Timeout")
        assert left() == "abde"
        assert kind.api.delete(path, **{"continue": page}).code == 200 and left() == "ab"
        assert kind.api.delete(path, **{"continue": token(-1, "a\0")}).code == 200 and left() == "a"
