"""Import of third-party models as checkpoints for all commands: ``xling import hf|fairseq``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xling import compat
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
    t5,
    tokenizer,
    transformers_wrapper,
)
from xling.hub.settings import ImportConfig
from xling.hub.source import Source, checked
from xling.models.files import model_weights
from xling.models.files.model_folder import ENCODER, SEQ2SEQ
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel
from xling.transfer import tune
from xling.transfer.heads import TaskModel

if TYPE_CHECKING:
    from jaxtyping import Shaped

TASK_LENGTH = 512  # sub-tokens that an imported classifier reads at once


@dataclass(frozen=True)
class Foreign:
    """A third-party model in our format, as `_publish` writes it.

    ``task`` is that of a classifier, with its labels.
    """

    shape: EncoderConfig
    weights: dict[str, Shaped[Tensor, " ..."]]
    vocabulary: files.Vocabulary
    langs: list[str]
    task: tuple[str, list[str]] | None = None
    head: dict[str, Shaped[Tensor, " ..."]] = field(default_factory=dict)


def run_hf(cfg: ImportConfig, source: Source | None = None) -> manifest.Manifest:
    """Import a Hugging Face model: XLM-R and others of that shape, BERT, ModernBERT, or one of BART's or T5's family.

    Args:
        cfg: settings.
        source: the model, if `xling.hub.source.checked` has found it.

    Raises:
        UserError: as `xling.hub.source.checked`; the tokenizer does not match the weights; or a pickle has code in it.
    """
    source = source or checked(cfg)
    if source.kind in transformers_wrapper.TYPES:
        with files.readable(source.folder):
            state = files.hf_weights(source.folder, cfg.allow_pickle)
        return publish_foreign(cfg, "import hf", source.config, state, source.folder)
    langs = [languages.get(lang).code for lang in cfg.langs]
    state = files.hf_weights(source.folder, cfg.allow_pickle)
    with files.readable(source.folder):
        model = READERS[source.kind](source.config, state, source.folder, langs)
    return _publish(cfg, "import hf", source.folder, model)


def publish_foreign(
    cfg: ImportConfig,
    stage: str,
    config: dict[str, Any],
    state: Mapping[str, Shaped[Tensor, " ..."]],
    folder: Path,
) -> manifest.Manifest:
    """Publish an encoder computed by transformers.

    Args:
        cfg: settings.
        stage: name of the stage.
        config: its config.json.
        state: its weights by the names of transformers.
        folder: directory with its tokenizer.

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
    with files.readable(folder):
        tokens = transformers_wrapper.tokens_of(folder)
        model, kept = transformers_wrapper.weights_of(state, config, tokens, cfg.source)
    inputs = [folder if stage == "import hf" else cfg.source]
    if done := manifest.up_to_date(cfg.out, stage, cfg, inputs):
        return done
    with manifest.publish(cfg.out, stage, cfg, inputs) as publication:
        transformers_wrapper.write_vocabulary(tokens, publication.path)
        transformers_wrapper.save(model, kept, langs, config, publication.path)
        publication.counts |= {"langs": langs, "vocabulary": len(tokens.order), "computed_by": "transformers"}
    return manifest.read(cfg.out)


