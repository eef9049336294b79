"""A crawl that was read once is cut again with another model of language identification, without its sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.langid.test_rates import PAGES, glotlid
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.settings import config
from xling.corpora.common.shards import read_corpus
from xling.corpora.mono import MonoConfig

GERMAN = (
    "Der Rat der Stadt hat gestern beschlossen, dass die neue Schule im kommenden Jahr gebaut werden soll. Viele "
    "Eltern freuen sich darüber, weil der Weg für ihre Kinder dann kürzer wird."
)


def run(out: Path, lang: str, source: str, **settings: Any) -> None:
    values = {"lang": lang, "source": [source], "out": str(out), "near_dedup": False, "dedup": False}
    values |= {"after_dedup": ["langid"]} | settings
    run_local("corpus mono", config.from_dict(MonoConfig, values, "corpus mono"))


def kept(folder: Path) -> list[str]:
    return sorted(doc.text for doc in read_corpus(folder))


@pytest.fixture
def routed(tmp_path: Path) -> str:
    texts = [" ".join(PAGES["en"]), " ".join(PAGES["sw"]), GERMAN, "zu kurz"]
    crawl = tmp_path / "crawl.jsonl"
    crawl.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    run(tmp_path / "first", "all", f"jsonl:{crawl}", settings={"length": {"min_chars": 100}})
    assert kept(tmp_path / "first" / "de") == [GERMAN]
    crawl.unlink()
    return f"routed:{tmp_path / 'first' / 'routed'}"


def test_one_language_and_several_are_identified_again(tmp_path: Path, routed: str) -> None:
    model = glotlid(tmp_path / "other.bin")
    own = {"langid": {"model": f"fasttext:{model}", "labels": {"xyz_Latn": "nds"}, "threshold": 0.3}}
    run(tmp_path / "nds", "nds", f"{routed}#again", settings=own, before_dedup=[])
    assert kept(tmp_path / "nds") == [GERMAN], "the new model calls it Low German"
    run(tmp_path / "second", "all", routed, settings=own, before_dedup=[])
    assert kept(tmp_path / "second" / "nds") == [GERMAN]
    assert kept(tmp_path / "second" / "sw") == [" ".join(PAGES["sw"])]
    assert not (tmp_path / "second" / "de").exists()
    run(tmp_path / "two", "nds,en", routed, settings=own, before_dedup=[])
    assert kept(tmp_path / "two" / "nds") == [GERMAN]
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["en", "nds", "overview", "routed"]


def test_a_model_that_would_change_nothing_is_refused(tmp_path: Path, routed: str) -> None:
    own = {"langid": {"model": str(glotlid(tmp_path / "other.bin"))}}
    with pytest.raises(UserError, match=r"identified with another model.*#again"):
        run(tmp_path / "en", "en", routed, settings=own, before_dedup=[])
    with pytest.raises(UserError, match=r"'gain' behind the folder"):
        run(tmp_path / "en", "en", f"{routed}#gain", before_dedup=[])
    run(tmp_path / "en", "en", routed, before_dedup=[])
    assert kept(tmp_path / "en") == [" ".join(PAGES["en"])]
