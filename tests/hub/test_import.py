"""Models of transformers' and fairseq's own classes, with random weights, give the same numbers here."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.hub.differences import largest
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack
from xling.hub import layouts
from xling.hub.imports import ImportConfig, run_fairseq, run_hf
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.text import vocab as vocabulary
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain

SEQUENCES = [[0, 5, 9, 120, 7, 33, 2], [0, 2], [0, 44, 131, 6, 2]]


def ours(folder: Path) -> list[torch.Tensor]:
    model = model_weights.load_model(folder)[0].eval()
    found = []
    with torch.inference_mode():
        for tokens in SEQUENCES:
            example = {"id": np.array([0]), "tokens": np.array(tokens), "positions": np.arange(len(tokens))}
            found.append(model.lm_head.logits(model(**pack([example])["net_input"])))
    return found


@pytest.fixture(scope="module")
def foreign(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small XLMRobertaForMaskedLM with random weights, as save_pretrained writes it."""
    from transformers import XLMRobertaConfig, XLMRobertaForMaskedLM

    torch.manual_seed(3)
    num_pieces = len((vocab / "dict.txt").read_text().splitlines())
    model = XLMRobertaForMaskedLM(
        XLMRobertaConfig(
            vocab_size=num_pieces + 5, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=48, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1,
            layer_norm_eps=1e-5, initializer_range=0.2,
        )
    )  # fmt: skip
    for name, parameter in model.named_parameters():  # biases and norms are not random by themselves
        if name.endswith("bias") or "norm" in name.lower():
            torch.nn.init.normal_(parameter, 0.5, 0.3)
    folder = tmp_path_factory.mktemp("foreign") / "xlmr"
    model.save_pretrained(folder)
    shutil.copy(vocab / "spm.model", folder / "sentencepiece.bpe.model")
    return folder


def test_xlmr_gives_the_same_logits(foreign: Path, tmp_path: Path) -> None:
    from transformers import XLMRobertaForMaskedLM

    run_hf(ImportConfig(foreign, tmp_path / "out", ("en", "sw")))
    theirs = XLMRobertaForMaskedLM.from_pretrained(foreign).eval()
    for tokens, mine in zip(SEQUENCES, ours(tmp_path / "out"), strict=True):
        with torch.inference_mode():
            found = theirs(torch.tensor([tokens])).logits[0]
        assert largest(found, mine) < 1e-4 * found.abs().max()
    assert model_weights.load_model(tmp_path / "out")[1] == ["en", "sw"]


def test_out_and_in_again_is_the_same(foreign: Path, tmp_path: Path) -> None:
    from xling.hub.export import ExportConfig
    from xling.hub.export import run_fairseq as export_fairseq

    run_hf(ImportConfig(foreign, tmp_path / "a"))
    export_fairseq(ExportConfig(tmp_path / "a", tmp_path / "b"))
    run_fairseq(ImportConfig(tmp_path / "b", tmp_path / "c"))
    first, second = (model_weights.load_model(tmp_path / x)[0].state_dict() for x in "ac")
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_segments_go_out_and_in_again(foreign: Path, vocab: Path, tmp_path: Path) -> None:
    from xling.hub.export import ExportConfig
    from xling.hub.export import run_fairseq as export_fairseq
    from xling.hub.export import run_hf as export_hf

    torch.manual_seed(5)
    shape = EncoderConfig(layers=1, dim=32, ffn_dim=48, max_positions=64, segment_embeddings=True)
    with manifest.publish(tmp_path / "a", "pretrain", shape) as made:
        vocabulary.copy_vocabulary(vocab, made.path)
        rows = len((vocab / "dict.txt").read_text().splitlines()) + 5
        model_weights.save_model(made.path / "model.pt", EncoderModel(shape, rows), ["en"], made.path)
    export_hf(ExportConfig(tmp_path / "a", tmp_path / "b"))
    run_hf(ImportConfig(tmp_path / "b", tmp_path / "c"))
    first, second = (model_weights.load_model(tmp_path / x)[0].state_dict() for x in "ac")
    assert "encoder.segments.weight" in first and all(torch.equal(first[k], second[k]) for k in first)
    with pytest.raises(UserError, match=r"model\.segment_embeddings.*which fairseq's classes cannot express"):
        export_fairseq(ExportConfig(tmp_path / "a", tmp_path / "d"))


