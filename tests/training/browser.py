#!/usr/bin/env python3
"""A page in a real browser: Chromium without a window, driven through a pair of pipes.

    tests/training/browser.py REPORT.html PICTURE.png [--width 390] [--dark]
"""

import argparse
import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60  # No wait is longer.
FLAGS = ("--headless", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-extensions",
         "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe")


def high_pipe():
    """Both ends above what the shell that starts Chromium moves to 3 and 4."""
    found = []
    for end in os.pipe():
        found.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return found


class Browser:
    """One Chromium and one page in it; problems are what the page did that it should not."""

    def __init__(self):
        program = shutil.which("chromium")
        if program is None:
            raise FileNotFoundError("no chromium in PATH: apt-get install chromium")
        self._folder = tempfile.mkdtemp()
        theirs_in, self._out = high_pipe()
        self._in, theirs_out = high_pipe()
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", program, *FLAGS,
             *root, f"--user-data-dir={self._folder}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._number, self._session = b"", 0, None
        self._events, self.problems = [], []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target,
                                      flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Page.bringToFront")  # A page in the background draws nothing.
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method, **arguments):
        self._number += 1
        number, message = self._number, {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda message: message.get("id") == number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, path, width=1280, height=900, dark=False, scripts=True):
        """Loads a file anew, on a screen this wide; problems begin anew, too."""
        self.problems = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 700)
        self.call("Emulation.setTouchEmulationEnabled", enabled=width < 700)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        if "Page.loadEventFired" not in self._events:
            self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, expression):
        """What an expression is in the page, as JSON has it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"]["description"])
        return result["result"].get("value")

    def pointer(self, kind, x, y):
        """kind: mouseMoved, mousePressed or mouseReleased; x and y on the screen."""
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def tap(self, x, y):
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path):
        """The whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                         clip={**size, "x": 0, "y": 0, "scale": 1})["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def _until(self, wanted):
        deadline = time.monotonic() + LIMIT_S
        while True:
            while b"\0" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\0")
                message = json.loads(line)
                self._watch(message.get("method", ""), message.get("params", {}))
                if wanted(message):
                    return message
            if not select.select([self._in], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"chromium did not answer within {LIMIT_S} s")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise ConnectionError("chromium has ended")
            self._buffer += data

    def _watch(self, method, params):
        if method == "Page.loadEventFired":
            self._events.append(method)
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", details).get("description", "exception"))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("warning", "error"):
            self.problems.append(f"console.{params['type']}")
        elif method == "Network.requestWillBeSent" and params.get("type") != "Document":
            self.problems.append(f"asked for {params['request']['url']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("page")
    parser.add_argument("picture")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    with Browser() as browser:
        browser.open(options.page, options.width, dark=options.dark)
        browser.picture(options.picture)
    for problem in browser.problems:
        print(f"browser: {problem}", file=sys.stderr)
    return 1 if browser.problems else 0


if __name__ == "__main__":
    sys.exit(main())
