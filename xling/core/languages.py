"""The table of languages: names, scripts, families and the codes that each data set uses for them.

The table is ``languages.tsv`` beside this module. A language has one code here, BCP-47 style: ISO 639-1 if it
has one (``sw``), else ISO 639-3 (``ceb``), with a script only where it matters (``sr_Latn``). If a
macrolanguage has a two-letter code, its usual written standard shares that code (``swh``, ``swa`` -> ``sw``).

`get` reads the codes of every scheme in `SCHEMES`. A code that two schemes use for different languages is
rejected unless the scheme is given: ``als`` is Swiss German in fastText and Wikipedia, Albanian in ISO 639-3.

Sources: ISO 639-3 and 15924; the FLORES-200, NTREX-128, LASER Tatoeba v1, lid.176, CC-100 and mBART-50 lists.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from xling.core.errors import UserError, nearest, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMES = ("flores", "ntrex", "tatoeba", "fasttext", "wiki", "cc100", "mbart")
NO_SCRIPT = "Zyyy"
OWN_CODE = "qaa"
"""The code for a language that the table lacks."""
_PATH_SIGNS = {".", "/"}
_TAG = re.compile(r"([a-z]{2,3}(?:[-_][A-Z][a-z]{3})?)[-_](?:[A-Z]{2}|\d{3})")
"""A language, perhaps with a script, and a region: ``sw-TZ``, ``zh-Hant-HK``, ``es_419``."""
_OTHER_SCRIPT = {"zh-MO": "zh_hant", "pa-PK": "", "uz-AF": "", "az-IR": "", "kk-CN": ""}
"""Regions that write a language in a script of their own -> the key of the table that means it, "" for none."""


@dataclass(frozen=True, slots=True)
class Language:
    """One language in one script.

    Attributes:
        code: the code used everywhere in this project.
        name: English name.
        iso639_3: ISO 639-3 code, or ISO 639-5 for a language group if the data sets do not name the member.
        script: ISO 15924 code of the script; ``Jpan``, ``Kore``, ``Hans`` and ``Hant`` name mixtures.
        family: branch of the language family, for example ``Germanic`` or ``Bantu``.
        spaces: whether words are written with spaces between them.
        direction: ``ltr`` or ``rtl``.
        flores: FLORES-200 code; empty if the scheme lacks the language, as are the next six.
        ntrex: NTREX-128 code.
        tatoeba: code in LASER's Tatoeba set.
        fasttext: label of fastText's lid.176.
        wiki: prefix of the Wikipedia dump.
        cc100: CC-100 code.
        mbart: mBART-50 code.
        also: other accepted codes, for example ISO 639-2/B and withdrawn ones.
    """

    code: str
    name: str
    iso639_3: str
    script: str
    family: str
    spaces: bool
    direction: str
    flores: str
    ntrex: str
    tatoeba: str
    fasttext: str
    wiki: str
    cc100: str
    mbart: str
    also: tuple[str, ...]

    @property
    def base(self) -> str:
        """Return the code without its script or variety: ``sr`` for ``sr_Latn``."""
        return self.code.partition("_")[0]


def _read_table() -> Iterator[Language]:
    lines = (files("xling.core") / "languages.tsv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        spaces, also = row.pop("spaces"), row.pop("also")
        assert spaces in ("yes", "no"), f"languages.tsv: spaces is {spaces!r} for {row['code']}"
        yield Language(spaces=spaces == "yes", also=tuple(also.split()), **row)


LANGUAGES: Mapping[str, Language] = MappingProxyType({lang.code: lang for lang in _read_table()})


def get(code: str, scheme: str = "") -> Language:
    """Return the language of a code in upper or lower case, with ``-`` or ``_``.

    Args:
        code: a code of any scheme, for example ``sw``, ``swh``, ``swh_Latn``, ``sw-TZ`` or ``zh-CN``.
        scheme: one of `SCHEMES` to read the code in that scheme only; empty reads all of them.

    Raises:
        UserError: no scheme has that code, or two schemes use it for different languages.
    """
    by_code = _languages_by_code(_check_scheme(scheme) if scheme else "")
    matches = by_code.get(_lookup_key(code) if scheme else _known_key(code), ())
    if len(matches) == 1:
        return matches[0]
    if not matches:
        error = unknown("language", code, LANGUAGES, _suggest_codes(code))
        raise UserError(error.given, error.valid, f"{error.fix}; for a language that no list has, {OWN_CODE}")
    meanings = " or ".join(f"{lang.code} ({lang.name})" for lang in matches)
    raise UserError(f"language code {code!r} is ambiguous", meanings, "write the code that you mean")


def get_variant(code: str) -> tuple[Language, str]:
    """Split a code into its language and its treebank or variant: ``en_ewt`` is English and ``ewt``.

    Raises:
        UserError: neither the code nor the text before its first ``_`` or ``-`` is a code of any scheme.
    """
    base, _, variant = code.replace("-", "_").partition("_")
    return _known_variant(code) or (get(base if variant else code), variant)


def _known_variant(code: str) -> tuple[Language, str] | None:
    """Return what `get_variant` does, None in place of its error, whose suggestions take long to find."""
    base, _, variant = code.replace("-", "_").partition("_")
    by_code = _languages_by_code("")
    for text, rest in ((code, ""), (base if variant else code, variant)):
        if len(matches := by_code.get(_known_key(text), ())) == 1:
            return matches[0], rest
    return None


def canonical(code: str) -> str:
    """Convert a code of any scheme to ours, keeping a variant: ``ewe`` to ``ee``, ``eng_ewt`` to ``en_ewt``.

    Unknown codes, paths, and codes that two schemes use for different languages, are returned unchanged.
    """
    known = None if _PATH_SIGNS & {*code} else _known_variant(code)
    if known is None:
        return code
    language, variant = known
    return f"{language.code}_{variant}" if variant else language.code


def canonical_pair(pair: str) -> str:
    """Convert both sides of ``eng_Latn-swh`` to our codes, ``en-sw``; other texts are returned unchanged."""
    try:
        return "-".join(side.code for side in get_pair(pair))
    except UserError:
        src, sign, tgt = pair.partition("-")
        return f"{canonical(src)}{sign}{canonical(tgt)}" if sign and "-" not in tgt else pair


def canonical_side(code: str) -> str:
    """Convert a language as `canonical`, or a pair as `canonical_pair`; ``zh-CN`` is one language."""
    if "-" not in code or _known_key(code) in _languages_by_code(""):
        return canonical(code)
    return canonical_pair(code)


def canonical_list(codes: Sequence[str]) -> list[str]:
    """Convert the languages of a model; where two of them would get one code, the later keeps its own."""
    ours: list[str] = []
    for code in codes:
        ours.append(code if (name := canonical(code)) in ours else name)
    return ours


def find(code: str, codes: Iterable[str]) -> str | None:
    """Return that of ``codes`` which means the same language as ``code``: itself if it is among them."""
    codes = [*codes]
    if code in codes:
        return code
    return next((each for each in codes if canonical(each) == canonical(code)), None)


def spellings(code: str) -> tuple[str, ...]:
    """Return a code and its language's codes in other schemes, keeping a variant; an unknown code alone."""
    known = _known_variant(code)
    if known is None:
        return (code,)
    language, variant = known
    suffix = f"_{variant}" if variant else ""
    return tuple(dict.fromkeys((code, *(f"{name}{suffix}" for name in _aliases(language)))))


