"""Shared parts of ``xling finetune mt`` and ``xling umt``: train a translation model, score it, publish it."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from xling.core.output import manifest
from xling.models.distributed import processes
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer import plans
from xling.transfer.plans import LinePair, TestSets
from xling.transfer.settings import MtConfig, UmtConfig

TranslationConfig = TypeVar("TranslationConfig", MtConfig, UmtConfig)


@dataclass(frozen=True)
class TranslationStage(Generic[TranslationConfig]):
    """The parts that are specific to one of these stages.

    Attributes:
        name: name of the stage, in manifests.
        inputs: paths that it reads, in the order of the manifest.
        sets: setting -> ``src-tgt`` -> two line-aligned files; those of ``test`` are scored.
        pretraining: settings of the training that publishes into a folder.
        scores: computes ``scores.json`` for the model in a folder on its test sets; translations go into the
            other folder.
        report: formats the scores in lines.
        watch: called at every validation, see `xling.training.train.run`; None for no call.
    """

    name: str
    inputs: Callable[[TranslationConfig], list[Path]]
    sets: Callable[[TranslationConfig], TestSets]
    pretraining: Callable[[TranslationConfig, Path], PretrainConfig]
    scores: Callable[[TranslationConfig, Path, Mapping[str, LinePair], Path], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]
    watch: Callable[[TranslationConfig, PretrainConfig], Callable[[Any, Path], dict[str, float]]] | None = (
        None
    )


def run_stage(stage: TranslationStage[TranslationConfig], cfg: TranslationConfig) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill resumes the training.

    Raises:
        UserError: a test set is missing, has a direction that is not trained, or has sides of different
            lengths; and the errors of ``stage.pretraining``.
    """
    curves_setting, cfg = cfg.log, replace(cfg, log="none")
    out = Path(cfg.out)
    sets = stage.sets(cfg)
    plans.check_files(sets)
    inputs = stage.inputs(cfg)
    if published := manifest.up_to_date(out, stage.name, cfg, inputs):
        return published
    tests = {pair: plans.read_aligned(pair, Path(two[0]), Path(two[1])) for pair, two in cfg.test.items()}
    training_folder = out.with_name(f"{out.name}.train")
    settings = replace(stage.pretraining(cfg, training_folder), log=curves_setting)
    plans.check_langs(sets, settings.langs)
    model = train.run(settings, stage.watch(cfg, settings) if stage.watch else None)
    if not processes.is_first():
        assert isinstance(model, manifest.Manifest)
        return model
    with manifest.publish(out, stage.name, cfg, inputs) as publication:
        for path in training_folder.iterdir():
            if path.name != manifest.FILE_NAME:
                shutil.copy(path, publication.path / path.name)
        scores = stage.scores(cfg, training_folder, tests, publication.path)
        (publication.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        publication.counts |= {"langs": list(settings.langs), "updates": cfg.train.updates, "scores": scores}
    shutil.rmtree(training_folder)
    # Left there if this command was killed when the training had ended.
    shutil.rmtree(training_folder.with_name(f"{training_folder.name}.partial"), ignore_errors=True)
    print(stage.report(scores), flush=True)
    return manifest.read(out)
