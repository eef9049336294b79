"""Tags of files are read in every usual spelling, and tell the script of a language."""

import pytest

from xling.core import languages
from xling.core.language_tags import best_tag, fit, language_of, named


@pytest.mark.parametrize(("tag", "code"), [
    ("IW-IL", "he"), ("iw", "he"), ("IN-ID", "id"), ("ger", "de"), ("fre", "fr"), ("chi", "zh"), ("dut", "nl"),
    ("nor", "nb"), ("cze", "cs"), ("gre", "el"), ("per", "fa"), ("rum", "ro"), ("zh-Hans-CN", "zh"),
    ("zh-Hant-TW", "zh_Hant"), ("zh-TW", "zh_Hant"), ("zh_HK", "zh_Hant"), ("zh-CHT", "zh_Hant"), ("cmn-CN", "zh"),
    ("sr-Latn-RS", "sr_Latn"), ("sr-RS@latin", "sr_Latn"), ("sr-Cyrl-RS", "sr"), ("sr-RS", "sr"), ("EN-US", "en"),
    ("es-419", "es"), ("de-DE-1996", "de"), ("en_GB.UTF-8", "en"), ("pt_BR", "pt"), ("zh-yue", "yue"), ("scc", "sr"),
    ("be-tarask", "be"), ("be-x-old", "be"), ("nds-nl", "nds"),
    ("English", "en"), ("Hebrew", "he"), ("swa", "sw"), ("fil-PH", "tl"), ("xx", None), ("", None), ("uz-Cyrl", None),
])  # fmt: skip
def test_usual_tags_are_read(tag: str, code: str | None) -> None:
    language = language_of(tag)
    assert (language.code if language else None) == code


@pytest.mark.parametrize(("tags", "code", "wanted"), [
    (["zh-CN", "zh-TW"], "zh_Hant", "zh-TW"), (["zh-TW", "zh-CN"], "zh", "zh-CN"), (["zh-HK", "zh"], "zh", "zh"),
    (["sr-Cyrl-RS", "sr-Latn-RS"], "sr_Latn", "sr-Latn-RS"), (["sr", "sr-Latn"], "sr", "sr"), (["sr"], "sr_Latn", "sr"),
    (["sr-Cyrl"], "sr_Latn", None), (["zh-CN"], "zh_Hant", None), (["en-GB", "en-US"], "en", "en-GB"),
    (["uz-Cyrl"], "uz", "uz-Cyrl"), (["uz-Cyrl", "uz-Latn"], "uz", "uz-Latn"),
    (["kor-Hang"], "ko", "kor-Hang"), ([], "en", None),
])  # fmt: skip
def test_the_variant_that_fits_best_is_taken(tags: list[str], code: str, wanted: str | None) -> None:
    assert best_tag(tags, languages.get(code)) == wanted


def test_every_code_of_the_table_fits_its_language() -> None:
    for lang in languages.LANGUAGES.values():
        for code in (lang.code, lang.flores, lang.ntrex, lang.mbart, lang.cc100, *lang.also):
            if code and language_of(code) is not None:
                assert fit(code, lang) or language_of(code) != lang, code


def test_a_message_names_the_languages() -> None:
    assert named(["xx", "IW-IL", ""]) == "without a code, IW-IL (Hebrew), xx"
