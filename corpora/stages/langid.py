"""Stage of language identification of documents and paragraphs, by `xling.corpora.langid` or a custom model."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from xling.core import languages
from xling.core.errors import UserError
from xling.core.languages import Language
from xling.core.settings.values import Lang
from xling.corpora.langid import south_slavic
from xling.corpora.langid.identify import (
    SURE_SCORE,
    UNLISTED,
    Ensemble,
    Identifier,
    Ranking,
    body_of,
    lid176,
    open_identifier,
    without_scheme,
)
from xling.corpora.langid.rates import BUILT_IN, Rates, Trust, built_in, model_name
from xling.corpora.langid.rates import load as load_rates
from xling.corpora.stages import STREAMING, Stage, Verdict
from xling.text.document import LONE, Document
from xling.text.words.han import chinese_form, is_in_script

_RULE_CHARS = 4000  # of a text that the rule for Bosnian, Croatian and Serbian reads
UNKNOWN = ""
IDENTIFIED = "identified as "
"""Beginning of the note on a document; the code of its language follows, or that there is none."""
_NUM_CANDIDATES = 5
_MIN_MEASURED = 5  # held-out texts that say how many the model finds
# Score of a language that is not among the candidates of a line, and lines of one that no other line is in.
_UNSEEN_SCORE, _UNSEEN_LINES = 0.005, 0.3
_CHARS_PER_POWER, _MAX_LINE_CHARS = 40, 120


@STREAMING.register("langid")
@dataclass(frozen=True)
class LangId(Stage):
    """Keep documents in the wanted languages and set ``lang`` and ``meta["lang_score"]``.

    Scripts of a language are known by letters, Simplified and Traditional Chinese by the characters that one of them
    has, Bosnian, Croatian and Serbian in Latin letters by the rule of `xling.corpora.langid.south_slavic`.

    Args:
        langs: wanted languages, in codes of any scheme; empty keeps every language.
        threshold: lowest score kept. CCNet: 0.5.
        thresholds: the same by language code, where it differs.
        min_script_share: share of a document's letters that must be in the script of its language.
        paragraphs: whether paragraphs in other languages are dropped from the documents kept.
        paragraph_chars: shorter paragraphs are not judged.
        paragraph_threshold: score from which a paragraph is taken to be in another language.
        model: a fastText model (``fasttext:FILE`` or its path; GlotLID, OpenLID, ...) or one of
            ``xling corpus langid-train`` (``.npz``) instead of the built-in ensemble.
        labels: label of the fastText model -> code, for labels that the table of languages does not read.
        prior: language -> share of the crawl's documents. A wanted language in it gets the lowest threshold from
            ``threshold`` on at which ``precision`` of what is kept may be expected to be in it.
        precision: share that is wanted of a language in ``prior``.
        rates: ``rates.json`` of ``xling corpus langid-eval``, made with the same model; empty for those of the
            built-in ensemble.
    """

    langs: tuple[str, ...] = ()
    threshold: float = 0.5
    thresholds: dict[str, float] = field(default_factory=dict)
    min_script_share: float = 0.5
    paragraphs: bool = False
    paragraph_chars: int = 60
    paragraph_threshold: float = 0.8
    model: Path | None = None
    labels: dict[str, str] = field(default_factory=dict)
    prior: dict[Lang, float] = field(default_factory=dict)
    precision: float = 0.9
    rates: Path | None = None

    name: ClassVar[str] = "langid"
    reasons: ClassVar[dict[str, str]] = {
        "no_letters": "no language can be told",
        "other_language": "identified as a language that is not wanted",
        "low_score": "identified as a wanted language, but with a score under the threshold",
        "wrong_script": "identified as a wanted language, but written in another script",
        "paragraphs_in_other_languages": "these paragraphs are in other languages than their document",
    }
    partial: ClassVar[frozenset[str]] = frozenset({"paragraphs_in_other_languages"})
    at_once: ClassVar[int] = 128

    def __post_init__(self) -> None:
        """Take the model's path, and reject shares and rates that do not fit together.

        Raises:
            UserError: a share out of range, a prior without rates, or rates without a prior.
        """
        object.__setattr__(self, "model", without_scheme(self.model))
        for code, share in self.prior.items():
            languages.get(code)
            if not 0 < share <= 1:
                raise UserError(f"prior.{code}={share}", "a share of the documents, above 0 and at most 1")
        if sum(self.prior.values()) > 1 + 1e-9:
            raise UserError(f"prior: {sum(self.prior.values()):g} in all", "shares that add up to at most 1")
        if not 0 < self.precision < 1:
            raise UserError(f"precision={self.precision}", "a share above 0 and below 1")
        if self.prior and self.rates is None and self.model is not None:
            raise UserError(
                f"a prior without rates of false positives of {self.model}",
                "settings.langid.rates=DIR/rates.json",
                "measure them: xling corpus langid-eval text.LANG=FILES ... out=DIR",
            )

    def edits(self, docs: Sequence[Document]) -> Iterator[Verdict]:
        """Identify documents, and cut out their paragraphs in other languages; every language found is noted."""
        bodies = [body_of(doc.text) for doc in docs]
        new = [i for i, doc in enumerate(docs) if not (doc.lang and "lang_score" in doc.meta)]
        ranks = self._identifier.ranks([bodies[i] for i in new]) if new else []
        ranked = dict(zip(new, ranks, strict=True)) | self._rank_again(
            docs, dict(zip(new, ranks, strict=True))
        )
        for i, (doc, body) in enumerate(zip(docs, bodies, strict=True)):
            if i in ranked:  # else it was identified during routing
                has_rule = isinstance(self._identifier, Ensemble)
                _set_language(doc, _refined(ranked[i], doc.text) if has_rule else ranked[i])
            yield self._verdict(doc, body)

    def _rank_again(self, docs: Sequence[Document], ranked: Mapping[int, Ranking]) -> dict[int, Ranking]:
        """Return the rankings of lines by themselves in the light of their neighbours.

        A sentence is short, and models confuse short texts. By Bayes' rule a score is multiplied with the share that
        the language has among the other lines around it in the same source, and the products are divided by their sum.
        Scores of longer lines count more: they are raised to a power.
        A language has part of a line more than there are, a wanted one a line.
        """
        lone = [i for i in ranked if docs[i].form == LONE]
        again: dict[int, Ranking] = {}
        for source in sorted({docs[i].source for i in lone}):
            ours = [i for i in lone if docs[i].source == source and ranked[i]]
            shares = defaultdict(float, dict.fromkeys(self._wanted, 1.0))
            for code, score in (each for i in ours for each in ranked[i]):
                shares[code] += score
            for i in ours:
                own = dict(ranked[i])
                scores = dict.fromkeys(shares, _UNSEEN_SCORE) | own
                power = 1 + min(_MAX_LINE_CHARS, len(docs[i].text)) / _CHARS_PER_POWER
                weighted = {
                    code: score**power * (_UNSEEN_LINES + max(0.0, shares[code] - own.get(code, 0.0)))
                    for code, score in scores.items()
                }
                total = sum(weighted.values())
                order = sorted(weighted, key=lambda code: (-weighted[code], code))
                again[i] = [(code, weighted[code] / total) for code in order[:_NUM_CANDIDATES]]
        return again

    def _verdict(self, doc: Document, body: str) -> Verdict:
        """Return the verdict on an identified document; its body is that of `body_of`."""
        code, score = doc.lang, doc.meta["lang_score"]
        notes = {f"{IDENTIFIED}{code or 'no language'}": 1}
        base = code.partition("_")[0]
        doc.lang = self._in_script(body, base, code)
        doc.meta["lang_score"] = round(score, 4)
        if reason := self._reason_to_drop(doc, body, base, score):
            return Verdict(reason, notes=notes)
        if not self.paragraphs:
            return Verdict(notes=notes)
        title, lines = doc.split_title()
        foreign = [line for line in lines if self._is_foreign(line, base)]
        if not foreign:
            return Verdict(notes=notes)
        kept = [*title, *(line for line in lines if line not in foreign)]
        if not kept:
            return Verdict("other_language", notes=notes)
        return Verdict(None, "\n".join(kept), {"paragraphs_in_other_languages": foreign}, notes)

    def _reason_to_drop(self, doc: Document, body: str, base: str, score: float) -> str:
        """Return why a whole document is dropped, or ""."""
        if not base:
            return "no_letters"
        if base == UNLISTED or (self._wanted and base not in self._wanted):
            return "other_language"
        if score < self._thresholds.get(base, self.threshold):
            return "low_score"
        share = self.min_script_share
        if share and not is_in_script(body, languages.get(doc.lang), share):
            return "wrong_script"
        return ""

    def _in_script(self, body: str, base: str, code: str) -> str:
        """Return the wanted language of a base whose script a text is in, the first one where it is in none."""
        wanted = self._wanted.get(base)
        if not wanted:
            return {"Hant": "zh_Hant", "Hans": "zh"}.get(chinese_form(body), code) if base == "zh" else code
        return next((lang.code for lang in wanted if is_in_script(body, lang)), wanted[0].code)

    def check(self) -> None:
        """Refuse languages that the model cannot find.

        Raises:
            UserError: it knows one of the wanted languages not, or there is no such model.
        """
        known_langs = self._identifier.langs
        if self.rates and load_rates(self.rates).model != model_name(self.model):
            raise UserError(
                f"the rates in {self.rates} were measured with another model than {self.model or BUILT_IN}",
                "rates of the same model",
                "run xling corpus langid-eval with its model=",
            )
        for wanted in self._wanted.values():
            for lang in wanted:
                if lang.code not in known_langs and (lang.base not in known_langs or not _is_told(lang)):
                    raise UserError(
                        f"no available model identifies {lang.code} ({lang.name})",
                        f"one of {len(known_langs)} languages",
                        f"bring a model (settings.langid.model=FILE, fastText), train one (xling corpus langid-train "
                        f"text.{lang.code}=FILES), or leave langid out of after_dedup",
                    )

    def hard_to_find(self) -> list[str]:
        """Return a line for each wanted language of whose held-out texts the model finds less than half."""
        rates, lines = self.measured, []
        for base, (lang, *_) in self._wanted.items():
            threshold = self._thresholds.get(base, self.threshold)
            num = rates.texts.get(base, 0) if rates else 0
            if rates is not None and num >= _MIN_MEASURED:
                shares = {other: rates.share_found(base, other, threshold) for other in rates.texts}
                kind, right = "held-out texts", shares.pop(base)
                other = max(shares, key=lambda each: shares[each])
                taken = shares[other]
            elif rates is not None and base in rates.missed:
                num, num_right, other, num_taken = rates.missed[base]
                kind, right, taken = "texts", num_right / num, num_taken / num
            else:
                continue
            if right < 0.5:
                lines.append(
                    f"of {num} {kind} in {lang.name} the model finds {right:.0%}, and takes {taken:.0%} for {other}; "
                    f"where all of a source is in {base}, leave langid out of after_dedup="
                )
        return lines

    @cached_property
    def _identifier(self) -> Identifier:
        return open_identifier(self.model, self.labels)

    @cached_property
    def _wanted(self) -> dict[str, list[Language]]:
        """The wanted languages, by their codes without scripts."""
        wanted: dict[str, list[Language]] = {}
        for lang in map(languages.get, self.langs):
            wanted.setdefault(lang.base, []).append(lang)
        return wanted

    @cached_property
    def measured(self) -> Rates | None:
        """Rates of confusion of the model, None for a model of one's own without a file of them."""
        if self.rates:
            return load_rates(self.rates)
        return built_in() if self.model is None else None

    def trust(self, code: str, prior: Mapping[str, float] | None = None) -> Trust | None:
        """Return what may be expected of a language, None without rates or its share of the crawl.

        Args:
            prior: shares that were estimated, where the settings give none.
        """
        base = code.partition("_")[0]
        shares = self.prior or prior or {}
        if not self.measured or not any(each.partition("_")[0] == base for each in shares):
            return None
        given = {languages.get(each).base: value for each, value in self.thresholds.items()}
        may_raise = bool(self.prior) and base not in given
        threshold = given.get(base, self.threshold)
        return self.measured.trust(base, shares, threshold, self.precision, may_raise)

    @cached_property
    def _thresholds(self) -> dict[str, float]:
        given = {languages.get(code).base: value for code, value in self.thresholds.items()}
        expected = {base: self.trust(base) for base in self._wanted or map(_base_of, self.prior)}
        return {base: trust.threshold for base, trust in expected.items() if trust} | given

    def _is_foreign(self, line: str, base: str) -> bool:
        if len(line) < self.paragraph_chars:
            return False
        code, score = _best_language(self._identifier, line)
        other = code.partition("_")[0]
        if {other, base} <= south_slavic.GROUP:  # no line is long enough for the rule
            return False
        return bool(code) and other != base and score >= self.paragraph_threshold


