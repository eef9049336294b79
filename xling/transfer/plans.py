"""Plans of ``xling finetune mt`` and ``xling umt``, made and checked without torch: training, inputs, test sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.models import shape as shapes
from xling.models.files import model_folder
from xling.models.shape import ModelConfig
from xling.text import shard_selection, word_translation
from xling.text.files import shards
from xling.training import checks, track
from xling.training.plan import phases_of
from xling.training.settings import PretrainConfig
from xling.transfer.settings import MtConfig, UmtConfig

Cfg = TypeVar("Cfg", MtConfig, UmtConfig)
Sides = tuple[list[str], list[str]]
Sets = Mapping[str, Mapping[str, tuple[str, ...]]]


def check_mt(cfg: MtConfig) -> None:
    """Check the settings of ``xling finetune mt`` and what they name.

    Raises:
        UserError: as `xling.transfer.translation.supervised.run`, or the output is finished and was made with other
        settings.
    """
    track.check(cfg.log)
    _check(cfg, "finetune mt", mt_inputs(cfg), {"test": cfg.test}, mt)


def check_umt(cfg: UmtConfig) -> None:
    """Check the settings of ``xling umt`` and what they name.

    Raises:
        UserError: as `xling.transfer.translation.unsupervised`, or the output is finished and was made with other
        settings.
    """
    track.check(cfg.log)
    _check(cfg, "umt", umt_inputs(cfg), {"oracle": cfg.oracle, "test": cfg.test}, umt)


def _check(
    cfg: Cfg, stage: str, inputs: list[Path], sets: Sets, plan: Callable[[Cfg, Path], PretrainConfig]
) -> None:
    check_files(sets)
    if manifest.is_finished(Path(cfg.out), stage, replace(cfg, log="none"), inputs):
        return
    for pair, two in cfg.test.items():
        aligned(pair, Path(two[0]), Path(two[1]))
    training = plan(cfg, Path(cfg.out))
    check_langs(sets, training.langs)
    _, phases = phases_of(training, training.train)
    checks.check_settings(training, phases)


def mt_inputs(cfg: MtConfig) -> list[Path]:
    """Return all that ``xling finetune mt`` reads, in the order of the manifest."""
    return _paths(cfg.data, cfg.checkpoint, cfg.back_translated, *files(cfg.test))


def umt_inputs(cfg: UmtConfig) -> list[Path]:
    """Return all that ``xling umt`` reads, in the order of the manifest."""
    words = word_translation.paths(cfg.back.get("dictionaries", ""))
    return _paths(cfg.data, cfg.checkpoint, cfg.parallel_data, *files(cfg.oracle, cfg.test), *words)


def _paths(*names: str | Path) -> list[Path]:
    return [Path(name) for name in names if name]


def mt(cfg: MtConfig, out: Path) -> PretrainConfig:
    """Return the settings of the training for `xling.training.train`.

    Raises:
        UserError: a direction or language is missing from the data.
    """
    data = Path(cfg.data)
    there = shards.pairs_in(data)
    directions = ",".join(cfg.directions)
    pairs = shard_selection.pairs_of_directions(directions, there) if directions else ",".join(there)
    spoken = {lang for pair in pairs.split(",") if pair for lang in split_pair(pair)}
    spoken |= {lang for pair in _back_pairs(cfg) for lang in split_pair(pair)}
    objective = {
        "pairs": pairs,
        "directions": directions,
        "alpha": str(cfg.alpha),
        "label_smoothing": str(cfg.label_smoothing),
        "tokens_per_sample": str(cfg.tokens_per_sample),
        "back_translated": cfg.back_translated,
        "back_share": str(cfg.back_share),
        "tag": str(cfg.tag),
    }
    model, langs = cfg.model, sorted(spoken)
    if cfg.checkpoint:
        model, known = start_of(Path(cfg.checkpoint), cfg.model)
        langs = [*known, *(lang for lang in langs if lang not in known)]
    return PretrainConfig(
        data=cfg.data,
        out=str(out),
        objectives={"translation": objective},
        langs=tuple(langs),
        model=model,
        train=cfg.train,
        seed=cfg.seed,
        init=cfg.checkpoint,
        freeze=cfg.freeze,
    )


def umt(cfg: UmtConfig, out: Path) -> PretrainConfig:
    """Return the settings of the training for `xling.training.train`.

    Raises:
        UserError: no pair is given, a language is given twice or has no text, or the checkpoint was not
            trained on it.
    """
    there = shards.languages_in(Path(cfg.data))
    if not cfg.pairs:
        raise UserError("no pair is named", "pairs=SRC-TGT,SRC-TGT", "for example pairs=en-fr")
    spoken = sorted({lang for pair in cfg.pairs for lang in split_pair(pair)})
    for lang in spoken:
        languages.get(lang)
        if lang not in there:
            raise UserError(
                f"no text in {lang} in {cfg.data}",
                ", ".join(there),
                f"run xling binarize with corpora.{lang}=FILE",
            )
    model, langs = cfg.model, spoken
    if cfg.checkpoint:
        model, langs = start_of(Path(cfg.checkpoint), cfg.model)
        if missing := [lang for lang in spoken if lang not in langs]:
            raise UserError(
                f"{cfg.checkpoint} was not trained on {missing[0]!r}",
                ", ".join(langs),
                "pre-train it on text of that language too",
            )
    length = {"tokens_per_sample": str(cfg.tokens_per_sample)}
    objectives = {"umt": {**length, "pairs": ",".join(cfg.pairs), **cfg.back}}
    if cfg.denoise != "none":
        objectives[cfg.denoise] = {**length, **cfg.denoise_settings}
    if cfg.parallel_data:
        objectives["translation"] = {**length, "data": cfg.parallel_data}
    return PretrainConfig(
        data=cfg.data,
        out=str(out),
        objectives=objectives,
        mix="sum",
        langs=tuple(langs),
        model=model,
        train=cfg.train,
        seed=cfg.seed,
        init=cfg.checkpoint,
    )


def start_of(directory: Path, wanted: ModelConfig) -> tuple[ModelConfig, list[str]]:
    """Return shape and languages of a checkpoint.

    Run-specific settings, and an encoder's decoder, are as ``wanted``.
    """
    state = model_folder.read(directory, *model_folder.OURS)
    taken = shapes.names(ModelConfig, own=False)
    shape = {name: value for name, value in state["shape"].items() if name in taken}
    return replace(wanted, **shape), state["langs"]


def _back_pairs(cfg: MtConfig) -> list[str]:
    return shards.pairs_in(Path(cfg.back_translated)) if cfg.back_translated else []


def check_files(sets: Sets) -> None:
    """Raise UserError where a pair of a set does not name two files."""
    for kind, pairs in sets.items():
        for pair, names in pairs.items():
            if len(names) != 2:
                given = f"{kind}.{pair}: {len(names)} files"
                raise UserError(given, "two: sources and references", f"{kind}.{pair}=SRC,REF")


def check_langs(sets: Sets, langs: tuple[str, ...]) -> None:
    """Raise UserError where a pair of a set has a language that is not trained."""
    for kind, pair in ((kind, pair) for kind, pairs in sets.items() for pair in pairs):
        if missing := [lang for lang in split_pair(pair) if lang not in langs]:
            raise UserError(
                f"{kind}.{pair}: {missing[0]} is not among the languages of the training",
                ", ".join(langs),
                f"leave {kind}.{pair} out",
            )


def files(*sets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """List the files of test sets in order."""
    return [name for each in sets for two in each.values() for name in two]


def aligned(pair: str, source: Path, reference: Path) -> Sides:
    """Read the lines of two aligned files.

    Raises:
        UserError: one is missing, or they differ in length.
    """
    sides = []
    for path in (source, reference):
        if not path.is_file():
            raise UserError(f"test {pair}: no file at {path}", fix="check the path")
        sides.append(path.read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"test {pair}: {len(sides[0])} lines in {source}, {len(sides[1])} in {reference}",
            "as many lines in both",
            "check that both belong together",
        )
    return sides[0], sides[1]


def read_rows(path: Path) -> list[tuple[str, str]]:
    """Read the rows ``source<TAB>target`` of a file.

    Raises:
        UserError: the file does not exist or is empty, or a row does not have exactly one tab.
    """
    if not path.is_file():
        raise UserError(f"no file at {path}", "a text file with lines SOURCE<TAB>TARGET", "check the path")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").removesuffix("\n").split("\n"), 1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target or not source.strip() or not target.strip():
            raise UserError(
                f"{path} line {number}: {line[:40]!r}",
                "SOURCE<TAB>TARGET, both with text",
                "correct the line",
            )
        rows.append((source, target))
    return rows
