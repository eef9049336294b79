"""Stage that cuts menus, headers, footers and other boilerplate out of web pages, line by line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from operator import not_
from pathlib import Path
from typing import ClassVar

import numpy as np

from xling.core.errors import UserError
from xling.corpora.builtin import boilerplate
from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import LONE, Document


@STREAMING.register("lines")
@dataclass(frozen=True)
class Lines(Stage):
    """Keep the running text of web pages. A title is never judged.

    Args:
        sources: beginnings of the source URIs whose documents are judged; others, for example Wikipedia, pass.
        threshold: probability of running text from which a line is kept.
        min_chars: a document with fewer characters of running text after the title is dropped.
    """

    sources: tuple[str, ...] = ("wet:", "cc:")
    threshold: float = 0.55
    min_chars: int = 200

    name: ClassVar[str] = "lines"
    reasons: ClassVar[dict[str, str]] = {
        "boilerplate": "these lines look like menus, headers, footers or lists of links",
        "no_running_text": "hardly any line looks like running text",
    }
    partial: ClassVar[frozenset[str]] = frozenset({"boilerplate"})
    at_once: ClassVar[int] = 64

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise UserError(f"settings.lines.threshold={self.threshold}", "a number between 0 and 1")

    def edits(self, docs: Sequence[Document]) -> Iterator[Verdict]:
        """Yield the verdict on each document; those of ``sources`` are judged in one call."""
        docs_to_cut = [doc for doc in docs if doc.source.startswith(self.sources) and doc.form != LONE]
        is_text, position = list[bool](), 0
        if docs_to_cut:
            scores = _load_model().scores([doc.text for doc in docs_to_cut])
            is_text = (scores > np.log(self.threshold / (1 - self.threshold))).tolist()
        names = {id(doc) for doc in docs_to_cut}
        for doc in docs:
            if id(doc) in names:
                first, position = position, position + doc.text.count("\n") + 1
                yield self._keep_lines(doc, is_text[first + doc.num_title_lines : position])
            else:
                yield Verdict()

    def _keep_lines(self, doc: Document, is_text: list[bool]) -> Verdict:
        """Return the verdict on a document; ``is_text`` says which of its lines after the title are running text."""
        title, body = doc.split_title()
        kept_lines = list(compress(body, is_text))
        if sum(map(len, kept_lines)) < self.min_chars:
            return Verdict("no_running_text")
        if len(kept_lines) == len(body):
            return Verdict()
        lost = list(compress(body, map(not_, is_text)))
        notes = {"boilerplate lines": len(lost)}
        return Verdict(None, "\n".join([*title, *kept_lines]), {"boilerplate": lost}, notes)


@cache
def _load_model() -> boilerplate.LineModel:
    return boilerplate.load(Path(boilerplate.__file__).with_suffix(".npz"))
