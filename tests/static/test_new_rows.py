"""Tests of `xling.static.new_rows`: embeddings of a new vocabulary from those of an old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.static import new_rows
from xling.static.pieces import FIRST_PIECE_ID
from xling.text.vocab import VocabConfig
from xling.text.vocab import run as make_vocab
from xling.training import assemble, checks, train


@pytest.fixture(scope="module")
def other(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of the English words alone."""
    folder = tmp_path_factory.mktemp("other")
    words = sorted(
        {word for word in (corpus / "en.txt").read_text("utf-8").lower().split() if word.isalpha()}
    )
    order = np.random.default_rng(1).permuted(np.tile(np.arange(len(words)), (60, 1)), axis=1)
    (folder / "en.txt").write_text("".join(" ".join(words[i] for i in row) + "\n" for row in order), "utf-8")
    cfg = VocabConfig(corpora={"en": (str(folder / "en.txt"),)}, out=str(folder / "vocab"), size=55)
    make_vocab(cfg)
    return folder / "vocab"


def tables(old: Path, new: Path) -> tuple[torch.Tensor, torch.Tensor, list[str], list[str]]:
    """An old table of random rows and a new one of zeros, with the names of their pieces."""
    names = [new_rows.Vocabulary.read(folder).names for folder in (old, new)]
    generator = torch.Generator().manual_seed(3)
    old_table = torch.randn(FIRST_PIECE_ID + len(names[0]) + 1, 16, generator=generator) + 0.5
    return old_table, torch.zeros(FIRST_PIECE_ID + len(names[1]) + 1, 16), *names


@pytest.mark.parametrize("how", ["overlap", "mean", "fvt", "random"])
def test_symbols_are_copied_and_rows_come_from_the_old_ones(vocab: Path, other: Path, how: str) -> None:
    old_table, table, old_names, names = tables(other, vocab)
    counts = new_rows.start_rows(table, old_table, vocab, other, how)
    assert sum(counts.values()) == len(names)
    assert torch.equal(table[:FIRST_PIECE_ID], old_table[:FIRST_PIECE_ID])
    assert torch.equal(table[-1], old_table[-1])
    rows, old_rows = table[FIRST_PIECE_ID:-1], old_table[FIRST_PIECE_ID:-1]
    if how in ("overlap", "fvt"):
        shared = [name for name in names if name in old_names]
        assert 10 < len(shared) < len(names)
        for name in shared:
            assert torch.equal(rows[names.index(name)], old_rows[old_names.index(name)])
    processor = new_rows.Vocabulary.read(other).processor
    for number, name in enumerate(names):
        if name in old_names and how in ("overlap", "fvt"):
            continue
        ids = [i - 3 for i in processor.encode(name.replace("\u2581", "")) if i >= 3] if how == "fvt" else []
        if how != "random":
            wanted = old_rows[ids].mean(0) if ids else old_rows.mean(0)
            torch.testing.assert_close(rows[number], wanted)
    if how == "random":
        torch.testing.assert_close(rows.mean(0), old_rows.mean(0), atol=0.3, rtol=0)
        torch.testing.assert_close(rows.std(0), old_rows.std(0), atol=0.3, rtol=0)


