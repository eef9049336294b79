"""The languages and pairs that a training reads from a binarised directory; without torch."""

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
        recorded_digest = manifest.read(data).counts.get("vocab_digest")
        if recorded_digest not in (None, vocab_digest(data)):
            raise UserError(
                f"the shards in {data} were made with another vocabulary than its dict.txt",
                f"dict.txt with SHA-256 {str(recorded_digest)[:12]}...",
                "run `xling binarize` again",
            )
    return path


def select_langs(langs: str, data: Path, decoder: bool = False) -> list[str]:
    """Return the task's languages: the given ones, or all with monolingual shards.

    With a ``decoder`` parallel shards count too, and languages without text here may be given: a model keeps
    the languages of the checkpoint that it starts from.

    Raises:
        UserError: a given language is unknown, is given twice or has no shards; or the directory has no shards.
    """
    available = shards.list_languages(data)
    requested = [languages.canonical(lang) for lang in langs.split(",") if lang]
    if decoder:
        available = sorted(
            {*available, *(side for pair in shards.list_pairs(data) for side in split_pair(pair))}
        )
        available += [languages.get(lang).code for lang in requested if lang not in available]
    if not available:
        raise UserError(f"no shards in {data}", "LANG/train.bin and LANG/train.idx", "run `xling binarize`")
    for lang in requested:
        if lang not in available:
            raise unknown(f"language in {data}:", lang, available)
        if requested.count(lang) > 1:
            raise UserError(f"langs={langs}: {lang} is given twice", "each language once")
    return requested or available


def select_pairs(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the pairs an objective uses: the given ones, or all of the task's languages.

    Raises:
        UserError: there are no parallel shards, or a given pair is missing, exists only in the other
            direction, or has a language outside langs=.
    """
    available = shards.list_pairs(data)
    if not available:
        raise UserError(
            f"no parallel shards in {data}",
            "SRC-TGT/train.SRC-TGT.{SRC,TGT}.bin",
            "run xling binarize with pairs.SRC-TGT=SRC,TGT",
        )
    requested = [languages.canonical_pair(pair) for pair in pairs.split(",") if pair]
    for pair in requested:
        if pair not in available:
            swapped = "-".join(reversed(split_pair(pair)))
            error = unknown(f"pair in {data}:", pair, available)
            raise UserError(error.given, error.valid, f"use {swapped}") if swapped in available else error
        if not set(split_pair(pair)) <= set(langs):
            raise UserError(
                f"pairs={pair} with langs={','.join(langs)}",
                "pairs of these languages",
                f"name {' and '.join(split_pair(pair))} in langs=",
            )
    selected = [pair for pair in requested or available if set(split_pair(pair)) <= set(langs)]
    if not selected:
        raise UserError(
            f"no pair in {data} of the languages {', '.join(langs)}",
            f"pairs that it has: {', '.join(available)}",
            "name the languages of one in langs=",
        )
    return selected


def pairs_of_directions(directions: str, available: list[str]) -> str:
    """Return the pairs, in the order of the shards, of directions such as ``en-de,de-en``.

    Raises:
        UserError: the pair of a direction is missing.
    """
    pairs = []
    for direction in [languages.canonical_pair(d) for d in directions.split(",") if d]:
        pair = direction if direction in available else "-".join(reversed(split_pair(direction)))
        if pair not in available:
            raise UserError(
                f"directions={direction}: no parallel shards of this pair",
                ", ".join(available),
                f"run xling binarize with pairs.{direction}=SRC,TGT",
            )
        pairs.append(pair)
    return ",".join(dict.fromkeys(pairs))


def select_switched_pairs(pairs: str, data: Path, langs: list[str]) -> list[str]:
    """Return the given pairs, or all pairs of the task's languages that have code-switched text.

    Raises:
        UserError: a given pair has no code-switched text, or no pair has any.
    """
    available = [
        pair for pair in shards.list_pairs(data) if shards.is_there(data / pair / f"train.{pair}.switched")
    ]
    selected = [pair for pair in select_pairs(pairs, data, langs) if pair in available or pairs]
    if missing := [pair for pair in selected or ["any pair"] if pair not in available]:
        raise UserError(
            f"no code-switched text for {missing[0]} in {data}",
            ", ".join(available) or "none",
            "give switched.SRC-TGT= to `xling binarize`",
        )
    return selected


def partners_of(pairs: str, langs: list[str], available: list[str]) -> dict[int, list[int]]:
    """Return for each language, by index, the languages that it is translated into.

    Raises:
        UserError: a language has no text or is unknown to the model, or there are fewer than two languages.
    """
    requested = [
        split_pair(languages.canonical_pair(pair.strip())) for pair in pairs.split(",") if pair.strip()
    ]
    usable = [lang for lang in langs if lang in available]
    if not requested:
        requested = [(a, b) for i, a in enumerate(usable) for b in usable[i + 1 :]]
    if not requested:
        raise UserError(
            f"back-translation with only {', '.join(usable) or 'no language'}", "two languages with text"
        )
    partners: dict[int, list[int]] = {}
    for pair in requested:
        for lang in pair:
            if lang not in usable:
                raise UserError(
                    f"pair {'-'.join(pair)}: no text in {lang}",
                    ", ".join(usable),
                    f"run xling binarize with corpora.{lang}=FILE",
                )
        for lang, target in (pair, pair[::-1]):
            if langs.index(target) not in (targets := partners.setdefault(langs.index(lang), [])):
                targets.append(langs.index(target))
    return partners
