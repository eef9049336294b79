"""``xling analyse grid``: a table of many small runs, a row for each cell of a sweep, and which claims hold.

A run is a folder ``CELL-SEED``. Its numbers are those of ``xling pretrain``, ``xling analyse pair``, ``xling analyse
bits`` and ``xling eval`` in folders below it. Means are over seeds, with intervals by Student's t; a claim compares two
cells in one column, paired by seed.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import numpy as np

from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.eval.rows.suite import suites
from xling.eval.scores import score_file
from xling.pages import tabular
from xling.pages.tabular import Cell, Table
from xling.papers.pair import held_out_losses, score

STAGE = "analyse grid"
SCORE = "score"
"""The column of claims that name none."""
BITS = "bits "
"""Begin of the names of columns of bits a character, where less is better."""
LOSS = "loss"
"""The column of held-out losses in nats a piece, where less is better: means over languages."""

Run = dict[str, float]
"""Column -> number, of one run."""


@dataclass(frozen=True)
class GridConfig:
    """Settings of ``xling analyse grid``.

    Attributes:
        runs: folder with a folder ``CELL-SEED`` for each run, in which outputs of ``xling analyse pair``, ``xling
            analyse bits`` and ``xling eval`` are found.
        out: directory to publish: ``grid.md``, ``grid.csv`` and ``claims.md``.
        base: the cell that claims compare with.
        claims: name -> parts with ``|`` between. First ``CELL``, or ``CELL,OTHER`` in place of ``base``. Then
            ``lower``, ``higher`` or ``same``, and a column if it is not ``score``. Then what is claimed and by whom.
            Last, if it is known, the number that they give.
        margin: points within which two cells are the same; of bits a character and of losses a hundredth of it.
    """

    runs: Path
    out: Path
    base: str = "original"
    claims: dict[str, str] = field(default_factory=dict)
    margin: float = 5.0


@dataclass(frozen=True)
class Claim:
    """A claim as read: two cells, what is said of their difference in a column, a sentence, and its authors' number."""

    cell: str
    other: str
    kind: str
    column: str
    text: str
    number: str


def run(cfg: GridConfig) -> Answer:
    """Gather the runs into a table of cells and one of claims, and publish both.

    Raises:
        UserError: no run there, or a claim that cannot be read.
    """
    inputs: list[Path] = []
    cells: dict[str, dict[str, Run]] = {}
    for folder in sorted(cfg.runs.glob("*-*")):
        outputs, columns = read(folder)
        name, _, seed = folder.name.rpartition("-")
        if outputs:
            cells.setdefault(name, {})[seed] = columns
            inputs += outputs
    if not cells:
        raise UserError(
            f"runs={cfg.runs} holds no analysis",
            "a folder with CELL-SEED/pair, each written by xling analyse pair, or of analyse bits and eval",
            "run xling analyse pair first, or check the path",
        )
    claims = [claim(name, said, cfg.base, cells) for name, said in cfg.claims.items()]
    if not manifest.up_to_date(cfg.out, STAGE, cfg, inputs, replaceable=True):
        tables = [_grid(cells, claims), _claims(cfg, claims, cells)]
        with manifest.publish(cfg.out, STAGE, cfg, inputs) as output:
            for each in tables:
                (output.path / f"{each.name}.md").write_text(tabular.to_markdown(each), encoding="utf-8")
                (output.path / f"{each.name}.csv").write_text(tabular.to_csv(each), encoding="utf-8")
            output.counts |= {"runs": sum(map(len, cells.values())), "cells": len(cells)}
    text = "\n".join((cfg.out / f"{name}.md").read_text(encoding="utf-8") for name in ("grid", "claims"))
    return Answer(text.rstrip(), {"cells": {name: [*runs.values()] for name, runs in cells.items()}})


