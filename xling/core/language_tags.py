"""Tags by which files name languages: ``IW-IL``, ``zh-Hant-TW``, ``sr@latin``, ``ger``, ``en_US.UTF-8``, ``English``.

Source: RFC 5646 (BCP 47): language, then script, then region, then variants; POSIX locales for ``@latin``.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import Language

# Codes of programs that the table of languages lacks.
_MORE_CODES = {
    "zhs": "zh",
    "zht": "zh_Hant",
    "chs": "zh",
    "cht": "zh_Hant",
}
_SCRIPT_OF_REGION = {
    ("zh", "tw"): "Hant", ("zh", "hk"): "Hant", ("zh", "mo"): "Hant", ("zh", "cht"): "Hant", ("zh", "cn"): "Hans",
    ("zh", "sg"): "Hans", ("zh", "my"): "Hans", ("zh", "chs"): "Hans", ("pa", "pk"): "Arab", ("uz", "af"): "Arab",
    ("az", "ir"): "Arab", ("kk", "cn"): "Arab", ("sr", "latin"): "Latn", ("sr", "cyrillic"): "Cyrl",
    ("uz", "cyrillic"): "Cyrl", ("uz", "latin"): "Latn", ("ks", "devanagari"): "Deva", ("sd", "devanagari"): "Deva",
    ("tt", "iqtelif"): "Latn", ("be", "latin"): "Latn",
}  # fmt: skip
_PARTS = {"Kore": ("Hang", "Hani"), "Jpan": ("Hani", "Hira", "Kana", "Hrkt")}
SURE, LIKELY, POSSIBLE = 3, 2, 1
"""How well a tag fits: it names the script; the script is the usual one; only the text can tell the script."""


def fit(tag: str, lang: Language) -> int:
    """Return whether a tag may name a language in its script: `SURE`, `LIKELY`, `POSSIBLE` or 0 for no.

    Args:
        tag: in any case, with hyphens or underscores.
        lang: the language that is looked for.
    """
    language, script = _read(tag.lower())
    if language is None or language.base != lang.base:
        return 0
    if script and script != lang.script:
        is_part = script in _PARTS.get(lang.script, ())
        # No other language of the table is asked for by this script.
        is_alone = not any(
            (other.base, other.script) == (lang.base, script) for other in languages.LANGUAGES.values()
        )
        return LIKELY if is_part else POSSIBLE if is_alone and lang.code == lang.base else 0
    if script:
        return SURE
    if language == lang:
        num_scripts = sum(each.base == lang.base for each in languages.LANGUAGES.values())
        return SURE if num_scripts == 1 else LIKELY
    return POSSIBLE


def best_tag(tags: Collection[str], lang: Language) -> str | None:
    """Return the tag of a file that fits a language best, the first of equals; None where none does."""
    fits = {tag: fit(tag, lang) for tag in tags}
    best = max(fits, key=lambda tag: fits[tag], default=None)
    return best if best is not None and fits[best] else None


def language_of(tag: str) -> Language | None:
    """Return the language that a tag names, in the script that it says; None for an unknown one."""
    language, script = _read(tag.lower())
    if language is None or script in ("", language.script):
        return language
    return next(
        (
            lang
            for lang in languages.LANGUAGES.values()
            if (lang.base, lang.script) == (language.base, script)
        ),
        None,
    )


def named(tags: Collection[str]) -> str:
    """Return tags with the languages that they name, as text for a message: ``IW-IL (Hebrew), xx``."""
    texts = []
    for tag in sorted(tags):
        lang = language_of(tag)
        texts.append(f"{tag or 'without a code'} ({lang.name})" if lang else tag or "without a code")
    return ", ".join(texts)


@cache
def _by_name() -> Mapping[str, Language]:
    return {lang.name.lower(): lang for lang in languages.LANGUAGES.values()}


@cache
def _read(tag: str) -> tuple[Language | None, str]:
    """Return the language of a tag in lower case, None for an unknown one, and its script, "" where it says none."""
    tag = tag.strip().partition(".")[0]
    parts = [part for part in re.split(r"[-_@]", tag) if part]
    if tag in _by_name():
        return _by_name()[tag], ""
    for size in range(len(parts), 0, -1):
        try:
            language = languages.get(_MORE_CODES.get("_".join(parts[:size]), "_".join(parts[:size])))
        except UserError:
            continue
        scripts = [part.title() for part in parts[1:] if len(part) == 4 and part.isalpha()]
        regions = [
            _SCRIPT_OF_REGION[language.base, part]
            for part in parts[1:]
            if (language.base, part) in _SCRIPT_OF_REGION
        ]
        own = language.script if language.code != language.base or size > 1 or tag in ("zhs", "chs") else ""
        if scripts and scripts[0] == "Hani":
            scripts = []
        return language, (scripts or regions or [own])[0]
    return None, ""
