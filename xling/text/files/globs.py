"""Files that a path or a glob names, also where a folder's own name looks like a glob."""

from pathlib import Path

from xling.text.files.compressed import KIND_OF_SUFFIX


def matching_files(pattern: str) -> list[Path]:
    """Return the files that ``pattern`` names, sorted.

    Folders that exist are taken by their names, so the ``[2024]`` of ``news [2024]/*.txt`` stands for itself.
    As in a shell, ``*`` names no hidden file.
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
    return sorted(
        each for each in matches if each.is_file() and (shows_hidden or not each.name.startswith("."))
    )


def plain_name(name: str) -> str:
    """Return a file's name without its ending of compression."""
    for ending in KIND_OF_SUFFIX:
        name = name.removesuffix(ending)
    return name