def test_pretraining_goes_on_from_it(
    foreign: Path, shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    run_hf(ImportConfig(foreign, tmp_path / "m"))
    shape = ("model.heads=4", "model.ffn_dim=48", "train.updates=2")
    words = [*tiny, *shape, f"data={shards}", f"out={tmp_path / 'out'}", f"init={tmp_path / 'm'}"]
    assert pretrain(config.load(PretrainConfig, overrides=words)).counts["updates"] == 2  # type: ignore[union-attr]


class Planted:
    """Runs a command where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def as_pickle(folder: Path, more: Any = None) -> None:
    from safetensors.torch import load_file

    state: dict[str, Any] = dict(load_file(folder / "model.safetensors"))
    torch.save(state | ({"more": more} if more else {}), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def test_a_pickle_wants_the_flag(copied: Path, tmp_path: Path) -> None:
    as_pickle(copied)
    cfg = ImportConfig(copied, tmp_path / "out")
    with pytest.raises(UserError, match="allow_pickle=true"):
        run_hf(cfg)
    run_hf(replace(cfg, allow_pickle=True))
    assert (tmp_path / "out" / "model.pt").is_file()


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_fsdp_wrapped_module."])
def test_names_that_a_wrapper_put_before_weights_are_left_out(
    copied: Path, tmp_path: Path, prefix: str
) -> None:
    from safetensors.torch import load_file, save_file

    run_hf(ImportConfig(copied, tmp_path / "plain"))
    state = load_file(copied / "model.safetensors")
    save_file({prefix + name: weight for name, weight in state.items()}, copied / "model.safetensors")
    run_hf(ImportConfig(copied, tmp_path / "out"))
    plain, found = (model_weights.load_model(tmp_path / name)[0].state_dict() for name in ("plain", "out"))
    assert all(torch.equal(plain[name], found[name]) for name in plain)


def test_a_pickle_in_parts_is_read_whole(copied: Path, tmp_path: Path) -> None:
    run_hf(ImportConfig(copied, tmp_path / "whole"))
    as_pickle(copied)
    state = torch.load(copied / "pytorch_model.bin", weights_only=True)
    (copied / "pytorch_model.bin").unlink()
    names = sorted(state)
    parts = {f"pytorch_model-0000{i}-of-00002.bin": names[i - 1 :: 2] for i in (1, 2)}
    for file, own in parts.items():
        torch.save({name: state[name] for name in own}, copied / file)
    weight_map = {name: file for file, own in parts.items() for name in own}
    (copied / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    cfg = ImportConfig(copied, tmp_path / "out")
    with pytest.raises(UserError, match="allow_pickle=true"):
        run_hf(cfg)
    run_hf(replace(cfg, allow_pickle=True))
    whole, parted = (model_weights.load_model(tmp_path / name)[0].state_dict() for name in ("whole", "out"))
    assert all(torch.equal(whole[name], parted[name]) for name in whole)
    second = copied / "pytorch_model-00002-of-00002.bin"
    whole_part = second.read_bytes()
    for share in (0.02, 0.5, 0.99):
        second.write_bytes(whole_part[: int(share * len(whole_part))])
        with pytest.raises(UserError, match=r"00002-of-00002\.bin is damaged"):
            run_hf(replace(cfg, out=tmp_path / "more", allow_pickle=True))
    second.unlink()
    with pytest.raises(UserError, match="00002-of-00002"):
        run_hf(replace(cfg, out=tmp_path / "more", allow_pickle=True))


def test_words_that_pad_a_dictionary_are_left_out(foreign: Path, tmp_path: Path) -> None:
    """``fairseq-preprocess`` fills a dictionary with ``madeupwordNNNN 0`` to a multiple of 8, as do the weights."""
    from xling.hub.export import ExportConfig
    from xling.hub.export import run_fairseq as export_fairseq

    run_hf(ImportConfig(foreign, tmp_path / "a"))
    export_fairseq(ExportConfig(tmp_path / "a", tmp_path / "b"))
    dictionary = (tmp_path / "b" / "dict.txt").read_text(encoding="utf-8")
    first = 4 + len(dictionary.splitlines())
    padding = "".join(f"madeupword{number:04d} 0\n" for number in range(3))
    (tmp_path / "b" / "dict.txt").write_text(dictionary + padding, encoding="utf-8")
    state = torch.load(tmp_path / "b" / "model.pt", weights_only=True)
    for name, tensor in state["model"].items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight", "lm_head.bias")):
            extra = torch.full((3, *tensor.shape[1:]), 9.0)
            state["model"][name] = torch.cat([tensor[:first], extra, tensor[first:]])
    torch.save(state, tmp_path / "b" / "model.pt")
    run_fairseq(ImportConfig(tmp_path / "b", tmp_path / "c"))
    plain, padded_ = (model_weights.load_model(tmp_path / x)[0].state_dict() for x in "ac")
    assert all(torch.equal(plain[name], padded_[name]) for name in plain)


def test_an_output_layer_of_its_own_is_refused_in_fairseqs_files(foreign: Path, tmp_path: Path) -> None:
    from xling.hub.export import ExportConfig
    from xling.hub.export import run_fairseq as export_fairseq

    run_hf(ImportConfig(foreign, tmp_path / "a"))
    export_fairseq(ExportConfig(tmp_path / "a", tmp_path / "b"))
    state = torch.load(tmp_path / "b" / "model.pt", weights_only=True)
    (name,) = [name for name in state["model"] if name.endswith("lm_head.weight")]
    state["model"][name] = state["model"][name] + 1
    torch.save(state, tmp_path / "b" / "model.pt")
    with pytest.raises(UserError, match="has a matrix of its own"):
        run_fairseq(ImportConfig(tmp_path / "b", tmp_path / "c"))


def test_code_in_a_pickle_is_refused_and_not_run(copied: Path, tmp_path: Path) -> None:
    as_pickle(copied, Planted(tmp_path / "ran"))
    with pytest.raises(UserError, match="holds more than tensors"):
        run_hf(ImportConfig(copied, tmp_path / "out", allow_pickle=True))
    torch.save({"model": {}, "args": Planted(tmp_path / "ran")}, copied / "model.pt")
    with pytest.raises(UserError, match="holds more than tensors"):
        run_fairseq(ImportConfig(copied, tmp_path / "out"))
    assert not (tmp_path / "ran").exists() and not (tmp_path / "out").exists()


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def set_config(**values: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(found | values))

    return change


def other_tokenizer(folder: Path) -> None:
    tokens = [
        ["<s>", 0],
        ["<pad>", 0],
        ["</s>", 0],
        ["<unk>", 0],
        *([f"x{i}", 0] for i in range(127)),
        ["<mask>", 0],
    ]
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": tokens}}))


def fewer_pieces(folder: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as proto

    path, model = folder / "sentencepiece.bpe.model", proto.ModelProto()
    model.ParseFromString(path.read_bytes())
    del model.pieces[-1]
    path.write_bytes(model.SerializeToString())


def change_weights(change: Callable[[dict[str, Any]], None]) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        change(state)
        save_file(state, folder / "model.safetensors")

    return harm


def in_parts(*left_out: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        state = load_file(folder / "model.safetensors")
        files = {f"model-0000{i}-of-00002.safetensors": sorted(state)[i - 1 :: 2] for i in (1, 2)}
        for file, names in files.items():
            save_file({name: state[name] for name in names}, folder / file)
        index = {name: file for file, names in files.items() for name in names}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        for name in ("model.safetensors", *left_out):
            (folder / name).unlink()

    return harm


QUERY = "roberta.encoder.layer.0.attention.self.query"


def test_a_whole_file_goes_before_parts_as_in_transformers(copied: Path, tmp_path: Path) -> None:
    """A smaller model saved over one in parts leaves the parts behind."""
    from safetensors.torch import load_file, save_file

    state = load_file(copied / "model.safetensors")
    in_parts()(copied)
    save_file({name: tensor + 1 for name, tensor in state.items()}, copied / "model.safetensors")
    run_hf(ImportConfig(copied, tmp_path / "out"))
    ours = model_weights.load_model(tmp_path / "out")[0].state_dict()["encoder.layers.0.out.weight"]
    assert torch.equal(ours, state["roberta.encoder.layer.0.attention.output.dense.weight"] + 1)


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (in_parts("model-00001-of-00002.safetensors"), "no file .*00001-of-00002"),
        (in_parts("model.safetensors.index.json"), "without the file that lists the parts; .*index.json too"),
        (
            change_weights(lambda state: state.pop("roberta.embeddings.token_type_embeddings.weight")),
            "no weight .*token_type_embeddings",
        ),
        (
            change_weights(lambda state: state.update({f"{QUERY}.lora_A.weight": torch.ones(2, 32)})),
            "lora_A.weight' is a part of an adapter; .*merge_and_unload",
        ),
        (
            change_weights(
                lambda state: state.update({f"{QUERY}.weight": torch.ones(32, 32, dtype=torch.int8)})
            ),
            "query.weight' is in torch.int8",
        ),
        (set_config(quantization_config={"load_in_8bit": True}), "holds quantised weights"),
        (set_config(auto_map={"AutoModel": "own.Model"}), "code of its own .*leave auto_map out"),
        (other_tokenizer, "differ: piece 0"),
        (fewer_pieces, "embeddings, and its tokenizer"),
        (set_config(model_type="bert"), "no weight bert"),
        (set_config(model_type="m2m_100"), "config.json does not say d_model"),
        (set_config(model_type="canine"), "type .canine., and CANINE reads characters by hashing them"),
        (
            set_config(model_type="xlnet"),
            "type .xlnet.; valid: xlm-roberta, bert, modernbert, mbart, m2m_100, bart, t5",
        ),
        (set_config(layer_norm_eps="x"), "config.json: layer_norm_eps='x'; valid: a number"),
        (set_config(id2label=[]), "id2label=.*; valid: an object"),
        (set_config(hidden_act="relu"), "hidden_act='relu'"),
        (set_config(num_attention_heads=5), "a width that is a multiple of the heads"),
        (set_config(num_attention_heads=4, hidden_size=48), "by its configuration"),
        (set_config(hidden_size=10**9), "no tensor of its weights has that size"),
        (set_config(num_hidden_layers=10**9), "has no encoder.layers.2; valid: 1000000000"),
        (set_config(intermediate_size=10**10), "no tensor of its weights has that size"),
        (set_config(max_position_embeddings=10**10), "by its configuration"),
        (set_config(max_position_embeddings=1), "no model can have the sizes"),
        (lambda folder: (folder / "config.json").unlink(), "no file"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no weights"),
        (lambda folder: (folder / "sentencepiece.bpe.model").unlink(), "no SentencePiece model"),
        (lambda folder: (folder / "sentencepiece.bpe.model").write_bytes(b"x"), "not a SentencePiece model"),
    ],
)
def test_what_does_not_belong_is_refused(
    copied: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(copied)
    with pytest.raises(UserError, match=said):
        run_hf(ImportConfig(copied, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_missing_weight_is_named(foreign: Path) -> None:
    with pytest.raises(UserError, match=r"no weight roberta\.embeddings"):
        layouts.from_layout({}, layouts.XLMR, str(foreign))
