"""Unsupervised translation as a command: selection, collapse, baselines, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.settings import config
from xling.corpora.binarize import BinarizeConfig
from xling.corpora.binarize import run as binarize
from xling.models.generate.settings import Search
from xling.training import train
from xling.training.settings import PretrainConfig
from xling.transfer.translation import unsupervised
from xling.transfer.translation.unsupervised import tokenised_bleu
from xling.transfer.translation.without_references import (
    CollapseConfig,
    Examiner,
    check_not_collapsed,
    copied_share,
    distinct_pairs,
    share_in_language,
)

TINY = (
    "model.layers=1", "model.dim=32", "model.heads=2", "model.ffn_dim=64", "model.max_positions=64",
    "model.precision=fp32", "model.dropout=0", "tokens_per_sample=48", "train.updates=4", "train.batch_tokens=256",
    "train.warmup=1", "train.log_every=2", "train.valid_every=2", "train.save_every=2", "valid_lines=4", "pairs=en-ar",
)  # fmt: skip
SOUND = {"copied": 0.1, "in_language": 0.9, "length_ratio": 1.0, "distinct": 0.8}


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


@pytest.fixture(scope="module")
def text(corpus: Path, vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Monolingual shards of en and ar, a parallel test set and a dictionary."""
    folder = tmp_path_factory.mktemp("umt")
    for lang in ("en", "ar"):
        rows = lines(corpus / f"{lang}.txt")
        (folder / lang).write_text("".join(f"{line}\n\n" for line in rows), encoding="utf-8")
        (folder / f"test.{lang}").write_text("".join(f"{line}\n" for line in rows[:6]), encoding="utf-8")
    (folder / "words").write_text("boat\tقاربا\nsees\tترى\n", encoding="utf-8")
    files = {lang: (f"{folder}/{lang}",) for lang in ("en", "ar")}
    binarize(BinarizeConfig(vocab=str(vocab), out=str(folder / "shards"), corpora=files, valid_docs=8))
    return folder


def settings(folder: Path, out: Path, *words: str) -> unsupervised.UmtConfig:
    return config.load(
        unsupervised.UmtConfig, overrides=[f"data={folder}/shards", f"out={out}", *TINY, *words]
    )


def test_it_selects_without_parallel_text_and_scores_with_baselines(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        f"test.en-ar={text}/test.en,{text}/test.ar",
        f"oracle.en-ar={text}/test.en,{text}/test.ar",
        f"back.dictionaries=en-ar={text}/words",
    ]
    cfg = settings(text, tmp_path / "out", *words, "denoise_settings.schedule=0:1,4:0.1")
    made = unsupervised.run(cfg)
    scores = json.loads((tmp_path / "out/scores.json").read_text())
    assert scores["selection"].startswith("two_way") and "ORACLE" not in scores["selection"]
    assert set(scores["two_way"]) == set(scores["oracle"]) == {"2", "4"}
    assert str(scores["update"]) in scores["two_way"] and scores["behind_oracle"] >= 0
    assert set(scores["test"]["en-ar"]) == {"model", "copy", "word_by_word"}
    assert all("version:" in found["signature"] for found in scores["test"]["en-ar"].values())
    events = [json.loads(line) for line in lines(tmp_path / "out/log.jsonl")]
    (last,) = [event for event in events if event["split"] == "valid" and event["update"] == 4]
    assert {f"ar-en/{key}" for key in (*SOUND, "round_trip")} <= set(last)
    assert "loss/dae/en" in last or "loss/dae/ar" in last
    assert "share no vocabulary item" not in capsys.readouterr().err
    assert unsupervised.run(cfg) == made  # a rerun does nothing
    assert not (tmp_path / "out.train").exists()


