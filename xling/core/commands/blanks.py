"""A blank beside the sign of a setting, which a shell hands on as two or three words."""

import itertools
import re
from collections.abc import Sequence

from xling.core.errors import UserError

KEY = re.compile(r"[A-Za-z_][\w.-]*")
"""Name of a setting."""


def without_blank(words: Sequence[str], unused: str) -> str:
    """Return the fix for ``size= 1000``, "" where the word before the unused one does not end in ``=``."""
    before = next((name for name, word in itertools.pairwise(words) if word == unused), "")
    return f"write {before}{unused}, without a blank" if before.endswith("=") else ""


def refuse_blanks(words: Sequence[str]) -> None:
    """Refuse ``size = 1000``, which a shell hands on as three words.

    Raises:
        UserError: a word begins with ``=`` behind the name of a setting.
    """
    for number, (name, word) in enumerate(itertools.pairwise(words)):
        if word.startswith("=") and KEY.fullmatch(name.removeprefix("--")):
            value = word[1:] or "".join(words[number + 2 : number + 3])
            raise UserError(
                f"{name} {word}: a blank before the sign =", "key=value as one word", f"write {name}={value}"
            )
