"""Multi30k's captions as a retrieval set: beside Tatoeba and NTREX it shows what pairs teach in their own domain."""

from xling.eval.rows.readers import parallel
from xling.eval.rows.suite import SUITES, Layout, Suite, recorded_files
from xling.eval.suites.multi30k import SPLITS

FILES = recorded_files(__name__)

SUITES.add(
    "multi30k_retrieval",
    Suite(
        name="multi30k_retrieval",
        kind="retrieval",
        languages=tuple(f.lang for f in FILES if f.lang != "en"),
        splits=("test",),
        reader=parallel,
        patterns=("multi30k/{split}.{lang}",),
        split_codes=SPLITS,
        pivot="en",
        official=tuple(
            Layout((f"{top}/data/task1/raw/{{split}}.{{lang}}",), split_codes=SPLITS)
            for top in ("dataset", "multi30k")
        ),
        test_sets=("test_2017_flickr", "test_2017_mscoco", "test_2018_flickr"),
        files=FILES,
        metrics=("retrieval_accuracy",),
        is_parallel=True,
        licence="non-commercial research and education; Flickr30K terms",
        citation="Elliott et al. 2016, Multi30K: Multilingual English-German image descriptions",
        url="https://github.com/multi30k/dataset",
        protocol=(
            "accuracy of the nearest caption; `de` retrieves English from German, `de-fr` French from German"
        ),
    ),
)
