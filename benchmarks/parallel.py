"""Filters, alignment and mining of parallel text: how fast and how good, on real text.

Usage: ``python -m benchmarks.parallel [NAME [DATA [ARGUMENT ...]]]``, where DATA is the folder of the project's data
sets (or XLING_DATA) and NAME is one of these, or nothing for all of them:

- ``filters``: pairs a second of the default chain without model scores, on one core;
- ``noise``: precision and recall of the default chain on Tatoeba pairs with planted noise;
- ``align [PROGRAM]``: our aligner against eflomal, 30,000 pairs of MAFAND en-sw: time, and F1 against its output;
- ``mine``: F1 of mining de-en with 10 % true pairs, with vectors made from a dictionary.

Figures are one JSON object a line. Set POLARS_MAX_THREADS=1 and OMP_NUM_THREADS=1 for one core.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from xling.core import languages
from xling.core.sampling import rng
from xling.corpora.mining.margin import f1_at_best_threshold, mine
from xling.corpora.mining.rows import normalised
from xling.corpora.parallel import chain, eflomal
from xling.corpora.parallel.align import align
from xling.corpora.parallel.filters import Context
from xling.corpora.parallel.symmetrise import alignment_error_rate, parse_pharaoh
from xling.text.dictionary import read_dictionary
from xling.text.document import Ledger
from xling.text.pairs import frame, words

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("filters", "noise", "align", "mine")
SEEDS = (1, 2, 3)
_JOIN = "grow-diag-final-and"
_STEM_CHARS = 5  # a poor man's lemma: the dictionary holds few inflected forms


def lines(path: Path) -> list[str]:
    """Return lines of a plain or gzip file."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode().split("\n")[:-1]


def show(**facts: Any) -> None:
    """Print one result."""
    print(json.dumps(facts, ensure_ascii=False), flush=True)


