"""Training a model, CCNet's perplexity, cut-offs that fit themselves, buckets and their drop reasons."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import kenlm
import pytest

from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.stages.perplexity import Perplexity, fit_cutoffs
from xling.text.document import Document, Ledger
from xling.text.lm.model import LanguageModel, load_language_model
from xling.text.lm.train import LmConfig, run
from xling.text.normalize import for_lm

SYLLABLES = [c + v for c in "bdfgklmnprst" for v in "aeiou"]


def sentence(rng: random.Random) -> str:
    words = ["".join(rng.choices(SYLLABLES[:20], k=rng.randint(1, 3))) for _ in range(rng.randint(4, 12))]
    return " ".join(words).capitalize() + "."


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("text") / "clean.txt"
    docs = ["\n".join(sentence(rng) for _ in range(5)) for _ in range(200)]
    path.write_text("\n\n".join(docs) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def lm(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lm") / "sw"
    made = run(LmConfig("sw", (str(text),), str(out), pieces=300, order=3))
    assert made.counts["documents"] == 200
    assert sorted(p.name for p in out.iterdir()) == ["lm.arpa", "manifest.json", "spm.model"]
    return out


def test_perplexity_is_ccnets(lm: Path) -> None:
    model = LanguageModel(lm)
    doc = "Bada bede 12!\nGibo «fada» gode."
    line = for_lm("Bada bede 12! Gibo «fada» gode.")
    pieces = model.pieces.model.encode(line, out_type=str)
    log10 = kenlm.Model(str(lm / "lm.arpa")).score(" ".join(pieces))
    expected = 10 ** (-log10 / (len(pieces) + 1))
    assert model.perplexity(doc) == pytest.approx(expected, rel=1e-6)
    assert model.perplexity("\n") == float("inf")


def test_pieces_word_by_word_equal_pieces_of_the_text(lm: Path, text: Path) -> None:
    pieces = LanguageModel(lm).pieces
    for line in [
        *text.read_text(encoding="utf-8").splitlines()[:50],
        "x" * 60 + " 委员会 bada",
        "bada bada 委员会",
    ]:
        assert pieces.encode(line).decode().split() == pieces.model.encode(for_lm(line), out_type=str)
    assert pieces.encode("a▁b ▁ c") == pieces.encode("a b c")  # the sign for a space is one


def test_a_word_is_encoded_without_its_neighbours(lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In a longer text rounding decides between segmentations that are as likely.
    pieces = LanguageModel(lm).pieces
    encoded: list[str] = []

    class Spy:
        def encode(self, text: str, out_type: type) -> list[str]:
            encoded.append(text)
            return ["\u2581" + text]

    monkeypatch.setattr(pieces, "model", Spy())
    assert pieces.encode("Bada bede\nbada").decode() == "\u2581bada \u2581bede \u2581bada"
    assert encoded == ["bada", "bede"]


def test_training_again_gives_the_same_bytes(lm: Path, text: Path, tmp_path: Path) -> None:
    run(LmConfig("sw", (str(text),), str(tmp_path / "lm"), pieces=300, order=3))
    for name in ("lm.arpa", "spm.model"):
        assert (tmp_path / "lm" / name).read_bytes() == (lm / name).read_bytes()


def docs(lm: Path) -> list[Document]:
    """Forty documents from fluent to scrambled."""
    rng = random.Random(1)
    made = []
    for i in range(40):
        letters = list(sentence(rng) + " " + sentence(rng))
        for _ in range(4 * i):
            letters[rng.randrange(len(letters))] = rng.choice("xyzqjwh ")
        made.append(Document(id=str(i), text="".join(letters)))
    return made


def test_cutoffs_fit_themselves(lm: Path) -> None:
    ledger = Ledger()
    scored = list(Perplexity(lm=str(lm))(docs(lm), ledger))
    assert {doc.meta["bucket"] for doc in scored} == {"all"}
    head, tail = fit_cutoffs(doc.meta["perplexity"] for doc in scored)
    split = list(Perplexity(head=head, tail=tail)(scored, Ledger()))
    buckets = [doc.meta["bucket"] for doc in split]
    assert [buckets.count(name) for name in ("head", "middle", "tail")] == [11, 12, 17]
    assert buckets[0] == "head"
    assert buckets[-1] == "tail"
    # A second model run changes nothing: what has its perplexity keeps it.
    assert [d.meta["perplexity"] for d in Perplexity(lm=str(lm))(scored, Ledger())] == [
        d.meta["perplexity"] for d in scored
    ]


@pytest.mark.parametrize(
    ("stage", "perplexity", "reason"),
    [
        (Perplexity(head=10, tail=20, keep=("middle",)), 9.9, "head"),
        (Perplexity(head=10, tail=20, keep=("head",)), 10.0, "middle"),
        (Perplexity(head=10, tail=20, keep=("head", "middle")), 20.0, "tail"),
        (Perplexity(max_perplexity=20), 20.1, "too_perplexing"),
        (Perplexity(max_perplexity=20), 20.0, ""),
        (Perplexity(head=10, tail=20), 99.0, ""),
    ],
)
def test_reasons(stage: Perplexity, perplexity: float, reason: str) -> None:
    ledger = Ledger()
    kept = list(stage([Document(id="0", text="x", meta={"perplexity": perplexity})], ledger))
    assert [why for _, why in ledger.dropped] == ([reason] if reason else [])
    assert len(kept) == (not reason)


def test_without_a_model_documents_pass() -> None:
    (doc,) = Perplexity(keep=())([Document(id="0", text="x")], Ledger())
    assert doc.meta == {"bucket": "all"}


def test_mistakes_of_the_user(tmp_path: Path, text: Path) -> None:
    with pytest.raises(UserError, match="no SentencePiece model"):
        load_language_model(tmp_path)
    with pytest.raises(UserError, match="0 <= head <= tail"):
        Perplexity(head=3, tail=2)
    with pytest.raises(UserError, match="unknown bucket 'best'"):
        Perplexity(keep=("best",))
    with pytest.raises(UserError, match="no document has a perplexity"):
        fit_cutoffs([])
    with pytest.raises(UserError, match="percentiles 60, 30"):
        fit_cutoffs([1.0], (60, 30))
    with pytest.raises(UserError, match="order=1"):
        LmConfig("sw", ("x",), order=1)
    long = tmp_path / "long.txt"
    long.write_text("\n\n".join(f"neno{i} na neno{i + 1} ni maneno" for i in range(200)))
    with pytest.raises(UserError, match=r"seed=2 changes nothing here: .* there are 200"):
        run(LmConfig("sw", (str(long),), str(tmp_path / "out"), pieces=100, seed=2))
    with pytest.raises(UserError, match=r"coverage=0.5; valid: a number from 0.98 to 1"):
        config.load(LmConfig, overrides=["lang=sw", "text=x", "coverage=0.5"])
    with pytest.raises(UserError, match="never fall"):
        LmConfig("sw", ("x",), prune=(0, 2, 1))
    short = tmp_path / "short.txt"
    short.write_text("few words\n")
    with pytest.raises(UserError, match="characters of text"):
        run(LmConfig("sw", (str(short),), str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_broken_model_is_named(lm: Path, tmp_path: Path) -> None:
    shutil.copy(lm / "spm.model", tmp_path / "spm.model")
    (tmp_path / "lm.arpa").write_text("no arpa")
    with pytest.raises(UserError, match="KenLM cannot read"):
        LanguageModel(tmp_path)


def test_forgetting_words_changes_nothing(lm: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text.read_text(encoding="utf-8").splitlines()[:60]
    known = LanguageModel(lm).pieces
    expected = [known.encode(line) for line in lines]
    monkeypatch.setattr("xling.text.lm.model._MAX_CACHED_BYTES", 50)
    pieces = LanguageModel(lm).pieces
    assert [pieces.encode(line) for line in lines] == expected
    assert len(pieces) < len(known)
