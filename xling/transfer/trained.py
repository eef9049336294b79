"""Shared parts of ``xling finetune mt`` and ``xling umt``: train a translation model, score it, publish it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from xling.core import manifest
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.models import ddp
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer.settings import MtConfig, UmtConfig

Cfg = TypeVar("Cfg", MtConfig, UmtConfig)
Sides = tuple[list[str], list[str]]


@dataclass(frozen=True)
class Stage(Generic[Cfg]):
    """The parts that are specific to one of these stages.

    Attributes:
        name: name of the stage, in manifests.
        inputs: paths that it reads, in the order of the manifest; empty ones are ignored.
        sets: setting -> ``src-tgt`` -> two line-aligned files; those of ``test`` are scored.
        pretraining: settings of the training that publishes into a folder.
        scores: computes ``scores.json`` for the model in a folder on its test sets; translations go into the
            other folder.
        report: formats the scores in lines.
        watch: called at every validation, see `xling.training.train.run`; None for no call.
    """

    name: str
    inputs: Callable[[Cfg], Sequence[str | Path]]
    sets: Callable[[Cfg], Mapping[str, Mapping[str, tuple[str, ...]]]]
    pretraining: Callable[[Cfg, Path], PretrainConfig]
    scores: Callable[[Cfg, Path, Mapping[str, Sides], Path], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]
    watch: Callable[[Cfg, PretrainConfig], Callable[[Any, Path], dict[str, float]]] | None = None


def run(stage: Stage[Cfg], cfg: Cfg) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill resumes the training.

    Raises:
        UserError: a test set is missing, has a direction that is not trained, or has sides of different
            lengths; and the errors of ``stage.pretraining``.
    """
    log, cfg = cfg.log, replace(cfg, log="none")
    out = Path(cfg.out)
    named = [(kind, pair, two) for kind, sets in stage.sets(cfg).items() for pair, two in sets.items()]
    for kind, pair, names in named:
        if len(names) != 2:
            given = f"{kind}.{pair}: {len(names)} files"
            raise UserError(given, "two: sources and references", f"{kind}.{pair}=SRC,REF")
    inputs = [Path(name) for name in stage.inputs(cfg) if name]
    if done := manifest.up_to_date(out, stage.name, cfg, inputs):
        return done
    tests = {pair: aligned(pair, Path(two[0]), Path(two[1])) for pair, two in cfg.test.items()}
    trained = out.with_name(f"{out.name}.train")
    settings = replace(stage.pretraining(cfg, trained), log=log)
    for kind, pair, _ in named:
        if missing := [lang for lang in split_pair(pair) if lang not in settings.langs]:
            raise UserError(
                f"{kind}.{pair}: {missing[0]} is not among the languages of the training",
                ", ".join(settings.langs),
                f"leave {kind}.{pair} out",
            )
    model = train.run(settings, stage.watch(cfg, settings) if stage.watch else None)
    if not ddp.is_first():
        assert isinstance(model, manifest.Manifest)
        return model
    with manifest.publish(out, stage.name, cfg, inputs) as publication:
        for path in trained.iterdir():
            if path.name != manifest.FILE_NAME:
                shutil.copy(path, publication.path / path.name)
        scores = stage.scores(cfg, trained, tests, publication.path)
        (publication.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        publication.counts |= {"langs": list(settings.langs), "updates": cfg.train.updates, "scores": scores}
    shutil.rmtree(trained)
    print(stage.report(scores), flush=True)
    return manifest.read(out)


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
