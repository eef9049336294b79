"""`xling finetune` on a static encoder: the fit of `xling eval`, kept in a folder that `xling predict` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file
from static_helpers import by_hand, classified, tagged, texts

import xling
from xling.cli import main
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.scores import predictions
from xling.static.encoder_files import load_encoder
from xling.static.head_files import read_task


@pytest.fixture(scope="module")
def ckpt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return by_hand(tmp_path_factory.mktemp("static") / "model")


def write_classes(path: Path, lang: str, num_rows: int, seed: int) -> list[str]:
    rows = classified(lang, num_rows, seed)
    path.write_text("".join(f"{row.fields['text']}\t{row.label}\n" for row in rows))
    return [row.fields["text"] for row in rows]


def write_pairs(path: Path, lang: str, num_rows: int, seed: int) -> list[tuple[str, str]]:
    found, _ = texts(lang, 2 * num_rows, seed)
    pairs = [(found[i], found[i if i % 2 else i + 1]) for i in range(num_rows)]
    path.write_text("".join(f"{a}\t{b}\t{'same' if a == b else 'other'}\n" for a, b in pairs))
    return pairs


def write_tags(path: Path, lang: str, num_rows: int, seed: int) -> list[tuple[str, ...]]:
    rows = tagged(lang, num_rows, seed)
    sentences = [zip(row.fields["tokens"], row.label, strict=True) for row in rows]
    path.write_text("\n".join("".join(f"{w}\t{tag}\n" for w, tag in each) for each in sentences) + "\n")
    return [row.fields["tokens"] for row in rows]


def answers_in(run: Path) -> list[Any]:
    (file,) = predictions.files(run)
    return [json.loads(each) for each in pl.read_parquet(file)["prediction"]]


KINDS: dict[str, Any] = {
    "classes": (write_classes, "tsv"),
    "pairs": (write_pairs, "tsv"),
    "tags": (write_tags, "conll"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_eval(
    kind: str, ckpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write, ending = KINDS[kind]
    write(Path(f"en.train.{ending}"), "xz", 80, 1)
    inputs = write(Path(f"sw.test.{ending}"), "qw", 60, 2)
    fit, train = ["fit.epochs=2"], f"en.train.{ending}"
    assert main(["eval", kind, f"train={train}", f"test.sw=sw.test.{ending}", f"checkpoint={ckpt}",
                 "out=eval", "systems=pretrained", "seeds=1", *fit]) == 0  # fmt: skip
    of_eval = answers_in(Path("eval"))

    command = ["finetune", f"{kind}={train}", f"checkpoint={ckpt}", "out=tuned", *fit]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "next: xling predict tuned FILE" in said
    tuned = xling.load("tuned")
    found: list[Any] = tuned.predict(inputs, lang="sw")
    assert ([[tag for _, tag in row] for row in found] if kind == "tags" else found) == of_eval
    assert {type(label) for label in np.ravel(of_eval)} == {str}

    assert main(["predict", "tuned", f"sw.test.{ending}", "lang=sw"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("tags", row.get("label")) for row in rows] == of_eval

    # Eval scores the kept head, and does not train it again.
    assert main(["eval", kind, f"test.sw=sw.test.{ending}", f"train={train}", "checkpoint=tuned",
                 "out=again", "systems=pretrained"]) == 0  # fmt: skip
    assert answers_in(Path("again")) == of_eval

    # The vectors are those of the encoder.
    sentences = [" ".join(i) if isinstance(i, tuple) else i for i in inputs]
    np.testing.assert_array_equal(tuned.encode(sentences, "sw"), xling.load(ckpt).encode(sentences, "sw"))

    before = manifest.read(Path("tuned"))
    assert main(command) == 0 and "finished already" in capsys.readouterr().err
    assert manifest.read(Path("tuned")) == before
    write(Path(train), "xz", 70, 3)
    assert main(command) == 2 and "overwrite" in capsys.readouterr().err
    assert main([*command, "overwrite=true"]) == 0
    assert manifest.read(Path("tuned")).digest() != before.digest()
