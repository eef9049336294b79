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

import numpy as np

from xling.array_types import Float
from xling.text.files.word_alignments import AlignedPair

IGNORED_TAG = "?"
"""Tag of a word that is ignored in training."""
OUTSIDE_TAG = "O"
"""Tag of a word outside of names."""


def project_tags(
    pairs: Sequence[AlignedPair],
    scores: Mapping[tuple[str, ...], Float[np.ndarray, "_ _"]],
    labels: Sequence[str],
    min_probability: float = 0.7,
    min_name_probability: float = 0.4,
    min_outside_probability: float = 0.93,
    min_tagged_share: float = 0.4,
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return words and projected tags of the other side of the pairs.

    Args:
        pairs: texts with word alignments.
        scores: words of each first text -> log-probabilities of the labels of its words, (num_words, labels).
        labels: tags; of those that begin with B- and I- only the type is projected, and each run starts with
            B-.
        min_probability: least probability of a projected tag, if the labels are not names.
        min_name_probability: least probability of the type of a name, B- and I- together.
        min_outside_probability: least probability of the tag of a word outside of names.
        min_tagged_share: share of a text's words with a tag; texts with fewer are dropped.
    """
    tag_types, type_of_label = tag_types_of(labels)
    label_to_type = np.eye(len(tag_types), dtype=np.float32)[[type_of_label[label] for label in labels]]
    name_types = {tag_type(label) for label in labels} - {""}
    thresholds = np.array(
        [
            min_name_probability
            if kind in name_types
            else min_outside_probability
            if name_types
            else min_probability
            for kind in tag_types
        ]
    )
    projected_tags = [f"I-{kind}" if kind in name_types else kind for kind in tag_types]
    tagged = []
    for pair in pairs:
        type_probabilities = np.exp(scores[pair.src]) @ label_to_type
        best_types = type_probabilities.argmax(1)
        is_sure = type_probabilities.max(1) > thresholds[best_types]
        tags = [IGNORED_TAG] * len(pair.tgt)
        for i, j in pair.links:
            if is_sure[i]:
                tags[j] = projected_tags[best_types[i]]
        has_name = not name_types or any(map(tag_type, tags))
        if has_name and sum(tag != IGNORED_TAG for tag in tags) >= min_tagged_share * len(tags):
            tagged.append((pair.tgt, tuple(_restart_spans(tags))))
    return tagged


def tag_types_of(labels: Sequence[str]) -> tuple[list[str], dict[str, int]]:
    """Return the types of tags, B- and I- of a name as one, and the index of each label's type."""
    types = list(dict.fromkeys(tag_type(label) or label for label in labels))
    return types, {label: types.index(tag_type(label) or label) for label in labels}


def tag_type(tag: str) -> str:
    """Return the type of a name's tag, ``PER`` for ``B-PER``; empty for others."""
    return tag[2:] if tag[:2] in ("B-", "I-") else ""


def _restart_spans(tags: Sequence[str]) -> list[str]:
    """Return tags of spans with B- at the first word of each run of one type; other tags are unchanged."""
    restarted, previous_type = [], ""
    for tag in tags:
        name_type = tag_type(tag)
        restarted.append(
            tag if not name_type else f"I-{name_type}" if name_type == previous_type else f"B-{name_type}"
        )
        previous_type = name_type
    return restarted
