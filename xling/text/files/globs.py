"""Files that a path or a glob names, also where a folder's own name looks like a glob."""

import re
from pathlib import Path

from xling.text.files.compressed import KIND_OF_SUFFIX

_OF_EDITORS = re.compile(r"~\$.*|.*~|#.*#")  # locks of Word, copies and unsaved files of Emacs and others


def matching_files(pattern: str) -> list[Path]:
    """Return the files that ``pattern`` names, sorted.

    Folders that exist are taken by their names, so the ``[2024]`` of ``news [2024]/*.txt`` stands for itself.
    As in a shell, ``*`` names no hidden file; nor does it name locks and copies of editors.
    """
    path = Path(pattern)
    if path.is_file():
        return [path]
    folder = Path(path.anchor or ".")
    parts = list(path.parts[1 if path.anchor else 0 :])
    while len(parts) > 1 and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    shows_hidden = bool(parts) and parts[-1].startswith(".")
    matches = folder.glob("/".join(parts)) if parts else ()
    named = (each for each in matches if each.is_file() and not _OF_EDITORS.fullmatch(each.name))
    return sorted(each for each in named if shows_hidden or not each.name.startswith("."))


def path_and_field(rest: str) -> tuple[str, str]:
    """Return the path of a URI and what stands behind its ``#``, a sign that the name of a file may have too."""
    parts = rest.split("#")
    names = ("#".join(parts[:number]) for number in range(1, len(parts) + 1))
    path = next((name for name in names if Path(name).is_file()), parts[0])
    return path, rest[len(path) + 1 :]


def plain_name(name: str) -> str:
    """Return a file's name without its ending of compression."""
    for ending in KIND_OF_SUFFIX:
        name = name.removesuffix(ending)
    return name
