"""When the wall clock jumps, no connection ends and no client waits."""

import email.utils
import json
import pathlib
import struct
import time

import pytest

from client import POLR, path_of, report, run, until
from test_http2 import Http2

JUMP = 150


@pytest.fixture
def clock(stack, tmp_path_factory):
    """A proxy whose wall clock differs from the true time by the seconds of set()."""
    directory = pathlib.Path(stack.pki)
    library, offset = directory / "clock_jump.so", directory / "clock_offset"
    run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(pathlib.Path(__file__).with_name("clock_jump.c"))])
    offset.write_bytes(struct.pack("q", 0))
    offset.chmod(0o644)
    library.chmod(0o755)

    class Clock:
        proxy = stack.proxy(flags=["--http2", "--workers=1"],
                            under=["env", f"LD_PRELOAD={library}", f"CLOCK_OFFSET_FILE={offset}"])

        def set(self, seconds):
            """Sets the difference; returns when answers have shown it for four seconds, a few turns of the loop."""
            with open(offset, "r+b") as file:
                file.write(struct.pack("q", seconds))
            api = self.proxy.api()

            def shown():
                date = email.utils.parsedate_to_datetime(api.get("/livez").headers["Date"]).timestamp()
                return abs(date - time.time() - seconds) < 30
            until(shown, 20, "the time of answers")
            ticks = time.monotonic() + 4
            until(lambda: api.get("/livez").code == 200 and time.monotonic() > ticks, 20, "some turns of the loop")
    return Clock()


def test_jumps(clock, ns):
    """
    TR-03, W-01: the clock jumps by two and a half minutes, forward and back: idle connections, slow bodies, watches and
    streams go on, and new connections are served at once
    """
    proxy = clock.proxy
    api = proxy.api(keep=True)
    assert api.create(POLR, report("r0"), ns)
    address = api.connection.sock.getsockname()
    watch = api.watch(path_of(POLR, ns))
    watch.expect(("ADDED", "r0"))
    streams = Http2(proxy)
    assert streams.answer(streams.request("/version"))[0] == 200
    for number, seconds in enumerate((JUMP, 0), 1):
        body = json.dumps(report(f"r{number}")).encode()
        slow = proxy.api().connect()
        slow.putrequest("POST", path_of(POLR, ns))
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", str(len(body)))
        slow.endheaders(body[:10])
        clock.set(seconds)
        slow.send(body[10:])
        assert slow.getresponse().status == 201
        slow.close()
        watch.expect(("ADDED", f"r{number}"))
        assert api.get("/version").code == 200 and api.connection.sock.getsockname() == address
        assert streams.answer(streams.request("/version"))[0] == 200
        newcomer = Http2(proxy)
        assert newcomer.answer(newcomer.request("/version"))[0] == 200
        newcomer.close()
    streams.close()
    watch.close()
