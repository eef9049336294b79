"""Wrong usages of every command: each gets one line, exit code 2, no traceback, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from xling import cli
from xling.core import schema
from xling.core.stage import STAGES, load

WRONG = {"whole number": "1.5", "number": "many", "true or false": "perhaps"}


def filled(name: str) -> list[str]:
    """Words that give every required setting of a stage a value of its type."""
    made = []
    for key in schema.keys(load(STAGES[name].config)):
        if key.required:
            value = (
                key.choices[0]
                if key.choices
                else "1"
                if key.kind in ("whole number", "number")
                else "nowhere"
            )
            made.append(f"{key.name}.en=nowhere" if key.is_open else f"{key.name}={value}")
    return made


def of_stages() -> Iterator[tuple[list[str], str]]:
    """The same mistakes with every command, each with what the line has to say."""
    for name, stage in STAGES.items():
        words, given = name.split(), filled(name)
        keys = list(schema.keys(load(stage.config)))
        yield [*words, "no_such_setting=1"], "unknown setting 'no_such_setting'"
        yield [*words, *given, "no_such.setting=1"], "unknown setting 'no_such'"
        yield [*words, *given, "workers=1", "workers=0"], "workers"
        if typed := next((k for k in keys if k.kind in WRONG and k.name.partition(".")[0] not in name), None):
            value = WRONG[typed.kind]
            rest = [word for word in given if not word.startswith(f"{typed.name}=")]
            yield [*words, *rest, f"{typed.name}={value}"], f"{typed.name}="
        if choice := next((k for k in keys if k.choices and not k.required), None):
            yield [*words, *given, f"{choice.name}=purple"], "purple"
        if given:
            yield [*words, given[0], given[0]], "each key once"
        if stage.reads and name != "eval":
            yield [*words, *given], "nowhere"


def by_hand() -> Iterator[tuple[list[str], str]]:
    """Other mistakes."""
    for line, said in (
        ("nonsense", "unknown command"), ("pretrian data=x out=y", "did you mean 'pretrain'"),
        ("schema nonsense", "unknown command 'nonsense'"), ("completion", "bash|zsh|fish"),
        ("completion csh", "unknown shell"), ("why-rerun", ""), ("why-rerun eval panx", "why-rerun eval"),
        ("run xlmr_base", "xling pretrain xlmr_base.yaml"), ("run quickstart no.such=1", "unknown variable or step"),
        ("run quickstart scale=gigantic", "unknown scale"), ("config pretrain", "data, out not given"),
        ("pretrain xlmr_base.yaml alm.yaml data=nowhere out=y", "one recipe"),
        ("vocab corpora.en=a out=~/x", "write $HOME"), ("vocab corpora.en=a out=-rf", "a path"),
        ("vocab corpora.en=a out=x size=nan", "size"), ("vocab corpora.en=a out=x size=1e99", "size"),
        ("vocab corpora.en=a out=x size=1e-3", "size"), ("vocab corpora.en=a out=x alpha=nan", "a number"),
        ("vocab corpora.en=a out=x alpha=-1", "alpha"), ("vocab corpora=[ out=x", "not YAML"),
        ("vocab corpora=a out=x", "corpora"), ("vocab corpora.en=nowhere out=x", "nowhere"),
        ("vocab =3 out=x", ""), ("vocab --size out=x", ""), ("vocab corpora.en=a out=x slurm.nodes=2", "cluster="),
        ("pretrain data=nowhere out=y train.updates=0", "train.updates=0"),
        ("pretrain data=nowhere out=y train.lr=0", "train.lr=0"), ("pretrain data=nowhere out=y train.lr=inf", "lr"),
        ("pretrain data=nowhere out=y model.heads=3", "a multiple of the heads"),
        ("pretrain data=nowhere out=y model.dim=0", "model.dim=0"),
        ("pretrain data=nowhere out=y model.positions=sideways", "sideways"),
        ("pretrain data=nowhere out=y train.optimizer=sgdm", "sgdm"),
        ("pretrain data=nowhere out=y", "data=nowhere"), ("eval nosuite checkpoint=. out=y data=.", "unknown suite"),
        ("eval", ""), ("translate nowhere src=en tgt=sw", "nowhere"), ("translate nowhere", "src, tgt not given"),
        ("import hf nowhere/at/all x", "nowhere/at/all"), ("import hf", "not given"),
        ("import fairseq nowhere x", "nowhere"), ("export hf nowhere x", "nowhere"),
        ("export onnx a b", "checkpoint=a"), ("export tflite a b", "unknown command"),
        ("corpus mono lang=xx", "unknown language"), ("corpus mono lang=en source=ftp:x out=y", ""),
        ("corpus parallel pair=en out=y", ""), ("corpus parallel pair=en-en out=y", ""), ("report nowhere", "nowhere"),
        ("new gadget x", "gadget"), ("slurm frobnicate", ""), ("slurm cancel", ""), ("merge checkpoints=a,b out=c", ""),
        ("finetune mt data=nowhere out=y", "nowhere"), ("eval diff a b", ""), ("eval verify file=nowhere", ""),
        ("sweep.seed=1,2 vocab", "unknown command"), ("vocab sweep.size= corpora.en=a out=x", ""),
    ):  # fmt: skip
        yield line.split(" "), said


CASES = [*of_stages(), *by_hand()]
RECIPES = {
    "twice": (b"data: a\ndata: b\n", "is given twice"),
    "list": (b"- a\n- b\n", "no settings"),
    "latin": (b"data: \xe9t\xe9\n", "not YAML"),
    "binary": (bytes(range(256)), "not YAML"),
    "empty": (b"", "no settings"),
    "unclosed": (b"train: {updates: 3\n", "not YAML"),
    "nested": (b"data: {a: b}\n", "file.yaml:1: data="),
    "type": (b"out: x\ntrain:\n  updates: 3\n  lr: fast\n", "file.yaml:4: train.lr='fast'"),
    "unknown": (b"out: x\ntrain:\n  lrr: 3\n", "file.yaml:3: unknown setting 'train.lrr'"),
    "range": (b"out: x\n\ntrain: {updates: 0}\n", "file.yaml:3: train.updates=0"),
    "scales": (b"scales: 3\n", "scales="),
    "choice": (b"out: y\nmix: sometimes\n", "sometimes"),
}


def test_there_are_enough() -> None:
    assert len(CASES) + len(RECIPES) >= 150


def refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2, words
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line]
    assert out == "" and len(lines) == 1, (words, out, err)
    assert lines[0].startswith("xling: ") and said in lines[0] and len(lines[0]) > 20, (words, err)


def test_every_mistake_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    wrong = []
    for words, said in CASES:
        try:
            refused(words, said, capsys)
            assert not list(tmp_path.iterdir()), words
        except AssertionError as error:
            wrong.append(str(error).splitlines()[0])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", RECIPES)
def test_a_wrong_recipe_is_told_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    content, said = RECIPES[name]
    Path("file.yaml").write_bytes(content)
    refused(
        ["pretrain", "file.yaml", *(["data=x"] if b"data" not in content else []), "--out", "y"][:3],
        said,
        capsys,
    )


def test_a_setting_of_the_command_line_has_no_line_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.yaml").write_text(
        "data: x\nout: y\ntrain:\n  updates: 3\nscales:\n  big:\n    train: {updates: q}\n"
    )
    refused(["pretrain", "file.yaml", "train.updates=z"], "the command line: train.updates='z'", capsys)
    refused(["pretrain", "file.yaml", "scale=big"], "file.yaml:7: train.updates='q'", capsys)


def test_a_step_of_a_pipeline_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(
        "steps:\n  v:\n    stage: vocab\n    config:\n      out: a\n      size: big\n      corpora: {en: b}\n"
    )
    refused(["run", "plan.yaml"], "plan.yaml:6: step 'v': size='big'", capsys)


def test_options_are_written_in_any_of_three_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for words in (["train.updates=1e3"], ["--train.updates=1e3"], ["--train.updates", "1e3"]):
        assert cli.main(["config", "pretrain", "data=x", "--out", "y", *words]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2] and found[0]["train"]["updates"] == 1000


def test_every_setting_has_a_sentence() -> None:
    missing = [
        (name, key.name)
        for name, stage in STAGES.items()
        for key in schema.keys(load(stage.config))
        if not key.meaning
    ]
    missing += [
        ("pretrain", key.name) for keys in schema.objectives().values() for key in keys if not key.meaning
    ]
    assert not missing


def test_settings_of_objectives_read_from_the_source_are_those_of_the_classes() -> None:
    import dataclasses

    from xling.objectives import OBJECTIVES

    told = schema.objectives()
    for name, thing in OBJECTIVES.items():
        fields = {f.name: f.default for f in dataclasses.fields(thing.config) if not f.name.startswith("_")}
        own = {key.name.removeprefix(f"objectives.{name}."): key.default for key in told[name]}
        assert own == {k: v for k, v in fields.items() if k not in ("data", "seed")}, name


def test_recipes_fit_the_schema_of_their_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made["$defs"]) == set(STAGES)
    pretrain = made["$defs"]["pretrain"]["properties"]
    assert pretrain["train"]["properties"]["updates"] | {"description": ""} == {
        "description": "", "default": 1000, "type": "integer", "minimum": 1,
    }  # fmt: skip
    assert {"alternate", "sum"} <= {*pretrain["mix"]["enum"]}
    assert pretrain["objectives"]["properties"]["mmlm"]["properties"]["mask_prob"]["default"] == 0.15
    assert cli.main(["recipes", "--json"]) == 0
    commands = {row["recipe"]: row["command"] for row in json.loads(capsys.readouterr().out)}
    assert commands["xlmr_base"] == "xling pretrain xlmr_base.yaml" and commands["hour"] == "xling run hour"
