"""`xling finetune` on a static encoder: the fit of `xling eval`, kept in a folder that `xling predict` reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file, save_file
from static_helpers import by_hand, classified, tagged, texts

import xling
from xling.cli import main
from xling.core import progress
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.eval.scores import predictions


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


KINDS: dict[str, Any] = {
    "classes": (write_classes, "tsv"),
    "pairs": (write_pairs, "tsv"),
    "tags": (write_tags, "conll"),
}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("tags", "fit a tagger: 144 of 144 sentences"),
        ("pairs", "fit a classifier of pairs: 144 of 144 pairs"),
    ],
)
def test_training_says_how_far_it_is(
    kind: str,
    said: str,
    ckpt: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write, ending = KINDS[kind]
    write(Path(f"en.train.{ending}"), "xz", 80, 1)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    assert (
        main(["finetune", f"{kind}=en.train.{ending}", f"checkpoint={ckpt}", "out=tuned", "fit.epochs=2"])
        == 0
    )
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fit ")]
    assert len(shown) > 2 and shown[-1].startswith(said), shown


def answers_in(run: Path) -> list[Any]:
    (file,) = predictions.files(run)
    return [json.loads(each) for each in pl.read_parquet(file)["prediction"]]


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
    capsys.readouterr()
    tuned = xling.load("tuned")
    found: list[Any] = tuned.predict(inputs, lang="sw")
    assert ([[tag for _, tag in row] for row in found] if kind == "tags" else found) == of_eval

    labelled = Path(f"sw.test.{ending}").read_text().splitlines()
    Path(f"new.{ending}").write_text("".join(line.rpartition("\t")[0] + "\n" for line in labelled))
    assert main(["predict", "tuned", f"new.{ending}", "lang=sw"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("tags", row.get("label")) for row in rows] == of_eval

    # Eval scores the kept head, and does not train it again.
    assert main(["eval", kind, f"test.sw=sw.test.{ending}", f"train={train}", "checkpoint=tuned",
                 "out=again", "systems=pretrained"]) == 0  # fmt: skip
    assert answers_in(Path("again")) == of_eval

    # The vectors are those of the encoder.
    sentences = [" ".join(i) if isinstance(i, tuple) else i for i in inputs]
    np.testing.assert_array_equal(tuned.encode(sentences, "sw"), xling.load(ckpt).encode(sentences, "sw"))

    before, inode = manifest.read(Path("tuned")), Path("tuned").stat().st_ino
    assert main(command) == 0
    assert Path("tuned").stat().st_ino == inode
    write(Path(train), "xz", 70, 3)
    assert main(command) == 2 and "overwrite" in capsys.readouterr().err
    assert main([*command, "overwrite=true"]) == 0
    assert manifest.read(Path("tuned")).digest() != before.digest()


@pytest.fixture(scope="module")
def tuned(ckpt: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"text": row.fields["text"], "label": row.label} for row in classified("xz", 80, 1)]
    return xling.load(ckpt).finetune(tmp_path_factory.mktemp("tuned") / "out", rows).path


def copy_of(folder: Path, out: Path) -> Path:
    """A copy without manifest: nothing but its own checks protects it."""
    out.mkdir()
    for file in folder.iterdir():
        if file.name != manifest.FILE_NAME:
            (out / file.name).write_bytes(file.read_bytes())
    return out


def test_rows_in_python_make_a_labeller_that_names_its_labels(tuned: Path) -> None:
    found = xling.load(tuned).predict([row.fields["text"] for row in classified("qw", 40, 2)], lang="sw")
    assert set(found) == {"low", "high"}
    assert manifest.read(tuned).counts["train_rows"] + manifest.read(tuned).counts["dev_rows"] == 80
    assert len(manifest.read(tuned).counts["dev_scores"]) == 6


def test_few_rows_are_announced(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert xling.load(tuned).predict(["xzaaxz"], lang="en")[0] in ("low", "high")
    assert "1 rows are few, or equal" in capsys.readouterr().err
    xling.load(tuned).predict(["xzaaxz"] * 40, lang="en")
    assert "40 rows are few, or equal" in capsys.readouterr().err, "equal rows tell no more than one"


def test_a_new_head_is_fitted_on_the_encoder_of_a_tuned_one(tuned: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "en.train.tsv", "xz", 60, 1)
    assert main(["finetune", f"pairs={tmp_path / 'en.train.tsv'}", f"checkpoint={tuned}",
                 f"out={tmp_path / 'pairs'}", "fit.epochs=1"]) == 0  # fmt: skip
    assert json.loads((tmp_path / "pairs/task.json").read_text())["task"] == "pair"


def test_a_large_file_is_read_in_equal_parts(tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row.fields["text"] for row in classified("qw", 70, 2)]
    monkeypatch.setattr("xling.transfer.static_system.TunedStatic.ROWS_AT_ONCE", 69)
    model = xling.load(tuned)
    assert model.predict(rows) == [*model.predict(rows[:35]), *model.predict(rows[35:])]


def test_texts_that_do_not_vote_are_not_kept(tuned: Path) -> None:
    head = json.loads((tuned / "task.json").read_text())["head"]
    assert bool(head.get("texts")) == (head["weight"] > 0)


@pytest.mark.parametrize("kind", ["encoder", "head", "nan", "missing", "facts", "labels"])
def test_a_damaged_head_is_refused(kind: str, tuned: Path, tmp_path: Path) -> None:
    folder = copy_of(tuned, tmp_path / "copy")
    facts = json.loads((folder / "task.json").read_text())
    if kind == "encoder":
        (folder / "static.safetensors").write_bytes(b"of another run")
    elif kind == "head":
        tensors = load_file(folder / "task.safetensors")
        save_file({name: tensor + 1 for name, tensor in tensors.items()}, folder / "task.safetensors")
    elif kind == "nan":
        tensors = load_file(folder / "task.safetensors")
        save_file(
            {name: tensor * np.float32("nan") for name, tensor in tensors.items()},
            folder / "task.safetensors",
        )
        facts["digests"]["task.safetensors"] = manifest.sha256(folder / "task.safetensors")
    elif kind == "missing":
        (folder / "task.json").unlink()
    elif kind == "facts":
        facts["head"] = ["labels"]
    else:
        facts["head"]["classifier"]["labels"] = ["low"]
    if kind != "missing":
        (folder / "task.json").write_text(json.dumps(facts))
    with pytest.raises(UserError, match=r"not a (fine-tuned )?static encoder"):
        xling.load(folder).predict(["xzaaxz"])


def test_an_edited_head_is_refused_by_the_command(
    tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy_of(tuned, tmp_path / "copy")
    (folder / manifest.FILE_NAME).write_bytes((tuned / manifest.FILE_NAME).read_bytes())
    text = (folder / "task.json").read_text()
    (folder / "task.json").write_text(text.replace("low", "LOW"))
    (tmp_path / "new.txt").write_text("xzaaxz\n")
    assert main(["predict", str(folder), str(tmp_path / "new.txt")]) == 2
    assert "was changed or damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit.freeze=encoder"], "an encoder with layers; this one is static"),
        (["fit.layers=mix"], "an encoder with layers; this one is static"),
        (["fit.lr=0.1"], "an encoder with layers; this one is static"),
        (["log=tensorboard"], "an encoder with layers; this one is static"),
        (["alpha=0.5"], "alpha"),
        (["fit.text_to_text=true"], "text_to_text"),
    ],
)
def test_settings_that_change_nothing_are_errors(
    words: list[str], said: str, ckpt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_classes(tmp_path / "en.train.tsv", "xz", 40, 1)
    command = [
        "finetune",
        f"classes={tmp_path / 'en.train.tsv'}",
        f"checkpoint={ckpt}",
        f"out={tmp_path / 'out'}",
    ]
    assert main([*command, *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "CKPT", "FILE"], "is not fine-tuned"),
        (["predict", "TUNED", "FILE", "head=x"], "has one head"),
        (["export", "hf", "TUNED", "OUT"], "is a fine-tuned static encoder"),
        (["quantize", "TUNED", "out=OUT"], "is a fine-tuned static encoder"),
        (["eval", "classes", "test.en=FILE", "train=FILE", "checkpoint=TUNED", "out=OUT", "seeds=2",
          "systems=pretrained"], "seeds=2 changes nothing"),
        (["eval", "classes", "test.en=FILE", "train=FILE", "checkpoint=TUNED", "out=OUT", "systems=random"],
         "no random control"),
        (["eval", "pairs", "test.en=PAIRS", "train=PAIRS", "checkpoint=TUNED", "out=OUT",
          "systems=pretrained"], "is fine-tuned for classify"),
    ],
)  # fmt: skip
def test_what_a_tuned_encoder_does_not_do(
    words: list[str], said: str, ckpt: Path, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_classes(tmp_path / "rows.tsv", "xz", 20, 1)
    write_pairs(tmp_path / "pairs.tsv", "xz", 20, 1)
    names = {"CKPT": ckpt, "TUNED": tuned, "FILE": tmp_path / "rows.tsv", "PAIRS": tmp_path / "pairs.tsv",
             "OUT": tmp_path / "out"}  # fmt: skip
    for name, path in names.items():
        words = [word.replace(name, str(path)) for word in words]
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_predict_ends_with_time_and_next_command_and_replaces_no_file(
    tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XLING_QUIET")
    (tmp_path / "new.txt").write_text("xzaaxz\n")
    command, out = ["predict", str(tuned), str(tmp_path / "new.txt"), "lang=sw"], tmp_path / "answers.jsonl"
    following = f"next: xling eval KIND test.sw=FILE checkpoint={tuned} systems=pretrained out=runs/eval"
    assert main(command) == 0
    assert re.search(rf"\nxling predict: done in [\d.]+ s; {following}\n$", capsys.readouterr().err)
    assert main([*command, f"out={out}"]) == 0
    said = capsys.readouterr().err
    assert re.search(rf"\nxling predict: made {out} \(\d+ B\) in [\d.]+ s; {following}\n$", said)
    before = out.read_text()
    out.write_text("mine")
    assert main([*command, f"out={out}"]) == 2
    assert "overwrite=true" in capsys.readouterr().err and out.read_text() == "mine"
    assert main([*command, f"out={out}", "overwrite=true"]) == 0 and out.read_text() == before
    (tmp_path / "folder").mkdir()
    assert main([*command, f"out={tmp_path / 'folder'}", "overwrite=true"]) == 2
    assert "exists; valid: a new file" in capsys.readouterr().err
