"""Corpus stages, one file each.

A streaming stage is a frozen dataclass on `Stage`: its fields are its configuration, `name` is its name in
`STREAMING`, `reasons` says what it drops and why, `examples` shows each reason. Reasons listed in `partial`
drop a part of a document, for example a paragraph; the others drop the document. A stage that only drops
implements `Stage.judge`; one that changes text or cuts parts out implements `Stage.edit`. Barriers
(`paragraphs`, `near_duplicates`, `perplexity.fit_cutoffs`) are functions over the files of all shards.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from xling.core.registry import Registry
from xling.text.document import Document, Ledger


@dataclass(frozen=True)
class Example:
    """A document and what a stage does to it: the contract tests of all stages run on these.

    Attributes:
        reason: why the document, or a part of it, is dropped; "" where all of it is kept.
        text: of the document.
        url: of the document.
        lang: of the document.
        meta: of the document.
        settings: of the stage; a value that names one of ``files`` stands for its path.
        files: name -> content of files that the settings name.
    """

    reason: str
    text: str
    url: str = ""
    lang: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Verdict:
    """What a stage does to one document.

    Attributes:
        reason: why the document is dropped, with what `text` leaves of it; None where it stays.
        text: what is left of the text; None where nothing is changed.
        lost: partial reason -> the paragraphs that were cut out.
        notes: event -> count, for the ledger.
    """

    reason: str | None = None
    text: str | None = None
    lost: Mapping[str, list[str]] = field(default_factory=dict)
    notes: Mapping[str, int] = field(default_factory=dict)


class Stage:
    """Base of streaming stages: the only loop over documents, and the only place that counts them."""

    name: ClassVar[str]
    reasons: ClassVar[dict[str, str]]
    partial: ClassVar[frozenset[str]] = frozenset()
    rewrites: ClassVar[bool] = False  # whether kept text may change beyond what is cut out of it
    examples: ClassVar[tuple[Example, ...]] = ()
    at_once: ClassVar[int] = 1  # documents that `edits` is given: more where many cost less than one by one

    def judge(self, doc: Document) -> str | None:
        """Return the reason why ``doc`` is dropped, None if it is kept."""
        raise NotImplementedError(f"{type(self).__name__} has neither judge nor edit")

    def edit(self, doc: Document) -> Verdict:
        """Apply the stage to ``doc``; a stage that only changes ``meta`` and ``lang`` needs only `judge`."""
        return Verdict(self.judge(doc))

    def edits(self, docs: Sequence[Document]) -> Iterable[Verdict]:
        """Yield example documents with the stage's result for each."""
        return map(self.edit, docs)

    def __call__(self, docs: Iterable[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield the documents that survive, in their order."""
        rest = iter(docs)
        chunks = iter(lambda: list(itertools.islice(rest, self.at_once)), [])
        judged = (pair for chunk in chunks for pair in zip(chunk, self.edits(chunk), strict=True))
        for doc, verdict in judged:
            ledger.enter(self.name, doc)
            for event, count in verdict.notes.items():
                ledger.note(event, count)
            for reason, parts in verdict.lost.items():
                # The line break before each part went with it.
                ledger.drop(self.name, reason, doc, "".join(f"\n{part}" for part in parts))
            if verdict.text is not None:
                doc.text = verdict.text
            if verdict.reason is None:
                yield doc
            else:
                ledger.drop(self.name, verdict.reason, doc)


STREAMING: Registry[type[Stage]] = Registry("corpus stage", __name__, plugin="stage")
