"""MLQA: span answers to questions, in the format of its files."""

from xling.eval.rows.readers import squad
from xling.eval.rows.suite import SUITES, Suite

SUITES.add(
    "mlqa",
    Suite(
        name="mlqa",
        kind="span",
        languages=("en", "ar", "de", "es", "hi", "vi", "zh"),
        splits=("dev", "test"),
        reader=squad,
        patterns=("mlqa/{split}/{split}-context-{lang}-question-{lang}.json",),
        metrics=("mlqa_f1", "mlqa_em"),
        is_parallel=True,
        licence="CC BY-SA 3.0",
        citation="Lewis et al. 2020, MLQA: Evaluating cross-lingual extractive question answering",
        url="https://github.com/facebookresearch/MLQA",
        protocol=(
            "token F1 and exact match by MLQA's rules per language; context and question in the same language"
        ),
        train_from="squad",
    ),
)
