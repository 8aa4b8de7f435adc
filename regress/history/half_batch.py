"""Clients of PostgreSQL's protocol that send a batch like a worker of the proxy, and disconnect too early."""

import json
import socket
import struct

CALL = (b"CALL kube_reports_internal.api_write($1::uuid, $2::text[]::jsonb[], $3::bytea[], false,"
        b" NULL, NULL, NULL, NULL, NULL, NULL)")
OID_TEXT, OID_BYTEA = 25, 17


def message(kind, *parts):
    body = b"".join(parts)
    return kind + struct.pack("!i", len(body) + 4) + body


def counted(value):
    return struct.pack("!i", len(value)) + value


def array(element_type, values):
    """A one-dimensional array in binary form."""
    return struct.pack("!iiiii", 1, 0, element_type, len(values), 1) + b"".join(counted(value) for value in values)


class Session:
    """A connection that uses the extended protocol."""

    def __init__(self, directory, user, database):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        try:
            self.socket.connect(f"{directory}/.s.PGSQL.5432")
            parameters = b"user\0%s\0database\0%s\0\0" % (user.encode(), database.encode())
            self.socket.sendall(struct.pack("!ii", len(parameters) + 8, 3 << 16) + parameters)
            self.pid = None
            while (answer := self.receive())[0] != b"Z":
                if answer[0] == b"K":
                    self.pid = struct.unpack("!i", answer[1][:4])[0]
                if answer[0] == b"E":
                    raise OSError(f"refused: {answer[1]!r}")
        except BaseException:
            self.socket.close()
            raise

    def receive(self):
        """Returns the next message: (kind, body)."""
        head = self._exactly(5)
        return head[:1], self._exactly(struct.unpack("!i", head[1:])[0] - 4)

    def _exactly(self, count):
        found = b""
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            if not piece:
                raise OSError("the server has closed the connection")
            found += piece
        return found

    def send_batch(self, cluster, requests, documents, ending):
        """Sends Parse, Bind and Execute; ending: b"S" for Sync, b"H" for Flush, b"" for nothing."""
        texts = [json.dumps(request).encode() for request in requests]
        bodies = [json.dumps(document).encode() for document in documents]
        parameters = (cluster.encode(), array(OID_TEXT, texts), array(OID_BYTEA, bodies))
        self.socket.sendall(
            message(b"P", b"\0", CALL, b"\0", struct.pack("!h", 0)) +
            message(b"B", b"\0\0", struct.pack("!hhhh", 3, 0, 1, 1), struct.pack("!h", 3),
                    *(counted(value) for value in parameters), struct.pack("!hh", 1, 1)) +
            message(b"E", b"\0", struct.pack("!i", 0)) +
            (message(ending) if ending else b""))

    def wait_executed(self):
        """Waits for the end of Execute; True when the batch was done, False when it failed."""
        while (kind := self.receive()[0]) not in (b"C", b"E"):
            pass
        return kind == b"C"

    def die(self):
        self.socket.close()
