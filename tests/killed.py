"""A command that SIGKILL ends at many moments and that is called again until it ends by itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

# Every attempt is a fork of one process that has imported everything and started no thread. It is killed before (odd)
# or after (even) its n-th rename, and n is another one each time.
_ATTEMPTS = """
import importlib, os, pathlib, signal, sys, traceback
from xling import cli

moments, modules, words = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
for module in modules.split(","):
    importlib.import_module(module)

def run(dies_at):
    count = 0
    def deadly(real):
        def call(*args):
            nonlocal count
            count += 1
            if count == dies_at and dies_at % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*args)
            if count == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result
        return call
    pathlib.Path.rename, pathlib.Path.replace = deadly(pathlib.Path.rename), deadly(pathlib.Path.replace)
    return cli.main(words)

for attempt in range(200):
    child = os.fork()
    if not child:
        code = 99
        try:
            code = run(attempt % moments + 2 if moments else 0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != -signal.SIGKILL:
        print(f"{code} {attempt}")
        break
"""


def attempts(words: Sequence[str], modules: str, moments: int = 0) -> tuple[int, int]:
    """Run a command until it is not killed, or once without ``moments``; the exit code and how often it was killed.

    ``modules`` are imported once for all attempts, with commas between them.
    """
    command = [sys.executable, "-c", _ATTEMPTS, str(moments), modules, *words]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    code, deaths = ended.stdout.splitlines()[-1].split()
    return int(code), int(deaths)
