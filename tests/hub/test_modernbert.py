"""ModernBERT in and out: the logits and gradients of transformers, from either spelling of its settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hub.conftest import LABELS, ROWS
from tests.hub.differences import largest
from tests.tuning import fine_tune
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.data.packing import pack, runs_of
from xling.hub import configs, modernbert
from xling.hub.export import run_hf
from xling.hub.imports import run_hf as import_hf
from xling.hub.settings import ExportConfig, ImportConfig
from xling.models.files import model_weights
from xling.models.network.encoder import EncoderModel
from xling.training.settings import PretrainConfig
from xling.training.train import run as pretrain
from xling.transfer import tune
from xling.transfer.settings import TuneConfig

SMALL = {
    "vocab_size": 90, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 5, "num_attention_heads": 2,
    "max_position_embeddings": 512, "local_attention": 12, "pad_token_id": 1, "bos_token_id": 0, "cls_token_id": 0,
    "eos_token_id": 2, "sep_token_id": 2,
}  # fmt: skip


def theirs(kind: str = "ModernBertForMaskedLM", **more: Any) -> Any:
    import transformers

    torch.manual_seed(5)
    config = transformers.ModernBertConfig(**SMALL | more)
    config._attn_implementation = "eager"
    made = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return made


def ours_of(model: Any) -> EncoderModel:
    shape = modernbert.read_shape(model.config.to_dict(), Path("here"))
    shape.dropout = 0.0
    made = EncoderModel(shape, SMALL["vocab_size"])
    missing, odd = made.load_state_dict(modernbert.from_hf(model.state_dict(), shape, "here"), strict=False)
    assert missing == ["lm_head.weight"] and not odd
    return made


def batch(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(6)
    padded = torch.ones(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in zip(padded, lengths, strict=True):
        row[:length] = torch.randint(4, 90, (length,))
    real = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    places = torch.arange(max(lengths)).expand_as(padded)
    return padded, real, padded[real], places[real]


@pytest.mark.parametrize(
    "more",
    [{}, {"hidden_activation": "silu"}, {"layer_types": ["full_attention"] * 5},
     {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}}}],
)  # fmt: skip
def test_a_packed_batch_scores_and_learns_as_the_padded_one_of_transformers(more: dict[str, Any]) -> None:
    model, lengths = theirs(**more), (70, 41, 12, 12, 3)
    mine = ours_of(model)
    padded, real, tokens, places = batch(lengths)
    wanted = model(input_ids=padded, attention_mask=real.long()).logits[real]
    found = mine.lm_head.logits(mine(tokens, places, runs_of(lengths)))
    assert largest(found, wanted) <= 1e-5 * wanted.abs().max()
    torch.manual_seed(7)
    weights = torch.randn_like(wanted) / wanted.numel()
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    named = dict(mine.named_parameters())
    for ours, name in modernbert.weight_names(5).items():
        torch.testing.assert_close(named[ours].grad, gradients[name], atol=1e-5, rtol=1e-4)


def test_both_spellings_of_the_settings_are_one_shape() -> None:
    sizes = {name: SMALL.get(name) for name in configs.HF_SIZE_NAMES.values()}
    old = sizes | {"global_rope_theta": 70.0, "local_rope_theta": 30.0, "global_attn_every_n_layers": 2}
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"]
    new = sizes | {
        "layer_types": kinds,
        "rope_parameters": {
            "full_attention": {"rope_theta": 70.0},
            "sliding_attention": {"rope_theta": 30.0},
        },
    }
    first, second = (modernbert.read_shape(told, Path("x")) for told in (old, new))
    assert first == second and (first.global_theta, first.local_theta) == (70.0, 30.0)
    assert first.attention == "local:128/global:2"
    usual = modernbert.read_shape(sizes, Path("x"))
    assert (usual.global_theta, usual.local_theta, usual.attention) == (
        160_000.0,
        10_000.0,
        "local:128/global:3",
    )
    written = modernbert.to_hf_config(first, 90, 1, 0, 2)
    for dropped in ({"rope_parameters", "layer_types"}, {"global_rope_theta", "local_rope_theta"}):
        told = {name: value for name, value in written.items() if name not in dropped}
        assert modernbert.read_shape(told, Path("x")) == first


@pytest.mark.parametrize(
    ("told", "said"),
    [({"norm_bias": True}, "norm_bias"), ({"hidden_activation": "relu"}, "hidden_activation"),
     ({"layer_types": ["sliding_attention"] * 5}, "layer_types"),
     ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "yarn")],
)  # fmt: skip
def test_settings_that_have_no_equal_are_refused(told: dict[str, Any], said: str) -> None:
    sizes = {name: SMALL.get(name) for name in configs.HF_SIZE_NAMES.values()}
    with pytest.raises(UserError, match=said):
        modernbert.read_shape(sizes | told, Path("here"))


MODERN = (
    "model.positions=rope", "model.attention=local:8/global:2", "model.ffn=geglu", "model.norm=unshifted",
    "model.biases=false", "model.pre_norm=true", "model.first_norm=false", "model.head_biases=false",
    "model.init=megatron",
)  # fmt: skip


@pytest.fixture(scope="module")
def modern(shards: Path, tiny: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published tiny model of the present generation."""
    out = tmp_path_factory.mktemp("modern") / "model"
    words = [*tiny, *MODERN, f"data={shards}", f"out={out}", "train.updates=20", "train.lr=3e-3"]
    pretrain(config.load(PretrainConfig, overrides=words))
    return out


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name not in ("manifest.json", "README.md")
    }


