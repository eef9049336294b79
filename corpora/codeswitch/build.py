"""``xling corpus codeswitch``: code-switched text from aligned pairs, from dictionaries, or by alternation.

``mode=alm`` reads ``xling align``'s output, ``mode=documents`` a corpus of ``xling corpus parallel``, and
``mode=dictionary`` any text with MUSE dictionaries. The result is a published directory with the text, one
sentence (or document) a paragraph, Parquet shards, a card, and the realised replacement rate of each language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import polars as pl

from xling.core import languages
from xling.core.commands.runner import run_local
from xling.core.errors import UserError
from xling.core.output import manifest
from xling.core.output.command_result import Answer
from xling.core.progress import Progress
from xling.core.settings.values import Lang, Pair
from xling.corpora.card.counters import Counters, SourceCounters
from xling.corpora.card.losses import loss_note
from xling.corpora.card.publication import stats_of, write
from xling.corpora.codeswitch.alm import AlmSettings, ReplacementRate, draw_sentence
from xling.corpora.codeswitch.documents import alternate_languages, group_by_document
from xling.corpora.codeswitch.words import Spans, add_word_forms, project_links, word_cutter, words_of_phrases
from xling.corpora.common.shards import SCHEMA, TableWriter, to_row
from xling.corpora.parallel.language_pair import OfPair
from xling.corpora.parallel.wordalign.stage import LINKS_FILE, PHRASES_FILE, RAW_TEXT_PREFIX, AlignConfig
from xling.corpora.parallel.wordalign.symmetrise import parse_pharaoh
from xling.text.document import Document, Ledger
from xling.text.files import corpus_reader
from xling.text.files.dictionary import Cosda, check_direction, read_dictionary
from xling.text.pairs import word_spans
from xling.text.words.substitution import SwitchedSentence, expand_elided_words, render_text, token_langs

STAGE_NAME = "corpus codeswitch"
TEXT_FILE, LANGS_FILE = "train.txt", "train.langs"
_NUM_SAMPLES = 5


@dataclass(frozen=True)
class CodeswitchConfig(OfPair):
    """Settings of ``xling corpus codeswitch``.

    Attributes:
        pair: the languages, for example ``en-sw``; with ``mode=dictionary`` the first is that of the text.
        mode: ``alm``: phrases exchanged in aligned pairs; ``dictionary``: words replaced by translations;
            ``documents``: sentences alternate between the languages.
        source: ``alm``: directory of ``xling align``, or of ``xling corpus parallel``, which is
            aligned first (``runs/align/PAIR`` or ``runs/parallel/PAIR``); ``documents``: of ``xling corpus
            parallel`` (``runs/parallel/PAIR``); ``dictionary``: text files, globs or corpora.
        dictionaries: language -> MUSE dictionary from the text's language.
        out: directory to publish; ``runs/codeswitch/PAIR`` when empty.
        alm: settings of ``mode=alm``.
        words: language without spaces -> file of its words, one per line, which are never divided; more are learned
            from the text.
        word_rate: ``mode=dictionary``: share of the words of touched sentences to replace; see ``draw``.
        draw: ``rate``: words that a dictionary holds are drawn so that the share of all words is ``word_rate``;
            ``held``: each of them with probability ``word_rate``; ``cosda``: the same, the language drawn first, as
            CoSDA-ML's code does.
        forms: ``mode=dictionary``: replace inflected forms of entries, too.
        sentence_rate: ``mode=dictionary``: probability that a sentence is changed at all.
        max_sentences: ``mode=documents``: longest document.
        seed: seed of all draws.
    """

    FOLDER = "runs/codeswitch"

    pair: Pair
    mode: Literal["alm", "dictionary", "documents"] = "alm"
    source: tuple[str, ...] = ()
    dictionaries: dict[Lang, str] = field(default_factory=dict)
    out: str = ""
    alm: AlmSettings = field(default_factory=AlmSettings)
    words: dict[Lang, str] = field(default_factory=dict)
    word_rate: float = 0.3
    draw: Literal["rate", "held", "cosda"] = "rate"
    forms: bool = True
    sentence_rate: float = 1.0
    max_sentences: int = 64
    seed: int = 1

    def __post_init__(self) -> None:
        """Reject values that are out of range or do not fit together.

        Raises:
            UserError: an unknown language, a share out of range, dictionaries missing or without use.
        """
        super().__post_init__()
        for lang in (*self.dictionaries, *self.words):
            languages.get(lang)
        if spaced := [lang for lang in self.words if languages.get(lang).spaces]:
            raise UserError(
                f"words.{spaced[0]}=", "a language that puts no spaces between words", "leave it out"
            )
        if (self.mode == "dictionary") != bool(self.dictionaries):
            raise UserError(
                f"mode={self.mode} with {len(self.dictionaries)} dictionaries",
                "mode=dictionary dictionaries.LANG=FILE",
            )
        if self.mode != "dictionary" and len(self.source) > 1:
            raise UserError(
                f"source={','.join(self.source)} with mode={self.mode}",
                "one directory",
                "switch them one by one, or make one corpus of their sources",
            )
        if self.mode == "dictionary" and not self.source:
            raise UserError("mode=dictionary without source=", "text files, globs or corpora")
        if self.alm.switched + 2 * self.alm.plain > 1 + 1e-9:
            raise UserError(
                f"alm.switched={self.alm.switched} and twice alm.plain={self.alm.plain}", "at most 1 together"
            )


@dataclass(frozen=True)
class Item:
    """A paragraph that code-switching writes, with its id.

    Attributes:
        name: stable id.
        text: the paragraph, or a document with one sentence per paragraph.
        langs: language of each space-separated token of ``text``, lines as in ``text``.
        kind: ``switched``, ``source``, ``target`` or ``alternating``.
        base: original language of the sentence.
        num_words: number of words of the original sentence.
        replaced: language -> number of words of the sentence replaced by it.
    """

    name: str
    text: str
    langs: str
    kind: str
    base: str
    num_words: int
    replaced: dict[str, int]


def run(cfg: CodeswitchConfig) -> Answer:
    """Make the corpus and publish it; does nothing when it is there.

    Raises:
        UserError: the input is missing, no dictionary fits the text, or nothing was replaced at all.
    """
    inputs, items = _MODES[cfg.mode](cfg)
    out = cfg.directory
    if done := manifest.up_to_date(out, STAGE_NAME, cfg.content(), inputs):
        return Answer(f"{out}: up to date, nothing to do", {"out": str(out), **done.counts})
    ledger, counters, counts = Ledger(), Counters(), _ReplacementCounts()
    with manifest.publish(out, STAGE_NAME, cfg.content(), inputs) as publication:
        (publication.path / "shards").mkdir()
        with (
            Progress("switch", unit="sentences") as progress,
            (publication.path / TEXT_FILE).open("w", encoding="utf-8") as text,
            (publication.path / LANGS_FILE).open("w", encoding="utf-8") as langs,
            TableWriter(publication.path / "shards" / "train.parquet", SCHEMA) as table,
        ):
            for item in items(ledger):
                source = ", ".join(map(str, inputs[:1]))
                doc = Document(item.name, item.text, source=source, lang=item.base, meta={"kind": item.kind})
                ledger.count_seen("corpus", doc)
                counters.count_published(doc, _NUM_SAMPLES)
                table.add(to_row(doc))
                end = "\n\n" if item.kind == "alternating" else "\n"
                text.write(item.text + end)
                langs.write(item.langs + end)
                counts.add(item)
                progress.update()
        if not any(counts.replaced.values()):
            raise UserError(
                "not one word was replaced", fix="check the alignment, or that the dictionary fits the text"
            )
        for uri in map(str, inputs[:1]):
            counters.sources[uri] = SourceCounters(ledger.seen["read"], ledger.seen_chars["read"])
        for event, count in counts.kinds.items():
            ledger.count_event(event, count)
        stats = _stats(cfg, inputs, ledger, counters)
        write(publication, stats, ledger, "sentences", **counts.to_json())
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in counts.rates().items())
    told = f"{out}: {ledger.seen['corpus']:,} sentences; replaced words: {rates}{_summary(cfg, counts)}"
    num_read = ledger.seen["read"]
    note = loss_note(stats, num_read, num_read - ledger.dropped.total(), "pairs", {})
    told += f"\n{note}" * bool(note)
    return Answer(told, {"out": str(out), **publication.counts})


def _summary(cfg: CodeswitchConfig, counts: _ReplacementCounts) -> str:
    """Describe a shortfall if fewer words were replaced than requested."""
    target_rate = (
        cfg.word_rate * cfg.sentence_rate if cfg.mode == "dictionary" and cfg.draw == "rate" else cfg.alm.rate
    )
    if target_rate is None or cfg.mode == "documents":
        return ""
    reached = sum(counts.replaced.values()) / max(sum(counts.words.values()), 1)
    if reached >= target_rate - 0.02:
        return ""
    return f"; {reached:.3f} of {target_rate:g} asked for: no more have a translation"


class _ReplacementCounts:
    """Words replaced by each language in the sentences of each."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.words: Counter[str] = Counter()
        self.replaced: Counter[tuple[str, str]] = Counter()

    def add(self, item: Item) -> None:
        self.kinds[f"{item.kind} {item.base}".strip()] += 1
        if item.kind in ("switched", "alternating"):
            self.words[item.base] += item.num_words
            for lang, count in item.replaced.items():
                self.replaced[item.base, lang] += count

    def rates(self) -> dict[str, float]:
        """Return ``en>sw`` -> share of the words of switched English sentences that became Swahili."""
        return {
            f"{base}>{lang}": round(count / max(self.words[base], 1), 5)
            for (base, lang), count in sorted(self.replaced.items())
        }

    def to_json(self) -> dict[str, Any]:
        return {"kinds": dict(sorted(self.kinds.items())), "replacement_rate": self.rates()}


