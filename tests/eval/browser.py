"""Chromium without a window, spoken to over a pipe in its DevTools protocol; nothing but the browser is needed."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

AXE = Path(__file__).resolve().parents[1] / "node_modules/axe-core/axe.min.js"
"""Where ``npm install --prefix tests`` puts the rules of accessibility."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The browser that CHROMIUM names, or the first one on the path; empty where there is none."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")


class Browser:
    """One page in a browser; what it asks of the network and complains of is kept."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def descriptors() -> None:  # Chromium reads file 3 and writes file 4
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        self._process = subprocess.Popen(
            [chromium(), *options, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=descriptors, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._held, self._number, self._session = b"", 0, ""
        self._events: list[Any] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        targets = self("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if str(answer.get("method")).startswith("Browser.download"):
                self._events.append(answer)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._held:
            part = os.read(self._read, 1 << 16)
            assert part, "the browser has ended"
            self._held += part
        message, _, self._held = self._held.partition(b"\0")
        event = json.loads(message)
        parameters = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
            self.complaints.append(json.dumps(parameters))
        return event

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Load a file in a window of this many CSS pixels."""
        self(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self("Page.navigate", url=page.absolute().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def scheme(self, name: str) -> None:
        """Ask for pages for the day (``light``) or the night (``dark``)."""
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def press(self, key: str, held: int = 0) -> None:
        """Press a key and let it go; ``held`` is 1 for Alt, 2 for Ctrl, 4 for Meta."""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}.get(key)
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        keys = {"key": key, "code": key, "windowsVirtualKeyCode": code or ord(key.upper()), "modifiers": held}
        self("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **keys, **text)
        self("Input.dispatchKeyEvent", type="keyUp", **keys)

    def type(self, text: str) -> None:
        """Write into the field that has the focus."""
        self("Input.insertText", text=text)

    def downloaded(self, folder: Path, cause: Callable[[], None]) -> Path:
        """Return the file that ``cause`` makes the page save into a folder."""
        page, self._session = self._session, ""
        self("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)
        self._session = page
        cause()
        while True:
            event = self._events.pop(0) if self._events else self._next()
            if event.get("method") == "Browser.downloadWillBegin":
                name = event["params"]["suggestedFilename"]
            if event.get("params", {}).get("state") == "completed":
                return folder / name

    def press_until(self, script: str, most: int = 200) -> None:
        """Press Tab until a JavaScript expression is true."""
        for _ in range(most):
            self.press("Tab")
            if self.value(script):
                return
        raise AssertionError(f"{most} times Tab, and never {script}")

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression, or of the promise it gives."""
        found = self("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, path: Path) -> None:
        """Save the whole page as PNG."""
        # Its size is that of the frame last drawn: what was folded since may still make it too large to save.
        self.value("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))")
        shot = self("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def broken_rules(self) -> dict[str, list[str]]:
        """Unfold the page and return the rules that axe-core finds broken, good practice too, with what breaks them."""
        self.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        self.value(AXE.read_text(encoding="utf-8") + ";0")
        report = json.loads(self.value("axe.run(document).then(r => JSON.stringify(r))"))
        assert len(report["passes"]) > 10
        return {v["id"]: [n["html"][:160] for n in v["nodes"][:3]] for v in report["violations"]}

    def wide_without_a_hint(self) -> list[str]:
        """Return the boxes, all folds open, that are wider than their place and do not say so."""
        self.value("document.querySelectorAll('details').forEach(d => d.open = true)")
        self.value("new Promise(done => setTimeout(done, 100))")
        return list(
            self.value(
                "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1 && "
                "!getComputedStyle(e, '::before').content.includes('swipe')).map(e => e.ariaLabel)"
            )
        )

    def flaws(self, page: Path) -> list[Any]:
        """Return what is wrong with a page on telephones, tablets and screens, by day and by night."""
        found: list[Any] = []
        for width, scheme in itertools.product((390, 768, 1280), ("light", "dark")):
            self.scheme(scheme)
            self.open(page, width)
            fits = self.value("document.documentElement.scrollWidth <= window.innerWidth")
            wrong = [
                self.broken_rules(),
                self.wide_without_a_hint(),
                [] if fits else ["wider than the window"],
            ]
            found += [(width, scheme, each) for each in wrong if each]
        return found + self.complaints

    def paper(self, path: Path) -> None:
        """Save the page as printed."""
        path.write_bytes(base64.b64decode(self("Page.printToPDF", preferCSSPageSize=False)["data"]))

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
