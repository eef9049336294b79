"""XWinograd: which of two names a gap in a sentence stands for, in six languages."""

from collections.abc import Mapping
from typing import Any

from xling.core.errors import UserError
from xling.eval.rows.suite import Example


def to_example(record: Mapping[str, Any], index: int) -> Example:
    """Parse a line of the published files; each alternative is a name with the sentence after the gap."""
    before, gap, after = str(record["sentence"]).partition("_")
    if not gap:
        raise UserError(f"sentence {index} has no gap: {before[:60]!r}", "one _ in it")
    choices = tuple(f"{record[name]}{after}" for name in ("option1", "option2"))
    fields = {"premise": before.rstrip(), "question": "effect", "choices": choices}
    return Example(str(index), fields, int(record["answer"]) - 1)
