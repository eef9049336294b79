"""The first hour of a new user: 22 text files, a CSV, a CoNLL file, a TSV of topics, one model, predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import xling
from tests.conftest import TINY, sentences
from xling.cli import main
from xling.core.output import manifest

PLAIN = ["dedup=false", "near_dedup=false", "after_dedup=[]", "before_dedup=repair"]


def run(*words: str) -> None:
    assert main(words) == 0


def write_files(arabic: list[str], english: list[str]) -> None:
    """Write what a new user has into the working directory."""
    for code, texts in (("ar", arabic), ("en", english)):
        Path(code).mkdir()
        for number in range(22):
            part = texts[20 * number : 20 * number + 20]
            Path(code, f"{number}.txt").write_text("\n".join(part), encoding="utf-8")
    Path("news.csv").write_text(
        "id,body\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(arabic[:30])), encoding="utf-8"
    )
    tagged = "".join(f"{word}\tO\n" for word in arabic[0].split()) + "Amina\tB-PER\n\n"
    Path("ar.test.conll").write_text(tagged * 3, encoding="utf-8")
    Path("en.train.conll").write_text("teacher\tO\nAmina\tB-PER\n\n" * 8, encoding="utf-8")
    topics = "".join(f"{text}\t{('sport', 'politics')[n % 2]}\n" for n, text in enumerate(english[:24]))
    Path("topics.tsv").write_text("maandishi\tmada\n" + topics, encoding="utf-8")
    Path("export.csv").write_text(
        "Nr.;Makala (asili);Our translation\n"
        + "".join(f'{n};"{a}";"{e}"\n' for n, (a, e) in enumerate(zip(arabic, english, strict=True))),
        encoding="utf-8-sig",
    )


@pytest.mark.slow
def test_from_own_files_to_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arabic, english = sentences("ar")[:440], sentences("en")[:440]
    write_files(arabic, english)

    run("corpus", "mono", "lang=ar", "source=text:ar/*.txt,csv:news.csv#body", "out=runs/ar", *PLAIN)
    kept = "\n".join(xling.corpus.texts("runs/ar"))
    assert kept.count("\n") == 440 + 30 - 1 and "body" not in kept
    run("corpus", "mono", "lang=en", "source=text:en/*.txt", "out=runs/en", *PLAIN)

    run("corpus", "parallel", "pair=en-ar", "source=csv:export.csv#Our translation+Makala (asili)", "filters=empty",
        "dev_pairs=20", "test_pairs=20", "out=runs/pairs")  # fmt: skip
    sides = [Path("runs/pairs", f"train.{code}").read_text("utf-8").splitlines() for code in ("en", "ar")]
    assert set(zip(*sides, strict=True)) < set(zip(english, arabic, strict=True))

    run(
        "encoder",
        "data=.",
        "langs=ar,en",
        "out=runs/encoder",
        "dim=32",
        "bits=12",
        "encoder.updates=40",
        "encoder.rows=64",
    )
    assert capsys.readouterr().out.count("held_out: no fine-tuning") == 1  # the table, printed once
    assert manifest.read(Path("runs/encoder/rows")).counts["rows"]["own"]["ar"] > 400
    assert Path("runs/encoder/report/report.html").is_file()
    of = {
        s["system"]: s["value"]
        for s in json.loads(Path("runs/encoder/scores/tables/scores.json").read_text())["scores"]
    }
    assert of["pretrained"] > of["random"]

    corpora = ["corpora.ar=runs/ar", "corpora.en=runs/en"]
    run("vocab", *corpora, "size=90", "coverage=1.0", "out=runs/vocab")
    run("binarize", "vocab=runs/vocab", *corpora, "out=runs/shards")
    run("pretrain", "data=runs/shards", "out=runs/model", *TINY, "train.updates=5")
    run("eval", "tags", "train=en.train.conll", "test.ar=ar.test.conll", "checkpoint=runs/encoder/encoder",
        "out=runs/tags", "seeds=1", "fit.epochs=1", "systems=pretrained,majority")  # fmt: skip
    assert "pretrained" in capsys.readouterr().out
    run("finetune", "classes=topics.tsv", "checkpoint=runs/model", "out=runs/topics", "fit.epochs=1")
    Path("new.txt").write_text("\n".join(arabic[:3]), encoding="utf-8")
    capsys.readouterr()
    run("predict", "runs/topics", "new.txt", "lang=ar")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["text"] for row in answers] == arabic[:3]
    assert {row["label"] for row in answers} <= {"sport", "politics"}
    assert xling.load("runs/topics").predict(arabic[:3], lang="ar") == [row["label"] for row in answers]
