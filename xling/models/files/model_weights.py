"""Published models: saving and loading of model files without pickled code."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from omegaconf import OmegaConf
from torch import Tensor

from xling.array_types import Shaped
from xling.core import languages
from xling.core.errors import UserError
from xling.core.settings.config import from_dict
from xling.data.symbols import Symbols
from xling.models import parts
from xling.models.files.model_folder import (
    ENCODER,
    FOREIGN,
    INT8,
    KINDS,
    SEQ2SEQ,
    TASK,
    TASK_FILE,
    check_file,
    check_kind,
    check_langs,
    check_settings,
    check_vocabulary,
    is_fine_tuned,
    position,
)
from xling.models.network.encoder import EncoderConfig, EncoderModel
from xling.models.network.seq2seq import Seq2SeqConfig, Seq2SeqModel, initialise_decoder
from xling.models.network.transformers_wrapper import SETTINGS_KEY, TransformersModel
from xling.text.files.shards import NUM_SPECIALS, vocab_digest

AnyModel = TypeVar("AnyModel", bound=EncoderModel)
TIED = (
    "lm_head.weight",
    "decoder.head.weight",
)  # tied to the embeddings; the second only if the head is tied
SHAPES = {ENCODER: EncoderConfig, SEQ2SEQ: Seq2SeqConfig}
BY_TOKEN = (
    "encoder.tokens.weight",
    "encoder.tokens.bytes",
    "decoder.words.weight",
    "lm_head.bias",
    "decoder.head.bias",
    "decoder.head.weight",
)  # these have one row per id


def save_model(
    path: Path,
    model: EncoderModel,
    langs: list[str],
    vocab_dir: Path,
    state: dict[str, Shaped[Tensor, " ..."]] | None = None,
) -> None:
    """Write float32 weights with shape, languages and the vocabulary's digest; only tensors and plain values.

    ``state`` are the weights of a sharded model, gathered by `xling.models.files.training_checkpoint.snapshot`.
    """
    state = model.state_dict() if state is None else state
    tied = tied_of(model.cfg)
    weights = {k: v for k, v in state.items() if not k.startswith("extras.") and k not in tied}
    kind = SEQ2SEQ if isinstance(model, Seq2SeqModel) else ENCODER
    write_published(
        path,
        kind,
        {"shape": shape_of(model.cfg, kind), "langs": languages.canonical_list(langs)},
        weights,
        vocab_dir,
    )


def tied_of(cfg: Any) -> set[str]:
    """Return the names of the weights that are tied to the embeddings."""
    return {*TIED[:1]} if getattr(cfg, "untied_head", False) else {*TIED}


def shape_of(cfg: Any, kind: str = ENCODER) -> dict[str, Any]:
    """Return the configuration of a model as plain values."""
    plain = OmegaConf.to_container(cfg) if OmegaConf.is_config(cfg) else asdict(cfg)
    names = {f for f in SHAPES[kind].__dataclass_fields__ if not f.startswith("_")}
    return {k: v for k, v in dict(plain).items() if k in names}  # type: ignore[arg-type]


def write_published(
    path: Path, kind: str, facts: dict[str, Any], weights: dict[str, Shaped[Tensor, " ..."]], vocab_dir: Path
) -> None:
    """Write a model file of tensors and plain values, without pickled code.

    ``kind``, plain ``facts``, float32 ``weights``, the vocabulary's digest.
    """
    state = {
        "format": kind,
        **facts,
        "vocab_digest": vocab_digest(vocab_dir),
        "weights": {
            k: (v.float() if v.is_floating_point() else v).detach().cpu() for k, v in weights.items()
        },
    }
    torch.save(state, path)


def load_tensors(path: Path) -> Any:
    """Return what torch reads of a file without code, and without its warnings about how the file was pickled.

    Raises:
        EOFError: the file is cut short; torch calls that an invalid argument.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise EOFError(path) from error
            raise


