"""What a reader has to follow from the words of a command to a point in the code: files, functions and their lines.

Run:  python -m benchmarks.reading_path pretrain data=DIR out=DIR ...      # to the first step of the optimiser
      python -m benchmarks.reading_path --until PATH:FUNCTION corpus mono lang=sw source=text:FILE out=DIR

Every function of this repository that is called on the way counts once, with all of its lines. What runs while a module
is imported does not count, nor what other threads and processes call.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from xling import cli

ROOT = Path(__file__).resolve().parents[1]
FIRST_STEP = "xling/models/optim/adamw.py:step"


class Reached(BaseException):
    """The point of the code was reached."""


def is_importing(frame: FrameType | None) -> bool:
    """Return whether a module of the product is being imported, directly or not, by whom ``frame`` was called."""
    while frame := frame and frame.f_back:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "").startswith("xling"):
            return True
    return False


def path_of(words: list[str], until: str) -> dict[str, set[CodeType]]:
    """Run a command up to a function and return the functions that were called, by file.

    Args:
        words: the command without ``xling``.
        until: ``PATH:FUNCTION``, relative to the repository; empty for the whole command.
    """
    called: dict[str, set[CodeType]] = defaultdict(set)

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED or "<" in frame.f_code.co_name:
            return  # another event, a module or a class body, or a part of a function that counts itself
        path = Path(frame.f_code.co_filename).resolve()
        if not path.is_relative_to(ROOT) or ".venv" in path.parts or path == Path(__file__).resolve():
            return
        if is_importing(frame):
            return
        name = str(path.relative_to(ROOT))
        called[name].add(frame.f_code)
        if f"{name}:{frame.f_code.co_name}" == until:
            raise Reached

    try:
        threading.setprofile(None)  # type: ignore[arg-type]
        sys.setprofile(note)
        cli.main(words)
    except (Reached, SystemExit):
        pass
    finally:
        sys.setprofile(None)
    return called


def main() -> None:
    """Print the files on the way with their functions and lines, the longest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--until", default=FIRST_STEP)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    called = path_of(given.words, given.until)
    lines = {
        name: sum(len(inspect.getsourcelines(code)[0]) for code in codes) for name, codes in called.items()
    }
    for name in sorted(lines, key=lines.__getitem__, reverse=True):
        print(f"{lines[name]:5} {len(called[name]):4} {name}")
    print(f"{len(lines)} files, {sum(map(len, called.values()))} functions, {sum(lines.values())} lines")


if __name__ == "__main__":
    main()