InputsAndItems = tuple[list[Path], Any]


def _alignment_folder(cfg: CodeswitchConfig) -> Path:
    """Return the directory of the alignment; align a parallel corpus first if it has none."""
    pair = "-".join(cfg.langs)
    folders = [Path(path) for path in cfg.source[:1]] or [
        Path(f"runs/align/{pair}"),
        Path(f"runs/parallel/{pair}"),
    ]
    for folder in folders:
        if (folder / LINKS_FILE).is_file():
            return folder
        if (folder / "shards" / "train.parquet").is_file():
            out = cfg.directory.with_name(f"{cfg.directory.name}.align")
            run_local("align", AlignConfig(pair, corpus=str(folder), out=str(out)))
            return out
    raise UserError(
        f"no alignment and no parallel corpus at {' or '.join(map(str, folders))}",
        "a directory of xling align or of xling corpus parallel",
        f"run: xling corpus parallel pair={cfg.pair}",
    )


def _alm_items(cfg: CodeswitchConfig) -> InputsAndItems:
    folder = _alignment_folder(cfg)
    names = [folder / f"{RAW_TEXT_PREFIX}.{lang}" for lang in cfg.langs]
    spaced_langs = _langs_with_spaces(cfg.langs)
    if missing := [path for path in names if not path.is_file()]:
        raise UserError(f"{missing[0]} is missing", f"an alignment of {cfg.pair}", "check pair= and source=")

    def items(ledger: Ledger) -> Iterator[Item]:
        cutters = [_word_cutter(cfg, folder, side, names[side]) for side in (0, 1)]
        rates = ReplacementRate(cfg.alm), ReplacementRate(cfg.alm)
        rows = zip(*map(corpus_reader.read_lines, (*names, folder / LINKS_FILE)), strict=True)
        for number, (src, tgt, links) in enumerate(rows):
            pair = Document(f"{number}", f"{src}\n{tgt}")
            ledger.count_seen("read", pair)
            ledger.count_seen("switch", pair)
            if not links.strip():
                ledger.drop("switch", "no_links", pair)
                continue
            texts = " ".join(src.split()), " ".join(tgt.split())
            spans_of_sides = cutters[0](texts[0]), cutters[1](texts[1])
            word_links = project_links(
                parse_pharaoh(links), spans_of_sides, (word_spans(texts[0]), word_spans(texts[1]))
            )
            sides = [[text[a:b] for a, b in at] for text, at in zip(texts, spans_of_sides, strict=True)]
            between = [_text_between(text, spans) for text, spans in zip(texts, spans_of_sides, strict=True)]
            words_between = between[0], between[1]
            for copy in range(cfg.alm.copies):
                kind, side, sentence = draw_sentence(
                    sides[0],
                    sides[1],
                    word_links,
                    cfg.langs,
                    cfg.alm,
                    cfg.seed,
                    number,
                    copy,
                    words_between=words_between,
                    rates=rates,
                )
                text = render_text(sentence, texts[side], spans_of_sides[side], spaced_langs)
                yield _make_item(f"{number}/{copy}", text, kind, sentence, cfg.langs[side])

    return [folder, *map(Path, cfg.words.values())], items


