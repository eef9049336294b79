"""Annotations of ELAN (.eaf): tiers of texts beside a recording, which belong to each other or to stretches of time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xling.core.errors import UserError
from xling.core.language_tags import best_tag
from xling.core.languages import Language
from xling.corpora.common.safe_xml import events
from xling.text.files.compressed import MAX_CELL_BYTES

MAX_BYTES = 1 << 28


@dataclass
class Tier:
    """One tier.

    Attributes:
        name: as it is shown in ELAN.
        lang: code or name of its language, "" where it says none.
        parent: the tier whose annotations its own refer to, "" for one along the time.
        annotations: identifier -> what it stands on (the identifier of another, or its stretch of time), its text.
    """

    name: str
    lang: str = ""
    parent: str = ""
    annotations: dict[str, tuple[str, str]] = field(default_factory=dict)


def read_tiers(path: Path) -> list[Tier]:
    """Return the tiers of a file, in its order, and their annotations by their times, where all have one.

    Annotations without an end, or too long, have an empty text.

    Raises:
        UserError: the file is damaged, too large, or no file of ELAN.
    """
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path} has over {MAX_BYTES:,} bytes", fix="cut the file in two")
    tiers: list[Tier] = []
    labels: dict[str, str] = {}
    times: dict[str, str] = {}
    identifier, base, parts, is_elan = "", "", list[str](), False
    with path.open("rb") as handle:
        for kind, name, attributes in events(handle, str(path)):
            if kind == "text":
                parts.append(name)
            elif kind == "start":
                parts = []
                if name == "ANNOTATION_DOCUMENT":
                    is_elan = True
                elif name == "TIME_SLOT":
                    times[attributes.get("TIME_SLOT_ID", "")] = attributes.get("TIME_VALUE", "")
                elif name == "LANGUAGE":
                    labels[attributes.get("LANG_ID", "")] = attributes.get("LANG_LABEL", "")
                elif name == "TIER":
                    name_of_tier, lang, parent = (
                        attributes.get(each, "") for each in ("TIER_ID", "LANG_REF", "PARENT_REF")
                    )
                    tiers.append(Tier(name_of_tier, lang, parent))
                elif name in ("ALIGNABLE_ANNOTATION", "REF_ANNOTATION"):
                    slots = [attributes.get(f"TIME_SLOT_REF{end}", "") for end in (1, 2)]
                    stretch = "/".join(times.get(slot) or slot for slot in slots)
                    identifier = attributes.get("ANNOTATION_ID", "")
                    base = attributes.get("ANNOTATION_REF", stretch)
            elif name == "ANNOTATION_VALUE" and tiers:
                text = " ".join("".join(parts).split())
                tiers[-1].annotations[identifier] = (base, text if len(text) <= MAX_CELL_BYTES else "")
    if not is_elan:
        raise UserError(
            f"{path} is not a file of ELAN", "XML with ANNOTATION_DOCUMENT", "save it again in ELAN"
        )
    bases = {each: base for tier in tiers for each, (base, _) in tier.annotations.items()}
    for tier in tiers:
        begins = {each: _begin_of(each, bases, len(tiers)) for each in tier.annotations}
        if all(map(str.isdecimal, begins.values())):
            by_time = sorted((int(begins[each]), number, each) for number, each in enumerate(begins))
            tier.annotations = {each: tier.annotations[each] for _, _, each in by_time}
        tier.lang = tier.lang if not labels.get(tier.lang) or len(tier.lang) <= 3 else labels[tier.lang]
    return tiers


def _begin_of(annotation: str, bases: Mapping[str, str], num_tiers: int) -> str:
    """Return where an annotation begins, by the one of another tier that it belongs to; "" in a circle."""
    for _ in range(num_tiers + 1):
        if annotation not in bases:
            return annotation.partition("/")[0]
        annotation = bases[annotation]
    return ""


def tiers_in(path: Path, tiers: list[Tier], lang: Language) -> list[Tier]:
    """Return the tiers in a language: by the language that they state, else by a code or name in theirs.

    Raises:
        UserError: no tier is.
    """
    for names in ([tier.lang for tier in tiers], [tier.name for tier in tiers]):
        best = best_tag([name for name in names if name], lang)
        if best is not None:
            return [tier for tier, name in zip(tiers, names, strict=True) if name == best]
    raise UserError(
        f"{path}: no tier says that it is in {lang.name}",
        ", ".join(tier.name for tier in tiers)[:300],
        "name it after #, or give the tier its language in ELAN",
    )


def tier_called(path: Path, tiers: list[Tier], name: str) -> Tier:
    """Return the tier with a name.

    Raises:
        UserError: there is none.
    """
    for tier in tiers:
        if tier.name == name:
            return tier
    raise UserError(
        f"{path} has no tier {name!r}", ", ".join(t.name for t in tiers)[:300], "correct the name after #"
    )
