"""OpenAPI v2 and v3 (conformance section 3)."""

import re

from client import until
from test_discovery import BUILT_IN

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def references(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_v3_index_and_documents(api):
    """OAPI-01, OAPI-02, OAPI-10, OAPI-11, AGG-40"""
    index = api.get("/openapi/v3", timeout="32s")
    assert index.code == 200 and index.headers["Content-Type"] == "application/json"
    paths = index.json["paths"]
    for group, version in {(row[0], row[1]) for row in BUILT_IN}:
        url = paths[f"apis/{group}/{version}"]["serverRelativeURL"]
        assert re.fullmatch(rf"/openapi/v3/apis/{re.escape(group)}/{version}\?hash=[0-9A-F]+", url)
        answer = api.get(url)
        assert answer.code == 200
        assert "immutable" in answer.headers["Cache-Control"]
        document = answer.json
        assert document["openapi"].startswith("3.0")
        for reference in references(document):
            assert reference.startswith("#/components/schemas/")
            assert reference.rsplit("/", 1)[1] in document["components"]["schemas"], reference
        for row in BUILT_IN:
            if (row[0], row[1]) == (group, version):
                check_v3_kind(document, *row)


def check_v3_kind(document, group, version, plural, kind, namespaced, _short):
    gvk = {"group": group, "version": version, "kind": kind}
    base = f"/apis/{group}/{version}" + ("/namespaces/{namespace}" if namespaced else "") + f"/{plural}"
    one, many = document["paths"][base + "/{name}"], document["paths"][base]
    assert {"get", "put", "patch", "delete"} <= set(one) and {"get", "post", "delete"} <= set(many)
    assert one["patch"]["x-kubernetes-group-version-kind"] == gvk
    parameters = {parameter.get("name") for parameter in one["patch"]["parameters"] + one.get("parameters", [])}
    assert {"dryRun", "fieldManager", "fieldValidation", "name"} <= parameters
    content = one["patch"]["requestBody"]["content"]
    assert {"application/merge-patch+json", "application/apply-patch+yaml"} <= set(content)
    assert "application/strategic-merge-patch+json" not in content
    schemas = [schema for schema in document["components"]["schemas"].values()
               if gvk in schema.get("x-kubernetes-group-version-kind", [])]
    assert len(schemas) == 1
    assert {"apiVersion", "kind", "metadata"} <= set(schemas[0]["properties"])


def test_v3_other_hash(api):
    """OAPI-02: an old hash gets the document, but without the header that lets clients cache it for ever"""
    answer = api.get("/openapi/v3/apis/wgpolicyk8s.io/v1alpha2?hash=00")
    assert answer.code == 200 and answer.json["components"]
    assert "immutable" not in (answer.headers["Cache-Control"] or "")


def test_v3_unknown_document(api):
    """OAPI-04"""
    assert api.get("/openapi/v3/apis/none.example/v1").code == 404


def test_v2_json(api):
    """OAPI-20, OAPI-21"""
    answer = api.get("/openapi/v2", accept="application/json")
    assert answer.code == 200 and answer.headers["Content-Type"] == "application/json"
    document = answer.json
    assert document["swagger"] == "2.0"
    for reference in references(document):
        assert reference.rsplit("/", 1)[1] in document["definitions"], reference
    patch = document["paths"]["/apis/wgpolicyk8s.io/v1alpha2/namespaces/{namespace}/policyreports/{name}"]["patch"]
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "wgpolicyk8s.io", "version": "v1alpha2",
                                                        "kind": "PolicyReport"}
    again = api.request("GET", "/openapi/v2",
                        headers={"Accept": "application/json", "If-None-Match": answer.headers["ETag"]})
    assert again.code == 304


def fields(message):
    """Yields the top-level fields of a protobuf message as (number, wire type, value); fails if it is no message."""
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while position < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, 0, varint()
        elif key & 7 == 2:
            length = varint()
            assert position + length <= len(message)
            yield key >> 3, 2, message[position:position + length]
            position += length
        else:
            size = {1: 8, 5: 4}[key & 7]
            yield key >> 3, key & 7, message[position:position + size]
            position += size


def test_v2_protobuf(api):
    """What kubectl 1.20 reads: field 1 of the document is swagger, 8 the paths, 9 the definitions"""
    answer = api.get("/openapi/v2", accept=PROTOBUF)
    # The request names the type with @, the answer with a dot: kubectl reads no other name.
    assert answer.code == 200 and answer.headers["Content-Type"] == PROTOBUF.replace("@", ".")
    document = {}
    for number, _wire, value in fields(answer.body):
        document.setdefault(number, []).append(value)
    assert document[1] == [b"2.0"]
    definitions = list(fields(document[9][0]))
    names = [next(value for number, _w, value in fields(entry) if number == 1).decode()
             for _n, _w, entry in definitions]
    assert any(name.endswith("PolicyReport") for name in names)
    assert len(names) == len(set(names))
    assert b"fieldValidation" in document[8][0]


def test_head_and_etag(api):
    """REQ-12, REQ-09"""
    answer = api.request("HEAD", "/openapi/v2")
    assert answer.code == 200 and answer.body == b"" and int(answer.headers["Content-Length"]) > 1000
    assert answer.headers["Audit-Id"] and answer.headers["Date"]
    echoed = api.request("GET", "/version", headers={"Audit-Id": "11111111-2222-3333-4444-555555555555"})
    assert echoed.headers["Audit-Id"] == "11111111-2222-3333-4444-555555555555"


def test_new_type_changes_documents(stack, api):
    """A registered type is in the OpenAPI documents of the next request or soon after (both versions)."""
    crd = ('{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": '
           '"notes.openapi.example"},'
           ' "spec": {"group": "openapi.example", "scope": "Cluster", "names": {"plural": "notes", "singular": "note", '
           '"kind": "Note",'
           ' "listKind": "NoteList"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": '
           '{"openAPIV3Schema":'
           ' {"type": "object", "properties": {"text": {"type": "string", "description": "what it says"}}}}}]}}')
    stack.database.psql(f"SELECT kube_reports.register_crd('{crd}')")
    until(lambda: "apis/openapi.example/v1" in api.get("/openapi/v3").json["paths"], what="the type in /openapi/v3")
    until(lambda: b"what it says" in api.get("/openapi/v2").body, what="the type in /openapi/v2")
    stack.unregister("notes.openapi.example")
    until(lambda: "apis/openapi.example/v1" not in api.get("/openapi/v3").json["paths"], what="its disappearance")