def read_published(path: Path, *kinds: str) -> dict[str, Any]:
    """Read a published model file of one of ``kinds``, with weights in float32; no code in it is executed.

    Raises:
        UserError: the file does not exist, is damaged or of another program, the vocabulary beside it does
            not match, or a weight is not finite.
    """
    check_file(path)
    try:
        state = load_tensors(path)
    except OSError:
        raise
    except Exception:
        # What torch says advises to load the file with its code.
        raise UserError(
            f"{path} is damaged, or holds code or objects besides tensors and plain values",
            " or ".join(KINDS.get(kind, kind) for kind in kinds),
            "copy it again from where it was made, or make it again; nothing in it was run",
        ) from None
    check_kind(state, path, kinds)
    check_vocabulary(state["vocab_digest"], path.parent, path)
    state["langs"] = languages.canonical_list(state.get("langs", ()))
    for name, (values, scales) in state.get(INT8, {}).items():
        state["weights"][name] = values * scales
    check_finite(state["weights"], path)
    return state


def check_finite(weights: Mapping[str, Shaped[Tensor, " ..."]], path: Path) -> None:
    """Refuse weights with a NaN or an infinity: every score of such a model would be a number without meaning.

    Args:
        weights: tensors by name, of any type; those of whole numbers pass.
        path: the file or folder that they were read from, for the message.

    Raises:
        UserError: naming the first such tensor, and how many of its values are not finite.
    """
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        values = tensor if tensor.element_size() > 1 else tensor.float()  # torch compares no float8
        ends = torch.stack(torch.aminmax(values))  # NaN in any value makes both of them NaN
        if not torch.isfinite(ends).all():
            num_bad = int((~torch.isfinite(values)).sum())
            raise UserError(
                f"{path}: {num_bad:,} of {tensor.numel():,} weights in {name!r} are not finite (NaN or infinite)",
                "finite weights",
                "copy the model again, or train it again: a training with these weights has failed",
            )


def load_model(
    directory: Path, dropout: float = 0.0, random_init: bool = False
) -> tuple[EncoderModel, list[str]]:
    """Load a published encoder, or the encoder of a model with a decoder, in float32, and its languages.

    Args:
        directory: output of `xling pretrain`.
        dropout: probability for further training.
        random_init: keep fresh random weights instead of the trained ones, as a control.

    Raises:
        UserError: the model does not exist or is damaged, or the vocabulary is not the one it was trained
            with.
    """
    return _load_published(
        directory, read_published(directory / "model.pt", *SHAPES, FOREIGN), dropout, random_init
    )


def load_body(
    directory: Path, dropout: float = 0.0, random_init: bool = False
) -> tuple[EncoderModel, list[str]]:
    """Load as `load_model`, or the body of a fine-tuned model, under a fresh LM head if it is one of ours."""
    if not is_fine_tuned(directory):
        return load_model(directory, dropout, random_init)
    state = read_published(directory / TASK_FILE, TASK)
    kind = FOREIGN if SETTINGS_KEY in state else ENCODER
    weights = {name: weight for name, weight in state["weights"].items() if name.startswith("encoder.")}
    return _load_published(directory, {**state, "format": kind, "weights": weights}, dropout, random_init)


def _load_published(
    directory: Path, published: dict[str, Any], dropout: float, random_init: bool
) -> tuple[EncoderModel, list[str]]:
    if published["format"] == FOREIGN:
        rows = len(published["weights"]["encoder.tokens.weight"])
        model: Any = TransformersModel(published[SETTINGS_KEY], rows, dropout)
        if not random_init:
            model.load_state_dict(published["weights"])
        return model, published["langs"]
    return _load(directory, EncoderModel, dropout, random_init, published)


def language_index(model: EncoderModel, langs: Sequence[str], lang: str, what: Path | str) -> int:
    """Return the index of a language for an encoder, see `xling.models.files.model_folder.position`."""
    return position(langs, lang, getattr(model.encoder, "langs", None) is not None, what)


def load_seq2seq(
    directory: Path, dropout: float = 0.0, random_init: bool = False
) -> tuple[Seq2SeqModel, Symbols]:
    """Load a published encoder-decoder in float32 and its symbols.

    Args:
        directory, dropout, random_init: as for `load_model`.

    Raises:
        UserError: as `load_model`, or the model has no decoder.
    """
    model, langs = _load(directory, Seq2SeqModel, dropout, random_init)
    size, cfg = len(model.encoder.tokens.weight), model.cfg
    return model, Symbols.behind(mask_of(directory), size, langs, cfg.source_lang, cfg.lang_first)


def has_decoder(directory: Path) -> bool:
    """Return whether the published model is an encoder-decoder."""
    return bool(read_published(directory / "model.pt", *SHAPES)["format"] == SEQ2SEQ)


