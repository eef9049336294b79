"""Results of an audit: precision by language, wrong drops by filter, agreement of readers."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from xling.core.errors import UserError
from xling.corpora.audit import estimates
from xling.corpora.audit.estimates import Agreement, Estimate
from xling.corpora.audit.labels import PRESETS, Answers, Question, belongs, is_complete, is_right_language
from xling.corpora.audit.sample import DROPPED, KEPT, ROUTED
from xling.pages.tabular import show_controls

FORMAT = "xling audit 1"
RIGHT, BELONGS, WRONGLY = "right language", "belongs", "wrongly dropped"
_AGAIN = "save the answers on the page of this corpus again (xling corpus audit DIR makes it)"


@dataclass(frozen=True)
class Goal:
    """A share that the audit is for.

    Attributes:
        text: as it is shown.
        lang: language or pair; "" for text of a crawl without one.
        kind: of its strata.
        measure: `RIGHT`, `BELONGS` or `WRONGLY`.
        strata: names of the strata that it is the share of.
        stage, reason: of dropped texts; a goal for a whole stage has no reason.
    """

    text: str
    lang: str
    kind: str
    measure: str
    strata: tuple[str, ...]
    stage: str = ""
    reason: str = ""


@dataclass
class Reader:
    """Answers of one reader.

    Attributes:
        name: as the reader gave it.
        labels: preset of the questions.
        answers: text -> its answers, those that are complete.
        counts: what was left out, by reason.
    """

    name: str
    labels: str
    answers: dict[str, Answers] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Results:
    """The shares that the answers give, each with its goal, and the agreement on each question."""

    shares: list[tuple[Goal, Estimate | None]]
    agreement: dict[str, Agreement]
    readers: list[Reader]


def goals(strata: Iterable[Mapping[str, Any]]) -> list[Goal]:
    """Return the shares that the strata of a sample allow to estimate."""
    everything = list(strata)
    listed = []
    for kind, measures in ((KEPT, (RIGHT, BELONGS)), (ROUTED, (RIGHT,))):
        by_lang = _grouped((s for s in everything if s["kind"] == kind), "lang")
        listed += [
            Goal(f"{kind}: {lang}", lang, kind, measure, names)
            for (lang,), names in by_lang.items()
            for measure in measures
        ]
    dropped = [s for s in everything if s["kind"] == DROPPED]
    reasons = _grouped(dropped, "lang", "stage", "reason")
    for (lang, stage), names in _grouped(dropped, "lang", "stage").items():
        listed.append(Goal(_drop_text(lang, stage), lang, DROPPED, WRONGLY, names, stage))
        listed += [
            Goal(_drop_text(lang, f"{stage}/{key[2]}"), lang, DROPPED, WRONGLY, parts, stage, key[2])
            for key, parts in reasons.items()
            if key[:2] == (lang, stage) and len(names) > 1
        ]
    return listed


def _drop_text(lang: str, what: str) -> str:
    return f"dropped by {what}: {lang or 'before routing'}"


def _grouped(strata: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple[str, ...], tuple[str, ...]]:
    groups: dict[tuple[str, ...], tuple[str, ...]] = {}
    for stratum in strata:
        key = tuple(stratum[name] for name in keys)
        groups[key] = (*groups.get(key, ()), stratum["name"])
    return groups


def read_answers(path: Path, sample: Mapping[str, Any]) -> Reader:
    """Read a file that the page has saved.

    Raises:
        UserError: no such file, not answers, those of another corpus, or none to a text of this sample.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"answers={path}: {error.strerror}", "a file that the page has saved") from None
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"answers={path} is not JSON: {error}", "a file that the page has saved", _AGAIN
        ) from None
    if (
        not isinstance(data, dict)
        or data.get("format") != FORMAT
        or not isinstance(data.get("answers"), dict)
    ):
        raise UserError(f"answers={path} holds no answers", f'JSON with "format": "{FORMAT}"', _AGAIN)
    if data.get("corpus") != sample["corpus"]:
        raise UserError(
            f"answers={path} are for corpus {show_controls(str(data.get('corpus')), keep='')}",
            f"{sample['corpus']}, the one that the page was made from",
            "give the corpus that was read, or make its page again and read it",
        )
    if data.get("labels") not in PRESETS:
        raise UserError(f"answers={path}: labels {data.get('labels')!r}", ", ".join(PRESETS), _AGAIN)
    reader = Reader(show_controls(str(data.get("reader") or path.stem), keep=""), data["labels"])
    questions = PRESETS[reader.labels]
    for text, answers in data["answers"].items():
        if text not in sample["texts"]:
            _count(reader, "answers to texts that are not in this sample")
        elif not _is_well_formed(answers, questions):
            _count(reader, "answers that are no labels of these questions")
        elif not is_complete(reader.labels, answers):
            _count(reader, "texts whose questions are not all answered")
        else:
            reader.answers[text] = answers
    if not reader.answers:
        told = "; ".join(f"{what}: {n:,}" for what, n in reader.counts.items()) or "no text is answered"
        raise UserError(f"answers={path}: {told}", "answers to texts of this sample", _AGAIN)
    return reader


