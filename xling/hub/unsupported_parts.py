"""Parts of a model that the classes of transformers and fairseq lack, by its shape and head; without torch."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from xling.core.errors import UserError
from xling.models import parts
from xling.models.files import model_folder
from xling.models.shape import Shape, names
from xling.text import vocab
from xling.transfer.settings import LAST

COMMON_SETTINGS = frozenset({
    "layers", "dim", "heads", "ffn_dim", "max_positions", "norm_eps", "pre_norm", "decoder_layers", "plain_head",
    "unbiased_head", "untied_head", "source_lang", "lang_embeddings", "segment_embeddings", "scale_embeddings",
    "lang_adapter", "task_adapter", "invertible",
})  # fmt: skip
"""Settings that the exports to XLM-R, mBART and fairseq handle separately."""
MODERNBERT_SETTINGS: dict[str, Any] = {
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
_MODERNBERT_EXPRESSES = frozenset({
    "layers", "dim", "heads", "ffn_dim", "ffn", "max_positions", "norm_eps", "attention", "local_theta", "global_theta",
})  # fmt: skip
T5_SETTINGS: dict[str, Any] = {
    "pre_norm": True, "norm": "rms", "embedding_norm": False, "biases": False, "positions": "relative",
    "plain_head": True,
}  # fmt: skip
"""Settings of every T5, by our names."""
_T5_EXPRESSES = frozenset({
    "layers", "dim", "heads", "head_dim", "ffn_dim", "ffn", "max_positions", "norm_eps", "decoder_layers",
    "unbiased_head", "untied_head", "source_lang", "layer_biases",
})  # fmt: skip
BART_SETTINGS: dict[str, dict[str, Any]] = {
    "mbart": {},
    "m2m_100": {"positions": "sinusoidal", "embedding_norm": False, "ffn": "relu"},
    "bart": {"pre_norm": False},
}
"""Settings by type of BART's family that differ from mBART's, by our names."""
FAMILY_LABELS = {"mbart": "mBART", "m2m_100": "M2M-100", "bart": "BART"}
HEAD_CLASSES = {
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
        shape, has_decoder = model_folder.shape_of(content), content["format"] == model_folder.SEQ2SEQ
        hf_class = HEAD_CLASSES.get(content["kind"], "") if is_task else "XLMRobertaForMaskedLM"
        unsupported = (
            unsupported_head_parts(
                content["kind"], content.get("features", "cls"), content.get("layers", LAST)
            )
            if is_task
            else []
        )
        refuse_unsupported(directory, *closest_family(shape, has_decoder, hf_class, unsupported))


def refuse_unsupported(directory: Path, family: str, unsupported: list[str]) -> None:
    """Raise UserError where a model has parts that the classes of a family lack."""
    if unsupported:
        raise UserError(
            f"{directory} has {' and '.join(unsupported)}, which {family}'s classes cannot express",
            "a model without these",
            "train one without them, or keep using this one with xling",
        )


def closest_family(
    shape: Any, has_decoder: bool, hf_class: str = "", unsupported: list[str] | None = None
) -> tuple[str, list[str]]:
    """Return the family of classes that is closest to a model, and the parts of the model that it lacks."""
    if has_decoder and is_t5(shape):
        missing = unsupported_settings(shape, _T5_EXPRESSES, T5_SETTINGS)
        if shape.layer_biases and shape.untied_head:
            missing.append("a separate output matrix (model.untied_head): transformers ties umT5's")
        return "T5", missing
    if has_decoder:
        return FAMILY_LABELS[bart_type(shape)], _unsupported_by_bart(shape)
    if is_modernbert(shape):
        ffn_problems = [f"model.ffn={shape.ffn}"] if shape.ffn not in MODERNBERT_FFNS.values() else []
        missing_parts = [
            *(unsupported or []),
            *unsupported_settings(shape, _MODERNBERT_EXPRESSES, MODERNBERT_SETTINGS),
            *ffn_problems,
        ]
        return "ModernBERT", missing_parts + ([] if hf_class in MODERNBERT_CLASSES else ["such a head"])
    return "XLM-R", [*(unsupported or []), *_unsupported_by_xlmr(shape)]


def unsupported_head_parts(kind: str, features: str, layers: str = LAST) -> list[str]:
    """List the parts of a fine-tuned head that the classes lack."""
    text_kind = "text" if kind == "classify" else "pair"
    unsupported = (
        [f"the {features} features (fit.{text_kind}_features={features})"] if features != "cls" else []
    )
    if layers != LAST:
        unsupported.append(f"a head on other states than the last layer's (fit.layers={layers})")
    return unsupported if kind in HEAD_CLASSES else [*unsupported, f"a head for {kind}"]


def is_modernbert(shape: Any) -> bool:
    """Return whether ModernBERT's classes are the closest to an encoder."""
    return bool(shape.positions == "rope")


def is_t5(shape: Any) -> bool:
    """Return whether T5's class is the closest to a model with a decoder."""
    return bool(shape.positions == "relative")


def bart_type(shape: Any) -> str:
    """Return the type of BART's family that is closest to a model with a decoder."""
    if shape.positions == "sinusoidal":
        return "m2m_100"
    return "mbart" if shape.pre_norm else "bart"


def unsupported_settings(
    shape: Any, expressible: frozenset[str] = COMMON_SETTINGS, implied: Mapping[str, Any] | None = None
) -> list[str]:
    """List the settings of a model that a format cannot express.

    Args:
        shape: settings of the model, see `xling.models.shape.Shape`.
        expressible: settings that the format has, with any value. A setting that is added later is in no format.
        implied: values that the format implies; for other settings it implies our defaults.
    """
    defaults = asdict(Shape()) | dict(implied or {})
    return [
        f"model.{name}={str(getattr(shape, name)).lower()}"
        for name in names(own=False)
        if name not in expressible and getattr(shape, name, defaults[name]) != defaults[name]
    ] + [
        f"model.{name}={folder}"
        for name, folder in parts.frozen_encoders(shape).items()
        if name not in expressible
    ]


def _unsupported_by_xlmr(shape: Any) -> list[str]:
    is_present = {
        "layer norms before the blocks (model.pre_norm)": shape.pre_norm,
        "language embeddings (model.lang_embeddings)": shape.lang_embeddings,
        "scaled embeddings (model.scale_embeddings)": shape.scale_embeddings,
        "adapters (model.lang_adapter, model.invertible, fit.task_adapter)": bool(
            shape.lang_adapter or shape.task_adapter or shape.invertible
        ),
    }
    expressible = COMMON_SETTINGS | {"features"}
    return [name for name, there in is_present.items() if there] + unsupported_settings(shape, expressible)


def _unsupported_by_bart(shape: Any) -> list[str]:
    kind = bart_type(shape)
    is_present = {
        "layer norms after the blocks (model.pre_norm=false)": not shape.pre_norm and kind != "bart",
        "a dense layer before the output (model.plain_head=false)": not shape.plain_head,
        "language embeddings (model.lang_embeddings)": shape.lang_embeddings,
        f"layer norms with model.norm_eps={shape.norm_eps}": shape.norm_eps != 1e-5,
        "a separate output matrix (model.untied_head)": shape.untied_head,
    }
    unsupported = [name for name, there in is_present.items() if there]
    return unsupported + unsupported_settings(shape, COMMON_SETTINGS | {"lang_first"}, BART_SETTINGS[kind])
