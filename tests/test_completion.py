"""Completion in a real bash, zsh and fish, and the program that chooses the words in every one of them."""

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
from xling.core.commands import help  # noqa: A004
from xling.core.commands.runner import STAGES

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


SHELLS = ("bash", pytest.param("zsh", marks=pytest.mark.zsh), pytest.param("fish", marks=pytest.mark.fish))
STARTS = {
    "bash": ("bash --norc --noprofile -i", "source {}"),
    "zsh": ("zsh --no-rcs -i", "fpath=({0:h} $fpath); autoload -Uz compinit; compinit -u -D"),
    "fish": ("fish --no-config -i", "source {}"),
}
"""How each shell is started without settings of its own, and told of the script."""


def typed(shell: str, folder: Path, keys: str, shows: str = "") -> str:
    """What an interactive shell, in a folder with the script, shows when these keys are pressed, and then the line.

    With ``shows``, a pattern, nothing more is typed before that is seen.
    """
    name = {"bash": "xling.bash", "zsh": "_xling", "fish": "xling.fish"}[shell]
    (folder / name).write_text(completion.script(shell, ROWS), encoding="utf-8")
    start, setup = STARTS[shell]
    pid, leader = pty.fork()
    if pid == 0:
        os.chdir(folder)
        term = "xterm" if shows else "dumb"  # where fish lists nothing
        os.environ.update(PS1="$ ", TERM=term, INPUTRC="/dev/null", HOME=str(folder), EDITOR="emacs")
        os.execvp(shell, start.split())
    try:
        told = setup.replace("{0:h}", str(folder)).format(folder / name)
        os.write(leader, f"{told}; echo rea''dy\n".encode())
        before = _until(leader, r"ready\r?$")
        os.write(leader, keys.encode())
        before += _until(leader, shows) if shows else ""
        os.write(leader, b"\x01echo got \x05; echo en''d\n")  # ^A and ^E: the line's ends
        return before + _until(leader, r"end\r?$")
    finally:
        os.write(leader, b"\x03\nexit\n")
        os.close(leader)
        os.waitpid(pid, 0)


def _until(leader: int, pattern: str) -> str:
    text, deadline = "", time.monotonic() + 60
    while not re.search(pattern, text, re.MULTILINE):
        assert time.monotonic() < deadline, text
        text += os.read(leader, 1 << 12).decode(errors="replace")
    return text


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("xling pre\tmodel.prec\tb\t", "xling pretrain model.precision=bf16"),
        ("xling corpus mo\tlan\tsw", "xling corpus mono lang=sw"),
        ("xling slurm plan corpus m\tlm\torder", "xling slurm plan corpus mono lm.order"),
        ("xling pretrain data=so\t", "xling pretrain data=some.txt"),
        ("xling eval nothing-like-it\t", "xling eval nothing-like-it"),
    ],
)
def test_keys_pressed_in_a_real_shell(shell: str, tmp_path: Path, keys: str, line: str) -> None:
    (tmp_path / "some.txt").write_text("")
    shown = typed(shell, tmp_path, keys)
    assert re.search(rf"^got {re.escape(line)} ?\r?$", shown, re.MULTILINE), shown


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_shows_what_may_follow(shell: str, tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text("")
    keys = "xling eval \t" + "\t" * (shell == "bash")
    shown = typed(shell, tmp_path, keys, r"list\b[^\0]*suites=")
    assert "some.txt" not in shown and "train.lr=" not in shown, "files or another command's settings"


@pytest.mark.fish
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("xling ", {"corpus", "pretrain", "eval", "config", "slurm"}),
        ("xling corpus mono l", {"lang=", "lm."}),
        ("xling eval list ", {"data="}),
        ("xling pretrain data=x model.precision=b", {"model.precision=bf16"}),
        ("/opt/bin/xling pretrain --j", {"--json"}),
        ("xling pretrain data=som", {"data=some.txt"}),
        ("xling pretrain som", {"some.txt"}),
        ("xling unknown tr", set()),
    ],
)
def test_what_fish_is_offered(tmp_path: Path, line: str, wanted: set[str]) -> None:
    (tmp_path / "some.txt").write_text("")
    (tmp_path / "xling.fish").write_text(completion.script("fish", ROWS), encoding="utf-8")
    program = ["fish", "--no-config", "-c", f"source xling.fish; complete -C '{line}'"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert {found.split("\t")[0] for found in done.stdout.splitlines()} == wanted, done.stderr


def test_every_command_and_setting_is_there(everything: list[tuple[str, str]]) -> None:
    first = {word for command, word in everything if not command}
    assert first == {name.split()[0] for name in STAGES} | set(cli.OTHER_WORDS)
    for name, stage in STAGES.items():
        words = [word for command, word in everything if command == name]
        for line in help.stage_help(stage).splitlines():
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
