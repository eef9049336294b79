"""Facts about each objective that the contract tests need, declared by the objective itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGES = ("context", "both sides", "queue")
"""Inputs that a loss must depend on: unpredicted tokens, tokens of each side, the keys in the queue."""
IGNORES = ("own token", "later tokens", "own side")
"""Inputs that a prediction must not depend on: the token itself, later tokens, those of its own side."""


@dataclass(frozen=True)
class Trial:
    """Facts for the contract tests, which run on every objective without knowing its name.

    Attributes:
        settings: settings that fit a corpus of a few sentences; ``{teacher}`` stands for the folder of a
            small model.
        overfits_with: settings under which the loss of one batch falls, if the usual ones change its targets.
        spare: number of tokens by which an example may differ from its declared size.
        shrinks: its noise leaves fewer tokens than an example has room for.
        makes_sources: the sources of its examples are generated in training.
        changes: items of `CHANGES` that must change the loss.
        ignores: items of `IGNORES` that must not change it.
        mixed_with: objectives that it is trained with in its paper's recipe; empty if it has no recipe of its
            own.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    overfits_with: Mapping[str, str] = field(default_factory=dict)
    spare: int = 0
    shrinks: bool = False
    makes_sources: bool = False
    changes: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    mixed_with: tuple[str, ...] = ()
