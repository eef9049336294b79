"""Recall and clean loss of the default chain of pair filters by kind of planted noise and by set.

``python -m benchmarks.noise DATA [PREFIX ...] [SETTING=VALUE ...]``: DATA is the folder of the project's data sets;
PREFIX picks sets by the beginning of their names, for example ``tatoeba/`` or ``ntrex/tha``. Every set is cut to 1,000
pairs (``pairs=``), a fifth of which are damaged in 31 ways alike. Nothing is trained elsewhere, unless ``checkpoint=``
names an encoder. ``out=FILE`` keeps the rows as Parquet, ``seed=`` draws other pairs.

A pair whose sides have the same letters is not clean: some sets hold sentences that were left untranslated. Such pairs
are left out before noise is planted, and counted. Limits are chosen on sets whose name has an even CRC-32
(``tuned``); the others are held out. Prints a line a set, and tables by kind, collection, length and language.
"""

from __future__ import annotations

import gzip
import itertools
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from xling.core import languages
from xling.core.errors import UserError
from xling.core.sampling import rng
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.planted import KINDS, Clean, plant, restored
from xling.eval.stats import wilson
from xling.text.document import Ledger
from xling.text.encoders import SentenceVectors
from xling.text.pairs import frame, near_key

SHARE = 0.2
LENGTHS = (4, 8, 16, 32)
"""Borders of the groups of lengths, in words of the source side."""
ASKED, _MIN_OF_KIND = 0.9, 4
# Tatoeba's code of a language -> that of one close to it, whose sentences are planted.
CLOSE = {
    "nob": "dan", "dan": "nob", "swe": "nob", "nno": "dan", "ces": "slk", "slk": "ces", "hrv": "slv", "srp": "mkd",
    "bos": "slv", "slv": "hrv", "spa": "por", "por": "glg", "glg": "por", "cat": "spa", "ita": "spa", "ron": "ita",
    "rus": "ukr", "ukr": "bel", "bel": "rus", "bul": "mkd", "mkd": "bul", "est": "fin", "fin": "est", "afr": "nld",
    "nld": "afr", "deu": "nld", "aze": "tur", "tur": "aze", "fao": "isl", "isl": "fao", "ind": "zsm", "zsm": "ind",
    "hin": "mar", "mar": "hin", "ara": "pes", "urd": "pes", "kaz": "uzb", "lit": "lvs", "lvs": "lit", "gle": "gla",
    "gla": "gle", "xho": "swh", "tgl": "ceb", "ceb": "tgl", "uig": "ara", "eng": "nld", "fra": "oci", "pol": "ces",
}  # fmt: skip
Texts = list[str]


