"""Readers: watchers that disconnect and resume, listers, getters."""

import http.client
import queue

from client import PARTIAL, PARTIAL_LIST, path_of
from world import LANES, NAMES, NAMESPACES, SELECTORS, now, state_of


class Watcher:
    """Watches a lane or a namespace of it; disconnects at random and resumes from its last version, at any proxy."""

    def __init__(self, apis, records, rng):
        self.apis = apis
        self.records = records
        self.rng = rng

    def run(self, stop):
        while not stop.is_set():
            rng = self.rng
            self.lane = rng.choice(LANES)
            self.namespace = rng.choice((None, None, *NAMESPACES))
            self.selector = rng.choice(SELECTORS)
            self.accept = rng.choice(("application/json", PARTIAL))
            position = self.listed() if rng.random() < 0.4 else None
            for _ in range(rng.randint(2, 12)):
                if stop.is_set():
                    break
                position = self.stream(position, stop)
                # Sometimes the watcher stays away for long: the log may no longer have its version.
                stop.wait(rng.choice((0, 0, 0, 0, 0.2, 3)))

    def listed(self):
        try:
            answer = self.rng.choice(self.apis).get(path_of(self.lane, self.namespace), limit="1")
            return int(answer.json["metadata"]["resourceVersion"]) if answer.code == 200 else None
        except (OSError, http.client.HTTPException):
            return None

    def stream(self, position, stop):
        """Reads one stream; returns the version at which the next stream may resume, or None."""
        rng = self.rng
        # The proxy sends a bookmark before it ends a stream; the watcher reads until its own time is over.
        query = {"timeoutSeconds": rng.choice(("600", "2", "3", "4"))}
        starting = position is None
        resumed = position
        if starting:
            query.update(sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
        else:
            query["resourceVersion"] = str(position)
            if rng.random() < 0.6:
                query["allowWatchBookmarks"] = "true"
        if self.selector:
            query["labelSelector"] = self.selector
        initial, events, bookmarks = [], [], []
        code, ended, begun = 0, "broken", now()
        try:
            with rng.choice(self.apis).watch(path_of(self.lane, self.namespace), self.accept, **query) as watch:
                code = watch.code
                deadline = now() + int(rng.uniform(0.05, 4) * 1e9)
                while code == 200 and not stop.is_set() and now() < deadline:
                    try:
                        frame = watch.frames.get(timeout=0.1)
                    except queue.Empty:
                        continue
                    if frame is watch.ENDED:
                        ended = "clean" if watch.error is None else "cut"
                        break
                    if frame["type"] == "ERROR":
                        ended = f"error {frame['object']['code']}"
                        break
                    if frame["type"] == "BOOKMARK":
                        metadata = frame["object"]["metadata"]
                        position = int(metadata["resourceVersion"])
                        bookmarks.append([len(events), position])
                        if "k8s.io/initial-events-end" in metadata.get("annotations", {}):
                            starting = False
                            resumed = position
                        continue
                    version, key, nonce = state_of(frame["object"])
                    (initial if starting else events).append([frame["type"], version, key, nonce])
                    if not starting:
                        position = version
        except (OSError, http.client.HTTPException):
            pass
        self.records.write("watch", lane=self.lane, namespace=self.namespace, selector=self.selector,
                           begun=begun, ended=now(),
                           code=code, end=ended, resumed=resumed, initial_events="sendInitialEvents" in query,
                           started=not starting, initial=initial, events=events, bookmarks=bookmarks)
        return None if starting or ended.startswith("error") else position


class Lister:
    """Sends lists, whole or in pages, of the present or an earlier version; and gets of single objects."""

    def __init__(self, apis, records, rng):
        self.apis = apis
        self.records = records
        self.rng = rng
        self.versions = {lane: [] for lane in LANES}

    def run(self, stop):
        while not stop.is_set():
            if self.rng.random() < 0.3:
                self.get()
            else:
                self.list(stop)

    def get(self):
        rng = self.rng
        lane, namespace, name = rng.choice(LANES), rng.choice(NAMESPACES), rng.choice(NAMES)
        begun = now()
        code, state = 0, None
        try:
            answer = rng.choice(self.apis).get(path_of(lane, namespace, name))
            code = answer.code
            if code == 200:
                state = state_of(answer.json)
        except (OSError, http.client.HTTPException):
            pass
        self.records.write("get", lane=lane, key=f"{namespace}/{name}", begun=begun, ended=now(),
                           code=code, state=state)

    def list(self, stop):
        rng = self.rng
        lane, namespace, selector = rng.choice(LANES), rng.choice((None, None, *NAMESPACES)), rng.choice(SELECTORS)
        query, match = {}, "recent"
        if selector:
            query["labelSelector"] = selector
        if self.versions[lane] and rng.random() < 0.5:
            match = rng.choice(("Exact", "Exact", "NotOlderThan"))
            query.update(resourceVersion=str(rng.choice(self.versions[lane])), resourceVersionMatch=match)
        if rng.random() < 0.6:
            query["limit"] = str(rng.choice((1, 3, 10, 40)))
        asked = int(query.get("resourceVersion", 0))
        first = True
        items, version, begun = [], None, now()
        outcome, code = "broken", 0
        page_begun = begun
        try:
            while not stop.is_set():
                page_begun = now()
                answer = rng.choice(self.apis).get(path_of(lane, namespace),
                                                   accept=rng.choice(("application/json", PARTIAL_LIST)), **query)
                code = answer.code
                if code != 200:
                    outcome = "refused"
                    break
                page = answer.json
                if first:
                    version = int(page["metadata"]["resourceVersion"])
                    first = False
                elif int(page["metadata"]["resourceVersion"]) != version:
                    outcome = "another version"
                    break
                items += [state_of(item) for item in page["items"]]
                token = page["metadata"].get("continue")
                if not token:
                    outcome = "whole"
                    break
                if limit_broken(query, page["items"]):
                    outcome = "page too short"
                    break
                query = {key: value for key, value in query.items() if not key.startswith("resourceVersion")}
                query["continue"] = token
                stop.wait(rng.choice((0, 0, 0, 0.05, 0.4)))
        except (OSError, http.client.HTTPException):
            pass
        if version is not None:
            remembered = self.versions[lane]
            remembered.append(version)
            if len(remembered) > 200:
                # Keep some old versions, so that the floor passes them.
                del remembered[rng.randrange(len(remembered))]
        self.records.write("list", lane=lane, namespace=namespace, selector=selector, match=match,
                           asked=asked, begun=begun,
                           page_begun=page_begun, ended=now(), code=code, outcome=outcome, version=version, items=items)


def limit_broken(query, items):
    return "limit" in query and len(items) != int(query["limit"])
