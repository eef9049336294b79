"""Cross-attention masked LM (ERNIE-M): a masked piece of one side is predicted only from the other side.

Sequence as in TLM. A masked token sees itself (its position) and the unmasked tokens of the other side; an
unmasked token sees the unmasked tokens of its own side; no token sees a masked token. So a prediction in x
depends only on y, at every depth: no token of y has seen x, and vice versa.

Source: Ouyang et al. 2021, section 3.2. The paper only draws the attention of the masked side. That y must
not see x follows from its aim, since in two layers x would otherwise reach itself through y.
"""

from pathlib import Path

import numpy as np

from xling.data.masking import MaskRule
from xling.data.packing import Example
from xling.objectives import tlm
from xling.objectives.base import ObjectiveDataset, objective
from xling.objectives.contract_facts import Trial
from xling.objectives.mmlm import MaskedObjective, rule_of
from xling.objectives.pairs import Pair, PairDataset

NOBODY = -1


def example(pair: Pair, rule: MaskRule, restart: bool, generator: np.random.Generator) -> Example:
    """Build one masked pair with its attention groups.

    Returns:
        The fields of `xling.objectives.tlm.example`, and ``sees`` and ``shows`` (length,): side 0 or 1,
        `NOBODY` for ``shows`` of masked tokens.
    """
    masked = tlm.example(pair, rule, restart, generator)
    side = masked["segments"]
    sees, shows = side.copy(), side.copy()
    sees[masked["chosen"]] = 1 - side[masked["chosen"]]
    shows[masked["chosen"]] = NOBODY
    return masked | {"sees": sees, "shows": shows}


@objective("camlm")
class Camlm(MaskedObjective):
    """The CAMLM objective: masked LM across aligned sentences, each side predicted from the other."""

    trial = Trial(changes=("context", "both sides"), ignores=("own token", "own side"))

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Return the dataset of pairs of a split."""
        rule, restart = rule_of(self.cfg, self.dictionary), self.cfg.restart_positions

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            return example(pair, rule, restart, generator)

        return PairDataset(self.cfg, data, split, self.langs, "camlm", build, tlm.OVERHEAD)
