"""Clients that continue after every fault: writers that try again, watchers that resume or list again."""

import http.client
import socket
import threading
import time

from client import POLR, path_of, report

# Status codes after which a client tries again, as client-go does.
AGAIN = (429, 500, 502, 503, 504)


class Balancer:
    """A TCP balancer: each connection goes to a proxy that is ready, in turn."""

    def __init__(self, proxies):
        self.proxies = proxies
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.listener.getsockname()[1]
        self.ready = list(proxies)
        self.turn = 0
        self.ended = threading.Event()
        for work in (self._look, self._accept):
            threading.Thread(target=work, daemon=True).start()

    def _look(self):
        while not self.ended.wait(0.1):
            self.ready = [proxy for proxy in self.proxies if self._is_ready(proxy)]

    @staticmethod
    def _is_ready(proxy):
        connection = http.client.HTTPConnection("127.0.0.1", proxy.metrics_port, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _accept(self):
        while not self.ended.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            ready, self.turn = self.ready, self.turn + 1
            try:
                server = socket.create_connection(("127.0.0.1", ready[self.turn % len(ready)].port), timeout=5)
                server.settimeout(None)
            except (OSError, ZeroDivisionError):
                client.close()
                continue
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=(source, target), daemon=True).start()

    @staticmethod
    def _copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        self.ended.set()
        self.listener.close()


class Crew:
    """
    Writers and watchers of the policy reports of a namespace.  make_api: returns a client of one of the proxies.
    pace: the number of seconds between two writes of a writer.
    """

    def __init__(self, make_api, namespace, writers=3, watchers=3, pace=0.0):
        self.make_api = make_api
        self.path = path_of(POLR, namespace)
        self.namespace = namespace
        self.pace = pace
        self.stop = threading.Event()
        self.enough = threading.Event()     # writers end
        self.lock = threading.Lock()
        self.acknowledged = {}      # name: version
        self.write_gap = 0.0        # the longest time of a write, with all its attempts
        self.events = [[] for _ in range(watchers)]
        self.known = [{} for _ in range(watchers)]
        self.relists = [0] * watchers
        self.watch_gap = [0.0] * watchers
        self.failures = []
        self.threads = [threading.Thread(target=self._guard, args=(work, number), daemon=True)
                        for work, count in ((self._write, writers), (self._watch, watchers)) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def _guard(self, work, number):
        try:
            work(number)
        except Exception as error:  # end() shows it
            self.failures.append(repr(error))

    def _write(self, number):
        api, count = self.make_api(), 0
        while not self.enough.is_set():
            name, begun = f"w{number}-{count}", time.monotonic()
            while True:
                try:
                    answer = api.post(self.path, report(name), seconds=10)
                except (OSError, http.client.HTTPException):
                    api, answer = self.make_api(), None
                if answer is not None and answer.code not in AGAIN:
                    break
                if time.monotonic() - begun > 90:
                    raise AssertionError(f"{name} cannot be written: {answer}")
                time.sleep(0.02)
            # 409: an earlier attempt was stored, and its answer was lost.
            if answer.code not in (201, 409):
                raise AssertionError(f"{name}: {answer}")
            with self.lock:
                stored = answer.json["metadata"] if answer.code == 201 else None
                self.acknowledged[name] = stored and int(stored["resourceVersion"])
                self.write_gap = max(self.write_gap, time.monotonic() - begun)
            count += 1
            self.enough.wait(self.pace)

    def _list(self, number):
        while not self.stop.is_set():
            try:
                answer = self.make_api().get(self.path, seconds=10)
                if answer.code == 200:
                    items = answer.json["items"]
                    self.known[number] = {item["metadata"]["name"]: item["metadata"]["resourceVersion"]
                                          for item in items}
                    return answer.json["metadata"]["resourceVersion"]
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        return "0"

    def _watch(self, number):
        version, away_since = self._list(number), time.monotonic()
        while not self.stop.is_set():
            try:
                with self.make_api().watch(self.path, resourceVersion=version, allowWatchBookmarks="true") as watch:
                    if watch.code == 200:
                        self.watch_gap[number] = max(self.watch_gap[number], time.monotonic() - away_since)
                        version = self._follow(number, watch, version)
                        away_since = time.monotonic()
            except (OSError, http.client.HTTPException):
                pass
            if version is None:
                self.relists[number] += 1
                version = self._list(number)
            time.sleep(0.02)

    def _follow(self, number, watch, version):
        """Reads a watch; returns the version from which to resume, or None if the watcher has to list again."""
        while not self.stop.is_set():
            try:
                kind, document = watch.event(0.5)
            except AssertionError as error:
                if "no event" in str(error):
                    continue
                return version
            if kind == "ERROR":
                assert document["code"] == 410, document
                return None
            version = document["metadata"]["resourceVersion"]
            if kind == "BOOKMARK":
                continue
            name = document["metadata"]["name"]
            self.events[number].append((int(version), kind, name))
            if kind == "DELETED":
                self.known[number].pop(name, None)
            else:
                self.known[number][name] = version
        return version

    def written(self):
        with self.lock:
            return len(self.acknowledged)

    def names(self):
        """Returns the names of the stored objects, from any proxy that answers."""
        answer = self.make_api().get(self.path)
        assert answer.code == 200, answer
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in answer.json["items"]}

    def caught_up(self):
        """Returns whether every watcher knows exactly the stored objects."""
        stored = self.names()
        return all(known == stored for known in self.known)

    def end_writers(self):
        """Ends the writers; watchers continue."""
        self.enough.set()
        for thread in self.threads[:len(self.threads) - len(self.events)]:
            thread.join(100)
            assert not thread.is_alive(), "a writer hangs"
        assert self.failures == [], self.failures

    def end(self):
        self.enough.set()
        self.stop.set()
        for thread in self.threads:
            thread.join(100)
        assert self.failures == [], self.failures
