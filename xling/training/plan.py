"""The plan of a training: all that settings, inputs and the number of processes determine, resolved once.

A phase is a recipe over the same model and optimiser. The phase and the batches of an update depend only on its
number, so a killed run continues with the same ones. A run may also go on from a state of another run under its own
schedule, for example with a decay from any checkpoint.

Source of phases: Marone et al. 2025 (languages join late, masks shrink, rates decay at the end).
Source of growing batches: Warner et al. 2024, section 2.2.1 (they grow over the first tokens).
Source of branches: Hu et al. 2024, section 4 (one stable run, decays from its checkpoints).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from xling.core import languages, machine
from xling.core.commands.inputs import MODEL_FILES
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.registry import load
from xling.core.settings import config
from xling.models import parts
from xling.objectives import declared
from xling.text import word_translation
from xling.training import trackers
from xling.training.settings import PhaseConfig, PretrainConfig, TrainConfig

STAGE = "pretrain"
DIRECTORIES = ("data", "teacher", "back_translated")
"""Settings of objectives that name outputs of other stages."""
_OF_EVERY_OBJECTIVE = ("alpha", "mask_prob", "tokens_per_sample")
"""Settings of a phase that apply to each of its objectives."""
T = TypeVar("T")


@dataclass
class Batches:
    """Number of batches of each update.

    Attributes:
        most: batches of an update after the warm-up.
        tokens: tokens of a batch over all processes, assuming full batches.
        warmup: tokens over which updates grow to ``most``, 0 for no warm-up.
        first: batches of the first update of the warm-up.
    """

    most: int
    tokens: int
    warmup: int = 0
    first: int = 1
    _growing: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Compute the updates of the warm-up."""
        seen = 0
        while seen < self.warmup and self.most > self.first:
            grown = self.first + (self.most - self.first) * seen / self.warmup
            self._growing.append(math.ceil(grown))
            seen += self._growing[-1] * self.tokens

    @classmethod
    def of(cls, train: Any, processes: int = 1) -> Batches:
        """Build the rule for batch sizes from the settings of a training."""
        return cls(train.accumulate, train.batch_tokens * processes, train.batch_warmup, train.batch_first)

    def at(self, update: int) -> int:
        """Return the batches of the update after ``update`` others."""
        return self._growing[update] if update < len(self._growing) else self.most

    def updates(self, tokens: int, start: int = 0) -> int:
        """Return the number of updates that read ``tokens`` after ``start`` others."""
        num = 0
        while tokens > 0 and start + num < len(self._growing):
            tokens -= self.at(start + num) * self.tokens
            num += 1
        return num + max(0, math.ceil(tokens / (self.most * self.tokens)))

    def total(self, updates: int) -> int:
        """Return the batches of the first ``updates``."""
        growing = self._growing[:updates]
        return sum(growing) + (updates - len(growing)) * self.most

    def grouped(self, batches: Iterable[T], update: Any) -> Iterator[list[T]]:
        """Group the batches of an epoch into updates; the last may be short.

        ``update()`` is the number of updates so far.
        """
        group: list[T] = []
        for batch in batches:
            group.append(batch)
            if len(group) >= self.at(update()):
                yield group
                group = []
        if group:
            yield group


