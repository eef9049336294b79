"""Training of the built-in model of spam from lists of words and clean text, and its figures.

Run:  XLING_DATA=FOLDER python -m benchmarks.spam CHECKOUTS corpora/spam.npz [mentions]
      XLING_DATA=FOLDER python -m benchmarks.spam score MODEL CORPUS

No labelled pages with a licence that permits it were found, so the labels are weak. Spam is made: words of lists are
planted into clean text, or listed below a title of such words. ``CHECKOUTS`` holds these repositories of GitHub:

- lists: LDNOOBW/naughty-words-js (CC BY 4.0), splorp/wordpress-comment-blocklist (MIT), konsheng/Sensitive-lexicon
  (MIT), fwwdn/sensitive-stop-words and houbb/sensitive-word (Apache 2.0);
- clean text beside the sample data: saved pages of adbar/trafilatura, adbar/htmldate (Apache 2.0) and
  scrapinghub/article-extraction-benchmark (MIT), the texts of Anduin2017/HowToCook (Unlicense) and
  KaiserY/trpl-zh-cn (MIT).

Only words and runs of words of the lists get a weight, and none that one in 100 clean texts of its language has. The
bias is set so that 2 in 1,000 clean texts which training has not seen are beyond probability .5. With ``mentions``,
clean text in which a few words of the lists come back, as in an article about gambling, is shown as clean, too, and at
most 2 in 100 of such texts are beyond.

``score`` prints what a model finds in clean text and among the pages of CORPUS, kept and dropped, which is made by
``xling corpus mono lang=all source='wet:FOLDER/web/*.wet*' out=CORPUS``. A person read these pages.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.encoding import bytes_to_str, detect_encoding

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora import spam
from xling.corpora.parallel.audit import interval
from xling.corpora.sources.source import Context, open_source
from xling.corpora.stages.langid import identify
from xling.text.document import Ledger

SEED, STRENGTH, CLEAN_LOSS, HARD_LOSS = 1, 64.0, 0.002, 0.02
MOST, MOST_OF = 300, {"zh": 3000, "en": 900, "de": 500}  # clean texts of a language
FEWEST = 40
MAX_SHARE = 0.01
# Kana and Thai: pieces of two letters are no words.
LEFT_OUT = ("ja", "th")
GAMBLING = re.compile("赌|博彩|彩票|六合|投注|百家乐|老虎机|娱乐城|赛马会|下注")
ADULT = re.compile(
    "色情|情色|成人|淫|激情|裸|性交|做爱|黄色|美女|自拍|偷拍|小姐|妓|嫖|一夜情|av|AV|三级片|写真|色图|乱伦"
)
WESTERN = re.compile(
    r"[ck]asino|казино|poker|gambl|\bslots?\b|\bbet\b|betting|sportsbook|roulette|baccarat|blackjack|togel|judi|jackpot|"
    r"porn|порно|sex|секс|xxx|escort|viagra|cialis|levitra|erotic|webcam|nude"
)
FILLERS = re.compile(
    r"\b(?:an?|and|are|as|at|be|best|by|can|do|for|from|get|go|has|have|how|i|in|is|its?|me|my|no|not|of|on|our|or|so|that|"
    r"the|this|to|up|us|was|we|what|when|who|will|with|your?|day|new|one|out|all|see|more|here|now|just|like|about)\b"
)

# Numbers of records of hplt_pages.warc.wet.gz, which a person read.
SPAM = frozenset(
    (99, 109, 141, 153, 154, 165, 169, 172, 173, 175, 176, 177, 183, 184, 189, 194, 196, 209, 215, 220,
    222, 233, 235, 238, 245, 249, 250, 253, 255, 257, 263, 268, 271, 272, 274, 277)
)  # fmt: skip
DOUBTFUL = frozenset(
    (15, 42, 61, 65, 79, 80, 117, 142, 152, 190, 203)
)  # fmt: skip
# Those among the pages that a default build drops; all that it keeps were read.
READ_DROPPED = frozenset(
    (15, 18, 23, 26, 27, 43, 47, 50, 69, 74, 75, 80, 82, 83, 93, 95, 99, 103, 138, 141, 146, 152, 154,
    158, 160, 168, 170, 172, 173, 175, 178, 183, 184, 185, 189, 190, 192, 194, 196, 209, 212, 215, 220,
    224, 225, 233, 240, 249, 250, 252, 254, 255, 256, 268, 271, 272, 274, 275, 276, 277)
)  # fmt: skip


class Text(NamedTuple):
    """A clean text: its language, a name by which it is held out, and itself."""

    lang: str
    group: str
    text: str


class Lists(NamedTuple):
    """Words and phrases: by language, of gambling in Chinese, and of spam in the Latin script."""

    adult: dict[str, list[str]]
    gambling: list[str]
    western: list[str]


def read_lists(folder: Path) -> Lists:
    """Read the lists of ``CHECKOUTS``."""
    adult = {
        path.stem: [word.strip() for word in json.loads(path.read_text("utf-8")) if len(word.strip()) > 1]
        for path in sorted((folder / "naughty-words-js").glob("??.json"))
    }
    lexicon = sorted((folder / "Sensitive-lexicon/Vocabulary").glob("*.txt"))
    dictionary = folder / "sensitive-word/src/test/resources/dict_v20240407.txt"
    words = {
        word.strip().strip("*")
        for path in (*lexicon, dictionary)
        for word in path.read_text("utf-8").split("\n")
    }
    words = {word for word in words if re.fullmatch(r"[\u4e00-\u9fffa-zA-Z0-9]{2,10}", word)}
    gambling = sorted(filter(GAMBLING.search, words))
    named = re.split(r"[,，\s]+", (folder / "sensitive-stop-words/色情类.txt").read_text("utf-8"))
    chosen = {word for word in words if ADULT.search(word)} | {word for word in named if 1 < len(word) < 9}
    adult["zh"] = sorted({*adult["zh"], *chosen} - {*gambling})
    lines = (folder / "wordpress-comment-blocklist/blacklist.txt").read_text("utf-8").split("\n")
    western = [
        re.sub(r"[-/._=?:]+", " ", line).strip()
        for line in lines
        if len(line) > 4 and WESTERN.search(line.lower())
    ]
    short = [line for line in western if len(line.split()) <= 3 and not FILLERS.search(line.lower())]
    return Lists({lang: words for lang, words in adult.items() if lang not in LEFT_OUT}, gambling, short)


def clean_texts(folder: Path, data: Path) -> Iterator[Text]:
    """Yield the clean texts."""
    for path in sorted((data / "wiki").glob("*.bz2")):
        context = Context(lang=path.name.partition("wiki")[0])
        for shard in open_source(f"wiki:{path}", context).shards():
            for doc in open_source(f"wiki:{path}", context).read(shard, Ledger()):
                for i in range(0, len(doc.text), 2500):
                    yield Text(context.lang, doc.id, doc.text[i : i + 2500])
    for folder_name, pattern in (("mono", "cv.*.txt.gz"), ("seed", "*.txt.gz")):
        for path in sorted((data / folder_name).glob(pattern)):
            lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:3000]
            code = path.name.removeprefix("cv.").partition(".")[0]
            for i in range(0, len(lines), 12):
                yield Text(_base(code), f"{path.name} {i}", "\n".join(lines[i : i + 12]))
    for name in ("trafilatura/tests", "htmldate/tests", "article-extraction-benchmark/html"):
        for path in sorted((folder / name).rglob("*.html*")):
            raw = path.read_bytes()
            raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
            if len(raw) < 1_000_000:
                html = bytes_to_str(raw, detect_encoding(raw) or "utf-8")
                text = extract_plain_text(html, main_content=True, alt_texts=False, list_bullets=False)[:5000]
                yield Text(_base(identify(text)[0] or "en"), path.name, text)
    for name in ("HowToCook", "trpl-zh-cn/src"):
        for path in sorted((folder / name).rglob("*.md")):
            text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
            for i in range(0, len(text), 2500):
                yield Text("zh", path.name, text[i : i + 2500])


def _base(code: str) -> str:
    try:
        return languages.get(code).base
    except UserError:
        return ""


class Maker:
    """Makes pages of spam: words of the lists, planted into clean texts of a language or listed."""

    def __init__(self, lists: Lists, texts: list[str], lang: str) -> None:
        self._lists, self._texts, self._lang = lists, texts, lang
        self._draw = np.random.default_rng([SEED, *lang.encode()])

    def word(self) -> str:
        """Return a word or phrase."""
        adult = self._lists.adult[self._lang]
        share = {"zh": 0.5, "en": 0.7}.get(self._lang, 0.5)
        other = self._lists.gambling if self._lang == "zh" else self._lists.western
        return self._one(other if self._draw.random() < share else adult)

    def page(self) -> str:
        """Return a page of spam."""
        few = [self.word() for _ in range(self._between(1, 6))]
        words = [
            self._one(few) if self._draw.random() < 0.6 else self.word()
            for _ in range(self._between(20, 150))
        ]
        title = self._one(["_", " - ", " | ", ",", " "]).join(words[: self._between(1, 4)])
        text = self._one(self._texts)[: self._between(300, 3000)]
        if self._draw.random() < 0.35:
            return f"{title}\n{self._one([' ', chr(10), ', ']).join(words)}\n{text[: self._between(0, 1500)]}"
        step = self._between(15, 90) if self._lang == "zh" else self._between(35, 250)
        return f"{title}\n{self.planted(text, words, step)}"

    def mention(self, is_long: bool) -> str:
        """Return a clean text with one word of the lists, or with one to six that come back as in a text about them."""
        text = self._one(self._texts)
        if not is_long:
            return self.planted(text, [self.word()], len(text))
        few = [self.word() for _ in range(self._between(1, 6))]
        step = self._between(20, 150) if self._lang == "zh" else self._between(60, 400)
        return self.planted(text[: self._between(300, 3000)], [self._one(few) for _ in range(60)], step)

    def planted(self, text: str, words: list[str], step: int) -> str:
        """Return a text with a word about every ``step`` characters, as long as there are words, between its own."""
        parts, place = list[str](), 0
        for word in words:
            end = place + self._between(step // 2 + 1, step * 3 // 2 + 1)
            if self._lang != "zh":
                end = text.find(" ", end) + 1 or len(text)
            if end >= len(text):
                break
            parts += [text[place:end], word if self._lang == "zh" else f"{word} "]
            place = end
        return "".join([*parts, text[place:]])

    def _between(self, low: int, high: int) -> int:
        return int(self._draw.integers(low, high + 1))

    def _one(self, items: list[str]) -> str:
        return items[int(self._draw.integers(len(items)))]


def main(folder: Path, out: Path, data: Path, mentions: bool) -> None:
    """Train, print figures on texts that were held out, and write the model of all texts."""
    lists = read_lists(folder)
    by_lang = defaultdict[str, dict[str, Text]](dict)
    for text in clean_texts(folder, data):
        if text.lang in lists.adult and len(text.text) > 120:
            by_lang[text.lang][text.text] = text  # a saved page is in two repositories
    clean, made = list[Text](), list[tuple[str, bool]]()
    for lang, texts in sorted(by_lang.items()):
        draw = np.random.default_rng([SEED, 0, *lang.encode()])
        ours = [[*texts.values()][i] for i in draw.permutation(len(texts))[: MOST_OF.get(lang, MOST)]]
        if len(ours) >= FEWEST:
            clean += ours
            maker = Maker(lists, [text.text for text in ours], lang)
            made += [(maker.page(), True) for _ in ours]
            made += [(maker.mention(mentions), False) for _ in (ours if mentions else ours[::4])]
    counts = Counter(text.lang for text in clean)
    print(
        "clean texts",
        dict(counts),
        "words",
        {k: len(v) for k, v in lists.adult.items()},
        *map(len, lists[1:]),
    )
    texts_of = [text.text for text in clean] + [text for text, _ in made]
    is_spam = np.array([False] * len(clean) + [label for _, label in made])
    held_out = np.array(
        [zlib.crc32(group.encode()) % 5 == 0 for group in (*(t.group for t in clean), *(t for t, _ in made))]
    )
    part = fitted(
        lists,
        clean,
        [*np.array(texts_of, dtype=object)[~held_out]],
        is_spam[~held_out],
        held_out[: len(clean)],
    )
    scores = np.array(
        [part.log_odds(text) if held else np.nan for text, held in zip(texts_of, held_out, strict=True)]
    )
    fine = scores[: len(clean)][held_out[: len(clean)]]
    hard = scores[len(clean) :][held_out[len(clean) :] & ~is_spam[len(clean) :]]
    found = scores[held_out & is_spam]
    limit = max(_beyond(fine, CLEAN_LOSS), _beyond(hard, HARD_LOSS) if mentions else -np.inf)
    shares = [f"{(each > limit).mean():.4f} of {len(each)}" for each in (found, hard, fine)]
    print(
        f"beyond log-odds {limit:.3f}: {shares[0]} made pages, {shares[1]} that mention such words, {shares[2]} clean"
    )
    model = fitted(lists, clean, texts_of, is_spam, np.zeros(len(clean), dtype=bool))
    spam.SpamModel(model.known, model.weights, model.bias - math.ceil(limit * 256) / 256).save(out)
    print(f"{len(model.known)} features, {out.stat().st_size} bytes")


def _beyond(scores: np.ndarray, share: float) -> float:
    """Return the score that this share of the texts exceeds."""
    return float(np.sort(scores)[::-1][int(share * len(scores))]) + 1 / 256


def fitted(
    lists: Lists, clean: list[Text], texts: list[str], is_spam: np.ndarray, left_out: np.ndarray
) -> spam.SpamModel:
    """Return a model whose features are in the lists and rare in clean texts of each language."""
    seen = defaultdict[str, Counter[int]](Counter)
    totals = Counter[str]()
    for text, out in zip(clean, left_out, strict=True):
        if not out:
            totals[text.lang] += 1
            seen[text.lang].update(spam.features(text.text).tolist())
    common = {
        feature
        for lang, counts in seen.items()
        for feature, num in counts.items()
        if num > max(1, MAX_SHARE * totals[lang])
    }
    words = [word for lang in totals for word in lists.adult[lang]] + lists.gambling + lists.western
    wanted = np.unique(np.concatenate([spam.features(word) for word in words]))
    only = wanted[[feature not in common for feature in wanted.tolist()]]
    return spam.train(texts, is_spam, STRENGTH, only=only)


def score(model: spam.SpamModel, corpus: Path, data: Path) -> None:
    """Print precision and recall on the pages of a corpus that were read, and what is found in clean text."""
    kept = stored(corpus, "shards")
    dropped = {name: text for name, text in stored(corpus, "rejects").items() if name not in kept}
    dropped = {name: text for name, text in dropped.items() if number(name) in READ_DROPPED}
    for kind, texts in (("kept", kept), ("dropped", dropped)):
        counts = Counter(
            (number(name) in SPAM, model.log_odds(texts[name]) >= 0)
            for name in texts
            if number(name) not in DOUBTFUL
        )
        hits, wrong, missed = counts[True, True], counts[False, True], counts[True, False]
        for name, whole in (("precision", hits + wrong), ("recall", hits + missed)):
            low, high = interval(hits, whole)
            print(f"{kind}: {name} {hits}/{whole} = {hits / max(1, whole):.3f} ({low:.3f} to {high:.3f})")
        print(f"{kind}: {len(texts)} pages, {len(texts) - counts.total()} of them doubtful")
    for name, clean in clean_sets(data).items():
        num = sum(model.log_odds(text) >= 0 for text in clean)
        print(f"{name}: {num} of {len(clean)} found, at most {interval(num, len(clean))[1]:.4f}")


def stored(corpus: Path, folder: str) -> dict[str, str]:
    """Return the texts of ``shards`` or ``rejects`` by id; the longest, since menus of a page are stored, too."""
    texts = dict[str, str]()
    for path in sorted(corpus.glob(f"*/{folder}/*.parquet")):
        for name, text in pl.read_parquet(path, columns=["id", "text"]).iter_rows():
            texts[name] = max(texts.get(name, ""), text, key=len)
    return texts


def number(name: str) -> int:
    """Return the number of a record of hplt_pages.warc.wet.gz, -1 for another file's."""
    return int(name.removeprefix("hplt_pages/")) if name.startswith("hplt_pages/") else -1


