"""What every pair filter promises, by examples of each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import polars as pl
import pytest

from tests.corpora.parallel.filter_examples import examples_of
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import PAIR_FILTERS, Context, CorpusFilter, PairExample
from xling.corpora.toyworld import para
from xling.text.document import Ledger
from xling.text.pairs import SCHEMA, make_batch

NAMES = sorted(PAIR_FILTERS)
CASES = [(name, number) for name in NAMES for number in range(len(examples_of(name)))]


def reasons(name: str, example: PairExample, folder: Path) -> list[str | None]:
    """What the filter alone, in a chain, says of the pairs before the example and of the example."""
    heldout = folder / "heldout.txt"
    heldout.write_text("\n".join(example.heldout), encoding="utf-8")
    context = Context.of_pair(example.pair, (heldout,) if example.heldout else ())
    made = chain.build((name,), {name: dict(example.settings)}, context)
    corpus = list(para(*example.pair.split("-"), example.corpus, 1)) if example.corpus else []
    pairs = [*corpus, *example.before, (example.src, example.tgt)]
    table = make_batch({"src": [src for src, _ in pairs], "tgt": [tgt for _, tgt in pairs]}, "test")
    if example.score is not None:
        scores = [*(1.0 for _ in example.before), example.score]
        table = table.with_columns(pl.Series("score", scores, pl.Float32))
    kept, lost = made.run_batch(table, Ledger())
    if made.corpus:
        _, why = made.judge_corpus(made.keys(kept))
        lost = pl.concat([lost, chain.add_reason(kept.select(*SCHEMA), "", why).filter(why.is_not_null())])
    found = dict(zip(lost["id"].to_list(), lost["reason"].to_list(), strict=True))
    return [found.get(f"test/{i}") for i in range(len(pairs))]


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    cls = PAIR_FILTERS[name]
    assert cls.name == name
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(cls.reasons.values())
    assert {example.reason for example in examples_of(name)} == {"", *cls.reasons}
    empty = make_batch({"src": [], "tgt": []}, "test")
    context = Context.of_pair("en-de")
    made = cls()  # every setting has a default
    keys = made.keys(empty, context) if isinstance(made, CorpusFilter) else empty
    assert made.judge(keys, context).to_list() == []


@pytest.mark.parametrize(("name", "number"), CASES)
def test_each_example_meets_its_reason_and_no_other(name: str, number: int, tmp_path: Path) -> None:
    example = examples_of(name)[number]
    *before, last = reasons(name, example, tmp_path)
    assert sum(map(bool, before)) <= 0.01 * example.corpus
    assert last == (example.reason or None)
