"""Demands of objectives' settings on each other, the data and the model, beyond their ranges; without torch.

`xling pretrain` checks it before it imports anything heavy, and every objective when it is built. Ranges are
declared beside the settings (`xling.core.settings.ranges`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.commands.inputs import STATIC_FILE
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.data.masking import check_shares
from xling.models.files import model_folder
from xling.text import shard_selection, word_translation
from xling.text.files import shards
from xling.text.vocab import vocab_digest

MIX_SETTINGS = ("weight", "schedule")
"""Settings of an objective that belong to the mix."""
LEAST_SIMILARITY = 0.3
"""Default of ``objectives.teach.least``."""


def of_data(name: str, cfg: Any, langs: list[str]) -> None:
    """Check the settings of an objective against each other and against the data.

    Args:
        name: name of the objective.
        cfg: its settings, as `xling.objectives.base.TaskConfig`.
        langs: languages of the training.

    Raises:
        UserError: they do not fit; also for an unknown pair, and text or a model that is missing.
    """
    if hasattr(cfg, "random_token_prob"):
        check_shares(cfg.leave_unmasked_prob, cfg.random_token_prob)
    if name in _OF_DATA:
        _OF_DATA[name](cfg, Path(cfg.data), langs)
    elif hasattr(cfg, "pairs"):
        shard_selection.select_pairs(cfg.pairs, Path(cfg.data), langs)


def of_model(name: str, cfg: Any, langs: list[str], shape: Any) -> None:
    """Check the settings of an objective against the shape of the model that is trained, and of its teacher.

    Raises:
        UserError: they do not fit.
    """
    if name in _OF_MODEL:
        _OF_MODEL[name](cfg, langs, shape)


def of_mix(objectives: Mapping[str, Mapping[str, Any]], data: Path) -> None:
    """Check the settings of several objectives that are trained together.

    Raises:
        UserError: there is none, a weight or a schedule is invalid, one has languages of its own, or text of
            another vocabulary.
    """
    if not objectives:
        raise UserError("the mix holds no objective", "objectives.NAME.weight=1, for example objectives.mmlm")
    for name, settings in objectives.items():
        weight_of(name, settings.get("weight", 1))
        if settings.get("schedule"):
            schedule_of(name, settings["schedule"])
        if "langs" in settings:
            raise UserError(
                f"objectives.{name}.langs is given, and a mix has one list of languages",
                "langs= for all objectives",
                f"leave objectives.{name}.langs out",
            )
        if (own := Path(settings.get("data", data))) != data:
            model_folder.check_vocabulary(vocab_digest(data), own, data)


def schedule_of(name: str, text: str) -> tuple[list[int], list[float]]:
    """Parse a schedule ``0:1,1000:0`` into updates and factors.

    Raises:
        UserError: it cannot be parsed, or its updates do not ascend.
    """
    try:
        points = [point.split(":") for point in str(text).split(",")]
        updates, factors = [int(update) for update, _ in points], [float(factor) for _, factor in points]
    except ValueError:
        updates, factors = [], []
    if not updates or updates != sorted(set(updates)):
        raise UserError(f"objectives.{name}.schedule={text}", "UPDATE:FACTOR,..., for example 0:1,1000:0")
    return updates, factors


def weight_of(name: str, text: Any) -> float:
    """Parse the weight of an objective.

    Raises:
        UserError: it is not a number above 0.
    """
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < math.inf:
        raise UserError(f"objectives.{name}.weight={text}", "a number above 0")
    return weight


def unscheduled(name: str, settings: Mapping[str, Any]) -> None:
    """Raise UserError where an objective that is trained alone has a schedule."""
    if settings.get("schedule"):
        raise UserError(f"objectives.{name}.schedule with one objective", "a mix of several", "leave it out")


def asked_pairs(cfg: Any) -> str:
    """Return the pairs of the objective ``translation``: those given, or those of its directions.

    Raises:
        UserError: both are given and differ, or there is no text of a direction.
    """
    if not cfg.directions:
        return str(cfg.pairs)
    asked = shard_selection.pairs_of_directions(cfg.directions, shards.list_pairs(Path(cfg.data)))
    if cfg.pairs and set(cfg.pairs.split(",")) != set(asked.split(",")):
        raise UserError(
            f"pairs={cfg.pairs} with directions={cfg.directions}", f"pairs={asked}", "give one of the two"
        )
    return asked


def _btmlm(cfg: Any, data: Path, langs: Sequence[str]) -> None:
    if len(langs) < 2:
        raise UserError(
            f"objectives.btmlm with langs={','.join(langs)}",
            "two languages or more",
            "name another in langs=",
        )


def _translation(cfg: Any, data: Path, langs: list[str]) -> None:
    if cfg.back_translated:
        model_folder.check_vocabulary(vocab_digest(data), Path(cfg.back_translated), data)
        if not shards.list_pairs(Path(cfg.back_translated)):
            raise UserError(
                f"no parallel shards in back_translated={cfg.back_translated}",
                "a directory of xling binarize with pairs",
                "run xling binarize on the output of xling backtranslate",
            )
    shard_selection.select_pairs(asked_pairs(cfg), data, langs)


def _mbart(cfg: Any, data: Path, langs: list[str]) -> None:
    for name in ("mask", "delete", "rotate") if cfg.style == "fairseq" else ():
        if getattr(cfg, name):
            raise UserError(f"objectives.mbart.{name} with style=fairseq", "style=xling")


def _umt(cfg: Any, data: Path, langs: list[str]) -> None:
    partners = shard_selection.partners_of(cfg.pairs, langs, shards.list_languages(data))
    if cfg.join:
        raise UserError(
            "objectives.umt.join=true: back-translation reads single sentences",
            "join=false",
            "leave join out",
        )
    dictionaries = word_translation.read_translators(cfg.dictionaries)
    for src, others in partners.items() if cfg.word_by_word else ():
        for pair in ((langs[src], langs[other]) for other in others):
            if pair not in dictionaries:
                raise UserError(
                    f"word_by_word={cfg.word_by_word} without a dictionary {'-'.join(pair)}",
                    f"dictionaries=DIR of `xling bli`, or {'-'.join(pair)}=PATH",
                )


def _distill(cfg: Any, langs: list[str], shape: Any) -> None:
    if not cfg.teacher:
        raise UserError("no teacher to distill", "a published encoder", "objectives.distill.teacher=DIR")
    directory = Path(cfg.teacher)
    content = model_folder.read(directory, *model_folder.OURS)
    if content["format"] == model_folder.SEQ2SEQ:
        raise UserError(f"objectives.distill.teacher={directory} has a decoder", "an encoder alone")
    model_folder.check_vocabulary(vocab_digest(directory), Path(cfg.data), directory)
    teacher = model_folder.shape_of(content)
    if teacher.lang_embeddings and content["langs"] != langs:
        raise UserError(
            f"objectives.distill.teacher={directory} has language embeddings for {', '.join(content['langs'])}",
            f"the languages of this training: {', '.join(langs)}",
            f"set langs={','.join(content['langs'])}",
        )
    weights = (cfg.soft, cfg.hard, cfg.hidden, cfg.relations)
    if min(weights) < 0 or not sum(weights[:1] + weights[2:]) > 0:
        raise UserError(
            f"objectives.distill: soft={cfg.soft} hidden={cfg.hidden} relations={cfg.relations} hard={cfg.hard}",
            "weights from 0, one of the first three above it",
        )
    if teacher.max_positions < cfg.tokens_per_sample:
        raise UserError(
            f"objectives.distill.tokens_per_sample={cfg.tokens_per_sample}",
            f"at most {teacher.max_positions}, the positions of the teacher",
        )
    if not 0 <= cfg.teacher_layer <= teacher.layers:
        raise UserError(
            f"objectives.distill.teacher_layer={cfg.teacher_layer}", f"1 to {teacher.layers}, 0 for the last"
        )
    heads = cfg.relation_heads or teacher.heads
    if heads < 0 or shape.dim % heads or teacher.dim % heads:
        raise UserError(
            f"objectives.distill.relation_heads={heads}",
            f"a divisor of the widths {shape.dim} and {teacher.dim}",
        )


def _teach(cfg: Any, langs: list[str], shape: Any) -> None:
    if not cfg.teacher:
        raise UserError("no teacher to learn from", "a published encoder", "objectives.teach.teacher=DIR")
    content = model_folder.check_model(Path(cfg.teacher), *model_folder.OURS)
    if content["format"] == model_folder.SEQ2SEQ or model_folder.shape_of(content).lang_embeddings:
        raise UserError(
            f"objectives.teach.teacher={cfg.teacher} has a decoder or language embeddings",
            "an encoder without them",
        )
    pairs = shard_selection.select_pairs(cfg.pairs, Path(cfg.data), langs)
    if not any(languages.canonical(cfg.source) in split_pair(pair) for pair in pairs):
        raise UserError(
            f"objectives.teach.source={cfg.source}: no pair has it", ", ".join(pairs), "give pairs with it"
        )
    if not cfg.sentence + cfg.words > 0:
        raise UserError(
            f"objectives.teach: sentence={cfg.sentence} words={cfg.words}", "one of the two above 0"
        )
    if not cfg.links and cfg.least != LEAST_SIMILARITY:
        raise UserError(
            f"objectives.teach.least={cfg.least} without links=",
            "links=ENCODER, which links words",
            "leave it out",
        )
    if cfg.links and not (Path(cfg.links) / STATIC_FILE).is_file():
        raise UserError(f"objectives.teach.links={cfg.links}", "an output of xling pretrain static")


def _xlco(cfg: Any, langs: list[str], shape: Any) -> None:
    if not 0 <= cfg.layer <= shape.layers:
        raise UserError(f"objectives.xlco.layer={cfg.layer}", f"1 to {shape.layers}, or 0 for the paper's")


def _language_last(what: str, shape: Any) -> None:
    if shape.lang_first:
        raise UserError(f"{what} with model.lang_first=true", "model.lang_first=false")


def _as_fairseq(cfg: Any, langs: list[str], shape: Any) -> None:
    if cfg.style == "fairseq":
        _language_last("objectives.mbart.style=fairseq", shape)


_OF_DATA: dict[str, Callable[[Any, Path, list[str]], Any]] = {
    "alm": lambda cfg, data, langs: shard_selection.select_switched_pairs(cfg.pairs, data, langs),
    "btmlm": _btmlm,
    "mbart": _mbart,
    "translation": _translation,
    "umt": _umt,
}
_OF_MODEL: dict[str, Callable[[Any, list[str], Any], None]] = {
    "distill": _distill,
    "mass": lambda cfg, langs, shape: _language_last("objectives.mass", shape),
    "mbart": _as_fairseq,
    "teach": _teach,
    "xlco": _xlco,
}
