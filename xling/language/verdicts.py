"""Scores of a language in words: what a model can be used for, which one, and what would help most.

Words stand only where the 95 % interval of a paired difference carries them.
"""

from collections.abc import Iterable, Mapping, Sequence

from xling.language.results import Gain, Result, gain, mean_gain, of_suite
from xling.pages.tabular import Table

USES: Mapping[str, str] = {
    "classify": "sort texts by subject",
    "pair": "tell whether one sentence follows from another",
    "tag": "find names or parts of speech",
    "intent_slots": "understand short requests",
    "retrieval": "find the translation of a sentence",
}
"""Kind of a suite -> what a good score is good for."""
DOES: Mapping[str, str] = {
    "classify": "sorts {:.1f} of 100 texts right",
    "pair": "judges {:.1f} of 100 pairs of sentences right",
    "retrieval": "finds the translation of {:.1f} of 100 sentences",
}
"""Kind of a suite -> what its score says; of other kinds the metric is named."""
NAMES: Mapping[str, str] = {
    "static": "the static encoder",
    "transformer": "the Transformer",
    "joined": "the Transformer with the static encoder",
    "body": "the model that it started from",
    "random": "untrained weights",
    "majority": "the most frequent label",
    "ngram": "character n-grams",
    "dictionary": "a word-by-word translation",
}
"""System -> what it is called in a sentence."""
USABLE = 50.0
"""Score from which most answers are right."""


def verdicts(results: Sequence[Result], kinds: Mapping[str, str], models: Iterable[str]) -> Iterable[str]:
    """Yield a sentence or two on each suite.

    Args:
        models: names of the models that are delivered.
    """
    names = set(models)
    if not any(each.system in names for each in results):
        yield "Nothing was scored: there is no model, or no test set of the language is there."
    elif unscored := sorted(names - {each.system for each in results}):
        yield f"Not scored, for no test set of the language is there: {', '.join(unscored)}."
    for suite in dict.fromkeys(each.suite for each in results):
        ranked = of_suite(results, suite)
        delivered = [each for each in ranked if each.system in names]
        if not delivered:
            continue
        best, kind = delivered[0], kinds.get(suite, "")
        does = DOES.get(kind, f"has {best.metric} {{:.1f}}").format(best.value)
        use = _use(best, [each for each in ranked if each.is_control], USES.get(kind, "solve its task"))
        others = [_compared(best, each) for each in ranked if each is not best and not each.is_control]
        said = f"{suite.replace('_', ' ')}: {_name(best)} {does} ({best.low:.1f} to {best.high:.1f})"
        yield ". ".join([said, use, *others]) + "."


def _name(result: Result) -> str:
    return NAMES.get(result.system, result.system)


def _compared(best: Result, other: Result) -> str:
    by = gain(best, other)
    if by is None:
        return f"On other rows {_name(other)} has {other.value:.1f}"
    if by.is_shown:
        return f"That is better than {_name(other)}, by {by}"
    return f"It is not shown which is better, {_name(best)} or {_name(other)}: {by}"


def _use(best: Result, controls: Sequence[Result], use: str) -> str:
    gains = [(by, each) for each in controls if (by := gain(best, each))]
    if not gains:
        return f"No control stands beside it: it is not shown that it helps to {use}"
    # The control that is hardest to beat: where the interval reaches lowest.
    hardest, control = min(gains, key=lambda each: each[0].low)
    beside = f"{hardest} against {_name(control)}, the hardest control to beat"
    if hardest.high < 0:
        return f"Do not use it to {use} yet: {beside}"
    if not hardest.is_shown:
        return f"It is not shown that it helps to {use}: {beside}"
    if best.low < USABLE:
        return f"It helps to {use}, but a person has to check each answer: {beside}"
    return f"It can be used to {use}, if so many errors are bearable: {beside}"


def what_helps(full: Sequence[Result], less: Mapping[str, Sequence[Result]]) -> Iterable[str]:
    """Say what the last quarter of the text and of the labels was worth to the static encoder.

    Args:
        full: results with all of it.
        less: what there was less of -> the results with less.
    """
    gains: dict[str, Gain] = {}
    told = []
    for what, results in less.items():
        by_suite = {
            each.suite: by
            for each in results
            for other in of_suite(full, each.suite)
            if other.system == each.system and (by := gain(other, each))
        }
        if by_suite:
            gains[what] = mean_gain(list(by_suite.values()))
            suites = ", ".join(f"{suite} {by.value:+.1f}" for suite, by in by_suite.items())
            told.append(f"{what} {gains[what]} ({suites})")
    if gains:
        yield f"What the last quarter brought, measured by leaving it out: {'; '.join(told)}. {_most(gains)}"


def _most(gains: Mapping[str, Gain]) -> str:
    shown = sorted(((by, what) for what, by in gains.items() if by.is_shown), key=lambda each: -each[0].value)
    if not shown:
        return "Every interval holds 0: that more of the same helps is not shown."
    first, rest = shown[0], shown[1:]
    others = [by for what, by in gains.items() if what != first[1]]
    if all(by.high < first[0].low for by in others):
        most = " most" if others else ""
        return f"So more {first[1]} would help{most}."
    both = " and ".join(what for _, what in (first, *rest))
    return f"So more {both} would help; whether it would help most is not shown."


def own_labels(from_source: Sequence[Result], from_own: Sequence[Result]) -> Iterable[str]:
    """Say what labels in the language itself bring, beside those of the source language."""
    for own in from_own:
        for other in of_suite(from_source, own.suite):
            if other.system == own.system and (by := gain(own, other)):
                is_better = "better" if by.is_shown else "worse" if by.high < 0 else "not shown to differ"
                yield (
                    f"{own.suite} with labels of the language itself: {own.value:.1f}, with those of the source "
                    f"language {other.value:.1f}, so {is_better}: {by}."
                )


def table_of_gains(results: Sequence[Result], models: Iterable[str]) -> Table:
    """Return each model's difference to every other system on the same rows."""
    names = set(models)
    rows = []
    for suite in dict.fromkeys(each.suite for each in results):
        ranked = of_suite(results, suite)
        for model in (each for each in ranked if each.system in names):
            for other in ranked:
                by = None if other is model else gain(model, other)
                if by:
                    rows.append((suite, model.system, other.system, by.value, by.low, by.high))
    return Table(
        "differences",
        "Differences on the same rows",
        (("suite", ""), ("model", ""), ("against", ""), ("points", "+.1f"), ("from", "+.1f"), ("to", "+.1f")),
        tuple(rows),
        ("From and to: the 95 % interval over rows and seeds. Where it holds 0, no difference is shown.",),
    )
