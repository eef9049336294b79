"""The pair filters on the sets that XLING_DATA names: clean pairs stay, planted noise goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from xling.core import languages
from xling.core.sampling import rng
from xling.corpora.parallel import chain
from xling.corpora.parallel.clean.synthetic_noise import KINDS, CleanPairs
from xling.corpora.parallel.filters import Context
from xling.text.document import Ledger
from xling.text.pairs import make_batch

pytestmark = [pytest.mark.data]


def dropped(name: str, pairs: list[tuple[str, str]], pair: str) -> float:
    """Share of pairs that one filter drops."""
    table = make_batch({"src": [src for src, _ in pairs], "tgt": [tgt for _, tgt in pairs]}, "test")
    _, lost = chain.build((name,), {}, Context.of_pair(pair)).run_batch(table, Ledger())
    return lost.height / table.height


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


def topics(lang: str, data: Path) -> list[str]:
    return [
        line.split("\t")[-1] for part in ("dev", "test") for line in lines(data / f"{lang}.{part}.tsv")[1:]
    ]


def sets(data: Path) -> Iterator[tuple[str, str, str, list[str], list[str]]]:
    """Name of every set, codes of its languages, and both sides."""
    for path in sorted(data.glob("tatoeba/*-eng.eng")):
        lang = path.name.partition("-")[0]
        yield f"tatoeba/{lang}", "eng", lang, lines(path), lines(path.with_suffix(f".{lang}"))
    news = {path.name.split(".")[1]: lines(path) for path in sorted(data.glob("ntrex/ntrex.*.txt"))}
    yield from (
        (f"ntrex/{lang}", "eng", lang, news["eng"], texts) for lang, texts in news.items() if lang != "eng"
    )
    for lang in (path.name.split(".")[0] for path in sorted(data.glob("sib200/*.test.tsv"))):
        if lang != "eng_Latn":
            yield (
                f"sib200/{lang}",
                "eng_Latn",
                lang,
                *(topics(c, data / "sib200") for c in ("eng_Latn", lang)),
            )


def real_sets(*prefixes: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    found = []
    for name, src, tgt, left, right in sets(Path(os.environ["XLING_DATA"])):
        if name.startswith(prefixes):
            pair = f"{languages.get(src).code}-{languages.get(tgt).code}"
            found.append((name, pair, list(zip(left, right, strict=True))[:2000]))
    assert found
    return found


def test_repetition_in_scripts_without_spaces() -> None:
    unspaced = [f"{folder}/{lang}" for folder in ("tatoeba", "ntrex", "sib200") for lang in
                ("tha", "khm", "mya", "lao", "zho", "jpn", "cmn")]  # fmt: skip
    for name, pair, pairs in real_sets(*unspaced):
        assert dropped("repetition", pairs, pair) <= 0.01, name
        clean, random = CleanPairs(pairs, []), rng(1, name)
        repeated = [made for i in range(len(pairs)) if (made := KINDS["repeated"](i, clean, random))]
        assert dropped("repetition", repeated, pair) >= 0.99, name


def test_numbers_of_professional_translations_do_not_contradict() -> None:
    for name, pair, pairs in real_sets("ntrex/", "sib200/"):
        assert dropped("numbers", pairs, pair) <= 0.015, name
        clean, random = CleanPairs(pairs, []), rng(1, name)
        wrong = [
            made
            for i, (src, tgt) in enumerate(pairs)
            if any(c in "0123456789" for c in src) and (made := KINDS["one digit"](i, clean, random))
        ]
        assert len(wrong) < 20 or dropped("numbers", wrong, pair) >= 0.8, name
