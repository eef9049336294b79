"""Characters as input and two readers: what a state may have read, and what a model keeps of its spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from xling.core.errors import UserError
from xling.data.packing import pack
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.papers.bilm import example, loss_of
from xling.papers.char_cnn import LONGEST, spelled
from xling.papers.two_way import turned

SHAPE = {"layers": 2, "dim": 16, "heads": 2, "ffn_dim": 32, "dropout": 0.0, "max_positions": 16}
NAMES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "\u2581the",
    "the",
    "\u2581\u4e2d\u6587",
    "x" * 90,
    "<s>x",
    "a",
    "b",
    "<mask>",
]


def model(**more: object) -> EncoderModel:
    torch.manual_seed(1)
    made = EncoderModel(EncoderConfig(**SHAPE, **more), len(NAMES)).eval()
    if hasattr(made.encoder.tokens, "spell"):
        made.encoder.tokens.spell(NAMES)
    return made


@pytest.mark.parametrize("pre_norm", [False, True])
def test_each_half_reads_one_way_only(pre_norm: bool) -> None:
    encoder = model(two_way=True, pre_norm=pre_norm).double()
    ids, places, runs = (
        torch.tensor([0, 4, 5, 6, 2, 9, 10]),
        torch.tensor([0, 1, 2, 3, 4, 0, 1]),
        [(1, 5), (1, 2)],
    )
    clean = encoder(ids, places, runs)
    for changed in range(5):
        other = ids.clone()
        other[changed] = 8
        moved = ~torch.isclose(encoder(other, places, runs), clean)
        assert moved[:5, :8].any(1).tolist() == [place >= changed for place in range(5)]
        assert moved[:5, 8:].any(1).tolist() == [place <= changed for place in range(5)]
        assert not moved[5:].any()


def test_the_same_sequence_in_any_batch() -> None:
    encoder = model(two_way=True)
    alone = encoder(torch.tensor([0, 4, 5]), torch.arange(3), [(1, 3)])
    both = encoder(torch.tensor([0, 9, 10, 0, 4, 5]), torch.arange(3).repeat(2), [(2, 3)])
    assert torch.allclose(both[3:], alone, atol=1e-5)
    order = turned([(2, 3), (1, 2)], "cpu")
    assert order.tolist() == [2, 1, 0, 5, 4, 3, 7, 6] and torch.equal(order[order], torch.arange(8))


@pytest.mark.parametrize("two_way", [False, True])
def test_losses_are_those_of_a_forward_and_a_backward_model(two_way: bool) -> None:
    encoder, tokens = model(two_way=two_way), [0, 4, 9, 6, 2]
    made = example(torch.tensor(tokens).numpy())
    sample = pack([made | {"id": made["positions"][:1], "target_langs": 0 * made["target"]}])
    rows = loss_of(encoder, sample).rows
    ids, places = torch.tensor(tokens), torch.arange(5)
    if two_way:
        states = encoder(ids, places, [(1, 5)])
        ahead, back = (
            torch.cat([states[:, :8], 0 * states[:, :8]], 1),
            torch.cat([0 * states[:, 8:], states[:, 8:]], 1),
        )
    else:
        ahead = encoder(ids, places, [(1, 5)], causal=True)
        back = encoder(ids.flip(0), places, [(1, 5)], causal=True).flip(0)
    logits = encoder.lm_head.logits(torch.cat([ahead[:-1], back[1:]]))
    wanted = torch.nn.functional.cross_entropy(logits, torch.cat([ids[1:], ids[:-1]]), reduction="none")
    assert torch.allclose(rows, wanted, atol=1e-4)


def test_words_are_spelled_in_bytes_and_special_tokens_are_no_text() -> None:
    rows = spelled(NAMES)
    assert {len(row) for row in rows} == {LONGEST} and len({*map(tuple, rows)}) == len(NAMES)
    assert bytes(n - 1 for n in rows[6][1:10]).decode() == NAMES[6]
    vectors = model(char_cnn=2).encoder.tokens(torch.arange(len(NAMES)))
    assert not torch.allclose(vectors[0], vectors[8], atol=1e-3)
    shaped = model(char_cnn=2).encoder.tokens(torch.tensor([[4, 5], [5, 4]]))
    assert torch.allclose(shaped, vectors[torch.tensor([[4, 5], [5, 4]])], atol=1e-5)


def test_a_checkpoint_keeps_the_spelling_and_so_does_its_random_control(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("".join(f"{name} 1\n" for name in NAMES[4:-1]), encoding="utf-8")
    first = model(char_cnn=2, two_way=True)
    model_weights.save_model(tmp_path / "model.pt", first, ["en"], tmp_path)
    again, _ = model_weights.load_model(tmp_path)
    random, _ = model_weights.load_model(tmp_path, random_init=True)
    ids = torch.arange(len(NAMES))
    assert torch.equal(again.encoder.tokens(ids), first.encoder.tokens(ids))
    assert torch.equal(random.encoder.tokens.bytes, first.encoder.tokens.bytes)
    assert not torch.equal(random.encoder.tokens(ids), first.encoder.tokens(ids))


@pytest.mark.parametrize("wrong", [{"dim": 15, "heads": 1}, {"positions": "rope"}, {"lang_adapter": 4}])
def test_what_has_no_halves_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"model.two_way with"):
        EncoderModel(EncoderConfig(**SHAPE | wrong, two_way=True), 12)
