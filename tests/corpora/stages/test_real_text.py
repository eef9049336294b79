"""The stages on the labelled sets that XLING_DATA names: no clean text is lost, upper case costs nothing."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from statistics import mean

import pytest

from xling.core import languages
from xling.corpora.stages.filters import Filters
from xling.corpora.stages.langid import LangId, identify
from xling.corpora.stages.pii import mask
from xling.corpora.stages.repair import repair
from xling.text.document import Document, Ledger

pytestmark = [
    pytest.mark.data,
]


def news() -> dict[str, list[str]]:
    """Documents of 20 lines of professionally translated news, by language."""
    found = {}
    for path in sorted(Path(os.environ["XLING_DATA"]).glob("ntrex/ntrex.*.txt")):
        lines = path.read_text(encoding="utf-8").splitlines()
        lang = languages.get(path.name.split(".")[1], "ntrex").code
        found[lang] = ["\n".join(lines[i : i + 20]) for i in range(0, len(lines), 20)]
    assert len(found) == 32
    return found


def test_clean_text_passes() -> None:
    for lang, texts in news().items():
        docs = [Document(id=str(i), text=text, lang=lang) for i, text in enumerate(texts)]
        kept = list(Filters()(LangId((lang,))(docs, ledger := Ledger()), ledger))
        assert len(kept) >= 0.86 * len(texts), (lang, ledger.dropped)


def test_upper_case_keeps_nine_tenths_of_the_accuracy() -> None:
    lower, upper = [], []
    for lang, texts in news().items():
        lower.append(mean(identify(text.lower())[0] == lang for text in texts))
        upper.append(mean(identify(text.upper())[0] == lang for text in texts))
    assert mean(lower) > 0.98
    assert mean(upper) >= 0.9 * mean(lower)


def test_news_is_hardly_touched_by_repair_and_masking() -> None:
    for lang, texts in news().items():
        whole = unicodedata.normalize("NFC", "\n".join(texts))
        assert mask(repair(whole))[1]["phone"] <= 2, lang  # the sources quote two numbers
        assert abs(len(repair(whole)) - len(whole)) < 0.005 * len(whole), lang
