"""Non-parallel text of two languages from two line-aligned files: ``xling corpus halves``.

The lines are divided by number into two disjoint halves. The first language keeps its side of one half, the
second its side of the other. A line whose text occurs more than once may still have its translation in the
other half: such lines are dropped. Before anything is published it is verified that no pair survives.

Source: Lample et al. 2018, section 4.1 (Multi30k-Task1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xling.array_types import Int64
from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.sampling import rng
from xling.core.settings.values import Pair
from xling.text.files import corpus_reader

STAGE = "corpus halves"


@dataclass(frozen=True)
class HalvesConfig:
    """Settings of ``xling corpus halves``.

    Attributes:
        pair: ``src-tgt``.
        files: the two line-aligned files, UTF-8 text or gzip.
        out: directory to publish: ``SRC.txt`` and ``TGT.txt``, a blank line after every line since each is a
            separate document, and the line numbers (from 1) as ``SRC.lines`` and ``TGT.lines``.
        cut: the first half of the file and the second (``order``), or a random draw (``random``).
        seed: seed of the draw.
    """

    pair: Pair
    files: tuple[str, ...]
    out: str
    cut: str = "order"
    seed: int = 1


def run(cfg: HalvesConfig) -> manifest.Manifest:
    """Cut parallel text into two halves that share no sentence, and publish them.

    Raises:
        UserError: an unknown language, files that are missing or of unequal length, a side without text.
    """
    langs = split_pair(cfg.pair)
    for lang in langs:
        languages.get(lang)
    if len(cfg.files) != 2:
        raise UserError(f"files: {len(cfg.files)} given", "the two sides of the pair", "files=SRC,TGT")
    if cfg.cut not in ("order", "random"):
        raise UserError(f"cut={cfg.cut}", "order or random")
    out, paths = Path(cfg.out), [Path(name) for name in cfg.files]
    if done := manifest.up_to_date(out, STAGE, cfg, paths):
        return done
    side_lines = [read_side(path) for path in paths]
    kept_lines = halves(side_lines[0], side_lines[1], cfg.seed if cfg.cut == "random" else None)
    check_disjoint(side_lines[0], side_lines[1], *kept_lines)
    with manifest.publish(out, STAGE, cfg, paths) as publication:
        for lang, side, numbers in zip(langs, side_lines, kept_lines, strict=True):
            text = "".join(f"{side[i]}\n\n" for i in numbers)  # each line is a separate document
            (publication.path / f"{lang}.txt").write_text(text, encoding="utf-8")
            (publication.path / f"{lang}.lines").write_text(
                "".join(f"{i + 1}\n" for i in numbers), encoding="utf-8"
            )
            publication.counts[lang] = {"lines": len(numbers)}
        publication.counts["pairs"] = len(side_lines[0])
        publication.counts["left_out"] = sum(bool(a and b) for a, b in zip(*side_lines, strict=True)) - sum(
            map(len, kept_lines)
        )
    return manifest.read(out)


def read_side(path: Path) -> list[str]:
    """Return the stripped lines of one side; inner blanks are kept.

    Raises:
        UserError: there is no such file, it is damaged or not UTF-8, or it is empty.
    """
    if not path.is_file():
        raise UserError(f"no file at {path}", fix="check the path")
    lines = [line.strip() for line in corpus_reader.read_lines(path)]
    if not any(lines):
        raise UserError(f"{path} holds no text", "one sentence a line")
    return lines


def halves(
    src_lines: Sequence[str], tgt_lines: Sequence[str], seed: int | None
) -> tuple[Int64[np.ndarray, " first"], Int64[np.ndarray, " second"]]:
    """Return line numbers, from 0, that each side keeps: int64 (n,) and (m,), ascending.

    Args:
        src_lines, tgt_lines: line-aligned; a line that is empty on either side is left out.
        seed: of the draw; None for the first half and the second.

    Raises:
        UserError: the sides differ in length, or nothing is left of one.
    """
    if len(src_lines) != len(tgt_lines):
        raise UserError(
            f"files= have {len(src_lines):,} and {len(tgt_lines):,} lines",
            "files with equal line counts, line n of one translating line n of the other",
            "check that both belong together",
        )
    usable = np.array([i for i in range(len(src_lines)) if src_lines[i] and tgt_lines[i]], dtype=np.int64)
    if seed is not None:
        usable = rng(seed, "halves").permutation(usable)
    first_kept, second_kept = np.sort(usable[: len(usable) // 2]), np.sort(usable[len(usable) // 2 :])
    kept_texts = {src_lines[i] for i in first_kept}
    # No translation of a sentence on the first side, from any line, may be on the second.
    translations = {tgt_lines[i] for i in range(len(src_lines)) if src_lines[i] in kept_texts}
    second_kept = second_kept[[tgt_lines[i] not in translations for i in second_kept]]
    if not len(first_kept) or not len(second_kept):
        raise UserError(
            f"of {len(src_lines):,} lines, {len(first_kept):,} are left on the first side and "
            f"{len(second_kept):,} on the second",
            "at least one on each",
            "give more text, or text with fewer repeated sentences",
        )
    return first_kept, second_kept


def check_disjoint(
    src_lines: Sequence[str],
    tgt_lines: Sequence[str],
    first_kept: Int64[np.ndarray, " first"],
    second_kept: Int64[np.ndarray, " second"],
) -> None:
    """Make sure that no pair survives in two sets of line numbers: neither by number nor by text.

    Raises:
        UserError: one does.
    """
    if len(in_both := np.intersect1d(first_kept, second_kept)):
        raise UserError(f"line {in_both[0] + 1} is in both halves ({len(in_both)} in all)", "disjoint halves")
    texts = {src_lines[i] for i in first_kept}, {tgt_lines[i] for i in second_kept}
    leaks = [i for i in range(len(src_lines)) if src_lines[i] in texts[0] and tgt_lines[i] in texts[1]]
    if leaks:
        raise UserError(
            f"the pair of line {leaks[0] + 1} survives ({len(leaks)} in all): {src_lines[leaks[0]][:60]!r}",
            "no pair with both sides in the halves",
        )