@pytest.mark.parametrize("how", ["focus", "wechsel"])
def test_words_of_equal_static_vectors_get_the_row_of_their_translation(
    vocab: Path, other: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_table, table, old_names, names = tables(other, vocab)
    word = next(n for n in old_names if n in names and n.startswith("\u2581") and len(n) > 1)
    foreign = next(n for n in names if n not in old_names and not n.isascii() and len(n) > 2)

    class Space:
        """Every word has a direction of its own, but for the two, which share one."""

        def without_sketch(self) -> Space:
            return self

        def word_vectors(self, words: list[str]) -> torch.Tensor:
            plain = foreign.replace("\u2581", "")
            same = [word.replace("\u2581", "") if each == plain else each for each in words]
            seeds = [int.from_bytes(each.encode(), "big") % (1 << 60) for each in same]
            return torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(s)) for s in seeds])

    monkeypatch.setattr(new_rows.encoder_files, "load_encoder", lambda _: Space())
    counts = new_rows.start_rows(table, old_table, vocab, other, how, Path("encoder"))
    assert sum(counts.values()) == len(names) and counts["mixed"] > 0
    rows, old_rows = table[FIRST_PIECE_ID:-1], old_table[FIRST_PIECE_ID:-1]
    target, got = old_rows[old_names.index(word)], rows[names.index(foreign)]
    assert torch.equal(rows[names.index(word)], target)
    mean = old_rows.mean(0)
    assert torch.cosine_similarity(got - mean, target - mean, dim=0) > 0.9
    far = (old_rows - mean).norm(dim=1).mean()
    torch.testing.assert_close((got - mean).norm(), far)


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    weights = new_rows.sparsemax(torch.tensor([[0.5, 0.3, -2.0], [3.0, 0.0, 0.0], [0.2, 0.2, 0.2]]))
    wanted = torch.tensor([[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(weights, wanted)


def test_a_training_starts_from_another_vocabulary(
    shards: Path, other: Path, tiny: tuple[str, ...], tmp_path: Path, corpus: Path
) -> None:
    from xling.core.settings import config
    from xling.corpora.binarize import BinarizeConfig
    from xling.corpora.binarize import run as binarize
    from xling.training.settings import PretrainConfig

    def settings(data: Path, *words: str) -> Any:
        return config.load(PretrainConfig, overrides=[*tiny, f"data={data}", "train.updates=1", *words])

    old = tmp_path / "old"
    binarize(BinarizeConfig(vocab=str(other), out=str(old), corpora={"en": (str(corpus / "en.txt"),)}))
    train.run(settings(old, f"out={tmp_path / 'start'}"))
    cfg = settings(shards, f"out={tmp_path / 'out'}", f"init={tmp_path / 'start'}", "embeddings=fvt")
    checks.check(cfg)
    trainer, _ = assemble.build_trainer(cfg, tmp_path / "save")
    from xling.models.files.model_weights import load_model

    start = load_model(tmp_path / "start")[0]
    model = trainer.model
    assert torch.equal(
        model.encoder.layers[0].qkv.weight,
        start.encoder.layers[0].qkv.weight.to(model.encoder.layers[0].qkv.weight),
    )
    wanted = torch.zeros_like(model.encoder.tokens.weight).float()
    new_rows.start_rows(wanted, start.encoder.tokens.weight.detach(), shards, tmp_path / "start", "fvt")
    torch.testing.assert_close(model.encoder.tokens.weight.detach().float(), wanted, atol=1e-2, rtol=1e-2)
    for words, said in (
        ([f"init={tmp_path / 'start'}"], "was trained with vocabulary"),
        (["embeddings=fvt"], "init=MODEL"),
        ([f"init={tmp_path / 'start'}", "embeddings=focus"], "init_pieces=ENCODER"),
        ([f"init={tmp_path / 'start'}", "embeddings=mean", "init_pieces=x"], "focus or wechsel alone"),
    ):
        with pytest.raises(UserError, match=said):
            checks.check(settings(shards, f"out={tmp_path / 'no'}", *words))
    with pytest.raises(UserError, match="same vocabulary"):
        checks.check(settings(old, f"out={tmp_path / 'no'}", f"init={tmp_path / 'start'}", "embeddings=fvt"))


def test_start_rows_keep_no_graph_of_the_old_table(vocab: Path, other: Path) -> None:
    old = torch.nn.Parameter(torch.randn(FIRST_PIECE_ID + len(new_rows.Vocabulary.read(other).names) + 1, 4))
    new = torch.nn.Parameter(torch.zeros(FIRST_PIECE_ID + len(new_rows.Vocabulary.read(vocab).names) + 1, 4))
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        new_rows.start_rows(new, old, vocab, other, "fvt")
    assert new.any() and not kept  # what is kept for a gradient of all blocks together outgrows the memory


def test_kept_rows_get_no_gradient(vocab: Path, other: Path) -> None:
    names = new_rows.Vocabulary.read(vocab).names
    table = torch.nn.Parameter(torch.ones(FIRST_PIECE_ID + len(names) + 1, 2))
    shared = set(new_rows.Vocabulary.read(other).names)
    is_kept = [name in shared and name.replace("\u2581", "").isascii() for name in names]
    rows = new_rows.rows_to_keep(vocab, other)
    assert len(rows) - FIRST_PIECE_ID == sum(is_kept) > 10
    new_rows.keep_rows(table, rows)
    table.sum().backward()
    assert table.grad is not None
    assert table.grad[FIRST_PIECE_ID:-1, 0].tolist() == [float(not kept) for kept in is_kept]
    assert not table.grad[:FIRST_PIECE_ID].any() and table.grad[-1].all()
