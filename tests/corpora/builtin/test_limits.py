"""Limits by language: the table that ships, which of them hold, and the rule of stop words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.builtin.limits import (
    NUMERIC_LIMITS,
    FittedLimits,
    Limits,
    built_in,
    limits_of,
    read_table,
    save,
)
from xling.corpora.fit.limits import NUM_STOP_WORDS
from xling.corpora.stages.filters import Filters, measure, measure_each
from xling.text.document import Document, Ledger
from xling.text.words.units import count_units

TEXT = (
    "The council met on Monday to discuss the new library, which will open in spring next year. Many people had come "
    "to listen, and some of them spoke about what they hope to find there. The first books are already in the house."
)
LIST = (
    "Garden chairs, oak tables, kitchen shelves, reading lamps, wool carpets, curtain rods, bath towels, tea cups, "
    "pillow cases, soup plates, bread knives, wine glasses, paper bags, candle holders, door mats, coat hangers, "
    "shoe racks, flower pots, picture frames, wall clocks, desk drawers, box files, pencil cases, gift cards."
)


def test_every_row_of_the_table_is_whole() -> None:
    assert len(built_in()) >= 195
    for lang, row in built_in().items():
        assert languages.get(lang).code == lang
        assert row.documents >= 10, lang
        assert row.sources, lang
        assert len(row.stop_words) == len(set(row.stop_words)) == NUM_STOP_WORDS, lang
        assert all(len(count_units(word).hashes) == 1 for word in row.stop_words), lang
        assert row.limits.keys() <= set(NUMERIC_LIMITS), lang
        limits = limits_of(languages.get(lang), Limits())
        assert 0.8 < limits.min_mean_word < 4 < limits.max_mean_word <= 36, lang
        assert 0.1 < limits.max_top_bigram <= 0.6, lang
        assert 0 <= limits.min_stop_words <= 0.075, lang


def test_english_keeps_the_numbers_that_others_are_relative_to() -> None:
    limits = limits_of(languages.get("en"), Limits())
    assert limits.numbers() == Limits().numbers()
    assert {"the", "and", "of", "in"} <= set(limits.stop_words)


def test_what_the_user_gives_comes_before_the_table_and_the_table_before_the_family() -> None:
    finnish = languages.get("fi")
    assert limits_of(finnish, Limits()).max_mean_word == built_in()["fi"].limits["max_mean_word"]
    assert limits_of(finnish, Limits(), {}).max_mean_word == 14
    assert limits_of(finnish, Limits(max_mean_word=9)).max_mean_word == 9
    changed = Filters(per_lang={"fi": {"max_mean_word": 21}}, stop_words={"fi": ("ja", "on")})
    assert changed.limits_for("fi").max_mean_word == 21
    assert changed.limits_for("fi").stop_words == ("ja", "on")
    assert Filters(stop_words={"fi": ()}).limits_for("fi").stop_words == ()
    assert Filters().limits_for("").stop_words == ()
    with pytest.raises(UserError, match="'to be'"):
        Filters(stop_words={"en": ("the", "to be")})
    with pytest.raises(UserError, match="unknown language"):
        Filters(stop_words={"xyzzy": ("a",)})


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = {
        "sw": FittedLimits(70, ("udhr",), {"max_mean_word": 13.5}, ("na", "ya")),
        "zh": FittedLimits(30, ("a", "b"), {}, ("的",)),
    }
    save(tmp_path / "limits.tsv", rows)
    assert read_table((tmp_path / "limits.tsv").read_text(encoding="utf-8").splitlines()) == rows


def test_a_list_has_few_stop_words_and_a_text_has_many() -> None:
    english = Filters().limits_for("en")
    assert measure(LIST, english)["stop_words"] < english.min_stop_words
    assert measure(TEXT, english)["stop_words"] > 0.3
    assert measure(TEXT.upper(), english) == measure(TEXT, english)
    assert "stop_words" not in measure(TEXT, Limits())
    docs = [Document("0", f"{LIST}\n{LIST.upper()}", lang="en"), Document("1", f"{TEXT}\n{TEXT}", lang="en")]
    ledger = Ledger()
    loose = Limits(max_repeated_runs=2, max_repeated_line_chars=1, max_repeated_lines=1)
    loose = replace(loose, max_top_bigram=1, max_top_trigram=1, max_top_fourgram=1)
    assert [doc.id for doc in Filters(loose)(docs, ledger)] == ["1"]
    assert ledger.dropped["filters", "few_stop_words"] == 1
    assert docs[1].meta["filters"]["stop_words"] > 0.3


def test_scripts_without_spaces_have_stop_words_of_their_own_units() -> None:
    chinese = Filters().limits_for("zh")
    assert {"的", "一", "是", "在"} <= set(chinese.stop_words)
    text = "他们在学校里学习，老师是一位年轻的人。这个国家的人民有自己的语言和文化。"
    assert measure(text, chinese)["stop_words"] > chinese.min_stop_words
    names = "张伟王芳李娜刘洋陈静杨勇赵磊黄敏周强吴艳徐杰孙丽马超朱玲胡军郭涛何平高峰林红罗刚"
    assert measure(names, chinese)["stop_words"] < chinese.min_stop_words


def test_stop_words_count_without_the_tones_that_many_writers_omit() -> None:
    yoruba = Filters().limits_for("yo")
    marked = "Àwọn ènìyàn náà sì ń lọ sí ilé láti jẹun, ó sì ti pẹ́ tí wọ́n fi ní owó"
    bare = "Awon eniyan naa si n lo si ile lati jeun, o si ti pe ti won fi ni owo"
    assert measure(marked, yoruba)["stop_words"] > 0.3
    assert measure(bare, yoruba)["stop_words"] > 0.3


def test_a_language_without_a_list_is_not_judged_by_stop_words() -> None:
    limits = Filters().limits_for("gom")
    assert limits.stop_words == ()
    assert "stop_words" not in measure(LIST, limits)


def test_texts_of_several_languages_in_one_call_have_their_own_stop_words() -> None:
    english, german = Filters().limits_for("en"), Filters().limits_for("de")
    together = measure_each([TEXT, TEXT], [english, german])
    assert together == [measure(TEXT, english), measure(TEXT, german)]
    assert together[0]["stop_words"] > together[1]["stop_words"]
