"""Tests of `xling.static.pieces`: vectors of pieces that start from the words of a static encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.manifest import publish
from xling.core.settings import config
from xling.static import encoder_files, pieces
from xling.static.shape import StaticConfig
from xling.static.vectors import word_hash
from xling.training import assemble, train
from xling.training.settings import PretrainConfig


def saved(folder: Path, dim: int, seed: int = 1) -> Path:
    """A static encoder with a random table, published as `xling pretrain static` does."""
    share = {word_hash(word): 0.05 for word in "aeot"}
    encoder = encoder_files.random_encoder(StaticConfig(dim=dim, bits=12, sketch=0), share, seed)
    with publish(folder, "pretrain static", StaticConfig()) as out:
        encoder_files.save_encoder(encoder, out.path)
    return folder


@pytest.mark.parametrize("dim", [8, 24, 40])
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_keep_the_angles_and_the_size(shards: Path, tmp_path: Path, dim: int, seed: int) -> None:
    folder = saved(tmp_path / "encoder", dim, seed)
    names = [line.split()[0] for line in (shards / "dict.txt").read_text("utf-8").splitlines()]
    before = torch.randn(len(names) + 9, 24, generator=torch.Generator().manual_seed(seed)) * 0.02
    table = before.clone()
    num = pieces.initialise_pieces(table, folder, shards)
    words = [name.replace(pieces.WORD_START, "") for name in names]
    encoder = encoder_files.load_encoder(folder)
    vectors = encoder.word_vectors(words)
    assert encoder.weight("e") < 0.1 and "e" in words
    readable = vectors.norm(dim=1) > 0
    rows = torch.zeros(len(table), dtype=torch.bool)
    rows[pieces.FIRST_PIECE_ID : pieces.FIRST_PIECE_ID + len(names)] = readable
    assert num == int(readable.sum()) > len(names) / 2
    assert torch.equal(table[~rows], before[~rows])  # symbols, languages and signs
    width = min(dim, 24)
    assert torch.equal(table[rows, width:], before[rows, width:])
    new, old = table[rows, :width], before[rows, :width]
    torch.testing.assert_close(new.square().mean(), old.square().mean())
    # A frequent word has as long a row as a rare one.
    torch.testing.assert_close(new.norm(dim=1), new.norm(dim=1).mean().expand(len(new)))
    centred = F.normalize(vectors[readable], dim=1)
    centred -= centred.mean(0)
    if dim > 24:  # what is left is the most that so many dimensions can hold
        centred = centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:width].T
    wanted = F.normalize(centred, dim=1)
    torch.testing.assert_close(new @ new.T / new[0].square().sum(), wanted @ wanted.T, atol=1e-4, rtol=1e-3)


def settings(shards: Path, tiny: tuple[str, ...], *words: str) -> PretrainConfig:
    return config.load(PretrainConfig, overrides=[*tiny, f"data={shards}", *words])


def test_a_training_starts_there_and_its_key_holds_the_encoder(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    encoder = saved(tmp_path / "encoder", 32)
    cfg = settings(shards, tiny, f"out={tmp_path / 'out'}", f"init_pieces={encoder}", "train.updates=1")
    trainer, _ = assemble.build_trainer(cfg, tmp_path / "save")
    other = settings(shards, tiny, f"out={tmp_path / 'out'}", "train.updates=1")
    plain, _ = assemble.build_trainer(other, tmp_path / "save")
    wanted = plain.model.encoder.tokens.weight.detach().clone()
    pieces.initialise_pieces(wanted, encoder, shards)
    assert torch.equal(trainer.model.encoder.tokens.weight, wanted)
    train.run(cfg)
    assert str(encoder) in manifest.read(tmp_path / "out").inputs


def test_mistakes(shards: Path, tiny: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a static encoder"):
        pieces.initialise_pieces(torch.zeros(200, 8), shards, shards)
    (tmp_path / "dict.txt").write_text("\u2581 1\n<0x0A> 1\n", encoding="utf-8")
    with pytest.raises(UserError, match="can read none of the 2 pieces"):
        pieces.initialise_pieces(torch.zeros(20, 8), saved(tmp_path / "encoder", 8), tmp_path)
    with pytest.raises(UserError, match="absent"):
        train.run(settings(shards, tiny, f"out={tmp_path / 'out'}", f"init_pieces={tmp_path / 'absent'}"))
