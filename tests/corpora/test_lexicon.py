"""Induced dictionaries: vectors, seeds, CSLS, and a language that is another one re-lettered."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from sacrebleu.metrics.bleu import BLEU

from xling.core.errors import UserError
from xling.corpora.lexicon.induce import (
    Cues,
    best_rotation,
    context_scores,
    csls,
    induce,
    is_informative,
    letter_mapping,
    mutual_best,
    respell,
    seeds,
    spelling,
    translation_probabilities,
)
from xling.corpora.lexicon.shared import word_vectors
from xling.corpora.lexicon.stage import BliConfig, restore_case, run
from xling.corpora.lexicon.vectors import SMOOTHING, _positive_pmi, learn_vectors
from xling.corpora.toyworld import mono
from xling.static import encoder_files
from xling.static.shape import StaticConfig
from xling.text import word_translation

TEXT = [f"the {a} {v} a {o} {n}" for a in ["tiger", "horse", "sheep"] for v in ["sees", "wants"]
        for o in ["boat", "house", "book"] for n in ["1", "2", "3"]]  # fmt: skip


def test_words_of_like_use_have_like_vectors() -> None:
    words = learn_vectors(TEXT, 50, 6, 2, 1)
    assert words.words[:2] == ["a", "the"] and words.counts[0] == len(TEXT)
    vector = dict(zip(words.words, words.vectors, strict=True))
    assert vector["tiger"] @ vector["horse"] > 0.8 > vector["tiger"] @ vector["boat"]
    assert np.allclose(np.linalg.norm(words.vectors, axis=1), 1)
    with pytest.raises(UserError, match="words occur 9 times"):
        learn_vectors(["a b"], 50, 6, 2, 9)
    with pytest.raises(UserError, match="no sentence has two frequent words"):
        learn_vectors(["a", "b", "c", "d"], 50, 6, 2, 1)


def test_procrustes_finds_a_rotation_and_csls_is_as_in_the_paper() -> None:
    random = np.random.default_rng(1)
    points, turn = random.standard_normal((20, 4)), np.linalg.qr(random.standard_normal((4, 4)))[0]
    assert np.allclose(best_rotation(points, points @ turn), turn)
    cosines = np.array([[1.0, 0.5], [0.0, 0.5]])
    # With all neighbours counted: rows .75, .25; columns .5, .5.
    assert np.allclose(csls(cosines), [[2 - 1.25, 1 - 1.25], [0 - 0.75, 1 - 0.75]])
    rows, columns = mutual_best(csls(cosines))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [0, 1])


def test_likely_translations_are_probabilities() -> None:
    found = translation_probabilities(np.array([[1.0, 0.9, 0.5], [0.0, 0.0, 3.0]]))
    odds = np.exp([0.0, -1.0, -5.0])
    assert np.allclose(found[0], odds / odds.sum()) and np.allclose(found[1], [0, 0, 1], atol=1e-6)
    many = translation_probabilities(np.arange(24.0)[None])
    assert np.count_nonzero(many) == 10 and many[0, -1] > 0.99 and many.dtype == np.float32


def test_words_nearby_tell_words_of_one_kind_apart() -> None:
    words = learn_vectors(TEXT, 50, 6, 2, 1)
    assert np.allclose(np.linalg.norm(words.contexts, axis=1), 1)
    index = {word: i for i, word in enumerate(words.words)}
    # "tiger" and "horse" are seen with the same words and "1" with each of them: only a dictionary of the others tells.
    known = 10 * np.eye(len(index))
    known[index["tiger"]] = known[index["horse"]] = 0
    scores = context_scores(words, words, known)
    assert scores[index["boat"]].argmax() == index["boat"]
    assert {int(scores[index[a]].argmax()) for a in ("tiger", "horse")} <= {
        index["tiger"],
        index["horse"],
        index["sheep"],
    }
    other, known = (
        learn_vectors(TEXT[::2], 50, 6, 2, 1),
        np.random.default_rng(1).random((len(index), len(index))),
    )
    assert np.allclose(
        context_scores(words, other, known), context_scores(other, words, known.T).T, atol=1e-5
    ), "both ways alike"


def test_spelling_and_seeds() -> None:
    table = spelling(["nation", "1998"], ["nation", "natur", "xyz"])
    assert table[0, 0] == pytest.approx(1) and 0 < table[0, 1] < 1 and table[0, 2] == table[1, 0] == 0
    words = learn_vectors(TEXT, 50, 6, 2, 1)
    rows, columns = seeds(words, words, 1)
    assert rows.tolist() == columns.tolist()
    assert set(words.words) - {words.words[row] for row in rows} == {"a", "the"}


def test_short_words_of_an_alphabet_are_no_seeds_and_their_spelling_says_nothing() -> None:
    shown = is_informative(["main", "a", "der", "7", "猫", "b2", "über"])
    assert shown.tolist() == [True, False, False, True, True, True, True]
    sentences = [f"{x} {noun} 1998" for noun in ("nation", "police") for x in ("a", "des", "the")]
    one, two = (learn_vectors(sentences, 50, 4, 2, 1) for _ in range(2))
    scores = induce(one, two, Cues(spelling=500.0, frequency=0.0, place=0.0), 1, 1)
    same = {word: scores[i, two.words.index(word)] > 50 for i, word in enumerate(one.words)}
    assert same == {"nation": True, "police": True, "1998": True, "a": False, "des": False, "the": False}


def test_a_text_finds_its_own_words_again_through_its_numerals() -> None:
    words = learn_vectors(TEXT, 50, 6, 2, 1)
    found = induce(words, words, Cues(), 3, 1).argmax(1)
    wrong = {words.words[i] for i, best in enumerate(found) if best != i}
    assert wrong <= {"a", "the"}  # equally frequent in like places, and too short for their spelling to count


def test_it_publishes_both_directions_and_scores_against_gold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "en").write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    (tmp_path / "gold").write_text("tiger\ttiger\nhorse\thorse\nunseen\tx\n", encoding="utf-8")
    files = {"en": (f"{tmp_path}/en",), "fr": (f"{tmp_path}/en",)}
    cfg = BliConfig("en-fr", files, f"{tmp_path}/out", f"{tmp_path}/gold", min_count=1, min_seeds=1)
    assert run(cfg).counts["gold"] == {"p1": 1.0, "scored": 2, "entries": 3}
    assert "tiger\ttiger\n" in (tmp_path / "out/fr-en.txt").read_text()
    assert "P@1 100.00 on 2 of 3" in capsys.readouterr().out
    table = [line.split("\t") for line in (tmp_path / "out/en-fr.tsv").read_text().splitlines()]
    found = [(other, float(probability)) for word, other, probability in table if word == "tiger"]
    assert found[0][0] == "tiger" and found == sorted(found, key=lambda two: -two[1])
    assert sum(10**probability for _, probability in found) == pytest.approx(1, abs=1e-3)
    pl.DataFrame({"text": ["\n".join(TEXT[:60]), "\n".join(TEXT[60:])]}).write_parquet(
        tmp_path / "en.parquet"
    )
    corpus = dict.fromkeys(("en", "fr"), (f"{tmp_path}/en.parquet",))
    run(BliConfig("en-fr", corpus, f"{tmp_path}/again", min_count=1, min_seeds=1))
    assert (tmp_path / "again/fr.arpa").read_bytes() == (tmp_path / "out/fr.arpa").read_bytes()
    assert "tiger\ttiger\n" in (tmp_path / "again/fr-en.txt").read_text()
    with pytest.raises(UserError, match="no text in sw"):
        run(BliConfig("en-sw", files, f"{tmp_path}/other"))
    with pytest.raises(UserError, match="order=1; valid: 2 to 6"):
        run(BliConfig("en-fr", files, f"{tmp_path}/other", order=1))


def test_words_are_cased_as_they_mostly_are() -> None:
    lines = ["Man sees Berlin", "The man sees", "The man SEES BERLIN", "berlin Berlin", "Once"]
    assert restore_case(["man", "sees", "berlin", "the", "once"], lines) == [
        "man",
        "sees",
        "Berlin",
        "The",
        "Once",
    ]


def test_letters_and_respelling() -> None:
    pairs = np.array([0, 1, 2]), np.array([1, 0, 2])
    mapping = letter_mapping(["ab", "ba", "abc"], ["βα", "αβ", "xy"], pairs)
    assert mapping == {"a": "α", "b": "β"}
    assert respell(["abba", "cab"], mapping) == ["αββα", "cαβ"]


# English with other letters, as K et al. 2020 make their Fake-English.
GREEK = "αβγδεζηθικλμνξοπρστυφχψωϊϋ"
CIPHER = str.maketrans(ascii_lowercase + ascii_uppercase, GREEK + GREEK.upper())


def english(seed: int, num_docs: int) -> list[str]:
    return [line for doc in mono("en", num_docs, seed) for line in doc.split("\n") if line]


def test_a_relettered_language_is_read_from_text_that_is_not_parallel(tmp_path: Path) -> None:
    (tmp_path / "en").write_text("\n".join(english(1, 1500)), encoding="utf-8")
    (tmp_path / "el").write_text("\n".join(english(2, 1500)).translate(CIPHER), encoding="utf-8")
    files = {lang: (f"{tmp_path}/{lang}",) for lang in ("en", "el")}
    cues = Cues(spelling=1.0, frequency=0.1, place=1.0)
    run(BliConfig("en-el", files, f"{tmp_path}/out", dim=50, min_count=2, rounds=20, cues=cues))
    sources = english(3, 50)
    for spec in (f"en-el={tmp_path}/out/en-el.txt", f"{tmp_path}/out"):
        translator = word_translation.read_translators(spec)["en", "el"]
        made = [translator(line) for line in sources]
        bleu = BLEU().corpus_score(made, [[line.translate(CIPHER) for line in sources]]).score
        print(f"word by word, BLEU {bleu:.2f}")
        assert bleu > 95


def test_positive_mutual_information_by_hand() -> None:
    counts = np.array([[4.0, 1.0], [0.0, 5.0]])
    share = counts.sum(axis=0) ** SMOOTHING / (counts.sum(axis=0) ** SMOOTHING).sum()
    with np.errstate(divide="ignore"):
        wanted = np.maximum(np.log(counts / (counts.sum(axis=1)[:, None] * share)), 0)
    found = _positive_pmi(scipy.sparse.coo_matrix(counts)).toarray()
    np.testing.assert_allclose(found, wanted)
    assert found[0, 0] > found[1, 1] > 0 == found[0, 1]


def test_vectors_of_an_encoder_are_read_without_torch_as_with_it(tmp_path: Path) -> None:
    encoder = encoder_files.random_encoder(StaticConfig(dim=8, bits=9, sketch=4), {})
    encoder_files.save_encoder(encoder, tmp_path)
    words = ["tiger", "d'eau", "Меркель", "水果", "1980", "..", "\u0300"]
    read = word_vectors(tmp_path, words)
    assert read.dtype == np.float32 and read.shape == (7, 8)
    assert np.allclose(read, encoder_files.load_encoder(tmp_path).word_vectors(words).numpy(), atol=1e-6)


def test_words_that_an_encoder_knows_are_translated_by_it(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("\n".join(TEXT))
    (tmp_path / "de.txt").write_text("\n".join(line.replace("wants", "bekommt") for line in TEXT[::-1]))
    (tmp_path / "encoder").mkdir()
    encoder_files.save_encoder(
        encoder_files.random_encoder(StaticConfig(dim=64, bits=12), {}), tmp_path / "encoder"
    )
    corpora = {lang: (str(tmp_path / f"{lang}.txt"),) for lang in ("en", "de")}
    cues = Cues(spelling=0, frequency=0, place=0, encoder=2)
    right = []
    for encoder in ("", str(tmp_path / "encoder")):
        cfg = BliConfig(
            "en-de", corpora, str(tmp_path / f"out{bool(encoder)}"), encoder=encoder, dim=6, cues=cues
        )
        run(cfg)
        pairs = [line.split("\t") for line in (Path(cfg.out) / "en-de.txt").read_text().splitlines()]
        right.append(sum(one == other for one, other in pairs))
    assert right[0] < right[1] == 12


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (None, "static.json"),
        ("[]", "AttributeError"),
        ("{}", "static.safetensors"),
        ('{"features": 1}', "version 1"),
    ],
)
def test_a_folder_that_is_no_encoder_is_told(tmp_path: Path, settings: str | None, message: str) -> None:
    if settings is not None:
        encoder_files.save_encoder(encoder_files.random_encoder(StaticConfig(dim=8, bits=9), {}), tmp_path)
        (tmp_path / "static.json").write_text(settings)
    if message == "static.safetensors":
        (tmp_path / "static.safetensors").write_bytes(b"cut")
        message = "SafetensorError"
    with pytest.raises(UserError, match=message):
        word_vectors(tmp_path, ["tiger"])
