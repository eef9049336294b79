"""Multi30k task 1: translation of image captions."""

from xling.eval.readers import translation
from xling.eval.suite import SUITES, Suite, recorded_files

FILES = recorded_files(__name__)

SUITES.add(
    "multi30k",
    Suite(
        name="multi30k",
        kind="mt",
        languages=tuple(dict.fromkeys(f.lang for f in FILES)),
        splits=("train", "dev", "test"),
        reader=translation,
        patterns=("multi30k/{split}.{src}", "multi30k/{split}.{tgt}"),
        split_codes={"dev": "val", "test": "test_2016_flickr"},
        files=FILES,
        metrics=("bleu", "chrf", "ter", "in_language"),
        licence="non-commercial research and education; Flickr30K terms",
        citation="Elliott et al. 2016, Multi30K: Multilingual English-German image descriptions",
        url="https://github.com/multi30k/dataset",
        protocol=(
            "sacreBLEU on raw references (published Multi30k figures are tokenised and lower-cased: not "
            "comparable)"
        ),
    ),
)
