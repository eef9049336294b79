"""``xling analyse pair`` and ``xling analyse grid``: how multilingual a model of two languages is, and a table of many.

The score is the mean of three measures at the input and at two thirds of the depth, each taken both ways. They are
sentence retrieval by mean vectors, words of a sentence found among those of its translation, and words by themselves.
Dufter & Schütze take layers 0 and 8 of 12, and pieces in place of words. Their second measure is the F1 of the
alignments that both ways agree on; here it is the share that is right. They leave open how a tie is broken: the first
one wins. Random weights of the same shape are measured beside, since equal positions alone align words at the input.
Of two real languages only retrieval is measured: nothing says which word is which.

Source: Dufter & Schütze 2020, section 2.3.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from xling.core import config, manifest
from xling.core.answer import Answer
from xling.core.errors import UserError
from xling.corpora.altered import STAGE as TEXT_STAGE
from xling.corpora.altered import AlteredConfig
from xling.eval import backend, retrieval, stats
from xling.eval.backend import FitConfig
from xling.eval.kinds.base import Example, is_texts
from xling.eval.metrics import METRICS, evaluate
from xling.eval.settings import EvalConfig
from xling.eval.suite import Suite, data_digest, data_folder, load, scored_split, suites
from xling.pages import tabular
from xling.pages.tabular import Cell, Table
from xling.text.altered import Alteration

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

STAGE, TABLE_STAGE = "analyse pair", "analyse grid"
SYSTEMS = ("pretrained", "random")
SHARE_OF_DEPTH = 2 / 3
MEASURES = ("retrieval", "words in context", "words alone")
NUM_WORDS = 500


@dataclass(frozen=True)
class PairConfig:
    """Settings of ``xling analyse pair``.

    Attributes:
        checkpoint: model of two languages.
        text: what ``xling corpus altered`` published; its test lines are compared.
        out: directory to publish: ``pair.json``.
        suites: of tags, classes or sentence pairs: learned from rows of the first language, tried on others of it and
            on the second language, whose rows are altered as its text is.
        data: folder of the suites' files; default: what XLING_DATA names.
        train_rows, test_rows: of each suite, the first ones; 0 for all.
        fit: settings of fine-tuning.
    """

    checkpoint: Path
    text: Path
    out: Path
    suites: tuple[str, ...] = ()
    data: Path | None = None
    train_rows: int = 1000
    test_rows: int = 300
    fit: FitConfig = field(default_factory=FitConfig)


@dataclass(frozen=True)
class Measured:
    """One number in percent with its interval of 95 %."""

    system: str
    measure: str
    layer: int
    value: float
    low: float
    high: float


def run(cfg: PairConfig) -> Answer:
    """Measure a model and random weights of its shape.

    Raises:
        UserError: no model or text there, or a suite of another kind.
    """
    text = _text_of(cfg.text)
    data = data_folder(cfg.data) if cfg.suites else None
    chosen = [suites()[name] for name in cfg.suites]
    # Closed labels with one metric: tags, classes and sentence pairs.
    if wrong := [s.name for s in chosen if not s.shape.closed or len(s.shape.metrics) > 1]:
        raise UserError(
            f"suites={','.join(wrong)}: their answers are not labels",
            "suites of tags, classes or sentence pairs",
            "see xling eval list",
        )
    if not manifest.up_to_date(cfg.out, STAGE, cfg, [cfg.checkpoint, cfg.text]):
        result = [item for system in SYSTEMS for item in _measured(cfg, text, system)]
        for suite in chosen:
            assert data is not None
            result += _transferred(cfg, text, suite, data)
        with manifest.publish(cfg.out, STAGE, cfg, [cfg.checkpoint, cfg.text]) as output:
            facts = {"change": config.to_dict(text.change), "measured": [item.__dict__ for item in result]}
            facts |= _training(cfg.checkpoint)
            (output.path / "pair.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            output.counts |= {
                suite.name: data_digest(suite, text.lang, "train", data) for suite in chosen if data
            }
    facts = json.loads((cfg.out / "pair.json").read_text(encoding="utf-8"))
    lines = [
        f"{m['system']:<10} {m['measure']:<24} layer {m['layer']}  {m['value']:5.1f}  "
        f"[{m['low']:.1f}, {m['high']:.1f}]"
        for m in facts["measured"]
    ]
    return Answer("\n".join([*lines, f"score {_score(facts):.1f}"]), facts)


def _text_of(folder: Path) -> AlteredConfig:
    output = manifest.read(folder)
    if output.stage != TEXT_STAGE:
        raise UserError(f"text={folder} was made by {output.stage!r}", f"a folder of xling {TEXT_STAGE}")
    return config.from_dict(AlteredConfig, output.config, str(folder))


def _training(checkpoint: Path) -> dict[str, Any]:
    """Updates, parameters, seed, seconds and validation losses of a model of ``xling pretrain``."""
    output = manifest.read(checkpoint)
    last = output.counts.get("last", {})
    losses = {key: value for key, value in last.items() if key.startswith("loss/") and key.count("/") == 2}
    kept = {key: output.counts.get(key) for key in ("updates", "parameters")}
    return kept | {"seed": output.config.get("seed"), "losses": losses, "seconds": output.seconds}


def _measured(cfg: PairConfig, text: AlteredConfig, system: str) -> Iterator[Measured]:
    """The three measures of one system at both layers."""
    from xling.transfer.words import word_vectors  # help reads this file without torch

    langs = (text.lang, text.second_lang)
    lines = [(cfg.text / f"test.{lang}.txt").read_text(encoding="utf-8").splitlines() for lang in langs]
    names = (cfg.text / "test.names").read_text(encoding="utf-8").splitlines()
    model = backend.build(system, EvalConfig((), cfg.out, checkpoint=cfg.checkpoint))
    depth = _depth(model, langs[0])
    for layer in (0, max(1, round(SHARE_OF_DEPTH * depth))):

        def vectors(texts: Sequence[str], lang: str, layer: int = layer) -> retrieval.Vectors:
            return model.embed(texts, lang, layer, "mean")

        a, b = (vectors(side, lang) for side, lang in zip(lines, langs, strict=True))
        yield _told(system, MEASURES[0], layer, both_ways(a, b))
        if text.second:
            continue
        is_random = system == "random"
        sides = [
            word_vectors(cfg.checkpoint, [line.split() for line in side], lang, layer, is_random)
            for side, lang in zip(lines, langs, strict=True)
        ]
        yield _told(system, MEASURES[1], layer, _in_context(sides[0], sides[1], names, text.change))
        words = [w for w, _ in Counter(w for line in lines[0] for w in line.split()).most_common(NUM_WORDS)]
        copies = [replace(text.change, order="kept").text(word, "") for word in words]
        yield _told(
            system, MEASURES[2], layer, both_ways(vectors(words, langs[0]), vectors(copies, langs[1]))
        )


def _depth(model: backend.Backend, lang: str) -> int:
    """Layers of a model, which says by an error that it has no more."""
    for layer in range(1000):
        try:
            model.embed(["a"], lang, layer, "mean")
        except UserError:
            return layer - 1
    raise AssertionError("a model of 1000 layers")


def both_ways(
    a: Float32[np.ndarray, "rows dim"], b: Float32[np.ndarray, "rows dim"]
) -> Float64[np.ndarray, "rows 2"]:
    """How often of 2 times each row of ``a`` and ``b``, (rows, dim), is nearest to the other: float64 (rows, 2)."""
    rows = np.arange(len(a))
    hits = (retrieval.nearest(a, b) == rows).astype(float) + (retrieval.nearest(b, a) == rows)
    return np.stack([hits, np.full(len(a), 2.0)], axis=1)


def _in_context(
    first: Sequence[Any], second: Sequence[Any], names: Sequence[str], change: Alteration
) -> np.ndarray:
    """Right words and words of each line, both ways, float64 (lines, 2), without words beyond the model's positions."""
    rows = []
    for a, b, name in zip(first, second, names, strict=True):
        moved = a[change.places(len(a), name)]
        seen = moved.any(axis=1) & b.any(axis=1)
        rows.append(both_ways(moved[seen], b[seen]).sum(axis=0) if seen.any() else np.zeros(2))
    return np.array(rows)


