"""Translation language modelling (XLM): masked LM over a sentence and its translation.

Two styles: ``xlm`` uses ``<s> x </s> </s> y </s>``, with ``<s>`` where XLM's code has ``</s>``; ``infoxlm``
has one ``</s>`` between the sides, as InfoXLM's code. With ``restart_positions`` the positions of y start at
0 again (XLM), else they continue (XLM-R, InfoXLM).

Source: Conneau & Lample 2019, section 3.3; Chi et al. 2021 for the form without language embeddings.
"""

from pathlib import Path

import numpy as np

from xling.data.masking import MaskRule
from xling.data.packing import Example
from xling.objectives.base import BOS, EOS, ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import MaskedObjective, masked, rule_of
from xling.objectives.pairs import Pair, PairDataset

OVERHEAD = 2
_BOS, _EOS = np.array([BOS]), np.array([EOS])


def example(
    pair: Pair, rule: MaskRule, restart: bool, generator: np.random.Generator, between: int = 1
) -> Example:
    """Build one masked pair, with ``between`` more ``</s>`` after that of the first side.

    Returns:
        ``tokens``, ``positions``, ``langs`` and ``segments`` (length,), ``chosen`` and ``target`` (M,),
        ``target_langs`` (M,) the language of each prediction.
    """
    tokens = np.concatenate([_BOS, pair.src, *[_EOS] * between, pair.tgt])
    second = len(pair.src) + 1  # start of the second side
    segments = np.zeros(len(tokens), dtype=np.int64)
    segments[second:] = 1
    langs = np.where(segments, pair.tgt_lang, pair.src_lang)
    positions = np.arange(len(tokens))
    if restart:
        positions[second:] -= second
    built = masked(tokens, rule, generator)
    more = {"positions": positions, "langs": langs, "segments": segments}
    return built | more | {"target_langs": langs[built["chosen"]]}


@objective("tlm")
class Tlm(MaskedObjective):
    """The TLM objective: masked LM on concatenated aligned sentences."""

    trial = Trial(changes=("context", "both sides"), ignores=("own token",))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        rule, restart = rule_of(self.cfg, self.dictionary), self.cfg.restart_positions
        between = int(self.cfg.style == "xlm")

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            return example(pair, rule, restart, generator, between)

        return PairDataset(self.cfg, data, split, self.langs, "tlm", build, OVERHEAD - 1 + between)