def read(folder: Path) -> tuple[list[Path], Run]:
    """Return the finished outputs below the folder of a run that have numbers, and the numbers."""
    outputs, columns = [], Run()
    for path in sorted(folder.glob(f"*/{manifest.FILE_NAME}")) + sorted(
        folder.glob(f"*/*/{manifest.FILE_NAME}")
    ):
        place = path.parent
        if reader := READERS.get(manifest.read(place).stage):
            outputs.append(place)
            columns |= dict(reader(place))
    return outputs, columns


def _of_pair(place: Path) -> Iterator[tuple[str, float]]:
    facts = json.loads((place / "pair.json").read_text(encoding="utf-8"))
    yield SCORE, score(facts)
    yield "random", score(facts, "random")
    for m in facts["measured"]:
        if m["system"] == "pretrained":
            where = "" if m["layer"] < 0 else " 0" if m["layer"] == 0 else " deep"
            yield m["measure"] + where, m["value"]


def _of_training(place: Path) -> Iterator[tuple[str, float]]:
    if losses := held_out_losses(manifest.read(place)).values():
        yield LOSS, float(np.mean([*losses]))


def _of_bits(place: Path) -> Iterator[tuple[str, float]]:
    facts = json.loads((place / "bits.json").read_text(encoding="utf-8"))
    for lang, told in facts.items():
        yield f"{BITS}{lang}", told["bits"]


def _of_eval(place: Path) -> Iterator[tuple[str, float]]:
    """Means over languages and seeds of the suite's main metric; controls have their name behind it."""
    values: dict[str, list[float]] = {}
    for each in score_file.read_scores(place / "scores.json"):
        if each.metric == suites()[each.suite].metric:
            system = f" {each.system}" if each.system in score_file.CONTROLS else ""
            values.setdefault(f"{place.parent.name} {each.suite}{system}", []).append(each.value)
    for name, every in values.items():
        yield name, float(np.mean(every))


READERS: Mapping[str, Callable[[Path], Iterator[tuple[str, float]]]] = {
    "pretrain": _of_training,
    "analyse pair": _of_pair,
    "analyse bits": _of_bits,
    "eval": _of_eval,
}
"""Stage -> the numbers of what it has published, by their columns."""


def _grid(cells: Mapping[str, Mapping[str, Run]], claims: Sequence[Claim]) -> Table:
    rows = {name: [*runs.values()] for name, runs in cells.items()}
    names = [*dict.fromkeys(key for runs in rows.values() for run in runs for key in run)]
    judged = {SCORE, *(each.column for each in claims)}
    table: list[tuple[Cell, ...]] = []
    for cell, runs in sorted(rows.items(), key=lambda item: -mean_of(item[1], SCORE)[0]):
        spread = {name: mean_of(runs, name) for name in names}
        shown = [_shown(name, *spread[name], name in judged and len(runs) > 1) for name in names]
        table.append((cell, len(runs), *shown))
    columns = (("cell", ""), ("runs", "d"), *((name, f".{_digits(name)}f") for name in names))
    note = (
        "Percent, means over seeds; ±: half of the 95 % interval over seeds by Student's t. Loss: nats a piece. Bits: "
        "of a character."
    )
    return Table("grid", "Elements", columns, tuple(table), (note,))


def _digits(name: str) -> int:
    return 3 if _is_fine(name) else 1


def _is_fine(name: str) -> bool:
    """Whether a column holds bits or nats, not points."""
    return name == LOSS or name.startswith(BITS)


def _shown(name: str, mean: float, half: float, spread: bool) -> Cell:
    if mean != mean:
        return None
    digits = _digits(name)
    return f"{mean:.{digits}f} ± {half:.{digits}f}" if spread else round(mean, 3)


def mean_of(runs: Sequence[Mapping[str, float]], name: str) -> tuple[float, float]:
    """Mean over runs and half of its 95 % interval by Student's t; nan where no run has it, inf of a single run."""
    values = np.array([run[name] for run in runs if name in run])
    if len(values) < 2:
        return (float(values[0]), float("inf")) if len(values) else (float("nan"), float("nan"))
    return float(values.mean()), student(len(values) - 1) * float(values.std(ddof=1)) / len(values) ** 0.5


