"""Completion in a real bash, and the program that chooses the words in every shell."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from xling import cli, completion
from xling.core.stage import STAGES

ROWS = [
    ("", "corpus"), ("", "pretrain"), ("", "eval"), ("", "config"), ("", "slurm"),
    ("corpus", "mono"), ("corpus", "sample"),
    ("slurm", "status"), ("slurm", "plan"),
    ("corpus mono", "lang="), ("corpus mono", "lm."),
    ("eval", "list"), ("eval", "suites="), ("eval list", "data="),
    ("pretrain", "model.precision=bf16"), ("pretrain", "model.precision=fp32"),
    ("pretrain", "train.lr="), ("pretrain", "train.log_every="), ("pretrain", "data="), ("pretrain", "--json"),
]  # fmt: skip


@pytest.fixture(scope="module")
def everything() -> list[tuple[str, str]]:
    return list(completion.table())


@pytest.fixture
def bash(tmp_path: Path) -> Path:
    path = tmp_path / "xling.bash"
    path.write_text(completion.script("bash", ROWS), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("xling ", ["corpus ", "pretrain ", "eval ", "config ", "slurm "]),
        ("xling pre", ["pretrain "]),
        ("xling corpus ", ["mono ", "sample "]),
        ("xling corpus mono l", ["lang=", "lm."]),
        ("xling eval ", ["list ", "suites="]),
        ("xling eval list ", ["data="]),
        ("xling pretrain train.l", ["train.lr=", "train.log_every="]),
        ("xling pretrain data=x model.precision=b", ["bf16 "]),
        ("xling config pretrain train.lr", ["train.lr="]),
        ("xling slurm plan corpus m", ["mono "]),
        ("xling slurm st", ["status "]),
        ("/opt/bin/xling pretrain --j", ["--json "]),
        ("xling pretrain data=som", ["some.txt"]),
        ("xling pretrain som", ["some.txt"]),
        ("xling unknown tr", []),
    ],
)
def test_what_bash_is_offered(bash: Path, tmp_path: Path, line: str, wanted: list[str]) -> None:
    (tmp_path / "some.txt").write_text("")
    program = (
        f"cd {tmp_path}; source {bash}; COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'; COMP_LINE={line!r}; "
        'COMP_POINT=${#COMP_LINE}; _xling; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=True)
    assert [word for word in done.stdout.splitlines() if word] == wanted, done.stderr


def typed(script: Path, keys: str, cwd: Path) -> str:
    """What an interactive bash shows when these keys are pressed."""
    pid, leader = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.environ.update(PS1="$ ", TERM="dumb", INPUTRC="/dev/null")
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    try:
        os.write(leader, f"source {script}; echo rea''dy\n".encode())
        _until(leader, "ready")
        os.write(leader, keys.encode() + b" \x01: \x05; echo en''d\n")  # ^A : ^E makes a no-op of the line
        return _until(leader, "end")
    finally:
        os.write(leader, b"\x03\nexit\n")
        os.close(leader)
        os.waitpid(pid, 0)


def _until(leader: int, word: str) -> str:
    text, deadline = "", time.monotonic() + 60
    while not re.search(rf"^{word}\r?$", text, re.MULTILINE):
        assert time.monotonic() < deadline, text
        text += os.read(leader, 1 << 12).decode(errors="replace")
    return text


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("xling pre\tmodel.prec\tb\t", "xling pretrain model.precision=bf16"),
        ("xling corpus mo\tlan\tsw", "xling corpus mono lang=sw"),
        ("xling pretrain data=so\t", "xling pretrain data=some.txt"),
    ],
)
def test_keys_pressed_in_a_real_bash(bash: Path, tmp_path: Path, keys: str, shown: str) -> None:
    (tmp_path / "some.txt").write_text("")
    assert shown in typed(bash, keys, tmp_path).replace("\x07", "")


def test_every_command_and_setting_is_there(everything: list[tuple[str, str]]) -> None:
    first = {word for command, word in everything if not command}
    assert first == {name.split()[0] for name in STAGES} | set(cli.OTHER_WORDS)
    for name, stage in STAGES.items():
        words = [word for command, word in everything if command == name]
        for line in cli.stage_help(stage).splitlines():
            if found := re.match(r"  ([\w.]+) = ", line):
                assert any(re.match(rf"{re.escape(found[1])}[=.]", word) for word in words), (name, line)
    assert ("pretrain", "mix=alternate") in everything and ("pretrain", "objectives.") in everything
    assert ("finetune", "fit.freeze_embeddings=true") in everything


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_every_shell(everything: list[tuple[str, str]], shell: str, tmp_path: Path) -> None:
    text = completion.script(shell, everything)
    assert "pretrain\ttrain.lr=" in text
    if program := shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(text, encoding="utf-8")
        subprocess.run([program, "-n", str(path)], check=True)
    if shell == "zsh":
        assert text.startswith("#compdef xling\n")


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion"]) == 2
    assert "bash|zsh|fish" in capsys.readouterr().err
    assert cli.main(["completion", "bahs"]) == 2
    assert "did you mean 'bash'" in capsys.readouterr().err
