"""``eaf:FILE[#SRC+TGT]``: two tiers of ELAN, a text and its translation, joined by what they stand on."""

from collections.abc import Iterator
from pathlib import Path

from xling.core.errors import UserError
from xling.corpora.common.eaf import Tier, read_tiers, tier_called, tiers_in
from xling.corpora.parallel.sources import (
    PAIR_SOURCES,
    PairReader,
    PairSource,
    Row,
    SourceContext,
    drop_row,
    existing_path,
)
from xling.text.document import Ledger
from xling.text.files.globs import path_and_field


@PAIR_SOURCES.register("eaf")
class Eaf(PairReader):
    """One file; its tiers are named, or say their languages."""

    @classmethod
    def open(cls, rest: str, context: SourceContext) -> list[PairSource]:
        """Return one source of one file."""
        name, tiers = path_and_field(rest)
        names = [each for each in tiers.split("+") if each]
        if len(names) not in (0, 2):
            raise UserError(f"source 'eaf:{rest}' names {len(names)} tiers", "two: eaf:FILE#SRC+TGT")
        path = existing_path(name)
        return [PairSource(f"eaf:{rest}", (path,), lambda ledger: _rows(path, names, context, ledger))]


def _rows(path: Path, names: list[str], context: SourceContext, ledger: Ledger) -> Iterator[Row]:
    """Yield the annotations of the source with those of the target on the same stretch, in the order of the source."""
    tiers = read_tiers(path)
    sides: list[list[Tier]] = []
    for number, lang in enumerate((context.src, context.tgt)):
        sides.append([tier_called(path, tiers, names[number])] if names else tiers_in(path, tiers, lang))
    bases = {key: base for tier in tiers for key, (base, _) in tier.annotations.items()}
    src, tgt = (_by_stretch(side, bases) for side in sides)
    if not src.keys() & tgt.keys():
        raise UserError(
            f"{path}: no annotation of {', '.join(t.name for t in sides[0])} has one of "
            f"{', '.join(t.name for t in sides[1])}",
            "tiers of which one refers to the other, or on the same stretches of time",
            "name two others: eaf:FILE#SRC+TGT",
        )
    for stretch in dict.fromkeys([*src, *tgt]):
        if stretch in src and stretch in tgt:
            yield src[stretch], tgt[stretch], ""
        else:
            drop_row(ledger, "missing_side", f"{path}/{stretch}", src.get(stretch) or tgt.get(stretch) or "")


def _by_stretch(tiers: list[Tier], bases: dict[str, str]) -> dict[str, str]:
    """Return what the annotations of some tiers stand on at the bottom -> their texts, joined."""
    texts: dict[str, list[str]] = {}
    for tier in tiers:
        for base, text in tier.annotations.values():
            seen = set[str]()
            while base in bases and base not in seen:
                seen.add(base)
                base = bases[base]
            if text:
                texts.setdefault(base, []).append(text)
    return {stretch: " ".join(parts) for stretch, parts in texts.items()}
