"""Small T5 and mT5 models with random weights, as transformers writes them and as ours."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece as spm
import torch
from sentencepiece import sentencepiece_model_pb2 as proto
from torch import nn

from tests.hub.test_import import set_config
from tests.hub.test_mbart import shake
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf

KINDS = ("mt5", "t5", "t5_1.1")
NUM_PIECES = {"mt5": 390, "t5": 130, "t5_1.1": 130}  # 256 of mT5's are bytes
SHAPE = {
    "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative", "ffn": "gated_gelu",
    "head_dim": 10, "unbiased_head": True, "untied_head": True, "source_lang": False, "norm_eps": 1e-6,
}  # fmt: skip


@pytest.fixture(scope="session")
def spiece(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The SentencePiece model of T5 (neither bytes nor sentinels in it) or mT5 (both) over the tiny corpus."""
    folder = tmp_path_factory.mktemp("spiece")

    def made(kind: str) -> Path:
        path, is_mt5 = folder / f"{kind}.model", kind == "mt5"
        if not path.is_file():
            lines = [
                line
                for name in ("en", "ar", "th")
                for line in (corpus / f"{name}.txt").read_text("utf-8").splitlines()
            ]
            spm.SentencePieceTrainer.train(
                sentence_iterator=iter(lines), model_prefix=str(path.with_suffix("")), vocab_size=NUM_PIECES[kind],
                pad_id=0, eos_id=1, unk_id=2, bos_id=-1, byte_fallback=is_mt5, minloglevel=2, num_threads=1,
            )  # fmt: skip
            if is_mt5:  # as in seqio's SentencePieceVocabulary
                model = proto.ModelProto.FromString(path.read_bytes())
                for number in reversed(range(100)):
                    model.pieces.add(piece=f"▁<extra_id_{number}>", score=0.0, type=4)
                path.write_bytes(model.SerializeToString())
        return path

    return made


@pytest.fixture(scope="session")
def foreigns(
    spiece: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Small models with random weights, as save_pretrained writes them, by kind."""
    import transformers

    root = tmp_path_factory.mktemp("foreign")

    def made(kind: str) -> Path:
        folder = root / kind
        if folder.is_dir():
            return folder
        size = NUM_PIECES[kind] + 100
        shape = {
            "vocab_size": -(-size // 128) * 128, "d_model": 32, "d_kv": 10, "d_ff": 48, "num_layers": 2,
            "num_decoder_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
        }  # fmt: skip
        name = "MT5" if kind == "mt5" else "T5"
        if kind == "t5_1.1":
            shape |= {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
        model = getattr(transformers, f"{name}ForConditionalGeneration")(
            getattr(transformers, f"{name}Config")(**shape)
        )
        if kind != "t5":
            model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
        shake(model)
        if kind == "t5":  # whose states are divided by the root of the width before the output
            with torch.no_grad():
                model.decoder.final_layer_norm.weight.mul_(5)
        model.save_pretrained(folder)
        if kind == "t5_1.1":  # as the released ones say it
            set_config(tie_word_embeddings=False)(folder)
        shutil.copy(spiece(kind), folder / "spiece.model")
        return folder

    return made


@pytest.fixture(scope="session")
def imports(
    foreigns: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """The foreign models as ours, with tokens for en, sw and th."""
    root = tmp_path_factory.mktemp("imported")

    def made(kind: str) -> Path:
        if not (root / kind).is_dir():
            import_hf(ImportConfig(foreigns(kind), root / kind, ("en", "sw", "th")))
        return root / kind

    return made


@pytest.fixture(scope="session")
def foreign(foreigns: Callable[[str], Path]) -> Path:
    return foreigns("mt5")


@pytest.fixture(scope="session")
def imported(imports: Callable[[str], Path]) -> Path:
    return imports("mt5")
