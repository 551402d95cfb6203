"""A folder of bin/reproduce, the page that bin/report makes of it, and a browser to look at it.

The browser is a headless Chromium, driven through its DevTools protocol: JSON messages that end with NUL, over two pipes.
"""

import contextlib
import json
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
    """One window with one page."""

    def __init__(self) -> None:
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "--hide-scrollbars", "about:blank"]
        command = ["sh", "-c", 'exec "$@" 3<&0 4>&1 0</dev/null 1>&2', "sh", program(), *flags]  # it talks by 3 and 4
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "bufsize": 0}
        self.process = subprocess.Popen(command, **pipes)
        self._buffer, self._number, self._session, self._loaded = b"", 0, None, False
        self.problems: list[str] = []  # what the console, the page or its policy complained about
        self.requests: list[str] = []  # the address of everything that was asked for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """Ends the browser."""
        self._session = None
        self._send("Browser.close", {})
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.communicate()
        self.profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and gives its result."""
        number = self._send(method, parameters)
        while (message := self._receive()).get("id") != number:
            pass
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']['message']}")
        return message["result"]

    def open(self, page: pathlib.Path) -> None:
        """Loads a file and waits until it is there."""
        self._loaded = False
        self.call("Page.navigate", url=page.as_uri())
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

    def press(self, key: str, code: int) -> None:
        """Presses and releases a key, by its DOM name and number."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def point(self, x: float, y: float) -> None:
        """Moves the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": parameters, **session}
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        return self._number

    def _receive(self) -> dict[str, Any]:
        """The next message; events are noted."""
        until = time.monotonic() + SECONDS
        while b"\0" not in self._buffer:
            ready, *_ = select.select([self.process.stdout], [], [], max(0, until - time.monotonic()))
            if not (data := self.process.stdout.read(1 << 20) if ready else b""):
                raise RuntimeError(f"the browser is silent (exit code {self.process.poll()})")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if note := EVENTS.get(message.get("method", "")):
            note(self, message["params"])
        return message


EVENTS: dict[str, Callable[[Browser, dict[str, Any]], None]] = {
    "Page.loadEventFired": lambda browser, event: setattr(browser, "_loaded", True),
    "Network.requestWillBeSent": lambda browser, event: browser.requests.append(event["request"]["url"]),
    "Runtime.exceptionThrown": lambda browser, event: browser.problems.append(str(event["exceptionDetails"])),
    "Runtime.consoleAPICalled": lambda browser, event: browser.problems.append(str(event["args"])),
    "Log.entryAdded": lambda browser, event: browser.problems.append(event["entry"]["text"]),
}


class Reported(NamedTuple):
    """A page and what it was made from."""

    folder: pathlib.Path  # of bin/reproduce
    single: pathlib.Path  # one of its run directories, given as such, too
    page: pathlib.Path
    printed: str  # by the program


@pytest.fixture(scope="session")
def reproduced(trained_run: pathlib.Path, ward_cohort: pathlib.Path, tmp_path_factory) -> pathlib.Path:
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