@dataclass(frozen=True)
class PhasePlan:
    """A phase of a training with its settings and its end.

    Attributes:
        name: name of the phase, empty in a run without phases.
        cfg: the settings of the run with those of the phase.
        end: number of updates at the end of the phase.
        thetas: bases of rotary positions that replace the model's, by name of the setting.
    """

    name: str
    cfg: PretrainConfig
    end: int
    thetas: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A training as it will be carried out.

    Attributes:
        cfg: the settings as given, without ``log``, which does not change the output.
        data: binarised directory.
        out: directory to publish.
        partial: directory of the running training.
        log: where curves are shown during training.
        train: the settings of ``cfg.train`` with the length and the decay of the whole run.
        phases: the phases in order; one without a name in a run without phases.
        inputs: all files and directories that it reads, in the order of the manifest.
        branch: file of the state of another run from which it goes on, None if there is none.
        run_key: ``config``, ``cfg`` as plain values, and ``data``, path of an input -> digest of its content. A
            checkpoint records it.
        finished: manifest of the output, if a run would only repeat it.
    """

    cfg: PretrainConfig
    data: Path
    out: Path
    partial: Path
    log: str
    train: TrainConfig
    phases: tuple[PhasePlan, ...]
    inputs: tuple[Path, ...]
    branch: Path | None
    run_key: dict[str, Any]
    finished: manifest.Manifest | None


def resolve(cfg: PretrainConfig) -> Plan:
    """Make the plan of a training from its settings; with ``branch``, torch is imported to read the state.

    Raises:
        UserError: an input is missing or damaged, phases do not fit together, a state cannot be branched off, or the
            output is finished and was made with other settings or inputs.
    """
    log, out = cfg.log, Path(cfg.out)
    if log != trackers.OFF:
        trackers.check(log)
        cfg = replace(cfg, log=trackers.OFF)
    branch, train = _branch(cfg) if cfg.branch else (None, cfg.train)
    # Slurm and torchrun give the number of processes in this variable.
    num_processes = 1 if cfg.dry_run else machine.place()[1]
    train, phases = phases_of(cfg, train, num_processes)
    published, inputs = inputs_of(cfg, branch)
    settings = config.to_dict(cfg)
    finished = None if cfg.dry_run else manifest.up_to_date(out, STAGE, cfg, inputs)
    for path in published if finished is None else ():
        if not any(
            (path / name).is_file() for name in MODEL_FILES
        ):  # a model may be a folder of the user's own
            manifest.verify(path)
    return Plan(
        cfg=cfg,
        data=Path(cfg.data),
        out=out,
        partial=out.with_name(f"{out.name}.partial"),
        log=log,
        train=train,
        phases=phases,
        inputs=inputs,
        branch=branch,
        run_key={"config": settings, "data": {str(path): manifest.content_digest(path) for path in inputs}},
        finished=finished,
    )


def inputs_of(cfg: PretrainConfig, branch: Path | None) -> tuple[list[Path], tuple[Path, ...]]:
    """Return the outputs of other stages that a training reads, and all that it reads, ``branch`` last."""
    named = [settings.get(key, "") for settings in cfg.objectives.values() for key in DIRECTORIES]
    frozen = parts.frozen_encoders(cfg.model).values()
    starts = (cfg.init, cfg.encoder, cfg.decoder, cfg.init_pieces, *frozen, *named)
    outputs = [Path(name) for name in dict.fromkeys(starts) if name]
    outputs = [Path(cfg.data), *outputs]
    dictionaries = [spec for settings in cfg.objectives.values() if (spec := settings.get("dictionaries"))]
    files = [path for spec in dictionaries for path in word_translation.input_paths(spec)]
    return outputs, (*outputs, *files, *([branch] if branch else []))


def _branch(cfg: PretrainConfig) -> tuple[Path, TrainConfig]:
    """Return the state that a run branches off, and its settings with the decay of ``wsd`` from there to its end.

    Raises:
        UserError: there is no such state, it is damaged, the run would end before it begins, or it has phases.
    """
    if cfg.phases or cfg.init:
        raise UserError(
            f"branch={cfg.branch} and {'phases' if cfg.phases else 'init'}= are both given", "one of the two"
        )
    path, begin = load("xling.models.files.training_checkpoint:state_of")(cfg.branch)
    if begin >= cfg.train.updates:
        raise UserError(
            f"branch={cfg.branch} was written after {begin} updates, train.updates={cfg.train.updates}",
            f"train.updates above {begin}: the updates of both runs together",
        )
    if cfg.train.schedule != "wsd":
        return path, cfg.train
    return path, replace(cfg.train, decay=1 - begin / cfg.train.updates)


def phases_of(
    cfg: PretrainConfig, train: TrainConfig, num_processes: int = 1
) -> tuple[TrainConfig, tuple[PhasePlan, ...]]:
    """Return the training settings of a run with its total length and decay, and its phases.

    Args:
        cfg: settings as given.
        train: those of ``cfg``, or what a branch makes of them.
        num_processes: processes that train together, for lengths in tokens.

    Raises:
        UserError: a phase has no length or two, a file of languages does not exist, a decaying phase is
            followed by one without decay, or languages change in a model that has weights for each language.
    """
    if not cfg.phases:
        whole = cfg if train == cfg.train else replace(cfg, train=train)
        return train, (PhasePlan("", whole, train.updates),)
    batches, lengths = Batches.of(train, num_processes), list[int]()
    for name, phase in cfg.phases.items():
        if (phase.updates > 0) == (phase.tokens > 0):
            raise UserError(
                f"phases.{name}.updates={phase.updates} phases.{name}.tokens={phase.tokens}",
                "one of the two above 0",
            )
        lengths.append(phase.updates or batches.updates(phase.tokens, sum(lengths)))
    total = sum(lengths)
    train = replace(train, updates=total)
    decaying = [phase.part == "decay" for phase in cfg.phases.values()]
    if any(decaying):
        if train.schedule != "wsd" or decaying != sorted(decaying):
            raise UserError(
                f"phases.{list(cfg.phases)[decaying.index(True)]}.part=decay with train.schedule={train.schedule}",
                "train.schedule=wsd, and no stable phase after a decaying one",
            )
        train = replace(
            train, decay=sum(n for n, is_last in zip(lengths, decaying, strict=True) if is_last) / total
        )
    whole = replace(cfg, train=train)
    phases = tuple(
        PhasePlan(name, of_phase(whole, name, phase), end, _thetas(phase))
        for (name, phase), end in zip(cfg.phases.items(), accumulate(lengths), strict=True)
    )
    _check_own_weights(phases)
    return train, phases


def _thetas(phase: PhaseConfig) -> dict[str, float]:
    thetas = {"global_theta": phase.global_theta, "local_theta": phase.local_theta}
    return {name: theta for name, theta in thetas.items() if theta is not None}


def _check_own_weights(phases: Sequence[PhasePlan]) -> None:
    """Reject objectives with weights in the model that would have to change between phases."""
    first = phases[0].cfg
    for phase in phases[1:]:
        for name in phase.cfg.objectives:
            if not declared.find(name).has_weights:
                continue
            if name not in first.objectives or phase.cfg.langs != first.langs:
                raise UserError(
                    f"phases.{phase.name} with objectives.{name}, which keeps its own weights in the model",
                    f"objectives.{name} in the first phase, and the same languages in all",
                )


def of_phase(cfg: PretrainConfig, name: str, phase: PhaseConfig) -> PretrainConfig:
    """Return the settings of a run without phases that trains as ``phase`` does."""
    common = {key: str(value) for key in _OF_EVERY_OBJECTIVE if (value := getattr(phase, key)) is not None}
    chosen = phase.objectives or {key: {} for key in cfg.objectives}
    objectives = {}
    for objective, settings in chosen.items():
        known = {item.name for item in fields(declared.find(objective))}
        if foreign := [key for key in common if key not in known and len(chosen) == 1]:
            raise UserError(
                f"phases.{name}.{foreign[0]} with objectives.{objective}, which has no such setting",
                ", ".join(sorted(known & {*_OF_EVERY_OBJECTIVE})),
            )
        applied = {key: value for key, value in common.items() if key in known}
        objectives[objective] = {**cfg.objectives.get(objective, {}), **applied, **settings}
    langs = _langs(phase.langs, name) if phase.langs else cfg.langs
    if langs != cfg.langs and (
        cfg.model.lang_embeddings or any(declared.find(key).decoder for key in objectives)
    ):
        raise UserError(
            f"phases.{name}.langs with a model that has a vector or a token for each language",
            "the same languages in every phase",
            "set langs= for all of them",
        )
    return replace(cfg, objectives=objectives, langs=langs, phases={})


def _langs(langs: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Parse languages: a list unchanged, ``all`` as an empty list, the words of a file."""
    if langs == ("all",):
        return ()
    if len(langs) == 1 and ("/" in langs[0] or "." in langs[0]):
        path = Path(langs[0])
        if not path.is_file():
            raise UserError(
                f"phases.{name}.langs={path}: there is no such file", "codes, a file of codes, or all"
            )
        return tuple(map(languages.canonical, path.read_text(encoding="utf-8").split()))
    return langs
