"""
Clients that read a watch line by line, each line one event: fabric8's kubernetes-client (Java), and clients that use
readline (Node.js).

fabric8 asks for a WebSocket first, and takes an ordinary answer of 200 as "watch over HTTP".  Then it cuts the stream
at each newline and parses the text before it, with all white space: an empty line ends the watch with an error.
readline of Node.js also ends a line at a carriage return, and at U+2028 and U+2029.
"""

import json
import random
import re
import threading
import urllib.parse

import pytest

from client import POLR, Answer, path_of, report, status_of, until

# Characters that end a line for some reader, or that JSON may escape: all inside a string.
ODD = "a\nb\rc\u2028d\u2029e\u0085f\u000bg\u000ch\u0000i\u001ej\u00e9\U0001f600"

BREAKS = {"newlines": re.compile("\n"), "readline": re.compile("\r\n|\n|\r|\u2028|\u2029")}


class LineInformer:
    """Lists, then watches from the list's version, again and again; every complete line must be one event."""

    def __init__(self, api, namespace, breaks):
        self.api, self.path, self.breaks = api, path_of(POLR, namespace), breaks
        self.objects = {}
        self.watches = 0
        self.failure = None
        self.stopping = threading.Event()
        listed = api.get(self.path).json
        for item in listed["items"]:
            self.objects[item["metadata"]["name"]] = item
        self.version = listed["metadata"]["resourceVersion"]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.watch()
        except Exception as error:  # shown by the test
            self.failure = error

    def watch(self):
        query = urllib.parse.urlencode({"watch": "true", "resourceVersion": self.version, "allowWatchBookmarks": "true",
                                        "timeoutSeconds": "2"})
        connection = self.api.connect(timeout=60)
        connection.request("GET", f"{self.path}?{query}", headers={"Accept": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        self.watches += 1
        rest = b""
        while True:
            piece = response.read1(65536)
            if not piece:
                break
            text = rest + piece
            # A piece may end inside a character: only the text before the last newline is decoded.
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            for line in self.breaks.split(text[:end].decode())[:-1]:
                self.event(json.loads(line))
        assert rest.strip() == b"", f"half an event at the end of a watch: {rest!r}"
        connection.close()

    def event(self, event):
        kind, document = event["type"], event["object"]
        assert kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"), event
        version = document["metadata"]["resourceVersion"]
        assert int(version) >= int(self.version)
        self.version = version
        name = document["metadata"].get("name")
        if kind == "DELETED":
            assert self.objects.pop(name, None) is not None, f"{name} was unknown"
        elif kind != "BOOKMARK":
            assert (name in self.objects) == (kind == "MODIFIED"), event
            self.objects[name] = document

    def stop(self):
        self.stopping.set()


def write(api, namespace, number, ended, errors):
    """Creates, changes and deletes ten reports until it is told to end."""
    random_number = random.Random(number)
    path = path_of(POLR, namespace)
    exists = set()
    try:
        while not ended.is_set():
            name = f"w{number}-{random_number.randrange(10)}"
            if name not in exists:
                answer = api.post(path, report(name, namespace, results=[{"policy": "p", "message": ODD}]))
                exists.add(name)
            elif random_number.random() < 0.3:
                answer = api.delete(f"{path}/{name}")
                exists.remove(name)
            else:
                patch = {"metadata": {"annotations": {"odd": ODD + str(random_number.random())}}}
                answer = api.patch(f"{path}/{name}", patch)
            assert answer.code in (200, 201), answer
    except Exception as error:  # shown by the test
        errors.append(error)


@pytest.mark.parametrize("breaks", BREAKS)
def test_informers_that_read_lines(stack, ns, breaks):
    """
    W-01, W-02, W-05, W-11, W-40: every line is one event for any reader of lines, whatever characters are in strings;
    an informer that watches for two seconds at a time, through two proxies, ends with the objects of a list.
    """
    informers = [LineInformer(proxy.api(), ns, BREAKS[breaks]) for proxy in (stack.first, stack.second)]
    ended, errors = threading.Event(), []
    writers = [threading.Thread(target=write, args=(proxy.api(keep=True), ns, number, ended, errors))
               for number, proxy in enumerate((stack.first, stack.second) * 2)]
    for writer in writers:
        writer.start()
    try:
        until(lambda: errors or any(informer.failure for informer in informers) or
              all(informer.watches >= 3 for informer in informers), 60, "three watches of each informer")
    finally:
        ended.set()
        for writer in writers:
            writer.join(30)
    assert not errors, errors
    listed = {item["metadata"]["name"]: item for item in stack.first.api().get(path_of(POLR, ns)).json["items"]}
    for informer in informers:
        until(lambda informer=informer: informer.failure or informer.objects == listed, 30,
              "the informer's state to be the list")
        informer.stop()
        assert informer.failure is None, informer.failure
    assert any(item["results"][0]["message"] == ODD for item in listed.values())


def test_websocket_is_answered_by_a_watch(stack, api, ns):
    """
    W-70, W-01: the request for a WebSocket is an ordinary watch with code 200, which fabric8 takes as the sign to watch
    over HTTP.
    """
    created = api.create(POLR, report("r", ns), ns)
    connection = api.connect(timeout=30)
    query = urllib.parse.urlencode({"watch": "true",
                                    "resourceVersion": str(int(created["metadata"]["resourceVersion"]) - 1)})
    connection.request("GET", path_of(POLR, ns) + "?" + query,
                       headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
                                "Origin": f"https://127.0.0.1:{stack.first.port}"})
    response = connection.getresponse()
    assert response.status == 200
    assert response.headers.get("Upgrade") is None
    event = json.loads(response.readline())
    assert (event["type"], event["object"]) == ("ADDED", created)
    connection.close()


def test_refusal_of_a_websocket_is_a_status(api, ns):
    """W-06: the answer that refuses a WebSocket is a Status, which fabric8 shows."""
    connection = api.connect(timeout=30)
    connection.request("GET", path_of(POLR, ns) + "?watch=true&resourceVersion=odd",
                       headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="})
    response = connection.getresponse()
    assert status_of(Answer(response, response.read()))["code"] == 400
    connection.close()


def test_line_ends_inside_strings(api, ns):
    """
    W-02: U+2028 and U+2029 are escaped in documents, lists and events, as Go's encoding/json does; clients read the
    same characters.
    """
    created = api.create(POLR, report("r", ns,
                                      results=[{"policy": "p", "message": ODD, "properties": {"k\u2028": "\u2029"}}]),
                         ns)
    assert created["results"][0]["message"] == ODD
    for answer in (api.get(path_of(POLR, ns, "r")), api.get(path_of(POLR, ns))):
        assert "\u2028".encode() not in answer.body and "\u2029".encode() not in answer.body
        assert b"\\u2028d\\u2029e" in answer.body
    assert api.get(path_of(POLR, ns, "r")).json == created
