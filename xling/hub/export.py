"""Export of a published model to a directory that others load without our code: ``xling export hf|fairseq``."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from xling import compat
from xling.array_types import Shaped
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import tell
from xling.data.symbols import Symbols
from xling.hub import (
    bart,
    card,
    checks,
    configs,
    features_export,
    layouts,
    mbart,
    modernbert,
    native_export,
    sentence,
    static_export,
    t5,
    tokenizer,
    unsupported_parts,
)
from xling.hub.settings import ExportConfig
from xling.models import parts
from xling.models.files import model_weights
from xling.models.files.model_folder import SENTENCE_FILE, TASK_FILE
from xling.models.generate.decode import BOS, EOS, allowed_tokens
from xling.models.network.encoder import PAD, EncoderConfig
from xling.models.network.seq2seq import Seq2SeqConfig
from xling.static.encoder_files import is_static_encoder
from xling.text import vocab
from xling.transfer import tune

WEIGHTS_FILE = "model.safetensors"
SENTENCE_VECTOR_CLASSES = ("XLMRobertaForMaskedLM", "ModernBertForMaskedLM", "FeaturesForMaskedLM")
_HEAD_NAMES = {
    "XLMRobertaForSequenceClassification": {"dense": "classifier.dense", "classifier": "classifier.out_proj"},
    "XLMRobertaForTokenClassification": {"classifier": "classifier"},
    "XLMRobertaForQuestionAnswering": {"classifier": "qa_outputs"},
    "XLMRobertaForMultipleChoice": {"dense": "roberta.pooler.dense", "classifier": "classifier"},
}


@dataclass(frozen=True)
class ExportedModel:
    """A published model to be exported.

    Attributes:
        shape: shape of the encoder, or of both sides.
        state: our weights by our names.
        task_settings: entries of config.json about the task.
        symbols: symbols of a model with a decoder.
    """

    shape: EncoderConfig
    state: dict[str, Shaped[Tensor, " ..."]]
    task_settings: dict[str, Any] = field(default_factory=dict)
    symbols: Symbols | None = None


def run_hf(cfg: ExportConfig) -> manifest.Manifest:
    """Export a model for `transformers`: config.json, model.safetensors, a fast tokenizer and the model card.

    A pre-trained encoder becomes an ``XLMRobertaForMaskedLM``, with rotary positions a
    ``ModernBertForMaskedLM``. A fine-tuned encoder becomes the class for its task. A model with a decoder
    becomes a class of BART's family or, with relative positions, of T5's, with its generation config. A static
    encoder comes with the code of its class.

    Raises:
        UserError: the model has a part that these classes lack, or there is no model.
    """
    inputs = [cfg.checkpoint, *cfg.scores]
    if published := manifest.up_to_date(cfg.out, "export hf", cfg, inputs):
        return published
    convert = (
        partial(static_export.write_export, cfg) if is_static_encoder(cfg.checkpoint) else make_converter(cfg)
    )
    with manifest.publish(cfg.out, "export hf", cfg, inputs) as publication:
        publication.counts |= convert(publication.path)
    return manifest.read(cfg.out)


def make_converter(cfg: ExportConfig) -> Callable[[Path], dict[str, Any]]:
    """Read a model, and return what writes it for `transformers` into a directory and counts what it wrote.

    Raises:
        UserError: as `run_hf`.
    """
    if (cfg.checkpoint / vocab.TRANSFORMERS_TOKENIZER).is_file() and (
        native_model := native_export.read_native_model(cfg.checkpoint)
    ):
        return _native_converter(native_model, cfg)
    model = _read_model(cfg.checkpoint)
    if (cfg.checkpoint / vocab.TRANSFORMERS_TOKENIZER).is_file():
        native_model = native_export.with_own_ids(cfg.checkpoint, *_to_transformers(model), model.shape)
        return _native_converter(native_model, cfg)
    has_segments = model.shape.segment_embeddings
    fast_tokenizer = tokenizer.build_for_model(cfg.checkpoint, model.symbols, has_segments)
    settings, weights = _to_transformers(model)
    if (num_pieces := fast_tokenizer.get_vocab_size()) != settings["vocab_size"]:
        raise UserError(
            f"{cfg.checkpoint} has {settings['vocab_size']} embeddings and a vocabulary of {num_pieces}",
            "a model with one row for each piece",
        )
    carries_code = settings.get("model_type") == features_export.MODEL_TYPE
    example = features_export.USAGE if carries_code else ""

    def write(out: Path) -> dict[str, Any]:
        extra_specials = model.symbols.names() if model.symbols else ()
        tokenizer.save_tokenizer(fast_tokenizer, out, model.shape.max_positions, extra_specials, has_segments)
        if model.symbols is not None:
            assert isinstance(model.shape, Seq2SeqConfig)
            configs.write_json(out / "generation_config.json", _generation_config(model.shape, model.symbols))
        if carries_code:
            features_export.write_code(out)
        if settings["architectures"][0] in SENTENCE_VECTOR_CLASSES:
            names = [str(fast_tokenizer.id_to_token(number)) for number in range(settings["vocab_size"])]
            sentence.write_sentence_modules(
                out, model.shape.dim, names, (names[BOS], names[EOS]), cfg.pooling, cfg.checkpoint
            )
        _copy_spm(cfg.checkpoint, out)
        text = card.write_card(cfg.checkpoint, settings, cfg.scores, model.symbols, example)
        return _write_model(out, settings, weights, text)

    return write


def _to_transformers(model: ExportedModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and weights for the class of transformers that is closest to a model."""
    if isinstance(model.shape, Seq2SeqConfig) and model.symbols is not None:
        family: Any = t5 if unsupported_parts.is_t5(model.shape) else bart
        return family.to_hf_config(model.shape, model.symbols), family.to_hf_weights(model.shape, model.state)
    convert = _to_modernbert if unsupported_parts.is_modernbert(model.shape) else _to_xlmr
    settings, weights = convert(model)
    if folder := parts.value(model.shape, "features"):
        features_export.add_features(Path(folder), model.state, settings, weights)
    return settings, weights