def lines(path: Path) -> Texts:
    """The lines of a text file, plain or gzip."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode().removesuffix("\n").split("\n")


def columns(path: Path) -> dict[str, str]:
    """First to last field of a table."""
    rows = (line.split("\t") for line in lines(path))
    return {row[0]: row[-1] for row in rows}


def sets(data: Path) -> Iterator[tuple[str, str, str, Texts, Texts]]:
    """Name, code of source and target, texts of source and target of every set."""
    for path in sorted((data / "tatoeba").glob("*-eng.eng")):
        lang = path.name.partition("-")[0]
        yield f"tatoeba/{lang}", "eng", lang, lines(path), lines(path.with_suffix(f".{lang}"))
    news = {path.name.split(".")[1]: path for path in sorted((data / "ntrex").glob("ntrex.*.txt"))}
    for lang, path in news.items():
        if lang != "eng":
            yield f"ntrex/{lang}", "eng", lang, lines(news["eng"]), lines(path)
    for lang in ("de", "fr"):
        yield f"multi30k/{lang}", "en", lang, *(lines(data / f"multi30k/train.{c}.gz") for c in ("en", lang))
    yield "multi30k/cs", "en", "cs", *(lines(data / f"multi30k/val.{c}") for c in ("en", "cs"))
    for path in sorted((data / "mafand").glob("*.dev.*")):
        pair, _, lang = path.name.removesuffix(".gz").split(".")
        src, tgt = pair.split("-")
        if lang == tgt:
            yield (
                f"mafand/{pair}",
                src,
                tgt,
                lines(path.with_name(path.name.replace(f".{tgt}", f".{src}"))),
                lines(path),
            )
    english = columns(data / "bible/eng.tsv.gz")
    for path in sorted((data / "bible").glob("*.tsv.gz")):
        lang = path.name.partition(".")[0]
        verses = columns(path)
        shared = [key for key in english if key in verses and key[:3] in ("MAT", "LUK", "ACT", "ROM")]
        if lang != "eng" and shared:
            yield f"bible/{lang}", "eng", lang, [english[k] for k in shared], [verses[k] for k in shared]
    topics = {path.name.split(".")[0]: path for path in sorted((data / "sib200").glob("*.test.tsv"))}
    for lang, path in topics.items():
        sides = [
            [
                line.split("\t")[-1]
                for part in ("dev", "test")
                for line in lines(p.with_name(f"{c}.{part}.tsv"))[1:]
            ]
            for c, p in (("eng_Latn", path), (lang, path))
        ]
        if lang != "eng_Latn":
            yield f"sib200/{lang}", "eng_Latn", lang, *sides
    for path in sorted((data / "seed").glob("*.txt.gz")):
        lang = path.name.partition(".")[0]
        if lang != "eng_Latn":
            yield f"seed/{lang}", "eng_Latn", lang, lines(data / "seed/eng_Latn.txt.gz"), lines(path)
    for path in sorted((data / "indian").glob("*-en.dev.en.gz")):
        lang = path.name.partition("-")[0]
        yield f"indian/{lang}", "en", lang, lines(path), lines(path.with_name(f"{lang}-en.dev.{lang}.gz"))


@dataclass(frozen=True)
class Options:
    """How a run is made.

    Attributes:
        data: folder of the data sets.
        prefixes: beginnings of the names of the sets.
        pairs: most pairs of a set.
        seed: of the pairs and of the damage.
        vectors: sentence vectors of an encoder.
        out: where the rows are kept.
    """

    data: Path
    prefixes: tuple[str, ...]
    pairs: int = 1000
    seed: int = 1
    vectors: SentenceVectors | None = None
    out: str = ""


def options(arguments: list[str]) -> Options:
    """Read the command line."""
    named = dict(word.split("=", 1) for word in arguments if "=" in word)
    data, *prefixes = (word for word in arguments if "=" not in word)
    encoder = SentenceVectors(Path(named["checkpoint"])) if "checkpoint" in named else None
    numbers = {name: int(named[name]) for name in ("pairs", "seed") if name in named}
    return Options(Path(data), tuple(prefixes), vectors=encoder, out=named.get("out", ""), **numbers)


def without_copies(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs with two sides whose letters differ."""
    table = pl.DataFrame(pairs, {"src": pl.String, "tgt": pl.String}, orient="row")
    return table.filter(near_key("src") != near_key("tgt")).rows()


def languages_of(name: str, src: str, tgt: str) -> tuple[languages.Language, languages.Language] | None:
    """Return the languages of a set; print why and return None if one of its codes is unknown."""
    try:
        return languages.get(src), languages.get(tgt)
    except UserError as error:
        print(f"{name}: left out, {error}", flush=True)
        return None


def damaged(
    name: str, codes: tuple[str, str], pairs: list[tuple[str, str]], asked: Options
) -> tuple[list[tuple[str, str]], list[tuple[str, str, str]], pl.DataFrame]:
    """Return the clean pairs of a set, the same as (kind, source, target) with a fifth damaged, and a frame of them."""
    data, random = asked.data, rng(asked.seed, "noise", name)
    chosen = [pairs[i] for i in sorted(random.permutation(len(pairs))[: asked.pairs].tolist())]
    foreign = "hun" if languages.get(codes[1]).script == "Latn" and "hun" not in codes[1] else "por"
    beside = CLOSE.get(languages.get(codes[1]).iso639_3, "")
    close = data / f"tatoeba/{beside}-eng.{beside}"
    clean = Clean(
        chosen, lines(data / f"tatoeba/{foreign}-eng.{foreign}"), lines(close) if close.is_file() else ()
    )
    rows = plant(clean, SHARE, random)
    return chosen, rows, frame({"src": [row[1] for row in rows], "tgt": [row[2] for row in rows]}, name)


