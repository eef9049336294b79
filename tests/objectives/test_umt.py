"""On-line back-translation: no gradient through it, the language token decides, batches kept and put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xling.core.errors import UserError
from xling.objectives import umt
from xling.objectives.umt import BackTranslations
from xling.text.files import shards

LANGS = ["ar", "en", "th"]


def batch_of(build: Any, *words: str) -> tuple[Any, Any, dict[str, Any]]:
    """The model, the objective and a batch of it."""
    trainer, task = build("umt", "model.dropout=0", *words)
    task.load_dataset("train")
    dataset = task.dataset("train")
    rows = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=256)[0]
    model = trainer.get_model().train()
    return model, task.objectives["umt"], dataset.collater([dataset[int(i)] for i in rows])


def test_no_gradient_flows_through_generation_and_the_mode_stays(build: Any) -> None:
    model, objective, sample = batch_of(build)
    loss = objective.loss(model, sample)
    loss.total.backward()
    first = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    assert model.training
    ((uses, made),) = model.extras["umt"].kept.values()
    assert uses == 1 and all(isinstance(x, np.ndarray) for x in made)
    # The same sources as constants give the same gradients, bit for bit.
    model.zero_grad(set_to_none=True)
    objective.sources = lambda *_: made  # type: ignore[method-assign]
    objective.loss(model, sample).total.backward()
    for before, parameter in zip(first, model.parameters(), strict=True):
        assert (before is None) == (parameter.grad is None)
        assert before is None or torch.equal(before, parameter.grad)


def test_tokens_of_the_languages_stand_where_they_decide(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, objective, sample = batch_of(build)
    asked: list[tuple[int, int]] = []
    original = umt.generate_all

    def spy(model: Any, sources: Any, langs: Any, others: Any, *rest: Any, **more: Any) -> Any:
        asked.extend(zip(langs, others, strict=True))
        return original(model, sources, langs, others, *rest, **more)

    monkeypatch.setattr(umt, "generate_all", spy)
    seen: dict[str, Any] = {}
    monkeypatch.setattr(umt, "sequence_loss", lambda model, packed: seen.update(packed))
    objective.loss(model, sample)
    assert asked == list(zip(sample["langs"], sample["others"], strict=True))
    inputs, symbols = seen["net_input"], objective.symbols
    ends = np.cumsum([length for count, length in inputs["runs"] for _ in range(count)]) - 1
    starts = inputs["decoder"]["positions"] == 0
    order = [sample["id"].tolist().index(number) for number in seen["id"].tolist()]
    assert inputs["src_tokens"][ends].tolist() == [symbols.lang(sample["others"][i]) for i in order]
    assert inputs["decoder"]["tokens"][starts].tolist() == [symbols.lang(sample["langs"][i]) for i in order]


def test_a_batch_is_translated_once_for_all_its_uses(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, objective, sample = batch_of(build)
    calls: list[int] = []
    original = umt.translate
    monkeypatch.setattr(umt, "translate", lambda *a, **k: calls.append(1) or original(*a, **k))
    first = objective.sources(model, sample)
    second = objective.sources(model, sample)
    assert len(calls) == 1 and all(map(np.array_equal, first, second))
    assert not model.extras["umt"].kept
    again = objective.sources(model, sample)  # the same epoch and weights: the same draw
    assert len(calls) == 2 and all(map(np.array_equal, first, again))
    model.extras["umt"].kept.clear()
    other = objective.sources(model, sample | {"epoch": 7})
    assert not all(map(np.array_equal, first, other))


@given(st.lists(st.lists(st.lists(st.integers(0, 99), min_size=1), min_size=1), max_size=4))
def test_kept_batches_survive_a_checkpoint(batches: list[list[list[int]]]) -> None:
    one, two = BackTranslations(torch.ones(2, 5)), BackTranslations(torch.ones(2, 5))
    one.kept = {
        (1 << 62) + i: (i + 1, [np.array(x, dtype=np.int64) for x in b]) for i, b in enumerate(batches)
    }
    two.load_state_dict(one.state_dict())
    assert list(two.kept) == list(one.kept)
    for key, (uses, made) in one.kept.items():
        assert two.kept[key][0] == uses and all(map(np.array_equal, made, two.kept[key][1]))


def test_only_pieces_of_the_language_are_written_at_first(build: Any) -> None:
    model, objective, sample = batch_of(build, "objectives.umt.own_pieces=5")
    own = model.extras["umt"].own(objective.cfg.own_share)
    made = objective.sources(model, sample)
    for tokens, other in zip(made, sample["others"], strict=True):
        assert own[other][torch.from_numpy(tokens)].all()
    model.extras["umt"].kept.clear()
    model.set_num_updates(5)
    made = objective.sources(model, sample)
    rows = zip(made, sample["others"], strict=True)
    assert not all(bool(own[other][torch.from_numpy(tokens)].all()) for tokens, other in rows)


def test_it_starts_with_a_dictionary(build: Any, tmp_path: Path) -> None:
    (tmp_path / "en-ar.txt").write_text("boat\tقاربا\nsees\tترى\n", encoding="utf-8")
    words = [f"objectives.umt.dictionaries=en-ar={tmp_path}/en-ar.txt", "objectives.umt.pairs=en-ar"]
    model, objective, sample = batch_of(build, *words, "objectives.umt.word_by_word=3")
    made = objective.sources(model, sample)
    assert set(sample["langs"]) <= {0, 1}
    show = objective._processor
    for tokens, text, lang in zip(made, sample["texts"], sample["langs"], strict=True):
        if lang == LANGS.index("en"):
            before, after = (show.decode([int(i) - 1 for i in x if i >= 4]) for x in (text, tokens))
            assert after == before.replace("boat", "قاربا").replace("sees", "ترى")


def test_every_language_has_its_partners() -> None:
    assert shards.partners_of("", LANGS, LANGS) == {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    assert shards.partners_of("en-ar,th-en", LANGS, LANGS) == {1: [0, 2], 0: [1], 2: [1]}
    with pytest.raises(UserError, match="two different languages"):
        shards.partners_of("en-en", LANGS, LANGS)
    with pytest.raises(UserError, match="no text in th"):
        shards.partners_of("en-th", LANGS, ["ar", "en"])
    with pytest.raises(UserError, match="with only en"):
        shards.partners_of("", ["en"], ["en"])
