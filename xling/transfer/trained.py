"""What ``xling finetune mt`` and ``xling umt`` share: train a translation model, score it on test sets, publish it."""

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
    """What is a stage's own.

    Attributes:
        name: of the stage, in manifests.
        inputs: paths that it reads, in the order of the manifest; empty ones do not count.
        sets: setting -> ``src-tgt`` -> two line-aligned files; those of ``test`` are scored.
        pretraining: the training that publishes into a folder.
        scores: what ``scores.json`` says of the model in a folder, from its test sets; translations go into the other.
        report: the scores in lines.
        watch: called at every validation, see `xling.training.train.run`; None for nothing.
    """

    name: str
    inputs: Callable[[Cfg], Sequence[str | Path]]
    sets: Callable[[Cfg], Mapping[str, Mapping[str, tuple[str, ...]]]]
    pretraining: Callable[[Cfg, Path], PretrainConfig]
    scores: Callable[[Cfg, Path, Mapping[str, Sides], Path], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]
    watch: Callable[[Cfg, PretrainConfig], Callable[[Any, Path], dict[str, float]]] | None = None


def run(stage: Stage[Cfg], cfg: Cfg) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill goes on where the training stood.

    Raises:
        UserError: a test set that is missing, not trained for, or whose sides differ in length; and what
            ``stage.pretraining`` raises.
    """
    log, cfg = cfg.log, replace(cfg, log="none")
    out = Path(cfg.out)
    named = [(kind, pair, two) for kind, sets in stage.sets(cfg).items() for pair, two in sets.items()]
    for kind, pair, names in named:
        if len(names) != 2:
            given = f"{kind}.{pair}: {len(names)} files"
            raise UserError(given, "source and reference", f"{kind}.{pair}=SRC,REF")
    inputs = [Path(name) for name in stage.inputs(cfg) if name]
    if done := manifest.up_to_date(out, stage.name, cfg, inputs):
        return done
    tests = {pair: aligned(pair, Path(two[0]), Path(two[1])) for pair, two in cfg.test.items()}
    trained = out.with_name(f"{out.name}.train")
    settings = replace(stage.pretraining(cfg, trained), log=log)
    for kind, pair, _ in named:
        if missing := [lang for lang in split_pair(pair) if lang not in settings.langs]:
            raise UserError(f"{kind}.{pair}: nothing is trained in {missing[0]}", ", ".join(settings.langs))
    model = train.run(settings, stage.watch(cfg, settings) if stage.watch else None)
    if not ddp.is_first():
        assert isinstance(model, manifest.Manifest)
        return model
    with manifest.publish(out, stage.name, cfg, inputs) as made:
        for path in trained.iterdir():
            if path.name != manifest.FILE_NAME:
                shutil.copy(path, made.path / path.name)
        scores = stage.scores(cfg, trained, tests, made.path)
        (made.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        made.counts |= {"langs": list(settings.langs), "updates": cfg.train.updates, "scores": scores}
    shutil.rmtree(trained)
    print(stage.report(scores), flush=True)
    return manifest.read(out)


def files(*sets: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The files of test sets in order."""
    return [name for each in sets for two in each.values() for name in two]


def aligned(pair: str, source: Path, reference: Path) -> Sides:
    """The lines of two aligned files.

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
            f"test {pair}: {len(sides[0])} lines in {source}, {len(sides[1])} in {reference}", "as many"
        )
    return sides[0], sides[1]
