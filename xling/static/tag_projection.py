"""Projection of tags from one language to others through word alignments, to train a tagger on.

A tagger of the source language tags its side of text pairs with aligned words (`xling.corpora.nway.word_alignments`).
A word of the other side takes the tag of its aligned word if the tagger is sure, and is ignored otherwise. Names are
rarer than other words and taggers less sure of them. So their types have a lower bound and words outside of names a
higher one, and only texts with a name are kept. Otherwise most names would be projected as other words.

Source: Yarowsky and Ngai 2001, Inducing multilingual POS taggers and NP bracketers via robust projection;
Agic et al. 2015, If all you have is a bit of the Bible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xling.text.files.word_alignments import AlignedPair

if TYPE_CHECKING:
    from jaxtyping import Float

UNKNOWN = "?"
"""Tag of a word that is ignored in training."""
OUTSIDE = "O"
"""Tag of a word outside of names."""


def projected(
    pairs: Sequence[AlignedPair],
    scores: Mapping[tuple[str, ...], Float[np.ndarray, "_ _"]],
    labels: Sequence[str],
    sure: float = 0.7,
    sure_name: float = 0.4,
    sure_outside: float = 0.93,
    least: float = 0.4,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return words and projected tags of the other side of the pairs.

    Args:
        pairs: texts with word alignments.
        scores: words of each first text -> log-probabilities of the labels of its words, (num_words, labels).
        labels: tags; of those that begin with B- and I- only the type is projected, and each run starts with
            B-.
        sure: least probability of a projected tag, if the labels are not names.
        sure_name: least probability of the type of a name, B- and I- together.
        sure_outside: least probability of the tag of a word outside of names.
        least: share of a text's words with a tag; texts with fewer are dropped.
    """
    unique, index = types_of(labels)
    of_kind = np.eye(len(unique), dtype=np.float32)[[index[label] for label in labels]]
    types = {tag_type(label) for label in labels} - {""}
    needed = np.array([sure_name if kind in types else sure_outside if types else sure for kind in unique])
    names = [f"I-{kind}" if kind in types else kind for kind in unique]
    tagged = []
    for pair in pairs:
        likely = np.exp(scores[pair.src]) @ of_kind
        best = likely.argmax(1)
        is_sure = likely.max(1) > needed[best]
        tags = [UNKNOWN] * len(pair.tgt)
        for i, j in pair.links:
            if is_sure[i]:
                tags[j] = names[best[i]]
        has_name = not types or any(map(tag_type, tags))
        if has_name and sum(tag != UNKNOWN for tag in tags) >= least * len(tags):
            tagged.append((pair.tgt, tuple(_runs(tags))))
    return tagged


def types_of(labels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the types of tags, B- and I- of a name as one, and the index of each label's type."""
    types = list(dict.fromkeys(tag_type(label) or label for label in labels))
    return types, {label: types.index(tag_type(label) or label) for label in labels}


def tag_type(tag: str) -> str:
    """Return the type of a name's tag, ``PER`` for ``B-PER``; empty for others."""
    return tag[2:] if tag[:2] in ("B-", "I-") else ""


def _runs(tags: Sequence[str]) -> list[str]:
    """Return tags of spans with B- at the first word of each run of one type; other tags are unchanged."""
    spans, before = [], ""
    for tag in tags:
        kind = tag_type(tag)
        spans.append(tag if not kind else f"I-{kind}" if kind == before else f"B-{kind}")
        before = kind
    return spans
