"""Exported encoders under sentence-transformers and ONNX Runtime give our states and sentence vectors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.hub.test_mbart import shake
from xling.core import manifest
from xling.core.errors import UserError
from xling.hub.config import ExportConfig, OnnxConfig
from xling.hub.export import run_hf
from xling.hub.onnx import run as run_onnx
from xling.models import checkpoint
from xling.models.encoder import EncoderConfig, EncoderModel
from xling.text import vocab as vocabulary
from xling.transfer.backend import EncoderBackend

SHAPE = {"layers": 3, "dim": 32, "heads": 4, "ffn_dim": 48, "max_positions": 64}
SHAPES: dict[str, dict[str, Any]] = {
    "xlmr": {},
    "modernbert": {
        "positions": "rope", "attention": "local:4/global:3", "norm": "unshifted", "pre_norm": True, "biases": False,
        "ffn": "geglu", "first_norm": False, "head_biases": False,
    },
    "relative": {"positions": "relative", "norm": "rms", "embedding_norm": False, "pre_norm": True},
    "umt5": {"positions": "relative", "layer_biases": True, "norm": "rms", "pre_norm": True},
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
        vocabulary.copy(vocab, made.path)
        checkpoint.save_model(made.path / "model.pt", model, ["en"], made.path)
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
    assert np.abs(mine).max() > 0.1 and np.abs(theirs - mine).max() < 1e-5


@pytest.mark.parametrize("shape", SHAPES)
def test_onnx_runtime_gives_our_states_and_vectors(vocab: Path, tmp_path: Path, shape: str) -> None:
    import onnxruntime
    from tokenizers import Tokenizer

    folder = publish(tmp_path / "m", vocab, **SHAPES[shape])
    pooling = "cls" if shape == "relative" else "mean"
    run_onnx(OnnxConfig(folder, tmp_path / "out", pooling))  # type: ignore[arg-type]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx", options, ["CPUExecutionProvider"])
    fast = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    backend = EncoderBackend(folder, "pretrained", precision="fp32")
    mine = backend.embed(LINES, "en", -1, pooling)
    fast.enable_padding(pad_id=1, pad_token="<pad>")
    for rows in (range(len(LINES)), range(1), range(4, 6)):
        batch = fast.encode_batch([LINES[row] for row in rows])
        ids, seen = (np.array([getattr(each, name) for each in batch]) for name in ("ids", "attention_mask"))
        states, vectors = session.run(None, {"input_ids": ids, "attention_mask": seen})
        assert states.shape == (*ids.shape, 32)
        assert np.abs(vectors - mine[list(rows)]).max() < 1e-4
        model = checkpoint.load_model(folder)[0].eval()
        for row, mask, found in zip(ids, seen, states, strict=True):
            length = int(mask.sum())
            with torch.inference_mode():
                wanted = model(torch.tensor(row[:length]), torch.arange(length), [(1, length)]).numpy()
            assert np.abs(found[:length] - wanted).max() < 1e-4


def test_what_onnx_cannot_express_is_refused(
    vocab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish(tmp_path / "m", vocab)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"onnxscript is not installed.*pip install 'xling\[onnx\]'"):
        run_onnx(OnnxConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


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