def _word_cutter(cfg: CodeswitchConfig, folder: Path, side: int, path: Path) -> Callable[[str], Spans]:
    """How a side of aligned text is cut: as it was aligned, but in whole words where there are no spaces."""
    lang = cfg.langs[side]
    if languages.get(lang).spaces:
        return word_spans
    table = folder / PHRASES_FILE
    known = words_of_phrases(table, side) if table.is_file() else ()
    return word_cutter(lang, corpus_reader.read_lines(path), cfg.words, known)


def _text_between(text: str, word_spans: Spans) -> Callable[[int, int], str]:
    """How a half-open range of the words at ``word_spans`` is written in ``text``."""
    return lambda start, end: text[word_spans[start][0] : word_spans[end - 1][1]]


def _dictionary_items(cfg: CodeswitchConfig) -> InputsAndItems:
    base = cfg.langs[0]
    texts = corpus_reader.resolve_files(cfg.source)
    tables = {lang: read_dictionary(Path(path), base) for lang, path in cfg.dictionaries.items()}
    cut_words = word_cutter(
        base, _sentences(cfg), cfg.words, {entry for table in tables.values() for entry in table}
    )
    known_words = {word for words in islice(_words(cfg, cut_words), 5000) for word in words}
    for lang, table in tables.items():
        check_direction(Path(cfg.dictionaries[lang]), table, known_words, base)
    if cfg.forms and languages.get(base).spaces:
        tables = {lang: add_word_forms(table, _words(cfg, cut_words), base) for lang, table in tables.items()}
    cosda = Cosda(base, tables, cfg.word_rate, cfg.sentence_rate, cfg.seed, cfg.draw == "cosda")
    spaced_langs = _langs_with_spaces((base, *tables))

    def items(ledger: Ledger) -> Iterator[Item]:
        replacer = cosda
        if cfg.draw == "rate":
            share = max(_translatable_share(cosda, _words(cfg, cut_words)), 1e-9)
            replacer = replace(cosda, word_rate=min(1.0, cfg.word_rate / share))
        for number, text in enumerate(_sentences(cfg)):
            ledger.count_seen("read", Document(f"{number}", text))
            text = " ".join(text.split())
            word_spans = cut_words(text)
            sentence = expand_elided_words(replacer([text[a:b] for a, b in word_spans], number), base)
            yield _make_item(
                f"{number}", render_text(sentence, text, word_spans, spaced_langs), "switched", sentence, base
            )

    return [*texts, *map(Path, [*cfg.dictionaries.values(), *cfg.words.values()])], items