def _write_model(
    out: Path, settings: dict[str, Any], weights: dict[str, Tensor], card_text: str
) -> dict[str, Any]:
    """Write weights, config.json and card, and return what the manifest says of them."""
    save_file(weights, out / WEIGHTS_FILE, metadata={"format": "pt"})
    configs.write_json(out / "config.json", settings)
    (out / "README.md").write_text(card_text, encoding="utf-8")
    return {"class": settings["architectures"][0], "parameters": _count_parameters(weights)}


def _native_converter(
    model: native_export.NativeModel, cfg: ExportConfig
) -> Callable[[Path], dict[str, Any]]:
    """Return what writes a model that transformers computes, in its own type; see `make_converter`."""

    def write(out: Path) -> dict[str, Any]:
        native_export.save_tokenizer(model, cfg.checkpoint, out)
        has_vectors = model.settings["architectures"][0] in SENTENCE_VECTOR_CLASSES
        if has_vectors or (cfg.checkpoint / SENTENCE_FILE).is_file():
            fast = Tokenizer.from_file(str(out / "tokenizer.json"))
            names = [str(fast.id_to_token(number)) for number in range(fast.get_vocab_size())]
            sentence.write_sentence_modules(
                out, model.shape.dim, names, fast.encode("").tokens, cfg.pooling, cfg.checkpoint
            )
        text = card.write_card(cfg.checkpoint, native_export.card_settings(model), cfg.scores)
        settings = {name: value for name, value in model.settings.items() if name != "torch_dtype"}
        settings["dtype"] = (
            "float32"  # otherwise transformers rounds the weights to the type of the imported ones
        )
        written = _write_model(out, settings, layouts.copy_float32(model.weights), text)
        return written | {"parameters": _count_parameters(model.weights)}

    return write


def run_fairseq(cfg: ExportConfig) -> manifest.Manifest:
    """Write ``model.pt`` and ``dict.txt`` for stock fairseq's ``RobertaModel`` or ``BARTModel``.

    Raises:
        UserError: the model has a part that RoBERTa or mBART lacks, or there is no pre-trained model.
    """
    if published := manifest.up_to_date(cfg.out, "export fairseq", cfg, [cfg.checkpoint]):
        return published
    checks.check_export_fairseq(cfg)
    model = _read_model(cfg.checkpoint, is_hf=False)
    if isinstance(model.shape, Seq2SeqConfig) and model.symbols is not None:
        name, state = "BARTModel", _mbart_state(cfg.checkpoint, model.shape, model.state, model.symbols)
    else:
        name, state = "RobertaModel", _roberta_state(model)
    with manifest.publish(cfg.out, "export fairseq", cfg, [cfg.checkpoint]) as publication:
        torch.save(state, publication.path / "model.pt")
        shutil.copy(cfg.checkpoint / vocab.DICTIONARY, publication.path / vocab.DICTIONARY)
        _copy_spm(cfg.checkpoint, publication.path)
        publication.counts |= {"class": name, "parameters": _count_parameters(state["model"])}
    return manifest.read(cfg.out)


