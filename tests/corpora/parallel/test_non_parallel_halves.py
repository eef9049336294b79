"""Non-parallel halves of line-aligned files: no pair survives, and a planted one is found."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.corpora.parallel.non_parallel_halves import HalvesConfig, check_disjoint, halves, run

SIDES = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), min_size=8, max_size=40)


@given(SIDES, st.one_of(st.none(), st.integers(0, 9)))
def test_no_pair_survives_even_where_lines_repeat(rows: list[tuple[str, str]], seed: int | None) -> None:
    first, second = (list(side) for side in zip(*rows, strict=True))
    try:
        mine, theirs = halves(first, second, seed)
    except UserError:  # nothing was left of a side
        return
    check_disjoint(first, second, mine, theirs)
    assert not set(mine) & set(theirs)


def test_a_planted_leak_is_found() -> None:
    first, second = [f"a{i}" for i in range(10)], [f"b{i}" for i in range(10)]
    mine, theirs = halves(first, second, None)
    assert mine.tolist() == [0, 1, 2, 3, 4] and theirs.tolist() == [5, 6, 7, 8, 9]
    with pytest.raises(UserError, match="line 4 is in both halves"):
        check_disjoint(first, second, mine, np.append(theirs, 3))
    second[7] = "b3"  # the translation of line 4, by another line
    with pytest.raises(UserError, match="pair of line 4 survives"):
        check_disjoint(first, second, mine, theirs)


def test_it_publishes_both_sides_with_their_line_numbers(tmp_path: Path) -> None:
    for name in ("en", "fr"):
        (tmp_path / name).write_text("".join(f"{name} {i}\n" for i in range(7)), encoding="utf-8")
    cfg = HalvesConfig("en-fr", (f"{tmp_path}/en", f"{tmp_path}/fr"), f"{tmp_path}/out")
    made = run(cfg)
    assert (tmp_path / "out/en.txt").read_text() == "en 0\n\nen 1\n\nen 2\n\n"
    assert (tmp_path / "out/fr.lines").read_text() == "4\n5\n6\n7\n"
    assert made.counts["left_out"] == 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    (tmp_path / "en").write_text("a\nb\n")
    (tmp_path / "fr").write_text("\n\n")
    files = (f"{tmp_path}/en", f"{tmp_path}/fr")
    with pytest.raises(UserError, match="holds no text"):
        run(HalvesConfig("en-fr", files, f"{tmp_path}/out"))
    (tmp_path / "fr").write_bytes("é".encode("latin-1"))
    with pytest.raises(UserError, match="line 1: byte 0xe9 at 0 is not UTF-8"):
        run(HalvesConfig("en-fr", files, f"{tmp_path}/out"))
    with pytest.raises(UserError, match="two different languages"):
        run(HalvesConfig("en-en", files, f"{tmp_path}/out"))
    (tmp_path / "fr").write_text("c\n")
    with pytest.raises(UserError, match="files= have 2 and 1 lines"):
        run(HalvesConfig("en-fr", files, f"{tmp_path}/out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.data
def test_the_captions_of_multi30k_are_cut_without_a_surviving_pair(tmp_path: Path) -> None:
    data = Path(os.environ["XLING_DATA"]) / "multi30k"
    files = tuple(str(next(data.glob(f"train.{lang}*"))) for lang in ("en", "fr"))
    made = run(HalvesConfig("en-fr", files, f"{tmp_path}/out"))
    assert made.counts["en"]["lines"] == 14_500 and 14_400 < made.counts["fr"]["lines"] <= 14_500
