"""
Many clients that misbehave, in a process of their own: crowd.py PORT CA KIND COUNT PATH [CERTIFICATE]

    body    sends 99 % of a body of 3 MB and stops; stops at once when an answer arrives
    tell    announces a body of 3 MB, sends a byte and stops
    drip    sends a body of 3 MB, a byte a second
    head    sends a head that does not end, a byte a second
    idle    makes a TLS connection and sends no request
    deaf    requests PATH and reads nothing of the answer

Prints a line "attached" when each client has sent as much as it can, and continues until its standard input ends.  Then
prints the number of answers with each code, and the number of connections that the server ended.
"""

import asyncio
import collections
import json
import socket
import ssl
import sys

BODY = 3000000
PIECE = b"x" * 65536
AT_A_TIME = 50


class Client(asyncio.Protocol):
    def __init__(self, crowd):
        self.crowd = crowd
        self.settled = crowd.loop.create_future()
        self.writable = asyncio.Event()
        self.writable.set()
        self.code = None
        self.lost = False

    def connection_made(self, transport):
        self.transport = transport
        if self.crowd.kind == "deaf":
            transport.pause_reading()
        self.task = self.crowd.loop.create_task(getattr(self, self.crowd.kind)())

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def data_received(self, data):
        if self.code is None:
            self.code = data[9:12].decode()
        self.settle()

    def connection_lost(self, error):
        self.lost = True
        self.writable.set()
        self.settle()

    def settle(self):
        if not self.settled.done():
            self.settled.set_result(True)

    def over(self):
        return self.lost or self.code is not None

    def send(self, text):
        if not self.over():
            self.transport.write(text)

    def begin(self, method="POST", more=""):
        self.send(f"{method} {self.crowd.path} HTTP/1.1\r\nHost: x\r\n{more}".encode())

    def begin_body(self):
        self.begin(more=f"Content-Type: application/json\r\nContent-Length: {BODY}\r\n\r\n")

    async def body(self):
        self.begin_body()
        left = BODY * 99 // 100
        while left > 0 and not self.over():
            await self.writable.wait()
            self.send(PIECE[:left])
            left -= len(PIECE)
            await asyncio.sleep(0)
        self.settle()

    async def tell(self):
        self.begin_body()
        self.send(b"x")
        self.settle()

    async def drip(self):
        self.begin_body()
        await self.bytes_by_the_second()

    async def head(self):
        self.begin(more="X-Long: ")
        await self.bytes_by_the_second()

    async def bytes_by_the_second(self):
        self.settle()
        while not self.over():
            self.send(b"x")
            await asyncio.sleep(1)

    async def idle(self):
        self.settle()

    async def deaf(self):
        self.begin("GET", "\r\n")
        self.settle()


class Crowd:
    def __init__(self, port, ca, kind, count, path, certificate=None):
        self.port, self.kind, self.count, self.path = int(port), kind, int(count), path
        self.context = ssl.create_default_context(cafile=ca)
        if certificate:
            self.context.load_cert_chain(certificate + ".crt", certificate + ".key")
        self.failed = 0

    async def connect(self, turn):
        async with turn:
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            try:
                await self.loop.sock_connect(sock, ("127.0.0.1", self.port))
                _, client = await self.loop.create_connection(lambda: Client(self), sock=sock, ssl=self.context,
                    server_hostname="127.0.0.1",
                                                              ssl_handshake_timeout=120)
            except OSError:
                # The server closed the connection during the handshake, to make room.
                sock.close()
                self.failed += 1
                return None
            await client.settled
            return client

    async def run(self):
        self.loop = asyncio.get_running_loop()
        turn = asyncio.Semaphore(AT_A_TIME)
        clients = await asyncio.gather(*(self.connect(turn) for _ in range(self.count)))
        clients = [client for client in clients if client is not None]
        print("attached", flush=True)
        await self.loop.run_in_executor(None, sys.stdin.read)
        codes = collections.Counter(client.code for client in clients if client.code)
        print(json.dumps({"codes": codes, "ended": self.failed + sum(client.lost for client in clients)}), flush=True)


if __name__ == "__main__":
    asyncio.run(Crowd(*sys.argv[1:]).run())
