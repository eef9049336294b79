"""Import of third-party models as checkpoints for all commands: ``xling import hf|fairseq``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xling import compat
from xling.array_types import Shaped
from xling.core import languages
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.hub import (
    bart,
    bert,
    configs,
    extend,
    files,
    layouts,
    mbart,
    modernbert,
    sentence_modules,
    t5,
    tokenizer,
    transformers_wrapper,
)
from xling.hub.settings import ImportConfig
from xling.hub.source import WRAPPED_TYPES, ModelSource, find_and_check
from xling.models.files import model_weights
from xling.models.files.model_folder import ENCODER, SEQ2SEQ
from xling.models.network.encoder import PAD, EncoderConfig, EncoderModel
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.transfer import tune
from xling.transfer.heads import TaskModel

MAX_TASK_TOKENS = 512  # sub-tokens that an imported classifier reads at once


@dataclass(frozen=True)
class ImportedModel:
    """A third-party model in our format, as `_publish_model` writes it.

    ``task`` is that of a classifier, with its labels.
    """

    shape: EncoderConfig
    weights: dict[str, Shaped[Tensor, " ..."]]
    vocabulary: files.ImportedVocabulary
    langs: list[str]
    task: tuple[str, list[str]] | None = None
    head: dict[str, Shaped[Tensor, " ..."]] = field(default_factory=dict)


def run_hf(cfg: ImportConfig, source: ModelSource | None = None) -> manifest.Manifest:
    """Import a Hugging Face model: XLM-R and others of that shape, BERT, ModernBERT, or one of BART's or T5's family.

    Args:
        cfg: settings.
        source: the model, if `xling.hub.source.find_and_check` has found it.

    Raises:
        UserError: as `xling.hub.source.find_and_check`; the tokenizer does not match the weights; or a pickle
            has code in it.
    """
    source = source or find_and_check(cfg)
    if source.model_type in WRAPPED_TYPES:
        with files.explain_file_errors(source.folder):
            state = files.read_hf_weights(source.folder, cfg.allow_pickle)
        return publish_transformers_encoder(
            cfg, "import hf", source.config, state, source.folder, source.modules
        )
    langs = [languages.get(lang).code for lang in cfg.langs]
    state = files.read_hf_weights(source.folder, cfg.allow_pickle)
    with files.explain_file_errors(source.folder):
        model = READERS[source.model_type](source.config, state, source.folder, langs)
    return _publish_model(cfg, "import hf", source.folder, model, source.modules)


def publish_transformers_encoder(
    cfg: ImportConfig,
    stage: str,
    config: dict[str, Any],
    state: Mapping[str, Shaped[Tensor, " ..."]],
    folder: Path,
    modules: sentence_modules.ReadModules | None = None,
) -> manifest.Manifest:
    """Publish an encoder computed by transformers.

    Args:
        folder: directory with its tokenizer.
        modules: how it makes sentence vectors.

    Raises:
        UserError: ``extend_vocab`` is given, or settings, weights and tokenizer do not fit together.
    """
    if cfg.extend_vocab:
        raise UserError(
            "extend_vocab= is given, and this model is computed by transformers",
            f"extend_vocab= with a model of type {', '.join(READERS)}",
            "leave extend_vocab out",
        )
    langs = [languages.get(lang).code for lang in cfg.langs]
    with files.explain_file_errors(folder):
        tokens = transformers_wrapper.load_tokenizer(folder)
        model, export_data = transformers_wrapper.build_wrapper(state, config, tokens, cfg.source)
        if model.encoder.langs is not None:
            names = sorted((number, name) for name, number in (config.get("lang2id") or {}).items())
            model_langs = [languages.get(name).code for _, name in names]
            _check_languages(langs, model_langs or langs, folder)
            langs = model_langs or langs
        write_sentence = _sentence_writer(cfg, folder, modules, model.cfg)
    inputs = [folder if stage == "import hf" else cfg.source]
    if published := manifest.up_to_date(cfg.out, stage, cfg, inputs):
        return published
    with manifest.publish(cfg.out, stage, cfg, inputs) as publication:
        transformers_wrapper.write_vocabulary(tokens, publication.path)
        transformers_wrapper.save_wrapper(model, export_data, langs, config, publication.path)
        write_sentence(publication.path)
        publication.counts |= {"langs": langs, "vocabulary": len(tokens.order), "computed_by": "transformers"}
    return manifest.read(cfg.out)


def run_fairseq(cfg: ImportConfig) -> manifest.Manifest:
    """Import a directory with ``model.pt`` and ``dict.txt`` of stock fairseq's RoBERTa, XLM-R or mBART.

    Raises:
        UserError: as `run_hf`.
    """
    path = cfg.source / "model.pt"
    compat.install()
    content = files.read_pickle(path)
    args = _read_settings(content)
    if not isinstance(content.get("model"), Mapping) or "encoder_attention_heads" not in args:
        raise UserError(
            f"{path} is not a RoBERTa or mBART of fairseq",
            "a checkpoint with `cfg` or `args` and `model`",
            "for other files use xling import hf",
        )
    model_weights.check_finite(content["model"], path)
    langs = [languages.get(lang).code for lang in cfg.langs]
    vocabulary = files.read_sentencepiece(cfg.source)
    content["model"] = dict(content["model"])
    entries = files.drop_made_up_words(
        files.read_fairseq_dictionary(cfg.source / "dict.txt"), content["model"]
    )
    files.check_same_pieces(entries, vocabulary.pieces, cfg.source / "dict.txt")
    if "decoder.embed_tokens.weight" in content["model"]:
        shape, weights, model_langs = mbart.read_fairseq(args, content["model"], vocabulary, path)
        _check_languages(langs, model_langs, path)
        return _publish_model(
            cfg, "import fairseq", cfg.source, ImportedModel(shape, weights, vocabulary, model_langs)
        )
    state = {_current_name(name): tensor for name, tensor in content["model"].items()}
    tokens = state.get(f"{layouts.FAIRSEQ.tokens}.weight")
    files.check_tied(state.get("encoder.lm_head.weight"), tokens, path)  # --untie-weights-roberta
    weights = layouts.from_layout(state, layouts.FAIRSEQ, str(path))
    encoder = EncoderConfig(
        layers=layouts.count_layers(weights),
        dim=weights["encoder.norm.weight"].shape[0],
        heads=int(args["encoder_attention_heads"]),
        ffn_dim=weights["encoder.layers.0.up.weight"].shape[0],
        max_positions=len(weights["encoder.positions.weight"]),
    )
    if args.get("encoder_normalize_before") or args.get("activation_fn", "gelu") != "gelu":
        raise UserError(
            f"{path} has layer norms before its blocks, or another activation than gelu",
            "layer norms after the blocks and gelu, as XLM-R",
            "choose another checkpoint",
        )
    return _publish_model(
        cfg, "import fairseq", cfg.source, ImportedModel(encoder, weights, vocabulary, langs)
    )


def _read_settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return model and task settings of a fairseq checkpoint, old (``args``) or new (``cfg``)."""
    cfg = state.get("cfg")
    parts = [cfg.get("task"), cfg.get("model")] if isinstance(cfg, Mapping) else [state.get("args")]
    args: dict[str, Any] = {}
    for part in parts:
        args |= dict(part) if isinstance(part, Mapping) else vars(part) if part is not None else {}
    return args


