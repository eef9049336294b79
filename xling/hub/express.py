"""Parts of a model that the classes of transformers and fairseq lack, by its shape and head; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from xling.core.errors import UserError
from xling.models.files import model_folder
from xling.models.shape import Shape, names
from xling.text import vocab

CLASSIC = frozenset({
    "layers", "dim", "heads", "ffn_dim", "max_positions", "norm_eps", "pre_norm", "decoder_layers", "plain_head",
    "unbiased_head", "untied_head", "source_lang", "lang_embeddings", "segment_embeddings", "scale_embeddings",
    "lang_adapter", "task_adapter", "invertible",
})  # fmt: skip
"""Settings that the exports to XLM-R, mBART and fairseq handle separately."""
MODERNBERT: dict[str, Any] = {
    "pre_norm": True, "norm": "unshifted", "biases": False, "positions": "rope", "first_norm": False,
    "head_biases": False,
}  # fmt: skip
"""Settings of every ModernBERT, by our names."""
MODERNBERT_FFNS: dict[str, Literal["geglu", "swiglu"]] = {"gelu": "geglu", "silu": "swiglu"}
"""Its activations -> our feed-forward blocks."""
MODERNBERT_CLASSES = {
    "XLMRobertaForMaskedLM": "ModernBertForMaskedLM",
    "XLMRobertaForSequenceClassification": "ModernBertForSequenceClassification",
    "XLMRobertaForTokenClassification": "ModernBertForTokenClassification",
    "XLMRobertaForQuestionAnswering": "ModernBertForQuestionAnswering",
}
_MODERNBERT_HAS = frozenset({
    "layers", "dim", "heads", "ffn_dim", "ffn", "max_positions", "norm_eps", "attention", "local_theta", "global_theta",
})  # fmt: skip
T5: dict[str, Any] = {
    "pre_norm": True, "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative",
    "plain_head": True,
}  # fmt: skip
"""Settings of every T5, by our names."""
_T5_HAS = frozenset({
    "layers", "dim", "heads", "head_dim", "ffn_dim", "ffn", "max_positions", "norm_eps", "decoder_layers",
    "unbiased_head", "untied_head", "source_lang", "layer_biases",
})  # fmt: skip
BART: dict[str, dict[str, Any]] = {
    "mbart": {},
    "m2m_100": {"positions": "sinusoidal", "embedding_norm": False, "ffn": "relu"},
    "bart": {"pre_norm": False},
}
"""Settings by type of BART's family that differ from mBART's, by our names."""
LABELS = {"mbart": "mBART", "m2m_100": "M2M-100", "bart": "BART"}
HEADS = {
    "classify": "XLMRobertaForSequenceClassification",
    "pair": "XLMRobertaForSequenceClassification",
    "tag": "XLMRobertaForTokenClassification",
    "span": "XLMRobertaForQuestionAnswering",
    "choice": "XLMRobertaForMultipleChoice",
}
"""Classes with the head of a task of ours; tasks that are missing have no such class."""


def check_hf(directory: Path) -> None:
    """Check by its `xling.models.files.model_folder.facts` that a model can be exported for transformers.

    Raises:
        UserError: there is no model, or no class has its parts. A model that only torch can read, or that
            transformers computes, passes.
    """
    if (directory / vocab.TRANSFORMERS_TOKENIZER).is_file():
        return
    is_task = (directory / model_folder.TASK_FILE).is_file()
    content = model_folder.check_model(directory, *([model_folder.TASK] if is_task else model_folder.OURS))
    if content:
        shape, both = model_folder.shape_of(content), content["format"] == model_folder.SEQ2SEQ
        head = HEADS.get(content["kind"], "") if is_task else "XLMRobertaForMaskedLM"
        odd = of_task(content["kind"], content.get("features", "cls")) if is_task else []
        refuse(directory, *unfit(shape, both, head, odd))


def refuse(directory: Path, family: str, odd: list[str]) -> None:
    """Raise UserError where a model has parts that the classes of a family lack."""
    if odd:
        raise UserError(
            f"{directory} has {' and '.join(odd)}, which {family}'s classes cannot express",
            "a model without these",
            "train one without them, or keep using this one with xling",
        )


def unfit(shape: Any, both: bool, head: str = "", odd: list[str] | None = None) -> tuple[str, list[str]]:
    """Return the family of classes that is closest to a model, and the parts of the model that it lacks.

    Args:
        shape: settings of the model, see `xling.models.shape.Shape`.
        both: it has a decoder.
        head: class of XLM-R with its head.
        odd: parts of its head that no class has.
    """
    if both and is_t5(shape):
        return "T5", _no_t5(shape)
    if both:
        return LABELS[type_of(shape)], _no_bart(shape)
    if is_modern(shape):
        other = [f"model.ffn={shape.ffn}"] if shape.ffn not in MODERNBERT_FFNS.values() else []
        lost = [*(odd or []), *unusual(shape, _MODERNBERT_HAS, MODERNBERT), *other]
        return "ModernBERT", lost + ([] if head in MODERNBERT_CLASSES else ["such a head"])
    return "XLM-R", [*(odd or []), *_no_xlmr(shape)]


def of_task(kind: str, features: str) -> list[str]:
    """List the parts of a fine-tuned head that the classes lack."""
    whose = "text" if kind == "classify" else "pair"
    odd = [f"the {features} features (fit.{whose}_features={features})"] if features != "cls" else []
    return odd if kind in HEADS else [*odd, f"a head for {kind}"]


def is_modern(shape: Any) -> bool:
    """Return whether ModernBERT's classes are the closest to an encoder."""
    return bool(shape.positions == "rope")


