"""Languages by code and by name, where a setting is read."""

from __future__ import annotations

import pytest

from xling.core import languages
from xling.core.settings.values import code_of, code_of_pair, code_of_side, codes_of
from xling.corpora.mono import MonoConfig


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("Swahili", "sw"),
        ("swahili", "sw"),
        ("Kiswahili", "sw"),
        ("Yorùbá", "yo"),
        ("yoru\u0300ba\u0301", "yo"),
        ("Francais", "fr"),
        ("Guaraní", "gn"),
        ("Avañe'ẽ", "gn"),
        ("o'zbek", "uz"),
        ("Bahasa Indonesia", "id"),
        ("Afaan Oromoo", "om"),
        ("ภาษาไทย", "th"),
        ("Haitian Creole", "ht"),
        ("Chinese", "zh"),
        ("中文", "zh"),
        ("swh_Latn", "sw"),
        ("zh-CN", "zh"),
        ("en_ewt", "en_ewt"),
        ("Farsi", "fa"),
        ("Norwegian", "nb"),
        ("mandarin", "zh"),
        ("Oriya", "or"),
        ("de_at", "de"),
        ("pt_br", "pt"),
        ("en_xx", "en"),
        ("en_sw", "en_sw"),
        ("zh_en", "zh_en"),
        ("all", "all"),
        ("nolanguage", "nolanguage"),
        ("text/Swahili", "text/Swahili"),
        ("1", "1"),
    ],
)
def test_a_language(given: str, code: str) -> None:
    assert code_of(given) == code_of_side(given) == code


@pytest.mark.parametrize(
    ("given", "pair"),
    [
        ("English-Swahili", "en-sw"),
        ("en-Swahili", "en-sw"),
        ("eng_Latn-swh", "en-sw"),
        ("en-zh-CN", "en-zh"),
        ("a-b", "a-b"),
    ],
)
def test_a_pair(given: str, pair: str) -> None:
    assert code_of_pair(given) == code_of_side(given) == pair


def test_every_english_name_of_the_table_is_a_language() -> None:
    for language in languages.LANGUAGES.values():
        named = languages.get(code_of(language.name))
        assert named.name.partition(" (")[0] == language.name.partition(" (")[0], language


def test_several_languages() -> None:
    from xling.core.settings.config import load

    assert codes_of("Swahili, en") == "sw,en"
    assert load(MonoConfig, overrides=["lang=Swahili"]).lang == "sw"
    assert load(MonoConfig, overrides=["lang=Swahili,English"]).lang == "sw,en"
