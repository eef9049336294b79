"""``toyworld[:NUM]``: synthetic pairs of `xling.corpora.toyworld`, for trying things out."""

from collections.abc import Iterator

from xling.core.errors import UserError, unknown
from xling.corpora import toyworld
from xling.corpora.parallel.sources import PAIR_SOURCES, PairReader, PairSource, Row, SourceContext
from xling.text.document import Ledger

_NUM_PAIRS = 4000


@PAIR_SOURCES.register("toyworld")
class Toyworld(PairReader):
    """Seeded pairs of a closed world."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of seeded pairs."""
        if rest and not rest.isdecimal():
            raise UserError(
                f"source 'toyworld:{rest}': {rest!r} is not a number", "toyworld or toyworld:NUMBER_OF_PAIRS"
            )
        for lang in (context.src, context.tgt):
            if lang.code not in toyworld.LANGS:
                raise unknown("toyworld language", lang.code, toyworld.LANGS)

        def rows(ledger: Ledger) -> Iterator[Row]:
            num_pairs = int(rest or _NUM_PAIRS)
            for src, tgt in toyworld.para(context.src.code, context.tgt.code, num_pairs, context.seed):
                yield src, tgt, ""

        return [PairSource(f"toyworld:{rest}".rstrip(":"), (), rows, "synthetic, MIT")]