def _told(system: str, measure: str, layer: int, rows: np.ndarray) -> Measured:
    """The share of two columns, with Wilson's interval over the rows."""
    top, bottom = rows.T
    return Measured(
        system, measure, layer, 100 * top.sum() / max(bottom.sum(), 1), *stats.wilson(top, bottom)
    )


def _transferred(cfg: PairConfig, text: AlteredConfig, suite: Suite, data: Path) -> Iterator[Measured]:
    """Scores in both languages after fine-tuning in the first."""
    train = _first(load(suite, text.lang, "train", data), cfg.train_rows)
    split = scored_split(suite, text.lang, data)
    tests = {text.lang: _first(load(suite, text.lang, split, data), cfg.test_rows)}
    real = text.second_lang if text.second else text.lang
    other = _first(load(suite, real, scored_split(suite, real, data), data), cfg.test_rows)
    tests[text.second_lang] = [altered_row(row, text.change) for row in other]
    model = backend.build("pretrained", EvalConfig((), cfg.out, checkpoint=cfg.checkpoint))
    tuned = model.fit(suite, train, [], text.lang, cfg.fit)[-1]
    metric = METRICS[suite.metric]
    for lang, rows in tests.items():
        value, result = evaluate(metric, rows, model.predict(tuned, suite, rows, lang), lang)
        low, high = stats.interval(result, metric, f"{suite.name} {lang}")
        yield Measured("pretrained", f"{suite.name} {lang}", -1, value, low, high)


