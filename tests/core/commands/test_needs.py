"""A pipeline checks all inputs before its first step, and leaves out what may be missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xling import cli

NLI = "premise\thypothesis\tlabel\nA dog sleeps.\tA dog is asleep.\tentailment\nA dog.\tA cat.\tneutral\n"
PIPELINE = """
vars: {{data: {data}, out: {out}}}
steps:
  raw: {{stage: toyworld, config: {{out: "${{out}}/raw", num_docs: 20, num_pairs: 20, num_ner: 20, num_nli: 20}}}}
  one:
    stage: eval
    optional: true
    config: {{suites: [toy_xnli, tatoeba], data: "${{data}}", out: "${{out}}/one", systems: [majority]}}
  other:
    stage: eval
    after: [raw]
    optional: {optional}
    config: {{suites: [tatoeba], data: "${{data}}", out: "${{out}}/other", systems: [majority]}}
  of_raw:
    stage: eval
    after: [other]
    config: {{suites: [toy_ner], data: "${{out}}/raw", out: "${{out}}/of_raw", systems: [majority]}}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        path = tmp_path / f"data/nli/en.{split}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NLI)
    return tmp_path / "data"


def pipeline(folder: Path, data: Path, optional: str = "true") -> str:
    path = folder / "all.yaml"
    path.write_text(PIPELINE.format(data=data, out=folder / "out", optional=optional))
    return str(path)


def test_what_may_be_missing_is_left_out_with_a_line(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", pipeline(tmp_path, data), "--dry-run", "--json"]) == 0
    said = capsys.readouterr()
    assert [step["step"] for step in json.loads(said.out)] == ["one"]
    assert "one: left out: no rows of tatoeba below" in said.err
    assert "other: left out: no rows of tatoeba below" in said.err
    assert "raw: left out: no step is left that needs it" in said.err
    assert "of_raw: left out: no step is left that it needs" in said.err
    assert not (tmp_path / "out").exists()
    assert cli.main(["run", pipeline(tmp_path, data)]) == 0
    assert "toy_xnli" in capsys.readouterr().out
    assert not (tmp_path / "out/raw").exists()


def test_what_may_not_be_missing_stops_the_pipeline_before_its_first_step(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", pipeline(tmp_path, data, "false")]) == 2
    assert "step 'other': no rows of tatoeba" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert cli.main(["run", pipeline(tmp_path, tmp_path / "nowhere")]) == 2
    assert f"data={tmp_path}/nowhere (of the steps one, other)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_says_cost_and_needs(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", pipeline(tmp_path, tmp_path / "nowhere"), "--dry-run"]) == 2
    said = capsys.readouterr().out
    assert "[1/4] raw: xling toyworld" in said
    assert "cost: at most" in said
    assert "nowhere (missing)" in said
    assert f"needs: other, data={tmp_path}/out/raw\n" in said
    assert "nothing was run" in said


def test_settings_of_all_steps_are_printed(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["config", "run", pipeline(tmp_path, data), "raw.num_docs=7"]) == 0
    steps = json.loads(capsys.readouterr().out)
    assert steps["raw"]["config"]["num_docs"] == 7
    assert steps["of_raw"]["after"] == ["other"]
    assert not (tmp_path / "out").exists()


def test_training_rows_and_further_suites_may_be_missing_too(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "nli/en.train.tsv").unlink()
    assert cli.main(["run", pipeline(tmp_path, data)]) == 2
    said = capsys.readouterr().err
    assert "no train rows of toy_xnli in en" in said
    assert "every step is left out" in said


@pytest.mark.parametrize(
    ("stage", "settings", "said"),
    [
        ("binarize", "vocab: '${out}/v', out: '${out}/s', corpora: {sw: ['${data}/a.txt', '${data}/b*.txt']}",
         "corpora=DATA/a.txt"),
        ("binarize", "vocab: '${data}/v', out: '${out}/s', corpora: {sw: '${data}/*/en.*'}", "vocab=DATA/v"),
        ("corpus halves", "pair: en-sw, files: ['${data}/a.en', '${data}/a.sw'], out: '${out}/h'", "files=DATA/a.en"),
        ("corpus parallel", "pair: en-sw, source: ['moses:${data}/a.en+${data}/a.sw'], out: '${out}/p'",
         "source=DATA/a.en"),
        ("corpus mono", "lang: sw, source: ['csv:${data}/a.csv#text'], out: '${out}/m'", "source=DATA/a.csv"),
        ("finetune mt", "data: '${data}/nli', out: '${out}/t', test: {en-sw: ['${data}/a.en', '${data}/a.sw']}",
         "test=DATA/a.en"),
        ("pretrain static", "data: '${data}/nli', out: '${out}/e', teacher: {encoder: 'hf:${data}/bert'}",
         "encoder=DATA/bert"),
        ("eval", "tags: ['${data}/sw.test.conll'], out: '${out}/e'", "tags=DATA/sw.test.conll"),
    ],
)  # fmt: skip
def test_every_kind_of_input_is_looked_for(
    tmp_path: Path, data: Path, stage: str, settings: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", behind_raw(tmp_path, stage, settings), f"data={data}"]) == 2
    assert said.replace("DATA", str(data)) + " (of the steps last)" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def behind_raw(folder: Path, stage: str, settings: str) -> str:
    """Write a pipeline of ``raw``, which needs nothing, and of a last step."""
    (folder / "p.yaml").write_text(
        f"vars: {{data: none, out: {folder}/out, here: {folder}}}\nsteps:\n"
        "  raw: {stage: toyworld, config: {out: '${out}/raw'}}\n"
        f"  last: {{stage: {stage}, after: [raw], config: {{{settings}}}}}\n"
    )
    return str(folder / "p.yaml")


def test_rows_are_looked_for_where_the_output_lies_below_them(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    path = pipeline(tmp_path, data, "false")
    assert cli.main(["run", path, "data=.", "out=runs/all"]) == 2
    assert "no rows of toy_xnli below ." in capsys.readouterr().err
    assert not list((tmp_path / "empty").iterdir())


@pytest.mark.parametrize(
    ("stage", "files"),
    [("eval", "tags: ['${here}/sw.test.conll'], train: '${here}/train.conll'"),
     ("finetune", "tags: ['${here}/sw.test.conll']")],
)  # fmt: skip
def test_labels_of_own_files_are_read_before_the_first_step(
    tmp_path: Path, stage: str, files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.conll").write_text("Ana B-PER\nran O\n\n")
    (tmp_path / "sw.test.conll").write_text("Juma B-PER\nalifika\n\n")
    settings = f"{files}, checkpoint: '${{out}}/raw', out: '${{out}}/last'"
    assert cli.main(["run", behind_raw(tmp_path, stage, settings)]) == 2
    assert "sw.test.conll:2: 1 columns" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_training_rows_and_settings_without_effect_are_told_first(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = "suite: toy_ner, data: '${data}', checkpoint: '${out}/raw', out: '${out}/last'"
    assert cli.main(["run", behind_raw(tmp_path, "finetune", settings), f"data={data}"]) == 2
    assert "step 'last': no train rows of toy_ner in en below" in capsys.readouterr().err
    settings = "checkpoint: '${out}/raw', src: en, tgt: sw, search: {length_penalty: 2, beam: 1}"
    assert cli.main(["run", behind_raw(tmp_path, "translate", settings)]) == 2
    assert "search.length_penalty=2.0 changes nothing here" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
