"""The closing line: what was made, where, how long it took, and a next command that is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xling import cli, doctor
from xling.core.commands import closing, pipeline
from xling.core.commands.pipeline import recipes
from xling.core.commands.runner import STAGES, load
from xling.core.commands.table import NAMED_PIPELINES
from xling.core.settings import schema


def test_every_next_command_exists_with_its_settings() -> None:
    assert closing.PRINTED["doctor"].split()[1] in NAMED_PIPELINES
    for stage, command in {**closing.NEXT, **closing.PRINTED, "doctor": "xling doctor"}.items():
        assert stage in STAGES
        words = command.replace("{corpora}", "corpora.sw=x").split(" < ")[0].split()[1:]
        if words[0] in NAMED_PIPELINES:
            pipeline.read(recipes()[words[0]], words[1:])
            continue
        following, rest = cli.find_stage(words)
        config = {key.name: key for key in schema.keys(load(following.config))}
        given = {word.partition("=")[0].partition(".")[0] for word in rest if "=" in word}
        bare = [word for word in rest if "=" not in word]
        given |= set(following.positional.split()[: len(bare)])
        assert given <= {name.partition(".")[0] for name in config}, command
        assert {name for name, key in config.items() if key.required} <= given, command


def run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command and return its last line on standard error."""
    assert cli.main(words) == 0
    return capsys.readouterr().err.splitlines()[-1]


def test_what_was_made_and_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XLING_QUIET")
    (tmp_path / "my text.txt").write_text("\n".join(f"Habari za leo {i}" for i in range(99)))
    words = ("vocab", "corpora.sw=my text.txt", "out=v", "size=30")
    following = "next: xling binarize vocab=v corpora.sw='my text.txt' out=runs/shards"
    made = run(capsys, *words)
    assert re.fullmatch(rf"xling vocab: made v \(3 files, [\d.]+ [kM]B\) in [\d.]+ s; {following}", made), (
        made
    )
    assert run(capsys, *words) == f"xling vocab: v was finished already, nothing was to do; {following}"
    assert cli.main(["vocab", "corpora.sw=my text.txt", "out=w", "size=40000"]) == 2
    assert "made" not in capsys.readouterr().err


def test_the_last_step_of_a_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XLING_QUIET")
    (tmp_path / "p.yaml").write_text(
        f"steps: {{raw: {{stage: toyworld, config: {{out: {tmp_path}/raw, langs: 'sw', num_docs: 2}}}}}}\n"
    )
    last = run(capsys, "run", f"{tmp_path}/p.yaml")
    assert last.startswith(f"xling toyworld: made {tmp_path}/raw (") and " lang=sw " in last


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.44, "0.4 s"), (31.4, "31 s"), (245.2, "4 min 5 s"), (10920, "3 h 2 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert closing.duration(seconds) == said


@pytest.mark.parametrize(("size", "said"), [(812, "812 B"), (1320, "1.3 kB"), (74_000_000, "74 MB")])
def test_sizes(size: int, said: str) -> None:
    assert closing.readable_size(size) == said


def test_a_pipeline_says_what_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XLING_QUIET")
    step = "{stage: toyworld, config: {out: '${out}/raw', langs: 'sw', num_docs: 2}}"
    (tmp_path / "p.yaml").write_text(
        f"vars: {{out: {tmp_path}}}\nnext: xling doctor ${{out}}\nsteps: {{raw: {step}}}\n"
    )
    words = ("run", f"{tmp_path}/p.yaml")
    assert re.fullmatch(rf"xling toyworld: made .* s; next: xling doctor {tmp_path}", run(capsys, *words))
    assert run(capsys, *words).endswith(
        f" was finished already, nothing was to do; next: xling doctor {tmp_path}"
    )


def test_a_pipeline_names_the_folder_of_all_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XLING_QUIET")
    monkeypatch.chdir(tmp_path)
    steps = [
        f"{name}: {{stage: toyworld, config: {{out: '${{out}}/{name}', langs: sw, num_docs: 2}}}}"
        for name in ("raw", "more")
    ]
    (tmp_path / "p.yaml").write_text(
        f"vars: {{out: runs/p}}\nnext: xling doctor ${{out}}\nsteps: {{{', '.join(steps)}}}"
    )
    last = run(capsys, "run", "p.yaml")
    assert re.fullmatch(
        r"xling run p: made runs/p \(raw, more\) in [\d.]+ s; next: xling doctor runs/p", last
    )
    assert run(capsys, "run", "p.yaml").startswith("xling toyworld: runs/p/more was finished already")
    last = run(capsys, "run", "p.yaml", f"out={tmp_path}/elsewhere/deep")
    assert last.startswith("xling run p: made elsewhere/deep (raw, more) in ")


@pytest.mark.parametrize("path", [path for path in recipes().values() if "\nnext: " in path.read_text()])
def test_the_next_command_of_a_recipe_exists(path: Path) -> None:
    words = pipeline.read(path).next.split()[1:]
    assert "${" not in " ".join(words)
    following, rest = cli.find_stage(words)
    names = {key.name for key in schema.keys(load(following.config))}
    assert {word.partition("=")[0] for word in rest if "=" in word} <= names


def test_doctor_ends_with_time_and_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("XLING_QUIET")
    monkeypatch.setattr(doctor, "CHECKS", (doctor.memory,))
    assert re.fullmatch(r"xling doctor: done in [\d.]+ s; next: xling quickstart", run(capsys, "doctor"))
    broken = lambda cfg: iter([doctor.Finding("disk", doctor.BROKEN, "full")])  # noqa: E731
    monkeypatch.setattr(doctor, "CHECKS", (broken,))
    assert cli.main(["doctor"]) == 1
    assert "next:" not in capsys.readouterr().err
