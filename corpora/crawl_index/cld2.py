"""Codes that Common Crawl's language column holds: those of CLD2, in ISO 639-3.

Source: commoncrawl/language-detection-cld2, ``Language.java``. Some are macrolanguages: both written standards of
Norwegian but Nynorsk stand as ``nor``, all varieties of Malay as ``msa``.
"""

from xling.core import languages
from xling.core.languages import Language
from xling.core.package_tables import load_table

_TABLE = load_table(__package__, "cld2.yaml")
CODES = frozenset(_TABLE["codes"].split())
_UNDER: dict[str, str] = _TABLE["under"]
_OF_FAMILY: dict[str, str] = _TABLE["of_family"]
_OF_LANGUAGE: dict[str, str] = _TABLE["of_language"]


def codes_of(lang: Language) -> tuple[str, ...]:
    """Return the codes of a language in the column; none where CLD2 does not know it."""
    code = _UNDER.get(lang.iso639_3, lang.iso639_3)
    return (code,) if code in CODES else ()


def neighbours_of(lang: Language) -> tuple[str, ...]:
    """Return codes under which a language that CLD2 does not know may stand."""
    own = _OF_LANGUAGE.get(lang.code) or _OF_LANGUAGE.get(lang.base) or _OF_FAMILY.get(lang.family, "")
    return tuple(own.split())


def codes_of_all(langs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes of several languages; none where CLD2 does not know one of them."""
    each = [codes_of(languages.get(lang)) for lang in langs]
    return tuple(dict.fromkeys(code for codes in each for code in codes)) if all(each) else ()
