"""Files of a finished output that a later command writes again, such as a card to which it adds a section."""

from collections.abc import Iterable
from pathlib import Path

from xling.core.output import digests, manifest


def amend(directory: Path, names: Iterable[str]) -> None:
    """Record the files of a finished output that were written again.

    What was made from the output stays up to date: its identity is that of the files as they were published. Without
    a manifest nothing is recorded.
    """
    if not (directory / manifest.FILE_NAME).is_file():
        return
    published = manifest.read(directory)
    for name in names:
        path = directory / name
        published.amended[name] = {"bytes": path.stat().st_size, "sha256": digests.of_file(path)}
    manifest.write(directory, published)
