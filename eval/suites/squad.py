"""SQuAD 1.1: the English training rows of XQuAD and MLQA, in the format of its files."""

from xling.eval.rows.readers import squad
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "squad",
    Suite(
        name="squad",
        kind="span",
        languages=("en",),
        splits=("train", "dev"),
        reader=squad,
        patterns=("squad/{split}.{lang}.json",),
        metrics=("squad_f1", "squad_em"),
        licence="CC BY-SA 4.0",
        citation="Rajpurkar et al. 2016, SQuAD: 100,000+ questions for machine comprehension of text",
        url="https://rajpurkar.github.io/SQuAD-explorer",
        protocol="token F1 and exact match; translated training rows go beside it as squad/train.de.json",
    ),
)
