"""Published model files, read without torch; `xling.models.files.model_weights` reads their weights."""

import contextlib
import io
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from xling.core import languages
from xling.core.commands import inputs
from xling.core.errors import UserError, unknown
from xling.core.output import manifest
from xling.core.registry import load
from xling.models.model_setting import DECODER
from xling.models.shape import Shape, names
from xling.text.files.shards import vocab_digest

ENCODER, SEQ2SEQ, TASK, FOREIGN = "xling-encoder-1", "xling-seq2seq-1", "xling-task-1", "xling-foreign-1"
OURS = (ENCODER, SEQ2SEQ)
"""Kinds that are computed here."""
KINDS = {
    ENCODER: "an encoder",
    SEQ2SEQ: "a model with a decoder",
    TASK: "a fine-tuned encoder",
    FOREIGN: "an encoder computed by transformers, for eval, finetune and mine",
}
INT8 = "int8"
"""Key of the matrices that `xling quantize` writes, as values and scales of rows."""
MODEL_FILE, TASK_FILE = inputs.MODEL_FILES
JOINED, JOINED_FOLDER = "joined", "static"
"""Mark in a model of `xling finetune joined=true`, and folder of the fine-tuned static encoder beside it."""
SENTENCE_FILE = "sentence.pt"
"""File beside a model that says how it makes sentence vectors, see `xling.transfer.sentence`."""
TAG_MARKS = "tag_marks"
"""Key of a tagger's counts in its manifest: how its training rows mark spans, where not as IOB2."""
_OF_TRANSFORMERS = "transformers"
"""Key of a model that transformers computes, see `xling.models.network.transformers_wrapper`."""
OLD_TORCH = 0x1950A86A20F9469CFC6C
"""Number at the beginning of a file that torch wrote before its files were archives (1.6)."""
LARGEST = 2**28
"""Bytes of the largest table of contents that is read; that of a model has about 200 bytes a tensor."""


class _Plain(pickle.Unpickler):
    """Reader of plain values that takes a tensor for its shape; nothing that the file names is imported or called."""

    def persistent_load(self, pid: Any) -> None:
        """Leave the numbers of a tensor out."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name in the file.

        Raises:
            UnpicklingError: the name is of no plain value or tensor.
        """
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, size, *rest: tuple(size)
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if module == "torch" and name.endswith("Storage"):
            return name
        raise pickle.UnpicklingError(f"{module}.{name}")


def facts(path: Path) -> dict[str, Any]:
    """Return the values of a model file, with the shape of each tensor; empty if only torch can read it."""
    with contextlib.suppress(Exception):
        content = _in_zip(path) if zipfile.is_zipfile(path) else _in_stream(path)
        return content if isinstance(content, dict) else {}
    return {}


def _in_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return (
            _Plain(io.BytesIO(archive.read(name))).load()
            if archive.getinfo(name).file_size <= LARGEST
            else {}
        )


def _in_stream(path: Path) -> Any:
    """Read a file of torch before 1.6: a number, two values about the writer, the content, then the tensors."""
    with path.open("rb") as file:
        is_old = _Plain(file).load() == OLD_TORCH
        return [_Plain(file).load() for _ in range(3)][2] if is_old else {}


def shape_of(content: Mapping[str, Any]) -> Any:
    """Return the shape of a model from its `facts`; settings that it does not name have their defaults."""
    return SimpleNamespace(**asdict(Shape()) | dict(content.get("shape", {})))


def read(directory: Path, *kinds: str) -> dict[str, Any]:
    """Return as `check_model`, but let torch read a file that only it can read."""
    if content := check_model(directory, *kinds):
        return content
    whole: dict[str, Any] = load("xling.models.files.model_weights:read_published")(
        directory / MODEL_FILE, *kinds
    )
    return whole


def check_model(directory: Path, *kinds: str) -> dict[str, Any]:
    """Return the `facts` of the model or task in a directory, after checking its kind and its vocabulary.

    Raises:
        UserError: the model is missing, is of another kind, or has another vocabulary.
    """
    path = directory / (TASK_FILE if kinds == (TASK,) else MODEL_FILE)
    check_file(path)
    if content := facts(path):
        check_kind(content, path, kinds)
        choose_head(content, directory)
        content["langs"] = languages.canonical_list(content.get("langs", ()))
        check_vocabulary(content["vocab_digest"], directory, path)
    return content


def is_fine_tuned(directory: Path) -> bool:
    """Return whether a directory holds a fine-tuned model alone, whose body can start another training."""
    return (directory / TASK_FILE).is_file() and not (directory / MODEL_FILE).is_file()


def has_head(directory: Path) -> bool:
    """Return whether a directory holds a fine-tuned model, deep or static."""
    return any((directory / name).is_file() for name in (TASK_FILE, inputs.STATIC_TASK_FILE))


def is_joined(directory: Path) -> bool:
    """Return whether a fine-tuned model answers together with a head over a static encoder."""
    return bool(facts(directory / TASK_FILE).get(JOINED))


