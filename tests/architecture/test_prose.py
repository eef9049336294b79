"""The check of plain words reports each kind of fault, and none in plain text."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "Train a tokenizer on the corpus. The result is one file. It holds 8,000 pieces."


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", ROOT / ".ci" / "prose.py")
    assert spec and spec.loader
    sys.modules["prose"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(faults: object) -> str:
    return " | ".join(fault.text for fault in faults)  # type: ignore[attr-defined]


def test_plain_text_has_no_faults(prose: ModuleType) -> None:
    assert not list(prose.faults_of_prose(prose.markdown_passages(PLAIN * 3)))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("word " * 36 + ".", "36 words"),
        ("- an item\n- " + "word " * 36, "36 words"),
        ("The sentence goes on\n" + "over two lines " * 12, "40 words"),
        ("One. Two. " + ("Word" + " word" * 18 + ". ") * 3, "median"),
        ("A setting that is none is an error.", "that is none"),
        ("This is what is no language.", "what is no"),
        ("The error is told in a line.", "told in a line"),
        ("It goes on where it stood where it was.", "stood where"),
    ],
)
def test_faults_of_documents(prose: ModuleType, text: str, part: str) -> None:
    assert part in texts(prose.faults_of_prose(prose.markdown_passages(text)))


def test_code_tables_and_headings_have_no_length(prose: ModuleType) -> None:
    long = "word " * 40
    text = f"```sh\n{long}\n```\n\n| {long} |\n\n# {long}\n\nUse `{long}` once.\n"
    assert not list(prose.faults_of_prose(prose.markdown_passages(text)))
    assert prose.words(prose.plain(f"Use `{long}` and [two words](a/b c)")) == 5


def test_short_forms_do_not_end_a_sentence(prose: ModuleType) -> None:
    assert len(prose.sentences("Models (e.g. BERT) by Devlin et al. Nothing. See Fig. 3? Yes.")) == 3


def test_faults_of_code(prose: ModuleType) -> None:
    code = '''
def f(a):
    """What it does.

    Args:
        a: {long}
    """
    found = made = "a language that is none"
    # {long}
    return found
'''
    text = code.replace("{long}", "word " * 36)
    faults = texts([*prose.faults_of_prose(prose.code_passages(text)), *prose.faults_of_code(text)])
    assert faults.count("36 words") == 2 and 'opens with "What"' in faults and "that is none" in faults
    assert faults.count("variable") == 2


def test_a_user_error_says_what_is_valid_or_how_to_fix_it(prose: ModuleType) -> None:
    whole = ['UserError("a=1", "2")', 'UserError("a=1", fix="a=2")', 'UserError("a=1", "2", "a=2")']
    assert not list(prose.faults_of_code("\n".join(whole)))
    bare = 'def f():\n    raise UserError(f"a={a}") from None\n'
    (fault,) = prose.faults_of_code(bare)
    assert fault.line == 2 and "valid" in fault.text


def test_code_and_tables_in_a_docstring_have_no_length(prose: ModuleType) -> None:
    long = "word " * 36
    code = '''
"""Layout of a folder.

Usage::

    {long}

Kinds:

====  ====
{long}
====  ====

{after}
"""
'''.replace("{long}", long)
    assert not list(prose.faults_of_prose(prose.code_passages(code.replace("{after}", "Short."))))
    assert "36 words" in texts(prose.faults_of_prose(prose.code_passages(code.replace("{after}", long))))


def test_the_check_fails_on_a_fault(
    prose: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "MARKDOWN", ("*.md",))
    (tmp_path / "clean.md").write_text(PLAIN)
    assert prose.main([]) == 0 and capsys.readouterr().out == "1 files, 0 faults\n"
    (tmp_path / "bad.md").write_text("A number that is none.")
    assert prose.main([]) == 1 and "bad.md:1: phrase" in capsys.readouterr().out
    assert prose.main(["--show", str(tmp_path / "clean.md")]) == 0
    assert prose.main(["--show", str(tmp_path / "bad.md")]) == 1
