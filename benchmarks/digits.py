"""Share of changed digits that the filter ``numbers`` sees, and clean pairs that it drops.

``python -m benchmarks.digits DATA``: DATA is the folder of the project's data sets. Up to 1,500 pairs of every set of
`benchmarks.noise` (``pairs=``). In each pair whose sides have the same numbers, one digit of the target becomes another
one (``seed=``). Prints a line for the sets of each half: changed pairs, share seen, pairs with a digit, those dropped.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from benchmarks.noise import Options, half, languages_of, options, sets
from xling.core.sampling import rng
from xling.corpora.parallel.filters.numbers import Numbers, contradict, numbers, years_between


def counts(asked: Options) -> Iterator[tuple[str, str]]:
    """Yield the half of the sets and what befell a pair: ``changed``, ``seen``, ``clean``, ``dropped``."""
    for name, src, tgt, left, right in sets(asked.data):
        if not (pair := languages_of(name, src, tgt)):
            continue
        years = years_between(*pair)
        random = rng(asked.seed, "digits", name)
        pairs = [(a, b) for a, b in zip(left, right, strict=True) if a.strip() and b.strip()]
        for place in random.permutation(len(pairs))[: asked.pairs].tolist():
            a, b = pairs[place]
            if not any(c.isdigit() for c in a + b):
                continue
            yield half(name), "clean"
            if contradict(a, b, Numbers.max_missing, years):
                yield half(name), "dropped"
            other = changed(b, random)
            if Counter(numbers(a)) == Counter(numbers(b)) != Counter(numbers(other)):
                yield half(name), "changed"
                if contradict(a, other, Numbers.max_missing, years):
                    yield half(name), "seen"


def changed(text: str, random: np.random.Generator) -> str:
    """Return ``text`` with one of its ASCII digits replaced by another one, unchanged if it has none."""
    places = [i for i, c in enumerate(text) if c in "0123456789"]
    if not places:
        return text
    place = places[int(random.integers(len(places)))]
    digit = (int(text[place]) + int(random.integers(1, 10))) % 10
    return f"{text[:place]}{digit}{text[place + 1 :]}"


def main(arguments: list[str]) -> None:
    """Measure all sets."""
    asked = options(["pairs=1500", *arguments])
    found = Counter(counts(asked))
    for name in ("tuned", "other"):
        num = {kind: found[name, kind] for kind in ("changed", "seen", "clean", "dropped")}
        print(f"{name}: {num['changed']:,} changed, {100 * num['seen'] / num['changed']:.2f} % seen; "
              f"{num['clean']:,} clean, {100 * num['dropped'] / num['clean']:.2f} % dropped")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
