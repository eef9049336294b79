"""Check a stage's inputs and optional packages before heavy imports, and import models from the Hugging Face Hub."""

import contextlib
import dataclasses
import errno
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from glob import glob, has_magic
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.core.languages import LANGUAGES
from xling.core.output import manifest
from xling.core.settings.values import named_path

HUB_PREFIX, HUB_IMPORTER = "hf:", "xling.hub.cached:cached_checkpoint"
MODEL_FILES = ("model.pt", "task.pt")
"""Files of which a checkpoint of ours has one, if it is not static."""
STATIC_FILE, STATIC_TASK_FILE = "static.safetensors", "task.safetensors"
"""Weights of a static encoder, and of the head that `xling finetune` has fitted on it."""
SENTENCE_TRANSFORMERS_FILE = "modules.json"
PICKLE_FIRST_BYTE = b"\x80"
"""First byte of a pickle."""
_STANDARD_INPUT = re.compile("[a-z0-9]+:-")


def check_inputs_exist(path_settings: str, cfg: Any) -> None:
    """Check that a stage's inputs exist, so that a wrong path is reported before torch is imported.

    Args:
        path_settings: names of the settings that name a file or a folder, separated by spaces.
        cfg: the settings.

    Raises:
        UserError: a path does not exist, or is a finished output that was changed since. A checkpoint is damaged, or a
            model of the hub that was not imported. The output lies in the place of an input, or inside of a finished
            output.
    """
    input_paths: list[Path] = []
    for field in path_settings.split():
        value = getattr(cfg, field)
        for path in map(str, value if isinstance(value, tuple) else filter(None, [value])):
            if not path.startswith(HUB_PREFIX) and not Path(path).exists():
                raise UserError(
                    f"{field}={path}: there is no such file or folder",
                    fix="check the path, or run the stage that makes it",
                )
            if field in ("checkpoint", "checkpoints"):
                check_not_hub_model(Path(path))
                check_model(Path(path))
            input_paths.append(Path(path))
    if getattr(cfg, "out", None):
        check_output_place(Path(cfg.out), input_paths)
    for place in (*input_paths, *_paths_in(cfg)):
        if os.path.exists(place):  # noqa: PTH110 - also false for a text that cannot be a path
            manifest.check_as_published(place)


def _paths_in(settings: Any) -> Iterator[Path]:
    """Yield what settings can name by a path, at any depth, without ``out``: a text, or a part of one.

    A glob names the files that match it. A code of a language names no path: ``lang=en`` says nothing of a folder en.
    """
    for name, whole in texts_in(settings):
        for text in {whole, *re.split("[,:=]", whole)} - {""} if name != "out" else ():
            if "/" in text or not set(text.split("-")) <= LANGUAGES.keys():
                yield from map(Path, glob(text) if has_magic(text) else [text])  # noqa: PTH207 - absolute globs


