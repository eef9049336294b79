"""Texts and corpora as the later stages read them back, whatever they are stored as and however damaged."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard

from xling.core.errors import UserError
from xling.text.files import corpus_reader

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
LINES = ["habari ya leo", "", "\u2028 si mwisho wa mstari", "neno\ufeff", "mwisho"]


@pytest.mark.parametrize("ending", PACK)
def test_lines_of_every_compression(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    for raw in ("\n".join(LINES), "\n".join(LINES) + "\n", "\ufeff" + "\r\n".join(LINES) + "\r\n"):
        path.write_bytes(PACK[ending](raw.encode()))
        assert list(corpus_reader.read_lines(path)) == LINES
    # The bytes say what it is, not the name.
    path.write_bytes(gzip.compress(b"moja\nmbili"))
    assert list(corpus_reader.read_lines(path)) == ["moja", "mbili"]


@pytest.mark.parametrize("ending", [e for e in PACK if e])
@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_damage_is_told_with_its_line(tmp_path: Path, ending: str, damage: str) -> None:
    path = tmp_path / f"a.txt{ending}"
    whole = PACK[ending]("".join(f"mstari wa {i * 7919 % 10_007}\n" for i in range(20_000)).encode())
    middle = len(whole) // 2
    path.write_bytes(
        whole[:middle] if damage == "cut" else whole[:middle] + b"\xff" * 64 + whole[middle + 64 :]
    )
    with pytest.raises(UserError, match=rf"a\.txt{ending}( after)? line \d+: .+"):
        list(corpus_reader.read_lines(path))


def test_a_corpus_without_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    pl.DataFrame({"src": ["a"], "tgt": ["b"]}).write_parquet(path)
    with pytest.raises(UserError, match="has the columns src, tgt; valid: a column text"):
        list(corpus_reader.read_documents([str(path)]))
    pl.DataFrame({"text": ["a", None]}).write_parquet(path)
    with pytest.raises(UserError, match="has rows without text"):
        list(corpus_reader.read_documents([str(path)]))
    path.write_bytes(b"PAR1 cut")
    with pytest.raises(UserError, match="a whole Parquet file"):
        list(corpus_reader.read_documents([str(path)]))


def test_a_device_and_a_pipe_are_refused_and_folders_of_a_glob_left_out(tmp_path: Path) -> None:
    """A device has no end, and a pipe cannot be read for its digest and then again."""
    os.mkfifo(tmp_path / "pipe")
    for given in ("/dev/full", str(tmp_path / "pipe")):
        with pytest.raises(UserError, match="is a device or a pipe; valid: a file"):
            corpus_reader.resolve_files([given])
    (tmp_path / "pipe").unlink()
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("text")
    assert corpus_reader.resolve_files([str(tmp_path / "*")]) == [tmp_path / "a.txt"]


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="Is a directory; valid: a file that you may read; fix: check the path"
    ):
        list(corpus_reader.read_lines(tmp_path))
