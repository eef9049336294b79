"""TyDi QA gold passage: span answers to questions written in each language."""

from xling.eval.rows.readers import squad
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "tydiqa_gold",
    Suite(
        name="tydiqa_gold",
        kind="span",
        languages=("en", "ar", "bn", "fi", "id", "ko", "ru", "sw", "te"),
        splits=("train", "dev"),
        reader=squad,
        patterns=("tydiqa/tydiqa.goldp.{lang}.{split}.json",),
        metrics=("squad_f1", "squad_em"),
        licence="Apache-2.0; Wikipedia text CC BY-SA",
        citation="Clark et al. 2020, TyDi QA: A benchmark for information-seeking question answering",
        url="https://github.com/google-research-datasets/tydiqa",
        protocol=(
            "token F1 and exact match by SQuAD 1.1's rules, as XTREME does; dev rows are the scored ones"
        ),
    ),
)
