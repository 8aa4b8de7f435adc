"""Compressed answers (conformance REQ-11)."""

import gzip
import zlib

import pytest
import yaml

from client import POLR, path_of, report, result


@pytest.fixture(scope="module")
def large(stack):
    """A namespace with 3 MB of reports, and one report of 200 KB in it."""
    api = stack.first.api()
    ns = "t-gzip"
    words = " ".join(f"word{number}" for number in range(20000))
    api.create(POLR, report("big", results=[result(message=words)]), ns)
    for number in range(30):
        api.create(POLR, report(f"r{number:02}", results=[result(message=words[number:100000])]), ns)
    return ns


def get(api, path, encoding="gzip", method="GET", accept="application/json", **query):
    return api.request(method, path, headers={"Accept-Encoding": encoding, "Accept": accept}, **query)


def is_compressed(answer):
    assert ("Accept-Encoding" in answer.headers.get("Vary", "")) is (answer.headers["Content-Encoding"] == "gzip")
    return answer.headers["Content-Encoding"] == "gzip"


def test_get(api, large):
    """REQ-11: TestGetCompression, TestSerializeObject: a large object, with its length"""
    path = path_of(POLR, large, "big")
    plain = get(api, path, "identity")
    answer = get(api, path)
    assert is_compressed(answer) and not is_compressed(plain)
    assert answer.headers["Content-Length"] == str(len(answer.body)) and len(answer.body) < len(plain.body) / 2
    assert gzip.decompress(answer.body) == plain.body
    # Level 1 is marked in the header as the fastest.
    assert answer.body[8] == 4


def test_list(api, large):
    """REQ-11: TestListCompression, TestStreamingGzipIntegration: a long list is compressed piece by piece"""
    plain = get(api, path_of(POLR, large), "identity")
    assert not is_compressed(plain) and len(plain.json["items"]) == 31
    answer = get(api, path_of(POLR, large))
    assert is_compressed(answer) and answer.headers["Transfer-Encoding"] == "chunked"
    stream = zlib.decompressobj(31)
    assert stream.decompress(answer.body) == plain.body and stream.eof and not stream.unused_data


def test_yaml(api, large):
    """REQ-11, NEG-03: an answer is written as YAML first, and then compressed"""
    for path in (path_of(POLR, large), path_of(POLR, large, "big")):
        answer = get(api, path, accept="application/yaml")
        assert is_compressed(answer) and answer.headers["Content-Type"] == "application/yaml"
        assert yaml.load(gzip.decompress(answer.body), yaml.CSafeLoader) == api.get(path).json


def test_what_is_not_compressed(api, large, ns):
    """
    REQ-11, AGG-14: TestSerializeObject, TestStreamingGzipIntegration: small answers, those to writes and HEAD, watches
    """
    api.create(POLR, report("r"), ns)
    assert not is_compressed(get(api, path_of(POLR, ns)))
    big = api.get(path_of(POLR, large, "big")).json
    answer = api.request("PUT", path_of(POLR, large, "big"), big, headers={"Accept-Encoding": "gzip"})
    assert answer.code == 200 and len(answer.body) > 150000 and not is_compressed(answer)
    head = get(api, path_of(POLR, large), method="HEAD")
    assert head.code == 200 and head.body == b"" and not is_compressed(head)
    answer = get(api, path_of(POLR, large), watch="true", timeoutSeconds="1")
    assert not is_compressed(answer) and answer.body.count(b"\"ADDED\"") == 31


@pytest.mark.parametrize("encoding, compressed", [
    ("gzip", True), ("GZIP", True), ("br, gzip", True), ("deflate,gzip;q=0.5", True),
                                                  ("gzip; q=1.0, identity;q=0.5", True), ("*", True),
    ("", False), ("br", False), ("gzip;q=0", False), ("gzip;q=0.0, *", False), ("identity", False),
                                                  ("identity, gzip;q=0.5", False),
    ("*;q=0", False), ("gzip;q=x", False), ("xgzip", False), (",,;q=1,", False),
    ("deflate, , gzip,", True), ("deflate", False), (", ,  other, nothing, what, ", False)])
def test_accept_encoding(api, large, encoding, compressed):
    """REQ-11: TestSerializeObject: q-values count"""
    assert is_compressed(get(api, path_of(POLR, large, "big"), encoding)) is compressed


def test_documents(api):
    """REQ-11, OAPI-20: large documents are compressed, small ones are not"""
    compressed = {}
    for path in ("/openapi/v2", "/apis", "/openapi/v3/apis/wgpolicyk8s.io/v1alpha2"):
        plain = get(api, path, "identity")
        for _ in range(2):
            answer = get(api, path)
            compressed[path] = is_compressed(answer)
            assert compressed[path] is (len(plain.body) >= 131072)
            assert answer.headers.get("ETag") == plain.headers.get("ETag")
            assert (gzip.decompress(answer.body) if compressed[path] else answer.body) == plain.body
    assert set(compressed.values()) == {True, False}, compressed
