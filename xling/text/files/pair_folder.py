"""Folders of `xling corpus pairs`: sentence pairs of one language with many, and the text of each of them.

Layout: ``SRC-TGT/train.SRC`` and ``SRC-TGT/train.TGT``, line-aligned, and ``source.txt``, the lines of the source
language of all pairs, each once.
"""

from pathlib import Path

from xling.core.errors import UserError
from xling.core.languages import split_pair

SOURCE_FILE = "source.txt"


def pairs_of(folder: str) -> dict[str, tuple[str, ...]]:
    """Return the folder of each pair, by its name.

    Raises:
        UserError: the folder has none.
    """
    folders: dict[str, tuple[str, ...]] = {
        path.name: (str(path),) for path in sorted(Path(folder).glob("*-*")) if path.is_dir()
    }
    if not folders or not (Path(folder) / SOURCE_FILE).is_file():
        raise UserError(f"no sentence pairs in {folder}", "an output of xling corpus pairs")
    return folders


def texts_of(folder: str) -> dict[str, tuple[str, ...]]:
    """Return the files with the text of each language.

    Raises:
        UserError: as `pairs_of`.
    """
    texts: dict[str, tuple[str, ...]] = {}
    for pair in pairs_of(folder):
        src, tgt = split_pair(pair)
        texts[src] = (str(Path(folder) / SOURCE_FILE),)
        texts[tgt] = (str(Path(folder) / pair / f"train.{tgt}"),)
    return texts
