"""Delete, preconditions, finalizers, deletecollection (conformance 14)."""

import uuid
from concurrent.futures import ThreadPoolExecutor

from client import CPOLR, EPHR, MERGE, POLR, failure, path_of, report


def test_delete(api, ns):
    """DEL-01, DEL-06, DEL-09, RV-03, RV-04: TestDelete"""
    stored = api.create(POLR, report("r1"), ns)
    path = path_of(POLR, ns, "r1")
    before = int(api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"])
    with api.watch(path_of(POLR, ns), resourceVersion=before) as watch:
        answer = api.delete(path, b'{"propagationPolicy":"Background"}\n')
        assert answer.code == 200
        status = answer.json
        assert (status["kind"], status["status"]) == ("Status", "Success") and "code" not in status
        assert status["details"] == {"name": "r1", "group": "wgpolicyk8s.io", "kind": "policyreports",
                                     "uid": stored["metadata"]["uid"]}
        kind, last = watch.event()
        assert kind == "DELETED" and last["summary"] == stored["summary"]
        assert int(last["metadata"]["resourceVersion"]) > before
    assert int(api.get(path_of(POLR, ns)).json["metadata"]["resourceVersion"]) > before
    assert api.get(path).code == 404
    failure(api.delete(path), 404, "NotFound")
    again = api.create(POLR, report("r1"), ns)
    assert again["metadata"]["uid"] != stored["metadata"]["uid"]


def test_delete_options_with_kind(api, ns):
    """DEL-01"""
    for number, options in enumerate(({"kind": "DeleteOptions", "apiVersion": "v1"},
                                      {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"},
                                      {"kind": "DeleteOptions", "apiVersion": "wgpolicyk8s.io/v1alpha2",
                                       "gracePeriodSeconds": 0}, {})):
        api.create(POLR, report(f"r{number}"), ns)
        assert api.delete(path_of(POLR, ns, f"r{number}"), options).code == 200
    assert api.names(POLR, ns) == []


def test_preconditions(api, ns):
    """DEL-03"""
    stored = api.create(POLR, report("r1"), ns)
    path = path_of(POLR, ns, "r1")
    other = str(uuid.uuid4())
    status = failure(api.delete(path, {"preconditions": {"uid": other}}), 409, "Conflict")
    assert status["message"] == ('Operation cannot be fulfilled on PolicyReport.wgpolicyk8s.io "r1": the UID in the '
                                 f'precondition ({other}) does '
                                 f'not match the UID in record ({stored["metadata"]["uid"]}). The object might have '
                                 'been deleted and then recreated')
    status = failure(api.delete(path, {"preconditions": {"resourceVersion": "1"}}), 409, "Conflict")
    assert "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record" in status[
        "message"]
    assert api.get(path).json == stored
    answer = api.delete(path, {"preconditions": {"uid": stored["metadata"]["uid"],
                                                 "resourceVersion": stored["metadata"]["resourceVersion"]}})
    assert answer.code == 200


def test_finalizers(api, ns):
    """DEL-05, UPD-05"""
    document = report("r1")
    document["metadata"]["finalizers"] = ["example.com/hold"]
    stored = api.create(POLR, document, ns)
    path = path_of(POLR, ns, "r1")
    with api.watch(path_of(POLR, ns), resourceVersion=stored["metadata"]["resourceVersion"]) as watch:
        answer = api.delete(path)
        assert answer.code == 200 and answer.json["kind"] == "PolicyReport"
        held = answer.json["metadata"]
        assert held["deletionTimestamp"] and held["deletionGracePeriodSeconds"] == 0
        assert held["generation"] == stored["metadata"]["generation"] + 1
        watch.expect(("MODIFIED", "r1"))
        # Another delete changes nothing.
        again = api.delete(path)
        assert again.code == 200 and again.json["metadata"]["resourceVersion"] == held["resourceVersion"]
        # The object cannot get new finalizers, and its name is still in use.
        status = failure(api.patch(path, {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}), 422,
                         "Invalid")
        assert "no new finalizers can be added if the object is being deleted" in status["message"]
        status = failure(api.post(path_of(POLR, ns), report("r1")), 409, "AlreadyExists")
        assert status["message"] == 'object is being deleted: policyreports.wgpolicyk8s.io "r1" already exists'
        # The object is deleted with its last finalizer.
        assert api.patch(path, {"metadata": {"finalizers": None}}, kind=MERGE).code == 200
        kind, last = watch.change()
        assert kind == "DELETED" and last["metadata"]["name"] == "r1"
    assert api.get(path).code == 404


def test_propagation(api, ns):
    """DEL-04"""
    path = path_of(POLR, ns, "r1")
    for policy, finalizer in (("Foreground", "foregroundDeletion"), ("Orphan", "orphan")):
        api.create(POLR, report("r1"), ns)
        answer = api.delete(path, {"propagationPolicy": policy})
        assert answer.code == 200 and answer.json["metadata"]["finalizers"] == [finalizer]
        assert answer.json["metadata"]["deletionTimestamp"]
        assert api.delete(path, {"propagationPolicy": "Background"}).code == 200
        assert api.get(path).code == 404
    status = failure(api.delete(path, {"propagationPolicy": "Orphan", "orphanDependents": True}), 422, "Invalid")
    assert "orphanDependents and deletionPropagation cannot be both set" in status["message"]


def test_delete_collection(api, ns):
    """DC-01 to DC-05, DC-08"""
    for number in range(25):
        api.create(POLR, report(f"r{number:02}", labels={"half": str(number % 2)}), ns)
    api.create(POLR, report("elsewhere", labels={"half": "1"}), ns + "-b")
    path = path_of(POLR, ns)
    before = api.get(path).json["metadata"]["resourceVersion"]
    with api.watch(path, resourceVersion=before) as watch:
        answer = api.delete(path, labelSelector="half=1")
        assert answer.code == 200, answer
        assert (answer.json["kind"], answer.json["status"]) == ("Status", "Success")
        deleted = [watch.change() for _ in range(12)]
    assert {kind for kind, _ in deleted} == {"DELETED"}
    assert sorted(document["metadata"]["name"] for _, document in deleted) == [f"r{n:02}" for n in range(25) if n % 2]
    versions = [int(document["metadata"]["resourceVersion"]) for _, document in deleted]
    assert versions == sorted(set(versions))
    assert len(api.names(POLR, ns)) == 13 and api.names(POLR, ns + "-b") == ["elsewhere"]
    assert api.delete(path, fieldSelector="metadata.name=r00").code == 200
    assert api.delete(path, dryRun="All").code == 200
    assert len(api.names(POLR, ns)) == 12
    assert api.delete(path, {"propagationPolicy": "Background"}).code == 200
    assert api.names(POLR, ns) == []


def test_delete_collection_in_steps(stack, api, ns):
    """A collection that takes several steps has one usual answer; if a step fails, the answer of this step."""
    path = path_of(POLR, ns)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: api.create(POLR, report(f"r{number:03}"), ns), range(600)))
    stack.database.psql(f"""
        CREATE FUNCTION public.refuse_delete() RETURNS trigger
            LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''40001''; END';
        CREATE TRIGGER refuse_delete BEFORE DELETE ON kube_reports.object FOR EACH ROW
            WHEN (OLD.namespace = '{ns}' AND OLD.name = 'r550')
                EXECUTE FUNCTION public.refuse_delete()""", user="postgres")
    try:
        failure(api.delete(path), 503, "ServiceUnavailable")
        assert len(api.names(POLR, ns)) == 100
    finally:
        stack.database.psql("DROP TRIGGER refuse_delete ON kube_reports.object; DROP FUNCTION public.refuse_delete()",
                            user="postgres")
    answer = api.delete(path)
    assert answer.code == 200 and answer.headers["Content-Length"] == str(len(answer.body))
    assert answer.json["status"] == "Success"
    assert api.names(POLR, ns) == []


