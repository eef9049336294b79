"""How well the column ``align`` ranks damaged pairs below clean ones of the same set: areas under the curve by kind.

``python -m benchmarks.areas DATA [every=8]``: every so many of the sets of `benchmarks.noise`, with the same pairs and
damage. Filters before ``align`` run first, with their defaults. A pair's area is the share of the clean pairs of its
set that have a higher value, ties by half. Sets in which ``align`` judges nothing are left out. Prints the mean of each
kind, its standard error, and the number of pairs.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import polars as pl
from scipy.stats import rankdata

from benchmarks.noise import damaged, languages_of, options, sets, without_copies
from xling.corpora.parallel import chain
from xling.corpora.parallel.filters import PAIR_FILTERS, Context
from xling.text.document import Ledger

BEFORE = chain.DEFAULT[: chain.DEFAULT.index("align")]


def areas(name: str, codes: tuple[str, str], table: pl.DataFrame, kinds: list[str]) -> dict[str, list[float]]:
    """Return for each kind the areas of its pairs in one set."""
    context = Context.of_pair("-".join(codes))
    kept, _ = chain.build(BEFORE, {}, context).run_batch(table, Ledger())
    column = PAIR_FILTERS["align"]().fitted(kept, context).measured(kept, context)["align"]
    if column.null_count():
        return {}
    values = column.to_numpy()
    kind_of = dict(zip(table["id"], kinds, strict=True))
    kept_kinds = np.array([kind_of[pair] for pair in kept["id"]])
    clean = values[kept_kinds == ""]
    found: dict[str, list[float]] = {}
    for kind in sorted(set(kept_kinds) - {""}):
        own = values[kept_kinds == kind]
        ranks = [rankdata([*clean, value])[-1] for value in own]
        found[str(kind)] = [float(1 - (rank - 1) / len(clean)) for rank in ranks]
    return found


def main(arguments: list[str]) -> None:
    """Measure the sets."""
    named = dict(word.split("=", 1) for word in arguments if "=" in word)
    asked, every = options(arguments), int(named.get("every", 8))
    pooled: defaultdict[str, list[float]] = defaultdict(list)
    measured = 0
    for number, (name, src, tgt, left, right) in enumerate(sets(asked.data)):
        if number % every or not (pair := languages_of(name, src, tgt)):
            continue
        codes = (pair[0].code, pair[1].code)
        pairs = without_copies([(a, b) for a, b in zip(left, right, strict=True) if a.strip() and b.strip()])
        _, rows, table = damaged(name, codes, pairs, asked)
        of_set = areas(name, codes, table, [row[0] for row in rows])
        measured += bool(of_set)
        for kind, own in of_set.items():
            pooled[kind] += own
    print(f"{measured} sets\n\n| kind | area | standard error | pairs |\n| --- | ---: | ---: | ---: |")
    for kind, own in pooled.items():
        print(f"| {kind} | {np.mean(own):.3f} | {np.std(own) / len(own) ** 0.5:.3f} | {len(own)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
