"""``xling corpus dictionary``: bilingual dictionaries in MUSE's format, both ways, from aligned words.

A word and its translation are linked one to one. Each pair needs a count, and a share of the links of both words. In
languages without spaces, words are those that code-switching replaces.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.settings.values import Pair
from xling.corpora.codeswitch.words import project_links, word_cutter, words_of_phrases
from xling.corpora.parallel.language_pair import OfPair
from xling.corpora.parallel.wordalign.stage import LINKS_FILE, PHRASES_FILE, RAW_TEXT_PREFIX
from xling.corpora.parallel.wordalign.symmetrise import parse_pharaoh
from xling.text.files import corpus_reader
from xling.text.pairs import word_spans
from xling.text.words.word_forms import lower_case

STAGE_NAME = "corpus dictionary"


@dataclass(frozen=True)
class DictionaryConfig(OfPair):
    """Settings of ``xling corpus dictionary``.

    Attributes:
        pair: the languages, for example ``en-sw``.
        source: directory of ``xling align``; ``runs/align/PAIR`` when empty.
        out: directory to publish ``SRC-TGT.txt`` and ``TGT-SRC.txt``; ``runs/dictionary/PAIR`` when empty.
        min_count: links between a word and its translation, at least.
        min_share: share of a word's links that lead to the translation, at least, in both directions.
        max_translations: most translations of a word.
    """

    FOLDER = "runs/dictionary"

    pair: Pair
    source: str = ""
    out: str = ""
    min_count: int = 2
    min_share: float = 0.2
    max_translations: int = 5

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, a number out of range.
        """
        super().__post_init__()
        for name in ("min_count", "max_translations"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}", "a whole number from 1")
        if not 0 <= self.min_share <= 1:
            raise UserError(f"min_share={self.min_share}", "0 to 1")


def run(cfg: DictionaryConfig) -> Answer:
    """Count linked words and publish both dictionaries.

    Raises:
        UserError: no alignment, or no pair of words that passes the limits.
    """
    folder, out = Path(cfg.source or f"runs/align/{'-'.join(cfg.langs)}"), cfg.directory
    if not (folder / LINKS_FILE).is_file():
        raise UserError(
            f"no alignment at {folder}", "a directory of xling align", f"run: xling align pair={cfg.pair}"
        )
    if done := manifest.up_to_date(out, STAGE_NAME, cfg.content(), [folder]):
        return Answer(f"{out}: up to date, nothing to do", {"out": str(out), **done.counts})
    counts = Counter(_linked_words(cfg, folder))
    forward = _entries(counts, cfg)
    backward = _entries(Counter({(t, s): count for (s, t), count in counts.items()}), cfg)
    if not forward:
        raise UserError(
            f"no two words of {folder} are linked {cfg.min_count} times and more",
            "a lower min_count or min_share",
        )
    with manifest.publish(out, STAGE_NAME, cfg.content(), [folder]) as publication:
        for (src, tgt), entries in ((cfg.langs, forward), (cfg.langs[::-1], backward)):
            lines = "".join(f"{word}\t{translation}\n" for word, translation in entries)
            (publication.path / f"{src}-{tgt}.txt").write_text(lines, encoding="utf-8")
        publication.counts |= {"entries": len(forward), "words": [len(dict(e)) for e in (forward, backward)]}
    published = manifest.read(out).counts
    return Answer(f"{out}: {published['entries']:,} entries", {"out": str(out), **published})


def _linked_words(cfg: DictionaryConfig, folder: Path) -> Iterator[tuple[str, str]]:
    """Words that are linked to each other and to no others, in lower case."""
    names = [folder / f"{RAW_TEXT_PREFIX}.{lang}" for lang in cfg.langs]
    if missing := [path for path in names if not path.is_file()]:
        raise UserError(f"{missing[0]} is missing", f"an alignment of {cfg.pair}", "check pair= and source=")
    cutters = [
        word_cutter(lang, corpus_reader.read_lines(path), {}, words_of_phrases(folder / PHRASES_FILE, side))
        for side, (lang, path) in enumerate(zip(cfg.langs, names, strict=True))
    ]
    for *pair, links in zip(
        *map(corpus_reader.read_lines, names), corpus_reader.read_lines(folder / LINKS_FILE), strict=True
    ):
        texts = [" ".join(text.split()) for text in pair]
        places = cutters[0](texts[0]), cutters[1](texts[1])
        word_links = project_links(parse_pharaoh(links), places, (word_spans(texts[0]), word_spans(texts[1])))
        degree = Counter(("src", i) for i, _ in word_links) + Counter(("tgt", j) for _, j in word_links)
        for i, j in word_links:
            at = places[0][i], places[1][j]
            words = [
                lower_case(text[a:b], lang) for text, (a, b), lang in zip(texts, at, cfg.langs, strict=True)
            ]
            if degree["src", i] == degree["tgt", j] == 1 and all(
                any(map(str.isalpha, word)) for word in words
            ):
                yield words[0], words[1]


def _entries(counts: Counter[tuple[str, str]], cfg: DictionaryConfig) -> list[tuple[str, str]]:
    """Entries that pass the limits: the most frequent words first, and their likeliest translations first."""
    src_counts: Counter[str] = Counter()
    tgt_counts: Counter[str] = Counter()
    for (word, translation), count in counts.items():
        src_counts[word] += count
        tgt_counts[translation] += count
    translations_of: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (word, translation), count in counts.items():
        if count >= cfg.min_count and count >= cfg.min_share * max(src_counts[word], tgt_counts[translation]):
            translations_of[word].append((-count, translation))
    ordered = sorted(translations_of, key=lambda word: (-src_counts[word], word))
    return [(word, t) for word in ordered for _, t in sorted(translations_of[word])[: cfg.max_translations]]
