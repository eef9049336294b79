"""What a static encoder does with single words: texts matched by them, votes, and words in other languages."""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from static_helpers import NUM_WORDS, Shape, by_hand, system, tagged, texts, word

from xling.core.output.manifest import publish
from xling.eval.rows.suite import Example
from xling.eval.systems import FitConfig
from xling.static import encoder_files
from xling.static.heads import MIN_ROWS_TO_RESCALE, VOTE_SHARPNESS, NeighbourClassifier, fit_logistic
from xling.static.linked_words import REPLACED_SHARE, AlignedTranslations
from xling.static.matching import match_all, match_candidates
from xling.static.shape import StaticConfig
from xling.static.vectors import StaticEncoder, unit_length, word_hash
from xling.text.files.word_alignments import FILE_NAME, AlignedPair
from xling.text.words.features import split_tokens


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("static") / "model")


def test_linked_texts_teach_the_slots_of_words_that_vectors_do_not_know(ckpt: Path, tmp_path: Path) -> None:
    """Every vector is zero. Half of the words are linked, so half of the other language's words can be known."""
    with publish(tmp_path / "blank", "pretrain static", {}) as made:
        cfg = StaticConfig(dim=8, bits=10, sketch=0)
        encoder_files.save_encoder(StaticEncoder(cfg, torch.zeros(1 << cfg.bits, cfg.dim), {}), made.path)
    linked = [
        {"lang": "de", "src": [word("xz", n)], "tgt": [word("qw", n)], "links": [[0, 0]]}
        for n in (*range(NUM_WORDS),) * 3
    ]
    (tmp_path / "links").mkdir()
    with gzip.open(tmp_path / "links" / FILE_NAME, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in linked)
    rows = [Example(row.id, row.fields, ("low", row.label)) for row in tagged("xz", 120, 1)]
    other = [Example(row.id, row.fields, ("low", row.label)) for row in tagged("qw", 60, 2)]
    suite, right = Shape("s", "intent_slots", ("low", "high")), {}
    for folder in (None, tmp_path / "links"):
        backend = system(tmp_path / "blank")
        (head,) = backend.fit(suite, rows, [], "en", FitConfig(epochs=10, project=folder))
        found = backend.predict(head, suite, other, "de")
        right[folder is None] = np.mean(
            [a[1] == list(row.label[1]) for a, row in zip(found, other, strict=True)]
        )
    assert right[False] > 0.7 and right[True] < 0.4, right


def test_words_are_replaced_by_their_usual_translations_into_one_language() -> None:
    links = [AlignedPair("de", ("The", "rain"), ("der", "Regen"), ((0, 0), (1, 1)))] * 5
    links += [AlignedPair("de", ("rain",), ("Schnee",), ((0, 0),))]  # once
    links += [AlignedPair("fr", ("the", "rain"), ("la", "pluie"), ((0, 0), (1, 1)))] * 2
    words, draw = AlignedTranslations(["the", "RAIN", "now"], links), np.random.default_rng(1)
    made = [words.replace_words(("The", "rain", "now"), draw) for _ in range(300)]
    the = {"de": "der", "fr": "la"}
    expected = {
        (first, second, "now")
        for lang, rain in (("de", "regen"), ("fr", "pluie"))
        for first in ("The", the[lang])
        for second in ("rain", rain)
    }
    assert set(made) == expected
    replaced = np.mean([[a != b for a, b in zip(row, ("The", "rain"), strict=False)] for row in made])
    assert abs(replaced - REPLACED_SHARE) < 0.07
    assert AlignedTranslations(["snow"], links).replace_words(("rain", "snow"), draw) == ("rain", "snow")


def test_matched_is_the_sum_over_all_words_of_the_best_similarity() -> None:
    torch.manual_seed(3)
    cfg = StaticConfig(dim=6, bits=10, sketch=4)
    encoder = StaticEncoder(cfg, torch.randn(1 << cfg.bits, cfg.dim), {word_hash("ab"): 0.01})
    src, tgt = ["ab cd", "cd ef gh ab", ""], ["ij kl ij", "mn", "Ij op. 今日は", "kl ab"]
    words = {text: [w.lower() for w in split_tokens(text)] or ["."] for text in (*src, *tgt)}

    def side(texts: list[str]) -> dict[str, torch.Tensor]:
        all_words = [w for text in texts for w in words[text]]
        mean = encoder.token_vectors(all_words).mean(0)
        return {w: unit_length(encoder.token_vectors([w])[0] - mean) for w in all_words}

    a, b = side(src), side(tgt)

    def near(vector: torch.Tensor, others: dict[str, torch.Tensor]) -> float:
        return float(np.mean(sorted((float(vector @ other) for other in others.values()), reverse=True)[:10]))

    def csls(one: str, other: str) -> float:
        return float(2 * a[one] @ b[other]) - near(a[one], b) - near(b[other], a)

    candidates = np.array([[0, 2], [3, 1], [2, 3]])
    expected = np.zeros(candidates.shape)
    for i, k in product(range(3), range(2)):
        one, other = words[src[i]], words[tgt[candidates[i, k]]]
        best = [(w, max(csls(w, o) for o in other)) for w in one]
        best += [(o, max(csls(w, o) for w in one)) for o in other]
        expected[i, k] = sum(encoder.weight(w) * s for w, s in best) / sum(encoder.weight(w) for w, _ in best)
    assert np.allclose(match_candidates(encoder, src, tgt, candidates), expected, atol=1e-5)
    everything = np.tile(np.arange(len(tgt)), (len(src), 1))
    assert np.allclose(
        match_all(encoder, src, tgt), match_candidates(encoder, src, tgt, everything), atol=1e-5
    )


def test_labelled_texts_vote_by_their_words(ckpt: Path) -> None:
    """The regression knows nothing; the votes find the class of texts that share most of their words."""
    encoder, labels = encoder_files.load_encoder(ckpt), ("a", "b", "never")
    blank = fit_logistic(torch.zeros(2, encoder.dim), ["a", "b"], labels, 1.0)
    labelled, _ = texts("xz", 40, 5)
    heads = NeighbourClassifier(encoder, blank, tuple(labelled), tuple("ab" * 20), 1.0)
    asked = [" ".join(text.replace("xz", "qw").split()[:4]) for text in labelled]
    votes = heads.log_votes(asked)
    found = heads.probabilities(asked, votes).argmax(1)
    assert np.mean([labels[i] == right for i, right in zip(found, "ab" * 20, strict=True)]) > 0.9
    similar = VOTE_SHARPNESS * match_all(encoder, asked, labelled)
    near = (similar - similar.mean(0)).exp()
    expected = torch.stack([near[:, ::2].sum(1), near[:, 1::2].sum(1)], 1).log()
    assert torch.allclose(votes[:, :2], expected - expected.mean(0), atol=1e-3)
    assert not heads.log_votes(asked[: MIN_ROWS_TO_RESCALE - 1]).any(), "few texts do not say what is usual"
