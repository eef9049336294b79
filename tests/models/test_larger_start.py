"""Larger encoders from the weights of smaller ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.conftest import settings
from xling.core.errors import UserError
from xling.models import larger_start
from xling.models.files.model_weights import load_model, save_model
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.training.assemble import build_trainer

MODERN: dict[str, Any] = {
    "positions": "rope", "ffn": "geglu", "norm": "unshifted", "biases": False, "pre_norm": True, "first_norm": False,
    "head_biases": False, "attention": "local:4/global:2", "qk_norm": True,
}  # fmt: skip
T5: dict[str, Any] = {
    "positions": "relative",
    "norm": "rms",
    "ffn": "gated_gelu",
    "biases": False,
    "pre_norm": True,
}


def shape(layers: int, width: int, heads: int, **more: Any) -> EncoderConfig:
    return EncoderConfig(
        layers=layers,
        dim=width,
        heads=heads,
        ffn_dim=2 * width,
        max_positions=32,
        dropout=0.0,
        precision="fp32",
        **more,
    )


def published(vocab: Path, folder: Path, cfg: EncoderConfig, size: int) -> Path:
    import shutil

    torch.manual_seed(1)
    model = EncoderModel(cfg, size)
    with torch.no_grad():
        for weight in model.parameters():  # norms and biases, too, are not what they begin as
            weight.add_(0.05 * torch.randn_like(weight))
    folder.mkdir()
    shutil.copy(vocab / "dict.txt", folder / "dict.txt")
    save_model(folder / "model.pt", model, ["en"], folder)
    return folder


def logits(model: EncoderModel, size: int) -> torch.Tensor:
    tokens = torch.randint(4, size, (12,), generator=torch.Generator().manual_seed(2))
    runs = ((1, 5), (1, 7))  # sequences and their length
    positions = torch.cat([torch.arange(5), torch.arange(7)])
    with torch.no_grad():
        return model.eval().lm_head.logits(model(tokens, positions, runs))


@pytest.mark.parametrize("more", [{}, MODERN, T5], ids=["xlmr", "modern", "t5"])
def test_a_model_of_twice_the_width_computes_the_same(
    vocab: Path, tmp_path: Path, more: dict[str, Any]
) -> None:
    size = len((vocab / "dict.txt").read_text().splitlines()) + 5
    folder = published(vocab, tmp_path / "small", shape(2, 16, 2, **more), size)
    small, _ = load_model(folder)
    large = EncoderModel(shape(2, 48, 6, **more), size)
    larger_start.start_tiled(large, folder, folder, 0.0)
    assert torch.allclose(logits(large, size), logits(small, size), atol=1e-4)
    noisy = EncoderModel(shape(2, 48, 6, **more), size)
    larger_start.start_tiled(noisy, folder, folder, 0.1)
    weight, copy = (made.encoder.layers[1].up.weight.detach() for made in (noisy, large))
    assert 0.05 < float((weight - copy).std() / copy.std()) < 0.15
    assert len({float(x) for x in weight[:, 0]}) == len(weight), "no two copies are equal"


def test_widths_that_do_not_divide_are_centred_and_layers_repeat(vocab: Path, tmp_path: Path) -> None:
    size = len((vocab / "dict.txt").read_text().splitlines()) + 5
    folder = published(vocab, tmp_path / "small", shape(2, 16, 2), size)
    small, _ = load_model(folder)
    large = EncoderModel(shape(3, 24, 3), size)
    larger_start.start_tiled(large, folder, folder, 0.0)
    words, rows = small.encoder.tokens.weight, large.encoder.tokens.weight
    assert torch.equal(rows[:, 4:20], words) and torch.equal(rows[:, :4], words[:, 12:])
    assert torch.equal(rows[:, 20:], words[:, :4])
    for layer, source in ((0, 0), (1, 0), (2, 1)):
        mine, theirs = large.encoder.layers[layer].attn_norm, small.encoder.layers[source].attn_norm
        assert torch.equal(mine.weight[4:20], theirs.weight)
    assert len(logits(large, size)) == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [({"dim": 8, "heads": 1}, "at least 16"), ({"layers": 1}, "at least 2"), ({"heads": 6}, "heads as wide"),
     ({"pre_norm": True}, "pre_norm"), ({"max_positions": 64}, "positions")],
)  # fmt: skip
def test_a_model_that_is_no_enlargement_is_refused(
    vocab: Path, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    size = len((vocab / "dict.txt").read_text().splitlines()) + 5
    folder = published(vocab, tmp_path / "small", shape(2, 16, 2), size)
    large = EncoderModel(replace(shape(2, 24, 3), **change), size)
    with pytest.raises(UserError, match=said):
        larger_start.start_tiled(large, folder, folder, 0.01)


def test_a_training_starts_tiled(shards: Path, tiny: tuple[str, ...], tmp_path: Path, model: Path) -> None:
    small, _ = load_model(model)
    width, heads = small.cfg.dim, small.cfg.heads
    words = (f"model.dim={2 * width}", f"model.heads={2 * heads}", f"init={model}", "model.precision=fp32")
    cfg = settings(shards, tiny, tmp_path / "large", *words, "init_tiled=true", "init_noise=0")
    trainer, _ = build_trainer(cfg, tmp_path)
    rows, begin = trainer.model.encoder.tokens.weight, width // 2
    assert torch.equal(rows[:, begin : begin + width], small.encoder.tokens.weight)
    for more, said in (("init_layers=0", "init_layers"), ("freeze=body", "freeze"), ("init=", "init_tiled")):
        with pytest.raises(UserError, match=said):
            build_trainer(
                settings(shards, tiny, tmp_path / "large", *words, "init_tiled=true", more), tmp_path
            )
