"""``xling analyse pair``: how multilingual a model of two languages is. `xling analyse grid` gathers many.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from xling.array_types import Float32, Float64
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings import config
from xling.eval import systems
from xling.eval.kinds import nearest_neighbours
from xling.eval.kinds.base import Example, is_texts
from xling.eval.metrics import METRICS, evaluate
from xling.eval.rows.suite import Suite, data_digest, data_folder, load, scored_split, suites
from xling.eval.run.settings import EvalConfig
from xling.eval.scores import statistics
from xling.eval.systems import FitConfig
from xling.papers.alteration import Alteration
from xling.papers.altered import STAGE as TEXT_STAGE
from xling.papers.altered import AlteredConfig

STAGE = "analyse pair"
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
    return Answer("\n".join([*lines, f"score {score(facts):.1f}"]), facts)


def _text_of(folder: Path) -> AlteredConfig:
    output = manifest.read(folder)
    if output.stage != TEXT_STAGE:
        raise UserError(f"text={folder} was made by {output.stage!r}", f"a folder of xling {TEXT_STAGE}")
    return config.from_dict(AlteredConfig, output.config, str(folder))


def _training(checkpoint: Path) -> dict[str, Any]:
    """Updates, parameters, seed, seconds and validation losses of a model of ``xling pretrain``."""
    output = manifest.read(checkpoint)
    kept = {key: output.counts.get(key) for key in ("updates", "parameters")}
    seed = output.config.get("seed")
    return kept | {"seed": seed, "losses": held_out_losses(output), "seconds": output.seconds}


def held_out_losses(output: manifest.Manifest) -> dict[str, float]:
    """``loss/OBJECTIVE/LANG`` -> last validation loss of ``xling pretrain``, nats a piece."""
    last = output.counts.get("last", {})
    return {key: value for key, value in last.items() if key.startswith("loss/") and key.count("/") == 2}


def _measured(cfg: PairConfig, text: AlteredConfig, system: str) -> Iterator[Measured]:
    from xling.transfer.words import word_vectors  # help reads this file without torch

    langs = (text.lang, text.second_lang)
    lines = [(cfg.text / f"test.{lang}.txt").read_text(encoding="utf-8").splitlines() for lang in langs]
    names = (cfg.text / "test.names").read_text(encoding="utf-8").splitlines()
    model = systems.build(system, EvalConfig((), cfg.out, checkpoint=cfg.checkpoint))
    depth = _depth(model, langs[0])
    for layer in (0, max(1, round(SHARE_OF_DEPTH * depth))):

        def vectors(texts: Sequence[str], lang: str, layer: int = layer) -> nearest_neighbours.Vectors:
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


def _depth(model: systems.Backend, lang: str) -> int:
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
    hits = (nearest_neighbours.nearest_rows(a, b) == rows).astype(float) + (
        nearest_neighbours.nearest_rows(b, a) == rows
    )
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
        system,
        measure,
        layer,
        100 * top.sum() / max(bottom.sum(), 1),
        *statistics.wilson_interval(top, bottom),
    )


def _transferred(cfg: PairConfig, text: AlteredConfig, suite: Suite, data: Path) -> Iterator[Measured]:
    """Scores in both languages after fine-tuning in the first."""
    train = _first(load(suite, text.lang, "train", data), cfg.train_rows)
    split = scored_split(suite, text.lang, data)
    tests = {text.lang: _first(load(suite, text.lang, split, data), cfg.test_rows)}
    real = text.second_lang if text.second else text.lang
    other = _first(load(suite, real, scored_split(suite, real, data), data), cfg.test_rows)
    tests[text.second_lang] = [altered_row(row, text.change) for row in other]
    model = systems.build("pretrained", EvalConfig((), cfg.out, checkpoint=cfg.checkpoint))
    tuned = model.fit(suite, train, [], text.lang, cfg.fit)[-1]
    metric = METRICS[suite.metric]
    for lang, rows in tests.items():
        value, result = evaluate(metric, rows, model.predict(tuned, suite, rows, lang), lang)
        low, high = statistics.score_interval(result, metric, f"{suite.name} {lang}")
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


def score(facts: Mapping[str, Any], system: str = "pretrained") -> float:
    """The mean of all measures at both layers, in percent."""
    values = [m["value"] for m in facts["measured"] if m["system"] == system and m["layer"] >= 0]
    return float(np.mean(values))
