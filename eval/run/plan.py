"""The plan of an evaluation: what to score, resolved once from the settings of ``xling eval``."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.commands.runner import load
from xling.core.errors import UserError, unknown
from xling.core.output import manifest, sealed
from xling.core.output.command_result import tell
from xling.core.settings.config import to_dict
from xling.core.settings.values import named_path
from xling.eval.metrics import METRICS
from xling.eval.rows.own import data_of
from xling.eval.rows.protocols import PROTOCOLS, SELECT, TransferProtocol, Translator, training_suite
from xling.eval.rows.suite import (
    Suite,
    check_test_set,
    data_digest,
    languages_at,
    scorable_splits,
    scored_split,
    suites,
)
from xling.eval.run.settings import EvalConfig
from xling.eval.systems import BACKENDS, Backend, SearchConfig, build
from xling.eval.tables.groups import GROUPS
from xling.eval.tables.publish import check_workers
from xling.models.files import model_folder
from xling.transfer.checks import check_random_control


@dataclass(frozen=True)
class Target:
    """Rows that a system is scored on: suite, language, split and the digest of what an answer depends on."""

    suite: Suite
    lang: str
    split: str
    digest: str


@dataclass(frozen=True)
class EvalPlan:
    """Resolved settings of an evaluation: rows to score, protocol and folders.

    Attributes:
        settings: those of the command, with the folder of the data.
        data: folder of the suites' files.
        targets: rows to score, one group for each suite, none of which is empty.
        protocol: which rows a system learns from.
        search: part of a signature about the search of generated texts.
        precision: part of a signature about the precision of weights; empty for fp32.
        translate: translates rows for the protocols that need it; None without a model.
    """

    settings: EvalConfig
    data: Path
    targets: tuple[tuple[Target, ...], ...]
    protocol: TransferProtocol
    predictions: Path
    search: str = ""
    precision: str = ""
    translate: Translator | None = None


def plan_evaluation(cfg: EvalConfig) -> EvalPlan:
    """Return the plan of an evaluation, after all checks that need no model.

    Raises:
        UserError: a name, language, split or setting is wrong, or rows are missing.
    """
    data = data_of(cfg.data, cfg.suites)
    check_workers(cfg.num_workers)
    if any(seed < 0 for seed in cfg.seeds):
        raise UserError(f"seeds={','.join(str(s) for s in cfg.seeds if s < 0)}", "whole numbers from 0")
    if cfg.out.exists() and not cfg.out.is_dir():
        raise UserError(f"out={cfg.out} is not a folder", fix="choose another out=, or move the file away")
    if stage := manifest.stage_of(cfg.out):
        raise UserError(
            f"{cfg.out} was made by {stage!r}, not by 'eval'", fix="choose another out=, or move it away"
        )
    chosen = [suites()[name] for name in expand(cfg.suites)]
    for mode in cfg.select:
        if mode not in SELECT:
            raise unknown("way of choosing a checkpoint", mode, SELECT)
    if cfg.train_split == "dev" and "oracle" in cfg.select:
        raise UserError("select=oracle and train_split=dev train and choose on the same rows", "one of them")
    protocol = PROTOCOLS[cfg.protocol]
    for name in cfg.train_with:
        suites()[name]
    targets = tuple(tuple(_targets(cfg, suite, data)) for suite in chosen)
    for check in {METRICS[name].check for suite in chosen for name in suite.metrics}:
        if check:
            check()
    search = cfg.search
    return EvalPlan(
        settings=replace(cfg, data=data),
        data=data,
        targets=targets,
        protocol=protocol,
        predictions=cfg.out / "predictions",
        search=f"|beam:{search.beam}|length:{search.length_penalty:g},{search.max_len_a:g},{search.max_len_b}",
        precision="" if cfg.precision == "fp32" else f"|precision:{cfg.precision}",
        translate=Translations(cfg.translator, cfg.out / "translations", search) if cfg.translator else None,
    )


def expand(names: Iterable[str]) -> list[str]:
    """Return the names of suites, with groups of `xling.eval.tables.groups` expanded.

    Raises:
        UserError: no name, or an unknown one.
    """
    suite_names: list[str] = []
    for name in names:
        suite_names += GROUPS[name].here() if name in GROUPS else [suites()[name].name]
    if not suite_names:
        raise UserError("no suite is named", ", ".join(sorted([*suites(), *GROUPS])), "suites=xnli,panx")
    return list(dict.fromkeys(suite_names))


def _targets(cfg: EvalConfig, suite: Suite, data: Path) -> Iterator[Target]:
    """Yield the languages of a suite to score: the requested ones, or every available one, the source first.

    Raises:
        UserError: a requested language is missing, or no language has rows.
    """
    trains_on_dev = cfg.train_split == "dev" and training_suite(suite) is suite
    if cfg.test_set:
        check_test_set(suite, cfg.test_set)
    langs = [*(cfg.langs if suite.pairs else map(languages.canonical, cfg.langs))]
    if (readable := _readable(cfg, suite, langs)) != langs:
        gone = next(lang for lang in langs if lang not in readable)
        raise UserError(
            f"{suite.name} in {gone!r}: a model of this evaluation has a vector for each language, and none for it",
            ", ".join(readable) or "a model without language embeddings",
            f"leave {gone} out of langs=",
        )
    if not langs:
        splits = (
            [cfg.test_set]
            if cfg.test_set
            else [*scorable_splits(suite), *(["dev"] if suite.scores_dev and not trains_on_dev else [])]
        )
        known = [split for split in splits if split in suite.all_splits]
        langs = [lang for split in known for lang in languages_at(suite, split, data)]
        langs = _readable(cfg, suite, langs)
    if not langs:
        raise UserError(
            f"no rows of {suite.name} below {data}",
            fix=suite.remedy or f"put them at {'  '.join(suite.patterns)}",
        )
    for lang in dict.fromkeys(langs):
        split = scored_split(suite, lang, data, cfg.test_set)
        if trains_on_dev and split == "dev":
            raise UserError(
                f"{suite.name} has no test rows in {lang!r}, and train_split=dev",
                "languages with test rows: the dev rows are the same ones in every language of most suites",
                f"leave {lang} out of langs=",
            )
        yield Target(suite, lang, split, _digest(suite, lang, split, data))


def _readable(cfg: EvalConfig, suite: Suite, langs: list[str]) -> list[str]:
    """Return the languages that every model can read without fine-tuning, and tell those that are left out.

    A model with language embeddings has a vector for each of its languages. If it is fine-tuned on a suite, it reads
    other languages as that of the training rows, and says so; vectors and likelihoods would mean nothing.
    """
    if suite.task not in ("", "likelier"):
        return langs
    folders = [cfg.checkpoint, *(named_path(item)[1] for item in cfg.checkpoints)]
    for folder in [Path(each) for each in folders if each]:
        content = model_folder.facts(folder / model_folder.MODEL_FILE) if folder.is_dir() else {}
        if not model_folder.shape_of(content).lang_embeddings:
            continue
        known = content["langs"]
        unread = [
            x
            for x in langs
            if not all(
                any(languages.is_same(side, each) for each in known)
                for side in (sides(suite, x) if not suite.task else (x,))
            )
        ]
        if unread and not cfg.langs:
            tell(
                f"xling: {suite.name}: {', '.join(unread)} left out: {folder} has a vector for each of its languages "
                f"({', '.join(languages.canonical_list(known))}), and none for these"
            )
        langs = [lang for lang in langs if lang not in unread]
    return langs


def sides(suite: Suite, lang: str) -> tuple[str, str]:
    """Return the languages of the two sides of a pair; a bare language is paired with the pivot or with English."""
    source, _, target = lang.partition("-")
    return source, target or suite.pivot or "en"


def _digest(suite: Suite, lang: str, split: str, data: Path) -> str:
    """Return a digest of the rows, and of the training rows that a threshold or words come from."""
    with_training = suite.shape.reads_training and suite.has(lang, "train", data)
    return "+".join(data_digest(suite, lang, each, data) for each in (split, *["train"] * with_training))


def check_checkpoint(cfg: EvalConfig) -> None:
    """Check that the systems that ``cfg`` names have the checkpoint that they need.

    Raises:
        UserError: there is none, or it is fine-tuned and a random control is wanted.
    """
    if not (cfg.checkpoint or cfg.checkpoints) and {"pretrained", "joined", "random"} & {*cfg.systems}:
        raise UserError("no checkpoint is given", "a directory made by `xling pretrain`", "checkpoint=DIR")
    if cfg.checkpoint and "random" in cfg.systems:
        check_random_control(Path(cfg.checkpoint))


def build_systems(plan: EvalPlan) -> list[Backend]:
    """Return the systems of a plan, one for each of its checkpoints.

    Raises:
        UserError: an unknown system, or a name for a checkpoint that stands for something else.
    """
    settings = plan.settings
    if not settings.checkpoints:
        return [build(name, settings) for name in settings.systems]
    pairs = [named_path(item) for item in settings.checkpoints]
    folders = {name or Path(folder).name: Path(folder) for name, folder in pairs}
    if len(folders) < len(pairs) or settings.checkpoint or not folders.keys().isdisjoint(BACKENDS):
        raise UserError(
            f"checkpoints={','.join(settings.checkpoints)}{' and checkpoint=' if settings.checkpoint else ''}",
            "models of different names that no system has, and no checkpoint=",
            "name them: checkpoints=mmlm=runs/a,tlm=runs/b",
        )
    first = next(iter(folders.values()))
    systems: list[Backend] = []
    for system in settings.systems:
        if system != "pretrained":
            systems.append(build(system, replace(settings, checkpoint=first)))
            continue
        for name, folder in folders.items():
            systems.append(build(system, replace(settings, checkpoint=folder)))
            systems[-1].name = name
    return systems


class Translations:
    """A `xling.eval.rows.protocols.Translator` that only translates texts that are not in its cache.

    Args:
        model: directory of `xling finetune mt`.
        folder: folder of the cache, one file per list of texts.
    """

    def __init__(self, model: Path, folder: Path, search: SearchConfig) -> None:
        self.model, self.folder, self.search = model, folder, search
        self.digest = manifest.digest(model)
        self._translator: Any = None

    def __call__(self, texts: Sequence[str], src: str, tgt: str) -> list[str]:
        """Return one translation per text.

        Raises:
            UserError: the model has no decoder, or has never seen one of the languages.
        """
        made_of = [self.digest, to_dict(self.search), src, tgt, list(texts)]
        key = hashlib.sha256(json.dumps(made_of, ensure_ascii=False, sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{src}-{tgt}.{key[:16]}.json"
        if sealed.is_good(path):
            cached: list[str] = sealed.read_json(path)
            return cached
        if self._translator is None:
            self._translator = load("xling.transfer.generation.decoder_system:load_translator")(
                self.model, self.search
            )
        translated: list[str] = self._translator(texts, src, tgt)
        sealed.write_json(path, translated)
        return translated
