"""Words that a report uses, explained before they are used: those that the page has."""

from __future__ import annotations

import html
import re

TERMS: dict[str, tuple[str, str]] = {
    "source": ("source", "the language that the model learned the task in"),
    "zero shot": ("zero_shot", "the model has seen no labelled row of the language that it is scored in"),
    "control": ("controls?|n-gram|majority", "a system without a model, which a model has to exceed"),
    "span F1": (
        "span_f1",
        "names are right where borders and kind are both right; mean of precision and recall",
    ),
    "average without source": ("average without source", "mean over all languages but the source"),
    "transfer gap": ("transfer gap", "score in the source minus the mean of the others: smaller is better"),
    "95 % interval": ("95 %", "where the score would lie in 95 of 100 test sets of this size"),
    "seed": ("seeds?", "number that training begins from: another one gives a slightly other model"),
    "p (Holm)": (
        r"p \(Holm\)",
        "chance of so large a difference by luck, adjusted for the number of comparisons",
    ),
    "nats": ("nats", "unit of loss: its exponential is the number of equally likely choices"),
    "perplexity": ("perplexity", "exponential of the loss: how many choices the model hesitates between"),
    "MFU": ("mfu", "share of the processor's best speed that the training used"),
    "gnorm": ("gnorm", "length of the gradient: how large a step the data asked for"),
}
"""Term -> the words on a page that mean it, as an expression, and its meaning."""


def glossary(page: str) -> str:
    """Return a folded list of the terms that occur in the HTML of a page; empty where none does."""
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    used = [
        f"<dt>{html.escape(term)}</dt><dd>{html.escape(meaning)}</dd>"
        for term, (words, meaning) in TERMS.items()
        if re.search(rf"(?<!\w)(?:{words})(?!\w)", text, re.I)
    ]
    return f"<details><summary>Words used here</summary><dl>{''.join(used)}</dl></details>" if used else ""