def _in_order_of_tokens(
    weights: dict[str, Shaped[Tensor, " ..."]], folder: Path, padding: int | None = None
) -> tuple[files.ImportedVocabulary, dict[str, Shaped[Tensor, " ..."]]]:
    """Return the vocabulary of a model, and its weights with a row for each of our ids.

    Args:
        padding: the id from which positions are counted, where they are.
    """
    added = files.added_tokens(folder) - {*tokenizer.SPECIAL_TOKENS, tokenizer.MASK_TOKEN}
    # Gemma's in mmBERT, a byte-level one in ModernBERT
    if added or modernbert.has_other_tokenizer(folder):
        tokens = transformers_wrapper.load_tokenizer(folder)
        if padding is not None:
            files.check_padding(padding, tokens.order[1], folder)
        write = partial(transformers_wrapper.write_vocabulary, tokens)
        reordered = modernbert.reorder_rows(weights, tokens.order, str(folder))
        return files.ImportedVocabulary(tokens.names, write), reordered
    if padding is not None:
        files.check_padding(padding, PAD, folder)
    vocabulary = files.read_sentencepiece(folder)
    files.check_tokenizer(folder, vocabulary.pieces)
    return vocabulary, weights


def _read_xlmr(
    config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]
) -> ImportedModel:
    configs.check_config(config, "xlm-roberta", folder)
    if not any(name.startswith("roberta.") for name in state):
        state = {f"roberta.{name}": tensor for name, tensor in state.items()}
    files.check_tied(state.get("lm_head.decoder.weight"), state.get(f"{layouts.XLMR.tokens}.weight"), folder)
    padding = int(config.get("pad_token_id", PAD))
    layout = replace(layouts.XLMR, first_position=padding + 1)
    weights = layouts.from_layout(state, layout, str(folder))
    vocabulary, weights = _in_order_of_tokens(weights, folder, padding)
    files.drop_unused_rows(weights, len(vocabulary.pieces) + len(tokenizer.SPECIAL_TOKENS) + 1, folder)
    sizes = files.read_sizes(config)
    sizes["max_positions"] -= layout.first_position
    shape = EncoderConfig(
        **sizes,
        norm_eps=float(config.get("layer_norm_eps", 1e-12)),
        segment_embeddings=layouts.SEGMENT_EMBEDDINGS in weights,
    )
    return ImportedModel(shape, weights, vocabulary, langs)


