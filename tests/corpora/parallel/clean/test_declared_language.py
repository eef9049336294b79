"""The declared language of a side, judged against the file itself."""

from itertools import product

import numpy as np
import polars as pl
import pytest

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.langid import ngrams
from xling.corpora.langid.identify import built_in_ngrams
from xling.corpora.parallel.clean.declared_language import (
    DeclaredLanguage,
    FileNgrams,
    ScriptTexts,
    own_scripts,
    script_group,
    without_marks,
)
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.filters.langid import PairLangId
from xling.corpora.toyworld import para
from xling.text.pairs import make_batch

LATIN = [f"{who} {what} {does}." for who, what, does in product(
    ("Men", "Sen", "Biz", "Onam", "Ukam", "O'qituvchi", "Do'stim"),
    ("uyga", "maktabga", "bozorga", "shaharga", "ishga"), ("bordi", "keldi", "kelmaydi"))]  # fmt: skip
CYRILLIC = [f"{who} {what} {does}." for who, what, does in product(
    ("Мен", "Биз", "Онам"), ("уйга", "мактабга", "бозорга", "шаҳарга"), ("борди",))]  # fmt: skip


def texts(lang, count, seed):
    return [tgt for _, tgt in para("en", lang, count, seed)]


def others(own, foreign, lang):
    """The other language of each text of a file, by its place."""
    rows = [*own, *foreign]
    order = np.random.default_rng(1).permutation(len(rows))
    declared = DeclaredLanguage([rows[i] for i in order], languages.get(lang), 2.5, lambda text: "")
    return declared.other_languages(rows)[0]


def test_lines_in_another_language_go_and_the_file_stays():
    labels = others(texts("de", 400, 1), texts("fr", 20, 2), "de")
    assert sum(map(bool, labels[:400])) <= 8
    assert [label for label in labels[400:] if label].count("fr") >= 18


def test_a_language_that_no_model_knows_is_learned_from_the_file():
    """Both models take the file for German; French lines stand out of it all the same."""
    assert not languages.get("swg").fasttext
    labels = others(texts("de", 400, 1), texts("fr", 20, 2), "swg")
    assert sum(map(bool, labels[:400])) <= 8
    assert sum(map(bool, labels[400:])) >= 18


def test_short_right_lines_stay_where_fasttext_knows_them():
    """Their n-grams alone are likelier in Sorbian, Hungarian and Friulian."""
    right = ["We won.", "I felt bad.", "France is in Western Europe."]
    wrong = ["Il faut bien le faire.", "Wir haben gewonnen.", "Abbiamo vinto la partita."]
    own = list(dict.fromkeys(src for src, _ in para("en", "de", 500, 1)))[:400]
    file = ScriptTexts([*own, *right, *wrong], languages.get("en"), "Latn", 2.5)
    labels, off = file.other_languages([*right, *wrong])
    assert (off[:3] < -2.5).all()
    assert labels == ["", "", "", "fr", "de", "it"]


def test_a_short_line_has_to_lie_farther_off():
    """Of few n-grams a chance match with a distant language weighs much, and lid.176 errs as often."""
    right = ["Il neige.", "Va vite."]
    wrong = ["Es hat gestern wieder geschneit.", "It snowed again all day long."]
    own = list(dict.fromkeys(texts("fr", 500, 1)))[:400]
    file = ScriptTexts([*own, *right, *wrong], languages.get("fr"), "Latn", 2.5)
    labels, off = file.other_languages([*right, *wrong])
    assert (off[:2] < -2.5).all()
    assert labels == ["", "", "de", "en"]
    assert file.other_languages(["No lo sé."])[0] != [""], "a close language has no such allowance"


def test_names_in_latin_letters_say_nothing_of_a_chinese_line():
    who, where = (
        ("专家们", "警方", "他的妹妹", "这位歌手", "总统", "新的球队"),
        ("昨天", "今天早上", "去年", "上个星期"),
    )
    does = ("公布了调查结果。", "离开了会场。", "买下了一栋房子。", "在医院里去世了。", "赢得了比赛。")
    own = ["".join(parts) for parts in product(who, where, does)]
    named = [
        "Tiffany Ng 昨天公布了 Michigan 大学的调查结果。",
        "总统今天早上离开了 Beacon Beach 海滩。",
        "皮特（Peter Jones）去年买下了 Celebrity 公司的一栋房子。",
    ]
    file = ScriptTexts([*own, *named], languages.get("zh"), "Hani", 2.5)
    assert file.other_languages(named)[0] == ["", "", ""]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("皮特（Peter Jones）去年买下了 Celebrity 公司的一栋房子。", "Hani"),
        ("密西根大学的专家是 Tiffany Ng, Michigan。", "Hani"),
        ("피터(Peter Jones)가 집을 샀다.", "Kore"),
        ("The word 水 means water, and 火 means fire.", "Latn"),
        ("Tiffany Ng.", "Latn"),
        ("Слово Wikipedia.", "Latn"),
    ],
)
def test_a_chinese_line_with_long_names_is_chinese(text, script):
    assert script_group(text) == script


