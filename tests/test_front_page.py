"""The first minutes at the command line: help by what one has, groups, typos, blanks around ``=``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from xling import cli
from xling.core.commands.runner import STAGES

Xling = Callable[..., tuple[int, str, str]]


@pytest.fixture
def xling(capsys: pytest.CaptureFixture[str]) -> Xling:
    """Run a command in this process; returns exit code, standard output and standard error."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def refuse(xling: Xling) -> Callable[..., None]:
    """Check that a command ends with code 2 and one line that matches."""

    def check(pattern: str, *words: str) -> None:
        code, out, err = xling(*words)
        assert (code, out) == (2, "") and re.fullmatch(f"xling: .*{pattern}.*\n", err), err

    return check


def test_help_begins_with_what_one_has(xling: Xling) -> None:
    for words in ([], ["-h"], ["--help"], ["help"]):
        code, out, err = xling(*words)
        assert (code, err) == (0, "") and len(out.splitlines()) <= 15
        for word in ("text", "pairs", "labels", "a model", "a cluster", "xling help all"):
            assert f"  {word} " in out or word in out.splitlines()[-1], word
        named = re.findall(r"^  .{10}\s+xling (\S+(?: \S+)?)  ", out, re.M)
        assert len(named) == 8 and {"encoder", "finetune"} <= {*named}, named
        assert {*named} <= {*STAGES, *cli.OTHER_WORDS}


def test_help_all_names_every_stage(xling: Xling) -> None:
    code, out, err = xling("help", "all")
    assert (code, err) == (0, "")
    for name, stage in STAGES.items():
        assert name in out and stage.help in out


def test_help_of_a_command(xling: Xling) -> None:
    assert xling("help", "corpus", "mono") == xling("corpus", "mono", "--help")
    assert xling("help", "pretrian")[0] == 2


@pytest.mark.parametrize("first", ["corpus", "import", "export"])
def test_a_group_alone_lists_its_commands(xling: Xling, first: str) -> None:
    for words in ([first], [first, "--help"], ["help", first]):
        code, out, err = xling(*words)
        assert (code, err) == (0, "")
        listed = re.findall(r"^  (\S+ \S+) ", out, re.M)
        assert listed == [name for name in STAGES if name.startswith(f"{first} ")]


def test_a_typo_is_answered_with_the_nearest_first(refuse: Callable[..., None]) -> None:
    refuse(r"unknown command 'pretrian'; fix: did you mean 'pretrain'.*; valid: ", "pretrian", "data=x")
    refuse(
        r"unknown command 'corpus mno'; fix: did you mean 'corpus mono'.*valid: corpus [^:]*", "corpus", "mno"
    )
    refuse(r"unknown setting 'lan'; fix: did you mean 'lang'\?; valid: ", "corpus", "mono", "lan=sw")


@pytest.mark.parametrize(
    "words", [["size", "=", "1000"], ["size", "=1000"], ["size=", "1000"], ["--size", "=", "1000"]]
)
def test_blanks_around_the_sign(refuse: Callable[..., None], words: list[str]) -> None:
    refuse(r"fix: write (--)?size=1000", "vocab", "corpora.en=a.txt", "out=v", *words)


def test_blanks_around_the_sign_of_a_pipeline(refuse: Callable[..., None]) -> None:
    refuse(r"fix: write minutes=5", "run", "hour", "minutes", "=", "5")


def test_files_behind_one_scheme(
    refuse: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Habari za leo")
    fix = "fix: give each file its scheme: source=text:a.txt,text:b.txt; and check the path of b.txt"
    refuse(fix, "corpus", "mono", "lang=sw", "source=text:a.txt,b.txt")
    (tmp_path / "b.txt").write_text("Habari za leo")
    refuse(
        "fix: give each file its scheme: source=text:a.txt,text:b.txt",
        "corpus",
        "mono",
        "lang=sw",
        "source=text:a.txt,b.txt",
    )


def test_names_with_blanks_stay_one_word_in_the_fix(
    refuse: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a 1.txt", "b.txt"):
        (tmp_path / name).write_text("Habari za leo")
    words = ("corpus", "mono", "lang=sw", "source=text:a 1.txt,b.txt")
    refuse(r"fix: give each file its scheme: 'source=text:a 1\.txt,text:b\.txt'", *words)


def test_every_section_with_commands_says_how_long_they_take() -> None:
    text = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if "```" in section:
            assert re.search(r"\d+ (s|min|minutes|processor minutes)\b", section), section.splitlines()[0]
