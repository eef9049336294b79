"""Encoders with ``model.features``: vectors of a static encoder beside the rows of the pieces."""

from __future__ import annotations

import shutil
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
from xling.static.piece_features import VECTOR_LENGTH
from xling.static.shape import StaticConfig
from xling.text import vocab
from xling.training import checks
from xling.training.settings import PretrainConfig
from xling.training.train import run

TEXTS = ("the old house", "the new houses near the sea", "sea")


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_static(tmp_path_factory.mktemp("static") / "encoder", seed=1)


def make_static(folder: Path, seed: int) -> Path:
    with manifest.publish(folder, "pretrain static", {"seed": seed}, []) as made:
        encoder = encoder_files.random_encoder(StaticConfig(dim=24, bits=12), {}, seed)
        encoder_files.save_encoder(encoder, made.path)
    return folder


def settings(tiny: tuple[str, ...], data: Path, out: Path, *words: str) -> PretrainConfig:
    return config.load(PretrainConfig, overrides=[*tiny, f"data={data}", f"out={out}", *words])


@pytest.fixture(scope="module")
def taught(
    shards: Path, model: Path, static: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The tiny model after 10 further updates with the features."""
    out = tmp_path_factory.mktemp("taught") / "model"
    run(settings(tiny, shards, out, f"init={model}", f"model.features={static}", "train.updates=10"))
    return out


def batch(folder: Path) -> dict[str, Any]:
    processor = vocab.load_processor(folder)
    rows = [[0, *(piece + 1 for piece in processor.encode([text])[0]), 2] for text in TEXTS]
    return dict(pack([sequence(row, 0, id=np.array([i])) for i, row in enumerate(rows)])["net_input"])


def states(model: EncoderModel, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model.eval().encoder(**inputs | ({} if model.encoder.langs else {"langs": None}))


def test_a_model_begins_as_it_is_without_features(
    shards: Path, model: Path, static: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    run(settings(tiny, shards, tmp_path / "a", f"init={model}", f"model.features={static}", "train.updates=1",
                 "train.lr=1e-30"))  # fmt: skip
    inputs = batch(model)
    with_features, without = (model_weights.load_model(folder)[0] for folder in (tmp_path / "a", model))
    torch.testing.assert_close(states(with_features, inputs), states(without, inputs))


def test_each_piece_gets_the_vector_of_its_whole_word_and_symbols_get_none(taught: Path, static: Path) -> None:
    net, _ = model_weights.load_model(taught)
    tokens = net.encoder.tokens
    assert isinstance(tokens, WordFeatures)
    processor = vocab.load_processor(taught)
    encoder = encoder_files.load_encoder(static)
    expected, ids = [], []
    for text in TEXTS:
        expected.append(torch.zeros(1, 24))
        ids.append(0)
        for word in text.split():
            pieces = processor.encode([word])[0]
            ids += [piece + 1 for piece in pieces]
            vector = F.normalize(encoder.word_vectors([word])) * VECTOR_LENGTH
            letters = [float(processor.id_to_piece(piece) != "\u2581") for piece in pieces]  # a lone mark is no letter
            expected.append(torch.tensor(letters)[:, None] * vector)
        expected.append(torch.zeros(1, 24))
        ids.append(2)
    with torch.no_grad():
        added = tokens(torch.tensor(ids)) - tokens.weight[ids]
        assert tokens.map.weight.abs().max() > 1e-3  # it learned
        torch.testing.assert_close(added, tokens.map(torch.cat(expected)), atol=1e-6, rtol=1e-5)


def test_a_batch_gives_the_states_of_its_texts_alone(taught: Path) -> None:
    net, _ = model_weights.load_model(taught)
    inputs = batch(taught)
    together = states(net, inputs)
    borders = [*np.flatnonzero(inputs["positions"].numpy() == 0).tolist(), len(together)]
    for first, last in zip(borders, borders[1:], strict=False):
        alone = {"src_tokens": inputs["src_tokens"][first:last], "positions": inputs["positions"][first:last]}
        alone |= {"runs": [(1, last - first)]}
        torch.testing.assert_close(states(net, alone), together[first:last], atol=1e-5, rtol=1e-4)


def test_a_control_keeps_the_spelling_and_not_the_map(taught: Path) -> None:
    control, _ = model_weights.load_model(taught, random_init=True)
    net, _ = model_weights.load_model(taught)
    assert torch.equal(control.encoder.tokens.names, net.encoder.tokens.names)
    assert not control.encoder.tokens.map.weight.any()


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
    with pytest.raises(UserError, match="another static encoder"):
        run(settings(tiny, shards, tmp_path / "out", f"init={taught}", f"model.features={other}", "train.updates=1"))


def test_a_folder_without_a_static_encoder_is_refused(
    shards: Path, model: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"model\.features=.*an output of xling pretrain static"):
        checks.check(settings(tiny, shards, tmp_path / "out", f"model.features={model}", "train.updates=1"))


def test_pieces_of_bytes_are_refused(static: Path) -> None:
    features = WordFeatures(torch.nn.Embedding(6, 8, padding_idx=1), static)
    with pytest.raises(UserError, match="SentencePiece or WordPiece"):
        features.spell(["<s>", "<pad>", "</s>", "<unk>", "Ġthe", "<mask>"])
    features.spell(["<s>", "<pad>", "</s>", "<unk>", "##ing", "<mask>"])
    assert bytes(features.names[4]).rstrip(b"\0") == b"ing" and not features.names[5].any()
