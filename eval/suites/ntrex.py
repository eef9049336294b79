"""NTREX: retrieval of translations between any two of its languages."""

from pathlib import Path

from xling.eval.readers import parallel
from xling.eval.suite import SUITES, Suite, recorded_files

FILES = recorded_files(__name__)

SUITES.add(
    "ntrex",
    Suite(
        name="ntrex",
        kind="retrieval",
        languages=tuple(f.lang for f in FILES if f.lang != "en"),
        splits=("test",),
        reader=parallel,
        patterns=("ntrex/ntrex.{code}.txt",),
        pivot="en",
        codes={f.lang: Path(f.path).name.split(".")[1] for f in FILES},
        files=FILES,
        metrics=("retrieval_accuracy",),
        licence="CC BY-SA 4.0",
        citation="Federmann et al. 2022, NTREX-128: News test references for MT evaluation of 128 languages",
        url="https://github.com/MicrosoftTranslator/NTREX",
        protocol=(
            "accuracy of the nearest sentence; `de` retrieves English from German, `de-fr` French from German"
        ),
    ),
)
