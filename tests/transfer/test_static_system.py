"""A static encoder under test: classes, pairs, tags and vectors carry over to words of another language."""

from __future__ import annotations

import gzip
import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from static_helpers import (
    NUM_WORDS,
    Shape,
    by_hand,
    classified,
    labels_of,
    share_right,
    system,
    tagged,
    texts,
    word,
)

from xling.core.errors import UserError
from xling.core.output.manifest import publish
from xling.eval.rows.suite import Example, suites
from xling.eval.run.unused import STATIC_TASKS
from xling.eval.systems import FitConfig
from xling.static import encoder_files
from xling.static.heads import _features_of_pair, fit_logistic, pair_features
from xling.static.shape import StaticConfig
from xling.static.tag_lexicon import TagLexicon
from xling.static.tag_projection import IGNORED_TAG, project_tags
from xling.static.tagger import _transition_scores, best_path, remove_case, train_tagger, word_shapes
from xling.static.vectors import StaticEncoder
from xling.static.word_frequency import MIN_SHARE, MIN_TEXTS, frequency_features
from xling.text.files.word_alignments import FILE_NAME, AlignedPair
from xling.transfer.static_system import HEADS


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("static") / "model")


def test_classes_carry_over_and_a_fresh_table_does_not(ckpt: Path) -> None:
    suite, train, other = (
        Shape("s", "classify", ("low", "high")),
        classified("xz", 400, 1),
        classified("qw", 200, 2),
    )
    found = {}
    for name in ("pretrained", "random"):
        backend = system(ckpt, name)
        heads = backend.fit(suite, train, [], "en", FitConfig())
        found[name] = share_right(backend.predict(heads[2], suite, other, "de"), labels_of(other))
    assert found["pretrained"] > 0.85
    assert found["random"] < 0.7


def test_tags_carry_over_and_are_iob2(ckpt: Path) -> None:
    suite = Shape("s", "tag", ("X",), "IOB2")
    train, other = tagged("xz", 160, 1), tagged("qw", 60, 2)
    backend = system(ckpt)
    (head,) = backend.fit(suite, train, [], "en", FitConfig(epochs=20))
    found = backend.predict(head, suite, other, "de")
    assert np.mean([tuple(tags) == row.label for tags, row in zip(found, other, strict=True)]) > 0.8
    assert all(len(tags) == len(row.label) for tags, row in zip(found, other, strict=True))
    assert not any(
        tag == "I-X" and before == "O"
        for tags in found
        for before, tag in zip(["O", *tags], tags, strict=False)
    )


