"""Languages by what the columns of a table are called: a code, a code with a region, an English or a native name.

``autonyms.tsv`` beside this module has the native names, from the Unicode CLDR, and further English ones.
"""

import csv
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import Language

_REGION = re.compile(r"[a-z]{2}|[0-9]{3}")
_NO_REGIONS = frozenset(
    re.findall(
        r"\w+",
        "aa ab ak av ay ce da dv el en eo fa ff fy gv ha he hi ho hy hz ia ig ii ik iu iw ja ji jv jw ka kj kk kl ko "
        "ks ku kv lg ln lo mi nb nd nn nv ny oc oj or os pi qu rm rn sq su sw ta te ti ts ty ur vo wa wo xh yi yo "
        "zh zu",
    )
)
"""Codes of languages that no country has: ``en_sw`` is a pair, and ``de_at`` the German of Austria."""
_BRACKETS = re.compile(r"\s*[(\[].*[)\]]\s*$")
_IN_BRACKETS = re.compile(r"\w[^()\[\]]{0,30}[(\[]([^()\[\]]+)[)\]]")
_PART = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_PLAIN_WORDS = frozenset(
    re.findall(
        r"\w+",
        "abstract answer article body caption category class column comment comments content context corpus data "
        "date description doc document domain file fuzzy gold heading headline human id identifier index input key "
        "label labels lang language line link location message mt name no notes num number origin original output page "
        "paragraph phrase post query question reference response review row score segment sent sentence side source "
        "split src status string strings summary tag tags target text tgt title topic "
        "transcript translated translation tweet unit url utterance version word",
    )
)
"""What columns are called beside languages. No first row of text consists of these words alone."""


def named(text: str) -> Language | None:
    """Return the language that the whole of ``text`` names: ``sw``, ``sw-KE``, ``Swahili`` or ``Kiswahili``."""
    key = " ".join(text.lower().split())
    for spelling in (key, _BRACKETS.sub("", key)):
        if name := _names().get(spelling) or _names().get(_without_marks(spelling)):
            return name
    parts = key.replace("_", "-").split("-")
    tries = [key]
    if len(parts) > 1 and _REGION.fullmatch(parts[-1]) and parts[-1] not in _NO_REGIONS:
        tries.append("-".join(parts[:-1]))
    for code in tries:
        try:
            return languages.get(code)
        except UserError:
            continue
    return None


def in_column_name(text: str) -> Language | None:
    """Return the one language in the name of a column: also ``text_en``, ``Sentence (English)`` and ``src.sw-KE``."""
    if is_plain(text):
        return None
    if language := named(text):
        return language
    parts = _PART.findall(text.lower())
    others = [part for part in parts if part not in _PLAIN_WORDS]
    language = named("-".join(others)) if others and len(others) < len(parts) else None
    if language is None and (inside := _IN_BRACKETS.fullmatch(text.strip())):  # ``Jibu (Kiswahili)``
        language = named(inside[1])
    return language


def is_plain(text: str) -> bool:
    """Return whether a column is called by common words such as ``id`` or ``source text`` alone."""
    parts = _PART.findall(text.lower())
    return (
        bool(parts)
        and all(part in _PLAIN_WORDS or part.isdecimal() for part in parts)
        and not text.isdecimal()
    )


@cache
def _names() -> Mapping[str, Language]:
    """Return lower-cased name -> language, also without accents; an English name goes before a native one."""
    lines = (files("xling.core") / "autonyms.tsv").read_text(encoding="utf-8").splitlines()
    names = {row["name"].lower(): languages.get(row["code"]) for row in csv.DictReader(lines, delimiter="\t")}
    for lang in languages.LANGUAGES.values():
        for name in (lang.name.lower(), _BRACKETS.sub("", lang.name.lower())):
            if name not in names or lang.code == lang.base:
                names[name] = lang
    plain: dict[str, set[Language]] = {}
    for name, lang in names.items():
        plain.setdefault(_without_marks(name), set()).add(lang)
    return {name: next(iter(langs)) for name, langs in plain.items() if len(langs) == 1} | names


def _without_marks(name: str) -> str:
    """Return a name without accents and with a plain apostrophe: ``Yorùbá`` as ``Yoruba``, however it is composed."""
    letters = (c for c in unicodedata.normalize("NFD", name) if not "\u0300" <= c <= "\u036f")
    return unicodedata.normalize("NFC", re.sub("[’ʻʼ‘`]", "'", "".join(letters)))
