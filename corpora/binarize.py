"""Encoding of corpora into fairseq's memory-mapped shards, one set per language and per pair: ``xling binarize``.

Layout, which stock ``multilingual_masked_lm`` and ``translation`` read too::

    dict.txt spm.model                        (wordpiece.json where an imported model has no SentencePiece)
    en/{train,valid}.{bin,idx}                one item a paragraph, an item of </s> alone between documents
    en-sw/{train,valid}.en-sw.{en,sw}.{bin,idx}   aligned items
    en-sw/{train,valid}.en-sw.switched.{bin,idx}  code-switched sentences, and beside them, token by token,
    the
    en-sw/{train,valid}.en-sw.switched-sides.{bin,idx}   side of the pair that each is of, 0 or 1
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import split_pair
from xling.core.output import manifest
from xling.core.progress import Progress
from xling.core.sampling import rng
from xling.core.settings import values
from xling.core.settings.values import COUNT_OR_NONE, Lang, Pair, ranged
from xling.text import vocab as vocabulary
from xling.text.files import corpus_reader, pair_documents, pair_folder
from xling.text.files.shards import EOS, ShardWriter, encode_lines, vocab_digest


@dataclass(frozen=True)
class BinarizeConfig:
    """Settings of ``xling binarize``.

    Attributes:
        vocab: published vocabulary.
        out: directory to publish.
        corpora: language -> files, globs or corpus directories.
        pairs: ``src-tgt`` -> the two line-aligned files, or the directory of `xling corpus parallel`.
        rows: output of ``xling corpus pairs``, whose pairs and texts are added to ``pairs`` and ``corpora``.
        switched: ``src-tgt`` -> the directory of `xling corpus codeswitch`; or a file with one code-switched
            sentence per line. A second file may give the language of each word, words and languages separated
            by single spaces. Without it every token counts as the pair's first language.
        valid_docs: documents (pairs: lines) of each language held out for validation, at most a tenth.
        max_pairs: number of training pairs to use from each of ``pairs``, the first ones; 0 for all. The
            held-out ones do not depend on it.
        documents: the pairs are documents with a line between them that is blank on both sides. They are held out
            whole, and their borders are kept for ``join=true``.
        seed: seed of the choice of held-out documents.
    """

    vocab: str
    out: str
    corpora: dict[Lang, tuple[str, ...]] = field(default_factory=dict)
    pairs: dict[Pair, tuple[str, ...]] = field(default_factory=dict)
    rows: str = ""
    switched: dict[Pair, tuple[str, ...]] = field(default_factory=dict)
    valid_docs: int = ranged(100, COUNT_OR_NONE)
    max_pairs: int = ranged(0, COUNT_OR_NONE)
    documents: bool = False
    seed: int = 1


def run(cfg: BinarizeConfig) -> manifest.Manifest:
    """Encode every language and pair and publish the shards.

    Raises:
        UserError: an unknown language, an unreadable or empty file, sides of unequal length, no text at all.
    """
    values.check(cfg)
    given = cfg
    if cfg.rows:
        texts = vocabulary.joined(pair_folder.texts_of(cfg.rows), cfg.corpora)
        cfg = replace(cfg, corpora=texts, pairs={**pair_folder.pairs_of(cfg.rows), **cfg.pairs})
    if not cfg.corpora and not cfg.pairs and not cfg.switched:
        raise UserError(
            "nothing to binarize", "corpora.LANG=PATH or pairs.SRC-TGT=PATH,PATH", "name some text"
        )
    for lang in [*cfg.corpora, *(side for pair in (*cfg.pairs, *cfg.switched) for side in split_pair(pair))]:
        languages.get(lang)
    out, vocab_dir = Path(cfg.out), Path(cfg.vocab)
    mono_files = {lang: corpus_reader.resolve_files(paths) for lang, paths in cfg.corpora.items()}
    pair_files = {
        pair: _aligned_files(paths, [f"train.{side}" for side in split_pair(pair)])
        for pair, paths in cfg.pairs.items()
    }
    switched_files = {
        pair: _aligned_files(paths, ["train.txt", "train.langs"]) for pair, paths in cfg.switched.items()
    }
    every_file = [*mono_files.values(), *pair_files.values(), *switched_files.values()]
    inputs = [vocab_dir, *(path for files in every_file for path in files)]
    if done := manifest.up_to_date(out, "binarize", given, inputs):
        return done
    processor = vocabulary.load_processor(vocab_dir)
    with manifest.publish(out, "binarize", given, inputs) as publication:
        vocabulary.copy_vocabulary(vocab_dir, publication.path)
        publication.counts["vocab_digest"] = vocab_digest(vocab_dir)
        for lang, paths in cfg.corpora.items():
            publication.counts[lang] = _binarize_language(
                cfg, processor, lang, paths, publication.path / lang
            )
        for pair, files in pair_files.items():
            publication.counts[pair] = _binarize_pair(cfg, processor, pair, files, publication.path / pair)
        for pair, files in switched_files.items():
            publication.counts[f"{pair}.switched"] = _binarize_switched(
                cfg, processor, pair, files, publication.path / pair
            )
    return manifest.read(out)


def _aligned_files(paths: tuple[str, ...], names: list[str]) -> list[Path]:
    """Return the given files, or those of these names in a directory."""
    if len(paths) == 1 and Path(paths[0]).is_dir():
        return corpus_reader.resolve_files([str(Path(paths[0]) / name) for name in names])
    return corpus_reader.resolve_files(paths)


def _binarize_language(
    cfg: BinarizeConfig, processor: Any, lang: str, paths: Iterable[str], out: Path
) -> dict[str, Any]:
    paths = list(paths)
    total = sum(1 for _ in corpus_reader.read_documents(paths))
    if total == 0:
        raise UserError(f"corpora.{lang}={','.join(paths)} holds no text", fix=f"leave {lang} out")
    held_out = _held_out(total, cfg, lang)
    out.mkdir()
    size = processor.get_piece_size()
    boundary = np.array([EOS], dtype=np.int32)
    with Progress(f"binarize {lang}", total, "docs") as progress, ExitStack() as stack:
        writers = {s: stack.enter_context(ShardWriter(out / s, size)) for s in ("train", "valid")}
        for index, doc in enumerate(corpus_reader.read_documents(paths)):
            writer = writers["valid" if index in held_out else "train"]
            for item in encode_lines(processor, doc):
                writer.add(item)
            writer.add(boundary)
            progress.update()
        return {split: writer.close() for split, writer in writers.items()}


def _binarize_pair(
    cfg: BinarizeConfig, processor: Any, pair: str, files: list[Path], out: Path
) -> dict[str, Any]:
    sides = split_pair(pair)
    if len(files) != 2:
        raise UserError(
            f"pair {pair}: {len(files)} files", f"two files, {sides[0]} first", f"pairs.{pair}=SRC,TGT"
        )
    of_line = _documents_of_lines(pair, files) if cfg.documents else None
    total = sum(1 for _ in corpus_reader.read_lines(files[0])) if of_line is None else len({*of_line} - {-1})
    held_out = _held_out(total, cfg, pair)
    out.mkdir()
    size = processor.get_piece_size()
    num_empty = num_held_out = 0
    firsts: dict[str, dict[int, int]] = {"train": {}, "valid": {}}
    numbers = dict.fromkeys(firsts, 0)
    with ExitStack() as stack:
        writers = {
            (split, side): stack.enter_context(ShardWriter(out / f"{split}.{pair}.{side}", size))
            for split in ("train", "valid")
            for side in sides
        }
        for index, pair_of_lines in enumerate(_aligned_lines(files)):
            if not all(line.strip() for line in pair_of_lines):
                num_empty += 1
                continue
            document = index if of_line is None else of_line[index]
            split = "valid" if document in held_out else "train"
            if split == "train":
                if num_held_out == cfg.max_pairs > 0:
                    continue
                num_held_out += 1
            for side, item in zip(sides, encode_lines(processor, list(pair_of_lines)), strict=True):
                writers[split, side].add(item)
            firsts[split].setdefault(document, numbers[split])
            numbers[split] += 1
        counts: dict[str, Any] = {f"{split}.{side}": w.close() for (split, side), w in writers.items()}
    if of_line is None:
        return counts | {"dropped_empty": num_empty}
    for split, numbered in firsts.items():
        np.save(
            pair_documents.path_of(out.parent, pair, split), np.array([*numbered.values()], dtype=np.int64)
        )
    num_borders = of_line.count(-1)
    documents = {split: len(numbered) for split, numbered in firsts.items()}
    return counts | {"documents": documents, "dropped_empty": num_empty - num_borders}


def _documents_of_lines(pair: str, files: list[Path]) -> list[int]:
    """Return the number of the document of every line, -1 for a line between documents.

    Raises:
        UserError: there is one document only.
    """
    numbers, last, ended = list[int](), -1, True
    for sides in _aligned_lines(files):
        if not any(line.strip() for line in sides):
            numbers.append(-1)
            ended = True
            continue
        last, ended = last + ended, False
        numbers.append(last)
    if last < 1:
        raise UserError(
            f"documents=true with pairs.{pair}={','.join(map(str, files))}, which is one document",
            "documents with a line between them that is blank on both sides",
            "leave documents= out for single sentences",
        )
    return numbers


def _binarize_switched(
    cfg: BinarizeConfig, processor: Any, pair: str, files: list[Path], out: Path
) -> dict[str, Any]:
    if len(files) > 2:
        raise UserError(
            f"switched.{pair}: {len(files)} files",
            "a file of sentences, and a file with the language of each word",
            f"switched.{pair}=SENTENCES,LANGUAGES",
        )
    sides = {lang: index for index, lang in enumerate(split_pair(pair))}
    total = sum(1 for _ in corpus_reader.read_lines(files[0]))
    held_out = _held_out(total, cfg, f"{pair}.switched")
    out.mkdir(exist_ok=True)
    size = processor.get_piece_size()
    writers = {
        split: [ShardWriter(out / f"{split}.{pair}.{name}", size) for name in ("switched", "switched-sides")]
        for split in ("train", "valid")
    }
    rows = (
        _aligned_lines(files)
        if len(files) == 2
        else ((text, "") for text in corpus_reader.read_lines(files[0]))
    )
    for index, (text, langs) in enumerate(rows):
        if not text.strip():
            continue
        # Pieces never cross a space, so words encoded one by one give the pieces of the sentence.
        words = text.split() if langs else [text]
        word_langs = [*map(languages.canonical, langs.split())] or [split_pair(pair)[0]]
        if len(words) != len(word_langs) or not set(word_langs) <= set(sides):
            raise UserError(
                f"{files[-1]} line {index + 1}: {len(word_langs)} languages for {len(words)} words",
                f"one of {', '.join(sides)} for each word",
            )
        items = [item[:-1] for item in encode_lines(processor, words)]
        spread = np.repeat([sides[lang] for lang in word_langs], [len(item) for item in items])
        tokens, marks = writers["valid" if index in held_out else "train"]
        tokens.add(np.concatenate([*items, [EOS]]))
        marks.add(np.concatenate([spread, spread[-1:]]))
    for _, marks in writers.values():
        marks.close()
    return {split: tokens.close() for split, (tokens, _) in writers.items()}


def _aligned_lines(files: list[Path]) -> Iterator[tuple[str, str]]:
    for number, (src, tgt) in enumerate(zip_longest(*(corpus_reader.read_lines(f) for f in files)), 1):
        if src is None or tgt is None:
            short = files[0] if src is None else files[1]
            raise UserError(
                f"{short} ends at line {number - 1}, before its other side", "files with equal line counts"
            )
        yield src, tgt


def _held_out(total: int, cfg: BinarizeConfig, name: str) -> set[int]:
    size = min(cfg.valid_docs, total // 10)
    if size == 0 and total:
        size = 1 if total > 1 else 0
    return set(rng(cfg.seed, "valid", name).choice(total, size, replace=False).tolist()) if size else set()