def measure(name: str, codes: tuple[str, str], pairs: list[tuple[str, str]], asked: Options) -> pl.DataFrame:
    """A row a pair with ``kind`` ("" for clean), ``stage`` and ``reason``, null where the pair is kept.

    ``whole`` is true of a kept pair that reads as the clean one that it was made of.
    """
    chosen, rows, table = damaged(name, codes, pairs, asked)
    chain_of_pair = chain.build(chain.DEFAULT, {}, Context.of_pair("-".join(codes), vectors=asked.vectors))
    kept, lost = chain_of_pair.run_batch(table, Ledger())
    stage, reason = chain_of_pair.judge_corpus(chain_of_pair.keys(kept))
    later = kept.with_columns(stage.alias("stage"), reason.alias("reason")).filter(reason.is_not_null())
    decisions = pl.concat([part.select("id", "stage", "reason") for part in (lost, later)])
    whole = dict(zip(table["id"], chosen, strict=False))
    kinds = table.select("id", pl.Series("kind", [row[0] for row in rows]), "src", "tgt")
    stays = kept.filter(reason.is_null()).select("id", "src", "tgt").rows()
    # A pair of which nothing is damaged any more needs no filter; of a clean one nothing may be changed.
    same = [(row[0], row[0] in whole and restored(row[1:], whole[row[0]])) for row in stays]
    mended = pl.DataFrame(same, {"id": pl.String, "whole": pl.Boolean}, orient="row")
    return (
        kinds.join(decisions, on="id", how="left", maintain_order="left")
        .join(mended, on="id", how="left", maintain_order="left")
        .with_columns(
            pl.lit(name).alias("set"),
            pl.lit(languages.get(codes[1]).name).alias("language"),
            pl.col("whole").fill_null(False),
        )
    )


def half(name: str) -> str:
    """``tuned`` for the half of the sets on which limits were chosen, ``other`` for the rest."""
    return ("tuned", "other")[zlib.crc32(name.encode()) % 2]


def cell(is_dropped: pl.Series) -> str:
    """Pairs, share dropped and its Wilson interval, as cells of Markdown."""
    if not len(is_dropped):
        return "0 | | "
    low, high = wilson(is_dropped.to_numpy().astype(np.float64), np.ones(len(is_dropped)))
    return f"{len(is_dropped):,} | {100 * float(is_dropped.mean()):.1f} | {low:.1f} to {high:.1f}"


def by_kind(whole: pl.DataFrame) -> Iterator[str]:
    """Recall of every kind and loss of clean pairs, over both halves of the sets, as Markdown."""
    yield "| kind | pairs, tuned | dropped | 95 % | pairs, other | dropped | 95 % |"
    yield "| --- | ---: | ---: | --- | ---: | ---: | --- |"
    for kind in ("", *KINDS):
        own = whole.filter(pl.col("kind") == kind)
        halves = (own.filter(pl.col("half") == name)["gone"] for name in ("tuned", "other"))
        yield f"| {kind or 'clean'} | {' | '.join(map(cell, halves))} |"


def by_group(whole: pl.DataFrame) -> Iterator[str]:
    """Loss of clean pairs and recall of all kinds by the collection that a set is of, as Markdown."""
    yield "| sets | clean | lost | 95 % | damaged | dropped | 95 % |"
    yield "| --- | ---: | ---: | --- | ---: | ---: | --- |"
    for (name,), group in whole.group_by(pl.col("set").str.split("/").list.first(), maintain_order=True):
        parts = (group.filter(test)["gone"] for test in (pl.col("kind") == "", pl.col("kind") != ""))
        yield f"| {name} | {' | '.join(map(cell, parts))} |"


