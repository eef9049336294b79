"""What must and what must not change a loss: every objective says it (`Trial.changes`, `Trial.ignores`).

A text is changed at one token before an example is made of it, and the predictions are scored with the targets that
they had. So one that knows more than it should is seen wherever the leak is: in the noise, in what a decoder reads, in
a mask of the attention, in the loss.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from xling.objectives import OBJECTIVES, clwr, xlco
from xling.objectives.contract_facts import CHANGES, IGNORES

# Objectives whose examples are made of nothing but what the model itself writes are tried by their own tests.
TRIED = [name for name, entry in OBJECTIVES.items() if not entry.trial.makes_sources]
# The teacher of the trials has no language embeddings, and its student may not have any.
TAUGHT = {name for name in TRIED if "{teacher}" in OBJECTIVES[name].trial.settings.values()}
LANGS = ("model.lang_embeddings=true",)
PLAIN = {"leave_unmasked_prob": "0", "random_token_prob": "0", "mix": "0"}
PIECE = 4


class Tried(NamedTuple):
    """An objective with a model of weights that are not small, and examples of its data."""

    name: str
    only: Any
    model: Any
    dataset: Any
    mask: int


def made(name: str, build: Any) -> Tried:
    known = {field.name for field in dataclasses.fields(OBJECTIVES[name].config)}
    words = [f"objectives.{name}.{key}={value}" for key, value in PLAIN.items() if key in known]
    words.append(f"objectives.{name}.tokens_per_sample=24")
    more = ("model.dropout=0", *(() if name in TAUGHT else LANGS))
    trainer, task = build(name, *words, *more)
    task.load_dataset("train")
    model = trainer.get_model().eval()
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        if isinstance(extra := dict(model.extras.items()).get(name), xlco.ContrastState):
            extra.push(torch.randn(12, 32))
    return Tried(name, task.objectives[name], model, task.dataset("train"), task.dictionary.index("<mask>"))


Edit = Callable[[np.ndarray], np.ndarray]


def example(tried: Tried, index: int, side: str = "", edit: Edit | None = None) -> Any:
    """The example at ``index``, of a text whose ``side`` was edited."""
    dataset = tried.dataset
    if edit is None:
        return dataset[index]
    if hasattr(dataset, "_document"):
        original = dataset._document
        dataset._document = lambda i: (edit(original(i)[0]), original(i)[1])
        try:
            return dataset[index]
        finally:
            del dataset._document
    build = dataset._build

    def changed(text: Any, *rest: Any) -> Any:
        new = edit(getattr(text, side))
        replaced = (
            text._replace(**{side: new})
            if isinstance(text, tuple)
            else dataclasses.replace(text, **{side: new})
        )
        return build(replaced, *rest)

    dataset._build = changed
    try:
        return dataset[index]
    finally:
        dataset._build = build


def sides_of(tried: Tried) -> tuple[str, ...]:
    return (
        ("src", "tgt") if hasattr(tried.dataset, "_sides") and hasattr(tried.dataset, "pair") else ("tokens",)
    )


def length(tried: Tried, index: int, side: str) -> int:
    seen: list[int] = []

    def look(tokens: np.ndarray) -> np.ndarray:
        seen.append(len(tokens))
        return tokens

    example(tried, index, side, look)
    return seen[0]


def rows(tried: Tried, sample: Any, target: Any = None) -> torch.Tensor:
    """The losses of a batch, with the targets given."""
    torch.manual_seed(9)
    if target is not None:
        sample = sample | {"target": target}
    with torch.no_grad():
        return tried.only.loss(tried.model, sample).rows


def swapped(position: int, mask: int) -> Edit:
    """Replace the piece at ``position`` by another piece; leave special tokens as they are."""

    def edit(tokens: np.ndarray) -> np.ndarray:
        new = tokens.copy()
        if PIECE <= new[position] < mask:
            new[position] = PIECE + (new[position] - PIECE + 7) % (mask - PIECE)
        return new

    return edit


class Change(NamedTuple):
    """What became of the losses when a token was changed: which moved, which predict it, and which are of its side."""

    moved: torch.Tensor
    own: torch.Tensor
    side: str
    same_side: torch.Tensor


def languages(tried: Tried, index: int) -> dict[str, int]:
    """The language of each side of a pair."""
    if "src" not in sides_of(tried):
        return {}
    found: list[Any] = []
    build = tried.dataset._build

    def look(pair: Any, *rest: Any) -> Any:
        found.append(pair)
        return build(pair, *rest)

    tried.dataset._build = look
    try:
        tried.dataset[index]
    finally:
        tried.dataset._build = build
    return {"src": found[0].src_lang, "tgt": found[0].tgt_lang}


def changes(tried: Tried, index: int) -> Iterator[Change]:
    """The change of every token of a text, one at a time, in a batch of this one and another.

    The other is there since a sentence alone has no negatives.
    """
    mate, langs = example(tried, index + 1), languages(tried, index)
    before = tried.dataset.collater([example(tried, index), mate])
    clean, target = rows(tried, before), before.get("target")
    for side in sides_of(tried):
        for position in range(length(tried, index, side)):
            new = example(tried, index, side, swapped(position, tried.mask))
            after = tried.dataset.collater([new, mate])
            own = torch.zeros(len(clean), dtype=torch.bool)
            if target is not None:
                if len(after["target"]) != len(target):
                    continue  # another token begins a word: the noise is another
                own = after["target"] != target
            moved = (rows(tried, after, target) - clean).abs() > 1e-5
            yield Change(moved, own, side, before["target_langs"] == langs.get(side, -1))


@pytest.fixture(scope="module")
def told(build: Any) -> dict[str, tuple[Tried, list[Change]]]:
    """Every objective with the changes of three of its texts."""
    found = {}
    for name in TRIED:
        tried = made(name, build)
        found[name] = tried, [change for index in (0, 2) for change in changes(tried, index)]
    return found


def test_every_objective_says_what_changes_its_loss() -> None:
    for name in TRIED:
        trial = OBJECTIVES[name].trial
        assert trial.changes and {*trial.changes} <= {*CHANGES} and {*trial.ignores} <= {*IGNORES}, name


@pytest.mark.parametrize("name", TRIED)
def test_the_context_changes_the_loss(name: str, told: Any) -> None:
    _, seen = told[name]
    assert "context" in OBJECTIVES[name].trial.changes
    assert any((change.moved & ~change.own).any() for change in seen)


@pytest.mark.parametrize("name", [n for n in TRIED if "both sides" in OBJECTIVES[n].trial.changes])
def test_both_sides_change_the_loss(name: str, told: Any) -> None:
    _, seen = told[name]
    for side in ("src", "tgt"):
        assert any((change.moved & ~change.own).any() for change in seen if change.side == side), side


@pytest.mark.parametrize("name", [n for n in TRIED if "own token" in OBJECTIVES[n].trial.ignores])
def test_a_token_does_not_help_to_predict_itself(name: str, told: Any) -> None:
    _, seen = told[name]
    assert sum(int(change.own.sum()) for change in seen) > 5
    assert not any((change.moved & change.own).any() for change in seen)


@pytest.mark.parametrize("name", [n for n in TRIED if "later tokens" in OBJECTIVES[n].trial.ignores])
def test_what_comes_later_does_not_help(name: str, told: Any) -> None:
    _, seen = told[name]
    for change in seen:
        if change.own.any() and change.side != "src":
            first = int(change.own.nonzero()[0])
            assert not change.moved[: first + 1].any()


@pytest.mark.parametrize("name", [n for n in TRIED if "own side" in OBJECTIVES[n].trial.ignores])
def test_the_own_side_does_not_help(name: str, told: Any) -> None:
    _, seen = told[name]
    assert any((change.moved & ~change.same_side).any() for change in seen)
    assert not any((change.moved & change.same_side).any() for change in seen)


def inputs_of(sample: Any) -> list[dict[str, Any]]:
    """The inputs of every encoder and decoder in a batch."""
    found = [
        part["net_input"]
        for part in (sample, *(sample.get(k, {}) for k in ("query", "key")))
        if "net_input" in part
    ]
    return found + [part["decoder"] for part in found if "decoder" in part]


@pytest.mark.parametrize(
    ("name", "field"),
    [(n, f) for n in TRIED for f in ("positions", "langs") if f != "langs" or n not in TAUGHT],
)
def test_positions_and_languages_change_the_loss(name: str, field: str, told: Any) -> None:
    tried, _ = told[name]
    sample = tried.dataset.collater([example(tried, index) for index in range(3)])
    clean = rows(tried, sample)
    for number in range(len(inputs_of(sample))):
        other = copy.deepcopy(sample)
        values = inputs_of(other)[number][field]
        inputs_of(other)[number][field] = (values + 1) % (3 if field == "langs" else 60)
        assert ((rows(tried, other) - clean).abs() > 1e-5).any(), number


@pytest.mark.parametrize("name", [n for n in TRIED if "queue" in OBJECTIVES[n].trial.changes])
def test_the_queue_changes_the_loss_and_its_order_does_not(name: str, told: Any) -> None:
    tried, _ = told[name]
    sample = tried.dataset.collater([example(tried, index) for index in range(3)])
    state, clean = tried.model.extras[name], rows(tried, sample)
    kept = state.queue.clone()
    filled = int(state.position[1])
    state.queue[:filled] = kept[:filled].flip(0)
    torch.testing.assert_close(rows(tried, sample), clean)
    state.queue[0] += 1
    assert ((rows(tried, sample) - clean).abs() > 1e-5).any()
    state.queue[:] = kept
    state.queue[filled:] = 7.0  # what is not filled is no negative
    torch.testing.assert_close(rows(tried, sample), clean)
    state.queue[:] = kept


def test_word_recovery_sees_nothing_of_the_sentence_but_through_its_translation(told: Any) -> None:
    """Of a translation that is one piece again and again all weights mix the same: then x itself must not count."""
    tried, _ = told["clwr"]
    sample = tried.dataset.collater([example(tried, 0)])
    sample["others"] = [torch.full_like(other, 9) for other in sample["others"]]
    other = copy.deepcopy(sample)
    inputs = other["net_input"]
    inputs["src_tokens"] = (inputs["src_tokens"] + 5) % tried.mask
    torch.testing.assert_close(rows(tried, other), rows(tried, sample))
    assert isinstance(tried.model.extras["clwr"], clwr.SoftAlignment)
