"""What `.ci/mutants.py` puts into the processes that run tests: modules with mutants in the place of the real ones.

Python imports this at the start of a process whose ``PYTHONPATH`` names this folder, so that a program that a test
starts has the mutants too. ``XLING_PLANTED`` names a folder with ``plan.json``: module -> its text with mutants, both
as paths.
"""

import builtins
import importlib.machinery
import json
import os
import sys

PLAN, ACTIVE, TEST = "XLING_PLANTED", "XLING_PLANTED_ACTIVE", "XLING_PLANTED_TEST"
_hits: set[tuple[str, int]] = set()


def plant(folder: str) -> None:
    """Read the modules of a plan with their mutants, none of which is active yet."""
    loader = importlib.machinery.SourceFileLoader
    plan = json.loads(loader("plan", folder).get_data(f"{folder}/plan.json"))
    get_data, path_stats = loader.get_data, loader.path_stats

    def is_planned(path: str) -> bool:
        return path.endswith(".py") and os.path.realpath(path) in plan

    def data_of(self: importlib.machinery.SourceFileLoader, path: str) -> bytes:
        return get_data(self, plan[os.path.realpath(path)] if is_planned(path) else path)

    def stats_of(self: importlib.machinery.SourceFileLoader, path: str) -> object:
        if is_planned(path):
            raise OSError("code with mutants is not kept")
        return path_stats(self, path)

    for name, function in (("get_data", data_of), ("path_stats", stats_of)):
        setattr(loader, name, function)
    activate(int(os.environ.get(ACTIVE, "-1")))


def activate(number: int) -> None:
    """From now on one mutant takes effect in this process and in those that it starts; -1 notes which are reached."""
    os.environ[ACTIVE] = str(number)
    if number >= 0:
        vars(builtins)["__mutant__"] = lambda other: other == number
        return
    file = os.open(f"{os.environ[PLAN]}/hits", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(other: int) -> bool:
        hit = (os.environ.get(TEST, ""), other)
        if hit not in _hits:
            _hits.add(hit)
            os.write(file, f"{other}\t{hit[0]}\n".encode())
        return False

    vars(builtins)["__mutant__"] = note


if PLAN in os.environ and "mutants" not in sys.modules:
    plant(os.environ[PLAN])