def clean_sets(data: Path) -> dict[str, list[str]]:
    """Return documents of text that nobody would call spam; none of them was trained on."""
    names = (data / "ntrex/doc_ids.txt").read_text("utf-8").split("\n")
    news = defaultdict[tuple[str, str], list[str]](list)
    for path in sorted((data / "ntrex").glob("ntrex.*.txt")):
        for name, line in zip(names, path.read_text("utf-8").split("\n"), strict=False):
            news[path.name, name].append(line)
    verses = list[str]()
    for path in sorted((data / "bible").glob("*.tsv.gz")):
        lines = [
            line.rpartition("\t")[2]
            for line in gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")
        ]
        verses += ["\n".join(lines[i : i + 25]) for i in range(0, len(lines), 25)]
    return {
        "NTREX documents": ["\n".join(lines) for lines in news.values()],
        "UDHR": [path.read_text("utf-8") for path in sorted((data / "udhr").glob("*.txt"))],
        "Bible, 25 verses": verses,
        "SIB-200 sentences": [
            line.rpartition("\t")[2]
            for path in sorted((data / "sib200").glob("*.test.tsv"))
            for line in path.read_text("utf-8").splitlines()[1:]
        ],
    }  # fmt: skip


if __name__ == "__main__":
    given = sys.argv[1:]
    sample = Path(os.environ["XLING_DATA"])
    if given[0] == "score":
        score(spam.load(Path(given[1])), Path(given[2]), sample)
    else:
        main(Path(given[0]), Path(given[1]), sample, given[2:] == ["mentions"])
