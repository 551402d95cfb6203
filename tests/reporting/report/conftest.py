"""A folder of bin/reproduce, the page that bin/report makes of it, and a browser to look at it.

The browser is a headless Chromium, driven through its DevTools protocol: JSON messages that end with NUL, over two pipes.
"""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ncl_tf.paper import tables
from ncl_tf.paper.plan import Plan
from ncl_tf.paper.reproduce import write_table

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60  # for any answer; a loaded machine starts a browser slowly


def program() -> str | None:
    """Path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One window with one page.

    Attributes:
        problems: what the console, the page or its policy complained about.
        requests: the address of everything that was asked for.
    """

    def __init__(self) -> None:
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        (their_in, self._out), (self._in, their_out) = os.pipe(), os.pipe()
        # Away from 3 and 4, the numbers that the browser wants them to have.
        their_in, their_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (their_in, their_out))

        def place() -> None:
            os.dup2(their_in, 3)
            os.dup2(their_out, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "--hide-scrollbars", "about:blank"]
        self.process = subprocess.Popen(
            [program(), *flags], preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(their_in), os.close(their_out)
        self._buffer, self._number, self._session = b"", 0, None
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """Ends the browser."""
        self._session = None
        self._send("Browser.close", {})
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._in), os.close(self._out)
        self.profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and gives its result."""
        number = self._send(method, parameters)
        while (message := self._receive()).get("id") != number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def open(self, page: pathlib.Path, fragment: str = "") -> None:
        """Loads a file and waits until it is there."""
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri() + fragment)
        while not self._loaded:
            self._receive()

    def size(self, width: int, height: int) -> None:
        """Of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name: str) -> None:
        """What the system prefers: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def press(self, key: str, code: int = 0, text: str = "") -> None:
        """Presses and releases a key, by its DOM name."""
        for kind in ("keyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, top: float, width: float, height: float) -> bytes:
        """PNG of a part of the page."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self) -> dict[str, Any]:
        """The next message; events are noted."""
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, *_ = select.select([self._in], [], [], max(0, until - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError(f"the browser is silent (exit code {self.process.poll()})")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if note := EVENTS.get(message.get("method", "")):
            note(self, message["params"])
        return message


def _load(browser: Browser, _: dict[str, Any]) -> None:
    browser._loaded = True


EVENTS: dict[str, Callable[[Browser, dict[str, Any]], None]] = {
    "Page.loadEventFired": _load,
    "Network.requestWillBeSent": lambda browser, event: browser.requests.append(event["request"]["url"]),
    "Runtime.exceptionThrown": lambda browser, event: browser.problems.append(str(event["exceptionDetails"])),
    "Runtime.consoleAPICalled": lambda browser, event: browser.problems.append(str(event["args"])),
    "Log.entryAdded": lambda browser, event: browser.problems.append(event["entry"]["text"]),
}


class Reported(NamedTuple):
    """A page and what it was made from.

    Attributes:
        folder: of bin/reproduce.
        single: one of its run directories, given as such, too.
        page: the file.
        printed: by the program.
    """

    folder: pathlib.Path
    single: pathlib.Path
    page: pathlib.Path
    printed: str


@pytest.fixture(scope="session")
def reproduced(
    trained_run: pathlib.Path, ward_cohort: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """What bin/reproduce leaves: NCL(n_w) with two seeds and CL with one, by an MLP head.

    To save time, all three are copies of one run, with other metrics.
    """
    table = tables.load_table("physionet2019").narrowed(["cl", "ncl_w"], ["mlp"])
    folder = tmp_path_factory.mktemp("report") / "ward_smoke"
    plan = Plan(table, str(ward_cohort), "smoke", 2, output=str(folder))
    plan.open()
    for name, seed, factor in (("ncl_w-seed1111", 1111, 1), ("ncl_w-seed2222", 2222, 0.8), ("cl-seed1111", 1111, 0.7)):
        copy = shutil.copytree(trained_run, folder / "runs" / name, ignore=shutil.ignore_patterns("*-val*"))
        record, evaluation = copy / "run.json", copy / "evaluations" / "sepsis-mlp.json"
        record.write_text(record.read_text(encoding="utf-8").replace("1111", str(seed)), encoding="utf-8")
        content = json.loads(evaluation.read_text(encoding="utf-8"))
        content["metrics"] = {metric: factor * value for metric, value in content["metrics"].items()}
        evaluation.write_text(json.dumps(content), encoding="utf-8")
    write_table(plan)
    return folder


@pytest.fixture(scope="session")
def reported(reproduced: pathlib.Path, run: Callable) -> Reported:
    """The page, made as users make it."""
    single, page = reproduced / "runs" / "ncl_w-seed1111", reproduced.parent / "pages" / "report.html"
    done = run("bin/report", f"--runs={reproduced}", f"--runs={single}", f"--output={page}")
    assert done.returncode == 0, done.stderr
    return Reported(reproduced, single, page, done.stdout)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser; tests that need it skip where there is none."""
    if program() is None:
        pytest.skip(f"no browser: none of {', '.join(PROGRAMS)} is installed (Debian: apt-get install chromium)")
    browser = Browser()
    yield browser
    browser.close()
