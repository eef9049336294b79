"""Training in several phases, each with its own length, languages, mask rate, block length and objectives.

A phase is a recipe over the same model and optimiser. The phase of an update depends only on its number, so a
killed run continues in the right one. Source: Marone et al. 2025 (annealed language learning: languages join
late, masks shrink, rates decay at the end).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from xling.core.commands.stage_type import load
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import schema
from xling.text.files import shards
from xling.training.batches import Batches
from xling.training.settings import PhaseConfig, PretrainConfig

FILE = "phases.json"
_SHORT = ("alpha", "mask_prob", "tokens_per_sample")


@dataclass(frozen=True)
class Facts:
    """Properties of an objective that the plan of a training depends on.

    Attributes:
        settings: names of its settings.
        decoder: it needs a model with a decoder.
        shardable: its loss only uses the weights in one forward pass.
        keeps: it keeps weights of its own in the model.
    """

    settings: frozenset[str]
    decoder: bool
    shardable: bool
    keeps: bool


def facts_of(name: str) -> Facts:
    """Return the facts of an objective; one of another package is imported, and torch with it.

    Raises:
        UserError: there is no such objective.
    """
    if keys := schema.objectives().get(name):
        said = [name in schema.declaring(line) for line in ("decoder = True", "shardable = False", "modules")]
        settings = frozenset(key.name.rpartition(".")[2] for key in keys)
        return Facts(settings, said[0], not said[1], said[2])
    entry, base = load("xling.objectives:OBJECTIVES")[name], load("xling.objectives.base:Objective")
    settings = frozenset(item.name for item in fields(entry.config))
    return Facts(settings, entry.decoder, entry.shardable, entry.modules is not base.modules)


@dataclass(frozen=True)
class Part:
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


def planned(cfg: PretrainConfig, processes: int = 1) -> tuple[PretrainConfig, list[Part]]:
    """Return the settings of a run with its total length and decay, and its phases; one phase if none is given.

    Args:
        cfg: as given.
        processes: number of processes that train together, for lengths in tokens.

    Raises:
        UserError: a phase has no length or two, a file of languages does not exist, a decaying phase is
            followed by one without decay, or languages change in a model that has weights for each language.
    """
    if not cfg.phases:
        return cfg, [Part("", cfg, cfg.train.updates)]
    batches, lengths = Batches.of(cfg.train, processes), list[int]()
    for name, phase in cfg.phases.items():
        if (phase.updates > 0) == (phase.tokens > 0):
            raise UserError(
                f"phases.{name}.updates={phase.updates} phases.{name}.tokens={phase.tokens}",
                "one of the two above 0",
            )
        lengths.append(phase.updates or batches.updates(phase.tokens, sum(lengths)))
    total = sum(lengths)
    train = replace(cfg.train, updates=total)
    decaying = [phase.part == "decay" for phase in cfg.phases.values()]
    if any(decaying):
        if cfg.train.schedule != "wsd" or decaying != sorted(decaying):
            raise UserError(
                f"phases.{list(cfg.phases)[decaying.index(True)]}.part=decay with train.schedule={cfg.train.schedule}",
                "train.schedule=wsd, and no stable phase after a decaying one",
            )
        train = replace(
            train, decay=sum(n for n, is_last in zip(lengths, decaying, strict=True) if is_last) / total
        )
    whole = replace(cfg, train=train)
    parts = [
        Part(name, of_phase(whole, name, phase), end, _thetas(phase))
        for (name, phase), end in zip(cfg.phases.items(), accumulate(lengths), strict=True)
    ]
    _check_kept(parts)
    return whole, parts


def _thetas(phase: PhaseConfig) -> dict[str, float]:
    given = {"global_theta": phase.global_theta, "local_theta": phase.local_theta}
    return {name: theta for name, theta in given.items() if theta is not None}


def _check_kept(parts: list[Part]) -> None:
    """Reject objectives with weights in the model that would have to change between phases."""
    first = parts[0].cfg
    for part in parts[1:]:
        for name in part.cfg.objectives:
            if not facts_of(name).keeps:
                continue
            if name not in first.objectives or part.cfg.langs != first.langs:
                raise UserError(
                    f"phases.{part.name} with objectives.{name}, which keeps its own weights in the model",
                    f"objectives.{name} in the first phase, and the same languages in all",
                )


def of_phase(cfg: PretrainConfig, name: str, phase: PhaseConfig) -> PretrainConfig:
    """Return the settings of a run without phases that trains as ``phase`` does."""
    given = {key: str(value) for key in _SHORT if (value := getattr(phase, key)) is not None}
    chosen = phase.objectives or {key: {} for key in cfg.objectives}
    objectives = {}
    for objective, settings in chosen.items():
        known = facts_of(objective).settings
        if odd := [key for key in given if key not in known and len(chosen) == 1]:
            raise UserError(
                f"phases.{name}.{odd[0]} with objectives.{objective}, which has no such setting",
                ", ".join(sorted(known & {*_SHORT})),
            )
        short = {key: value for key, value in given.items() if key in known}
        objectives[objective] = {**cfg.objectives.get(objective, {}), **short, **settings}
    langs = _langs(phase.langs, name) if phase.langs else cfg.langs
    if langs != cfg.langs and (cfg.model.lang_embeddings or any(facts_of(key).decoder for key in objectives)):
        raise UserError(
            f"phases.{name}.langs with a model that has a vector or a token for each language",
            "the same languages in every phase",
            "set langs= for all of them",
        )
    return replace(cfg, objectives=objectives, langs=langs, phases={})


def _langs(given: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Parse languages: a list unchanged, ``all`` as an empty list, the words of a file."""
    if given == ("all",):
        return ()
    if len(given) == 1 and ("/" in given[0] or "." in given[0]):
        path = Path(given[0])
        if not path.is_file():
            raise UserError(
                f"phases.{name}.langs={path}: there is no such file", "codes, a file of codes, or all"
            )
        return tuple(path.read_text(encoding="utf-8").split())
    return given


