"""Bilingual dictionaries from the lexicons: pairs of single words."""

from xling.core.errors import unknown
from xling.corpora.toyworld.grammar import LANGS
from xling.corpora.toyworld.lexicon import WORLD, load

_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "noun": {"ru": ("nom",), "tr": ("form",), "": ("sg", "pl")},
    "verb": {"en": ("past",), "sw": ("stem",), "tr": ("past",), "ru": ("m",), "": ("form",)},
    "adjective": {
        "de": ("predicate",),
        "fr": ("m",),
        "es": ("m",),
        "sw": ("c9",),
        "ru": ("m",),
        "": ("form",),
    },
    "place": {"": ("form",)},
    "role": {"": ("form",)},
    "number": {"sw": ("c10",), "ru": ("nom",), "": ("form",)},
}
_WORLD_SECTIONS = {"number": ("2", "3", "4", "5")}


def _word_forms(lang: str, section: str, concept: str) -> tuple[str, ...]:
    row = load(lang)[section][concept]
    columns = _COLUMNS[section].get(lang, _COLUMNS[section][""])
    forms = tuple(row[column] for column in columns)
    if section == "verb" and lang == "sw":
        return tuple("ali" + stem for stem in forms)
    if section == "adjective" and lang == "de":
        return tuple(form or row["stem"] for form in forms)
    return forms


def dictionary(src_lang: str, tgt_lang: str) -> list[tuple[str, str]]:
    """Return pairs of a word and its translation; entries of several words are skipped.

    Nouns appear in the singular and, where both languages have the form in their lexicon, the plural;
    verbs in the form of the simple past (French and German: the participle; Swahili: "he or she ...").

    Raises:
        UserError: a language is not one of the toy world's.
    """
    for lang in (src_lang, tgt_lang):
        if lang not in LANGS:
            raise unknown("toyworld language", lang, LANGS)
    pairs: dict[tuple[str, str], None] = {}
    for section in _COLUMNS:
        for concept in _WORLD_SECTIONS.get(section) or WORLD[section]:
            forms = zip(
                _word_forms(src_lang, section, concept), _word_forms(tgt_lang, section, concept), strict=False
            )
            for src, tgt in forms:
                if " " not in src and " " not in tgt:
                    pairs[src, tgt] = None
    return list(pairs)
