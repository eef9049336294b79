"""Cross-attention masked LM (ERNIE-M): a masked piece of one side is predicted from the other side alone.

Sequence as in TLM. A masked token sees itself (its position) and the unmasked tokens of the other side; an
unmasked token sees the unmasked tokens of its own side; nobody sees a masked token. So what is predicted in x
depends on y alone, at every depth: no token of y has seen x, and the other way round.

Source: Ouyang et al. 2021, section 3.2. The paper draws only the masked side's attention; that y must not look
back at x follows from its aim, since in two layers x would otherwise reach itself through y.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from xling.data.masking import MaskRule
from xling.data.packing import Example
from xling.objectives import tlm
from xling.objectives.base import Loss, Objective, ObjectiveDataset, objective
from xling.objectives.mmlm import masked_loss, rule_of
from xling.objectives.pairs import Pair, PairDataset
from xling.objectives.trial import Trial

NOBODY = -1


def example(pair: Pair, rule: MaskRule, restart: bool, generator: np.random.Generator) -> Example:
    """One masked pair with who sees whom.

    Returns:
        What `xling.objectives.tlm.example` does, and ``sees`` and ``shows`` (length,): side 0 or 1, `NOBODY` shown
        by masked tokens.
    """
    made = tlm.example(pair, rule, restart, generator)
    side = made["segments"]
    sees, shows = side.copy(), side.copy()
    sees[made["chosen"]] = 1 - side[made["chosen"]]
    shows[made["chosen"]] = NOBODY
    return made | {"sees": sees, "shows": shows}


@objective("camlm")
class Camlm(Objective):
    """Masked LM across aligned sentences, each side from the other."""

    trial = Trial(changes=("context", "both sides"), ignores=("own token", "own side"))
    config = tlm.SidesConfig

    def dataset(self, data: Path, split: str) -> ObjectiveDataset:
        """Pairs of the split."""
        rule, restart = rule_of(self.cfg, self.dictionary), self.cfg.restart_positions

        def build(pair: Pair, generator: np.random.Generator) -> Example:
            return example(pair, rule, restart, generator)

        return PairDataset(self.cfg, data, split, self.langs, "camlm", build, tlm.OVERHEAD)

    def loss(self, model: Any, sample: dict[str, Any]) -> Loss:
        """Cross-entropy at the masked positions of both sides."""
        return masked_loss(model, sample)
