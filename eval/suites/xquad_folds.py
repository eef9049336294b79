"""XQuAD divided into training, dev and test paragraphs, for use without SQuAD's training rows."""

import dataclasses

from xling.core.sampling import rng
from xling.eval.rows.suite import SUITES, Example, SuiteFile

SIZES = {"train": 714, "dev": 128, "test": 348}
WHOLE = SUITES["xquad"]


def in_fold(example: Example, split: str) -> bool:
    """Assign six of ten paragraphs to train, one to dev, three to test; the same in every language."""
    draw = int(rng("xquad_folds", int(example.fields["paragraph"])).integers(10))
    return {"train": draw < 6, "dev": draw == 6, "test": draw > 6}[split]


def _in_split(file: SuiteFile, split: str) -> SuiteFile:
    return dataclasses.replace(file, split=split, num_rows=SIZES[split])


SUITES.add(
    "xquad_folds",
    dataclasses.replace(
        WHOLE,
        name="xquad_folds",
        splits=tuple(SIZES),
        files=tuple(_in_split(f, split) for f in WHOLE.files for split in SIZES),
        keep=in_fold,
        online=None,
        train_from="",
        protocol=(
            "XQuAD's rules; trained on six tenths of XQuAD's own English paragraphs and scored on the three "
            "tenths held out: not comparable with published XQuAD results, which train on SQuAD"
        ),
    ),
)