def _words(cfg: CodeswitchConfig, cut_words: Callable[[str], Spans]) -> Iterator[list[str]]:
    for text in _sentences(cfg):
        text = " ".join(text.split())
        yield [text[a:b] for a, b in cut_words(text)]


def _translatable_share(cosda: Cosda, sentences: Iterable[list[str]]) -> float:
    """Share of the words for which a dictionary has a translation."""
    total = num_translatable = 0
    for words in sentences:
        total += len(words)
        num_translatable += sum(end - start for start, end, _, _ in cosda.matches(words))
    return num_translatable / max(total, 1)


def _sentences(cfg: CodeswitchConfig) -> Iterator[str]:
    for document in corpus_reader.read_documents(cfg.source):
        yield from document


def _document_items(cfg: CodeswitchConfig) -> InputsAndItems:
    folder = Path(cfg.source[0] if cfg.source else f"runs/parallel/{'-'.join(cfg.langs)}")
    path = folder / "shards" / "train.parquet"
    if not path.is_file():
        raise UserError(
            f"no parallel corpus at {folder}",
            "a directory of xling corpus parallel",
            f"run: xling corpus parallel pair={cfg.pair}",
        )

    def items(ledger: Ledger) -> Iterator[Item]:
        rows = pl.read_parquet(path, columns=["doc", "src", "tgt"]).iter_rows()
        for number, (name, pairs) in enumerate(group_by_document(rows, cfg.max_sentences)):
            for index, pair in enumerate(pairs):
                ledger.count_seen("read", Document(f"{number}/{index}", "\n".join(pair)))
            chosen_sentences = alternate_languages(pairs, number % 2)
            base = cfg.langs[number % 2]
            sizes = [len(word_spans(text)) for _, text in chosen_sentences]
            other = sum(
                size for (side, _), size in zip(chosen_sentences, sizes, strict=True) if side != number % 2
            )
            replaced = {cfg.langs[1 - number % 2]: other}
            langs = "\n".join(
                " ".join([cfg.langs[side]] * len(text.split())) for side, text in chosen_sentences
            )
            document = "\n".join(" ".join(text.split()) for _, text in chosen_sentences)
            yield Item(f"{number}/{name}", document, langs, "alternating", base, sum(sizes), replaced)

    return [folder], items


