"""A link with a latency between a proxy and its database, and how often a request of the proxy waited for it."""

import ctypes
import multiprocessing
import queue
import socket
import threading
import time

CHUNK = 256 * 1024


class Relay:
    """
    A process that takes connections at a port of its own and passes them on to a server's socket, every byte later by
    the latency, in both directions.
    """

    def __init__(self, database, latency):
        self.target = f"{database.directory}/.s.PGSQL.5432"
        self.latency = latency
        # Of each statement in marks: how often its connection began to speak after the server had.
        self.trips = multiprocessing.Value(ctypes.c_long, 0)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.process = multiprocessing.get_context("fork").Process(target=self.serve, daemon=True)
        self.process.start()

    def end(self):
        self.process.terminate()
        self.process.join()
        self.listener.close()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.target)
            link = Link(self, client, server)
            for source, sink, outward in ((client, server, True), (server, client, False)):
                delayed = queue.SimpleQueue()
                threading.Thread(target=link.read, args=(source, delayed, outward), daemon=True).start()
                threading.Thread(target=link.write, args=(sink, delayed), daemon=True).start()


class Link:
    """One connection."""

    # Texts of statements that writes call, in either variant: only the connections that have them count.
    MARKS = (b"api_write(", b"api_load(", b"api_commit(")

    def __init__(self, relay, client, server):
        self.relay = relay
        self.ends = (client, server)
        self.answered = True
        self.writes = False

    def read(self, source, delayed, outward):
        while True:
            try:
                chunk = source.recv(CHUNK)
            except OSError:
                chunk = b""
            delayed.put((time.monotonic() + self.relay.latency, chunk))
            if not chunk:
                return
            if outward:
                self.writes = self.writes or any(mark in chunk for mark in self.MARKS)
                if self.answered and self.writes:
                    with self.relay.trips.get_lock():
                        self.relay.trips.value += 1
            self.answered = not outward

    def write(self, sink, delayed):
        while True:
            due, chunk = delayed.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                if not chunk:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(chunk)
            except OSError:
                return
