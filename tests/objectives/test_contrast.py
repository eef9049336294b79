"""XLCO in its three kinds: what a pair becomes, which vectors meet, and a queue that is full from the start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xling.data.masking import MaskRule
from xling.objectives import hictl, xlco
from xling.objectives.pairs import Pair
from xling.training import train
from xling.training.assemble import build_task


class Script:
    """Stands for a generator whose coins are written down."""

    def __init__(self, *coins: float) -> None:
        self.coins = list(coins)

    def random(self) -> float:
        return self.coins.pop(0)


def plain(example: dict[str, np.ndarray]) -> dict[str, list[int]]:
    return {key: value.tolist() for key, value in example.items()}


def doubles(*shape: int, seed: int = 0) -> torch.Tensor:
    made = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


def test_xlco_mixes_neighbours_on_both_sides() -> None:
    def pair(src: int, tgt: int, *langs: int) -> dict[str, np.ndarray]:
        sides = {"src": np.array([src, 2]), "tgt": np.array([tgt, 2])}
        return sides | {"pair_langs": np.array(langs), "texts": np.array([src, tgt])}

    def mixed(*coins: float, samples: tuple[dict[str, np.ndarray], ...]) -> dict[str, Any]:
        (made,) = xlco.mix_pairs(samples, 0.5, Script(*coins))  # type: ignore[arg-type]
        return plain(made)

    # Mixed; the first side stays, the second is turned round.
    assert mixed(0.1, 0.9, 0.1, samples=(pair(10, 20, 0, 1), pair(11, 21, 0, 2))) == {
        "src": [10, 2, 11, 2],
        "src_langs": [0, 0, 0, 0],
        "tgt": [21, 2, 20, 2],
        "tgt_langs": [2, 2, 1, 1],
        "texts": [10, 20, 11, 21],
    }
    # Of the same two languages the second pair is turned first; then the first side is turned round.
    assert mixed(0.1, 0.1, 0.9, samples=(pair(10, 20, 0, 1), pair(11, 21, 1, 0))) == {
        "src": [21, 2, 10, 2],
        "src_langs": [0, 0, 0, 0],
        "tgt": [20, 2, 11, 2],
        "tgt_langs": [1, 1, 1, 1],
        "texts": [10, 20, 11, 21],
    }


def test_margin_rows_by_hand_and_by_gradcheck() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    y = torch.tensor([[0.6, 0.8], [0.0, 1.0]], dtype=torch.float64)
    rows = xlco.margin_rows(x, y, 0.3, 0.5)
    # Similarities .6 0 / .8 1, of which .3 is taken from those of the right ones; both directions.
    wanted = [np.log(1 + np.exp((0 - 0.3) / 0.5)) + np.log(1 + np.exp((0.8 - 0.3) / 0.5))]
    wanted += [np.log(1 + np.exp((0.8 - 0.7) / 0.5)) + np.log(1 + np.exp((0 - 0.7) / 0.5))]
    assert rows.tolist() == pytest.approx(wanted)
    assert torch.autograd.gradcheck(
        lambda a, b: xlco.margin_rows(a, b, 0.3, 0.25), (doubles(3, 3), doubles(3, 3, seed=1))
    )


@pytest.mark.parametrize(
    "rows",
    [
        lambda x, y, same: xlco.margin_rows(x, y, 0.3, 0.5, same),
        lambda x, y, same: hictl.sentence_rows(x, y, 0.5, 0.3, same),
    ],
)
def test_pairs_that_share_a_sentence_are_no_negatives(rows: Any) -> None:
    x, y = (F.normalize(doubles(4, 3, seed=seed).detach(), dim=-1) for seed in (1, 2))
    # Row 2 has the English sentence of row 0, as source in one and as target in the other.
    texts = [np.array(pair) for pair in ((7, 1), (8, 2), (3, 7), (9, 4))]
    same = xlco.same_text(texts)
    assert same.tolist() == [[0, 2], [2, 0]]
    alone = torch.stack([rows(x[[0, 1, 3]], y[[0, 1, 3]], None), rows(x[1:], y[1:], None)[[1, 0, 2]]])
    found = rows(x, y, same)
    torch.testing.assert_close(found[0], alone[0, 0])
    torch.testing.assert_close(found[2], alone[1, 0])
    assert (found[[1, 3]] > alone[0, 1:]).all(), "the other rows still have both as negatives"
    torch.testing.assert_close(rows(x, y, same[:0]), rows(x, y, None))


def test_one_english_sentence_beside_two_translations_costs_no_contrast(build: Any) -> None:
    _, task = build("xlco", "objectives.xlco.negatives=batch")
    task.load_dataset("valid")
    dataset = task.dataset("valid")
    samples = [dict(dataset[i]) for i in range(2)]
    assert dataset.collater(samples)["same_text"].tolist() == []
    samples[1]["texts"] = samples[0]["texts"][::-1]
    assert dataset.collater(samples)["same_text"].tolist() == [[0, 1], [1, 0]]


def test_xlco_takes_products_as_they_are_or_of_length_1_each_at_its_temperature(build: Any) -> None:
    for words, heat, raw in (
        ((), 0.25, True),
        (("normalise=true",), 0.05, False),
        (("temperature=.5",), 0.5, True),
    ):
        trainer, task = build("xlco", *(f"objectives.xlco.{word}" for word in words))
        task.load_dataset("valid")
        dataset, model, only = task.dataset("valid"), trainer.get_model(), task.objectives["xlco"]
        sample = dataset.collater([dataset[i] for i in range(3)])
        state = model.extras["xlco"]
        state.push(torch.randn(6, 32, generator=torch.Generator().manual_seed(1)))
        model.eval()
        query, key = state.query(model.encoder, sample["query"]), state.key(sample["key"])
        assert bool(((query.norm(dim=-1) - 1).abs() > 1e-3).all()) == raw
        wanted = F.cross_entropy(
            torch.cat([(query * key).sum(-1, keepdim=True), query @ state.negatives().t()], 1) / heat,
            torch.zeros(3, dtype=torch.int64),
            reduction="sum",
        )
        torch.testing.assert_close(only.loss(model, sample).total, wanted)


def test_xlco_contrasts_the_layer_of_the_paper(build: Any) -> None:
    _, task = build("xlco")
    assert [task.objectives["xlco"].layer(depth) for depth in (1, 2, 12, 24)] == [1, 1, 8, 12]
    _, task = build("xlco", "objectives.xlco.negatives=batch")
    assert [task.objectives["xlco"].layer(depth) for depth in (2, 12)] == [2, 12]


def test_the_encoder_of_the_keys_has_no_dropout_in_training(build: Any) -> None:
    state = build("xlco", "model.dropout=.5")[0].get_model().extras["xlco"]
    for mode in (True, False):
        assert state.train(mode) is state  # so that calls can be chained, as everywhere in torch
        assert (state.training, state.slow.training) == (mode, False)
        assert not any(module.training for module in state.slow.modules())


def test_the_queue_is_full_before_the_first_update(
    recipe: Any, bitext: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, Any]] = []
    follow = xlco.ContrastState.follow

    def spy(self: xlco.ContrastState, *rest: Any) -> None:
        seen.append((int(self.position[1]), self.queue.clone()))
        follow(self, *rest)

    monkeypatch.setattr(xlco.ContrastState, "follow", spy)
    for fill, size in (("true", 8), ("false", 8), ("true", 4096)):
        seen.clear()
        words = [f"objectives.xlco.{word}" for word in (f"fill={fill}", f"queue_size={size}", "mix=0")]
        train.run(recipe(bitext, "xlco", tmp_path / f"{fill}-{size}", *words, "train.batch_tokens=64"))
        filled, queue = seen[0]
        if size == 8:
            assert filled == 8 if fill == "true" else filled < 8
        else:  # fewer pairs than places: one epoch of them, each once but for the keys of the first update
            there = build_task(recipe(bitext, "xlco", tmp_path, *words)).build_dataset("train")
            assert len(there) < filled <= len(there) + 8
            assert len(queue[: len(there)].unique(dim=0)) > 0.9 * len(there)


def test_both_sides_are_masked_and_a_share_of_0_masks_nothing() -> None:
    pair = Pair(np.array([*range(10, 50), 2]), np.array([*range(50, 90), 2]), 0, 1)
    rule = MaskRule(prob=0.5, leave=0.0, random=0.0, mask_id=99, first_piece=4, end_piece=99)
    made = xlco.masked(pair, rule, np.random.default_rng(1))
    for side, before in ((made.src, pair.src), (made.tgt, pair.tgt)):
        assert (side == 99).sum() == 20 and (side[side != 99] == before[side != 99]).all()
    none = MaskRule(prob=0.0, leave=0.0, random=0.0, mask_id=99, first_piece=4, end_piece=99)
    assert xlco.masked(pair, none, np.random.default_rng(1)) is pair


def test_with_a_common_count_a_sentence_weighs_as_a_token(build: Any) -> None:
    words = ("objectives.xlco.weight=2", "model.dropout=0")
    trainer, task = build("mmlm+xlco", "mix=common", *words)
    task.load_dataset("train")
    dataset, model = task.dataset("train"), trainer.get_model()
    batch = dataset.batch_by_size(dataset.ordered_indices(), max_tokens=128)[0]
    sample = dataset.collater([dataset[int(i)] for i in batch])
    model.eval()
    losses = task.losses(model, sample)
    total, divisor = task.combine(losses, sample)
    torch.testing.assert_close(total, losses["mmlm"].total + 2 * losses["xlco"].total)
    assert divisor == losses["mmlm"].num + losses["xlco"].num > losses["mmlm"].num


def test_sentences_of_a_batch_are_each_others_negatives(build: Any) -> None:
    trainer, task = build("xlco", "objectives.xlco.negatives=batch", "objectives.xlco.mask_prob=0")
    task.load_dataset("valid")
    dataset, model = task.dataset("valid"), trainer.get_model()
    sample = dataset.collater([dataset[i] for i in range(3)])
    model.eval()
    x, y = (
        F.normalize(xlco.sentence_vectors(model.encoder, sample[side], 2), dim=-1)
        for side in ("query", "key")
    )
    found = task.objectives["xlco"].loss(model, sample)
    torch.testing.assert_close(found.rows, xlco.margin_rows(x, y, 0.3, 0.05, sample["same_text"]))
    assert "xlco" not in model.extras


@pytest.mark.parametrize(
    ("depth", "in_batch", "layer"), [(24, False, 12), (12, False, 8), (1, False, 1), (12, True, 12)]
)
def test_the_usual_layer_is_that_of_the_paper(depth: int, in_batch: bool, layer: int) -> None:
    asked = SimpleNamespace(cfg=SimpleNamespace(layer=0), in_batch=in_batch)
    assert xlco.Xlco.layer(asked, depth) == layer
