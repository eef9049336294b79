"""``android:SRC+TGT``: two files of Android's strings (``strings.xml``), joined by their names."""

import re
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES, drop_row
from xling.corpora.parallel.sources.units import Texts, TwoFiles
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)|\"", re.DOTALL)
_ESCAPED = {"n": "\n", "t": " "}
_GROUPS = frozenset({"string", "plurals", "string-array"})


@PAIR_SOURCES.register("android")
class Android(TwoFiles):
    """Strings, plurals and arrays of two files."""

    scheme, keys = "android", "names of strings"

    @staticmethod
    def texts(path: Path, ledger: Ledger) -> Texts:
        """Return key -> text: ``name``, ``name/quantity`` of plurals, ``name/number`` of arrays.

        ``name@product`` is the variant of a string for a kind of device. References to other strings, and strings that
        are not to be translated, are left out.

        Raises:
            UserError: the file holds no whole string.
        """
        texts: Texts = {}
        group, key, place, is_translated = "", "", 0, True
        parts: list[str] | None = None
        for kind, name, attributes in unit_events(path, _GROUPS, {"resources"}, {"string", "item"}):
            if kind == DAMAGED:
                drop_row(ledger, "malformed", f"{path}", name)
            elif kind == "text":
                if parts is not None:
                    parts.append(name)
            elif name == "br" and parts is not None:
                parts.append(" ")
            elif name in _GROUPS and kind == "start":
                group, place = attributes.get("name", ""), 0
                if (product := attributes.get("product", "default")) != "default":
                    group = f"{group}@{product}"
                is_translated = attributes.get("translatable") != "false"
                key, parts = group, [] if name == "string" else None
            elif name == "item" and kind == "start" and group:
                key, parts = f"{group}/{attributes.get('quantity') or place}", []
                place += 1
            elif name in ("string", "item") and parts is not None:
                text, parts = _unescaped("".join(parts)), None
                if not key or len(text) > MAX_CELL_BYTES:
                    drop_row(ledger, "malformed", f"{path}/{key}", text[:1000])
                elif is_translated and not text.startswith(("@string/", "@android:string/")):
                    texts.setdefault(key, text)
        if not texts:
            raise UserError(
                f"{path} holds no string", "XML with <resources><string name=...>", "check the file"
            )
        return texts


def _unescaped(text: str) -> str:
    """Return what Android shows: outside of quotation marks white space is one space, a backslash escapes."""

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if not code:
            return ""
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    shown = _ESCAPE.sub(plain, " ".join(text.split()))
    return " ".join(shown.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())