def _read_model(directory: Path, is_hf: bool = True) -> ExportedModel:
    """Read a published model for export.

    Raises:
        UserError: there is no model, or the classes of other programs cannot express it.
    """
    hf_class, unsupported = "XLMRobertaForMaskedLM", list[str]()
    if (directory / TASK_FILE).is_file():
        model, unsupported = _read_tuned(directory)
        hf_class = model.task_settings["architectures"][0]
    elif model_weights.has_decoder(directory):
        seq2seq_model, symbols = model_weights.load_seq2seq(directory)
        model = ExportedModel(seq2seq_model.cfg, seq2seq_model.state_dict(), symbols=symbols)
    else:
        encoder_model, _ = model_weights.load_model(directory)
        if encoder_model.lm_head.is_untrained:
            tell(
                f"xling: {directory} has no trained LM head: what its export writes in place of a mask means nothing"
            )
        model = ExportedModel(encoder_model.cfg, encoder_model.state_dict(), {"architectures": [hf_class]})
    family, missing_parts = unsupported_parts.closest_family(
        model.shape, model.symbols is not None, hf_class, unsupported
    )
    if (directory / vocab.TRANSFORMERS_TOKENIZER).is_file() and (
        not is_hf or model.symbols is not None or parts.value(model.shape, "features")
    ):
        missing_parts.append(f"the tokenizer of another model ({vocab.TRANSFORMERS_TOKENIZER})")
    if isinstance(model.shape, Seq2SeqConfig) and bart.has_bias(model.shape, model.state):
        missing_parts.append("a bias at its output (model.unbiased_head=false)")
    unsupported_parts.refuse_unsupported(directory, family, missing_parts)
    return model


def _read_tuned(directory: Path) -> tuple[ExportedModel, list[str]]:
    """Read a model of `xling finetune`, and the parts of its head that XLM-R's classes lack."""
    model = tune.load_tuned(directory).model
    unsupported = unsupported_parts.unsupported_head_parts(model.task.name, model.features, model.layers)
    task_settings: dict[str, Any] = {
        "architectures": [unsupported_parts.HEAD_CLASSES.get(model.task.name, "")]
    }
    if unsupported_parts.is_modernbert(model.encoder.cfg):
        task_settings[modernbert.TASK_KEY] = model.task.name
    task_settings |= configs.label_settings(model.labels)
    return ExportedModel(model.encoder.cfg, model.state_dict(), task_settings), unsupported