def run_fairseq(cfg: ImportConfig) -> manifest.Manifest:
    """Import a directory with ``model.pt`` and ``dict.txt`` of stock fairseq's RoBERTa, XLM-R or mBART.

    Raises:
        UserError: as `run_hf`.
    """
    path = cfg.source / "model.pt"
    compat.install()
    content = files.unpickle(path)
    args = _settings(content)
    if not isinstance(content.get("model"), Mapping) or "encoder_attention_heads" not in args:
        raise UserError(
            f"{path} is not a RoBERTa or mBART of fairseq",
            "a checkpoint with `cfg` or `args` and `model`",
            "for other files use xling import hf",
        )
    langs = [languages.get(lang).code for lang in cfg.langs]
    vocabulary = files.sentencepiece(cfg.source)
    files.compare(files.dictionary(cfg.source / "dict.txt"), vocabulary.pieces, cfg.source / "dict.txt")
    if "decoder.embed_tokens.weight" in content["model"]:
        shape, weights, known = mbart.read_fairseq(args, content["model"], vocabulary, path)
        _same_languages(langs, known, path)
        return _publish(cfg, "import fairseq", cfg.source, Foreign(shape, weights, vocabulary, known))
    state = {_renamed(name): tensor for name, tensor in content["model"].items()}
    weights = layouts.inwards(state, layouts.FAIRSEQ, str(path))
    encoder = EncoderConfig(
        layers=layouts.num_layers(weights),
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
    return _publish(cfg, "import fairseq", cfg.source, Foreign(encoder, weights, vocabulary, langs))


def _settings(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return model and task settings of a fairseq checkpoint, old (``args``) or new (``cfg``)."""
    cfg = state.get("cfg")
    parts = [cfg.get("task"), cfg.get("model")] if isinstance(cfg, Mapping) else [state.get("args")]
    args: dict[str, Any] = {}
    for told in parts:
        args |= dict(told) if isinstance(told, Mapping) else vars(told) if told is not None else {}
    return args


def _xlmr(config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]) -> Foreign:
    configs.check(config, "xlm-roberta", folder)
    if not any(name.startswith("roberta.") for name in state):
        state = {f"roberta.{name}": tensor for name, tensor in state.items()}
    tied = state.get("lm_head.decoder.weight")
    if tied is not None and not torch.equal(tied, state.get(f"{layouts.XLMR.tokens}.weight", tied)):
        raise UserError(
            f"the output layer of {folder} has a matrix of its own",
            "one that shares its matrix with the embeddings",
            "xling has no such models: choose another",
        )
    vocabulary = files.sentencepiece(folder)
    files.check_tokenizer(folder, vocabulary.pieces)
    weights = layouts.inwards(state, layouts.XLMR, str(folder))
    files.leave_out_unread(weights, len(vocabulary.pieces) + len(tokenizer.SPECIALS) + 1, folder)
    sizes = files.sizes(config)
    sizes["max_positions"] -= layouts.XLMR.first_position
    shape = EncoderConfig(
        **sizes,
        norm_eps=float(config.get("layer_norm_eps", 1e-12)),
        segment_embeddings=layouts.SEGMENTS in weights,
    )
    return Foreign(shape, weights, vocabulary, langs)


def _bert(config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]) -> Foreign:
    return Foreign(*bert.read(config, state, folder), langs)


def _bart(config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]) -> Foreign:
    shape, weights, ids = bart.read_hf(config, state, folder, langs)
    _same_languages(langs, ids.langs, folder)
    return Foreign(shape, weights, ids.vocabulary, ids.langs)


def _t5(config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]) -> Foreign:
    shape, weights, ids = t5.read_hf(config, state, folder, langs)
    _same_languages(langs, ids.langs, folder)
    return Foreign(shape, weights, ids.vocabulary, ids.langs)


def _modernbert(config: dict[str, Any], state: dict[str, Tensor], folder: Path, langs: list[str]) -> Foreign:
    shape, task = modernbert.shape_of(config, folder), modernbert.task_of(config)
    weights = modernbert.inwards(state, shape, str(folder))
    if modernbert.has_other_tokenizer(folder):  # Gemma's in mmBERT, a byte-level one in ModernBERT
        tokens = transformers_wrapper.tokens_of(folder)
        vocabulary = files.Vocabulary(tokens.names, partial(transformers_wrapper.write_vocabulary, tokens))
        weights = modernbert.in_order(weights, tokens.order, str(folder))
    else:
        vocabulary = files.sentencepiece(folder)
        files.check_tokenizer(folder, vocabulary.pieces)
    return Foreign(
        shape, weights, vocabulary, langs, task, modernbert.head_of(state, str(folder)) if task else {}
    )


READERS = {
    "xlm-roberta": _xlmr, "bert": _bert, modernbert.TYPE: _modernbert,
    **dict.fromkeys(bart.FAMILIES, _bart), **dict.fromkeys(t5.TYPES, _t5),
}  # fmt: skip


def _same_languages(given: list[str], known: list[str], what: Path) -> None:
    if given and given != known:
        raise UserError(
            f"langs={','.join(given)}, and {what} has tokens for {', '.join(known)}",
            "the languages of the model",
            "leave langs out",
        )


def _publish(cfg: ImportConfig, stage: str, folder: Path, foreign_model: Foreign) -> manifest.Manifest:
    vocabulary, weights = foreign_model.vocabulary, foreign_model.weights
    rows = len(weights["encoder.tokens.weight"])
    if not isinstance(foreign_model.shape, Seq2SeqConfig):
        files.check_rows(rows, len(vocabulary.pieces) + len(tokenizer.SPECIALS) + 1, cfg.source)
    counts: dict[str, Any] = {}
    inputs = [folder, *([cfg.extend_vocab] if cfg.extend_vocab else [])]
    if cfg.extend_vocab:
        vocabulary, sources, counts = extend.extended(vocabulary, cfg.extend_vocab, cfg.init, cfg.source)
        weights = extend.grow(weights, len(foreign_model.vocabulary.pieces), sources)
        rows += len(sources)
    if done := manifest.up_to_date(cfg.out, stage, cfg, inputs):
        return done
    model = _filled(foreign_model.shape, weights, rows, cfg.source)
    with manifest.publish(cfg.out, stage, cfg, inputs) as publication:
        vocabulary.write(publication.path)
        if foreign_model.task is None:
            model_weights.save_model(
                publication.path / "model.pt", model, foreign_model.langs, publication.path
            )
        else:
            _save_task(foreign_model, model, publication.path)
        kind = SEQ2SEQ if isinstance(model, Seq2SeqModel) else ENCODER
        shape = model_weights.shape_of(foreign_model.shape, kind)
        publication.counts |= {"langs": foreign_model.langs, "vocabulary": rows, "shape": shape} | counts
    return manifest.read(cfg.out)


def _save_task(foreign_model: Foreign, model: EncoderModel, out: Path) -> None:
    """Write a classifier as `xling finetune` does."""
    assert foreign_model.task is not None
    kind, labels = foreign_model.task
    classifier = TaskModel(model.encoder, kind, labels, 0.0)
    classifier.load_state_dict({name: foreign_model.head[name] for name in modernbert.HEAD}, strict=False)
    length = min(foreign_model.shape.max_positions, TASK_LENGTH)
    tune.save(
        tune.Tuned(classifier, None, length, langs=tuple(foreign_model.langs)), out, out, foreign_model.langs
    )


def _filled(shape: EncoderConfig, weights: dict[str, Tensor], rows: int, what: Path) -> EncoderModel:
    """Build a model of ``shape`` with these weights.

    Raises:
        UserError: a weight is missing or has another shape than the settings say.
    """
    if shape.heads < 1 or shape.head_dim < 0 or (not shape.head_dim and shape.dim % shape.heads):
        raise UserError(
            f"{what}: its configuration has width {shape.dim} and {shape.heads} heads",
            "a width that is a multiple of the heads",
            "copy its config.json again",
        )
    for side, layers in (("encoder", shape.layers), ("decoder", getattr(shape, "decoder_layers", 0))):
        if layers and (present := layouts.num_layers(weights, side)) != layers:
            seen = f"no {side}.layers.{present}" if present < layers else f"{present} layers in its {side}"
            raise UserError(
                f"{what} has {seen}",
                f"{layers} layers, as its configuration says",
                "copy weights and configuration of one model",
            )
    try:
        with torch.device("meta"):  # only sizes: a wrong configuration must not allocate memory
            ours = _empty(shape, rows).state_dict()
    except RuntimeError as error:
        raise UserError(
            f"{what}: no model can have the sizes of its configuration: {error}",
            fix="copy its config.json again",
        ) from None
    for name, tensor in weights.items():
        if name not in ours or ours[name].shape != tensor.shape:
            wanted = tuple(ours[name].shape) if name in ours else "nothing"
            raise UserError(
                f"{what}: {name} is {tuple(tensor.shape)}",
                f"{wanted}, by its configuration",
                "copy weights and configuration of one model",
            )
    model = _empty(shape, rows)
    missing, _ = model.load_state_dict(weights, strict=False)
    if lost := sorted(set(missing) - model_weights.tied_of(shape)):
        raise UserError(
            f"{what} has no weight {lost[0]}",
            "as many layers as its configuration says",
            "copy the complete model",
        )
    return model


def _empty(shape: EncoderConfig, rows: int) -> EncoderModel:
    return Seq2SeqModel(shape, rows) if isinstance(shape, Seq2SeqConfig) else EncoderModel(shape, rows)


def _renamed(name: str) -> str:
    """Convert the weight names of the released XLM-R, from an older fairseq, to today's."""
    name = name.removeprefix("decoder.").removeprefix("encoder.")
    return "encoder." + name.replace(".emb_layer_norm.", ".layernorm_embedding.")