def _count(reader: Reader, what: str) -> None:
    reader.counts[what] = reader.counts.get(what, 0) + 1


def _is_well_formed(answers: Any, questions: Sequence[Question]) -> bool:
    """Return whether the answers to one text are lists of labels of the questions, as many as a question takes."""
    if not isinstance(answers, dict) or not {*answers} <= {question.name for question in questions}:
        return False
    for question in questions:
        given = answers.get(question.name, [])
        names = [label.name for label in question.labels]
        if not isinstance(given, list) or not all(name in names for name in given):
            return False
        if len(given) > (len(names) if question.takes_many else 1) or len({*given}) < len(given):
            return False
    return True


def results(sample: Mapping[str, Any], readers: Sequence[Reader]) -> Results:
    """Return the shares of all goals, where several readers differ the mean of them, and the agreement.

    Raises:
        UserError: two readers of one name, or with other questions.
    """
    first = readers[0]
    for number, reader in enumerate(readers):
        if reader.name in [other.name for other in readers[:number]]:
            raise UserError(
                f"two files of answers are by {reader.name!r}",
                "one file a reader",
                "give each reader a name on the page, and of one reader the last file alone",
            )
        if reader.labels != first.labels:
            raise UserError(
                f"{reader.name} answered the questions {reader.labels}, {first.name} those of {first.labels}",
                "answers to the same questions",
            )
    sizes = {stratum["name"]: stratum["size"] for stratum in sample["strata"]}
    shares = [(goal, _estimate(goal, sizes, sample["texts"], readers)) for goal in goals(sample["strata"])]
    agreements = {name: value for name, value in _agreements(first.labels, readers) if value}
    return Results(shares, agreements, list(readers))


def _estimate(
    goal: Goal, sizes: Mapping[str, int], stratum_of: Mapping[str, str], readers: Sequence[Reader]
) -> Estimate | None:
    judge = is_right_language if goal.measure == RIGHT else belongs
    hits: dict[str, list[float]] = {name: [] for name in goal.strata}
    for text, stratum in stratum_of.items():
        given = [judge(r.labels, r.answers[text]) for r in readers if text in r.answers]
        if stratum in hits and given:
            hits[stratum].append(sum(given) / len(given))
    return estimates.estimate(
        estimates.Stratum(sizes[name], len(values), sum(values)) for name, values in hits.items()
    )


def _agreements(labels: str, readers: Sequence[Reader]) -> Iterable[tuple[str, Agreement | None]]:
    """Yield the agreement on each question; each label of a question with many answers is one of its own."""
    both = sorted({text for reader in readers for text in reader.answers})
    for question in PRESETS[labels]:
        name = question.name
        parts: dict[str, Callable[[Answers], str]]
        if question.is_verdict:
            parts = {BELONGS: partial(_verdict, labels)}
        elif question.takes_many:
            parts = {label.text: partial(_has, name, label.name) for label in question.labels}
        else:
            parts = {question.text: partial(_given, name)}
        for text, answer_of in parts.items():
            units = [[answer_of(r.answers[t]) for r in readers if t in r.answers] for t in both]
            yield text, estimates.agreement([[one for one in unit if one] for unit in units])


def _verdict(labels: str, answers: Answers) -> str:
    return str(belongs(labels, answers))


def _has(question: str, label: str, answers: Answers) -> str:
    return str(label in answers.get(question, ()))


def _given(question: str, answers: Answers) -> str:
    return "".join(answers.get(question, ()))


def to_json(outcome: Results, width: float) -> dict[str, Any]:
    """Return the results as JSON-ready values; ``enough`` says whether an interval is at most ``width`` wide."""
    return {
        "width": width,
        "shares": [
            {name: value for name, value in asdict(goal).items() if name not in ("text", "strata")}
            | (asdict(value) | {"enough": value.is_enough(width)} if value else {"read": 0})
            for goal, value in outcome.shares
        ],
        "agreement": {name: asdict(value) for name, value in outcome.agreement.items()},
        "readers": [{"name": r.name, "texts": len(r.answers), "left_out": r.counts} for r in outcome.readers],
    }


def rows(outcome: Results, width: float, lang: str | None = None) -> list[list[str]]:
    """Return a row for each share that was read, of one language or of all; the last cell says what is enough."""
    table = []
    for goal, value in outcome.shares:
        if value is None or lang not in (None, goal.lang):
            continue
        note = "enough" if value.is_enough(width) else "read more"
        if value.covered < 1:
            note += f"; {100 * (1 - value.covered):.1f} % in strata that nobody read"
        interval = f"{100 * value.low:.1f} to {100 * value.high:.1f}"
        table.append(
            [goal.text, goal.measure, f"{value.read:,}", f"{100 * value.share:.1f} %", interval, note]
        )
    return table


def agreement_rows(outcome: Results) -> list[list[str]]:
    """Return a row for each question that at least two readers answered."""
    rows = []
    for name, v in outcome.agreement.items():
        alpha = "not defined" if v.alpha is None else f"{v.alpha:.2f}"
        rows.append([name, f"{v.num_texts:,}", f"{100 * v.raw:.1f} %", alpha])
    return rows
