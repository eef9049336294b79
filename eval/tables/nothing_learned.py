"""Which scores are no better than a control's: a note that says so, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from xling.eval.scores.score_file import CONTROLS, PUBLISHED, Score

COMPARED = ("random", "majority")
"""Controls of which a model that has learned something is better."""
MAX_NAMED = 20
_REMEDIES = {
    True: "train longer (fit.epochs=), at another rate (fit.lr=) or on more rows, and compare the labels of both files",
    False: "use a model that was trained longer, or on pairs of these languages, and look at layer= and pooling=",
}


def notes_on_nothing_learned(scores: Sequence[Score], tuned_suites: Sequence[str]) -> list[str]:
    """Return a sentence on each system and suite whose scores are within their intervals of a control, or below it.

    Args:
        scores: those of a table; the interval of several seeds is the mean of theirs.
        tuned_suites: names of suites that systems are fine-tuned on.
    """
    by_system: dict[tuple[str, str, str], dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        if score.select != PUBLISHED and score.low is not None:
            by_system[score.suite, score.metric, score.system][score.lang].append(score)
    first_metric = {suite: metric for suite, metric, _ in reversed(by_system)}
    notes = []
    for (suite, metric, system), by_lang in by_system.items():
        if system.partition(",")[0] in CONTROLS or metric != first_metric[suite]:
            continue
        none_better = [
            f"{lang} ({control})"
            for lang, each in by_lang.items()
            if (control := _control(by_system, suite, metric, lang, each))
        ]
        if none_better:
            more = f" and {len(none_better) - MAX_NAMED} more" if len(none_better) > MAX_NAMED else ""
            notes.append(
                f"{suite}, {system}: not better than a control, so the model has learned nothing that counts here, in "
                f"{', '.join(none_better[:MAX_NAMED])}{more}. What to do: {_REMEDIES[suite in tuned_suites]}."
            )
    return notes


def _control(
    by_system: dict[tuple[str, str, str], dict[str, list[Score]]],
    suite: str,
    metric: str,
    lang: str,
    scores: Sequence[Score],
) -> str:
    """Return the control with the highest score that is not below the interval of a system's scores, or ""."""
    low = fmean(score.low for score in scores if score.low is not None)
    values = {
        control: fmean(each.value for each in by_system[suite, metric, control][lang])
        for control in COMPARED
        if by_system.get((suite, metric, control), {}).get(lang)
    }
    best = max(values, key=lambda control: values[control], default="")
    return f"{best} {values[best]:.1f}" if best and values[best] >= low else ""
