"""The only exception type for mistakes that a user can correct."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

_GUESS = "did you mean "


class UserError(Exception):
    """A mistake in the user's input: a file, a name, a value or a setting.

    The command line prints it as one line and exits with code 2, without a traceback.
    Invariants of the program itself are asserts, never a ``UserError``.

    Args:
        given: what was given, in the user's terms.
        valid: what would have been valid.
        fix: how to correct it.
    """

    exit_code = 2
    data: Any = None  # what ``--json`` prints about it, if anything

    def __init__(self, given: str, valid: str = "", fix: str = "") -> None:
        self.given, self.valid, self.fix = given, valid, fix
        more = [f"{word}: {_without_stop(text)}" for word, text in (("valid", valid), ("fix", fix)) if text]
        if fix.startswith(_GUESS):  # the nearest names, before the long list
            more.reverse()
        super().__init__("; ".join([_without_stop(given), *more]))


def _without_stop(text: str) -> str:
    """Return a text without the full stop at its end; the dots of a path such as ``data=.`` stay."""
    return re.sub(r"(?<=[\w)`'\"])\.+$", "", text.rstrip())


def nearest(name: str, names: Iterable[str], limit: int = 3) -> list[str]:
    """Return the names closest to ``name`` in spelling, best first; may be empty."""
    return difflib.get_close_matches(name, list(names), n=limit, cutoff=0.5)


def unknown(
    kind: str, name: str, names: Iterable[str], suggestions: Iterable[str] | None = None
) -> UserError:
    """Build the error for a name outside a closed list, with the nearest valid names.

    Args:
        kind: what the names are, for example ``objective``.
        name: what was given.
        names: the closed list.
        suggestions: names to suggest, best first; by default those nearest in spelling.

    Example:
        >>> str(unknown("language", "swx", ["sw", "sv"]))
        "unknown language 'swx'; fix: did you mean 'sw' or 'sv'?; valid: sv, sw"
    """
    valid = sorted(names)
    suggestions = nearest(name, valid) if suggestions is None else suggestions
    shown = ", ".join(valid[:40]) + (f", ... ({len(valid)} in all)" if len(valid) > 40 else "")
    hint = " or ".join(repr(n) for n in suggestions)
    fix = f"{_GUESS}{hint}?" if suggestions else f"choose one {kind} from the list"
    return UserError(f"unknown {kind} {name!r}", shown or "none is registered", fix)
