"""Shared parts of ``xling finetune mt`` and ``xling umt``: train a translation model, score it, publish it."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xling.core.output import manifest
from xling.models.distributed import processes
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer import plans
from xling.transfer.plans import LinePair, TranslationConfig


def run_stage(
    cfg: TranslationConfig,
    scores_of: Callable[[TranslationConfig, Path, Mapping[str, LinePair], Path], dict[str, Any]],
    report: Callable[[dict[str, Any]], str],
    watch: Callable[[TranslationConfig, PretrainConfig], Callable[[Any, Path], dict[str, float]]]
    | None = None,
) -> manifest.Manifest:
    """Train, translate, score and publish; a rerun after a kill resumes the training.

    Args:
        cfg: settings of the stage; its plan is in `xling.transfer.plans.PLANS`.
        scores_of: computes ``scores.json`` for the model in a folder on its test sets; translations go into the
            other folder.
        report: formats the scores in lines.
        watch: makes what is called at every validation, see `xling.training.train.run`; None for no call.

    Raises:
        UserError: a test set is missing, has a direction that is not trained, or has sides of different
            lengths; and the errors of the plan.
    """
    curves_setting, cfg = cfg.log, replace(cfg, log="none")
    out, plan = Path(cfg.out), plans.PLANS[type(cfg)]
    sets, inputs = plan.sets(cfg), plan.inputs(cfg)
    plans.check_files(sets)
    if published := manifest.up_to_date(out, plan.stage, cfg, inputs):
        return published
    tests = {pair: plans.read_aligned(pair, Path(two[0]), Path(two[1])) for pair, two in cfg.test.items()}
    training_folder = out.with_name(f"{out.name}.train")
    settings = replace(plan.pretraining(cfg, training_folder), log=curves_setting)
    plans.check_langs(sets, settings.langs)
    model = train.run(settings, watch(cfg, settings) if watch else None)
    if not processes.is_first():
        assert isinstance(model, manifest.Manifest)
        return model
    with manifest.publish(out, plan.stage, cfg, inputs) as publication:
        for path in training_folder.iterdir():
            if path.name != manifest.FILE_NAME:
                shutil.copy(path, publication.path / path.name)
        scores = scores_of(cfg, training_folder, tests, publication.path)
        (publication.path / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", encoding="utf-8")
        publication.counts |= {"langs": list(settings.langs), "updates": cfg.train.updates, "scores": scores}
    shutil.rmtree(training_folder)
    # Left there if this command was killed when the training had ended.
    shutil.rmtree(training_folder.with_name(f"{training_folder.name}.partial"), ignore_errors=True)
    print(report(scores), flush=True)
    return manifest.read(out)
