"""Run a module as if the trial files lay in the folders of the package: ``with_trial_files.py MODULE ARGS``.

Several command lines of xling, with a ``+`` between them, run one after the other up to the first that fails.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from pathlib import Path

FOLDERS = {
    "parts": "xling.models.parts",
    "objectives": "xling.objectives",
    "stages": "xling.corpora.stages",
    "filters": "xling.corpora.parallel.filters",
    "sources": "xling.corpora.sources",
    "pairs": "xling.corpora.parallel.sources",
    "kinds": "xling.eval.kinds",
    "metrics": "xling.eval.metrics",
    "suites": "xling.eval.suites",
}

if __name__ == "__main__":
    os.environ["XLING_SHAPES"] = "0"  # those checks have to be there before any of xling
    trial = Path(__file__).parent / "trial"
    for folder, package in FOLDERS.items():
        if folder == "objectives" and not any("objectives" in word for word in sys.argv):
            continue  # they bring torch
        importlib.import_module(package).__path__.append(str(trial / folder))
    sys.argv = sys.argv[1:]
    while "+" in sys.argv:
        from xling import cli

        end = sys.argv.index("+")
        if code := cli.main(sys.argv[1:end]):
            sys.exit(code)
        sys.argv[1 : end + 1] = []
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
