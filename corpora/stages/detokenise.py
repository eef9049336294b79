"""Stage that puts text together again that another program has tokenised."""

from dataclasses import dataclass
from typing import ClassVar

from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import Document
from xling.text.tokenised import tokenised_kind, undo


@STREAMING.register("detokenise")
@dataclass(frozen=True)
class Detokenise(Stage):
    """Undo the tokenisation of Moses, BPE, SentencePiece and the Penn Treebank, and tags, document by document.

    It runs only where it is listed: what stood between the signs cannot always be told.

    Args:
        lang: language of the corpus; French keeps blanks before some signs.
    """

    lang: str = ""

    name: ClassVar[str] = "detokenise"
    reasons: ClassVar[dict[str, str]] = {"empty": "nothing but marks of a training program"}
    rewrites = True

    def edit(self, doc: Document) -> Verdict:
        """Undo what was done to a document; the ledger notes how many were changed."""
        if not tokenised_kind(doc.text):
            return Verdict()
        text = "\n".join(filter(None, map(str.strip, undo(doc.text, self.lang).split("\n"))))
        if not text:
            return Verdict("empty")
        return Verdict(text=text, notes={"detokenised": 1})