def test_the_best_weights_are_published_not_the_last(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[dict[str, torch.Tensor]] = []

    def examine(self: Any, model: Any) -> dict[str, float]:
        kept.append({k: v.clone() for k, v in model.state_dict().items() if k.endswith("tokens.weight")})
        return {"two_way": 9.0 - len(kept)}

    monkeypatch.setattr("xling.transfer.translation.without_references.Examiner.__call__", examine)
    unsupervised.run(settings(text, tmp_path / "out", "denoise=mass"))
    state = torch.load(tmp_path / "out/model.pt", weights_only=True)["weights"]
    name = "encoder.tokens.weight"
    assert torch.equal(state[name], kept[0][name]) and not torch.equal(state[name], kept[1][name])
    assert manifest.read(tmp_path / "out").counts["scores"]["update"] == 2


def test_a_collapsed_run_stops_with_its_reason(text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"en-ar has collapsed after 4 updates: it copies"):
        unsupervised.run(
            settings(text, tmp_path / "out", "collapse.after=0", "collapse.patience=2", "collapse.copied=-1")
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("worse", "reason"),
    [
        ({"copied": 0.9}, "copies 90%"),
        ({"in_language": 0.2}, "in 20% of the outputs"),
        ({"length_ratio": 3.0}, "3.00 tokens"),
        ({"length_ratio": 0.1}, "0.10 tokens"),
        ({"distinct": 0.05}, "repeats itself"),
    ],
)
def test_collapse_needs_patience(worse: dict[str, float], reason: str) -> None:
    def event(update: int, seen: dict[str, float]) -> dict[str, Any]:
        return {"update": update, **{f"en-fr/{key}": value for key, value in seen.items()}}

    bad, limits = SOUND | worse, CollapseConfig(patience=2, after=10)
    check_not_collapsed([event(20, bad), event(30, SOUND), event(40, bad)], ["en-fr"], limits)
    check_not_collapsed([event(5, bad), event(10, bad), event(20, bad)], ["en-fr"], limits)
    check_not_collapsed([event(20, bad), event(30, bad)], ["en-fr"], CollapseConfig(patience=0, after=10))
    with pytest.raises(UserError, match=reason):
        check_not_collapsed([event(20, SOUND), event(30, bad), event(40, bad)], ["en-fr"], limits)


def test_the_language_of_pieces() -> None:
    counts = torch.zeros(3, 10)
    counts[0, [4, 5, 6]], counts[1, [6, 7, 8]], counts[2, 9] = 5.0, 5.0, 50.0
    made = [np.array([4, 5]), np.array([6, 7]), np.array([8]), np.zeros(0, dtype=np.int64)]
    assert share_in_language(counts, made, 0, (0, 1)) == 0.25
    assert share_in_language(counts, made, 1, (0, 1)) == 0.5


def test_copies_and_repetitions_are_counted() -> None:
    assert copied_share(["A red boat .", "x"], ["a red red house", "y"]) == 2 / 5
    assert copied_share(["a"], [""]) == 0
    assert distinct_pairs(["a b a b", "a b"]) == 0.5
    assert distinct_pairs(["a"]) == 0


def test_tokenised_bleu_ignores_case_and_spacing() -> None:
    assert tokenised_bleu(["A Man , sits down here ."], ["a man, sits down here."]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["pairs=en-en"], "two different languages"),
        (["pairs=en-fr"], "no text in fr"),
        (["pairs=[]"], "no pair is named"),
        (["select=oracle"], "select=oracle without parallel text"),
        (["test.en-ar=a"], r"test\.en-ar: 1 files"),
        (["oracle.en-ar=a", "test.en-ar=a,b"], r"oracle\.en-ar: 1 files; valid: two: sources and references"),
    ],
)
def test_mistakes_are_named(text: Path, tmp_path: Path, words: list[str], what: str) -> None:
    with pytest.raises(UserError, match=what):
        unsupervised.run(settings(text, tmp_path / "out", *words))


def test_a_checkpoint_without_the_language_is_refused(text: Path, tmp_path: Path) -> None:
    small = [word for word in TINY if word.startswith("model.")]
    train.run(
        config.load(
            PretrainConfig,
            overrides=[f"data={text}/shards", f"out={tmp_path}/en", "langs=en", *small, "train.updates=1",
                       "objectives.mmlm.tokens_per_sample=48", "train.batch_tokens=256"],
        )
    )  # fmt: skip
    with pytest.raises(UserError, match="was not trained on 'ar'"):
        unsupervised.run(settings(text, tmp_path / "out", f"checkpoint={tmp_path}/en"))


def test_strangers_are_warned_of(
    text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart = torch.zeros(2, 9)
    apart[0, 4], apart[1, 5] = 1.0, 1.0
    monkeypatch.setattr(unsupervised, "count_pieces", lambda *_: apart)
    unsupervised.warn_if_no_shared_pieces(text / "shards", "en-ar")
    assert "en and ar share no vocabulary item" in capsys.readouterr().err


def test_an_examiner_asks_both_ways_and_counts_sound_ones_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"round_trip": 30.0, "copied": 0.1, "in_language": 0.9, "length_ratio": 1.0, "distinct": 1.0}
    told = {(0, 1): seen, (1, 0): seen | {"round_trip": 50.0, "copied": 0.9}}
    monkeypatch.setattr(Examiner, "measure_direction", lambda self, model, src, tgt: told[src, tgt])
    symbols = type("Symbols", (), {"langs": ("en", "sw")})
    numbers = Examiner({}, [(0, 1)], symbols, None, Search())(None)
    assert numbers["two_way"] == 15.0, "what is copied is no translation"
    assert (numbers["en-sw/round_trip"], numbers["sw-en/round_trip"]) == (30.0, 50.0) and len(numbers) == 11
