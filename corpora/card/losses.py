"""Warnings about the losses of a build: a line where less than half is kept, with the main reason and its setting."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from xling.corpora.stages.filters import RULES, Filters
from xling.text.tokenised import KINDS, TOKENISED

_SEPARATOR = "\t"
_MIN_TOKENISED_SHARE = 0.01
_NO_DOCUMENTS = ("read\tredirect", "read\tnot an article", "read\tnot HTML")
_SETTINGS = {
    ("langid", "other_language"): "check lang= and the source, or leave langid out of after_dedup=",
    ("paragraph_dedup", ""): "dedup=false",
    ("near_dedup", ""): "near_dedup=false",
    ("near_dedup", "in_earlier_corpus"): "against=",
    ("perplexity", ""): "lm.keep= or lm.max_perplexity=",
    ("read", "longer than max_chars"): "max_chars=",
    (
        "read",
        "not a JSON object",
    ): "give one JSON object a line (jq -c '.[]' makes lines of an array, jq -c . of other JSON)",
    (
        "read",
        "not text",
    ): "give a text in each row; pandas writes rows with to_json(orient='records', lines=True)",
    ("read", "malformed"): "none, repair these rows in the source",
    ("switch", "no_links"): "source=, an alignment with links for these pairs",
    ("read", "no text field"): "name the field text, or say behind the source which one it is: FILE#FIELD",
    ("read", "wrong charset"): "convert the source to UTF-8",
}


def loss_note(stats: Mapping[str, Any], read: int, kept: int, unit: str, classes: Mapping[str, Any]) -> str:
    """Return a line on a build that kept less than half, or "".

    Args:
        stats: of the build, as they are published: ``ledger`` and ``reasons``.
        read: characters, documents or pairs that were read.
        classes: stage name -> its class.
    """
    lost: dict[str, int] = stats["ledger"]["dropped_chars" if unit == "characters" else "dropped"]
    if unit != "characters":  # pieces of documents do not count
        partial = {_SEPARATOR.join(key) for key in stats.get("partial", ())}
        lost = {key: num for key, num in lost.items() if key not in partial}
        read -= sum(lost.pop(key, 0) for key in _NO_DOCUMENTS)
    if not lost or kept * 2 >= read:
        return ""
    key = max(lost, key=lambda key: (lost[key], key))
    stage, _, reason = key.partition(_SEPARATOR)
    meaning = stats["reasons"].get(key, "")
    return (
        f"  less than half was kept; most was dropped by {stage}/{reason}: {lost[key]:,} {unit}"
        f"{f' ({meaning})' if meaning else ''}; setting: {setting_of(stage, reason, meaning, classes)}"
    )


def half_note(read: int, kept: int, unit: str, reason: str, setting: str) -> str:
    """Return a line on a result that keeps less than half of its input, for commands without a ledger, or ""."""
    if kept * 2 >= read:
        return ""
    return f"\n  less than half was kept: {kept:,} of {read:,} {unit}; {reason}; setting: {setting}"


def tokenised_note(notes: Mapping[str, int], read: int, remedy: str) -> str:
    """Return a line on text that another program has tokenised, or "" where hardly any is.

    Args:
        notes: of the ledger.
        read: texts that were read.
        remedy: the setting that undoes it.
    """
    counts = {kind: notes.get(f"{TOKENISED}{kind}", 0) for kind in KINDS}
    total = sum(counts.values())
    if total < max(1, _MIN_TOKENISED_SHARE * read):
        return ""
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in counts.items() if count)
    is_undone = any(notes.get(name) for name in ("detokenised", "repaired_tokenised"))
    said = "which was undone" if is_undone else f"{remedy} undoes it"
    return f"  {100 * total / max(1, read):.1f} % was tokenised before ({kinds}); {said}"


def setting_of(stage: str, reason: str, meaning: str, classes: Mapping[str, Any]) -> str:
    """Return the setting that decides about a reason of dropping; ``classes`` maps a stage's name to its class."""
    if said := _SETTINGS.get((stage, reason)) or _SETTINGS.get((stage, "")):
        return said
    if stage == Filters.name:
        names = [name for rule, _, name, _ in RULES if rule == reason]
        return ", ".join(f"settings.filters.limits.{name}=" for name in names)
    cls = classes[stage] if stage in classes else None  # noqa: SIM401 - a registry raises
    if is_dataclass(cls):
        words = set(re.findall(r"\w+", meaning)) | {reason, f"min_{reason}", f"max_{reason}"}
        if names := [each.name for each in fields(cls) if each.name in words]:
            return ", ".join(f"settings.{stage}.{name}=" for name in names)
        return f"leave {stage} out of the stages, or see settings.{stage}"
    return "none, look at the source"
