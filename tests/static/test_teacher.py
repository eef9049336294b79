"""A student of another encoder: its vectors are computed once, and every side of a row learns them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from xling.core.errors import UserError
from xling.corpora.nway import build
from xling.corpora.nway.build import NwayConfig
from xling.static import encoder_files, teacher, train
from xling.static.settings import LatentConfig, StaticTraining, TeacherConfig
from xling.static.shape import StaticConfig
from xling.static.teacher import TeacherVectors, compute_vectors, imitation_loss, reduce_vectors
from xling.text.encoders import ENCODERS, open_encoder
from xling.text.files.nway import kept_texts

NUM_TOPICS, DIM = 4, 12


class TopicEncoder:
    """Knows the topic of an English text alone: the number in its first word."""

    calls = 0
    broken = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def embed(self, texts: Sequence[str], lang: str, layer: int, pooling: str) -> np.ndarray:
        TopicEncoder.calls += len(texts)
        assert lang == "en"
        rng = np.random.default_rng(5)
        topics = rng.standard_normal((NUM_TOPICS, DIM))
        vectors = np.stack([topics[ord(text[0]) - ord("a")] for text in texts])
        return vectors * np.nan if self.broken else vectors

    def word_vectors(self, sentences: Sequence[Sequence[str]], lang: str, layer: int) -> list[np.ndarray]:
        raise AssertionError("a teacher gives vectors of sentences alone")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENCODERS._entries, "topic", TopicEncoder)
    monkeypatch.setattr(TopicEncoder, "calls", 0)


def topic_word(topic: int, number: int, letter: str) -> str:
    return f"{'abcd'[topic]}{letter}{'qwxz'[number % 4]}{'kjhv'[number // 4]}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 rows in English and Swahili; all words of a row are of one topic, and no word is in both languages."""
    folder = tmp_path_factory.mktemp("taught")
    (folder / "data/seed").mkdir(parents=True)
    rng = np.random.default_rng(1)
    rows = [(n % NUM_TOPICS, rng.integers(0, 16, 5).tolist()) for n in range(400)]
    for code, letter in (("eng_Latn", "o"), ("swh_Latn", "u")):
        text = "".join(
            " ".join(topic_word(t, n, letter)[:: 1 if letter == "o" else -1] for n in row) + "\n"
            for t, row in rows
        )
        (folder / f"data/seed/{code}.txt").write_text(text, encoding="utf-8")
    build.run(NwayConfig(folder / "data", folder / "nway", keep_texts=("en",)))
    return folder / "nway"


def config(
    corpus: Path, out: Path, encoder: str = "topic", updates: int = 80, **changes: object
) -> StaticTraining:
    return StaticTraining(
        data=corpus, out=out, updates=updates, rows=64, lr=0.05, start=LatentConfig(rounds=0),
        model=StaticConfig(dim=16, bits=10, sketch=0), teacher=TeacherConfig(encoder, **changes),  # type: ignore[arg-type]
    )  # fmt: skip


def topic_separation(folder: Path) -> float:
    """How much nearer Swahili texts of one topic are than those of two, by cosine."""
    encoder = encoder_files.load_encoder(folder)
    texts = [topic_word(topic, n, "u")[::-1] for topic in range(NUM_TOPICS) for n in range(16)]
    vectors = encoder.sentence_vectors(texts)
    topics = torch.arange(NUM_TOPICS).repeat_interleave(16)
    same = topics[:, None] == topics
    cosines = vectors @ vectors.T
    return float(cosines[same].mean() - cosines[~same].mean())


def test_a_student_gives_other_languages_the_topics_of_its_teacher(corpus: Path, tmp_path: Path) -> None:
    made = train.run(config(corpus, tmp_path / "taught", weight=1.0))
    assert topic_separation(tmp_path / "taught") > 0.5
    assert made.counts["teacher_dim"] == DIM and made.counts["teacher_texts"] == TopicEncoder.calls
    fresh = config(corpus, tmp_path / "fresh", weight=1.0, updates=1)
    train.run(fresh)
    assert topic_separation(tmp_path / "fresh") < 0.3


