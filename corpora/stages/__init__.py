"""Corpus stages, one file each.

A streaming stage is a frozen dataclass on `Stage`: its fields are its configuration, `name` is its name in
`STREAMING`, `reasons` says what it drops and why. Examples of each reason stand in
``tests/corpora/stages/stage_examples.py``; a stage of another package may have them itself (`Stage.examples`).
Reasons listed in `partial` drop a part of a document, for example a paragraph; the others drop the document. A
stage that only drops implements `Stage.judge`; one that changes text or cuts parts out implements `Stage.edit`.
Barriers (`paragraphs`, `near_duplicates`, `perplexity.fit_cutoffs`) are functions over the files of all shards.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from xling.core.errors import UserError
from xling.core.registry import Registry
from xling.core.settings import config
from xling.text.document import Document, Ledger


@dataclass(frozen=True)
class Example:
    """A document and the expected result of a stage, for the contract tests of all stages.

    Attributes:
        reason: why the document, or a part of it, is dropped; "" if all of it is kept.
        settings: settings of the stage; a value that names one of ``files`` is replaced by its path.
        files: name -> content of files that the settings name.
    """

    reason: str
    text: str
    url: str = ""
    lang: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    form: str = ""


@dataclass(slots=True)
class Verdict:
    """Result of a stage for one document.

    Attributes:
        reason: why the document is dropped, with what `text` leaves of it; None if it is kept.
        text: remaining text; None if it is unchanged.
        lost: partial reason -> the removed paragraphs.
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
    rewrites: ClassVar[bool] = False  # whether kept text may change apart from removed parts
    examples: ClassVar[tuple[Example, ...]] = ()
    at_once: ClassVar[int] = 1  # number of documents per call of `edits`: more if batches are cheaper

    def judge(self, doc: Document) -> str | None:
        """Return the reason why ``doc`` is dropped, None if it is kept."""
        raise NotImplementedError(f"{type(self).__name__} has neither judge nor edit")

    def edit(self, doc: Document) -> Verdict:
        """Apply the stage to ``doc``; a stage that only changes ``meta`` and ``lang`` needs only `judge`."""
        return Verdict(self.judge(doc))

    def edits(self, docs: Sequence[Document]) -> Iterable[Verdict]:
        """Yield example documents with the stage's result for each."""
        return map(self.edit, docs)

    def _with_verdicts(self, docs: Iterator[Document]) -> Iterator[tuple[Document, Verdict]]:
        """Yield each document with the stage's result, `at_once` of them judged together."""
        if type(self).edits is Stage.edits:
            for doc in docs:
                yield doc, self.edit(doc)
        while chunk := list(itertools.islice(docs, self.at_once)):
            yield from zip(chunk, self.edits(chunk), strict=True)

    def __call__(self, docs: Iterable[Document], ledger: Ledger) -> Iterator[Document]:
        """Yield the documents that survive, in their order; ``meta`` counts what was cut out of each by reason."""
        for doc, verdict in self._with_verdicts(iter(docs)):
            ledger.count_seen(self.name, doc)
            if verdict.notes:
                for event, count in verdict.notes.items():
                    ledger.count_event(event, count)
            if verdict.lost:
                for reason, parts in verdict.lost.items():
                    # The line break before each part was removed with it.
                    ledger.drop(self.name, reason, doc, "\n".join(["", *parts]))
                    doc.meta[f"num_{reason}"] = doc.meta.get(f"num_{reason}", 0) + len(parts)
            if verdict.text is not None:
                doc.text = verdict.text
            if verdict.reason is None:
                yield doc
            else:
                ledger.drop(self.name, verdict.reason, doc)


PERPLEXITY = "perplexity"
"""Name of the stage that needs cut-offs, which are fitted to the whole corpus."""
STREAMING: Registry[type[Stage]] = Registry("corpus stage", __name__, plugin="stage")


def configured(names: Iterable[str], lang: str, settings: Mapping[str, Mapping[str, Any]]) -> list[Stage]:
    """Return the streaming stages called ``names`` with their settings; ``lang`` fills ``lang`` or ``langs``.

    Args:
        settings: stage name -> the settings that are not its defaults.

    Raises:
        UserError: an unknown stage, one listed twice, or a setting that the stage does not have.
    """
    names = list(names)
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"stage {repeated[0]!r} is listed twice", "each stage once")
    if PERPLEXITY in names:
        raise UserError(f"{PERPLEXITY} is not a stage to list", fix="it runs by itself; set it up with lm.*")
    stages: list[Stage] = []
    for name in names:
        cls = STREAMING[name]
        available = {each.name for each in fields(cls)}  # type: ignore[arg-type]
        by_lang = {key: value for key, value in (("lang", lang), ("langs", (lang,))) if key in available}
        stages.append(config.from_dict(cls, by_lang | dict(settings.get(name, {})), f"settings.{name}"))
    return stages