@pytest.mark.parametrize("lang", ["sw", "yo"])
def test_lines_without_the_diacritics_of_their_file_stay_and_foreign_ones_go(lang):
    """Vowels with marks stand for an orthography that some writers leave out. The models do not know it as Yoruba."""
    marks = str.maketrans({"a": "á", "e": "ẹ", "i": "ì", "o": "ọ", "u": "ù"})
    lines = list(dict.fromkeys(texts("sw", 500, 1)))
    bare, own = lines[:30], [line.translate(marks) for line in lines[30:]]
    foreign = list(dict.fromkeys(texts("fr", 60, 2)))[:20]
    labels = others([*own, *bare], [without_marks(line) for line in foreign], lang)
    assert sum(map(bool, labels[len(own) : len(lines)])) <= 2
    assert sum(map(bool, labels[len(lines) :])) >= 16


def test_a_file_in_another_language_does_not_vouch_for_itself():
    labels = others(texts("fr", 200, 1), texts("de", 5, 2), "de")
    assert labels[:200].count("fr") >= 160


@pytest.mark.parametrize(("many", "kept"), [(CYRILLIC, len(CYRILLIC)), (CYRILLIC[:3], 3)])
def test_both_scripts_of_a_language_are_its_own(many, kept):
    table = make_batch({"src": ["A house."] * (len(LATIN) + len(many)), "tgt": [*LATIN, *many]}, "t")
    reasons = PairLangId().judge(table, Context.of_pair("en-uz"))
    assert reasons[len(LATIN) :].is_null().sum() == kept
    assert reasons[: len(LATIN)].is_null().sum() >= 0.98 * len(LATIN)


def test_few_lines_of_a_language_that_no_model_knows_stay():
    pairs = para("en", "de", 10, 1)
    table = make_batch(dict(zip(("src", "tgt"), map(list, zip(*pairs, strict=True)), strict=True)), "t")
    assert PairLangId().judge(table, Context.of_pair("en-swg")).is_null().all()


def test_scripts_are_grouped_as_languages_write_them():
    assert {script_group(text) for text in ("水を飲む。", "ミズ", "水")} == {"Hani"}
    assert own_scripts(languages.get("ja")) == {"Hani"}
    assert own_scripts(languages.get("sr")) == {"Cyrl", "Latn"}


def test_the_gains_of_n_grams_are_what_scores_add_up():
    model = built_in_ngrams()
    for text in ("die alte frau", "stara kobieta", "ꙮ"):
        hashes = np.concatenate([np.zeros(0, np.uint32), *ngrams.grams(text).values()])
        (scores,), (size,) = model.scores([text])
        assert np.allclose(model.gains(hashes).sum(axis=0) / max(size, 1), scores, atol=1e-4)


def test_no_text_and_no_copy_of_it_counts_for_itself():
    read = ngrams.grams_of_texts(("abc", "abc", "xyz", "abc"))
    all_kept = np.ones(4, bool)
    alone = FileNgrams(read, np.array([0, 0, 1, 0]), all_kept).gains(read, np.array([0, 0, 1, 0]))
    assert alone.max() == 0
    apart = FileNgrams(read, np.array([0, 0, 1, 2]), all_kept).gains(read, np.array([0, 0, 1, 2]))
    assert apart[3] > 0
    assert apart[2] == 0


def test_the_column_is_lowest_where_the_language_is_wrong():
    pairs = [*para("en", "de", 300, 1), *para("en", "fr", 15, 2)]
    table = make_batch({"src": [src for src, _ in pairs], "tgt": [tgt for _, tgt in pairs]}, "t")
    context = Context.of_pair("en-de")
    item = PairLangId().fitted(table, context)
    measured = item.measured(table, context)
    assert measured["langid"].dtype == pl.Float32
    assert measured["langid"][300:].max() < measured["langid"][:300].quantile(0.02)


@pytest.mark.parametrize("deviations", [0, -1, float("inf")])
def test_deviations_are_a_number_above_0(deviations):
    with pytest.raises(UserError, match=r"settings\.langid\.deviations"):
        PairLangId(deviations=deviations)


def test_words_in_a_script_that_is_not_known_lean_to_other_languages():
    declared = DeclaredLanguage.__new__(DeclaredLanguage)
    declared.main, declared.scripts = "Latn", {}
    assert declared.leans_to_other(["a", "b"]).tolist() == [True, True]