_MODES = {"alm": _alm_items, "dictionary": _dictionary_items, "documents": _document_items}


def _langs_with_spaces(langs: Iterable[str]) -> frozenset[str]:
    return frozenset(lang for lang in langs if languages.get(lang).spaces)


def _make_item(name: str, text: str, kind: str, sentence: SwitchedSentence, base: str) -> Item:
    replaced: Counter[str] = Counter()
    for (start, end), lang in dict.fromkeys(zip(sentence.origins, sentence.langs, strict=True)):
        if lang != base:
            replaced[lang] += end - start
    num_words = sentence.origins[-1][1] if sentence.origins else 0
    langs = " ".join(token_langs(text, sentence))
    return Item(name, text, langs, kind, base, num_words, dict(replaced))


def _stats(cfg: CodeswitchConfig, inputs: list[Path], ledger: Ledger, counters: Counters) -> dict[str, Any]:
    digests = {str(path): {"sha256": manifest.digest(path)} for path in inputs}
    return stats_of(
        ledger,
        counters,
        kind="codeswitch",
        title=f"Code-switched corpus {'-'.join(cfg.langs)} ({cfg.mode})",
        unit="sentences",
        lang=cfg.langs[0],
        config=cfg.content(),
        sources=[{"uri": str(path), "licence": "that of its source"} for path in inputs[:1]],
        inputs=digests,
        stages=["read", "switch", "corpus"],
        reasons={"switch\tno_links": "the pair has no word links"},
    )
