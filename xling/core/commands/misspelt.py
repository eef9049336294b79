"""Answers to a misspelt word after a command: they name the nearest word that the command knows."""

from collections.abc import Sequence
from pathlib import Path

from xling.core.commands import help as manual
from xling.core.commands.runner import STAGES, load
from xling.core.commands.table import NAMED_PIPELINES, OTHER_WORDS, PLANNED_PIPELINES
from xling.core.errors import nearest, unknown


def first_words() -> list[str]:
    """Return what ``xling help`` may be followed by; commands of two words by their whole name too."""
    firsts = [name.partition(" ")[0] for name in STAGES]
    return list(dict.fromkeys(["all", *STAGES, *firsts, *OTHER_WORDS, *NAMED_PIPELINES, *PLANNED_PIPELINES]))


def refuse_misspelt(
    command: str, words: Sequence[str], known_words: str = "", also_values: bool = False
) -> None:
    """Raise UserError for an unknown word after a command whose nearest is the second word of a longer command.

    Args:
        command: words of the command, as ``eval``.
        words: what follows.
        known_words: see `xling.core.commands.stage_type.Stage.words`.
        also_values: an unknown word whose nearest is a value of the command is refused too.
    """
    after = [name.removeprefix(f"{command} ") for name in manual.commands_of(command)]
    known = load(known_words)() if known_words and words else []
    for word in ",".join(words).split(","):
        suggestions = nearest(word, [*after, *known])
        is_value = word in known or Path(word).exists() or "/" in word
        if not is_value and suggestions and (suggestions[0] in after or (also_values and known)):
            raise unknown(f"word after `xling {command}`", word, [*after, *known], suggestions)
