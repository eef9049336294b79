"""What no class of T5 can express, and what is no model of T5, is named in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sentencepiece import sentencepiece_model_pb2 as proto

from tests.hub.t5.conftest import SHAPE
from tests.hub.test_import import Planted, as_pickle, set_config, truncate
from tests.hub.test_mbart import publish
from xling import cli
from xling.core.errors import UserError
from xling.hub.export import ExportConfig, run_fairseq
from xling.hub.export import run_hf as export_hf
from xling.hub.imports import ImportConfig
from xling.hub.imports import run_hf as import_hf
from xling.models.files import model_weights


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"biases": True}, "model.biases=true, which T5's"),
        ({"norm": "layer"}, "model.norm=layer"),
        ({"unbiased_head": False}, "a bias at its output"),
        ({"embedding_norm": True}, "model.embedding_norm=true"),
        ({"scale_embeddings": True}, "model.scale_embeddings=true"),
        ({"positions": "learnt"}, "model.norm=rms and .*, which mBART's"),
    ],
)
def test_what_no_class_can_express_is_named(
    vocab: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    folder = publish(tmp_path / "m", vocab, **SHAPE | more)
    with pytest.raises(UserError, match=said):
        export_hf(ExportConfig(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_fairseq_has_no_class_for_it(imported: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.norm=rms .* which fairseq's classes cannot express"):
        run_fairseq(ExportConfig(imported, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def change_weights(
    change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]],
) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        save_file(change(load_file(folder / "model.safetensors")), folder / "model.safetensors")

    return changed


def change_pieces(change: Callable[[Any], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        model = proto.ModelProto.FromString((folder / "spiece.model").read_bytes())
        change(model.pieces)
        (folder / "spiece.model").write_bytes(model.SerializeToString())

    return changed


def drop(pieces_: Any, count: int = 60) -> None:
    del pieces_[260 : 260 + count]


def lose_a_sentinel(pieces_: Any) -> None:
    del pieces_[-3]


def other_tokens(folder: Path) -> None:
    names = ["<pad>", "</s>", "<unk>", *(f"x{i}" for i in range(487))]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [[name, 0] for name in names]}}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (change_pieces(lambda p: p.add(piece="<extra_id_200>", score=0, type=4)), "sentinels among its pieces"),
        (change_pieces(lose_a_sentinel), "99 sentinels among its pieces"),
        (change_pieces(lambda p: drop(p, 120)), "512 embeddings, and its tokenizer 370 ids"),
        (change_pieces(lambda p: drop(p, 3) or p[0].__setattr__("piece", "<unk>")), "begins with <unk>"),
        (other_tokens, "differ: piece 0"),
        (lambda folder: (folder / "spiece.model").write_bytes(b"no model"), "not a SentencePiece model"),
        (lambda folder: (folder / "spiece.model").unlink(), "has no SentencePiece model"),
        (set_config(feed_forward_proj="gated-silu"), "feed_forward_proj='gated-silu'"),
        (set_config(relative_attention_num_buckets=64), "relative_attention_num_buckets=64"),
        (set_config(is_encoder_decoder=False), "is_encoder_decoder=False"),
        (set_config(num_layers=3), "has no encoder.layers.2"),
        (set_config(num_decoder_layers=2), "2 layers, as its configuration says|by its configuration"),
        (set_config(dense_act_fn="relu"), "dense_act_fn='relu'; valid: 'gelu_new'"),
        (set_config(is_gated_act=False), "is_gated_act=False; valid: True"),
        (set_config(feed_forward_proj="relu", dense_act_fn="relu", is_gated_act=False),
         r"no weight encoder\.block\.0\.layer\.1\.DenseReluDense\.wi\.weight"),
        (set_config(d_kv=8), "by its configuration"),
        (set_config(model_type="umt5"), r"no weight encoder\.block\.1\.layer\.0\.SelfAttention\.relative"),
        (change_weights(lambda s: {k: v for k, v in s.items() if not k.startswith("decoder.")}),
         r"no weight decoder\.block\.0"),
        (change_weights(lambda s: {k: v for k, v in s.items() if "relative" not in k}), "relative_attention_bias"),
        (change_weights(lambda s: {f"transformer.{k}": v for k, v in s.items()}), "has no embeddings"),
        (change_weights(lambda s: s | {"encoder.embed_tokens.weight": s["shared.weight"] + 1}), "different embeddings"),
        (change_weights(lambda s: s | {"lm_head.weight": s["lm_head.weight"][:-9].clone()}), "output of 503 ids"),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_refused(
    copied: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(copied)
    with pytest.raises(UserError, match=said):
        import_hf(ImportConfig(copied, tmp_path / "out", ("en",)))
    assert not (tmp_path / "out").exists()


def test_languages_must_be_named(foreign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", "hf", str(foreign), str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "has no language tokens, and no language is given" in said and "Traceback" not in said
    assert cli.main(["import", "hf", str(foreign), str(tmp_path / "out"), "langs=en,sw"]) == 0
    assert model_weights.load_seq2seq(tmp_path / "out")[1].langs == ("en", "sw")


def test_code_in_a_pickle_is_refused_and_not_run(copied: Path, tmp_path: Path) -> None:
    as_pickle(copied, Planted(tmp_path / "ran"))
    for flag, said in ((False, "allow_pickle=true"), (True, "holds more than tensors")):
        with pytest.raises(UserError, match=said):
            import_hf(ImportConfig(copied, tmp_path / "out", ("en",), allow_pickle=flag))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()
