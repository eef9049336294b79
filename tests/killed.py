"""A command that SIGKILL ends at many moments and that is called again until it ends by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests import forked, hostile

# Every attempt is a fork of one process that started no thread. It is killed before (odd) or after (even) its n-th
# rename, and n is another one each time. What an attempt has imported, the next ones have from the beginning. An import
# may start a thread, whose lock a fork then holds for ever. So one attempt may hang: its stack is printed, it is ended.
_ATTEMPTS = """
import faulthandler, gc, importlib, os, pathlib, signal, sys, tempfile, traceback
from contextlib import suppress
from xling import cli

moments, stride, (modules, out, calm), words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:6], sys.argv[6:]
for module in modules.split(","):
    name, _, loads = module.partition(":")
    found = importlib.import_module(name)
    if loads:
        getattr(found, loads)()
imported = tempfile.NamedTemporaryFile("w+")
ATTEMPT_S = 200
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

def die():
    imported.seek(0)
    print(*sys.modules, file=imported, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def run(dies_at):
    count = 0
    def deadly(real):
        def call(*args):
            nonlocal count
            count += 1
            if count == dies_at and dies_at % 2:
                die()
            result = real(*args)
            if count == dies_at:
                die()
            return result
        return call
    pathlib.Path.rename, pathlib.Path.replace = deadly(pathlib.Path.rename), deadly(pathlib.Path.replace)
    return cli.main(words)

def fork(dies_at):
    gc.collect()
    gc.freeze()  # else each fork copies the pages that its garbage collector looks at
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        faulthandler.enable()
        code = 99
        try:
            code = run(dies_at)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if signal.sigtimedwait({signal.SIGCHLD}, ATTEMPT_S) is None:
            os.kill(child, signal.SIGABRT)  # faulthandler prints the stack
    return os.waitstatus_to_exitcode(ended[1])

if out:
    if code := fork(0):
        sys.exit(f"undisturbed it ended with {code}")
    os.rename(out, calm)
num_hangs = 0
for attempt in range(200):
    code = fork(attempt % moments * stride + 2)
    num_hangs += code == -signal.SIGABRT
    if code != -signal.SIGKILL and not (code == -signal.SIGABRT and num_hangs == 1):
        print(f"{code} {attempt}")
        break
    imported.seek(0)
    for name in imported.read().split():
        with suppress(Exception):
            importlib.import_module(name)
"""


def attempts(
    words: Sequence[str], modules: str, moments: int, stride: int = 1, calm: tuple[Path, Path] | None = None
) -> tuple[int, int]:
    """Run a command until it is not killed; the exit code and how often it was killed.

    The first attempt dies at its second rename, each later one ``stride`` renames later, ``moments`` times a round.
    ``modules`` are imported once for all attempts, with commas between them; ``module:function`` is called, too.
    With ``calm`` the command first runs undisturbed, and its output, the first path, is renamed to the second.
    """
    paths = [str(path) for path in calm or ("", "")]
    ended = forked.run("-c", _ATTEMPTS, str(moments), str(stride), modules, *paths, *words, timeout=850)
    assert ended.returncode == 0, ended.stderr[-4000:]
    code, deaths = ended.stdout.splitlines()[-1].split()
    hostile.attempt(int(deaths))
    return int(code), int(deaths)
