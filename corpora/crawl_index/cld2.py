"""Codes that Common Crawl's language column holds: those of CLD2, in ISO 639-3.

Source: commoncrawl/language-detection-cld2, ``Language.java``. Some are macrolanguages: both written standards of
Norwegian but Nynorsk stand as ``nor``, all varieties of Malay as ``msa``.
"""

from __future__ import annotations

from xling.core import languages
from xling.core.languages import Language

_WORDS = """
aar abk afr aka amh ara asm aym aze bak bel ben bih bis blu bod bos bre bul cat ceb ces chr cos crs cym dan deu div
dzo ell eng epo est eus ewe fao fas fij fin fra fry gaa gla gle glg glv grn guj hat hau haw heb hin hrv hun hye ibo
iku ile ina ind ipk isl ita jav jpn kal kan kas kat kaz kha khm kin kir kor kri kur lao lat lav lif lin lit loz ltz
lua lug luo mal mar mfe mkd mlg mlt mon mri msa mya nau nep new nld nno nor nso nya oci ori orm oss pam pan pol por
pus que raj roh ron run rus sag san sco sin slk slv smo sna snd som sot spa sqi srp ssw sun swa swe syr tam tat tel
tgk tgl tha tir ton tsn tso tuk tum tur twi uig ukr urd uzb ven vie vol war wol xho yid yor zha zho zul
"""
CODES = frozenset(_WORDS.split())
# ISO 639-3 codes of our table that stand under the code of their macrolanguage or group.
_UNDER = {
    "arb": "ara", "azj": "aze", "hmn": "blu", "hbs": "srp", "kmr": "kur", "npi": "nep", "nob": "nor", "ory": "ori",
    "plt": "mlg", "swh": "swa", "zsm": "msa",
}  # fmt: skip
# Codes under which pages of a language that CLD2 does not know stand most often.
_NEIGHBOURS = {
    "Indo-Aryan": "hin bih urd nep", "Iranian": "fas kur", "Romance": "spa ita fra cat", "Germanic": "deu nld",
    "Slavic": "rus pol ces", "Semitic": "ara", "Turkic": "tur rus tat", "Bantu": "swa lug lin kin",
    "Austronesian": "ind msa tgl", "Sinitic": "zho", "Uralic": "fin rus est", "Northeast Caucasian": "rus",
    "Mongolic": "mon rus", "Celtic": "bre cym", "Kartvelian": "kat", "Baltic": "lav lit",
}  # fmt: skip
_OWN_NEIGHBOURS = {
    "ast": "spa glg", "an": "spa cat", "ckb": "kur fas ara", "azb": "aze fas", "pnb": "urd pan snd", "pcm": "eng",
    "tpi": "eng", "pap": "spa", "kea": "por", "mwl": "por", "yue": "zho", "hsb": "ces pol", "dsb": "ces pol",
    "rue": "ukr rus", "szl": "pol", "csb": "pol", "vec": "ita", "lmo": "ita", "lij": "ita", "pms": "ita", "nap": "ita",
    "scn": "ita", "fur": "ita", "eml": "ita", "sc": "ita", "bar": "deu", "gsw": "deu", "nds": "deu nld", "li": "nld",
}  # fmt: skip


def codes_of(lang: Language) -> tuple[str, ...]:
    """Return the codes of a language in the column; none where CLD2 does not know it."""
    code = _UNDER.get(lang.iso639_3, lang.iso639_3)
    return (code,) if code in CODES else ()


def neighbours_of(lang: Language) -> tuple[str, ...]:
    """Return codes under which a language that CLD2 does not know may stand."""
    own = _OWN_NEIGHBOURS.get(lang.code) or _OWN_NEIGHBOURS.get(lang.base) or _NEIGHBOURS.get(lang.family, "")
    return tuple(own.split())


def codes_of_all(langs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes of several languages; none where CLD2 does not know one of them."""
    each = [codes_of(languages.get(lang)) for lang in langs]
    return tuple(dict.fromkeys(code for codes in each for code in codes)) if all(each) else ()
