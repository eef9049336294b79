"""Writes the built-in list of adult and gambling sites from a checkout of Sinfonietta/hostfiles (MIT).

Run:  python -m benchmarks.sites CHECKOUT corpora/builtin/blocked_sites.npz
"""

from __future__ import annotations

import sys
from pathlib import Path

from xling.corpora.builtin import blocked_sites

FILES = {"adult": "pornography-hosts", "gambling": "gambling-hosts"}


def domains(path: Path) -> list[str]:
    """Return the domains of a hosts file, without ``www.``."""
    rows = (line.partition("#")[0].split() for line in path.read_text(encoding="utf-8").splitlines())
    return [row[1].removeprefix("www.") for row in rows if len(row) == 2 and "." in row[1]]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    blocked_sites.save(Path(sys.argv[2]), {kind: domains(folder / name) for kind, name in FILES.items()})
