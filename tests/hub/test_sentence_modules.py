"""Sentence vectors of models of sentence-transformers: pooling, dense layers, norms, prompts, lengths."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.hub.differences import largest
from tests.hub.test_bert import NAMES
from tests.hub.test_mbart import shake
from tests.hub.test_transformers_wrapper import byte_level, save_random
from tests.hub.test_vectors_out import LINES, publish
from xling import cli
from xling.core.errors import UserError
from xling.hub import quantize
from xling.hub.export import run_hf as export_hf
from xling.hub.sentence_modules import read_modules
from xling.hub.settings import ExportConfig, ImportConfig, QuantizeConfig
from xling.hub.source import run_hf
from xling.transfer.backend import EncoderBackend

TEXTS = (*LINES[:5], "", "the old woman sees two books near the river. " * 9, "Ünïcode BOOKS")
DIM = 32
TANH, IDENTITY = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
Modules = list[tuple[str, dict[str, Any], dict[str, Tensor]]]


def bert(folder: Path, vocab: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    sizes = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    model = BertForMaskedLM(BertConfig(vocab_size=len(NAMES), max_position_embeddings=64, **sizes))
    shake(model)
    model.save_pretrained(folder)
    BertTokenizer(
        vocab={name: n for n, name in enumerate(NAMES)}, do_lower_case=False, model_max_length=64
    ).save_pretrained(folder)


def modernbert(folder: Path, vocab: Path) -> None:
    from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

    made, names = byte_level([*TEXTS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token="<s>", sep_token="</s>", model_max_length=64, **names
    )
    sizes = {"hidden_size": DIM, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
    ids = {"pad_token_id": 1, "bos_token_id": 0, "cls_token_id": 0, "eos_token_id": 2, "sep_token_id": 2}
    model = ModernBertForMaskedLM(
        ModernBertConfig(vocab_size=len(fast), max_position_embeddings=64, local_attention=8, **sizes, **ids)
    )
    shake(model)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def xlmr(folder: Path, vocab: Path) -> None:
    export_hf(ExportConfig(publish(folder.with_name("ours"), vocab), folder))
    for path in [*folder.glob("*/config.json"), folder / "modules.json"]:
        path.unlink()


def own_tokens(folder: Path, vocab: Path) -> None:
    """A unigram under the shape of XLM-R whose ``<mask>`` stands before the pieces, as packages train it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForMaskedLM

    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.train_from_iterator(
        TEXTS, trainers.UnigramTrainer(vocab_size=80, special_tokens=names, unk_token="<unk>")
    )
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    keys = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    fast = PreTrainedTokenizerFast(tokenizer_object=made, **dict(zip(keys, names, strict=True)))
    sizes = {"hidden_size": DIM, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    model = XLMRobertaForMaskedLM(
        XLMRobertaConfig(vocab_size=len(fast), max_position_embeddings=66, type_vocab_size=1, **sizes)
    )
    shake(model)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def wrapped(kind: str) -> Callable[[Path, Path], None]:
    return lambda folder, vocab: save_random(kind, [*TEXTS], folder)


def dense(size: int, out: int, activation: str, bias: bool = True, **more: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(7)
    weights = {"linear.weight": torch.randn(out, size) / size**0.5}
    if bias:
        weights["linear.bias"] = torch.randn(out)
    config = {"in_features": size, "out_features": out, "bias": bias, "activation_function": activation}
    if more.get("use_residual") and size != out:
        weights["residual.weight"] = torch.randn(out, size) / size**0.5
    return "Dense", config | more, weights


def pooling(*names: str, **more: Any) -> tuple[Any, Any, Any]:
    keys = (
        "cls_token",
        "mean_tokens",
        "max_tokens",
        "mean_sqrt_len_tokens",
        "weightedmean_tokens",
        "lasttoken",
    )
    config = {f"pooling_mode_{key}": key in names for key in keys}
    return "Pooling", {"word_embedding_dimension": DIM} | config | more, {}


NORMALIZE: tuple[Any, Any, Any] = ("Normalize", {}, {})
NORM: tuple[Any, Any, Any] = (
    "LayerNorm", {"dimension": DIM},
    {"norm.weight": torch.linspace(0.5, 2, DIM), "norm.bias": torch.linspace(-1, 1, DIM)},
)  # fmt: skip
QUERY = {"prompts": {"query": "two books: ", "passage": "the "}, "default_prompt_name": "query"}
SHAPES: dict[str, tuple[Callable[[Path, Path], None], Modules, dict[str, Any]]] = {
    "LaBSE": (bert, [pooling("cls_token"), dense(DIM, DIM, TANH), NORMALIZE], {}),
    "BGE": (bert, [pooling("cls_token"), NORMALIZE], {}),
    "MiniLM": (bert, [pooling("mean_tokens"), NORMALIZE], {"max_seq_length": 12}),
    "E5": (xlmr, [pooling("mean_tokens"), NORMALIZE], {"max_seq_length": 40} | QUERY),
    "GTE": (bert, [pooling("mean_tokens"), NORMALIZE], {}),
    "GTE, ModernBERT": (modernbert, [pooling("cls_token")], {"max_seq_length": 30}),
    "mpnet": (wrapped("mpnet"), [pooling("mean_tokens"), NORMALIZE], {"max_seq_length": 20}),
    "XLM-R with its own tokenizer": (own_tokens, [pooling("mean_tokens"), NORMALIZE], {"max_seq_length": 64}),
    "some numbers of a vector": (bert, [pooling("mean_tokens"), NORMALIZE], {"truncate_dim": 9}),
    "distiluse": (bert, [pooling("mean_tokens"), dense(DIM, 16, TANH)], {}),
    "sentence-t5's layers": (bert, [pooling("mean_tokens"), dense(DIM, 48, IDENTITY, bias=False), NORMALIZE], {}),
    "SGPT's pooling": (wrapped("roberta"), [pooling("weightedmean_tokens")], {"max_seq_length": 60}),
    "last token": (bert, [pooling("lasttoken"), NORM], {}),
    "square root": (bert, [pooling("mean_sqrt_len_tokens")], {"do_lower_case": True}),
    "several": (bert, [pooling("max_tokens", "cls_token", "mean_tokens")], {}),
    "without the prompt": (bert, [pooling("mean_tokens", include_prompt=False)], QUERY),
    "weighted without the prompt": (bert, [pooling("weightedmean_tokens", include_prompt=False)], QUERY),
    "a prompt that fills the length": (bert, [pooling("mean_tokens", include_prompt=False)],
                                       {"max_seq_length": 3} | QUERY),
    "no prompt to leave out": (bert, [pooling("mean_tokens", include_prompt=False)], {}),
    "no default prompt": (wrapped("roberta"), [pooling("max_tokens", "cls_token", include_prompt=False)],
                          {"prompts": {"query": "two books: "}, "max_seq_length": 40}),
    "residual": (bert, [pooling("cls_token"), dense(DIM, 20, "torch.nn.GELU", use_residual=True)], {}),
}  # fmt: skip


def write_modules(
    folder: Path, modules: Modules, settings: Mapping[str, Any], names: str = "models."
) -> None:
    listed = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, (name, config, weights) in enumerate(modules, 1):
        place = folder / f"{number}_{name}"
        place.mkdir()
        if config:
            (place / "config.json").write_text(json.dumps(config))
        if weights:
            save_file(weights, place / "model.safetensors")
        listed.append(
            {
                "idx": number,
                "name": str(number),
                "path": place.name,
                "type": f"sentence_transformers.{names}{name}",
            }
        )
    (folder / "modules.json").write_text(json.dumps(listed))
    lengths = {name: settings.get(name) for name in ("max_seq_length", "do_lower_case")}
    (folder / "sentence_bert_config.json").write_text(json.dumps(lengths))
    names_of_texts = ("prompts", "default_prompt_name", "truncate_dim")
    prompts = {name: settings[name] for name in names_of_texts if name in settings}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))


