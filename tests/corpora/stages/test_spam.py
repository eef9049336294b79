"""The classifier of spam: trained from sites and from files, exact, asked by `why`, and mild on ordinary text."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.crawl import sentences
from xling.core.errors import UserError
from xling.core.stage import run_local
from xling.corpora import lines, ngrams, select, spam, why
from xling.corpora.mono import MonoConfig
from xling.corpora.sources.wet import record_of
from xling.corpora.spam_train import Page, SpamTrainConfig, run, score
from xling.corpora.stages.spam import Spam
from xling.text.document import Document, Ledger

SPAM_WORDS = ["zorgbet", "flumcasino", "quixslots", "brindajackpot", "wimblepoker", "dralroulette"]
CLEAN = sentences("sw")


def page(number: int, is_spam: bool) -> str:
    draw = np.random.default_rng(number)
    lines = [CLEAN[i] for i in draw.permutation(len(CLEAN))[:12]]
    if is_spam:
        lines = [
            f"{line} {SPAM_WORDS[i]} {SPAM_WORDS[i - 1]}."
            for line, i in zip(lines, draw.integers(6, size=12), strict=True)
        ]
    return "\n".join([f"Page {number}", *(" ".join(lines[i : i + 3]) for i in range(0, 12, 3))])


def crawl(path: Path, hosts: Iterable[tuple[str, bool]]) -> None:
    records = [
        record_of("conversion", page(i, is_spam).encode()).replace(
            b"http://a.example/", f"http://{host}/{i}".encode()
        )
        for i, (host, is_spam) in enumerate(hosts)
    ]
    path.write_bytes(b"".join(records))


HOSTS = [(f"spam{i % 6}.example", True) for i in range(18)] + [
    (f"fine{i % 10}.example", False) for i in range(40)
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spam")
    crawl(folder / "a.wet", HOSTS)
    (folder / "sites.txt").write_text("".join(f"spam{i}.example\n" for i in range(6)), encoding="utf-8")
    cfg = SpamTrainConfig((f"wet:{folder}/a.wet",), (folder / "sites.txt",), out=str(folder / "model"))
    made = run(cfg)
    assert run(cfg) == made  # nothing is done twice
    assert made.counts["pages"] == 58
    return folder


def test_hosts_are_held_out_whole_and_the_card_says_what_was_read(trained: Path) -> None:
    names, values = (
        line.split("\t") for line in (trained / "model" / "held_out.tsv").read_text().splitlines()
    )
    told = dict(zip(names, map(float, values), strict=True))
    # Two of six sites with three pages each, two of ten with four.
    assert (told["spam"], told["pages"]) == (6, 14)
    assert told["precision"] == told["recall"] == 1.0
    assert 0.5 < told["recall at least"] < 0.8 and told["recall at most"] == 1.0
    card = " ".join((trained / "model" / "card.md").read_text().split())
    assert "| spam, trained on | 12 | 4 |" in card
    assert "| clean, held out | 8 | 2 |" in card
    assert "recall 1.000 (0.6" in card


def test_precision_and_recall_by_hand() -> None:
    model = spam.SpamModel(spam.features("bad"), np.array([4.0]), -1.0)
    pages = [
        Page("a", "bad", True),
        Page("b", "good", True),
        Page("c", "bad", False),
        Page("d", "fine", False),
    ]
    told = score(model, pages, 0.5)
    assert (told["found"], told["hits"], told["precision"], told["recall"]) == (2, 1, 0.5, 0.5)
    assert score(model, pages, 0.99)["found"] == 0


def test_a_feature_counts_once_and_long_texts_need_more(trained: Path) -> None:
    model = spam.load(trained / "model" / "spam.npz")
    once, often = model.log_odds("zorgbet, of the"), model.log_odds("zorgbet zorgbet zorgbet, of the")
    assert model.bias < often <= once + 2  # it adds one run of two words
    assert model.log_odds(page(1000, is_spam=False)) < 0 < model.log_odds(page(1000, is_spam=True))
    assert model.log_odds("") == model.log_odds("... 。") == model.bias


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.sampled_from("ab zorgbet\n你好赌场。é")), min_size=1, max_size=4))
def test_log_odds_are_those_of_the_features(texts: list[str]) -> None:
    known = spam.features("a b zorgbet")
    model = spam.SpamModel(known, np.arange(1.0, len(known) + 1), 0.25)
    weight_of = dict(zip(known.tolist(), model.weights.tolist(), strict=True))
    for text in [*texts, *texts]:  # whatever was judged before
        seen = spam.features(text)
        num_places = max(1, len(np.unique(seen >> 20)))
        wanted = sum(weight_of.get(feature, 0.0) for feature in seen.tolist()) / np.sqrt(num_places) + 0.25
        assert model.log_odds(text) == wanted


def test_chinese_is_read_by_characters() -> None:
    model = spam.SpamModel(spam.features("赌场"), np.array([3.0]), 0.0)
    assert model.log_odds("欢迎来到赌场。") > 0
    assert model.telling("欢迎来到赌场。") == ["赌场"]


def test_a_saved_model_is_the_same(trained: Path, tmp_path: Path) -> None:
    model = spam.load(trained / "model" / "spam.npz")
    model.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (trained / "model" / "spam.npz").read_bytes()


@pytest.mark.parametrize("seed", ["1", "2"])
def test_hash_seeds_do_not_matter(trained: Path, tmp_path: Path, seed: str) -> None:
    command = [
        *(sys.executable, "-m", "xling", "corpus", "spam-train", f"source=wet:{trained}/a.wet"),
        *(f"sites={trained}/sites.txt", f"out={tmp_path}/model"),
    ]
    subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True)
    assert (tmp_path / "model" / "spam.npz").read_bytes() == (trained / "model" / "spam.npz").read_bytes()


def test_files_of_sorted_texts_train_it(tmp_path: Path) -> None:
    for name, is_spam in (("bad", True), ("good", False)):
        texts = [page(i, is_spam) for i in range(20)]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    made = run(
        SpamTrainConfig(
            spam=(str(tmp_path / "bad.txt"),), clean=(str(tmp_path / "good.txt"),), out=str(tmp_path / "m")
        )
    )
    assert made.counts["held_out"]["pages"] == 8 and made.counts["held_out"]["recall"] == 1.0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no text of both labels"),
        ({"spam": ("a",)}, "no text of both labels"),
        ({"source": ("wet:x",), "threshold": float("nan")}, "threshold=nan.*between 0 and 1"),
        ({"source": ("wet:x",), "threshold": 1.0}, "threshold=1.0"),
        ({"source": ("wet:x",), "strength": float("inf")}, "strength=inf"),
        ({"source": ("wet:x",), "max_pages": 0}, "max_pages=0"),
        ({"source": ("wet:x",), "builtin": ("cats",)}, "cats"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        SpamTrainConfig(**given)


@pytest.mark.parametrize(
    ("hosts", "sites", "told"),
    [
        (HOSTS, "nothing.example", "0 pages of 58 are spam, of 0 sites"),
        ([("spam0.example", True), *HOSTS[18:]], "spam0.example", "1 pages of 41 are spam, of 1 sites"),
        (
            HOSTS[:18],
            "spam0.example\nspam1.example\nspam2.example\nspam3.example\nspam4.example\nspam5.example",
            "0 pages of 18 are clean",
        ),
        (
            [("one.example", True), ("six.example", True), ("six.example", False), ("ten.example", False)],
            "one.example\nsix.example/1",
            "the same sites hold spam and clean",
        ),
    ],
)
def test_useless_labels_are_told(
    tmp_path: Path, hosts: list[tuple[str, bool]], sites: str, told: str
) -> None:
    crawl(tmp_path / "a.wet", hosts)
    (tmp_path / "sites.txt").write_text(sites, encoding="utf-8")
    with pytest.raises(UserError, match=told):
        run(SpamTrainConfig((f"wet:{tmp_path}/a.wet",), (tmp_path / "sites.txt",), out=str(tmp_path / "m")))
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("content", [b"", b"no", b"PK\x03\x04 cut"])
def test_another_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.npz is not a model of spam.*spam-train"):
        list(Spam(model=tmp_path / "a.npz")([Document("0", "a b")], Ledger()))
    for loaded in (lines.load, ngrams.load):
        with pytest.raises(UserError, match=r"a\.npz is not a"):
            loaded(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", inner=np.zeros(3))
    with pytest.raises(UserError, match=r"b\.npz is not a model of spam"):
        spam.load(tmp_path / "b.npz")
    with pytest.raises(UserError, match=r"c\.npz is not a model of spam"):
        spam.load(tmp_path / "c.npz")


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan")])
def test_a_threshold_is_a_probability(threshold: float) -> None:
    with pytest.raises(UserError, match=r"settings\.spam\.threshold"):
        Spam(threshold=threshold)


def build(folder: Path, trained: Path, part_mb: float = 256) -> Path:
    out = folder / "sw"
    cfg = MonoConfig(
        "sw",
        str(out),
        source=(f"wet:{trained}/a.wet",),
        before_dedup=("repair",),
        after_dedup=("langid", "spam"),
        dedup=False,
        near_dedup=False,
        settings={"spam": {"model": str(trained / "model" / "spam.npz")}},
        part_mb=part_mb,
    )
    run_local("corpus mono", cfg)
    return out


def test_a_build_drops_spam_tells_why_and_selects_by_it(trained: Path, tmp_path: Path) -> None:
    out = build(tmp_path / "one", trained)
    kept = pl.read_parquet(sorted(out.glob("shards/*.parquet")))
    assert len(kept) == 40 and all("fine" in url for url in kept["url"])
    said = why.run(why.WhyConfig("Page 3\n", str(out)))
    assert "dropped by spam: spam (its words are those of adult" in said
    assert "most telling: " in said and any(word in said for word in SPAM_WORDS)
    assert select.run(select.SelectConfig(str(out), "spam < 0.5")).startswith("40 of 40 documents")
    (trained / "model" / "spam.npz").rename(trained / "gone.npz")
    try:
        spam.load.cache_clear()
        assert "what told against it cannot be found out" in why.run(why.WhyConfig("Page 3\n", str(out)))
    finally:
        (trained / "gone.npz").rename(trained / "model" / "spam.npz")


def test_parts_do_not_matter(trained: Path, tmp_path: Path) -> None:
    one = build(tmp_path / "one", trained)
    many = build(tmp_path / "many", trained, part_mb=0.005)
    first, second = (pl.read_parquet(sorted(out.glob("shards/*.parquet"))) for out in (one, many))
    assert first.equals(second)


def test_a_threshold_of_1_only_scores(trained: Path) -> None:
    doc = Document("0", page(3, is_spam=True))
    stage = Spam(threshold=1.0, model=trained / "model" / "spam.npz")
    assert list(stage([doc], Ledger())) == [doc]
    assert doc.meta["spam"] > 0.5
    other = Document("1", doc.text, source="wiki:x")
    assert list(Spam(sources=("wet:",), model=stage.model)([other], Ledger())) == [other]
    assert "spam" not in other.meta


ORDINARY = {
    "sex education in English": (
        "Talking with teenagers about sex\n"
        "Most parents find it hard to begin. Children learn about their bodies from friends and from pictures on a "
        "screen long before a teacher speaks about puberty, pregnancy and condoms in class.\n"
        "A nurse who visits schools says that short talks work better than one long lecture. She explains what "
        "consent means, how infections are passed on, and where a girl who fears that she is pregnant can go.\n"
        "Pornography shows sex without tenderness and without questions. Young people should hear from an adult that "
        "real love is different, and that nobody has to do what an actor does."
    ),
    "breast cancer in English": (
        "Screening finds lumps early\n"
        "Women between fifty and seventy are invited to an examination of the breast every two years. A doctor looks "
        "at two pictures of each breast, and a second doctor looks again.\n"
        "Of a thousand women, some twenty are called back. For most of them the lump turns out to be harmless. A "
        "sample of tissue is taken with a thin needle, and the result is known within a week."
    ),
    "health in Chinese": (
        "青春期的孩子需要哪些性教育\n"
        "医生说，孩子从十岁左右开始发育，父母应当用平常的语气回答他们的问题，不要回避，也不要责备。\n"
        "学校的课程应该讲清楚身体的变化、怀孕是怎样发生的、怎样预防疾病，还要告诉孩子，别人不能随便触摸他的身体。\n"
        "有的家长担心讲得太早。研究发现，接受过性教育的学生第一次发生性行为的年龄反而更晚，也更懂得保护自己。"
    ),
    "health in French": (
        "Parler de sexualité avec son médecin\n"
        "Beaucoup de patients n'osent pas poser de questions sur leur vie sexuelle. Pourtant une douleur, une perte de "
        "désir ou une infection se soignent souvent bien quand on en parle tôt.\n"
        "La gynécologue conseille de noter ses questions avant la visite. Elle rappelle que le préservatif protège des "
        "maladies et que la pilule ne le remplace pas."
    ),
}


@pytest.mark.parametrize("about", ORDINARY)
def test_the_built_in_model_keeps_ordinary_text_about_health(about: str) -> None:
    doc = Document("0", ORDINARY[about])
    assert list(Spam()([doc], Ledger())) == [doc]


def test_the_default_build_judges_no_page_by_such_words() -> None:
    # The built-in model drops articles about gambling, so it has to be asked for.
    cfg = MonoConfig("en")
    assert "spam" not in (*cfg.before_dedup, *cfg.after_dedup)