def is_t5(shape: Any) -> bool:
    """Return whether T5's class is the closest to a model with a decoder."""
    return bool(shape.positions == "relative")


def type_of(shape: Any) -> str:
    """Return the type of BART's family that is closest to a model with a decoder."""
    if shape.positions == "sinusoidal":
        return "m2m_100"
    return "mbart" if shape.pre_norm else "bart"


def unusual(
    shape: Any, spoken: frozenset[str] = CLASSIC, wanted: Mapping[str, Any] | None = None
) -> list[str]:
    """List the settings of a model that a format cannot express.

    Args:
        shape: settings of the model, see `xling.models.shape.Shape`.
        spoken: settings that the format has, with any value. A setting that is added later is in no format.
        wanted: values that the format implies; for other settings it implies our defaults.
    """
    usual = asdict(Shape()) | dict(wanted or {})
    return [
        f"model.{name}={str(getattr(shape, name)).lower()}"
        for name in names(own=False)
        if name not in spoken and getattr(shape, name, usual[name]) != usual[name]
    ]


def _no_xlmr(shape: Any) -> list[str]:
    parts = {
        "layer norms before the blocks (model.pre_norm)": shape.pre_norm,
        "language embeddings (model.lang_embeddings)": shape.lang_embeddings,
        "scaled embeddings (model.scale_embeddings)": shape.scale_embeddings,
        "adapters (model.lang_adapter, model.invertible, fit.task_adapter)": bool(
            shape.lang_adapter or shape.task_adapter or shape.invertible
        ),
    }
    return [name for name, there in parts.items() if there] + unusual(shape)


def _no_bart(shape: Any) -> list[str]:
    kind = type_of(shape)
    parts = {
        "layer norms after the blocks (model.pre_norm=false)": not shape.pre_norm and kind != "bart",
        "a dense layer before the output (model.plain_head=false)": not shape.plain_head,
        "language embeddings (model.lang_embeddings)": shape.lang_embeddings,
        f"layer norms with model.norm_eps={shape.norm_eps}": shape.norm_eps != 1e-5,
        "a separate output matrix (model.untied_head)": shape.untied_head,
    }
    odd = [name for name, there in parts.items() if there]
    return odd + unusual(shape, CLASSIC | {"lang_first"}, BART[kind])


def _no_t5(shape: Any) -> list[str]:
    tied = ["a separate output matrix (model.untied_head): transformers ties umT5's"]
    return unusual(shape, _T5_HAS, T5) + (tied if shape.layer_biases and shape.untied_head else [])
