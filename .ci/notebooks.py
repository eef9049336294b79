"""Run the notebooks of ``docs/notebooks`` at a scale of seconds.

Run ``python .ci/notebooks.py`` to see whether they run, ``--write`` to keep their outputs in the files.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"


def main() -> None:
    """Run every notebook in a folder of its own; an exception in a cell ends the program with code 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the outputs in the files")
    parser.add_argument("names", nargs="*", help="notebooks without .ipynb; default: all")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    os.environ["OMP_NUM_THREADS"] = "1"
    paths = [FOLDER / f"{name}.ipynb" for name in options.names] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        started, before = time.monotonic(), os.times()
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XLING_CACHE"] = f"{folder}/cache"
            NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
        passed, busy = time.monotonic() - started, sum(os.times()[2:4]) - sum(before[2:4])
        print(f"{path.name}: {passed:.0f} s, {busy:.0f} of processor", flush=True)
        if options.write:
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)
                cell["outputs"] = [o for o in cell.get("outputs", []) if o.get("name") != "stderr"]
                if cell.cell_type != "code":
                    del cell["outputs"]
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