def _to_xlmr(model: ExportedModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and weights for XLM-R's class."""
    weights = layouts.to_layout(model.state, layouts.XLMR)
    settings = _xlmr_config(model.shape, len(weights[f"{layouts.XLMR.tokens}.weight"])) | model.task_settings
    for our_name, hf_name in _HEAD_NAMES.get(settings["architectures"][0], {}).items():
        for kind in ("weight", "bias"):
            weights[f"{hf_name}.{kind}"] = model.state[f"{our_name}.{kind}"].detach().float().clone()
    return settings, weights


def _to_modernbert(model: ExportedModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return config.json and weights for ModernBERT's class."""
    weights = modernbert.to_hf(model.state, model.shape)
    name = unsupported_parts.MODERNBERT_CLASSES[model.task_settings["architectures"][0]]
    settings = modernbert.to_hf_config(model.shape, len(weights[modernbert.TOKEN_EMBEDDINGS]), PAD, BOS, EOS)
    return settings | model.task_settings | {"architectures": [name]}, weights


def _generation_config(shape: Seq2SeqConfig, symbols: Symbols) -> dict[str, Any]:
    """Build ``generation_config.json``: the search of `xling translate`, with the id of each language's token."""
    start, *forced_tokens = symbols.prompt(symbols.default)
    # transformers suppresses tokens after it forces one, and bars bad words before: languages are bad words.
    langs = [symbols.lang(i) for i in range(len(symbols.langs))] if forced_tokens else []
    suppressed = [n for n in (~allowed_tokens(symbols)).nonzero().flatten().tolist() if n not in langs]
    return {
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": start,
        **({"forced_bos_token_id": forced_tokens[0]} if forced_tokens else {}),
        "forced_eos_token_id": EOS,
        "suppress_tokens": suppressed,
        **({"bad_words_ids": [[lang] for lang in langs]} if langs else {}),
        "num_beams": 5,
        "early_stopping": True,
        "length_penalty": 1.0,
        "min_new_tokens": 1 + len(forced_tokens),
        "max_new_tokens": shape.max_positions - 1,
        "lang_to_id": {f"[{lang}]": symbols.lang(i) for i, lang in enumerate(symbols.langs)},
    }


def _xlmr_config(shape: EncoderConfig, vocab_size: int) -> dict[str, Any]:
    return {
        "model_type": "xlm-roberta",
        "vocab_size": vocab_size,
        **{theirs: getattr(shape, ours) for ours, theirs in configs.HF_SIZE_NAMES.items()},
        "hidden_act": "gelu",
        "hidden_dropout_prob": shape.dropout or 0.1,
        "attention_probs_dropout_prob": shape.attention_dropout,
        "max_position_embeddings": shape.max_positions + layouts.XLMR.first_position,
        "type_vocab_size": 1 + shape.segment_embeddings,
        "layer_norm_eps": shape.norm_eps,
        "initializer_range": 0.02,
        "position_embedding_type": "absolute",
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "tie_word_embeddings": True,
        "dtype": "float32",
    }


def _roberta_state(model: ExportedModel) -> dict[str, Any]:
    """Build a checkpoint of fairseq's RoBERTa, with settings in the ``Namespace`` that released models have."""
    shape, weights = model.shape, layouts.to_layout(model.state, layouts.FAIRSEQ)
    weights["encoder.lm_head.weight"] = weights[f"{layouts.FAIRSEQ.tokens}.weight"]
    args = Namespace(
        arch="roberta",
        task="masked_lm",
        criterion="masked_lm",
        data=".",
        seed=1,
        tokens_per_sample=shape.max_positions,
        max_positions=shape.max_positions,
        sample_break_mode="none",
        encoder_layers=shape.layers,
        encoder_embed_dim=shape.dim,
        encoder_ffn_embed_dim=shape.ffn_dim,
        encoder_attention_heads=shape.heads,
        dropout=shape.dropout,
        attention_dropout=shape.attention_dropout,
        activation_dropout=0.0,
        activation_fn="gelu",
        pooler_activation_fn="tanh",
        pooler_dropout=0.0,
    )
    return _fairseq_state(args, weights, "MaskedLmLoss")


def _mbart_state(
    directory: Path, shape: Seq2SeqConfig, state: dict[str, Tensor], symbols: Symbols
) -> dict[str, Any]:
    """Build a checkpoint of fairseq's mBART.

    Raises:
        UserError: the model adds a bias to its output, and fairseq's does not.
    """
    bias = state.get("decoder.head.bias")
    if bias is not None and bool(bias.any()):
        raise UserError(
            f"{directory} has a bias at its output, which stock fairseq's mBART lacks",
            "a model trained with model.unbiased_head=true",
            "use xling export hf",
        )
    args = mbart.to_fairseq_args(shape, symbols.langs)
    return _fairseq_state(args, mbart.to_fairseq_weights(state, symbols), "CrossEntropyCriterion")


def _fairseq_state(args: Namespace, weights: dict[str, Tensor], criterion: str) -> dict[str, Any]:
    is_bart = args.arch.startswith("mbart")
    if is_bart:
        tell(
            "xling: stock fairseq reads settings of BART from a Namespace alone, which torch.load refuses since "
            f"2.6: give its commands --user-dir {Path(compat.__file__).parent}, or set "
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
        )
    settings = {"args": args} if is_bart else {"args": None, "cfg": compat.plain_settings(args)}
    history = {
        "criterion_name": criterion,
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    return {
        **settings,
        "model": weights,
        "optimizer_history": [history],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
    }


def _copy_spm(directory: Path, out: Path) -> None:
    if (directory / vocab.SPM_MODEL).is_file():
        shutil.copy(directory / vocab.SPM_MODEL, out / "sentencepiece.bpe.model")


def _count_parameters(weights: dict[str, Tensor]) -> int:
    return sum({t.data_ptr(): t.numel() for t in weights.values()}.values())
