"""`xling push` against a server on this machine that speaks the Hub's interface."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from xling import cli
from xling.core.output import manifest

# The Hub's client calls its HTTP library in an old way.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


class Hub:
    """What the server holds and what it should do wrong."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.private: bool | None = None
        self.token = ""
        self.refuses = self.forgets = False

    def answer(self, path: str, body: bytes, address: str) -> tuple[int, Any]:
        self.asked.append(path)
        if self.refuses:
            return 401, {"error": "Invalid username or password."}
        if path == "/api/repos/create":
            told = json.loads(body)
            self.private = told.get("private", told.get("visibility") == "private")
            owner = told.get("organization") or "me"
            return 200, {"url": f"{address}/{owner}/{told['name']}", "name": f"{owner}/{told['name']}"}
        if "/preupload/" in path:
            files = json.loads(body)["files"]
            modes = [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular",
                 "shouldIgnore": False}
                for f in files
            ]  # fmt: skip
            return 200, {"files": modes}
        if path.endswith("/info/lfs/objects/batch"):
            wanted = json.loads(body)["objects"]
            actions = [
                {
                    **each,
                    "authenticated": True,
                    "actions": {"upload": {"href": f"{address}/store/{each['oid']}"}},
                }
                for each in wanted
            ]
            return 200, {"transfer": "basic", "objects": actions}
        if path.startswith("/store/"):
            self.objects[path.removeprefix("/store/")] = body
            return 200, {}
        if "/commit/" in path:
            self.commit(body)
            url = f"{address}/me/model/commit/c0ffee"
            return 200, {"commitOid": "c0ffee", "commitUrl": url, "success": True, "hookOutput": ""}
        if "/tree/" in path:
            names = sorted(self.files)[1:] if self.forgets else sorted(self.files)
            return 200, [
                {"type": "file", "path": name, "oid": "0", "size": len(self.files[name])} for name in names
            ]
        return 404, {"error": f"nothing at {path}"}

    def commit(self, body: bytes) -> None:
        for line in body.splitlines():
            told = json.loads(line)
            if told["key"] == "file":
                self.files[told["value"]["path"]] = base64.b64decode(told["value"]["content"])
            elif told["key"] == "lfsFile":
                content = self.objects[told["value"]["oid"]]
                assert hashlib.sha256(content).hexdigest() == told["value"]["oid"]
                self.files[told["value"]["path"]] = content


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Hub, str]]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            state.token = self.headers.get("Authorization") or state.token
            address = f"http://{self.headers['Host']}"
            code, content = state.answer(self.path.partition("?")[0], self.rfile.read(length), address)
            text = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PUT = do_POST  # noqa: N815 - names of http.server

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    yield state, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def export(tmp_path: Path) -> Path:
    out = tmp_path / "export"
    with manifest.publish(out, "export hf", {"checkpoint": "/secret/place"}) as made:
        (made.path / "model.safetensors").write_bytes(bytes(range(256)) * 40)
        (made.path / "config.json").write_text("{}")
        (made.path / "2_Pooling").mkdir()
        (made.path / "2_Pooling" / "config.json").write_text("{}")
    return out


def test_all_files_arrive_but_the_record_of_this_machine(
    hub: tuple[Hub, str], export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, address = hub
    words = ["push", str(export), "me/model", f"endpoint={address}", "private=true"]
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["commit"] == "c0ffee" and told["repo"] == "me/model"
    assert (
        set(state.files)
        == {"model.safetensors", "config.json", "2_Pooling/config.json"}
        == set(told["files"])
    )
    for name, content in state.files.items():
        assert (export / name).read_bytes() == content
    assert state.token == "Bearer hf_test" and state.private
    assert state.objects  # the weights went as a large file
    assert cli.main(words) == 0  # again: a second commit of the same files


def test_what_goes_wrong_is_one_line_with_a_fix(
    hub: tuple[Hub, str], export: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, address = hub

    def said(*words: str) -> str:
        assert cli.main(["push", *words]) == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("xling: ")]
        assert len(lines) == 1
        return lines[0]

    state.refuses = True
    assert "the hub refused: Client error '401" in (
        line := said(str(export), "me/model", f"endpoint={address}")
    ), line
    assert "HF_TOKEN" in line
    state.refuses, state.forgets = False, True
    assert "has no 2_Pooling/config.json after the upload" in said(
        str(export), "me/model", f"endpoint={address}"
    )
    assert "cannot be reached" in said(str(export), "me/model", "endpoint=http://127.0.0.1:9")
    state.asked.clear()
    assert "NAME or OWNER/NAME" in said(str(export), "a/b/c", f"endpoint={address}")
    (export / "config.json").write_text("{ }")
    assert "config.json has 3 bytes" in said(str(export), "me/model", f"endpoint={address}")
    other = export.with_name("other")
    with manifest.publish(other, "vocab", {}):
        pass
    assert "was made by 'vocab'" in said(str(other), "me/model", f"endpoint={address}")
    assert not state.asked
