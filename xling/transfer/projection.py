"""Training rows in other languages for a tagger: tags that go over from English through word alignments.

A first tagger, trained on the labelled rows, tags one side of text pairs with aligned words; the other side takes the
tags over, see `xling.static.tag_projection`. A second tagger learns from both. A word without a sure tag is read, but
not learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from xling.core.output.command_result import tell
from xling.core.sampling import rng
from xling.static.tag_projection import IGNORED_TAG, project_tags, tag_type
from xling.text.files.word_alignments import AlignedPair, read_word_alignments
from xling.transfer.encode import IGNORED, LabelledRow, UnlabelledRow

if TYPE_CHECKING:
    from jaxtyping import Float32

    from xling.transfer.tune import TunedModel

TEXTS_PER_ROW, NAME_TEXTS_PER_ROW = 3.0, 1.0
"""Most projected texts for each labelled row: of tags, and of names, whose projections are less sure."""
MOST_PAIRS_PER_TEXT = 10
"""Pairs that are tagged at most for each wanted text: an unsure tagger leaves few texts with enough tags."""


def project_rows(tagger: TunedModel, folder: Path, num_rows: int, lang: str, seed: int) -> list[LabelledRow]:
    """Return rows with projected tags, with `IGNORED` where nothing is learned.

    Args:
        tagger: first tagger.
        folder: output of ``xling corpus links``.
        num_rows: labelled rows; the texts are drawn in proportion to them.
        lang: language of the first texts of the pairs, and of the labelled rows.
        seed: of the draw.

    Raises:
        UserError: the output does not exist.
    """
    pairs = read_word_alignments(folder)
    has_names = any(map(tag_type, tagger.labels))
    most = int((NAME_TEXTS_PER_ROW if has_names else TEXTS_PER_ROW) * num_rows)
    order = rng("projected rows", seed).permutation(len(pairs)).tolist()
    texts: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    num_tagged = 0
    while len(texts) < most and num_tagged < min(len(pairs), MOST_PAIRS_PER_TEXT * most):
        drawn = [pairs[i] for i in order[num_tagged : num_tagged + most]]
        texts += project_tags(drawn, _scores(tagger, drawn, lang), tagger.labels)
        num_tagged += len(drawn)
    texts = texts[:most]
    tell(
        f"xling: {len(texts):,} texts with projected tags of {num_tagged:,} pairs in {folder} join {num_rows:,} rows"
    )
    return [
        UnlabelledRow(
            {"tokens": words}, tuple(IGNORED if tag == IGNORED_TAG else tag for tag in tags), f"projected {n}"
        )
        for n, (words, tags) in enumerate(texts)
    ]


def _scores(
    tagger: TunedModel, pairs: Sequence[AlignedPair], lang: str
) -> dict[tuple[str, ...], Float32[np.ndarray, "words labels"]]:
    """Return the log-probabilities of the labels of each first text."""
    sources = list(dict.fromkeys(pair.src for pair in pairs))
    windows = tagger.scores([UnlabelledRow({"tokens": words}) for words in sources], lang=lang)
    logits = [np.concatenate([part for _, part in of_text]) for of_text in windows]
    return {
        words: torch.from_numpy(each).log_softmax(1).numpy()
        for words, each in zip(sources, logits, strict=True)
    }