def pooled(states: Tensor, places: Tensor, name: str) -> Tensor:
    """The formulas of sentence-transformers' Pooling, for one text."""
    return {
        "cls_token": lambda: states[0],
        "max_tokens": lambda: states.amax(0),
        "mean_tokens": lambda: states.mean(0),
        "mean_sqrt_len_tokens": lambda: states.sum(0) / len(states) ** 0.5,
        "weightedmean_tokens": lambda: (states * places[:, None]).sum(0) / places.sum(),
        "lasttoken": lambda: states[-1],
    }[name]()


def expected(folder: Path, modules: Modules, settings: Mapping[str, Any]) -> list[np.ndarray]:
    """Compute the vectors of `TEXTS` with transformers and the formulas of the modules."""
    from transformers import AutoModel, AutoTokenizer

    model, fast = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt_name"), "")
    vectors = []
    for text in TEXTS:
        text = prompt + (text.lower() if settings.get("do_lower_case") else text)
        ids = fast(
            text, truncation=True, max_length=settings.get("max_seq_length") or 64, return_tensors="pt"
        )
        ids.pop("token_type_ids", None)
        with torch.inference_mode():
            states = model(**ids).last_hidden_state[0]
        pools_all = modules[0][1].get("include_prompt", True) or not prompt
        limit = (
            settings.get("max_seq_length") or 64
        )  # sentence-transformers cuts the prompt as it cuts a text
        first = 0 if pools_all else len(fast(prompt, truncation=True, max_length=limit)["input_ids"]) - 1
        places = torch.arange(1, len(states) + 1)
        order = (
            "cls_token",
            "max_tokens",
            "mean_tokens",
            "mean_sqrt_len_tokens",
            "weightedmean_tokens",
            "lasttoken",
        )
        chosen = [name for name in order if modules[0][1][f"pooling_mode_{name}"]]
        vector = torch.cat([pooled(states[first:], places[first:], name) for name in chosen])
        for name, config, weights in modules[1:]:
            if name == "Normalize":
                vector = vector / vector.norm()
            elif name == "LayerNorm":
                vector = F.layer_norm(vector, (DIM,), weights["norm.weight"], weights["norm.bias"])
            else:
                made = F.linear(vector, weights["linear.weight"], weights.get("linear.bias"))
                made = {TANH: torch.tanh, IDENTITY: lambda x: x}.get(config["activation_function"], F.gelu)(
                    made
                )
                rest = F.linear(vector, weights["residual.weight"]) if "residual.weight" in weights else 0
                vector = made + rest
        vectors.append(vector[: settings.get("truncate_dim")].numpy())
    return vectors