def _read_bert(
    config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]
) -> ImportedModel:
    return ImportedModel(*bert.read_bert(config, state, folder), langs)


def _read_seq2seq(
    config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]
) -> ImportedModel:
    read = t5.read_hf if config["model_type"] in t5.T5_TYPES else bart.read_hf
    shape, weights, ids = read(config, state, folder, langs)
    _check_languages(langs, ids.langs, folder)
    return ImportedModel(shape, weights, ids.vocabulary, ids.langs)


def _read_modernbert(
    config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]
) -> ImportedModel:
    shape, task = modernbert.read_shape(config, folder), modernbert.read_task(config)
    weights = modernbert.from_hf(state, shape, str(folder))
    vocabulary, weights = _in_order_of_tokens(weights, folder)
    return ImportedModel(
        shape, weights, vocabulary, langs, task, modernbert.head_from_hf(state, str(folder)) if task else {}
    )


READERS = {
    "xlm-roberta": _read_xlmr, "bert": _read_bert, modernbert.MODEL_TYPE: _read_modernbert,
    **dict.fromkeys((*bart.BART_FAMILIES, *t5.T5_TYPES), _read_seq2seq),
}  # fmt: skip


def _check_languages(requested: list[str], model_langs: list[str], model_name: Path) -> None:
    if requested and requested != model_langs:
        raise UserError(
            f"langs={','.join(requested)}, and {model_name} has tokens or vectors for {', '.join(model_langs)}",
            "the languages of the model",
            "leave langs out",
        )


def _sentence_writer(
    cfg: ImportConfig, folder: Path, modules: sentence_modules.ReadModules | None, shape: EncoderConfig
) -> Callable[[Path], None]:
    """Return what writes how a model makes sentence vectors into a directory."""
    if modules is None:
        return lambda out: None
    return sentence_modules.make_writer(modules, folder, shape, cfg.allow_pickle)


