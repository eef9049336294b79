"""What a reader has to follow from the words of a command to a point in the code: files, functions, their lines.

It also counts the way of the settings. A stop is a call, in another file than the last, of a function that is given
the dataclass of the command's settings, or a plan: a dataclass that has it as a field. A return is a stop in a file
that was left before. A call with a piece of the settings is no stop.

Run:  python -m benchmarks.reading_path pretrain data=DIR out=DIR ...      # to the first step of the optimiser
      python -m benchmarks.reading_path --until PATH:FUNCTION corpus mono lang=sw source=text:FILE out=DIR

Every function of this repository that is called on the way counts once, with all of its lines. What runs while a module
of the product or of a library is imported does not count, nor what other threads and processes call.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import threading
from collections import defaultdict
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from xling import cli
from xling.core.commands.runner import load

ROOT = Path(__file__).resolve().parents[1]
FIRST_STEP = "xling/models/optim/adamw.py:step"


class Reached(BaseException):
    """The point of the code was reached."""


@cache
def name_of(file: str) -> str:
    """Return the path of a file of this repository, relative to it; empty for others, and for this one."""
    path = Path(file).resolve()
    is_ours = (
        "<" not in file
        and path.is_relative_to(ROOT)
        and ".venv" not in path.parts
        and path != Path(__file__).resolve()
    )
    return str(path.relative_to(ROOT)) if is_ours else ""


def is_importing(frame: FrameType | None) -> bool:
    """Return whether ``frame`` was called, directly or not, by the import of a module."""
    while frame := frame and frame.f_back:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
    return False


def holds_settings(value: Any, settings: type) -> bool:
    """Return whether a value is the settings of a command, or a dataclass that has them as a field."""
    if not is_dataclass(value) or isinstance(value, type):
        return False
    return isinstance(value, settings) or any(
        isinstance(getattr(value, each.name, None), settings) for each in fields(value)
    )


def path_of(words: list[str], until: str) -> tuple[dict[str, set[CodeType]], list[str]]:
    """Run a command up to a function; return the functions that were called, by file, and the settings' stops.

    Args:
        words: the command without ``xling``.
        until: ``PATH:FUNCTION``, relative to the repository; empty for the whole command.
    """
    called: dict[str, set[CodeType]] = defaultdict(set)
    stops: list[str] = []
    settings = load(cli.find_stage(words)[0].config)

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not frame.f_code.co_flags & inspect.CO_OPTIMIZED or "<" in frame.f_code.co_name:
            return  # another event, a module or a class body, or a part of a function that counts itself
        name = name_of(frame.f_code.co_filename)
        if not name or is_importing(frame):
            return
        called[name].add(frame.f_code)
        if stops[-1:] != [name] and any(holds_settings(each, settings) for each in frame.f_locals.values()):
            stops.append(name)
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
    return called, stops


def num_lines(code: CodeType) -> int:
    """Return the number of lines of a function, its decorators included."""
    return 1 + max(line for *_, line in code.co_lines() if line) - code.co_firstlineno


def main() -> None:
    """Print the files on the way with their functions and lines, the longest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--until", default=FIRST_STEP)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    called, stops = path_of(arguments.words, arguments.until)
    lines = {name: sum(num_lines(code) for code in codes) for name, codes in called.items()}
    for name in sorted(lines, key=lines.__getitem__, reverse=True):
        print(f"{lines[name]:5} {len(called[name]):4} {name}")
    print(f"settings: {len(stops)} stops, {len(stops) - len(set(stops))} returns: {', '.join(stops)}")
    print(f"{len(lines)} files, {sum(map(len, called.values()))} functions, {sum(lines.values())} lines")


if __name__ == "__main__":
    main()
