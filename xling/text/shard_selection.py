"""The languages and pairs that a training reads from a binarised directory; without torch."""

from __future__ import annotations

from pathlib import Path

from xling.core import languages
from xling.core.errors import UserError, unknown
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.text.files import shards
from xling.text.vocab import vocab_digest


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


def switched_pairs(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the given pairs, or all pairs of the task's languages that have code-switched text.

    Raises:
        UserError: a given pair has no code-switched text, or no pair has any.
    """
    there = [pair for pair in shards.pairs_in(data) if (data / pair / f"train.{pair}.switched.idx").is_file()]
    taken = [pair for pair in pairs_of(pairs, data, langs) if pair in there or pairs]
    if missing := [pair for pair in taken or ["any pair"] if pair not in there]:
        raise UserError(
            f"no code-switched text for {missing[0]} in {data}",
            ", ".join(there) or "none",
            "give switched.SRC-TGT= to `xling binarize`",
        )
    return taken


def partners_of(pairs: str, langs: list[str], there: list[str]) -> dict[int, list[int]]:
    """Return for each language, by index, the languages that it is translated into.

    Raises:
        UserError: a language has no text or is unknown to the model, or there are fewer than two languages.
    """
    named = [split_pair(pair.strip()) for pair in pairs.split(",") if pair.strip()]
    mine = [lang for lang in langs if lang in there]
    if not named:
        named = [(a, b) for i, a in enumerate(mine) for b in mine[i + 1 :]]
    if not named:
        raise UserError(
            f"back-translation with only {', '.join(mine) or 'no language'}", "two languages with text"
        )
    partners: dict[int, list[int]] = {}
    for pair in named:
        for lang in pair:
            if lang not in mine:
                raise UserError(
                    f"pair {'-'.join(pair)}: no text in {lang}",
                    ", ".join(mine),
                    f"run xling binarize with corpora.{lang}=FILE",
                )
        for lang, other in (pair, pair[::-1]):
            if langs.index(other) not in (others := partners.setdefault(langs.index(lang), [])):
                others.append(langs.index(other))
    return partners