def test_an_exported_model_gives_our_logits_and_comes_back_to_the_byte(modern: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    run_hf(ExportConfig(modern, tmp_path / "hf"))
    made, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert type(made).__name__ == "ModernBertForMaskedLM"
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    texts = ["The old woman sees a red boat near the river. " * 2, "two books"]
    batch = AutoTokenizer.from_pretrained(tmp_path / "hf")(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        found = made.eval()(**batch).logits
    ours = model_weights.load_model(modern)[0].eval()
    for row, tokens in zip(found, batch["input_ids"].tolist(), strict=True):
        kept = [token for token in tokens if token != 1]
        assert len(kept) > 12 or len(kept) < 10
        with torch.inference_mode():
            mine = ours.lm_head.logits(ours(torch.tensor(kept), torch.arange(len(kept)), [(1, len(kept))]))
        assert mine.abs().max() > 0.1 and largest(row[: len(kept)], mine) <= 1e-5
    import_hf(ImportConfig(tmp_path / "hf", tmp_path / "again", langs=("ar", "en", "th")))
    before, after = (
        torch.load(path / "model.pt", weights_only=True) for path in (modern, tmp_path / "again")
    )
    assert before["weights"].keys() == after["weights"].keys()
    assert all(torch.equal(before["weights"][name], after["weights"][name]) for name in before["weights"])
    run_hf(ExportConfig(tmp_path / "again", tmp_path / "second"))
    assert bytes_of(tmp_path / "hf") == bytes_of(tmp_path / "second")


@pytest.mark.parametrize(
    ("kind", "class_"),
    [("classify", "SequenceClassification"), ("pair", "SequenceClassification"), ("tag", "TokenClassification"),
     ("span", "QuestionAnswering")],
)  # fmt: skip
def test_classifiers_answer_alike_here_and_there_and_come_back(
    modern: Path, tmp_path: Path, kind: str, class_: str
) -> None:
    import transformers

    cfg = TuneConfig(epochs=1, lr=1e-2, batch_rows=2, max_length=64, precision="fp32")
    labels = () if kind == "span" else LABELS
    tuned = fine_tune(modern, kind, labels, ROWS[kind], cfg)[-1]  # type: ignore[arg-type]
    with manifest.publish(tmp_path / "task", "finetune", cfg, [modern]) as out:
        tune.save_tuned(tuned, out.path, modern, ["ar", "en", "th"])
    run_hf(ExportConfig(tmp_path / "task", tmp_path / "hf"))
    there = getattr(transformers, f"ModernBertFor{class_}").from_pretrained(tmp_path / "hf").eval()
    tuned = tune.load_tuned(tmp_path / "task")
    for _, example in tuned.encode(ROWS[kind]):
        batch = pack([example])
        with torch.inference_mode():
            mine = tuned.model(batch)
            made = there(torch.from_numpy(example["tokens"])[None])
        theirs = torch.stack([made.start_logits, made.end_logits], -1) if kind == "span" else made.logits
        rows = theirs[0][example["chosen"]] if theirs.dim() == 3 else theirs
        seen = mine > -1e30  # some labels are barred here
        assert seen.any() and largest(rows[seen], mine[seen]) <= 1e-5
    import_hf(ImportConfig(tmp_path / "hf", tmp_path / "again", langs=("ar", "en", "th")))
    again = tune.load_tuned(tmp_path / "again")
    assert again.predict(ROWS[kind]) == tuned.predict(ROWS[kind]) and again.model.task.name == kind
    run_hf(ExportConfig(tmp_path / "again", tmp_path / "second"))
    assert bytes_of(tmp_path / "hf") == bytes_of(tmp_path / "second")


def test_a_model_that_modernbert_has_not_is_refused(
    shards: Path, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    words = [
        *tiny,
        *MODERN,
        "model.qk_norm=true",
        f"data={shards}",
        f"out={tmp_path / 'm'}",
        "train.updates=2",
    ]
    pretrain(config.load(PretrainConfig, overrides=words))
    with pytest.raises(UserError, match=r"model\.qk_norm=true"):
        run_hf(ExportConfig(tmp_path / "m", tmp_path / "hf"))
