"""eflomal as a separate program, where it is installed; nothing of it is imported or shipped (it is GPLv3).

Source: Ostling and Tiedemann 2016; https://github.com/robertostling/eflomal.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.parallel.wordalign import symmetrise
from xling.corpora.parallel.wordalign.symmetrise import Link, parse_pharaoh

PROGRAM = "eflomal-align"


def align(
    src: Sequence[Sequence[str]], tgt: Sequence[Sequence[str]], join: str, program: str = PROGRAM
) -> list[set[Link]]:
    """Align sentence pairs with eflomal's defaults and join the directions; empty where a side is empty.

    Raises:
        UserError: the program is not installed or fails.
    """
    executable = shutil.which(program)
    if executable is None:
        raise UserError(
            f"{program} is not installed", "method=own", "pip install eflomal, or take method=own"
        )
    rows = [row for row, (a, b) in enumerate(zip(src, tgt, strict=True)) if a and b]
    links: list[set[Link]] = [set() for _ in src]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, sentences in (("src", src), ("tgt", tgt)):
            text = "".join(" ".join(sentences[row]) + "\n" for row in rows)
            (folder / side).write_text(text, encoding="utf-8")
        command = [executable, "-s", "src", "-t", "tgt", "-f", "forward", "-r", "backward", "--overwrite"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"{program} failed: {last}", fix="check its installation, or take method=own")
        sides = [(folder / side).read_text(encoding="utf-8").splitlines() for side in ("forward", "backward")]
    for row, forward, backward in zip(rows, *sides, strict=True):
        links[row] = symmetrise.METHODS[join](parse_pharaoh(forward), parse_pharaoh(backward))
    return links