@lru_cache(maxsize=1 << 14)
def is_same(code: str, other_code: str) -> bool:
    """Return whether two codes mean the same language in the same script, ignoring the treebank."""
    if code == other_code:
        return True
    known, other = _known_variant(code), _known_variant(other_code)
    return known is not None and other is not None and known[0] == other[0]


def get_pair(pair: str) -> tuple[Language, Language]:
    """Return the two languages of ``en-sw``; either side may be a code of any scheme (``en-zh-CN``).

    Raises:
        UserError: a side is unknown, both sides are the same, or the dash can be read in two ways.
    """
    parts = pair.replace("_", "-").split("-")
    splits = [("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts))]
    readings = [
        (get(a), get(b))
        for a, b in splits
        if _known_key(a) in _languages_by_code("") and _known_key(b) in _languages_by_code("")
    ]
    if len(readings) == 1 and readings[0][0] != readings[0][1]:
        return readings[0]
    if not readings and len(splits) == 1:
        for side in splits[0]:
            get(side)
    raise UserError(
        f"{pair!r} is not a language pair",
        "two different languages with a dash, for example en-sw",
    )


def code_for(lang: Language | str, scheme: str) -> str:
    """Return the code of ``lang`` in ``scheme``.

    Raises:
        UserError: unknown language or scheme, or the scheme lacks the language.
    """
    language = get(lang) if isinstance(lang, str) else lang
    code: str = getattr(language, _check_scheme(scheme))
    if not code:
        schemes = [s for s in SCHEMES if getattr(language, s)]
        raise UserError(
            f"{scheme} has no code for {language.code} ({language.name})",
            f"schemes that have it: {', '.join(schemes) or 'none'}",
            "choose another language or another data set",
        )
    return code


def script_shares(text: str) -> dict[str, float]:
    """Return the share of the letters of ``text`` in each ISO 15924 script; empty without letters.

    Mixtures are counted by script: Japanese text has shares of ``Hani``, ``Hira`` and ``Kana``.
    """
    if text.isascii():
        return {"Latn": 1.0} if any(map(str.isalpha, text)) else {}
    import numpy as np

    script_names, script_ids = _script_id_table()
    code_points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    counts = np.bincount(script_ids.take(code_points), minlength=1).tolist()
    total = sum(counts[1:])
    return {name: count / total for name, count in zip(script_names, counts, strict=False) if name and count}


def script_of(text: str) -> str:
    """Return the ISO 15924 script of most letters of ``text``; ``Zyyy`` without letters.

    East Asian text is ``Jpan`` from a tenth of kana, ``Kore`` from a tenth of Hangul, else ``Hani``.
    Simplified and traditional characters share their code points and cannot be distinguished here.
    """
    shares = script_shares(text)
    han, bopomofo, hiragana, katakana, hangul = (shares.pop(script, 0.0) for script in _EAST_ASIAN)
    if east_asian := han + bopomofo + hiragana + katakana + hangul:
        kana = hiragana + katakana
        name = (
            "Jpan"
            if kana >= max(east_asian / 10, hangul)
            else "Kore"
            if hangul >= east_asian / 10
            else "Hani"
        )
        shares[name] = east_asian
    return max(shares, key=lambda script: (shares[script], script), default=NO_SCRIPT)


def matches_script(text: str, lang: Language | str, min_share: float = 0.5) -> bool:
    """Return whether at least ``min_share`` of the letters of ``text`` are in the script of ``lang``.

    Text without letters matches no script.
    """
    language = get(lang) if isinstance(lang, str) else lang
    shares = script_shares(text)
    scripts = _SCRIPTS_OF_MIXTURE.get(language.script, (language.script,))
    return bool(shares) and sum(shares.get(script, 0.0) for script in scripts) >= min_share


_EAST_ASIAN = ("Hani", "Bopo", "Hira", "Kana", "Hang")
_SCRIPTS_OF_MIXTURE = {
    "Jpan": ("Hani", "Hira", "Kana"),
    "Kore": ("Hang", "Hani"),
    "Hans": ("Hani", "Bopo"),
    "Hant": ("Hani", "Bopo"),
}

# First and last code point of each run of letters, in order. Latin covers ASCII, so letters that belong to no
# single script (the feminine ordinal, the micro sign) count as Latin.
_SCRIPT_RANGES = (
    (0x0041, 0x02B8, "Latn"), (0x02EA, 0x02EB, "Bopo"), (0x0370, 0x03E1, "Grek"), (0x03E2, 0x03EF, "Copt"),
    (0x03F0, 0x03FF, "Grek"), (0x0400, 0x052F, "Cyrl"),
    (0x0531, 0x0588, "Armn"), (0x05D0, 0x05F2, "Hebr"), (0x0620, 0x06FF, "Arab"), (0x0710, 0x074F, "Syrc"),
    (0x0750, 0x077F, "Arab"), (0x0780, 0x07BF, "Thaa"), (0x07C0, 0x07FF, "Nkoo"), (0x0870, 0x08FF, "Arab"),
    (0x0900, 0x097F, "Deva"), (0x0980, 0x09FF, "Beng"), (0x0A00, 0x0A7F, "Guru"), (0x0A80, 0x0AFF, "Gujr"),
    (0x0B00, 0x0B7F, "Orya"), (0x0B80, 0x0BFF, "Taml"), (0x0C00, 0x0C7F, "Telu"), (0x0C80, 0x0CFF, "Knda"),
    (0x0D00, 0x0D7F, "Mlym"), (0x0D80, 0x0DFF, "Sinh"), (0x0E00, 0x0E7F, "Thai"), (0x0E80, 0x0EFF, "Laoo"),
    (0x0F00, 0x0FFF, "Tibt"), (0x1000, 0x109F, "Mymr"), (0x10A0, 0x10FF, "Geor"), (0x1100, 0x11FF, "Hang"),
    (0x1200, 0x139F, "Ethi"), (0x13A0, 0x13FF, "Cher"), (0x1400, 0x167F, "Cans"), (0x1780, 0x17FF, "Khmr"),
    (0x1800, 0x18AF, "Mong"), (0x18B0, 0x18FF, "Cans"), (0x1950, 0x197F, "Tale"), (0x1C50, 0x1C7F, "Olck"),
    (0x1C80, 0x1C8F, "Cyrl"), (0x1C90, 0x1CBF, "Geor"), (0x1E00, 0x1EFF, "Latn"), (0x1F00, 0x1FFF, "Grek"),
    (0x2C60, 0x2C7F, "Latn"), (0x2C80, 0x2CF3, "Copt"),
    (0x2D00, 0x2D2F, "Geor"), (0x2D30, 0x2D7F, "Tfng"), (0x2D80, 0x2DDF, "Ethi"),
    (0x3005, 0x3007, "Hani"), (0x3041, 0x309F, "Hira"), (0x30A1, 0x30FF, "Kana"), (0x3105, 0x312F, "Bopo"),
    (0x3131, 0x318E, "Hang"), (0x31A0, 0x31BF, "Bopo"), (0x31F0, 0x31FF, "Kana"), (0x3400, 0x4DBF, "Hani"),
    (0x4E00, 0x9FFF, "Hani"), (0xA000, 0xA48C, "Yiii"), (0xA640, 0xA69F, "Cyrl"), (0xA722, 0xA7FF, "Latn"),
    (0xA8E0, 0xA8FF, "Deva"), (0xA960, 0xA97F, "Hang"), (0xA9E0, 0xA9FF, "Mymr"), (0xAA60, 0xAA7F, "Mymr"),
    (0xAB01, 0xAB2F, "Ethi"), (0xAB30, 0xAB64, "Latn"), (0xABC0, 0xABFF, "Mtei"), (0xAC00, 0xD7FF, "Hang"),
    (0xF900, 0xFAFF, "Hani"), (0xFB00, 0xFB06, "Latn"), (0xFB13, 0xFB17, "Armn"), (0xFB1D, 0xFB4F, "Hebr"),
    (0xFB50, 0xFDFF, "Arab"), (0xFE70, 0xFEFC, "Arab"), (0xFF21, 0xFF5A, "Latn"), (0xFF66, 0xFF9F, "Kana"),
    (0xFFA0, 0xFFDC, "Hang"), (0x10330, 0x1034A, "Goth"), (0x1E000, 0x1E02F, "Glag"), (0x20000, 0x3FFFF, "Hani"),
)  # fmt: skip


@cache
def _script_id_table() -> tuple[list[str], NDArray[np.uint8]]:
    """Return the names of scripts, "" first, and the position of each code point's in them: 0 for all but letters."""
    import numpy as np

    script_names = ["", "Zzzz", *sorted({name for _, _, name in _SCRIPT_RANGES})]
    script_ids = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    script_ids[:_END_OF_LETTERS] = script_names.index("Zzzz")
    for start, end, name in _SCRIPT_RANGES:
        script_ids[start : end + 1] = script_names.index(name)
    script_ids[[point for point in range(_END_OF_LETTERS) if not chr(point).isalpha()]] = 0
    return script_names, script_ids


_END_OF_LETTERS = 0x40000  # code points from here on are private, marks, or not assigned


def _lookup_key(code: str) -> str:
    return code.replace("-", "_").lower()


def _known_key(code: str) -> str:
    """Return the key of a code; without its region where only the rest is in the table."""
    tag = None if _lookup_key(code) in _languages_by_code("") else _TAG.fullmatch(code)
    plain = _OTHER_SCRIPT.get(code.replace("_", "-"), tag[1]) if tag else code
    return _lookup_key(plain)


def _check_scheme(scheme: str) -> str:
    if scheme not in SCHEMES:
        raise unknown("code scheme", scheme, SCHEMES)
    return scheme


def _aliases(lang: Language) -> Iterator[str]:
    """Yield every code of ``lang``, and its short codes again with the script (``swa_Latn``)."""
    short_codes = (
        [lang.code, *lang.also] if lang.code != lang.base else [lang.code, lang.iso639_3, *lang.also]
    )
    yield from short_codes
    yield from (f"{code}_{lang.script}" for code in short_codes if "_" not in code)
    yield from (code for scheme in SCHEMES if (code := getattr(lang, scheme)))


@cache
def _languages_by_code(scheme: str) -> Mapping[str, tuple[Language, ...]]:
    """Map the key of a code to the languages it may mean; several if schemes contradict each other."""
    by_key: dict[str, dict[str, Language]] = {}
    for lang in LANGUAGES.values():
        for alias in (getattr(lang, scheme),) if scheme else _aliases(lang):
            if alias:
                by_key.setdefault(_lookup_key(alias), {})[lang.code] = lang
    # A code that a variety shares with its base language (zh for both scripts) means the base language.
    return {
        key: tuple(lang for lang in langs.values() if lang.code == lang.base or lang.base not in langs)
        for key, langs in by_key.items()
    }


def _suggest_codes(code: str) -> list[str]:
    """Return up to three codes whose own spelling, alias or English name is nearest to ``code``."""
    given_key = _lookup_key(code)
    # Every long form (en_xx, zho_hans) is near to every other: suggest long forms only for a long form.
    spellings = {
        key: langs[0].code
        for key, langs in _languages_by_code("").items()
        if "_" not in key or "_" in given_key
    }
    spellings |= {lang.name.lower(): lang.code for lang in LANGUAGES.values()}
    nearest_spellings = nearest(given_key, spellings, limit=12)
    return list(dict.fromkeys(spellings[spelling] for spelling in nearest_spellings))[:3]


def split_pair(pair: str) -> tuple[str, str]:
    """Split ``en-sw`` into ``("en", "sw")``.

    Raises:
        UserError: not two languages joined by a hyphen, or twice the same.
    """
    src, sign, tgt = pair.partition("-")
    if not sign or not src or not tgt or src == tgt:
        raise UserError(f"{pair!r} is not a language pair", "two different languages, for example en-sw")
    return src, tgt
