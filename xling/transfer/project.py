"""Tags carried over from one language to others through linked words, to train a tagger on.

A tagger of the source language tags its side of pairs of texts with linked words (`xling.corpora.links`). A word of
the other side takes the tag of the word that it is linked to where the tagger is sure, and teaches nothing elsewhere.

Source: Yarowsky and Ngai 2001, Inducing multilingual POS taggers and NP bracketers via robust projection; Agic et al.
2015, If all you have is a bit of the Bible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xling.text.links import Linked

if TYPE_CHECKING:
    from jaxtyping import Float

UNKNOWN = "?"
"""The tag of a word that teaches nothing."""


def projected(
    pairs: Sequence[Linked],
    log_probabilities: Callable[[Sequence[Sequence[str]]], list[Float[np.ndarray, "_ _"]]],
    labels: Sequence[str],
    sure: float = 0.7,
    least: float = 0.4,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Words and tags of the other side of the pairs.

    Args:
        pairs: linked texts.
        log_probabilities: sentences -> log-probabilities of the labels of each word, (num_words, labels).
        labels: tags; of those that begin with B- and I- the second part goes over, and B- stands where a run begins.
        sure: least probability of a tag that goes over.
        least: share of a text's words with a tag; texts with fewer are left out.
    """
    sources = list(dict.fromkeys(pair.src for pair in pairs))
    scores = dict(zip(sources, log_probabilities(sources), strict=True))
    found = []
    for pair in pairs:
        best = scores[pair.src].argmax(1)
        is_sure = scores[pair.src].max(1) > np.log(sure)
        tags = [UNKNOWN] * len(pair.tgt)
        for i, j in pair.links:
            if is_sure[i]:
                tags[j] = labels[best[i]]
        if sum(tag != UNKNOWN for tag in tags) >= least * len(tags):
            found.append((pair.tgt, tuple(_runs(tags))))
    return found


def _runs(tags: Sequence[str]) -> list[str]:
    """Tags of spans with B- at the first word of each run of one type; others as they are."""
    made, before = [], ""
    for tag in tags:
        kind = tag[2:] if tag[:2] in ("B-", "I-") else ""
        made.append(tag if not kind else f"I-{kind}" if kind == before else f"B-{kind}")
        before = kind
    return made
