"""List of the suites, what each needs and which data are present: ``xling eval list``."""

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xling.core.errors import UserError
from xling.core.output.command_result import Answer
from xling.eval.rows.placeholders import count_placeholders, placeholder_text
from xling.eval.rows.suite import (
    ROWS,
    Suite,
    check_digests,
    data_folder,
    languages_at,
    scorable_splits,
    suites,
)


@dataclass(frozen=True)
class ListConfig:
    """Settings of ``xling eval list``.

    Args:
        data: folder of the suites' files; default: what XLING_DATA names. Without a folder, only suites are
            listed.
        which: ``all`` suites, or ``mine``: those that have rows in the data folder.
    """

    data: Path | None = None
    which: Literal["all", "mine"] = "all"


def run_list(cfg: ListConfig) -> Answer:
    """Return the output of ``xling eval list``.

    Raises:
        UserError: the data folder that is given does not exist, or ``mine`` is given without one.
    """
    is_given = cfg.data or os.environ.get("XLING_DATA") or cfg.which == "mine"
    data = data_folder(cfg.data) if is_given else None
    there = {name: _there(suite, data) for name, suite in sorted(suites().items())} if data else {}
    names = [name for name in sorted(suites()) if cfg.which == "all" or any(there[name].values())]
    facts = [
        {
            "suite": name,
            "kind": suite.kind,
            "metrics": list(suite.metrics),
            "licence": suite.licence,
            "languages": list(suite.languages),
            "files": list(suite.patterns),
            "official_files": [list(layout.patterns) for layout in suite.official],
            "test_sets": list(suite.test_sets),
            "at_hand": there.get(name),
            "examples": _examples(suite),
        }
        for name in names
        for suite in (suites()[name],)
    ]
    return Answer(listing(data, names), facts)


def _there(suite: Suite, data: Path) -> dict[str, list[str]]:
    """Return the languages of each split whose rows ``xling eval`` can read: not those of another file."""
    return {
        split: [lang for lang in languages_at(suite, split, data) if not _differs(suite, lang, split, data)]
        for split in suite.all_splits
    }


def _differs(suite: Suite, lang: str, split: str, data: Path) -> bool:
    """Return whether a file lies at a recorded place and is another one than the recorded one."""
    try:
        check_digests(suite, lang, split, data, suite.paths(lang, split, data))
    except UserError:
        return True
    return False


def _examples(suite: Suite) -> list[str]:
    """Return the names of files of one language, where splits or languages have other names in them."""
    lang = next(
        (lang for lang in (*suite.languages, *suite.extra) if suite.codes.get(lang, lang) != lang), ""
    )
    lang = lang or next(iter(suite.languages), "")
    if not lang or not (suite.split_codes or suite.codes):
        return []
    files = [suite._own_layout.files((lang,), split, Path())[0].as_posix() for split in suite.splits]
    return list(dict.fromkeys(files))


def listing(data: Path | None = None, names: Iterable[str] | None = None) -> str:
    """Describe suites, all by default: their languages, metric, licence, and which data are present."""
    lines = []
    for name in sorted(suites()) if names is None else names:
        suite = suites()[name]
        lines.append(f"{name}: {suite.kind}, {', '.join(suite.metrics)}, {suite.licence}")
        lines.append(f"    languages ({len(suite.languages)}): {' '.join(suite.languages) or 'any'}")
        lines.append(f"    files: {'  '.join(suite.patterns)}  or {ROWS}/{name}/{{lang}}.{{split}}.jsonl")
        if examples := _examples(suite):
            lines.append(f"    for example: {'  '.join(examples)}")
        if data is not None:
            there = _there(suite, data)
            lines.append(f"    present: {'; '.join(f'{s}: {_words(langs)}' for s, langs in there.items())}")
            other = {s: [x for x in languages_at(suite, s, data) if x not in there[s]] for s in there}
            if told := [f"{s}: {_words(langs)}" for s, langs in other.items() if langs]:
                lines.append(f"    another file than the recorded one: {'; '.join(told)}")
            if text := _placeholders(suite, data):
                lines.append(f"    {text}")
        if suite.official:
            official = dict.fromkeys(pattern for layout in suite.official for pattern in layout.patterns)
            lines.append(f"    official files: {'  '.join(official)}")
        if suite.test_sets:
            lines.append(f"    test sets: {' '.join(scorable_splits(suite))}")
        if suite.train_from:
            lines.append(f"    trains on: {suite.train_from}")
        if suite.online:
            lines.append(f"    online: datasets {suite.online.name} at {suite.online.revision}")
        lines.append(f"    {suite.protocol}")
    return "\n".join(lines) or f"no suite has rows below {data}; xling eval list says where they belong"


def _placeholders(suite: Suite, data: Path) -> str:
    """Say how many of the rows that can be scored have a placeholder in place of a text."""
    if not suite.placeholder:
        return ""
    splits = (*scorable_splits(suite), "dev")
    places = [(lang, split) for split in splits for lang in languages_at(suite, split, data)]
    counts = []
    for place in places:
        with contextlib.suppress(UserError):  # the evaluation tells what is wrong with a file
            counts.append((*place, *count_placeholders(suite, *place, data)))
    return placeholder_text(suite, counts)


def _words(langs: Iterable[str]) -> str:
    return " ".join(langs) or "none"