def test_delete_collection_with_finalizers(api, ns):
    """DC-02"""
    held = report("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.create(POLR, held, ns)
    api.create(POLR, report("free"), ns)
    assert api.delete(path_of(POLR, ns)).code == 200
    assert api.names(POLR, ns) == ["held"]
    assert api.get(path_of(POLR, ns, "held")).json["metadata"]["deletionTimestamp"]
    assert api.patch(path_of(POLR, ns, "held"), {"metadata": {"finalizers": []}}).code == 200
    assert api.names(POLR, ns) == []


def test_delete_of_everything_everywhere_is_refused(api, ns):
    """ERR-22"""
    api.create(EPHR, {"apiVersion": "reports.kyverno.io/v1", "kind": "EphemeralReport", "metadata": {"name": "e"},
                      "spec": {"owner": {"apiVersion": "", "kind": "", "name": "", "uid": ""}}}, ns)
    failure(api.delete(path_of(EPHR)), 404, "NotFound")
    assert api.names(EPHR, ns) == ["e"]


def test_delete_collection_of_a_cluster_resource(api, ns):
    for number in range(3):
        api.create(CPOLR, report(f"{ns}-{number}", resource=CPOLR, labels={"test": ns}))
    assert api.delete(path_of(CPOLR), labelSelector=f"test={ns}").code == 200
    assert api.names(CPOLR, labelSelector=f"test={ns}") == []


def protobuf(number, value):
    """Returns a field of a protobuf message: a varint or bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def proto_options(*fields):
    """Returns DeleteOptions as a typed client sends them: a runtime.Unknown after the magic bytes."""
    kind = protobuf(1, b"v1") + protobuf(2, b"DeleteOptions")
    return b"k8s\0" + protobuf(1, kind) + protobuf(2, b"".join(protobuf(*field) for field in fields)) + protobuf(3,
        b"") + protobuf(4, b"")


def test_protobuf_options(api, ns):
    """REQ-02: typed clients send DeleteOptions in protobuf; other bodies in protobuf are refused"""
    stored = api.create(POLR, report("r1"), ns)
    path = path_of(POLR, ns, "r1")
    protobuf_type = "application/vnd.kubernetes.protobuf"

    def delete(body, where=path):
        return api.request("DELETE", where, body, headers={"Content-Type": protobuf_type})

    status = failure(delete(proto_options((2, protobuf(1, b"another")))), 409, "Conflict")
    assert (f"the UID in the precondition (another) does not match the UID in record ({stored['metadata']['uid']})"
            in status["message"])
    failure(delete(proto_options((2, protobuf(2, b"1")))), 409, "Conflict")
    assert "dryRun" in failure(delete(proto_options((5, b"Some"))), 422, "Invalid")["message"]
    assert "propagationPolicy" in failure(delete(proto_options((4, b"Sideways"))), 422, "Invalid")["message"]
    message = failure(delete(b"{}"), 400, "BadRequest")["message"]
    assert message == "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    assert failure(delete(proto_options((1, 30))[:-9]), 400, "BadRequest")["message"] == "unexpected EOF"
    assert delete(proto_options((5, b"All"))).code == 200
    assert api.get(path).json == stored
    assert delete(proto_options((5, b"All")), path_of(POLR, ns)).code == 200
    assert api.names(POLR, ns) == ["r1"]

    answer = delete(proto_options((1, 0), (2, protobuf(1, stored["metadata"]["uid"].encode())),
                                  (4, b"Foreground"), (15, b"unknown")))
    assert answer.code == 200 and answer.json["metadata"]["finalizers"] == ["foregroundDeletion"], answer
    answer = api.request("POST", path_of(POLR, ns), b"k8s\0", headers={"Content-Type": protobuf_type})
    assert "application/vnd" not in failure(answer, 415, "UnsupportedMediaType")["message"]
