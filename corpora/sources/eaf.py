"""Source ``eaf:GLOB[#TIER]``: transcriptions of ELAN."""

from collections.abc import Iterator
from pathlib import Path

from xling.core import languages
from xling.corpora.common.eaf import read_tiers, tier_called, tiers_in
from xling.corpora.sources.source import SOURCES
from xling.corpora.sources.whole_file import WholeFiles
from xling.text.document import Ledger


@SOURCES.register("eaf")
class Eaf(WholeFiles):
    """One document a tier: the named one, those in the language of the corpus, or those along the time."""

    endings = (".eaf",)
    has_fields = True

    def texts(self, path: Path, ledger: Ledger) -> Iterator[tuple[str, str]]:
        """Yield the text of each tier, an annotation a line."""
        tiers = read_tiers(path)
        if self.field:
            chosen = [tier_called(path, tiers, self.field)]
        elif self.context.one_lang and any(tier.lang for tier in tiers):
            chosen = tiers_in(path, tiers, languages.get(self.context.lang))
        else:
            chosen = [tier for tier in tiers if not tier.parent]
        if left_out := len(tiers) - len(chosen):
            ledger.count_event("tiers that were not read", left_out)
        for tier in chosen:
            yield "\n".join(text for _, text in tier.annotations.values()), ""
