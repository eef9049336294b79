"""Losses and gradients of every objective on this device against a CPU's, by the tests that compare them."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree

from benchmarks.gpu.common import Table, device

TESTS = tuple(f"tests/{name}.py" for name in ("objectives/test_devices", "models/test_kernels"))


def run(settings: dict[str, str]) -> None:
    """Run pytest and write a table of what its tests record.

    Raises:
        SystemExit: a test failed.
    """
    report = f"{os.environ.get('OUT', 'runs/gpu')}/parity.xml"
    words = [sys.executable, "-m", "pytest", "-q", *TESTS, f"--junitxml={report}", "-p", "no:cacheprovider"]
    words += ["--timeout=0", "-o", "addopts=--import-mode=importlib", "-W", "ignore", "--tb=short"]
    environment = {**os.environ, "XLING_DEVICE": device().type, "XLING_SHAPES": "0"}
    done = subprocess.run(words, env=environment, check=False)
    table = Table("parity", "losses and gradients against float32 on a CPU, relative differences")
    for case in ElementTree.parse(report).iter("testcase"):
        properties = {p.get("name", ""): p.get("value", "") for p in case.iter("property")}
        failed = case.find("failure") is not None or case.find("error") is not None
        outcome = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        table.add(test=case.get("name"), outcome=outcome, **properties)
    if done.returncode:
        sys.exit(f"parity: pytest ended with {done.returncode}")