def test_vectors_of_the_teacher_are_computed_once_and_a_killed_run_goes_on(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teacher, "TEXTS_PER_PART", 100)
    cfg, texts = TeacherConfig("topic:elsewhere"), [f"{'abcd'[n % 4]}o{n}" for n in range(250)]
    whole = compute_vectors(cfg, corpus, texts)
    assert whole.shape == (250, DIM) and TopicEncoder.calls == 250
    parts = sorted(corpus.parent.glob(".nway.teacher-*/1.npy"))
    newest = max(parts, key=lambda path: path.stat().st_mtime_ns)
    assert np.load(newest).dtype == np.float16
    newest.unlink()
    assert torch.equal(compute_vectors(cfg, corpus, texts), whole)
    assert TopicEncoder.calls == 350, "the missing part alone"
    content = bytearray(newest.read_bytes())
    content[129] ^= 1
    newest.write_bytes(content)
    assert torch.equal(compute_vectors(cfg, corpus, texts), whole)
    assert TopicEncoder.calls == 450, "the damaged part alone"


def test_rows_without_a_text_of_the_teacher_have_no_vector(corpus: Path) -> None:
    cfg = TeacherConfig("topic:some", max_texts=50)
    vectors = TeacherVectors(cfg, corpus, 8)
    known, found = vectors.of_rows(np.zeros(400, np.int64), np.arange(400))
    assert found.shape == (len(known), 8) and 50 <= len(known) < 400
    texts = kept_texts(corpus, ("en",))[0]
    assert len({texts[row] for row in known.tolist()}) == 50
    of_topic = {texts[row][0]: vector for row, vector in zip(known.tolist(), found, strict=True)}
    assert all(torch.equal(of_topic[texts[row][0]], v) for row, v in zip(known.tolist(), found, strict=True))


def test_reduced_vectors_keep_the_angles_of_the_principal_directions() -> None:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(200, 3, generator=generator) @ torch.randn(3, 10, generator=generator)
    reduced = reduce_vectors(vectors + 7, 3).float()
    centred = F.normalize(vectors - vectors.mean(0), dim=1)
    assert torch.allclose(reduced @ reduced.T, centred @ centred.T, atol=5e-3)
    assert reduce_vectors(vectors, 64).shape == (200, 10)


def test_a_text_that_occurs_twice_is_no_wrong_answer() -> None:
    target = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), dim=1)
    assert float(imitation_loss(target, target, 0.05, 1.0)) == pytest.approx(0, abs=1e-6)
    swapped = target[[2, 2, 0]]
    # Cross-entropy of cosines 0 and 1 at temperature .5, and squared distances of 2.
    apart = imitation_loss(swapped, target, 0.5, 1.0)
    expected = (2 * np.log(1 + np.exp(2)) + np.log(1 + 2 * np.exp(2))) / 3 + 2
    assert float(apart) == pytest.approx(expected, abs=1e-5)


def test_what_is_no_teacher_is_refused(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="neither a folder nor a name"):
        open_encoder(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="keeps no text in de"):
        train.run(config(corpus, tmp_path / "out", langs=("de",)))
    monkeypatch.setattr(TopicEncoder, "broken", True)
    with pytest.raises(UserError, match="one vector of finite numbers for each text"):
        train.run(config(corpus, tmp_path / "out", "topic:broken"))
    with pytest.raises(UserError, match=r"no text below .* is in fr"):
        build.run(NwayConfig(corpus.parent / "data", tmp_path / "nway", keep_texts=("fr",)))
    for changes, message in (
        ({"weight": 0.0}, "weight=0"), ({"max_texts": -1}, "max_texts=-1"), ({"temperature": 0.0}, "temperature"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            config(corpus, tmp_path / "out", **changes)
    with pytest.raises(UserError, match="no teacher"):
        config(corpus, tmp_path / "out", "", weight=0.7)
