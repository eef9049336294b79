"""Corpora of several runs: what an earlier corpus holds is dropped from a later one (``against=``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig

WORDS = [
    "maji", "barabara", "shule", "kijiji", "mkulima", "mvua", "shamba", "mwalimu", "mtoto", "wimbo",
    "ngoma", "soko", "samaki", "mto", "ziwa", "mlima", "nyumba", "gari", "daktari", "dawa",
    "safari", "barua", "redio", "habari", "chakula", "ugali", "wali", "maharage", "ndizi", "embe",
]  # fmt: skip


def text(number: int, last: str = "kabisa") -> str:
    """Return one of many texts that share no run of five words; ``last`` makes a near copy."""
    words = [WORDS[(number * 7 + i * (1 + number % 11) + i * i) % len(WORDS)] for i in range(80)]
    return f"{' '.join(f'{word}{number}' if i % 3 == 0 else word for i, word in enumerate(words))} {last}."


def build(tmp_path: Path, out: str, texts: list[str], lang: str = "sw", **settings: Any) -> None:
    path = tmp_path / f"{out}.jsonl"
    path.write_text("\n".join(json.dumps({"text": each}) for each in texts), encoding="utf-8")
    values = {"lang": lang, "source": [f"jsonl:{path}"], "out": str(tmp_path / out), "dedup": False}
    values |= {"before_dedup": [], "after_dedup": []}
    run_local("corpus mono", config.from_dict(MonoConfig, values | settings, "corpus mono"))


def kept(folder: Path) -> list[str]:
    return [doc.text for doc in read_corpus(folder)]


@pytest.mark.parametrize("near", [{}, {"min_jaccard": 0.7}])
def test_what_earlier_runs_hold_goes_and_the_rest_stays(tmp_path: Path, near: dict[str, float]) -> None:
    build(tmp_path, "a", [text(1), text(2).replace("maji", "ma\ufffdi"), text(3)], shard_mb=0.0006)
    build(tmp_path, "b", [text(4), text(1, "sana")], near=near, against=[str(tmp_path / "a")])
    assert kept(tmp_path / "b") == [text(4)]
    later = [text(5), text(2), text(6), text(4, "leo"), text(5, "jana"), text(3, "leo"), text(3, "kesho")]
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    build(tmp_path, "c", later, near=near, against=both, part_mb=0.0005)
    stats = json.loads((tmp_path / "c" / "stats.json").read_text(encoding="utf-8"))
    assert kept(tmp_path / "c") == [text(5), text(6)]
    dropped = {"near_dedup\tin_earlier_corpus": 4, "near_dedup\tnear_duplicate": 1}
    assert stats["ledger"]["dropped"] == dropped, "also where the earlier one has a replacement character"
    assert [doc.meta.get("cluster_size") for doc in read_corpus(tmp_path / "c")] == [2, None]
    assert len(list((tmp_path / "a" / "shards").iterdir())) > 1


def test_several_languages_are_compared_each_with_its_own(tmp_path: Path) -> None:
    pages = {
        "sw": "Serikali ya kijiji ilikutana na wananchi siku ya Jumatatu kuhusu maji, barabara na shule mpya.",
        "en": "The council of the village met the farmers on Monday about water, roads and the new school.",
    }
    (tmp_path / "runs").mkdir()
    build(tmp_path, "runs/sw", [pages["sw"]])
    more = "Watoto waliimba nyimbo na kucheza ngoma uwanjani, na mwalimu mkuu aliwashukuru wazazi kwa msaada wao."
    (tmp_path / "crawl").mkdir()
    rows = [pages["sw"], pages["en"], more]
    build(tmp_path, "crawl", rows, lang="sw,en", after_dedup=["langid"], against=[str(tmp_path / "runs")])
    assert kept(tmp_path / "crawl" / "sw") == [more]
    assert kept(tmp_path / "crawl" / "en") == [pages["en"]], "there is no earlier corpus of English"


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    build(tmp_path, "a", [text(1)])
    for settings, message in (
        ({"against": [str(tmp_path / "none")]}, "no corpus in"),
        ({"against": [str(tmp_path / "a")], "near_dedup": False}, "near_dedup=False"),
        ({"against": [str(tmp_path / "a")], "near": {"scope": "dump"}}, "near.scope=dump"),
        ({"against": [str(tmp_path / "a")], "lang": "en"}, "a corpus of sw"),
    ):
        with pytest.raises(UserError, match=message):
            build(tmp_path, "b", [text(2)], **settings)
        assert not (tmp_path / "b").exists()