@pytest.fixture(scope="module")
def written(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``written(SHAPE)``: a model of sentence-transformers with random weights."""
    folders: dict[str, Path] = {}

    def get(shape: str) -> Path:
        if shape not in folders:
            write, modules, settings = SHAPES[shape]
            folders[shape] = tmp_path_factory.mktemp("sentence") / "model"
            write(folders[shape], vocab)
            write_modules(folders[shape], modules, settings)
        return folders[shape]

    return get


@pytest.mark.parametrize("shape", SHAPES)
def test_vectors_are_those_of_the_modules(written: Callable[[str], Path], tmp_path: Path, shape: str) -> None:
    folder = written(shape)
    run_hf(ImportConfig(folder, tmp_path / "in"))
    backend = EncoderBackend(tmp_path / "in", "pretrained")
    found, wanted = backend.embed(TEXTS, "en", -1, "mean"), np.stack(expected(folder, *SHAPES[shape][1:]))
    assert found.shape == wanted.shape and np.abs(wanted).max() > 0.1
    assert largest(found, wanted) < 2e-5
    assert backend.vector_name(-1, "mean").startswith("own(") and backend.vector_name(1, "mean") == "mean"
    assert backend.embed(TEXTS, "en", -1, "cls").shape == (len(TEXTS), DIM)
    # Exported again, the modules are the same.
    export_hf(ExportConfig(tmp_path / "in", tmp_path / "out"))
    given, again = read_modules(folder), read_modules(tmp_path / "out")
    assert given and again and again.settings | {"max_length": given.settings["max_length"]} == given.settings
    for number, place in given.folders.items():
        first, second = (load_file(each / "model.safetensors") for each in (place, again.folders[number]))
        assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)


def test_the_control_and_other_commands_keep_the_modules(
    written: Callable[[str], Path], tmp_path: Path
) -> None:
    run_hf(ImportConfig(written("distiluse"), tmp_path / "in"))
    control = EncoderBackend(tmp_path / "in", "random", random_init=True).embed(TEXTS, "en", -1, "mean")
    assert control.shape == (len(TEXTS), 16) and np.abs(control).max() < 1
    quantize.run(QuantizeConfig(tmp_path / "in", tmp_path / "small"))
    small = EncoderBackend(tmp_path / "small", "pretrained").embed(TEXTS, "en", -1, "mean")
    assert largest(small, EncoderBackend(tmp_path / "in", "pretrained").embed(TEXTS, "en", -1, "mean")) < 0.2


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ({"type": "sentence_transformers.models.CNN"}, "has the module CNN, which is not computed here; valid: the"),
        ({"type": "sentence_transformers.models.WeightedLayerPooling"}, "has the module WeightedLayerPooling"),
        ({"type": "custom_st.Dense"}, "has the module custom_st.Dense"),
        ({"type": "sentence_transformers.models.StaticEmbedding"}, "has the module StaticEmbedding"),
        ({"activation_function": "my.Swish"}, r"has the activation my\.Swish"),
        ({"activation_function": "torch.nn.modules.Bilinear"}, "has the activation torch.nn.modules.Bilinear"),
        ({"module_input_name": "token_embeddings"}, "reads token_embeddings"),
        ({"out_features": 9}, r"layers\.0\.linear\.bias is \(16,\); valid: \(9,\)"),
        ({"pooling_mode": "attention"}, "has the pooling attention"),
        ({"word_embedding_dimension": 99}, "its pooling reads vectors of 99; valid: 32"),
    ],
)  # fmt: skip
def test_what_is_not_computed_is_refused(
    vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    bert(folder, vocab)
    write_modules(folder, SHAPES["distiluse"][1], {})
    for path in (folder / "1_Pooling/config.json", folder / "2_Dense/config.json"):
        config = json.loads(path.read_text())
        if harm.keys() & {"activation_function", "module_input_name", "out_features"} and "Dense" in str(
            path
        ):
            config |= harm
        if harm.keys() & {"pooling_mode", "word_embedding_dimension"} and "Pooling" in str(path):
            config |= harm
        path.write_text(json.dumps(config))
    if "type" in harm:
        listed = json.loads((folder / "modules.json").read_text())
        listed[2] |= harm
        (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(UserError, match=message):
        run_hf(ImportConfig(folder, tmp_path / "in"))
    assert cli.main(["import", "hf", str(folder), str(tmp_path / "in")]) == 2
    assert "Traceback" not in capsys.readouterr().err and not (tmp_path / "in").exists()


def test_an_encoder_that_lies_elsewhere_is_refused_by_its_module(vocab: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    bert(folder / "query_0_Transformer", vocab)
    router = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.router.Router"}
    (folder / "modules.json").write_text(json.dumps([router]))
    with pytest.raises(UserError, match="has the module Router, which is not computed here"):
        run_hf(ImportConfig(folder, tmp_path / "in"))


def test_positions_that_count_from_another_padding_are_refused(vocab: Path, tmp_path: Path) -> None:
    own_tokens(tmp_path / "model", vocab)
    path = tmp_path / "model/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token_id": 0}))
    with pytest.raises(UserError, match="pad_token_id=0, and its tokenizer pads with 1"):
        run_hf(ImportConfig(tmp_path / "model", tmp_path / "in"))


def test_other_specials_around_a_text_are_refused(vocab: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    bert(folder, vocab)
    write_modules(folder, SHAPES["BGE"][1], {})
    content = json.loads((folder / "tokenizer.json").read_text())
    content["post_processor"] = None
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="puts 0 specials around a text"):
        run_hf(ImportConfig(folder, tmp_path / "in"))
    for other in ('{"a": [1]}', '{"version": "1.0"', "[1, null]"):
        (folder / "tokenizer.json").write_text(other)
        with pytest.raises(UserError, match=r"model(/tokenizer.json)? (is not|has no|holds no)"):
            run_hf(ImportConfig(folder, tmp_path / "in"))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "has the task fill-mask"),
        ("sentence_bert_config.json", {"module_output_name": "sentence_embedding"}, "takes sentence_embedding"),
        (
            "sentence_bert_config.json",
            {"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}},
            "takes pooler_output",
        ),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"max_length": 9}}}, "has processing_kwargs"),
        ("sentence_bert_config.json", {"tokenizer_args": {"do_lower_case": True}}, "tokenizer_args with do_"),
        ("tokenizer_config.json", {"truncation_side": "left"}, "cuts long texts at their begin"),
        ("tokenizer.json", {"truncation": {"direction": "Left", "max_length": 9}}, "cuts long texts at their begin"),
    ],
)  # fmt: skip
def test_texts_that_are_read_otherwise_are_refused(
    vocab: Path, tmp_path: Path, name: str, settings: dict[str, Any], message: str
) -> None:
    folder = tmp_path / "model"
    bert(folder, vocab)
    write_modules(folder, SHAPES["BGE"][1], {})
    harmless = {
        "transformer_task": "feature-extraction", "module_output_name": "token_embeddings", "query_length": 8,
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        "model_args": {"attn_implementation": "sdpa"}, "processing_kwargs": {},
    }  # fmt: skip
    for path, values in ((folder / "sentence_bert_config.json", harmless), (folder / name, settings)):
        if path.name == "tokenizer.json":
            config = folder / "tokenizer_config.json"
            kept = {k: v for k, v in json.loads(config.read_text()).items() if k != "truncation_side"}
            config.write_text(json.dumps(kept))
        if values is settings:
            read_modules(folder)
            run_hf(ImportConfig(folder, tmp_path / "before"))
        path.write_text(json.dumps(json.loads(path.read_text()) | values))
    with pytest.raises(UserError, match=message):
        run_hf(ImportConfig(folder, tmp_path / "in"))


def test_prompts_that_are_not_used_are_told(
    written: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_hf(ImportConfig(written("E5"), tmp_path / "in"))
    assert (
        "has the prompts passage, which are not put before texts: its default is query"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("name", "is_announced"), [("dot", True), ("euclidean", True), ("cosine", False), (None, False)]
)
def test_another_similarity_than_that_of_retrieval_is_announced(
    vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str | None, is_announced: bool
) -> None:
    bert(tmp_path / "model", vocab)
    write_modules(tmp_path / "model", SHAPES["BGE"][1], {})
    path = tmp_path / "model/config_sentence_transformers.json"
    path.write_text(json.dumps({"similarity_fn_name": name}))
    run_hf(ImportConfig(tmp_path / "model", tmp_path / "in"))
    assert (
        f"compares vectors by {name}, and suites of retrieval by" in capsys.readouterr().err
    ) == is_announced


def test_a_pooling_for_an_export_that_has_its_own_is_refused(
    written: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_hf(ImportConfig(written("BGE"), tmp_path / "in"))
    assert cli.main(["export", "hf", str(tmp_path / "in"), str(tmp_path / "out"), "pooling=cls"]) == 2
    assert "declares how it makes sentence vectors" in capsys.readouterr().err