def _load(
    directory: Path,
    model_class: type[AnyModel],
    dropout: float,
    random_init: bool,
    published: dict[str, Any] | None = None,
) -> tuple[AnyModel, list[str]]:
    path = directory / "model.pt"
    kind = SEQ2SEQ if issubclass(model_class, Seq2SeqModel) else ENCODER
    state = published or read_published(path, *([SEQ2SEQ] if kind == SEQ2SEQ else SHAPES))
    frozen = parts.frozen_encoders(SimpleNamespace(**state["shape"]))
    if kind == ENCODER and state["format"] == SEQ2SEQ and frozen:
        raise UserError(
            f"{path} reads a frozen encoder ({', '.join(f'model.{n}={folder}' for n, folder in frozen.items())})",
            "translation with it: xling translate, xling eval of texts to write",
            "give the frozen encoder or another model for vectors, labels and further encoders",
        )
    names = SHAPES[kind].__dataclass_fields__
    settings = {k: str(v) for k, v in state["shape"].items() if k in names} | {"dropout": str(dropout)}
    shape = from_dict(SHAPES[kind], settings, str(path))
    vocab_size = state["weights"]["encoder.tokens.weight"].shape[0]
    model = model_class(shape, vocab_size, len(state["langs"]) if shape.lang_embeddings else 0)  # type: ignore[arg-type]
    if random_init:  # how pieces are spelled is not learned
        model.load_state_dict({k: state["weights"][k] for k in spelling_of(model)}, strict=False)
        return model, state["langs"]
    weights = {k: v for k, v in state["weights"].items() if kind == SEQ2SEQ or not k.startswith("decoder.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    fresh = {name for name in missing if name.startswith("lm_head.")} if is_fine_tuned(directory) else set()
    assert set(missing) <= tied_of(shape) | fresh and not unexpected, (
        f"missing {missing}, unexpected {unexpected}"
    )
    return model, state["langs"]


def spelling_of(model: EncoderModel, of_its_own: bool = True) -> set[str]:
    """Return the names of what a model keeps of its vocabulary's spelling, which is not learned.

    ``of_its_own=False`` leaves out which words are known, for a start from a model of the same vocabulary.
    """
    names = {f"encoder.tokens.{name}" for name, _ in model.encoder.tokens.named_buffers()}
    return names if of_its_own else names - {"encoder.tokens.is_known"}


def start_from(
    model: EncoderModel,
    directory: Path,
    langs: list[str],
    data: Path,
    leave_embeddings: bool,
    layers: Sequence[int] = (),
    encoder_only: bool = False,
) -> None:
    """Copy the weights of a published model into ``model``.

    If both models have decoders, everything is copied, and the tokens of the languages that both have. If
    only ``model`` has a decoder, it starts from the encoder's weights
    (`xling.models.network.seq2seq.initialise_decoder`).

    Args:
        model: of the same shape; its decoder may have more or fewer layers than the encoder it starts from.
        leave_embeddings: if the vocabularies differ, keep the model's own embeddings and output bias.
        layers: layers of the published encoder, from 0 at the bottom, for those of ``model`` in order; empty
            for all.

    Raises:
        UserError: the model does not exist or has another shape, other language embeddings, or another
            vocabulary.
    """
    is_tuned = is_fine_tuned(directory)
    both = isinstance(model, Seq2SeqModel) and not (encoder_only or is_tuned) and has_decoder(directory)
    old, old_langs = (
        load_body(directory)
        if is_tuned
        else _load(directory, Seq2SeqModel if both else EncoderModel, 0.0, False)
    )
    if vocab_digest(directory) != vocab_digest(data) and not leave_embeddings:
        check_vocabulary(vocab_digest(directory), data, directory)
    if model.encoder.langs is not None:
        check_langs(old_langs, langs, directory)
    check_settings(model.cfg, old.cfg, both, directory)
    # Of a fine-tuned model the LM head is fresh, as that of the new one.
    left = (*tied_of(model.cfg), *(["lm_head."] if is_tuned else []))
    ours, theirs = model.state_dict(), {k: v for k, v in old.state_dict().items() if not k.startswith(left)}
    _check_features(model, ours, theirs, directory)
    if layers:
        theirs = _with_layers(theirs, layers, len(model.encoder.layers), directory)
    if not leave_embeddings:
        rows = _common_rows(model, langs, directory)
        for name in BY_TOKEN:
            if name in theirs and name in ours and theirs[name].shape[1:] == ours[name].shape[1:]:
                copied = theirs[name][rows[1]].to(ours[name].dtype)
                theirs[name] = ours[name].clone().index_copy_(0, rows[0], copied)
    excluded = spelling_of(model, leave_embeddings) | {*(BY_TOKEN if leave_embeddings else ())}
    for name in sorted(theirs.keys() - excluded):
        if name not in ours or ours[name].shape != theirs[name].shape:
            raise UserError(
                f"init={directory}: {name} is {tuple(theirs[name].shape)}",
                f"{tuple(ours[name].shape)}" if name in ours else "a model without it",
                "give the model.* settings of that run",
            )
    model.load_state_dict({k: v for k, v in theirs.items() if k not in excluded}, strict=False)
    if isinstance(model, Seq2SeqModel) and not both:
        initialise_decoder(model)


def _check_features(
    model: EncoderModel,
    ours: Mapping[str, Shaped[Tensor, " ..."]],
    theirs: Mapping[str, Shaped[Tensor, " ..."]],
    directory: Path,
) -> None:
    """Raise UserError where two models read words by different static encoders."""
    digest = "encoder.tokens.digest"
    if digest in ours and digest in theirs and not ours[digest].equal(theirs[digest]):
        raise UserError(
            f"init={directory} has features of another static encoder than {parts.value(model.cfg, 'features')}",
            "the folder that its own model.features names",
        )


def _with_layers(
    weights: dict[str, Tensor], layers: Sequence[int], wanted: int, directory: Path
) -> dict[str, Tensor]:
    prefix = "encoder.layers."
    numbered = [
        (name.removeprefix(prefix).partition("."), name) for name in weights if name.startswith(prefix)
    ]
    num = 1 + max(int(number) for (number, _, _), _ in numbered)
    if len(layers) != wanted or not all(0 <= layer < num for layer in layers):
        raise UserError(
            f"init_layers={','.join(map(str, layers))} of init={directory}",
            f"{wanted} of its layers, 0 to {num - 1}, as model.layers={wanted} says",
        )
    kept = {name: weight for name, weight in weights.items() if not name.startswith(prefix)}
    for place, layer in enumerate(layers):
        kept |= {
            f"{prefix}{place}.{rest}": weights[name] for (n, _, rest), name in numbered if int(n) == layer
        }
    return kept


def _common_rows(model: EncoderModel, langs: list[str], directory: Path) -> tuple[Tensor, Tensor]:
    """Return the token ids of ``model`` and of a published one that mean the same."""
    mask = mask_of(directory)
    rows = [(i, i) for i in range(mask + 1)]
    state = {} if is_fine_tuned(directory) else read_published(directory / "model.pt", *SHAPES)
    if isinstance(model, Seq2SeqModel) and state.get("format") == SEQ2SEQ:
        size = len(state["weights"]["encoder.tokens.weight"])
        ours = Symbols(mask, tuple(languages.canonical_list(langs)))
        theirs = Symbols.behind(mask, size, state["langs"])
        rows += [
            (ours.lang(ours.langs.index(lang)), theirs.lang(theirs.langs.index(lang)))
            for lang in ours.langs
            if lang in theirs.langs
        ]
        both = min(ours.sentinels, theirs.sentinels)
        rows += [(ours.sentinel(i), theirs.sentinel(i)) for i in range(both)]
    first, second = torch.tensor(rows).unbind(1)
    return first, second


def max_positions(directory: Path) -> int:
    """Return the longest sequence of a published encoder, in tokens."""
    return int(read_published(directory / "model.pt", *SHAPES)["shape"]["max_positions"])


def mask_of(directory: Path) -> int:
    """Return the id of ``<mask>``, which follows the pieces of ``dict.txt``."""
    with (directory / "dict.txt").open(encoding="utf-8") as lines:
        return NUM_SPECIALS + sum(1 for _ in lines)


def mean_of(states: Sequence[Mapping[str, Shaped[Tensor, " ..."]]]) -> dict[str, Shaped[Tensor, " ..."]]:
    """Return the mean of the weights of several checkpoints by name, in their own dtypes."""
    return {
        name: torch.stack([state[name].float() for state in states]).mean(0).to(weight.dtype)
        for name, weight in states[0].items()
    }
