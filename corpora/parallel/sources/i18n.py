"""``i18n:SRC+TGT``: two JSON files with the texts of a program by key, nested or not; ARB and Chrome's too."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.parallel.sources import PAIR_SOURCES, drop_row
from xling.corpora.parallel.sources.units import Texts, TwoFiles, read_small
from xling.text.document import Ledger, replace_surrogates
from xling.text.files.compressed import MAX_CELL_BYTES
from xling.text.files.encodings import refuse_seven_bits

MAX_BYTES = 1 << 26
MAX_KEY_CHARS = 1 << 28
"""Of all keys in front of which another key stands."""
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_CHROME = frozenset({"message", "description", "placeholders"})


@PAIR_SOURCES.register("i18n")
class I18n(TwoFiles):
    """The texts that two files have under the same keys."""

    scheme, keys = "i18n", "keys"

    @staticmethod
    def texts(path: Path, ledger: Ledger) -> Texts:
        """Return key -> text; the keys of nested objects are joined by dots, and numbers and facts of ARB left out.

        The code of a language above all keys, as of Rails, does not belong to them.

        A damaged file is refused: behind damage nobody can tell which object a key belongs to.

        Raises:
            UserError: the file is too large, no JSON object in UTF-8 or UTF-16, or holds no text.
        """
        refuse_seven_bits(data := read_small(path, MAX_BYTES), path, letters=True)
        try:
            values = json.loads(_LAST_COMMA.sub(r"\1", data.decode(json.detect_encoding(data))))
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path} is not JSON: {error}", "a JSON object in UTF-8", "repair the file"
            ) from None
        if not isinstance(values, dict):
            raise UserError(f"{path} holds no JSON object", '{"key": "text", ...}', "check the file")
        texts: Texts = {}
        pending: list[tuple[str, Any]] = [("", _below_language(values))]
        num_chars = 0
        while pending:
            key, value = pending.pop()
            num_chars += len(key) * len(value) if isinstance(value, dict | list) else 0
            if num_chars > MAX_KEY_CHARS:
                raise UserError(
                    f"{path} has nested keys of more than {MAX_KEY_CHARS:,} characters in all",
                    fix="cut the file in two",
                )
            if isinstance(value, dict) and isinstance(value.get("message"), str) and value.keys() <= _CHROME:
                value = value["message"]
            if isinstance(value, dict):
                inside = [
                    (f"{key}.{name}" if key else name, each)
                    for name, each in value.items()
                    if name[:1] != "@"
                ]
                pending += reversed(inside)
            elif isinstance(value, list):
                pending += reversed([(f"{key}.{place}", each) for place, each in enumerate(value)])
            elif isinstance(value, str) and len(value) <= MAX_CELL_BYTES:
                if value.strip():
                    texts[key] = replace_surrogates(value)
            else:
                drop_row(ledger, "malformed", f"{path}/{key}", str(value)[:1000])
        if not texts:
            raise UserError(f"{path} holds no text", '{"key": "text", ...}', "check the file")
        return texts


def _below_language(values: dict[str, Any]) -> dict[str, Any]:
    """Return what stands below the only key, if that is the code of a language."""
    name = next(iter(values), "")
    if len(values) == 1 and isinstance(values[name], dict):
        with contextlib.suppress(UserError):
            languages.get(name)
            return dict(values[name])
    return values
