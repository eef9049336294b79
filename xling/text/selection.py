"""The languages and pairs that a training reads from a binarised directory, and the limits of how; without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xling.core import languages, manifest
from xling.core.errors import UserError, unknown
from xling.core.languages import split_pair
from xling.text import shards
from xling.text.vocab import vocab_digest

SHORTEST = 8
"""Tokens of the shortest sequence, with room for specials and a piece on either side."""


def check_ranges(name: str, settings: Any) -> None:
    """Check the numbers that every objective has.

    Args:
        name: name of the objective.
        settings: its settings, as `xling.objectives.base.TaskConfig`.

    Raises:
        UserError: ``alpha``, ``tokens_per_sample``, ``read_chunk`` or ``read_buffer`` is out of range.
    """
    if not 0 <= settings.alpha <= 1:
        raise UserError(f"objectives.{name}.alpha={settings.alpha}", "a number from 0 to 1")
    for key, least in (("tokens_per_sample", SHORTEST), ("read_chunk", 0), ("read_buffer", 1)):
        if getattr(settings, key) < least:
            raise UserError(
                f"objectives.{name}.{key}={getattr(settings, key)}", f"a whole number from {least}"
            )


def check_dictionary(data: Path) -> Path:
    """Return the dictionary of a binarised directory.

    Raises:
        UserError: the dictionary is missing, or the shards were made with another one.
    """
    path = data / "dict.txt"
    if not path.is_file():
        raise UserError(f"no dict.txt in {data}", "a directory made by `xling binarize`", "check data=")
    if (data / manifest.FILE_NAME).is_file():
        made_with = manifest.read(data).counts.get("vocab_digest")
        if made_with not in (None, vocab_digest(data)):
            raise UserError(
                f"the shards in {data} were made with another vocabulary than its dict.txt",
                f"dict.txt with SHA-256 {str(made_with)[:12]}...",
                "run `xling binarize` again",
            )
    return path


def langs_of(langs: str, data: Path, decoder: bool = False) -> list[str]:
    """Return the task's languages: the given ones, or all with monolingual shards.

    With a ``decoder`` parallel shards count too, and languages without text here may be given: a model keeps
    the languages of the checkpoint that it starts from.

    Raises:
        UserError: a given language is unknown, is given twice or has no shards; or the directory has no shards.
    """
    there = shards.languages_in(data)
    named = [lang for lang in langs.split(",") if lang]
    if decoder:
        there = sorted({*there, *(side for pair in shards.pairs_in(data) for side in split_pair(pair))})
        there += [languages.get(lang).code for lang in named if lang not in there]
    if not there:
        raise UserError(f"no shards in {data}", "LANG/train.bin and LANG/train.idx", "run `xling binarize`")
    for lang in named:
        if lang not in there:
            raise unknown(f"language in {data}:", lang, there)
        if named.count(lang) > 1:
            raise UserError(f"langs={langs}: {lang} is given twice", "each language once")
    return named or there


def pairs_of(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the pairs an objective uses: the given ones, or all of the task's languages.

    Raises:
        UserError: there are no parallel shards, or a given pair is missing, exists only in the other
            direction, or has a language outside langs=.
    """
    there = shards.pairs_in(data)
    if not there:
        raise UserError(
            f"no parallel shards in {data}",
            "SRC-TGT/train.SRC-TGT.{SRC,TGT}.bin",
            "run xling binarize with pairs.SRC-TGT=SRC,TGT",
        )
    named = [pair for pair in pairs.split(",") if pair]
    for pair in named:
        if pair not in there:
            swapped = "-".join(reversed(split_pair(pair)))
            error = unknown(f"pair in {data}:", pair, there)
            raise UserError(error.given, error.valid, f"use {swapped}") if swapped in there else error
        if not set(split_pair(pair)) <= set(langs):
            raise UserError(
                f"pairs={pair} with langs={','.join(langs)}",
                "pairs of these languages",
                f"name {' and '.join(split_pair(pair))} in langs=",
            )
    taken = [pair for pair in named or there if set(split_pair(pair)) <= set(langs)]
    if not taken:
        raise UserError(
            f"no pair in {data} of the languages {', '.join(langs)}",
            f"pairs that it has: {', '.join(there)}",
            "name the languages of one in langs=",
        )
    return taken


def pairs_of_directions(directions: str, there: list[str]) -> str:
    """Return the pairs, in the order of the shards, of directions such as ``en-de,de-en``.

    Raises:
        UserError: the pair of a direction is missing.
    """
    pairs = []
    for direction in [d for d in directions.split(",") if d]:
        pair = direction if direction in there else "-".join(reversed(split_pair(direction)))
        if pair not in there:
            raise UserError(
                f"directions={direction}: no parallel shards of this pair",
                ", ".join(there),
                f"run xling binarize with pairs.{direction}=SRC,TGT",
            )
        pairs.append(pair)
    return ",".join(dict.fromkeys(pairs))
