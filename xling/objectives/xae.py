"""Cross-lingual auto-encoding (XNLG): the decoder writes the translation of what the encoder reads.

It is translation as a pre-training objective, combined with `dae` and with a frozen encoder. A decoder that
has only learned denoising copies the language of its source. Here source and target differ, so the language
token has to decide.

Source: Chi et al. 2020 (XNLG), section 3.2.
"""

from pathlib import Path

import numpy as np

from xling.data.packing import Example
from xling.objectives.base import ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.pairs import Pair
from xling.objectives.seq2seq import Seq2SeqObjective, TranslationDataset, both_sides
from xling.objectives.translation import OVERHEAD


@objective("xae")
class Xae(Seq2SeqObjective):
    """The XAE objective: translate a sentence, in both directions of every pair."""

    trial = Trial(changes=("context", "both sides"), ignores=("own token", "later tokens"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        symbols = self.symbols

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            return both_sides(pair, symbols)

        return TranslationDataset(self.cfg, data, split, self.langs, "xae", build, OVERHEAD)
