"""Tatoeba: retrieval of the English translation among the sentences of one language."""

from pathlib import Path

from xling.eval.rows.readers import parallel
from xling.eval.rows.suite import SUITES, Suite, recorded_files

FILES = recorded_files(__name__)
_CODES = (
    "af ar bg bn de el es et eu fa fi fr he hi hu id it ja jv ka kk ko ml mr nl pt ru sw ta te th "
    "tl tr ur vi zh"
)
XTREME_36 = tuple(_CODES.split())
CODES = {f.lang: Path(f.path).name.split("-")[0] for f in FILES}

SUITES.add(
    "tatoeba",
    Suite(
        name="tatoeba",
        kind="retrieval",
        languages=XTREME_36,
        extra=tuple(lang for lang in CODES if lang not in XTREME_36),
        splits=("test",),
        reader=parallel,
        patterns=("tatoeba/{code}-eng.{code}", "tatoeba/{code}-eng.eng"),
        codes=CODES | {"jv": "jav", "ka": "kat", "ml": "mal", "mr": "mar", "te": "tel", "tl": "tgl"},
        files=FILES,
        metrics=("retrieval_accuracy",),
        licence="CC BY 2.0 FR",
        citation=(
            "Artetxe and Schwenk 2019, Massively multilingual sentence embeddings for zero-shot transfer"
        ),
        url="https://github.com/facebookresearch/LASER",
        protocol=(
            "accuracy of the nearest English sentence to each foreign one; layer, pooling and distance in"
            " the signature"
        ),
    ),
)