def by_length(whole: pl.DataFrame) -> Iterator[str]:
    """Loss of clean pairs and recall of all kinds by the words of the source side, as Markdown."""
    yield "| words | clean | lost | 95 % | damaged | dropped | 95 % |"
    yield "| --- | ---: | ---: | --- | ---: | ---: | --- |"
    words = pl.col("src").str.count_matches(r"\S+")
    for low, high in itertools.pairwise((0, *LENGTHS, 1 << 30)):
        group = whole.filter((words > low) & (words <= high))
        parts = (group.filter(test)["gone"] for test in (pl.col("kind") == "", pl.col("kind") != ""))
        label = f"{low + 1} to {high}" if high <= LENGTHS[-1] else f"over {low}"
        yield f"| {label} | {' | '.join(map(cell, parts))} |"


def by_language(whole: pl.DataFrame) -> Iterator[str]:
    """Loss of clean pairs, recall of all kinds, and the kinds that are recalled worst, for each language."""
    yield "| language | sets | clean | lost, % | damaged | dropped, % | worst kinds |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for (name,), group in whole.sort("language").group_by("language", maintain_order=True):
        clean, noisy = (group.filter(test) for test in (pl.col("kind") == "", pl.col("kind") != ""))
        kinds = (
            noisy.group_by("kind").agg(pl.col("gone").mean(), pl.len()).filter(pl.col("len") >= _MIN_OF_KIND)
        )
        worst = kinds.filter(pl.col("gone") < ASKED).sort("gone", "kind").head(3)
        told = ", ".join(f"{kind} {100 * share:.0f}" for kind, share, _ in worst.rows())
        lost, dropped = (f"{100 * float(part['gone'].mean()):.1f}" for part in (clean, noisy))
        counts = f"{group['set'].n_unique()} | {clean.height:,} | {lost} | {noisy.height:,} | {dropped}"
        yield f"| {name} | {counts} | {told} |"


def told(name: str, result: pl.DataFrame, num_copies: int, seconds: float) -> str:
    """One line on a set."""
    clean, noisy = (result.filter(test) for test in (pl.col("kind") == "", pl.col("kind") != ""))
    worst = Counter(zip(*clean.drop_nulls("reason").select("stage", "reason"), strict=True)).most_common(3)
    why = ", ".join(f"{stage}/{reason} {count}" for (stage, reason), count in worst)
    loss, recall = clean["gone"].mean(), noisy["gone"].mean()
    copies = f"{num_copies} copies left out, " if num_copies else ""
    return f"{name}: clean lost {loss:.4f} ({why}), recall {recall:.3f}, {copies}{seconds:.1f} s"


def losses(whole: pl.DataFrame) -> Iterator[str]:
    """In how many sets the loss of clean pairs stays within what is asked, for each half of the sets."""
    clean = whole.filter(pl.col("kind") == "").group_by("set", "half").agg(pl.col("gone").mean())
    for name in ("tuned", "other"):
        lost = clean.filter(pl.col("half") == name)["gone"]
        if len(lost):
            yield (f"{name}: {len(lost)} sets, loss <= 1 % in {(lost <= 0.01).sum()}, "
                   f"<= 2 % in {(lost <= 0.02).sum()}, at most {lost.max():.3f}")  # fmt: skip


def main(arguments: list[str]) -> None:
    """Measure the sets whose names begin with the given words."""
    asked = options(arguments)
    results = []
    for name, src, tgt, left, right in sets(asked.data):
        if asked.prefixes and not name.startswith(asked.prefixes):
            continue
        if not (pair := languages_of(name, src, tgt)):
            continue
        codes = (pair[0].code, pair[1].code)
        given = [(a, b) for a, b in zip(left, right, strict=True) if a.strip() and b.strip()]
        pairs = without_copies(given)
        began = time.process_time()
        result = measure(name, codes, pairs, asked)
        is_dropped = pl.col("reason").is_not_null()
        handled = is_dropped | ((pl.col("kind") != "") & pl.col("whole"))
        result = result.with_columns(gone=handled, dropped=is_dropped, half=pl.lit(half(name)))
        print(told(name, result, len(given) - len(pairs), time.process_time() - began), flush=True)
        results.append(result)
    whole = pl.concat(results)
    for table in (by_kind, by_group, by_length, by_language, losses):
        print("\n".join([*table(whole), ""]))
    if asked.out:
        whole.write_parquet(asked.out)


if __name__ == "__main__":
    main(sys.argv[1:])
