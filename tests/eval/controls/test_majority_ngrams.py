"""The controls: the most frequent label, and character n-grams."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from xling.core.errors import UserError
from xling.eval.controls.dictionary import Dictionaries, DictionaryControl
from xling.eval.controls.majority_ngrams import EMBED_DIM, MajorityControl, NgramControl
from xling.eval.kinds.nearest_neighbours import nearest_rows
from xling.eval.rows.protocols import PROTOCOLS
from xling.eval.rows.suite import Example, suites
from xling.eval.run import evaluation
from xling.eval.run.plan import EvalPlan, build_systems
from xling.eval.run.settings import EvalConfig
from xling.eval.scores.score_file import read_scores
from xling.eval.systems import FitConfig
from xling.text.files import word_alignments

FIT = FitConfig()


def test_majority_takes_the_most_frequent_and_the_first_on_a_tie() -> None:
    rows = [Example(str(i), {"text": "x"}, label) for i, label in enumerate(["b", "c", "b", "a", "c", "b"])]
    (found,) = MajorityControl().fit(suites()["sib200"], rows, [], "en", FIT)
    assert found == "b"
    (found,) = MajorityControl().fit(suites()["sib200"], rows[1:5], [], "en", FIT)
    assert found == "c"
    (found,) = MajorityControl().fit(suites()["sib200"], rows[2:5], [], "en", FIT)
    assert found == "a"
    assert MajorityControl().predict("b", suites()["sib200"], rows, "sw") == ["b"] * 6


def test_majority_of_tags_and_of_intents_with_slots() -> None:
    tags = [Example("0", {"tokens": ("a", "b", "c")}, ("O", "O", "B-PER"))]
    (found,) = MajorityControl().fit(suites()["toy_ner"], tags, [], "en", FIT)
    assert MajorityControl().predict(found, suites()["toy_ner"], tags, "sw") == [["O", "O", "O"]]
    rows = [
        Example("0", {"tokens": ("a", "b")}, ("alarm", ("O", "B-x"))),
        Example("1", {"tokens": ("a",)}, ("alarm", ("O",))),
    ]
    (found,) = MajorityControl().fit(suites()["xsid"], rows, [], "en", FIT)
    assert MajorityControl().predict(found, suites()["xsid"], rows, "sw") == [
        ["alarm", ["O", "O"]],
        ["alarm", ["O"]],
    ]


def test_majority_of_answers_is_a_place_and_of_retrieval_the_first_row() -> None:
    train = [
        Example("0", {"context": "one (two) three four"}, (("two", 5),)),
        Example("1", {"context": "a b c d"}, (("b", 2), ("c", 4))),
        Example("2", {"context": "a b c d"}, (("c d", 4),)),
    ]
    suite = suites()["xquad"]
    (place,) = MajorityControl().fit(suite, train, [], "en", FIT)
    assert place == (1, 1), "the second word, twice"
    rows = [Example("3", {"context": text}, ()) for text in ("ein  Wort, hier", "nur", "")]
    assert MajorityControl().predict(place, suite, rows, "de") == ["Wort,", "nur", ""]
    assert MajorityControl().predict((1, 9), suite, rows[:1], "de") == ["Wort, hier"]
    vectors = MajorityControl().embed(["a", "b"], "en", -1, "mean")
    for distance in ("cosine", "margin", "csls"):
        assert nearest_rows(vectors, vectors, distance).tolist() == [0, 0]


@pytest.mark.parametrize("name", ["mt", "xqg"])
def test_of_texts_to_be_written_majority_copies_the_source(name: str) -> None:
    rows = [Example("0", {"text": "a"}, "b")]
    assert MajorityControl().predict(None, suites()[name], rows, "en") == ["a"]
    with pytest.raises(UserError, match=f"the control ngram has no answer to the .* rows of {name}"):
        NgramControl().predict(None, suites()[name], rows, "en")


def test_ngrams_learn_classes_pairs_tags_and_slots() -> None:
    texts = ["football match goal", "team wins match", "virus and health", "doctor treats virus"] * 3
    labels = ["sports", "sports", "health", "health"] * 3
    rows = [Example(str(i), {"text": t}, y) for i, (t, y) in enumerate(zip(texts, labels, strict=True))]
    (model,) = NgramControl().fit(suites()["sib200"], rows, [], "en", FIT)
    new = [Example("n", {"text": "the goal of the match"}, ""), Example("m", {"text": "a virus"}, "")]
    assert NgramControl().predict(model, suites()["sib200"], new, "en") == ["sports", "health"]
    alarm = ("alarm/set_alarm", ("O", "O", "O", "B-time"))
    rows = [Example(str(i), {"tokens": ("wake", "me", "at", "six")}, alarm) for i in range(4)]
    rows += [
        Example(f"w{i}", {"tokens": ("will", "it", "rain")}, ("weather/find", ("O", "O", "O")))
        for i in range(4)
    ]
    (pair,) = NgramControl().fit(suites()["xsid"], rows, [], "en", FIT)
    assert NgramControl().predict(pair, suites()["xsid"], rows[3:5], "en") == [
        ["alarm/set_alarm", ["O", "O", "O", "B-time"]],
        ["weather/find", ["O", "O", "O"]],
    ]
    with pytest.raises(UserError, match="the control ngram has no answer to the choice rows of xcopa"):
        NgramControl().fit(suites()["xcopa"], [], [], "en", FIT)


def test_vectors_of_ngrams_are_equal_for_equal_texts_and_near_for_cognates() -> None:
    vectors = NgramControl().embed(
        ["university", "university", "universität", "kitchen", ""], "en", -1, "mean"
    )
    assert vectors.shape == (5, EMBED_DIM)
    assert vectors.dtype == np.float32
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (vectors[0] == vectors[1]).all()
    assert unit[0] @ unit[2] > unit[0] @ unit[3]


@pytest.mark.data
def test_the_floors_of_sib200(tmp_path: Path) -> None:
    """Published on 205 languages: majority 25.0; n-grams from English 74.5 in English and 34.1 on average."""
    cfg = EvalConfig(("sib200",), tmp_path / "out", Path(os.environ["XLING_DATA"]))
    evaluation.evaluate_systems(cfg, [NgramControl(), MajorityControl()])
    rows = read_scores(tmp_path / "out/tables/scores.json")
    assert {round(r.value, 1) for r in rows if r.system == "majority"} == {25.0}
    ngram = {r.lang: r.value for r in rows if r.system == "ngram"}
    assert len(ngram) == 40
    assert ngram["en"] == pytest.approx(74.5, abs=2)
    assert np.mean(list(ngram.values())) == pytest.approx(34.1, abs=2)


def test_a_dictionary_translates_rows_word_by_word(tmp_path: Path) -> None:
    (tmp_path / "fr-en.txt").write_text("chien dog\nchien hound\nl'eau water\nnoir black\n", encoding="utf-8")
    (tmp_path / "zh-en.txt").write_text("黑 black\n黑狗 blackdog\n狗 dog\n", encoding="utf-8")
    words = Dictionaries(tmp_path, "en")
    assert words.translate_text("Le Chien noir (CHIEN), l’eau!", "fr") == "Le Dog black (DOG), water!"
    assert words.translate_text("Chien", "en") == words.translate_text("Chien", "de") == "Chien"
    assert words.translate_text("黑狗，大狗 A", "zh") == "blackdog ， 大 dog A"
    assert words.translate_text("", "fr") == ""


def write_links(folder: Path, *pairs: tuple[str, str, str]) -> Path:
    """An output of ``xling corpus links``: language, English words, and the words that they are linked to in order."""
    folder.mkdir()
    with gzip.open(folder / word_alignments.FILE_NAME, "wt", encoding="utf-8") as file:
        for lang, src, tgt in pairs:
            linked = [[i, i] for i in range(len(src.split()))]
            line = {"lang": lang, "src": src.split(), "tgt": tgt.split(), "links": linked}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return folder


def test_linked_words_are_a_dictionary_of_the_most_frequent_translations(tmp_path: Path) -> None:
    folder = write_links(
        tmp_path / "links", ("sw", "dogs bark", "mbwa hubweka"), ("sw", "the dogs", "hao Mbwa"), ("sw", "a", "mbwa"),
        ("ha", "cat", "mbwa"),
    )  # fmt: skip
    assert Dictionaries(folder, "en").translate_text("Mbwa hubweka paka.", "sw") == "Dogs bark paka."


def test_the_control_dictionary_answers_in_words_it_learned_in_english(tmp_path: Path) -> None:
    """Classes, tags and retrieval; a language without entries has the answers of n-grams alone."""
    folder = write_links(
        tmp_path / "links", ("sw", "football match", "kandanda mechi"), ("sw", "virus doctor", "kirusi daktari"),
        ("sw", "runs", "hukimbia"),
    )  # fmt: skip
    control = DictionaryControl(folder, "en")
    texts = ["football match", "match football", "virus doctor", "doctor virus"] * 3
    rows = [Example(str(i), {"text": t}, "health" if "virus" in t else "sports") for i, t in enumerate(texts)]
    (model,) = control.fit(suites()["sib200"], rows, [], "en", FIT)
    new = [Example("n", {"text": "Mechi, kandanda!"}, ""), Example("m", {"text": "kirusi"}, "")]
    assert control.predict(model, suites()["sib200"], new, "sw") == ["sports", "health"]
    without = control.predict(model, suites()["sib200"], new, "yo")
    assert without == NgramControl().predict(model, suites()["sib200"], new, "sw"), (
        "no entries: n-grams alone"
    )

    tagged = [Example("0", {"tokens": ("the", "doctor", "runs")}, ("DET", "NOUN", "VERB"))] * 4
    (tagger,) = control.fit(suites()["udpos"], tagged, [], "en", FIT)
    swahili = [Example("1", {"tokens": ("hukimbia", "daktari")}, ("VERB", "NOUN"))]
    assert control.predict(tagger, suites()["udpos"], swahili, "sw") == [["VERB", "NOUN"]]

    english, own = (
        control.embed(side, lang, -1, "mean")
        for side, lang in ((["football match", "virus doctor"], "en"), (["kirusi daktari", "kandanda"], "sw"))
    )
    assert nearest_rows(own, english, "cosine").tolist() == [1, 0]
    longer = write_links(tmp_path / "more", ("sw", "football", "kandanda"))
    assert DictionaryControl(longer, "en").digest != control.digest != NgramControl.digest


@pytest.mark.parametrize("folder", ["", "empty"])
def test_the_control_dictionary_wants_a_dictionary(tmp_path: Path, folder: str) -> None:
    given = tmp_path / folder if folder else None
    cfg = EvalConfig(("sib200",), tmp_path / "out", systems=("dictionary",), dictionary=given)
    with pytest.raises(
        UserError, match="has no dictionary; valid: an output of xling corpus links, or a folder"
    ):
        build_systems(EvalPlan(cfg, tmp_path, (), PROTOCOLS[cfg.protocol], cfg.out))