def _publish_model(
    cfg: ImportConfig,
    stage: str,
    folder: Path,
    imported: ImportedModel,
    modules: sentence_modules.ReadModules | None = None,
) -> manifest.Manifest:
    vocabulary, weights = imported.vocabulary, imported.weights
    num_rows = len(weights["encoder.tokens.weight"])
    if not isinstance(imported.shape, Seq2SeqConfig):
        files.check_rows(num_rows, len(vocabulary.pieces) + len(tokenizer.SPECIAL_TOKENS) + 1, cfg.source)
    counts: dict[str, Any] = {}
    inputs = [folder, *([cfg.extend_vocab] if cfg.extend_vocab else [])]
    if cfg.extend_vocab:
        vocabulary, sources, counts = extend.extend_vocabulary(
            vocabulary, cfg.extend_vocab, cfg.init, cfg.source
        )
        weights = extend.append_rows(weights, len(imported.vocabulary.pieces), sources)
        num_rows += len(sources)
    if published := manifest.up_to_date(cfg.out, stage, cfg, inputs):
        return published
    model = _build_model(imported.shape, weights, num_rows, cfg.source)
    write_sentence = _sentence_writer(cfg, folder, modules, imported.shape)
    with manifest.publish(cfg.out, stage, cfg, inputs) as publication:
        vocabulary.write(publication.path)
        if not cfg.extend_vocab and not isinstance(imported.shape, Seq2SeqConfig):
            files.check_same_cuts(folder, vocabulary.pieces, publication.path)
        write_sentence(publication.path)
        if imported.task is None:
            model_weights.save_model(publication.path / "model.pt", model, imported.langs, publication.path)
        else:
            _save_task(imported, model, publication.path)
        kind = SEQ2SEQ if isinstance(model, Seq2SeqModel) else ENCODER
        shape = model_weights.shape_of(imported.shape, kind)
        publication.counts |= {"langs": imported.langs, "vocabulary": num_rows, "shape": shape} | counts
    return manifest.read(cfg.out)


def _save_task(imported: ImportedModel, model: EncoderModel, out: Path) -> None:
    """Write a classifier as `xling finetune` does."""
    assert imported.task is not None
    kind, labels = imported.task
    classifier = TaskModel(model.encoder, kind, labels, 0.0)
    classifier.load_state_dict({name: imported.head[name] for name in modernbert.HEAD_NAMES}, strict=False)
    length = min(imported.shape.max_positions, MAX_TASK_TOKENS)
    tune.save_tuned(
        tune.TunedModel(classifier, None, length, langs=tuple(imported.langs)), out, out, imported.langs
    )


def _build_model(
    shape: EncoderConfig, weights: dict[str, Tensor], num_rows: int, model_name: Path
) -> EncoderModel:
    """Build a model of ``shape`` with these weights.

    Raises:
        UserError: a weight is missing or has another shape than the settings say.
    """
    configs.check_heads(shape.dim, shape.heads, shape.head_dim, model_name)
    for side, layers in (("encoder", shape.layers), ("decoder", getattr(shape, "decoder_layers", 0))):
        if layers:
            configs.check_layers(side, layouts.count_layers(weights, side), layers, model_name)
    try:
        with torch.device("meta"):  # only sizes: a wrong configuration must not allocate memory
            expected = _new_model(shape, num_rows).state_dict()
    except RuntimeError as error:
        raise UserError(
            f"{model_name}: no model can have the sizes of its configuration: {error}",
            fix="copy its config.json again",
        ) from None
    for name, tensor in weights.items():
        if name not in expected or expected[name].shape != tensor.shape:
            expected_shape = tuple(expected[name].shape) if name in expected else "nothing"
            raise UserError(
                f"{model_name}: {name} is {tuple(tensor.shape)}",
                f"{expected_shape}, by its configuration",
                "copy weights and configuration of one model",
            )
    model = _new_model(shape, num_rows)
    missing, _ = model.load_state_dict(weights, strict=False)
    if missing_weights := sorted(set(missing) - model_weights.tied_of(shape)):
        raise UserError(
            f"{model_name} has no weight {missing_weights[0]}",
            "as many layers as its configuration says",
            "copy the complete model",
        )
    return model


def _new_model(shape: EncoderConfig, num_rows: int) -> EncoderModel:
    return (
        Seq2SeqModel(shape, num_rows) if isinstance(shape, Seq2SeqConfig) else EncoderModel(shape, num_rows)
    )


def _current_name(name: str) -> str:
    """Convert the weight names of the released XLM-R, from an older fairseq, to today's."""
    name = name.removeprefix("decoder.").removeprefix("encoder.")
    return "encoder." + name.replace(".emb_layer_norm.", ".layernorm_embedding.")