class Course:
    """Control of the phases during training.

    Args:
        parts: the phases in order.
        trainer: the trainer whose task is exchanged.
        build: builds a task from the settings of a phase.
        folder: where the record of read data is kept until the end.
    """

    def __init__(self, parts: list[Part], trainer: Any, build: Any, folder: Path) -> None:
        self._parts, self._trainer, self._build = parts, trainer, build
        self._file, self._now = folder / FILE, 0

    def enter(self, update: int) -> None:
        """Enter the phase of the update after ``update``: another task over the same model."""
        ended = [part.end <= update for part in self._parts[:-1]].count(True)
        part = self._parts[ended]
        if ended != self._now:
            task = self._build(part.cfg)
            for entry in task.objectives.values():
                entry.fit(self._trainer.get_model().cfg)
            self._trainer.task = self._trainer.get_criterion().task = task
            task.load_dataset("valid")
        for name, theta in part.thetas.items():
            setattr(self._trainer.get_model().encoder.cfg, name, theta)
        self._now = ended

    def ends(self, update: int) -> bool:
        """Return whether a phase, other than the last, ends with this update."""
        return any(part.end == update for part in self._parts[:-1])

    def langs(self, first: list[str]) -> list[str]:
        """Return all languages of the run; ``first`` are those of its first phase."""
        if len(self._parts) == 1:
            return first
        named = [
            lang
            for part in self._parts
            for lang in part.cfg.langs or shards.list_languages(Path(part.cfg.data))
        ]
        return sorted({*named}, key=[*first, *named].index)

    def turn(self, update: int, seen: dict[str, Any]) -> Any:
        """Record what the current phase read, enter the next one after ``update``, and return its training iterator."""
        read = self._noted() | {self._parts[self._now].name: seen}
        manifest.write_atomic(self._file, json.dumps(read))
        self.enter(update)
        return self._trainer.get_train_iterator(1, load_dataset=True)

    def read(self, seen: dict[str, Any]) -> dict[str, Any]:
        """Return what the whole run read: by phase, and the total epochs of each language."""
        if len(self._parts) == 1:
            return seen
        by_phase = {part.name: self._noted().get(part.name, seen) for part in self._parts[:-1]}
        return in_all(by_phase | {self._parts[-1].name: seen})

    def _noted(self) -> dict[str, Any]:
        return dict(json.loads(self._file.read_text(encoding="utf-8"))) if self._file.is_file() else {}


def in_all(by_phase: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Sum the tokens read and the epochs of each language over all phases.

    ``tokens`` as in one phase, and ``phases``.
    """
    tokens: dict[str, dict[str, Any]] = {}
    for seen in by_phase.values():
        for name, one in seen["tokens"].items():
            before = tokens.get(name, {"there": one["there"], "read": 0})
            tokens[name] = {"there": max(before["there"], one["there"]), "read": before["read"] + one["read"]}
    for one in tokens.values():
        one["epochs"] = round(one["read"] / max(one["there"], 1), 4)
    return {"tokens": tokens, "phases": dict(by_phase)}