def _first(rows: Sequence[Example], most: int) -> list[Example]:
    return [*rows[: most or None]]


def altered_row(row: Example, change: Alteration) -> Example:
    """A row in the made-up language; tags move with their words."""
    fields = {
        name: tuple(change.words(value, row.id)) if is_texts(value) else change.text(value, row.id)
        for name, value in row.fields.items()
    }
    label = row.label
    if is_texts(label):
        label = tuple(label[place] for place in change.places(len(label), row.id))
    return replace(row, fields=fields, label=label)


def _score(facts: Mapping[str, Any], system: str = "pretrained") -> float:
    """The mean of all measures at both layers, in percent."""
    values = [m["value"] for m in facts["measured"] if m["system"] == system and m["layer"] >= 0]
    return float(np.mean(values))


@dataclass(frozen=True)
class GridConfig:
    """Settings of ``xling analyse grid``.

    Attributes:
        runs: folder with a folder ``CELL-SEED`` for each run, whose ``pair`` was made by ``xling analyse pair``.
        out: directory to publish: ``grid.md``, ``grid.csv`` and ``claims.md``.
        base: the cell that claims compare with.
        claims: one a name: ``CELL``, or ``CELL,OTHER`` in place of ``base``; ``lower``, ``higher`` or ``same``; what is
            claimed with its number and source; with ``|`` between.
        margin: points of the score within which two cells are the same.
    """

    runs: Path
    out: Path
    base: str = "original"
    claims: dict[str, str] = field(default_factory=dict)
    margin: float = 5.0