def student(free: int) -> float:
    """The 97.5 % quantile of Student's t with ``free`` degrees of freedom."""
    from scipy.stats import t

    return float(t.ppf(0.975, free)) if free else NormalDist().inv_cdf(0.975)


JUDGE: dict[str, Callable[[float, float, float], bool]] = {
    "lower": lambda low, high, margin: high < 0,
    "higher": lambda low, high, margin: low > 0,
    "same": lambda low, high, margin: -margin < low and high < margin,
}
"""Claim -> whether the interval of the difference bears it out; it is refuted where the opposite holds."""


def claim(name: str, said: str, base: str, cells: Mapping[str, Mapping[str, Run]]) -> Claim:
    """Read a claim.

    Raises:
        UserError: it does not have three or four parts, its kind is unknown, or no run has its column.
    """
    which, kind, text, number, *more = (part.strip() for part in (*said.split("|"), "", "", ""))
    cell, _, other = (part.strip() for part in which.partition(","))
    kind, _, column = (part.strip() for part in kind.partition(" "))
    if kind not in JUDGE or not text or any(more):
        raise UserError(
            f"claims.{name}={said}",
            "CELL|KIND|CLAIM or CELL|KIND|CLAIM|NUMBER, where KIND is lower, higher or same and CLAIM is a sentence",
            f"for example claims.{name}='no-positions|lower|positions matter'",
        )
    known = dict.fromkeys(key for runs in cells.values() for run in runs.values() for key in run)
    if column and column not in known:
        raise unknown(f"column of claims.{name}", column, known)
    return Claim(cell, other or base, kind, column or SCORE, text, number)


def _claims(cfg: GridConfig, claims: Sequence[Claim], cells: Mapping[str, Mapping[str, Run]]) -> Table:
    table: list[tuple[Cell, ...]] = []
    for each in claims:
        if missing := [x for x in (each.cell, each.other) if x not in cells]:
            table.append(
                (
                    each.text,
                    each.number or None,
                    f"{each.cell}, {each.other}",
                    each.column,
                    None,
                    f"not run: {missing[0]}",
                )
            )
            continue
        ours, theirs = cells[each.cell], cells[each.other]
        seeds = [seed for seed in ours if each.column in ours[seed] and each.column in theirs.get(seed, {})]
        both_seeds = [{"d": ours[seed][each.column] - theirs[seed][each.column]} for seed in seeds]
        difference, half = mean_of(both_seeds, "d")  # of runs with equal seeds
        digits = _digits(each.column)
        said = verdict(each.kind, difference, half, cfg.margin / (100 if _is_fine(each.column) else 1))
        both = f"{difference:+.{digits}f}" + (f" ± {half:.{digits}f}" if np.isfinite(half) else "")
        table.append((each.text, each.number or None, f"{each.cell} - {each.other}", each.column, both, said))
    columns = (
        ("claim", ""),
        ("their number", ""),
        ("cells", ""),
        ("column", ""),
        ("our difference", ""),
        ("verdict", ""),
    )
    note = (
        f"holds and refuted: by the 95 % interval of the difference; the same: within {cfg.margin:g} points, "
        f"or {cfg.margin / 100:g} bits a character or nats."
    )
    return Table("claims", "Claims", columns, tuple(table), (note,))


def verdict(kind: str, difference: float, half: float, margin: float) -> str:
    """``holds``, ``refuted`` or ``open`` of a claim of `JUDGE`, given a difference and half of its interval."""
    if not np.isfinite(half):
        return "open"
    low, high = difference - half, difference + half
    if JUDGE[kind](low, high, margin):
        return "holds"
    against = {"lower": ("higher", "same"), "higher": ("lower", "same"), "same": ()}[kind]
    beyond = kind == "same" and (low > margin or high < -margin)
    return "refuted" if beyond or any(JUDGE[each](low, high, margin) for each in against) else "open"