def cpu_seconds() -> float:
    """Return processor time of this process and of the children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in both)


def timed(function: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of ``function`` with its wall and processor time and the load of the machine."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    result = function()
    spent = {"wall_s": time.perf_counter() - wall, "cpu_s": cpu_seconds() - cpu}
    return result, {k: round(v, 2) for k, v in spent.items()} | {"load": round(os.getloadavg()[0], 1)}


def filters(data: Path, *_: str) -> None:
    """Throughput of the default chain, reading excluded, batches of 50,000 pairs."""
    sets = {
        "en-de": (data / "multi30k/train.en.gz", data / "multi30k/train.de.gz"),
        "en-fr": (data / "multi30k/train.en.gz", data / "multi30k/train.fr.gz"),
        "en-sw": (data / "mafand/en-sw.train.en.gz", data / "mafand/en-sw.train.sw.gz"),
    }
    for pair, (src, tgt) in sets.items():
        whole = frame({"src": lines(src), "tgt": lines(tgt)}, "bench")
        table = pl.concat([whole, whole]).head(50_000)
        built = chain.build(chain.DEFAULT, {}, Context.of_pair(pair))

        def run(table: pl.DataFrame = table, filter_chain: chain.Chain = built) -> int:
            kept, _ = filter_chain.run_batch(table, Ledger())
            _, reasons = filter_chain.judge_corpus(filter_chain.keys(kept))
            return reasons.null_count()

        run()
        rates = []
        for _ in SEEDS:
            kept, spent = timed(run)
            rates.append(round(table.height / spent["cpu_s"]))
        chars = float(
            table.select((pl.col("src").str.len_chars() + pl.col("tgt").str.len_chars()).mean()).item()
        )
        show(bench="filters", set=f"{src.parent.name} {pair}", chars_a_pair=round(chars, 1), pairs_per_cpu_s=rates,
             pairs=table.height, kept=kept, **spent)  # fmt: skip


def planted(
    pairs: list[tuple[str, str]], foreign: list[str], draw: np.random.Generator
) -> list[tuple[str, str, str]]:
    """Noisy versions of clean pairs: (kind, source, target); the last kind cannot be seen in the texts' form."""
    kinds: dict[str, Callable[[str, str, int], tuple[str, str]]] = {
        "copied": lambda s, t, i: (s, s),
        "wrong language": lambda s, t, i: (s, foreign[i % len(foreign)]),
        "swapped": lambda s, t, i: (t, s),
        "truncated": lambda s, t, i: (s, t[: max(1, len(t) // 5)]),
        "number changed": lambda s, t, i: (f"{s} (19{10 + i % 40})", f"{t} (19{55 + i % 40})"),
        "markup": lambda s, t, i: (s, f"<a href='x{i}.html'>{t}</a>"),
        "repeated": lambda s, t, i: (s, " ".join([t[: len(t) // 2]] * 4)),
        "mojibake": lambda s, t, i: (s, f"“{t}”".encode().decode("cp1252", "replace")),
        "near-duplicate": lambda s, t, i: (s.upper().rstrip(".") + "!", t.upper().rstrip(".") + " !"),
        "misaligned": lambda s, t, i: (s, pairs[(i + 7) % len(pairs)][1]),
    }
    share = len(pairs) // len(kinds)
    order = draw.permutation(len(pairs))
    planted_pairs = []
    for number, (kind, damage) in enumerate(kinds.items()):
        for i in order[number * share : (number + 1) * share]:
            src, tgt = pairs[int(i)]
            planted_pairs.append((kind, *damage(src, tgt, int(i))))
            if kind == "near-duplicate":
                planted_pairs.append(("clean", src, tgt))
    return planted_pairs


def noise(data: Path, *_: str) -> None:
    """Precision and recall of the default chain: half of each language's pairs clean, half damaged."""
    totals: dict[int, dict[str, list[int]]] = {}
    for lang in ("deu", "fra", "spa", "rus", "swh", "tur", "ara", "jpn", "cmn", "fin"):
        stem = data / "tatoeba" / f"{lang}-eng"
        pairs = list(zip(lines(Path(f"{stem}.eng")), lines(Path(f"{stem}.{lang}")), strict=True))
        other = "ita" if lang != "ita" else "por"
        foreign = lines(data / "tatoeba" / f"{other}-eng.{other}")
        for seed in SEEDS:
            draw = rng(seed, "noise", lang)
            order = draw.permutation(len(pairs))
            half = len(pairs) // 2
            rows = [("clean", *pairs[i]) for i in order[:half]]
            rows += planted([pairs[i] for i in order[half:]], foreign, draw)
            # Near-duplicates come after what they repeat.
            rows.sort(key=lambda row: row[0] == "near-duplicate")
            counts = judged(rows, f"en-{languages.get(lang, 'tatoeba').code}")
            for kind, (dropped, total) in counts.items():
                into = totals.setdefault(seed, {}).setdefault(kind, [0, 0])
                into[0], into[1] = into[0] + dropped, into[1] + total
            if seed == SEEDS[0]:
                show(bench="noise", lang=lang, **quality(counts))
    for seed, counts in totals.items():
        recalls = {kind: round(d / n, 3) for kind, (d, n) in counts.items() if kind != "clean"}
        show(bench="noise", seed=seed, **quality(counts), recall_by_kind=recalls)


def judged(rows: Sequence[tuple[str, str, str]], pair: str) -> dict[str, list[int]]:
    """Return kind -> pairs dropped and pairs in all."""
    table = frame({"src": [r[1] for r in rows], "tgt": [r[2] for r in rows]}, "noise")
    built = chain.build(chain.DEFAULT, {}, Context.of_pair(pair))
    kept, _ = built.run_batch(table, Ledger())
    _, reasons = built.judge_corpus(built.keys(kept))
    left = set(kept.filter(reasons.is_null())["id"])
    counts: dict[str, list[int]] = {}
    for row, name in zip(rows, table["id"], strict=True):
        into = counts.setdefault(row[0], [0, 0])
        into[0] += name not in left
        into[1] += 1
    return counts


def quality(counts: dict[str, list[int]]) -> dict[str, float]:
    """Return precision and recall for the nine visible kinds, and with misaligned pairs as a tenth."""
    clean = counts["clean"][0]
    facts: dict[str, float] = {"clean_lost": round(clean / counts["clean"][1], 4)}
    for name, left_out in (("nine", {"clean", "misaligned"}), ("ten", {"clean"})):
        dropped = sum(d for kind, (d, _) in counts.items() if kind not in left_out)
        total = sum(n for kind, (_, n) in counts.items() if kind not in left_out)
        facts |= {
            f"precision_{name}": round(dropped / (dropped + clean), 4),
            f"recall_{name}": round(dropped / total, 4),
        }
    return facts


def f1(predicted: Iterable[set[Any]], wanted: Iterable[set[Any]]) -> dict[str, float]:
    """Return precision, recall and F1 of links, in per cent."""
    both = found_all = wanted_all = 0
    for a, b in zip(predicted, wanted, strict=True):
        both, found_all, wanted_all = both + len(a & b), found_all + len(a), wanted_all + len(b)
    p, r = both / found_all, both / wanted_all
    return {
        "precision": round(100 * p, 2),
        "recall": round(100 * r, 2),
        "f1": round(200 * p * r / (p + r), 2),
    }


def align_bench(data: Path, program: str = "eflomal-align", *_: str) -> None:
    """Time of both aligners, F1 of ours and of a second run of eflomal against the first, AER on the golden set."""
    path = shutil.which(program)
    if not path:
        raise SystemExit(f"{program} is not installed: pip install eflomal into an environment of its own")
    rows = zip(
        lines(data / "mafand/en-sw.train.en.gz"), lines(data / "mafand/en-sw.train.sw.gz"), strict=True
    )
    cut = [(words(a.lower()), words(b.lower())) for a, b in rows]
    kept = [(a, b) for a, b in cut if a and b and max(len(a), len(b)) <= 200][:30_000]
    src, tgt = [a for a, _ in kept], [b for _, b in kept]
    first, spent_e = timed(lambda: eflomal.align(src, tgt, _JOIN, path))
    ours, spent = timed(lambda: align(src, tgt))
    second, _ = timed(lambda: eflomal.align(src, tgt, _JOIN, path))
    ratio = round(spent["cpu_s"] / spent_e["cpu_s"], 2)
    show(bench="align", pairs=len(src), eflomal=spent_e, ours=spent, cpu_ratio=ratio,
         ours_against_eflomal=f1(ours, first), eflomal_against_itself=f1(second, first))  # fmt: skip
    golden = ROOT / "tests/corpora/parallel/golden/alignments.en-sw.tsv"
    gold = [line.split("\t") for line in lines(golden) if not line.startswith("#")]
    from xling.corpora.toyworld import para

    texts = [(g[0], g[1]) for g in gold] + list(para("en", "sw", 600, 3))
    src, tgt = ([words(pair[side].lower()) for pair in texts] for side in (0, 1))
    for name, result in (("ours", align(src, tgt)), ("eflomal", eflomal.align(src, tgt, _JOIN, path))):
        errors = [
            alignment_error_rate(links, parse_pharaoh(g[2]), parse_pharaoh(g[3]))
            for links, g in zip(result, gold, strict=False)
        ]
        sure = f1(result[: len(gold)], [parse_pharaoh(g[2]) for g in gold])
        show(
            bench="align", set="golden", aligner=name, aer=round(float(np.mean(errors)), 4), against_sure=sure
        )


def dictionary_vectors(texts: Sequence[str], table: dict[str, tuple[str, ...]], idf: dict[str, float]) -> Any:
    """Return sums of random vectors of the words, each translated by ``table`` where it can be; float32 (n, 512)."""
    held: dict[str, Any] = {}
    out = np.zeros((len(texts), 512), np.float32)
    for row, text in enumerate(texts):
        for word in words(text.lower()):
            options = table.get(word, (word,))[:3]
            for option in options:
                key = option.lower()[:_STEM_CHARS]
                if key not in held:
                    held[key] = rng("word", key).standard_normal(512).astype(np.float32)
                out[row] += held[key] * (idf.get(key, 8.0) / len(options))
    return out


def mine_bench(data: Path, *_: str) -> None:
    """1,000 true de-en pairs among 10,000 sentences a side, thresholds chosen on the other test set."""
    table = read_dictionary(data / "bli/en-de.train5k.tsv")
    for word, more in read_dictionary(data / "bli/en-de.test2k.tsv").items():
        table[word] = (*table.get(word, ()), *more)
    others = {lang: lines(data / f"mono/cv.{lang}.txt.gz")[:9000] for lang in ("en", "de")}
    counts: dict[str, int] = {}
    for text in others["de"]:
        for word in {word[:_STEM_CHARS] for word in words(text.lower())}:
            counts[word] = counts.get(word, 0) + 1
    idf = {word: float(np.log(len(others["de"]) / n)) for word, n in counts.items()}
    sets = {
        "tatoeba": (lines(data / "tatoeba/deu-eng.eng"), lines(data / "tatoeba/deu-eng.deu")),
        "ntrex": (lines(data / "ntrex/ntrex.eng.txt"), lines(data / "ntrex/ntrex.deu.txt")),
    }
    results: dict[tuple[str, str, str], Any] = {}
    for name, (left, right) in sets.items():
        src = normalised(dictionary_vectors([*left, *others["en"]], table, idf))
        tgt = normalised(dictionary_vectors([*right, *others["de"]], {}, idf))
        gold = {(i, i) for i in range(len(left))}
        for margin in ("absolute", "ratio"):
            for retrieval in ("forward", "intersection", "max"):
                mined = mine(src, tgt, 4, margin, retrieval)
                results[name, margin, retrieval] = mined, gold
    for (name, margin, retrieval), (mined, gold) in results.items():
        other = "ntrex" if name == "tatoeba" else "tatoeba"
        threshold = f1_at_best_threshold(
            *results[other, margin, retrieval][0], results[other, margin, retrieval][1]
        )[3]
        kept = mined[2] >= threshold
        pairs = {(int(i), int(j)) for i, j in zip(mined[0][kept], mined[1][kept], strict=True)}
        score = f1([pairs], [gold])
        best = f1_at_best_threshold(*mined, gold)[2]
        show(bench="mine", set=name, margin=margin, retrieval=retrieval, **score, threshold=round(threshold, 3),
             best_f1=round(100 * best, 2))  # fmt: skip


def main(arguments: list[str]) -> None:
    """Run one benchmark, or all that can run here; those that cannot are named at the end."""
    run = dict(zip(NAMES, (filters, noise, align_bench, mine_bench), strict=True))
    chosen, rest = (arguments[:1], arguments[1:]) if arguments else (list(NAMES), [])
    data = rest[0] if rest else os.environ.get("XLING_DATA", "")
    if not set(chosen) <= set(NAMES) or not data:
        raise SystemExit(f"{__doc__}\ngiven: {arguments}, XLING_DATA={data!r}")
    missed = []
    for name in chosen:
        try:
            run[name](Path(data), *rest[1:])
        except SystemExit as error:
            missed.append(f"{name}: {error}")
    if missed:
        raise SystemExit("NOT RUN: " + "; ".join(missed))


if __name__ == "__main__":
    main(sys.argv[1:])
