"""The one-line messages for mistakes of the user."""

from __future__ import annotations

import pickle

import pytest

from xling import cli
from xling.core.errors import UserError, nearest, unknown


def test_message_says_given_valid_and_fix() -> None:
    assert str(UserError("lr=x.", "a number", "set it. ")) == "lr=x; valid: a number; fix: set it"
    assert str(UserError("nothing there")) == "nothing there"
    assert (
        str(UserError("no rows below .", "data=..", "cut it."))
        == "no rows below .; valid: data=..; fix: cut it"
    )
    assert UserError("x").exit_code == 2


def test_error_survives_the_way_from_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(UserError("a", "b", "c")))
    assert (str(error), error.given, error.valid, error.fix) == ("a; valid: b; fix: c", "a", "b", "c")


def test_unknown_lists_valid_names_and_the_nearest() -> None:
    text = str(unknown("suite", "xnly", ["xnli", "panx", "mlqa"]))
    assert text == "unknown suite 'xnly'; fix: did you mean 'xnli'?; valid: mlqa, panx, xnli"
    assert (
        str(unknown("suite", "q", []))
        == "unknown suite 'q'; valid: none is registered; fix: choose one suite from the list"
    )


def test_long_lists_are_cut() -> None:
    text = str(unknown("code", "zzz", [f"c{i:03}" for i in range(50)]))
    assert "c039, ... (50 in all)" in text and "c040" not in text


def test_nearest_is_best_first_and_may_be_empty() -> None:
    assert nearest("pretrian", ["finetune", "pretrain", "report"])[0] == "pretrain"
    assert nearest("x", ["finetune"]) == []


@pytest.mark.parametrize(
    "text", ["a\nb.txt is missing", "a loop.\nThe last was:\nFound", "x\r\ny", "a\u2028b"]
)
def test_a_mistake_is_one_line_whatever_names_and_libraries_say(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(words: list[str]) -> None:
        raise UserError(text, "one line", "rename it")

    monkeypatch.setattr(cli, "dispatch", refuse)
    assert cli.main(["vocab"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"xling: {' '.join(text.splitlines())}; valid: one line; fix: rename it"
