"""Trust in the language of a corpus, from its share of the crawl and the rates of its identification."""

from functools import lru_cache
from pathlib import Path

from xling.core.output.parts import read_json
from xling.corpora.card.ledgers import ledger_from_json
from xling.corpora.card.publication import STATS
from xling.corpora.langid.rates import Rates, Trust
from xling.corpora.mono.build import Build
from xling.corpora.stages.langid import IDENTIFIED, LangId


def trust_of(build: Build) -> Trust | None:
    """Return what may be expected of the language of a build, None without rates or its share of the crawl.

    Shares that the settings do not give are estimated from the languages found in the routed documents.
    """
    stages = [stage for stage in build.after_dedup if isinstance(stage, LangId)]
    if not stages or stages[0].measured is None:
        return None
    routed = next((uri.partition(":")[2] for uri in build.uris if uri.startswith("routed:")), "")
    if "#" in routed:  # identified again: what was found before is another model's
        routed = ""
    shares = _estimated(stages[0].measured, Path(routed)) if routed and not stages[0].prior else {}
    return stages[0].trust(build.cfg.lang, shares)


@lru_cache(maxsize=2)
def _estimated(rates: Rates, routed: Path) -> dict[str, float]:
    """Return the likeliest share of each language in a crawl that was routed."""
    notes = ledger_from_json(read_json(routed / STATS)["ledger"]).notes
    numbers: dict[str, float] = {}
    for note, number in notes.items():
        if note.startswith(IDENTIFIED):
            base = note.removeprefix(IDENTIFIED).partition("_")[0]
            numbers[base] = numbers.get(base, 0) + number
    return rates.shares_of_found({name: number for name, number in numbers.items() if " " not in name})