def untold(num_sentences: int, num_words: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of words whose vectors say nothing, with a tag by the word's number."""
    numbers = np.random.default_rng(seed).integers(0, num_words, (num_sentences, 5)).tolist()
    words = [
        [f"{chr(97 + n // 676)}{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}" for n in row] for row in numbers
    ]
    return words, [["AB"[n * 7919 % 13 % 2] for n in row] for row in numbers]


def test_the_lexicon_knows_words_that_vectors_do_not() -> None:
    cfg = StaticConfig(dim=8, bits=10, sketch=0)
    encoder = StaticEncoder(cfg, torch.zeros(1 << cfg.bits, cfg.dim), {})
    sentences, tags = untold(600, 800, 1)
    lexicon = TagLexicon(("A", "B"), list(zip(sentences, tags, strict=True)))
    head = train_tagger(encoder, lexicon, sentences, tags, ("A", "B"), 6, 1, False)
    others, right = untold(100, 800, 2)
    assert np.mean(np.array(head.predict(others)) == np.array(right)) > 0.9
    unknown = replace(head, lexicon=TagLexicon(("A", "B"))).predict(others)
    assert np.mean(np.array(unknown) == np.array(right)) < 0.7


def test_a_tagger_does_not_copy_tags_from_the_lexicon() -> None:
    """Tags are drawn for every occurrence, so the tags of other occurrences say nothing, and each one's own all."""
    cfg = StaticConfig(dim=8, bits=10, sketch=0)
    encoder = StaticEncoder(cfg, torch.zeros(1 << cfg.bits, cfg.dim), {})
    sentences, _ = untold(600, 1500, 1)
    tags = [["AB"[i] for i in row] for row in np.random.default_rng(3).integers(0, 2, (600, 5))]
    lexicon = TagLexicon(("A", "B"), list(zip(sentences, tags, strict=True)))
    head = train_tagger(encoder, lexicon, sentences, tags, ("A", "B"), 6, 1, False)
    sureness = np.exp(np.concatenate(head.log_probabilities(sentences))).max(1)
    assert sureness.mean() < 0.65


def test_common_words_are_counted_in_the_other_texts() -> None:
    texts = [["REDIRECT", f"a{i}"] for i in range(60)] + [["the", "REDIRECT"], ["b", "the", "the"], [], ["c"]]
    features = frequency_features(texts)
    assert [len(f) for f in features] == [len(words) for words in texts]
    known = torch.cat(features)[:, 0]
    assert (known == 1).all()

    def scaled(count: int) -> float:
        share = (count - 2 * math.sqrt(count)) / (len(texts) - 1)
        return 1 - math.log(max(share, MIN_SHARE)) / math.log(MIN_SHARE)

    assert features[0][0].tolist() == pytest.approx([1, scaled(60), scaled(59)], abs=1e-6)
    assert features[0][1].tolist() == pytest.approx([1, 0, 0], abs=1e-6)
    assert features[60].tolist() == [pytest.approx([1, scaled(n), 0], abs=1e-6) for n in (1, 60)]
    assert not torch.cat(frequency_features(texts[: MIN_TEXTS - 1])).any()


def test_a_word_that_opens_many_texts_is_no_name() -> None:
    """Each text is one name; the mark of the other texts has never been seen in training."""
    cfg = StaticConfig(dim=8, bits=10, sketch=0)
    encoder = StaticEncoder(cfg, torch.zeros(1 << cfg.bits, cfg.dim), {})
    texts, labels = untold(200, 3000, 1)[0], ("B-X", "I-X", "O")
    tags = [["B-X", *["I-X"] * (len(words) - 1)] for words in texts]
    head = train_tagger(encoder, TagLexicon(labels), texts, tags, labels, 20, 1, True)
    names = [words[:3] for words in untold(200, 3000, 2)[0]]
    marked = head.predict([["ظظظ", *words] for words in names])
    assert np.mean([found == ["O", "B-X", "I-X", "I-X"] for found in marked]) > 0.9
    for few in (names, names[: MIN_TEXTS - 1]):  # of few texts it is not known which words are common
        assert np.mean([found == ["B-X", "I-X", "I-X"] for found in head.predict(few)]) > 0.9


def test_pairs_carry_over(ckpt: Path) -> None:
    def pairs(lang: str, num_rows: int, seed: int) -> list[Example]:
        a, numbers = texts(lang, num_rows, seed)
        rng = np.random.default_rng(seed + 100)
        rows = []
        for i, row in enumerate(numbers):
            same = bool(rng.integers(2))
            kept = row[:3] if same else rng.integers(0, NUM_WORDS, 3).tolist()
            other = " ".join(word(lang, n) for n in kept)
            rows.append(Example(str(i), {"text_a": a[i], "text_b": other}, "yes" if same else "no"))
        return rows

    suite, backend = Shape("s", "pair", ("yes", "no")), system(ckpt)
    other = pairs("qw", 200, 2)
    (head,) = backend.fit(suite, pairs("xz", 600, 1), [], "en", FitConfig(epochs=10))
    assert share_right(backend.predict(head, suite, other, "de"), labels_of(other)) > 0.9


def test_intents_and_slots_carry_over(ckpt: Path) -> None:
    def rows(lang: str, num_rows: int, seed: int) -> list[Example]:
        classes, slots = classified(lang, num_rows, seed), tagged(lang, num_rows, seed)
        return [Example(s.id, s.fields, (c.label, s.label)) for c, s in zip(classes, slots, strict=True)]

    suite, backend = Shape("s", "intent_slots", ("low", "high")), system(ckpt)
    (head,) = backend.fit(suite, rows("xz", 160, 1), [], "en", FitConfig(epochs=20))
    other = rows("qw", 60, 2)
    found = backend.predict(head, suite, other, "de")
    assert np.mean([a[0] == row.label[0] for a, row in zip(found, other, strict=True)]) > 0.8
    assert np.mean([tuple(a[1]) == row.label[1] for a, row in zip(found, other, strict=True)]) > 0.7
    same = backend.average([head, head])
    assert backend.predict(same, suite, other, "de") == found


def test_vectors_of_translations_are_the_same_and_other_layers_are_refused(ckpt: Path) -> None:
    backend = system(ckpt)
    a, numbers = texts("xz", 20, 3)
    b = [" ".join(word("qw", n) for n in row) for row in numbers]
    one, other = backend.embed(a, "en", -1, "mean"), backend.embed(b, "de", -1, "mean")
    assert ((one @ other.T).argmax(1) == np.arange(20)).all()
    assert np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    with pytest.raises(UserError, match="layer=3 pooling=mean; valid: layer=-1 pooling=mean"):
        backend.embed(a, "en", 3, "mean")


def test_no_rows_are_refused_and_every_kind_that_is_promised_has_a_head(ckpt: Path) -> None:
    assert sorted(HEADS) == sorted(STATIC_TASKS)
    backend = system(ckpt)
    with pytest.raises(UserError, match="sib200: no training rows"):
        backend.fit(suites()["sib200"], [], [], "en", FitConfig())


def test_the_best_path_is_that_of_trying_all() -> None:
    labels = ("O", "B-X", "I-X", "B-Y", "I-Y")
    follow, rng = _transition_scores(labels), np.random.default_rng(4)
    for _ in range(20):
        scores = rng.normal(size=(4, len(labels))).astype(np.float32)
        allowed = {}
        for path in product(range(len(labels)), repeat=4):
            steps = [-1, *path]
            total = sum(scores[i, p] + follow[steps[i], p] for i, p in enumerate(path))
            allowed[path] = total
        assert tuple(best_path(scores, follow)) == max(allowed, key=allowed.__getitem__)


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    from sklearn.linear_model import LogisticRegression

    torch.manual_seed(2)
    features = torch.randn(120, 5)
    classes = [("a", "b", "c")[i] for i in (features @ torch.randn(5, 3)).argmax(1).tolist()]
    ours = fit_logistic(features, classes, ("a", "b", "c"), 3.0)
    theirs = LogisticRegression(C=3.0, max_iter=1000, tol=1e-8).fit(features.numpy(), classes)
    found = torch.softmax(ours.net(features), 1).numpy()
    assert np.allclose(found, theirs.predict_proba(features.numpy()), atol=5e-3)


def test_pairs_and_shapes_hold_numbers_for_any_text(ckpt: Path) -> None:
    encoder = encoder_files.load_encoder(ckpt)
    odd = [("", ""), ("?", "1 2 3"), ("東京へ", "मुम्बई"), ("a" * 300, "\u200d")]
    assert torch.isfinite(pair_features(encoder, odd)).all()
    found = word_shapes(["Berlin", "NATO", "3,5", "«", "東京", ""])
    assert found.shape == (6, 30)
    assert found[0][0] == found[1][0] == 1 and found[2][0] == 0
    assert word_shapes([]).shape == (0, 30)


def linked_pairs(num_rows: int) -> list[AlignedPair]:
    """Pairs of both languages in another order of words."""
    _, numbers = texts("xz", num_rows, 9)
    order = [5, 3, 4, 0, 1, 2]
    return [
        AlignedPair(
            "de",
            tuple(word("xz", n) for n in row),
            tuple(word("qw", row[i]) for i in order),
            tuple((i, j) for j, i in enumerate(order)),
        )
        for row in numbers
    ]


def test_tags_go_over_links_where_the_tagger_is_sure() -> None:
    labels = ("NOUN", "VERB", "X")
    pair = AlignedPair("de", ("a", "b", "c", "d"), ("C", "B", "q", "A"), ((0, 3), (1, 1), (2, 0)))
    sure = np.log(np.array([[0.98, 0.01, 0.01], [0.01, 0.98, 0.01], [0.01, 0.01, 0.98], [0.4, 0.3, 0.3]]))
    (words, tags), *more = project_tags([pair], {pair.src: sure}, labels)
    assert (words, tags, more) == (("C", "B", "q", "A"), ("X", "VERB", IGNORED_TAG, "NOUN"), [])
    assert project_tags([pair], {pair.src: sure}, labels, min_tagged_share=0.8) == []
    assert project_tags([pair], {pair.src: sure}, labels, min_probability=0.99) == []


def test_names_go_over_where_their_type_is_likelier_than_not() -> None:
    """B- and I- count together; a word outside of names needs a surer tagger, and texts without names teach nothing."""
    labels = ("O", "B-X", "I-X")
    pair = AlignedPair("de", ("a", "b", "c", "d"), ("A", "B", "C", "D"), ((0, 0), (1, 1), (2, 2), (3, 3)))
    torn = np.log(np.array([[0.3, 0.4, 0.3], [0.4, 0.25, 0.35], [0.9, 0.05, 0.05], [0.98, 0.01, 0.01]]))
    assert project_tags([pair], {pair.src: torn}, labels)[0][1] == ("B-X", "I-X", IGNORED_TAG, "O")
    assert project_tags([pair], {pair.src: torn}, labels, min_name_probability=0.65)[0][1] == (
        "B-X",
        IGNORED_TAG,
        IGNORED_TAG,
        "O",
    )
    none = np.log(np.array([[0.98, 0.01, 0.01]] * 4))
    assert project_tags([pair], {pair.src: none}, labels) == []


def test_shapes_without_case_are_those_of_a_script_without_case() -> None:
    cased, uncased = (
        ["Angela", "Merkel", "NATO", "in", "3", "McK", "."],
        ["अंगे", "मर्केल", "नाटो", "में", "3", "कम", "."],
    )
    hidden = remove_case(word_shapes(cased), cased)
    case = [0, 1, 2, 3, 24, 25, 26]
    assert torch.equal(hidden[:, case], word_shapes(uncased)[:, case])
    rest = [i for i in range(30) if i not in case]
    assert torch.equal(hidden[:, rest], word_shapes(cased)[:, rest])


def test_a_sentence_has_the_same_tags_alone_and_beside_a_longer_one(ckpt: Path) -> None:
    suite, backend = Shape("s", "tag", ("X",), "IOB2"), system(ckpt)
    (head,) = backend.fit(suite, tagged("xz", 100, 1), [], "en", FitConfig(epochs=3))
    short, long = tagged("qw", 1, 5)[0].fields["tokens"], ["word"] * 40
    alone, (beside, _) = head.log_probabilities([short])[0], head.log_probabilities([short, long])
    assert np.allclose(alone, beside, atol=1e-5)


def test_suites_of_the_same_rows_share_their_heads(ckpt: Path) -> None:
    suite, other = (Shape(name, "tag", ("X",), "IOB2") for name in ("s", "other"))
    rows, backend = tagged("xz", 30, 1), system(ckpt)
    one = backend.fit(suite, rows, [], "en", FitConfig(epochs=1))
    assert backend.fit(other, rows, [], "en", FitConfig(epochs=1)) is one
    for train, epochs in ((rows[1:], 1), (rows, 2)):
        assert backend.fit(suite, train, [], "en", FitConfig(epochs=epochs)) is not one


@pytest.mark.slow
def test_projection_teaches_words_that_the_vectors_do_not_know(tmp_path: Path) -> None:
    cfg = StaticConfig(dim=64, bits=12, sketch=0)
    with publish(tmp_path / "model", "pretrain static", cfg) as made:
        encoder_files.save_encoder(encoder_files.random_encoder(cfg, {}), made.path)
    (tmp_path / "links").mkdir()
    with gzip.open(tmp_path / "links" / FILE_NAME, "wt", encoding="utf-8") as file:
        for pair in linked_pairs(120):
            file.write(json.dumps(pair.__dict__) + "\n")
    suite, train, other = Shape("s", "tag", ("X",), "IOB2"), tagged("xz", 120, 1), tagged("qw", 60, 2)
    right = {}
    for folder in (None, tmp_path / "links"):
        backend = system(tmp_path / "model")
        (head,) = backend.fit(suite, train, [], "en", FitConfig(epochs=25, project=folder))
        found = backend.predict(head, suite, other, "de")
        gold = [tag for row in other for tag in row.label]
        right[folder] = share_right([tag for tags in found for tag in tags], gold)
    assert right[tmp_path / "links"] > 0.9 > 0.8 > right[None]
    with pytest.raises(UserError, match=r"no links at .*run it, or leave out project="):
        backend.fit(suite, train, [], "en", FitConfig(project=tmp_path))


def test_features_of_a_pair_are_as_many_for_any_texts_and_know_no_order_of_words() -> None:
    def unit(num: int, seed: int) -> torch.Tensor:
        vectors = torch.randn(num, 6, generator=torch.Generator().manual_seed(seed))
        return vectors / vectors.norm(dim=1, keepdim=True)

    def told(turn: int, words_a: str, words_b: str) -> torch.Tensor:
        sides = [
            (unit(len(words.split()), seed), words.split()) for seed, words in ((1, words_a), (2, words_b))
        ]
        ((a, names_a), (b, names_b)) = (
            (x.roll(turn, 0), words[-turn:] + words[:-turn]) for x, words in sides
        )
        return _features_of_pair(
            a, torch.full((len(a),), 1 / len(a)), names_a, b, torch.full((len(b),), 1 / len(b)), names_b
        )

    one, other = told(0, "a dog ran in 1998 ?", "it ran"), told(0, "yes", "no it did not run")
    assert one.shape == other.shape
    torch.testing.assert_close(told(1, "a dog ran in 1998 ?", "it ran"), one)
    assert one[-8:-5].tolist() == pytest.approx([2 / 6, 6 / 20, 2 / 20]) and one[-2:].tolist() == [1.0, 0.0]


def test_shapes_tell_scripts_without_spaces_and_texts_without_capitals() -> None:
    assert word_shapes(["\u0e44\u0e17\u0e22", "cat"])[:, 28].tolist() == [1, 0]
    few, none = word_shapes(["Cat", *["a"] * 49]), word_shapes(["a"] * 50)
    assert (few[0, 26], none[0, 26]) == (0, 1), "one word of fifty is too many"
