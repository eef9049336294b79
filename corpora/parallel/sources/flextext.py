"""``flextext:FILE``: interlinear text of FieldWorks (FLEx): phrases with their free translation."""

from collections.abc import Iterator
from pathlib import Path

from xling.corpora.common.xml_units import DAMAGED, unit_events
from xling.corpora.parallel.sources import PAIR_SOURCES
from xling.corpora.parallel.sources.units import Unit, UnitFile
from xling.text.document import Ledger
from xling.text.files.compressed import MAX_CELL_BYTES

_NO_SPACE_BEFORE = tuple(",.;:!?)]}»”’،؛؟።፣。、，")


@PAIR_SOURCES.register("flextext")
class Flextext(UnitFile):
    """The phrases of a file; the words of one stand for it where it has no text of its own."""

    scheme = "flextext"

    @staticmethod
    def units(path: Path, ledger: Ledger) -> Iterator[Unit]:
        """Yield the phrases of a file; one without any text is damaged.

        Raises:
            UserError: no phrase of the file is whole.
        """
        number, in_words, in_morphemes, num_chars = 0, 0, 0, 0
        own: dict[str, str] = {}
        words: dict[str, list[str]] = {}
        item: tuple[str, str] | None = None
        parts: list[str] = []
        for kind, name, attributes in unit_events(path, {"phrase"}, {"document"}, {"item"}):
            step = 1 if kind == "start" else -1
            if kind == DAMAGED:
                number += 1
                yield f"{number}", None, ""
            elif kind == "text":
                if item:
                    parts.append(name)
            elif name == "phrase" and kind == "start":
                own, words, number, num_chars = {}, {}, number + 1, 0
            elif name == "phrase":
                texts = {lang: _joined(each) for lang, each in words.items()} | own
                yield f"{number}", None if num_chars > MAX_CELL_BYTES else texts or None, ""
            elif name == "words":
                in_words += step
            elif name == "morphemes":
                in_morphemes += step
            elif name == "item" and kind == "start":
                item, parts = (attributes.get("type", ""), attributes.get("lang", "").lower()), []
            elif name == "item" and item and not in_morphemes:
                text = " ".join("".join(parts).split())
                num_chars += len(text)
                if num_chars > MAX_CELL_BYTES:
                    own, words = {}, {}
                elif in_words and item[0] in ("txt", "punct") and text:
                    words.setdefault(item[1], []).append(text)
                elif not in_words and item[0] in ("txt", "gls") and text:
                    own.setdefault(item[1], text)
                item = None


def _joined(words: list[str]) -> str:
    text = ""
    for word in words:
        text += word if not text or word.startswith(_NO_SPACE_BEFORE) else f" {word}"
    return text
