"""How BLEU splits texts, what is told when it cannot, and averages that never mix two ways."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sacrebleu.tokenizers.tokenizer_spm as spm
import sacrebleu.utils
import sentencepiece
from sacrebleu.metrics.bleu import BLEU

from xling.core.errors import UserError
from xling.eval.metrics import METRICS, evaluate
from xling.eval.metrics import text as metrics
from xling.eval.report import overall
from xling.eval.rows.suite import Example
from xling.eval.run import evaluation
from xling.eval.run.settings import EvalConfig
from xling.eval.scores.score_file import Score
from xling.eval.tables import score_table
from xling.eval.tables.columns import averaged_in_publication
from xling.text.tokenizers import bleu_words

LINES = ["The cat is on the mat.", "Habari za asubuhi rafiki!", "Es regnet heute nicht."] * 40


@pytest.fixture
def anew() -> Iterator[None]:
    """Forget tokenizers before and after a test that changes what is installed."""
    bleu_words.bleu_tokeniser.cache_clear()
    metrics.scorer.cache_clear()
    yield
    bleu_words.bleu_tokeniser.cache_clear()
    metrics.scorer.cache_clear()


@pytest.mark.parametrize(("lang", "with_it"), [("ja", "ja-mecab"), ("jpn", "ja-mecab"), ("ko", "ko-mecab")])
def test_japanese_and_korean_are_split_by_mecab_where_it_is_installed(
    lang: str, with_it: str, monkeypatch: pytest.MonkeyPatch, anew: None
) -> None:
    asked: list[str] = []
    found = {"there": object()}
    monkeypatch.setattr(
        bleu_words.importlib.util, "find_spec", lambda name: asked.append(name) or found.get("there")
    )
    assert bleu_words.bleu_tokeniser(lang) == with_it
    assert set(asked) == set(bleu_words.MECAB_TOKENIZERS[with_it[:2]][1])
    found.clear()
    bleu_words.bleu_tokeniser.cache_clear()
    assert bleu_words.bleu_tokeniser(lang) == "char"
    assert metrics.tokens("bleu", f"en-{lang}") == "char (MeCab is not installed)"


def test_the_modules_of_mecab_are_those_that_sacrebleu_imports() -> None:
    folder = Path(sys.modules["sacrebleu"].__file__ or "").parent / "tokenizers"
    for name, modules in bleu_words.MECAB_TOKENIZERS.values():
        source = (folder / f"tokenizer_{name.replace('-', '_')}.py").read_text()
        imported = {line.split()[1] for line in source.splitlines() if line.startswith("    import ")}
        assert imported == set(modules), name


@pytest.mark.parametrize(
    ("lang", "wanted"), [("zh", "zh"), ("yue", "char"), ("th", "char"), ("de", "13a"), ("made_up", "13a")]
)
def test_other_languages(lang: str, wanted: str) -> None:
    assert bleu_words.bleu_tokeniser(lang) == wanted


def test_spbleu_without_its_model_is_told_before_anything_is_translated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: None
) -> None:
    monkeypatch.setattr(sacrebleu.utils, "SACREBLEU_DIR", str(tmp_path))
    for folder in ("dev", "devtest"):
        (tmp_path / f"flores200_dataset/{folder}").mkdir(parents=True)
    (tmp_path / "flores").mkdir()
    for lang in ("en", "de"):
        (tmp_path / f"flores/en-de.test.{lang}").write_text("Berlin\n")
    with pytest.raises(
        UserError, match=r"models/flores200sacrebleuspm does not exist.*the suite flores has BLEU"
    ):
        evaluation.run(
            EvalConfig(
                ("flores_spbleu",), tmp_path / "out", tmp_path, systems=("majority",), langs=("en-de",)
            )
        )
    assert not (tmp_path / "out").exists()


def test_spbleu_is_sacrebleu_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: None) -> None:
    """With a small model in the place of the published one."""
    (tmp_path / "text").write_text("\n".join(LINES))
    (tmp_path / "models").mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text"), model_prefix=str(tmp_path / "m"), vocab_size=29, minloglevel=2
    )
    (tmp_path / "m.model").rename(tmp_path / "models" / metrics.SPM_MODEL)
    monkeypatch.setattr(sacrebleu.utils, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(spm, "SACREBLEU_DIR", str(tmp_path))
    references, answers = (
        LINES[:3],
        ["The cat sat on the mat.", "Habari ya asubuhi!", "Heute regnet es nicht."],
    )
    wanted = BLEU(tokenize="flores200").corpus_score(answers, [references])
    rows = [Example(str(i), {"text": ""}, line) for i, line in enumerate(references)]
    for lang in ("en-sw", "en-zh"):
        assert evaluate(METRICS["spbleu"], rows, answers, lang)[0] == pytest.approx(wanted.score, abs=1e-9)
        assert "tok:flores200" in METRICS["spbleu"].signature(lang)
    assert METRICS["spbleu"].reduce(np.zeros((2, 10))).tolist() == [0, 0]
    assert METRICS["spbleu"].tokens is None, "all languages are split in one way"


def bleu(lang: str, value: float, metric: str = "bleu") -> Score:
    return Score("mt", lang, metric, value, 10, 1, source="")


def test_an_average_never_mixes_two_ways_to_split(anew: None) -> None:
    scores = [bleu("en-de", 20.0), bleu("en-fr", 30.0), bleu("en-zh", 90.0), bleu("en-th", 80.0)]
    scores += [bleu(s.lang, s.value + 1, "chrf") for s in scores]
    table = score_table.language_table(scores)
    means = {line.name: [cell.value for cell in line.cells] for line in table.lines}
    assert means["average"] == [25.0, 56.0], "BLEU of two languages, chrF of all four"
    assert means["en-zh"] == [90.0, 91.0], "what is in no average is shown"
    (note,) = (note for note in table.notes if "averages are over" in note)
    assert note == "mt, bleu: averages are over scores that count 13a; not in them: char: en-th; zh: en-zh."
    assert overall.overall(scores, lambda *_: None, []).rows[0][1].startswith("25.0")
    assert averaged_in_publication("mt", ["en-zh", "en-de", "en-fr"], "bleu") == ["en-de", "en-fr"]
    assert averaged_in_publication("mt", ["en-zh", "en-de", "en-ja"], "ter") == ["en-zh", "en-ja"]
    assert averaged_in_publication("mt", [], "bleu") == []
