"""What the survey says of places elsewhere, of amounts and of times, over a local server with the real layouts."""

from __future__ import annotations

import bz2
import json
import zipfile
from hashlib import sha1
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xling
from tests.corpora.crawl import document, sentences
from tests.corpora.crawl_index.dump import DUMP, Page, served, write_dump
from xling import cli
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.sampling import rng
from xling.language import known, survey
from xling.language.settings import LanguageConfig
from xling.language.times import minutes_of

NUM_PAGES = 24


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Common Crawl's index with Swahili pages, a dump of Wikipedia, and OPUS's list."""
    folder = tmp_path / "site"
    ours = [Page(f"https://sw.example/{i}", document("sw", i), "swa") for i in range(NUM_PAGES)]
    others = [Page(f"https://en.example/{i}", None, "eng") for i in range(100)]
    write_dump(folder, [*ours, *others])
    dump = folder / "swwiki" / "latest" / "swwiki-latest-pages-articles.xml.bz2"
    dump.parent.mkdir(parents=True)
    dump.write_bytes(bz2.compress(b"<mediawiki></mediawiki>"))
    corpora = [
        {"corpus": name, "version": "v1", "alignment_pairs": pairs, "url": "https://store.example/a.zip"}
        for name, pairs in (("Small", 20), ("Large", 70_000))
    ]
    query = "api?source=sw&target=en&preprocessing=moses&version=latest"
    (folder / query).write_text(json.dumps({"corpora": corpora}))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for lang, text in (("sw", "Watoto wanasoma shuleni."), ("en", "Children learn at school.")):
        lines = [f"{text} {number}" for number in range(30)]
        (tmp_path / "data" / f"news.{lang}").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


def config(data: Path, tmp_path: Path, base: str, **more: Any) -> LanguageConfig:
    urls = {"cc": base, "opus": f"{base}/api", "wiki": str(tmp_path / "site")}
    places: dict[str, Any] = {"out": str(tmp_path / "out"), "cache": str(tmp_path / "cache")}
    return LanguageConfig(lang="sw", data=data, dump=DUMP, base_urls=urls, **places, **more)


ENGLISH = """The capital of our country is near a great sea. Children study at school every day early in the morning.
It rained a lot last night in the mountains of the north. The farmer planted maize and beans in his field.
Many guests came to look at the wild animals. The government has built a new road from the town to the village.
The teacher explained the history of the nation to his pupils. Many fish are caught in this lake every year.
The doctor said that clean water is important for health. The women of the village began a society to sell vegetables.
That book was written by a famous author of old. The train leaves at eight o'clock in the morning.
The price of oil has gone up again this month at the market. Our football team won the last game."""
"""The Swahili sentences of `tests.corpora.crawl`, one by one."""


def pages_and_pairs(folder: Path) -> None:
    """Add a dump of Wikipedia, English pages, and an archive of OPUS with 1,500 pairs of the same sentences."""
    english = [f"{each.strip()}." for each in ENGLISH.replace("\n", " ").split(".") if each]
    pools = {"sw": sentences("sw"), "en": english}
    assert len(pools["sw"]) == len(pools["en"])
    article = "<page><title>T{0}</title><ns>0</ns><id>{0}</id><revision><text>{1}</text></revision></page>"
    articles = "".join(article.format(i, document("sw", "wiki", i)) for i in range(12))
    dump = folder / "swwiki" / "latest" / "swwiki-latest-pages-articles.xml.bz2"
    dump.write_bytes(bz2.compress(f"<mediawiki>{articles}</mediawiki>".encode()))
    sums = f"{sha1(dump.read_bytes()).hexdigest()}  swwiki-20240520-pages-articles.xml.bz2\n"
    (dump.parent / "swwiki-latest-sha1sums.txt").write_text(sums)
    random = rng("pages and pairs")
    orders = [random.permutation(len(english)).tolist() for _ in range(NUM_PAGES)]
    texts = [[" ".join(english[i] for i in order[j : j + 5]) for j in (0, 5, 10)] for order in orders]
    pages = [Page(f"https://en.example/{i}", "\n".join(text), "eng") for i, text in enumerate(texts)]
    pages += [Page(f"https://sw.example/{i}", document("sw", i), "swa") for i in range(NUM_PAGES)]
    write_dump(folder, pages)
    drawn = random.integers(0, len(english), (1500, 3)).tolist()
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        for lang, pool in pools.items():
            text = "".join(" ".join(pool[i] for i in row) + "\n" for row in drawn)
            archive.writestr(zipfile.ZipInfo(f"Small.en-sw.{lang}"), text)
    entry = {
        "corpus": "Small",
        "version": "v1",
        "alignment_pairs": 1500,
        "url": "https://store.example/a.zip",
    }
    query = "api?source=sw&target=en&preprocessing=moses&version=latest"
    (folder / query).write_text(json.dumps({"corpora": [entry]}))


def test_from_a_name_to_a_model_with_nothing_but_downloads(site: Path, tmp_path: Path) -> None:
    pages_and_pairs(site)
    (tmp_path / "data").mkdir()
    out = tmp_path / "out"
    with served(site) as server:
        words = [
            "language",
            "lang=Swahili",
            f"data={tmp_path / 'data'}",
            f"out={out}",
            "size=2MB",
            f"dump={DUMP}",
        ]
        words += [f"base_urls.{name}={server.url}" for name in ("cc", "wiki", "opus_store")]
        words += [f"base_urls.opus={server.url}/api", f"cache={tmp_path / 'cache'}", "updates=12", "hours=1"]
        for encoder in ("static", "static_less"):
            words += [f"{encoder}.model.dim=16", f"{encoder}.model.bits=12"]
        assert cli.main(words) == 0
    counts = {code: manifest.read(out / "corpora" / code).counts for code in ("sw", "en", "sw-en", "mined")}
    assert counts["sw"]["documents"] > NUM_PAGES > counts["en"]["documents"] > 10
    assert counts["sw-en"]["pairs"] > 1000 and counts["mined"]["pairs"] > 10
    rows = manifest.read(out / "rows").counts
    assert sum(rows["held_out"].values()) > 10
    assert rows["rows"]["parallel"]["sw"] == counts["sw-en"]["pairs"] - sum(rows["held_out"].values())
    assert (out / "corpora" / "sw" / "audit" / "audit.html").is_file()
    report = (out / "report" / "report.md").read_text(encoding="utf-8")
    assert "held out: the static encoder finds" in report
    assert f"{out}/corpora/sw-en has {counts['sw-en']['pairs']:,} sentence pairs from OPUS" in report
    page = (out / "report" / "report.html").read_text(encoding="utf-8")
    assert "../corpora/sw/audit/audit.html" in page and "../corpora/sw-en/card.html" in page
    vectors = xling.load(str(out / "models" / "static")).encode(["Watoto wanasoma."], lang="sw")
    assert len(vectors) == 1 and np.isfinite(vectors).all()


def test_what_lies_elsewhere(site: Path, data: Path, tmp_path: Path) -> None:
    with served(site) as server:
        facts = survey.run(config(data, tmp_path, server.url, size="1GB")).data
        assert not [asked for asked, *_ in server.asked if "warc.gz" in asked]  # the index alone
    wiki, crawl, opus, large, small = facts["elsewhere"]
    assert opus["pairs"] == 70_020 and opus["get"] == large["get"] == "read by this command"
    assert wiki["where"] == "Wikipedia" and wiki["licence"].startswith("CC BY-SA")
    assert crawl["where"] == DUMP and f"about {NUM_PAGES} pages" in crawl["amount"]
    assert "estimated from" in crawl["amount"] and crawl["clean_mb"] is not None
    assert [each["where"] for each in (large, small)] == ["OPUS Large", "OPUS Small"]
    assert large["amount"] == "70,000 pairs"
    assert facts["sources"] == [["own", 30, "not stated"]]


def test_without_a_network_the_rest_is_told(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = survey.run(config(data, tmp_path, "http://127.0.0.1:9", size="1GB")).data
    assert [each["amount"] for each in facts["elsewhere"]] == ["not reached"] * 3
    assert capsys.readouterr().err.count("is left out") == 3


def test_nothing_is_asked_without_size(site: Path, data: Path, tmp_path: Path) -> None:
    with served(site) as server:
        facts = survey.run(config(data, tmp_path, server.url)).data
        assert facts["elsewhere"] == [] and not server.asked
    assert "Bring translated sentences: 500 train" in facts["choices"][-1][-1]


def test_the_survey_is_made_again_after_a_change_of_code_or_data(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = config(data, tmp_path, "")
    rate = survey.run(cfg).data["product_rate"]
    path = tmp_path / "out" / "survey" / "manifest.json"
    before = path.stat().st_mtime_ns
    survey.run(cfg)
    assert path.stat().st_mtime_ns == before
    for lang in ("sw", "en"):
        with (data / f"news.{lang}").open("a") as handle:
            handle.write("Moja.\n")
    facts = survey.run(cfg).data
    assert facts["languages"][0]["pairs"] == {"own": 31} and facts["product_rate"] == rate
    before = path.stat().st_mtime_ns
    monkeypatch.setattr("xling.core.output.source_version.digest", lambda: "another")
    survey.run(cfg)
    assert path.stat().st_mtime_ns != before


def test_scores_of_such_amounts() -> None:
    low, middle, high, number, is_far = known.scores_near("NTREX", 32_000)
    assert (low, high, is_far) == (33.9, 98.3, False) and low < middle < high and number > 10
    assert known.scores_near("NTREX", 2_000_000)[-2:] == (known.NEAREST, True)
    assert known.scores_near("SIB-200", 1)[-2:] == (known.NEAREST, True)
    assert known.licence_of("own") == "not stated"


def test_minutes_grow_with_the_work_and_shrink_with_the_machine() -> None:
    shape = {"layers": 6, "dim": 384, "ffn_dim": 1536}
    train = {"updates": 100, "batch_tokens": 4096}
    steps = {
        "static": {"stage": "pretrain static", "config": {"minutes": 6}},
        "model": {"stage": "pretrain", "config": {"model": shape, "train": train}},
        "sib200_static": {
            "stage": "eval",
            "config": {"checkpoints": ["static=A"], "train_rows": 700, "fit": {"epochs": 10}, "seeds": [1, 2, 3]},
        },
    }  # fmt: skip
    slow, fast = (minutes_of(steps, {}, rate) for rate in (1e11, 2e11))
    assert slow["static encoders"] == fast["static encoders"]
    assert 1.6 < slow["Transformer"] / fast["Transformer"] < 2
    assert slow["scores of the static encoder"] > fast["scores of the static encoder"]


def test_a_language_that_no_list_has_hears_of_a_code(data: Path) -> None:
    with pytest.raises(UserError, match="for a language that no list has, qaa"):
        LanguageConfig(lang="xzz", data=data)
    with pytest.raises(UserError, match=r"holds no text of Yoruba \(yo\): it has en, sw"):
        survey.run(LanguageConfig(lang="yo", data=data, out="unused"))
