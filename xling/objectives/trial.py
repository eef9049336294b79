"""What tests have to know of an objective, said by the objective itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGES = ("context", "both sides", "queue")
"""What a loss must depend on: some token that it does not predict, tokens of each side, the keys in the queue."""
IGNORES = ("own token", "later tokens", "own side")
"""What a prediction must not know: the token itself, those behind it, those of its own side."""


@dataclass(frozen=True)
class Trial:
    """Facts for the contract tests, which know no objective by name.

    Attributes:
        settings: what fits it onto a corpus of a few sentences; ``{teacher}`` stands for the folder of a small model.
        overfits_with: settings under which the loss of one batch falls, where the usual ones change its targets.
        spare: tokens that an example may have more or less than its size says.
        shrinks: its noise leaves fewer tokens than an example has room for.
        makes_sources: the sources of its examples are made in training.
        changes: of `CHANGES`, what must change the loss.
        ignores: of `IGNORES`, what must not change it.
        mixed_with: objectives that it is trained with in its paper's recipe; empty where it has none of its own.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    overfits_with: Mapping[str, str] = field(default_factory=dict)
    spare: int = 0
    shrinks: bool = False
    makes_sources: bool = False
    changes: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    mixed_with: tuple[str, ...] = ()
