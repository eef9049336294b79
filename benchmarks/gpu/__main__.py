"""Stages of measurements on one device; `run.sh` beside this says how to call them."""

from __future__ import annotations

import importlib
import logging
import sys
import time
import warnings

import xling  # noqa: F401 - before fairseq, which then loads no more than is asked of it

STAGES = ("parity", "train", "transfer")


def main() -> None:
    """Run the stage that is named first; the other words are its settings, ``name=value``."""
    if len(sys.argv) < 2 or sys.argv[1] not in STAGES:
        sys.exit(f"{' '.join(sys.argv[1:]) or 'no stage'}: give one of {', '.join(STAGES)}")
    wrong = [word for word in sys.argv[2:] if "=" not in word]
    if wrong:
        sys.exit(f"{' '.join(wrong)}: settings are name=value")
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    settings = dict(word.split("=", 1) for word in sys.argv[2:])
    begin = time.perf_counter()
    importlib.import_module(f"benchmarks.gpu.{sys.argv[1]}").run(settings)
    print(f"{sys.argv[1]}: {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
