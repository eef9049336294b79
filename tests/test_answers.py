"""``--json``: every command that prints something answers in values too, found by walking the command line."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xling import cli
from xling.core import progress
from xling.core.commands.runner import STAGES, load
from xling.core.output.command_result import Answer, JsonLines, tell
from xling.core.output.manifest import Manifest
from xling.slurm.commands import ACTIONS

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {Answer, JsonLines, Manifest}
"""What a stage may return: values, or a published directory, whose manifest is the answer."""
LINES = {"translate"}
"""Commands whose output is text line by line and no table."""
ON_STANDARD_OUTPUT = {
    # Results of a training in words, whose values are in the manifest that --json prints.
    "xling/transfer/translation/train_and_score.py", "xling/transfer/translation/unsupervised.py",
    "xling/transfer/generation/finetune.py", "corpora/lexicon/stage.py",
    "xling/cli.py", "xling/core/progress.py", "slurm/entry.py",
}  # fmt: skip


def returned(function: Any) -> set[Any]:
    """The types that a function's annotation allows."""
    found = typing.get_type_hints(function)["return"]
    parts = typing.get_args(found) if isinstance(found, types.UnionType) else (found,)
    return {typing.get_origin(part) or part for part in parts}


@pytest.mark.parametrize("name", list(STAGES))
def test_every_stage_answers_in_values(name: str) -> None:
    stage = STAGES[name]
    found = returned(load(stage.run or stage.run_part))
    if name in LINES:
        assert found == {types.NoneType}
    elif stage.run:
        assert found <= ALLOWED | {dict}, (
            f"{name} returns {found}: a table needs an Answer, so that --json works"
        )
    else:
        assert found == {Answer, types.NoneType}, name


@pytest.mark.parametrize("name", ["submit", "submit_sweep", "submit_pipeline", "submit_stage", "run_here"])
def test_every_submission_answers_in_values(name: str) -> None:
    assert returned(getattr(importlib.import_module("xling.slurm.launch"), name)) == {Answer}


@pytest.mark.parametrize("name", list(ACTIONS))
def test_every_word_of_slurm_answers_in_values(name: str) -> None:
    assert returned(ACTIONS[name]) == {Answer}


def test_no_other_module_prints_to_standard_output() -> None:
    for path in sorted(
        p for room in ("xling", "corpora", "eval", "slurm") for p in (ROOT / room).rglob("*.py")
    ):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                to = [k for k in node.keywords if k.arg == "file"]
                assert to or name in ON_STANDARD_OUTPUT, f"{name}:{node.lineno} prints what --json cannot"


