"""`xling run hour` from a data folder to the report, on two languages whose words are ciphers of each other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import speedrun
from xling.core.commands import pipeline
from xling.core.commands.parallel_steps import run_steps
from xling.core.commands.pipeline import RECIPES_FOLDER
from xling.core.errors import UserError
from xling.eval.rows.suite import suites
from xling.eval.scores.score_file import Score, read_scores
from xling.static import word_frequency

SUITES = ("ntrex", "tatoeba", "sib200", "xnli", "udpos", "panx", "uner", "masakhaner", "xsid")
NUM_WORDS = 60
VOWELS = {"en": "aei", "de": "ouy"}


def word(lang: str, number: int) -> str:
    """A word of two syllables; no vowel is in both languages."""
    first, second = divmod(number, 30)
    return (
        f"{'bdfgklmnprst'[second % 12]}{VOWELS[lang][second // 12]}{'vzhj'[first]}{VOWELS[lang][number % 3]}"
    )


def sentence(lang: str, row: Iterable[int]) -> tuple[str, ...]:
    return tuple(word(lang, n) for n in row)


def write_rows(data: Path, suite: str, lang: str, split: str, rows: Iterable[dict[str, Any]]) -> None:
    path = data / "rows" / suite / f"{lang}.{split}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": str(i), **row}) for i, row in enumerate(rows))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def rows_of(kind: str, lang: str, numbers: np.ndarray, other: np.ndarray) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i, row in enumerate(numbers.tolist()):
        words, is_low = sentence(lang, row), sum(n < NUM_WORDS // 2 for n in row) > 4
        tags = ["B-PER" if n < 12 else "O" for n in row]
        if kind == "retrieval":
            made.append(
                {"fields": {"text_a": " ".join(words), "text_b": " ".join(sentence("en", row))}, "label": i}
            )
        elif kind == "classify":
            made.append({"fields": {"text": " ".join(words)}, "label": "sports" if is_low else "health"})
        elif kind == "pair":
            kept = row[:3] if i % 2 else other[i].tolist()[:3]
            fields = {"text_a": " ".join(words), "text_b": " ".join(sentence(lang, kept))}
            made.append({"fields": fields, "label": "entailment" if i % 2 else "neutral"})
        elif kind == "pos":
            tags = ["NOUN" if n < NUM_WORDS // 2 else "VERB" for n in row]
            made.append({"fields": {"tokens": words}, "label": tags})
        elif kind == "spans":
            made.append({"fields": {"tokens": words}, "label": tags})
        else:
            intent = "weather/find" if is_low else "PlayMusic"
            made.append({"fields": {"tokens": words}, "label": [intent, tags]})
    return made


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """600 aligned rows, and rows of every suite."""
    rng, folder = np.random.default_rng(1), tmp_path / "data"
    (folder / "seed").mkdir(parents=True)
    rows = rng.integers(0, NUM_WORDS, (600, 8))
    for code, lang in (("eng_Latn", "en"), ("deu_Latn", "de")):
        text = "".join(" ".join(sentence(lang, row)) + "\n" for row in rows.tolist())
        (folder / "seed" / f"{code}.txt").write_text(text, encoding="utf-8")
    kinds = {
        "ntrex": "retrieval",
        "tatoeba": "retrieval",
        "sib200": "classify",
        "xnli": "pair",
        "udpos": "pos",
    }
    kinds |= dict.fromkeys(("panx", "uner", "masakhaner"), "spans") | {"xsid": "both"}
    for suite, kind in kinds.items():
        for split, size in (("train", 200), ("dev", 40), ("test", 60)):
            for lang in ("en", "de") if split != "train" else ("en",):
                numbers, other = rng.integers(0, NUM_WORDS, (2, size, 8))
                code = "sw" if suite == "masakhaner" else lang
                is_pair = kind == "retrieval"
                if (is_pair and split != "test") or (lang == "en" and (is_pair or code == "sw")):
                    continue
                write_rows(folder, suite, code, split, rows_of(kind, lang, numbers, other))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_hour_in_seconds(data: Path, tmp_path: Path) -> None:
    words = [
        f"data={data}",
        f"out={tmp_path / 'hour'}",
        "seeds=1",
        "dim=32",
        "bits=12",
        "pairs=200",
        "names.fit.epochs=8",
        "requests.fit.epochs=12",
        *(f"{name}_controls.fit.epochs=1" for name in ("names", "tags", "requests")),  # not compared
    ]
    for name, updates in (("encoder", 80), ("encoder_ntrex", 10), ("encoder_all", 10)):
        words += [f"{name}.updates={updates}", f"{name}.rows=64"]
    made = pipeline.read(RECIPES_FOLDER / "hour.yaml", words)
    assert made.steps_at_once == 2
    # One at a time, in this process: the imports of twenty processes would take longer than the hour.
    ended = [name for name, _ in run_steps(made, {name: made.settings(name) for name in made.steps}, 1)]
    assert ended[-1] == "report"
    folders = [tmp_path / "hour" / name for name, step in made.steps.items() if step.stage == "eval"]
    scores = {
        (score.suite, score.lang, score.system, score.metric): score.value
        for folder in folders
        for score in read_scores(folder / "tables/scores.json")
    }
    assert {suite for suite, *_ in scores} == set(SUITES)
    main = {suite: suites()[suite].metric for suite in SUITES}
    foreign = {
        (suite, system): value
        for (suite, lang, system, metric), value in scores.items()
        if lang != "en" and metric == main[suite]
    }
    for suite in SUITES:
        assert foreign[suite, "pretrained"] > foreign[suite, "majority"] + 5, (suite, foreign)
    # Linked words teach tags to random weights too, and the words of a pair are of one language.
    for suite in ("ntrex", "tatoeba", "sib200"):
        assert foreign[suite, "pretrained"] > foreign[suite, "random"] + 5, (suite, foreign)
    assert foreign["ntrex", "pretrained"] > 90
    # The languages share no word, so n-grams know nothing, and a dictionary knows everything.
    for suite in ("ntrex", "tatoeba", "sib200"):
        assert foreign[suite, "dictionary"] > foreign[suite, "majority"] + 20, (suite, foreign)
    assert (tmp_path / "hour/report/report.html").is_file()


def test_a_row_of_the_speed_run_holds_the_mean_over_suites_without_english() -> None:
    def score(suite: str, lang: str, value: float, **more: Any) -> Score:
        return Score(
            suite, lang, **{"metric": suites()[suite].metric, "value": value, "n": 1, "seed": 1} | more
        )

    scores = [
        score("sib200", "en", 90.0), score("sib200", "de", 40.0), score("sib200", "sw", 60.0),
        score("sib200", "de", 1.0, system="random"), score("panx", "de", 20.0), score("panx", "de", 30.0, seed=2),
        score("xsid", "de", 99.0, metric="intent_accuracy"), score("udpos", "wo", 9.0), score("udpos", "fr", 70.0),
    ]  # fmt: skip
    found = speedrun.averages(scores)
    assert found == {"sib200": 50.0, "udpos": 70.0, "panx": 25.0}  # Wolof is not in the published suite
    assert speedrun.row("more rows", found, 61.2, "abc1234").startswith(
        "| more rows | **48.3** | 50.0 | - | 70.0 | 25.0 |"
    )
    with pytest.raises(UserError, match="is there already"):
        speedrun.main(["words", f"data={Path(__file__).parent}", f"out={Path(__file__).parent}"])


def test_the_share_of_a_word_is_scaled_by_its_logarithm() -> None:
    least = word_frequency.MIN_SHARE
    found = word_frequency._log_scale(np.array([least / 2, least, least**0.5, 1.0]))
    assert found.tolist() == pytest.approx([0, 0, 0.5, 1])