def check_body(directory: Path, *kinds: str) -> dict[str, Any]:
    """Return the facts of a model to start from, as `check_model`, or of a fine-tuned one with any number of heads."""
    if not is_fine_tuned(directory):
        return check_model(directory, *kinds)
    if content := facts(path := directory / TASK_FILE):
        check_kind(content, path, (TASK,))
        if _OF_TRANSFORMERS in content and FOREIGN not in kinds:
            raise UserError(f"{directory} is {KINDS[FOREIGN]}", " or ".join(KINDS[kind] for kind in kinds))
        content["langs"] = languages.canonical_list(content.get("langs", ()))
        check_vocabulary(content["vocab_digest"], directory, path)
    return content


def tag_marks(directory: Path) -> dict[str, str]:
    """Return the count `TAG_MARKS` of a published model, {} where it has none."""
    counts = manifest.read(directory).counts if (directory / manifest.FILE_NAME).is_file() else {}
    return {TAG_MARKS: counts[TAG_MARKS]} if counts.get(TAG_MARKS) else {}


def choose_head(content: Mapping[str, Any], directory: Path, head: str = "") -> dict[str, Any]:
    """Return what a model file says of one of its heads; the whole content where there is one head.

    Raises:
        UserError: it has several heads and ``head`` is none of them, or ``head`` is given and there is one alone.
    """
    heads = content.get("heads", {})
    if not heads and head:
        raise UserError(f"head={head}: {directory} has one head", "no head=", "leave head= out")
    if heads and not head:
        raise UserError(
            f"{directory} has several heads: {', '.join(heads)}",
            "one of them for xling predict, with head=; xling eval takes the one of its suite",
            f"head={next(iter(heads))}; what else needs one head takes a model fine-tuned on one suite",
        )
    if heads and head not in heads:
        raise unknown("head", head, list(heads))
    return dict(heads[head] if heads else content)


def check_file(path: Path) -> None:
    """Raise UserError where there is no model file."""
    if not path.is_file():
        inputs.check_not_hub_model(path.parent)
        if (path.parent / TASK_FILE).is_file():
            raise UserError(
                f"{path.parent} is fine-tuned",
                f"a directory with {path.name}",
                "give the checkpoint that it was fine-tuned from",
            )
        if (path.parent / inputs.STATIC_FILE).is_file():
            raise UserError(
                f"{path.parent} is a static encoder",
                f"a directory with {path.name}, from `xling pretrain` or `xling finetune`",
                "use it with `xling eval`, `xling finetune` or `xling export hf`: docs/guides/own_files.md",
            )
        fix = f"run `xling {'pretrain' if path.name == MODEL_FILE else 'finetune'}` first"
        raise UserError(f"no checkpoint at {path.parent}", f"a directory with {path.name}", fix)


def check_kind(content: Any, path: Path, kinds: Sequence[str]) -> None:
    """Raise UserError where the content of a model file is of none of ``kinds``."""
    kind = content.get("format") if isinstance(content, Mapping) else None
    if kind not in kinds:
        held = f"holds {KINDS[kind]}" if kind in KINDS else "was not written by xling"
        raise UserError(
            f"{path} {held}",
            " or ".join(KINDS.get(kind, kind) for kind in kinds),
            "choose another checkpoint, or make one with `xling pretrain` or `xling finetune`",
        )


def check_vocabulary(expected: str, vocab_dir: Path, what: Path) -> None:
    """Reject weights and a vocabulary that do not belong together.

    Raises:
        UserError: the digests differ.
    """
    digest = vocab_digest(vocab_dir)
    if digest != expected:
        raise UserError(
            f"{what} was trained with vocabulary {expected[:12]}, but {vocab_dir} holds {digest[:12]}",
            "weights and vocabulary of one run",
            "give the vocabulary that the checkpoint was trained with",
        )


def check_settings(mine: Any, theirs: Any, both_have_decoder: bool, directory: Path) -> None:
    """Reject settings under which the weights to start from would have matching shapes but another meaning."""
    for name in names(only=(None, DECODER) if both_have_decoder else (None,), same=True):
        if (ours := getattr(mine, name)) != (other := getattr(theirs, name)):
            raise UserError(
                f"init={directory} has model.{name}={str(other).lower()}, not {str(ours).lower()}",
                "the same",
                "give the model.* settings of that run",
            )


def position(langs: Sequence[str], lang: str, has_vectors: bool, what: Path | str) -> int:
    """Return the index of a language among those of an encoder; 0 for an encoder without vectors of languages.

    Args:
        langs: languages of the model.
        lang: a code of any scheme.
        has_vectors: whether the model adds a vector of the language to every token.
        what: the model, for the message.

    Raises:
        UserError: the model has vectors of languages, and none of this one.
    """
    if not has_vectors:
        return 0
    name = next((each for each in langs if languages.is_same(each, lang)), None)
    if name is None:
        raise UserError(
            f"{what} has a vector for each of its languages, and none for {lang!r}",
            ", ".join(langs),
            "leave that language out, or give a model that was trained on it or has no language embeddings",
        )
    return langs.index(name)


def check_langs(theirs: Sequence[str], mine: Sequence[str], directory: Path) -> None:
    """Raise UserError where a model to start from has vectors of other languages than the new one."""
    if languages.canonical_list(theirs) != languages.canonical_list(mine):
        raise UserError(
            f"init={directory} has language embeddings for {', '.join(theirs)}",
            f"the languages of this training: {', '.join(mine)}",
            f"set langs={','.join(theirs)}",
        )
