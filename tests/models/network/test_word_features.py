"""Encoders with ``model.features``: each word is read as a mix of the known words that are nearest to it."""

from __future__ import annotations

import copy
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack, sequence
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderModel
from xling.models.network.word_features import WordFeatures
from xling.static import encoder_files
from xling.static.known_words import NUM_NEIGHBOURS, TEMPERATURE
from xling.static.shape import StaticConfig
from xling.static.vectors import StaticEncoder
from xling.text import vocab
from xling.text.words.features import hash_features
from xling.training import checks
from xling.training.settings import PretrainConfig
from xling.training.train import run

TEXTS = ("the old house", "the new houses near the sea", "sea หญิง")


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_static(tmp_path_factory.mktemp("static") / "encoder", seed=1)


def make_static(folder: Path, seed: int) -> Path:
    with manifest.publish(folder, "pretrain static", {"seed": seed}, []) as made:
        encoder = encoder_files.random_encoder(StaticConfig(dim=24, bits=12, sketch=8), {}, seed)
        encoder_files.save_encoder(encoder, made.path)
    return folder


def settings(tiny: tuple[str, ...], data: Path, out: Path, *words: str) -> PretrainConfig:
    return config.load(PretrainConfig, overrides=[*tiny, f"data={data}", f"out={out}", *words])


