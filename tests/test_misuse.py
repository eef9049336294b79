"""Wrong usages of every command: each gets one line, exit code 2, no traceback, and leaves nothing behind."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hostile
from tests.conftest import ROOT
from tests.hostile import usages
from tests.misuses import CASES, MACHINE, RECIPES, XLING
from xling import cli
from xling.core.commands import machine_errors
from xling.core.commands.runner import STAGES, load
from xling.core.settings import schema


def test_there_are_enough() -> None:
    assert len(CASES) + len(RECIPES) >= 150


def refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    hostile.attempt()
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


def test_hostile_files_are_told_in_one_line_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    variables, wrong = usages.prepare(tmp_path, monkeypatch), []
    capsys.readouterr()
    for number, (setup, words, said) in enumerate(usages.HOSTILE):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        before = usages.make_files(setup, folder, variables)
        try:
            refused(usages.words_of(words, variables), said, capsys)
            assert usages.listed(folder) == before, words
        except AssertionError as error:
            wrong.append(f"{setup}: {str(error).splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_what_a_machine_does_is_told_in_one_line_by_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    wrong = []
    for line, said in MACHINE:
        hostile.attempt()
        (place := tmp_path / "here").mkdir()
        done = subprocess.run(
            ["bash", "-c", line.format(x=XLING)], cwd=place, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        told = [each for each in done.stderr.splitlines() if each]
        if done.returncode != 2 or len(told) != 1 or not told[0].startswith("xling: ") or said not in told[0]:
            wrong.append(f"{line}: {done.returncode} {told}")
        if left := usages.listed(place):
            wrong.append(f"{line}: left {sorted(left)}")
        subprocess.run(["find", place, "-delete"], check=True)
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


def test_a_model_of_transformers_as_a_checkpoint_is_told_how_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("theirs").mkdir()
    Path("theirs/config.json").write_text('{"model_type": "xlm-roberta"}')
    for words in (
        "eval panx data=. out=y",
        "translate src=en tgt=sw",
        "export hf out=y",
    ):
        refused([*words.split(), "checkpoint=theirs"], "write hf:theirs, or use the output of", capsys)


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_corpus_is_built_from_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "".join(f"The old woman sells {n} red boats near the river.\n\n" for n in ("two", "three", "ten"))
    kept = "before_dedup=repair dedup=false near_dedup=false after_dedup=[]"
    words = ["corpus", "mono", "lang=en", "out=en", *kept.split()]
    packed = gzip.compress(text.encode(), mtime=0)
    standard_input(monkeypatch, packed)
    assert cli.main([*words, "source=text:-"]) == 0
    shards = {path.name: path.read_bytes() for path in Path("en").rglob("*") if path.is_file()}
    assert [path.name for path in tmp_path.iterdir()] == ["en"]
    standard_input(monkeypatch, packed)
    assert cli.main([*words, "source=text:-"]) == 0  # the same text: nothing is built again
    assert shards == {path.name: path.read_bytes() for path in Path("en").rglob("*") if path.is_file()}
    capsys.readouterr()
    for content, source, said in (
        (b"other", "text:-", "overwrite=true"),
        (b"", "text:-", "standard input is empty"),
        (b"other", "text:-,lines:-", "standard input is read once"),
    ):
        standard_input(monkeypatch, content)
        refused([*words, f"source={source}"], said, capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["en"]
    standard_input(monkeypatch, b"other")
    refused(
        [*words, "source=text:-", "cluster=debug"], "standard input is read on this machine alone", capsys
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


def test_declared_facts_of_objectives_are_those_of_the_classes() -> None:
    from xling.objectives import OBJECTIVES, declared
    from xling.objectives.base import Objective

    for name, thing in OBJECTIVES.items():
        settings = declared.find(name)
        assert settings.__module__.endswith("settings"), f"{name}: declare its settings without torch"
        assert (settings.decoder, settings.shardable) == (thing.decoder, thing.shardable), name
        assert settings.has_weights == (thing.modules is not Objective.modules), name


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


def test_a_failed_read_names_its_file() -> None:
    """The system names a file that cannot be opened, and none where a read fails."""
    with pytest.raises(OSError, match="Input/output error") as raised:
        Path("/proc/self/mem").read_bytes()
    assert raised.value.filename is None
    assert str(machine_errors.machine_error(raised.value)).startswith("/proc/self/mem: Input/output error")


def test_the_table_of_attacks_counts_each_attempt_and_names_tests_that_exist() -> None:
    from tests.hostile.__main__ import CLASSES, Tally

    for place in (each for places in CLASSES.values() for each in places):
        file, _, function = place.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {function}" in text, place
    tally = Tally(["full disks", "kills"])
    assert tally.class_of("tests/test_reruns.py::test_a_full_disk_is_named") == "full disks"
    assert tally.class_of("tests/test_reruns.py::test_a_rerun") == ""
    tally.attempts["kills"], tally.violations["kills"], tally.skipped["kills"] = 1205, 2, 5
    assert tally.table().splitlines()[2:] == ["| full disks | 0 | 0 |", "| kills | 1,200 | 2 |"]
