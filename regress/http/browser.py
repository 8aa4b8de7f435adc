"""A headless Chromium, controlled through chromedriver by WebDriver."""

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

from client import until
from conftest import free_port

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-device-scale-factor=1",
             "--window-size=1280,1000")


class Browser:
    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="kube-reports-browser-")
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        try:
            until(self.listens, 20, "chromedriver to listen")
            answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
                "goog:chromeOptions": {"args": [*ARGUMENTS, f"--user-data-dir={self.profile}"]}}}})
            self.session = "/session/" + answer["sessionId"]
        except BaseException:
            self.end()
            raise

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.address + path, method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:1000]}") from None

    def listens(self):
        try:
            return self.ask("GET", "/status")["ready"]
        except OSError:
            return False

    def protocol(self, command, **parameters):
        """Sends a command of the DevTools protocol."""
        return self.ask("POST", f"{self.session}/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, scheme="light", medium="screen"):
        """Sets the width of the window, the color scheme and the medium."""
        self.protocol("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1,
                      mobile=width < 600)
        self.protocol("Emulation.setEmulatedMedia", media=medium,
                      features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address):
        self.ask("POST", f"{self.session}/url", {"url": address})

    def run(self, script, *arguments):
        """Runs a function with this body in the page; returns its result."""
        return self.ask("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind):
        """Returns the new lines of a log: browser (console and errors) or performance (events of the protocol)."""
        return self.ask("POST", f"{self.session}/se/log", {"type": kind})

    def requests(self):
        """Returns the addresses that were requested since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def picture(self, width, height):
        """Returns the upper left part of the page, as PNG."""
        return base64.b64decode(self.protocol("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                                              clip={"x": 0, "y": 0, "width": width, "height": height,
                                                    "scale": 1})["data"])

    def end(self):
        try:
            if hasattr(self, "session"):
                self.ask("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            shutil.rmtree(self.profile, ignore_errors=True)