@pytest.fixture(scope="module")
def taught(
    shards: Path, model: Path, static: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny model after further updates with the features; the words of its vocabulary in ASCII are known."""
    out = tmp_path_factory.mktemp("taught") / "model"
    words = [f"init={model}", f"model.features={static}", f"freeze_pieces={model}", "train.weight_decay=0"]
    run(settings(tiny, shards, out, *words, "train.updates=6"))
    return out


def batch(folder: Path) -> dict[str, Any]:
    processor = vocab.load_processor(folder)
    rows = [[0, *(piece + 1 for piece in processor.encode([text])[0]), 2] for text in TEXTS]
    return dict(pack([sequence(row, 0, id=np.array([i])) for i, row in enumerate(rows)])["net_input"])


def states(model: EncoderModel, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().encoder(**{k: v for k, v in inputs.items() if k != "langs"})


def names_of(folder: Path) -> list[str]:
    processor = vocab.load_processor(folder)
    return ["<s>", *(processor.id_to_piece(i) for i in range(processor.get_piece_size()))]


def test_each_piece_is_the_mean_of_its_row_and_of_the_words_nearest_to_its_whole_word(
    taught: Path, static: Path
) -> None:
    net, _ = model_weights.load_model(taught)
    tokens = net.encoder.tokens
    assert isinstance(tokens, WordFeatures)
    names, encoder = names_of(taught), encoder_files.load_encoder(static).without_sketch()
    known = [i for i, n in enumerate(names) if n.startswith("\u2581") and n[1:].isalpha() and n.isascii() is False
             and n[1:].isascii() and len(n) > 2]  # fmt: skip
    assert len(known) > 3
    assert tokens.is_known.nonzero().flatten().tolist() == known
    space = F.normalize(encoder.word_vectors([names[i][1:] for i in known]))
    processor = vocab.load_processor(taught)
    for word in ("house", "seas", "hatter"):
        ids = [piece + 1 for piece in processor.encode([word])[0]]
        assert min(ids) > 3 and len(ids) > 1, (word, ids)
        cosines = F.normalize(encoder.word_vectors([word])) @ space.T
        nearest = cosines.topk(min(NUM_NEIGHBOURS, len(known)))
        shares = torch.softmax(nearest.values[0] / TEMPERATURE, 0)
        mix = (shares[:, None] * tokens.weight[torch.tensor(known)[nearest.indices[0]]]).sum(0)
        expected = [tokens.weight[i] if names[i] == "\u2581" else (tokens.weight[i] + mix) / 2 for i in ids]
        with torch.no_grad():
            read = tokens(torch.tensor([0, *ids, 2]))
        torch.testing.assert_close(read[1:-1], torch.stack(expected), atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(read[[0, -1]], tokens.weight[[0, 2]])


def test_a_word_that_no_text_had_is_read_as_its_translation(tmp_path: Path) -> None:
    """The static encoder gives ``maji`` the place of ``water``; the vocabulary has it in letters that never learned."""
    shape = StaticConfig(dim=3, bits=12)
    table = torch.zeros(1 << shape.bits, 3)
    for word, axis in (("water", 0), ("maji", 0), ("fire", 1)):
        for feature in hash_features(word, shape.features).tolist():
            table[feature % len(table)] += torch.eye(3)[axis]
    with manifest.publish(tmp_path / "static", "pretrain static", {}, []) as made:
        encoder_files.save_encoder(StaticEncoder(shape, table, {}), made.path)
    rows = torch.nn.Embedding(11, 4, padding_idx=1)
    features = WordFeatures(rows, tmp_path / "static")
    features.spell(
        ["<s>", "<pad>", "</s>", "<unk>", "\u2581water", "\u2581fire", "\u2581ma", "ji", ",", "7", "<mask>"]
    )
    features.know([4, 5])
    with torch.no_grad():
        read = features(torch.tensor([0, 6, 7, 2, 0, 5, 8, 9, 10, 2]))
    wanted = (rows.weight[[6, 7, 5]] + rows.weight[[4, 4, 5]]) / 2
    torch.testing.assert_close(read[[1, 2, 5]], wanted, atol=1e-3, rtol=1e-3)
    assert torch.equal(read[[0, 3, 6, 7, 8]], rows.weight[[0, 2, 8, 9, 10]])  # signs, numbers, the mask


def test_a_batch_gives_the_states_of_its_texts_alone(taught: Path) -> None:
    net, _ = model_weights.load_model(taught)
    inputs = batch(taught)
    together = states(net, inputs)
    borders = [*np.flatnonzero(inputs["positions"].numpy() == 0).tolist(), len(together)]
    assert len(borders) == 4
    for first, last in pairwise(borders):
        alone = {"src_tokens": inputs["src_tokens"][first:last], "positions": inputs["positions"][first:last]}
        torch.testing.assert_close(
            states(net, alone | {"runs": [(1, last - first)]}), together[first:last], atol=1e-5, rtol=1e-4
        )


def test_copies_of_a_model_share_the_static_encoder(taught: Path) -> None:
    """Fine-tuning keeps a copy of each epoch to average them; each held the whole table."""
    net, _ = model_weights.load_model(taught)
    before = states(net, batch(taught))
    twin = copy.deepcopy(net)
    assert twin.encoder.tokens._known_words is net.encoder.tokens._known_words
    assert twin.encoder.tokens.weight is not net.encoder.tokens.weight
    torch.testing.assert_close(states(twin, batch(taught)), before)


def test_a_control_has_new_rows_and_the_same_words(taught: Path) -> None:
    control, net = (
        model_weights.load_model(taught, random_init=on)[0].encoder.tokens for on in (True, False)
    )
    assert not torch.equal(control.weight, net.weight)
    for name, spelled in net.named_buffers():
        assert spelled.any() and torch.equal(spelled, control.get_buffer(name)), name


def test_a_start_keeps_which_words_are_known(
    shards: Path, taught: Path, static: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    words = [f"init={taught}", f"model.features={static}", "train.updates=1"]
    run(settings(tiny, shards, tmp_path / "out", *words))
    before, after = (
        model_weights.load_model(folder)[0].encoder.tokens for folder in (taught, tmp_path / "out")
    )
    assert torch.equal(before.is_known, after.is_known)


def test_another_static_encoder_in_the_folder_is_refused(taught: Path, static: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    static.rename(kept)
    try:
        make_static(static, seed=2)
        net, _ = model_weights.load_model(taught)
        with pytest.raises(UserError, match="is not the one that the model was trained with"):
            states(net, batch(taught))
        shutil.rmtree(static)
        with pytest.raises(UserError, match="static encoder"):
            model_weights.load_model(taught)
    finally:
        shutil.rmtree(static, ignore_errors=True)
        kept.rename(static)


def test_a_start_with_features_of_another_static_encoder_is_refused(
    shards: Path, taught: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    other = make_static(tmp_path / "other", seed=3)
    words = [f"init={taught}", f"model.features={other}", "train.updates=1"]
    with pytest.raises(UserError, match="another static encoder"):
        run(settings(tiny, shards, tmp_path / "out", *words))


def test_a_folder_without_a_static_encoder_is_refused(
    shards: Path, model: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"model\.features=.*an output of xling pretrain static"):
        checks.check(settings(tiny, shards, tmp_path / "out", f"model.features={model}", "train.updates=1"))


def test_pieces_of_bytes_are_refused(static: Path) -> None:
    features = WordFeatures(torch.nn.Embedding(6, 8, padding_idx=1), static)
    with pytest.raises(UserError, match="SentencePiece or WordPiece"):
        features.spell(["<s>", "<pad>", "</s>", "<unk>", "Ġthe", "<mask>"])
    with pytest.raises(UserError, match="no piece of the vocabulary is a whole word"):
        features.spell(["<s>", "<pad>", "</s>", "<unk>", "##ing", "<mask>"])
    features.spell(["<s>", "<pad>", "</s>", "<unk>", "the", "##ing"])
    assert bytes(features.names[5]).rstrip(b"\0") == b"ing"
    assert features.is_known.tolist() == [False] * 4 + [True, False]
    with pytest.raises(UserError, match="no piece of the vocabulary is a whole word"):
        features.know([5])
