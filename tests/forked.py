"""Python in a process of its own without its start: a fork of a process that has imported torch and nothing of ours.

A child that imports torch spends most of its time there. `run` and `start` take the words after ``python``
(``-m MODULE``, ``-c CODE`` or a script), as `subprocess.run` and `subprocess.Popen` do. Paths, environment and exit
code are the same. A test of what is imported needs `subprocess`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

# A request starts a child, or asks how one ended, which the client has seen end.
_SERVER = """
import atexit, gc, importlib, json, os, runpy, signal, socket, sys, threading, traceback, types

given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
places = [place for place in sys.path if place and place not in given]
client = socket.socket(fileno=int(sys.argv[1]))
import torch
gc.collect()
gc.freeze()

def child(words, cwd, env, files):
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    paths = [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place]
    first = {"-m": cwd, "-c": ""}.get(words[0], os.path.dirname(os.path.abspath(words[0])))
    sys.path[:] = [first, *paths, *places]
    sys.argv = [words[0], *words[2:]] if words[0] == "-c" else words[words[0] == "-m" :]
    code = 0
    try:
        if words[0] == "-m":
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        elif words[0] == "-c":
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(words[1], main.__dict__)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code & 255)

while True:
    data, files, _, _ = socket.recv_fds(client, 1 << 22, 3)
    if not data:
        break
    request = json.loads(data)
    if "pid" in request:
        answer = os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1])
    else:
        answer = os.fork()
        if not answer:
            client.close()
            child(files=files, **request)
        for file in files:
            os.close(file)
    client.send(str(answer).encode())
"""


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for each in (ours, theirs):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
    _running.append(process)
    return ours


_running: list[subprocess.Popen[bytes]] = []


def close() -> None:
    """End the process that is forked, if there is one."""
    if _running:
        _server().close()
        _running.pop().wait()


class Process:
    """A child that runs; its output goes to files."""

    def __init__(self, words: tuple[str, ...], cwd: Path | None, env: Mapping[str, str] | None) -> None:
        self.args, self.returncode = words, None
        self._files: list[IO[str]] = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]  # noqa: SIM115
        request = {
            "words": words,
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        with Path(os.devnull).open() as nothing:
            handles = [nothing.fileno(), *(file.fileno() for file in self._files)]
            socket.send_fds(_server(), [json.dumps(request).encode()], handles)
        self.pid = int(_server().recv(64))
        self._ended = os.pidfd_open(self.pid)

    def poll(self, timeout: float = 0) -> int | None:
        """The exit code, or minus the signal; None while it runs."""
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            os.close(self._ended)
            _server().send(json.dumps({"pid": self.pid}).encode())
            self.returncode = int(_server().recv(64))
        return self.returncode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Its whole output once it has ended; it is killed when it takes longer."""
        if self.poll(timeout) is None:
            self.send_signal(signal.SIGKILL)
            self.poll(60)
            raise subprocess.TimeoutExpired(self.args, timeout)
        texts = []
        for file in self._files:
            with file:
                file.seek(0)
                texts.append(file.read())
        return texts[0], texts[1]


def start(*words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Process:
    """Start Python with these words."""
    return Process(words, cwd, env)


def run(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 280
) -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end."""
    process = start(*words, cwd=cwd, env=env)
    out, err = process.communicate(timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess(words, process.returncode, out, err)