def _base_of(code: str) -> str:
    return languages.get(code).base


def _is_told(lang: Language) -> bool:
    """Whether a language in a script is told from the base language by script or rule: romanised text is not."""
    return lang.code == lang.base or lang.code in _TOLD_BY_RULE


_TOLD_BY_RULE = frozenset({"sr_Latn", "zh_Hant"})


def _refined(ranking: Ranking, text: str) -> Ranking:
    """Return a ranking in which the rule for Bosnian, Croatian and Serbian has been heard."""
    is_group = bool(ranking) and ranking[0][0].partition("_")[0] in south_slavic.GROUP
    head = text[:_RULE_CHARS].lower() if is_group else ""
    return south_slavic.refine(ranking, head) if head and languages.script_of(head) == "Latn" else ranking


def _set_language(doc: Document, ranked: Ranking) -> None:
    """Give a document its language, and the candidates where the vote was close."""
    doc.lang, doc.meta["lang_score"] = ranked[0] if ranked else (UNKNOWN, 0.0)
    if len(ranked) > 1 and ranked[0][1] < SURE_SCORE:
        doc.meta["langs"] = {code: round(score, 4) for code, score in ranked}


def model_settings(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return those of the stages' settings that decide which language is found; thresholds come after that."""
    return {k: v for k, v in settings.get(LangId.name, {}).items() if k in ("model", "labels")}


def identify(text: str, ask_all_models: bool = True) -> tuple[str, float]:
    """Return the language code of ``text`` and its score in [0, 1]; ``("", 0.0)`` without letters.

    Args:
        text: any text in any case; `body_of` it is read.
        ask_all_models: whether other models are asked where fastText's score is low.
    """
    return _best_language(open_identifier(None, {}) if ask_all_models else lid176(), text)


def _best_language(identifier: Identifier, text: str) -> tuple[str, float]:
    ranked = identifier.rank(body_of(text))
    return ranked[0] if ranked else (UNKNOWN, 0.0)
