"""Multi30k task 1: translation of image captions."""

from xling.eval.rows.readers import translation
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files

FILES = recorded_files(__name__)
SPLITS = {"dev": "val", "test": "test_2016_flickr"}

SUITES.add(
    "multi30k",
    Suite(
        name="multi30k",
        kind="mt",
        languages=tuple(dict.fromkeys(f.lang for f in FILES)),
        splits=("train", "dev", "test"),
        reader=translation,
        patterns=("multi30k/{split}.{src}", "multi30k/{split}.{tgt}"),
        split_codes=SPLITS,
        official=tuple(
            Layout(
                tuple(f"{top}/data/task1/raw/{{split}}.{{{side}}}" for side in ("src", "tgt")),
                split_codes=SPLITS,
            )
            for top in ("dataset", "multi30k")
        ),
        test_sets=("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"),
        files=FILES,
        metrics=("bleu", "chrf", "ter", "in_language"),
        is_parallel=True,
        licence="non-commercial research and education; Flickr30K terms",
        citation="Elliott et al. 2016, Multi30K: Multilingual English-German image descriptions",
        url="https://github.com/multi30k/dataset",
        protocol=(
            "sacreBLEU on raw references (published Multi30k figures are tokenised and lower-cased: not "
            "comparable)"
        ),
    ),
)