def table(cfg: GridConfig) -> Answer:
    """Gather the runs into a table of cells and one of claims, and publish both.

    Raises:
        UserError: no run there, or a claim that cannot be read.
    """
    inputs = sorted(cfg.runs.glob("*/pair"))
    cells: dict[str, list[dict[str, Any]]] = {}
    for folder in inputs:
        name = folder.parent.name.rpartition("-")[0]
        cells.setdefault(name, []).append(json.loads((folder / "pair.json").read_text(encoding="utf-8")))
    if not cells:
        raise UserError(
            f"runs={cfg.runs} holds no analysis",
            "a folder with CELL-SEED/pair, each written by xling analyse pair",
            "run xling analyse pair first, or check the path",
        )
    if not manifest.up_to_date(cfg.out, TABLE_STAGE, cfg, inputs, replaceable=True):
        tables = [_grid(cells), _claims(cfg, cells)]
        with manifest.publish(cfg.out, TABLE_STAGE, cfg, inputs) as output:
            for each in tables:
                (output.path / f"{each.name}.md").write_text(tabular.markdown(each), encoding="utf-8")
                (output.path / f"{each.name}.csv").write_text(tabular.comma_separated(each), encoding="utf-8")
            output.counts |= {"runs": len(inputs), "cells": len(cells)}
    text = "\n".join((cfg.out / f"{name}.md").read_text(encoding="utf-8") for name in ("grid", "claims"))
    return Answer(
        text.rstrip(), {"cells": {name: [_score(f) for f in facts] for name, facts in cells.items()}}
    )


def _columns(facts: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of one run by the name of their column."""
    result = {"score": _score(facts), "random": _score(facts, "random")}
    for m in facts["measured"]:
        if m["system"] == "pretrained":
            where = "" if m["layer"] < 0 else " 0" if m["layer"] == 0 else " deep"
            result[m["measure"] + where] = m["value"]
    losses = facts["losses"].values()
    return result | ({"loss": float(np.mean([*losses]))} if losses else {})


def _grid(cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    rows = {name: [_columns(facts) for facts in runs] for name, runs in cells.items()}
    names = [*dict.fromkeys(key for runs in rows.values() for run in runs for key in run)]
    table: list[tuple[Cell, ...]] = []
    for cell, runs in sorted(rows.items(), key=lambda item: -mean_of(item[1], "score")[0]):
        spread = [mean_of(runs, name) for name in names]
        shown = [None if m != m else f"{m:.1f} ± {half:.1f}" if name == "score" else round(m, 2)
                 for name, (m, half) in zip(names, spread, strict=True)]  # fmt: skip
        table.append((cell, len(runs), *shown))
    columns = (("cell", ""), ("runs", "d"), *((name, ".1f" if name != "loss" else ".2f") for name in names))
    note = "Percent, means over seeds; ±: half of the 95 % interval over seeds by Student's t. Loss: nats a piece."
    return Table("grid", "Elements", columns, tuple(table), (note,))


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


def _claims(cfg: GridConfig, cells: Mapping[str, Sequence[Mapping[str, Any]]]) -> Table:
    table: list[tuple[Cell, ...]] = []
    for name, said in cfg.claims.items():
        which, _, rest = said.partition("|")
        kind, _, text = rest.partition("|")
        cell, _, other = (part.strip() for part in which.partition(","))
        if kind.strip() not in JUDGE or not text:
            raise UserError(
                f"claims.{name}={said}",
                "CELL|KIND|CLAIM, where KIND is lower, higher or same and CLAIM is a sentence",
                f"for example claims.{name}='no-positions|lower|positions matter'",
            )
        if missing := [x for x in (cell, other or cfg.base) if x not in cells]:
            table.append((text.strip(), ", ".join((cell, other or cfg.base)), None, f"not run: {missing[0]}"))
            continue
        difference, half = _difference(cells[cell], cells[other or cfg.base])
        table.append((text.strip(), f"{cell} - {other or cfg.base}", f"{difference:+.1f} ± {half:.1f}",
                      verdict(kind.strip(), difference, half, cfg.margin)))  # fmt: skip
    columns = (
        ("claim and their number", ""),
        ("cells", ""),
        ("our difference of the score", ""),
        ("verdict", ""),
    )
    note = (
        f"holds and refuted: by the 95 % interval of the difference; the same: within {cfg.margin:g} points."
    )
    return Table("claims", "Claims", columns, tuple(table), (note,))


def _difference(a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Mean difference of the scores of runs with equal seeds and half of its 95 % interval."""
    scores = [{facts["seed"]: _score(facts) for facts in runs} for runs in (a, b)]
    both = [{"d": scores[0][seed] - scores[1][seed]} for seed in scores[0] if seed in scores[1]]
    return mean_of(both, "d")


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
