"""Names that hold HTML, control characters and line ends, in cards and answers."""

import re

import pytest

from xling.core.commands.runner import run_local
from xling.core.settings import config
from xling.corpora.inspect import why
from xling.corpora.mono import MonoConfig

NAME = "<script>alert(1)<\x1b[2J\n=1+1`x\x9b|<img src=x onerror=y>"
TEXT = "\n".join(
    f"Maktaba ya kijiji namba {i} ilifunguliwa tena jana asubuhi na watu wengi." for i in range(20)
)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{NAME}.txt").write_text(f"{TEXT}\n\n{TEXT[:30]}")
    data = {"lang": "sw", "out": "out", "source": f"text:{NAME}.txt", "before_dedup": "repair,length"}
    data |= {"after_dedup": "pii", "dedup": "false", "near_dedup": "false"}
    run_local("corpus mono", config.from_dict(MonoConfig, data))
    return tmp_path / "out"


def test_cards_show_names_as_they_are_and_run_nothing(corpus):
    for name in ("card.md", "card.html"):
        text = (corpus / name).read_text(encoding="utf-8")
        assert "alert(1)" in text
        assert not re.search(r"(?<!\\)<(script>alert|img src=x)", text)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    lines = (corpus / "card.md").read_text(encoding="utf-8").split("\n")
    assert not any(line.startswith("=1+1") for line in lines)


def test_why_tells_a_document_in_one_line(corpus):
    answer = why.run(why.WhyConfig(TEXT[:20], str(corpus)))
    dropped, text, kept = answer.split("\n")
    assert dropped.startswith("<script>alert(1)<␛[2J␊=1+1`x")
    assert text.startswith("    Maktaba")
    assert kept.endswith("kept (sw)")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", answer)