def texts_in(value: Any, name: str = "", keys: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the texts and paths in settings at any depth, each with the field, or the key among ``keys``, it is of."""
    if isinstance(value, (str, Path)):
        yield name, str(value)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts_in(getattr(value, field.name), field.name, keys)
    elif isinstance(value, (Mapping, list, tuple)):
        for key, each in value.items() if isinstance(value, Mapping) else (("", item) for item in value):
            yield from texts_in(each, str(key) if key in keys else name, keys)


def check_not_hub_model(folder: Path) -> None:
    """Raise UserError for a model as transformers saves it, given as a checkpoint of ours."""
    if (folder / "config.json").is_file() and not any((folder / name).is_file() for name in MODEL_FILES):
        raise _no_checkpoint(
            folder,
            f"it looks like a Hugging Face model: write hf:{folder}, or use the output of "
            f"`xling import hf {folder} out=DIR`",
        )


def _no_checkpoint(folder: Path, fix: str) -> UserError:
    return UserError(f"no checkpoint at {folder}", f"a directory with {' or '.join(MODEL_FILES)}", fix)


def is_model(folder: Path) -> bool:
    """Return whether a folder has the weights of a model of ours."""
    return any((folder / name).is_file() for name in (*MODEL_FILES, STATIC_FILE))


def check_model(folder: Path) -> None:
    """Raise UserError for a folder that has no model of ours, or one that was cut off."""
    if folder.exists() and not is_model(folder):
        inside = next(filter(is_model, sorted(folder.glob("*/"))), None)
        known = f"give the model in it: {inside}" if inside else ""
        raise _no_checkpoint(folder, known or "run `xling pretrain` or `xling finetune` first")
    for name in MODEL_FILES:
        check_weights_file(folder / name)


def check_weights_file(path: Path) -> None:
    """Raise UserError for a file of weights that was cut off; torch writes archives, older ones wrote pickles."""
    if path.is_file() and not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            if file.read(1) != PICKLE_FIRST_BYTE:
                raise UserError(
                    f"{path} is damaged, or not a file of torch",
                    fix="copy it again, or run the stage that makes it",
                )


def check_new_file(out: Path) -> None:
    """Raise UserError where a file that a command is to write exists already, unless ``overwrite=true`` was given."""
    if out.is_dir() or (os.path.lexists(out) and not manifest.may_overwrite()):
        fix = "choose another out=, or replace the file with overwrite=true"
        raise UserError(f"out={out} exists", "a new file", fix)


def check_output_place(out: Path, input_paths: Sequence[Path]) -> None:
    """Raise UserError where ``out`` is one of the inputs, holds one, or lies inside of a finished output.

    A finished output is replaced as a whole: another one inside of it would be deleted with it.
    """
    if any(folder.is_symlink() and not _is_resolvable(folder) for folder in (out, *out.parents)):
        raise UserError(f"out={out}: links that lead in a circle", "a folder", "choose another out=")
    real_out = Path(os.path.realpath(out))  # Path.resolve raises an error where links form a circle
    if any(Path(os.path.realpath(path)).is_relative_to(real_out) for path in input_paths if path.exists()):
        raise UserError(f"{out} is both out= and what is read", fix="choose another out=")
    for folder in real_out.parents:
        if stage := manifest.stage_of(folder):
            raise UserError(
                f"out={out} lies in {folder}, a finished output of {stage!r}",
                "a folder beside it",
                "choose another out=",
            )


def _is_resolvable(link: Path) -> bool:
    """Return whether a symbolic link leads to a place, which need not be there yet."""
    try:
        link.stat()
    except OSError as error:
        return error.errno != errno.ELOOP
    return True


@contextlib.contextmanager
def standard_input(cfg: Any, out: Path) -> Iterator[Any]:
    """Copy standard input beside ``out`` where a source is ``SCHEME:-``, and yield the settings with its path.

    A corpus is built in parts, and a finished one is known by the digests of its inputs: both need a file.

    Raises:
        UserError: standard input is empty, or two sources name it.
    """
    sources = getattr(cfg, "source", ())
    stdin_sources = (
        [uri for uri in sources if _STANDARD_INPUT.fullmatch(uri)] if isinstance(sources, tuple) else []
    )
    if not stdin_sources:
        yield cfg
        return
    if len(stdin_sources) > 1:
        raise UserError(
            f"source={','.join(stdin_sources)}: standard input is read once", "one source SCHEME:-"
        )
    path = out.absolute().with_name(f".{out.name}.stdin")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not path.stat().st_size:
            raise UserError(
                f"source={stdin_sources[0]}: standard input is empty", fix="pipe the text into the command"
            )
        file_sources = tuple(uri[:-1] + str(path) if uri in stdin_sources else uri for uri in sources)
        yield dataclasses.replace(cfg, source=file_sources)
    finally:
        path.unlink(missing_ok=True)


def import_hub_inputs(path_settings: str, cfg: Any, load: Callable[[str], Any]) -> Any:
    """Replace every input ``hf:NAME_OR_FOLDER`` in the settings by the directory of the imported model.

    So are those of ``checkpoints``, also ``NAME=hf:NAME_OR_FOLDER`` and a folder of sentence-transformers.

    Raises:
        UserError: the model does not exist or cannot be imported.
    """
    imported: dict[str, Any] = {}
    for field in path_settings.split():
        value = getattr(cfg, field)
        if isinstance(value, (str, Path)) and str(value).startswith(HUB_PREFIX):
            imported[field] = type(value)(str(load(HUB_IMPORTER)(str(value))))
    if items := getattr(cfg, "checkpoints", ()):
        imported["checkpoints"] = tuple(type(each)(_imported(str(each), load)) for each in items)
    return dataclasses.replace(cfg, **imported) if imported else cfg


def _imported(item: str, load: Callable[[str], Any]) -> str:
    """Return an item of ``checkpoints`` with the directory of the imported model in place of one of the hub."""
    name, model = named_path(item)
    is_foreign = (Path(model) / SENTENCE_TRANSFORMERS_FILE).is_file() and not is_model(Path(model))
    if is_foreign:
        model = f"{HUB_PREFIX}{model}"
    return f"{name}{'=' if name else ''}{load(HUB_IMPORTER)(model)}" if model.startswith(HUB_PREFIX) else item


EXTRAS = {
    "train": ("torch", "fairseq", "sacrebleu"),
    "mining": ("faiss",),
    "report": ("matplotlib",),
    "eval": ("seqeval", "sklearn", "rouge_score"),
    "slurm": ("submitit",),
    "track": ("tensorboard",),
    "hub": ("transformers", "sacremoses"),
    "office": ("polib", "python_calamine"),
}
"""Packages of each extra in ``pyproject.toml``, by the names that are imported."""


def missing_package_error(package: str, needed_by: str, extra: str) -> UserError:
    """Build the error for a package that is not installed."""
    return UserError(
        f"{package} is not installed, and {needed_by} needs it", fix=f"pip install 'xling[{extra}]'"
    )


def require(names: str, needed_by: str) -> None:
    """Check that the packages of extras are installed, without importing them.

    Args:
        names: extras, separated by spaces.
        needed_by: the command that needs them.

    Raises:
        UserError: a package is missing; the message names it and the command that installs it.
    """
    for extra in names.split():
        for package in EXTRAS[extra]:
            if find_spec(package) is None:
                raise missing_package_error(package, needed_by, extra)


def explain_import_error(error: ModuleNotFoundError, needed_by: str) -> UserError | None:
    """Return the error to show for an import that failed, None if no extra brings the module."""
    package = (error.name or "").partition(".")[0]
    extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
    return missing_package_error(package, needed_by, extra) if extra else None
