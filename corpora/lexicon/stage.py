"""Induction of a bilingual dictionary from monolingual text, in MUSE's format, and its precision at 1.

``xling bli``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xling.array_types import Float
from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.settings import values
from xling.core.settings.values import COUNT, Lang, Pair, ranged
from xling.corpora.lexicon.induce import Cues, induce, translation_probabilities
from xling.corpora.lexicon.shared import FILES, word_vectors
from xling.corpora.lexicon.vectors import WordVectors, learn_vectors
from xling.text.files import corpus_reader
from xling.text.files.dictionary import read_dictionary
from xling.text.lm.train import train_ngrams
from xling.text.word_translation import WORD, split_tokens

STAGE = "bli"


@dataclass(frozen=True)
class BliConfig:
    """Settings of ``xling bli``.

    Attributes:
        pair: ``src-tgt``.
        corpora: language -> files, globs or corpus directories, one sentence per line.
        out: directory to publish: ``SRC-TGT.txt`` and ``TGT-SRC.txt``, one translation for each word;
            ``SRC-TGT.tsv`` and ``TGT-SRC.tsv``, several with log10 of their probabilities; ``SRC.arpa`` and
            ``TGT.arpa``, n-gram models of words and marks.
        gold: dictionary in MUSE's format to score against; it is never learned from.
        size: number of words of each language.
        dim: size of the vectors.
        window: number of context words on each side.
        min_count: minimum number of occurrences of a word.
        rounds: rounds of self-learning.
        min_seeds: if fewer words have equal spelling, words of similar use are seeds too.
        order: longest n-grams of the models.
        encoder: output of ``xling pretrain static``, whose word vectors are compared too. They were trained on
            translations, so the dictionary is not unsupervised then.
    """

    pair: Pair
    corpora: dict[Lang, tuple[str, ...]]
    out: str
    gold: str = ""
    size: int = ranged(5000, COUNT)
    dim: int = ranged(150, COUNT)
    window: int = ranged(3, COUNT)
    min_count: int = ranged(3, COUNT)
    rounds: int = ranged(10, COUNT)
    min_seeds: int = 50
    order: int = 5
    encoder: str = ""
    cues: Cues = field(default_factory=Cues)


def run(cfg: BliConfig) -> manifest.Manifest:
    """Learn vectors, induce both directions, score and publish.

    Raises:
        UserError: a language twice, unknown or without text, or invalid sizes.
    """
    langs = split_pair(cfg.pair)
    for lang in langs:
        languages.get(lang)
        if lang not in cfg.corpora:
            raise UserError(
                f"no text in {lang} for pair={cfg.pair}", "text of both languages", f"corpora.{lang}=FILE,..."
            )
    values.check(cfg)
    if not 2 <= cfg.order <= 6:
        raise UserError(f"order={cfg.order}", "2 to 6, the orders that KenLM reads")
    out = Path(cfg.out)
    files = {lang: corpus_reader.resolve_files(cfg.corpora[lang]) for lang in langs}
    inputs = [path for paths in files.values() for path in paths] + ([Path(cfg.gold)] if cfg.gold else [])
    inputs += [Path(cfg.encoder, name) for name in FILES] if cfg.encoder else []
    if done := manifest.up_to_date(out, STAGE, cfg, inputs):
        return done
    lines = {lang: [line for path in files[lang] for line in _lines(path)] for lang in langs}
    src, tgt = (learn_vectors(lines[lang], cfg.size, cfg.dim, cfg.window, cfg.min_count) for lang in langs)
    of_encoder = [word_vectors(Path(cfg.encoder), words.words) for words in (src, tgt) if cfg.encoder]
    shared = (of_encoder[0], of_encoder[1]) if of_encoder else None
    scores = induce(src, tgt, cfg.cues, cfg.rounds, cfg.min_seeds, shared)
    with manifest.publish(out, STAGE, cfg, inputs) as publication:
        publication.counts |= {"words": {langs[0]: len(src.words), langs[1]: len(tgt.words)}}
        for (a, b), src_words, tgt_words, table in (
            (langs, src, tgt, scores),
            (langs[::-1], tgt, src, scores.T),
        ):
            cased_words = restore_case(tgt_words.words, lines[b])
            rows = zip(src_words.words, table.argmax(1), strict=True)
            text = "".join(f"{word}\t{cased_words[best]}\n" for word, best in rows)
            (publication.path / f"{a}-{b}.txt").write_text(text, encoding="utf-8")
            (publication.path / f"{a}-{b}.tsv").write_text(
                format_translations(src_words.words, cased_words, table), encoding="utf-8"
            )
        for lang in langs:
            read = (" ".join(split_tokens(line)) for line in lines[lang])
            train_ngrams(read, publication.path / f"{lang}.arpa", cfg.order)
        if cfg.gold:
            publication.counts["gold"] = precision(src, tgt, scores, Path(cfg.gold))
    published_manifest = manifest.read(out)
    if cfg.gold:
        gold = published_manifest.counts["gold"]
        print(
            f"{cfg.pair}: P@1 {100 * gold['p1']:.2f} on {gold['scored']} of {gold['entries']} words of {cfg.gold} "
            "(the others are not in the text of both languages)",
            flush=True,
        )
    return published_manifest


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, or the paragraphs of a corpus."""
    if path.suffix != ".parquet":
        return corpus_reader.read_lines(path)
    return (paragraph for document in corpus_reader.read_documents([str(path)]) for paragraph in document)


def format_translations(src: Sequence[str], tgt: Sequence[str], scores: Float[np.ndarray, "src tgt"]) -> str:
    """Format the likely translations of each word with log10 of their probabilities, best first, one per line."""
    lines = []
    for word, row in zip(src, translation_probabilities(scores), strict=True):
        there = np.flatnonzero(row)
        best = there[np.argsort(-row[there], kind="stable")]
        lines += [f"{word}\t{tgt[i]}\t{np.log10(row[i]):.4f}\n" for i in best]
    return "".join(lines)


def restore_case(words: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return the most frequent spelling of each word, using line-initial words only if there are no others."""
    seen: dict[str, Counter[str]] = {}
    for line in lines:
        for place, word in enumerate(WORD.findall(line)):
            seen.setdefault(word.lower(), Counter())[word] += 1000 if place else 1
    return [seen[word].most_common(1)[0][0] for word in words]


def precision(
    src: WordVectors, tgt: WordVectors, scores: Float[np.ndarray, "src tgt"], gold: Path
) -> dict[str, float]:
    """Return the share of the gold dictionary's words, of those in both texts, with a correct best translation."""
    rows = {word: i for i, word in enumerate(src.words)}
    there = set(tgt.words)
    entries = {
        word: {t.lower() for t in translations} for word, translations in read_dictionary(gold).items()
    }
    scored = [word for word, translations in entries.items() if word in rows and translations & there]
    right = sum(tgt.words[int(scores[rows[word]].argmax())] in entries[word] for word in scored)
    return {"p1": right / max(len(scored), 1), "scored": len(scored), "entries": len(entries)}
