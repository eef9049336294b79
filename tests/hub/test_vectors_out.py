"""Exported encoders under sentence-transformers give our sentence vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hub.differences import largest
from tests.hub.test_mbart import shake
from xling.core.output import manifest
from xling.hub.export import run_hf
from xling.hub.settings import ExportConfig
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.text import vocab as vocabulary
from xling.transfer.backend import EncoderBackend

SHAPE = {"layers": 3, "dim": 32, "heads": 4, "ffn_dim": 48, "max_positions": 64}
SHAPES: dict[str, dict[str, Any]] = {
    "xlmr": {},
    "modernbert": {
        "positions": "rope", "attention": "local:4/global:3", "norm": "unshifted", "pre_norm": True, "biases": False,
        "ffn": "geglu", "first_norm": False, "head_biases": False,
    },
}  # fmt: skip
LINES = (
    "The old woman sees a red boat near the river.", "two books", "جارتي تبيع خبزا", "หญิงชรา", "x", "",
    "my neighbour sells bread " * 4,
)  # fmt: skip


def publish(folder: Path, vocab: Path, **more: Any) -> Path:
    """A published encoder with random weights."""
    rows = 5 + len((vocab / "dict.txt").read_text(encoding="utf-8").splitlines())
    model = EncoderModel(EncoderConfig(**SHAPE | more), rows)
    shake(model)
    with manifest.publish(folder, "test", {}, []) as made:
        vocabulary.copy_vocabulary(vocab, made.path)
        model_weights.save_model(made.path / "model.pt", model, ["en"], made.path)
        made.counts["langs"] = ["en"]
    return folder


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("shape", ["xlmr", "modernbert"])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_sentence_transformers_gives_our_vectors(
    vocab: Path, tmp_path: Path, shape: str, pooling: str
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = publish(tmp_path / "m", vocab, **SHAPES[shape])
    run_hf(ExportConfig(folder, tmp_path / "out", pooling=pooling))  # type: ignore[arg-type]
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(list(LINES[:5]))
    mine = EncoderBackend(folder, "pretrained", precision="fp32").embed(LINES[:5], "en", -1, pooling)
    assert np.abs(mine).max() > 0.1 and largest(theirs, mine) < 1e-5


def test_a_classifier_has_no_sentence_vectors(task: Any, tmp_path: Path) -> None:
    _, folder, _ = task("classify")
    run_hf(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out" / "modules.json").exists()


def test_the_modules_leave_out_the_specials(vocab: Path, tmp_path: Path) -> None:
    run_hf(ExportConfig(publish(tmp_path / "m", vocab), tmp_path / "out"))
    listed = json.loads((tmp_path / "out" / "modules.json").read_text())
    assert [each["path"] for each in listed] == ["", "1_WordWeights", "2_Pooling"]
    weights = json.loads((tmp_path / "out" / "1_WordWeights" / "config.json").read_text())
    assert weights["word_weights"] == {"<s>": 0.0, "</s>": 0.0} and weights["vocab"][:4] == [
        "<s>", "<pad>", "</s>", "<unk>",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_an_evaluator_of_sentence_transformers_scores_an_export(vocab: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import TranslationEvaluator

    run_hf(ExportConfig(publish(tmp_path / "m", vocab, **SHAPES["xlmr"]), tmp_path / "out"))
    exported = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    texts = list(LINES[:5])
    scores = TranslationEvaluator(texts, texts, name="same", write_csv=False)(exported)
    assert scores["same_src2trg_accuracy"] == scores["same_trg2src_accuracy"] == 1.0