@pytest.fixture
def values(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command with --json and return the one value that it prints."""

    def run(*words: str | Path) -> Any:
        capsys.readouterr()
        assert cli.main([*map(str, words), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_commands_of_every_kind(
    values: Callable[..., Any], corpus: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert set(values()) == set(STAGES)
    assert values("vocab", "--help")["stage"] == "vocab"
    assert values("config", "vocab", "corpora.en=a", "out=x")["size"] == 8000
    made = values("vocab", f"corpora.en={corpus}/en.txt", "out=v", "size=50")
    assert made["stage"] == "vocab" and "spm.model" in made["files"]
    assert {"toy_ner", "xnli"} <= {suite["suite"] for suite in values("eval", "list")}
    assert values("slurm", "status") == []
    plan = values("slurm", "plan", "vocab", f"corpora.en={corpus}/en.txt", "out=w")
    assert [step["stage"] for step in plan["steps"]] == ["vocab"]


def test_a_pipeline_answers_by_step(values: Callable[..., Any], corpus: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "plan.yaml"
    recipe.write_text(
        f"steps:\n  v: {{stage: vocab, config: {{out: {tmp_path}/v, size: 50, corpora: {{en: {corpus}/en.txt}}}}}}\n"
    )
    assert values("run", recipe)["v"]["stage"] == "vocab"


def test_a_dry_run_in_numbers(
    values: Callable[..., Any], shards: Path, tiny: list[str], tmp_path: Path
) -> None:
    found = values("pretrain", f"data={shards}", f"out={tmp_path}/m", *tiny, "train.updates=7", "--dry-run")
    assert found["updates"] == 7 and set(found["mixture"]) == {"ar", "en", "th"} and found["tokens"] > 0


def test_lines_of_text_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["translate", "model", "src=en", "tgt=sw", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "it prints lines of text; fix: leave --json out" in err


def test_what_a_stage_prints_by_the_way_is_not_in_the_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def noisy(cfg: Any) -> Answer:
        print("by the way")
        return Answer("text", {"n": 1}, exit_code=1)

    monkeypatch.setattr(cli, "execute", lambda name, cfg, launch: noisy(cfg))
    assert cli.main(["eval", "list", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == {"n": 1} and "by the way" in err
    assert cli.main(["eval", "list"]) == 1
    assert capsys.readouterr().out == "by the way\ntext\n"


def test_an_answer_survives_a_process() -> None:
    answer = pickle.loads(pickle.dumps(Answer("text", {"a": [1]}, exit_code=1)))
    assert (answer, answer.data, answer.exit_code) == ("text", {"a": [1]}, 1)


def test_rows_are_made_one_by_one() -> None:
    def endless() -> typing.Iterator[tuple[Any, ...]]:
        number = 0
        while True:
            yield number, None
            number += 1

    lines = JsonLines(("n", "x"), endless()).lines()
    assert [next(lines) for _ in range(3)] == [
        '{"n": 0, "x": null}',
        '{"n": 1, "x": null}',
        '{"n": 2, "x": null}',
    ]
    assert json.loads("\n".join(JsonLines(("n", "x"), [(1, "é"), (2, None)]).json_lines())) == [
        {"n": 1, "x": "é"},
        {"n": 2, "x": None},
    ]
    assert json.loads("".join(JsonLines(("n",), []).json_lines())) == []
    with pytest.raises(ValueError, match="zip"):
        list(JsonLines(("n", "x"), [(1,)]).json_lines())


def test_the_walk_sees_a_stage_that_returns_text() -> None:
    def bare(cfg: Any) -> str:
        return "a table"

    assert not returned(bare) <= ALLOWED


HOSTILE = "\x1b]0;owned\x07\x1b[2J a\r\x9b1A \u202egnp.exe \u2066x\x00\x7f \udcff"
SHOWN = r"\x1b]0;owned\x07\x1b[2J a\r\x9b1A \u202egnp.exe \u2066x\x00\x7f \udcff"


def test_what_a_terminal_would_obey_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """In answers, tables and errors; tabs, line ends and every script stay."""
    plain = "a\tb\nक्‍ष עִבְרִית 日本 ‏\u200d"
    cli.show(Answer(f"{plain} {HOSTILE}", {}), False)
    cli.show(JsonLines(["text"], [[HOSTILE]]), False)
    assert cli.main([HOSTILE]) == 2
    out, err = capsys.readouterr()
    text, _, row = out.removesuffix("\n").rpartition("\n")
    assert text == f"{plain} {SHOWN}" and json.loads(row) == {"text": HOSTILE}
    assert "\x1b" not in out + err and "\u202e" not in out + err
    tell(HOSTILE)
    progress.print_above_bar(HOSTILE)
    assert capsys.readouterr().err == f"{SHOWN}\n{SHOWN}\n"


def test_values_for_programs_hold_no_escape_and_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON escapes control characters itself, but not those above 0x7e, which a terminal obeys as well."""
    value = {HOSTILE: [HOSTILE, "日本"]}
    cli.show(Answer("", value), True)
    cli.show(JsonLines(["text"], [[HOSTILE]]), True)
    first, _, rest = capsys.readouterr().out.partition("\n}\n")
    assert not set("\x1b\x7f\x9b\u202e\udcff") & set(first + rest) and "日本" in first
    assert json.loads(first + "}") == value and json.loads(rest) == [{"text": HOSTILE}]


def test_messages_reach_standard_error_by_one_function() -> None:
    """Names of files, addresses and errors are texts of others: only `tell` prints them."""
    printing = set()
    for room in ("xling", "corpora", "eval", "slurm"):
        for path in sorted((ROOT / room).rglob("*.py")):
            calls = (
                n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)
            )
            prints = (call for call in calls if ast.unparse(call.func) == "print")
            if any(ast.unparse(word.value) == "sys.stderr" for call in prints for word in call.keywords):
                printing.add(str(path.relative_to(ROOT)))
    assert printing == {"xling/core/output/command_result.py"}


def test_a_log_of_a_part_shows_no_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["toyworld", "cluster=debug", "slurm.run=r", f"out={tmp_path}/t", "num_docs=0"]) in (0, 2)
    (record,) = tmp_path.glob("runs/jobs/r/toyworld/parts/*.jsonl")
    with record.open("a") as handle:
        handle.write(json.dumps({"event": "failed", "time": 1, "reason": HOSTILE}) + "\n")
    capsys.readouterr()
    for word in ("status", "logs"):
        assert cli.main(["slurm", word, "r"]) == 0
        assert not set("\x1b\r\x9b\u202e") & set(capsys.readouterr().out)
