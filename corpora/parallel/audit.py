"""The audit of a corpus: the share of synthetic noise in its own pairs that its filters drop or put right."""

from collections.abc import Mapping

import polars as pl

from xling.core.sampling import rng
from xling.corpora.audit.estimates import wilson
from xling.corpora.parallel.chain import Chain
from xling.corpora.parallel.clean.synthetic_noise import COPY_KINDS, KINDS, CleanPairs, Pair, is_restored
from xling.text.document import Ledger
from xling.text.pairs import make_batch

MIN_PAIRS = 1000
CLEAN = "clean"
# Least and most pairs that stay as they are, and that a kind of noise is added to. Between them, one for so many of
# the corpus. So the audit judges about 4 % as many pairs as the build.
_CLEAN_PAIRS, _PAIRS_PER_KIND = (200, 1500, 66), (4, 40, 1250)
_SURE_BELIEF = 0.9
Counts = dict[str, list[int]]


def audit(chain: Chain, pairs_read: pl.DataFrame, pairs_kept: pl.DataFrame, seed: int) -> Counts:
    """Kind of noise -> [pairs dropped or put right, pairs made noisy]; empty below `MIN_PAIRS` pairs.

    Under `CLEAN` stand the pairs of a sample that the filter ``align`` is sure of, and how many of them other filters
    drop; it is left out where there is no such filter.

    Args:
        chain: that has learned from the batch.
        pairs_read: a batch as it was read.
        pairs_kept: what the chain kept of it.
        seed: of the synthetic noise.
    """
    if pairs_kept.height < MIN_PAIRS:
        return {}
    random = rng(seed, "audit")
    texts = list(pairs_kept.select("src", "tgt").iter_rows())
    clean_pairs = CleanPairs(texts)
    num_clean, num_per_kind = (
        max(least, min(most, pairs_kept.height // pairs_per_one))
        for least, most, pairs_per_one in (_CLEAN_PAIRS, _PAIRS_PER_KIND)
    )
    rows: list[tuple[str, Pair, Pair]] = [("", pair, pair) for pair in texts[:num_clean]]
    for kind, damage in KINDS.items():
        # A copy is noise behind the pair that it copies.
        chosen = random.permutation(num_clean if kind in COPY_KINDS else len(texts))[:num_per_kind]
        damaged = ((texts[i], damage(i, clean_pairs, random)) for i in chosen.tolist())
        rows += [(kind, pair, clean_pair) for clean_pair, pair in damaged if pair]
    src, tgt = map(list, zip(*(pair for _, pair, _ in rows), strict=True))
    table = make_batch({"src": src, "tgt": tgt}, "audit")
    left, _ = chain.run_batch(table, Ledger())
    _, reason = chain.judge_corpus(chain.keys(left))
    stays = left.filter(reason.is_null()) if chain.corpus else left
    texts_left = {name: (one, other) for name, one, other in stays.select("id", "src", "tgt").rows()}
    shares: Counts = {}
    for (kind, _, clean_pair), name in zip(rows, table["id"], strict=True):
        if kind:
            counts = shares.setdefault(kind, [0, 0])
            counts[0] += name not in texts_left or is_restored(texts_left[name], clean_pair)
            counts[1] += 1
    return shares | _clean_pairs(chain, pairs_read.head(num_clean))


def _clean_pairs(chain: Chain, pairs_read: pl.DataFrame) -> Counts:
    """Pairs that ``align`` is sure of and that the chain drops."""
    if "align" not in chain.fitted_filters:
        return {}
    believed = chain.fitted_filters["align"].measured(pairs_read, chain.context)["align"]
    sure = pairs_read.filter(believed >= _SURE_BELIEF)
    kept, _ = chain.run_batch(sure, Ledger())
    return {CLEAN: [sure.height - kept.height, sure.height]}


def merge(parts: list[Mapping[str, list[int]]]) -> Counts:
    """Add up the counts of synthetic noise of several parts."""
    total: Counts = {}
    for part in parts:
        for kind, counts in part.items():
            total[kind] = [a + b for a, b in zip(total.get(kind, [0, 0]), counts, strict=True)]
    return total


def dropped_interval(dropped: int, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; (0, 1) where nothing was counted."""
    return wilson(dropped / total if total else 0.0, total)


def rows(counts: Mapping[str, list[int]]) -> list[list[str]]:
    """Return a row of the data card for each kind of synthetic noise: pairs, share dropped and its interval."""
    shares = []
    for kind, (dropped, total) in counts.items():
        if total:
            low, high = dropped_interval(dropped, total)
            shares.append(
                [kind, f"{total:,}", f"{100 * dropped / total:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}"]
            )
    return shares
