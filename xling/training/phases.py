"""One run in several phases: each with its own length, languages, mask rate, block length and objectives.

A phase is a recipe of its own over the same model and optimiser. Which one an update belongs to follows from its
number alone, so a run that was killed goes on in the right one.
Source: Marone et al. 2025 (annealed language learning: languages join late, masks shrink, rates decay at the end).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from xling.core import manifest
from xling.core.errors import UserError
from xling.objectives import OBJECTIVES
from xling.objectives.base import Objective
from xling.text import shards
from xling.training.batches import Batches
from xling.training.settings import PhaseConfig, PretrainConfig

FILE = "phases.json"
_SHORT = ("alpha", "mask_prob", "tokens_per_sample")


@dataclass(frozen=True)
class Part:
    """A phase as it is trained.

    Attributes:
        name: of the phase, empty in a run without any.
        cfg: the settings of the run with those of the phase.
        end: updates made when it ends.
        theta: base of rotary positions of its global layers, None for the model's own.
    """

    name: str
    cfg: PretrainConfig
    end: int
    theta: float | None = None


def planned(cfg: PretrainConfig, processes: int = 1) -> tuple[PretrainConfig, list[Part]]:
    """The settings of a run with its whole length and where the rate decays, and its phases; one where none is named.

    Args:
        cfg: as given.
        processes: that train together, for lengths in tokens.

    Raises:
        UserError: a phase without a length or with two, a file of languages that is not there, phases that decay and
            are followed by ones that do not, other languages in a model that tells them apart.
    """
    if not cfg.phases:
        return cfg, [Part("", cfg, cfg.train.updates)]
    batches, lengths = Batches.of(cfg.train, processes), list[int]()
    for name, phase in cfg.phases.items():
        if (phase.updates > 0) == (phase.tokens > 0):
            raise UserError(
                f"phases.{name}: updates={phase.updates}, tokens={phase.tokens}", "one of both, above 0"
            )
        lengths.append(phase.updates or batches.updates(phase.tokens, sum(lengths)))
    total = sum(lengths)
    train = replace(cfg.train, updates=total)
    decaying = [phase.part == "decay" for phase in cfg.phases.values()]
    if any(decaying):
        if cfg.train.schedule != "wsd" or decaying != sorted(decaying):
            raise UserError(
                f"phases.{list(cfg.phases)[decaying.index(True)]}.part=decay with train.schedule={cfg.train.schedule}",
                "train.schedule=wsd, and no stable phase behind a decaying one",
            )
        train = replace(
            train, decay=sum(n for n, is_last in zip(lengths, decaying, strict=True) if is_last) / total
        )
    whole = replace(cfg, train=train)
    parts = [
        Part(name, of_phase(whole, name, phase), end, phase.global_theta)
        for (name, phase), end in zip(cfg.phases.items(), accumulate(lengths), strict=True)
    ]
    _check_kept(parts)
    return whole, parts


def _check_kept(parts: list[Part]) -> None:
    """Refuse objectives that keep weights in the model where those would have to change between phases."""
    first = parts[0].cfg
    for part in parts[1:]:
        for name in part.cfg.objectives:
            if OBJECTIVES[name].modules is Objective.modules:
                continue
            if name not in first.objectives or part.cfg.langs != first.langs:
                raise UserError(
                    f"phases.{part.name} with objectives.{name}, which keeps weights of its own in the model",
                    f"objectives.{name} in the first phase, and the same languages in all",
                )


def of_phase(cfg: PretrainConfig, name: str, phase: PhaseConfig) -> PretrainConfig:
    """The settings of a run without phases that trains as ``phase`` does."""
    given = {key: str(value) for key in _SHORT if (value := getattr(phase, key)) is not None}
    chosen = phase.objectives or {key: {} for key in cfg.objectives}
    objectives = {}
    for objective, settings in chosen.items():
        known = {item.name for item in fields(OBJECTIVES[objective].config)}
        if odd := [key for key in given if key not in known and len(chosen) == 1]:
            raise UserError(
                f"phases.{name}.{odd[0]} with objectives.{objective}", ", ".join(sorted(known & {*_SHORT}))
            )
        short = {key: value for key, value in given.items() if key in known}
        objectives[objective] = {**cfg.objectives.get(objective, {}), **short, **settings}
    langs = _langs(phase.langs, name) if phase.langs else cfg.langs
    if langs != cfg.langs and (
        cfg.model.lang_embeddings or any(OBJECTIVES[key].decoder for key in objectives)
    ):
        raise UserError(
            f"phases.{name}.langs with a model that has a vector or a token for each language",
            "the same languages in every phase",
            "set langs= for all of them",
        )
    return replace(cfg, objectives=objectives, langs=langs, phases={})


def _langs(given: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A list as it is, ``all`` as nothing, the words of a file."""
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
    """Which phase a trainer is in.

    Args:
        parts: the phases in order.
        trainer: whose task is exchanged.
        build: from the settings of a phase to its task.
        folder: where what was read is kept until the end.
    """

    def __init__(self, parts: list[Part], trainer: Any, build: Any, folder: Path) -> None:
        self._parts, self._trainer, self._build = parts, trainer, build
        self._file, self._now = folder / FILE, 0

    def enter(self, update: int) -> None:
        """Go to the phase of the update after ``update``: another task over the same model."""
        ended = [part.end <= update for part in self._parts[:-1]].count(True)
        part = self._parts[ended]
        if ended != self._now:
            task = self._build(part.cfg)
            for entry in task.objectives.values():
                entry.shape = self._trainer.get_model().cfg
            self._trainer.task = self._trainer.get_criterion().task = task
            task.load_dataset("valid")
        if part.theta is not None:
            self._trainer.get_model().encoder.cfg.global_theta = part.theta
        self._now = ended

    def ends(self, update: int) -> bool:
        """Whether a phase that is not the last ends with this update."""
        return any(part.end == update for part in self._parts[:-1])

    def langs(self, first: list[str]) -> list[str]:
        """All languages of the run, where ``first`` are those of its first phase."""
        if len(self._parts) == 1:
            return first
        named = [
            lang
            for part in self._parts
            for lang in part.cfg.langs or shards.languages_in(Path(part.cfg.data))
        ]
        return sorted({*named}, key=[*first, *named].index)

    def turn(self, update: int, seen: dict[str, Any]) -> Any:
        """Keep what the present phase read, go to the next after ``update``, and return its training iterator."""
        read = self._noted() | {self._parts[self._now].name: seen}
        manifest.write_atomic(self._file, json.dumps(read))
        self.enter(update)
        return self._trainer.get_train_iterator(1, load_dataset=True)

    def read(self, seen: dict[str, Any]) -> dict[str, Any]:
        """What the whole run read, from what its last phase did: by phase, and the epochs of each language in all."""
        if len(self._parts) == 1:
            return seen
        by_phase = {part.name: self._noted().get(part.name, seen) for part in self._parts[:-1]}
        return in_all(by_phase | {self._parts[-1].name: seen})

    def _noted(self) -> dict[str, Any]:
        return dict(json.loads(self._file.read_text(encoding="utf-8"))) if self._file.is_file() else {}


def in_all(by_phase: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Tokens read and epochs made of each language, over all phases: ``tokens`` as in one phase, and ``phases``."""
    tokens: dict[str, dict[str, Any]] = {}
    for seen in by_phase.values():
        for name, one in seen["tokens"].items():
            before = tokens.get(name, {"there": one["there"], "read": 0})
            tokens[name] = {"there": max(before["there"], one["there"]), "read": before["read"] + one["read"]}
    for one in tokens.values():
        one["epochs"] = round(one["read"] / max(one["there"], 1), 4)
    return {"tokens": tokens, "phases": dict(by_phase)}
